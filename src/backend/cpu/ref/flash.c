/* flash.c: softmax(scale * q K^T) V over cache blocks with fused multiply-adds.
 *
 * Operands and tiles as in ref/attention.c, other sums: a score is one ascending sum over the
 * channels; in a tile p = exp(s - max), max being the largest score of this tile and those before
 * it, the sum of p as 16 interleaved sums, and p V one ascending sum an output, which goes on from
 * tile to tile after it was multiplied by exp(old max - max). The softcap is f32 throughout. A
 * block-table entry below zero stands for zeros. Unit: one head of one row. Profile: fast (lever
 * flash). Source: docs/numerics.md 5.
 */
#include <math.h>

#include "backend/cpu/activation.h"
#include "backend/cpu/kv_access.h"
#include "backend/cpu/lanes.h"
#include "backend/cpu/operand.h"

/* Sums over tiles, scores. */
typedef struct head_state {
    float *q, *total, *scores;
    float max, sum;
} head_state;

static size_t scratch_head(const kernel_call *call) {
    const kv_layout *l = &call->attr->attention.layout;
    return sizeof(float) * (size_t)(l->head_dim + l->v_head_dim + ATTENTION_TILE);
}

static float score(const kernel_call *call, const attention_row *row, int64_t kv, int64_t pos,
                   const head_state *s) {
    const kv_layout *l = &call->attr->attention.layout;
    int64_t block = row->table[pos / KV_BLOCK];
    float cap = call->attr->attention.softcap, sum = 0.0f;
    if (block >= 0) {
        const uint8_t *key = kv_key(l, call->src[ATT_CACHE].data, block, kv, pos);
        for (int64_t i = 0; i < l->head_dim; i++)
            sum = fmaf(s->q[i], mica_load_f(key, l->dtype, (size_t)i), sum);
    }
    return cap > 0.0f ? act_softcap(sum, cap, MICA_F32) : sum;
}

static void attend_tile(const kernel_call *call, const attention_row *row, int64_t kv, int64_t lo,
                        int64_t hi, head_state *s) {
    const kv_layout *l = &call->attr->attention.layout;
    float lanes[N_LANES] = {0}, max = -INFINITY;
    for (int64_t j = lo; j < hi; j++) {
        float x = score(call, row, kv, j, s);
        s->scores[j % ATTENTION_TILE] = x;
        if (x > max) max = x;
    }
    if (!(max > s->max)) max = s->max;
    float kept = exp_fused(s->max - max);
    for (int64_t i = 0; i < l->v_head_dim; i++)
        s->total[i] = s->total[i] * kept;
    for (int64_t j = lo; j < hi; j++) {
        int64_t block = row->table[j / KV_BLOCK];
        float p = exp_fused(s->scores[j % ATTENTION_TILE] - max);
        lanes[j % N_LANES] += p;
        if (block < 0) continue;
        const uint8_t *value = kv_value(l, call->src[ATT_CACHE].data, block, kv, j);
        for (int64_t i = 0; i < l->v_head_dim; i++)
            s->total[i] = fmaf(p, mica_load_f(value, l->dtype, (size_t)i), s->total[i]);
    }
    s->sum = fmaf(s->sum, kept, lanes_join(lanes));
    s->max = max;
}

static void begin_head(const kernel_call *call, int64_t unit, int64_t head, head_state *s) {
    const kv_layout *l = &call->attr->attention.layout;
    const kernel_operand *sinks = &call->src[ATT_SINKS];
    operand_load_row(&call->src[ATT_Q], unit, s->q);
    for (int64_t i = 0; i < l->head_dim; i++)
        s->q[i] = s->q[i] * call->attr->attention.scale;
    for (int64_t i = 0; i < l->v_head_dim; i++)
        s->total[i] = 0.0f;
    bool has_sink = call->n_src > ATT_SINKS && sinks->data;
    s->max = has_sink ? operand_load(sinks, head * operand_step(sinks)) : -INFINITY;
    s->sum = has_sink ? 1.0f : 0.0f;
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
        begin_head(call, u, head, &s);
        for (int64_t lo = row.keys.lo; lo < row.keys.hi;) {
            int64_t hi = (lo / ATTENTION_TILE + 1) * ATTENTION_TILE;
            if (hi > row.keys.hi) hi = row.keys.hi;
            attend_tile(call, &row, kv, lo, hi, &s);
            lo = hi;
        }
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
