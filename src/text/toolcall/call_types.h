/* call_types.h: the tools of a request, and arguments that are written as bare text turned into the
 * types that the tools' schemas ask for.
 */
#ifndef MICA_TEXT_CALL_TYPES_H
#define MICA_TEXT_CALL_TYPES_H

#include "base/json.h"
#include "text/toolcall/call_scan.h"

typedef struct call_tools {
    mica_arena arena;
    const json_value *list; /* NULL: none */
} call_tools;

/* `json`: an array of {"type": "function", "function": {...}} or of the inner objects. */
mica_status mica_call_tools_parse(call_tools *out, const char *json, size_t n, mica_error *err);
void mica_call_tools_deinit(call_tools *t);
bool mica_call_tools_has(const call_tools *t, const char *name, size_t n_name);
/* The schema of all parameters of a tool; NULL: no such tool or no schema. */
const json_value *mica_call_tools_schema(const call_tools *t, const char *name, size_t n_name);

/* What to do with text whose schema is not known. */
typedef enum call_guess {
    CALL_GUESS_TEXT,      /* a string */
    CALL_GUESS_JSON,      /* a value if it reads as one, else a string */
    CALL_GUESS_TEXT_NULL, /* as TEXT; and "null" is null whatever the schema says */
} call_guess;

/* The schema of a member (`key`) or, with key NULL, of the items of what `schema` describes. `root`
 * resolves references; NULLs are fine, also as result. */
const json_value *mica_call_schema_of(const json_value *root, const json_value *schema,
                                      const char *key, size_t n_key);
/* Whether the schema admits an object, or an array. */
bool mica_call_schema_admits(const json_value *root, const json_value *schema, json_kind kind);
/* What text there may become, as bits of schema_type. */
unsigned mica_call_schema_types(const json_value *root, const json_value *schema, call_guess guess);
/* Whether text becomes something else than a string where these types may stand. */
bool mica_call_is_other_value(const char *s, size_t n, unsigned types);
/* Appends `text` as JSON: the first of integer, number, boolean, object, array and string that the
 * schema admits and the text fits; what fits none is a string. */
void mica_call_put_typed(call_text *out, const char *text, size_t n, const json_value *root,
                         const json_value *schema, call_guess guess);

#endif
