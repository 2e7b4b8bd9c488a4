/* config_gguf_moe.c: experts and latent attention in the metadata of a GGUF file.
 *
 * Which layers have experts, and how wide the MLP beside them is, no key tells for all families:
 * the tensors do.
 */
#include "model/config_gguf.h"

#include <stdio.h>

/* As expert_gating_func spells them. */
enum { GATING_SOFTMAX = 1, GATING_SIGMOID = 2, GATING_SOFTMAX_CHOSEN = 3 };

static void check_gating(gguf_reader *r) {
    router_rule rule = r->arch->moe->scores;
    bool is_sigmoid = rule == ROUTER_SIGMOID || rule == ROUTER_INPUT;
    int64_t want = is_sigmoid ? GATING_SIGMOID : GATING_SOFTMAX;
    int64_t found = mica_meta_size(r, "expert_gating_func", want, 0, 16);
    bool chosen = rule == ROUTER_SOFTMAX_CHOSEN && found == GATING_SOFTMAX_CHOSEN;
    if (found && found != want && !chosen)
        mica_meta_fail(r, MICA_E_UNSUPPORTED, "expert_gating_func",
                       is_sigmoid ? "is not sigmoid" : "is not softmax");
}

static void read_groups(gguf_reader *r, moe_config *moe) {
    const moe_rule *rule = r->arch->moe;
    int64_t n = mica_meta_size(r, "expert_group_count", 1, 0, moe->n_experts);
    int64_t n_used = mica_meta_size(r, "expert_group_used_count", n, 0, n < 1 ? 1 : n);
    if (r->st || n <= 1) return;
    if (!rule->has_groups) {
        mica_meta_fail(r, MICA_E_UNSUPPORTED, "expert_group_count", "is not 1");
        return;
    }
    int64_t size = moe->n_experts / n;
    if (moe->n_experts % n || n_used < 1 || size < rule->group_best ||
        moe->n_experts_used > n_used * size)
        mica_meta_fail(r, MICA_E_FORMAT, "expert_group_count",
                       "does not fit the number of experts");
    moe->n_groups = n;
    moe->n_groups_used = n_used;
}

static void read_weights(gguf_reader *r, moe_config *moe) {
    const moe_rule *rule = r->arch->moe;
    bool normalize = mica_meta_flag(r, "expert_weights_norm", rule->gguf_normalizes);
    moe->normalize =
        rule->normalize == NORMALIZE_ALWAYS || (rule->normalize == NORMALIZE_KEY && normalize);
    double factor = mica_meta_number(r, "expert_weights_scale", 1.0);
    moe->factor = factor == 0.0 ? 1.0f : (float)factor; /* converters write 0 for none */
    if (moe->factor != 1.0f && !rule->has_factor)
        mica_meta_fail(r, MICA_E_UNSUPPORTED, "expert_weights_scale", "is not 1");
    moe->sum_least = (float)rule->least;
    moe->sum_extra = (float)rule->extra;
    if (rule->scores == ROUTER_SPARSEMIXER) moe->jitter = 0.01f; /* no key holds it, nor these */
    moe->act_alpha = 1.702f;
    moe->act_limit = 7.0f;
}

/* A layer's router says that it has experts, and what every row takes how wide that is. */
static void read_layers(gguf_reader *r, model_config *c) {
    moe_config *moe = &c->moe;
    bool all = r->arch->moe->sparse == SPARSE_ALL;
    if (r->arch->moe->shared_key)
        moe->shared_size =
            mica_meta_size(r, "expert_shared_feed_forward_length", 0, 0, CONFIG_MAX_WIDTH);
    for (int64_t i = 0; i < c->n_layers && i < MODEL_MAX_LAYERS; i++) {
        char name[48];
        snprintf(name, sizeof(name), "blk.%lld.ffn_gate_inp.weight", (long long)i);
        moe->is_sparse[i] = all || mica_gguf_find_tensor(r->file, name);
        snprintf(name, sizeof(name), "blk.%lld.ffn_up_shexp.weight", (long long)i);
        const file_tensor *t = mica_gguf_find_tensor(r->file, name);
        if (t && t->n_dims == 2 && t->dim[0] <= (uint64_t)CONFIG_MAX_WIDTH)
            moe->shared_size = (int64_t)t->dim[0];
    }
    if (all && mica_meta_size(r, "leading_dense_block_count", 0, 0, CONFIG_MAX_COUNT) > 0)
        mica_meta_fail(r, MICA_E_UNSUPPORTED, "leading_dense_block_count", "is not 0");
}

void mica_meta_read_moe(gguf_reader *r, model_config *c) {
    const moe_rule *rule = r->arch->moe;
    moe_config *moe = &c->moe;
    int64_t n = mica_meta_size(r, "expert_count", 0, 0, CONFIG_MAX_COUNT);
    if (!rule) {
        if (n > 0)
            mica_meta_fail(r, MICA_E_UNSUPPORTED, "expert_count",
                           "is not 0: experts are not supported for this architecture");
        return;
    }
    if (n < 2 && (rule->flag || rule->may_lack || rule->sparse == SPARSE_LISTED)) return;
    if (n < 2) mica_meta_fail(r, MICA_E_FORMAT, "expert_count", "must be at least 2");
    if (r->st) return;
    moe->n_experts = n;
    moe->n_experts_used = mica_meta_size(r, "expert_used_count", -1, 1, n);
    if (rule->only_used && moe->n_experts_used != rule->only_used)
        mica_meta_fail(r, MICA_E_UNSUPPORTED, "expert_used_count",
                       "is not the only number of experts that this architecture has");
    moe->intermediate_size =
        mica_meta_size(r, "expert_feed_forward_length", c->intermediate_size, 1, CONFIG_MAX_WIDTH);
    read_weights(r, moe);
    check_gating(r);
    read_groups(r, moe);
    if (rule->has_latent)
        moe->latent_size = mica_meta_size(r, "moe_latent_size", 0, 0, CONFIG_MAX_WIDTH);
    read_layers(r, c);
}

/* New files have the widths of whole heads under keys of their own, because key_length is that of
 * the latent; old ones have none of them. */
void mica_meta_read_mla(gguf_reader *r, model_config *c) {
    mla_config *m = &c->mla;
    if (!r->arch->has_mla) return;
    m->kv_rank = mica_meta_size(r, "attention.kv_lora_rank", -1, 1, CONFIG_MAX_WIDTH);
    m->q_rank = mica_meta_size(r, "attention.q_lora_rank", 0, 0, CONFIG_MAX_WIDTH);
    m->rope_dim = mica_meta_size(r, "rope.dimension_count", -1, 2, CONFIG_MAX_WIDTH);
    bool is_new = mica_meta_find(r, "attention.key_length_mla") != NULL;
    const char *key = is_new ? "attention.key_length_mla" : "attention.key_length";
    int64_t whole = mica_meta_size(r, key, -1, 1, CONFIG_MAX_WIDTH);
    m->v_dim = mica_meta_size(r, is_new ? "attention.value_length_mla" : "attention.value_length",
                              -1, 1, CONFIG_MAX_WIDTH);
    m->nope_dim = whole - m->rope_dim;
    if (m->nope_dim < 1) mica_meta_fail(r, MICA_E_FORMAT, key, "is not above rope.dimension_count");
    c->head_dim = m->rope_dim; /* what is rotated */
    c->n_kv_heads = 1;
}
