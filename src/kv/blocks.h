/* blocks.h: the inside of a pool: which blocks are free, who holds them, where their bytes are.
 *
 * A block number means the same place in every layer of its group. Blocks are held by count: a
 * block goes back to the free list when its last holder lets go of it.
 */
#ifndef MICA_KV_BLOCKS_H
#define MICA_KV_BLOCKS_H

#include "kv/kv.h"

typedef struct kv_group {
    int32_t window; /* as in mica_oldest_key; 0: full attention */
    int32_t n_blocks;
    int32_t n_free;
    int32_t *free;  /* [n_blocks]: a stack, the next one to take at n_free-1 */
    uint32_t *refs; /* [n_blocks] holders */
} kv_group;

typedef struct kv_layer {
    int32_t group;
    kv_layout layout;
    uint8_t *base; /* reserved address space, never moved */
    size_t n_bytes;
} kv_layer;

struct kv_pool {
    kv_group *groups;
    int n_groups;
    kv_layer *layers;
    int n_layers;
    int64_t max_positions;
    int64_t max_rows;
    int64_t table_length;
    size_t state_bytes;
    int64_t n_seqs; /* alive */
};

/* Takes a free block with one holder. There must be one (the caller has counted). */
int32_t mica_kv_block_take(kv_pool *pool, int group);
void mica_kv_block_ref(kv_pool *pool, int group, int32_t block);
void mica_kv_block_unref(kv_pool *pool, int group, int32_t block);
/* Copies all layers of the group. */
void mica_kv_block_copy(kv_pool *pool, int group, int32_t to, int32_t from);
/* In debug builds: makes rows [row, 64) NaN in all layers, so that a reader of rows that are not
 * committed shows itself. */
void mica_kv_block_poison(kv_pool *pool, int group, int32_t block, int64_t row);

#endif
