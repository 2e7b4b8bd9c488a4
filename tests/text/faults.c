/* faults.c: every allocation made to fail in turn while a tokenizer loads, encodes and decodes: a
 * clean error each time and nothing left behind. And a stream asks for no memory once it is warm.
 */
#include "cmocka_base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fault_alloc.h"
#include "gguf_bytes.h"
#include "text/tokenizer/older.h"

static const char json[] =
    "{\"version\":\"1.0\",\"added_tokens\":[{\"id\":9,\"content\":\"<s>\",\"special\":true},"
    "{\"id\":2,\"content\":\"FO\",\"normalized\":true,\"lstrip\":true}],"
    "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":"
    "\"Lowercase\"},"
    "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"z+\"},\"content\":\"a\"}]},"
    "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{"
    "\"Regex\":"
    "\"[[a]&&[^b]]|\\\\s+(?!\\\\S)\"},\"behavior\":\"MergedWithNext\",\"invert\":false},"
    "{\"type\":\"Digits\"},{\"type\":\"ByteLevel\"}]},"
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<"
    "s>\","
    "\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"pair\":[],\"special_tokens\":"
    "{\"<s>\":{\"id\":\"<s>\",\"ids\":[9],\"tokens\":[\"<s>\"]}}},"
    "\"decoder\":{\"type\":\"ByteLevel\"},"
    "\"model\":{\"type\":\"BPE\",\"unk_token\":\"u\",\"fuse_unk\":true,\"vocab\":{\"a\":0,\"b\":1,"
    "\"ab\":3,"
    "\"u\":4,\"\\u0120\":5,\"aba\":6},\"merges\":[\"a b\",[\"ab\",\"a\"]]}}";
static const char config[] = "{\"bos_token\":\"<s>\",\"eos_token\":\"ab\",\"added_tokens_decoder\":"
                             "{\"8\":{\"content\":\"<new>\"}}}";
static const char text[] = "<s>abab fo 12 aba\xCC\x81 zzz <new>\xFF\xC3 abaab";

static mica_status use(tokenizer *t, mica_error *err) {
    token_list ids = {0};
    char *out = NULL;
    size_t n;
    encode_options options = {.add_special = true, .parse_special = true};
    mica_status st = mica_tokenizer_encode(t, text, sizeof(text) - 1, options, &ids, err);
    if (!st) st = mica_tokenizer_decode(t, ids.ids, ids.n, false, &out, &n, err);
    mica_free(out);
    mica_free(ids.ids);
    return st;
}

static mica_status run_json(mica_error *err) {
    tokenizer *t = NULL;
    mica_status st =
        mica_tokenizer_parse(&t, json, sizeof(json) - 1, config, sizeof(config) - 1, "json", err);
    if (!st) st = use(t, err);
    mica_tokenizer_free(t);
    return st;
}

/* ---- files from before tokenizer.json ---- */

static json_value llama_class = {.kind = JSON_KIND_STRING, .n = 5, .string = "llama"};
static json_value bert_class = {.kind = JSON_KIND_STRING, .n = 13, .string = "BertTokenizer"};

static older_load load_of(json_member *member, json_value *settings, json_value *class) {
    *member = (json_member){.key = "tokenizer_class", .n_key = 15, .value = class};
    *settings = (json_value){.kind = JSON_KIND_OBJECT, .n = 1, .members = member};
    return (older_load){.folder = "older", .settings = settings};
}

static mica_status use_and_free(mica_status st, tokenizer *t, mica_error *err) {
    if (!st) st = use(t, err);
    if (t) mica_tokenizer_free(t);
    return st;
}

static mica_status run_words(mica_error *err) {
    static const char words[] = "[CLS]\n[SEP]\nab\n##ab\n##a\nfo\n12\n[UNK]\nz\n##z";
    json_member member;
    json_value settings;
    tokenizer *t = NULL;
    const older_load load = load_of(&member, &settings, &bert_class);
    mica_status st = mica_older_open_words(&t, &load, words, sizeof(words) - 1, err);
    return use_and_free(st, t, err);
}

static mica_status run_ranks(mica_error *err) {
    static const char ranks[] = "YQ== 0\nYg== 1\nYWI= 2\nIA== 3\nMQ== 5\n";
    json_member member;
    json_value settings;
    tokenizer *t = NULL;
    const older_load load = load_of(&member, &settings, &llama_class);
    mica_status st =
        mica_older_open_ranks(&t, &load, "tokenizer.model", ranks, sizeof(ranks) - 1, err);
    return use_and_free(st, t, err);
}

static mica_status run_tekken(mica_error *err) {
    static const char tekken[] =
        "{\"config\":{\"pattern\":\"\\\\s|\\\\S+\",\"default_num_special_tokens\":22,"
        "\"default_vocab_size\":25},\"vocab\":[{\"rank\":0,\"token_bytes\":\"YQ==\"},"
        "{\"rank\":1,\"token_bytes\":\"Y\\u0067==\"},{\"rank\":2,\"token_bytes\":\"YWI=\"}]}";
    const older_load load = {.folder = "older"};
    tokenizer *t = NULL;
    mica_status st = mica_older_open_tekken(&t, &load, tekken, sizeof(tekken) - 1, err);
    return use_and_free(st, t, err);
}

static gguf_bytes bytes;

static void put_strings(const char *key, const char *const *list, uint64_t n) {
    gguf_begin_array(&bytes, key, GGUF_VALUE_STRING, n);
    for (uint64_t i = 0; i < n; i++) {
        gguf_put_text(&bytes, list[i], strlen(list[i]));
    }
}

static void build_gguf(const char *model) {
    static const char *const tokens[] = {"<unk>", "<s>", "</s>",         "a",
                                         "b",     "ab",  "\xE2\x96\x81", "aa"};
    static const char *const merges[] = {"a b", "ab a"};
    static const int32_t types[] = {2, 3, 3, 1, 1, 1, 1, 5};
    static const float scores[8] = {0, 0, 0, -1, -1, -2, -1, -1};
    free(bytes.data);
    gguf_begin(&bytes);
    gguf_add_string(&bytes, "tokenizer.ggml.model", model);
    gguf_add_bool(&bytes, "tokenizer.ggml.add_eos_token", true);
    gguf_add_u32(&bytes, "tokenizer.ggml.unknown_token_id", 0);
    put_strings("tokenizer.ggml.tokens", tokens, 8);
    put_strings("tokenizer.ggml.merges", merges, 2);
    gguf_begin_array(&bytes, "tokenizer.ggml.token_type", GGUF_VALUE_I32, 8);
    gguf_put(&bytes, types, sizeof(types));
    gguf_begin_array(&bytes, "tokenizer.ggml.scores", GGUF_VALUE_F32, 8);
    gguf_put(&bytes, scores, sizeof(scores));
    gguf_end(&bytes);
}

static mica_status run_gguf(mica_error *err) {
    gguf_file *file = NULL;
    tokenizer *t = NULL;
    mica_status st = mica_gguf_parse(&file, bytes.data, bytes.n, "gguf", err);
    if (!st) st = mica_tokenizer_open_gguf(&t, file, err);
    mica_gguf_close(file);
    if (!st) st = use(t, err);
    mica_tokenizer_free(t);
    return st;
}

static void fail_each(const char *what, mica_status (*run)(mica_error *)) {
    mica_error err = {0};
    long before = fault_alloc_live();
    fault_alloc_arm(0);
    if (run(&err)) fail_msg("%s: %s", what, err.message);
    long n_calls = fault_alloc_calls();
    assert_int_equal(fault_alloc_live(), before);
    assert_true(n_calls > 20);
    for (long i = 1; i <= n_calls; i++) {
        memset(&err, 0, sizeof(err));
        fault_alloc_arm(i);
        mica_status st = run(&err);
        long live = fault_alloc_live();
        /* JIT may do without: the interpreter then gives the same matches. */
        bool is_fine = live == before &&
                       (st == MICA_OK || (st == MICA_E_NOMEM && err.code == st && err.message[0]));
        if (!is_fine) {
            fail_msg("%s: allocation %ld of %ld: status %d, '%s', %ld blocks left", what, i,
                     n_calls, (int)st, err.message, live - before);
        }
    }
    fault_alloc_arm(0);
    print_message("%s: %ld allocations\n", what, n_calls);
}

static void test_every_allocation(void **state) {
    (void)state;
    fail_each("json", run_json);
    fail_each("words", run_words);
    fail_each("ranks", run_ranks);
    fail_each("tekken", run_tekken);
    static const char *const models[] = {"llama", "gpt2", "gemma4", "bert", "t5"};
    for (int i = 0; i < 5; i++) {
        build_gguf(models[i]);
        fail_each(models[i], run_gguf);
    }
    free(bytes.data);
    bytes = (gguf_bytes){0};
}

static void test_warm_stream(void **state) {
    (void)state;
    tokenizer *t = NULL;
    mica_error err = {0};
    if (mica_tokenizer_parse(&t, json, sizeof(json) - 1, NULL, 0, "json", &err)) {
        fail_msg("%s", err.message);
    }
    detokenizer d;
    mica_detokenizer_init(&d, t, true);
    for (int round = 0; round < 3; round++) {
        fault_alloc_arm(0);
        for (int32_t id = 0; id < 10; id++) {
            if (mica_detokenizer_push(&d, id, &err)) fail_msg("%s", err.message);
        }
        if (round) assert_int_equal(fault_alloc_calls(), 0);
    }
    mica_detokenizer_deinit(&d);
    mica_tokenizer_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_allocation),
                                       cmocka_unit_test(test_warm_stream)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
