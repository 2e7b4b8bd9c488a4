/* attention.h: attention over cache blocks and the write into them, once for every ISA.
 *
 * The same tiles, sums and order as ref/attention.c, sixteen lanes at a time: along the head
 * dimension for a score, along the keys for the exponentials, along the channels for p V. Places of
 * a tile that the row does not see hold -infinity, whose exponential adds nothing.
 * Unit: one head of one row; one row of a write.
 */
#ifndef MICA_BACKEND_CPU_VECTOR_ATTENTION_H
#define MICA_BACKEND_CPU_VECTOR_ATTENTION_H

#include <math.h>

#include "backend/cpu/kv_access.h"
#include "backend/cpu/vector/activate.h"

/* Scaled query, sums over tiles, sums of one tile, scores of one tile: whole chunks each. */
typedef struct head_state {
    float *q, *total, *part, *scores;
    float max, sum;
} head_state;

static inline size_t scratch_head(const kernel_call *call) {
    const kv_layout *l = &call->attr->attention.layout;
    int64_t n = padded(l->head_dim) + 2 * padded(l->v_head_dim) + ATTENTION_TILE;
    return (size_t)n * sizeof(float);
}

static inline const char *declines_attention(const kernel_call *call) {
    return is_dense_row(&call->src[ATT_Q]) && is_dense_row(&call->out)
               ? NULL
               : "the elements of a head do not lie side by side";
}

static inline v16 load_chunk(const uint8_t *p, mica_dtype t, int64_t i, int64_t n) {
    return n - i >= 16 ? v16_load_as(at(p, t, i), t) : v16_load_part(at(p, t, i), t, n - i);
}

static inline float dot_key(const float *q, const uint8_t *key, mica_dtype t, int64_t n) {
    v16 sum = v16_zero();
    for (int64_t i = 0; i < n; i += 16)
        sum = v16_add(sum, v16_mul(v16_load(q + i), load_chunk(key, t, i, n)));
    return v16_join(sum);
}

/* One dtype known to the compiler, for the inner loops. */
static inline void score_keys(const kernel_call *call, const attention_row *row, int64_t kv,
                              int64_t lo, int64_t hi, const head_state *s) {
    const kv_layout *l = &call->attr->attention.layout;
    void *base = call->src[ATT_CACHE].data;
    int64_t d = l->head_dim;
    for (int64_t j = lo; j < hi; j++) {
        const uint8_t *key = kv_key(l, base, row->table[j / KV_BLOCK], kv, j);
        float x;
        if (l->dtype == MICA_F32)
            x = dot_key(s->q, key, MICA_F32, d);
        else if (l->dtype == MICA_BF16)
            x = dot_key(s->q, key, MICA_BF16, d);
        else
            x = dot_key(s->q, key, MICA_F16, d);
        s->scores[j % ATTENTION_TILE] = x;
    }
}

/* part[c..c+16k) += p[j] * v[j] for the keys of the tile, ascending; k = 1 to 4 chunks. */
static inline __attribute__((always_inline)) void
weigh_columns(const kernel_call *call, const attention_row *row, int64_t kv, int64_t lo, int64_t hi,
              const head_state *s, int64_t c, mica_dtype t) {
    const kv_layout *l = &call->attr->attention.layout;
    void *base = call->src[ATT_CACHE].data;
    int64_t n = l->v_head_dim;
    v16 a0 = v16_zero(), a1 = v16_zero(), a2 = v16_zero(), a3 = v16_zero();
    bool all = c + 64 <= n;
    for (int64_t j = lo; j < hi; j++) {
        const uint8_t *v = kv_value(l, base, row->table[j / KV_BLOCK], kv, j);
        v16 p = v16_set(s->scores[j % ATTENTION_TILE]);
        a0 = v16_add(a0, v16_mul(p, load_chunk(v, t, c, n)));
        if (all) {
            a1 = v16_add(a1, v16_mul(p, v16_load_as(at(v, t, c + 16), t)));
            a2 = v16_add(a2, v16_mul(p, v16_load_as(at(v, t, c + 32), t)));
            a3 = v16_add(a3, v16_mul(p, v16_load_as(at(v, t, c + 48), t)));
        }
    }
    v16_store(s->part + c, a0);
    if (!all) return;
    v16_store(s->part + c + 16, a1);
    v16_store(s->part + c + 32, a2);
    v16_store(s->part + c + 48, a3);
}

static inline void weigh_values(const kernel_call *call, const attention_row *row, int64_t kv,
                                int64_t lo, int64_t hi, const head_state *s) {
    int64_t n = call->attr->attention.layout.v_head_dim;
    mica_dtype t = call->attr->attention.layout.dtype;
    for (int64_t c = 0; c < n; c += c + 64 <= n ? 64 : 16) {
        if (t == MICA_F32)
            weigh_columns(call, row, kv, lo, hi, s, c, MICA_F32);
        else if (t == MICA_BF16)
            weigh_columns(call, row, kv, lo, hi, s, c, MICA_BF16);
        else
            weigh_columns(call, row, kv, lo, hi, s, c, MICA_F16);
    }
}

/* Keys [lo, hi) of one tile: fills part, returns its maximum and sum. */
static inline void attend_tile(const kernel_call *call, const attention_row *row, int64_t kv,
                               int64_t lo, int64_t hi, const head_state *s, float *max_out,
                               float *sum_out) {
    float cap = call->attr->attention.softcap;
    int64_t first = lo % ATTENTION_TILE / 16 * 16;
    int64_t last = padded((hi - 1) % ATTENTION_TILE + 1);
    v16 max = v16_set(-INFINITY), sum = v16_zero();
    for (int64_t i = first; i < last; i += 16)
        v16_store(s->scores + i, max);
    score_keys(call, row, kv, lo, hi, s);
    for (int64_t i = first; i < last && cap > 0.0f; i += 16) {
        mica_dtype t = call->out.dtype;
        v16 x = v16_load(s->scores + i);
        v16 capped = v16_softcap(v16_round_to(x, t), cap, t);
        v16_store(s->scores + i, capped);
    }
    if (cap > 0.0f) { /* the places outside, which the cap made finite */
        for (int64_t i = first; i < lo % ATTENTION_TILE; i++)
            s->scores[i] = -INFINITY;
        for (int64_t i = (hi - 1) % ATTENTION_TILE + 1; i < last; i++)
            s->scores[i] = -INFINITY;
    }
    for (int64_t i = first; i < last; i += 16)
        max = v16_max(v16_load(s->scores + i), max);
    *max_out = v16_largest(max);
    for (int64_t i = first; i < last; i += 16) {
        v16 p = v16_exp(v16_sub(v16_load(s->scores + i), v16_set(*max_out)));
        v16_store(s->scores + i, p);
        sum = v16_add(sum, p);
    }
    *sum_out = v16_join(sum);
    weigh_values(call, row, kv, lo, hi, s);
}

static inline void merge_tile(head_state *s, int64_t dv, float max, float sum) {
    float joint = max > s->max ? max : s->max;
    float old_part = exp_f32(s->max - joint), new_part = exp_f32(max - joint);
    for (int64_t i = 0; i < dv; i += 16) {
        v16 kept = v16_mul(v16_load(s->total + i), v16_set(old_part));
        v16 added = v16_mul(v16_load(s->part + i), v16_set(new_part));
        v16_store(s->total + i, v16_add(kept, added));
    }
    float kept = s->sum * old_part;
    s->sum = kept + sum * new_part;
    s->max = joint;
}

static inline void begin_head(const kernel_call *call, int64_t unit, int64_t head, head_state *s) {
    const kv_layout *l = &call->attr->attention.layout;
    const kernel_operand *sinks = &call->src[ATT_SINKS], *q = &call->src[ATT_Q];
    mica_dtype t = call->attr->attention.softcap > 0.0f ? call->out.dtype : MICA_F32;
    v16 scale = v16_set(mica_round_to(call->attr->attention.scale, t));
    widen(at(q->data, q->dtype, operand_row(q, unit)), q->dtype, l->head_dim, s->q);
    for (int64_t i = 0; i < l->head_dim; i += 16)
        v16_store(s->q + i, v16_round_to(v16_mul(v16_load(s->q + i), scale), t));
    for (int64_t i = 0; i < l->v_head_dim; i += 16)
        v16_store(s->total + i, v16_zero());
    bool has_sink = call->n_src > ATT_SINKS && sinks->data;
    s->max = has_sink ? operand_load(sinks, head * operand_step(sinks)) : -INFINITY;
    s->sum = has_sink ? 1.0f : 0.0f;
}

static inline void end_head(const kernel_call *call, int64_t row, int64_t head, head_state *s) {
    int64_t dv = call->attr->attention.layout.v_head_dim;
    const kernel_operand *out = &call->out;
    for (int64_t i = 0; i < dv; i += 16) {
        v16 y = v16_div(v16_load(s->total + i), v16_set(s->sum));
        v16_store(s->total + i, s->sum == 0.0f ? v16_zero() : y);
    }
    void *p = at_mut(out->data, out->dtype, operand_row(out, row) + head * dv);
    store_row(p, out->dtype, dv, s->total);
}

static inline void run_attention(const kernel_call *call, int64_t begin, int64_t end,
                                 void *scratch) {
    const kv_layout *l = &call->attr->attention.layout;
    int64_t n_heads = call->src[ATT_Q].dim[1], dv = padded(l->v_head_dim);
    head_state s;
    s.q = scratch;
    s.total = s.q + padded(l->head_dim);
    s.part = s.total + dv;
    s.scores = s.part + dv;
    for (int64_t u = begin; u < end; u++) {
        int64_t head = u % n_heads, kv = head / (n_heads / l->n_kv_heads);
        attention_row row = attention_row_of(call, u / n_heads);
        begin_head(call, u, head, &s);
        for (int64_t lo = row.keys.lo; lo < row.keys.hi;) {
            int64_t hi = (lo / ATTENTION_TILE + 1) * ATTENTION_TILE;
            if (hi > row.keys.hi) hi = row.keys.hi;
            float max, sum;
            attend_tile(call, &row, kv, lo, hi, &s, &max, &sum);
            merge_tile(&s, dv, max, sum);
            lo = hi;
        }
        end_head(call, u / n_heads, head, &s);
    }
}

static inline int64_t n_units_heads(const kernel_call *call) {
    return call->src[ATT_Q].dim[0] * call->src[ATT_Q].dim[1];
}

/* ---- the write ---- */

static inline const char *declines_kv_write(const kernel_call *call) {
    return is_dense_row(&call->src[1]) && is_dense_row(&call->src[2])
               ? NULL
               : "the elements of a head do not lie side by side";
}

/* n elements of dtype `from` at p to dtype `to`. */
static inline void convert(void *out, mica_dtype to, const void *p, mica_dtype from, int64_t n) {
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        v16_store_as(at_mut(out, to, i), to, v16_load_as(at(p, from, i), from));
    if (i < n)
        v16_store_part(at_mut(out, to, i), to, n - i, v16_load_part(at(p, from, i), from, n - i));
}

static inline void run_kv_write(const kernel_call *call, int64_t begin, int64_t end,
                                void *scratch) {
    (void)scratch;
    const kv_layout *l = &call->attr->cache.layout;
    const kernel_operand *k = &call->src[1], *v = &call->src[2];
    const int32_t *slots = operand_i32(&call->src[3]);
    void *base = call->src[0].data;
    for (int64_t r = begin; r < end; r++) {
        if (slots[r] < 0) continue;
        int64_t block = slots[r] / KV_BLOCK, place = slots[r] % KV_BLOCK;
        for (int64_t h = 0; h < l->n_kv_heads; h++) {
            int64_t unit = r * l->n_kv_heads + h;
            convert(kv_key(l, base, block, h, place), l->dtype,
                    at(k->data, k->dtype, operand_row(k, unit)), k->dtype, l->head_dim);
            if (l->v_in_k) continue;
            convert(kv_value(l, base, block, h, place), l->dtype,
                    at(v->data, v->dtype, operand_row(v, unit)), v->dtype, l->v_head_dim);
        }
    }
}

static inline int64_t n_units_slots(const kernel_call *call) { return call->src[3].dim[0]; }

#endif
