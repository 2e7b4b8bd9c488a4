/* rows_i8.h: how 32 elements, and a row, become codes and scales; shared by the references that
 * write quantized rows.
 */
#ifndef MICA_BACKEND_CPU_REF_ROWS_I8_H
#define MICA_BACKEND_CPU_REF_ROWS_I8_H

#include <math.h>

#include "backend/cpu/operand.h"
#include "graph/rows_i8.h"

static inline void round_group(const float *x, int64_t n, float inverse, uint8_t *codes,
                               uint8_t *rest, int sums[2]) {
    for (int64_t i = 0; i < n; i++) {
        float scaled = x[i] * inverse, code = nearbyintf(scaled);
        codes[i] = (uint8_t)(int8_t)code;
        sums[i / 16] += (rest ? ROWS_I8_FINE : 1) * (int)code;
        if (!rest) continue;
        int left = (int)nearbyintf((scaled - code) * (float)ROWS_I8_FINE);
        rest[i] = (uint8_t)(int8_t)left;
        sums[i / 16] += left;
    }
}

static inline float quantize_group(const float *x, int64_t n, uint8_t *codes, uint8_t *rest,
                                   int sums[2]) {
    uint32_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t u = mica_f32_bits(x[i]) & 0x7FFFFFFFu;
        if (u > most) most = u;
    }
    float largest = mica_bits_f32(most);
    if (most >= 0x7F800000u) return mica_bits_f32(0x7FC00000u);
    if (!(largest > ROWS_I8_LEAST)) return 0.0f;
    round_group(x, n, 127.0f / largest, codes, rest, sums);
    return largest / (rest ? 127.0f * (float)ROWS_I8_FINE : 127.0f);
}

static inline void put(uint8_t *at, int64_t i, float x) { memcpy(at + 4 * i, &x, 4); }

static inline void put_count(uint8_t *at, int64_t i, int sum) {
    int32_t count = -ROWS_I8_ZERO * sum;
    memcpy(at + 4 * i, &count, 4);
}

/* Group g of a row of n elements, of which x has those from 32 g on; all of its 32 places. */
static inline void quantize_group_at(const float *x, int64_t g, int64_t n, bool fine,
                                     uint8_t *row) {
    int64_t first = g * ROWS_I8_GROUP, left = n - first;
    int sums[2] = {0, 0};
    uint8_t *rest = fine ? row + rows_i8_rest(n) + first : NULL;
    memset(row + first, 0, ROWS_I8_GROUP);
    if (rest) memset(rest, 0, ROWS_I8_GROUP);
    float scale =
        quantize_group(x, left < ROWS_I8_GROUP ? left : ROWS_I8_GROUP, row + first, rest, sums);
    put(row + rows_i8_scales(n), g, scale);
    put(row + rows_i8_sums(n), g, scale * (float)(sums[0] + sums[1]));
    put_count(row + rows_i8_counts(n), g, sums[0] + sums[1]);
    for (int h = 0; h < 2; h++) {
        put(row + rows_i8_halves(n), 2 * g + h, scale * (float)sums[h]);
        put_count(row + rows_i8_half_counts(n), 2 * g + h, sums[h]);
    }
}

static inline void quantize_row(const float *x, int64_t n, bool fine, uint8_t *row) {
    memset(row, 0, (size_t)rows_i8_bytes(n, fine));
    for (int64_t g = 0; g * ROWS_I8_GROUP < n; g++)
        quantize_group_at(x + g * ROWS_I8_GROUP, g, n, fine, row);
}

#endif
