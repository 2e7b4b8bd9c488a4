/* chat_open.c: finds a model's chat template among its files and readies it.
 *
 * Folder, first that exists: chat_template.jinja, with additional_chat_templates/NAME.jinja beside
 * it; chat_template.json; "chat_template" in tokenizer_config.json, a string or a list of named
 * ones. GGUF: tokenizer.chat_template, with tokenizer.chat_template.NAME beside it. None: ChatML.
 * Of several, "tool_use" serves requests with tools and "default" the others.
 */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "format/gguf.h"
#include "text/template/chat_impl.h"

static const char chatml[] = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + "
                             "'\n' + message['content'] + "
                             "'<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ "
                             "'<|im_start|>assistant\n' }}"
                             "{% endif %}";

enum { MAX_FILE = 64 << 20, MAX_NAMED = 32 };

/* Sources found, before any is compiled. */
typedef struct found {
    chat_template *t;
    const char *path;
    struct {
        const char *name, *source;
        size_t n;
    } named[MAX_NAMED];
    size_t n_named;
    mica_error *err;
} found;

static mica_status fail_memory(found *f) {
    return mica_fail(f->err, MICA_E_NOMEM, "%s: out of memory", f->path);
}

static mica_status add(found *f, const char *name, size_t n_name, const char *source, size_t n) {
    if (f->n_named == MAX_NAMED)
        return mica_fail(f->err, MICA_E_LIMIT, "%s: more than %d chat templates", f->path,
                         MAX_NAMED);
    char *name_copy = mica_arena_strndup(&f->t->arena, name, n_name);
    char *copy = mica_arena_strndup(&f->t->arena, source, n);
    if (!name_copy || !copy) return fail_memory(f);
    f->named[f->n_named].name = name_copy;
    f->named[f->n_named].source = copy;
    f->named[f->n_named++].n = n;
    return MICA_OK;
}

/* ---- folders ---- */

/* The text of folder/name; NULL and MICA_OK where there is no such file. */
static mica_status read_optional(found *f, const char *folder, const char *name, char **out,
                                 size_t *n) {
    char *path = mica_path_join(folder, name);
    *out = NULL;
    if (!path) return fail_memory(f);
    mica_status st = MICA_OK;
    if (mica_path_exists(path)) st = mica_file_read(out, n, path, MAX_FILE, f->err);
    mica_free(path);
    return st;
}

static mica_status add_file(found *f, const char *folder, const char *file, const char *name,
                            size_t n_name) {
    char *text;
    size_t n;
    mica_status st = read_optional(f, folder, file, &text, &n);
    if (!st && text) st = add(f, name, n_name, text, n);
    mica_free(text);
    return st;
}

static mica_status add_additional(found *f) {
    static const char suffix[] = ".jinja";
    char *folder = mica_path_join(f->path, "additional_chat_templates"), **names = NULL;
    size_t n = 0;
    mica_status st = MICA_OK;
    if (!folder) return fail_memory(f);
    if (mica_path_is_folder(folder)) st = mica_folder_list(&names, &n, folder, "", suffix, f->err);
    for (size_t i = 0; !st && i < n; i++)
        st = add_file(f, folder, names[i], names[i], strlen(names[i]) - strlen(suffix));
    mica_names_free(names, n);
    mica_free(folder);
    return st;
}

/* A string, or a list of {"name", "template"}. */
static mica_status add_json(found *f, const json_value *v) {
    if (!v || v->kind == JSON_KIND_NULL) return MICA_OK;
    if (v->kind == JSON_KIND_STRING) return add(f, "default", 7, v->string, v->n);
    if (v->kind != JSON_KIND_ARRAY)
        return mica_fail(f->err, MICA_E_FORMAT, "%s: \"chat_template\" is no string or list",
                         f->path);
    for (size_t i = 0; i < v->n; i++) {
        const json_value *name = mica_json_find(v->items[i], "name");
        const json_value *source = mica_json_find(v->items[i], "template");
        if (!name || !source || name->kind != JSON_KIND_STRING || source->kind != JSON_KIND_STRING)
            return mica_fail(f->err, MICA_E_FORMAT,
                             "%s: \"chat_template\" item %zu lacks \"name\" or \"template\"",
                             f->path, i);
        mica_status st = add(f, name->string, name->n, source->string, source->n);
        if (st) return st;
    }
    return MICA_OK;
}

/* Parses folder/name; *out stays NULL where there is no such file. */
static mica_status parse_optional(found *f, const char *name, json_value **out) {
    char *text;
    size_t n;
    mica_status st = read_optional(f, f->path, name, &text, &n);
    if (!st && text) st = mica_json_parse(out, text, n, name, true, &f->t->arena, f->err);
    mica_free(text);
    return st;
}

/* bos_token and its like, each a string or an object with "content". */
static mica_status read_special(found *f, const json_value *config, const json_value *map) {
    static const char *const names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};
    enum { N_NAMES = sizeof(names) / sizeof(names[0]) };
    json_value *special = mica_chat_json(&f->t->arena, JSON_KIND_OBJECT, N_NAMES);
    if (!special) return fail_memory(f);
    for (size_t i = 0; i < N_NAMES; i++) {
        const json_value *v = mica_json_find_set(config, names[i]);
        if (!v) v = mica_json_find_set(map, names[i]);
        if (v && v->kind == JSON_KIND_OBJECT) v = mica_json_find_set(v, "content");
        if (v && v->kind == JSON_KIND_STRING) mica_chat_set(special, names[i], (json_value *)v);
    }
    f->t->special = special;
    return MICA_OK;
}

static mica_status find_in_folder(found *f) {
    json_value *config = NULL, *map = NULL, *legacy = NULL;
    mica_status st = parse_optional(f, "tokenizer_config.json", &config);
    if (!st) st = parse_optional(f, "special_tokens_map.json", &map);
    if (!st) st = read_special(f, config, map);
    f->t->tool_parser = mica_json_string(mica_json_find(config, "tool_parser_type"), NULL);
    if (!st) st = add_file(f, f->path, "chat_template.jinja", "default", 7);
    if (!st) st = add_additional(f);
    if (st || f->n_named) return st;
    if ((st = parse_optional(f, "chat_template.json", &legacy))) return st;
    st = add_json(f, mica_json_find_set(legacy, "chat_template"));
    if (st || f->n_named) return st;
    return add_json(f, mica_json_find_set(config, "chat_template"));
}

/* ---- GGUF ---- */

static mica_status read_gguf_token(found *f, const gguf_file *file, const char *key,
                                   const char *name, json_value *special) {
    int64_t id = mica_gguf_integer(file, key, -1);
    const gguf_entry *tokens = mica_gguf_find(file, "tokenizer.ggml.tokens");
    gguf_string text;
    uint64_t pos = 0;
    bool is_list = tokens && tokens->type == GGUF_VALUE_ARRAY &&
                   tokens->element == GGUF_VALUE_STRING && id >= 0 && (uint64_t)id < tokens->n;
    if (!is_list) return MICA_OK;
    for (int64_t i = 0; i <= id; i++)
        if (!mica_gguf_next_string(tokens, &pos, &text)) return MICA_OK;
    json_value *v = mica_chat_text(&f->t->arena, text.data, text.n);
    return mica_chat_set(special, name, v) ? MICA_OK : fail_memory(f);
}

static mica_status find_in_gguf(found *f, const gguf_file *file) {
    static const char *const tokens[][2] = {
        {"tokenizer.ggml.bos_token_id", "bos_token"},
        {"tokenizer.ggml.eos_token_id", "eos_token"},
        {"tokenizer.ggml.unknown_token_id", "unk_token"},
        {"tokenizer.ggml.seperator_token_id", "sep_token"},
        {"tokenizer.ggml.padding_token_id", "pad_token"},
    };
    static const char prefix[] = "tokenizer.chat_template";
    json_value *special = mica_chat_json(&f->t->arena, JSON_KIND_OBJECT, 8);
    mica_status st = special ? MICA_OK : fail_memory(f);
    for (size_t i = 0; !st && i < sizeof(tokens) / sizeof(tokens[0]); i++)
        st = read_gguf_token(f, file, tokens[i][0], tokens[i][1], special);
    f->t->special = special;
    for (size_t i = 0; !st && i < mica_gguf_n_entries(file); i++) {
        const gguf_entry *e = mica_gguf_entry(file, i);
        size_t n = sizeof(prefix) - 1;
        bool is_one =
            e->type == GGUF_VALUE_STRING && e->key.n >= n && memcmp(e->key.data, prefix, n) == 0;
        if (is_one && e->key.n == n) st = add(f, "default", 7, e->s.data, e->s.n);
        if (is_one && e->key.n > n + 1 && e->key.data[n] == '.')
            st = add(f, e->key.data + n + 1, e->key.n - n - 1, e->s.data, e->s.n);
    }
    return st;
}

static mica_status find_by_path(found *f) {
    if (mica_path_is_folder(f->path)) {
        mica_status st = find_in_folder(f);
        if (st || f->n_named) return st;
        char **names = NULL; /* a folder with one GGUF file */
        size_t n = 0;
        st = mica_folder_list(&names, &n, f->path, "", ".gguf", f->err);
        char *path = !st && n == 1 ? mica_path_join(f->path, names[0]) : NULL;
        gguf_file *file = NULL;
        if (path && !(st = mica_gguf_open(&file, path, f->err))) st = find_in_gguf(f, file);
        mica_gguf_close(file);
        mica_free(path);
        mica_names_free(names, n);
        return st;
    }
    gguf_file *file = NULL;
    mica_status st = mica_gguf_open(&file, f->path, f->err);
    if (!st) st = find_in_gguf(f, file);
    mica_gguf_close(file);
    return st;
}

/* ---- readying ---- */

static bool mentions(const jinja_template *jinja, const char *word) {
    size_t n;
    const char *source = mica_template_source(jinja, &n);
    return memmem(source, n, word, strlen(word)) != NULL;
}

static mica_status add_variant(chat_template *t, const char *variant, const char *source, size_t n,
                               const char *name, mica_error *err) {
    chat_variant *v = &t->variants[t->n_variants];
    mica_status st = mica_template_compile(&v->jinja, source, n, name, err);
    if (st) return st;
    t->n_variants++;
    v->name = variant;
    v->knows_developer = mentions(v->jinja, "developer");
    if (mica_template_warning(v->jinja)) t->warning = mica_template_warning(v->jinja);
    return mica_chat_probe(t, v, err);
}

static int find_named(const found *f, const char *name) {
    for (size_t i = 0; i < f->n_named; i++)
        if (strcmp(f->named[i].name, name) == 0) return (int)i;
    return -1;
}

static mica_status fail_choice(const found *f, const char *choice) {
    char names[300] = "";
    for (size_t i = 0; i < f->n_named && strlen(names) < 200; i++) {
        size_t n = strlen(names);
        snprintf(names + n, sizeof(names) - n, "%s%.40s", n ? ", " : "", f->named[i].name);
    }
    if (choice)
        return mica_fail(f->err, MICA_E_NOT_FOUND,
                         "%s: no chat template '%.60s', and no file of that name (there are: %s)",
                         f->path, choice, names);
    return mica_fail(f->err, MICA_E_FORMAT,
                     "%s: several chat templates and none is \"default\"; choose one of: %s",
                     f->path, names);
}

static mica_status add_found(found *f, size_t i, const char *variant) {
    char name[512];
    snprintf(name, sizeof(name), "%.400s: chat template%s%.60s", f->path,
             i || f->n_named > 1 ? " " : "", f->n_named > 1 ? f->named[i].name : "");
    return add_variant(f->t, variant, f->named[i].source, f->named[i].n, name, f->err);
}

static mica_status ready(found *f, const char *choice) {
    if (choice) {
        int chosen = find_named(f, choice);
        if (chosen >= 0) return add_found(f, (size_t)chosen, "default");
        if (!mica_path_exists(choice)) return fail_choice(f, choice);
        char *text = NULL;
        size_t n;
        mica_status st = mica_file_read(&text, &n, choice, MAX_FILE, f->err);
        if (!st) st = add_variant(f->t, "default", text, n, choice, f->err);
        mica_free(text);
        return st;
    }
    if (f->n_named == 0) {
        mica_status st = add_variant(f->t, "default", chatml, sizeof(chatml) - 1, "ChatML", f->err);
        f->t->is_fallback = true;
        f->t->warning = "the model has no chat template; ChatML is used";
        return st;
    }
    int standard = find_named(f, "default"), tool_use = find_named(f, "tool_use");
    if (standard < 0 && f->n_named == 1) standard = 0;
    if (standard < 0) return fail_choice(f, NULL);
    mica_status st = add_found(f, (size_t)standard, "default");
    if (!st && tool_use >= 0 && tool_use != standard)
        st = add_found(f, (size_t)tool_use, "tool_use");
    return st;
}

static mica_status new_template(chat_template **out, const char *name, mica_error *err) {
    static const char dump[] = "{{ x|tojson }}";
    chat_template *t = mica_calloc(1, sizeof(*t));
    if (!t) return mica_fail(err, MICA_E_NOMEM, "%s: out of memory", name);
    mica_arena_init(&t->arena, 0);
    mica_status st = mica_template_compile(&t->dump, dump, sizeof(dump) - 1, "tojson", err);
    if (st) {
        mica_chat_template_free(t);
        return st;
    }
    *out = t;
    return MICA_OK;
}

mica_status mica_chat_template_open(chat_template **out, const char *path, const char *choice,
                                    mica_error *err) {
    chat_template *t = NULL;
    mica_status st = new_template(&t, path, err);
    if (st) return st;
    found f = {.t = t, .path = path, .err = err};
    st = find_by_path(&f);
    if (!st) st = ready(&f, choice);
    if (st)
        mica_chat_template_free(t);
    else
        *out = t;
    return st;
}

/* A copy of the object's strings, owned by the template. */
static mica_status copy_special(chat_template *t, const json_value *special, mica_error *err) {
    size_t n = special && special->kind == JSON_KIND_OBJECT ? special->n : 0;
    json_value *copy = mica_chat_json(&t->arena, JSON_KIND_OBJECT, n);
    bool is_good = copy != NULL;
    for (size_t i = 0; is_good && i < n; i++) {
        const json_member *m = &special->members[i];
        const char *key = mica_arena_strndup(&t->arena, m->key, m->n_key);
        if (m->value->kind != JSON_KIND_STRING) continue;
        is_good = key && mica_chat_set(copy, key,
                                       mica_chat_text(&t->arena, m->value->string, m->value->n));
    }
    t->special = copy;
    return is_good ? MICA_OK : mica_fail(err, MICA_E_NOMEM, "chat template: out of memory");
}

mica_status mica_chat_template_from_text(chat_template **out, const char *source, size_t n,
                                         const json_value *special, const char *name,
                                         mica_error *err) {
    chat_template *t = NULL;
    mica_status st = new_template(&t, name, err);
    if (st) return st;
    st = copy_special(t, special, err);
    if (!st) st = add_variant(t, "default", source, n, name, err);
    if (st)
        mica_chat_template_free(t);
    else
        *out = t;
    return st;
}

void mica_chat_template_free(chat_template *t) {
    if (!t) return;
    for (size_t i = 0; i < t->n_variants; i++)
        mica_template_free(t->variants[i].jinja);
    mica_template_free(t->dump);
    mica_arena_deinit(&t->arena);
    mica_free(t);
}

const chat_capabilities *mica_chat_template_capabilities(const chat_template *t, bool with_tools) {
    return &mica_chat_variant(t, with_tools)->can;
}

const jinja_template *mica_chat_template_jinja(const chat_template *t, bool with_tools) {
    return mica_chat_variant(t, with_tools)->jinja;
}

const char *mica_chat_template_warning(const chat_template *t) { return t->warning; }

bool mica_chat_template_is_own(const chat_template *t) { return !t->is_fallback; }
