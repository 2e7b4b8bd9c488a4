/* gguf_file.h: the inside of a gguf_file, shared by gguf.c (reading) and gguf_lookup.c (answers).
 */
#ifndef MICA_FORMAT_GGUF_FILE_H
#define MICA_FORMAT_GGUF_FILE_H

#include "base/alloc.h"
#include "format/gguf.h"
#include "format/name_index.h"

struct gguf_file {
    mica_map *map; /* NULL: parsed from memory */
    char *name;
    const uint8_t *data;
    uint64_t n_bytes;
    uint32_t version;
    gguf_entry *entries;
    size_t n_entries;
    name_index keys;
    file_tensor *tensors;
    size_t n_tensors;
    name_index names;
    mica_arena arena; /* tensor names */
};

/* Bytes of one value of a fixed-size type; 0 for strings and arrays. */
uint64_t mica_gguf_value_bytes(gguf_value_type type);
/* Puts the fixed-size value at `p` of type e->type into e's union, widened. */
void mica_gguf_widen(gguf_entry *e, const uint8_t *p);
/* The dtype of a plain type; u8 for block types, whose elements have none. */
mica_dtype mica_gguf_dtype(gguf_type type);

#endif
