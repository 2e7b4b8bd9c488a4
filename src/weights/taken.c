/* taken.c: what a matrix that does not lie in its file as kernels want it is made from.
 *
 * It is made in runs of units: blocks of a GGUF tensor, or rows of a folder's matrix, whose codes,
 * scales and biases are three tensors. Runs that begin and end with a panel can be made in any
 * order.
 */
#include "weights/store.h"

#include <string.h>

#include "base/checked.h"

/* Of a folder: codes, scales and biases (NULL without), and the bytes of a row of each. */
enum { ROW_PARTS = 3 };

static void row_parts(const taken_matrix *t, const file_tensor *tensors[ROW_PARTS],
                      size_t bytes[ROW_PARTS]) {
    const weight_matrix *m = &t->matrix;
    tensors[0] = t->entry->tensor;
    tensors[1] = t->scales;
    tensors[2] = t->biases;
    bytes[0] = m->row_bytes;
    bytes[1] = m->scale_bytes;
    bytes[2] = t->biases ? m->scale_bytes : 0;
}

static bool is_rows(const taken_matrix *t) { return t->scales != NULL; }

uint64_t mica_taken_unit_bytes(const taken_matrix *t) {
    const file_tensor *tensors[ROW_PARTS];
    size_t bytes[ROW_PARTS];
    if (!is_rows(t)) return mica_gguf_block((uint32_t)t->entry->tensor->type).n_bytes;
    row_parts(t, tensors, bytes);
    return bytes[0] + bytes[1] + bytes[2];
}

uint64_t mica_taken_units(const taken_matrix *t) {
    if (is_rows(t)) return (uint64_t)(t->matrix.n_experts * t->matrix.n_out);
    return t->entry->tensor->n_bytes / mica_taken_unit_bytes(t);
}

bool mica_taken_plan(const taken_matrix *t, uint64_t n_units, repack_plan *out) {
    const file_tensor *tensors[ROW_PARTS];
    size_t bytes[ROW_PARTS], streams[REPACK_STREAMS] = {0};
    const uint64_t row_blocks = t->plan.row_blocks; /* *out may be the same plan */
    if (!is_rows(t)) {
        if (!mica_repack_plan(t->entry->tensor->type, n_units, out)) return false;
    } else {
        row_parts(t, tensors, bytes);
        memcpy(streams, bytes, sizeof(bytes));
        if (!mica_repack_plan_streams(streams, n_units, out)) return false;
    }
    out->row_blocks = row_blocks;
    return true;
}

void mica_taken_streams(const taken_matrix *t, const repack_plan *plan, size_t off[REPACK_STREAMS],
                        size_t unit_bytes[REPACK_STREAMS]) {
    const file_tensor *tensors[ROW_PARTS];
    const size_t offs[REPACK_STREAMS] = {plan->codes_off, plan->scales_off, plan->biases_off};
    if (!is_rows(t)) {
        mica_repack_streams(t->entry->tensor->type, plan, off, unit_bytes);
        return;
    }
    memcpy(off, offs, sizeof(offs));
    memset(unit_bytes, 0, REPACK_STREAMS * sizeof(*unit_bytes));
    row_parts(t, tensors, unit_bytes);
}

void mica_taken_make(const taken_matrix *t, uint64_t first, uint64_t n, const repack_plan *plan,
                     uint64_t plan_first, uint8_t *base) {
    const file_tensor *tensors[ROW_PARTS];
    size_t bytes[ROW_PARTS];
    if (!is_rows(t)) {
        const file_tensor *tensor = t->entry->tensor;
        const uint8_t *blocks = tensor->data + first * mica_taken_unit_bytes(t);
        mica_repack(tensor->type, blocks, plan_first, n, plan, base);
        return;
    }
    const size_t offs[ROW_PARTS] = {plan->codes_off, plan->scales_off, plan->biases_off};
    row_parts(t, tensors, bytes);
    for (int i = 0; i < ROW_PARTS; i++) {
        size_t word = i ? mica_weight_scale_word(&t->matrix.form) : 4;
        if (bytes[i])
            mica_panel_fill(tensors[i]->data + first * bytes[i], bytes[i], word, n,
                            base + offs[i] + plan_first * bytes[i]);
    }
}

/* Calls fn for the pages of units [first, first + n). */
static void each_range(const taken_matrix *t, uint64_t first, uint64_t n,
                       void (*fn)(const mica_map *map, uint64_t off, uint64_t n_bytes)) {
    const file_tensor *tensors[ROW_PARTS] = {t->entry->tensor};
    size_t bytes[ROW_PARTS] = {0};
    if (is_rows(t))
        row_parts(t, tensors, bytes);
    else
        bytes[0] = (size_t)mica_taken_unit_bytes(t);
    for (int i = 0; i < ROW_PARTS; i++) {
        if (!bytes[i] || !tensors[i]->map) continue;
        uint64_t off = (uint64_t)(tensors[i]->data - tensors[i]->map->data);
        fn(tensors[i]->map, off + first * bytes[i], n * bytes[i]);
    }
}

void mica_taken_want(const taken_matrix *t, uint64_t first, uint64_t n) {
    each_range(t, first, n, mica_map_want);
}

void mica_taken_drop(const taken_matrix *t, uint64_t first, uint64_t n) {
    each_range(t, first, n, mica_map_drop);
}

mica_status mica_store_take_panels(weight_store *store, weight_entry *entry,
                                   const file_tensor *scales, const file_tensor *biases,
                                   taken_matrix *taken, mica_error *err) {
    weight_matrix *m = &taken->matrix;
    taken->scales = scales;
    taken->biases = biases;
    taken->plan.row_blocks = 1;
    if (!mica_taken_plan(taken, mica_taken_units(taken), &taken->plan) ||
        taken->plan.n_bytes > store->region.n_bytes - store->region_end)
        return mica_fail(err, MICA_E_LIMIT, "%s: %s is too large for this machine",
                         mica_store_source(store), entry->tensor->name);
    entry->region_off = store->region_end;
    store->region_end += mica_align_up(taken->plan.n_bytes, MICA_REGION_PAGE);
    store->total_bytes += mica_taken_units(taken) * mica_taken_unit_bytes(taken);
    const uint8_t *base = store->region.data + entry->region_off;
    m->codes = base + taken->plan.codes_off;
    m->scales = base + taken->plan.scales_off;
    if (biases) m->biases = base + taken->plan.biases_off;
    m->panels = true;
    return MICA_OK;
}
