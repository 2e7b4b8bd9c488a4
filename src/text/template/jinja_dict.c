/* jinja_dict.c: dicts with Python's keys: 1, 1.0 and True are one key; lists are none.
 *
 * Entries lie in insertion order. Small dicts are searched in order; larger ones have an index of
 * open addressing, which is built anew when it gets more than half full or an entry goes.
 */
#include <math.h>
#include <string.h>

#include "text/template/jinja_string.h"

enum { MAX_UNINDEXED = 8, MAX_KEY_VALUES = 200 };

/* ---- hashing ---- */

static uint64_t mix(uint64_t h) {
    h ^= h >> 33;
    h *= 0xff51afd7ed558ccdULL;
    return h ^ h >> 33;
}

static uint64_t hash_bytes(const char *s, size_t n) {
    uint64_t h = 0xcbf29ce484222325ULL;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)s[i]) * 0x100000001b3ULL;
    return mix(h);
}

/* Equal numbers of different types have one hash. */
static uint64_t hash_number(jvalue v) {
    double d = mica_j_as_double(v);
    bool is_integer = v.kind != J_FLOAT || (fabs(d) < 9e18 && d == floor(d));
    if (is_integer)
        return mix((uint64_t)(v.kind == J_FLOAT  ? (int64_t)d
                              : v.kind == J_BOOL ? v.boolean
                                                 : v.integer));
    uint64_t bits;
    memcpy(&bits, &d, sizeof(bits));
    return mix(bits);
}

static uint64_t hash(jvalue v) {
    switch (v.kind) {
    case J_STRING:
    case J_BIGINT:
        return hash_bytes(v.string->data, v.string->n);
    case J_BOOL:
    case J_INT:
    case J_FLOAT:
        return hash_number(v);
    case J_LIST: {
        uint64_t h = 0x9e3779b97f4a7c15ULL;
        size_t n = v.list->type == J_TUPLE ? v.list->n : 0; /* others by identity or slowly */
        for (size_t i = 0; i < n; i++)
            h = mix(h * 31 + hash(v.list->items[i]));
        return h;
    }
    case J_OBJECT:
        return mix((uint64_t)(uintptr_t)v.object);
    default:
        return (uint64_t)v.kind;
    }
}

/* Tuples of more than `budget` values, those inside them too, count as unhashable. */
static bool is_hashable(jvalue v, int *budget) {
    if (v.kind == J_DICT || --*budget < 0) return false;
    if (v.kind != J_LIST) return true;
    if (v.list->type == J_RANGE || v.list->type == J_GENERATOR) return true;
    if (v.list->type != J_TUPLE) return false;
    for (size_t i = 0; i < v.list->n; i++)
        if (!is_hashable(v.list->items[i], budget)) return false;
    return true;
}

bool mica_j_is_hashable(jvalue v) {
    int budget = MAX_KEY_VALUES;
    return is_hashable(v, &budget);
}

/* ---- the index ---- */

static void place(jdict *d, size_t entry) {
    size_t at = hash(d->entries[entry].key) & (d->n_index - 1);
    while (d->index[at])
        at = (at + 1) & (d->n_index - 1);
    d->index[at] = (uint32_t)entry + 1;
}

static bool build_index(jrender *r, jdict *d) {
    size_t n = 32;
    while (n < 4 * d->n)
        n *= 2;
    d->index = mica_j_alloc(r, n, sizeof(*d->index));
    if (!d->index) return false;
    d->n_index = n;
    for (size_t i = 0; i < d->n; i++)
        place(d, i);
    return true;
}

static bool find_slow(jrender *r, const jdict *d, jvalue key, jentry **found) {
    for (size_t i = 0; i < d->n; i++) {
        bool is_equal;
        if (!mica_j_equal(r, d->entries[i].key, key, &is_equal)) return false;
        if (!is_equal) continue;
        *found = &d->entries[i];
        return true;
    }
    return true;
}

bool mica_j_dict_find(jrender *r, const jdict *d, jvalue key, jentry **found) {
    *found = NULL;
    if (!mica_j_is_hashable(key))
        return MICA_J_ERROR(r, "a %s cannot be a key of a dict", mica_j_type_name(key));
    if (key.kind == J_STRING) {
        *found = mica_j_dict_find_name(d, key.string->data, key.string->n);
        return mica_j_charge(r, key.string->n);
    }
    if (!d->index) return find_slow(r, d, key, found);
    for (size_t at = hash(key) & (d->n_index - 1); d->index[at]; at = (at + 1) & (d->n_index - 1)) {
        jentry *e = &d->entries[d->index[at] - 1];
        bool is_equal;
        if (!mica_j_equal(r, e->key, key, &is_equal)) return false;
        if (!is_equal) continue;
        *found = e;
        return true;
    }
    return true;
}

static bool is_named(const jentry *e, const char *name, size_t n) {
    return e->key.kind == J_STRING && e->key.string->n == n &&
           memcmp(e->key.string->data, name, n) == 0;
}

jentry *mica_j_dict_find_name(const jdict *d, const char *name, size_t n) {
    if (!d->index) {
        for (size_t i = 0; i < d->n; i++)
            if (is_named(&d->entries[i], name, n)) return &d->entries[i];
        return NULL;
    }
    size_t at = hash_bytes(name, n) & (d->n_index - 1);
    for (; d->index[at]; at = (at + 1) & (d->n_index - 1))
        if (is_named(&d->entries[d->index[at] - 1], name, n)) return &d->entries[d->index[at] - 1];
    return NULL;
}

/* ---- changing ---- */

jdict *mica_j_dict_new(jrender *r) { return mica_j_alloc(r, 1, sizeof(jdict)); }

static bool append(jrender *r, jdict *d, jentry entry) {
    if (d->n == d->capacity) {
        size_t capacity = d->capacity ? 2 * d->capacity : 4;
        jentry *grown = mica_j_alloc(r, capacity, sizeof(*grown));
        if (!grown) return false;
        if (d->n) memcpy(grown, d->entries, d->n * sizeof(*grown));
        d->entries = grown;
        d->capacity = capacity;
    }
    d->entries[d->n++] = entry;
    if (d->n > MAX_UNINDEXED && (!d->index || 2 * d->n > d->n_index)) return build_index(r, d);
    if (d->index) place(d, d->n - 1);
    return true;
}

bool mica_j_dict_set(jrender *r, jdict *d, jvalue key, jvalue value) {
    jentry *found;
    if (!mica_j_dict_find(r, d, key, &found)) return false;
    if (!found) return append(r, d, (jentry){key, value});
    found->value = value;
    return true;
}

bool mica_j_dict_set_name(jrender *r, jdict *d, const char *name, jvalue value) {
    const jstring *s = mica_j_cstring(r, name);
    return s && mica_j_dict_set(r, d, mica_j_text(s), value);
}

bool mica_j_dict_remove(jrender *r, jdict *d, jentry *entry) {
    size_t at = (size_t)(entry - d->entries);
    memmove(entry, entry + 1, (d->n - at - 1) * sizeof(*entry));
    d->n--;
    if (!d->index) return true;
    memset(d->index, 0, d->n_index * sizeof(*d->index));
    for (size_t i = 0; i < d->n; i++) {
        place(d, i);
        if (!mica_j_charge(r, 0)) return false;
    }
    return true;
}

/* ---- dict(...) ---- */

static bool set_pair(jrender *r, jdict *d, jvalue pair) {
    jlist *items;
    if (!mica_j_collect(r, pair, &items)) return false;
    if (items->n != 2) return MICA_J_ERROR(r, "a dict is made of pairs; found %zu items", items->n);
    return mica_j_dict_set(r, d, items->items[0], items->items[1]);
}

static bool fill_from(jrender *r, jdict *d, jvalue from) {
    if (from.kind == J_DICT) {
        for (size_t i = 0; i < from.dict->n; i++)
            if (!mica_j_dict_set(r, d, from.dict->entries[i].key, from.dict->entries[i].value))
                return false;
        return true;
    }
    jiter it;
    jvalue pair;
    bool is_done = false;
    if (!mica_j_iter_begin(r, &it, from)) return false;
    while (mica_j_iter_next(r, &it, &pair, &is_done) && !is_done)
        if (!set_pair(r, d, pair)) return false;
    return is_done;
}

bool mica_j_dict_fill(jrender *r, jdict *d, const jargs *args) {
    if (args->n > 1)
        return MICA_J_ERROR(r, "%s: at most 1 argument, found %zu", args->what, args->n);
    if (args->n && !fill_from(r, d, args->items[0])) return false;
    for (size_t i = 0; i < args->n_keywords; i++)
        if (!mica_j_dict_set(r, d, mica_j_text(args->keywords[i].name), args->keywords[i].value))
            return false;
    return true;
}
