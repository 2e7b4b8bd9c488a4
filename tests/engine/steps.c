/* steps.c: steps as transactions and the ends of a generation, on tiny checkpoints with several
 * threads (so that the thread sanitizer has something to see).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_base.h"
#include "tiny.h"

#include "base/rng.h"

static const char *root;

typedef struct world {
    tiny *t;
    int n_tiny;
    engine *e;
    session *s;
} world;

static world world_open(const char *name, engine_options options) {
    world w;
    mica_error err;
    options.n_threads = options.n_threads ? options.n_threads : 3;
    w.t = tiny_load_all(root, name, &w.n_tiny);
    w.e = tiny_open(w.t->path, &options);
    if (mica_session_new(&w.s, w.e, &err)) fail_msg("%s", err.message);
    for (int i = 1; i < w.n_tiny; i++)
        assert_true(strcmp(w.t[0].name, w.t[i].name) < 0); /* [0] is the one with the bare name */
    return w;
}

static void world_close(world *w) {
    mica_session_free(w->s);
    mica_engine_close(w->e);
    tiny_free_all(w->t, w->n_tiny);
}

/* ---- steps ---- */
typedef struct check_rows {
    const float *base; /* [n, vocab] by position */
    int64_t first, n_vocab;
    int64_t fail_at; /* row of the call at which the callback fails; -1: none */
} check_rows;

static mica_status check_row(void *user, int64_t i, const float *logits, mica_error *err) {
    check_rows *c = user;
    if (i == c->fail_at) return mica_fail(err, MICA_E_IO, "the consumer is gone");
    assert_memory_equal(logits, c->base + (c->first + i) * c->n_vocab, (size_t)c->n_vocab * 4);
    return MICA_OK;
}

static void one_operation(world *w, const int32_t *ids, int64_t n_ids, const float *base,
                          uint32_t a, uint32_t b) {
    mica_error err;
    int64_t length = mica_session_length(w->s);
    if (a % 5 == 0) {
        int64_t n = b % 12 < length ? b % 12 : length;
        mica_status st = mica_session_trim(w->s, n, &err);
        assert_true(st == MICA_OK || st == MICA_E_STATE);
        assert_int_equal(mica_session_length(w->s), st ? length : length - n);
        return;
    }
    int64_t n = 1 + b % (a % 3 ? 6 : 70);
    if (n > n_ids - length) n = n_ids - length;
    if (!n) {
        assert_int_equal(mica_session_trim(w->s, length, &err), MICA_OK);
        return;
    }
    bool fails = (a >> 8) % 3 == 0;
    check_rows c = {base, length, mica_engine_vocab_size(w->e), fails ? (int64_t)(b >> 8) % n : -1};
    eval_options o = {.role = (a >> 16) % 2 ? ROLE_PROMPT : ROLE_DECODE,
                      .all_logits = true,
                      .on_logits = check_row,
                      .user = &c};
    mica_status st = mica_session_eval(w->s, ids + length, n, &o, &err);
    assert_int_equal(st, fails ? MICA_E_IO : MICA_OK);
    int64_t now = mica_session_length(w->s), n_log;
    if (fails)
        assert_true(now >= length && now <= length + c.fail_at); /* whole chunks before it */
    else
        assert_int_equal(now, length + n);
    assert_memory_equal(mica_session_tokens(w->s, &n_log), ids, (size_t)now * sizeof(*ids));
    assert_int_equal(n_log, now);
    for (int64_t i = length; i < now; i++)
        assert_int_equal(mica_session_role(w->s, i), o.role);
}

/* Any mixture of steps, failed steps and trims gives the logits of one pass, across blocks and
 * several windows. */
static void random_operations(void **state) {
    (void)state;
    static const char *const names[] = {"gemma3-bf16", "qwen2-window", "llama-q4-g64"};
    enum { N = 200 };
    for (int k = 0; k < 3; k++) {
        engine_options options = tiny_exact(false);
        options.chunk = 64;
        options.n_threads = 3;
        world w = world_open(names[k], options);
        mica_rng_key key = mica_rng_key_from_seed((uint64_t)k);
        float *base = malloc((size_t)(N * w.t->n_vocab) * sizeof(*base));
        int32_t ids[N];
        for (uint32_t i = 0; i < N; i++)
            ids[i] = (int32_t)(mica_rng_word(key, N, i) % (uint32_t)w.t->n_vocab);
        tiny_logits(w.e, ids, N, ROLE_PROMPT, base);
        for (uint32_t i = 0; i < 60; i++) {
            uint32_t a, b;
            mica_threefry(key, i, 1, &a, &b);
            one_operation(&w, ids, N, base, a >> 4, b >> 4);
        }
        free(base);
        world_close(&w);
    }
}

static void bad_ids(void **state) {
    (void)state;
    world w = world_open("llama-bf16", tiny_exact(true));
    mica_error err;
    eval_options o = {.role = ROLE_PROMPT};
    int32_t n_vocab = (int32_t)w.t->n_vocab;
    const int32_t bad[][3] = {{1, -1, 2}, {1, 2, n_vocab}, {INT32_MAX, 0, 0}};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(mica_session_eval(w.s, bad[i], 3, &o, &err), MICA_E_INVALID);
        assert_int_equal(mica_session_length(w.s), 0);
    }
    assert_non_null(strstr(err.message, "2147483647"));
    assert_int_equal(mica_session_eval(w.s, bad[0], 0, &o, &err), MICA_E_INVALID);
    world_close(&w);
}

static mica_status count_row(void *user, int64_t i, const float *logits, mica_error *err) {
    int64_t *seen = user;
    (void)logits, (void)err;
    seen[0]++;
    seen[1] = i;
    return MICA_OK;
}

/* Only the row that is asked for gets logits, whatever the chunks. */
static void last_logits_only(void **state) {
    (void)state;
    for (int chunk = 1; chunk <= 41; chunk += 8) {
        engine_options options = tiny_exact(true);
        options.chunk = chunk;
        world w = world_open("llama-bf16", options);
        int64_t seen[2] = {0, -1};
        mica_error err;
        eval_options o = {.role = ROLE_PROMPT, .on_logits = count_row, .user = seen};
        assert_int_equal(mica_session_eval(w.s, w.t->ids, w.t->n_ids, &o, &err), MICA_OK);
        assert_int_equal(seen[0], 1);
        assert_int_equal(seen[1], w.t->n_ids - 1);
        world_close(&w);
    }
}

/* ---- generation ---- */
typedef struct listener {
    int64_t n_tokens, stop_at, n_progress, cancel_at;
    int32_t ids[300];
} listener;

static bool on_token(void *user, int32_t id, float logprob) {
    listener *l = user;
    assert_true(isnan(logprob));
    l->ids[l->n_tokens++] = id;
    return l->n_tokens != l->stop_at;
}

static bool on_progress(void *user, int64_t done, int64_t total) {
    listener *l = user;
    assert_true(done > 0 && done <= total);
    return ++l->n_progress != l->cancel_at;
}

static generate_result generate(world *w, generate_options o, listener *l) {
    generate_result r;
    mica_error err;
    o.on_token = on_token;
    o.on_progress = on_progress;
    o.user = l;
    assert_int_equal(mica_session_trim(w->s, mica_session_length(w->s), &err), MICA_OK);
    if (mica_generate(w->s, w->t->ids, w->t->n_ids, &o, &r, &err)) fail_msg("%s", err.message);
    assert_int_equal(l->n_tokens, r.n_ids);
    assert_memory_equal(l->ids, r.ids, (size_t)r.n_ids * sizeof(*r.ids));
    return r;
}

static generate_options greedy_options(int64_t max_tokens) {
    generate_options o;
    mica_generate_defaults(&o);
    o.max_tokens = max_tokens;
    o.ignore_eos = true;
    return o;
}

static void token_limits(void **state) {
    (void)state;
    world w = world_open("llama-bf16", tiny_exact(true));
    for (int64_t n = 0; n <= 12; n++) {
        listener l = {0};
        generate_result r = generate(&w, greedy_options(n), &l);
        assert_int_equal(r.reason, FINISH_LENGTH);
        assert_int_equal(r.n_ids, n);
        assert_int_equal(r.stats.generated_tokens, n);
        /* the last token has not been run */
        assert_int_equal(mica_session_length(w.s), w.t->n_ids + (n ? n - 1 : 0));
        mica_generate_result_deinit(&r);
    }
    world_close(&w);
}

static void end_tokens(void **state) {
    (void)state;
    world w = world_open("llama-bf16", tiny_exact(true));
    listener l = {0};
    generate_result all = generate(&w, greedy_options(12), &l);
    for (int64_t k = 0; k < 12; k++) {
        int64_t first = 0;
        while (all.ids[first] != all.ids[k])
            first++;
        for (int64_t limit = first + 1; limit <= 12; limit += 11 - first > 0 ? 11 - first : 1) {
            generate_options o = greedy_options(limit);
            o.ignore_eos = false;
            o.extra_eos = &all.ids[k];
            o.n_extra_eos = 1;
            l = (listener){0};
            generate_result r = generate(&w, o, &l);
            assert_int_equal(r.reason, FINISH_STOP); /* on the limit too */
            assert_int_equal(r.n_ids, first);
            assert_int_equal(r.stats.generated_tokens, first + 1);
            mica_generate_result_deinit(&r);
        }
    }
    mica_generate_result_deinit(&all);
    world_close(&w);
}

static void cancelling(void **state) {
    (void)state;
    engine_options options = tiny_exact(true);
    options.chunk = 7;
    world w = world_open("llama-bf16", options);
    for (int64_t k = 1; k <= 5; k++) {
        listener l = {.stop_at = k};
        generate_result r = generate(&w, greedy_options(12), &l);
        assert_int_equal(r.reason, FINISH_CANCELLED);
        assert_int_equal(r.n_ids, k);
        assert_int_equal(mica_session_length(w.s), w.t->n_ids + k - 1);
        mica_generate_result_deinit(&r);
        l = (listener){.cancel_at = k};
        r = generate(&w, greedy_options(12), &l);
        assert_int_equal(r.reason, FINISH_CANCELLED);
        assert_int_equal(r.n_ids, 0);
        assert_int_equal(mica_session_length(w.s), 7 * k);
        double rows = r.stats.prefill_tps * r.stats.prefill_s; /* of those that were run */
        assert_true(fabs(rows - (double)(7 * k)) < 1e-6);
        mica_generate_result_deinit(&r);
    }
    world_close(&w);
}

static void context_end(void **state) {
    (void)state;
    engine_options options = tiny_exact(true);
    options.max_context = 48;
    world w = world_open("llama-bf16", options);
    listener l = {0};
    generate_result r = generate(&w, greedy_options(100), &l);
    assert_int_equal(w.t->n_ids, 40);
    assert_int_equal(r.reason, FINISH_CONTEXT);
    assert_int_equal(r.n_ids, 9); /* eight were run, the ninth came from the last row */
    assert_int_equal(mica_session_length(w.s), 48);
    mica_error err;
    generate_options o = greedy_options(1);
    generate_result none;
    assert_int_equal(mica_generate(w.s, w.t->ids, 1, &o, &none, &err), MICA_E_LIMIT);
    assert_int_equal(mica_session_trim(w.s, 48, &err), MICA_OK);
    int32_t ids[49] = {0};
    assert_int_equal(mica_generate(w.s, ids, 49, &o, &none, &err), MICA_E_LIMIT);
    assert_non_null(strstr(err.message, "49"));
    assert_non_null(strstr(err.message, "48"));
    assert_int_equal(mica_session_length(w.s), 0);
    assert_int_equal(mica_generate(w.s, ids, 0, &o, &none, &err), MICA_E_INVALID);
    o.max_tokens = -1;
    assert_int_equal(mica_generate(w.s, ids, 1, &o, &none, &err), MICA_E_INVALID);
    o = greedy_options(1);
    o.sampler.top_p = 2;
    assert_int_equal(mica_generate(w.s, ids, 1, &o, &none, &err), MICA_E_INVALID);
    assert_int_equal(mica_session_length(w.s), 0);
    mica_generate_result_deinit(&r);
    world_close(&w);
}

/* A penalty that forbids all that has been seen: no id of the prompt, and none twice. */
static void penalties_see_all(void **state) {
    (void)state;
    world w = world_open("llama-text", tiny_exact(true));
    bool seen[4096] = {false};
    for (int64_t i = 0; i < w.t->n_ids; i++)
        seen[w.t->ids[i]] = true;
    listener l = {0};
    generate_options o = greedy_options(60);
    o.sampler.presence_penalty = 1e6f;
    o.sampler.penalty_window = 0;
    generate_result r = generate(&w, o, &l);
    for (int64_t i = 0; i < r.n_ids; i++) {
        assert_false(seen[r.ids[i]]);
        seen[r.ids[i]] = true;
    }
    mica_generate_result_deinit(&r);
    world_close(&w);
}

/* Draws depend on the seed, not on chunks or threads. */
static void seeds(void **state) {
    (void)state;
    int32_t first[12], other[12];
    for (int k = 0; k < 3; k++) {
        engine_options options = tiny_exact(false);
        options.chunk = k == 1 ? 3 : 64;
        options.n_threads = 1 + k;
        world w = world_open("gemma3-bf16", options);
        for (uint64_t seed = 5; seed <= 6; seed++) {
            listener l = {0};
            generate_options o = greedy_options(12);
            o.sampler.temperature = 20;
            o.sampler.seed = seed;
            o.sampler.repetition_penalty = 1.1f;
            generate_result r = generate(&w, o, &l);
            assert_int_equal(r.n_ids, 12);
            int32_t *kept = seed == 5 ? first : other;
            if (k == 0) memcpy(kept, r.ids, sizeof(first));
            assert_memory_equal(kept, r.ids, sizeof(first));
            mica_generate_result_deinit(&r);
        }
        world_close(&w);
    }
    assert_memory_not_equal(first, other, sizeof(first));
}

/* Counted by hand from the configuration: every weight once, one row of the untied embedding, and
 * the cache. */
static void statistics(void **state) {
    (void)state;
    world w = world_open("llama-f32", tiny_exact(true));
    const model_config *c = mica_model_config(mica_engine_model(w.e));
    assert_false(c->tied);
    listener l = {0};
    generate_result r = generate(&w, greedy_options(12), &l);
    const generate_stats *s = &r.stats;
    int64_t q = c->n_heads * c->head_dim, kv = c->n_kv_heads * c->head_dim;
    int64_t layer = 2 * c->hidden_size * (q + kv) + 3 * c->hidden_size * c->intermediate_size;
    int64_t weights = c->n_layers * layer + c->vocab_size * c->hidden_size + c->hidden_size;
    int64_t cache = mica_session_length(w.s) * c->n_layers * 2 * kv;
    assert_int_equal(s->bytes_per_token, 4 * (weights + cache));
    assert_int_equal(s->prompt_tokens, w.t->n_ids);
    assert_true(s->load_s > 0 && s->ttft_s > 0 && s->decode_s > 0);
    assert_true(fabs(s->prefill_tps * s->prefill_s - 40) < 1e-6);
    assert_true(fabs(s->decode_tps * s->decode_s - 11) < 1e-6);
    assert_true(fabs(s->achieved_gbps - (double)s->bytes_per_token * s->decode_tps / 1e9) < 1e-9);
    assert_true(s->peak_rss_bytes > 1000000);
    mica_generate_result_deinit(&r);
    l = (listener){0};
    r = generate(&w, greedy_options(1), &l);
    assert_true(isnan(r.stats.decode_tps));
    mica_generate_result_deinit(&r);
    world_close(&w);
}

static void bad_options(void **state) {
    (void)state;
    int n;
    tiny *t = tiny_load_all(root, "llama-bf16", &n);
    const char *switches = "warp=on";
    const struct {
        mica_status st;
        const char *says;
        engine_options o;
    } cases[] = {
        {MICA_E_INVALID, "exact", {.has_dtype = true, .dtype = MICA_F32}},
        {MICA_E_INVALID, "i32", {.exact = true, .has_dtype = true, .dtype = MICA_I32}},
        {MICA_E_INVALID, "warp", {.levers = &switches, .n_levers = 1}},
        {MICA_E_INVALID, "mmx", {.cpu_mask = "mmx"}},
        {MICA_E_INVALID, "chunk", {.chunk = -1}},
        {MICA_E_INVALID, "max_logits", {.max_logits = -1}},
        {MICA_E_LIMIT, "257", {.max_context = 257}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        engine *e;
        mica_error err;
        assert_int_equal(mica_engine_open(&e, t->path, &cases[i].o, &err), cases[i].st);
        if (!strstr(err.message, cases[i].says)) fail_msg("'%s'", err.message);
    }
    engine *e;
    mica_error err;
    engine_options o = {0};
    assert_int_equal(mica_engine_open(&e, "/nowhere/at/all", &o, &err), MICA_E_NOT_FOUND);
    tiny_free_all(t, n);
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    root = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_operations),
        cmocka_unit_test(bad_ids),
        cmocka_unit_test(token_limits),
        cmocka_unit_test(end_tokens),
        cmocka_unit_test(cancelling),
        cmocka_unit_test(context_end),
        cmocka_unit_test(seeds),
        cmocka_unit_test(last_logits_only),
        cmocka_unit_test(penalties_see_all),
        cmocka_unit_test(statistics),
        cmocka_unit_test(bad_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
