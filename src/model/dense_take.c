/* dense_take.c: the tensors of a dense model, by their canonical names.
 *
 * Everything is taken when the model is loaded, so that a missing tensor or a wrong shape is an
 * error of loading and the audit that follows knows what nothing uses.
 */
#include "model/taker.h"

#include <math.h>
#include <stdio.h>

void mica_taker_no_memory(model_taker *t) {
    t->st = mica_fail(t->err, MICA_E_NOMEM, "%s: out of memory", t->m->path);
}

const weight_vector *mica_taker_vector(model_taker *t, const char *name, const char *suffix,
                                       int64_t n) {
    const weight_vector *v = NULL;
    char full[256];
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

static bool has_bias(const model_taker *t, const char *name, bias_rule rule) {
    char full[128];
    if (rule == BIAS_RULE_NEVER || rule == BIAS_RULE_ALWAYS) return rule == BIAS_RULE_ALWAYS;
    if (rule != BIAS_RULE_TENSOR && !t->m->facts.is_gguf) return t->m->facts.bias[rule];
    snprintf(full, sizeof(full), "%s%s.bias", t->scope, name);
    return mica_weights_has(t->m->store, full);
}

norm_weight mica_taker_norm(model_taker *t, const char *name, int64_t n) {
    const arch *a = t->m->facts.arch;
    norm_weight norm = {0};
    if (a->norm == NORM_LAYER_PLAIN) return norm;
    const weight_vector *v = mica_taker_vector(t, name, "weight", n);
    norm.own = norm.wide = v;
    if (v && has_bias(t, name, a->norm_bias)) norm.bias = mica_taker_vector(t, name, "bias", n);
    bool plus_1 = a->norm == NORM_RMS_PLUS_1 || a->norm == NORM_LAYER_PLUS_1 || t->is_raw;
    if (!v || !plus_1 || t->m->facts.is_gguf) return norm;
    norm.own = add_one(t, v, v->dtype);
    norm.wide = v->dtype == MICA_F32 || t->st ? norm.own : add_one(t, v, MICA_F32);
    return norm;
}

linear mica_taker_linear(model_taker *t, const char *name, int64_t n_out, int64_t n_in,
                         bias_rule rule) {
    linear l = {0};
    char path[128];
    snprintf(path, sizeof(path), "%s%s", t->scope, name);
    if (!t->st) t->st = mica_weights_matrix(t->m->store, path, 0, n_out, n_in, &l.weight, t->err);
    if (!t->st && has_bias(t, name, rule)) l.bias = mica_taker_vector(t, name, "bias", n_out);
    return l;
}

/* Elements [first, first + n) of a vector, over its memory. */
static const weight_vector *part_of(model_taker *t, const weight_vector *all, int64_t first,
                                    int64_t n) {
    if (!all || t->st) return NULL;
    weight_vector *v = mica_arena_alloc(&t->m->arena, sizeof(*v));
    if (!v) {
        mica_taker_no_memory(t);
        return NULL;
    }
    *v = *all;
    v->n = n;
    v->data = (const char *)all->data + (size_t)first * mica_dtype_bytes(all->dtype);
    return v;
}

/* Consecutive rows of the fused matrix `path` as modules of their own, bias included. */
static void take_parts(model_taker *t, const char *path, int64_t n_in, bias_rule rule,
                       const char *const *names, const int64_t *rows, int n, linear **out) {
    int64_t all = 0, first = 0;
    const weight_vector *bias = NULL;
    char from[128], to[128];
    for (int i = 0; i < n; i++)
        all += rows[i];
    if (!t->st && has_bias(t, path, rule)) bias = mica_taker_vector(t, path, "bias", all);
    snprintf(from, sizeof(from), "%s%s", t->scope, path);
    for (int i = 0; i < n && !t->st; i++) {
        snprintf(to, sizeof(to), "%s%s", t->scope, names[i]);
        t->st = mica_weights_matrix_rows(t->m->store, from, to, all, first, rows[i], n_in,
                                         &out[i]->weight, t->err);
        out[i]->bias = part_of(t, bias, first, rows[i]);
        first += rows[i];
    }
}

static linear take_transposed(model_taker *t, const char *name, int64_t n_out, int64_t n_in,
                              bias_rule rule) {
    linear l = {0};
    char path[128];
    snprintf(path, sizeof(path), "%s%s", t->scope, name);
    if (!t->st) t->st = mica_weights_transposed(t->m->store, path, n_out, n_in, &l.weight, t->err);
    if (!t->st && has_bias(t, name, rule)) l.bias = mica_taker_vector(t, name, "bias", n_out);
    return l;
}

/* A family that stores linear weights [in, out] is told from a converted file by the shape of
 * qkv_proj, the only one that is never square. */
static bool is_turned(const model_taker *t, int64_t n_qkv) {
    char path[128];
    snprintf(path, sizeof(path), "%sself_attn.qkv_proj", t->scope);
    return t->m->facts.arch->is_conv1d && mica_weights_rows(t->m->store, path) != n_qkv;
}

static void take_conv1d(model_taker *t, dense_layer *l, int64_t n_q, int64_t n_kv) {
    const arch *a = t->m->facts.arch;
    int64_t hidden = t->m->config.hidden_size, wide = t->m->config.intermediate_size;
    int64_t rows[3] = {n_q, n_kv, n_kv}, first = 0;
    linear *out[3] = {&l->q, &l->k, &l->v};
    static const char *const names[] = {"q_proj", "k_proj", "v_proj"};
    linear all = take_transposed(t, "self_attn.qkv_proj", n_q + 2 * n_kv, hidden, a->qkv_bias);
    for (int i = 0; i < 3 && !t->st; i++) {
        char name[128];
        snprintf(name, sizeof(name), "%sself_attn.%s", t->scope, names[i]);
        t->st = mica_weights_rows_of(t->m->store, all.weight, name, first, rows[i], &out[i]->weight,
                                     t->err);
        out[i]->bias = part_of(t, all.bias, first, rows[i]);
        first += rows[i];
    }
    l->o = take_transposed(t, "self_attn.o_proj", hidden, n_q, a->o_bias);
    l->up = take_transposed(t, "mlp.up_proj", wide, hidden, a->mlp_bias);
    l->down = take_transposed(t, "mlp.down_proj", hidden, wide, a->mlp_bias);
}

static void take_attention(model_taker *t, dense_layer *l, int64_t n_q, int64_t n_kv) {
    static const char *const names[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"};
    const arch *a = t->m->facts.arch;
    const int64_t rows[] = {t->m->config.gates_attention ? 2 * n_q : n_q, n_kv, n_kv};
    linear *out[] = {&l->q, &l->k, &l->v};
    int64_t hidden = t->m->config.hidden_size;
    char full[128];
    snprintf(full, sizeof(full), "%sself_attn.qkv_proj.weight", t->scope);
    qkv_layout layout = a->qkv;
    if (t->m->facts.is_gguf || layout == QKV_EITHER)
        layout = mica_weights_has(t->m->store, full) ? QKV_ROWS : QKV_SPLIT;
    if (layout == QKV_GROUPS)
        l->qkv = mica_taker_linear(t, "self_attn.qkv_proj", n_q + 2 * n_kv, hidden, a->qkv_bias);
    else if (layout == QKV_ROWS)
        take_parts(t, "self_attn.qkv_proj", hidden, a->qkv_bias, names, rows, 3, out);
    else
        for (int i = 0; i < 3; i++)
            *out[i] = mica_taker_linear(t, names[i], rows[i], hidden, a->qkv_bias);
    l->o = mica_taker_linear(t, "self_attn.o_proj", hidden, n_q, a->o_bias);
}

static void take_mlp(model_taker *t, dense_layer *l) {
    static const char *const names[] = {"mlp.gate_proj", "mlp.up_proj"};
    const arch *a = t->m->facts.arch;
    int64_t hidden = t->m->config.hidden_size, wide = t->m->config.intermediate_size;
    const int64_t rows[] = {wide, wide};
    linear *out[] = {&l->gate, &l->up};
    if (a->has_gate_up) take_parts(t, "mlp.gate_up_proj", hidden, a->mlp_bias, names, rows, 2, out);
    for (int i = a->is_plain_mlp; i < 2 && !a->has_gate_up; i++)
        *out[i] = mica_taker_linear(t, names[i], wide, hidden, a->mlp_bias);
    l->down = mica_taker_linear(t, "mlp.down_proj", hidden, wide, a->mlp_bias);
}

/* One tensor a head, joined: [n_heads * head_dim]. */
static norm_weight take_norm_list(model_taker *t, const char *name, int64_t n_heads) {
    size_t d = (size_t)t->m->config.head_dim;
    norm_weight norm = {0};
    weight_vector *v = mica_arena_calloc(&t->m->arena, 1, sizeof(*v));
    uint8_t *data = mica_arena_calloc(&t->m->arena, (size_t)n_heads * d, sizeof(float));
    if (!v || !data) mica_taker_no_memory(t);
    for (int64_t h = 0; h < n_heads && !t->st; h++) {
        char part[64];
        snprintf(part, sizeof(part), "%s.norms.%lld", name, (long long)h);
        const weight_vector *one = mica_taker_vector(t, part, "weight", (int64_t)d);
        if (t->st) break;
        if (h == 0) *v = (weight_vector){one->name, one->dtype, n_heads * (int64_t)d, data};
        for (size_t i = 0; i < d; i++)
            mica_store_f(data, v->dtype, (size_t)h * d + i, mica_load_f(one->data, one->dtype, i));
    }
    norm.own = norm.wide = t->st ? NULL : v;
    return norm;
}

static norm_weight take_qk_norm(model_taker *t, const char *name, int64_t n_heads) {
    int64_t d = t->m->config.head_dim;
    char full[128];
    norm_weight joined = {0};
    switch (t->m->facts.qk_norm) {
    case QK_NORM_NONE:
    case QK_NORM_PLAIN:
        break;
    case QK_NORM_HEAD:
    case QK_NORM_LATE:
        return mica_taker_norm(t, name, d);
    case QK_NORM_FULL:
    case QK_NORM_HEADS:
        return mica_taker_norm(t, name, n_heads * d);
    case QK_NORM_LIST: /* GGUF files have one tensor */
        snprintf(full, sizeof(full), "%s%s.weight", t->scope, name);
        if (!mica_weights_has(t->m->store, full)) return take_norm_list(t, name, n_heads);
        joined.own = joined.wide = mica_taker_vector(t, name, "weight", n_heads * d);
        return joined;
    }
    return (norm_weight){0};
}

static double number_of(model_taker *t, const char *name, double fallback) {
    const weight_vector *v = NULL;
    char full[128];
    snprintf(full, sizeof(full), "%s%s", t->scope, name);
    if (t->st || !mica_weights_has(t->m->store, full)) return fallback;
    t->st = mica_weights_vector(t->m->store, full, 1, &v, t->err);
    return t->st ? 0.0 : (double)mica_load_f(v->data, v->dtype, 0);
}

/* alpha_p and alpha_n go through softplus; beta is the least slope. */
static void set_xielu(dense_layer *l, double p, double n, double beta, double eps) {
    l->beta = (float)beta;
    l->eps = (float)eps;
    l->alpha_p = (float)log1p(exp(p));
    l->alpha_n = (float)(beta + log1p(exp(n)));
}

static void take_xielu(model_taker *t, int64_t index, dense_layer *l) {
    const float *known = t->m->facts.xielu;
    if (known) {
        known += 4 * index;
        set_xielu(l, (double)known[0], (double)known[1], (double)known[2], (double)known[3]);
        return;
    }
    double beta = number_of(t, "mlp.act_fn.beta", 0.5), eps = number_of(t, "mlp.act_fn.eps", -1e-6);
    const weight_vector *p = NULL, *n = NULL;
    char full[128];
    snprintf(full, sizeof(full), "%smlp.act_fn.alpha_p", t->scope);
    if (!t->st) t->st = mica_weights_vector(t->m->store, full, 1, &p, t->err);
    snprintf(full, sizeof(full), "%smlp.act_fn.alpha_n", t->scope);
    if (!t->st) t->st = mica_weights_vector(t->m->store, full, 1, &n, t->err);
    if (t->st) return;
    set_xielu(l, (double)mica_load_f(p->data, p->dtype, 0),
              (double)mica_load_f(n->data, n->dtype, 0), beta, eps);
}

static void take_norms(model_taker *t, dense_layer *l, int64_t hidden) {
    switch (t->m->facts.block) {
    case BLOCK_PRE:
    case BLOCK_PARALLEL_2:
        l->input_norm = mica_taker_norm(t, "input_layernorm", hidden);
        l->pre_mlp_norm = mica_taker_norm(t, "post_attention_layernorm", hidden);
        break;
    case BLOCK_PARALLEL:
    case BLOCK_SINGLE:
        l->input_norm = mica_taker_norm(t, "input_layernorm", hidden);
        break;
    case BLOCK_SANDWICH:
    case BLOCK_POST:
    case BLOCK_POST_SUM:
        if (t->m->facts.block == BLOCK_SANDWICH) {
            l->input_norm = mica_taker_norm(t, "input_layernorm", hidden);
            l->pre_mlp_norm = mica_taker_norm(t, "pre_feedforward_layernorm", hidden);
        }
        l->post_attention_norm = mica_taker_norm(t, "post_attention_layernorm", hidden);
        l->post_mlp_norm = mica_taker_norm(t, "post_feedforward_layernorm", hidden);
        break;
    }
}

/* The half of a layer after attention. */
static void take_wide(model_taker *t, int64_t index, dense_layer *l) {
    const moe_config *moe = &t->m->config.moe;
    if ((moe->n_experts || moe->shared_size) && moe->is_sparse[index])
        l->moe = mica_taker_moe(t);
    else
        take_mlp(t, l);
}

static void take_layer(model_taker *t, int64_t index, dense_layer *l) {
    const model_config *c = &t->m->config;
    int64_t n_q = c->n_heads * c->head_dim, n_kv = c->n_kv_heads * c->head_dim;
    snprintf(t->scope, sizeof(t->scope), "model.layers.%lld.", (long long)index);
    if (t->m->facts.arch->gemma) {
        mica_taker_gemma_layer(t, index, l);
        return;
    }
    take_norms(t, l, c->hidden_size);
    mixer_kind mixer = c->mixer[index];
    bool attends = mica_config_attends(c, index), is_single = t->m->facts.block == BLOCK_SINGLE;
    if (mixer == MIXER_DELTA)
        l->delta = mica_taker_delta(t);
    else if (mixer != MIXER_ATTENTION && mixer != MIXER_NONE)
        l->ssm = mica_taker_ssm(t, mixer);
    bool is_turned_all = attends && is_turned(t, n_q + 2 * n_kv);
    if (!is_turned_all && (!is_single || mixer == MIXER_NONE)) take_wide(t, index, l);
    if (!attends) return;
    if (is_turned_all)
        take_conv1d(t, l, n_q, n_kv);
    else if (t->m->facts.arch->has_mla)
        l->mla = mica_taker_mla(t);
    else
        take_attention(t, l, n_q, n_kv);
    if (t->m->facts.arch->has_sinks)
        l->sinks = mica_taker_vector(t, "self_attn", "sinks", c->n_heads);
    l->q_norm = take_qk_norm(t, "self_attn.q_norm", c->n_heads);
    l->k_norm = take_qk_norm(t, "self_attn.k_norm", c->n_kv_heads);
    if (t->m->facts.act == ACT_XIELU) take_xielu(t, index, l);
}

/* The rows of position 0 and after. */
static void take_positions(model_taker *t) {
    const char *name = "model.embed_positions";
    const model_config *c = &t->m->config;
    if (t->st) return;
    t->st = mica_weights_matrix_rows(t->m->store, name, name, c->first_position + c->max_positions,
                                     c->first_position, c->max_positions, c->hidden_size,
                                     &t->m->weights.positions, t->err);
}

mica_status mica_dense_take(model *m, mica_error *err) {
    const model_config *c = &m->config;
    const arch *a = m->facts.arch;
    dense_weights *w = &m->weights;
    model_taker t = {.m = m, .err = err};
    t.is_raw = a->norm == NORM_RMS_RAW_PLUS_1 && mica_taker_is_raw(&t);
    w->layers = mica_arena_calloc(&m->arena, (size_t)c->n_layers, sizeof(*w->layers));
    if (!w->layers) {
        mica_taker_no_memory(&t);
        return t.st;
    }
    int64_t hidden = c->hidden_size;
    w->embed =
        mica_taker_linear(&t, "model.embed_tokens", c->vocab_size, hidden, BIAS_RULE_NEVER).weight;
    if (c->learned_positions) take_positions(&t);
    for (int64_t i = 0; !t.st && i < c->n_layers; i++)
        take_layer(&t, i, &w->layers[i]);
    for (int64_t i = 0; i < c->moe.n_draft_layers; i++) {
        char prefix[64];
        snprintf(prefix, sizeof(prefix), "model.layers.%lld.", (long long)(c->n_layers + i));
        mica_weights_drop(m->store, prefix);
        snprintf(prefix, sizeof(prefix), "blk.%lld.", (long long)(c->n_layers + i));
        mica_weights_drop(m->store, prefix);
    }
    t.scope[0] = '\0';
    if (a->gemma) w->gemma = mica_taker_gemma(&t);
    w->head = (linear){w->embed, NULL};
    if (c->is_encoder) {
        mica_taker_encoder(&t);
        return t.st;
    }
    w->final_norm = mica_taker_norm(&t, "model.norm", hidden);
    if (c->tied) {
        if (mica_weights_has(m->store, "lm_head.bias") && has_bias(&t, "lm_head", a->head_bias))
            w->head.bias = mica_taker_vector(&t, "lm_head", "bias", c->vocab_size);
        mica_weights_drop(m->store, "lm_head.");
    } else {
        w->head = mica_taker_linear(&t, "lm_head", c->vocab_size, hidden, a->head_bias);
    }
    return t.st;
}
