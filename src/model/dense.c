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
    return named(b, mica_graph_rms_norm(b->g, x, weight, b->c->rms_norm_eps), name);
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
        if (group_of(b, window) >= 0) continue;
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

static graph_id head_rope(model_builder *b, graph_id x, int64_t n_heads, norm_weight head_norm,
                          const char *norm_name, int rope_idx, const char *name) {
    const rope_constants *rope = &b->m->rope[rope_idx];
    graph_id y = mica_graph_heads(b->g, x, n_heads);
    if (b->a->qk_norm) y = mica_builder_norm(b, y, head_norm, norm_name);
    y = mica_graph_rope(b->g, y, b->angles[rope_idx], (int32_t)rope->dims, b->c->rope_traditional,
                        rope->input_scale);
    return named(b, y, name);
}

static graph_id attention(model_builder *b, int32_t layer, graph_id x) {
    const dense_layer *l = &b->m->weights.layers[layer];
    const model_config *c = b->c;
    int rope_idx = c->rope_of_layer[layer];
    int32_t group = group_of(b, c->window[layer]);
    graph_id q = mica_builder_project(b, x, l->q, "q_proj");
    graph_id k = mica_builder_project(b, x, l->k, "k_proj");
    graph_id v = mica_graph_heads(b->g, mica_builder_project(b, x, l->v, "v_proj"), c->n_kv_heads);
    q = head_rope(b, q, c->n_heads, l->q_norm, "q_norm", rope_idx, "q_rope");
    k = head_rope(b, k, c->n_kv_heads, l->k_norm, "k_norm", rope_idx, "k_rope");
    graph_id cache = named(b, mica_graph_cache(b->g, layer, &b->layout), "cache");
    graph_id written = mica_graph_kv_write(b->g, cache, k, v, b->slots[group]);
    attention_inputs in = {.block_table = b->block_table[group],
                           .positions = b->positions,
                           .row_seq = b->row_seq,
                           .span_lo = b->span_lo,
                           .span_hi = b->span_hi};
    graph_id o = mica_graph_attention(b->g, q, named(b, written, "kv_write"), &in, GRAPH_NONE,
                                      c->attention_scale, c->window[layer], c->attention_softcap);
    b->out->caches[layer].group = group;
    b->out->caches[layer].layout = b->layout;
    return mica_builder_project(b, named(b, o, "attention"), l->o, "o_proj");
}

graph_id mica_builder_activation(model_builder *b, graph_id x) {
    switch (b->a->act) {
    case GLU_SILU:
        return mica_graph_silu(b->g, x);
    case GLU_GELU_TANH:
        return mica_graph_gelu_tanh(b->g, x);
    case GLU_GELU:
        return mica_graph_gelu(b->g, x);
    }
    return GRAPH_NONE;
}

graph_id mica_builder_gated(model_builder *b, graph_id x, linear gate, linear up, linear down) {
    graph_id y = mica_builder_activation(b, mica_builder_project(b, x, gate, "gate_proj"));
    graph_id product =
        mica_graph_mul(b->g, named(b, y, "act"), mica_builder_project(b, x, up, "up_proj"));
    return mica_builder_project(b, named(b, product, "gated"), down, "down_proj");
}

static graph_id mlp(model_builder *b, const dense_layer *l, graph_id x) {
    if (l->moe) return mica_builder_moe(b, l->moe, x);
    return mica_builder_gated(b, x, l->gate, l->up, l->down);
}

static graph_id block(model_builder *b, int32_t layer, graph_id x) {
    const dense_layer *l = &b->m->weights.layers[layer];
    graph_id h, y;
    switch (b->a->block) {
    case BLOCK_PRE:
        y = attention(b, layer, mica_builder_norm(b, x, l->input_norm, "input_norm"));
        h = named(b, mica_graph_add(b->g, x, y), "attn_residual");
        y = mlp(b, l, mica_builder_norm(b, h, l->pre_mlp_norm, "post_attention_norm"));
        return named(b, mica_graph_add(b->g, h, y), "mlp_residual");
    case BLOCK_SANDWICH:
        y = attention(b, layer, mica_builder_norm(b, x, l->input_norm, "input_norm"));
        y = mica_builder_norm(b, y, l->post_attention_norm, "post_attention_norm");
        h = named(b, mica_graph_add(b->g, x, y), "attn_residual");
        y = mlp(b, l, mica_builder_norm(b, h, l->pre_mlp_norm, "pre_feedforward_norm"));
        y = mica_builder_norm(b, y, l->post_mlp_norm, "post_feedforward_norm");
        return named(b, mica_graph_add(b->g, h, y), "mlp_residual");
    }
    return GRAPH_NONE;
}

static void add_body(model_builder *b, graph_id tokens) {
    const dense_weights *w = &b->m->weights;
    graph_id embed = mica_graph_weight(b->g, w->embed);
    graph_id h = named(b, mica_graph_embed(b->g, tokens, embed), "embed_tokens");
    if (b->c->embed_multiplier != 0.0f)
        h = named(b, mica_graph_scale(b->g, h, b->c->embed_multiplier), "embed_scale");
    for (int32_t i = 0; i < b->c->n_layers; i++) {
        mica_graph_scope(b->g, "layers.%d", i);
        h = block(b, i, h);
    }
    mica_graph_scope(b->g, "%s", "");
    h = named(b, mica_graph_gather_rows(b->g, h, b->logits_rows), "logits_rows");
    h = mica_builder_norm(b, h, w->final_norm, "norm");
    /* a tied head is the embedding's own node */
    graph_id head = w->head == w->embed ? embed : mica_graph_weight(b->g, w->head);
    h = named(b, mica_graph_matmul(b->g, h, head), "lm_head");
    if (b->c->final_softcap != 0.0f)
        h = named(b, mica_graph_softcap(b->g, h, b->c->final_softcap), "final_softcap");
    mica_graph_output(b->g, h);
}

void mica_dense_build(const model *m, const model_build_options *options, model_graph *out) {
    graph *g = &out->g;
    model_builder b = {.m = m, .c = &m->config, .a = m->facts.arch, .g = g, .out = out};
    b.wide_norms = options->force_dtype && options->dtype == MICA_F32;
    if (!mica_kv_layout_init(&b.layout, b.c->n_kv_heads, b.c->head_dim, b.c->head_dim,
                             options->cache_dtype)) {
        g->status =
            mica_fail(&g->error, MICA_E_LIMIT, "%s: a cache block would be too large", m->path);
        return;
    }
    graph_id tokens = row_input(&b, "tokens", GRAPH_ROWS, &out->tokens);
    b.positions = row_input(&b, "positions", GRAPH_ROWS, &out->positions);
    b.row_seq = row_input(&b, "row_seq", GRAPH_ROWS, &out->row_seq);
    b.span_lo = row_input(&b, "span_lo", GRAPH_ROWS, &out->span_lo);
    b.span_hi = row_input(&b, "span_hi", GRAPH_ROWS, &out->span_hi);
    b.logits_rows = row_input(&b, "logits_rows", GRAPH_LOGITS, &out->logits_rows);
    mica_status st = add_groups(&b, options->n_blocks);
    if (st) {
        g->status = st;
        return;
    }
    for (int i = 0; i < b.c->n_ropes; i++)
        add_angles(&b, i);
    out->n_caches = (int)b.c->n_layers;
    add_body(&b, tokens);
}
