/* grammar.c: what constrained output costs: compile time, and time per token mask.
 *
 * Usage: bench_grammar TOKENIZER CASES. CASES has one JSON object a line: {"name", "schema_text" or
 * "regex", "tokens": [[ids], ...]}: texts as token ids. For each case a fresh machine follows the
 * instances in turn, as a server does that keeps a schema's machine; the first instance is also
 * reported alone (cold). Prints one JSON object a line.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "text/grammar/grammar.h"

enum { N_RUNS = 9 };

static double cpu_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* CPU seconds of each mask of a case in order: the least of several runs, each with a fresh
 * machine, so that what other programs take does not count. */
typedef struct timing {
    double *masks;
    size_t n, n_first; /* n_first: of the first instance */
    double compile, accept;
} timing;

static void die(const char *what, const mica_error *err) {
    fprintf(stderr, "bench_grammar: %s: %s\n", what, err->message);
    exit(1);
}

/* Follows one instance; every mask must hold the next token. */
static void follow(grammar_machine *m, const json_value *ids, uint64_t *mask, size_t n_words,
                   timing *t) {
    grammar_matcher *x;
    mica_error err;
    if (mica_grammar_matcher_new(&x, m, &err)) die("matcher", &err);
    for (size_t i = 0; i < ids->n; i++, t->n++) {
        int32_t id = (int32_t)ids->items[i]->integer;
        bool ok;
        double start = cpu_s();
        if (mica_grammar_mask(x, mask, n_words, &err)) die("mask", &err);
        double middle = cpu_s();
        if (mica_grammar_accept(x, id, &ok, &err)) die("accept", &err);
        t->accept += cpu_s() - middle;
        if (middle - start < t->masks[t->n]) t->masks[t->n] = middle - start;
        if (ok && mask[id >> 6] >> (id & 63) & 1) continue;
        fprintf(stderr, "bench_grammar: token %d (number %zu) is not allowed\n", id, i);
        exit(1);
    }
    mica_grammar_matcher_free(x);
}

static double mean(const double *s, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += s[i];
    }
    return sum / (double)n;
}

static double largest(const double *s, size_t n) {
    double most = 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i] > most) most = s[i];
    }
    return most;
}

static void put(json_writer *w, const char *key, double s) {
    mica_json_member_double(w, key, (double)(int64_t)(s * 1e8) / 100);
}

static grammar_stats run_once(const json_value *c, const grammar_vocab *v, int32_t end_id,
                              timing *t) {
    grammar *g;
    grammar_machine *m;
    mica_error err;
    size_t n_words = GRAMMAR_MASK_WORDS(mica_grammar_vocab_size(v));
    uint64_t *mask = calloc(n_words, sizeof(*mask));
    const json_value *lists = mica_json_find(c, "tokens"), *text = mica_json_find(c, "schema_text"),
                     *regex = mica_json_find(c, "regex");
    double start = cpu_s();
    if (regex ? mica_grammar_compile_regex(&g, regex->string, regex->n, &err)
              : mica_grammar_compile_schema_text(&g, text->string, text->n, NULL, &err))
        die("grammar", &err);
    if (mica_grammar_machine_new(&m, g, v, &end_id, 1, &err)) die("machine", &err);
    double s = cpu_s() - start;
    if (s < t->compile) t->compile = s;
    t->n = 0;
    t->accept = 0;
    for (size_t i = 0; i < lists->n; i++) {
        follow(m, lists->items[i], mask, n_words, t);
        if (!i) t->n_first = t->n;
    }
    grammar_stats stats = mica_grammar_machine_stats(m);
    mica_grammar_machine_free(m);
    mica_grammar_free(g);
    free(mask);
    return stats;
}

static void run_case(const json_value *c, const grammar_vocab *v, int32_t end_id) {
    enum { MAX_TOKENS = 1 << 20 };
    timing t = {.masks = malloc(MAX_TOKENS * sizeof(double)), .compile = 1e9};
    for (size_t i = 0; i < MAX_TOKENS; i++) {
        t.masks[i] = 1e9;
    }
    grammar_stats stats = {0};
    for (int i = 0; i < N_RUNS; i++) {
        stats = run_once(c, v, end_id, &t);
    }
    json_writer w;
    mica_json_writer_init(&w, false);
    mica_json_begin_object(&w);
    mica_json_member_cstring(&w, "name", mica_json_string(mica_json_find(c, "name"), ""));
    put(&w, "compile_us", t.compile);
    put(&w, "cold_avg_us", mean(t.masks, t.n_first));
    put(&w, "avg_us", mean(t.masks, t.n));
    put(&w, "worst_us", largest(t.masks, t.n));
    put(&w, "accept_us", t.accept / (double)t.n);
    mica_json_member_u64(&w, "tokens", t.n);
    mica_json_member_u64(&w, "states", stats.n_states);
    mica_json_member_u64(&w, "masks", stats.n_masks);
    mica_json_member_u64(&w, "bytes", stats.n_bytes);
    mica_json_end_object(&w);
    printf("%s\n", w.data);
    mica_json_writer_deinit(&w);
    free(t.masks);
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    tokenizer *t;
    grammar_vocab *v;
    mica_error err;
    char *text;
    size_t n;
    if (mica_tokenizer_open(&t, argv[1], &err)) die(argv[1], &err);
    double start = cpu_s();
    if (mica_grammar_vocab_new(&v, t, &err)) die(argv[1], &err);
    fprintf(stderr, "vocabulary of %zu: %.1f ms\n", mica_grammar_vocab_size(v),
            1e3 * (cpu_s() - start));
    if (mica_file_read(&text, &n, argv[2], (size_t)1 << 30, &err)) die(argv[2], &err);
    for (char *line = text, *end; line < text + n; line = end + 1) {
        end = memchr(line, '\n', (size_t)(text + n - line));
        if (!end) end = text + n;
        mica_arena arena;
        json_value *c;
        mica_arena_init(&arena, 0);
        if (mica_json_parse(&c, line, (size_t)(end - line), "case", false, &arena, &err))
            die("case", &err);
        run_case(c, v, mica_tokenizer_eos(t));
        mica_arena_deinit(&arena);
    }
    mica_free(text);
    mica_grammar_vocab_free(v);
    mica_tokenizer_free(t);
    return 0;
}
