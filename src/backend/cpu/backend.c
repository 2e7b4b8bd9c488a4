/* backend.c: the CPU backend: its threads, its kernel table, and its answer to the planner. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/backend.h"
#include "backend/cpu/call.h"

static void describe_operands(const plan_step *step, char *out, size_t n) {
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < step->n_src && used < n; i++) {
        const plan_operand *o = &step->src[i];
        char type[64] = "-";
        if (o->space == PLAN_CACHE) snprintf(type, sizeof(type), "cache");
        if (o->type.n_dims) mica_graph_type_text(&o->type, NULL, type, sizeof(type));
        if (o->space == PLAN_WEIGHT) {
            mica_weight_form_text(&o->matrix->form, type, sizeof(type));
        }
        int w = snprintf(out + used, n - used, "%s%s", i ? ", " : "", type);
        if (w > 0) used += (size_t)w;
    }
}

/* Levers must not lead to the reference where the ops that they replace have variants; products of
 * tiles never run on it. */
static bool is_definition_only(const cpu_backend *b, graph_op op, const cpu_kernel *kernel) {
    if (kernel->isa != ISA_REF) return false;
    switch (op) {
    case OP_MATMUL_BF16:
    case OP_GLU_MATMUL_BF16:
    case OP_EXPERT_MATMUL_BF16:
    case OP_EXPERT_GLU_MATMUL_BF16:
        return true;
    case OP_RMS_NORM_I8:
    case OP_LAYER_NORM_I8:
    case OP_MATMUL_I8:
    case OP_GLU_MATMUL_I8:
    case OP_GLU_ROWS_I8:
    case OP_EXPERT_MATMUL_I8:
    case OP_EXPERT_GLU_MATMUL_I8:
        return b->table.isa_mask != 1u << ISA_REF;
    default:
        return false;
    }
}

static mica_status choose(void *self, plan_step *step, const int64_t bound[GRAPH_N_SYMS],
                          mica_error *err) {
    const cpu_backend *b = self;
    kernel_call call;
    mica_cpu_call_init(&call, step, bound, mica_pool_threads(b->pool), NULL);
    const char *why = NULL;
    const cpu_kernel *kernel = mica_cpu_find_kernel(&b->table, &call, &why);
    bool is_slow = kernel && is_definition_only(b, step->op, kernel);
    if (is_slow) why = "no variant for this machine";
    if (!kernel || is_slow) {
        char operands[256];
        describe_operands(step, operands, sizeof(operands));
        return mica_fail(err, MICA_E_UNSUPPORTED, "%s (%s) of %s: no CPU kernel: %s",
                         mica_graph_op_name(step->op), step->name ? step->name : "no name",
                         operands, why ? why : "none declared");
    }
    step->kernel = kernel;
    step->kernel_name = kernel->name;
    step->scratch_bytes = kernel->scratch_bytes ? kernel->scratch_bytes(&call) : 0;
    return MICA_OK;
}

mica_status mica_cpu_new(cpu_backend **out, int n_threads, const char *mask, mica_error *err) {
    cpu_backend *b = mica_calloc(1, sizeof(*b));
    if (!b) return mica_fail(err, MICA_E_NOMEM, "cpu: out of memory");
    mica_status st = mica_cpu_table_init(&b->table, mask ? mask : getenv("MICA_CPU"), err);
    if (!st) st = mica_pool_new(&b->pool, n_threads, err);
    if (st) {
        mica_cpu_free(b);
        return st;
    }
    b->target = (plan_target){.name = "cpu", .self = b, .choose = choose};
    *out = b;
    return MICA_OK;
}

void mica_cpu_free(cpu_backend *backend) {
    if (!backend) return;
    mica_pool_free(backend->pool);
    mica_free(backend);
}

const plan_target *mica_cpu_target(const cpu_backend *backend) { return &backend->target; }

mica_pool *mica_cpu_pool(const cpu_backend *backend) { return backend->pool; }

int mica_cpu_threads(const cpu_backend *backend) { return mica_pool_threads(backend->pool); }

const cpu_table *mica_cpu_get_table(const cpu_backend *backend) { return &backend->table; }
