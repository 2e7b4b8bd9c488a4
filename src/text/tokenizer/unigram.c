/* unigram.c: Viterbi over byte positions, and what becomes of characters that are no piece.
 *
 * Shorter pieces are tried first and a way is replaced only by a strictly better one, as in the
 * tokenizers library and in SentencePiece. An unknown character is an edge of its own, 10 below the
 * lowest score, where no piece of one character exists. Neighbouring unknown ones are joined; with
 * byte fallback they become byte pieces.
 */
#include "text/tokenizer/unigram.h"

#include <math.h>

#include "text/tokenizer/bpe.h"
#include "text/tokenizer/codepoint.h"

#define UNKNOWN_PENALTY 10.0

void mica_unigram_deinit(unigram_model *m) {
    mica_free(m->scores);
    mica_piece_trie_deinit(&m->pieces);
    *m = (unigram_model){0};
}

mica_status mica_unigram_push_score(unigram_model *m, double score, mica_error *err) {
    void *grown = mica_text_grow(m->scores, &m->capacity, m->n_scores + 1, sizeof(score));
    if (!grown) return mica_fail(err, MICA_E_NOMEM, "out of memory for %zu scores", m->n_scores);
    m->scores = grown;
    m->scores[m->n_scores++] = score;
    return MICA_OK;
}

mica_status mica_unigram_finish(unigram_model *m, const vocab *v, mica_error *err) {
    double lowest = INFINITY;
    bool has_trie = m->pieces.n_nodes != 0; /* a cache has it */
    for (size_t id = 0; id < m->n_scores; id++) {
        uint8_t kind = vocab_kind(v, (int32_t)id);
        if (kind == TOKEN_NORMAL && m->scores[id] < lowest) lowest = m->scores[id];
        if (has_trie || (kind != TOKEN_NORMAL && kind != TOKEN_USER)) continue;
        size_t n;
        const char *text = vocab_text(v, (int32_t)id, &n);
        mica_status st = mica_piece_trie_add(&m->pieces, text, n, (int32_t)id, err);
        if (st) return st;
    }
    m->unk_score = isfinite(lowest) ? lowest - UNKNOWN_PENALTY : -UNKNOWN_PENALTY;
    mica_vocab_byte_ids(v, m->byte_ids);
    return MICA_OK;
}

/* ---- the best way ---- */

static void reach(const unigram_model *m, unigram_cell *cells, size_t begin, size_t end, int32_t id,
                  double score) {
    unigram_cell *to = &cells[end];
    double sum = cells[begin].score + score;
    if (m->is_single) sum = (float)sum;
    if (to->is_reached && !(sum > to->score)) return;
    to->is_reached = true;
    to->score = sum;
    to->begin = (uint32_t)begin;
    to->id = id;
}

/* All edges that begin at the character text[begin..begin + width). */
static void follow(const unigram_model *m, unigram_cell *cells, const char *text, size_t n,
                   size_t begin, size_t width) {
    bool has_single = false;
    uint32_t node = 0;
    for (size_t i = begin; i < n && m->pieces.n_nodes; i++) {
        node = piece_trie_child(&m->pieces, node, text[i]);
        if (!node) break;
        int32_t id = m->pieces.ids[node];
        if (id < 0) continue;
        reach(m, cells, begin, i + 1, id, m->scores[id]);
        has_single = has_single || i + 1 == begin + width;
    }
    if (!has_single) reach(m, cells, begin, begin + width, m->unk_id, m->unk_score);
}

/* Fills `next` along the best way. */
static void trace(unigram_cell *cells, size_t n) {
    for (size_t end = n; end > 0; end = cells[end].begin) {
        cells[cells[end].begin].next = (uint32_t)end;
    }
}

/* ---- ids ---- */

static mica_status put_unknown(const unigram_model *m, const vocab *v, const char *text, size_t n,
                               token_list *out, mica_error *err) {
    int32_t id = mica_vocab_find(v, text, n);
    if (vocab_has_piece(v, id)) return mica_token_list_push(out, id, err);
    bool has_bytes = m->byte_fallback;
    for (size_t i = 0; i < n && has_bytes; i++) {
        has_bytes = m->byte_ids[(uint8_t)text[i]] >= 0;
    }
    mica_status st = MICA_OK;
    for (size_t i = 0; i < n && has_bytes && !st; i++) {
        st = mica_token_list_push(out, m->byte_ids[(uint8_t)text[i]], err);
    }
    if (has_bytes) return st;
    if (m->unk_id >= 0) return mica_token_list_push(out, m->unk_id, err);
    return mica_fail(err, MICA_E_FORMAT,
                     "the text has a character that is no piece of the vocabulary, which has no "
                     "unknown piece");
}

static mica_status emit(const unigram_model *m, const vocab *v, const unigram_cell *cells,
                        const char *text, size_t n, token_list *out, mica_error *err) {
    mica_status st = MICA_OK;
    for (size_t begin = 0, end; begin < n && !st; begin = end) {
        end = cells[begin].next;
        if (cells[end].id != m->unk_id) {
            st = mica_token_list_push(out, cells[end].id, err);
            continue;
        }
        while (end < n && cells[cells[end].next].id == m->unk_id) {
            end = cells[end].next;
        }
        st = put_unknown(m, v, text + begin, end - begin, out, err);
    }
    return st;
}

mica_status mica_unigram_encode(const unigram_model *m, const vocab *v, unigram_scratch *scratch,
                                const char *text, size_t n, token_list *out, mica_error *err) {
    if (n > INT32_MAX) {
        return mica_fail(err, MICA_E_LIMIT, "a piece of text of %zu bytes is too long", n);
    }
    void *grown = mica_text_grow(scratch->cells, &scratch->capacity, n + 1, sizeof(unigram_cell));
    if (!grown) return mica_fail(err, MICA_E_NOMEM, "out of memory for %zu bytes of text", n);
    unigram_cell *cells = scratch->cells = grown;
    memset(cells, 0, (n + 1) * sizeof(*cells));
    for (size_t i = 0, width; i < n; i += width) {
        width = utf8_width(text[i]);
        follow(m, cells, text, n, i, width);
    }
    trace(cells, n);
    return emit(m, v, cells, text, n, out, err);
}
