/* embed_text.h: from a text to the ids whose embedding is wanted.
 */
#ifndef MICA_ENGINE_EMBED_TEXT_H
#define MICA_ENGINE_EMBED_TEXT_H

#include "model/embedding.h"
#include "text/tokenizer.h"

typedef struct embed_words {
    const char *prompt; /* put before the text; n_prompt 0: nothing */
    size_t n_prompt;
    const char *text;
    size_t n_text;
} embed_words;

/* Appends the ids of prompt and text as one, with what the tokenizer puts around a text; where it
 * puts nothing, the model's own end token follows. With `cut` above 0 a longer text loses the end
 * of its own tokens, as sentence-transformers does it. *n_prompt: how many ids pooling leaves out
 * (0 unless the model wants that). Nothing in the words is a special token. */
mica_status mica_embed_encode(const embedding_config *c, const tokenizer *t,
                              const embed_words *words, int64_t cut, token_list *ids,
                              int64_t *n_prompt, mica_error *err);
/* "Instruct: INSTRUCTION\nQuery:", the prompt of models that follow instructions. mica_free it. */
char *mica_embed_instruction(const char *instruction);

#endif
