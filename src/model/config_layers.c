/* config_layers.c: which layers slide, how far they see and which rope they use.
 *
 * layer_types decides when it is there, for every family; else the family's rule does. Also here:
 * the keys that would change the mathematics in a way that no family of the table computes. They
 * are refused by name and value, whatever the family.
 */
#include "model/config.h"

#include <stdio.h>
#include <string.h>

typedef struct window_plan {
    const json_value *types; /* layer_types; NULL: absent */
    int64_t pattern, first;  /* of the rules that use them */
    const char *letters;     /* a pattern spelt with L (slides) and G; NULL: none */
    const bool *has_rope;    /* of each layer, as NO_ROPE_LIST says */
    bool all;
} window_plan;

/* What layer_types calls a layer that does not see everything, and the key that says how far. */
static const char *local_kind(const arch *a) {
    return a->windows == WINDOW_RULE_CHUNKS ? "chunked_attention" : "sliding_attention";
}

static const char *local_key(const arch *a) {
    return a->windows == WINDOW_RULE_CHUNKS ? "attention_chunk_size" : "sliding_window";
}

static bool slides(const arch *a, const window_plan *p, int64_t layer) {
    if (p->types) return !strcmp(p->types->items[layer]->string, local_kind(a));
    switch (a->windows) {
    case WINDOW_RULE_NONE:
        return false;
    case WINDOW_RULE_ALL:
    case WINDOW_RULE_USED:
        return p->all;
    case WINDOW_RULE_MAX_LAYERS:
    case WINDOW_RULE_LAST:
        return p->all && layer >= p->first;
    case WINDOW_RULE_EVEN:
        return p->all && layer < p->first && layer % 2 == 0;
    case WINDOW_RULE_PATTERN:
        if (!p->all || !p->pattern) return false;
        if (p->letters) return p->letters[(size_t)layer % strlen(p->letters)] == 'L';
        return (layer + 1) % p->pattern != 0;
    case WINDOW_RULE_NO_ROPE:
        return p->all && !p->has_rope[layer];
    case WINDOW_RULE_CHUNKS:
        return p->all && p->has_rope[layer];
    }
    return false;
}

static void check_layer_types(config_reader *r, const json_value *types, int64_t n_layers) {
    if (types->kind != JSON_KIND_ARRAY || (int64_t)types->n != n_layers) {
        r->st = mica_fail(r->err, MICA_E_FORMAT,
                          "%s: config.json: layer_types has %zu entries; expected one for each of "
                          "%lld layers",
                          r->where, types->kind == JSON_KIND_ARRAY ? types->n : (size_t)0,
                          (long long)n_layers);
        return;
    }
    for (size_t i = 0; i < types->n; i++) {
        const char *type = mica_json_string(types->items[i], NULL);
        if (type && r->arch->mixers >= MIXERS_MAMBA2) continue; /* config_ssm.c knows them */
        const char *const others[] = {[MIXERS_ATTENTION] = local_kind(r->arch),
                                      [MIXERS_DELTA] = "linear_attention",
                                      [MIXERS_DELTA_FUSED] = "linear_attention",
                                      [MIXERS_CONV] = "conv"};
        const char *other = others[r->arch->mixers];
        if (type && (!strcmp(type, "full_attention") || !strcmp(type, other))) continue;
        r->st = mica_fail(r->err, MICA_E_UNSUPPORTED,
                          "%s: config.json: layer_types[%zu] is \"%s\"; %s has full_attention and "
                          "%s",
                          r->where, i, type ? type : "no string", r->arch->name, other);
        return;
    }
}

static bool is_null(const config_reader *r, const char *key) {
    return mica_json_find(r->text, key) && !mica_json_find_set(r->text, key);
}

/* A pattern without a window, or a window without a pattern: which layers were meant to slide? Only
 * where layers lose their rope with the window (exaone4); the others have defaults for both. */
static void check_pattern(config_reader *r, const window_plan *p) {
    bool has_pattern = p->letters || mica_json_find_set(r->text, "sliding_window_pattern");
    if (r->st || p->types || r->arch->no_rope != NO_ROPE_GLOBAL || !has_pattern) return;
    if (p->all && !p->pattern)
        r->st = mica_fail(r->err, MICA_E_FORMAT,
                          "%s: config.json: \"sliding_window_pattern\" is 0, but there is a "
                          "\"sliding_window\" and no layer_types",
                          r->where);
    if (!p->all && p->pattern)
        r->st = mica_fail(r->err, MICA_E_FORMAT,
                          "%s: config.json: there is a \"sliding_window_pattern\", but "
                          "\"sliding_window\" is null or 0",
                          r->where);
}

/* sliding_window_pattern: a count, or letters. Where layers lose their rope with the window
 * (exaone4) a pattern of null means no window. */
static void read_pattern(config_reader *r, window_plan *p) {
    const char *key = "sliding_window_pattern";
    const json_value *v = mica_json_find_set(r->text, key);
    if (is_null(r, key) && !p->types && r->arch->no_rope == NO_ROPE_GLOBAL) p->all = false;
    if (v && v->kind == JSON_KIND_STRING) {
        p->letters = v->string;
        if (!v->n || strspn(v->string, "LG") != v->n)
            r->st = mica_fail(r->err, MICA_E_FORMAT,
                              "%s: config.json: \"%s\" is \"%.40s\"; expected a number or the "
                              "letters L and G",
                              r->where, key, v->string);
        return;
    }
    p->pattern = mica_config_integer(r, r->text, "_sliding_window_pattern", r->arch->window_pattern,
                                     1, CONFIG_MAX_COUNT);
    int64_t least = r->arch->no_rope == NO_ROPE_GLOBAL ? 0 : 1;
    p->pattern = mica_config_integer(r, r->text, key, p->pattern, least, CONFIG_MAX_COUNT);
}

/* Absent: what Transformers' configuration classes assume. */
static int64_t read_max_window_layers(config_reader *r, int64_t fallback) {
    return mica_config_integer(r, r->text, "max_window_layers", fallback, 0, CONFIG_MAX_COUNT);
}

static window_plan read_plan(config_reader *r, const model_config *c, int32_t window,
                             const bool *has_rope) {
    window_plan p = {.types = mica_json_find_set(r->text, "layer_types"),
                     .pattern = 1,
                     .has_rope = has_rope,
                     .all = window != 0};
    if (p.types) check_layer_types(r, p.types, c->n_layers);
    switch (r->arch->windows) {
    case WINDOW_RULE_NONE:
    case WINDOW_RULE_ALL:
    case WINDOW_RULE_CHUNKS:
        break;
    case WINDOW_RULE_NO_ROPE:
    case WINDOW_RULE_USED:
        p.all = mica_config_flag(r, r->text, "use_sliding_window", false) && window > 0;
        break;
    case WINDOW_RULE_MAX_LAYERS:
    case WINDOW_RULE_EVEN:
        p.all = mica_config_flag(r, r->text, "use_sliding_window", false) && window > 0;
        p.first = read_max_window_layers(r, 28);
        break;
    case WINDOW_RULE_LAST:
        p.first = read_max_window_layers(r, 62);
        break;
    case WINDOW_RULE_PATTERN:
        read_pattern(r, &p);
        check_pattern(r, &p);
        break;
    }
    return p;
}

/* no_rope_layers has 1 where there is rope; without it every interval-th layer has none. */
static void read_no_rope(config_reader *r, int64_t n_layers, bool *has_rope) {
    for (int64_t i = 0; i < n_layers; i++)
        has_rope[i] = r->arch->no_rope < NO_ROPE_ALL;
    if (r->arch->no_rope != NO_ROPE_LIST) return;
    int64_t interval = mica_config_integer(r, r->text, "no_rope_layer_interval", 4, 1, INT32_MAX);
    const json_value *list = mica_json_find_set(r->text, "no_rope_layers");
    bool is_empty = list && list->kind == JSON_KIND_ARRAY && !list->n;
    if (is_empty && r->arch->windows == WINDOW_RULE_CHUNKS) list = NULL;
    if (list && (list->kind != JSON_KIND_ARRAY || (int64_t)list->n != n_layers)) {
        r->st = mica_fail(r->err, MICA_E_FORMAT,
                          "%s: config.json: \"no_rope_layers\" has %zu entries; expected one for "
                          "each of %lld layers",
                          r->where, list->kind == JSON_KIND_ARRAY ? list->n : (size_t)0,
                          (long long)n_layers);
        return;
    }
    for (int64_t i = 0; i < n_layers && !r->st; i++) {
        has_rope[i] = list ? mica_json_i64(list->items[i], 1) != 0 : (i + 1) % interval != 0;
        if (list && list->items[i]->kind != JSON_KIND_INT)
            r->st = mica_fail(r->err, MICA_E_FORMAT,
                              "%s: config.json: \"no_rope_layers\"[%lld] must be 0 or 1", r->where,
                              (long long)i);
    }
}

/* The table that a layer's rope uses, or MODEL_NO_ROPE. */
static uint8_t rope_of(const config_reader *r, const model_config *c, int64_t layer, bool has_rope,
                       bool has_window) {
    bool sliding = c->window[layer] > 0;
    no_rope_rule rule = r->arch->no_rope;
    if (!has_rope || (rule == NO_ROPE_FULL && !sliding) ||
        (rule == NO_ROPE_GLOBAL && !sliding && has_window))
        return MODEL_NO_ROPE;
    return sliding && c->n_ropes > 1;
}

/* Chunks are told from windows by their sign. A window of null is none, but where the reference
 * could not run without one. */
static int32_t read_window(config_reader *r) {
    const char *key = local_key(r->arch);
    bool chunks = r->arch->windows == WINDOW_RULE_CHUNKS;
    bool must_have = r->arch->windows == WINDOW_RULE_PATTERN && r->arch->no_rope != NO_ROPE_GLOBAL;
    if (is_null(r, key) && !must_have) return 0;
    int64_t n = mica_config_integer(r, r->text, key, r->arch->sliding_window, 0, CONFIG_MAX_COUNT);
    return (int32_t)(chunks ? -n : n);
}

/* attn_temperature_tuning is a flag, or a number that counts as one. */
static void read_tuning(config_reader *r, model_config *c) {
    const json_value *v = mica_json_find_set(r->text, "attn_temperature_tuning");
    if (!r->arch->tunes_bare_layers) return;
    bool is_number = v && mica_json_is_number(v);
    bool on = is_number ? mica_json_double(v, 0.0) != 0.0
                        : mica_config_flag(r, r->text, "attn_temperature_tuning", true);
    if (!on) return;
    c->query_boost = (float)mica_config_number(r, r->text, "attn_scale", 0.1);
    c->query_boost_length =
        (int32_t)mica_config_integer(r, r->text, "floor_scale", 8192, 1, CONFIG_MAX_COUNT);
    c->query_boost_offset = 1;
    c->boosts_bare_only = true;
}

void mica_config_read_windows(config_reader *r, model_config *c) {
    if (r->st) return;
    int32_t window = read_window(r);
    read_tuning(r, c);
    bool has_rope[MODEL_MAX_LAYERS];
    read_no_rope(r, c->n_layers, has_rope);
    window_plan p = read_plan(r, c, window, has_rope);
    for (int64_t i = 0; !r->st && i < c->n_layers; i++) {
        bool sliding = slides(r->arch, &p, i);
        c->window[i] = sliding ? window : 0;
        c->rope_of_layer[i] = rope_of(r, c, i, has_rope[i], p.all);
        if (sliding && !window && p.types)
            r->st = mica_fail(r->err, MICA_E_FORMAT,
                              "%s: config.json: layer_types[%lld] is %s, but \"%s\" is missing "
                              "or 0",
                              r->where, (long long)i, local_kind(r->arch), local_key(r->arch));
    }
}

typedef enum refuse_kind { REFUSE_UNLESS, REFUSE_ABOVE, REFUSE_SET } refuse_kind;

/* Numbers and flags (false 0, true 1). UNLESS: another value than `neutral`; ABOVE: a greater
 * one; SET: any value. */
static const struct {
    const char *key;
    refuse_kind kind;
    double neutral;
} refused[] = {
    {"alibi", REFUSE_UNLESS, 0},
    {"attention_sinks", REFUSE_UNLESS, 0},
    {"attention_chunk_size", REFUSE_SET, 0},
    {"attention_k_eq_v", REFUSE_UNLESS, 0},
    {"attention_multiplier", REFUSE_SET, 0},
    {"attn_output_gate", REFUSE_UNLESS, 0},
    {"attn_temperature_tuning", REFUSE_UNLESS, 0},
    {"block_configs", REFUSE_SET, 0},
    {"clip_qkv", REFUSE_SET, 0},
    {"embedding_multiplier", REFUSE_UNLESS, 1},
    {"enable_moe_block", REFUSE_UNLESS, 0},
    {"hidden_size_per_layer_input", REFUSE_ABOVE, 0},
    {"is_causal", REFUSE_UNLESS, 1},
    {"kv_lora_rank", REFUSE_SET, 0},
    {"llama_4_scaling_beta", REFUSE_UNLESS, 0},
    {"logit_scale", REFUSE_UNLESS, 1},
    {"logits_scaling", REFUSE_UNLESS, 1},
    {"no_rope_layers", REFUSE_SET, 0},
    {"num_kv_shared_layers", REFUSE_ABOVE, 0},
    {"parallel_attn", REFUSE_UNLESS, 0},
    {"parallel_residual", REFUSE_UNLESS, 0},
    {"qk_layernorm", REFUSE_UNLESS, 0},
    {"residual_multiplier", REFUSE_UNLESS, 1},
    {"residual_scale", REFUSE_UNLESS, 1},
    {"rope_interleaved", REFUSE_UNLESS, 0},
    {"rotary_interleaved", REFUSE_UNLESS, 0},
    {"rotary_pct", REFUSE_UNLESS, 1},
    {"add_cross_attention", REFUSE_UNLESS, 0},
    {"scale_attn_by_inverse_layer_idx", REFUSE_UNLESS, 0},
    {"scale_attn_weights", REFUSE_UNLESS, 1},
    {"scale_depth", REFUSE_SET, 0},
    {"scale_emb", REFUSE_UNLESS, 1},
    {"use_alibi", REFUSE_UNLESS, 0},
    {"use_bidirectional_attention", REFUSE_UNLESS, 0},
    {"use_mrope", REFUSE_UNLESS, 0},
    {"use_parallel_residual", REFUSE_UNLESS, 0},
};

/* The value for a message: "true", "3", "0.5", or its kind. */
static void value_text(const json_value *v, char *out, size_t n) {
    if (v->kind == JSON_KIND_BOOL)
        snprintf(out, n, "%s", v->boolean ? "true" : "false");
    else if (mica_json_is_number(v))
        snprintf(out, n, "%g", mica_json_double(v, 0.0));
    else if (v->kind == JSON_KIND_STRING)
        snprintf(out, n, "\"%.40s\"", v->string);
    else
        snprintf(out, n, "%s", v->kind == JSON_KIND_ARRAY ? "[...]" : "{...}");
}

void mica_config_refuse(config_reader *r, const char *key, const json_value *v) {
    char text[64];
    if (r->st) return;
    value_text(v, text, sizeof(text));
    r->st =
        mica_fail(r->err, MICA_E_UNSUPPORTED, "%s: config.json: \"%s\": %s is not supported for %s",
                  r->where, key, text, r->arch->name);
}

static bool is_refused(const json_value *v, refuse_kind kind, double neutral) {
    if (kind == REFUSE_SET) return true;
    if (v->kind != JSON_KIND_BOOL && !mica_json_is_number(v)) return true;
    double x = v->kind == JSON_KIND_BOOL ? (double)v->boolean : mica_json_double(v, 0.0);
    return kind == REFUSE_ABOVE ? !(x <= neutral) : x != neutral;
}

static bool reads(const arch *a, const char *key) {
    for (size_t i = 0; i < sizeof(a->reads) / sizeof(a->reads[0]) && a->reads[i]; i++)
        if (!strcmp(a->reads[i], key)) return true;
    return false;
}

void mica_config_refuse_unknown(config_reader *r) {
    for (size_t i = 0; !r->st && i < sizeof(refused) / sizeof(refused[0]); i++) {
        const json_value *v = mica_json_find_set(r->text, refused[i].key);
        if (v && !reads(r->arch, refused[i].key) &&
            is_refused(v, refused[i].kind, refused[i].neutral))
            mica_config_refuse(r, refused[i].key, v);
    }
    static const char *const softcaps[] = {"attn_logit_softcapping", "final_logit_softcapping"};
    for (size_t i = 0; !r->st && i < 2; i++) {
        const json_value *v = mica_json_find_set(r->text, softcaps[i]);
        if (v && !r->arch->reads_softcaps && is_refused(v, REFUSE_UNLESS, 0))
            mica_config_refuse(r, softcaps[i], v);
    }
    static const char *const qk_norms[] = {"use_qk_norm", "qk_norm"};
    for (size_t i = 0; !r->st && i < 2; i++) {
        const json_value *v = mica_json_find_set(r->text, qk_norms[i]);
        if (v && !reads(r->arch, qk_norms[i]) &&
            is_refused(v, REFUSE_UNLESS, r->arch->qk_norm != QK_NORM_NONE))
            mica_config_refuse(r, qk_norms[i], v);
    }
    const json_value *kind = mica_json_find_set(r->text, "norm_type");
    const char *name = mica_json_string(kind, kind ? "?" : "rmsnorm");
    if (!r->st && strcmp(name, "rmsnorm") && strcmp(name, "rms_norm") && strcmp(name, "rms"))
        mica_config_refuse(r, "norm_type", kind);
}
