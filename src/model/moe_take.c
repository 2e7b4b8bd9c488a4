/* moe_take.c: the tensors of a mixture of experts, in the layouts in which files hold them.
 *
 * A stack [n_experts, n_out, n_in] for each projection (MLX, GGUF); a tensor for each expert (the
 * hub); or gate and up of all experts in one tensor, first the rows of gate, then those of up.
 * Nothing is copied.
 */
#include "model/taker.h"

#include <stdio.h>
#include <string.h>

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

/* [E, H, 2I]: gate and up one behind the other, or in turn; [E, I, H] for down. */
static const weight_matrix *take_turned(model_taker *t, expert_part part, const expert_shape *s) {
    const weight_matrix *m = NULL;
    bool in_turn = t->m->facts.arch->moe->is_interleaved, is_down = part == PART_DOWN;
    int64_t first = part == PART_UP ? (in_turn ? 1 : s->n_out) : 0;
    int64_t step = in_turn && !is_down ? 2 : 1, n_all = is_down ? s->n_out : 2 * s->n_out;
    char path[192];
    block_path(t, path, sizeof(path), is_down ? "experts.down_proj" : "experts.gate_up_proj");
    if (!t->st)
        t->st = mica_weights_turned(t->m->store, path, s->n, n_all, first, step, s->n_out, s->n_in,
                                    &m, t->err);
    return t->st ? NULL : m;
}

static const weight_matrix *take_experts(model_taker *t, expert_part part, expert_shape s) {
    static const char *const stacks[] = {"switch_mlp", "experts", "switch_glu"};
    char rest[96], path[192], first[192];
    for (size_t i = 0; i < sizeof(stacks) / sizeof(*stacks); i++) {
        snprintf(rest, sizeof(rest), "%s.%s", stacks[i], part_names[part]);
        block_path(t, path, sizeof(path), rest);
        if (has(t, path, ".weight")) return matrix(t, path, &s);
        if (t->m->facts.arch->moe->is_turned) continue;
        bool alone = part == PART_DOWN || t->m->facts.arch->moe->is_plain;
        if (alone && has(t, path, "")) return matrix(t, path, &s);
    }
    block_path(t, first, sizeof(first), "experts.gate_up_proj");
    if (t->m->facts.arch->moe->is_turned && has(t, first, "")) return take_turned(t, part, &s);
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
        if (!rule->is_plain)
            l->shared_gate =
                mica_taker_linear(t, "mlp.shared_expert.gate_proj", wide, hidden, bias);
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
    bias_presence presence = t->m->facts.arch->moe->selection_bias;
    bool may_lack = presence == BIAS_OPTIONAL || t->m->facts.is_gguf;
    if (may_lack && !has(t, name, "")) return NULL;
    if (!t->st)
        t->st = mica_weights_vector(t->m->store, name, t->m->config.moe.n_experts, &v, t->err);
    return t->st ? NULL : v;
}

/* experts.NAME_bias of raw files, or STACK.NAME.bias; NULL: absent. */
static const weight_vector *find_bias(model_taker *t, const char *name, int64_t n) {
    static const char *const forms[] = {"experts.%s_bias", "switch_mlp.%s.bias", "experts.%s.bias"};
    const weight_vector *v = NULL;
    char rest[96], path[192];
    for (size_t i = 0; i < sizeof(forms) / sizeof(*forms) && !t->st && !v; i++) {
        int k = snprintf(rest, sizeof(rest), "%.*s%s%s", (int)(strchr(forms[i], '%') - forms[i]),
                         forms[i], name, strchr(forms[i], '%') + 2);
        (void)k;
        block_path(t, path, sizeof(path), rest);
        if (has(t, path, "")) t->st = mica_weights_vector(t->m->store, path, n, &v, t->err);
    }
    return t->st ? NULL : v;
}

static const weight_vector *want_bias(model_taker *t, const char *name, int64_t n) {
    const weight_vector *v = find_bias(t, name, n);
    if (!v && !t->st)
        t->st = mica_fail(t->err, MICA_E_NOT_FOUND, "%s: no tensor named %smlp.experts.%s_bias",
                          t->m->path, t->scope, name);
    return v;
}

/* Every second element of `from`, from `first` on. */
static const weight_vector *half_of(model_taker *t, const weight_vector *from, int64_t first) {
    size_t n = (size_t)from->n / 2, size = mica_dtype_bytes(from->dtype);
    weight_vector *v = mica_arena_calloc(&t->m->arena, 1, sizeof(*v));
    uint8_t *data = mica_arena_calloc(&t->m->arena, n, size);
    if (!v || !data) {
        mica_taker_no_memory(t);
        return NULL;
    }
    for (size_t i = 0; i < n; i++)
        memcpy(data + i * size, (const uint8_t *)from->data + (2 * i + (size_t)first) * size, size);
    *v = (weight_vector){from->name, from->dtype, (int64_t)n, data};
    return v;
}

static void take_biases(model_taker *t, moe_layer *l, const moe_config *c) {
    int64_t n_wide = c->n_experts * c->intermediate_size;
    const weight_vector *both = find_bias(t, "gate_up_proj", 2 * n_wide);
    l->gate_bias = both ? half_of(t, both, 0) : want_bias(t, "gate_proj", n_wide);
    l->up_bias = both ? half_of(t, both, 1) : want_bias(t, "up_proj", n_wide);
    l->down_bias = want_bias(t, "down_proj", c->n_experts * t->m->config.hidden_size);
}

/* gpt_oss in its own mxfp4 packing: the rows of gate and up stay in turn. False: not so stored. */
static bool take_blocks(model_taker *t, moe_layer *l, const moe_config *c) {
    int64_t hidden = t->m->config.hidden_size, wide = c->intermediate_size;
    char path[192];
    block_path(t, path, sizeof(path), "experts.gate_up_proj");
    if (!has(t, path, "_blocks") || t->st) return false;
    t->st = mica_weights_mxfp4_blocks(t->m->store, path, c->n_experts, 2 * wide, hidden,
                                      &l->gate_up, t->err);
    block_path(t, path, sizeof(path), "experts.down_proj");
    if (!t->st)
        t->st = mica_weights_mxfp4_blocks(t->m->store, path, c->n_experts, hidden, wide, &l->down,
                                          t->err);
    return true;
}

const moe_layer *mica_taker_moe(model_taker *t) {
    const moe_config *c = &t->m->config.moe;
    int64_t hidden = t->m->config.hidden_size, wide = c->intermediate_size, n = c->n_experts;
    moe_layer *l = mica_arena_calloc(&t->m->arena, 1, sizeof(*l));
    if (!l) {
        mica_taker_no_memory(t);
        return NULL;
    }
    if (c->shared_size) take_shared(t, l);
    if (!n) return l;
    const moe_rule *rule = t->m->facts.arch->moe;
    l->router = mica_taker_linear(t, "mlp.gate", n, hidden,
                                  rule->has_bias ? BIAS_RULE_ALWAYS : BIAS_RULE_NEVER);
    if (rule->has_bias) take_biases(t, l, c);
    if (rule->selection_bias && !c->drops_selection_bias)
        l->selection_bias = take_selection_bias(t);
    if (take_blocks(t, l, c)) return l;
    if (c->latent_size) {
        bias_rule bias = t->m->facts.arch->mlp_bias;
        l->latent_in = mica_taker_linear(t, "mlp.fc1_latent_proj", c->latent_size, hidden, bias);
        l->latent_out = mica_taker_linear(t, "mlp.fc2_latent_proj", hidden, c->latent_size, bias);
        hidden = c->latent_size;
    }
    if (!rule->is_plain) l->gate = take_experts(t, PART_GATE, (expert_shape){n, wide, hidden});
    l->up = take_experts(t, PART_UP, (expert_shape){n, wide, hidden});
    l->down = take_experts(t, PART_DOWN, (expert_shape){n, hidden, wide});
    return l;
}
