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

#include "backend/cpu/vector/weight_rows.h"
#include "graph/rows_bf16.h"

enum { PANEL_OUTS = 32 };

/* The scratch of one thread for one weight. */
typedef struct bf16_weight {
    const weight_matrix *matrix;
    i8_form form;
    row_source source;
    i8_unpacker unpacker;
    __m512 values;          /* of the codes of four bits */
    int64_t n_groups;       /* padded to 16 */
    float *scales, *biases; /* [outputs of a unit][n_groups] */
    uint8_t *gathered;      /* panels: the scales of one row */
    uint8_t *rows;          /* panels: [PANEL_OUTS][PIECE] bytes of codes */
} bf16_weight;

/* Floats of scratch; with w, its members point into memory at `at`. */
static inline int64_t bf16_weight_init(bf16_weight *w, const kernel_operand *o, int64_t n_outs,
                                       float *at) {
    const weight_matrix *m = o->matrix;
    int64_t n_groups = padded(m->n_in / m->form.group), n = n_groups * n_outs;
    int64_t n_rows = m->panels ? PANEL_OUTS * ROWS_BF16_PIECE / 4 : 0;
    if (w) {
        float values[16];
        *w = (bf16_weight){.matrix = m, .form = i8_form_of(&m->form), .n_groups = n_groups};
        for (int i = 0; i < 16; i++)
            values[i] = w->form.is_table ? (float)w->form.table[i] : (float)i;
        w->values = _mm512_loadu_ps(values);
        w->unpacker = i8_unpacker_init(&w->form);
        w->scales = at;
        w->biases = at + n;
        for (int64_t i = 0; i < n; i++)
            w->biases[i] = 0.0f;
        w->gathered = (uint8_t *)(at + 2 * n);
        w->rows = (uint8_t *)(at + 2 * n + gathered_floats(o));
        row_source_init(&w->source, o, m->n_in, at + 2 * n + gathered_floats(o) + n_rows);
    }
    return 2 * n + gathered_floats(o) + n_rows + padded(row_source_scratch(o, m->n_in));
}

/* Scales and biases of outputs [o, o + n_outs), as row j of the unit from `first` on. Outputs past
 * the last repeat it. */
static inline void bf16_open_rows(bf16_weight *w, int64_t o, int64_t n_outs, int64_t first) {
    const i8_form *f = &w->form;
    const v16 unit = v16_set(f->unit), zero = v16_set(-(float)f->zero);
    for (int64_t j = 0; j < PANEL_OUTS; j++) {
        float *scales = w->scales + (first + j) * w->n_groups;
        float *biases = w->biases + (first + j) * w->n_groups;
        int64_t row = o + (j < n_outs ? j : n_outs - 1);
        if (w->matrix->panels) {
            weight_matrix one = *w->matrix;
            one.codes = NULL;
            one = mica_weight_gather(&one, row, w->gathered);
            expand_scales(&w->source, &one, 0, scales, biases);
        } else {
            expand_scales(&w->source, w->matrix, row, scales, biases);
        }
        for (int64_t g = 0; f->is_table && g < w->n_groups; g += 16) {
            v16 s = v16_mul(v16_load(scales + g), unit);
            v16_store(scales + g, s);
            v16_store(biases + g, v16_mul(zero, s));
        }
    }
}

/* The values of 16 codes under a scale and a bias. */
ALWAYS_INLINE __m512 values_of_group(const bf16_weight *w, const float *scales, const float *biases,
                                     int64_t g) {
    return _mm512_fmadd_ps(_mm512_set1_ps(scales[g]), w->values, _mm512_set1_ps(biases[g]));
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
    const int64_t group = w->matrix->form.group;
    for (int64_t end = k + n; k < end; k += 64, codes += 32, to += 2 * 1024) {
        __m512i bytes = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)codes));
        __m512i a = _mm512_srlv_epi16(bytes, shift01), b = _mm512_srlv_epi16(bytes, shift23);
        __m512 first = values_of_group(w, scales, biases, of_32 ? k / 32 : k / group);
        __m512 other = first; /* the lookup's fifth bit: in groups of 64 it does not matter */
        if (of_32) {
            other = values_of_group(w, scales, biases, k / 32 + 1);
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
ALWAYS_INLINE __m512 spread_scales(const float *scales, int64_t k, int64_t group, __m512i lanes) {
    if (group >= 64) return _mm512_set1_ps(scales[k / group]);
    return _mm512_permutexvar_ps(lanes, _mm512_maskz_loadu_ps(0xF, scales + k / group));
}

/* Any bits and groups. */
ALWAYS_INLINE void panel_row_of(const bf16_weight *w, const uint8_t *codes, const float *scales,
                                const float *biases, int64_t k, int64_t n, int bits, uint8_t *to) {
    const int64_t group = w->matrix->form.group;
    int32_t at[16];
    for (int i = 0; i < 16; i++)
        at[i] = 4 * i / (int)group;
    const __m512i lanes = _mm512_loadu_si512(at);
    for (int64_t end = k + n; k < end; k += 64, codes += 8 * bits, to += 2 * 1024) {
        __m512i bytes = bits == 8 ? _mm512_loadu_si512(codes)
                                  : i8_codes_64(&w->unpacker, bits, codes, (end - k) / 8 * bits);
        __m512 s = spread_scales(scales, k, group, lanes);
        __m512 b = spread_scales(biases, k, group, lanes);
        _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh(scaled_byte(bytes, 1, s, b),
                                                             scaled_byte(bytes, 0, s, b)));
        _mm512_storeu_si512(to + 1024, (__m512i)_mm512_cvtne2ps_pbh(scaled_byte(bytes, 3, s, b),
                                                                    scaled_byte(bytes, 2, s, b)));
    }
}

/* Bytes [off, off + n_bytes) of the 16 rows of the panel that begins with `row`. */
static inline void rows_of_panel(const weight_matrix *m, int64_t row, int64_t off, int64_t n_bytes,
                                 uint8_t *to) {
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
            _mm512_storeu_si512(to + ROWS_BF16_PIECE * j + i, r[j]);
    }
}

/* The codes of elements [k, k + n) of outputs [o, o + n_outs), a row at every PIECE bytes. */
static inline void gather_rows(const bf16_weight *w, int64_t o, int64_t n_outs, int64_t k,
                               int64_t n) {
    const weight_matrix *m = w->matrix;
    int64_t row = o + m->first_lane, off = k / 8 * m->form.bits, n_bytes = n / 8 * m->form.bits;
    if (row % WEIGHT_PANEL == 0) {
        for (int64_t j = 0; j < n_outs; j += WEIGHT_PANEL)
            rows_of_panel(m, row + j, off, n_bytes, w->rows + ROWS_BF16_PIECE * j);
        return;
    }
    for (int64_t j = 0; j < n_outs; j++)
        for (int64_t i = 0; i < n_bytes; i += 4)
            memcpy(w->rows + ROWS_BF16_PIECE * j + i,
                   mica_panel_word(m->codes, m->row_bytes, 4, row + j, (size_t)(off + i) / 4), 4);
}

/* Places [k, k + n) of outputs [o, o + n_outs), rows `first` on of the unit: [two][step] tiles. */
static inline void bf16_panel(const bf16_weight *w, int64_t o, int64_t n_outs, int64_t first,
                              int64_t k, int64_t n, uint8_t *tiles) {
    const weight_matrix *m = w->matrix;
    const int64_t half = n / ROWS_BF16_STEP * 1024, group = m->form.group;
    const uint8_t *rows = m->codes + (size_t)o * m->row_bytes + k / 8 * m->form.bits;
    int64_t stride = (int64_t)m->row_bytes;
    if (m->panels) {
        gather_rows(w, o, n_outs, k, n);
        rows = w->rows;
        stride = ROWS_BF16_PIECE;
    }
    for (int64_t j = 0; j < PANEL_OUTS; j++) {
        const uint8_t *codes = rows + (j < n_outs ? j : n_outs - 1) * stride;
        const float *scales = w->scales + (first + j) * w->n_groups;
        const float *biases = w->biases + (first + j) * w->n_groups;
        uint8_t *to = tiles + j / 16 * half + j % 16 * 64;
        if (m->form.bits == 4 && group == 32)
            panel_row_of_4(w, codes, scales, biases, k, n, true, to);
        else if (m->form.bits == 4 && group > 32)
            panel_row_of_4(w, codes, scales, biases, k, n, false, to);
        else if (m->form.bits == 8)
            panel_row_of(w, codes, scales, biases, k, n, 8, to);
        else
            panel_row_of(w, codes, scales, biases, k, n, m->form.bits, to);
    }
}

#endif
