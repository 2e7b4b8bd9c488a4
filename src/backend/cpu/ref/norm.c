/* norm.c: rms_norm, layer_norm and what else needs a row's mean, over the last dimension.
 *
 * x [.., n]; weight, bias [n] or absent; out [.., n] of dtype T. Sums are 16 interleaved f32 sums
 * (lanes.h), divided by n; 1/sqrt is a root and a division, each rounded.
 * rms_norm: rT(rT(x * 1/sqrt(mean(x^2) + eps)) * w): two roundings, one without a weight.
 * layer_norm: rT((x - mean) * 1/sqrt(var + eps)), then rT(* w), then rT(+ b); var is biased.
 * Both: with a last operand [.., n] or [n], rT(that + the result).
 * Unit: one row. Profile: exact. Source: docs/numerics.md 4.2.
 */
#include <math.h>

#include "backend/cpu/ref/norm_row.h"

static size_t scratch_row(const kernel_call *call) {
    return sizeof(float) * (size_t)operand_width(&call->src[0]);
}

static void run_norm(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    const kernel_operand *x = &call->src[0], *out = &call->out;
    const kernel_operand *added = &call->src[call->op == OP_RMS_NORM ? 2 : 3];
    int64_t n = operand_width(x);
    float *row = scratch;
    for (int64_t r = begin; r < end; r++) {
        operand_load_row(x, r, row);
        if (call->op == OP_RMS_NORM)
            rms_norm_row(call, row, out->dtype);
        else
            layer_norm_row(call, row, out->dtype);
        if (added->data) operand_add_row(added, r, 0, n, out->dtype, row);
        operand_store_row(out, r, 0, n, row);
    }
}

/* Mean, deviation, cutoff and difference are rounded to T, as is c. */
static void run_gauss_top(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    const kernel_operand *x = &call->src[0];
    int64_t n = operand_width(x);
    mica_dtype t = call->out.dtype;
    float *row = scratch, *centred = row + n, c = mica_round_to(call->attr->scale.c, t);
    for (int64_t r = begin; r < end; r++) {
        operand_load_row(x, r, row);
        float mean = lanes_sum(row, n) / (float)n;
        for (int64_t i = 0; i < n; i++)
            centred[i] = row[i] - mean;
        float std = mica_round_to(sqrtf(lanes_dot(centred, centred, n) / (float)n), t);
        float cutoff = mica_round_to(mica_round_to(mean, t) + mica_round_to(std * c, t), t);
        for (int64_t i = 0; i < n; i++)
            row[i] = row[i] > cutoff ? row[i] - cutoff : 0.0f;
        operand_store_row(&call->out, r, 0, n, row);
    }
}

static size_t scratch_two_rows(const kernel_call *call) { return 2 * scratch_row(call); }

/* Both roots and the product are rounded to T before the division. */
static void run_match_rms(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    const kernel_operand *x = &call->src[0], *y = &call->src[1];
    int64_t n = operand_width(x);
    mica_dtype t = call->out.dtype;
    float *row = scratch;
    for (int64_t r = begin; r < end; r++) {
        operand_load_row(y, r, row);
        float want = mica_round_to(sqrtf(lanes_dot(row, row, n) / (float)n), t);
        operand_load_row(x, r, row);
        float mean = lanes_dot(row, row, n) / (float)n, least = call->attr->norm.eps;
        float have = mica_round_to(sqrtf(mean > least ? mean : least), t);
        for (int64_t i = 0; i < n; i++)
            row[i] = mica_round_to(row[i] * want, t) / have;
        operand_store_row(&call->out, r, 0, n, row);
    }
}

MICA_DECLARE_KERNELS(norm_ref);
const cpu_kernel mica_kernels_norm_ref[] = {
    {"rms_norm_ref", OP_RMS_NORM, ISA_REF, declines_none, n_units_rows, run_norm, scratch_row},
    {"layer_norm_ref", OP_LAYER_NORM, ISA_REF, declines_none, n_units_rows, run_norm, scratch_row},
    {"gauss_top_ref", OP_GAUSS_TOP, ISA_REF, declines_none, n_units_rows, run_gauss_top,
     scratch_two_rows},
    {"match_rms_ref", OP_MATCH_RMS, ISA_REF, declines_none, n_units_rows, run_match_rms,
     scratch_row},
};
const int mica_n_kernels_norm_ref = 4;
