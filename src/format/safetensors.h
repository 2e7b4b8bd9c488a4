/* safetensors.h: one .safetensors file: u64 header length, JSON header, data.
 *
 * Opening maps the file and checks every entry against its length; no tensor page is touched.
 */
#ifndef MICA_FORMAT_SAFETENSORS_H
#define MICA_FORMAT_SAFETENSORS_H

#include "format/tensor.h"

typedef struct safetensors_file safetensors_file;

mica_status mica_safetensors_open(safetensors_file **out, const char *path, mica_error *err);
void mica_safetensors_close(safetensors_file *file); /* NULL is fine */
size_t mica_safetensors_count(const safetensors_file *file);
uint64_t mica_safetensors_bytes(const safetensors_file *file); /* of the whole file */
const file_tensor *mica_safetensors_at(const safetensors_file *file, size_t i);
/* The same check on bytes in memory, for the fuzz target; *out borrows `data`. */
mica_status mica_safetensors_parse(safetensors_file **out, const uint8_t *data, uint64_t n_bytes,
                                   const char *name, mica_error *err);
/* A string of `__metadata__`, or NULL. */
const char *mica_safetensors_metadata(const safetensors_file *file, const char *key);

#endif
