/* build.h: what the builders of graph/ share; private to this folder.
 *
 * A builder begins a node (which checks that its sources exist), compares types, and either rejects
 * the node with a message that names it, or appends it. Nodes move when the array grows, so a type
 * is read through mica_graph_type_of and never kept by pointer across an append.
 */
#ifndef MICA_GRAPH_BUILD_H
#define MICA_GRAPH_BUILD_H

#include <stdbool.h>

#include "graph/graph.h"

enum { OPTIONAL_1 = 1u << 1, OPTIONAL_2 = 1u << 2, OPTIONAL_7 = 1u << 7 };

/* Starts a node. False: an earlier builder failed, or a source is missing (then recorded); bit i of
 * `optional`: source i may be GRAPH_NONE. */
bool mica_graph_begin(graph *g, graph_node *node, graph_op op, int n_src, const graph_id *src,
                      unsigned optional);
/* Records "SCOPE: OP(SOURCES): MESSAGE" as MICA_E_INVALID; always GRAPH_NONE. */
graph_id mica_graph_reject(graph *g, const graph_node *node, const char *format, ...)
    MICA_PRINTF(3, 4);
graph_id mica_graph_fail_memory(graph *g);

/* Contiguous type. */
graph_type mica_graph_type(mica_dtype dtype, int n_dims, const graph_dim *dims);

/* Checks that reject the node and return false. `what` names the operand: "x", "positions".
 * want_float: a float tensor; want_matrix: that or an OP_WEIGHT. */
bool mica_graph_want_float(graph *g, const graph_node *node, int i, const char *what);
bool mica_graph_want_matrix(graph *g, const graph_node *node, int i, const char *what);
bool mica_graph_want_dims(graph *g, const graph_node *node, int i, const char *what, int n_dims);
/* i32 of the given shape. */
bool mica_graph_want_i32(graph *g, const graph_node *node, int i, const char *what, int n_dims,
                         const graph_dim *dims);
/* Any dtype, the given shape. */
bool mica_graph_want_shape(graph *g, const graph_node *node, int i, const char *what, int n_dims,
                           const graph_dim *dims);

/* Result dtype of a float op over sources 0..n-1 of the node; absent ones and weights whose scales
 * are storage only take no part. The graph's own dtype if it forces one. */
mica_dtype mica_graph_result_dtype(const graph *g, const graph_node *node, int n);

static inline const graph_type *mica_graph_type_of(const graph *g, graph_id id) {
    return &g->nodes[id].type;
}
static inline const graph_type *mica_graph_src_type(const graph *g, const graph_node *node, int i) {
    return &g->nodes[node->src[i]].type;
}
static inline bool mica_graph_same_dim(graph_dim a, graph_dim b) {
    return a.n == b.n && a.add == b.add && (a.sym == b.sym || a.n == 0);
}
static inline bool mica_graph_is_fixed(graph_dim d) { return d.sym == GRAPH_FIXED; }
static inline int64_t mica_graph_fixed(graph_dim d) { return d.n + d.add; }
/* Size of a fixed last dimension. */
static inline int64_t mica_graph_last(const graph_type *t) {
    return mica_graph_fixed(t->dim[t->n_dims - 1]);
}

#endif
