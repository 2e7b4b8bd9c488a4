/* i8_avx2.h: bytes times bytes with AVX2, unpacking with BMI2; what vector/matmul_i8.h is written
 * in. i8_avx512vnni.h has the same operations.
 *
 * maddubs adds pairs of products in 16 bits: 2 * 127 * 127 fits, so codes up to 127 are exact. A
 * wider code is cut into two halves of 4 bits.
 */
#ifndef MICA_BACKEND_CPU_X86_I8_AVX2_H
#define MICA_BACKEND_CPU_X86_I8_AVX2_H

#include "backend/cpu/x86/v16_avx2.h"

#include "backend/cpu/i8_form.h"

/* 2 rows of dots and sums, 2 registers each: 8 of 16. */
#define I8_TILE_ROWS 2
#define I8_TILE_VECS 1
#define I8_WIDE_DIFFERS 1
#define I8_FEW_ROWS 4 /* more rows of x pay for a tile */
#define I8_HAS_PANELS 1
/* Of four bits, quads are the even and the odd codes of eight where x lies so too: i8_panel_order.
 */
#define I8_PANEL_SPLITS 1

static inline v16i i8_load(const uint8_t *p) {
    return v16i_pair(_mm256_loadu_si256((const __m256i *)p),
                     _mm256_loadu_si256((const __m256i *)(p + 32)));
}

static inline __m256i i8_dot_half(__m256i acc, __m256i codes, __m256i x, bool is_wide) {
    const __m256i ones = _mm256_set1_epi16(1), low = _mm256_set1_epi8(15);
    if (!is_wide)
        return _mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_maddubs_epi16(codes, x), ones));
    __m256i upper = _mm256_and_si256(_mm256_srli_epi16(codes, 4), low);
    __m256i dots = _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_and_si256(codes, low), x), ones);
    acc = _mm256_add_epi32(acc, dots);
    dots = _mm256_madd_epi16(_mm256_maddubs_epi16(upper, x), _mm256_set1_epi16(16));
    return _mm256_add_epi32(acc, dots);
}

static inline v16i i8_dot(v16i acc, v16i codes, v16i x, bool is_wide) {
    v16i r = {i8_dot_half(acc.lo, codes.lo, x.lo, is_wide),
              i8_dot_half(acc.hi, codes.hi, x.hi, is_wide)};
    return r;
}

static inline __m256i i8_half_times_fine(__m256i a) { return _mm256_slli_epi32(a, 7); }
static inline v16i i8_times_fine(v16i a) {
    return v16i_pair(i8_half_times_fine(a.lo), i8_half_times_fine(a.hi));
}

static inline v16 i8_fma(v16 a, v16 b, v16 c) {
    v16 r = {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
    return r;
}

/* Codes of 16 weight rows of n_bytes each: four of each row side by side, in 64 bytes at every
 * 64 * I8_TILE_VECS bytes of the tile. Eight codes are `bits` bytes. */
static inline void i8_unpack(const i8_form *f, const uint8_t *const rows[16], int64_t n_bytes,
                             uint8_t *tile) {
    const uint64_t mask = 0x0101010101010101u * ((1u << f->bits) - 1u);
    const __m128i table = _mm_loadu_si128((const __m128i *)f->table);
    for (int j = 0; j < 16; j++) {
        uint8_t *to = tile + 4 * j;
        for (int64_t off = 0; off < n_bytes; off += f->bits) {
            uint64_t packed = 0, codes;
            if (n_bytes - off >= 8)
                memcpy(&packed, rows[j] + off, 8);
            else
                memcpy(&packed, rows[j] + off, (size_t)f->bits);
            codes = _pdep_u64(packed, mask);
            if (f->is_table) {
                __m128i values = _mm_shuffle_epi8(table, _mm_cvtsi64_si128((long long)codes));
                codes = (uint64_t)_mm_cvtsi128_si64(values);
            }
            memcpy(to, &codes, 4);
            memcpy(to + 64 * I8_TILE_VECS, (const uint8_t *)&codes + 4, 4);
            to += 2 * 64 * I8_TILE_VECS;
        }
    }
}

/* t[i] lane j = row j, element i, rows being `stride` floats apart. */
static inline void i8_turn_floats(const float *rows, int64_t stride, v16 t[16]) {
    for (int i = 0; i < 16; i++) {
        float lane[16];
        for (int j = 0; j < 16; j++)
            lane[j] = rows[j * stride + i];
        t[i] = v16_load(lane);
    }
}

/* ---- panels ---- */
static inline void i8_keep(uint8_t *p, v16i x) {
    _mm256_storeu_si256((__m256i *)p, x.lo);
    _mm256_storeu_si256((__m256i *)(p + 32), x.hi);
}

static inline void i8_panel_order(int64_t n, bool is_fine, const uint8_t *row, uint8_t *to) {
    const __m128i order = _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
    memcpy(to, row, (size_t)rows_i8_bytes(n, is_fine));
    for (int part = 0; part < 1 + is_fine; part++) {
        int64_t off = part ? rows_i8_rest(n) : 0;
        for (int64_t i = off; i < off + rows_i8_padded(n); i += 16) {
            __m128i *p = (__m128i *)(void *)(to + i);
            _mm_storeu_si128(p, _mm_shuffle_epi8(_mm_loadu_si128(p), order));
        }
    }
}

typedef struct i8_quad_source {
    __m256i table;
} i8_quad_source;

static inline v16i i8_lift(const i8_quad_source *s, v16i codes) {
    (void)s;
    return codes;
}

static inline i8_quad_source i8_quad_source_init(const i8_form *f) {
    i8_quad_source s = {_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)f->table))};
    return s;
}

/* Four codes from bit 0 of each lane become bytes. */
static inline __attribute__((always_inline)) __m256i i8_spread(__m256i v, int bits) {
    const int mask = (1 << bits) - 1;
    __m256i r = _mm256_and_si256(v, _mm256_set1_epi32(mask));
#pragma GCC unroll 3
    for (int j = 1; j < 4; j++) {
        __m256i moved = _mm256_slli_epi32(v, (8 - bits) * j);
        moved = _mm256_and_si256(moved, _mm256_set1_epi32((int)((unsigned)mask << (8 * j))));
        r = _mm256_or_si256(r, moved);
    }
    return r;
}

/* Quads of eight rows, of words 64 bytes apart at p. */
static inline __attribute__((always_inline)) void i8_half_quads(const i8_quad_source *s,
                                                                const uint8_t *p, int bits,
                                                                bool splits, bool is_table,
                                                                __m256i q[8]) {
    const __m256i low = _mm256_set1_epi8(15);
    __m256i words[9];
#pragma GCC unroll 8
    for (int i = 0; i < bits; i++)
        words[i] = _mm256_loadu_si256((const __m256i *)(const void *)(p + 64 * i));
#pragma GCC unroll 8
    for (int k = 0; k < 8; k++) {
        int first = k * 4 * bits % 32;
        __m256i v = words[k * 4 * bits / 32];
        if (bits == 4 && splits) {
            q[k] = _mm256_and_si256(k % 2 ? _mm256_srli_epi16(v, 4) : v, low);
        } else if (bits == 8) {
            q[k] = v;
        } else {
            if (first) v = _mm256_srli_epi32(v, first);
            if (first + 4 * bits > 32)
                v = _mm256_or_si256(v, _mm256_slli_epi32(words[k * 4 * bits / 32 + 1], 32 - first));
            q[k] = i8_spread(v, bits);
        }
        if (is_table) q[k] = _mm256_shuffle_epi8(s->table, q[k]);
    }
}

/* Eight registers of four codes of 16 rows, of the `bits` words of each at p; constants but for p.
 */
static inline __attribute__((always_inline)) void i8_panel_quads(const i8_quad_source *s,
                                                                 const uint8_t *p, int bits,
                                                                 bool splits, bool is_table,
                                                                 v16i q[8]) {
    __m256i lo[8], hi[8];
    i8_half_quads(s, p, bits, splits, is_table, lo);
    i8_half_quads(s, p + 32, bits, splits, is_table, hi);
#pragma GCC unroll 8
    for (int k = 0; k < 8; k++)
        q[k] = v16i_pair(lo[k], hi[k]);
}

#include "backend/cpu/x86/i8_stream_avx2.h"

/* ---- quantizing 32 floats ---- */
static inline uint32_t i8_largest_bits(const float *x) {
    __m256i most = _mm256_setzero_si256(), magnitude = _mm256_set1_epi32(0x7FFFFFFF);
    for (int i = 0; i < 32; i += 8) {
        __m256i bits = _mm256_loadu_si256((const __m256i *)(const void *)(x + i));
        most = _mm256_max_epu32(most, _mm256_and_si256(bits, magnitude));
    }
    __m128i m = _mm_max_epu32(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0x4E));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0xB1));
    return (uint32_t)_mm_cvtsi128_si32(m);
}

static inline int i8_add_lanes(__m256i a, __m256i b) {
    __m256i s = _mm256_add_epi32(a, b);
    __m128i t = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
    t = _mm_add_epi32(t, _mm_shuffle_epi32(t, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(t, _mm_shuffle_epi32(t, 0xB1)));
}

static inline void i8_store_bytes(uint8_t *p, v16i q) {
    __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(q.lo, q.hi), 0xD8);
    __m128i bytes =
        _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128((__m128i *)p, bytes);
}

static inline v16i i8_nearest(v16 x) {
    return v16i_pair(_mm256_cvtps_epi32(x.lo), _mm256_cvtps_epi32(x.hi));
}

/* rest NULL: codes of one byte. */
static inline void i8_round_group(const float *x, float inverse, uint8_t *codes, uint8_t *rest,
                                  int sums[2]) {
    for (int i = 0; i < 2; i++) {
        v16 scaled = v16_mul(v16_load(x + 16 * i), v16_set(inverse));
        v16i q = i8_nearest(scaled);
        i8_store_bytes(codes + 16 * i, q);
        if (rest) {
            v16 left = v16_mul(v16_sub(scaled, v16_of_int(q)), v16_set((float)ROWS_I8_FINE));
            v16i fine = i8_nearest(left);
            i8_store_bytes(rest + 16 * i, fine);
            q = v16i_add(i8_times_fine(q), fine);
        }
        sums[i] = i8_add_lanes(q.lo, q.hi);
    }
}

#include "backend/cpu/vector/i8_dots.h"

#endif
