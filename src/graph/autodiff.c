/* autodiff.c: reverse-mode differentiation: appends the backward of a node as ordinary nodes.
 *
 * Nodes are walked against program order; each op turns the gradient of its result into gradients
 * of those sources on which something wanted depends, and several gradients of one node are added.
 * A gradient has the shape and dtype of what it belongs to. Weights are frozen; a factor that is a
 * tensor (LoRA) gets a gradient of its own. An op without a rule here is refused by name: a wrong
 * gradient must never pass silently.
 */
#include "graph/build.h"

#include <inttypes.h>

typedef struct reverse {
    graph *g;
    bool *wanted;    /* node depends on one of wrt */
    graph_id *grad;  /* so far */
    int32_t n_nodes; /* of the forward graph */
} reverse;

static graph_type contiguous_like(const graph_type *t) {
    return mica_graph_type(t->dtype, t->n_dims, t->dim);
}

/* A node of a training op with the type of a forward node, or any given one. */
static graph_id emit(graph *g, graph_op op, int n_src, const graph_id *src, const graph_type *type,
                     const graph_attr *attr) {
    graph_node node;
    if (!mica_graph_begin(g, &node, op, n_src, src, OPTIONAL_1)) return GRAPH_NONE;
    node.type = contiguous_like(type);
    if (attr) node.attr = *attr;
    return mica_graph_append(g, &node);
}

/* The same elements under the dims of `t`; copied first if there are gaps. */
static graph_id shape_as(graph *g, graph_id x, int n_dims, const graph_dim *dims) {
    if (x == GRAPH_NONE) return x;
    const graph_type *t = mica_graph_type_of(g, x);
    bool same = t->n_dims == n_dims;
    for (int i = 0; same && i < n_dims; i++)
        same = mica_graph_same_dim(t->dim[i], dims[i]);
    if (same) return x;
    if (!mica_graph_is_contiguous(t)) x = mica_graph_copy(g, x);
    return mica_graph_reshape(g, x, n_dims, dims);
}

/* Adds `dx`, brought to the source's shape and dtype, to the gradient of node `id`. */
static void give(reverse *r, graph_id id, graph_id dx) {
    if (dx == GRAPH_NONE || id == GRAPH_NONE || !r->wanted[id]) return;
    graph_type t = *mica_graph_type_of(r->g, id);
    dx = shape_as(r->g, dx, t.n_dims, t.dim);
    if (dx != GRAPH_NONE) dx = mica_graph_cast(r->g, dx, t.dtype);
    r->grad[id] = r->grad[id] == GRAPH_NONE ? dx : mica_graph_add(r->g, r->grad[id], dx);
}

static bool needs(const reverse *r, const graph_node *n, int i) {
    return n->src[i] != GRAPH_NONE && r->wanted[n->src[i]];
}

/* [.., n] -> [n], summed over everything but the last dimension. */
static graph_id sum_rows(graph *g, graph_id x) {
    if (x == GRAPH_NONE) return x;
    graph_type t = *mica_graph_type_of(g, x);
    int64_t last = mica_graph_last(&t), heads = 1;
    for (int i = 1; i + 1 < t.n_dims; i++)
        heads *= mica_graph_fixed(t.dim[i]);
    graph_dim dims[2] = {{t.dim[0].n * heads, t.dim[0].sym, t.dim[0].add * heads}, mica_dim(last)};
    x = shape_as(g, x, 2, dims);
    graph_type sum = mica_graph_type(t.dtype, 1, &dims[1]);
    return emit(g, OP_SUM_ROWS, 1, &x, &sum, NULL);
}

static void back_matmul(reverse *r, const graph_node *n, graph_id dy) {
    if (needs(r, n, 0)) {
        graph_id src[2] = {dy, n->src[1]};
        give(r, n->src[0],
             emit(r->g, OP_MATMUL_T, 2, src, mica_graph_type_of(r->g, n->src[0]), NULL));
    }
    if (needs(r, n, 1)) {
        graph_id src[2] = {dy, n->src[0]};
        give(r, n->src[1], emit(r->g, OP_OUTER, 2, src, mica_graph_type_of(r->g, n->src[1]), NULL));
    }
}

static bool is_broadcast(const reverse *r, const graph_node *n) {
    return mica_graph_type_of(r->g, n->src[1])->n_dims < n->type.n_dims;
}

static void back_add(reverse *r, const graph_node *n, graph_id dy) {
    give(r, n->src[0], dy);
    if (needs(r, n, 1)) give(r, n->src[1], is_broadcast(r, n) ? sum_rows(r->g, dy) : dy);
}

static void back_mul(reverse *r, const graph_node *n, graph_id dy) {
    if (needs(r, n, 0)) give(r, n->src[0], mica_graph_mul(r->g, dy, n->src[1]));
    if (!needs(r, n, 1)) return;
    graph_id db = mica_graph_mul(r->g, dy, n->src[0]);
    give(r, n->src[1], is_broadcast(r, n) ? sum_rows(r->g, db) : db);
}

static void back_rms_norm(reverse *r, const graph_node *n, graph_id dy) {
    if (needs(r, n, 0)) {
        graph_id src[3] = {n->src[0], n->src[1], dy};
        give(r, n->src[0],
             emit(r->g, OP_RMS_NORM_GRAD, 3, src, mica_graph_type_of(r->g, n->src[0]), &n->attr));
    }
    if (needs(r, n, 1)) {
        graph_id x = mica_graph_rms_norm(r->g, n->src[0], GRAPH_NONE, n->attr.norm.eps);
        give(r, n->src[1], sum_rows(r->g, mica_graph_mul(r->g, dy, x)));
    }
}

static void back_silu(reverse *r, const graph_node *n, graph_id dy) {
    graph_id src[2] = {n->src[0], dy};
    give(r, n->src[0], emit(r->g, OP_SILU_GRAD, 2, src, mica_graph_type_of(r->g, n->src[0]), NULL));
}

/* The input scale multiplies the rotated channels only; a partial rotation with one is refused by
 * has_rule. */
static void back_rope(reverse *r, const graph_node *n, graph_id dy) {
    graph_id src[2] = {dy, n->src[1]};
    graph_attr attr = n->attr;
    attr.rope.input_scale = 1;
    graph_id dx = emit(r->g, OP_ROPE_GRAD, 2, src, mica_graph_type_of(r->g, n->src[0]), &attr);
    if (n->attr.rope.input_scale != 1) dx = mica_graph_scale(r->g, dx, n->attr.rope.input_scale);
    give(r, n->src[0], dx);
}

/* One node computes dq, dk and dv side by side. */
static void back_attention(reverse *r, const graph_node *n, graph_id dy) {
    graph_id src[6] = {n->src[0], n->src[1], n->src[2], n->src[3], n->src[4], dy};
    int64_t width[3], heads[3], sum = 0;
    for (int i = 0; i < 3; i++) {
        const graph_type *t = mica_graph_type_of(r->g, n->src[i]);
        heads[i] = mica_graph_fixed(t->dim[1]);
        width[i] = heads[i] * mica_graph_last(t);
        sum += width[i];
    }
    graph_dim dims[2] = {n->type.dim[0], mica_dim(sum)};
    graph_type type = mica_graph_type(n->type.dtype, 2, dims);
    graph_id all = emit(r->g, OP_ATTENTION_ROWS_GRAD, 6, src, &type, &n->attr);
    int64_t begin = 0;
    for (int i = 0; i < 3; i++) {
        if (needs(r, n, i)) {
            graph_id part = mica_graph_slice(r->g, all, begin, width[i]);
            give(r, n->src[i], mica_graph_heads(r->g, part, heads[i]));
        }
        begin += width[i];
    }
}

/* A view either renames all elements of its source or cuts its last dimension. */
static void back_view(reverse *r, const graph_node *n, graph_id dy) {
    const graph_type *s = mica_graph_type_of(r->g, n->src[0]);
    int last = s->n_dims - 1;
    bool cut = n->type.n_dims == s->n_dims && !mica_graph_same_dim(n->type.dim[last], s->dim[last]);
    if (cut) {
        int64_t before = n->attr.view.offset / s->stride[last];
        int64_t after = mica_graph_last(s) - before - mica_graph_last(&n->type);
        dy = mica_graph_pad(r->g, dy, before, after);
    }
    give(r, n->src[0], dy);
}

static void back_scale(reverse *r, const graph_node *n, graph_id dy) {
    give(r, n->src[0], mica_graph_scale(r->g, dy, n->attr.scale.c));
}

static void back_same(reverse *r, const graph_node *n, graph_id dy) { give(r, n->src[0], dy); }

typedef void (*backward_fn)(reverse *r, const graph_node *n, graph_id dy);

static backward_fn rule_of(graph_op op) {
    switch ((int)op) {
    case OP_MATMUL:
        return back_matmul;
    case OP_ADD:
        return back_add;
    case OP_MUL:
        return back_mul;
    case OP_SCALE:
        return back_scale;
    case OP_RMS_NORM:
        return back_rms_norm;
    case OP_SILU:
        return back_silu;
    case OP_ROPE:
        return back_rope;
    case OP_ATTENTION_ROWS:
        return back_attention;
    case OP_VIEW:
        return back_view;
    case OP_CAST:
    case OP_COPY:
        return back_same;
    default:
        return NULL;
    }
}

/* False where the rule of the op does not cover this node: a wanted source it cannot serve, or an
 * attribute. */
static bool has_rule(const reverse *r, const graph_node *n) {
    if (!rule_of(n->op)) return false;
    if (n->op == OP_ROPE) {
        bool partial = n->attr.rope.dims != mica_graph_last(&n->type);
        return !needs(r, n, 1) && !(partial && n->attr.rope.input_scale != 1);
    }
    return true;
}

static mica_status refuse(const graph_node *n, graph_id id, mica_error *err) {
    return mica_fail(err, MICA_E_UNSUPPORTED,
                     "backward: node %" PRId32 " (%s, %s) has no backward; the gradient of what "
                     "comes before it cannot be had",
                     id, n->name ? n->name : "no name", mica_graph_op_name(n->op));
}

static mica_status walk(reverse *r, graph_id y, mica_error *err) {
    for (graph_id id = y; id >= 0; id--) {
        if (r->grad[id] == GRAPH_NONE) continue;
        graph_node n = r->g->nodes[id]; /* a copy: the array moves as nodes are appended */
        bool inner = false;
        for (int i = 0; i < n.n_src; i++)
            inner = inner || needs(r, &n, i);
        if (!inner) continue;
        if (!has_rule(r, &n)) return refuse(&n, id, err);
        rule_of(n.op)(r, &n, r->grad[id]);
        if (r->g->status) break;
    }
    return mica_graph_check(r->g, err);
}

static void mark_wanted(reverse *r, const graph_id *wrt, int n_wrt) {
    for (int i = 0; i < n_wrt; i++)
        r->wanted[wrt[i]] = true;
    for (int32_t id = 0; id < r->n_nodes; id++) {
        const graph_node *n = &r->g->nodes[id];
        for (int i = 0; i < n->n_src; i++)
            r->wanted[id] = r->wanted[id] || needs(r, n, i);
        r->grad[id] = GRAPH_NONE;
    }
}

static mica_status check_ids(const graph *g, graph_id y, graph_id y_grad, const graph_id *wrt,
                             int n_wrt, mica_error *err) {
    bool ok = y >= 0 && y < g->n_nodes && y_grad >= 0 && y_grad < g->n_nodes;
    for (int i = 0; ok && i < n_wrt; i++)
        ok = wrt[i] >= 0 && wrt[i] < g->n_nodes;
    if (!ok) return mica_fail(err, MICA_E_INVALID, "backward: a node does not exist");
    const graph_type *a = mica_graph_type_of(g, y), *b = mica_graph_type_of(g, y_grad);
    bool same = a->n_dims == b->n_dims;
    for (int i = 0; same && i < a->n_dims; i++)
        same = mica_graph_same_dim(a->dim[i], b->dim[i]);
    if (same) return MICA_OK;
    char want[96], found[96];
    mica_graph_type_text(a, NULL, want, sizeof(want));
    mica_graph_type_text(b, NULL, found, sizeof(found));
    return mica_fail(err, MICA_E_INVALID, "backward: the gradient is %s, the node %s", found, want);
}

mica_status mica_graph_backward(graph *g, graph_id y, graph_id y_grad, const graph_id *wrt,
                                int n_wrt, graph_id *grads, mica_error *err) {
    mica_status st;
    if ((st = mica_graph_check(g, err))) return st;
    if ((st = check_ids(g, y, y_grad, wrt, n_wrt, err))) return st;
    reverse r = {.g = g, .n_nodes = g->n_nodes};
    r.wanted = mica_calloc((size_t)g->n_nodes, sizeof(*r.wanted));
    r.grad = mica_malloc((size_t)g->n_nodes * sizeof(*r.grad));
    if (!r.wanted || !r.grad) {
        st = mica_fail(err, MICA_E_NOMEM, "backward: out of memory");
        goto out;
    }
    mark_wanted(&r, wrt, n_wrt);
    if (r.wanted[y]) {
        give(&r, y, y_grad);
        if ((st = walk(&r, y, err))) goto out;
    }
    for (int i = 0; i < n_wrt; i++)
        grads[i] = r.grad[wrt[i]];
out:
    mica_free(r.wanted);
    mica_free(r.grad);
    return st;
}
