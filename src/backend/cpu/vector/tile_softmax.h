/* tile_softmax.h: the scores of a tile of keys become probabilities, for flash.h and parts.h, once
 * for every ISA; the sums of ref/online_softmax.h.
 */
#ifndef MICA_BACKEND_CPU_VECTOR_TILE_SOFTMAX_H
#define MICA_BACKEND_CPU_VECTOR_TILE_SOFTMAX_H

#include <math.h>

#include "backend/cpu/vector/activate.h"

/* The largest score of [lo, hi); scores of [first, last) beside them become -infinity. */
static inline float tile_largest(const kernel_call *call, float *scores, int64_t first,
                                 int64_t last, int64_t lo, int64_t hi) {
    float cap = call->attr->attention.softcap;
    v16 max = v16_set(-INFINITY);
    for (int64_t i = first; i < last && cap > 0.0f; i += 16)
        v16_store(scores + i, v16_softcap(v16_load(scores + i), cap, MICA_F32));
    for (int64_t i = first; i < lo; i++)
        scores[i] = -INFINITY;
    for (int64_t i = hi; i < last; i++)
        scores[i] = -INFINITY;
    for (int64_t i = first; i < last; i += 16)
        max = v16_max(v16_load(scores + i), max);
    return v16_largest(max);
}

/* Scores become probabilities relative to max; their sum. */
static inline float tile_soften(float *scores, int64_t first, int64_t last, float max) {
    v16 sum = v16_zero();
    for (int64_t i = first; i < last; i += 16) {
        v16 p = v16_exp_fused(v16_sub(v16_load(scores + i), v16_set(max)));
        v16_store(scores + i, p);
        sum = v16_add(sum, p);
    }
    return v16_join(sum);
}

#endif
