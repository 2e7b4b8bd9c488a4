/* elementwise.h: sums, products, activations, the sum over experts and the rotation of rope, once
 * for every ISA; the roundings of ref/elementwise.c, ref/moe.c and ref/rope.c.
 *
 * Unit: 1024 columns of one row; one head of one row.
 */
#ifndef MICA_BACKEND_CPU_VECTOR_ELEMENTWISE_H
#define MICA_BACKEND_CPU_VECTOR_ELEMENTWISE_H

#include "backend/cpu/vector/activate.h"

#define UNIT_COLUMNS 1024

static inline const char *declines_elements(const kernel_call *call) {
    bool dense = is_dense_row(&call->out);
    for (int i = 0; i < call->n_src; i++)
        dense = dense && is_dense_row(&call->src[i]);
    return dense ? NULL : "the elements of a row do not lie side by side";
}

static inline int64_t units_per_row(const kernel_call *call) {
    return (operand_width(&call->out) + UNIT_COLUMNS - 1) / UNIT_COLUMNS;
}

static inline int64_t n_units_elements(const kernel_call *call) {
    return operand_rows(&call->out) * units_per_row(call);
}

static inline v16 element(const kernel_call *call, v16 a, v16 b) {
    mica_dtype t = call->out.dtype;
    switch (call->op) {
    case OP_ADD:
        return v16_add(a, b);
    case OP_MUL:
        return v16_mul(a, b);
    case OP_SCALE:
        return v16_mul(a, v16_set(mica_round_to(call->attr->scale.c, t)));
    case OP_SILU:
        return v16_silu(a, t);
    case OP_GELU:
        return v16_gelu(a, t);
    case OP_GELU_TANH:
        return v16_gelu_tanh(a, t);
    case OP_SIGMOID:
        return v16_sigmoid(a, t);
    case OP_SOFTCAP:
        return v16_softcap(a, call->attr->scale.c, t);
    case OP_RELU2:
        a = v16_max(a, v16_zero());
        return v16_mul(a, a);
    case OP_CLAMP: /* the limit first: what is no number passes, as in the reference */
        b = v16_set(mica_round_to(call->attr->scale.c, t));
        return v16_min(b, v16_max(v16_sub(v16_zero(), b), a));
    default:
        return a; /* OP_CAST */
    }
}

static inline void run_elements(const kernel_call *call, int64_t begin, int64_t end,
                                void *scratch) {
    (void)scratch;
    const kernel_operand *a = &call->src[0], *b = &call->src[1], *out = &call->out;
    int64_t per_row = units_per_row(call), n = operand_width(out);
    bool has_b = call->n_src > 1 && b->data;
    for (int64_t u = begin; u < end; u++) {
        int64_t r = u / per_row, first = u % per_row * UNIT_COLUMNS;
        int64_t last = first + UNIT_COLUMNS < n ? first + UNIT_COLUMNS : n;
        int64_t a_off = operand_row(a, r), b_off = operand_row(b, r), o_off = operand_row(out, r);
        for (int64_t i = first; i < last; i += 16) {
            int64_t left = last - i < 16 ? last - i : 16;
            const void *pa = at(a->data, a->dtype, a_off + i);
            v16 av = left == 16 ? v16_load_as(pa, a->dtype) : v16_load_part(pa, a->dtype, left);
            v16 bv = v16_zero();
            if (has_b) {
                const void *pb = at(b->data, b->dtype, b_off + i);
                bv = left == 16 ? v16_load_as(pb, b->dtype) : v16_load_part(pb, b->dtype, left);
            }
            void *po = at_mut(out->data, out->dtype, o_off + i);
            if (left == 16)
                v16_store_as(po, out->dtype, element(call, av, bv));
            else
                v16_store_part(po, out->dtype, left, element(call, av, bv));
        }
    }
}

/* The outputs of a row's k experts, each times its weight, added in order. */
static inline void run_combine(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    const kernel_operand *y = &call->src[0], *weights = &call->src[1], *out = &call->out;
    int64_t per_row = units_per_row(call), n = operand_width(out), k = operand_width(weights);
    for (int64_t u = begin; u < end; u++) {
        int64_t r = u / per_row, first = u % per_row * UNIT_COLUMNS;
        int64_t last = first + UNIT_COLUMNS < n ? first + UNIT_COLUMNS : n;
        int64_t w_off = operand_row(weights, r), o_off = operand_row(out, r);
        for (int64_t i = first; i < last; i += 16) {
            int64_t n_here = last - i < 16 ? last - i : 16;
            v16 sum = v16_zero();
            for (int64_t j = 0; j < k; j++) {
                v16 w = v16_set(operand_load(weights, w_off + j));
                const void *p = at(y->data, y->dtype, operand_row(y, r * k + j) + i);
                v16 v =
                    n_here == 16 ? v16_load_as(p, y->dtype) : v16_load_part(p, y->dtype, n_here);
                sum = v16_add(sum, v16_round_to(v16_mul(v, w), out->dtype));
            }
            void *to = at_mut(out->data, out->dtype, o_off + i);
            if (n_here == 16)
                v16_store_as(to, out->dtype, sum);
            else
                v16_store_part(to, out->dtype, n_here, sum);
        }
    }
}

/* ---- rope ---- */

static inline size_t scratch_rope(const kernel_call *call) {
    return 2 * sizeof(float) * (size_t)padded(call->attr->rope.dims);
}

/* Channels [i, i + left) of the first half and their partners; tails through copies. */
static inline void rotate_chunk(const kernel_call *call, const uint8_t *x, const uint8_t *angles,
                                uint8_t *out, int64_t i, int64_t left) {
    mica_dtype xt = call->src[0].dtype, at_ = call->src[1].dtype, t = call->out.dtype;
    int64_t half = call->attr->rope.dims / 2;
    bool whole = left >= 16;
    v16 x1 = whole ? v16_load_as(at(x, xt, i), xt) : v16_load_part(at(x, xt, i), xt, left);
    v16 x2 =
        whole ? v16_load_as(at(x, xt, half + i), xt) : v16_load_part(at(x, xt, half + i), xt, left);
    v16 c =
        whole ? v16_load_as(at(angles, at_, i), at_) : v16_load_part(at(angles, at_, i), at_, left);
    v16 s = whole ? v16_load_as(at(angles, at_, half + i), at_)
                  : v16_load_part(at(angles, at_, half + i), at_, left);
    if (call->attr->rope.input_scale != 1.0f) {
        v16 scale = v16_set(mica_round_to(call->attr->rope.input_scale, t));
        x1 = v16_round_to(v16_mul(x1, scale), t);
        x2 = v16_round_to(v16_mul(x2, scale), t);
    }
    v16 y1 = v16_sub(v16_mul(x1, c), v16_mul(x2, s));
    v16 y2 = v16_add(v16_mul(x1, s), v16_mul(x2, c));
    if (whole) {
        v16_store_as(at_mut(out, t, i), t, y1);
        v16_store_as(at_mut(out, t, half + i), t, y2);
    } else {
        v16_store_part(at_mut(out, t, i), t, left, y1);
        v16_store_part(at_mut(out, t, half + i), t, left, y2);
    }
}

static inline void rotate_halves(const kernel_call *call, const uint8_t *x, const uint8_t *angles,
                                 uint8_t *out) {
    int64_t half = call->attr->rope.dims / 2;
    for (int64_t i = 0; i < half; i += 16)
        rotate_chunk(call, x, angles, out, i, half - i);
}

/* Cosine and sine of a row, each for both of its neighbours: c, c and -s, s. */
static inline void spread_angles(const kernel_call *call, const uint8_t *angles, float *cosines,
                                 float *sines) {
    mica_dtype t = call->src[1].dtype;
    int64_t half = call->attr->rope.dims / 2;
    for (int64_t i = 0; i < half; i++) {
        float s = mica_load_f(angles, t, (size_t)(half + i));
        cosines[2 * i] = cosines[2 * i + 1] = mica_load_f(angles, t, (size_t)i);
        sines[2 * i] = -s;
        sines[2 * i + 1] = s;
    }
}

/* x1 c - x2 s is x1 c + x2 (-s), and a sum does not ask which comes first. */
static inline void rotate_neighbours(const kernel_call *call, const uint8_t *x,
                                     const float *cosines, const float *sines, uint8_t *out) {
    mica_dtype xt = call->src[0].dtype, t = call->out.dtype;
    int64_t dims = call->attr->rope.dims;
    float scale = mica_round_to(call->attr->rope.input_scale, t);
    for (int64_t i = 0; i < dims; i += 16) {
        int64_t left = dims - i;
        v16 a = left >= 16 ? v16_load_as(at(x, xt, i), xt) : v16_load_part(at(x, xt, i), xt, left);
        if (call->attr->rope.input_scale != 1.0f) a = v16_round_to(v16_mul(a, v16_set(scale)), t);
        v16 y = v16_add(v16_mul(a, v16_load(cosines + i)),
                        v16_mul(v16_swap_pairs(a), v16_load(sines + i)));
        if (left >= 16)
            v16_store_as(at_mut(out, t, i), t, y);
        else
            v16_store_part(at_mut(out, t, i), t, left, y);
    }
}

static inline void run_rope(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    const kernel_operand *x = &call->src[0], *angles = &call->src[1], *out = &call->out;
    int64_t n = operand_width(x), dims = call->attr->rope.dims, spread_row = -1;
    float *cosines = scratch, *sines = cosines + padded(dims);
    for (int64_t u = begin; u < end; u++) {
        int64_t row = u / x->dim[1];
        const uint8_t *px = at(x->data, x->dtype, operand_row(x, u));
        const uint8_t *pa = at(angles->data, angles->dtype, operand_row(angles, row));
        uint8_t *po = at_mut(out->data, out->dtype, operand_row(out, u));
        if (!call->attr->rope.traditional) {
            rotate_halves(call, px, pa, po);
        } else {
            if (row != spread_row) spread_angles(call, pa, cosines, sines);
            spread_row = row;
            rotate_neighbours(call, px, cosines, sines, po);
        }
        for (int64_t i = dims; i < n; i++)
            mica_store_f(po, out->dtype, (size_t)i, mica_load_f(px, x->dtype, (size_t)i));
    }
}

static inline int64_t n_units_rope(const kernel_call *call) { return operand_rows(&call->out); }

#endif
