/* fuse.c: the rules of what quantizing has made: norms and gated pairs that write quantized rows,
 * terms that are added where the other is stored. On and off give the same bits.
 */
#include "rig.h"

enum { WIDTH = 96, ROWS = 5 };

static graph_dim rows(int64_t n) { return mica_dim_sym(n, GRAPH_ROWS); }

static graph_id tensor(rig *r, const char *name) {
    graph_dim dims[2] = {rows(1), mica_dim(WIDTH)};
    return rig_f32(r, name, 2, dims);
}

static graph_id weight(rig *r) { return mica_graph_weight(&r->g, rig_affine(r, WIDTH, WIDTH, 4)); }

static graph_id norm(rig *r, graph_id x, bool is_rms) {
    graph_id w = rig_const(r, "w", WIDTH, NULL), b = rig_const(r, "b", WIDTH, NULL);
    return is_rms ? mica_graph_rms_norm(&r->g, x, w, 1e-5f)
                  : mica_graph_layer_norm(&r->g, x, w, b, 1e-5f);
}

/* Compiles and runs with `on` and without; the steps of `op` that it makes. */
static int same_bits(rig *r, uint32_t others, uint32_t on, graph_op op) {
    int64_t n;
    r->levers.on = others;
    rig_compile(r);
    assert_int_equal(rig_count(r->plan, op), 0);
    rig_run(r);
    float *plain = rig_keep(r, 0, &n);
    int32_t n_steps = r->plan->n_steps;
    r->levers.on = others | on;
    rig_compile(r);
    rig_run(r);
    rig_assert_same(plain, rig_output(r, 0, NULL), (size_t)n * sizeof(float));
    int n_made = rig_count(r->plan, op);
    assert_true(n_made ? r->plan->n_steps < n_steps : r->plan->n_steps == n_steps);
    return n_made;
}

static const uint32_t quantized = 1u << LEVER_INT16 | 1u << LEVER_SWIGLU;

static void test_norm_rows(void **state) {
    (void)state;
    for (int way = 0; way < 6; way++) {
        bool is_rms = way % 2;
        rig r;
        rig_init(&r, ROWS, ROWS, 1);
        graph_id y = norm(&r, tensor(&r, "x"), is_rms);
        graph_id a = mica_graph_matmul(&r.g, y, weight(&r));
        graph_id b = mica_graph_matmul(&r.g, y, weight(&r));
        mica_graph_output(&r.g, mica_graph_mul(&r.g, a, b));
        if (way / 2 == 1) mica_graph_output(&r.g, y); /* f32 rows are wanted too */
        if (way / 2 == 2) mica_graph_output(&r.g, mica_graph_silu(&r.g, y));
        graph_op op = is_rms ? OP_RMS_NORM_I8 : OP_LAYER_NORM_I8;
        assert_int_equal(same_bits(&r, quantized, 1u << LEVER_NORM_ROWS, op), way < 2);
        rig_deinit(&r);
    }
}

static void test_glu_rows(void **state) {
    (void)state;
    for (int way = 0; way < 3; way++) {
        rig r;
        rig_init(&r, ROWS, ROWS, 1);
        graph_id x = tensor(&r, "x");
        graph_id gate = mica_graph_silu(&r.g, mica_graph_matmul(&r.g, x, weight(&r)));
        graph_id y = mica_graph_mul(&r.g, gate, mica_graph_matmul(&r.g, x, weight(&r)));
        mica_graph_output(&r.g, mica_graph_matmul(&r.g, y, weight(&r)));
        if (way == 1) mica_graph_output(&r.g, y);
        uint32_t others = way == 2 ? quantized & ~(1u << LEVER_SWIGLU) : quantized;
        assert_int_equal(same_bits(&r, others, 1u << LEVER_GLU_ROWS, OP_GLU_ROWS_I8), way == 0);
        rig_deinit(&r);
    }
}

static int n_added(const plan *p) {
    int n = 0;
    for (int32_t s = 0; s < p->n_steps; s++) {
        graph_op op = p->steps[s].op;
        n += op == OP_MATMUL_I8 && p->steps[s].n_src == 3;
        n += op == OP_RMS_NORM && p->steps[s].n_src == 3;
        n += op == OP_LAYER_NORM && p->steps[s].n_src == 4;
    }
    return n;
}

/* A matmul, a norm with and without a weight, of either kind, on either side of the sum. */
static graph_id term_of(rig *r, graph_id x, int which) {
    if (which == 0) return mica_graph_matmul(&r->g, x, weight(r));
    if (which == 1) return mica_graph_rms_norm(&r->g, x, GRAPH_NONE, 1e-5f);
    if (which == 2) return mica_graph_layer_norm(&r->g, x, GRAPH_NONE, GRAPH_NONE, 1e-5f);
    return norm(r, x, which == 3);
}

static void test_residual(void **state) {
    (void)state;
    for (int way = 0; way < 5 * 6; way++) {
        int how = way / 5;
        rig r;
        rig_init(&r, ROWS, ROWS, 1);
        graph_id x = tensor(&r, "x"), y = term_of(&r, tensor(&r, "y"), way % 5), sum = y;
        if (how == 0) sum = mica_graph_add(&r.g, x, y);
        if (how == 1) sum = mica_graph_add(&r.g, y, x);
        if (how == 2) sum = mica_graph_add(&r.g, y, rig_const(&r, "bias", WIDTH, NULL));
        if (how == 3) { /* a bias first: the residual is a step of its own */
            sum = mica_graph_add(&r.g, y, rig_const(&r, "bias", WIDTH, NULL));
            sum = mica_graph_add(&r.g, x, sum);
        }
        if (how == 4) sum = mica_graph_add(&r.g, y, y); /* two readers */
        if (how == 5) {
            sum = mica_graph_add(&r.g, x, y);
            mica_graph_output(&r.g, sum);
            mica_graph_output(&r.g, y); /* wanted as it is, too */
        }
        if (how < 5) mica_graph_output(&r.g, sum);
        int64_t n;
        r.levers.on = quantized;
        rig_compile(&r);
        int n_adds = rig_count(r.plan, OP_ADD);
        rig_run(&r);
        float *plain = rig_keep(&r, 0, &n);
        r.levers.on |= 1u << LEVER_RESIDUAL;
        rig_compile(&r);
        rig_run(&r);
        rig_assert_same(plain, rig_output(&r, 0, NULL), (size_t)n * sizeof(float));
        assert_int_equal(n_added(r.plan), how < 4);
        assert_int_equal(rig_count(r.plan, OP_ADD), n_adds - (how < 4));
        rig_deinit(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_norm_rows),
                                       cmocka_unit_test(test_glu_rows),
                                       cmocka_unit_test(test_residual)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
