/* json.c: tokenizer.json and tokenizer_config.json: which file wins, what is put right with a
 * warning, what is refused and with which words; and folders.
 */
#include "cmocka_base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "text/tokenizer.h"
#include "text/tokenizer/regex.h"

#define MODEL                                                                                      \
    "{\"type\":\"BPE\",\"unk_token\":null,\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"<e>\":4}," \
    "\"merges\":[\"a b\"]}"

static mica_status parse(tokenizer **out, const char *json, const char *config, mica_error *err) {
    return mica_tokenizer_parse(out, json, strlen(json), config, config ? strlen(config) : 0,
                                "test.json", err);
}

/* A whole file around some parts, which come first. */
static mica_status parse_parts(tokenizer **out, const char *parts, const char *config,
                               mica_error *err) {
    char *json = mica_asprintf("{\"version\":\"1.0\",%s\"model\":" MODEL "}", parts);
    mica_status st = parse(out, json, config, err);
    mica_free(json);
    return st;
}

static tokenizer *must_parse(const char *parts, const char *config) {
    tokenizer *t = NULL;
    mica_error err = {0};
    if (parse_parts(&t, parts, config, &err)) fail_msg("%s", err.message);
    return t;
}

static void check_encode(const tokenizer *t, const char *text, bool add_special, int n, ...) {
    token_list got = {0};
    mica_error err = {0};
    encode_options options = {.add_special = add_special, .parse_special = true};
    if (mica_tokenizer_encode(t, text, strlen(text), options, &got, &err)) {
        fail_msg("%s", err.message);
    }
    va_list ids;
    va_start(ids, n);
    assert_int_equal(got.n, n);
    for (int i = 0; i < n; i++) {
        assert_int_equal(got.ids[i], va_arg(ids, int));
    }
    va_end(ids);
    mica_free(got.ids);
}

static void test_special_tokens(void **state) {
    (void)state;
    static const char config[] =
        "{\"bos_token\":\"<s>\",\"eos_token\":{\"content\":\"<e>\",\"lstrip\":false},"
        "\"pad_token\":null,\"model_max_length\":1e30,"
        "\"added_tokens_decoder\":{\"7\":{\"content\":\"<new>\",\"special\":true},"
        "\"5\":{\"content\":\"<s>\",\"special\":false}}}";
    tokenizer *t =
        must_parse("\"added_tokens\":[{\"id\":5,\"content\":\"<s>\",\"special\":true}],", config);
    assert_int_equal(mica_tokenizer_bos(t), 5);
    assert_int_equal(mica_tokenizer_eos(t), 4);
    assert_int_equal(mica_tokenizer_find(t, "<new>", 5), 7);
    assert_int_equal(mica_tokenizer_vocab_size(t), 8);
    assert_null(mica_tokenizer_token(t, 6, &(size_t){0}));
    assert_true(mica_tokenizer_is_special(t, 5)); /* tokenizer.json wins */
    assert_true(mica_tokenizer_is_special(t, 4)); /* named by the config */
    check_encode(t, "ab<new>c<e>", false, 4, 3, 7, 2, 4);
    size_t n;
    const int32_t *ends = mica_tokenizer_end_ids(t, &n);
    assert_int_equal(n, 1);
    assert_int_equal(ends[0], 4);
    assert_string_equal(mica_tokenizer_warnings(t), "");
    mica_tokenizer_free(t);
}

static void test_id_conflicts(void **state) {
    (void)state;
    tokenizer *t = must_parse("\"added_tokens\":[{\"id\":9,\"content\":\"ab\"},"
                              "{\"id\":0,\"content\":\"<x>\"},{\"id\":20,\"content\":\"<y>\"}],",
                              NULL);
    assert_int_equal(mica_tokenizer_find(t, "ab", 2), 3);  /* the vocabulary's id counts */
    assert_int_equal(mica_tokenizer_find(t, "<x>", 3), 5); /* 0 is taken: the next free one */
    assert_int_equal(mica_tokenizer_find(t, "<y>", 3), 20);
    assert_non_null(strstr(mica_tokenizer_warnings(t), "\"ab\""));
    assert_non_null(strstr(mica_tokenizer_warnings(t), "\"<x>\""));
    mica_tokenizer_free(t);
}

static void test_one_bos(void **state) {
    (void)state;
    static const char parts[] =
        "\"added_tokens\":[{\"id\":5,\"content\":\"<s>\",\"special\":true}],"
        "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":"
        "{\"id\":\"<s>\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"pair\":[],"
        "\"special_tokens\":{\"<s>\":{\"id\":\"<s>\",\"ids\":[5],\"tokens\":[\"<s>\"]}}},";
    tokenizer *t = must_parse(parts, NULL);
    check_encode(t, "a", true, 2, 5, 0);
    check_encode(t, "<s>a", true, 2, 5, 0);
    check_encode(t, "<s><s>a", true, 3, 5, 5, 0);
    check_encode(t, "<s>a", false, 2, 5, 0);
    check_encode(t, "", true, 1, 5);
    assert_true(mica_tokenizer_adds_bos(t));
    mica_tokenizer_free(t);
}

/* ---- refusals ---- */

static void expect_error(mica_status st, const mica_error *err, mica_status code,
                         const char *part) {
    if (st != code || !strstr(err->message, part)) {
        fail_msg("status %d, \"%s\"; expected %d and \"%s\"", st, err->message, code, part);
    }
}

static void test_refused_parts(void **state) {
    (void)state;
    static const struct {
        const char *parts, *message;
        mica_status code;
    } rows[] = {
        {"\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAA\"},",
         "precompiled_charsmap has 3 bytes", MICA_E_FORMAT},
        {"\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"/wAAAAAA\"},",
         "table of 255 bytes", MICA_E_FORMAT},
        {"\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"A!AA\"},", "base64",
         MICA_E_FORMAT},
        {"\"normalizer\":{\"type\":\"Sequence\"},", "normalizers", MICA_E_FORMAT},
        {"\"normalizer\":{\"type\":\"Prepend\"},", "\"prepend\"", MICA_E_FORMAT},
        {"\"pre_tokenizer\":{\"type\":\"Scripts\"},", "\"Scripts\"", MICA_E_UNSUPPORTED},
        {"\"pre_tokenizer\":{\"type\":\"Split\"},", "pattern", MICA_E_FORMAT},
        {"\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"x\"},\"behavior\":"
         "\"Cut\"},",
         "\"Cut\"", MICA_E_UNSUPPORTED},
        {"\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a)\"},\"behavior\":"
         "\"Removed\"},",
         "a)", MICA_E_UNSUPPORTED},
        {"\"pre_tokenizer\":{\"type\":\"Metaspace\",\"prepend_scheme\":\"odd\"},", "odd",
         MICA_E_UNSUPPORTED},
        {"\"post_processor\":{\"type\":\"Odd\"},", "\"Odd\"", MICA_E_UNSUPPORTED},
        {"\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"x\",99],\"sep\":[\"y\",0]},",
         "\"cls\"", MICA_E_FORMAT},
        {"\"decoder\":{\"type\":\"CTC\",\"pad_token\":\"\"},", "CTC with an empty",
         MICA_E_UNSUPPORTED},
        {"\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"CTC\"},"
         "{\"type\":\"WordPiece\"}]},",
         "\"WordPiece\" is not supported behind CTC", MICA_E_UNSUPPORTED},
        {"\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":"
         "\"Replace\"}]},",
         "\"Replace\"", MICA_E_UNSUPPORTED},
        {"\"added_tokens\":[{\"id\":3}],", "content", MICA_E_FORMAT},
        {"\"added_tokens\":[{\"id\":99999999,\"content\":\"x\"}],", "99999999", MICA_E_LIMIT},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tokenizer *t = NULL;
        mica_error err = {0};
        mica_status st = parse_parts(&t, rows[i].parts, NULL, &err);
        expect_error(st, &err, rows[i].code, rows[i].message);
        assert_non_null(strstr(err.message, "test.json"));
    }
}

static void test_refused_files(void **state) {
    (void)state;
    static const struct {
        const char *json, *message;
        mica_status code;
    } rows[] = {
        {"", "end of the text", MICA_E_FORMAT},
        {"[]", "object", MICA_E_FORMAT},
        {"{}", "model", MICA_E_FORMAT},
        {"{\"version\":\"2.0\"}", "version", MICA_E_UNSUPPORTED},
        {"{\"model\":{\"type\":\"Word\",\"vocab\":{}}}", "\"Word\"", MICA_E_UNSUPPORTED},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":[[\"a\",0.0]]}}", "\"BPE\" is no object",
         MICA_E_FORMAT},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":{\"a\":0}}}", "is no list", MICA_E_FORMAT},
        {"{\"model\":{\"vocab\":[[\"a\",0.0]],\"unk_id\":1}}", "\"unk_id\"", MICA_E_FORMAT},
        {"{\"model\":{\"vocab\":[[\"a\",\"b\"]]}}", "score", MICA_E_FORMAT},
        {"{\"model\":{\"vocab\":[[\"a\",1,2]]}}", "no pair", MICA_E_FORMAT},
        {"{\"model\":{\"vocab\":[\"a\"]}}", "no pair", MICA_E_FORMAT},
        {"{\"model\":{\"vocab\":{\"a\":0}}}", "merges", MICA_E_FORMAT},
        {"{\"model\":{\"vocab\":{},\"merges\":[]}}", "empty", MICA_E_FORMAT},
        {"{\"model\":{\"vocab\":{\"a\":-1},\"merges\":[]}}", "whole number", MICA_E_FORMAT},
        {"{\"model\":{\"vocab\":{\"a\":1.5},\"merges\":[]}}", "whole number", MICA_E_FORMAT},
        {"{\"model\":{\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}", "two texts", MICA_E_FORMAT},
        {"{\"model\":{\"vocab\":{\"a\":4194304},\"merges\":[]}}", "limit", MICA_E_LIMIT},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a a\"]}}", "not in", MICA_E_FORMAT},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a\"]}}", "two parts", MICA_E_FORMAT},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a  a\"]}}", "two parts", MICA_E_FORMAT},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[[\"a\"]]}}", "pair", MICA_E_FORMAT},
        {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[1]}}", "pair", MICA_E_FORMAT},
        {"{\"model\":" MODEL "} x", "end of the text", MICA_E_FORMAT},
        {"{\"model\":" MODEL ",\"normalizer\":{\"type\":\"NFC\"}", "JSON", MICA_E_FORMAT},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tokenizer *t = NULL;
        mica_error err = {0};
        mica_status st = parse(&t, rows[i].json, NULL, &err);
        expect_error(st, &err, rows[i].code, rows[i].message);
    }
}

/* Merges may stand before the vocabulary, and an unknown token that is missing is an error only
 * when it is needed. */
static void test_odd_but_valid(void **state) {
    (void)state;
    tokenizer *t = NULL;
    mica_error err = {0};
    token_list ids = {0};
    static const char json[] = "{\"model\":{\"merges\":[[\"a\",\"b\"]],\"unk_token\":\"<u>\","
                               "\"vocab\":{\"b\":0,\"ab\":7,\"a\":3}}}";
    if (parse(&t, json, NULL, &err)) fail_msg("%s", err.message);
    check_encode(t, "abb", false, 2, 7, 0);
    mica_status st = mica_tokenizer_encode(t, "abx", 3, (encode_options){0}, &ids, &err);
    expect_error(st, &err, MICA_E_FORMAT, "<u>");
    assert_int_equal(ids.n, 0);
    mica_free(ids.ids);
    mica_tokenizer_free(t);
}

/* What Oniguruma and PCRE2 read differently and the rewriter does not cover. */
static void test_refused_regexes(void **state) {
    (void)state;
    static const char *const patterns[] = {"(?i:ss)",
                                           "(?i)a(?-i:b)fi",
                                           "\\p{L",
                                           "\\pL",
                                           "\\x80",
                                           "\\u12",
                                           "\\G",
                                           "\\R",
                                           "\\X",
                                           "\\K",
                                           "(a)\\1",
                                           "\\k<a>",
                                           "(?x: a)",
                                           "a**",
                                           "*",
                                           "+a",
                                           "a{2}?",
                                           "a{2000}",
                                           "[^\\W\\H]",
                                           "[a[^b]]",
                                           "[^a&&b]",
                                           "[a",
                                           "[a&&",
                                           "(a",
                                           "a)",
                                           "(?<=a+)b",
                                           "(?<n",
                                           "[[:odd:]]",
                                           "\\p{Odd}",
                                           "\\q",
                                           "(?#",
                                           "\\",
                                           "(?i)\\p{Lu}",
                                           "[\\d-\\w-a-\\d]",
                                           "(?i:\xC3\x9F)",
                                           "\\x{110000}",
                                           "\\x{d800}",
                                           "(?P<a>b)",
                                           "(?~a)",
                                           "\\p{In_Basic_Latin}"};
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
        regex *re = NULL;
        mica_error err = {0};
        mica_status st = mica_regex_compile(&re, patterns[i], strlen(patterns[i]), "file", &err);
        if (!st) {
            mica_regex_free(re);
            fail_msg("accepted: %s", patterns[i]);
        }
        expect_error(st, &err, MICA_E_UNSUPPORTED, "file: the regex");
    }
}

/* A match that explodes is an error and not a wrong piece. */
static void test_regex_limit(void **state) {
    (void)state;
    tokenizer *t = must_parse("\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":"
                              "\"(a+)+(?=x)(?!x)\"},\"behavior\":\"Isolated\"},",
                              NULL);
    token_list ids = {0};
    mica_error err = {0};
    static char text[200];
    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 2] = 'x';
    mica_status st =
        mica_tokenizer_encode(t, text, sizeof(text) - 1, (encode_options){0}, &ids, &err);
    expect_error(st, &err, MICA_E_LIMIT, "regex");
    assert_int_equal(ids.n, 0);
    mica_free(ids.ids);
    mica_tokenizer_free(t);
}

/* Steps that multiply the text by ten each; and one alone that multiplies it by much. */
static void test_growth_limit(void **state) {
    (void)state;
    static const char ten[] = "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":"
                              "\"aaaaaaaaaa\"}";
    static char files[2][1024], text[1 << 16];
    snprintf(files[0], sizeof(files[0]),
             "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[%s,%s,%s,%s]},", ten, ten, ten,
             ten);
    char *end = files[1] + snprintf(files[1], sizeof(files[1]),
                                    "\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":"
                                    "\"a\"},\"content\":\"");
    memset(end, 'b', 500);
    memcpy(end + 500, "\"},", 4);
    memset(text, 'a', sizeof(text));
    for (int i = 0; i < 2; i++) {
        tokenizer *t = must_parse(files[i], NULL);
        token_list ids = {0};
        mica_error err = {0};
        mica_status st =
            mica_tokenizer_encode(t, text, sizeof(text), (encode_options){0}, &ids, &err);
        expect_error(st, &err, MICA_E_LIMIT, "normalizer");
        assert_int_equal(mica_tokenizer_encode(t, text, 8, (encode_options){0}, &ids, &err),
                         MICA_OK);
        mica_free(ids.ids);
        mica_tokenizer_free(t);
    }
}

/* ---- folders ---- */

static void write_file(const char *folder, const char *name, const char *text) {
    char *path = mica_path_join(folder, name);
    mica_error err = {0};
    if (mica_file_write(path, text, strlen(text), &err)) fail_msg("%s", err.message);
    mica_free(path);
}

static void remove_file(const char *folder, const char *name) {
    char *path = mica_path_join(folder, name);
    unlink(path);
    mica_free(path);
}

static void test_folder(void **state) {
    (void)state;
    char folder[] = "tokenizer-XXXXXX";
    tokenizer *t = NULL;
    mica_error err = {0};
    assert_non_null(mkdtemp(folder));
    expect_error(mica_tokenizer_open(&t, folder, &err), &err, MICA_E_NOT_FOUND,
                 "tokenizer.json, tokenizer.model, tiktoken.model, tekken.json, vocab.json with");
    write_file(folder, "tokenizer.model", "x");
    expect_error(mica_tokenizer_open(&t, folder, &err), &err, MICA_E_FORMAT, "tokenizer.model");
    write_file(folder, "tokenizer.json", "{\"version\":\"1.0\",\"model\":" MODEL "}");
    write_file(folder, "tokenizer_config.json", "{\"bos_token\":\"<e>\"}");
    if (mica_tokenizer_open(&t, folder, &err)) fail_msg("%s", err.message);
    check_encode(t, "ab", true, 1, 3);
    mica_tokenizer_free(t);
    /* Gemma needs its bos also where the file does not add it. */
    write_file(folder, "config.json", "{\"model_type\":\"gemma9_text\"}");
    if (mica_tokenizer_open(&t, folder, &err)) fail_msg("%s", err.message);
    check_encode(t, "ab", true, 2, 4, 3);
    mica_tokenizer_free(t);
    write_file(folder, "tokenizer_config.json", "{");
    t = NULL;
    expect_error(mica_tokenizer_open(&t, folder, &err), &err, MICA_E_FORMAT,
                 "tokenizer_config.json");
    static const char *const names[] = {"tokenizer.model", "tokenizer.json",
                                        "tokenizer_config.json", "config.json"};
    for (int i = 0; i < 4; i++) {
        remove_file(folder, names[i]);
    }
    rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_special_tokens),  cmocka_unit_test(test_id_conflicts),
        cmocka_unit_test(test_one_bos),         cmocka_unit_test(test_refused_parts),
        cmocka_unit_test(test_refused_files),   cmocka_unit_test(test_odd_but_valid),
        cmocka_unit_test(test_refused_regexes), cmocka_unit_test(test_regex_limit),
        cmocka_unit_test(test_growth_limit),    cmocka_unit_test(test_folder)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
