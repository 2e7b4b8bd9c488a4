/* names.c: tables and rules of docs/numerics.md 3.3 (GGUF) and docs/models.md 4.2, 4.3 (folders).
 */
#include "weights/names.h"

#include <stdio.h>
#include <string.h>

typedef struct name_pair {
    const char *from, *to;
} name_pair;

static const name_pair top_names[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
    {"position_embd", "model.embed_positions"},
    {"token_types", "model.embed_token_types"},
    {"token_embd_norm", "model.embed_norm"},
    {"per_layer_token_embd", "model.embed_tokens_per_layer"},
    {"per_layer_model_proj", "model.per_layer_model_projection"},
    {"per_layer_proj_norm", "model.per_layer_projection_norm"},
    {"altup_proj", "model.altup_projections"},
    {"altup_unembd_proj", "model.altup_unembed_projections"},
    {NULL, NULL},
};

static const name_pair layer_names[] = {
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_qkv", "self_attn.qkv_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"ffn_norm", "post_attention_layernorm"}, /* but see sandwich_names */
    {"post_attention_norm", "post_attention_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
    {"attn_output_norm", "post_attention_layernorm"},
    {"layer_output_norm", "post_feedforward_layernorm"},
    {"ffn_gate_inp", "mlp.gate"},
    {"ffn_gate_exps", "mlp.switch_mlp.gate_proj"},
    {"ffn_up_exps", "mlp.switch_mlp.up_proj"},
    {"ffn_down_exps", "mlp.switch_mlp.down_proj"},
    {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
    {"ffn_down_shexp", "mlp.shared_expert.down_proj"},
    {"ffn_gate_inp_shexp", "mlp.shared_expert_gate"},
    {"ffn_gate_up_exps", "mlp.experts.gate_up_proj"},
    {"attn_q_a", "self_attn.q_a_proj"},
    {"attn_q_a_norm", "self_attn.q_a_layernorm"},
    {"attn_q_b", "self_attn.q_b_proj"},
    {"attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa"},
    {"attn_kv_a_norm", "self_attn.kv_a_layernorm"},
    {"attn_kv_b", "self_attn.kv_b_proj"},
    {"attn_k_b", "self_attn.k_b_proj"},
    {"attn_v_b", "self_attn.v_b_proj"},
    {"inp_gate", "per_layer_input_gate"},
    {"proj", "per_layer_projection"},
    {"post_norm", "post_per_layer_input_norm"},
    {"altup_correct_coef", "altup.correction_coefs"},
    {"altup_predict_coef", "altup.prediction_coefs"},
    {"altup_router", "altup.modality_router"},
    {"altup_router_norm", "altup.router_norm"},
    {"laurel_l", "laurel.linear_left"},
    {"laurel_r", "laurel.linear_right"},
    {"laurel_post_norm", "laurel.post_laurel_norm"},
    {"pre_ffw_norm_2", "pre_feedforward_layernorm_2"},
    {"post_ffw_norm_1", "post_feedforward_layernorm_1"},
    {"post_ffw_norm_2", "post_feedforward_layernorm_2"},
    {"ffn_latent_down", "mlp.fc1_latent_proj"},
    {"ffn_latent_up", "mlp.fc2_latent_proj"},
    {"ssm_in", "mixer.in_proj"},
    {"ssm_conv1d", "mixer.conv1d"},
    {"ssm_x", "mixer.x_proj"},
    {"ssm_dt", "mixer.dt_proj"},
    {"ssm_norm", "mixer.norm"},
    {"ssm_dt_norm", "mixer.dt_layernorm"},
    {"ssm_b_norm", "mixer.b_layernorm"},
    {"ssm_c_norm", "mixer.c_layernorm"},
    {"ssm_out", "mixer.out_proj"},
    {"shortconv.in_proj", "mixer.in_proj"},
    {"shortconv.conv", "mixer.conv1d"},
    {"shortconv.out_proj", "mixer.out_proj"},
    {NULL, NULL},
};

/* Names that are whole, with or without a suffix. */
static const name_pair whole_names[] = {
    {"exp_probs_b.bias", "mlp.gate.e_score_correction_bias"},
    {"attn_sinks.weight", "self_attn.sinks"},
    {"layer_output_scale.weight", "layer_scalar"},
    {"ffn_gate_inp.scale", "router.scale"},
    {"ffn_down_exps.scale", "router.per_expert_scale"},
    {"altup_correct_scale.weight", "altup.correct_output_scale"},
    {"ffn_norm", "post_attention_layernorm.weight"}, /* of falcon-h1 */
    {"ssm_a", "mixer.A"},
    {"ssm_d", "mixer.D"},
    {NULL, NULL},
};

/* Old files have a tensor for each expert: ffn_gate.3. */
static const name_pair expert_names[] = {
    {"ffn_gate", "gate_proj"}, {"ffn_up", "up_proj"}, {"ffn_down", "down_proj"}, {NULL, NULL}};

/* Architectures with norms before and after each half call the one before the MLP ffn_norm. */
static const name_pair sandwich_names[] = {{"ffn_norm", "pre_feedforward_layernorm"}, {NULL, NULL}};
/* Architectures that keep gate and up in one tensor call it ffn_up. */
static const name_pair gate_up_names[] = {{"ffn_up", "mlp.gate_up_proj"}, {NULL, NULL}};
static const name_pair delta_names[] = {
    {"attn_qkv", "linear_attn.in_proj_qkv"}, {"attn_gate", "linear_attn.in_proj_z"},
    {"ssm_beta", "linear_attn.in_proj_b"},   {"ssm_alpha", "linear_attn.in_proj_a"},
    {"ssm_ba", "linear_attn.in_proj_ba"},    {"ssm_in", "linear_attn.in_proj_qkvz"},
    {"ssm_conv1d", "linear_attn.conv1d"},    {"ssm_norm", "linear_attn.norm"},
    {"ssm_out", "linear_attn.out_proj"},     {NULL, NULL},
};
static const name_pair delta_whole_names[] = {
    {"ssm_a", "linear_attn.A"}, {"ssm_dt.bias", "linear_attn.dt_bias"}, {NULL, NULL}};
static const name_pair lfm2_top_names[] = {{"token_embd_norm", "model.norm"}, {NULL, NULL}};

/* What an architecture calls otherwise: stems of a layer, whole names of a layer, stems elsewhere.
 */
static const struct {
    const char *arch;
    const name_pair *layer, *whole, *top;
} arch_names[] = {
    {"chatglm", gate_up_names, NULL, NULL},
    {"gemma2", sandwich_names, NULL, NULL},
    {"gemma3", sandwich_names, NULL, NULL},
    {"gemma3n", sandwich_names, NULL, NULL},
    {"gemma4", sandwich_names, NULL, NULL},
    {"glm4", sandwich_names, NULL, NULL},
    {"glm4", gate_up_names, NULL, NULL},
    {"lfm2", NULL, NULL, lfm2_top_names},
    {"lfm2moe", NULL, NULL, lfm2_top_names},
    {"phi3", gate_up_names, NULL, NULL},
    {"qwen35", delta_names, delta_whole_names, NULL},
    {"qwen35moe", delta_names, delta_whole_names, NULL},
    {"qwen3next", delta_names, delta_whole_names, NULL},
};

const char *const mica_folder_prefixes[] = {"language_model.model.",
                                            "model.language_model.",
                                            "model.decoder.",
                                            "model.",
                                            "transformer.",
                                            "gpt_neox.",
                                            "backbone.",
                                            "bert.",
                                            "roberta.",
                                            "distilbert.",
                                            "nomic_bert.",
                                            "",
                                            NULL};

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static const char *look_up(const name_pair *pairs, const char *stem, size_t n) {
    for (; pairs && pairs->from; pairs++)
        if (strlen(pairs->from) == n && !memcmp(pairs->from, stem, n)) return pairs->to;
    return NULL;
}

typedef enum name_kind { NAME_LAYER, NAME_WHOLE, NAME_TOP } name_kind;

/* The architecture's own name first, then the usual one. */
static const char *translate(const char *arch, name_kind kind, const char *stem, size_t n) {
    static const name_pair *const usual[] = {layer_names, whole_names, top_names};
    for (size_t i = 0; i < COUNT(arch_names); i++) {
        const name_pair *const own[] = {arch_names[i].layer, arch_names[i].whole,
                                        arch_names[i].top};
        const char *to = strcmp(arch_names[i].arch, arch) ? NULL : look_up(own[kind], stem, n);
        if (to) return to;
    }
    return look_up(usual[kind], stem, n);
}

static bool starts_with(const char *s, const char *prefix) {
    return !strncmp(s, prefix, strlen(prefix));
}

static bool ends_with(const char *s, const char *suffix) {
    size_t n = strlen(s), n_suffix = strlen(suffix);
    return n >= n_suffix && !strcmp(s + n - n_suffix, suffix);
}

static bool fits(int n_written, size_t n) { return n_written >= 0 && (size_t)n_written < n; }

/* The layer number of "blk.N." and where the rest begins; NULL: another kind of name. */
static const char *layer_rest(const char *name, int *n_digits) {
    if (!starts_with(name, "blk.")) return NULL;
    *n_digits = (int)strspn(name + 4, "0123456789");
    const char *rest = name + 4 + *n_digits;
    return *n_digits && *rest == '.' ? rest + 1 : NULL;
}

/* "ffn_gate.3" -> "mlp.experts.3.gate_proj"; false: not so named. */
static bool expert_stem(const char *stem, size_t n, char *out, size_t n_out) {
    size_t at = n;
    while (at > 0 && stem[at - 1] >= '0' && stem[at - 1] <= '9')
        at--;
    if (at == n || at < 2 || stem[at - 1] != '.') return false;
    const char *to = look_up(expert_names, stem, at - 1);
    return to &&
           fits(snprintf(out, n_out, "mlp.experts.%.*s.%s", (int)(n - at), stem + at, to), n_out);
}

bool mica_gguf_canonical(const char *name, const char *arch, char *out, size_t n) {
    int n_digits = 0;
    const char *rest = layer_rest(name, &n_digits);
    const char *to = rest ? translate(arch, NAME_WHOLE, rest, strlen(rest)) : NULL;
    if (to) return fits(snprintf(out, n, "model.layers.%.*s.%s", n_digits, name + 4, to), n);
    const char *suffix = strrchr(name, '.');
    if (!suffix || (strcmp(suffix, ".weight") != 0 && strcmp(suffix, ".bias") != 0))
        return fits(snprintf(out, n, "%s", name), n);
    if (rest && rest < suffix) {
        char expert[64];
        size_t n_stem = (size_t)(suffix - rest);
        to = translate(arch, NAME_LAYER, rest, n_stem);
        if (!to && expert_stem(rest, n_stem, expert, sizeof(expert))) to = expert;
        if (to)
            return fits(snprintf(out, n, "model.layers.%.*s.%s%s", n_digits, name + 4, to, suffix),
                        n);
    }
    to = translate(arch, NAME_TOP, name, (size_t)(suffix - name));
    return fits(to ? snprintf(out, n, "%s%s", to, suffix) : snprintf(out, n, "%s", name), n);
}

enum { MAX_NUMBERS = 2, MAX_DIGITS = 9 };

/* What the Ns of a pattern stood for. */
typedef struct numbers {
    char text[MAX_NUMBERS][MAX_DIGITS + 1];
    int n;
} numbers;

static bool is_number_here(const char *pattern, const char *at) {
    return *at == 'N' && (at == pattern || at[-1] == '.') && (at[1] == '.' || at[1] == '\0');
}

/* Where `name` goes on after the pattern; NULL: no match. */
static const char *match(const char *pattern, const char *name, numbers *out) {
    out->n = 0;
    for (const char *p = pattern; *p; p++) {
        if (p[0] == '*' && p[1] == '\0') return "";
        if (!is_number_here(pattern, p)) {
            if (*name++ != *p) return NULL;
            continue;
        }
        size_t n = strspn(name, "0123456789");
        if (n == 0 || n > MAX_DIGITS || out->n == MAX_NUMBERS) return NULL;
        memcpy(out->text[out->n], name, n);
        out->text[out->n++][n] = '\0';
        name += n;
    }
    return name;
}

/* "model." + the pattern with its numbers + tail. */
static bool write_name(const char *pattern, const numbers *found, const char *tail, char *out,
                       size_t n) {
    size_t at = 0;
    int used = 0;
    int wrote = snprintf(out, n, "model.");
    for (const char *p = pattern; *p && fits(wrote, n - at); p++) {
        at += (size_t)wrote;
        if (is_number_here(pattern, p) && used < found->n)
            wrote = snprintf(out + at, n - at, "%s", found->text[used++]);
        else
            wrote = snprintf(out + at, n - at, "%c", *p);
    }
    if (!fits(wrote, n - at)) return false;
    at += (size_t)wrote;
    return fits(snprintf(out + at, n - at, "%s", tail), n - at);
}

/* True: a rule of the family decided. *ok as mica_folder_canonical's result. */
static bool by_family(const char *rest, const weight_naming *naming, char *out, size_t n,
                      bool *ok) {
    for (const weight_name *w = naming->names; w && w->from; w++) {
        numbers found;
        const char *tail = match(w->from, rest, &found);
        if (!tail || (*tail && (*tail != '.' || strchr(tail + 1, '.')))) continue;
        if (w->to)
            *ok = write_name(w->to, &found, tail, out, n);
        else
            *ok = fits(snprintf(out, n, "%s", ""), n);
        return true;
    }
    return false;
}

/* The rest of `name` after the module path `path` and a dot; NULL: it is not of that module. */
static const char *rest_of(const char *name, const char *path) {
    size_t n = strlen(path);
    return !strncmp(name, path, n) && name[n] == '.' ? name + n + 1 : NULL;
}

bool mica_folder_canonical(const char *name, const char *prefix, const weight_naming *naming,
                           char *out, size_t n) {
    static const weight_naming usual;
    if (!naming) naming = &usual;
    const char *head = naming->head ? naming->head : "lm_head";
    const char *embed = naming->embed ? naming->embed : "embed_tokens";
    const char *rest =
        starts_with(name, "language_model.") ? name + strlen("language_model.") : name;
    bool ok;
    if ((rest = rest_of(rest, head)) || (rest = rest_of(name, "lm_head")))
        return fits(snprintf(out, n, "lm_head.%s", rest), n);
    if (!starts_with(name, prefix)) return fits(snprintf(out, n, "%s", name), n);
    name += strlen(prefix);
    if ((rest = rest_of(name, head))) return fits(snprintf(out, n, "lm_head.%s", rest), n);
    if ((rest = rest_of(name, embed)))
        return fits(snprintf(out, n, "model.embed_tokens.%s", rest), n);
    if (by_family(name, naming, out, n, &ok)) return ok;
    return fits(snprintf(out, n, "model.%s", name), n);
}

bool mica_name_is_packed(const char *name) {
    return ends_with(name, ".qweight") || ends_with(name, ".weight_packed");
}

void mica_name_unpack(char *name) {
    if (mica_name_is_packed(name)) memcpy(strrchr(name, '.'), ".weight", sizeof(".weight"));
}

bool mica_name_is_dropped(const char *name) {
    static const char *const towers[] = {
        "vision_tower", "multi_modal_projector", "audio_tower",         "embed_audio",
        "embed_vision", "vision_embedder",       "vision_model",        "visual.",
        "mtp.",         "encoder.vision_tower",  "encoder.embed_vision"};
    if (ends_with(name, "rotary_emb.inv_freq") || ends_with(name, "rope.inv_freq")) return true;
    if (strstr(name, "rotary_emb.") && ends_with(name, "_cached")) return true;
    if (starts_with(name, "model.")) name += strlen("model.");
    for (size_t i = 0; i < COUNT(towers); i++)
        if (starts_with(name, towers[i])) return true;
    return false;
}
