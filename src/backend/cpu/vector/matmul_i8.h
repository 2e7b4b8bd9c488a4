/* matmul_i8.h: matmuls over rows quantized to int8, once for every ISA; the sums of
 * ref/matmul_i8.c.
 *
 * Unit: I8_UNIT_OUTS outputs, which are the lanes. Their codes are unpacked into a tile in which
 * four consecutive codes of 16 outputs lie side by side, their scales and biases turned so that
 * those of a block do too; then rows of x go past the tile, a few at a time, four codes of x being
 * broadcast. Integer dots are exact and each output has one sum, so neither the number of rows nor
 * the order inside a block changes a bit. Include an i8 header first.
 */
#ifndef MICA_BACKEND_CPU_VECTOR_MATMUL_I8_H
#define MICA_BACKEND_CPU_VECTOR_MATMUL_I8_H

#include "backend/cpu/experts.h"
#include "backend/cpu/vector/activate.h"
#include "backend/cpu/vector/group_i8.h"
#include "backend/cpu/vector/weight_rows.h"

/* An ISA that reads panels as they lie defines it as 1, with the operations of panel_i8.h. */
#ifndef I8_HAS_PANELS
#define I8_HAS_PANELS 0
#endif

/* An ISA that multiplies all unsigned bytes alike defines it as 1: codes of its tiles count from
 * ROWS_I8_ZERO whatever their form's zero point, so that dots begin with numbers that x brings. */
#ifndef I8_TILE_LIFTS
#define I8_TILE_LIFTS 0
#endif

/* The scratch of one thread for one weight. */
typedef struct i8_weight {
    const weight_matrix *matrix;
    i8_form form;
    row_source source;
    bool is_native;                 /* rows lie in panels that are read as they are */
    uint8_t *gathered;              /* [16]: other rows of panels, put together again */
    int64_t n_blocks, n_groups;     /* groups padded to 16 */
    float *row_scales, *row_biases; /* [16][n_groups] */
    float *scales, *biases;         /* [n_groups][I8_UNIT_OUTS] */
    float *sums;                    /* [I8_TILE_ROWS][I8_UNIT_OUTS] */
    uint8_t *tile;                  /* [n_in / 4][I8_UNIT_OUTS][4] */
} i8_weight;

typedef struct i8_space {
    int n_weights;
    bool is_fine;
    uint8_t *x[2];    /* room for I8_FEW_ROWS rows in the order in which a weight's codes come */
    int64_t x_stride; /* bytes */
    const uint8_t *few[2][I8_FEW_ROWS]; /* these rows, or the rows themselves */
    i8_weight w[2];
    float *group; /* [n_rows][group_width]: results on their way to be quantized; NULL: stored */
    int64_t group_width;
} i8_space;

static inline int i8_n_weights(const kernel_call *call) {
    return call->op == OP_GLU_MATMUL_I8 || call->op == OP_GLU_ROWS_I8 ? 2 : 1;
}

static inline int64_t i8_n_units(const kernel_call *call) {
    return (operand_width(&call->out) + I8_UNIT_OUTS - 1) / I8_UNIT_OUTS;
}

/* Floats for 16 rows of panels that are not read as they lie. An expert begins inside a panel where
 * n_out is not a multiple. */
static inline int64_t i8_gathered_floats(const kernel_operand *o) {
    const weight_matrix *m = o->matrix;
    if (I8_HAS_PANELS && m->first_lane == 0 && m->n_out % WEIGHT_PANEL == 0) return 0;
    return 16 * gathered_floats(o);
}

/* Floats of scratch; with w, its members point into memory at `at`. */
static inline int64_t i8_weight_init(i8_weight *w, const kernel_operand *o, float *at) {
    const weight_matrix *m = o->matrix;
    i8_form f = i8_form_of(&m->form);
    int64_t n_blocks = m->n_in / f.block, n_groups = padded(m->n_in / m->form.group);
    int64_t n_tile = rows_i8_padded(m->n_in) / 4 * I8_UNIT_OUTS;
    if (w) {
        *w = (i8_weight){.matrix = m, .form = f, .n_blocks = n_blocks, .n_groups = n_groups};
        w->tile = (uint8_t *)at;
        w->scales = at + n_tile;
        w->biases = w->scales + n_groups * I8_UNIT_OUTS;
        w->sums = w->biases + n_groups * I8_UNIT_OUTS;
        w->row_scales = w->sums + I8_TILE_ROWS * I8_UNIT_OUTS;
        w->row_biases = w->row_scales + 16 * n_groups;
        w->is_native = I8_HAS_PANELS && m->panels && m->first_lane == 0;
        w->gathered = (uint8_t *)(w->row_biases + 16 * n_groups);
        row_source_init(&w->source, o, m->n_in,
                        w->row_biases + 16 * n_groups + i8_gathered_floats(o));
    }
    return n_tile + (2 * n_groups + I8_TILE_ROWS) * I8_UNIT_OUTS + 32 * n_groups +
           i8_gathered_floats(o) + padded(row_source_scratch(o, m->n_in));
}

static inline size_t i8_scratch(const kernel_call *call) {
    int64_t n = 0;
    for (int i = 0; i < i8_n_weights(call); i++)
        n += i8_weight_init(NULL, &call->src[1 + i], NULL) +
             I8_FEW_ROWS * operand_width(&call->src[0]) / 4;
    return (size_t)n * sizeof(float);
}

/* Scales and biases of 16 outputs, as lanes [first, first + 16) of each group. */
static inline void i8_turn_scales(i8_weight *w, int first) {
    const v16 unit = v16_set(w->form.unit);
    for (int64_t g = 0; g < w->n_groups; g += 16) {
        v16 t[16];
        i8_turn_floats(w->row_scales + g, w->n_groups, t);
        for (int i = 0; i < 16; i++)
            v16_store(w->scales + (g + i) * I8_UNIT_OUTS + first, v16_mul(t[i], unit));
        if (!w->form.has_bias) continue;
        i8_turn_floats(w->row_biases + g, w->n_groups, t);
        for (int i = 0; i < 16; i++)
            v16_store(w->biases + (g + i) * I8_UNIT_OUTS + first, t[i]);
    }
}

/* Scales of outputs o + [first, first + 16), and where their codes are. Outputs past the last
 * repeat it. */
static inline void i8_open_rows(i8_weight *w, int64_t o, int first, int64_t n_outs,
                                const uint8_t *rows[16]) {
    const weight_matrix *m = w->matrix;
    for (int j = 0; j < 16; j++) {
        int64_t row = o + (first + j < n_outs ? first + j : n_outs - 1);
        weight_matrix one;
        if (m->panels) {
            one = mica_weight_gather(m, row, w->gathered + (size_t)j * w->source.gathered_bytes);
            rows[j] = one.codes;
        } else {
            rows[j] = m->codes + (size_t)row * m->row_bytes;
        }
        expand_scales(&w->source, m->panels ? &one : m, m->panels ? 0 : row,
                      w->row_scales + j * w->n_groups, w->row_biases + j * w->n_groups);
    }
    i8_turn_scales(w, first);
}

#if I8_HAS_PANELS
#include "backend/cpu/vector/panel_i8.h"
#else
#include "backend/cpu/vector/panel_none.h"
#endif

static inline void i8_open_unit(i8_weight *w, int64_t o, int64_t n_outs) {
    for (int v = 0; v < I8_TILE_VECS; v++) {
        const uint8_t *rows[16];
        if (w->is_native) {
            int64_t row = o + (16 * v < n_outs ? 16 * v : 0);
            i8_panel_scales(w, row, 16 * v);
            i8_panel_tile(w, row, w->tile + 64 * v);
            continue;
        }
        i8_open_rows(w, o, 16 * v, n_outs, rows);
        i8_unpack(&w->form, rows, (int64_t)w->matrix->row_bytes, w->tile + 64 * v);
    }
}

/* What the zero point makes of block b of a row. */
ALWAYS_INLINE v16i i8_zeros(const i8_weight *w, const uint8_t *x, int64_t b, const i8_way *way) {
    const int64_t n = w->matrix->n_in;
    uint32_t count;
    if (!I8_TILE_LIFTS) return v16i_set((uint32_t)i8_zero_dot(&w->form, x, n, b));
    memcpy(&count, x + (way->block == 32 ? rows_i8_counts(n) : rows_i8_half_counts(n)) + 4 * b, 4);
    return v16i_set(count);
}

/* Dots begin with what the zero point makes of x; those of two bytes get it with the second. */
ALWAYS_INLINE void i8_begin(const i8_weight *w, v16i dots[I8_TILE_ROWS][I8_TILE_VECS],
                            const uint8_t *const *x, int64_t b, const i8_way *way) {
#pragma GCC unroll 4
    for (int i = 0; i < way->n_x; i++) {
        v16i first = way->has_bias || way->is_fine ? v16i_set(0) : i8_zeros(w, x[i], b, way);
#pragma GCC unroll 4
        for (int v = 0; v < I8_TILE_VECS; v++)
            dots[i][v] = first;
    }
}

ALWAYS_INLINE void i8_refine(const i8_weight *w, v16i dots[I8_TILE_ROWS][I8_TILE_VECS],
                             const uint8_t *const *x, int64_t b, const i8_way *way) {
#pragma GCC unroll 4
    for (int i = 0; i < way->n_x; i++)
#pragma GCC unroll 4
        for (int v = 0; v < I8_TILE_VECS; v++) {
            dots[i][v] = i8_times_fine(dots[i][v]);
            if (!way->has_bias) dots[i][v] = v16i_add(dots[i][v], i8_zeros(w, x[i], b, way));
        }
}

/* The float at byte `off` of a row. */
ALWAYS_INLINE v16 i8_set_at(const uint8_t *x, int64_t off) {
    float f;
    memcpy(&f, x + off, 4);
    return v16_set(f);
}

/* n_x rows of x times the unit's outputs. */
ALWAYS_INLINE void i8_tile(const i8_weight *w, const uint8_t *const *x, const i8_way *way) {
    const int n_x = way->n_x, block = way->block;
    const int64_t n = w->matrix->n_in, at_scales = rows_i8_scales(n);
    const int64_t at_sums = block == 32 ? rows_i8_sums(n) : rows_i8_halves(n);
    v16 sums[I8_TILE_ROWS][I8_TILE_VECS];
    for (int i = 0; i < n_x; i++)
#pragma GCC unroll 4
        for (int v = 0; v < I8_TILE_VECS; v++)
            sums[i][v] = v16_zero();
    for (int64_t b = 0; b < w->n_blocks; b++) {
        v16i dots[I8_TILE_ROWS][I8_TILE_VECS];
        const uint8_t *tile = w->tile + b * block * I8_UNIT_OUTS;
        i8_begin(w, dots, x, b, way);
        i8_dots(dots, tile, x, b * block, way);
        if (way->is_fine) {
            i8_refine(w, dots, x, b, way);
            i8_dots(dots, tile, x, rows_i8_rest(n) + b * block, way);
        }
        int64_t group = (b >> w->form.block_shift) * I8_UNIT_OUTS;
        const float *scales = w->scales + group, *biases = w->biases + group;
#pragma GCC unroll 4
        for (int v = 0; v < I8_TILE_VECS; v++) {
            v16 scale = v16_load(scales + 16 * v);
#pragma GCC unroll 4
            for (int i = 0; i < n_x; i++) {
                v16 s = v16_mul(scale, i8_set_at(x[i], at_scales + b * block / ROWS_I8_GROUP * 4));
                v16 sum = sums[i][v];
                if (way->has_bias)
                    sum = i8_fma(v16_load(biases + 16 * v), i8_set_at(x[i], at_sums + 4 * b), sum);
                sums[i][v] = i8_fma(s, v16_of_int(dots[i][v]), sum);
            }
        }
    }
    for (int i = 0; i < n_x; i++)
#pragma GCC unroll 4
        for (int v = 0; v < I8_TILE_VECS; v++)
            v16_store(w->sums + i * I8_UNIT_OUTS + 16 * v, sums[i][v]);
}

ALWAYS_INLINE void i8_tile_biases(const i8_weight *w, const uint8_t *const *x, i8_way way) {
    if (w->form.has_bias) {
        way.has_bias = true;
        i8_tile(w, x, &way);
    } else {
        way.has_bias = false;
        i8_tile(w, x, &way);
    }
}

ALWAYS_INLINE void i8_tile_rows(const i8_weight *w, const uint8_t *const *x, int n_x, int block,
                                bool is_wide, bool is_fine) {
    if (n_x == 1)
        i8_tile_biases(w, x, (i8_way){1, block, is_wide, is_fine, false});
    else
        i8_tile_biases(w, x, (i8_way){I8_TILE_ROWS, block, is_wide, is_fine, false});
}

ALWAYS_INLINE void i8_tile_forms(const i8_weight *w, const uint8_t *const *x, int n_x,
                                 bool is_fine) {
    if (w->form.block == 32 && !(I8_WIDE_DIFFERS && w->form.is_wide))
        i8_tile_rows(w, x, n_x, 32, false, is_fine);
    else if (w->form.block == 32)
        i8_tile_rows(w, x, n_x, 32, true, is_fine);
    else if (!(I8_WIDE_DIFFERS && w->form.is_wide))
        i8_tile_rows(w, x, n_x, 16, false, is_fine);
    else
        i8_tile_rows(w, x, n_x, 16, true, is_fine);
}

static inline void i8_multiply(const i8_weight *w, const uint8_t *const *x, int n_x, bool is_fine) {
    if (is_fine)
        i8_tile_forms(w, x, n_x, true);
    else
        i8_tile_forms(w, x, n_x, false);
}

/* What a plain matmul's result is added to, if anything. */
static inline const kernel_operand *i8_added(const kernel_call *call) {
    static const kernel_operand none;
    return call->op == OP_MATMUL_I8 && call->n_src > 2 ? &call->src[2] : &none;
}

/* Rounds and stores the sums of rows [r, r + n) for outputs [o, o + n_outs). */
static inline void i8_store(const kernel_call *call, const i8_space *s, int64_t r, int n, int64_t o,
                            int64_t n_outs) {
    const kernel_operand *out = &call->out, *added = i8_added(call);
    const mica_dtype t = s->group ? MICA_F32 : out->dtype;
    for (int i = 0; i < n; i++)
        for (int64_t first = 0; first < n_outs; first += 16) {
            v16 y = v16_load(s->w[0].sums + i * I8_UNIT_OUTS + first);
            if (s->n_weights == 2) {
                v16 gate = v16_round_to(y, t);
                v16 up = v16_load(s->w[1].sums + i * I8_UNIT_OUTS + first);
                y = v16_mul(v16_glu_fused(call->attr->glu.act, gate, t), v16_round_to(up, t));
            }
            if (s->group) {
                v16_store(s->group + (r + i) * s->group_width + (o + first) % s->group_width, y);
                continue;
            }
            if (added->data)
                y = v16_add(row_chunk(added, r + i, o + first, o + n_outs),
                            v16_round_to(y, out->dtype));
            void *p = at_mut(out->data, out->dtype, operand_row(out, r + i) + o + first);
            if (n_outs - first >= 16)
                v16_store_as(p, out->dtype, y);
            else
                v16_store_part(p, out->dtype, n_outs - first, y);
        }
}

/* Few rows: codes go from memory through registers into the dots, once for each row of x. */
static inline void i8_unit_of_few(const kernel_call *call, i8_space *s, int64_t n_rows, int64_t o,
                                  int64_t n_outs) {
    for (int i = 0; i < s->n_weights; i++)
        for (int first = 0; first < n_outs; first += 16) {
            const uint8_t *rows[16];
            i8_weight *w = &s->w[i];
            if (w->is_native) {
                const i8_panel panel = i8_panel_open(w, o + first);
                for (int64_t r = 0; r < n_rows; r++)
                    i8_panel_multiply(w, &panel, s->few[i][r], s->is_fine,
                                      w->sums + r * I8_UNIT_OUTS + first);
                continue;
            }
            i8_open_rows(w, o, first, n_outs, rows);
            const i8_lanes lanes = {w->matrix->n_in,   (int64_t)w->matrix->row_bytes,
                                    w->n_blocks,       I8_UNIT_OUTS,
                                    w->scales + first, w->biases + first};
            for (int64_t r = 0; r < n_rows; r++)
                i8_stream(&w->form, &lanes, rows, s->few[i][r], s->is_fine,
                          w->sums + r * I8_UNIT_OUTS + first);
        }
    i8_store(call, s, 0, (int)n_rows, o, n_outs);
}

static inline void i8_unit(const kernel_call *call, i8_space *s, int64_t o, int64_t n_outs) {
    const kernel_operand *src = &call->src[0];
    int64_t n_rows = operand_rows(&call->out);
    for (int i = 0; i < s->n_weights; i++)
        i8_open_unit(&s->w[i], o, n_outs);
    for (int64_t r = 0; r < n_rows; r += I8_TILE_ROWS) {
        int n = n_rows - r < I8_TILE_ROWS ? (int)(n_rows - r) : I8_TILE_ROWS;
        const uint8_t *x[I8_TILE_ROWS];
        for (int i = 0; i < I8_TILE_ROWS; i++) /* rows past the last repeat it */
            x[i] = (const uint8_t *)src->data + operand_row(src, r + (i < n ? i : n - 1));
        for (int i = 0; i < s->n_weights; i++)
            i8_multiply(&s->w[i], x, n, s->is_fine);
        i8_store(call, s, r, n, o, n_outs);
    }
}

static inline void i8_order_rows(const kernel_call *call, i8_space *s, int64_t n_rows) {
    const kernel_operand *src = &call->src[0];
    for (int i = 0; i < s->n_weights; i++)
        for (int64_t r = 0; r < n_rows; r++) {
            const i8_weight *w = &s->w[i];
            const uint8_t *row = (const uint8_t *)src->data + operand_row(src, r);
            uint8_t *to = s->x[i] + r * s->x_stride;
            s->few[i][r] = to;
            if (!w->is_native)
                i8_order(&w->form, w->matrix->n_in, s->is_fine, row, to);
            else if (I8_PANEL_SPLITS && w->form.bits == 4)
                i8_panel_order(w->matrix->n_in, s->is_fine, row, to);
            else
                s->few[i][r] = row;
        }
}

/* Groups of 32 outputs that fill whole tiles; few rows have no tiles. */
#define I8_WHOLE_GROUPS                                                 \
    (I8_UNIT_OUTS % ROWS_I8_GROUP == 0   ? I8_UNIT_OUTS / ROWS_I8_GROUP \
     : ROWS_I8_GROUP % I8_UNIT_OUTS == 0 ? 1                            \
                                         : I8_UNIT_OUTS / 16)

static inline int64_t i8_unit_groups(const kernel_call *call) {
    return operand_rows(&call->out) <= I8_FEW_ROWS ? 1 : I8_WHOLE_GROUPS;
}

static inline void i8_space_init(i8_space *s, const kernel_call *call, float *at) {
    *s = (i8_space){.n_weights = i8_n_weights(call), .x_stride = operand_width(&call->src[0])};
    s->is_fine = rows_i8_is_fine(s->x_stride, call->src[1].matrix->n_in);
    for (int i = 0; i < s->n_weights; i++) {
        at += i8_weight_init(&s->w[i], &call->src[1 + i], at);
        s->x[i] = (uint8_t *)at;
        at += I8_FEW_ROWS * s->x_stride / 4;
    }
    if (call->op == OP_GLU_ROWS_I8) s->group = at;
    s->group_width = i8_unit_groups(call) * ROWS_I8_GROUP;
    if (operand_rows(&call->out) <= I8_FEW_ROWS) i8_order_rows(call, s, operand_rows(&call->out));
}

/* Outputs [o, end). */
static inline void i8_outputs(const kernel_call *call, i8_space *s, int64_t o, int64_t end) {
    int64_t n_rows = operand_rows(&call->out);
    for (; o < end; o += I8_UNIT_OUTS) {
        int64_t n = end - o < I8_UNIT_OUTS ? end - o : I8_UNIT_OUTS;
        if (n_rows <= I8_FEW_ROWS)
            i8_unit_of_few(call, s, n_rows, o, n);
        else
            i8_unit(call, s, o, n);
    }
}

static inline void i8_run(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    int64_t n_out = operand_width(&call->out), last = end * I8_UNIT_OUTS;
    i8_space s;
    if (operand_rows(&call->out) == 0) return;
    i8_space_init(&s, call, scratch);
    i8_outputs(call, &s, begin * I8_UNIT_OUTS, last < n_out ? last : n_out);
}

/* ---- gated pairs whose result is quantized; unit: as many groups of 32 outputs as fill tiles, one
 * where there are none ---- */

static inline int64_t i8_n_units_groups(const kernel_call *call) {
    int64_t n = i8_unit_groups(call);
    return (rows_i8_padded(call->src[1].matrix->n_out) / ROWS_I8_GROUP + n - 1) / n;
}

static inline size_t i8_scratch_groups(const kernel_call *call) {
    int64_t n_floats = operand_rows(&call->out) * I8_WHOLE_GROUPS * ROWS_I8_GROUP;
    return i8_scratch(call) + sizeof(float) * (size_t)n_floats;
}

/* What lies behind the last output is zero, and so are the groups there. */
static inline void i8_quantize_groups(const kernel_call *call, const i8_space *s, int64_t first) {
    const kernel_operand *out = &call->out;
    int64_t n = call->src[1].matrix->n_out, width = s->group_width;
    bool fine = rows_i8_is_fine(operand_width(out), n);
    for (int64_t r = 0; r < operand_rows(out); r++) {
        float *x = s->group + r * width;
        uint8_t *row = (uint8_t *)out->data + operand_row(out, r);
        for (int64_t i = n > first ? n - first : 0; i < width; i++)
            x[i] = 0.0f;
        for (int64_t i = 0; i < width && first + i < rows_i8_padded(n); i += ROWS_I8_GROUP)
            i8_quantize_at(x + i, (first + i) / ROWS_I8_GROUP, n, fine, row);
    }
}

static inline void i8_run_groups(const kernel_call *call, int64_t begin, int64_t end,
                                 void *scratch) {
    const int64_t n = call->src[1].matrix->n_out;
    i8_space s;
    if (operand_rows(&call->out) == 0) return;
    i8_space_init(&s, call, scratch);
    for (int64_t u = begin; u < end; u++) {
        int64_t first = u * s.group_width, last = first + s.group_width;
        i8_outputs(call, &s, first, last < n ? last : n);
        i8_quantize_groups(call, &s, first);
    }
}

/* ---- the same for experts ---- */

static const expert_kernel i8_of_experts = {OP_MATMUL_I8, 1, i8_n_units, i8_run};
static const expert_kernel i8_pairs_of_experts = {OP_GLU_MATMUL_I8, 2, i8_n_units, i8_run};

static inline const expert_kernel *i8_experts_of(const kernel_call *call) {
    return call->op == OP_EXPERT_MATMUL_I8 ? &i8_of_experts : &i8_pairs_of_experts;
}

static inline int64_t i8_n_units_experts(const kernel_call *call) {
    return expert_units(call, i8_experts_of(call));
}

static inline size_t i8_scratch_experts(const kernel_call *call) {
    return expert_scratch(call, i8_experts_of(call), i8_scratch);
}

static inline const char *i8_declines_experts(const kernel_call *call) {
    return expert_declines(call, i8_experts_of(call), i8_declines);
}

static inline void i8_run_experts(const kernel_call *call, int64_t begin, int64_t end,
                                  void *scratch) {
    expert_run(call, i8_experts_of(call), begin, end, scratch);
}

#endif
