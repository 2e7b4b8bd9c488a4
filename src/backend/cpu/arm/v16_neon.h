/* v16_neon.h: sixteen f32 lanes in four registers of 64-bit Arm.
 *
 * The same operations as x86/v16_avx512.h, each one rounded f32 operation a lane: lane i does what
 * the reference does with partial sum i. Exact kernels use no fused multiply-add.
 */
#ifndef MICA_BACKEND_CPU_ARM_V16_NEON_H
#define MICA_BACKEND_CPU_ARM_V16_NEON_H

#include <arm_neon.h>

#include "base/dtype.h"

/* Rows x outputs of the register tile of a matmul over expanded weights: 16 of 32 registers. */
#define V16_TILE_ROWS 2
#define V16_TILE_OUTS 2
#define V16_LOOKS_UP 0
#define V16_PAIRS_CODES 0
/* Rows x chunks of 16 columns of attention's products: 24 of 32 registers. */
#define V16_FLASH_ROWS 6
#define V16_FLASH_VECS 1
/* Heads whose scores of four keys are formed together; heads x chunks of 32 channels whose values
 * are: 16 of 32 registers each. */
#define V16_PARTS_SCORED 1
#define V16_PARTS_WEIGHED 2
#define V16_PARTS_CHUNKS 1

typedef struct v16 {
    float32x4_t q[4];
} v16;
typedef struct v16i {
    uint32x4_t q[4];
} v16i;
typedef v16 v16_table;

/* The body of an operation that is one and the same in each of the four registers, number i. */
#define V16_EACH(type, each)    \
    type r;                     \
    for (int i = 0; i < 4; i++) \
        r.q[i] = each;          \
    return r

static inline v16 v16_zero(void) { V16_EACH(v16, vdupq_n_f32(0.0f)); }
static inline v16 v16_set(float x) { V16_EACH(v16, vdupq_n_f32(x)); }
static inline v16 v16_load(const float *p) { V16_EACH(v16, vld1q_f32(p + 4 * i)); }
static inline void v16_store(float *p, v16 x) {
    for (int i = 0; i < 4; i++)
        vst1q_f32(p + 4 * i, x.q[i]);
}
static inline v16 v16_add(v16 a, v16 b) { V16_EACH(v16, vaddq_f32(a.q[i], b.q[i])); }
static inline v16 v16_sub(v16 a, v16 b) { V16_EACH(v16, vsubq_f32(a.q[i], b.q[i])); }
static inline v16 v16_mul(v16 a, v16 b) { V16_EACH(v16, vmulq_f32(a.q[i], b.q[i])); }
static inline v16 v16_div(v16 a, v16 b) { V16_EACH(v16, vdivq_f32(a.q[i], b.q[i])); }
/* a * b + c with one rounding: for kernels of the fast profile only. */
static inline v16 v16_fma(v16 a, v16 b, v16 c) { V16_EACH(v16, vfmaq_f32(c.q[i], a.q[i], b.q[i])); }
/* a < b ? a : b, and a > b ? a : b: b when either is NaN. */
static inline v16 v16_min(v16 a, v16 b) {
    V16_EACH(v16, vbslq_f32(vcltq_f32(a.q[i], b.q[i]), a.q[i], b.q[i]));
}
static inline v16 v16_max(v16 a, v16 b) {
    V16_EACH(v16, vbslq_f32(vcgtq_f32(a.q[i], b.q[i]), a.q[i], b.q[i]));
}
/* a < b ? x : y. */
static inline v16 v16_if_less(v16 a, v16 b, v16 x, v16 y) {
    V16_EACH(v16, vbslq_f32(vcltq_f32(a.q[i], b.q[i]), x.q[i], y.q[i]));
}

static inline v16i v16_bits(v16 x) { V16_EACH(v16i, vreinterpretq_u32_f32(x.q[i])); }
static inline v16 v16_of_bits(v16i x) { V16_EACH(v16, vreinterpretq_f32_u32(x.q[i])); }
static inline v16i v16i_set(uint32_t x) { V16_EACH(v16i, vdupq_n_u32(x)); }
static inline v16i v16i_add(v16i a, v16i b) { V16_EACH(v16i, vaddq_u32(a.q[i], b.q[i])); }
static inline v16i v16i_sub(v16i a, v16i b) { V16_EACH(v16i, vsubq_u32(a.q[i], b.q[i])); }
static inline v16i v16i_and(v16i a, v16i b) { V16_EACH(v16i, vandq_u32(a.q[i], b.q[i])); }
static inline v16i v16i_or(v16i a, v16i b) { V16_EACH(v16i, vorrq_u32(a.q[i], b.q[i])); }
static inline v16i v16i_half(v16i a) { /* towards -infinity */
    V16_EACH(v16i, vreinterpretq_u32_s32(vshrq_n_s32(vreinterpretq_s32_u32(a.q[i]), 1)));
}
static inline v16i v16i_left23(v16i a) { V16_EACH(v16i, vshlq_n_u32(a.q[i], 23)); }
static inline v16i v16i_right16(v16i a) { V16_EACH(v16i, vshrq_n_u32(a.q[i], 16)); }
static inline v16 v16_of_int(v16i a) {
    V16_EACH(v16, vcvtq_f32_s32(vreinterpretq_s32_u32(a.q[i])));
}

/* Lanes 2i and 2i + 1 change places. */
static inline v16 v16_swap_pairs(v16 x) { V16_EACH(v16, vrev64q_f32(x.q[i])); }

static inline float v16_first(v16 x) { return vgetq_lane_f32(x.q[0], 0); }

/* The tree of lanes.h: lane i + lane i+8, then +4, +2, +1. */
static inline float v16_join(v16 x) {
    float32x4_t s4 = vaddq_f32(vaddq_f32(x.q[0], x.q[2]), vaddq_f32(x.q[1], x.q[3]));
    float32x2_t s2 = vadd_f32(vget_low_f32(s4), vget_high_f32(s4));
    return vget_lane_f32(s2, 0) + vget_lane_f32(s2, 1);
}

/* v16_join of four. */
static inline void v16_join4(const v16 x[4], float *out) {
    float32x2_t s2[4];
    for (int i = 0; i < 4; i++) {
        float32x4_t s4 =
            vaddq_f32(vaddq_f32(x[i].q[0], x[i].q[2]), vaddq_f32(x[i].q[1], x[i].q[3]));
        s2[i] = vadd_f32(vget_low_f32(s4), vget_high_f32(s4));
    }
    vst1q_f32(out, vpaddq_f32(vcombine_f32(s2[0], s2[1]), vcombine_f32(s2[2], s2[3])));
}

/* No lane is NaN where this is used, or what comes of it does not matter. */
static inline float v16_largest(v16 x) {
    return vmaxvq_f32(vmaxq_f32(vmaxq_f32(x.q[0], x.q[1]), vmaxq_f32(x.q[2], x.q[3])));
}

static inline v16 v16_load_bf16(const void *p) {
    v16 r;
    for (int i = 0; i < 2; i++) {
        uint16x8_t h = vreinterpretq_u16_u8(vld1q_u8((const uint8_t *)p + 16 * i));
        r.q[2 * i] = vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(h), 16));
        r.q[2 * i + 1] = vreinterpretq_f32_u32(vshll_n_u16(vget_high_u16(h), 16));
    }
    return r;
}
/* 32 values of bf16: those at even places and those at odd ones. */
static inline void v16_load_pairs(const void *p, v16 *even, v16 *odd) {
    for (int i = 0; i < 4; i++) {
        uint32x4_t x = vreinterpretq_u32_u8(vld1q_u8((const uint8_t *)p + 16 * i));
        even->q[i] = vreinterpretq_f32_u32(vshlq_n_u32(x, 16));
        odd->q[i] = vreinterpretq_f32_u32(vandq_u32(x, vdupq_n_u32(0xFFFF0000u)));
    }
}
/* The first n < 32, then zeros. */
static inline void v16_load_pairs_part(const void *p, int64_t n, v16 *even, v16 *odd) {
    uint8_t part[64] = {0};
    memcpy(part, p, (size_t)n * 2);
    v16_load_pairs(part, even, odd);
}
static inline v16 v16_load_f16(const void *p) {
    v16 r;
    for (int i = 0; i < 2; i++) {
        uint8x16_t h = vld1q_u8((const uint8_t *)p + 16 * i);
        r.q[2 * i] = vcvt_f32_f16(vreinterpret_f16_u8(vget_low_u8(h)));
        r.q[2 * i + 1] = vcvt_f32_f16(vreinterpret_f16_u8(vget_high_u8(h)));
    }
    return r;
}
/* The first n < 16 elements at p; zeros in the other lanes. Reads nothing behind them. */
static inline v16 v16_load_part(const void *p, mica_dtype t, int64_t n) {
    uint8_t part[64] = {0};
    memcpy(part, p, (size_t)n * (t == MICA_F32 ? 4 : 2));
    if (t == MICA_F32) return v16_load((const float *)(const void *)part);
    return t == MICA_BF16 ? v16_load_bf16(part) : v16_load_f16(part);
}
/* The upper halves of already rounded lanes. */
static inline void v16_store_upper(void *p, v16 x) {
    for (int i = 0; i < 2; i++) {
        uint16x4_t lo = vshrn_n_u32(vreinterpretq_u32_f32(x.q[2 * i]), 16);
        uint16x4_t hi = vshrn_n_u32(vreinterpretq_u32_f32(x.q[2 * i + 1]), 16);
        vst1q_u8((uint8_t *)p + 16 * i, vreinterpretq_u8_u16(vcombine_u16(lo, hi)));
    }
}
static inline void v16_store_f16(void *p, v16 x) {
    for (int i = 0; i < 4; i++)
        vst1_u8((uint8_t *)p + 8 * i, vreinterpret_u8_f16(vcvt_f16_f32(x.q[i])));
}
static inline v16 v16_round_f16(v16 x) { V16_EACH(v16, vcvt_f32_f16(vcvt_f16_f32(x.q[i]))); }
/* `other` where x is NaN. */
static inline v16 v16_if_nan(v16 x, v16 other, v16 otherwise) {
    V16_EACH(v16, vbslq_f32(vceqq_f32(x.q[i], x.q[i]), otherwise.q[i], other.q[i]));
}

static inline float32x2_t cube2(float32x2_t x) {
    float64x2_t d = vcvt_f64_f32(x);
    return vcvt_f32_f64(vmulq_f64(vmulq_f64(d, d), d));
}
/* x * x * x in double, rounded once to f32 as (float)((double)x * x * x). */
static inline v16 v16_cube(v16 x) {
    V16_EACH(v16, vcombine_f32(cube2(vget_low_f32(x.q[i])), cube2(vget_high_f32(x.q[i]))));
}

/* t[i] lane j becomes t[j] lane i. */
static inline void v16_turn(v16 t[16]) {
    float lane[16][16];
    for (int i = 0; i < 16; i++)
        v16_store(lane[i], t[i]);
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < 4; b++) { /* the 4 x 4 block of rows 4b and lanes 4a */
            float32x4_t r0 = vld1q_f32(lane[4 * b] + 4 * a);
            float32x4_t r1 = vld1q_f32(lane[4 * b + 1] + 4 * a);
            float32x4_t r2 = vld1q_f32(lane[4 * b + 2] + 4 * a);
            float32x4_t r3 = vld1q_f32(lane[4 * b + 3] + 4 * a);
            float32x4x2_t p = vtrnq_f32(r0, r1), q = vtrnq_f32(r2, r3);
            t[4 * a].q[b] = vcombine_f32(vget_low_f32(p.val[0]), vget_low_f32(q.val[0]));
            t[4 * a + 1].q[b] = vcombine_f32(vget_low_f32(p.val[1]), vget_low_f32(q.val[1]));
            t[4 * a + 2].q[b] = vcombine_f32(vget_high_f32(p.val[0]), vget_high_f32(q.val[0]));
            t[4 * a + 3].q[b] = vcombine_f32(vget_high_f32(p.val[1]), vget_high_f32(q.val[1]));
        }
}

/* ---- 16 codes of a bitstream: a chunk is 2 * bits bytes ---- */
typedef struct v16_unpacker {
    uint8x16_t place[4]; /* two bytes to each lane, then shift and mask */
    int32x4_t shift[4];  /* to the right */
    uint32x4_t mask;
} v16_unpacker;

static inline v16_unpacker v16_unpacker_init(int bits) {
    uint8_t place[64];
    int32_t shift[16];
    for (int i = 0; i < 16; i++) {
        int byte = i * bits >> 3, off = i * bits & 7;
        shift[i] = -off;
        place[4 * i] = (uint8_t)byte;
        place[4 * i + 1] = off + bits > 8 ? (uint8_t)(byte + 1) : 0x80;
        place[4 * i + 2] = place[4 * i + 3] = 0x80;
    }
    v16_unpacker u;
    for (int i = 0; i < 4; i++) {
        u.place[i] = vld1q_u8(place + 16 * i);
        u.shift[i] = vld1q_s32(shift + 4 * i);
    }
    u.mask = vdupq_n_u32((1u << bits) - 1u);
    return u;
}

/* Bits 3, 5 and 6 read 16 bytes at p, the others 2 * bits. */
static inline v16i v16_codes(const v16_unpacker *u, const uint8_t *p, int bits) {
    if (bits == 8) {
        uint8x16_t all = vld1q_u8(p);
        uint16x8_t lo = vmovl_u8(vget_low_u8(all)), hi = vmovl_u8(vget_high_u8(all));
        v16i r = {{vmovl_u16(vget_low_u16(lo)), vmovl_u16(vget_high_u16(lo)),
                   vmovl_u16(vget_low_u16(hi)), vmovl_u16(vget_high_u16(hi))}};
        return r;
    }
    uint8x16_t bytes;
    if (bits == 2) {
        uint32_t word;
        memcpy(&word, p, 4);
        bytes = vreinterpretq_u8_u32(vdupq_n_u32(word));
    } else if (bits == 4) {
        bytes = vcombine_u8(vld1_u8(p), vdup_n_u8(0));
    } else {
        bytes = vld1q_u8(p);
    }
    v16i r;
    for (int i = 0; i < 4; i++)
        r.q[i] = vandq_u32(
            vshlq_u32(vreinterpretq_u32_u8(vqtbl1q_u8(bytes, u->place[i])), u->shift[i]), u->mask);
    return r;
}

static inline v16_table v16_table_load(const float values[16]) { return v16_load(values); }
static inline v16 v16_look_up(const v16_table *t, v16i codes) {
    /* byte k of the value of code c is byte 4c + k of the table */
    const uint32x4_t four = vdupq_n_u32(0x04040404u), part = vdupq_n_u32(0x03020100u);
    uint8x16x4_t bytes;
    v16 r;
    for (int i = 0; i < 4; i++)
        bytes.val[i] = vreinterpretq_u8_f32(t->q[i]);
    for (int i = 0; i < 4; i++) {
        uint8x16_t at = vreinterpretq_u8_u32(vmlaq_u32(part, codes.q[i], four));
        r.q[i] = vreinterpretq_f32_u8(vqtbl4q_u8(bytes, at));
    }
    return r;
}
static inline v16 v16_gather(const float *values, v16i codes) {
    uint32_t at[16];
    float x[16];
    for (int i = 0; i < 4; i++)
        vst1q_u32(at + 4 * i, codes.q[i]);
    for (int i = 0; i < 16; i++)
        x[i] = values[at[i]];
    return v16_load(x);
}

#endif
