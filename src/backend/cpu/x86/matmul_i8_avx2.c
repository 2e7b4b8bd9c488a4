/* matmul_i8_avx2.c: matmuls over rows quantized to int8; see vector/matmul_i8.h.
 * Profile: fast (lever int8), the bits of ref/matmul_i8.c.
 */
#include "backend/cpu/x86/i8_avx2.h"

#include "backend/cpu/vector/matmul_i8.h"

MICA_DECLARE_KERNELS(matmul_i8_avx2);
const cpu_kernel mica_kernels_matmul_i8_avx2[] = {
    {"matmul_i8_avx2", OP_MATMUL_I8, ISA_AVX2, i8_declines, i8_n_units, i8_run, i8_scratch},
    {"glu_matmul_i8_avx2", OP_GLU_MATMUL_I8, ISA_AVX2, i8_declines, i8_n_units, i8_run, i8_scratch},
    {"glu_rows_i8_avx2", OP_GLU_ROWS_I8, ISA_AVX2, i8_declines, i8_n_units_groups, i8_run_groups,
     i8_scratch_groups},
    {"expert_matmul_i8_avx2", OP_EXPERT_MATMUL_I8, ISA_AVX2, i8_declines_experts,
     i8_n_units_experts, i8_run_experts, i8_scratch_experts},
    {"expert_glu_matmul_i8_avx2", OP_EXPERT_GLU_MATMUL_I8, ISA_AVX2, i8_declines_experts,
     i8_n_units_experts, i8_run_experts, i8_scratch_experts},
};
const int mica_n_kernels_matmul_i8_avx2 =
    sizeof(mica_kernels_matmul_i8_avx2) / sizeof(mica_kernels_matmul_i8_avx2[0]);
