/* target.h: what a backend must answer so that a plan can be made for it. Owned by the planner,
 * implemented by backends.
 */
#ifndef MICA_PLAN_TARGET_H
#define MICA_PLAN_TARGET_H

#include "plan/plan.h"

struct plan_target {
    const char *name; /* "cpu" */
    void *self;
    /* Chooses a kernel for a step whose operands are set (offsets not yet): fills kernel,
     * kernel_name and scratch_bytes. `bound` are the largest symbol values. MICA_E_UNSUPPORTED says
     * why each candidate declined. */
    mica_status (*choose)(void *self, plan_step *step, const int64_t bound[GRAPH_N_SYMS],
                          mica_error *err);
};

#endif
