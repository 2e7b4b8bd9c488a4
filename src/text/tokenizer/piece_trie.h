/* piece_trie.h: all pieces of a vocabulary that begin at a place of a text, shortest first.
 *
 * A trie over bytes whose edges lie in one open-addressing table, keyed by node and byte: 8 bytes
 * an edge, 4 a node, and one probe a byte of text.
 */
#ifndef MICA_TEXT_TOKENIZER_PIECE_TRIE_H
#define MICA_TEXT_TOKENIZER_PIECE_TRIE_H

#include "text/tokenizer/vocab.h"

typedef struct piece_trie {
    uint64_t *slots; /* node, byte and child of an edge; 0: empty; a power of two of them */
    size_t n_slots;
    int32_t *ids; /* of the piece that ends at each node; -1: none. Node 0 is the root */
    size_t n_nodes;
    size_t node_capacity;
} piece_trie;

#define TRIE_CHILD_BITS 28

void mica_piece_trie_deinit(piece_trie *t);
/* A text that was there before now means `id`. Empty texts are passed over. */
mica_status mica_piece_trie_add(piece_trie *t, const char *text, size_t n, int32_t id,
                                mica_error *err);

static inline size_t piece_trie_slot(const piece_trie *t, uint64_t key) {
    return (size_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (t->n_slots - 1);
}

/* The node behind an edge; 0: there is none. The trie must not be empty. */
static inline uint32_t piece_trie_child(const piece_trie *t, uint32_t node, char byte) {
    uint64_t key = (uint64_t)node << 8 | (uint8_t)byte;
    size_t i = piece_trie_slot(t, key);
    for (uint64_t slot; (slot = t->slots[i]) != 0; i = (i + 1) & (t->n_slots - 1)) {
        if (slot >> TRIE_CHILD_BITS == key) return (uint32_t)slot & ((1u << TRIE_CHILD_BITS) - 1);
    }
    return 0;
}

/* The bytes of the longest piece at text[0..n), its id in *id; 0: none. An empty trie is fine. */
size_t mica_piece_trie_longest(const piece_trie *t, const char *text, size_t n, int32_t *id);

#endif
