/* quant_spec.h: how a config says that its modules are quantized: MLX's map of modules, or the
 * packing of another tool (docs/models.md 2.6).
 */
#ifndef MICA_WEIGHTS_QUANT_SPEC_H
#define MICA_WEIGHTS_QUANT_SPEC_H

#include "base/json.h"
#include "format/name_index.h"

typedef enum quant_mode { QUANT_AFFINE, QUANT_MXFP4, QUANT_MXFP8, QUANT_NVFP4 } quant_mode;

typedef struct quant_spec {
    quant_mode mode;
    int64_t bits, group;
} quant_spec;

typedef struct quant_override {
    bool is_dense; /* the map says: stored unquantized */
    quant_spec spec;
} quant_override;

/* Who packed the modules, which decides names and layouts of their tensors (take_packed.c). */
typedef enum quant_packing {
    PACKING_MLX,
    PACKING_GPTQ,     /* qweight by input or (AWQ) by output; zeros are stored less 1 */
    PACKING_GPTQ_V2,  /* the same with plain zeros */
    PACKING_AWQ,      /* nibbles along the outputs, in an order of their own */
    PACKING_INT32,    /* compressed-tensors pack-quantized: offset integers, first lowest */
    PACKING_NVFP4,    /* compressed-tensors; the global factor divides */
    PACKING_MODELOPT, /* nvfp4 by ModelOpt; the global factor multiplies */
    PACKING_MXFP4,    /* compressed-tensors */
    PACKING_FP8       /* e4m3 elements, one scale for each block of rows and columns */
} quant_packing;

typedef struct quant_map {
    quant_packing packing;
    int64_t packed_bits;            /* GPTQ, AWQ, INT32 */
    int64_t block_rows, block_cols; /* FP8; 0: one scale a row or a tensor, as its shape says */
    bool has_default;
    quant_spec fallback;       /* for modules without an entry of their own */
    quant_override *overrides; /* in the arena */
    name_index modules;        /* module path -> override */
} quant_map;

/* Reads the map of a raw config.json, or where it has none that of `beside`, ModelOpt's
 * hf_quant_config.json (NULL: there is no such file); without either *map stays empty. Copies what
 * it keeps to `arena`; the caller deinits map->modules, also after an error. */
mica_status mica_quant_map_read(quant_map *map, const json_value *config, const json_value *beside,
                                mica_arena *arena, mica_error *err);
/* The packing of another tool; `q` has quant_method or comes from hf_quant_config.json. */
mica_status mica_quant_packing_read(quant_map *map, const json_value *q, mica_error *err);
/* The defaults of an MLX mode by name. */
bool mica_quant_mode_find(const char *name, quant_spec *out);
/* The spec for a module, looked up under `path` and then `second` (may be equal). False: none, or
 * the map says that the module is dense. */
bool mica_quant_map_find(const quant_map *map, const char *path, const char *second,
                         quant_spec *out);
/* Is the triple one that files may hold? */
bool mica_quant_spec_is_legal(const quant_spec *spec);

#endif
