/* bpe.c: pieces to symbols, merging, symbols to ids.
 *
 * A character without a token becomes its byte tokens if the model falls back to bytes and has all
 * of them, else the unknown token, else nothing.
 */
#include "text/tokenizer/bpe.h"

#include <stdio.h>

#include "text/tokenizer/codepoint.h"

void mica_bpe_deinit(bpe_model *m) {
    mica_free(m->merges);
    mica_free(m->slots);
    mica_free(m->char_ids);
    mica_word_memo_deinit(&m->memo);
    *m = (bpe_model){0};
}

/* ---- merges ---- */

static size_t pair_slot(const bpe_model *m, uint32_t left, uint32_t right) {
    uint64_t h = ((uint64_t)left << 32 | right) * UINT64_C(0x9E3779B97F4A7C15);
    size_t i = (size_t)(h >> 32) & (m->n_slots - 1);
    while (m->slots[i]) {
        const bpe_merge *merge = &m->merges[m->slots[i] - 1];
        if (merge->left == left && merge->right == right) break;
        i = (i + 1) & (m->n_slots - 1);
    }
    return i;
}

mica_status mica_bpe_add_merge(bpe_model *m, bpe_merge merge, mica_error *err) {
    void *grown = mica_text_grow(m->merges, &m->merge_capacity, m->n_merges + 1, sizeof(merge));
    if (!grown) return mica_fail(err, MICA_E_NOMEM, "out of memory for %zu merges", m->n_merges);
    m->merges = grown;
    m->merges[m->n_merges++] = merge;
    return MICA_OK;
}

static mica_status index_merges(bpe_model *m, mica_error *err) {
    m->n_slots = 16;
    while (m->n_slots * 7 < m->n_merges * 10) {
        m->n_slots *= 2;
    }
    m->slots = mica_calloc(m->n_slots, sizeof(*m->slots));
    if (!m->slots) return mica_fail(err, MICA_E_NOMEM, "out of memory for %zu merges", m->n_merges);
    for (size_t i = 0; i < m->n_merges; i++) {
        size_t slot = pair_slot(m, m->merges[i].left, m->merges[i].right);
        if (!m->slots[slot] || m->later_rank_wins) m->slots[slot] = (uint32_t)i + 1;
    }
    return MICA_OK;
}

/* The id of a symbol, which may be a hidden one but not an added token. */
static int32_t find_known(const vocab *v, const char *text, size_t n) {
    int32_t id = mica_vocab_find(v, text, n);
    return id >= 0 && vocab_kind(v, id) != TOKEN_OUTSIDE ? id : -1;
}

static int32_t find_char(const vocab *v, uint32_t c) {
    char text[4];
    return find_known(v, text, mica_utf8_put(text, c));
}

void mica_vocab_byte_ids(const vocab *v, int32_t ids[256]) {
    for (unsigned b = 0; b < 256; b++) {
        char text[8];
        snprintf(text, sizeof(text), "<0x%02X>", b);
        ids[b] = mica_vocab_find(v, text, 6);
    }
}

mica_status mica_bpe_finish(bpe_model *m, const vocab *v, mica_error *err) {
    mica_status st = m->n_slots ? MICA_OK : index_merges(m, err); /* a cache has it */
    if (st) return st;
    m->char_ids = mica_malloc(BPE_N_CHAR_IDS * sizeof(*m->char_ids));
    if (!m->char_ids) return mica_fail(err, MICA_E_NOMEM, "out of memory for a vocabulary");
    for (uint32_t c = 0; c < BPE_N_CHAR_IDS; c++) {
        m->char_ids[c] = find_char(v, c);
    }
    mica_vocab_byte_ids(v, m->byte_ids);
    bool has_ends = m->prefix[0] || m->suffix[0]; /* a cut would decorate other characters */
    bool is_whole = m->ignore_merges;             /* words that are tokens are never merged */
    return has_ends || is_whole ? MICA_OK : mica_word_memo_init(&m->memo, v, err);
}

static bool find_merge(const void *user, const merge_symbol *left, const merge_symbol *right,
                       uint32_t *rank, int32_t *id) {
    const bpe_model *m = user;
    uint32_t slot = m->slots[pair_slot(m, (uint32_t)left->id, (uint32_t)right->id)];
    if (!slot) return false;
    *rank = slot - 1;
    *id = (int32_t)m->merges[slot - 1].id;
    return true;
}

/* ---- symbols ---- */

/* The piece on its way into symbols; an unknown token waits for others to join it. */
typedef struct symbol_builder {
    const bpe_model *model;
    const vocab *vocab;
    merge_scratch *scratch;
    uint32_t unk_begin, unk_n; /* n = 0: none waits */
} symbol_builder;

static mica_status flush_unknown(symbol_builder *b, mica_error *err) {
    if (!b->unk_n) return MICA_OK;
    uint32_t n = b->unk_n;
    b->unk_n = 0;
    return mica_merge_push(b->scratch, b->unk_begin, n, b->model->unk_id, err);
}

static mica_status put_unknown(symbol_builder *b, const char *text, uint32_t begin, uint32_t n,
                               mica_error *err) {
    const bpe_model *m = b->model;
    mica_status st = MICA_OK;
    bool has_bytes = m->byte_fallback;
    for (uint32_t i = 0; i < n && has_bytes; i++) {
        has_bytes = m->byte_ids[(uint8_t)text[begin + i]] >= 0;
    }
    if (has_bytes) {
        st = flush_unknown(b, err);
        for (uint32_t i = begin; i < begin + n && !st; i++) {
            st = mica_merge_push(b->scratch, i, 1, m->byte_ids[(uint8_t)text[i]], err);
        }
        return st;
    }
    if (!m->unk_text) { /* nothing stands for it */
        return m->keeps_gaps ? mica_merge_push(b->scratch, begin, n, -1, err) : MICA_OK;
    }
    if (m->unk_id < 0) {
        return mica_fail(err, MICA_E_FORMAT,
                         "the text needs the unknown token \"%s\", which is not in the vocabulary",
                         m->unk_text);
    }
    if (b->unk_n && m->fuse_unk) {
        b->unk_n += n;
        return MICA_OK;
    }
    if ((st = flush_unknown(b, err))) return st;
    b->unk_begin = begin;
    b->unk_n = n;
    return MICA_OK;
}

/* The token of a character with the model's prefix or suffix around it. */
static int32_t find_decorated(const symbol_builder *b, const char *c, size_t n, bool is_first,
                              bool is_last) {
    char text[256];
    const char *prefix = is_first ? "" : b->model->prefix;
    const char *suffix = is_last ? b->model->suffix : "";
    size_t n_prefix = strlen(prefix), n_suffix = strlen(suffix);
    if (n_prefix + n + n_suffix > sizeof(text)) return -1;
    text_buffer whole = {.data = text, .capacity = sizeof(text)};
    text_put_bytes(&whole, prefix, n_prefix);
    text_put_bytes(&whole, c, n);
    text_put_bytes(&whole, suffix, n_suffix);
    return find_known(b->vocab, text, whole.n);
}

static int32_t find_symbol(const symbol_builder *b, const char *text, size_t begin, size_t width,
                           size_t n) {
    const bpe_model *m = b->model;
    bool is_first = begin == 0, is_last = begin + width == n;
    bool is_decorated = (!is_first && m->prefix[0]) || (is_last && m->suffix[0]);
    if (is_decorated) return find_decorated(b, text + begin, width, is_first, is_last);
    if (width <= 2) {
        uint32_t c = utf8_read(text + begin, &width);
        if (c < BPE_N_CHAR_IDS) return m->char_ids[c];
    }
    return find_known(b->vocab, text + begin, width);
}

static mica_status build_symbols(symbol_builder *b, const char *text, size_t n, mica_error *err) {
    mica_status st = MICA_OK;
    b->scratch->n_symbols = 0;
    for (size_t i = 0, width; i < n && !st; i += width) {
        width = utf8_width(text[i]);
        int32_t id = find_symbol(b, text, i, width, n);
        if (id < 0) {
            st = put_unknown(b, text, (uint32_t)i, (uint32_t)width, err);
        } else {
            st = flush_unknown(b, err);
            if (!st) st = mica_merge_push(b->scratch, (uint32_t)i, (uint32_t)width, id, err);
        }
    }
    return st ? st : flush_unknown(b, err);
}

/* ---- ids ---- */

/* A symbol that is no token falls apart into those of its characters that are. */
static mica_status put_hidden(const vocab *v, int32_t hidden, token_list *out, mica_error *err) {
    size_t n;
    const char *text = vocab_text(v, hidden, &n);
    mica_status st = MICA_OK;
    for (size_t i = 0; i < n && !st;) {
        bool is_valid;
        size_t width = mica_utf8_step(text + i, n - i, &is_valid);
        int32_t id = mica_vocab_find(v, text + i, width);
        if (vocab_has_token(v, id)) st = mica_token_list_push(out, id, err);
        i += width;
    }
    return st;
}

static bool is_newlines(const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (text[i] != '\n') return false;
    }
    return true;
}

static int32_t find_whole(const bpe_model *m, const vocab *v, const char *text, size_t n) {
    if (!m->ignore_merges && !(m->newlines_whole && is_newlines(text, n))) return -1;
    int32_t id = find_known(v, text, n);
    return vocab_has_token(v, id) ? id : -1;
}

static mica_status put_symbols(const bpe_model *m, const vocab *v, const merge_scratch *scratch,
                               token_list *out, mica_error *err) {
    mica_status st = MICA_OK;
    for (int32_t i = scratch->n_symbols ? 0 : -1; i >= 0 && !st; i = scratch->symbols[i].next) {
        int32_t id = scratch->symbols[i].id;
        if (id < 0) continue;
        bool is_hidden = m->has_hidden && vocab_kind(v, id) == TOKEN_HIDDEN;
        st = is_hidden ? put_hidden(v, id, out, err) : mica_token_list_push(out, id, err);
    }
    return st;
}

static mica_status encode_word(const bpe_model *m, const vocab *v, merge_scratch *scratch,
                               const char *text, size_t n, token_list *out, mica_error *err) {
    word_state state = WORD_IS_MORE;
    int32_t id = mica_word_memo_find(&m->memo, v, text, n, &state);
    if (state == WORD_IS_TOKEN) return mica_token_list_push(out, id, err);
    symbol_builder b = {.model = m, .vocab = v, .scratch = scratch};
    mica_status st = build_symbols(&b, text, n, err);
    if (!st && scratch->n_symbols > 1) st = mica_merge_run(scratch, find_merge, m, err);
    size_t n_before = out->n;
    if (!st) st = put_symbols(m, v, scratch, out, err);
    if (!st && state == WORD_NEW) {
        bool is_token = out->n == n_before + 1 && out->ids[n_before] == id;
        mica_word_memo_note(&m->memo, id, is_token ? WORD_IS_TOKEN : WORD_IS_MORE);
    }
    return st;
}

mica_status mica_bpe_encode(const bpe_model *m, const vocab *v, merge_scratch *scratch,
                            const char *text, size_t n, token_list *out, mica_error *err) {
    if (n > INT32_MAX) {
        return mica_fail(err, MICA_E_LIMIT, "a piece of text of %zu bytes is too long", n);
    }
    int32_t whole = find_whole(m, v, text, n);
    if (whole >= 0) return mica_token_list_push(out, whole, err);
    mica_status st = MICA_OK;
    for (size_t begin = 0, n_word; begin < n && !st; begin += n_word) {
        n_word = mica_word_memo_cut(&m->memo, text + begin, n - begin);
        st = encode_word(m, v, scratch, text + begin, n_word, out, err);
    }
    return st;
}
