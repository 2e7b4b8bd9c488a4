/* gemma_take.c: the tensors of Gemma 3n, 4 and DiffusionGemma beside those of a dense layer.
 *
 * Layers that read other layers' keys and values need no projections of their own; files may hold
 * them all the same, unused. Which parts a Gemma 4 has is told by its tensors.
 */
#include "model/taker.h"

#include <stdio.h>
#include <string.h>

static bool has(const model_taker *t, const char *name) {
    char full[160];
    snprintf(full, sizeof(full), "%s%s", t->scope, name);
    return mica_weights_has(t->m->store, full);
}

static const weight_vector *vector(model_taker *t, const char *name, int64_t n) {
    const weight_vector *v = NULL;
    char full[160];
    snprintf(full, sizeof(full), "%s%s", t->scope, name);
    if (!t->st) t->st = mica_weights_vector(t->m->store, full, n, &v, t->err);
    return t->st ? NULL : v;
}

/* A dense matrix over memory that the model or its store owns. */
static const weight_matrix *matrix_over(model_taker *t, const char *name, mica_dtype dtype,
                                        int64_t n_out, const void *data) {
    weight_matrix *m = mica_arena_calloc(&t->m->arena, 1, sizeof(*m));
    if (!m) {
        mica_taker_no_memory(t);
        return NULL;
    }
    *m = (weight_matrix){.name = name,
                         .form = {.kind = WEIGHT_DENSE, .dtype = dtype},
                         .n_experts = 1,
                         .n_out = n_out,
                         .n_in = 1,
                         .row_bytes = mica_dtype_bytes(dtype),
                         .codes = data};
    return m;
}

/* ---- layers ---- */

static void drop(model_taker *t, const char *name) {
    char prefix[160];
    snprintf(prefix, sizeof(prefix), "%s%s.", t->scope, name);
    mica_weights_drop(t->m->store, prefix);
}

static void take_attention(model_taker *t, int64_t index, dense_layer *l) {
    const model_config *c = &t->m->config;
    const arch *a = t->m->facts.arch;
    const layer_shape *s = &c->gemma.layers[index];
    int64_t n_q = c->n_heads * s->head_dim, n_kv = (int64_t)s->n_kv_heads * s->head_dim;
    l->q = mica_taker_linear(t, "self_attn.q_proj", n_q, c->hidden_size, a->qkv_bias);
    l->o = mica_taker_linear(t, "self_attn.o_proj", c->hidden_size, n_q, a->o_bias);
    l->q_norm = mica_taker_norm(t, "self_attn.q_norm", s->head_dim);
    if (s->kv_layer != index) {
        drop(t, "self_attn.k_proj");
        drop(t, "self_attn.v_proj");
        drop(t, "self_attn.k_norm");
        return;
    }
    l->k = mica_taker_linear(t, "self_attn.k_proj", n_kv, c->hidden_size, a->qkv_bias);
    if (!s->shares_v)
        l->v = mica_taker_linear(t, "self_attn.v_proj", n_kv, c->hidden_size, a->qkv_bias);
    l->k_norm = mica_taker_norm(t, "self_attn.k_norm", s->head_dim);
}

static void take_mlp(model_taker *t, int64_t index, dense_layer *l) {
    int64_t hidden = t->m->config.hidden_size;
    int64_t wide = t->m->config.gemma.layers[index].intermediate_size;
    l->gate = mica_taker_linear(t, "mlp.gate_proj", wide, hidden, BIAS_RULE_NEVER);
    l->up = mica_taker_linear(t, "mlp.up_proj", wide, hidden, BIAS_RULE_NEVER);
    l->down = mica_taker_linear(t, "mlp.down_proj", hidden, wide, BIAS_RULE_NEVER);
}

static void take_experts(model_taker *t, dense_layer *l, gemma_layer *own) {
    int64_t hidden = t->m->config.hidden_size, n = t->m->config.moe.n_experts;
    own->post_mlp_norm = mica_taker_norm(t, "post_feedforward_layernorm_1", hidden);
    own->pre_experts_norm = mica_taker_norm(t, "pre_feedforward_layernorm_2", hidden);
    own->post_experts_norm = mica_taker_norm(t, "post_feedforward_layernorm_2", hidden);
    const moe_layer *taken = mica_taker_moe(t);
    moe_layer *experts = mica_arena_alloc(&t->m->arena, sizeof(*experts));
    if (!experts) mica_taker_no_memory(t);
    if (t->st) return;
    *experts = *taken;
    experts->router_scale = vector(t, "router.scale", hidden);
    const weight_vector *scales = vector(t, "router.per_expert_scale", n);
    if (scales)
        experts->expert_scale = matrix_over(t, scales->name, scales->dtype, n, scales->data);
    l->moe = experts;
}

static void take_input(model_taker *t, gemma_layer *own) {
    int64_t hidden = t->m->config.hidden_size, n = t->m->config.gemma.per_layer_size;
    own->input_gate = mica_taker_linear(t, "per_layer_input_gate", n, hidden, BIAS_RULE_NEVER);
    own->input_projection =
        mica_taker_linear(t, "per_layer_projection", hidden, n, BIAS_RULE_NEVER);
    own->input_norm = mica_taker_norm(t, "post_per_layer_input_norm", hidden);
}

static void take_streams(model_taker *t, gemma_layer *own) {
    const model_config *c = &t->m->config;
    int64_t hidden = c->hidden_size, n = c->gemma.n_streams, rank = c->gemma.laurel_rank;
    own->laurel_left = mica_taker_linear(t, "laurel.linear_left", rank, hidden, BIAS_RULE_NEVER);
    own->laurel_right = mica_taker_linear(t, "laurel.linear_right", hidden, rank, BIAS_RULE_NEVER);
    own->laurel_norm = mica_taker_norm(t, "laurel.post_laurel_norm", hidden);
    own->router = mica_taker_linear(t, "altup.modality_router", n, hidden, BIAS_RULE_NEVER);
    own->router_norm = mica_taker_norm(t, "altup.router_norm", hidden);
    own->predict = mica_taker_linear(t, "altup.prediction_coefs", n * n, n, BIAS_RULE_NEVER);
    own->correct = mica_taker_linear(t, "altup.correction_coefs", n, n, BIAS_RULE_NEVER);
    const weight_vector *scale = NULL;
    if (c->gemma.scales_corrected || has(t, "altup.correct_output_scale"))
        scale = vector(t, "altup.correct_output_scale", hidden);
    if (c->gemma.scales_corrected) own->corrected_scale = scale;
}

/* One for each use of the layer. */
static void take_scalars(model_taker *t, int64_t index, gemma_layer *own) {
    const weight_vector *decoder = vector(t, "layer_scalar", 1), *encoder = NULL;
    char name[96];
    snprintf(name, sizeof(name), "model.encoder.language_model.layers.%lld.layer_scalar",
             (long long)index);
    if (!t->st) t->st = mica_weights_vector(t->m->store, name, 1, &encoder, t->err);
    if (t->st) return;
    own->scalar = mica_load_f(decoder->data, decoder->dtype, 0);
    own->encoder_scalar = mica_load_f(encoder->data, encoder->dtype, 0);
}

void mica_taker_gemma_layer(model_taker *t, int64_t index, dense_layer *l) {
    const model_config *c = &t->m->config;
    int64_t hidden = c->hidden_size;
    gemma_layer *own = mica_arena_calloc(&t->m->arena, 1, sizeof(*own));
    if (!own) {
        mica_taker_no_memory(t);
        return;
    }
    l->gemma = own;
    l->input_norm = mica_taker_norm(t, "input_layernorm", hidden);
    l->post_attention_norm = mica_taker_norm(t, "post_attention_layernorm", hidden);
    l->pre_mlp_norm = mica_taker_norm(t, "pre_feedforward_layernorm", hidden);
    l->post_mlp_norm = mica_taker_norm(t, "post_feedforward_layernorm", hidden);
    take_attention(t, index, l);
    take_mlp(t, index, l);
    if (c->moe.n_experts) take_experts(t, l, own);
    if (c->gemma.per_layer_size) take_input(t, own);
    if (c->gemma.n_streams) take_streams(t, own);
    if (t->m->facts.arch->gemma == GEMMA_DIFFUSION) {
        take_scalars(t, index, own);
    } else if (has(t, "layer_scalar")) {
        const weight_vector *v = vector(t, "layer_scalar", 1);
        if (v) own->scalar = mica_load_f(v->data, v->dtype, 0);
    }
}

/* ---- beside layers ---- */

/* Ids past the table's end read its row 0: a 1 for each of them, and that row. */
static void take_past_end(model_taker *t, gemma_weights *w) {
    size_t n = (size_t)w->per_layer->n_in, n_vocab = (size_t)t->m->config.vocab_size;
    size_t n_rows = (size_t)w->per_layer->n_out;
    bool has_dtype = false;
    mica_dtype dtype = mica_weight_dtype(w->per_layer, &has_dtype);
    if (!has_dtype) dtype = MICA_F32;
    void *past = mica_arena_calloc(&t->m->arena, n_vocab, mica_dtype_bytes(dtype));
    void *row = mica_arena_calloc(&t->m->arena, n, mica_dtype_bytes(dtype));
    float *wide = mica_arena_calloc(&t->m->arena, n, sizeof(*wide));
    if (!past || !row || !wide) {
        mica_taker_no_memory(t);
        return;
    }
    t->st = mica_weights_ready(t->m->store, w->per_layer, t->err);
    if (t->st) return;
    mica_weight_row(w->per_layer, 0, wide);
    for (size_t i = 0; i < n; i++)
        mica_store_f(row, dtype, i, wide[i]);
    for (size_t i = n_rows; i < n_vocab; i++)
        mica_store_f(past, dtype, i, 1.0f);
    w->past_end = matrix_over(t, "per_layer_past_end", dtype, (int64_t)n_vocab, past);
    w->first_row = matrix_over(t, "per_layer_first_row", dtype, (int64_t)n, row);
}

static void take_stack(model_taker *t, const char *name, int64_t n, linear *out) {
    int64_t hidden = t->m->config.hidden_size;
    const weight_matrix *all = NULL;
    char path[96];
    snprintf(path, sizeof(path), "model.%s", name);
    if (!t->st) t->st = mica_weights_flat_stack(t->m->store, path, n, hidden, hidden, &all, t->err);
    for (int64_t i = 0; i < n && !t->st; i++)
        t->st = mica_weights_rows_of(t->m->store, all, all->name, i * hidden, hidden,
                                     &out[i].weight, t->err);
}

static linear *take_list(model_taker *t, const char *name, int64_t n) {
    int64_t hidden = t->m->config.hidden_size;
    linear *list = mica_arena_calloc(&t->m->arena, (size_t)n + 1, sizeof(*list));
    if (!list) mica_taker_no_memory(t);
    if (t->m->facts.is_gguf) { /* one stack */
        take_stack(t, name, n, list);
        return list;
    }
    for (int64_t i = 0; i < n && !t->st; i++) {
        char path[96];
        snprintf(path, sizeof(path), "model.%s.%lld", name, (long long)i);
        list[i] = mica_taker_linear(t, path, hidden, hidden, BIAS_RULE_NEVER);
    }
    return list;
}

/* What else the encoder has in a file are copies of the weights that it shares. */
static void take_signal(model_taker *t, gemma_weights *w) {
    int64_t hidden = t->m->config.hidden_size, wide = t->m->config.intermediate_size;
    snprintf(t->scope, sizeof(t->scope), "model.self_conditioning.");
    w->signal_norm = mica_taker_norm(t, "pre_norm", hidden);
    w->signal_gate = mica_taker_linear(t, "gate_proj", wide, hidden, BIAS_RULE_NEVER);
    w->signal_up = mica_taker_linear(t, "up_proj", wide, hidden, BIAS_RULE_NEVER);
    w->signal_down = mica_taker_linear(t, "down_proj", hidden, wide, BIAS_RULE_NEVER);
    t->scope[0] = '\0';
    mica_weights_drop(t->m->store, "model.encoder.language_model.");
}

const gemma_weights *mica_taker_gemma(model_taker *t) {
    const model_config *c = &t->m->config;
    int64_t n = c->n_layers * c->gemma.per_layer_size;
    gemma_weights *w = mica_arena_calloc(&t->m->arena, 1, sizeof(*w));
    if (!w) {
        mica_taker_no_memory(t);
        return NULL;
    }
    if (c->gemma.n_streams) {
        w->widen = take_list(t, "altup_projections", c->gemma.n_streams - 1);
        w->narrow = take_list(t, "altup_unembed_projections", c->gemma.n_streams - 1);
    }
    if (t->m->facts.arch->gemma == GEMMA_DIFFUSION) take_signal(t, w);
    if (!n) return w;
    w->per_layer = mica_taker_linear(t, "model.embed_tokens_per_layer", c->gemma.per_layer_vocab, n,
                                     BIAS_RULE_NEVER)
                       .weight;
    w->model_projection = mica_taker_linear(t, "model.per_layer_model_projection", n,
                                            c->hidden_size, BIAS_RULE_NEVER);
    w->projection_norm =
        mica_taker_norm(t, "model.per_layer_projection_norm", c->gemma.per_layer_size);
    if (!t->st && c->gemma.per_layer_vocab < c->vocab_size) take_past_end(t, w);
    return w;
}
