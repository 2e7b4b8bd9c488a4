/* kv_access.h: where a cached position lies, and which positions a row sees.
 */
#ifndef MICA_BACKEND_CPU_KV_ACCESS_H
#define MICA_BACKEND_CPU_KV_ACCESS_H

#include "backend/cpu/kernel.h"

/* Tiles of keys lie at absolute multiples of this and are merged in ascending order. */
#define ATTENTION_TILE 128

/* Key of head kv at position pos % 64 of `block`. */
static inline uint8_t *kv_key(const kv_layout *l, void *base, int64_t block, int64_t kv,
                              int64_t pos) {
    size_t row = (size_t)l->head_dim * mica_dtype_bytes(l->dtype);
    return (uint8_t *)base + (uint64_t)block * l->block_bytes +
           (size_t)(kv * KV_BLOCK + pos % KV_BLOCK) * row;
}

/* Bytes from the value of one position to the next. */
static inline size_t kv_value_step(const kv_layout *l) {
    return (size_t)(l->v_in_k ? l->head_dim : l->v_head_dim) * mica_dtype_bytes(l->dtype);
}

static inline uint8_t *kv_value(const kv_layout *l, void *base, int64_t block, int64_t kv,
                                int64_t pos) {
    if (l->v_in_k) return kv_key(l, base, block, kv, pos);
    return (uint8_t *)base + (uint64_t)block * l->block_bytes + l->k_bytes +
           (size_t)(kv * KV_BLOCK + pos % KV_BLOCK) * kv_value_step(l);
}

/* The keys [lo, hi) that a row sees. */
typedef struct key_range {
    int64_t lo, hi;
} key_range;

static inline key_range visible_keys(int32_t window, int64_t pos, int64_t span_lo,
                                     int64_t span_hi) {
    int64_t lo = mica_oldest_key(window, pos), hi = pos + 1;
    key_range r = {lo < span_lo ? lo : span_lo, hi > span_hi ? hi : span_hi};
    if (r.lo < 0) r.lo = 0;
    return r;
}

/* Part i of n: tiles of the keys, as graph/attention_parts.h cuts them; empty where there are fewer
 * parts. */
static inline key_range part_of_keys(key_range keys, int64_t i, int64_t n) {
    int64_t first = keys.lo / ATTENTION_TILE, end = (keys.hi + ATTENTION_TILE - 1) / ATTENTION_TILE;
    int64_t each = keys.lo < keys.hi ? (end - first + n - 1) / n : 0;
    int64_t lo = (first + i * each) * ATTENTION_TILE, hi = lo + each * ATTENTION_TILE;
    return (key_range){lo > keys.lo ? lo : keys.lo, hi < keys.hi ? hi : keys.hi};
}

/* The operands of OP_ATTENTION by name. */
enum {
    ATT_Q,
    ATT_CACHE,
    ATT_TABLE,
    ATT_POSITIONS,
    ATT_ROW_SEQ,
    ATT_SPAN_LO,
    ATT_SPAN_HI,
    ATT_SINKS
};

/* What one row of an attention call reads. */
typedef struct attention_row {
    const int32_t *table; /* block table of the row's sequence */
    int64_t n_blocks;
    key_range keys;
} attention_row;

static inline attention_row attention_row_of(const kernel_call *call, int64_t row) {
    const kernel_operand *table = &call->src[ATT_TABLE];
    int64_t seq = ((const int32_t *)call->src[ATT_ROW_SEQ].data)[row];
    attention_row a;
    a.table = (const int32_t *)table->data + seq * table->stride[0];
    a.n_blocks = table->dim[1];
    a.keys = visible_keys(call->attr->attention.window,
                          ((const int32_t *)call->src[ATT_POSITIONS].data)[row],
                          ((const int32_t *)call->src[ATT_SPAN_LO].data)[row],
                          ((const int32_t *)call->src[ATT_SPAN_HI].data)[row]);
    if (a.keys.hi > a.n_blocks * KV_BLOCK) a.keys.hi = a.n_blocks * KV_BLOCK;
    return a;
}

#endif
