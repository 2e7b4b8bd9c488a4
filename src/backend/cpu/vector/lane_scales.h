/* lane_scales.h: scales and biases of the 16 rows of a panel (weights/weights.h) as lanes, formed
 * in f32. Those of a group lie `stride` floats behind those of the group before.
 */
#ifndef MICA_BACKEND_CPU_VECTOR_LANE_SCALES_H
#define MICA_BACKEND_CPU_VECTOR_LANE_SCALES_H

#include "backend/cpu/vector/weight_rows.h"

/* 16 stored scales or biases of group g. */
static inline v16 panel_stored(scale_kind kind, const uint8_t *p, int64_t g) {
    float wide[16];
    switch (kind) {
    case SCALE_F32:
        return v16_load_as(p + 64 * g, MICA_F32);
    case SCALE_F16:
        return v16_load_f16(p + 32 * g);
    case SCALE_BF16:
        return v16_load_bf16(p + 32 * g);
    default:
        expand_bytes(kind, p + 16 * g, 16, wide);
        return v16_load(wide);
    }
}

/* sign * super * (sub code - zero) of all groups: those of a super-scale are `bits` each of the
 * words of two bytes that the 16 rows have side by side. */
ALWAYS_INLINE void panel_two_level(const weight_matrix *m, const uint8_t *subs,
                                   const uint8_t *supers, float zero, float sign, int n_sub,
                                   int bits, int64_t stride, float *out) {
    const v16i mask = v16i_set((1u << bits) - 1u);
    for (int64_t s = 0; s < m->n_in / WEIGHT_SUPER; s++, supers += 32, subs += 2 * n_sub * bits) {
        v16 d = v16_mul(v16_set(sign), v16_load_f16(supers));
#pragma GCC unroll 16
        for (int k = 0; k < n_sub; k++, out += stride) {
            const uint8_t *word = subs + k * bits / 16 * 32;
            int shift = k * bits % 16;
            v16i both = v16i_right16(v16_bits(v16_load_bf16(word)));
            if (shift + bits > 16) /* the next word as the upper half of the lane */
                both = v16i_or(both, v16_bits(v16_load_bf16(word + 32)));
            v16 code = v16_of_int(v16i_and(v16i_right(both, shift), mask));
            v16_store(out, v16_mul(d, v16_sub(code, v16_set(zero))));
        }
    }
}

static inline void panel_subs(const weight_matrix *m, const uint8_t *subs, const uint8_t *supers,
                              float zero, float sign, int64_t stride, float *out) {
    bool many = m->form.group == 16;
    if (m->form.sub_bits == 4)
        panel_two_level(m, subs, supers, zero, sign, many ? 16 : 8, 4, stride, out);
    else if (m->form.sub_bits == 6 && many)
        panel_two_level(m, subs, supers, zero, sign, 16, 6, stride, out);
    else if (m->form.sub_bits == 6)
        panel_two_level(m, subs, supers, zero, sign, 8, 6, stride, out);
    else
        panel_two_level(m, subs, supers, zero, sign, many ? 16 : 8, 8, stride, out);
}

/* Those of the panel that begins with row o; scales times `unit`. Biases that are not stored are
 * left as they are. */
static inline void lane_scales_of_panel(const weight_matrix *m, float unit, int64_t o,
                                        int64_t stride, float *to_scales, float *to_biases) {
    const weight_form *f = &m->form;
    const size_t row = (size_t)o, n_supers = (size_t)(m->n_in / WEIGHT_SUPER);
    const uint8_t *scales = m->scales + row * m->scale_bytes;
    const uint8_t *biases = m->biases ? m->biases + row * m->scale_bytes : NULL;
    if (f->scale == SCALE_TWO_LEVEL) {
        panel_subs(m, scales, m->supers + 2 * row * n_supers, (float)f->sub_zero, 1.0f, stride,
                   to_scales);
        if (f->bias == BIAS_TWO_LEVEL)
            panel_subs(m, biases, m->super_biases + 2 * row * n_supers, 0.0f, -1.0f, stride,
                       to_biases);
        return;
    }
    for (int64_t g = 0; g < m->n_in / f->group; g++, to_scales += stride, to_biases += stride) {
        v16_store(to_scales, v16_mul(panel_stored(f->scale, scales, g), v16_set(unit)));
        if (f->bias == BIAS_GROUP) v16_store(to_biases, panel_stored(f->scale, biases, g));
    }
}

#endif
