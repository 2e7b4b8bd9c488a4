/* encode.c: text to ids, through the five stages of a tokenizer file.
 *
 * Split at raw added tokens; normalize each stretch; split at normalized added tokens;
 * pre-tokenize; run the model on every piece. Bytes that are no UTF-8 reach only a byte-level
 * model, each run of them as a piece of its own; other models see U+FFFD.
 */
#include "text/tokenizer/byte_alphabet.h"
#include "text/tokenizer/codepoint.h"
#include "text/tokenizer/impl.h"

typedef struct encode_call {
    const tokenizer *t;
    const char *text; /* the whole, for places in it */
    plain_parts plain;
    token_list *out;
    added_piece_list raw, normalized;
    step_scratch steps;
    normalized_text normal;
    pre_tokens pre;
    merge_scratch merge;
    unigram_scratch unigram;
    text_buffer word;
    text_buffer bytes;
} encode_call;

static void call_deinit(encode_call *c) {
    mica_free(c->raw.items);
    mica_free(c->normalized.items);
    mica_step_scratch_deinit(&c->steps);
    mica_normalized_text_deinit(&c->normal);
    mica_pre_tokens_deinit(&c->pre);
    mica_merge_scratch_deinit(&c->merge);
    mica_free(c->unigram.cells);
    mica_text_buffer_deinit(&c->word);
    mica_text_buffer_deinit(&c->bytes);
}

static mica_status run_model(encode_call *c, const char *text, size_t n, mica_error *err) {
    const tokenizer *t = c->t;
    switch (t->model) {
    case TOKENIZER_SPM:
        return mica_spm_encode(&t->spm, &t->vocab, &c->merge, text, n, c->out, err);
    case TOKENIZER_UNIGRAM:
        return mica_unigram_encode(&t->unigram, &t->vocab, &c->unigram, text, n, c->out, err);
    case TOKENIZER_WORD:
        return mica_word_encode(&t->word, &t->vocab, &c->word, text, n, c->out, err);
    case TOKENIZER_BPE:
        break;
    }
    return mica_bpe_encode(&t->bpe, &t->vocab, &c->merge, text, n, c->out, err);
}

static bool has_special(const encode_call *c, size_t from) {
    for (size_t i = from; i < c->out->n; i++) {
        if (mica_tokenizer_is_special(c->t, c->out->ids[i])) return true;
    }
    return false;
}

/* A model may know the spelling of a special token as a piece (Unigram does). What the template
 * wrote was taken out before, so this one is a user's, and goes in by its characters. */
static mica_status encode_piece(encode_call *c, const char *text, size_t n, mica_error *err) {
    size_t n_before = c->out->n;
    mica_status st = run_model(c, text, n, err);
    if (st || c->plain.n == 0 || !has_special(c, n_before)) return st;
    c->out->n = n_before;
    for (size_t i = 0; i < n && !st;) {
        bool is_valid;
        size_t width = mica_utf8_step(text + i, n - i, &is_valid);
        st = run_model(c, text + i, width, err);
        i += width;
    }
    return st;
}

static mica_status encode_normalized(encode_call *c, const char *text, size_t n, bool is_head,
                                     mica_error *err) {
    mica_status st =
        mica_pre_tokenize(c->t->pre_tokenizers, &c->steps, text, n, is_head, &c->pre, err);
    for (size_t i = 0; i < c->pre.pieces.n && !st; i++) {
        text_piece p = c->pre.pieces.items[i];
        st = encode_piece(c, c->pre.text + p.begin, p.end - p.begin, err);
    }
    return st;
}

/* Where [begin, end) of the whole text is of one kind only: up to there. *is_plain: which. */
static size_t same_kind_end(const encode_call *c, size_t begin, size_t end, bool *is_plain) {
    size_t low = 0, high = c->plain.n; /* the first part that ends behind `begin` */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (c->plain.items[middle].end <= begin) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *is_plain = c->plain.all;
    if (low == c->plain.n) return end;
    text_range p = c->plain.items[low];
    *is_plain = p.begin <= begin;
    size_t stop = *is_plain ? p.end : p.begin;
    return stop < end ? stop : end;
}

static bool finds_special(const encode_call *c) {
    for (size_t i = 0; i < c->normalized.n; i++) {
        int32_t id = c->normalized.items[i].id;
        if (id >= 0 && mica_tokenizer_is_special(c->t, id)) return true;
    }
    return false;
}

static mica_status encode_text(encode_call *c, const char *text, size_t n, bool is_head,
                               mica_error *err);

/* Text of both kinds, in which a special token was found behind the normalizer, where places in the
 * text are lost: each kind on its own. */
static mica_status encode_kinds(encode_call *c, const char *text, size_t n, bool is_head,
                                mica_error *err) {
    size_t begin = (size_t)(text - c->text), end = begin + n;
    mica_status st = MICA_OK;
    while (begin < end && !st) {
        bool is_plain;
        size_t stop = same_kind_end(c, begin, end, &is_plain);
        st = encode_text(c, c->text + begin, stop - begin, is_head, err);
        is_head = false;
        begin = stop;
    }
    return st;
}

/* Well-formed text between raw added tokens. */
static mica_status encode_text(encode_call *c, const char *text, size_t n, bool is_head,
                               mica_error *err) {
    const added_tokens *added = &c->t->added;
    size_t begin = (size_t)(text - c->text);
    bool is_plain, is_mixed = same_kind_end(c, begin, begin + n, &is_plain) < begin + n;
    plain_parts plain = {.all = is_plain && !is_mixed};
    const char *source = text;
    size_t n_source = n;
    bool was_head = is_head;
    c->normal.is_head = is_head;
    mica_status st = mica_normalize(c->t->normalizers, &c->steps, text, n, &c->normal, err);
    if (st) return st;
    is_head = is_head && c->normal.keeps_head;
    text = c->normal.text;
    n = c->normal.n;
    c->normalized.n = 0;
    st = mica_added_tokens_split(added, &added->normalized, text, n, plain, &c->normalized, err);
    if (!st && is_mixed && finds_special(c)) {
        return encode_kinds(c, source, n_source, was_head, err);
    }
    for (size_t i = 0; i < c->normalized.n && !st; i++) {
        added_piece p = c->normalized.items[i];
        if (p.id >= 0) {
            st = mica_token_list_push(c->out, p.id, err);
        } else {
            st =
                encode_normalized(c, text + p.begin, p.end - p.begin, is_head && p.begin == 0, err);
        }
    }
    return st;
}

static size_t invalid_run(const char *text, size_t n) {
    size_t i = 0;
    while (i < n) {
        bool is_valid;
        size_t width = mica_utf8_step(text + i, n - i, &is_valid);
        if (is_valid) break;
        i += width;
    }
    return i;
}

/* A stretch between raw added tokens, whatever its bytes. */
static mica_status encode_stretch(encode_call *c, const char *text, size_t n, bool is_head,
                                  mica_error *err) {
    mica_status st = MICA_OK;
    for (size_t i = 0; i < n && !st;) {
        size_t n_valid = utf8_valid_prefix(text + i, n - i);
        if (n_valid) st = encode_text(c, text + i, n_valid, is_head && i == 0, err);
        i += n_valid;
        size_t n_bad = invalid_run(text + i, n - i);
        if (!n_bad || st) continue;
        c->bytes.n = 0;
        st = mica_byte_alphabet_map(&c->bytes, text + i, n_bad, err);
        if (!st) st = encode_piece(c, c->bytes.data, c->bytes.n, err);
        i += n_bad;
    }
    return st;
}

static mica_status encode_all(encode_call *c, const char *text, size_t n, mica_error *err) {
    const added_tokens *added = &c->t->added;
    mica_status st = mica_added_tokens_split(added, &added->raw, text, n, c->plain, &c->raw, err);
    for (size_t i = 0; i < c->raw.n && !st; i++) {
        added_piece p = c->raw.items[i];
        if (p.id >= 0) {
            st = mica_token_list_push(c->out, p.id, err);
        } else {
            st = encode_stretch(c, text + p.begin, p.end - p.begin, p.begin == 0, err);
        }
    }
    return st;
}

/* A copy in which every ill-formed part is U+FFFD. */
static mica_status replace_invalid(const char *text, size_t n, text_buffer *out, mica_error *err) {
    mica_status st = mica_text_buffer_reserve(out, 3 * n, err);
    for (size_t i = 0; i < n && !st;) {
        bool is_valid;
        size_t width = mica_utf8_step(text + i, n - i, &is_valid);
        if (is_valid) {
            text_put_bytes(out, text + i, width);
        } else {
            text_put_char(out, 0xFFFD);
        }
        i += width;
    }
    return st;
}

static mica_status encode_body(const tokenizer *t, const char *text, size_t n,
                               const encode_options *options, token_list *out, mica_error *err) {
    text_buffer copy = {0};
    plain_parts plain = {!options->parse_special, options->plain, options->n_plain};
    if (plain.all) plain.n = 0;
    encode_call c = {.t = t, .plain = plain, .out = out};
    mica_status st = MICA_OK;
    if (!t->is_byte_level && utf8_valid_prefix(text, n) != n) {
        if (plain.n) {
            return mica_fail(err, MICA_E_INVALID, "the text of a conversation is no valid UTF-8");
        }
        st = replace_invalid(text, n, &copy, err);
        text = copy.data;
        n = copy.n;
    }
    c.text = text;
    if (!st) st = encode_all(&c, text, n, err);
    call_deinit(&c);
    mica_text_buffer_deinit(&copy);
    return st;
}

static mica_status push_all(token_list *out, const token_list *ids, mica_error *err) {
    mica_status st = MICA_OK;
    for (size_t i = 0; i < ids->n && !st; i++) {
        st = mica_token_list_push(out, ids->ids[i], err);
    }
    return st;
}

/* A text that spells the beginning-of-sequence token gets no second one: the added one at `at` goes
 * if the text's own follows it. */
static void drop_second_bos(const tokenizer *t, token_list *out, size_t at) {
    if (at + 1 >= out->n || out->ids[at] != t->bos || out->ids[at + 1] != t->bos) return;
    memmove(out->ids + at, out->ids + at + 1, (out->n - at - 1) * sizeof(*out->ids));
    out->n--;
}

mica_status mica_tokenizer_encode(const tokenizer *t, const char *text, size_t n_text,
                                  encode_options options, token_list *out, mica_error *err) {
    size_t n_before = out->n;
    mica_status st = MICA_OK;
    if (options.add_special) st = push_all(out, &t->prefix, err);
    if (!st && n_text) st = encode_body(t, text, n_text, &options, out, err);
    if (!st && options.add_special) {
        if (t->prefix.n) drop_second_bos(t, out, n_before + t->prefix.n - 1);
        st = push_all(out, &t->suffix, err);
    }
    if (st) out->n = n_before;
    return st;
}
