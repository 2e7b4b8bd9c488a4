/* take_part.c: matrices that are not tensors of their own: rows of a fused tensor, and weights that
 * are stored the other way round.
 *
 * Rows share the memory of the tensor they are part of, whatever its form: a row's codes, scales
 * and biases lie together, and only pointers move. A transposed weight is a copy.
 */
#include "weights/store.h"

#include <string.h>

#include "base/checked.h"

static mica_status no_memory(const weight_store *store, mica_error *err) {
    return mica_fail(err, MICA_E_NOMEM, "%s: out of memory", mica_store_source(store));
}

mica_status mica_weights_rows_of(weight_store *store, const weight_matrix *all, const char *name,
                                 int64_t first, int64_t n, const weight_matrix **out,
                                 mica_error *err) {
    weight_matrix *m = mica_arena_alloc(&store->arena, sizeof(*m));
    if (!m) return no_memory(store, err);
    *m = mica_weight_slice(all, first, n);
    m->name = mica_arena_strndup(&store->arena, name, strlen(name));
    if (!m->name) return no_memory(store, err);
    *out = m;
    return MICA_OK;
}

mica_status mica_weights_matrix_rows(weight_store *store, const char *path, const char *name,
                                     int64_t n_all, int64_t first, int64_t n, int64_t n_in,
                                     const weight_matrix **out, mica_error *err) {
    const weight_matrix *all;
    mica_status st = mica_weights_matrix(store, path, 0, n_all, n_in, &all, err);
    return st ? st : mica_weights_rows_of(store, all, name, first, n, out, err);
}

/* from [rows, columns] to `to` [columns, rows], by elements of `size` bytes. */
static void transpose(const uint8_t *from, uint8_t *to, size_t rows, size_t columns, size_t size) {
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++)
            memcpy(to + (c * rows + r) * size, from + (r * columns + c) * size, size);
}

mica_status mica_weights_transposed(weight_store *store, const char *path, int64_t n_out,
                                    int64_t n_in, const weight_matrix **out, mica_error *err) {
    const weight_matrix *stored;
    size_t n_bytes;
    mica_status st = mica_weights_matrix(store, path, 0, n_in, n_out, &stored, err);
    if (st) return st;
    if (stored->form.kind != WEIGHT_DENSE)
        return mica_fail(err, MICA_E_UNSUPPORTED,
                         "%s: %s is quantized and stored [in, out]; expected [out, in]",
                         mica_store_source(store), path);
    size_t size = mica_dtype_bytes(stored->form.dtype);
    taken_matrix *taken = mica_arena_calloc(&store->arena, 1, sizeof(*taken));
    if (!taken) return no_memory(store, err);
    if (!mica_mul_size((size_t)n_out, (size_t)n_in, &n_bytes) ||
        !mica_mul_size(n_bytes, size, &n_bytes) || !(taken->memory = mica_malloc(n_bytes)))
        return no_memory(store, err);
    transpose(stored->codes, taken->memory, (size_t)n_in, (size_t)n_out, size);
    taken->matrix = *stored;
    taken->matrix.n_out = n_out;
    taken->matrix.n_in = n_in;
    taken->matrix.row_bytes = (size_t)n_in * size;
    taken->matrix.codes = taken->memory;
    taken->next = store->matrices;
    store->matrices = taken;
    *out = &taken->matrix;
    return MICA_OK;
}
