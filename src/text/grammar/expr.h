/* expr.h: the middle form of a grammar: expressions over bytes, and rules that name them.
 *
 * All front ends build these; program.c turns them into the automaton. Builders take and give const
 * pointers into one arena. They never fail loudly: a NULL operand gives NULL, and out of memory or
 * too many expressions gives NULL and sets the builder's status, which is looked at once at the
 * end.
 */
#ifndef MICA_TEXT_GRAMMAR_EXPR_H
#define MICA_TEXT_GRAMMAR_EXPR_H

#include "base/alloc.h"

#include <stdbool.h>
#include <stdint.h>

#define EXPR_UNBOUNDED UINT32_MAX
/* Precedes the text of a special token; no byte of UTF-8. */
#define GRAMMAR_SPECIAL_BYTE 0xFF

typedef struct byte_set {
    uint64_t bits[4];
} byte_set;

static inline void byte_set_add(byte_set *s, unsigned lo, unsigned hi) {
    for (unsigned b = lo; b <= hi; b++) {
        s->bits[b >> 6] |= UINT64_C(1) << (b & 63);
    }
}
static inline bool byte_set_has(const byte_set *s, unsigned b) {
    return s->bits[b >> 6] >> (b & 63) & 1;
}

typedef enum expr_kind {
    EXPR_EMPTY,  /* the empty text */
    EXPR_NEVER,  /* no text at all */
    EXPR_BYTES,  /* these bytes */
    EXPR_SET,    /* one byte of a set */
    EXPR_SEQ,    /* items, one after the other */
    EXPR_ALT,    /* one of the items */
    EXPR_REPEAT, /* body, min to max times */
    EXPR_RULE,   /* what a rule stands for */
    EXPR_TABLE,  /* a deterministic automaton */
    EXPR_MEMBERS /* items in any order, each at most once, with separators */
} expr_kind;

/* State s goes to next[s * 256 + byte], 0 = nowhere; state 1 is the start. */
typedef struct byte_table {
    uint32_t n_states; /* with the unused state 0 */
    const uint32_t *next;
    const uint8_t *is_accepting;
} byte_table;

typedef struct expr expr;
/* Members of an object in any order: the first `n` items are known ones (bit i of `required` says
 * that item i must come), `rest` any number of others; NULL: none. */
typedef struct member_list {
    const expr *separator;
    const expr *rest;
    uint64_t required;
} member_list;

struct expr {
    expr_kind kind;
    uint32_t n;        /* bytes, items */
    uint32_t min, max; /* of a repeat; max EXPR_UNBOUNDED: no bound */
    uint32_t rule;
    const expr *const *items; /* of a repeat: one */
    union {
        const char *bytes;
        byte_set set;
        const byte_table *table;
        member_list members;
    };
};

typedef struct grammar_rule {
    const expr *body;                /* NULL: not defined (yet) */
    const char *name;                /* for messages */
    const struct json_value *schema; /* that it stands for; NULL: none */
} grammar_rule;

typedef struct grammar_build {
    mica_arena arena;
    grammar_rule *rules;
    uint32_t n_rules;
    size_t capacity;
    size_t n_exprs;
    mica_status status;
    const struct json_value *culprit; /* the schema because of which nothing matches the whole */
    const expr *empty, *never;
    /* Known to be of all grammars alike, so that masks can be shared: */
    const expr *plain_char; /* a character of a JSON string; NULL: none was made */
    uint32_t string_rule;   /* any JSON string, + 1 */
    uint32_t space_rule;    /* white space between JSON tokens, or none, + 1 */
} grammar_build;

mica_status mica_build_init(grammar_build *b, mica_error *err);
void mica_build_deinit(grammar_build *b);
/* The status of all builders so far, with its message. */
mica_status mica_build_check(const grammar_build *b, mica_error *err);

const expr *mica_expr_bytes(grammar_build *b, const char *bytes, size_t n); /* copies */
const expr *mica_expr_text(grammar_build *b, const char *text);
/* The special token of that spelling. */
const expr *mica_expr_special(grammar_build *b, const char *text, size_t n);
/* That, or the same text. */
const expr *mica_expr_token(grammar_build *b, const char *text, size_t n);
const expr *mica_expr_set(grammar_build *b, const byte_set *set);
const expr *mica_expr_range(grammar_build *b, unsigned lo, unsigned hi);
const expr *mica_expr_seq(grammar_build *b, const expr *const *items, size_t n);
const expr *mica_expr_alt(grammar_build *b, const expr *const *items, size_t n);
const expr *mica_expr_seq2(grammar_build *b, const expr *x, const expr *y);
const expr *mica_expr_seq3(grammar_build *b, const expr *x, const expr *y, const expr *z);
const expr *mica_expr_alt2(grammar_build *b, const expr *x, const expr *y);
const expr *mica_expr_repeat(grammar_build *b, const expr *body, uint32_t min, uint32_t max);
const expr *mica_expr_optional(grammar_build *b, const expr *body);
const expr *mica_expr_rule(grammar_build *b, uint32_t rule);
const expr *mica_expr_table(grammar_build *b, const byte_table *table);
/* At most 64 items, none of which may be NEVER or match the empty text. */
const expr *mica_expr_members(grammar_build *b, const expr *const *items, size_t n,
                              const member_list *members);

/* A new rule without a body; false: out of memory (the status says so). */
bool mica_build_rule(grammar_build *b, const char *name, size_t n_name, uint32_t *rule);

/* A growing list of expressions, in the arena. Zeros at first. */
typedef struct expr_list {
    const expr **items;
    size_t n;
    size_t capacity;
} expr_list;
bool mica_expr_push(grammar_build *b, expr_list *list, const expr *e);

#endif
