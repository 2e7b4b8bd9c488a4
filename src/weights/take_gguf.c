/* take_gguf.c: a matrix of a GGUF file. Dense types are used where they lie; blocks are re-ordered
 * into the canonical layout, at an address that the store reserved.
 */
#include "weights/repack.h"
#include "weights/store.h"

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

mica_status mica_store_take_gguf(weight_store *store, const weight_entry *entry,
                                 taken_matrix *taken, mica_error *err) {
    const file_tensor *t = entry->tensor;
    weight_matrix *m = &taken->matrix;
    gguf_block block = mica_gguf_block((uint32_t)t->type);
    if (!mica_gguf_form(t->type, &m->form))
        return mica_fail(err, MICA_E_UNSUPPORTED, "%s: %s has type %s, which is no weight type",
                         mica_store_source(store), t->name, block.name);
    m->n_in = (int64_t)t->dim[t->n_dims - 1];
    m->n_out = t->n_dims < 2 ? 1 : (int64_t)t->dim[t->n_dims - 2];
    if (m->form.kind == WEIGHT_DENSE) {
        m->codes = t->data;
        m->row_bytes = (size_t)m->n_in * block.n_bytes;
        return MICA_OK;
    }
    if (!mica_repack_plan(t->type, t->n_bytes / block.n_bytes, &taken->plan))
        return mica_fail(err, MICA_E_LIMIT, "%s: %s is too large for this machine",
                         mica_store_source(store), t->name);
    m->panels = mica_weight_panels_fit(&m->form, m->n_out, m->n_in);
    if (m->panels) taken->plan.row_blocks = (uint64_t)m->n_in / block.n_elements;
    point_at_streams(m, &taken->plan, store->region.data + entry->region_off);
    return MICA_OK;
}
