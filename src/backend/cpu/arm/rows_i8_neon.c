/* rows_i8_neon.c: rows quantized to int8 on any 64-bit Arm; see vector/rows_i8.h.
 * Profile: fast (levers int8, int16, norm-rows), the bits of ref/rows_i8.c.
 */
#include "backend/cpu/arm/i8_neon.h"

#include "backend/cpu/vector/rows_i8.h"

MICA_DECLARE_KERNELS(rows_i8_neon);
const cpu_kernel mica_kernels_rows_i8_neon[] = {
    {"quantize_rows_neon", OP_QUANTIZE_ROWS, ISA_NEON, i8_declines_rows, n_units_rows,
     i8_run_quantize, i8_scratch_row},
    {"rms_norm_i8_neon", OP_RMS_NORM_I8, ISA_NEON, declines_norm, n_units_rows, i8_run_rms_norm,
     i8_scratch_row},
    {"layer_norm_i8_neon", OP_LAYER_NORM_I8, ISA_NEON, declines_norm, n_units_rows,
     i8_run_layer_norm, i8_scratch_row},
};
const int mica_n_kernels_rows_i8_neon =
    sizeof(mica_kernels_rows_i8_neon) / sizeof(mica_kernels_rows_i8_neon[0]);
