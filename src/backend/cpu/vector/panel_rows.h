/* panel_rows.h: the 16 rows of a panel (weights/weights.h) in canonical order again, all at once,
 * for kernels whose lanes are the elements of a row.
 */
#ifndef MICA_BACKEND_CPU_VECTOR_PANEL_ROWS_H
#define MICA_BACKEND_CPU_VECTOR_PANEL_ROWS_H

#include "backend/cpu/vector/access.h"

/* Words are asked for this many bytes before they are needed. */
#define PANEL_AHEAD 2048

/* Bytes that 16 rows take. */
static inline size_t panel_rows_bytes(const weight_matrix *m) {
    return WEIGHT_PANEL * mica_weight_row_total(m);
}

/* A matrix of 16 rows at `room`, for a panel of m to be put into. */
static inline weight_matrix panel_rows_at(const weight_matrix *m, uint8_t *room) {
    weight_matrix rows = *m;
    const size_t supers = WEIGHT_PANEL * 2 * (size_t)(m->n_in / WEIGHT_SUPER);
    rows.panels = false;
    rows.first_lane = 0;
    rows.n_out = WEIGHT_PANEL;
    rows.n_experts = 1;
    rows.codes = room;
    room += WEIGHT_PANEL * m->row_bytes;
    rows.scales = room;
    room += WEIGHT_PANEL * m->scale_bytes;
    if (m->biases) rows.biases = room;
    room += WEIGHT_PANEL * m->scale_bytes;
    if (m->supers) rows.supers = room;
    if (m->super_biases) rows.super_biases = room + supers;
    return rows;
}

/* 16 words of 4 bytes of 16 rows; n of them lie at p, the others are 0. */
static inline void panel_words_4(const uint8_t *p, size_t n, v16 t[16]) {
    for (size_t i = n; i < 16; i++)
        t[i] = v16_zero();
    for (size_t i = 0; n < 16 && i < n; i++)
        t[i] = v16_load_as(p + 64 * i, MICA_F32);
    if (n < 16) return;
#pragma GCC unroll 16
    for (size_t i = 0; i < 16; i++) {
        __builtin_prefetch(p + PANEL_AHEAD + 64 * i);
        t[i] = v16_load_as(p + 64 * i, MICA_F32);
    }
}

/* The same of 32 words of 2 bytes, two in a lane. */
static inline void panel_words_2(const uint8_t *p, size_t n, v16 t[16]) {
#pragma GCC unroll 16
    for (size_t i = 0; i < 32; i += 2) {
        v16i low = i < n ? v16i_right16(v16_bits(v16_load_bf16(p + 32 * i))) : v16i_set(0);
        v16i high = i + 1 < n ? v16_bits(v16_load_bf16(p + 32 * (i + 1))) : v16i_set(0);
        t[i / 2] = v16_of_bits(v16i_or(low, high));
    }
}

/* Of every row 64 bytes, or the n that are left. */
static inline void panel_store(v16 t[16], uint8_t *to, size_t row_bytes, size_t n) {
    v16_turn(t);
    for (size_t j = 0; j < WEIGHT_PANEL; j++, to += row_bytes) {
        float part[16];
        v16_store(n >= 64 ? (float *)(void *)to : part, t[j]);
        if (n < 64) memcpy(to, part, n);
    }
}

/* One stream of the panel at `from` to 16 rows of row_bytes, one after the other. */
static inline void panel_turn(const uint8_t *from, size_t row_bytes, size_t word, uint8_t *to) {
    if (word == 1) {
        for (size_t i = 0; i < row_bytes * WEIGHT_PANEL; i++)
            to[i % WEIGHT_PANEL * row_bytes + i / WEIGHT_PANEL] = from[i];
        return;
    }
    for (size_t i = 0; i < row_bytes; i += 64) {
        v16 t[16];
        const uint8_t *p = from + i * WEIGHT_PANEL;
        if (word == 4)
            panel_words_4(p, (row_bytes - i) / 4, t);
        else
            panel_words_2(p, (row_bytes - i) / 2, t);
        panel_store(t, to + i, row_bytes, row_bytes - i);
    }
}

/* The panel that begins at `row`, to the rows made by panel_rows_at. */
static inline void panel_put_together(const weight_matrix *m, int64_t row,
                                      const weight_matrix *rows) {
    const size_t first = (size_t)(row + m->first_lane), word = mica_weight_scale_word(&m->form);
    const size_t supers = 2 * (size_t)(m->n_in / WEIGHT_SUPER);
    const struct {
        const uint8_t *from, *to;
        size_t row_bytes, word;
    } streams[] = {{m->codes, rows->codes, m->row_bytes, 4},
                   {m->scales, rows->scales, m->scale_bytes, word},
                   {m->biases, rows->biases, m->scale_bytes, word},
                   {m->supers, rows->supers, supers, 2},
                   {m->super_biases, rows->super_biases, supers, 2}};
    for (size_t i = 0; i < sizeof(streams) / sizeof(*streams); i++)
        if (streams[i].from)
            panel_turn(streams[i].from + first * streams[i].row_bytes, streams[i].row_bytes,
                       streams[i].word, (uint8_t *)(uintptr_t)streams[i].to);
}

#endif
