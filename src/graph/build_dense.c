/* build_dense.c: builders of the dense family: embedding, matmul, elementwise ops, norms and
 * activations.
 *
 * Each checks its shapes and infers the result: the dtype is the promotion of the operands'
 * (docs/numerics.md 1.3) unless the graph forces one; the result is always contiguous.
 */
#include "graph/build.h"

#include <inttypes.h>
#include <string.h>

graph_id mica_graph_embed(graph *g, graph_id ids, graph_id weight) {
    graph_node node;
    graph_id src[2] = {ids, weight};
    if (!mica_graph_begin(g, &node, OP_EMBED, 2, src, 0)) return GRAPH_NONE;
    if (!mica_graph_want_dims(g, &node, 0, "ids", 1)) return GRAPH_NONE;
    graph_dim rows = mica_graph_type_of(g, ids)->dim[0];
    if (!mica_graph_want_i32(g, &node, 0, "ids", 1, &rows)) return GRAPH_NONE;
    if (!mica_graph_want_matrix(g, &node, 1, "W")) return GRAPH_NONE;
    if (!mica_graph_want_dims(g, &node, 1, "W", 2)) return GRAPH_NONE;
    graph_dim dims[2] = {rows, mica_graph_type_of(g, weight)->dim[1]};
    graph_node table = node; /* ids take no part in promotion */
    table.src[0] = GRAPH_NONE;
    node.type = mica_graph_type(mica_graph_result_dtype(g, &table, 2), 2, dims);
    return mica_graph_append(g, &node);
}

graph_id mica_graph_gather_rows(graph *g, graph_id x, graph_id rows) {
    graph_node node;
    graph_id src[2] = {x, rows};
    if (!mica_graph_begin(g, &node, OP_GATHER_ROWS, 2, src, 0)) return GRAPH_NONE;
    if (!mica_graph_want_float(g, &node, 0, "x")) return GRAPH_NONE;
    if (!mica_graph_want_dims(g, &node, 0, "x", 2)) return GRAPH_NONE;
    if (!mica_graph_want_dims(g, &node, 1, "rows", 1)) return GRAPH_NONE;
    graph_dim n = mica_graph_type_of(g, rows)->dim[0];
    if (!mica_graph_want_i32(g, &node, 1, "rows", 1, &n)) return GRAPH_NONE;
    const graph_type *t = mica_graph_type_of(g, x);
    graph_dim dims[2] = {n, t->dim[1]};
    node.type = mica_graph_type(t->dtype, 2, dims);
    return mica_graph_append(g, &node);
}

/* x [R, n_in] in source 0 against W [n_out, n_in] in source `w`. */
static bool matmul_ok(graph *g, const graph_node *node, int w) {
    if (!mica_graph_want_float(g, node, 0, "x")) return false;
    if (!mica_graph_want_dims(g, node, 0, "x", 2)) return false;
    if (!mica_graph_want_matrix(g, node, w, "W")) return false;
    if (!mica_graph_want_dims(g, node, w, "W", 2)) return false;
    const graph_type *x = mica_graph_src_type(g, node, 0), *t = mica_graph_src_type(g, node, w);
    if (!mica_graph_is_fixed(t->dim[0])) {
        mica_graph_reject(g, node, "W has a symbolic number of rows; expected a fixed one");
        return false;
    }
    if (mica_graph_last(x) == mica_graph_last(t)) return true;
    mica_graph_reject(
        g, node, "x has %" PRId64 " columns, W [%" PRId64 ", %" PRId64 "] expects %" PRId64,
        mica_graph_last(x), mica_graph_fixed(t->dim[0]), mica_graph_last(t), mica_graph_last(t));
    return false;
}

graph_id mica_graph_matmul(graph *g, graph_id x, graph_id w) {
    graph_node node;
    graph_id src[2] = {x, w};
    if (!mica_graph_begin(g, &node, OP_MATMUL, 2, src, 0)) return GRAPH_NONE;
    if (!matmul_ok(g, &node, 1)) return GRAPH_NONE;
    graph_dim dims[2] = {mica_graph_type_of(g, x)->dim[0], mica_graph_type_of(g, w)->dim[0]};
    node.type = mica_graph_type(mica_graph_result_dtype(g, &node, 2), 2, dims);
    return mica_graph_append(g, &node);
}

graph_id mica_graph_matmul_t(graph *g, graph_id x, graph_id w) {
    graph_node node;
    graph_id src[2] = {x, w};
    if (!mica_graph_begin(g, &node, OP_MATMUL_T, 2, src, 0)) return GRAPH_NONE;
    if (!mica_graph_want_float(g, &node, 0, "x")) return GRAPH_NONE;
    if (!mica_graph_want_matrix(g, &node, 1, "W")) return GRAPH_NONE;
    if (!mica_graph_want_dims(g, &node, 1, "W", 2)) return GRAPH_NONE;
    graph_dim n_in = mica_graph_type_of(g, w)->dim[1];
    graph_dim wanted[2] = {mica_graph_type_of(g, x)->dim[0], mica_graph_type_of(g, w)->dim[0]};
    if (!mica_graph_want_shape(g, &node, 0, "x", 2, wanted)) return GRAPH_NONE;
    graph_dim dims[2] = {wanted[0], n_in};
    node.type = mica_graph_type(mica_graph_result_dtype(g, &node, 2), 2, dims);
    return mica_graph_append(g, &node);
}

graph_id mica_graph_glu_matmul(graph *g, graph_id x, graph_id w_gate, graph_id w_up, glu_act act) {
    graph_node node;
    graph_id src[3] = {x, w_gate, w_up};
    if (!mica_graph_begin(g, &node, OP_GLU_MATMUL, 3, src, 0)) return GRAPH_NONE;
    if (!matmul_ok(g, &node, 1) || !matmul_ok(g, &node, 2)) return GRAPH_NONE;
    const graph_type *gate = mica_graph_type_of(g, w_gate);
    if (!mica_graph_want_shape(g, &node, 2, "W_up", 2, gate->dim)) return GRAPH_NONE;
    graph_dim dims[2] = {mica_graph_type_of(g, x)->dim[0], gate->dim[0]};
    node.type = mica_graph_type(mica_graph_result_dtype(g, &node, 3), 2, dims);
    node.attr.glu.act = act;
    return mica_graph_append(g, &node);
}

/* ---- elementwise ---- */

static bool is_row(const graph *g, graph_id b, const graph_type *a) {
    const graph_type *t = mica_graph_type_of(g, b);
    return t->n_dims == 1 && a->n_dims > 1 && mica_graph_same_dim(t->dim[0], a->dim[a->n_dims - 1]);
}

/* Both ops are commutative, so the broadcast operand is always the second one. */
static graph_id binary(graph *g, graph_op op, graph_id a, graph_id b) {
    graph_node node;
    graph_id src[2] = {a, b};
    if (!mica_graph_begin(g, &node, op, 2, src, 0)) return GRAPH_NONE;
    if (!mica_graph_want_float(g, &node, 0, "a")) return GRAPH_NONE;
    if (!mica_graph_want_float(g, &node, 1, "b")) return GRAPH_NONE;
    if (is_row(g, a, mica_graph_type_of(g, b))) {
        node.src[0] = b;
        node.src[1] = a;
    }
    const graph_type *t = mica_graph_src_type(g, &node, 0);
    if (!is_row(g, node.src[1], t) && !mica_graph_want_shape(g, &node, 1, "b", t->n_dims, t->dim)) {
        return GRAPH_NONE;
    }
    node.type = mica_graph_type(mica_graph_result_dtype(g, &node, 2), t->n_dims, t->dim);
    return mica_graph_append(g, &node);
}

graph_id mica_graph_add(graph *g, graph_id a, graph_id b) { return binary(g, OP_ADD, a, b); }

graph_id mica_graph_mul(graph *g, graph_id a, graph_id b) { return binary(g, OP_MUL, a, b); }

static graph_id unary(graph *g, graph_op op, graph_id x, graph_attr attr) {
    graph_node node;
    if (!mica_graph_begin(g, &node, op, 1, &x, 0)) return GRAPH_NONE;
    if (!mica_graph_want_float(g, &node, 0, "x")) return GRAPH_NONE;
    const graph_type *t = mica_graph_type_of(g, x);
    node.type = mica_graph_type(mica_graph_result_dtype(g, &node, 1), t->n_dims, t->dim);
    node.attr = attr;
    return mica_graph_append(g, &node);
}

static const graph_attr no_attr;

graph_id mica_graph_scale(graph *g, graph_id x, float c) {
    return unary(g, OP_SCALE, x, (graph_attr){.scale = {c}});
}
graph_id mica_graph_softcap(graph *g, graph_id x, float c) {
    return unary(g, OP_SOFTCAP, x, (graph_attr){.scale = {c}});
}
graph_id mica_graph_silu(graph *g, graph_id x) { return unary(g, OP_SILU, x, no_attr); }
graph_id mica_graph_gelu(graph *g, graph_id x) { return unary(g, OP_GELU, x, no_attr); }
graph_id mica_graph_gelu_tanh(graph *g, graph_id x) { return unary(g, OP_GELU_TANH, x, no_attr); }
graph_id mica_graph_sigmoid(graph *g, graph_id x) { return unary(g, OP_SIGMOID, x, no_attr); }
graph_id mica_graph_softplus(graph *g, graph_id x) { return unary(g, OP_SOFTPLUS, x, no_attr); }
graph_id mica_graph_relu2(graph *g, graph_id x) { return unary(g, OP_RELU2, x, no_attr); }
graph_id mica_graph_clamp(graph *g, graph_id x, float c) {
    return unary(g, OP_CLAMP, x, (graph_attr){.scale = {c}});
}
graph_id mica_graph_gauss_top(graph *g, graph_id x, float c) {
    return unary(g, OP_GAUSS_TOP, x, (graph_attr){.scale = {c}});
}
graph_id mica_graph_xielu(graph *g, graph_id x, float alpha_p, float alpha_n, float beta,
                          float eps) {
    return unary(g, OP_XIELU, x, (graph_attr){.xielu = {alpha_p, alpha_n, beta, eps}});
}

graph_id mica_graph_position_scale(graph *g, graph_id x, graph_id positions, float beta,
                                   int32_t offset, int32_t length) {
    graph_node node;
    graph_id src[2] = {x, positions};
    if (!mica_graph_begin(g, &node, OP_POSITION_SCALE, 2, src, 0)) return GRAPH_NONE;
    if (!mica_graph_want_float(g, &node, 0, "x")) return GRAPH_NONE;
    const graph_type *t = mica_graph_type_of(g, x);
    if (!mica_graph_want_i32(g, &node, 1, "positions", 1, t->dim)) return GRAPH_NONE;
    if (length <= 0) return mica_graph_reject(g, &node, "length is %d; expected 1 or more", length);
    node.type = mica_graph_type(mica_graph_result_dtype(g, &node, 1), t->n_dims, t->dim);
    node.attr.position_scale.beta = beta;
    node.attr.position_scale.offset = offset;
    node.attr.position_scale.length = length;
    return mica_graph_append(g, &node);
}

/* ---- norms ---- */

static graph_id norm(graph *g, graph_op op, int n_src, const graph_id *src, float eps) {
    static const char *const names[3] = {"x", "weight", "bias"};
    graph_node node;
    if (!mica_graph_begin(g, &node, op, n_src, src, OPTIONAL_1 | OPTIONAL_2)) return GRAPH_NONE;
    if (!mica_graph_want_float(g, &node, 0, "x")) return GRAPH_NONE;
    const graph_type *t = mica_graph_type_of(g, src[0]);
    for (int i = 1; i < n_src; i++) {
        if (src[i] == GRAPH_NONE) continue;
        if (!mica_graph_want_float(g, &node, i, names[i])) return GRAPH_NONE;
        if (!mica_graph_want_shape(g, &node, i, names[i], 1, &t->dim[t->n_dims - 1])) {
            return GRAPH_NONE;
        }
    }
    if (!mica_graph_is_fixed(t->dim[t->n_dims - 1])) {
        return mica_graph_reject(g, &node, "x has a symbolic last dimension");
    }
    node.type = mica_graph_type(mica_graph_result_dtype(g, &node, n_src), t->n_dims, t->dim);
    node.attr.norm.eps = eps;
    return mica_graph_append(g, &node);
}

graph_id mica_graph_rms_norm(graph *g, graph_id x, graph_id weight, float eps) {
    graph_id src[2] = {x, weight};
    return norm(g, OP_RMS_NORM, 2, src, eps);
}

graph_id mica_graph_match_rms(graph *g, graph_id x, graph_id y, float least) {
    graph_node node;
    graph_id src[2] = {x, y};
    if (!mica_graph_begin(g, &node, OP_MATCH_RMS, 2, src, 0)) return GRAPH_NONE;
    if (!mica_graph_want_float(g, &node, 0, "x")) return GRAPH_NONE;
    if (!mica_graph_want_float(g, &node, 1, "y")) return GRAPH_NONE;
    const graph_type *t = mica_graph_type_of(g, x);
    if (!mica_graph_want_shape(g, &node, 1, "y", t->n_dims, t->dim)) return GRAPH_NONE;
    node.type = mica_graph_type(mica_graph_result_dtype(g, &node, 2), t->n_dims, t->dim);
    node.attr.norm.eps = least;
    return mica_graph_append(g, &node);
}

graph_id mica_graph_layer_norm(graph *g, graph_id x, graph_id weight, graph_id bias, float eps) {
    graph_id src[3] = {x, weight, bias};
    return norm(g, OP_LAYER_NORM, 3, src, eps);
}
