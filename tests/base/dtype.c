/* Element types. The 16-bit conversions are checked at every value, and at every midpoint between
 * neighbours and the floats beside it; rounding is monotone, so this covers every float.
 */
#include "cmocka_base.h"

#include <math.h>

#include "base/dtype.h"

/* The definitions, by arithmetic instead of bits. */
static double half_value(uint16_t h) {
    int exponent = h >> 10 & 31, mantissa = h & 1023;
    double magnitude = exponent == 31  ? (mantissa ? NAN : INFINITY)
                       : exponent == 0 ? ldexp(mantissa, -24)
                                       : ldexp(1024 + mantissa, exponent - 25);
    return h & 0x8000 ? -magnitude : magnitude;
}

static double brain_value(uint16_t h) {
    int exponent = h >> 7 & 255, mantissa = h & 127;
    double magnitude = exponent == 255 ? (mantissa ? NAN : INFINITY)
                       : exponent == 0 ? ldexp(mantissa, -133)
                                       : ldexp(128 + mantissa, exponent - 134);
    return h & 0x8000 ? -magnitude : magnitude;
}

static void same_double(double a, double b) {
    if (isnan(b)) {
        assert_true(isnan(a));
    } else {
        assert_true(a == b && !signbit(a) == !signbit(b));
    }
}

static void widening(void **state) {
    (void)state;
    for (unsigned h = 0; h < 65536; h++) {
        same_double((double)mica_f16_to_f32((uint16_t)h), half_value((uint16_t)h));
        same_double((double)mica_bf16_to_f32((uint16_t)h), brain_value((uint16_t)h));
#ifdef __FLT16_MAX__
        _Float16 native;
        uint16_t bits = (uint16_t)h;
        memcpy(&native, &bits, 2);
        same_double((double)mica_f16_to_f32((uint16_t)h), (double)native);
#endif
    }
}

/* `infinity` is the code of +inf, `value` the definition, `narrow` the conversion under test. */
static void check_rounding(unsigned infinity, double (*value)(uint16_t),
                           uint16_t (*narrow)(float)) {
    for (unsigned h = 0; h < infinity; h++) {
        double low = value((uint16_t)h);
        /* The step to infinity is rounded as if the exponent went on. */
        double high =
            h + 1 < infinity ? value((uint16_t)(h + 1)) : 2 * low - value((uint16_t)(h - 1));
        float middle = (float)((low + high) / 2);
        assert_true((double)middle == (low + high) / 2);
        unsigned even = h & 1 ? h + 1 : h;
        for (unsigned sign = 0; sign <= 0x8000; sign += 0x8000) {
            float s = sign ? -1.0f : 1.0f;
            assert_int_equal(narrow(s * (float)low), sign | h);
            assert_int_equal(narrow(s * middle), sign | even);
            assert_int_equal(narrow(s * nextafterf(middle, 0.0f)), sign | h);
            assert_int_equal(narrow(s * nextafterf(middle, INFINITY)), sign | (h + 1));
        }
    }
}

static uint16_t narrow_brain(float f) { return mica_f32_to_bf16(f); }

static void narrowing(void **state) {
    (void)state;
    check_rounding(0x7C00, half_value, mica_f32_to_f16);
    check_rounding(0x7F80, brain_value, narrow_brain);
    assert_int_equal(mica_f32_to_f16(INFINITY), 0x7C00);
    assert_int_equal(mica_f32_to_f16(-INFINITY), 0xFC00);
    assert_int_equal(mica_f32_to_bf16(INFINITY), 0x7F80);
    assert_int_equal(mica_f32_to_bf16(-INFINITY), 0xFF80);
    for (uint32_t payload = 1; payload < 0x800000; payload += 4093) {
        assert_int_equal(mica_f32_to_f16(mica_bits_f32(0x7F800000u | payload)), 0x7D00);
        assert_int_equal(mica_f32_to_f16(mica_bits_f32(0xFF800000u | payload)), 0xFD00);
        assert_int_equal(mica_f32_to_bf16(mica_bits_f32(0xFF800000u | payload)), 0x7FC0);
    }
}

/* docs/numerics.md, reference values of rounding. */
static void published_values(void **state) {
    (void)state;
    assert_int_equal(mica_f32_to_bf16(1.00390625f), 0x3F80);
    assert_int_equal(mica_f32_to_bf16(1.01171875f), 0x3F82);
    assert_int_equal(mica_f32_to_bf16(3.14159274f), 0x4049);
    assert_int_equal(mica_f32_to_bf16(0.1f), 0x3DCD);
    assert_int_equal(mica_f32_to_bf16(-65535.0f), 0xC780);
    assert_int_equal(mica_f32_to_bf16(3.4028234663852886e38f), 0x7F80);
    assert_int_equal(mica_f32_to_bf16(0.044715f), 0x3D37);
    assert_int_equal(mica_f32_to_bf16(0.7978845608f), 0x3F4C);
    assert_int_equal(mica_f32_to_bf16(1.41421356f), 0x3FB5);
    assert_int_equal(mica_f32_to_f16(65519.0f), 0x7BFF);
    assert_int_equal(mica_f32_to_f16(65520.0f), 0x7C00);
    assert_int_equal(mica_f32_to_f16(0x1p-25f), 0x0000);
    assert_int_equal(mica_f32_to_f16(0x1.8p-25f), 0x0001);
    assert_int_equal(mica_f32_to_f16(0.1f), 0x2E66);
}

static void minifloats(void **state) {
    (void)state;
    for (int code = 0; code < 256; code++) {
        int exponent = code >> 3 & 15, mantissa = code & 7;
        double magnitude = exponent ? ldexp(8 + mantissa, exponent - 10) : ldexp(mantissa, -9);
        if ((code & 127) == 127) magnitude = NAN;
        same_double((double)mica_e4m3_to_f32((uint8_t)code), code & 128 ? -magnitude : magnitude);
        double power = code == 255 ? INFINITY : ldexp(1.0, code - 127);
        same_double((double)mica_e8m0_to_f32((uint8_t)code), power);
    }
    assert_true(mica_e4m3_to_f32(0x7E) == 448.0f);
    assert_true(mica_e4m3_to_f32(0x2F) == 0.46875f);
    assert_true(mica_e4m3_to_f32(0x35) == 0.8125f);
}

static void table(void **state) {
    (void)state;
    static const char *const names[] = {"BOOL", "U8",  "U16",  "U32",     "U64",
                                        "I8",   "I16", "I32",  "I64",     "F16",
                                        "F32",  "F64", "BF16", "F8_E4M3", "F8_E8M0"};
    static const size_t sizes[] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8, 2, 1, 1};
    for (unsigned i = 0; i < MICA_N_DTYPES; i++) {
        mica_dtype t = MICA_N_DTYPES;
        assert_true(mica_dtype_find(names[i], strlen(names[i]), &t));
        assert_int_equal(t, i);
        assert_int_equal(mica_dtype_bytes(t), sizes[i]);
    }
    mica_dtype t = MICA_I8;
    assert_false(mica_dtype_find("F3", 2, &t));
    assert_false(mica_dtype_find("F321", 4, &t));
    assert_false(mica_dtype_find("f32", 3, &t));
    assert_false(mica_dtype_find("", 0, &t));
    assert_int_equal(t, MICA_I8);
    assert_string_equal(mica_dtype_name(MICA_BF16), "bf16");
    assert_int_equal(mica_dtype_bytes((mica_dtype)99), 0);
}

static void promotion_and_access(void **state) {
    (void)state;
    assert_int_equal(mica_dtype_promote(MICA_F16, MICA_BF16), MICA_F32);
    assert_int_equal(mica_dtype_promote(MICA_BF16, MICA_BF16), MICA_BF16);
    assert_int_equal(mica_dtype_promote(MICA_F16, MICA_F16), MICA_F16);
    assert_int_equal(mica_dtype_promote(MICA_F32, MICA_F16), MICA_F32);
    assert_true(mica_round_to(0.1f, MICA_BF16) == 0.10009765625f);
    assert_true(mica_round_to(0.1f, MICA_F32) == 0.1f);
    assert_true(mica_round_to(0.1f, MICA_F16) == (float)half_value(0x2E66));
    const mica_dtype types[] = {MICA_F32, MICA_F16, MICA_BF16};
    char bytes[17] = {0};
    for (int i = 0; i < 3; i++) {
        for (size_t j = 0; j < 4; j++) {
            mica_store_f(bytes + 1, types[i], j, 1.25f * (float)j - 2.0f);
        }
        for (size_t j = 0; j < 4; j++) {
            assert_true(mica_load_f(bytes + 1, types[i], j) == 1.25f * (float)j - 2.0f);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(widening),   cmocka_unit_test(narrowing),
        cmocka_unit_test(minifloats), cmocka_unit_test(published_values),
        cmocka_unit_test(table),      cmocka_unit_test(promotion_and_access),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
