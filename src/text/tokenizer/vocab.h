/* vocab.h: the texts of all ids and a hash from text to id.
 *
 * Built for vocabularies of a quarter million entries: all texts lie in one blob, an id costs 4 + 2
 * + 1 bytes and about 8 of hash. Ids may come in any order and may leave gaps. Hidden entries are
 * parts of merges that are no token: only the merge table uses them.
 */
#ifndef MICA_TEXT_TOKENIZER_VOCAB_H
#define MICA_TEXT_TOKENIZER_VOCAB_H

#include "text/tokenizer/text_buffer.h"

#define VOCAB_MAX_IDS (1u << 22)
#define VOCAB_MAX_TEXT 65535u

/* The kinds are numbered as in GGUF and SentencePiece; the flags are ours. */
enum token_kind {
    TOKEN_ABSENT = 0,
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN = 2,
    TOKEN_CONTROL = 3,
    TOKEN_USER = 4,
    TOKEN_UNUSED = 5,
    TOKEN_BYTE = 6,
    TOKEN_HIDDEN = 7,
    TOKEN_OUTSIDE = 8, /* an added token that the model does not know */
    TOKEN_KIND_MASK = 0x0F,
    TOKEN_SPECIAL = 0x10, /* skipped by skip_special, and only a token if parse_special */
    TOKEN_LITERAL = 0x20, /* decodes to its text as it is */
    TOKEN_ADDED = 0x40    /* matched in the text before the model sees it */
};

typedef struct vocab {
    const char *name; /* of the source, for messages */
    char *blob;       /* texts, each followed by a NUL */
    size_t blob_bytes;
    size_t blob_capacity;
    uint32_t *off;
    uint16_t *len;
    uint8_t *kind; /* token_kind and flags */
    size_t n_ids;  /* highest id + 1 */
    size_t capacity;
    uint32_t *slots; /* of texts; open addressing, a power of two */
    size_t n_slots;
    size_t n_used;
    size_t longest; /* bytes of the longest text */
} vocab;

void mica_vocab_deinit(vocab *v);
/* Prepares for ids below n_ids, so that nothing is moved or left over. */
mica_status mica_vocab_reserve(vocab *v, size_t n_ids, size_t n_text_bytes, mica_error *err);
/* Gives `id`, which must be free, its text. A text that was there before now means `id`; an empty
 * one can never be found. */
mica_status mica_vocab_add(vocab *v, size_t id, const char *text, size_t n, uint8_t kind,
                           mica_error *err);
/* The id of a text, or -1. */
int32_t mica_vocab_find(const vocab *v, const char *text, size_t n);
/* The same with the hash of the text at hand. */
int32_t mica_vocab_find_hashed(const vocab *v, const char *text, size_t n, uint64_t hash);

/* Many look-ups in a large vocabulary wait for memory; these ask for it ahead: first the slot,
 * later where the text of the id in it lies, later the text. */
static inline void vocab_prefetch_slot(const vocab *v, uint64_t hash) {
    if (v->n_slots) __builtin_prefetch(&v->slots[(size_t)hash & (v->n_slots - 1)]);
}
#define VOCAB_SLOT_ID_MASK ((1u << 23) - 1) /* id + 1 in a slot */
static inline int64_t vocab_slot_id(const vocab *v, uint64_t hash) {
    if (!v->n_slots) return -1;
    return (int64_t)(v->slots[(size_t)hash & (v->n_slots - 1)] & VOCAB_SLOT_ID_MASK) - 1;
}
static inline void vocab_prefetch_place(const vocab *v, uint64_t hash) {
    int64_t id = vocab_slot_id(v, hash);
    if (id < 0) return;
    __builtin_prefetch(&v->off[id]);
    __builtin_prefetch(&v->len[id]);
}
static inline void vocab_prefetch_text(const vocab *v, uint64_t hash) {
    int64_t id = vocab_slot_id(v, hash);
    if (id >= 0) __builtin_prefetch(v->blob + v->off[id]);
}

static inline bool vocab_has(const vocab *v, int64_t id) {
    return id >= 0 && (size_t)id < v->n_ids && v->kind[id] != TOKEN_ABSENT;
}
static inline const char *vocab_text(const vocab *v, int32_t id, size_t *n) {
    *n = v->len[id];
    return v->blob + v->off[id];
}
static inline uint8_t vocab_kind(const vocab *v, int32_t id) {
    return v->kind[id] & TOKEN_KIND_MASK;
}
static inline bool vocab_has_token(const vocab *v, int64_t id) {
    return vocab_has(v, id) && vocab_kind(v, (int32_t)id) != TOKEN_HIDDEN;
}

/* Whether the model may make this id of text, whatever model it is. */
static inline bool vocab_has_piece(const vocab *v, int64_t id) {
    if (!vocab_has(v, id)) return false;
    uint8_t kind = vocab_kind(v, (int32_t)id);
    return kind == TOKEN_NORMAL || kind == TOKEN_USER;
}

/* A good mix of short strings, for the hashes of this folder. */
uint64_t mica_text_hash(const char *s, size_t n);

#endif
