/* charsmap.h: SentencePiece's table of replacements, and its rules for spaces.
 *
 * The table is a XOR double array (u32 units: a flag for leaves, a label, an offset) over UTF-8,
 * whose leaves are places in a text of NUL-terminated replacements. Its bytes come from files and
 * are not trusted: every step is checked against the size.
 */
#ifndef MICA_TEXT_TOKENIZER_CHARSMAP_H
#define MICA_TEXT_TOKENIZER_CHARSMAP_H

#include "text/tokenizer/piece_trie.h"
#include "text/tokenizer/steps.h"

typedef struct charsmap {
    const uint32_t *units; /* NULL: no table, nothing is replaced */
    size_t n_units;
    const char *replacements; /* ends with a NUL of ours */
    size_t n_replacements;
} charsmap;

/* From the bytes of a precompiled_charsmap; none: no table. Copies them into the arena. */
mica_status mica_charsmap_read(charsmap *out, const char *bytes, size_t n, const step_loader *l,
                               mica_error *err);
/* Appends the bytes of base64. */
mica_status mica_base64_decode(text_buffer *out, const char *base64, size_t n, const step_loader *l,
                               mica_error *err);
/* From base64. */
mica_status mica_charsmap_decode(charsmap *out, const char *base64, size_t n, const step_loader *l,
                                 mica_error *err);

/* The tokenizers library's way: a grapheme cluster of under 6 bytes is looked up whole, then each
 * character alone; the shortest prefix found counts for all of it. */
mica_status mica_charsmap_clusters(const charsmap *map, const char *text, size_t n,
                                   text_buffer *out, mica_error *err);

/* What SentencePiece's normalizer does besides. */
typedef struct spm_spaces {
    bool add_dummy_prefix;
    bool remove_extra;      /* at both ends, and runs */
    bool escape;            /* space -> U+2581 */
    bool only_head;         /* the dummy space only where the user's text begins */
    bool is_suffix;         /* the dummy space stands at the end */
    const piece_trie *user; /* pieces that are not replaced in; NULL: none */
} spm_spaces;

mica_status mica_charsmap_sentencepiece(const charsmap *map, const spm_spaces *spaces, bool is_head,
                                        const char *text, size_t n, text_buffer *out,
                                        mica_error *err);

#endif
