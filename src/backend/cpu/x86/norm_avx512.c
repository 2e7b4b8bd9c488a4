/* norm_avx512.c: rms_norm and layer_norm over 16 lanes; see vector/norm.h.
 * Profile: exact, the bits of ref/norm.c.
 */
#include "backend/cpu/x86/v16_avx512.h"

#include "backend/cpu/vector/norm.h"

MICA_DECLARE_KERNELS(norm_avx512);
const cpu_kernel mica_kernels_norm_avx512[] = {
    {"rms_norm_avx512", OP_RMS_NORM, ISA_AVX512, declines_norm, n_units_rows, run_rms_norm,
     scratch_norm},
    {"layer_norm_avx512", OP_LAYER_NORM, ISA_AVX512, declines_norm, n_units_rows, run_layer_norm,
     scratch_norm},
};
const int mica_n_kernels_norm_avx512 = 2;
