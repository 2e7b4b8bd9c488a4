/* tensor.h: a tensor as a file describes it: a checked range of mapped bytes, never copied.
 */
#ifndef MICA_FORMAT_TENSOR_H
#define MICA_FORMAT_TENSOR_H

#include "base/dtype.h"
#include "base/file.h"

#define MICA_MAX_DIMS 6

/* GGUF block types by their number in the file (docs/numerics.md 3). */
typedef enum gguf_type {
    GGUF_F32 = 0,
    GGUF_F16 = 1,
    GGUF_Q4_0 = 2,
    GGUF_Q4_1 = 3,
    GGUF_Q5_0 = 6,
    GGUF_Q5_1 = 7,
    GGUF_Q8_0 = 8,
    GGUF_Q2_K = 10,
    GGUF_Q3_K = 11,
    GGUF_Q4_K = 12,
    GGUF_Q5_K = 13,
    GGUF_Q6_K = 14,
    GGUF_IQ4_NL = 20,
    GGUF_IQ4_XS = 23,
    GGUF_I32 = 26,
    GGUF_F64 = 28,
    GGUF_BF16 = 30,
    GGUF_MXFP4 = 39
} gguf_type;

/* Row-major: dim[n_dims-1] is contiguous (GGUF's own order is reversed on reading). */
typedef struct file_tensor {
    const char *name; /* owned by the file object */
    int n_dims;
    uint64_t dim[MICA_MAX_DIMS];
    bool is_gguf; /* then `type` counts, else `dtype` */
    mica_dtype dtype;
    gguf_type type;
    const uint8_t *data; /* no alignment is promised */
    uint64_t n_bytes;
    mica_map *map; /* borrowed from the file object; ref it to keep the bytes */
} file_tensor;

#endif
