/* gguf.h: one GGUF file, version 2 or 3: metadata, tensor descriptions, data.
 */
#ifndef MICA_FORMAT_GGUF_H
#define MICA_FORMAT_GGUF_H

#include "format/tensor.h"

typedef enum gguf_value_type {
    GGUF_VALUE_U8 = 0,
    GGUF_VALUE_I8,
    GGUF_VALUE_U16,
    GGUF_VALUE_I16,
    GGUF_VALUE_U32,
    GGUF_VALUE_I32,
    GGUF_VALUE_F32,
    GGUF_VALUE_BOOL,
    GGUF_VALUE_STRING,
    GGUF_VALUE_ARRAY,
    GGUF_VALUE_U64,
    GGUF_VALUE_I64,
    GGUF_VALUE_F64
} gguf_value_type;

typedef struct gguf_string {
    const char *data; /* not NUL-terminated: points into the file */
    uint64_t n;
} gguf_string;

/* A metadata entry. Scalars sit in `u`; an array stays in the file. */
typedef struct gguf_entry {
    gguf_string key;
    gguf_value_type type;
    gguf_value_type element; /* of an array */
    uint64_t n;              /* elements of an array */
    const uint8_t *data;     /* of an array: first element; n_bytes long, checked */
    uint64_t n_bytes;
    union {
        uint64_t u;
        int64_t i;
        double f;
        bool b;
        gguf_string s;
    };
} gguf_entry;

typedef struct gguf_file gguf_file;

mica_status mica_gguf_open(gguf_file **out, const char *path, mica_error *err);
mica_status mica_gguf_parse(gguf_file **out, const uint8_t *data, uint64_t n_bytes,
                            const char *name,
                            mica_error *err); /* borrows `data`; for the fuzz target */
void mica_gguf_close(gguf_file *file);        /* NULL is fine */

const char *mica_gguf_name(const gguf_file *file); /* the path, for messages */
mica_map *mica_gguf_map(const gguf_file *file);    /* NULL when parsed from memory */
uint32_t mica_gguf_version(const gguf_file *file);

size_t mica_gguf_n_tensors(const gguf_file *file);
const file_tensor *mica_gguf_tensor(const gguf_file *file, size_t i);
const file_tensor *mica_gguf_find_tensor(const gguf_file *file,
                                         const char *name); /* NULL: absent */

size_t mica_gguf_n_entries(const gguf_file *file);
const gguf_entry *mica_gguf_entry(const gguf_file *file, size_t i);
const gguf_entry *mica_gguf_find(const gguf_file *file, const char *key); /* NULL: absent */

/* Typed look-ups with a fallback for an absent key; an integer of any width serves as number. */
double mica_gguf_number(const gguf_file *file, const char *key, double fallback);
int64_t mica_gguf_integer(const gguf_file *file, const char *key, int64_t fallback);
bool mica_gguf_bool(const gguf_file *file, const char *key, bool fallback);
/* n = 0 and data = NULL when absent or no string. */
gguf_string mica_gguf_string(const gguf_file *file, const char *key);
/* Element i of a numeric or bool array entry, widened. i < entry->n. */
double mica_gguf_array_number(const gguf_entry *entry, uint64_t i);
/* Walks a string array: *pos starts at 0 and advances. False at the end. */
bool mica_gguf_next_string(const gguf_entry *entry, uint64_t *pos, gguf_string *out);

/* Elements and bytes of a block; 0 elements: not a type that mica reads. */
typedef struct gguf_block {
    uint32_t n_elements;
    uint32_t n_bytes;
    const char *name; /* "Q4_K" */
} gguf_block;
gguf_block mica_gguf_block(uint32_t type);

#endif
