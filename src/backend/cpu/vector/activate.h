/* activate.h: the functions of scalar_math.h and the activations of activation.h, on 16 lanes.
 *
 * Operation for operation the same as there, so that every lane has the reference's bits.
 */
#ifndef MICA_BACKEND_CPU_VECTOR_ACTIVATE_H
#define MICA_BACKEND_CPU_VECTOR_ACTIVATE_H

#include "backend/cpu/activation.h"
#include "backend/cpu/vector/access.h"

static inline v16 v16_mul_add(v16 a, v16 b, float c) { /* two roundings */
    return v16_add(v16_mul(a, b), v16_set(c));
}

static inline v16 v16_exp(v16 x) {
    x = v16_min(v16_set(EXP_HIGHEST), x);
    x = v16_max(v16_set(EXP_LOWEST), x);
    v16 t = v16_mul_add(x, v16_set(EXP_LOG2E), ROUND_MAGIC);
    v16 n = v16_sub(t, v16_set(ROUND_MAGIC));
    v16i k = v16i_sub(v16_bits(t), v16_bits(v16_set(ROUND_MAGIC)));
    v16 r = v16_sub(x, v16_mul(n, v16_set(EXP_LN2_HI)));
    r = v16_sub(r, v16_mul(n, v16_set(EXP_LN2_LO)));
    v16 p = v16_mul_add(v16_set(EXP_C6), r, EXP_C5);
    p = v16_mul_add(p, r, EXP_C4);
    p = v16_mul_add(p, r, EXP_C3);
    p = v16_mul_add(p, r, EXP_C2);
    p = v16_add(v16_mul(p, v16_mul(r, r)), r);
    p = v16_add(p, v16_set(1.0f));
    v16i half = v16i_half(k), bias = v16i_set(127);
    v16 s1 = v16_of_bits(v16i_left23(v16i_add(half, bias)));
    v16 s2 = v16_of_bits(v16i_left23(v16i_add(v16i_sub(k, half), bias)));
    return v16_mul(v16_mul(p, s1), s2);
}

static inline v16 v16_exp_fused(v16 x) {
    const v16 magic = v16_set(EXP_FUSED_MAGIC), one = v16_set(1.0f);
    v16 t = v16_fma(x, v16_set(EXP_LOG2E), magic);
    v16 n = v16_sub(t, magic);
    v16 r = v16_fma(n, v16_set(-EXP_LN2_HI), x);
    r = v16_fma(n, v16_set(-EXP_LN2_LO), r);
    v16 p = v16_fma(v16_set(EXP_C6), r, v16_set(EXP_C5));
    p = v16_fma(p, r, v16_set(EXP_C4));
    p = v16_fma(p, r, v16_set(EXP_C3));
    p = v16_fma(p, r, v16_set(EXP_C2));
    p = v16_fma(p, r, one);
    p = v16_fma(p, r, one);
    v16 y = v16_mul(p, v16_of_bits(v16i_left23(v16_bits(t))));
    return v16_if_less(x, v16_set(EXP_FUSED_LOWEST), v16_zero(), y);
}

static inline v16 v16_abs(v16 x) {
    return v16_of_bits(v16i_and(v16_bits(x), v16i_set(0x7FFFFFFF)));
}

static inline v16 v16_with_sign(v16 x, v16 sign) {
    return v16_of_bits(v16i_or(v16_bits(x), v16i_and(v16_bits(sign), v16i_set(0x80000000u))));
}

static inline v16 v16_tanh(v16 x) {
    v16 a = v16_abs(x), z = v16_mul(x, x), one = v16_set(1.0f);
    v16 p = v16_mul_add(v16_set(TANH_C4), z, TANH_C3);
    p = v16_mul_add(p, z, TANH_C2);
    p = v16_mul_add(p, z, TANH_C1);
    p = v16_mul_add(p, z, TANH_C0);
    v16 small = v16_add(x, v16_mul(x, v16_mul(z, p)));
    v16 e = v16_add(v16_exp(v16_add(a, a)), one);
    v16 large = v16_with_sign(v16_sub(one, v16_div(v16_set(2.0f), e)), x);
    return v16_if_less(a, v16_set(TANH_SPLIT), small, large);
}

static inline v16 v16_erf(v16 x) {
    v16 a = v16_abs(x), z = v16_mul(x, x), one = v16_set(1.0f);
    v16 p = v16_mul_add(v16_set(ERF_C6), z, ERF_C5);
    p = v16_mul_add(p, z, ERF_C4);
    p = v16_mul_add(p, z, ERF_C3);
    p = v16_mul_add(p, z, ERF_C2);
    p = v16_mul_add(p, z, ERF_C1);
    p = v16_mul_add(p, z, ERF_C0);
    v16 small = v16_add(x, v16_mul(x, p));
    v16 c = v16_min(v16_set(ERF_END), a);
    v16 q = v16_mul_add(v16_set(ERF_D7), c, ERF_D6);
    q = v16_mul_add(q, c, ERF_D5);
    q = v16_mul_add(q, c, ERF_D4);
    q = v16_mul_add(q, c, ERF_D3);
    q = v16_mul_add(q, c, ERF_D2);
    q = v16_mul_add(q, c, ERF_D1);
    q = v16_mul_add(q, c, ERF_D0);
    q = v16_of_bits(v16i_sub(v16_bits(q), v16i_set(0x80000000u))); /* -q */
    v16 large = v16_with_sign(v16_sub(one, v16_exp(q)), x);
    return v16_if_less(a, one, small, large);
}

static inline v16 v16_sigmoid(v16 x, mica_dtype t) {
    v16 one = v16_set(1.0f);
    v16 e = v16_round_to(v16_exp(v16_abs(x)), t);
    v16 d = v16_round_to(v16_add(one, e), t);
    v16 y = v16_round_to(v16_div(one, d), t);
    return v16_if_less(x, v16_zero(), y, v16_round_to(v16_sub(one, y), t));
}

static inline v16 v16_silu(v16 x, mica_dtype t) {
    return v16_round_to(v16_mul(x, v16_sigmoid(x, t)), t);
}

static inline v16 v16_gelu(v16 x, mica_dtype t) {
    v16 z = v16_round_to(v16_div(x, v16_set(mica_round_to(1.41421356f, t))), t);
    v16 e1 = v16_round_to(v16_add(v16_set(1.0f), v16_round_to(v16_erf(z), t)), t);
    v16 p = v16_round_to(v16_mul(x, e1), t);
    return v16_round_to(v16_div(p, v16_set(2.0f)), t);
}

static inline v16 v16_gelu_tanh(v16 x, mica_dtype t) {
    v16 x3 = v16_round_to(v16_cube(x), t);
    v16 c = v16_round_to(v16_mul(x3, v16_set(mica_round_to(0.044715f, t))), t);
    v16 i = v16_round_to(v16_add(x, c), t);
    v16 z = v16_round_to(v16_mul(i, v16_set(mica_round_to(0.797884561f, t))), t);
    v16 u = v16_round_to(v16_add(v16_set(1.0f), v16_round_to(v16_tanh(z), t)), t);
    v16 h = v16_round_to(v16_mul(x, v16_set(0.5f)), t);
    return v16_round_to(v16_mul(h, u), t);
}

static inline v16 v16_softcap(v16 x, float c, mica_dtype t) {
    v16 ct = v16_set(mica_round_to(c, t));
    v16 y = v16_round_to(v16_tanh(v16_round_to(v16_div(x, ct), t)), t);
    return v16_round_to(v16_mul(y, ct), t);
}

static inline v16 v16_glu(glu_act act, v16 gate, mica_dtype t) {
    if (act == GLU_SILU) return v16_silu(gate, t);
    return act == GLU_GELU ? v16_gelu(gate, t) : v16_gelu_tanh(gate, t);
}

/* act_glu_fused of activation.h. */
static inline v16 v16_glu_fused(glu_act act, v16 x, mica_dtype t) {
    v16 y = x, one = v16_set(1.0f);
    if (act == GLU_GELU) return v16_gelu(x, t);
    if (act == GLU_GELU_TANH)
        y = v16_mul(x, v16_fma(v16_mul(x, x), v16_set(GLU_TANH_C3), v16_set(GLU_TANH_C1)));
    y = v16_min(v16_set(GLU_SIGMOID_LOWEST), v16_sub(v16_zero(), y));
    return v16_round_to(v16_div(x, v16_add(one, v16_exp_fused(y))), t);
}

#endif
