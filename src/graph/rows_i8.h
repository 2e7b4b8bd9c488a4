/* rows_i8.h: rows quantized to int8, as OP_QUANTIZE_ROWS makes them for the matmuls that read them.
 *
 * A row of n elements, P = n rounded up to 128, takes rows_i8_bytes(n) bytes of a u8 tensor:
 *   codes   i8 [P]      x / step to the nearest integer, in [-127, 127]; zeros from n on
 *   scales  f32 [P/32]  step = largest |x| of 32 elements / 127; fine rows: step / 128
 *   sums    f32 [P/32]  scale * sum of 32 codes
 *   halves  f32 [P/16]  scale * sum of 16 codes
 *   counts  i32 [P/32]  -128 * sum of 32 codes: with it a dot begins whose other codes, being
 *                       unsigned, stand 128 above what they count
 *   half counts  i32 [P/16]  the same of 16 codes
 * A fine row goes on with i8 [P]: 128 * (x / step - code), rounded; what counts as its code in all
 * sums and products is 128 * code + this, of 15 bits.
 * 32 elements without a finite number above 1e-30 have zero codes and scale 0; if one of them is
 * infinite or not a number the scale is NaN, and so is what is made of it.
 */
#ifndef MICA_GRAPH_ROWS_I8_H
#define MICA_GRAPH_ROWS_I8_H

#include <stdbool.h>
#include <stdint.h>

#define ROWS_I8_GROUP 32
#define ROWS_I8_LEAST 1e-30f /* 127 / this is far from overflow */
#define ROWS_I8_FINE 128
#define ROWS_I8_ZERO 128

static inline int64_t rows_i8_padded(int64_t n) { return (n + 127) / 128 * 128; }
/* Byte offsets. */
static inline int64_t rows_i8_scales(int64_t n) { return rows_i8_padded(n); }
static inline int64_t rows_i8_sums(int64_t n) { return rows_i8_padded(n) / 8 * 9; }
static inline int64_t rows_i8_halves(int64_t n) { return rows_i8_padded(n) / 4 * 5; }
static inline int64_t rows_i8_counts(int64_t n) { return rows_i8_padded(n) / 2 * 3; }
static inline int64_t rows_i8_half_counts(int64_t n) { return rows_i8_padded(n) / 8 * 13; }
static inline int64_t rows_i8_rest(int64_t n) { return rows_i8_padded(n) / 8 * 15; }
static inline int64_t rows_i8_bytes(int64_t n, bool fine) {
    return rows_i8_padded(n) / 8 * (fine ? 23 : 15);
}
/* Which of the two a tensor of rows of `n_bytes` holds. */
static inline bool rows_i8_is_fine(int64_t n_bytes, int64_t n) {
    return n_bytes > rows_i8_bytes(n, false);
}

#endif
