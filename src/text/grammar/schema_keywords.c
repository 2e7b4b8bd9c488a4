/* schema_keywords.c: which keywords there are, and whether a schema uses them rightly. */
#include "text/grammar/schema.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef enum value_kind {
    VALUE_ANY,
    VALUE_COUNT, /* an integer of at least 0 */
    VALUE_NUMBER,
    VALUE_STRING,
    VALUE_SCHEMA,
    VALUE_SCHEMAS, /* a list of at least one */
    VALUE_MAP,     /* of schemas */
    VALUE_STRINGS,
    VALUE_LIST,
    VALUE_ITEMS /* a schema, or a list of them as before draft 2020-12 */
} value_kind;

static const struct {
    const char *name;
    keyword_kind kind;
    value_kind value;
} keywords[] = {
    {"$schema", KEYWORD_ANNOTATION, VALUE_ANY},
    {"$id", KEYWORD_ANNOTATION, VALUE_ANY},
    {"$anchor", KEYWORD_ANNOTATION, VALUE_STRING},
    {"$comment", KEYWORD_ANNOTATION, VALUE_ANY},
    {"$defs", KEYWORD_ANNOTATION, VALUE_MAP},
    {"definitions", KEYWORD_ANNOTATION, VALUE_MAP},
    {"title", KEYWORD_ANNOTATION, VALUE_ANY},
    {"description", KEYWORD_ANNOTATION, VALUE_ANY},
    {"default", KEYWORD_ANNOTATION, VALUE_ANY},
    {"examples", KEYWORD_ANNOTATION, VALUE_ANY},
    {"example", KEYWORD_ANNOTATION, VALUE_ANY},
    {"deprecated", KEYWORD_ANNOTATION, VALUE_ANY},
    {"readOnly", KEYWORD_ANNOTATION, VALUE_ANY},
    {"writeOnly", KEYWORD_ANNOTATION, VALUE_ANY},
    {"contentEncoding", KEYWORD_ANNOTATION, VALUE_ANY},
    {"contentMediaType", KEYWORD_ANNOTATION, VALUE_ANY},
    {"contentSchema", KEYWORD_ANNOTATION, VALUE_ANY},
    {"discriminator", KEYWORD_ANNOTATION, VALUE_ANY},
    {"$ref", KEYWORD_APPLICATOR, VALUE_STRING},
    {"allOf", KEYWORD_APPLICATOR, VALUE_SCHEMAS},
    {"anyOf", KEYWORD_APPLICATOR, VALUE_SCHEMAS},
    {"oneOf", KEYWORD_APPLICATOR, VALUE_SCHEMAS},
    {"type", KEYWORD_TYPE, VALUE_ANY},
    {"enum", KEYWORD_VALUES, VALUE_LIST},
    {"const", KEYWORD_VALUES, VALUE_ANY},
    {"properties", KEYWORD_CONSTRAINT, VALUE_MAP},
    {"required", KEYWORD_CONSTRAINT, VALUE_STRINGS},
    {"additionalProperties", KEYWORD_CONSTRAINT, VALUE_SCHEMA},
    {"patternProperties", KEYWORD_CONSTRAINT, VALUE_MAP},
    {"propertyNames", KEYWORD_CONSTRAINT, VALUE_SCHEMA},
    {"minProperties", KEYWORD_CONSTRAINT, VALUE_COUNT},
    {"maxProperties", KEYWORD_CONSTRAINT, VALUE_COUNT},
    {"items", KEYWORD_CONSTRAINT, VALUE_ITEMS},
    {"prefixItems", KEYWORD_CONSTRAINT, VALUE_ITEMS},
    {"additionalItems", KEYWORD_CONSTRAINT, VALUE_SCHEMA},
    {"minItems", KEYWORD_CONSTRAINT, VALUE_COUNT},
    {"maxItems", KEYWORD_CONSTRAINT, VALUE_COUNT},
    {"minLength", KEYWORD_CONSTRAINT, VALUE_COUNT},
    {"maxLength", KEYWORD_CONSTRAINT, VALUE_COUNT},
    {"pattern", KEYWORD_CONSTRAINT, VALUE_STRING},
    {"format", KEYWORD_CONSTRAINT, VALUE_STRING},
    {"minimum", KEYWORD_CONSTRAINT, VALUE_NUMBER},
    {"maximum", KEYWORD_CONSTRAINT, VALUE_NUMBER},
    {"exclusiveMinimum", KEYWORD_CONSTRAINT, VALUE_NUMBER},
    {"exclusiveMaximum", KEYWORD_CONSTRAINT, VALUE_NUMBER},
    {"multipleOf", KEYWORD_CONSTRAINT, VALUE_NUMBER},
};
enum { N_KEYWORDS = sizeof(keywords) / sizeof(keywords[0]) };

static size_t find_keyword(const char *name) {
    size_t i = 0;
    while (i < N_KEYWORDS && strcmp(keywords[i].name, name) != 0) {
        i++;
    }
    return i;
}

keyword_kind mica_schema_keyword(const char *name) {
    size_t i = find_keyword(name);
    return i < N_KEYWORDS ? keywords[i].kind : KEYWORD_UNKNOWN;
}

static bool is_schema(const json_value *v) {
    return v->kind == JSON_KIND_OBJECT || v->kind == JSON_KIND_BOOL;
}

static bool is_list_of(const json_value *v, size_t n_min, bool (*test)(const json_value *v)) {
    if (v->kind != JSON_KIND_ARRAY || v->n < n_min) return false;
    for (size_t i = 0; test && i < v->n; i++) {
        if (!test(v->items[i])) return false;
    }
    return true;
}

static bool is_string(const json_value *v) { return v->kind == JSON_KIND_STRING; }

static bool is_map(const json_value *v) {
    if (v->kind != JSON_KIND_OBJECT) return false;
    for (size_t i = 0; i < v->n; i++) {
        if (!is_schema(v->members[i].value)) return false;
    }
    return true;
}

/* One that is too large for any integer is a count all the same. */
static bool is_count(const json_value *v) {
    double number = mica_json_double(v, -1);
    return number >= 0 && number == trunc(number);
}

/* What a value must be; NULL: it is that. */
static const char *find_fault(value_kind kind, const json_value *v) {
    switch (kind) {
    case VALUE_ANY:
        return NULL;
    case VALUE_COUNT:
        return is_count(v) ? NULL : "an integer of 0 or more";
    case VALUE_NUMBER:
        return mica_json_is_number(v) ? NULL : "a number";
    case VALUE_STRING:
        return is_string(v) ? NULL : "a string";
    case VALUE_SCHEMA:
        return is_schema(v) ? NULL : "a schema (an object or a boolean)";
    case VALUE_SCHEMAS:
        return is_list_of(v, 1, is_schema) ? NULL : "a list of at least one schema";
    case VALUE_MAP:
        return is_map(v) ? NULL : "an object of schemas";
    case VALUE_STRINGS:
        return is_list_of(v, 0, is_string) ? NULL : "a list of strings";
    case VALUE_LIST:
        return is_list_of(v, 1, NULL) ? NULL : "a list of at least one value";
    case VALUE_ITEMS:
        return is_schema(v) || is_list_of(v, 0, is_schema) ? NULL : "a schema or a list of schemas";
    }
    return NULL;
}

/* What in a value cannot be written as the schema has it; NULL: nothing. `is_whole`: not only the
 * keys of an object. */
static const char *find_altered(const json_value *v, bool is_whole) {
    static const char half[] = "an escape of half a character (a lone surrogate)";
    const char *fault = NULL;
    if (v->kind == JSON_KIND_STRING && v->has_half) return half;
    if (v->kind == JSON_KIND_DOUBLE && !isfinite(v->number) && !mica_json_is_long_integer(v))
        return "a number beyond 1.8e308";
    for (size_t i = 0; v->kind == JSON_KIND_ARRAY && i < v->n && !fault; i++) {
        fault = find_altered(v->items[i], true);
    }
    for (size_t i = 0; v->kind == JSON_KIND_OBJECT && i < v->n && !fault; i++) {
        const json_member *m = &v->members[i];
        if (m->has_half) return half;
        if (is_whole) fault = find_altered(m->value, true);
    }
    return fault;
}

/* The same for what a keyword says by itself, not for schemas in it. */
static const char *find_altered_part(size_t k, const json_value *v) {
    if (keywords[k].kind == KEYWORD_ANNOTATION) return NULL;
    switch (keywords[k].value) {
    case VALUE_ANY:
    case VALUE_LIST:
    case VALUE_STRING:
    case VALUE_STRINGS:
        return find_altered(v, true);
    case VALUE_MAP:
        return find_altered(v, false);
    default:
        return NULL;
    }
}

/* Keywords that are not enforced but say nothing with this value; extensions by their prefix. */
static bool is_harmless(const char *name, const json_value *v) {
    if (strncmp(name, "x-", 2) == 0) return true;
    if (strcmp(name, "uniqueItems") == 0 || strcmp(name, "nullable") == 0)
        return v->kind == JSON_KIND_BOOL && !v->boolean;
    if (strcmp(name, "unevaluatedProperties") == 0 || strcmp(name, "unevaluatedItems") == 0)
        return v->kind == JSON_KIND_BOOL && v->boolean;
    return false;
}

mica_status mica_schema_check_keywords(schema_compiler *c, const json_value *schema) {
    for (size_t i = 0; i < schema->n; i++) {
        const json_member *m = &schema->members[i];
        size_t k = find_keyword(m->key);
        if (k == N_KEYWORDS) {
            if (c->options.ignores_unknown || is_harmless(m->key, m->value)) continue;
            return mica_fail(c->err, MICA_E_UNSUPPORTED,
                             "schema: the keyword \"%s\" is not supported; leave it out", m->key);
        }
        const char *fault = find_fault(keywords[k].value, m->value);
        if (fault)
            return mica_fail(c->err, MICA_E_INVALID, "schema: \"%s\" must be %s", m->key, fault);
        const char *altered = find_altered_part(k, m->value);
        if (altered)
            return mica_fail(c->err, MICA_E_UNSUPPORTED,
                             "schema: \"%s\" holds %s, which is not supported", m->key, altered);
        bool is_least = keywords[k].value == VALUE_COUNT && strncmp(m->key, "min", 3) == 0;
        if (is_least && mica_json_double(m->value, 0) >= EXPR_UNBOUNDED)
            return mica_fail(
                c->err, MICA_E_LIMIT,
                "schema: \"%s\" is more than can be counted; it must be below %" PRIu32, m->key,
                EXPR_UNBOUNDED);
    }
    return MICA_OK;
}
