/* text_buffer.h: growing bytes and growing arrays, for text on its way through the pipeline.
 *
 * A buffer is a struct of zeros at first and is given back with deinit. Inner loops reserve an
 * upper bound once and then write without checks.
 */
#ifndef MICA_TEXT_TOKENIZER_TEXT_BUFFER_H
#define MICA_TEXT_TOKENIZER_TEXT_BUFFER_H

#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"

typedef struct text_buffer {
    char *data;
    size_t n;
    size_t capacity;
} text_buffer;

void mica_text_buffer_deinit(text_buffer *b);
/* Room for n_more bytes after b->n. */
mica_status mica_text_buffer_reserve(text_buffer *b, size_t n_more, mica_error *err);
mica_status mica_text_buffer_append(text_buffer *b, const char *s, size_t n, mica_error *err);

/* Whether n bytes may come of n_source: a tokenizer's file can multiply a text with every step.
 * MICA_E_LIMIT: more than any model asks for. */
mica_status mica_text_check_growth(size_t n, size_t n_source, mica_error *err);

/* The room must be reserved. */
static inline void text_put_bytes(text_buffer *b, const char *s, size_t n) {
    if (n) memcpy(b->data + b->n, s, n);
    b->n += n;
}
static inline void text_put_char(text_buffer *b, uint32_t c) {
    b->n += mica_utf8_put(b->data + b->n, c);
}

/* An array of at least n_needed items, moved if it must grow (to twice its size or more). NULL: out
 * of memory, and `items` is as it was. */
void *mica_text_grow(void *items, size_t *capacity, size_t n_needed, size_t item_bytes);

/* A piece of a text. `is_head`: it begins where the user's whole text begins. */
typedef struct text_piece {
    size_t begin;
    size_t end;
    bool is_match; /* while a pattern is applied: a match, not a gap */
    bool is_head;
} text_piece;

typedef struct piece_list {
    text_piece *items;
    size_t n;
    size_t capacity;
} piece_list;

mica_status mica_piece_push(piece_list *list, text_piece piece, mica_error *err);

#endif
