/* mla.c: latent attention (DeepSeek V2 and V3): keys and values come from one narrow latent.
 *
 * c = RMS(first part of kv_a x); keys [k_n | k_r] and values of all heads come from kv_b c, k_r is
 * rotated and shared by all heads. The cache holds whole keys and values, of different widths. The
 * inner norms have an eps of their own (docs/models.md 14).
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

/* [plain | rotated] of every head; the rotated part may be one for all. */
static graph_id joined(model_builder *b, graph_id plain, graph_id turned, const char *name) {
    const mla_config *c = &b->c->mla;
    turned = mica_graph_repeat_heads(b->g, turned, b->c->n_heads);
    graph_id left = named(b, mica_graph_pad(b->g, plain, 0, c->rope_dim), name);
    graph_id right = named(b, mica_graph_pad(b->g, turned, c->nope_dim, 0), name);
    return named(b, mica_graph_add(b->g, left, right), name);
}

static graph_id query(model_builder *b, const mla_layer *l, graph_id x) {
    const mla_config *c = &b->c->mla;
    if (l->q_a.weight)
        x = inner_norm(b, mica_builder_project(b, x, l->q_a, "q_a_proj"), l->q_a_norm, "q_a_norm");
    graph_id q = mica_builder_project(b, x, l->q, "q_proj");
    q = mica_graph_heads(b->g, q, b->c->n_heads);
    graph_id plain = mica_graph_slice(b->g, q, 0, c->nope_dim);
    graph_id turned = mica_graph_slice(b->g, q, c->nope_dim, c->rope_dim);
    return joined(b, plain, rotated(b, turned, "q_rope"), "q");
}

graph_id mica_builder_mla(model_builder *b, int32_t layer, graph_id x) {
    const mla_config *c = &b->c->mla;
    const mla_layer *l = b->m->weights.layers[layer].mla;
    graph_id latent = mica_builder_project(b, x, l->kv_a, "kv_a_proj");
    graph_id turned = mica_graph_slice(b->g, latent, c->kv_rank, c->rope_dim);
    turned = rotated(b, mica_graph_heads(b->g, turned, 1), "k_rope");
    latent = inner_norm(b, mica_graph_slice(b->g, latent, 0, c->kv_rank), l->kv_a_norm, "kv_norm");
    graph_id k, v;
    if (l->kv_b.weight) {
        graph_id kv = mica_builder_project(b, latent, l->kv_b, "kv_b_proj");
        kv = mica_graph_heads(b->g, kv, b->c->n_heads);
        k = mica_graph_slice(b->g, kv, 0, c->nope_dim);
        v = mica_graph_slice(b->g, kv, c->nope_dim, c->v_dim);
    } else {
        k = mica_builder_project(b, latent, l->k_b, "k_b_proj");
        k = mica_graph_heads(b->g, k, b->c->n_heads);
        v = mica_builder_project(b, latent, l->v_b, "v_b_proj");
        v = mica_graph_heads(b->g, v, b->c->n_heads);
    }
    k = joined(b, k, turned, "k");
    graph_id o = mica_builder_attend(b, layer, query(b, l, x), k, v);
    return mica_builder_project(b, o, l->o, "o_proj");
}
