/* panels.c: rows that lie in panels (weights.h): which may, and a row put together again.
 *
 * Kernels that take outputs as lanes read panels as they lie. All others, and rows that do not
 * begin where a panel does, read a copy of one row in canonical order; it gives the same numbers.
 */
#include "weights/weights.h"

#include <string.h>

size_t mica_weight_scale_word(const weight_form *form) {
    switch (form->scale) {
    case SCALE_F32:
        return 4;
    case SCALE_E8M0:
    case SCALE_E4M3:
        return 1;
    default:
        return 2; /* f16, bf16, and two bytes of sub-scales */
    }
}

bool mica_weight_panels_fit(const weight_form *form, int64_t n_out, int64_t n_in) {
    bool has_kernel =
        form->kind == WEIGHT_AFFINE || (form->kind == WEIGHT_TABLE && form->bits == 4);
    return has_kernel && n_out % WEIGHT_PANEL == 0 && n_in % 32 == 0;
}

static inline void fill_words(const uint8_t *rows, size_t row_bytes, size_t word, uint8_t *to) {
    for (size_t i = 0; i < row_bytes; i += word)
        for (size_t j = 0; j < WEIGHT_PANEL; j++, to += word)
            memcpy(to, rows + j * row_bytes + i, word);
}

void mica_panel_fill(const uint8_t *rows, size_t row_bytes, size_t word, uint64_t n_rows,
                     uint8_t *to) {
    const size_t panel = WEIGHT_PANEL * row_bytes;
    for (uint64_t r = 0; r < n_rows; r += WEIGHT_PANEL, rows += panel, to += panel) {
        if (word == 4)
            fill_words(rows, row_bytes, 4, to);
        else if (word == 2)
            fill_words(rows, row_bytes, 2, to);
        else
            fill_words(rows, row_bytes, 1, to);
    }
}

static size_t super_bytes(const weight_matrix *m) {
    return m->supers ? 2 * (size_t)(m->n_in / WEIGHT_SUPER) : 0;
}

size_t mica_weight_row_total(const weight_matrix *m) {
    return m->row_bytes + 2 * m->scale_bytes + 2 * super_bytes(m);
}

/* Words of one row, WEIGHT_PANEL words apart. */
static inline void copy_words(const uint8_t *from, size_t n, size_t word, uint8_t *to) {
    for (size_t i = 0; i < n; i++)
        memcpy(to + i * word, from + i * WEIGHT_PANEL * word, word);
}

/* Copies a row of one stream to *to and moves *to behind it. NULL: no such stream. */
static const uint8_t *take_row(const uint8_t *stream, size_t row_bytes, size_t word, int64_t row,
                               uint8_t **to) {
    if (!stream) return NULL;
    const uint8_t *from = mica_panel_word(stream, row_bytes, word, row, 0);
    if (word == 4)
        copy_words(from, row_bytes / 4, 4, *to);
    else if (word == 2)
        copy_words(from, row_bytes / 2, 2, *to);
    else
        copy_words(from, row_bytes, 1, *to);
    *to += row_bytes;
    return *to - row_bytes;
}

weight_matrix mica_weight_gather(const weight_matrix *m, int64_t row, uint8_t *to) {
    weight_matrix one = *m;
    size_t word = mica_weight_scale_word(&m->form), supers = super_bytes(m);
    one.panels = false;
    one.first_lane = 0;
    one.n_out = one.n_experts = 1;
    row += m->first_lane;
    one.codes = take_row(m->codes, m->row_bytes, 4, row, &to);
    one.scales = take_row(m->scales, m->scale_bytes, word, row, &to);
    one.biases = take_row(m->biases, m->scale_bytes, word, row, &to);
    one.supers = take_row(m->supers, supers, 2, row, &to);
    one.super_biases = take_row(m->super_biases, supers, 2, row, &to);
    return one;
}
