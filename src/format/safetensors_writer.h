/* safetensors_writer.h: the header of a safetensors file whose tensors follow in the order in which
 * they were added, without gaps.
 */
#ifndef MICA_FORMAT_SAFETENSORS_WRITER_H
#define MICA_FORMAT_SAFETENSORS_WRITER_H

#include "base/dtype.h"
#include "base/json.h"

typedef struct safetensors_writer {
    json_writer json;
    uint64_t data_bytes; /* of the tensors added so far */
} safetensors_writer;

/* `framework` is the "format" of the metadata ("mlx", "pt"). */
void mica_safetensors_writer_init(safetensors_writer *w, const char *framework);
void mica_safetensors_writer_deinit(safetensors_writer *w);
/* Gives the bytes of its data. */
uint64_t mica_safetensors_add(safetensors_writer *w, const char *name, mica_dtype dtype, int n_dims,
                              const uint64_t *dim);
/* Ends the header: its length as eight bytes, the JSON, spaces up to a multiple of 8. Once;
 * mica_free(*out). */
mica_status mica_safetensors_writer_head(safetensors_writer *w, uint8_t **out, size_t *n_out,
                                         mica_error *err);

#endif
