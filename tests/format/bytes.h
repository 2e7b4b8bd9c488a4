/* bytes.h: a growing buffer in which tests build files, and files in a scratch folder.
 */
#ifndef MICA_TESTS_BYTES_H
#define MICA_TESTS_BYTES_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct bytes {
    uint8_t *data;
    size_t n, capacity;
} bytes;

static inline void put_raw(bytes *b, const void *data, size_t n) {
    if (b->n + n > b->capacity) {
        b->capacity = 2 * (b->n + n);
        b->data = realloc(b->data, b->capacity);
        assert_non_null(b->data);
    }
    if (n) memcpy(b->data + b->n, data, n);
    b->n += n;
}
static inline void put_u8(bytes *b, uint8_t v) { put_raw(b, &v, 1); }
static inline void put_u32(bytes *b, uint32_t v) { put_raw(b, &v, 4); }
static inline void put_u64(bytes *b, uint64_t v) { put_raw(b, &v, 8); }
static inline void put_text(bytes *b, const char *s) { put_raw(b, s, strlen(s)); }
/* As GGUF has it: length, bytes. */
static inline void put_string(bytes *b, const char *s) {
    put_u64(b, strlen(s));
    put_text(b, s);
}
static inline void put_fill(bytes *b, uint8_t value, size_t n) {
    for (size_t i = 0; i < n; i++)
        put_u8(b, value);
}
static inline void pad_to(bytes *b, size_t unit) { put_fill(b, 0, (unit - b->n % unit) % unit); }
static inline void bytes_free(bytes *b) {
    free(b->data);
    *b = (bytes){0};
}

/* A copy of the first n bytes in a block of exactly that size, so that a sanitizer sees every read
 * past the end. */
static inline uint8_t *exact_copy(const uint8_t *data, size_t n) {
    uint8_t *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    if (n) memcpy(copy, data, n);
    return copy;
}

/* A safetensors file: header length, header, n_data bytes 0, 1, 2, ... */
static inline void put_safetensors(bytes *b, const char *header, size_t n_data) {
    put_u64(b, strlen(header));
    put_text(b, header);
    for (size_t i = 0; i < n_data; i++)
        put_u8(b, (uint8_t)i);
}

/* The folder is new; its files are removed with remove_scratch. */
typedef struct scratch {
    char folder[64];
    char path[256]; /* of the last file written */
} scratch;

static inline void make_scratch(scratch *s) {
    strcpy(s->folder, "/tmp/mica-test-XXXXXX");
    assert_non_null(mkdtemp(s->folder));
}
static inline const char *scratch_path(scratch *s, const char *name) {
    snprintf(s->path, sizeof(s->path), "%s/%s", s->folder, name);
    return s->path;
}
/* Writes the file and makes it `size` bytes long if that is more: a sparse file. */
static inline const char *write_scratch(scratch *s, const char *name, const void *data, size_t n,
                                        uint64_t size) {
    int fd = open(scratch_path(s, name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, n), (ssize_t)n);
    if (size > n) assert_int_equal(ftruncate(fd, (off_t)size), 0);
    close(fd);
    return s->path;
}
static inline const char *write_text(scratch *s, const char *name, const char *text) {
    return write_scratch(s, name, text, strlen(text), 0);
}
static inline void remove_file(scratch *s, const char *name) { unlink(scratch_path(s, name)); }
static inline void remove_scratch(scratch *s, const char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++)
        remove_file(s, names[i]);
    rmdir(s->folder);
}

#endif
