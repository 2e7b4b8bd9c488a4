/* name_index.c: open addressing with linear probing at a load of at most one half. */
#include "format/name_index.h"

#include <string.h>

enum { FIRST_SLOTS = 64 };

/* FNV-1a, with a last mix because the table uses the low bits only. */
static uint64_t hash_name(const char *name, uint64_t n) {
    uint64_t h = 0xCBF29CE484222325u;
    for (uint64_t i = 0; i < n; i++)
        h = (h ^ (uint8_t)name[i]) * 0x100000001B3u;
    return h ^ (h >> 32);
}

/* The slot that holds the name, or the free slot where it belongs. */
static name_slot *slot_for(name_slot *slots, size_t n_slots, const char *name, uint64_t n) {
    size_t i = (size_t)hash_name(name, n) & (n_slots - 1);
    while (slots[i].name && (slots[i].n != n || memcmp(slots[i].name, name, (size_t)n) != 0))
        i = (i + 1) & (n_slots - 1);
    return &slots[i];
}

static mica_status grow(name_index *index, mica_error *err) {
    size_t n_slots = index->n_slots ? 2 * index->n_slots : FIRST_SLOTS;
    name_slot *slots = mica_calloc(n_slots, sizeof(*slots));
    if (!slots) return mica_fail(err, MICA_E_NOMEM, "out of memory for %zu names", n_slots / 2);
    for (size_t i = 0; i < index->n_slots; i++) {
        const name_slot *old = &index->slots[i];
        if (old->name) *slot_for(slots, n_slots, old->name, old->n) = *old;
    }
    mica_free(index->slots);
    index->slots = slots;
    index->n_slots = n_slots;
    return MICA_OK;
}

void mica_name_index_deinit(name_index *index) {
    mica_free(index->slots);
    *index = (name_index){0};
}

size_t mica_name_index_find(const name_index *index, const char *name, uint64_t n) {
    if (!index->n_slots) return MICA_NAME_ABSENT;
    const name_slot *slot = slot_for(index->slots, index->n_slots, name, n);
    return slot->name ? slot->idx : MICA_NAME_ABSENT;
}

mica_status mica_name_index_add(name_index *index, const char *name, uint64_t n, size_t idx,
                                bool *was_there, mica_error *err) {
    if (2 * (index->n_used + 1) > index->n_slots) {
        mica_status st = grow(index, err);
        if (st) return st;
    }
    name_slot *slot = slot_for(index->slots, index->n_slots, name, n);
    *was_there = slot->name != NULL;
    if (*was_there) return MICA_OK;
    *slot = (name_slot){.name = name, .n = n, .idx = idx};
    index->n_used++;
    return MICA_OK;
}
