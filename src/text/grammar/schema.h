/* schema.h: the inside of the JSON schema compiler.
 *
 * What must hold at one place is a list of schemas that all apply. It is flattened (allOf, $ref) to
 * plain keywords and lists of choices (anyOf, oneOf); choices are multiplied out, and each way is
 * compiled by type. A list that was met before is a rule, which is how recursion ends. How values
 * are spelled is a notation (schema_notation.h), JSON unless a caller gives another.
 */
#ifndef MICA_TEXT_GRAMMAR_SCHEMA_H
#define MICA_TEXT_GRAMMAR_SCHEMA_H

#include "text/grammar/expr.h"
#include "text/grammar/grammar.h"
#include "text/grammar/schema_notation.h"

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

/* Where a schema applies: how values are spelled there, and which of them may come. */
typedef struct schema_site {
    const schema_notation *notation;
    const json_value *seen; /* the schema that the notation's reader goes by */
    unsigned types;
} schema_site;

typedef struct schema_memo {
    schema_list key;
    schema_site site;
    uint32_t rule;
    uint32_t next; /* + 1, of the same chain; 0: none */
} schema_memo;

enum { SCHEMA_MEMO_CHAINS = 1024 };

/* The raw texts of a notation that are read as strings where `types` may stand. */
typedef struct schema_text_memo {
    const schema_notation *notation;
    unsigned types;
    const expr *texts;
    uint32_t rule;
} schema_text_memo;

typedef struct schema_compiler {
    grammar_build *b;
    const json_value *root;
    schema_options options;
    schema_memo *memos;
    size_t n_memos, memos_capacity;
    uint32_t memo_chains[SCHEMA_MEMO_CHAINS]; /* the latest memo + 1, by hash of its key */
    schema_text_memo *texts;
    size_t n_texts, texts_capacity;
    int nested, depth;
    schema_site site;
    schema_notation json;
    const json_value *at; /* the schema at work, for messages */
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
/* White space between JSON tokens; the builder has one rule for it. */
const expr *mica_schema_space(grammar_build *b, bool is_compact);
/* A compiler for the same document, not to be moved; deinit frees only what it made itself. */
mica_status mica_schema_compiler_init(schema_compiler *c, grammar_build *b, const json_value *root,
                                      const schema_options *options, mica_error *err);
void mica_schema_compiler_deinit(schema_compiler *c);

/* A JSON string's bytes with quotes; NEVER: the notation's bar is in it. */
const expr *mica_schema_literal(schema_compiler *c, const char *s, size_t n);
/* The same whatever is in it. */
const expr *mica_schema_json_string(schema_compiler *c, const char *s, size_t n);
/* One character of a JSON string in any spelling. */
const expr *mica_schema_plain_char(schema_compiler *c);
/* The value as it may be spelled, with white space where that is allowed; NEVER: it cannot be. */
const expr *mica_schema_value(schema_compiler *c, const json_value *v, int depth);

/* ---- errors (schema_where.c) ---- */
/* Adds a pointer to `at` to the message; false: it is not in that document. */
bool mica_schema_say_where(const json_value *root, const json_value *at, mica_error *err);

/* ---- at the site (schema_notation.c) ---- */
/* What the site's reader takes for a value: bits of schema_type; all of them without a reader. */
unsigned mica_schema_seen_types(const schema_compiler *c);
/* The types of values that may come at the site and are read as such. */
unsigned mica_schema_site_types(const schema_compiler *c);
/* Goes to the spelling of objects and arrays; the caller puts the old site back. */
void mica_schema_enter_container(schema_compiler *c);
/* Goes to a member's value, or with key NULL an item's. */
void mica_schema_enter_child(schema_compiler *c, const char *key, size_t n);
/* All of `list` in the value of a member or item of the container at the site. */
mica_status mica_schema_child(schema_compiler *c, const char *key, size_t n,
                              const schema_list *list, const expr **out);
/* The key of a member; NEVER: it cannot be written. */
const expr *mica_schema_key(schema_compiler *c, const char *key, size_t n);
/* A member of key and value; `again`: the key, or NULL, where it is not known. */
const expr *mica_schema_member(schema_compiler *c, const expr *key, const expr *value);
const expr *mica_schema_item(schema_compiler *c, const expr *value);
/* Whether an object (else an array) with nothing in it can be written. */
bool mica_schema_may_be_empty(const schema_compiler *c, bool is_object);
/* `e` without the texts that strings cannot hold here. No rules in `e`. */
mica_status mica_schema_bar(schema_compiler *c, const expr *e, const expr **out);

/* ---- raw text (schema_text.c) ---- */
/* Any string that can be written at the site and is read back: without quotes and rules; with
 * quotes, as a rule. */
mica_status mica_schema_any_text(schema_compiler *c, const expr **out);
mica_status mica_schema_all_texts(schema_compiler *c, const expr **out);
/* Strings by length, pattern and format, with quotes. */
mica_status mica_schema_text(schema_compiler *c, const schema_list *flat, const expr **out);
/* This text, without quotes; NEVER: it would not be read as it is. */
const expr *mica_schema_text_literal(schema_compiler *c, const char *s, size_t n);
/* With the quotes of the notation, and what closes a value. */
const expr *mica_schema_text_quoted(schema_compiler *c, const expr *e);
/* What all patterns and formats allow, spelled as JSON or raw; NULL: there are none. */
mica_status mica_schema_join_patterns(schema_compiler *c, const schema_list *flat, bool is_json,
                                      const expr **out);
void mica_schema_find_lengths(const schema_list *flat, uint32_t *min, uint32_t *max);

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
