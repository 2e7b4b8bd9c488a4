/* pretokenize.c: running pre-tokenizers: each step turns a list of pieces into the next one.
 *
 * Most steps only cut. Those that change the text write all pieces into a new buffer.
 */
#include "text/tokenizer/pretokenize.h"

#include "text/tokenizer/byte_alphabet.h"
#include "text/tokenizer/char_class.h"
#include "text/tokenizer/codepoint.h"

void mica_pre_tokens_deinit(pre_tokens *p) {
    mica_free(p->pieces.items);
    mica_free(p->other.items);
    mica_text_buffer_deinit(&p->buffers[0]);
    mica_text_buffer_deinit(&p->buffers[1]);
    *p = (pre_tokens){0};
}

/* ---- steps that cut ---- */

/* Kinds of characters: each character of kind MATCH_EACH is a match, gaps are runs of the rest. */
static mica_status find_chars(pre_tokenizer_kind kind, const char *text, size_t n, piece_list *out,
                              mica_error *err) {
    size_t gap = 0;
    mica_status st;
    for (size_t i = 0, width; i < n; i += width) {
        uint32_t c = utf8_read(text + i, &width);
        bool is_match = kind == PRE_DIGITS        ? mica_char_is_numeric(c)
                        : kind == PRE_PUNCTUATION ? mica_char_is_punctuation(c)
                                                  : mica_char_is_space(c);
        if (!is_match) continue;
        if (gap < i) {
            if ((st = mica_piece_push(out, (text_piece){.begin = gap, .end = i}, err))) return st;
        }
        text_piece match = {.begin = i, .end = i + width, .is_match = true};
        if ((st = mica_piece_push(out, match, err))) return st;
        gap = i + width;
    }
    if (gap == n) return MICA_OK;
    return mica_piece_push(out, (text_piece){.begin = gap, .end = n}, err);
}

/* 0 white space, 1 word, 2 the rest. */
static int word_class(uint32_t c) {
    return mica_char_is_space(c) ? 0 : mica_char_is_word(c) ? 1 : 2;
}

static mica_status cut_words(const char *text, size_t n, piece_list *out, mica_error *err) {
    for (size_t i = 0, width; i < n;) {
        size_t begin = i;
        int class = word_class(utf8_read(text + i, &width));
        do {
            i += width;
        } while (i < n && word_class(utf8_read(text + i, &width)) == class);
        if (!class) continue;
        mica_status st = mica_piece_push(out, (text_piece){.begin = begin, .end = i}, err);
        if (st) return st;
    }
    return MICA_OK;
}

static mica_status cut_lengths(size_t n_chars, const char *text, size_t n, piece_list *out,
                               mica_error *err) {
    for (size_t i = 0; i < n;) {
        size_t begin = i;
        for (size_t k = 0; k < n_chars && i < n; k++) {
            i += utf8_width(text[i]);
        }
        mica_status st = mica_piece_push(out, (text_piece){.begin = begin, .end = i}, err);
        if (st) return st;
    }
    return MICA_OK;
}

/* Matches are pieces, leftmost and longest, and the gaps between them. */
static mica_status find_pieces(const piece_trie *pieces, const char *text, size_t n,
                               piece_list *out, mica_error *err) {
    size_t gap = 0;
    mica_status st = MICA_OK;
    for (size_t i = 0, width; i < n && !st; i += width) {
        int32_t id;
        size_t n_piece = mica_piece_trie_longest(pieces, text + i, n - i, &id);
        width = n_piece ? n_piece : utf8_width(text[i]);
        if (!n_piece) continue;
        if (gap < i) st = mica_piece_push(out, (text_piece){.begin = gap, .end = i}, err);
        text_piece match = {.begin = i, .end = i + width, .is_match = true};
        if (!st) st = mica_piece_push(out, match, err);
        gap = i + width;
    }
    if (st || gap == n) return st;
    return mica_piece_push(out, (text_piece){.begin = gap, .end = n}, err);
}

static mica_status cut_piece(const pre_tokenizer *step, step_scratch *scratch, const char *text,
                             size_t n, mica_error *err) {
    piece_list *out = &scratch->matches;
    mica_status st;
    out->n = 0;
    switch (step->kind) {
    case PRE_SPLIT:
        st = mica_pattern_find_all(&step->pattern, &scratch->regex, text, n, out, err);
        break;
    case PRE_WHITESPACE:
        return cut_words(text, n, out, err);
    case PRE_PIECES:
        st = find_pieces(step->pieces, text, n, out, err);
        break;
    case PRE_FIXED_LENGTH:
        return cut_lengths(step->n_chars, text, n, out, err);
    default:
        st = find_chars(step->kind, text, n, out, err);
        break;
    }
    if (st || !out->n) return st;
    split_behavior behavior = step->kind == PRE_WHITESPACE_ONLY ? SPLIT_REMOVED : step->behavior;
    mica_split_apply(out, behavior, step->is_inverted);
    return MICA_OK;
}

static mica_status cut_all(const pre_tokenizer *step, step_scratch *scratch, pre_tokens *p,
                           mica_error *err) {
    p->other.n = 0;
    for (size_t i = 0; i < p->pieces.n; i++) {
        const text_piece piece = p->pieces.items[i];
        mica_status st =
            cut_piece(step, scratch, p->text + piece.begin, piece.end - piece.begin, err);
        for (size_t k = 0; k < scratch->matches.n && !st; k++) {
            text_piece part = scratch->matches.items[k];
            part.is_head = piece.is_head && part.begin == 0;
            part.is_match = false;
            part.begin += piece.begin;
            part.end += piece.begin;
            st = mica_piece_push(&p->other, part, err);
        }
        if (st) return st;
    }
    piece_list done = p->other;
    p->other = p->pieces;
    p->pieces = done;
    return MICA_OK;
}

/* ---- steps that change the text ---- */

static bool starts_with(const char *text, size_t n, const char *head, size_t n_head) {
    return n >= n_head && memcmp(text, head, n_head) == 0;
}

static mica_status put_metaspace(const pre_tokenizer *step, const char *text, size_t n,
                                 bool is_head, text_buffer *out, mica_error *err) {
    bool has_prefix = starts_with(text, n, " ", 1) ||
                      starts_with(text, n, step->replacement, step->n_replacement);
    bool is_wanted = step->scheme == PREPEND_ALWAYS || (step->scheme == PREPEND_FIRST && is_head);
    mica_status st = MICA_OK;
    if (is_wanted && !has_prefix) {
        st = mica_text_buffer_append(out, step->replacement, step->n_replacement, err);
    }
    for (size_t i = 0; i < n && !st;) {
        const char *space = memchr(text + i, ' ', n - i);
        size_t end = space ? (size_t)(space - text) : n;
        st = mica_text_buffer_append(out, text + i, end - i, err);
        if (!st && space) {
            st = mica_text_buffer_append(out, step->replacement, step->n_replacement, err);
        }
        i = end + 1;
    }
    return st;
}

static mica_status change_piece(const pre_tokenizer *step, const char *text, size_t n, bool is_head,
                                text_buffer *out, mica_error *err) {
    if (step->kind == PRE_METASPACE) return put_metaspace(step, text, n, is_head, out, err);
    if (step->kind == PRE_BYTES) return mica_byte_alphabet_map(out, text, n, err);
    mica_status st = MICA_OK;
    if (!starts_with(text, n, " ", 1)) st = mica_text_buffer_append(out, " ", 1, err);
    return st ? st : mica_text_buffer_append(out, text, n, err);
}

static mica_status change_all(const pre_tokenizer *step, pre_tokens *p, text_buffer *out,
                              mica_error *err) {
    out->n = 0;
    for (size_t i = 0; i < p->pieces.n; i++) {
        text_piece *piece = &p->pieces.items[i];
        size_t begin = out->n;
        mica_status st = change_piece(step, p->text + piece->begin, piece->end - piece->begin,
                                      piece->is_head, out, err);
        if (st) return st;
        piece->begin = begin;
        piece->end = out->n;
    }
    p->text = out->data ? out->data : "";
    return MICA_OK;
}

mica_status mica_pre_tokenize(const pre_tokenizer *list, step_scratch *scratch, const char *text,
                              size_t n, bool is_head, pre_tokens *p, mica_error *err) {
    p->text = text;
    p->pieces.n = 0;
    if (!n) return MICA_OK;
    mica_status st =
        mica_piece_push(&p->pieces, (text_piece){.begin = 0, .end = n, .is_head = is_head}, err);
    int side = 0;
    for (const pre_tokenizer *step = list; step && !st; step = step->next) {
        bool is_change = step->kind == PRE_METASPACE || step->kind == PRE_PREFIX_SPACE ||
                         step->kind == PRE_BYTES;
        if (is_change) {
            st = change_all(step, p, &p->buffers[side], err);
            side = !side;
        } else {
            st = cut_all(step, scratch, p, err);
        }
    }
    return st;
}
