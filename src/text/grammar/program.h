/* program.h: the automaton of a grammar: a nondeterministic machine over bytes with a stack.
 *
 * A frame of the stack is (node to go on at, count); RETURN pops one. Repeats and objects keep how
 * far they are in the count of their frame, so their size is not in the automaton. Bytes that no
 * node tells apart form one class.
 */
#ifndef MICA_TEXT_GRAMMAR_PROGRAM_H
#define MICA_TEXT_GRAMMAR_PROGRAM_H

#include "text/grammar/expr.h"

typedef enum node_kind {
    NODE_SET,     /* a byte of set `a`, then node b */
    NODE_SPLIT,   /* node a or node b */
    NODE_CALL,    /* node a, and after its RETURN node b */
    NODE_JUMP,    /* node a */
    NODE_RETURN,  /* pops a frame; with none left the text is complete */
    NODE_REPEAT,  /* body a (ends with RETURN), min to max times, then node b */
    NODE_MEMBERS, /* a: index into `members`; then node b */
    NODE_FAIL
} node_kind;

typedef struct program_node {
    node_kind kind;
    bool is_text;  /* of a repeat: no rule is called in its body */
    bool is_plain; /* of a repeat: characters of a JSON string, then a quote and RETURN */
    uint32_t a, b;
    uint32_t min, max;
} program_node;

/* Members in any order. Entry i of `entries` begins item i, entry n_items + i the separator and
 * then item i; the item that may be repeated (has_rest) is the last one. */
typedef struct program_members {
    uint32_t first_entry;
    uint32_t n_items; /* with the rest */
    uint64_t required;
    bool has_rest;
} program_members;

/* In the count of a members frame: an item of the rest was there. */
#define MEMBERS_REST_BIT (UINT64_C(1) << 63)

enum { PROGRAM_MAX_TABLE_STARTS = 16 };

typedef struct program {
    program_node *nodes;
    uint32_t n_nodes, nodes_capacity;
    byte_set *sets; /* at first of bytes, when built of classes */
    uint32_t n_sets, sets_capacity;
    program_members *members;
    uint32_t n_members;
    uint32_t *entries;
    uint32_t n_entries;
    uint32_t start;
    uint32_t string_start; /* of the rule of JSON strings without constraints; 0: there is none */
    /* The rule of white space between JSON tokens and the nodes that take its first byte; 0: none.
     */
    uint32_t space_start, n_space_nodes;
    uint32_t space_nodes[4];
    /* Where patterns and other tables begin, of the first few of them. */
    uint32_t n_table_starts, table_starts[PROGRAM_MAX_TABLE_STARTS];
    uint32_t n_classes;
    uint8_t class_of[256];
    uint8_t byte_of[256]; /* of each class, one byte */
} program;

/* Builds from rule `root`. MICA_E_INVALID: a rule without a body, left recursion, or nothing can
 * match. MICA_E_LIMIT: too many nodes. */
mica_status mica_program_build(program *out, grammar_build *b, uint32_t root, mica_error *err);
/* MICA_E_LIMIT: at some place there are more ways on than a machine follows (ambiguity.c). */
mica_status mica_program_check_ways(const program *p, mica_error *err);
void mica_program_deinit(program *p);

/* ---- analysis of rules (grammar_analyze.c) ---- */
typedef struct rule_facts {
    uint8_t *is_nullable;
    uint8_t *is_productive; /* some text matches */
    uint32_t n;             /* rules that the arrays cover */
} rule_facts;

/* Makes bodies of repeats not match the empty text (which may add rules), checks for undefined
 * rules and left recursion. */
mica_status mica_rules_analyze(rule_facts *out, grammar_build *b, uint32_t root, mica_error *err);
void mica_rule_facts_deinit(rule_facts *f);
/* The innermost schema because of which nothing matches rule `root`; NULL: none is known
 * (schema_where.c). */
const struct json_value *mica_rules_blame(grammar_build *b, const rule_facts *f, uint32_t root);
bool mica_expr_is_nullable(const rule_facts *f, const expr *e);
bool mica_expr_is_productive(const rule_facts *f, const expr *e);

#endif
