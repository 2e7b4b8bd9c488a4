/* matmul_i8_neon.c: matmuls over rows quantized to int8 on any 64-bit Arm; see
 * vector/matmul_i8.h. Profile: fast (lever int8), the bits of ref/matmul_i8.c.
 */
#include "backend/cpu/arm/i8_neon.h"

#include "backend/cpu/vector/matmul_i8.h"

MICA_DECLARE_KERNELS(matmul_i8_neon);
const cpu_kernel mica_kernels_matmul_i8_neon[] = {
    {"quantize_rows_neon", OP_QUANTIZE_ROWS, ISA_NEON, i8_declines_rows, n_units_rows,
     i8_run_quantize, i8_scratch_row},
    {"matmul_i8_neon", OP_MATMUL_I8, ISA_NEON, i8_declines, i8_n_units, i8_run, i8_scratch},
    {"glu_matmul_i8_neon", OP_GLU_MATMUL_I8, ISA_NEON, i8_declines, i8_n_units, i8_run, i8_scratch},
    {"expert_matmul_i8_neon", OP_EXPERT_MATMUL_I8, ISA_NEON, i8_declines_experts,
     i8_n_units_experts, i8_run_experts, i8_scratch_experts},
    {"expert_glu_matmul_i8_neon", OP_EXPERT_GLU_MATMUL_I8, ISA_NEON, i8_declines_experts,
     i8_n_units_experts, i8_run_experts, i8_scratch_experts},
};
const int mica_n_kernels_matmul_i8_neon =
    sizeof(mica_kernels_matmul_i8_neon) / sizeof(mica_kernels_matmul_i8_neon[0]);
