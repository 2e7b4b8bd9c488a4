/* activation.h: the activations with the rounding points of the reference (docs/numerics.md 4.1).
 *
 * Every elementary step is computed in f32 and rounded to T (`t`); constants are rounded to T too.
 */
#ifndef MICA_BACKEND_CPU_ACTIVATION_H
#define MICA_BACKEND_CPU_ACTIVATION_H

#include "backend/cpu/scalar_math.h"
#include "graph/graph.h"

static inline float act_sigmoid(float x, mica_dtype t) {
    float a = mica_bits_f32(mica_f32_bits(x) & 0x7FFFFFFFu);
    float e = mica_round_to(exp_f32(a), t);
    float d = mica_round_to(1.0f + e, t);
    float y = mica_round_to(1.0f / d, t);
    return x < 0.0f ? y : mica_round_to(1.0f - y, t);
}

static inline float act_silu(float x, mica_dtype t) {
    return mica_round_to(x * act_sigmoid(x, t), t);
}

static inline float act_gelu(float x, mica_dtype t) {
    float z = mica_round_to(x / mica_round_to(1.41421356f, t), t);
    float e = mica_round_to(erf_f32(z), t);
    float e1 = mica_round_to(1.0f + e, t);
    float p = mica_round_to(x * e1, t);
    return mica_round_to(p / 2.0f, t);
}

/* The cube has one rounding, hence double. */
static inline float act_gelu_tanh(float x, mica_dtype t) {
    float x3 = mica_round_to((float)((double)x * (double)x * (double)x), t);
    float c = mica_round_to(x3 * mica_round_to(0.044715f, t), t);
    float i = mica_round_to(x + c, t);
    float z = mica_round_to(i * mica_round_to(0.797884561f, t), t);
    float u = mica_round_to(1.0f + mica_round_to(tanh_f32(z), t), t);
    float h = mica_round_to(x * 0.5f, t);
    return mica_round_to(h * u, t);
}

/* logaddexp(x, 0). */
static inline float act_softplus(float x, mica_dtype t) {
    float a = mica_bits_f32(mica_f32_bits(x) & 0x7FFFFFFFu);
    float e = mica_round_to(exp_f32(-a), t);
    float l = mica_round_to(log1p_f32(e), t);
    float max = x < 0.0f ? 0.0f : x;
    return mica_round_to(max + l, t);
}

static inline float act_softcap(float x, float c, mica_dtype t) {
    float ct = mica_round_to(c, t);
    float y = mica_round_to(tanh_f32(mica_round_to(x / ct, t)), t);
    return mica_round_to(y * ct, t);
}

static inline float act_relu2(float x) {
    float r = x > 0.0f ? x : 0.0f;
    return r * r;
}

/* e^x - 1 without cancellation: with h = tanh(x/2) it is 2h / (1 - h). */
static inline float act_expm1(float x) {
    float h = tanh_f32(x * 0.5f);
    return 2.0f * h / (1.0f - h);
}

/* The parameters are constants of the layer, in T already. */
static inline float act_xielu(float x, float alpha_p, float alpha_n, float beta, float eps,
                              mica_dtype t) {
    float linear = mica_round_to(beta * x, t);
    if (x > 0.0f) {
        float square = mica_round_to(mica_round_to(alpha_p * x, t) * x, t);
        return mica_round_to(square + linear, t);
    }
    float e = mica_round_to(act_expm1(x < eps ? x : eps), t);
    float bend = mica_round_to(mica_round_to(e - x, t) * alpha_n, t);
    return mica_round_to(bend + linear, t);
}

/* silu and gelu in its tanh form as x * sigmoid(y), y = x or 2 sqrt(2/pi) (x + 0.044715 x^3), in
 * f32 throughout: for kernels of the fast profile. */
#define GLU_TANH_C1 1.59576912f
#define GLU_TANH_C3 0.0713548163f
#define GLU_SIGMOID_LOWEST 88.0f /* of -y: e^88 is finite */
static inline float act_glu_fused(glu_act act, float x, mica_dtype t) {
    if (act == GLU_GELU) return act_gelu(x, t);
    float y = act == GLU_SILU ? x : x * fmaf(x * x, GLU_TANH_C3, GLU_TANH_C1);
    y = 0.0f - y;
    y = GLU_SIGMOID_LOWEST < y ? GLU_SIGMOID_LOWEST : y; /* NaN passes */
    return mica_round_to(x / (1.0f + exp_fused(y)), t);
}

static inline float act_glu(glu_act act, float gate, mica_dtype t) {
    if (act == GLU_SILU) return act_silu(gate, t);
    return act == GLU_GELU ? act_gelu(gate, t) : act_gelu_tanh(gate, t);
}

#endif
