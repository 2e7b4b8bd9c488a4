/* Random numbers: the published vectors of Threefry-2x32 and values that JAX gives. */
#include "cmocka_base.h"

#include <math.h>

#include "base/rng.h"

static void check_block(mica_rng_key key, uint32_t c0, uint32_t c1, uint32_t x, uint32_t y) {
    uint32_t a = 0, b = 0;
    mica_threefry(key, c0, c1, &a, &b);
    assert_int_equal(a, x);
    assert_int_equal(b, y);
}

static void known_answers(void **state) {
    (void)state;
    check_block((mica_rng_key){0, 0}, 0, 0, 0x6b200159, 0x99ba4efe);
    check_block((mica_rng_key){~0u, ~0u}, ~0u, ~0u, 0x1cb996fc, 0xbb002be7);
    check_block((mica_rng_key){0x13198a2e, 0x03707344}, 0x243f6a88, 0x85a308d3, 0xc4923a9c,
                0x483df7a0);
}

static void words(void **state) {
    (void)state;
    static const struct {
        size_t n;
        uint32_t words[5];
    } cases[] = {
        {1, {0x6b200159}},
        {2, {0x375f238f, 0xcddb151d}},
        {3, {0xf71f4ea9, 0x508efb2c, 0xa20e4081}},
        {5, {0x9312778b, 0x19850714, 0x64a626ec, 0xe4e8dfbe, 0x98b89669}},
    };
    mica_rng_key key = mica_rng_key_from_seed(0);
    for (size_t c = 0; c < sizeof(cases) / sizeof(*cases); c++) {
        for (size_t i = 0; i < cases[c].n; i++) {
            assert_int_equal(mica_rng_word(key, cases[c].n, i), cases[c].words[i]);
        }
    }
}

static void uniforms(void **state) {
    (void)state;
    static const float expected[] = {0.57414442f, 0.85663754f, 0.05946118f, 0.06235560f};
    mica_rng_key key = mica_rng_key_from_seed(42);
    for (size_t i = 0; i < 4; i++) {
        assert_true(fabsf(mica_rng_uniform(key, 4, i) - expected[i]) < 1e-7f);
    }
    double sum = 0.0;
    for (size_t i = 0; i < 100000; i++) {
        float u = mica_rng_uniform(key, 100000, i);
        assert_true(u >= 0.0f && u < 1.0f);
        sum += (double)u;
    }
    assert_true(fabs(sum / 100000 - 0.5) < 0.005); /* 5.5 standard deviations */
}

/* A word so large that rounding it to float gives 2^32 must not become 1. */
static void uniform_stays_below_one(void **state) {
    (void)state;
    mica_rng_key key = {0, 43287483};
    assert_true(mica_rng_word(key, 1, 0) >= 0xFFFFFF80u);
    assert_true(mica_rng_uniform(key, 1, 0) == 1.0f - 0x1p-24f);
}

static void check_key(mica_rng_key key, uint32_t k0, uint32_t k1) {
    assert_int_equal(key.k0, k0);
    assert_int_equal(key.k1, k1);
}

static void step_keys(void **state) {
    (void)state;
    check_key(mica_rng_key_from_seed(UINT64_C(0x0123456789abcdef)), 0x01234567, 0x89abcdef);
    check_key(mica_rng_step_key(0, 0), 0x9e3779b9, 0x7f4a7c15);
    check_key(mica_rng_step_key(0, 1), 0x3c6ef372, 0xfe94f82a);
    check_key(mica_rng_step_key(42, 0), 0x9e3779b9, 0x7f4a7c3f);
    check_key(mica_rng_step_key(42, 1), 0x3c6ef372, 0xfe94f800);
    check_key(mica_rng_step_key((UINT64_C(1) << 53) - 1, 7), 0xf1a43234, 0x05ac1f57);
    check_key(mica_rng_split(mica_rng_step_key(42, 0), 2, 0), 0xc15c784c, 0x72db6c09);
    check_key(mica_rng_split(mica_rng_step_key(42, 0), 2, 1), 0x1573db90, 0x121b3a09);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers), cmocka_unit_test(words),
        cmocka_unit_test(uniforms),      cmocka_unit_test(uniform_stays_below_one),
        cmocka_unit_test(step_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
