/* delta_avx512.c: the gated delta rule over 16 lanes; see vector/delta.h.
 * Profile: exact, the bits of ref/delta.c.
 */
#include "backend/cpu/x86/v16_avx512.h"

#include "backend/cpu/vector/delta.h"

MICA_DECLARE_KERNELS(delta_avx512);
const cpu_kernel mica_kernels_delta_avx512[] = {
    {"gated_delta_avx512", OP_GATED_DELTA, ISA_AVX512, declines_delta, n_units_delta, run_delta,
     scratch_delta},
};
const int mica_n_kernels_delta_avx512 = 1;
