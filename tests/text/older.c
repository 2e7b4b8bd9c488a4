/* older.c: folders without tokenizer.json: vocab.json with merges.txt, lists of ranks, tekken.json,
 * vocab.txt.
 */
#include "cmocka_base.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "text/tokenizer.h"

static char folder[32];
static const char *written[16];
static int n_written;

static int begin(void **state) {
    (void)state;
    strcpy(folder, "older-XXXXXX");
    n_written = 0;
    return mkdtemp(folder) == NULL;
}

static int end(void **state) {
    (void)state;
    for (int i = 0; i < n_written; i++) {
        char *path = mica_path_join(folder, written[i]);
        unlink(path);
        mica_free(path);
    }
    return rmdir(folder);
}

static void write_file(const char *name, const char *text) {
    char *path = mica_path_join(folder, name);
    mica_error err = {0};
    if (mica_file_write(path, text, strlen(text), &err)) fail_msg("%s", err.message);
    written[n_written++] = name;
    mica_free(path);
}

static tokenizer *must_open(void) {
    tokenizer *t = NULL;
    mica_error err = {0};
    if (mica_tokenizer_open(&t, folder, &err)) fail_msg("%s", err.message);
    return t;
}

static void must_fail(mica_status code, const char *part) {
    tokenizer *t = NULL;
    mica_error err = {0};
    mica_status st = mica_tokenizer_open(&t, folder, &err);
    if (st != code || !strstr(err.message, part)) fail_msg("status %d, \"%s\"", st, err.message);
}

static void check(const tokenizer *t, const char *text, bool add_special, size_t n, ...) {
    token_list ids = {0};
    mica_error err = {0};
    const encode_options options = {.add_special = add_special, .parse_special = true};
    assert_int_equal(mica_tokenizer_encode(t, text, strlen(text), options, &ids, &err), MICA_OK);
    va_list list;
    va_start(list, n);
    bool is_same = ids.n == n;
    for (size_t i = 0; i < n && is_same; i++) {
        is_same = ids.ids[i] == va_arg(list, int);
    }
    va_end(list);
    if (!is_same) {
        for (size_t i = 0; i < ids.n; i++) {
            print_error("%d ", ids.ids[i]);
        }
        fail_msg("\"%s\" has these ids", text);
    }
    char *out;
    size_t n_out;
    assert_int_equal(mica_tokenizer_decode(t, ids.ids, ids.n, true, &out, &n_out, &err), MICA_OK);
    if (!add_special && !strchr(text, '<')) assert_string_equal(out, text);
    mica_free(out);
    mica_free(ids.ids);
}

#define VOCAB                                             \
    "{\"a\":0,\"b\":1,\"ab\":2,\"\xC4\xA0\":3,\"\xC4\xA0" \
    "a\":4,\"1\":5,\"<s>\":6,\"</s>\":7,\"11\":8,\"\xC3\x83\":9,\"\xC2\xA9\":10}"
#define MERGES "#version: 0.2\na b\r\n\xC4\xA0 a\n1 1\n"
#define ENDS "\"bos_token\":\"<s>\",\"eos_token\":{\"content\":\"</s>\"}"

static void test_merges(void **state) {
    (void)state;
    write_file("vocab.json", VOCAB);
    must_fail(MICA_E_UNSUPPORTED, "does not say how text is cut");
    write_file("config.json", "{\"model_type\":\"gpt2\"}");
    must_fail(MICA_E_NOT_FOUND, "merges.txt");
    write_file("merges.txt", MERGES);
    tokenizer *t = must_open();
    check(t, "ab aab 11", false, 5, 2, 4, 2, 3, 8);
    mica_tokenizer_free(t);
}

static void test_merges_of_kinds(void **state) {
    (void)state;
    write_file("vocab.json", VOCAB);
    write_file("merges.txt", MERGES);
    write_file("tokenizer_config.json", "{\"tokenizer_class\":\"RobertaTokenizerFast\"," ENDS "}");
    tokenizer *t = must_open();
    check(t, "a<s>11", false, 3, 0, 6, 8);
    check(t, "ab", true, 3, 6, 2, 7);
    mica_tokenizer_free(t);
    /* Qwen's pattern takes digits one by one, and e + U+0301 becomes one character. */
    write_file("tokenizer_config.json", "{\"tokenizer_class\":\"Qwen2Tokenizer\"," ENDS "}");
    t = must_open();
    check(t, "ab11", true, 3, 2, 5, 5);
    check(t, "e\xCC\x81<s>", false, 3, 9, 10, 6);
    mica_tokenizer_free(t);
    write_file("tokenizer_config.json",
               "{\"tokenizer_class\":\"GPT2Tokenizer\","
               "\"add_prefix_space\":true,\"add_bos_token\":true," ENDS "}");
    t = must_open();
    check(t, "ab", true, 3, 6, 3, 2);
    mica_tokenizer_free(t);
    write_file("tokenizer_config.json", "{\"tokenizer_class\":\"OddTokenizer\"}");
    must_fail(MICA_E_UNSUPPORTED, "OddTokenizer");
}

/* "a", "b", "ab", " ", " a", "ba", "1", "11", "babb" (which merging does not make). */
#define RANKS "YQ== 0\nYg== 1\nYWI= 2\nIA== 3\r\nIGE= 4\nYmE= 5\nMQ== 6\nMTE= 7\nYmFiYg== 9\n"

static void test_ranks(void **state) {
    (void)state;
    write_file("qwen.tiktoken", RANKS);
    write_file("tokenizer_config.json", "{\"eos_token\":\"<e>\",\"added_tokens_decoder\":"
                                        "{\"8\":{\"content\":\"<e>\",\"special\":true}}}");
    tokenizer *t = must_open();
    check(t, "ab a11", false, 4, 2, 4, 6, 6);
    check(t, "aba babb babba<e>", false, 11, 2, 0, 3, 1, 2, 1, 3, 1, 2, 5, 8);
    check(t, "babb", false, 1, 9);
    assert_int_equal(mica_tokenizer_eos(t), 8);
    mica_tokenizer_free(t);
    write_file("qwen.tiktoken", RANKS "a");
    must_fail(MICA_E_FORMAT, "line 10");
    write_file("qwen.tiktoken", RANKS "YQ== 1\n");
    must_fail(MICA_E_FORMAT, "two texts");
    write_file("qwen.tiktoken", RANKS "Y!== 12\n");
    must_fail(MICA_E_FORMAT, "base64");
}

static void test_ranks_in_model(void **state) {
    (void)state;
    write_file("tokenizer.model", RANKS);
    must_fail(MICA_E_UNSUPPORTED, "does not say how text is cut");
    write_file("config.json", "{\"model_type\":\"llama\"}");
    tokenizer *t = must_open();
    check(t, "ab a11", false, 3, 2, 4, 7);
    mica_tokenizer_free(t);
}

/* A list of Llama 3's length. */
static void test_specials(void **state) {
    (void)state;
    static char ranks[128000 * 16];
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t n = 0;
    for (unsigned i = 0; i < 128000; i++) { /* three bytes each, all different */
        n += (size_t)sprintf(ranks + n, "%c%c%c%c %u\n", letters[i >> 18], letters[i >> 12 & 63],
                             letters[i >> 6 & 63], letters[i & 63], i);
    }
    write_file("tokenizer.model", ranks);
    must_fail(MICA_E_UNSUPPORTED, "does not say how text is cut");
    write_file("config.json", "{\"model_type\":\"llama\"}");
    tokenizer *t = must_open();
    check(t, "<|begin_of_text|><|end_of_text|><|eot_id|>", false, 3, 128000, 128001, 128009);
    check(t, "<|reserved_special_token_1|><|reserved_special_token_2|>", false, 2, 128003, 128012);
    check(t, "<|reserved_special_token_245|>", true, 2, 128000, 128255);
    assert_int_equal(mica_tokenizer_vocab_size(t), 128256);
    assert_int_equal(mica_tokenizer_bos(t), 128000);
    size_t n_ends;
    mica_tokenizer_end_ids(t, &n_ends);
    assert_int_equal(n_ends, 3);
    mica_tokenizer_free(t);
    /* Tokens of a config count, and then only those. */
    write_file("tokenizer_config.json",
               "{\"added_tokens_decoder\":{\"128000\":{\"content\":\"<e>\",\"special\":true}}}");
    t = must_open();
    check(t, "<e>", false, 1, 128000);
    assert_int_equal(mica_tokenizer_vocab_size(t), 128001);
    mica_tokenizer_free(t);
}

/* "a" to "ab" are ranks 0 to 2, " " is 3; one rank more than counts. */
#define TEKKEN_VOCAB                                                               \
    "[{\"rank\":0,\"token_bytes\":\"YQ==\",\"token_str\":\"a\"},"                  \
    "{\"rank\":1,\"token_str\":null,\"token_bytes\":\"Yg==\"},"                    \
    "{\"token_bytes\":\"YWI=\",\"rank\":2},{\"rank\":3,\"token_bytes\":\"IA==\"}," \
    "{\"rank\":4,\"token_bytes\":\"YmI=\"}]"
#define TEKKEN(n_special, size)                                                                \
    "{\"vocab\":" TEKKEN_VOCAB ",\"config\":{\"pattern\":\"\\\\s|\\\\S+\",\"version\":\"v3\"," \
    "\"default_num_special_tokens\":" n_special ",\"default_vocab_size\":" size "}"

static void test_tekken(void **state) {
    (void)state;
    write_file("tekken.json", TEKKEN("22", "26") "}");
    tokenizer *t = must_open();
    check(t, "ab bba", true, 6, 1, 24, 25, 23, 23, 22);
    check(t, "ab<s>a[INST]<SPECIAL_21>", false, 5, 24, 1, 22, 3, 21);
    check(t, "ab ba", false, 4, 24, 25, 23, 22);
    assert_int_equal(mica_tokenizer_eos(t), 2);
    mica_tokenizer_free(t);
    write_file("tekken.json",
               TEKKEN("3", "7") ",\"special_tokens\":[{\"rank\":1,\"token_str\":\"<s>"
                                "\"},{\"rank\":2,\"token_str\":\"[X]\","
                                "\"is_control\":false}]}");
    t = must_open();
    check(t, "a<SPECIAL_0>[X]", true, 4, 1, 3, 0, 2);
    assert_false(mica_tokenizer_is_special(t, 2));
    assert_int_equal(mica_tokenizer_eos(t), -1);
    mica_tokenizer_free(t);
    write_file("tekken.json", TEKKEN("3", "7") "}");
    must_fail(MICA_E_FORMAT, "default_num_special_tokens");
    write_file("tekken.json", TEKKEN("22", "22") "}");
    must_fail(MICA_E_FORMAT, "default_vocab_size");
    write_file("tekken.json", "{\"vocab\":[1],\"config\":{\"pattern\":\"a\",\"default_num_special_"
                              "tokens\":20,\"default_vocab_size\":30}}");
    must_fail(MICA_E_FORMAT, "no objects");
}

static void test_words(void **state) {
    (void)state;
    write_file("vocab.txt", "[PAD]\r\n[UNK]\n[CLS]\n[SEP]\nab\n##c\n\xC3\xA9\ne\nA\n,");
    must_fail(MICA_E_UNSUPPORTED, "vocab.txt");
    write_file("config.json", "{\"model_type\":\"bert\"}");
    tokenizer *t = must_open();
    check(t, "ABc, \xC3\xA9<x[SEP]", true, 9, 2, 4, 5, 9, 7, 1, 1, 3, 3);
    mica_tokenizer_free(t);
    write_file("tokenizer_config.json",
               "{\"tokenizer_class\":\"BertTokenizer\",\"do_lower_case\":false,"
               "\"cls_token\":\"ab\",\"sep_token\":{\"content\":\"e\"}}");
    t = must_open();
    check(t, "A \xC3\xA9<", true, 5, 4, 8, 6, 1, 7);
    mica_tokenizer_free(t);
    write_file("tokenizer_config.json", "{\"tokenizer_class\":\"BertJapaneseTokenizer\"}");
    must_fail(MICA_E_UNSUPPORTED, "BertJapaneseTokenizer");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_merges, begin, end),
        cmocka_unit_test_setup_teardown(test_merges_of_kinds, begin, end),
        cmocka_unit_test_setup_teardown(test_ranks, begin, end),
        cmocka_unit_test_setup_teardown(test_ranks_in_model, begin, end),
        cmocka_unit_test_setup_teardown(test_specials, begin, end),
        cmocka_unit_test_setup_teardown(test_tekken, begin, end),
        cmocka_unit_test_setup_teardown(test_words, begin, end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
