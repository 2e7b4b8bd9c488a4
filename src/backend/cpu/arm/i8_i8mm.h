/* i8_i8mm.h: bytes times bytes with the matrix instructions of Armv8.6, unsigned by signed; what
 * vector/matmul_i8.h is written in.
 *
 * One instruction multiplies eight codes of two outputs by those of two rows of x. So a tile holds
 * eight codes of an output side by side, then those of the next; the two by two sums of a block are
 * taken apart at its end.
 */
#ifndef MICA_BACKEND_CPU_ARM_I8_I8MM_H
#define MICA_BACKEND_CPU_ARM_I8_I8MM_H

#include "backend/cpu/arm/v16_neon.h"

/* Two pairs of rows by eight pairs of outputs: 16 of 32 registers. The sums wait in memory. */
#define I8_TILE_ROWS 4
#define I8_TILE_VECS 1
#define I8_WIDE_DIFFERS 0

static inline int32x4_t i8_dot_quad(int32x4_t acc, uint8x16_t codes, int8x16_t x, bool is_wide) {
    (void)is_wide;
    return vusdotq_s32(acc, codes, x);
}

#include "backend/cpu/arm/i8_bytes.h"
#include "backend/cpu/vector/i8_way.h"

/* Codes of 16 weight rows of n_bytes each: eight of each row side by side, 128 bytes for 16 rows.
 */
static inline void i8_unpack(const i8_form *f, const uint8_t *const rows[16], int64_t n_bytes,
                             uint8_t *tile) {
    const i8_unpacker u = i8_unpacker_init(f);
    for (int64_t off = 0; off < n_bytes; off += 2 * f->bits, tile += 256)
        for (int j = 0; j < 16; j += 2) {
            int64_t left = n_bytes - off;
            uint64x2_t a = vreinterpretq_u64_u8(i8_codes_16(&u, f->bits, rows[j] + off, left));
            uint64x2_t b = vreinterpretq_u64_u8(i8_codes_16(&u, f->bits, rows[j + 1] + off, left));
            vst1q_u8(tile + 8 * j, vreinterpretq_u8_u64(vzip1q_u64(a, b)));
            vst1q_u8(tile + 8 * j + 128, vreinterpretq_u8_u64(vzip2q_u64(a, b)));
        }
}

/* Eight codes of each of two rows. */
I8_INLINE int8x16_t i8_two_rows(const uint8_t *a, const uint8_t *b) {
    return vreinterpretq_s8_u8(vcombine_u8(vld1_u8(a), vld1_u8(b)));
}

/* dots += codes * x for the rows at x + off, a pair at a time. */
I8_INLINE void i8_dots(v16i dots[I8_TILE_ROWS][I8_TILE_VECS], const uint8_t *tile,
                       const uint8_t *const *x, int64_t off, const i8_way *way) {
    int32x4_t acc[I8_TILE_ROWS / 2][8];
#pragma GCC unroll 4
    for (int i = 0; i < way->n_x; i += 2)
#pragma GCC unroll 8
        for (int p = 0; p < 8; p++)
            acc[i / 2][p] = vdupq_n_s32(0);
#pragma GCC unroll 4
    for (int k = 0; k < way->block; k += 8) {
        int8x16_t xs[I8_TILE_ROWS / 2];
#pragma GCC unroll 4
        for (int i = 0; i < way->n_x; i += 2)
            xs[i / 2] = i8_two_rows(x[i] + off + k, x[way->n_x == 1 ? 0 : i + 1] + off + k);
#pragma GCC unroll 8
        for (int p = 0; p < 8; p++) {
            uint8x16_t codes = vld1q_u8(tile + 16 * k + 16 * p);
#pragma GCC unroll 4
            for (int i = 0; i < way->n_x; i += 2)
                acc[i / 2][p] = vusmmlaq_s32(acc[i / 2][p], codes, xs[i / 2]);
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < way->n_x; i++)
#pragma GCC unroll 4
        for (int q = 0; q < 4; q++) {
            int32x4_t a = acc[i / 2][2 * q], b = acc[i / 2][2 * q + 1];
            int32x4_t sums = i % 2 ? vuzp2q_s32(a, b) : vuzp1q_s32(a, b);
            dots[i][0].q[q] = vaddq_u32(dots[i][0].q[q], vreinterpretq_u32_s32(sums));
        }
}

#endif
