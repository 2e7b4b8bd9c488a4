/* dtype.c: the table of element types and the conversions that are too long to inline. */
#include "base/dtype.h"

typedef struct dtype_info {
    const char *name;
    const char *file_name; /* in safetensors headers */
    size_t n_bytes;
} dtype_info;

static const dtype_info dtypes[MICA_N_DTYPES] = {
    [MICA_BOOL] = {"bool", "BOOL", 1}, [MICA_U8] = {"u8", "U8", 1},
    [MICA_U16] = {"u16", "U16", 2},    [MICA_U32] = {"u32", "U32", 4},
    [MICA_U64] = {"u64", "U64", 8},    [MICA_I8] = {"i8", "I8", 1},
    [MICA_I16] = {"i16", "I16", 2},    [MICA_I32] = {"i32", "I32", 4},
    [MICA_I64] = {"i64", "I64", 8},    [MICA_F16] = {"f16", "F16", 2},
    [MICA_F32] = {"f32", "F32", 4},    [MICA_F64] = {"f64", "F64", 8},
    [MICA_BF16] = {"bf16", "BF16", 2}, [MICA_F8_E4M3] = {"f8_e4m3", "F8_E4M3", 1},
    [MICA_F8_E8M0] = {"f8_e8m0", "F8_E8M0", 1},
};

static bool is_known(mica_dtype t) { return (unsigned)t < MICA_N_DTYPES; }

size_t mica_dtype_bytes(mica_dtype t) { return is_known(t) ? dtypes[t].n_bytes : 0; }

const char *mica_dtype_name(mica_dtype t) { return is_known(t) ? dtypes[t].name : "unknown"; }

bool mica_dtype_find(const char *name, size_t n_name, mica_dtype *out) {
    for (unsigned i = 0; i < MICA_N_DTYPES; i++) {
        const char *known = dtypes[i].file_name;
        if (strlen(known) == n_name && memcmp(known, name, n_name) == 0) {
            *out = (mica_dtype)i;
            return true;
        }
    }
    return false;
}

mica_dtype mica_dtype_promote(mica_dtype a, mica_dtype b) { return a == b ? a : MICA_F32; }

/* Below 2^-14 a half is a multiple of 2^-24, which is the spacing of floats in [0.5, 1): adding 0.5
 * makes the hardware round to it. Above, the carry of the rounding may run into the exponent, as it
 * should; 0x38000000 is the difference of the exponent biases. */
uint16_t mica_f32_to_f16(float f) {
    uint32_t u = mica_f32_bits(f);
    uint32_t sign = (u >> 16) & 0x8000u;
    uint32_t magnitude = u & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u) return (uint16_t)(sign | 0x7D00u);
    if (magnitude >= 0x477FF000u) return (uint16_t)(sign | 0x7C00u); /* 65520 */
    if (magnitude < 0x38800000u) {                                   /* 2^-14 */
        float shifted = mica_bits_f32(magnitude) + 0.5f;
        return (uint16_t)(sign | (mica_f32_bits(shifted) - 0x3F000000u));
    }
    uint32_t rounded = magnitude - 0x38000000u + 0xFFFu + ((magnitude >> 13) & 1u);
    return (uint16_t)(sign | rounded >> 13);
}

float mica_e4m3_to_f32(uint8_t code) {
    uint32_t sign = (uint32_t)(code & 0x80u) << 24;
    uint32_t rest = code & 0x7Fu;
    if (rest == 0x7Fu) return mica_bits_f32(sign | 0x7FC00000u);
    if (rest >= 0x08u) return mica_bits_f32(sign | ((rest << 20) + (120u << 23))); /* 127 - 7 */
    float magnitude = (float)rest * 0.001953125f;                                  /* 2^-9 */
    return mica_bits_f32(sign | mica_f32_bits(magnitude));
}

float mica_e8m0_to_f32(uint8_t code) {
    return mica_bits_f32(code ? (uint32_t)code << 23 : 0x00400000u);
}
