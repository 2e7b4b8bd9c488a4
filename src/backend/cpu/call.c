/* call.c: resolves a step's operands into what kernels see: pointers, sizes and strides. */
#include "backend/cpu/call.h"

#include <string.h>

/* Never read or written: stands for memory that only a run knows. */
static char placeholder[64];

static void init_operand(kernel_operand *out, const plan_operand *o, const int64_t *sym,
                         void *arena) {
    memset(out, 0, sizeof(*out));
    if (o->space == PLAN_NONE) return;
    out->dtype = o->type.dtype;
    out->n_dims = o->type.n_dims;
    for (int i = 0; i < o->type.n_dims; i++) {
        out->dim[i] = mica_graph_dim_size(o->type.dim[i], sym);
        out->stride[i] = o->type.stride[i];
    }
    switch (o->space) {
    case PLAN_ARENA:
        out->data = arena ? (char *)arena + o->offset : placeholder;
        break;
    case PLAN_CONST:
        out->data = (void *)(uintptr_t)o->data; /* kernels do not write their sources */
        break;
    case PLAN_WEIGHT:
        out->matrix = o->matrix;
        break;
    default:
        out->data = placeholder;
        break;
    }
}

void mica_cpu_call_init(kernel_call *call, const plan_step *step, const int64_t sym[GRAPH_N_SYMS],
                        int n_threads, void *arena) {
    call->op = step->op;
    call->attr = &step->attr;
    call->n_src = step->n_src;
    call->n_threads = n_threads;
    init_operand(&call->out, &step->out, sym, arena);
    for (int i = 0; i < GRAPH_MAX_SRC; i++)
        init_operand(&call->src[i], &step->src[i], sym, arena);
}
