/* memory.c: random graphs keep their tensors apart, and reusing memory changes no bit.
 *
 * The check keeps a shadow of the arena: who wrote each 64 bytes last. Every operand must still be
 * owned by the node that made it when a step reads it, and every output at the end. That knows
 * nothing of lifetimes, so it cannot share a mistake with the planner.
 */
#include <stdlib.h>
#include <string.h>

#include "rig.h"

enum { N_GRAPHS = 300, N_OPS = 40, WIDTH = 32 };

/* Any value so far, as [rows, WIDTH]. */
static graph_id pick(rig *r, const graph_id *values, int n) {
    int back = n < 6 ? n : 6; /* mostly recent ones, so that memory is given back */
    bool recent = rig_random(r) % 4 != 0;
    return values[recent ? n - 1 - (int)(rig_random(r) % (uint64_t)back)
                         : (int)(rig_random(r) % (uint64_t)n)];
}

static graph_id random_op(rig *r, const graph_id *values, int n) {
    graph *g = &r->g;
    graph_id a = pick(r, values, n), b = pick(r, values, n);
    switch (rig_random(r) % 9) {
    case 0:
        return mica_graph_add(g, a, b);
    case 1:
        return mica_graph_mul(g, a, b);
    case 2:
        return mica_graph_silu(g, a);
    case 3:
        return mica_graph_matmul(g, a, mica_graph_weight(g, rig_dense(r, 1, WIDTH, WIDTH, 0.3f)));
    case 4: { /* a wide tensor, of which two views are read */
        graph_id w = mica_graph_weight(g, rig_dense(r, 1, 3 * WIDTH, WIDTH, 0.3f));
        graph_id wide = mica_graph_matmul(g, a, w);
        return mica_graph_add(g, mica_graph_slice(g, wide, WIDTH, WIDTH),
                              mica_graph_slice(g, wide, 2 * WIDTH, WIDTH));
    }
    case 5: /* a view of a view, which stays a value and keeps its base alive */
        return mica_graph_flat(g, mica_graph_heads(g, a, 4));
    case 6: { /* a strided view as a value */
        graph_id w = mica_graph_weight(g, rig_dense(r, 1, 2 * WIDTH, WIDTH, 0.3f));
        return mica_graph_slice(g, mica_graph_matmul(g, a, w), WIDTH / 2, WIDTH);
    }
    case 7:
        return mica_graph_rms_norm(g, a, GRAPH_NONE, 1e-5f);
    default:
        return mica_graph_copy(g, a);
    }
}

static void build_random(rig *r) {
    graph_dim dims[2] = {mica_dim_sym(1, GRAPH_ROWS), mica_dim(WIDTH)};
    graph_id values[N_OPS + 1];
    int n = 0;
    values[n++] = rig_f32(r, "x", 2, dims);
    while (n <= N_OPS) {
        values[n] = random_op(r, values, n);
        n++;
    }
    mica_graph_output(&r->g, values[n - 1]);
    mica_graph_output(&r->g, pick(r, values, n));
}

static graph_id base_of(const graph *g, graph_id id) {
    while (g->nodes[id].op == OP_VIEW)
        id = g->nodes[id].src[0];
    return id;
}

/* The bytes that an operand touches must all belong to its base. */
static void assert_owned(const rig *r, const graph_id *shadow, const plan_operand *o) {
    if (o->space != PLAN_ARENA) return;
    graph_id base = base_of(&r->g, o->id);
    const graph_type *t = &o->type;
    int64_t last = 0;
    for (int i = 0; i < t->n_dims; i++) {
        last += (mica_graph_dim_size(t->dim[i], r->bound) - 1) * t->stride[i];
    }
    uint64_t first = o->offset / 64;
    uint64_t end = o->offset + (uint64_t)(last + 1) * mica_dtype_bytes(t->dtype);
    assert_true(end <= r->plan->arena_bytes);
    for (uint64_t i = first; i * 64 < end; i++)
        assert_int_equal(shadow[i], base);
}

static void check_layout(const rig *r) {
    const plan *p = r->plan;
    graph_id *shadow = calloc(p->arena_bytes / 64 + 1, sizeof(*shadow));
    for (int32_t s = 0; s < p->n_steps; s++) {
        for (int i = 0; i < p->steps[s].n_src; i++)
            assert_owned(r, shadow, &p->steps[s].src[i]);
        const plan_operand *out = &p->steps[s].out;
        assert_int_equal(out->offset % 64, 0);
        uint64_t n = (uint64_t)mica_graph_type_count(&out->type, p->bound) *
                     mica_dtype_bytes(out->type.dtype);
        for (uint64_t i = 0; i * 64 < n; i++)
            shadow[out->offset / 64 + i] = out->id;
        /* the result must not lie where a source lies */
        for (int i = 0; i < p->steps[s].n_src; i++)
            assert_owned(r, shadow, &p->steps[s].src[i]);
    }
    for (int i = 0; i < p->n_outputs; i++)
        assert_owned(r, shadow, &p->outputs[i]);
    free(shadow);
}

static void compare_reuse(rig *r) {
    float *with[2];
    int64_t n[2];
    rig_compile(r);
    check_layout(r);
    uint64_t reused = r->plan->arena_bytes;
    rig_run(r);
    for (int i = 0; i < 2; i++)
        with[i] = rig_keep(r, i, &n[i]);
    r->no_reuse = true;
    rig_compile(r);
    check_layout(r);
    assert_true(reused <= r->plan->arena_bytes);
    rig_run(r);
    for (int i = 0; i < 2; i++) {
        if (r->plan->outputs[i].type.stride[0] != WIDTH) continue; /* a strided view: seen above */
        rig_assert_same(with[i], rig_output(r, i, NULL), (size_t)n[i] * sizeof(float));
    }
}

static void test_random_graphs(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < N_GRAPHS; seed++) {
        rig r;
        rig_init(&r, 1 + (int64_t)(seed % 5), 1, 1);
        r.state = seed << 32;
        build_random(&r);
        compare_reuse(&r);
        rig_deinit(&r);
    }
}

/* A chain needs two tensors' worth of memory, however long it is. */
static void test_chain_is_small(void **state) {
    (void)state;
    rig r;
    rig_init(&r, 16, 16, 1);
    graph_dim dims[2] = {mica_dim_sym(1, GRAPH_ROWS), mica_dim(64)};
    graph_id x = rig_f32(&r, "x", 2, dims);
    for (int i = 0; i < 50; i++)
        x = mica_graph_scale(&r.g, x, 1.5f);
    mica_graph_output(&r.g, x);
    rig_compile(&r);
    assert_int_equal(r.plan->n_steps, 50);
    assert_int_equal(r.plan->arena_bytes, 2 * 16 * 64 * 4);
    rig_deinit(&r);
}

/* Outputs live to the end, an input and a constant may be outputs too. */
static void test_outputs(void **state) {
    (void)state;
    rig r;
    rig_init(&r, 3, 3, 1);
    graph_dim dims[2] = {mica_dim_sym(1, GRAPH_ROWS), mica_dim(4)};
    graph_id x = rig_f32(&r, "x", 2, dims);
    graph_id first = mica_graph_scale(&r.g, x, 2), y = first;
    for (int i = 0; i < 5; i++)
        y = mica_graph_scale(&r.g, y, 0.5f);
    float *data;
    graph_id c = rig_const(&r, "c", 6, &data);
    mica_graph_output(&r.g, first);
    mica_graph_output(&r.g, y);
    mica_graph_output(&r.g, mica_graph_slice(&r.g, x, 1, 2));
    mica_graph_output(&r.g, mica_graph_slice(&r.g, c, 2, 3));
    rig_compile(&r);
    rig_run(&r);
    const float *in = rig_array(&r, x);
    for (int i = 0; i < 12; i++) {
        assert_true(rig_output(&r, 0, NULL)[i] == in[i] * 2);
        assert_true(rig_output(&r, 1, NULL)[i] == in[i] * 2 / 32);
    }
    assert_ptr_equal(rig_output(&r, 2, NULL), in + 1);
    assert_ptr_equal(rig_output(&r, 3, NULL), data + 2);
    rig_deinit(&r);
}

static void test_too_large(void **state) {
    (void)state;
    rig r;
    rig_init(&r, 1, 1, 1);
    graph_dim dims[2] = {mica_dim_sym(1, GRAPH_ROWS), mica_dim(INT64_C(1) << 40)};
    graph_id x = mica_graph_input(&r.g, "x", MICA_F32, 2, dims);
    mica_graph_output(&r.g, mica_graph_name(&r.g, mica_graph_silu(&r.g, x), "huge"));
    cpu_backend *b;
    mica_error err = {0};
    assert_int_equal(mica_cpu_new(&b, 1, "ref", &err), MICA_OK);
    plan_options options = {.bound = {1, INT64_C(1) << 30, 1, 1}};
    plan *p = NULL;
    assert_int_equal(mica_plan_compile(&p, &r.g, mica_cpu_target(b), &options, &err), MICA_E_LIMIT);
    assert_non_null(strstr(err.message, "huge"));
    options.bound[GRAPH_ROWS] = -1;
    assert_int_equal(mica_plan_compile(&p, &r.g, mica_cpu_target(b), &options, &err),
                     MICA_E_INVALID);
    assert_null(p);
    mica_cpu_free(b);
    rig_deinit(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_graphs),
        cmocka_unit_test(test_chain_is_small),
        cmocka_unit_test(test_outputs),
        cmocka_unit_test(test_too_large),
    };
    return cmocka_run_group_tests_name("plan/memory", tests, NULL, NULL);
}
