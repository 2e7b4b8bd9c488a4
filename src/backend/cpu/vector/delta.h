/* delta.h: the gated delta rule row by row, once for every ISA; the
 * sums and roundings of ref/delta.c and ref/conv.c.
 *
 * delta. Unit: a block of rows of one value head's state S [Dv, Dk], so that a few sequences keep
 * many threads busy. conv. Unit: 64 channels of one sequence, 16 at a time.
 */
#ifndef MICA_BACKEND_CPU_VECTOR_DELTA_H
#define MICA_BACKEND_CPU_VECTOR_DELTA_H

#include "backend/cpu/vector/access.h"

enum {
    DELTA_Q,
    DELTA_K,
    DELTA_V,
    DELTA_DECAY,
    DELTA_BETA,
    DELTA_STATE,
    DELTA_STATE_OUT,
    DELTA_SEQ_ROWS
};
enum { DELTA_UNIT_ROWS = 32 };

static inline const char *declines_delta(const kernel_call *call) {
    if (call->attr->delta.chunk) return "a state that is folded in chunks";
    if (call->src[DELTA_Q].dim[2] % 16) return "a key dimension that is no multiple of 16";
    for (int i = DELTA_Q; i <= DELTA_V; i++)
        if (!is_dense_row(&call->src[i])) return "the elements of a head do not lie side by side";
    return is_dense_row(&call->out) ? NULL : "the elements of a row do not lie side by side";
}

static inline int64_t delta_blocks(const kernel_call *call) {
    return (call->src[DELTA_V].dim[2] + DELTA_UNIT_ROWS - 1) / DELTA_UNIT_ROWS;
}

static inline int64_t n_units_delta(const kernel_call *call) {
    return call->src[DELTA_STATE].dim[0] * call->src[DELTA_V].dim[1] * delta_blocks(call);
}

static inline size_t scratch_delta(const kernel_call *call) {
    return sizeof(float) * 2 * (size_t)call->src[DELTA_Q].dim[2];
}

/* One row of S and one token: S = g S; u = beta (v - S k); S = S + u k^T; the result is S q. */
static inline float delta_step(const float *from, float *to, const float *q, const float *k,
                               int64_t n, float decay, float beta, float v) {
    v16 m = v16_zero(), y = v16_zero(), g = v16_set(decay);
    for (int64_t i = 0; i < n; i += 16) {
        v16 s = v16_mul(v16_load(from + i), g);
        v16_store(to + i, s);
        m = v16_add(m, v16_mul(s, v16_load(k + i)));
    }
    v16 u = v16_set(beta * (v - v16_join(m)));
    for (int64_t i = 0; i < n; i += 16) {
        v16 s = v16_add(v16_load(to + i), v16_mul(u, v16_load(k + i)));
        v16_store(to + i, s);
        y = v16_add(y, v16_mul(s, v16_load(q + i)));
    }
    return v16_join(y);
}

static inline float delta_scalar(const kernel_operand *o, int64_t r, int64_t h) {
    return mica_load_f(o->data, o->dtype, (size_t)(operand_row(o, r) + h * operand_step(o)));
}

/* Rows [first, first + n_rows) of the state of value head h, over all tokens of sequence `seq`. */
static inline void delta_block(const kernel_call *call, int64_t seq, int64_t h, int64_t first,
                               int64_t n_rows, float *q) {
    const kernel_operand *qs = &call->src[DELTA_Q], *ks = &call->src[DELTA_K];
    const kernel_operand *vs = &call->src[DELTA_V], *out = &call->out;
    const int32_t *seq_rows = call->src[DELTA_SEQ_ROWS].data;
    const uint64_t *in_at = call->src[DELTA_STATE].data, *out_at = call->src[DELTA_STATE_OUT].data;
    int64_t n_k = qs->dim[1], n_v = vs->dim[1], dk = qs->dim[2], dv = vs->dim[2];
    int64_t hk = h / (n_v / n_k), off = call->attr->delta.offset + (h * dv + first) * dk;
    const float *from = (const float *)(uintptr_t)in_at[seq] + off;
    float *to = (float *)(uintptr_t)out_at[seq] + off, *k = q + dk;
    if (seq_rows[seq] == seq_rows[seq + 1] && from != to)
        memcpy(to, from, (size_t)(n_rows * dk) * sizeof(float));
    for (int64_t r = seq_rows[seq]; r < seq_rows[seq + 1]; r++, from = to) {
        widen(at(qs->data, qs->dtype, operand_row(qs, r * n_k + hk)), qs->dtype, dk, q);
        widen(at(ks->data, ks->dtype, operand_row(ks, r * n_k + hk)), ks->dtype, dk, k);
        float decay = delta_scalar(&call->src[DELTA_DECAY], r, h);
        float beta = delta_scalar(&call->src[DELTA_BETA], r, h);
        int64_t v_off = operand_row(vs, r * n_v + h), y_off = operand_row(out, r) + h * dv;
        for (int64_t i = 0; i < n_rows; i++) {
            float v = mica_load_f(vs->data, vs->dtype, (size_t)(v_off + first + i));
            float y = delta_step(from + i * dk, to + i * dk, q, k, dk, decay, beta, v);
            mica_store_f(out->data, out->dtype, (size_t)(y_off + first + i), y);
        }
    }
}

static inline void run_delta(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    int64_t n_blocks = delta_blocks(call), n_v = call->src[DELTA_V].dim[1];
    int64_t dv = call->src[DELTA_V].dim[2];
    for (int64_t u = begin; u < end; u++) {
        int64_t first = u % n_blocks * DELTA_UNIT_ROWS, left = dv - first;
        delta_block(call, u / n_blocks / n_v, u / n_blocks % n_v, first,
                    left < DELTA_UNIT_ROWS ? left : DELTA_UNIT_ROWS, scratch);
    }
}

#endif
