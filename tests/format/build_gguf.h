/* build_gguf.h: GGUF files made in memory by tests.
 */
#ifndef MICA_TESTS_BUILD_GGUF_H
#define MICA_TESTS_BUILD_GGUF_H

#include "bytes.h"

#include "format/gguf.h"

static inline void put_gguf_head(bytes *b, uint32_t version, uint64_t n_tensors, uint64_t n_kv) {
    put_text(b, "GGUF");
    put_u32(b, version);
    put_u64(b, n_tensors);
    put_u64(b, n_kv);
}
static inline void put_key(bytes *b, const char *key, gguf_value_type type) {
    put_string(b, key);
    put_u32(b, (uint32_t)type);
}
static inline void put_kv_u32(bytes *b, const char *key, uint32_t v) {
    put_key(b, key, GGUF_VALUE_U32);
    put_u32(b, v);
}
static inline void put_kv_string(bytes *b, const char *key, const char *v) {
    put_key(b, key, GGUF_VALUE_STRING);
    put_string(b, v);
}
static inline void put_kv_array(bytes *b, const char *key, gguf_value_type element, uint64_t n) {
    put_key(b, key, GGUF_VALUE_ARRAY);
    put_u32(b, (uint32_t)element);
    put_u64(b, n);
}
/* dim[0] is the fastest, as in the file. */
static inline void put_info(bytes *b, const char *name, uint32_t n_dims, const uint64_t *dim,
                            uint32_t type, uint64_t offset) {
    put_string(b, name);
    put_u32(b, n_dims);
    for (uint32_t i = 0; i < n_dims; i++)
        put_u64(b, dim[i]);
    put_u32(b, type);
    put_u64(b, offset);
}

#endif
