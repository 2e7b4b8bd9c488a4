/* regex_rewrite.h: the state of rewriting one pattern, shared by the two files that do it. */
#ifndef MICA_TEXT_TOKENIZER_REGEX_REWRITE_H
#define MICA_TEXT_TOKENIZER_REGEX_REWRITE_H

#include "text/tokenizer/regex.h"

#define REGEX_MAX_GROUPS 100

/* Written-out classes: White_Space, and what \w means to Oniguruma: outside of brackets it also has
 * six numbers of Latin-1. */
#define REGEX_SPACE_ITEMS                                                                       \
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}" \
    "\\x{205f}\\x{3000}"
#define REGEX_WORD_ITEMS "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
#define REGEX_WORD_MORE "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"

typedef struct regex_group {
    size_t begin;     /* in out, of its '(' */
    size_t n_inline;  /* "(?i)" in it: groups of ours to close with it */
    bool is_caseless; /* of the text around it */
} regex_group;

typedef struct regex_rewriter {
    const char *in;
    size_t n;
    size_t pos;
    const char *name;
    text_buffer *out;
    regex_group groups[REGEX_MAX_GROUPS]; /* [0] is the whole pattern */
    size_t n_groups;
    size_t atom; /* in out: what a quantifier would repeat; NO_ATOM */
    bool is_caseless;
    char last_literal; /* under (?i): the letter just written, for pairs with a folding of their own
                        */
    mica_error *err;
} regex_rewriter;

#define REGEX_NO_ATOM SIZE_MAX

/* '\0' past the end. */
static inline char regex_peek(const regex_rewriter *rw, size_t ahead) {
    return rw->pos + ahead < rw->n ? rw->in[rw->pos + ahead] : '\0';
}

mica_status mica_regex_refuse(const regex_rewriter *rw, const char *what);
mica_status mica_regex_put(regex_rewriter *rw, const char *s);
/* A literal code point, written so that it means itself inside and outside of classes. */
mica_status mica_regex_put_literal(regex_rewriter *rw, uint32_t c);

/* What an escape stands for. */
typedef struct regex_escape {
    bool is_literal;
    uint32_t c;      /* of a literal */
    bool is_negated; /* of a class: its items are those NOT meant */
    bool is_simple;  /* of a class: one item, which can be negated by capital letters */
    char items[REGEX_PROPERTY_MAX + 64];
} regex_escape;

/* Reads the escape at pos (a backslash) that is a character or a class, and moves past it. */
mica_status mica_regex_read_escape(regex_rewriter *rw, regex_escape *out);
/* Rewrites the bracket expression at pos. */
mica_status mica_regex_rewrite_class(regex_rewriter *rw);

#endif
