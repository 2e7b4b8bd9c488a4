/* config_ssm.c: which layers scan, which attend, and the sizes of the scan (docs/models.md 15).
 *
 * Families spell the same sizes in two ways: bare (mamba, mamba2) or with mamba_ before them.
 */
#include "model/config.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* A bound of the step: a number, or Infinity as Transformers writes it. */
static double bound_of(const json_value *v) {
    const json_value *word = v && v->kind == JSON_KIND_OBJECT ? mica_json_find(v, "__float__") : v;
    if (word && word->kind == JSON_KIND_STRING && !strcmp(word->string, "Infinity"))
        return (double)FLT_MAX;
    double x = mica_json_double(v, -1.0);
    return x > (double)FLT_MAX ? (double)FLT_MAX : x;
}

static void read_limit(config_reader *r, ssm_config *s) {
    const json_value *v = mica_json_find_set(r->text, "time_step_limit");
    double least = 0.0, most = (double)FLT_MAX;
    if (v && v->kind == JSON_KIND_ARRAY && v->n == 2) {
        least = bound_of(v->items[0]);
        most = bound_of(v->items[1]);
    } else if (v) {
        least = -1.0;
    }
    if (!r->st && !(least >= 0.0 && least <= most))
        r->st = mica_fail(r->err, MICA_E_FORMAT,
                          "%s: config.json: \"time_step_limit\" must be two numbers from 0 up",
                          r->where);
    s->dt_least = (float)least;
    s->dt_most = (float)most;
}

static void want_silu(config_reader *r) {
    const char *key = r->arch->mixers == MIXERS_NEMOTRON ? "mamba_hidden_act" : "hidden_act";
    const char *act = mica_config_string(r, r->text, key, "silu");
    if (!r->st && strcmp(act, "silu") != 0 && strcmp(act, "swish") != 0)
        r->st = mica_fail(r->err, MICA_E_UNSUPPORTED,
                          "%s: config.json: \"%s\": \"%.40s\" is not supported for %s", r->where,
                          key, act, r->arch->name);
}

static int64_t size_key(config_reader *r, const char *key, int64_t fallback) {
    return mica_config_integer(r, r->text, key, fallback, 1, CONFIG_MAX_WIDTH);
}

/* A size that may be "auto". */
static int64_t auto_key(config_reader *r, const char *key, int64_t automatic) {
    const json_value *v = mica_json_find_set(r->text, key);
    if (v && v->kind == JSON_KIND_STRING && !strcmp(v->string, "auto")) return automatic;
    return size_key(r, key, automatic);
}

static void check_heads(config_reader *r, const ssm_config *s) {
    if (r->st) return;
    if (s->n_heads > CONFIG_MAX_WIDTH / s->head_dim || s->n_heads * s->head_dim != s->inner ||
        s->n_heads % s->n_groups != 0 || s->inner % s->n_groups != 0)
        r->st = mica_fail(r->err, MICA_E_FORMAT,
                          "%s: config.json: %lld heads of %lld channels in %lld groups do not make "
                          "%lld channels of the scan",
                          r->where, (long long)s->n_heads, (long long)s->head_dim,
                          (long long)s->n_groups, (long long)s->inner);
}

static int64_t expanded(config_reader *r, const char *key, int64_t hidden) {
    return mica_config_integer(r, r->text, key, 2, 1, CONFIG_MAX_WIDTH / hidden) * hidden;
}

static void read_mamba2(config_reader *r, model_config *c) {
    ssm_config *s = &c->ssm;
    s->inner = expanded(r, "expand", c->hidden_size);
    s->n_heads = size_key(r, "num_heads", 128);
    s->head_dim = size_key(r, "head_dim", 64);
    s->n_groups = size_key(r, "n_groups", 8);
    s->state_size = size_key(r, "ssm_state_size", size_key(r, "state_size", 128));
    s->conv_width = mica_config_integer(r, r->text, "conv_kernel", 4, 1, 64);
    s->in_bias = s->out_bias = mica_config_flag(r, r->text, "use_bias", false);
    s->conv_bias = mica_config_flag(r, r->text, "use_conv_bias", true);
}

/* Older files of nemotron_h have other names, which win. */
static const char *older(const config_reader *r, const char *name, const char *key) {
    return mica_json_find(r->text, name) ? name : key;
}

/* nemotron_h: its heads say how wide it is. A step is at least time_step_min; time_step_limit is
 * written, but Transformers does not use it. */
static void read_nemotron(config_reader *r, model_config *c) {
    ssm_config *s = &c->ssm;
    s->n_heads = size_key(r, "mamba_num_heads", 128);
    s->head_dim = size_key(r, "mamba_head_dim", 64);
    s->inner = s->n_heads <= CONFIG_MAX_WIDTH / s->head_dim ? s->n_heads * s->head_dim : 0;
    const char *least = older(r, "mamba_dt_min", "time_step_min");
    s->n_groups = size_key(r, older(r, "mamba_n_groups", "n_groups"), 8);
    s->state_size = size_key(r, "ssm_state_size", 128);
    s->conv_width =
        mica_config_integer(r, r->text, older(r, "mamba_d_conv", "conv_kernel"), 4, 1, 64);
    s->in_bias = s->out_bias = mica_config_flag(r, r->text, "use_bias", false);
    s->conv_bias =
        mica_config_flag(r, r->text, older(r, "mamba_conv_bias", "use_conv_bias"), true);
    s->dt_least = (float)mica_config_number(r, r->text, least, 1e-3);
    s->dt_most = FLT_MAX;
    if (!r->st && !(s->dt_least >= 0.0f))
        r->st = mica_fail(r->err, MICA_E_FORMAT, "%s: config.json: \"%s\" must not be negative",
                          r->where, least);
}

/* Mamba2 with mamba_ before its keys. */
static void read_prefixed(config_reader *r, model_config *c) {
    ssm_config *s = &c->ssm;
    s->inner = expanded(r, "mamba_expand", c->hidden_size);
    if (r->arch->mixers == MIXERS_FALCON) s->inner = size_key(r, "mamba_d_ssm", s->inner);
    s->n_heads = size_key(r, "mamba_n_heads", 128);
    s->head_dim = auto_key(r, "mamba_d_head", s->inner / s->n_heads ? s->inner / s->n_heads : 1);
    s->n_groups = size_key(r, "mamba_n_groups", 1);
    s->state_size = size_key(r, "mamba_d_state", 256);
    s->conv_width = mica_config_integer(r, r->text, "mamba_d_conv", 4, 1, 64);
    s->in_bias = s->out_bias = mica_config_flag(r, r->text, "mamba_proj_bias", false);
    s->conv_bias = mica_config_flag(r, r->text, "mamba_conv_bias", true);
}

static void read_falcon(config_reader *r, model_config *c) {
    ssm_config *s = &c->ssm;
    read_prefixed(r, c);
    s->out_bias = mica_config_flag(r, r->text, "projectors_bias", false);
    bool first = mica_config_flag(r, r->text, "mamba_norm_before_gate", true);
    s->gate = first ? NORM_THEN_GATE : GATE_THEN_NORM;
    if (!mica_config_flag(r, r->text, "mamba_rms_norm", false)) s->gate = GATE_ALONE;
}

/* falcon_mamba norms dt, B and C. */
static void read_mamba(config_reader *r, model_config *c) {
    ssm_config *s = &c->ssm;
    s->inner = expanded(r, "expand", c->hidden_size);
    s->inner = size_key(r, "intermediate_size", s->inner);
    s->state_size = size_key(r, "state_size", 16);
    s->conv_width = mica_config_integer(r, r->text, "conv_kernel", 4, 1, 64);
    s->dt_rank = auto_key(r, "time_step_rank", (c->hidden_size + 15) / 16);
    s->in_bias = s->out_bias = mica_config_flag(r, r->text, "use_bias", false);
    s->conv_bias = mica_config_flag(r, r->text, "use_conv_bias", true);
    bool norms = !strcmp(r->text_type, "falcon_mamba");
    norms = mica_config_flag(r, r->text, "use_bcdt_rms", norms);
    if (norms) s->norm_eps = (float)mica_config_number(r, r->text, "mixer_rms_eps", 1e-6);
}

static void read_jamba(config_reader *r, model_config *c) {
    ssm_config *s = &c->ssm;
    s->inner = expanded(r, "mamba_expand", c->hidden_size);
    s->state_size = size_key(r, "mamba_d_state", 16);
    s->conv_width = mica_config_integer(r, r->text, "mamba_d_conv", 4, 1, 64);
    s->dt_rank = auto_key(r, "mamba_dt_rank", (c->hidden_size + 15) / 16);
    s->in_bias = s->out_bias = mica_config_flag(r, r->text, "mamba_proj_bias", false);
    s->conv_bias = mica_config_flag(r, r->text, "mamba_conv_bias", true);
}

/* The words for layers, under either key; true: there are some. */
static bool read_words(config_reader *r, model_config *c, mixer_kind other) {
    static const char *const keys[] = {"layer_types", "layers_block_type"};
    const json_value *types = mica_json_find_set(r->text, keys[0]);
    const char *key = types ? keys[0] : keys[1];
    if (!types) types = mica_json_find_set(r->text, key);
    if (!types || r->st) return false;
    if (types->kind != JSON_KIND_ARRAY || (int64_t)types->n != c->n_layers) {
        r->st = mica_fail(r->err, MICA_E_FORMAT,
                          "%s: config.json: \"%s\" must have a word for each of %lld layers",
                          r->where, key, (long long)c->n_layers);
        return true;
    }
    for (size_t i = 0; i < types->n; i++) {
        const char *word = mica_json_string(types->items[i], "?");
        bool attends = !strcmp(word, "attention") || !strcmp(word, "full_attention");
        c->mixer[i] = (uint8_t)(attends ? MIXER_ATTENTION : other);
        if (attends || !strcmp(word, "mamba") || !strcmp(word, "linear_attention")) continue;
        r->st = mica_fail(r->err, MICA_E_UNSUPPORTED,
                          "%s: config.json: %s[%zu] is \"%.40s\"; %s has attention and mamba",
                          r->where, key, i, word, r->arch->name);
        return true;
    }
    return true;
}

static void every_layer(model_config *c, mixer_kind kind) {
    for (int64_t i = 0; i < c->n_layers; i++)
        c->mixer[i] = (uint8_t)kind;
}

static void jamba_layers(config_reader *r, model_config *c) {
    int64_t period = size_key(r, "attn_layer_period", 8);
    int64_t offset = mica_config_integer(r, r->text, "attn_layer_offset", 4, 0, CONFIG_MAX_COUNT);
    if (read_words(r, c, MIXER_MAMBA)) return;
    for (int64_t i = 0; i < c->n_layers; i++)
        c->mixer[i] = i % period == offset ? MIXER_ATTENTION : MIXER_MAMBA;
}

static void granite_layers(config_reader *r, model_config *c) {
    const char *positions = mica_config_string(r, r->text, "position_embedding_type", "nope");
    if (!read_words(r, c, MIXER_MAMBA2)) every_layer(c, MIXER_MAMBA2);
    if (r->st || !strcmp(positions, "rope")) return;
    if (strcmp(positions, "nope") != 0)
        r->st = mica_fail(r->err, MICA_E_UNSUPPORTED,
                          "%s: config.json: \"position_embedding_type\": \"%.40s\" is not "
                          "supported for %s, which has \"rope\" and \"nope\"",
                          r->where, positions, r->arch->name);
    memset(c->rope_of_layer, MODEL_NO_ROPE, sizeof(c->rope_of_layer));
}

/* ---- nemotron_h: a sublayer a layer ---- */

static const struct {
    const char *word, *other; /* in lists */
    char letter;              /* in hybrid_override_pattern */
    mixer_kind mixer;
    bool is_sparse;
} sublayers[] = {
    {"mamba", "linear_attention", 'M', MIXER_MAMBA2, false},
    {"attention", "full_attention", '*', MIXER_ATTENTION, false},
    {"mlp", "mlp", '-', MIXER_NONE, false},
    {"moe", "moe", 'E', MIXER_NONE, true},
};

typedef struct sublayer_list {
    const char *key;
    const json_value *value; /* an array of words, or a string of letters; NULL: none is set */
} sublayer_list;

static sublayer_list find_sublayers(const config_reader *r) {
    static const char *const keys[] = {"layers_block_type", "layer_types",
                                       "hybrid_override_pattern"};
    sublayer_list list = {keys[2], NULL};
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys) && !list.value; i++)
        list = (sublayer_list){keys[i], mica_json_find_set(r->text, keys[i])};
    return list;
}

int64_t mica_config_n_layers(config_reader *r, int64_t fallback) {
    if (r->arch->mixers != MIXERS_NEMOTRON) return fallback;
    sublayer_list list = find_sublayers(r);
    bool fits = list.value &&
                (list.value->kind == JSON_KIND_ARRAY || list.value->kind == JSON_KIND_STRING) &&
                list.value->n > 0 && list.value->n <= (size_t)CONFIG_MAX_COUNT;
    if (fits) return (int64_t)list.value->n;
    if (!r->st)
        r->st = mica_fail(r->err, MICA_E_FORMAT,
                          "%s: config.json: \"%s\" must say what each layer is, in words "
                          "(\"layers_block_type\") or in letters (\"hybrid_override_pattern\")",
                          r->where, list.key);
    return fallback;
}

static void nemotron_layers(config_reader *r, model_config *c) {
    sublayer_list list = find_sublayers(r);
    size_t n_kinds = sizeof(sublayers) / sizeof(*sublayers);
    for (int64_t i = 0; !r->st && i < c->n_layers; i++) {
        bool letters = list.value->kind == JSON_KIND_STRING;
        char letter[2] = {letters ? list.value->string[i] : '\0', '\0'};
        const char *word = letters ? letter : mica_json_string(list.value->items[i], "?");
        size_t k = 0;
        while (k < n_kinds && (letters ? sublayers[k].letter != letter[0]
                                       : strcmp(sublayers[k].word, word) != 0 &&
                                             strcmp(sublayers[k].other, word) != 0))
            k++;
        if (k == n_kinds) {
            r->st = mica_fail(r->err, MICA_E_UNSUPPORTED,
                              "%s: config.json: %s[%lld] is \"%.40s\"; nemotron_h has mamba (M), "
                              "attention (*), mlp (-) and moe (E)",
                              r->where, list.key, (long long)i, word);
            return;
        }
        c->mixer[i] = (uint8_t)sublayers[k].mixer;
        c->moe.is_sparse[i] = sublayers[k].is_sparse;
        if (sublayers[k].is_sparse && !c->moe.n_experts)
            r->st = mica_fail(r->err, MICA_E_FORMAT,
                              "%s: config.json has no \"n_routed_experts\", which layer %lld needs",
                              r->where, (long long)i);
    }
}

void mica_config_read_ssm(config_reader *r, model_config *c) {
    if (r->st) return;
    want_silu(r);
    read_limit(r, &c->ssm);
    switch (r->arch->mixers) {
    case MIXERS_MAMBA2:
        read_mamba2(r, c);
        every_layer(c, MIXER_MAMBA2);
        break;
    case MIXERS_GRANITE:
        read_prefixed(r, c);
        granite_layers(r, c);
        break;
    case MIXERS_FALCON:
        read_falcon(r, c);
        every_layer(c, MIXER_BOTH);
        break;
    case MIXERS_NEMOTRON:
        read_nemotron(r, c);
        nemotron_layers(r, c);
        break;
    case MIXERS_MAMBA:
        read_mamba(r, c);
        every_layer(c, MIXER_MAMBA);
        break;
    case MIXERS_JAMBA:
        read_jamba(r, c);
        jamba_layers(r, c);
        break;
    default:
        break;
    }
    if (c->ssm.n_heads) check_heads(r, &c->ssm);
}
