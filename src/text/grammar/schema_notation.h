/* schema_notation.h: how the values of a schema are spelled.
 *
 * JSON is one notation; models write the arguments of calls in others: bare keys, strings between
 * quotes of their own, a tag for each member. A notation says how an object, a member, an array, an
 * item and a string look; numbers, true, false and null are JSON's. What is inside may have
 * another notation. Where strings are bare text, the one who reads it back goes by the schema: the
 * notation's reader says how, so that only what is read back as meant can be written.
 */
#ifndef MICA_TEXT_GRAMMAR_SCHEMA_NOTATION_H
#define MICA_TEXT_GRAMMAR_SCHEMA_NOTATION_H

#include "base/json.h"
#include "text/grammar/expr.h"

enum schema_type {
    SCHEMA_NULL = 1,
    SCHEMA_BOOLEAN = 2,
    SCHEMA_INTEGER = 4,
    SCHEMA_NUMBER = 8, /* with integers */
    SCHEMA_STRING = 16,
    SCHEMA_ARRAY = 32,
    SCHEMA_OBJECT = 64,
    SCHEMA_ALL = 127,
    /* Of readers only: whatever the text is the value of; objects and arrays, but not from JSON. */
    SCHEMA_ANY_VALUE = 128,
    SCHEMA_NO_JSON = 256
};

typedef struct schema_reader {
    const void *user;
    /* What the text of a value may become, by the schema that is seen for it (NULL: none). */
    unsigned (*types)(const void *user, const json_value *root, const json_value *seen);
    /* The schema that is seen for a member, or with key NULL an item. */
    const json_value *(*child)(const void *user, const json_value *root, const json_value *seen,
                               const char *key, size_t n);
    /* Texts that are not read as the strings that they are, where `types` may stand. */
    const expr *(*misread)(const void *user, grammar_build *b, unsigned types);
    bool (*is_misread)(const void *user, const char *s, size_t n, unsigned types);
} schema_reader;

/* What stands before values of some types only. */
typedef struct schema_lead {
    unsigned types;
    const expr *text;
} schema_lead;

typedef enum schema_key_kind {
    SCHEMA_KEY_JSON,     /* a JSON string */
    SCHEMA_KEY_BARE,     /* as it is */
    SCHEMA_KEY_ATTRIBUTE /* with &amp; and &quot; */
} schema_key_kind;

typedef struct schema_notation schema_notation;
struct schema_notation {
    /* Around members and items; `end` closes where nothing stands inside. */
    const expr *object_open, *object_close, *object_end;
    const expr *array_open, *array_close, *array_end;
    const expr *separator;
    const expr *key_open, *key_end;
    const expr *key_again; /* behind the value: the key once more, then this; NULL: nothing */
    const expr *item_open, *item_close;
    const expr *value_close;  /* the end of each value, so that text knows where it stops */
    const schema_lead *leads; /* before values, behind key_end; none: nothing */
    size_t n_leads;

    schema_key_kind key;
    const char *key_excludes; /* bytes that no bare key has */
    bool names_only;          /* keys can only be names of the schema */
    bool any_order;           /* members, as far as that can be followed */
    bool is_elements;         /* items are the elements of that name; no text is {} or [],
                                 whichever the reader expects */
    const schema_notation *free_keys[2]; /* raw notations of other keys, where they are not JSON */

    /* Strings between `quote`s (EMPTY: none) are raw text, else as in JSON. */
    bool is_raw;
    const expr *quote;
    const char *bar;             /* text that no string can hold; NULL: any can be held */
    bool python_words;           /* True, False, None do for true, false, null */
    const schema_reader *reader; /* NULL: text says itself what it is */

    const schema_notation *values;     /* of members and items; NULL: this one */
    const schema_notation *containers; /* of objects and arrays themselves; NULL: this one */
    const schema_notation *maps;       /* of objects that name no properties, and of values of enum
                                          and const; NULL: as of others */
};

/* JSON with this white space between tokens. False: the builder's status says why. */
bool mica_notation_json(schema_notation *out, grammar_build *b, const expr *space);

#endif
