/* moe.c: the graph of a mixture of experts: scores, choice, the experts' products, their sum.
 *
 * The choice is data: rows are grouped by expert when the graph runs, so one graph serves any
 * routing and only the chosen experts' weights are read (docs/models.md 12).
 */
#include "model/builder.h"

#include <math.h>

/* Scores of all experts: what the choice is made by, and what the weights are made of. */
typedef struct router_scores {
    graph_id choice, weights;
} router_scores;

static router_scores score(model_builder *b, const moe_layer *l, graph_id x) {
    const moe_rule *rule = b->a->moe;
    if (rule->wide_router && !b->g->force_dtype)
        x = named(b, mica_graph_cast(b->g, x, MICA_F32), "router_input");
    if (l->router_scale) { /* three roundings */
        x = mica_graph_rms_norm(b->g, x, GRAPH_NONE, b->c->rms_norm_eps);
        x = mica_graph_mul(b->g, named(b, x, "router_norm"),
                           mica_graph_vector(b->g, l->router_scale));
        x = named(b, x, "router_scale");
        x = mica_graph_scale(b->g, x, 1.0f / sqrtf((float)b->c->hidden_size));
        x = named(b, x, "router_input");
    }
    graph_id s = mica_builder_project(b, x, l->router, "router");
    if (rule->scores == ROUTER_SIGMOID) s = named(b, mica_graph_sigmoid(b->g, s), "router_scores");
    router_scores both = {s, s};
    if (rule->scores == ROUTER_INPUT)
        both.weights = named(b, mica_graph_sigmoid(b->g, s), "router_scores");
    if (l->selection_bias && rule->scores == ROUTER_SOFTMAX_ALL)
        both.choice = both.weights = named(b, mica_graph_softmax(b->g, s), "router_scores");
    if (l->selection_bias)
        both.choice =
            named(b, mica_graph_add(b->g, both.weights, mica_graph_vector(b->g, l->selection_bias)),
                  "router_choice");
    return both;
}

static graph_id choose(model_builder *b, const router_scores *s) {
    const moe_config *c = &b->c->moe;
    top_k_groups groups = {(int32_t)c->n_groups, (int32_t)c->n_groups_used,
                           (int32_t)b->a->moe->group_best};
    return named(b, mica_graph_top_k(b->g, s->choice, (int32_t)c->n_experts_used, &groups),
                 "experts_used");
}

static graph_id weigh(model_builder *b, const router_scores *s, graph_id idx) {
    static const top_k_rule rules[] = {[ROUTER_SOFTMAX_ALL] = TOP_K_SOFTMAX_ALL,
                                       [ROUTER_SOFTMAX_CHOSEN] = TOP_K_SOFTMAX_CHOSEN,
                                       [ROUTER_SIGMOID] = TOP_K_PLAIN,
                                       [ROUTER_SPARSEMIXER] = TOP_K_SPARSEMIXER,
                                       [ROUTER_INPUT] = TOP_K_PLAIN};
    const moe_config *c = &b->c->moe;
    bool ready = s->choice != s->weights; /* the scores are probabilities already */
    top_k_weighting w = {.rule = ready ? TOP_K_PLAIN : rules[b->a->moe->scores],
                         .jitter = c->jitter,
                         .normalize = c->normalize,
                         .sum_least = c->sum_least,
                         .sum_extra = c->sum_extra,
                         .factor = c->factor};
    graph_id from = s->weights;
    if (b->a->moe->wide_weights && !b->g->force_dtype) from = mica_graph_cast(b->g, from, MICA_F32);
    return named(b, mica_graph_top_k_weights(b->g, from, idx, &w), "expert_weights");
}

static graph_id expert_matmul(model_builder *b, graph_id x, const weight_matrix *m, graph_id groups,
                              const char *name) {
    graph_id w = mica_graph_weight(b->g, m);
    int32_t k = (int32_t)b->c->moe.n_experts_used;
    return named(b, mica_graph_expert_matmul(b->g, x, w, groups, k), name);
}

static graph_id add_bias(model_builder *b, graph_id y, const weight_vector *bias, graph_id idx,
                         const char *name) {
    if (!bias) return y;
    int64_t n = b->c->moe.n_experts;
    graph_dim dims[2] = {mica_dim(n), mica_dim(bias->n / n)};
    graph_id v = mica_graph_const(b->g, bias->name, bias->dtype, 2, dims, bias->data);
    return named(b, mica_graph_expert_bias(b->g, y, v, idx), name);
}

/* act(x Wg) * (x Wu) for each pair; act(x Wu) without a gate. */
static graph_id gated(model_builder *b, const moe_layer *l, graph_id x, graph_id idx,
                      graph_id groups) {
    graph_id gate, up;
    if (b->a->moe->is_plain)
        return mica_builder_activation(b, expert_matmul(b, x, l->up, groups, "experts.up_proj"));
    if (l->gate_up) {
        graph_id both = expert_matmul(b, x, l->gate_up, groups, "experts.gate_up_proj");
        gate = mica_graph_every(b->g, both, 0, 2);
        up = mica_graph_every(b->g, both, 1, 2);
    } else {
        gate = expert_matmul(b, x, l->gate, groups, "experts.gate_proj");
        up = expert_matmul(b, x, l->up, groups, "experts.up_proj");
    }
    gate = add_bias(b, gate, l->gate_bias, idx, "experts.gate");
    up = add_bias(b, up, l->up_bias, idx, "experts.up");
    if (b->a->moe->is_clamped)
        return mica_graph_clamped_glu(b->g, gate, up, b->c->moe.act_alpha, b->c->moe.act_limit);
    graph_id act = named(b, mica_builder_activation(b, gate), "experts.act");
    return mica_graph_mul(b->g, act, up);
}

/* weights [R, k] times the scale of each chosen expert. */
static graph_id scale_experts(model_builder *b, const moe_layer *l, graph_id idx,
                              graph_id weights) {
    graph_dim all = mica_dim_sym(b->c->moe.n_experts_used, GRAPH_ROWS);
    graph_dim dims[2] = {mica_dim_sym(1, GRAPH_ROWS), mica_dim(b->c->moe.n_experts_used)};
    graph_id table = mica_graph_weight(b->g, l->expert_scale);
    graph_id scales = mica_graph_embed(b->g, mica_graph_reshape(b->g, idx, 1, &all), table);
    scales = mica_graph_reshape(b->g, named(b, scales, "expert_scales"), 2, dims);
    return named(b, mica_graph_mul(b->g, weights, scales), "expert_weights");
}

graph_id mica_builder_routed(model_builder *b, const moe_layer *l, graph_id x, graph_id from) {
    router_scores s = score(b, l, from);
    graph_id idx = choose(b, &s), weights = weigh(b, &s, idx);
    if (l->expert_scale) weights = scale_experts(b, l, idx, weights);
    graph_id groups = mica_graph_expert_groups(b->g, idx, (int32_t)b->c->moe.n_experts);
    groups = named(b, groups, "expert_rows");
    bool scales_input = b->a->moe->scores == ROUTER_INPUT; /* one expert: its pairs are the rows */
    if (scales_input) x = named(b, mica_graph_expert_combine(b->g, x, weights), "experts.input");
    graph_id y = named(b, gated(b, l, x, idx, groups), "experts.gated");
    y = expert_matmul(b, y, l->down, groups, "experts.down_proj");
    y = add_bias(b, y, l->down_bias, idx, "experts.down");
    if (!scales_input) y = named(b, mica_graph_expert_combine(b->g, y, weights), "experts");
    if (y == GRAPH_NONE || b->g->force_dtype) return y;
    return named(b, mica_graph_cast(b->g, y, b->g->nodes[x].type.dtype), "experts");
}

static graph_id shared(model_builder *b, const moe_layer *l, graph_id x) {
    if (b->a->moe->is_plain) {
        graph_id up = mica_builder_project(b, x, l->shared_up, "up_proj");
        up = named(b, mica_builder_activation(b, up), "act");
        return mica_builder_project(b, up, l->shared_down, "down_proj");
    }
    graph_id y = mica_builder_gated(b, x, l->shared_gate, l->shared_up, l->shared_down);
    if (!l->shared_router.weight) return y;
    graph_id gate = mica_builder_project(b, x, l->shared_router, "shared_router");
    /* one weight a row: a choice of one */
    gate = named(b, mica_graph_sigmoid(b->g, gate), "shared_gate");
    return named(b, mica_graph_expert_combine(b->g, y, gate), "shared_expert");
}

graph_id mica_builder_moe(model_builder *b, const moe_layer *l, graph_id x) {
    if (!l->router.weight) return shared(b, l, x);
    graph_id inner = x;
    if (l->latent_in.weight) inner = mica_builder_project(b, x, l->latent_in, "latent_in");
    graph_id y = mica_builder_routed(b, l, inner, x);
    if (l->latent_out.weight) y = mica_builder_project(b, y, l->latent_out, "latent_out");
    if (!l->shared_up.weight) return y;
    return named(b, mica_graph_add(b->g, y, shared(b, l, x)), "experts_and_shared");
}
