/* infer.c: shapes and dtypes that the builders infer, and what they reject. */
#include "cmocka_base.h"

#include <string.h>

#include "graph/graph.h"

static graph_dim rows(int64_t n) { return mica_dim_sym(n, GRAPH_ROWS); }

static graph_id tensor(graph *g, mica_dtype dtype, int64_t columns) {
    graph_dim dims[2] = {rows(1), mica_dim(columns)};
    return mica_graph_input(g, "x", dtype, 2, dims);
}

static graph_id vector(graph *g, mica_dtype dtype, int64_t n) {
    graph_dim dim = mica_dim(n);
    return mica_graph_input(g, "v", dtype, 1, &dim);
}

static graph_id indices(graph *g, const char *name, graph_dim n) {
    return mica_graph_input(g, name, MICA_I32, 1, &n);
}

static void assert_type(const graph *g, graph_id id, const char *text) {
    char found[96];
    if (id < 0) fail_msg("%s", g->error.message);
    mica_graph_type_text(&g->nodes[id].type, NULL, found, sizeof(found));
    assert_string_equal(found, text);
}

static weight_matrix matrix(int64_t n_experts, int64_t n_out, int64_t n_in, mica_dtype dtype) {
    static const float nothing[1];
    weight_matrix m = {.name = "model.layers.0.q_proj",
                       .form = {.kind = WEIGHT_DENSE, .dtype = dtype},
                       .n_experts = n_experts,
                       .n_out = n_out,
                       .n_in = n_in,
                       .row_bytes = (size_t)n_in * mica_dtype_bytes(dtype),
                       .codes = (const uint8_t *)nothing};
    return m;
}

/* f16+bf16 -> f32, T+T -> T, anything+f32 -> f32 (docs/numerics.md 1.3). */
static void test_promotion(void **state) {
    (void)state;
    static const struct {
        mica_dtype a, b, result;
    } cases[] = {
        {MICA_F32, MICA_F32, MICA_F32},  {MICA_BF16, MICA_BF16, MICA_BF16},
        {MICA_F16, MICA_F16, MICA_F16},  {MICA_F16, MICA_BF16, MICA_F32},
        {MICA_BF16, MICA_F16, MICA_F32}, {MICA_BF16, MICA_F32, MICA_F32},
        {MICA_F32, MICA_F16, MICA_F32},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (int forced = 0; forced < 2; forced++) {
            graph g;
            mica_graph_init(&g);
            if (forced) mica_graph_force_dtype(&g, MICA_BF16);
            mica_dtype want = forced ? MICA_BF16 : cases[i].result;
            graph_id x = tensor(&g, cases[i].a, 8);
            weight_matrix m = matrix(1, 4, 8, cases[i].b);
            graph_id ids[4];
            ids[0] = mica_graph_add(&g, x, tensor(&g, cases[i].b, 8));
            ids[1] = mica_graph_mul(&g, x, vector(&g, cases[i].b, 8));
            ids[2] = mica_graph_rms_norm(&g, x, vector(&g, cases[i].b, 8), 1e-6f);
            ids[3] = mica_graph_matmul(&g, x, mica_graph_weight(&g, &m));
            for (int j = 0; j < 4; j++) {
                if (ids[j] < 0) fail_msg("%s", g.error.message);
                assert_int_equal(g.nodes[ids[j]].type.dtype, want);
            }
            mica_graph_deinit(&g);
        }
    }
}

/* Scales that are storage only take no part: the result is x's dtype; an embedding is f32. */
static void test_storage_scales(void **state) {
    (void)state;
    graph g;
    mica_graph_init(&g);
    weight_matrix m = {.name = "w",
                       .form = {.kind = WEIGHT_AFFINE,
                                .bits = 4,
                                .group = 32,
                                .scale = SCALE_F16,
                                .bias = BIAS_ZERO,
                                .zero = 8,
                                .storage_scales = true},
                       .n_experts = 1,
                       .n_out = 4,
                       .n_in = 32,
                       .row_bytes = 16,
                       .scale_bytes = 2};
    graph_id w = mica_graph_weight(&g, &m);
    assert_type(&g, mica_graph_matmul(&g, tensor(&g, MICA_BF16, 32), w), "bf16 [rows, 4]");
    assert_type(&g, mica_graph_embed(&g, indices(&g, "ids", rows(1)), w), "f32 [rows, 32]");
    m.form.storage_scales = false; /* the same form from an MLX file promotes */
    graph_id mlx = mica_graph_weight(&g, &m);
    assert_type(&g, mica_graph_matmul(&g, tensor(&g, MICA_BF16, 32), mlx), "f32 [rows, 4]");
    mica_graph_deinit(&g);
}

static void test_shapes(void **state) {
    (void)state;
    graph g;
    mica_graph_init(&g);
    graph_id x = tensor(&g, MICA_F32, 12);
    graph_id h = mica_graph_heads(&g, x, 3);
    assert_type(&g, h, "f32 [rows, 3, 4]");
    assert_type(&g, mica_graph_flat(&g, h), "f32 [rows, 12]");
    graph_id s = mica_graph_slice(&g, x, 4, 8);
    assert_type(&g, s, "f32 [rows, 8]");
    assert_int_equal(g.nodes[s].type.stride[0], 12);
    assert_int_equal(g.nodes[s].attr.view.offset, 4);
    graph_id sh = mica_graph_heads(&g, s, 2);
    assert_type(&g, sh, "f32 [rows, 2, 4]");
    assert_int_equal(g.nodes[sh].type.stride[0], 12);
    assert_false(mica_graph_is_contiguous(&g.nodes[sh].type));
    assert_true(mica_graph_is_contiguous(&g.nodes[mica_graph_copy(&g, sh)].type));
    graph_dim folded[2] = {rows(3), mica_dim(4)};
    assert_type(&g, mica_graph_reshape(&g, x, 2, folded), "f32 [3*rows, 4]");
    assert_type(&g, mica_graph_pad(&g, s, 1, 2), "f32 [rows, 11]");
    assert_type(&g, mica_graph_cast(&g, s, MICA_F16), "f16 [rows, 8]");
    graph_id logits = indices(&g, "logits_rows", mica_dim_sym(1, GRAPH_LOGITS));
    assert_type(&g, mica_graph_gather_rows(&g, x, logits), "f32 [logits, 12]");
    graph_id pos = indices(&g, "positions", rows(1));
    graph_id angles = mica_graph_rope_angles(&g, pos, vector(&g, MICA_F32, 2), 1);
    assert_type(&g, angles, "f32 [rows, 4]");
    assert_type(&g, mica_graph_rope(&g, h, angles, 4, false, 1), "f32 [rows, 3, 4]");
    assert_int_equal(mica_graph_check(&g, NULL), MICA_OK);
    mica_graph_deinit(&g);
}

static void test_expert_shapes(void **state) {
    (void)state;
    graph g;
    mica_graph_init(&g);
    weight_matrix m = matrix(8, 6, 12, MICA_F32), down = matrix(8, 12, 6, MICA_F32);
    graph_id x = tensor(&g, MICA_F32, 12), scores = tensor(&g, MICA_F32, 8);
    graph_id idx = mica_graph_top_k(&g, scores, 2, NULL);
    assert_type(&g, idx, "i32 [rows, 2]");
    top_k_weighting softmax = {.rule = TOP_K_SOFTMAX_ALL, .normalize = true, .factor = 1.0f};
    graph_id weights = mica_graph_top_k_weights(&g, scores, idx, &softmax);
    assert_type(&g, weights, "f32 [rows, 2]");
    graph_id groups = mica_graph_expert_groups(&g, idx, 8);
    assert_type(&g, groups, "i32 [4*rows+18]");
    graph_id y = mica_graph_expert_matmul(&g, x, mica_graph_weight(&g, &m), groups, 2);
    assert_type(&g, y, "f32 [2*rows, 6]");
    y = mica_graph_expert_matmul(&g, y, mica_graph_weight(&g, &down), groups, 2);
    assert_type(&g, y, "f32 [2*rows, 12]");
    assert_type(&g, mica_graph_expert_combine(&g, y, weights), "f32 [rows, 12]");
    mica_graph_deinit(&g);
}

static attention_inputs attention_of(graph *g) {
    graph_dim table[2] = {mica_dim_sym(1, GRAPH_SEQS), mica_dim(4)};
    attention_inputs in = {mica_graph_input(g, "table", MICA_I32, 2, table),
                           indices(g, "positions", rows(1)), indices(g, "row_seq", rows(1)),
                           indices(g, "span_lo", rows(1)), indices(g, "span_hi", rows(1))};
    return in;
}

static void test_attention_shapes(void **state) {
    (void)state;
    graph g;
    mica_graph_init(&g);
    kv_layout layout;
    assert_true(mica_kv_layout_init(&layout, 2, 8, 4, MICA_BF16));
    assert_int_equal(layout.k_bytes, 2 * 64 * 8 * 2);
    assert_int_equal(layout.block_bytes, 2 * 64 * 8 * 2 + 2 * 64 * 4 * 2);
    assert_false(mica_kv_layout_init(&layout, INT64_MAX, 8, 8, MICA_F32));
    assert_false(mica_kv_layout_init(&layout, 2, 0, 8, MICA_F32));
    graph_id cache = mica_graph_cache(&g, 3, &layout);
    assert_int_equal(g.n_caches, 4);
    graph_id q = mica_graph_heads(&g, tensor(&g, MICA_F32, 48), 6);
    graph_id k = mica_graph_heads(&g, tensor(&g, MICA_F32, 16), 2);
    graph_id v = mica_graph_heads(&g, tensor(&g, MICA_F32, 8), 2);
    graph_id write = mica_graph_kv_write(&g, cache, k, v, indices(&g, "slots", rows(1)));
    assert_true(write >= 0);
    assert_int_equal(g.nodes[write].type.n_dims, 0);
    attention_inputs in = attention_of(&g);
    graph_id out = mica_graph_attention(&g, q, write, &in, GRAPH_NONE, 0.5f, 0, 0);
    assert_type(&g, out, "f32 [rows, 24]");
    assert_int_equal(g.nodes[out].attr.attention.layer, 3);
    assert_int_equal(g.nodes[out].attr.attention.layout.v_head_dim, 4);
    mica_graph_deinit(&g);
}

/* Broadcasting is commutative: the vector ends up as the second operand. */
static void test_broadcast(void **state) {
    (void)state;
    graph g;
    mica_graph_init(&g);
    graph_id x = tensor(&g, MICA_F32, 8), v = vector(&g, MICA_F32, 8);
    graph_id a = mica_graph_add(&g, v, x);
    assert_type(&g, a, "f32 [rows, 8]");
    assert_int_equal(g.nodes[a].src[0], x);
    assert_int_equal(g.nodes[a].src[1], v);
    mica_graph_deinit(&g);
}

static void test_names_and_scope(void **state) {
    (void)state;
    graph g;
    mica_graph_init(&g);
    mica_graph_scope(&g, "layers.%d", 3);
    graph_id x = mica_graph_name(&g, tensor(&g, MICA_F32, 8), "q_proj");
    assert_string_equal(g.nodes[x].name, "layers.3.q_proj");
    mica_graph_scope(&g, "%s", "");
    mica_graph_name(&g, x, "plain");
    assert_string_equal(g.nodes[x].name, "plain");
    assert_int_equal(mica_graph_name(&g, GRAPH_NONE, "nothing"), GRAPH_NONE);
    for (int op = 0; op < GRAPH_N_OPS; op++) {
        assert_string_not_equal(mica_graph_op_name(op), "unknown");
    }
    mica_graph_deinit(&g);
}

/* ---- errors: each builds something wrong and must name op, found and expected ---- */

typedef void (*wrong_fn)(graph *g);

static void wrong_columns(graph *g) {
    static weight_matrix m;
    m = matrix(1, 4, 16, MICA_F32);
    mica_graph_matmul(g, tensor(g, MICA_F32, 8), mica_graph_weight(g, &m));
}
static void wrong_heads(graph *g) { mica_graph_heads(g, tensor(g, MICA_F32, 10), 3); }
static void wrong_slice(graph *g) { mica_graph_slice(g, tensor(g, MICA_F32, 10), 8, 3); }
static void wrong_sum(graph *g) {
    mica_graph_add(g, tensor(g, MICA_F32, 8), tensor(g, MICA_F32, 9));
}
static void wrong_ids(graph *g) {
    static weight_matrix m;
    m = matrix(1, 4, 16, MICA_F32);
    graph_dim dim = rows(1);
    mica_graph_embed(g, mica_graph_input(g, "ids", MICA_I64, 1, &dim), mica_graph_weight(g, &m));
}
static void wrong_reshape(graph *g) {
    graph_dim dims[2] = {rows(2), mica_dim(5)};
    mica_graph_reshape(g, tensor(g, MICA_F32, 8), 2, dims);
}
static void wrong_gaps(graph *g) {
    graph_dim dims[2] = {rows(2), mica_dim(2)};
    mica_graph_reshape(g, mica_graph_slice(g, tensor(g, MICA_F32, 8), 0, 4), 2, dims);
}
static void wrong_norm(graph *g) {
    mica_graph_rms_norm(g, tensor(g, MICA_F32, 8), vector(g, MICA_F32, 4), 1e-6f);
}
static void wrong_symbol(graph *g) {
    graph_dim dims[2] = {mica_dim(4), rows(1)};
    mica_graph_input(g, "turned", MICA_F32, 2, dims);
}
static void wrong_rope(graph *g) {
    graph_id angles =
        mica_graph_rope_angles(g, indices(g, "p", rows(1)), vector(g, MICA_F32, 4), 1);
    mica_graph_rope(g, mica_graph_heads(g, tensor(g, MICA_F32, 8), 2), angles, 8, false, 1);
}
static void wrong_top_k(graph *g) { mica_graph_top_k(g, tensor(g, MICA_F32, 8), 9, NULL); }
static void wrong_weight_use(graph *g) {
    static weight_matrix m;
    m = matrix(1, 8, 8, MICA_F32);
    mica_graph_silu(g, mica_graph_weight(g, &m));
}
static void wrong_cache(graph *g) {
    attention_inputs in = attention_of(g);
    graph_id q = mica_graph_heads(g, tensor(g, MICA_F32, 8), 2);
    mica_graph_attention(g, q, q, &in, GRAPH_NONE, 1, 0, 0);
}
static void wrong_missing(graph *g) { mica_graph_add(g, tensor(g, MICA_F32, 8), GRAPH_NONE); }
static void wrong_output(graph *g) { mica_graph_output(g, 17); }

static void test_errors(void **state) {
    (void)state;
    static const struct {
        wrong_fn build;
        const char *says[3];
    } cases[] = {
        {wrong_columns, {"matmul(x, model.layers.0.q_proj)", "8 columns", "16"}},
        {wrong_heads, {"view(x)", "10 columns", "3 heads"}},
        {wrong_slice, {"view(x)", "[8, 8 + 3)", "10"}},
        {wrong_sum, {"add(x, x)", "f32 [rows, 9]", "f32 [rows, 8]"}},
        {wrong_ids, {"embed(ids", "i64", "i32"}},
        {wrong_reshape, {"f32 [rows, 8]", "f32 [2*rows, 5]", "elements"}},
        {wrong_gaps, {"f32 [rows, 4]", "gaps", "copy"}},
        {wrong_norm, {"rms_norm(x, v)", "f32 [4]", "f32 [8]"}},
        {wrong_symbol, {"input", "dimension 1", "symbolic"}},
        {wrong_rope, {"rope", "8 rotated", "at most 4"}},
        {wrong_top_k, {"top_k(x)", "k is 9", "1 to 8"}},
        {wrong_weight_use, {"silu(model.layers.0.q_proj)", "weight", "matmul"}},
        {wrong_cache, {"attention", "second operand", "cache"}},
        {wrong_missing, {"add(x)", "operand 1", "missing"}},
        {wrong_output, {"output 0", "17", "0 nodes"}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        graph g;
        mica_graph_init(&g);
        mica_graph_scope(&g, "layers.7");
        cases[i].build(&g);
        mica_error err = {0};
        assert_int_equal(mica_graph_check(&g, &err), MICA_E_INVALID);
        for (int j = 0; j < 3; j++) {
            if (!strstr(err.message, cases[i].says[j])) {
                fail_msg("case %zu: \"%s\" does not say \"%s\"", i, err.message, cases[i].says[j]);
            }
        }
        /* the first error stays, and nothing is built after it */
        char first[512];
        memcpy(first, err.message, sizeof(first));
        int32_t n = g.n_nodes;
        assert_int_equal(tensor(&g, MICA_F32, 3), GRAPH_NONE);
        assert_int_equal(mica_graph_silu(&g, GRAPH_NONE), GRAPH_NONE);
        assert_int_equal(g.n_nodes, n);
        mica_graph_check(&g, &err);
        assert_string_equal(err.message, first);
        mica_graph_deinit(&g);
    }
}

static void test_backward_refuses(void **state) {
    (void)state;
    graph g;
    mica_graph_init(&g);
    graph_id x = tensor(&g, MICA_F32, 8);
    graph_id y = mica_graph_name(&g, mica_graph_gelu(&g, x), "act");
    graph_id dy = tensor(&g, MICA_F32, 8), grad;
    mica_error err = {0};
    assert_int_equal(mica_graph_backward(&g, y, dy, &x, 1, &grad, &err), MICA_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "gelu"));
    assert_non_null(strstr(err.message, "act"));
    /* a node on which y does not depend has no gradient, and nothing is refused for it */
    graph_id other = tensor(&g, MICA_F32, 8);
    assert_int_equal(mica_graph_backward(&g, y, dy, &other, 1, &grad, &err), MICA_OK);
    assert_int_equal(grad, GRAPH_NONE);
    graph_id narrow = tensor(&g, MICA_F32, 4);
    assert_int_equal(mica_graph_backward(&g, y, narrow, &x, 1, &grad, &err), MICA_E_INVALID);
    mica_graph_deinit(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_promotion),        cmocka_unit_test(test_storage_scales),
        cmocka_unit_test(test_shapes),           cmocka_unit_test(test_expert_shapes),
        cmocka_unit_test(test_attention_shapes), cmocka_unit_test(test_broadcast),
        cmocka_unit_test(test_names_and_scope),  cmocka_unit_test(test_errors),
        cmocka_unit_test(test_backward_refuses),
    };
    return cmocka_run_group_tests_name("graph/infer", tests, NULL, NULL);
}
