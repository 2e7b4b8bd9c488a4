/* impl.h: what a loaded tokenizer consists of. Loaders fill it, encode and decode read it.
 */
#ifndef MICA_TEXT_TOKENIZER_IMPL_H
#define MICA_TEXT_TOKENIZER_IMPL_H

#include "text/tokenizer.h"
#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/bpe.h"
#include "text/tokenizer/decoder.h"
#include "text/tokenizer/pretokenize.h"
#include "text/tokenizer/spm.h"
#include "text/tokenizer/unigram.h"
#include "text/tokenizer/word_model.h"

typedef enum tokenizer_model {
    TOKENIZER_BPE,
    TOKENIZER_SPM,
    TOKENIZER_UNIGRAM,
    TOKENIZER_WORD
} tokenizer_model;

struct tokenizer {
    char *name; /* the source, for messages */
    mica_arena arena;
    regex *regexes;
    vocab vocab;
    size_t n_tokens; /* highest id + 1, without hidden entries */
    added_tokens added;
    normalizer *normalizers;
    pre_tokenizer *pre_tokenizers;
    piece_trie user_pieces; /* of SentencePiece: never cut, never replaced */
    tokenizer_model model;
    bpe_model bpe;
    spm_model spm;
    unigram_model unigram;
    word_model word;
    decoder decoder;
    const char *unk_surface; /* how the unknown piece reads; NULL: as it is spelt */
    size_t n_unk_surface;
    bool is_byte_level; /* any bytes can be encoded */
    token_list prefix;  /* what add_special puts before the text */
    token_list suffix;
    int32_t bos, eos;
    token_list end_ids;
    text_buffer warnings; /* lines */
};

tokenizer *mica_tokenizer_new(const char *name, mica_error *err);
step_loader mica_tokenizer_loader(tokenizer *t);
/* The last steps of loading: the matchers of added tokens, what depends on the whole vocabulary. */
mica_status mica_tokenizer_finish(tokenizer *t, mica_error *err);
/* A line for mica_tokenizer_warnings. */
mica_status mica_tokenizer_warn(tokenizer *t, mica_error *err, const char *format, ...)
    MICA_PRINTF(3, 4);
/* Marks `id`, which is in the vocabulary, as an added token. Does nothing if it is one already. */
mica_status mica_tokenizer_add_token(tokenizer *t, added_token token, mica_error *err);
mica_status mica_tokenizer_add_end(tokenizer *t, int64_t id, mica_error *err);

/* From a folder with another vocabulary than tokenizer.json; *out NULL: it holds none. */
mica_status mica_tokenizer_open_older(tokenizer **out, const char *folder, mica_error *err);
/* From the bytes of a SentencePiece model; `config` may be NULL. */
mica_status mica_tokenizer_parse_spm(tokenizer **out, const uint8_t *data, size_t n,
                                     const json_value *config, const char *name, mica_error *err);

/* tokenizer_config.json: added_tokens_decoder, bos_token, eos_token, ... */
mica_status mica_tokenizer_apply_config(tokenizer *t, const json_value *config, mica_error *err);
/* Adds one entry of a list of added tokens, which has the id `id` in its file. */
mica_status mica_tokenizer_read_added(tokenizer *t, const json_value *entry, int64_t id,
                                      mica_error *err);

/* The steps of a GGUF pre-tokenizer name, and what comes with it. */
typedef struct gguf_pre {
    bool ignore_merges;
    bool add_bos;
} gguf_pre;
mica_status mica_gguf_pre_apply(tokenizer *t, const char *name, size_t n, gguf_pre *out,
                                mica_error *err);
/* End-of-generation ids by the texts of control tokens. */
mica_status mica_tokenizer_find_ends(tokenizer *t, mica_error *err);

#endif
