/* i8_dots.h: rows of x times a tile in which four codes of an output lie side by side, for ISAs
 * that add four products of bytes. The end of an i8 header.
 */
#ifndef MICA_BACKEND_CPU_VECTOR_I8_DOTS_H
#define MICA_BACKEND_CPU_VECTOR_I8_DOTS_H

#include "backend/cpu/vector/i8_way.h"

/* dots += codes * x for the rows at x + off, four codes at a time. */
I8_INLINE void i8_dots(v16i dots[I8_TILE_ROWS][I8_TILE_VECS], const uint8_t *tile,
                       const uint8_t *const *x, int64_t off, const i8_way *way) {
#pragma GCC unroll 8
    for (int k = 0; k < way->block; k += 4) {
        v16i codes[I8_TILE_VECS];
#pragma GCC unroll 4
        for (int v = 0; v < I8_TILE_VECS; v++)
            codes[v] = i8_load(tile + k * I8_UNIT_OUTS + 64 * v);
#pragma GCC unroll 4
        for (int i = 0; i < way->n_x; i++) {
            uint32_t word;
            memcpy(&word, x[i] + off + k, 4);
            v16i xs = v16i_set(word);
#pragma GCC unroll 4
            for (int v = 0; v < I8_TILE_VECS; v++)
                dots[i][v] = i8_dot(dots[i][v], codes[v], xs, way->is_wide);
        }
    }
}

#endif
