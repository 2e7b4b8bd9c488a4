/* glu.c: out[r, o] = act(x Wg)[r, o] * (x Wu)[r, o], rounded where the separate ops round.
 *
 * x [n_rows, n_in]; Wg, Wu [n_out, n_in] of any form; out [n_rows, n_out] of dtype T: both products
 * are rounded to T, then the activation's own chain, then the product. Unit: one output column.
 * Profile: exact. Source: docs/numerics.md 4.1.
 */
#include "backend/cpu/activation.h"
#include "backend/cpu/experts.h"
#include "backend/cpu/lanes.h"
#include "backend/cpu/operand.h"

static int64_t n_units_columns(const kernel_call *call) { return operand_width(&call->out); }

static size_t scratch_three_rows(const kernel_call *call) {
    return 3 * sizeof(float) * (size_t)operand_width(&call->src[0]);
}

static void run_glu_matmul(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    const kernel_operand *x = &call->src[0], *out = &call->out;
    int64_t n_in = operand_width(x), n_rows = operand_rows(out);
    float *gate_row = scratch, *up_row = gate_row + n_in, *x_row = up_row + n_in;
    for (int64_t o = begin; o < end; o++) {
        operand_weight_row(&call->src[1], o, gate_row);
        operand_weight_row(&call->src[2], o, up_row);
        for (int64_t r = 0; r < n_rows; r++) {
            operand_load_row(x, r, x_row);
            float gate = mica_round_to(lanes_dot(x_row, gate_row, n_in), out->dtype);
            float up = mica_round_to(lanes_dot(x_row, up_row, n_in), out->dtype);
            float y = act_glu(call->attr->glu.act, gate, out->dtype) * up;
            operand_store_row(out, r, o, 1, &y);
        }
    }
}

static const expert_kernel of_experts = {OP_GLU_MATMUL, 2, n_units_columns, run_glu_matmul};

static int64_t expert_n_units(const kernel_call *call) { return expert_units(call, &of_experts); }

static void run_experts(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    expert_run(call, &of_experts, begin, end, scratch);
}

MICA_DECLARE_KERNELS(glu_ref);
const cpu_kernel mica_kernels_glu_ref[] = {
    {"glu_matmul_ref", OP_GLU_MATMUL, ISA_REF, declines_none, n_units_columns, run_glu_matmul,
     scratch_three_rows},
    {"expert_glu_matmul_ref", OP_EXPERT_GLU_MATMUL, ISA_REF, declines_none, expert_n_units,
     run_experts, scratch_three_rows},
};
const int mica_n_kernels_glu_ref = 2;
