/* bpe.h: byte pair encoding by the rank of merges, as in tokenizer.json and GGUF "gpt2".
 *
 * Merges are held once in order of rank, and found by the ids of their two parts.
 */
#ifndef MICA_TEXT_TOKENIZER_BPE_H
#define MICA_TEXT_TOKENIZER_BPE_H

#include "text/tokenizer.h"
#include "text/tokenizer/merge_loop.h"
#include "text/tokenizer/vocab.h"
#include "text/tokenizer/word_memo.h"

#define BPE_N_CHAR_IDS 0x400

typedef struct bpe_merge {
    uint32_t left, right, id;
} bpe_merge;

typedef struct bpe_model {
    bpe_merge *merges; /* place = rank */
    size_t n_merges;
    size_t merge_capacity;
    uint32_t *slots; /* rank + 1 by (left, right); open addressing, a power of two */
    size_t n_slots;
    int32_t *char_ids;     /* of the code points below BPE_N_CHAR_IDS; -1: none */
    int32_t byte_ids[256]; /* of "<0xHH>"; -1: none */
    const char *prefix;    /* of all symbols but the first, "" for none; in the arena */
    const char *suffix;    /* of the last symbol */
    const char *unk_text;  /* NULL: none; for the message if unk_id is -1 */
    int32_t unk_id;
    bool fuse_unk;
    bool byte_fallback;
    bool ignore_merges;   /* a piece that is a token stays whole */
    bool newlines_whole;  /* the same for pieces of line ends only */
    bool later_rank_wins; /* of a repeated pair */
    bool keeps_gaps;      /* what is left out stays between its neighbours: they do not merge */
    word_memo memo;
    bool has_hidden; /* some merges make no token: such a symbol falls apart into characters */
} bpe_model;

void mica_bpe_deinit(bpe_model *m);
mica_status mica_bpe_add_merge(bpe_model *m, bpe_merge merge, mica_error *err);
/* When vocabulary and merges are complete. */
mica_status mica_bpe_finish(bpe_model *m, const vocab *v, mica_error *err);
/* The tokens "<0x00>" to "<0xFF>"; -1 where there is none. */
void mica_vocab_byte_ids(const vocab *v, int32_t ids[256]);

/* Appends the ids of one piece of well-formed UTF-8. */
mica_status mica_bpe_encode(const bpe_model *m, const vocab *v, merge_scratch *scratch,
                            const char *text, size_t n, token_list *out, mica_error *err);

#endif
