/* replay.c: what a run of a plan promises: no allocation, no dependence on threads, fewer rows than
 * the bound, clean errors, and a clean failure of every allocation while it is made.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "fault_alloc.h"
#include "rig.h"

#include "backend/cpu/limits.h"

/* The allocator of libc, as the linker's --wrap gives it: a kernel that went around mica_malloc
 * would show here. */
void *__real_malloc(size_t n);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t alignment, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t alignment, size_t n);

static atomic_long n_libc_calls;

void *__wrap_malloc(size_t n) {
    n_libc_calls++;
    return __real_malloc(n);
}
void *__wrap_calloc(size_t count, size_t size) {
    n_libc_calls++;
    return __real_calloc(count, size);
}
void *__wrap_realloc(void *p, size_t n) {
    n_libc_calls++;
    return __real_realloc(p, n);
}
void *__wrap_aligned_alloc(size_t alignment, size_t n) {
    n_libc_calls++;
    return __real_aligned_alloc(alignment, n);
}

enum { ROWS = 7, HIDDEN = 64, HEADS = 4, HEAD_DIM = 16, BLOCKS = 2 };

static graph_dim rows(int64_t n) { return mica_dim_sym(n, GRAPH_ROWS); }

typedef struct layer_ids {
    graph_id ids, positions, slots, row_seq, span_lo, span_hi, table, logits_rows;
} layer_ids;

static graph_id i32(rig *r, const char *name, graph_sym sym) {
    graph_dim dim = mica_dim_sym(1, sym);
    return rig_input(r, name, MICA_I32, 1, &dim);
}

/* Rows are positions first, first+1, ... of one sequence. */
static void set_rows(rig *r, const layer_ids *l, int32_t first, int64_t n, int64_t n_logits) {
    r->sym[GRAPH_ROWS] = n;
    r->sym[GRAPH_LOGITS] = n_logits;
    for (int32_t i = 0; i < n; i++) {
        int32_t p = first + i;
        ((int32_t *)rig_array(r, l->ids))[i] = (p * 37 + 5) % 100;
        ((int32_t *)rig_array(r, l->positions))[i] = p;
        ((int32_t *)rig_array(r, l->slots))[i] = p;
        ((int32_t *)rig_array(r, l->span_lo))[i] = p;
        ((int32_t *)rig_array(r, l->span_hi))[i] = p + 1;
    }
    for (int64_t i = n; i < ROWS; i++) { /* a row that is not there would spoil position 0 */
        ((int32_t *)rig_array(r, l->ids))[i] = 99;
        ((int32_t *)rig_array(r, l->slots))[i] = 0;
    }
    for (int32_t i = 0; i < n_logits; i++) {
        ((int32_t *)rig_array(r, l->logits_rows))[i] = (int32_t)(n - n_logits) + i;
    }
    for (int32_t b = 0; b < BLOCKS; b++)
        ((int32_t *)rig_array(r, l->table))[b] = b;
}

static void build_inputs(rig *r, layer_ids *l) {
    graph_dim table[2] = {mica_dim_sym(1, GRAPH_SEQS), mica_dim(BLOCKS)};
    l->ids = i32(r, "ids", GRAPH_ROWS);
    l->positions = i32(r, "positions", GRAPH_ROWS);
    l->slots = i32(r, "slots", GRAPH_ROWS);
    l->row_seq = i32(r, "row_seq", GRAPH_ROWS);
    l->span_lo = i32(r, "span_lo", GRAPH_ROWS);
    l->span_hi = i32(r, "span_hi", GRAPH_ROWS);
    l->table = rig_input(r, "table", MICA_I32, 2, table);
    l->logits_rows = i32(r, "logits_rows", GRAPH_LOGITS);
}

static graph_id linear(rig *r, graph_id x, int64_t n_out, int64_t n_in) {
    return mica_graph_matmul(&r->g, x, mica_graph_weight(&r->g, rig_affine(r, n_out, n_in, 4)));
}

/* A whole decoder of one layer over a quantized weight set: embedding to logits. */
static layer_ids build_model(rig *r) {
    graph *g = &r->g;
    layer_ids l;
    kv_layout layout;
    mica_kv_layout_init(&layout, HEADS / 2, HEAD_DIM, HEAD_DIM, MICA_F32);
    build_inputs(r, &l);
    graph_id x = mica_graph_embed(g, l.ids, mica_graph_weight(g, rig_affine(r, 100, HIDDEN, 4)));
    graph_id angles =
        mica_graph_rope_angles(g, l.positions, rig_const(r, "periods", HEAD_DIM / 2, NULL), 1);
    graph_id n = mica_graph_rms_norm(g, x, rig_const(r, "norm", HIDDEN, NULL), 1e-5f);
    graph_id q = mica_graph_heads(g, linear(r, n, HIDDEN, HIDDEN), HEADS);
    graph_id k = mica_graph_heads(g, linear(r, n, HIDDEN / 2, HIDDEN), HEADS / 2);
    graph_id v = mica_graph_heads(g, linear(r, n, HIDDEN / 2, HIDDEN), HEADS / 2);
    q = mica_graph_rope(g, q, angles, HEAD_DIM, false, 1);
    k = mica_graph_rope(g, k, angles, HEAD_DIM, false, 1);
    graph_id write = mica_graph_kv_write(g, rig_cache(r, 0, &layout, BLOCKS), k, v, l.slots);
    attention_inputs in = {l.table, l.positions, l.row_seq, l.span_lo, l.span_hi};
    graph_id a = mica_graph_attention(g, q, write, &in, GRAPH_NONE, 0.25f, 0, 0);
    x = mica_graph_add(g, x, linear(r, a, HIDDEN, HIDDEN));
    n = mica_graph_rms_norm(g, x, GRAPH_NONE, 1e-5f);
    graph_id gate = mica_graph_silu(g, linear(r, n, 96, HIDDEN));
    graph_id m = mica_graph_mul(g, gate, linear(r, n, 96, HIDDEN));
    x = mica_graph_add(g, x, linear(r, m, HIDDEN, 96));
    x = mica_graph_gather_rows(g, x, l.logits_rows);
    mica_graph_output(g, linear(r, x, 100, HIDDEN));
    return l;
}

static void start(rig *r, layer_ids *l) {
    rig_init(r, ROWS, ROWS, 1);
    *l = build_model(r);
    set_rows(r, l, 0, ROWS, ROWS);
}

static void test_replay_allocates_nothing(void **state) {
    (void)state;
    for (int n_threads = 1; n_threads <= 3; n_threads += 2) {
        rig r;
        layer_ids l;
        start(&r, &l);
        r.n_threads = n_threads;
        rig_compile(&r);
        rig_run(&r);
        fault_alloc_arm(0);
        assert_true(n_libc_calls > 0); /* making the plan has counted: the wrap is in place */
        n_libc_calls = 0;
        for (int step = 0; step < 20; step++) {
            set_rows(&r, &l, ROWS + step, 1, 1);
            rig_run(&r);
        }
        long n_libc = n_libc_calls;
        assert_int_equal(fault_alloc_calls(), 0);
        assert_int_equal(n_libc, 0);
        rig_deinit(&r);
    }
}

static void check_threads(lever_set levers) {
    rig r;
    layer_ids l;
    start(&r, &l);
    r.levers = levers;
    float *first = NULL;
    int64_t n;
    static const int counts[] = {1, 2, 3, 5};
    for (int i = 0; i < 4; i++) {
        r.n_threads = counts[i];
        rig_compile(&r);
        assert_int_equal(mica_cpu_threads(r.backend), counts[i]);
        for (int repeat = 0; repeat < 20; repeat++) {
            rig_run(&r);
            if (!first) first = rig_keep(&r, 0, &n);
            rig_assert_same(first, rig_output(&r, 0, NULL), (size_t)n * sizeof(float));
        }
    }
    rig_deinit(&r);
}

static void test_threads_do_not_matter(void **state) {
    (void)state;
    check_threads(mica_levers_exact());
    check_threads(mica_levers_fast());
}

/* One pass, row by row, and any cut in two give the same logits bit for bit, with one plan. */
static void check_row_counts(lever_set levers) {
    rig r;
    layer_ids l;
    start(&r, &l);
    r.levers = levers;
    rig_compile(&r);
    rig_run(&r);
    float *whole = rig_keep(&r, 0, NULL);
    for (int64_t cut = 1; cut < ROWS; cut++) {
        int64_t n;
        set_rows(&r, &l, 0, cut, cut);
        rig_run(&r);
        rig_assert_same(whole, rig_output(&r, 0, &n), (size_t)cut * 100 * sizeof(float));
        assert_int_equal(n, cut * 100);
        set_rows(&r, &l, (int32_t)cut, ROWS - cut, ROWS - cut);
        rig_run(&r);
        rig_assert_same(whole + cut * 100, rig_output(&r, 0, NULL),
                        (size_t)(ROWS - cut) * 100 * sizeof(float));
    }
    for (int32_t row = 0; row < ROWS; row++) {
        set_rows(&r, &l, row, 1, 1);
        rig_run(&r);
        rig_assert_same(whole + row * 100, rig_output(&r, 0, NULL), 100 * sizeof(float));
    }
    rig_deinit(&r);
}

static void test_any_row_count(void **state) {
    (void)state;
    check_row_counts(mica_levers_exact());
    check_row_counts(mica_levers_fast());
}

/* A prompt chunk may want no logits at all; the cache is written all the same. */
static void test_no_logits(void **state) {
    (void)state;
    rig r;
    layer_ids l;
    start(&r, &l);
    rig_compile(&r);
    rig_run(&r);
    float *whole = rig_keep(&r, 0, NULL);
    memset(r.caches[0], 0xFF, 4096);
    set_rows(&r, &l, 0, ROWS - 1, 0);
    rig_run(&r);
    set_rows(&r, &l, ROWS - 1, 1, 1);
    rig_run(&r);
    rig_assert_same(whole + (ROWS - 1) * 100, rig_output(&r, 0, NULL), 100 * sizeof(float));
    rig_deinit(&r);
}

static void test_fusing_changes_no_bit_in_f32(void **state) {
    (void)state;
    rig r;
    layer_ids l;
    start(&r, &l);
    rig_compile(&r);
    rig_run(&r);
    int64_t n;
    float *plain = rig_keep(&r, 0, &n);
    r.levers.on = 1u << LEVER_SWIGLU | 1u << LEVER_GEGLU;
    rig_compile(&r);
    assert_int_equal(rig_count(r.plan, OP_GLU_MATMUL), 1);
    rig_run(&r);
    rig_assert_same(plain, rig_output(&r, 0, NULL), (size_t)n * sizeof(float));
    rig_deinit(&r);
}

/* Every input is quantized once: the norm that q, k and v read, what the attention gives, the gated
 * pair's norm, its result, the head's rows. */
static void test_matmuls_share_quantized_rows(void **state) {
    (void)state;
    static const int expected[4][4] = {
        {0, 0, 1, 0}, {5, 6, 0, 1}, {2, 1, 0, 1}, {5, 6, 0, 1}}; /* off, int16, int8, both */
    for (unsigned i = 0; i < 4; i++) {
        rig r;
        layer_ids l;
        start(&r, &l);
        r.levers.on = 1u << LEVER_SWIGLU | (i & 1u) << LEVER_INT16 | (i >> 1) << LEVER_INT8;
        rig_compile(&r);
        assert_int_equal(rig_count(r.plan, OP_QUANTIZE_ROWS), expected[i][0]);
        assert_int_equal(rig_count(r.plan, OP_MATMUL_I8), expected[i][1]);
        assert_int_equal(rig_count(r.plan, OP_GLU_MATMUL), expected[i][2]);
        assert_int_equal(rig_count(r.plan, OP_GLU_MATMUL_I8), expected[i][3]);
        rig_deinit(&r);
    }
}

static void test_bounds_are_checked(void **state) {
    (void)state;
    rig r;
    layer_ids l;
    start(&r, &l);
    rig_compile(&r);
    static const int64_t bad[][GRAPH_N_SYMS] = {
        {1, ROWS + 1, 1, 1}, {1, 1, ROWS + 1, 1}, {1, 1, 1, 2}, {1, -1, 1, 1}, {0, 1, 1, 1}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        plan_inputs in = {.arrays = r.arrays, .caches = r.caches};
        memcpy(in.sym, bad[i], sizeof(in.sym));
        mica_error err = {0};
        assert_int_equal(mica_cpu_exec_run(r.exec, &in, &err), MICA_E_INVALID);
    }
    mica_error err = {0};
    plan_inputs in = {.sym = {1, ROWS + 1, 1, 1}, .arrays = r.arrays, .caches = r.caches};
    mica_cpu_exec_run(r.exec, &in, &err);
    assert_string_equal(err.message, "cpu: 8 rows in a step whose plan holds at most 7");
    rig_deinit(&r);
}

static void test_unknown_mask(void **state) {
    (void)state;
    cpu_backend *b = NULL;
    mica_error err = {0};
    assert_int_equal(mica_cpu_new(&b, 1, "sse9", &err), MICA_E_INVALID);
    assert_null(b);
    assert_non_null(strstr(err.message, "sse9"));
}

static mica_status make_and_run(rig *r, mica_error *err) {
    cpu_backend *b = NULL;
    plan *p = NULL;
    cpu_exec *e = NULL;
    char *text = NULL;
    plan_options options = {.levers = mica_levers_fast()};
    memcpy(options.bound, r->bound, sizeof(options.bound));
    mica_status st = mica_cpu_new(&b, 2, "ref", err);
    if (!st) st = mica_plan_compile(&p, &r->g, mica_cpu_target(b), &options, err);
    if (!st) st = mica_cpu_exec_new(&e, b, p, err);
    plan_inputs in = {.arrays = r->arrays, .caches = r->caches};
    memcpy(in.sym, r->sym, sizeof(in.sym));
    if (!st) st = mica_cpu_exec_run(e, &in, err);
    if (!st) st = mica_plan_print(p, r->sym, false, &text, err);
    if (!st) st = mica_plan_print(p, r->sym, true, &text, err);
    mica_free(text);
    mica_cpu_exec_free(e);
    mica_plan_free(p);
    mica_cpu_free(b);
    return st;
}

/* Each allocation between graph and result fails in turn. */
static void test_every_allocation_may_fail(void **state) {
    (void)state;
    rig r;
    layer_ids l;
    start(&r, &l);
    mica_error err = {0};
    fault_alloc_arm(0);
    long live = fault_alloc_live();
    assert_int_equal(make_and_run(&r, &err), MICA_OK);
    long n = fault_alloc_calls();
    assert_true(n > 15);
    assert_int_equal(fault_alloc_live(), live);
    for (long i = 1; i <= n; i++) {
        memset(&err, 0, sizeof(err));
        fault_alloc_arm(i);
        assert_int_equal(make_and_run(&r, &err), MICA_E_NOMEM);
        assert_int_equal(err.code, MICA_E_NOMEM);
        assert_non_null(strstr(err.message, "memory"));
        assert_int_equal(fault_alloc_live(), live);
    }
    fault_alloc_arm(0);
    rig_deinit(&r);
}

/* The same while a graph is built and differentiated: the status says it, the graph can be freed.
 */
static mica_status build_and_differentiate(mica_error *err) {
    static float data[64];
    graph g;
    mica_graph_init(&g);
    graph_dim dims[2] = {rows(1), mica_dim(8)}, square[2] = {mica_dim(8), mica_dim(8)};
    graph_id x = mica_graph_input(&g, "x", MICA_F32, 2, dims);
    graph_id w = mica_graph_const(&g, "w", MICA_F32, 2, square, data);
    graph_id y = x, dy = mica_graph_input(&g, "dy", MICA_F32, 2, dims), grad;
    for (int i = 0; i < 40; i++) {
        mica_graph_scope(&g, "layers.%d", i);
        y = mica_graph_name(&g, mica_graph_silu(&g, mica_graph_matmul(&g, y, w)), "act");
    }
    mica_status st = mica_graph_check(&g, err);
    if (!st) st = mica_graph_backward(&g, y, dy, &x, 1, &grad, err);
    mica_graph_deinit(&g);
    return st;
}

static void test_building_may_fail(void **state) {
    (void)state;
    mica_error err = {0};
    fault_alloc_arm(0);
    long live = fault_alloc_live();
    assert_int_equal(build_and_differentiate(&err), MICA_OK);
    long n = fault_alloc_calls();
    assert_true(n > 3);
    for (long i = 1; i <= n; i++) {
        fault_alloc_arm(i);
        assert_int_equal(build_and_differentiate(&err), MICA_E_NOMEM);
        assert_int_equal(fault_alloc_live(), live);
    }
    fault_alloc_arm(0);
}

static void test_read_bandwidth(void **state) {
    (void)state;
    cpu_backend *b;
    mica_error err = {0};
    assert_int_equal(mica_cpu_new(&b, 2, "ref", &err), MICA_OK);
    double rate = 0;
    assert_int_equal(mica_cpu_read_bandwidth(b, 64 << 20, &rate, &err), MICA_OK);
    assert_true(rate > 1e8 && rate < 1e13); /* between a broken timer and a skipped read */
    assert_int_equal(mica_cpu_read_bandwidth(b, 100, &rate, &err), MICA_E_INVALID);
    fault_alloc_arm(1);
    assert_int_equal(mica_cpu_read_bandwidth(b, 1 << 20, &rate, &err), MICA_E_NOMEM);
    fault_alloc_arm(0);
    mica_cpu_free(b);
}

/* Rates lie between a broken timer and a loop that the compiler left out; a mask takes loops away.
 */
static void test_limits(void **state) {
    (void)state;
    cpu_backend *b;
    cpu_limits limits;
    mica_error err = {0};
    assert_int_equal(mica_cpu_new(&b, 2, NULL, &err), MICA_OK);
    assert_int_equal(mica_cpu_measure_limits(b, 32 << 20, false, &limits, &err), MICA_OK);
    assert_int_equal(limits.n_threads, 2);
    for (int n = 1; n <= 2; n++)
        assert_true(limits.read_bps[n] > 1e7 && limits.read_bps[n] < 1e13);
    for (int i = 0; i < limits.n_peaks; i++) {
        const cpu_peak_rate *r = &limits.peaks[i];
        print_message("%-18s %8.1f Gop/s, 2 threads %8.1f\n", r->peak->name, r->one_ops / 1e9,
                      r->all_ops / 1e9);
        assert_true(r->one_ops > 1e8 && r->one_ops < 2e13);
        assert_true(r->all_ops > 1e8 && r->all_ops < 4e13);
    }
    if (mica_cpu_isa_available(ISA_AVX512)) {
        assert_non_null(mica_cpu_best_peak(&limits, PEAK_F32));
        assert_int_equal(limits.read_isa, ISA_AVX512);
    }
    mica_cpu_free(b);
    assert_int_equal(mica_cpu_new(&b, 1, "ref", &err), MICA_OK);
    assert_int_equal(mica_cpu_measure_limits(b, 1 << 20, false, &limits, &err), MICA_OK);
    assert_int_equal(limits.n_peaks, 0);
    assert_int_equal(limits.read_isa, ISA_REF);
    mica_cpu_free(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replay_allocates_nothing),
        cmocka_unit_test(test_threads_do_not_matter),
        cmocka_unit_test(test_any_row_count),
        cmocka_unit_test(test_no_logits),
        cmocka_unit_test(test_fusing_changes_no_bit_in_f32),
        cmocka_unit_test(test_matmuls_share_quantized_rows),
        cmocka_unit_test(test_bounds_are_checked),
        cmocka_unit_test(test_unknown_mask),
        cmocka_unit_test(test_every_allocation_may_fail),
        cmocka_unit_test(test_building_may_fail),
        cmocka_unit_test(test_read_bandwidth),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests_name("plan/replay", tests, NULL, NULL);
}
