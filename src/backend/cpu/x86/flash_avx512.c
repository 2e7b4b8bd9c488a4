/* flash_avx512.c: attention in blocks of rows; see vector/flash.h.
 * Profile: fast (lever flash), the bits of ref/flash.c.
 */
#include "backend/cpu/x86/v16_avx512.h"

#include "backend/cpu/vector/flash.h"

MICA_DECLARE_KERNELS(flash_avx512);
const cpu_kernel mica_kernels_flash_avx512[] = {
    {"flash_avx512", OP_FLASH_ATTENTION, ISA_AVX512, flash_declines, flash_n_units, flash_run,
     flash_scratch},
};
const int mica_n_kernels_flash_avx512 = 1;
