/* repack.h: GGUF blocks to the canonical layout of weights.h.
 */
#ifndef MICA_WEIGHTS_REPACK_H
#define MICA_WEIGHTS_REPACK_H

#include "weights/weights.h"

/* The form of a GGUF type; dense for F32, F16 and BF16. False: not a weight type (I32, F64). */
bool mica_gguf_form(gguf_type type, weight_form *out);

enum { REPACK_STREAMS = 5 };

/* Where the streams of a matrix begin in one allocation, and how long that is. */
typedef struct repack_plan {
    size_t codes_off, scales_off, biases_off, supers_off, super_biases_off;
    size_t n_bytes;
    uint64_t row_blocks; /* blocks of a row if rows lie in panels; 0: one row after the other */
} repack_plan;

/* The same as lists: where each stream begins, and the bytes that one block adds to it. */
void mica_repack_streams(gguf_type type, const repack_plan *plan, size_t off[REPACK_STREAMS],
                         size_t block_bytes[REPACK_STREAMS]);
/* For n_blocks blocks of a block type, without panels. False on overflow. */
bool mica_repack_plan(gguf_type type, uint64_t n_blocks, repack_plan *out);
/* For n units that add so many bytes to each stream. */
bool mica_repack_plan_streams(const size_t unit_bytes[REPACK_STREAMS], uint64_t n,
                              repack_plan *out);

/* Re-orders `n_blocks` blocks at `blocks`, the first of which is block `first` of the matrix, into
 * the memory at `base` that is laid out by `plan`. With panels both are whole panels. */
void mica_repack(gguf_type type, const uint8_t *blocks, uint64_t first, uint64_t n_blocks,
                 const repack_plan *plan, uint8_t *base);

#endif
