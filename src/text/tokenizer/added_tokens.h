/* added_tokens.h: tokens that are found in the text itself, before the model sees what is between
 * them.
 *
 * Two passes, as in the tokenizers library: tokens with normalized = false in the raw text, the
 * others, by their own normalized form, in each normalized piece. Search is leftmost, then longest.
 */
#ifndef MICA_TEXT_TOKENIZER_ADDED_TOKENS_H
#define MICA_TEXT_TOKENIZER_ADDED_TOKENS_H

#include "text/tokenizer.h"
#include "text/tokenizer/normalize.h"
#include "text/tokenizer/vocab.h"

typedef struct added_token {
    int32_t id;
    bool single_word; /* not if a word character is next to it */
    bool lstrip;      /* takes the white space to its left with it */
    bool rstrip;
    bool normalized;
    bool special;
} added_token;

/* A text to look for. */
typedef struct added_pattern {
    const char *text;
    size_t n;
    uint32_t token; /* place in added_tokens.items */
} added_pattern;

/* Sorted by bytes; `first` is where the patterns that begin with each byte lie. */
typedef struct added_matcher {
    added_pattern *patterns;
    size_t n;
    uint32_t first[257];
} added_matcher;

typedef struct added_tokens {
    added_token *items;
    size_t n;
    size_t capacity;
    added_matcher raw;
    added_matcher normalized;
    text_buffer forms; /* normalized texts */
} added_tokens;

void mica_added_tokens_deinit(added_tokens *a);
mica_status mica_added_tokens_push(added_tokens *a, added_token token, mica_error *err);
/* When vocabulary and list are complete. */
mica_status mica_added_tokens_finish(added_tokens *a, const vocab *v, const normalizer *normalizers,
                                     mica_error *err);

/* A stretch of text between two added tokens, or one of them. */
typedef struct added_piece {
    size_t begin, end;
    int32_t id; /* -1: plain text */
} added_piece;

typedef struct added_piece_list {
    added_piece *items;
    size_t n;
    size_t capacity;
} added_piece_list;

/* Where a special token's text is plain. */
typedef struct plain_parts {
    bool all;
    const text_range *items; /* of text[0..n), see encode_options */
    size_t n;
} plain_parts;

/* Appends the stretches of text[0..n). */
mica_status mica_added_tokens_split(const added_tokens *a, const added_matcher *matcher,
                                    const char *text, size_t n, plain_parts plain,
                                    added_piece_list *out, mica_error *err);

#endif
