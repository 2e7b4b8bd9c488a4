/* diffusion.c: passes over a canvas against Transformers' logits; that they leave the session as it
 * was, depend on nothing but text, canvas and the pass before, and stay near the exact ones in the
 * fast profile. Whole generations: tests/cli/test_diffusion.py.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_base.h"
#include "gate.h"
#include "tiny.h"

#include "base/file.h"
#include "base/json.h"

static const char *root;
static const char *const names[] = {"diffusion_gemma-bf16", "diffusion_gemma-q4"};
enum { N_NAMES = 2, N_TEXTS = 3, MAX_IDS = 64 };

/* What is stored of one checkpoint. */
typedef struct stored {
    char path[1024];
    int32_t prompt[N_TEXTS][MAX_IDS], canvas[N_TEXTS][MAX_IDS];
    int64_t n_prompt[N_TEXTS], n_canvas, n_vocab;
    float *logits; /* [texts, 2 passes, canvas, vocab] */
    double std;
} stored;

static int64_t read_ids(const json_value *list, int i, int32_t *out) {
    assert_true(list && list->n == N_TEXTS);
    const json_value *ids = list->items[i];
    assert_true(ids->n <= MAX_IDS);
    for (size_t k = 0; k < ids->n; k++)
        out[k] = (int32_t)mica_json_i64(ids->items[k], -1);
    return (int64_t)ids->n;
}

static void read_json(stored *t) {
    char path[1200];
    mica_error err;
    mica_arena arena;
    json_value *json;
    mica_arena_init(&arena, 0);
    snprintf(path, sizeof(path), "%s/runs.json", t->path);
    if (mica_json_parse_file(&json, path, 1 << 20, false, &arena, &err))
        fail_msg("%s", err.message);
    for (int i = 0; i < N_TEXTS; i++) {
        t->n_prompt[i] = read_ids(mica_json_find(json, "prompts"), i, t->prompt[i]);
        t->n_canvas = read_ids(mica_json_find(json, "canvases"), i, t->canvas[i]);
    }
    mica_arena_deinit(&arena);
}

static void read_logits(stored *t) {
    char path[1200], *data;
    size_t n_bytes;
    mica_error err;
    long long rows = 0, columns = 0;
    snprintf(path, sizeof(path), "%s/logits.npy", t->path);
    if (mica_file_read(&data, &n_bytes, path, (size_t)1 << 24, &err)) fail_msg("%s", err.message);
    const char *shape = strstr(data + 10, "'shape': (");
    assert_true(shape && sscanf(shape + 10, "%lld, %lld", &rows, &columns) == 2);
    size_t n = (size_t)(rows * columns);
    assert_int_equal(rows, N_TEXTS * 2 * t->n_canvas);
    t->n_vocab = columns;
    t->logits = malloc(4 * n);
    memcpy(t->logits, data + n_bytes - 4 * n, 4 * n);
    mica_free(data);
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        sum += (double)t->logits[i];
        squares += (double)t->logits[i] * (double)t->logits[i];
    }
    t->std = sqrt(squares / (double)n - sum / (double)n * (sum / (double)n));
}

static stored *load(const char *name) {
    stored *t = calloc(1, sizeof(*t));
    snprintf(t->path, sizeof(t->path), "%s/%s", root, name);
    read_json(t);
    read_logits(t);
    return t;
}

static void stored_free(stored *t) {
    free(t->logits);
    free(t);
}

static size_t pass_size(const stored *t) { return (size_t)(t->n_canvas * t->n_vocab); }

/* ---- running ---- */

static void denoise(session *s, const stored *t, int text, const float *previous, float *out) {
    mica_error err;
    tiny_rows rows = {out, t->n_vocab, 0};
    if (mica_session_denoise(s, t->canvas[text], t->n_canvas, previous, tiny_keep_row, &rows, &err))
        fail_msg("%s", err.message);
    assert_int_equal(rows.next, t->n_canvas);
}

static session *encode(engine *e, const int32_t *ids, int64_t n) {
    session *s;
    mica_error err;
    const eval_options options = {.role = ROLE_PROMPT};
    if (mica_session_new(&s, e, &err)) fail_msg("%s", err.message);
    if (mica_session_eval(s, ids, n, &options, &err)) fail_msg("%s", err.message);
    return s;
}

/* Both passes of all texts, in the stored order; the second is conditioned on the first, or on
 * `from` of the same order. */
static float *run_passes(const stored *t, const engine_options *options, const float *from) {
    engine *e = tiny_open(t->path, options);
    size_t n = pass_size(t);
    float *out = malloc(N_TEXTS * 2 * n * sizeof(*out));
    assert_true(mica_engine_is_diffusion(e));
    assert_int_equal(mica_engine_vocab_size(e), t->n_vocab);
    for (int i = 0; i < N_TEXTS; i++) {
        float *first = out + (size_t)(2 * i) * n;
        session *s = encode(e, t->prompt[i], t->n_prompt[i]);
        denoise(s, t, i, NULL, first);
        denoise(s, t, i, from ? from + (size_t)(2 * i) * n : first, first + n);
        assert_int_equal(mica_session_length(s), t->n_prompt[i]);
        mica_session_free(s);
    }
    mica_engine_close(e);
    return out;
}

/* ---- tests ---- */

static void stored_logits(void **state) {
    (void)state;
    for (int k = 0; k < N_NAMES; k++) {
        stored *t = load(names[k]);
        const engine_options options = tiny_exact(true);
        float *got = run_passes(t, &options, NULL);
        double worst = 0;
        for (size_t i = 0; i < N_TEXTS * 2 * pass_size(t); i++) {
            double d = fabs((double)got[i] - (double)t->logits[i]) / t->std;
            if (!(d <= worst)) worst = d;
        }
        print_message("%-24s logits off by %.1e of their std\n", names[k], worst);
        assert_true(worst <= 2e-3);
        free(got);
        stored_free(t);
    }
}

static void expect_same(const stored *t, const float *base, engine_options options,
                        const char *what) {
    float *other = run_passes(t, &options, NULL);
    if (memcmp(base, other, N_TEXTS * 2 * pass_size(t) * sizeof(float)))
        fail_msg("%s: bits change with %s", t->path, what);
    free(other);
}

/* In every profile: chunks of the prompt and threads; in exact also the instruction set. */
static void same_bits(void **state) {
    (void)state;
    static const char *const masks[] = {"ref", "avx2", "avx512", "neon"};
    static const cpu_isa isas[] = {ISA_REF, ISA_AVX2, ISA_AVX512, ISA_NEON};
    for (int k = 0; k < N_NAMES * 3; k++) {
        stored *t = load(names[k / 3]);
        engine_options plain = tiny_exact(k % 3 == 1), o;
        plain.exact = k % 3 < 2;
        float *base = run_passes(t, &plain, NULL);
        for (int chunk = 1; chunk <= 11; chunk += 5) {
            o = plain;
            o.chunk = chunk;
            expect_same(t, base, o, "chunks");
        }
        o = plain;
        o.n_threads = 3;
        expect_same(t, base, o, "threads");
        for (int i = 0; i < 4 && plain.exact; i++) {
            o = plain;
            o.cpu_mask = masks[i];
            if (mica_cpu_isa_available(isas[i])) expect_same(t, base, o, masks[i]);
        }
        free(base);
        stored_free(t);
    }
}

/* In the checkpoint's own type rounding alone moves the logits: they keep their order of size. */
static void own_type(void **state) {
    (void)state;
    stored *t = load(names[0]);
    const engine_options options = tiny_exact(false);
    float *got = run_passes(t, &options, t->logits);
    double sum = 0;
    size_t n = N_TEXTS * 2 * pass_size(t);
    for (size_t i = 0; i < n; i++) {
        double d = ((double)got[i] - (double)t->logits[i]) / t->std;
        sum += d * d;
    }
    print_message("bf16 off by %.4f of the std\n", sqrt(sum / (double)n));
    assert_true(sqrt(sum / (double)n) < 0.1);
    free(got);
    stored_free(t);
}

/* Passes over other canvases, of other lengths, change nothing; and a session that went on from
 * there is one that never had them. */
static void leaves_no_trace(void **state) {
    (void)state;
    stored *t = load(names[0]);
    engine_options options = tiny_exact(true);
    options.chunk = 16;
    engine *e = tiny_open(t->path, &options);
    size_t n = pass_size(t);
    float *a = malloc(n * sizeof(*a)), *b = malloc(n * sizeof(*b)), *other = malloc(n * sizeof(*b));
    for (int64_t n_first = 1; n_first <= t->n_prompt[2]; n_first += 13) {
        session *s = encode(e, t->prompt[2], n_first), *plain = encode(e, t->prompt[2], n_first);
        mica_error err;
        const eval_options rest = {.role = ROLE_PROMPT};
        denoise(s, t, 0, NULL, a);
        denoise(s, t, 1, a, other);
        denoise(s, t, 0, NULL, b);
        assert_memory_equal(a, b, n * sizeof(*a));
        tiny_rows rows = {other, t->n_vocab, 0};
        assert_int_equal(mica_session_denoise(s, t->canvas[1], 3, NULL, tiny_keep_row, &rows, &err), 0);
        for (int i = 0; i < 2 && n_first < t->n_prompt[2]; i++)
            assert_int_equal(mica_session_eval(i ? s : plain, t->prompt[2] + n_first,
                                               t->n_prompt[2] - n_first, &rest, &err),
                             MICA_OK);
        denoise(s, t, 2, NULL, a);
        denoise(plain, t, 2, NULL, b);
        assert_memory_equal(a, b, n * sizeof(*a));
        mica_session_free(s);
        mica_session_free(plain);
    }
    mica_engine_close(e);
    free(a);
    free(b);
    free(other);
    stored_free(t);
}

/* Both passes with all levers, and with none; the second on the exact logits of the first, since it
 * would magnify their distance. */
static void gates(void **state) {
    (void)state;
    bool all_hold = true;
    for (int k = 0; k < N_NAMES * 2; k++) {
        stored *t = load(names[k / 2]);
        gate_levers levers;
        const engine_options exact = tiny_exact(true);
        engine_options fast = {.n_threads = 2};
        gate_levers_init(&levers, 0);
        fast.levers = levers.list;
        fast.n_levers = k % 2 ? LEVER_N : 0;
        float *want = run_passes(t, &exact, NULL), *got = run_passes(t, &fast, want);
        gate g = gate_measure(want, got, N_TEXTS * 2 * t->n_canvas, t->n_vocab);
        all_hold &= gate_holds(names[k / 2], k % 2 ? "no levers" : "defaults", g);
        free(want);
        free(got);
        stored_free(t);
    }
    assert_true(all_hold);
}

static void expect_error(mica_status got, mica_status want, const mica_error *err,
                         const char *needle) {
    assert_int_equal(got, want);
    if (!strstr(err->message, needle)) fail_msg("%s: should say %s", err->message, needle);
}

static void refusals(void **state) {
    (void)state;
    stored *t = load(names[0]);
    engine_options options = tiny_exact(true);
    options.max_context = 20;
    engine *e = tiny_open(t->path, &options);
    session *s = encode(e, t->prompt[1], 13), *empty;
    tiny_rows rows = {NULL, 0, 0};
    mica_error err;
    const eval_options eval = {.role = ROLE_PROMPT, .on_logits = tiny_keep_row, .user = &rows};
    const int32_t *ids = t->canvas[0];
    expect_error(mica_session_eval(s, ids, 1, &eval, &err), MICA_E_UNSUPPORTED, &err, "diffusion");
    expect_error(mica_session_denoise(s, ids, 9, NULL, tiny_keep_row, &rows, &err), MICA_E_LIMIT, &err,
                 "at most 8");
    expect_error(mica_session_denoise(s, ids, 8, NULL, tiny_keep_row, &rows, &err), MICA_E_LIMIT, &err,
                 "the context of 20");
    expect_error(mica_session_denoise(s, ids, 0, NULL, tiny_keep_row, &rows, &err), MICA_E_INVALID, &err,
                 "empty");
    const int32_t bad = 48;
    expect_error(mica_session_denoise(s, &bad, 1, NULL, tiny_keep_row, &rows, &err), MICA_E_INVALID,
                 &err, "0 to 47");
    assert_int_equal(mica_session_new(&empty, e, &err), MICA_OK);
    expect_error(mica_session_denoise(empty, ids, 1, NULL, tiny_keep_row, &rows, &err), MICA_E_INVALID,
                 &err, "prompt is empty");
    assert_int_equal(mica_session_length(s), 13);
    mica_session_free(empty);
    mica_session_free(s);
    mica_engine_close(e);
    stored_free(t);
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    root = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stored_logits),   cmocka_unit_test(same_bits), cmocka_unit_test(own_type),
        cmocka_unit_test(leaves_no_trace), cmocka_unit_test(gates),     cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
