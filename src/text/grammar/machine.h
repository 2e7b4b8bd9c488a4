/* machine.h: a grammar running over a vocabulary: the inside of machine.c, matcher.c and masks.c.
 */
#ifndef MICA_TEXT_GRAMMAR_MACHINE_H
#define MICA_TEXT_GRAMMAR_MACHINE_H

#include "text/grammar/lazy.h"
#include "text/grammar/token_trie.h"

struct grammar {
    program program;
    bool wants_vocab; /* it names tokens that were not looked up */
};

/* A grammar of what a front end has built. */
mica_status mica_grammar_from_build(grammar **out, grammar_build *b, uint32_t root,
                                    mica_error *err);

/* One way on inside a character of plain text. */
typedef struct plain_edge {
    uint8_t class;
    uint8_t to;
} plain_edge;

enum {
    N_PLAIN_STATES = 8,
    MACHINE_MAX_COVER = 4096,
    MACHINE_MAX_COVER_STATES = 1 << 22 /* states beyond have no slices */
};

/* Where a walk is: the children of one node that are left, and the state before them. */
typedef struct trie_level {
    uint32_t at, end, state;
    const uint32_t *row;
} trie_level;

struct grammar_machine {
    const grammar *grammar;
    const grammar_vocab *vocab; /* NULL: bytes only */
    size_t n_words;             /* of masks */
    int32_t *end_ids;
    size_t n_end_ids;
    lazy lazy;
    grammar_matcher *matchers; /* all of them: their states survive a rebuild */
    token_mask *masks;
    uint32_t n_masks, masks_capacity;
    size_t mask_bytes;
    size_t budget_bytes; /* of states and masks */
    size_t n_flushes;
    plain_edge edges[N_PLAIN_STATES][256];
    uint16_t n_edges[N_PLAIN_STATES];
    /* scratch of walks */
    trie_level levels[TRIE_MAX_DEPTH + 1];
    int32_t *found_ids;
    uint32_t *found_roots;
    uint32_t n_found_ids, n_found_roots, ids_capacity, roots_capacity;
    uint32_t *cover;     /* see slices.c */
    uint8_t *cover_seen; /* [cover_capacity] */
    uint32_t cover_capacity;
    uint32_t text_state; /* inside a string without constraints; 0: not looked for yet */
};

struct grammar_matcher {
    grammar_machine *machine;
    uint32_t *history; /* states; the last one is the present */
    size_t n_history, capacity;
    grammar_matcher *next, **link; /* in the machine's list */
};

/* The mask of a hollow state, made when first wanted; the machine's or the vocabulary's. */
mica_status mica_machine_mask(grammar_machine *m, uint32_t hollow, const token_mask **out,
                              mica_error *err);
/* Notes a node of a trie at which the hole is popped; false: out of memory. */
bool mica_machine_add_root(grammar_machine *m, uint32_t node);
/* Sets the bits of all tokens that are allowed in `state`; mask [m->n_words]. */
mica_status mica_machine_fill(grammar_machine *m, uint32_t state, uint64_t *mask, mica_error *err);
/* A state from which the characters (first bytes) `leads_there` lead to `target`, where all text is
 * allowed for ever; DEAD: it is none. */
typedef struct text_start {
    uint32_t target;
    bool leads_there[256];
} text_start;

/* For mica_machine_mask (slices.c): the edges of plain text in the classes of the grammar; the part
 * of a mask that needs no walk, and the trie of the tokens that do. */
void mica_machine_init_edges(grammar_machine *m);
/* Of a character from 0x20 on: CHARS_..., or the character itself. */
int mica_kind_of_char(unsigned char c);
void mica_machine_find_slice(grammar_machine *m, uint32_t state, token_mask *t, text_start *start);
void mica_token_mask_deinit(token_mask *t);
/* Makes v->text and v->space, which need all else of the vocabulary. */
mica_status mica_vocab_make_known(grammar_vocab *v, mica_error *err);
/* Makes everything anew with only the states of matchers when too much has piled up. */
mica_status mica_machine_trim(grammar_machine *m, mica_error *err);

#endif
