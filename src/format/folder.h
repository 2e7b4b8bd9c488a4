/* folder.h: a Hugging Face or MLX folder: config.json, safetensors shards, and the side files that
 * a model needs. Which shards there are follows docs/models.md: the index if present, else every
 * model*.safetensors sorted by name.
 */
#ifndef MICA_FORMAT_FOLDER_H
#define MICA_FORMAT_FOLDER_H

#include "base/json.h"
#include "format/tensor.h"

typedef struct hf_folder hf_folder;

/* Opens config.json (required), generation_config.json (ignored when malformed) and
 * hf_quant_config.json; tensors only with mica_folder_open_tensors. */
mica_status mica_folder_open(hf_folder **out, const char *path, mica_error *err);
void mica_folder_close(hf_folder *folder); /* NULL is fine */
const char *mica_folder_path(const hf_folder *folder);
const json_value *mica_folder_config(const hf_folder *folder);
const json_value *mica_folder_generation_config(const hf_folder *folder); /* NULL: none */
const json_value *mica_folder_quant_config(const hf_folder *folder);      /* NULL: none */

/* Maps the shards and indexes all tensors by name. Errors: no safetensors, a shard or a tensor that
 * the index names is missing, a name in two shards. */
mica_status mica_folder_open_tensors(hf_folder *folder, mica_error *err);
size_t mica_folder_n_tensors(const hf_folder *folder);
const file_tensor *mica_folder_tensor(const hf_folder *folder, size_t i);
const file_tensor *mica_folder_find_tensor(const hf_folder *folder, const char *name);
/* Tensors in a shard that the index does not name: ignored, counted for a warning. */
size_t mica_folder_n_unindexed(const hf_folder *folder);
size_t mica_folder_n_shards(const hf_folder *folder);
uint64_t mica_folder_file_bytes(const hf_folder *folder); /* sum of the shards' sizes */

#endif
