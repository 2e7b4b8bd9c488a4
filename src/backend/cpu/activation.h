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

static inline float act_glu(glu_act act, float gate, mica_dtype t) {
    if (act == GLU_SILU) return act_silu(gate, t);
    return act == GLU_GELU ? act_gelu(gate, t) : act_gelu_tanh(gate, t);
}

#endif
