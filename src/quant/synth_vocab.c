/* synth_vocab.c: a tokenizer of any size that needs no training: byte-level BPE with the 256 bytes,
 * two special tokens, and words " a", " b", ... " aa" that nothing but the first 26 merges makes.
 */
#include <string.h>

#include "base/json.h"
#include "base/utf8.h"
#include "quant/synth_parts.h"

/* GPT-2's letter for a byte: printable ones stand for themselves, the rest follow from U+0100. */
static uint32_t byte_letter(int byte) {
    uint32_t n_moved = 0;
    for (int b = 0; b <= byte; b++) {
        bool stays = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
        if (stays && b == byte) return (uint32_t)b;
        if (!stays && b == byte) return 0x100 + n_moved;
        n_moved += !stays;
    }
    return 0;
}

/* 0: "a", 25: "z", 26: "aa". */
static size_t put_word(int64_t n, char *out) {
    char reversed[16];
    size_t n_letters = 0;
    for (n++; n > 0; n = (n - 1) / 26)
        reversed[n_letters++] = (char)('a' + (n - 1) % 26);
    for (size_t i = 0; i < n_letters; i++)
        out[i] = reversed[n_letters - 1 - i];
    return n_letters;
}

size_t mica_synth_token(int64_t id, char out[SYNTH_TOKEN_BYTES]) {
    static const char *const special[] = {"<|begin|>", "<|end|>"};
    if (id < SYNTH_BOS) return mica_utf8_put(out, byte_letter((int)id));
    if (id < SYNTH_FIRST_WORD) {
        size_t n = strlen(special[id - SYNTH_BOS]);
        memcpy(out, special[id - SYNTH_BOS], n);
        return n;
    }
    size_t n = mica_utf8_put(out, byte_letter(' '));
    return n + put_word(id - SYNTH_FIRST_WORD, out + n);
}

static void put_token(json_writer *w, int64_t id) {
    char token[SYNTH_TOKEN_BYTES + 1];
    token[mica_synth_token(id, token)] = 0;
    mica_json_put_cstring(w, token);
}

static void put_text(json_writer *w, const char *key, const char *v) {
    mica_json_member_cstring(w, key, v);
}

static void put_bool(json_writer *w, const char *key, bool v) {
    mica_json_member_bool(w, key, v);
}

static void put_added(json_writer *w, int64_t id) {
    static const char *const off[] = {"single_word", "lstrip", "rstrip", "normalized"};
    mica_json_begin_object(w);
    mica_json_member_i64(w, "id", id);
    mica_json_key(w, "content");
    put_token(w, id);
    for (size_t i = 0; i < sizeof(off) / sizeof(off[0]); i++)
        put_bool(w, off[i], false);
    put_bool(w, "special", true);
    mica_json_end_object(w);
}

static void put_byte_level(json_writer *w, const char *key) {
    mica_json_key(w, key);
    mica_json_begin_object(w);
    put_text(w, "type", "ByteLevel");
    put_bool(w, "add_prefix_space", false);
    put_bool(w, "trim_offsets", true);
    put_bool(w, "use_regex", true);
    mica_json_end_object(w);
}

static void put_bpe(json_writer *w, int64_t vocab_size) {
    char token[SYNTH_TOKEN_BYTES + 1];
    mica_json_key(w, "model");
    mica_json_begin_object(w);
    put_text(w, "type", "BPE");
    mica_json_key(w, "vocab");
    mica_json_begin_object(w);
    for (int64_t id = 0; id < vocab_size; id++) {
        token[mica_synth_token(id, token)] = 0;
        mica_json_member_i64(w, token, id);
    }
    mica_json_end_object(w);
    mica_json_key(w, "merges");
    mica_json_begin_array(w);
    for (int i = 0; i < SYNTH_N_MERGES; i++) {
        mica_json_begin_array(w);
        put_token(w, ' ');
        put_token(w, 'a' + i);
        mica_json_end_array(w);
    }
    mica_json_end_array(w);
    mica_json_end_object(w);
}

static mica_status write_json(json_writer *w, const char *folder, const char *name,
                              mica_error *err) {
    char *path = w->failed ? NULL : mica_path_join(folder, name);
    if (!path) return mica_fail(err, MICA_E_NOMEM, "out of memory for %s", name);
    mica_status st = mica_file_write(path, w->data, w->n, err);
    mica_free(path);
    return st;
}

static void fill_tokenizer(json_writer *w, int64_t vocab_size) {
    mica_json_begin_object(w);
    put_text(w, "version", "1.0");
    mica_json_key(w, "added_tokens");
    mica_json_begin_array(w);
    put_added(w, SYNTH_BOS);
    put_added(w, SYNTH_EOS);
    mica_json_end_array(w);
    put_byte_level(w, "pre_tokenizer");
    put_byte_level(w, "decoder");
    put_bpe(w, vocab_size);
    mica_json_end_object(w);
}

mica_status mica_synth_write_tokenizer(const synth_model *m, const char *folder, mica_error *err) {
    json_writer w;
    mica_json_writer_init(&w, false);
    fill_tokenizer(&w, m->shape.vocab_size);
    mica_status st = write_json(&w, folder, "tokenizer.json", err);
    mica_json_writer_deinit(&w);
    if (st) return st;
    mica_json_writer_init(&w, true);
    mica_json_begin_object(&w);
    put_text(&w, "tokenizer_class", "PreTrainedTokenizerFast");
    put_text(&w, "bos_token", "<|begin|>");
    put_text(&w, "eos_token", "<|end|>");
    mica_json_end_object(&w);
    st = write_json(&w, folder, "tokenizer_config.json", err);
    mica_json_writer_deinit(&w);
    return st;
}
