/* rows_i8_avx512vnni.c: rows quantized to int8; see vector/rows_i8.h.
 * Profile: fast (levers int8, int16, norm-rows), the bits of ref/rows_i8.c.
 */
#include "backend/cpu/x86/i8_avx512vnni.h"

#include "backend/cpu/vector/rows_i8.h"

MICA_DECLARE_KERNELS(rows_i8_avx512vnni);
const cpu_kernel mica_kernels_rows_i8_avx512vnni[] = {
    {"quantize_rows_avx512vnni", OP_QUANTIZE_ROWS, ISA_AVX512VNNI, i8_declines_rows, n_units_rows,
     i8_run_quantize, i8_scratch_row},
    {"rms_norm_i8_avx512vnni", OP_RMS_NORM_I8, ISA_AVX512VNNI, declines_norm, n_units_rows,
     i8_run_rms_norm, i8_scratch_row},
    {"layer_norm_i8_avx512vnni", OP_LAYER_NORM_I8, ISA_AVX512VNNI, declines_norm, n_units_rows,
     i8_run_layer_norm, i8_scratch_row},
};
const int mica_n_kernels_rows_i8_avx512vnni =
    sizeof(mica_kernels_rows_i8_avx512vnni) / sizeof(mica_kernels_rows_i8_avx512vnni[0]);
