/* pre.c: the pieces of every named GGUF pre-tokenizer against Oniguruma with the models' original
 * patterns (pre.jsonl, see make-pre-cases.py).
 *
 * Usage: pre PRE_FILE
 */
#include "cmocka_base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "gguf_bytes.h"
#include "text/tokenizer/byte_alphabet.h"
#include "text/tokenizer/impl.h"

static const char *pre_path;
static mica_arena arena;

static tokenizer *open_named(const char *name) {
    gguf_bytes g;
    gguf_begin(&g);
    gguf_add_string(&g, "tokenizer.ggml.model", "gpt2");
    gguf_add_string(&g, "tokenizer.ggml.pre", name);
    gguf_begin_array(&g, "tokenizer.ggml.tokens", GGUF_VALUE_STRING, 256);
    for (unsigned b = 0; b < 256; b++) {
        char text[4];
        gguf_put_text(&g, text, mica_utf8_put(text, mica_byte_char((uint8_t)b)));
    }
    gguf_begin_array(&g, "tokenizer.ggml.merges", GGUF_VALUE_STRING, 0);
    gguf_end(&g);
    gguf_file *file;
    tokenizer *t;
    mica_error err = {0};
    if (mica_gguf_parse(&file, g.data, g.n, name, &err)) fail_msg("%s", err.message);
    if (mica_tokenizer_open_gguf(&t, file, &err)) fail_msg("%s", err.message);
    mica_gguf_close(file);
    free(g.data);
    return t;
}

static bool check_text(const tokenizer *t, const char *name, const json_value *text,
                       const json_value *lengths) {
    step_scratch scratch = {0};
    pre_tokens pre = {0};
    text_buffer bytes = {0};
    mica_error err = {0};
    if (mica_pre_tokenize(t->pre_tokenizers, &scratch, text->string, text->n, true, &pre, &err) ||
        mica_text_buffer_reserve(&bytes, pre.buffers[0].n + 1, &err)) {
        fail_msg("%s", err.message);
    }
    bool is_same = pre.pieces.n == lengths->n;
    for (size_t i = 0; i < pre.pieces.n; i++) {
        text_piece p = pre.pieces.items[i];
        bytes.n = 0;
        assert_true(mica_byte_alphabet_unmap(&bytes, pre.text + p.begin, p.end - p.begin));
        is_same = is_same && (int64_t)bytes.n == lengths->items[i]->integer;
    }
    if (!is_same) {
        fprintf(stderr, "%s: \"%s\" is cut elsewhere:", name, text->string);
        for (size_t i = 0; i < pre.pieces.n; i++) {
            text_piece p = pre.pieces.items[i];
            fprintf(stderr, " [%.*s]", (int)(p.end - p.begin), pre.text + p.begin);
        }
        fprintf(stderr, "\n");
    }
    mica_text_buffer_deinit(&bytes);
    mica_pre_tokens_deinit(&pre);
    mica_step_scratch_deinit(&scratch);
    return is_same;
}

/* [name, whether bos is added, whether pieces that are tokens stay whole]; the texts that are cut
 * elsewhere. */
static size_t check_name(const json_value *entry, const json_value *texts,
                         const json_value *pieces) {
    const char *name = mica_json_string(entry->items[0], "");
    tokenizer *t = open_named(name);
    size_t n_wrong = 0;
    for (size_t i = 0; i < texts->n; i++) {
        n_wrong += !check_text(t, name, texts->items[i], pieces->items[i]);
    }
    bool adds_bos = mica_json_bool(entry->items[1], false);
    bool is_whole = mica_json_bool(entry->items[2], false);
    if (mica_tokenizer_adds_bos(t) != adds_bos || t->bpe.ignore_merges != is_whole) {
        fprintf(stderr, "%s: has other flags\n", name);
        n_wrong++;
    }
    mica_tokenizer_free(t);
    return n_wrong;
}

static void test_named(void **state) {
    (void)state;
    char *data;
    size_t n, n_names = 0, n_wrong = 0;
    json_value *texts = NULL, *line = NULL;
    mica_error err = {0};
    mica_arena_init(&arena, 0);
    if (mica_file_read(&data, &n, pre_path, 64u << 20, &err)) fail_msg("%s", err.message);
    for (char *s = data, *end; (end = memchr(s, '\n', (size_t)(data + n - s))); s = end + 1) {
        if (mica_json_parse(&line, s, (size_t)(end - s), pre_path, false, &arena, &err)) {
            fail_msg("%s", err.message);
        }
        if (!texts) {
            texts = line;
            continue;
        }
        const json_value *names = mica_json_find(line, "names");
        for (size_t i = 0; i < names->n; i++) {
            n_wrong += check_name(names->items[i], mica_json_find(texts, "texts"),
                                  mica_json_find(line, "pieces"));
        }
        n_names += names->n;
    }
    mica_free(data);
    mica_arena_deinit(&arena);
    assert_true(n_names > 75);
    assert_int_equal(n_wrong, 0);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_named)};
    if (argc != 2) return 2;
    pre_path = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
