/* build_attention.c: builders of what knows positions: rotary embedding, cache writes, attention.
 *
 * Attention over the cache names its layer through the cache or through the effect of the write
 * that must come first; the layout of a block is copied into the attributes, so that a kernel finds
 * it in its call.
 */
#include "graph/build.h"

#include <inttypes.h>

graph_id mica_graph_rope_angles(graph *g, graph_id positions, graph_id periods,
                                float position_scale) {
    graph_node node;
    graph_id src[2] = {positions, periods};
    if (!mica_graph_begin(g, &node, OP_ROPE_ANGLES, 2, src, 0)) return GRAPH_NONE;
    if (!mica_graph_want_dims(g, &node, 0, "positions", 1)) return GRAPH_NONE;
    graph_dim rows = mica_graph_type_of(g, positions)->dim[0];
    if (!mica_graph_want_i32(g, &node, 0, "positions", 1, &rows)) return GRAPH_NONE;
    const graph_type *p = mica_graph_type_of(g, periods);
    if (p->dtype != MICA_F32) {
        return mica_graph_reject(g, &node, "periods are %s; expected f32",
                                 mica_dtype_name(p->dtype));
    }
    graph_dim half = p->dim[p->n_dims - 1];
    graph_dim table[2] = {rows, half};
    if (p->n_dims != 1 && !mica_graph_want_shape(g, &node, 1, "periods", 2, table)) {
        return GRAPH_NONE;
    }
    graph_dim dims[2] = {rows, mica_dim(2 * mica_graph_fixed(half))};
    node.type = mica_graph_type(MICA_F32, 2, dims);
    node.attr.angles.position_scale = position_scale;
    return mica_graph_append(g, &node);
}

/* x [R, heads, d] in source 0, angles [R, dims] in source 1. */
static bool rope_ok(graph *g, const graph_node *node, int32_t dims) {
    if (!mica_graph_want_float(g, node, 0, "x")) return false;
    if (!mica_graph_want_dims(g, node, 0, "x", 3)) return false;
    const graph_type *x = mica_graph_src_type(g, node, 0);
    if (dims <= 0 || dims % 2 || dims > mica_graph_last(x)) {
        mica_graph_reject(g, node,
                          "%" PRId32 " rotated channels; expected an even number of at "
                          "most %" PRId64,
                          dims, mica_graph_last(x));
        return false;
    }
    graph_dim angles[2] = {x->dim[0], mica_dim(dims)};
    if (!mica_graph_want_float(g, node, 1, "angles")) return false;
    return mica_graph_want_shape(g, node, 1, "angles", 2, angles);
}

graph_id mica_graph_rope(graph *g, graph_id x, graph_id angles, int32_t dims, bool traditional,
                         float input_scale) {
    graph_node node;
    graph_id src[2] = {x, angles};
    if (!mica_graph_begin(g, &node, OP_ROPE, 2, src, 0)) return GRAPH_NONE;
    if (!rope_ok(g, &node, dims)) return GRAPH_NONE;
    const graph_type *t = mica_graph_type_of(g, x);
    node.type = mica_graph_type(mica_graph_result_dtype(g, &node, 1), 3, t->dim);
    node.attr.rope.dims = dims;
    node.attr.rope.traditional = traditional;
    node.attr.rope.input_scale = input_scale;
    return mica_graph_append(g, &node);
}

/* Finds the cache behind `id`: an OP_CACHE, or an OP_KV_WRITE's. NULL: neither. */
static const graph_attr *cache_of(const graph *g, graph_id id) {
    const graph_node *n = &g->nodes[id];
    if (n->op == OP_KV_WRITE) n = &g->nodes[n->src[0]];
    return n->op == OP_CACHE || n->op == OP_KV_WRITE ? &g->nodes[id].attr : NULL;
}

graph_id mica_graph_kv_write(graph *g, graph_id cache, graph_id k, graph_id v, graph_id slots) {
    graph_node node;
    graph_id src[4] = {cache, k, v, slots};
    if (!mica_graph_begin(g, &node, OP_KV_WRITE, 4, src, 0)) return GRAPH_NONE;
    const graph_attr *c = cache_of(g, cache);
    if (!c) return mica_graph_reject(g, &node, "the first operand must be a cache");
    node.attr = *c;
    const kv_layout *layout = &node.attr.cache.layout;
    if (!mica_graph_want_float(g, &node, 1, "k")) return GRAPH_NONE;
    if (!mica_graph_want_float(g, &node, 2, "v")) return GRAPH_NONE;
    graph_dim rows = mica_graph_type_of(g, k)->dim[0];
    graph_dim k_dims[3] = {rows, mica_dim(layout->n_kv_heads), mica_dim(layout->head_dim)};
    graph_dim v_dims[3] = {rows, mica_dim(layout->n_kv_heads), mica_dim(layout->v_head_dim)};
    if (!mica_graph_want_shape(g, &node, 1, "k", 3, k_dims)) return GRAPH_NONE;
    if (!mica_graph_want_shape(g, &node, 2, "v", 3, v_dims)) return GRAPH_NONE;
    if (!mica_graph_want_i32(g, &node, 3, "slots", 1, &rows)) return GRAPH_NONE;
    return mica_graph_append(g, &node);
}

static bool attention_inputs_ok(graph *g, const graph_node *node, graph_dim rows) {
    static const char *const names[4] = {"positions", "row_seq", "span_lo", "span_hi"};
    if (!mica_graph_want_dims(g, node, 2, "block_table", 2)) return false;
    graph_dim table[2];
    for (int d = 0; d < 2; d++)
        table[d] = mica_graph_src_type(g, node, 2)->dim[d];
    if (!mica_graph_want_i32(g, node, 2, "block_table", 2, table)) return false;
    for (int i = 0; i < 4; i++) {
        if (!mica_graph_want_i32(g, node, 3 + i, names[i], 1, &rows)) return false;
    }
    return true;
}

/* q [R, heads, d] in source 0, with heads a multiple of n_kv_heads. */
static bool query_ok(graph *g, const graph_node *node, int64_t n_kv_heads, int64_t head_dim) {
    if (!mica_graph_want_float(g, node, 0, "q")) return false;
    if (!mica_graph_want_dims(g, node, 0, "q", 3)) return false;
    const graph_type *q = mica_graph_src_type(g, node, 0);
    int64_t heads = mica_graph_fixed(q->dim[1]);
    if (heads % n_kv_heads == 0 && mica_graph_last(q) == head_dim) return true;
    mica_graph_reject(g, node,
                      "q has %" PRId64 " heads of %" PRId64 "; expected a multiple of %" PRId64
                      " heads of %" PRId64,
                      heads, mica_graph_last(q), n_kv_heads, head_dim);
    return false;
}

graph_id mica_graph_attention(graph *g, graph_id q, graph_id cache, const attention_inputs *in,
                              graph_id sinks, float scale, int32_t window, float softcap) {
    graph_node node;
    graph_id src[8] = {q,           cache,       in->block_table, in->positions,
                       in->row_seq, in->span_lo, in->span_hi,     sinks};
    if (!mica_graph_begin(g, &node, OP_ATTENTION, 8, src, OPTIONAL_7)) return GRAPH_NONE;
    const graph_attr *c = cache_of(g, cache);
    if (!c) return mica_graph_reject(g, &node, "the second operand must be a cache or its write");
    kv_layout layout = c->cache.layout;
    int32_t layer = c->cache.layer;
    if (!query_ok(g, &node, layout.n_kv_heads, layout.head_dim)) return GRAPH_NONE;
    const graph_type *t = mica_graph_type_of(g, q);
    if (!attention_inputs_ok(g, &node, t->dim[0])) return GRAPH_NONE;
    if (sinks != GRAPH_NONE && (!mica_graph_want_float(g, &node, 7, "sinks") ||
                                !mica_graph_want_shape(g, &node, 7, "sinks", 1, &t->dim[1]))) {
        return GRAPH_NONE;
    }
    if (softcap < 0) {
        return mica_graph_reject(g, &node, "softcap %g; expected 0 (none) or more",
                                 (double)softcap);
    }
    graph_dim dims[2] = {t->dim[0], mica_dim(mica_graph_fixed(t->dim[1]) * layout.v_head_dim)};
    node.type = mica_graph_type(mica_graph_result_dtype(g, &node, 1), 2, dims);
    node.attr.attention.scale = scale;
    node.attr.attention.softcap = softcap;
    node.attr.attention.window = window;
    node.attr.attention.layout = layout;
    node.attr.attention.layer = layer;
    return mica_graph_append(g, &node);
}

graph_id mica_graph_attention_rows(graph *g, graph_id q, graph_id k, graph_id v, graph_id positions,
                                   graph_id row_seq, float scale) {
    graph_node node;
    graph_id src[5] = {q, k, v, positions, row_seq};
    if (!mica_graph_begin(g, &node, OP_ATTENTION_ROWS, 5, src, 0)) return GRAPH_NONE;
    if (!mica_graph_want_float(g, &node, 1, "k") || !mica_graph_want_float(g, &node, 2, "v")) {
        return GRAPH_NONE;
    }
    if (!mica_graph_want_dims(g, &node, 1, "k", 3)) return GRAPH_NONE;
    if (!mica_graph_want_dims(g, &node, 2, "v", 3)) return GRAPH_NONE;
    const graph_type *kt = mica_graph_type_of(g, k), *vt = mica_graph_type_of(g, v);
    if (!query_ok(g, &node, mica_graph_fixed(kt->dim[1]), mica_graph_last(kt))) return GRAPH_NONE;
    const graph_type *t = mica_graph_type_of(g, q);
    graph_dim k_dims[3] = {t->dim[0], kt->dim[1], kt->dim[2]};
    graph_dim v_dims[3] = {t->dim[0], kt->dim[1], vt->dim[2]};
    if (!mica_graph_want_shape(g, &node, 1, "k", 3, k_dims)) return GRAPH_NONE;
    if (!mica_graph_want_shape(g, &node, 2, "v", 3, v_dims)) return GRAPH_NONE;
    if (!mica_graph_want_i32(g, &node, 3, "positions", 1, &t->dim[0])) return GRAPH_NONE;
    if (!mica_graph_want_i32(g, &node, 4, "row_seq", 1, &t->dim[0])) return GRAPH_NONE;
    graph_dim dims[2] = {t->dim[0], mica_dim(mica_graph_fixed(t->dim[1]) * mica_graph_last(vt))};
    node.type = mica_graph_type(mica_graph_result_dtype(g, &node, 3), 2, dims);
    node.attr.attention.scale = scale;
    return mica_graph_append(g, &node);
}
