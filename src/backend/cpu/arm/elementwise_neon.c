/* elementwise_neon.c: elementwise ops and rope over 16 lanes; see vector/elementwise.h.
 * Profile: exact, the bits of ref/elementwise.c and ref/rope.c.
 */
#include "backend/cpu/arm/v16_neon.h"

#include "backend/cpu/vector/elementwise.h"

MICA_DECLARE_KERNELS(elementwise_neon);
const cpu_kernel mica_kernels_elementwise_neon[] = {
    {"add_neon", OP_ADD, ISA_NEON, declines_elements, n_units_elements, run_elements, NULL},
    {"mul_neon", OP_MUL, ISA_NEON, declines_elements, n_units_elements, run_elements, NULL},
    {"scale_neon", OP_SCALE, ISA_NEON, declines_elements, n_units_elements, run_elements, NULL},
    {"silu_neon", OP_SILU, ISA_NEON, declines_elements, n_units_elements, run_elements, NULL},
    {"gelu_neon", OP_GELU, ISA_NEON, declines_elements, n_units_elements, run_elements, NULL},
    {"gelu_tanh_neon", OP_GELU_TANH, ISA_NEON, declines_elements, n_units_elements, run_elements,
     NULL},
    {"sigmoid_neon", OP_SIGMOID, ISA_NEON, declines_elements, n_units_elements, run_elements, NULL},
    {"softcap_neon", OP_SOFTCAP, ISA_NEON, declines_elements, n_units_elements, run_elements, NULL},
    {"relu2_neon", OP_RELU2, ISA_NEON, declines_elements, n_units_elements, run_elements, NULL},
    {"clamp_neon", OP_CLAMP, ISA_NEON, declines_elements, n_units_elements, run_elements, NULL},
    {"cast_neon", OP_CAST, ISA_NEON, declines_elements, n_units_elements, run_elements, NULL},
    {"expert_combine_neon", OP_EXPERT_COMBINE, ISA_NEON, declines_elements,
     n_units_elements, run_combine, NULL},
    {"rope_neon", OP_ROPE, ISA_NEON, declines_elements, n_units_rope, run_rope, scratch_rope},
};
const int mica_n_kernels_elementwise_neon =
    sizeof(mica_kernels_elementwise_neon) / sizeof(mica_kernels_elementwise_neon[0]);
