/* future.c: the layers that later models need, taken through graph, plan and reference kernels:
 * mixture of experts, gated delta, a layer that reads another layer's cache, strided views of one
 * tensor, an attention mask with a bidirectional span, LoRA factors as inputs.
 *
 * Each result is held against a plain computation in double. Sums here have at most a few hundred
 * terms of f32 with 2^-24 each, so 2e-5 of the largest value is far above rounding and far below
 * any mistake.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/expert_groups.h"
#include "rig.h"

static const double tolerance = 2e-5;

static graph_dim rows(int64_t n) { return mica_dim_sym(n, GRAPH_ROWS); }

static graph_id tensor(rig *r, const char *name, int64_t columns) {
    graph_dim dims[2] = {rows(1), mica_dim(columns)};
    return rig_f32(r, name, 2, dims);
}

static graph_id i32(rig *r, const char *name, graph_dim n) {
    return rig_input(r, name, MICA_I32, 1, &n);
}

static int32_t *ints(const rig *r, graph_id id) { return rig_array(r, id); }

static double dot(const float *a, const float *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* ---- mixture of experts ---- */

enum { EXPERTS = 6, USED = 2, HIDDEN = 24, INNER = 20 };

typedef struct moe {
    rig r;
    graph_id x;
    weight_matrix *router, *gate, *up, *down;
} moe;

static void build_moe(moe *m, int64_t n_rows) {
    rig_init(&m->r, n_rows, n_rows, 1);
    graph *g = &m->r.g;
    m->x = tensor(&m->r, "x", HIDDEN);
    m->router = rig_dense(&m->r, 1, EXPERTS, HIDDEN, 1);
    m->gate = rig_dense(&m->r, EXPERTS, INNER, HIDDEN, 1);
    m->up = rig_dense(&m->r, EXPERTS, INNER, HIDDEN, 1);
    m->down = rig_dense(&m->r, EXPERTS, HIDDEN, INNER, 1);
    graph_id scores = mica_graph_matmul(g, m->x, mica_graph_weight(g, m->router));
    graph_id idx = mica_graph_top_k(g, scores, USED, NULL);
    static const top_k_weighting weighting = {
        .rule = TOP_K_SOFTMAX_ALL, .normalize = true, .factor = 1.5f};
    graph_id weights = mica_graph_top_k_weights(g, scores, idx, &weighting);
    graph_id groups = mica_graph_expert_groups(g, idx, EXPERTS);
    graph_id gate = mica_graph_expert_matmul(g, m->x, mica_graph_weight(g, m->gate), groups, USED);
    graph_id up = mica_graph_expert_matmul(g, m->x, mica_graph_weight(g, m->up), groups, USED);
    graph_id h = mica_graph_mul(g, mica_graph_silu(g, gate), up);
    graph_id y = mica_graph_expert_matmul(g, h, mica_graph_weight(g, m->down), groups, USED);
    mica_graph_output(g, mica_graph_expert_combine(g, y, weights));
    mica_graph_output(g, groups);
}

/* One expert's answer to one row, added to out with a weight. */
static void add_expert(const moe *m, const float *x, int e, double weight, double *out) {
    const float *gate = (const float *)m->gate->codes + e * INNER * HIDDEN;
    const float *up = (const float *)m->up->codes + e * INNER * HIDDEN;
    const float *down = (const float *)m->down->codes + e * HIDDEN * INNER;
    double h[INNER];
    for (int i = 0; i < INNER; i++) {
        double a = dot(x, gate + i * HIDDEN, HIDDEN);
        h[i] = a / (1 + exp(-a)) * dot(x, up + i * HIDDEN, HIDDEN);
    }
    for (int o = 0; o < HIDDEN; o++) {
        double sum = 0;
        for (int i = 0; i < INNER; i++)
            sum += h[i] * (double)down[o * INNER + i];
        out[o] += weight * sum;
    }
}

/* The two largest of six probabilities, their sum made 1, times 1.5. */
static void naive_moe_row(const moe *m, const float *x, double *out) {
    double p[EXPERTS], sum = 0;
    for (int e = 0; e < EXPERTS; e++) {
        p[e] = exp(dot(x, (const float *)m->router->codes + e * HIDDEN, HIDDEN));
    }
    int best = 0, next = -1;
    for (int e = 1; e < EXPERTS; e++)
        best = p[e] > p[best] ? e : best;
    for (int e = 0; e < EXPERTS; e++) {
        if (e != best && (next < 0 || p[e] > p[next])) next = e;
    }
    sum = p[best] + p[next];
    for (int o = 0; o < HIDDEN; o++)
        out[o] = 0;
    add_expert(m, x, best, 1.5 * p[best] / sum, out);
    add_expert(m, x, next, 1.5 * p[next] / sum, out);
}

static void check_moe(moe *m) {
    int64_t n_rows = m->r.sym[GRAPH_ROWS], n;
    double *want = calloc((size_t)(n_rows * HIDDEN), sizeof(*want));
    const float *x = rig_array(&m->r, m->x);
    for (int64_t i = 0; i < n_rows; i++)
        naive_moe_row(m, x + i * HIDDEN, want + i * HIDDEN);
    rig_run(&m->r);
    const float *got = rig_output(&m->r, 0, &n);
    assert_int_equal(n, n_rows * HIDDEN);
    rig_assert_close(got, want, n, tolerance);
    free(want);
}

static void test_mixture_of_experts(void **state) {
    (void)state;
    static moe m;
    build_moe(&m, 9);
    rig_compile(&m.r);
    /* what the router writes lies in the arena, with room for rows x experts used */
    const plan_step *groups = NULL;
    for (int32_t s = 0; s < m.r.plan->n_steps; s++) {
        if (m.r.plan->steps[s].op == OP_EXPERT_GROUPS) groups = &m.r.plan->steps[s];
    }
    assert_non_null(groups);
    assert_int_equal(groups->out.space, PLAN_ARENA);
    assert_int_equal(groups->src[0].space, PLAN_ARENA);
    assert_int_equal(mica_graph_type_count(&groups->out.type, m.r.bound),
                     expert_groups_size(EXPERTS, USED * 9));
    check_moe(&m);
    m.r.sym[GRAPH_ROWS] = 1;
    check_moe(&m);
    rig_deinit(&m.r);
}

/* The worst case: every row wants the same two experts. */
static void test_all_rows_one_expert(void **state) {
    (void)state;
    static moe m;
    build_moe(&m, 9);
    float *x = rig_array(&m.r, m.x);
    for (int i = 1; i < 9; i++)
        memcpy(x + i * HIDDEN, x, HIDDEN * sizeof(*x));
    m.r.n_threads = 3;
    rig_compile(&m.r);
    check_moe(&m);
    const int32_t *offsets = (const int32_t *)rig_output(&m.r, 1, NULL);
    int full = 0;
    for (int e = 0; e < EXPERTS; e++)
        full += offsets[e + 1] - offsets[e] == 9;
    assert_int_equal(full, 2);
    assert_int_equal(offsets[EXPERTS], 18);
    rig_deinit(&m.r);
}

/* ---- gated delta ---- */

enum { KEY_HEADS = 2, VALUE_HEADS = 4, KEY_DIM = 16, VALUE_DIM = 8, LENGTH = 150 };

typedef struct delta {
    rig r;
    graph_id q, k, v, decay, beta, positions, seq_rows, in, out;
    float *all[5]; /* q, k, v, decay, beta of the whole sequence */
    int64_t width[5], n_state;
} delta;

static void build_delta(delta *d, int32_t chunk) {
    rig_init(&d->r, LENGTH, LENGTH, 2);
    graph *g = &d->r.g;
    graph_dim seqs = mica_dim_sym(1, GRAPH_SEQS), bounds = {1, GRAPH_SEQS, 1};
    graph_dim k_dims[3] = {rows(1), mica_dim(KEY_HEADS), mica_dim(KEY_DIM)};
    graph_dim v_dims[3] = {rows(1), mica_dim(VALUE_HEADS), mica_dim(VALUE_DIM)};
    d->q = rig_f32(&d->r, "q", 3, k_dims);
    d->k = rig_f32(&d->r, "k", 3, k_dims);
    d->v = rig_f32(&d->r, "v", 3, v_dims);
    d->decay = rig_f32(&d->r, "decay", 2, v_dims);
    d->beta = rig_f32(&d->r, "beta", 2, v_dims);
    d->positions = i32(&d->r, "positions", rows(1));
    d->seq_rows = i32(&d->r, "seq_rows", bounds);
    d->in = rig_input(&d->r, "state_in", MICA_U64, 1, &seqs);
    d->out = rig_input(&d->r, "state_out", MICA_U64, 1, &seqs);
    state_inputs in = {d->in, d->out, d->seq_rows, d->positions, 0};
    mica_graph_output(g,
                      mica_graph_gated_delta(g, d->q, d->k, d->v, d->decay, d->beta, &in, chunk));
    d->n_state = mica_graph_delta_state(KEY_HEADS, VALUE_HEADS, KEY_DIM, VALUE_DIM, chunk);
    const graph_id ids[5] = {d->q, d->k, d->v, d->decay, d->beta};
    for (int i = 0; i < 5; i++) {
        d->width[i] = i < 2 ? KEY_HEADS * KEY_DIM : i < 3 ? VALUE_HEADS * VALUE_DIM : VALUE_HEADS;
        d->all[i] = rig_alloc(&d->r, (size_t)(LENGTH * d->width[i]) * sizeof(float));
        const float *x = rig_array(&d->r, ids[i]);
        for (int64_t j = 0; j < LENGTH * d->width[i]; j++) {
            /* keys short enough that the state stays bounded; decay in (0.8, 1), beta in (0, 1) */
            d->all[i][j] = i < 2    ? x[j] * 0.4f
                           : i == 3 ? 0.9f + 0.1f * x[j]
                           : i == 4 ? 0.5f + 0.5f * x[j]
                                    : x[j];
        }
    }
}

/* Rows [first, last) of the sequence as rows [at, ...) of the step. */
static void put_rows(delta *d, int64_t first, int64_t last, int64_t at) {
    const graph_id ids[5] = {d->q, d->k, d->v, d->decay, d->beta};
    for (int i = 0; i < 5; i++) {
        memcpy((float *)rig_array(&d->r, ids[i]) + at * d->width[i],
               d->all[i] + first * d->width[i],
               (size_t)((last - first) * d->width[i]) * sizeof(float));
    }
    for (int64_t p = first; p < last; p++) {
        ints(&d->r, d->positions)[at + p - first] = (int32_t)p;
    }
}

/* Runs rows [first, last) as the only sequence of a step; y goes to its place in `y`. */
static void run_delta(delta *d, int64_t first, int64_t last, float *from, float *to, float *y) {
    put_rows(d, first, last, 0);
    d->r.sym[GRAPH_ROWS] = last - first;
    d->r.sym[GRAPH_SEQS] = 1;
    ints(&d->r, d->seq_rows)[0] = 0;
    ints(&d->r, d->seq_rows)[1] = (int32_t)(last - first);
    *(uint64_t *)rig_array(&d->r, d->in) = (uint64_t)(uintptr_t)from;
    *(uint64_t *)rig_array(&d->r, d->out) = (uint64_t)(uintptr_t)to;
    rig_run(&d->r);
    int64_t n;
    const float *got = rig_output(&d->r, 0, &n);
    memcpy(y + first * VALUE_HEADS * VALUE_DIM, got, (size_t)n * sizeof(*y));
}

/* The recurrence in double; y [LENGTH, VALUE_HEADS * VALUE_DIM]. */
static void naive_delta(const delta *d, double *y) {
    for (int h = 0; h < VALUE_HEADS; h++) {
        double s[VALUE_DIM][KEY_DIM] = {{0}};
        int hk = h / (VALUE_HEADS / KEY_HEADS);
        for (int t = 0; t < LENGTH; t++) {
            const float *q = d->all[0] + t * d->width[0] + hk * KEY_DIM;
            const float *k = d->all[1] + t * d->width[1] + hk * KEY_DIM;
            const float *v = d->all[2] + t * d->width[2] + h * VALUE_DIM;
            double g = (double)d->all[3][t * VALUE_HEADS + h];
            double beta = (double)d->all[4][t * VALUE_HEADS + h];
            for (int i = 0; i < VALUE_DIM; i++) {
                double m = 0, out = 0;
                for (int j = 0; j < KEY_DIM; j++)
                    m += g * s[i][j] * (double)k[j];
                double u = beta * ((double)v[i] - m);
                for (int j = 0; j < KEY_DIM; j++) {
                    s[i][j] = g * s[i][j] + u * (double)k[j];
                    out += s[i][j] * (double)q[j];
                }
                y[(t * VALUE_HEADS + h) * VALUE_DIM + i] = out;
            }
        }
    }
}

enum { N_Y = LENGTH * VALUE_HEADS * VALUE_DIM };

static void test_gated_delta(void **state) {
    (void)state;
    for (int32_t chunk = 0; chunk <= 64; chunk += 64) {
        static delta d;
        static double want[N_Y];
        static float whole[N_Y], parts[N_Y];
        build_delta(&d, chunk);
        size_t n_bytes = (size_t)d.n_state * sizeof(float);
        float *zero = rig_alloc(&d.r, n_bytes), *end = rig_alloc(&d.r, n_bytes);
        float *middle = rig_alloc(&d.r, n_bytes), *again = rig_alloc(&d.r, n_bytes);
        rig_compile(&d.r);
        naive_delta(&d, want);
        run_delta(&d, 0, LENGTH, zero, end, whole);
        rig_assert_close(whole, want, N_Y, tolerance);
        for (int64_t i = 0; i < d.n_state; i++)
            assert_true(zero[i] == 0); /* not written */
        size_t folded = (size_t)(VALUE_HEADS * VALUE_DIM * KEY_DIM) * sizeof(float);
        for (int64_t cut = 1; cut < LENGTH; cut++) {
            memset(again, 0xFF, n_bytes); /* what a state leaves unset must not be read */
            memset(middle, 0xFF, n_bytes);
            run_delta(&d, 0, cut, zero, middle, parts);
            run_delta(&d, cut, LENGTH, middle, again, parts);
            rig_assert_same(whole, parts, sizeof(whole));
            rig_assert_same(end, again, folded);
        }
        /* token by token, in place */
        memset(middle, 0, n_bytes);
        for (int64_t t = 0; t < LENGTH; t++)
            run_delta(&d, t, t + 1, middle, middle, parts);
        rig_assert_same(whole, parts, sizeof(whole));
        rig_deinit(&d.r);
    }
}

/* Two sequences at different places in one step, with several threads: the bits of each alone. */
static void test_two_states_in_a_step(void **state) {
    (void)state;
    static delta d;
    static float whole[N_Y];
    build_delta(&d, 64);
    size_t n_bytes = (size_t)d.n_state * sizeof(float), row = VALUE_HEADS * VALUE_DIM;
    float *zero = rig_alloc(&d.r, n_bytes), *a = rig_alloc(&d.r, n_bytes);
    float *b = rig_alloc(&d.r, n_bytes), *c = rig_alloc(&d.r, n_bytes);
    d.r.n_threads = 3;
    rig_compile(&d.r);
    run_delta(&d, 0, LENGTH, zero, a, whole);
    run_delta(&d, 0, 50, zero, a, whole);
    put_rows(&d, 50, 120, 0); /* the second sequence begins anew beside it */
    put_rows(&d, 0, 30, 70);
    d.r.sym[GRAPH_ROWS] = 100;
    d.r.sym[GRAPH_SEQS] = 2;
    const int32_t seq_rows[3] = {0, 70, 100};
    memcpy(ints(&d.r, d.seq_rows), seq_rows, sizeof(seq_rows));
    uint64_t in[2] = {(uintptr_t)a, (uintptr_t)zero}, out[2] = {(uintptr_t)b, (uintptr_t)c};
    memcpy(rig_array(&d.r, d.in), in, sizeof(in));
    memcpy(rig_array(&d.r, d.out), out, sizeof(out));
    rig_run(&d.r);
    const float *y = rig_output(&d.r, 0, NULL);
    rig_assert_same(whole + 50 * row, y, 70 * row * sizeof(float));
    rig_assert_same(whole, y + 70 * row, 30 * row * sizeof(float));
    rig_deinit(&d.r);
}

/* ---- attention ---- */

enum { HEADS = 4, KV_HEADS = 2, HEAD_DIM = 8, TOKENS = 100, BLOCKS = 2 };

typedef struct attention {
    rig r;
    attention_inputs in;
    graph_id q, k, v, slots, q2;
} attention;

static void begin_attention(attention *a) {
    rig_init(&a->r, TOKENS, TOKENS, 1);
    graph_dim table[2] = {mica_dim_sym(1, GRAPH_SEQS), mica_dim(BLOCKS)};
    a->in.block_table = rig_input(&a->r, "table", MICA_I32, 2, table);
    a->in.positions = i32(&a->r, "positions", rows(1));
    a->in.row_seq = i32(&a->r, "row_seq", rows(1));
    a->in.span_lo = i32(&a->r, "span_lo", rows(1));
    a->in.span_hi = i32(&a->r, "span_hi", rows(1));
    a->slots = i32(&a->r, "slots", rows(1));
    a->q = tensor(&a->r, "q", HEADS * HEAD_DIM);
    a->q2 = tensor(&a->r, "q2", HEADS * HEAD_DIM);
    a->k = tensor(&a->r, "k", KV_HEADS * HEAD_DIM);
    a->v = tensor(&a->r, "v", KV_HEADS * HEAD_DIM);
    for (int32_t i = 0; i < TOKENS; i++) {
        ints(&a->r, a->in.positions)[i] = i;
        ints(&a->r, a->in.span_lo)[i] = i;
        ints(&a->r, a->in.span_hi)[i] = i + 1;
        /* the second block of the sequence lies before the first one in memory */
        ints(&a->r, a->slots)[i] = i < KV_BLOCK ? KV_BLOCK + i : i - KV_BLOCK;
    }
    ints(&a->r, a->in.block_table)[0] = 1;
    ints(&a->r, a->in.block_table)[1] = 0;
}

static graph_id heads(attention *a, graph_id x, int64_t n) {
    return mica_graph_heads(&a->r.g, x, n);
}

static kv_layout layout_f32(void) {
    kv_layout layout;
    assert_true(mica_kv_layout_init(&layout, KV_HEADS, HEAD_DIM, HEAD_DIM, MICA_F32));
    return layout;
}

static bool sees(const attention *a, int32_t window, int row, int key) {
    int32_t lo = window > 0 && row - window + 1 > 0 ? row - window + 1 : 0, hi = row + 1;
    if (window < 0) lo = row / -window * -window;
    int32_t span_lo = ints(&a->r, a->in.span_lo)[row], span_hi = ints(&a->r, a->in.span_hi)[row];
    if (span_lo < lo) lo = span_lo;
    if (span_hi > hi) hi = span_hi;
    return key >= lo && key < hi;
}

/* Every row against every key that it sees, in double; out [TOKENS, HEADS * HEAD_DIM]. */
static void naive_attention(const attention *a, graph_id q_id, int32_t window, double scale,
                            double *out) {
    const float *q = rig_array(&a->r, q_id), *k = rig_array(&a->r, a->k);
    const float *v = rig_array(&a->r, a->v);
    for (int row = 0; row < TOKENS; row++) {
        for (int h = 0; h < HEADS; h++) {
            int kv = h / (HEADS / KV_HEADS);
            double *o = out + (row * HEADS + h) * HEAD_DIM, sum = 0;
            for (int c = 0; c < HEAD_DIM; c++)
                o[c] = 0;
            for (int j = 0; j < TOKENS; j++) {
                if (!sees(a, window, row, j)) continue;
                double p = exp(scale * dot(q + (row * HEADS + h) * HEAD_DIM,
                                           k + (j * KV_HEADS + kv) * HEAD_DIM, HEAD_DIM));
                sum += p;
                for (int c = 0; c < HEAD_DIM; c++) {
                    o[c] += p * (double)v[(j * KV_HEADS + kv) * HEAD_DIM + c];
                }
            }
            for (int c = 0; c < HEAD_DIM; c++)
                o[c] /= sum;
        }
    }
}

enum { N_OUT = TOKENS * HEADS * HEAD_DIM };

/* Layer 1 has queries of its own and reads what layer 0 wrote; it has no cache and writes none. */
static void test_shared_kv(void **state) {
    (void)state;
    static attention a;
    static double want[N_OUT];
    begin_attention(&a);
    graph *g = &a.r.g;
    kv_layout layout = layout_f32();
    graph_id cache = rig_cache(&a.r, 0, &layout, BLOCKS);
    graph_id write =
        mica_graph_kv_write(g, cache, heads(&a, a.k, KV_HEADS), heads(&a, a.v, KV_HEADS), a.slots);
    graph_id q = heads(&a, a.q, HEADS), q2 = heads(&a, a.q2, HEADS);
    mica_graph_output(g, mica_graph_attention(g, q, write, &a.in, GRAPH_NONE, 0.5f, 0, 0));
    mica_graph_output(g, mica_graph_attention(g, q2, write, &a.in, GRAPH_NONE, 0.25f, 0, 0));
    rig_compile(&a.r);
    assert_int_equal(a.r.plan->n_caches, 1);
    assert_int_equal(rig_count(a.r.plan, OP_KV_WRITE), 1);
    rig_run(&a.r);
    naive_attention(&a, a.q, 0, 0.5, want);
    rig_assert_close(rig_output(&a.r, 0, NULL), want, N_OUT, tolerance);
    naive_attention(&a, a.q2, 0, 0.25, want);
    rig_assert_close(rig_output(&a.r, 1, NULL), want, N_OUT, tolerance);
    float *second = rig_keep(&a.r, 1, NULL);

    /* a graph that only reads the cache, with what the first one left there */
    static attention b;
    begin_attention(&b);
    memcpy(rig_array(&b.r, b.q2), rig_array(&a.r, a.q2), N_OUT * sizeof(float));
    graph_id only = rig_cache(&b.r, 0, &layout, BLOCKS);
    mica_graph_output(&b.r.g, mica_graph_attention(&b.r.g, heads(&b, b.q2, HEADS), only, &b.in,
                                                   GRAPH_NONE, 0.25f, 0, 0));
    size_t n_bytes = BLOCKS * layout.block_bytes;
    memcpy(b.r.caches[0], a.r.caches[0], n_bytes);
    rig_compile(&b.r);
    rig_run(&b.r);
    rig_assert_same(second, rig_output(&b.r, 0, NULL), N_OUT * sizeof(float));
    rig_assert_same(a.r.caches[0], b.r.caches[0], n_bytes);
    rig_deinit(&a.r);
    rig_deinit(&b.r);
}

/* Rows 20..39 see each other whatever their order, as the tokens of an image do; without a window,
 * with one that is shorter than the span, and in chunks that are. */
static void test_bidirectional_span(void **state) {
    (void)state;
    for (int32_t window = -12; window <= 12; window += 12) {
        static attention a;
        static double want[N_OUT];
        begin_attention(&a);
        graph *g = &a.r.g;
        kv_layout layout = layout_f32();
        for (int i = 20; i < 40; i++) {
            ints(&a.r, a.in.span_lo)[i] = 20;
            ints(&a.r, a.in.span_hi)[i] = 40;
        }
        graph_id cache = rig_cache(&a.r, 0, &layout, BLOCKS);
        graph_id write = mica_graph_kv_write(g, cache, heads(&a, a.k, KV_HEADS),
                                             heads(&a, a.v, KV_HEADS), a.slots);
        graph_id q = heads(&a, a.q, HEADS);
        mica_graph_output(g, mica_graph_attention(g, q, write, &a.in, GRAPH_NONE, 0.5f, window, 0));
        rig_compile(&a.r);
        rig_run(&a.r);
        naive_attention(&a, a.q, window, 0.5, want);
        rig_assert_close(rig_output(&a.r, 0, NULL), want, N_OUT, tolerance);
        rig_deinit(&a.r);
    }
}

/* ---- strided views: one [R, L*P] tensor of per-layer inputs ---- */

enum { LAYERS = 5, PER_LAYER = 12, WIDE_ROWS = 6 };

/* Each layer gates its slice of one product and projects it; `copied` makes the slices contiguous.
 */
static void run_per_layer(bool copied, float *out, double *want) {
    rig r;
    rig_init(&r, WIDE_ROWS, WIDE_ROWS, 1);
    graph *g = &r.g;
    graph_id x = tensor(&r, "x", 16), all, y = GRAPH_NONE;
    weight_matrix *wide = rig_dense(&r, 1, LAYERS * PER_LAYER, 16, 1);
    weight_matrix *proj = rig_dense(&r, 1, 10, PER_LAYER, 1);
    float *norm;
    graph_id norm_id = rig_const(&r, "norm", PER_LAYER, &norm);
    all = mica_graph_matmul(g, x, mica_graph_weight(g, wide));
    for (int l = 0; l < LAYERS; l++) {
        int first = l / 2; /* a view of a view: the rest from layer `first` on, and of that one */
        graph_id rest = mica_graph_slice(g, all, first * PER_LAYER, (LAYERS - first) * PER_LAYER);
        graph_id part = mica_graph_slice(g, rest, (l - first) * PER_LAYER, PER_LAYER);
        if (copied) part = mica_graph_copy(g, part);
        graph_id gated = mica_graph_mul(g, mica_graph_silu(g, part), part);
        graph_id scaled = mica_graph_mul(g, part, norm_id);
        graph_id sum = mica_graph_add(g, gated, scaled);
        graph_id p = mica_graph_matmul(g, sum, mica_graph_weight(g, proj));
        p = mica_graph_add(g, p, mica_graph_matmul(g, part, mica_graph_weight(g, proj)));
        y = y == GRAPH_NONE ? p : mica_graph_add(g, y, p);
    }
    mica_graph_output(g, y);
    rig_compile(&r);
    rig_run(&r);
    memcpy(out, rig_output(&r, 0, NULL), WIDE_ROWS * 10 * sizeof(*out));
    const float *xs = rig_array(&r, x);
    for (int i = 0; i < WIDE_ROWS * 10; i++)
        want[i] = 0;
    for (int row = 0; row < WIDE_ROWS; row++) {
        for (int c = 0; c < LAYERS * PER_LAYER; c++) {
            double p = dot(xs + row * 16, (const float *)wide->codes + c * 16, 16);
            double gated = p / (1 + exp(-p)) * p + p * (double)norm[c % PER_LAYER] + p;
            for (int o = 0; o < 10; o++) {
                const float *w = (const float *)proj->codes;
                want[row * 10 + o] += gated * (double)w[o * PER_LAYER + c % PER_LAYER];
            }
        }
    }
    rig_deinit(&r);
}

static void test_strided_views(void **state) {
    (void)state;
    float strided[WIDE_ROWS * 10], copied[WIDE_ROWS * 10];
    double want[WIDE_ROWS * 10];
    run_per_layer(false, strided, want);
    rig_assert_close(strided, want, WIDE_ROWS * 10, tolerance);
    run_per_layer(true, copied, want);
    rig_assert_same(strided, copied, sizeof(strided));
}

/* ---- LoRA factors as inputs ---- */

enum { LORA_IN = 32, LORA_OUT = 14, RANK = 3, LORA_ROWS = 5 };

static void naive_lora(const weight_matrix *w, const float *x, const float *a, const float *b,
                       double scale, double *out) {
    float row[LORA_IN];
    for (int r = 0; r < LORA_ROWS; r++) {
        for (int o = 0; o < LORA_OUT; o++) {
            mica_weight_row(w, o, row);
            double sum = dot(x + r * LORA_IN, row, LORA_IN);
            for (int k = 0; k < RANK; k++) {
                double down = dot(x + r * LORA_IN, a + k * LORA_IN, LORA_IN);
                sum += scale * down * (double)b[o * RANK + k];
            }
            out[r * LORA_OUT + o] = sum;
        }
    }
}

/* One plan serves any adapter of the rank: new factors are new inputs, and zeros give the base's
 * own bits. */
static void test_lora_inputs(void **state) {
    (void)state;
    rig r;
    rig_init(&r, LORA_ROWS, LORA_ROWS, 1);
    graph *g = &r.g;
    graph_dim a_dims[2] = {mica_dim(RANK), mica_dim(LORA_IN)};
    graph_dim b_dims[2] = {mica_dim(LORA_OUT), mica_dim(RANK)};
    graph_id x = tensor(&r, "x", LORA_IN);
    graph_id a = rig_f32(&r, "lora_a", 2, a_dims), b = rig_f32(&r, "lora_b", 2, b_dims);
    weight_matrix *w = rig_affine(&r, LORA_OUT, LORA_IN, 4);
    graph_id base = mica_graph_matmul(g, x, mica_graph_weight(g, w));
    graph_id low = mica_graph_matmul(g, mica_graph_matmul(g, x, a), b);
    mica_graph_output(g, mica_graph_add(g, base, mica_graph_scale(g, low, 2)));
    mica_graph_output(g, base);
    rig_compile(&r);
    double want[LORA_ROWS * LORA_OUT];
    float *av = rig_array(&r, a), *bv = rig_array(&r, b);
    for (int adapter = 0; adapter < 3; adapter++) {
        for (int i = 0; i < RANK * LORA_IN; i++)
            av[i] = rig_uniform(&r, -1, 1);
        for (int i = 0; i < LORA_OUT * RANK; i++)
            bv[i] = rig_uniform(&r, -1, 1);
        rig_run(&r);
        naive_lora(w, rig_array(&r, x), av, bv, 2, want);
        rig_assert_close(rig_output(&r, 0, NULL), want, LORA_ROWS * LORA_OUT, tolerance);
    }
    memset(bv, 0, LORA_OUT * RANK * sizeof(*bv));
    rig_run(&r);
    int64_t n;
    const float *out = rig_output(&r, 0, &n);
    rig_assert_same(rig_output(&r, 1, NULL), out, (size_t)n * sizeof(float));
    rig_deinit(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mixture_of_experts), cmocka_unit_test(test_all_rows_one_expert),
        cmocka_unit_test(test_gated_delta),        cmocka_unit_test(test_two_states_in_a_step),
        cmocka_unit_test(test_shared_kv),          cmocka_unit_test(test_bidirectional_span),
        cmocka_unit_test(test_strided_views),      cmocka_unit_test(test_lora_inputs),
    };
    return cmocka_run_group_tests_name("plan/future", tests, NULL, NULL);
}
