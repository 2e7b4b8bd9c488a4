/* take_gguf.c: a matrix of a GGUF file. Dense types are used where they lie; blocks are re-ordered
 * into the canonical layout, and the file's pages are given back while that goes on, so that memory
 * never holds a large matrix twice.
 */
#include "weights/repack.h"
#include "weights/store.h"

#define CHUNK_BYTES ((uint64_t)4 << 20) /* of source between two steps of progress */

static void repack_in_chunks(weight_store *store, const file_tensor *t, const repack_plan *plan,
                             uint8_t *base) {
    gguf_block block = mica_gguf_block((uint32_t)t->type);
    uint64_t n_blocks = t->n_bytes / block.n_bytes;
    uint64_t step = CHUNK_BYTES / block.n_bytes;
    for (uint64_t i = 0; i < n_blocks; i += step) {
        uint64_t n = n_blocks - i < step ? n_blocks - i : step;
        mica_repack(t->type, t->data + i * block.n_bytes, i, n, plan, base);
        if (t->map)
            mica_map_drop(t->map, (uint64_t)(t->data - t->map->data), (i + n) * block.n_bytes);
        store->done_bytes += n * block.n_bytes;
        if (store->options.progress)
            store->options.progress(store->options.user, store->done_bytes, store->total_bytes);
    }
}

static void point_at_streams(weight_matrix *m, const repack_plan *plan, const uint8_t *base) {
    const weight_form *f = &m->form;
    size_t n_groups = (size_t)m->n_in / f->group;
    m->row_bytes = (size_t)m->n_in * f->bits / 8;
    m->codes = base + plan->codes_off;
    m->scales = base + plan->scales_off;
    if (f->bias == BIAS_GROUP || f->bias == BIAS_TWO_LEVEL) m->biases = base + plan->biases_off;
    if (f->bias == BIAS_TWO_LEVEL) m->super_biases = base + plan->super_biases_off;
    if (f->scale == SCALE_TWO_LEVEL) {
        m->scale_bytes = n_groups * f->sub_bits / 8;
        m->supers = base + plan->supers_off;
    } else {
        m->scale_bytes = n_groups * (f->scale == SCALE_F16 ? 2 : 1);
    }
}

mica_status mica_store_take_gguf(weight_store *store, const weight_entry *entry, weight_matrix *m,
                                 void **memory, mica_error *err) {
    const file_tensor *t = entry->tensor;
    gguf_block block = mica_gguf_block((uint32_t)t->type);
    repack_plan plan;
    if (!mica_gguf_form(t->type, &m->form))
        return mica_fail(err, MICA_E_UNSUPPORTED, "%s: %s has type %s, which is no weight type",
                         mica_store_source(store), t->name, block.name);
    m->n_in = (int64_t)t->dim[t->n_dims - 1];
    m->n_out = (int64_t)t->dim[t->n_dims - 2];
    if (m->form.kind == WEIGHT_DENSE) {
        m->codes = t->data;
        m->row_bytes = (size_t)m->n_in * block.n_bytes;
        return MICA_OK;
    }
    if (!mica_repack_plan(t->type, t->n_bytes / block.n_bytes, &plan))
        return mica_fail(err, MICA_E_LIMIT, "%s: %s is too large for this machine",
                         mica_store_source(store), t->name);
    uint8_t *base = mica_aligned_alloc(64, plan.n_bytes);
    if (!base)
        return mica_fail(err, MICA_E_NOMEM, "%s: out of memory: %zu bytes for %s",
                         mica_store_source(store), plan.n_bytes, t->name);
    repack_in_chunks(store, t, &plan, base);
    point_at_streams(m, &plan, base);
    *memory = base;
    return MICA_OK;
}
