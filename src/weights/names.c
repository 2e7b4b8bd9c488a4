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
    {"ffn_gate_inp", "mlp.gate"},
    {"ffn_gate_exps", "mlp.switch_mlp.gate_proj"},
    {"ffn_up_exps", "mlp.switch_mlp.up_proj"},
    {"ffn_down_exps", "mlp.switch_mlp.down_proj"},
};

/* Architectures with norms before and after each half call the one before the MLP ffn_norm. */
static const char *const sandwich_archs[] = {"gemma2", "gemma3", "glm4"};
static const name_pair sandwich_names[] = {{"ffn_norm", "pre_feedforward_layernorm"}};

/* Architectures that keep gate and up in one tensor call it ffn_up. */
static const char *const gate_up_archs[] = {"chatglm", "glm4", "phi3"};
static const name_pair gate_up_names[] = {{"ffn_up", "mlp.gate_up_proj"}};

const char *const mica_folder_prefixes[] = {"language_model.model.",
                                            "model.language_model.",
                                            "model.",
                                            "transformer.",
                                            "gpt_neox.",
                                            "backbone.",
                                            "",
                                            NULL};

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static const char *look_up(const name_pair *pairs, size_t n_pairs, const char *stem, size_t n) {
    for (size_t i = 0; i < n_pairs; i++)
        if (strlen(pairs[i].from) == n && !memcmp(pairs[i].from, stem, n)) return pairs[i].to;
    return NULL;
}

static bool is_one_of(const char *s, const char *const *list, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!strcmp(list[i], s)) return true;
    return false;
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

bool mica_gguf_canonical(const char *name, const char *arch, char *out, size_t n) {
    const char *suffix = strrchr(name, '.');
    if (!suffix || (strcmp(suffix, ".weight") != 0 && strcmp(suffix, ".bias") != 0))
        return fits(snprintf(out, n, "%s", name), n);
    int n_digits = 0;
    const char *rest = layer_rest(name, &n_digits);
    const char *to = NULL;
    if (rest && rest < suffix) {
        size_t n_stem = (size_t)(suffix - rest);
        if (is_one_of(arch, sandwich_archs, COUNT(sandwich_archs)))
            to = look_up(sandwich_names, COUNT(sandwich_names), rest, n_stem);
        if (!to && is_one_of(arch, gate_up_archs, COUNT(gate_up_archs)))
            to = look_up(gate_up_names, COUNT(gate_up_names), rest, n_stem);
        if (!to) to = look_up(layer_names, COUNT(layer_names), rest, n_stem);
        if (to)
            return fits(snprintf(out, n, "model.layers.%.*s.%s%s", n_digits, name + 4, to, suffix),
                        n);
    }
    to = look_up(top_names, COUNT(top_names), name, (size_t)(suffix - name));
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
    static const char *const towers[] = {"vision_tower", "multi_modal_projector", "audio_tower",
                                         "embed_audio",  "embed_vision",          "vision_embedder",
                                         "visual."};
    if (ends_with(name, "rotary_emb.inv_freq") || ends_with(name, "rope.inv_freq")) return true;
    if (strstr(name, "rotary_emb.") && ends_with(name, "_cached")) return true;
    if (starts_with(name, "model.")) name += strlen("model.");
    for (size_t i = 0; i < COUNT(towers); i++)
        if (starts_with(name, towers[i])) return true;
    return false;
}
