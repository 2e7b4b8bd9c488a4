/* quant_packing.c: reads the quantization settings that other tools write: quant_method in
 * config.json, and ModelOpt's hf_quant_config.json (docs/models.md 2.6).
 *
 * Settings that name a layout of which nothing is known are refused by name.
 */
#include <string.h>

#include "weights/quant_spec.h"

static mica_status refuse(const char *key, const char *value, mica_error *err) {
    return mica_fail(err, MICA_E_UNSUPPORTED,
                     "config.json: quantization with %s '%.60s' is not supported; use an MLX or "
                     "GGUF conversion of this model",
                     key, value);
}

static mica_status read_mlx_mode(quant_map *map, const char *name) {
    map->has_default = mica_quant_mode_find(name, &map->fallback);
    return MICA_OK;
}

static mica_status read_bits(quant_map *map, const json_value *q, const char *key,
                             mica_error *err) {
    const json_value *bits = mica_json_find_set(q, key);
    map->packed_bits = bits ? mica_json_i64(bits, -1) : 4;
    if (map->packed_bits == 4 || map->packed_bits == 8) return MICA_OK;
    return mica_fail(err, MICA_E_UNSUPPORTED,
                     "config.json: packed integers with %s %lld are not supported, only 4 and 8",
                     key, (long long)map->packed_bits);
}

static mica_status read_awq(quant_map *map, const json_value *q, mica_error *err) {
    const char *version = mica_json_string(mica_json_find_set(q, "version"), "gemm");
    if (strcmp(version, "gemm") != 0 && strcmp(version, "GEMM") != 0)
        return refuse("awq version", version, err);
    map->packing = PACKING_AWQ;
    mica_status st = read_bits(map, q, "bits", err);
    if (!st && map->packed_bits != 4) st = refuse("awq bits", "8", err);
    return st;
}

static mica_status read_gptq(quant_map *map, const json_value *q, mica_error *err) {
    const char *format = mica_json_string(mica_json_find_set(q, "checkpoint_format"), "gptq");
    if (!strcmp(format, "gptq"))
        map->packing = PACKING_GPTQ;
    else if (!strcmp(format, "gptq_v2"))
        map->packing = PACKING_GPTQ_V2;
    else
        return refuse("gptq checkpoint_format", format, err);
    return read_bits(map, q, "bits", err);
}

/* The weights' scheme of a compressed-tensors config; its groups must agree on the bits. */
static mica_status read_int32(quant_map *map, const json_value *q, mica_error *err) {
    const json_value *groups = mica_json_find_set(q, "config_groups");
    map->packing = PACKING_INT32;
    map->packed_bits = 4;
    for (size_t i = 0; groups && groups->kind == JSON_KIND_OBJECT && i < groups->n; i++) {
        const json_value *weights = mica_json_find_set(groups->members[i].value, "weights");
        int64_t before = map->packed_bits;
        mica_status st = read_bits(map, weights, "num_bits", err);
        if (st) return st;
        if (i && map->packed_bits != before)
            return refuse("config_groups", "that differ in num_bits", err);
        if (mica_json_find_set(groups->members[i].value, "input_activations"))
            return refuse("format pack-quantized and", "input_activations", err);
    }
    return MICA_OK;
}

static mica_status read_compressed(quant_map *map, const json_value *q, mica_error *err) {
    const char *format = mica_json_string(mica_json_find_set(q, "format"), "");
    if (!strcmp(format, "pack-quantized")) return read_int32(map, q, err);
    if (!strcmp(format, "nvfp4-pack-quantized"))
        map->packing = PACKING_NVFP4;
    else if (!strcmp(format, "mxfp4-pack-quantized"))
        map->packing = PACKING_MXFP4;
    else
        return refuse("compressed-tensors format", format, err);
    return MICA_OK;
}

static mica_status read_fp8(quant_map *map, const json_value *q, mica_error *err) {
    const json_value *block = mica_json_find_set(q, "weight_block_size");
    map->packing = PACKING_FP8;
    if (!block) return MICA_OK;
    bool pair = block->kind == JSON_KIND_ARRAY && block->n == 2;
    map->block_rows = pair ? mica_json_i64(block->items[0], -1) : -1;
    map->block_cols = pair ? mica_json_i64(block->items[1], -1) : -1;
    if (map->block_rows > 0 && map->block_cols > 0) return MICA_OK;
    return mica_fail(err, MICA_E_FORMAT,
                     "config.json: weight_block_size must be two positive numbers");
}

static mica_status read_modelopt(quant_map *map, const json_value *q, mica_error *err) {
    const json_value *nested = mica_json_find_set(q, "quantization");
    const json_value *settings = nested ? nested : q;
    const char *algo = mica_json_string(mica_json_find_set(settings, "quant_algo"), "");
    if (strcmp(algo, "NVFP4") != 0) return refuse("modelopt quant_algo", algo, err);
    map->packing = PACKING_MODELOPT;
    return MICA_OK;
}

mica_status mica_quant_packing_read(quant_map *map, const json_value *q, mica_error *err) {
    const char *method = mica_json_string(mica_json_find_set(q, "quant_method"), "modelopt");
    if (!strcmp(method, "mxfp4") || !strcmp(method, "mxfp8")) return read_mlx_mode(map, method);
    if (!strcmp(method, "awq")) return read_awq(map, q, err);
    if (!strcmp(method, "gptq")) return read_gptq(map, q, err);
    if (!strcmp(method, "compressed-tensors")) return read_compressed(map, q, err);
    if (!strcmp(method, "fp8")) return read_fp8(map, q, err);
    if (!strcmp(method, "modelopt")) return read_modelopt(map, q, err);
    return refuse("quant_method", method, err);
}
