/* dense.c: the graph of every dense family, from its row of the table.
 *
 * Nothing is computed here: nodes are appended in the order of docs/models.md 6, one rope table and
 * one set of cache inputs shared by all layers that agree on them. A builder that fails leaves its
 * error in the graph; the caller asks once, at the end.
 */
#include "model/builder.h"

static graph_id input(model_builder *b, const char *name, mica_dtype dtype, int n_dims,
                      const graph_dim *dims, int32_t *slot) {
    graph_id id = mica_graph_input(b->g, name, dtype, n_dims, dims);
    *slot = id == GRAPH_NONE ? -1 : b->g->nodes[id].attr.input.slot;
    return id;
}

static graph_id row_input(model_builder *b, const char *name, graph_sym sym, int32_t *slot) {
    graph_dim dim = mica_dim_sym(1, sym);
    return input(b, name, MICA_I32, 1, &dim, slot);
}

graph_id mica_builder_norm(model_builder *b, graph_id x, norm_weight w, const char *name) {
    graph_id weight = mica_graph_vector(b->g, b->wide_norms ? w.wide : w.own);
    float eps = b->c->rms_norm_eps;
    if (b->a->norm <= NORM_RMS_PLUS_1)
        return named(b, mica_graph_rms_norm(b->g, x, weight, eps), name);
    graph_id bias = mica_graph_vector(b->g, w.bias);
    return named(b, mica_graph_layer_norm(b->g, x, weight, bias, eps), name);
}

graph_id mica_builder_times(model_builder *b, graph_id x, float factor, const char *name) {
    if (factor == 0.0f) return x;
    return named(b, mica_graph_scale(b->g, x, factor), name);
}

graph_id mica_builder_project(model_builder *b, graph_id x, linear l, const char *name) {
    graph_id y = named(b, mica_graph_matmul(b->g, x, mica_graph_weight(b->g, l.weight)), name);
    if (!l.bias) return y;
    return mica_graph_add(b->g, y, mica_graph_vector(b->g, l.bias));
}

/* ---- inputs ---- */

static int32_t group_of(model_builder *b, int32_t window) {
    model_graph *out = b->out;
    for (int i = 0; i < out->n_groups; i++)
        if (out->windows[i] == window) return i;
    return -1;
}

/* One group of caches for each distinct window, in the order in which layers show them. */
static mica_status add_groups(model_builder *b, int64_t n_blocks) {
    static const char *const tables[] = {"block_table.0", "block_table.1", "block_table.2",
                                         "block_table.3"};
    static const char *const slots[] = {"slots.0", "slots.1", "slots.2", "slots.3"};
    model_graph *out = b->out;
    for (int64_t i = 0; i < b->c->n_layers; i++) {
        int32_t window = b->c->window[i];
        if (!mica_config_attends(b->c, i) || group_of(b, window) >= 0) continue;
        int n = out->n_groups;
        if (n == MODEL_MAX_GROUPS)
            return mica_fail(&b->g->error, MICA_E_UNSUPPORTED,
                             "%s: more than %d different attention windows", b->m->path,
                             MODEL_MAX_GROUPS);
        graph_dim dims[2] = {mica_dim_sym(1, GRAPH_SEQS), mica_dim(n_blocks)};
        out->windows[n] = window;
        b->block_table[n] = input(b, tables[n], MICA_I32, 2, dims, &out->block_table[n]);
        b->slots[n] = row_input(b, slots[n], GRAPH_ROWS, &out->slots[n]);
        out->n_groups++;
    }
    return MICA_OK;
}

/* The addresses of states and the rows of each sequence, if a layer has a state. */
static void add_states(model_builder *b) {
    graph_dim seqs = mica_dim_sym(1, GRAPH_SEQS), bounds = {1, GRAPH_SEQS, 1};
    bool any = false;
    for (int64_t i = 0; i < b->c->n_layers; i++) {
        mixer_kind kind = b->c->mixer[i];
        any = any || (kind != MIXER_ATTENTION && kind != MIXER_NONE);
    }
    b->states_in = b->states_out = b->seq_rows = GRAPH_NONE;
    if (!any) return;
    b->states_in = input(b, "states_in", MICA_U64, 1, &seqs, &b->out->states_in);
    b->states_out = input(b, "states_out", MICA_U64, 1, &seqs, &b->out->states_out);
    b->seq_rows = input(b, "seq_rows", MICA_I32, 1, &bounds, &b->out->seq_rows);
}

static void add_angles(model_builder *b, int idx) {
    const rope_constants *rope = &b->m->rope[idx];
    graph_id periods;
    if (rope->table) {
        graph_dim dim = mica_dim(rope->dims / 2);
        const char *name = idx ? "rope_periods.1" : "rope_periods.0";
        periods = mica_graph_const(b->g, name, MICA_F32, 1, &dim, rope->table);
    } else {
        graph_dim dims[2] = {mica_dim_sym(1, GRAPH_ROWS), mica_dim(rope->dims / 2)};
        periods = input(b, idx ? "rope_periods.1" : "rope_periods.0", MICA_F32, 2, dims,
                        &b->out->rope_periods[idx]);
    }
    graph_id angles = mica_graph_rope_angles(b->g, b->positions, periods, rope->position_scale);
    b->angles[idx] = named(b, angles, idx ? "rope_angles.1" : "rope_angles.0");
}

/* ---- layers ---- */

/* Of q or of k: the projection [R, heads * d] to normed and rotated heads [R, heads, d]. */
typedef struct head_part {
    norm_weight norm;
    int64_t n_heads;
    const char *norm_name, *name;
} head_part;

/* x [R, heads, d], each head with a weight of its own. */
static graph_id norm_heads(model_builder *b, graph_id x, const head_part *p) {
    norm_weight none = {0};
    graph_id y = mica_graph_flat(b->g, mica_builder_norm(b, x, none, p->norm_name));
    graph_id weight = mica_graph_vector(b->g, b->wide_norms ? p->norm.wide : p->norm.own);
    return mica_graph_heads(b->g, named(b, mica_graph_mul(b->g, y, weight), p->norm_name),
                            p->n_heads);
}

static graph_id rotate(model_builder *b, graph_id x, int32_t layer) {
    uint8_t idx = b->c->rope_of_layer[layer];
    if (idx == MODEL_NO_ROPE) return x;
    const rope_constants *rope = &b->m->rope[idx];
    return mica_graph_rope(b->g, x, b->angles[idx], (int32_t)rope->dims, b->c->rope_traditional,
                           rope->input_scale);
}

/* x is flat, or already cut into heads where the projection was fused by groups. */
static graph_id finish_heads(model_builder *b, graph_id x, const head_part *p, int32_t layer) {
    qk_norm_kind kind = b->m->facts.qk_norm;
    bool is_flat = x != GRAPH_NONE && b->g->nodes[x].type.n_dims == 2;
    if (kind == QK_NORM_FULL) x = mica_builder_norm(b, x, p->norm, p->norm_name);
    if (b->c->clip_qkv != 0.0f) x = named(b, mica_graph_clamp(b->g, x, b->c->clip_qkv), "clip");
    if (is_flat) x = mica_graph_heads(b->g, x, p->n_heads);
    if (kind == QK_NORM_HEAD) x = mica_builder_norm(b, x, p->norm, p->norm_name);
    if (kind == QK_NORM_HEADS || kind == QK_NORM_LIST) x = norm_heads(b, x, p);
    x = named(b, rotate(b, x, layer), p->name);
    bool plain = kind == QK_NORM_PLAIN && b->c->rope_of_layer[layer] != MODEL_NO_ROPE;
    return kind == QK_NORM_LATE || plain ? mica_builder_norm(b, x, p->norm, p->norm_name) : x;
}

/* qkv [R, KV * (G + 2) * d] to q [R, KV * G, d], k and v [R, KV, d]. */
static void cut_groups(model_builder *b, graph_id qkv, graph_id out[3]) {
    const model_config *c = b->c;
    int64_t d = c->head_dim, wide = c->n_heads / c->n_kv_heads * d;
    graph_id groups = mica_graph_heads(b->g, qkv, c->n_kv_heads);
    graph_id q = mica_graph_slice(b->g, groups, 0, wide);
    if (wide > d) {
        graph_dim dims[3] = {mica_dim_sym(1, GRAPH_ROWS), mica_dim(c->n_heads), mica_dim(d)};
        q = mica_graph_reshape(b->g, named(b, mica_graph_copy(b->g, q), "q_proj"), 3, dims);
    }
    out[0] = q;
    out[1] = mica_graph_slice(b->g, groups, wide, d);
    out[2] = mica_graph_slice(b->g, groups, wide + d, d);
}

static void project_qkv(model_builder *b, const dense_layer *l, graph_id x, graph_id out[3]) {
    const branch_scales *s = &b->c->scales;
    if (l->qkv.weight) {
        cut_groups(b, mica_builder_project(b, x, l->qkv, "qkv_proj"), out);
        return;
    }
    graph_id scaled = mica_builder_times(b, x, s->attention_in, "attention_in");
    if (!s->is_folded) x = scaled;
    out[0] = mica_builder_project(b, x, l->q, "q_proj");
    out[1] = mica_builder_project(b, x, l->k, "k_proj");
    out[1] = mica_builder_times(b, out[1], s->key, "key_scale");
    out[2] = mica_builder_project(b, scaled, l->v, "v_proj");
}

/* A projection that holds a gate beside each query head: the queries, and the gates side by side.
 */
static graph_id cut_gate(model_builder *b, graph_id q, graph_id *gate) {
    int64_t d = b->c->head_dim;
    graph_id both = mica_graph_heads(b->g, q, b->c->n_heads);
    graph_id copy = mica_graph_copy(b->g, mica_graph_slice(b->g, both, d, d));
    *gate = mica_graph_flat(b->g, named(b, copy, "attn_gate"));
    return mica_graph_slice(b->g, both, 0, d);
}

graph_id mica_builder_attend(model_builder *b, int32_t layer, graph_id q, graph_id k, graph_id v) {
    const model_config *c = b->c;
    int32_t group = group_of(b, c->window[layer]);
    const weight_vector *sinks = b->m->weights.layers[layer].sinks;
    int cache_idx = b->out->n_caches++;
    graph_id cache = named(b, mica_graph_cache(b->g, cache_idx, &b->layout), "cache");
    graph_id written = mica_graph_kv_write(b->g, cache, k, v, b->slots[group]);
    attention_inputs in = {.block_table = b->block_table[group],
                           .positions = b->positions,
                           .row_seq = b->row_seq,
                           .span_lo = b->span_lo,
                           .span_hi = b->span_hi};
    graph_id o = mica_graph_attention(b->g, q, named(b, written, "kv_write"), &in,
                                      mica_graph_vector(b->g, sinks), c->attention_scale,
                                      c->window[layer], c->attention_softcap);
    b->out->caches[cache_idx].group = group;
    b->out->caches[cache_idx].layout = b->layout;
    return named(b, o, "attention");
}

static graph_id attention(model_builder *b, int32_t layer, graph_id x) {
    const dense_layer *l = &b->m->weights.layers[layer];
    const model_config *c = b->c;
    const head_part q_part = {l->q_norm, c->n_heads, "q_norm", "q_rope"};
    const head_part k_part = {l->k_norm, c->n_kv_heads, "k_norm", "k_rope"};
    graph_id qkv[3], gate = GRAPH_NONE;
    if (l->mla) return mica_builder_mla(b, layer, x);
    project_qkv(b, l, x, qkv);
    if (c->gates_attention) qkv[0] = cut_gate(b, qkv[0], &gate);
    graph_id v = qkv[2];
    if (c->clip_qkv != 0.0f) v = named(b, mica_graph_clamp(b->g, v, c->clip_qkv), "clip");
    if (!l->qkv.weight) v = mica_graph_heads(b->g, v, c->n_kv_heads);
    graph_id q = finish_heads(b, qkv[0], &q_part, layer);
    graph_id k = finish_heads(b, qkv[1], &k_part, layer);
    bool is_bare = c->rope_of_layer[layer] == MODEL_NO_ROPE;
    if (c->query_boost != 0.0f && (is_bare || !c->boosts_bare_only))
        q = named(b,
                  mica_graph_position_scale(b->g, q, b->positions, c->query_boost,
                                            c->query_boost_offset, c->query_boost_length),
                  "q_boost");
    graph_id o = mica_builder_attend(b, layer, q, k, v);
    if (c->gates_attention) {
        gate = named(b, mica_graph_sigmoid(b->g, gate), "attn_gate_sigmoid");
        o = named(b, mica_graph_mul(b->g, o, gate), "gated_attention");
    }
    return mica_builder_project(b, o, l->o, "o_proj");
}

graph_id mica_builder_activation(model_builder *b, graph_id x) {
    switch (b->m->facts.act) {
    case ACT_SILU:
        return mica_graph_silu(b->g, x);
    case ACT_GELU_TANH:
        return mica_graph_gelu_tanh(b->g, x);
    case ACT_GELU:
        return mica_graph_gelu(b->g, x);
    case ACT_RELU2:
        return mica_graph_relu2(b->g, x);
    case ACT_XIELU: /* has parameters: see mlp */
        break;
    }
    return GRAPH_NONE;
}

graph_id mica_builder_gated(model_builder *b, graph_id x, linear gate, linear up, linear down) {
    const branch_scales *s = &b->c->scales;
    graph_id y = mica_builder_project(b, x, gate, "gate_proj");
    y = mica_builder_activation(b, mica_builder_times(b, y, s->gate, "gate_scale"));
    graph_id product =
        mica_graph_mul(b->g, named(b, y, "act"), mica_builder_project(b, x, up, "up_proj"));
    y = mica_builder_project(b, named(b, product, "gated"), down, "down_proj");
    return mica_builder_times(b, y, s->down, "down_scale");
}

static graph_id mlp(model_builder *b, const dense_layer *l, graph_id x) {
    if (l->moe) return mica_builder_moe(b, l->moe, x);
    if (!b->a->is_plain_mlp) return mica_builder_gated(b, x, l->gate, l->up, l->down);
    graph_id up = mica_builder_project(b, x, l->up, "up_proj");
    graph_id y = b->m->facts.act == ACT_XIELU
                     ? mica_graph_xielu(b->g, up, l->alpha_p, l->alpha_n, l->beta, l->eps)
                     : mica_builder_activation(b, up);
    return mica_builder_project(b, named(b, y, "act"), l->down, "down_proj");
}

/* x plus the residual multiplier times y. */
static graph_id residual(model_builder *b, graph_id x, graph_id y, const char *name) {
    y = mica_builder_times(b, y, b->c->residual_multiplier, "residual_scale");
    graph_id sum = mica_graph_add(b->g, x, y);
    /* the sum is formed in f32 and rounded once: beyond the range of f16 it is infinite here */
    if (b->a->clips_f16 && sum != GRAPH_NONE && b->g->nodes[sum].type.dtype == MICA_F16)
        sum = mica_graph_clamp(b->g, sum, 65504.0f);
    return named(b, sum, name);
}

/* Attention beside a state-space layer, each of the same input. */
static graph_id both(model_builder *b, int32_t layer, graph_id x) {
    const branch_scales *s = &b->c->scales;
    graph_id scan = mica_builder_ssm(b, MIXER_MAMBA2, b->m->weights.layers[layer].ssm, x);
    scan = mica_builder_times(b, scan, s->ssm_out, "ssm_out");
    graph_id heads =
        mica_builder_times(b, attention(b, layer, x), s->attention_out, "attention_out");
    return named(b, mica_graph_add(b->g, scan, heads), "ssm_plus_attn");
}

/* What stands in attention's place, or attention. */
static graph_id mixer(model_builder *b, int32_t layer, graph_id x) {
    const dense_layer *l = &b->m->weights.layers[layer];
    mixer_kind kind = b->c->mixer[layer];
    if (kind == MIXER_BOTH) return both(b, layer, x);
    if (kind == MIXER_NONE) return mlp(b, l, x);
    if (l->delta) return mica_builder_delta(b, l->delta, x);
    if (l->ssm) return mica_builder_ssm(b, kind, l->ssm, x);
    return attention(b, layer, x);
}

static graph_id sum_block(model_builder *b, int32_t layer, graph_id x) {
    const dense_layer *l = &b->m->weights.layers[layer];
    graph_id h = residual(b, x, mixer(b, layer, x), "attn_residual");
    h = mica_builder_norm(b, h, l->post_attention_norm, "post_attention_norm");
    h = residual(b, h, mlp(b, l, h), "mlp_residual");
    return mica_builder_norm(b, h, l->post_mlp_norm, "post_feedforward_norm");
}

static graph_id block(model_builder *b, int32_t layer, graph_id x) {
    const dense_layer *l = &b->m->weights.layers[layer];
    block_kind kind = b->m->facts.block;
    bool pre = kind != BLOCK_POST, post = kind == BLOCK_SANDWICH || kind == BLOCK_POST;
    if (kind == BLOCK_POST_SUM) return sum_block(b, layer, x);
    graph_id n = pre ? mica_builder_norm(b, x, l->input_norm, "input_norm") : x;
    graph_id y = mixer(b, layer, n);
    if (kind == BLOCK_SINGLE) return residual(b, x, y, "residual");
    if (post) y = mica_builder_norm(b, y, l->post_attention_norm, "post_attention_norm");
    if (kind == BLOCK_PARALLEL || kind == BLOCK_PARALLEL_2) {
        if (kind == BLOCK_PARALLEL_2) n = mica_builder_norm(b, x, l->pre_mlp_norm, "pre_mlp_norm");
        graph_id sum = mica_graph_add(b->g, y, mlp(b, l, n));
        return residual(b, x, named(b, sum, "attn_plus_mlp"), "mlp_residual");
    }
    graph_id h = residual(b, x, y, "attn_residual");
    n = pre ? mica_builder_norm(b, h, l->pre_mlp_norm,
                                post ? "pre_feedforward_norm" : "post_attention_norm")
            : h;
    y = mlp(b, l, n);
    if (post) y = mica_builder_norm(b, y, l->post_mlp_norm, "post_feedforward_norm");
    return residual(b, h, y, "mlp_residual");
}

static graph_id embed_rows(model_builder *b, graph_id tokens, graph_id table) {
    const dense_weights *w = &b->m->weights;
    graph_id h = named(b, mica_graph_embed(b->g, tokens, table), "embed_tokens");
    h = mica_builder_times(b, h, b->c->embed_multiplier, "embed_scale");
    graph_id learned = GRAPH_NONE;
    if (w->positions)
        learned =
            named(b, mica_graph_embed(b->g, b->positions, mica_graph_weight(b->g, w->positions)),
                  "embed_positions");
    if (b->c->is_encoder) return mica_builder_encoder_inputs(b, h, learned);
    return w->positions ? mica_graph_add(b->g, h, learned) : h;
}

/* The rows that are wanted, normed. */
static graph_id last_hidden(model_builder *b, graph_id h) {
    if (b->logits_rows != GRAPH_NONE)
        h = named(b, mica_graph_gather_rows(b->g, h, b->logits_rows), "logits_rows");
    return b->c->is_encoder ? h : mica_builder_norm(b, h, b->m->weights.final_norm, "norm");
}

/* From the last hidden states to logits. */
static graph_id head(model_builder *b, graph_id h, graph_id embed) {
    const dense_weights *w = &b->m->weights;
    const model_config *c = b->c;
    h = mica_builder_times(b, h, c->head_multiplier, "head_scale");
    /* a tied head is the embedding's own node */
    bool is_tied = w->head.weight == w->embed;
    if (is_tied)
        h = named(b, mica_graph_matmul(b->g, h, embed), "lm_head");
    else
        h = mica_builder_project(b, h, w->head, "lm_head");
    if (is_tied && w->head.bias) h = mica_graph_add(b->g, h, mica_graph_vector(b->g, w->head.bias));
    h = mica_builder_times(b, h, c->logit_multiplier, "logits_scale");
    if (b->a->gemma == GEMMA_DIFFUSION && !b->g->force_dtype)
        h = mica_graph_cast(b->g, h, MICA_F32);
    if (c->final_softcap != 0.0f)
        h = named(b, mica_graph_softcap(b->g, h, c->final_softcap), "final_softcap");
    return h;
}

static void add_body(model_builder *b, graph_id tokens, bool hidden) {
    graph_id embed = mica_graph_weight(b->g, b->m->weights.embed);
    graph_id h = embed_rows(b, tokens, embed);
    if (b->phase == MODEL_CANVAS) h = mica_builder_self_condition(b, h);
    if (b->a->gemma) h = mica_builder_gemma(b, tokens, h);
    for (int32_t i = 0; i < b->c->n_layers && !b->a->gemma; i++) {
        mica_graph_scope(b->g, "layers.%d", i);
        h = block(b, i, h);
    }
    mica_graph_scope(b->g, "%s", "");
    if (mica_builder_fills_cache(b)) return;
    h = last_hidden(b, h);
    mica_graph_output(b->g, hidden ? h : head(b, h, embed));
}

void mica_dense_build(const model *m, const model_build_options *options, model_graph *out) {
    graph *g = &out->g;
    model_builder b = {.m = m,
                       .c = &m->config,
                       .a = m->facts.arch,
                       .g = g,
                       .out = out,
                       .phase = options->phase,
                       .logits_rows = GRAPH_NONE};
    b.wide_norms = options->force_dtype && options->dtype == MICA_F32;
    const mla_config *mla = &b.c->mla; /* the latent stands for keys and values */
    int64_t k_dim = mla->kv_rank ? mla->kv_rank + mla->rope_dim : b.c->head_dim;
    int64_t v_dim = mla->kv_rank ? mla->kv_rank : b.c->head_dim;
    if (!mica_kv_layout_init(&b.layout, b.c->n_kv_heads, k_dim, v_dim, options->cache_dtype)) {
        g->status =
            mica_fail(&g->error, MICA_E_LIMIT, "%s: a cache block would be too large", m->path);
        return;
    }
    if (mla->kv_rank) mica_kv_layout_share(&b.layout);
    graph_id tokens = row_input(&b, "tokens", GRAPH_ROWS, &out->tokens);
    b.positions = row_input(&b, "positions", GRAPH_ROWS, &out->positions);
    b.row_seq = row_input(&b, "row_seq", GRAPH_ROWS, &out->row_seq);
    b.span_lo = row_input(&b, "span_lo", GRAPH_ROWS, &out->span_lo);
    b.span_hi = row_input(&b, "span_hi", GRAPH_ROWS, &out->span_hi);
    if (b.a->gemma != GEMMA_DIFFUSION)
        b.logits_rows = row_input(&b, "logits_rows", GRAPH_LOGITS, &out->logits_rows);
    mica_status st = add_groups(&b, options->n_blocks);
    if (st) {
        g->status = st;
        return;
    }
    for (int i = 0; i < b.c->n_ropes; i++)
        add_angles(&b, i);
    if (mla->kv_rank)
        b.head_groups =
            named(&b, mica_graph_head_groups(g, b.positions, (int32_t)b.c->n_heads), "head_groups");
    add_states(&b);
    add_body(&b, tokens, options->hidden || b.c->is_encoder);
    out->state_bytes = (size_t)b.state_floats * sizeof(float);
}
