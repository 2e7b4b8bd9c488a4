/* rows_i8.h: rows quantized to int8, as they stand or normalized first; the bits of ref/rows_i8.c.
 *
 * Unit: one row, widened to f32 in scratch. Include an i8 header first.
 */
#ifndef MICA_BACKEND_CPU_VECTOR_ROWS_I8_H
#define MICA_BACKEND_CPU_VECTOR_ROWS_I8_H

#include "backend/cpu/vector/group_i8.h"
#include "backend/cpu/vector/norm.h"

static inline const char *i8_declines_rows(const kernel_call *call) {
    return is_dense_row(&call->src[0]) ? NULL : "the elements of a row do not lie side by side";
}

static inline size_t i8_scratch_row(const kernel_call *call) {
    return sizeof(float) * (size_t)rows_i8_padded(operand_width(&call->src[0]));
}

/* x has room for n rounded up to 128; what lies behind n is zero. */
static inline void i8_quantize_row(const float *x, int64_t n, bool fine, uint8_t *row) {
    for (int64_t g = 0; g * ROWS_I8_GROUP < rows_i8_padded(n); g++)
        i8_quantize_at(x + g * ROWS_I8_GROUP, g, n, fine, row);
}

static inline void i8_run_quantize(const kernel_call *call, int64_t begin, int64_t end,
                                   void *scratch) {
    const kernel_operand *x = &call->src[0], *out = &call->out;
    int64_t n = operand_width(x);
    bool fine = rows_i8_is_fine(operand_width(out), n);
    float *wide = scratch;
    for (int64_t r = begin; r < end; r++) {
        uint8_t *row = (uint8_t *)out->data + operand_row(out, r);
        widen(at(x->data, x->dtype, operand_row(x, r)), x->dtype, n, wide);
        for (int64_t i = padded(n); i < rows_i8_padded(n); i++)
            wide[i] = 0.0f;
        i8_quantize_row(wide, n, fine, row);
    }
}

ALWAYS_INLINE void i8_run_norm(const kernel_call *call, int64_t begin, int64_t end, float *wide,
                               bool is_rms) {
    const kernel_operand *out = &call->out;
    int64_t n = operand_width(&call->src[0]);
    bool fine = rows_i8_is_fine(operand_width(out), n);
    for (int64_t r = begin; r < end; r++) {
        v16 inv = norm_open(call, r, wide, is_rms);
        for (int64_t i = 0; i < n; i += 16)
            v16_store(wide + i, norm_chunk(call, wide, inv, i, MICA_F32, is_rms));
        for (int64_t i = n; i < rows_i8_padded(n); i++)
            wide[i] = 0.0f;
        i8_quantize_row(wide, n, fine, (uint8_t *)out->data + operand_row(out, r));
    }
}

static inline void i8_run_rms_norm(const kernel_call *call, int64_t begin, int64_t end,
                                   void *scratch) {
    i8_run_norm(call, begin, end, scratch, true);
}

static inline void i8_run_layer_norm(const kernel_call *call, int64_t begin, int64_t end,
                                     void *scratch) {
    i8_run_norm(call, begin, end, scratch, false);
}

#endif
