/* attention.c: softmax(scale * q K^T) V over cache blocks, and the write into them.
 *
 * q [n_rows, heads, d]; K and V through kv_layout, f32, f16 or bf16; out [n_rows, heads*dv]. Head h
 * reads kv head h / (heads / kv_heads). All in f32 with one rounding at the store:
 * - q * scale, then the score of a key, 16 interleaved sums (lanes.h); with a softcap and T =
 *   f16 or bf16 the composed chain instead: rT(q * rT(scale)), rT(score), then softcap in T;
 * - keys in tiles at absolute multiples of 128. In a tile: its maximum; p = exp(s - max); the sum
 *   of p as 16 interleaved sums (key j of the tile to sum j mod 16); p V as one ascending sum an
 *   output. Tiles join in ascending order, both sides scaled to the common maximum;
 * - a sink is a score without a value: it is there before the first tile;
 * - a row that sees no key, and has no sink, gives zeros.
 * Unit: one head of one row. Profile: exact. Source: docs/numerics.md 4.5, docs/design.md 3.
 */
#include <math.h>

#include "backend/cpu/activation.h"
#include "backend/cpu/kv_access.h"
#include "backend/cpu/lanes.h"
#include "backend/cpu/operand.h"

/* Scaled query, sums over tiles, sums of a tile, scores, and one key or value. */
typedef struct head_state {
    float *q, *total, *part, *scores, *row;
    float max, sum;
} head_state;

static size_t scratch_head(const kernel_call *call) {
    const kv_layout *l = &call->attr->attention.layout;
    int64_t widest = l->head_dim > l->v_head_dim ? l->head_dim : l->v_head_dim;
    int64_t n = l->head_dim + 2 * (int64_t)l->v_head_dim + ATTENTION_TILE + widest;
    return (size_t)n * sizeof(float);
}

static void load_vector(float *out, const uint8_t *p, mica_dtype dtype, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        out[i] = mica_load_f(p, dtype, (size_t)i);
}

static float score(const kernel_call *call, const head_state *s, int64_t d) {
    float x = lanes_dot(s->q, s->row, d);
    float cap = call->attr->attention.softcap;
    return cap > 0.0f ? act_softcap(mica_round_to(x, call->out.dtype), cap, call->out.dtype) : x;
}

/* Keys [lo, hi) of one tile: fills part, returns its maximum and sum. */
static void attend_tile(const kernel_call *call, const attention_row *row, int64_t kv, int64_t lo,
                        int64_t hi, head_state *s, float *max, float *sum) {
    const kv_layout *l = &call->attr->attention.layout;
    void *base = call->src[ATT_CACHE].data;
    float lanes[N_LANES] = {0};
    *max = -INFINITY;
    for (int64_t j = lo; j < hi; j++) {
        load_vector(s->row, kv_key(l, base, row->table[j / KV_BLOCK], kv, j), l->dtype,
                    l->head_dim);
        s->scores[j % ATTENTION_TILE] = score(call, s, l->head_dim);
        if (s->scores[j % ATTENTION_TILE] > *max) *max = s->scores[j % ATTENTION_TILE];
    }
    for (int64_t i = 0; i < l->v_head_dim; i++)
        s->part[i] = 0.0f;
    for (int64_t j = lo; j < hi; j++) {
        float p = exp_f32(s->scores[j % ATTENTION_TILE] - *max);
        lanes[j % N_LANES] += p;
        load_vector(s->row, kv_value(l, base, row->table[j / KV_BLOCK], kv, j), l->dtype,
                    l->v_head_dim);
        for (int64_t i = 0; i < l->v_head_dim; i++)
            s->part[i] += p * s->row[i];
    }
    *sum = lanes_join(lanes);
}

static void merge_tile(head_state *s, int64_t dv, float max, float sum) {
    float joint = max > s->max ? max : s->max;
    float old_part = exp_f32(s->max - joint), new_part = exp_f32(max - joint);
    for (int64_t i = 0; i < dv; i++) {
        float kept = s->total[i] * old_part;
        s->total[i] = kept + s->part[i] * new_part;
    }
    float kept = s->sum * old_part;
    s->sum = kept + sum * new_part;
    s->max = joint;
}

static void begin_head(const kernel_call *call, int64_t unit, int64_t head, head_state *s) {
    const kv_layout *l = &call->attr->attention.layout;
    const kernel_operand *sinks = &call->src[ATT_SINKS];
    mica_dtype t = call->attr->attention.softcap > 0.0f ? call->out.dtype : MICA_F32;
    float scale = mica_round_to(call->attr->attention.scale, t);
    operand_load_row(&call->src[ATT_Q], unit, s->q);
    for (int64_t i = 0; i < l->head_dim; i++)
        s->q[i] = mica_round_to(s->q[i] * scale, t);
    for (int64_t i = 0; i < l->v_head_dim; i++)
        s->total[i] = 0.0f;
    bool has_sink = call->n_src > ATT_SINKS && sinks->data;
    s->max = has_sink ? operand_load(sinks, head * operand_step(sinks)) : -INFINITY;
    s->sum = has_sink ? 1.0f : 0.0f;
}

static void run_attention(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    const kv_layout *l = &call->attr->attention.layout;
    int64_t n_heads = call->src[ATT_Q].dim[1], dv = l->v_head_dim;
    head_state s;
    s.q = scratch;
    s.total = s.q + l->head_dim;
    s.part = s.total + dv;
    s.scores = s.part + dv;
    s.row = s.scores + ATTENTION_TILE;
    for (int64_t u = begin; u < end; u++) {
        int64_t head = u % n_heads, kv = head / (n_heads / l->n_kv_heads);
        attention_row row = attention_row_of(call, u / n_heads);
        begin_head(call, u, head, &s);
        for (int64_t lo = row.keys.lo; lo < row.keys.hi;) {
            int64_t hi = (lo / ATTENTION_TILE + 1) * ATTENTION_TILE;
            if (hi > row.keys.hi) hi = row.keys.hi;
            float max, sum;
            attend_tile(call, &row, kv, lo, hi, &s, &max, &sum);
            merge_tile(&s, dv, max, sum);
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

/* Slot = block * 64 + place; a negative slot (a padding row) is not written. Unit: one row. */
static void run_kv_write(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    const kv_layout *l = &call->attr->cache.layout;
    const kernel_operand *k = &call->src[1], *v = &call->src[2];
    const int32_t *slots = operand_i32(&call->src[3]);
    void *base = call->src[0].data;
    for (int64_t r = begin; r < end; r++) {
        if (slots[r] < 0) continue;
        int64_t block = slots[r] / KV_BLOCK, place = slots[r] % KV_BLOCK;
        for (int64_t h = 0; h < l->n_kv_heads; h++) {
            int64_t unit = r * l->n_kv_heads + h;
            uint8_t *key = kv_key(l, base, block, h, place);
            uint8_t *value = kv_value(l, base, block, h, place);
            for (int64_t i = 0; i < l->head_dim; i++)
                mica_store_f(key, l->dtype, (size_t)i,
                             operand_load(k, operand_row(k, unit) + i * operand_step(k)));
            if (l->v_in_k) continue;
            for (int64_t i = 0; i < l->v_head_dim; i++)
                mica_store_f(value, l->dtype, (size_t)i,
                             operand_load(v, operand_row(v, unit) + i * operand_step(v)));
        }
    }
}

static int64_t n_units_slots(const kernel_call *call) { return call->src[3].dim[0]; }

MICA_DECLARE_KERNELS(attention_ref);
const cpu_kernel mica_kernels_attention_ref[] = {
    {"attention_ref", OP_ATTENTION, ISA_REF, declines_none, n_units_heads, run_attention,
     scratch_head},
    {"kv_write_ref", OP_KV_WRITE, ISA_REF, declines_none, n_units_slots, run_kv_write, NULL},
};
const int mica_n_kernels_attention_ref = 2;
