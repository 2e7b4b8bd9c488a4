/* compile.c: runs the passes over a copy of a graph's nodes and owns the result. */
#include "plan/work.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void mica_plan_note(plan_work *w, const char *format, ...) {
    size_t used = strlen(w->notes);
    va_list args;
    va_start(args, format);
    int n = vsnprintf(w->notes + used, sizeof(w->notes) - used, format, args);
    va_end(args);
    if (n < 0) return;
    used = strlen(w->notes);
    if (used + 1 < sizeof(w->notes)) memcpy(w->notes + used, "\n", 2);
}

static mica_status begin(plan_work *w, const graph *g, mica_error *err) {
    size_t n = 2 * (size_t)g->n_nodes + 1; /* splitting and quantizing add at most one for each */
    w->g = g;
    w->n_nodes = g->n_nodes;
    memcpy(w->outputs, g->outputs, sizeof(w->outputs));
    w->nodes = mica_calloc(n, sizeof(*w->nodes));
    w->live = mica_calloc(n, sizeof(*w->live));
    w->n_users = mica_calloc(n, sizeof(*w->n_users));
    w->step_of = mica_calloc(n, sizeof(*w->step_of));
    w->node_of = mica_calloc(n, sizeof(*w->node_of));
    if (!w->nodes || !w->live || !w->n_users || !w->step_of || !w->node_of) {
        return mica_fail(err, MICA_E_NOMEM, "plan: out of memory");
    }
    if (g->n_nodes) memcpy(w->nodes, g->nodes, (size_t)g->n_nodes * sizeof(*w->nodes));
    return MICA_OK;
}

static void end(plan_work *w) {
    mica_free(w->nodes);
    mica_free(w->live);
    mica_free(w->n_users);
    mica_free(w->step_of);
    mica_free(w->node_of);
}

static mica_status take_bounds(plan *p, const plan_options *options, mica_error *err) {
    for (int i = 0; i < GRAPH_N_SYMS; i++) {
        p->bound[i] = options->bound[i];
        if (p->bound[i] >= 0) continue;
        return mica_fail(err, MICA_E_INVALID, "plan: bound %d is %" PRId64 "; expected 0 or more",
                         i, p->bound[i]);
    }
    p->bound[GRAPH_FIXED] = 1;
    return MICA_OK;
}

static mica_status run_passes(plan_work *w, mica_error *err) {
    mica_status st;
    mica_plan_dead_code(w);
    mica_plan_rewrite(w);
    mica_plan_dead_code(w);
    if ((st = mica_plan_split(w, err))) return st;
    if ((st = mica_plan_quantize(w, err))) return st;
    mica_plan_rewrite_late(w);
    mica_plan_dead_code(w);
    if ((st = mica_plan_schedule(w, err))) return st;
    if ((st = mica_plan_memory(w, err))) return st;
    if ((st = mica_plan_choose(w, err))) return st;
    w->p->passes = mica_arena_strndup(&w->p->memory, w->notes, strlen(w->notes));
    return w->p->passes ? MICA_OK : mica_fail(err, MICA_E_NOMEM, "plan: out of memory");
}

mica_status mica_plan_compile(plan **out, const graph *g, const plan_target *target,
                              const plan_options *options, mica_error *err) {
    mica_status st = mica_graph_check(g, err);
    if (st) return st;
    plan *p = mica_calloc(1, sizeof(*p));
    if (!p) return mica_fail(err, MICA_E_NOMEM, "plan: out of memory");
    mica_arena_init(&p->memory, 0);
    p->target = target;
    plan_work w;
    memset(&w, 0, sizeof(w));
    w.p = p;
    w.options = options;
    if ((st = take_bounds(p, options, err))) goto out;
    if ((st = begin(&w, g, err))) goto out;
    if ((st = run_passes(&w, err))) goto out;
    *out = p;
    p = NULL;
out:
    end(&w);
    mica_plan_free(p);
    return st;
}

void mica_plan_free(plan *p) {
    if (!p) return;
    mica_arena_deinit(&p->memory);
    mica_free(p);
}
