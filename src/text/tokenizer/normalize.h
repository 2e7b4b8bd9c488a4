/* normalize.h: normalizers, what happens to a piece of text before it is cut into pre-tokens.
 */
#ifndef MICA_TEXT_TOKENIZER_NORMALIZE_H
#define MICA_TEXT_TOKENIZER_NORMALIZE_H

#include "text/tokenizer/charsmap.h"
#include "text/tokenizer/steps.h"

typedef enum normalizer_kind {
    NORMALIZE_NFC,
    NORMALIZE_NFD,
    NORMALIZE_NFKC,
    NORMALIZE_NFKD,
    NORMALIZE_LOWERCASE,
    NORMALIZE_STRIP,
    NORMALIZE_STRIP_ACCENTS,
    NORMALIZE_STRIP_NONSPACING, /* Mn only */
    NORMALIZE_CLEAN,            /* control characters out, white space to spaces */
    NORMALIZE_SPACE_IDEOGRAPHS, /* a space on each side */
    NORMALIZE_CHARSMAP,         /* by grapheme clusters */
    NORMALIZE_SENTENCEPIECE,    /* charsmap by longest prefix, spaces */
    NORMALIZE_REPLACE,
    NORMALIZE_PREPEND,
    NORMALIZE_NMT,
    NORMALIZE_BYTES
} normalizer_kind;

typedef struct normalizer {
    normalizer_kind kind;
    bool strip_left, strip_right;
    text_pattern pattern;
    const char *content; /* of REPLACE and PREPEND */
    size_t n_content;
    charsmap map;
    const spm_spaces *spaces; /* of SENTENCEPIECE */
    struct normalizer *next;
} normalizer;

/* Appends the steps of a JSON normalizer (NULL or null: none) to *list. */
mica_status mica_normalizer_parse(normalizer **list, const json_value *v, const step_loader *l,
                                  mica_error *err);
/* Appends a step that a loader makes itself. */
mica_status mica_normalizer_append(normalizer **list, normalizer step, const step_loader *l,
                                   mica_error *err);

/* The steps that a BertNormalizer stands for. */
typedef struct bert_normalizer {
    bool cleans;
    bool spaces_ideographs;
    bool strips_accents;
    bool lowers;
} bert_normalizer;
mica_status mica_normalizer_append_bert(normalizer **list, bert_normalizer bert,
                                        const step_loader *l, mica_error *err);

/* The text between two steps; `text` points to the input or into one of the buffers. */
typedef struct normalized_text {
    const char *text;
    size_t n;
    bool is_head;    /* set by the caller: the input begins where the user's text begins */
    bool keeps_head; /* the first character stems from the first of the input */
    text_buffer buffers[2];
} normalized_text;

void mica_normalized_text_deinit(normalized_text *t);

/* Runs all steps over well-formed UTF-8; the result is in *t until the next call. */
mica_status mica_normalize(const normalizer *list, step_scratch *scratch, const char *text,
                           size_t n, normalized_text *t, mica_error *err);

/* Appends the Unicode form of a text. */
mica_status mica_normalize_unicode(normalizer_kind form, const char *text, size_t n,
                                   text_buffer *out, mica_error *err);

#endif
