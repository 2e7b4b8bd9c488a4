/* config_rope.c: the rope keys of config.json, in their three spellings, to rope_config.
 *
 * (a) rope_theta with an optional rope_scaling; (b) one flat rope_parameters with both in it;
 * (c) rope_parameters with an entry for each kind of layer. Normalized once, here: a theta that
 * stands in rope_parameters alone must never be replaced by a default in silence.
 */
#include "model/config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The normalized keys of one document. */
typedef struct rope_keys {
    const json_value *flat;    /* rope_parameters, or its full_attention entry; may be NULL */
    const json_value *sliding; /* its sliding_attention entry; may be NULL */
    const json_value *scaling; /* the scaling dict; NULL: none */
} rope_keys;

static void fail_rope(config_reader *r, mica_status code, const char *key, const char *what) {
    if (r->st) return;
    r->st = mica_fail(r->err, code, "%s: config.json: \"%s\" %s", r->where, key, what);
}

/* `type` wins over `rope_type`; an empty one is ignored. */
static const char *scaling_type(config_reader *r, const json_value *dict) {
    const char *type = mica_config_string(r, dict, "type", "");
    if (!*type) type = mica_config_string(r, dict, "rope_type", "");
    return *type ? type : "default";
}

static bool has_object(const json_value *v) {
    if (!v || v->kind != JSON_KIND_OBJECT) return false;
    for (size_t i = 0; i < v->n; i++)
        if (v->members[i].value->kind == JSON_KIND_OBJECT) return true;
    return false;
}

static rope_keys normalize(config_reader *r) {
    rope_keys k = {0};
    const json_value *parameters = mica_json_find_set(r->text, "rope_parameters");
    if (parameters && parameters->kind != JSON_KIND_OBJECT)
        fail_rope(r, MICA_E_FORMAT, "rope_parameters", "must be an object");
    if (has_object(parameters)) {
        k.flat = mica_json_find_set(parameters, "full_attention");
        k.sliding = mica_json_find_set(parameters, "sliding_attention");
        if (!k.flat || k.flat->kind != JSON_KIND_OBJECT)
            fail_rope(r, MICA_E_FORMAT, "rope_parameters", "has no full_attention entry");
        if (k.sliding && k.sliding->kind != JSON_KIND_OBJECT)
            fail_rope(r, MICA_E_FORMAT, "rope_parameters.sliding_attention", "must be an object");
    } else {
        k.flat = parameters;
    }
    k.scaling = mica_json_find_set(r->text, "rope_scaling");
    if (k.scaling && k.scaling->kind != JSON_KIND_OBJECT)
        fail_rope(r, MICA_E_FORMAT, "rope_scaling", "must be an object");
    if (!k.scaling && !r->st && strcmp(scaling_type(r, k.flat), "default") != 0) k.scaling = k.flat;
    return k;
}

static bool is_any(const char *type, const char *a, const char *b, const char *c) {
    return !strcmp(type, a) || !strcmp(type, b) || !strcmp(type, c);
}

static bool is_yarn(const char *type) {
    return is_any(type, "yarn", "deepseek_yarn", "telechat3-yarn");
}

static double want_factor(config_reader *r, const json_value *dict, const rope_config *rope) {
    if (!r->st && !mica_json_find_set(dict, "factor"))
        r->st =
            mica_fail(r->err, MICA_E_FORMAT, "%s: config.json: rope type \"%s\" needs a \"factor\"",
                      r->where, rope->type);
    double factor = mica_config_number(r, dict, "factor", 1.0);
    if (factor <= 0.0) fail_rope(r, MICA_E_FORMAT, "factor", "of the rope must be above 0");
    return factor;
}

/* A list of factors, or one number, which stands for an array of one. */
static const float *want_factors(config_reader *r, const json_value *dict, const char *key,
                                 int64_t *n) {
    const json_value *v = mica_json_find_set(dict, key);
    bool is_list = v && v->kind == JSON_KIND_ARRAY && v->n > 0;
    *n = 0;
    if (r->st) return NULL;
    if (!is_list && !mica_json_is_number(v)) {
        fail_rope(r, MICA_E_FORMAT, key, "of longrope must be a list of numbers");
        return NULL;
    }
    size_t count = is_list ? v->n : 1;
    float *out = mica_arena_calloc(r->arena, count, sizeof(*out));
    if (!out) {
        r->st = mica_fail(r->err, MICA_E_NOMEM, "%s: out of memory", r->where);
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        const json_value *item = is_list ? v->items[i] : v;
        out[i] = (float)mica_json_double(item, 0.0);
        if (!(out[i] > 0.0f)) fail_rope(r, MICA_E_FORMAT, key, "holds a value that is not above 0");
    }
    *n = (int64_t)count;
    return out;
}

/* How long the training was for types that stretch it: the key beside the dict wins over the one in
 * it; without either it was the model's own length (longrope excepted). */
static int64_t read_original(config_reader *r, const json_value *dict, const rope_config *rope) {
    const char *key = "original_max_position_embeddings";
    int64_t inside = mica_config_integer(r, dict, key, 0, 2, CONFIG_MAX_COUNT);
    int64_t beside =
        mica_config_integer(r, r->text, key, r->arch->original_positions, 2, CONFIG_MAX_COUNT);
    bool is_long = is_any(rope->type, "longrope", "su", "su");
    if (!is_long && !is_yarn(rope->type) && strcmp(rope->type, "llama3") != 0) return inside;
    if (beside) return beside;
    return inside || is_long ? inside : rope->max_positions;
}

static void read_longrope(config_reader *r, const json_value *dict, rope_config *rope) {
    int64_t n_short;
    rope->long_factor = want_factors(r, dict, "long_factor", &rope->n_factors);
    rope->short_factor = want_factors(r, dict, "short_factor", &n_short);
    if (!r->st && n_short != rope->n_factors)
        fail_rope(r, MICA_E_FORMAT, "short_factor", "and \"long_factor\" differ in length");
    if (!rope->original_max_positions)
        fail_rope(r, MICA_E_FORMAT, "original_max_position_embeddings",
                  "is missing, which longrope needs");
    if (!mica_json_find_set(r->text, "max_position_embeddings")) rope->max_positions = 131072;
    if (r->st || rope->attention_factor >= 0.0 || !mica_json_find_set(dict, "factor")) return;
    /* instead of the ratio of the two lengths */
    double original = (double)rope->original_max_positions;
    rope->attention_factor =
        rope->factor <= 1.0 ? 1.0 : sqrt(1.0 + log(rope->factor) / log(original));
}

/* The reference has no defaults for the two bounds, and equal ones would divide by zero. */
static void read_llama3(config_reader *r, const json_value *dict, rope_config *rope) {
    static const char *const keys[] = {"low_freq_factor", "high_freq_factor"};
    for (size_t i = 0; i < 2; i++)
        if (!mica_json_find_set(dict, keys[i]))
            fail_rope(r, MICA_E_FORMAT, keys[i], "is missing, which rope type llama3 needs");
    rope->low_freq_factor = mica_config_number(r, dict, keys[0], 1.0);
    rope->high_freq_factor = mica_config_number(r, dict, keys[1], 4.0);
    if (!(rope->low_freq_factor > 0.0))
        fail_rope(r, MICA_E_FORMAT, keys[0], "of the rope must be above 0");
    if (!(rope->high_freq_factor > rope->low_freq_factor))
        fail_rope(r, MICA_E_FORMAT, keys[1], "of the rope must be above \"low_freq_factor\"");
}

/* Turns within the original length where the ramp begins and ends; 0 counts as absent. */
static double read_beta(config_reader *r, const json_value *dict, const char *key, double usual) {
    double beta = mica_config_number(r, dict, key, usual);
    if (beta < 0.0) fail_rope(r, MICA_E_FORMAT, key, "of the rope must be above 0");
    return beta == 0.0 ? usual : beta;
}

/* mscale and mscale_all_dim scale q and k together only; one of them alone counts as neither. */
static void read_mscale(config_reader *r, const json_value *dict, rope_config *rope) {
    double mscale = mica_config_number(r, dict, "mscale", 0.0);
    rope->mscale_all_dim = mica_config_number(r, dict, "mscale_all_dim", 0.0);
    if (mscale != 0.0) rope->mscale = mscale;
    if (!is_yarn(rope->type) || rope->attention_factor >= 0.0) return;
    if (mscale != 0.0 && rope->mscale_all_dim != 0.0) return;
    rope->attention_factor = rope->factor <= 1.0 ? 1.0 : 0.1 * log(rope->factor) + 1.0;
}

/* Keys inside a scaling dict that would change the rotation and that nothing here computes. */
static void refuse_scaling_keys(config_reader *r, const json_value *dict) {
    static const char *const refused[] = {"alpha", "llama_4_scaling_beta", "long_mscale",
                                          "short_mscale"};
    const bool reads[] = {r->arch->reads_rope_alpha, r->arch->reads_query_boost,
                          r->arch->reads_mscale, r->arch->reads_mscale};
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        if (reads[i]) continue;
        double x = mica_config_number(r, dict, refused[i], 0.0);
        if (x == 0.0 || r->st) continue;
        r->st = mica_fail(r->err, MICA_E_UNSUPPORTED,
                          "%s: config.json: rope key \"%s\": %g is not supported", r->where,
                          refused[i], x);
    }
}

/* phimoe: cosines and sines of a scaled rope are multiplied by a scale that the config names, and
 * the reference makes its table without a length: longrope keeps the short list, dynamic its base.
 */
static void read_length_mscale(config_reader *r, const json_value *dict, rope_config *rope) {
    if (!strcmp(rope->type, "default")) return;
    rope->input_scale = mica_config_number(r, dict, "short_mscale", 0.0);
    if (!(rope->input_scale > 0.0))
        fail_rope(r, MICA_E_FORMAT, "short_mscale", "of the rope must be there and above 0");
    if (mica_config_number(r, dict, "long_mscale", 0.0) != rope->input_scale)
        fail_rope(r, MICA_E_UNSUPPORTED, "long_mscale",
                  "of the rope differs from \"short_mscale\", which is not supported");
    mica_rope_forget_length(rope);
}

/* A type that the family's reference does not have is refused, not tried. */
static void check_type(config_reader *r, const char *type) {
    const char *all = r->arch->rope_types;
    size_t n = strlen(type);
    for (const char *at = all; at && (at = strstr(at, type)); at += n)
        if ((at == all || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0')) return;
    if (all && !r->st)
        r->st =
            mica_fail(r->err, MICA_E_UNSUPPORTED,
                      "%s: config.json: rope type \"%s\" is not supported for %s, which has: %s",
                      r->where, type, r->arch->name, all);
}

static void read_scaling(config_reader *r, const json_value *dict, rope_config *rope) {
    const char *type = scaling_type(r, dict);
    check_type(r, type);
    snprintf(rope->type, sizeof(rope->type), "%s", type);
    if (is_any(type, "linear", "dynamic", "llama3") || is_yarn(type))
        rope->factor = want_factor(r, dict, rope);
    else
        rope->factor = mica_config_number(r, dict, "factor", 1.0);
    if (!strcmp(type, "llama3")) read_llama3(r, dict, rope);
    rope->beta_fast = read_beta(r, dict, "beta_fast", rope->beta_fast);
    rope->beta_slow = read_beta(r, dict, "beta_slow", rope->beta_slow);
    rope->attention_factor =
        mica_config_number(r, dict, "attention_factor", rope->attention_factor);
    read_mscale(r, dict, rope);
    rope->truncate = mica_config_flag(r, dict, "truncate", rope->truncate);
    rope->original_max_positions = read_original(r, dict, rope);
    if ((is_yarn(type) || !strcmp(type, "llama3")) && !rope->original_max_positions)
        fail_rope(r, MICA_E_FORMAT, "original_max_position_embeddings",
                  "is missing, which this rope type needs");
    if (is_any(type, "longrope", "su", "su")) read_longrope(r, dict, rope);
    const json_value *sections = mica_json_find_set(dict, "mrope_section");
    if (!strcmp(type, "mrope") &&
        (!sections || sections->kind != JSON_KIND_ARRAY || sections->n != 3))
        fail_rope(r, MICA_E_FORMAT, "mrope_section", "of rope type mrope must have 3 entries");
    refuse_scaling_keys(r, dict);
    if (r->arch->reads_mscale) read_length_mscale(r, dict, rope);
}

/* A partial rotation that the family does not have is refused, not ignored. */
static void read_partial(config_reader *r, const rope_keys *k, int64_t head_dim,
                         rope_config *rope) {
    const char *key = "partial_rotary_factor";
    const char *other = r->keys ? r->keys->partial_rotary : NULL;
    double x = r->arch->partial_rotary > 0.0 ? r->arch->partial_rotary : 1.0;
    if (other) x = mica_config_number(r, r->text, other, x);
    const char *dims = r->keys ? r->keys->rotary_dims : NULL;
    if (dims && mica_json_find_set(r->text, dims))
        x = (double)mica_config_integer(r, r->text, dims, head_dim, 2, head_dim) / (double)head_dim;
    x = mica_config_number(r, k->scaling, key, x);
    x = mica_config_number(r, k->flat, key, x);
    x = mica_config_number(r, r->text, key, x);
    if (r->st) return;
    if (x != 1.0 && !(r->arch->partial_rotary > 0.0) && strcmp(rope->type, "proportional") != 0)
        r->st = mica_fail(r->err, MICA_E_UNSUPPORTED,
                          "%s: config.json: \"%s\": %g is not supported for %s", r->where, key, x,
                          r->arch->name);
    if (!(x > 0.0 && x <= 1.0)) fail_rope(r, MICA_E_FORMAT, key, "must be in (0, 1]");
    rope->partial_rotary_factor = x;
}

static double read_theta(config_reader *r, const json_value *dict, const char *key,
                         double fallback) {
    double theta = mica_config_number(r, dict, key, fallback);
    if (theta <= 1.0 && (theta != 0.0 || mica_json_find_set(dict, key)))
        fail_rope(r, MICA_E_FORMAT, key, "must be above 1");
    return theta;
}

/* Sliding layers with a base of their own and no scaling. */
static void read_local(config_reader *r, const rope_keys *k, model_config *c) {
    double theta = r->arch->is_local_rope_plain ? c->rope[0].theta : r->arch->local_rope_theta;
    theta = read_theta(r, k->sliding, "rope_theta", theta);
    theta = read_theta(r, r->text, "rope_local_base_freq", theta);
    const char *type = scaling_type(r, k->sliding);
    if (!r->st && strcmp(type, "default") != 0)
        r->st = mica_fail(r->err, MICA_E_UNSUPPORTED,
                          "%s: config.json: rope type \"%s\" of sliding layers is not supported",
                          r->where, type);
    mica_rope_defaults(&c->rope[1], theta);
    c->rope[1].max_positions = c->max_positions;
    c->n_ropes = 2;
}

/* hunyuan: the base is stretched once for all by alpha; the type beside it says nothing more. */
static void read_alpha(config_reader *r, const json_value *dict, rope_config *rope) {
    if (!r->arch->reads_rope_alpha || r->st) return;
    double alpha = mica_config_number(r, dict, "alpha", 0.0);
    if (alpha == 0.0) return;
    if (alpha < 0.0) fail_rope(r, MICA_E_FORMAT, "alpha", "of the rope must be above 0");
    if (strcmp(rope->type, "dynamic") != 0 && strcmp(rope->type, "default") != 0)
        r->st = mica_fail(r->err, MICA_E_UNSUPPORTED,
                          "%s: config.json: rope type \"%s\" with alpha %g is not supported; only "
                          "\"dynamic\" is",
                          r->where, rope->type, alpha);
    snprintf(rope->type, sizeof(rope->type), "default");
    rope->alpha = alpha;
}

static void read_boost(config_reader *r, const json_value *dict, const rope_config *rope,
                       model_config *c) {
    if (!r->arch->reads_query_boost || !dict) return;
    c->query_boost = (float)mica_config_number(r, dict, "llama_4_scaling_beta", 0.0);
    if (c->query_boost != 0.0f && !rope->original_max_positions)
        fail_rope(r, MICA_E_FORMAT, "original_max_position_embeddings",
                  "is missing, which llama_4_scaling_beta needs");
    c->query_boost_length = (int32_t)rope->original_max_positions;
}

void mica_config_read_ropes(config_reader *r, model_config *c, config_facts *facts) {
    if (r->st) return;
    rope_keys k = normalize(r);
    if (r->arch->no_rope >= NO_ROPE_ALL) return;
    const char *other = r->keys ? r->keys->rope_theta : NULL;
    double theta = r->arch->rope_theta;
    if (other) theta = read_theta(r, r->text, other, theta);
    theta = read_theta(r, k.flat, "rope_theta", theta);
    theta = read_theta(r, r->text, "rope_theta", theta);
    if (theta == 0.0 && !r->st)
        r->st = mica_fail(r->err, MICA_E_FORMAT,
                          "%s: config.json has no \"rope_theta\", which %s needs", r->where,
                          r->arch->name);
    if (r->arch->has_scaled_rope && !k.flat && !k.scaling && !r->st)
        r->st = mica_fail(r->err, MICA_E_FORMAT,
                          "%s: config.json has neither \"rope_parameters\" nor \"rope_scaling\", "
                          "which %s needs: a rope without scaling must be stated as \"rope_type\": "
                          "\"default\" in \"rope_parameters\"",
                          r->where, r->arch->name);
    facts->has_rope_theta =
        mica_json_find_set(k.flat, "rope_theta") || mica_json_find_set(r->text, "rope_theta");
    rope_config *rope = &c->rope[0];
    mica_rope_defaults(rope, theta);
    rope->max_positions = c->max_positions;
    if (k.scaling) read_scaling(r, k.scaling, rope);
    read_alpha(r, k.scaling ? k.scaling : k.flat, rope);
    read_boost(r, k.scaling ? k.scaling : k.flat, rope, c);
    read_partial(r, &k, c->head_dim, rope);
    /* interleaved pairs and a longrope table exclude each other in the reference */
    if (rope->long_factor) c->rope_traditional = false;
    c->n_ropes = 1;
    if (r->arch->local_rope_theta > 0.0 || r->arch->is_local_rope_plain) read_local(r, &k, c);
}
