/* bf16_tiles.h: the tile instructions of matmul_bf16_amx.c: four tiles of sums (0 to 3), two of
 * weights (4 and 5), two of rows (6 and 7).
 *
 * They are written out with a memory clobber: gcc 12's own wrappers let stores that fill a tile's
 * buffer move past the load.
 */
#ifndef MICA_BACKEND_CPU_X86_BF16_TILES_H
#define MICA_BACKEND_CPU_X86_BF16_TILES_H

#include <stdbool.h>
#include <stdint.h>

#define TILE_INLINE static inline __attribute__((always_inline))

enum { TILE_BYTES = 1024, TILE_FLOATS = 256 };

/* What LDTILECFG reads: palette 1, then bytes of a row and rows of each tile. */
typedef struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_config;

static inline void begin_tiles(void) {
    tile_config config = {.palette = 1};
    for (int t = 0; t < 8; t++) {
        config.row_bytes[t] = 64;
        config.rows[t] = 16;
    }
    __asm__ volatile("ldtilecfg %0" ::"m"(config) : "memory");
}

static inline void end_tiles(void) { __asm__ volatile("tilerelease" ::: "memory"); }

TILE_INLINE void zero_sums(void) {
    __asm__ volatile("tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3" ::
                         : "memory");
}

/* Sums are four tiles, one after the other. */
TILE_INLINE void load_sums(const float *p) {
    __asm__ volatile("tileloadd (%0,%4,1), %%tmm0\n\ttileloadd (%1,%4,1), %%tmm1\n\t"
                     "tileloadd (%2,%4,1), %%tmm2\n\ttileloadd (%3,%4,1), %%tmm3" ::"r"(p),
                     "r"(p + TILE_FLOATS), "r"(p + 2 * TILE_FLOATS), "r"(p + 3 * TILE_FLOATS),
                     "r"((int64_t)64)
                     : "memory");
}

TILE_INLINE void store_sums(float *p) {
    __asm__ volatile("tilestored %%tmm0, (%0,%4,1)\n\ttilestored %%tmm1, (%1,%4,1)\n\t"
                     "tilestored %%tmm2, (%2,%4,1)\n\ttilestored %%tmm3, (%3,%4,1)" ::"r"(p),
                     "r"(p + TILE_FLOATS), "r"(p + 2 * TILE_FLOATS), "r"(p + 3 * TILE_FLOATS),
                     "r"((int64_t)64)
                     : "memory");
}

/* A step of 32 outputs times 32 rows, or the first 16: each pointer is at one tile. The weights
 * stay in the first-level cache while rows pass by: loads of those ask to be forgotten (T1). */
TILE_INLINE void multiply(const uint8_t *w0, const uint8_t *w1, const uint8_t *x0,
                          const uint8_t *x1, bool both) {
    __asm__ volatile("tileloadd (%0,%3,1), %%tmm4\n\ttileloaddt1 (%2,%3,1), %%tmm6\n\t"
                     "tileloadd (%1,%3,1), %%tmm5\n\ttdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\t"
                     "tdpbf16ps %%tmm6, %%tmm5, %%tmm2" ::"r"(w0),
                     "r"(w1), "r"(x0), "r"((int64_t)64)
                     : "memory");
    if (!both) return;
    __asm__ volatile("tileloaddt1 (%0,%1,1), %%tmm7\n\ttdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
                     "tdpbf16ps %%tmm7, %%tmm5, %%tmm3" ::"r"(x1),
                     "r"((int64_t)64)
                     : "memory");
}

#endif
