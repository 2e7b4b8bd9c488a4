/* store.c: tensors under canonical names: taking, dropping, audit.
 *
 * A model asks for every tensor by name and expected shape; what it never asked for and no rule
 * drops is an error of the audit, because it usually means a wrong variant of the architecture.
 */
#include "weights/store.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "weights/names.h"

#define MAX_NAME 1024
#define MAX_NAMES_SHOWN 12
#define LARGEST_COPY 65536 /* bytes of a vector */

const char *mica_store_source(const weight_store *store) {
    return store->file ? mica_gguf_name(store->file) : mica_folder_path(store->folder);
}

static mica_status no_memory(const weight_store *store, mica_error *err) {
    return mica_fail(err, MICA_E_NOMEM, "%s: out of memory", mica_store_source(store));
}

weight_entry *mica_store_find(const weight_store *store, const char *path, const char *suffix) {
    char name[MAX_NAME];
    int n = snprintf(name, sizeof(name), "%s%s", path, suffix);
    if (n < 0 || n >= MAX_NAME) return NULL;
    size_t i = mica_name_index_find(&store->names, name, (uint64_t)n);
    return i == MICA_NAME_ABSENT ? NULL : &store->entries[i];
}

/* ---- opening ---- */

typedef struct naming {
    const char *arch;   /* GGUF */
    const char *prefix; /* folder */
} naming;

static const char *probe_prefix(const hf_folder *folder, const weight_naming *family) {
    const char *embed = family && family->embed ? family->embed : "embed_tokens";
    for (size_t i = 0; mica_folder_prefixes[i]; i++) {
        char name[128];
        snprintf(name, sizeof(name), "%s%s.weight", mica_folder_prefixes[i], embed);
        if (mica_folder_find_tensor(folder, name)) return mica_folder_prefixes[i];
    }
    return "model.";
}

static mica_status add_entry(weight_store *store, const file_tensor *t, const naming *rule,
                             mica_error *err) {
    char name[MAX_NAME];
    bool was_there = false;
    weight_entry *e = &store->entries[store->n_entries];
    *e = (weight_entry){.tensor = t, .name = t->name, .is_dropped = mica_name_is_dropped(t->name)};
    if (e->is_dropped) {
        store->n_entries++;
        return MICA_OK;
    }
    bool fits = store->file ? mica_gguf_canonical(t->name, rule->arch, name, sizeof(name))
                            : mica_folder_canonical(t->name, rule->prefix, store->options.naming,
                                                    name, sizeof(name));
    if (fits && !name[0]) {
        e->is_dropped = true;
        store->n_entries++;
        return MICA_OK;
    }
    if (!fits)
        return mica_fail(err, MICA_E_LIMIT, "%s: the tensor name '%.80s...' is too long",
                         mica_store_source(store), t->name);
    if (store->folder) mica_name_unpack(name);
    e->name = mica_arena_strndup(&store->arena, name, strlen(name));
    if (!e->name) return no_memory(store, err);
    mica_status st = mica_name_index_add(&store->names, e->name, strlen(e->name), store->n_entries,
                                         &was_there, err);
    if (st) return st;
    if (was_there)
        return mica_fail(err, MICA_E_FORMAT, "%s: two tensors mean '%.80s'; one is '%.80s'",
                         mica_store_source(store), e->name, t->name);
    store->n_entries++;
    return MICA_OK;
}

/* Blocks of a GGUF tensor have their place in the region from the start. */
static mica_status place_blocks(weight_store *store, const file_tensor *t, size_t *end,
                                mica_error *err) {
    weight_form form;
    repack_plan plan;
    if (!t->is_gguf || !mica_gguf_form(t->type, &form) || form.kind == WEIGHT_DENSE) return MICA_OK;
    uint64_t n_blocks = t->n_bytes / mica_gguf_block((uint32_t)t->type).n_bytes;
    if (!mica_repack_plan(t->type, n_blocks, &plan) || plan.n_bytes > SIZE_MAX / 4 - *end)
        return mica_fail(err, MICA_E_LIMIT, "%s: %s is too large for this machine",
                         mica_store_source(store), t->name);
    store->entries[store->n_entries - 1].region_off = *end;
    *end += mica_align_up(plan.n_bytes, MICA_REGION_PAGE);
    store->total_bytes += t->n_bytes;
    return MICA_OK;
}

/* A folder's matrices get theirs when they are taken: room for all of them. */
static size_t folder_room(const weight_store *store) {
    size_t n = 0;
    for (size_t i = 0; store->options.defer && i < store->n_entries; i++)
        if (!store->entries[i].is_dropped)
            n += mica_align_up((size_t)store->entries[i].tensor->n_bytes, MICA_REGION_PAGE);
    return n;
}

static mica_status index_tensors(weight_store *store, mica_error *err) {
    char arch[64] = "";
    naming rule = {.arch = arch, .prefix = "model."};
    if (store->file) {
        gguf_string s = mica_gguf_string(store->file, "general.architecture");
        snprintf(arch, sizeof(arch), "%.*s", (int)(s.n < 63 ? s.n : 63), s.data ? s.data : "");
    } else {
        rule.prefix = probe_prefix(store->folder, store->options.naming);
    }
    size_t n =
        store->file ? mica_gguf_n_tensors(store->file) : mica_folder_n_tensors(store->folder);
    store->entries = mica_arena_calloc(&store->arena, n, sizeof(*store->entries));
    store->matrix_of = mica_arena_calloc(&store->arena, n, sizeof(*store->matrix_of));
    store->vector_of = mica_arena_calloc(&store->arena, n, sizeof(*store->vector_of));
    if (!store->entries || !store->matrix_of || !store->vector_of) return no_memory(store, err);
    for (size_t i = 0; i < n; i++) {
        const file_tensor *t =
            store->file ? mica_gguf_tensor(store->file, i) : mica_folder_tensor(store->folder, i);
        mica_status st = add_entry(store, t, &rule, err);
        if (st) return st;
        if ((st = place_blocks(store, t, &store->region_end, err))) return st;
        if (store->folder && mica_name_is_packed(t->name)) store->total_bytes += t->n_bytes;
    }
    size_t n_region = store->file ? store->region_end : folder_room(store);
    return mica_region_reserve(&store->region, n_region, err);
}

static mica_status open_store(weight_store **out, hf_folder *folder, gguf_file *file,
                              const weight_options *options, mica_error *err) {
    weight_store *store = mica_calloc(1, sizeof(*store));
    if (!store) return mica_fail(err, MICA_E_NOMEM, "out of memory");
    store->folder = folder;
    store->file = file;
    if (options) store->options = *options;
    mica_arena_init(&store->arena, 0);
    mica_status st = index_tensors(store, err);
    if (!st) {
        *out = store;
        store = NULL;
    }
    mica_weights_close(store);
    return st;
}

mica_status mica_weights_open_folder(weight_store **out, hf_folder *folder,
                                     const weight_options *options, mica_error *err) {
    return open_store(out, folder, NULL, options, err);
}

mica_status mica_weights_open_gguf(weight_store **out, gguf_file *file,
                                   const weight_options *options, mica_error *err) {
    return open_store(out, NULL, file, options, err);
}

void mica_weights_close(weight_store *store) {
    if (!store) return;
    for (taken_matrix *m = store->matrices; m; m = m->next)
        mica_free(m->memory);
    mica_region_release(&store->region);
    mica_name_index_deinit(&store->names);
    mica_name_index_deinit(&store->quant.modules);
    mica_arena_deinit(&store->arena);
    mica_free(store);
}

mica_status mica_weights_set_quantization(weight_store *store, const json_value *config,
                                          mica_error *err) {
    if (store->matrices || store->quant.modules.n_slots)
        return mica_fail(err, MICA_E_STATE, "%s: the quantization was set or used already",
                         mica_store_source(store));
    const json_value *beside = store->folder ? mica_folder_quant_config(store->folder) : NULL;
    return mica_quant_map_read(&store->quant, config, beside, &store->arena, err);
}

/* ---- taking ---- */

/* "[a, b, c]"; negative sizes print as "any". */
static void shape_text(char *out, size_t n_out, const int64_t *dim, int n_dims) {
    size_t n = 0;
    for (int i = 0; i < n_dims && n < n_out; i++) {
        const char *before = i ? ", " : "[";
        int k = dim[i] < 0 ? snprintf(out + n, n_out - n, "%sany", before)
                           : snprintf(out + n, n_out - n, "%s%lld", before, (long long)dim[i]);
        n += k > 0 ? (size_t)k : 0;
    }
    if (n < n_out) snprintf(out + n, n_out - n, "%s", n_dims ? "]" : "[]");
}

static mica_status wrong_shape(const weight_store *store, const file_tensor *t,
                               const int64_t *found, int n_found, const int64_t *expected,
                               int n_expected, mica_error *err) {
    char a[160], b[160];
    shape_text(a, sizeof(a), found, n_found);
    shape_text(b, sizeof(b), expected, n_expected);
    return mica_fail(err, MICA_E_FORMAT, "%s: tensor '%.80s' has shape %s, expected %s",
                     mica_store_source(store), t->name, a, b);
}

/* The shape that a matrix of a file has in elements against what the model wants. */
static mica_status check_shape(const weight_store *store, const file_tensor *t,
                               const weight_matrix *m, int64_t n_experts, int64_t n_out,
                               int64_t n_in, mica_error *err) {
    int64_t n_wanted = n_experts ? n_experts : 1;
    bool good = (n_wanted < 0 || m->n_experts == n_wanted) && (n_out < 0 || m->n_out == n_out) &&
                (n_in < 0 || m->n_in == n_in);
    if (good) return MICA_OK;
    int64_t found[] = {m->n_experts, m->n_out, m->n_in};
    int64_t expected[] = {n_experts, n_out, n_in};
    int skip = n_experts == 0;
    return wrong_shape(store, t, found + skip, 3 - skip, expected + skip, 3 - skip, err);
}

/* Rank 2, or 3 for experts; no dimension 0, so that sizes can be divided by. */
static mica_status check_rank(const weight_store *store, const file_tensor *t, int64_t n_experts,
                              int64_t n_out, int64_t n_in, mica_error *err) {
    int64_t found[MICA_MAX_DIMS], expected[] = {n_experts, n_out, n_in};
    int skip = n_experts == 0;
    bool is_row = t->is_gguf && t->n_dims == 1 && skip && n_out == 1; /* converters squeeze */
    bool good = t->n_dims == 3 - skip || is_row;
    for (int i = 0; i < t->n_dims; i++) {
        found[i] = (int64_t)t->dim[i];
        good = good && t->dim[i] > 0 && t->dim[i] <= INT64_MAX;
    }
    if (good) return MICA_OK;
    return wrong_shape(store, t, found, t->n_dims, expected + skip, 3 - skip, err);
}

static mica_status take_new(weight_store *store, const char *path, weight_entry *entry,
                            int64_t n_experts, int64_t n_out, int64_t n_in, taken_matrix **out,
                            mica_error *err) {
    mica_status st = check_rank(store, entry->tensor, n_experts, n_out, n_in, err);
    if (st) return st;
    taken_matrix *taken = mica_arena_calloc(&store->arena, 1, sizeof(*taken));
    if (!taken) return no_memory(store, err);
    weight_matrix *m = &taken->matrix;
    m->name = mica_arena_strndup(&store->arena, path, strlen(path));
    if (!m->name) return no_memory(store, err);
    m->n_experts = n_experts ? (int64_t)entry->tensor->dim[0] : 1;
    taken->entry = entry;
    if (store->file)
        st = mica_store_take_gguf(store, entry, taken, err);
    else if (mica_store_is_packed(store, path, entry))
        st = mica_store_take_packed(store, path, entry, m, &taken->memory, err);
    else
        st = mica_store_take_folder(store, path, entry, n_in, taken, err);
    if (!st && !store->options.defer) st = mica_store_make_ready(store, taken, err);
    if (st) return st;
    taken->next = store->matrices;
    store->matrices = taken;
    *out = taken;
    return MICA_OK;
}

mica_status mica_weights_matrix(weight_store *store, const char *path, int64_t n_experts,
                                int64_t n_out, int64_t n_in, const weight_matrix **out,
                                mica_error *err) {
    weight_entry *entry = mica_store_find(store, path, ".weight");
    if (!entry && n_experts) entry = mica_store_find(store, path, ""); /* raw stacks of experts */
    if (!entry)
        return mica_fail(err, MICA_E_NOT_FOUND,
                         "%s: %s: no .weight tensor (nor .scales) in "
                         "checkpoint",
                         mica_store_source(store), path);
    taken_matrix *taken = store->matrix_of[entry - store->entries];
    mica_status st = MICA_OK;
    if (!taken) st = take_new(store, path, entry, n_experts, n_out, n_in, &taken, err);
    if (!st) st = check_shape(store, entry->tensor, &taken->matrix, n_experts, n_out, n_in, err);
    if (st) return st;
    entry->is_used = true;
    store->matrix_of[entry - store->entries] = taken;
    *out = &taken->matrix;
    return MICA_OK;
}

/* Vectors are aligned to their elements, unlike matrices. Small ones are copied anyway: they lie
 * all over the file, and a mapped file becomes resident in pieces of up to 2 MiB around each. */
static const void *vector_data(weight_store *store, const file_tensor *t) {
    bool is_aligned = (uintptr_t)t->data % mica_dtype_bytes(t->dtype) == 0;
    if (is_aligned && t->n_bytes > LARGEST_COPY) return t->data;
    void *copy = mica_arena_alloc(&store->arena, (size_t)t->n_bytes);
    if (copy) memcpy(copy, t->data, (size_t)t->n_bytes);
    return copy;
}

static mica_status take_vector(weight_store *store, const weight_entry *entry, int64_t n_found,
                               taken_vector **out, mica_error *err) {
    const file_tensor *t = entry->tensor;
    if (!mica_dtype_is_float(t->dtype))
        return mica_fail(
            err, MICA_E_UNSUPPORTED, "%s: tensor '%.80s' has type %s; expected f32, f16 or bf16",
            mica_store_source(store), t->name,
            t->is_gguf ? mica_gguf_block((uint32_t)t->type).name : mica_dtype_name(t->dtype));
    taken_vector *taken = mica_arena_calloc(&store->arena, 1, sizeof(*taken));
    const void *data = vector_data(store, t);
    if (!taken || !data) return no_memory(store, err);
    taken->vector = (weight_vector){entry->name, t->dtype, n_found, data};
    *out = taken;
    return MICA_OK;
}

mica_status mica_weights_vector(weight_store *store, const char *name, int64_t n,
                                const weight_vector **out, mica_error *err) {
    weight_entry *entry = mica_store_find(store, name, "");
    if (!entry)
        return mica_fail(err, MICA_E_NOT_FOUND, "%s: no tensor named %s in checkpoint",
                         mica_store_source(store), name);
    const file_tensor *t = entry->tensor;
    int64_t n_found = (int64_t)(t->n_bytes / mica_dtype_bytes(t->dtype));
    if (n >= 0 && n != n_found) {
        int64_t found[MICA_MAX_DIMS];
        for (int i = 0; i < t->n_dims; i++)
            found[i] = (int64_t)t->dim[i];
        return wrong_shape(store, t, found, t->n_dims, &n, 1, err);
    }
    taken_vector **taken = &store->vector_of[entry - store->entries];
    if (!*taken) {
        mica_status st = take_vector(store, entry, n_found, taken, err);
        if (st) return st;
    }
    entry->is_used = true;
    *out = &(*taken)->vector;
    return MICA_OK;
}

/* ---- questions ---- */

bool mica_weights_has(const weight_store *store, const char *name) {
    return mica_store_find(store, name, "") != NULL;
}

bool mica_weights_same(const weight_store *store, const char *a, const char *b) {
    const weight_entry *x = mica_store_find(store, a, ""), *y = mica_store_find(store, b, "");
    if (!x || !y) return x == y;
    return x->tensor->dtype == y->tensor->dtype && x->tensor->n_bytes == y->tensor->n_bytes &&
           memcmp(x->tensor->data, y->tensor->data, (size_t)x->tensor->n_bytes) == 0;
}

int64_t mica_weights_rows(const weight_store *store, const char *path) {
    const weight_entry *entry = mica_store_find(store, path, ".weight");
    if (!entry || entry->tensor->n_dims < 1) return -1;
    const char *suffix = strrchr(entry->tensor->name, '.');
    if (suffix && !strcmp(suffix, ".qweight")) { /* its rows are inputs; its scales' columns not */
        const weight_entry *scales = mica_store_find(store, path, ".scales");
        return scales && scales->tensor->n_dims == 2 ? (int64_t)scales->tensor->dim[1] : -1;
    }
    int n_dims = entry->tensor->n_dims;
    return (int64_t)entry->tensor->dim[n_dims < 2 ? 0 : n_dims - 2];
}

bool mica_weights_float_type(const weight_store *store, const char *path, mica_dtype *out) {
    const weight_entry *entry = mica_store_find(store, path, ".weight");
    if (!entry || !mica_dtype_is_float(entry->tensor->dtype)) return false;
    *out = entry->tensor->dtype;
    return true;
}

void mica_weights_drop(weight_store *store, const char *prefix) {
    for (size_t i = 0; i < store->n_entries; i++)
        if (!strncmp(store->entries[i].name, prefix, strlen(prefix)))
            store->entries[i].is_dropped = true;
}

mica_status mica_weights_audit(const weight_store *store, mica_error *err) {
    char names[320];
    size_t n_left = 0, n_text = 0;
    for (size_t i = 0; i < store->n_entries; i++) {
        const weight_entry *e = &store->entries[i];
        if (e->is_used || e->is_dropped) continue;
        if (n_left++ >= MAX_NAMES_SHOWN || n_text >= sizeof(names)) continue;
        int k = snprintf(names + n_text, sizeof(names) - n_text, "%s%s", n_text ? ", " : "",
                         e->tensor->name);
        n_text += k > 0 ? (size_t)k : 0;
    }
    if (!n_left) return MICA_OK;
    return mica_fail(err, MICA_E_FORMAT, "%s: %zu tensors are of no use to this architecture: %s%s",
                     mica_store_source(store), n_left, names,
                     n_left > MAX_NAMES_SHOWN ? ", ..." : "");
}

bool mica_weights_is_gguf(const weight_store *store) { return store->file != NULL; }

size_t mica_weights_count(const weight_store *store) { return store->n_entries; }

const file_tensor *mica_weights_at(const weight_store *store, size_t i, const char **canonical) {
    *canonical = store->entries[i].name;
    return store->entries[i].tensor;
}
