/* flash.h: attention in blocks of rows, once for every ISA; the sums of ref/flash.c.
 *
 * Unit: all heads that share a kv head, of a block of rows: up to FLASH_PAIRS pairs of row and
 * head. Rows of one sequence walk the tiles of keys together. The keys of a tile are turned once,
 * so that 16 keys are the lanes and a score is one ascending sum; the values are widened once,
 * channels being the lanes. A few pairs at a time keep their sums in registers. A pair's own
 * numbers depend on nothing but its keys, so neither the block nor the pairs beside it change a
 * bit. What a pair does not see has probability zero.
 */
#ifndef MICA_BACKEND_CPU_VECTOR_FLASH_H
#define MICA_BACKEND_CPU_VECTOR_FLASH_H

#include <math.h>

#include "backend/cpu/kv_access.h"
#include "backend/cpu/vector/tile_softmax.h"

#define FLASH_INLINE static inline __attribute__((always_inline))
#define FLASH_PAIRS 96

typedef struct flash_space {
    int64_t d, dv, group;     /* as in the layout; heads of a kv head */
    int64_t d_wide, dv_wide;  /* whole chunks */
    float *q, *keys, *values; /* [pairs][d_wide], [d_wide][TILE], [TILE][dv_wide] */
    float *scores, *total;    /* [pairs][TILE], [pairs][dv_wide] */
    float *max, *sum;         /* [pairs] */
    key_range *seen;          /* [pairs] */
} flash_space;

static inline int64_t flash_block_rows(const kernel_call *call) {
    int64_t group = call->src[ATT_Q].dim[1] / call->attr->attention.layout.n_kv_heads;
    return group < FLASH_PAIRS ? FLASH_PAIRS / group : 1;
}

static inline int64_t flash_n_units(const kernel_call *call) {
    int64_t rows = flash_block_rows(call), n_rows = call->src[ATT_Q].dim[0];
    return (n_rows + rows - 1) / rows * call->attr->attention.layout.n_kv_heads;
}

/* Floats of scratch; with s, its members point into memory at `at`. */
static inline int64_t flash_space_init(flash_space *s, const kernel_call *call, float *at) {
    const kv_layout *l = &call->attr->attention.layout;
    int64_t group = call->src[ATT_Q].dim[1] / l->n_kv_heads;
    int64_t n = group * flash_block_rows(call), d = padded(l->head_dim), dv = padded(l->v_head_dim);
    int64_t few = padded(n), seen = (int64_t)(sizeof(key_range) / sizeof(float)) * n;
    if (s) {
        *s = (flash_space){l->head_dim, l->v_head_dim, group, d, dv, at, 0, 0, 0, 0, 0, 0, 0};
        s->keys = s->q + n * d;
        s->values = s->keys + d * ATTENTION_TILE;
        s->scores = s->values + ATTENTION_TILE * dv;
        s->total = s->scores + n * ATTENTION_TILE;
        s->max = s->total + n * dv;
        s->sum = s->max + few;
        s->seen = (key_range *)(void *)(s->sum + few);
    }
    return n * d + (d + dv + n) * ATTENTION_TILE + n * dv + 2 * few + seen;
}

static inline size_t flash_scratch(const kernel_call *call) {
    return sizeof(float) * (size_t)flash_space_init(NULL, call, NULL);
}

static inline const char *flash_declines(const kernel_call *call) {
    return is_dense_row(&call->src[ATT_Q]) && is_dense_row(&call->out)
               ? NULL
               : "the elements of a head do not lie side by side";
}

/* ---- a tile ---- */

static inline v16 flash_chunk(const uint8_t *p, mica_dtype t, int64_t i, int64_t n) {
    return n - i >= 16 ? v16_load_as(at(p, t, i), t) : v16_load_part(at(p, t, i), t, n - i);
}

/* Keys [lo, hi) of a tile, turned; those beside them up to a multiple of 16 become zeros. */
static inline void flash_take_keys(const kernel_call *call, const int32_t *table, int64_t kv,
                                   int64_t lo, int64_t hi, const flash_space *s) {
    const kv_layout *l = &call->attr->attention.layout;
    for (int64_t first = lo / 16 * 16; first < hi; first += 16)
        for (int64_t c = 0; c < s->d; c += 16) {
            v16 t[16];
            for (int64_t j = 0; j < 16; j++) {
                int64_t pos = first + j, block = pos / KV_BLOCK;
                t[j] =
                    pos < lo || pos >= hi || table[block] < 0
                        ? v16_zero()
                        : flash_chunk(kv_key(l, call->src[ATT_CACHE].data, table[block], kv, pos),
                                      l->dtype, c, s->d);
            }
            v16_turn(t);
            for (int64_t i = 0; i < 16; i++)
                v16_store(s->keys + (c + i) * ATTENTION_TILE + first % ATTENTION_TILE, t[i]);
        }
}

static inline void flash_take_values(const kernel_call *call, const int32_t *table, int64_t kv,
                                     int64_t lo, int64_t hi, const flash_space *s) {
    const kv_layout *l = &call->attr->attention.layout;
    for (int64_t pos = lo; pos < hi; pos++) {
        int64_t block = table[pos / KV_BLOCK];
        float *to = s->values + pos % ATTENTION_TILE * s->dv_wide;
        for (int64_t c = 0; c < s->dv; c += 16)
            v16_store(to + c, block < 0 ? v16_zero()
                                        : flash_chunk(kv_value(l, call->src[ATT_CACHE].data, block,
                                                               kv, pos),
                                                      l->dtype, c, s->dv));
    }
}

/* A product of few rows: out[r][c] = kept[r] * out[r][c] + sum over i, ascending, of
 * a[r][i] * b[i][c]; kept NULL: the sum alone. Strides in floats. */
typedef struct flash_operands {
    const float *a, *b;
    float *out;
    int64_t a_stride, b_stride, out_stride;
    int64_t n, n_columns; /* of the sum, of the result */
    const float *kept;
} flash_operands;

/* n_r rows and n_c chunks from column c on. */
FLASH_INLINE void flash_product(const flash_operands *p, int64_t first, int n_r, int n_c,
                                bool keeps) {
    const float *a = p->a, *b = p->b + first;
    float *out = p->out + first;
    v16 acc[V16_FLASH_ROWS][V16_FLASH_VECS];
#pragma GCC unroll 8
    for (int r = 0; r < n_r; r++)
#pragma GCC unroll 4
        for (int c = 0; c < n_c; c++)
            acc[r][c] =
                keeps ? v16_mul(v16_load(out + r * p->out_stride + 16 * c), v16_set(p->kept[r]))
                      : v16_zero();
    for (int64_t i = 0; i < p->n; i++) {
        v16 bs[V16_FLASH_VECS];
#pragma GCC unroll 4
        for (int c = 0; c < n_c; c++)
            bs[c] = v16_load(b + i * p->b_stride + 16 * c);
#pragma GCC unroll 8
        for (int r = 0; r < n_r; r++) {
            v16 x = v16_set(a[r * p->a_stride + i]);
#pragma GCC unroll 4
            for (int c = 0; c < n_c; c++)
                acc[r][c] = v16_fma(x, bs[c], acc[r][c]);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < n_r; r++)
#pragma GCC unroll 4
        for (int c = 0; c < n_c; c++)
            v16_store(out + r * p->out_stride + 16 * c, acc[r][c]);
}

FLASH_INLINE void flash_product_rows(const flash_operands *p, int n_r, bool keeps) {
    int64_t c = 0;
    for (; c + 16 * V16_FLASH_VECS <= p->n_columns; c += 16 * V16_FLASH_VECS)
        flash_product(p, c, n_r, V16_FLASH_VECS, keeps);
    for (; c < p->n_columns; c += 16)
        flash_product(p, c, n_r, 1, keeps);
}

FLASH_INLINE void flash_multiply_way(const flash_operands *p, int64_t n_r, bool keeps) {
    switch (n_r) {
    case 1:
        flash_product_rows(p, 1, keeps);
        break;
    case 2:
        flash_product_rows(p, 2, keeps);
        break;
    case 3:
        flash_product_rows(p, 3, keeps);
        break;
    case 4:
        flash_product_rows(p, 4, keeps);
        break;
    case 5:
        flash_product_rows(p, 5, keeps);
        break;
    default:
        flash_product_rows(p, 6, keeps);
        break;
    }
}

static inline void flash_multiply(const flash_operands *p, int64_t n_r) {
    if (p->kept)
        flash_multiply_way(p, n_r, true);
    else
        flash_multiply_way(p, n_r, false);
}

/* What some pairs see of a tile: [lo, hi) of each, and of all. */
typedef struct flash_view {
    int64_t los[V16_FLASH_ROWS], his[V16_FLASH_ROWS];
    int64_t lo, hi;
} flash_view;

static inline flash_view flash_view_of(const flash_space *s, int64_t m, int64_t n, int64_t tile) {
    flash_view v = {.lo = ATTENTION_TILE, .hi = 0};
    for (int64_t i = 0; i < n; i++) {
        const key_range *seen = &s->seen[m + i];
        v.los[i] = seen->lo > tile ? seen->lo - tile : 0;
        v.his[i] = seen->hi - tile < ATTENTION_TILE ? seen->hi - tile : ATTENTION_TILE;
        if (v.los[i] >= v.his[i]) continue;
        if (v.los[i] < v.lo) v.lo = v.los[i];
        if (v.his[i] > v.hi) v.hi = v.his[i];
    }
    return v;
}

/* The scores of n pairs from m on become probabilities, those of pairs that see nothing zeros;
 * kept[i]: what the sums so far are multiplied by. */
static inline void flash_weigh(const kernel_call *call, const flash_space *s, const flash_view *v,
                               int64_t m, int64_t n, float kept[16]) {
    int64_t first = v->lo / 16 * 16, last = padded(v->hi);
    float max[V16_FLASH_ROWS];
    for (int64_t i = 0; i < n; i++) {
        float *row = s->scores + (m + i) * ATTENTION_TILE;
        max[i] = s->max[m + i];
        kept[i] = 0.0f;
        if (v->los[i] >= v->his[i]) continue;
        float most = tile_largest(call, row, first, last, v->los[i], v->his[i]);
        if (most > max[i]) max[i] = most;
        kept[i] = s->max[m + i] - max[i];
    }
    v16_store(kept, v16_exp_fused(v16_load(kept)));
    for (int64_t i = 0; i < n; i++) {
        float *row = s->scores + (m + i) * ATTENTION_TILE;
        if (v->los[i] >= v->his[i]) {
            memset(row + first, 0, (size_t)(last - first) * sizeof(float));
            continue;
        }
        s->sum[m + i] = fmaf(s->sum[m + i], kept[i], tile_soften(row, first, last, max[i]));
        s->max[m + i] = max[i];
    }
}

/* Pairs [m, m + n) and what they see of the tile at `tile`. */
static inline void flash_attend(const kernel_call *call, const flash_space *s, int64_t m, int64_t n,
                                int64_t tile) {
    /* Those that see nothing stay out of it where they stand at an end. */
    for (; n > 0 && (s->seen[m].hi <= tile || s->seen[m].lo >= tile + ATTENTION_TILE); n--)
        m++;
    flash_view v = flash_view_of(s, m, n, tile);
    if (v.lo >= v.hi) return;
    int64_t first = v.lo / 16 * 16, last = padded(v.hi);
    float *scores = s->scores + m * ATTENTION_TILE, kept[16] = {0};
    const flash_operands qk = {s->q + m * s->d_wide,
                               s->keys + first,
                               scores + first,
                               s->d_wide,
                               ATTENTION_TILE,
                               ATTENTION_TILE,
                               s->d,
                               last - first,
                               NULL};
    flash_multiply(&qk, n);
    flash_weigh(call, s, &v, m, n, kept);
    const flash_operands pv = {scores + v.lo,
                               s->values + v.lo * s->dv_wide,
                               s->total + m * s->dv_wide,
                               ATTENTION_TILE,
                               s->dv_wide,
                               s->dv_wide,
                               v.hi - v.lo,
                               s->dv_wide,
                               kept};
    flash_multiply(&pv, n);
}

/* ---- a block of rows ---- */

/* Pairs [m, m + group) are the heads of `row`. */
static inline void flash_begin_row(const kernel_call *call, const flash_space *s, int64_t row,
                                   int64_t kv, int64_t m, key_range seen) {
    const kernel_operand *q = &call->src[ATT_Q], *sinks = &call->src[ATT_SINKS];
    bool has_sink = call->n_src > ATT_SINKS && sinks->data;
    v16 scale = v16_set(call->attr->attention.scale);
    for (int64_t g = 0; g < s->group; g++, m++) {
        int64_t head = kv * s->group + g;
        float *to = s->q + m * s->d_wide, *total = s->total + m * s->dv_wide;
        widen(at(q->data, q->dtype, operand_row(q, row * q->dim[1] + head)), q->dtype, s->d, to);
        for (int64_t i = 0; i < s->d; i += 16)
            v16_store(to + i, v16_mul(v16_load(to + i), scale));
        for (int64_t i = 0; i < s->dv; i += 16)
            v16_store(total + i, v16_zero());
        s->max[m] = has_sink ? operand_load(sinks, head * operand_step(sinks)) : -INFINITY;
        s->sum[m] = has_sink ? 1.0f : 0.0f;
        s->seen[m] = seen;
    }
}

static inline void flash_end_row(const kernel_call *call, const flash_space *s, int64_t row,
                                 int64_t kv, int64_t m) {
    const kernel_operand *out = &call->out;
    for (int64_t g = 0; g < s->group; g++, m++) {
        float *total = s->total + m * s->dv_wide;
        for (int64_t i = 0; i < s->dv; i += 16) {
            v16 y = v16_div(v16_load(total + i), v16_set(s->sum[m]));
            v16_store(total + i, s->sum[m] == 0.0f ? v16_zero() : y);
        }
        int64_t off = operand_row(out, row) + (kv * s->group + g) * s->dv;
        store_row(at_mut(out->data, out->dtype, off), out->dtype, s->dv, total);
    }
}

/* Rows [begin, end) of one sequence. */
static inline void flash_rows(const kernel_call *call, const flash_space *s, int64_t begin,
                              int64_t end, int64_t kv) {
    const int32_t *table = attention_row_of(call, begin).table;
    int64_t lo = INT64_MAX, hi = 0, n = (end - begin) * s->group;
    for (int64_t r = begin; r < end; r++) {
        key_range seen = attention_row_of(call, r).keys;
        flash_begin_row(call, s, r, kv, (r - begin) * s->group, seen);
        if (seen.lo < lo && seen.lo < seen.hi) lo = seen.lo;
        if (seen.hi > hi) hi = seen.hi;
    }
    for (int64_t tile = lo / ATTENTION_TILE * ATTENTION_TILE; tile < hi; tile += ATTENTION_TILE) {
        int64_t from = lo > tile ? lo : tile;
        int64_t to = hi < tile + ATTENTION_TILE ? hi : tile + ATTENTION_TILE;
        flash_take_keys(call, table, kv, from, to, s);
        flash_take_values(call, table, kv, from, to, s);
        for (int64_t m = 0; m < n; m += V16_FLASH_ROWS)
            flash_attend(call, s, m, n - m < V16_FLASH_ROWS ? n - m : V16_FLASH_ROWS, tile);
    }
    for (int64_t r = begin; r < end; r++)
        flash_end_row(call, s, r, kv, (r - begin) * s->group);
}

static inline void flash_run(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    const int32_t *row_seq = operand_i32(&call->src[ATT_ROW_SEQ]);
    int64_t n_kv = call->attr->attention.layout.n_kv_heads, n_rows = call->src[ATT_Q].dim[0];
    int64_t block = flash_block_rows(call);
    flash_space s;
    flash_space_init(&s, call, scratch);
    /* Of a prompt, later rows see more keys: the largest units come first, so that threads end
     * together. */
    for (int64_t i = begin; i < end; i++) {
        int64_t u = flash_n_units(call) - 1 - i;
        int64_t r = u / n_kv * block, last = r + block < n_rows ? r + block : n_rows;
        while (r < last) {
            int64_t next = r + 1;
            while (next < last && row_seq[next] == row_seq[r])
                next++;
            flash_rows(call, &s, r, next, u % n_kv);
            r = next;
        }
    }
}

#endif
