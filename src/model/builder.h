/* builder.h: what the builders of one graph share: dense.c, and the files for parts of a layer that
 * are not the dense skeleton.
 *
 * Nothing is computed here: nodes are appended. A failed builder leaves its error in the graph.
 */
#ifndef MICA_MODEL_BUILDER_H
#define MICA_MODEL_BUILDER_H

#include "model/loaded.h"

typedef struct model_builder {
    const model *m;
    const model_config *c;
    const arch *a;
    graph *g;
    model_graph *out;
    model_phase phase;
    bool wide_norms; /* all activations are f32 */
    kv_layout layout;
    graph_id angles[2];
    graph_id positions, row_seq, span_lo, span_hi, logits_rows;
    graph_id states_in, states_out, seq_rows; /* GRAPH_NONE: no recurrent layer */
    int64_t state_floats;                     /* of a sequence, taken so far */
    graph_id block_table[MODEL_MAX_GROUPS], slots[MODEL_MAX_GROUPS];
    graph_id kv_written[MODEL_MAX_LAYERS]; /* gemma_attention.c: for the layers that share them */
    graph_id head_groups;                  /* of latent attention: heads as experts of every row */
} model_builder;

static inline graph_id named(model_builder *b, graph_id id, const char *name) {
    return mica_graph_name(b->g, id, name);
}

graph_id mica_builder_norm(model_builder *b, graph_id x, norm_weight w, const char *name);
/* x W^T, plus the bias if there is one. */
graph_id mica_builder_project(model_builder *b, graph_id x, linear l, const char *name);
/* x times a multiplier, where 0 stands for none. */
graph_id mica_builder_times(model_builder *b, graph_id x, float factor, const char *name);
/* The family's activation of a gate. */
graph_id mica_builder_activation(model_builder *b, graph_id x);
/* down(act(gate x) * up x). */
graph_id mica_builder_gated(model_builder *b, graph_id x, linear gate, linear up, linear down);
/* Writes k and v of this step's rows to the cache and attends: [R, heads * width of v]. */
graph_id mica_builder_attend(model_builder *b, int32_t layer, graph_id q, graph_id k, graph_id v);
/* mla.c: latent attention. */
graph_id mica_builder_mla(model_builder *b, int32_t layer, graph_id x);
/* moe.c: the experts' sum for each row, and what every row takes. */
graph_id mica_builder_moe(model_builder *b, const moe_layer *l, graph_id x);
/* delta.c: a gated-delta layer in attention's place; and room for so many floats in the state of
 * every sequence. */
graph_id mica_builder_delta(model_builder *b, const delta_layer *l, graph_id x);
state_inputs mica_builder_state(model_builder *b, int64_t n_floats);
/* The experts' sum for x, chosen by the scores of `from`. */
graph_id mica_builder_routed(model_builder *b, const moe_layer *l, graph_id x, graph_id from);
/* gemma.c, gemma3n.c: all layers of a Gemma 4 or 3n over the scaled embeddings x. */
graph_id mica_builder_gemma3n(model_builder *b, graph_id tokens, graph_id x);
graph_id mica_builder_gemma(model_builder *b, graph_id tokens, graph_id x);
/* gemma_attention.c: attention; and the write of its keys and values alone. */
graph_id mica_builder_gemma_attention(model_builder *b, int32_t layer, graph_id x);
graph_id mica_builder_gemma_kv(model_builder *b, int32_t layer, graph_id x);
/* diffusion.c: the embeddings x of a canvas, conditioned on the pass before. */
graph_id mica_builder_self_condition(model_builder *b, graph_id x);
static inline bool mica_builder_fills_cache(const model_builder *b) {
    return b->a->gemma == GEMMA_DIFFUSION && b->phase == MODEL_ROWS;
}
/* per_layer_inputs.c: [R, n_layers * P] for all layers, and a layer's part of it times the gate of
 * x, projected and normed: what x gets from it. */
graph_id mica_builder_per_layer_inputs(model_builder *b, graph_id tokens, graph_id x);
graph_id mica_builder_per_layer_gate(model_builder *b, int32_t layer, graph_id x, graph_id inputs);
/* ssm.c: a short convolution or a state-space layer in attention's place. */
graph_id mica_builder_ssm(model_builder *b, mixer_kind kind, const ssm_layer *l, graph_id x);
/* encoder.c: embeddings of tokens and of positions, summed and normed. */
graph_id mica_builder_encoder_inputs(model_builder *b, graph_id h, graph_id learned);

#endif
