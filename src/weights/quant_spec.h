/* quant_spec.h: the quantization map of an MLX config: which module is stored how (docs/models.md
 * 2.6).
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

typedef struct quant_map {
    bool has_default;
    quant_spec fallback;       /* for modules without an entry of their own */
    quant_override *overrides; /* in the arena */
    name_index modules;        /* module path -> override */
} quant_map;

/* Reads the map of a raw config.json; without one *map stays empty. Copies what it keeps to
 * `arena`; the caller deinits map->modules, also after an error. */
mica_status mica_quant_map_read(quant_map *map, const json_value *config, mica_arena *arena,
                                mica_error *err);
/* The spec for a module, looked up under `path` and then `second` (may be equal). False: none, or
 * the map says that the module is dense. */
bool mica_quant_map_find(const quant_map *map, const char *path, const char *second,
                         quant_spec *out);
/* Is the triple one that files may hold? */
bool mica_quant_spec_is_legal(const quant_spec *spec);

#endif
