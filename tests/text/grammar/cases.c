/* cases.c: grammars by hand: what GBNF and patterns mean, where errors point, that masks, rollback
 * and forks agree with bytes, and that every failing allocation is a clean error.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_base.h"
#include "fault_alloc.h"
#include "text/grammar/machine.h"
#include "thread_time.h"

typedef enum source { GBNF, REGEX, SCHEMA } source;

/* `vocab`: of tokens that GBNF names; may be NULL. */
static mica_status compile(grammar **g, source from, const char *text, const grammar_vocab *vocab,
                           mica_error *err) {
    size_t n = strlen(text);
    if (from == GBNF) return mica_grammar_compile_gbnf(g, text, n, vocab, err);
    if (from == REGEX) return mica_grammar_compile_regex(g, text, n, err);
    return mica_grammar_compile_schema_text(g, text, n, NULL, err);
}

static bool accepts(source from, const char *grammar_text, const char *text) {
    grammar *g;
    grammar_machine *m;
    grammar_matcher *x;
    mica_error err;
    bool ok = true;
    if (compile(&g, from, grammar_text, NULL, &err)) fail_msg("%s: %s", grammar_text, err.message);
    assert_int_equal(mica_grammar_machine_new(&m, g, NULL, NULL, 0, &err), MICA_OK);
    assert_int_equal(mica_grammar_matcher_new(&x, m, &err), MICA_OK);
    assert_int_equal(mica_grammar_accept_bytes(x, text, strlen(text), &ok, &err), MICA_OK);
    ok = ok && mica_grammar_is_complete(x);
    mica_grammar_matcher_free(x);
    mica_grammar_machine_free(m);
    mica_grammar_free(g);
    return ok;
}

/* ---- what is accepted ---- */

static const struct {
    source from;
    const char *grammar, *yes, *no; /* separated by tabs */
} verdicts[] = {
    {GBNF, "root ::= \"a\" | \"bc\"", "a\tbc", "b\tabc\tac"},
    {GBNF, "root ::= [a-c]+ [^x] # end\n", "aaz\tb\xC3\xA9", "ax\ta\tz"},
    {GBNF, "root ::= item (\",\" item)*\nitem ::= [0-9]{2,3}", "12\t12,345", "1\t1234\t12,"},
    {GBNF, "root ::= a\n  | b\na ::= \"x\"\nb ::= (\n \"y\"\n \"z\")?", "x\tyz", "y\txyz"},
    {GBNF, "root ::= \"\\x41\\u00e9\\n\\\"\\\\\" .", "A\xC3\xA9\n\"\\x", "A\tA\xC3\xA9\n\"\\"},
    {GBNF, "root ::= \"(\" root? \")\"", "()\t((()))", "(\t(()\t)("},
    {GBNF, "root ::= (\"a\"? \"b\"?){3} \"c\"", "c\tabc\tbbbc\taabbc\tababac", "aaaabc\tbbbbc"},
    {GBNF, "root ::= (x | y)*\nx ::= \"a\"*\ny ::= \"b\"?", "\tabab\tbbaaa", "c\tabc"},
    {GBNF, "root ::= \"a\"{0,100} \"b\"", "b\taab", "a"},
    {GBNF, "root ::= a-1 under_score\na-1 ::= \"p\"\nunder_score ::= \"q\"", "pq", "p"},
    {REGEX, "^(ab?c){2}$", "acac\tabcac", "ac\tacacac"},
    {REGEX, "[\\d\\-x]{2,}", "1-\tx9x", "1\tab"},
    {REGEX, "\\p{Lu}\\P{L}+", "A1\t\xC3\x84.", "a1\tAB"},
    {REGEX, "a{,2}", "a{,2}", "a\taa"},
    {REGEX, "(?<year>\\d{4})|x{1000,1001}", "2024", "x"},
    {SCHEMA, "{\"enum\":[1,\"a\",{\"k\":[2]}]}", "1\t\"a\"\t{\"k\": [2]}", "2\t\"b\"\t{\"k\":2}"},
    {SCHEMA, "{\"type\":\"string\",\"maxLength\":1}", "\"\"\t\"\xC3\xA9\"\t\"\\ud83d\\ude00\"",
     "\"ab\"\t\"\\ud83d\""},
    {SCHEMA, "{\"type\":\"integer\",\"minimum\":-5,\"exclusiveMaximum\":10}", "-5\t0\t9",
     "-6\t10\t-0\t1.0"},
    {SCHEMA, "{\"type\":\"array\",\"prefixItems\":[{\"const\":1}],\"items\":false}", "[]\t[1]",
     "[2]\t[1,1]"},
    {SCHEMA, "{\"type\":\"string\",\"format\":\"uuid4\"}",
     "\"2f1c7a0e-9B3d-4c1f-8a2b-0123456789ab\"",
     "\"2f1c7a0e-9b3d-1c1f-8a2b-0123456789ab\"\t\"2f1c7a0e-9b3d-4c1f-ca2b-0123456789ab\""},
    {SCHEMA, "{\"$ref\":\"#n\",\"$defs\":{\"x\":{\"$anchor\":\"n\",\"type\":\"null\"}}}", "null",
     "1"},
    {SCHEMA,
     "{\"type\":\"object\",\"patternProperties\":{\"^a\":{\"type\":\"null\"}},"
     "\"additionalProperties\":{\"const\":1}}",
     "{}\t{\"ab\":null}\t{\"b\":1,\"a\":null}", "{\"ab\":1}\t{\"b\":null}"},
    {SCHEMA,
     "{\"type\":\"object\",\"propertyNames\":{\"maxLength\":1},\"minProperties\":1,"
     "\"maxProperties\":2,\"additionalProperties\":{\"type\":\"null\"}}",
     "{\"a\":null}\t{\"a\":null,\"b\":null}",
     "{}\t{\"ab\":null}\t{\"a\":null,\"b\":null,\"c\":null}"},
    {SCHEMA,
     "{\"anyOf\":[{\"type\":\"object\",\"properties\":{\"k\":{\"const\":\"a\"},\"v\":{\"type\":"
     "\"null\"}},\"required\":[\"k\",\"v\"]},{\"type\":\"object\",\"properties\":{\"k\":{\"const\":"
     "\"ab\"},\"w\":{}},\"required\":[\"k\",\"w\"]}]}",
     "{\"k\":\"a\",\"v\":null}\t{\"k\": \"ab\", \"w\": 1}",
     "{\"k\":\"ab\",\"v\":null}\t{\"k\":\"a\",\"w\":1}"},
    {SCHEMA, "{\"maxLength\":100000000000000000000,\"type\":\"string\"}", "\"abc\"", "1"},
    {SCHEMA, "{\"maxItems\":99999999999,\"items\":{\"const\":1},\"type\":\"array\"}", "[]\t[1,1]",
     "[2]"},
    {SCHEMA, "{\"enum\":[1,2],\"const\":2}", "2", "1"},
    {SCHEMA, "{\"const\":\"\\ud83d\\ude00\"}", "\"\xF0\x9F\x98\x80\"", "\"\""},
    {SCHEMA, "{\"type\":\"integer\",\"enum\":[18446744073709551616,5],\"minimum\":7}",
     "18446744073709551616", "5"},
    {SCHEMA,
     "{\"allOf\":[{\"enum\":[18446744073709551616,18446744073709551617]},{\"enum\":["
     "18446744073709551617]}]}",
     "18446744073709551617", "18446744073709551616"},
    {SCHEMA, "{\"const\":12345678901234567890}", "12345678901234567890", "1.2345678901234567e+19"},
    {SCHEMA, "{\"const\":9223372036854775808}", "9223372036854775808", "9223372036854775807"},
    {SCHEMA, "{\"type\":\"integer\",\"minimum\":9007199254740993,\"maximum\":9223372036854775807}",
     "9007199254740993\t9223372036854775807",
     "9007199254740992\t9223372036854775808\t-9007199254740993"},
    {SCHEMA,
     "{\"type\":\"integer\",\"exclusiveMinimum\":-9223372036854775809,\"exclusiveMaximum\":"
     "18446744073709551616}",
     "-9223372036854775808\t0\t18446744073709551615", "-9223372036854775809\t18446744073709551616"},
    {SCHEMA, "{\"enum\":[0.12345678901234567890123,-1.50e+2]}",
     "0.12345678901234567890123\t-1.50e+2", "0.12345678901234568\t-150"},
    {SCHEMA,
     "{\"allOf\":[{\"enum\":[0.1234567890123456789,0.12345678901234567891]},{\"enum\":["
     "1234567890123456789.1e-19]}]}",
     "0.12345678901234567891", "0.1234567890123456789"},
    {SCHEMA, "{\"type\":\"integer\",\"enum\":[1.0000000000000000000001,30e-1,1e22]}", "30e-1\t1e22",
     "1.0000000000000000000001"},
    {SCHEMA,
     "{\"minimum\":0.12345678901234567890123,\"exclusiveMaximum\":0.12345678901234567890125,"
     "\"type\":\"number\"}",
     "0.12345678901234567890123\t0.123456789012345678901249",
     "0.12345678901234567890122\t0.12345678901234567890125\t0.12345678901234568"},
    {SCHEMA, "{\"minimum\":1e-7,\"maximum\":1e30,\"enum\":[1e-8,1e-7,0.00000012,1e23,2e30]}",
     "1e-7\t0.00000012\t1e23", "1e-8\t2e30"},
    {SCHEMA, "{\"type\":\"integer\",\"exclusiveMinimum\":0.5,\"maximum\":2.5}", "1\t2", "0\t3"},
    {SCHEMA, "{\"enum\":[\"\xEF\xBF\xBD\",\"\\ufffdx\"]}", "\"\xEF\xBF\xBD\"\t\"\xEF\xBF\xBDx\"",
     "\"\""},
    {SCHEMA, "{\"pattern\":\"^\xEF\xBF\xBD+$\",\"type\":\"string\"}", "\"\xEF\xBF\xBD\"", "\"a\""},
    {SCHEMA,
     "{\"type\":\"object\",\"properties\":{\"\\ufffd\":{\"type\":\"null\"}},\"required\":"
     "[\"\xEF\xBF\xBD\"],\"additionalProperties\":false}",
     "{\"\xEF\xBF\xBD\":null}", "{}"},
};

static void texts_are_judged(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof(verdicts) / sizeof(verdicts[0]); i++) {
        for (int wanted = 0; wanted < 2; wanted++) {
            char *list = strdup(wanted ? verdicts[i].yes : verdicts[i].no), *rest = list;
            for (char *text; (text = strsep(&rest, "\t"));) {
                if (accepts(verdicts[i].from, verdicts[i].grammar, text) != wanted)
                    fail_msg("%s: \"%s\" must be %d", verdicts[i].grammar, text, wanted);
            }
            free(list);
        }
    }
}

/* ---- errors ---- */

static const struct {
    source from;
    const char *grammar;
    mica_status status;
    uint64_t offset;
    const char *word; /* in the message */
} faults[] = {
    {GBNF, "root ::= \"a", MICA_E_INVALID, 9, "closing quote"},
    {GBNF, "root ::= [a", MICA_E_INVALID, 9, "]"},
    {GBNF, "root ::= (\"a\"", MICA_E_INVALID, 9, ")"},
    {GBNF, "root = \"a\"", MICA_E_INVALID, 5, "::="},
    {GBNF, "root ::= \"a\" \"\\q\"", MICA_E_INVALID, 14, "escape"},
    {GBNF, "root ::= \"a\"{3,2}", MICA_E_INVALID, 12, "repeat"},
    {GBNF, "root ::= \"a\"\nroot ::= \"b\"", MICA_E_INVALID, 13, "line 2"},
    {GBNF, "root ::= [z-a]", MICA_E_INVALID, 10, "range"},
    {GBNF, "start ::= \"a\"", MICA_E_INVALID, 0, "root"},
    {GBNF, "root ::= x", MICA_E_INVALID, MICA_NO_OFFSET, "\"x\" is used but not defined"},
    {GBNF, "root ::= y\ny ::= \"\" y | \"a\"", MICA_E_INVALID, MICA_NO_OFFSET, "left recursion"},
    {GBNF, "root ::= \"a\" root", MICA_E_INVALID, MICA_NO_OFFSET, "cannot be satisfied"},
    {REGEX, "a(b", MICA_E_INVALID, 1, ")"},
    {REGEX, "a)", MICA_E_INVALID, 1, "("},
    {REGEX, "*a", MICA_E_INVALID, 0, "quantifier"},
    {REGEX, "(?=a)", MICA_E_UNSUPPORTED, 0, "look-ahead"},
    {REGEX, "(a)\\1", MICA_E_UNSUPPORTED, 3, "back references"},
    {REGEX, "a\\b", MICA_E_UNSUPPORTED, 1, "word boundaries"},
    {REGEX, "a^b", MICA_E_UNSUPPORTED, 1, "anchor"},
    {REGEX, "a{2000000}", MICA_E_LIMIT, 1, "1000000"},
    {REGEX, "\\p{Greek}", MICA_E_UNSUPPORTED, 0, "Greek"},
    {REGEX, "[]", MICA_E_INVALID, MICA_NO_OFFSET, "cannot be satisfied"},
    {SCHEMA, "{\"not\":{}}", MICA_E_UNSUPPORTED, MICA_NO_OFFSET, "\"not\""},
    {SCHEMA, "{\"if\":{}}", MICA_E_UNSUPPORTED, MICA_NO_OFFSET, "\"if\""},
    {SCHEMA, "{\"uniqueItems\":true}", MICA_E_UNSUPPORTED, MICA_NO_OFFSET, "\"uniqueItems\""},
    {SCHEMA, "{\"contains\":{}}", MICA_E_UNSUPPORTED, MICA_NO_OFFSET, "\"contains\""},
    {SCHEMA, "{\"dependentRequired\":{}}", MICA_E_UNSUPPORTED, MICA_NO_OFFSET, "dependentRequired"},
    {SCHEMA, "{\"minProperties\":2}", MICA_E_UNSUPPORTED, MICA_NO_OFFSET, "minProperties"},
    {SCHEMA, "{\"properties\":{\"a\":{}},\"maxProperties\":1}", MICA_E_UNSUPPORTED, MICA_NO_OFFSET,
     "maxProperties"},
    {SCHEMA, "{\"type\":\"float\"}", MICA_E_INVALID, MICA_NO_OFFSET, "float"},
    {SCHEMA, "{\"minLength\":-1}", MICA_E_INVALID, MICA_NO_OFFSET, "minLength"},
    {SCHEMA, "{\"$ref\":\"#/$defs/x\"}", MICA_E_INVALID, MICA_NO_OFFSET, "#/$defs/x"},
    {SCHEMA, "{\"format\":\"colour\"}", MICA_E_UNSUPPORTED, MICA_NO_OFFSET, "colour"},
    {SCHEMA, "false", MICA_E_INVALID, MICA_NO_OFFSET, "cannot be satisfied"},
    {SCHEMA, "{\"type\":\"integer\",\"minimum\":1,\"maximum\":0}", MICA_E_INVALID, MICA_NO_OFFSET,
     "cannot be satisfied"},
    {SCHEMA, "{\"type\":\"object\",\"required\":[\"a\"],\"additionalProperties\":false}",
     MICA_E_INVALID, MICA_NO_OFFSET, "cannot be satisfied"},
    {SCHEMA, "{\"type\":\"string\",\"pattern\":\"^a$\",\"minLength\":2}", MICA_E_INVALID,
     MICA_NO_OFFSET, "cannot be satisfied"},
    {SCHEMA, "{\"pattern\":\"a(\"}", MICA_E_INVALID, 1, "pattern"},
    {SCHEMA, "{\"type\":", MICA_E_FORMAT, 8, "schema"},
    {GBNF, "root ::= \"a\" !<x>", MICA_E_INVALID, 13, "any token but one"},
    {GBNF, "root ::= ( \"a\" (!<x>)*)", MICA_E_INVALID, 16, "any token but one"},
    {GBNF, "root ::= \"a\" !x", MICA_E_INVALID, 13, "'!' means nothing here"},
    {GBNF, "root ::= \"a\" <x\nb ::= <y>", MICA_E_INVALID, 13, "lacks its >"},
    {GBNF, "root ::= <[1x]>", MICA_E_INVALID, 9, "<[number]>"},
    {REGEX, "a{99999999999999999999}", MICA_E_LIMIT, 1, "1000000"},
    {REGEX, "a{1,100000000000}", MICA_E_LIMIT, 1, "1000000"},
    {SCHEMA, "{\"minLength\":0.5}", MICA_E_INVALID, MICA_NO_OFFSET, "minLength"},
    {SCHEMA, "{\"minItems\":99999999999}", MICA_E_LIMIT, MICA_NO_OFFSET, "minItems"},
    {SCHEMA, "{\"minLength\":100000000000000000000}", MICA_E_LIMIT, MICA_NO_OFFSET, "minLength"},
    {SCHEMA, "{\"minProperties\":1e400}", MICA_E_LIMIT, MICA_NO_OFFSET, "minProperties"},
    {SCHEMA, "{\"type\":\"number\",\"minimum\":1e400}", MICA_E_UNSUPPORTED, MICA_NO_OFFSET,
     "more than 64 digits"},
    {SCHEMA, "{\"type\":\"number\",\"maximum\":-1e309}", MICA_E_UNSUPPORTED, MICA_NO_OFFSET,
     "more than 64 digits"},
    {SCHEMA, "{\"exclusiveMaximum\":1e400}", MICA_E_UNSUPPORTED, MICA_NO_OFFSET,
     "more than 64 digits"},
    {SCHEMA, "{\"type\":\"integer\",\"exclusiveMinimum\":1e309}", MICA_E_UNSUPPORTED,
     MICA_NO_OFFSET, "more than 64 digits"},
    {SCHEMA, "{\"type\":\"integer\",\"multipleOf\":1e309}", MICA_E_UNSUPPORTED, MICA_NO_OFFSET,
     "multipleOf"},
    {SCHEMA, "{\"const\":\"\\ud800\"}", MICA_E_UNSUPPORTED, MICA_NO_OFFSET, "\"const\""},
    {SCHEMA, "{\"enum\":[1,[{\"a\\udfff\":1}]]}", MICA_E_UNSUPPORTED, MICA_NO_OFFSET, "\"enum\""},
    {SCHEMA, "{\"properties\":{\"\\udc00\":{}}}", MICA_E_UNSUPPORTED, MICA_NO_OFFSET,
     "\"properties\""},
    {SCHEMA, "{\"required\":[\"\\udc00\\ud800\"]}", MICA_E_UNSUPPORTED, MICA_NO_OFFSET,
     "\"required\""},
    {SCHEMA, "{\"const\":1e400}", MICA_E_UNSUPPORTED, MICA_NO_OFFSET, "\"const\" holds a number"},
    {SCHEMA, "{\"enum\":[1,[1e999],{\"a\":-1e999}]}", MICA_E_UNSUPPORTED, MICA_NO_OFFSET,
     "\"enum\""},
    {SCHEMA, "{\"pattern\":\"\\ud800\"}", MICA_E_UNSUPPORTED, MICA_NO_OFFSET, "\"pattern\""},
};

static void errors_say_where(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        grammar *g = NULL;
        mica_error err;
        mica_status st = compile(&g, faults[i].from, faults[i].grammar, NULL, &err);
        if (st != faults[i].status || err.offset != faults[i].offset ||
            !strstr(err.message, faults[i].word))
            fail_msg("%s: status %d, offset %lld: %s", faults[i].grammar, st, (long long)err.offset,
                     st ? err.message : "");
    }
}

/* ---- where in a schema ---- */

static const struct {
    const char *schema, *pointer, *word;
} places[] = {
    {"{\"not\":{}}", "#", "\"not\""},
    {"{\"properties\":{\"a\":{\"properties\":{\"b\":{\"items\":{\"not\":{}}}}}}}",
     "#/properties/a/properties/b/items", "\"not\""},
    {"{\"properties\":{\"a/~b\":{\"pattern\":\"(\"}}}", "#/properties/a~1~0b", "pattern: "},
    {"{\"items\":{\"$ref\":\"#/$defs/x\"},\"$defs\":{\"x\":{\"allOf\":[{},{\"format\":\"q\"}]}}}",
     "#/$defs/x/allOf/1", "format"},
    {"{\"prefixItems\":[{},{\"type\":\"number\",\"minimum\":1e400}]}", "#/prefixItems/1",
     "64 digits"},
    {"{\"type\":\"string\",\"anyOf\":[{},{\"minLength\":\"x\"}]}", "#/anyOf/1", "minLength"},
    {"{\"properties\":{\"a\":{\"$ref\":\"#/x\"}}}", "#/properties/a", "#/x"},
    {"{\"items\":{\"enum\":[{}],\"properties\":{\"a\":{\"if\":1}}}}", "#/items/properties/a",
     "\"if\""},
    {"{\"properties\":{\"a\":{\"anyOf\":[{\"type\":\"null\"},{\"minimum\":true}]},\"b\":{\"not\":1}"
     "}}",
     "#/properties/a/anyOf/1", "minimum"},
    {"false", "#", "cannot be satisfied"},
    {"{\"type\":\"object\",\"properties\":{\"o\":{},\"a\":{\"type\":\"array\",\"minItems\":1,"
     "\"items\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":0}},\"z\":false},"
     "\"required\":[\"a\"]}",
     "#/properties/a/items", "cannot be satisfied"},
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"anyOf\":[{\"enum\":[1],\"type\":\"null\"},{"
     "\"type\":\"array\",\"minItems\":2,\"maxItems\":1}]}},\"required\":[\"a\"]}",
     "#/properties/a", "cannot be satisfied"},
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]}", "#",
     "cannot be satisfied"},
};

static void schema_errors_have_pointers(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        grammar *g = NULL;
        mica_error err = {0};
        char prefix[100];
        snprintf(prefix, sizeof(prefix), "schema, at %s: ", places[i].pointer);
        mica_status st = compile(&g, SCHEMA, places[i].schema, NULL, &err);
        if (!st || strncmp(err.message, prefix, strlen(prefix)) != 0 ||
            !strstr(err.message, places[i].word))
            fail_msg("%s: status %d: %s", places[i].schema, st, err.message);
    }
}

/* ---- machines ---- */

static grammar_vocab *all_bytes(void) {
    static char bytes[256][2];
    const char *tokens[258];
    size_t lengths[258];
    for (int c = 0; c < 256; c++) {
        bytes[c][0] = (char)c;
        tokens[c] = bytes[c];
        lengths[c] = 1;
    }
    tokens[256] = "\": \"";
    tokens[257] = "ab\"";
    lengths[256] = 4;
    lengths[257] = 3;
    grammar_vocab *v;
    assert_int_equal(mica_grammar_vocab_from_bytes(&v, tokens, lengths, 258, NULL), MICA_OK);
    return v;
}

static void history_can_be_taken_back(void **state) {
    (void)state;
    grammar_vocab *v = all_bytes();
    grammar *g;
    grammar_machine *m;
    grammar_matcher *x, *y;
    uint64_t first[8], mask[8];
    const int32_t end = 300;
    bool ok;
    assert_int_equal(mica_grammar_compile_json(&g, NULL, NULL), MICA_OK);
    assert_int_equal(mica_grammar_machine_new(&m, g, v, &end, 1, NULL), MICA_OK);
    assert_int_equal(mica_grammar_matcher_new(&x, m, NULL), MICA_OK);
    assert_int_equal(mica_grammar_mask(x, first, 8, NULL), MICA_OK);
    assert_true(first['{' >> 6] >> ('{' & 63) & 1);
    m->budget_bytes = 1; /* every mask starts with a rebuild */
    static const char text[] = "{\"a\": [{\"b\": \"c\"}, [[[1]]]]}";
    for (size_t i = 0; text[i]; i++) {
        assert_int_equal(mica_grammar_accept(x, text[i], &ok, NULL), MICA_OK);
        assert_true(ok);
        assert_int_equal(mica_grammar_mask(x, mask, 8, NULL), MICA_OK);
    }
    assert_true(mica_grammar_machine_stats(m).n_flushes > 10);
    assert_true(mica_grammar_is_complete(x));
    assert_true(mask[end >> 6] >> (end & 63) & 1);
    assert_int_equal(mica_grammar_accept(x, '{', &ok, NULL), MICA_OK);
    assert_false(ok);
    assert_int_equal(mica_grammar_matcher_fork(&y, x, NULL), MICA_OK);
    assert_int_equal(mica_grammar_accept(y, end, &ok, NULL), MICA_OK);
    assert_true(ok);
    mica_grammar_matcher_free(y);
    assert_int_equal(mica_grammar_rollback(x, strlen(text), NULL), MICA_OK);
    assert_int_equal(mica_grammar_mask(x, mask, 8, NULL), MICA_OK);
    assert_memory_equal(mask, first, sizeof(mask));
    mica_error err;
    assert_int_equal(mica_grammar_rollback(x, 1, &err), MICA_E_INVALID);
    assert_int_equal(mica_grammar_mask(x, mask, 1, &err), MICA_E_INVALID);
    mica_grammar_matcher_free(x);
    mica_grammar_machine_free(m);
    mica_grammar_free(g);
    mica_grammar_vocab_free(v);
}

/* ---- pieces ---- */

static bool accepts_token(grammar_machine *m, const char *const *tokens) {
    grammar_matcher *x;
    bool ok = true;
    assert_int_equal(mica_grammar_matcher_new(&x, m, NULL), MICA_OK);
    for (; ok && *tokens; tokens++) {
        assert_int_equal(mica_grammar_accept_bytes(x, *tokens, strlen(*tokens), &ok, NULL),
                         MICA_OK);
    }
    ok = ok && mica_grammar_is_complete(x);
    mica_grammar_matcher_free(x);
    return ok;
}

/* CPU seconds that a union of n constants takes to compile. */
static double union_s(size_t n) {
    char *text = malloc(n * 32 + 32), *end = text + sprintf(text, "{\"anyOf\":[true");
    grammar *g;
    mica_error err;
    assert_non_null(text);
    for (size_t i = 0; i < n; i++) {
        end += sprintf(end, ",{\"const\":\"v%zu\"}", i);
    }
    strcpy(end, "]}");
    double start = thread_seconds();
    assert_int_equal(compile(&g, SCHEMA, text, NULL, &err), MICA_OK);
    double taken = thread_seconds() - start;
    mica_grammar_free(g);
    free(text);
    return taken;
}

/* Sixteen times the schemas may cost sixteen times the work (and memory that is slower), and not
 * 256 times. What looks bad is measured again. */
static void schemas_compile_in_linear_time(void **state) {
    (void)state;
    double small = INFINITY, large = INFINITY;
    for (int round = 0; round < 6; round++) {
        small = fmin(small, union_s(2000));
        large = fmin(large, union_s(32000));
        if (large <= 64 * small) return;
    }
    fail_msg("%g s for 2000 schemas, %g s for 32000", small, large);
}

/* Calls as Hermes writes them, at most two, of two tools; \xFF marks a special token. */
static void calls_are_made_of_pieces(void **state) {
    (void)state;
    static const char first[] =
        "{\"properties\":{\"q\":{\"$ref\":\"#/$defs/s\"}},\"required\":[\"q\"],"
        "\"type\":\"object\",\"$defs\":{\"s\":{\"type\":\"string\"}}}";
    static const char second[] = "{\"type\":\"object\",\"additionalProperties\":false}";
    mica_arena arena;
    json_value *schemas[2];
    mica_error err;
    mica_arena_init(&arena, 0);
    assert_int_equal(mica_json_parse(&schemas[0], first, strlen(first), "a", false, &arena, &err),
                     MICA_OK);
    assert_int_equal(mica_json_parse(&schemas[1], second, strlen(second), "b", false, &arena, &err),
                     MICA_OK);
    grammar_piece calls[2][5];
    grammar_pieces ways[2];
    for (int i = 0; i < 2; i++) {
        const grammar_piece call[] = {
            {GRAMMAR_TOKEN, "<call>", NULL},
            {GRAMMAR_TEXT,
             i ? "{\"name\":\"b\",\"arguments\":" : "{\"name\":\"a\",\"arguments\":", NULL},
            {GRAMMAR_SCHEMA, NULL, schemas[i]},
            {GRAMMAR_TEXT, "}", NULL},
            {GRAMMAR_TOKEN, "</call>", NULL}};
        memcpy(calls[i], call, sizeof(call));
        ways[i] = (grammar_pieces){calls[i], 5};
    }
    const grammar_piece line = {GRAMMAR_TEXT, "\n", NULL};
    const grammar_rounds rounds = {
        .between = {&line, 1}, .ways = ways, .n_ways = 2, .max_rounds = 2};
    grammar *g;
    grammar_machine *m;
    assert_int_equal(mica_grammar_compile_rounds(&g, &rounds, NULL, &err), MICA_OK);
    assert_int_equal(mica_grammar_machine_new(&m, g, NULL, NULL, 0, &err), MICA_OK);
    static const char *const a = "\xFF<call>", *const z = "\xFF</call>";
    static const char *const body_a = "{\"name\":\"a\",\"arguments\":{\"q\": \"x\"}}";
    static const char *const body_b = "{\"name\":\"b\",\"arguments\":{}}";
    assert_true(accepts_token(m, (const char *const[]){a, body_a, z, NULL}));
    assert_true(accepts_token(m, (const char *const[]){"<call>", body_b, "</call>", NULL}));
    assert_true(accepts_token(m, (const char *const[]){a, body_b, z, "\n", a, body_a, z, NULL}));
    assert_false(accepts_token(m, (const char *const[]){a, body_b, z, "\n", NULL}));
    assert_false(accepts_token(
        m, (const char *const[]){a, body_b, z, "\n", a, body_b, z, "\n", a, body_b, z, NULL}));
    assert_false(accepts_token(
        m, (const char *const[]){a, "{\"name\":\"b\",\"arguments\":{\"q\":1}}", z, NULL}));
    mica_grammar_machine_free(m);
    mica_grammar_free(g);
    mica_arena_deinit(&arena);
}

/* ---- tokenizers ---- */

static mica_status try_decoder(const char *decoder, mica_error *err) {
    char json[1024];
    tokenizer *t;
    grammar_vocab *v = NULL;
    int n = snprintf(
        json, sizeof(json),
        "{\"added_tokens\":[],\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0,\"b\":1},"
        "\"unk_token\":\"a\"},\"decoder\":%s}",
        decoder);
    if (mica_tokenizer_parse(&t, json, (size_t)n, NULL, 0, "t", err)) fail_msg("%s", err->message);
    mica_status st = mica_grammar_vocab_new(&v, t, err);
    mica_grammar_vocab_free(v);
    mica_tokenizer_free(t);
    return st;
}

static void decoders_that_look_around_are_refused(void **state) {
    (void)state;
    static const char *const refused[] = {
        "null",
        "{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}",
        "{\"type\":\"BPEDecoder\",\"suffix\":\"</w>\"}",
        ("{\"type\":\"CTC\",\"pad_token\":\"<pad>\",\"word_delimiter_token\":\"|\",\"cleanup\":"
         "true}"),
    };
    mica_error err;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        assert_int_equal(try_decoder(refused[i], &err), MICA_E_UNSUPPORTED);
        if (!strstr(err.message, "constrained output")) fail_msg("%s", err.message);
    }
    assert_int_equal(try_decoder("{\"type\":\"ByteLevel\"}", &err), MICA_OK);
    assert_int_equal(try_decoder("{\"type\":\"Fuse\"}", &err), MICA_OK);
}

/* ---- memory ---- */

static mica_status run_all(source from, const char *text, const char *instance, mica_error *err) {
    static const char *const tokens[] = {"", "{\"", "a", "\": ", "1", "\"", "}", "ab", "{", "<ab>"};
    static const size_t lengths[] = {0, 2, 1, 3, 1, 1, 1, 2, 1, 4};
    grammar *g = NULL;
    grammar_vocab *v = NULL;
    grammar_machine *m = NULL;
    grammar_matcher *x = NULL, *y = NULL;
    uint64_t mask[1];
    bool ok = true;
    mica_status st = mica_grammar_vocab_from_bytes(&v, tokens, lengths, 10, err);
    if (!st) st = compile(&g, from, text, v, err);
    if (!st) st = mica_grammar_machine_new(&m, g, v, NULL, 0, err);
    if (!st) st = mica_grammar_matcher_new(&x, m, err);
    for (size_t i = 0; !st && ok && instance[i]; i++) {
        st = mica_grammar_mask(x, mask, 1, err);
        if (!st) st = mica_grammar_accept_bytes(x, instance + i, 1, &ok, err);
        if (i == 2 && m) m->budget_bytes = 1;
    }
    if (!st) st = mica_grammar_matcher_fork(&y, x, err);
    mica_grammar_matcher_free(y);
    mica_grammar_matcher_free(x);
    mica_grammar_machine_free(m);
    mica_grammar_vocab_free(v);
    mica_grammar_free(g);
    return st;
}

static void allocations_may_fail(void **state) {
    (void)state;
    static const struct {
        source from;
        const char *grammar, *instance;
    } runs[] = {
        {GBNF, "root ::= (\"a\"? \"b\"?){3} x\nx ::= [^a]{2,60} <ab> | \"1\" x", "abcc"},
        {REGEX, "a{1,70}(b|c)*", "aaab"},
        {SCHEMA,
         "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"number\",\"minimum\":0.5},\"b\":{"
         "\"enum\":[\"x\",\"y\"],\"maxLength\":1},\"c\":{\"$ref\":\"#\"}}}",
         "{\"a\": 1, \"z\": [null]}"},
    };
    for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
        mica_error err;
        fault_alloc_arm(0);
        assert_int_equal(run_all(runs[i].from, runs[i].grammar, runs[i].instance, &err), MICA_OK);
        long n_calls = fault_alloc_calls(), n_live = fault_alloc_live();
        assert_int_equal(n_live, 0);
        for (long n = 1; n <= n_calls; n++) {
            fault_alloc_arm(n);
            mica_status st = run_all(runs[i].from, runs[i].grammar, runs[i].instance, &err);
            if (st != MICA_E_NOMEM || fault_alloc_live())
                fail_msg("%s: allocation %ld of %ld: status %d, %ld left", runs[i].grammar, n,
                         n_calls, st, fault_alloc_live());
        }
        fault_alloc_arm(0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_judged),
        cmocka_unit_test(errors_say_where),
        cmocka_unit_test(schema_errors_have_pointers),
        cmocka_unit_test(history_can_be_taken_back),
        cmocka_unit_test(schemas_compile_in_linear_time),
        cmocka_unit_test(calls_are_made_of_pieces),
        cmocka_unit_test(decoders_that_look_around_are_refused),
        cmocka_unit_test(allocations_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
