/* delta_take.c: the tensors of a gated-delta layer (docs/models.md 11.2).
 *
 * Projections lie apart, or fused and interleaved by key head (qwen3_next); which, the family says.
 */
#include "model/taker.h"

#include <stdio.h>

/* scope + "linear_attn." + name, a vector without suffix. */
static const weight_vector *take_plain(model_taker *t, const char *name, int64_t n) {
    const weight_vector *v = NULL;
    char full[128];
    snprintf(full, sizeof(full), "%slinear_attn.%s", t->scope, name);
    if (!t->st) t->st = mica_weights_vector(t->m->store, full, n, &v, t->err);
    return t->st ? NULL : v;
}

/* GGUF files cut qkvz and leave ba as it was; older ones cut neither. */
typedef struct delta_names {
    bool is_fused, fuses_ba;
} delta_names;

static delta_names names_of(const model_taker *t) {
    char full[128];
    bool fused = t->m->facts.arch->mixers == MIXERS_DELTA_FUSED;
    snprintf(full, sizeof(full), "%slinear_attn.in_proj_qkv.weight", t->scope);
    return (delta_names){fused && !(t->m->facts.is_gguf && mica_weights_has(t->m->store, full)),
                         fused};
}

const delta_layer *mica_taker_delta(model_taker *t) {
    const delta_config *d = &t->m->config.delta;
    int64_t key = d->n_k_heads * d->k_dim, val = d->n_v_heads * d->v_dim;
    int64_t hidden = t->m->config.hidden_size;
    delta_layer *l = mica_arena_calloc(&t->m->arena, 1, sizeof(*l));
    if (!l) {
        mica_taker_no_memory(t);
        return NULL;
    }
    const delta_names n = names_of(t);
    if (n.is_fused) {
        l->qkvz = mica_taker_linear(t, "linear_attn.in_proj_qkvz", 2 * key + 2 * val, hidden,
                                    BIAS_RULE_NEVER);
    } else {
        l->qkv =
            mica_taker_linear(t, "linear_attn.in_proj_qkv", 2 * key + val, hidden, BIAS_RULE_NEVER);
        l->z = mica_taker_linear(t, "linear_attn.in_proj_z", val, hidden, BIAS_RULE_NEVER);
    }
    if (n.fuses_ba) {
        l->ba = mica_taker_linear(t, "linear_attn.in_proj_ba", 2 * d->n_v_heads, hidden,
                                  BIAS_RULE_NEVER);
    } else {
        l->b = mica_taker_linear(t, "linear_attn.in_proj_b", d->n_v_heads, hidden, BIAS_RULE_NEVER);
        l->a = mica_taker_linear(t, "linear_attn.in_proj_a", d->n_v_heads, hidden, BIAS_RULE_NEVER);
    }
    /* [C, K, 1] or [C, 1, K]: the same bytes */
    l->conv = take_plain(t, "conv1d.weight", (2 * key + val) * d->conv_width);
    l->a_log = t->m->facts.is_gguf ? mica_taker_log_rates(t, "linear_attn.A", d->n_v_heads)
                                   : take_plain(t, "A_log", d->n_v_heads);
    l->dt_bias = take_plain(t, "dt_bias", d->n_v_heads);
    l->norm = take_plain(t, "norm.weight", d->v_dim);
    l->out = mica_taker_linear(t, "linear_attn.out_proj", hidden, val, BIAS_RULE_NEVER);
    return l;
}

bool mica_taker_is_raw(const model_taker *t) {
    char path[128];
    for (int64_t i = 0; i < t->m->config.n_layers && !t->m->facts.is_gguf; i++) {
        snprintf(path, sizeof(path), "model.layers.%lld.linear_attn.conv1d", (long long)i);
        int64_t width = mica_weights_rows(t->m->store, path); /* the dimension before the last */
        if (width >= 0) return width == 1 && t->m->config.delta.conv_width != 1;
    }
    return false;
}
