/* i8_bytes.h: what the products of bytes of all Arm variants share: the lanes of
 * vector/matmul_i8.h, unpacking, and one row of x times 16 weight rows.
 *
 * A header that includes this one has i8_dot_quad before: lane l of a register of four sums gets
 * the products of bytes 4l .. 4l + 3. Sixteen codes are 2 * bits bytes; of four bits they are the
 * low and the high halves of eight bytes, of eight the bytes, else two bytes go to each code, are
 * shifted and masked.
 */
#ifndef MICA_BACKEND_CPU_ARM_I8_BYTES_H
#define MICA_BACKEND_CPU_ARM_I8_BYTES_H

#include "backend/cpu/i8_form.h"

#define I8_INLINE static inline __attribute__((always_inline))
#define I8_FEW_ROWS 3 /* more rows of x pay for a tile */

static inline v16i i8_load(const uint8_t *p) {
    v16i r;
    for (int i = 0; i < 4; i++)
        r.q[i] = vreinterpretq_u32_u8(vld1q_u8(p + 16 * i));
    return r;
}
static inline v16i i8_dot(v16i acc, v16i codes, v16i x, bool is_wide) {
    v16i r;
    for (int i = 0; i < 4; i++) {
        int32x4_t sum = vreinterpretq_s32_u32(acc.q[i]);
        r.q[i] = vreinterpretq_u32_s32(i8_dot_quad(sum, vreinterpretq_u8_u32(codes.q[i]),
                                                   vreinterpretq_s8_u32(x.q[i]), is_wide));
    }
    return r;
}
static inline v16i i8_times_fine(v16i a) {
    v16i r;
    for (int i = 0; i < 4; i++)
        r.q[i] = vshlq_n_u32(a.q[i], 7);
    return r;
}
static inline v16 i8_fma(v16 a, v16 b, v16 c) { return v16_fma(a, b, c); }

/* ---- unpacking ---- */
typedef struct i8_unpacker {
    uint8x16_t place[2]; /* two bytes to each of eight words */
    int16x8_t shift[2];  /* to the right */
    uint8x16_t mask, table;
    bool is_table;
} i8_unpacker;

static inline i8_unpacker i8_unpacker_init(const i8_form *f) {
    uint8_t place[32];
    int16_t shift[16];
    for (int i = 0; i < 16; i++) {
        int byte = i * f->bits >> 3, off = i * f->bits & 7;
        place[2 * i] = (uint8_t)byte;
        place[2 * i + 1] = off + f->bits > 8 ? (uint8_t)(byte + 1) : 0x80;
        shift[i] = (int16_t)-off;
    }
    i8_unpacker u;
    for (int h = 0; h < 2; h++) {
        u.place[h] = vld1q_u8(place + 16 * h);
        u.shift[h] = vld1q_s16(shift + 8 * h);
    }
    u.mask = vdupq_n_u8((uint8_t)((1 << f->bits) - 1));
    u.table = vld1q_u8(f->table);
    u.is_table = f->is_table;
    return u;
}

/* 16 codes of other than 4 and 8 bits, in order; reads 16 bytes. */
I8_INLINE uint8x16_t i8_spread_16(const i8_unpacker *u, const uint8_t *p) {
    uint8x16_t bytes = vld1q_u8(p);
    uint16x8_t lo = vreinterpretq_u16_u8(vqtbl1q_u8(bytes, u->place[0]));
    uint16x8_t hi = vreinterpretq_u16_u8(vqtbl1q_u8(bytes, u->place[1]));
    lo = vshlq_u16(lo, u->shift[0]);
    hi = vshlq_u16(hi, u->shift[1]);
    return vandq_u8(vuzp1q_u8(vreinterpretq_u8_u16(lo), vreinterpretq_u8_u16(hi)), u->mask);
}

/* 16 codes in order, of a row of which n_bytes are left. */
static inline uint8x16_t i8_codes_16(const i8_unpacker *u, int bits, const uint8_t *p,
                                     int64_t n_bytes) {
    uint8x16_t codes;
    if (bits == 8) {
        codes = vld1q_u8(p);
    } else if (bits == 4) {
        uint8x8_t bytes = vld1_u8(p), lo = vand_u8(bytes, vdup_n_u8(15)), hi = vshr_n_u8(bytes, 4);
        codes = vcombine_u8(vzip1_u8(lo, hi), vzip2_u8(lo, hi));
    } else {
        uint8_t part[16] = {0};
        if (n_bytes < 16) {
            memcpy(part, p, 2 * (size_t)bits);
            p = part;
        }
        codes = i8_spread_16(u, p);
    }
    return u->is_table ? vqtbl1q_u8(u->table, codes) : codes;
}

/* t[i] lane j = row j, element i, rows being `stride` floats apart. */
static inline void i8_turn_floats(const float *rows, int64_t stride, v16 t[16]) {
    for (int j = 0; j < 16; j++)
        t[j] = v16_load(rows + j * stride);
    v16_turn(t);
}

/* ---- one row of x times 16 weight rows, codes going from memory through registers ---- */

/* Constants wherever a row is streamed. */
typedef struct i8_stream_way {
    int bits, block;
    bool is_wide, is_fine;
} i8_stream_way;

/* Copies a quantized row; its codes come in the order of the weight's: of four bits those of even
 * places of a block, then those of odd ones. */
static inline void i8_order(const i8_form *f, int64_t n, bool is_fine, const uint8_t *row,
                            uint8_t *to) {
    memcpy(to, row, (size_t)rows_i8_bytes(n, is_fine));
    if (f->bits != 4) return;
    for (int part = 0; part < 1 + is_fine; part++) {
        int64_t off = part ? rows_i8_rest(n) : 0;
        for (int64_t i = off; i < off + rows_i8_padded(n); i += f->block) {
            uint8x16_t a = vld1q_u8(row + i);
            uint8x16_t b = f->block == 32 ? vld1q_u8(row + i + 16) : a;
            uint8x16_t even = vuzp1q_u8(a, b), odd = vuzp2q_u8(a, b);
            if (f->block == 32) {
                vst1q_u8(to + i, even);
                vst1q_u8(to + i + 16, odd);
            } else {
                vst1q_u8(to + i, vcombine_u8(vget_low_u8(even), vget_low_u8(odd)));
            }
        }
    }
}

/* The codes of a block of 16 or 32, in the order of i8_order. Other than 4 and 8 bits read 16
 * bytes from the last 16 codes on. */
I8_INLINE void i8_block_codes(const i8_unpacker *u, const uint8_t *p, const i8_stream_way *way,
                              uint8x16_t codes[2]) {
    const int bits = way->bits;
    if (bits == 8) {
        codes[0] = vld1q_u8(p);
        if (way->block == 32) codes[1] = vld1q_u8(p + 16);
    } else if (bits == 4 && way->block == 32) {
        uint8x16_t bytes = vld1q_u8(p);
        codes[0] = vandq_u8(bytes, vdupq_n_u8(15));
        codes[1] = vshrq_n_u8(bytes, 4);
    } else if (bits == 4) {
        uint8x8_t bytes = vld1_u8(p);
        codes[0] = vcombine_u8(vand_u8(bytes, vdup_n_u8(15)), vshr_n_u8(bytes, 4));
    } else {
        codes[0] = i8_spread_16(u, p);
        if (way->block == 32) codes[1] = i8_spread_16(u, p + 2 * bits);
    }
    for (int i = 0; u->is_table && i < way->block / 16; i++)
        codes[i] = vqtbl1q_u8(u->table, codes[i]);
}

/* Four partial dots of one block of one weight row. */
I8_INLINE int32x4_t i8_block_quad(const i8_unpacker *u, const uint8_t *p, const uint8_t *x,
                                  int64_t rest, const i8_stream_way *way) {
    uint8x16_t codes[2];
    int32x4_t d = vdupq_n_s32(0);
    i8_block_codes(u, p, way, codes);
    for (int i = 0; i < way->block / 16; i++)
        d = i8_dot_quad(d, codes[i], vreinterpretq_s8_u8(vld1q_u8(x + 16 * i)), way->is_wide);
    if (!way->is_fine) return d;
    d = vshlq_n_s32(d, 7);
    for (int i = 0; i < way->block / 16; i++)
        d = i8_dot_quad(d, codes[i], vreinterpretq_s8_u8(vld1q_u8(x + rest + 16 * i)),
                        way->is_wide);
    return d;
}

/* The dots of one block of 16 weight rows. */
I8_INLINE v16i i8_block_dots(const i8_unpacker *u, const uint8_t *const rows[16], int64_t off,
                             const uint8_t *x, int64_t rest, const i8_stream_way *way) {
    v16i dots;
#pragma GCC unroll 4
    for (int q = 0; q < 4; q++) {
        int32x4_t d[4];
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++)
            d[j] = i8_block_quad(u, rows[4 * q + j] + off, x, rest, way);
        dots.q[q] =
            vreinterpretq_u32_s32(vpaddq_s32(vpaddq_s32(d[0], d[1]), vpaddq_s32(d[2], d[3])));
    }
    return dots;
}

/* The last bytes of 16 rows, with zeros behind them, so that nothing behind a row is read. */
static inline void i8_copy_tails(const uint8_t *const rows[16], int64_t off, int64_t n_bytes,
                                 uint8_t tails[16][48], const uint8_t *to[16]) {
    for (int j = 0; j < 16; j++) {
        memset(tails[j], 0, 48);
        memcpy(tails[j], rows[j] + off, (size_t)(n_bytes < 48 ? n_bytes : 48));
        to[j] = tails[j];
    }
}

I8_INLINE void i8_stream_way_run(const i8_form *f, const i8_lanes *l, const uint8_t *const rows[16],
                                 const uint8_t *x, i8_stream_way way, float *sums) {
    const i8_unpacker u = i8_unpacker_init(f);
    const int64_t n = l->n_in, rest = rows_i8_rest(n);
    const float *x_scales = (const float *)(const void *)(x + rows_i8_scales(n));
    const float *x_sums =
        (const float *)(const void *)(x + (way.block == 32 ? rows_i8_sums(n) : rows_i8_halves(n)));
    const int64_t block_bytes = way.block * way.bits / 8;
    const int64_t reach = way.bits == 4 || way.bits == 8
                              ? block_bytes
                              : block_bytes - 2 * way.bits + 16; /* bytes that a block reads */
    v16 acc = v16_zero();
    for (int64_t b = 0; b < l->n_blocks; b++) {
        int64_t off = b * block_bytes, left = l->row_bytes - off;
        const uint8_t *x_block = x + b * way.block;
        v16i dots;
        if (left < reach) {
            uint8_t tails[16][48];
            const uint8_t *ends[16];
            i8_copy_tails(rows, off, left, tails, ends);
            dots = i8_block_dots(&u, ends, 0, x_block, rest, &way);
        } else {
            dots = i8_block_dots(&u, rows, off, x_block, rest, &way);
        }
        int64_t group = (b >> f->block_shift) * l->stride;
        v16 s =
            v16_mul(v16_load(l->scales + group), v16_set(x_scales[b * way.block / ROWS_I8_GROUP]));
        if (f->has_bias)
            acc = i8_fma(v16_load(l->biases + group), v16_set(x_sums[b]), acc);
        else
            dots = v16i_add(dots, v16i_set((uint32_t)i8_zero_dot(f, x, n, b)));
        acc = i8_fma(s, v16_of_int(dots), acc);
    }
    v16_store(sums, acc);
}

I8_INLINE void i8_stream_bits(const i8_form *f, const i8_lanes *l, const uint8_t *const rows[16],
                              const uint8_t *x, i8_stream_way way, float *sums) {
    if (way.bits == 4) {
        way.bits = 4;
        i8_stream_way_run(f, l, rows, x, way, sums);
    } else if (way.bits == 8) {
        way.bits = 8;
        i8_stream_way_run(f, l, rows, x, way, sums);
    } else {
        i8_stream_way_run(f, l, rows, x, way, sums);
    }
}

I8_INLINE void i8_stream_wide(const i8_form *f, const i8_lanes *l, const uint8_t *const rows[16],
                              const uint8_t *x, i8_stream_way way, float *sums) {
    if (I8_WIDE_DIFFERS && f->is_wide) {
        way.is_wide = true;
        i8_stream_bits(f, l, rows, x, way, sums);
    } else {
        way.is_wide = false;
        i8_stream_bits(f, l, rows, x, way, sums);
    }
}

/* sums[j] = x times weight row j. */
static inline void i8_stream(const i8_form *f, const i8_lanes *lanes, const uint8_t *const rows[16],
                             const uint8_t *x, bool is_fine, float *sums) {
    const i8_stream_way way = {.bits = f->bits};
    if (f->block == 32 && is_fine)
        i8_stream_wide(f, lanes, rows, x, (i8_stream_way){way.bits, 32, false, true}, sums);
    else if (f->block == 32)
        i8_stream_wide(f, lanes, rows, x, (i8_stream_way){way.bits, 32, false, false}, sums);
    else if (is_fine)
        i8_stream_wide(f, lanes, rows, x, (i8_stream_way){way.bits, 16, false, true}, sums);
    else
        i8_stream_wide(f, lanes, rows, x, (i8_stream_way){way.bits, 16, false, false}, sums);
}

/* ---- quantizing 32 floats ---- */
static inline uint32_t i8_largest_bits(const float *x) {
    uint32x4_t most = vdupq_n_u32(0), magnitude = vdupq_n_u32(0x7FFFFFFFu);
    for (int i = 0; i < 32; i += 4)
        most = vmaxq_u32(most, vandq_u32(vreinterpretq_u32_f32(vld1q_f32(x + i)), magnitude));
    return vmaxvq_u32(most);
}

/* The low bytes of 16 lanes. */
static inline void i8_store_bytes(uint8_t *p, const int32x4_t q[4]) {
    int16x8_t lo = vcombine_s16(vmovn_s32(q[0]), vmovn_s32(q[1]));
    int16x8_t hi = vcombine_s16(vmovn_s32(q[2]), vmovn_s32(q[3]));
    vst1q_u8(p, vreinterpretq_u8_s8(vcombine_s8(vmovn_s16(lo), vmovn_s16(hi))));
}

/* rest NULL: codes of one byte. */
static inline void i8_round_group(const float *x, float inverse, uint8_t *codes, uint8_t *rest,
                                  int sums[2]) {
    for (int h = 0; h < 2; h++) {
        int32x4_t code[4], fine[4], sum = vdupq_n_s32(0);
        for (int i = 0; i < 4; i++) {
            float32x4_t scaled = vmulq_f32(vld1q_f32(x + 16 * h + 4 * i), vdupq_n_f32(inverse));
            code[i] = vcvtnq_s32_f32(scaled);
            float32x4_t left = vsubq_f32(scaled, vcvtq_f32_s32(code[i]));
            fine[i] = vcvtnq_s32_f32(vmulq_f32(left, vdupq_n_f32((float)ROWS_I8_FINE)));
            sum = vaddq_s32(sum, rest ? vaddq_s32(vshlq_n_s32(code[i], 7), fine[i]) : code[i]);
        }
        i8_store_bytes(codes + 16 * h, code);
        if (rest) i8_store_bytes(rest + 16 * h, fine);
        sums[h] = vaddvq_s32(sum);
    }
}

#endif
