/* matmul_i8.c: matmuls over rows quantized to int8 (rows_i8.c).
 *
 * matmul_i8: out[r, o] = sum over blocks b, ascending, of
 *     fma(bias[o, b], sum[r, b], .) and fma(scale[o, b] * scale[r, b], dot[r, o, b], .)
 * in f32, where dot is the exact integer dot of the codes (below 2^28). Of a form whose zero point
 * is a constant it is the dot of code - zero, and there is no bias. Unit: one output column.
 *     With a third source [n_rows, n_out] or [n_out]: rT(that + rT(the sum)).
 * glu_matmul_i8: act(gate) * up of two such, act being act_glu_fused.
 * glu_rows_i8: the same in f32, quantized (rows_i8.c); unit: 32 outputs.
 * Profile: fast (levers int8 and int16). Source: docs/numerics.md 5.
 */
#include <math.h>

#include "backend/cpu/activation.h"
#include "backend/cpu/experts.h"
#include "backend/cpu/i8_form.h"
#include "backend/cpu/ref/rows_i8.h"

static float take(const uint8_t *at, int64_t i) { return mica_load_f(at, MICA_F32, (size_t)i); }

/* code is that of rows_i8.h: of one byte, or of two. */
static float dot_row(const weight_matrix *m, int64_t o, const uint8_t *x, bool fine) {
    const i8_form f = i8_form_of(&m->form);
    const uint8_t *x_scales = x + rows_i8_scales(m->n_in);
    const uint8_t *rest = x + rows_i8_rest(m->n_in);
    const uint8_t *x_sums = x + (f.block == 32 ? rows_i8_sums(m->n_in) : rows_i8_halves(m->n_in));
    float acc = 0.0f;
    for (int64_t b = 0; b < m->n_in / f.block; b++) {
        float scale, bias;
        int dot = 0;
        mica_weight_group(m, o, b >> f.block_shift, &scale, &bias);
        scale *= f.unit;
        for (int64_t i = b * f.block; i < (b + 1) * f.block; i++) {
            uint32_t code = mica_weight_code(m, o, i);
            int x_code = fine ? ROWS_I8_FINE * (int8_t)x[i] + (int8_t)rest[i] : (int8_t)x[i];
            dot += ((int)(f.is_table ? f.table[code] : code) - f.zero) * x_code;
        }
        if (f.has_bias) acc = fmaf(bias, take(x_sums, b), acc);
        acc = fmaf(scale * take(x_scales, b * f.block / ROWS_I8_GROUP), (float)dot, acc);
    }
    return acc;
}

static int64_t n_units_columns(const kernel_call *call) { return operand_width(&call->out); }

static float gated(const kernel_call *call, int64_t o, const uint8_t *row, bool fine,
                   mica_dtype t) {
    float gate = mica_round_to(dot_row(call->src[1].matrix, o, row, fine), t);
    float up = mica_round_to(dot_row(call->src[2].matrix, o, row, fine), t);
    return act_glu_fused(call->attr->glu.act, gate, t) * up;
}

static void run_matmul_i8(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    const kernel_operand *x = &call->src[0], *out = &call->out;
    bool fine = rows_i8_is_fine(operand_width(x), call->src[1].matrix->n_in);
    bool is_pair = call->op == OP_GLU_MATMUL_I8, is_sum = !is_pair && call->n_src > 2;
    (void)scratch;
    for (int64_t o = begin; o < end; o++) {
        for (int64_t r = 0; r < operand_rows(out); r++) {
            const uint8_t *row = (const uint8_t *)x->data + operand_row(x, r);
            float y = is_pair ? gated(call, o, row, fine, out->dtype)
                              : dot_row(call->src[1].matrix, o, row, fine);
            if (is_sum) operand_add_row(&call->src[2], r, o, 1, out->dtype, &y);
            operand_store_row(out, r, o, 1, &y);
        }
    }
}

static int64_t n_units_groups(const kernel_call *call) {
    return rows_i8_padded(call->src[1].matrix->n_out) / ROWS_I8_GROUP;
}

static void run_glu_rows(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    const kernel_operand *x = &call->src[0], *out = &call->out;
    int64_t n = call->src[1].matrix->n_out;
    bool fine = rows_i8_is_fine(operand_width(x), call->src[1].matrix->n_in);
    (void)scratch;
    for (int64_t g = begin; g < end; g++)
        for (int64_t r = 0; r < operand_rows(out); r++) {
            const uint8_t *row = (const uint8_t *)x->data + operand_row(x, r);
            float y[ROWS_I8_GROUP] = {0};
            for (int64_t i = 0; i < ROWS_I8_GROUP && g * ROWS_I8_GROUP + i < n; i++)
                y[i] = gated(call, g * ROWS_I8_GROUP + i, row, fine, MICA_F32);
            quantize_group_at(y, g, n, rows_i8_is_fine(operand_width(out), n),
                              (uint8_t *)out->data + operand_row(out, r));
        }
}

static const expert_kernel of_experts = {OP_MATMUL_I8, 1, n_units_columns, run_matmul_i8};
static const expert_kernel pairs_of_experts = {OP_GLU_MATMUL_I8, 2, n_units_columns, run_matmul_i8};

static const expert_kernel *experts_of(const kernel_call *call) {
    return call->op == OP_EXPERT_MATMUL_I8 ? &of_experts : &pairs_of_experts;
}

static int64_t expert_n_units(const kernel_call *call) {
    return expert_units(call, experts_of(call));
}

static const char *declines_experts(const kernel_call *call) {
    return expert_declines(call, experts_of(call), i8_declines);
}

static void run_experts(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    expert_run(call, experts_of(call), begin, end, scratch);
}

MICA_DECLARE_KERNELS(matmul_i8_ref);
const cpu_kernel mica_kernels_matmul_i8_ref[] = {
    {"matmul_i8_ref", OP_MATMUL_I8, ISA_REF, i8_declines, n_units_columns, run_matmul_i8, NULL},
    {"glu_matmul_i8_ref", OP_GLU_MATMUL_I8, ISA_REF, i8_declines, n_units_columns, run_matmul_i8,
     NULL},
    {"glu_rows_i8_ref", OP_GLU_ROWS_I8, ISA_REF, i8_declines, n_units_groups, run_glu_rows, NULL},
    {"expert_matmul_i8_ref", OP_EXPERT_MATMUL_I8, ISA_REF, declines_experts, expert_n_units,
     run_experts, NULL},
    {"expert_glu_matmul_i8_ref", OP_EXPERT_GLU_MATMUL_I8, ISA_REF, declines_experts, expert_n_units,
     run_experts, NULL},
};
const int mica_n_kernels_matmul_i8_ref =
    sizeof(mica_kernels_matmul_i8_ref) / sizeof(mica_kernels_matmul_i8_ref[0]);
