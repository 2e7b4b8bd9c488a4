/* scalar_math.h: exp, tanh, erf, log1p and sin/cos for every exact kernel (docs/design.md 3).
 *
 * One fixed sequence of f32 multiplications, additions and divisions each, without fused
 * multiply-add, so that a SIMD version that repeats it lane by lane gives the same bits on every
 * ISA. The coefficients are minimax fits in the range that stands beside them. Measured against
 * libm in double (tests/kernels/math.c): exp 1 ulp, tanh, erf and log1p 2 ulp, sin and cos 1 ulp.
 */
#ifndef MICA_BACKEND_CPU_SCALAR_MATH_H
#define MICA_BACKEND_CPU_SCALAR_MATH_H

#include <math.h>

#include "base/dtype.h"

#define EXP_HIGHEST 89.0f    /* exp is infinite from 88.73 */
#define EXP_LOWEST (-104.0f) /* and 0 below -103.98 */
#define EXP_LOG2E 1.44269502f
#define EXP_LN2_HI 0.693145752f /* 15 bits: the product with any exponent is exact */
#define EXP_LN2_LO 1.42860677e-6f
#define EXP_C2 0.49999994f /* (e^r - 1 - r)/r^2 for |r| <= ln(2)/2 */
#define EXP_C3 0.1666652f
#define EXP_C4 0.041668393f
#define EXP_C5 0.008368781f
#define EXP_C6 0.0013814467f
#define ROUND_MAGIC 12582912.0f /* 1.5 * 2^23: adding it rounds to an integer, ties to even */

/* e^x = 2^n * e^r. 2^n comes in two factors, so that results below 2^-126 are rounded once. */
static inline float exp_f32(float x) {
    x = EXP_HIGHEST < x ? EXP_HIGHEST : x; /* written so that NaN passes */
    x = EXP_LOWEST > x ? EXP_LOWEST : x;
    float t = x * EXP_LOG2E + ROUND_MAGIC;
    float n = t - ROUND_MAGIC;
    int32_t k = (int32_t)(mica_f32_bits(t) - mica_f32_bits(ROUND_MAGIC));
    float r = x - n * EXP_LN2_HI;
    r = r - n * EXP_LN2_LO;
    float p = EXP_C6 * r + EXP_C5;
    p = p * r + EXP_C4;
    p = p * r + EXP_C3;
    p = p * r + EXP_C2;
    p = p * (r * r) + r;
    p = p + 1.0f;
    int32_t half = k >> 1;
    float s1 = mica_bits_f32((uint32_t)(half + 127) << 23);
    float s2 = mica_bits_f32((uint32_t)(k - half + 127) << 23);
    return p * s1 * s2;
}

/* e^x with fused multiply-adds, for kernels of the fast profile and x <= 88: within an ulp, and 0
 * below EXP_FUSED_LOWEST. The magic number's last bits are the exponent's bias, so that n comes out
 * as the bits of 2^n. */
#define EXP_FUSED_LOWEST (-86.0f)
#define EXP_FUSED_MAGIC 12583039.0f /* ROUND_MAGIC + 127 */
static inline float exp_fused(float x) {
    float t = fmaf(x, EXP_LOG2E, EXP_FUSED_MAGIC);
    float n = t - EXP_FUSED_MAGIC;
    float r = fmaf(n, -EXP_LN2_HI, x);
    r = fmaf(n, -EXP_LN2_LO, r);
    float p = fmaf(EXP_C6, r, EXP_C5);
    p = fmaf(p, r, EXP_C4);
    p = fmaf(p, r, EXP_C3);
    p = fmaf(p, r, EXP_C2);
    p = fmaf(p, r, 1.0f);
    p = fmaf(p, r, 1.0f);
    float y = p * mica_bits_f32(mica_f32_bits(t) << 23);
    return x < EXP_FUSED_LOWEST ? 0.0f : y;
}

#define TANH_SPLIT 0.625f
#define TANH_C0 (-0.3333328f) /* (tanh(x)/x - 1)/x^2 in x^2, |x| <= 0.625 */
#define TANH_C1 0.13331442f
#define TANH_C2 (-0.053739715f)
#define TANH_C3 0.020639086f
#define TANH_C4 (-0.005704987f)

static inline float tanh_f32(float x) {
    float a = mica_bits_f32(mica_f32_bits(x) & 0x7FFFFFFFu);
    float z = x * x;
    float p = TANH_C4 * z + TANH_C3;
    p = p * z + TANH_C2;
    p = p * z + TANH_C1;
    p = p * z + TANH_C0;
    float small = x + x * (z * p);
    float large = 1.0f - 2.0f / (exp_f32(a + a) + 1.0f);
    large = mica_bits_f32(mica_f32_bits(large) | (mica_f32_bits(x) & 0x80000000u));
    return a < TANH_SPLIT ? small : large;
}

#define ERF_C0 0.12837917f /* erf(x)/x - 1 in x^2, |x| <= 1 */
#define ERF_C1 (-0.37612626f)
#define ERF_C2 0.112835854f
#define ERF_C3 (-0.026853813f)
#define ERF_C4 0.0051883277f
#define ERF_C5 (-0.00080101937f)
#define ERF_C6 7.8538615e-05f
#define ERF_END 4.0f             /* 1 - erf(4) is a quarter of an ulp */
#define ERF_D0 (-0.00018803679f) /* -ln(1 - erf(x)), 1 <= x <= 4 */
#define ERF_D1 1.1295784f
#define ERF_D2 0.6332199f
#define ERF_D3 0.10841855f
#define ERF_D4 (-0.02520824f)
#define ERF_D5 0.004204556f
#define ERF_D6 (-0.00044133523f)
#define ERF_D7 2.1686757e-05f

static inline float erf_f32(float x) {
    float a = mica_bits_f32(mica_f32_bits(x) & 0x7FFFFFFFu);
    float z = x * x;
    float p = ERF_C6 * z + ERF_C5;
    p = p * z + ERF_C4;
    p = p * z + ERF_C3;
    p = p * z + ERF_C2;
    p = p * z + ERF_C1;
    p = p * z + ERF_C0;
    float small = x + x * p;
    float c = ERF_END < a ? ERF_END : a;
    float q = ERF_D7 * c + ERF_D6;
    q = q * c + ERF_D5;
    q = q * c + ERF_D4;
    q = q * c + ERF_D3;
    q = q * c + ERF_D2;
    q = q * c + ERF_D1;
    q = q * c + ERF_D0;
    float large = 1.0f - exp_f32(-q);
    large = mica_bits_f32(mica_f32_bits(large) | (mica_f32_bits(x) & 0x80000000u));
    return a < 1.0f ? small : large;
}

#define LOG1P_C0 0.33333337f /* (atanh(s)/s - 1)/s^2 in s^2, s <= 1/3 */
#define LOG1P_C1 0.19999439f
#define LOG1P_C2 0.14308442f
#define LOG1P_C3 0.10713829f
#define LOG1P_C4 0.121504664f

/* For 0 <= x <= 1 only: ln(1 + x) = 2 atanh(x / (2 + x)). */
static inline float log1p_f32(float x) {
    float s = x / (2.0f + x);
    float z = s * s;
    float p = LOG1P_C4 * z + LOG1P_C3;
    p = p * z + LOG1P_C2;
    p = p * z + LOG1P_C1;
    p = p * z + LOG1P_C0;
    float d = s + s;
    return d + d * (z * p);
}

/* sin and cos of an angle with |x| < 2^21 or so, in double after a reduction by pi/2 in two parts
 * (the first has 33 bits, so its product with the quadrant is exact). Taylor series: the first
 * term left out is below 2^-44. Angles are made once for a row: their speed does not matter. */
static inline void sin_cos_f32(float x, float *sin_out, float *cos_out) {
    const double magic = 6755399441055744.0; /* 1.5 * 2^52 */
    double t = (double)x * 0.63661977236758134308 + magic;
    double k = t - magic;
    double r = ((double)x - k * 1.57079632673412561417) - k * 6.07710050650619224932e-11;
    double z = r * r;
    double s = 1.0 / 6227020800.0;
    s = s * z - 1.0 / 39916800.0;
    s = s * z + 1.0 / 362880.0;
    s = s * z - 1.0 / 5040.0;
    s = s * z + 1.0 / 120.0;
    s = s * z - 1.0 / 6.0;
    s = r + r * (z * s);
    double c = -1.0 / 87178291200.0;
    c = c * z + 1.0 / 479001600.0;
    c = c * z - 1.0 / 3628800.0;
    c = c * z + 1.0 / 40320.0;
    c = c * z - 1.0 / 720.0;
    c = c * z + 1.0 / 24.0;
    c = c * z - 0.5;
    c = 1.0 + z * c;
    uint64_t bits;
    memcpy(&bits, &t, 8);
    double sine = bits & 1u ? c : s, cosine = bits & 1u ? s : c;
    *sin_out = (float)(bits & 2u ? -sine : sine);
    *cos_out = (float)((bits + 1u) & 2u ? -cosine : cosine);
}

#endif
