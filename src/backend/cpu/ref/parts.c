/* parts.c: softmax(scale * q K^T) V over parts of the keys, and the join of the parts.
 *
 * Operands as in ref/attention.c; parts and the tensor that holds them as in
 * graph/attention_parts.h. A score has 16 sums of fused multiply-adds joined by the tree of
 * lanes.h: channel i goes to sum i mod 16, in a bf16 cache to sum i/2 mod 16, since two of its
 * channels are one word. A part visits its tiles in ascending order (online_softmax.h). A sink is
 * there before the first tile of part 0. The join takes parts with a sum in ascending order, each
 * times exp(its max - the largest): fma(total, that, out), then divides by the sum. The softcap is
 * f32 throughout. A block-table entry below zero stands for zeros. Unit: one part of one head of
 * one row; one head of one row of a join. Profile: fast (lever parts). Source: docs/numerics.md 5.
 */
#include "backend/cpu/ref/online_softmax.h"
#include "graph/attention_parts.h"

static size_t scratch_part(const kernel_call *call) {
    int64_t n = call->attr->attention.layout.head_dim + ATTENTION_TILE;
    return sizeof(float) * (size_t)n;
}

static int64_t n_parts_of(const kernel_call *call, int64_t n_heads) {
    return attention_n_parts(n_heads, call->attr->attention.layout.n_kv_heads);
}

static float score(const kv_layout *l, const uint8_t *key, const float *q) {
    int64_t step = l->dtype == MICA_BF16 ? 2 : 1;
    float lanes[N_LANES] = {0};
    for (int64_t i = 0; i < l->head_dim; i++) {
        float *sum = &lanes[i / step % N_LANES];
        *sum = fmaf(q[i], mica_load_f(key, l->dtype, (size_t)i), *sum);
    }
    return lanes_join(lanes);
}

static void run_parts(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    const kv_layout *l = &call->attr->attention.layout;
    int64_t n_heads = call->src[ATT_Q].dim[1], n_parts = n_parts_of(call, n_heads);
    int64_t n = n_heads * n_parts, dv = l->v_head_dim;
    head_state s = {.q = scratch};
    s.scores = s.q + l->head_dim;
    for (int64_t u = begin; u < end; u++) {
        int64_t r = u / n, place = u % n, head = place / n_parts, part = place % n_parts;
        float *out = (float *)call->out.data + operand_row(&call->out, r);
        attention_row row = attention_row_of(call, r);
        key_range keys = part_of_keys(row.keys, part, n_parts);
        s.total = out + place * dv;
        s.max = -INFINITY;
        s.sum = 0.0f;
        if (keys.lo < keys.hi) begin_head(call, r, head, part == 0, &s);
        attend_keys(call, &row, head / (n_heads / l->n_kv_heads), keys, score, &s);
        out[attention_parts_max(n, dv) + place] = s.max;
        out[attention_parts_sum(n, dv) + place] = s.sum;
    }
}

static int64_t n_units_parts(const kernel_call *call) {
    int64_t n_heads = call->src[ATT_Q].dim[1];
    return call->src[ATT_Q].dim[0] * n_heads * n_parts_of(call, n_heads);
}

static void join_head(const float *parts, int64_t n, int64_t first, int64_t n_parts, int64_t dv,
                      float *out) {
    const float *max = parts + attention_parts_max(n, dv) + first;
    const float *sum = parts + attention_parts_sum(n, dv) + first;
    float largest = -INFINITY, total = 0.0f;
    for (int64_t p = 0; p < n_parts; p++)
        if (max[p] > largest) largest = max[p];
    for (int64_t i = 0; i < dv; i++)
        out[i] = 0.0f;
    for (int64_t p = 0; p < n_parts; p++) {
        if (sum[p] == 0.0f) continue;
        float factor = exp_fused(max[p] - largest), part = sum[p] * factor;
        total += part;
        for (int64_t i = 0; i < dv; i++)
            out[i] = fmaf(parts[(first + p) * dv + i], factor, out[i]);
    }
    for (int64_t i = 0; i < dv; i++)
        out[i] = total == 0.0f ? 0.0f : out[i] / total;
}

static size_t scratch_join(const kernel_call *call) {
    return sizeof(float) * (size_t)call->attr->attention.layout.v_head_dim;
}

static int64_t n_units_join(const kernel_call *call) {
    return call->out.dim[0] * (call->out.dim[1] / call->attr->attention.layout.v_head_dim);
}

static void run_join(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    int64_t dv = call->attr->attention.layout.v_head_dim, n_heads = call->out.dim[1] / dv;
    int64_t n_parts = n_parts_of(call, n_heads);
    for (int64_t u = begin; u < end; u++) {
        int64_t r = u / n_heads, head = u % n_heads;
        const float *parts = (const float *)call->src[0].data + operand_row(&call->src[0], r);
        join_head(parts, n_heads * n_parts, head * n_parts, n_parts, dv, scratch);
        operand_store_row(&call->out, r, head * dv, dv, scratch);
    }
}

MICA_DECLARE_KERNELS(parts_ref);
const cpu_kernel mica_kernels_parts_ref[] = {
    {"attention_parts_ref", OP_ATTENTION_PARTS, ISA_REF, declines_none, n_units_parts, run_parts,
     scratch_part},
    {"attention_join_ref", OP_ATTENTION_JOIN, ISA_REF, declines_none, n_units_join, run_join,
     scratch_join},
};
const int mica_n_kernels_parts_ref = 2;
