/* blocks.c: pools: address space for every layer, free lists and holders of blocks.
 *
 * A pool reserves room for `max_seqs` sequences at full length at once, but a page of it costs
 * memory only when it is first written. So bases never move, and a replayed plan or a captured
 * graph may keep them. A sliding group needs far fewer blocks than a full one: the window, the rows
 * in flight and the partly used blocks at both ends.
 */
#include "kv/blocks.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"

/* Slots are int32: block*64 + 63 must fit. */
#define MAX_BLOCKS ((int64_t)1 << 25)

/* Pages of this size where the system has them: a context that is read token by token spends a
 * fifth of its time on finding small pages. The first of a layer stays small, so that a short
 * context costs no more memory than it fills. */
#define HUGE_PAGE ((size_t)2 << 20)

/* A span of n positions touches at most this many blocks, wherever it begins. */
static int64_t blocks_of_span(int64_t n) { return (n + KV_BLOCK - 2) / KV_BLOCK + 1; }

/* One block more than a sequence can show: while a copied block is not committed, the shared one
 * that it replaces is still held. */
static int64_t blocks_per_seq(const kv_pool *pool, int32_t window) {
    int64_t full = pool->table_length;
    if (!window) return full + 1;
    int64_t most = window < 0 ? -(int64_t)window : window;
    int64_t sliding = blocks_of_span(most - 1 + pool->max_rows);
    return (sliding < full ? sliding : full) + 1;
}

static mica_status init_group(kv_pool *pool, int g, int32_t window, int64_t max_seqs,
                              mica_error *err) {
    kv_group *group = &pool->groups[g];
    int64_t per_seq = blocks_per_seq(pool, window);
    if (per_seq > MAX_BLOCKS / max_seqs)
        return mica_fail(err, MICA_E_LIMIT,
                         "kv cache: %lld sequences of %lld positions need more than %lld blocks; "
                         "use a shorter context",
                         (long long)max_seqs, (long long)pool->max_positions,
                         (long long)MAX_BLOCKS);
    group->window = window;
    group->n_blocks = (int32_t)(per_seq * max_seqs);
    group->free = mica_calloc((size_t)group->n_blocks, sizeof(*group->free));
    group->refs = mica_calloc((size_t)group->n_blocks, sizeof(*group->refs));
    if (!group->free || !group->refs)
        return mica_fail(err, MICA_E_NOMEM, "kv cache: no memory for a list of %d blocks",
                         group->n_blocks);
    for (int32_t i = 0; i < group->n_blocks; i++)
        group->free[i] = group->n_blocks - 1 - i; /* low numbers are taken first */
    group->n_free = group->n_blocks;
    return MICA_OK;
}

/* n_bytes of fresh pages, both multiples of HUGE_PAGE; NULL: errno says why. */
static uint8_t *reserve_pages(size_t n_bytes) {
    uint8_t *p = mmap(NULL, n_bytes + HUGE_PAGE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return NULL;
    size_t before = (HUGE_PAGE - (uintptr_t)p % HUGE_PAGE) % HUGE_PAGE;
    if (before) munmap(p, before);
    munmap(p + before + n_bytes, HUGE_PAGE - before);
    p += before;
    if (n_bytes > HUGE_PAGE) /* advice: all works without it */
        (void)madvise(p + HUGE_PAGE, n_bytes - HUGE_PAGE, MADV_HUGEPAGE);
    return p;
}

static mica_status map_layer(kv_pool *pool, int l, const kv_layer_spec *spec, mica_error *err) {
    kv_layer *layer = &pool->layers[l];
    if (spec->group < 0 || spec->group >= pool->n_groups)
        return mica_fail(err, MICA_E_INVALID, "kv cache: layer %d is in group %d of %d", l,
                         spec->group, pool->n_groups);
    uint64_t n_bytes;
    uint64_t n_blocks = (uint64_t)pool->groups[spec->group].n_blocks;
    if (!mica_mul_u64(n_blocks, spec->layout.block_bytes, &n_bytes) || n_bytes > SIZE_MAX / 2)
        return mica_fail(err, MICA_E_LIMIT,
                         "kv cache: %llu blocks of %llu bytes do not fit the address space; "
                         "use a shorter context",
                         (unsigned long long)n_blocks,
                         (unsigned long long)spec->layout.block_bytes);
    n_bytes = mica_align_up(n_bytes, HUGE_PAGE);
    uint8_t *base = reserve_pages(n_bytes);
    if (!base)
        return mica_fail_errno(err, MICA_E_NOMEM, errno,
                               "kv cache: no address space for %llu bytes of layer %d; use a "
                               "shorter context",
                               (unsigned long long)n_bytes, l);
    *layer = (kv_layer){spec->group, spec->layout, base, n_bytes};
    return MICA_OK;
}

static mica_status check_spec(const kv_pool_spec *spec, mica_error *err) {
    if (spec->n_groups < 0 || spec->n_layers < 0 || (spec->n_layers && !spec->n_groups))
        return mica_fail(err, MICA_E_INVALID, "kv cache: %d layers in %d groups", spec->n_layers,
                         spec->n_groups);
    if (spec->max_positions <= 0 || spec->max_rows <= 0 || spec->max_seqs <= 0)
        return mica_fail(err, MICA_E_INVALID,
                         "kv cache: %lld positions, %lld rows, %lld sequences; all must be "
                         "positive",
                         (long long)spec->max_positions, (long long)spec->max_rows,
                         (long long)spec->max_seqs);
    if (spec->max_positions > INT32_MAX - KV_BLOCK || spec->max_rows > spec->max_positions)
        return mica_fail(err, MICA_E_LIMIT,
                         "kv cache: %lld positions with steps of %lld rows; at most %d positions, "
                         "and a step no longer than that",
                         (long long)spec->max_positions, (long long)spec->max_rows,
                         INT32_MAX - KV_BLOCK);
    return MICA_OK;
}

mica_status mica_kv_pool_new(kv_pool **out, const kv_pool_spec *spec, mica_error *err) {
    mica_status st = check_spec(spec, err);
    if (st) return st;
    kv_pool *pool = mica_calloc(1, sizeof(*pool));
    if (!pool) return mica_fail(err, MICA_E_NOMEM, "kv cache: out of memory");
    pool->table_length = (spec->max_positions + KV_BLOCK - 1) / KV_BLOCK;
    pool->max_positions = pool->table_length * KV_BLOCK;
    pool->max_rows = spec->max_rows;
    pool->state_bytes = spec->state_bytes;
    pool->groups = mica_calloc((size_t)spec->n_groups, sizeof(*pool->groups));
    pool->layers = mica_calloc((size_t)spec->n_layers, sizeof(*pool->layers));
    if (!pool->groups || !pool->layers) {
        st = mica_fail(err, MICA_E_NOMEM, "kv cache: out of memory");
        goto out;
    }
    for (; pool->n_groups < spec->n_groups; pool->n_groups++)
        if ((st = init_group(pool, pool->n_groups, spec->windows[pool->n_groups], spec->max_seqs,
                             err))) {
            pool->n_groups++; /* half made: freed with the others */
            goto out;
        }
    for (; pool->n_layers < spec->n_layers; pool->n_layers++)
        if ((st = map_layer(pool, pool->n_layers, &spec->layers[pool->n_layers], err))) goto out;
    *out = pool;
    pool = NULL;
out:
    mica_kv_pool_free(pool);
    return st;
}

void mica_kv_pool_free(kv_pool *pool) {
    if (!pool) return;
    for (int l = 0; l < pool->n_layers; l++)
        munmap(pool->layers[l].base, pool->layers[l].n_bytes);
    for (int g = 0; g < pool->n_groups; g++) {
        mica_free(pool->groups[g].free);
        mica_free(pool->groups[g].refs);
    }
    mica_free(pool->layers);
    mica_free(pool->groups);
    mica_free(pool);
}

void *mica_kv_pool_base(const kv_pool *pool, int layer) { return pool->layers[layer].base; }

int64_t mica_kv_pool_blocks_used(const kv_pool *pool, int group) {
    return pool->groups[group].n_blocks - pool->groups[group].n_free;
}

uint64_t mica_kv_pool_bytes_used(const kv_pool *pool) {
    uint64_t n_bytes = 0;
    for (int l = 0; l < pool->n_layers; l++)
        n_bytes += (uint64_t)mica_kv_pool_blocks_used(pool, pool->layers[l].group) *
                   pool->layers[l].layout.block_bytes;
    return n_bytes;
}

int64_t mica_kv_table_length(const kv_pool *pool) { return pool->table_length; }

int32_t mica_kv_block_take(kv_pool *pool, int group) {
    kv_group *g = &pool->groups[group];
    int32_t block = g->free[--g->n_free];
    g->refs[block] = 1;
    return block;
}

void mica_kv_block_ref(kv_pool *pool, int group, int32_t block) {
    pool->groups[group].refs[block]++;
}

void mica_kv_block_unref(kv_pool *pool, int group, int32_t block) {
    kv_group *g = &pool->groups[group];
    if (--g->refs[block]) return;
    mica_kv_block_poison(pool, group, block, 0);
    g->free[g->n_free++] = block;
}

void mica_kv_block_copy(kv_pool *pool, int group, int32_t to, int32_t from) {
    for (int l = 0; l < pool->n_layers; l++) {
        const kv_layer *layer = &pool->layers[l];
        if (layer->group != group) continue;
        size_t n = layer->layout.block_bytes;
        memcpy(layer->base + (size_t)to * n, layer->base + (size_t)from * n, n);
    }
}

#ifdef NDEBUG
void mica_kv_block_poison(kv_pool *pool, int group, int32_t block, int64_t row) {
    (void)pool, (void)group, (void)block, (void)row;
}
#else
/* All bits set is a NaN in every float type. */
static void poison_heads(uint8_t *p, int32_t n_heads, size_t row_bytes, int64_t row) {
    for (int32_t h = 0; h < n_heads; h++)
        memset(p + ((size_t)h * KV_BLOCK + (size_t)row) * row_bytes, 0xFF,
               (size_t)(KV_BLOCK - row) * row_bytes);
}

void mica_kv_block_poison(kv_pool *pool, int group, int32_t block, int64_t row) {
    for (int l = 0; l < pool->n_layers; l++) {
        const kv_layer *layer = &pool->layers[l];
        const kv_layout *y = &layer->layout;
        if (layer->group != group) continue;
        uint8_t *p = layer->base + (size_t)block * y->block_bytes;
        size_t element = mica_dtype_bytes(y->dtype);
        poison_heads(p, y->n_kv_heads, (size_t)y->head_dim * element, row);
        if (y->v_in_k) continue;
        poison_heads(p + y->k_bytes, y->n_kv_heads, (size_t)y->v_head_dim * element, row);
    }
}
#endif
