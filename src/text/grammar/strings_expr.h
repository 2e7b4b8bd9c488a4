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

/* The alternatives, with equal beginnings shared; like mica_expr_alt otherwise. */
const expr *mica_expr_factored(grammar_build *b, const expr *const *items, size_t n);

#endif
