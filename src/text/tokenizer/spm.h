/* spm.h: SentencePiece's BPE, as in GGUF "llama": neighbours whose concatenation is a piece of the
 * vocabulary are joined, highest score first.
 */
#ifndef MICA_TEXT_TOKENIZER_SPM_H
#define MICA_TEXT_TOKENIZER_SPM_H

#include "text/tokenizer.h"
#include "text/tokenizer/merge_loop.h"
#include "text/tokenizer/vocab.h"
#include "text/tokenizer/word_memo.h"

typedef struct spm_model {
    uint32_t *ranks; /* by id: 0 for the highest score possible; equal scores are equal */
    int32_t byte_ids[256];
    bool takes_whole; /* a text that is a piece is not taken apart */
    bool has_unused;  /* some pieces are "unused": merged towards, then split back */
    int32_t unk_id;   /* -1: none */
    word_memo memo;
} spm_model;

void mica_spm_deinit(spm_model *m);
/* When the vocabulary is complete. */
mica_status mica_spm_finish(spm_model *m, const vocab *v, mica_error *err);
/* Makes a rank of a score: higher scores first. */
uint32_t mica_spm_rank(float score);

mica_status mica_spm_encode(const spm_model *m, const vocab *v, merge_scratch *scratch,
                            const char *text, size_t n, token_list *out, mica_error *err);

#endif
