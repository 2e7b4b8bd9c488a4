/* rng.h: Threefry-2x32 with 20 rounds, a counter-based generator: the same key gives the same
 * numbers on every machine, in any order. (Salmon et al. 2011; docs/numerics.md.)
 */
#ifndef MICA_BASE_RNG_H
#define MICA_BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

typedef struct mica_rng_key {
    uint32_t k0, k1;
} mica_rng_key;

void mica_threefry(mica_rng_key key, uint32_t c0, uint32_t c1, uint32_t *x, uint32_t *y);
/* High 32 bits first. */
mica_rng_key mica_rng_key_from_seed(uint64_t seed);
/* Word i of words(key, n), as in JAX's random_bits. */
uint32_t mica_rng_word(mica_rng_key key, size_t n, size_t i);
/* uniform(key, n)[i] in [0, 1 - 2^-24]. */
float mica_rng_uniform(mica_rng_key key, size_t n, size_t i);
/* The key of generated token `step` (0 first): key(seed ^ ((step+1) * 0x9E3779B97F4A7C15)). */
mica_rng_key mica_rng_step_key(uint64_t seed, uint64_t step);
/* Row i of split(key, m). */
mica_rng_key mica_rng_split(mica_rng_key key, size_t m, size_t i);

#endif
