/* elementwise_avx512.c: elementwise ops and rope over 16 lanes; see vector/elementwise.h.
 * Profile: exact, the bits of ref/elementwise.c and ref/rope.c.
 */
#include "backend/cpu/x86/v16_avx512.h"

#include "backend/cpu/vector/elementwise.h"

MICA_DECLARE_KERNELS(elementwise_avx512);
const cpu_kernel mica_kernels_elementwise_avx512[] = {
    {"add_avx512", OP_ADD, ISA_AVX512, declines_elements, n_units_elements, run_elements, NULL},
    {"mul_avx512", OP_MUL, ISA_AVX512, declines_elements, n_units_elements, run_elements, NULL},
    {"scale_avx512", OP_SCALE, ISA_AVX512, declines_elements, n_units_elements, run_elements, NULL},
    {"silu_avx512", OP_SILU, ISA_AVX512, declines_elements, n_units_elements, run_elements, NULL},
    {"gelu_avx512", OP_GELU, ISA_AVX512, declines_elements, n_units_elements, run_elements, NULL},
    {"gelu_tanh_avx512", OP_GELU_TANH, ISA_AVX512, declines_elements, n_units_elements,
     run_elements, NULL},
    {"sigmoid_avx512", OP_SIGMOID, ISA_AVX512, declines_elements, n_units_elements, run_elements,
     NULL},
    {"softcap_avx512", OP_SOFTCAP, ISA_AVX512, declines_elements, n_units_elements, run_elements,
     NULL},
    {"relu2_avx512", OP_RELU2, ISA_AVX512, declines_elements, n_units_elements, run_elements, NULL},
    {"clamp_avx512", OP_CLAMP, ISA_AVX512, declines_elements, n_units_elements, run_elements, NULL},
    {"cast_avx512", OP_CAST, ISA_AVX512, declines_elements, n_units_elements, run_elements, NULL},
    {"expert_combine_avx512", OP_EXPERT_COMBINE, ISA_AVX512, declines_elements,
     n_units_elements, run_combine, NULL},
    {"rope_avx512", OP_ROPE, ISA_AVX512, declines_elements, n_units_rope, run_rope, scratch_rope},
};
const int mica_n_kernels_elementwise_avx512 =
    sizeof(mica_kernels_elementwise_avx512) / sizeof(mica_kernels_elementwise_avx512[0]);
