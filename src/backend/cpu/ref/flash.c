/* flash.c: softmax(scale * q K^T) V over cache blocks with fused multiply-adds.
 *
 * Operands and tiles as in ref/attention.c, other sums: a score is one ascending sum over the
 * channels, those of a tile are in online_softmax.h. The softcap is f32 throughout. A block-table
 * entry below zero stands for zeros. Unit: one head of one row. Profile: fast (lever
 * flash). Source: docs/numerics.md 5.
 */
#include "backend/cpu/ref/online_softmax.h"

static size_t scratch_head(const kernel_call *call) {
    const kv_layout *l = &call->attr->attention.layout;
    return sizeof(float) * (size_t)(l->head_dim + l->v_head_dim + ATTENTION_TILE);
}

static float score(const kv_layout *l, const uint8_t *key, const float *q) {
    float sum = 0.0f;
    for (int64_t i = 0; i < l->head_dim; i++)
        sum = fmaf(q[i], mica_load_f(key, l->dtype, (size_t)i), sum);
    return sum;
}

static void run_flash(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    const kv_layout *l = &call->attr->attention.layout;
    int64_t n_heads = call->src[ATT_Q].dim[1], dv = l->v_head_dim;
    head_state s = {.q = scratch};
    s.total = s.q + l->head_dim;
    s.scores = s.total + dv;
    for (int64_t u = begin; u < end; u++) {
        int64_t head = u % n_heads, kv = head / (n_heads / l->n_kv_heads);
        attention_row row = attention_row_of(call, u / n_heads);
        begin_head(call, u / n_heads, head, true, &s);
        attend_keys(call, &row, kv, row.keys, score, &s);
        for (int64_t i = 0; i < dv; i++)
            s.total[i] = s.sum == 0.0f ? 0.0f : s.total[i] / s.sum;
        operand_store_row(&call->out, u / n_heads, head * dv, dv, s.total);
    }
}

static int64_t n_units_heads(const kernel_call *call) {
    return call->src[ATT_Q].dim[0] * call->src[ATT_Q].dim[1];
}

MICA_DECLARE_KERNELS(flash_ref);
const cpu_kernel mica_kernels_flash_ref[] = {
    {"flash_ref", OP_FLASH_ATTENTION, ISA_REF, declines_none, n_units_heads, run_flash,
     scratch_head},
};
const int mica_n_kernels_flash_ref = 1;
