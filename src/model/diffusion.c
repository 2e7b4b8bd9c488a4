/* diffusion.c: what DiffusionGemma computes beside its layers: the self-conditioning of a canvas,
 * and the signal that one denoising pass leaves for the next (docs/models.md 16).
 *
 * The signal is a graph of its own: the mean embedding under the softmax of a pass's logits. It is
 * zero in the first pass of a block, and the norm at the end applies all the same.
 */
#include "model/builder.h"

static mica_dtype activation_dtype(const model_builder *b) {
    return b->g->force_dtype ? b->g->dtype : b->c->dtype;
}

graph_id mica_builder_self_condition(model_builder *b, graph_id x) {
    const gemma_weights *w = b->m->weights.gemma;
    graph_dim dims[2] = {mica_dim_sym(1, GRAPH_ROWS), mica_dim(b->c->hidden_size)};
    graph_id s = mica_graph_input(b->g, "signal", activation_dtype(b), 2, dims);
    if (s != GRAPH_NONE) b->out->signal = b->g->nodes[s].attr.input.slot;
    mica_graph_scope(b->g, "%s", "self_conditioning");
    graph_id y = mica_builder_norm(b, s, w->signal_norm, "pre_norm");
    y = mica_builder_gated(b, y, w->signal_gate, w->signal_up, w->signal_down);
    y = named(b, mica_graph_add(b->g, x, y), "sum");
    return named(b, mica_graph_rms_norm(b->g, y, GRAPH_NONE, b->c->rms_norm_eps), "post_norm");
}

void mica_diffusion_build_signal(const model *m, model_graph *out) {
    model_builder b = {.m = m, .c = &m->config, .a = m->facts.arch, .g = &out->g, .out = out};
    graph *g = b.g;
    mica_dtype dtype = activation_dtype(&b);
    graph_dim dims[2] = {mica_dim_sym(1, GRAPH_ROWS), mica_dim(b.c->vocab_size)};
    graph_id x = mica_graph_input(g, "previous", MICA_F32, 2, dims);
    if (x != GRAPH_NONE) out->previous = g->nodes[x].attr.input.slot;
    x = named(&b, mica_graph_cast(g, x, dtype), "logits");
    x = named(&b, mica_graph_softmax(g, x), "probs");
    x = mica_graph_matmul_t(g, x, mica_graph_weight(g, m->weights.embed));
    x = mica_graph_scale(g, named(&b, x, "soft_embedding"), b.c->embed_multiplier);
    mica_graph_output(g, mica_graph_cast(g, named(&b, x, "signal"), dtype));
}
