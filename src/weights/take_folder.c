/* take_folder.c: a matrix of a safetensors folder, dense or quantized by MLX, used where it lies.
 *
 * A module is quantized iff it has scales. The quantization map says how; the shapes of weight and
 * scales must agree with it, and where they do not but leave one answer only, they win with a
 * warning (docs/models.md 2.6).
 */
#include "weights/store.h"

#include <stdio.h>
#include <string.h>

static uint64_t n_rows_of(const file_tensor *t) {
    uint64_t n = 1;
    for (int i = 0; i < t->n_dims - 1; i++)
        n *= t->dim[i]; /* cannot overflow: the product with the row fits the file */
    return n;
}

static uint64_t n_cols_of(const file_tensor *t) { return t->dim[t->n_dims - 1]; }

static bool same_rows(const file_tensor *a, const file_tensor *b) {
    if (a->n_dims != b->n_dims) return false;
    for (int i = 0; i < a->n_dims - 1; i++)
        if (a->dim[i] != b->dim[i]) return false;
    return true;
}

/* Do packed width and number of scales of a row agree with the spec (and with n_in, if >= 0)? */
static bool spec_fits(const quant_spec *spec, const file_tensor *w, const file_tensor *scales,
                      int64_t n_in) {
    if ((scales->dtype == MICA_U8) != (spec->mode != QUANT_AFFINE)) return false;
    uint64_t n = n_cols_of(scales) * (uint64_t)spec->group;
    return n * (uint64_t)spec->bits == n_cols_of(w) * 32 && (n_in < 0 || n == (uint64_t)n_in);
}

/* The spec that the shapes alone demand. Without n_in they often leave two (4 bits in groups of 32
 * are as wide as 2 bits in groups of 64): then none is taken. */
static bool infer_spec(quant_spec *spec, const file_tensor *w, const file_tensor *scales,
                       int64_t n_in) {
    int n_found = 0;
    for (int mode = QUANT_AFFINE; mode <= QUANT_NVFP4; mode++) {
        for (int64_t bits = 2; bits <= 8; bits++) {
            for (int64_t group = 16; group <= 128; group *= 2) {
                quant_spec candidate = {(quant_mode)mode, bits, group};
                if (!mica_quant_spec_is_legal(&candidate)) continue;
                if (!spec_fits(&candidate, w, scales, n_in)) continue;
                *spec = candidate;
                n_found++;
            }
        }
    }
    return n_found == 1;
}

static void warn_inferred(weight_store *store, const char *path, const quant_spec *spec) {
    char text[256];
    if (store->has_warned || !store->options.warn) return;
    store->has_warned = true;
    snprintf(text, sizeof(text),
             "config.json does not describe how %.100s is quantized; its shapes say %d bits in "
             "groups of %d, which is used (there may be more such tensors)",
             path, (int)spec->bits, (int)spec->group);
    store->options.warn(store->options.user, text);
}

static mica_status choose_spec(weight_store *store, const char *path, const file_tensor *w,
                               const file_tensor *scales, int64_t n_in, quant_spec *spec,
                               mica_error *err) {
    char module[512]; /* in the file's own words: the tensor's name without ".weight" */
    snprintf(module, sizeof(module), "%.*s", (int)(strlen(w->name) - strlen(".weight")), w->name);
    if (!mica_quant_map_find(&store->quant, module, path, spec))
        return mica_fail(err, MICA_E_FORMAT,
                         "%s: %s has scales, but config.json has no quant spec for it",
                         mica_store_source(store), w->name);
    if (spec_fits(spec, w, scales, n_in)) return MICA_OK;
    quant_spec inferred = *spec;
    if (!infer_spec(&inferred, w, scales, n_in))
        return mica_fail(err, MICA_E_FORMAT,
                         "%s: %s: rows of %llu packed words and %llu scales (%s) do not agree "
                         "with %d bits in groups of %d",
                         mica_store_source(store), w->name, (unsigned long long)n_cols_of(w),
                         (unsigned long long)n_cols_of(scales), mica_dtype_name(scales->dtype),
                         (int)spec->bits, (int)spec->group);
    *spec = inferred;
    warn_inferred(store, path, spec);
    return MICA_OK;
}

static mica_status affine_form(const weight_store *store, const file_tensor *scales,
                               const weight_entry *biases, const quant_spec *spec, weight_form *out,
                               mica_error *err) {
    const char *source = mica_store_source(store);
    if (!mica_dtype_is_float(scales->dtype))
        return mica_fail(err, MICA_E_UNSUPPORTED, "%s: %s has dtype %s, expected f32, f16 or bf16",
                         source, scales->name, mica_dtype_name(scales->dtype));
    if (!biases)
        return mica_fail(err, MICA_E_NOT_FOUND, "%s: %s has no biases beside it", source,
                         scales->name);
    const file_tensor *b = biases->tensor;
    if (b->dtype != scales->dtype || !same_rows(b, scales) || n_cols_of(b) != n_cols_of(scales))
        return mica_fail(err, MICA_E_FORMAT, "%s: %s differs from %s in shape or dtype", source,
                         b->name, scales->name);
    *out = (weight_form){.kind = WEIGHT_AFFINE,
                         .bits = (uint8_t)spec->bits,
                         .group = (uint16_t)spec->group,
                         .scale = scales->dtype == MICA_F32   ? SCALE_F32
                                  : scales->dtype == MICA_F16 ? SCALE_F16
                                                              : SCALE_BF16,
                         .bias = BIAS_GROUP};
    return MICA_OK;
}

static mica_status table_form(const weight_store *store, const weight_entry *biases,
                              const quant_spec *spec, weight_form *out, mica_error *err) {
    if (biases)
        return mica_fail(err, MICA_E_FORMAT,
                         "%s: %s stands beside 8-bit float scales, which have "
                         "no biases",
                         mica_store_source(store), biases->tensor->name);
    *out = (weight_form){.kind = WEIGHT_TABLE,
                         .bits = (uint8_t)spec->bits,
                         .group = (uint16_t)spec->group,
                         .scale = spec->mode == QUANT_NVFP4 ? SCALE_E4M3 : SCALE_E8M0,
                         .table = spec->mode == QUANT_MXFP8 ? TABLE_E4M3 : TABLE_E2M1};
    return MICA_OK;
}

/* nvfp4 may hold one f32 g for each expert: its scales are then S * (g / 2688). */
static mica_status take_globals(weight_store *store, const char *path, const quant_spec *spec,
                                weight_matrix *m, mica_error *err) {
    weight_entry *entry = mica_store_find(store, path, ".global_scale");
    if (!entry) return MICA_OK;
    const file_tensor *t = entry->tensor;
    size_t n = (size_t)m->n_experts;
    if (spec->mode != QUANT_NVFP4 || t->dtype != MICA_F32 || t->n_bytes != 4 * n)
        return mica_fail(err, MICA_E_FORMAT,
                         "%s: %s must hold one f32 for each of %zu matrices in mode nvfp4",
                         mica_store_source(store), t->name, n);
    float *globals = mica_arena_calloc(&store->arena, n, sizeof(*globals));
    if (!globals)
        return mica_fail(err, MICA_E_NOMEM, "%s: out of memory", mica_store_source(store));
    for (size_t i = 0; i < n; i++)
        globals[i] = mica_load_f(t->data, MICA_F32, i) / 2688.0f;
    entry->is_used = true;
    m->globals = globals;
    return MICA_OK;
}

/* A table whose rows are only looked up gains nothing from panels. */
static bool is_looked_up(const weight_store *store, const char *path) {
    if (strstr(path, "embed_tokens_per_layer")) return true;
    const char *last = strrchr(path, '.');
    bool is_embedding = !strcmp(last ? last + 1 : path, "embed_tokens");
    return is_embedding && mica_store_find(store, "lm_head", ".weight");
}

static bool wants_panels(const weight_store *store, const char *path, const weight_matrix *m) {
    return store->options.defer && !m->globals && !is_looked_up(store, path) &&
           mica_weight_panels_fit(&m->form, m->n_out, m->n_in);
}

static mica_status take_quantized(weight_store *store, const char *path, weight_entry *entry,
                                  weight_entry *scales, int64_t n_in, taken_matrix *taken,
                                  mica_error *err) {
    quant_spec spec;
    weight_matrix *m = &taken->matrix;
    const file_tensor *w = entry->tensor, *s = scales->tensor;
    weight_entry *biases = mica_store_find(store, path, ".biases");
    if (w->dtype != MICA_U32 || w->n_dims < 2 || !same_rows(w, s))
        return mica_fail(err, MICA_E_FORMAT,
                         "%s: %s (%s) is no packed u32 matrix with as many rows as its scales",
                         mica_store_source(store), w->name, mica_dtype_name(w->dtype));
    mica_status st = choose_spec(store, path, w, s, n_in, &spec, err);
    if (st) return st;
    st = spec.mode == QUANT_AFFINE ? affine_form(store, s, biases, &spec, &m->form, err)
                                   : table_form(store, biases, &spec, &m->form, err);
    if (st) return st;
    m->n_in = (int64_t)(n_cols_of(s) * (uint64_t)spec.group);
    m->row_bytes = (size_t)n_cols_of(w) * 4;
    m->scale_bytes = (size_t)n_cols_of(s) * mica_dtype_bytes(s->dtype);
    m->scales = s->data;
    m->biases = biases ? biases->tensor->data : NULL;
    scales->is_used = true;
    if (biases) biases->is_used = true;
    st = take_globals(store, path, &spec, m, err);
    if (st || !wants_panels(store, path, m)) return st;
    return mica_store_take_panels(store, entry, s, biases ? biases->tensor : NULL, taken, err);
}

mica_status mica_store_take_folder(weight_store *store, const char *path, weight_entry *entry,
                                   int64_t n_in, taken_matrix *taken, mica_error *err) {
    weight_matrix *m = &taken->matrix;
    const file_tensor *w = entry->tensor;
    weight_entry *scales = mica_store_find(store, path, ".scales");
    m->codes = w->data;
    m->n_out = (int64_t)(n_rows_of(w) / (uint64_t)m->n_experts);
    if (scales) return take_quantized(store, path, entry, scales, n_in, taken, err);
    if (!mica_dtype_is_float(w->dtype))
        return mica_fail(err, MICA_E_UNSUPPORTED,
                         "%s: %s has dtype %s and no scales; expected f32, f16 or bf16",
                         mica_store_source(store), w->name, mica_dtype_name(w->dtype));
    m->form = (weight_form){.kind = WEIGHT_DENSE, .dtype = w->dtype};
    m->n_in = (int64_t)n_cols_of(w);
    m->row_bytes = (size_t)n_cols_of(w) * mica_dtype_bytes(w->dtype);
    return MICA_OK;
}
