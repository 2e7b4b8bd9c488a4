/* ssm_take.c: the tensors of layers that convolve or scan (docs/models.md 15), all under mixer.
 */
#include "model/taker.h"

#include <math.h>
#include <stdio.h>

const weight_vector *mica_taker_log_rates(model_taker *t, const char *name, int64_t n) {
    const weight_vector *from = NULL;
    char full[128];
    snprintf(full, sizeof(full), "%s%s", t->scope, name);
    if (!t->st) t->st = mica_weights_vector(t->m->store, full, n, &from, t->err);
    weight_vector *v = mica_arena_calloc(&t->m->arena, 1, sizeof(*v));
    float *data = mica_arena_calloc(&t->m->arena, (size_t)n, sizeof(*data));
    if (!v || !data) mica_taker_no_memory(t);
    for (int64_t i = 0; i < n && !t->st; i++) {
        double x = (double)mica_load_f(from->data, from->dtype, (size_t)i);
        data[i] = (float)log(-x);
        if (!(x < 0.0))
            t->st = mica_fail(t->err, MICA_E_FORMAT, "%s: tensor %s: %g is no rate below 0",
                              t->m->path, full, x);
    }
    if (t->st) return NULL;
    *v = (weight_vector){from->name, MICA_F32, n, data};
    return v;
}

/* A_log, or the rates themselves. */
static const weight_vector *take_rates(model_taker *t, int64_t n) {
    if (t->m->facts.is_gguf) return mica_taker_log_rates(t, "mixer.A", n);
    return mica_taker_vector(t, "mixer", "A_log", n);
}

static void take_conv(model_taker *t, ssm_layer *l, int64_t n) {
    const ssm_config *s = &t->m->config.ssm;
    /* [C, K, 1] or [C, 1, K]: the same bytes */
    l->conv = mica_taker_vector(t, "mixer.conv1d", "weight", n * s->conv_width);
    if (s->conv_bias) l->conv_bias = mica_taker_vector(t, "mixer.conv1d", "bias", n);
}

/* The multipliers of z, x, B, C and dt along the rows of in_proj, in `dtype`. */
static const weight_vector *row_scales(model_taker *t, mica_dtype dtype) {
    const ssm_config *s = &t->m->config.ssm;
    const int64_t rows[] = {s->inner, s->inner, s->n_groups * s->state_size,
                            s->n_groups * s->state_size, s->n_heads};
    size_t n = 0, at = 0;
    for (int i = 0; i < 5; i++)
        n += (size_t)rows[i];
    weight_vector *v = mica_arena_calloc(&t->m->arena, 1, sizeof(*v));
    void *data = mica_arena_calloc(&t->m->arena, n, mica_dtype_bytes(dtype));
    if (!v || !data) {
        mica_taker_no_memory(t);
        return NULL;
    }
    for (int i = 0; i < 5; i++)
        for (int64_t k = 0; k < rows[i]; k++)
            mica_store_f(data, dtype, at++, t->m->config.scales.ssm[i]);
    *v = (weight_vector){"ssm_multipliers", dtype, (int64_t)n, data};
    return v;
}

/* Made with the first layer that has them: all have the same. */
static norm_weight in_scales(model_taker *t) {
    const dense_weights *w = &t->m->weights;
    bool has;
    if (w->layers[0].ssm) return w->layers[0].ssm->in_scales;
    mica_dtype own = mica_weight_dtype(w->embed, &has);
    norm_weight scales = {.wide = row_scales(t, MICA_F32)};
    scales.own = has && own != MICA_F32 && !t->st ? row_scales(t, own) : scales.wide;
    return scales;
}

static void take_mamba2(model_taker *t, ssm_layer *l) {
    const ssm_config *s = &t->m->config.ssm;
    take_conv(t, l, s->inner + 2 * s->n_groups * s->state_size);
    l->a_log = take_rates(t, s->n_heads);
    l->d = mica_taker_vector(t, "mixer", "D", s->n_heads);
    l->dt_bias = t->m->facts.is_gguf ? mica_taker_vector(t, "mixer.dt_proj", "bias", s->n_heads)
                                     : mica_taker_vector(t, "mixer", "dt_bias", s->n_heads);
    if (s->gate != GATE_ALONE) l->norm = mica_taker_vector(t, "mixer.norm", "weight", s->inner);
    if (t->m->config.scales.ssm[0] != 0.0f) l->in_scales = in_scales(t);
}

static void take_mamba(model_taker *t, ssm_layer *l) {
    const ssm_config *s = &t->m->config.ssm;
    take_conv(t, l, s->inner);
    l->x = mica_taker_linear(t, "mixer.x_proj", s->dt_rank + 2 * s->state_size, s->inner,
                             BIAS_RULE_NEVER);
    l->dt = mica_taker_linear(t, "mixer.dt_proj", s->inner, s->dt_rank, BIAS_RULE_ALWAYS);
    l->a_log = take_rates(t, s->inner * s->state_size);
    l->d = mica_taker_vector(t, "mixer", "D", s->inner);
    if (t->m->facts.arch->mixers != MIXERS_JAMBA) return;
    l->dt_norm = mica_taker_norm(t, "mixer.dt_layernorm", s->dt_rank);
    l->b_norm = mica_taker_norm(t, "mixer.b_layernorm", s->state_size);
    l->c_norm = mica_taker_norm(t, "mixer.c_layernorm", s->state_size);
}

const ssm_layer *mica_taker_ssm(model_taker *t, mixer_kind kind) {
    const ssm_config *s = &t->m->config.ssm;
    int64_t hidden = t->m->config.hidden_size, inner = s->inner, n_in = 2 * s->inner;
    bias_rule in_bias = s->in_bias ? BIAS_RULE_ALWAYS : BIAS_RULE_NEVER;
    bias_rule out_bias = s->out_bias ? BIAS_RULE_ALWAYS : BIAS_RULE_NEVER;
    ssm_layer *l = mica_arena_calloc(&t->m->arena, 1, sizeof(*l));
    if (!l) {
        mica_taker_no_memory(t);
        return NULL;
    }
    if (kind == MIXER_CONV) {
        inner = hidden;
        n_in = 3 * hidden;
        take_conv(t, l, hidden);
    } else if (kind == MIXER_MAMBA) {
        take_mamba(t, l);
    } else {
        n_in += 2 * s->n_groups * s->state_size + s->n_heads;
        take_mamba2(t, l);
    }
    l->in = mica_taker_linear(t, "mixer.in_proj", n_in, hidden, in_bias);
    l->out = mica_taker_linear(t, "mixer.out_proj", hidden, inner, out_bias);
    return l;
}
