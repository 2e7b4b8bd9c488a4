/* config_recurrent.c: which layers carry a state instead of a cache, and its sizes.
 *
 * layer_types decides where it is there (config_layers.c has checked its words); else every
 * full_attention_interval-th layer attends and the others are linear.
 */
#include "model/config.h"

#include <string.h>

static void read_delta(config_reader *r, delta_config *d) {
    d->n_k_heads = mica_config_integer(r, r->text, "linear_num_key_heads", 16, 1, 1 << 12);
    d->n_v_heads = mica_config_integer(r, r->text, "linear_num_value_heads", 32, 1, 1 << 12);
    d->k_dim = mica_config_integer(r, r->text, "linear_key_head_dim", 128, 1, 1 << 12);
    d->v_dim = mica_config_integer(r, r->text, "linear_value_head_dim", 128, 1, 1 << 12);
    d->conv_width = mica_config_integer(r, r->text, "linear_conv_kernel_dim", 4, 1, 64);
    if (!r->st && d->n_v_heads % d->n_k_heads)
        r->st = mica_fail(r->err, MICA_E_FORMAT,
                          "%s: config.json: %lld linear value heads cannot share %lld key heads "
                          "evenly",
                          r->where, (long long)d->n_v_heads, (long long)d->n_k_heads);
}

/* layer_types, or full_attn_idxs; without either every layer attends. */
static void read_conv(config_reader *r, model_config *c) {
    const json_value *types = mica_json_find_set(r->text, "layer_types");
    const json_value *list = mica_json_find_set(r->text, "full_attn_idxs");
    c->ssm.conv_width = mica_config_integer(r, r->text, "conv_L_cache", 3, 1, 64);
    c->ssm.conv_bias = mica_config_flag(r, r->text, "conv_bias", false);
    c->ssm.in_bias = c->ssm.out_bias = c->ssm.conv_bias;
    if (list && list->kind != JSON_KIND_ARRAY && !r->st)
        r->st = mica_fail(r->err, MICA_E_FORMAT,
                          "%s: config.json: \"full_attn_idxs\" must be a list of layers", r->where);
    for (int64_t i = 0; !r->st && i < c->n_layers; i++) {
        bool attends = !list;
        for (size_t k = 0; list && k < list->n; k++)
            attends = attends || mica_json_i64(list->items[k], -1) == i;
        if (types) attends = !strcmp(types->items[i]->string, "full_attention");
        c->mixer[i] = attends ? MIXER_ATTENTION : MIXER_CONV;
    }
}

void mica_config_read_mixers(config_reader *r, model_config *c) {
    if (r->st || r->arch->mixers == MIXERS_ATTENTION) return;
    if (r->arch->mixers == MIXERS_CONV) {
        read_conv(r, c);
        return;
    }
    if (r->arch->mixers >= MIXERS_MAMBA2) {
        mica_config_read_ssm(r, c);
        return;
    }
    const json_value *types = mica_json_find_set(r->text, "layer_types");
    int64_t interval =
        mica_config_integer(r, r->text, "full_attention_interval", 4, 1, CONFIG_MAX_COUNT);
    read_delta(r, &c->delta);
    for (int64_t i = 0; !r->st && i < c->n_layers; i++) {
        bool linear =
            types ? !strcmp(types->items[i]->string, "linear_attention") : (i + 1) % interval != 0;
        c->mixer[i] = linear ? MIXER_DELTA : MIXER_ATTENTION;
    }
}
