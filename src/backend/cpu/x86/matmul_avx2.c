/* matmul_avx2.c: matmul, plain and turned, and the gated pair over 16 lanes; see vector/matmul.h.
 * Profile: exact, the bits of ref/matmul.c and ref/glu.c.
 */
#include "backend/cpu/x86/v16_avx2.h"

#include "backend/cpu/vector/matmul_t.h"

MICA_DECLARE_KERNELS(matmul_avx2);
const cpu_kernel mica_kernels_matmul_avx2[] = {
    {"matmul_avx2", OP_MATMUL, ISA_AVX2, declines_matmul, n_units_outs, run_matmul, scratch_matmul},
    {"glu_matmul_avx2", OP_GLU_MATMUL, ISA_AVX2, declines_matmul, n_units_outs, run_matmul,
     scratch_matmul},
    {"expert_matmul_avx2", OP_EXPERT_MATMUL, ISA_AVX2, declines_experts, n_units_experts,
     run_experts, scratch_experts},
    {"expert_glu_matmul_avx2", OP_EXPERT_GLU_MATMUL, ISA_AVX2, declines_experts, n_units_experts,
     run_experts, scratch_experts},
    {"matmul_t_avx2", OP_MATMUL_T, ISA_AVX2, declines_turned, n_units_turned, run_turned,
     scratch_turned},
};
const int mica_n_kernels_matmul_avx2 = 5;
