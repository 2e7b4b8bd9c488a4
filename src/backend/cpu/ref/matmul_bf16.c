/* matmul_bf16.c: rows rounded to bf16 in tiles, and matmuls of them as tiles compute.
 *
 * tile_rows: x [n_rows, n], n a multiple of 64 -> the rows of graph/rows_bf16.h; with groups those
 * of each active expert. Subnormal numbers are zeros too. Unit: 16 rows.
 * matmul_bf16: x such rows; w = bf16(fma(scale, code, bias)), codes as in i8_form.h; out [n_rows,
 * n_out], with a third source rT(that + the result) of that shape or [n_out]. The sums are those of
 * TDPBF16PS: a step of 32 places at a time, the products of even places and those of odd places
 * each in one ascending chain of fused multiply-adds from zero, the two added, then added to the
 * sum so far; subnormal numbers count as zero and become zero. glu_matmul_bf16: act(gate) * up of
 * two such, rounded as ref/glu.c. Unit: one output column. For experts likewise. Profile: fast
 * (lever bf16). Source: docs/numerics.md 5.
 */
#include <math.h>

#include "backend/cpu/activation.h"
#include "backend/cpu/experts.h"
#include "backend/cpu/i8_form.h"
#include "graph/rows_bf16.h"

enum { STEP = ROWS_BF16_STEP };

static const char *declines_tiles(const kernel_call *call) {
    return operand_width(&call->src[0]) % ROWS_BF16_UNIT ? "rows of other than whole 64 elements"
                                                         : NULL;
}

static const char *declines(const kernel_call *call) {
    if (call->src[1].matrix && call->src[1].matrix->n_in % ROWS_BF16_UNIT)
        return "rows of other than whole 64 elements";
    for (int i = 1; i <= bf16_n_weights(call); i++) {
        const char *why = i8_declines_weight(&call->src[i]);
        if (why) return why;
    }
    return NULL;
}

static float flush(float x) {
    uint32_t bits = mica_f32_bits(x);
    return bits & 0x7F800000u ? x : mica_bits_f32(bits & 0x80000000u);
}

static void store_at(const kernel_operand *o, int64_t k, float x) {
    int64_t n = operand_width(o);
    operand_store(o, operand_row(o, k / n) + k % n * operand_step(o),
                  flush(mica_round_to(flush(x), MICA_BF16)));
}

/* Block b of the matrix that x becomes at element `to` of the output. */
static void tile_block(const kernel_operand *x, int64_t b, const kernel_operand *out, int64_t to) {
    int64_t n = operand_width(x), n_rows = operand_rows(x), n_blocks = (n_rows + 15) / 16;
    for (int64_t r = 16 * b; r < 16 * b + 16; r++)
        for (int64_t i = 0; i < n; i++) {
            float v = r < n_rows ? operand_load(x, operand_row(x, r) + i * operand_step(x)) : 0.0f;
            store_at(out, to + rows_bf16_at(r, rows_bf16_place(i), n, n_blocks), v);
        }
}

static void run_tile_rows(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    const kernel_operand *out = &call->out;
    int64_t n = operand_width(out), n_all = operand_rows(out) * n, first = 0;
    (void)scratch;
    for (int64_t i = 0; i < n_tile_matrices(call); i++) {
        kernel_operand x = tile_matrix_rows(call, i);
        int64_t n_blocks = (operand_rows(&x) + 15) / 16, b = begin > first ? begin - first : 0;
        for (; b < n_blocks && first + b < end; b++)
            tile_block(&x, b, out, 16 * n * first);
        first += n_blocks;
    }
    int64_t last = end == n_units_tiles(call) ? n_all : 16 * n * end;
    for (int64_t k = 16 * n * (begin > first ? begin : first); k < last && k < n_all; k++)
        store_at(out, k, 0.0f);
}

static size_t scratch_row(const kernel_call *call) {
    return 2 * sizeof(float) * (size_t)operand_width(&call->src[0]);
}

/* Elements at their places. */
static void weight_row(const weight_matrix *m, int64_t o, float *out) {
    const i8_form f = i8_form_of(&m->form);
    for (int64_t i = 0; i < m->n_in; i++) {
        float scale, bias;
        mica_weight_group(m, o, i / m->form.group, &scale, &bias);
        scale *= f.unit;
        if (f.is_table) bias = -((float)f.zero * scale);
        uint32_t code = mica_weight_code(m, o, i);
        float w = fmaf(scale, (float)(f.is_table ? f.table[code] : code), bias);
        out[rows_bf16_place(i)] = flush(mica_round_to(flush(w), MICA_BF16));
    }
}

static float dot(const float *x, const float *w, int64_t n) {
    float sum = 0.0f;
    for (int64_t i = 0; i < n; i += STEP) {
        float even = 0.0f, odd = 0.0f;
        for (int64_t k = i; k < i + STEP; k += 2) {
            even = flush(fmaf(x[k], w[k], even));
            odd = flush(fmaf(x[k + 1], w[k + 1], odd));
        }
        sum = flush(sum + flush(even + odd));
    }
    return sum;
}

static void run(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    const kernel_operand *x = &call->src[0], *out = &call->out;
    int64_t n = operand_width(x), n_blocks = (operand_rows(out) + 15) / 16;
    float *x_row = scratch, *w_row = x_row + n;
    for (int64_t o = begin; o < end; o++)
        for (int w = 1; w <= bf16_n_weights(call); w++) {
            weight_row(call->src[w].matrix, o, w_row);
            for (int64_t r = 0; r < operand_rows(out); r++) {
                for (int64_t i = 0; i < n; i++)
                    x_row[i] = flush(operand_load(x, rows_bf16_at(r, i, n, n_blocks)));
                float y = dot(x_row, w_row, n);
                if (w == 2) { /* the gate lies where the result will */
                    float gate = operand_load(out, operand_row(out, r) + o * operand_step(out));
                    y = act_glu(call->attr->glu.act, gate, out->dtype) *
                        mica_round_to(y, out->dtype);
                }
                if (bf16_is_added(call)) operand_add_row(&call->src[2], r, o, 1, out->dtype, &y);
                operand_store_row(out, r, o, 1, &y);
            }
        }
}

static int64_t n_units_columns(const kernel_call *call) { return operand_width(&call->out); }

/* ---- the same for experts ---- */

static const expert_kernel of_experts = {OP_MATMUL_BF16, 1, n_units_columns, run};
static const expert_kernel pairs_of_experts = {OP_GLU_MATMUL_BF16, 2, n_units_columns, run};

static const expert_kernel *experts_of(const kernel_call *call) {
    return call->op == OP_EXPERT_MATMUL_BF16 ? &of_experts : &pairs_of_experts;
}

static int64_t n_units_experts(const kernel_call *call) {
    return expert_units(call, experts_of(call));
}

static const char *declines_experts(const kernel_call *call) {
    return expert_declines(call, experts_of(call), declines);
}

static void run_experts(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    expert_run(call, experts_of(call), begin, end, scratch);
}

MICA_DECLARE_KERNELS(matmul_bf16_ref);
const cpu_kernel mica_kernels_matmul_bf16_ref[] = {
    {"tile_rows_ref", OP_TILE_ROWS, ISA_REF, declines_tiles, n_units_tiles, run_tile_rows, NULL},
    {"matmul_bf16_ref", OP_MATMUL_BF16, ISA_REF, declines, n_units_columns, run, scratch_row},
    {"glu_matmul_bf16_ref", OP_GLU_MATMUL_BF16, ISA_REF, declines, n_units_columns, run,
     scratch_row},
    {"expert_matmul_bf16_ref", OP_EXPERT_MATMUL_BF16, ISA_REF, declines_experts, n_units_experts,
     run_experts, scratch_row},
    {"expert_glu_matmul_bf16_ref", OP_EXPERT_GLU_MATMUL_BF16, ISA_REF, declines_experts,
     n_units_experts, run_experts, scratch_row},
};
const int mica_n_kernels_matmul_bf16_ref = 5;
