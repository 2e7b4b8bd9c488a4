/* engine.c: opening a model for running: profile, graph, one plan a role, cache.
 *
 * Everything that a step needs is made here, at its largest size, so that steps allocate nothing.
 * The exact profile keeps the activations' own dtype (or the one asked for) and one plan for both
 * roles. The fast profile computes in f32 with a 16-bit cache and has a plan for each role; the
 * decode plan's bounds are small, and so is its arena.
 */
#include "engine/runtime.h"

#include "base/clock.h"

enum {
    DEFAULT_CHUNK = 512,
    MAX_CHUNK = 65536,
    DECODE_ROWS = 16, /* a few sequences, or a draft to verify */
    MAX_SEQS = 1024,
    UNKNOWN_CONTEXT = 4096 /* when the file does not say */
};

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static mica_status check_number(const char *name, int64_t value, int64_t most, mica_error *err) {
    if (value >= 0 && value <= most) return MICA_OK;
    return mica_fail(err, MICA_E_INVALID,
                     "%s is %lld; it must be from 1 to %lld, or 0 for the default", name,
                     (long long)value, (long long)most);
}

static mica_status check_options(const engine_options *o, mica_error *err) {
    mica_status st;
    if (o->has_dtype && !o->exact)
        return mica_fail(err, MICA_E_INVALID,
                         "a dtype can be chosen in the exact profile only: add --exact, or drop "
                         "--dtype");
    if (o->has_dtype && !mica_dtype_is_float(o->dtype))
        return mica_fail(err, MICA_E_INVALID, "activations cannot be %s; use f32, bf16 or f16",
                         mica_dtype_name(o->dtype));
    if ((st = check_number("chunk", o->chunk, MAX_CHUNK, err))) return st;
    if ((st = check_number("max_logits", o->max_logits, MAX_CHUNK, err))) return st;
    if ((st = check_number("max_seqs", o->max_seqs, MAX_SEQS, err))) return st;
    if ((st = check_number("canvas", o->canvas, MAX_CHUNK, err))) return st;
    return check_number("the context", o->max_context, INT32_MAX / 2, err);
}

static bool is_encoder(const engine *e) { return mica_model_config(e->model)->is_encoder; }

static mica_status set_sizes(engine *e, const engine_options *o, mica_error *err) {
    int64_t of_model = mica_model_config(e->model)->max_positions;
    if (of_model <= 0) of_model = UNKNOWN_CONTEXT;
    if (of_model > INT32_MAX / 2) of_model = INT32_MAX / 2;
    if (o->max_context > of_model)
        return mica_fail(err, MICA_E_LIMIT, "a context of %lld is more than the model's %lld",
                         (long long)o->max_context, (long long)of_model);
    e->max_context = o->max_context ? o->max_context : of_model;
    e->table_length = (e->max_context + KV_BLOCK - 1) / KV_BLOCK;
    e->max_seqs = o->max_seqs ? o->max_seqs : 1;
    e->max_logits = o->max_logits ? o->max_logits : 1;
    e->chunk = o->chunk ? o->chunk : DEFAULT_CHUNK;
    /* all rows of a text are in one step, since each sees every other */
    if (is_encoder(e) && e->chunk < e->max_context) e->chunk = (int32_t)e->max_context;
    if (e->chunk > e->max_context && !is_encoder(e)) e->chunk = (int32_t)e->max_context;
    e->vocab_size = mica_model_config(e->model)->vocab_size;
    int32_t own = mica_model_config(e->model)->diffusion.canvas_length;
    e->max_canvas = own ? (int32_t)least(o->canvas ? o->canvas : own, e->max_context) : 0;
    return MICA_OK;
}

static model_build_options build_options(const engine *e, const engine_options *o) {
    mica_dtype own = mica_model_config(e->model)->dtype;
    model_build_options b = {.n_blocks = e->table_length};
    b.force_dtype = o->has_dtype || !o->exact;
    b.dtype = !o->exact ? MICA_F32 : o->has_dtype ? o->dtype : own;
    b.cache_dtype = o->exact ? b.dtype : own == MICA_F16 ? MICA_F16 : MICA_BF16;
    return b;
}

/* What promotion makes of the keys and values; exact caches store them unrounded. */
static mica_dtype written_dtype(const graph *g, mica_dtype dtype) {
    for (int32_t i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].op == OP_KV_WRITE)
            for (int k = 1; k <= 2; k++)
                dtype = mica_dtype_promote(dtype, g->nodes[g->nodes[i].src[k]].type.dtype);
    return dtype;
}

/* *b says afterwards how it was built. */
static mica_status build_graph(engine *e, const engine_options *o, model_build_options *b,
                               model_graph *out, bool *is_built, mica_error *err) {
    mica_status st = mica_model_build(e->model, b, out, err);
    if (st) return st;
    mica_dtype written = written_dtype(&out->g, b->dtype);
    *is_built = !o->exact || written == b->cache_dtype;
    if (*is_built) return MICA_OK;
    mica_model_graph_deinit(out);
    b->cache_dtype = written;
    st = mica_model_build(e->model, b, out, err);
    *is_built = !st;
    return st;
}

static mica_status check_use(const engine *e, const engine_options *o, mica_error *err) {
    const char *type = mica_model_config(e->model)->model_type;
    if (o->use == ENGINE_GENERATES && is_encoder(e))
        return mica_fail(err, MICA_E_UNSUPPORTED,
                         "%s is an encoder: it makes embeddings (mica embed) and no text", type);
    if (o->use != ENGINE_GENERATES && e->max_canvas)
        return mica_fail(err, MICA_E_UNSUPPORTED,
                         "%s is a diffusion model: it makes text (mica generate) and no embeddings",
                         type);
    return MICA_OK;
}

/* *b says how what generates was built. */
static mica_status build_graphs(engine *e, const engine_options *o, model_build_options *b,
                                mica_error *err) {
    bool generates = o->use != ENGINE_EMBEDS && !is_encoder(e);
    mica_status st = check_use(e, o, err);
    if (st) return st;
    *b = build_options(e, o);
    model_build_options hidden = *b;
    hidden.hidden = true;
    if (generates) st = build_graph(e, o, b, &e->graph, &e->has_graph, err);
    if (st || o->use == ENGINE_GENERATES) return st;
    st = build_graph(e, o, &hidden, &e->embed_graph, &e->has_embed_graph, err);
    return st ? st : mica_model_embedding(e->model, &e->memory, &e->embedding, err);
}

static plan_options bounds(const engine *e, lever_set levers, int64_t n_rows, int64_t n_outputs) {
    plan_options p = {.levers = levers};
    p.bound[GRAPH_FIXED] = 1;
    p.bound[GRAPH_ROWS] = most(n_rows, e->max_seqs);
    p.bound[GRAPH_LOGITS] = least(most(n_outputs, e->max_seqs), p.bound[GRAPH_ROWS]);
    p.bound[GRAPH_SEQS] = e->max_seqs;
    return p;
}

static mica_status make_runner(engine *e, lever_set levers, int64_t n_rows, mica_error *err) {
    const plan_options p = bounds(e, levers, n_rows, e->max_logits);
    return mica_runner_init(&e->runners[e->n_runners++], e, &e->graph, &p, err);
}

/* An encoder has rows of prompts alone. */
static mica_status make_runners(engine *e, const engine_options *o, const model_build_options *b,
                                mica_error *err) {
    lever_set all = o->exact ? mica_levers_exact() : mica_levers_fast();
    mica_status st;
    for (int i = 0; i < o->n_levers; i++)
        if ((st = mica_lever_switch(&all, o->levers[i], err))) return st;
    lever_set levers = mica_levers_for(all, LEVER_PROMPT_ROWS);
    if (e->has_embed_graph) { /* every row's hidden state may be wanted */
        const plan_options p = bounds(e, levers, e->chunk, e->chunk);
        if ((st = mica_runner_init(&e->embedder, e, &e->embed_graph, &p, err))) return st;
    }
    if (!e->has_graph) return MICA_OK;
    if ((st = make_runner(e, levers, e->chunk, err))) return st;
    if (e->max_canvas) return mica_denoiser_init(e, b, levers, err);
    if (o->exact) return MICA_OK;
    levers = mica_levers_for(all, LEVER_DECODE_ROWS);
    return make_runner(e, levers, least(DECODE_ROWS, e->max_context), err);
}

/* Sequences at full length for which there must be room. One more than are open at once where a
 * sequence may be run again beside itself. Of texts to embed one may be as long as the context;
 * the others lie in one step, each with two blocks that it does not fill. */
static int64_t seqs_of_pool(const engine *e) {
    int64_t n = e->max_seqs + mica_model_rope_switches(e->model, 0, INT64_MAX);
    if (e->n_runners) return n;
    for (int g = 0; g < e->embed_graph.n_groups; g++)
        if (e->embed_graph.windows[g] != 0) return n;
    int64_t in_step = e->embedder.plan->bound[GRAPH_ROWS] + 2 * KV_BLOCK * (int64_t)e->max_seqs;
    return least(n, 2 + in_step / e->max_context);
}

static mica_status make_pool(engine *e, mica_error *err) {
    const model_graph *mg = mica_engine_graph(e);
    kv_layer_spec layers[MODEL_MAX_LAYERS];
    for (int i = 0; i < mg->n_caches; i++)
        layers[i] = (kv_layer_spec){mg->caches[i].group, mg->caches[i].layout};
    int64_t max_rows = e->has_embed_graph ? e->embedder.plan->bound[GRAPH_ROWS] : 0;
    for (int i = 0; i < e->n_runners; i++)
        max_rows = most(max_rows, e->runners[i].plan->bound[GRAPH_ROWS]);
    max_rows = most(max_rows, e->max_canvas);
    const kv_pool_spec spec = {.windows = mg->windows,
                               .n_groups = mg->n_groups,
                               .layers = layers,
                               .n_layers = mg->n_caches,
                               .max_positions = e->max_context,
                               .max_rows = least(max_rows, e->max_context),
                               .max_seqs = seqs_of_pool(e),
                               .state_bytes = mg->state_bytes};
    mica_status st = mica_kv_pool_new(&e->pool, &spec, err);
    if (st) return st;
    for (int i = 0; i < mg->n_caches; i++)
        e->caches[i] = mica_kv_pool_base(e->pool, i);
    return MICA_OK;
}

static mica_status load_model(engine *e, const char *path, const engine_options *options,
                              mica_error *err) {
    model_options m = options->model;
    m.defer = true;
    mica_status st = mica_model_load(&e->model, path, &m, err);
    if (st) return st;
    return mica_model_prepare(e->model, mica_cpu_pool(e->backend), options->pack_folder, err);
}

mica_status mica_engine_open(engine **out, const char *path, const engine_options *options,
                             mica_error *err) {
    double start = mica_now_s();
    model_build_options build;
    mica_status st = check_options(options, err);
    if (st) return st;
    engine *e = mica_calloc(1, sizeof(*e));
    if (!e) return mica_fail(err, MICA_E_NOMEM, "%s: out of memory", path);
    mica_arena_init(&e->memory, 0);
    if ((st = mica_cpu_new(&e->backend, options->n_threads, options->cpu_mask, err))) goto out;
    if ((st = load_model(e, path, options, err))) goto out;
    if ((st = set_sizes(e, options, err))) goto out;
    if ((st = build_graphs(e, options, &build, err))) goto out;
    if ((st = make_runners(e, options, &build, err))) goto out;
    if ((st = make_pool(e, err))) goto out;
    e->load_s = mica_now_s() - start;
    *out = e;
    e = NULL;
out:
    mica_engine_close(e);
    return st;
}

void mica_engine_close(engine *e) {
    if (!e) return;
    mica_kv_pool_free(e->pool);
    for (int i = 0; i < e->n_runners; i++)
        mica_runner_deinit(&e->runners[i]);
    mica_runner_deinit(&e->embedder);
    mica_denoiser_deinit(&e->denoiser);
    if (e->has_graph) mica_model_graph_deinit(&e->graph);
    if (e->has_embed_graph) mica_model_graph_deinit(&e->embed_graph);
    mica_model_close(e->model);
    mica_cpu_free(e->backend);
    mica_arena_deinit(&e->memory);
    mica_free(e);
}

const model *mica_engine_model(const engine *e) { return e->model; }

bool mica_engine_is_diffusion(const engine *e) { return e->max_canvas > 0; }

int64_t mica_engine_max_context(const engine *e) { return e->max_context; }

int64_t mica_engine_vocab_size(const engine *e) { return e->vocab_size; }

cpu_backend *mica_engine_backend(const engine *e) { return e->backend; }

const plan *mica_engine_plan(const engine *e, row_role role) {
    if (role == ROLE_DECODE && e->max_canvas) return e->denoiser.canvas.plan;
    return e->n_runners ? e->runners[e->n_runners > 1 ? role : 0].plan : e->embedder.plan;
}

double mica_engine_load_s(const engine *e) { return e->load_s; }
