/* spm.c: tokenizer.model files against SentencePiece itself: ids and decoded text of the small
 * models in spm/ (see make-spm-cases.py), and refusals of broken files.
 *
 * Usage: spm CASES_FILE MODELS_FOLDER
 */
#include "cmocka_base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "text/tokenizer/impl.h"

static const char *cases_path, *models_path;

static void print_ids(const tokenizer *t, const char *what, const int32_t *ids, size_t n) {
    fprintf(stderr, "  %s:", what);
    for (size_t i = 0; i < n; i++) {
        size_t n_text = 0;
        const char *text = mica_tokenizer_token(t, ids[i], &n_text);
        fprintf(stderr, " %d[%.*s]", ids[i], (int)n_text, text ? text : "");
    }
    fprintf(stderr, "\n");
}

static bool check_ids(const tokenizer *t, const json_value *text, const json_value *expected) {
    token_list got = {0};
    mica_error err = {0};
    if (mica_tokenizer_encode(t, text->string, text->n, (encode_options){0}, &got, &err)) {
        fail_msg("%s", err.message);
    }
    int32_t *ids = calloc(expected->n + 1, sizeof(*ids));
    for (size_t i = 0; i < expected->n; i++) {
        ids[i] = (int32_t)expected->items[i]->integer;
    }
    bool is_same =
        expected->n == got.n && (!got.n || memcmp(ids, got.ids, got.n * sizeof(*ids)) == 0);
    if (!is_same) {
        fprintf(stderr, "  text \"%s\"\n", text->string);
        print_ids(t, "expected", ids, expected->n);
        print_ids(t, "found", got.ids, got.n);
    }
    free(ids);
    mica_free(got.ids);
    return is_same;
}

static bool check_decode(const tokenizer *t, const json_value *row, const json_value *expected) {
    token_list ids = {0};
    char *out;
    size_t n;
    mica_error err = {0};
    for (size_t i = 0; i < row->n; i++) {
        assert_int_equal(mica_token_list_push(&ids, (int32_t)row->items[i]->integer, &err), 0);
    }
    if (mica_tokenizer_decode(t, ids.ids, ids.n, false, &out, &n, &err)) {
        fail_msg("%s", err.message);
    }
    bool is_same = n == expected->n && memcmp(out, expected->string, n) == 0;
    if (!is_same) {
        fprintf(stderr, "  decoded: expected \"%s\", found \"%s\"\n", expected->string, out);
    }
    mica_free(out);
    mica_free(ids.ids);
    return is_same;
}

static size_t check_model(const json_value *model) {
    const char *name = mica_json_string(mica_json_find(model, "name"), "");
    const json_value *rows = mica_json_find(model, "rows");
    char *path = mica_path_join(models_path, name);
    tokenizer *t;
    mica_error err = {0};
    size_t n_wrong = 0;
    if (mica_tokenizer_open(&t, path, &err)) fail_msg("%s", err.message);
    assert_true(rows->n > 50);
    for (size_t i = 0; i < rows->n; i++) {
        const json_value *row = rows->items[i];
        n_wrong += !check_ids(t, row->items[0], row->items[1]);
        n_wrong += !check_decode(t, row->items[1], row->items[2]);
    }
    if (n_wrong) fprintf(stderr, "%s: %zu differences\n", name, n_wrong);
    mica_tokenizer_free(t);
    mica_free(path);
    return n_wrong;
}

static void test_models(void **state) {
    (void)state;
    char *data;
    size_t n, n_wrong = 0, n_models = 0;
    mica_error err = {0};
    mica_arena arena;
    mica_arena_init(&arena, 0);
    if (mica_file_read(&data, &n, cases_path, 64u << 20, &err)) fail_msg("%s", err.message);
    for (char *line = data, *end; (end = memchr(line, '\n', (size_t)(data + n - line)));
         line = end + 1) {
        json_value *model;
        if (mica_json_parse(&model, line, (size_t)(end - line), cases_path, false, &arena, &err)) {
            fail_msg("%s", err.message);
        }
        n_wrong += check_model(model);
        n_models++;
    }
    mica_arena_deinit(&arena);
    mica_free(data);
    assert_int_equal(n_models, 11);
    assert_int_equal(n_wrong, 0);
}

static mica_status parse(const char *data, size_t n, mica_error *err) {
    tokenizer *t = NULL;
    mica_status st = mica_tokenizer_parse_spm(&t, (const uint8_t *)data, n, NULL, "t.model", err);
    mica_tokenizer_free(t);
    return st;
}

static void test_refusals(void **state) {
    (void)state;
    static const struct {
        const char *data;
        size_t n;
        const char *part;
        mica_status code;
    } cases[] = {
        {"", 0, "no pieces", MICA_E_FORMAT},
        {"\x0A", 1, "byte 0 of its message", MICA_E_FORMAT},
        {"\x0A\x05\x0A\x01", 4, "byte 0 of its message", MICA_E_FORMAT},
        {"\x0A\x03\x0A\x05z", 5, "byte 0 of its piece", MICA_E_FORMAT},
        {"\x0A\x03\x0A\x01z\x0F", 6, "byte 5 of its message", MICA_E_FORMAT},
        {"\x0A\x05\x0A\x01z\x18\x09", 7, "piece 0 has type 9", MICA_E_FORMAT},
        {"\x0A\x08\x0A\x01z\x15\xFF\xFF\xFF\x7F", 10, "score", MICA_E_FORMAT},
        {"\x0A\x03\x0A\x01z\x12\x02\x18\x03", 9, "model_type 3 (word)", MICA_E_UNSUPPORTED},
        {"\x0A\x03\x0A\x01z\x12\x02\x18\x04", 9, "model_type 4 (char)", MICA_E_UNSUPPORTED},
        {"\x0A\x03\x0A\x01z\x1A\x03\x12\x01q", 10, "precompiled_charsmap has 1 bytes",
         MICA_E_FORMAT},
    };
    mica_error err = {0};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        mica_status st = parse(cases[i].data, cases[i].n, &err);
        if (st != cases[i].code || !strstr(err.message, cases[i].part)) {
            fail_msg("case %zu: status %d, \"%s\"", i, (int)st, err.message);
        }
    }
    assert_int_equal(parse("\x0A\x03\x0A\x01z", 5, &err), MICA_OK);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_models),
                                       cmocka_unit_test(test_refusals)};
    if (argc != 3) return 2;
    cases_path = argv[1];
    models_path = argv[2];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
