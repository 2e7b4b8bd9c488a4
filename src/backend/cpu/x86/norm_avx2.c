/* norm_avx2.c: rms_norm and layer_norm over 16 lanes; see vector/norm.h.
 * Profile: exact, the bits of ref/norm.c.
 */
#include "backend/cpu/x86/v16_avx2.h"

#include "backend/cpu/vector/norm.h"

MICA_DECLARE_KERNELS(norm_avx2);
const cpu_kernel mica_kernels_norm_avx2[] = {
    {"rms_norm_avx2", OP_RMS_NORM, ISA_AVX2, declines_norm, n_units_rows, run_rms_norm,
     scratch_norm},
    {"layer_norm_avx2", OP_LAYER_NORM, ISA_AVX2, declines_norm, n_units_rows, run_layer_norm,
     scratch_norm},
};
const int mica_n_kernels_norm_avx2 = 2;
