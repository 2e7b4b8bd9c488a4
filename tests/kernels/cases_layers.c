/* cases_layers.c: random calls of norms, rotary embedding, experts, gated delta and training ops.
 */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "graph/expert_groups.h"

static int64_t random_n(check_case *c) {
    static const int64_t widths[] = {1, 15, 16, 17, 31, 33, 64, 128, 256, 576, 640};
    return widths[check_below(&c->rng, 11)];
}

/* ---- norms ---- */
static void make_norm(check_case *c) {
    int64_t n = check_below(&c->rng, 2) ? random_n(c) : check_between(&c->rng, 1, 1200);
    int64_t rows = check_below(&c->rng, 6);
    int64_t dims[3] = {rows, check_between(&c->rng, 1, 4), n};
    int n_dims = (int)check_between(&c->rng, 2, 3);
    check_operand(c, 0, check_float_dtype(c), n_dims, dims + 3 - n_dims);
    if (check_below(&c->rng, 4)) check_operand(c, 1, check_float_dtype(c), 1, &n);
    int last = c->call.op == OP_RMS_NORM ? 1 : 2, added = (int)check_below(&c->rng, 3);
    if (last == 2 && check_below(&c->rng, 2)) check_operand(c, 2, check_float_dtype(c), 1, &n);
    c->call.n_src = last + 1;
    if (added) { /* as many rows, or one for all */
        int added_dims = added == 1 ? n_dims : 1;
        check_operand(c, last + 1, check_float_dtype(c), added_dims, dims + 3 - added_dims);
    }
    check_output(c, check_float_dtype(c), n_dims, dims + 3 - n_dims);
    c->attr.norm.eps = check_below(&c->rng, 3) ? 1e-5f : 1e-6f;
}

/* The norm's result is rounded to T; what it is added to adds a rounding to f32 and one to T. */
static void round_sum(const check_case *c, int64_t row, int64_t i, double *want, double *bound) {
    const kernel_operand *added = &c->call.src[c->call.op == OP_RMS_NORM ? 2 : 3];
    mica_dtype t = c->call.out.dtype;
    *bound += check_rounding(t, fabs(*want) + *bound);
    if (!added->data) return;
    if (t == MICA_F16 && fabs(*want) + *bound > 65504) *bound = INFINITY; /* infinite in T */
    *want += check_at(added, row, i);
    *bound += CHECK_U * (fabs(*want) + *bound);
    *bound += check_rounding(t, fabs(*want) + *bound);
}

static double weight_or_one(const kernel_operand *w, int64_t i) {
    return w->data ? check_at(w, 0, i) : 1.0;
}

/* The mean of squares is off by (n/16 + 7) roundings, all of one sign; its root by half of that,
 * plus the root, the division and the product. */
static void truth_rms_norm(const check_case *c, double *want, double *bound) {
    const kernel_operand *x = &c->call.src[0], *out = &c->call.out;
    int64_t n = operand_width(x);
    double eps = (double)c->attr.norm.eps;
    for (int64_t r = 0; r < operand_rows(out); r++) {
        double squares = 0;
        for (int64_t i = 0; i < n; i++)
            squares += check_at(x, r, i) * check_at(x, r, i);
        double inv = 1 / sqrt(squares / (double)n + eps);
        double rel = ((double)n / 32 + 8) * CHECK_U;
        for (int64_t i = 0; i < n; i++) {
            double y = check_at(x, r, i) * inv, w = weight_or_one(&c->call.src[1], i);
            double y_bound = rel * fabs(y) + check_rounding(out->dtype, fabs(y) * (1 + rel));
            want[r * n + i] = y * w;
            bound[r * n + i] = y_bound * fabs(w);
            round_sum(c, r, i, &want[r * n + i], &bound[r * n + i]);
        }
    }
}

/* The mean is off by (n/16 + 6) roundings of the mean magnitude; so is every difference, which
 * adds one of its own. The variance then changes by at most twice that, to first order. */
static void truth_layer_norm(const check_case *c, double *want, double *bound) {
    const kernel_operand *x = &c->call.src[0], *b = &c->call.src[2], *out = &c->call.out;
    int64_t n = operand_width(x);
    for (int64_t r = 0; r < operand_rows(out); r++) {
        double mean = 0, size = 0, var = 0;
        for (int64_t i = 0; i < n; i++) {
            mean += check_at(x, r, i) / (double)n;
            size += fabs(check_at(x, r, i)) / (double)n;
        }
        for (int64_t i = 0; i < n; i++)
            var += pow(check_at(x, r, i) - mean, 2) / (double)n;
        double inv = 1 / sqrt(var + (double)c->attr.norm.eps), gamma = (double)n / 16 + 8;
        double off = gamma * CHECK_U * size * 1.01 + 0x1p-140;
        double rel = gamma * CHECK_U + 2 * off * inv;
        for (int64_t i = 0; i < n; i++) {
            double d = check_at(x, r, i) - mean, w = weight_or_one(&c->call.src[1], i);
            double y = d * inv, add = b->data ? check_at(b, 0, i) : 0;
            double y_bound = (off + CHECK_U * fabs(d)) * inv + rel * (fabs(y) + off * inv);
            y_bound += check_rounding(out->dtype, fabs(y) + y_bound);
            double p_bound = y_bound * fabs(w);
            p_bound += check_rounding(out->dtype, fabs(y * w) + p_bound);
            want[r * n + i] = y * w + add;
            bound[r * n + i] = p_bound;
            round_sum(c, r, i, &want[r * n + i], &bound[r * n + i]);
        }
    }
}

static void make_gauss_top(check_case *c) {
    int64_t dims[2] = {check_below(&c->rng, 6), random_n(c)};
    check_operand(c, 0, check_float_dtype(c), 2, dims);
    check_output(c, check_float_dtype(c), 2, dims);
    c->attr.scale.c = (float)(check_uniform(&c->rng) * 2);
}

/* Mean and differences as in layer_norm; the deviation is off by the differences' common error and
 * by half of the variance's roundings (squares below the least number are lost: 2^-70). Cutting at
 * 0 makes no error larger. */
static void truth_gauss_top(const check_case *c, double *want, double *bound) {
    const kernel_operand *x = &c->call.src[0], *out = &c->call.out;
    int64_t n = operand_width(x);
    mica_dtype t = out->dtype;
    double factor = (double)c->attr.scale.c;
    for (int64_t r = 0; r < operand_rows(out); r++) {
        double mean = 0, size = 0, var = 0;
        for (int64_t i = 0; i < n; i++) {
            mean += check_at(x, r, i) / (double)n;
            size += fabs(check_at(x, r, i)) / (double)n;
        }
        for (int64_t i = 0; i < n; i++)
            var += pow(check_at(x, r, i) - mean, 2) / (double)n;
        double std = sqrt(var), off = ((double)n / 16 + 8) * CHECK_U * size * 1.01 + 0x1p-140;
        double std_off = ((double)n / 32 + 8) * CHECK_U * std + 2 * off + 0x1p-70;
        std_off += check_rounding(t, std + std_off);
        double part = fabs(factor) * std_off + (std + std_off) * check_rounding(t, fabs(factor));
        part += check_rounding(t, fabs(factor) * std + part);
        double cut = mean + factor * std,
               cut_off = off + check_rounding(t, fabs(mean) + off) + part;
        cut_off += check_rounding(t, fabs(cut) + cut_off);
        for (int64_t i = 0; i < n; i++) {
            double y = fmax(check_at(x, r, i) - cut, 0);
            want[r * n + i] = y;
            bound[r * n + i] = cut_off + CHECK_U * (y + cut_off);
            bound[r * n + i] += check_rounding(t, y + bound[r * n + i]);
        }
    }
}

static void make_match_rms(check_case *c) {
    int64_t dims[2] = {check_below(&c->rng, 6), random_n(c)};
    check_operand(c, 0, check_float_dtype(c), 2, dims);
    check_operand(c, 1, check_float_dtype(c), 2, dims);
    c->call.n_src = 2;
    check_output(c, check_float_dtype(c), 2, dims);
    c->attr.norm.eps = 1e-5f;
}

static double mean_square(const kernel_operand *x, int64_t r) {
    double sum = 0;
    for (int64_t i = 0; i < operand_width(x); i++)
        sum += check_at(x, r, i) * check_at(x, r, i);
    return sum / (double)operand_width(x);
}

/* Both roots are off as in rms_norm and by their rounding; then a product and a division. */
static void truth_match_rms(const check_case *c, double *want, double *bound) {
    const kernel_operand *x = &c->call.src[0], *out = &c->call.out;
    int64_t n = operand_width(x);
    mica_dtype t = out->dtype;
    double rel = ((double)n / 32 + 8) * CHECK_U;
    for (int64_t r = 0; r < operand_rows(out); r++) {
        double top = sqrt(mean_square(&c->call.src[1], r)), top_off = rel * top + 0x1p-70;
        double have = sqrt(fmax(mean_square(x, r), (double)c->attr.norm.eps)), off = rel * have;
        top_off += check_rounding(t, top + top_off);
        off += check_rounding(t, have + off);
        for (int64_t i = 0; i < n; i++) {
            double v = check_at(x, r, i), p_off = fabs(v) * top_off;
            p_off += check_rounding(t, fabs(v) * top + p_off) + CHECK_U * fabs(v) * top;
            double y = v * top / have;
            want[r * n + i] = y;
            bound[r * n + i] = (p_off + fabs(y) * off) / (have - off) + 2 * CHECK_U * fabs(y);
            bound[r * n + i] += check_rounding(t, fabs(y) + bound[r * n + i]);
        }
    }
}

/* ---- rope ---- */
static void make_angles(check_case *c) {
    int64_t rows = check_below(&c->rng, 6), half = check_between(&c->rng, 1, 70);
    int32_t *positions = check_operand_i32(c, 0, 1, &rows);
    for (int64_t r = 0; r < rows; r++)
        positions[r] = (int32_t)check_below(&c->rng, check_below(&c->rng, 2) ? 100 : 1000000);
    int64_t dims[2] = {rows, half}, out[2] = {rows, 2 * half};
    int n_dims = (int)check_between(&c->rng, 1, 2);
    check_operand(c, 1, MICA_F32, n_dims, dims + 2 - n_dims);
    for (int64_t r = 0; r < (n_dims == 1 ? 1 : rows); r++)
        for (int64_t i = 0; i < half; i++) {
            double period = 1.5 + check_uniform(&c->rng);
            period *= (double)(1 << check_below(&c->rng, 14));
            if (check_below(&c->rng, 10) == 0) period = INFINITY;
            const kernel_operand *p = &c->call.src[1];
            operand_store(p, operand_row(p, r) + i * operand_step(p), (float)period);
        }
    check_output(c, MICA_F32, 2, out);
    c->attr.angles.position_scale = check_below(&c->rng, 2) ? 1.0f : 0.125f;
}

/* The angle is defined in f32; from there on everything is within one rounding. */
static void truth_angles(const check_case *c, double *want, double *bound) {
    int64_t half = operand_width(&c->call.src[1]);
    for (int64_t e = 0; e < operand_rows(&c->call.out) * 2 * half; e++) {
        int64_t r = e / (2 * half), i = e % (2 * half);
        float period = (float)check_at(&c->call.src[1], r, i % half);
        float pos = c->attr.angles.position_scale * (float)operand_i32(&c->call.src[0])[r];
        float theta = pos * (1.0f / period);
        want[e] = i < half ? cos((double)theta) : sin((double)theta);
        bound[e] = CHECK_U * 1.001 * fabs(want[e]);
    }
}

static void make_rope(check_case *c) {
    int64_t d = check_between(&c->rng, 2, 140), dims = 2 * check_between(&c->rng, 1, d / 2);
    int64_t rows = check_below(&c->rng, 6);
    int64_t x[3] = {rows, check_between(&c->rng, 1, 4), d};
    int64_t angles[2] = {x[0], dims};
    check_operand(c, 0, check_float_dtype(c), 3, x);
    check_operand(c, 1, MICA_F32, 2, angles);
    check_output(c, check_float_dtype(c), 3, x);
    c->attr.rope.dims = (int32_t)dims;
    c->attr.rope.traditional = check_below(&c->rng, 2);
    c->attr.rope.input_scale = check_below(&c->rng, 3) ? 1.0f : 1.19f;
}

static void truth_rope(const check_case *c, double *want, double *bound) {
    const kernel_operand *x = &c->call.src[0], *a = &c->call.src[1], *out = &c->call.out;
    int64_t n = operand_width(x), dims = c->attr.rope.dims, half = dims / 2;
    double scale = (double)c->attr.rope.input_scale, unit = check_rounding(out->dtype, 1.0);
    double sign = c->call.op == OP_ROPE ? 1 : -1;
    for (int64_t e = 0; e < operand_rows(out) * n; e++) {
        int64_t u = e / n, i = e % n, row = u / x->dim[1];
        want[e] = check_at(x, u, i);
        bound[e] = check_rounding(out->dtype, want[e]);
        if (i >= dims) continue;
        bool second = c->attr.rope.traditional ? i % 2 : i >= half;
        int64_t pair = c->attr.rope.traditional ? i / 2 : i % half;
        int64_t other = c->attr.rope.traditional ? i ^ 1 : (i + half) % dims;
        double co = check_at(a, row, pair), si = sign * check_at(a, row, half + pair);
        double self = check_at(x, u, i) * scale, mate = check_at(x, u, other) * scale;
        want[e] = self * co + (second ? mate * si : -mate * si);
        double size = fabs(self * co) + fabs(mate * si);
        double prescale = 4 * unit * size + 2 * check_rounding(out->dtype, 0);
        bound[e] = (scale == 1 ? 0 : prescale) + 2 * CHECK_U * size + 0x1p-148;
        bound[e] += check_rounding(out->dtype, fabs(want[e]) + bound[e]);
    }
}

/* ---- experts ---- */
static void make_top_k(check_case *c) {
    int64_t rows = check_below(&c->rng, 6);
    int64_t x[2] = {rows, check_between(&c->rng, 1, 40)};
    int64_t out[2] = {x[0], check_between(&c->rng, 1, x[1] < 8 ? x[1] : 8)};
    c->specials = check_below(&c->rng, 4) == 0;
    check_operand(c, 0, check_float_dtype(c), 2, x);
    for (int64_t i = 0; i + 1 < x[0] * x[1]; i += 5) /* ties */
        operand_store(&c->call.src[0], i + 1, operand_load(&c->call.src[0], i));
    check_output(c, MICA_I32, 2, out);
}

/* Distinct experts a row, in no order. */
static void fill_choice(check_case *c, int32_t *idx, int64_t rows, int64_t k, int64_t n_experts) {
    for (int64_t r = 0; r < rows; r++) {
        int64_t first = check_below(&c->rng, n_experts);
        for (int64_t j = 0; j < k; j++)
            idx[r * k + j] = (int32_t)((first + j * j) % n_experts);
        for (int64_t j = 0; j < k; j++)
            for (int64_t l = 0; l < j; l++)
                if (idx[r * k + l] == idx[r * k + j]) {
                    idx[r * k + j] = (int32_t)((idx[r * k + j] + 1) % n_experts);
                    l = -1;
                }
    }
}

static void make_top_k_weights(check_case *c) {
    int64_t rows = check_below(&c->rng, 6);
    int64_t x[2] = {rows, check_between(&c->rng, 8, 40)};
    int64_t out[2] = {x[0], check_between(&c->rng, 1, 8)};
    check_operand(c, 0, check_float_dtype(c), 2, x);
    fill_choice(c, check_operand_i32(c, 1, 2, out), x[0], out[1], x[1]);
    check_output(c, check_float_dtype(c), 2, out);
    c->attr.top_k_weights = (top_k_weighting){
        .rule = (top_k_rule)check_below(&c->rng, 2),
        .normalize = check_below(&c->rng, 2),
        .factor = check_below(&c->rng, 2) ? 1.0f : 2.5f,
    };
}

/* Scores are below 2e4 in size: exp(s - max) carries one rounding of the difference. */
static void truth_top_k_weights(const check_case *c, double *want, double *bound) {
    const kernel_operand *scores = &c->call.src[0], *out = &c->call.out;
    int64_t k = operand_width(out), n = operand_width(scores);
    double unit = check_rounding(out->dtype, 1.0);
    for (int64_t r = 0; r < operand_rows(out); r++) {
        const int32_t *idx = operand_i32(&c->call.src[1]) + r * k;
        bool before = c->attr.top_k_weights.rule == TOP_K_SOFTMAX_ALL;
        double max = -INFINITY, low = INFINITY, all = 0, kept = 0;
        for (int64_t i = 0; i < (before ? n : k); i++) {
            max = fmax(max, check_at(scores, r, before ? i : idx[i]));
            low = fmin(low, check_at(scores, r, before ? i : idx[i]));
        }
        for (int64_t i = 0; i < (before ? n : k); i++)
            all += exp(check_at(scores, r, before ? i : idx[i]) - max);
        for (int64_t j = 0; j < k; j++)
            kept += exp(check_at(scores, r, idx[j]) - max) / all;
        for (int64_t j = 0; j < k; j++) {
            double p = exp(check_at(scores, r, idx[j]) - max) / all;
            double rel = (2 * (max - low) + 20) * CHECK_U + 12 * unit;
            if (c->attr.top_k_weights.normalize) p /= kept;
            double factor = (double)c->attr.top_k_weights.factor;
            want[r * k + j] = p * factor;
            double least = factor * 2 * check_rounding(out->dtype, 0);
            if (c->attr.top_k_weights.normalize)
                least *= 9 / kept; /* none of the chosen has weight */
            bound[r * k + j] = kept > 0 ? p * factor * rel + least : INFINITY;
        }
    }
}

static void make_groups(check_case *c) {
    int64_t n_experts = check_between(&c->rng, 8, 20), k = check_between(&c->rng, 1, 8);
    bool all = check_below(&c->rng, 4) == 0; /* of every row all experts, as heads have them */
    if (all) k = n_experts;
    int64_t idx[2] = {check_below(&c->rng, 9), k};
    int64_t out = expert_groups_size(n_experts, k * idx[0]);
    int32_t *data = check_operand_i32(c, 0, all ? 1 : 2, idx);
    if (!all) fill_choice(c, data, idx[0], k, n_experts);
    check_output(c, MICA_I32, 1, &out);
    c->attr.experts.n_experts = (int32_t)n_experts;
    c->attr.experts.k = (int32_t)k;
}

/* Pair p belongs to expert p * 7 / 3 % n, so some experts have none. */
void check_groups(check_case *c, int i, int64_t n_experts, int64_t rows, int64_t k) {
    int64_t size = expert_groups_size(n_experts, rows * k);
    int32_t *data = check_operand_i32(c, i, 1, &size), n = 0;
    expert_groups g = expert_groups_at(data, n_experts, rows * k);
    *g.count = 0;
    for (int64_t e = 0; e < n_experts; e++) {
        g.offsets[e] = n;
        g.active[e] = -1;
        for (int64_t p = 0; p < rows * k; p++) {
            if (p * 7 / 3 % n_experts != e) continue;
            g.rows[n] = (int32_t)(p / k);
            g.pairs[n++] = (int32_t)p;
        }
        if (n > g.offsets[e]) g.active[(*g.count)++] = (int32_t)e;
    }
    g.offsets[n_experts] = n;
    c->attr.experts.n_experts = (int32_t)n_experts;
    c->attr.experts.k = (int32_t)k;
}

/* Sometimes the experts of a stack lie apart, here in the same order. */
static void take_apart(check_case *c, int i) {
    const weight_matrix *m = c->call.src[i].matrix;
    if (!m || check_below(&c->rng, 3)) return;
    weight_matrix *parts = check_memory(c, (size_t)m->n_experts * sizeof(*parts));
    for (int64_t e = 0; e < m->n_experts; e++)
        parts[e] = mica_weight_expert(m, e);
    c->matrix[i - 1].parts = parts;
}

static void make_experts(check_case *c, int n_weights) {
    int64_t n_experts = check_between(&c->rng, 3, 6), k = check_between(&c->rng, 1, 3);
    int64_t rows = check_below(&c->rng, 7), n_in = random_n(c),
            n_out = check_between(&c->rng, 1, 40);
    for (int i = 1; i <= n_weights; i++) {
        check_weight(c, i, i - 1, n_experts, n_out, &n_in);
        take_apart(c, i);
    }
    int64_t x[2] = {check_below(&c->rng, 2) ? rows : rows * k, n_in}, out[2] = {rows * k, n_out};
    check_operand(c, 0, check_float_dtype(c), 2, x);
    check_groups(c, 1 + n_weights, n_experts, rows, k);
    check_output(c, check_float_dtype(c), 2, out);
}

static void make_expert_matmul(check_case *c) { make_experts(c, 1); }

static void make_expert_glu(check_case *c) {
    make_experts(c, 2);
    c->attr.experts.act = (glu_act)check_below(&c->rng, 3);
}

static void truth_expert_matmul(const check_case *c, double *want, double *bound) {
    const kernel_operand *x = &c->call.src[0], *w = &c->call.src[1], *out = &c->call.out;
    int64_t n_out = operand_width(out), n = operand_width(x);
    for (int64_t e = 0; e < operand_rows(out) * n_out; e++) {
        int64_t pair = e / n_out, expert = pair * 7 / 3 % c->attr.experts.n_experts;
        int64_t row = x->dim[0] == out->dim[0] ? pair : pair / c->attr.experts.k;
        double sum = 0, size = 0;
        for (int64_t i = 0; i < n; i++) {
            double w_size, xv = check_at(x, row, i);
            sum += xv * check_weight_at(w, expert * n_out + e % n_out, i, &w_size);
            size += fabs(xv) * w_size;
        }
        want[e] = sum;
        bound[e] = ((double)n / 16 + 9) * CHECK_U * 1.001 * size + (double)n * 0x1p-148;
        bound[e] += check_rounding(out->dtype, fabs(sum) + bound[e]);
    }
}

static void make_combine(check_case *c) {
    int64_t rows = check_below(&c->rng, 6);
    int64_t w[2] = {rows, check_between(&c->rng, 1, 8)};
    int64_t y[2] = {w[0] * w[1], random_n(c)}, out[2] = {w[0], y[1]};
    check_operand(c, 0, check_float_dtype(c), 2, y);
    check_operand(c, 1, check_float_dtype(c), 2, w);
    check_output(c, check_float_dtype(c), 2, out);
}

static void truth_combine(const check_case *c, double *want, double *bound) {
    const kernel_operand *out = &c->call.out;
    int64_t n = operand_width(out), k = operand_width(&c->call.src[1]);
    for (int64_t e = 0; e < operand_rows(out) * n; e++) {
        want[e] = bound[e] = 0;
        double size = 0;
        for (int64_t j = 0; j < k; j++) {
            double p = check_at(&c->call.src[0], e / n * k + j, e % n) *
                       check_at(&c->call.src[1], e / n, j);
            want[e] += p;
            size += fabs(p);
            bound[e] += check_rounding(out->dtype, p) * 1.01;
        }
        bound[e] += (double)(k + 1) * CHECK_U * size;
        bound[e] += check_rounding(out->dtype, fabs(want[e]) + bound[e]);
    }
}

/* ---- gated delta ---- */
static void make_delta(check_case *c) {
    int64_t hk = check_between(&c->rng, 1, 2), hv = hk * check_between(&c->rng, 1, 2);
    int64_t dk = check_between(&c->rng, 1, 40), dv = check_between(&c->rng, 1, 70);
    if (check_below(&c->rng, 2)) dk = (dk + 15) / 16 * 16; /* what vectors take */
    int64_t n_seqs = check_between(&c->rng, 1, 2), chunk = check_below(&c->rng, 2) * 8, rows = 0;
    int64_t n_state = hv * dv * dk + chunk * (hk * dk + hv * dv + hv), ends = n_seqs + 1;
    int32_t *seq_rows = check_operand_i32(c, 7, 1, &ends);
    seq_rows[0] = 0;
    for (int64_t s = 0; s < n_seqs; s++)
        seq_rows[s + 1] = (int32_t)(rows += check_below(&c->rng, 20));
    int32_t *positions = check_operand_i32(c, 8, 1, &rows);
    for (int64_t s = 0; s < n_seqs; s++)
        for (int64_t r = seq_rows[s], p = check_below(&c->rng, 30); r < seq_rows[s + 1]; r++, p++)
            positions[r] = (int32_t)p;
    int64_t q[3] = {rows, hk, dk}, v[3] = {rows, hv, dv}, out[2] = {rows, hv * dv};
    for (int i = 0; i < 2; i++)
        check_operand(c, i, check_float_dtype(c), 3, q);
    check_operand(c, 2, check_float_dtype(c), 3, v);
    for (int i = 3; i < 5; i++) {
        check_operand(c, i, MICA_F32, 2, v);
        for (int64_t e = 0; e < rows * hv; e++)
            operand_store(&c->call.src[i], operand_row(&c->call.src[i], e / hv) + e % hv,
                          (float)(0.5 + 0.5 * check_uniform(&c->rng)));
    }
    float *state = check_memory(c, (size_t)(n_seqs * n_state) * 4);
    for (int64_t i = 0; i < n_seqs * n_state; i++)
        state[i] = (float)check_uniform(&c->rng);
    c->effect_bytes = (size_t)(n_seqs * n_state) * 4;
    c->effect = check_memory(c, c->effect_bytes);
    memset(c->effect, 0, c->effect_bytes);
    for (int i = 5; i < 7; i++) {
        kernel_operand *o = &c->call.src[i];
        *o = (kernel_operand){.dtype = MICA_U64, .n_dims = 1, .dim = {n_seqs}, .stride = {1}};
        uint64_t *addresses = o->data = check_memory(c, (size_t)n_seqs * 8);
        for (int64_t s = 0; s < n_seqs; s++)
            addresses[s] =
                (uint64_t)(uintptr_t)((i == 5 ? state : (float *)c->effect) + s * n_state);
    }
    check_output(c, check_float_dtype(c), 2, out);
    c->attr.delta.chunk = (int32_t)chunk;
}

/* ---- training ---- */
static void make_matmul_t(check_case *c) {
    int64_t n_in = random_n(c), n_out = check_between(&c->rng, 1, 40);
    check_weight(c, 1, 0, 0, n_out, &n_in);
    int64_t dy[2] = {check_below(&c->rng, 40), n_out}, out[2] = {dy[0], n_in};
    check_operand(c, 0, check_float_dtype(c), 2, dy);
    check_output(c, check_float_dtype(c), 2, out);
}

static void truth_matmul_t(const check_case *c, double *want, double *bound) {
    const kernel_operand *dy = &c->call.src[0], *out = &c->call.out;
    int64_t n_in = operand_width(out), n_out = operand_width(dy);
    for (int64_t e = 0; e < operand_rows(out) * n_in; e++) {
        double size = want[e] = 0, w_size;
        for (int64_t o = 0; o < n_out; o++) {
            double g = check_at(dy, e / n_in, o);
            want[e] += g * check_weight_at(&c->call.src[1], o, e % n_in, &w_size);
            size += fabs(g) * w_size;
        }
        bound[e] = (double)(n_out + 5) * CHECK_U * size + (double)n_out * 0x1p-148;
        bound[e] += check_rounding(out->dtype, fabs(want[e]) + bound[e]);
    }
}

static void make_outer(check_case *c) {
    int64_t rows = check_below(&c->rng, 20);
    int64_t dy[2] = {rows, check_between(&c->rng, 1, 20)}, x[2] = {rows, random_n(c)};
    int64_t out[2] = {dy[1], x[1]};
    check_operand(c, 0, check_float_dtype(c), 2, dy);
    check_operand(c, 1, check_float_dtype(c), 2, x);
    check_output(c, check_float_dtype(c), 2, out);
}

static void make_sum_rows(check_case *c) {
    int64_t rows = check_below(&c->rng, 20);
    int64_t x[2] = {rows, random_n(c)};
    check_operand(c, 0, check_float_dtype(c), 2, x);
    check_output(c, check_float_dtype(c), 1, &x[1]);
}

static void truth_row_sums(const check_case *c, double *want, double *bound) {
    const kernel_operand *dy = &c->call.src[0], *x = &c->call.src[1], *out = &c->call.out;
    int64_t n = operand_width(out), n_rows = operand_rows(dy);
    for (int64_t e = 0; e < operand_rows(out) * n; e++) {
        double size = want[e] = 0;
        for (int64_t r = 0; r < n_rows; r++) {
            double v = c->call.op == OP_SUM_ROWS ? check_at(dy, r, e % n)
                                                 : check_at(dy, r, e / n) * check_at(x, r, e % n);
            want[e] += v;
            size += fabs(v);
        }
        bound[e] = (double)(n_rows + 2) * CHECK_U * size + (double)n_rows * 0x1p-148;
        bound[e] += check_rounding(out->dtype, fabs(want[e]) + bound[e]);
    }
}

static void make_rms_norm_grad(check_case *c) {
    int64_t n = random_n(c), dims[2] = {check_below(&c->rng, 6), n};
    check_operand(c, 0, check_float_dtype(c), 2, dims);
    if (check_below(&c->rng, 2)) check_operand(c, 1, check_float_dtype(c), 1, &n);
    check_operand(c, 2, check_float_dtype(c), 2, dims);
    check_output(c, check_float_dtype(c), 2, dims);
    c->attr.norm.eps = 1e-5f;
}

static void make_attention_rows(check_case *c) {
    int64_t rows = check_between(&c->rng, 1, 12), kv = check_between(&c->rng, 1, 2);
    int64_t heads = kv * check_between(&c->rng, 1, 2), d = check_between(&c->rng, 1, 20);
    int64_t dv = check_between(&c->rng, 1, 20), q[3] = {rows, heads, d}, k[3] = {rows, kv, d};
    int64_t v[3] = {rows, kv, dv}, dout[2] = {rows, heads * dv};
    check_operand(c, 0, check_float_dtype(c), 3, q);
    check_operand(c, 1, check_float_dtype(c), 3, k);
    check_operand(c, 2, check_float_dtype(c), 3, v);
    int32_t *positions = check_operand_i32(c, 3, 1, &rows);
    int32_t *row_seq = check_operand_i32(c, 4, 1, &rows);
    for (int64_t r = 0; r < rows; r++) {
        positions[r] = (int32_t)r;
        row_seq[r] = r < rows / 2;
    }
    if (c->call.op == OP_ATTENTION_ROWS_GRAD) {
        check_operand(c, 5, check_float_dtype(c), 2, dout);
        dout[1] = (heads + kv) * d + kv * dv;
    }
    check_output(c, check_float_dtype(c), 2, dout);
    c->attr.attention.scale = 0.3f;
}

const check_op check_ops_layers[] = {
    {"rms_norm", OP_RMS_NORM, 300, make_norm, truth_rms_norm},
    {"layer_norm", OP_LAYER_NORM, 300, make_norm, truth_layer_norm},
    {"gauss_top", OP_GAUSS_TOP, 100, make_gauss_top, truth_gauss_top},
    {"match_rms", OP_MATCH_RMS, 100, make_match_rms, truth_match_rms},
    {"rope_angles", OP_ROPE_ANGLES, 60, make_angles, truth_angles},
    {"rope", OP_ROPE, 100, make_rope, truth_rope},
    {"rope_grad", OP_ROPE_GRAD, 60, make_rope, truth_rope},
    {"top_k", OP_TOP_K, 60, make_top_k, NULL},
    {"top_k_weights", OP_TOP_K_WEIGHTS, 100, make_top_k_weights, truth_top_k_weights},
    {"expert_groups", OP_EXPERT_GROUPS, 60, make_groups, NULL},
    {"expert_matmul", OP_EXPERT_MATMUL, 648, make_expert_matmul, truth_expert_matmul},
    {"expert_glu_matmul", OP_EXPERT_GLU_MATMUL, 324, make_expert_glu, NULL},
    {"expert_combine", OP_EXPERT_COMBINE, 60, make_combine, truth_combine},
    {"gated_delta", OP_GATED_DELTA, 100, make_delta, NULL},
    {"matmul_t", OP_MATMUL_T, 324, make_matmul_t, truth_matmul_t},
    {"outer", OP_OUTER, 60, make_outer, truth_row_sums},
    {"sum_rows", OP_SUM_ROWS, 60, make_sum_rows, truth_row_sums},
    {"rms_norm_grad", OP_RMS_NORM_GRAD, 60, make_rms_norm_grad, NULL},
    {"attention_rows", OP_ATTENTION_ROWS, 60, make_attention_rows, NULL},
    {"attention_rows_grad", OP_ATTENTION_ROWS_GRAD, 60, make_attention_rows, NULL},
};
const int check_n_ops_layers = sizeof(check_ops_layers) / sizeof(check_ops_layers[0]);
