/* math.c: the functions of scalar_math.h against libm in double, over all of f32 in steps.
 */
#include <math.h>

#include "backend/cpu/scalar_math.h"
#include "check.h"

typedef struct worst {
    const char *name;
    double limit, ulps;
    float at;
} worst;

static void compare(worst *w, float x, float got, double want) {
    float near = (float)want;
    double off;
    if (isinf(near) || isnan(near)) {
        off = got == near ? 0 : 1e9;
    } else {
        double ulp = (double)nextafterf(fabsf(near), INFINITY) - (double)fabsf(near);
        off = fabs((double)got - want) / ulp;
    }
    if (off > w->ulps) {
        w->ulps = off;
        w->at = x;
    }
}

static void compare_all(worst *w, float x) {
    float s, c;
    compare(&w[0], x, exp_f32(x), exp((double)x));
    compare(&w[1], x, tanh_f32(x), tanh((double)x));
    compare(&w[2], x, erf_f32(x), erf((double)x));
    if (x >= EXP_FUSED_LOWEST && x <= 88) compare(&w[6], x, exp_fused(x), exp((double)x));
    if (x >= 0 && x <= 1) compare(&w[3], x, log1p_f32(x), log1p((double)x));
    if (!(fabsf(x) <= 0x1p21f)) return;
    sin_cos_f32(x, &s, &c);
    compare(&w[4], x, s, sin((double)x));
    compare(&w[5], x, c, cos((double)x));
}

int check_math(void) {
    worst w[7] = {{"exp", 1.0, 0, 0},      {"tanh", 1.5, 0, 0},  {"erf", 1.5, 0, 0},
                  {"log1p", 2.0, 0, 0},    {"sin", 0.501, 0, 0}, {"cos", 0.501, 0, 0},
                  {"exp_fused", 1.0, 0, 0}};
    int n_failed = 0;
    for (uint64_t bits = 0; bits < 1ull << 32; bits += 5003) {
        float x = mica_bits_f32((uint32_t)bits);
        if (isnan(x)) continue;
        compare_all(w, x);
        compare_all(w, x / 16777216.0f * 100.0f - 5.0f); /* mostly ordinary numbers */
    }
    for (int i = 0; i < 7; i++) {
        bool ok = w[i].ulps <= w[i].limit;
        if (!ok)
            printf("math %s: off by %.3f ulp at %a; limit %.3f\n", w[i].name, w[i].ulps,
                   (double)w[i].at, w[i].limit);
        n_failed += !ok;
    }
    bool nan_ok = isnan(exp_f32(NAN)) && isnan(tanh_f32(NAN)) && isnan(erf_f32(NAN)) &&
                  isnan(exp_fused(NAN)) && exp_fused(-INFINITY) == 0.0f;
    if (!nan_ok) printf("math: NaN does not stay NaN\n");
    return n_failed + !nan_ok;
}
