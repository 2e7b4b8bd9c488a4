/* traffic.c: the bytes that a run of a plan must move, for `mica plan` and for bandwidth figures.
 *
 * Weights count once a step at their stored size; an embedding and a mixture of experts count only
 * the rows and experts that can be touched. Cache reads depend on lengths that a plan does not
 * know, so attention counts without them.
 */
#include "plan/work.h"

static uint64_t tensor_bytes(const plan_operand *o, const int64_t *sym) {
    return (uint64_t)mica_graph_type_count(&o->type, sym) * mica_dtype_bytes(o->type.dtype);
}

static uint64_t weight_bytes(const plan_step *step, const plan_operand *o, const int64_t *sym) {
    uint64_t all = mica_weight_bytes(o->matrix);
    int64_t rows = mica_graph_dim_size(step->out.type.dim[0], sym);
    if (step->op == OP_EMBED) return all / (uint64_t)o->matrix->n_out * (uint64_t)rows;
    if (o->matrix->n_experts > 1) {
        int64_t n = o->matrix->n_experts;
        return all / (uint64_t)n * (uint64_t)(rows < n ? rows : n);
    }
    return all;
}

uint64_t mica_plan_step_bytes(const plan_step *step, const int64_t sym[GRAPH_N_SYMS]) {
    uint64_t sum = step->out.space ? tensor_bytes(&step->out, sym) : 0;
    for (int i = 0; i < step->n_src; i++) {
        const plan_operand *o = &step->src[i];
        bool gathered = i == 0 && step->op == OP_GATHER_ROWS;
        bool table = i == 1 && step->op == OP_EMBED && o->space != PLAN_WEIGHT;
        if (gathered || table) {
            sum += tensor_bytes(&step->out, sym);
        } else if (o->space == PLAN_WEIGHT) {
            sum += weight_bytes(step, o, sym);
        } else if (o->space != PLAN_NONE && o->space != PLAN_CACHE) {
            sum += tensor_bytes(o, sym);
        }
    }
    return sum;
}

uint64_t mica_plan_bytes(const plan *p, const int64_t sym[GRAPH_N_SYMS]) {
    uint64_t sum = 0;
    for (int32_t s = 0; s < p->n_steps; s++)
        sum += mica_plan_step_bytes(&p->steps[s], sym);
    return sum;
}

static bool reads(const plan_step *step, const weight_matrix *m) {
    for (int i = 0; i < step->n_src && step->op != OP_EMBED; i++) {
        if (step->src[i].space == PLAN_WEIGHT && step->src[i].matrix == m) return true;
    }
    return false;
}

/* True for the first place in the tape that reads this matrix. */
static bool is_first(const plan *p, int32_t s, int i) {
    const weight_matrix *m = p->steps[s].src[i].matrix;
    for (int32_t t = 0; t < s; t++) {
        if (reads(&p->steps[t], m)) return false;
    }
    for (int j = 0; j < i; j++) {
        if (p->steps[s].src[j].space == PLAN_WEIGHT && p->steps[s].src[j].matrix == m) return false;
    }
    return true;
}

uint64_t mica_plan_weight_bytes(const plan *p) {
    uint64_t sum = 0;
    for (int32_t s = 0; s < p->n_steps; s++) {
        if (p->steps[s].op == OP_EMBED) continue;
        for (int i = 0; i < p->steps[s].n_src; i++) {
            if (p->steps[s].src[i].space != PLAN_WEIGHT || !is_first(p, s, i)) continue;
            sum += mica_weight_bytes(p->steps[s].src[i].matrix);
        }
    }
    return sum;
}
