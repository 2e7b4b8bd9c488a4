/* cases_dense.c: random calls of matmul, embedding and the elementwise ops, and what they should
 * give in double.
 */
#include <math.h>

#include "check.h"

/* Row counts on both sides of the limits at which kernels change their way. */
static int64_t random_rows(check_case *c) {
    static const int64_t rows[] = {0, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 33};
    return rows[check_below(&c->rng, 15)];
}

static int64_t random_width(check_case *c) {
    static const int64_t widths[] = {1, 2, 15, 16, 17, 31, 32, 33, 48, 64, 127, 128, 256, 320, 576};
    return check_below(&c->rng, 2) ? widths[check_below(&c->rng, 15)]
                                   : check_between(&c->rng, 1, 700);
}

static void make_matmul(check_case *c) {
    int64_t n_in = random_width(c), n_out = check_between(&c->rng, 1, 50);
    check_weight(c, 1, 0, 0, n_out, &n_in);
    int64_t x[2] = {random_rows(c), n_in}, out[2] = {x[0], n_out};
    check_operand(c, 0, check_float_dtype(c), 2, x);
    check_output(c, check_float_dtype(c), 2, out);
}

static void make_glu(check_case *c) {
    int64_t n_in = random_width(c), n_out = check_between(&c->rng, 1, 40);
    check_weight(c, 1, 0, 0, n_out, &n_in);
    check_weight(c, 2, 1, 0, n_out, &n_in);
    int64_t x[2] = {random_rows(c), n_in}, out[2] = {x[0], n_out};
    check_operand(c, 0, check_float_dtype(c), 2, x);
    check_output(c, check_float_dtype(c), 2, out);
    c->attr.glu.act = (glu_act)check_below(&c->rng, 3);
}

/* A sum of n products in 16 interleaved sums is off by at most (n/16 + 1 + 4) roundings of the sum
 * of magnitudes, each weight by 2, each product by 1; a subnormal product by 2^-150. */
static double dot_in_double(const kernel_operand *x, int64_t r, const kernel_operand *w, int64_t o,
                            double *bound) {
    int64_t n = operand_width(x);
    double sum = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        double w_size, xv = check_at(x, r, i);
        sum += xv * check_weight_at(w, o, i, &w_size);
        size += fabs(xv) * w_size;
    }
    *bound = ((double)n / 16 + 9) * CHECK_U * 1.001 * size + (double)n * 0x1p-148;
    return sum;
}

static void truth_matmul(const check_case *c, double *want, double *bound) {
    const kernel_operand *out = &c->call.out;
    int64_t n = operand_width(out);
    for (int64_t e = 0; e < operand_rows(out) * n; e++) {
        want[e] = dot_in_double(&c->call.src[0], e / n, &c->call.src[1], e % n, &bound[e]);
        bound[e] += check_rounding(out->dtype, fabs(want[e]) + bound[e]);
    }
}

static double activation(int act, double x) {
    if (act == GLU_SILU) return x / (1 + exp(-x));
    if (act == GLU_GELU) return x * (1 + erf(x / sqrt(2.0))) / 2;
    return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

/* No activation is steeper than 1.13. Its own chain has up to 9 roundings to T, of values up to
 * max(1, |x|), with constants off by one rounding each; |x| beyond 20 is not amplified any more
 * because the tanh is flat there. */
void check_glu_truth(const check_case *c, double gate, double gate_bound, double up,
                     double up_bound, double *want, double *bound) {
    mica_dtype t = c->call.out.dtype;
    gate_bound += check_rounding(t, fabs(gate) + gate_bound);
    up_bound += check_rounding(t, fabs(up) + up_bound);
    double unit = check_rounding(t, 1.0), a = activation(c->attr.glu.act, gate);
    double steps = fabs(gate) * (1 + fmin(fabs(gate), 20)) * 12 * unit + unit;
    double a_bound = 1.13 * gate_bound + steps;
    *want = a * up;
    *bound = a_bound * (fabs(up) + up_bound) + fabs(a) * up_bound;
    *bound += check_rounding(t, fabs(*want) + *bound);
    double largest = t == MICA_F16 ? 65504 : 3.38e38; /* an overflow on the way */
    if (fmax(2 * fabs(gate) + gate_bound, fabs(up) + up_bound) > largest) *bound = INFINITY;
}

static void truth_glu(const check_case *c, double *want, double *bound) {
    int64_t n = operand_width(&c->call.out);
    for (int64_t e = 0; e < operand_rows(&c->call.out) * n; e++) {
        double gate_bound, up_bound;
        double gate = dot_in_double(&c->call.src[0], e / n, &c->call.src[1], e % n, &gate_bound);
        double up = dot_in_double(&c->call.src[0], e / n, &c->call.src[2], e % n, &up_bound);
        check_glu_truth(c, gate, gate_bound, up, up_bound, &want[e], &bound[e]);
    }
}

static void make_embed(check_case *c) {
    int64_t n = random_width(c), n_vocab = check_between(&c->rng, 1, 30), rows = random_rows(c);
    check_weight(c, 1, 0, 0, n_vocab, &n);
    int32_t *ids = check_operand_i32(c, 0, 1, &rows);
    for (int64_t r = 0; r < rows; r++)
        ids[r] = (int32_t)check_between(&c->rng, -1, n_vocab);
    int64_t out[2] = {rows, n};
    check_output(c, check_float_dtype(c), 2, out);
}

static void truth_embed(const check_case *c, double *want, double *bound) {
    const kernel_operand *out = &c->call.out, *w = &c->call.src[1];
    int64_t n = operand_width(out), n_vocab = w->dim[0];
    for (int64_t e = 0; e < operand_rows(out) * n; e++) {
        int32_t id = operand_i32(&c->call.src[0])[e / n];
        double size = 0;
        want[e] = id < 0 || id >= n_vocab ? 0 : check_weight_at(w, id, e % n, &size);
        bound[e] = check_rounding(out->dtype, size) + check_rounding(out->dtype, 2 * size);
    }
}

static void make_gather(check_case *c) {
    int64_t n_x = check_between(&c->rng, 1, 20);
    int64_t x[2] = {n_x, random_width(c)}, rows = random_rows(c);
    check_operand(c, 0, check_float_dtype(c), 2, x);
    int32_t *ids = check_operand_i32(c, 1, 1, &rows);
    for (int64_t r = 0; r < rows; r++)
        ids[r] = (int32_t)check_below(&c->rng, x[0]);
    int64_t out[2] = {rows, x[1]};
    check_output(c, c->call.src[0].dtype, 2, out);
}

static void truth_gather(const check_case *c, double *want, double *bound) {
    int64_t n = operand_width(&c->call.out);
    for (int64_t e = 0; e < operand_rows(&c->call.out) * n; e++) {
        want[e] = check_at(&c->call.src[0], operand_i32(&c->call.src[1])[e / n], e % n);
        bound[e] = 0;
    }
}

/* ---- elementwise ---- */

static int64_t make_shape(check_case *c, int64_t dims[3]) {
    int64_t n = check_below(&c->rng, 8) ? random_width(c) : check_between(&c->rng, 1000, 2100);
    dims[0] = random_rows(c);
    dims[1] = check_between(&c->rng, 1, 3);
    dims[2] = n;
    return n;
}

static void make_unary(check_case *c) {
    int64_t dims[3];
    make_shape(c, dims);
    int n_dims = (int)check_between(&c->rng, 2, 3);
    c->specials = check_below(&c->rng, 3) == 0;
    check_operand(c, 0, check_float_dtype(c), n_dims, dims + 3 - n_dims);
    check_output(c, check_float_dtype(c), n_dims, dims + 3 - n_dims);
    c->attr.scale.c = (float)(check_uniform(&c->rng) * 20 + 25);
}

static void make_xielu(check_case *c) {
    make_unary(c);
    c->attr.xielu.alpha_p = (float)(1.1 + check_uniform(&c->rng));
    c->attr.xielu.alpha_n = (float)(1.5 + check_uniform(&c->rng));
    c->attr.xielu.beta = 0.5f;
    c->attr.xielu.eps = -1e-6f;
}

static void make_position_scale(check_case *c) {
    int64_t dims[3];
    make_shape(c, dims);
    int n_dims = (int)check_between(&c->rng, 2, 3);
    if (n_dims == 2) dims[1] = dims[2];
    check_operand(c, 0, check_float_dtype(c), n_dims, dims);
    int32_t *positions = check_operand_i32(c, 1, 1, dims);
    for (int64_t r = 0; r < dims[0]; r++)
        positions[r] = (int32_t)check_below(&c->rng, 5000);
    check_output(c, check_float_dtype(c), n_dims, dims);
    c->attr.position_scale.beta = (float)fabs(check_uniform(&c->rng));
    c->attr.position_scale.offset = (int32_t)check_below(&c->rng, 2);
    c->attr.position_scale.length = (int32_t)check_between(&c->rng, 1, 100);
}

static void truth_position_scale(const check_case *c, double *want, double *bound) {
    const kernel_operand *out = &c->call.out;
    int64_t n = operand_width(out), inner = operand_rows(out) / (out->dim[0] ? out->dim[0] : 1);
    for (int64_t e = 0; e < operand_rows(out) * n; e++) {
        int64_t p = operand_i32(&c->call.src[1])[e / n / inner] + c->attr.position_scale.offset;
        double f = 1 + (double)c->attr.position_scale.beta *
                           log1p((double)(p / c->attr.position_scale.length));
        double x = check_at(&c->call.src[0], e / n, e % n);
        want[e] = x * f;
        bound[e] = fabs(want[e]) * (check_rounding(out->dtype, 1.0) + 6 * CHECK_U);
        bound[e] += check_rounding(out->dtype, fabs(want[e]) + bound[e]);
    }
}

static void make_copy(check_case *c) {
    int64_t dims[3];
    mica_dtype t = check_float_dtype(c);
    make_shape(c, dims);
    check_operand(c, 0, t, 3, dims);
    check_output(c, t, 3, dims);
}

static void make_binary(check_case *c) {
    int64_t dims[3], n = make_shape(c, dims);
    int n_dims = (int)check_between(&c->rng, 2, 3);
    c->specials = check_below(&c->rng, 3) == 0;
    check_operand(c, 0, check_float_dtype(c), n_dims, dims + 3 - n_dims);
    if (check_below(&c->rng, 2))
        check_operand(c, 1, check_float_dtype(c), 1, &n);
    else
        check_operand(c, 1, check_float_dtype(c), n_dims, dims + 3 - n_dims);
    check_output(c, check_float_dtype(c), n_dims, dims + 3 - n_dims);
}

static void make_silu_grad(check_case *c) {
    int64_t dims[3];
    make_shape(c, dims);
    check_operand(c, 0, check_float_dtype(c), 2, dims + 1);
    check_operand(c, 1, check_float_dtype(c), 2, dims + 1);
    check_output(c, check_float_dtype(c), 2, dims + 1);
}

static void make_pad(check_case *c) {
    int64_t dims[3], before = check_below(&c->rng, 40), after = check_below(&c->rng, 40);
    make_shape(c, dims);
    check_operand(c, 0, check_float_dtype(c), 2, dims + 1);
    int64_t out[2] = {dims[1], before + dims[2] + after};
    check_output(c, c->call.src[0].dtype, 2, out);
    c->attr.pad.before = before;
}

/* Bounds of the chains are as in truth_glu: a few roundings to T of values up to max(1, |x|). */
static double unary_truth(const check_case *c, double x, double y, double *bound) {
    mica_dtype t = c->call.out.dtype;
    double unit = check_rounding(t, 1.0), wide = fabs(x) * (1 + fmin(fabs(x), 20)) * 12 * unit;
    double cap = (double)c->attr.scale.c;
    *bound = 0;
    switch (c->call.op) {
    case OP_ADD:
        *bound = CHECK_U * fabs(x + y);
        return x + y;
    case OP_MUL:
        *bound = CHECK_U * fabs(x * y) + 0x1p-149;
        return x * y;
    case OP_SCALE:
        *bound = 2 * unit * fabs(x * cap);
        return x * cap;
    case OP_SILU:
        *bound = wide + unit;
        return activation(GLU_SILU, x);
    case OP_GELU:
        *bound = wide + unit;
        return activation(GLU_GELU, x);
    case OP_GELU_TANH:
        *bound = wide + unit;
        return activation(GLU_GELU_TANH, x);
    case OP_SIGMOID:
        *bound = 6 * unit;
        return 1 / (1 + exp(-x));
    case OP_SOFTPLUS:
        *bound = 6 * unit;
        return fmax(x, 0) + log1p(exp(-fabs(x)));
    case OP_SOFTCAP:
        *bound = 6 * unit * fmin(fabs(x), cap) + 2 * cap * check_rounding(t, 0);
        return cap * tanh(x / cap);
    case OP_RELU2:
        *bound = CHECK_U * x * x + 0x1p-149;
        return x > 0 ? x * x : 0;
    case OP_CLAMP: /* the limit is rounded to T */
        *bound = unit * cap;
        return fmin(fmax(x, -cap), cap);
    case OP_XIELU: {
        double ap = (double)c->attr.xielu.alpha_p, an = (double)c->attr.xielu.alpha_n;
        double beta = (double)c->attr.xielu.beta, e = expm1(fmin(x, (double)c->attr.xielu.eps));
        *bound = 8 * unit * (ap * x * x + (fabs(e) + fabs(x)) * an + beta * fabs(x));
        *bound += 4 * (1 + an) * check_rounding(t, 0); /* steps below the least normal number */
        return x > 0 ? ap * x * x + beta * x : (e - x) * an + beta * x;
    }
    case OP_SILU_GRAD: {
        double s = 1 / (1 + exp(-x));
        *bound = fabs(y) * (2 + fabs(x)) * 12 * CHECK_U + 0x1p-145;
        return y * s * (1 + x * (1 - s));
    }
    default:
        return x; /* a cast or a copy */
    }
}

static void truth_elements(const check_case *c, double *want, double *bound) {
    const kernel_operand *out = &c->call.out;
    int64_t n = operand_width(out);
    for (int64_t e = 0; e < operand_rows(out) * n; e++) {
        double x = check_at(&c->call.src[0], e / n, e % n);
        double y = c->call.n_src > 1 ? check_at(&c->call.src[1], e / n, e % n) : 0;
        want[e] = unary_truth(c, x, y, &bound[e]);
        bound[e] += check_rounding(out->dtype, fabs(want[e]) + bound[e]);
    }
}

static void truth_pad(const check_case *c, double *want, double *bound) {
    int64_t n = operand_width(&c->call.out), before = c->attr.pad.before;
    int64_t n_x = operand_width(&c->call.src[0]);
    for (int64_t e = 0; e < operand_rows(&c->call.out) * n; e++) {
        int64_t i = e % n - before;
        want[e] = i < 0 || i >= n_x ? 0 : check_at(&c->call.src[0], e / n, i);
        bound[e] = 0;
    }
}

const check_op check_ops_dense[] = {
    {"matmul", OP_MATMUL, 1296, make_matmul, truth_matmul},
    {"glu_matmul", OP_GLU_MATMUL, 648, make_glu, truth_glu},
    {"embed", OP_EMBED, 648, make_embed, truth_embed},
    {"gather_rows", OP_GATHER_ROWS, 60, make_gather, truth_gather},
    {"add", OP_ADD, 100, make_binary, truth_elements},
    {"mul", OP_MUL, 100, make_binary, truth_elements},
    {"scale", OP_SCALE, 60, make_unary, truth_elements},
    {"silu", OP_SILU, 100, make_unary, truth_elements},
    {"gelu", OP_GELU, 100, make_unary, truth_elements},
    {"gelu_tanh", OP_GELU_TANH, 100, make_unary, truth_elements},
    {"sigmoid", OP_SIGMOID, 60, make_unary, truth_elements},
    {"softplus", OP_SOFTPLUS, 60, make_unary, truth_elements},
    {"softcap", OP_SOFTCAP, 60, make_unary, truth_elements},
    {"relu2", OP_RELU2, 60, make_unary, truth_elements},
    {"clamp", OP_CLAMP, 60, make_unary, truth_elements},
    {"xielu", OP_XIELU, 100, make_xielu, truth_elements},
    {"position_scale", OP_POSITION_SCALE, 60, make_position_scale, truth_position_scale},
    {"cast", OP_CAST, 60, make_unary, truth_elements},
    {"copy", OP_COPY, 60, make_copy, truth_elements},
    {"pad", OP_PAD, 60, make_pad, truth_pad},
    {"silu_grad", OP_SILU_GRAD, 60, make_silu_grad, truth_elements},
};
const int check_n_ops_dense = sizeof(check_ops_dense) / sizeof(check_ops_dense[0]);
