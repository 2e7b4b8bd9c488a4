/* delta_neon.c: the gated delta rule over 16 lanes; see vector/delta.h.
 * Profile: exact, the bits of ref/delta.c.
 */
#include "backend/cpu/arm/v16_neon.h"

#include "backend/cpu/vector/delta.h"

MICA_DECLARE_KERNELS(delta_neon);
const cpu_kernel mica_kernels_delta_neon[] = {
    {"gated_delta_neon", OP_GATED_DELTA, ISA_NEON, declines_delta, n_units_delta, run_delta,
     scratch_delta},
};
const int mica_n_kernels_delta_neon = 1;
