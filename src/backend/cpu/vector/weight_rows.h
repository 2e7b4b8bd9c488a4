/* weight_rows.h: a weight row of any form, sixteen elements at a time.
 *
 * A chunk is 16 elements: 2 * bits bytes of codes under one scale and bias (groups are multiples of
 * 16). Scales and biases of a row are first formed in f32 for all groups; then a chunk is
 * f32(scale * code) + bias, or scale * table[code], as in weights/forms.c. Nothing is read past
 * the row. `way` is a constant wherever these functions are expanded.
 */
#ifndef MICA_BACKEND_CPU_VECTOR_WEIGHT_ROWS_H
#define MICA_BACKEND_CPU_VECTOR_WEIGHT_ROWS_H

#include "backend/cpu/vector/panel_rows.h"

/* Dense elements are asked for this many bytes before they are needed, into the second-level
 * cache, in one ascending stream of lines. */
#define DENSE_AHEAD 8192

typedef enum row_way {
    WAY_2 = 2,
    WAY_3 = 3,
    WAY_4 = 4,
    WAY_5 = 5,
    WAY_6 = 6,
    WAY_8 = 8,
    WAY_TABLE_4,
    WAY_TABLE_8,
    WAY_F32,
    WAY_BF16,
    WAY_F16
} row_way;

/* A weight operand, ready to read rows of. */
typedef struct row_source {
    const kernel_operand *operand;
    row_way way;
    int64_t n_in, n_groups;
    int64_t group_chunks; /* chunks under one scale; all of a dense row */
    v16_unpacker unpacker, sub_unpacker;
    v16_table table;
    float *scratch;    /* scales and biases of two rows, padded(n_groups) each */
    uint8_t *gathered; /* panels: two rows put together again */
    size_t gathered_bytes;
    bool can_hold;      /* a whole panel may be put together again */
    int64_t held_row;   /* the first row of the one that is; -1: none */
    weight_matrix held; /* its rows */
} row_source;

/* One row: codes, or the dense values. */
typedef struct row_view {
    const uint8_t *data;
    int64_t n_in, n_chunks, n_safe; /* chunks before n_safe may read 16 bytes of codes */
    float *scales, *biases;
    const row_source *source;
} row_view;

ALWAYS_INLINE int way_bits(row_way way) {
    if (way == WAY_TABLE_4) return 4;
    return way == WAY_TABLE_8 ? 8 : (int)way;
}

ALWAYS_INLINE bool way_is_dense(row_way way) { return way >= WAY_F32; }

ALWAYS_INLINE mica_dtype way_dtype(row_way way) {
    return way == WAY_F32 ? MICA_F32 : way == WAY_BF16 ? MICA_BF16 : MICA_F16;
}

static inline row_way dense_way(mica_dtype t) {
    return t == MICA_F32 ? WAY_F32 : t == MICA_BF16 ? WAY_BF16 : WAY_F16;
}

static inline row_way way_of(const kernel_operand *w) {
    if (!w->matrix) return dense_way(w->dtype);
    const weight_form *f = &w->matrix->form;
    if (f->kind == WEIGHT_DENSE) return dense_way(f->dtype);
    if (f->kind == WEIGHT_AFFINE) return (row_way)f->bits;
    return f->bits == 8 ? WAY_TABLE_8 : WAY_TABLE_4;
}

static inline int64_t group_count(const kernel_operand *w, int64_t n_in) {
    return way_is_dense(way_of(w)) ? 0 : n_in / w->matrix->form.group;
}

/* Floats that a row in canonical order takes, where rows lie in panels. */
static inline int64_t gathered_floats(const kernel_operand *w) {
    if (!w->matrix || !w->matrix->panels) return 0;
    return padded((int64_t)(mica_weight_row_total(w->matrix) + 3) / 4);
}

/* Floats of scratch that a source needs. */
static inline int64_t row_source_scratch(const kernel_operand *w, int64_t n_in) {
    return 4 * padded(group_count(w, n_in)) + 2 * gathered_floats(w);
}

static inline void row_source_init(row_source *s, const kernel_operand *w, int64_t n_in,
                                   float *scratch) {
    s->operand = w;
    s->way = way_of(w);
    s->n_in = n_in;
    s->n_groups = group_count(w, n_in);
    s->scratch = scratch;
    s->gathered = (uint8_t *)(scratch + 4 * padded(s->n_groups));
    s->gathered_bytes = sizeof(float) * (size_t)gathered_floats(w);
    s->can_hold = false;
    s->held_row = -1;
    s->group_chunks = (n_in + 15) / 16;
    if (way_is_dense(s->way)) return;
    const weight_form *f = &w->matrix->form;
    s->group_chunks = f->group / 16;
    s->unpacker = v16_unpacker_init(way_bits(s->way));
    if (f->scale == SCALE_TWO_LEVEL) s->sub_unpacker = v16_unpacker_init(f->sub_bits);
    static const float code_values[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    s->table = v16_table_load(code_values);
    if (s->way == WAY_TABLE_4)
        s->table = v16_table_load(f->table == TABLE_IQ4NL ? mica_table_iq4nl : mica_table_e2m1);
    if (f->bias == BIAS_NONE)
        for (int64_t g = 0; g < 4 * padded(s->n_groups); g++)
            scratch[g] = 0.0f;
}

/* Floats for a whole panel put together again. */
static inline int64_t held_floats(const kernel_operand *w) {
    if (!w->matrix || !w->matrix->panels) return 0;
    return padded((int64_t)panel_rows_bytes(w->matrix) / 4);
}

/* Gives the source room for a panel; none: it holds none. */
static inline void row_source_hold_at(row_source *s, float *room) {
    const weight_matrix *m = s->operand->matrix;
    s->can_hold = m && m->panels;
    if (s->can_hold) s->held = panel_rows_at(m, (uint8_t *)room);
}

/* Rows [row, row + 16) will be asked for: puts them together at once where they are a panel. */
static inline void row_source_hold(row_source *s, int64_t row) {
    const weight_matrix *m = s->operand->matrix;
    s->held_row = -1;
    if (!s->can_hold || (row + m->first_lane) % WEIGHT_PANEL) return;
    panel_put_together(m, row, &s->held);
    s->held_row = row;
}

static inline bool row_is_held(const row_source *s, int64_t row) {
    return s->held_row >= 0 && row >= s->held_row && row < s->held_row + WEIGHT_PANEL;
}

/* ---- scales and biases of a row ---- */

/* sub-codes [first, first + 16) of a two-level row; n_groups is a multiple of 8. Behind a row lie
 * at least n_behind bytes of others. */
static inline v16 sub_codes(const row_source *s, const uint8_t *row, size_t n_behind,
                            int64_t first) {
    int bits = s->operand->matrix->form.sub_bits;
    size_t n_bytes = (size_t)s->operand->matrix->scale_bytes, off = (size_t)(first * bits / 8);
    const uint8_t *p = row + off;
    uint8_t part[16] = {0};
    if (n_bytes - off + n_behind < 16) {
        for (size_t i = 0; i < n_bytes - off; i++)
            part[i] = p[i];
        p = part;
    }
    if (bits == 4) return v16_of_int(v16_codes(&s->sub_unpacker, p, 4));
    if (bits == 6) return v16_of_int(v16_codes(&s->sub_unpacker, p, 6));
    return v16_of_int(v16_codes(&s->sub_unpacker, p, 8));
}

/* out[g] = super[g's] * (sub code - zero), negated for biases; 8 or 16 groups a super-scale. */
static inline void expand_two_level(const row_source *s, const weight_matrix *m, int64_t row,
                                    const uint8_t *subs, const uint8_t *supers, float zero,
                                    float sign, float *out) {
    int64_t n_supers = m->n_in / WEIGHT_SUPER, per_super = WEIGHT_SUPER / m->form.group;
    static const float lane[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const uint8_t *row_supers = supers + 2 * (size_t)(row * n_supers);
    const v16 lanes = v16_load(lane), eight = v16_set(8.0f), less = v16_set(zero);
    const size_t n_behind = row + 1 < m->n_out * m->n_experts ? m->scale_bytes : 0;
    float d[17];
    for (int64_t g = 0; g < s->n_groups; g += 16) {
        int64_t super = g / per_super, at_d = super % 16;
        if (at_d == 0) { /* 16 super-scales at once, and one more for a pair that ends outside */
            int64_t left = n_supers - super;
            const uint8_t *p = row_supers + 2 * super;
            v16 some = left >= 16 ? v16_load_f16(p) : v16_load_part(p, MICA_F16, left);
            v16_store(d, v16_mul(v16_set(sign), some));
            d[16] = 0.0f;
        }
        v16 first = v16_set(d[at_d]);
        if (per_super == 8) first = v16_if_less(lanes, eight, first, v16_set(d[at_d + 1]));
        v16_store(out + g, v16_mul(first, v16_sub(sub_codes(s, subs, n_behind, g), less)));
    }
}

/* out[0..n) from single bytes: E8M0 or E4M3. */
static inline void expand_bytes(scale_kind kind, const uint8_t *p, int64_t n, float *out) {
    const v16_unpacker unused = v16_unpacker_init(8);
    for (int64_t g = 0; g < n; g += 16) {
        uint8_t part[16] = {0};
        memcpy(part, p + g, (size_t)(n - g < 16 ? n - g : 16));
        v16i codes = v16_codes(&unused, part, 8);
        if (kind == SCALE_E4M3) {
            v16_store(out + g, v16_gather(mica_table_e4m3, codes));
            continue;
        }
        v16 power = v16_of_bits(v16i_left23(codes)), least = v16_of_bits(v16i_set(0x00400000u));
        v16_store(out + g, v16_if_less(v16_of_int(codes), v16_set(1.0f), least, power));
    }
}

static inline void expand_stored(scale_kind kind, const uint8_t *p, int64_t n, float *out) {
    if (kind == SCALE_F32) widen(p, MICA_F32, n, out);
    if (kind == SCALE_F16) widen(p, MICA_F16, n, out);
    if (kind == SCALE_BF16) widen(p, MICA_BF16, n, out);
    if (kind == SCALE_E8M0 || kind == SCALE_E4M3) expand_bytes(kind, p, n, out);
}

/* Of row `row` of m, which is the source's matrix or a row of it. */
static inline void expand_scales(const row_source *s, const weight_matrix *m, int64_t row,
                                 float *to_scales, float *to_biases) {
    const weight_form *f = &m->form;
    const uint8_t *scales = m->scales + (size_t)row * m->scale_bytes;
    const uint8_t *biases = m->biases + (size_t)row * (m->biases ? m->scale_bytes : 0);
    if (f->scale == SCALE_TWO_LEVEL)
        expand_two_level(s, m, row, scales, m->supers, (float)f->sub_zero, 1.0f, to_scales);
    else
        expand_stored(f->scale, scales, s->n_groups, to_scales);
    for (int64_t g = 0; m->globals && g < s->n_groups; g++)
        to_scales[g] *= m->globals[row / m->n_out];
    if (f->bias == BIAS_GROUP) expand_stored(f->scale, biases, s->n_groups, to_biases);
    if (f->bias == BIAS_TWO_LEVEL)
        expand_two_level(s, m, row, biases, m->super_biases, 0.0f, -1.0f, to_biases);
    v16 zero = v16_set(-(float)f->zero);
    for (int64_t g = 0; g < s->n_groups && f->bias == BIAS_ZERO; g += 16)
        v16_store(to_biases + g, v16_mul(zero, v16_load(to_scales + g)));
}

/* ---- chunks ---- */

/* Row `row` of the source; forms its scales in one of the two places for them. */
static inline row_view row_open(const row_source *s, int64_t row, int place) {
    const weight_matrix *m = s->operand->matrix;
    weight_matrix one;
    row_view v = {.n_in = s->n_in, .n_chunks = (s->n_in + 15) / 16, .source = s};
    v.scales = s->scratch + 2 * place * padded(s->n_groups);
    v.biases = v.scales + padded(s->n_groups);
    if (row_is_held(s, row)) {
        m = &s->held;
        row -= s->held_row;
    } else if (m && m->panels) {
        one = mica_weight_gather(m, row, s->gathered + (size_t)place * s->gathered_bytes);
        m = &one;
        row = 0;
    }
    if (m) {
        v.data = m->codes + (size_t)row * m->row_bytes;
    } else {
        mica_dtype t = s->operand->dtype;
        v.data = at(s->operand->data, t, operand_row(s->operand, row));
    }
    v.n_safe = v.n_chunks;
    if (way_is_dense(s->way)) return v;
    expand_scales(s, m, row, v.scales, v.biases);
    int64_t chunk_bytes = 2 * way_bits(s->way), n_bytes = v.n_chunks * chunk_bytes;
    v.n_safe = n_bytes < 16 ? 0 : (n_bytes - 16) / chunk_bytes + 1;
    return v;
}

ALWAYS_INLINE v16i chunk_codes(const row_view *v, const v16_unpacker *u, int64_t c, int bits) {
    const uint8_t *p = v->data + c * 2 * bits;
    uint8_t part[16];
    if ((bits == 3 || bits == 5 || bits == 6) && c >= v->n_safe) {
        memset(part, 0, sizeof(part));
        memcpy(part, p, 2 * (size_t)bits);
        p = part;
    }
    return v16_codes(u, p, bits);
}

/* What the chunks of one group share. */
typedef struct group_values {
    v16 scale, bias;
    v16_table values; /* of the codes, where they are looked up */
} group_values;

ALWAYS_INLINE bool way_looks_up(row_way way) {
    return way == WAY_TABLE_4 || (V16_LOOKS_UP && way <= WAY_4);
}

ALWAYS_INLINE group_values group_open(const row_view *v, int64_t g, row_way way) {
    group_values gv;
    gv.values = v->source->table;
    gv.scale = gv.bias = v16_zero();
    if (way_is_dense(way)) return gv;
    gv.scale = v16_set(v->scales[g]);
    if (way == WAY_TABLE_8) return gv;
    if (way != WAY_TABLE_4) gv.bias = v16_set(v->biases[g]);
    if (!way_looks_up(way)) return gv;
    gv.values = v16_mul(gv.scale, gv.values); /* the reference's own products and sums */
    if (way != WAY_TABLE_4) gv.values = v16_add(gv.values, gv.bias);
    return gv;
}

/* Asks for the lines that n_rows dense rows, lying one after the other, need DENSE_AHEAD bytes
 * after their chunk c: the whole stream in order, each line once. */
ALWAYS_INLINE void ask_ahead(const row_view *v, int64_t c, row_way way, int n_rows) {
    if (!way_is_dense(way)) return;
    const int n_bytes = n_rows * (way == WAY_F32 ? 64 : 32);
    const uint8_t *p = v->data + DENSE_AHEAD + c * n_bytes;
    for (int i = 0; i < n_bytes; i += 64)
        __builtin_prefetch(p + i, 0, 2);
}

/* Elements [16c, 16c + 16) as f32; zeros past the end of a dense row. */
ALWAYS_INLINE v16 chunk(const row_view *v, const group_values *gv, const v16_unpacker *u, int64_t c,
                        row_way way) {
    if (way_is_dense(way)) {
        const void *p = at(v->data, way_dtype(way), 16 * c);
        int64_t left = v->n_in - 16 * c;
        return left >= 16 ? v16_load_as(p, way_dtype(way)) : v16_load_part(p, way_dtype(way), left);
    }
    v16i codes = chunk_codes(v, u, c, way_bits(way));
    if (way_looks_up(way)) return v16_look_up(&gv->values, codes);
    if (way == WAY_TABLE_8) return v16_mul(gv->scale, v16_gather(mica_table_e4m3, codes));
    return v16_add(v16_mul(gv->scale, v16_of_int(codes)), gv->bias);
}

/* ---- what is done with a row, for each way ---- */

/* out[0..padded(n_in)) = the row in f32. */
ALWAYS_INLINE void expand_way(const row_view *v, float *out, row_way way) {
    const v16_unpacker u = v->source->unpacker;
    const int64_t step = v->source->group_chunks;
    for (int64_t g = 0; g * step < v->n_chunks; g++) {
        group_values gv = group_open(v, g, way);
        for (int64_t c = g * step; c < (g + 1) * step; c++) {
            ask_ahead(v, c, way, 1);
            v16_store(out + 16 * c, chunk(v, &gv, &u, c, way));
        }
    }
}

static inline void row_expand(const row_source *s, int64_t row, float *out) {
    row_view v = row_open(s, row, 0);
    switch (s->way) {
    case WAY_2:
        expand_way(&v, out, WAY_2);
        break;
    case WAY_3:
        expand_way(&v, out, WAY_3);
        break;
    case WAY_4:
        expand_way(&v, out, WAY_4);
        break;
    case WAY_5:
        expand_way(&v, out, WAY_5);
        break;
    case WAY_6:
        expand_way(&v, out, WAY_6);
        break;
    case WAY_8:
        expand_way(&v, out, WAY_8);
        break;
    case WAY_TABLE_4:
        expand_way(&v, out, WAY_TABLE_4);
        break;
    case WAY_TABLE_8:
        expand_way(&v, out, WAY_TABLE_8);
        break;
    case WAY_F32:
        expand_way(&v, out, WAY_F32);
        break;
    case WAY_BF16:
        expand_way(&v, out, WAY_BF16);
        break;
    case WAY_F16:
        expand_way(&v, out, WAY_F16);
        break;
    }
}

/* sums[r] = the row times x[r]; each x is padded to whole chunks. n_x is a constant 2 or 4. */
ALWAYS_INLINE void dot_way(const row_view *v, const float *const *x, float *sums, row_way way,
                           int n_x) {
    const v16_unpacker u = v->source->unpacker;
    const int64_t step = v->source->group_chunks;
    v16 a0 = v16_zero(), a1 = v16_zero(), a2 = v16_zero(), a3 = v16_zero();
    for (int64_t g = 0; g * step < v->n_chunks; g++) {
        group_values gv = group_open(v, g, way);
        for (int64_t c = g * step; c < (g + 1) * step; c++) {
            ask_ahead(v, c, way, 1);
            v16 w = chunk(v, &gv, &u, c, way);
            a0 = v16_add(a0, v16_mul(v16_load(x[0] + 16 * c), w));
            a1 = v16_add(a1, v16_mul(v16_load(x[1] + 16 * c), w));
            if (n_x > 2) a2 = v16_add(a2, v16_mul(v16_load(x[2] + 16 * c), w));
            if (n_x > 2) a3 = v16_add(a3, v16_mul(v16_load(x[3] + 16 * c), w));
        }
    }
    sums[0] = v16_join(a0);
    sums[1] = v16_join(a1);
    if (n_x > 2) sums[2] = v16_join(a2);
    if (n_x > 2) sums[3] = v16_join(a3);
}

/* Two weight rows times one x: a single sum would wait for its own additions. */
ALWAYS_INLINE void dot_pair_way(const row_view v[2], const float *x, float *sums, row_way way) {
    const v16_unpacker u = v[0].source->unpacker;
    const int64_t step = v[0].source->group_chunks;
    v16 a0 = v16_zero(), a1 = v16_zero();
    for (int64_t g = 0; g * step < v[0].n_chunks; g++) {
        group_values gv0 = group_open(&v[0], g, way), gv1 = group_open(&v[1], g, way);
        for (int64_t c = g * step; c < (g + 1) * step; c++) {
            v16 xc = v16_load(x + 16 * c);
            ask_ahead(&v[0], c, way, 2);
            a0 = v16_add(a0, v16_mul(xc, chunk(&v[0], &gv0, &u, c, way)));
            a1 = v16_add(a1, v16_mul(xc, chunk(&v[1], &gv1, &u, c, way)));
        }
    }
    sums[0] = v16_join(a0);
    sums[1] = v16_join(a1);
}

/* The same one row at a time, for ISAs whose registers do not hold two rows of codes. */
ALWAYS_INLINE void dot_single_way(const row_view *v, const float *x, float *sum, row_way way) {
    const v16_unpacker u = v->source->unpacker;
    const int64_t step = v->source->group_chunks;
    v16 a = v16_zero();
    for (int64_t g = 0; g * step < v->n_chunks; g++) {
        group_values gv = group_open(v, g, way);
        for (int64_t c = g * step; c < (g + 1) * step; c++)
            a = v16_add(a, v16_mul(v16_load(x + 16 * c), chunk(v, &gv, &u, c, way)));
    }
    *sum = v16_join(a);
}

ALWAYS_INLINE void dot_two_rows(const row_view v[2], const float *x, float *sums, row_way way) {
    if (V16_PAIRS_CODES || way_is_dense(way)) {
        dot_pair_way(v, x, sums, way);
    } else {
        dot_single_way(&v[0], x, &sums[0], way);
        dot_single_way(&v[1], x, &sums[1], way);
    }
}

ALWAYS_INLINE void dot_count(const row_view v[2], const float *const *x, float *sums, int n_x,
                             row_way way) {
    if (n_x == 1)
        dot_two_rows(v, x[0], sums, way);
    else if (n_x == 2)
        dot_way(v, x, sums, way, 2);
    else
        dot_way(v, x, sums, way, 4);
}

/* n_x = 2 or 4: sums[r] = row times x[r]. n_x = 1: sums[0] and sums[1] are row and row2 times x. */
static inline void row_dot(const row_source *s, int64_t row, int64_t row2, const float *const *x,
                           int n_x, float *sums) {
    row_view v[2];
    v[0] = row_open(s, row, 0);
    if (n_x == 1) v[1] = row_open(s, row2, 1);
    switch (s->way) {
    case WAY_2:
        dot_count(v, x, sums, n_x, WAY_2);
        break;
    case WAY_3:
        dot_count(v, x, sums, n_x, WAY_3);
        break;
    case WAY_4:
        dot_count(v, x, sums, n_x, WAY_4);
        break;
    case WAY_5:
        dot_count(v, x, sums, n_x, WAY_5);
        break;
    case WAY_6:
        dot_count(v, x, sums, n_x, WAY_6);
        break;
    case WAY_8:
        dot_count(v, x, sums, n_x, WAY_8);
        break;
    case WAY_TABLE_4:
        dot_count(v, x, sums, n_x, WAY_TABLE_4);
        break;
    case WAY_TABLE_8:
        dot_count(v, x, sums, n_x, WAY_TABLE_8);
        break;
    case WAY_F32:
        dot_count(v, x, sums, n_x, WAY_F32);
        break;
    case WAY_BF16:
        dot_count(v, x, sums, n_x, WAY_BF16);
        break;
    case WAY_F16:
        dot_count(v, x, sums, n_x, WAY_F16);
        break;
    }
}

#endif
