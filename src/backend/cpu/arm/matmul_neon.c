/* matmul_neon.c: matmul and the gated pair over 16 lanes; see vector/matmul.h.
 * Profile: exact, the bits of ref/matmul.c and ref/glu.c.
 */
#include "backend/cpu/arm/v16_neon.h"

#include "backend/cpu/vector/matmul.h"

MICA_DECLARE_KERNELS(matmul_neon);
const cpu_kernel mica_kernels_matmul_neon[] = {
    {"matmul_neon", OP_MATMUL, ISA_NEON, declines_matmul, n_units_outs, run_matmul, scratch_matmul},
    {"glu_matmul_neon", OP_GLU_MATMUL, ISA_NEON, declines_matmul, n_units_outs, run_matmul,
     scratch_matmul},
    {"expert_matmul_neon", OP_EXPERT_MATMUL, ISA_NEON, declines_experts, n_units_experts,
     run_experts, scratch_experts},
    {"expert_glu_matmul_neon", OP_EXPERT_GLU_MATMUL, ISA_NEON, declines_experts, n_units_experts,
     run_experts, scratch_experts},
};
const int mica_n_kernels_matmul_neon = 4;
