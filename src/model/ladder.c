/* ladder.c: from the type a file declares to a row of the family table.
 *
 * model_type alone decides; no other key is sniffed to guess a family. Only a vision wrapper hands
 * the decision to its text_config. A type without a row is refused before any tensor is touched,
 * with the list of what would have been taken.
 */
#include "model/arch.h"

#include <stdio.h>
#include <string.h>

/* Types that are another type's mathematics, or (without a row) whose real name helps the reader.
 */
static const struct {
    const char *type, *target;
} remaps[] = {
    {"iquestcoder", "llama"},
    {"gemma3", "gemma3_text"},
    {"llava", "mistral3"},
    {"phi-msft", "phixtral"},
    {"falcon_mamba", "mamba"},
    {"kimi_k2", "deepseek_v3"},
    {"joyai_llm_flash", "deepseek_v3"},
    {"qwen2_5_vl", "qwen2_vl"},
    {"minimax_m2", "minimax"},
    {"gemma4_unified", "gemma4_text"},
    {"gemma4_unified_text", "gemma4_text"},
    {"gemma4", "gemma4_text"},
    {"gemma3n", "gemma3n_text"},
    {"llama4", "llama4_text"},
    {"diffusion_gemma_text", "diffusion_gemma"},
    {"qwen3_5", "qwen3_5_text"},
    {"qwen3_5_moe", "qwen3_5_moe_text"},
    {"xlm-roberta", "roberta"},
    {"camembert", "roberta"},
};

/* Types that hand the decision to their text_config, and what its type is when it has none. */
static const struct {
    const char *type, *text_type;
} wrappers[] = {
    {"mistral3", "mistral"},     {"gemma3", "gemma3_text"},           {"llama4", "llama4_text"},
    {"qwen3_5", "qwen3_5_text"}, {"qwen3_5_moe", "qwen3_5_moe_text"},
};

static const char *remap(const char *type) {
    for (size_t i = 0; i < sizeof(remaps) / sizeof(remaps[0]); i++)
        if (!strcmp(remaps[i].type, type)) return remaps[i].target;
    return type;
}

/* The i-th row in the order of the files; NULL: there are no more. */
static const arch *row_at(size_t i) {
    const arch_table *const tables[] = {&mica_archs_first,   &mica_archs_dense,
                                        &mica_archs_encoder, &mica_archs_moe,
                                        &mica_archs_older,   &mica_archs_recurrent};
    for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++) {
        if (i < tables[t]->n) return &tables[t]->rows[i];
        i -= tables[t]->n;
    }
    return NULL;
}

size_t mica_n_archs(void) {
    size_t n = 0;
    while (row_at(n))
        n++;
    return n;
}

/* The row that `i` others stand before in the alphabet; for listings, so it may be slow. */
const arch *mica_arch_at(size_t i) {
    for (size_t k = 0; row_at(k); k++) {
        size_t n_before = 0;
        for (size_t j = 0; row_at(j); j++)
            n_before += strcmp(row_at(j)->name, row_at(k)->name) < 0;
        if (n_before == i) return row_at(k);
    }
    return NULL;
}

size_t mica_model_n_archs(void) { return mica_n_archs(); }
const char *mica_model_arch(size_t i) { return mica_arch_at(i)->name; }
model_tier mica_model_arch_tier(size_t i) { return mica_arch_at(i)->tier; }
const char *mica_model_arch_gguf(size_t i) { return mica_arch_at(i)->gguf; }
const char *mica_model_arch_gguf_moe(size_t i) { return mica_arch_at(i)->gguf_moe; }
bool mica_model_arch_is_encoder(size_t i) { return mica_arch_at(i)->encoder != NULL; }

static const arch *find_arch(const char *name) {
    for (size_t i = 0; row_at(i); i++)
        if (!strcmp(row_at(i)->name, name)) return row_at(i);
    return NULL;
}

bool mica_model_synonym(size_t i, const char **type, const char **target) {
    for (size_t k = 0; k < sizeof(remaps) / sizeof(remaps[0]); k++) {
        if (!find_arch(remaps[k].target) || i-- != 0) continue;
        *type = remaps[k].type;
        *target = remaps[k].target;
        return true;
    }
    return false;
}

static bool ends_with(const char *s, const char *suffix) {
    size_t n = strlen(s), n_suffix = strlen(suffix);
    return n >= n_suffix && !strcmp(s + n - n_suffix, suffix);
}

static mica_status copy_type(char out[48], const json_value *object, const char *where,
                             mica_error *err) {
    const json_value *v = mica_json_find_set(object, "model_type");
    if (!v || v->kind != JSON_KIND_STRING || v->n == 0)
        return mica_fail(err, MICA_E_FORMAT, "%s: config.json has no \"model_type\"", where);
    if (v->n > 47 || strlen(v->string) != v->n)
        return mica_fail(err, MICA_E_UNSUPPORTED, "%s: unsupported model_type \"%.60s\"", where,
                         v->string);
    memcpy(out, v->string, v->n + 1);
    return MICA_OK;
}

static const char *wrapped_type(const char *type) {
    if (!strcmp(remap(type), "mistral3")) type = "mistral3";
    for (size_t i = 0; i < sizeof(wrappers) / sizeof(wrappers[0]); i++)
        if (!strcmp(wrappers[i].type, type)) return wrappers[i].text_type;
    return NULL;
}

/* A text model that is not the one of its wrapper would be read with keys that mean something else.
 */
static mica_status check_text_type(const model_kind *kind, const json_value *text,
                                   const char *where, mica_error *err) {
    char type[48];
    if (!mica_json_find_set(text, "model_type") || !find_arch(remap(kind->file_type)))
        return MICA_OK; /* mistral3 holds what it likes; what is unknown is refused as such */
    mica_status st = copy_type(type, text, where, err);
    if (st || !strcmp(remap(type), remap(kind->file_type)) || ends_with(type, "_assistant"))
        return st;
    return mica_fail(err, MICA_E_UNSUPPORTED,
                     "%s: config.json: text_config has model_type \"%s\"; a \"%s\" holds a "
                     "\"%s\"",
                     where, type, kind->file_type, remap(kind->file_type));
}

mica_status mica_dispatch_kind(model_kind *out, const json_value *config, const char *where,
                               mica_error *err) {
    model_kind kind = {0};
    mica_status st = copy_type(kind.file_type, config, where, err);
    if (st) return st;
    memcpy(kind.text_type, kind.file_type, sizeof(kind.text_type));
    const json_value *text = mica_json_find_set(config, "text_config");
    if (text && text->kind != JSON_KIND_OBJECT)
        return mica_fail(err, MICA_E_FORMAT, "%s: config.json: \"text_config\" must be an object",
                         where);
    kind.wrapped = text != NULL;
    if (text && (st = check_text_type(&kind, text, where, err))) return st;
    const char *fallback = text ? wrapped_type(kind.file_type) : NULL;
    if (fallback) {
        if (mica_json_find_set(text, "model_type"))
            st = copy_type(kind.text_type, text, where, err);
        else
            snprintf(kind.text_type, sizeof(kind.text_type), "%s", fallback);
        if (st) return st;
    }
    *out = kind;
    return MICA_OK;
}

/* "gemma2, llama, ...": the rows of one tier, in the table's order. */
static void list_tier(char *out, size_t n, model_tier tier) {
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < mica_n_archs(); i++) {
        const arch *a = mica_arch_at(i);
        bool generic = a->tier == TIER_GENERIC;
        if (generic != (tier == TIER_GENERIC) || at >= n) continue;
        int wrote = snprintf(out + at, n - at, "%s%s", at ? ", " : "", a->name);
        if (wrote > 0) at += (size_t)wrote;
    }
}

static mica_status reject(const char *what, const char *type, const char *target, const char *where,
                          mica_error *err) {
    char targeted[256], generic[2048], remapped[80] = "";
    list_tier(targeted, sizeof(targeted), TIER_DEDICATED);
    list_tier(generic, sizeof(generic), TIER_GENERIC);
    if (strcmp(type, target) != 0)
        snprintf(remapped, sizeof(remapped), " (remaps to \"%s\")", target);
    return mica_fail(err, MICA_E_UNSUPPORTED,
                     "%s: unsupported %s \"%s\"%s; targeted: MiniCPM5 (llama of its shape), %s; "
                     "generic: %s",
                     where, what, type, remapped, targeted, generic);
}

mica_status mica_dispatch_folder(const arch **out, const model_kind *kind, const char *where,
                                 mica_error *err) {
    if (ends_with(kind->file_type, "_assistant") || ends_with(kind->text_type, "_assistant"))
        return mica_fail(err, MICA_E_UNSUPPORTED,
                         "%s: model_type \"%s\" is a draft model; pass it as the drafter of a "
                         "target model",
                         where, kind->file_type);
    const char *target = remap(kind->text_type);
    const arch *found = find_arch(target);
    if (!found) return reject("model_type", kind->text_type, target, where, err);
    *out = found;
    return MICA_OK;
}

mica_status mica_dispatch_gguf(const arch **out, const gguf_file *file, const char *where,
                               mica_error *err) {
    char name[48] = "";
    gguf_string s = mica_gguf_string(file, "general.architecture");
    if (!s.data || s.n == 0)
        return mica_fail(err, MICA_E_FORMAT, "%s: no \"general.architecture\" in the metadata",
                         where);
    snprintf(name, sizeof(name), "%.*s", (int)(s.n < 47 ? s.n : 47), s.data);
    const arch *found = NULL;
    for (size_t i = 0; row_at(i); i++) {
        const arch *a = row_at(i);
        char key[128];
        bool is_moe = a->gguf_moe && !strcmp(a->gguf_moe, name);
        if (!a->gguf || (strcmp(a->gguf, name) != 0 && !is_moe)) continue;
        snprintf(key, sizeof(key), "%s.%s", name, a->gguf_needs ? a->gguf_needs : "");
        int64_t value = a->gguf_needs ? mica_gguf_integer(file, key, 0) : 0;
        bool fits = a->gguf_needs_value ? value == a->gguf_needs_value : value != 0;
        if (a->gguf_needs ? fits : !found) found = a;
    }
    *out = found;
    if (found) return MICA_OK;
    return reject("general.architecture", name, name, where, err);
}

bool mica_dispatch_is_minicpm5(const arch *a, const model_config *c) {
    return !strcmp(a->name, "llama") && !strcmp(c->model_type, "llama") && c->hidden_size == 1536 &&
           c->n_layers == 24 && c->n_heads == 16 && c->n_kv_heads == 2 && c->head_dim == 128 &&
           c->vocab_size == 130560 && !c->tied;
}

model_tier mica_dispatch_tier(const arch *a, const model_config *config) {
    return mica_dispatch_is_minicpm5(a, config) ? TIER_DEDICATED : a->tier;
}
