/* i8_tile.h: the tile of vector/matmul_i8.h for machines that multiply four bytes by four: four
 * codes of 16 outputs side by side. i8_i8mm.h has another.
 */
#ifndef MICA_BACKEND_CPU_ARM_I8_TILE_H
#define MICA_BACKEND_CPU_ARM_I8_TILE_H

#include "backend/cpu/arm/i8_bytes.h"

/* Codes of 16 weight rows of n_bytes each: four of each row side by side, in 64 bytes at every
 * 64 * I8_TILE_VECS bytes of the tile. */
static inline void i8_unpack(const i8_form *f, const uint8_t *const rows[16], int64_t n_bytes,
                             uint8_t *tile) {
    const i8_unpacker u = i8_unpacker_init(f);
    const int64_t step = 64 * I8_TILE_VECS;
    for (int64_t off = 0; off < n_bytes; off += 2 * f->bits, tile += 4 * step)
        for (int j = 0; j < 16; j += 4) {
            uint32x4_t r[4];
            for (int i = 0; i < 4; i++)
                r[i] = vreinterpretq_u32_u8(
                    i8_codes_16(&u, f->bits, rows[j + i] + off, n_bytes - off));
            uint64x2_t a = vreinterpretq_u64_u32(vtrn1q_u32(r[0], r[1]));
            uint64x2_t b = vreinterpretq_u64_u32(vtrn2q_u32(r[0], r[1]));
            uint64x2_t c = vreinterpretq_u64_u32(vtrn1q_u32(r[2], r[3]));
            uint64x2_t d = vreinterpretq_u64_u32(vtrn2q_u32(r[2], r[3]));
            vst1q_u8(tile + 4 * j, vreinterpretq_u8_u64(vzip1q_u64(a, c)));
            vst1q_u8(tile + 4 * j + step, vreinterpretq_u8_u64(vzip1q_u64(b, d)));
            vst1q_u8(tile + 4 * j + 2 * step, vreinterpretq_u8_u64(vzip2q_u64(a, c)));
            vst1q_u8(tile + 4 * j + 3 * step, vreinterpretq_u8_u64(vzip2q_u64(b, d)));
        }
}

#include "backend/cpu/vector/i8_dots.h"

#endif
