/* probe.c: grammars driven from outside, for the tests in Python: one JSON request a line on
 * standard input, one JSON answer a line on standard output.
 *
 *   {"schema": ... | "regex": TEXT | "gbnf": TEXT | "choices": [...],
 *    "any_order": bool, "compact": bool, "lenient": bool,
 *    "texts": [TEXT, ...], "check_masks": bool, "walks": N, "seed": S, "steps": N, "budget": BYTES}
 *   {"error": TEXT, "code": NAME} or {"accepts": [bool, ...], "walks": [TEXT, ...]}
 *
 * A text is fed as tokens, longest first and byte by byte: both must agree, and each token must be
 * in the mask before it. A walk draws tokens from masks; it prefers the end when `steps` are over.
 * Usage: probe [TOKENIZER]; without one the vocabulary is all bytes and some pieces of JSON.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/grammar/machine.h"

enum { MAX_LINE = 1 << 24, END_ID = 0, MAX_CHOICES = 64 };

typedef struct probe {
    grammar_vocab *vocab;
    grammar_machine *machine;
    uint64_t *mask;
    size_t n_words;
    int32_t end_id;
} probe;

static void die(const char *what, const mica_error *err) {
    fprintf(stderr, "probe: %s: %s\n", what, err->message);
    exit(1);
}

/* ---- vocabularies ---- */

static const char *const pieces[] = {
    "\":",     "\": ",  "\",",     "\", \"", "{\"",      "\"}",      "}}",       "]}",
    "},",      "[]",    "{}",      "true",   "false",    "null",     "true,",    "00",
    "12",      "123",   ".5",      "-1",     "e+1",      "\\\"",     "\\n",      "\\u00",
    "na",      "name",  "value",   "ab",     "abc",      "the",      " the",     "hello",
    " ",       "  ",    "\n",      "\n  ",   "\n    ",   ", ",       "\"a\"",    "\"a\":",
    "\"b\":1", "0,",    "1]",      "2}",     "\xC3\xA9", "\xE4\xB8", "\xAD\xE6", "\xF0\x9F\x98",
    "2024-",   "-01-",  "T12:",    ":00Z",   "@ex",      ".com",     "foo",      "bar",
    "foobar",  "\"foo", "\"bar\":"};
enum { N_PIECES = sizeof(pieces) / sizeof(pieces[0]) };

static grammar_vocab *small_vocab(void) {
    static char bytes[256][2];
    const char *tokens[1 + 256 + N_PIECES];
    size_t lengths[1 + 256 + N_PIECES], n = 0;
    tokens[n] = "";
    lengths[n++] = 0;
    for (int c = 0; c < 256; c++) {
        bytes[c][0] = (char)c;
        tokens[n] = bytes[c];
        lengths[n++] = 1;
    }
    for (size_t i = 0; i < N_PIECES; i++) {
        tokens[n] = pieces[i];
        lengths[n++] = strlen(pieces[i]);
    }
    grammar_vocab *v;
    mica_error err;
    if (mica_grammar_vocab_from_bytes(&v, tokens, lengths, n, &err)) die("vocabulary", &err);
    return v;
}

static grammar_vocab *real_vocab(const char *path, int32_t *end_id) {
    tokenizer *t;
    grammar_vocab *v;
    mica_error err;
    if (mica_tokenizer_open(&t, path, &err)) die(path, &err);
    if (mica_grammar_vocab_new(&v, t, &err)) die(path, &err);
    *end_id = mica_tokenizer_eos(t);
    mica_tokenizer_free(t);
    return v;
}

/* ---- running ---- */

static bool allows(const probe *p, int32_t id) { return p->mask[id >> 6] >> (id & 63) & 1; }

static void take_mask(probe *p, grammar_matcher *m) {
    mica_error err;
    memset(p->mask, 0xA5, p->n_words * sizeof(*p->mask));
    if (mica_grammar_mask(m, p->mask, p->n_words, &err)) die("mask", &err);
    if (allows(p, p->end_id) != mica_grammar_is_complete(m)) {
        fprintf(stderr, "probe: the end token and is_complete disagree\n");
        exit(1);
    }
}

/* Every token's bit must be what accepting it says. */
static void check_mask(probe *p, grammar_matcher *m) {
    mica_error err;
    take_mask(p, m);
    for (size_t id = 0; id < mica_grammar_vocab_size(p->vocab); id++) {
        bool ok;
        if (mica_grammar_accept(m, (int32_t)id, &ok, &err)) die("accept", &err);
        if (ok && mica_grammar_rollback(m, 1, &err)) die("rollback", &err);
        if (ok == allows(p, (int32_t)id)) continue;
        fprintf(stderr, "probe: the mask says %d for token %zu, accept says %d\n", !ok, id, ok);
        exit(1);
    }
}

static bool accepts(probe *p, const char *text, size_t n, bool checks_masks) {
    grammar_matcher *m;
    mica_error err;
    bool ok = true;
    if (mica_grammar_matcher_new(&m, p->machine, &err)) die("matcher", &err);
    for (size_t i = 0; i < n && ok; i++) {
        if (checks_masks) check_mask(p, m);
        if (mica_grammar_accept_bytes(m, text + i, 1, &ok, &err)) die("accept", &err);
    }
    bool is_complete = ok && mica_grammar_is_complete(m);
    bool whole = true;
    if (mica_grammar_rollback(m, 0, &err)) die("rollback", &err);
    mica_grammar_matcher_free(m);
    if (mica_grammar_matcher_new(&m, p->machine, &err)) die("matcher", &err);
    if (n && mica_grammar_accept_bytes(m, text, n, &whole, &err)) die("accept", &err);
    if (whole != ok || (whole && mica_grammar_is_complete(m) != is_complete)) {
        fprintf(stderr, "probe: a text and its bytes disagree\n");
        exit(1);
    }
    mica_grammar_matcher_free(m);
    return is_complete;
}

/* A token of the mask, or the end when it is allowed and wanted. */
static int32_t draw(probe *p, uint64_t *state, bool wants_end) {
    size_t n = mica_grammar_vocab_size(p->vocab), n_allowed = 0;
    if (wants_end && allows(p, p->end_id)) return p->end_id;
    for (size_t i = 0; i < GRAMMAR_MASK_WORDS(n); i++) {
        n_allowed += (size_t)__builtin_popcountll(p->mask[i]);
    }
    if (!n_allowed) return -1;
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    size_t k = (size_t)(*state >> 33) % n_allowed;
    for (size_t id = 0; id < n; id++) {
        if (allows(p, (int32_t)id) && k-- == 0) return (int32_t)id;
    }
    return -1;
}

/* Tokens that close something, tried first when a walk should come to its end. */
static int32_t draw_closing(probe *p, grammar_matcher *m, uint64_t *state) {
    static const char closing[] = "\"}]0ax";
    mica_error err;
    if (allows(p, p->end_id)) return p->end_id;
    for (const char *c = closing; *c; c++) {
        bool ok;
        if (mica_grammar_accept_bytes(m, c, 1, &ok, &err)) die("accept", &err);
        if (!ok) continue;
        if (mica_grammar_rollback(m, 1, &err)) die("rollback", &err);
        return -2 - *c;
    }
    return draw(p, state, true);
}

static void put_bytes(char **text, size_t *n, const char *bytes, size_t n_bytes) {
    *text = realloc(*text, *n + n_bytes + 1);
    memcpy(*text + *n, bytes, n_bytes);
    *n += n_bytes;
}

static void walk(probe *p, uint64_t seed, int64_t steps, json_writer *w) {
    grammar_matcher *m, *fork;
    mica_error err;
    char *text = NULL;
    size_t n = 0, n_bytes;
    uint64_t state = seed * 2654435761u + 88172645463325252u;
    if (mica_grammar_matcher_new(&m, p->machine, &err)) die("matcher", &err);
    for (int64_t i = 0; i < 40 * steps; i++) {
        bool ok;
        take_mask(p, m);
        int32_t id = i < steps ? draw(p, &state, false) : draw_closing(p, m, &state);
        if (id == -1) {
            fprintf(stderr, "probe: no token is allowed\n");
            exit(1);
        }
        if (id < -1) {
            char c = (char)(-2 - id);
            if (mica_grammar_accept_bytes(m, &c, 1, &ok, &err) || !ok) die("accept", &err);
            put_bytes(&text, &n, &c, 1);
            continue;
        }
        if (mica_grammar_accept(m, id, &ok, &err) || !ok) die("a token of the mask", &err);
        if (id == p->end_id) break;
        const char *bytes = vocab_bytes(p->vocab, id, &n_bytes);
        put_bytes(&text, &n, bytes, n_bytes);
        /* Going back and a fork must not change anything. */
        if (i % 5 == 0) {
            if (mica_grammar_rollback(m, 1, &err)) die("rollback", &err);
            if (mica_grammar_matcher_fork(&fork, m, &err)) die("fork", &err);
            mica_grammar_matcher_free(m);
            m = fork;
            if (mica_grammar_accept(m, id, &ok, &err) || !ok) die("a token after a fork", &err);
        }
    }
    if (mica_grammar_is_complete(m))
        mica_json_put_string(w, text ? text : "", n);
    else
        mica_json_put_null(w);
    mica_grammar_matcher_free(m);
    free(text);
}

/* ---- requests ---- */

static mica_status compile(grammar **out, const json_value *r, const grammar_vocab *vocab,
                           mica_error *err) {
    const schema_options options = {
        .is_compact = mica_json_bool(mica_json_find(r, "compact"), false),
        .ignores_unknown = mica_json_bool(mica_json_find(r, "lenient"), false),
        .any_order = mica_json_bool(mica_json_find(r, "any_order"), false)};
    const json_value *v;
    if ((v = mica_json_find(r, "schema")))
        return mica_grammar_compile_schema(out, v, &options, err);
    if ((v = mica_json_find(r, "regex")))
        return mica_grammar_compile_regex(out, v->string, v->n, err);
    if ((v = mica_json_find(r, "gbnf")))
        return mica_grammar_compile_gbnf(out, v->string, v->n, vocab, err);
    if (!(v = mica_json_find(r, "choices"))) return mica_grammar_compile_json(out, &options, err);
    const char *choices[MAX_CHOICES];
    for (size_t i = 0; i < v->n && i < MAX_CHOICES; i++) {
        choices[i] = v->items[i]->string;
    }
    return mica_grammar_compile_choices(out, choices, v->n < MAX_CHOICES ? v->n : MAX_CHOICES, err);
}

static void answer(probe *p, const json_value *r, json_writer *w) {
    mica_json_begin_object(w);
    mica_json_key(w, "accepts");
    mica_json_begin_array(w);
    const json_value *texts = mica_json_find(r, "texts");
    bool checks_masks = mica_json_bool(mica_json_find(r, "check_masks"), false);
    for (size_t i = 0; texts && i < texts->n; i++) {
        mica_json_put_bool(w,
                           accepts(p, texts->items[i]->string, texts->items[i]->n, checks_masks));
    }
    mica_json_end_array(w);
    mica_json_key(w, "walks");
    mica_json_begin_array(w);
    int64_t n = mica_json_i64(mica_json_find(r, "walks"), 0);
    int64_t seed = mica_json_i64(mica_json_find(r, "seed"), 1);
    int64_t steps = mica_json_i64(mica_json_find(r, "steps"), 40);
    for (int64_t i = 0; i < n; i++) {
        walk(p, (uint64_t)(seed * 1000 + i), steps, w);
    }
    mica_json_end_array(w);
    mica_json_end_object(w);
}

static void run(probe *p, const char *line, size_t n) {
    mica_arena arena;
    mica_error err;
    json_value *request;
    grammar *g = NULL;
    json_writer w;
    mica_arena_init(&arena, 0);
    mica_json_writer_init(&w, false);
    if (mica_json_parse(&request, line, n, "request", false, &arena, &err)) die("request", &err);
    mica_status st = compile(&g, request, p->vocab, &err);
    if (st) {
        mica_json_begin_object(&w);
        mica_json_key(&w, "error");
        mica_json_put_cstring(&w, err.message);
        mica_json_key(&w, "code");
        mica_json_put_cstring(&w, mica_status_name(st));
        mica_json_end_object(&w);
    } else {
        if (mica_grammar_machine_new(&p->machine, g, p->vocab, &p->end_id, 1, &err))
            die("machine", &err);
        p->machine->budget_bytes =
            (size_t)mica_json_i64(mica_json_find(request, "budget"), 128 << 20);
        answer(p, request, &w);
        mica_grammar_machine_free(p->machine);
        mica_grammar_free(g);
    }
    printf("%s\n", w.data);
    fflush(stdout);
    mica_json_writer_deinit(&w);
    mica_arena_deinit(&arena);
}

int main(int argc, char **argv) {
    probe p = {.end_id = END_ID};
    p.vocab = argc > 1 ? real_vocab(argv[1], &p.end_id) : small_vocab();
    p.n_words = GRAMMAR_MASK_WORDS(mica_grammar_vocab_size(p.vocab)) + 1;
    p.mask = calloc(p.n_words, sizeof(*p.mask));
    char *line = malloc(MAX_LINE);
    while (p.mask && line && fgets(line, MAX_LINE, stdin)) {
        run(&p, line, strlen(line));
    }
    free(line);
    free(p.mask);
    mica_grammar_vocab_free(p.vocab);
    return 0;
}
