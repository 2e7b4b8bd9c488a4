/* check.h: the kernel check: random calls, every variant against the reference, the reference
 * against plain computations in double.
 *
 * A case is a kernel_call with its own guarded memory. Reading past an input ends in a fault,
 * writing outside an output is found by comparing what surrounds it.
 */
#ifndef MICA_TESTS_KERNELS_CHECK_H
#define MICA_TESTS_KERNELS_CHECK_H

#include <stdio.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/operand.h"

typedef struct check_rng {
    uint64_t state;
} check_rng;

uint64_t check_random(check_rng *rng);
int64_t check_below(check_rng *rng, int64_t n);                /* [0, n) */
int64_t check_between(check_rng *rng, int64_t lo, int64_t hi); /* [lo, hi] */
double check_uniform(check_rng *rng);                          /* [-1, 1) */

/* Memory that ends where a page begins that nobody may touch. */
typedef struct guarded {
    uint8_t *data;
    size_t n_bytes;
    void *pages;
    size_t page_bytes;
} guarded;

#define CHECK_MAX_BUFFERS 32

typedef enum check_layout { CHECK_ANY, CHECK_ROWS, CHECK_PANELS } check_layout;

typedef struct check_case check_case;
struct check_case {
    kernel_call call;
    graph_attr attr;
    weight_matrix matrix[2];
    guarded buffers[CHECK_MAX_BUFFERS];
    int n_buffers;
    guarded out;     /* holds the output operand, and what lies between its rows */
    uint8_t *effect; /* memory that an effect changes: a cache, states; NULL: none */
    size_t effect_bytes;
    check_rng rng;
    bool specials;       /* infinities and NaN may be among the inputs */
    bool plain;          /* ordinary numbers only: subnormal ones are slow to compute with */
    int index;           /* of the case: picks forms and dtypes in turn */
    check_layout panels; /* whether the rows of weights lie in panels */
    /* Whether element i of an output row has a defined value; NULL: all have. */
    bool (*is_set)(const check_case *c, int64_t row, int64_t i);
};

/* ---- building cases (memory.c, values.c) ---- */
void *check_memory(check_case *c, size_t n_bytes); /* guarded; freed with the case */
void check_free(check_case *c);
/* Random finite floats of the case's style: ordinary, large, tiny, with zeros. */
void check_fill_floats(check_case *c, void *p, mica_dtype t, int64_t n);
mica_dtype check_float_dtype(check_case *c);
/* An operand of the given dims with random strides (rows may have gaps) and random content. */
void check_operand(check_case *c, int i, mica_dtype t, int n_dims, const int64_t *dims);
int32_t *check_operand_i32(check_case *c, int i, int n_dims, const int64_t *dims);
void check_output(check_case *c, mica_dtype t, int n_dims, const int64_t *dims);
/* A weight in source i: a random form, or (sometimes) a dense operand. *n_in is rounded to what
 * the form needs. n_experts 0: a plain matrix. */
void check_weight(check_case *c, int i, int slot, int64_t n_experts, int64_t n_out, int64_t *n_in);
/* Rows grouped by expert as source i, and the attributes that go with them. */
void check_groups(check_case *c, int i, int64_t n_experts, int64_t rows, int64_t k);
/* Quantized rows as source 0 (cases_i8.c), and whether form i can be multiplied by them. */
void check_rows_i8(check_case *c, int64_t n_rows, int64_t n, bool fine);
bool check_form_takes_i8(int i);
/* Tiles of bf16 for n_rows rows of n elements as source 0. */
void check_tiles(check_case *c, int64_t n_rows, int64_t n);
int check_form_count(void);
void check_form_at(int i, weight_form *form);
int64_t check_form_unit(const weight_form *form); /* n_in must be a multiple */

/* ---- ops (cases_*.c) ---- */
typedef struct check_op {
    const char *name;
    graph_op op;
    int n_cases; /* for a normal run */
    void (*make)(check_case *c);
    /* Expected values and how far the reference may be from them, both [elements of out]; NULL:
     * the op moves or orders only, or another file checks it. */
    void (*truth)(const check_case *c, double *want, double *bound);
} check_op;

extern const check_op check_ops_dense[];
extern const int check_n_ops_dense;
extern const check_op check_ops_attention[];
extern const int check_n_ops_attention;
extern const check_op check_ops_i8[];
extern const int check_n_ops_i8;
extern const check_op check_ops_layers[];
extern const int check_n_ops_layers;
extern const check_op check_ops_recurrent[];
extern const int check_n_ops_recurrent;

/* Runs the op's reference on a call. */
void check_run_reference(const kernel_call *call);

static inline double check_at(const kernel_operand *o, int64_t row, int64_t i) {
    return (double)operand_load(o, operand_row(o, row) + i * operand_step(o));
}
/* Element i of a weight row in double; *size: |scale * code| + |bias|, which bounds its error. */
double check_weight_at(const kernel_operand *w, int64_t row, int64_t i, double *size);

/* act(gate) * up and its bound, given how far gate and up may be off before they are rounded. */
void check_glu_truth(const check_case *c, double gate, double gate_bound, double up,
                     double up_bound, double *want, double *bound);

/* Half an ulp of T relative to the value, and the least absolute error. */
double check_rounding(mica_dtype t, double value);
#define CHECK_U 5.9604644775390625e-8 /* 2^-24: half an ulp of f32, relative */

/* ---- whole checks; the number of failures ---- */
int check_math(void);    /* scalar_math.h against libm (math.c) */
int check_vectors(void); /* docs/numerics.md 7 (vectors.c) */
int check_bench(const cpu_table *table, const char *filter, const char *isa); /* bench.c */

#endif
