/* json_keys.c: finds two equal keys among many, in time that no choice of keys can make quadratic.
 *
 * Few keys are compared with each other. Many go into a hash table with linear probing; the hash is
 * fast and not secret, so a document may be made such that all its keys collide: when the probes
 * exceed what honest keys need, the keys are sorted instead.
 */
#include "base/json_keys.h"

#include <stdlib.h>
#include <string.h>

enum { FEW_KEYS = 8, PROBES_PER_KEY = 16 };

typedef struct key_slot {
    uint32_t tag;      /* upper half of the hash: most unequal keys differ here */
    uint32_t entry_p1; /* index + 1; 0: free */
} key_slot;

static bool keys_equal(const json_entry *a, const json_entry *b) {
    return a->n_key == b->n_key && memcmp(a->key, b->key, a->n_key) == 0;
}

static const json_entry *find_among_few(const json_entry *entries, size_t n) {
    for (size_t i = 1; i < n; i++) {
        for (size_t j = 0; j < i; j++) {
            if (keys_equal(&entries[i], &entries[j])) return &entries[i];
        }
    }
    return NULL;
}

static uint64_t mix(uint64_t h) {
    h *= UINT64_C(0x9E3779B97F4A7C15); /* 2^64 / golden ratio */
    return h ^ h >> 29;
}

static uint64_t hash_key(const char *key, size_t n) {
    uint64_t h = mix(n + 1), word;
    for (; n >= 8; key += 8, n -= 8) {
        memcpy(&word, key, 8);
        h = mix(h ^ word);
    }
    word = 0;
    memcpy(&word, key, n);
    h = mix(h ^ word);
    return mix(h);
}

static int compare_entries(const void *a, const void *b) {
    const json_entry *x = *(const json_entry *const *)a;
    const json_entry *y = *(const json_entry *const *)b;
    if (x->n_key != y->n_key) return x->n_key < y->n_key ? -1 : 1;
    int order = memcmp(x->key, y->key, x->n_key);
    if (order) return order;
    return x->key_off < y->key_off ? -1 : 1;
}

static bool find_by_sorting(const json_entry *entries, size_t n, const json_entry **twin) {
    const json_entry **sorted = mica_malloc(n * sizeof(*sorted));
    if (!sorted) return false;
    for (size_t i = 0; i < n; i++) {
        sorted[i] = &entries[i];
    }
    qsort(sorted, n, sizeof(*sorted), compare_entries);
    *twin = NULL;
    for (size_t i = 1; i < n && !*twin; i++) {
        if (keys_equal(sorted[i - 1], sorted[i])) *twin = sorted[i];
    }
    mica_free(sorted);
    return true;
}

/* True when the table gave an answer, false when the keys collide too much. */
static bool find_by_hashing(const json_entry *entries, size_t n, key_slot *slots, size_t mask,
                            const json_entry **twin) {
    size_t n_probes_left = n * PROBES_PER_KEY;
    for (size_t i = 0; i < n; i++) {
        uint64_t hash = hash_key(entries[i].key, entries[i].n_key);
        uint32_t tag = (uint32_t)(hash >> 32);
        size_t s = hash & mask;
        for (; slots[s].entry_p1; s = (s + 1) & mask) {
            const json_entry *other = &entries[slots[s].entry_p1 - 1];
            if (slots[s].tag == tag && keys_equal(&entries[i], other)) {
                *twin = &entries[i];
                return true;
            }
            if (n_probes_left-- == 0) return false;
        }
        slots[s] = (key_slot){tag, (uint32_t)(i + 1)};
    }
    *twin = NULL;
    return true;
}

bool mica_json_find_twin(const json_entry *entries, size_t n, const json_entry **twin) {
    if (n <= FEW_KEYS) {
        *twin = find_among_few(entries, n);
        return true;
    }
    if (n >= UINT32_MAX / 2) return find_by_sorting(entries, n, twin);
    size_t n_slots = 16;
    while (n_slots < n + n / 2) {
        n_slots *= 2;
    }
    key_slot *slots = mica_calloc(n_slots, sizeof(*slots));
    if (!slots) return false;
    bool is_answered = find_by_hashing(entries, n, slots, n_slots - 1, twin);
    mica_free(slots);
    return is_answered || find_by_sorting(entries, n, twin);
}
