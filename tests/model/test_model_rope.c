/* test_model_rope.c: rope tables against values dumped from the reference and against closed forms
 * evaluated here in double.
 */
#include "cmocka_base.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/config.h"

typedef struct vector {
    int i;
    double period;
} vector;

/* 8 units in the last place of f32: what the reference's own builds differ by. */
static void expect_near(double found, double expected) {
    int exponent;
    frexp(expected, &exponent);
    if (!(fabs(found - expected) <= 8.0 * ldexp(1.0, exponent - 24)))
        fail_msg("found %.9g, expected %.9g", found, expected);
}

static rope_config rope_of(const char *type, double theta) {
    rope_config r;
    mica_rope_defaults(&r, theta);
    snprintf(r.type, sizeof(r.type), "%s", type);
    return r;
}

static void expect_table(const rope_config *r, int64_t dims, const vector *v, size_t n,
                         double position_scale, double input_scale) {
    float table[256], positions, inputs;
    mica_error err;
    if (mica_rope_periods(r, dims, table, &positions, &inputs, &err)) fail_msg("%s", err.message);
    for (size_t k = 0; k < n; k++)
        expect_near((double)table[v[k].i], v[k].period);
    expect_near((double)positions, position_scale);
    expect_near((double)inputs, input_scale);
}

static void test_plain_and_linear(void **state) {
    (void)state;
    vector v[32];
    for (int i = 0; i < 32; i++)
        v[i] = (vector){i, pow(10000.0, 2.0 * i / 64.0)};
    rope_config r = rope_of("default", 10000.0);
    expect_table(&r, 64, v, 32, 1.0, 1.0);
    r = rope_of("linear", 10000.0);
    r.factor = 8.0;
    expect_table(&r, 64, v, 32, 0.125, 1.0);
    r = rope_of("mrope", 10000.0);
    expect_table(&r, 64, v, 32, 1.0, 1.0);
}

/* A scale that the config names counts for every type; without a length the short list is all. */
static void test_named_scale(void **state) {
    (void)state;
    static const vector v[] = {{0, 1.0}, {1, 10.0}};
    static const float factors[] = {3.0f, 1.0f};
    static const float short_factors[] = {1.0f, 1.0f};
    rope_config r = rope_of("linear", 100.0);
    r.factor = 2.0;
    r.input_scale = 1.25;
    expect_table(&r, 4, v, 2, 0.5, 1.25);
    r = rope_of("longrope", 100.0);
    r.original_max_positions = 8;
    r.max_positions = 32;
    r.n_factors = 2;
    r.long_factor = factors;
    r.short_factor = short_factors;
    r.input_scale = 1.25;
    mica_rope_forget_length(&r);
    expect_table(&r, 4, v, 2, 1.0, 1.25);
    r = rope_of("dynamic", 100.0);
    mica_rope_forget_length(&r);
    assert_true(!mica_rope_by_length(&r));
}

static void test_llama3(void **state) {
    (void)state;
    static const vector v[] = {{0, 1.0},        {1, 1.506929},   {7, 17.646139},  {14, 311.38623},
                               {15, 774.86475}, {16, 2327.9814}, {17, 10300.475}, {18, 51383.133},
                               {24, 601696.5},  {31, 10617620.0}};
    rope_config r = rope_of("llama3", 5e5);
    r.factor = 32.0;
    r.original_max_positions = 8192;
    expect_table(&r, 64, v, sizeof(v) / sizeof(*v), 1.0, 1.0);
    r.original_max_positions = 0; /* the default is 8192 */
    expect_table(&r, 64, v, sizeof(v) / sizeof(*v), 1.0, 1.0);
}

static void test_yarn(void **state) {
    (void)state;
    static const vector v[] = {{0, 1.0},        {1, 1.1547819},  {20, 17.782795},
                               {21, 21.335325}, {32, 181.81818}, {40, 1264.911},
                               {45, 10390.102}, {46, 29995.77},  {63, 346385.69}};
    static const char *const names[] = {"yarn", "deepseek_yarn", "telechat3-yarn"};
    for (int i = 0; i < 3; i++) {
        rope_config r = rope_of(names[i], 1e4);
        r.factor = 40.0;
        r.original_max_positions = 4096;
        expect_table(&r, 128, v, sizeof(v) / sizeof(*v), 1.0, 1.3688879454113936);
        r.mscale_all_dim = 1.0;
        expect_table(&r, 128, v, sizeof(v) / sizeof(*v), 1.0, 1.0);
        r.attention_factor = 1.25; /* replaces the formula */
        expect_table(&r, 128, v, sizeof(v) / sizeof(*v), 1.0, 1.25);
    }
}

/* Without truncation the ramp has fractional ends: low 20.94, high 45.03 for these values. */
static void test_yarn_untruncated(void **state) {
    (void)state;
    rope_config r = rope_of("yarn", 1e4);
    r.factor = 40.0;
    r.original_max_positions = 4096;
    r.truncate = false;
    double low = 128.0 * log(4096.0 / (32.0 * 2.0 * 3.14159265358979323846)) / (2.0 * log(1e4));
    double high = 128.0 * log(4096.0 / (2.0 * 3.14159265358979323846)) / (2.0 * log(1e4));
    vector v[2] = {{30, 0.0}, {44, 0.0}};
    for (int k = 0; k < 2; k++) {
        double p = pow(1e4, 2.0 * v[k].i / 128.0), ramp = (v[k].i - low) / (high - low);
        v[k].period = 1.0 / (ramp / (40.0 * p) + (1.0 - ramp) / p);
    }
    /* the ramp itself is f32, so an error of 2^-24 in it is magnified by up to 40 in the period */
    float table[64], positions, inputs;
    assert_int_equal(mica_rope_periods(&r, 128, table, &positions, &inputs, NULL), MICA_OK);
    for (int k = 0; k < 2; k++)
        assert_true(fabs((double)table[v[k].i] / v[k].period - 1.0) < 40.0 * 3e-7);
    rope_config truncated = r;
    truncated.truncate = true;
    float other[64];
    assert_int_equal(mica_rope_periods(&truncated, 128, other, &positions, &inputs, NULL), MICA_OK);
    assert_true(fabs((double)other[30] / v[0].period - 1.0) > 1e-3);
}

static void test_longrope(void **state) {
    (void)state;
    static const vector v[] = {{0, 1.0}, {1, 1.2721039}, {24, 220.0}, {47, 27651.043}};
    float longs[48], shorts[48], table[48], positions, inputs;
    for (int i = 0; i < 48; i++) {
        longs[i] = (float)(1.0 + 0.05 * i);
        shorts[i] = 1.0f;
    }
    rope_config r = rope_of("longrope", 1e4);
    r.original_max_positions = 4096;
    r.max_positions = 131072;
    r.long_factor = longs;
    r.short_factor = shorts;
    r.n_factors = 48;
    expect_table(&r, 96, v, 4, 1.0, 1.1902380714238083);
    assert_true(mica_rope_by_length(&r));
    assert_int_equal(mica_rope_periods_at(&r, 96, 4096, table, &positions, &inputs, NULL), MICA_OK);
    expect_near((double)table[24], 100.0); /* the short table up to the original context */
    expect_near((double)inputs, 1.1902380714238083);
    assert_int_equal(mica_rope_periods_at(&r, 96, 4097, table, &positions, &inputs, NULL), MICA_OK);
    expect_near((double)table[24], 220.0);
    r.n_factors = 47;
    mica_error err;
    assert_int_equal(mica_rope_periods(&r, 96, table, &positions, &inputs, &err), MICA_E_FORMAT);
    assert_non_null(strstr(err.message, "47 factors; expected 48"));
}

static void test_dynamic(void **state) {
    (void)state;
    rope_config r = rope_of("dynamic", 1e4);
    r.factor = 2.0;
    r.max_positions = 16;
    assert_true(mica_rope_by_length(&r));
    float table[8], positions, inputs;
    double base = 1e4 * pow(2.0 * 40.0 / 16.0 - 1.0, 16.0 / 14.0);
    assert_int_equal(mica_rope_periods_at(&r, 16, 40, table, &positions, &inputs, NULL), MICA_OK);
    for (int i = 0; i < 8; i++)
        expect_near((double)table[i], pow((double)(float)base, 2.0 * i / 16.0));
    assert_int_equal(mica_rope_periods_at(&r, 16, 16, table, &positions, &inputs, NULL), MICA_OK);
    expect_near((double)table[7], pow(1e4, 14.0 / 16.0)); /* not longer than trained: plain */
}

static void test_proportional(void **state) {
    (void)state;
    rope_config r = rope_of("proportional", 1e6);
    r.partial_rotary_factor = 0.25;
    assert_int_equal(mica_rope_dims(&r, 512), 512);
    float table[256], positions, inputs;
    assert_int_equal(mica_rope_periods(&r, 512, table, &positions, &inputs, NULL), MICA_OK);
    for (int i = 0; i < 64; i++)
        expect_near((double)table[i], pow(1e6, 2.0 * i / 512.0));
    for (int i = 64; i < 256; i++)
        assert_true(isinf(table[i]) && table[i] > 0.0f);
    r = rope_of("default", 1e6);
    r.partial_rotary_factor = 0.25;
    assert_int_equal(mica_rope_dims(&r, 512), 128); /* plain partial rotation: another thing */
}

static void test_freq_factors(void **state) {
    (void)state;
    float factors[4] = {1.0f, 2.0f, 4.0f, 0.5f};
    rope_config r = rope_of("default", 1e4);
    r.freq_factors = factors;
    vector v[4];
    for (int i = 0; i < 4; i++)
        v[i] = (vector){i, pow(1e4, 2.0 * i / 8.0) * (double)factors[i]};
    expect_table(&r, 8, v, 4, 1.0, 1.0);
}

static void test_unknown(void **state) {
    (void)state;
    rope_config r = rope_of("spiral", 1e4);
    float table[8], positions, inputs;
    mica_error err;
    assert_int_equal(mica_rope_periods(&r, 16, table, &positions, &inputs, &err),
                     MICA_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "Unsupported RoPE type spiral"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_and_linear), cmocka_unit_test(test_named_scale),
        cmocka_unit_test(test_llama3),           cmocka_unit_test(test_yarn),
        cmocka_unit_test(test_yarn_untruncated), cmocka_unit_test(test_longrope),
        cmocka_unit_test(test_dynamic),          cmocka_unit_test(test_proportional),
        cmocka_unit_test(test_freq_factors),     cmocka_unit_test(test_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
