/* embed.c: rows of a table: out[r, :] = W[ids[r], :], and rows of an activation.
 *
 * A quantized row is computed in T = dtype of out: rT(rT(scale * code) + bias), two roundings; a
 * table form rT(scale * value). An index outside the table gives zeros. Unit: one row.
 * Profile: exact. Source: docs/numerics.md 2.1, 2.4, 2.5.
 */
#include "backend/cpu/operand.h"

static const float *table_of(const weight_form *f) {
    if (f->table == TABLE_E2M1) return mica_table_e2m1;
    return f->table == TABLE_E4M3 ? mica_table_e4m3 : mica_table_iq4nl;
}

static void embed_quantized(const weight_matrix *m, int64_t row, const kernel_operand *out,
                            int64_t r) {
    const weight_form *f = &m->form;
    const float *table = f->kind == WEIGHT_TABLE ? table_of(f) : NULL;
    int64_t off = operand_row(out, r), step = operand_step(out);
    for (int64_t g = 0; g < m->n_in / f->group; g++) {
        float s, b;
        mica_weight_group(m, row, g, &s, &b);
        for (int64_t i = g * f->group; i < (g + 1) * f->group; i++) {
            uint32_t code = mica_weight_code(m, row, i);
            float w = table ? s * table[code] : mica_round_to(s * (float)code, out->dtype) + b;
            operand_store(out, off + i * step, w);
        }
    }
}

static void embed_dense(const kernel_operand *w, int64_t row, const kernel_operand *out,
                        int64_t r) {
    int64_t off = operand_row(out, r), step = operand_step(out), n = operand_width(out);
    for (int64_t i = 0; i < n; i++) {
        float v;
        if (w->matrix)
            v = mica_load_f(w->matrix->codes + (size_t)row * w->matrix->row_bytes,
                            w->matrix->form.dtype, (size_t)i);
        else
            v = operand_load(w, operand_row(w, row) + i * operand_step(w));
        operand_store(out, off + i * step, v);
    }
}

static void zero_row(const kernel_operand *out, int64_t r) {
    int64_t off = operand_row(out, r), step = operand_step(out), n = operand_width(out);
    for (int64_t i = 0; i < n; i++)
        operand_store(out, off + i * step, 0.0f);
}

static void run_embed(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    const kernel_operand *w = &call->src[1], *out = &call->out;
    const int32_t *ids = operand_i32(&call->src[0]);
    int64_t n_vocab = w->matrix ? w->matrix->n_out * w->matrix->n_experts : w->dim[0];
    for (int64_t r = begin; r < end; r++) {
        int64_t id = ids[r];
        if (id < 0 || id >= n_vocab)
            zero_row(out, r);
        else if (w->matrix && w->matrix->form.kind != WEIGHT_DENSE)
            embed_quantized(w->matrix, id, out, r);
        else
            embed_dense(w, id, out, r);
    }
}

static void run_gather_rows(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    const int32_t *rows = operand_i32(&call->src[1]);
    for (int64_t r = begin; r < end; r++) {
        if (rows[r] < 0 || rows[r] >= operand_rows(&call->src[0]))
            zero_row(&call->out, r);
        else
            embed_dense(&call->src[0], rows[r], &call->out, r);
    }
}

MICA_DECLARE_KERNELS(embed_ref);
const cpu_kernel mica_kernels_embed_ref[] = {
    {"embed_ref", OP_EMBED, ISA_REF, declines_none, n_units_rows, run_embed, NULL},
    {"gather_rows_ref", OP_GATHER_ROWS, ISA_REF, declines_none, n_units_rows, run_gather_rows,
     NULL},
};
const int mica_n_kernels_embed_ref = 2;
