/* spm.c: merging by score, and what becomes of symbols that are no piece.
 *
 * Only normal, user-defined and unused pieces match text. A character that is no piece becomes its
 * byte pieces if all exist, else the unknown piece, of which neighbours are joined into one.
 */
#include "text/tokenizer/spm.h"

#include "base/dtype.h"
#include "text/tokenizer/bpe.h"
#include "text/tokenizer/codepoint.h"

void mica_spm_deinit(spm_model *m) {
    mica_free(m->ranks);
    mica_word_memo_deinit(&m->memo);
    *m = (spm_model){0};
}

/* How an unused piece falls apart depends on all of a text, and ranks are looked up whole. */
mica_status mica_spm_finish(spm_model *m, const vocab *v, mica_error *err) {
    mica_vocab_byte_ids(v, m->byte_ids);
    return m->has_unused || m->takes_whole ? MICA_OK : mica_word_memo_init(&m->memo, v, err);
}

/* The bits of a positive float rise with its value, those of a negative one fall. */
uint32_t mica_spm_rank(float score) {
    uint32_t bits = mica_f32_bits(score + 0.0f); /* -0 becomes 0 */
    uint32_t ascending = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return ~ascending;
}

/* One call. For an unused piece, `left_n` has the length of the left part of the pair that last
 * made it, as SentencePiece remembers it. */
typedef struct spm_call {
    const spm_model *model;
    const vocab *vocab;
    const char *text;
    uint32_t *left_n; /* by id; NULL if the vocabulary has no unused pieces */
    bool was_unknown; /* the id before was an unknown piece */
} spm_call;

static int32_t find_piece(const vocab *v, const char *text, size_t n) {
    int32_t id = mica_vocab_find(v, text, n);
    if (id < 0) return -1;
    uint8_t kind = vocab_kind(v, id);
    return kind == TOKEN_NORMAL || kind == TOKEN_USER || kind == TOKEN_UNUSED ? id : -1;
}

static bool find_pair(const void *user, const merge_symbol *left, const merge_symbol *right,
                      uint32_t *rank, int32_t *id) {
    const spm_call *call = user;
    *id = find_piece(call->vocab, call->text + left->begin, (size_t)left->n + right->n);
    if (*id < 0) return false;
    *rank = call->model->ranks[*id];
    if (call->left_n && vocab_kind(call->vocab, *id) == TOKEN_UNUSED) {
        call->left_n[*id] = left->n;
    }
    return true;
}

static mica_status put_character(spm_call *call, const char *c, size_t n, token_list *out,
                                 mica_error *err) {
    const spm_model *m = call->model;
    bool has_bytes = true;
    for (size_t i = 0; i < n; i++) {
        has_bytes = has_bytes && m->byte_ids[(uint8_t)c[i]] >= 0;
    }
    mica_status st = MICA_OK;
    for (size_t i = 0; i < n && has_bytes && !st; i++) {
        st = mica_token_list_push(out, m->byte_ids[(uint8_t)c[i]], err);
    }
    if (has_bytes) {
        call->was_unknown = false;
        return st;
    }
    if (m->unk_id < 0) return MICA_OK; /* nothing stands for it */
    if (!call->was_unknown) st = mica_token_list_push(out, m->unk_id, err);
    call->was_unknown = true;
    return st;
}

typedef struct span {
    uint32_t begin, n;
} span;

/* Emits a symbol. An unused piece is split as it was made; `stack` holds the parts to the right,
 * each a proper part of what lies below it. */
static mica_status put_symbol(spm_call *call, span first, token_list *out, mica_error *err) {
    span *stack = NULL;
    size_t n_stack = 0, capacity = 0;
    mica_status st = MICA_OK;
    span s = first;
    for (;;) {
        int32_t id = find_piece(call->vocab, call->text + s.begin, s.n);
        bool is_unused = id >= 0 && call->left_n && vocab_kind(call->vocab, id) == TOKEN_UNUSED;
        uint32_t left_n = is_unused ? call->left_n[id] : 0;
        if (left_n) {
            void *grown = mica_text_grow(stack, &capacity, n_stack + 1, sizeof(*stack));
            if (!grown) st = mica_fail(err, MICA_E_NOMEM, "out of memory for a piece of text");
            if (st) break;
            stack = grown;
            stack[n_stack++] = (span){s.begin + left_n, s.n - left_n};
            s.n = left_n;
            continue;
        }
        if (id < 0) {
            st = put_character(call, call->text + s.begin, s.n, out, err);
        } else {
            st = mica_token_list_push(out, id, err);
            call->was_unknown = false;
        }
        if (st || !n_stack) break;
        s = stack[--n_stack];
    }
    mica_free(stack);
    return st;
}

static mica_status merge_word(spm_call *call, merge_scratch *scratch, size_t n, token_list *out,
                              mica_error *err) {
    mica_status st = MICA_OK;
    scratch->n_symbols = 0;
    for (size_t i = 0, width; i < n && !st; i += width) {
        width = utf8_width(call->text[i]);
        st = mica_merge_push(scratch, (uint32_t)i, (uint32_t)width, -1, err);
    }
    if (!st) st = mica_merge_run(scratch, find_pair, call, err);
    for (int32_t i = 0; i >= 0 && !st; i = scratch->symbols[i].next) {
        const merge_symbol *s = &scratch->symbols[i];
        st = put_symbol(call, (span){s->begin, s->n}, out, err);
    }
    return st;
}

static mica_status encode_word(spm_call *call, merge_scratch *scratch, size_t n, token_list *out,
                               mica_error *err) {
    const word_memo *memo = &call->model->memo;
    word_state state = WORD_IS_MORE;
    int32_t id = mica_word_memo_find(memo, call->vocab, call->text, n, &state);
    if (state == WORD_IS_TOKEN) {
        call->was_unknown = false;
        return mica_token_list_push(out, id, err);
    }
    size_t n_before = out->n;
    mica_status st = merge_word(call, scratch, n, out, err);
    if (!st && state == WORD_NEW) {
        bool is_token = out->n == n_before + 1 && out->ids[n_before] == id && !call->was_unknown;
        mica_word_memo_note(memo, id, is_token ? WORD_IS_TOKEN : WORD_IS_MORE);
    }
    return st;
}

mica_status mica_spm_encode(const spm_model *m, const vocab *v, merge_scratch *scratch,
                            const char *text, size_t n, token_list *out, mica_error *err) {
    if (n > INT32_MAX) {
        return mica_fail(err, MICA_E_LIMIT, "a piece of text of %zu bytes is too long", n);
    }
    if (!n) return MICA_OK;
    int32_t whole = find_piece(v, text, n);
    if (whole >= 0 && (m->takes_whole || vocab_kind(v, whole) == TOKEN_USER)) {
        return mica_token_list_push(out, whole, err);
    }
    spm_call call = {.model = m, .vocab = v};
    if (m->has_unused) {
        call.left_n = mica_calloc(v->n_ids, sizeof(*call.left_n));
        if (!call.left_n) return mica_fail(err, MICA_E_NOMEM, "out of memory for encoding text");
    }
    mica_status st = MICA_OK;
    for (size_t begin = 0, n_word; begin < n && !st; begin += n_word) {
        call.text = text + begin;
        n_word = mica_word_memo_cut(&m->memo, call.text, n - begin);
        st = encode_word(&call, scratch, n_word, out, err);
    }
    mica_free(call.left_n);
    return st;
}
