/* v16_avx512.h: sixteen f32 lanes in one AVX-512 register (F, BW, DQ, VL).
 *
 * The operations that src/backend/cpu/vector/ is written in; v16_avx2.h has the same ones. Each is
 * one rounded f32 operation a lane, so that lane i does what the reference does with partial sum i;
 * exact kernels use no fused multiply-add.
 */
#ifndef MICA_BACKEND_CPU_X86_V16_AVX512_H
#define MICA_BACKEND_CPU_X86_V16_AVX512_H

#include <immintrin.h>

#include "base/dtype.h"

/* Rows x outputs of the register tile of a matmul over expanded weights: 16 of 32 registers. */
#define V16_TILE_ROWS 4
#define V16_TILE_OUTS 4
/* Rows x chunks of 16 columns of attention's products: 24 of 32 registers. */
#define V16_FLASH_ROWS 6
#define V16_FLASH_VECS 4
/* Heads whose scores of four keys are formed together; heads x chunks of 32 channels whose values
 * are: 16 of 32 registers each. */
#define V16_PARTS_SCORED 4
#define V16_PARTS_WEIGHED 4
#define V16_PARTS_CHUNKS 2
/* A table of 16 values is one instruction to look up: cheaper than scale * code + bias. */
#define V16_LOOKS_UP 1
/* Two rows of codes are read side by side. */
#define V16_PAIRS_CODES 1

typedef __m512 v16;
typedef __m512i v16i;
typedef __m512 v16_table;

static inline v16 v16_zero(void) { return _mm512_setzero_ps(); }
static inline v16 v16_set(float x) { return _mm512_set1_ps(x); }
static inline v16 v16_load(const float *p) { return _mm512_loadu_ps(p); }
static inline void v16_store(float *p, v16 x) { _mm512_storeu_ps(p, x); }
static inline v16 v16_add(v16 a, v16 b) { return _mm512_add_ps(a, b); }
static inline v16 v16_sub(v16 a, v16 b) { return _mm512_sub_ps(a, b); }
static inline v16 v16_mul(v16 a, v16 b) { return _mm512_mul_ps(a, b); }
/* a * b + c with one rounding: for kernels of the fast profile only. */
static inline v16 v16_fma(v16 a, v16 b, v16 c) { return _mm512_fmadd_ps(a, b, c); }
static inline v16 v16_div(v16 a, v16 b) { return _mm512_div_ps(a, b); }
/* a < b ? a : b, and a > b ? a : b: b when either is NaN. */
static inline v16 v16_min(v16 a, v16 b) { return _mm512_min_ps(a, b); }
static inline v16 v16_max(v16 a, v16 b) { return _mm512_max_ps(a, b); }
/* a < b ? x : y. */
static inline v16 v16_if_less(v16 a, v16 b, v16 x, v16 y) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
}

static inline v16i v16_bits(v16 x) { return _mm512_castps_si512(x); }
static inline v16 v16_of_bits(v16i x) { return _mm512_castsi512_ps(x); }
static inline v16i v16i_set(uint32_t x) { return _mm512_set1_epi32((int)x); }
static inline v16i v16i_add(v16i a, v16i b) { return _mm512_add_epi32(a, b); }
static inline v16i v16i_sub(v16i a, v16i b) { return _mm512_sub_epi32(a, b); }
static inline v16i v16i_and(v16i a, v16i b) { return _mm512_and_si512(a, b); }
static inline v16i v16i_or(v16i a, v16i b) { return _mm512_or_si512(a, b); }
static inline v16i v16i_half(v16i a) { return _mm512_srai_epi32(a, 1); } /* towards -infinity */
static inline v16i v16i_left23(v16i a) { return _mm512_slli_epi32(a, 23); }
static inline v16i v16i_right(v16i a, int n) { return _mm512_srl_epi32(a, _mm_cvtsi32_si128(n)); }
static inline v16i v16i_right16(v16i a) { return _mm512_srli_epi32(a, 16); }
static inline v16 v16_of_int(v16i a) { return _mm512_cvtepi32_ps(a); }

/* Lanes 2i and 2i + 1 change places. */
static inline v16 v16_swap_pairs(v16 x) { return _mm512_permute_ps(x, 0xB1); }

static inline float v16_first(v16 x) { return _mm512_cvtss_f32(x); }

/* The tree of lanes.h: lane i + lane i+8, then +4, +2, +1. */
static inline float v16_join(v16 x) {
    __m256 s8 = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
    __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
    return _mm_cvtss_f32(_mm_add_ss(s2, _mm_shuffle_ps(s2, s2, 1)));
}

/* v16_join of four. */
static inline void v16_join4(const v16 x[4], float *out) {
    v16 ab = _mm512_add_ps(_mm512_shuffle_f32x4(x[0], x[1], 0x44),
                           _mm512_shuffle_f32x4(x[0], x[1], 0xEE));
    v16 cd = _mm512_add_ps(_mm512_shuffle_f32x4(x[2], x[3], 0x44),
                           _mm512_shuffle_f32x4(x[2], x[3], 0xEE));
    v16 s4 = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xDD));
    v16 s2 = _mm512_add_ps(s4, _mm512_permute_ps(s4, 0x4E));
    v16 s1 = _mm512_add_ps(s2, _mm512_permute_ps(s2, 0xB1));
    _mm_storeu_ps(out, _mm512_castps512_ps128(_mm512_maskz_compress_ps(0x1111, s1)));
}

static inline float v16_largest(v16 x) { return _mm512_reduce_max_ps(x); }

/* The first n < 16 elements at p of 4 or of 2 bytes; zeros in the other lanes. */
static inline v16 v16_load_part(const void *p, mica_dtype t, int64_t n) {
    __mmask16 m = (__mmask16)((1u << n) - 1u);
    if (t == MICA_F32) return _mm512_maskz_loadu_ps(m, p);
    __m256i halves = _mm256_maskz_loadu_epi16(m, p);
    if (t == MICA_F16) return _mm512_cvtph_ps(halves);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

static inline v16 v16_load_bf16(const void *p) {
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
/* 32 values of bf16: those at even places and those at odd ones. */
static inline void v16_split_pairs(__m512i x, v16 *even, v16 *odd) {
    *even = _mm512_castsi512_ps(_mm512_slli_epi32(x, 16));
    *odd = _mm512_castsi512_ps(_mm512_and_si512(x, _mm512_set1_epi32((int)0xFFFF0000u)));
}
static inline void v16_load_pairs(const void *p, v16 *even, v16 *odd) {
    v16_split_pairs(_mm512_loadu_si512(p), even, odd);
}
/* The first n < 32, then zeros. */
static inline void v16_load_pairs_part(const void *p, int64_t n, v16 *even, v16 *odd) {
    v16_split_pairs(_mm512_maskz_loadu_epi16((1u << n) - 1u, p), even, odd);
}
static inline v16 v16_load_f16(const void *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
/* The upper halves of already rounded lanes (vector/round.h). */
static inline void v16_store_upper(void *p, v16 x) {
    __m256i halves = _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_castps_si512(x), 16));
    _mm256_storeu_si256((__m256i *)p, halves);
}
static inline void v16_store_f16(void *p, v16 x) {
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
static inline v16 v16_round_f16(v16 x) {
    return _mm512_cvtph_ps(_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
/* Keeps lanes that are numbers; NaN becomes `other`. */
static inline v16 v16_if_nan(v16 x, v16 other, v16 otherwise) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), otherwise, other);
}
/* x * x * x in double, rounded once to f32 as (float)((double)x * x * x). */
static inline v16 v16_cube(v16 x) {
    __m512d lo = _mm512_cvtps_pd(_mm512_castps512_ps256(x));
    __m512d hi = _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1));
    __m256 lo3 = _mm512_cvtpd_ps(_mm512_mul_pd(_mm512_mul_pd(lo, lo), lo));
    __m256 hi3 = _mm512_cvtpd_ps(_mm512_mul_pd(_mm512_mul_pd(hi, hi), hi));
    return _mm512_insertf32x8(_mm512_castps256_ps512(lo3), hi3, 1);
}

/* r[i] lane j becomes r[j] lane i. */
static inline __attribute__((always_inline)) void v16_turn_bits(__m512i r[16]) {
    __m512i t[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {
        r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    /* r[4q + i] part p holds lanes 4p + i of rows 4q .. 4q+3 */
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        __m512i a = _mm512_shuffle_i32x4(r[i], r[4 + i], 0x88);
        __m512i b = _mm512_shuffle_i32x4(r[i], r[4 + i], 0xDD);
        __m512i c = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0x88);
        __m512i d = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0xDD);
        t[i] = _mm512_shuffle_i32x4(a, c, 0x88);
        t[8 + i] = _mm512_shuffle_i32x4(a, c, 0xDD);
        t[4 + i] = _mm512_shuffle_i32x4(b, d, 0x88);
        t[12 + i] = _mm512_shuffle_i32x4(b, d, 0xDD);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++)
        r[i] = t[i];
}

/* t[i] lane j becomes t[j] lane i. */
static inline __attribute__((always_inline)) void v16_turn(v16 t[16]) {
    __m512i r[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++)
        r[i] = _mm512_castps_si512(t[i]);
    v16_turn_bits(r);
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++)
        t[i] = _mm512_castsi512_ps(r[i]);
}

/* ---- 16 codes of a bitstream: a chunk is 2 * bits bytes ---- */
typedef struct v16_unpacker {
    __m512i shuffle, shift, mask; /* two bytes to each lane, then shift and mask */
} v16_unpacker;

static inline v16_unpacker v16_unpacker_init(int bits) {
    uint8_t shuffle[64];
    uint32_t shift[16];
    for (int i = 0; i < 16; i++) {
        int byte = i * bits >> 3, off = i * bits & 7;
        shift[i] = (uint32_t)off;
        shuffle[4 * i] = (uint8_t)byte;
        shuffle[4 * i + 1] = off + bits > 8 ? (uint8_t)(byte + 1) : 0x80;
        shuffle[4 * i + 2] = shuffle[4 * i + 3] = 0x80;
    }
    v16_unpacker u = {_mm512_loadu_si512(shuffle), _mm512_loadu_si512(shift),
                      _mm512_set1_epi32((1 << bits) - 1)};
    return u;
}

/* Bits 3, 5 and 6 read 16 bytes at p, the others 2 * bits. */
static inline v16i v16_codes(const v16_unpacker *u, const uint8_t *p, int bits) {
    __m512i bytes;
    if (bits == 8) return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
    if (bits == 2) {
        uint32_t word;
        memcpy(&word, p, 4);
        bytes = _mm512_set1_epi32((int)word);
    } else if (bits == 4) {
        uint64_t word;
        memcpy(&word, p, 8);
        bytes = _mm512_set1_epi64((long long)word);
    } else {
        bytes = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)p));
    }
    bytes = _mm512_shuffle_epi8(bytes, u->shuffle);
    return _mm512_and_si512(_mm512_srlv_epi32(bytes, u->shift), u->mask);
}

static inline v16_table v16_table_load(const float values[16]) { return _mm512_loadu_ps(values); }
static inline v16 v16_look_up(const v16_table *t, v16i codes) {
    return _mm512_permutexvar_ps(codes, *t);
}
static inline v16 v16_gather(const float *values, v16i codes) {
    return _mm512_i32gather_ps(codes, values, 4);
}

#endif
