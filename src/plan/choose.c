/* choose.c: asks the target for one kernel a step. */
#include "plan/work.h"

#include <inttypes.h>

mica_status mica_plan_choose(plan_work *w, mica_error *err) {
    plan *p = w->p;
    for (int32_t s = 0; s < p->n_steps; s++) {
        mica_status st = p->target->choose(p->target->self, &p->steps[s], p->bound, err);
        if (st) return st;
        if (p->steps[s].scratch_bytes > p->scratch_bytes) {
            p->scratch_bytes = p->steps[s].scratch_bytes;
        }
    }
    mica_plan_note(w, "kernels: chosen for %s, %zu bytes of scratch a thread", p->target->name,
                   p->scratch_bytes);
    return MICA_OK;
}
