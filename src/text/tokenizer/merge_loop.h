/* merge_loop.h: the loop that both kinds of BPE share: join the best pair of neighbours, again and
 * again, with a heap in O(n log n) and no recursion.
 *
 * A candidate is stale when the two symbols it was made for are no longer neighbours. Symbols only
 * grow, so that comparing the summed length is enough to see it.
 */
#ifndef MICA_TEXT_TOKENIZER_MERGE_LOOP_H
#define MICA_TEXT_TOKENIZER_MERGE_LOOP_H

#include "text/tokenizer/text_buffer.h"

typedef struct merge_symbol {
    uint32_t begin; /* bytes of the piece; n = 0: merged into the symbol before */
    uint32_t n;
    int32_t prev, next; /* -1: none */
    int32_t id;         /* -1: no token */
} merge_symbol;

typedef struct merge_candidate {
    uint64_t key; /* rank in the high half, place of the left symbol in the low; least first */
    uint32_t n;   /* bytes of both symbols */
    int32_t id;   /* of the result */
} merge_candidate;

typedef struct merge_scratch {
    merge_symbol *symbols;
    size_t n_symbols;
    size_t symbol_capacity;
    merge_candidate *heap;
    size_t n_heap;
    size_t heap_capacity;
} merge_scratch;

void mica_merge_scratch_deinit(merge_scratch *s);
mica_status mica_merge_push(merge_scratch *s, uint32_t begin, uint32_t n, int32_t id,
                            mica_error *err);

/* Whether two neighbours may be joined: fills rank and id. */
typedef bool (*merge_find)(const void *user, const merge_symbol *left, const merge_symbol *right,
                           uint32_t *rank, int32_t *id);

/* Merges s->symbols[0..n_symbols), which stand in order. Afterwards walk `next` from symbol 0. */
mica_status mica_merge_run(merge_scratch *s, merge_find find, const void *user, mica_error *err);

#endif
