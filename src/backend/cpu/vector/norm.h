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

static inline v16 vector_chunk(const kernel_operand *w, int64_t i, int64_t n) {
    const void *p = at(w->data, w->dtype, i);
    return n - i >= 16 ? v16_load_as(p, w->dtype) : v16_load_part(p, w->dtype, n - i);
}

static inline void store_chunk(const kernel_operand *out, int64_t row_off, int64_t i, int64_t n,
                               v16 y) {
    void *p = at_mut(out->data, out->dtype, row_off + i);
    if (n - i >= 16)
        v16_store_as(p, out->dtype, y);
    else
        v16_store_part(p, out->dtype, n - i, y);
}

static inline void run_rms_norm(const kernel_call *call, int64_t begin, int64_t end,
                                void *scratch) {
    const kernel_operand *x = &call->src[0], *w = &call->src[1], *out = &call->out;
    int64_t n = operand_width(x);
    float *row = scratch;
    for (int64_t r = begin; r < end; r++) {
        widen(at(x->data, x->dtype, operand_row(x, r)), x->dtype, n, row);
        float mean = sum_of_squares(row, n) / (float)n;
        v16 inv = v16_set(1.0f / sqrtf(mean + call->attr->norm.eps));
        int64_t off = operand_row(out, r);
        for (int64_t i = 0; i < n; i += 16) {
            v16 y = v16_mul(v16_load(row + i), inv);
            if (w->data) y = v16_mul(v16_round_to(y, out->dtype), vector_chunk(w, i, n));
            store_chunk(out, off, i, n, y);
        }
    }
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

static inline void run_layer_norm(const kernel_call *call, int64_t begin, int64_t end,
                                  void *scratch) {
    const kernel_operand *x = &call->src[0], *w = &call->src[1], *b = &call->src[2];
    const kernel_operand *out = &call->out;
    int64_t n = operand_width(x);
    float *row = scratch;
    for (int64_t r = begin; r < end; r++) {
        widen(at(x->data, x->dtype, operand_row(x, r)), x->dtype, n, row);
        centre(row, n);
        float var = sum_of_squares(row, n) / (float)n;
        v16 inv = v16_set(1.0f / sqrtf(var + call->attr->norm.eps));
        int64_t off = operand_row(out, r);
        for (int64_t i = 0; i < n; i += 16) {
            v16 y = v16_round_to(v16_mul(v16_load(row + i), inv), out->dtype);
            if (w->data) y = v16_round_to(v16_mul(y, vector_chunk(w, i, n)), out->dtype);
            if (b->data) y = v16_add(y, vector_chunk(b, i, n));
            store_chunk(out, off, i, n, y);
        }
    }
}

#endif
