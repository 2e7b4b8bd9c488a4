/* fuse_residual.c: the lever residual: a residual or a bias is added where the other term is
 * stored, a matmul's or a norm's result. The bits are those of the two steps.
 */
#include "plan/rules.h"

/* Where an op takes what is added to its result; 0: it does not. */
static int added_at(graph_op op) {
    switch (op) {
    case OP_MATMUL_I8:
    case OP_MATMUL_BF16:
    case OP_RMS_NORM:
        return 2;
    case OP_LAYER_NORM:
        return 3;
    default:
        return 0;
    }
}

static bool same_type(const graph_type *a, const graph_type *b) {
    bool same = a->dtype == b->dtype && a->n_dims == b->n_dims;
    for (int i = 0; same && i < a->n_dims; i++)
        same = a->dim[i].n == b->dim[i].n && a->dim[i].sym == b->dim[i].sym &&
               a->dim[i].add == b->dim[i].add;
    return same;
}

/* The term in source k takes the other one. */
static bool join(const plan_work *w, const graph_node *root, int k, graph_node *out) {
    const graph_node *term = &w->nodes[root->src[k]];
    int at = added_at(term->op);
    if (!at || term->n_src > at || w->n_users[root->src[k]] != 1) return false;
    if (!same_type(&term->type, &root->type)) return false;
    *out = *term;
    for (int i = term->n_src; i < at; i++)
        out->src[i] = GRAPH_NONE;
    out->src[at] = root->src[1 - k];
    out->n_src = at + 1;
    out->type = root->type;
    return true;
}

bool mica_plan_match_residual(const plan_work *w, graph_id id, graph_node *out) {
    const graph_node *root = &w->nodes[id];
    return root->op == OP_ADD && (join(w, root, 1, out) || join(w, root, 0, out));
}
