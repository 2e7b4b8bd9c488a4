/* regex.h: the regular expressions of tokenizer files.
 *
 * The files are written for Oniguruma; the engine here is PCRE2. A pattern is rewritten at load so
 * that it matches the same pieces, or refused by name: it is never run with another meaning. A
 * match that hits a limit of the engine is an error, not "no match".
 */
#ifndef MICA_TEXT_TOKENIZER_REGEX_H
#define MICA_TEXT_TOKENIZER_REGEX_H

#include "text/tokenizer/text_buffer.h"

/* One compiled pattern; immutable, shared by all threads. */
typedef struct regex {
    void *code;
    struct regex *next; /* the tokenizer's list */
} regex;

/* `name` is the source, for messages. */
mica_status mica_regex_compile(regex **out, const char *pattern, size_t n, const char *name,
                               mica_error *err);
void mica_regex_free(regex *re); /* NULL is fine */

/* Appends to *out the PCRE2 form of an Oniguruma pattern. */
mica_status mica_regex_rewrite(text_buffer *out, const char *pattern, size_t n, const char *name,
                               mica_error *err);
/* The PCRE2 form of the part of \p{...} between the braces without '^': items for a class. False:
 * not a name that is known to mean the same. */
bool mica_regex_property(text_buffer *out, const char *name, size_t n);
/* Room for `property` is this much. */
#define REGEX_PROPERTY_MAX 96

/* What a match needs besides the pattern; one a call, made on first use. */
typedef struct regex_scratch {
    void *match_data;
    void *match_context;
    void *jit_stack;
} regex_scratch;

void mica_regex_scratch_deinit(regex_scratch *s);

/* The first match at or after `from` in well-formed UTF-8. *found false: there is none. */
mica_status mica_regex_find(const regex *re, regex_scratch *s, const char *text, size_t n,
                            size_t from, text_piece *out, bool *found, mica_error *err);

#endif
