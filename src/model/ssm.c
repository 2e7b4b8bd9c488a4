/* ssm.c: the graph of layers that convolve or scan (docs/models.md 15): gated short convolutions,
 * mamba, mamba2.
 *
 * Each has its part of a sequence's state: the last inputs of its convolution, then its matrices.
 */
#include "model/builder.h"

/* The layer's convolution over the n channels of x, without activation. */
static graph_id convolve(model_builder *b, const ssm_layer *l, graph_id x, int64_t n) {
    int64_t width = b->c->ssm.conv_width;
    graph_dim dims[2] = {mica_dim(n), mica_dim(width)};
    if (!l->conv) return GRAPH_NONE;
    graph_id w = mica_graph_const(b->g, l->conv->name, l->conv->dtype, 2, dims, l->conv->data);
    state_inputs in = mica_builder_state(b, (width - 1) * n);
    graph_id bias = mica_graph_vector(b->g, l->conv_bias);
    return named(b, mica_graph_causal_conv(b->g, x, w, bias, &in), "conv");
}

static graph_id convolve_silu(model_builder *b, const ssm_layer *l, graph_id x, int64_t n) {
    return named(b, mica_graph_silu(b->g, convolve(b, l, x, n)), "conv_silu");
}

/* [B | C | x] = in_proj x; out_proj(C * conv(B * x)). */
static graph_id short_conv(model_builder *b, const ssm_layer *l, graph_id x) {
    int64_t n = b->c->hidden_size;
    graph_id all = mica_builder_project(b, x, l->in, "in_proj");
    graph_id u = mica_graph_mul(b->g, mica_graph_slice(b->g, all, 0, n),
                                mica_graph_slice(b->g, all, 2 * n, n));
    graph_id y = convolve(b, l, named(b, u, "gated_input"), n);
    y = mica_graph_mul(b->g, y, mica_graph_slice(b->g, all, n, n));
    return mica_builder_project(b, named(b, y, "gated_conv"), l->out, "out_proj");
}

/* What the scan reads, by heads. */
typedef struct scan_parts {
    graph_id x, dt, b, c;
} scan_parts;

/* [R, inner]; `n_rates` numbers of a_log a head. */
static graph_id scan(model_builder *b, const ssm_layer *l, const scan_parts *p, int64_t n_heads,
                     int64_t head_dim, int64_t n_rates) {
    graph_dim dims[2] = {mica_dim(n_heads), mica_dim(n_rates)};
    if (!l->a_log) return GRAPH_NONE;
    graph_id a = mica_graph_const(b->g, l->a_log->name, l->a_log->dtype, 2, dims, l->a_log->data);
    state_inputs in = mica_builder_state(b, n_heads * head_dim * b->c->ssm.state_size);
    graph_id y = mica_graph_selective_scan(b->g, p->x, p->dt, a, p->b, p->c,
                                           mica_graph_vector(b->g, l->d), &in);
    return named(b, y, "scan");
}

static graph_id wide(model_builder *b, graph_id x, const char *name) {
    if (x == GRAPH_NONE || b->g->nodes[x].type.dtype == MICA_F32) return x;
    return named(b, mica_graph_cast(b->g, x, MICA_F32), name);
}

static graph_id rounded(model_builder *b, graph_id x, mica_dtype t, const char *name) {
    return t == MICA_F32 ? x : named(b, mica_graph_cast(b->g, x, t), name);
}

/* y and the gate z as one, in f32: x normed by groups, rounded, times the weight, where x is
 * y * silu(z), or the gate comes after; see gate_order. */
static graph_id gated(model_builder *b, const ssm_layer *l, graph_id y, graph_id z) {
    if (y == GRAPH_NONE || z == GRAPH_NONE) return GRAPH_NONE;
    gate_order order = b->c->ssm.gate;
    mica_dtype t = b->g->nodes[y].type.dtype;
    graph_id gate = named(b, mica_graph_silu(b->g, wide(b, z, "z_wide")), "z_silu");
    graph_id n = wide(b, y, "scan_wide");
    if (order != NORM_THEN_GATE) n = named(b, mica_graph_mul(b->g, n, gate), "gated_scan");
    if (order == GATE_ALONE) return rounded(b, n, t, "gated_scan_rounded");
    n = mica_graph_rms_norm(b->g, mica_graph_heads(b->g, n, b->c->ssm.n_groups), GRAPH_NONE,
                            b->c->rms_norm_eps);
    n = mica_graph_flat(b->g, named(b, n, "group_norm"));
    if (order == GATE_THEN_NORM) n = rounded(b, n, t, "group_norm_rounded");
    n = named(b, mica_graph_mul(b->g, n, mica_graph_vector(b->g, l->norm)), "gated_norm");
    if (order == GATE_THEN_NORM) return n;
    return rounded(b, named(b, mica_graph_mul(b->g, n, gate), "norm_gated"), t,
                   "norm_gated_rounded");
}

/* [z | x B C | dt] = in_proj x; the convolution goes over x, B and C. */
static graph_id mamba2(model_builder *b, const ssm_layer *l, graph_id x) {
    const ssm_config *s = &b->c->ssm;
    int64_t wide_b = s->n_groups * s->state_size, channels = s->inner + 2 * wide_b;
    x = mica_builder_times(b, x, b->c->scales.ssm_in, "ssm_in");
    graph_id all = mica_builder_project(b, x, l->in, "in_proj");
    const weight_vector *scales = b->wide_norms ? l->in_scales.wide : l->in_scales.own;
    if (scales)
        all = named(b, mica_graph_mul(b->g, all, mica_graph_vector(b->g, scales)), "in_scale");
    graph_id z = mica_graph_slice(b->g, all, 0, s->inner);
    graph_id dt = mica_graph_slice(b->g, all, s->inner + channels, s->n_heads);
    graph_id u = convolve_silu(b, l, mica_graph_slice(b->g, all, s->inner, channels), channels);
    scan_parts p;
    p.x = mica_graph_heads(b->g, mica_graph_slice(b->g, u, 0, s->inner), s->n_heads);
    p.b = mica_graph_heads(b->g, mica_graph_slice(b->g, u, s->inner, wide_b), s->n_groups);
    p.c = mica_graph_heads(b->g, mica_graph_slice(b->g, u, s->inner + wide_b, wide_b), s->n_groups);
    p.dt = named(b,
                 mica_graph_scan_step(b->g, dt, mica_graph_vector(b->g, l->dt_bias), s->dt_least,
                                      s->dt_most),
                 "step");
    graph_id y = scan(b, l, &p, s->n_heads, s->head_dim, 1);
    return mica_builder_project(b, gated(b, l, y, z), l->out, "out_proj");
}

/* n channels of x from `first`, normed where the family does so. */
static graph_id part(model_builder *b, graph_id x, int64_t first, int64_t n, norm_weight weight,
                     const char *name) {
    graph_id y = mica_graph_slice(b->g, x, first, n);
    if (weight.own) return mica_builder_norm(b, y, weight, name);
    float eps = b->c->ssm.norm_eps;
    if (eps > 0.0f) return named(b, mica_graph_rms_norm(b->g, y, GRAPH_NONE, eps), name);
    return named(b, mica_graph_copy(b->g, y), name);
}

/* [x | z] = in_proj x; [dt | B | C] = x_proj conv(x). */
static graph_id mamba(model_builder *b, const ssm_layer *l, graph_id x) {
    const ssm_config *s = &b->c->ssm;
    int64_t n = s->state_size, rank = s->dt_rank;
    graph_id all = mica_builder_project(b, x, l->in, "in_proj");
    graph_id z = mica_graph_slice(b->g, all, s->inner, s->inner);
    graph_id u = convolve_silu(b, l, mica_graph_slice(b->g, all, 0, s->inner), s->inner);
    graph_id parts = mica_builder_project(b, u, l->x, "x_proj");
    graph_id dt = part(b, parts, 0, rank, l->dt_norm, "dt");
    linear plain = {l->dt.weight, NULL}; /* the bias is added in f32 */
    dt = mica_builder_project(b, dt, plain, "dt_proj");
    scan_parts p = {.x = mica_graph_heads(b->g, u, s->inner)};
    p.b = mica_graph_heads(b->g, part(b, parts, rank, n, l->b_norm, "B"), 1);
    p.c = mica_graph_heads(b->g, part(b, parts, rank + n, n, l->c_norm, "C"), 1);
    p.dt = named(b,
                 mica_graph_scan_step(b->g, dt, mica_graph_vector(b->g, l->dt.bias), s->dt_least,
                                      s->dt_most),
                 "step");
    graph_id y = scan(b, l, &p, s->inner, 1, n);
    y = mica_graph_mul(b->g, y, named(b, mica_graph_silu(b->g, z), "z_silu"));
    return mica_builder_project(b, named(b, y, "gated_scan"), l->out, "out_proj");
}

graph_id mica_builder_ssm(model_builder *b, mixer_kind kind, const ssm_layer *l, graph_id x) {
    if (kind == MIXER_CONV) return short_conv(b, l, x);
    return kind == MIXER_MAMBA ? mamba(b, l, x) : mamba2(b, l, x);
}
