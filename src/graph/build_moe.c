/* build_moe.c: builders of mixture-of-experts layers.
 *
 * The router's choice is data: indices and offsets lie in the arena like any tensor, sized for the
 * worst case of rows x experts used. "By pair" means row r*k + j for the j-th expert of row r.
 */
#include "graph/build.h"

#include <inttypes.h>

#include "graph/expert_groups.h"

graph_id mica_graph_softmax(graph *g, graph_id x) {
    graph_node node;
    if (!mica_graph_begin(g, &node, OP_SOFTMAX, 1, &x, 0)) return GRAPH_NONE;
    if (!mica_graph_want_float(g, &node, 0, "x")) return GRAPH_NONE;
    if (!mica_graph_want_dims(g, &node, 0, "x", 2)) return GRAPH_NONE;
    const graph_type *t = mica_graph_type_of(g, x);
    node.type = mica_graph_type(mica_graph_result_dtype(g, &node, 1), 2, t->dim);
    return mica_graph_append(g, &node);
}

static bool groups_ok(graph *g, const graph_node *node, int32_t k, const top_k_groups *groups,
                      int64_t n) {
    int64_t n_groups = groups->n_groups, size = n_groups > 0 ? n / n_groups : 0;
    bool good = n_groups > 0 && n % n_groups == 0 && groups->n_used > 0 &&
                groups->n_used <= n_groups && groups->n_best > 0 && groups->n_best <= size &&
                groups->n_best <= TOP_K_MAX_BEST && k <= groups->n_used * size;
    if (good) return true;
    mica_graph_reject(g, node,
                      "%" PRId32 " of %" PRId64 " scores in the best %" PRId32 " of %" PRId32
                      " groups by their best %" PRId32,
                      k, n, groups->n_used, groups->n_groups, groups->n_best);
    return false;
}

graph_id mica_graph_top_k(graph *g, graph_id scores, int32_t k, const top_k_groups *groups) {
    graph_node node;
    if (!mica_graph_begin(g, &node, OP_TOP_K, 1, &scores, 0)) return GRAPH_NONE;
    if (!mica_graph_want_float(g, &node, 0, "scores")) return GRAPH_NONE;
    if (!mica_graph_want_dims(g, &node, 0, "scores", 2)) return GRAPH_NONE;
    const graph_type *t = mica_graph_type_of(g, scores);
    if (k <= 0 || k > mica_graph_last(t)) {
        return mica_graph_reject(g, &node, "k is %" PRId32 "; expected 1 to %" PRId64, k,
                                 mica_graph_last(t));
    }
    if (groups && groups->n_groups && !groups_ok(g, &node, k, groups, mica_graph_last(t)))
        return GRAPH_NONE;
    graph_dim dims[2] = {t->dim[0], mica_dim(k)};
    node.type = mica_graph_type(MICA_I32, 2, dims);
    node.attr.top_k.k = k;
    if (groups) node.attr.top_k.groups = *groups;
    return mica_graph_append(g, &node);
}

graph_id mica_graph_top_k_weights(graph *g, graph_id scores, graph_id idx,
                                  const top_k_weighting *weighting) {
    graph_node node;
    graph_id src[2] = {scores, idx};
    if (!mica_graph_begin(g, &node, OP_TOP_K_WEIGHTS, 2, src, 0)) return GRAPH_NONE;
    if (!mica_graph_want_float(g, &node, 0, "scores")) return GRAPH_NONE;
    if (!mica_graph_want_dims(g, &node, 0, "scores", 2)) return GRAPH_NONE;
    if (!mica_graph_want_dims(g, &node, 1, "idx", 2)) return GRAPH_NONE;
    graph_dim dims[2] = {mica_graph_type_of(g, scores)->dim[0], mica_graph_type_of(g, idx)->dim[1]};
    if (!mica_graph_want_i32(g, &node, 1, "idx", 2, dims)) return GRAPH_NONE;
    node.type = mica_graph_type(mica_graph_result_dtype(g, &node, 1), 2, dims);
    if (weighting->rule == TOP_K_SPARSEMIXER && mica_graph_fixed(dims[1]) != 2)
        return mica_graph_reject(g, &node, "sparsemixer weights are those of 2 experts");
    node.attr.top_k_weights = *weighting;
    return mica_graph_append(g, &node);
}

/* Size of dimension `d` times k. */
static graph_dim times(graph_dim d, int64_t k) { return (graph_dim){d.n * k, d.sym, d.add * k}; }

static graph_id finish_groups(graph *g, graph_node *node, graph_dim rows, int64_t k,
                              int32_t n_experts) {
    if (n_experts <= 0) {
        return mica_graph_reject(g, node, "%" PRId32 " experts; expected at least 1", n_experts);
    }
    graph_dim n = times(rows, 2 * k);
    n.add += expert_groups_size(n_experts, 0);
    node->type = mica_graph_type(MICA_I32, 1, &n);
    node->attr.experts.n_experts = n_experts;
    node->attr.experts.k = (int32_t)k;
    return mica_graph_append(g, node);
}

graph_id mica_graph_expert_groups(graph *g, graph_id idx, int32_t n_experts) {
    graph_node node;
    if (!mica_graph_begin(g, &node, OP_EXPERT_GROUPS, 1, &idx, 0)) return GRAPH_NONE;
    if (!mica_graph_want_dims(g, &node, 0, "idx", 2)) return GRAPH_NONE;
    graph_dim dims[2] = {mica_graph_type_of(g, idx)->dim[0], mica_graph_type_of(g, idx)->dim[1]};
    if (!mica_graph_want_i32(g, &node, 0, "idx", 2, dims)) return GRAPH_NONE;
    return finish_groups(g, &node, dims[0], mica_graph_fixed(dims[1]), n_experts);
}

graph_id mica_graph_head_groups(graph *g, graph_id rows, int32_t n_heads) {
    graph_node node;
    if (!mica_graph_begin(g, &node, OP_EXPERT_GROUPS, 1, &rows, 0)) return GRAPH_NONE;
    if (!mica_graph_want_dims(g, &node, 0, "rows", 1)) return GRAPH_NONE;
    graph_dim dim = mica_graph_type_of(g, rows)->dim[0];
    if (!mica_graph_want_i32(g, &node, 0, "rows", 1, &dim)) return GRAPH_NONE;
    return finish_groups(g, &node, dim, n_heads, n_heads);
}

graph_id mica_graph_expert_matmul(graph *g, graph_id x, graph_id w, graph_id groups, int32_t k) {
    graph_node node;
    graph_id src[3] = {x, w, groups};
    if (!mica_graph_begin(g, &node, OP_EXPERT_MATMUL, 3, src, 0)) return GRAPH_NONE;
    if (!mica_graph_want_float(g, &node, 0, "x")) return GRAPH_NONE;
    if (!mica_graph_want_dims(g, &node, 0, "x", 2)) return GRAPH_NONE;
    if (!mica_graph_want_matrix(g, &node, 1, "W")) return GRAPH_NONE;
    if (!mica_graph_want_dims(g, &node, 1, "W", 3)) return GRAPH_NONE;
    const graph_type *xt = mica_graph_type_of(g, x), *wt = mica_graph_type_of(g, w);
    if (mica_graph_last(xt) != mica_graph_last(wt)) {
        return mica_graph_reject(g, &node, "x has %" PRId64 " columns, W expects %" PRId64,
                                 mica_graph_last(xt), mica_graph_last(wt));
    }
    int64_t n_experts = mica_graph_fixed(wt->dim[0]);
    const graph_type *gt = mica_graph_type_of(g, groups);
    /* One row of x serves all k experts of its token, or each pair brings its own. */
    graph_dim pairs = xt->dim[0], per_row = times(xt->dim[0], k);
    graph_dim n = times(per_row, 2), own = times(pairs, 2);
    n.add += expert_groups_size(n_experts, 0);
    own.add += expert_groups_size(n_experts, 0);
    bool shared = gt->n_dims == 1 && mica_graph_same_dim(gt->dim[0], n);
    if (shared) pairs = per_row;
    if (!shared) n = own;
    if (!mica_graph_want_i32(g, &node, 2, "groups", 1, &n)) return GRAPH_NONE;
    graph_dim dims[2] = {pairs, wt->dim[1]};
    node.type = mica_graph_type(mica_graph_result_dtype(g, &node, 2), 2, dims);
    node.attr.experts.n_experts = (int32_t)n_experts;
    node.attr.experts.k = k;
    return mica_graph_append(g, &node);
}

graph_id mica_graph_clamped_glu(graph *g, graph_id gate, graph_id up, float alpha, float limit) {
    graph_node node;
    graph_id src[2] = {gate, up};
    if (!mica_graph_begin(g, &node, OP_CLAMPED_GLU, 2, src, 0)) return GRAPH_NONE;
    if (!mica_graph_want_float(g, &node, 0, "gate")) return GRAPH_NONE;
    if (!mica_graph_want_float(g, &node, 1, "up")) return GRAPH_NONE;
    const graph_type *t = mica_graph_type_of(g, gate);
    if (!mica_graph_want_shape(g, &node, 1, "up", t->n_dims, t->dim)) return GRAPH_NONE;
    node.type = mica_graph_type(mica_graph_result_dtype(g, &node, 2), t->n_dims, t->dim);
    node.attr.clamped_glu.alpha = alpha;
    node.attr.clamped_glu.limit = limit;
    return mica_graph_append(g, &node);
}

graph_id mica_graph_expert_bias(graph *g, graph_id y, graph_id b, graph_id idx) {
    if (y == GRAPH_NONE || b == GRAPH_NONE || idx == GRAPH_NONE) return GRAPH_NONE;
    const graph_type *t = mica_graph_type_of(g, idx);
    graph_dim pairs = times(t->dim[0], t->n_dims == 2 ? mica_graph_fixed(t->dim[1]) : 1);
    graph_id flat = mica_graph_reshape(g, idx, 1, &pairs);
    graph_id rows = mica_graph_name(g, mica_graph_gather_rows(g, b, flat), "experts.bias");
    return mica_graph_add(g, y, rows);
}

graph_id mica_graph_expert_combine(graph *g, graph_id y, graph_id weights) {
    graph_node node;
    graph_id src[2] = {y, weights};
    if (!mica_graph_begin(g, &node, OP_EXPERT_COMBINE, 2, src, 0)) return GRAPH_NONE;
    if (!mica_graph_want_float(g, &node, 0, "y")) return GRAPH_NONE;
    if (!mica_graph_want_float(g, &node, 1, "weights")) return GRAPH_NONE;
    if (!mica_graph_want_dims(g, &node, 0, "y", 2)) return GRAPH_NONE;
    if (!mica_graph_want_dims(g, &node, 1, "weights", 2)) return GRAPH_NONE;
    const graph_type *t = mica_graph_type_of(g, y), *wt = mica_graph_type_of(g, weights);
    int64_t k = mica_graph_last(wt);
    graph_dim y_dims[2] = {times(wt->dim[0], k), t->dim[1]};
    if (!mica_graph_want_shape(g, &node, 0, "y", 2, y_dims)) return GRAPH_NONE;
    graph_dim dims[2] = {wt->dim[0], t->dim[1]};
    node.type = mica_graph_type(mica_graph_result_dtype(g, &node, 2), 2, dims);
    node.attr.experts.k = (int32_t)k;
    return mica_graph_append(g, &node);
}
