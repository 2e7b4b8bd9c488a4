/* config_gguf.c: the metadata of a GGUF file to model_config.
 *
 * Keys carry the architecture as a prefix. Scalars that a file stores as one value a layer are
 * taken when all are equal. Activations are f32; which biases exist is what the tensors say.
 */
#include "model/config_gguf.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const gguf_entry *mica_meta_find(const gguf_reader *r, const char *key) {
    char name[128];
    snprintf(name, sizeof(name), "%s.%s", r->prefix, key);
    return mica_gguf_find(r->file, name);
}

void mica_meta_fail(gguf_reader *r, mica_status code, const char *key, const char *what) {
    if (r->st) return;
    r->st = mica_fail(r->err, code, "%s: metadata \"%s.%s\" %s", r->where, r->prefix, key, what);
}

/* False: absent, or the reader has failed. An array counts as its first element if all are equal.
 */
static bool scalar(gguf_reader *r, const char *key, double *out) {
    const gguf_entry *e = mica_meta_find(r, key);
    if (r->st || !e) return false;
    double x = NAN;
    if (e->type == GGUF_VALUE_ARRAY) {
        bool numeric = e->element != GGUF_VALUE_STRING && e->element != GGUF_VALUE_ARRAY;
        for (uint64_t i = 0; numeric && i < e->n; i++) {
            double xi = mica_gguf_array_number(e, i);
            if (i && xi != x) {
                mica_meta_fail(r, MICA_E_UNSUPPORTED, key, "differs between layers");
                return false;
            }
            x = xi;
        }
    } else if (e->type != GGUF_VALUE_STRING) {
        char name[128];
        snprintf(name, sizeof(name), "%s.%s", r->prefix, key);
        x = mica_gguf_number(r->file, name, NAN);
    }
    if (!isfinite(x)) {
        mica_meta_fail(r, MICA_E_FORMAT, key, "must be a finite number");
        return false;
    }
    *out = x;
    return true;
}

double mica_meta_number(gguf_reader *r, const char *key, double fallback) {
    double x;
    return scalar(r, key, &x) ? x : fallback;
}

bool mica_meta_flag(const gguf_reader *r, const char *key, bool fallback) {
    char name[128];
    snprintf(name, sizeof(name), "%s.%s", r->prefix, key);
    return mica_gguf_bool(r->file, name, fallback);
}

int64_t mica_meta_size(gguf_reader *r, const char *key, int64_t fallback, int64_t least,
                       int64_t most) {
    double x;
    if (!scalar(r, key, &x)) {
        if (fallback < 0) mica_meta_fail(r, MICA_E_FORMAT, key, "is missing");
        return fallback < 0 ? 1 : fallback;
    }
    if (x >= (double)least && x <= (double)most && x == floor(x)) return (int64_t)x;
    if (!r->st)
        r->st = mica_fail(r->err, MICA_E_FORMAT,
                          "%s: metadata \"%s.%s\" is %g; expected a whole number from %lld to %lld",
                          r->where, r->prefix, key, x, (long long)least, (long long)most);
    return fallback < 0 ? 1 : fallback;
}

int64_t mica_meta_size_at(gguf_reader *r, const char *key, int64_t layer, int64_t n_layers) {
    const gguf_entry *e = mica_meta_find(r, key);
    if (!e || e->type != GGUF_VALUE_ARRAY) return mica_meta_size(r, key, -1, 1, CONFIG_MAX_WIDTH);
    bool is_numeric = e->element != GGUF_VALUE_STRING && e->element != GGUF_VALUE_ARRAY;
    double x =
        is_numeric && e->n >= (uint64_t)n_layers ? mica_gguf_array_number(e, (uint64_t)layer) : NAN;
    if (x >= 1.0 && x <= (double)CONFIG_MAX_WIDTH && x == floor(x)) return (int64_t)x;
    mica_meta_fail(r, MICA_E_FORMAT, key, "must have a whole number above 0 for each layer");
    return 1;
}

static void read_head_dim(gguf_reader *r, model_config *c, config_facts *facts) {
    if (r->arch->has_mla) return;
    facts->head_dim = mica_meta_size(r, "attention.key_length", 0, 1, CONFIG_MAX_WIDTH);
    c->head_dim = facts->head_dim ? facts->head_dim : c->hidden_size / c->n_heads;
    int64_t value_dim =
        mica_meta_size(r, "attention.value_length", c->head_dim, 1, CONFIG_MAX_WIDTH);
    if (value_dim != c->head_dim)
        mica_meta_fail(r, MICA_E_UNSUPPORTED, "attention.value_length",
                       "differs from the width of the keys");
}

static void read_sizes(gguf_reader *r, model_config *c, config_facts *facts) {
    c->n_layers = mica_meta_size(r, "block_count", -1, 1, CONFIG_MAX_COUNT);
    c->moe.n_draft_layers = mica_meta_size(r, "nextn_predict_layers", 0, 0, c->n_layers - 1);
    c->n_layers -= c->moe.n_draft_layers;
    c->hidden_size = mica_meta_size(r, "embedding_length", -1, 1, CONFIG_MAX_WIDTH);
    c->n_heads = mica_meta_layer_size(r, "attention.head_count", -1);
    if (r->arch->gemma) { /* layers may differ: config_gguf_gemma.c */
        c->intermediate_size = mica_meta_size_at(r, "feed_forward_length", 0, c->n_layers);
        c->n_kv_heads = mica_meta_size_at(r, "attention.head_count_kv", 0, c->n_layers);
    } else {
        /* a family whose layers all have experts may have no width of another MLP */
        bool all = r->arch->moe && r->arch->moe->sparse == SPARSE_ALL;
        int64_t experts = mica_meta_size(r, "expert_feed_forward_length", 0, 1, CONFIG_MAX_WIDTH);
        c->intermediate_size =
            mica_meta_layer_size(r, "feed_forward_length", all && experts > 0 ? experts : -1);
        c->n_kv_heads = mica_meta_layer_size(r, "attention.head_count_kv", c->n_heads);
    }
    c->max_positions =
        mica_meta_size(r, "context_length", r->arch->max_positions, 1, CONFIG_MAX_COUNT);
    c->vocab_size = mica_meta_size(r, "vocab_size", 0, 1, CONFIG_MAX_COUNT);
    facts->has_vocab_size = c->vocab_size > 0;
    read_head_dim(r, c, facts);
    if (c->n_layers > MODEL_MAX_LAYERS)
        mica_meta_fail(r, MICA_E_UNSUPPORTED, "block_count", "is more than the 256 supported");
    mica_meta_read_mla(r, c);
    mica_meta_read_moe(r, c);
    /* the other one where converters give a norm's eps by the name that the hub has for it */
    static const char *const eps_keys[] = {"attention.layer_norm_rms_epsilon",
                                           "attention.layer_norm_epsilon"};
    bool is_layer = r->arch->norm > NORM_RMS_PLUS_1;
    const char *key = eps_keys[is_layer];
    if (!mica_meta_find(r, key) && mica_meta_find(r, eps_keys[!is_layer]))
        key = eps_keys[!is_layer];
    double eps = mica_meta_number(r, key, -1.0);
    if (eps < 0.0) mica_meta_fail(r, MICA_E_FORMAT, key, "is missing or negative");
    c->rms_norm_eps = (float)eps;
}

static double multiplier(gguf_reader *r, const char *key) {
    double x = mica_meta_number(r, key, 1.0);
    if (!(x > 0.0)) mica_meta_fail(r, MICA_E_FORMAT, key, "must be above 0");
    return x == 1.0 ? 0.0 : x;
}

/* granite's logits are divided by logit_scale, those of others multiplied. */
static void read_multipliers(gguf_reader *r, model_config *c, config_facts *facts) {
    double scale;
    switch (r->arch->scales) {
    case SCALES_NONE:
    case SCALES_FALCON: /* the weights hold them */
        break;
    case SCALES_GRANITE:
    case SCALES_MINICPM:
        if (r->arch->scales == SCALES_GRANITE)
            facts->attention_multiplier = mica_meta_number(r, "attention.scale", 0.0);
        facts->embed_multiplier = multiplier(r, "embedding_scale");
        c->residual_multiplier = (float)multiplier(r, "residual_scale");
        scale = multiplier(r, "logit_scale");
        if (scale != 0.0) c->logit_multiplier = (float)(1.0 / scale);
        break;
    case SCALES_COHERE:
        c->logit_multiplier = (float)multiplier(r, "logit_scale");
        break;
    }
    if (!r->arch->reads_clip_qkv) return;
    c->clip_qkv = (float)mica_meta_number(r, "attention.clamp_kqv", 0.0);
    if (c->clip_qkv < 0.0f) mica_meta_fail(r, MICA_E_FORMAT, "attention.clamp_kqv", "is below 0");
}

static void read_scales(gguf_reader *r, model_config *c, config_facts *facts) {
    const arch *a = r->arch;
    bool wide = a->gguf_wide_layers && c->n_layers == a->gguf_wide_layers;
    facts->query_scalar = wide ? (double)(c->hidden_size / c->n_heads) : 0.0;
    double attention = mica_meta_number(r, "attn_logit_softcapping", (double)a->attention_softcap);
    /* gemma4's converters leave the key out where there is none, others where it is the usual one
     */
    double usual = a->gemma == GEMMA_4 ? 0.0 : (double)a->final_softcap;
    double final = mica_meta_number(r, "final_logit_softcapping", usual);
    if (!a->reads_softcaps && attention != 0.0)
        mica_meta_fail(r, MICA_E_UNSUPPORTED, "attn_logit_softcapping", "is not supported here");
    if (!a->reads_softcaps && final != 0.0)
        mica_meta_fail(r, MICA_E_UNSUPPORTED, "final_logit_softcapping", "is not supported here");
    c->attention_softcap = (float)attention;
    c->final_softcap = (float) final;
    read_multipliers(r, c, facts);
}

/* Which norms of q and k there are is what the tensors say (settle.c). */
static void read_structure(gguf_reader *r, config_facts *facts, int64_t n_experts) {
    const arch *a = r->arch;
    bool parallel = a->parallel_key && mica_meta_flag(r, a->parallel_key, a->is_parallel);
    facts->block = parallel ? a->parallel_block : a->block;
    facts->qk_norm = a->qk_norm;
    /* no key says it: of llama4's published sizes the one with 128 experts has none */
    if (a->qk_norm == QK_NORM_PLAIN && n_experts == 128) facts->qk_norm = QK_NORM_NONE;
    facts->act = a->act;
}

/* The numbers of every layer's xIELU, which are tensors elsewhere. */
static void read_xielu(gguf_reader *r, const model_config *c, config_facts *facts) {
    static const char *const keys[] = {"xielu.alpha_p", "xielu.alpha_n", "xielu.beta", "xielu.eps"};
    if (r->arch->act != ACT_XIELU || r->st) return;
    float *out = mica_arena_calloc(r->arena, (size_t)c->n_layers * 4, sizeof(*out));
    if (!out) r->st = mica_fail(r->err, MICA_E_NOMEM, "%s: out of memory", r->where);
    for (int k = 0; k < 4 && !r->st; k++) {
        const gguf_entry *e = mica_gguf_find(r->file, keys[k]);
        bool good = e && e->type == GGUF_VALUE_ARRAY && e->element == GGUF_VALUE_F32 &&
                    e->n >= (uint64_t)c->n_layers;
        if (!good && !(e && e->type == GGUF_VALUE_F32))
            r->st = mica_fail(r->err, MICA_E_FORMAT,
                              "%s: metadata \"%s\" must have a number for each layer", r->where,
                              keys[k]);
        for (int64_t i = 0; i < c->n_layers && !r->st; i++)
            out[4 * i + k] = (float)(good ? mica_gguf_array_number(e, (uint64_t)i) : e->f);
    }
    facts->xielu = out;
}

/* The rope tables among the tensors, in the model's arena; NULL: absent. */
static const float *rope_tensor(gguf_reader *r, const char *name, int64_t *n) {
    const file_tensor *t = r->st ? NULL : mica_gguf_find_tensor(r->file, name);
    *n = 0;
    if (!t) return NULL;
    if (t->type != GGUF_F32 || t->n_dims != 1 || t->dim[0] == 0 ||
        t->dim[0] > (uint64_t)CONFIG_MAX_WIDTH) {
        r->st = mica_fail(r->err, MICA_E_FORMAT, "%s: tensor \"%s\" must be a row of f32", r->where,
                          name);
        return NULL;
    }
    float *out = mica_arena_calloc(r->arena, t->dim[0], sizeof(*out));
    if (!out) {
        r->st = mica_fail(r->err, MICA_E_NOMEM, "%s: out of memory", r->where);
        return NULL;
    }
    memcpy(out, t->data, t->dim[0] * sizeof(*out));
    *n = (int64_t)t->dim[0];
    return out;
}

static void read_rope_tables(gguf_reader *r, const model_config *c, rope_config *rope) {
    int64_t n, n_short;
    rope->freq_factors = rope_tensor(r, "rope_freqs.weight", &n);
    if (rope->freq_factors && n != mica_rope_dims(rope, c->head_dim) / 2 && !r->st)
        r->st =
            mica_fail(r->err, MICA_E_FORMAT,
                      "%s: tensor \"rope_freqs.weight\" has %lld entries; expected %lld", r->where,
                      (long long)n, (long long)(mica_rope_dims(rope, c->head_dim) / 2));
    rope->long_factor = rope_tensor(r, "rope_factors_long.weight", &rope->n_factors);
    rope->short_factor = rope_tensor(r, "rope_factors_short.weight", &n_short);
    bool is_longrope = !strcmp(rope->type, "longrope");
    if (is_longrope && (!rope->long_factor || n_short != rope->n_factors))
        mica_meta_fail(r, MICA_E_FORMAT, "rope.scaling.type",
                       "is longrope, but rope_factors_long and rope_factors_short do not fit");
    if (is_longrope && rope->original_max_positions < 2)
        mica_meta_fail(r, MICA_E_FORMAT, "rope.scaling.original_context_length", "is missing");
    if (r->arch->reads_mscale) mica_rope_forget_length(rope);
}

/* mscale_all_dim; converters of latent attention store a tenth of it, and there mscale, which they
 * do not store, is the same in every published model. */
static void read_log_mul(gguf_reader *r, rope_config *rope) {
    const char *key = "rope.scaling.yarn_log_multiplier";
    if (!mica_meta_find(r, key)) return;
    double x = mica_meta_number(r, key, 0.0);
    rope->mscale_all_dim = r->arch->has_mla ? (double)((float)x / 0.1f) : x;
    if (r->arch->has_mla) rope->mscale = rope->mscale_all_dim;
}

static void read_scaling(gguf_reader *r, rope_config *rope) {
    char key[128];
    snprintf(key, sizeof(key), "%s.rope.scaling.type", r->prefix);
    gguf_string type = mica_gguf_string(r->file, key);
    bool none = !type.data || (type.n == 4 && !memcmp(type.data, "none", 4));
    /* phi3's and phimoe's converter writes its tables without a type */
    if (none && mica_gguf_find_tensor(r->file, "rope_factors_long.weight"))
        snprintf(rope->type, sizeof(rope->type), "longrope");
    if (!none)
        snprintf(rope->type, sizeof(rope->type), "%.*s", (int)(type.n < 23 ? type.n : 23),
                 type.data);
    rope->factor = mica_meta_number(r, "rope.scaling.factor", 1.0);
    if (rope->factor <= 0.0)
        mica_meta_fail(r, MICA_E_FORMAT, "rope.scaling.factor", "must be above 0");
    rope->original_max_positions =
        mica_meta_size(r, "rope.scaling.original_context_length", 0, 0, CONFIG_MAX_COUNT);
    rope->beta_fast = mica_meta_number(r, "rope.scaling.yarn_beta_fast", rope->beta_fast);
    rope->beta_slow = mica_meta_number(r, "rope.scaling.yarn_beta_slow", rope->beta_slow);
    if (mica_meta_number(r, "rope.scaling.yarn_ext_factor", 1.0) != 1.0)
        mica_meta_fail(r, MICA_E_UNSUPPORTED, "rope.scaling.yarn_ext_factor", "is not 1");
    rope->truncate = !r->arch->gguf_untruncated;
    read_log_mul(r, rope);
    double attn_factor = mica_meta_number(r, "rope.scaling.attn_factor", 1.0);
    /* longrope: the input scale itself; yarn: multiplies the usual one */
    if (!strcmp(rope->type, "longrope")) rope->attention_factor = attn_factor;
    if (!strcmp(rope->type, "yarn") && attn_factor != 1.0)
        rope->attention_factor =
            attn_factor * (rope->factor <= 1.0 ? 1.0 : 0.1 * log(rope->factor) + 1.0);
    /* the scale of q and k itself, as in config.json */
    rope->attention_factor =
        mica_meta_number(r, "rope.scaling.yarn_attn_factor", rope->attention_factor);
}

static double read_theta(gguf_reader *r, const char *key, double fallback) {
    double theta = mica_meta_number(r, key, fallback);
    if (!(theta > 1.0)) mica_meta_fail(r, MICA_E_FORMAT, key, "must be above 1");
    return theta;
}

static void read_dims(gguf_reader *r, const model_config *c, rope_config *rope) {
    int64_t dims = mica_meta_size(r, "rope.dimension_count", c->head_dim, 1, CONFIG_MAX_WIDTH);
    if (dims > c->head_dim || dims % 2)
        mica_meta_fail(r, MICA_E_FORMAT, "rope.dimension_count",
                       "must be even and at most the width of a head");
    if (dims != c->head_dim && !(r->arch->partial_rotary > 0.0))
        mica_meta_fail(r, MICA_E_UNSUPPORTED, "rope.dimension_count",
                       "differs from the width of a head: partial rotation is not supported here");
    /* half a channel more, so that the product with head_dim is cut to `dims` again */
    rope->partial_rotary_factor = ((double)dims + 0.5) / (double)c->head_dim;
    if (dims == c->head_dim) rope->partial_rotary_factor = 1.0;
}

static void read_ropes(gguf_reader *r, model_config *c) {
    rope_config *rope = &c->rope[0];
    c->learned_positions = r->arch->no_rope == NO_ROPE_ALL;
    if (r->arch->no_rope >= NO_ROPE_ALL) return;
    mica_rope_defaults(rope, read_theta(r, "rope.freq_base", 10000.0));
    rope->max_positions = c->max_positions;
    read_scaling(r, rope);
    read_dims(r, c, rope);
    read_rope_tables(r, c, rope);
    c->rope_traditional = r->arch->gguf_traditional;
    c->n_ropes = 1;
    double local = r->arch->is_local_rope_plain ? rope->theta : r->arch->local_rope_theta;
    if (local <= 0.0) return;
    mica_rope_defaults(&c->rope[1], read_theta(r, "rope.freq_base_swa", local));
    c->rope[1].max_positions = c->max_positions;
    c->n_ropes = 2;
}

/* What makes queries grow with the position. llama4's numbers are in no key. */
static void read_boost(gguf_reader *r, model_config *c) {
    if (r->arch->reads_query_boost) {
        c->query_boost = (float)mica_meta_number(r, "attention.temperature_scale", 0.0);
        c->query_boost_length = (int32_t)c->rope[0].original_max_positions;
        if (c->query_boost != 0.0f && c->query_boost_length < 1)
            mica_meta_fail(r, MICA_E_FORMAT, "rope.scaling.original_context_length",
                           "is missing, which attention.temperature_scale needs");
    }
    if (!r->arch->tunes_bare_layers) return;
    c->query_boost = 0.1f;
    c->query_boost_length = 8192;
    c->query_boost_offset = 1;
    c->boosts_bare_only = true;
}

/* attention.sliding_window_pattern: a count, or a flag for each layer. NULL: use *pattern. */
static const gguf_entry *read_pattern(gguf_reader *r, int64_t n_layers, int64_t *pattern) {
    const gguf_entry *e = mica_meta_find(r, "attention.sliding_window_pattern");
    *pattern = r->arch->window_pattern ? r->arch->window_pattern : 1;
    if (!e) return NULL;
    if (e->type != GGUF_VALUE_ARRAY) {
        *pattern =
            mica_meta_size(r, "attention.sliding_window_pattern", *pattern, 1, CONFIG_MAX_COUNT);
        return NULL;
    }
    if (e->element == GGUF_VALUE_STRING || e->element == GGUF_VALUE_ARRAY ||
        e->n < (uint64_t)n_layers) {
        mica_meta_fail(r, MICA_E_FORMAT, "attention.sliding_window_pattern",
                       "must have a flag for each layer");
        return NULL;
    }
    return e;
}

static void read_windows(gguf_reader *r, model_config *c) {
    const arch *a = r->arch;
    bool is_stored = a->windows < WINDOW_RULE_MAX_LAYERS || a->windows > WINDOW_RULE_USED;
    if (!is_stored) return; /* converters store no window for these */
    /* gemma2 has a default; without a stated window layers of gemma3 and exaone4 are all full */
    bool is_stated = a->local_rope_theta > 0.0 || a->no_rope == NO_ROPE_GLOBAL;
    int64_t fallback = is_stated ? 0 : a->sliding_window;
    int64_t window = mica_meta_size(r, "attention.sliding_window", fallback, 0, CONFIG_MAX_COUNT);
    int64_t pattern;
    const gguf_entry *flags = read_pattern(r, c->n_layers, &pattern);
    bool all = a->windows == WINDOW_RULE_NONE || a->windows == WINDOW_RULE_ALL;
    bool chunks = a->windows == WINDOW_RULE_CHUNKS;
    for (int64_t i = 0; !r->st && window > 0 && i < c->n_layers; i++) {
        bool sliding = all || (i + 1) % pattern != 0;
        if (flags) sliding = mica_gguf_array_number(flags, (uint64_t)i) != 0.0;
        c->window[i] = sliding ? (int32_t)(chunks ? -window : window) : 0;
    }
}

static void read_no_rope(const gguf_reader *r, model_config *c) {
    bool slides = false;
    for (int64_t i = 0; i < c->n_layers; i++)
        slides = slides || c->window[i] != 0;
    for (int64_t i = 0; i < c->n_layers; i++) {
        bool sliding = c->window[i] != 0, has_rope = true;
        switch (r->arch->no_rope) {
        case NO_ROPE_NEVER:
            break;
        case NO_ROPE_BARE:
            has_rope = false;
            break;
        case NO_ROPE_FULL:
            has_rope = sliding;
            break;
        case NO_ROPE_GLOBAL:
            has_rope = sliding || !slides;
            break;
        case NO_ROPE_LIST: /* converters store no list: the interval of the published models */
            has_rope = (i + 1) % 4 != 0 || (r->arch->windows == WINDOW_RULE_CHUNKS && !slides);
            break;
        case NO_ROPE_ALL:
            has_rope = false;
            break;
        }
        c->rope_of_layer[i] = has_rope ? sliding && c->n_ropes > 1 : MODEL_NO_ROPE;
    }
}

static void read_end_tokens(const gguf_reader *r, model_config *c) {
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++) {
        int64_t id = mica_gguf_integer(r->file, keys[k], -1);
        bool known = id < 0 || id > INT32_MAX;
        for (int i = 0; i < c->n_eos; i++)
            known = known || c->eos_ids[i] == id;
        if (!known) c->eos_ids[c->n_eos++] = (int32_t)id;
    }
    int64_t bos = mica_gguf_integer(r->file, "tokenizer.ggml.bos_token_id", -1);
    c->bos_id = bos >= 0 && bos <= INT32_MAX ? (int32_t)bos : -1;
}

/* Which way rows see is the family's own; a file that says otherwise is another model. */
static void read_encoder(gguf_reader *r, model_config *c) {
    char key[128];
    snprintf(key, sizeof(key), "%s.attention.causal", r->prefix);
    c->is_encoder = r->arch->encoder != NULL;
    if (mica_gguf_bool(r->file, key, !c->is_encoder) == c->is_encoder)
        mica_meta_fail(r, MICA_E_UNSUPPORTED, "attention.causal",
                       c->is_encoder ? "is true: this architecture is run as an encoder"
                                     : "is false: attention both ways is not supported here");
}

mica_status mica_config_read_gguf(gguf_file *file, const arch *a, mica_arena *arena,
                                  model_config *out, config_facts *facts, mica_error *err) {
    gguf_reader r = {
        .file = file, .arch = a, .where = mica_gguf_name(file), .arena = arena, .err = err};
    gguf_string name = mica_gguf_string(file, "general.architecture");
    snprintf(r.prefix, sizeof(r.prefix), "%.*s", (int)(name.n < 47 ? name.n : 47), name.data);
    *out = (model_config){0};
    *facts = (config_facts){.arch = a, .where = r.where, .is_gguf = true};
    snprintf(out->model_type, sizeof(out->model_type), "%s", r.prefix);
    snprintf(out->arch, sizeof(out->arch), "%s", a->name);
    read_sizes(&r, out, facts);
    if (r.st) return r.st;
    read_scales(&r, out, facts);
    read_ropes(&r, out);
    read_boost(&r, out);
    facts->has_rope_theta = mica_meta_find(&r, "rope.freq_base") != NULL;
    read_windows(&r, out);
    read_no_rope(&r, out);
    read_structure(&r, facts, out->moe.n_experts);
    read_xielu(&r, out, facts);
    mica_meta_read_gemma(&r, out, facts);
    mica_meta_read_mixers(&r, out);
    out->gates_attention = a->gates_attention;
    read_encoder(&r, out);
    read_end_tokens(&r, out);
    return r.st;
}
