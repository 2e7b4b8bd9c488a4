/* chat_tokens.c: encodes a rendering in as few pieces as its origins allow.
 *
 * Most messages hold no marker, and then the whole text is encoded at once: cutting it would keep
 * merges from crossing the cuts. A span of foreign text is cut out only if it encodes differently
 * with special tokens than without.
 */
#include "text/template/chat_tokens.h"

#include <string.h>

static mica_status encode(const tokenizer *t, const char *text, size_t n, bool parse_special,
                          token_list *out, mica_error *err) {
    const encode_options options = {.add_special = false, .parse_special = parse_special};
    return n ? mica_tokenizer_encode(t, text, n, options, out, err) : MICA_OK;
}

/* Whether a span of foreign text spells special tokens. */
static mica_status spells_special(const tokenizer *t, const char *text, size_t n, bool *out,
                                  mica_error *err) {
    token_list with = {0}, without = {0};
    mica_status st = encode(t, text, n, true, &with, err);
    if (!st) st = encode(t, text, n, false, &without, err);
    *out = !st && (with.n != without.n ||
                   (with.n && memcmp(with.ids, without.ids, with.n * sizeof(*with.ids)) != 0));
    mica_free(with.ids);
    mica_free(without.ids);
    return st;
}

mica_status mica_chat_encode(const tokenizer *t, const rendered_text *text, token_list *out,
                             mica_error *err) {
    size_t done = 0;
    for (size_t i = 0; i < text->n_spans; i++) {
        const text_span *span = &text->spans[i];
        if (span->origin != ORIGIN_DATA) continue;
        const char *foreign = text->text + span->begin;
        size_t n = span->end - span->begin;
        bool cut;
        mica_status st = spells_special(t, foreign, n, &cut, err);
        if (st) return st;
        if (!cut) continue;
        st = encode(t, text->text + done, span->begin - done, true, out, err);
        if (!st) st = encode(t, foreign, n, false, out, err);
        if (st) return st;
        done = span->end;
    }
    return encode(t, text->text + done, text->n - done, true, out, err);
}
