/* rows_bf16.h: rows rounded to bf16, as OP_TILE_ROWS makes them for the matmuls that read them.
 *
 * R rows of n elements, n a multiple of 64, are bf16 [R + 15, n]: B = ceil(R / 16) blocks of 16
 * rows and zeros behind them. Of each 64 elements those at 0, 4, .. 60, then 1, 5, .. 61 are the
 * places of one step, those at 2, 6, .. 62, then 3, 7, .. 63 of the next: so codes of four bits
 * come out of their bytes without being moved. Places are cut into pieces of 512, so that all rows
 * of a piece lie side by side:
 *   [piece][block][step of the piece][pair of places, 16][row, 16][2]
 *
 * Rows grouped by expert (expert_groups.h) are such a matrix for each active expert, one after the
 * other, of the rows of its pairs; P pairs and E experts need at most P + 15 E rows.
 */
#ifndef MICA_GRAPH_ROWS_BF16_H
#define MICA_GRAPH_ROWS_BF16_H

#include <stdint.h>

#define ROWS_BF16_UNIT 64
#define ROWS_BF16_STEP 32
#define ROWS_BF16_PIECE 512

/* Place of element i. */
static inline int64_t rows_bf16_place(int64_t i) {
    return i / 64 * 64 + i % 4 / 2 * 32 + i % 2 * 16 + i % 64 / 4;
}

/* Places of the piece that begins at `first`. */
static inline int64_t rows_bf16_width(int64_t first, int64_t n) {
    return n - first < ROWS_BF16_PIECE ? n - first : ROWS_BF16_PIECE;
}

/* Where the places of rows [16 * block, 16 * block + 16) of that piece begin. */
static inline int64_t rows_bf16_block(int64_t block, int64_t first, int64_t n, int64_t n_blocks) {
    return 16 * (first * n_blocks + block * rows_bf16_width(first, n));
}

/* Where place p of row r is. */
static inline int64_t rows_bf16_at(int64_t r, int64_t p, int64_t n, int64_t n_blocks) {
    int64_t first = p / ROWS_BF16_PIECE * ROWS_BF16_PIECE, step = (p - first) / ROWS_BF16_STEP;
    return rows_bf16_block(r / 16, first, n, n_blocks) + 512 * step + p % 32 / 2 * 32 + r % 16 * 2 +
           p % 2;
}

#endif
