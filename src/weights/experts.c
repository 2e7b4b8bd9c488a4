/* experts.c: matrices that are part of another, and stacks of experts that a file holds apart.
 *
 * Published folders have a tensor for each expert, or gate and up of all experts in one; nothing is
 * copied, the parts point into the file.
 */
#include "weights/store.h"

#include <string.h>

#include "base/checked.h"

weight_matrix mica_weight_slice(const weight_matrix *m, int64_t first, int64_t n) {
    weight_matrix s = *m;
    size_t row = (size_t)first;
    s.n_experts = 1;
    s.n_out = n;
    if (m->panels) {
        row += m->first_lane;
        s.first_lane = (uint8_t)(row % WEIGHT_PANEL);
        row -= s.first_lane;
    }
    size_t supers = row * (size_t)(m->n_in / WEIGHT_SUPER) * 2;
    s.codes += row * m->row_bytes;
    if (m->scales) s.scales += row * m->scale_bytes;
    if (m->biases) s.biases += row * m->scale_bytes;
    if (m->supers) s.supers += supers;
    if (m->super_biases) s.super_biases += supers;
    return s;
}

weight_matrix mica_weight_expert(const weight_matrix *m, int64_t e) {
    if (m->parts) return m->parts[e];
    weight_matrix s = mica_weight_slice(m, e * m->n_out, m->n_out);
    if (s.globals) s.globals += e;
    return s;
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

/* ---- raw stacks ---- */

/* A matrix of the store's own; the caller fills it. */
static taken_matrix *new_stack(weight_store *store, const char *name, int64_t n_experts,
                               int64_t n_out, int64_t n_in) {
    taken_matrix *taken = mica_arena_calloc(&store->arena, 1, sizeof(*taken));
    char *copied = mica_arena_strndup(&store->arena, name, strlen(name));
    if (!taken || !copied) return NULL;
    taken->matrix.name = copied;
    taken->matrix.n_experts = n_experts;
    taken->matrix.n_out = n_out;
    taken->matrix.n_in = n_in;
    return taken;
}

static void turn(const weight_matrix *from, int64_t first, int64_t step, weight_matrix *to,
                 uint8_t *out) {
    size_t size = mica_dtype_bytes(from->form.dtype), n_all = (size_t)from->n_in;
    for (int64_t e = 0; e < to->n_experts; e++)
        for (int64_t i = 0; i < to->n_in; i++) {
            const uint8_t *row = from->codes + (size_t)(e * to->n_in + i) * n_all * size;
            for (int64_t o = 0; o < to->n_out; o++)
                memcpy(out + (size_t)((e * to->n_out + o) * to->n_in + i) * size,
                       row + (size_t)(first + o * step) * size, size);
        }
}

mica_status mica_weights_turned(weight_store *store, const char *path, int64_t n_experts,
                                int64_t n_all, int64_t first, int64_t step, int64_t n_out,
                                int64_t n_in, const weight_matrix **out, mica_error *err) {
    const weight_matrix *stored;
    size_t n_bytes;
    mica_status st = mica_weights_matrix(store, path, n_experts, n_in, n_all, &stored, err);
    if (st) return st;
    if (stored->form.kind != WEIGHT_DENSE)
        return mica_fail(err, MICA_E_UNSUPPORTED,
                         "%s: %s is quantized and stored [in, out]; expected [out, in]",
                         mica_store_source(store), path);
    size_t size = mica_dtype_bytes(stored->form.dtype);
    taken_matrix *taken = new_stack(store, path, n_experts, n_out, n_in);
    if (!taken || !mica_mul_size((size_t)(n_experts * n_out), (size_t)n_in * size, &n_bytes) ||
        !(taken->memory = mica_malloc(n_bytes)))
        return mica_fail(err, MICA_E_NOMEM, "%s: out of memory", mica_store_source(store));
    taken->matrix.form = stored->form;
    taken->matrix.row_bytes = (size_t)n_in * size;
    taken->matrix.codes = taken->memory;
    turn(stored, first, step, &taken->matrix, taken->memory);
    taken->next = store->matrices;
    store->matrices = taken;
    *out = &taken->matrix;
    return MICA_OK;
}

/* Row i of head h of `from` (rows of a head: n_all), widened, becomes column i of that head. */
static void turn_heads(const weight_matrix *from, int64_t n_all, weight_matrix *to, float *row,
                       void *out) {
    for (int64_t h = 0; h < to->n_experts; h++)
        for (int64_t i = 0; i < to->n_in; i++) {
            mica_weight_row(from, h * n_all + i, row);
            for (int64_t o = 0; o < to->n_out; o++)
                mica_store_f(out, to->form.dtype, (size_t)((h * to->n_out + o) * to->n_in + i),
                             row[o]);
        }
}

mica_status mica_weights_turned_heads(weight_store *store, const char *path, const char *name,
                                      int64_t n_heads, int64_t n_all, int64_t n_rows, int64_t n_in,
                                      const weight_matrix **out, mica_error *err) {
    const weight_matrix *stored;
    mica_status st = mica_weights_matrix(store, path, 0, n_heads * n_all, n_in, &stored, err);
    if (st) return st;
    if ((st = mica_weights_ready(store, stored, err))) return st;
    bool is_dense = stored->form.kind == WEIGHT_DENSE;
    mica_dtype dtype = is_dense ? stored->form.dtype : MICA_F32;
    taken_matrix *taken = new_stack(store, name, n_heads, n_in, n_rows);
    float *row = mica_calloc((size_t)n_in, sizeof(*row));
    size_t n_bytes;
    if (!taken || !row || !mica_mul_size((size_t)(n_heads * n_in), (size_t)n_rows, &n_bytes) ||
        !mica_mul_size(n_bytes, mica_dtype_bytes(dtype), &n_bytes) ||
        !(taken->memory = mica_malloc(n_bytes))) {
        mica_free(row);
        return mica_fail(err, MICA_E_NOMEM, "%s: out of memory", mica_store_source(store));
    }
    /* a copy in f32 is how it is held, not what activations should be promoted to */
    taken->matrix.form = (weight_form){.kind = WEIGHT_DENSE,
                                       .dtype = dtype,
                                       .storage_scales = !is_dense || stored->form.storage_scales};
    taken->matrix.row_bytes = (size_t)n_rows * mica_dtype_bytes(dtype);
    taken->matrix.codes = taken->memory;
    turn_heads(stored, n_all, &taken->matrix, row, taken->memory);
    mica_free(row);
    taken->next = store->matrices;
    store->matrices = taken;
    *out = &taken->matrix;
    return MICA_OK;
}

mica_status mica_weights_flat_stack(weight_store *store, const char *path, int64_t n_experts,
                                    int64_t n_out, int64_t n_in, const weight_matrix **out,
                                    mica_error *err) {
    const weight_matrix *stored;
    mica_status st = mica_weights_matrix(store, path, n_experts, n_out, n_in, &stored, err);
    if (st) return st;
    weight_matrix *m = mica_arena_alloc(&store->arena, sizeof(*m));
    if (!m) return mica_fail(err, MICA_E_NOMEM, "%s: out of memory", mica_store_source(store));
    *m = *stored;
    m->n_experts = 1;
    m->n_out = n_experts * n_out;
    *out = m;
    return MICA_OK;
}

static bool has_shape(const file_tensor *t, const int64_t *dims, int n_dims) {
    bool good = t->dtype == MICA_U8 && t->n_dims == n_dims;
    for (int i = 0; good && i < n_dims; i++)
        good = t->dim[i] == (uint64_t)dims[i];
    return good;
}

mica_status mica_weights_mxfp4_blocks(weight_store *store, const char *stem, int64_t n_experts,
                                      int64_t n_out, int64_t n_in, const weight_matrix **out,
                                      mica_error *err) {
    weight_entry *blocks = mica_store_find(store, stem, "_blocks");
    weight_entry *scales = mica_store_find(store, stem, "_scales");
    if (!blocks || !scales)
        return mica_fail(err, MICA_E_NOT_FOUND, "%s: no tensors named %s_blocks and %s_scales",
                         mica_store_source(store), stem, stem);
    int64_t dims[4] = {n_experts, n_out, n_in / 32, 16};
    if (n_in % 32 || !has_shape(blocks->tensor, dims, 4) || !has_shape(scales->tensor, dims, 3))
        return mica_fail(err, MICA_E_FORMAT,
                         "%s: %s_blocks and %s_scales must be u8 [%lld, %lld, %lld, 16] and the "
                         "same without the 16",
                         mica_store_source(store), stem, stem, (long long)n_experts,
                         (long long)n_out, (long long)(n_in / 32));
    taken_matrix *taken = new_stack(store, stem, n_experts, n_out, n_in);
    if (!taken) return mica_fail(err, MICA_E_NOMEM, "%s: out of memory", mica_store_source(store));
    weight_matrix *m = &taken->matrix;
    m->form = (weight_form){
        .kind = WEIGHT_TABLE, .bits = 4, .group = 32, .scale = SCALE_E8M0, .table = TABLE_E2M1};
    m->row_bytes = (size_t)n_in / 2;
    m->scale_bytes = (size_t)n_in / 32;
    m->codes = blocks->tensor->data;
    m->scales = scales->tensor->data;
    blocks->is_used = scales->is_used = true;
    *out = m;
    return MICA_OK;
}
