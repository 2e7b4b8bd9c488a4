/* rows_i8.c: rows quantized to int8 (graph/rows_i8.h), as they stand or normalized first.
 *
 * quantize_rows: x [n_rows, n] -> u8 [n_rows, rows_i8_bytes(n, fine)].
 * rms_norm_i8, layer_norm_i8: the rows of ref/norm.c in f32, quantized; so the bits are those of
 * the two steps. Unit: one row.
 * Profile: fast (levers int8, int16, norm-rows). Source: docs/numerics.md 5.
 */
#include "backend/cpu/ref/norm_row.h"
#include "backend/cpu/ref/rows_i8.h"

static size_t scratch_row(const kernel_call *call) {
    return sizeof(float) * (size_t)operand_width(&call->src[0]);
}

static void run(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    const kernel_operand *x = &call->src[0], *out = &call->out;
    int64_t n = operand_width(x);
    bool fine = rows_i8_is_fine(operand_width(out), n);
    for (int64_t r = begin; r < end; r++) {
        operand_load_row(x, r, scratch);
        if (call->op == OP_RMS_NORM_I8) rms_norm_row(call, scratch, MICA_F32);
        if (call->op == OP_LAYER_NORM_I8) layer_norm_row(call, scratch, MICA_F32);
        quantize_row(scratch, n, fine, (uint8_t *)out->data + operand_row(out, r));
    }
}

MICA_DECLARE_KERNELS(rows_i8_ref);
const cpu_kernel mica_kernels_rows_i8_ref[] = {
    {"quantize_rows_ref", OP_QUANTIZE_ROWS, ISA_REF, declines_none, n_units_rows, run, scratch_row},
    {"rms_norm_i8_ref", OP_RMS_NORM_I8, ISA_REF, declines_none, n_units_rows, run, scratch_row},
    {"layer_norm_i8_ref", OP_LAYER_NORM_I8, ISA_REF, declines_none, n_units_rows, run, scratch_row},
};
const int mica_n_kernels_rows_i8_ref =
    sizeof(mica_kernels_rows_i8_ref) / sizeof(mica_kernels_rows_i8_ref[0]);
