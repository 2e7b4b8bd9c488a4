/* scan.c: the selective scan of state-space models, one row of tokens at a time, and its step size.
 *
 * x [n_rows, H, P], dt f32 [n_rows, H], B, C [n_rows, G, N], a_log [H, N] or [H, 1], D [H]; the
 * state of a sequence is S [H, P, N] f32. Head h reads group h / (H / G):
 *   S = exp(-exp(a_log) dt) S + (dt x) B^T;  y = S C + D x
 * Sums over N are 16 interleaved ones (lanes.h), all in f32, one rounding of y; nothing depends on
 * where a step began. Unit: up to 16 heads of one sequence.
 * scan_step: softplus(dt + bias) in f32, cut to [least, most]. Unit: one row.
 * Profile: exact. Source: docs/models.md 15.
 */
#include "backend/cpu/activation.h"
#include "backend/cpu/lanes.h"
#include "backend/cpu/operand.h"

enum { IN_X, IN_DT, IN_A_LOG, IN_B, IN_C, IN_D, IN_STATE, IN_STATE_OUT, IN_SEQ_ROWS };
enum { UNIT_HEADS = 16 };

typedef struct scan_sizes {
    int64_t n_heads, width, n_groups, n_state;
} scan_sizes;

static scan_sizes sizes_of(const kernel_call *call) {
    const kernel_operand *x = &call->src[IN_X], *b = &call->src[IN_B];
    return (scan_sizes){x->dim[1], x->dim[2], b->dim[1], b->dim[2]};
}

static float *state_at(const kernel_call *call, int which, int64_t seq) {
    const uint64_t *addresses = call->src[which].data;
    return (float *)(uintptr_t)addresses[seq] + call->attr->conv.offset;
}

/* f32 [N] each, and [P]. */
typedef struct scan_scratch {
    float *rate, *decay, *b, *c, *x;
} scan_scratch;

static size_t scratch_scan(const kernel_call *call) {
    scan_sizes z = sizes_of(call);
    return sizeof(float) * (size_t)(4 * z.n_state + z.width);
}

/* exp(a_log) of head h, spread over the state where there is one for all. */
static void load_rates(const kernel_call *call, const scan_sizes *z, int64_t h, float *rate) {
    const kernel_operand *a = &call->src[IN_A_LOG];
    bool is_one = a->dim[1] == 1;
    for (int64_t n = 0; n < z->n_state; n++)
        rate[n] = is_one && n ? rate[0]
                              : exp_f32(operand_load(a, operand_row(a, h) + n * operand_step(a)));
}

static void run_row(const kernel_call *call, const scan_sizes *z, float *s, int64_t r, int64_t h,
                    const scan_scratch *m) {
    const kernel_operand *dt_all = &call->src[IN_DT], *d_all = &call->src[IN_D];
    int64_t group = h / (z->n_heads / z->n_groups);
    float dt = operand_load(dt_all, operand_row(dt_all, r) + h * operand_step(dt_all));
    float d = operand_load(d_all, h * operand_step(d_all));
    bool is_one = call->src[IN_A_LOG].dim[1] == 1;
    operand_load_row(&call->src[IN_B], r * z->n_groups + group, m->b);
    operand_load_row(&call->src[IN_C], r * z->n_groups + group, m->c);
    operand_load_row(&call->src[IN_X], r * z->n_heads + h, m->x);
    for (int64_t n = 0; n < z->n_state; n++)
        m->decay[n] = is_one && n ? m->decay[0] : exp_f32(-(m->rate[n] * dt));
    for (int64_t p = 0; p < z->width; p++) {
        float *row = s + p * z->n_state, x = m->x[p], u = dt * x, skip = d * x;
        for (int64_t n = 0; n < z->n_state; n++) {
            float old = m->decay[n] * row[n], change = u * m->b[n];
            row[n] = old + change;
        }
        m->x[p] = lanes_dot(row, m->c, z->n_state) + skip;
    }
    operand_store_row(&call->out, r, h * z->width, z->width, m->x);
}

static int64_t units_per_seq(const kernel_call *call) {
    return (call->src[IN_X].dim[1] + UNIT_HEADS - 1) / UNIT_HEADS;
}

static int64_t n_units_scan(const kernel_call *call) {
    return call->src[IN_STATE].dim[0] * units_per_seq(call);
}

static void run_scan(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    scan_sizes z = sizes_of(call);
    const int32_t *seq_rows = operand_i32(&call->src[IN_SEQ_ROWS]);
    int64_t per_seq = units_per_seq(call), n = z.width * z.n_state;
    scan_scratch m = {.rate = scratch};
    m.decay = m.rate + z.n_state;
    m.b = m.decay + z.n_state;
    m.c = m.b + z.n_state;
    m.x = m.c + z.n_state;
    for (int64_t u = begin; u < end; u++) {
        int64_t seq = u / per_seq, first = u % per_seq * UNIT_HEADS;
        int64_t last = first + UNIT_HEADS < z.n_heads ? first + UNIT_HEADS : z.n_heads;
        const float *before = state_at(call, IN_STATE, seq);
        float *after = state_at(call, IN_STATE_OUT, seq);
        for (int64_t h = first; h < last; h++) {
            if (after != before) memcpy(after + h * n, before + h * n, (size_t)n * sizeof(float));
            load_rates(call, &z, h, m.rate);
            for (int64_t r = seq_rows[seq]; r < seq_rows[seq + 1]; r++)
                run_row(call, &z, after + h * n, r, h, &m);
        }
    }
}

static void run_step(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    const kernel_operand *dt = &call->src[0], *bias = &call->src[1];
    float least = call->attr->scan_step.least, most = call->attr->scan_step.most;
    for (int64_t r = begin; r < end; r++)
        for (int64_t h = 0; h < operand_width(dt); h++) {
            float x = operand_load(dt, operand_row(dt, r) + h * operand_step(dt));
            if (bias->data) x = x + operand_load(bias, h * operand_step(bias));
            float y = act_softplus(x, MICA_F32);
            y = y < least ? least : y;
            y = y > most ? most : y;
            operand_store(&call->out, operand_row(&call->out, r) + h * operand_step(&call->out), y);
        }
}

MICA_DECLARE_KERNELS(scan_ref);
const cpu_kernel mica_kernels_scan_ref[] = {
    {"selective_scan_ref", OP_SELECTIVE_SCAN, ISA_REF, declines_none, n_units_scan, run_scan,
     scratch_scan},
    {"scan_step_ref", OP_SCAN_STEP, ISA_REF, declines_none, n_units_rows, run_step, NULL},
};
const int mica_n_kernels_scan_ref =
    sizeof(mica_kernels_scan_ref) / sizeof(mica_kernels_scan_ref[0]);
