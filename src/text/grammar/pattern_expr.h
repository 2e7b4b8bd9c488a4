/* pattern_expr.h: regular expressions as expressions over bytes. */
#ifndef MICA_TEXT_GRAMMAR_PATTERN_EXPR_H
#define MICA_TEXT_GRAMMAR_PATTERN_EXPR_H

#include "text/grammar/expr.h"

enum { PATTERN_MAX_DEPTH = 100, PATTERN_MAX_REPEAT = 1000000 };

typedef struct pattern_options {
    bool is_search;   /* the pattern need only match somewhere in the text, as in JSON Schema */
    bool is_json;     /* the text is the inside of a JSON string */
    const char *what; /* for messages: "regex", "pattern" */
} pattern_options;

/* *out: the texts that match. MICA_E_INVALID with the byte offset; MICA_E_UNSUPPORTED for what is
 * not regular or not known. */
mica_status mica_pattern_expr(const expr **out, grammar_build *b, const char *pattern, size_t n,
                              const pattern_options *options, mica_error *err);

#endif
