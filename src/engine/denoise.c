/* denoise.c: one pass of a diffusion model's decoder over a canvas (docs/models.md 16.3).
 *
 * The canvas is a step that is never committed: its keys and values lie in slots that are reserved
 * for it, behind those of the encoded text, and are given back when the plan has run. So every row
 * sees what is cached and the whole canvas through the block tables of any other step, and the
 * sequence is as before. Spans make the mask: all rows see up to the canvas's end, and in sliding
 * layers the last window - 1 cached positions. What conditions the pass is made first, by a plan of
 * its own, from the logits of the pass before. Nothing here allocates.
 */
#include "engine/runtime.h"

#include <string.h>

static mica_status make_plan(engine *e, runner *r, model_graph *mg, model_phase phase,
                             const model_build_options *b, lever_set levers, mica_error *err) {
    model_build_options build = *b;
    plan_options p = {.levers = levers};
    build.phase = phase;
    p.bound[GRAPH_FIXED] = p.bound[GRAPH_LOGITS] = p.bound[GRAPH_SEQS] = 1;
    p.bound[GRAPH_ROWS] = e->max_canvas;
    mica_status st = mica_model_build(e->model, &build, mg, err);
    return st ? st : mica_runner_init(r, e, mg, &p, err);
}

/* One pass reads what another has written. */
static bool same_caches(const model_graph *a, const model_graph *b) {
    bool same = a->n_caches == b->n_caches;
    for (int i = 0; same && i < a->n_caches; i++) {
        const kv_layout *x = &a->caches[i].layout, *y = &b->caches[i].layout;
        same = a->caches[i].group == b->caches[i].group && x->dtype == y->dtype &&
               x->n_kv_heads == y->n_kv_heads && x->head_dim == y->head_dim;
    }
    return same;
}

mica_status mica_denoiser_init(engine *e, const model_build_options *b, lever_set levers,
                               mica_error *err) {
    denoiser *d = &e->denoiser;
    mica_status st = make_plan(e, &d->canvas, &d->canvas_graph, MODEL_CANVAS, b, levers, err);
    if (st) return st;
    if ((st = make_plan(e, &d->signal, &d->signal_graph, MODEL_SIGNAL, b, levers, err))) return st;
    const graph_type *out = &d->signal.plan->outputs[0].type;
    const graph_type *in = &d->canvas.plan->inputs[d->canvas_graph.signal].type;
    if (same_caches(&e->graph, &d->canvas_graph) && out->dtype == in->dtype) return MICA_OK;
    return mica_fail(err, MICA_E_INTERNAL, "encoder and decoder do not agree on their caches");
}

void mica_denoiser_deinit(denoiser *d) {
    runner *runners[] = {&d->canvas, &d->signal};
    model_graph *graphs[] = {&d->canvas_graph, &d->signal_graph};
    for (int i = 0; i < 2; i++) {
        bool was_built = runners[i]->graph != NULL;
        mica_runner_deinit(runners[i]);
        if (was_built) mica_model_graph_deinit(graphs[i]);
    }
}

static mica_status check_canvas(const session *s, const int32_t *canvas, int64_t n,
                                mica_error *err) {
    const engine *e = s->engine;
    int64_t length = mica_kv_length(s->seq);
    if (!mica_engine_is_diffusion(e))
        return mica_fail(err, MICA_E_UNSUPPORTED, "%s is no diffusion model: it has no canvas",
                         mica_model_config(e->model)->arch);
    if (n <= 0) return mica_fail(err, MICA_E_INVALID, "the canvas is empty");
    if (!length)
        return mica_fail(err, MICA_E_INVALID, "the prompt is empty: there is nothing to continue");
    if (n > e->max_canvas)
        return mica_fail(err, MICA_E_LIMIT, "a canvas of %lld tokens; at most %d", (long long)n,
                         e->max_canvas);
    if (n > e->max_context - length)
        return mica_fail(err, MICA_E_LIMIT,
                         "a canvas of %lld tokens behind %lld does not fit the context of %lld",
                         (long long)n, (long long)length, (long long)e->max_context);
    return mica_step_check_ids(e, canvas, n, err);
}

static mica_status run(engine *e, runner *r, int64_t n, mica_error *err) {
    const plan_inputs inputs = {
        .sym = {[GRAPH_FIXED] = 1, [GRAPH_ROWS] = n, [GRAPH_LOGITS] = 0, [GRAPH_SEQS] = 1},
        .arrays = r->arrays,
        .caches = e->caches};
    return mica_cpu_exec_run(r->exec, &inputs, err);
}

static mica_status make_signal(engine *e, int64_t n, const float *previous, mica_error *err) {
    denoiser *d = &e->denoiser;
    const graph_type *type = &d->canvas.plan->inputs[d->canvas_graph.signal].type;
    size_t n_bytes = (size_t)(n * type->dim[1].n) * mica_dtype_bytes(type->dtype);
    if (!previous) {
        memset(d->canvas.signal, 0, n_bytes);
        return MICA_OK;
    }
    /* read alone: inputs are not written by any kernel */
    d->signal.arrays[d->signal_graph.previous] = (void *)(uintptr_t)previous;
    mica_status st = run(e, &d->signal, n, err);
    if (!st) memcpy(d->canvas.signal, mica_cpu_exec_output(d->signal.exec, 0), n_bytes);
    return st;
}

/* The oldest cached position that a canvas behind `length` sees in sliding layers; full layers see
 * all whatever the span says. */
static int64_t first_seen(const model_graph *mg, int64_t length) {
    int64_t first = 0;
    for (int g = 0; g < mg->n_groups; g++) {
        int64_t lo = length - (mg->windows[g] - 1);
        if (mg->windows[g] > 0 && lo > first) first = lo;
    }
    return first;
}

static void write_canvas(session *s, const int32_t *canvas, int64_t n) {
    engine *e = s->engine;
    runner *r = &e->denoiser.canvas;
    int64_t length = mica_kv_length(s->seq), first = first_seen(r->graph, length);
    for (int64_t i = 0; i < n; i++) {
        r->tokens[i] = canvas[i];
        r->positions[i] = (int32_t)(length + i);
        r->row_seq[i] = 0;
        r->span_lo[i] = (int32_t)first;
        r->span_hi[i] = (int32_t)(length + n);
        for (int g = 0; g < r->graph->n_groups; g++)
            r->slots[g][i] = mica_kv_slot(s->seq, g, length + i);
    }
    for (int g = 0; g < r->graph->n_groups; g++)
        memcpy(r->tables[g], mica_kv_table(s->seq, g),
               (size_t)e->table_length * sizeof(*r->tables[g]));
}

mica_status mica_denoise(session *s, const int32_t *canvas, int64_t n, const float *previous,
                         mica_error *err) {
    engine *e = s->engine;
    mica_status st = check_canvas(s, canvas, n, err);
    if (st) return st;
    if ((st = make_signal(e, n, previous, err))) return st;
    if ((st = mica_kv_reserve(s->seq, n, err))) return st;
    write_canvas(s, canvas, n);
    st = run(e, &e->denoiser.canvas, n, err);
    mica_kv_abort(s->seq);
    return st;
}

mica_status mica_session_denoise(session *s, const int32_t *canvas, int64_t n,
                                 const float *previous, logits_fn on_logits, void *user,
                                 mica_error *err) {
    mica_status st = mica_denoise(s, canvas, n, previous, err);
    const runner *r = &s->engine->denoiser.canvas;
    for (int64_t i = 0; !st && i < n; i++)
        st = on_logits(user, i, mica_runner_row(r, i, r->row), err);
    return st;
}
