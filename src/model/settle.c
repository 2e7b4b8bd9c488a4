/* settle.c: what the tensors know better than the configuration.
 *
 * Rows of the embedding are the vocabulary; rows of q_proj tell a stated head_dim from a stale one;
 * the presence of lm_head decides some tied heads. Every other disagreement is an error of the
 * tensor that shows it, found when the weights are taken.
 */
#include "model/config.h"

#include <math.h>
#include <stdio.h>

static mica_status settle_vocab(model_config *c, const config_facts *facts,
                                const weight_store *weights, char *warning, size_t n_warning,
                                mica_error *err) {
    int64_t rows = mica_weights_rows(weights, "model.embed_tokens");
    if (rows < 0)
        return mica_fail(err, MICA_E_NOT_FOUND,
                         "%s: model.embed_tokens: no .weight tensor (nor .scales) in checkpoint",
                         facts->where);
    if (rows < 1 || rows > CONFIG_MAX_COUNT)
        return mica_fail(err, MICA_E_FORMAT, "%s: model.embed_tokens has %lld rows", facts->where,
                         (long long)rows);
    if (rows != c->vocab_size && facts->has_vocab_size)
        snprintf(warning, n_warning,
                 "%s: vocab_size is %lld, but the embedding has %lld rows; using the embedding",
                 facts->where, (long long)c->vocab_size, (long long)rows);
    c->vocab_size = rows;
    return MICA_OK;
}

/* The module `name` of the first layer that attends. */
static void attention_path(const model_config *c, const char *name, char *out, size_t n) {
    int64_t layer = 0;
    while (layer + 1 < c->n_layers && !mica_config_attends(c, layer))
        layer++;
    snprintf(out, n, "model.layers.%lld.self_attn.%s", (long long)layer, name);
}

/* The stated head_dim if q_proj agrees with it, else hidden_size / n_heads if that does. */
static mica_status settle_head_dim(model_config *c, const config_facts *facts,
                                   const weight_store *weights, mica_error *err) {
    char q[64], norm[64];
    attention_path(c, "q_proj", q, sizeof(q));
    int64_t rows = mica_weights_rows(weights, q);
    int64_t even = c->hidden_size / c->n_heads, n_all = c->n_heads;
    if (c->gates_attention) n_all *= 2;
    if (rows < 0 && !facts->arch->is_conv1d) { /* fused: as many heads of k and of v besides */
        attention_path(c, "qkv_proj", q, sizeof(q));
        rows = mica_weights_rows(weights, q);
        n_all += 2 * c->n_kv_heads;
    }
    if (rows < 0) return MICA_OK; /* missing: an error when it is taken */
    if (!facts->head_dim && facts->qk_norm == QK_NORM_HEAD) {
        attention_path(c, "q_norm", norm, sizeof(norm));
        int64_t n = mica_weights_rows(weights, norm);
        if (n > 0) c->head_dim = n;
    }
    if (rows % n_all == 0 && rows / n_all == c->head_dim) return MICA_OK;
    if (rows == n_all * even) {
        c->head_dim = even;
        return MICA_OK;
    }
    return mica_fail(err, MICA_E_FORMAT,
                     "%s: %s.weight has %lld rows; expected %lld (%lld heads of %lld channels)",
                     facts->where, q, (long long)rows, (long long)(n_all * c->head_dim),
                     (long long)n_all, (long long)c->head_dim);
}

/* A head of its own counts, whatever the configuration says: Transformers does not tie what
 * differs. */
static void settle_stored_head(model_config *c, const config_facts *facts,
                               const weight_store *weights, char *warning, size_t n_warning) {
    if (mica_weights_same(weights, "lm_head.weight", "model.embed_tokens.weight") &&
        mica_weights_same(weights, "lm_head.scales", "model.embed_tokens.scales"))
        return;
    c->tied = false;
    if (n_warning && !*warning)
        snprintf(warning, n_warning,
                 "%s: the head is tied to the embedding, but the file's lm_head is another; using "
                 "lm_head",
                 facts->where);
}

static void settle_tied(model_config *c, const config_facts *facts, const weight_store *weights,
                        char *warning, size_t n_warning) {
    bool has_head = mica_weights_has(weights, "lm_head.weight");
    if (facts->is_gguf || facts->arch->tie == TIE_RULE_TENSOR)
        c->tied = !has_head;
    else if (facts->arch->tie == TIE_RULE_ALWAYS)
        c->tied = !(facts->has_tie && !facts->tie && has_head);
    else if (facts->arch->tie == TIE_RULE_NEVER)
        c->tied = facts->has_tie && facts->tie && !has_head;
    else
        c->tied = facts->tie;
    if (c->tied && has_head) settle_stored_head(c, facts, weights, warning, n_warning);
}

/* Rounded to what the table is stored in; without a float there, to bf16, as mlx-lm does. */
static float rounded_root(float root, const config_facts *facts, const weight_store *weights) {
    mica_dtype type = MICA_BF16;
    if (facts->is_gguf) return root;
    mica_weights_float_type(weights, "model.embed_tokens", &type);
    return mica_round_to(root, type);
}

static float embed_multiplier(const model_config *c, const config_facts *facts,
                              const weight_store *weights) {
    float root = (float)sqrt((double)c->hidden_size);
    if (facts->embed_multiplier != 0.0) return (float)facts->embed_multiplier;
    switch (facts->arch->embed) {
    case EMBED_PLAIN:
        return 0.0f;
    case EMBED_SQRT_HIDDEN:
        return root;
    case EMBED_SQRT_HIDDEN_STORED:
        return rounded_root(root, facts, weights);
    }
    return 0.0f;
}

/* GGUF files have no flag for norms of q and k: their tensors are the flag. */
static void settle_qk_norm(config_facts *facts, const weight_store *weights) {
    if (facts->is_gguf && facts->arch->qk_norm_key && facts->qk_norm != QK_NORM_PLAIN &&
        !mica_weights_has(weights, "model.layers.0.self_attn.q_norm.weight"))
        facts->qk_norm = QK_NORM_NONE;
}

/* GGUF files have no key for the number of token types. */
static void settle_token_types(model_config *c, const config_facts *facts,
                               const weight_store *weights) {
    int64_t rows = mica_weights_rows(weights, "model.embed_token_types");
    if (facts->is_gguf && c->is_encoder) c->n_token_types = rows > 0 ? rows : 0;
}

static void settle_mlp(model_config *c, const config_facts *facts, const weight_store *weights) {
    int64_t rows = mica_weights_rows(weights, "model.layers.0.mlp.gate_proj");
    if (facts->arch->adjusts_mlp && rows > 0) c->intermediate_size = rows;
}

mica_status mica_config_settle(model_config *c, config_facts *facts, const weight_store *weights,
                               char *warning, size_t n_warning, mica_error *err) {
    mica_status st;
    if (n_warning) warning[0] = '\0';
    if ((st = settle_vocab(c, facts, weights, warning, n_warning, err))) return st;
    settle_qk_norm(facts, weights);
    settle_token_types(c, facts, weights);
    settle_mlp(c, facts, weights);
    if (facts->arch->gemma)
        st = mica_gemma_settle(c, facts, weights, err);
    else if (!c->mla.kv_rank)
        st = settle_head_dim(c, facts, weights, err);
    if (st) return st;
    if ((st = mica_config_check(c, facts->where, err))) return st;
    settle_tied(c, facts, weights, warning, n_warning);
    if ((st = mica_config_settle_branches(c, facts, weights, err))) return st;
    double scalar = facts->query_scalar > 0.0 ? facts->query_scalar : (double)c->head_dim;
    c->attention_scale = (float)(1.0 / sqrt(scalar));
    if (facts->attention_multiplier != 0.0) c->attention_scale = (float)facts->attention_multiplier;
    if (c->mla.kv_rank) c->attention_scale = mica_mla_scale(c);
    c->embed_multiplier = embed_multiplier(c, facts, weights);
    return MICA_OK;
}
