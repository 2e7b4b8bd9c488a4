/* passes.c: dead code, rewrite rules, levers and printing. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "rig.h"

static graph_dim rows(int64_t n) { return mica_dim_sym(n, GRAPH_ROWS); }

static graph_id tensor(rig *r, const char *name, int64_t columns) {
    graph_dim dims[2] = {rows(1), mica_dim(columns)};
    return rig_f32(r, name, 2, dims);
}

/* ---- dead code ---- */

static void test_dead_code(void **state) {
    (void)state;
    rig r;
    rig_init(&r, 4, 4, 1);
    graph_id x = tensor(&r, "x", 8);
    graph_id used = mica_graph_scale(&r.g, x, 2);
    mica_graph_mul(&r.g, mica_graph_silu(&r.g, x), used); /* nobody reads these two */
    mica_graph_output(&r.g, mica_graph_slice(&r.g, used, 2, 3));
    rig_compile(&r);
    assert_int_equal(r.plan->n_steps, 1);
    assert_int_equal(r.plan->steps[0].op, OP_SCALE);
    assert_non_null(strstr(r.plan->passes, "dead code: 2 of 5"));
    /* the output is a view: two elements into the arena tensor */
    assert_int_equal(r.plan->outputs[0].offset, r.plan->steps[0].out.offset + 8);
    rig_deinit(&r);
}

/* A cache write is a root, and comes before the attention that reads its effect. */
static void test_effect_is_kept(void **state) {
    (void)state;
    rig r;
    rig_init(&r, 4, 4, 1);
    kv_layout layout;
    mica_kv_layout_init(&layout, 1, 8, 8, MICA_F32);
    graph_id cache = rig_cache(&r, 0, &layout, 1);
    graph_dim n = rows(1);
    graph_id slots = rig_input(&r, "slots", MICA_I32, 1, &n);
    graph_id k = mica_graph_heads(&r.g, tensor(&r, "k", 8), 1);
    graph_id v = mica_graph_heads(&r.g, tensor(&r, "v", 8), 1);
    mica_graph_kv_write(&r.g, cache, k, v, slots);
    mica_graph_output(&r.g, mica_graph_silu(&r.g, tensor(&r, "x", 8)));
    int32_t *slot = rig_array(&r, slots);
    for (int i = 0; i < 4; i++)
        slot[i] = 3 - i;
    rig_compile(&r);
    assert_int_equal(rig_count(r.plan, OP_KV_WRITE), 1);
    assert_int_equal(r.plan->steps[0].op, OP_KV_WRITE);
    assert_int_equal(r.plan->steps[0].out.space, PLAN_NONE);
    assert_int_equal(r.plan->steps[0].src[0].space, PLAN_CACHE);
    rig_run(&r);
    const float *kv = r.caches[0], *key = rig_array(&r, r.g.nodes[k].src[0]);
    for (int row = 0; row < 4; row++)
        rig_assert_same(kv + 8 * (3 - row), key + 8 * row, 32);
    rig_deinit(&r);
}

/* ---- rewriting ---- */

typedef struct mlp {
    graph_id gate, act, up, out;
} mlp;

/* act(x Wg) * (x Wu), the product in either order. */
static mlp build_mlp(rig *r, glu_act act, bool swapped, unsigned bits) {
    mlp m;
    graph_id x = tensor(r, "x", 64);
    weight_matrix *wg = bits ? rig_affine(r, 48, 64, bits) : rig_dense(r, 1, 48, 64, 0.3f);
    weight_matrix *wu = bits ? rig_affine(r, 48, 64, bits) : rig_dense(r, 1, 48, 64, 0.3f);
    m.gate = mica_graph_matmul(&r->g, x, mica_graph_weight(&r->g, wg));
    m.act = act == GLU_SILU        ? mica_graph_silu(&r->g, m.gate)
            : act == GLU_GELU_TANH ? mica_graph_gelu_tanh(&r->g, m.gate)
                                   : mica_graph_gelu(&r->g, m.gate);
    m.up = mica_graph_matmul(&r->g, x, mica_graph_weight(&r->g, wu));
    m.out = swapped ? mica_graph_mul(&r->g, m.up, m.act) : mica_graph_mul(&r->g, m.act, m.up);
    mica_graph_output(&r->g, m.out);
    return m;
}

static lever_set only(lever l) { return (lever_set){1u << l}; }

/* On and off give the same bits, for every dtype: the fused kernel rounds where the parts do. */
static void test_glu_same_bits(void **state) {
    (void)state;
    static const mica_dtype dtypes[3] = {MICA_F32, MICA_BF16, MICA_F16};
    for (int variant = 0; variant < 3 * 2 * 3 * 3; variant++) {
        glu_act act = (glu_act)(variant % 3);
        unsigned bits = variant / 18 % 3 == 0 ? 0 : variant / 18 % 3 == 1 ? 4 : 6;
        rig r;
        rig_init(&r, 5, 5, 1);
        mica_graph_force_dtype(&r.g, dtypes[variant / 6 % 3]);
        build_mlp(&r, act, variant / 3 % 2, bits);
        rig_compile(&r);
        assert_int_equal(rig_count(r.plan, OP_GLU_MATMUL), 0);
        assert_int_equal(r.plan->n_steps, 4);
        rig_run(&r);
        int64_t n;
        float *plain = rig_keep(&r, 0, &n);
        r.levers = only(act == GLU_SILU ? LEVER_SWIGLU : LEVER_GEGLU);
        rig_compile(&r);
        assert_int_equal(r.plan->n_steps, 1);
        assert_int_equal(r.plan->steps[0].op, OP_GLU_MATMUL);
        assert_int_equal(r.plan->steps[0].attr.glu.act, act);
        rig_run(&r);
        rig_assert_same(plain, rig_output(&r, 0, NULL),
                        (size_t)n * mica_dtype_bytes(dtypes[variant / 6 % 3]));
        /* the graph was not changed: off again is unfused again */
        r.levers = mica_levers_exact();
        rig_compile(&r);
        assert_int_equal(r.plan->n_steps, 4);
        rig_deinit(&r);
    }
}

/* The other rule's lever does not fire it. */
static void test_levers_are_apart(void **state) {
    (void)state;
    for (int act = 0; act < 3; act++) {
        rig r;
        rig_init(&r, 2, 2, 1);
        build_mlp(&r, (glu_act)act, false, 0);
        r.levers = only(act == GLU_SILU ? LEVER_GEGLU : LEVER_SWIGLU);
        rig_compile(&r);
        assert_int_equal(rig_count(r.plan, OP_GLU_MATMUL), 0);
        rig_deinit(&r);
    }
}

/* Each inner node in turn has a second reader, or is an output: no rule may fire. */
static void test_glu_needs_sole_users(void **state) {
    (void)state;
    for (int which = 0; which < 6; which++) {
        rig r;
        rig_init(&r, 3, 3, 1);
        mlp m = build_mlp(&r, GLU_SILU, false, 0);
        graph_id inner = which % 3 == 0 ? m.gate : which % 3 == 1 ? m.act : m.up;
        if (which >= 3) inner = mica_graph_scale(&r.g, inner, 2);
        mica_graph_output(&r.g, inner);
        r.levers = mica_levers_fast();
        rig_compile(&r);
        assert_int_equal(rig_count(r.plan, OP_GLU_MATMUL), 0);
        rig_deinit(&r);
    }
}

/* Gate and up of different rows of x, or a product of two activations: no SwiGLU. */
static void test_glu_needs_one_x(void **state) {
    (void)state;
    rig r;
    rig_init(&r, 3, 3, 1);
    graph_id w = mica_graph_weight(&r.g, rig_dense(&r, 1, 16, 8, 1));
    graph_id a = tensor(&r, "a", 8), b = tensor(&r, "b", 8);
    graph_id gate = mica_graph_silu(&r.g, mica_graph_matmul(&r.g, a, w));
    mica_graph_output(&r.g, mica_graph_mul(&r.g, gate, mica_graph_matmul(&r.g, b, w)));
    graph_id other = mica_graph_silu(&r.g, mica_graph_matmul(&r.g, a, w));
    graph_id third = mica_graph_silu(&r.g, mica_graph_matmul(&r.g, a, w));
    mica_graph_output(&r.g, mica_graph_mul(&r.g, other, third));
    r.levers = mica_levers_fast();
    rig_compile(&r);
    assert_int_equal(rig_count(r.plan, OP_GLU_MATMUL), 0);
    rig_deinit(&r);
}

static mica_status no_glu(void *self, plan_step *step, const int64_t *bound, mica_error *err) {
    const plan_target *cpu = self;
    if (step->op == OP_GLU_MATMUL) return mica_fail(err, MICA_E_UNSUPPORTED, "no such kernel");
    return cpu->choose(cpu->self, step, bound, err);
}

/* A target without the fused kernel gets the parts; without a part it gets an error. */
static void test_target_decides(void **state) {
    (void)state;
    rig r;
    rig_init(&r, 3, 3, 1);
    build_mlp(&r, GLU_SILU, false, 0);
    rig_compile(&r);
    plan_target target = {"picky", (void *)(uintptr_t)mica_cpu_target(r.backend), no_glu};
    plan_options options = {.bound = {1, 3, 3, 1}, .levers = mica_levers_fast()};
    mica_error err = {0};
    plan *p;
    assert_int_equal(mica_plan_compile(&p, &r.g, &target, &options, &err), MICA_OK);
    assert_int_equal(p->n_steps, 4);
    assert_non_null(strstr(p->passes, "rewrite swiglu: 0 fused, 1 without a kernel"));
    mica_plan_free(p);
    rig_deinit(&r);
}

/* ---- levers ---- */

static void test_lever_switch(void **state) {
    (void)state;
    lever_set set = mica_levers_exact();
    mica_error err = {0};
    assert_false(mica_lever_on(set, LEVER_SWIGLU));
    assert_true(mica_lever_on(mica_levers_fast(), LEVER_SWIGLU));
    static const char *const on[] = {"swiglu=on", "swiglu=1", "swiglu=true"};
    static const char *const off[] = {"swiglu=off", "swiglu=0", "swiglu=false"};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(mica_lever_switch(&set, on[i], &err), MICA_OK);
        assert_true(mica_lever_on(set, LEVER_SWIGLU));
        assert_false(mica_lever_on(set, LEVER_GEGLU));
        assert_int_equal(mica_lever_switch(&set, off[i], &err), MICA_OK);
        assert_false(mica_lever_on(set, LEVER_SWIGLU));
    }
    static const char *const bad[] = {"",       "swiglu", "swiglu=",    "swiglu=yes",
                                      "swi=on", "=on",    "swigluu=on", "swiglu=on "};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(mica_lever_switch(&set, bad[i], &err), MICA_E_INVALID);
        assert_non_null(strstr(err.message, "swiglu, geglu"));
    }
    for (int i = 0; i < LEVER_N; i++) {
        assert_non_null(mica_levers[i].name);
        assert_non_null(mica_levers[i].what);
    }
}

/* ---- printing and traffic ---- */

static void test_print_table(void **state) {
    (void)state;
    rig r;
    rig_init(&r, 8, 8, 1);
    mica_graph_scope(&r.g, "layers.0");
    mlp m = build_mlp(&r, GLU_SILU, false, 4);
    mica_graph_name(&r.g, m.gate, "gate_proj");
    rig_compile(&r);
    int64_t sym[GRAPH_N_SYMS] = {1, 3, 1, 1};
    char *text = mica_strdup("head\n");
    mica_error err = {0};
    assert_int_equal(mica_plan_print(r.plan, sym, false, &text, &err), MICA_OK);
    assert_memory_equal(text, "head\n", 5);
    static const char *const says[] = {"layers.0.gate_proj", "f32 [3, 48]",  "matmul_ref",
                                       "silu_ref",           "dead code: 0", "q4 g32"};
    for (size_t i = 0; i < sizeof(says) / sizeof(says[0]); i++) {
        if (!strstr(text, says[i])) fail_msg("\"%s\" is not in\n%s", says[i], text);
    }
    /* columns are aligned: "out" begins at one place in the heading and in the rows */
    const char *heading = text + 5, *row = strchr(heading, '\n') + 1;
    ptrdiff_t at = strstr(heading, "out") - heading;
    for (int i = 0; i < 4; i++, row = strchr(row, '\n') + 1) {
        assert_memory_equal(row + at, "f32 [3, 48]", 11);
    }
    mica_free(text);
    rig_deinit(&r);
}

static void test_print_json(void **state) {
    (void)state;
    rig r;
    rig_init(&r, 8, 8, 1);
    build_mlp(&r, GLU_SILU, false, 4);
    rig_compile(&r);
    int64_t sym[GRAPH_N_SYMS] = {1, 3, 1, 1};
    char *text = NULL;
    mica_error err = {0};
    assert_int_equal(mica_plan_print(r.plan, sym, true, &text, &err), MICA_OK);
    mica_arena arena;
    mica_arena_init(&arena, 0);
    json_value *v;
    if (mica_json_parse(&v, text, strlen(text), "plan", false, &arena, &err)) {
        fail_msg("%s", err.message);
    }
    const json_value *steps = mica_json_find(v, "steps");
    assert_int_equal(steps->n, 4);
    const json_value *step = steps->items[0], *src = mica_json_find(step, "src");
    assert_string_equal(mica_json_string(mica_json_find(step, "op"), ""), "matmul");
    const json_value *x = src->items[0], *w = src->items[1];
    assert_string_equal(mica_json_string(mica_json_find(x, "name"), ""), "x");
    assert_int_equal(mica_json_find(x, "shape")->items[0]->integer, 3);
    assert_string_equal(mica_json_string(mica_json_find(w, "in"), ""), "weight");
    assert_int_equal(mica_json_i64(mica_json_find(v, "arena_bytes"), 0), r.plan->arena_bytes);
    mica_arena_deinit(&arena);
    mica_free(text);
    rig_deinit(&r);
}

static void test_traffic(void **state) {
    (void)state;
    rig r;
    rig_init(&r, 8, 8, 1);
    weight_matrix *table = rig_dense(&r, 1, 100, 16, 1), *w = rig_dense(&r, 1, 24, 16, 1);
    graph_dim n = rows(1);
    graph_id ids = rig_input(&r, "ids", MICA_I32, 1, &n);
    graph_id x = mica_graph_embed(&r.g, ids, mica_graph_weight(&r.g, table));
    graph_id y = mica_graph_matmul(&r.g, x, mica_graph_weight(&r.g, w));
    mica_graph_output(&r.g, y);
    rig_compile(&r);
    int64_t sym[GRAPH_N_SYMS] = {1, 3, 1, 1};
    uint64_t embed = 3 * 4 + 2 * 3 * 16 * 4; /* ids, rows read, rows written */
    uint64_t matmul = 3 * 16 * 4 + 24 * 16 * 4 + 3 * 24 * 4;
    assert_int_equal(mica_plan_bytes(r.plan, sym), embed + matmul);
    assert_int_equal(mica_plan_weight_bytes(r.plan), 24 * 16 * 4);
    /* a tied head reads the table once; a second reader adds nothing */
    for (int i = 0; i < 2; i++) {
        mica_graph_output(&r.g, mica_graph_matmul(&r.g, x, mica_graph_weight(&r.g, table)));
    }
    rig_compile(&r);
    assert_int_equal(mica_plan_weight_bytes(r.plan), (24 + 100) * 16 * 4);
    rig_deinit(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dead_code),
        cmocka_unit_test(test_effect_is_kept),
        cmocka_unit_test(test_glu_same_bits),
        cmocka_unit_test(test_levers_are_apart),
        cmocka_unit_test(test_glu_needs_sole_users),
        cmocka_unit_test(test_glu_needs_one_x),
        cmocka_unit_test(test_target_decides),
        cmocka_unit_test(test_lever_switch),
        cmocka_unit_test(test_print_table),
        cmocka_unit_test(test_print_json),
        cmocka_unit_test(test_traffic),
    };
    return cmocka_run_group_tests_name("plan/passes", tests, NULL, NULL);
}
