/* safetensors_writer.c: the header of a safetensors file (docs/models.md 4). */
#include "format/safetensors_writer.h"

#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"

void mica_safetensors_writer_init(safetensors_writer *w, const char *framework) {
    w->data_bytes = 0;
    mica_json_writer_init(&w->json, false);
    mica_json_begin_object(&w->json);
    mica_json_key(&w->json, "__metadata__");
    mica_json_begin_object(&w->json);
    mica_json_key(&w->json, "format");
    mica_json_put_cstring(&w->json, framework);
    mica_json_end_object(&w->json);
}

void mica_safetensors_writer_deinit(safetensors_writer *w) { mica_json_writer_deinit(&w->json); }

/* "F32", "BF16": the reader's names are ours in capitals. */
static void put_dtype(json_writer *json, mica_dtype dtype) {
    char name[16] = "";
    const char *lower = mica_dtype_name(dtype);
    for (size_t i = 0; lower[i] && i + 1 < sizeof(name); i++)
        name[i] = (char)(lower[i] >= 'a' && lower[i] <= 'z' ? lower[i] - 'a' + 'A' : lower[i]);
    mica_json_put_cstring(json, name);
}

uint64_t mica_safetensors_add(safetensors_writer *w, const char *name, mica_dtype dtype, int n_dims,
                              const uint64_t *dim) {
    json_writer *json = &w->json;
    uint64_t n_bytes = mica_dtype_bytes(dtype);
    mica_json_key(json, name);
    mica_json_begin_object(json);
    mica_json_key(json, "dtype");
    put_dtype(json, dtype);
    mica_json_key(json, "shape");
    mica_json_begin_array(json);
    for (int i = 0; i < n_dims; i++) {
        mica_json_put_u64(json, dim[i]);
        n_bytes *= dim[i];
    }
    mica_json_end_array(json);
    mica_json_key(json, "data_offsets");
    mica_json_begin_array(json);
    mica_json_put_u64(json, w->data_bytes);
    mica_json_put_u64(json, w->data_bytes + n_bytes);
    mica_json_end_array(json);
    mica_json_end_object(json);
    w->data_bytes += n_bytes;
    return n_bytes;
}

mica_status mica_safetensors_writer_head(safetensors_writer *w, uint8_t **out, size_t *n_out,
                                         mica_error *err) {
    mica_json_end_object(&w->json);
    uint64_t n = mica_align_up(w->json.n, 8);
    uint8_t *head = w->json.failed ? NULL : mica_malloc((size_t)n + 8);
    if (!head)
        return mica_fail(err, MICA_E_NOMEM, "out of memory for the header of a safetensors file");
    memcpy(head, &n, 8);
    memset(head + 8, ' ', (size_t)n);
    memcpy(head + 8, w->json.data, w->json.n);
    *out = head;
    *n_out = (size_t)n + 8;
    return MICA_OK;
}
