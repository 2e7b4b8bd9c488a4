/* gbnf_cases.c: tokens that a GBNF text names, and grammars that are too ambiguous to run: both are
 * errors before anything is generated.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_base.h"
#include "text/grammar/grammar.h"

/* ---- tokens by name and number ---- */

static tokenizer *named_tokens(void) {
    static const char json[] =
        "{\"added_tokens\":[{\"id\":1,\"content\":\"<s>\",\"special\":true},"
        "{\"id\":3,\"content\":\"<t>\",\"special\":true}],"
        "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"<u>\":2,\"b\":5},\"merges\":[]},"
        "\"decoder\":{\"type\":\"Fuse\"}}";
    tokenizer *t;
    mica_error err;
    if (mica_tokenizer_parse(&t, json, sizeof(json) - 1, NULL, 0, "t", &err))
        fail_msg("%s", err.message);
    return t;
}

static const struct {
    const char *grammar;
    int first;        /* the token that must come first; -1: an error */
    const char *word; /* in the message */
} token_cases[] = {
    {"root ::= <s> \"a\"", 1, NULL},
    {"root ::= <t>", 3, NULL},
    {"root ::= <u>", 2, NULL},
    {"root ::= <[1]>", 1, NULL},
    {"root ::= <[0]> \"a\"", 0, NULL},
    {"root ::= <[2]>", 2, NULL},
    {"root ::= \"a\"\n  | <nosuch>", -1, "line 2: this model has no token <nosuch>"},
    {"root ::= <[6]>", -1, "line 1: this model has no token <[6]>: its ids are 0 to 5"},
    {"root ::= <[99999999999999999999]>", -1, "no token"},
    {"root ::= <[4]>", -1, "token <[4]> has no text"},
};

static int only_token(const grammar *g, const grammar_vocab *v) {
    grammar_machine *m;
    grammar_matcher *x;
    uint64_t mask;
    assert_int_equal(mica_grammar_machine_new(&m, g, v, NULL, 0, NULL), MICA_OK);
    assert_int_equal(mica_grammar_matcher_new(&x, m, NULL), MICA_OK);
    assert_int_equal(mica_grammar_mask(x, &mask, 1, NULL), MICA_OK);
    mica_grammar_matcher_free(x);
    mica_grammar_machine_free(m);
    return mask && !(mask & (mask - 1)) ? __builtin_ctzll(mask) : -1;
}

static void tokens_are_looked_up(void **state) {
    (void)state;
    tokenizer *t = named_tokens();
    grammar_vocab *v;
    assert_int_equal(mica_grammar_vocab_new(&v, t, NULL), MICA_OK);
    for (size_t i = 0; i < sizeof(token_cases) / sizeof(token_cases[0]); i++) {
        const char *text = token_cases[i].grammar;
        grammar *g = NULL;
        mica_error err = {0};
        mica_status st = mica_grammar_compile_gbnf(&g, text, strlen(text), v, &err);
        if (token_cases[i].word) {
            if (st != MICA_E_INVALID || !strstr(err.message, token_cases[i].word))
                fail_msg("%s: status %d: %s", text, st, err.message);
            continue;
        }
        if (st || only_token(g, v) != token_cases[i].first) fail_msg("%s: %d", text, st);
        mica_grammar_free(g);
    }
    grammar *g;
    grammar_machine *m;
    assert_int_equal(mica_grammar_compile_gbnf(&g, "root ::= <s>", 12, NULL, NULL), MICA_OK);
    assert_int_equal(mica_grammar_machine_new(&m, g, v, NULL, 0, NULL), MICA_E_INVALID);
    mica_grammar_free(g);
    mica_grammar_vocab_free(v);
    mica_tokenizer_free(t);
}

/* ---- too many ways ---- */

/* `head`, then rules r0 to r(n - 1), where # is the number of the next one. */
static mica_status compile_chain(const char *head, const char *rule, int n, const char *last) {
    size_t capacity = (size_t)n * 64 + 256, at;
    char *text = malloc(capacity);
    assert_non_null(text);
    at = (size_t)snprintf(text, capacity, "root ::= %s\n", head);
    for (int i = 0; i < n; i++) {
        at += (size_t)snprintf(text + at, capacity - at, "r%d ::= ", i);
        for (const char *s = rule; *s; s++) {
            if (*s == '#')
                at += (size_t)snprintf(text + at, capacity - at, "%d", i + 1);
            else
                text[at++] = *s;
        }
        text[at++] = '\n';
    }
    snprintf(text + at, capacity - at, "r%d ::= %s\n", n, last);
    grammar *g = NULL;
    mica_error err = {0};
    mica_status st = mica_grammar_compile_gbnf(&g, text, strlen(text), NULL, &err);
    if (st && !strstr(err.message, "ways to go on")) fail_msg("%s", err.message);
    mica_grammar_free(g);
    free(text);
    return st;
}

static void too_many_ways_are_found_early(void **state) {
    (void)state;
    const char *twice = "r# r#", *chain = "r# \"\" | \"b\" r#", *maybe = "r#? \"x\" r#?";
    const char *rounds = "(\"c\" r# r#)?";
    assert_int_equal(compile_chain("r0", twice, 40, "\"a\"?"), MICA_E_LIMIT);
    assert_int_equal(compile_chain("\"x\" [a-z]* (\"y\" r0)+", twice, 40, "\"a\"?"), MICA_E_LIMIT);
    assert_int_equal(compile_chain("a r0\na ::= \"x\" a?", twice, 40, "\"a\"?"), MICA_E_LIMIT);
    assert_int_equal(compile_chain("r0", chain, 60000, "\"a\""), MICA_E_LIMIT);
    assert_int_equal(compile_chain("r0", twice, 12, "\"a\"?"), MICA_OK);
    assert_int_equal(compile_chain("r0", twice, 20, "\"a\""), MICA_OK);
    assert_int_equal(compile_chain("r0", chain, 5000, "\"a\""), MICA_OK);
    assert_int_equal(compile_chain("r0", maybe, 2000, "\"a\""), MICA_OK);
    assert_int_equal(compile_chain("r0", rounds, 40, "\"a\""), MICA_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_looked_up),
        cmocka_unit_test(too_many_ways_are_found_early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
