/* kernel.h: what a CPU kernel is: a record with its work division and its function.
 *
 * A kernel sees operands with pointers, sizes and strides, never a model, a sequence or a file. Its
 * work is cut into units that threads take as they come; the result must not depend on who computes
 * which unit, nor on how many rows share the step.
 */
#ifndef MICA_BACKEND_CPU_KERNEL_H
#define MICA_BACKEND_CPU_KERNEL_H

#include "graph/graph.h"

/* Dimensions are the actual ones of this run. Unused operands have data = NULL and n_dims = 0. A
 * weight has `matrix`; a cache has `data` = base of block 0. */
typedef struct kernel_operand {
    void *data;
    mica_dtype dtype;
    int n_dims;
    int64_t dim[GRAPH_MAX_DIMS];
    int64_t stride[GRAPH_MAX_DIMS]; /* elements */
    const weight_matrix *matrix;
    const int32_t *rows; /* of the first dimension row r is rows[r]; NULL: r itself */
} kernel_operand;

typedef struct kernel_call {
    graph_op op;
    kernel_operand out;
    kernel_operand src[GRAPH_MAX_SRC];
    int n_src;
    const graph_attr *attr;
    int n_threads; /* that share the units; sizes of units may depend on it, results do not */
} kernel_call;

typedef enum cpu_isa {
    ISA_REF,
    ISA_AVX2,
    ISA_AVX512,
    ISA_AVX512VNNI,
    ISA_AMX,
    ISA_NEON,
    ISA_DOTPROD,
    ISA_I8MM,
    ISA_N
} cpu_isa;

typedef struct cpu_kernel {
    const char *name; /* "matmul_avx2" */
    graph_op op;
    cpu_isa isa;
    /* NULL: takes the call; else why not, a constant string. Looks at types, forms and attributes
     * only: never at row counts or pointers. */
    const char *(*declines)(const kernel_call *call);
    int64_t (*n_units)(const kernel_call *call);
    /* Units [begin, end); scratch has scratch_bytes(call at the bounds) bytes, 64-byte aligned, its
     * own for each thread; NULL when scratch_bytes is NULL. */
    void (*run)(const kernel_call *call, int64_t begin, int64_t end, void *scratch);
    size_t (*scratch_bytes)(const kernel_call *call);
} cpu_kernel;

/* The tables: one array per family file, listed in dispatch.c. */
#define MICA_DECLARE_KERNELS(family)                 \
    extern const cpu_kernel mica_kernels_##family[]; \
    extern const int mica_n_kernels_##family

#endif
