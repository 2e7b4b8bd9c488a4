/* word_model.h: models that look up a word as a whole (WordLevel) or by its longest beginnings
 * (WordPiece).
 */
#ifndef MICA_TEXT_TOKENIZER_WORD_MODEL_H
#define MICA_TEXT_TOKENIZER_WORD_MODEL_H

#include "text/tokenizer.h"
#include "text/tokenizer/vocab.h"

typedef struct word_model {
    const char *unk_text; /* for the message if unk_id is -1 */
    int32_t unk_id;
    bool is_whole;      /* WordLevel */
    const char *head;   /* put before the word, as in GGUF: U+2581; else "" */
    const char *prefix; /* of all parts but the first: "##"; in the arena */
    uint64_t max_chars; /* longer words are unknown */
} word_model;

/* Appends the ids of one word of well-formed UTF-8. `scratch` grows. */
mica_status mica_word_encode(const word_model *m, const vocab *v, text_buffer *scratch,
                             const char *text, size_t n, token_list *out, mica_error *err);

#endif
