/* i8_stream_avx512vnni.h: one row of x times 16 weight rows, codes going from memory through
 * registers into the dots; part of i8_avx512vnni.h.
 *
 * A step takes 128 codes of each weight row as two registers whose lane j holds four codes each of
 * codes 8j .. 8j+7, so that four lanes belong to a block of 32. Of four bits the two are the low
 * and the high halves of the bytes as they come; x lies in the same order (i8_order). The lanes of
 * four rows are turned and added, then those of 16 rows, until a register holds one block's dots of
 * 16 outputs.
 */
#ifndef MICA_BACKEND_CPU_X86_I8_STREAM_AVX512VNNI_H
#define MICA_BACKEND_CPU_X86_I8_STREAM_AVX512VNNI_H

#define I8_INLINE static inline __attribute__((always_inline))

typedef struct i8_pair {
    __m512i a, b;
} i8_pair;

/* Words 0, 2, 4 ... and 1, 3, 5 ... of 32. */
I8_INLINE i8_pair i8_split_words(__m512i lo, __m512i hi) {
    const __m512i even =
        _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    i8_pair p = {_mm512_permutex2var_epi32(lo, even, hi), _mm512_permutex2var_epi32(lo, odd, hi)};
    return p;
}

/* Bytes 0, 2, 4 ... and 1, 3, 5 ... of 128. */
I8_INLINE i8_pair i8_split_bytes(__m512i lo, __m512i hi) {
    __m512i l8 = _mm512_srli_epi16(lo, 8), h8 = _mm512_srli_epi16(hi, 8);
    i8_pair p = {_mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi16_epi8(lo)),
                                    _mm512_cvtepi16_epi8(hi), 1),
                 _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi16_epi8(l8)),
                                    _mm512_cvtepi16_epi8(h8), 1)};
    return p;
}

/* Copies a quantized row; its codes come in the order of the weight's. */
static inline void i8_order(const i8_form *f, int64_t n, bool is_fine, const uint8_t *row,
                            uint8_t *to) {
    int64_t n_padded = rows_i8_padded(n);
    memcpy(to, row, (size_t)rows_i8_bytes(n, is_fine));
    for (int part = 0; part < 1 + is_fine; part++) {
        int64_t off = part ? rows_i8_rest(n) : 0;
        for (int64_t i = off; i < off + n_padded; i += 128) {
            __m512i lo = _mm512_loadu_si512(row + i), hi = _mm512_loadu_si512(row + i + 64);
            i8_pair p = f->bits == 4 ? i8_split_bytes(lo, hi) : i8_split_words(lo, hi);
            _mm512_storeu_si512(to + i, p.a);
            _mm512_storeu_si512(to + i + 64, p.b);
        }
    }
}

/* 128 codes of a row, of which n_bytes are left. */
I8_INLINE i8_pair i8_codes_128(const i8_unpacker *u, int bits, const uint8_t *p, int64_t n_bytes,
                               bool is_table) {
    if (bits == 4) {
        __mmask64 m = n_bytes >= 64 ? UINT64_MAX : UINT64_MAX >> (64 - n_bytes);
        __m512i bytes = _mm512_maskz_loadu_epi8(m, p), low = _mm512_set1_epi8(15);
        i8_pair r = {_mm512_and_si512(bytes, low),
                     _mm512_and_si512(_mm512_srli_epi16(bytes, 4), low)};
        if (is_table) {
            r.a = _mm512_shuffle_epi8(u->table, r.a);
            r.b = _mm512_shuffle_epi8(u->table, r.b);
        }
        return r;
    }
    return i8_split_words(i8_codes_64(u, bits, p, n_bytes),
                          i8_codes_64(u, bits, p + 8 * bits, n_bytes - 8 * bits));
}

I8_INLINE __m512i i8_row_dots(i8_pair codes, const uint8_t *x, int64_t rest, bool is_fine) {
    __m512i d = _mm512_dpbusd_epi32(_mm512_setzero_si512(), codes.a, _mm512_loadu_si512(x));
    d = _mm512_dpbusd_epi32(d, codes.b, _mm512_loadu_si512(x + 64));
    if (!is_fine) return d;
    d = _mm512_dpbusd_epi32(i8_times_fine(d), codes.a, _mm512_loadu_si512(x + rest));
    return _mm512_dpbusd_epi32(d, codes.b, _mm512_loadu_si512(x + rest + 64));
}

/* Four rows: part q of a is block q (of 32), or of a and b blocks 2q and 2q + 1 (of 16). */
I8_INLINE i8_pair i8_add_four(const __m512i d[4], int block) {
    __m512i lo01 = _mm512_unpacklo_epi32(d[0], d[1]), hi01 = _mm512_unpackhi_epi32(d[0], d[1]);
    __m512i lo23 = _mm512_unpacklo_epi32(d[2], d[3]), hi23 = _mm512_unpackhi_epi32(d[2], d[3]);
    if (block == 32) {
        __m512i s01 = _mm512_add_epi32(lo01, hi01), s23 = _mm512_add_epi32(lo23, hi23);
        i8_pair p = {
            _mm512_add_epi32(_mm512_unpacklo_epi64(s01, s23), _mm512_unpackhi_epi64(s01, s23)),
            _mm512_setzero_si512()};
        return p;
    }
    i8_pair p = {
        _mm512_add_epi32(_mm512_unpacklo_epi64(lo01, lo23), _mm512_unpackhi_epi64(lo01, lo23)),
        _mm512_add_epi32(_mm512_unpacklo_epi64(hi01, hi23), _mm512_unpackhi_epi64(hi01, hi23))};
    return p;
}

/* to[q * step] = part q of each of four registers. */
I8_INLINE void i8_turn_parts(__m512i a, __m512i b, __m512i c, __m512i d, __m512i *to, int step) {
    __m512i ab0 = _mm512_shuffle_i32x4(a, b, 0x88), ab1 = _mm512_shuffle_i32x4(a, b, 0xDD);
    __m512i cd0 = _mm512_shuffle_i32x4(c, d, 0x88), cd1 = _mm512_shuffle_i32x4(c, d, 0xDD);
    to[0] = _mm512_shuffle_i32x4(ab0, cd0, 0x88);
    to[step] = _mm512_shuffle_i32x4(ab1, cd1, 0x88);
    to[2 * step] = _mm512_shuffle_i32x4(ab0, cd0, 0xDD);
    to[3 * step] = _mm512_shuffle_i32x4(ab1, cd1, 0xDD);
}

/* bits, block, is_table and is_fine: constants. */
I8_INLINE void i8_stream_way(const i8_form *f, const i8_lanes *l, const uint8_t *const rows[16],
                             const uint8_t *x, int bits, int block, bool is_fine, float *sums) {
    const i8_unpacker u = i8_unpacker_init(f);
    const int n_step = 128 / block;
    const float *x_scales = (const float *)(const void *)(x + rows_i8_scales(l->n_in));
    const float *x_sums =
        (const float *)(const void *)(x + (block == 32 ? rows_i8_sums(l->n_in)
                                                       : rows_i8_halves(l->n_in)));
    const int64_t rest = rows_i8_rest(l->n_in);
    __m512 acc = _mm512_setzero_ps();
    for (int64_t b = 0; b < l->n_blocks; b += n_step) {
        int64_t off = b * block * bits / 8;
        i8_pair fours[4];
        __m512i dots[8];
#pragma GCC unroll 4
        for (int q = 0; q < 4; q++) {
            __m512i d[4];
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++) {
                const uint8_t *p = rows[4 * q + j] + off;
                _mm_prefetch((const char *)p + 16 * l->row_bytes, _MM_HINT_T0);
                i8_pair codes = i8_codes_128(&u, bits, p, l->row_bytes - off, f->is_table);
                d[j] = i8_row_dots(codes, x + b * block, rest, is_fine);
            }
            fours[q] = i8_add_four(d, block);
        }
        i8_turn_parts(fours[0].a, fours[1].a, fours[2].a, fours[3].a, dots, block == 32 ? 1 : 2);
        if (block == 16) i8_turn_parts(fours[0].b, fours[1].b, fours[2].b, fours[3].b, dots + 1, 2);
        int64_t n = l->n_blocks - b < n_step ? l->n_blocks - b : n_step;
        for (int64_t i = 0; i < n; i++) {
            int64_t group = ((b + i) >> f->block_shift) * l->stride;
            __m512 s = _mm512_mul_ps(_mm512_loadu_ps(l->scales + group),
                                     _mm512_set1_ps(x_scales[(b + i) * block / ROWS_I8_GROUP]));
            if (f->has_bias)
                acc = _mm512_fmadd_ps(_mm512_loadu_ps(l->biases + group),
                                      _mm512_set1_ps(x_sums[b + i]), acc);
            else
                dots[i] =
                    _mm512_add_epi32(dots[i], _mm512_set1_epi32(i8_zero_dot(f, x, l->n_in, b + i)));
            acc = _mm512_fmadd_ps(s, _mm512_cvtepi32_ps(dots[i]), acc);
        }
    }
    _mm512_storeu_ps(sums, acc);
}

I8_INLINE void i8_stream_block(const i8_form *f, const i8_lanes *l, const uint8_t *const rows[16],
                               const uint8_t *x, int bits, bool is_fine, float *sums) {
    if (f->block == 32 && is_fine)
        i8_stream_way(f, l, rows, x, bits, 32, true, sums);
    else if (f->block == 32)
        i8_stream_way(f, l, rows, x, bits, 32, false, sums);
    else if (is_fine)
        i8_stream_way(f, l, rows, x, bits, 16, true, sums);
    else
        i8_stream_way(f, l, rows, x, bits, 16, false, sums);
}

/* sums[j] = x times weight row j. */
static inline void i8_stream(const i8_form *f, const i8_lanes *lanes, const uint8_t *const rows[16],
                             const uint8_t *x, bool is_fine, float *sums) {
    if (f->bits == 4)
        i8_stream_block(f, lanes, rows, x, 4, is_fine, sums);
    else if (f->bits == 8)
        i8_stream_block(f, lanes, rows, x, 8, is_fine, sums);
    else
        i8_stream_block(f, lanes, rows, x, f->bits, is_fine, sums);
}

#endif
