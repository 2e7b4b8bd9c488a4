/* Decimal conversions: texts that Python's repr gives, and a locale with another decimal point. */
#include "cmocka_base.h"

#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "base/dtype.h"

/* repr() of CPython 3.11. The powers of two near the end have the asymmetric interval. */
static const struct {
    double value;
    const char *text;
} doubles[] = {
    {0.0, "0.0"},
    {-0.0, "-0.0"},
    {0.1, "0.1"},
    {1.0, "1.0"},
    {-1.5, "-1.5"},
    {100.0, "100.0"},
    {1e15, "1000000000000000.0"},
    {1e16, "1e+16"},
    {1e22, "1e+22"},
    {1e-4, "0.0001"},
    {1e-5, "1e-05"},
    {1.5e-7, "1.5e-07"},
    {123456789012345678.0, "1.2345678901234568e+17"},
    {12345678901234567.0, "1.2345678901234568e+16"},
    {1234567890123456.7, "1234567890123456.8"},
    {0.1 + 0.2, "0.30000000000000004"},
    {1.0 / 3.0, "0.3333333333333333"},
    {2.0 / 3.0, "0.6666666666666666"},
    {1e23, "1e+23"},
    {9007199254740993.0, "9007199254740992.0"},
    {5e-324, "5e-324"},
    {2.2250738585072014e-308, "2.2250738585072014e-308"},
    {2.225073858507201e-308, "2.225073858507201e-308"},
    {1.7976931348623157e308, "1.7976931348623157e+308"},
    {0x1p-44, "5.684341886080802e-14"},
    {0x1p-1022, "2.2250738585072014e-308"},
    {0x1p-24, "5.960464477539063e-08"},
    {0x1p90, "1.2379400392853803e+27"},
    {0x1p-1074, "5e-324"},
    {0x1p1023, "8.98846567431158e+307"},
};

static void formats_as_python_does(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof(doubles) / sizeof(*doubles); i++) {
        char text[MICA_DECIMAL_BYTES];
        size_t n = mica_decimal_format(text, doubles[i].value);
        assert_string_equal(text, doubles[i].text);
        assert_int_equal(n, strlen(text));
    }
    char text[MICA_DECIMAL_BYTES];
    mica_decimal_format(text, INFINITY);
    assert_string_equal(text, "inf");
    mica_decimal_format(text, -INFINITY);
    assert_string_equal(text, "-inf");
    mica_decimal_format(text, NAN);
    assert_string_equal(text, "nan");
}

static const struct {
    const char *text;
    double value;
} texts[] = {
    {"0", 0.0},
    {"-0", -0.0},
    {"1e400", INFINITY},
    {"-1e400", -INFINITY},
    {"1e-400", 0.0},
    {"1e99999999999999999999999", INFINITY},
    {"1e-99999999999999999999999", 0.0},
    {"0e99999999999999999999999", 0.0},
    {"1E+2", 100.0},
    {"0.000001e6", 1.0},
    {"1797693134862315807e290", 1.7976931348623157e308},
    {"1797693134862315808e290", INFINITY},
    {"2.4703282292062327e-324", 0.0},
    {"2.4703282292062328e-324", 0x1p-1074},
    {"9007199254740993", 9007199254740992.0},
    {"9007199254740993.00000000000000000000000000000000000000000001", 9007199254740994.0},
    {"9007199254740992.99999999999999999999999999999999999999999999", 9007199254740992.0},
    {"123456789012345678901234567890", 0x1.8ee90ff6c373ep+96},
};

static void parses_exactly(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        double v = mica_decimal_parse(texts[i].text, strlen(texts[i].text));
        if (v != texts[i].value) fail_msg("%s gives %a", texts[i].text, v);
        assert_int_equal(!signbit(v), !signbit(texts[i].value));
    }
}

/* A one behind more digits than are kept decides a tie; zeros in front and behind cost nothing. */
static void very_long_texts(void **state) {
    (void)state;
    static char text[20000];
    memset(text, '0', sizeof(text));
    memcpy(text, "9007199254740993.", 17);
    assert_true(mica_decimal_parse(text, sizeof(text)) == 9007199254740992.0);
    text[sizeof(text) - 1] = '1';
    assert_true(mica_decimal_parse(text, sizeof(text)) == 9007199254740994.0);
    memset(text, '0', sizeof(text));
    text[1] = '.';
    memcpy(text + sizeof(text) - 7, "1e19993", 7);
    assert_true(mica_decimal_parse(text, sizeof(text)) == 10.0);
    memset(text, '0', sizeof(text));
    text[0] = '1';
    memcpy(text + sizeof(text) - 7, "e-19990", 7);
    assert_true(mica_decimal_parse(text, sizeof(text)) == 100.0);
}

/* Reads back, and no text with one digit less does: %.*e gives the nearest text of each length. */
static void floats_are_shortest(void **state) {
    (void)state;
    char text[MICA_DECIMAL_BYTES], shorter[32];
    mica_decimal_format_float(text, 0.1f);
    assert_string_equal(text, "0.1");
    mica_decimal_format_float(text, 16777216.0f);
    assert_string_equal(text, "16777216.0");
    mica_decimal_format_float(text, 3.4028235e38f);
    assert_string_equal(text, "3.4028235e+38");
    mica_decimal_format_float(text, 1e-45f);
    assert_string_equal(text, "1e-45");
    for (uint32_t i = 0; i < 20000; i++) {
        float v = mica_bits_f32(i * 2654435761u);
        if (!isfinite(v) || v == 0.0f) continue;
        mica_decimal_format_float(text, v);
        assert_true(strtof(text, NULL) == v);
        int n_digits = 0;
        for (const char *p = text; *p && *p != 'e'; p++) {
            n_digits += (*p >= '1' && *p <= '9') || (*p == '0' && n_digits);
        }
        char *end = strstr(text, ".0");
        if (end && !end[2]) continue; /* zeros before the point are not digits that it chose */
        if (n_digits < 2) continue;
        snprintf(shorter, sizeof(shorter), "%.*e", n_digits - 2, (double)v);
        assert_true(strtof(shorter, NULL) != v);
    }
}

static void other_locales_change_nothing(void **state) {
    (void)state;
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "ru_RU.UTF-8"};
    bool found = false;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names) && !found; i++) {
        found = setlocale(LC_ALL, names[i]) != NULL;
    }
    if (!found) skip(); /* no such locale is installed */
    formats_as_python_does(state);
    parses_exactly(state);
    setlocale(LC_ALL, "C");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats_as_python_does),
        cmocka_unit_test(parses_exactly),
        cmocka_unit_test(very_long_texts),
        cmocka_unit_test(floats_are_shortest),
        cmocka_unit_test(other_locales_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
