/* token_trie.h: token bytes as a trie in preorder, and slices of a vocabulary.
 *
 * A walk goes through the array from left to right and jumps over the subtree of a byte that does
 * not fit. A slice is the set of tokens that are plain JSON string text (whole characters, no quote,
 * no backslash, no control) of at most so many characters, as a mask, with a trie of the tokens that
 * are not in it: where all plain text is allowed the mask answers for most of the vocabulary.
 */
#ifndef MICA_TEXT_GRAMMAR_TOKEN_TRIE_H
#define MICA_TEXT_GRAMMAR_TOKEN_TRIE_H

#include "text/grammar/grammar.h"

#include <stdbool.h>

enum { TRIE_MAX_DEPTH = 1024, N_SLICES = 4, SLICE_NO_LIMIT = 1 << 20 };

typedef struct trie_node {
    uint32_t skip;  /* the first node that is not below this one */
    uint32_t first; /* of its tokens in `ids` */
    uint16_t n_ids;
    uint16_t depth; /* 1: below the root */
    uint8_t byte;
} trie_node;

typedef struct token_trie {
    trie_node *nodes; /* node 0 is the root, of depth 0 */
    uint32_t n_nodes;
    int32_t *ids; /* sorted by bytes */
    uint32_t n_ids;
} token_trie;

typedef struct vocab_slice {
    uint32_t max_chars;
    uint64_t *mask;
    token_trie rest;
} vocab_slice;

struct grammar_vocab {
    size_t n_ids; /* highest id + 1 */
    char *blob;
    uint32_t *off; /* [n_ids + 1]: bytes of an id; none: never allowed */
    token_trie all;
    vocab_slice slices[N_SLICES]; /* falling max_chars; the first without limit */
};

static inline const char *vocab_bytes(const grammar_vocab *v, int32_t id, size_t *n) {
    *n = v->off[id + 1] - v->off[id];
    return v->blob + v->off[id];
}

#endif
