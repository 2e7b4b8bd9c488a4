/* pattern.h: a literal or a regex, and the two things that files do with one: replace and split.
 */
#ifndef MICA_TEXT_TOKENIZER_PATTERN_H
#define MICA_TEXT_TOKENIZER_PATTERN_H

#include "text/tokenizer/regex.h"

typedef struct text_pattern {
    const regex *regex;  /* NULL: literal */
    const char *literal; /* not empty */
    size_t n_literal;
} text_pattern;

/* Appends to *out the matches and the gaps between them, in order; together they cover the text.
 * An empty match right after another match does not count; other empty ones are pieces of no bytes.
 * An empty text is one gap. */
mica_status mica_pattern_find_all(const text_pattern *pattern, regex_scratch *scratch,
                                  const char *text, size_t n, piece_list *out, mica_error *err);

/* Appends the text with `content` for each match. `matches` is scratch. */
mica_status mica_pattern_replace(const text_pattern *pattern, regex_scratch *scratch,
                                 piece_list *matches, const char *content, size_t n_content,
                                 const char *text, size_t n, text_buffer *out, mica_error *err);

typedef enum split_behavior {
    SPLIT_REMOVED,
    SPLIT_ISOLATED,
    SPLIT_MERGED_WITH_PREVIOUS,
    SPLIT_MERGED_WITH_NEXT,
    SPLIT_CONTIGUOUS
} split_behavior;

/* Turns matches and gaps (from find_all on one piece) into pieces, in place; empty ones are
 * dropped. `is_inverted` swaps matches and gaps first. */
void mica_split_apply(piece_list *matches, split_behavior behavior, bool is_inverted);

#endif
