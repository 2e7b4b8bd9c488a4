/* peak_amx.c: products of tiles, four sums from two tiles a side, as a matmul would have them.
 *
 * The tiles hold ordinary numbers: with zeros the products come faster than any matmul's.
 * The instructions are written out with a memory clobber: gcc 12's own wrappers let stores that
 * fill a tile's buffer move past the load.
 */
#include <string.h>

#include "backend/cpu/peak.h"
#include "backend/cpu/x86/tiles.h"

enum { N_TILES = 8, ROWS = 16, ROW_BYTES = 64, PRODUCTS = 4 };

/* What LDTILECFG reads: palette 1, then bytes of a row and rows of each tile. */
typedef struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_config;

static void load_config(void) {
    tile_config config = {.palette = 1};
    for (int t = 0; t < N_TILES; t++) {
        config.row_bytes[t] = ROW_BYTES;
        config.rows[t] = ROWS;
    }
    __asm__ volatile("ldtilecfg %0" ::"m"(config) : "memory");
}

/* Numbers of either sign below 1 in bf16, any bytes in int8. */
static void begin(void) {
    uint16_t numbers[4][ROWS * ROW_BYTES / 2];
    uint32_t state = 1;
    for (int t = 0; t < 4; t++)
        for (int i = 0; i < ROWS * ROW_BYTES / 2; i++) {
            state = state * 1664525u + 1013904223u;
            numbers[t][i] =
                (uint16_t)(state >> 16 & 0x807Fu) | (uint16_t)((119 + (state >> 29)) << 7);
        }
    load_config();
    __asm__ volatile("tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3" ::
                         : "memory");
    __asm__ volatile("tileloadd (%0,%4,1), %%tmm4\n\ttileloadd (%1,%4,1), %%tmm5\n\t"
                     "tileloadd (%2,%4,1), %%tmm6\n\ttileloadd (%3,%4,1), %%tmm7" ::"r"(numbers[0]),
                     "r"(numbers[1]), "r"(numbers[2]), "r"(numbers[3]), "r"((int64_t)ROW_BYTES)
                     : "memory");
}

static void end(void) { __asm__ volatile("tilerelease" ::: "memory"); }

static void int8_rounds(int64_t n_rounds) {
    begin();
    for (int64_t i = 0; i < n_rounds; i++)
        __asm__ volatile("tdpbusd %%tmm6, %%tmm4, %%tmm0\n\ttdpbusd %%tmm7, %%tmm4, %%tmm1\n\t"
                         "tdpbusd %%tmm6, %%tmm5, %%tmm2\n\ttdpbusd %%tmm7, %%tmm5, %%tmm3" ::
                             : "memory");
    end();
}

static void bf16_rounds(int64_t n_rounds) {
    begin();
    for (int64_t i = 0; i < n_rounds; i++)
        __asm__ volatile("tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\ttdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
                         "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\ttdpbf16ps %%tmm7, %%tmm5, %%tmm3" ::
                             : "memory");
    end();
}

const cpu_peak mica_peak_int8_amx = {
    "int8_amx", PEAK_INT8, ISA_AVX512VNNI, mica_tiles_int8, 2.0 * PRODUCTS *ROWS *ROWS *ROW_BYTES,
    int8_rounds};
const cpu_peak mica_peak_bf16_amx = {"bf16_amx",
                                     PEAK_BF16,
                                     ISA_AVX512VNNI,
                                     mica_tiles_bf16,
                                     2.0 * PRODUCTS *ROWS *ROWS *(ROW_BYTES / 2),
                                     bf16_rounds};
