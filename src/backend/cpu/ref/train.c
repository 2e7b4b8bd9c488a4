/* train.c: gradients that are sums over rows, and the gradient of rms_norm.
 *
 * OUTER: dy [n_rows, n_out], x [n_rows, n_in] -> sum_r dy[r, o] * x[r, i]; SUM_ROWS: x [.., n] ->
 * [n]; one ascending sum an output, one rounding. RMS_NORM_GRAD, with r = 1/sqrt(mean(x^2) + eps)
 * and g = dy * w:  dx = r * (g - x * (r^2 * mean(g x))), in f32, one rounding.
 * Units: an output row, an output column, a row. (MATMUL_T stands in matmul.c, SILU_GRAD in
 * elementwise.c, ROPE_GRAD in rope.c, attention over a step's rows in attention_rows.c.)
 * Profile: exact. Source: docs/numerics.md 4.2.
 */
#include <math.h>

#include "backend/cpu/lanes.h"
#include "backend/cpu/operand.h"

static void run_outer(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    const kernel_operand *dy = &call->src[0], *x = &call->src[1], *out = &call->out;
    int64_t n_rows = operand_rows(x), n_in = operand_width(out);
    for (int64_t o = begin; o < end; o++) {
        for (int64_t i = 0; i < n_in; i++) {
            float sum = 0.0f;
            for (int64_t r = 0; r < n_rows; r++) {
                float g = operand_load(dy, operand_row(dy, r) + o * operand_step(dy));
                float product = g * operand_load(x, operand_row(x, r) + i * operand_step(x));
                sum += product;
            }
            operand_store_row(out, o, i, 1, &sum);
        }
    }
}

static int64_t n_units_columns(const kernel_call *call) { return operand_width(&call->out); }

static void run_sum_rows(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    const kernel_operand *x = &call->src[0];
    int64_t n_rows = operand_rows(x);
    for (int64_t i = begin; i < end; i++) {
        float sum = 0.0f;
        for (int64_t r = 0; r < n_rows; r++)
            sum += operand_load(x, operand_row(x, r) + i * operand_step(x));
        operand_store_row(&call->out, 0, i, 1, &sum);
    }
}

static size_t scratch_two_rows(const kernel_call *call) {
    return 2 * sizeof(float) * (size_t)operand_width(&call->src[0]);
}

static void run_rms_norm_grad(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    const kernel_operand *x = &call->src[0], *w = &call->src[1], *dy = &call->src[2];
    int64_t n = operand_width(x);
    float *x_row = scratch, *g_row = x_row + n;
    for (int64_t r = begin; r < end; r++) {
        operand_load_row(x, r, x_row);
        operand_load_row(dy, r, g_row);
        if (w->data)
            for (int64_t i = 0; i < n; i++)
                g_row[i] = g_row[i] * operand_load(w, i * operand_step(w));
        float mean = lanes_dot(x_row, x_row, n) / (float)n;
        float inv = 1.0f / sqrtf(mean + call->attr->norm.eps);
        float c = inv * inv * (lanes_dot(g_row, x_row, n) / (float)n);
        for (int64_t i = 0; i < n; i++) {
            float along = x_row[i] * c;
            g_row[i] = inv * (g_row[i] - along);
        }
        operand_store_row(&call->out, r, 0, n, g_row);
    }
}

MICA_DECLARE_KERNELS(train_ref);
const cpu_kernel mica_kernels_train_ref[] = {
    {"outer_ref", OP_OUTER, ISA_REF, declines_none, n_units_rows, run_outer, NULL},
    {"sum_rows_ref", OP_SUM_ROWS, ISA_REF, declines_none, n_units_columns, run_sum_rows, NULL},
    {"rms_norm_grad_ref", OP_RMS_NORM_GRAD, ISA_REF, declines_none, n_units_rows, run_rms_norm_grad,
     scratch_two_rows},
};
const int mica_n_kernels_train_ref = 3;
