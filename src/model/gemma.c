/* gemma.c: the layers of Gemma 4 and DiffusionGemma: the sandwich block with layer scalars,
 * per-layer inputs, and an MLP beside experts.
 *
 * Nothing is computed here: nodes are appended in the order of docs/models.md 8. What stands before
 * the layers and after them is the dense families'.
 */
#include "model/builder.h"

/* Both see h, the MLP and the experts each through norms of their own; the router sees h itself. */
static graph_id beside_experts(model_builder *b, const dense_layer *l, graph_id h, graph_id y) {
    y = mica_builder_norm(b, y, l->gemma->post_mlp_norm, "post_feedforward_norm_1");
    graph_id n = mica_builder_norm(b, h, l->gemma->pre_experts_norm, "pre_feedforward_norm_2");
    n = mica_builder_routed(b, l->moe, n, h);
    n = mica_builder_norm(b, n, l->gemma->post_experts_norm, "post_feedforward_norm_2");
    return named(b, mica_graph_add(b->g, y, n), "mlp_and_experts");
}

static graph_id layer_of(model_builder *b, int32_t layer, graph_id x, graph_id inputs) {
    const dense_layer *l = &b->m->weights.layers[layer];
    graph_id y = mica_builder_norm(b, x, l->input_norm, "input_norm");
    y = mica_builder_gemma_attention(b, layer, y);
    y = mica_builder_norm(b, y, l->post_attention_norm, "post_attention_norm");
    graph_id h = named(b, mica_graph_add(b->g, x, y), "attn_residual");
    y = mica_builder_norm(b, h, l->pre_mlp_norm, "pre_feedforward_norm");
    y = mica_builder_gated(b, y, l->gate, l->up, l->down);
    if (l->moe) y = beside_experts(b, l, h, y);
    y = mica_builder_norm(b, y, l->post_mlp_norm, "post_feedforward_norm");
    h = named(b, mica_graph_add(b->g, h, y), "mlp_residual");
    if (inputs != GRAPH_NONE) {
        y = mica_builder_per_layer_gate(b, layer, h, inputs);
        h = named(b, mica_graph_add(b->g, h, y), "per_layer_residual");
    }
    float scalar = mica_builder_fills_cache(b) ? l->gemma->encoder_scalar : l->gemma->scalar;
    if (scalar == 0.0f) return h;
    return named(b, mica_graph_scale(b->g, h, scalar), "layer_scalar");
}

/* Of an encoder's last layer nothing but its keys and values is wanted. */
static void keys_and_values(model_builder *b, int32_t layer, graph_id x) {
    mica_graph_scope(b->g, "layers.%d", layer);
    x = mica_builder_norm(b, x, b->m->weights.layers[layer].input_norm, "input_norm");
    mica_builder_gemma_kv(b, layer, x);
}

graph_id mica_builder_gemma(model_builder *b, graph_id tokens, graph_id x) {
    graph_id inputs = GRAPH_NONE;
    bool only_fills = mica_builder_fills_cache(b);
    int32_t n_layers = (int32_t)b->c->n_layers;
    b->out->n_caches = 0;
    if (b->a->gemma == GEMMA_3N) return mica_builder_gemma3n(b, tokens, x);
    if (b->m->weights.gemma->per_layer) inputs = mica_builder_per_layer_inputs(b, tokens, x);
    for (int32_t i = 0; i < n_layers - only_fills; i++) {
        mica_graph_scope(b->g, "layers.%d", i);
        x = layer_of(b, i, x, inputs);
    }
    if (only_fills) keys_and_values(b, n_layers - 1, x);
    return x;
}
