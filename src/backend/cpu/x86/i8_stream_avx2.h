/* i8_stream_avx2.h: one row of x times 16 weight rows, codes going from memory through registers
 * into the dots; part of i8_avx2.h.
 *
 * A step takes 64 codes of each weight row and makes registers whose lower half holds four partial
 * dots of one block and whose upper half those of the next; eight rows of them are turned and added
 * into the dots of eight outputs. Of four bits in blocks of 32 the codes are the low and the high
 * halves of the bytes as they come, and x lies in the same order (i8_order); others come in their
 * own order. Codes above 127 do not fit maddubs: they are taken as signed, 128 (127 of a table)
 * less, and the sum of x makes up for it.
 */
#ifndef MICA_BACKEND_CPU_X86_I8_STREAM_AVX2_H
#define MICA_BACKEND_CPU_X86_I8_STREAM_AVX2_H

#define I8_INLINE static inline __attribute__((always_inline))

/* Constants wherever a row is streamed. */
typedef struct i8_stream_way {
    int bits, block;
    bool is_table, is_wide, is_fine;
    bool splits; /* 64 codes come as those of even and of odd places */
} i8_stream_way;

/* Two registers of four partial dots each of two blocks: of blocks of 32 only `a`. */
typedef struct i8_quads {
    __m256i a, b;
} i8_quads;

typedef struct i8_stream_constants {
    __m256i table; /* wide: the signed values */
    uint64_t mask; /* for pdep: eight codes to eight bytes */
} i8_stream_constants;

/* Bytes 0, 2, 4 ... then 1, 3, 5 ... of 64. */
I8_INLINE void i8_split_64(const uint8_t *from, uint8_t *to) {
    for (int i = 0; i < 32; i++) {
        to[i] = from[2 * i];
        to[32 + i] = from[2 * i + 1];
    }
}

static inline bool i8_splits(const i8_form *f) { return f->bits == 4 && f->block == 32; }

/* Copies a quantized row; its codes come in the order of the weight's. */
static inline void i8_order(const i8_form *f, int64_t n, bool is_fine, const uint8_t *row,
                            uint8_t *to) {
    memcpy(to, row, (size_t)rows_i8_bytes(n, is_fine));
    if (!i8_splits(f)) return;
    for (int part = 0; part < 1 + is_fine; part++) {
        int64_t off = part ? rows_i8_rest(n) : 0;
        for (int64_t i = off; i < off + rows_i8_padded(n); i += 64)
            i8_split_64(row + i, to + i);
    }
}

I8_INLINE __m256i i8_load_x(const uint8_t *p) { return _mm256_loadu_si256((const __m256i *)p); }

/* Sums of four products a lane. */
I8_INLINE __m256i i8_dot_32(__m256i codes, __m256i x, bool is_wide) {
    if (is_wide) {
        __m256i size = _mm256_abs_epi8(codes);
        return _mm256_madd_epi16(_mm256_maddubs_epi16(size, _mm256_sign_epi8(x, codes)),
                                 _mm256_set1_epi16(1));
    }
    return _mm256_madd_epi16(_mm256_maddubs_epi16(codes, x), _mm256_set1_epi16(1));
}

/* The dots of 32 codes with x, and with the rest of a fine row. */
I8_INLINE __m256i i8_dot_fine(__m256i codes, const uint8_t *x, int64_t rest,
                              const i8_stream_way *way) {
    __m256i d = i8_dot_32(codes, i8_load_x(x), way->is_wide);
    if (!way->is_fine) return d;
    return _mm256_add_epi32(_mm256_slli_epi32(d, 7),
                            i8_dot_32(codes, i8_load_x(x + rest), way->is_wide));
}

/* 32 codes in their order; p has 4 * bits bytes, and a tail of 8 that may be read. */
I8_INLINE __m256i i8_codes_32(const i8_stream_constants *c, const uint8_t *p,
                              const i8_stream_way *way) {
    __m256i codes;
    if (way->bits == 8) {
        codes = i8_load_x(p);
        return way->is_wide ? _mm256_xor_si256(codes, _mm256_set1_epi8(-128)) : codes;
    }
    if (way->bits == 4) {
        __m256i bytes = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)p));
        codes = _mm256_or_si256(bytes, _mm256_slli_epi16(bytes, 4));
        codes = _mm256_and_si256(codes, _mm256_set1_epi8(15));
    } else {
        uint64_t packed[4];
        for (int i = 0; i < 4; i++) {
            memcpy(&packed[i], p + i * way->bits, 8);
            packed[i] = _pdep_u64(packed[i], c->mask);
        }
        codes = _mm256_set_epi64x((long long)packed[3], (long long)packed[2], (long long)packed[1],
                                  (long long)packed[0]);
    }
    return way->is_table ? _mm256_shuffle_epi8(c->table, codes) : codes;
}

/* 64 codes at p times x. */
I8_INLINE i8_quads i8_row_quads(const i8_stream_constants *c, const uint8_t *p, const uint8_t *x,
                                int64_t rest, const i8_stream_way *way) {
    i8_quads r;
    if (way->splits) {
        const __m256i low = _mm256_set1_epi8(15);
        __m256i bytes = i8_load_x(p), even = _mm256_and_si256(bytes, low);
        __m256i odd = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), low);
        if (way->is_table) {
            even = _mm256_shuffle_epi8(c->table, even);
            odd = _mm256_shuffle_epi8(c->table, odd);
        }
        r.a =
            _mm256_add_epi32(i8_dot_fine(even, x, rest, way), i8_dot_fine(odd, x + 32, rest, way));
        r.b = _mm256_setzero_si256();
        return r;
    }
    r.a = i8_dot_fine(i8_codes_32(c, p, way), x, rest, way);
    r.b = i8_dot_fine(i8_codes_32(c, p + 4 * way->bits, way), x + 32, rest, way);
    if (way->block == 16) return r;
    r.a = _mm256_add_epi32(_mm256_permute2x128_si256(r.a, r.b, 0x20),
                           _mm256_permute2x128_si256(r.a, r.b, 0x31));
    return r;
}

/* Eight rows of two blocks: dots[0] and dots[1] get the sums of each block, a lane a row. */
I8_INLINE void i8_add_eight(const __m256i d[8], __m256i dots[2]) {
    __m256i four[2];
    for (int i = 0; i < 2; i++) {
        const __m256i *r = d + 4 * i;
        __m256i s01 =
            _mm256_add_epi32(_mm256_unpacklo_epi32(r[0], r[1]), _mm256_unpackhi_epi32(r[0], r[1]));
        __m256i s23 =
            _mm256_add_epi32(_mm256_unpacklo_epi32(r[2], r[3]), _mm256_unpackhi_epi32(r[2], r[3]));
        four[i] =
            _mm256_add_epi32(_mm256_unpacklo_epi64(s01, s23), _mm256_unpackhi_epi64(s01, s23));
    }
    dots[0] = _mm256_permute2x128_si256(four[0], four[1], 0x20);
    dots[1] = _mm256_permute2x128_si256(four[0], four[1], 0x31);
}

/* What the sums of x in the blocks of a step add to the dots of wide codes: lane k of a block. */
I8_INLINE void i8_make_up(const uint8_t *x, int64_t rest, const i8_stream_way *way, int *sums) {
    const int n_codes = way->block, offset = way->is_table ? 127 : 128;
    for (int b = 0; b < 64 / n_codes; b++) {
        int sum = 0;
        for (int i = 0; i < n_codes; i++) {
            int at = way->splits ? b * 16 + (i & 15) + (i >> 4) * 32 : b * n_codes + i;
            sum += (way->is_fine ? ROWS_I8_FINE : 1) * (int8_t)x[at];
            if (way->is_fine) sum += (int8_t)x[rest + at];
        }
        sums[b] = sum * offset;
    }
}

/* One block: its dots of 16 rows into the sums. */
I8_INLINE void i8_add_block(const i8_form *f, const i8_lanes *l, const uint8_t *x, int64_t b,
                            const i8_stream_way *way, v16i dots, v16 *acc) {
    const float *x_scales = (const float *)(const void *)(x + rows_i8_scales(l->n_in));
    const float *x_sums =
        (const float *)(const void *)(x + (way->block == 32 ? rows_i8_sums(l->n_in)
                                                            : rows_i8_halves(l->n_in)));
    int64_t group = (b >> f->block_shift) * l->stride;
    v16 s = v16_mul(v16_load(l->scales + group), v16_set(x_scales[b * way->block / ROWS_I8_GROUP]));
    if (f->has_bias)
        *acc = i8_fma(v16_load(l->biases + group), v16_set(x_sums[b]), *acc);
    else
        dots = v16i_add(dots, v16i_set((uint32_t)i8_zero_dot(f, x, l->n_in, b)));
    *acc = i8_fma(s, v16_of_int(dots), *acc);
}

I8_INLINE void i8_stream_step(const i8_stream_constants *c, const i8_lanes *l,
                              const uint8_t *const rows[16], const uint8_t *x,
                              const i8_stream_way *way, v16i dots[4]) {
    const int64_t rest = rows_i8_rest(l->n_in);
    for (int half = 0; half < 2; half++) {
        __m256i a[8], b[8], sums[4];
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++) {
            i8_quads q = i8_row_quads(c, rows[8 * half + j], x, rest, way);
            a[j] = q.a;
            b[j] = q.b;
        }
        i8_add_eight(a, sums);
        if (way->block == 16) i8_add_eight(b, sums + 2);
        for (int k = 0; k < 64 / way->block; k++) {
            if (half)
                dots[k].hi = sums[k];
            else
                dots[k].lo = sums[k];
        }
    }
}

I8_INLINE void i8_stream_way_run(const i8_form *f, const i8_lanes *l, const uint8_t *const rows[16],
                                 const uint8_t *x, const i8_stream_way *way, float *sums) {
    const i8_stream_constants c = {
        way->is_wide && way->is_table
            ? _mm256_sub_epi8(
                  _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)f->table)),
                  _mm256_set1_epi8(127))
            : _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)f->table)),
        0x0101010101010101u * ((1u << f->bits) - 1u)};
    const int n_step = 64 / way->block, step_bytes = 8 * way->bits;
    v16 acc = v16_zero();
    for (int64_t b = 0; b < l->n_blocks; b += n_step) {
        int64_t off = b * way->block * way->bits / 8, left = l->row_bytes - off;
        const uint8_t *at_rows[16];
        uint8_t tail[16][72]; /* so that nothing behind a row is read */
        bool is_tail = left < step_bytes + 8;
        for (int j = 0; j < 16; j++) {
            at_rows[j] = rows[j] + off;
            if (!is_tail) continue;
            memset(tail[j], 0, sizeof(tail[j]));
            memcpy(tail[j], at_rows[j], (size_t)(left < step_bytes ? left : step_bytes));
            at_rows[j] = tail[j];
        }
        v16i dots[4];
        i8_stream_step(&c, l, at_rows, x + b * way->block, way, dots);
        int extra[4] = {0};
        if (way->is_wide) i8_make_up(x + b * way->block, rows_i8_rest(l->n_in), way, extra);
        int64_t n = l->n_blocks - b < n_step ? l->n_blocks - b : n_step;
        for (int64_t i = 0; i < n; i++) {
            if (way->is_wide) dots[i] = v16i_add(dots[i], v16i_set((uint32_t)extra[i]));
            i8_add_block(f, l, x, b + i, way, dots[i], &acc);
        }
    }
    v16_store(sums, acc);
}

I8_INLINE void i8_stream_fine(const i8_form *f, const i8_lanes *l, const uint8_t *const rows[16],
                              const uint8_t *x, i8_stream_way way, bool is_fine, float *sums) {
    if (is_fine) {
        way.is_fine = true;
        i8_stream_way_run(f, l, rows, x, &way, sums);
    } else {
        way.is_fine = false;
        i8_stream_way_run(f, l, rows, x, &way, sums);
    }
}

/* sums[j] = x times weight row j. */
static inline void i8_stream(const i8_form *f, const i8_lanes *lanes, const uint8_t *const rows[16],
                             const uint8_t *x, bool is_fine, float *sums) {
    const bool t = f->is_table, w = f->is_wide, halves = f->block == 16;
    if (f->bits == 4 && !t && !halves)
        i8_stream_fine(f, lanes, rows, x, (i8_stream_way){.bits = 4, .block = 32, .splits = true},
                       is_fine, sums);
    else if (f->bits == 8 && !halves)
        i8_stream_fine(f, lanes, rows, x, (i8_stream_way){.bits = 8, .block = 32, .is_wide = true},
                       is_fine, sums);
    else if (f->bits == 4 && w && !halves)
        i8_stream_fine(
            f, lanes, rows, x,
            (i8_stream_way){
                .bits = 4, .block = 32, .is_table = true, .is_wide = true, .splits = true},
            is_fine, sums);
    else if (f->bits == 4 && !halves)
        i8_stream_fine(f, lanes, rows, x,
                       (i8_stream_way){.bits = 4, .block = 32, .is_table = true, .splits = true},
                       is_fine, sums);
    else if (!halves)
        i8_stream_fine(f, lanes, rows, x, (i8_stream_way){.bits = f->bits, .block = 32}, is_fine,
                       sums);
    else
        i8_stream_fine(f, lanes, rows, x,
                       (i8_stream_way){.bits = f->bits, .block = 16, .is_table = t, .is_wide = w},
                       is_fine, sums);
}

#endif
