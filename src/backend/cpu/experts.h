/* experts.h: a product for each expert, made of the matmul that a kernel file has already.
 *
 * Rows of one expert are a matmul of its own: its weights are a plain matrix, its rows of x and of
 * the output are found through lists (kernel_operand.rows), so nothing is gathered or scattered,
 * and of the weights only those of experts that have rows are read. Units: N slices of the active
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
    bool shared = operand_rows(&call->src[0]) != n_pairs; /* one row of x for all k of a token */
    const kernel_operand *list = &call->src[1 + k->n_weights];
    const expert_groups g = expert_groups_at(list->data, call->attr->experts.n_experts, n_pairs);
    for (int64_t a = slice; a < *g.count; a += n_slices) {
        weight_matrix m[2];
        int64_t e = g.active[a], first = g.offsets[e], n = g.offsets[e + 1] - first;
        kernel_call c = expert_call(call, k, e, m);
        c.out.rows = g.pairs + first;
        c.out.dim[0] = n;
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
