/* mla_take.c: the keys and tensors of latent attention.
 */
#include "model/config.h"
#include "model/taker.h"

#include <math.h>
#include <stdio.h>

void mica_config_read_mla(config_reader *r, model_config *c) {
    const json_value *t = r->text;
    mla_config *m = &c->mla;
    if (r->st || !r->arch->has_mla) return;
    m->kv_rank = mica_config_integer(r, t, "kv_lora_rank", 512, 1, CONFIG_MAX_WIDTH);
    /* null: q_proj stands alone */
    m->q_rank = mica_config_integer(r, t, "q_lora_rank", 0, 0, CONFIG_MAX_WIDTH);
    m->rope_dim = mica_config_integer(r, t, "qk_rope_head_dim", 64, 2, CONFIG_MAX_WIDTH);
    m->nope_dim = mica_config_integer(r, t, "qk_nope_head_dim", 128, 1, CONFIG_MAX_WIDTH);
    m->v_dim = mica_config_integer(r, t, "v_head_dim", 128, 1, CONFIG_MAX_WIDTH);
    c->rope_traditional = mica_config_flag(r, t, "rope_interleave", true);
    c->head_dim = m->rope_dim; /* what is rotated */
    c->n_kv_heads = 1;
    int64_t widest = m->nope_dim + m->rope_dim + m->v_dim + m->kv_rank;
    if (!r->st && c->n_heads > CONFIG_MAX_WIDTH / widest)
        r->st = mica_fail(r->err, MICA_E_FORMAT,
                          "%s: config.json: %lld heads of %lld channels are "
                          "too many",
                          r->where, (long long)c->n_heads, (long long)widest);
}

float mica_mla_scale(const model_config *c) {
    const rope_config *rope = &c->rope[0];
    double scale = 1.0 / sqrt((double)(c->mla.nope_dim + c->mla.rope_dim));
    if (rope->mscale_all_dim != 0.0 && rope->factor > 1.0) {
        double m = 0.1 * rope->mscale_all_dim * log(rope->factor) + 1.0;
        scale *= m * m;
    }
    return (float)scale;
}

/* What brings a head's query into the latent's space, and its output out of it. New GGUF files and
 * MLX's folders have a stack for each; elsewhere they are the halves of kv_b_proj, of which that of
 * the keys is turned round. */
static void take_kv_b(model_taker *t, mla_layer *l) {
    const model_config *c = &t->m->config;
    const mla_config *m = &c->mla;
    weight_store *store = t->m->store;
    const weight_matrix *both;
    int64_t n_all = m->nope_dim + m->v_dim;
    char whole[128], k[128], v[128];
    if (t->st) return;
    snprintf(whole, sizeof(whole), "%sself_attn.kv_b_proj", t->scope);
    snprintf(k, sizeof(k), "%sself_attn.k_b_proj", t->scope);
    snprintf(v, sizeof(v), "%sself_attn.v_b_proj", t->scope);
    if (mica_weights_rows(store, k) >= 0) {
        t->st = mica_weights_matrix(store, k, c->n_heads, m->kv_rank, m->nope_dim, &l->k_b, t->err);
        if (!t->st)
            t->st =
                mica_weights_matrix(store, v, c->n_heads, m->v_dim, m->kv_rank, &l->v_b, t->err);
        return;
    }
    weight_matrix *parts = mica_arena_calloc(&t->m->arena, (size_t)c->n_heads, sizeof(*parts));
    if (!parts) {
        mica_taker_no_memory(t);
        return;
    }
    /* first what reads the matrix: it decides how the matrix lies, and so where its parts are */
    t->st = mica_weights_turned_heads(store, whole, k, c->n_heads, n_all, m->nope_dim, m->kv_rank,
                                      &l->k_b, t->err);
    if (!t->st)
        t->st = mica_weights_matrix(store, whole, 0, c->n_heads * n_all, m->kv_rank, &both, t->err);
    for (int64_t h = 0; !t->st && h < c->n_heads; h++)
        parts[h] = mica_weight_slice(both, h * n_all + m->nope_dim, m->v_dim);
    if (!t->st) t->st = mica_weights_join(store, v, parts, c->n_heads, &l->v_b, t->err);
}

const mla_layer *mica_taker_mla(model_taker *t) {
    const model_config *c = &t->m->config;
    const mla_config *m = &c->mla;
    bias_rule bias = t->m->facts.arch->o_bias;
    int64_t hidden = c->hidden_size, n_q = c->n_heads * (m->nope_dim + m->rope_dim);
    mla_layer *l = mica_arena_calloc(&t->m->arena, 1, sizeof(*l));
    if (!l) {
        mica_taker_no_memory(t);
        return NULL;
    }
    if (m->q_rank) {
        l->q_a = mica_taker_linear(t, "self_attn.q_a_proj", m->q_rank, hidden, bias);
        l->q_a_norm = mica_taker_norm(t, "self_attn.q_a_layernorm", m->q_rank);
        l->q = mica_taker_linear(t, "self_attn.q_b_proj", n_q, m->q_rank, BIAS_RULE_NEVER);
    } else {
        l->q = mica_taker_linear(t, "self_attn.q_proj", n_q, hidden, BIAS_RULE_NEVER);
    }
    l->kv_a = mica_taker_linear(t, "self_attn.kv_a_proj_with_mqa", m->kv_rank + m->rope_dim, hidden,
                                bias);
    l->kv_a_norm = mica_taker_norm(t, "self_attn.kv_a_layernorm", m->kv_rank);
    take_kv_b(t, l);
    l->o = mica_taker_linear(t, "self_attn.o_proj", hidden, c->n_heads * m->v_dim, bias);
    return l;
}
