/* i8_way.h: the kinds of tiles that matmul_i8.h multiplies. An i8 header comes first: it says how
 * many rows and outputs its tile has.
 */
#ifndef MICA_BACKEND_CPU_VECTOR_I8_WAY_H
#define MICA_BACKEND_CPU_VECTOR_I8_WAY_H

#include <stdbool.h>

#define I8_UNIT_OUTS (16 * I8_TILE_VECS)

/* Constants wherever a tile is multiplied. */
typedef struct i8_way {
    int n_x; /* 1 or I8_TILE_ROWS */
    int block;
    bool is_wide, is_fine;
    bool has_bias; /* else dots begin with what the zero point makes of x */
} i8_way;

#endif
