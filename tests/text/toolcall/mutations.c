/* mutations.c: answers damaged at random: bytes dropped, repeated, swapped and mixed with those of
 * other formats. Whatever they are, whole and in pieces they give the same, no byte is lost and
 * arguments are JSON.
 *
 * Usage: mutations [--seed N] [--rounds N] FILE.json...
 */
#include "cmocka_base.h"

#include "answer.h"
#include "text/toolcall/call_format.h"

enum { MAX_TEXTS = 1024, MAX_BYTES = 3000 };

static const char **paths;
static int n_paths;
static uint64_t seed = 1;
static long n_rounds = 200;

typedef struct sample {
    const char *text;
    size_t n;
    toolcall_dialect dialect;
} sample;

static sample samples[MAX_TEXTS];
static size_t n_samples;
static mica_arena arena;

static size_t rnd(size_t n) {
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return n ? (size_t)(seed >> 33) % n : 0;
}

static void load(const char *path) {
    json_value *groups;
    mica_error err = {0};
    if (mica_json_parse_file(&groups, path, 1 << 20, false, &arena, &err)) {
        fail_msg("%s", err.message);
    }
    for (size_t k = 0; k < groups->n; k++) {
        const json_value *g = groups->items[k], *cases = mica_json_find(g, "cases");
        toolcall_source source = {.format = mica_json_string(mica_json_find(g, "format"), "none"),
                                  .reasoning =
                                      mica_json_string(mica_json_find(g, "reasoning"), "none")};
        for (size_t i = 0; i < cases->n && n_samples < MAX_TEXTS; i++) {
            const json_value *text = mica_json_find(cases->items[i], "text");
            sample *s = &samples[n_samples++];
            *s = (sample){.text = text->string, .n = text->n};
            assert_int_equal(mica_toolcall_detect(&s->dialect, &source, NULL), MICA_OK);
        }
    }
}

/* ---- damage ---- */
static size_t insert(char *text, size_t n, size_t at, const char *s, size_t n_s) {
    if (n + n_s > MAX_BYTES) return n;
    char copy[MAX_BYTES];
    memcpy(copy, s, n_s); /* it may lie in `text` */
    memmove(text + at + n_s, text + at, n - at);
    memcpy(text + at, copy, n_s);
    return n + n_s;
}

static size_t damage(char *text, size_t n) {
    size_t at = rnd(n + 1), n_part = rnd(n - at + 1);
    if (n_part > 12 && rnd(3)) n_part = rnd(12);
    switch (rnd(6)) {
    case 0: /* drop */
        memmove(text + at, text + at + n_part, n - at - n_part);
        return n - n_part;
    case 1: /* repeat */
        return insert(text, n, rnd(n + 1), text + at, n_part);
    case 2: /* another byte */
        if (at < n) text[at] = "\"{}[]<>|\\\n ,:a1\xC3\xFF"[rnd(18)];
        return n;
    case 3: /* the end is missing */
        return at;
    case 4: { /* a part of another answer */
        const sample *s = &samples[rnd(n_samples)];
        size_t from = rnd(s->n + 1);
        return insert(text, n, at, s->text + from, rnd(s->n - from + 1));
    }
    default: { /* a marker of the tables */
        const call_format *f = &mica_call_formats[rnd(mica_n_call_formats)];
        const reasoning_format *r = &mica_reasoning_formats[rnd(mica_n_reasoning_formats)];
        const char *marks[] = {f->openers[0].text, f->tails[0], r->open, r->closes[0]};
        const char *mark = marks[rnd(4)];
        return mark ? insert(text, n, at, mark, strlen(mark)) : n;
    }
    }
}

static void check(const sample *s, const char *text, size_t n) {
    size_t cuts[MAX_BYTES], n_cuts = 0, share = 1 + rnd(20);
    for (size_t i = 0; i <= n && n_cuts < MAX_BYTES; i++) {
        if (rnd(share) == 0) cuts[n_cuts++] = i;
    }
    static const char tools[] =
        "[{\"name\":\"get_time\",\"parameters\":{\"properties\":{\"city\":{\"type\":\"string\"}}}},"
        "{\"name\":\"add\",\"parameters\":{\"properties\":{\"a\":{\"type\":\"integer\"}}}}]";
    toolcall_options options = {
        .start = (toolcall_start)rnd(3),
        .ignores_calls = rnd(8) == 0,
        .streams_arguments = rnd(2),
        .tools = rnd(4) ? tools : NULL,
        .n_tools = sizeof(tools) - 1,
    };
    bool is_cut = rnd(2);
    answer whole = answer_parse(&s->dialect, &options, is_cut, text, n, NULL, 0);
    answer pieces = answer_parse(&s->dialect, &options, is_cut, text, n, cuts, n_cuts);
    if (whole.wrong || pieces.wrong || !answer_equal(&whole, &pieces)) {
        fprintf(stderr, "%s, start %d, cut %d, stream %d, text: %.*s\n",
                mica_toolcall_format_name(&s->dialect), (int)options.start, is_cut,
                options.streams_arguments, (int)n, text);
        answer_print("whole", &whole);
        answer_print("in pieces", &pieces);
        fail();
    }
    answer_free(&whole);
    answer_free(&pieces);
}

static void test_mutations(void **state) {
    (void)state;
    char text[MAX_BYTES];
    print_message("seed %llu\n", (unsigned long long)seed);
    for (int i = 0; i < n_paths; i++) {
        load(paths[i]);
    }
    assert_true(n_samples > 300);
    for (long round = 0; round < n_rounds; round++) {
        for (size_t i = 0; i < n_samples; i++) {
            size_t n = samples[i].n;
            memcpy(text, samples[i].text, n);
            for (size_t k = rnd(5); k < 5; k++) {
                n = damage(text, n);
            }
            check(&samples[rnd(4) ? i : rnd(n_samples)], text, n);
        }
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mutations)};
    int i = 1;
    for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
        long value = strtol(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--seed") == 0) seed = (uint64_t)value;
        if (strcmp(argv[i], "--rounds") == 0) n_rounds = value;
    }
    paths = (const char **)argv + i;
    n_paths = argc - i;
    mica_arena_init(&arena, 0);
    int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    mica_arena_deinit(&arena);
    return n_failed;
}
