/* sampler.c: processors, filters and draws against worked values (the draws of the
 * first tests were computed by another program from the same definition) and against a slow chain
 * that sorts.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_base.h"

#include "base/rng.h"
#include "engine/sampler.h"

enum { MAX_V = 300 };

static sampler *make(const sampler_options *o, int64_t n_vocab) {
    sampler *s = NULL;
    mica_error err;
    if (mica_sampler_new(&s, o, n_vocab, &err)) fail_msg("%s", err.message);
    return s;
}

static sampler_options options_at(float temperature, uint64_t seed) {
    sampler_options o;
    mica_sampler_defaults(&o);
    o.temperature = temperature;
    o.seed = seed;
    return o;
}

static void worked_draws(void **state) {
    (void)state;
    static const float p[] = {.4f, .3f, .15f, .1f, .05f};
    static const int expect[2][24] = {
        {3, 0, 0, 0, 1, 2, 2, 0, 3, 0, 2, 2, 1, 1, 1, 1, 0, 1, 0, 0, 2, 0, 1, 3},
        {1, 1, 1, 0, 0, 3, 1, 0, 0, 0, 0, 1, 2, 1, 1, 1, 1, 3, 0, 0, 4, 1, 1, 4}};
    float logits[5];
    for (int i = 0; i < 5; i++)
        logits[i] = logf(p[i]) + 3.25f;
    for (int k = 0; k < 2; k++) {
        sampler_options o = options_at(1, 42 + (uint64_t)k);
        sampler *s = make(&o, 5);
        for (int step = 23; step >= 0; step--) { /* draws depend on the step alone */
            int32_t id;
            float lp;
            assert_int_equal(
                mica_sampler_sample(s, logits, NULL, 0, (uint64_t)step, &id, &lp, NULL), MICA_OK);
            assert_int_equal(id, expect[k][step]);
            assert_true(fabsf(lp - logf(p[id])) < 1e-6f);
        }
        mica_sampler_free(s);
    }
}

/* Checks that the filters keep exactly the ids in `mask` of a row with probabilities p. */
static void expect_kept(const sampler_options *o, const float *p, int n, unsigned mask) {
    float logits[8];
    for (int i = 0; i < n; i++)
        logits[i] = p[i] > 0 ? logf(p[i]) - 7.5f : -INFINITY;
    sampler *s = make(o, n);
    int32_t best;
    const int32_t *kept;
    assert_int_equal(mica_sampler_process(s, logits, NULL, 0, &best, NULL), MICA_OK);
    mica_sampler_normalize(s, best);
    int64_t n_kept = mica_sampler_keep(s, best, &kept);
    unsigned found = 0;
    for (int64_t i = 0; i < n_kept; i++)
        found |= 1u << kept[i];
    assert_int_equal(found, mask);
    mica_sampler_free(s);
}

static void worked_filters(void **state) {
    (void)state;
    static const float a[] = {0, .5f, .4f, .1f}, b[] = {.5f, .25f, .125f, .0625f, .0625f};
    sampler_options o = options_at(1, 0);
    expect_kept(&o, a, 4, 0xE);
    o.top_p = .4f;
    expect_kept(&o, a, 4, 0x2);
    o.top_p = .6f;
    expect_kept(&o, a, 4, 0x6);
    o.top_p = .95f;
    expect_kept(&o, a, 4, 0xE);
    o.top_p = 0;
    o.min_p = .2f;
    expect_kept(&o, b, 5, 0x7);
    o.min_p = .9f;
    expect_kept(&o, b, 5, 0x1);
    o.min_tokens_to_keep = 2;
    expect_kept(&o, b, 5, 0x3);
    o.min_p = 0;
    o.top_k = 4; /* a tie at the border: the lower id */
    expect_kept(&o, b, 5, 0xF);
    o.top_k = 100;
    expect_kept(&o, b, 5, 0x1F);
}

static void penalties(void **state) {
    (void)state;
    static const int32_t history[] = {9, 9, 5, 5, 5, 7};
    float logits[10] = {0}, expect[10] = {0};
    int32_t best;
    logits[3] = -1, logits[5] = 4, logits[7] = 2, logits[9] = -2;
    sampler_options o = options_at(0, 0);
    o.penalty_window = 4;
    o.presence_penalty = 1.5f;
    sampler *s = make(&o, 10);
    memcpy(expect, logits, sizeof(expect));
    expect[5] = 2.5f, expect[7] = .5f;
    assert_int_equal(mica_sampler_process(s, logits, history, 6, &best, NULL), MICA_OK);
    assert_memory_equal(s->row, expect, sizeof(expect));
    mica_sampler_free(s);

    o.presence_penalty = 0;
    o.frequency_penalty = 1.5f;
    s = make(&o, 10);
    expect[5] = -.5f, expect[7] = .5f;
    for (int again = 0; again < 2; again++) { /* counts are cleared */
        assert_int_equal(mica_sampler_process(s, logits, history, 6, &best, NULL), MICA_OK);
        assert_memory_equal(s->row, expect, sizeof(expect));
    }
    assert_int_equal(best, 7);
    mica_sampler_free(s);

    o.frequency_penalty = 0;
    o.repetition_penalty = 2;
    o.penalty_window = 0; /* all of it */
    s = make(&o, 10);
    expect[5] = 2, expect[7] = 1, expect[9] = -4;
    assert_int_equal(mica_sampler_process(s, logits, history, 6, &best, NULL), MICA_OK);
    assert_memory_equal(s->row, expect, sizeof(expect));
    mica_sampler_free(s);

    int32_t ids[] = {0, 3};
    float values[] = {9, .5f};
    o = options_at(0, 0);
    o.bias_ids = ids, o.bias_values = values, o.n_bias = 2;
    s = make(&o, 10);
    memcpy(expect, logits, sizeof(expect));
    expect[0] = 9, expect[3] = -.5f;
    ids[0] = 1; /* the sampler has its own copy */
    assert_int_equal(mica_sampler_process(s, logits, history, 6, &best, NULL), MICA_OK);
    assert_memory_equal(s->row, expect, sizeof(expect));
    assert_int_equal(best, 0);
    mica_sampler_free(s);
}

/* ---- a slow chain, one filter after the other as defined, over all tokens sorted ---- */
static const float *sort_lp;
static int by_rank(const void *a, const void *b) {
    int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
    if (sort_lp[i] != sort_lp[j]) return sort_lp[i] > sort_lp[j] ? -1 : 1;
    return i < j ? -1 : 1;
}

static void slow_filters(float *lp, int n, const sampler_options *o) {
    int32_t rank[MAX_V];
    float before[MAX_V], copy[MAX_V], sum = 0, max = lp[0];
    for (int i = 0; i < n; i++) {
        rank[i] = i;
        copy[i] = lp[i];
        if (lp[i] > max) max = lp[i];
    }
    sort_lp = copy;
    qsort(rank, (size_t)n, sizeof(*rank), by_rank);
    for (int r = 0; r < n; r++) {
        before[r] = sum;
        sum += expf(copy[rank[r]]);
    }
    for (int r = 0; r < n; r++) {
        float *x = &lp[rank[r]];
        if (o->top_p > 0 && o->top_p < 1 && r && !(before[r] < o->top_p)) *x = -INFINITY;
        if (o->min_p != 0 && copy[rank[r]] < max + logf(o->min_p) && r >= o->min_tokens_to_keep)
            *x = -INFINITY;
        if (o->top_k > 0 && r >= o->top_k) *x = -INFINITY;
    }
}

static int32_t slow_draw(const float *lp, int n, const sampler_options *o, uint64_t step) {
    mica_rng_key key = mica_rng_step_key(o->seed, step);
    int32_t best = -1;
    float top = 0;
    for (int i = 0; i < n; i++) {
        if (lp[i] == -INFINITY) continue;
        float u = mica_rng_uniform(key, (size_t)n, (size_t)i);
        float score = lp[i] * (1.0f / o->temperature) - logf(-logf(u));
        if (best < 0 || score > top) best = i, top = score;
    }
    return best;
}

static float unit(mica_rng_key key, uint32_t *n) { return mica_rng_uniform(key, 1u << 20, (*n)++); }

static void random_row(float *logits, int n, mica_rng_key key, uint32_t *k) {
    float spread = unit(key, k) * (unit(key, k) < .3f ? 150 : 12),
          coarse = unit(key, k) < .5f ? 2 : 0;
    for (int i = 0; i < n; i++) {
        float x = (unit(key, k) - .5f) * spread;
        if (coarse > 0) x = roundf(x * coarse) / coarse; /* ties */
        logits[i] = unit(key, k) < .1f ? -INFINITY : x;
    }
    logits[(int)(unit(key, k) * (float)n)] = 1; /* at least one is possible */
}

static void against_slow_chain(void **state) {
    (void)state;
    static const int sizes[] = {1, 2, 3, 7, 64, 300};
    mica_rng_key key = mica_rng_key_from_seed(7);
    uint32_t k = 0;
    float logits[MAX_V], lp[MAX_V];
    for (int round = 0; round < 3000; round++) {
        int n = sizes[round % 6];
        sampler_options o = options_at(.1f + unit(key, &k) * 3, (uint64_t)round);
        if (unit(key, &k) < .5f) o.top_p = unit(key, &k);
        if (unit(key, &k) < .5f) o.min_p = unit(key, &k) * unit(key, &k);
        if (unit(key, &k) < .5f) o.top_k = (int32_t)(unit(key, &k) * 10);
        if (unit(key, &k) < .3f) o.min_tokens_to_keep = 1 + (int32_t)(unit(key, &k) * 5);
        if (k > 900000u) key.k1++, k = 0;
        random_row(logits, n, key, &k);
        sampler *s = make(&o, n);
        int32_t best, id;
        float logprob;
        assert_int_equal(mica_sampler_process(s, logits, NULL, 0, &best, NULL), MICA_OK);
        mica_sampler_normalize(s, best);
        memcpy(lp, s->row, (size_t)n * sizeof(*lp));
        double sum = 0;
        for (int i = 0; i < n; i++)
            sum += exp((double)logits[i]);
        for (int i = 0; i < n; i++)
            if (lp[i] != (float)((double)logits[i] - log(sum)))
                assert_true(fabs((double)lp[i] - ((double)logits[i] - log(sum))) <
                            2e-6 + 6e-8 * fabs((double)lp[i])); /* rounded to f32 */
        slow_filters(lp, n, &o);
        assert_int_equal(mica_sampler_sample(s, logits, NULL, 0, 5, &id, &logprob, NULL), MICA_OK);
        assert_int_equal(id, slow_draw(lp, n, &o, 5));
        assert_true(logprob == lp[id]);
        mica_sampler_free(s);
    }
}

/* Chi-square with 5 degrees of freedom: above 20.5 in one run of a thousand. */
static void frequencies(void **state) {
    (void)state;
    static const float p[] = {.35f, .25f, .2f, .1f, .07f, .03f};
    double q[6], total = 0, chi = 0;
    int64_t count[6] = {0};
    enum { N = 1000000 };
    float logits[6], temperature = 1.7f;
    for (int i = 0; i < 6; i++) {
        logits[i] = logf(p[i]);
        total += q[i] = pow((double)p[i], 1 / (double)temperature);
    }
    sampler_options o = options_at(temperature, 123);
    sampler *s = make(&o, 6);
    for (uint64_t step = 0; step < N; step++) {
        int32_t id;
        mica_sampler_sample(s, logits, NULL, 0, step, &id, NULL, NULL);
        count[id]++;
    }
    for (int i = 0; i < 6; i++) {
        double expect = N * q[i] / total;
        chi += ((double)count[i] - expect) * ((double)count[i] - expect) / expect;
    }
    mica_sampler_free(s);
    if (chi > 20.5) fail_msg("chi-square %g", chi);
}

static void greedy(void **state) {
    (void)state;
    sampler_options o = options_at(0, 0);
    sampler *s = make(&o, 4);
    float logits[4] = {-1, 3, 3, -INFINITY};
    int32_t id;
    float lp;
    assert_int_equal(mica_sampler_sample(s, logits, NULL, 0, 0, &id, &lp, NULL), MICA_OK);
    assert_int_equal(id, 1); /* the first of equals */
    assert_true(fabs((double)lp - (3 - log(exp(-1) + 2 * exp(3)))) < 1e-6);
    mica_sampler_free(s);
    /* top_k 1 is greedy at any temperature and seed */
    for (uint64_t seed = 0; seed < 50; seed++) {
        o = options_at(5, seed);
        o.top_k = 1;
        s = make(&o, 4);
        assert_int_equal(mica_sampler_sample(s, logits, NULL, 0, seed, &id, NULL, NULL), MICA_OK);
        assert_int_equal(id, 1);
        mica_sampler_free(s);
    }
}

/* Rows longer than what is scanned at once: the first of the largest wherever it lies, zeros of
 * both signs being equal, and a number of either sign that is none. */
static void long_rows(void **state) {
    (void)state;
    enum { N = 5000 };
    static float logits[N];
    sampler_options o = options_at(0, 0);
    sampler *s = make(&o, N);
    mica_error err;
    int32_t id;
    static const int places[] = {0, 1, 2, 511, 1022, 1023, 1024, 1025, 2047, 2048, 3333, N - 1};
    for (size_t p = 0; p < sizeof(places) / sizeof(places[0]); p++) {
        for (int i = 0; i < N; i++)
            logits[i] = i < places[p] ? -1.5f - (float)(i % 7) : i % 3 ? 0.0f : -0.0f;
        assert_int_equal(mica_sampler_sample(s, logits, NULL, 0, 0, &id, NULL, &err), MICA_OK);
        assert_int_equal(id, places[p]);
    }
    for (int i = 0; i < 2; i++) {
        logits[4321] = i ? NAN : -NAN;
        assert_int_equal(mica_sampler_sample(s, logits, NULL, 0, 0, &id, NULL, &err),
                         MICA_E_INTERNAL);
    }
    mica_sampler_free(s);
}

static void bad_rows(void **state) {
    (void)state;
    static const float bad[3][3] = {
        {1, NAN, 2}, {INFINITY, 0, 0}, {-INFINITY, -INFINITY, -INFINITY}};
    for (int i = 0; i < 3; i++)
        for (float t = 0; t < 2; t++) {
            sampler_options o = options_at(t, 0);
            sampler *s = make(&o, 3);
            int32_t id = 77;
            mica_error err;
            assert_int_equal(mica_sampler_sample(s, bad[i], NULL, 0, 0, &id, NULL, &err),
                             MICA_E_INTERNAL);
            assert_int_equal(id, 77);
            mica_sampler_free(s);
        }
}

static void bad_options(void **state) {
    (void)state;
    int32_t bias_id = 10;
    float bias = 1;
    struct {
        const char *field;
        sampler_options o;
    } cases[] = {{"temperature", {.temperature = -1}},
                 {"temperature", {.temperature = NAN}},
                 {"temperature", {.temperature = 1e-9f}},
                 {"top_p", {.top_p = 1.5f}},
                 {"min_p", {.min_p = -.1f}},
                 {"top_k", {.top_k = -1}},
                 {"repetition", {.repetition_penalty = -1}},
                 {"repetition", {.repetition_penalty = 1e-40f}},
                 {"presence", {.presence_penalty = INFINITY}},
                 {"window", {.penalty_window = -1}},
                 {"logit_bias", {.bias_ids = &bias_id, .bias_values = &bias, .n_bias = 1}},
                 {"min_tokens_to_keep", {.min_tokens_to_keep = 0}}};
    size_t n = sizeof(cases) / sizeof(*cases);
    for (size_t i = 0; i < n; i++) {
        sampler *s;
        mica_error err;
        if (i + 1 < n) cases[i].o.min_tokens_to_keep = 1;
        assert_int_equal(mica_sampler_new(&s, &cases[i].o, 10, &err), MICA_E_INVALID);
        assert_non_null(strstr(err.message, cases[i].field));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(worked_draws), cmocka_unit_test(worked_filters),
        cmocka_unit_test(penalties),    cmocka_unit_test(against_slow_chain),
        cmocka_unit_test(frequencies),  cmocka_unit_test(greedy),
        cmocka_unit_test(bad_rows),     cmocka_unit_test(bad_options),
        cmocka_unit_test(long_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
