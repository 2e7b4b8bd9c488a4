/* model.c: opening a model file and building its graph.
 *
 * path -> configuration -> row of the table -> tensors -> audit. Nothing is left open when a step
 * fails, and no tensor data is touched before the type of the model is known.
 */
#include "model/loaded.h"

#include <string.h>

static void warn(const model_options *options, const char *message) {
    if (options && options->warn && message[0]) options->warn(options->user, message);
}

static weight_options weight_options_of(const model_options *options) {
    weight_options w = {0};
    if (!options) return w;
    w.progress = options->progress;
    w.warn = options->warn;
    w.user = options->user;
    w.defer = options->defer;
    return w;
}

static void warn_unindexed(const model *m, const model_options *options) {
    size_t n = mica_folder_n_unindexed(m->folder);
    if (!n) return;
    char *text =
        mica_asprintf("%s: %zu tensors that the index does not name are ignored", m->path, n);
    if (text) warn(options, text);
    mica_free(text);
}

static mica_status open_folder(model *m, const model_options *options, mica_error *err) {
    mica_status st;
    model_kind kind;
    const arch *a;
    if ((st = mica_folder_open(&m->folder, m->path, err))) return st;
    const json_value *config = mica_folder_config(m->folder);
    config_source source = {config, mica_folder_generation_config(m->folder), m->path};
    if ((st = mica_dispatch_kind(&kind, config, m->path, err))) return st;
    if ((st = mica_dispatch_folder(&a, &kind, m->path, err))) return st;
    if ((st = mica_config_read(&source, &kind, a, &m->arena, &m->config, &m->facts, err)))
        return st;
    if ((st = mica_folder_open_tensors(m->folder, err))) return st;
    warn_unindexed(m, options);
    m->file_bytes = mica_folder_file_bytes(m->folder);
    weight_options w = weight_options_of(options);
    w.naming = a->names;
    if ((st = mica_weights_open_folder(&m->store, m->folder, &w, err))) return st;
    return mica_weights_set_quantization(m->store, config, err);
}

mica_status mica_dispatch_file(const char *path, mica_error *err) {
    static const char *const parts[] = {".safetensors", ".json"};
    const char *slash = strrchr(path, '/');
    size_t n = strlen(path), n_folder = slash ? (size_t)(slash - path) : 1;
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
        size_t n_part = strlen(parts[i]);
        if (n < n_part || strcmp(path + n - n_part, parts[i]) != 0) continue;
        return mica_fail(err, MICA_E_UNSUPPORTED,
                         "%s: one file of a model's folder; give the folder, %.*s", path,
                         (int)n_folder, slash ? path : ".");
    }
    return MICA_OK;
}

static mica_status open_gguf(model *m, const model_options *options, mica_error *err) {
    mica_status st;
    const arch *a;
    if ((st = mica_dispatch_file(m->path, err))) return st;
    if ((st = mica_gguf_open(&m->gguf, m->path, err))) return st;
    if ((st = mica_dispatch_gguf(&a, m->gguf, m->path, err))) return st;
    if ((st = mica_config_read_gguf(m->gguf, a, &m->arena, &m->config, &m->facts, err))) return st;
    m->file_bytes = mica_gguf_map(m->gguf)->size;
    weight_options w = weight_options_of(options);
    if ((st = mica_weights_open_gguf(&m->store, m->gguf, &w, err))) return st;
    /* config_gguf.c has copied the tables that these hold */
    mica_weights_drop(m->store, "rope_freqs.");
    mica_weights_drop(m->store, "rope_factors_");
    return MICA_OK;
}

/* The tables of every rope; an unknown type is found here. */
static mica_status make_ropes(model *m, mica_error *err) {
    for (int i = 0; i < m->config.n_ropes; i++) {
        const rope_config *rope = &m->config.rope[i];
        rope_constants *k = &m->rope[i];
        k->dims = mica_rope_dims(rope, rope->head_dim ? rope->head_dim : m->config.head_dim);
        float *table = mica_arena_calloc(&m->arena, (size_t)k->dims / 2, sizeof(*table));
        if (!table) return mica_fail(err, MICA_E_NOMEM, "%s: out of memory", m->path);
        mica_error inner;
        mica_status st =
            mica_rope_periods(rope, k->dims, table, &k->position_scale, &k->input_scale, &inner);
        if (st) return mica_fail(err, st, "%s: %.400s", m->path, inner.message);
        k->table = mica_rope_by_length(rope) ? NULL : table;
    }
    return MICA_OK;
}

static mica_status finish(model *m, const model_options *options, mica_error *err) {
    mica_status st;
    char warning[256];
    if ((st = mica_config_settle(&m->config, &m->facts, m->store, warning, sizeof(warning), err)))
        return st;
    warn(options, warning);
    m->tier = mica_dispatch_tier(m->facts.arch, &m->config);
    if (mica_dispatch_is_minicpm5(m->facts.arch, &m->config) && !m->facts.has_rope_theta)
        warn(options, "the configuration states no rope_theta; MiniCPM5 was trained with 5000000, "
                      "10000 is used");
    if ((st = make_ropes(m, err))) return st;
    if ((st = mica_dense_take(m, err))) return st;
    if ((st = mica_weights_audit(m->store, err))) return st;
    bool has_dtype = false;
    m->config.dtype = mica_weight_dtype(m->weights.embed, &has_dtype);
    if (!has_dtype || m->facts.is_gguf) m->config.dtype = MICA_F32;
    return MICA_OK;
}

mica_status mica_model_load(model **out, const char *path, const model_options *options,
                            mica_error *err) {
    mica_status st = MICA_OK;
    model *m = mica_calloc(1, sizeof(*m));
    if (!m) return mica_fail(err, MICA_E_NOMEM, "%s: out of memory", path);
    mica_arena_init(&m->arena, 0);
    if (!(m->path = mica_strdup(path))) {
        st = mica_fail(err, MICA_E_NOMEM, "%s: out of memory", path);
        goto out;
    }
    m->facts.where = m->path;
    st = mica_path_is_folder(path) ? open_folder(m, options, err) : open_gguf(m, options, err);
    if (st) goto out;
    if ((st = finish(m, options, err))) goto out;
    *out = m;
    m = NULL;
out:
    mica_model_close(m);
    return st;
}

mica_status mica_model_prepare(model *m, mica_pool *pool, const char *pack_folder,
                               mica_error *err) {
    return mica_weights_prepare(m->store, pool, pack_folder, err);
}

void mica_model_close(model *m) {
    if (!m) return;
    mica_weights_close(m->store);
    mica_gguf_close(m->gguf);
    mica_folder_close(m->folder);
    mica_arena_deinit(&m->arena);
    mica_free(m->path);
    mica_free(m);
}

const model_config *mica_model_config(const model *m) { return &m->config; }
model_tier mica_model_tier(const model *m) { return m->tier; }
uint64_t mica_model_file_bytes(const model *m) { return m->file_bytes; }
const weight_store *mica_model_weights(const model *m) { return m->store; }
const gguf_file *mica_model_gguf(const model *m) { return m->gguf; }
const hf_folder *mica_model_folder(const model *m) { return m->folder; }

static void no_slots(model_graph *mg) {
    mg->tokens = mg->positions = mg->row_seq = mg->span_lo = mg->span_hi = mg->logits_rows = -1;
    for (int i = 0; i < MODEL_MAX_GROUPS; i++)
        mg->block_table[i] = mg->slots[i] = -1;
    mg->rope_periods[0] = mg->rope_periods[1] = -1;
    mg->states_in = mg->states_out = mg->seq_rows = -1;
    mg->signal = mg->previous = -1;
}

mica_status mica_model_build(model *m, const model_build_options *options, model_graph *out,
                             mica_error *err) {
    memset(out, 0, sizeof(*out));
    no_slots(out);
    mica_graph_init(&out->g);
    if (options->force_dtype) mica_graph_force_dtype(&out->g, options->dtype);
    if (options->phase == MODEL_SIGNAL)
        mica_diffusion_build_signal(m, out);
    else
        mica_dense_build(m, options, out);
    mica_status st = mica_graph_check(&out->g, err);
    if (st) mica_model_graph_deinit(out);
    return st;
}

void mica_model_graph_deinit(model_graph *mg) { mica_graph_deinit(&mg->g); }

void mica_model_rope_periods(const model *m, int rope_idx, int64_t n_prompt, int64_t pos,
                             float *out) {
    const rope_constants *k = &m->rope[rope_idx];
    int64_t n = n_prompt > pos + 1 ? n_prompt : pos + 1;
    float position_scale, input_scale;
    /* the same call succeeded when the model was loaded */
    mica_rope_periods_at(&m->config.rope[rope_idx], k->dims, n, out, &position_scale, &input_scale,
                         NULL);
}

bool mica_model_rope_switches(const model *m, int64_t from, int64_t to) {
    for (int i = 0; i < m->config.n_ropes; i++) {
        const rope_config *rope = &m->config.rope[i];
        int64_t original = rope->original_max_positions;
        if (rope->long_factor && from <= original && original < to) return true;
    }
    return false;
}
