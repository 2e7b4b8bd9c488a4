/* moe.c: mixture of experts: which experts a row uses, and the sum over them. Their products are in
 * the files of the matmuls (experts.h).
 *
 * SOFTMAX: over the last dimension, one rT. TOP_K: the k largest scores of a row, descending, ties
 * to the lower index; NaN counts as lowest. With groups only experts of the best groups are there;
 * ties of groups go to the lower one. TOP_K_WEIGHTS: softmax over all experts before the choice, or
 * over the k chosen scores after it, or another rule of top_k_rule; then divided by their sum if
 * `normalize`, then times `factor`; rT after each step, the softmax itself in f32. EXPERT_GROUPS:
 * graph/expert_groups.h. EXPERT_COMBINE: out[r] = sum over slots, ascending, of rT(y
 * * weight), in f32, one rT. Units: a row; the whole list. Profile: exact. Source:
 * docs/models.md 1.7, 11.4, 12; docs/numerics.md 2.5.
 */
#include <math.h>
#include <string.h>

#include "backend/cpu/lanes.h"
#include "backend/cpu/operand.h"
#include "backend/cpu/scalar_math.h"
#include "graph/expert_groups.h"

static float order_key(const kernel_operand *scores, int64_t at) {
    float s = operand_load(scores, at);
    return isnan(s) ? -INFINITY : s;
}

/* The k largest of keys, best first. A key becomes NaN when it is chosen. */
static void choose(float *keys, int64_t n, int64_t k, int32_t *idx) {
    for (int64_t j = 0; j < k; j++) {
        int64_t best = -1;
        float most = 0.0f;
        for (int64_t e = 0; e < n; e++) {
            if (isnan(keys[e]) || (best >= 0 && !(keys[e] > most))) continue;
            best = e;
            most = keys[e];
        }
        keys[best] = NAN;
        idx[j] = (int32_t)best;
    }
}

/* The sum of the n_best largest keys, best first. */
static float group_score(float *keys, int64_t n, int64_t n_best) {
    int32_t idx[TOP_K_MAX_BEST];
    float kept[TOP_K_MAX_BEST], sum = 0.0f;
    for (int64_t j = 0; j < n_best; j++) {
        int64_t best = -1;
        for (int64_t e = 0; e < n; e++)
            if (!isnan(keys[e]) && (best < 0 || keys[e] > keys[best])) best = e;
        idx[j] = (int32_t)best;
        kept[j] = keys[best];
        sum += kept[j];
        keys[best] = NAN;
    }
    for (int64_t j = 0; j < n_best; j++)
        keys[idx[j]] = kept[j];
    return sum;
}

/* Keys of the groups that are not among the best become -inf. `scratch`: n_groups floats and as
 * many indices. */
static void keep_best_groups(float *keys, int64_t n, const top_k_groups *groups, float *scratch) {
    int64_t size = n / groups->n_groups;
    int32_t *order = (int32_t *)(void *)(scratch + groups->n_groups);
    for (int32_t g = 0; g < groups->n_groups; g++)
        scratch[g] = group_score(keys + g * size, size, groups->n_best);
    choose(scratch, groups->n_groups, groups->n_groups, order);
    for (int32_t i = groups->n_used; i < groups->n_groups; i++)
        for (int64_t e = 0; e < size; e++)
            keys[order[i] * size + e] = -INFINITY;
}

static size_t scratch_top_k(const kernel_call *call) {
    int64_t n = operand_width(&call->src[0]) + 2 * (int64_t)call->attr->top_k.groups.n_groups;
    return sizeof(float) * (size_t)n;
}

static void run_top_k(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    const kernel_operand *scores = &call->src[0];
    const top_k_groups *groups = &call->attr->top_k.groups;
    int64_t k = operand_width(&call->out), n = operand_width(scores), step = operand_step(scores);
    float *keys = scratch;
    for (int64_t r = begin; r < end; r++) {
        int64_t off = operand_row(scores, r);
        for (int64_t e = 0; e < n; e++)
            keys[e] = order_key(scores, off + e * step);
        if (groups->n_groups) keep_best_groups(keys, n, groups, keys + n);
        choose(keys, n, k, operand_ptr(&call->out, operand_row(&call->out, r)));
    }
}

/* p[0..n) becomes its softmax. */
static void softmax(float *p, int64_t n) {
    float max = -INFINITY;
    for (int64_t i = 0; i < n; i++)
        if (p[i] > max) max = p[i];
    for (int64_t i = 0; i < n; i++)
        p[i] = exp_f32(p[i] - max);
    float sum = lanes_sum(p, n);
    for (int64_t i = 0; i < n; i++)
        p[i] = p[i] / sum;
}

static size_t scratch_row(const kernel_call *call) {
    return sizeof(float) * (size_t)operand_width(&call->src[0]);
}

static void run_softmax(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    int64_t n = operand_width(&call->out);
    for (int64_t r = begin; r < end; r++) {
        operand_load_row(&call->src[0], r, scratch);
        softmax(scratch, n);
        operand_store_row(&call->out, r, 0, n, scratch);
    }
}

/* Sparsemixer: the weight of expert idx[j] is its share of a softmax over the experts whose score
 * is close to it, those chosen before it left out. */
static void sparsemixer(const float *scores, int64_t n, const int32_t *idx, float jitter,
                        float *kept) {
    for (int64_t j = 0; j < 2; j++) {
        float max = scores[idx[j]], sum = 0.0f;
        for (int64_t e = 0; e < n; e++) {
            float size = fabsf(scores[e]) > max ? fabsf(scores[e]) : max;
            bool is_far = (max - scores[e]) / size > 2.0f * jitter;
            if (is_far || (j == 1 && e == idx[0])) continue;
            sum += exp_f32(scores[e] - max);
        }
        kept[j] = 1.0f / sum;
    }
}

static size_t scratch_scores(const kernel_call *call) {
    int64_t n = operand_width(&call->src[0]) + operand_width(&call->out);
    return sizeof(float) * (size_t)n;
}

/* The weights of the chosen before they are normalized; `all` is overwritten. */
static void weigh(const top_k_weighting *w, float *all, int64_t n, const int32_t *idx, int64_t k,
                  float *kept) {
    if (w->rule == TOP_K_SPARSEMIXER) {
        sparsemixer(all, n, idx, w->jitter, kept);
        return;
    }
    if (w->rule == TOP_K_SOFTMAX_ALL) softmax(all, n);
    for (int64_t j = 0; j < k; j++)
        kept[j] = all[idx[j]];
    if (w->rule == TOP_K_SOFTMAX_CHOSEN) softmax(kept, k);
}

static void run_top_k_weights(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    const kernel_operand *scores = &call->src[0], *out = &call->out;
    const top_k_weighting *w = &call->attr->top_k_weights;
    int64_t n = operand_width(scores), k = operand_width(out);
    mica_dtype t = out->dtype;
    float *all = scratch, *kept = all + n;
    for (int64_t r = begin; r < end; r++) {
        const int32_t *idx = operand_ptr(&call->src[1], operand_row(&call->src[1], r));
        operand_load_row(scores, r, all);
        weigh(w, all, n, idx, k, kept);
        float sum = 0.0f;
        for (int64_t j = 0; j < k; j++) {
            kept[j] = mica_round_to(kept[j], t);
            sum += kept[j];
        }
        sum = mica_round_to(sum + w->sum_extra, t);
        if (sum < w->sum_least) sum = w->sum_least;
        for (int64_t j = 0; j < k; j++) {
            if (w->normalize) kept[j] = mica_round_to(kept[j] / sum, t);
            kept[j] = kept[j] * mica_round_to(w->factor, t);
        }
        operand_store_row(out, r, 0, k, kept);
    }
}

static int64_t n_units_one(const kernel_call *call) {
    (void)call;
    return 1;
}

/* The j-th expert of row r; a list of rows alone means all experts in order. */
static int32_t expert_of(const kernel_operand *idx, int64_t r, int64_t j) {
    if (idx->n_dims == 1) return (int32_t)j;
    const int32_t *row = operand_ptr(idx, operand_row(idx, r));
    return row[j];
}

/* Counts, then offsets, then places: offsets[e] serves as the next place of expert e while pairs
 * are put, and is e's own end after that; so they move up by one at the end. */
static void run_expert_groups(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    const kernel_operand *idx = &call->src[0];
    int64_t n_experts = call->attr->experts.n_experts, k = call->attr->experts.k;
    int64_t n_rows = idx->dim[0];
    expert_groups g = expert_groups_at(call->out.data, n_experts, k * n_rows);
    if (begin == end) return;
    memset(g.offsets, 0, sizeof(*g.offsets) * (size_t)(n_experts + 1));
    for (int64_t r = 0; r < n_rows; r++)
        for (int64_t j = 0; j < k; j++)
            g.offsets[expert_of(idx, r, j) + 1]++;
    *g.count = 0;
    for (int64_t e = 0; e < n_experts; e++) {
        if (g.offsets[e + 1]) g.active[(*g.count)++] = (int32_t)e;
        g.offsets[e + 1] += g.offsets[e];
    }
    for (int64_t a = *g.count; a < n_experts; a++)
        g.active[a] = -1;
    for (int64_t r = 0; r < n_rows; r++)
        for (int64_t j = 0; j < k; j++) {
            int32_t at = g.offsets[expert_of(idx, r, j)]++;
            g.pairs[at] = (int32_t)(r * k + j);
            g.rows[at] = (int32_t)r;
        }
    for (int64_t e = n_experts; e > 0; e--)
        g.offsets[e] = g.offsets[e - 1];
    g.offsets[0] = 0;
}

/* g * sigmoid(alpha g) * (u + 1) in f32, one rT. */
static void run_clamped_glu(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    const kernel_operand *gate = &call->src[0], *up = &call->src[1], *out = &call->out;
    float alpha = call->attr->clamped_glu.alpha, limit = call->attr->clamped_glu.limit;
    int64_t n = operand_width(out), gate_step = operand_step(gate), up_step = operand_step(up);
    float *row = scratch;
    for (int64_t r = begin; r < end; r++) {
        int64_t g_off = operand_row(gate, r), u_off = operand_row(up, r);
        for (int64_t i = 0; i < n; i++) {
            float g = operand_load(gate, g_off + i * gate_step);
            float u = operand_load(up, u_off + i * up_step);
            g = g > limit ? limit : g;
            u = u > limit ? limit : u < -limit ? -limit : u;
            row[i] = g / (1.0f + exp_f32(-(alpha * g))) * (u + 1.0f);
        }
        operand_store_row(out, r, 0, n, row);
    }
}

static void run_expert_combine(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    const kernel_operand *y = &call->src[0], *weights = &call->src[1], *out = &call->out;
    int64_t n = operand_width(out), k = operand_width(weights);
    for (int64_t r = begin; r < end; r++) {
        int64_t w_off = operand_row(weights, r);
        for (int64_t i = 0; i < n; i++) {
            float sum = 0.0f;
            for (int64_t j = 0; j < k; j++) {
                float w = operand_load(weights, w_off + j * operand_step(weights));
                float v = operand_load(y, operand_row(y, r * k + j) + i * operand_step(y));
                sum += mica_round_to(v * w, out->dtype);
            }
            operand_store_row(out, r, i, 1, &sum);
        }
    }
}

MICA_DECLARE_KERNELS(moe_ref);
const cpu_kernel mica_kernels_moe_ref[] = {
    {"softmax_ref", OP_SOFTMAX, ISA_REF, declines_none, n_units_rows, run_softmax, scratch_row},
    {"top_k_ref", OP_TOP_K, ISA_REF, declines_none, n_units_rows, run_top_k, scratch_top_k},
    {"top_k_weights_ref", OP_TOP_K_WEIGHTS, ISA_REF, declines_none, n_units_rows, run_top_k_weights,
     scratch_scores},
    {"expert_groups_ref", OP_EXPERT_GROUPS, ISA_REF, declines_none, n_units_one, run_expert_groups,
     NULL},
    {"clamped_glu_ref", OP_CLAMPED_GLU, ISA_REF, declines_none, n_units_rows, run_clamped_glu,
     scratch_row},
    {"expert_combine_ref", OP_EXPERT_COMBINE, ISA_REF, declines_none, n_units_rows,
     run_expert_combine, NULL},
};
const int mica_n_kernels_moe_ref = 6;
