/* config.c: config.json to model_config.
 *
 * Architecture keys are read from text_config when the document has one; JSON null counts as
 * absent. Rope keys (config_rope.c), windows (config_layers.c) and the refusal of keys that would
 * change the mathematics (config_refuse.c) have files of their own.
 */
#include "model/config.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static void fail_key(config_reader *r, const char *key, const char *expected) {
    if (r->st) return;
    r->st = mica_fail(r->err, MICA_E_FORMAT, "%s: config.json: \"%s\" must be %s", r->where, key,
                      expected);
}

int64_t mica_config_integer(config_reader *r, const json_value *object, const char *key,
                            int64_t fallback, int64_t least, int64_t most) {
    const json_value *v = mica_json_find_set(object, key);
    if (r->st || !v) return fallback;
    int64_t x = mica_json_i64(v, INT64_MIN);
    if (x >= least && x <= most) return x;
    char found[64] = "no whole number";
    if (x != INT64_MIN) snprintf(found, sizeof(found), "%lld", (long long)x);
    r->st = mica_fail(r->err, MICA_E_FORMAT,
                      "%s: config.json: \"%s\" is %s; expected a whole number from %lld to %lld",
                      r->where, key, found, (long long)least, (long long)most);
    return fallback;
}

double mica_config_number(config_reader *r, const json_value *object, const char *key,
                          double fallback) {
    const json_value *v = mica_json_find_set(object, key);
    if (r->st || !v) return fallback;
    double x = mica_json_is_number(v) ? mica_json_double(v, 0.0) : NAN;
    if (fabs(x) <= (double)FLT_MAX) return x; /* it becomes a float */
    fail_key(r, key, "a finite number");
    return fallback;
}

bool mica_config_flag(config_reader *r, const json_value *object, const char *key, bool fallback) {
    const json_value *v = mica_json_find_set(object, key);
    if (r->st || !v) return fallback;
    if (v->kind == JSON_KIND_BOOL) return v->boolean;
    if (v->kind == JSON_KIND_INT && (v->integer == 0 || v->integer == 1)) return v->integer == 1;
    fail_key(r, key, "true or false");
    return fallback;
}

const char *mica_config_string(config_reader *r, const json_value *object, const char *key,
                               const char *fallback) {
    const json_value *v = mica_json_find_set(object, key);
    if (r->st || !v) return fallback;
    if (v->kind == JSON_KIND_STRING) return v->string;
    fail_key(r, key, "a string");
    return fallback;
}

/* A key by the family's own name, unless the config has the usual one instead. */
static const char *key_of(const config_reader *r, const char *own, const char *usual) {
    if (!own) return usual;
    bool other = usual && mica_json_find_set(r->text, usual) && !mica_json_find_set(r->text, own);
    return other ? usual : own;
}
#define KEY(r, field, usual) key_of(r, (r)->keys ? (r)->keys->field : NULL, usual)

/* A size of the model: at least 1; `fallback` 0 means that the key is required. */
static int64_t want_size(config_reader *r, const char *key, int64_t fallback, int64_t most) {
    if (!r->st && !fallback && !mica_json_find_set(r->text, key))
        r->st = mica_fail(r->err, MICA_E_FORMAT, "%s: config.json has no \"%s\", which %s needs",
                          r->where, key, r->arch->name);
    return mica_config_integer(r, r->text, key, fallback, 1, most);
}

static void read_sizes(config_reader *r, model_config *c, config_facts *facts) {
    const arch_defaults *d = r->defaults;
    c->hidden_size =
        want_size(r, KEY(r, hidden_size, "hidden_size"), d->hidden_size, CONFIG_MAX_WIDTH);
    c->n_layers =
        want_size(r, KEY(r, n_layers, "num_hidden_layers"), d->n_layers, CONFIG_MAX_COUNT);
    c->n_layers = mica_config_n_layers(r, c->n_layers);
    int64_t wide = d->wide_mlp ? d->wide_mlp * c->hidden_size : d->intermediate_size;
    if (r->arch->gemma)
        c->intermediate_size = mica_config_first_width(r, "intermediate_size", wide);
    else
        c->intermediate_size =
            want_size(r, KEY(r, intermediate_size, "intermediate_size"), wide, CONFIG_MAX_WIDTH);
    c->n_heads = want_size(r, KEY(r, n_heads, "num_attention_heads"), d->n_heads, CONFIG_MAX_WIDTH);
    int64_t n_kv = d->n_kv_heads ? d->n_kv_heads : c->n_heads;
    c->n_kv_heads =
        mica_config_integer(r, r->text, "num_key_value_heads", n_kv, 1, CONFIG_MAX_WIDTH);
    c->vocab_size = want_size(r, "vocab_size", d->vocab_size, CONFIG_MAX_COUNT);
    c->max_positions =
        mica_config_integer(r, r->text, KEY(r, max_positions, "max_position_embeddings"),
                            r->arch->max_positions, 1, CONFIG_MAX_COUNT);
    facts->has_vocab_size = mica_json_find_set(r->text, "vocab_size") != NULL;
    /* 0 counts as absent here alone: published files hold it */
    facts->head_dim = mica_config_integer(r, r->text, "head_dim", d->head_dim, 0, CONFIG_MAX_WIDTH);
    if (!r->st && c->n_layers > MODEL_MAX_LAYERS)
        r->st = mica_fail(r->err, MICA_E_UNSUPPORTED,
                          "%s: config.json: num_hidden_layers is %lld; at most %d are supported",
                          r->where, (long long)c->n_layers, MODEL_MAX_LAYERS);
    if (r->st) return;
    c->head_dim = facts->head_dim ? facts->head_dim : c->hidden_size / c->n_heads;
}

static void read_eps(config_reader *r, model_config *c) {
    double fallback = r->defaults->rms_norm_eps;
    const char *key = KEY(r, rms_norm_eps, "rms_norm_eps");
    if (!r->st && fallback == 0.0 && !mica_json_find_set(r->text, key))
        r->st = mica_fail(r->err, MICA_E_FORMAT, "%s: config.json has no \"%s\", which %s needs",
                          r->where, key, r->arch->name);
    double eps = mica_config_number(r, r->text, key, fallback);
    /* the first pass over a canvas norms a signal of zeros */
    bool norms_zeros = r->arch->gemma == GEMMA_DIFFUSION;
    if (norms_zeros ? !((float)eps > 0.0f) : eps < 0.0)
        fail_key(r, key, norms_zeros ? "above 0" : "0 or more");
    c->rms_norm_eps = (float)eps;
}

/* A multiplier; 1 counts as none, so that it costs no operation. */
static double multiplier(config_reader *r, const char *key, double fallback) {
    double x = mica_config_number(r, r->text, key, fallback);
    if (!(x > 0.0)) fail_key(r, key, "above 0");
    return x == 1.0 ? 0.0 : x;
}

static void read_multipliers(config_reader *r, model_config *c, config_facts *facts) {
    double divisor, depth;
    switch (r->arch->scales) {
    case SCALES_NONE:
        break;
    case SCALES_GRANITE:
        facts->embed_multiplier = multiplier(r, "embedding_multiplier", 1.0);
        c->residual_multiplier = (float)multiplier(r, "residual_multiplier", 1.0);
        facts->attention_multiplier = mica_config_number(r, r->text, "attention_multiplier", 1.0);
        if (facts->attention_multiplier <= 0.0) fail_key(r, "attention_multiplier", "above 0");
        divisor = multiplier(r, "logits_scaling", 1.0);
        if (divisor != 0.0) c->logit_multiplier = (float)(1.0 / divisor);
        break;
    case SCALES_MINICPM:
        facts->embed_multiplier = multiplier(r, "scale_emb", 1.0);
        depth = mica_config_number(r, r->text, "scale_depth", 1.0);
        if (depth <= 0.0) fail_key(r, "scale_depth", "above 0");
        c->residual_multiplier = (float)(depth / sqrt((double)c->n_layers));
        /* no default: the reference's, 1, fits no published model */
        facts->dim_model_base = mica_config_number(r, r->text, "dim_model_base", 0.0);
        if (facts->dim_model_base <= 0.0) fail_key(r, "dim_model_base", "there, and above 0");
        c->head_multiplier = (float)(facts->dim_model_base / (double)c->hidden_size);
        break;
    case SCALES_COHERE:
        c->logit_multiplier = (float)multiplier(r, "logit_scale", r->arch->logit_scale);
        break;
    case SCALES_FALCON:
        mica_config_read_branches(r, c, facts);
        break;
    }
}

/* A cap of null is none, as in the reference; only an absent one has a default. */
static float read_softcap(config_reader *r, const char *key, float fallback) {
    const json_value *v = mica_json_find(r->text, key);
    if (v && v->kind == JSON_KIND_NULL) return 0.0f;
    float cap = (float)mica_config_number(r, r->text, key, (double)fallback);
    if (cap < 0.0f) fail_key(r, key, "0 or more");
    return cap;
}

static void read_scales(config_reader *r, model_config *c, config_facts *facts) {
    const arch *a = r->arch;
    read_multipliers(r, c, facts);
    if (a->reads_clip_qkv) {
        c->clip_qkv = (float)mica_config_number(r, r->text, "clip_qkv", 0.0);
        if (c->clip_qkv < 0.0f) fail_key(r, "clip_qkv", "0 or more");
    }
    if (a->query_scalar > 0.0) {
        facts->query_scalar =
            mica_config_number(r, r->text, "query_pre_attn_scalar", a->query_scalar);
        if (facts->query_scalar <= 0.0) fail_key(r, "query_pre_attn_scalar", "above 0");
    }
    if (!a->reads_softcaps) return;
    c->attention_softcap = read_softcap(r, "attn_logit_softcapping", a->attention_softcap);
    c->final_softcap = read_softcap(r, "final_logit_softcapping", a->final_softcap);
}

/* A key of the text model that may stand in the outer document instead. */
static const json_value *holder(const config_reader *r, const char *key) {
    return mica_json_find_set(r->text, key) ? r->text : r->raw;
}

static void read_flags(config_reader *r, model_config *c, config_facts *facts,
                       const model_kind *kind) {
    const char *key = KEY(r, tied, "tie_word_embeddings");
    bool fallback = r->arch->tie != TIE_RULE_FALSE && r->arch->tie != TIE_RULE_NEVER;
    /* a Mistral-3 wrapper is untied by default although its text model alone would be tied */
    if (kind->wrapped && r->arch->tie == TIE_RULE_TRUE) fallback = false;
    facts->has_tie = mica_json_find_set(holder(r, key), key) != NULL;
    facts->tie = mica_config_flag(r, holder(r, key), key, fallback);
    c->tied = facts->tie;
    c->rope_traditional = r->arch->rope_traditional;
    if (r->arch->reads_rope_traditional)
        c->rope_traditional = mica_config_flag(r, r->text, "rope_traditional", c->rope_traditional);
    c->learned_positions = r->arch->no_rope == NO_ROPE_ALL;
}

static void read_biases(config_reader *r, config_facts *facts) {
    static const char *const keys[BIAS_RULE_N] = {
        [BIAS_RULE_ATTENTION_KEY] = "attention_bias",
        [BIAS_RULE_MLP_KEY] = "mlp_bias",
        [BIAS_RULE_USE_KEY] = "use_bias",
        [BIAS_RULE_BIAS_KEY] = "bias",
        [BIAS_RULE_QKV_KEY] = "qkv_bias",
        [BIAS_RULE_USE_QKV_KEY] = "use_qkv_bias",
        [BIAS_RULE_OUT_KEY] = "attention_out_bias",
    };
    /* Transformers writes internlm3's keys under the names that llama has for them */
    static const bias_rule others[BIAS_RULE_N] = {
        [BIAS_RULE_BIAS_KEY] = BIAS_RULE_MLP_KEY, [BIAS_RULE_QKV_KEY] = BIAS_RULE_ATTENTION_KEY};
    for (int rule = 0; rule < BIAS_RULE_N; rule++) {
        if (!keys[rule]) continue;
        bool fallback = r->arch->bias_defaults >> rule & 1u;
        if (others[rule]) fallback = mica_config_flag(r, r->text, keys[others[rule]], fallback);
        facts->bias[rule] = mica_config_flag(r, r->text, keys[rule], fallback);
    }
}

static const struct {
    const char *name;
    mlp_act act;
} act_names[] = {
    {"silu", ACT_SILU},          {"swish", ACT_SILU},          {"gelu", ACT_GELU},
    {"gelu_new", ACT_GELU_TANH}, {"gelu_fast", ACT_GELU_TANH}, {"gelu_pytorch_tanh", ACT_GELU_TANH},
    {"relu2", ACT_RELU2},        {"xielu", ACT_XIELU},         {"swiglu", ACT_SILU},
};

static bool find_act(const char *name, mlp_act *out) {
    for (size_t i = 0; i < sizeof(act_names) / sizeof(act_names[0]); i++) {
        if (strcmp(act_names[i].name, name) != 0) continue;
        *out = act_names[i].act;
        return true;
    }
    return false;
}

/* Where the family fixes the activation, a key must say the same. Old Gemma files say gelu and mean
 * the tanh form. */
static void check_act(config_reader *r, const char *key) {
    static const char *const usual[] = {[ACT_SILU] = "silu",
                                        [ACT_GELU_TANH] = "gelu_pytorch_tanh",
                                        [ACT_GELU] = "gelu",
                                        [ACT_RELU2] = "relu2",
                                        [ACT_XIELU] = "xielu"};
    mlp_act act, own = r->arch->act;
    const char *name = mica_config_string(r, r->text, key, usual[own]);
    bool is_gemma = r->arch->embed != EMBED_PLAIN;
    if (r->st || (find_act(name, &act) && (act == own || (is_gemma && act == ACT_GELU)))) return;
    r->st =
        mica_fail(r->err, MICA_E_UNSUPPORTED,
                  "%s: config.json: \"%s\": \"%.40s\" is not supported for %s, which has \"%s\"",
                  r->where, key, name, r->arch->name, usual[own]);
}

static void read_act(config_reader *r, config_facts *facts) {
    const char *key = KEY(r, act, NULL);
    facts->act = r->arch->act;
    if (!key) {
        check_act(r, "hidden_act");
        check_act(r, "hidden_activation");
        return;
    }
    const char *name = mica_config_string(r, r->text, key, NULL);
    bool lacks_gate = name && r->arch->is_plain_mlp && !strcmp(name, "swiglu");
    if (!name || r->st || (!lacks_gate && find_act(name, &facts->act))) return;
    r->st = mica_fail(r->err, MICA_E_UNSUPPORTED,
                      "%s: config.json: \"%s\": \"%.40s\" is not supported for %s; known are silu, "
                      "gelu, gelu_new, gelu_fast, gelu_pytorch_tanh, relu2 and xielu",
                      r->where, key, name, r->arch->name);
}

/* Parts of the block that a flag switches. */
static void read_structure(config_reader *r, config_facts *facts) {
    const arch *a = r->arch;
    bool parallel =
        a->parallel_key && mica_config_flag(r, r->text, a->parallel_key, a->is_parallel);
    facts->block = parallel ? a->parallel_block : a->block;
    bool has_norm = !a->qk_norm_key || mica_config_flag(r, r->text, a->qk_norm_key, a->has_qk_norm);
    facts->qk_norm = has_norm ? a->qk_norm : QK_NORM_NONE;
    read_biases(r, facts);
    read_act(r, facts);
}

static void add_eos(model_config *c, int64_t id) {
    int32_t known = (int32_t)(sizeof(c->eos_ids) / sizeof(c->eos_ids[0]));
    if (id < 0 || id > INT32_MAX || c->n_eos >= known) return;
    for (int i = 0; i < c->n_eos; i++)
        if (c->eos_ids[i] == id) return;
    c->eos_ids[c->n_eos++] = (int32_t)id;
}

/* A number or a list of numbers; false: anything else. */
static bool add_eos_value(model_config *c, const json_value *v) {
    if (!v) return true;
    if (v->kind == JSON_KIND_INT) {
        add_eos(c, v->integer);
        return true;
    }
    if (v->kind != JSON_KIND_ARRAY) return false;
    for (size_t i = 0; i < v->n; i++) {
        if (v->items[i]->kind != JSON_KIND_INT) return false;
        add_eos(c, v->items[i]->integer);
    }
    return true;
}

/* The union of all files; the tokenizer's own id joins in the engine. */
static void read_end_tokens(config_reader *r, const json_value *generation, model_config *c) {
    const char *key = "eos_token_id";
    if (!add_eos_value(c, mica_json_find_set(r->raw, key)) ||
        !add_eos_value(c, mica_json_find_set(r->text, key)))
        fail_key(r, key, "a token id or a list of token ids");
    add_eos_value(c, mica_json_find_set(generation, key)); /* malformed: ignored */
    const char *bos = "bos_token_id";
    c->bos_id = (int32_t)mica_config_integer(r, holder(r, bos), bos, -1, -1, CONFIG_MAX_COUNT);
}

mica_status mica_config_check(const model_config *c, const char *where, mica_error *err) {
    if (c->n_heads % c->n_kv_heads)
        return mica_fail(err, MICA_E_FORMAT,
                         "%s: %lld attention heads cannot share %lld key/value heads evenly", where,
                         (long long)c->n_heads, (long long)c->n_kv_heads);
    if (c->head_dim < 2 || c->head_dim % 2)
        return mica_fail(err, MICA_E_FORMAT,
                         "%s: head_dim is %lld; rotary embedding needs an even number", where,
                         (long long)c->head_dim);
    if (c->n_heads > CONFIG_MAX_WIDTH / c->head_dim)
        return mica_fail(
            err, MICA_E_FORMAT, "%s: %lld heads of %lld channels are more than %lld in all", where,
            (long long)c->n_heads, (long long)c->head_dim, (long long)CONFIG_MAX_WIDTH);
    return MICA_OK;
}

mica_status mica_config_read(const config_source *source, const model_kind *kind, const arch *a,
                             mica_arena *arena, model_config *out, config_facts *facts,
                             mica_error *err) {
    static const arch_defaults none;
    const json_value *text = mica_json_find_set(source->config, "text_config");
    const arch_defaults *defaults = kind->wrapped ? a->wrapper_defaults : a->defaults;
    config_reader r = {.raw = source->config,
                       .text = text ? text : source->config,
                       .where = source->where,
                       .arch = a,
                       .defaults = defaults ? defaults : &none,
                       .keys = a->keys,
                       .text_type = kind->text_type,
                       .arena = arena,
                       .err = err};
    if (a->old_keys && mica_json_find_set(r.text, a->old_keys->hidden_size) &&
        !mica_json_find_set(r.text, "hidden_size"))
        r.keys = a->old_keys;
    *out = (model_config){0};
    *facts = (config_facts){.arch = a, .where = source->where};
    memcpy(out->model_type, kind->file_type, sizeof(out->model_type));
    snprintf(out->arch, sizeof(out->arch), "%s", a->name);
    read_sizes(&r, out, facts);
    read_eps(&r, out);
    read_scales(&r, out, facts);
    read_flags(&r, out, facts, kind);
    read_structure(&r, facts);
    read_end_tokens(&r, source->generation_config, out);
    mica_config_read_mla(&r, out);
    mica_config_read_ropes(&r, out, facts);
    mica_config_read_windows(&r, out);
    mica_config_read_gemma(&r, out, facts);
    mica_config_read_diffusion(&r, source->generation_config, out);
    mica_config_read_moe(&r, out);
    mica_config_read_mixers(&r, out);
    mica_config_read_encoder(&r, out);
    out->gates_attention = a->gates_attention;
    mica_config_refuse_unknown(&r);
    return r.st;
}
