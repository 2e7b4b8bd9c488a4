/* quantize.c: the levers int16, int8, int8-down and bf16: matmuls over quantized weights read rows
 * that were quantized to two bytes or one, or rounded to bf16, once for each tensor and for all
 * matmuls that read it.
 *
 * One byte does not pass the gates everywhere: it serves gated pairs and what reads an attention's
 * output, in prompts also what reads a pair's product, which were measured to stand it
 * (docs/performance.md); all others read fine rows.
 *
 * Where the target multiplies in bf16 (it has tiles) that comes first.
 *
 * A node that makes the rows is inserted before the first matmul that wants it. A matmul for which
 * the target has no such kernel stays as it is.
 */
#include "plan/work.h"

#include <inttypes.h>

#include "graph/rows_i8.h"

/* ROWS_BF16_EXPERTS: grouped by expert. */
typedef enum row_kind {
    ROWS_COARSE,
    ROWS_FINE,
    ROWS_BF16,
    ROWS_BF16_EXPERTS,
    N_ROW_KINDS
} row_kind;

typedef struct quantizing {
    plan_insert in;
    bool bf16;         /* tiles may be used */
    graph_id *rows_of; /* [N_ROW_KINDS][old node]: new id of its rows, or GRAPH_NONE */
} quantizing;

/* Whether one byte is enough. */
static bool is_coarse(const plan_work *w, const graph_node *matmul) {
    graph_op from = w->nodes[mica_plan_base(w, matmul->src[0])].op;
    if (from == OP_GLU_MATMUL && mica_lever_on(w->options->levers, LEVER_INT8_DOWN)) return true;
    if (!mica_lever_on(w->options->levers, LEVER_INT8)) return false;
    return matmul->op == OP_GLU_MATMUL || matmul->op == OP_EXPERT_GLU_MATMUL ||
           from == OP_ATTENTION || from == OP_FLASH_ATTENTION || from == OP_ATTENTION_JOIN;
}

/* A matmul, and what it becomes. */
typedef struct matmul_ops {
    graph_op op, i8, bf16;
    row_kind tiles;
} matmul_ops;

static const matmul_ops *matmul_ops_of(graph_op op) {
    static const matmul_ops all[] = {
        {OP_MATMUL, OP_MATMUL_I8, OP_MATMUL_BF16, ROWS_BF16},
        {OP_GLU_MATMUL, OP_GLU_MATMUL_I8, OP_GLU_MATMUL_BF16, ROWS_BF16},
        {OP_EXPERT_MATMUL, OP_EXPERT_MATMUL_I8, OP_EXPERT_MATMUL_BF16, ROWS_BF16_EXPERTS},
        {OP_EXPERT_GLU_MATMUL, OP_EXPERT_GLU_MATMUL_I8, OP_EXPERT_GLU_MATMUL_BF16,
         ROWS_BF16_EXPERTS}};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        if (all[i].op == op) return &all[i];
    return NULL;
}

/* Sparsemixer weighs an expert by those whose scores are within a margin of its own: a step, which
 * the 8 bits of bf16 miss now and then (KL 3e-3 to 5e-3; other routings at most 6e-4). */
static bool has_margins(const plan_work *w) {
    for (int32_t i = 0; i < w->n_nodes; i++)
        if (w->live[i] && w->nodes[i].op == OP_TOP_K_WEIGHTS &&
            w->nodes[i].attr.top_k_weights.rule == TOP_K_SPARSEMIXER)
            return true;
    return false;
}

/* The form of a matmul that reads other rows, its first source still being x. */
static bool as_quantized(const plan_work *w, const graph_node *node, bool bf16, row_kind *kind,
                         graph_node *out) {
    const matmul_ops *ops = matmul_ops_of(node->op);
    if (!ops) return false;
    const graph_type *x = &w->nodes[node->src[0]].type;
    if (x->n_dims != 2 || !mica_dtype_is_float(x->dtype)) return false;
    *out = *node;
    *kind = ops->tiles;
    out->op = ops->bf16;
    if (bf16 && mica_plan_target_takes(w, out)) return true;
    *kind = is_coarse(w, node) ? ROWS_COARSE : ROWS_FINE;
    if (*kind == ROWS_FINE && !mica_lever_on(w->options->levers, LEVER_INT16)) return false;
    out->op = ops->i8;
    return mica_plan_target_takes(w, out);
}

static graph_node rows_node(const plan_work *w, const graph_node *matmul, row_kind kind) {
    graph_id x = matmul->src[0];
    bool tiles = kind == ROWS_BF16 || kind == ROWS_BF16_EXPERTS;
    graph_node node = {
        .op = tiles ? OP_TILE_ROWS : OP_QUANTIZE_ROWS, .n_src = 1, .name = w->nodes[x].name};
    const graph_type *t = &w->nodes[x].type;
    for (int i = 0; i < GRAPH_MAX_SRC; i++)
        node.src[i] = GRAPH_NONE;
    node.src[0] = x;
    int64_t n = t->dim[1].n + t->dim[1].add;
    if (!tiles) n = rows_i8_bytes(n, kind == ROWS_FINE);
    node.type = (graph_type){.dtype = tiles ? MICA_BF16 : MICA_U8, .n_dims = 2};
    node.type.dim[0] = t->dim[0];
    if (tiles) node.type.dim[0].add += 15; /* whole tiles */
    if (kind == ROWS_BF16_EXPERTS) {
        node.n_src = 2;
        node.src[1] = matmul->src[matmul->n_src - 1];
        node.attr.experts = matmul->attr.experts;
        node.type.dim[0] = matmul->type.dim[0];
        node.type.dim[0].add += 15 * (int64_t)matmul->attr.experts.n_experts;
    }
    node.type.dim[1] = mica_dim(n);
    node.type.stride[0] = n;
    node.type.stride[1] = 1;
    return node;
}

/* The new node that makes such rows for a matmul; what it reads is not grouped in two ways. */
static graph_id rows_of(quantizing *q, const graph_node *matmul, row_kind kind) {
    const plan_work *w = q->in.w;
    graph_id *id = &q->rows_of[(int32_t)kind * w->n_nodes + matmul->src[0]];
    if (*id == GRAPH_NONE) {
        graph_node node = rows_node(w, matmul, kind);
        mica_plan_renumber(&q->in, &node);
        *id = mica_plan_append(&q->in, &node);
    }
    return *id;
}

/* New ids of all old nodes; the number of matmuls that were changed. */
static int32_t insert_all(quantizing *q) {
    const plan_work *w = q->in.w;
    int32_t n_changed = 0;
    for (graph_id id = 0; id < w->n_nodes; id++) {
        graph_node node = w->nodes[id], matmul;
        graph_id rows = GRAPH_NONE;
        row_kind kind;
        if (w->live[id] && as_quantized(w, &node, q->bf16, &kind, &matmul)) {
            rows = rows_of(q, &matmul, kind);
            node = matmul;
            n_changed++;
        }
        mica_plan_renumber(&q->in, &node);
        if (rows != GRAPH_NONE) node.src[0] = rows;
        q->in.new_id[id] = mica_plan_append(&q->in, &node);
    }
    return n_changed;
}

static mica_status begin(quantizing *q, plan_work *w, mica_error *err) {
    size_t n = N_ROW_KINDS * (size_t)w->n_nodes;
    mica_status st = mica_plan_insert_init(&q->in, w, err);
    if (st) return st;
    q->rows_of = mica_calloc(n + 1, sizeof(*q->rows_of));
    if (!q->rows_of) {
        mica_plan_insert_deinit(&q->in);
        return mica_fail(err, MICA_E_NOMEM, "plan: out of memory");
    }
    for (size_t i = 0; i < n; i++)
        q->rows_of[i] = GRAPH_NONE;
    return MICA_OK;
}

mica_status mica_plan_quantize(plan_work *w, mica_error *err) {
    bool int16 = mica_lever_on(w->options->levers, LEVER_INT16);
    bool int8 = mica_lever_on(w->options->levers, LEVER_INT8);
    bool down = mica_lever_on(w->options->levers, LEVER_INT8_DOWN);
    bool bf16 = mica_lever_on(w->options->levers, LEVER_BF16) && !has_margins(w);
    if (!int16 && !int8 && !down && !bf16) {
        mica_plan_note(w, "quantize: off");
        return MICA_OK;
    }
    quantizing q = {.bf16 = bf16};
    mica_status st = begin(&q, w, err);
    if (st) return st;
    int32_t n_changed = insert_all(&q);
    mica_plan_note(w, "quantize%s%s%s%s: %" PRId32 " matmuls read %" PRId32 " quantized tensors",
                   int16 ? " int16" : "", int8 ? " int8" : "", down ? " int8-down" : "",
                   bf16 ? " bf16" : "", n_changed, q.in.n - w->n_nodes);
    mica_plan_insert_take(&q.in);
    mica_plan_insert_deinit(&q.in);
    mica_free(q.rows_of);
    return MICA_OK;
}
