/* gguf_writer.h: the head of a GGUF version 3 file: metadata, tensor descriptions, padding.
 *
 * Tensors are described first, in the order in which their data will follow; whoever writes the
 * file puts the head and then each tensor's bytes, padded to GGUF_WRITER_ALIGNMENT.
 */
#ifndef MICA_FORMAT_GGUF_WRITER_H
#define MICA_FORMAT_GGUF_WRITER_H

#include "format/gguf.h"

#define GGUF_WRITER_ALIGNMENT 32

typedef struct gguf_bytes {
    uint8_t *data;
    size_t n, capacity;
} gguf_bytes;

/* Zeros at first. `failed`: out of memory at some point; the head is incomplete. */
typedef struct gguf_writer {
    gguf_bytes entries, tensors;
    uint64_t n_entries, n_tensors;
    uint64_t data_bytes; /* of the tensors described so far, padding included */
    bool failed;
} gguf_writer;

void mica_gguf_writer_deinit(gguf_writer *w);
void mica_gguf_put_u32(gguf_writer *w, const char *key, uint32_t v);
void mica_gguf_put_f32(gguf_writer *w, const char *key, float v);
void mica_gguf_put_bool(gguf_writer *w, const char *key, bool v);
void mica_gguf_put_text(gguf_writer *w, const char *key, const char *v);
/* An array: its elements follow with mica_gguf_add_text or mica_gguf_add_i32, n of them. */
void mica_gguf_put_array(gguf_writer *w, const char *key, gguf_value_type element, uint64_t n);
void mica_gguf_add_text(gguf_writer *w, const char *s, size_t n);
void mica_gguf_add_i32(gguf_writer *w, int32_t v);
/* Row-major dimensions, as in file_tensor. Gives the bytes of its data without padding. */
uint64_t mica_gguf_put_tensor(gguf_writer *w, const char *name, gguf_type type, int n_dims,
                              const uint64_t *dim);
/* The whole head; mica_free(*out). */
mica_status mica_gguf_writer_head(const gguf_writer *w, uint8_t **out, size_t *n_out,
                                  mica_error *err);

#endif
