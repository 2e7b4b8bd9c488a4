/* parts.h: attention of few rows over parts of the keys, once for every ISA; the sums of
 * ref/parts.c.
 *
 * Unit: up to ATTENTION_PART_HEADS heads that share a kv head, over one part of the keys of one
 * row. Keys and values go by once, as they lie: four keys at a time are multiplied with all heads,
 * the channels being the lanes, then a tile's values are summed with all heads' probabilities.
 * Channels come in chunks of 32; of a bf16 cache a chunk is 16 words, whose lower halves are its
 * even channels and whose upper halves its odd ones, so q and the sums lie in that order. What is
 * read now asks for what is read next: keys for the values of their block, values for the keys two
 * blocks on.
 */
#ifndef MICA_BACKEND_CPU_VECTOR_PARTS_H
#define MICA_BACKEND_CPU_VECTOR_PARTS_H

#include <math.h>

#include "backend/cpu/kv_access.h"
#include "backend/cpu/vector/tile_softmax.h"
#include "graph/attention_parts.h"

#define PARTS_INLINE static inline __attribute__((always_inline))
#define PARTS_CHUNK 32
#define PARTS_KEYS 4
#define PARTS_VALUES 16 /* summed while the sums are in registers; divides a block */
/* Bytes from what is read to what is asked for: nearer is late, farther drives out of the
 * first-level cache what is not read yet. */
#define PARTS_AHEAD 8192

typedef struct parts_space {
    int64_t d, dv, d_wide, dv_wide; /* as in the layout; whole chunks */
    int64_t n_heads;
    float *q, *scores, *total; /* [heads][d_wide], [heads][TILE], [heads][dv_wide] */
    float *row;                /* [the wider] */
    float max[ATTENTION_PART_HEADS], sum[ATTENTION_PART_HEADS];
} parts_space;

static inline int64_t parts_padded(int64_t n) {
    return (n + PARTS_CHUNK - 1) / PARTS_CHUNK * PARTS_CHUNK;
}

static inline size_t parts_scratch(const kernel_call *call) {
    const kv_layout *l = &call->attr->attention.layout;
    int64_t d = parts_padded(l->head_dim), dv = parts_padded(l->v_head_dim);
    int64_t n = ATTENTION_PART_HEADS * (d + dv + ATTENTION_TILE) + 16 + (d > dv ? d : dv);
    return sizeof(float) * (size_t)n;
}

static inline parts_space parts_space_at(const kernel_call *call, float *scratch) {
    const kv_layout *l = &call->attr->attention.layout;
    parts_space s = {.d = l->head_dim, .dv = l->v_head_dim};
    s.d_wide = parts_padded(s.d);
    s.dv_wide = parts_padded(s.dv);
    s.q = scratch;
    s.scores = s.q + ATTENTION_PART_HEADS * s.d_wide;
    s.total = s.scores + ATTENTION_PART_HEADS * ATTENTION_TILE + 16; /* four scores at a time */
    s.row = s.total + ATTENTION_PART_HEADS * s.dv_wide;
    return s;
}

static inline const char *parts_declines(const kernel_call *call) {
    return is_dense_row(&call->src[ATT_Q]) && is_dense_row(&call->out)
               ? NULL
               : "the elements of a head do not lie side by side";
}

/* ---- chunks ---- */

/* Channels [i, i + 32) of n at p, zeros from n on. */
PARTS_INLINE void parts_chunk(const uint8_t *p, mica_dtype t, int64_t i, int64_t n, v16 *a,
                              v16 *b) {
    const void *from = at(p, t, i);
    if (n - i >= PARTS_CHUNK) {
        if (t == MICA_BF16) {
            v16_load_pairs(from, a, b);
        } else {
            *a = v16_load_as(from, t);
            *b = v16_load_as(at(p, t, i + 16), t);
        }
    } else if (t == MICA_BF16) {
        v16_load_pairs_part(from, n - i, a, b);
    } else if (n - i > 16) {
        *a = v16_load_as(from, t);
        *b = v16_load_part(at(p, t, i + 16), t, n - i - 16);
    } else {
        *a = n - i == 16 ? v16_load_as(from, t) : v16_load_part(from, t, n - i);
        *b = v16_zero();
    }
}

/* n_wide channels into the order of chunks, and n back from it. */
static inline void parts_arrange(float *out, const float *in, mica_dtype t, int64_t n_wide) {
    if (t != MICA_BF16) {
        memcpy(out, in, (size_t)n_wide * sizeof(float));
        return;
    }
    for (int64_t c = 0; c < n_wide; c += PARTS_CHUNK)
        for (int64_t i = 0; i < 16; i++) {
            out[c + i] = in[c + 2 * i];
            out[c + 16 + i] = in[c + 2 * i + 1];
        }
}

static inline void parts_restore(float *out, const float *in, mica_dtype t, int64_t n) {
    if (t != MICA_BF16) {
        memcpy(out, in, (size_t)n * sizeof(float));
        return;
    }
    int64_t c = 0;
    for (; c + PARTS_CHUNK <= n; c += PARTS_CHUNK)
        for (int64_t i = 0; i < 16; i++) {
            out[c + 2 * i] = in[c + i];
            out[c + 2 * i + 1] = in[c + 16 + i];
        }
    for (int64_t i = c; i < n; i++)
        out[i] = in[c + (i - c) / 2 + (i - c) % 2 * 16];
}

PARTS_INLINE void parts_ask(const void *p, mica_dtype t) {
    for (int64_t i = 0; i < PARTS_CHUNK * (t == MICA_F32 ? 4 : 2); i += 64)
        __builtin_prefetch((const uint8_t *)p + i, 0, 3);
}

/* ---- scores ---- */

/* Rows of one block: n keys or values from the first, `bytes` apart, and as many to ask for. */
typedef struct parts_rows {
    const uint8_t *first, *next;
    size_t bytes;
    int64_t n, ahead;
} parts_rows;

/* What to ask for when row j is read. */
PARTS_INLINE const uint8_t *parts_ahead(const parts_rows *rows, int64_t j) {
    int64_t to = j + rows->ahead;
    return to < rows->n ? rows->first + (size_t)to * rows->bytes
                        : rows->next + (size_t)(to - rows->n) * rows->bytes;
}

/* Adds the products of chunk c, whole or the last, to the sums of four keys for n_h heads. */
PARTS_INLINE void parts_score_chunk(const parts_space *s, const uint8_t *const *keys,
                                    const uint8_t *ahead, mica_dtype t, const float *q, int64_t c,
                                    int64_t n, v16 acc[V16_PARTS_SCORED][PARTS_KEYS], int n_h) {
    v16 qa[V16_PARTS_SCORED], qb[V16_PARTS_SCORED];
#pragma GCC unroll 4
    for (int h = 0; h < n_h; h++) {
        qa[h] = v16_load(q + h * s->d_wide + c);
        qb[h] = v16_load(q + h * s->d_wide + c + 16);
    }
#pragma GCC unroll 4
    for (int k = 0; k < PARTS_KEYS; k++) {
        v16 a, b;
        parts_chunk(keys[k], t, c, n, &a, &b);
        parts_ask(at(ahead, t, PARTS_KEYS * c + PARTS_CHUNK * k), t);
#pragma GCC unroll 4
        for (int h = 0; h < n_h; h++)
            acc[h][k] = v16_fma(qa[h], a, acc[h][k]);
#pragma GCC unroll 4
        for (int h = 0; h < n_h; h++)
            acc[h][k] = v16_fma(qb[h], b, acc[h][k]);
    }
}

/* Scores of keys [j, j + 4) for n_h heads; the last key stands for those behind it. */
PARTS_INLINE void parts_score(const parts_space *s, const parts_rows *keys, int64_t j, mica_dtype t,
                              int64_t head, float *scores, int n_h) {
    v16 acc[V16_PARTS_SCORED][PARTS_KEYS];
    const float *q = s->q + head * s->d_wide;
    const uint8_t *ahead = parts_ahead(keys, j), *from[PARTS_KEYS];
    for (int k = 0; k < PARTS_KEYS; k++)
        from[k] = keys->first + (size_t)(j + k < keys->n ? j + k : keys->n - 1) * keys->bytes;
#pragma GCC unroll 4
    for (int h = 0; h < n_h; h++)
#pragma GCC unroll 4
        for (int k = 0; k < PARTS_KEYS; k++)
            acc[h][k] = v16_zero();
    int64_t c = 0;
    for (; c + PARTS_CHUNK <= s->d; c += PARTS_CHUNK)
        parts_score_chunk(s, from, ahead, t, q, c, c + PARTS_CHUNK, acc, n_h);
    if (c < s->d) parts_score_chunk(s, from, ahead, t, q, c, s->d, acc, n_h);
#pragma GCC unroll 4
    for (int h = 0; h < n_h; h++)
        v16_join4(acc[h], scores + (head + h) * ATTENTION_TILE + j);
}

PARTS_INLINE void parts_score_keys(const parts_space *s, const parts_rows *keys, mica_dtype t,
                                   float *scores) {
    for (int64_t j = 0; j < keys->n; j += PARTS_KEYS) {
        int64_t h = 0;
        for (; h + V16_PARTS_SCORED <= s->n_heads; h += V16_PARTS_SCORED)
            parts_score(s, keys, j, t, h, scores, V16_PARTS_SCORED);
        switch (s->n_heads - h) {
#if V16_PARTS_SCORED > 1
        case 3:
            parts_score(s, keys, j, t, h, scores, 3);
            break;
        case 2:
            parts_score(s, keys, j, t, h, scores, 2);
            break;
        case 1:
            parts_score(s, keys, j, t, h, scores, 1);
            break;
#endif
        default:
            break;
        }
    }
}

/* ---- probabilities ---- */

/* Scores [lo, hi) of a head's tile become probabilities relative to the largest so far, to which
 * its sums are scaled. */
static inline void parts_soften(const kernel_call *call, parts_space *s, int64_t head, int64_t lo,
                                int64_t hi) {
    float *scores = s->scores + head * ATTENTION_TILE, *total = s->total + head * s->dv_wide;
    int64_t first = lo / 16 * 16, last = padded(hi);
    float max = tile_largest(call, scores, first, last, lo, hi);
    if (!(max > s->max[head])) max = s->max[head];
    float kept = exp_fused(s->max[head] - max);
    for (int64_t i = 0; i < s->dv_wide; i += 16)
        v16_store(total + i, v16_mul(v16_load(total + i), v16_set(kept)));
    s->sum[head] = fmaf(s->sum[head], kept, tile_soften(scores, first, last, max));
    s->max[head] = max;
}

/* ---- values ---- */

/* Some values of a block in the order in which they lie, and what to ask for meanwhile. */
typedef struct parts_group {
    const uint8_t *first, *ahead;
    size_t bytes;
    int64_t n;
} parts_group;

/* Chunks [c, c + 32 n_c) of the totals of n_h heads; p: the probabilities of the group. */
PARTS_INLINE void parts_weigh(const parts_space *s, const parts_group *g, mica_dtype t,
                              int64_t head, const float *p, int64_t c, int n_h, int n_c) {
    v16 acc[V16_PARTS_WEIGHED][2 * V16_PARTS_CHUNKS];
    float *total = s->total + head * s->dv_wide + c;
    p += head * ATTENTION_TILE;
#pragma GCC unroll 4
    for (int h = 0; h < n_h; h++)
#pragma GCC unroll 4
        for (int i = 0; i < 2 * n_c; i++)
            acc[h][i] = v16_load(total + h * s->dv_wide + 16 * i);
    for (int64_t j = 0; j < g->n; j++) {
        v16 x[2 * V16_PARTS_CHUNKS];
#pragma GCC unroll 2
        for (int i = 0; i < n_c; i++) {
            int64_t chunk = PARTS_CHUNK * i;
            parts_chunk(g->first + (size_t)j * g->bytes, t, c + chunk, s->dv, &x[2 * i],
                        &x[2 * i + 1]);
            parts_ask(at(g->ahead, t, g->n * c + n_c * PARTS_CHUNK * j + chunk), t);
        }
#pragma GCC unroll 4
        for (int h = 0; h < n_h; h++) {
            v16 weight = v16_set(p[h * ATTENTION_TILE + j]);
#pragma GCC unroll 4
            for (int i = 0; i < 2 * n_c; i++)
                acc[h][i] = v16_fma(weight, x[i], acc[h][i]);
        }
    }
#pragma GCC unroll 4
    for (int h = 0; h < n_h; h++)
#pragma GCC unroll 4
        for (int i = 0; i < 2 * n_c; i++)
            v16_store(total + h * s->dv_wide + 16 * i, acc[h][i]);
}

/* All heads for the chunks at c. */
PARTS_INLINE void parts_weigh_chunks(const parts_space *s, const parts_group *g, mica_dtype t,
                                     const float *p, int64_t c, int n_c) {
    int64_t h = 0;
    for (; h + V16_PARTS_WEIGHED <= s->n_heads; h += V16_PARTS_WEIGHED)
        parts_weigh(s, g, t, h, p, c, V16_PARTS_WEIGHED, n_c);
    switch (s->n_heads - h) {
#if V16_PARTS_WEIGHED > 2
    case 3:
        parts_weigh(s, g, t, h, p, c, 3, n_c);
        break;
    case 2:
        parts_weigh(s, g, t, h, p, c, 2, n_c);
        break;
#endif
    case 1:
        parts_weigh(s, g, t, h, p, c, 1, n_c);
        break;
    default:
        break;
    }
}

PARTS_INLINE void parts_weigh_values(const parts_space *s, const parts_rows *values, mica_dtype t,
                                     const float *p) {
    for (int64_t j = 0; j < values->n; j += PARTS_VALUES) {
        const parts_group g = {values->first + (size_t)j * values->bytes, parts_ahead(values, j),
                               values->bytes,
                               values->n - j < PARTS_VALUES ? values->n - j : PARTS_VALUES};
        int64_t c = 0, wide = PARTS_CHUNK * V16_PARTS_CHUNKS;
        for (; c + wide <= s->dv_wide; c += wide)
            parts_weigh_chunks(s, &g, t, p + j, c, V16_PARTS_CHUNKS);
        for (; c < s->dv_wide; c += PARTS_CHUNK)
            parts_weigh_chunks(s, &g, t, p + j, c, 1);
    }
}

/* ---- a part ---- */

/* The part of a row that a unit is about. */
typedef struct parts_unit {
    attention_row row;
    key_range keys;
    int64_t kv, head; /* of the block, its first */
} parts_unit;

/* Keys or values of positions [lo, hi) of one block, which is there; asked for are those of
 * `next_block`, or none if it is not. */
static inline parts_rows parts_rows_at(const kernel_call *call, const parts_unit *u, int64_t lo,
                                       int64_t hi, bool values) {
    const kv_layout *l = &call->attr->attention.layout;
    void *base = call->src[ATT_CACHE].data;
    int64_t block = u->row.table[lo / KV_BLOCK], then = lo;
    size_t bytes = values ? kv_value_step(l) : (size_t)l->head_dim * mica_dtype_bytes(l->dtype);
    parts_rows r = {NULL, NULL, bytes, hi - lo, 0};
    bool to_values = !values;
    r.first = values ? kv_value(l, base, block, u->kv, lo) : kv_key(l, base, block, u->kv, lo);
    r.next = r.first;
    r.ahead = (PARTS_AHEAD / (int64_t)bytes + 3) & ~(int64_t)3;
    if (r.ahead > r.n) r.ahead = r.n;
    /* the order of runs: keys of a tile, its values */
    if (hi % ATTENTION_TILE && hi < u->keys.hi) {
        then = hi;
        to_values = values;
    } else if (values) {
        then = hi;
    } else {
        then = lo / ATTENTION_TILE * ATTENTION_TILE;
        if (then < u->keys.lo) then = u->keys.lo;
    }
    if (then < u->keys.hi && u->row.table[then / KV_BLOCK] >= 0) {
        int64_t b = u->row.table[then / KV_BLOCK];
        r.next = to_values ? kv_value(l, base, b, u->kv, then) : kv_key(l, base, b, u->kv, then);
    }
    return r;
}

static inline void parts_block_scores(const kernel_call *call, const parts_space *s,
                                      const parts_unit *u, int64_t lo, int64_t hi) {
    float *scores = s->scores + lo % ATTENTION_TILE;
    if (u->row.table[lo / KV_BLOCK] < 0) {
        for (int64_t h = 0; h < s->n_heads; h++)
            memset(scores + h * ATTENTION_TILE, 0, (size_t)(hi - lo) * sizeof(float));
        return;
    }
    mica_dtype t = call->attr->attention.layout.dtype;
    const parts_rows keys = parts_rows_at(call, u, lo, hi, false);
    if (t == MICA_BF16)
        parts_score_keys(s, &keys, MICA_BF16, scores);
    else if (t == MICA_F16)
        parts_score_keys(s, &keys, MICA_F16, scores);
    else
        parts_score_keys(s, &keys, MICA_F32, scores);
}

static inline void parts_block_values(const kernel_call *call, const parts_space *s,
                                      const parts_unit *u, int64_t lo, int64_t hi) {
    const float *p = s->scores + lo % ATTENTION_TILE;
    if (u->row.table[lo / KV_BLOCK] < 0) return;
    mica_dtype t = call->attr->attention.layout.dtype;
    const parts_rows values = parts_rows_at(call, u, lo, hi, true);
    if (t == MICA_BF16)
        parts_weigh_values(s, &values, MICA_BF16, p);
    else if (t == MICA_F16)
        parts_weigh_values(s, &values, MICA_F16, p);
    else
        parts_weigh_values(s, &values, MICA_F32, p);
}

/* The next multiple of n above x, or `end` if that comes first. */
static inline int64_t parts_until(int64_t x, int64_t n, int64_t end) {
    int64_t next = (x / n + 1) * n;
    return next < end ? next : end;
}

/* Keys [lo, hi) of one tile. */
static inline void parts_attend(const kernel_call *call, parts_space *s, const parts_unit *u,
                                int64_t lo, int64_t hi) {
    for (int64_t j = lo, next; j < hi; j = next) {
        next = parts_until(j, KV_BLOCK, hi);
        parts_block_scores(call, s, u, j, next);
    }
    for (int64_t h = 0; h < s->n_heads; h++)
        parts_soften(call, s, h, lo % ATTENTION_TILE, (hi - 1) % ATTENTION_TILE + 1);
    for (int64_t j = lo, next; j < hi; j = next) {
        next = parts_until(j, KV_BLOCK, hi);
        parts_block_values(call, s, u, j, next);
    }
}

static inline void parts_begin(const kernel_call *call, parts_space *s, const parts_unit *u,
                               int64_t row, bool is_first) {
    const kernel_operand *q = &call->src[ATT_Q], *sinks = &call->src[ATT_SINKS];
    mica_dtype t = call->attr->attention.layout.dtype;
    bool has_sink = is_first && call->n_src > ATT_SINKS && sinks->data;
    v16 scale = v16_set(call->attr->attention.scale);
    for (int64_t i = padded(s->d); i < s->d_wide; i++)
        s->row[i] = 0.0f;
    for (int64_t h = 0; h < s->n_heads; h++) {
        int64_t head = u->head + h;
        widen(at(q->data, q->dtype, operand_row(q, row * q->dim[1] + head)), q->dtype, s->d,
              s->row);
        for (int64_t i = 0; i < s->d; i += 16)
            v16_store(s->row + i, v16_mul(v16_load(s->row + i), scale));
        parts_arrange(s->q + h * s->d_wide, s->row, t, s->d_wide);
        memset(s->total + h * s->dv_wide, 0, (size_t)s->dv_wide * sizeof(float));
        s->max[h] = has_sink ? operand_load(sinks, head * operand_step(sinks)) : -INFINITY;
        s->sum[h] = has_sink ? 1.0f : 0.0f;
    }
}

/* Part `part` of n_parts of a row's keys, for the heads of a block. */
static inline void parts_run_unit(const kernel_call *call, parts_space *s, parts_unit *u,
                                  int64_t row, int64_t part, int64_t n_parts) {
    mica_dtype t = call->attr->attention.layout.dtype;
    int64_t n = call->src[ATT_Q].dim[1] * n_parts;
    float *out = (float *)call->out.data + operand_row(&call->out, row);
    u->row = attention_row_of(call, row);
    u->keys = part_of_keys(u->row.keys, part, n_parts);
    bool is_empty = u->keys.lo >= u->keys.hi;
    if (!is_empty) parts_begin(call, s, u, row, part == 0);
    for (int64_t lo = u->keys.lo, hi; lo < u->keys.hi; lo = hi) {
        hi = parts_until(lo, ATTENTION_TILE, u->keys.hi);
        parts_attend(call, s, u, lo, hi);
    }
    for (int64_t h = 0; h < s->n_heads; h++) {
        int64_t place = (u->head + h) * n_parts + part;
        out[attention_parts_max(n, s->dv) + place] = is_empty ? -INFINITY : s->max[h];
        out[attention_parts_sum(n, s->dv) + place] = is_empty ? 0.0f : s->sum[h];
        if (!is_empty) parts_restore(out + place * s->dv, s->total + h * s->dv_wide, t, s->dv);
    }
}

/* Blocks of heads, then parts, then rows: rows of one sequence read the same keys one after the
 * other. */
static inline int64_t parts_n_units(const kernel_call *call) {
    int64_t n_heads = call->src[ATT_Q].dim[1], n_kv = call->attr->attention.layout.n_kv_heads;
    return n_kv * attention_head_blocks(n_heads / n_kv) * attention_n_parts(n_heads, n_kv) *
           call->src[ATT_Q].dim[0];
}

static inline void parts_run(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    int64_t n_heads = call->src[ATT_Q].dim[1], n_rows = call->src[ATT_Q].dim[0];
    int64_t n_kv = call->attr->attention.layout.n_kv_heads, group = n_heads / n_kv;
    int64_t n_parts = attention_n_parts(n_heads, n_kv), n_blocks = attention_head_blocks(group);
    int64_t each = (group + n_blocks - 1) / n_blocks;
    parts_space s = parts_space_at(call, scratch);
    for (int64_t i = begin; i < end; i++) {
        int64_t part = i / n_rows % n_parts, block = i / n_rows / n_parts;
        int64_t first = block % n_blocks * each;
        parts_unit u = {.kv = block / n_blocks};
        u.head = u.kv * group + first;
        s.n_heads = group - first < each ? group - first : each;
        parts_run_unit(call, &s, &u, i % n_rows, part, n_parts);
    }
}

/* ---- the join ---- */

static inline const char *join_declines(const kernel_call *call) {
    return is_dense_row(&call->src[0]) && is_dense_row(&call->out)
               ? NULL
               : "the elements of a row do not lie side by side";
}

static inline size_t join_scratch(const kernel_call *call) {
    return sizeof(float) * (size_t)padded(call->attr->attention.layout.v_head_dim);
}

static inline int64_t join_n_units(const kernel_call *call) {
    return call->out.dim[0] * (call->out.dim[1] / call->attr->attention.layout.v_head_dim);
}

/* What each part of a head counts, and the sum of their sums. */
static inline float join_factors(const float *max, const float *sum, int64_t n_parts,
                                 float *factor) {
    float largest = -INFINITY, total = 0.0f;
    for (int64_t p = 0; p < n_parts; p++)
        if (max[p] > largest) largest = max[p];
    for (int64_t p = 0; p < n_parts; p++) {
        if (sum[p] == 0.0f) continue;
        factor[p] = exp_fused(max[p] - largest);
        float part = sum[p] * factor[p];
        total += part;
    }
    return total;
}

static inline void join_head(const float *parts, int64_t n, int64_t first, int64_t n_parts,
                             int64_t dv, float *out) {
    const float *sum = parts + attention_parts_sum(n, dv) + first;
    float factor[ATTENTION_PART_UNITS];
    float total = join_factors(parts + attention_parts_max(n, dv) + first, sum, n_parts, factor);
    for (int64_t c = 0; c < dv; c += 16) {
        v16 acc = v16_zero();
        for (int64_t p = 0; p < n_parts; p++) {
            const float *part = parts + (first + p) * dv + c;
            if (sum[p] == 0.0f) continue;
            v16 x = dv - c >= 16 ? v16_load(part) : v16_load_part(part, MICA_F32, dv - c);
            acc = v16_fma(x, v16_set(factor[p]), acc);
        }
        v16 y = v16_div(acc, v16_set(total));
        v16_store(out + c, total == 0.0f ? v16_zero() : y);
    }
}

static inline void join_run(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    const kernel_operand *src = &call->src[0], *out = &call->out;
    int64_t dv = call->attr->attention.layout.v_head_dim, n_heads = out->dim[1] / dv;
    int64_t n_parts = attention_n_parts(n_heads, call->attr->attention.layout.n_kv_heads);
    for (int64_t u = begin; u < end; u++) {
        int64_t row = u / n_heads, head = u % n_heads;
        const float *parts = (const float *)src->data + operand_row(src, row);
        join_head(parts, n_heads * n_parts, head * n_parts, n_parts, dv, scratch);
        int64_t off = operand_row(out, row) + head * dv;
        store_row(at_mut(out->data, out->dtype, off), out->dtype, dv, scratch);
    }
}

#endif
