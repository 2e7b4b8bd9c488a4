/* merge_loop.c: a binary heap of candidates over a linked list of symbols.
 */
#include "text/tokenizer/merge_loop.h"

void mica_merge_scratch_deinit(merge_scratch *s) {
    mica_free(s->symbols);
    mica_free(s->heap);
    *s = (merge_scratch){0};
}

mica_status mica_merge_push(merge_scratch *s, uint32_t begin, uint32_t n, int32_t id,
                            mica_error *err) {
    void *grown =
        mica_text_grow(s->symbols, &s->symbol_capacity, s->n_symbols + 1, sizeof(*s->symbols));
    if (!grown) return mica_fail(err, MICA_E_NOMEM, "out of memory for the symbols of a text");
    s->symbols = grown;
    int32_t place = (int32_t)s->n_symbols++;
    s->symbols[place] =
        (merge_symbol){.begin = begin, .n = n, .prev = place - 1, .next = -1, .id = id};
    if (place) s->symbols[place - 1].next = place;
    return MICA_OK;
}

static mica_status heap_push(merge_scratch *s, merge_candidate c, mica_error *err) {
    void *grown = mica_text_grow(s->heap, &s->heap_capacity, s->n_heap + 1, sizeof(*s->heap));
    if (!grown) return mica_fail(err, MICA_E_NOMEM, "out of memory for the merges of a text");
    s->heap = grown;
    size_t i = s->n_heap++;
    while (i > 0 && s->heap[(i - 1) / 2].key > c.key) {
        s->heap[i] = s->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    s->heap[i] = c;
    return MICA_OK;
}

static merge_candidate heap_pop(merge_scratch *s) {
    merge_candidate top = s->heap[0], last = s->heap[--s->n_heap];
    size_t i = 0, child;
    while ((child = 2 * i + 1) < s->n_heap) {
        if (child + 1 < s->n_heap && s->heap[child + 1].key < s->heap[child].key) child++;
        if (s->heap[child].key >= last.key) break;
        s->heap[i] = s->heap[child];
        i = child;
    }
    s->heap[i] = last;
    return top;
}

static mica_status propose(merge_scratch *s, merge_find find, const void *user, int32_t left,
                           mica_error *err) {
    if (left < 0 || s->symbols[left].next < 0) return MICA_OK;
    const merge_symbol *l = &s->symbols[left], *r = &s->symbols[l->next];
    uint32_t rank;
    merge_candidate c = {.n = l->n + r->n};
    if (!find(user, l, r, &rank, &c.id)) return MICA_OK;
    c.key = (uint64_t)rank << 32 | (uint32_t)left;
    return heap_push(s, c, err);
}

/* The right symbol disappears into the left one. */
static void join(merge_scratch *s, merge_symbol *left, int32_t id) {
    merge_symbol *right = &s->symbols[left->next];
    left->n += right->n;
    left->id = id;
    left->next = right->next;
    if (right->next >= 0) s->symbols[right->next].prev = (int32_t)(left - s->symbols);
    right->n = 0;
}

mica_status mica_merge_run(merge_scratch *s, merge_find find, const void *user, mica_error *err) {
    mica_status st;
    s->n_heap = 0;
    for (size_t i = 0; i + 1 < s->n_symbols; i++) {
        if ((st = propose(s, find, user, (int32_t)i, err))) return st;
    }
    while (s->n_heap) {
        merge_candidate c = heap_pop(s);
        merge_symbol *left = &s->symbols[(uint32_t)c.key];
        if (!left->n || left->next < 0 || left->n + s->symbols[left->next].n != c.n) continue;
        join(s, left, c.id);
        if ((st = propose(s, find, user, left->prev, err))) return st;
        if ((st = propose(s, find, user, (int32_t)(uint32_t)c.key, err))) return st;
    }
    return MICA_OK;
}
