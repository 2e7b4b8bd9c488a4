/* vocab.c: texts in one blob, ids in an open-addressing hash that compares with the blob. */
#include "text/tokenizer/vocab.h"

#include "base/checked.h"

void mica_vocab_deinit(vocab *v) {
    mica_free(v->blob);
    mica_free(v->off);
    mica_free(v->len);
    mica_free(v->kind);
    mica_free(v->slots);
    *v = (vocab){0};
}

/* Eight bytes at a time. The multiplier is 2^64 / golden ratio; a product carries only upwards, so
 * its high half is folded into the low one, where the slots are taken from, and multiplied again.
 */
static uint64_t mix(uint64_t h) {
    h *= UINT64_C(0x9E3779B97F4A7C15);
    return h ^ h >> 32;
}

uint64_t mica_text_hash(const char *s, size_t n) {
    uint64_t h = (uint64_t)n, word;
    for (; n >= 8; s += 8, n -= 8) {
        memcpy(&word, s, 8);
        h = mix(h ^ word);
    }
    word = 0;
    if (n) memcpy(&word, s, n);
    return mix(mix(h ^ word));
}

static mica_status fail_memory(const vocab *v, mica_error *err) {
    return mica_fail(err, MICA_E_NOMEM, "%s: out of memory for the vocabulary", v->name);
}

/* Grows each array on its own, so that a failure in the middle leaves a usable vocabulary. */
static mica_status grow_ids(vocab *v, size_t n_needed, bool is_exact, mica_error *err) {
    if (n_needed <= v->capacity) return MICA_OK;
    size_t n = is_exact ? n_needed : n_needed + n_needed / 2 + 64;
    uint32_t *off = mica_realloc(v->off, n * sizeof(*off));
    if (!off) return fail_memory(v, err);
    v->off = off;
    uint16_t *len = mica_realloc(v->len, n * sizeof(*len));
    if (!len) return fail_memory(v, err);
    v->len = len;
    uint8_t *kind = mica_realloc(v->kind, n);
    if (!kind) return fail_memory(v, err);
    v->kind = kind;
    memset(v->kind + v->capacity, TOKEN_ABSENT, n - v->capacity);
    v->capacity = n;
    return MICA_OK;
}

/* id + 1 in the low bits, and some of the hash above: most probes that are not the text are told by
 * it without a look at the texts. */
#define SLOT_ID_MASK VOCAB_SLOT_ID_MASK
_Static_assert(VOCAB_MAX_IDS < SLOT_ID_MASK, "ids must fit into a slot");

static uint32_t slot_tag(uint64_t hash) { return (uint32_t)(hash >> 32) & ~SLOT_ID_MASK; }

static void put_slot(uint32_t *slots, size_t n_slots, uint64_t hash, uint32_t value) {
    size_t i = (size_t)hash & (n_slots - 1);
    while (slots[i]) {
        i = (i + 1) & (n_slots - 1);
    }
    slots[i] = value;
}

/* At most 7 of 10 slots are used after this. */
static mica_status grow_slots(vocab *v, size_t n_texts, mica_error *err) {
    if (v->n_slots && n_texts * 10 <= v->n_slots * 7) return MICA_OK;
    size_t n_slots = 64;
    while (n_texts * 10 > n_slots * 7) {
        n_slots *= 2;
    }
    uint32_t *slots = mica_calloc(n_slots, sizeof(*slots));
    if (!slots) return fail_memory(v, err);
    for (size_t i = 0; i < v->n_slots; i++) {
        if (!v->slots[i]) continue;
        size_t n;
        const char *text = vocab_text(v, (int32_t)(v->slots[i] & SLOT_ID_MASK) - 1, &n);
        put_slot(slots, n_slots, mica_text_hash(text, n), v->slots[i]);
    }
    mica_free(v->slots);
    v->slots = slots;
    v->n_slots = n_slots;
    return MICA_OK;
}

static mica_status grow_blob(vocab *v, size_t n_needed, bool is_exact, mica_error *err) {
    if (n_needed <= v->blob_capacity) return MICA_OK;
    if (n_needed > UINT32_MAX) {
        return mica_fail(err, MICA_E_LIMIT, "%s: the texts of the vocabulary exceed 4 GiB",
                         v->name);
    }
    size_t n = is_exact ? n_needed : n_needed + n_needed / 2 + 1024;
    char *blob = mica_realloc(v->blob, n);
    if (!blob) return fail_memory(v, err);
    v->blob = blob;
    v->blob_capacity = n;
    return MICA_OK;
}

mica_status mica_vocab_reserve(vocab *v, size_t n_ids, size_t n_text_bytes, mica_error *err) {
    mica_status st;
    if (n_ids > VOCAB_MAX_IDS) {
        return mica_fail(err, MICA_E_LIMIT,
                         "%s: the vocabulary has %zu entries; at most %u are read", v->name, n_ids,
                         VOCAB_MAX_IDS);
    }
    if ((st = grow_ids(v, n_ids, true, err))) return st;
    if ((st = grow_slots(v, n_ids, err))) return st;
    return grow_blob(v, n_text_bytes + n_ids, true, err);
}

/* The slot that holds the text or the empty one where it would go. */
static size_t find_slot(const vocab *v, const char *text, size_t n, uint64_t hash) {
    size_t i = (size_t)hash & (v->n_slots - 1);
    for (uint32_t slot; (slot = v->slots[i]) != 0; i = (i + 1) & (v->n_slots - 1)) {
        if ((slot & ~SLOT_ID_MASK) != slot_tag(hash)) continue;
        uint32_t id = (slot & SLOT_ID_MASK) - 1;
        if (v->len[id] == n && memcmp(v->blob + v->off[id], text, n) == 0) break;
    }
    return i;
}

int32_t mica_vocab_find_hashed(const vocab *v, const char *text, size_t n, uint64_t hash) {
    if (!n || n > v->longest) return -1;
    uint32_t slot = v->slots[find_slot(v, text, n, hash)];
    return (int32_t)(slot & SLOT_ID_MASK) - 1;
}

int32_t mica_vocab_find(const vocab *v, const char *text, size_t n) {
    if (!n || n > v->longest) return -1;
    return mica_vocab_find_hashed(v, text, n, mica_text_hash(text, n));
}

mica_status mica_vocab_add(vocab *v, size_t id, const char *text, size_t n, uint8_t kind,
                           mica_error *err) {
    mica_status st;
    if (id >= VOCAB_MAX_IDS) {
        return mica_fail(err, MICA_E_LIMIT, "%s: token id %zu is above the limit of %u", v->name,
                         id, VOCAB_MAX_IDS);
    }
    if (n > VOCAB_MAX_TEXT) {
        return mica_fail(err, MICA_E_LIMIT,
                         "%s: the text of token %zu has %zu bytes; at most %u are read", v->name,
                         id, n, VOCAB_MAX_TEXT);
    }
    if (vocab_has(v, (int64_t)id)) {
        return mica_fail(err, MICA_E_FORMAT, "%s: token id %zu has two texts, \"%s\" and \"%.*s\"",
                         v->name, id, v->blob + v->off[id], (int)n, text);
    }
    if ((st = grow_ids(v, id + 1, false, err))) return st;
    if ((st = grow_slots(v, v->n_used + 1, err))) return st;
    if ((st = grow_blob(v, v->blob_bytes + n + 1, false, err))) return st;
    v->off[id] = (uint32_t)v->blob_bytes;
    v->len[id] = (uint16_t)n;
    v->kind[id] = kind;
    if (n) memcpy(v->blob + v->blob_bytes, text, n);
    v->blob[v->blob_bytes + n] = '\0';
    v->blob_bytes += n + 1;
    if (id >= v->n_ids) v->n_ids = id + 1;
    if (n > v->longest) v->longest = n;
    if (!n) return MICA_OK;
    uint64_t hash = mica_text_hash(text, n);
    size_t slot = find_slot(v, text, n, hash);
    if (!v->slots[slot]) v->n_used++;
    v->slots[slot] = ((uint32_t)id + 1) | slot_tag(hash);
    return MICA_OK;
}
