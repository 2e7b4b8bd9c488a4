/* conv.c: what stands before a recurrence: a causal convolution of each channel over its last K
 * rows, and the decay of the gated delta rule.
 *
 * conv: x [n_rows, C], w [C, K], bias [C] or none; the state of a sequence holds the K-1 rows
 * before the step, f32 [K-1, C], oldest first. out[r, c] is the sum over ascending j of
 * w[c, j] * x[r - (K-1) + j, c], then the bias, in f32, one rounding; so a row's bits do not depend
 * on where a step began. Unit: 64 channels of one sequence.
 * decay: g = exp(-exp(a_log) * softplus(a + dt_bias)); sum and softplus round to a's dtype, the
 * rest is f32. Unit: one row. Profile: exact. Source: docs/models.md 11.2.
 */
#include "backend/cpu/activation.h"
#include "backend/cpu/operand.h"

enum { IN_X, IN_WEIGHT, IN_BIAS, IN_STATE, IN_STATE_OUT, IN_SEQ_ROWS };
enum { UNIT_CHANNELS = 64 };

static float *state_at(const kernel_call *call, int which, int64_t seq) {
    const uint64_t *addresses = call->src[which].data;
    return (float *)(uintptr_t)addresses[seq] + call->attr->conv.offset;
}

/* The input of channel c at row `r` of the step, or before it: r < first is in the state. */
static float input_at(const kernel_call *call, const float *before, int64_t first, int64_t r,
                      int64_t c, int64_t n_before) {
    const kernel_operand *x = &call->src[IN_X];
    if (r < first) return before[(r - first + n_before) * x->dim[1] + c];
    return operand_load(x, operand_row(x, r) + c * operand_step(x));
}

static float convolve(const kernel_call *call, const float *before, int64_t first, int64_t r,
                      int64_t c) {
    const kernel_operand *w = &call->src[IN_WEIGHT], *bias = &call->src[IN_BIAS];
    int64_t width = w->dim[1];
    float sum = 0.0f;
    for (int64_t j = 0; j < width; j++) {
        float product = operand_load(w, operand_row(w, c) + j * operand_step(w)) *
                        input_at(call, before, first, r - (width - 1) + j, c, width - 1);
        sum = sum + product;
    }
    return bias->data ? sum + operand_load(bias, c * operand_step(bias)) : sum;
}

static int64_t units_per_seq(const kernel_call *call) {
    return (call->src[IN_X].dim[1] + UNIT_CHANNELS - 1) / UNIT_CHANNELS;
}

static int64_t n_units_conv(const kernel_call *call) {
    return call->src[IN_STATE].dim[0] * units_per_seq(call);
}

/* The K-1 newest rows in ascending order: a row is read before its place is written, also when the
 * state is its own successor. */
static void push_rows(const kernel_call *call, const float *before, float *after, int64_t first,
                      int64_t last, int64_t c) {
    int64_t n_before = call->src[IN_WEIGHT].dim[1] - 1, n_channels = call->src[IN_X].dim[1];
    for (int64_t j = 0; j < n_before; j++)
        after[j * n_channels + c] = input_at(call, before, first, last - n_before + j, c, n_before);
}

static void run_conv(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    const int32_t *seq_rows = operand_i32(&call->src[IN_SEQ_ROWS]);
    const kernel_operand *out = &call->out;
    int64_t per_seq = units_per_seq(call), n_channels = call->src[IN_X].dim[1];
    for (int64_t u = begin; u < end; u++) {
        int64_t seq = u / per_seq, from = u % per_seq * UNIT_CHANNELS;
        int64_t to = from + UNIT_CHANNELS < n_channels ? from + UNIT_CHANNELS : n_channels;
        int64_t first = seq_rows[seq], last = seq_rows[seq + 1];
        const float *before = state_at(call, IN_STATE, seq);
        float *after = state_at(call, IN_STATE_OUT, seq);
        for (int64_t r = first; r < last; r++)
            for (int64_t c = from; c < to; c++)
                operand_store(out, operand_row(out, r) + c * operand_step(out),
                              convolve(call, before, first, r, c));
        for (int64_t c = from; c < to; c++)
            push_rows(call, before, after, first, last, c);
    }
}

static void run_decay(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    const kernel_operand *a = &call->src[0], *dt_bias = &call->src[1], *a_log = &call->src[2];
    mica_dtype t = a->dtype;
    for (int64_t r = begin; r < end; r++)
        for (int64_t h = 0; h < operand_width(a); h++) {
            float dt = operand_load(a, operand_row(a, r) + h * operand_step(a)) +
                       operand_load(dt_bias, h * operand_step(dt_bias));
            float rate = exp_f32(operand_load(a_log, h * operand_step(a_log)));
            float g = exp_f32(-(rate * act_softplus(mica_round_to(dt, t), t)));
            operand_store(&call->out, operand_row(&call->out, r) + h * operand_step(&call->out), g);
        }
}

MICA_DECLARE_KERNELS(conv_ref);
const cpu_kernel mica_kernels_conv_ref[] = {
    {"causal_conv_ref", OP_CAUSAL_CONV, ISA_REF, declines_none, n_units_conv, run_conv, NULL},
    {"delta_decay_ref", OP_DELTA_DECAY, ISA_REF, declines_none, n_units_rows, run_decay, NULL},
};
const int mica_n_kernels_conv_ref =
    sizeof(mica_kernels_conv_ref) / sizeof(mica_kernels_conv_ref[0]);
