/* tokenizer.h: text to token ids and back, executed from the model's own files as data.
 *
 * A tokenizer is immutable once loaded and may be used by many threads at once; all scratch belongs
 * to the call. Text is bytes with a length.
 */
#ifndef MICA_TEXT_TOKENIZER_H
#define MICA_TEXT_TOKENIZER_H

#include "base/json.h"
#include "format/gguf.h"

typedef struct tokenizer tokenizer;

/* From a folder that holds tokenizer.json (and perhaps tokenizer_config.json), one of the other
 * kinds of files (docs/text.md), or one GGUF file. */
mica_status mica_tokenizer_open_folder(tokenizer **out, const char *path, mica_error *err);
/* From a GGUF file's tokenizer.ggml.* keys. Copies what it needs. */
mica_status mica_tokenizer_open_gguf(tokenizer **out, const gguf_file *file, mica_error *err);
/* From the bytes of a tokenizer.json and, if not NULL, of a tokenizer_config.json. `name` is for
 * messages. */
mica_status mica_tokenizer_parse(tokenizer **out, const char *json, size_t n_json,
                                 const char *config, size_t n_config, const char *name,
                                 mica_error *err);
/* From a path: a folder, or a .gguf file. A large tokenizer.json is read from its compiled copy in
 * the user's cache folder where there is one that fits; else the copy is made. */
mica_status mica_tokenizer_open(tokenizer **out, const char *path, mica_error *err);
/* The same without the cache: neither read nor written. */
mica_status mica_tokenizer_open_source(tokenizer **out, const char *path, mica_error *err);
void mica_tokenizer_free(tokenizer *t); /* NULL is fine */

typedef struct text_range {
    size_t begin, end;
} text_range;

typedef struct encode_options {
    bool add_special;   /* add what the tokenizer itself adds (BOS, EOS, post-processor) */
    bool parse_special; /* spellings of special tokens in the text are those tokens */
    /* Parts (sorted, disjoint, not empty) of valid text in which, and across the borders of which,
     * nothing is a special token in spite of parse_special. Only special tokens look at them: the
     * text is not cut there. */
    const text_range *plain;
    size_t n_plain;
} encode_options;

/* Growing list of ids; init with {0}; mica_free(ids). */
typedef struct token_list {
    int32_t *ids;
    size_t n;
    size_t capacity;
} token_list;

mica_status mica_token_list_push(token_list *list, int32_t id, mica_error *err);

/* Appends the ids of `text` to *out. Invalid UTF-8: byte-level vocabularies encode the bytes as
 * they are, others see U+FFFD. */
mica_status mica_tokenizer_encode(const tokenizer *t, const char *text, size_t n_text,
                                  encode_options options, token_list *out, mica_error *err);

/* The whole decode. *out is mica_free'd by the caller, NUL-terminated, *n_out without the NUL. */
mica_status mica_tokenizer_decode(const tokenizer *t, const int32_t *ids, size_t n_ids,
                                  bool skip_special, char **out, size_t *n_out, mica_error *err);

size_t mica_tokenizer_vocab_size(const tokenizer *t); /* highest id + 1 */
/* The id of an exact token text (added token or vocabulary entry as stored), or -1. */
int32_t mica_tokenizer_find(const tokenizer *t, const char *text, size_t n_text);
/* The text as stored in the vocabulary ("Ġthe", "<0x0A>", "<bos>"); NULL when the id is unused. */
const char *mica_tokenizer_token(const tokenizer *t, int32_t id, size_t *n_text);
bool mica_tokenizer_is_special(const tokenizer *t, int32_t id);
int32_t mica_tokenizer_bos(const tokenizer *t); /* -1: none */
int32_t mica_tokenizer_eos(const tokenizer *t);
/* Whether add_special puts the bos token before a text. */
bool mica_tokenizer_adds_bos(const tokenizer *t);
/* Lines about oddities of the files that loading put right; "" when there are none. */
const char *mica_tokenizer_warnings(const tokenizer *t);
/* End-of-generation ids that the tokenizer itself knows (docs/text.md); owned by t. */
const int32_t *mica_tokenizer_end_ids(const tokenizer *t, size_t *n);

/* ---- streaming ---- */
/* Emits text as tokens come: always a prefix of the final text; holds back at most an incomplete
 * UTF-8 sequence. */
typedef struct detokenizer {
    const tokenizer *tokenizer;
    bool skip_special;
    bool started;    /* a first token was seen (leading-space rules) */
    uint8_t held[4]; /* incomplete UTF-8, at most 3 bytes */
    int n_held;
    bool is_past_head; /* a character was released: nothing more is cut from the head */
    size_t n_stripped; /* characters cut from the head so far */
    struct detokenizer_scratch *scratch;
    char *text; /* what the last call released; grows; owned */
    size_t n_text;
    size_t capacity;
} detokenizer;

void mica_detokenizer_init(detokenizer *d, const tokenizer *t, bool skip_special);
void mica_detokenizer_deinit(detokenizer *d);
/* d->text[0..n_text) is the newly released text (may be empty). Unknown ids release nothing. */
mica_status mica_detokenizer_push(detokenizer *d, int32_t id, mica_error *err);
/* Releases what is held at the end: one U+FFFD for an unfinished sequence. */
mica_status mica_detokenizer_finish(detokenizer *d, mica_error *err);

#endif
