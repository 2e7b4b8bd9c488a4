/* attention_parts.h: what OP_ATTENTION_PARTS leaves for OP_ATTENTION_JOIN: a row's attention over
 * parts of its keys, so that several threads share a long context when heads are few.
 *
 * The tiles of 128 positions that a row sees are cut into at most P parts of equally many tiles
 * (the last may have fewer), a number that hangs on the heads alone. A row of the tensor, all f32:
 *   total [heads][P][dv]  sum of exp(score - max) * value over the keys of a part
 *   max   [heads][P]      the largest score of a part; -infinity where a part has no keys
 *   sum   [heads][P]      sum of exp(score - max); 0 there, and its total is not written
 */
#ifndef MICA_GRAPH_ATTENTION_PARTS_H
#define MICA_GRAPH_ATTENTION_PARTS_H

#include <stdint.h>

/* Heads that share one read of the keys and values of their kv head, at most; more would be bound
 * by arithmetic, and are further units. */
#define ATTENTION_PART_HEADS 8
/* Units of one row that its parts are made for: two or more for each of 16 threads. */
#define ATTENTION_PART_UNITS 32

/* Blocks of heads that share a kv head. */
static inline int64_t attention_head_blocks(int64_t group) {
    return (group + ATTENTION_PART_HEADS - 1) / ATTENTION_PART_HEADS;
}

static inline int64_t attention_n_parts(int64_t n_heads, int64_t n_kv_heads) {
    int64_t n_units = n_kv_heads * attention_head_blocks(n_heads / n_kv_heads);
    return n_units < ATTENTION_PART_UNITS ? ATTENTION_PART_UNITS / n_units : 1;
}

/* Offsets in a row for n = heads * parts, in elements, and its length. */
static inline int64_t attention_parts_max(int64_t n, int64_t dv) { return n * dv; }
static inline int64_t attention_parts_sum(int64_t n, int64_t dv) { return n * (dv + 1); }
static inline int64_t attention_parts_length(int64_t n, int64_t dv) { return n * (dv + 2); }

#endif
