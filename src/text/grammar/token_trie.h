/* token_trie.h: token bytes as a trie, and slices of a vocabulary.
 *
 * The nodes lie breadth first, so that the children of one node are neighbours: a walk reads over
 * those that do not fit. Plain tokens are those that are text of JSON strings as they are: whole
 * characters, no quote, no backslash, no control. A slice is the mask of the plain tokens of at
 * most so many characters: where all such text is allowed it answers for most of the vocabulary,
 * and only the other tokens are walked. Where all text but some characters is allowed, the masks of
 * tokens that hold a character do the same (slices.c).
 */
#ifndef MICA_TEXT_GRAMMAR_TOKEN_TRIE_H
#define MICA_TEXT_GRAMMAR_TOKEN_TRIE_H

#include "text/grammar/grammar.h"
#include "text/grammar/holders.h"

enum {
    TRIE_MAX_DEPTH = 256, /* longer tokens are never allowed */
    SLICE_MAX_CHARS = 24, /* slices 0 to this many characters, and one without limit */
    SLICE_NO_LIMIT,
    N_SLICES
};

/* One character that stands for any plain text, where all of that leads to one state. */
#define TRIE_ANY_TEXT "a"

/* Flags of a node. */
enum {
    TRIE_HAS_IDS = 1,
    TRIE_IS_PLAIN = 2 /* what comes below is plain text in all its tokens */
};

typedef struct trie_node {
    uint32_t children; /* the first one; the others follow */
    uint16_t n_children;
    uint8_t byte;
    uint8_t flags;
} trie_node;

/* The ids at and below a node, which are neighbours in `ids`; its own ones come first. */
typedef struct trie_range {
    uint32_t first, own_end, end;
    uint32_t height; /* how many bytes the longest token goes on below the node */
} trie_range;

typedef struct token_trie {
    trie_node *nodes;   /* node 0 is the root */
    trie_range *ranges; /* of each node; apart, since walks mostly read nodes */
    uint32_t n_nodes;
    int32_t *ids; /* sorted by bytes */
    uint32_t n_ids;
} token_trie;

/* What is allowed in a hollow state: the slice `base` or `dense` (or neither), and `ids`, whatever
 * is below the hole. The tokens below the nodes `roots` of the trie (the first n_all_roots: of the
 * whole vocabulary's) end behind the hole: they are walked from the state that popping it leads to.
 */
typedef struct token_mask {
    const token_trie *trie;
    const uint64_t *base;
    uint64_t *dense;
    int32_t *ids;
    uint32_t n_ids;
    uint32_t *roots;
    uint32_t n_roots, n_all_roots;
} token_mask;

/* Kinds of characters of which masks are kept together, see grammar_vocab. */
enum {
    CHARS_OTHER = 128, /* beyond ASCII */
    CHARS_LOWER,
    CHARS_UPPER,
    CHARS_DIGIT,
    CHARS_RARE, /* punctuation but space - . / : @ _ */
    N_CHARS
};

struct grammar_vocab {
    size_t n_ids; /* highest id + 1 */
    char *blob;
    uint32_t *off; /* [n_ids + 1]: bytes of an id; none: never allowed */
    token_trie all;
    uint64_t *slices[N_SLICES];
    token_trie not_plain; /* what is in no slice */
    token_trie not_short; /* that, and plain tokens of more than SLICE_MAX_CHARS */
    token_trie tails;     /* of not_plain: the plain text that they begin with is TRIE_ANY_TEXT */
    /* The longest first: tokens of more than LAZY_NEAR_BYTES bytes; those of not_plain of more than
     * LAZY_NEAR_CHARS bytes; plain ones of more than SLICE_MAX_CHARS characters, and how many. */
    int32_t *far_ids, *long_ids, *wordy_ids;
    uint8_t *wordy_chars;
    uint32_t n_far_ids, n_long_ids, n_wordy_ids;
    uint64_t *with[N_CHARS]; /* tokens that hold the character, or one of its kind; NULL: control */
    uint32_t n_with[N_CHARS];
    token_holders holders;
    token_mask text;  /* inside a JSON string without constraints */
    token_mask space; /* white space between JSON tokens, with a hole behind it */
    bool has_text, has_space;
    uint8_t *plain_from; /* while it is made, of each id: see token_trie.c */
};

/* Whether a token has just these bytes. */
bool mica_vocab_has(const grammar_vocab *v, const char *bytes, size_t n);

static inline const char *vocab_bytes(const grammar_vocab *v, int32_t id, size_t *n) {
    *n = v->off[id + 1] - v->off[id];
    return v->blob + v->off[id];
}

#endif
