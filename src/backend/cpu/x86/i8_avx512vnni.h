/* i8_avx512vnni.h: bytes times bytes with AVX-512 VNNI, unpacking with VBMI; what
 * vector/matmul_i8.h is written in. i8_avx2.h has the same operations.
 */
#ifndef MICA_BACKEND_CPU_X86_I8_AVX512VNNI_H
#define MICA_BACKEND_CPU_X86_I8_AVX512VNNI_H

#include "backend/cpu/x86/v16_avx512.h"

#include "backend/cpu/i8_form.h"

/* 4 x 3 dots and as many sums: 24 of 32 registers. Eight dots alone wait for their own latency. */
#define I8_TILE_ROWS 4
#define I8_TILE_VECS 3
#define I8_WIDE_DIFFERS 0
#define I8_FEW_ROWS 3 /* more rows of x pay for a tile */
#define I8_HAS_PANELS 1
#define I8_PANEL_SPLITS 0
#define I8_TILE_LIFTS 1

static inline v16i i8_load(const uint8_t *p) { return _mm512_loadu_si512(p); }
static inline v16i i8_dot(v16i acc, v16i codes, v16i x, bool is_wide) {
    (void)is_wide;
    return _mm512_dpbusd_epi32(acc, codes, x);
}
static inline v16i i8_times_fine(v16i a) { return _mm512_slli_epi32(a, 7); }
static inline v16 i8_fma(v16 a, v16 b, v16 c) { return _mm512_fmadd_ps(a, b, c); }

/* ---- unpacking: eight codes are `bits` bytes; they go to eight bytes, are shifted, masked ---- */
/* What puts a tile's codes ROWS_I8_ZERO above what they count, unless they have a bias. */
static inline __m512i i8_lift_of(const i8_form *f) {
    return _mm512_set1_epi8((char)(f->has_bias ? 0 : ROWS_I8_ZERO - f->zero));
}

typedef struct i8_unpacker {
    __m512i place, shift, mask, table, lift;
    bool is_table;
} i8_unpacker;

static inline i8_unpacker i8_unpacker_init(const i8_form *f) {
    uint8_t place[64], shift[64];
    for (int i = 0; i < 64; i++) {
        int octet = i / 8, byte = i % 8;
        place[i] = (uint8_t)(octet * f->bits + (byte < f->bits ? byte : 0));
        shift[i] = (uint8_t)(byte * f->bits);
    }
    i8_unpacker u = {_mm512_loadu_si512(place),
                     _mm512_loadu_si512(shift),
                     _mm512_set1_epi8((char)((1 << f->bits) - 1)),
                     _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)f->table)),
                     i8_lift_of(f),
                     f->is_table};
    return u;
}

/* 64 codes in order; those behind n_bytes are code 0. */
static inline __m512i i8_codes_64(const i8_unpacker *u, int bits, const uint8_t *p,
                                  int64_t n_bytes) {
    int n = n_bytes < 8 * bits ? (int)n_bytes : 8 * bits;
    __mmask64 m = n <= 0 ? 0 : UINT64_MAX >> (64 - n);
    __m512i bytes = _mm512_maskz_loadu_epi8(m, p);
    bytes = _mm512_permutexvar_epi8(u->place, bytes);
    bytes = _mm512_and_si512(_mm512_multishift_epi64_epi8(u->shift, bytes), u->mask);
    return u->is_table ? _mm512_shuffle_epi8(u->table, bytes) : bytes;
}

/* Codes of 16 weight rows of n_bytes each: four of each row side by side, in 64 bytes at every
 * 64 * I8_TILE_VECS bytes of the tile. */
static inline void i8_unpack(const i8_form *f, const uint8_t *const rows[16], int64_t n_bytes,
                             uint8_t *tile) {
    const i8_unpacker u = i8_unpacker_init(f);
    for (int64_t off = 0; off < n_bytes; off += 8 * f->bits) {
        __m512i r[16];
#pragma GCC unroll 16
        for (int j = 0; j < 16; j++)
            r[j] = _mm512_add_epi8(i8_codes_64(&u, f->bits, rows[j] + off, n_bytes - off), u.lift);
        v16_turn_bits(r);
#pragma GCC unroll 16
        for (int k = 0; k < 16; k++)
            _mm512_storeu_si512(tile + k * 64 * I8_TILE_VECS, r[k]);
        tile += 16 * 64 * I8_TILE_VECS;
    }
}

/* t[i] lane j = row j, element i, rows being `stride` floats apart. */
static inline void i8_turn_floats(const float *rows, int64_t stride, v16 t[16]) {
    __m512i r[16];
#pragma GCC unroll 16
    for (int j = 0; j < 16; j++)
        r[j] = _mm512_loadu_si512(rows + j * stride);
    v16_turn_bits(r);
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++)
        t[i] = _mm512_castsi512_ps(r[i]);
}

/* ---- panels ---- */
static inline void i8_keep(uint8_t *p, v16i x) { _mm512_storeu_si512(p, x); }

/* Nothing is split. */
static inline void i8_panel_order(int64_t n, bool is_fine, const uint8_t *row, uint8_t *to) {
    memcpy(to, row, (size_t)rows_i8_bytes(n, is_fine));
}

typedef struct i8_quad_source {
    __m512i mask, table, lift;
} i8_quad_source;

static inline v16i i8_lift(const i8_quad_source *s, v16i codes) {
    return _mm512_add_epi8(codes, s->lift);
}

static inline i8_quad_source i8_quad_source_init(const i8_form *f) {
    i8_quad_source s = {_mm512_set1_epi8((char)((1 << f->bits) - 1)),
                        _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)f->table)),
                        i8_lift_of(f)};
    return s;
}

/* The bits at which the bytes of two lanes begin when four codes begin at bit `first` of each. */
static inline __m512i i8_cut(int first, int bits) {
    uint64_t at = UINT64_C(0x2020202000000000) + (uint64_t)bits * UINT64_C(0x0302010003020100) +
                  (uint64_t)first * UINT64_C(0x0101010101010101);
    return _mm512_set1_epi64((long long)at);
}

/* Eight registers of four codes of 16 rows, of the `bits` words of each at p; constants but for p.
 */
static inline __attribute__((always_inline)) void i8_panel_quads(const i8_quad_source *s,
                                                                 const uint8_t *p, int bits,
                                                                 bool splits, bool is_table,
                                                                 v16i q[8]) {
    __m512i words[9];
    (void)splits;
#pragma GCC unroll 8
    for (int i = 0; i < bits; i++)
        words[i] = _mm512_loadu_si512(p + 64 * i);
#pragma GCC unroll 8
    for (int k = 0; k < 8; k++) {
        int word = k * 4 * bits / 32, first = k * 4 * bits % 32;
        if (bits == 8) {
            q[k] = words[k];
            continue;
        }
        __m512i from = words[word];
        if (first + 4 * bits > 32) {
            from = _mm512_or_si512(_mm512_srli_epi32(from, (unsigned)first),
                                   _mm512_slli_epi32(words[word + 1], (unsigned)(32 - first)));
            first = 0;
        }
        from = _mm512_multishift_epi64_epi8(i8_cut(first, bits), from);
        q[k] = _mm512_and_si512(from, s->mask);
        if (is_table) q[k] = _mm512_shuffle_epi8(s->table, q[k]);
    }
}

#include "backend/cpu/x86/i8_stream_avx512vnni.h"

/* ---- quantizing 32 floats ---- */
static inline uint32_t i8_largest_bits(const float *x) {
    __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF);
    __m512i a = _mm512_and_si512(_mm512_loadu_si512(x), magnitude);
    __m512i b = _mm512_and_si512(_mm512_loadu_si512(x + 16), magnitude);
    return _mm512_reduce_max_epu32(_mm512_max_epu32(a, b));
}

/* rest NULL: codes of one byte. */
static inline void i8_round_group(const float *x, float inverse, uint8_t *codes, uint8_t *rest,
                                  int sums[2]) {
    for (int i = 0; i < 2; i++) {
        __m512 scaled = _mm512_mul_ps(_mm512_loadu_ps(x + 16 * i), _mm512_set1_ps(inverse));
        __m512i q = _mm512_cvtps_epi32(scaled);
        _mm_storeu_si128((__m128i *)(codes + 16 * i), _mm512_cvtepi32_epi8(q));
        if (rest) {
            __m512 left = _mm512_sub_ps(scaled, _mm512_cvtepi32_ps(q));
            left = _mm512_mul_ps(left, _mm512_set1_ps((float)ROWS_I8_FINE));
            __m512i fine = _mm512_cvtps_epi32(left);
            _mm_storeu_si128((__m128i *)(rest + 16 * i), _mm512_cvtepi32_epi8(fine));
            q = _mm512_add_epi32(i8_times_fine(q), fine);
        }
        sums[i] = _mm512_reduce_add_epi32(q);
    }
}

#include "backend/cpu/vector/i8_dots.h"

#endif
