/* flash_neon.c: attention in blocks of rows; see vector/flash.h.
 * Profile: fast (lever flash), the bits of ref/flash.c.
 */
#include "backend/cpu/arm/v16_neon.h"

#include "backend/cpu/vector/flash.h"

MICA_DECLARE_KERNELS(flash_neon);
const cpu_kernel mica_kernels_flash_neon[] = {
    {"flash_neon", OP_FLASH_ATTENTION, ISA_NEON, flash_declines, flash_n_units, flash_run,
     flash_scratch},
};
const int mica_n_kernels_flash_neon = 1;
