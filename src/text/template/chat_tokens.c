/* chat_tokens.c: encodes a rendering in one piece, so that tokens form across the borders of what
 * template and users wrote as they would in any text, and tells the tokenizer which parts of it
 * may hold no special token.
 */
#include "text/template/chat_tokens.h"

#include "text/tokenizer/text_buffer.h"

typedef struct ranges {
    text_range *items;
    size_t n, capacity;
} ranges;

/* Appends a part; what touches the last joins it. */
static mica_status add(ranges *r, size_t begin, size_t end, mica_error *err) {
    if (begin == end) return MICA_OK;
    if (r->n && r->items[r->n - 1].end == begin) {
        r->items[r->n - 1].end = end;
        return MICA_OK;
    }
    text_range *grown = mica_text_grow(r->items, &r->capacity, r->n + 1, sizeof(*grown));
    if (!grown) return mica_fail(err, MICA_E_NOMEM, "out of memory for parts of a conversation");
    r->items = grown;
    r->items[r->n++] = (text_range){begin, end};
    return MICA_OK;
}

/* An earlier answer without the marks in it. */
static mica_status add_assistant(ranges *r, const rendered_text *text, const text_span *span,
                                 const toolcall_dialect *dialect, mica_error *err) {
    size_t done = span->begin;
    mica_status st = MICA_OK;
    for (size_t i = span->begin; i < span->end && !st && dialect;) {
        size_t n = mica_toolcall_reasoning_mark_at(dialect, text->text + i, span->end - i);
        if (n) {
            st = add(r, done, i, err);
            done = i + n;
        }
        i += n ? n : 1;
    }
    return st ? st : add(r, done, span->end, err);
}

mica_status mica_chat_encode(const tokenizer *t, const rendered_text *text,
                             const toolcall_dialect *dialect, token_list *out, mica_error *err) {
    ranges plain = {0};
    mica_status st = MICA_OK;
    for (size_t i = 0; i < text->n_spans && !st; i++) {
        const text_span *span = &text->spans[i];
        if (span->origin == ORIGIN_DATA) st = add(&plain, span->begin, span->end, err);
        if (span->origin == ORIGIN_ASSISTANT) st = add_assistant(&plain, text, span, dialect, err);
    }
    const encode_options options = {
        .parse_special = true, .plain = plain.items, .n_plain = plain.n};
    if (!st) st = mica_tokenizer_encode(t, text->text, text->n, options, out, err);
    mica_free(plain.items);
    return st;
}
