/* gemma3n.c: the layers of Gemma 3n: several residual streams, of which a layer computes on one.
 *
 * Before a layer every stream is predicted from all of them by a small matrix that the active
 * stream chooses; after it, every stream is corrected by what the active one has learned (AltUp).
 * Beside attention runs a projection of low rank (Laurel). Coefficients are columns of a product,
 * one number a row, so a stream times its coefficient is a combination of one expert.
 * docs/models.md 7. Nothing is computed here.
 */
#include "model/builder.h"

#include <math.h>

#define MAX_STREAMS 64

typedef struct streams {
    graph_id x[MAX_STREAMS];
} streams;

/* Each row of x times its own number in column `at` of w [R, n]. */
static graph_id times_column(model_builder *b, graph_id x, graph_id w, int64_t at) {
    graph_id y = mica_graph_expert_combine(b->g, x, mica_graph_slice(b->g, w, at, 1));
    return named(b, y, "altup_part");
}

/* [R, n_streams] in (-1, 1). */
static graph_id modalities(model_builder *b, const gemma_layer *l, graph_id x) {
    graph_id y = mica_builder_norm(b, x, l->router_norm, "altup_norm");
    y = named(b, mica_graph_scale(b->g, y, 1.0f / (float)b->c->hidden_size), "altup_scale");
    y = mica_builder_project(b, y, l->router, "altup_router");
    return named(b, mica_graph_softcap(b->g, y, 1.0f), "altup_modalities");
}

static streams predict(model_builder *b, const gemma_layer *l, const streams *in) {
    int64_t n = b->c->gemma.n_streams;
    graph_id m = modalities(b, l, in->x[b->c->gemma.active_stream]);
    graph_id w = mica_builder_project(b, m, l->predict, "altup_prediction_coefs");
    streams out;
    for (int64_t j = 0; j < n; j++) {
        graph_id sum = times_column(b, in->x[0], w, j * n);
        for (int64_t i = 1; i < n; i++)
            sum = mica_graph_add(b->g, sum, times_column(b, in->x[i], w, j * n + i));
        out.x[j] = named(b, mica_graph_add(b->g, in->x[j], sum), "altup_predicted");
    }
    return out;
}

/* y plus (w + 1) times what `activated` differs from the active prediction. */
static streams correct(model_builder *b, const gemma_layer *l, const streams *predicted,
                       graph_id activated) {
    const gemma_config *c = &b->c->gemma;
    graph_id m = modalities(b, l, activated);
    graph_id w = mica_builder_project(b, m, l->correct, "altup_correction_coefs");
    graph_id less = mica_graph_scale(b->g, predicted->x[c->active_stream], -1.0f);
    less = named(b, less, "altup_less");
    graph_id news = named(b, mica_graph_add(b->g, activated, less), "altup_innovation");
    streams out;
    for (int64_t j = 0; j < c->n_streams; j++) {
        graph_id part = mica_graph_add(b->g, news, times_column(b, news, w, j));
        out.x[j] = named(b, mica_graph_add(b->g, predicted->x[j], part), "altup_corrected");
    }
    return out;
}

static graph_id mlp(model_builder *b, int32_t layer, graph_id x) {
    const dense_layer *l = &b->m->weights.layers[layer];
    float cut = b->c->gemma.layers[layer].gate_cut;
    if (isinf(cut)) return mica_builder_gated(b, x, l->gate, l->up, l->down);
    graph_id gate = mica_builder_project(b, x, l->gate, "gate_proj");
    gate = named(b, mica_graph_gauss_top(b->g, gate, cut), "gate_top");
    graph_id y = named(b, mica_builder_activation(b, gate), "act");
    y = mica_graph_mul(b->g, y, mica_builder_project(b, x, l->up, "up_proj"));
    return mica_builder_project(b, named(b, y, "gated"), l->down, "down_proj");
}

/* What the layer makes of the active stream's prediction. */
static graph_id activate(model_builder *b, int32_t layer, graph_id x) {
    const dense_layer *l = &b->m->weights.layers[layer];
    const float half = 0.70710678f;
    graph_id n = mica_builder_norm(b, x, l->input_norm, "input_norm");
    graph_id side = mica_builder_project(b, n, l->gemma->laurel_left, "laurel_left");
    side = mica_builder_project(b, side, l->gemma->laurel_right, "laurel_right");
    side = mica_builder_norm(b, side, l->gemma->laurel_norm, "laurel_norm");
    side = named(b, mica_graph_add(b->g, n, side), "laurel");
    graph_id y = mica_builder_gemma_attention(b, layer, n);
    y = mica_builder_norm(b, y, l->post_attention_norm, "post_attention_norm");
    graph_id h = mica_graph_add(b->g, mica_graph_add(b->g, x, y), side);
    h = named(b, mica_graph_scale(b->g, h, half), "attn_residual");
    y = mica_builder_norm(b, h, l->pre_mlp_norm, "pre_feedforward_norm");
    y = mica_builder_norm(b, mlp(b, layer, y), l->post_mlp_norm, "post_feedforward_norm");
    return named(b, mica_graph_add(b->g, h, y), "mlp_residual");
}

static void layer_of(model_builder *b, int32_t layer, streams *s, graph_id inputs) {
    const gemma_layer *l = b->m->weights.layers[layer].gemma;
    int64_t active = b->c->gemma.active_stream;
    streams predicted = predict(b, l, s);
    *s = correct(b, l, &predicted, activate(b, layer, predicted.x[active]));
    graph_id y = s->x[active];
    if (l->corrected_scale)
        y = named(b, mica_graph_mul(b->g, y, mica_graph_vector(b->g, l->corrected_scale)),
                  "correct_output_scale");
    y = mica_builder_per_layer_gate(b, layer, y, inputs);
    for (int64_t j = 1; j < b->c->gemma.n_streams; j++)
        s->x[j] = named(b, mica_graph_add(b->g, s->x[j], y), "per_layer_residual");
}

static graph_id at_rms_of(model_builder *b, graph_id x, linear l, graph_id like, const char *name) {
    return named(b, mica_graph_match_rms(b->g, mica_builder_project(b, x, l, name), like, 1e-5f),
                 name);
}

graph_id mica_builder_gemma3n(model_builder *b, graph_id tokens, graph_id x) {
    const gemma_weights *w = b->m->weights.gemma;
    int64_t n = b->c->gemma.n_streams;
    graph_id inputs = mica_builder_per_layer_inputs(b, tokens, x);
    streams s;
    s.x[0] = x;
    for (int64_t j = 1; j < n; j++)
        s.x[j] = at_rms_of(b, x, w->widen[j - 1], x, "altup_projection");
    for (int32_t i = 0; i < b->c->n_layers; i++) {
        mica_graph_scope(b->g, "layers.%d", i);
        layer_of(b, i, &s, inputs);
    }
    mica_graph_scope(b->g, "%s", "");
    graph_id sum = s.x[0];
    for (int64_t j = 1; j < n; j++)
        sum = mica_graph_add(
            b->g, sum, at_rms_of(b, s.x[j], w->narrow[j - 1], s.x[0], "altup_unembed_projection"));
    return named(b, mica_graph_scale(b->g, sum, 1.0f / (float)n), "altup_mean");
}
