/* matmul_i8.c: rows quantized to int8, and matmuls over them.
 *
 * quantize_rows: x [n_rows, n] -> rows of graph/rows_i8.h; unit: one row.
 * matmul_i8: out[r, o] = sum over blocks b, ascending, of
 *     fma(bias[o, b], sum[r, b], .) and fma(scale[o, b] * scale[r, b], dot[r, o, b], .)
 * in f32, where dot is the exact integer dot of the codes (below 2^28). Of a form whose zero point
 * is a constant it is the dot of code - zero, and there is no bias. Unit: one output column.
 * glu_matmul_i8: act(gate) * up of two such, act being act_glu_fused.
 * Profile: fast (levers int8 and int16). Source: docs/numerics.md 5.
 */
#include <math.h>

#include "backend/cpu/activation.h"
#include "backend/cpu/experts.h"
#include "backend/cpu/i8_form.h"

static void round_group(const float *x, int64_t n, float inverse, uint8_t *codes, uint8_t *rest,
                        int sums[2]) {
    for (int64_t i = 0; i < n; i++) {
        float scaled = x[i] * inverse, code = nearbyintf(scaled);
        codes[i] = (uint8_t)(int8_t)code;
        sums[i / 16] += (rest ? ROWS_I8_FINE : 1) * (int)code;
        if (!rest) continue;
        int left = (int)nearbyintf((scaled - code) * (float)ROWS_I8_FINE);
        rest[i] = (uint8_t)(int8_t)left;
        sums[i / 16] += left;
    }
}

static float quantize_group(const float *x, int64_t n, uint8_t *codes, uint8_t *rest, int sums[2]) {
    uint32_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t u = mica_f32_bits(x[i]) & 0x7FFFFFFFu;
        if (u > most) most = u;
    }
    float largest = mica_bits_f32(most);
    if (most >= 0x7F800000u) return mica_bits_f32(0x7FC00000u);
    if (!(largest > ROWS_I8_LEAST)) return 0.0f;
    round_group(x, n, 127.0f / largest, codes, rest, sums);
    return largest / (rest ? 127.0f * (float)ROWS_I8_FINE : 127.0f);
}

static void put(uint8_t *at, int64_t i, float x) { memcpy(at + 4 * i, &x, 4); }

static void put_count(uint8_t *at, int64_t i, int sum) {
    int32_t count = -ROWS_I8_ZERO * sum;
    memcpy(at + 4 * i, &count, 4);
}

static void quantize_row(const float *x, int64_t n, bool fine, uint8_t *row) {
    memset(row, 0, (size_t)rows_i8_bytes(n, fine));
    for (int64_t g = 0; g * ROWS_I8_GROUP < n; g++) {
        int64_t first = g * ROWS_I8_GROUP, left = n - first;
        int sums[2] = {0, 0};
        uint8_t *rest = fine ? row + rows_i8_rest(n) + first : NULL;
        float scale = quantize_group(x + first, left < ROWS_I8_GROUP ? left : ROWS_I8_GROUP,
                                     row + first, rest, sums);
        put(row + rows_i8_scales(n), g, scale);
        put(row + rows_i8_sums(n), g, scale * (float)(sums[0] + sums[1]));
        for (int h = 0; h < 2; h++) {
            put(row + rows_i8_halves(n), 2 * g + h, scale * (float)sums[h]);
            put_count(row + rows_i8_half_counts(n), 2 * g + h, sums[h]);
        }
        put_count(row + rows_i8_counts(n), g, sums[0] + sums[1]);
    }
}

static size_t scratch_row(const kernel_call *call) {
    return sizeof(float) * (size_t)operand_width(&call->src[0]);
}

static void run_quantize(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    const kernel_operand *x = &call->src[0], *out = &call->out;
    int64_t n = operand_width(x);
    bool fine = rows_i8_is_fine(operand_width(out), n);
    for (int64_t r = begin; r < end; r++) {
        operand_load_row(x, r, scratch);
        quantize_row(scratch, n, fine, (uint8_t *)out->data + operand_row(out, r));
    }
}

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

static void run_matmul_i8(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    const kernel_operand *x = &call->src[0], *out = &call->out;
    bool fine = rows_i8_is_fine(operand_width(x), call->src[1].matrix->n_in);
    (void)scratch;
    for (int64_t o = begin; o < end; o++) {
        for (int64_t r = 0; r < operand_rows(out); r++) {
            const uint8_t *row = (const uint8_t *)x->data + operand_row(x, r);
            float y = dot_row(call->src[1].matrix, o, row, fine);
            if (call->op == OP_GLU_MATMUL_I8) {
                float gate = mica_round_to(y, out->dtype);
                float up = mica_round_to(dot_row(call->src[2].matrix, o, row, fine), out->dtype);
                y = act_glu_fused(call->attr->glu.act, gate, out->dtype) * up;
            }
            operand_store_row(out, r, o, 1, &y);
        }
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
    {"quantize_rows_ref", OP_QUANTIZE_ROWS, ISA_REF, declines_none, n_units_rows, run_quantize,
     scratch_row},
    {"matmul_i8_ref", OP_MATMUL_I8, ISA_REF, i8_declines, n_units_columns, run_matmul_i8, NULL},
    {"glu_matmul_i8_ref", OP_GLU_MATMUL_I8, ISA_REF, i8_declines, n_units_columns, run_matmul_i8,
     NULL},
    {"expert_matmul_i8_ref", OP_EXPERT_MATMUL_I8, ISA_REF, declines_experts, expert_n_units,
     run_experts, NULL},
    {"expert_glu_matmul_i8_ref", OP_EXPERT_GLU_MATMUL_I8, ISA_REF, declines_experts, expert_n_units,
     run_experts, NULL},
};
const int mica_n_kernels_matmul_i8_ref = 5;
