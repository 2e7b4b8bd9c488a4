/* word_model.c: longest match from the left; a word of which some part is no token is unknown as a
 * whole.
 */
#include "text/tokenizer/word_model.h"

#include "text/tokenizer/codepoint.h"

static mica_status put_unknown(const word_model *m, token_list *out, mica_error *err) {
    if (m->unk_id >= 0) return mica_token_list_push(out, m->unk_id, err);
    return mica_fail(err, MICA_E_FORMAT,
                     "the text needs the unknown token \"%s\", which is not in the vocabulary",
                     m->unk_text);
}

static size_t count_chars(const char *text, size_t n) {
    size_t n_chars = 0;
    for (size_t i = 0; i < n; i += utf8_width(text[i])) {
        n_chars++;
    }
    return n_chars;
}

/* The longest token at word[begin..n); its end, or `begin` if there is none. `word` has room for
 * the prefix before `begin`: what lies there was read already. */
static size_t longest(const word_model *m, const vocab *v, char *word, size_t begin, size_t n,
                      bool is_first, int32_t *id) {
    size_t n_prefix = is_first ? 0 : strlen(m->prefix);
    char *head = word + begin - n_prefix;
    if (n_prefix) memcpy(head, m->prefix, n_prefix);
    size_t end = n;
    size_t n_mark = strlen(m->head);
    bool has_mark = n_mark && n - begin >= n_mark && memcmp(word + begin, m->head, n_mark) == 0;
    if (v->longest < n_prefix || (has_mark && !is_first)) return begin; /* a mark in the text */
    if (end > begin + v->longest - n_prefix) {
        end = begin + v->longest - n_prefix;
        while (end > begin && ((uint8_t)word[end] & 0xC0) == 0x80) {
            end--;
        }
    }
    for (; end > begin; end = utf8_back(word, end)) {
        *id = mica_vocab_find(v, head, n_prefix + end - begin);
        if (vocab_has_piece(v, *id)) return end;
    }
    return begin;
}

static mica_status put_pieces(const word_model *m, const vocab *v, char *word, size_t begin,
                              size_t n, token_list *out, mica_error *err) {
    size_t n_before = out->n;
    mica_status st = MICA_OK;
    for (size_t at = begin, end; at < n && !st; at = end) {
        int32_t id = -1;
        end = longest(m, v, word, at, n, at == begin, &id);
        if (end == at) {
            out->n = n_before;
            return put_unknown(m, out, err);
        }
        st = mica_token_list_push(out, id, err);
    }
    return st;
}

mica_status mica_word_encode(const word_model *m, const vocab *v, text_buffer *scratch,
                             const char *text, size_t n, token_list *out, mica_error *err) {
    if (m->is_whole) {
        int32_t id = mica_vocab_find(v, text, n);
        return vocab_has_piece(v, id) ? mica_token_list_push(out, id, err)
                                      : put_unknown(m, out, err);
    }
    if (n > m->max_chars && count_chars(text, n) > m->max_chars) return put_unknown(m, out, err);
    /* Room for the prefix, then the word; it is overwritten from the left as parts are read. */
    size_t n_prefix = strlen(m->prefix), n_head = strlen(m->head);
    scratch->n = 0;
    mica_status st = mica_text_buffer_reserve(scratch, n_prefix + n_head + n, err);
    if (st) return st;
    scratch->n = n_prefix;
    text_put_bytes(scratch, m->head, n_head);
    text_put_bytes(scratch, text, n);
    return put_pieces(m, v, scratch->data, n_prefix, scratch->n, out, err);
}
