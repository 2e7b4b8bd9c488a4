/* operand.h: reading operands as rows: the last dimension is the row, those before it count rows.
 *
 * An operand of one dimension is one row that every row index finds (the broadcast of a bias).
 */
#ifndef MICA_BACKEND_CPU_OPERAND_H
#define MICA_BACKEND_CPU_OPERAND_H

#include "backend/cpu/kernel.h"

static inline int64_t operand_width(const kernel_operand *o) {
    return o->n_dims ? o->dim[o->n_dims - 1] : 0;
}

static inline int64_t operand_rows(const kernel_operand *o) {
    int64_t n = 1;
    for (int d = 0; d + 1 < o->n_dims; d++)
        n *= o->dim[d];
    return n;
}

/* Offset of row r in elements. */
static inline int64_t operand_row(const kernel_operand *o, int64_t r) {
    int64_t off = 0;
    if (o->rows) r = o->rows[r];
    for (int d = o->n_dims - 2; d >= 0; d--) {
        off += (d ? r % o->dim[d] : r) * o->stride[d];
        if (d) r /= o->dim[d];
    }
    return off;
}

static inline int64_t operand_step(const kernel_operand *o) {
    return o->n_dims ? o->stride[o->n_dims - 1] : 1;
}

static inline void *operand_ptr(const kernel_operand *o, int64_t elements) {
    return (char *)o->data + elements * (int64_t)mica_dtype_bytes(o->dtype);
}

static inline float operand_load(const kernel_operand *o, int64_t element) {
    return mica_load_f(o->data, o->dtype, (size_t)element);
}

static inline void operand_store(const kernel_operand *o, int64_t element, float x) {
    mica_store_f(o->data, o->dtype, (size_t)element, x);
}

/* Row r widened to f32. */
static inline void operand_load_row(const kernel_operand *o, int64_t r, float *out) {
    int64_t off = operand_row(o, r), step = operand_step(o), n = operand_width(o);
    for (int64_t i = 0; i < n; i++)
        out[i] = operand_load(o, off + i * step);
}

/* x[0..n) rounded to the operand's dtype and stored in row r from column `first`. */
static inline void operand_store_row(const kernel_operand *o, int64_t r, int64_t first, int64_t n,
                                     const float *x) {
    int64_t off = operand_row(o, r), step = operand_step(o);
    for (int64_t i = 0; i < n; i++)
        operand_store(o, off + (first + i) * step, x[i]);
}

/* x[0..n) rounded to T, and added to row r of the operand from column `first` on. */
static inline void operand_add_row(const kernel_operand *o, int64_t r, int64_t first, int64_t n,
                                   mica_dtype t, float *x) {
    int64_t off = operand_row(o, r), step = operand_step(o);
    for (int64_t i = 0; i < n; i++)
        x[i] = operand_load(o, off + (first + i) * step) + mica_round_to(x[i], t);
}

static inline const int32_t *operand_i32(const kernel_operand *o) { return o->data; }

/* Row `row` of a weight (of expert e: e*n_out + o) as f32, whether a form or a dense operand. */
static inline void operand_weight_row(const kernel_operand *w, int64_t row, float *out) {
    if (w->matrix)
        mica_weight_row(w->matrix, row, out);
    else
        operand_load_row(w, row, out);
}

static inline int64_t n_units_rows(const kernel_call *call) { return operand_rows(&call->out); }

static inline const char *declines_none(const kernel_call *call) {
    (void)call;
    return NULL;
}

#endif
