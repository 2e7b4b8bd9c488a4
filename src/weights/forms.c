/* forms.c: what a weight_form means, element by element, in f32. This is the definition that every
 * kernel is held against (docs/numerics.md 2 and 3.2).
 */
#include "weights/weights.h"

#include <stdio.h>

static float stored_scale(scale_kind kind, const uint8_t *row, int64_t g) {
    switch (kind) {
    case SCALE_F32:
        return mica_load_f(row, MICA_F32, (size_t)g);
    case SCALE_F16:
        return mica_load_f(row, MICA_F16, (size_t)g);
    case SCALE_BF16:
        return mica_load_f(row, MICA_BF16, (size_t)g);
    case SCALE_E8M0:
        return mica_e8m0_to_f32(row[g]);
    case SCALE_E4M3:
        return mica_table_e4m3[row[g]];
    case SCALE_NONE:
    case SCALE_TWO_LEVEL:
        break;
    }
    return 1.0f;
}

static float super_value(const weight_matrix *m, const uint8_t *supers, int64_t row, int64_t g) {
    int64_t n_supers = m->n_in / WEIGHT_SUPER;
    int64_t super = g * m->form.group / WEIGHT_SUPER;
    if (m->panels)
        return mica_load_f(
            mica_panel_word(supers, 2 * (size_t)n_supers, 2, row + m->first_lane, (size_t)super),
            MICA_F16, 0);
    return mica_load_f(supers, MICA_F16, (size_t)(row * n_supers + super));
}

/* Stored scale or bias g of a row. */
static float scale_at(const weight_matrix *m, const uint8_t *stream, int64_t row, int64_t g) {
    scale_kind kind = m->form.scale;
    if (!m->panels) return stored_scale(kind, stream + (size_t)row * m->scale_bytes, g);
    size_t word = mica_weight_scale_word(&m->form);
    return stored_scale(
        kind, mica_panel_word(stream, m->scale_bytes, word, row + m->first_lane, (size_t)g), 0);
}

/* Code i of a row whose words, of 2 or 4 bytes, lie in panels. */
static uint32_t panel_code(const uint8_t *stream, size_t row_bytes, unsigned word, int64_t row,
                           unsigned bits, size_t i) {
    size_t bit = i * bits;
    unsigned shift = (unsigned)(bit % (8 * word));
    const uint8_t *p = mica_panel_word(stream, row_bytes, word, row, bit / (8 * word));
    uint64_t v = 0;
    for (unsigned k = 0; k < word; k++)
        v |= (uint64_t)p[k] << (8 * k);
    for (unsigned k = 0; k < word && shift + bits > 8 * word; k++)
        v |= (uint64_t)p[WEIGHT_PANEL * word + k] << (8 * (word + k));
    return (uint32_t)(v >> shift) & ((1u << bits) - 1u);
}

static uint32_t sub_code(const weight_matrix *m, const uint8_t *stream, int64_t row, int64_t g) {
    unsigned bits = m->form.sub_bits;
    if (m->panels)
        return panel_code(stream, m->scale_bytes, 2, row + m->first_lane, bits, (size_t)g);
    return mica_bitstream_at(stream + (size_t)row * m->scale_bytes, bits, (size_t)g);
}

uint32_t mica_weight_code(const weight_matrix *m, int64_t row, int64_t i) {
    if (m->panels)
        return panel_code(m->codes, m->row_bytes, 4, row + m->first_lane, m->form.bits, (size_t)i);
    return mica_bitstream_at(m->codes + (size_t)row * m->row_bytes, m->form.bits, (size_t)i);
}

void mica_weight_group(const weight_matrix *m, int64_t row, int64_t g, float *s, float *b) {
    const weight_form *f = &m->form;
    if (f->scale == SCALE_TWO_LEVEL) {
        int code = (int)sub_code(m, m->scales, row, g);
        *s = super_value(m, m->supers, row, g) * (float)(code - f->sub_zero);
    } else {
        *s = scale_at(m, m->scales, row, g);
        if (m->globals) *s *= m->globals[row / m->n_out];
    }
    *b = 0.0f;
    switch (f->bias) {
    case BIAS_NONE:
        break;
    case BIAS_GROUP:
        *b = scale_at(m, m->biases, row, g);
        break;
    case BIAS_ZERO:
        *b = -((float)f->zero * *s);
        break;
    case BIAS_TWO_LEVEL:
        *b = -(super_value(m, m->super_biases, row, g) * (float)sub_code(m, m->biases, row, g));
        break;
    }
}

static const float *table_values(code_table table) {
    switch (table) {
    case TABLE_E2M1:
        return mica_table_e2m1;
    case TABLE_E4M3:
        return mica_table_e4m3;
    case TABLE_IQ4NL:
        return mica_table_iq4nl;
    }
    return NULL;
}

void mica_weight_row(const weight_matrix *m, int64_t row, float *out) {
    if (m->parts) {
        const weight_matrix *part = &m->parts[row / m->n_out];
        mica_weight_row(part, row % m->n_out, out);
        return;
    }
    const weight_form *f = &m->form;
    if (f->kind == WEIGHT_DENSE) {
        const uint8_t *codes = m->codes + (size_t)row * m->row_bytes;
        for (int64_t i = 0; i < m->n_in; i++)
            out[i] = mica_load_f(codes, f->dtype, (size_t)i);
        return;
    }
    const float *table = f->kind == WEIGHT_TABLE ? table_values(f->table) : NULL;
    for (int64_t g = 0; g < m->n_in / f->group; g++) {
        float s, b;
        mica_weight_group(m, row, g, &s, &b);
        for (int64_t i = g * f->group; i < (g + 1) * f->group; i++) {
            uint32_t code = mica_weight_code(m, row, i);
            out[i] = table ? s * table[code] : s * (float)code + b;
        }
    }
}

uint64_t mica_weight_bytes(const weight_matrix *m) {
    uint64_t row = m->row_bytes;
    if (m->form.kind != WEIGHT_DENSE) row += m->scale_bytes;
    if (m->biases) row += m->scale_bytes;
    if (m->supers) row += 2 * (uint64_t)m->n_in / WEIGHT_SUPER;
    if (m->super_biases) row += 2 * (uint64_t)m->n_in / WEIGHT_SUPER;
    return row * (uint64_t)m->n_out * (uint64_t)m->n_experts;
}

mica_dtype mica_weight_dtype(const weight_matrix *m, bool *has) {
    *has = !m->form.storage_scales;
    if (m->form.kind == WEIGHT_DENSE) return m->form.dtype;
    if (m->form.scale == SCALE_F32) return MICA_F32;
    if (m->form.scale == SCALE_F16) return MICA_F16;
    return MICA_BF16; /* also the fp modes, whose scales have no float type of their own */
}

void mica_weight_form_text(const weight_form *form, char *out, size_t n) {
    static const char *const scales[] = {"", "f32", "f16", "bf16", "e8m0", "e4m3", "f16 two-level"};
    static const char *const tables[] = {"e2m1", "e4m3", "iq4nl"};
    if (form->kind == WEIGHT_DENSE) {
        snprintf(out, n, "%s", mica_dtype_name(form->dtype));
        return;
    }
    char zero[16] = "";
    if (form->bias == BIAS_ZERO) snprintf(zero, sizeof(zero), " zero %d", form->zero);
    if (form->kind == WEIGHT_TABLE)
        snprintf(out, n, "%s g%d %s", tables[form->table], form->group, scales[form->scale]);
    else
        snprintf(out, n, "q%d g%d %s%s", form->bits, form->group, scales[form->scale], zero);
}
