/* rope.c: rotary position embedding: angles once for a row, then the rotation of every head.
 *
 * Angles: theta = (position_scale * pos) * (1 / period) in f32; out [n_rows, 2*half] f32 holds the
 * cosines, then the sines. An infinite period does not rotate.
 * Rotation: x [n_rows, heads, head_dim]; the first `dims` channels turn in pairs (i, i + dims/2),
 * or (2i, 2i+1) when traditional; products and sums in f32, one rounding; the others are copied.
 * input_scale other than 1 multiplies the turned channels first: rT(x * rT(scale)).
 * ROPE_GRAD turns the other way. Unit: one row of angles; one head of one row.
 * Profile: exact. Source: docs/numerics.md 4.3.
 */
#include "backend/cpu/operand.h"
#include "backend/cpu/scalar_math.h"

static void run_angles(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    const kernel_operand *periods = &call->src[1], *out = &call->out;
    const int32_t *positions = operand_i32(&call->src[0]);
    int64_t half = operand_width(periods);
    for (int64_t r = begin; r < end; r++) {
        float pos = call->attr->angles.position_scale * (float)positions[r];
        int64_t off = operand_row(out, r), step = operand_step(out);
        int64_t p_off = operand_row(periods, r), p_step = operand_step(periods);
        for (int64_t i = 0; i < half; i++) {
            float s, c;
            sin_cos_f32(pos * (1.0f / operand_load(periods, p_off + i * p_step)), &s, &c);
            operand_store(out, off + i * step, c);
            operand_store(out, off + (half + i) * step, s);
        }
    }
}

/* One head of one row; sign -1 turns back. */
static void rotate(const kernel_call *call, int64_t unit, float sign, float input_scale) {
    const kernel_operand *x = &call->src[0], *out = &call->out, *angles = &call->src[1];
    int64_t n = operand_width(x), dims = call->attr->rope.dims, half = dims / 2;
    int64_t x_off = operand_row(x, unit), x_step = operand_step(x);
    int64_t out_off = operand_row(out, unit), out_step = operand_step(out);
    int64_t a_off = operand_row(angles, unit / x->dim[1]), a_step = operand_step(angles);
    mica_dtype t = out->dtype;
    float scale = mica_round_to(input_scale, t);
    for (int64_t i = 0; i < half; i++) {
        int64_t first = call->attr->rope.traditional ? 2 * i : i;
        int64_t second = call->attr->rope.traditional ? 2 * i + 1 : i + half;
        float x1 = operand_load(x, x_off + first * x_step);
        float x2 = operand_load(x, x_off + second * x_step);
        if (input_scale != 1.0f) {
            x1 = mica_round_to(x1 * scale, t);
            x2 = mica_round_to(x2 * scale, t);
        }
        float c = operand_load(angles, a_off + i * a_step);
        float s = sign * operand_load(angles, a_off + (half + i) * a_step);
        operand_store(out, out_off + first * out_step, x1 * c - x2 * s);
        operand_store(out, out_off + second * out_step, x1 * s + x2 * c);
    }
    for (int64_t i = dims; i < n; i++)
        operand_store(out, out_off + i * out_step, operand_load(x, x_off + i * x_step));
}

static void run_rope(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    for (int64_t u = begin; u < end; u++)
        rotate(call, u, 1.0f, call->attr->rope.input_scale);
}

/* The gradient of the input scale is a multiplication as well, after turning back. */
static void run_rope_grad(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    const kernel_operand *out = &call->out;
    float scale = mica_round_to(call->attr->rope.input_scale, out->dtype);
    for (int64_t u = begin; u < end; u++) {
        rotate(call, u, -1.0f, 1.0f);
        if (scale == 1.0f) continue;
        for (int64_t i = 0; i < call->attr->rope.dims; i++) {
            int64_t at = operand_row(out, u) + i * operand_step(out);
            operand_store(out, at, operand_load(out, at) * scale);
        }
    }
}

MICA_DECLARE_KERNELS(rope_ref);
const cpu_kernel mica_kernels_rope_ref[] = {
    {"rope_angles_ref", OP_ROPE_ANGLES, ISA_REF, declines_none, n_units_rows, run_angles, NULL},
    {"rope_ref", OP_ROPE, ISA_REF, declines_none, n_units_rows, run_rope, NULL},
    {"rope_grad_ref", OP_ROPE_GRAD, ISA_REF, declines_none, n_units_rows, run_rope_grad, NULL},
};
const int mica_n_kernels_rope_ref = 3;
