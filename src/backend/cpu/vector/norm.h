/* norm.h: rms_norm and layer_norm, once for every ISA; the sums and roundings of ref/norm.c.
 *
 * Unit: one row, widened to f32 in scratch.
 */
#ifndef MICA_BACKEND_CPU_VECTOR_NORM_H
#define MICA_BACKEND_CPU_VECTOR_NORM_H

#include <math.h>

#include "backend/cpu/vector/access.h"

static inline const char *declines_norm(const kernel_call *call) {
    bool dense = is_dense_row(&call->out);
    for (int i = 0; i < call->n_src; i++)
        dense = dense && is_dense_row(&call->src[i]);
    return dense ? NULL : "the elements of a row do not lie side by side";
}

static inline size_t scratch_norm(const kernel_call *call) {
    return sizeof(float) * (size_t)padded(operand_width(&call->src[0]));
}

static inline float sum_of_squares(const float *x, int64_t n) {
    v16 sum = v16_zero();
    for (int64_t i = 0; i < n; i += 16)
        sum = v16_add(sum, v16_mul(v16_load(x + i), v16_load(x + i)));
    return v16_join(sum);
}

static inline void store_chunk(const kernel_operand *out, int64_t row_off, int64_t i, int64_t n,
                               v16 y) {
    void *p = at_mut(out->data, out->dtype, row_off + i);
    if (n - i >= 16)
        v16_store_as(p, out->dtype, y);
    else
        v16_store_part(p, out->dtype, n - i, y);
}

/* row -= mean; the places behind the row stay zero. */
static inline void centre(float *row, int64_t n) {
    v16 sum = v16_zero();
    for (int64_t i = 0; i < n; i += 16)
        sum = v16_add(sum, v16_load(row + i));
    v16 mean = v16_set(v16_join(sum) / (float)n);
    for (int64_t i = 0; i < n; i += 16)
        v16_store(row + i, v16_sub(v16_load(row + i), mean));
    for (int64_t i = n; i < padded(n); i++)
        row[i] = 0.0f;
}

/* Row r in `row`, less its mean for a layer norm; what its elements are multiplied by. */
static inline v16 norm_open(const kernel_call *call, int64_t r, float *row, bool is_rms) {
    const kernel_operand *x = &call->src[0];
    int64_t n = operand_width(x);
    widen(at(x->data, x->dtype, operand_row(x, r)), x->dtype, n, row);
    if (!is_rms) centre(row, n);
    return v16_set(1.0f / sqrtf(sum_of_squares(row, n) / (float)n + call->attr->norm.eps));
}

/* Elements [i, i + 16) of the result, not yet rounded to t. */
static inline v16 norm_chunk(const kernel_call *call, const float *row, v16 inv, int64_t i,
                             mica_dtype t, bool is_rms) {
    const kernel_operand *w = &call->src[1], *b = &call->src[2];
    int64_t n = operand_width(&call->src[0]);
    v16 y = v16_mul(v16_load(row + i), inv);
    if (is_rms) return w->data ? v16_mul(v16_round_to(y, t), row_chunk(w, 0, i, n)) : y;
    y = v16_round_to(y, t);
    if (w->data) y = v16_round_to(v16_mul(y, row_chunk(w, 0, i, n)), t);
    return b->data ? v16_add(y, row_chunk(b, 0, i, n)) : y;
}

ALWAYS_INLINE void run_norm(const kernel_call *call, int64_t begin, int64_t end, float *row,
                            bool is_rms) {
    const kernel_operand *out = &call->out, *added = &call->src[is_rms ? 2 : 3];
    int64_t n = operand_width(&call->src[0]);
    for (int64_t r = begin; r < end; r++) {
        v16 inv = norm_open(call, r, row, is_rms);
        int64_t off = operand_row(out, r);
        for (int64_t i = 0; i < n; i += 16) {
            v16 y = norm_chunk(call, row, inv, i, out->dtype, is_rms);
            if (added->data) y = v16_add(row_chunk(added, r, i, n), v16_round_to(y, out->dtype));
            store_chunk(out, off, i, n, y);
        }
    }
}

static inline void run_rms_norm(const kernel_call *call, int64_t begin, int64_t end,
                                void *scratch) {
    run_norm(call, begin, end, scratch, true);
}

static inline void run_layer_norm(const kernel_call *call, int64_t begin, int64_t end,
                                  void *scratch) {
    run_norm(call, begin, end, scratch, false);
}

#endif
