/* gradient.c: one backward step through norm, matmul, rope, attention and a gated MLP, with LoRA
 * factors, checked by finite differences.
 *
 * The differences are taken of a forward written here in double, which the graph's own forward must
 * match too; so they are good to 1e-8, and what remains is the f32 rounding of the gradient. Two
 * sequences share the step, so that a gradient which leaks from one to the other is seen.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

enum { ROWS = 6, H = 12, HEADS = 2, KV = 1, D = 4, RANK = 2, INNER = 10 };
enum { QKV = (HEADS + 2 * KV) * D, ATT = HEADS * D };
enum { P_X, P_NORM, P_BIAS, P_A, P_B, P_GATE, N_PARAMS };

static const int sizes[N_PARAMS] = {ROWS * H, H, QKV, RANK *ATT, H *RANK, INNER *H};
static const double attention_scale = 0.5, lora_scale = 1.5, eps = 1e-5, period[2] = {1, 7};
static const int32_t positions[ROWS] = {0, 1, 2, 3, 0, 1}, row_seq[ROWS] = {0, 0, 0, 0, 1, 1};

typedef struct net {
    rig r;
    graph_id param[N_PARAMS], dy, grads[N_PARAMS];
    weight_matrix *qkv, *out, *up, *down;
} net;

/* ---- the graph ---- */

static graph_id weight(net *n, weight_matrix *m) { return mica_graph_weight(&n->r.g, m); }

static graph_id rotated(net *n, graph_id qkv, int64_t begin, int64_t heads, graph_id angles) {
    graph_id x = mica_graph_slice(&n->r.g, qkv, begin, heads * D);
    return mica_graph_rope(&n->r.g, mica_graph_heads(&n->r.g, x, heads), angles, D, false, 1);
}

static graph_id attention_block(net *n, graph_id x, graph_id pos, graph_id seq, graph_id periods) {
    graph *g = &n->r.g;
    graph_id normed = mica_graph_rms_norm(g, x, n->param[P_NORM], (float)eps);
    graph_id qkv = mica_graph_matmul(g, normed, weight(n, n->qkv));
    qkv = mica_graph_add(g, qkv, n->param[P_BIAS]);
    graph_id angles = mica_graph_rope_angles(g, pos, periods, 1);
    graph_id q = rotated(n, qkv, 0, HEADS, angles);
    graph_id k = rotated(n, qkv, HEADS * D, KV, angles);
    graph_id v = mica_graph_heads(g, mica_graph_slice(g, qkv, (HEADS + KV) * D, KV * D), KV);
    graph_id a = mica_graph_attention_rows(g, q, k, v, pos, seq, (float)attention_scale);
    graph_id o = mica_graph_matmul(g, a, weight(n, n->out));
    graph_id low = mica_graph_matmul(g, mica_graph_matmul(g, a, n->param[P_A]), n->param[P_B]);
    return mica_graph_add(g, o, mica_graph_scale(g, low, (float)lora_scale));
}

static graph_id mlp_block(net *n, graph_id x) {
    graph *g = &n->r.g;
    graph_id normed = mica_graph_rms_norm(g, x, GRAPH_NONE, (float)eps);
    graph_id gate = mica_graph_silu(g, mica_graph_matmul(g, normed, n->param[P_GATE]));
    graph_id up = mica_graph_matmul(g, normed, weight(n, n->up));
    return mica_graph_matmul(g, mica_graph_mul(g, gate, up), weight(n, n->down));
}

static void build(net *n) {
    rig *r = &n->r;
    graph *g = &r->g;
    rig_init(r, ROWS, ROWS, 1);
    graph_dim row = mica_dim_sym(1, GRAPH_ROWS), two = mica_dim(2);
    graph_dim x_dims[2] = {row, mica_dim(H)}, norm[1] = {mica_dim(H)}, bias[1] = {mica_dim(QKV)};
    graph_dim a[2] = {mica_dim(RANK), mica_dim(ATT)}, b[2] = {mica_dim(H), mica_dim(RANK)};
    graph_dim gate[2] = {mica_dim(INNER), mica_dim(H)};
    n->param[P_X] = rig_f32(r, "x", 2, x_dims);
    n->param[P_NORM] = rig_f32(r, "norm", 1, norm);
    n->param[P_BIAS] = rig_f32(r, "bias", 1, bias);
    n->param[P_A] = rig_f32(r, "lora_a", 2, a);
    n->param[P_B] = rig_f32(r, "lora_b", 2, b);
    n->param[P_GATE] = rig_f32(r, "gate", 2, gate);
    n->dy = rig_f32(r, "dy", 2, x_dims);
    n->qkv = rig_dense(r, 1, QKV, H, 1);
    n->out = rig_dense(r, 1, H, ATT, 1);
    n->up = rig_dense(r, 1, INNER, H, 1);
    n->down = rig_dense(r, 1, H, INNER, 1);
    graph_id pos = rig_input(r, "positions", MICA_I32, 1, &row);
    graph_id seq = rig_input(r, "row_seq", MICA_I32, 1, &row);
    graph_id periods = rig_input(r, "periods", MICA_F32, 1, &two);
    memcpy(rig_array(r, pos), positions, sizeof(positions));
    memcpy(rig_array(r, seq), row_seq, sizeof(row_seq));
    for (int i = 0; i < 2; i++)
        ((float *)rig_array(r, periods))[i] = (float)period[i];
    graph_id x = n->param[P_X];
    x = mica_graph_add(g, x, attention_block(n, x, pos, seq, periods));
    x = mica_graph_add(g, x, mlp_block(n, x));
    mica_graph_output(g, x);
    mica_error err = {0};
    if (mica_graph_backward(g, x, n->dy, n->param, N_PARAMS, n->grads, &err)) {
        fail_msg("%s", err.message);
    }
    for (int i = 0; i < N_PARAMS; i++)
        mica_graph_output(g, n->grads[i]);
}

/* ---- the same in double ---- */

static void matmul(const double *x, int rows, int n_in, const double *w, int n_out, double *y) {
    for (int r = 0; r < rows; r++) {
        for (int o = 0; o < n_out; o++) {
            double sum = 0;
            for (int i = 0; i < n_in; i++)
                sum += x[r * n_in + i] * w[o * n_in + i];
            y[r * n_out + o] = sum;
        }
    }
}

static void widen(const weight_matrix *m, double *out) {
    const float *w = (const float *)m->codes;
    for (int64_t i = 0; i < m->n_out * m->n_in; i++)
        out[i] = (double)w[i];
}

static void rms_norm(const double *x, const double *w, double *y) {
    for (int r = 0; r < ROWS; r++) {
        double sum = 0;
        for (int i = 0; i < H; i++)
            sum += x[r * H + i] * x[r * H + i];
        double inv = 1 / sqrt(sum / H + eps);
        for (int i = 0; i < H; i++)
            y[r * H + i] = x[r * H + i] * inv * (w ? w[i] : 1);
    }
}

/* Half-split rotation of one head. */
static void rotate(double *x, int32_t position) {
    for (int i = 0; i < D / 2; i++) {
        double t = position / period[i], a = x[i], b = x[i + D / 2];
        x[i] = a * cos(t) - b * sin(t);
        x[i + D / 2] = a * sin(t) + b * cos(t);
    }
}

static void attend(double *qkv, double *out) {
    for (int r = 0; r < ROWS; r++) {
        for (int h = 0; h < HEADS + KV; h++)
            rotate(qkv + r * QKV + h * D, positions[r]);
    }
    for (int r = 0; r < ROWS; r++) {
        for (int h = 0; h < HEADS; h++) {
            double sum = 0, acc[D] = {0};
            int kv = h / (HEADS / KV);
            for (int j = 0; j < ROWS; j++) {
                if (row_seq[j] != row_seq[r] || positions[j] > positions[r]) continue;
                const double *k = qkv + j * QKV + (HEADS + kv) * D;
                const double *v = qkv + j * QKV + (HEADS + KV + kv) * D;
                double s = 0;
                for (int i = 0; i < D; i++)
                    s += qkv[r * QKV + h * D + i] * k[i];
                double p = exp(attention_scale * s);
                sum += p;
                for (int i = 0; i < D; i++)
                    acc[i] += p * v[i];
            }
            for (int i = 0; i < D; i++)
                out[r * ATT + h * D + i] = acc[i] / sum;
        }
    }
}

static void naive_forward(const net *n, double *const *param, double *y) {
    double w[QKV * H + H * ATT + INNER * H], normed[ROWS * H], qkv[ROWS * QKV], a[ROWS * ATT];
    double o[ROWS * H], low[ROWS * RANK], add[ROWS * H], gate[ROWS * INNER], up[ROWS * INNER];
    memcpy(y, param[P_X], ROWS * H * sizeof(*y));
    rms_norm(y, param[P_NORM], normed);
    widen(n->qkv, w);
    matmul(normed, ROWS, H, w, QKV, qkv);
    for (int i = 0; i < ROWS * QKV; i++)
        qkv[i] += param[P_BIAS][i % QKV];
    attend(qkv, a);
    widen(n->out, w);
    matmul(a, ROWS, ATT, w, H, o);
    matmul(a, ROWS, ATT, param[P_A], RANK, low);
    matmul(low, ROWS, RANK, param[P_B], H, add);
    for (int i = 0; i < ROWS * H; i++)
        y[i] += o[i] + lora_scale * add[i];
    rms_norm(y, NULL, normed);
    matmul(normed, ROWS, H, param[P_GATE], INNER, gate);
    widen(n->up, w);
    matmul(normed, ROWS, H, w, INNER, up);
    for (int i = 0; i < ROWS * INNER; i++)
        up[i] *= gate[i] / (1 + exp(-gate[i]));
    widen(n->down, w);
    matmul(up, ROWS, INNER, w, H, add);
    for (int i = 0; i < ROWS * H; i++)
        y[i] += add[i];
}

static double loss(const net *n, double *const *param) {
    double y[ROWS * H], sum = 0;
    const float *dy = rig_array(&n->r, n->dy);
    naive_forward(n, param, y);
    for (int i = 0; i < ROWS * H; i++)
        sum += y[i] * (double)dy[i];
    return sum;
}

/* ---- the checks ---- */

static void test_backward(void **state) {
    (void)state;
    static net n;
    build(&n);
    n.r.n_threads = 2;
    rig_compile(&n.r);
    rig_run(&n.r);
    double *param[N_PARAMS], y[ROWS * H];
    for (int p = 0; p < N_PARAMS; p++) {
        const float *x = rig_array(&n.r, n.param[p]);
        param[p] = calloc((size_t)sizes[p], sizeof(double));
        for (int i = 0; i < sizes[p]; i++)
            param[p][i] = (double)x[i];
    }
    naive_forward(&n, param, y);
    rig_assert_close(rig_output(&n.r, 0, NULL), y, ROWS * H, 2e-6);
    for (int p = 0; p < N_PARAMS; p++) {
        double want[ROWS * INNER * H];
        int64_t count;
        const float *got = rig_output(&n.r, 1 + p, &count);
        assert_int_equal(count, sizes[p]);
        for (int i = 0; i < sizes[p]; i++) {
            double x = param[p][i], h = 1e-5;
            param[p][i] = x + h;
            double above = loss(&n, param);
            param[p][i] = x - h;
            double below = loss(&n, param);
            param[p][i] = x;
            want[i] = (above - below) / (2 * h);
        }
        rig_assert_close(got, want, sizes[p], 1e-5);
    }
    for (int p = 0; p < N_PARAMS; p++)
        free(param[p]);
    rig_deinit(&n.r);
}

/* A gradient has the shape and dtype of what it belongs to. */
static void test_types(void **state) {
    (void)state;
    static net n;
    build(&n);
    for (int p = 0; p < N_PARAMS; p++) {
        const graph_type *a = &n.r.g.nodes[n.param[p]].type, *b = &n.r.g.nodes[n.grads[p]].type;
        char x[96], y[96];
        mica_graph_type_text(a, NULL, x, sizeof(x));
        mica_graph_type_text(b, NULL, y, sizeof(y));
        assert_string_equal(x, y);
    }
    rig_deinit(&n.r);
}

/* Fusing the MLP changes no bit of a training step: what the backward reads is not fused away. */
static void test_levers_keep_gradients(void **state) {
    (void)state;
    static net n;
    build(&n);
    float *plain[1 + N_PARAMS];
    int64_t count[1 + N_PARAMS];
    rig_compile(&n.r);
    rig_run(&n.r);
    for (int i = 0; i <= N_PARAMS; i++)
        plain[i] = rig_keep(&n.r, i, &count[i]);
    n.r.levers = mica_levers_fast();
    rig_compile(&n.r);
    rig_run(&n.r);
    for (int i = 0; i <= N_PARAMS; i++) {
        rig_assert_same(plain[i], rig_output(&n.r, i, NULL), (size_t)count[i] * sizeof(float));
    }
    rig_deinit(&n.r);
}

/* Two slices of one tensor, one of them used twice, and a scaled rope: gradients accumulate. */
static void test_slices_accumulate(void **state) {
    (void)state;
    rig r;
    rig_init(&r, 3, 3, 1);
    graph *g = &r.g;
    graph_dim dims[2] = {mica_dim_sym(1, GRAPH_ROWS), mica_dim(8)};
    graph_dim half[2] = {mica_dim_sym(1, GRAPH_ROWS), mica_dim(4)};
    graph_id x = rig_f32(&r, "x", 2, dims), dy = rig_f32(&r, "dy", 2, half), dx;
    graph_id a = mica_graph_slice(g, x, 0, 4), b = mica_graph_slice(g, x, 3, 4);
    graph_id y = mica_graph_add(g, mica_graph_mul(g, a, b), mica_graph_scale(g, b, 3));
    mica_error err = {0};
    assert_int_equal(mica_graph_backward(g, y, dy, &x, 1, &dx, &err), MICA_OK);
    mica_graph_output(g, dx);
    rig_compile(&r);
    rig_run(&r);
    const float *xs = rig_array(&r, x), *ds = rig_array(&r, dy);
    double want[3 * 8] = {0};
    for (int row = 0; row < 3; row++) {
        for (int i = 0; i < 4; i++) {
            double d = (double)ds[row * 4 + i];
            want[row * 8 + i] += d * (double)xs[row * 8 + 3 + i];
            want[row * 8 + 3 + i] += d * ((double)xs[row * 8 + i] + 3);
        }
    }
    rig_assert_close(rig_output(&r, 0, NULL), want, 24, 1e-6);
    rig_deinit(&r);
}

/* y = x * w over the last dimension of [rows, 2, 4], copied and cast: dw sums over rows and heads.
 */
static void test_broadcast_product(void **state) {
    (void)state;
    rig r;
    rig_init(&r, 3, 3, 1);
    graph *g = &r.g;
    graph_dim dims[2] = {mica_dim_sym(1, GRAPH_ROWS), mica_dim(8)}, four = mica_dim(4);
    graph_id x = rig_f32(&r, "x", 2, dims), w = rig_f32(&r, "w", 1, &four);
    graph_id dy = rig_f32(&r, "dy", 2, dims), wrt[2] = {x, w}, grads[2];
    graph_id heads = mica_graph_copy(g, mica_graph_heads(g, x, 2));
    graph_id y = mica_graph_flat(g, mica_graph_mul(g, heads, w));
    mica_error err = {0};
    assert_int_equal(mica_graph_backward(g, y, dy, wrt, 2, grads, &err), MICA_OK);
    for (int i = 0; i < 2; i++)
        mica_graph_output(g, grads[i]);
    rig_compile(&r);
    rig_run(&r);
    const float *xs = rig_array(&r, x), *ws = rig_array(&r, w), *ds = rig_array(&r, dy);
    double dx[24], dw[4] = {0};
    for (int i = 0; i < 24; i++) {
        dx[i] = (double)ds[i] * (double)ws[i % 4];
        dw[i % 4] += (double)ds[i] * (double)xs[i];
    }
    rig_assert_close(rig_output(&r, 0, NULL), dx, 24, 1e-6);
    rig_assert_close(rig_output(&r, 1, NULL), dw, 4, 1e-6);
    rig_deinit(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_backward),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_levers_keep_gradients),
        cmocka_unit_test(test_slices_accumulate),
        cmocka_unit_test(test_broadcast_product),
    };
    return cmocka_run_group_tests_name("plan/gradient", tests, NULL, NULL);
}
