/* schema.h: the inside of the JSON schema compiler.
 *
 * What must hold at one place is a list of schemas that all apply. It is flattened (allOf, $ref) to
 * plain keywords and lists of choices (anyOf, oneOf); choices are multiplied out, and each way is
 * compiled by type. A list that was met before is a rule, which is how recursion ends.
 */
#ifndef MICA_TEXT_GRAMMAR_SCHEMA_H
#define MICA_TEXT_GRAMMAR_SCHEMA_H

#include "text/grammar/expr.h"
#include "text/grammar/grammar.h"

enum {
    SCHEMA_MAX_DISJUNCTS = 1024, /* of one place */
    SCHEMA_MAX_CHOICES = 64,     /* anyOf and oneOf lists of one place */
    SCHEMA_MAX_FLAT = 4096,      /* schemas that hold at one place */
    SCHEMA_MAX_NAMES = 4096,     /* properties of one object */
    SCHEMA_MAX_NESTED = 4,       /* compilers inside compilers, to check enum values */
    SCHEMA_MAX_DEPTH = 400
};

typedef struct schema_list {
    const json_value **items;
    size_t n, capacity;
} schema_list;

/* Property names, each once. */
typedef struct schema_names {
    struct {
        const char *s;
        size_t n;
    } * items;
    size_t n, capacity;
} schema_names;

typedef struct schema_memo {
    schema_list key;
    uint32_t rule;
} schema_memo;

typedef struct schema_compiler {
    grammar_build *b;
    const json_value *root;
    schema_options options;
    schema_memo *memos;
    size_t n_memos, memos_capacity;
    int nested, depth;
    const expr *space; /* white space between tokens */
    mica_error *err;
} schema_compiler;

/* A failed allocation of a builder, or MICA_OK. */
mica_status mica_schema_check(schema_compiler *c, const expr *e);
bool mica_schema_push(schema_compiler *c, schema_list *list, const json_value *v);

/* The rule for a place where all of `list` must hold. */
mica_status mica_schema_place(schema_compiler *c, const schema_list *list, const expr **out);

/* By type, from flat schemas (schema_string.c, schema_number.c, schema_array.c, ...). */
mica_status mica_schema_string(schema_compiler *c, const schema_list *flat, const expr **out);
mica_status mica_schema_number(schema_compiler *c, const schema_list *flat, bool is_integer,
                               const expr **out);
mica_status mica_schema_array(schema_compiler *c, const schema_list *flat, const expr **out);
mica_status mica_schema_object(schema_compiler *c, const schema_list *flat, const expr **out);
/* Any string but these, with quotes; where there are names it is spelled in its shortest form. */
mica_status mica_schema_other_string(schema_compiler *c, const schema_names *names,
                                     const expr **out);

/* The strings with quotes in which the pattern is found, and the others. */
mica_status mica_schema_pattern_names(schema_compiler *c, const char *pattern, size_t n,
                                      const expr **with, const expr **without);

/* What flat schemas allow together: values of enum and const, else type by type. */
mica_status mica_schema_types(schema_compiler *c, const schema_list *flat, const expr **out);
/* A compiler for the same document; deinit frees only what it made itself. */
mica_status mica_schema_compiler_init(schema_compiler *c, grammar_build *b, const json_value *root,
                                      const schema_options *options, mica_error *err);
void mica_schema_compiler_deinit(schema_compiler *c);

/* A JSON string's bytes with quotes. */
const expr *mica_schema_literal(schema_compiler *c, const char *s, size_t n);
/* The value as it may be spelled, with white space where that is allowed. */
const expr *mica_schema_value(schema_compiler *c, const json_value *v, int depth);
/* space text space */
const expr *mica_schema_token(schema_compiler *c, const char *text);

/* ---- keywords (schema_keywords.c) ---- */
typedef enum keyword_kind {
    KEYWORD_UNKNOWN,
    KEYWORD_ANNOTATION, /* says nothing about which instances are valid */
    KEYWORD_APPLICATOR, /* allOf, anyOf, oneOf, $ref */
    KEYWORD_TYPE,
    KEYWORD_VALUES, /* enum, const */
    KEYWORD_CONSTRAINT
} keyword_kind;
keyword_kind mica_schema_keyword(const char *name);
/* Whether all keywords of a schema are known and have values of the right type. */
mica_status mica_schema_check_keywords(schema_compiler *c, const json_value *schema);

/* The pattern of a format; NULL: not known. */
const char *mica_format_pattern(const char *name);

#endif
