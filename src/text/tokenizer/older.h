/* older.h: what the readers of folders without tokenizer.json share: the folder's small files, and
 * the kinds of byte-level vocabularies.
 */
#ifndef MICA_TEXT_TOKENIZER_OLDER_H
#define MICA_TEXT_TOKENIZER_OLDER_H

#include "text/tokenizer/impl.h"

#define OLDER_MAX_VOCAB_BYTES (256u << 20)

typedef enum rank_family {
    RANKS_OTHER,
    RANKS_LLAMA3,
    RANKS_LLAMA4,
    RANKS_QWEN,
    RANKS_GPT2,
    RANKS_CL100K,
    RANKS_O200K
} rank_family;

/* A kind of byte-level vocabulary by what a config or a file's name calls it. */
typedef struct older_kind {
    const char *name; /* of tokenizer_class without "Fast", model_type, or a file */
    const char *pre;  /* of a GGUF pre-tokenizer with the same pattern */
    rank_family family;
    bool is_nfc;
    bool adds_bos, adds_eos; /* around a text, where the config does not say */
} older_kind;

typedef struct older_load {
    const char *folder;
    char *config; /* of the tokenizer; NULL: none */
    size_t n_config;
    mica_arena arena;
    json_value *settings; /* its tree; NULL */
    char model_type[64];
} older_load;

/* A file of the folder with a NUL behind it, or NULL in *data if there is none. */
mica_status mica_older_read_file(const older_load *load, const char *name, char **data, size_t *n,
                                 mica_error *err);
/* By the file's own name, else by the class, else by the model's type; NULL: none is known. */
const older_kind *mica_older_find_kind(const older_load *load, const char *file);
mica_status mica_older_refuse(const older_load *load, const char *file, mica_error *err);
/* The steps in front of a byte-level model, and what stands around a text. */
mica_status mica_older_finish_bytes(tokenizer *t, const older_load *load, const older_kind *kind,
                                    mica_error *err);

/* Lines of "base64 rank". */
bool mica_older_looks_like_ranks(const char *data, size_t n);
mica_status mica_older_open_ranks(tokenizer **out, const older_load *load, const char *file,
                                  const char *data, size_t n, mica_error *err);
/* Gives the tokens that a list of ranks leaves out, from id t->vocab.n_ids on, if the list is a
 * complete one of that family; sets bos and eos where they are not known yet. */
mica_status mica_older_add_specials(tokenizer *t, rank_family family, mica_error *err);
/* A model of ranks for all n_ids: a pair is joined if the result is a token, the one of
 * the least rank first. */
mica_status mica_older_set_ranks(tokenizer *t, size_t n_ids, mica_error *err);
/* The last steps: bytes back from ids, added tokens as they are spelt. */
mica_status mica_older_finish_ranks(tokenizer *t, mica_error *err);

/* tekken.json of mistral-common. */
mica_status mica_older_open_tekken(tokenizer **out, const older_load *load, const char *data,
                                   size_t n, mica_error *err);
/* vocab.txt of WordPiece. */
mica_status mica_older_open_words(tokenizer **out, const older_load *load, const char *data,
                                  size_t n, mica_error *err);

#endif
