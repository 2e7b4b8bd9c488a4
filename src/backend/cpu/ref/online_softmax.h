/* online_softmax.h: a head's sums over the keys of one tile after the other, for flash.c and
 * parts.c, which differ in how a score is summed.
 *
 * A tile: max is the largest score of this tile and those before it, p = exp(s - max); total is
 * multiplied by exp(old max - max) and goes on as total = fma(p, v, total), ascending; the sum of p
 * is 16 interleaved sums, sum = fma(sum, exp(old max - max), that). Source: docs/numerics.md 5.
 */
#ifndef MICA_BACKEND_CPU_REF_ONLINE_SOFTMAX_H
#define MICA_BACKEND_CPU_REF_ONLINE_SOFTMAX_H

#include <math.h>

#include "backend/cpu/activation.h"
#include "backend/cpu/kv_access.h"
#include "backend/cpu/lanes.h"
#include "backend/cpu/operand.h"

/* Scaled query, sums so far, scores of a tile. */
typedef struct head_state {
    float *q, *total, *scores;
    float max, sum;
} head_state;

/* The score of the key at `pos`, before the softcap; its block is there. */
typedef float (*score_of_key)(const kv_layout *l, const uint8_t *key, const float *q);

static inline float score_at(const kernel_call *call, const attention_row *row, int64_t kv,
                             int64_t pos, score_of_key score, const float *q) {
    const kv_layout *l = &call->attr->attention.layout;
    int64_t block = row->table[pos / KV_BLOCK];
    float cap = call->attr->attention.softcap, x = 0.0f;
    if (block >= 0) x = score(l, kv_key(l, call->src[ATT_CACHE].data, block, kv, pos), q);
    return cap > 0.0f ? act_softcap(x, cap, MICA_F32) : x;
}

/* Keys [lo, hi) of one tile. */
static inline void attend_tile(const kernel_call *call, const attention_row *row, int64_t kv,
                               int64_t lo, int64_t hi, score_of_key score, head_state *s) {
    const kv_layout *l = &call->attr->attention.layout;
    float lanes[N_LANES] = {0}, max = -INFINITY;
    for (int64_t j = lo; j < hi; j++) {
        float x = score_at(call, row, kv, j, score, s->q);
        s->scores[j % ATTENTION_TILE] = x;
        if (x > max) max = x;
    }
    if (!(max > s->max)) max = s->max;
    float kept = exp_fused(s->max - max);
    for (int64_t i = 0; i < l->v_head_dim; i++)
        s->total[i] = s->total[i] * kept;
    for (int64_t j = lo; j < hi; j++) {
        int64_t block = row->table[j / KV_BLOCK];
        float p = exp_fused(s->scores[j % ATTENTION_TILE] - max);
        lanes[j % N_LANES] += p;
        if (block < 0) continue;
        const uint8_t *value = kv_value(l, call->src[ATT_CACHE].data, block, kv, j);
        for (int64_t i = 0; i < l->v_head_dim; i++)
            s->total[i] = fmaf(p, mica_load_f(value, l->dtype, (size_t)i), s->total[i]);
    }
    s->sum = fmaf(s->sum, kept, lanes_join(lanes));
    s->max = max;
}

/* Before the first key; a sink counts where has_sinks. */
static inline void begin_head(const kernel_call *call, int64_t row, int64_t head, bool has_sinks,
                              head_state *s) {
    const kv_layout *l = &call->attr->attention.layout;
    const kernel_operand *sinks = &call->src[ATT_SINKS];
    bool has_sink = has_sinks && call->n_src > ATT_SINKS && sinks->data;
    operand_load_row(&call->src[ATT_Q], row * call->src[ATT_Q].dim[1] + head, s->q);
    for (int64_t i = 0; i < l->head_dim; i++)
        s->q[i] = s->q[i] * call->attr->attention.scale;
    for (int64_t i = 0; i < l->v_head_dim; i++)
        s->total[i] = 0.0f;
    s->max = has_sink ? operand_load(sinks, head * operand_step(sinks)) : -INFINITY;
    s->sum = has_sink ? 1.0f : 0.0f;
}

/* All of `keys`, a tile at a time. */
static inline void attend_keys(const kernel_call *call, const attention_row *row, int64_t kv,
                               key_range keys, score_of_key score, head_state *s) {
    for (int64_t lo = keys.lo; lo < keys.hi;) {
        int64_t hi = (lo / ATTENTION_TILE + 1) * ATTENTION_TILE;
        if (hi > keys.hi) hi = keys.hi;
        attend_tile(call, row, kv, lo, hi, score, s);
        lo = hi;
    }
}

#endif
