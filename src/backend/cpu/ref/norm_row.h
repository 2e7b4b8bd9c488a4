/* norm_row.h: one row normalized, for the references that store it and those that quantize it.
 *
 * row holds it widened to f32 and takes the result, not yet rounded to T.
 */
#ifndef MICA_BACKEND_CPU_REF_NORM_ROW_H
#define MICA_BACKEND_CPU_REF_NORM_ROW_H

#include <math.h>

#include "backend/cpu/lanes.h"
#include "backend/cpu/operand.h"

static inline void rms_norm_row(const kernel_call *call, float *row, mica_dtype t) {
    const kernel_operand *w = &call->src[1];
    int64_t n = operand_width(&call->src[0]);
    float mean = lanes_dot(row, row, n) / (float)n;
    float inv = 1.0f / sqrtf(mean + call->attr->norm.eps);
    for (int64_t i = 0; i < n; i++) {
        row[i] = mica_round_to(row[i] * inv, t);
        if (w->data) row[i] = row[i] * operand_load(w, i * operand_step(w));
    }
}

static inline void layer_norm_row(const kernel_call *call, float *row, mica_dtype t) {
    const kernel_operand *w = &call->src[1], *b = &call->src[2];
    int64_t n = operand_width(&call->src[0]);
    float mean = lanes_sum(row, n) / (float)n;
    for (int64_t i = 0; i < n; i++)
        row[i] = row[i] - mean;
    float inv = 1.0f / sqrtf(lanes_dot(row, row, n) / (float)n + call->attr->norm.eps);
    for (int64_t i = 0; i < n; i++) {
        row[i] = mica_round_to(row[i] * inv, t);
        if (w->data) row[i] = mica_round_to(row[i] * operand_load(w, i * operand_step(w)), t);
        if (b->data) row[i] = row[i] + operand_load(b, i * operand_step(b));
    }
}

#endif
