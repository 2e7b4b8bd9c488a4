/* group_i8.h: 32 elements of a row as codes and scales (graph/rows_i8.h). Include an i8 header
 * first.
 */
#ifndef MICA_BACKEND_CPU_VECTOR_GROUP_I8_H
#define MICA_BACKEND_CPU_VECTOR_GROUP_I8_H

#include "backend/cpu/operand.h"
#include "graph/rows_i8.h"

static inline void i8_put(uint8_t *p, int64_t i, float x) { memcpy(p + 4 * i, &x, 4); }

/* The codes of 32 elements; their scale. */
static inline float i8_quantize_group(const float *x, uint8_t *codes, uint8_t *rest, int sums[2]) {
    uint32_t most = i8_largest_bits(x);
    float largest = mica_bits_f32(most);
    if (most < 0x7F800000u && largest > ROWS_I8_LEAST) {
        i8_round_group(x, 127.0f / largest, codes, rest, sums);
        return largest / (rest ? 127.0f * (float)ROWS_I8_FINE : 127.0f);
    }
    memset(codes, 0, ROWS_I8_GROUP);
    if (rest) memset(rest, 0, ROWS_I8_GROUP);
    return most < 0x7F800000u ? 0.0f : mica_bits_f32(0x7FC00000u);
}

/* x[0..32) as group g of a row of n elements. */
static inline void i8_quantize_at(const float *x, int64_t g, int64_t n, bool fine, uint8_t *row) {
    int64_t first = g * ROWS_I8_GROUP;
    int sums[2] = {0, 0};
    float scale =
        i8_quantize_group(x, row + first, fine ? row + rows_i8_rest(n) + first : NULL, sums);
    i8_put(row + rows_i8_scales(n), g, scale);
    i8_put(row + rows_i8_sums(n), g, scale * (float)(sums[0] + sums[1]));
    i8_put(row + rows_i8_halves(n), 2 * g, scale * (float)sums[0]);
    i8_put(row + rows_i8_halves(n), 2 * g + 1, scale * (float)sums[1]);
    const int32_t counts[3] = {-ROWS_I8_ZERO * (sums[0] + sums[1]), -ROWS_I8_ZERO * sums[0],
                               -ROWS_I8_ZERO * sums[1]};
    memcpy(row + rows_i8_counts(n) + 4 * g, counts, 4);
    memcpy(row + rows_i8_half_counts(n) + 8 * g, counts + 1, 8);
}

#endif
