/* call_types.c: which types a schema admits, and text that becomes a value of one of them.
 *
 * Only what tells types apart is read: type, enum, const, anyOf, oneOf, allOf, properties, items
 * and references within the schema. A number keeps its digits.
 */
#include "text/toolcall/call_types.h"

#include "text/grammar/schema_notation.h"
#include "text/template/chat.h"

/* A schema may refer to itself from many places, so that ways through it multiply. */
enum { MAX_SCHEMA_DEPTH = 8, MAX_SCHEMA_VISITS = 10000 };

mica_status mica_call_tools_parse(call_tools *out, const char *json, size_t n, mica_error *err) {
    json_value *list;
    mica_arena_init(&out->arena, 0);
    out->list = NULL;
    mica_status st = mica_json_parse(&list, json, n, "tools", true, &out->arena, err);
    if (!st) st = mica_chat_check_tools(list, err);
    if (st) {
        mica_call_tools_deinit(out);
        return st;
    }
    out->list = list->kind == JSON_KIND_ARRAY ? list : NULL;
    return MICA_OK;
}

void mica_call_tools_deinit(call_tools *t) {
    mica_arena_deinit(&t->arena);
    t->list = NULL;
}

static const json_value *find_tool(const call_tools *t, const char *name, size_t n_name) {
    for (size_t i = 0; t->list && i < t->list->n; i++) {
        const json_value *tool = t->list->items[i], *function = mica_json_find(tool, "function");
        if (function) tool = function;
        const json_value *found = mica_json_find(tool, "name");
        if (found && found->kind == JSON_KIND_STRING && found->n == n_name &&
            memcmp(found->string, name, n_name) == 0) {
            return tool;
        }
    }
    return NULL;
}

bool mica_call_tools_has(const call_tools *t, const char *name, size_t n_name) {
    return find_tool(t, name, n_name) != NULL;
}

const json_value *mica_call_tools_schema(const call_tools *t, const char *name, size_t n_name) {
    const json_value *tool = find_tool(t, name, n_name);
    const json_value *schema = mica_json_find(tool, "parameters");
    return schema ? schema : mica_json_find(tool, "input_schema");
}

/* ---- schemas ---- */
static const json_value *find_member(const json_value *object, const char *key, size_t n_key) {
    if (!object || object->kind != JSON_KIND_OBJECT) return NULL;
    for (size_t i = 0; i < object->n; i++) {
        const json_member *m = &object->members[i];
        if (m->n_key == n_key && memcmp(m->key, key, n_key) == 0) return m->value;
    }
    return NULL;
}

/* Follows "$ref": "#/a/b" from the root; NULL if it leads nowhere. */
static const json_value *resolve(const json_value *root, const json_value *schema) {
    for (int depth = 0; depth < MAX_SCHEMA_DEPTH; depth++) {
        const char *ref = mica_json_string(mica_json_find(schema, "$ref"), NULL);
        if (!ref) return schema;
        if (ref[0] != '#') return NULL;
        schema = root;
        for (ref++; *ref == '/' && schema;) {
            const char *end = strchr(ref + 1, '/');
            if (!end) end = ref + strlen(ref);
            schema = find_member(schema, ref + 1, (size_t)(end - ref - 1));
            ref = end;
        }
    }
    return NULL;
}

static bool starts_with(const char *s, const char *prefix) {
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

/* Tools in the wild name types of other languages too. */
static unsigned type_of_word(const char *s) {
    static const struct {
        const char *prefix;
        unsigned type;
    } words[] = {
        {"str", SCHEMA_STRING},    {"text", SCHEMA_STRING},      {"varchar", SCHEMA_STRING},
        {"char", SCHEMA_STRING},   {"enum", SCHEMA_STRING},      {"int", SCHEMA_INTEGER},
        {"uint", SCHEMA_INTEGER},  {"long", SCHEMA_INTEGER},     {"short", SCHEMA_INTEGER},
        {"num", SCHEMA_NUMBER},    {"unsigned", SCHEMA_INTEGER}, {"float", SCHEMA_NUMBER},
        {"double", SCHEMA_NUMBER}, {"bool", SCHEMA_BOOLEAN},     {"binary", SCHEMA_BOOLEAN},
        {"obj", SCHEMA_OBJECT},    {"dict", SCHEMA_OBJECT},      {"arr", SCHEMA_ARRAY},
        {"list", SCHEMA_ARRAY},    {"null", SCHEMA_NULL},        {"none", SCHEMA_NULL},
    };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (starts_with(s, words[i].prefix)) return words[i].type;
    }
    return SCHEMA_ANY_VALUE;
}

static unsigned type_of_value(const json_value *v) {
    static const unsigned types[] = {
        [JSON_KIND_NULL] = SCHEMA_NULL,     [JSON_KIND_BOOL] = SCHEMA_BOOLEAN,
        [JSON_KIND_INT] = SCHEMA_INTEGER,   [JSON_KIND_DOUBLE] = SCHEMA_NUMBER,
        [JSON_KIND_STRING] = SCHEMA_STRING, [JSON_KIND_ARRAY] = SCHEMA_ARRAY,
        [JSON_KIND_OBJECT] = SCHEMA_OBJECT,
    };
    return types[v->kind];
}

static unsigned types_of_words(const json_value *type) {
    unsigned types = 0;
    if (type->kind == JSON_KIND_STRING) return type_of_word(type->string);
    for (size_t i = 0; type->kind == JSON_KIND_ARRAY && i < type->n; i++) {
        types |= type_of_word(mica_json_string(type->items[i], ""));
    }
    return types;
}

/* Whether one more schema may be looked at. */
static bool may_visit(int depth, int *n_visits) {
    return depth < MAX_SCHEMA_DEPTH && ++*n_visits <= MAX_SCHEMA_VISITS;
}

static unsigned find_types(const json_value *root, const json_value *schema, int depth,
                           int *n_visits) {
    static const char *const choices[] = {"anyOf", "oneOf", "allOf"};
    unsigned types = 0;
    if (!may_visit(depth, n_visits)) return 0;
    schema = resolve(root, schema);
    if (!schema || schema->kind != JSON_KIND_OBJECT) return 0;
    const json_value *found = mica_json_find(schema, "type");
    if (found) return types_of_words(found);
    if ((found = mica_json_find(schema, "const"))) return type_of_value(found);
    if ((found = mica_json_find(schema, "enum")) && found->kind == JSON_KIND_ARRAY) {
        for (size_t i = 0; i < found->n; i++) {
            types |= type_of_value(found->items[i]);
        }
        return types;
    }
    for (size_t k = 0; k < 3; k++) {
        found = mica_json_find(schema, choices[k]);
        for (size_t i = 0; found && found->kind == JSON_KIND_ARRAY && i < found->n; i++) {
            types |= find_types(root, found->items[i], depth + 1, n_visits);
        }
    }
    if (types) return types;
    if (mica_json_find(schema, "properties")) return SCHEMA_OBJECT;
    return mica_json_find(schema, "items") ? SCHEMA_ARRAY : 0;
}

/* 0: the schema says nothing about types. */
static unsigned types_of(const json_value *root, const json_value *schema) {
    int n_visits = 0;
    return find_types(root, schema, 0, &n_visits);
}

static const json_value *child_of(const json_value *root, const json_value *schema, const char *key,
                                  size_t n_key, int depth, int *n_visits) {
    static const char *const choices[] = {"anyOf", "oneOf", "allOf"};
    if (!may_visit(depth, n_visits)) return NULL;
    schema = resolve(root, schema);
    if (!schema) return NULL;
    const json_value *child = key ? find_member(mica_json_find(schema, "properties"), key, n_key)
                                  : mica_json_find(schema, "items");
    if (!child && key) child = mica_json_find(schema, "additionalProperties");
    if (child && child->kind == JSON_KIND_OBJECT) return child;
    for (size_t k = 0; k < 3; k++) {
        const json_value *list = mica_json_find(schema, choices[k]);
        for (size_t i = 0; list && list->kind == JSON_KIND_ARRAY && i < list->n; i++) {
            child = child_of(root, list->items[i], key, n_key, depth + 1, n_visits);
            if (child) return child;
        }
    }
    return NULL;
}

const json_value *mica_call_schema_of(const json_value *root, const json_value *schema,
                                      const char *key, size_t n_key) {
    int n_visits = 0;
    return child_of(root, schema, key, n_key, 0, &n_visits);
}

bool mica_call_schema_admits(const json_value *root, const json_value *schema, json_kind kind) {
    unsigned types = types_of(root, schema);
    if (!types) return true;
    return types & (kind == JSON_KIND_OBJECT ? SCHEMA_OBJECT : SCHEMA_ARRAY);
}

/* ---- values ---- */
static bool is_word(const char *s, size_t n, const char *word) {
    for (size_t i = 0; i < n; i++) {
        if (!word[i] || (s[i] | 32) != word[i]) return false;
    }
    return word[n] == '\0';
}

/* The whole of s[0..n) as one JSON or Python value whose first character is one of `first`. */
static bool put_value(call_text *out, const char *s, size_t n, const char *first) {
    static const call_notation python = {.tuples = true};
    call_cursor c = {.s = s, .n = n, .is_end = true};
    size_t n_before = out->n;
    if (n == 0 || (first && !strchr(first, s[0]))) return false;
    if (mica_call_value(&c, &python, out) == CALL_OK && c.pos == n) return true;
    out->n = n_before;
    return false;
}

/* A number that is an integer, also if written with a fraction of zeros: its digits. */
static bool put_integer(call_text *out, const char *s, size_t n) {
    bool is_integer;
    if (!mica_call_is_number(s, n, &is_integer)) return false;
    const char *dot = memchr(s, '.', n);
    if (!is_integer && dot) {
        size_t i = (size_t)(dot - s) + 1;
        while (i < n && s[i] == '0') {
            i++;
        }
        is_integer = i == n;
        if (is_integer) n = (size_t)(dot - s);
    }
    if (is_integer) mica_call_put(out, s, n);
    return is_integer;
}

static bool put_number(call_text *out, const char *s, size_t n) {
    bool is_integer;
    if (put_integer(out, s, n)) return true;
    if (!mica_call_is_number(s, n, &is_integer)) return false;
    mica_call_put(out, s, n);
    return true;
}

static bool put_as(call_text *out, const char *s, size_t n, unsigned types) {
    bool is_true = is_word(s, n, "true");
    bool is_none = !(types & SCHEMA_STRING) && is_word(s, n, "none");
    if ((types & SCHEMA_NULL) && (is_word(s, n, "null") || is_none)) {
        mica_call_put_cstring(out, "null");
        return true;
    }
    if ((types & SCHEMA_INTEGER) && put_integer(out, s, n)) return true;
    if ((types & SCHEMA_NUMBER) && put_number(out, s, n)) return true;
    if ((types & SCHEMA_BOOLEAN) && (is_true || is_word(s, n, "false"))) {
        mica_call_put_cstring(out, is_true ? "true" : "false");
        return true;
    }
    if ((types & SCHEMA_OBJECT) && put_value(out, s, n, "{")) return true;
    if ((types & SCHEMA_ARRAY) && put_value(out, s, n, "[(")) return true;
    return (types & SCHEMA_ANY_VALUE) && put_value(out, s, n, NULL);
}

unsigned mica_call_schema_types(const json_value *root, const json_value *schema,
                                call_guess guess) {
    unsigned types = types_of(root, schema);
    if (!types) types = schema || guess == CALL_GUESS_JSON ? SCHEMA_ANY_VALUE : SCHEMA_STRING;
    return guess == CALL_GUESS_TEXT_NULL ? types | SCHEMA_NULL : types;
}

bool mica_call_is_other_value(const char *s, size_t n, unsigned types) {
    call_text value = {0};
    mica_call_trim(&s, &n);
    bool is_other = put_as(&value, s, n, types);
    mica_call_text_deinit(&value);
    return is_other;
}

void mica_call_put_typed(call_text *out, const char *text, size_t n, const json_value *root,
                         const json_value *schema, call_guess guess) {
    const char *s = text;
    size_t n_trimmed = n;
    unsigned types = mica_call_schema_types(root, schema, guess);
    mica_call_trim(&s, &n_trimmed);
    if (!put_as(out, s, n_trimmed, types)) mica_call_put_json_string(out, text, n);
}
