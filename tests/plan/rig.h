/* rig.h: runs small graphs: inputs with random contents, plan, executor, outputs.
 *
 * A test builds into rig.g with the graph's own builders, takes inputs and weights from here, and
 * gets copies of the outputs. Everything is freed by rig_deinit.
 */
#ifndef MICA_TESTS_RIG_H
#define MICA_TESTS_RIG_H

#include "backend/cpu/cpu.h"
#include "cmocka_base.h"

enum { RIG_MAX = 64 };

typedef struct rig {
    graph g;
    int64_t bound[GRAPH_N_SYMS], sym[GRAPH_N_SYMS];
    void *arrays[RIG_MAX]; /* by slot */
    void *caches[RIG_MAX]; /* by layer */
    void *owned[4 * RIG_MAX];
    int n_owned;
    uint64_t state;
    /* how to compile and run */
    lever_set levers;
    bool no_reuse;
    int n_threads;
    const char *mask; /* "ref" unless changed */
    /* of the last compile */
    cpu_backend *backend;
    plan *plan;
    cpu_exec *exec;
} rig;

/* Row counts start at their bounds. */
void rig_init(rig *r, int64_t rows, int64_t logits, int64_t seqs);
void rig_deinit(rig *r);

uint64_t rig_random(rig *r);                   /* 64 bits */
float rig_uniform(rig *r, float lo, float hi); /* a float in [lo, hi) */
void *rig_alloc(rig *r, size_t n_bytes);       /* zeroed, 64-byte aligned, freed with the rig */

/* Inputs with storage for the bounds; f32: uniform in [-1, 1). */
graph_id rig_f32(rig *r, const char *name, int n_dims, const graph_dim *dims);
graph_id rig_input(rig *r, const char *name, mica_dtype dtype, int n_dims, const graph_dim *dims);
void *rig_array(const rig *r, graph_id input);
/* A constant and a dense weight of f32, uniform in [-scale, scale). */
graph_id rig_const(rig *r, const char *name, int64_t n, float **data);
weight_matrix *rig_dense(rig *r, int64_t n_experts, int64_t n_out, int64_t n_in, float scale);
/* Affine codes of `bits` in groups of 32 with f32 scales and biases. */
weight_matrix *rig_affine(rig *r, int64_t n_out, int64_t n_in, unsigned bits);
/* Room for n_blocks blocks of a layer. */
graph_id rig_cache(rig *r, int32_t layer, const kv_layout *layout, int64_t n_blocks);

/* Compiles and makes an executor, freeing the ones before; fails the test on an error. */
void rig_compile(rig *r);
/* Runs the compiled plan with rig.sym. */
void rig_run(rig *r);
/* Output i of the last run: its address and number of elements. */
const float *rig_output(const rig *r, int i, int64_t *n);
/* A copy of it, freed with the rig. */
float *rig_keep(rig *r, int i, int64_t *n);

int rig_count(const plan *p, graph_op op);
/* |got - want| <= tolerance * the largest |want|, for all. */
void rig_assert_close(const float *got, const double *want, int64_t n, double tolerance);
void rig_assert_same(const void *a, const void *b, size_t n_bytes);

#endif
