/* values.c: random numbers, and random contents that reach the corners of float arithmetic.
 */
#include <math.h>

#include "check.h"

uint64_t check_random(check_rng *rng) { /* splitmix64 */
    uint64_t z = (rng->state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

int64_t check_below(check_rng *rng, int64_t n) {
    return (int64_t)(check_random(rng) % (uint64_t)n);
}

int64_t check_between(check_rng *rng, int64_t lo, int64_t hi) {
    return lo + check_below(rng, hi - lo + 1);
}

double check_uniform(check_rng *rng) { return (double)(check_random(rng) >> 11) * 0x1p-52 - 1.0; }

static float special_value(check_rng *rng) {
    static const float values[] = {INFINITY, -INFINITY, NAN, -0.0f, 3.4e38f, -3.4e38f, 1e-45f};
    return values[check_below(rng, 7)];
}

/* One style for a whole array: most are ordinary; some are all tiny (subnormal products), large,
 * or mostly zeros. */
void check_fill_floats(check_case *c, void *p, mica_dtype t, int64_t n) {
    int style = c->plain ? 11 : (int)check_below(&c->rng, 12);
    double size = style == 0 ? 1e-20 : style == 1 ? 1e4 : style == 2 ? 1e-38 : 1.0;
    for (int64_t i = 0; i < n; i++) {
        double v = (check_uniform(&c->rng) + check_uniform(&c->rng)) * size;
        if (style == 3 && check_below(&c->rng, 8)) v = 0.0;
        float f = (float)v;
        if (c->specials && check_below(&c->rng, 40) == 0) f = special_value(&c->rng);
        mica_store_f(p, t, (size_t)i, f);
    }
}

mica_dtype check_float_dtype(check_case *c) {
    static const mica_dtype types[] = {MICA_F32, MICA_BF16, MICA_F16};
    return types[check_below(&c->rng, 3)];
}

double check_rounding(mica_dtype t, double value) {
    double rel = t == MICA_F32 ? 0x1p-24 : t == MICA_F16 ? 0x1p-11 : 0x1p-8;
    double least = t == MICA_F32 ? 0x1p-150 : t == MICA_F16 ? 0x1p-25 : 0x1p-134;
    return fabs(value) * rel + least;
}
