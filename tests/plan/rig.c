/* rig.c: see rig.h. */
#include "rig.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

void rig_init(rig *r, int64_t rows, int64_t logits, int64_t seqs) {
    memset(r, 0, sizeof(*r));
    mica_graph_init(&r->g);
    r->bound[GRAPH_FIXED] = 1;
    r->bound[GRAPH_ROWS] = rows;
    r->bound[GRAPH_LOGITS] = logits;
    r->bound[GRAPH_SEQS] = seqs;
    memcpy(r->sym, r->bound, sizeof(r->sym));
    r->n_threads = 1;
    r->mask = "ref";
}

static void drop_compiled(rig *r) {
    mica_cpu_exec_free(r->exec);
    mica_plan_free(r->plan);
    mica_cpu_free(r->backend);
    r->exec = NULL;
    r->plan = NULL;
    r->backend = NULL;
}

void rig_deinit(rig *r) {
    drop_compiled(r);
    mica_graph_deinit(&r->g);
    for (int i = 0; i < r->n_owned; i++)
        free(r->owned[i]);
}

uint64_t rig_random(rig *r) {
    uint32_t x, y;
    mica_threefry((mica_rng_key){2024, 7}, (uint32_t)(r->state >> 32), (uint32_t)r->state, &x, &y);
    r->state++;
    return (uint64_t)x << 32 | y;
}

float rig_uniform(rig *r, float lo, float hi) {
    return lo + (hi - lo) * (float)(rig_random(r) >> 40) * 0x1p-24f;
}

void *rig_alloc(rig *r, size_t n_bytes) {
    assert_true(r->n_owned < 4 * RIG_MAX);
    size_t size = (n_bytes + 127) / 64 * 64;
    void *p = aligned_alloc(64, size);
    assert_non_null(p);
    memset(p, 0, size);
    r->owned[r->n_owned++] = p;
    return p;
}

graph_id rig_input(rig *r, const char *name, mica_dtype dtype, int n_dims, const graph_dim *dims) {
    graph_id id = mica_graph_input(&r->g, name, dtype, n_dims, dims);
    assert_true(id >= 0);
    int32_t slot = r->g.nodes[id].attr.input.slot;
    assert_true(slot < RIG_MAX);
    int64_t n = mica_graph_type_count(&r->g.nodes[id].type, r->bound);
    r->arrays[slot] = rig_alloc(r, (size_t)n * mica_dtype_bytes(dtype));
    return id;
}

graph_id rig_f32(rig *r, const char *name, int n_dims, const graph_dim *dims) {
    graph_id id = rig_input(r, name, MICA_F32, n_dims, dims);
    float *x = rig_array(r, id);
    int64_t n = mica_graph_type_count(&r->g.nodes[id].type, r->bound);
    for (int64_t i = 0; i < n; i++)
        x[i] = rig_uniform(r, -1, 1);
    return id;
}

void *rig_array(const rig *r, graph_id input) {
    return r->arrays[r->g.nodes[input].attr.input.slot];
}

graph_id rig_const(rig *r, const char *name, int64_t n, float **data) {
    float *x = rig_alloc(r, (size_t)n * sizeof(*x));
    for (int64_t i = 0; i < n; i++)
        x[i] = rig_uniform(r, -1, 1);
    if (data) *data = x;
    graph_dim dim = mica_dim(n);
    return mica_graph_const(&r->g, name, MICA_F32, 1, &dim, x);
}

static weight_matrix *new_matrix(rig *r, int64_t n_experts, int64_t n_out, int64_t n_in) {
    weight_matrix *m = rig_alloc(r, sizeof(*m));
    m->name = "w";
    m->n_experts = n_experts;
    m->n_out = n_out;
    m->n_in = n_in;
    return m;
}

static float *random_floats(rig *r, int64_t n, float scale) {
    float *x = rig_alloc(r, (size_t)n * sizeof(*x));
    for (int64_t i = 0; i < n; i++)
        x[i] = rig_uniform(r, -scale, scale);
    return x;
}

weight_matrix *rig_dense(rig *r, int64_t n_experts, int64_t n_out, int64_t n_in, float scale) {
    weight_matrix *m = new_matrix(r, n_experts, n_out, n_in);
    m->form.kind = WEIGHT_DENSE;
    m->form.dtype = MICA_F32;
    m->row_bytes = (size_t)n_in * sizeof(float);
    m->codes = (const uint8_t *)random_floats(r, n_experts * n_out * n_in, scale);
    return m;
}

weight_matrix *rig_affine(rig *r, int64_t n_out, int64_t n_in, unsigned bits) {
    weight_matrix *m = new_matrix(r, 1, n_out, n_in);
    m->form.kind = WEIGHT_AFFINE;
    m->form.bits = (uint8_t)bits;
    m->form.group = 32;
    m->form.scale = SCALE_F32;
    m->form.bias = BIAS_GROUP;
    m->row_bytes = (size_t)n_in * bits / 8;
    m->scale_bytes = (size_t)(n_in / 32) * sizeof(float);
    uint8_t *codes = rig_alloc(r, m->row_bytes * (size_t)n_out);
    for (size_t i = 0; i < m->row_bytes * (size_t)n_out; i++)
        codes[i] = (uint8_t)rig_random(r);
    m->codes = codes;
    m->scales = (const uint8_t *)random_floats(r, n_out * n_in / 32, 0.05f);
    m->biases = (const uint8_t *)random_floats(r, n_out * n_in / 32, 0.2f);
    return m;
}

graph_id rig_cache(rig *r, int32_t layer, const kv_layout *layout, int64_t n_blocks) {
    assert_true(layer < RIG_MAX);
    r->caches[layer] = rig_alloc(r, (size_t)n_blocks * layout->block_bytes);
    return mica_graph_cache(&r->g, layer, layout);
}

static void check(mica_status st, const mica_error *err) {
    if (st) fail_msg("%s: %s", mica_status_name(st), err->message);
}

void rig_compile(rig *r) {
    drop_compiled(r);
    mica_error err = {0};
    check(mica_graph_check(&r->g, &err), &err);
    check(mica_cpu_new(&r->backend, r->n_threads, r->mask, &err), &err);
    plan_options options = {.levers = r->levers, .no_reuse = r->no_reuse};
    memcpy(options.bound, r->bound, sizeof(options.bound));
    check(mica_plan_compile(&r->plan, &r->g, mica_cpu_target(r->backend), &options, &err), &err);
    check(mica_cpu_exec_new(&r->exec, r->backend, r->plan, &err), &err);
}

void rig_run(rig *r) {
    mica_error err = {0};
    plan_inputs in = {.arrays = r->arrays, .caches = r->caches};
    memcpy(in.sym, r->sym, sizeof(in.sym));
    check(mica_cpu_exec_run(r->exec, &in, &err), &err);
}

const float *rig_output(const rig *r, int i, int64_t *n) {
    assert_true(i < r->plan->n_outputs);
    if (n) *n = mica_graph_type_count(&r->plan->outputs[i].type, r->sym);
    return mica_cpu_exec_output(r->exec, i);
}

float *rig_keep(rig *r, int i, int64_t *n) {
    int64_t count;
    const float *out = rig_output(r, i, &count);
    size_t n_bytes = (size_t)count * mica_dtype_bytes(r->plan->outputs[i].type.dtype);
    float *copy = rig_alloc(r, n_bytes);
    memcpy(copy, out, n_bytes);
    if (n) *n = count;
    return copy;
}

int rig_count(const plan *p, graph_op op) {
    int n = 0;
    for (int32_t s = 0; s < p->n_steps; s++)
        n += p->steps[s].op == op;
    return n;
}

void rig_assert_close(const float *got, const double *want, int64_t n, double tolerance) {
    double largest = 0;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(want[i]));
    for (int64_t i = 0; i < n; i++) {
        if (fabs((double)got[i] - want[i]) <= tolerance * largest) continue;
        fail_msg("element %lld of %lld: got %.9g, want %.9g (largest %.9g)", (long long)i,
                 (long long)n, (double)got[i], want[i], largest);
    }
}

void rig_assert_same(const void *a, const void *b, size_t n_bytes) {
    const unsigned char *x = a, *y = b;
    for (size_t i = 0; i < n_bytes; i++) {
        if (x[i] != y[i]) fail_msg("byte %zu of %zu differs: %02x, %02x", i, n_bytes, x[i], y[i]);
    }
}
