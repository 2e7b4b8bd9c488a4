/* i8_dotprod.h: bytes times bytes with the dot product instructions of Armv8.2; what
 * vector/matmul_i8.h is written in.
 *
 * They multiply signed by signed: codes above 127 are taken as signed, 128 less, and the sum of x
 * makes up for it.
 */
#ifndef MICA_BACKEND_CPU_ARM_I8_DOTPROD_H
#define MICA_BACKEND_CPU_ARM_I8_DOTPROD_H

#include "backend/cpu/arm/v16_neon.h"

/* 4 rows of dots, 4 registers each: 16 of 32. The sums wait in memory within a block. */
#define I8_TILE_ROWS 4
#define I8_TILE_VECS 1
#define I8_WIDE_DIFFERS 1

static inline int32x4_t i8_dot_quad(int32x4_t acc, uint8x16_t codes, int8x16_t x, bool is_wide) {
    if (!is_wide) return vdotq_s32(acc, vreinterpretq_s8_u8(codes), x);
    int32x4_t sum = vdotq_s32(vdupq_n_s32(0), x, vdupq_n_s8(1));
    acc = vdotq_s32(acc, vreinterpretq_s8_u8(veorq_u8(codes, vdupq_n_u8(0x80))), x);
    return vaddq_s32(acc, vshlq_n_s32(sum, 7));
}

#include "backend/cpu/arm/i8_tile.h"

#endif
