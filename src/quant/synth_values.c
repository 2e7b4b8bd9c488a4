/* synth_values.c: the values of a synthetic tensor, each a function of seed, name, row and column.
 *
 * Threefry is counter-based: any row can be made alone, in any order. A code of 0 becomes the zero
 * point, which leaves codes symmetric about it: were the mean of a matrix not 0, what all elements
 * of an activation share would grow by sqrt(n_in) times that mean with every layer.
 */
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "quant/synth_parts.h"

enum { SCALE_LEAST = 24, SCALE_SPREAD = 17 }; /* 24..40: mean 32, and below 64 for Q4_K */

static mica_rng_key key_of(const char *name, uint64_t seed, uint32_t what) {
    uint64_t hash = 0xCBF29CE484222325u; /* FNV-1a */
    for (const char *p = name; *p; p++)
        hash = (hash ^ (uint8_t)*p) * 0x100000001B3u;
    mica_rng_key key = mica_rng_key_from_seed(seed);
    mica_threefry(key, (uint32_t)hash ^ what, (uint32_t)(hash >> 32), &key.k0, &key.k1);
    return key;
}

/* The nearest of 1, 1.5, 2, 3, 4 ...: times an integer below 64 it has 8 significant bits, as many
 * as bf16 holds. */
static float two_bits(float x) {
    int exponent;
    float m = frexpf(x, &exponent); /* [0.5, 1) */
    m = m < 0.625f ? 0.5f : m < 0.875f ? 0.75f : 1.0f;
    return ldexpf(m, exponent);
}

synth_matrix mica_synth_matrix(const synth_tensor *t, int bits, int64_t group, uint64_t seed) {
    /* standard deviation of codes about the zero point M: (M-1)(2M-1)/6, squared */
    double half = (double)(1 << (bits - 1));
    double spread = sqrt((half - 1) * (2 * half - 1) / 6);
    float unit = (float)((double)t->size / spread / (SCALE_LEAST + SCALE_SPREAD / 2));
    return (synth_matrix){.codes = key_of(t->name, seed, 0),
                          .scales = key_of(t->name, seed, 1),
                          .bits = bits,
                          .n_in = t->n_in,
                          .group = group,
                          .unit = two_bits(unit)};
}

void mica_synth_codes(const synth_matrix *m, int64_t row, uint8_t *out) {
    const uint8_t mask = (uint8_t)((1 << m->bits) - 1), zero = (uint8_t)(1 << (m->bits - 1));
    for (int64_t i = 0; i < m->n_in; i += 8) {
        uint32_t words[2];
        mica_threefry(m->codes, (uint32_t)row, (uint32_t)(i / 8), &words[0], &words[1]);
        for (int k = 0; k < 8; k++) {
            uint8_t code = (uint8_t)(words[k / 4] >> (8 * (k % 4))) & mask;
            out[i + k] = code ? code : zero;
        }
    }
}

int mica_synth_scale(const synth_matrix *m, int64_t row, int64_t g) {
    uint32_t x, y;
    mica_threefry(m->scales, (uint32_t)row, (uint32_t)g, &x, &y);
    return SCALE_LEAST + (int)(x % SCALE_SPREAD);
}

float mica_synth_element(const synth_tensor *t, uint64_t seed, int64_t i) {
    uint32_t x, y;
    mica_threefry(key_of(t->name, seed, 0), (uint32_t)i, 0, &x, &y);
    float noise = (float)(x >> 8) * 0x1p-23f - 1.0f;
    return mica_round_to(t->size * (1.0f + 0.1f * noise) - t->offset, MICA_BF16);
}
