/* lanes.h: the sum of products that every exact kernel uses (docs/design.md 3).
 *
 * Element i goes to partial sum i mod 16: multiply, then add, each rounded. The 16 sums are joined
 * by a fixed tree: lane i + lane i+8, then +4, +2, +1. A vector of zeros may be added to the sums
 * without changing them, since a sum that starts at +0 never becomes -0.
 */
#ifndef MICA_BACKEND_CPU_LANES_H
#define MICA_BACKEND_CPU_LANES_H

#include <stdint.h>

#define N_LANES 16

static inline float lanes_join(const float lanes[N_LANES]) {
    float s[8];
    for (int i = 0; i < 8; i++)
        s[i] = lanes[i] + lanes[i + 8];
    for (int i = 0; i < 4; i++)
        s[i] = s[i] + s[i + 4];
    float a = s[0] + s[2], b = s[1] + s[3];
    return a + b;
}

static inline float lanes_dot(const float *a, const float *b, int64_t n) {
    float lanes[N_LANES] = {0};
    for (int64_t i = 0; i < n; i++) {
        float product = a[i] * b[i];
        lanes[i % N_LANES] += product;
    }
    return lanes_join(lanes);
}

static inline float lanes_sum(const float *a, int64_t n) {
    float lanes[N_LANES] = {0};
    for (int64_t i = 0; i < n; i++)
        lanes[i % N_LANES] += a[i];
    return lanes_join(lanes);
}

#endif
