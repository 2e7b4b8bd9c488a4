/* word_memo.h: two shortcuts of merging that change no result.
 *
 * A text that no pre-tokenizer cuts is cut before a U+2581 where no symbol can reach across: no
 * text of the vocabulary has a U+2581 behind the byte that stands there. And a word that is a token
 * and that merging makes that very token needs to be merged once only: what came out is remembered
 * by token. Threads share the notes; all of them would write the same.
 */
#ifndef MICA_TEXT_TOKENIZER_WORD_MEMO_H
#define MICA_TEXT_TOKENIZER_WORD_MEMO_H

#include "text/tokenizer/vocab.h"

typedef enum word_state { WORD_NEW, WORD_IS_TOKEN, WORD_IS_MORE } word_state;

typedef struct word_memo {
    _Atomic uint8_t *states; /* word_state by id; NULL: no shortcuts */
    size_t n_states;
    bool is_glued[256]; /* bytes that have a U+2581 behind them in some text */
} word_memo;

void mica_word_memo_deinit(word_memo *m);
/* When the vocabulary is complete. */
mica_status mica_word_memo_init(word_memo *m, const vocab *v, mica_error *err);

/* How much of text[0..n), n > 0, can be merged on its own. */
size_t mica_word_memo_cut(const word_memo *m, const char *text, size_t n);

/* The id of a word whose state is kept; -1: it is none. */
int32_t mica_word_memo_find(const word_memo *m, const vocab *v, const char *text, size_t n,
                            word_state *state);
void mica_word_memo_note(const word_memo *m, int32_t id, word_state state);

#endif
