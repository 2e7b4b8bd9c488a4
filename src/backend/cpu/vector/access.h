/* access.h: loads and stores of sixteen elements of any float dtype, also of fewer at an end.
 *
 * Include a v16 header first. Everything in vector/ is `static inline`: each ISA compiles its own.
 */
#ifndef MICA_BACKEND_CPU_VECTOR_ACCESS_H
#define MICA_BACKEND_CPU_VECTOR_ACCESS_H

#include "backend/cpu/operand.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

static inline v16 v16_round_bf16(v16 x) {
    v16i u = v16_bits(x);
    v16i odd = v16i_and(v16i_right16(u), v16i_set(1));
    v16i rounded = v16i_add(v16i_add(u, v16i_set(0x7FFF)), odd);
    v16 r = v16_of_bits(v16i_and(rounded, v16i_set(0xFFFF0000u)));
    return v16_if_nan(x, v16_of_bits(v16i_set(0x7FC00000u)), r);
}

/* rT of docs/numerics.md, lane by lane. */
static inline v16 v16_round_to(v16 x, mica_dtype t) {
    if (t == MICA_F32) return x;
    return t == MICA_BF16 ? v16_round_bf16(x) : v16_round_f16(x);
}

static inline v16 v16_load_as(const void *p, mica_dtype t) {
    if (t == MICA_F32) return v16_load(p);
    return t == MICA_BF16 ? v16_load_bf16(p) : v16_load_f16(p);
}

static inline void v16_store_as(void *p, mica_dtype t, v16 x) {
    if (t == MICA_F32)
        v16_store(p, x);
    else if (t == MICA_BF16)
        v16_store_upper(p, v16_round_bf16(x));
    else
        v16_store_f16(p, x);
}

static inline void v16_store_part(void *p, mica_dtype t, int64_t n, v16 x) {
    uint8_t part[64];
    v16_store_as(part, t, x);
    memcpy(p, part, (size_t)n * (t == MICA_F32 ? 4 : 2));
}

/* Element i of an array of t. */
static inline const void *at(const void *p, mica_dtype t, int64_t i) {
    return (const uint8_t *)p + (size_t)i * (t == MICA_F32 ? 4 : 2);
}
static inline void *at_mut(void *p, mica_dtype t, int64_t i) {
    return (uint8_t *)p + (size_t)i * (t == MICA_F32 ? 4 : 2);
}

/* n elements widened to f32; out has room for n rounded up to 16, filled with zeros. */
static inline void widen(const void *p, mica_dtype t, int64_t n, float *out) {
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        v16_store(out + i, v16_load_as(at(p, t, i), t));
    if (i < n) v16_store(out + i, v16_load_part(at(p, t, i), t, n - i));
}

/* Elements [i, i + 16) of row r, those below n. */
static inline v16 row_chunk(const kernel_operand *o, int64_t r, int64_t i, int64_t n) {
    const void *p = at(o->data, o->dtype, operand_row(o, r) + i);
    return n - i >= 16 ? v16_load_as(p, o->dtype) : v16_load_part(p, o->dtype, n - i);
}

static inline void store_row(void *p, mica_dtype t, int64_t n, const float *x) {
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        v16_store_as(at_mut(p, t, i), t, v16_load(x + i));
    for (; i < n; i++)
        mica_store_f(p, t, (size_t)i, x[i]);
}

static inline int64_t padded(int64_t n) { return (n + 15) & ~(int64_t)15; }

static inline bool is_dense_row(const kernel_operand *o) {
    return !o->n_dims || o->stride[o->n_dims - 1] == 1;
}

#endif
