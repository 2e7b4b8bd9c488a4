/* tape.c: turns the live nodes into the flat array of steps, in program order.
 *
 * Leaves and views take no step: they become operands, which say where their bytes are. An effect
 * as an operand stands for the cache behind it; that it comes later in the tape is what orders the
 * reader after the writer.
 */
#include "plan/work.h"

#include <inttypes.h>
#include <string.h>

bool mica_plan_is_step(const graph_node *node) { return node->op > OP_VIEW; }

graph_id mica_plan_base(const plan_work *w, graph_id id) {
    while (w->nodes[id].op == OP_VIEW)
        id = w->nodes[id].src[0];
    return id;
}

/* Bytes from the start of the base's memory to the view's first element. */
static uint64_t view_offset(const plan_work *w, graph_id id) {
    uint64_t elements = 0;
    size_t bytes = mica_dtype_bytes(w->nodes[id].type.dtype);
    for (; w->nodes[id].op == OP_VIEW; id = w->nodes[id].src[0]) {
        elements += (uint64_t)w->nodes[id].attr.view.offset;
    }
    return elements * bytes;
}

static void resolve(const plan_work *w, graph_id id, plan_operand *out) {
    memset(out, 0, sizeof(*out));
    out->id = id;
    if (id == GRAPH_NONE) return;
    const graph_node *base = &w->nodes[mica_plan_base(w, id)];
    out->type = w->nodes[id].type;
    out->offset = view_offset(w, id);
    switch ((int)base->op) {
    case OP_INPUT:
        out->space = PLAN_INPUT;
        out->slot = base->attr.input.slot;
        break;
    case OP_CONST:
        out->space = PLAN_CONST;
        out->data = (const char *)base->attr.constant.data + out->offset;
        out->offset = 0;
        break;
    case OP_WEIGHT:
        out->space = PLAN_WEIGHT;
        out->matrix = base->attr.weight.matrix;
        break;
    case OP_CACHE:
    case OP_KV_WRITE:
        out->space = PLAN_CACHE;
        out->slot = base->attr.cache.layer;
        break;
    default:
        out->space = PLAN_ARENA;
        break;
    }
}

void mica_plan_fill_step(const plan_work *w, const graph_node *node, plan_step *step) {
    memset(step, 0, sizeof(*step));
    step->op = node->op;
    step->name = node->name;
    step->attr = node->attr;
    step->n_src = node->n_src;
    for (int i = 0; i < GRAPH_MAX_SRC; i++) {
        resolve(w, i < node->n_src ? node->src[i] : GRAPH_NONE, &step->src[i]);
    }
    step->out.id = GRAPH_NONE;
    if (node->type.n_dims == 0) return; /* an effect */
    step->out.space = PLAN_ARENA;
    step->out.type = node->type;
}

static mica_status take_inputs(plan_work *w, mica_error *err) {
    plan *p = w->p;
    p->n_inputs = w->g->n_inputs;
    p->n_caches = w->g->n_caches;
    p->inputs = mica_arena_calloc(&p->memory, (size_t)p->n_inputs + 1, sizeof(*p->inputs));
    if (!p->inputs) return mica_fail(err, MICA_E_NOMEM, "plan: out of memory");
    for (int32_t id = 0; id < w->n_nodes; id++) {
        const graph_node *n = &w->nodes[id];
        if (n->op != OP_INPUT) continue;
        p->inputs[n->attr.input.slot] = (plan_input_info){n->attr.input.name, n->type};
    }
    return MICA_OK;
}

mica_status mica_plan_schedule(plan_work *w, mica_error *err) {
    plan *p = w->p;
    mica_status st = take_inputs(w, err);
    if (st) return st;
    int32_t n = 0;
    for (int32_t id = 0; id < w->n_nodes; id++) {
        w->step_of[id] = -1;
        if (!w->live[id] || !mica_plan_is_step(&w->nodes[id])) continue;
        w->node_of[n] = id;
        w->step_of[id] = n++;
    }
    p->steps = mica_arena_calloc(&p->memory, (size_t)n + 1, sizeof(*p->steps));
    if (!p->steps) return mica_fail(err, MICA_E_NOMEM, "plan: out of memory");
    p->n_steps = n;
    for (int32_t i = 0; i < n; i++) {
        mica_plan_fill_step(w, &w->nodes[w->node_of[i]], &p->steps[i]);
        if (p->steps[i].out.space) p->steps[i].out.id = w->node_of[i];
    }
    p->n_outputs = w->g->n_outputs;
    for (int i = 0; i < p->n_outputs; i++) {
        resolve(w, w->outputs[i], &p->outputs[i]);
        if (p->outputs[i].space == PLAN_ARENA || p->outputs[i].space == PLAN_INPUT ||
            p->outputs[i].space == PLAN_CONST) {
            continue;
        }
        return mica_fail(err, MICA_E_INVALID, "plan: output %d is a %s; expected a tensor", i,
                         mica_graph_op_name(w->nodes[w->outputs[i]].op));
    }
    mica_plan_note(w, "schedule: %" PRId32 " steps", n);
    return MICA_OK;
}
