/* unigram.h: the segmentation whose pieces have the highest sum of scores.
 *
 * As in tokenizer.json "Unigram", SentencePiece and GGUF "t5": a Viterbi pass over the places
 * between characters. Only normal and user-defined pieces of the vocabulary take part.
 */
#ifndef MICA_TEXT_TOKENIZER_UNIGRAM_H
#define MICA_TEXT_TOKENIZER_UNIGRAM_H

#include "text/tokenizer.h"
#include "text/tokenizer/piece_trie.h"

typedef struct unigram_model {
    double *scores; /* by id */
    size_t n_scores;
    size_t capacity;
    piece_trie pieces;
    double unk_score; /* of a character that is no piece */
    int32_t unk_id;   /* -1: none */
    int32_t byte_ids[256];
    bool byte_fallback;
    bool is_single; /* sums are rounded to float, as SentencePiece has them */
} unigram_model;

/* The best way to the place after some byte. */
typedef struct unigram_cell {
    double score;
    uint32_t begin; /* of the last piece on that way */
    uint32_t next;  /* end of the piece that begins here; for the way back */
    int32_t id;     /* of the last piece; -1: unknown character */
    bool is_reached;
} unigram_cell;

typedef struct unigram_scratch {
    unigram_cell *cells;
    size_t capacity;
} unigram_scratch;

void mica_unigram_deinit(unigram_model *m);
mica_status mica_unigram_push_score(unigram_model *m, double score, mica_error *err);
/* When vocabulary, scores and unk_id are complete; `n_ids` of the vocabulary are the model's. */
mica_status mica_unigram_finish(unigram_model *m, const vocab *v, mica_error *err);

/* Appends the ids of one piece of well-formed UTF-8. */
mica_status mica_unigram_encode(const unigram_model *m, const vocab *v, unigram_scratch *scratch,
                                const char *text, size_t n, token_list *out, mica_error *err);

#endif
