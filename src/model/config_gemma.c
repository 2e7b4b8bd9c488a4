/* config_gemma.c: the keys of Gemma 3n, 4 and DiffusionGemma by which layers differ, and what
 * tensors say of them.
 *
 * Full layers may have heads of their own, layers at the end read the keys and values of earlier
 * ones, MLPs differ in width. Everything ends in one layer_shape a layer.
 */
#include "model/config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_MAX_32 ((int64_t)1 << 24)

static void fail_list(config_reader *r, const char *key, size_t n) {
    if (r->st) return;
    r->st = mica_fail(r->err, MICA_E_FORMAT,
                      "%s: config.json: \"%s\" has %zu entries; expected one for each layer",
                      r->where, key, n);
}

int64_t mica_config_first_width(config_reader *r, const char *key, int64_t fallback) {
    const json_value *v = mica_json_find_set(r->text, key);
    if (!v || v->kind != JSON_KIND_ARRAY)
        return mica_config_integer(r, r->text, key, fallback, 1, CONFIG_MAX_WIDTH);
    int64_t first = v->n ? mica_json_i64(v->items[0], 0) : 0;
    for (size_t i = 0; i < v->n && !r->st; i++)
        if (mica_json_i64(v->items[i], 0) < 1) fail_list(r, key, i);
    if (first < 1 || first > CONFIG_MAX_WIDTH) fail_list(r, key, v->n);
    return r->st ? fallback : first;
}

/* ---- heads of full layers ---- */

/* One entry of per_layer_config: heads only, other keys would change the layer in ways unknown. */
static void read_override(config_reader *r, const json_value *object, const char *layer,
                          layer_shape *s) {
    if (object->kind != JSON_KIND_OBJECT) {
        r->st = mica_fail(r->err, MICA_E_FORMAT,
                          "%s: config.json: per_layer_config[\"%.20s\"] must be an object",
                          r->where, layer);
        return;
    }
    for (size_t i = 0; i < object->n && !r->st; i++) {
        const char *key = object->members[i].key;
        if (!strcmp(key, "head_dim") || !strcmp(key, "num_key_value_heads")) continue;
        r->st =
            mica_fail(r->err, MICA_E_UNSUPPORTED,
                      "%s: config.json: per_layer_config[\"%.20s\"]: \"%.40s\" is not supported",
                      r->where, layer, key);
    }
    s->head_dim = (int32_t)mica_config_integer(r, object, "head_dim", s->head_dim, 1, SIZE_MAX_32);
    s->n_kv_heads = (int32_t)mica_config_integer(r, object, "num_key_value_heads", s->n_kv_heads, 1,
                                                 SIZE_MAX_32);
}

static void read_overrides(config_reader *r, const json_value *map, model_config *c) {
    if (map->kind != JSON_KIND_OBJECT) {
        r->st = mica_fail(r->err, MICA_E_FORMAT,
                          "%s: config.json: \"per_layer_config\" must be an object", r->where);
        return;
    }
    for (size_t i = 0; i < map->n && !r->st; i++) {
        const char *key = map->members[i].key;
        char *end;
        long long layer = strtoll(key, &end, 10);
        if (end == key || *end || layer < 0 || layer >= c->n_layers)
            r->st = mica_fail(r->err, MICA_E_FORMAT,
                              "%s: config.json: per_layer_config has \"%.20s\"; expected a layer "
                              "below %lld",
                              r->where, key, (long long)c->n_layers);
        else
            read_override(r, map->members[i].value, key, &c->gemma.layers[layer]);
    }
}

/* Layers that share a rope share its table, and so the width of their heads. */
static void check_ropes(config_reader *r, model_config *c) {
    for (int64_t i = 0; i < c->n_layers && !r->st; i++) {
        rope_config *rope = &c->rope[c->rope_of_layer[i]];
        int64_t d = c->gemma.layers[i].head_dim;
        if (rope->head_dim && rope->head_dim != d)
            r->st =
                mica_fail(r->err, MICA_E_UNSUPPORTED,
                          "%s: config.json: layer %lld has heads of %lld channels, earlier ones "
                          "of its kind %lld",
                          r->where, (long long)i, (long long)d, (long long)rope->head_dim);
        if (d % 2 || c->n_heads % c->gemma.layers[i].n_kv_heads)
            r->st = mica_fail(r->err, MICA_E_FORMAT,
                              "%s: config.json: layer %lld cannot have %lld query and %d key/value "
                              "heads of %lld channels",
                              r->where, (long long)i, (long long)c->n_heads,
                              c->gemma.layers[i].n_kv_heads, (long long)d);
        rope->head_dim = d;
    }
}

static bool is_diffusion(const config_reader *r) { return r->arch->gemma == GEMMA_DIFFUSION; }

/* Full layers of DiffusionGemma never have a v_proj; one that keeps no text_config has the sizes of
 * the published model. */
static void read_heads(config_reader *r, model_config *c) {
    int64_t d = mica_config_integer(r, r->text, "global_head_dim", 512, 1, SIZE_MAX_32);
    bool is_bare = is_diffusion(r) && r->text == r->raw;
    int64_t kv = mica_config_integer(r, r->text, "num_global_key_value_heads",
                                     is_bare ? 2 : c->n_kv_heads, 1, SIZE_MAX_32);
    bool k_eq_v = mica_config_flag(r, r->text, "attention_k_eq_v", is_diffusion(r));
    if (is_diffusion(r) && !k_eq_v && !r->st)
        r->st = mica_fail(r->err, MICA_E_UNSUPPORTED,
                          "%s: config.json: \"attention_k_eq_v\": false is not supported for %s",
                          r->where, r->arch->name);
    const json_value *overrides = mica_json_find_set(r->text, "per_layer_config");
    for (int64_t i = 0; i < c->n_layers; i++) {
        layer_shape *s = &c->gemma.layers[i];
        if (c->window[i] > 0) continue;
        s->shares_v = k_eq_v;
        if (overrides) continue;
        s->head_dim = (int32_t)d;
        if (k_eq_v) s->n_kv_heads = (int32_t)kv;
    }
    if (overrides) read_overrides(r, overrides, c);
}

/* The last layer always sees everything; its rope is that of full layers. */
static void finish_gemma4(config_reader *r, model_config *c) {
    c->window[c->n_layers - 1] = 0;
    c->rope_of_layer[c->n_layers - 1] = 0;
    if (!mica_json_find_set(r->text, "rope_parameters") &&
        !mica_json_find_set(r->text, "rope_scaling")) {
        snprintf(c->rope[0].type, sizeof(c->rope[0].type), "proportional");
        c->rope[0].partial_rotary_factor = 0.25;
    }
    const json_value *seen = mica_json_find_set(r->text, "use_bidirectional_attention");
    const char *kind = mica_json_string(seen, seen ? "?" : "vision");
    if (!r->st && strcmp(kind, "vision") != 0)
        r->st = mica_fail(r->err, MICA_E_UNSUPPORTED,
                          "%s: config.json: \"use_bidirectional_attention\": \"%.20s\" is not "
                          "supported for %s",
                          r->where, kind, r->arch->name);
    read_heads(r, c);
}

/* ---- Gemma 3n ---- */

/* How many deviations above the mean a normal spread has the given share below it. */
static float normal_quantile(double share) {
    double low = -40.0, high = 40.0;
    for (int i = 0; i < 100; i++) {
        double z = 0.5 * (low + high);
        if (0.5 * erfc(-z / sqrt(2.0)) < share)
            low = z;
        else
            high = z;
    }
    return (float)low;
}

static void read_sparsity(config_reader *r, model_config *c) {
    const char *key = "activation_sparsity_pattern";
    const json_value *v = mica_json_find_set(r->text, key);
    bool is_list = v && v->kind == JSON_KIND_ARRAY;
    if (v && !is_list && !mica_json_is_number(v)) fail_list(r, key, 0);
    if (is_list && (int64_t)v->n != c->n_layers) fail_list(r, key, v->n);
    for (int64_t i = 0; i < c->n_layers && !r->st; i++) {
        /* what the Transformers configuration class assumes: 0.95 for the first ten layers */
        double x = !v ? (i < 10 ? 0.95 : 0.0) : mica_json_double(is_list ? v->items[i] : v, -1.0);
        if (!(x >= 0.0 && x < 1.0))
            r->st = mica_fail(r->err, MICA_E_FORMAT,
                              "%s: config.json: \"%s\" must hold shares from 0 to below 1",
                              r->where, key);
        if (x > 0.0) c->gemma.layers[i].gate_cut = normal_quantile((double)(float)x);
    }
}

static void read_streams(config_reader *r, model_config *c) {
    gemma_config *g = &c->gemma;
    g->n_streams = mica_config_integer(r, r->text, "altup_num_inputs", 4, 1, 64);
    g->active_stream = mica_config_integer(r, r->text, "altup_active_idx", 0, 0, g->n_streams - 1);
    g->scales_corrected = mica_config_flag(r, r->text, "altup_correct_scale", true);
    g->laurel_rank = mica_config_integer(r, r->text, "laurel_rank", 64, 1, CONFIG_MAX_WIDTH);
    read_sparsity(r, c);
}

void mica_config_read_gemma(config_reader *r, model_config *c, config_facts *facts) {
    if (r->st || !r->arch->gemma) return;
    c->gemma.layers = mica_arena_calloc(r->arena, (size_t)c->n_layers, sizeof(*c->gemma.layers));
    if (!c->gemma.layers) {
        r->st = mica_fail(r->err, MICA_E_NOMEM, "%s: out of memory", r->where);
        return;
    }
    for (int64_t i = 0; i < c->n_layers; i++)
        c->gemma.layers[i] = (layer_shape){.head_dim = (int32_t)c->head_dim,
                                           .n_kv_heads = (int32_t)c->n_kv_heads,
                                           .kv_layer = (int32_t)i,
                                           .gate_cut = -INFINITY};
    facts->attention_multiplier = 1.0;
    facts->n_shared = mica_config_integer(r, r->text, "num_kv_shared_layers", -1, 0, c->n_layers);
    facts->per_layer_size =
        mica_config_integer(r, r->text, "hidden_size_per_layer_input", -1, 0, CONFIG_MAX_WIDTH);
    if (is_diffusion(r)) facts->n_shared = 0;
    if (r->arch->gemma != GEMMA_3N) finish_gemma4(r, c);
    if (r->arch->gemma == GEMMA_3N) read_streams(r, c);
    if (!r->st) check_ropes(r, c);
}

/* ---- what tensors know better ---- */

static int64_t layer_rows(const weight_store *weights, int64_t layer, const char *name) {
    char path[96];
    snprintf(path, sizeof(path), "model.layers.%lld.%s", (long long)layer, name);
    return mica_weights_rows(weights, path);
}

/* Layers that share read the last layer of their kind that does not. */
static mica_status share_layers(model_config *c, const config_facts *facts, mica_error *err) {
    for (int64_t i = c->n_layers - c->gemma.n_shared; i < c->n_layers; i++) {
        int64_t donor = c->n_layers - c->gemma.n_shared - 1;
        while (donor >= 0 && (c->window[donor] > 0) != (c->window[i] > 0))
            donor--;
        if (donor < 0)
            return mica_fail(err, MICA_E_FORMAT,
                             "%s: layer %lld has no keys and values of its own, and no layer of "
                             "its kind before the %lld shared ones has",
                             facts->where, (long long)i, (long long)c->gemma.n_shared);
        c->gemma.layers[i].kv_layer = (int32_t)donor;
    }
    return MICA_OK;
}

mica_status mica_gemma_settle(model_config *c, const config_facts *facts,
                              const weight_store *weights, mica_error *err) {
    gemma_config *g = &c->gemma;
    int64_t table = mica_weights_rows(weights, "model.embed_tokens_per_layer");
    if (table > 0 && facts->arch->gemma != GEMMA_DIFFUSION) {
        g->per_layer_vocab = table;
        g->per_layer_size = facts->per_layer_size > 0 ? facts->per_layer_size : 256;
    }
    if (table <= 0 && g->n_streams)
        return mica_fail(err, MICA_E_NOT_FOUND,
                         "%s: no model.embed_tokens_per_layer in the checkpoint, which %s needs",
                         facts->where, facts->arch->name);
    for (int64_t i = 0; i < c->n_layers; i++) {
        int64_t wide = layer_rows(weights, i, "mlp.gate_proj");
        if (wide < 1 || wide > CONFIG_MAX_WIDTH) wide = c->intermediate_size;
        g->layers[i].intermediate_size = (int32_t)wide;
        if (facts->is_gguf) g->layers[i].shares_v = layer_rows(weights, i, "self_attn.v_proj") < 0;
    }
    if (facts->is_gguf && g->n_streams)
        g->laurel_rank = layer_rows(weights, 0, "laurel.linear_left");
    g->n_shared = facts->n_shared;
    if (g->n_shared < 0)
        for (g->n_shared = 0; g->n_shared < c->n_layers; g->n_shared++)
            if (layer_rows(weights, c->n_layers - 1 - g->n_shared, "self_attn.k_proj") >= 0) break;
    return share_layers(c, facts, err);
}
