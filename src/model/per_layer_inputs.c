/* per_layer_inputs.c: the inputs that every layer of Gemma 3n and 4 has of its own.
 *
 * One tensor for all layers, [R, n_layers * P]: half of it from a table of its own by token, half
 * projected from the embedding. A layer takes its P columns, gates them, and adds what they project
 * to (docs/models.md 7, 8).
 */
#include "model/builder.h"

#include <math.h>

/* Rows of the table by token; an id past its end reads row 0. */
static graph_id by_token(model_builder *b, graph_id tokens) {
    const gemma_weights *w = b->m->weights.gemma;
    graph_id x = mica_graph_embed(b->g, tokens, mica_graph_weight(b->g, w->per_layer));
    x = named(b, x, "embed_tokens_per_layer");
    if (w->past_end) { /* whose embedding was zero */
        graph_id past = mica_graph_embed(b->g, tokens, mica_graph_weight(b->g, w->past_end));
        past = named(b, past, "per_layer_past_end");
        graph_id first = mica_graph_matmul(b->g, past, mica_graph_weight(b->g, w->first_row));
        x = mica_graph_add(b->g, x, named(b, first, "per_layer_first_row"));
    }
    x = mica_graph_scale(b->g, x, sqrtf((float)b->c->gemma.per_layer_size));
    return named(b, x, "embed_scale_per_layer");
}

graph_id mica_builder_per_layer_inputs(model_builder *b, graph_id tokens, graph_id x) {
    const gemma_weights *w = b->m->weights.gemma;
    graph_id token = by_token(b, tokens);
    graph_id y = mica_builder_project(b, x, w->model_projection, "per_layer_model_projection");
    y = mica_graph_scale(b->g, y, 1.0f / sqrtf((float)b->c->hidden_size));
    y = named(b, y, "per_layer_projection_scale");
    y = mica_graph_heads(b->g, y, b->c->n_layers);
    y = mica_builder_norm(b, y, w->projection_norm, "per_layer_projection_norm");
    y = mica_graph_add(b->g, mica_graph_flat(b->g, y), token);
    return named(b, mica_graph_scale(b->g, y, 0.70710678f), "per_layer_inputs");
}

graph_id mica_builder_per_layer_gate(model_builder *b, int32_t layer, graph_id x, graph_id inputs) {
    const gemma_layer *l = b->m->weights.layers[layer].gemma;
    int64_t n = b->c->gemma.per_layer_size;
    graph_id own = mica_graph_slice(b->g, inputs, layer * n, n);
    graph_id gate = mica_builder_project(b, x, l->input_gate, "per_layer_input_gate");
    gate = named(b, mica_builder_activation(b, gate), "per_layer_act");
    graph_id y = named(b, mica_graph_mul(b->g, gate, own), "per_layer_gated");
    y = mica_builder_project(b, y, l->input_projection, "per_layer_projection");
    return mica_builder_norm(b, y, l->input_norm, "post_per_layer_input_norm");
}
