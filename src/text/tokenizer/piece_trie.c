/* piece_trie.c: building the trie, edge by edge, and its longest match. */
#include "text/tokenizer/piece_trie.h"

void mica_piece_trie_deinit(piece_trie *t) {
    mica_free(t->slots);
    mica_free(t->ids);
    *t = (piece_trie){0};
}

static mica_status fail_memory(mica_error *err) {
    return mica_fail(err, MICA_E_NOMEM, "out of memory for the pieces of a vocabulary");
}

static void put_edge(piece_trie *t, uint64_t slot) {
    size_t i = piece_trie_slot(t, slot >> TRIE_CHILD_BITS);
    while (t->slots[i]) {
        i = (i + 1) & (t->n_slots - 1);
    }
    t->slots[i] = slot;
}

/* At most two of three slots are used: a node but the root has one edge. */
static mica_status grow_slots(piece_trie *t, mica_error *err) {
    if (t->n_slots && t->n_nodes * 3 <= t->n_slots * 2) return MICA_OK;
    piece_trie grown = *t;
    grown.n_slots = t->n_slots ? t->n_slots * 2 : 1024;
    grown.slots = mica_calloc(grown.n_slots, sizeof(*grown.slots));
    if (!grown.slots) return fail_memory(err);
    for (size_t i = 0; i < t->n_slots; i++) {
        if (t->slots[i]) put_edge(&grown, t->slots[i]);
    }
    mica_free(t->slots);
    *t = grown;
    return MICA_OK;
}

static mica_status add_node(piece_trie *t, uint32_t *out, mica_error *err) {
    if (t->n_nodes >> TRIE_CHILD_BITS) {
        return mica_fail(err, MICA_E_LIMIT, "the pieces of the vocabulary have too many bytes");
    }
    void *grown = mica_text_grow(t->ids, &t->node_capacity, t->n_nodes + 1, sizeof(*t->ids));
    if (!grown) return fail_memory(err);
    t->ids = grown;
    *out = (uint32_t)t->n_nodes++;
    t->ids[*out] = -1;
    return grow_slots(t, err);
}

mica_status mica_piece_trie_add(piece_trie *t, const char *text, size_t n, int32_t id,
                                mica_error *err) {
    uint32_t node = 0;
    mica_status st = MICA_OK;
    if (!n) return MICA_OK;
    if (!t->n_nodes) st = add_node(t, &node, err);
    for (size_t i = 0; i < n && !st; i++) {
        uint32_t child = piece_trie_child(t, node, text[i]);
        if (!child) {
            st = add_node(t, &child, err);
            uint64_t key = (uint64_t)node << 8 | (uint8_t)text[i];
            if (!st) put_edge(t, key << TRIE_CHILD_BITS | child);
        }
        node = child;
    }
    if (!st) t->ids[node] = id;
    return st;
}

size_t mica_piece_trie_longest(const piece_trie *t, const char *text, size_t n, int32_t *id) {
    size_t longest = 0;
    uint32_t node = 0;
    if (!t->n_nodes) return 0;
    for (size_t i = 0; i < n && (node = piece_trie_child(t, node, text[i])) != 0; i++) {
        if (t->ids[node] < 0) continue;
        longest = i + 1;
        *id = t->ids[node];
    }
    return longest;
}
