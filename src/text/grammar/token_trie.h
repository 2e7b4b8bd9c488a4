/* token_trie.h: token bytes as a trie in preorder, and slices of a vocabulary.
 *
 * A walk goes through the array from left to right and jumps over the subtree of a byte that does
 * not fit. Plain tokens are those that are text of JSON strings as they are: whole characters, no
 * quote, no backslash, no control. A slice is the mask of the plain tokens of at most so many
 * characters: where all such text is allowed it answers for most of the vocabulary, and only the
 * other tokens are walked.
 */
#ifndef MICA_TEXT_GRAMMAR_TOKEN_TRIE_H
#define MICA_TEXT_GRAMMAR_TOKEN_TRIE_H

#include "text/grammar/grammar.h"

enum {
    TRIE_MAX_DEPTH = 256, /* longer tokens are never allowed */
    SLICE_MAX_CHARS = 24, /* slices 0 to this many characters, and one without limit */
    SLICE_NO_LIMIT,
    N_SLICES
};

/* Eight bytes, since walks are bound by reading them. */
typedef struct trie_node {
    uint32_t skip; /* the first node that is not below this one */
    uint8_t byte;
    uint8_t depth; /* 1: below the root */
    bool has_ids;
    bool is_plain; /* what comes below is plain text in all its tokens */
} trie_node;

typedef struct token_trie {
    trie_node *nodes; /* node 0 is the root, of depth 0 */
    uint32_t
        *first; /* [n_nodes + 1]: of a node's own ids in `ids`, which end where the next begin */
    uint32_t n_nodes;
    int32_t *ids; /* sorted by bytes */
    uint32_t n_ids;
} token_trie;

/* What is allowed in a hollow state: the slice `base` or `dense` (or neither), and `ids`, whatever
 * is below the hole. The tokens below the nodes `roots` of the trie end behind the hole: they are
 * walked from the state that popping it leads to. */
typedef struct token_mask {
    const token_trie *trie;
    const uint64_t *base;
    uint64_t *dense;
    int32_t *ids;
    uint32_t n_ids;
    uint32_t *roots;
    uint32_t n_roots;
} token_mask;

struct grammar_vocab {
    size_t n_ids; /* highest id + 1 */
    char *blob;
    uint32_t *off; /* [n_ids + 1]: bytes of an id; none: never allowed */
    token_trie all;
    uint64_t *slices[N_SLICES];
    token_trie not_plain; /* what is in no slice */
    token_trie not_short; /* that, and plain tokens of more than SLICE_MAX_CHARS */
    int32_t *far_ids;     /* of tokens of more than LAZY_NEAR_BYTES bytes */
    uint32_t n_far_ids;
    token_mask text; /* inside a JSON string without constraints */
    bool has_text;
};

static inline const char *vocab_bytes(const grammar_vocab *v, int32_t id, size_t *n) {
    *n = v->off[id + 1] - v->off[id];
    return v->blob + v->off[id];
}

#endif
