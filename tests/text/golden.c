/* golden.c: ids and decoded text of the corpus in tests/golden/tokens, which the tokenizers library
 * made.
 *
 * Usage: golden TOKENS_FOLDER NAME MODEL, where MODEL is a folder or a GGUF file; "~" before a name
 * means the folder of fetched starters. Without MODEL's file the test is skipped (exit code 77).
 *
 * One deviation is wanted: for a text that itself begins with the beginning-of-sequence token the
 * library adds a second one and mica does not.
 */
#include "cmocka_base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/file.h"
#include "text/tokenizer.h"

static const char *folder, *vocab_name;
static tokenizer *model;
static mica_arena arena;

typedef struct lines {
    json_value **items;
    size_t n;
} lines;

/* The JSON values in a file of one value a line. */
static lines read_lines(const char *stem, const char *suffix) {
    char path[1024];
    char *data;
    size_t n;
    mica_error err = {0};
    snprintf(path, sizeof(path), "%s/%s%s.jsonl", folder, stem, suffix);
    if (mica_file_read(&data, &n, path, 64u << 20, &err)) fail_msg("%s", err.message);
    lines out = {.items = calloc(n + 1, sizeof(*out.items))};
    for (char *line = data, *end; (end = memchr(line, '\n', (size_t)(data + n - line)));
         line = end + 1) {
        mica_status st = mica_json_parse(&out.items[out.n++], line, (size_t)(end - line), path,
                                         false, &arena, &err);
        if (st) fail_msg("%s", err.message);
    }
    mica_free(data);
    return out;
}

static void print_ids(const char *what, const int32_t *ids, size_t n) {
    fprintf(stderr, "  %s:", what);
    for (size_t i = 0; i < n && i < 60; i++) {
        fprintf(stderr, " %d", ids[i]);
    }
    fprintf(stderr, "\n");
}

/* Whether the ids of a text are those of the library; says so if not. */
static bool check_ids(const json_value *text, const json_value *expected, bool add_special) {
    token_list got = {0};
    mica_error err = {0};
    encode_options options = {.add_special = add_special, .parse_special = true};
    mica_status st = mica_tokenizer_encode(model, text->string, text->n, options, &got, &err);
    if (st) fail_msg("%s", err.message);
    int32_t *ids = calloc(expected->n + 1, sizeof(*ids)), bos = mica_tokenizer_bos(model);
    for (size_t i = 0; i < expected->n; i++) {
        ids[i] = (int32_t)expected->items[i]->integer;
    }
    size_t skip = add_special && expected->n > 1 && ids[0] == bos && ids[1] == bos;
    size_t n = expected->n - skip;
    bool is_same = n == got.n && memcmp(ids + skip, got.ids ? got.ids : ids, n * 4) == 0;
    if (!is_same) {
        fprintf(stderr, "%s: ids differ for \"%.*s\"\n", vocab_name,
                (int)(text->n < 100 ? text->n : 100), text->string);
        print_ids("expected", ids + skip, n);
        print_ids("found", got.ids, got.n);
    }
    free(ids);
    mica_free(got.ids);
    return is_same;
}

static void test_ids(bool add_special, const char *suffix) {
    lines corpus = read_lines("corpus", ""), expected = read_lines(vocab_name, suffix);
    size_t n_wrong = 0;
    assert_true(corpus.n > 100);
    assert_int_equal(corpus.n, expected.n);
    for (size_t i = 0; i < corpus.n; i++) {
        n_wrong += !check_ids(corpus.items[i], expected.items[i], add_special);
    }
    free(corpus.items);
    free(expected.items);
    assert_int_equal(n_wrong, 0);
}

static void test_plain_ids(void **state) {
    (void)state;
    test_ids(false, ".plain");
}

static void test_ids_with_special(void **state) {
    (void)state;
    test_ids(true, "");
}

static void test_decode(void **state) {
    (void)state;
    lines plain = read_lines(vocab_name, ".plain"), decoded = read_lines(vocab_name, ".decoded");
    size_t n_wrong = 0;
    assert_int_equal(plain.n, decoded.n);
    for (size_t i = 0; i < plain.n; i++) {
        const json_value *row = plain.items[i], *expected = decoded.items[i];
        int32_t *ids = calloc(row->n + 1, sizeof(*ids));
        for (size_t k = 0; k < row->n; k++) {
            ids[k] = (int32_t)row->items[k]->integer;
        }
        char *text;
        size_t n;
        mica_error err = {0};
        if (mica_tokenizer_decode(model, ids, row->n, false, &text, &n, &err)) {
            fail_msg("%s", err.message);
        }
        if (n != expected->n || memcmp(text, expected->string, n) != 0) {
            fprintf(stderr, "%s: decoded line %zu: expected \"%s\", found \"%s\"\n", vocab_name,
                    i + 1, expected->string, text);
            n_wrong++;
        }
        mica_free(text);
        free(ids);
    }
    free(plain.items);
    free(decoded.items);
    assert_int_equal(n_wrong, 0);
}

/* "~NAME": where tools/fetch-model puts a starter. */
static void find_model(const char *arg, char *path, size_t n_path) {
    const char *home = getenv("MICA_HOME"), *data = getenv("XDG_DATA_HOME"), *user = getenv("HOME");
    if (arg[0] != '~') {
        snprintf(path, n_path, "%s", arg);
    } else if (home && home[0]) {
        snprintf(path, n_path, "%s/models/%s.gguf", home, arg + 1);
    } else if (data && data[0]) {
        snprintf(path, n_path, "%s/mica/models/%s.gguf", data, arg + 1);
    } else {
        snprintf(path, n_path, "%s/.local/share/mica/models/%s.gguf", user ? user : "", arg + 1);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_plain_ids),
                                       cmocka_unit_test(test_ids_with_special),
                                       cmocka_unit_test(test_decode)};
    char path[1024];
    mica_error err = {0};
    if (argc != 4) return 2;
    folder = argv[1];
    vocab_name = argv[2];
    find_model(argv[3], path, sizeof(path));
    if (argv[3][0] == '~' && !mica_path_exists(path)) {
        printf("skipped: no starter at %s\n", path);
        return 77;
    }
    if (mica_tokenizer_open(&model, path, &err)) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    mica_arena_init(&arena, 0);
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    mica_arena_deinit(&arena);
    mica_tokenizer_free(model);
    return rc;
}
