/* norm_neon.c: rms_norm and layer_norm over 16 lanes; see vector/norm.h.
 * Profile: exact, the bits of ref/norm.c.
 */
#include "backend/cpu/arm/v16_neon.h"

#include "backend/cpu/vector/norm.h"

MICA_DECLARE_KERNELS(norm_neon);
const cpu_kernel mica_kernels_norm_neon[] = {
    {"rms_norm_neon", OP_RMS_NORM, ISA_NEON, declines_norm, n_units_rows, run_rms_norm,
     scratch_norm},
    {"layer_norm_neon", OP_LAYER_NORM, ISA_NEON, declines_norm, n_units_rows, run_layer_norm,
     scratch_norm},
};
const int mica_n_kernels_norm_neon = 2;
