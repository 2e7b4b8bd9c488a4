/* phases.h: which steps of a plan may run between two barriers; private to the CPU backend. */
#ifndef MICA_BACKEND_CPU_PHASES_H
#define MICA_BACKEND_CPU_PHASES_H

#include "backend/cpu/kernel.h"
#include "plan/plan.h"

/* last[s] = the latest step before s that must have ended when s begins, because one of the two
 * writes what the other reads or writes; -1: none. [n_steps]. */
void mica_cpu_find_conflicts(const plan *p, int32_t *last);

/* Whether a step is so small with the sizes of this run that sharing it would cost more than doing
 * it. Matmuls, attention and recurrences never are. */
bool mica_cpu_is_small(const cpu_kernel *kernel, const kernel_call *call);

#endif
