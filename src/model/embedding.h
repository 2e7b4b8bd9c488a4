/* embedding.h: what a model's own files say about the embeddings that it makes: how the last hidden
 * states of a text become one vector, and what is put before a text.
 */
#ifndef MICA_MODEL_EMBEDDING_H
#define MICA_MODEL_EMBEDDING_H

#include "model/model.h"

typedef enum pooling_kind {
    POOLING_LAST,      /* the last token's */
    POOLING_MEAN,      /* mean over the tokens */
    POOLING_CLS,       /* the first token's: the class token of an encoder */
    POOLING_MAX,       /* largest over the tokens, by channel */
    POOLING_SQRT_MEAN, /* sum over the tokens / sqrt(their number) */
    POOLING_WEIGHTED,  /* mean weighed by position, from 1 */
    POOLING_N
} pooling_kind;
const char *mica_pooling_name(pooling_kind kind); /* "last", "mean", "cls", ... */
bool mica_pooling_find(const char *name, pooling_kind *out);

typedef struct embedding_prompt {
    const char *name, *text;
} embedding_prompt;

typedef struct embedding_config {
    bool is_declared; /* the files, or the family, say that this model makes embeddings */
    pooling_kind pooling;
    bool normalizes;      /* to unit length */
    bool excludes_prompt; /* from pooling */
    int64_t max_tokens;   /* of a text, special tokens included; 0: not stated */
    const embedding_prompt *prompts;
    int n_prompts;
    const char *default_prompt; /* name of one of them; NULL: none */
    const char *end_token;      /* put after a text whose tokenizer adds nothing; NULL: none */
} embedding_config;

/* From modules.json and what it names, config_sentence_transformers.json,
 * sentence_bert_config.json, tokenizer_config.json; or from the metadata of a GGUF file. Texts go
 * to `arena`. MICA_E_UNSUPPORTED: a module, a pooling or a key that would change the result and is
 * not computed. */
mica_status mica_model_embedding(const model *m, mica_arena *arena, embedding_config *out,
                                 mica_error *err);
/* The text of a prompt by name; NULL: there is none of that name. */
const char *mica_embedding_prompt(const embedding_config *c, const char *name);

#endif
