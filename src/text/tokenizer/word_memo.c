/* word_memo.c: where words end, and what is known of them. */
#include "text/tokenizer/word_memo.h"

#include <stdatomic.h>

static const char mark[] = "\xE2\x96\x81";
#define N_MARK 3

void mica_word_memo_deinit(word_memo *m) {
    mica_free((void *)m->states);
    *m = (word_memo){0};
}

static bool is_mark(const char *text, size_t n) {
    return n >= N_MARK && !memcmp(text, mark, N_MARK);
}

/* All texts lie behind each other with a NUL between them, which therefore counts as glued: it may
 * stand in a text, too. Marks behind marks are glued always. */
static void note_glued(word_memo *m, const char *blob, size_t n) {
    m->is_glued[0] = m->is_glued[(uint8_t)mark[N_MARK - 1]] = true;
    for (size_t i = 1; i < n; i++) {
        const char *next = memchr(blob + i, mark[0], n - i);
        if (!next) return;
        i = (size_t)(next - blob);
        if (is_mark(next, n - i)) m->is_glued[(uint8_t)blob[i - 1]] = true;
    }
}

mica_status mica_word_memo_init(word_memo *m, const vocab *v, mica_error *err) {
    m->states = mica_calloc(v->n_ids + 1, sizeof(*m->states));
    if (!m->states) return mica_fail(err, MICA_E_NOMEM, "%s: out of memory", v->name);
    m->n_states = v->n_ids;
    if (v->blob_bytes) note_glued(m, v->blob, v->blob_bytes);
    /* An unknown mark joins the unknown characters before it. */
    if (mica_vocab_find(v, mark, N_MARK) < 0) memset(m->is_glued, true, sizeof(m->is_glued));
    return MICA_OK;
}

size_t mica_word_memo_cut(const word_memo *m, const char *text, size_t n) {
    if (!m->states) return n;
    for (size_t i = 1; i + N_MARK <= n; i++) {
        const char *next = memchr(text + i, mark[0], n - i);
        if (!next) return n;
        i = (size_t)(next - text);
        if (is_mark(next, n - i) && !m->is_glued[(uint8_t)text[i - 1]]) return i;
    }
    return n;
}

int32_t mica_word_memo_find(const word_memo *m, const vocab *v, const char *text, size_t n,
                            word_state *state) {
    if (!m->states) return -1;
    int32_t id = mica_vocab_find(v, text, n);
    if (id < 0 || (size_t)id >= m->n_states) return -1;
    *state = (word_state)atomic_load_explicit(&m->states[id], memory_order_relaxed);
    return id;
}

void mica_word_memo_note(const word_memo *m, int32_t id, word_state state) {
    atomic_store_explicit(&m->states[id], (uint8_t)state, memory_order_relaxed);
}
