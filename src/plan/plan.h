/* plan.h: a graph compiled for one backend: a flat tape of steps with memory laid out, replayed
 * with new inputs. Replaying builds nothing and allocates nothing.
 *
 * Passes, one file each, in this order: dead_code.c, rewrite.c (named rules = levers), dead code
 * again, split.c (the lever parts), quantize.c (the levers int16, int8 and bf16), rewrite.c again
 * (norm-rows, glu-rows, residual), schedule into steps (tape.c), memory.c (arena offsets by
 * liveness), choose.c (one kernel a step, asked of the target).
 */
#ifndef MICA_PLAN_PLAN_H
#define MICA_PLAN_PLAN_H

#include "graph/graph.h"
#include "plan/levers.h"

typedef struct plan_target plan_target;

typedef enum plan_space {
    PLAN_NONE,   /* no operand */
    PLAN_ARENA,  /* byte `offset` of the plan's arena */
    PLAN_INPUT,  /* array bound to `slot`, plus `offset` bytes */
    PLAN_CONST,  /* `data` */
    PLAN_WEIGHT, /* `matrix` */
    PLAN_CACHE   /* base pointer bound to cache layer `slot` */
} plan_space;

typedef struct plan_operand {
    plan_space space;
    graph_type type;
    uint64_t offset;
    int32_t slot;
    const void *data;
    const weight_matrix *matrix;
    graph_id id; /* of the graph node, for printing */
} plan_operand;

typedef struct plan_step {
    graph_op op;
    const char *name; /* of the node; may be NULL */
    graph_attr attr;
    plan_operand out;
    plan_operand src[GRAPH_MAX_SRC];
    int n_src;
    /* the target's choice */
    const void *kernel;
    const char *kernel_name;
    size_t scratch_bytes; /* for each thread */
} plan_step;

typedef struct plan_input_info {
    const char *name;
    graph_type type;
} plan_input_info;

typedef struct plan {
    plan_step *steps;
    int32_t n_steps;
    uint64_t arena_bytes; /* at the bounds */
    size_t scratch_bytes; /* for each thread: the largest of any step */
    plan_operand outputs[8];
    int n_outputs;
    plan_input_info *inputs; /* by slot */
    int32_t n_inputs;
    int32_t n_caches;
    int64_t bound[GRAPH_N_SYMS]; /* largest value of each symbol; bound[GRAPH_FIXED] = 1 */
    const plan_target *target;
    mica_arena memory;
    char *passes; /* one line a pass: what it did; for `mica plan` */
} plan;

typedef struct plan_options {
    int64_t bound[GRAPH_N_SYMS];
    lever_set levers; /* which rewrite rules may fire */
    bool no_reuse;    /* every tensor keeps its own memory until the end: for traces and tests */
} plan_options;

/* Compiles `g` (which must outlive the plan: constants, weights and names are borrowed). Rewriting
 * works on a copy: `g` stays as it is, and may be compiled again with other options.
 * MICA_E_UNSUPPORTED names the step for which the target has no kernel. */
mica_status mica_plan_compile(plan **out, const graph *g, const plan_target *target,
                              const plan_options *options, mica_error *err);
void mica_plan_free(plan *p); /* NULL is fine */

/* What a run binds. All arrays are contiguous with the row counts in sym. */
typedef struct plan_inputs {
    int64_t sym[GRAPH_N_SYMS]; /* sym[GRAPH_FIXED] = 1; none above the bound */
    void *const *arrays;       /* [n_inputs] */
    void *const *caches;       /* [n_caches]: base of block 0 of each layer */
} plan_inputs;

/* Bytes that one run moves with these symbol values: weights once, activations, consts. Cache reads
 * are counted by the caller, who knows the lengths. */
uint64_t mica_plan_bytes(const plan *p, const int64_t sym[GRAPH_N_SYMS]);
uint64_t mica_plan_weight_bytes(const plan *p);

/* The tape for people, or JSON, appended to *out (a growing string that mica_free releases): op,
 * name, shapes, dtypes, kernel, bytes, arena offset. sym: row counts to show. */
mica_status mica_plan_print(const plan *p, const int64_t sym[GRAPH_N_SYMS], bool json, char **out,
                            mica_error *err);

#endif
