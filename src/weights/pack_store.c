/* pack_store.c: makes the matrices of a store readable: maps a pack, or re-orders weights with all
 * threads, into memory or into a new pack.
 *
 * Matrices are cut into chunks that threads take as they come. The file's pages are given back
 * while that goes on, so that memory never holds a large matrix twice.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "weights/pack_file.h"
#include "weights/store.h"

#define CHUNK_BYTES ((uint64_t)1 << 20) /* of the file: its streams stay in a core's cache */
#define AHEAD_CHUNKS 64                 /* that are asked for before they are needed */
#define LEAST_PACK_BYTES ((uint64_t)16 << 20)

/* One matrix to make, and its first chunk among all. */
typedef struct pack_item {
    taken_matrix *taken;
    uint64_t first_chunk, n_chunks, n_units, chunk_units;
} pack_item;

typedef struct packing {
    weight_store *store;
    pack_item *items;
    size_t n_items;
    uint64_t n_chunks;
    const pack_file *file; /* NULL: into the region */
    uint8_t *buffers;      /* [threads][buffer_bytes], for a file */
    size_t buffer_bytes;
    _Atomic uint64_t next, done_bytes;
    atomic_bool has_failed;
} packing;

/* ---- one chunk ---- */

/* Units [first, first + n) through a buffer to their places in the file. */
static bool write_chunk(const packing *p, const taken_matrix *t, uint64_t first, uint64_t n,
                        uint8_t *buffer) {
    repack_plan plan;
    size_t from[REPACK_STREAMS], to[REPACK_STREAMS], size[REPACK_STREAMS];
    if (!mica_taken_plan(t, n, &plan) || plan.n_bytes > p->buffer_bytes) return false;
    mica_taken_make(t, first, n, &plan, 0, buffer);
    mica_taken_streams(t, &plan, from, size);
    mica_taken_streams(t, &t->plan, to, size);
    for (int i = 0; i < REPACK_STREAMS; i++) {
        uint64_t off = t->entry->region_off + to[i] + first * size[i];
        if (size[i] && !mica_pack_put(p->file, off, buffer + from[i], n * size[i])) return false;
    }
    return true;
}

static bool do_chunk(packing *p, const pack_item *item, uint64_t chunk, int thread) {
    const taken_matrix *t = item->taken;
    uint64_t first = chunk * item->chunk_units;
    uint64_t n =
        item->n_units - first < item->chunk_units ? item->n_units - first : item->chunk_units;
    bool ok = true;
    mica_taken_want(t, first + AHEAD_CHUNKS * item->chunk_units, item->chunk_units);
    if (p->file)
        ok = write_chunk(p, t, first, n, p->buffers + (size_t)thread * p->buffer_bytes);
    else
        mica_taken_make(t, first, n, &t->plan, first, p->store->region.data + t->entry->region_off);
    mica_taken_drop(t, first, n);
    atomic_fetch_add_explicit(&p->done_bytes, n * mica_taken_unit_bytes(t), memory_order_relaxed);
    return ok;
}

/* Thread 0 is the caller's: it alone reports. */
static void report(const packing *p) {
    const weight_options *o = &p->store->options;
    if (o->progress) o->progress(o->user, atomic_load(&p->done_bytes), p->store->total_bytes);
}

static void do_chunks(void *arg, int thread, int n_threads) {
    packing *p = arg;
    size_t i = 0;
    (void)n_threads;
    while (!atomic_load_explicit(&p->has_failed, memory_order_relaxed)) {
        uint64_t chunk = atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed);
        if (chunk >= p->n_chunks) break;
        while (chunk >= p->items[i].first_chunk + p->items[i].n_chunks)
            i++;
        if (!do_chunk(p, &p->items[i], chunk - p->items[i].first_chunk, thread))
            atomic_store(&p->has_failed, true);
        if (thread == 0) report(p);
    }
}

/* ---- all of them ---- */

static void add_item(packing *p, taken_matrix *taken) {
    pack_item *item = &p->items[p->n_items++];
    *item = (pack_item){.taken = taken, .first_chunk = p->n_chunks};
    item->n_units = mica_taken_units(taken);
    item->chunk_units = CHUNK_BYTES / mica_taken_unit_bytes(taken);
    uint64_t panel = WEIGHT_PANEL * taken->plan.row_blocks; /* a chunk is whole panels */
    if (panel) item->chunk_units -= item->chunk_units % panel;
    if (item->chunk_units == 0) item->chunk_units = panel;
    item->n_chunks = (item->n_units + item->chunk_units - 1) / item->chunk_units;
    p->n_chunks += item->n_chunks;
}

static mica_status commit(packing *p, mica_error *err) {
    mica_status st = MICA_OK;
    for (size_t i = 0; !st && i < p->n_items; i++)
        st = mica_region_commit(&p->store->region, p->items[i].taken->entry->region_off,
                                p->items[i].taken->plan.n_bytes, err);
    return st;
}

/* Pages that two chunks share are still there. */
static void drop_sources(const packing *p) {
    for (size_t i = 0; i < p->n_items; i++) {
        taken_matrix *t = p->items[i].taken;
        mica_taken_drop(t, 0, p->items[i].n_units);
        t->is_ready = true;
        p->store->done_bytes += p->items[i].n_units * mica_taken_unit_bytes(t);
    }
}

static mica_status make_in_memory(packing *p, mica_pool *pool, mica_error *err) {
    mica_status st = commit(p, err);
    if (st) return st;
    p->file = NULL;
    atomic_store(&p->next, 0);
    atomic_store(&p->done_bytes, p->store->done_bytes);
    atomic_store(&p->has_failed, false);
    if (pool)
        mica_pool_run(pool, do_chunks, p);
    else
        do_chunks(p, 0, 1);
    return MICA_OK;
}

/* ---- packs ---- */

/* Names, shapes and places of all tensors. */
static uint64_t tensors_hash(const weight_store *store) {
    uint64_t sum = 0;
    for (size_t i = 0; i < store->n_entries; i++) {
        const file_tensor *t = store->entries[i].tensor;
        uint64_t facts[4 + MICA_MAX_DIMS] = {mica_pack_hash(t->name, strlen(t->name)),
                                             (uint64_t)t->dtype, t->n_bytes,
                                             t->map ? (uint64_t)(t->data - t->map->data) : 0};
        for (int d = 0; d < t->n_dims; d++)
            facts[4 + d] = t->dim[d];
        sum = sum * 31 + mica_pack_hash(facts, sizeof(facts));
    }
    return sum;
}

/* Everything of a GGUF file before the first tensor: names, shapes, places, metadata. */
static uint64_t head_hash(const weight_store *store, const mica_map *map) {
    uint64_t n = map->size;
    for (size_t i = 0; i < store->n_entries; i++) {
        uint64_t off = (uint64_t)(store->entries[i].tensor->data - map->data);
        if (off < n) n = off;
    }
    return mica_pack_hash(map->data, (size_t)n);
}

static bool find_key(const weight_store *store, pack_key *key) {
    if (!store->file) {
        key->head_hash = tensors_hash(store);
        return mica_pack_source(mica_store_source(store), &key->file_bytes, &key->mtime_ns);
    }
    const mica_map *map = mica_gguf_map(store->file);
    if (map) *key = (pack_key){map->size, map->mtime_ns, head_hash(store, map)};
    return map != NULL;
}

static const char *source_path(const weight_store *store) {
    return store->file ? mica_gguf_map(store->file)->path : mica_store_source(store);
}

static bool list_entries(const packing *p, pack_entry *out) {
    for (size_t i = 0; i < p->n_items; i++) {
        const weight_entry *e = p->items[i].taken->entry;
        int n = snprintf(out[i].name, sizeof(out[i].name), "%s", e->tensor->name);
        if (n < 0 || n >= (int)sizeof(out[i].name)) return false;
        out[i].off = e->region_off;
        out[i].n_bytes = p->items[i].taken->plan.n_bytes;
    }
    return true;
}

static bool map_pack(packing *p, const pack_file *file) {
    mica_region *r = &p->store->region;
    return !mica_region_map(r, 0, p->store->region_end, file->fd, file->data_off, NULL);
}

/* Of the largest chunk. */
static bool find_buffer_bytes(packing *p) {
    p->buffer_bytes = 64;
    for (size_t i = 0; i < p->n_items; i++) {
        repack_plan plan;
        if (!mica_taken_plan(p->items[i].taken, p->items[i].chunk_units, &plan)) return false;
        if (plan.n_bytes > p->buffer_bytes) p->buffer_bytes = plan.n_bytes;
    }
    return true;
}

static bool make_pack(packing *p, mica_pool *pool, pack_file *file, const pack_key *key,
                      const pack_entry *entries, const char *path) {
    uint64_t n_data = p->store->region_end;
    if (!find_buffer_bytes(p) || !mica_pack_create(file, path, p->n_items, n_data)) return false;
    size_t n_threads = (size_t)mica_pool_threads(pool);
    p->buffers = mica_aligned_alloc(64, n_threads * p->buffer_bytes);
    p->file = file;
    if (p->buffers) mica_pool_run(pool, do_chunks, p);
    bool ok = p->buffers && !atomic_load(&p->has_failed);
    mica_free(p->buffers);
    char *full = ok ? mica_path_resolve(source_path(p->store)) : NULL;
    ok = full && mica_pack_finish(file, key, full, entries, p->n_items, n_data, pool);
    mica_free(full);
    return ok;
}

/* False: weights are to be made in memory. */
static bool use_pack(packing *p, mica_pool *pool, const char *folder) {
    pack_key key;
    if (!folder || !pool || !mica_pack_is_supported() || p->store->region_end < LEAST_PACK_BYTES ||
        !find_key(p->store, &key))
        return false;
    pack_entry *entries = mica_calloc(p->n_items, sizeof(*entries));
    char *path = mica_pack_path(folder, source_path(p->store));
    pack_file file = {.fd = -1};
    bool ok = entries && path && list_entries(p, entries) &&
              (mica_pack_open(&file, path, &key, entries, p->n_items, pool) ||
               make_pack(p, pool, &file, &key, entries, path)) &&
              map_pack(p, &file);
    mica_pack_close(&file);
    mica_free(path);
    mica_free(entries);
    return ok;
}

/* What was looked at while matrices and vectors were taken need not stay resident. */
static void drop_maps(const weight_store *store) {
    const mica_map *last = NULL;
    for (size_t i = 0; i < store->n_entries; i++) {
        const mica_map *map = store->entries[i].tensor->map;
        if (map && map != last) mica_map_drop(map, 0, map->size);
        last = map;
    }
}

mica_status mica_weights_prepare(weight_store *store, mica_pool *pool, const char *pack_folder,
                                 mica_error *err) {
    packing p = {.store = store};
    p.items = mica_calloc(store->n_entries, sizeof(*p.items));
    if (!p.items)
        return mica_fail(err, MICA_E_NOMEM, "%s: out of memory", mica_store_source(store));
    for (size_t i = 0; i < store->n_entries; i++) {
        taken_matrix *taken = store->matrix_of[i];
        if (taken && taken->plan.n_bytes && !taken->is_ready) add_item(&p, taken);
    }
    mica_status st = MICA_OK;
    if (p.n_items && !use_pack(&p, pool, pack_folder)) st = make_in_memory(&p, pool, err);
    if (!st) drop_sources(&p);
    drop_maps(store);
    mica_free(p.items);
    return st;
}

mica_status mica_store_make_ready(weight_store *store, taken_matrix *taken, mica_error *err) {
    pack_item item;
    packing p = {.store = store, .items = &item};
    if (!taken->plan.n_bytes) return MICA_OK;
    add_item(&p, taken);
    mica_status st = make_in_memory(&p, NULL, err);
    if (!st) drop_sources(&p);
    return st;
}

mica_status mica_weights_ready(weight_store *store, const weight_matrix *m, mica_error *err) {
    taken_matrix *t = store->matrices;
    while (t && &t->matrix != m)
        t = t->next;
    if (!t || !t->plan.n_bytes || t->is_ready) return MICA_OK;
    if (store->file) return mica_store_make_ready(store, t, err);
    weight_matrix *own = &t->matrix;
    own->codes = t->entry->tensor->data;
    own->scales = t->scales->data;
    own->biases = t->biases ? t->biases->data : NULL;
    own->panels = false;
    t->plan = (repack_plan){0};
    return MICA_OK;
}
