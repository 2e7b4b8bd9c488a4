/* matmul_t.h: the product with a weight that is not turned, once for every ISA.
 *
 * out[r, i] = sum_o dy[r, o] * w[o, i], o ascending, one sum an output, as ref/matmul.c has it.
 * Unit: 16 rows. Weight rows are expanded 16 at a time and multiplied in tiles of rows and columns,
 * whose sums rest in memory between two such blocks.
 */
#ifndef MICA_BACKEND_CPU_VECTOR_MATMUL_T_H
#define MICA_BACKEND_CPU_VECTOR_MATMUL_T_H

#include "backend/cpu/vector/matmul.h"

enum { TURNED_ROWS = 16, TURNED_BLOCK = 16 };

static inline const char *declines_turned(const kernel_call *call) {
    if (!is_dense_row(&call->out)) return "the elements of a row do not lie side by side";
    return declines_weight(&call->src[1]);
}

static inline int64_t n_units_turned(const kernel_call *call) {
    return (operand_rows(&call->out) + TURNED_ROWS - 1) / TURNED_ROWS;
}

/* Scales of a weight row, expanded weight rows, sums, and a block of dy. */
static inline size_t scratch_turned(const kernel_call *call) {
    int64_t n_in = operand_width(&call->out);
    int64_t n = row_source_scratch(&call->src[1], n_in) +
                (TURNED_BLOCK + TURNED_ROWS) * padded(n_in) + TURNED_ROWS * TURNED_BLOCK;
    return (size_t)n * sizeof(float);
}

/* Adds n_w weight rows, n floats apart, times dy[r][o] to `n_columns` chunks of the sums of
 * V16_TILE_ROWS rows. */
static inline __attribute__((always_inline)) void
turned_tile(const float *dy, const float *w, int64_t n, int n_w, float *sums, int n_columns) {
    v16 acc[V16_TILE_ROWS][V16_TILE_OUTS];
#pragma GCC unroll 4
    for (int i = 0; i < V16_TILE_ROWS; i++)
#pragma GCC unroll 4
        for (int j = 0; j < n_columns; j++)
            acc[i][j] = v16_load(sums + i * n + 16 * j);
    for (int o = 0; o < n_w; o++)
#pragma GCC unroll 4
        for (int j = 0; j < n_columns; j++) {
            v16 wj = v16_load(w + o * n + 16 * j);
#pragma GCC unroll 4
            for (int i = 0; i < V16_TILE_ROWS; i++)
                acc[i][j] = v16_add(acc[i][j], v16_mul(v16_set(dy[i * TURNED_BLOCK + o]), wj));
        }
#pragma GCC unroll 4
    for (int i = 0; i < V16_TILE_ROWS; i++)
#pragma GCC unroll 4
        for (int j = 0; j < n_columns; j++)
            v16_store(sums + i * n + 16 * j, acc[i][j]);
}

static inline void turned_block(const float *dy, const float *w, int64_t n, int n_w, float *sums) {
    int64_t wide = 16 * V16_TILE_OUTS, c = 0;
    for (; c + wide <= n; c += wide)
        for (int r = 0; r < TURNED_ROWS; r += V16_TILE_ROWS)
            turned_tile(dy + r * TURNED_BLOCK, w + c, n, n_w, sums + r * n + c, V16_TILE_OUTS);
    for (; c < n; c += 16)
        for (int r = 0; r < TURNED_ROWS; r += V16_TILE_ROWS)
            turned_tile(dy + r * TURNED_BLOCK, w + c, n, n_w, sums + r * n + c, 1);
}

/* Columns [o, o + n_w) of rows [r, r + n_rows); rows past the last count as zeros. */
static inline void load_turned(const kernel_operand *x, int64_t r, int64_t n_rows, int64_t o,
                               int n_w, float *dy) {
    for (int64_t i = 0; i < TURNED_ROWS; i++)
        for (int k = 0; k < n_w; k++)
            dy[i * TURNED_BLOCK + k] =
                i < n_rows ? operand_load(x, operand_row(x, r + i) + (o + k) * operand_step(x))
                           : 0.0f;
}

static inline void store_turned(const kernel_operand *out, int64_t r, int64_t n_in,
                                const float *sums) {
    int64_t c = 0, first = operand_row(out, r);
    for (; c + 16 <= n_in; c += 16)
        v16_store_as(at_mut(out->data, out->dtype, first + c), out->dtype, v16_load(sums + c));
    if (c < n_in)
        v16_store_part(at_mut(out->data, out->dtype, first + c), out->dtype, n_in - c,
                       v16_load(sums + c));
}

static inline void run_turned(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    const kernel_operand *x = &call->src[0], *out = &call->out;
    int64_t n_in = operand_width(out), n = padded(n_in), n_out = operand_width(x);
    float *rows = scratch, *sums = rows + TURNED_BLOCK * n, *dy = sums + TURNED_ROWS * n;
    row_source source;
    row_source_init(&source, &call->src[1], n_in, dy + TURNED_ROWS * TURNED_BLOCK);
    for (int64_t u = begin; u < end; u++) {
        int64_t r = u * TURNED_ROWS, n_rows = operand_rows(out) - r;
        if (n_rows > TURNED_ROWS) n_rows = TURNED_ROWS;
        for (int64_t c = 0; c < TURNED_ROWS * n; c += 16)
            v16_store(sums + c, v16_zero());
        for (int64_t o = 0; o < n_out; o += TURNED_BLOCK) {
            int n_w = n_out - o < TURNED_BLOCK ? (int)(n_out - o) : TURNED_BLOCK;
            for (int k = 0; k < n_w; k++)
                row_expand(&source, o + k, rows + k * n);
            load_turned(x, r, n_rows, o, n_w, dy);
            turned_block(dy, rows, n, n_w, sums);
        }
        for (int64_t i = 0; i < n_rows; i++)
            store_turned(out, r + i, n_in, sums + i * n);
    }
}

#endif
