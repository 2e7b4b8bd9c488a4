/* experts.h: a product for each expert, made of the matmul that a kernel file has already.
 *
 * Rows of one expert are a matmul of its own: its weights are a plain matrix, its rows of x and of
 * the output are found through lists (kernel_operand.rows), so nothing is gathered or scattered,
 * and of the weights only those of experts that have rows are read. Where the rows are tiles
 * (graph/rows_bf16.h) each expert has its own, in order. Units: N slices of the active
 * experts, by place in the list of active ones modulo N, times the matmul's own units; an output is
 * made whole by one unit, so the slices change nothing.
 */
#ifndef MICA_BACKEND_CPU_EXPERTS_H
#define MICA_BACKEND_CPU_EXPERTS_H

#include "backend/cpu/operand.h"
#include "graph/expert_groups.h"

#define EXPERT_SLICES 8

/* What differs between the kernels. */
typedef struct expert_kernel {
    graph_op op; /* of the matmul inside */
    int n_weights;
    int64_t (*n_units)(const kernel_call *call);
    void (*run)(const kernel_call *call, int64_t begin, int64_t end, void *scratch);
} expert_kernel;

static inline int64_t expert_slices(const kernel_call *call) {
    int64_t n = operand_rows(&call->out);
    return n < EXPERT_SLICES ? n : EXPERT_SLICES;
}

static inline void expert_operand(kernel_operand *w, weight_matrix *m, int64_t e) {
    if (w->matrix) {
        *m = mica_weight_expert(w->matrix, e);
        w->matrix = m;
    } else {
        w->data = operand_ptr(w, e * w->stride[0]);
    }
    for (int d = 0; d < 2; d++) {
        w->dim[d] = w->dim[d + 1];
        w->stride[d] = w->stride[d + 1];
    }
    w->n_dims = 2;
}

/* The matmul of expert e; `m` holds its weights. */
static inline kernel_call expert_call(const kernel_call *call, const expert_kernel *k, int64_t e,
                                      weight_matrix m[2]) {
    kernel_call c = *call;
    c.op = k->op;
    for (int i = 0; i < k->n_weights; i++)
        expert_operand(&c.src[1 + i], &m[i], e);
    c.n_src = 1 + k->n_weights;
    return c;
}

static inline int64_t expert_units(const kernel_call *call, const expert_kernel *k) {
    weight_matrix m[2];
    if (operand_rows(&call->out) == 0) return 0;
    kernel_call c = expert_call(call, k, 0, m);
    return expert_slices(call) * k->n_units(&c);
}

/* Units [begin, end) of the active experts at `slice`, `slice` + N, ... */
static inline void expert_slice(const kernel_call *call, const expert_kernel *k, int64_t slice,
                                int64_t begin, int64_t end, void *scratch) {
    int64_t n_pairs = operand_rows(&call->out), n_slices = expert_slices(call);
    bool has_tiles = k->op == OP_MATMUL_BF16 || k->op == OP_GLU_MATMUL_BF16;
    bool shared = operand_rows(&call->src[0]) != n_pairs; /* one row of x for all k of a token */
    const kernel_operand *list = &call->src[1 + k->n_weights];
    const expert_groups g = expert_groups_at(list->data, call->attr->experts.n_experts, n_pairs);
    int64_t n_blocks = 0; /* of 16 rows, of the experts before */
    for (int64_t a = 0; a < *g.count; a++) {
        weight_matrix m[2];
        int64_t e = g.active[a], first = g.offsets[e], n = g.offsets[e + 1] - first;
        int64_t first_tile = 16 * n_blocks * operand_width(&call->src[0]);
        n_blocks += (n + 15) / 16;
        if (a % n_slices != slice) continue;
        kernel_call c = expert_call(call, k, e, m);
        c.out.rows = g.pairs + first;
        c.out.dim[0] = n;
        if (has_tiles)
            c.src[0].data = operand_ptr(&call->src[0], first_tile);
        else
            c.src[0].rows = (shared ? g.rows : g.pairs) + first;
        c.src[0].dim[0] = n;
        k->run(&c, begin, end, scratch);
    }
}

static inline void expert_run(const kernel_call *call, const expert_kernel *k, int64_t begin,
                              int64_t end, void *scratch) {
    int64_t n_units = expert_units(call, k) / expert_slices(call);
    while (begin < end) {
        int64_t slice = begin / n_units, stop = (slice + 1) * n_units;
        if (stop > end) stop = end;
        expert_slice(call, k, slice, begin - slice * n_units, stop - slice * n_units, scratch);
        begin = stop;
    }
}

/* OP_TILE_ROWS: the rows that become matrix i of the output; with groups (src[1]) those of the i-th
 * active expert. */
static inline int64_t n_tile_matrices(const kernel_call *call) {
    if (call->n_src < 2) return 1;
    return *expert_groups_at(call->src[1].data, call->attr->experts.n_experts, 0).count;
}

static inline kernel_operand tile_matrix_rows(const kernel_call *call, int64_t i) {
    kernel_operand x = call->src[0];
    if (call->n_src < 2) return x;
    int64_t n_experts = call->attr->experts.n_experts;
    int64_t n_pairs = (operand_width(&call->src[1]) - expert_groups_size(n_experts, 0)) / 2;
    const expert_groups g = expert_groups_at(call->src[1].data, n_experts, n_pairs);
    int64_t e = g.active[i], first = g.offsets[e];
    x.rows = (operand_rows(&x) == n_pairs ? g.pairs : g.rows) + first;
    x.dim[0] = g.offsets[e + 1] - first;
    return x;
}

/* Units of 16 rows of the output. */
static inline int64_t n_units_tiles(const kernel_call *call) {
    int64_t n = operand_rows(&call->out) / 16;
    return n ? n : 1;
}

static inline size_t expert_scratch(const kernel_call *call, const expert_kernel *k,
                                    size_t (*scratch_bytes)(const kernel_call *call)) {
    weight_matrix m[2];
    kernel_call c = expert_call(call, k, 0, m);
    return scratch_bytes(&c);
}

static inline const char *expert_declines(const kernel_call *call, const expert_kernel *k,
                                          const char *(*declines)(const kernel_call *call)) {
    weight_matrix m[2];
    kernel_call c = expert_call(call, k, 0, m);
    return declines(&c);
}

#endif
