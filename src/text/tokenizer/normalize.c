/* normalize.c: running normalizers, each from one buffer into the other.
 */
#include "text/tokenizer/normalize.h"

#include <utf8proc.h>

#include "text/tokenizer/byte_alphabet.h"
#include "text/tokenizer/char_class.h"
#include "text/tokenizer/codepoint.h"

/* ---- running ---- */

void mica_normalized_text_deinit(normalized_text *t) {
    mica_text_buffer_deinit(&t->buffers[0]);
    mica_text_buffer_deinit(&t->buffers[1]);
    *t = (normalized_text){0};
}

/* The only character whose lower case has two is U+0130. */
static mica_status lowercase(const char *text, size_t n, text_buffer *out, mica_error *err) {
    mica_status st = mica_text_buffer_reserve(out, 3 * n, err);
    if (st) return st;
    for (size_t i = 0, width; i < n; i += width) {
        uint32_t c = utf8_read(text + i, &width);
        if (c == 0x130) {
            text_put_char(out, 'i');
            text_put_char(out, 0x307);
        } else if (c < 0x80) {
            out->data[out->n++] = (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
        } else {
            text_put_char(out, (uint32_t)utf8proc_tolower((utf8proc_int32_t)c));
        }
    }
    return MICA_OK;
}

static void strip(const normalizer *step, normalized_text *t) {
    size_t begin = 0, end = t->n, width;
    while (step->strip_left && begin < end) {
        if (!mica_char_is_space(utf8_read(t->text + begin, &width))) break;
        begin += width;
    }
    while (step->strip_right && end > begin) {
        size_t last = utf8_back(t->text, end);
        if (!mica_char_is_space(utf8_read(t->text + last, &width))) break;
        end = last;
    }
    if (begin) t->keeps_head = false;
    t->text += begin;
    t->n = end - begin;
}

static bool is_nmt_deleted(uint32_t c) {
    return (c >= 1 && c <= 8) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F || c == 0x8F ||
           c == 0x9F;
}

static bool is_nmt_space(uint32_t c) {
    return c == 9 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 ||
           (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
           c == 0xFEFF || c == 0xFFFD;
}

/* Control, format and private characters; unassigned ones stay. */
static bool is_unclean(uint32_t c) {
    if (c == '\t' || c == '\n' || c == '\r') return false;
    if (c == 0 || c == 0xFFFD) return true;
    int k = utf8proc_category((utf8proc_int32_t)c);
    return k == UTF8PROC_CATEGORY_CC || k == UTF8PROC_CATEGORY_CF || k == UTF8PROC_CATEGORY_CO;
}

static bool is_deleted(normalizer_kind kind, uint32_t c) {
    if (kind == NORMALIZE_NMT) return is_nmt_deleted(c);
    if (kind == NORMALIZE_CLEAN) return is_unclean(c);
    if (kind == NORMALIZE_STRIP_ACCENTS) return mica_char_is_mark(c);
    return c >= 0x300 && utf8proc_category((utf8proc_int32_t)c) == UTF8PROC_CATEGORY_MN;
}

static bool becomes_space(normalizer_kind kind, uint32_t c) {
    return kind == NORMALIZE_NMT ? is_nmt_space(c)
                                 : kind == NORMALIZE_CLEAN && mica_char_is_space(c);
}

static mica_status filter(const normalizer *step, normalized_text *t, text_buffer *out,
                          mica_error *err) {
    mica_status st = mica_text_buffer_reserve(out, t->n, err);
    if (st) return st;
    for (size_t i = 0, width; i < t->n; i += width) {
        uint32_t c = utf8_read(t->text + i, &width);
        if (is_deleted(step->kind, c)) {
            if (i == 0) t->keeps_head = false;
        } else if (becomes_space(step->kind, c)) {
            out->data[out->n++] = ' ';
        } else {
            text_put_bytes(out, t->text + i, width);
        }
    }
    return MICA_OK;
}

/* BERT's CJK blocks, with the odd start of one that the tokenizers library has (BERT: 2B820). */
static bool is_ideograph(uint32_t c) {
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
           (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
           (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
           (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

static mica_status space_ideographs(const char *text, size_t n, text_buffer *out, mica_error *err) {
    mica_status st = mica_text_buffer_reserve(out, 2 * n, err); /* an ideograph has 3 bytes */
    if (st) return st;
    for (size_t i = 0, width; i < n; i += width) {
        bool is_spaced = is_ideograph(utf8_read(text + i, &width));
        if (is_spaced) out->data[out->n++] = ' ';
        text_put_bytes(out, text + i, width);
        if (is_spaced) out->data[out->n++] = ' ';
    }
    return MICA_OK;
}

static bool begins_with_match(const normalizer *step, const step_scratch *scratch,
                              const normalized_text *t) {
    const text_pattern *p = &step->pattern;
    if (!p->regex) return t->n >= p->n_literal && memcmp(t->text, p->literal, p->n_literal) == 0;
    const text_piece *first = scratch->matches.n ? &scratch->matches.items[0] : NULL;
    return first && first->is_match && first->end > first->begin;
}

static mica_status replace(const normalizer *step, step_scratch *scratch, normalized_text *t,
                           text_buffer *out, mica_error *err) {
    mica_status st = mica_pattern_replace(&step->pattern, &scratch->regex, &scratch->matches,
                                          step->content, step->n_content, t->text, t->n, out, err);
    if (!step->n_content && begins_with_match(step, scratch, t)) t->keeps_head = false;
    return st;
}

static mica_status run_step(const normalizer *step, step_scratch *scratch, normalized_text *t,
                            text_buffer *out, mica_error *err) {
    switch (step->kind) {
    case NORMALIZE_NFC:
    case NORMALIZE_NFD:
    case NORMALIZE_NFKC:
    case NORMALIZE_NFKD:
        return mica_normalize_unicode(step->kind, t->text, t->n, out, err);
    case NORMALIZE_LOWERCASE:
        return lowercase(t->text, t->n, out, err);
    case NORMALIZE_STRIP_ACCENTS:
    case NORMALIZE_STRIP_NONSPACING:
    case NORMALIZE_CLEAN:
    case NORMALIZE_NMT:
        return filter(step, t, out, err);
    case NORMALIZE_SPACE_IDEOGRAPHS:
        return space_ideographs(t->text, t->n, out, err);
    case NORMALIZE_CHARSMAP:
        return mica_charsmap_clusters(&step->map, t->text, t->n, out, err);
    case NORMALIZE_SENTENCEPIECE:
        return mica_charsmap_sentencepiece(&step->map, step->spaces, t->is_head, t->text, t->n, out,
                                           err);
    case NORMALIZE_REPLACE:
        return replace(step, scratch, t, out, err);
    case NORMALIZE_PREPEND: {
        mica_status st = MICA_OK;
        if (t->n) st = mica_text_buffer_append(out, step->content, step->n_content, err);
        return st ? st : mica_text_buffer_append(out, t->text, t->n, err);
    }
    case NORMALIZE_BYTES:
        return mica_byte_alphabet_map(out, t->text, t->n, err);
    case NORMALIZE_STRIP:
        break; /* moves the ends only */
    }
    return MICA_OK;
}

mica_status mica_normalize(const normalizer *list, step_scratch *scratch, const char *text,
                           size_t n, normalized_text *t, mica_error *err) {
    t->text = text;
    t->n = n;
    t->keeps_head = true;
    int side = 0;
    for (const normalizer *step = list; step; step = step->next) {
        if (step->kind == NORMALIZE_STRIP) {
            strip(step, t);
            continue;
        }
        text_buffer *out = &t->buffers[side];
        out->n = 0;
        mica_status st = run_step(step, scratch, t, out, err);
        if (st || (st = mica_text_check_growth(out->n, n, err))) return st;
        t->text = out->data ? out->data : "";
        t->n = out->n;
        side = !side;
    }
    return MICA_OK;
}
