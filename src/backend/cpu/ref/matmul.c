/* matmul.c: out[r, o] = sum_i x[r, i] * w[o, i], and the same with W turned.
 *
 * x [n_rows, n_in] f32, f16 or bf16; W [n_out, n_in] a weight_matrix of any form or a dense
 * operand; out [n_rows, n_out]. 16 interleaved f32 sums over i (lanes.h), one rounding at the
 * store. A weight element is f32(f32(scale * code) + bias), or f32(scale * table[code]).
 * Unit: one output column, so that a weight row is expanded once for all rows.
 * Profile: exact. Source: docs/numerics.md 2.3, 4.1.
 */
#include "backend/cpu/experts.h"
#include "backend/cpu/lanes.h"
#include "backend/cpu/operand.h"

static int64_t n_units_columns(const kernel_call *call) { return operand_width(&call->out); }

/* A weight row and one row of x. */
static size_t scratch_two_rows(const kernel_call *call) {
    return 2 * sizeof(float) * (size_t)operand_width(&call->src[0]);
}

static void run_matmul(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    const kernel_operand *x = &call->src[0], *out = &call->out;
    int64_t n_in = operand_width(x), n_rows = operand_rows(out);
    float *w_row = scratch, *x_row = w_row + n_in;
    for (int64_t o = begin; o < end; o++) {
        operand_weight_row(&call->src[1], o, w_row);
        for (int64_t r = 0; r < n_rows; r++) {
            operand_load_row(x, r, x_row);
            float sum = lanes_dot(x_row, w_row, n_in);
            operand_store_row(out, r, o, 1, &sum);
        }
    }
}

/* dx[r, i] = sum_o dy[r, o] * w[o, i], o ascending, one sum an output. Unit: one row. */
static size_t scratch_turned(const kernel_call *call) {
    return 2 * sizeof(float) * (size_t)operand_width(&call->out);
}

static void run_matmul_t(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    const kernel_operand *dy = &call->src[0], *out = &call->out;
    int64_t n_in = operand_width(out), n_out = operand_width(dy);
    float *w_row = scratch, *sums = w_row + n_in;
    for (int64_t r = begin; r < end; r++) {
        int64_t off = operand_row(dy, r), step = operand_step(dy);
        for (int64_t i = 0; i < n_in; i++)
            sums[i] = 0.0f;
        for (int64_t o = 0; o < n_out; o++) {
            operand_weight_row(&call->src[1], o, w_row);
            float g = operand_load(dy, off + o * step);
            for (int64_t i = 0; i < n_in; i++)
                sums[i] += g * w_row[i];
        }
        operand_store_row(out, r, 0, n_in, sums);
    }
}

/* Pair p takes row p of x, or row p / k where x has one row for all k experts of a token. */
static const expert_kernel of_experts = {OP_MATMUL, 1, n_units_columns, run_matmul};

static int64_t expert_n_units(const kernel_call *call) { return expert_units(call, &of_experts); }

static void run_experts(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    expert_run(call, &of_experts, begin, end, scratch);
}

MICA_DECLARE_KERNELS(matmul_ref);
const cpu_kernel mica_kernels_matmul_ref[] = {
    {"matmul_ref", OP_MATMUL, ISA_REF, declines_none, n_units_columns, run_matmul,
     scratch_two_rows},
    {"matmul_t_ref", OP_MATMUL_T, ISA_REF, declines_none, n_units_rows, run_matmul_t,
     scratch_turned},
    {"expert_matmul_ref", OP_EXPERT_MATMUL, ISA_REF, declines_none, expert_n_units, run_experts,
     scratch_two_rows},
};
const int mica_n_kernels_matmul_ref = 3;
