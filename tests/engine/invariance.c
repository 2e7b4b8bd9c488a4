/* invariance.c: exact results do not depend on how they are computed, bit for bit: rows a step,
 * threads, instruction sets, one pass or token by token, and who else is in the step. In f32 and in
 * the checkpoint's own type.
 *
 * In 16-bit types the logits also stay near those of f32. The bound on the rms error, in units of
 * the logits' std: a stored activation is rounded once, with a relative error of at most u (2^-9
 * bf16, 2^-12 f16), evenly spread, so of variance u^2/3. On the way to a logit lie at most 16
 * roundings a layer (norm 2, v, attention, o, sum; norm 2, gate, activation 4, product, down, sum)
 * and 5 outside the layers. Besides, a score's error is the relative error of q and k (3 roundings
 * each: norm, projection, rope) times the score, whose mean square, weighted by attention, is below
 * 144 in these checkpoints (as measured in float64); it moves the attention's output by as much,
 * and that is about a third of the squared sum it goes into. In all u^2/3 * (5 + L * (16 + 6 * 144
 * / 3)). An error of another kind than rounding would not shrink with u: bf16 must be off by about
 * 8 times as much as f16.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_base.h"
#include "tiny.h"

#include "engine/runtime.h"

static const char *root;

typedef struct one_case {
    const tiny *t;
    float *base, *other;
    size_t n_bytes;
    bool plus_1_bf16, has_experts, has_streams;
} one_case;

static void expect_same(const one_case *c, engine_options options, row_role role, const char *what,
                        long long value) {
    engine *e = tiny_open(c->t->path, &options);
    tiny_logits(e, c->t->ids, c->t->n_ids, role, c->other);
    mica_engine_close(e);
    for (size_t i = 0; i < c->n_bytes / sizeof(float); i++)
        if (memcmp(&c->base[i], &c->other[i], sizeof(float)))
            fail_msg("%s: with %s %lld logit %zu of row %zu is %.9g, not %.9g", c->t->name, what,
                     value, i % (size_t)c->t->n_vocab, i / (size_t)c->t->n_vocab,
                     (double)c->other[i], (double)c->base[i]);
}

/* The rms distance from f32 in units of the std, with all activations in `dtype`. */
static double distance(const one_case *c, mica_dtype dtype) {
    engine_options options = tiny_exact(true);
    options.dtype = dtype;
    engine *e = tiny_open(c->t->path, &options);
    double u = dtype == MICA_BF16 || c->plus_1_bf16 ? 0x1p-9 : 0x1p-12, sum = 0;
    double n_layers = (double)mica_model_config(mica_engine_model(e))->n_layers;
    double bound = u / sqrt(3) * sqrt(5 + n_layers * (16 + 6 * 144 / 3.0));
    size_t n = c->n_bytes / sizeof(float);
    tiny_logits(e, c->t->ids, c->t->n_ids, ROLE_PROMPT, c->other);
    mica_engine_close(e);
    for (size_t i = 0; i < n; i++) {
        double d = ((double)c->other[i] - (double)c->t->logits[i]) / c->t->std;
        sum += d * d;
    }
    double rms = sqrt(sum / (double)n);
    print_message("%-28s %s off by %.5f of the std; bound %.5f\n", c->t->name,
                  mica_dtype_name(dtype), rms, bound);
    if (!(rms <= bound) && !c->has_streams) fail_msg("%s: above the bound", c->t->name);
    return rms;
}

/* Gemma 3n mixes its streams by coefficients, in more sums than the bound counts: only the ratio is
 * held there. The sums 1+w of zero-centred norms are rounded to the weight's own type, whatever the
 * activations are: of a bf16 checkpoint that error stays. The choice of experts is no continuous
 * function: a rounded score may choose another one, which no bound on rounding covers. */
static void expect_rounding_alone(const one_case *c) {
    if (c->has_experts) return;
    double ratio = distance(c, MICA_BF16) / distance(c, MICA_F16);
    if (!c->plus_1_bf16 && !(ratio > 4 && ratio < 16))
        fail_msg("%s: bf16 / f16 is %.2f, not 8", c->t->name, ratio);
}

static void all_ways(one_case *c, bool f32) {
    static const char *const masks[] = {"ref", "avx2", "avx512", "neon"};
    static const cpu_isa isas[] = {ISA_REF, ISA_AVX2, ISA_AVX512, ISA_NEON};
    static const int chunks[] = {1, 3, 7, 40};
    const engine_options plain = tiny_exact(f32);
    engine *e = tiny_open(c->t->path, &plain);
    const model_config *config = mica_model_config(mica_engine_model(e));
    c->has_experts = config->moe.n_experts > 0;
    c->has_streams = config->gemma.n_streams > 0;
    bool plus_1 = !strncmp(config->arch, "gemma", 5) || !strncmp(config->arch, "qwen3_5", 7) ||
                  !strcmp(config->arch, "qwen3_next");
    c->plus_1_bf16 = config->dtype == MICA_BF16 && plus_1;
    tiny_logits(e, c->t->ids, c->t->n_ids, ROLE_PROMPT, c->base);
    mica_engine_close(e);
    for (int i = 0; i < 4; i++) {
        engine_options o = plain;
        o.chunk = chunks[i];
        expect_same(c, o, ROLE_PROMPT, "chunks of", chunks[i]);
    }
    for (int n = 2; n <= 3; n++) {
        engine_options o = plain;
        o.n_threads = n;
        expect_same(c, o, ROLE_PROMPT, "threads", n);
    }
    for (int i = 0; i < 4; i++) {
        engine_options o = plain;
        o.cpu_mask = masks[i];
        o.chunk = i == 0 ? 1 : 64;
        if (mica_cpu_isa_available(isas[i])) expect_same(c, o, ROLE_PROMPT, masks[i], i);
    }
    engine_options o = plain;
    o.max_logits = 1; /* one row a step */
    expect_same(c, o, ROLE_DECODE, "decode rows", 1);
}

static void same_bits(void **state) {
    (void)state;
    int n;
    tiny *list = tiny_load_all(root, NULL, &n);
    for (int i = 0; i < n; i++) {
        size_t n_bytes = (size_t)(list[i].n_ids * list[i].n_vocab) * sizeof(float);
        one_case c = {&list[i], malloc(n_bytes), malloc(n_bytes), n_bytes, false, false, false};
        all_ways(&c, true);
        all_ways(&c, false);
        expect_rounding_alone(&c);
        free(c.base);
        free(c.other);
    }
    tiny_free_all(list, n);
}

/* ---- the fast profile: a role's bits do not depend on rows a step, threads, instruction set ----
 */
enum { LONG = 203 };

static void same_bits_fast(void **state) {
    static const char *const names[] = {"llama-q4-g64", "gemma3-q8-g64-bf16", "gguf-llama-k",
                                        "llama-nvfp4",  "qwen3-q5-g128-f16",  "qwen3_moe-q4"};
    static const int chunks[] = {1, 2, 3, 5, 8, 64, 200};
    static const char *const masks[] = {"ref",  "avx2",    "avx512", "avx512vnni",
                                        "neon", "dotprod", "i8mm"};
    (void)state;
    for (int i = 0; i < 6; i++) {
        int n;
        tiny *list = tiny_load_all(root, names[i], &n);
        tiny t = list[0];
        int32_t ids[LONG];
        for (int k = 0; k < LONG; k++)
            ids[k] = (k * 37 + 11) % (int32_t)t.n_vocab;
        t.ids = ids;
        t.n_ids = LONG;
        size_t n_bytes = (size_t)(LONG * t.n_vocab) * sizeof(float);
        one_case c = {&t, malloc(n_bytes), malloc(n_bytes), n_bytes, false, false, false};
        for (int role = 0; role < 2; role++) {
            const engine_options plain = {.n_threads = 1, .max_logits = 256, .max_context = 256};
            engine *e = tiny_open(t.path, &plain);
            tiny_logits(e, ids, LONG, (row_role)role, c.base);
            mica_engine_close(e);
            for (int k = 0; k < 7; k++) {
                engine_options o = plain;
                o.chunk = chunks[k];
                o.max_logits = chunks[k];
                o.n_threads = 1 + k % 3;
                expect_same(&c, o, (row_role)role, "chunks of", chunks[k]);
            }
            /* steps that are joined give the bits of their parts */
            static const char *const parts[] = {"norm-rows=off", "glu-rows=off", "residual=off"};
            for (int k = 0; k < 4; k++) {
                engine_options o = plain;
                o.levers = parts + k % 3;
                o.n_levers = k < 3 ? 1 : 3;
                expect_same(&c, o, (row_role)role, parts[k % 3], k);
            }
            /* the lever bf16 has no kernel without tiles, so its bits are those of one machine */
            static const char *const levers[] = {"bf16=off"};
            engine_options same = plain;
            same.levers = levers;
            same.n_levers = 1;
            e = tiny_open(t.path, &same);
            tiny_logits(e, ids, LONG, (row_role)role, c.base);
            mica_engine_close(e);
            for (int k = 0; k < 5; k++) {
                engine_options o = same;
                o.cpu_mask = masks[k];
                expect_same(&c, o, (row_role)role, masks[k], k);
            }
        }
        free(c.base);
        free(c.other);
        tiny_free_all(list, n);
    }
}

/* ---- sequences that share steps ---- */
typedef struct batch_out {
    float *rows[3]; /* [n_ids, vocab] of each sequence */
    int64_t done[3], n_vocab;
    int which[3]; /* of the parts of the step */
} batch_out;

static mica_status keep_batch(void *user, int part, int64_t row, const float *logits,
                              mica_error *err) {
    batch_out *b = user;
    int s = b->which[part];
    (void)err;
    memcpy(b->rows[s] + (b->done[s] + row) * b->n_vocab, logits, (size_t)b->n_vocab * 4);
    return MICA_OK;
}

/* Three sequences with other beginnings, advanced by uneven parts, in changing company. */
static void run_shared(engine *e, const tiny *t, row_role role, float *rows[3]) {
    session *s[3];
    mica_error err;
    batch_out b = {{rows[0], rows[1], rows[2]}, {0}, t->n_vocab, {0}};
    for (int k = 0; k < 3; k++)
        assert_int_equal(mica_session_new(&s[k], e, &err), MICA_OK);
    for (int64_t step = 0; b.done[0] + b.done[1] + b.done[2] < 3 * t->n_ids - 3; step++) {
        step_part parts[3];
        int n_parts = 0;
        for (int k = 0; k < 3; k++) {
            int64_t left = t->n_ids - k - b.done[k], want = (step * (k + 2) + k) % 5;
            int64_t n = want < left ? want : left;
            if (n <= 0) continue;
            b.which[n_parts] = k;
            parts[n_parts++] = (step_part){
                .session = s[k], .ids = t->ids + k + b.done[k], .n = n, .logits = STEP_ALL_LOGITS};
        }
        if (!n_parts) continue;
        if (mica_step_run(e, role, parts, n_parts, keep_batch, &b, &err))
            fail_msg("%s: %s", t->name, err.message);
        for (int p = 0; p < n_parts; p++)
            b.done[b.which[p]] += parts[p].n;
    }
    for (int k = 0; k < 3; k++)
        mica_session_free(s[k]);
}

static void shared_steps(void **state) {
    static const char *const names[] = {"llama-q4-g64", "gemma3-bf16",    "qwen2-window",
                                        "gguf-llama-k", "mistral-window", "qwen3_moe-q4"};
    (void)state;
    for (int i = 0; i < 6; i++) {
        int n;
        tiny *t = tiny_load_all(root, names[i], &n);
        for (int exact = 0; exact < 2; exact++)
            for (int role = 0; role < 2; role++) {
                engine_options options = {
                    .exact = exact, .n_threads = 2, .max_logits = 64, .max_seqs = 3, .chunk = 64};
                engine *e = tiny_open(t->path, &options);
                size_t n_bytes = (size_t)(t->n_ids * t->n_vocab) * 4;
                float *rows[3], *alone = malloc(n_bytes);
                for (int k = 0; k < 3; k++)
                    rows[k] = calloc(1, n_bytes);
                run_shared(e, t, (row_role)role, rows);
                for (int k = 0; k < 3; k++) {
                    int64_t n_rows = t->n_ids - k;
                    tiny_logits(e, t->ids + k, n_rows, (row_role)role, alone);
                    assert_memory_equal(rows[k], alone, (size_t)(n_rows * t->n_vocab) * 4);
                    free(rows[k]);
                }
                free(alone);
                mica_engine_close(e);
            }
        tiny_free_all(t, n);
    }
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    root = argv[1];
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bits),
                                       cmocka_unit_test(same_bits_fast),
                                       cmocka_unit_test(shared_steps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
