/* masks.c: token masks against the definition: every token of a real vocabulary followed byte by
 * byte, in random states of grammars that take each of the short cuts of masks.c and slices.c.
 *
 * Usage: test_text_grammar_masks FOLDER STEPS. FOLDER has a tokenizer.json.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/grammar/machine.h"
#include "text/toolcall/call_grammar.h"

static const char *const schemas[] = {
    "{}",
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"nam\":{\"type\":"
    "\"integer\"},\"x\":{\"enum\":[\"a\",\"ab\",3]}}}",
    "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"minLength\":3,\"maxLength\":40}}",
    "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"minLength\":50,\"maxLength\":52}}",
    "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"maxLength\":9},\"maxItems\":70}",
    "{\"type\":\"array\",\"items\":{\"anyOf\":[{\"type\":\"string\",\"maxLength\":12},{\"type\":"
    "\"string\",\"minLength\":20},{\"type\":\"number\",\"minimum\":-3}]}}",
    "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"pattern\":\"^(/[^/"
    "\\\\x00-\\\\x1f]+)+$\"}}",
    "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"pattern\":\"^[A-Z][^ ]*( [a-z-]+)?$\"}}",
    "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"pattern\":\"^\\\\w+$\"}}",
    "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"pattern\":\"^([^<]|<[^/])*$\","
    "\"maxLength\":70}}",
    "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"pattern\":\"^[^e]+e[^\\u4e00-\\u9fff]*$"
    "\"}}",
    "{\"oneOf\":[{\"type\":\"object\",\"properties\":{\"kind\":{\"const\":\"a\"},\"v\":{\"type\":"
    "\"null\"}},\"required\":[\"kind\",\"v\"]},{\"type\":\"object\",\"properties\":{\"kind\":{"
    "\"const\":\"ab\"},\"v\":{\"$ref\":\"#\"}},\"required\":[\"kind\",\"v\"]}]}",
};
static const char *const patterns[] = {
    "[^\\n]*\\n?",   "(\\w+ )*\\w{1,20}[.!]", "[\\s\\S]{0,60}END", "[a-z]+(-[a-z]+)*(/[^/]+)*",
    "x{40}y|[^x]*z",
};

/* Calls, whose strings are raw text: begins that random tokens would not find, and beginnings of
 * what ends a text. */
static const struct {
    const char *format, *begins[4], *ends[4]; /* NULL: none */
} calls[] = {
    {"gemma4",
     {"<|tool_call>call:f{a:<|\"|>", "<|tool_call>call:f{b:<|\"|>",
      "<|tool_call>call:f{d:", "<|tool_call>call:f{d:<|\"|>"},
     {"<", "<|", "<|\"|", "1"}},
    {"qwen3-coder",
     {"<tool_call>\n<function=f>\n<parameter=a>\n", "<tool_call>\n<function=f>\n<parameter=b>\n",
      "<tool_call>\n<function=f>\n<parameter=d>\n", "<tool_call>\n<function=f>\n<parameter=e>\n"},
     {"\n<", "</", "</param", " -1"}},
    {"minicpm5", {"<function name=\"f\"><param name=\"c\">", NULL}, {"x", "1", " "}},
    {"minimax-m3",
     {"]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"f\">]<]minimax[>[<b>", NULL},
     {"]", "]<]", "]<]minimax["}},
};
static const char call_tools[] =
    "[{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":"
    "\"string\"},\"b\":{\"type\":\"string\",\"minLength\":2,\"maxLength\":90},\"c\":{\"type\":["
    "\"string\",\"integer\"]},\"d\":{\"anyOf\":[{\"type\":\"string\",\"maxLength\":9},{\"type\":"
    "\"number\"}]},\"e\":{\"type\":[\"string\",\"boolean\",\"null\",\"number\"]}}}}]";

static uint64_t seed = 88172645463325252u;

static uint32_t random_below(uint32_t n) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 33) % n;
}

static bool fits(lazy *l, uint32_t state, const char *bytes, size_t n) {
    for (size_t i = 0; i < n && state != STATE_DEAD; i++) {
        state = lazy_step(l, state, (uint8_t)bytes[i]);
    }
    return n && state != STATE_DEAD;
}

/* The ids that differ, of which some are printed. */
static size_t compare(grammar_matcher *x, const uint64_t *mask, const char *what) {
    grammar_machine *m = x->machine;
    uint32_t state = x->history[x->n_history - 1];
    size_t n_wrong = 0;
    for (size_t id = 0; id < m->vocab->n_ids; id++) {
        size_t n;
        const char *bytes = vocab_bytes(m->vocab, (int32_t)id, &n);
        bool allowed = mask[id >> 6] >> (id & 63) & 1;
        if (allowed == fits(&m->lazy, state, bytes, n)) continue;
        if (n_wrong++ < 3)
            printf("%s: token %zu \"%.*s\" is %s\n", what, id, (int)n, bytes,
                   allowed ? "allowed but does not fit" : "not allowed but fits");
    }
    return n_wrong;
}

/* A random allowed token, mostly not one that ends what was begun. -1: none. */
static int32_t choose(const uint64_t *mask, size_t n_words) {
    uint32_t from = random_below((uint32_t)n_words);
    for (size_t i = 0; i < n_words; i++) {
        size_t w = (from + i) % n_words;
        uint64_t bits = mask[w];
        for (uint32_t k = random_below(8); bits && k > 0 && (bits & (bits - 1)); k--) {
            bits &= bits - 1;
        }
        if (bits) return (int32_t)(w * 64) + __builtin_ctzll(bits);
    }
    return -1;
}

/* What random tokens seldom begin with, at random; it need not fit. */
static void nudge(grammar_matcher *x, const char *const *texts, int n) {
    bool ok;
    const char *text = texts ? texts[random_below((uint32_t)n)] : NULL;
    if (text) mica_grammar_accept_bytes(x, text, strlen(text), &ok, NULL);
}

static size_t run(const grammar *g, const grammar_vocab *v, const char *what, int n_steps,
                  int kind) {
    grammar_machine *m;
    grammar_matcher *x = NULL;
    mica_error err;
    size_t n_words = GRAMMAR_MASK_WORDS(mica_grammar_vocab_size(v)), n_wrong = 0;
    uint64_t *mask = calloc(n_words, sizeof(*mask));
    if (!mask || mica_grammar_machine_new(&m, g, v, NULL, 0, &err)) return 1;
    for (int i = 0; i < n_steps && !n_wrong; i++) {
        bool ok;
        if (!x) {
            if (mica_grammar_matcher_new(&x, m, &err)) return 1;
            if (kind >= 0) nudge(x, calls[kind].begins, 4);
        } else if (kind >= 0 && !random_below(3)) {
            nudge(x, calls[kind].ends, 4);
        }
        if (mica_grammar_mask(x, mask, n_words, &err)) return 1;
        n_wrong = compare(x, mask, what);
        int32_t id = choose(mask, n_words);
        if (id >= 0 && (mica_grammar_accept(x, id, &ok, &err) || !ok)) return 1;
        if (id >= 0 && random_below(60)) continue;
        mica_grammar_matcher_free(x);
        x = NULL;
    }
    mica_grammar_matcher_free(x);
    mica_grammar_machine_free(m);
    free(mask);
    return n_wrong;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    int n_steps = atoi(argv[2]);
    tokenizer *t;
    grammar_vocab *v;
    grammar *g;
    mica_error err;
    size_t n_wrong = 0;
    if (mica_tokenizer_open(&t, argv[1], &err) || mica_grammar_vocab_new(&v, t, &err)) {
        printf("%s\n", err.message);
        return 1;
    }
    for (size_t i = 0; i < sizeof(schemas) / sizeof(schemas[0]); i++) {
        if (mica_grammar_compile_schema_text(&g, schemas[i], strlen(schemas[i]), NULL, &err)) {
            printf("%s: %s\n", schemas[i], err.message);
            return 1;
        }
        n_wrong += run(g, v, schemas[i], n_steps, -1);
        mica_grammar_free(g);
    }
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
        if (mica_grammar_compile_regex(&g, patterns[i], strlen(patterns[i]), &err)) {
            printf("%s: %s\n", patterns[i], err.message);
            return 1;
        }
        n_wrong += run(g, v, patterns[i], n_steps, -1);
        mica_grammar_free(g);
    }
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        toolcall_dialect d;
        const toolcall_source source = {.format = calls[i].format, .reasoning = "none"};
        const toolcall_choice choice = {.tools = call_tools, .n_tools = sizeof(call_tools) - 1};
        if (mica_toolcall_detect(&d, &source, &err) ||
            mica_toolcall_grammar(&g, &d, &choice, &err)) {
            printf("%s: %s\n", calls[i].format, err.message);
            return 1;
        }
        n_wrong += run(g, v, calls[i].format, n_steps, (int)i);
        mica_grammar_free(g);
    }
    mica_grammar_vocab_free(v);
    mica_tokenizer_free(t);
    return n_wrong ? 1 : 0;
}
