/* test_weights_forms.c: code tables and bitstreams against their definitions.
 */
#include "../format/bytes.h"

#include <math.h>

#include "weights/weights.h"

/* Sign, exponent with bias 7, 3 bits of mantissa, subnormals; the two all-ones codes are NaN. */
static double e4m3(int code) {
    int exponent = code >> 3 & 15, mantissa = code & 7;
    double v = exponent ? ldexp(8 + mantissa, exponent - 10) : ldexp(mantissa, -9);
    return code & 128 ? -v : v;
}

static void tables(void **state) {
    (void)state;
    static const double e2m1[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    for (int c = 0; c < 256; c++) {
        if ((c & 127) == 127) {
            assert_true(isnan(mica_table_e4m3[c]));
            continue;
        }
        assert_true((double)mica_table_e4m3[c] == e4m3(c));
        assert_int_equal(signbit(mica_table_e4m3[c]) != 0, c >> 7);
    }
    for (int c = 0; c < 16; c++) {
        assert_true(fabs((double)mica_table_e2m1[c]) == e2m1[c & 7]);
        assert_int_equal(signbit(mica_table_e2m1[c]) != 0, c >> 3);
    }
    for (int c = 1; c < 16; c++)
        assert_true(mica_table_iq4nl[c] > mica_table_iq4nl[c - 1]);
}

/* Element k is made of the bits k*bits ... of the stream, the first of them the lowest. */
static void bitstreams(void **state) {
    (void)state;
    uint8_t stream[64];
    for (int i = 0; i < 64; i++)
        stream[i] = (uint8_t)(i * 151 + 43);
    for (unsigned bits = 1; bits <= 8; bits++) {
        size_t n = 64 * 8 / bits;
        uint8_t *exact = exact_copy(stream, (n * bits + 7) / 8);
        for (size_t k = 0; k < n; k++) {
            uint32_t expected = 0;
            for (unsigned b = 0; b < bits; b++)
                expected |= (uint32_t)(stream[(k * bits + b) / 8] >> ((k * bits + b) % 8) & 1) << b;
            assert_int_equal(mica_bitstream_at(exact, bits, k), expected);
        }
        free(exact);
    }
}

static void text_is_cut(void **state) {
    (void)state;
    char text[8];
    memset(text, 'x', sizeof(text));
    weight_form form = {.kind = WEIGHT_AFFINE, .bits = 4, .group = 128, .scale = SCALE_BF16};
    mica_weight_form_text(&form, text, 5);
    assert_string_equal(text, "q4 g");
    assert_int_equal(text[5], 'x');
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables),
        cmocka_unit_test(bitstreams),
        cmocka_unit_test(text_is_cut),
    };
    return cmocka_run_group_tests_name("weights_forms", tests, NULL, NULL);
}
