/* text_buffer.c: growing bytes and growing arrays; nothing here knows about tokens. */
#include "text/tokenizer/text_buffer.h"

#include "base/checked.h"

void mica_text_buffer_deinit(text_buffer *b) {
    mica_free(b->data);
    *b = (text_buffer){0};
}

void *mica_text_grow(void *items, size_t *capacity, size_t n_needed, size_t item_bytes) {
    if (n_needed <= *capacity && items) return items;
    size_t wanted = *capacity < 16 ? 16 : *capacity, n_bytes;
    while (wanted < n_needed) {
        if (!mica_mul_size(wanted, 2, &wanted)) return NULL;
    }
    if (!mica_mul_size(wanted, item_bytes, &n_bytes)) return NULL;
    void *grown = mica_realloc(items, n_bytes);
    if (grown) *capacity = wanted;
    return grown;
}

mica_status mica_text_buffer_reserve(text_buffer *b, size_t n_more, mica_error *err) {
    size_t n_needed;
    char *grown = NULL;
    if (mica_add_size(b->n, n_more, &n_needed)) {
        grown = mica_text_grow(b->data, &b->capacity, n_needed, 1);
    }
    if (!grown) return mica_fail(err, MICA_E_NOMEM, "out of memory for %zu bytes of text", n_more);
    b->data = grown;
    return MICA_OK;
}

mica_status mica_text_buffer_append(text_buffer *b, const char *s, size_t n, mica_error *err) {
    mica_status st = mica_text_buffer_reserve(b, n, err);
    if (st) return st;
    text_put_bytes(b, s, n);
    return MICA_OK;
}

mica_status mica_text_check_growth(size_t n, size_t n_source, mica_error *err) {
    enum { FREE_BYTES = 1 << 20, MAX_GROWTH = 64 }; /* NFKC makes at most 11 bytes of one */
    if (n <= FREE_BYTES || n / MAX_GROWTH <= n_source) return MICA_OK;
    return mica_fail(
        err, MICA_E_LIMIT,
        "the tokenizer's normalizer makes %zu bytes and more of %zu: its file asks for "
        "replacements that multiply the text",
        n, n_source);
}

mica_status mica_piece_push(piece_list *list, text_piece piece, mica_error *err) {
    text_piece *grown = mica_text_grow(list->items, &list->capacity, list->n + 1, sizeof(piece));
    if (!grown) return mica_fail(err, MICA_E_NOMEM, "out of memory for pieces of text");
    list->items = grown;
    list->items[list->n++] = piece;
    return MICA_OK;
}
