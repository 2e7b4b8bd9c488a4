/* attention_rows.c: attention among the rows of one step, without a cache, and its gradient.
 *
 * q [n_rows, heads, d], k [n_rows, kv, d], v [n_rows, kv, dv]; row i sees the rows j of its own
 * sequence with position j <= position i. p = softmax(scale * q.k) in f32; out [n_rows, heads*dv].
 * Gradient: with o = sum_j p_j v_j and ds_j = p_j (dout.v_j - dout.o), dq = scale sum ds_j k_j,
 * dk_j = scale ds_j q, dv_j = p_j dout, the latter two summed over rows and the heads of the group
 * in ascending order; out [n_rows, heads*d + kv*d + kv*dv] = dq, dk, dv.
 * Units: a head of a row; a kv head. Profile: exact. Source: docs/numerics.md 4.5, 5.7.
 */
#include <math.h>

#include "backend/cpu/lanes.h"
#include "backend/cpu/operand.h"
#include "backend/cpu/scalar_math.h"

enum { ROWS_Q, ROWS_K, ROWS_V, ROWS_POSITIONS, ROWS_ROW_SEQ, ROWS_DOUT };

static bool sees(const kernel_call *call, int64_t i, int64_t j) {
    const int32_t *pos = operand_i32(&call->src[ROWS_POSITIONS]);
    const int32_t *seq = operand_i32(&call->src[ROWS_ROW_SEQ]);
    return seq[i] == seq[j] && pos[j] <= pos[i];
}

/* p[j] for every row j that row i sees, 0 for the others. q is that row's head. */
static void probs(const kernel_call *call, int64_t i, int64_t kv, const float *q, float *p,
                  float *row) {
    const kernel_operand *k = &call->src[ROWS_K];
    int64_t n_rows = k->dim[0], d = k->dim[2];
    float max = -INFINITY;
    for (int64_t j = 0; j < n_rows; j++) {
        p[j] = -INFINITY;
        if (!sees(call, i, j)) continue;
        operand_load_row(k, j * k->dim[1] + kv, row);
        p[j] = call->attr->attention.scale * lanes_dot(q, row, d);
        if (p[j] > max) max = p[j];
    }
    for (int64_t j = 0; j < n_rows; j++)
        p[j] = sees(call, i, j) ? exp_f32(p[j] - max) : 0.0f;
    float sum = lanes_sum(p, n_rows);
    for (int64_t j = 0; j < n_rows; j++)
        p[j] = p[j] / sum;
}

/* out[0..dv) = sum_j p_j v_j. */
static void weighted_values(const kernel_call *call, int64_t kv, const float *p, float *out,
                            float *row) {
    const kernel_operand *v = &call->src[ROWS_V];
    int64_t dv = v->dim[2];
    for (int64_t c = 0; c < dv; c++)
        out[c] = 0.0f;
    for (int64_t j = 0; j < v->dim[0]; j++) {
        if (p[j] == 0.0f) continue;
        operand_load_row(v, j * v->dim[1] + kv, row);
        for (int64_t c = 0; c < dv; c++)
            out[c] += p[j] * row[c];
    }
}

static int64_t widest(const kernel_call *call) {
    int64_t d = call->src[ROWS_K].dim[2], dv = call->src[ROWS_V].dim[2];
    return d > dv ? d : dv;
}

static size_t scratch_rows(const kernel_call *call) {
    return sizeof(float) * (size_t)(call->src[ROWS_K].dim[0] + 3 * widest(call));
}

static void run_attention_rows(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    const kernel_operand *q = &call->src[ROWS_Q], *v = &call->src[ROWS_V];
    int64_t n_heads = q->dim[1], group = n_heads / v->dim[1], dv = v->dim[2];
    float *p = scratch, *q_row = p + v->dim[0], *row = q_row + widest(call);
    float *out = row + widest(call);
    for (int64_t u = begin; u < end; u++) {
        int64_t kv = u % n_heads / group;
        operand_load_row(q, u, q_row);
        probs(call, u / n_heads, kv, q_row, p, row);
        weighted_values(call, kv, p, out, row);
        operand_store_row(&call->out, u / n_heads, u % n_heads * dv, dv, out);
    }
}

static int64_t n_units_heads(const kernel_call *call) {
    return call->src[ROWS_Q].dim[0] * call->src[ROWS_Q].dim[1];
}

/* Scratch of the gradient: p [n_rows], five vectors, dk [n_rows, d] and dv [n_rows, dv]. */
typedef struct grad_space {
    float *p, *q, *row, *out, *dout, *dq, *dk, *dv;
} grad_space;

static grad_space grad_space_at(const kernel_call *call, void *scratch) {
    int64_t n_rows = call->src[ROWS_K].dim[0], n = widest(call);
    grad_space s;
    s.p = scratch;
    s.q = s.p + n_rows;
    s.row = s.q + n;
    s.out = s.row + n;
    s.dout = s.out + n;
    s.dq = s.dout + n;
    s.dk = s.dq + n;
    s.dv = s.dk + n_rows * call->src[ROWS_K].dim[2];
    return s;
}

static size_t scratch_grad(const kernel_call *call) {
    int64_t n_rows = call->src[ROWS_K].dim[0];
    int64_t sums = n_rows * (call->src[ROWS_K].dim[2] + call->src[ROWS_V].dim[2]);
    return sizeof(float) * (size_t)(n_rows + 5 * widest(call) + sums);
}

/* Adds what row i, head h contributes to dk and dv of its kv head, and stores its dq. */
static void grad_head(const kernel_call *call, int64_t i, int64_t h, int64_t kv, grad_space *s) {
    const kernel_operand *q = &call->src[ROWS_Q], *k = &call->src[ROWS_K];
    const kernel_operand *v = &call->src[ROWS_V], *dout = &call->src[ROWS_DOUT];
    int64_t d = k->dim[2], dv = v->dim[2], n_rows = k->dim[0];
    operand_load_row(q, i * q->dim[1] + h, s->q);
    probs(call, i, kv, s->q, s->p, s->row);
    weighted_values(call, kv, s->p, s->out, s->row);
    for (int64_t c = 0; c < dv; c++)
        s->dout[c] = operand_load(dout, operand_row(dout, i) + (h * dv + c) * operand_step(dout));
    float total = lanes_dot(s->dout, s->out, dv);
    for (int64_t c = 0; c < d; c++)
        s->dq[c] = 0.0f;
    for (int64_t j = 0; j < n_rows; j++) {
        if (!sees(call, i, j)) continue;
        operand_load_row(v, j * v->dim[1] + kv, s->row);
        float ds = s->p[j] * (lanes_dot(s->dout, s->row, dv) - total);
        ds = ds * call->attr->attention.scale;
        for (int64_t c = 0; c < dv; c++)
            s->dv[j * dv + c] += s->p[j] * s->dout[c];
        operand_load_row(k, j * k->dim[1] + kv, s->row);
        for (int64_t c = 0; c < d; c++) {
            s->dq[c] += ds * s->row[c];
            s->dk[j * d + c] += ds * s->q[c];
        }
    }
    operand_store_row(&call->out, i, h * d, d, s->dq);
}

static void run_attention_rows_grad(const kernel_call *call, int64_t begin, int64_t end,
                                    void *scratch) {
    const kernel_operand *q = &call->src[ROWS_Q], *k = &call->src[ROWS_K], *v = &call->src[ROWS_V];
    int64_t n_rows = k->dim[0], d = k->dim[2], dv = v->dim[2];
    int64_t n_heads = q->dim[1], n_kv = k->dim[1], group = n_heads / n_kv;
    grad_space s = grad_space_at(call, scratch);
    for (int64_t kv = begin; kv < end; kv++) {
        for (int64_t c = 0; c < n_rows * d; c++)
            s.dk[c] = 0.0f;
        for (int64_t c = 0; c < n_rows * dv; c++)
            s.dv[c] = 0.0f;
        for (int64_t i = 0; i < n_rows; i++)
            for (int64_t h = kv * group; h < (kv + 1) * group; h++)
                grad_head(call, i, h, kv, &s);
        for (int64_t j = 0; j < n_rows; j++) {
            operand_store_row(&call->out, j, (n_heads + kv) * d, d, s.dk + j * d);
            operand_store_row(&call->out, j, (n_heads + n_kv) * d + kv * dv, dv, s.dv + j * dv);
        }
    }
}

static int64_t n_units_kv(const kernel_call *call) { return call->src[ROWS_K].dim[1]; }

MICA_DECLARE_KERNELS(attention_rows_ref);
const cpu_kernel mica_kernels_attention_rows_ref[] = {
    {"attention_rows_ref", OP_ATTENTION_ROWS, ISA_REF, declines_none, n_units_heads,
     run_attention_rows, scratch_rows},
    {"attention_rows_grad_ref", OP_ATTENTION_ROWS_GRAD, ISA_REF, declines_none, n_units_kv,
     run_attention_rows_grad, scratch_grad},
};
const int mica_n_kernels_attention_rows_ref = 2;
