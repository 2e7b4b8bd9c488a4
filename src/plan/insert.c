/* insert.c: a copy of the nodes in which a pass puts others among them; all are numbered anew, in
 * the same order.
 */
#include "plan/work.h"

#include <string.h>

mica_status mica_plan_insert_init(plan_insert *in, plan_work *w, mica_error *err) {
    size_t n = (size_t)w->n_nodes + 1;
    *in = (plan_insert){.w = w};
    in->nodes = mica_calloc(2 * n, sizeof(*in->nodes));
    in->new_id = mica_calloc(n, sizeof(*in->new_id));
    if (in->nodes && in->new_id) return MICA_OK;
    mica_plan_insert_deinit(in);
    return mica_fail(err, MICA_E_NOMEM, "plan: out of memory");
}

void mica_plan_insert_deinit(plan_insert *in) {
    mica_free(in->nodes);
    mica_free(in->new_id);
    *in = (plan_insert){0};
}

void mica_plan_renumber(const plan_insert *in, graph_node *node) {
    for (int i = 0; i < node->n_src; i++)
        if (node->src[i] != GRAPH_NONE) node->src[i] = in->new_id[node->src[i]];
}

graph_id mica_plan_append(plan_insert *in, const graph_node *node) {
    in->nodes[in->n] = *node;
    return in->n++;
}

void mica_plan_insert_take(plan_insert *in) {
    plan_work *w = in->w;
    memcpy(w->nodes, in->nodes, (size_t)in->n * sizeof(*in->nodes));
    for (int i = 0; i < w->g->n_outputs; i++)
        w->outputs[i] = in->new_id[w->outputs[i]];
    w->n_nodes = in->n;
    mica_plan_dead_code(w);
}
