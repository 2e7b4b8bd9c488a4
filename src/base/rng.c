/* rng.c: Threefry-2x32 with 20 rounds and the sequences that JAX derives from it. */
#include "base/rng.h"

static uint32_t rotl(uint32_t x, unsigned n) { return x << n | x >> (32 - n); }

void mica_threefry(mica_rng_key key, uint32_t c0, uint32_t c1, uint32_t *x, uint32_t *y) {
    static const unsigned rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    const uint32_t ks[3] = {key.k0, key.k1, key.k0 ^ key.k1 ^ 0x1BD11BDAu};
    uint32_t a = c0 + ks[0], b = c1 + ks[1];
    for (unsigned i = 0; i < 5; i++) {
        for (unsigned j = 0; j < 4; j++) {
            a += b;
            b = rotl(b, rotations[i % 2][j]) ^ a;
        }
        a += ks[(i + 1) % 3];
        b += ks[(i + 2) % 3] + i + 1;
    }
    *x = a;
    *y = b;
}

mica_rng_key mica_rng_key_from_seed(uint64_t seed) {
    return (mica_rng_key){(uint32_t)(seed >> 32), (uint32_t)seed};
}

/* The counters 0..n-1 are cut into two halves (the second padded with a 0 when n is odd); pair i of
 * the halves gives word i and, from its second output, the word in the same place of the second. */
uint32_t mica_rng_word(mica_rng_key key, size_t n, size_t i) {
    size_t half = n / 2 + n % 2;
    size_t j = i < half ? i : i - half;
    size_t second = half + j < n ? half + j : 0;
    uint32_t x, y;
    mica_threefry(key, (uint32_t)j, (uint32_t)second, &x, &y);
    return i < half ? x : y;
}

float mica_rng_uniform(mica_rng_key key, size_t n, size_t i) {
    float u = (float)mica_rng_word(key, n, i) * 0x1p-32f;
    return u < 0x1.fffffep-1f ? u : 0x1.fffffep-1f; /* 1 - 2^-24 */
}

mica_rng_key mica_rng_step_key(uint64_t seed, uint64_t step) {
    return mica_rng_key_from_seed(seed ^ (step + 1) * 0x9E3779B97F4A7C15u);
}

mica_rng_key mica_rng_split(mica_rng_key key, size_t m, size_t i) {
    return (mica_rng_key){mica_rng_word(key, 2 * m, 2 * i), mica_rng_word(key, 2 * m, 2 * i + 1)};
}
