/* delta.c: the graph of a gated-delta layer (docs/models.md 11.2): convolution, delta rule, gated
 * norm.
 *
 * A sequence's state is one block of floats, and each layer has its part of it: the last inputs of
 * its convolutions, then the matrices of its value heads.
 */
#include <math.h>

#include "model/builder.h"

state_inputs mica_builder_state(model_builder *b, int64_t n_floats) {
    int64_t first = b->state_floats;
    b->state_floats += (n_floats + 15) / 16 * 16;
    return (state_inputs){.state_in = b->states_in,
                          .state_out = b->states_out,
                          .seq_rows = b->seq_rows,
                          .positions = b->positions,
                          .offset = first};
}

/* Channels [first, first + n) of the layer's convolution over x [R, n], then silu. */
static graph_id convolve(model_builder *b, const delta_layer *l, graph_id x, int64_t first,
                         int64_t n, const char *name) {
    int64_t width = b->c->delta.conv_width;
    graph_dim dims[2] = {mica_dim(n), mica_dim(width)};
    const char *data =
        (const char *)l->conv->data + (size_t)(first * width) * mica_dtype_bytes(l->conv->dtype);
    graph_id w = mica_graph_const(b->g, l->conv->name, l->conv->dtype, 2, dims, data);
    state_inputs in = mica_builder_state(b, (width - 1) * n);
    graph_id y = named(b, mica_graph_causal_conv(b->g, x, w, GRAPH_NONE, &in), name);
    return named(b, mica_graph_silu(b->g, y), "conv_silu");
}

/* What the recurrence reads: q, k, v by heads (after the convolution), z, b and a. */
typedef struct delta_parts {
    graph_id q, k, v, z, b, a;
} delta_parts;

/* Channels [first, first + n) of each head of x [R, heads, ..], side by side: [R, heads * n]. */
static graph_id gather_part(model_builder *b, graph_id x, int64_t first, int64_t n,
                            const char *name) {
    graph_id part = mica_graph_copy(b->g, mica_graph_slice(b->g, x, first, n));
    return mica_graph_flat(b->g, named(b, part, name));
}

/* in_proj_ba goes by key head: the b of its value heads, their a. */
static void project_ba(model_builder *b, const delta_layer *l, graph_id x, delta_parts *p) {
    const delta_config *d = &b->c->delta;
    int64_t group = d->n_v_heads / d->n_k_heads;
    if (!l->ba.weight) {
        p->b = mica_builder_project(b, x, l->b, "in_proj_b");
        p->a = mica_builder_project(b, x, l->a, "in_proj_a");
        return;
    }
    graph_id ba =
        mica_graph_heads(b->g, mica_builder_project(b, x, l->ba, "in_proj_ba"), d->n_k_heads);
    p->b = gather_part(b, ba, 0, group, "b");
    p->a = gather_part(b, ba, group, group, "a");
}

static delta_parts project_apart(model_builder *b, const delta_layer *l, graph_id x) {
    const delta_config *d = &b->c->delta;
    int64_t key = d->n_k_heads * d->k_dim, val = d->n_v_heads * d->v_dim;
    graph_id u = mica_builder_project(b, x, l->qkv, "in_proj_qkv");
    graph_id c = convolve(b, l, u, 0, 2 * key + val, "conv");
    delta_parts p;
    p.q = mica_graph_heads(b->g, mica_graph_slice(b->g, c, 0, key), d->n_k_heads);
    p.k = mica_graph_heads(b->g, mica_graph_slice(b->g, c, key, key), d->n_k_heads);
    p.v = mica_graph_heads(b->g, mica_graph_slice(b->g, c, 2 * key, val), d->n_v_heads);
    p.z = mica_builder_project(b, x, l->z, "in_proj_z");
    project_ba(b, l, x, &p);
    return p;
}

/* Rows of in_proj_qkvz go by key head: its q, k, and the v and z of its value heads. */
static delta_parts project_fused(model_builder *b, const delta_layer *l, graph_id x) {
    const delta_config *d = &b->c->delta;
    int64_t group = d->n_v_heads / d->n_k_heads, wide = group * d->v_dim;
    int64_t key = d->n_k_heads * d->k_dim, val = d->n_v_heads * d->v_dim;
    graph_id qkvz =
        mica_graph_heads(b->g, mica_builder_project(b, x, l->qkvz, "in_proj_qkvz"), d->n_k_heads);
    graph_id q = convolve(b, l, gather_part(b, qkvz, 0, d->k_dim, "q"), 0, key, "conv_q");
    graph_id k = convolve(b, l, gather_part(b, qkvz, d->k_dim, d->k_dim, "k"), key, key, "conv_k");
    graph_id v =
        convolve(b, l, gather_part(b, qkvz, 2 * d->k_dim, wide, "v"), 2 * key, val, "conv_v");
    delta_parts p = {.q = mica_graph_heads(b->g, q, d->n_k_heads),
                     .k = mica_graph_heads(b->g, k, d->n_k_heads),
                     .v = mica_graph_heads(b->g, v, d->n_v_heads),
                     .z = gather_part(b, qkvz, 2 * d->k_dim + wide, wide, "z")};
    project_ba(b, l, x, &p);
    return p;
}

/* Heads [R, Hk, d] as often as there are value heads, in turn: [R, Hv, d]. */
static graph_id tile(model_builder *b, graph_id x, const char *name) {
    const delta_config *d = &b->c->delta;
    int64_t n = d->n_k_heads * d->k_dim, n_times = d->n_v_heads / d->n_k_heads;
    graph_id flat = mica_graph_flat(b->g, x), all = GRAPH_NONE;
    for (int64_t i = 0; i < n_times; i++) {
        graph_id one = mica_graph_pad(b->g, flat, i * n, (n_times - 1 - i) * n);
        one = named(b, one, "head_pad");
        all = i ? mica_graph_add(b->g, all, one) : one;
        all = named(b, all, name);
    }
    return mica_graph_heads(b->g, all, d->n_v_heads);
}

/* Unit length (with 1e-6 in the sum of squares), times `factor`. */
static graph_id unit_heads(model_builder *b, graph_id x, double factor, const char *name) {
    int64_t dim = b->c->delta.k_dim;
    graph_id y = mica_graph_rms_norm(b->g, x, GRAPH_NONE, (float)(1e-6 / (double)dim));
    return mica_graph_name(b->g, mica_graph_scale(b->g, named(b, y, name), (float)factor),
                           "unit_scale");
}

/* y normed by heads, times silu(z) in f32, rounded once. */
static graph_id gated_norm(model_builder *b, const delta_layer *l, graph_id y, graph_id z) {
    const delta_config *d = &b->c->delta;
    if (y == GRAPH_NONE || z == GRAPH_NONE) return GRAPH_NONE;
    mica_dtype t = b->g->nodes[y].type.dtype;
    graph_id n = mica_graph_rms_norm(b->g, mica_graph_heads(b->g, y, d->n_v_heads),
                                     mica_graph_vector(b->g, l->norm), b->c->rms_norm_eps);
    if (t != MICA_F32) z = named(b, mica_graph_cast(b->g, z, MICA_F32), "z_wide");
    graph_id gate = mica_graph_silu(b->g, mica_graph_heads(b->g, z, d->n_v_heads));
    graph_id out =
        named(b, mica_graph_mul(b->g, named(b, n, "norm"), named(b, gate, "z_silu")), "gated_norm");
    if (t != MICA_F32) out = named(b, mica_graph_cast(b->g, out, t), "gated_norm_rounded");
    return mica_graph_flat(b->g, out);
}

graph_id mica_builder_delta(model_builder *b, const delta_layer *l, graph_id x) {
    const delta_config *d = &b->c->delta;
    double dim = (double)d->k_dim;
    delta_parts p = l->qkvz.weight ? project_fused(b, l, x) : project_apart(b, l, x);
    graph_id q = unit_heads(b, p.q, 1.0 / dim, "q_norm");
    graph_id k = unit_heads(b, p.k, 1.0 / sqrt(dim), "k_norm");
    graph_id beta = named(b, mica_graph_sigmoid(b->g, p.b), "beta");
    graph_id decay = mica_graph_delta_decay(b->g, p.a, mica_graph_vector(b->g, l->dt_bias),
                                            mica_graph_vector(b->g, l->a_log));
    int64_t n_k_heads = d->n_k_heads;
    if (d->is_tiled && d->n_v_heads > n_k_heads) {
        q = tile(b, q, "q_tiled");
        k = tile(b, k, "k_tiled");
        n_k_heads = d->n_v_heads;
    }
    int64_t n = mica_graph_delta_state(n_k_heads, d->n_v_heads, d->k_dim, d->v_dim, 0);
    state_inputs in = mica_builder_state(b, n);
    graph_id y = mica_graph_gated_delta(b->g, q, k, p.v, named(b, decay, "decay"), beta, &in, 0);
    y = gated_norm(b, l, named(b, y, "gated_delta"), p.z);
    return mica_builder_project(b, y, l->out, "out_proj");
}
