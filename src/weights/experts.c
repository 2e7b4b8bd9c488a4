/* experts.c: matrices that are part of another, and stacks of experts that a file holds apart.
 *
 * Published folders have a tensor for each expert, or gate and up of all experts in one; nothing is
 * copied, the parts point into the file.
 */
#include "weights/store.h"

#include <string.h>

weight_matrix mica_weight_slice(const weight_matrix *m, int64_t first, int64_t n) {
    weight_matrix s = *m;
    size_t row = (size_t)first, supers = row * (size_t)(m->n_in / WEIGHT_SUPER) * 2;
    s.n_experts = 1;
    s.n_out = n;
    s.codes += row * m->row_bytes;
    if (m->scales) s.scales += row * m->scale_bytes;
    if (m->biases) s.biases += row * m->scale_bytes;
    if (m->supers) s.supers += supers;
    if (m->super_biases) s.super_biases += supers;
    return s;
}

weight_matrix mica_weight_expert(const weight_matrix *m, int64_t e) {
    return m->parts ? m->parts[e] : mica_weight_slice(m, e * m->n_out, m->n_out);
}

static bool same_form(const weight_form *a, const weight_form *b) {
    return a->kind == b->kind && a->dtype == b->dtype && a->bits == b->bits &&
           a->group == b->group && a->scale == b->scale && a->bias == b->bias &&
           a->table == b->table && a->zero == b->zero && a->sub_bits == b->sub_bits &&
           a->sub_zero == b->sub_zero && a->storage_scales == b->storage_scales;
}

mica_status mica_weights_join(weight_store *store, const char *name, const weight_matrix *parts,
                              int64_t n, const weight_matrix **out, mica_error *err) {
    weight_matrix *m = mica_arena_calloc(&store->arena, 1, sizeof(*m));
    weight_matrix *copies = mica_arena_calloc(&store->arena, (size_t)n, sizeof(*copies));
    char *copied = mica_arena_strndup(&store->arena, name, strlen(name));
    if (!m || !copies || !copied)
        return mica_fail(err, MICA_E_NOMEM, "%s: out of memory", mica_store_source(store));
    for (int64_t e = 0; e < n; e++) {
        copies[e] = parts[e];
        if (same_form(&parts[e].form, &parts[0].form)) continue;
        char a[64], b[64];
        mica_weight_form_text(&parts[e].form, a, sizeof(a));
        mica_weight_form_text(&parts[0].form, b, sizeof(b));
        return mica_fail(err, MICA_E_UNSUPPORTED,
                         "%s: %.100s is stored as %s, but that of expert 0 as %s; all experts of a "
                         "layer must be stored alike",
                         mica_store_source(store), parts[e].name, a, b);
    }
    *m = copies[0];
    m->name = copied;
    m->n_experts = n;
    m->parts = copies;
    *out = m;
    return MICA_OK;
}
