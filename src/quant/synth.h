/* synth.h: synthetic checkpoints: the shape of a well-known model, random weights.
 *
 * Weights are integers times a scale, so that forms with as many bits hold equal values: what an
 * MLX folder of 4 bits and a GGUF file in Q4_0 or Q4_K of the same seed multiply by is the same.
 */
#ifndef MICA_QUANT_SYNTH_H
#define MICA_QUANT_SYNTH_H

#include <stdbool.h>

#include "base/status.h"

typedef struct synth_shape {
    const char *arch, *params;                        /* "llama", "1b" */
    const char *like;                                 /* the model whose shape it is */
    int64_t n_layers, hidden_size, intermediate_size; /* of one expert, if there are experts */
    int64_t n_heads, n_kv_heads, head_dim, vocab_size;
    bool tied;
    int64_t n_experts, n_experts_used; /* 0: dense */
    int64_t window, window_pattern;    /* 0: full attention everywhere */
    double rope_theta;
    int64_t max_positions;
} synth_shape;

size_t mica_synth_n_shapes(void);
const synth_shape *mica_synth_shape(size_t i);
const synth_shape *mica_synth_find(const char *arch, const char *params); /* NULL: none */

typedef enum synth_form { SYNTH_MLX, SYNTH_Q4_0, SYNTH_Q8_0, SYNTH_Q4_K } synth_form;

typedef struct synth_options {
    const synth_shape *shape;
    synth_form form;
    int bits;         /* MLX: 2, 3, 4, 5, 6, 8; GGUF forms have their own */
    int group;        /* MLX: 32, 64, 128; in GGUF blocks of one group share their scale */
    int64_t n_layers; /* 0: the shape's */
    uint64_t seed;
    bool (*progress)(void *user, uint64_t done, uint64_t total); /* false stops; may be NULL */
    void *user;
} synth_options;

/* Writes a folder (MLX) or a file (GGUF), which appears whole or not at all. What exists is never
 * replaced: MICA_E_STATE. MICA_E_LIMIT: the disk has too little room, with both numbers.
 * MICA_E_INVALID: bits or group that no file may hold, or a group that does not divide a row. */
mica_status mica_synth_write(const synth_options *options, const char *path, mica_error *err);

#endif
