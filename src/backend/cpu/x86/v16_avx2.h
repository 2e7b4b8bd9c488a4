/* v16_avx2.h: sixteen f32 lanes in two AVX registers (AVX2 and F16C).
 *
 * The same operations as v16_avx512.h, each one rounded f32 operation a lane: lane i does what the
 * reference does with partial sum i. Exact kernels use no fused multiply-add.
 */
#ifndef MICA_BACKEND_CPU_X86_V16_AVX2_H
#define MICA_BACKEND_CPU_X86_V16_AVX2_H

#include <immintrin.h>

#include "base/dtype.h"

/* Rows x outputs of the register tile of a matmul over expanded weights: 8 of 16 registers. */
#define V16_TILE_ROWS 2
#define V16_TILE_OUTS 2
/* Rows x chunks of 16 columns of attention's products: 12 of 16 registers. */
#define V16_FLASH_ROWS 6
#define V16_FLASH_VECS 1
/* Heads whose scores of four keys are formed together; heads x chunks of 32 channels whose values
 * are: 8 of 16 registers each. */
#define V16_PARTS_SCORED 1
#define V16_PARTS_WEIGHED 2
#define V16_PARTS_CHUNKS 1
#define V16_LOOKS_UP 0
#define V16_PAIRS_CODES 0

typedef struct v16 {
    __m256 lo, hi;
} v16;
typedef struct v16i {
    __m256i lo, hi;
} v16i;
typedef v16 v16_table;

static inline v16 v16_pair(__m256 lo, __m256 hi) {
    v16 r = {lo, hi};
    return r;
}
static inline v16i v16i_pair(__m256i lo, __m256i hi) {
    v16i r = {lo, hi};
    return r;
}

static inline v16 v16_zero(void) { return v16_pair(_mm256_setzero_ps(), _mm256_setzero_ps()); }
static inline v16 v16_set(float x) { return v16_pair(_mm256_set1_ps(x), _mm256_set1_ps(x)); }
static inline v16 v16_load(const float *p) {
    return v16_pair(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8));
}
static inline void v16_store(float *p, v16 x) {
    _mm256_storeu_ps(p, x.lo);
    _mm256_storeu_ps(p + 8, x.hi);
}
static inline v16 v16_add(v16 a, v16 b) {
    return v16_pair(_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi));
}
static inline v16 v16_sub(v16 a, v16 b) {
    return v16_pair(_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi));
}
static inline v16 v16_mul(v16 a, v16 b) {
    return v16_pair(_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi));
}
/* a * b + c with one rounding: for kernels of the fast profile only. */
static inline v16 v16_fma(v16 a, v16 b, v16 c) {
    return v16_pair(_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi));
}
static inline v16 v16_div(v16 a, v16 b) {
    return v16_pair(_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi));
}
/* a < b ? a : b, and a > b ? a : b: b when either is NaN. */
static inline v16 v16_min(v16 a, v16 b) {
    return v16_pair(_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi));
}
static inline v16 v16_max(v16 a, v16 b) {
    return v16_pair(_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi));
}
/* a < b ? x : y. */
static inline v16 v16_if_less(v16 a, v16 b, v16 x, v16 y) {
    return v16_pair(_mm256_blendv_ps(y.lo, x.lo, _mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ)),
                    _mm256_blendv_ps(y.hi, x.hi, _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ)));
}

static inline v16i v16_bits(v16 x) {
    return v16i_pair(_mm256_castps_si256(x.lo), _mm256_castps_si256(x.hi));
}
static inline v16 v16_of_bits(v16i x) {
    return v16_pair(_mm256_castsi256_ps(x.lo), _mm256_castsi256_ps(x.hi));
}
static inline v16i v16i_set(uint32_t x) {
    return v16i_pair(_mm256_set1_epi32((int)x), _mm256_set1_epi32((int)x));
}
static inline v16i v16i_add(v16i a, v16i b) {
    return v16i_pair(_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi));
}
static inline v16i v16i_sub(v16i a, v16i b) {
    return v16i_pair(_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi));
}
static inline v16i v16i_and(v16i a, v16i b) {
    return v16i_pair(_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi));
}
static inline v16i v16i_or(v16i a, v16i b) {
    return v16i_pair(_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi));
}
static inline v16i v16i_half(v16i a) { /* towards -infinity */
    return v16i_pair(_mm256_srai_epi32(a.lo, 1), _mm256_srai_epi32(a.hi, 1));
}
static inline v16i v16i_left23(v16i a) {
    return v16i_pair(_mm256_slli_epi32(a.lo, 23), _mm256_slli_epi32(a.hi, 23));
}
static inline v16i v16i_right(v16i a, int n) {
    __m128i count = _mm_cvtsi32_si128(n);
    return v16i_pair(_mm256_srl_epi32(a.lo, count), _mm256_srl_epi32(a.hi, count));
}
static inline v16i v16i_right16(v16i a) {
    return v16i_pair(_mm256_srli_epi32(a.lo, 16), _mm256_srli_epi32(a.hi, 16));
}
static inline v16 v16_of_int(v16i a) {
    return v16_pair(_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi));
}

/* Lanes 2i and 2i + 1 change places. */
static inline v16 v16_swap_pairs(v16 x) {
    return v16_pair(_mm256_permute_ps(x.lo, 0xB1), _mm256_permute_ps(x.hi, 0xB1));
}

static inline float v16_first(v16 x) { return _mm256_cvtss_f32(x.lo); }

/* The tree of lanes.h: lane i + lane i+8, then +4, +2, +1. */
static inline float v16_join(v16 x) {
    __m256 s8 = _mm256_add_ps(x.lo, x.hi);
    __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
    __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
    return _mm_cvtss_f32(_mm_add_ss(s2, _mm_shuffle_ps(s2, s2, 1)));
}

/* v16_join of four. */
static inline void v16_join4(const v16 x[4], float *out) {
    __m256 s8[4];
    for (int i = 0; i < 4; i++)
        s8[i] = _mm256_add_ps(x[i].lo, x[i].hi);
    __m256 ab = _mm256_add_ps(_mm256_permute2f128_ps(s8[0], s8[1], 0x20),
                              _mm256_permute2f128_ps(s8[0], s8[1], 0x31));
    __m256 cd = _mm256_add_ps(_mm256_permute2f128_ps(s8[2], s8[3], 0x20),
                              _mm256_permute2f128_ps(s8[2], s8[3], 0x31));
    /* a and c in the lower half, b and d in the upper: lanes i + i+2, then the two of each */
    __m256 s2 = _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xEE));
    __m256 s1 = _mm256_hadd_ps(s2, s2);
    _mm_storeu_ps(out, _mm_unpacklo_ps(_mm256_castps256_ps128(s1), _mm256_extractf128_ps(s1, 1)));
}

static inline float v16_largest(v16 x) {
    __m256 m8 = _mm256_max_ps(x.lo, x.hi);
    __m128 m4 = _mm_max_ps(_mm256_castps256_ps128(m8), _mm256_extractf128_ps(m8, 1));
    __m128 m2 = _mm_max_ps(m4, _mm_movehl_ps(m4, m4));
    return _mm_cvtss_f32(_mm_max_ss(m2, _mm_shuffle_ps(m2, m2, 1)));
}

static inline v16 v16_load_bf16(const void *p) {
    __m256i lo = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    __m256i hi = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p + 1));
    return v16_pair(_mm256_castsi256_ps(_mm256_slli_epi32(lo, 16)),
                    _mm256_castsi256_ps(_mm256_slli_epi32(hi, 16)));
}
/* 32 values of bf16: those at even places and those at odd ones. */
static inline void v16_load_pairs(const void *p, v16 *even, v16 *odd) {
    __m256i lo = _mm256_loadu_si256((const __m256i *)p);
    __m256i hi = _mm256_loadu_si256((const __m256i *)p + 1);
    __m256i upper = _mm256_set1_epi32((int)0xFFFF0000u);
    *even = v16_pair(_mm256_castsi256_ps(_mm256_slli_epi32(lo, 16)),
                     _mm256_castsi256_ps(_mm256_slli_epi32(hi, 16)));
    *odd = v16_pair(_mm256_castsi256_ps(_mm256_and_si256(lo, upper)),
                    _mm256_castsi256_ps(_mm256_and_si256(hi, upper)));
}
/* The first n < 32, then zeros. */
static inline void v16_load_pairs_part(const void *p, int64_t n, v16 *even, v16 *odd) {
    uint8_t part[64] = {0};
    memcpy(part, p, (size_t)n * 2);
    v16_load_pairs(part, even, odd);
}
static inline v16 v16_load_f16(const void *p) {
    return v16_pair(_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)),
                    _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p + 1)));
}
/* The first n < 16 elements at p; zeros in the other lanes. Reads nothing behind them. */
static inline v16 v16_load_part(const void *p, mica_dtype t, int64_t n) {
    uint8_t part[64] = {0};
    memcpy(part, p, (size_t)n * (t == MICA_F32 ? 4 : 2));
    if (t == MICA_F32) return v16_load((const float *)(const void *)part);
    return t == MICA_BF16 ? v16_load_bf16(part) : v16_load_f16(part);
}
/* The upper halves of already rounded lanes (vector/round.h). */
static inline void v16_store_upper(void *p, v16 x) {
    __m256i lo = _mm256_srli_epi32(_mm256_castps_si256(x.lo), 16);
    __m256i hi = _mm256_srli_epi32(_mm256_castps_si256(x.hi), 16);
    __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(lo, hi), 0xD8);
    _mm256_storeu_si256((__m256i *)p, packed);
}
static inline void v16_store_f16(void *p, v16 x) {
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(x.lo, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128((__m128i *)p + 1, _mm256_cvtps_ph(x.hi, _MM_FROUND_TO_NEAREST_INT));
}
static inline v16 v16_round_f16(v16 x) {
    return v16_pair(_mm256_cvtph_ps(_mm256_cvtps_ph(x.lo, _MM_FROUND_TO_NEAREST_INT)),
                    _mm256_cvtph_ps(_mm256_cvtps_ph(x.hi, _MM_FROUND_TO_NEAREST_INT)));
}
/* `other` where x is NaN. */
static inline v16 v16_if_nan(v16 x, v16 other, v16 otherwise) {
    __m256 lo = _mm256_cmp_ps(x.lo, x.lo, _CMP_UNORD_Q);
    __m256 hi = _mm256_cmp_ps(x.hi, x.hi, _CMP_UNORD_Q);
    return v16_pair(_mm256_blendv_ps(otherwise.lo, other.lo, lo),
                    _mm256_blendv_ps(otherwise.hi, other.hi, hi));
}

static inline __m128 cube4(__m128 x) {
    __m256d d = _mm256_cvtps_pd(x);
    return _mm256_cvtpd_ps(_mm256_mul_pd(_mm256_mul_pd(d, d), d));
}
static inline __m256 cube8(__m256 x) {
    return _mm256_set_m128(cube4(_mm256_extractf128_ps(x, 1)), cube4(_mm256_castps256_ps128(x)));
}
/* x * x * x in double, rounded once to f32 as (float)((double)x * x * x). */
static inline v16 v16_cube(v16 x) { return v16_pair(cube8(x.lo), cube8(x.hi)); }

/* r[i] lane j becomes r[j] lane i. */
static inline void turn8(__m256 r[8]) {
    __m256 t[8], u[8];
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        u[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        u[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xEE);
        u[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        u[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xEE);
    }
    for (int i = 0; i < 4; i++) {
        r[i] = _mm256_permute2f128_ps(u[i], u[4 + i], 0x20);
        r[4 + i] = _mm256_permute2f128_ps(u[i], u[4 + i], 0x31);
    }
}

/* t[i] lane j becomes t[j] lane i. */
static inline void v16_turn(v16 t[16]) {
    __m256 part[4][8]; /* quarters: rows 0..7 and 8..15 of the lower, of the upper lanes */
    for (int i = 0; i < 8; i++) {
        part[0][i] = t[i].lo;
        part[1][i] = t[8 + i].lo;
        part[2][i] = t[i].hi;
        part[3][i] = t[8 + i].hi;
    }
    for (int q = 0; q < 4; q++)
        turn8(part[q]);
    for (int i = 0; i < 8; i++) {
        t[i] = v16_pair(part[0][i], part[1][i]);
        t[8 + i] = v16_pair(part[2][i], part[3][i]);
    }
}

/* ---- 16 codes of a bitstream: a chunk is 2 * bits bytes ---- */
typedef struct v16_unpacker {
    __m256i shuffle[2], shift[2], mask; /* two bytes to each lane, then shift and mask */
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
    v16_unpacker u;
    for (int h = 0; h < 2; h++) {
        u.shuffle[h] = _mm256_loadu_si256((const __m256i *)(const void *)shuffle + h);
        u.shift[h] = _mm256_loadu_si256((const __m256i *)(const void *)shift + h);
    }
    u.mask = _mm256_set1_epi32((1 << bits) - 1);
    return u;
}

/* Bits 3, 5 and 6 read 16 bytes at p, the others 2 * bits. */
static inline v16i v16_codes(const v16_unpacker *u, const uint8_t *p, int bits) {
    __m256i bytes;
    if (bits == 8) {
        __m128i all = _mm_loadu_si128((const __m128i *)p);
        return v16i_pair(_mm256_cvtepu8_epi32(all), _mm256_cvtepu8_epi32(_mm_srli_si128(all, 8)));
    }
    if (bits == 2) {
        uint32_t word;
        memcpy(&word, p, 4);
        bytes = _mm256_set1_epi32((int)word);
    } else if (bits == 4) {
        uint64_t word;
        memcpy(&word, p, 8);
        bytes = _mm256_set1_epi64x((long long)word);
    } else {
        bytes = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p));
    }
    __m256i lo = _mm256_srlv_epi32(_mm256_shuffle_epi8(bytes, u->shuffle[0]), u->shift[0]);
    __m256i hi = _mm256_srlv_epi32(_mm256_shuffle_epi8(bytes, u->shuffle[1]), u->shift[1]);
    return v16i_pair(_mm256_and_si256(lo, u->mask), _mm256_and_si256(hi, u->mask));
}

static inline v16_table v16_table_load(const float values[16]) { return v16_load(values); }

static inline __m256 look_up8(const v16_table *t, __m256i codes) {
    __m256 low = _mm256_permutevar8x32_ps(t->lo, codes); /* by the lowest three bits */
    __m256 high = _mm256_permutevar8x32_ps(t->hi, codes);
    __m256 upper = _mm256_castsi256_ps(_mm256_slli_epi32(codes, 28)); /* bit 3 to the sign */
    return _mm256_blendv_ps(low, high, upper);
}
static inline v16 v16_look_up(const v16_table *t, v16i codes) {
    return v16_pair(look_up8(t, codes.lo), look_up8(t, codes.hi));
}
static inline v16 v16_gather(const float *values, v16i codes) {
    return v16_pair(_mm256_i32gather_ps(values, codes.lo, 4),
                    _mm256_i32gather_ps(values, codes.hi, 4));
}

#endif
