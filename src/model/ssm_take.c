/* ssm_take.c: the tensors of layers that convolve or scan (docs/models.md 15), all under mixer.
 */
#include "model/taker.h"

static void take_conv(model_taker *t, ssm_layer *l, int64_t n) {
    const ssm_config *s = &t->m->config.ssm;
    /* [C, K, 1] or [C, 1, K]: the same bytes */
    l->conv = mica_taker_vector(t, "mixer.conv1d", "weight", n * s->conv_width);
    if (s->conv_bias) l->conv_bias = mica_taker_vector(t, "mixer.conv1d", "bias", n);
}

static void take_mamba2(model_taker *t, ssm_layer *l) {
    const ssm_config *s = &t->m->config.ssm;
    take_conv(t, l, s->inner + 2 * s->n_groups * s->state_size);
    l->a_log = mica_taker_vector(t, "mixer", "A_log", s->n_heads);
    l->d = mica_taker_vector(t, "mixer", "D", s->n_heads);
    l->dt_bias = mica_taker_vector(t, "mixer", "dt_bias", s->n_heads);
    l->norm = mica_taker_vector(t, "mixer.norm", "weight", s->inner);
}

static void take_mamba(model_taker *t, ssm_layer *l) {
    const ssm_config *s = &t->m->config.ssm;
    take_conv(t, l, s->inner);
    l->x = mica_taker_linear(t, "mixer.x_proj", s->dt_rank + 2 * s->state_size, s->inner,
                             BIAS_RULE_NEVER);
    l->dt = mica_taker_linear(t, "mixer.dt_proj", s->inner, s->dt_rank, BIAS_RULE_ALWAYS);
    l->a_log = mica_taker_vector(t, "mixer", "A_log", s->inner * s->state_size);
    l->d = mica_taker_vector(t, "mixer", "D", s->inner);
    if (t->m->facts.arch->mixers != MIXERS_JAMBA) return;
    l->dt_norm = mica_taker_norm(t, "mixer.dt_layernorm", s->dt_rank);
    l->b_norm = mica_taker_norm(t, "mixer.b_layernorm", s->state_size);
    l->c_norm = mica_taker_norm(t, "mixer.c_layernorm", s->state_size);
}

const ssm_layer *mica_taker_ssm(model_taker *t, mixer_kind kind) {
    const ssm_config *s = &t->m->config.ssm;
    int64_t hidden = t->m->config.hidden_size, inner = s->inner, n_in = 2 * s->inner;
    bias_rule bias = s->proj_bias ? BIAS_RULE_ALWAYS : BIAS_RULE_NEVER;
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
    l->in = mica_taker_linear(t, "mixer.in_proj", n_in, hidden, bias);
    l->out = mica_taker_linear(t, "mixer.out_proj", hidden, inner, bias);
    return l;
}
