/* gguf.c: vocabularies of GGUF files, worked out by hand: merging by score, bytes, unknown and
 * unused pieces, token types, special tokens, what ends a generation, and what is refused.
 */
#include "cmocka_base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf_bytes.h"
#include "text/tokenizer.h"

typedef struct entry {
    const char *text;
    float score;
    int32_t type;
} entry;

static void add_entries(gguf_bytes *g, const entry *e, size_t n, bool has_scores) {
    gguf_begin_array(g, "tokenizer.ggml.tokens", GGUF_VALUE_STRING, n);
    for (size_t i = 0; i < n; i++) {
        gguf_put_text(g, e[i].text, strlen(e[i].text));
    }
    gguf_begin_array(g, "tokenizer.ggml.token_type", GGUF_VALUE_I32, n);
    for (size_t i = 0; i < n; i++) {
        gguf_put(g, &e[i].type, 4);
    }
    if (!has_scores) return;
    gguf_begin_array(g, "tokenizer.ggml.scores", GGUF_VALUE_F32, n);
    for (size_t i = 0; i < n; i++) {
        gguf_put(g, &e[i].score, 4);
    }
}

static void add_merges(gguf_bytes *g, const char *const *merges, size_t n) {
    gguf_begin_array(g, "tokenizer.ggml.merges", GGUF_VALUE_STRING, n);
    for (size_t i = 0; i < n; i++) {
        gguf_put_text(g, merges[i], strlen(merges[i]));
    }
}

/* Ends and opens; frees the bytes. */
static mica_status open_bytes(gguf_bytes *g, tokenizer **out, mica_error *err) {
    gguf_file *file = NULL;
    gguf_end(g);
    mica_status st = mica_gguf_parse(&file, g->data, g->n, "test.gguf", err);
    if (!st) st = mica_tokenizer_open_gguf(out, file, err);
    mica_gguf_close(file);
    free(g->data);
    return st;
}

static tokenizer *must_open(gguf_bytes *g) {
    tokenizer *t = NULL;
    mica_error err = {0};
    if (open_bytes(g, &t, &err)) fail_msg("%s", err.message);
    return t;
}

static void check_encode(const tokenizer *t, const char *text, encode_options options,
                         const int32_t *ids, size_t n) {
    token_list got = {0};
    mica_error err = {0};
    if (mica_tokenizer_encode(t, text, strlen(text), options, &got, &err)) {
        fail_msg("%s", err.message);
    }
    if (got.n != n) print_error("\"%s\": %zu ids, expected %zu\n", text, got.n, n);
    assert_int_equal(got.n, n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(got.ids[i], ids[i]);
    }
    mica_free(got.ids);
}

static void check_decode(const tokenizer *t, const int32_t *ids, size_t n, bool skip,
                         const char *expected) {
    char *text;
    size_t n_text;
    mica_error err = {0};
    if (mica_tokenizer_decode(t, ids, n, skip, &text, &n_text, &err)) fail_msg("%s", err.message);
    assert_string_equal(text, expected);
    assert_int_equal(n_text, strlen(expected));
    mica_free(text);
}

#define PLAIN ((encode_options){.parse_special = true})
#define IDS(...) ((const int32_t[]){__VA_ARGS__}), sizeof((const int32_t[]){__VA_ARGS__}) / 4

static const entry spm_entries[] = {
    {"<unk>", 0, 2},         /* 0 */
    {"<s>", 0, 3},           /* 1 */
    {"</s>", 0, 3},          /* 2 */
    {"<0xC3>", 0, 6},        /* 3 */
    {"<0xA9>", 0, 6},        /* 4 */
    {"\xE2\x96\x81", -9, 1}, /* 5 */
    {"a", -8, 1},            /* 6 */
    {"b", -8, 1},            /* 7 */
    {"c", -8, 1},            /* 8 */
    {"ab", -3, 1},           /* 9 */
    {"bc", -2, 1},           /* 10 */
    {"\xE2\x96\x81"
     "a",
     -4, 1},        /* 11 */
    {"abc", -5, 1}, /* 12 */
    {"cc", -1, 5},  /* 13: unused */
    {"ccc", -6, 1}, /* 14 */
    {"<x>", 0, 4},  /* 15: user-defined */
    {"aa", -3, 1},  /* 16: as good as ab */
};

static void begin_spm(gguf_bytes *g) {
    gguf_begin(g);
    gguf_add_string(g, "tokenizer.ggml.model", "llama");
    add_entries(g, spm_entries, sizeof(spm_entries) / sizeof(spm_entries[0]), true);
}

static void test_spm(void **state) {
    (void)state;
    gguf_bytes g;
    begin_spm(&g);
    tokenizer *t = must_open(&g);
    /* The space before the text: "▁a" (-4) loses to "bc" (-2), "ab" (-3); then "▁"+"a" is left. */
    check_encode(t, "a", PLAIN, IDS(11));
    check_encode(t, "abc", PLAIN, IDS(11, 10)); /* bc first, then ▁a */
    check_encode(t, "bab", PLAIN, IDS(5, 7, 9));
    check_encode(t, "baab", PLAIN, IDS(5, 7, 16, 7)); /* a tie goes to the left */
    check_encode(t, "\xC3\xA9", PLAIN, IDS(5, 3, 4)); /* bytes */
    check_encode(t, "zzb", PLAIN, IDS(5, 0, 7));      /* unknown ones are one */
    /* "cc" is unused: it is made, and goes on to "ccc", or falls back into its parts. */
    check_encode(t, "cc", PLAIN, IDS(5, 8, 8));
    check_encode(t, "ccc", PLAIN, IDS(5, 14));
    check_encode(t, "<x>a", PLAIN, IDS(15, 11)); /* the space again after the token */
    check_encode(t, "<x>a", (encode_options){0}, IDS(15, 11));
    check_encode(t, "<s>a", PLAIN, IDS(1, 11));
    check_encode(t, "<s>", (encode_options){0}, IDS(5, 0)); /* text: all unknown */
    check_encode(t, "a", (encode_options){.add_special = true}, IDS(1, 11));
    check_encode(t, "<s>a", (encode_options){.add_special = true, .parse_special = true},
                 IDS(1, 11)); /* no second one */
    check_encode(t, "", (encode_options){.add_special = true, .parse_special = true}, IDS(1));
    check_encode(t, "\xFF", PLAIN, IDS(5, 0)); /* U+FFFD */
    check_decode(t, IDS(11, 10), false, "abc");
    check_decode(t, IDS(1, 11, 2), false, "<s> a</s>");
    check_decode(t, IDS(1, 11, 2), true, "a");
    check_decode(t, IDS(5, 3, 4, 5, 3), false, "\xC3\xA9 \xEF\xBF\xBD");
    check_decode(t, IDS(99, -1, 6), false, "a");
    assert_int_equal(mica_tokenizer_bos(t), 1);
    assert_int_equal(mica_tokenizer_eos(t), 2);
    assert_true(mica_tokenizer_adds_bos(t));
    assert_true(mica_tokenizer_is_special(t, 1));
    assert_false(mica_tokenizer_is_special(t, 15));
    assert_int_equal(mica_tokenizer_find(t, "abc", 3), 12);
    assert_int_equal(mica_tokenizer_find(t, "zzz", 3), -1);
    assert_int_equal(mica_tokenizer_vocab_size(t), 17);
    mica_tokenizer_free(t);
}

static void test_spm_switches(void **state) {
    (void)state;
    gguf_bytes g;
    begin_spm(&g);
    gguf_add_bool(&g, "tokenizer.ggml.add_space_prefix", false);
    gguf_add_bool(&g, "tokenizer.ggml.add_bos_token", false);
    gguf_add_bool(&g, "tokenizer.ggml.add_eos_token", true);
    tokenizer *t = must_open(&g);
    check_encode(t, "a a", (encode_options){.add_special = true, .parse_special = true},
                 IDS(6, 11, 2));
    check_decode(t, IDS(11, 6), false, " aa");
    assert_false(mica_tokenizer_adds_bos(t));
    mica_tokenizer_free(t);
}

static void test_phi3_takes_space(void **state) {
    (void)state;
    static const entry e[] = {{"<unk>", 0, 2},    {"<s>", 0, 3},          {"</s>", 0, 1},
                              {"<|user|>", 0, 3}, {"\xE2\x96\x81", 0, 1}, {"a", 0, 1}};
    gguf_bytes g;
    gguf_begin(&g);
    gguf_add_string(&g, "tokenizer.ggml.model", "llama");
    gguf_add_string(&g, "general.name", "Phi-3-mini");
    gguf_add_bool(&g, "tokenizer.ggml.add_space_prefix", false);
    add_entries(&g, e, 6, true);
    tokenizer *t = must_open(&g);
    check_encode(t, "<|user|> \na", PLAIN, IDS(3, 5));
    check_encode(t, "<s> a", PLAIN, IDS(1, 4, 5));
    mica_tokenizer_free(t);
}

/* ---- byte-level ---- */

static const entry bpe_entries[] = {{"a", 0, 1},   {"b", 0, 1},        {"c", 0, 1},
                                    {"abc", 0, 1}, {"\xC4\xA0", 0, 1}, {"<|im_end|>", 0, 4},
                                    {"<e>", 0, 3}};

static void begin_bpe(gguf_bytes *g, const char *pre) {
    gguf_begin(g);
    gguf_add_string(g, "tokenizer.ggml.model", "gpt2");
    if (pre) gguf_add_string(g, "tokenizer.ggml.pre", pre);
    add_entries(g, bpe_entries, 7, false);
}

static void test_hidden_merges(void **state) {
    (void)state;
    static const char *const merges[] = {"a b", "ab c", "b c"};
    gguf_bytes g;
    begin_bpe(&g, "gpt-2");
    gguf_add_u32(&g, "tokenizer.ggml.eos_token_id", 6);
    add_merges(&g, merges, 3);
    tokenizer *t = must_open(&g);
    check_encode(t, "abc", PLAIN, IDS(3));
    check_encode(t, "ab", PLAIN, IDS(0, 1)); /* "ab" is no token: it falls apart */
    check_encode(t, "bca", PLAIN, IDS(1, 2, 0));
    check_encode(t,
                 "a\x01"
                 "b",
                 PLAIN, IDS(0, 1)); /* a byte without a letter vanishes */
    check_encode(t, "a<e>", PLAIN, IDS(0, 6));
    assert_int_equal(mica_tokenizer_vocab_size(t), 7);
    assert_int_equal(mica_tokenizer_find(t, "ab", 2), -1);
    assert_null(mica_tokenizer_token(t, 7, &(size_t){0}));
    check_decode(t, IDS(0, 4, 1, 7), false, "a b");
    /* eos, and a token that ends chats although its type does not say so. */
    size_t n;
    const int32_t *ends = mica_tokenizer_end_ids(t, &n);
    assert_int_equal(n, 2);
    assert_int_equal(ends[0], 6);
    assert_int_equal(ends[1], 5);
    assert_true(mica_tokenizer_is_special(t, 5));
    assert_string_equal(mica_tokenizer_warnings(t), "");
    mica_tokenizer_free(t);
}

static void expect_error(gguf_bytes *g, mica_status code, const char *part) {
    tokenizer *t = NULL;
    mica_error err = {0};
    assert_int_equal(open_bytes(g, &t, &err), code);
    if (!strstr(err.message, part)) fail_msg("\"%s\" lacks \"%s\"", err.message, part);
    assert_non_null(strstr(err.message, "test.gguf"));
}

static void test_bert(void **state) {
    (void)state;
    gguf_bytes g;
    static const entry e[] = {{"[UNK]", 0, 3},
                              {"[CLS]", 0, 3},
                              {"[SEP]", 0, 3},
                              {"\xE2\x96\x81"
                               "a",
                               0, 1},
                              {"b", 0, 1},
                              {"\xE2\x96\x81"
                               "ab",
                               0, 1},
                              {"\xE2\x96\x81"
                               "!",
                               0, 1},
                              {"c", 0, 1}};
    gguf_begin(&g);
    gguf_add_string(&g, "tokenizer.ggml.model", "bert");
    gguf_add_u32(&g, "tokenizer.ggml.cls_token_id", 1);
    gguf_add_u32(&g, "tokenizer.ggml.seperator_token_id", 2);
    gguf_add_u32(&g, "tokenizer.ggml.unknown_token_id", 0);
    add_entries(&g, e, sizeof(e) / sizeof(e[0]), false);
    tokenizer *t = must_open(&g);
    check_encode(t,
                 "A\xC3\x82"
                 "bBC!  b abx abc",
                 PLAIN, IDS(0, 6, 0, 0, 5, 7));
    check_encode(t,
                 "AB\xCC\x82"
                 "C[SEP]",
                 PLAIN, IDS(5, 7, 2));
    check_encode(t, "ab", (encode_options){.add_special = true, .parse_special = true},
                 IDS(1, 5, 2));
    check_decode(t, IDS(1, 5, 7, 6, 2), true, "abc !");
    check_decode(t, IDS(5, 2), false, "ab[SEP]");
    mica_tokenizer_free(t);
}

static void test_t5(void **state) {
    (void)state;
    gguf_bytes g;
    static const entry e[] = {{"<pad>", 0, 3},
                              {"</s>", 0, 3},
                              {"<unk>", 0, 2},
                              {"\xE2\x96\x81", -2, 1},
                              {"\xE2\x96\x81"
                               "a",
                               -3, 1},
                              {"a", -2, 1},
                              {"b", -2, 1},
                              {"ab", -3.5, 1},
                              {"bb", -1, 5}, /* unused */
                              {"<x>", 0, 4}};
    for (int collapses = 0; collapses < 2; collapses++) {
        gguf_begin(&g);
        gguf_add_string(&g, "tokenizer.ggml.model", "t5");
        gguf_add_bool(&g, "tokenizer.ggml.add_space_prefix", true);
        gguf_add_bool(&g, "tokenizer.ggml.remove_extra_whitespaces", collapses);
        add_entries(&g, e, sizeof(e) / sizeof(e[0]), true);
        tokenizer *t = must_open(&g);
        check_encode(t, "ab", (encode_options){.add_special = true, .parse_special = true},
                     IDS(4, 6, 1));
        check_encode(t, "bb a", PLAIN, IDS(3, 6, 6, 4));
        check_encode(t, "axyb<x>b", PLAIN, IDS(4, 2, 6, 9, 3, 6));
        if (collapses) check_encode(t, " a  b ", PLAIN, IDS(4, 3, 6));
        if (!collapses) check_encode(t, " a  b ", PLAIN, IDS(3, 4, 3, 3, 6, 3));
        check_decode(t, IDS(4, 3, 6, 1), true, "a b");
        mica_tokenizer_free(t);
    }
    gguf_begin(&g);
    gguf_add_string(&g, "tokenizer.ggml.model", "t5");
    add_entries(&g, e, sizeof(e) / sizeof(e[0]), true);
    gguf_begin_array(&g, "tokenizer.ggml.precompiled_charsmap", GGUF_VALUE_U8, 5);
    gguf_put(&g, "\4\0\0\0\0", 5);
    expect_error(&g, MICA_E_FORMAT, "precompiled_charsmap has 5 bytes");
}

static bool is_end(const tokenizer *t, int32_t id) {
    size_t n;
    const int32_t *ends = mica_tokenizer_end_ids(t, &n);
    for (size_t i = 0; i < n; i++) {
        if (ends[i] == id) return true;
    }
    return false;
}

static void test_end_exceptions(void **state) {
    (void)state;
    static const entry e[] = {
        {"a", 0, 1},    {"<|end|>", 0, 3},          {"<|return|>", 0, 3},  {"<|call|>", 0, 3},
        {"</s>", 0, 3}, {"<|tool_response>", 0, 3}, {"<|fim_pad|>", 0, 3}, {"<|file_sep|>", 0, 1}};
    gguf_bytes g;
    gguf_begin(&g);
    gguf_add_string(&g, "tokenizer.ggml.model", "gpt2");
    gguf_add_string(&g, "tokenizer.ggml.pre", "gpt-4o");
    gguf_add_u32(&g, "tokenizer.ggml.eot_token_id", 0);
    add_entries(&g, e, 8, false);
    add_merges(&g, NULL, 0);
    tokenizer *t = must_open(&g);
    static const bool expected[] = {true, false, true, true, false, true, true, false};
    for (int32_t i = 0; i < 8; i++) {
        assert_int_equal(is_end(t, i), expected[i]);
    }
    mica_tokenizer_free(t);
}

static void test_default_pre_warns(void **state) {
    (void)state;
    gguf_bytes g;
    begin_bpe(&g, NULL);
    add_merges(&g, NULL, 0);
    tokenizer *t = must_open(&g);
    assert_non_null(strstr(mica_tokenizer_warnings(t), "tokenizer.ggml.pre"));
    mica_tokenizer_free(t);
}

/* ---- refusals ---- */

static void test_refusals(void **state) {
    (void)state;
    gguf_bytes g;
    static const char *const bad_merge[] = {"ab"}, *const half_merge[] = {"a "};
    gguf_begin(&g);
    expect_error(&g, MICA_E_FORMAT, "tokenizer.ggml.model is missing");
    gguf_begin(&g);
    gguf_add_string(&g, "tokenizer.ggml.model", "rwkv");
    expect_error(&g, MICA_E_UNSUPPORTED, "\"rwkv\"");
    gguf_begin(&g);
    gguf_add_string(&g, "tokenizer.ggml.model", "gpt2");
    expect_error(&g, MICA_E_FORMAT, "tokenizer.ggml.tokens");
    begin_bpe(&g, "no-such-name");
    add_merges(&g, NULL, 0);
    expect_error(&g, MICA_E_UNSUPPORTED, "\"no-such-name\"");
    begin_bpe(&g, "gpt-2");
    expect_error(&g, MICA_E_FORMAT, "merges");
    begin_bpe(&g, "gpt-2");
    add_merges(&g, bad_merge, 1);
    expect_error(&g, MICA_E_FORMAT, "not two parts");
    begin_bpe(&g, "gpt-2");
    add_merges(&g, half_merge, 1);
    expect_error(&g, MICA_E_FORMAT, "not two parts");
    gguf_begin(&g);
    gguf_add_string(&g, "tokenizer.ggml.model", "llama");
    add_entries(&g, spm_entries, 5, false);
    expect_error(&g, MICA_E_FORMAT, "scores");
    begin_spm(&g);
    gguf_add_bool(&g, "tokenizer.ggml.remove_extra_whitespaces", true);
    expect_error(&g, MICA_E_UNSUPPORTED, "remove_extra_whitespaces");
    static const entry odd[] = {{"a", 0, 9}};
    gguf_begin(&g);
    gguf_add_string(&g, "tokenizer.ggml.model", "llama");
    add_entries(&g, odd, 1, true);
    expect_error(&g, MICA_E_FORMAT, "type 9");
    gguf_begin(&g);
    gguf_add_string(&g, "tokenizer.ggml.model", "llama");
    add_entries(&g, spm_entries, 5, false);
    gguf_begin_array(&g, "tokenizer.ggml.scores", GGUF_VALUE_F32, 1);
    gguf_put_u32(&g, 0);
    expect_error(&g, MICA_E_FORMAT, "as long as the tokens");
    gguf_begin(&g);
    gguf_add_string(&g, "tokenizer.ggml.model", "llama");
    add_entries(&g, spm_entries, 0, true);
    expect_error(&g, MICA_E_FORMAT, "empty");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_spm),
                                       cmocka_unit_test(test_spm_switches),
                                       cmocka_unit_test(test_bert),
                                       cmocka_unit_test(test_t5),
                                       cmocka_unit_test(test_phi3_takes_space),
                                       cmocka_unit_test(test_hidden_merges),
                                       cmocka_unit_test(test_end_exceptions),
                                       cmocka_unit_test(test_default_pre_warns),
                                       cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
