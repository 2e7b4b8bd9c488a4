/* call.h: from a step of a plan to the call of a kernel; private to the backend. */
#ifndef MICA_BACKEND_CPU_CALL_H
#define MICA_BACKEND_CPU_CALL_H

#include "backend/cpu/kernel.h"
#include "plan/plan.h"

/* Fills the call with the sizes that hold for `sym`, for so many threads, and with `arena` as the
 * base of arena operands. Operands bound at run time point to a placeholder, so that a kernel sees
 * which ones exist. */
void mica_cpu_call_init(kernel_call *call, const plan_step *step, const int64_t sym[GRAPH_N_SYMS],
                        int n_threads, void *arena);

#endif
