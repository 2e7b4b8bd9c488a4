/* bf16_panel.h: weights of any form that i8_form.h takes as tiles of bf16, for matmul_bf16_amx.c.
 *
 * A tile is 16 outputs by one step of 32 places (graph/rows_bf16.h). Of four bits a group has 16
 * values: they are formed once and looked up, two steps from 32 bytes. Other codes are made bytes,
 * widened, scaled and rounded; a lane then holds four neighbours, one after the other. Rows that
 * lie in panels of 16 (weights/weights.h) are turned into rows first, a piece at a time.
 */
#ifndef MICA_BACKEND_CPU_X86_BF16_PANEL_H
#define MICA_BACKEND_CPU_X86_BF16_PANEL_H

#include "backend/cpu/x86/i8_avx512vnni.h"

#include "backend/cpu/vector/lane_scales.h"
#include "graph/rows_bf16.h"

enum { PANEL_OUTS = 32 };

/* The scratch of one thread for one weight. */
typedef struct bf16_weight {
    const weight_matrix *matrix;
    i8_form form;
    row_source source;
    i8_unpacker unpacker;
    __m512 values;                  /* of the codes of four bits */
    __m512i lane_groups;            /* of lanes of four elements of one row */
    int group_shift;                /* a group is 1 << group_shift elements */
    int64_t n_groups;               /* padded to 16 */
    float *scales, *biases;         /* [panels of a unit][n_groups][PANEL_OUTS] */
    float *row_scales, *row_biases; /* [16][n_groups] */
    uint8_t *gathered;              /* panels: the scales of one row */
    uint8_t *rows;                  /* panels: [16] strips of codes */
} bf16_weight;

/* Floats of scratch; with w, its members point into memory at `at`. */
static inline int64_t bf16_weight_init(bf16_weight *w, const kernel_operand *o, int64_t n_panels,
                                       float *at) {
    const weight_matrix *m = o->matrix;
    int64_t n_groups = padded(m->n_in / m->form.group), n = n_groups * PANEL_OUTS * n_panels;
    int64_t n_rows = m->panels ? 16 * ROWS_BF16_PIECE / 4 : 0, n_turned = 16 * n_groups;
    if (w) {
        float values[16];
        *w = (bf16_weight){.matrix = m, .form = i8_form_of(&m->form), .n_groups = n_groups};
        for (int i = 0; i < 16; i++)
            values[i] = w->form.is_table ? (float)w->form.table[i] : (float)i;
        w->values = _mm512_loadu_ps(values);
        int32_t groups[16];
        for (int i = 0; i < 16; i++)
            groups[i] = 4 * i / (int)m->form.group;
        w->lane_groups = _mm512_loadu_si512(groups);
        w->unpacker = i8_unpacker_init(&w->form);
        w->group_shift = __builtin_ctzll((unsigned long long)m->form.group);
        w->scales = at;
        w->biases = at + n;
        w->row_scales = at + 2 * n;
        w->row_biases = at + 2 * n + n_turned;
        at += 2 * (n + n_turned);
        w->gathered = (uint8_t *)at;
        w->rows = (uint8_t *)(at + gathered_floats(o));
        row_source_init(&w->source, o, m->n_in, at + gathered_floats(o) + n_rows);
    }
    return 2 * (n + n_turned) + gathered_floats(o) + n_rows +
           padded(row_source_scratch(o, m->n_in));
}

/* Whether the 16 rows from o on are a panel. */
static inline bool is_panel(const weight_matrix *m, int64_t o) {
    return m->panels && (o + m->first_lane) % WEIGHT_PANEL == 0;
}

/* Scales and biases of 16 of the outputs [o, o + n_outs), one row after the other. Outputs past the
 * last repeat it. */
static inline void bf16_open_rows(bf16_weight *w, int64_t o, int64_t n_outs, float *scales,
                                  float *biases) {
    for (int64_t j = 0; j < 16; j++) {
        const weight_matrix *m = w->matrix;
        int64_t row = o + (j < n_outs ? j : n_outs - 1);
        weight_matrix one;
        if (m->panels) {
            one = *m;
            one.codes = NULL;
            one = mica_weight_gather(&one, row, w->gathered);
            m = &one;
            row = 0;
        }
        expand_scales(&w->source, m, row, w->row_scales + j * w->n_groups,
                      w->row_biases + j * w->n_groups);
    }
    for (int64_t g = 0; g < w->n_groups; g += 16) {
        v16 t[16];
        i8_turn_floats(w->row_scales + g, w->n_groups, t);
        for (int i = 0; i < 16; i++)
            v16_store(scales + (g + i) * PANEL_OUTS, v16_mul(t[i], v16_set(w->form.unit)));
        i8_turn_floats(w->row_biases + g, w->n_groups, t);
        for (int i = 0; i < 16; i++)
            v16_store(biases + (g + i) * PANEL_OUTS, t[i]);
    }
}

/* Biases that follow from the scales, of 16 outputs. */
static inline void bf16_zeros(const bf16_weight *w, const float *scales, float *biases) {
    const v16 zero = v16_set(-(float)w->form.zero);
    for (int64_t g = 0; g < w->n_groups; g++)
        v16_store(biases + g * PANEL_OUTS, v16_mul(zero, v16_load(scales + g * PANEL_OUTS)));
}

/* Scales and biases of outputs [o, o + n_outs), as panel i of the unit. */
static inline void bf16_open(bf16_weight *w, int64_t o, int64_t n_outs, int64_t i) {
    float *scales = w->scales + i * w->n_groups * PANEL_OUTS;
    float *biases = w->biases + i * w->n_groups * PANEL_OUTS;
    for (int64_t j = 0; j < PANEL_OUTS && j < n_outs; j += 16) {
        weight_matrix m = *w->matrix;
        if (is_panel(&m, o + j))
            lane_scales_of_panel(&m, w->form.unit, o + j + m.first_lane, PANEL_OUTS, scales + j,
                                 biases + j);
        else
            bf16_open_rows(w, o + j, n_outs - j, scales + j, biases + j);
        if (!w->form.has_bias) bf16_zeros(w, scales + j, biases + j);
    }
}

/* The values of 16 codes under a scale and a bias. */
ALWAYS_INLINE __m512 values_of_group(const bf16_weight *w, const float *scales, const float *biases,
                                     int64_t g) {
    return _mm512_fmadd_ps(_mm512_set1_ps(scales[g * PANEL_OUTS]), w->values,
                           _mm512_set1_ps(biases[g * PANEL_OUTS]));
}

/* Four bits, groups of 32 or more: n places of one output from element k on, 64 bytes of a step at
 * every tile. */
ALWAYS_INLINE void panel_row_of_4(const bf16_weight *w, const uint8_t *codes, const float *scales,
                                  const float *biases, int64_t k, int64_t n, bool of_32,
                                  uint8_t *to) {
    const __m512i shift01 = _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi16(4), 1);
    const __m512i shift23 = _mm512_add_epi16(shift01, _mm512_set1_epi16(8));
    const __m512i second =
        _mm512_broadcast_i64x4(_mm256_set_m128i(_mm_set1_epi16(16), _mm_setzero_si128()));
    const int shift = w->group_shift;
#pragma GCC unroll 2
    for (int64_t end = k + n; k < end; k += 64, codes += 32, to += 2 * 1024) {
        __m512i bytes = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)codes));
        __m512i a = _mm512_srlv_epi16(bytes, shift01), b = _mm512_srlv_epi16(bytes, shift23);
        __m512 first = values_of_group(w, scales, biases, k >> shift);
        __m512 other = first; /* the lookup's fifth bit: in groups of 64 it does not matter */
        if (of_32) {
            other = values_of_group(w, scales, biases, (k >> shift) + 1);
            a = _mm512_ternarylogic_epi32(a, _mm512_set1_epi16(15), second, 0xEA);
            b = _mm512_ternarylogic_epi32(b, _mm512_set1_epi16(15), second, 0xEA);
        }
        __m512i table = (__m512i)_mm512_cvtne2ps_pbh(other, first);
        _mm512_storeu_si512(to, _mm512_permutexvar_epi16(a, table));
        _mm512_storeu_si512(to + 1024, _mm512_permutexvar_epi16(b, table));
    }
}

/* Byte j of each lane, scaled. */
ALWAYS_INLINE __m512 scaled_byte(__m512i bytes, int j, __m512 scale, __m512 bias) {
    __m512i code = _mm512_and_si512(_mm512_srli_epi32(bytes, 8 * j), _mm512_set1_epi32(255));
    return _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(code), bias);
}

/* The scales of 64 elements, four to a lane. */
ALWAYS_INLINE __m512 spread_scales(const float *p, int64_t group, __m512i lanes) {
    if (group >= 64) return _mm512_set1_ps(p[0]);
    __m128 four = group == 32
                      ? _mm_set_ps(0, 0, p[PANEL_OUTS], p[0])
                      : _mm_set_ps(p[3 * PANEL_OUTS], p[2 * PANEL_OUTS], p[PANEL_OUTS], p[0]);
    return _mm512_permutexvar_ps(lanes, _mm512_castps128_ps512(four));
}

/* Any bits and groups. */
ALWAYS_INLINE void panel_row_of(const bf16_weight *w, const uint8_t *codes, const float *scales,
                                const float *biases, int64_t k, int64_t n, int bits, uint8_t *to) {
    const int64_t group = w->matrix->form.group, shift = w->group_shift;
    for (int64_t end = k + n; k < end; k += 64, codes += 8 * bits, to += 2 * 1024) {
        __m512i bytes = bits == 8 ? _mm512_loadu_si512(codes)
                                  : i8_codes_64(&w->unpacker, bits, codes, (end - k) / 8 * bits);
        const int64_t first = (k >> shift) * PANEL_OUTS;
        __m512 s = spread_scales(scales + first, group, w->lane_groups);
        __m512 b = spread_scales(biases + first, group, w->lane_groups);
        _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh(scaled_byte(bytes, 1, s, b),
                                                             scaled_byte(bytes, 0, s, b)));
        _mm512_storeu_si512(to + 1024, (__m512i)_mm512_cvtne2ps_pbh(scaled_byte(bytes, 3, s, b),
                                                                    scaled_byte(bytes, 2, s, b)));
    }
}

/* Bytes [off, off + n_bytes) of the 16 rows of the panel that begins with `row`. */
static inline void rows_of_panel(const weight_matrix *m, int64_t row, int64_t off, int64_t n_bytes,
                                 int64_t stride, uint8_t *to) {
    const uint8_t *from = mica_panel_word(m->codes, m->row_bytes, 4, row, (size_t)off / 4);
    for (int64_t i = 0; i < n_bytes; i += 64) {
        __m512i r[16];
#pragma GCC unroll 16
        for (int64_t j = 0; j < 16; j++)
            r[j] = i + 4 * j < n_bytes ? _mm512_loadu_si512(from + 16 * i + 64 * j)
                                       : _mm512_setzero_si512();
        v16_turn_bits(r);
#pragma GCC unroll 16
        for (int64_t j = 0; j < 16; j++)
            _mm512_storeu_si512(to + stride * j + i, r[j]);
    }
}

/* Bytes [off, off + n_bytes) of outputs [o, o + n_outs), at most 16, of rows in panels. */
static inline void gather_rows(const bf16_weight *w, int64_t o, int64_t n_outs, int64_t off,
                               int64_t n_bytes, int64_t stride) {
    const weight_matrix *m = w->matrix;
    int64_t row = o + m->first_lane;
    if (is_panel(m, o)) {
        rows_of_panel(m, row, off, n_bytes, stride, w->rows);
        return;
    }
    for (int64_t j = 0; j < n_outs; j++)
        for (int64_t i = 0; i < n_bytes; i += 4)
            memcpy(w->rows + stride * j + i,
                   mica_panel_word(m->codes, m->row_bytes, 4, row + j, (size_t)(off + i) / 4), 4);
}

/* Codes of 16 outputs, `stride` bytes apart; those past the last repeat it. */
typedef struct strip_rows {
    const uint8_t *codes;
    int64_t stride, n;
    const float *scales, *biases;
} strip_rows;

/* Places [k, k + n) of 16 outputs of four bits. */
ALWAYS_INLINE void strip_of_4_way(const bf16_weight *w, const strip_rows *rows, int64_t k,
                                  int64_t n, bool of_32, uint8_t *to) {
    for (int64_t j = 0; j < 16; j++) {
        int64_t row = j < rows->n ? j : rows->n - 1;
        panel_row_of_4(w, rows->codes + row * rows->stride, rows->scales + row, rows->biases + row,
                       k, n, of_32, to + 64 * j);
    }
}

/* n is a constant but at the end of a row. */
static inline void strip_of_4(const bf16_weight *w, const strip_rows *rows, int64_t k, int64_t n,
                              uint8_t *to) {
    bool of_32 = w->matrix->form.group == 32;
    if (n == 128 && !of_32)
        strip_of_4_way(w, rows, k, 128, false, to);
    else if (n == 128)
        strip_of_4_way(w, rows, k, 128, true, to);
    else if (of_32)
        strip_of_4_way(w, rows, k, n, true, to);
    else
        strip_of_4_way(w, rows, k, n, false, to);
}

ALWAYS_INLINE void strip_of_way(const bf16_weight *w, const strip_rows *rows, int64_t k, int64_t n,
                                int bits, uint8_t *to) {
    for (int64_t j = 0; j < 16; j++) {
        int64_t row = j < rows->n ? j : rows->n - 1;
        panel_row_of(w, rows->codes + row * rows->stride, rows->scales + row, rows->biases + row, k,
                     n, bits, to + 64 * j);
    }
}

/* 8 bits in strips of 64, as panels have them, are constants. */
static inline void strip_of(const bf16_weight *w, const strip_rows *rows, int64_t k, int64_t n,
                            uint8_t *to) {
    const int bits = w->matrix->form.bits;
    if (bits == 8 && n == 64)
        strip_of_way(w, rows, k, 64, 8, to);
    else
        strip_of_way(w, rows, k, n, bits, to);
}

/* Places [k, k + n) of 16 of the outputs [o, o + n_outs), whose scales those are. Outputs past the
 * last repeat it. */
static inline void panel_strip(const bf16_weight *w, int64_t o, int64_t n_outs, const float *scales,
                               const float *biases, int64_t k, int64_t n, uint8_t *to) {
    const weight_matrix *m = w->matrix;
    int64_t off = k / 8 * m->form.bits, n_bytes = n / 8 * m->form.bits;
    int64_t stride = (int64_t)m->row_bytes;
    const uint8_t *rows = m->codes + (size_t)o * m->row_bytes + off;
    if (m->panels) {
        stride = (n_bytes + 63) / 64 * 64;
        gather_rows(w, o, n_outs, off, n_bytes, stride);
        rows = w->rows;
    }
    const strip_rows r = {rows, stride, n_outs, scales, biases};
    if (m->form.bits == 4 && m->form.group >= 32)
        strip_of_4(w, &r, k, n, to);
    else
        strip_of(w, &r, k, n, to);
}

/* Places [k, k + n) of outputs [o, o + n_outs), panel i of the unit: [two][step] tiles. Strips as
 * wide as 64 bytes of codes stay in the first-level cache between turning and unpacking. */
static inline void bf16_panel(const bf16_weight *w, int64_t o, int64_t n_outs, int64_t i, int64_t k,
                              int64_t n, uint8_t *tiles) {
    const int bits = w->matrix->form.bits;
    const int64_t strip = bits == 4 || bits == 8 ? 512 / bits : n;
    const float *scales = w->scales + i * w->n_groups * PANEL_OUTS;
    const float *biases = w->biases + i * w->n_groups * PANEL_OUTS;
    for (int64_t j = 0; j < PANEL_OUTS && j < n_outs; j += 16)
        for (int64_t first = 0; first < n; first += strip)
            panel_strip(w, o + j, n_outs - j < 16 ? n_outs - j : 16, scales + j, biases + j,
                        k + first, n - first < strip ? n - first : strip,
                        tiles + (j / 16 * n + first) / ROWS_BF16_STEP * 1024);
}

#endif
