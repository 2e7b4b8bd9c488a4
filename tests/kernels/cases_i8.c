/* cases_i8.c: random calls of the ops over rows quantized to int8 or rounded to bf16, and what they
 * should give in double.
 */
#include <math.h>
#include <stdlib.h>

#include "check.h"

#include "graph/rows_i8.h"

static int64_t some_rows(check_case *c) {
    static const int64_t rows[] = {0, 1, 1, 1, 2, 3, 4, 5, 7, 8, 9, 33};
    return rows[check_below(&c->rng, 12)];
}

static int64_t some_width(check_case *c) {
    static const int64_t widths[] = {16, 32, 48, 64, 96, 128, 160, 256, 320, 576, 1024};
    return check_below(&c->rng, 3) ? widths[check_below(&c->rng, 11)]
                                   : check_between(&c->rng, 1, 700);
}

static void make_quantize(check_case *c) {
    int64_t x[2] = {some_rows(c), some_width(c)}, out[2] = {x[0], 0};
    out[1] = rows_i8_bytes(x[1], check_below(&c->rng, 2));
    c->specials = check_below(&c->rng, 3) == 0;
    check_operand(c, 0, check_float_dtype(c), 2, x);
    check_output(c, MICA_U8, 2, out);
}

/* What counts as code i of a row. */
static double code_at(const uint8_t *row, int64_t i, int64_t n, bool fine) {
    double code = (int8_t)row[i];
    return fine ? ROWS_I8_FINE * code + (int8_t)row[rows_i8_rest(n) + i] : code;
}

static int32_t count_at(const uint8_t *row, int64_t at) {
    int32_t count;
    memcpy(&count, row + at, 4);
    return count;
}

static double largest_of(const kernel_operand *x, int64_t r, int64_t g, int64_t n) {
    double most = 0;
    for (int64_t k = 32 * g; k < 32 * g + 32 && k < n; k++)
        most = fmax(most, fabs(check_at(x, r, k)));
    return most > 1e-30 ? most : 0;
}

/* A code is within half of x / scale; scale and sums are within their roundings of what x and the
 * codes make of them. The bytes themselves are expected unless one of these is wrong. */
static void truth_group(const check_case *c, int64_t r, int64_t g, const uint8_t *row,
                        double *want) {
    int64_t n = operand_width(&c->call.src[0]);
    bool fine = rows_i8_is_fine(operand_width(&c->call.out), n);
    double most = largest_of(&c->call.src[0], r, g, n), sums[2] = {0, 0};
    double top = fine ? 127.0 * ROWS_I8_FINE : 127.0;
    for (int64_t k = 32 * g; k < 32 * g + 32; k++) {
        double code = code_at(row, k, n, fine);
        double ideal = k < n && most > 0 ? check_at(&c->call.src[0], r, k) / most * top : 0;
        if (fabs(code - ideal) > 0.5001 + 3 * CHECK_U * top) want[k] = 1000;
        sums[k / 16 % 2] += code;
    }
    const double counts[3] = {sums[0] + sums[1], sums[0], sums[1]};
    const int64_t at_counts[3] = {rows_i8_counts(n) + 4 * g, rows_i8_half_counts(n) + 8 * g,
                                  rows_i8_half_counts(n) + 8 * g + 4};
    for (int k = 0; k < 3; k++)
        if (count_at(row, at_counts[k]) != -128 * (int32_t)counts[k]) want[at_counts[k]] = 1000;
    double s = most / top;
    const double expected[4] = {s, s * (sums[0] + sums[1]), s * sums[0], s * sums[1]};
    const int64_t at[4] = {rows_i8_scales(n) + 4 * g, rows_i8_sums(n) + 4 * g,
                           rows_i8_halves(n) + 8 * g, rows_i8_halves(n) + 8 * g + 4};
    for (int k = 0; k < 4; k++) {
        double off = fabs((double)mica_load_f(row + at[k], MICA_F32, 0) - expected[k]);
        if (off > 4 * CHECK_U * fabs(expected[k]) + 0x1p-148) want[at[k]] = 1000;
    }
}

static void truth_quantize(const check_case *c, double *want, double *bound) {
    const kernel_operand *out = &c->call.out;
    int64_t n = operand_width(&c->call.src[0]), width = operand_width(out);
    for (int64_t r = 0; r < operand_rows(out); r++) {
        const uint8_t *row = (const uint8_t *)out->data + operand_row(out, r);
        for (int64_t i = 0; i < width; i++) {
            want[r * width + i] = row[i];
            bound[r * width + i] = 0;
        }
        for (int64_t g = 0; g < rows_i8_padded(n) / 32; g++)
            truth_group(c, r, g, row, want + r * width);
    }
}

static void make_norm_i8(check_case *c) {
    int64_t x[2] = {some_rows(c), some_width(c)}, out[2] = {x[0], 0};
    out[1] = rows_i8_bytes(x[1], check_below(&c->rng, 2));
    check_operand(c, 0, check_float_dtype(c), 2, x);
    for (int i = 1; i < (c->call.op == OP_RMS_NORM_I8 ? 2 : 3); i++)
        if (check_below(&c->rng, 4)) check_operand(c, i, check_float_dtype(c), 1, x + 1);
    c->attr.norm.eps = check_below(&c->rng, 3) ? 1e-5f : 1e-6f;
    check_output(c, MICA_U8, 2, out);
}

/* Codes, scales and sums must be what quantize_rows makes of `parts`, the result in f32 of the op
 * that this one begins with; the references of both are held to their own truths. */
static void truth_in_parts(const check_case *c, graph_op part, int64_t n, double *want,
                           double *bound) {
    const kernel_operand *out = &c->call.out;
    int64_t n_rows = operand_rows(out), width = operand_width(out);
    size_t n_bytes = (size_t)(n_rows * (n * 4 + width)) + 1;
    uint8_t *parts = malloc(n_bytes), *rows = parts + n_rows * n * 4;
    kernel_call first = c->call, second = {.op = OP_QUANTIZE_ROWS, .n_src = 1, .attr = &c->attr};
    first.op = part;
    first.out = (kernel_operand){.data = parts, .dtype = MICA_F32, .n_dims = 2};
    first.out.dim[0] = n_rows;
    first.out.dim[1] = first.out.stride[0] = n;
    first.out.stride[1] = 1;
    second.src[0] = first.out;
    second.out = *out;
    second.out.data = rows;
    second.out.stride[0] = width;
    check_run_reference(&first);
    check_run_reference(&second);
    for (int64_t i = 0; i < n_rows * width; i++) {
        want[i] = rows[i];
        bound[i] = 0;
    }
    free(parts);
}

static void truth_norm_i8(const check_case *c, double *want, double *bound) {
    bool is_rms = c->call.op == OP_RMS_NORM_I8;
    truth_in_parts(c, is_rms ? OP_RMS_NORM : OP_LAYER_NORM, operand_width(&c->call.src[0]), want,
                   bound);
}

/* Quantized rows of n elements as source 0: any codes, ordinary scales, sums that belong to them.
 */
void check_rows_i8(check_case *c, int64_t n_rows, int64_t n, bool fine) {
    kernel_operand *o = &c->call.src[0];
    int64_t n_bytes = rows_i8_bytes(n, fine);
    *o = (kernel_operand){.dtype = MICA_U8, .n_dims = 2};
    o->dim[0] = n_rows;
    o->dim[1] = o->stride[0] = n_bytes;
    o->stride[1] = 1;
    uint8_t *row = o->data = check_memory(c, (size_t)(n_rows * n_bytes));
    for (int64_t r = 0; r < n_rows; r++, row += n_bytes) {
        memset(row, 0, (size_t)n_bytes);
        bool extreme = check_below(&c->rng, 4) == 0;
        for (int64_t g = 0; g * 32 < n; g++) {
            int sums[2] = {0, 0};
            for (int64_t i = 32 * g; i < 32 * g + 32 && i < n; i++) {
                int code = (int)check_between(&c->rng, -127, 127);
                if (extreme) code = code < -60 ? -127 : 127;
                row[i] = (uint8_t)(int8_t)code;
                if (fine) row[rows_i8_rest(n) + i] = (uint8_t)(int8_t)(extreme ? code : -code);
                sums[i / 16 % 2] += (int)code_at(row, i, n, fine);
            }
            float s = check_below(&c->rng, 20) ? (float)(check_uniform(&c->rng) + 1) : 0.0f;
            mica_store_f(row + rows_i8_scales(n), MICA_F32, (size_t)g, s);
            mica_store_f(row + rows_i8_sums(n), MICA_F32, (size_t)g,
                         s * (float)(sums[0] + sums[1]));
            for (int h = 0; h < 2; h++)
                mica_store_f(row + rows_i8_halves(n), MICA_F32, (size_t)(2 * g + h),
                             s * (float)sums[h]);
            const int32_t counts[3] = {-128 * (sums[0] + sums[1]), -128 * sums[0], -128 * sums[1]};
            memcpy(row + rows_i8_counts(n) + 4 * g, counts, 4);
            memcpy(row + rows_i8_half_counts(n) + 8 * g, counts + 1, 8);
        }
    }
    if (c->call.n_src < 1) c->call.n_src = 1;
}

bool check_form_takes_i8(int i) {
    weight_form f;
    check_form_at(i % check_form_count(), &f);
    return (f.kind == WEIGHT_AFFINE && f.bias != BIAS_NONE) ||
           (f.kind == WEIGHT_TABLE && f.table != TABLE_E4M3);
}

/* What the result is added to, every third time: as many rows, or one for all. */
static void make_added(check_case *c, int64_t n_rows, int64_t n_out) {
    int64_t dims[2] = {n_rows, n_out};
    int which = (int)check_below(&c->rng, 3);
    if (which) check_operand(c, 2, check_float_dtype(c), which, dims + 2 - which);
}

static double added_at(const check_case *c, int64_t row, int64_t i) {
    return c->call.n_src > 2 ? check_at(&c->call.src[2], row, i) : 0;
}

static void make_matmul_i8(check_case *c) {
    int64_t n_in = some_width(c), n_out = check_between(&c->rng, 1, 70);
    while (!check_form_takes_i8(c->index))
        c->index++;
    check_weight(c, 1, 0, 0, n_out, &n_in);
    int64_t n_rows = some_rows(c); /* arguments have no order */
    check_rows_i8(c, n_rows, n_in, check_below(&c->rng, 2));
    int64_t out[2] = {c->call.src[0].dim[0], n_out};
    make_added(c, n_rows, n_out);
    check_output(c, check_float_dtype(c), 2, out);
}

/* A gated pair, but for its output; how many there are in a row. */
static int64_t make_pair_i8(check_case *c) {
    int64_t n_in = some_width(c), n_out = check_between(&c->rng, 1, 50);
    while (!check_form_takes_i8(c->index) || !check_form_takes_i8(c->index + 7))
        c->index++;
    check_weight(c, 1, 0, 0, n_out, &n_in);
    check_weight(c, 2, 1, 0, n_out, &n_in);
    int64_t n_rows = some_rows(c); /* arguments have no order */
    check_rows_i8(c, n_rows, n_in, check_below(&c->rng, 2));
    c->attr.glu.act = (glu_act)check_below(&c->rng, 3);
    return n_out;
}

static void make_glu_i8(check_case *c) {
    int64_t n_out = make_pair_i8(c), out[2] = {c->call.src[0].dim[0], n_out};
    check_output(c, check_float_dtype(c), 2, out);
}

static void make_glu_rows(check_case *c) {
    int64_t n_out = make_pair_i8(c), out[2] = {c->call.src[0].dim[0], 0};
    out[1] = rows_i8_bytes(n_out, check_below(&c->rng, 2));
    check_output(c, MICA_U8, 2, out);
}

static void truth_glu_rows(const check_case *c, double *want, double *bound) {
    truth_in_parts(c, OP_GLU_MATMUL_I8, c->call.src[1].matrix->n_out, want, bound);
}

static void make_experts_i8(check_case *c, int n_weights) {
    int64_t n_in = some_width(c), n_out = check_between(&c->rng, 1, 70), n_experts = 4;
    int64_t k = check_between(&c->rng, 1, 3), rows = check_below(&c->rng, 24);
    while (!check_form_takes_i8(c->index) || (n_weights == 2 && !check_form_takes_i8(c->index + 7)))
        c->index++;
    for (int i = 1; i <= n_weights; i++)
        check_weight(c, i, i - 1, n_experts, n_out, &n_in);
    int64_t x_rows = check_below(&c->rng, 2) ? rows : rows * k, out[2] = {rows * k, n_out};
    check_rows_i8(c, x_rows, n_in, check_below(&c->rng, 2));
    check_groups(c, 1 + n_weights, n_experts, rows, k);
    check_output(c, check_float_dtype(c), 2, out);
}

static void make_expert_matmul_i8(check_case *c) { make_experts_i8(c, 1); }

static void make_expert_glu_i8(check_case *c) {
    make_experts_i8(c, 2);
    c->attr.experts.act = (glu_act)check_below(&c->rng, 3);
}

/* A block adds a fused product of bias and sum, and one of scales and dot: up to 5 roundings of
 * what they are made of, and the sum so far is rounded twice a block. The terms of a table form
 * are those of integers up to 240 with a zero point of 127: at most 255 scales each. */
static double dot_i8(const check_case *c, int64_t r, const kernel_operand *w, int64_t o,
                     double *bound) {
    const weight_matrix *m = w->matrix;
    const uint8_t *row = (const uint8_t *)c->call.src[0].data + r * c->call.src[0].stride[0];
    bool fine = rows_i8_is_fine(operand_width(&c->call.src[0]), m->n_in);
    double sum = 0, size = 0, n_blocks = (double)(m->n_in / 16);
    for (int64_t i = 0; i < m->n_in; i++) {
        double w_size, x = code_at(row, i, m->n_in, fine);
        x *= (double)mica_load_f(row + rows_i8_scales(m->n_in), MICA_F32, (size_t)(i / 32));
        sum += x * check_weight_at(w, o, i, &w_size);
        if (m->form.kind == WEIGHT_TABLE) {
            float s, b;
            mica_weight_group(m, o, i / m->form.group, &s, &b);
            w_size = 2 * 255 * fabs((double)s);
        }
        size += fabs(x) * w_size;
    }
    *bound = (2 * n_blocks + 6) * CHECK_U * 1.001 * size + (double)m->n_in * 0x1p-148;
    return sum;
}

/* The result is rounded to T; what it is added to adds a rounding to f32 and one to T. */
static void round_sum(const check_case *c, int64_t row, int64_t i, double *want, double *bound) {
    mica_dtype t = c->call.out.dtype;
    *bound += check_rounding(t, fabs(*want) + *bound);
    if (c->call.n_src < 3) return;
    if (t == MICA_F16 && fabs(*want) + *bound > 65504) *bound = INFINITY; /* infinite in T */
    *want += added_at(c, row, i);
    *bound += CHECK_U * (fabs(*want) + *bound);
    *bound += check_rounding(t, fabs(*want) + *bound);
}

static void truth_matmul_i8(const check_case *c, double *want, double *bound) {
    const kernel_operand *out = &c->call.out;
    int64_t n = operand_width(out);
    for (int64_t e = 0; e < operand_rows(out) * n; e++) {
        want[e] = dot_i8(c, e / n, &c->call.src[1], e % n, &bound[e]);
        round_sum(c, e / n, e % n, &want[e], &bound[e]);
    }
}

static void truth_expert_matmul_i8(const check_case *c, double *want, double *bound) {
    const kernel_operand *x = &c->call.src[0], *out = &c->call.out;
    int64_t n = operand_width(out), k = c->attr.experts.k;
    for (int64_t e = 0; e < operand_rows(out) * n; e++) {
        int64_t pair = e / n, expert = pair * 7 / 3 % c->attr.experts.n_experts;
        int64_t row = x->dim[0] == out->dim[0] ? pair : pair / k;
        want[e] = dot_i8(c, row, &c->call.src[1], expert * n + e % n, &bound[e]);
        bound[e] += check_rounding(out->dtype, fabs(want[e]) + bound[e]);
    }
}

/* The plain matmuls are held to the truth above; the gated pair to two of them and the activation,
 * whose bounds are those of cases_dense.c. */
static void truth_glu_i8(const check_case *c, double *want, double *bound) {
    const kernel_operand *out = &c->call.out;
    int64_t n = operand_width(out);
    for (int64_t e = 0; e < operand_rows(out) * n; e++) {
        double gate_bound, up_bound;
        double gate = dot_i8(c, e / n, &c->call.src[1], e % n, &gate_bound);
        double up = dot_i8(c, e / n, &c->call.src[2], e % n, &up_bound);
        check_glu_truth(c, gate, gate_bound, up, up_bound, &want[e], &bound[e]);
    }
}

/* ---- bf16 ---- */

/* Where element i of row r is, n_rows rows being n long. */
static int64_t tile_place(int64_t r, int64_t i, int64_t n, int64_t n_rows) {
    static const int64_t first[4] = {0, 16, 32, 48}; /* places of 0, 1, 2, 3 of each four */
    int64_t place = i - i % 64 + first[i % 4] + i % 64 / 4, n_blocks = (n_rows + 15) / 16;
    int64_t piece = place / 512, width = n - 512 * piece < 512 ? n - 512 * piece : 512;
    int64_t at = piece * 512 * 16 * n_blocks + r / 16 * 16 * width;
    return at + place % 512 / 32 * 512 + place % 32 / 2 * 32 + 2 * (r % 16) + place % 2;
}

static void make_tile_rows(check_case *c) {
    int64_t n = 64 * check_between(&c->rng, 1, 20), x[2] = {some_rows(c), n}, out[2] = {0, n};
    out[0] = x[0] + 15;
    check_operand(c, 0, check_float_dtype(c), 2, x);
    check_output(c, MICA_BF16, 2, out);
}

static void truth_tile_rows(const check_case *c, double *want, double *bound) {
    const kernel_operand *x = &c->call.src[0];
    int64_t n = operand_width(x), n_all = operand_rows(&c->call.out) * n;
    for (int64_t e = 0; e < n_all; e++)
        want[e] = bound[e] = 0;
    for (int64_t r = 0; r < operand_rows(x); r++)
        for (int64_t i = 0; i < n; i++) {
            int64_t e = tile_place(r, i, n, operand_rows(x));
            want[e] = check_at(x, r, i);
            bound[e] = 0x1p-8 * fabs(want[e]) + 0x1p-126;
        }
}

/* Where the pairs of check_groups lie: pair p is row *row of n_rows of expert *expert, whose matrix
 * begins after n_blocks blocks of 16 rows. */
typedef struct pair_place {
    int64_t expert, row, n_rows, n_blocks;
} pair_place;

static pair_place place_of_pair(int64_t pair, int64_t n_pairs, int64_t n_experts) {
    pair_place at = {.expert = pair * 7 / 3 % n_experts};
    int64_t n_of[8] = {0};
    for (int64_t p = 0; p < n_pairs; p++) {
        int64_t e = p * 7 / 3 % n_experts;
        if (p == pair) at.row = n_of[e];
        n_of[e]++;
    }
    for (int64_t e = 0; e < at.expert; e++)
        at.n_blocks += (n_of[e] + 15) / 16;
    at.n_rows = n_of[at.expert];
    return at;
}

static void make_tile_experts(check_case *c) {
    int64_t n = 64 * check_between(&c->rng, 1, 12), n_experts = check_between(&c->rng, 1, 8);
    int64_t k = check_between(&c->rng, 1, 3), rows = check_below(&c->rng, 60);
    int64_t x[2] = {check_below(&c->rng, 2) ? rows : rows * k, n};
    int64_t out[2] = {rows * k + 15 * n_experts, n};
    check_operand(c, 0, check_float_dtype(c), 2, x);
    check_groups(c, 1, n_experts, rows, k);
    check_output(c, MICA_BF16, 2, out);
}

static void truth_tile_experts(const check_case *c, double *want, double *bound) {
    const kernel_operand *x = &c->call.src[0];
    int64_t n_experts = c->attr.experts.n_experts, k = c->attr.experts.k, n = operand_width(x);
    int64_t n_pairs = operand_rows(&c->call.out) - 15 * n_experts;
    for (int64_t e = 0; e < operand_rows(&c->call.out) * n; e++)
        want[e] = bound[e] = 0;
    for (int64_t p = 0; p < n_pairs; p++) {
        pair_place at = place_of_pair(p, n_pairs, n_experts);
        int64_t row = operand_rows(x) == n_pairs ? p : p / k;
        for (int64_t i = 0; i < n; i++) {
            int64_t e = 16 * n * at.n_blocks + tile_place(at.row, i, n, at.n_rows);
            want[e] = check_at(x, row, i);
            bound[e] = 0x1p-8 * fabs(want[e]) + 0x1p-126;
        }
    }
}

/* Tiles of any numbers as source 0. */
void check_tiles(check_case *c, int64_t n_rows, int64_t n) {
    kernel_operand *o = &c->call.src[0];
    int64_t n_all = n_rows + 15;
    *o = (kernel_operand){.dtype = MICA_BF16, .n_dims = 2};
    o->dim[0] = n_all;
    o->dim[1] = o->stride[0] = n;
    o->stride[1] = 1;
    o->data = check_memory(c, (size_t)(n_all * n) * 2);
    check_fill_floats(c, o->data, MICA_BF16, n_all * n);
    if (c->call.n_src < 1) c->call.n_src = 1;
}

static void make_matmul_bf16(check_case *c) {
    bool pair = c->call.op == OP_GLU_MATMUL_BF16;
    int64_t n_in = 64 * check_between(&c->rng, 1, 20), n_out = check_between(&c->rng, 1, 70);
    bool is_long = c->index % 64 == 5; /* more rows than go by at once, two pieces */
    if (is_long) {
        n_in = 576;
        n_out = 33;
    }
    if (c->index % 64 == 9) { /* units of several panels, the last of them cut */
        n_in = 64;
        n_out = check_between(&c->rng, 1000, 2200);
    }
    while (!check_form_takes_i8(c->index) || (pair && !check_form_takes_i8(c->index + 7)))
        c->index++;
    check_weight(c, 1, 0, 0, n_out, &n_in);
    if (pair) check_weight(c, 2, 1, 0, n_out, &n_in);
    int64_t n_rows = is_long ? 530 : some_rows(c);
    check_tiles(c, n_rows, n_in);
    int64_t out[2] = {n_rows, n_out};
    if (!pair) make_added(c, n_rows, n_out);
    check_output(c, check_float_dtype(c), 2, out);
    c->attr.glu.act = (glu_act)check_below(&c->rng, 3);
}

static void make_experts_bf16(check_case *c) {
    int n_weights = c->call.op == OP_EXPERT_GLU_MATMUL_BF16 ? 2 : 1;
    int64_t n_in = 64 * check_between(&c->rng, 1, 10), n_out = check_between(&c->rng, 1, 70);
    int64_t n_experts = check_between(&c->rng, 2, 6), k = check_between(&c->rng, 1, 3);
    int64_t rows = check_below(&c->rng, 60), out[2] = {rows * k, n_out};
    while (!check_form_takes_i8(c->index) || (n_weights == 2 && !check_form_takes_i8(c->index + 7)))
        c->index++;
    for (int i = 1; i <= n_weights; i++)
        check_weight(c, i, i - 1, n_experts, n_out, &n_in);
    check_tiles(c, rows * k + 15 * (n_experts - 1), n_in);
    check_groups(c, 1 + n_weights, n_experts, rows, k);
    check_output(c, check_float_dtype(c), 2, out);
    c->attr.experts.act = (glu_act)check_below(&c->rng, 3);
}

/* A weight is off by half an ulp of bf16, 2^-8 of it, and the roundings that formed it; a sum of n
 * products has at most n roundings; subnormal numbers, which count as zero, are below 2^-126. */
static double dot_bf16(const check_case *c, pair_place at, const kernel_operand *w, int64_t o,
                       double *bound) {
    const weight_matrix *m = w->matrix;
    double sum = 0, size = 0, xs = 0, n = (double)m->n_in;
    for (int64_t i = 0; i < m->n_in; i++) {
        int64_t place = 16 * m->n_in * at.n_blocks + tile_place(at.row, i, m->n_in, at.n_rows);
        double w_size, x = (double)operand_load(&c->call.src[0], place);
        sum += x * check_weight_at(w, o, i, &w_size);
        if (m->form.kind == WEIGHT_TABLE) {
            float s, b;
            mica_weight_group(m, o, i / m->form.group, &s, &b);
            w_size = 2 * 255 * fabs((double)s);
        }
        size += fabs(x) * w_size;
        xs += fabs(x) + w_size;
    }
    *bound = (0x1p-8 + (n + 6) * CHECK_U) * 1.01 * size + 0x1p-126 * (xs + 3 * n);
    return sum;
}

/* Row r of a plain matmul, or of one for experts. */
static pair_place place_of_row(const check_case *c, int64_t r) {
    int64_t n_rows = operand_rows(&c->call.out);
    bool experts = c->call.op == OP_EXPERT_MATMUL_BF16 || c->call.op == OP_EXPERT_GLU_MATMUL_BF16;
    if (experts) return place_of_pair(r, n_rows, c->attr.experts.n_experts);
    return (pair_place){.row = r, .n_rows = n_rows};
}

static void truth_matmul_bf16(const check_case *c, double *want, double *bound) {
    const kernel_operand *out = &c->call.out;
    int64_t n = operand_width(out);
    for (int64_t e = 0; e < operand_rows(out) * n; e++) {
        pair_place at = place_of_row(c, e / n);
        want[e] = dot_bf16(c, at, &c->call.src[1], at.expert * n + e % n, &bound[e]);
        if (c->call.op == OP_MATMUL_BF16)
            round_sum(c, e / n, e % n, &want[e], &bound[e]);
        else
            bound[e] += check_rounding(out->dtype, fabs(want[e]) + bound[e]);
    }
}

static void truth_glu_bf16(const check_case *c, double *want, double *bound) {
    const kernel_operand *out = &c->call.out;
    int64_t n = operand_width(out);
    for (int64_t e = 0; e < operand_rows(out) * n; e++) {
        double gate_bound, up_bound;
        pair_place at = place_of_row(c, e / n);
        int64_t o = at.expert * n + e % n;
        double gate = dot_bf16(c, at, &c->call.src[1], o, &gate_bound);
        double up = dot_bf16(c, at, &c->call.src[2], o, &up_bound);
        check_glu_truth(c, gate, gate_bound, up, up_bound, &want[e], &bound[e]);
    }
}

const check_op check_ops_i8[] = {
    {"quantize_rows", OP_QUANTIZE_ROWS, 120, make_quantize, truth_quantize},
    {"rms_norm_i8", OP_RMS_NORM_I8, 160, make_norm_i8, truth_norm_i8},
    {"layer_norm_i8", OP_LAYER_NORM_I8, 160, make_norm_i8, truth_norm_i8},
    {"matmul_i8", OP_MATMUL_I8, 1296, make_matmul_i8, truth_matmul_i8},
    {"glu_matmul_i8", OP_GLU_MATMUL_I8, 648, make_glu_i8, truth_glu_i8},
    {"glu_rows_i8", OP_GLU_ROWS_I8, 324, make_glu_rows, truth_glu_rows},
    {"expert_matmul_i8", OP_EXPERT_MATMUL_I8, 648, make_expert_matmul_i8, truth_expert_matmul_i8},
    {"expert_glu_matmul_i8", OP_EXPERT_GLU_MATMUL_I8, 324, make_expert_glu_i8, NULL},
    {"tile_rows", OP_TILE_ROWS, 60, make_tile_rows, truth_tile_rows},
    {"matmul_bf16", OP_MATMUL_BF16, 324, make_matmul_bf16, truth_matmul_bf16},
    {"glu_matmul_bf16", OP_GLU_MATMUL_BF16, 216, make_matmul_bf16, truth_glu_bf16},
    {"tile_experts", OP_TILE_ROWS, 60, make_tile_experts, truth_tile_experts},
    {"expert_matmul_bf16", OP_EXPERT_MATMUL_BF16, 216, make_experts_bf16, truth_matmul_bf16},
    {"expert_glu_matmul_bf16", OP_EXPERT_GLU_MATMUL_BF16, 108, make_experts_bf16, truth_glu_bf16},
};
const int check_n_ops_i8 = sizeof(check_ops_i8) / sizeof(check_ops_i8[0]);
