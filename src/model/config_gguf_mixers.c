/* config_gguf_mixers.c: GGUF metadata of families with layers that carry a state (docs/models.md 11,
 * 15).
 *
 * Which layers attend is told by the number of their key/value heads, 0 where there are none; which
 * are an MLP by the width of theirs; of the gated-delta families by a list of flags or an interval.
 * Whether there are biases and norms, tensors tell. No key bounds the steps of a scan: those of
 * nemotron_h are at least what its published models state.
 */
#include "model/config_gguf.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

static double value_at(const gguf_entry *e, int64_t layer) {
    return e->type == GGUF_VALUE_ARRAY ? mica_gguf_array_number(e, (uint64_t)layer) : -1.0;
}

/* A list of numbers or flags with a value for each layer; NULL: no list. */
static const gguf_entry *layer_list(gguf_reader *r, const char *key, int64_t n_layers) {
    const gguf_entry *e = mica_meta_find(r, key);
    if (!e || e->type != GGUF_VALUE_ARRAY) return NULL;
    if (e->element != GGUF_VALUE_STRING && e->element != GGUF_VALUE_ARRAY &&
        e->n >= (uint64_t)n_layers)
        return e;
    mica_meta_fail(r, MICA_E_FORMAT, key, "must have a value for each layer");
    return NULL;
}

int64_t mica_meta_layer_size(gguf_reader *r, const char *key, int64_t fallback) {
    const gguf_entry *e = mica_meta_find(r, key);
    if (r->arch->mixers == MIXERS_ATTENTION || !e)
        return mica_meta_size(r, key, fallback, 1, CONFIG_MAX_WIDTH);
    if (e->type != GGUF_VALUE_ARRAY) {
        int64_t x = mica_meta_size(r, key, fallback, 0, CONFIG_MAX_WIDTH);
        return x ? x : 1;
    }
    double found = 0.0;
    const gguf_entry *list = layer_list(r, key, 0);
    for (uint64_t i = 0; list && i < list->n; i++) {
        double x = mica_gguf_array_number(list, i);
        if (x == 0.0 || x == found) continue;
        if (found != 0.0)
            mica_meta_fail(r, MICA_E_UNSUPPORTED, key, "differs between the layers that have it");
        found = x;
    }
    if (found >= 0.0 && found <= (double)CONFIG_MAX_WIDTH && found == (double)(int64_t)found)
        return found == 0.0 ? 1 : (int64_t)found;
    mica_meta_fail(r, MICA_E_FORMAT, key, "must be whole numbers");
    return 1;
}

/* Whether the first layer of the file that has `tensor` has it with that suffix. */
static bool has_tensor(const gguf_reader *r, const model_config *c, const char *tensor) {
    for (int64_t i = 0; i < c->n_layers; i++) {
        char name[64];
        snprintf(name, sizeof(name), "blk.%lld.%s", (long long)i, tensor);
        if (mica_gguf_find_tensor(r->file, name)) return true;
    }
    return false;
}

/* ---- which layer is what ---- */

static void layers_by_heads(gguf_reader *r, model_config *c, mixer_kind other) {
    const gguf_entry *heads = layer_list(r, "attention.head_count_kv", c->n_layers);
    for (int64_t i = 0; i < c->n_layers; i++)
        c->mixer[i] = (uint8_t)(heads && value_at(heads, i) == 0.0 ? other : MIXER_ATTENTION);
}

/* A sublayer a layer: without heads and without a width it scans. */
static void layers_by_widths(gguf_reader *r, model_config *c) {
    const gguf_entry *widths = layer_list(r, "feed_forward_length", c->n_layers);
    layers_by_heads(r, c, MIXER_MAMBA2);
    for (int64_t i = 0; widths && i < c->n_layers; i++)
        if (value_at(widths, i) != 0.0) c->mixer[i] = MIXER_NONE;
}

static void layers_by_interval(gguf_reader *r, model_config *c) {
    const gguf_entry *flags = layer_list(r, "attention.recurrent_layers", c->n_layers);
    int64_t interval = mica_meta_size(r, "full_attention_interval", 4, 1, CONFIG_MAX_COUNT);
    for (int64_t i = 0; i < c->n_layers; i++) {
        bool scans = flags ? value_at(flags, i) != 0.0 : (i + 1) % interval != 0;
        c->mixer[i] = scans ? MIXER_DELTA : MIXER_ATTENTION;
    }
}

static void every_layer(model_config *c, mixer_kind kind) {
    for (int64_t i = 0; i < c->n_layers; i++)
        c->mixer[i] = (uint8_t)kind;
}

/* ---- sizes ---- */

static int64_t width_of(gguf_reader *r, const char *key) {
    return mica_meta_size(r, key, -1, 1, CONFIG_MAX_WIDTH);
}

static void fail_heads(gguf_reader *r, const char *key) {
    mica_meta_fail(r, MICA_E_FORMAT, key, "does not divide the sizes of the scan");
}

static void read_scan(gguf_reader *r, model_config *c) {
    ssm_config *s = &c->ssm;
    s->inner = width_of(r, "ssm.inner_size");
    s->state_size = width_of(r, "ssm.state_size");
    s->conv_width = mica_meta_size(r, "ssm.conv_kernel", -1, 1, 64);
    s->dt_least = r->arch->mixers == MIXERS_NEMOTRON ? 0.001f : 0.0f;
    s->dt_most = FLT_MAX;
    s->in_bias = has_tensor(r, c, "ssm_in.bias");
    s->out_bias = has_tensor(r, c, "ssm_out.bias");
    s->conv_bias = has_tensor(r, c, "ssm_conv1d.bias");
}

/* By heads: their number is what elsewhere is the rank of the step. */
static void read_mamba2(gguf_reader *r, model_config *c) {
    ssm_config *s = &c->ssm;
    read_scan(r, c);
    s->n_heads = width_of(r, "ssm.time_step_rank");
    s->n_groups = mica_meta_size(r, "ssm.group_count", 1, 1, CONFIG_MAX_WIDTH);
    s->head_dim = s->inner / s->n_heads;
    if (s->inner % s->n_heads) fail_heads(r, "ssm.time_step_rank");
    if (s->n_heads % s->n_groups) fail_heads(r, "ssm.group_count");
    s->gate = has_tensor(r, c, "ssm_norm.weight") ? GATE_THEN_NORM : GATE_ALONE;
}

/* falcon_mamba's norms have 1e-6, whatever the file says of the others. */
static void read_mamba(gguf_reader *r, model_config *c) {
    read_scan(r, c);
    c->ssm.dt_rank = width_of(r, "ssm.time_step_rank");
    if (mica_meta_flag(r, "ssm.dt_b_c_rms", false)) c->ssm.norm_eps = 1e-6f;
}

static void read_conv(gguf_reader *r, model_config *c) {
    c->ssm.conv_width = mica_meta_size(r, "shortconv.l_cache", -1, 1, 64);
    c->ssm.in_bias = has_tensor(r, c, "shortconv.in_proj.bias");
    c->ssm.out_bias = has_tensor(r, c, "shortconv.out_proj.bias");
    c->ssm.conv_bias = has_tensor(r, c, "shortconv.conv.bias");
}

static void read_delta(gguf_reader *r, model_config *c) {
    delta_config *d = &c->delta;
    int64_t inner = width_of(r, "ssm.inner_size");
    d->k_dim = mica_meta_size(r, "ssm.state_size", -1, 1, 1 << 12);
    d->n_k_heads = mica_meta_size(r, "ssm.group_count", -1, 1, 1 << 12);
    d->n_v_heads = mica_meta_size(r, "ssm.time_step_rank", -1, 1, 1 << 12);
    d->conv_width = mica_meta_size(r, "ssm.conv_kernel", -1, 1, 64);
    d->v_dim = inner / d->n_v_heads;
    if (inner % d->n_v_heads) fail_heads(r, "ssm.time_step_rank");
    if (d->n_v_heads % d->n_k_heads) fail_heads(r, "ssm.group_count");
    d->is_tiled = r->arch->gguf_tiled;
}

void mica_meta_read_mixers(gguf_reader *r, model_config *c) {
    if (r->st) return;
    switch (r->arch->mixers) {
    case MIXERS_ATTENTION:
        break;
    case MIXERS_DELTA:
    case MIXERS_DELTA_FUSED:
        read_delta(r, c);
        layers_by_interval(r, c);
        break;
    case MIXERS_CONV:
        read_conv(r, c);
        layers_by_heads(r, c, MIXER_CONV);
        break;
    case MIXERS_MAMBA2:
        read_mamba2(r, c);
        every_layer(c, MIXER_MAMBA2);
        break;
    case MIXERS_GRANITE:
        read_mamba2(r, c);
        layers_by_heads(r, c, MIXER_MAMBA2);
        if (!mica_meta_flag(r, "rope.scaling.finetuned", true))
            memset(c->rope_of_layer, MODEL_NO_ROPE, sizeof(c->rope_of_layer));
        break;
    case MIXERS_FALCON:
        read_mamba2(r, c);
        every_layer(c, MIXER_BOTH);
        break;
    case MIXERS_NEMOTRON:
        read_mamba2(r, c);
        layers_by_widths(r, c);
        break;
    case MIXERS_MAMBA:
        read_mamba(r, c);
        every_layer(c, MIXER_MAMBA);
        break;
    case MIXERS_JAMBA:
        read_mamba(r, c);
        layers_by_heads(r, c, MIXER_MAMBA);
        break;
    }
}
