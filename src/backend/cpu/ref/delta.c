/* delta.c: the gated delta rule: a matrix state for each value head, one row of tokens at a time.
 *
 * q, k [n_rows, Hk, Dk], v [n_rows, Hv, Dv], decay g and beta [n_rows, Hv]; S [Hv, Dv, Dk] f32.
 * With chunk = 0:  S = g S;  u = beta (v - S k);  S = S + u k^T;  y = S q.
 * With chunk = C the state is folded only at absolute multiples of C positions; between them the
 * rows since then (k, u, g) stand beside it, and a row reads
 *   u_i = beta_i (v_i - G_i S k_i - sum_{j<i} R_ij (k_i.k_j) u_j)
 *   y_i = G_i S q_i + sum_{j<=i} R_ij (k_j.q_i) u_j,  R_ij = g_{j+1} .. g_i,  G_i = g_1 .. g_i
 * so that its bits depend on its position only, wherever a step began. Sums over Dk are 16
 * interleaved ones, sums over rows ascend; all in f32, one rounding of y.
 * Unit: one key head (with its Hv/Hk value heads) of one sequence.
 * Profile: exact. Source: docs/models.md 11.2, 11.3.
 */
#include "backend/cpu/lanes.h"
#include "backend/cpu/operand.h"

enum { IN_Q, IN_K, IN_V, IN_DECAY, IN_BETA, IN_STATE, IN_STATE_OUT, IN_SEQ_ROWS, IN_POSITIONS };

typedef struct delta_sizes {
    int64_t n_k_heads, n_v_heads, k_dim, v_dim, chunk, offset;
} delta_sizes;

/* The parts of one sequence's state. */
typedef struct delta_state {
    float *s, *k, *u, *decay;
} delta_state;

static delta_sizes sizes_of(const kernel_call *call) {
    const kernel_operand *q = &call->src[IN_Q], *v = &call->src[IN_V];
    delta_sizes z = {q->dim[1], v->dim[1], q->dim[2], v->dim[2], call->attr->delta.chunk,
                     call->attr->delta.offset};
    return z;
}

static delta_state state_at(const kernel_operand *addresses, int64_t seq, const delta_sizes *z) {
    delta_state st;
    st.s = (float *)(uintptr_t)((const uint64_t *)addresses->data)[seq] + z->offset;
    st.k = st.s + z->n_v_heads * z->v_dim * z->k_dim;
    st.u = st.k + z->chunk * z->n_k_heads * z->k_dim;
    st.decay = st.u + z->chunk * z->n_v_heads * z->v_dim;
    return st;
}

/* What key head `hk` owns: its value heads' states and the first n_pending rows beside them. */
static void copy_state(const delta_sizes *z, const delta_state *to, const delta_state *from,
                       int64_t hk, int64_t n_pending) {
    int64_t group = z->n_v_heads / z->n_k_heads, first = hk * group;
    if (to->s == from->s) return;
    int64_t head = z->v_dim * z->k_dim;
    memcpy(to->s + first * head, from->s + first * head, (size_t)(group * head) * sizeof(float));
    for (int64_t j = 0; j < n_pending; j++) {
        int64_t k_at = (j * z->n_k_heads + hk) * z->k_dim;
        int64_t v_at = j * z->n_v_heads + first;
        memcpy(to->k + k_at, from->k + k_at, (size_t)z->k_dim * sizeof(float));
        memcpy(to->u + v_at * z->v_dim, from->u + v_at * z->v_dim,
               (size_t)(group * z->v_dim) * sizeof(float));
        memcpy(to->decay + v_at, from->decay + v_at, (size_t)group * sizeof(float));
    }
}

/* One row of one value head: its vectors in f32, scratch for y and for coefficients of rows. */
typedef struct delta_row {
    const float *q, *k;
    float *y, *ratio, *kk, *kq; /* by row of the chunk: R_ij, R_ij (k_i.k_j), R_ij (k_j.q_i) */
    float decay, beta;
    int64_t unit; /* row * Hv + head: of v and y */
} delta_row;

static void step_plain(const kernel_call *call, const delta_sizes *z, float *s,
                       const delta_row *row) {
    const kernel_operand *v = &call->src[IN_V];
    int64_t v_off = operand_row(v, row->unit);
    for (int64_t i = 0; i < z->v_dim; i++) {
        float *s_row = s + i * z->k_dim;
        for (int64_t d = 0; d < z->k_dim; d++)
            s_row[d] = s_row[d] * row->decay;
        float m = lanes_dot(s_row, row->k, z->k_dim);
        float u = row->beta * (operand_load(v, v_off + i * operand_step(v)) - m);
        for (int64_t d = 0; d < z->k_dim; d++) {
            float change = u * row->k[d];
            s_row[d] = s_row[d] + change;
        }
        row->y[i] = lanes_dot(s_row, row->q, z->k_dim);
    }
}

/* Row i of its chunk: u_i and g_i join the state, y is filled. */
static void step_chunked(const kernel_call *call, const delta_sizes *z, const delta_state *st,
                         int64_t hk, int64_t h, int64_t i, const delta_row *row) {
    const kernel_operand *v = &call->src[IN_V];
    int64_t v_off = operand_row(v, row->unit), k_step = z->n_k_heads * z->k_dim;
    const float *s = st->s + h * z->v_dim * z->k_dim, *k = st->k + hk * z->k_dim;
    st->decay[i * z->n_v_heads + h] = row->decay;
    float ratio = 1.0f; /* R_ij from j = i down; G_i in the end */
    for (int64_t j = i; j >= 0; j--) {
        row->ratio[j] = ratio;
        row->kk[j] = ratio * lanes_dot(k + j * k_step, row->k, z->k_dim);
        row->kq[j] = ratio * lanes_dot(k + j * k_step, row->q, z->k_dim);
        ratio = ratio * st->decay[j * z->n_v_heads + h];
    }
    for (int64_t c = 0; c < z->v_dim; c++) {
        float m = ratio * lanes_dot(s + c * z->k_dim, row->k, z->k_dim);
        float y = ratio * lanes_dot(s + c * z->k_dim, row->q, z->k_dim);
        float *u = st->u + h * z->v_dim + c;
        for (int64_t j = 0; j < i; j++) {
            float uj = u[j * z->n_v_heads * z->v_dim];
            m += row->kk[j] * uj;
            y += row->kq[j] * uj;
        }
        float ui = row->beta * (operand_load(v, v_off + c * operand_step(v)) - m);
        u[i * z->n_v_heads * z->v_dim] = ui;
        row->y[c] = y + row->kq[i] * ui;
    }
}

/* S = G_n S + sum_j R_nj u_j k_j^T; row->ratio holds R_nj of the last row of the chunk. */
static void fold(const delta_sizes *z, const delta_state *st, int64_t hk, int64_t h,
                 const float *ratio) {
    float *s = st->s + h * z->v_dim * z->k_dim;
    float all = ratio[0] * st->decay[h];
    for (int64_t c = 0; c < z->v_dim; c++) {
        for (int64_t d = 0; d < z->k_dim; d++) {
            float sum = all * s[c * z->k_dim + d];
            for (int64_t j = 0; j < z->chunk; j++) {
                float u = ratio[j] * st->u[(j * z->n_v_heads + h) * z->v_dim + c];
                float change = u * st->k[(j * z->n_k_heads + hk) * z->k_dim + d];
                sum += change;
            }
            s[c * z->k_dim + d] = sum;
        }
    }
}

static size_t scratch_delta(const kernel_call *call) {
    delta_sizes z = sizes_of(call);
    return sizeof(float) * (size_t)(2 * z.k_dim + z.v_dim + 3 * z.chunk);
}

static void run_row(const kernel_call *call, const delta_sizes *z, const delta_state *st,
                    int64_t hk, int64_t r, float *scratch) {
    int64_t group = z->n_v_heads / z->n_k_heads;
    int64_t i = z->chunk ? operand_i32(&call->src[IN_POSITIONS])[r] % z->chunk : 0;
    float *q = scratch, *k = q + z->k_dim;
    operand_load_row(&call->src[IN_Q], r * z->n_k_heads + hk, q);
    operand_load_row(&call->src[IN_K], r * z->n_k_heads + hk, k);
    if (z->chunk)
        memcpy(st->k + (i * z->n_k_heads + hk) * z->k_dim, k, (size_t)z->k_dim * sizeof(float));
    for (int64_t h = hk * group; h < (hk + 1) * group; h++) {
        const kernel_operand *decay = &call->src[IN_DECAY], *beta = &call->src[IN_BETA];
        delta_row row = {.q = q, .k = k, .y = k + z->k_dim, .unit = r * z->n_v_heads + h};
        row.ratio = row.y + z->v_dim;
        row.kk = row.ratio + z->chunk;
        row.kq = row.kk + z->chunk;
        row.decay = operand_load(decay, operand_row(decay, r) + h * operand_step(decay));
        row.beta = operand_load(beta, operand_row(beta, r) + h * operand_step(beta));
        if (z->chunk)
            step_chunked(call, z, st, hk, h, i, &row);
        else
            step_plain(call, z, st->s + h * z->v_dim * z->k_dim, &row);
        if (z->chunk && i == z->chunk - 1) fold(z, st, hk, h, row.ratio);
        operand_store_row(&call->out, r, h * z->v_dim, z->v_dim, row.y);
    }
}

static void run_gated_delta(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    delta_sizes z = sizes_of(call);
    const int32_t *seq_rows = operand_i32(&call->src[IN_SEQ_ROWS]);
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t seq = unit / z.n_k_heads, hk = unit % z.n_k_heads;
        delta_state from = state_at(&call->src[IN_STATE], seq, &z);
        delta_state to = state_at(&call->src[IN_STATE_OUT], seq, &z);
        int64_t first = seq_rows[seq], last = seq_rows[seq + 1], n_pending = z.chunk;
        if (z.chunk && first < last)
            n_pending = operand_i32(&call->src[IN_POSITIONS])[first] % z.chunk;
        copy_state(&z, &to, &from, hk, n_pending);
        for (int64_t r = first; r < last; r++)
            run_row(call, &z, &to, hk, r, scratch);
    }
}

static int64_t n_units_delta(const kernel_call *call) {
    return call->src[IN_STATE].dim[0] * call->src[IN_Q].dim[1];
}

MICA_DECLARE_KERNELS(delta_ref);
const cpu_kernel mica_kernels_delta_ref[] = {
    {"gated_delta_ref", OP_GATED_DELTA, ISA_REF, declines_none, n_units_delta, run_gated_delta,
     scratch_delta},
};
const int mica_n_kernels_delta_ref = 1;
