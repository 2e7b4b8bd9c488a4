/* fuzz_tokenizer.c: any bytes as a tokenizer file and as text.
 *
 * The first byte chooses: a SentencePiece model (0xFE), vocab.txt (0xFD), a list of ranks (0xFC),
 * tekken.json (0xFB), else, modulo 4, a tokenizer.json, whose own
 * bytes are then encoded and decoded; a GGUF vocabulary; a regex; or text for a small fixed
 * byte-level vocabulary, where the ids must spell the bytes and the stream must give the whole
 * decode.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/gguf.h"
#include "text/tokenizer/byte_alphabet.h"
#include "text/tokenizer/older.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(bool holds) {
    if (!holds) abort();
}

/* Long texts would only measure the patience of a hostile regex. */
static size_t at_most(size_t n, size_t max) { return n < max ? n : max; }

static void use(const tokenizer *t, const char *text, size_t n) {
    token_list ids = {0};
    for (int flags = 0; flags < 4; flags++) {
        encode_options options = {.add_special = flags & 1, .parse_special = flags & 2};
        (void)mica_tokenizer_encode(t, text, n, options, &ids, NULL);
    }
    char *whole = NULL;
    size_t n_whole = 0, n_seen = 0;
    detokenizer d;
    if (!mica_tokenizer_decode(t, ids.ids, ids.n, false, &whole, &n_whole, NULL)) {
        mica_detokenizer_init(&d, t, false);
        for (size_t i = 0; i <= ids.n; i++) {
            mica_status st = i < ids.n ? mica_detokenizer_push(&d, ids.ids[i], NULL)
                                       : mica_detokenizer_finish(&d, NULL);
            if (st) break;
            check(d.n_held <= 3 && n_seen + d.n_text <= n_whole);
            check(!d.n_text || !memcmp(d.text, whole + n_seen, d.n_text));
            n_seen += d.n_text;
            check(i < ids.n || n_seen == n_whole);
        }
        mica_detokenizer_deinit(&d);
    }
    mica_free(whole);
    mica_free(ids.ids);
}

static void try_json(const char *data, size_t n) {
    tokenizer *t;
    if (mica_tokenizer_parse(&t, data, n, NULL, 0, "fuzz", NULL)) return;
    use(t, data, at_most(n, 512));
    mica_tokenizer_free(t);
}

static void try_gguf(const char *data, size_t n) {
    gguf_file *file;
    tokenizer *t;
    if (mica_gguf_parse(&file, (const uint8_t *)data, n, "fuzz", NULL)) return;
    if (!mica_tokenizer_open_gguf(&t, file, NULL)) {
        use(t, data, at_most(n, 512));
        mica_tokenizer_free(t);
    }
    mica_gguf_close(file);
}

static void try_spm(const char *data, size_t n) {
    tokenizer *t;
    if (mica_tokenizer_parse_spm(&t, (const uint8_t *)data, n, NULL, "fuzz", NULL)) return;
    use(t, data, at_most(n, 512));
    mica_tokenizer_free(t);
}

static void try_older(uint8_t kind, const char *data, size_t n) {
    json_value class = {
        .kind = JSON_KIND_STRING, .n = 5, .string = kind == 0xFD ? "bert" : "llama"};
    json_member member = {.key = "tokenizer_class", .n_key = 15, .value = &class};
    json_value settings = {.kind = JSON_KIND_OBJECT, .n = 1, .members = &member};
    const older_load load = {.folder = "fuzz", .settings = &settings};
    tokenizer *t = NULL;
    mica_status st = kind == 0xFD   ? mica_older_open_words(&t, &load, data, n, NULL)
                     : kind == 0xFC ? mica_older_open_ranks(&t, &load, "ranks", data, n, NULL)
                                    : mica_older_open_tekken(&t, &load, data, n, NULL);
    if (st) return;
    use(t, data, at_most(n, 512));
    mica_tokenizer_free(t);
}

static void try_regex(const char *data, size_t n) {
    regex *re;
    regex_scratch scratch = {0};
    static const char text[] = "The 12 \xC3\xA9tudes, don't\r\n\t x  \xE4\xB8\xAD\xE6\x96\x87!";
    if (mica_regex_compile(&re, data, at_most(n, 256), "fuzz", NULL)) return;
    for (size_t from = 0; from < sizeof(text) - 1;) {
        text_piece m;
        bool found;
        mica_status st =
            mica_regex_find(re, &scratch, text, sizeof(text) - 1, from, &m, &found, NULL);
        if (st || !found) break;
        check(m.begin >= from && m.begin <= m.end && m.end <= sizeof(text) - 1);
        from = m.end > from ? m.end : sizeof(text);
    }
    mica_regex_scratch_deinit(&scratch);
    mica_regex_free(re);
}

/* All bytes, a few merges, Llama's regex. */
static tokenizer *byte_level(void) {
    text_buffer json = {0};
    char entry[64];
    static const char head[] =
        "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
        "\"pattern\":{"
        "\"Regex\":\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|"
        "\\\\p{N}{1,3}| "
        "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|"
        "\\\\s+\"},\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\","
        "\"add_prefix_space\":false,\"use_regex\":false}]},\"decoder\":{\"type\":\"ByteLevel\"},"
        "\"model\":{\"type\":\"BPE\",\"merges\":[\"a b\",\"ab a\",\"a a\"],\"vocab\":{\"ab\":256,"
        "\"aba\":257,\"aa\":258";
    tokenizer *t = NULL;
    (void)mica_text_buffer_append(&json, head, sizeof(head) - 1, NULL);
    for (unsigned b = 0; b < 256; b++) {
        int n = snprintf(entry, sizeof(entry), ",\"\\u%04x\":%u", mica_byte_char((uint8_t)b), b);
        (void)mica_text_buffer_append(&json, entry, (size_t)n, NULL);
    }
    (void)mica_text_buffer_append(&json, "}}}", 3, NULL);
    check(!mica_tokenizer_parse(&t, json.data, json.n, NULL, 0, "fixed", NULL));
    mica_text_buffer_deinit(&json);
    return t;
}

static void try_text(const char *data, size_t n) {
    static tokenizer *t;
    if (!t) t = byte_level();
    token_list ids = {0};
    text_buffer spelt = {0};
    check(!mica_tokenizer_encode(t, data, n, (encode_options){0}, &ids, NULL));
    check(!mica_text_buffer_reserve(&spelt, 2 * n + 16, NULL));
    for (size_t i = 0; i < ids.n; i++) {
        size_t n_token;
        const char *token = mica_tokenizer_token(t, ids.ids[i], &n_token);
        check(token && mica_byte_alphabet_unmap(&spelt, token, n_token) && spelt.n <= n);
    }
    check(spelt.n == n && (!n || !memcmp(spelt.data, data, n)));
    mica_text_buffer_deinit(&spelt);
    mica_free(ids.ids);
    use(t, data, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    if (!n) return 0;
    const char *rest = (const char *)data + 1;
    if (data[0] == 0xFE) {
        try_spm(rest, n - 1);
        return 0;
    }
    if (data[0] >= 0xFB && data[0] <= 0xFD) {
        /* The readers get a NUL behind the file, as from disk. */
        char *copy = mica_strndup(rest, n - 1);
        if (copy) try_older(data[0], copy, n - 1);
        mica_free(copy);
        return 0;
    }
    switch (data[0] % 4) {
    case 0:
        try_text(rest, n - 1);
        break;
    case 1:
        try_json(rest, n - 1);
        break;
    case 2:
        try_gguf(rest, n - 1);
        break;
    default:
        try_regex(rest, n - 1);
        break;
    }
    return 0;
}
