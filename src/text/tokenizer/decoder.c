/* decoder.c: running the per-token part of a decoder.
 */
#include "text/tokenizer/decoder.h"

#include "text/tokenizer/byte_alphabet.h"
#include "text/tokenizer/codepoint.h"

void mica_decoder_scratch_deinit(decoder_scratch *s) {
    mica_step_scratch_deinit(&s->steps);
    mica_text_buffer_deinit(&s->buffers[0]);
    mica_text_buffer_deinit(&s->buffers[1]);
    mica_text_buffer_deinit(&s->previous);
}

static void strip(const decoder_step *step, const char **text, size_t *n) {
    size_t n_content = step->n_content;
    for (size_t i = 0; i < step->n_start && *n >= n_content; i++) {
        if (memcmp(*text, step->content, n_content) != 0) break;
        *text += n_content;
        *n -= n_content;
    }
    for (size_t i = 0; i < step->n_stop && *n >= n_content; i++) {
        if (memcmp(*text + *n - n_content, step->content, n_content) != 0) break;
        *n -= n_content;
    }
}

/* SentencePiece's rule for the space that its dummy prefix made. */
static void cut_head(const decoder_step *step, decoder_scratch *s, const char **text, size_t *n) {
    if (!s->is_at_head || (step->is_first_cut && s->has_cut_head)) return;
    if (*n < step->n_content || memcmp(*text, step->content, step->n_content) != 0) return;
    s->has_cut_head = true;
    *text += step->n_content;
    *n -= step->n_content;
}

/* Replaces in place; `content` is not longer than `literal`. */
static void shrink(text_buffer *b, const char *literal, size_t n_literal, const char *content,
                   size_t n_content) {
    size_t n = 0;
    for (size_t i = 0; i < b->n;) {
        bool is_match = b->n - i >= n_literal && memcmp(b->data + i, literal, n_literal) == 0;
        const char *from = is_match ? content : b->data + i;
        size_t n_from = is_match ? n_content : 1;
        memmove(b->data + n, from, n_from);
        n += n_from;
        i += is_match ? n_literal : 1;
    }
    b->n = n;
}

/* One after another, in the order of the tokenizers library. */
static void clean_up(text_buffer *b) {
    static const char *const pairs[][2] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        shrink(b, pairs[i][0], strlen(pairs[i][0]), pairs[i][1], strlen(pairs[i][1]));
    }
}

static mica_status decode_wordpiece(const decoder_step *step, text_buffer *out, bool is_first,
                                    const char *text, size_t n, mica_error *err) {
    mica_status st = mica_text_buffer_reserve(out, n + 1, err);
    if (st) return st;
    bool has_prefix = n >= step->n_content && memcmp(text, step->content, step->n_content) == 0;
    if (!is_first && has_prefix) {
        text += step->n_content;
        n -= step->n_content;
    } else if (!is_first) {
        text_put_bytes(out, " ", 1);
    }
    text_put_bytes(out, text, n);
    if (step->cleans_up) clean_up(out);
    return MICA_OK;
}

static mica_status decode_ctc(const decoder_step *step, decoder_scratch *s, text_buffer *out,
                              const char *text, size_t n, mica_error *err) {
    bool is_repeat =
        s->has_previous && s->previous.n == n && (!n || memcmp(s->previous.data, text, n) == 0);
    if (is_repeat) return MICA_OK;
    s->has_previous = true;
    s->previous.n = 0;
    mica_status st = mica_text_buffer_append(&s->previous, text, n, err);
    if (!st) st = mica_text_buffer_append(out, text, n, err);
    if (st) return st;
    shrink(out, step->content, step->n_content, "", 0);
    if (!step->cleans_up) return MICA_OK;
    clean_up(out);
    shrink(out, step->delimiter, step->n_delimiter, " ", 1);
    return MICA_OK;
}

static mica_status run_step(const decoder_step *step, decoder_scratch *s, text_buffer *out,
                            bool is_first, const char *text, size_t n, mica_error *err) {
    text_pattern pattern = step->pattern;
    const char *content = step->content;
    size_t n_content = step->n_content;
    out->n = 0;
    mica_status st = mica_text_buffer_reserve(out, 1, err);
    if (st) return st;
    if (step->kind == DECODE_WORDPIECE) return decode_wordpiece(step, out, is_first, text, n, err);
    if (step->kind == DECODE_CTC) return decode_ctc(step, s, out, text, n, err);
    if (step->kind == DECODE_METASPACE || step->kind == DECODE_SUFFIX) {
        bool is_deleted = step->kind == DECODE_SUFFIX ? s->is_last : step->is_first_cut && is_first;
        pattern = (text_pattern){.literal = step->content, .n_literal = step->n_content};
        content = " ";
        n_content = !is_deleted;
    }
    return mica_pattern_replace(&pattern, &s->steps.regex, &s->steps.matches, content, n_content,
                                text, n, out, err);
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    char lower = (char)(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

int mica_fallback_byte(const char *text, size_t n) {
    if (n != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
    int high = hex_digit(text[3]), low = hex_digit(text[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

static mica_status to_bytes(const decoder *d, text_buffer *out, const char **text, size_t *n,
                            mica_error *err) {
    out->n = 0;
    mica_status st = mica_text_buffer_reserve(out, *n + 1, err);
    if (st) return st;
    int byte = d->bytes == BYTES_FALLBACK ? mica_fallback_byte(*text, *n) : -1;
    if (byte >= 0) {
        out->data[out->n++] = (char)byte;
    } else if (d->bytes == BYTES_FALLBACK || !mica_byte_alphabet_unmap(out, *text, *n)) {
        return MICA_OK;
    }
    *text = out->data;
    *n = out->n;
    return MICA_OK;
}

mica_status mica_decoder_run(const decoder *d, decoder_scratch *s, const char *text, size_t n,
                             bool is_first, const char **out, size_t *n_out, mica_error *err) {
    mica_status st;
    int side = 0;
    for (const decoder_step *step = d->steps; step; step = step->next) {
        if (step->kind == DECODE_HEAD) {
            cut_head(step, s, &text, &n);
            continue;
        }
        if (step->kind == DECODE_STRIP) {
            strip(step, &text, &n);
            continue;
        }
        text_buffer *to = &s->buffers[side];
        if ((st = run_step(step, s, to, is_first, text, n, err))) return st;
        text = to->data;
        n = to->n;
        side = !side;
    }
    if (d->bytes && (st = to_bytes(d, &s->buffers[side], &text, &n, err))) return st;
    *out = text;
    *n_out = n;
    return MICA_OK;
}
