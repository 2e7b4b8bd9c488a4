/* detokenizer.c: ids to text, as they come. The whole decode is the sum of the pieces, so that both
 * can never differ.
 *
 * Bytes of tokens run through a UTF-8 reader that holds back an unfinished sequence (at most 3
 * bytes) and replaces what can never become valid, one U+FFFD for each maximal part.
 */
#include "text/tokenizer/impl.h"

struct detokenizer_scratch {
    decoder_scratch decoder;
    bool has_waiting; /* where the decoder treats the last token otherwise, one token waits */
    bool is_waiting_first;
    int32_t waiting_id;
};

void mica_detokenizer_init(detokenizer *d, const tokenizer *t, bool skip_special) {
    *d = (detokenizer){.tokenizer = t, .skip_special = skip_special};
}

void mica_detokenizer_deinit(detokenizer *d) {
    if (d->scratch) mica_decoder_scratch_deinit(&d->scratch->decoder);
    mica_free(d->scratch);
    mica_free(d->text);
    *d = (detokenizer){0};
}

static mica_status reserve(detokenizer *d, size_t n_more, mica_error *err) {
    void *grown = mica_text_grow(d->text, &d->capacity, d->n_text + n_more, 1);
    if (!grown) return mica_fail(err, MICA_E_NOMEM, "out of memory for decoded text");
    d->text = grown;
    return MICA_OK;
}

/* A finished character, or U+FFFD. The head of the text may lose some spaces here. */
static void release(detokenizer *d, const char *c, size_t n) {
    const decoder *rules = &d->tokenizer->decoder;
    if (!d->is_past_head) {
        if (d->n_stripped < rules->n_strip && n == 1 && c[0] == rules->strip_char) {
            d->n_stripped++;
            return;
        }
        d->is_past_head = true;
    }
    memcpy(d->text + d->n_text, c, n);
    d->n_text += n;
}

static void release_replacement(detokenizer *d) { release(d, "\xEF\xBF\xBD", 3); }

/* Whether more bytes can follow this one; mica_utf8_step checked those that did. */
static bool is_lead(char c) { return (uint8_t)c >= 0xC2 && (uint8_t)c <= 0xF4; }

/* Feeds bytes; three bytes of room for each and for the held ones are reserved. */
static void feed(detokenizer *d, const char *bytes, size_t n) {
    char joined[8];
    for (size_t i = 0; i < n;) {
        size_t n_held = (size_t)d->n_held, n_new = n - i < 4 - n_held ? n - i : 4 - n_held;
        memcpy(joined, d->held, n_held);
        memcpy(joined + n_held, bytes + i, n_new);
        bool is_valid;
        size_t width = mica_utf8_step(joined, n_held + n_new, &is_valid);
        if (is_valid) {
            release(d, joined, width);
        } else if (width == n_held + n_new && is_lead(joined[0])) {
            memcpy(d->held, joined, width);
            d->n_held = (int)width;
            return;
        } else {
            release_replacement(d);
        }
        /* An ill-formed part is never shorter than what was held. */
        i += width - n_held;
        d->n_held = 0;
    }
}

static mica_status emit(detokenizer *d, const char *bytes, size_t n, mica_error *err) {
    mica_status st = reserve(d, 3 * (n + 4), err);
    if (!st) feed(d, bytes, n);
    return st;
}

static mica_status push_decoded(detokenizer *d, int32_t id, bool is_first, mica_error *err) {
    const tokenizer *t = d->tokenizer;
    size_t n;
    const char *text = vocab_text(&t->vocab, id, &n);
    mica_status st = MICA_OK;
    if (t->decoder.joins_with_space && !is_first && (st = emit(d, " ", 1, err))) return st;
    bool is_unknown = t->unk_surface && vocab_kind(&t->vocab, id) == TOKEN_UNKNOWN;
    if (is_unknown) return emit(d, t->unk_surface, t->n_unk_surface, err);
    int byte = vocab_kind(&t->vocab, id) == TOKEN_BYTE ? mica_fallback_byte(text, n) : -1;
    if (byte >= 0) {
        char c = (char)byte;
        return emit(d, &c, 1, err);
    }
    if (!(t->vocab.kind[id] & TOKEN_LITERAL)) {
        d->scratch->decoder.is_at_head = !d->is_past_head && !d->n_held;
        st = mica_decoder_run(&t->decoder, &d->scratch->decoder, text, n, is_first, &text, &n, err);
    }
    return st ? st : emit(d, text, n, err);
}

/* Decodes the token that waits. */
static mica_status push_waiting(detokenizer *d, bool is_last, mica_error *err) {
    struct detokenizer_scratch *s = d->scratch;
    if (!s || !s->has_waiting) return MICA_OK;
    s->has_waiting = false;
    s->decoder.is_last = is_last;
    return push_decoded(d, s->waiting_id, s->is_waiting_first, err);
}

mica_status mica_detokenizer_push(detokenizer *d, int32_t id, mica_error *err) {
    const tokenizer *t = d->tokenizer;
    d->n_text = 0;
    if (!vocab_has_token(&t->vocab, id)) return MICA_OK;
    if (d->skip_special && (t->vocab.kind[id] & TOKEN_SPECIAL)) return MICA_OK;
    if (!d->scratch) d->scratch = mica_calloc(1, sizeof(*d->scratch));
    if (!d->scratch) return mica_fail(err, MICA_E_NOMEM, "out of memory for decoding");
    bool is_first = !d->started;
    d->started = true;
    if (!t->decoder.needs_last) return push_decoded(d, id, is_first, err);
    mica_status st = push_waiting(d, false, err);
    d->scratch->has_waiting = true;
    d->scratch->is_waiting_first = is_first;
    d->scratch->waiting_id = id;
    return st;
}

mica_status mica_detokenizer_finish(detokenizer *d, mica_error *err) {
    d->n_text = 0;
    mica_status st = push_waiting(d, true, err);
    if (st || !d->n_held) return st;
    if ((st = reserve(d, 3, err))) return st;
    d->n_held = 0;
    release_replacement(d);
    return MICA_OK;
}

mica_status mica_tokenizer_decode(const tokenizer *t, const int32_t *ids, size_t n_ids,
                                  bool skip_special, char **out, size_t *n_out, mica_error *err) {
    detokenizer d;
    text_buffer all = {0};
    mica_detokenizer_init(&d, t, skip_special);
    mica_status st = MICA_OK;
    for (size_t i = 0; i <= n_ids && !st; i++) {
        st = i < n_ids ? mica_detokenizer_push(&d, ids[i], err) : mica_detokenizer_finish(&d, err);
        if (!st && d.n_text) st = mica_text_buffer_append(&all, d.text, d.n_text, err);
    }
    mica_detokenizer_deinit(&d);
    if (!st) st = mica_text_buffer_reserve(&all, 1, err);
    if (st) {
        mica_text_buffer_deinit(&all);
        return st;
    }
    all.data[all.n] = '\0';
    *out = all.data;
    *n_out = all.n;
    return MICA_OK;
}
