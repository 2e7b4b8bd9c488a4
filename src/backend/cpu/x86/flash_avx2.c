/* flash_avx2.c: attention in blocks of rows; see vector/flash.h.
 * Profile: fast (lever flash), the bits of ref/flash.c.
 */
#include "backend/cpu/x86/v16_avx2.h"

#include "backend/cpu/vector/flash.h"

MICA_DECLARE_KERNELS(flash_avx2);
const cpu_kernel mica_kernels_flash_avx2[] = {
    {"flash_avx2", OP_FLASH_ATTENTION, ISA_AVX2, flash_declines, flash_n_units, flash_run,
     flash_scratch},
};
const int mica_n_kernels_flash_avx2 = 1;
