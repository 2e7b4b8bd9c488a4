/* charset.h: sets of characters, and the bytes that spell them. */
#ifndef MICA_TEXT_GRAMMAR_CHARSET_H
#define MICA_TEXT_GRAMMAR_CHARSET_H

#include "text/grammar/expr.h"

typedef struct code_range {
    uint32_t lo, hi; /* both included */
} code_range;

/* Zeros at first; the ranges lie in the builder's arena. */
typedef struct char_set {
    code_range *ranges;
    size_t n;
    size_t capacity;
} char_set;

/* False: out of memory, the builder's status says so. */
bool mica_chars_add(grammar_build *b, char_set *s, uint32_t lo, uint32_t hi);
bool mica_chars_add_set(grammar_build *b, char_set *s, const char_set *other);
bool mica_chars_negate(grammar_build *b, char_set *s);
/* \p{name}: general categories by short or long name, "Any", "ASCII", Alphabetic-like names are not
 * known. *is_known false: not such a name. */
bool mica_chars_add_property(grammar_build *b, char_set *s, const char *name, size_t n,
                             bool *is_known);
bool mica_chars_add_digits(grammar_build *b, char_set *s); /* ECMAScript's \d, \w, \s */
bool mica_chars_add_word(grammar_build *b, char_set *s);
bool mica_chars_add_space(grammar_build *b, char_set *s);

/* One character of the set in UTF-8; surrogates are left out. */
const expr *mica_chars_expr(grammar_build *b, char_set *s);
/* The same inside a JSON string: what must be escaped is, in its shortest form. */
const expr *mica_chars_json(grammar_build *b, char_set *s);

#endif
