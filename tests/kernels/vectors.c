/* vectors.c: the worked values of docs/numerics.md 7, and layers whose truth is another program:
 * choices of experts, the gated delta recurrence, gradients by finite differences.
 */
#include <math.h>
#include <stdlib.h>

#include "check.h"

static int n_failed;

static void expect(const char *what, double got, double want, double tolerance) {
    if (fabs(got - want) <= tolerance) return;
    printf("vector %s: %.9g; expected %.9g within %.2g\n", what, got, want, tolerance);
    n_failed++;
}

static kernel_operand operand(void *data, mica_dtype t, int n_dims, int64_t a, int64_t b,
                              int64_t c) {
    kernel_operand o = {.data = data, .dtype = t, .n_dims = n_dims, .dim = {a, b, c}};
    int64_t step = 1;
    for (int d = n_dims - 1; d >= 0; d--) {
        o.stride[d] = step;
        step *= o.dim[d];
    }
    return o;
}

/* All units of the reference kernel. */
static void run(kernel_call *call, graph_op op, graph_attr *attr) {
    static cpu_table table;
    const char *why;
    call->op = op;
    call->attr = attr;
    for (int i = 0; i < GRAPH_MAX_SRC; i++)
        if (call->src[i].n_dims || call->src[i].data) call->n_src = i + 1;
    if (!table.n_kernels && mica_cpu_table_init(&table, "ref", NULL) != MICA_OK) exit(2);
    const cpu_kernel *k = mica_cpu_find_kernel(&table, call, &why);
    void *scratch = k->scratch_bytes ? malloc(k->scratch_bytes(call) + 1) : NULL;
    k->run(call, 0, k->n_units(call), scratch);
    free(scratch);
}

/* ---- docs/numerics.md 7.6: exact in bf16 ---- */
static void activations(void) {
    static const float x[7] = {-3, -1.25f, -0.5f, 0.10009765625f, 0.75f, 1.5f, 2.875f};
    static const struct {
        graph_op op;
        const char *name;
        float want[7];
    } rows[] = {
        {OP_GELU,
         "gelu",
         {-0.005859375f, -0.1318359375f, -0.154296875f, 0.053955078125f, 0.578125f, 1.3984375f,
          2.875f}},
        {OP_GELU_TANH,
         "gelu_tanh",
         {-0.005859375f, -0.134765625f, -0.154296875f, 0.053955078125f, 0.578125f, 1.390625f,
          2.875f}},
        {OP_SILU,
         "silu",
         {-0.142578125f, -0.27734375f, -0.1884765625f, 0.052490234375f, 0.5078125f, 1.2265625f,
          2.71875f}},
    };
    for (int r = 0; r < 3; r++) {
        uint16_t in[7], out[7];
        for (int i = 0; i < 7; i++)
            in[i] = mica_f32_to_bf16(x[i]);
        kernel_call call = {.out = operand(out, MICA_BF16, 1, 7, 0, 0),
                            .src = {operand(in, MICA_BF16, 1, 7, 0, 0)}};
        graph_attr attr = {0};
        run(&call, rows[r].op, &attr);
        for (int i = 0; i < 7; i++)
            expect(rows[r].name, (double)mica_bf16_to_f32(out[i]), (double)rows[r].want[i], 0);
    }
    static const float more_x[3] = {-2.90625f, -2.515625f, 0.390625f};
    static const float more[3] = {-0.00567626953125f, -0.0147705078125f, 0.25390625f};
    float out[3];
    uint16_t in[3];
    for (int i = 0; i < 3; i++)
        in[i] = mica_f32_to_bf16(more_x[i]);
    uint16_t half[3];
    kernel_call call = {.out = operand(half, MICA_BF16, 1, 3, 0, 0),
                        .src = {operand(in, MICA_BF16, 1, 3, 0, 0)}};
    graph_attr attr = {0};
    run(&call, OP_GELU, &attr);
    for (int i = 0; i < 3; i++) {
        out[i] = mica_bf16_to_f32(half[i]);
        expect("gelu, dumped", (double)out[i], (double)more[i], 0);
    }
}

/* SwiGLU with 1 x 1 matrices: gate and up are the inputs themselves. */
static void swiglu(void) {
    static const float g[3] = {-3, -1.25f, 0.75f}, u[3] = {0.30078125f, 1.703125f, -2.203125f};
    static const float want[3] = {-0.04296875f, -0.47265625f, -1.1171875f};
    for (int i = 0; i < 3; i++) {
        float one = 1;
        uint16_t out;
        float gate = g[i], up = u[i];
        kernel_call call = {.out = operand(&out, MICA_BF16, 2, 1, 1, 0),
                            .src = {operand(&one, MICA_F32, 2, 1, 1, 0),
                                    operand(&gate, MICA_F32, 2, 1, 1, 0),
                                    operand(&up, MICA_F32, 2, 1, 1, 0)}};
        graph_attr attr = {.glu = {GLU_SILU}};
        run(&call, OP_GLU_MATMUL, &attr);
        expect("swiglu", (double)mica_bf16_to_f32(out), (double)want[i], 0);
    }
}

/* ---- 7.7 ---- */
static void norms(void) {
    static const double rms[4] = {0.36514837, 0.73029673, 1.09544504, 1.46059346};
    static const double layer[4] = {-1.34163547, -0.44721183, 0.44721183, 1.34163547};
    static const float bf[4] = {0.208984375f, -0.96875f, -0.7890625f, 1.1328125f};
    float x[4] = {1, 2, 3, 4}, out[4];
    kernel_call call = {.out = operand(out, MICA_F32, 2, 1, 4, 0),
                        .src = {operand(x, MICA_F32, 2, 1, 4, 0)}};
    graph_attr attr = {.norm = {1e-6f}};
    run(&call, OP_RMS_NORM, &attr);
    for (int i = 0; i < 4; i++)
        expect("rms_norm", (double)out[i], rms[i], 2e-7);
    attr.norm.eps = 1e-5f;
    run(&call, OP_LAYER_NORM, &attr);
    for (int i = 0; i < 4; i++)
        expect("layer_norm", (double)out[i], layer[i], 2e-7);
    uint16_t x16[4], w16[4], out16[4];
    static const float xs[4] = {0.30078125f, -1.703125f, 2.5f, 0.8984375f};
    static const float ws[4] = {1.1015625f, 0.8984375f, -0.5f, 2.0f};
    for (int i = 0; i < 4; i++) {
        x16[i] = mica_f32_to_bf16(xs[i]);
        w16[i] = mica_f32_to_bf16(ws[i]);
    }
    kernel_call half = {
        .out = operand(out16, MICA_BF16, 2, 1, 4, 0),
        .src = {operand(x16, MICA_BF16, 2, 1, 4, 0), operand(w16, MICA_BF16, 1, 4, 0, 0)}};
    attr.norm.eps = 1e-6f;
    run(&half, OP_RMS_NORM, &attr);
    for (int i = 0; i < 4; i++)
        expect("rms_norm bf16", (double)mica_bf16_to_f32(out16[i]), (double)bf[i], 0);
}

/* ---- 7.8 ---- */
static void rope(void) {
    static const double want[2][5] = {{-1.41335252, 1.87911807, -2.82885748, 4.05819114, 5},
                                      {-1.27223251, -1.83886499, 2.87866810, 4.08818664, 5}};
    float x[5] = {1, 2, 3, 4, 5}, out[5], periods[2] = {1, 100}, angles[4];
    int32_t position = 3;
    graph_attr attr = {.angles = {1.0f}};
    kernel_call make = {
        .out = operand(angles, MICA_F32, 2, 1, 4, 0),
        .src = {operand(&position, MICA_I32, 1, 1, 0, 0), operand(periods, MICA_F32, 1, 2, 0, 0)}};
    run(&make, OP_ROPE_ANGLES, &attr);
    for (int t = 0; t < 2; t++) {
        kernel_call call = {
            .out = operand(out, MICA_F32, 3, 1, 1, 5),
            .src = {operand(x, MICA_F32, 3, 1, 1, 5), operand(angles, MICA_F32, 2, 1, 4, 0)}};
        graph_attr turn = {.rope = {4, t == 1, 1.0f}};
        run(&call, OP_ROPE, &turn);
        for (int i = 0; i < 5; i++)
            expect(t ? "rope traditional" : "rope half-split", (double)out[i], want[t][i], 3e-7);
    }
}

/* ---- 7.12, through a cache block: the keys are written first ---- */
static void attention(void) {
    static _Alignas(64) float block[2 * KV_BLOCK];
    kv_layout l = {1, 1, 1, MICA_F32, KV_BLOCK * 4, 2 * KV_BLOCK * 4, false};
    float k[3] = {1, 0, 1}, v[3] = {1, 2, 4}, q = 1, sink = 0.25f, out;
    int32_t slots[3] = {0, 1, 2}, table = 0, position = 2, seq = 0, lo = 2, hi = 3;
    graph_attr write = {.cache = {.layout = l}}, attr = {0};
    kernel_call put = {.src = {operand(block, MICA_F32, 0, 0, 0, 0),
                               operand(k, MICA_F32, 3, 3, 1, 1), operand(v, MICA_F32, 3, 3, 1, 1),
                               operand(slots, MICA_I32, 1, 3, 0, 0)}};
    run(&put, OP_KV_WRITE, &write);
    attr.attention.scale = 0.5f;
    attr.attention.layout = l;
    kernel_call call = {
        .out = operand(&out, MICA_F32, 2, 1, 1, 0),
        .src = {operand(&q, MICA_F32, 3, 1, 1, 1), operand(block, MICA_F32, 0, 0, 0, 0),
                operand(&table, MICA_I32, 2, 1, 1, 0), operand(&position, MICA_I32, 1, 1, 0, 0),
                operand(&seq, MICA_I32, 1, 1, 0, 0), operand(&lo, MICA_I32, 1, 1, 0, 0),
                operand(&hi, MICA_I32, 1, 1, 0, 0)}};
    run(&call, OP_ATTENTION, &attr);
    expect("attention", (double)out, 2.38365173, 5e-7);
    call.src[7] = operand(&sink, MICA_F32, 1, 1, 0, 0);
    run(&call, OP_ATTENTION, &attr);
    expect("attention with a sink", (double)out, 1.83528893, 5e-7);
    call.src[7] = (kernel_operand){0};
    attr.attention.window = 1;
    run(&call, OP_ATTENTION, &attr);
    expect("attention, window 1", (double)out, 4, 0);
    position = -1; /* a row that sees nothing */
    hi = lo = 0;
    run(&call, OP_ATTENTION, &attr);
    expect("attention, nothing visible", (double)out, 0, 0);
}

static void softcap(void) {
    static const double want[4] = {0.92423431, 1.52318831, 1.81029651, 1.92805516};
    float x[4] = {1, 2, 3, 4}, out[4];
    kernel_call call = {.out = operand(out, MICA_F32, 1, 4, 0, 0),
                        .src = {operand(x, MICA_F32, 1, 4, 0, 0)}};
    graph_attr attr = {.scale = {2.0f}};
    run(&call, OP_SOFTCAP, &attr);
    for (int i = 0; i < 4; i++)
        expect("softcap", (double)out[i], want[i], 3e-7);
}

/* ---- experts ---- */
static void experts(void) {
    float scores[10] = {1, 3, 3, NAN, 2, 0, 0, 0, 0, 0};
    static const int32_t want_top[6] = {1, 2, 4, 0, 1, 2};
    /* offsets, count, active, pairs, rows */
    static const int32_t want_groups[24] = {0, 1, 3, 5, 5, 6, 4, 0, 1, 2, 4, -1,
                                            3, 0, 4, 1, 5, 2, 1, 0, 1, 0, 1, 0};
    int32_t idx[6], groups[24];
    graph_attr attr = {.top_k = {.k = 3}}, sizes = {.experts = {.n_experts = 5, .k = 3}};
    kernel_call top = {.out = operand(idx, MICA_I32, 2, 2, 3, 0),
                       .src = {operand(scores, MICA_F32, 2, 2, 5, 0)}};
    run(&top, OP_TOP_K, &attr);
    kernel_call group = {.out = operand(groups, MICA_I32, 1, 24, 0, 0),
                         .src = {operand(idx, MICA_I32, 2, 2, 3, 0)}};
    run(&group, OP_EXPERT_GROUPS, &sizes);
    for (int i = 0; i < 6; i++)
        expect("top_k", idx[i], want_top[i], 0);
    for (int i = 0; i < 24; i++)
        expect("expert_groups", groups[i], want_groups[i], 0);
}

/* ---- gated delta: one head against the recurrence in double ---- */
#define DELTA_ROWS 23
#define DELTA_K 5
#define DELTA_V 3

typedef struct delta_case {
    float q[DELTA_ROWS * DELTA_K], k[DELTA_ROWS * DELTA_K], v[DELTA_ROWS * DELTA_V];
    float decay[DELTA_ROWS], beta[DELTA_ROWS], out[DELTA_ROWS * DELTA_V];
    int32_t positions[DELTA_ROWS];
} delta_case;

/* Rows [first, last) with one state, in place. */
static void run_delta(delta_case *d, float *state, int32_t chunk, int64_t first, int64_t last) {
    int64_t n = last - first;
    int32_t seq_rows[2] = {0, (int32_t)n};
    uint64_t address = (uint64_t)(uintptr_t)state;
    kernel_call call = {.out = operand(d->out + first * DELTA_V, MICA_F32, 2, n, DELTA_V, 0)};
    call.src[0] = operand(d->q + first * DELTA_K, MICA_F32, 3, n, 1, DELTA_K);
    call.src[1] = operand(d->k + first * DELTA_K, MICA_F32, 3, n, 1, DELTA_K);
    call.src[2] = operand(d->v + first * DELTA_V, MICA_F32, 3, n, 1, DELTA_V);
    call.src[3] = operand(d->decay + first, MICA_F32, 2, n, 1, 0);
    call.src[4] = operand(d->beta + first, MICA_F32, 2, n, 1, 0);
    call.src[5] = call.src[6] = operand(&address, MICA_U64, 1, 1, 0, 0);
    call.src[7] = operand(seq_rows, MICA_I32, 1, 2, 0, 0);
    call.src[8] = operand(d->positions + first, MICA_I32, 1, n, 0, 0);
    graph_attr attr = {.delta = {.chunk = chunk, .offset = 0}};
    run(&call, OP_GATED_DELTA, &attr);
}

static void delta_in_double(const delta_case *d, double *out) {
    double s[DELTA_V][DELTA_K] = {{0}};
    for (int r = 0; r < DELTA_ROWS; r++)
        for (int i = 0; i < DELTA_V; i++) {
            double m = 0, y = 0;
            for (int c = 0; c < DELTA_K; c++) {
                s[i][c] *= (double)d->decay[r];
                m += s[i][c] * (double)d->k[r * DELTA_K + c];
            }
            for (int c = 0; c < DELTA_K; c++) {
                double u = (double)d->beta[r] * ((double)d->v[r * DELTA_V + i] - m);
                s[i][c] += u * (double)d->k[r * DELTA_K + c];
                y += s[i][c] * (double)d->q[r * DELTA_K + c];
            }
            out[r * DELTA_V + i] = y;
        }
}

/* Keys of norm below 1 and decay, beta in (0, 1) never amplify an error: 23 rows of some 20
 * roundings of values below 3 stay under 3e-5. Split anywhere, the bits are the same. */
static void delta(void) {
    check_rng rng = {7};
    delta_case d;
    double want[DELTA_ROWS * DELTA_V];
    float state[200], first_out[DELTA_ROWS * DELTA_V];
    for (int i = 0; i < DELTA_ROWS * DELTA_K; i++) {
        d.q[i] = (float)check_uniform(&rng);
        d.k[i] = (float)check_uniform(&rng) * 0.44f;
    }
    for (int i = 0; i < DELTA_ROWS * DELTA_V; i++)
        d.v[i] = (float)check_uniform(&rng);
    for (int r = 0; r < DELTA_ROWS; r++) {
        d.positions[r] = r;
        d.decay[r] = (float)(0.5 + 0.49 * check_uniform(&rng));
        d.beta[r] = (float)(0.5 + 0.49 * check_uniform(&rng));
    }
    delta_in_double(&d, want);
    for (int32_t chunk = 0; chunk <= 8; chunk += 4) {
        memset(state, 0, sizeof(state));
        run_delta(&d, state, chunk, 0, DELTA_ROWS);
        memcpy(first_out, d.out, sizeof(first_out));
        for (int i = 0; i < DELTA_ROWS * DELTA_V; i++)
            expect("gated_delta", (double)d.out[i], want[i], 3e-5);
        for (int64_t cut = 1; cut < DELTA_ROWS; cut++) {
            memset(state, 0, sizeof(state));
            run_delta(&d, state, chunk, 0, cut);
            run_delta(&d, state, chunk, cut, DELTA_ROWS);
            if (memcmp(first_out, d.out, sizeof(first_out)) != 0)
                expect("gated_delta split, chunk", chunk, -1, 0);
        }
    }
}

/* ---- gradients by central differences of loss = sum of out * weight, in f32 with step 1e-2: the
 * error is about h^2 of the third derivative plus 2^-24/h of the values, below 3e-3 here ---- */
#define GRAD_ROWS 4
#define GRAD_D 3

static double loss_of(kernel_call *call, graph_op op, graph_attr *attr, const float *weight,
                      int64_t n) {
    double sum = 0;
    run(call, op, attr);
    for (int64_t i = 0; i < n; i++)
        sum += (double)((float *)call->out.data)[i] * (double)weight[i];
    return sum;
}

static double slope(kernel_call *call, graph_op op, graph_attr *attr, const float *weight,
                    int64_t n, float *x) {
    float kept = *x, h = 0.01f;
    *x = kept + h;
    double up = loss_of(call, op, attr, weight, n), high = (double)*x;
    *x = kept - h;
    double down = loss_of(call, op, attr, weight, n), low = (double)*x;
    *x = kept;
    return (up - down) / (high - low);
}

static void gradients(void) {
    check_rng rng = {11};
    enum { N = GRAD_ROWS * GRAD_D };
    float qkv[3 * N], dout[N], out[N], grad[3 * N], x[N], w[GRAD_D];
    int32_t positions[GRAD_ROWS] = {0, 1, 0, 2}, row_seq[GRAD_ROWS] = {0, 0, 1, 0};
    for (int i = 0; i < 3 * N; i++)
        qkv[i] = (float)check_uniform(&rng);
    for (int i = 0; i < N; i++) {
        dout[i] = (float)check_uniform(&rng);
        x[i] = (float)check_uniform(&rng);
    }
    for (int i = 0; i < GRAD_D; i++)
        w[i] = 0.5f + 0.4f * (float)i;
    graph_attr norm = {.norm = {1e-5f}}, att = {0}, none = {0};
    att.attention.scale = 0.7f;
    kernel_operand y = operand(out, MICA_F32, 2, GRAD_ROWS, GRAD_D, 0);
    kernel_operand xo = operand(x, MICA_F32, 2, GRAD_ROWS, GRAD_D, 0), dy = y;
    kernel_operand wo = operand(w, MICA_F32, 1, GRAD_D, 0, 0);
    dy.data = dout;
    kernel_call fwd = {.out = y, .src = {xo, wo}}, back = {.out = y, .src = {xo, wo, dy}};
    back.out.data = grad;
    run(&back, OP_RMS_NORM_GRAD, &norm);
    for (int i = 0; i < N; i++)
        expect("rms_norm_grad", (double)grad[i], slope(&fwd, OP_RMS_NORM, &norm, dout, N, &x[i]),
               3e-3);
    kernel_call act = {.out = y, .src = {xo}}, act_back = {.out = back.out, .src = {xo, dy}};
    run(&act_back, OP_SILU_GRAD, &none);
    for (int i = 0; i < N; i++)
        expect("silu_grad", (double)grad[i], slope(&act, OP_SILU, &none, dout, N, &x[i]), 3e-3);
    kernel_call rows = {.out = y}, rows_back;
    for (int i = 0; i < 3; i++)
        rows.src[i] = operand(qkv + i * N, MICA_F32, 3, GRAD_ROWS, 1, GRAD_D);
    rows.src[3] = operand(positions, MICA_I32, 1, GRAD_ROWS, 0, 0);
    rows.src[4] = operand(row_seq, MICA_I32, 1, GRAD_ROWS, 0, 0);
    rows_back = rows;
    rows_back.src[5] = dy;
    rows_back.out = operand(grad, MICA_F32, 2, GRAD_ROWS, 3 * GRAD_D, 0);
    run(&rows_back, OP_ATTENTION_ROWS_GRAD, &att);
    for (int i = 0; i < 3 * N; i++) {
        int64_t which = i / N, row = i % N / GRAD_D, c = i % GRAD_D;
        expect("attention_rows_grad", (double)grad[row * 3 * GRAD_D + which * GRAD_D + c],
               slope(&rows, OP_ATTENTION_ROWS, &att, dout, N, &qkv[i]), 3e-3);
    }
}

int check_vectors(void) {
    activations();
    swiglu();
    norms();
    rope();
    attention();
    softcap();
    experts();
    delta();
    gradients();
    return n_failed;
}
