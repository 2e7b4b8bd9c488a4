/* i8_neon.h: bytes times bytes on any 64-bit Arm; what vector/matmul_i8.h is written in.
 *
 * Products are added in pairs in 16 bits: 2 * 128 * 127 fits. Codes above 127 are taken as signed,
 * 128 less, and the sum of x makes up for it.
 */
#ifndef MICA_BACKEND_CPU_ARM_I8_NEON_H
#define MICA_BACKEND_CPU_ARM_I8_NEON_H

#include "backend/cpu/arm/v16_neon.h"

/* 2 rows of dots and sums, 4 registers each: 16 of 32. */
#define I8_TILE_ROWS 2
#define I8_TILE_VECS 1
#define I8_WIDE_DIFFERS 1

static inline int32x4_t i8_dot_quad(int32x4_t acc, uint8x16_t codes, int8x16_t x, bool is_wide) {
    int8x16_t c = vreinterpretq_s8_u8(is_wide ? veorq_u8(codes, vdupq_n_u8(0x80)) : codes);
    int16x8_t lo = vmull_s8(vget_low_s8(c), vget_low_s8(x)), hi = vmull_high_s8(c, x);
    acc = vpadalq_s16(acc, vpaddq_s16(lo, hi));
    if (!is_wide) return acc;
    return vaddq_s32(acc, vshlq_n_s32(vpaddlq_s16(vpaddlq_s8(x)), 7));
}

#include "backend/cpu/arm/i8_tile.h"

#endif
