/* config_moe.c: the keys of a mixture of experts, and which layers have one.
 *
 * Files spell the number of experts in three ways and how many are used in three; they stand for
 * each other. Keys of a routing that the family does not have are refused: they would choose other
 * experts.
 */
#include "model/config.h"

#include <string.h>

static const char *const count_keys[] = {"num_experts", "num_local_experts", "n_routed_experts",
                                         "moe_num_experts"};
static const char *const used_keys[] = {"num_experts_per_tok", "moe_topk", "moe_k",
                                        "num_experts_per_token", "top_k_experts"};

static const char *first_set(const config_reader *r, const char *const *keys, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (mica_json_find_set(r->text, keys[i])) return keys[i];
    return NULL;
}

/* A value is a number, or a list with the same number for each layer. */
static int64_t layer_count(config_reader *r, const char *key, int64_t least, int64_t most) {
    const json_value *v = mica_json_find_set(r->text, key);
    if (!v || v->kind != JSON_KIND_ARRAY)
        return mica_config_integer(r, r->text, key, least, least, most);
    int64_t x = v->n ? mica_json_i64(v->items[0], INT64_MIN) : INT64_MIN;
    for (size_t i = 1; i < v->n; i++)
        if (mica_json_i64(v->items[i], INT64_MIN) != x) x = INT64_MIN;
    if (x >= least && x <= most) return x;
    if (!r->st)
        r->st = mica_fail(r->err, MICA_E_UNSUPPORTED,
                          "%s: config.json: \"%s\" must be one number for all layers, from %lld to "
                          "%lld",
                          r->where, key, (long long)least, (long long)most);
    return least;
}

static void refuse_experts(config_reader *r) {
    const char *relative = r->arch->encoder ? r->arch->encoder->with_experts : NULL;
    for (size_t i = 0; i < sizeof(count_keys) / sizeof(*count_keys); i++) {
        int64_t n = mica_config_integer(r, r->text, count_keys[i], 0, 0, CONFIG_MAX_COUNT);
        if (!r->st && n > 0)
            r->st = mica_fail(r->err, MICA_E_UNSUPPORTED,
                              "%s: config.json: \"%s\": %lld is not supported for %s%s%s", r->where,
                              count_keys[i], (long long)n, r->arch->name,
                              relative ? ": it is a " : "", relative ? relative : "");
    }
}

/* A key that this family's routing does not read, with the only value that changes nothing. */
static void refuse_other(config_reader *r, const char *key, double neutral) {
    const json_value *v = mica_json_find_set(r->text, key);
    if (!v || r->st) return;
    double x = v->kind == JSON_KIND_BOOL ? (double)v->boolean : mica_json_double(v, neutral + 1);
    if (x != neutral) mica_config_refuse(r, key, v);
}

static bool lists_layer(const json_value *list, int64_t layer) {
    for (size_t i = 0; list && i < list->n; i++)
        if (mica_json_i64(list->items[i], -1) == layer) return true;
    return false;
}

/* Layers [first, last] of which every step-th, counted from `offset`, has experts. */
typedef struct sparse_layers {
    int64_t first, last, step, offset;
    const json_value *only;  /* layers that have none */
    const json_value *these; /* the layers that have some instead; NULL: no list */
} sparse_layers;

static int64_t layer_key(config_reader *r, const char *key, int64_t fallback, int64_t least) {
    return mica_config_integer(r, r->text, key, fallback, least, CONFIG_MAX_COUNT);
}

static const json_value *layer_list(config_reader *r, const char *key) {
    const json_value *list = mica_json_find_set(r->text, key);
    if (list && list->kind != JSON_KIND_ARRAY && !r->st)
        r->st = mica_fail(r->err, MICA_E_FORMAT, "%s: config.json: \"%s\" must be a list of layers",
                          r->where, key);
    return r->st ? NULL : list;
}

static sparse_layers read_sparse_rule(config_reader *r, int64_t n_layers) {
    sparse_layers s = {.last = n_layers - 1, .step = 1};
    switch (r->arch->moe->sparse) {
    case SPARSE_ALL:
    case SPARSE_LISTED:
        break;
    case SPARSE_STEP:
        s.step = layer_key(r, "decoder_sparse_step", 1, 1);
        s.offset = 1;
        s.only = layer_list(r, "mlp_only_layers");
        break;
    case SPARSE_AFTER_DENSE:
        s.step = layer_key(r, "moe_layer_freq", 1, 1);
        s.first = layer_key(r, "first_k_dense_replace", 0, 0);
        break;
    case SPARSE_INTERVAL:
        s.step = layer_key(r, "moe_layer_interval", 1, 1);
        s.offset = 1;
        s.first = layer_key(r, "moe_layer_start_index", 0, 0);
        s.last = layer_key(r, "moe_layer_end_index", -1, -1);
        if (s.last < 0) s.last = n_layers - 1;
        break;
    case SPARSE_NUM_DENSE:
        s.first = layer_key(r, "num_dense_layers", 2, 0);
        break;
    case SPARSE_PERIOD:
        s.step = layer_key(r, "expert_layer_period", 2, 1);
        s.first = layer_key(r, "expert_layer_offset", 1, 0);
        s.offset = s.step - s.first % s.step; /* i % step == first */
        break;
    case SPARSE_LIST:
        s.step = layer_key(r, "interleave_moe_layer_step", 1, 1);
        s.offset = 1;
        s.these = layer_list(r, "moe_layers");
        break;
    }
    return s;
}

static void read_sparse_layers(config_reader *r, model_config *c) {
    sparse_layers s = read_sparse_rule(r, c->n_layers);
    for (int64_t i = 0; !r->st && i < c->n_layers; i++) {
        bool fits = i >= s.first && i <= s.last && (i + s.offset) % s.step == 0;
        c->moe.is_sparse[i] = s.these ? lists_layer(s.these, i) : fits && !lists_layer(s.only, i);
    }
}

static void read_groups(config_reader *r, moe_config *moe) {
    if (!r->arch->moe->has_groups) {
        refuse_other(r, "n_group", 1);
        return;
    }
    const char *method = mica_config_string(r, r->text, "topk_method", "");
    const char *none = r->arch->moe->ungrouped;
    if (none && (!*method || !strcmp(method, none))) return;
    if (r->arch->moe->method && *method && strcmp(method, r->arch->moe->method) != 0 && !r->st)
        r->st = mica_fail(r->err, MICA_E_UNSUPPORTED,
                          "%s: config.json: \"topk_method\": \"%.40s\" is not supported for %s",
                          r->where, method, r->arch->name);
    moe->n_groups = mica_config_integer(r, r->text, "n_group", 1, 1, moe->n_experts);
    moe->n_groups_used =
        mica_config_integer(r, r->text, "topk_group", moe->n_groups > 1 ? 0 : 1, 1, moe->n_groups);
    int64_t size = moe->n_experts / moe->n_groups;
    if (r->st || moe->n_groups == 1) {
        moe->n_groups = 0;
        return;
    }
    if (moe->n_experts % moe->n_groups || moe->n_groups_used < 1 ||
        size < r->arch->moe->group_best || moe->n_experts_used > moe->n_groups_used * size)
        r->st =
            mica_fail(r->err, MICA_E_FORMAT,
                      "%s: config.json: %lld of %lld experts cannot be chosen from %lld of %lld "
                      "groups (n_group, topk_group)",
                      r->where, (long long)moe->n_experts_used, (long long)moe->n_experts,
                      (long long)moe->n_groups_used, (long long)moe->n_groups);
}

static void read_shared(config_reader *r, model_config *c) {
    const moe_rule *rule = r->arch->moe;
    moe_config *moe = &c->moe;
    static const char *const keys[] = {"n_shared_experts", "shared_expert_intermediate_size",
                                       "shared_intermediate_size", "num_shared_experts",
                                       "moe_num_shared_experts"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
        if ((!rule->shared_key || strcmp(rule->shared_key, keys[i]) != 0) &&
            (!rule->shared_flag || strcmp(rule->shared_flag, keys[i]) != 0))
            refuse_other(r, keys[i], 0);
    if (rule->shared_is_plain) moe->shared_size = moe->intermediate_size;
    if (!rule->shared_key) return;
    int64_t n = mica_config_integer(r, r->text, rule->shared_key, 0, 0, CONFIG_MAX_WIDTH);
    if (rule->shared_counts && n > CONFIG_MAX_WIDTH / moe->intermediate_size)
        r->st = mica_fail(r->err, MICA_E_FORMAT, "%s: config.json: \"%s\" is too large", r->where,
                          rule->shared_key);
    moe->shared_size = rule->shared_counts && !r->st ? n * moe->intermediate_size : n;
}

/* Where a key says how scores are formed, it must be the family's way. */
static void read_scoring(config_reader *r) {
    router_rule scores = r->arch->moe->scores;
    const char *want = scores == ROUTER_SIGMOID || scores == ROUTER_INPUT ? "sigmoid" : "softmax";
    static const char *const keys[] = {"scoring_func", "moe_gate_act",
                                       "moe_router_activation_func"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
        const char *found = mica_config_string(r, r->text, keys[i], want);
        if (!r->st && strcmp(found, want) != 0)
            r->st = mica_fail(r->err, MICA_E_UNSUPPORTED,
                              "%s: config.json: \"%s\": \"%.40s\" is not supported for %s",
                              r->where, keys[i], found, r->arch->name);
    }
}

/* How many experts a row has, and how wide they are. */
static void read_used(config_reader *r, const char *key, const model_config *c, moe_config *moe) {
    const moe_rule *rule = r->arch->moe;
    const char *width = rule->width_key ? rule->width_key : "moe_intermediate_size";
    moe->n_experts_used = key ? layer_count(r, key, 1, moe->n_experts) : rule->n_experts_used;
    if (rule->only_used && moe->n_experts_used != rule->only_used && !r->st)
        r->st = mica_fail(
            r->err, MICA_E_UNSUPPORTED,
            "%s: config.json: \"%s\": %lld is not supported for %s, which chooses %lld", r->where,
            key, (long long)moe->n_experts_used, r->arch->name, (long long)rule->only_used);
    moe->intermediate_size = c->intermediate_size;
    if (!rule->width_is_plain)
        moe->intermediate_size =
            mica_config_integer(r, r->text, width, rule->width ? rule->width : c->intermediate_size,
                                1, CONFIG_MAX_WIDTH);
}

void mica_config_read_moe(config_reader *r, model_config *c) {
    const moe_rule *rule = r->arch->moe;
    moe_config *moe = &c->moe;
    if (r->st) return;
    if (!rule) {
        refuse_experts(r);
        return;
    }
    if (rule->flag && !mica_config_flag(r, r->text, rule->flag, false)) return;
    if (!rule->has_latent) refuse_other(r, "moe_latent_size", 0);
    if (r->st) return;
    const char *count = first_set(r, count_keys, sizeof(count_keys) / sizeof(*count_keys));
    const char *used = first_set(r, used_keys, sizeof(used_keys) / sizeof(*used_keys));
    if (rule->may_lack && count &&
        mica_config_integer(r, r->text, count, 0, 0, CONFIG_MAX_COUNT) < 2) {
        read_shared(r, c);
        read_sparse_layers(r, c);
        return;
    }
    if (rule->sparse == SPARSE_LISTED && !count) return;
    bool has_defaults = rule->n_experts && rule->n_experts_used;
    if ((!count || !used) && !has_defaults) {
        r->st = mica_fail(r->err, MICA_E_FORMAT, "%s: config.json has no \"%s\", which %s needs",
                          r->where, count ? used_keys[0] : count_keys[0], r->arch->name);
        return;
    }
    moe->n_experts = count ? layer_count(r, count, 2, 1 << 16) : rule->n_experts;
    read_used(r, used, c, moe);
    if (rule->has_latent)
        moe->latent_size =
            mica_config_integer(r, r->text, "moe_latent_size", 0, 0, CONFIG_MAX_WIDTH);
    moe->factor = 1.0f;
    if (rule->has_factor)
        moe->factor = (float)mica_config_number(r, r->text, "routed_scaling_factor", 1.0);
    else
        refuse_other(r, "routed_scaling_factor", 1);
    moe->normalize = rule->normalize == NORMALIZE_ALWAYS;
    if (rule->normalize == NORMALIZE_KEY)
        moe->normalize = mica_config_flag(r, r->text, "norm_topk_prob", rule->normalize_default);
    if (rule->normalize != NORMALIZE_KEY)
        refuse_other(r, "norm_topk_prob", rule->normalize == NORMALIZE_ALWAYS);
    if (rule->least_key)
        moe->sum_least = (float)mica_config_number(r, r->text, rule->least_key, rule->least);
    moe->sum_extra = (float)rule->extra;
    moe->drops_selection_bias = rule->selection_bias == BIAS_BY_KEY &&
                                !mica_config_flag(r, r->text, "use_expert_bias", true);
    if (rule->scores == ROUTER_SPARSEMIXER) /* at inference too */
        moe->jitter = (float)mica_config_number(r, r->text, "router_jitter_noise", 0.01);
    if (rule->is_clamped) {
        moe->act_alpha = (float)mica_config_number(r, r->text, "swiglu_alpha", 1.702);
        moe->act_limit = (float)mica_config_number(r, r->text, "swiglu_limit", 7.0);
        if (!r->st && !(moe->act_limit > 0.0f))
            r->st = mica_fail(r->err, MICA_E_FORMAT,
                              "%s: config.json: \"swiglu_limit\" must be above 0", r->where);
    }
    moe->n_draft_layers =
        mica_config_integer(r, r->text, "num_nextn_predict_layers", 0, 0, MODEL_MAX_LAYERS);
    read_scoring(r);
    read_groups(r, moe);
    read_shared(r, c);
    read_sparse_layers(r, c);
}
