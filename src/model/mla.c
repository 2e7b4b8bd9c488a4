/* mla.c: latent attention (DeepSeek V2 and V3): keys and values come from one narrow latent.
 *
 * c = RMS(first part of kv_a x) stands for keys and values of all heads, k_r (rotated) is a part of
 * the key that all share, and nothing else is cached. Where a head's keys are K c and its values
 * V c, its scores are q . K c = (K^T q) . c, and what it gives is V (sum of p c): so queries are
 * brought into the latent's space, all heads attend to the latents as one key/value head, and V
 * comes last. Every row is computed in this form, whatever else is in its step. The inner norms
 * have an eps of their own (docs/models.md 14).
 */
#include "model/builder.h"

#define INNER_EPS 1e-6f

static graph_id inner_norm(model_builder *b, graph_id x, norm_weight w, const char *name) {
    graph_id weight = mica_graph_vector(b->g, b->wide_norms ? w.wide : w.own);
    return named(b, mica_graph_rms_norm(b->g, x, weight, INNER_EPS), name);
}

static graph_id rotated(model_builder *b, graph_id x, const char *name) {
    const rope_constants *rope = &b->m->rope[0];
    x = mica_graph_rope(b->g, x, b->angles[0], (int32_t)rope->dims, b->c->rope_traditional,
                        rope->input_scale);
    return named(b, x, name);
}

/* [latent | rotated] of every head. */
static graph_id joined(model_builder *b, graph_id latent, graph_id turned, const char *name) {
    const mla_config *c = &b->c->mla;
    graph_id left = named(b, mica_graph_pad(b->g, latent, 0, c->rope_dim), name);
    graph_id right = named(b, mica_graph_pad(b->g, turned, c->kv_rank, 0), name);
    return named(b, mica_graph_add(b->g, left, right), name);
}

/* x [R, .. heads * n_in] by each head's own matrix of the stack w: [R * heads, n_out]. */
static graph_id by_head(model_builder *b, graph_id x, const weight_matrix *w, const char *name) {
    int64_t n_heads = b->c->n_heads;
    graph_dim dims[2] = {mica_dim_sym(n_heads, GRAPH_ROWS), mica_dim(w->n_in)};
    graph_id weight = mica_graph_weight(b->g, w);
    x = mica_graph_reshape(b->g, x, 2, dims);
    if (n_heads == 1) return named(b, mica_graph_matmul(b->g, x, weight), name);
    return named(b, mica_graph_expert_matmul(b->g, x, weight, b->head_groups, (int32_t)n_heads),
                 name);
}

static graph_id query(model_builder *b, const mla_layer *l, graph_id x) {
    const mla_config *c = &b->c->mla;
    int64_t n_heads = b->c->n_heads;
    if (l->q_a.weight)
        x = inner_norm(b, mica_builder_project(b, x, l->q_a, "q_a_proj"), l->q_a_norm, "q_a_norm");
    graph_id q = mica_builder_project(b, x, l->q, "q_proj");
    q = mica_graph_heads(b->g, q, n_heads);
    graph_id plain = mica_graph_copy(b->g, mica_graph_slice(b->g, q, 0, c->nope_dim));
    graph_id turned = mica_graph_slice(b->g, q, c->nope_dim, c->rope_dim);
    graph_dim dims[3] = {mica_dim_sym(1, GRAPH_ROWS), mica_dim(n_heads), mica_dim(c->kv_rank)};
    plain = by_head(b, named(b, plain, "q_nope"), l->k_b, "k_b_proj");
    plain = mica_graph_reshape(b->g, plain, 3, dims);
    return joined(b, plain, rotated(b, turned, "q_rope"), "q");
}

graph_id mica_builder_mla(model_builder *b, int32_t layer, graph_id x) {
    const mla_config *c = &b->c->mla;
    const mla_layer *l = b->m->weights.layers[layer].mla;
    graph_id both = mica_builder_project(b, x, l->kv_a, "kv_a_proj");
    graph_id turned = mica_graph_slice(b->g, both, c->kv_rank, c->rope_dim);
    turned = rotated(b, mica_graph_heads(b->g, turned, 1), "k_rope");
    graph_id latent = mica_graph_slice(b->g, both, 0, c->kv_rank);
    latent = mica_graph_heads(b->g, inner_norm(b, latent, l->kv_a_norm, "kv_norm"), 1);
    graph_id k = joined(b, latent, turned, "k");
    graph_id o = mica_builder_attend(b, layer, query(b, l, x), k, latent);
    graph_dim dims[2] = {mica_dim_sym(1, GRAPH_ROWS), mica_dim(b->c->n_heads * c->v_dim)};
    o = mica_graph_reshape(b->g, by_head(b, o, l->v_b, "v_b_proj"), 2, dims);
    return mica_builder_project(b, o, l->o, "o_proj");
}
