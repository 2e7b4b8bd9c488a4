/* open_ranks.c: vocabularies of "base64 rank" lines, as tiktoken reads them.
 *
 * The lines hold neither the pattern nor the special tokens. The pattern comes from the kind; a
 * file that no config names is known by its contents alone. Special tokens are those of the config,
 * else those that the family's own program adds.
 */
#include "text/tokenizer/byte_alphabet.h"
#include "text/tokenizer/older.h"

/* The number behind the space of a line text[0..n), whose base64 is *n_base64 long. */
static bool split_line(const char *text, size_t n, size_t *n_base64, uint64_t *rank) {
    const char *space = memchr(text, ' ', n);
    if (!space || space == text) return false;
    *n_base64 = (size_t)(space - text);
    *rank = 0;
    size_t i = *n_base64 + 1;
    for (; i < n && text[i] >= '0' && text[i] <= '9' && *rank < VOCAB_MAX_IDS; i++) {
        *rank = *rank * 10 + (uint64_t)(text[i] - '0');
    }
    return i == n && i > *n_base64 + 1;
}

static size_t line_end(const char *data, size_t n, size_t begin) {
    const char *newline = memchr(data + begin, '\n', n - begin);
    return newline ? (size_t)(newline - data) : n;
}

bool mica_older_looks_like_ranks(const char *data, size_t n) {
    size_t n_base64, end = n ? line_end(data, n < 4096 ? n : 4096, 0) : 0;
    uint64_t rank;
    return end && split_line(data, end - (data[end - 1] == '\r'), &n_base64, &rank);
}

static mica_status read_ranks(tokenizer *t, const char *data, size_t n, mica_error *err) {
    text_buffer bytes = {0}, text = {0};
    step_loader l = mica_tokenizer_loader(t);
    mica_status st = MICA_OK;
    size_t line = 0;
    for (size_t begin = 0, end; begin < n && !st; begin = end + 1) {
        size_t n_base64;
        uint64_t rank;
        end = line_end(data, n, begin);
        size_t n_line = end - begin;
        line++;
        if (n_line && data[end - 1] == '\r') n_line--;
        if (!n_line) continue;
        if (!split_line(data + begin, n_line, &n_base64, &rank)) {
            st = mica_fail(err, MICA_E_FORMAT, "%s: line %zu is no base64 and a rank", t->name,
                           line);
            break;
        }
        bytes.n = text.n = 0;
        st = mica_base64_decode(&bytes, data + begin, n_base64, &l, err);
        if (!st) st = mica_byte_alphabet_map(&text, bytes.data, bytes.n, err);
        if (!st) st = mica_vocab_add(&t->vocab, (size_t)rank, text.data, text.n, TOKEN_NORMAL, err);
    }
    mica_text_buffer_deinit(&bytes);
    mica_text_buffer_deinit(&text);
    return st;
}

/* What SentencePiece does with scores. */
mica_status mica_older_set_ranks(tokenizer *t, size_t n_ids, mica_error *err) {
    t->model = TOKENIZER_SPM;
    t->spm.takes_whole = true;
    t->spm.ranks = mica_malloc(n_ids * sizeof(*t->spm.ranks) + 1);
    if (!t->spm.ranks) return mica_fail(err, MICA_E_NOMEM, "%s: out of memory", t->name);
    for (size_t i = 0; i < n_ids; i++) {
        t->spm.ranks[i] = (uint32_t)i;
    }
    return MICA_OK;
}

mica_status mica_older_finish_ranks(tokenizer *t, mica_error *err) {
    t->is_byte_level = true;
    t->decoder.bytes = BYTES_ALPHABET;
    for (size_t i = 0; i < t->vocab.n_ids; i++) {
        t->vocab.kind[i] |= t->vocab.kind[i] & TOKEN_ADDED ? TOKEN_LITERAL : 0;
    }
    t->n_tokens = t->vocab.n_ids;
    return mica_tokenizer_finish(t, err);
}

static mica_status load_ranks(tokenizer *t, const older_load *load, const older_kind *kind,
                              const char *data, size_t n, mica_error *err) {
    mica_status st = read_ranks(t, data, n, err);
    size_t n_ranks = t->vocab.n_ids;
    step_loader l = mica_tokenizer_loader(t);
    normalizer nfc = {.kind = NORMALIZE_NFC};
    if (!st) st = mica_older_set_ranks(t, n_ranks, err);
    if (!st && kind->is_nfc) st = mica_normalizer_append(&t->normalizers, nfc, &l, err);
    if (!st && load->settings) st = mica_tokenizer_apply_config(t, load->settings, err);
    if (!st && t->vocab.n_ids == n_ranks) st = mica_older_add_specials(t, kind->family, err);
    if (!st) st = mica_older_finish_bytes(t, load, kind, err);
    return st ? st : mica_older_finish_ranks(t, err);
}

static uint64_t fnv1a(const char *data, size_t n) {
    uint64_t h = UINT64_C(0xCBF29CE484222325);
    for (size_t i = 0; i < n; i++) {
        h = (h ^ (uint8_t)data[i]) * UINT64_C(0x100000001B3);
    }
    return h;
}

/* Files that come alone are known by their bytes. */
static const older_kind *find_by_contents(const char *data, size_t n) {
    static const struct {
        size_t n;
        uint64_t hash;
        older_kind kind;
    } known[] = {
        {2183982,
         UINT64_C(0x66BD6FE609B12BB5),
         {"Llama 3", "llama-bpe", RANKS_LLAMA3, false, true, false}},
        {3622230,
         UINT64_C(0xDD1E01F2DA1777EF),
         {"Llama 4", "llama4", RANKS_LLAMA4, false, true, false}},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (known[i].n == n && known[i].hash == fnv1a(data, n)) return &known[i].kind;
    }
    return NULL;
}

mica_status mica_older_open_ranks(tokenizer **out, const older_load *load, const char *file,
                                  const char *data, size_t n, mica_error *err) {
    const older_kind *kind = mica_older_find_kind(load, file);
    if (!kind) kind = find_by_contents(data, n);
    if (!kind) return mica_older_refuse(load, file, err);
    tokenizer *t = mica_tokenizer_new(load->folder, err);
    if (!t) return MICA_E_NOMEM;
    mica_status st = load_ranks(t, load, kind, data, n, err);
    if (st) {
        mica_tokenizer_free(t);
        return st;
    }
    *out = t;
    return MICA_OK;
}
