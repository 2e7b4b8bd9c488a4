/* dtype.h: element types, their sizes and conversions (docs/numerics.md 1).
 *
 * bf16 and f16 are storage types: load, widen to f32, compute, round once on store.
 */
#ifndef MICA_BASE_DTYPE_H
#define MICA_BASE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef enum mica_dtype {
    MICA_BOOL = 0,
    MICA_U8,
    MICA_U16,
    MICA_U32,
    MICA_U64,
    MICA_I8,
    MICA_I16,
    MICA_I32,
    MICA_I64,
    MICA_F16,
    MICA_F32,
    MICA_F64,
    MICA_BF16,
    MICA_F8_E4M3,
    MICA_F8_E8M0,
    MICA_N_DTYPES
} mica_dtype;

size_t mica_dtype_bytes(mica_dtype t);
const char *mica_dtype_name(mica_dtype t); /* "f32", "bf16": lower case */
/* "F32", "BF16" ... as in safetensors headers. False: unknown. */
bool mica_dtype_find(const char *name, size_t n_name, mica_dtype *out);
static inline bool mica_dtype_is_float(mica_dtype t) {
    return t == MICA_F16 || t == MICA_F32 || t == MICA_BF16;
}
/* f16+bf16 -> f32, T+T -> T, anything+f32 -> f32. Both must be f16, bf16 or f32. */
mica_dtype mica_dtype_promote(mica_dtype a, mica_dtype b);

static inline float mica_bits_f32(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
}
static inline uint32_t mica_f32_bits(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}
static inline float mica_bf16_to_f32(uint16_t h) { return mica_bits_f32((uint32_t)h << 16); }

/* Nearest even; NaN becomes 0x7FC0; large values overflow to infinity; subnormals are kept. */
static inline uint16_t mica_f32_to_bf16(float f) {
    uint32_t u = mica_f32_bits(f);
    if ((u & 0x7FFFFFFFu) > 0x7F800000u) return 0x7FC0;
    return (uint16_t)((u + 0x7FFFu + ((u >> 16) & 1u)) >> 16);
}

/* Exact. Subnormal halves are scaled by a float multiplication, which is exact as well. */
static inline float mica_f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t rest = h & 0x7FFFu;
    if (rest >= 0x7C00u) return mica_bits_f32(sign | 0x7F800000u | (rest & 0x3FFu) << 13);
    if (rest >= 0x0400u) return mica_bits_f32(sign | ((rest << 13) + 0x38000000u));
    float magnitude = (float)rest * 5.9604644775390625e-8f; /* 2^-24 */
    return mica_bits_f32(sign | mica_f32_bits(magnitude));
}

/* IEEE nearest even; |x| >= 65520 -> infinity; NaN keeps its sign with payload 0x7D00. */
uint16_t mica_f32_to_f16(float f);

/* Rounds to `t` (f32, f16 or bf16) and widens again: the rT of docs/numerics.md. */
static inline float mica_round_to(float x, mica_dtype t) {
    if (t == MICA_F32) return x;
    return t == MICA_BF16 ? mica_bf16_to_f32(mica_f32_to_bf16(x))
                          : mica_f16_to_f32(mica_f32_to_f16(x));
}

/* Element i of an array of f32, f16 or bf16 at `p`, which needs no alignment. */
static inline float mica_load_f(const void *p, mica_dtype t, size_t i) {
    if (t == MICA_F32) {
        float f;
        memcpy(&f, (const char *)p + 4 * i, 4);
        return f;
    }
    uint16_t h;
    memcpy(&h, (const char *)p + 2 * i, 2);
    return t == MICA_BF16 ? mica_bf16_to_f32(h) : mica_f16_to_f32(h);
}
static inline void mica_store_f(void *p, mica_dtype t, size_t i, float x) {
    if (t == MICA_F32) {
        memcpy((char *)p + 4 * i, &x, 4);
        return;
    }
    uint16_t h = t == MICA_BF16 ? mica_f32_to_bf16(x) : mica_f32_to_f16(x);
    memcpy((char *)p + 2 * i, &h, 2);
}

/* Minifloats of the fp modes (docs/numerics.md 2.4). */
float mica_e4m3_to_f32(uint8_t code); /* 0x7F and 0xFF are NaN */
float mica_e8m0_to_f32(uint8_t code); /* 2^(code-127); 255 is +inf */

#endif
