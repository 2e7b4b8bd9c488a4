/* panel_i8.h: weights whose rows lie in panels (weights/weights.h) times quantized rows; part of
 * vector/matmul_i8.h.
 *
 * The 16 rows of a panel are the lanes as they lie: a block of 32 elements is `bits` registers of
 * codes, which i8_panel_quads cuts into eight of four codes a lane, and 16 scales lie side by side.
 * So codes are read in one ascending stream and nothing is turned. The sums are those of
 * matmul_i8.h.
 */
#ifndef MICA_BACKEND_CPU_VECTOR_PANEL_I8_H
#define MICA_BACKEND_CPU_VECTOR_PANEL_I8_H

#include "backend/cpu/vector/lane_scales.h"

/* Codes are asked for this many bytes before they are needed, into the second-level cache. */
#define I8_PANEL_AHEAD 4096

/* Constants wherever a panel is multiplied. */
typedef struct i8_panel_way {
    int bits;
    bool halves; /* blocks of 16 */
    bool is_table, is_wide, is_fine;
} i8_panel_way;

typedef struct i8_panel {
    const uint8_t *codes;
    bool is_bf16;                   /* the stored scales; else f16 */
    const uint8_t *scales, *biases; /* [n_groups][16]; NULL: the ones formed in scratch */
    const float *formed_scales, *formed_biases; /* [n_groups][I8_UNIT_OUTS] */
} i8_panel;

/* ---- a tile for many rows ---- */

ALWAYS_INLINE void i8_panel_tile_way(const i8_weight *w, const uint8_t *codes, uint8_t *tile,
                                     int bits, bool is_table) {
    const i8_quad_source source = i8_quad_source_init(&w->form);
    for (int64_t i = 0; i < w->matrix->n_in; i += 32, codes += 64 * bits) {
        v16i q[8];
        i8_panel_quads(&source, codes, bits, false, is_table, q);
#pragma GCC unroll 8
        for (int k = 0; k < 8; k++, tile += I8_UNIT_OUTS * 4)
            i8_keep(tile, i8_lift(&source, q[k]));
    }
}

static inline void i8_panel_tile(const i8_weight *w, int64_t o, uint8_t *tile) {
    const uint8_t *codes = w->matrix->codes + (size_t)o * w->matrix->row_bytes;
    switch (w->form.bits) {
    case 2:
        i8_panel_tile_way(w, codes, tile, 2, false);
        break;
    case 3:
        i8_panel_tile_way(w, codes, tile, 3, false);
        break;
    case 4:
        if (w->form.is_table)
            i8_panel_tile_way(w, codes, tile, 4, true);
        else
            i8_panel_tile_way(w, codes, tile, 4, false);
        break;
    case 5:
        i8_panel_tile_way(w, codes, tile, 5, false);
        break;
    case 6:
        i8_panel_tile_way(w, codes, tile, 6, false);
        break;
    default:
        i8_panel_tile_way(w, codes, tile, 8, false);
        break;
    }
}

/* ---- one row of x ---- */

/* The dots of four n_quads codes with the x at p. */
ALWAYS_INLINE v16i i8_panel_dot(const v16i *q, const uint8_t *p, int n_quads, bool is_wide) {
    v16i dots = v16i_set(0);
#pragma GCC unroll 8
    for (int k = 0; k < n_quads; k++) {
        uint32_t word;
        memcpy(&word, p + 4 * k, 4);
        dots = i8_dot(dots, q[k], v16i_set(word), is_wide);
    }
    return dots;
}

/* 16 scales or biases of group g as they are stored. */
ALWAYS_INLINE v16 i8_panel_read(const i8_panel *p, const uint8_t *stream, int64_t g) {
    return p->is_bf16 ? v16_load_bf16(stream + 32 * g) : v16_load_f16(stream + 32 * g);
}

/* out[j] = x times row j of the panel. */
ALWAYS_INLINE void i8_panel_row(const i8_weight *w, const i8_panel *p, const uint8_t *x,
                                const i8_panel_way *way, float *out) {
    const i8_quad_source source = i8_quad_source_init(&w->form);
    const int64_t n_in = w->matrix->n_in, rest = rows_i8_rest(n_in);
    const float *x_scales = (const float *)(const void *)(x + rows_i8_scales(n_in));
    const float *x_sums = (const float *)(const void *)(x + (way->halves ? rows_i8_halves(n_in)
                                                                         : rows_i8_sums(n_in)));
    const int n_parts = way->halves ? 2 : 1, n_quads = 8 / n_parts, shift = w->form.block_shift;
    const bool has_bias = w->form.has_bias;
    const uint8_t *codes = p->codes;
    v16 acc = v16_zero();
    for (int64_t b = 0; b < n_in / 32; b++, codes += 64 * way->bits) {
        v16i q[8];
#pragma GCC unroll 8
        for (int i = 0; i < way->bits; i++)
            __builtin_prefetch(codes + I8_PANEL_AHEAD + 64 * i, 0, 2);
        i8_panel_quads(&source, codes, way->bits, I8_PANEL_SPLITS, way->is_table, q);
#pragma GCC unroll 2
        for (int part = 0; part < n_parts; part++) {
            const uint8_t *at_x = x + 32 * b + 16 * part;
            int64_t block = n_parts * b + part, g = block >> shift;
            v16i dots = i8_panel_dot(q + n_quads * part, at_x, n_quads, way->is_wide);
            if (way->is_fine)
                dots = v16i_add(i8_times_fine(dots), i8_panel_dot(q + n_quads * part, at_x + rest,
                                                                  n_quads, way->is_wide));
            if (!has_bias)
                dots = v16i_add(dots, v16i_set((uint32_t)i8_zero_dot(&w->form, x, n_in, block)));
            v16 s = p->scales ? i8_panel_read(p, p->scales, g)
                              : v16_load(p->formed_scales + g * I8_UNIT_OUTS);
            if (has_bias) {
                v16 bias = p->scales ? i8_panel_read(p, p->biases, g)
                                     : v16_load(p->formed_biases + g * I8_UNIT_OUTS);
                acc = i8_fma(bias, v16_set(x_sums[block]), acc);
            }
            acc = i8_fma(v16_mul(s, v16_set(x_scales[b])), v16_of_int(dots), acc);
        }
    }
    v16_store(out, acc);
}

ALWAYS_INLINE void i8_panel_fine(const i8_weight *w, const i8_panel *p, const uint8_t *x,
                                 i8_panel_way way, bool is_fine, float *out) {
    if (is_fine) {
        way.is_fine = true;
        i8_panel_row(w, p, x, &way, out);
    } else {
        way.is_fine = false;
        i8_panel_row(w, p, x, &way, out);
    }
}

ALWAYS_INLINE void i8_panel_bits(const i8_weight *w, const i8_panel *p, const uint8_t *x, int bits,
                                 bool is_table, bool is_fine, float *out) {
    const bool is_wide = bits == 8 || is_table;
    if (w->form.block == 16)
        i8_panel_fine(w, p, x, (i8_panel_way){bits, true, is_table, is_wide, false}, is_fine, out);
    else
        i8_panel_fine(w, p, x, (i8_panel_way){bits, false, is_table, is_wide, false}, is_fine, out);
}

static inline void i8_panel_multiply(const i8_weight *w, const i8_panel *p, const uint8_t *x,
                                     bool is_fine, float *out) {
    switch (w->form.bits) {
    case 2:
        i8_panel_bits(w, p, x, 2, false, is_fine, out);
        break;
    case 3:
        i8_panel_bits(w, p, x, 3, false, is_fine, out);
        break;
    case 4:
        if (w->form.is_table)
            i8_panel_bits(w, p, x, 4, true, is_fine, out);
        else
            i8_panel_bits(w, p, x, 4, false, is_fine, out);
        break;
    case 5:
        i8_panel_bits(w, p, x, 5, false, is_fine, out);
        break;
    case 6:
        i8_panel_bits(w, p, x, 6, false, is_fine, out);
        break;
    default:
        i8_panel_bits(w, p, x, 8, false, is_fine, out);
        break;
    }
}

static inline void i8_panel_scales(i8_weight *w, int64_t o, int first) {
    lane_scales_of_panel(w->matrix, w->form.unit, o, I8_UNIT_OUTS, w->scales + first,
                         w->biases + first);
}

/* The panel of row o; forms its scales unless they can be read as they lie. */
static inline i8_panel i8_panel_open(i8_weight *w, int64_t o) {
    const weight_matrix *m = w->matrix;
    const bool is_bf16 = m->form.scale == SCALE_BF16;
    i8_panel p = {m->codes + (size_t)o * m->row_bytes, is_bf16, NULL, NULL, w->scales, w->biases};
    if ((m->form.scale == SCALE_F16 || is_bf16) && !w->form.is_table) {
        p.scales = m->scales + (size_t)o * m->scale_bytes;
        if (m->biases) p.biases = m->biases + (size_t)o * m->scale_bytes;
    } else {
        i8_panel_scales(w, o, 0);
    }
    return p;
}

#endif
