/* build_leaves.c: builders of nodes that hold or reshape memory: inputs, constants, weights,
 * caches, views, copies and casts.
 *
 * A view says how its source's memory is read: its offset counts from the source's first element,
 * and the source may be a view again. Weights and caches have no views.
 */
#include "graph/build.h"

#include <inttypes.h>
#include <string.h>

static graph_id leaf(graph *g, graph_op op, const char *name, const graph_type *type,
                     const graph_attr *attr) {
    graph_node node;
    if (!mica_graph_begin(g, &node, op, 0, NULL, 0)) return GRAPH_NONE;
    node.type = *type;
    node.attr = *attr;
    if (name) {
        node.name = mica_arena_strndup(&g->arena, name, strlen(name));
        if (!node.name) return mica_graph_fail_memory(g);
    }
    return mica_graph_append(g, &node);
}

/* Dimension 0 may be symbolic and anything >= 0; the others are fixed and positive. */
static bool dims_ok(graph *g, graph_op op, const char *name, int n_dims, const graph_dim *dims) {
    if (g->status) return false;
    graph_node node;
    mica_graph_begin(g, &node, op, 0, NULL, 0);
    if (n_dims < 1 || n_dims > GRAPH_MAX_DIMS) {
        mica_graph_reject(g, &node, "%s has %d dimensions; expected 1 to %d", name, n_dims,
                          GRAPH_MAX_DIMS);
        return false;
    }
    for (int i = 0; i < n_dims; i++) {
        bool ok = dims[i].n >= 0 && dims[i].add >= 0 && (unsigned)dims[i].sym < GRAPH_N_SYMS;
        if (i > 0) ok = ok && mica_graph_is_fixed(dims[i]) && mica_graph_fixed(dims[i]) > 0;
        if (ok) continue;
        mica_graph_reject(g, &node,
                          "dimension %d of %s is %" PRId64 "*symbol %d + %" PRId64
                          "; only dimension 0 may be symbolic, the others must be positive",
                          i, name, dims[i].n, (int)dims[i].sym, dims[i].add);
        return false;
    }
    return true;
}

graph_id mica_graph_input(graph *g, const char *name, mica_dtype dtype, int n_dims,
                          const graph_dim *dims) {
    if (!dims_ok(g, OP_INPUT, name, n_dims, dims)) return GRAPH_NONE;
    graph_type type = mica_graph_type(dtype, n_dims, dims);
    graph_attr attr = {.input = {g->n_inputs, NULL}};
    graph_id id = leaf(g, OP_INPUT, name, &type, &attr);
    if (id == GRAPH_NONE) return id;
    g->nodes[id].attr.input.name = g->nodes[id].name;
    g->n_inputs++;
    return id;
}

graph_id mica_graph_const(graph *g, const char *name, mica_dtype dtype, int n_dims,
                          const graph_dim *dims, const void *data) {
    if (!dims_ok(g, OP_CONST, name ? name : "constant", n_dims, dims)) return GRAPH_NONE;
    graph_type type = mica_graph_type(dtype, n_dims, dims);
    graph_attr attr = {.constant = {data}};
    if (!data || !mica_graph_is_fixed(dims[0])) {
        graph_node node;
        mica_graph_begin(g, &node, OP_CONST, 0, NULL, 0);
        return mica_graph_reject(g, &node, "%s: a constant needs data and fixed dimensions",
                                 name ? name : "constant");
    }
    return leaf(g, OP_CONST, name, &type, &attr);
}

graph_id mica_graph_vector(graph *g, const weight_vector *v) {
    if (!v) return GRAPH_NONE;
    graph_dim dim = mica_dim(v->n);
    return mica_graph_const(g, v->name, v->dtype, 1, &dim, v->data);
}

graph_id mica_graph_weight(graph *g, const weight_matrix *m) {
    graph_node node;
    if (!mica_graph_begin(g, &node, OP_WEIGHT, 0, NULL, 0)) return GRAPH_NONE;
    if (!m) return mica_graph_reject(g, &node, "the matrix is NULL");
    bool has;
    mica_dtype dtype = mica_weight_dtype(m, &has);
    graph_dim dims[3] = {mica_dim(m->n_experts), mica_dim(m->n_out), mica_dim(m->n_in)};
    bool stack = m->n_experts > 1;
    graph_type type = mica_graph_type(has ? dtype : MICA_F32, stack ? 3 : 2, dims + !stack);
    graph_attr attr = {.weight = {m}};
    return leaf(g, OP_WEIGHT, m->name, &type, &attr);
}

graph_id mica_graph_cache(graph *g, int32_t layer, const kv_layout *layout) {
    graph_node node;
    if (!mica_graph_begin(g, &node, OP_CACHE, 0, NULL, 0)) return GRAPH_NONE;
    if (layer < 0 || layout->block_bytes == 0) {
        return mica_graph_reject(g, &node, "layer %" PRId32 " with blocks of %" PRIu64 " bytes",
                                 layer, layout->block_bytes);
    }
    node.attr.cache.layer = layer;
    node.attr.cache.layout = *layout;
    graph_id id = mica_graph_append(g, &node);
    if (id != GRAPH_NONE && layer >= g->n_caches) g->n_caches = layer + 1;
    return id;
}

/* ---- views ---- */

static bool begin_view(graph *g, graph_node *node, graph_id x) {
    if (!mica_graph_begin(g, node, OP_VIEW, 1, &x, 0)) return false;
    const graph_node *s = &g->nodes[x];
    if (s->type.n_dims > 0 && s->op != OP_WEIGHT && s->op != OP_CACHE) return true;
    mica_graph_reject(g, node, "a %s has no views", mica_graph_op_name(s->op));
    return false;
}

/* n * sym + add with the fixed dimensions multiplied in. */
static graph_dim total(int n_dims, const graph_dim *dims) {
    graph_dim t = dims[0];
    for (int i = 1; i < n_dims; i++) {
        t.n *= mica_graph_fixed(dims[i]);
        t.add *= mica_graph_fixed(dims[i]);
    }
    if (t.sym == GRAPH_FIXED) t = mica_dim(t.n + t.add);
    return t;
}

graph_id mica_graph_reshape(graph *g, graph_id x, int n_dims, const graph_dim *dims) {
    graph_node node;
    if (!dims_ok(g, OP_VIEW, "the new shape", n_dims, dims)) return GRAPH_NONE;
    if (!begin_view(g, &node, x)) return GRAPH_NONE;
    const graph_type *t = mica_graph_type_of(g, x);
    node.type = mica_graph_type(t->dtype, n_dims, dims);
    char from[96], to[96];
    mica_graph_type_text(t, NULL, from, sizeof(from));
    mica_graph_type_text(&node.type, NULL, to, sizeof(to));
    if (!mica_graph_same_dim(total(t->n_dims, t->dim), total(n_dims, dims))) {
        return mica_graph_reject(g, &node, "%s cannot become %s: other number of elements", from,
                                 to);
    }
    if (!mica_graph_is_contiguous(t)) {
        return mica_graph_reject(g, &node, "%s has gaps; copy it before it becomes %s", from, to);
    }
    return mica_graph_append(g, &node);
}

graph_id mica_graph_heads(graph *g, graph_id x, int64_t n_heads) {
    graph_node node;
    if (!begin_view(g, &node, x)) return GRAPH_NONE;
    if (!mica_graph_want_dims(g, &node, 0, "x", 2)) return GRAPH_NONE;
    const graph_type *t = mica_graph_type_of(g, x);
    int64_t n = mica_graph_last(t);
    if (n_heads <= 0 || n % n_heads || t->stride[1] != 1) {
        return mica_graph_reject(g, &node,
                                 "%" PRId64 " columns with stride %" PRId64
                                 " cannot be cut into %" PRId64 " heads",
                                 n, t->stride[1], n_heads);
    }
    graph_dim dims[3] = {t->dim[0], mica_dim(n_heads), mica_dim(n / n_heads)};
    node.type = mica_graph_type(t->dtype, 3, dims);
    node.type.stride[0] = t->stride[0];
    return mica_graph_append(g, &node);
}

graph_id mica_graph_flat(graph *g, graph_id x) {
    graph_node node;
    if (!begin_view(g, &node, x)) return GRAPH_NONE;
    if (!mica_graph_want_dims(g, &node, 0, "x", 3)) return GRAPH_NONE;
    const graph_type *t = mica_graph_type_of(g, x);
    int64_t h = mica_graph_fixed(t->dim[1]), d = mica_graph_last(t);
    if (t->stride[2] != 1 || (h > 1 && t->stride[1] != d)) {
        return mica_graph_reject(g, &node,
                                 "heads with gaps (strides %" PRId64 ", %" PRId64
                                 ") cannot be joined; copy first",
                                 t->stride[1], t->stride[2]);
    }
    graph_dim dims[2] = {t->dim[0], mica_dim(h * d)};
    node.type = mica_graph_type(t->dtype, 2, dims);
    node.type.stride[0] = t->stride[0];
    return mica_graph_append(g, &node);
}

graph_id mica_graph_slice(graph *g, graph_id x, int64_t begin, int64_t n) {
    graph_node node;
    if (!begin_view(g, &node, x)) return GRAPH_NONE;
    const graph_type *t = mica_graph_type_of(g, x);
    int last = t->n_dims - 1;
    if (last == 0 && !mica_graph_is_fixed(t->dim[0])) {
        return mica_graph_reject(g, &node, "the only dimension is symbolic and cannot be cut");
    }
    int64_t size = mica_graph_last(t);
    if (begin < 0 || n <= 0 || begin > size || n > size - begin) {
        return mica_graph_reject(g, &node,
                                 "elements [%" PRId64 ", %" PRId64 " + %" PRId64
                                 ") of a dimension of %" PRId64,
                                 begin, begin, n, size);
    }
    node.type = *t;
    node.type.dim[last] = mica_dim(n);
    node.attr.view.offset = begin * t->stride[last];
    return mica_graph_append(g, &node);
}

graph_id mica_graph_every(graph *g, graph_id x, int64_t first, int64_t step) {
    graph_node node;
    if (!begin_view(g, &node, x)) return GRAPH_NONE;
    const graph_type *t = mica_graph_type_of(g, x);
    int last = t->n_dims - 1;
    if (last == 0 || step < 1 || first < 0 || first >= step || mica_graph_last(t) % step) {
        return mica_graph_reject(g, &node, "every element %" PRId64 " of %" PRId64, first, step);
    }
    node.type = *t;
    node.type.dim[last] = mica_dim(mica_graph_last(t) / step);
    node.type.stride[last] = t->stride[last] * step;
    node.attr.view.offset = first * t->stride[last];
    return mica_graph_append(g, &node);
}

/* ---- copies ---- */

static bool begin_tensor(graph *g, graph_node *node, graph_op op, graph_id x) {
    return mica_graph_begin(g, node, op, 1, &x, 0) && mica_graph_want_float(g, node, 0, "x");
}

graph_id mica_graph_copy(graph *g, graph_id x) {
    graph_node node;
    if (!begin_tensor(g, &node, OP_COPY, x)) return GRAPH_NONE;
    const graph_type *t = mica_graph_type_of(g, x);
    node.type = mica_graph_type(t->dtype, t->n_dims, t->dim);
    return mica_graph_append(g, &node);
}

graph_id mica_graph_cast(graph *g, graph_id x, mica_dtype dtype) {
    graph_node node;
    if (!begin_tensor(g, &node, OP_CAST, x)) return GRAPH_NONE;
    if (!mica_dtype_is_float(dtype)) {
        return mica_graph_reject(g, &node, "to %s; expected f32, f16 or bf16",
                                 mica_dtype_name(dtype));
    }
    const graph_type *t = mica_graph_type_of(g, x);
    if (t->dtype == dtype) return x;
    node.type = mica_graph_type(dtype, t->n_dims, t->dim);
    return mica_graph_append(g, &node);
}

graph_id mica_graph_pad(graph *g, graph_id x, int64_t before, int64_t after) {
    graph_node node;
    if (!begin_tensor(g, &node, OP_PAD, x)) return GRAPH_NONE;
    const graph_type *t = mica_graph_type_of(g, x);
    int last = t->n_dims - 1;
    if (before < 0 || after < 0 || !mica_graph_is_fixed(t->dim[last])) {
        return mica_graph_reject(g, &node,
                                 "%" PRId64 " before and %" PRId64 " after: expected "
                                 "counts >= 0 and a fixed last dimension",
                                 before, after);
    }
    graph_dim dims[GRAPH_MAX_DIMS];
    memcpy(dims, t->dim, sizeof(dims));
    dims[last] = mica_dim(before + mica_graph_last(t) + after);
    node.type = mica_graph_type(t->dtype, t->n_dims, dims);
    node.attr.pad.before = before;
    return mica_graph_append(g, &node);
}
