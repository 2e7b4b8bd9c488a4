/* strings_expr.h: one of many strings. */
#ifndef MICA_TEXT_GRAMMAR_STRINGS_EXPR_H
#define MICA_TEXT_GRAMMAR_STRINGS_EXPR_H

#include "text/grammar/expr.h"

typedef struct byte_string {
    const char *s;
    size_t n;
} byte_string;

/* Sorts `items`. */
const expr *mica_strings_expr(grammar_build *b, byte_string *items, size_t n);

#endif
