/* gguf_writer.c: the head of a GGUF file, put together in memory (docs/numerics.md 3). */
#include "format/gguf_writer.h"

#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"

static void append(gguf_writer *w, gguf_bytes *b, const void *data, size_t n) {
    if (w->failed) return;
    if (b->n + n > b->capacity) {
        size_t capacity = (b->n + n) * 2 + 256;
        uint8_t *bigger = mica_realloc(b->data, capacity);
        if (!bigger) {
            w->failed = true;
            return;
        }
        b->data = bigger;
        b->capacity = capacity;
    }
    memcpy(b->data + b->n, data, n);
    b->n += n;
}

/* x86-64 and aarch64 store integers as the file does, lowest byte first. */
static void append_u32(gguf_writer *w, gguf_bytes *b, uint32_t v) { append(w, b, &v, 4); }
static void append_u64(gguf_writer *w, gguf_bytes *b, uint64_t v) { append(w, b, &v, 8); }

static void append_text(gguf_writer *w, gguf_bytes *b, const char *s, size_t n) {
    append_u64(w, b, n);
    append(w, b, s, n);
}

static void begin_entry(gguf_writer *w, const char *key, gguf_value_type type) {
    append_text(w, &w->entries, key, strlen(key));
    append_u32(w, &w->entries, (uint32_t)type);
    w->n_entries++;
}

void mica_gguf_writer_deinit(gguf_writer *w) {
    mica_free(w->entries.data);
    mica_free(w->tensors.data);
    memset(w, 0, sizeof(*w));
}

void mica_gguf_put_u32(gguf_writer *w, const char *key, uint32_t v) {
    begin_entry(w, key, GGUF_VALUE_U32);
    append_u32(w, &w->entries, v);
}

void mica_gguf_put_f32(gguf_writer *w, const char *key, float v) {
    begin_entry(w, key, GGUF_VALUE_F32);
    append(w, &w->entries, &v, 4);
}

void mica_gguf_put_bool(gguf_writer *w, const char *key, bool v) {
    uint8_t byte = v;
    begin_entry(w, key, GGUF_VALUE_BOOL);
    append(w, &w->entries, &byte, 1);
}

void mica_gguf_put_text(gguf_writer *w, const char *key, const char *v) {
    begin_entry(w, key, GGUF_VALUE_STRING);
    append_text(w, &w->entries, v, strlen(v));
}

void mica_gguf_put_array(gguf_writer *w, const char *key, gguf_value_type element, uint64_t n) {
    begin_entry(w, key, GGUF_VALUE_ARRAY);
    append_u32(w, &w->entries, (uint32_t)element);
    append_u64(w, &w->entries, n);
}

void mica_gguf_add_text(gguf_writer *w, const char *s, size_t n) {
    append_text(w, &w->entries, s, n);
}

void mica_gguf_add_i32(gguf_writer *w, int32_t v) { append(w, &w->entries, &v, 4); }

uint64_t mica_gguf_put_tensor(gguf_writer *w, const char *name, gguf_type type, int n_dims,
                              const uint64_t *dim) {
    gguf_block block = mica_gguf_block((uint32_t)type);
    uint64_t n_bytes = block.n_bytes;
    append_text(w, &w->tensors, name, strlen(name));
    append_u32(w, &w->tensors, (uint32_t)n_dims);
    for (int i = n_dims - 1; i >= 0; i--) { /* the file counts from the contiguous one */
        append_u64(w, &w->tensors, dim[i]);
        n_bytes *= i == n_dims - 1 ? dim[i] / block.n_elements : dim[i];
    }
    append_u32(w, &w->tensors, (uint32_t)type);
    append_u64(w, &w->tensors, w->data_bytes);
    w->n_tensors++;
    w->data_bytes += mica_align_up(n_bytes, GGUF_WRITER_ALIGNMENT);
    return n_bytes;
}

mica_status mica_gguf_writer_head(const gguf_writer *w, uint8_t **out, size_t *n_out,
                                  mica_error *err) {
    const uint32_t magic_version[2] = {0x46554747u, 3}; /* "GGUF" */
    const uint64_t counts[2] = {w->n_tensors, w->n_entries};
    size_t n = 24 + w->entries.n + w->tensors.n;
    size_t n_padded = mica_align_up(n, GGUF_WRITER_ALIGNMENT);
    uint8_t *head = w->failed ? NULL : mica_calloc(n_padded, 1);
    if (!head) return mica_fail(err, MICA_E_NOMEM, "out of memory for the head of a GGUF file");
    memcpy(head, magic_version, 8);
    memcpy(head + 8, counts, 16);
    if (w->entries.n) memcpy(head + 24, w->entries.data, w->entries.n);
    if (w->tensors.n) memcpy(head + 24 + w->entries.n, w->tensors.data, w->tensors.n);
    *out = head;
    *n_out = n_padded;
    return MICA_OK;
}
