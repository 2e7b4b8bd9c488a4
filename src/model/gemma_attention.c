/* gemma_attention.c: attention of Gemma 3n, 4 and DiffusionGemma: heads that differ by layer,
 * values without a projection of their own, and layers that read the keys and values of an earlier
 * layer.
 *
 * A layer that shares appends no cache: it reads what the donor's write has made, after it. Queries
 * and keys are normed, then rotated; values are normed without a weight and never rotated; the
 * scale is 1 (docs/models.md 8).
 */
#include "model/builder.h"

static int32_t group_of(const model_builder *b, int32_t layer) {
    const model_graph *out = b->out;
    for (int i = 0; i < out->n_groups; i++)
        if (out->windows[i] == b->c->window[layer]) return i;
    return 0; /* every layer's window has a group */
}

static graph_id rotate(model_builder *b, graph_id x, int32_t layer, const char *name) {
    uint8_t idx = b->c->rope_of_layer[layer];
    const rope_constants *rope = &b->m->rope[idx];
    x = mica_graph_rope(b->g, x, b->angles[idx], (int32_t)rope->dims, false, rope->input_scale);
    return named(b, x, name);
}

graph_id mica_builder_gemma_kv(model_builder *b, int32_t layer, graph_id x) {
    const dense_layer *l = &b->m->weights.layers[layer];
    const layer_shape *s = &b->c->gemma.layers[layer];
    int32_t group = group_of(b, layer);
    int idx = b->out->n_caches;
    kv_layout layout;
    if (!mica_kv_layout_init(&layout, s->n_kv_heads, s->head_dim, s->head_dim, b->layout.dtype)) {
        b->g->status = mica_fail(&b->g->error, MICA_E_LIMIT, "%s: a cache block would be too large",
                                 b->m->path);
        return GRAPH_NONE;
    }
    graph_id k = mica_graph_heads(b->g, mica_builder_project(b, x, l->k, "k_proj"), s->n_kv_heads);
    graph_id v = k;
    if (!s->shares_v)
        v = mica_graph_heads(b->g, mica_builder_project(b, x, l->v, "v_proj"), s->n_kv_heads);
    v = named(b, mica_graph_rms_norm(b->g, v, GRAPH_NONE, b->c->rms_norm_eps), "v_norm");
    k = rotate(b, mica_builder_norm(b, k, l->k_norm, "k_norm"), layer, "k_rope");
    graph_id cache = named(b, mica_graph_cache(b->g, idx, &layout), "cache");
    graph_id written = mica_graph_kv_write(b->g, cache, k, v, b->slots[group]);
    b->out->caches[idx].group = group;
    b->out->caches[idx].layout = layout;
    b->out->n_caches++;
    return named(b, written, "kv_write");
}

graph_id mica_builder_gemma_attention(model_builder *b, int32_t layer, graph_id x) {
    const dense_layer *l = &b->m->weights.layers[layer];
    const model_config *c = b->c;
    int32_t from = c->gemma.layers[layer].kv_layer, group = group_of(b, layer);
    graph_id q = mica_graph_heads(b->g, mica_builder_project(b, x, l->q, "q_proj"), c->n_heads);
    q = rotate(b, mica_builder_norm(b, q, l->q_norm, "q_norm"), layer, "q_rope");
    if (from == layer) b->kv_written[layer] = mica_builder_gemma_kv(b, layer, x);
    attention_inputs in = {.block_table = b->block_table[group],
                           .positions = b->positions,
                           .row_seq = b->row_seq,
                           .span_lo = b->span_lo,
                           .span_hi = b->span_hi};
    graph_id o = mica_graph_attention(b->g, q, b->kv_written[from], &in, GRAPH_NONE,
                                      c->attention_scale, c->window[layer], c->attention_softcap);
    return mica_builder_project(b, named(b, o, "attention"), l->o, "o_proj");
}
