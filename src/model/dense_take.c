/* dense_take.c: the tensors of a dense model, by their canonical names.
 *
 * Everything is taken when the model is loaded, so that a missing tensor or a wrong shape is an
 * error of loading and the audit that follows knows what nothing uses.
 */
#include "model/taker.h"

#include <stdio.h>

void mica_taker_no_memory(model_taker *t) {
    t->st = mica_fail(t->err, MICA_E_NOMEM, "%s: out of memory", t->m->path);
}

const weight_vector *mica_taker_vector(model_taker *t, const char *name, const char *suffix,
                                       int64_t n) {
    const weight_vector *v = NULL;
    char full[128];
    snprintf(full, sizeof(full), "%s%s.%s", t->scope, name, suffix);
    if (!t->st) t->st = mica_weights_vector(t->m->store, full, n, &v, t->err);
    return t->st ? NULL : v;
}

/* `from` + 1, each sum rounded once to `dtype`, in the model's arena. */
static const weight_vector *add_one(model_taker *t, const weight_vector *from, mica_dtype dtype) {
    size_t n = (size_t)from->n;
    weight_vector *v = mica_arena_alloc(&t->m->arena, sizeof(*v));
    void *data = mica_arena_calloc(&t->m->arena, n, mica_dtype_bytes(dtype));
    if (!v || !data) {
        mica_taker_no_memory(t);
        return NULL;
    }
    for (size_t i = 0; i < n; i++)
        mica_store_f(data, dtype, i, 1.0f + mica_load_f(from->data, from->dtype, i));
    *v = (weight_vector){.name = from->name, .dtype = dtype, .n = from->n, .data = data};
    return v;
}

norm_weight mica_taker_norm(model_taker *t, const char *name, int64_t n) {
    const weight_vector *v = mica_taker_vector(t, name, "weight", n);
    norm_weight norm = {v, v};
    if (!v || t->m->facts.arch->norm != NORM_RMS_PLUS_1 || t->m->facts.is_gguf) return norm;
    norm.own = add_one(t, v, v->dtype);
    norm.wide = v->dtype == MICA_F32 || t->st ? norm.own : add_one(t, v, MICA_F32);
    return norm;
}

static bool wants_bias(const model_taker *t, const char *name, bias_rule rule) {
    char full[128];
    switch (rule) {
    case BIAS_RULE_NEVER:
        return false;
    case BIAS_RULE_ALWAYS:
        return true;
    case BIAS_RULE_ATTENTION_KEY:
        if (!t->m->facts.is_gguf) return t->m->facts.attention_bias;
        break;
    case BIAS_RULE_MLP_KEY:
        if (!t->m->facts.is_gguf) return t->m->facts.mlp_bias;
        break;
    }
    snprintf(full, sizeof(full), "%s%s.bias", t->scope, name);
    return mica_weights_has(t->m->store, full);
}

linear mica_taker_linear(model_taker *t, const char *name, int64_t n_out, int64_t n_in,
                         bias_rule rule) {
    linear l = {0};
    char path[128];
    snprintf(path, sizeof(path), "%s%s", t->scope, name);
    if (!t->st) t->st = mica_weights_matrix(t->m->store, path, 0, n_out, n_in, &l.weight, t->err);
    if (!t->st && wants_bias(t, name, rule)) l.bias = mica_taker_vector(t, name, "bias", n_out);
    return l;
}

static void take_layer(model_taker *t, int64_t index, dense_layer *l) {
    const model_config *c = &t->m->config;
    const arch *a = t->m->facts.arch;
    int64_t hidden = c->hidden_size, wide = c->intermediate_size;
    int64_t n_q = c->n_heads * c->head_dim, n_kv = c->n_kv_heads * c->head_dim;
    snprintf(t->scope, sizeof(t->scope), "model.layers.%lld.", (long long)index);
    l->input_norm = mica_taker_norm(t, "input_layernorm", hidden);
    if (a->block == BLOCK_SANDWICH) {
        l->post_attention_norm = mica_taker_norm(t, "post_attention_layernorm", hidden);
        l->pre_mlp_norm = mica_taker_norm(t, "pre_feedforward_layernorm", hidden);
        l->post_mlp_norm = mica_taker_norm(t, "post_feedforward_layernorm", hidden);
    } else {
        l->pre_mlp_norm = mica_taker_norm(t, "post_attention_layernorm", hidden);
    }
    l->q = mica_taker_linear(t, "self_attn.q_proj", n_q, hidden, a->qkv_bias);
    l->k = mica_taker_linear(t, "self_attn.k_proj", n_kv, hidden, a->qkv_bias);
    l->v = mica_taker_linear(t, "self_attn.v_proj", n_kv, hidden, a->qkv_bias);
    l->o = mica_taker_linear(t, "self_attn.o_proj", hidden, n_q, a->o_bias);
    if (a->qk_norm) {
        l->q_norm = mica_taker_norm(t, "self_attn.q_norm", c->head_dim);
        l->k_norm = mica_taker_norm(t, "self_attn.k_norm", c->head_dim);
    }
    if (c->moe.n_experts && c->moe.is_sparse[index]) {
        l->moe = mica_taker_moe(t);
        return;
    }
    l->gate = mica_taker_linear(t, "mlp.gate_proj", wide, hidden, a->mlp_bias);
    l->up = mica_taker_linear(t, "mlp.up_proj", wide, hidden, a->mlp_bias);
    l->down = mica_taker_linear(t, "mlp.down_proj", hidden, wide, a->mlp_bias);
}

mica_status mica_dense_take(model *m, mica_error *err) {
    const model_config *c = &m->config;
    dense_weights *w = &m->weights;
    model_taker t = {.m = m, .err = err};
    w->layers = mica_arena_calloc(&m->arena, (size_t)c->n_layers, sizeof(*w->layers));
    if (!w->layers) {
        mica_taker_no_memory(&t);
        return t.st;
    }
    w->embed =
        mica_taker_linear(&t, "model.embed_tokens", c->vocab_size, c->hidden_size, BIAS_RULE_NEVER)
            .weight;
    for (int64_t i = 0; !t.st && i < c->n_layers; i++)
        take_layer(&t, i, &w->layers[i]);
    t.scope[0] = '\0';
    w->final_norm = mica_taker_norm(&t, "model.norm", c->hidden_size);
    w->head = w->embed;
    if (c->tied)
        mica_weights_drop(m->store, "lm_head.");
    else
        w->head =
            mica_taker_linear(&t, "lm_head", c->vocab_size, c->hidden_size, BIAS_RULE_NEVER).weight;
    return t.st;
}
