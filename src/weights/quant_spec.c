/* quant_spec.c: reads `quantization` or `quantization_config` of config.json.
 *
 * Entries of a module do not inherit from the default: what they leave out is the default of their
 * mode. The packings of other tools are quant_packing.c's.
 */
#include "weights/quant_spec.h"

#include <string.h>

typedef struct mode_row {
    const char *name;
    quant_spec defaults;
} mode_row;

static const mode_row modes[] = {
    {"affine", {QUANT_AFFINE, 4, 64}},
    {"mxfp4", {QUANT_MXFP4, 4, 32}},
    {"mxfp8", {QUANT_MXFP8, 8, 32}},
    {"nvfp4", {QUANT_NVFP4, 4, 16}},
};
#define N_MODES (sizeof(modes) / sizeof(*modes))

bool mica_quant_spec_is_legal(const quant_spec *spec) {
    for (size_t i = 1; i < N_MODES; i++)
        if (modes[i].defaults.mode == spec->mode)
            return spec->bits == modes[i].defaults.bits && spec->group == modes[i].defaults.group;
    bool bits = (spec->bits >= 2 && spec->bits <= 6) || spec->bits == 8;
    return bits && (spec->group == 32 || spec->group == 64 || spec->group == 128);
}

bool mica_quant_mode_find(const char *name, quant_spec *out) {
    for (size_t i = 0; i < N_MODES; i++) {
        if (strcmp(modes[i].name, name) != 0) continue;
        *out = modes[i].defaults;
        return true;
    }
    return false;
}

/* bits, group_size and mode of the map itself or of one of its entries. */
static mica_status read_spec(quant_spec *out, const json_value *object, const char *module,
                             mica_error *err) {
    const json_value *mode = mica_json_find_set(object, "mode");
    const json_value *bits = mica_json_find_set(object, "bits");
    const json_value *group = mica_json_find_set(object, "group_size");
    const char *name = mica_json_string(mode, mode ? "" : "affine");
    if (!mica_quant_mode_find(name, out))
        return mica_fail(err, MICA_E_UNSUPPORTED,
                         "config.json: %s: unknown quantization mode '%.40s'", module, name);
    out->bits = mica_json_i64(bits, bits ? -1 : out->bits);
    out->group = mica_json_i64(group, group ? -1 : out->group);
    if (mica_json_bool(mica_json_find(object, "quantize_activations"), false))
        return mica_fail(err, MICA_E_UNSUPPORTED,
                         "config.json: %s: quantize_activations is not supported", module);
    if (mica_quant_spec_is_legal(out)) return MICA_OK;
    return mica_fail(err, MICA_E_UNSUPPORTED,
                     "config.json: %s: %s quantization with %lld bits and group_size %lld is not "
                     "supported",
                     module, name, (long long)out->bits, (long long)out->group);
}

static const json_value *find_map(const json_value *config) {
    const json_value *text = mica_json_find_set(config, "text_config");
    const json_value *places[] = {config, text};
    for (size_t i = 0; i < 2; i++) {
        const json_value *q = mica_json_find_set(places[i], "quantization");
        if (!q) q = mica_json_find_set(places[i], "quantization_config");
        if (q) return q;
    }
    return NULL;
}

/* A member of the map that is no module of its own leaves *is_module false. */
static mica_status read_override(quant_override *out, bool *is_module, const quant_map *map,
                                 const json_member *member, mica_error *err) {
    const json_value *v = member->value;
    *is_module = v->kind == JSON_KIND_OBJECT || v->kind == JSON_KIND_BOOL;
    if (v->kind == JSON_KIND_BOOL) {
        *out = (quant_override){.is_dense = !v->boolean, .spec = map->fallback};
        return MICA_OK;
    }
    if (v->kind != JSON_KIND_OBJECT) return MICA_OK;
    *out = (quant_override){.is_dense = v->n == 0};
    return v->n ? read_spec(&out->spec, v, member->key, err) : MICA_OK;
}

static mica_status read_overrides(quant_map *map, const json_value *q, mica_arena *arena,
                                  mica_error *err) {
    size_t n = 0;
    map->overrides = mica_arena_calloc(arena, q->n, sizeof(*map->overrides));
    if (!map->overrides) return mica_fail(err, MICA_E_NOMEM, "out of memory for config.json");
    for (size_t i = 0; i < q->n; i++) {
        const json_member *m = &q->members[i];
        bool is_module = false, was_there = false;
        mica_status st = read_override(&map->overrides[n], &is_module, map, m, err);
        if (st) return st;
        if (!is_module) continue;
        char *key = mica_arena_strndup(arena, m->key, m->n_key);
        if (!key) return mica_fail(err, MICA_E_NOMEM, "out of memory for config.json");
        st = mica_name_index_add(&map->modules, key, m->n_key, n++, &was_there, err);
        if (st) return st;
    }
    return MICA_OK;
}

mica_status mica_quant_map_read(quant_map *map, const json_value *config, const json_value *beside,
                                mica_arena *arena, mica_error *err) {
    const json_value *q = find_map(config);
    if (mica_json_bool(mica_json_find(config, "quantize_activations"), false))
        return mica_fail(err, MICA_E_UNSUPPORTED,
                         "config.json: quantize_activations is not supported");
    if (!q && beside) return mica_quant_packing_read(map, beside, err);
    if (!q) return MICA_OK;
    if (q->kind != JSON_KIND_OBJECT)
        return mica_fail(err, MICA_E_FORMAT, "config.json: quantization must be an object");
    if (mica_json_find_set(q, "quant_method")) return mica_quant_packing_read(map, q, err);
    mica_status st = read_spec(&map->fallback, q, "quantization", err);
    if (st) return st;
    map->has_default = true;
    return read_overrides(map, q, arena, err);
}

bool mica_quant_map_find(const quant_map *map, const char *path, const char *second,
                         quant_spec *out) {
    size_t i = mica_name_index_find(&map->modules, path, strlen(path));
    if (i == MICA_NAME_ABSENT) i = mica_name_index_find(&map->modules, second, strlen(second));
    if (i == MICA_NAME_ABSENT) {
        *out = map->fallback;
        return map->has_default;
    }
    *out = map->overrides[i].spec;
    return !map->overrides[i].is_dense;
}
