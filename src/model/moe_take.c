/* moe_take.c: the tensors of a mixture of experts, in the layouts in which files hold them.
 *
 * A stack [n_experts, n_out, n_in] for each projection (MLX, GGUF); a tensor for each expert (the
 * hub); or gate and up of all experts in one tensor, first the rows of gate, then those of up.
 * Nothing is copied.
 */
#include "model/taker.h"

#include <stdio.h>

typedef enum expert_part { PART_GATE, PART_UP, PART_DOWN } expert_part;

static const char *const part_names[] = {"gate_proj", "up_proj", "down_proj"};

typedef struct expert_shape {
    int64_t n, n_out, n_in;
} expert_shape;

/* scope + "mlp." + rest. */
static void block_path(const model_taker *t, char *out, size_t n, const char *rest) {
    snprintf(out, n, "%smlp.%s", t->scope, rest);
}

static bool has(const model_taker *t, const char *path, const char *suffix) {
    char name[224];
    snprintf(name, sizeof(name), "%s%s", path, suffix);
    return mica_weights_has(t->m->store, name);
}

static const weight_matrix *join(model_taker *t, const char *path, const weight_matrix *parts,
                                 int64_t n) {
    const weight_matrix *m = NULL;
    if (!t->st) t->st = mica_weights_join(t->m->store, path, parts, n, &m, t->err);
    return t->st ? NULL : m;
}

static const weight_matrix *matrix(model_taker *t, const char *path, const expert_shape *s) {
    const weight_matrix *m = NULL;
    if (!t->st) t->st = mica_weights_matrix(t->m->store, path, s->n, s->n_out, s->n_in, &m, t->err);
    return t->st ? NULL : m;
}

static weight_matrix *new_parts(model_taker *t, int64_t n) {
    weight_matrix *parts = mica_arena_calloc(&t->m->arena, (size_t)n, sizeof(*parts));
    if (!parts) mica_taker_no_memory(t);
    return parts;
}

/* A tensor for each expert. */
static const weight_matrix *take_each(model_taker *t, expert_part part, const expert_shape *s,
                                      const char *path) {
    weight_matrix *parts = new_parts(t, s->n);
    expert_shape one = {0, s->n_out, s->n_in};
    for (int64_t e = 0; !t->st && e < s->n; e++) {
        char rest[96], each[192];
        snprintf(rest, sizeof(rest), "experts.%lld.%s", (long long)e, part_names[part]);
        block_path(t, each, sizeof(each), rest);
        const weight_matrix *m = matrix(t, each, &one);
        if (m) parts[e] = *m;
    }
    return join(t, path, parts, s->n);
}

/* Rows [first, first + n_out) of every expert of a stack. */
static const weight_matrix *take_rows(model_taker *t, const char *stack, const char *path,
                                      int64_t first, const expert_shape *s) {
    expert_shape both = {s->n, 2 * s->n_out, s->n_in};
    const weight_matrix *m = matrix(t, stack, &both);
    weight_matrix *parts = new_parts(t, s->n);
    for (int64_t e = 0; !t->st && e < s->n; e++) {
        weight_matrix expert = mica_weight_expert(m, e);
        parts[e] = mica_weight_slice(&expert, first, s->n_out);
    }
    return join(t, path, parts, s->n);
}

static const weight_matrix *take_experts(model_taker *t, expert_part part, expert_shape s) {
    static const char *const stacks[] = {"switch_mlp", "experts", "switch_glu"};
    char rest[96], path[192], first[192];
    for (size_t i = 0; i < sizeof(stacks) / sizeof(*stacks); i++) {
        snprintf(rest, sizeof(rest), "%s.%s", stacks[i], part_names[part]);
        block_path(t, path, sizeof(path), rest);
        if (has(t, path, ".weight")) return matrix(t, path, &s);
        if (part == PART_DOWN && has(t, path, "")) return matrix(t, path, &s);
    }
    snprintf(rest, sizeof(rest), "switch_mlp.%s", part_names[part]);
    block_path(t, path, sizeof(path), rest);
    block_path(t, first, sizeof(first), "experts.gate_up_proj");
    if (part != PART_DOWN && (has(t, first, "") || has(t, first, ".weight")))
        return take_rows(t, first, path, part == PART_UP ? s.n_out : 0, &s);
    return take_each(t, part, &s, path);
}

static void take_shared(model_taker *t, moe_layer *l) {
    const moe_rule *rule = t->m->facts.arch->moe;
    bias_rule bias = t->m->facts.arch->mlp_bias;
    int64_t hidden = t->m->config.hidden_size, wide = t->m->config.moe.shared_size;
    char path[192];
    block_path(t, path, sizeof(path), "shared_expert.gate_up_proj");
    if (rule->shared_is_fused && has(t, path, ".weight")) {
        char name[192];
        block_path(t, name, sizeof(name), "shared_expert.gate_proj");
        if (!t->st)
            t->st = mica_weights_matrix_rows(t->m->store, path, name, 2 * wide, 0, wide, hidden,
                                             &l->shared_gate.weight, t->err);
        block_path(t, name, sizeof(name), "shared_expert.up_proj");
        if (!t->st)
            t->st = mica_weights_matrix_rows(t->m->store, path, name, 2 * wide, wide, wide, hidden,
                                             &l->shared_up.weight, t->err);
    } else {
        l->shared_gate = mica_taker_linear(t, "mlp.shared_expert.gate_proj", wide, hidden, bias);
        l->shared_up = mica_taker_linear(t, "mlp.shared_expert.up_proj", wide, hidden, bias);
    }
    l->shared_down = mica_taker_linear(t, "mlp.shared_expert.down_proj", hidden, wide, bias);
    if (rule->shared_is_gated)
        l->shared_router =
            mica_taker_linear(t, "mlp.shared_expert_gate", 1, hidden, BIAS_RULE_NEVER);
}

static const weight_vector *take_selection_bias(model_taker *t) {
    char name[192];
    const weight_vector *v = NULL;
    block_path(t, name, sizeof(name), "gate.e_score_correction_bias");
    if (t->m->facts.arch->moe->selection_bias == BIAS_OPTIONAL && !has(t, name, "")) return NULL;
    if (!t->st)
        t->st = mica_weights_vector(t->m->store, name, t->m->config.moe.n_experts, &v, t->err);
    return t->st ? NULL : v;
}

const moe_layer *mica_taker_moe(model_taker *t) {
    const moe_config *c = &t->m->config.moe;
    int64_t hidden = t->m->config.hidden_size, wide = c->intermediate_size, n = c->n_experts;
    moe_layer *l = mica_arena_calloc(&t->m->arena, 1, sizeof(*l));
    if (!l) {
        mica_taker_no_memory(t);
        return NULL;
    }
    l->router = mica_taker_linear(t, "mlp.gate", n, hidden, BIAS_RULE_NEVER);
    if (t->m->facts.arch->moe->selection_bias) l->selection_bias = take_selection_bias(t);
    l->gate = take_experts(t, PART_GATE, (expert_shape){n, wide, hidden});
    l->up = take_experts(t, PART_UP, (expert_shape){n, wide, hidden});
    l->down = take_experts(t, PART_DOWN, (expert_shape){n, hidden, wide});
    if (c->shared_size) take_shared(t, l);
    return l;
}
