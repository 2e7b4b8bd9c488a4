/* pretokenize.h: pre-tokenizers, which cut a normalized text into the pieces that the model sees.
 */
#ifndef MICA_TEXT_TOKENIZER_PRETOKENIZE_H
#define MICA_TEXT_TOKENIZER_PRETOKENIZE_H

#include "text/tokenizer/piece_trie.h"
#include "text/tokenizer/steps.h"

typedef enum pre_tokenizer_kind {
    PRE_SPLIT,           /* pattern, behavior, is_inverted */
    PRE_DIGITS,          /* behavior isolated or contiguous */
    PRE_PUNCTUATION,     /* behavior */
    PRE_WHITESPACE,      /* words or punctuation runs, space dropped */
    PRE_WHITESPACE_ONLY, /* cut and drop white space */
    PRE_PIECES,          /* cut out the longest of `pieces` */
    PRE_FIXED_LENGTH,    /* n_chars */
    PRE_METASPACE,       /* replacement and prefix; a PRE_SPLIT follows if it splits */
    PRE_PREFIX_SPACE,    /* a space before each piece that has none */
    PRE_BYTES            /* bytes to the byte alphabet */
} pre_tokenizer_kind;

typedef enum prepend_scheme { PREPEND_ALWAYS, PREPEND_FIRST, PREPEND_NEVER } prepend_scheme;

typedef struct pre_tokenizer {
    pre_tokenizer_kind kind;
    text_pattern pattern;
    split_behavior behavior;
    bool is_inverted;
    size_t n_chars;
    const piece_trie *pieces;
    const char *replacement; /* of METASPACE */
    size_t n_replacement;
    prepend_scheme scheme;
    struct pre_tokenizer *next;
} pre_tokenizer;

mica_status mica_pre_tokenizer_parse(pre_tokenizer **list, const json_value *v,
                                     const step_loader *l, mica_error *err);
mica_status mica_pre_tokenizer_append(pre_tokenizer **list, pre_tokenizer step,
                                      const step_loader *l, mica_error *err);
/* Appends a PRE_SPLIT by regex, Isolated. */
mica_status mica_pre_tokenizer_append_regex(pre_tokenizer **list, const char *pattern,
                                            const step_loader *l, mica_error *err);

/* BERT's two steps: white space cut out, punctuation alone. */
mica_status mica_pre_tokenizer_append_bert(pre_tokenizer **list, const step_loader *l,
                                           mica_error *err);

#define GPT2_REGEX \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* The text and its pieces between two steps. */
typedef struct pre_tokens {
    const char *text;
    piece_list pieces; /* never empty ones */
    text_buffer buffers[2];
    piece_list other; /* the next pieces while a step runs */
} pre_tokens;

void mica_pre_tokens_deinit(pre_tokens *p);

/* Cuts well-formed UTF-8; the result is in *p until the next call. `is_head`: the text begins where
 * the user's text begins. */
mica_status mica_pre_tokenize(const pre_tokenizer *list, step_scratch *scratch, const char *text,
                              size_t n, bool is_head, pre_tokens *p, mica_error *err);

#endif
