/* embedding.c: the files of sentence-transformers beside a model, or a GGUF file's pooling_type.
 *
 * modules.json lists what follows the model: pooling, then perhaps normalization. A module that is
 * not known is an error, because without it the vectors would be others. Without modules.json
 * 1_Pooling/config.json counts alone; without that an encoder takes the mean, as sentence-
 * transformers does, and a decoder the last token.
 */
#include "model/embedding.h"

#include <stdio.h>
#include <string.h>

#include "model/loaded.h"

#define MAX_FILE_BYTES ((size_t)1 << 20)

static const char *const pooling_names[POOLING_N] = {
    [POOLING_LAST] = "last", [POOLING_MEAN] = "mean",           [POOLING_CLS] = "cls",
    [POOLING_MAX] = "max",   [POOLING_SQRT_MEAN] = "sqrt-mean", [POOLING_WEIGHTED] = "weighted",
};

const char *mica_pooling_name(pooling_kind kind) { return pooling_names[kind]; }

bool mica_pooling_find(const char *name, pooling_kind *out) {
    for (int i = 0; i < POOLING_N; i++) {
        if (strcmp(pooling_names[i], name) != 0) continue;
        *out = (pooling_kind)i;
        return true;
    }
    return false;
}

const char *mica_embedding_prompt(const embedding_config *c, const char *name) {
    for (int i = 0; i < c->n_prompts; i++)
        if (!strcmp(c->prompts[i].name, name)) return c->prompts[i].text;
    return NULL;
}

/* Reads files of one folder with one sticky error. */
typedef struct embedding_reader {
    const char *folder;
    int64_t hidden_size;
    mica_arena *arena;
    mica_error *err;
    mica_status st;
} embedding_reader;

/* NULL: the file is not there, or the reader has failed. `part`: a folder in the folder, or "". */
static const json_value *read_file(embedding_reader *r, const char *part, const char *name) {
    json_value *v = NULL;
    if (r->st) return NULL;
    char *path = mica_asprintf("%s/%s%s%s", r->folder, part, *part ? "/" : "", name);
    if (!path)
        r->st = mica_fail(r->err, MICA_E_NOMEM, "%s: out of memory", r->folder);
    else if (mica_path_exists(path))
        r->st = mica_json_parse_file(&v, path, MAX_FILE_BYTES, true, r->arena, r->err);
    mica_free(path);
    return r->st ? NULL : v;
}

static void fail(embedding_reader *r, mica_status code, const char *file, const char *what,
                 const char *value) {
    if (r->st) return;
    r->st = mica_fail(r->err, code, "%s: %s: %s%s%.60s%s", r->folder, file, what,
                      value ? " \"" : "", value ? value : "", value ? "\"" : "");
}

/* ---- pooling ---- */

/* Newer files have one name, older ones a flag for each. */
static const struct {
    const char *mode, *flag;
    pooling_kind kind;
} modes[] = {
    {"cls", "pooling_mode_cls_token", POOLING_CLS},
    {"mean", "pooling_mode_mean_tokens", POOLING_MEAN},
    {"max", "pooling_mode_max_tokens", POOLING_MAX},
    {"mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens", POOLING_SQRT_MEAN},
    {"weightedmean", "pooling_mode_weightedmean_tokens", POOLING_WEIGHTED},
    {"lasttoken", "pooling_mode_lasttoken", POOLING_LAST},
};
enum { N_MODES = sizeof(modes) / sizeof(*modes) };

static int find_mode(const char *name) {
    for (int i = 0; i < N_MODES; i++)
        if (!strcmp(modes[i].mode, name)) return i;
    return -1;
}

/* A flag that must be one: Python counts the string "false" as true. */
static bool flag(embedding_reader *r, const json_value *object, const char *file, const char *key,
                 bool fallback) {
    const json_value *v = mica_json_find_set(object, key);
    char what[96];
    if (!v || v->kind == JSON_KIND_BOOL) return v ? v->boolean : fallback;
    snprintf(what, sizeof(what), "\"%s\" must be true or false", key);
    fail(r, MICA_E_FORMAT, file, what, NULL);
    return fallback;
}

/* What is pooled must be as wide as what the model makes; true: the file says how wide. */
static bool check_width(embedding_reader *r, const json_value *v, const char *file) {
    static const char *const keys[] = {"embedding_dimension", "word_embedding_dimension"};
    bool is_stated = false;
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
        const json_value *width = mica_json_find_set(v, keys[i]);
        if (!width) continue;
        is_stated = true;
        if (r->st || mica_json_i64(width, -1) == r->hidden_size) continue;
        r->st = mica_fail(r->err, MICA_E_FORMAT,
                          "%s: %s: \"%s\" is not %lld, the width of the model's hidden states; "
                          "the file belongs to another model",
                          r->folder, file, keys[i], (long long)r->hidden_size);
    }
    return is_stated;
}

static void read_modes(embedding_reader *r, const json_value *v, const char *file,
                       embedding_config *c) {
    int n = 0, found = find_mode("mean"); /* where a file with a width says none */
    bool is_stated = check_width(r, v, file);
    const json_value *mode = mica_json_find_set(v, "pooling_mode");
    if (mode && mode->kind == JSON_KIND_ARRAY && mode->n == 1) mode = mode->items[0];
    if (mode) {
        const char *name = mica_json_string(mode, "a list");
        if ((found = find_mode(name)) < 0)
            fail(r, MICA_E_UNSUPPORTED, file, "unsupported pooling_mode", name);
        n = 1;
    }
    for (int i = 0; i < N_MODES && !mode; i++) {
        is_stated = is_stated || mica_json_find_set(v, modes[i].flag);
        if (!flag(r, v, file, modes[i].flag, false)) continue;
        found = i;
        n++;
    }
    if (!mode && !is_stated)
        fail(r, MICA_E_FORMAT, file,
             "it must be an object that says how to pool, with a \"pooling_mode\" such as \"mean\"",
             NULL);
    if (n > 1)
        fail(r, MICA_E_UNSUPPORTED, file,
             "several poolings at once (their vectors joined) are not supported", NULL);
    if (r->st) return;
    c->pooling = modes[found].kind;
    c->excludes_prompt = !flag(r, v, file, "include_prompt", true);
}

static void read_pooling(embedding_reader *r, const char *part, bool must, embedding_config *c) {
    char file[96];
    snprintf(file, sizeof(file), "%.60s/config.json", part);
    const json_value *v = read_file(r, part, "config.json");
    if (v)
        read_modes(r, v, file, c);
    else if (must)
        fail(r, MICA_E_NOT_FOUND, file, "modules.json names it, but there is no such file", NULL);
    c->is_declared = c->is_declared || v;
}

/* ---- modules ---- */

/* "sentence_transformers.models.Pooling" -> "Pooling". */
static const char *last_word(const char *type) {
    const char *dot = strrchr(type, '.');
    return dot ? dot + 1 : type;
}

static bool is_inside(const char *part) { return part[0] != '/' && !strstr(part, ".."); }

static void read_module(embedding_reader *r, const json_value *item, size_t i,
                        embedding_config *c) {
    const char *file = "modules.json";
    const char *type = last_word(mica_json_string(mica_json_find_set(item, "type"), "?"));
    const char *part = mica_json_string(mica_json_find_set(item, "path"), "");
    if (!is_inside(part)) fail(r, MICA_E_FORMAT, file, "a path leads out of the folder:", part);
    if (i == 0) {
        if (strcmp(type, "Transformer") != 0)
            fail(r, MICA_E_UNSUPPORTED, file, "the first module must be Transformer; found", type);
        if (*part)
            fail(r, MICA_E_UNSUPPORTED, file,
                 "the model must lie in the folder itself; it is in the subfolder", part);
    } else if (strcmp(type, "Pooling") != 0 && strcmp(type, "Normalize") != 0) {
        fail(r, MICA_E_UNSUPPORTED, file,
             "Transformer, Pooling and Normalize are supported; unsupported module", type);
    } else if (strcmp(type, i == 1 ? "Pooling" : "Normalize") != 0) {
        fail(r, MICA_E_UNSUPPORTED, file,
             "the order must be Transformer, one Pooling, then perhaps Normalize; out of place is",
             type);
    } else if (i == 1) {
        read_pooling(r, part, true, c);
    } else {
        c->normalizes = true;
    }
}

static void read_modules(embedding_reader *r, embedding_config *c) {
    const json_value *v = read_file(r, "", "modules.json");
    if (!v) {
        read_pooling(r, "1_Pooling", false, c);
        return;
    }
    if (v->kind != JSON_KIND_ARRAY || v->n < 2)
        fail(r, MICA_E_FORMAT, "modules.json", "expected a list of at least two modules", NULL);
    if (r->st) return;
    c->is_declared = true;
    c->normalizes = false;
    for (size_t i = 0; i < v->n && !r->st; i++)
        read_module(r, v->items[i], i, c);
}

/* ---- prompts and limits ---- */

static void read_prompts(embedding_reader *r, embedding_config *c) {
    const char *file = "config_sentence_transformers.json";
    const json_value *v = read_file(r, "", file), *all = mica_json_find_set(v, "prompts");
    const char *type = mica_json_string(mica_json_find_set(v, "model_type"), NULL);
    if (type && strcmp(type, "SentenceTransformer") != 0)
        fail(r, MICA_E_UNSUPPORTED, file, "unsupported model_type", type);
    if (mica_json_find_set(v, "truncate_dim"))
        fail(r, MICA_E_UNSUPPORTED, file,
             "\"truncate_dim\" is not supported; remove it and ask for as many --dimensions", NULL);
    c->default_prompt = mica_json_string(mica_json_find_set(v, "default_prompt_name"), NULL);
    if (all && (all->kind != JSON_KIND_OBJECT || all->n > INT32_MAX))
        fail(r, MICA_E_FORMAT, file, "\"prompts\" must be an object", NULL);
    size_t n = all ? all->n : 0;
    if (r->st) return;
    embedding_prompt *prompts = n ? mica_arena_calloc(r->arena, n, sizeof(*prompts)) : NULL;
    if (!prompts && n) {
        r->st = mica_fail(r->err, MICA_E_NOMEM, "%s: out of memory", r->folder);
        return;
    }
    for (size_t i = 0; i < n && !r->st; i++) {
        prompts[i].name = all->members[i].key;
        prompts[i].text = mica_json_string(all->members[i].value, NULL);
        if (!prompts[i].text)
            fail(r, MICA_E_FORMAT, file, "no text for the prompt", prompts[i].name);
    }
    c->prompts = prompts;
    c->n_prompts = (int)n;
    if (c->default_prompt && !mica_embedding_prompt(c, c->default_prompt))
        fail(r, MICA_E_FORMAT, file, "default_prompt_name is no prompt:", c->default_prompt);
}

/* Newer files say which states of the model are taken. */
static void check_task(embedding_reader *r, const json_value *v, const char *file) {
    const json_value *text = mica_json_find_set(mica_json_find_set(v, "modality_config"), "text");
    const json_value *output = mica_json_find_set(text, "method_output_name");
    const char *task = mica_json_string(mica_json_find_set(v, "transformer_task"), NULL);
    const char *name = output ? mica_json_string(output, "a list") : NULL;
    if (task && strcmp(task, "feature-extraction") != 0)
        fail(r, MICA_E_UNSUPPORTED, file, "unsupported transformer_task", task);
    if (name && strcmp(name, "last_hidden_state") != 0)
        fail(r, MICA_E_UNSUPPORTED, file, "unsupported method_output_name", name);
}

/* What the files of the model itself say, if nothing else does. */
static void read_tokenizer_limit(embedding_reader *r, embedding_config *c) {
    const json_value *v = read_file(r, "", "tokenizer_config.json");
    int64_t n = mica_json_i64(mica_json_find_set(v, "model_max_length"), 0);
    if (!c->max_tokens && n > 0 && n <= INT32_MAX) c->max_tokens = n; /* 1e30: none */
}

/* The file has the name of the class that wrote it. */
static void read_limit(embedding_reader *r, embedding_config *c) {
    static const char *const files[] = {"sentence_bert_config.json", "sentence_roberta_config.json",
                                        "sentence_distilbert_config.json",
                                        "sentence_camembert_config.json",
                                        "sentence_xlm-roberta_config.json"};
    for (size_t i = 0; i < sizeof(files) / sizeof(*files) && !r->st; i++) {
        const json_value *v = read_file(r, "", files[i]);
        if (!v) continue;
        if (flag(r, v, files[i], "do_lower_case", false))
            fail(r, MICA_E_UNSUPPORTED, files[i],
                 "\"do_lower_case\": true is not supported; a tokenizer's own normalizer may "
                 "lower the case",
                 NULL);
        check_task(r, v, files[i]);
        const json_value *n = mica_json_find_set(v, "max_seq_length");
        c->max_tokens = n ? mica_json_i64(n, -1) : 0;
        if (n && (c->max_tokens < 1 || c->max_tokens > INT32_MAX))
            fail(r, MICA_E_FORMAT, files[i], "\"max_seq_length\" must be a number above 0", NULL);
        break;
    }
    read_tokenizer_limit(r, c);
}

static mica_status read_folder(const model *m, mica_arena *arena, embedding_config *c,
                               mica_error *err) {
    embedding_reader r = {
        .folder = m->path, .hidden_size = m->config.hidden_size, .arena = arena, .err = err};
    read_modules(&r, c);
    read_prompts(&r, c);
    read_limit(&r, c);
    return r.st;
}

static mica_status read_gguf(const model *m, embedding_config *c, mica_error *err) {
    static const pooling_kind kinds[] = {POOLING_LAST, POOLING_MEAN, POOLING_CLS, POOLING_LAST};
    char key[96];
    gguf_string name = mica_gguf_string(m->gguf, "general.architecture");
    snprintf(key, sizeof(key), "%.*s.pooling_type", (int)(name.n < 64 ? name.n : 64), name.data);
    int64_t kind = mica_gguf_integer(m->gguf, key, 0);
    if (kind < 0 || kind > 3)
        return mica_fail(
            err, MICA_E_UNSUPPORTED,
            "%s: metadata \"%s\" is %lld; 1 (mean), 2 (cls) and 3 (last) are supported", m->path,
            key, (long long)kind);
    if (kind == 0) return MICA_OK;
    c->is_declared = true;
    c->pooling = kinds[kind];
    return MICA_OK;
}

mica_status mica_model_embedding(const model *m, mica_arena *arena, embedding_config *out,
                                 mica_error *err) {
    const arch *a = m->facts.arch;
    *out = (embedding_config){.is_declared = a->encoder || a->embed_end,
                              .pooling = a->encoder ? POOLING_MEAN : POOLING_LAST,
                              .normalizes = true,
                              .end_token = a->embed_end};
    return m->folder ? read_folder(m, arena, out, err) : read_gguf(m, out, err);
}
