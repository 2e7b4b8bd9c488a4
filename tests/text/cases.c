/* cases.c: every normalizer, pre-tokenizer, added-token flag, post-processor and decoder against
 * the tokenizers library, on the small pipelines of cases.jsonl (see make-cases.py).
 *
 * Usage: cases CASES_FILE
 */
#include "cmocka_base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "text/tokenizer.h"

static const char *cases_path;

typedef struct suite {
    mica_arena arena;
    json_value **cases; /* [0] is the header */
    size_t n;
} suite;

static int load_suite(void **state) {
    suite *s = calloc(1, sizeof(*s));
    char *data;
    size_t n;
    mica_error err = {0};
    mica_arena_init(&s->arena, 0);
    if (mica_file_read(&data, &n, cases_path, 64u << 20, &err)) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    s->cases = calloc(n / 2 + 1, sizeof(*s->cases));
    for (char *line = data, *end; (end = memchr(line, '\n', (size_t)(data + n - line)));
         line = end + 1) {
        if (mica_json_parse(&s->cases[s->n++], line, (size_t)(end - line), cases_path, false,
                            &s->arena, &err)) {
            fprintf(stderr, "%s\n", err.message);
            return 1;
        }
    }
    mica_free(data);
    *state = s;
    return 0;
}

static int free_suite(void **state) {
    suite *s = *state;
    mica_arena_deinit(&s->arena);
    free(s->cases);
    free(s);
    return 0;
}

/* The JSON text of a part: the case's own, else a default. */
static const char *part(const json_value *c, const char *key, const char *fallback) {
    return mica_json_string(mica_json_find(c, key), fallback);
}

static char *compose(const suite *s, const json_value *c) {
    const char *model = part(c, "model", part(s->cases[0], "model", "null"));
    return mica_asprintf("{\"version\":\"1.0\",\"added_tokens\":%s,\"normalizer\":%s,"
                         "\"pre_tokenizer\":%s,\"post_processor\":%s,\"decoder\":%s,\"model\":%s}",
                         part(c, "added_tokens", "[]"), part(c, "normalizer", "null"),
                         part(c, "pre_tokenizer", "null"), part(c, "post_processor", "null"),
                         part(c, "decoder", "{\"type\":\"Fuse\"}"), model);
}

static void describe(const json_value *c, const json_value *text) {
    fprintf(stderr, "  normalizer %.300s\n  pre_tokenizer %.300s\n  added %.100s\n  text \"%s\"\n",
            part(c, "normalizer", "null"), part(c, "pre_tokenizer", "null"),
            part(c, "added_tokens", "[]"), text->string);
}

static void print_tokens(const tokenizer *t, const char *what, const int32_t *ids, size_t n) {
    fprintf(stderr, "  %s:", what);
    for (size_t i = 0; i < n; i++) {
        size_t n_text = 0;
        const char *text = mica_tokenizer_token(t, ids[i], &n_text);
        fprintf(stderr, " %d[%.*s]", ids[i], (int)n_text, text ? text : "");
    }
    fprintf(stderr, "\n");
}

static bool check_ids(const tokenizer *t, const json_value *c, const json_value *text,
                      const json_value *row, bool is_special) {
    token_list got = {0};
    mica_error err = {0};
    encode_options options = {.add_special = is_special, .parse_special = is_special};
    if (mica_tokenizer_encode(t, text->string, text->n, options, &got, &err)) {
        describe(c, text);
        fail_msg("%s", err.message);
    }
    int32_t *ids = calloc(row->n + 1, sizeof(*ids));
    for (size_t i = 0; i < row->n; i++) {
        ids[i] = (int32_t)row->items[i]->integer;
    }
    size_t skip = 0; /* no second beginning-of-sequence token where the text has its own */
    if (is_special && row->n > got.n && row->n > 1 && ids[0] == ids[1]) skip = 1;
    bool is_same = row->n - skip == got.n &&
                   (!got.n || memcmp(ids + skip, got.ids, got.n * sizeof(*ids)) == 0);
    if (!is_same) {
        describe(c, text);
        print_tokens(t, "expected", ids + skip, row->n - skip);
        print_tokens(t, "found", got.ids, got.n);
    }
    free(ids);
    mica_free(got.ids);
    return is_same;
}

static bool check_decode(const tokenizer *t, const json_value *c, const json_value *text,
                         const json_value *row, const json_value *expected, bool skip_special) {
    int32_t *ids = calloc(row->n + 1, sizeof(*ids));
    for (size_t i = 0; i < row->n; i++) {
        ids[i] = (int32_t)row->items[i]->integer;
    }
    char *out;
    size_t n;
    mica_error err = {0};
    if (mica_tokenizer_decode(t, ids, row->n, skip_special, &out, &n, &err)) {
        fail_msg("%s", err.message);
    }
    bool is_same = n == expected->n && memcmp(out, expected->string, n) == 0;
    if (!is_same) {
        describe(c, text);
        fprintf(stderr, "  decoder %s: expected \"%s\", found \"%s\"\n", part(c, "decoder", ""),
                expected->string, out);
    }
    mica_free(out);
    free(ids);
    return is_same;
}

static size_t check_case(const suite *s, const json_value *c) {
    size_t n_wrong = 0;
    tokenizer *t;
    mica_error err = {0};
    char *json = compose(s, c);
    if (mica_tokenizer_parse(&t, json, strlen(json), NULL, 0, "case", &err)) {
        fprintf(stderr, "  %s\n", err.message);
        mica_free(json);
        return 1;
    }
    const json_value *texts = mica_json_find(c, "texts"), *ids = mica_json_find(c, "ids");
    if (texts->kind == JSON_KIND_STRING) texts = mica_json_find(s->cases[0], texts->string);
    const json_value *plain = mica_json_find(c, "plain");
    const json_value *decoded = mica_json_find(c, "decoded");
    const json_value *skipped = mica_json_find(c, "skipped");
    if (plain->kind == JSON_KIND_STRING) plain = ids;
    for (size_t i = 0; i < texts->n; i++) {
        const json_value *text = texts->items[i];
        n_wrong += !check_ids(t, c, text, ids->items[i], true);
        n_wrong += !check_ids(t, c, text, plain->items[i], false);
        if (!decoded) continue;
        n_wrong += !check_decode(t, c, text, ids->items[i], decoded->items[i], false);
        n_wrong += !check_decode(t, c, text, ids->items[i], skipped->items[i], true);
    }
    mica_tokenizer_free(t);
    mica_free(json);
    return n_wrong;
}

static void test_cases(void **state) {
    const suite *s = *state;
    size_t n_wrong = 0;
    assert_true(s->n > 150);
    for (size_t i = 1; i < s->n; i++) {
        size_t n = check_case(s, s->cases[i]);
        if (n) fprintf(stderr, "case %zu: %zu differences\n", i + 1, n);
        n_wrong += n;
    }
    assert_int_equal(n_wrong, 0);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_cases, load_suite, free_suite)};
    if (argc != 2) return 2;
    cases_path = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
