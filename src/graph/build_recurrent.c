/* build_recurrent.c: builders of layers with a recurrent state.
 *
 * The state is no tensor of the graph: its addresses, before and after, are inputs, so that a step
 * can write the new state beside the old one and commit by swapping them.
 */
#include "graph/build.h"

#include <inttypes.h>

int64_t mica_graph_delta_state(int64_t n_k_heads, int64_t n_v_heads, int64_t k_dim, int64_t v_dim,
                               int32_t chunk) {
    int64_t pending = n_k_heads * k_dim + n_v_heads * v_dim + n_v_heads;
    return n_v_heads * v_dim * k_dim + chunk * pending;
}

/* u64 addresses, one a sequence; source `first` says how many. */
static bool states_ok(graph *g, const graph_node *node, int i, int first, const char *what,
                      graph_dim *seqs) {
    const graph_type *t = mica_graph_src_type(g, node, i);
    if (t->dtype != MICA_U64) {
        mica_graph_reject(g, node, "%s is %s; expected u64 addresses", what,
                          mica_dtype_name(t->dtype));
        return false;
    }
    if (!mica_graph_want_dims(g, node, i, what, 1)) return false;
    if (i == first) *seqs = t->dim[0];
    return mica_graph_want_shape(g, node, i, what, 1, seqs);
}

graph_id mica_graph_gated_delta(graph *g, graph_id q, graph_id k, graph_id v, graph_id decay,
                                graph_id beta, const state_inputs *in, int32_t chunk) {
    static const char *const names[5] = {"q", "k", "v", "decay", "beta"};
    graph_node node;
    graph_id src[9] = {
        q, k, v, decay, beta, in->state_in, in->state_out, in->seq_rows, in->positions};
    if (!mica_graph_begin(g, &node, OP_GATED_DELTA, 9, src, 0)) return GRAPH_NONE;
    for (int i = 0; i < 5; i++) {
        if (!mica_graph_want_float(g, &node, i, names[i])) return GRAPH_NONE;
        if (!mica_graph_want_dims(g, &node, i, names[i], i < 3 ? 3 : 2)) return GRAPH_NONE;
    }
    const graph_type *qt = mica_graph_type_of(g, q), *vt = mica_graph_type_of(g, v);
    int64_t k_heads = mica_graph_fixed(qt->dim[1]), v_heads = mica_graph_fixed(vt->dim[1]);
    if (!mica_graph_want_shape(g, &node, 1, "k", 3, qt->dim)) return GRAPH_NONE;
    graph_dim v_dims[3] = {qt->dim[0], vt->dim[1], vt->dim[2]};
    if (!mica_graph_want_shape(g, &node, 2, "v", 3, v_dims)) return GRAPH_NONE;
    if (!mica_graph_want_shape(g, &node, 3, "decay", 2, v_dims)) return GRAPH_NONE;
    if (!mica_graph_want_shape(g, &node, 4, "beta", 2, v_dims)) return GRAPH_NONE;
    if (v_heads % k_heads || chunk < 0) {
        return mica_graph_reject(g, &node,
                                 "%" PRId64 " value heads over %" PRId64
                                 " key heads, chunk %" PRId32 "; expected a multiple, chunk >= 0",
                                 v_heads, k_heads, chunk);
    }
    graph_dim seqs = {0};
    if (!states_ok(g, &node, 5, 5, "state_in", &seqs)) return GRAPH_NONE;
    if (!states_ok(g, &node, 6, 5, "state_out", &seqs)) return GRAPH_NONE;
    seqs.add += 1;
    if (!mica_graph_want_i32(g, &node, 7, "seq_rows", 1, &seqs)) return GRAPH_NONE;
    if (!mica_graph_want_i32(g, &node, 8, "positions", 1, &qt->dim[0])) return GRAPH_NONE;
    graph_dim dims[2] = {qt->dim[0], mica_dim(v_heads * mica_graph_last(vt))};
    graph_node value = node; /* y has v's dtype; the others are read into f32 */
    for (int i = 0; i < 5; i++)
        value.src[i] = i == 2 ? v : GRAPH_NONE;
    node.type = mica_graph_type(mica_graph_result_dtype(g, &value, 3), 2, dims);
    node.attr.delta.chunk = chunk;
    node.attr.delta.offset = in->offset;
    return mica_graph_append(g, &node);
}

graph_id mica_graph_delta_decay(graph *g, graph_id a, graph_id dt_bias, graph_id a_log) {
    graph_node node;
    graph_id src[3] = {a, dt_bias, a_log};
    if (!mica_graph_begin(g, &node, OP_DELTA_DECAY, 3, src, 0)) return GRAPH_NONE;
    static const char *const names[3] = {"a", "dt_bias", "a_log"};
    for (int i = 0; i < 3; i++) {
        if (!mica_graph_want_float(g, &node, i, names[i])) return GRAPH_NONE;
        if (!mica_graph_want_dims(g, &node, i, names[i], i ? 1 : 2)) return GRAPH_NONE;
    }
    const graph_type *t = mica_graph_type_of(g, a);
    for (int i = 1; i < 3; i++)
        if (!mica_graph_want_shape(g, &node, i, names[i], 1, &t->dim[1])) return GRAPH_NONE;
    node.type = mica_graph_type(MICA_F32, 2, t->dim);
    return mica_graph_append(g, &node);
}

graph_id mica_graph_causal_conv(graph *g, graph_id x, graph_id weight, graph_id bias,
                                const state_inputs *in) {
    graph_node node;
    graph_id src[6] = {x, weight, bias, in->state_in, in->state_out, in->seq_rows};
    if (!mica_graph_begin(g, &node, OP_CAUSAL_CONV, 6, src, OPTIONAL_2)) return GRAPH_NONE;
    static const char *const names[3] = {"x", "weight", "bias"};
    const graph_type *t = mica_graph_type_of(g, x), *w = mica_graph_type_of(g, weight);
    for (int i = 0; i < 3; i++) {
        if (src[i] == GRAPH_NONE) continue;
        if (!mica_graph_want_float(g, &node, i, names[i])) return GRAPH_NONE;
        if (!mica_graph_want_dims(g, &node, i, names[i], i < 2 ? 2 : 1)) return GRAPH_NONE;
    }
    graph_dim w_dims[2] = {t->dim[1], w->dim[1]};
    if (!mica_graph_want_shape(g, &node, 1, "weight", 2, w_dims)) return GRAPH_NONE;
    if (bias != GRAPH_NONE && !mica_graph_want_shape(g, &node, 2, "bias", 1, w_dims))
        return GRAPH_NONE;
    graph_dim seqs = {0};
    if (!states_ok(g, &node, 3, 3, "state_in", &seqs)) return GRAPH_NONE;
    if (!states_ok(g, &node, 4, 3, "state_out", &seqs)) return GRAPH_NONE;
    seqs.add += 1;
    if (!mica_graph_want_i32(g, &node, 5, "seq_rows", 1, &seqs)) return GRAPH_NONE;
    graph_node value = node; /* addresses take no part in promotion */
    node.type = mica_graph_type(mica_graph_result_dtype(g, &value, 2), 2, t->dim);
    node.attr.conv.offset = in->offset;
    return mica_graph_append(g, &node);
}

/* Of a selective scan: the six values before the state; the state's own checks are states_ok's. */
static bool scan_values_ok(graph *g, const graph_node *node) {
    static const char *const names[6] = {"x", "dt", "a_log", "B", "C", "D"};
    static const int n_dims[6] = {3, 2, 2, 3, 3, 1};
    for (int i = 0; i < 6; i++) {
        if (!mica_graph_want_float(g, node, i, names[i])) return false;
        if (!mica_graph_want_dims(g, node, i, names[i], n_dims[i])) return false;
    }
    const graph_dim *x = mica_graph_src_type(g, node, 0)->dim;
    const graph_dim *b = mica_graph_src_type(g, node, 3)->dim;
    int64_t n_state = mica_graph_fixed(b[2]), n_groups = mica_graph_fixed(b[1]);
    int64_t n_heads = mica_graph_fixed(x[1]);
    bool is_one = mica_graph_src_type(g, node, 2)->dim[1].n == 1;
    graph_dim rates[2] = {x[1], mica_dim(is_one ? 1 : n_state)};
    graph_dim groups[3] = {x[0], b[1], b[2]};
    if (!mica_graph_want_shape(g, node, 1, "dt", 2, x)) return false;
    if (!mica_graph_want_shape(g, node, 2, "a_log", 2, rates)) return false;
    if (!mica_graph_want_shape(g, node, 3, "B", 3, groups)) return false;
    if (!mica_graph_want_shape(g, node, 4, "C", 3, groups)) return false;
    if (!mica_graph_want_shape(g, node, 5, "D", 1, &x[1])) return false;
    if (n_heads % n_groups == 0) return true;
    mica_graph_reject(g, node, "%" PRId64 " heads over %" PRId64 " groups; expected a multiple",
                      n_heads, n_groups);
    return false;
}

graph_id mica_graph_selective_scan(graph *g, graph_id x, graph_id dt, graph_id a_log, graph_id b,
                                   graph_id c, graph_id d, const state_inputs *in) {
    graph_node node;
    graph_id src[9] = {x, dt, a_log, b, c, d, in->state_in, in->state_out, in->seq_rows};
    if (!mica_graph_begin(g, &node, OP_SELECTIVE_SCAN, 9, src, 0)) return GRAPH_NONE;
    if (!scan_values_ok(g, &node)) return GRAPH_NONE;
    const graph_type *t = mica_graph_type_of(g, x);
    graph_dim seqs = {0};
    if (!states_ok(g, &node, 6, 6, "state_in", &seqs)) return GRAPH_NONE;
    if (!states_ok(g, &node, 7, 6, "state_out", &seqs)) return GRAPH_NONE;
    seqs.add += 1;
    if (!mica_graph_want_i32(g, &node, 8, "seq_rows", 1, &seqs)) return GRAPH_NONE;
    graph_dim dims[2] = {t->dim[0], mica_dim(mica_graph_fixed(t->dim[1]) * mica_graph_last(t))};
    graph_node value = node; /* y has x's dtype; the others are read into f32 */
    node.type = mica_graph_type(mica_graph_result_dtype(g, &value, 1), 2, dims);
    node.attr.conv.offset = in->offset;
    return mica_graph_append(g, &node);
}

graph_id mica_graph_scan_step(graph *g, graph_id dt, graph_id bias, float least, float most) {
    graph_node node;
    graph_id src[2] = {dt, bias};
    if (!mica_graph_begin(g, &node, OP_SCAN_STEP, 2, src, OPTIONAL_1)) return GRAPH_NONE;
    if (!mica_graph_want_float(g, &node, 0, "dt")) return GRAPH_NONE;
    if (!mica_graph_want_dims(g, &node, 0, "dt", 2)) return GRAPH_NONE;
    const graph_type *t = mica_graph_type_of(g, dt);
    if (bias != GRAPH_NONE) {
        if (!mica_graph_want_float(g, &node, 1, "bias")) return GRAPH_NONE;
        if (!mica_graph_want_shape(g, &node, 1, "bias", 1, &t->dim[1])) return GRAPH_NONE;
    }
    if (!(least <= most))
        return mica_graph_reject(g, &node, "no step between %g and %g", (double)least,
                                 (double)most);
    node.type = mica_graph_type(MICA_F32, 2, t->dim);
    node.attr.scan_step.least = least;
    node.attr.scan_step.most = most;
    return mica_graph_append(g, &node);
}
