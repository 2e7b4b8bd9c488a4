/* cases_recurrent.c: random calls of convolutions, scans and what stands before a recurrence, with
 * their values in double.
 */
#include <math.h>
#include <stdlib.h>

#include "check.h"

/* Numbers of ordinary size: sums over many rows must not overflow. */
static void ordinary(check_case *c, int i, mica_dtype t, int n_dims, const int64_t *dims,
                     double middle, double spread) {
    kernel_operand *o = &c->call.src[i];
    check_operand(c, i, t, n_dims, dims);
    int64_t n = operand_width(o);
    for (int64_t r = 0; r < operand_rows(o); r++)
        for (int64_t k = 0; k < n; k++)
            operand_store(o, operand_row(o, r) + k * operand_step(o),
                          (float)(middle + spread * check_uniform(&c->rng)));
}

/* Rows of one or two sequences as source i: how many there are. */
static int64_t sequences(check_case *c, int i, int64_t n_seqs) {
    int64_t ends = n_seqs + 1, rows = 0;
    int32_t *seq_rows = check_operand_i32(c, i, 1, &ends);
    seq_rows[0] = 0;
    for (int64_t s = 0; s < n_seqs; s++)
        seq_rows[s + 1] = (int32_t)(rows += check_below(&c->rng, 12));
    return rows;
}

/* States before (source i) and after (i + 1), of n floats each. */
static void states(check_case *c, int i, int64_t n_seqs, int64_t n) {
    float *state = check_memory(c, (size_t)(n_seqs * n) * 4);
    for (int64_t k = 0; k < n_seqs * n; k++)
        state[k] = (float)check_uniform(&c->rng);
    c->effect_bytes = (size_t)(n_seqs * n) * 4;
    c->effect = check_memory(c, c->effect_bytes);
    memset(c->effect, 0, c->effect_bytes);
    for (int k = 0; k < 2; k++) {
        kernel_operand *o = &c->call.src[i + k];
        *o = (kernel_operand){.dtype = MICA_U64, .n_dims = 1, .dim = {n_seqs}, .stride = {1}};
        uint64_t *addresses = o->data = check_memory(c, (size_t)n_seqs * 8);
        float *base = k ? (float *)(void *)c->effect : state;
        for (int64_t s = 0; s < n_seqs; s++)
            addresses[s] = (uint64_t)(uintptr_t)(base + s * n);
    }
}

static const float *state_of(const check_case *c, int i, int64_t seq) {
    return (const float *)(uintptr_t)((const uint64_t *)c->call.src[i].data)[seq];
}

/* ---- convolution ---- */
static void make_conv(check_case *c) {
    int64_t n = check_between(&c->rng, 1, 150), width = check_between(&c->rng, 1, 5);
    int64_t n_seqs = check_between(&c->rng, 1, 2), rows = sequences(c, 5, n_seqs);
    int64_t x[2] = {rows, n}, w[2] = {n, width};
    ordinary(c, 0, check_float_dtype(c), 2, x, 0, 2);
    ordinary(c, 1, check_float_dtype(c), 2, w, 0, 1);
    if (check_below(&c->rng, 2)) ordinary(c, 2, check_float_dtype(c), 1, &n, 0, 1);
    states(c, 3, n_seqs, (width - 1) * n);
    c->call.n_src = 6;
    check_output(c, check_float_dtype(c), 2, x);
}

static void truth_conv(const check_case *c, double *want, double *bound) {
    const kernel_operand *x = &c->call.src[0], *w = &c->call.src[1], *bias = &c->call.src[2];
    const int32_t *seq_rows = operand_i32(&c->call.src[5]);
    int64_t n = x->dim[1], width = w->dim[1];
    for (int64_t s = 0; s < c->call.src[3].dim[0]; s++)
        for (int64_t r = seq_rows[s]; r < seq_rows[s + 1]; r++)
            for (int64_t k = 0; k < n; k++) {
                double y = bias->data ? check_at(bias, 0, k) : 0, size = fabs(y);
                for (int64_t j = 0; j < width; j++) {
                    int64_t from = r - (width - 1) + j, before = from - seq_rows[s] + width - 1;
                    double v = from < seq_rows[s] ? (double)state_of(c, 3, s)[before * n + k]
                                                  : check_at(x, from, k);
                    y += v * check_at(w, k, j);
                    size += fabs(v * check_at(w, k, j));
                }
                want[r * n + k] = y;
                bound[r * n + k] = (double)(width + 2) * CHECK_U * size;
                bound[r * n + k] += check_rounding(c->call.out.dtype, fabs(y) + bound[r * n + k]);
            }
}

/* ---- decay and step ---- */
static void make_decay(check_case *c) {
    int64_t a[2] = {check_below(&c->rng, 6), check_between(&c->rng, 1, 40)};
    ordinary(c, 0, MICA_F32, 2, a, 0, 8);
    ordinary(c, 1, check_float_dtype(c), 1, &a[1], 0, 2);
    ordinary(c, 2, check_float_dtype(c), 1, &a[1], 0, 2);
    check_output(c, MICA_F32, 2, a);
}

static double softplus(double x) { return (x > 0 ? x : 0) + log1p(exp(-fabs(x))); }

/* The exponent is off by a few roundings of itself, and by what the sum's rounding moves. */
static void truth_decay(const check_case *c, double *want, double *bound) {
    const kernel_operand *a = &c->call.src[0];
    int64_t n = operand_width(a);
    for (int64_t e = 0; e < operand_rows(a) * n; e++) {
        double dt = check_at(a, e / n, e % n) + check_at(&c->call.src[1], 0, e % n);
        double rate = exp(check_at(&c->call.src[2], 0, e % n)), x = rate * softplus(dt);
        want[e] = exp(-x);
        bound[e] = want[e] * CHECK_U * (8 * x + rate * (fabs(dt) + 4) + 4);
    }
}

static void make_step(check_case *c) {
    int64_t dt[2] = {check_below(&c->rng, 6), check_between(&c->rng, 1, 40)};
    ordinary(c, 0, check_float_dtype(c), 2, dt, 0, 6);
    if (check_below(&c->rng, 2)) ordinary(c, 1, check_float_dtype(c), 1, &dt[1], 0, 3);
    c->call.n_src = 2;
    check_output(c, MICA_F32, 2, dt);
    bool cut = check_below(&c->rng, 2);
    c->attr.scan_step.least = cut ? 0.25f : 0.0f;
    c->attr.scan_step.most = cut ? 2.0f : 3e38f;
}

static void truth_step(const check_case *c, double *want, double *bound) {
    const kernel_operand *dt = &c->call.src[0], *bias = &c->call.src[1];
    int64_t n = operand_width(dt);
    for (int64_t e = 0; e < operand_rows(dt) * n; e++) {
        double x = check_at(dt, e / n, e % n) + (bias->data ? check_at(bias, 0, e % n) : 0);
        double y = fmax(softplus(x), (double)c->attr.scan_step.least);
        want[e] = fmin(y, (double)c->attr.scan_step.most);
        bound[e] = CHECK_U * (6 * want[e] + fabs(x) + 1);
    }
}

/* ---- selective scan ---- */
static void make_scan(check_case *c) {
    int64_t groups = check_between(&c->rng, 1, 3), heads = groups * check_between(&c->rng, 1, 9);
    int64_t width = check_between(&c->rng, 1, 9), n = check_between(&c->rng, 1, 40);
    int64_t n_seqs = check_between(&c->rng, 1, 2), rows = sequences(c, 8, n_seqs);
    int64_t x[3] = {rows, heads, width}, b[3] = {rows, groups, n}, out[2] = {rows, heads * width};
    int64_t rates[2] = {heads, check_below(&c->rng, 2) ? n : 1};
    ordinary(c, 0, check_float_dtype(c), 3, x, 0, 1);
    ordinary(c, 1, MICA_F32, 2, x, 1, 0.9);
    ordinary(c, 2, check_float_dtype(c), 2, rates, 0, 1);
    ordinary(c, 3, check_float_dtype(c), 3, b, 0, 1);
    ordinary(c, 4, check_float_dtype(c), 3, b, 0, 1);
    ordinary(c, 5, check_float_dtype(c), 1, &heads, 0, 1);
    states(c, 6, n_seqs, heads * width * n);
    c->call.n_src = 9;
    check_output(c, check_float_dtype(c), 2, out);
}

/* Channel p of head h of sequence s, row by row. `size` runs the same recurrence on magnitudes. */
static void scan_channel(const check_case *c, int64_t s, int64_t h, int64_t p, double *want,
                         double *bound) {
    const kernel_operand *src = c->call.src;
    const int32_t *seq_rows = operand_i32(&src[8]);
    int64_t heads = src[0].dim[1], width = src[0].dim[2], groups = src[3].dim[1];
    int64_t n = src[3].dim[2], g = h / (heads / groups);
    double state[40], size[40], steepest = 0;
    for (int64_t k = 0; k < n; k++) {
        state[k] = (double)state_of(c, 6, s)[(h * width + p) * n + k];
        size[k] = fabs(state[k]);
    }
    for (int64_t r = seq_rows[s]; r < seq_rows[s + 1]; r++) {
        double dt = check_at(&src[1], r, h), x = check_at(&src[0], r * heads + h, p);
        double y = check_at(&src[5], 0, h) * x, all = fabs(y);
        for (int64_t k = 0; k < n; k++) {
            double e = dt * exp(check_at(&src[2], h, src[2].dim[1] == 1 ? 0 : k));
            double b = check_at(&src[3], r * groups + g, k),
                   m = check_at(&src[4], r * groups + g, k);
            state[k] = exp(-e) * state[k] + dt * x * b;
            size[k] = exp(-e) * size[k] + fabs(dt * x * b);
            y += state[k] * m;
            all += size[k] * fabs(m);
            steepest = fmax(steepest, e);
        }
        int64_t at = r * heads * width + h * width + p;
        double n_roundings =
            (double)n / 16 + 10 + (double)(r - seq_rows[s] + 1) * (8 + 8 * steepest);
        want[at] = y;
        bound[at] = n_roundings * CHECK_U * all;
        bound[at] += check_rounding(c->call.out.dtype, fabs(y) + bound[at]);
    }
}

static void truth_scan(const check_case *c, double *want, double *bound) {
    for (int64_t s = 0; s < c->call.src[6].dim[0]; s++)
        for (int64_t h = 0; h < c->call.src[0].dim[1]; h++)
            for (int64_t p = 0; p < c->call.src[0].dim[2]; p++)
                scan_channel(c, s, h, p, want, bound);
}

const check_op check_ops_recurrent[] = {
    {"causal_conv", OP_CAUSAL_CONV, 100, make_conv, truth_conv},
    {"delta_decay", OP_DELTA_DECAY, 60, make_decay, truth_decay},
    {"selective_scan", OP_SELECTIVE_SCAN, 100, make_scan, truth_scan},
    {"scan_step", OP_SCAN_STEP, 60, make_step, truth_step},
};
const int check_n_ops_recurrent = sizeof(check_ops_recurrent) / sizeof(check_ops_recurrent[0]);
