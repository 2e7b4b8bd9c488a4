/* gguf_bytes.h: writes small GGUF files with metadata only, in memory, for tests of their reader's
 * users.
 */
#ifndef MICA_TESTS_TEXT_GGUF_BYTES_H
#define MICA_TESTS_TEXT_GGUF_BYTES_H

#include <stdlib.h>
#include <string.h>

#include "format/gguf.h"

typedef struct gguf_bytes {
    uint8_t *data;
    size_t n;
    uint64_t n_entries;
} gguf_bytes;

static inline void gguf_put(gguf_bytes *g, const void *bytes, size_t n) {
    g->data = realloc(g->data, g->n + n + 64);
    memcpy(g->data + g->n, bytes, n);
    g->n += n;
}
static inline void gguf_put_u32(gguf_bytes *g, uint32_t v) { gguf_put(g, &v, 4); }
static inline void gguf_put_u64(gguf_bytes *g, uint64_t v) { gguf_put(g, &v, 8); }
static inline void gguf_put_text(gguf_bytes *g, const char *s, size_t n) {
    gguf_put_u64(g, n);
    gguf_put(g, s, n);
}

/* Magic, version 3, no tensors, and room for the number of entries. */
static inline void gguf_begin(gguf_bytes *g) {
    *g = (gguf_bytes){0};
    gguf_put(g, "GGUF", 4);
    gguf_put_u32(g, 3);
    gguf_put_u64(g, 0);
    gguf_put_u64(g, 0);
}

static inline void gguf_key(gguf_bytes *g, const char *key, gguf_value_type type) {
    gguf_put_text(g, key, strlen(key));
    gguf_put_u32(g, type);
    g->n_entries++;
}
static inline void gguf_add_string(gguf_bytes *g, const char *key, const char *value) {
    gguf_key(g, key, GGUF_VALUE_STRING);
    gguf_put_text(g, value, strlen(value));
}
static inline void gguf_add_u32(gguf_bytes *g, const char *key, uint32_t value) {
    gguf_key(g, key, GGUF_VALUE_U32);
    gguf_put_u32(g, value);
}
static inline void gguf_add_bool(gguf_bytes *g, const char *key, bool value) {
    uint8_t byte = value;
    gguf_key(g, key, GGUF_VALUE_BOOL);
    gguf_put(g, &byte, 1);
}
static inline void gguf_begin_array(gguf_bytes *g, const char *key, gguf_value_type type,
                                    uint64_t n) {
    gguf_key(g, key, GGUF_VALUE_ARRAY);
    gguf_put_u32(g, type);
    gguf_put_u64(g, n);
}

/* Fills in the number of entries and pads. */
static inline void gguf_end(gguf_bytes *g) {
    memcpy(g->data + 16, &g->n_entries, 8);
    while (g->n % 32) {
        gguf_put(g, "", 1);
    }
}

#endif
