/* gguf_lookup.c: what an opened GGUF file answers, and the table of its block types
 * (docs/numerics.md 3.2).
 */
#include "format/gguf_file.h"

#include <string.h>

uint64_t mica_gguf_value_bytes(gguf_value_type type) {
    static const uint8_t bytes[] = {
        [GGUF_VALUE_U8] = 1,  [GGUF_VALUE_I8] = 1,  [GGUF_VALUE_U16] = 2, [GGUF_VALUE_I16] = 2,
        [GGUF_VALUE_U32] = 4, [GGUF_VALUE_I32] = 4, [GGUF_VALUE_F32] = 4, [GGUF_VALUE_BOOL] = 1,
        [GGUF_VALUE_U64] = 8, [GGUF_VALUE_I64] = 8, [GGUF_VALUE_F64] = 8,
    };
    return bytes[type];
}

static uint64_t load_unsigned(const uint8_t *p, uint64_t n_bytes) {
    uint64_t v = 0;
    memcpy(&v, p, (size_t)n_bytes);
    return v;
}

static int64_t load_signed(const uint8_t *p, uint64_t n_bytes) {
    unsigned unused = (unsigned)(64 - 8 * n_bytes);
    return (int64_t)(load_unsigned(p, n_bytes) << unused) >> unused;
}

void mica_gguf_widen(gguf_entry *e, const uint8_t *p) {
    uint64_t n_bytes = mica_gguf_value_bytes(e->type);
    switch (e->type) {
    case GGUF_VALUE_U8:
    case GGUF_VALUE_U16:
    case GGUF_VALUE_U32:
    case GGUF_VALUE_U64:
        e->u = load_unsigned(p, n_bytes);
        break;
    case GGUF_VALUE_I8:
    case GGUF_VALUE_I16:
    case GGUF_VALUE_I32:
    case GGUF_VALUE_I64:
        e->i = load_signed(p, n_bytes);
        break;
    case GGUF_VALUE_F32:
        e->f = (double)mica_bits_f32((uint32_t)load_unsigned(p, n_bytes));
        break;
    case GGUF_VALUE_F64:
        memcpy(&e->f, p, sizeof(e->f));
        break;
    case GGUF_VALUE_BOOL:
        e->b = *p != 0;
        break;
    case GGUF_VALUE_STRING:
    case GGUF_VALUE_ARRAY:
        break;
    }
}

mica_dtype mica_gguf_dtype(gguf_type type) {
    switch (type) {
    case GGUF_F32:
        return MICA_F32;
    case GGUF_F16:
        return MICA_F16;
    case GGUF_BF16:
        return MICA_BF16;
    case GGUF_I32:
        return MICA_I32;
    case GGUF_F64:
        return MICA_F64;
    default:
        return MICA_U8;
    }
}

gguf_block mica_gguf_block(uint32_t type) {
    static const gguf_block blocks[] = {
        [GGUF_F32] = {1, 4, "F32"},
        [GGUF_F16] = {1, 2, "F16"},
        [GGUF_Q4_0] = {32, 18, "Q4_0"},
        [GGUF_Q4_1] = {32, 20, "Q4_1"},
        [GGUF_Q5_0] = {32, 22, "Q5_0"},
        [GGUF_Q5_1] = {32, 24, "Q5_1"},
        [GGUF_Q8_0] = {32, 34, "Q8_0"},
        [GGUF_Q2_K] = {256, 84, "Q2_K"},
        [GGUF_Q3_K] = {256, 110, "Q3_K"},
        [GGUF_Q4_K] = {256, 144, "Q4_K"},
        [GGUF_Q5_K] = {256, 176, "Q5_K"},
        [GGUF_Q6_K] = {256, 210, "Q6_K"},
        [GGUF_IQ4_NL] = {32, 18, "IQ4_NL"},
        [GGUF_IQ4_XS] = {256, 136, "IQ4_XS"},
        [GGUF_I32] = {1, 4, "I32"},
        [GGUF_F64] = {1, 8, "F64"},
        [GGUF_BF16] = {1, 2, "BF16"},
        [GGUF_MXFP4] = {32, 17, "MXFP4"},
        /* Refused, by name. */
        [9] = {0, 0, "Q8_1"},
        [15] = {0, 0, "Q8_K"},
        [16] = {0, 0, "IQ2_XXS"},
        [17] = {0, 0, "IQ2_XS"},
        [18] = {0, 0, "IQ3_XXS"},
        [19] = {0, 0, "IQ1_S"},
        [21] = {0, 0, "IQ3_S"},
        [22] = {0, 0, "IQ2_S"},
        [24] = {0, 0, "I8"},
        [25] = {0, 0, "I16"},
        [27] = {0, 0, "I64"},
        [29] = {0, 0, "IQ1_M"},
        [34] = {0, 0, "TQ1_0"},
        [35] = {0, 0, "TQ2_0"},
        [40] = {0, 0, "NVFP4"},
        [41] = {0, 0, "Q1_0"},
        [42] = {0, 0, "Q2_0"},
    };
    if (type < sizeof(blocks) / sizeof(*blocks) && blocks[type].name) return blocks[type];
    return (gguf_block){0, 0, "unknown"};
}

const char *mica_gguf_name(const gguf_file *file) { return file->name; }
mica_map *mica_gguf_map(const gguf_file *file) { return file->map; }
uint32_t mica_gguf_version(const gguf_file *file) { return file->version; }
size_t mica_gguf_n_tensors(const gguf_file *file) { return file->n_tensors; }
const file_tensor *mica_gguf_tensor(const gguf_file *file, size_t i) { return &file->tensors[i]; }
size_t mica_gguf_n_entries(const gguf_file *file) { return file->n_entries; }
const gguf_entry *mica_gguf_entry(const gguf_file *file, size_t i) { return &file->entries[i]; }

const file_tensor *mica_gguf_find_tensor(const gguf_file *file, const char *name) {
    size_t i = mica_name_index_find(&file->names, name, strlen(name));
    return i == MICA_NAME_ABSENT ? NULL : &file->tensors[i];
}

const gguf_entry *mica_gguf_find(const gguf_file *file, const char *key) {
    size_t i = mica_name_index_find(&file->keys, key, strlen(key));
    return i == MICA_NAME_ABSENT ? NULL : &file->entries[i];
}

static bool is_signed(gguf_value_type type) {
    return type == GGUF_VALUE_I8 || type == GGUF_VALUE_I16 || type == GGUF_VALUE_I32 ||
           type == GGUF_VALUE_I64;
}

static bool is_unsigned(gguf_value_type type) {
    return type == GGUF_VALUE_U8 || type == GGUF_VALUE_U16 || type == GGUF_VALUE_U32 ||
           type == GGUF_VALUE_U64;
}

static double entry_number(const gguf_entry *e, double fallback) {
    if (e->type == GGUF_VALUE_F32 || e->type == GGUF_VALUE_F64) return e->f;
    if (is_signed(e->type)) return (double)e->i;
    return is_unsigned(e->type) ? (double)e->u : fallback;
}

double mica_gguf_number(const gguf_file *file, const char *key, double fallback) {
    const gguf_entry *e = mica_gguf_find(file, key);
    return e ? entry_number(e, fallback) : fallback;
}

int64_t mica_gguf_integer(const gguf_file *file, const char *key, int64_t fallback) {
    const gguf_entry *e = mica_gguf_find(file, key);
    if (!e) return fallback;
    if (is_signed(e->type)) return e->i;
    return is_unsigned(e->type) && e->u <= INT64_MAX ? (int64_t)e->u : fallback;
}

bool mica_gguf_bool(const gguf_file *file, const char *key, bool fallback) {
    const gguf_entry *e = mica_gguf_find(file, key);
    return e && e->type == GGUF_VALUE_BOOL ? e->b : fallback;
}

gguf_string mica_gguf_string(const gguf_file *file, const char *key) {
    const gguf_entry *e = mica_gguf_find(file, key);
    return e && e->type == GGUF_VALUE_STRING ? e->s : (gguf_string){0};
}

double mica_gguf_array_number(const gguf_entry *entry, uint64_t i) {
    gguf_entry one = {.type = entry->element};
    mica_gguf_widen(&one, entry->data + i * mica_gguf_value_bytes(entry->element));
    return one.type == GGUF_VALUE_BOOL ? (double)one.b : entry_number(&one, 0);
}

bool mica_gguf_next_string(const gguf_entry *entry, uint64_t *pos, gguf_string *out) {
    if (entry->type != GGUF_VALUE_ARRAY || entry->element != GGUF_VALUE_STRING) return false;
    if (*pos >= entry->n_bytes) return false;
    memcpy(&out->n, entry->data + *pos, 8);
    out->data = (const char *)entry->data + *pos + 8;
    *pos += 8 + out->n;
    return true;
}
