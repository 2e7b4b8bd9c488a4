/* graph.c: the node array, names, errors and outputs of a graph, and the checks its builders share.
 *
 * The first error stays: later builders see the status and do nothing, so that a model file reads
 * as straight code. Messages name the scope ("layers.3"), the op with its sources, what was found
 * and what was expected.
 */
#include "graph/build.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MAX_NODES = 1 << 20 };

void mica_graph_init(graph *g) {
    memset(g, 0, sizeof(*g));
    mica_arena_init(&g->arena, 0);
}

void mica_graph_deinit(graph *g) {
    mica_free(g->nodes);
    mica_arena_deinit(&g->arena);
    memset(g, 0, sizeof(*g));
}

void mica_graph_force_dtype(graph *g, mica_dtype dtype) {
    g->force_dtype = true;
    g->dtype = dtype;
}

mica_status mica_graph_check(const graph *g, mica_error *err) {
    if (g->status && err) *err = g->error;
    return g->status;
}

void mica_graph_scope(graph *g, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (vsnprintf(g->scope, sizeof(g->scope), format, args) < 0) g->scope[0] = '\0';
    va_end(args);
}

graph_id mica_graph_fail_memory(graph *g) {
    if (!g->status) {
        g->status =
            mica_fail(&g->error, MICA_E_NOMEM, "graph: out of memory at node %" PRId32, g->n_nodes);
    }
    return GRAPH_NONE;
}

graph_id mica_graph_name(graph *g, graph_id id, const char *name) {
    if (id == GRAPH_NONE || g->status) return id;
    char text[160];
    int n = g->scope[0] ? snprintf(text, sizeof(text), "%s.%s", g->scope, name)
                        : snprintf(text, sizeof(text), "%s", name);
    if (n < 0) return id;
    char *copy = mica_arena_strndup(&g->arena, text, strlen(text));
    if (!copy) return mica_graph_fail_memory(g);
    g->nodes[id].name = copy;
    return id;
}

void mica_graph_output(graph *g, graph_id id) {
    if (g->status) return;
    const int max = (int)(sizeof(g->outputs) / sizeof(g->outputs[0]));
    if (id < 0 || id >= g->n_nodes || g->n_outputs == max) {
        g->status = mica_fail(&g->error, MICA_E_INVALID,
                              "graph: output %d is node %" PRId32 "; there are %" PRId32
                              " nodes, and a graph has at most %d outputs",
                              g->n_outputs, id, g->n_nodes, max);
        return;
    }
    g->outputs[g->n_outputs++] = id;
}

graph_id mica_graph_append(graph *g, const graph_node *node) {
    if (g->status) return GRAPH_NONE;
    if (g->n_nodes == g->capacity) {
        int32_t capacity = g->capacity ? 2 * g->capacity : 64;
        graph_node *nodes = NULL;
        if (capacity <= MAX_NODES) {
            nodes = mica_realloc(g->nodes, (size_t)capacity * sizeof(*nodes));
        }
        if (!nodes) return mica_graph_fail_memory(g);
        g->nodes = nodes;
        g->capacity = capacity;
    }
    g->nodes[g->n_nodes] = *node;
    return g->n_nodes++;
}

bool mica_graph_begin(graph *g, graph_node *node, graph_op op, int n_src, const graph_id *src,
                      unsigned optional) {
    if (g->status) return false;
    memset(node, 0, sizeof(*node));
    node->op = op;
    node->n_src = n_src;
    for (int i = 0; i < n_src; i++) {
        node->src[i] = src[i];
        bool absent = src[i] == GRAPH_NONE && ((optional >> i) & 1u);
        if (absent || (src[i] >= 0 && src[i] < g->n_nodes)) continue;
        node->n_src = i; /* what the message may name */
        mica_graph_reject(g, node, "operand %d is missing (node %" PRId32 ")", i, src[i]);
        return false;
    }
    for (int i = n_src; i < GRAPH_MAX_SRC; i++)
        node->src[i] = GRAPH_NONE;
    return true;
}

/* "matmul(layers.0.norm, model.layers.0.q_proj)": sources without a name show their op. */
static void describe(const graph *g, const graph_node *node, char *out, size_t n) {
    size_t used = 0;
    int w = snprintf(out, n, "%s(", mica_graph_op_name(node->op));
    if (w > 0) used = (size_t)w;
    for (int i = 0; i < node->n_src && used < n; i++) {
        const char *name = "-";
        if (node->src[i] != GRAPH_NONE) {
            const graph_node *s = &g->nodes[node->src[i]];
            name = s->name ? s->name : mica_graph_op_name(s->op);
        }
        w = snprintf(out + used, n - used, "%s%s", i ? ", " : "", name);
        if (w > 0) used += (size_t)w;
    }
    if (used < n) snprintf(out + used, n - used, ")");
}

graph_id mica_graph_reject(graph *g, const graph_node *node, const char *format, ...) {
    if (g->status) return GRAPH_NONE;
    char call[200], message[256];
    describe(g, node, call, sizeof(call));
    va_list args;
    va_start(args, format);
    if (vsnprintf(message, sizeof(message), format, args) < 0) message[0] = '\0';
    va_end(args);
    g->status = mica_fail(&g->error, MICA_E_INVALID, "%s: %s: %s", g->scope[0] ? g->scope : "graph",
                          call, message);
    return GRAPH_NONE;
}

/* ---- checks ---- */

bool mica_graph_want_matrix(graph *g, const graph_node *node, int i, const char *what) {
    const graph_type *t = mica_graph_src_type(g, node, i);
    if (t->n_dims > 0 && mica_dtype_is_float(t->dtype)) return true;
    mica_graph_reject(g, node, "%s is %s %s; expected f32, f16 or bf16", what,
                      t->n_dims ? "a tensor of" : "no tensor but a",
                      t->n_dims ? mica_dtype_name(t->dtype)
                                : mica_graph_op_name(g->nodes[node->src[i]].op));
    return false;
}

bool mica_graph_want_float(graph *g, const graph_node *node, int i, const char *what) {
    if (!mica_graph_want_matrix(g, node, i, what)) return false;
    if (g->nodes[node->src[i]].op != OP_WEIGHT) return true;
    mica_graph_reject(g, node, "%s is a weight; only embed and the matmuls read weights", what);
    return false;
}

bool mica_graph_want_dims(graph *g, const graph_node *node, int i, const char *what, int n_dims) {
    const graph_type *t = mica_graph_src_type(g, node, i);
    if (t->n_dims == n_dims) return true;
    char text[96];
    mica_graph_type_text(t, NULL, text, sizeof(text));
    mica_graph_reject(g, node, "%s is %s; expected %d dimensions", what, text, n_dims);
    return false;
}

bool mica_graph_want_shape(graph *g, const graph_node *node, int i, const char *what, int n_dims,
                           const graph_dim *dims) {
    const graph_type *t = mica_graph_src_type(g, node, i);
    bool same = t->n_dims == n_dims;
    for (int d = 0; same && d < n_dims; d++)
        same = mica_graph_same_dim(t->dim[d], dims[d]);
    if (same) return true;
    graph_type wanted = mica_graph_type(t->dtype, n_dims, dims);
    char found[96], expected[96];
    mica_graph_type_text(t, NULL, found, sizeof(found));
    mica_graph_type_text(&wanted, NULL, expected, sizeof(expected));
    mica_graph_reject(g, node, "%s is %s; expected %s", what, found, expected);
    return false;
}

bool mica_graph_want_i32(graph *g, const graph_node *node, int i, const char *what, int n_dims,
                         const graph_dim *dims) {
    const graph_type *t = mica_graph_src_type(g, node, i);
    if (t->dtype != MICA_I32) {
        mica_graph_reject(g, node, "%s is %s; expected i32", what, mica_dtype_name(t->dtype));
        return false;
    }
    return mica_graph_want_shape(g, node, i, what, n_dims, dims);
}

mica_dtype mica_graph_result_dtype(const graph *g, const graph_node *node, int n) {
    if (g->force_dtype) return g->dtype;
    bool any = false;
    mica_dtype dtype = MICA_F32;
    for (int i = 0; i < n; i++) {
        if (node->src[i] == GRAPH_NONE) continue;
        const graph_node *s = &g->nodes[node->src[i]];
        bool has = true;
        mica_dtype d = s->type.dtype;
        if (s->op == OP_WEIGHT) d = mica_weight_dtype(s->attr.weight.matrix, &has);
        if (!has) continue;
        dtype = any ? mica_dtype_promote(dtype, d) : d;
        any = true;
    }
    return dtype;
}
