/* faults.c: every allocation made to fail in turn while a tiny checkpoint loads and generates: a
 * clean error each time and nothing left behind. And a decode step asks for no memory at all.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_base.h"
#include "fault_alloc.h"
#include "tiny.h"

static const char *root;

typedef struct counts {
    long at_token[16];
    int n;
} counts;

static bool on_token(void *user, int32_t id, float logprob) {
    counts *c = user;
    (void)id, (void)logprob;
    if (c->n < 16) c->at_token[c->n++] = fault_alloc_calls();
    return true;
}

static mica_status load_and_generate(const tiny *t, bool exact, int n_threads, counts *c,
                                     mica_error *err) {
    engine *e = NULL;
    session *s = NULL;
    generate_result r = {0};
    generate_options g;
    const engine_options o = {.exact = exact, .n_threads = n_threads, .chunk = 16};
    mica_generate_defaults(&g);
    g.max_tokens = 16;
    g.ignore_eos = true;
    g.sampler.temperature = .7f;
    if (!strstr(t->path, "diffusion")) g.sampler.top_p = .9f;
    g.sampler.repetition_penalty = 1.1f;
    g.on_token = on_token;
    g.user = c;
    mica_status st = mica_engine_open(&e, t->path, &o, err);
    if (!st) st = mica_session_new(&s, e, err);
    if (!st) st = mica_generate(s, t->ids, t->n_ids, &g, &r, err);
    mica_generate_result_deinit(&r);
    mica_session_free(s);
    mica_engine_close(e);
    return st;
}

static void every_allocation(void **state) {
    (void)state;
    static const char *const names[] = {"llama-q4-g64-f16", "gguf-llama-k", "gemma3-nested",
                                        "llama-sharded"};
    for (int k = 0; k < 4; k++) {
        int n;
        tiny *t = tiny_load_all(root, names[k], &n);
        mica_error err;
        counts c = {0};
        long before = fault_alloc_live();
        fault_alloc_arm(0);
        assert_int_equal(load_and_generate(t, k % 2, 1, &c, &err), MICA_OK);
        long n_calls = fault_alloc_calls();
        assert_int_equal(fault_alloc_live(), before);
        assert_true(n_calls > 20);
        for (long i = 1; i <= n_calls; i++) {
            memset(&err, 0, sizeof(err));
            fault_alloc_arm(i);
            mica_status st = load_and_generate(t, k % 2, 1, &c, &err);
            long live = fault_alloc_live();
            if (st != MICA_E_NOMEM || err.code != st || !err.message[0] || live != before)
                fail_msg("%s: allocation %ld of %ld: status %d, '%s', %ld blocks left", names[k], i,
                         n_calls, (int)st, err.message, live - before);
        }
        fault_alloc_arm(0);
        print_message("%s: %ld allocations\n", names[k], n_calls);
        tiny_free_all(t, n);
    }
}

/* A diffusion model: each allocation of opening it, and of denoising two blocks, one of which is
 * encoded. */
static void of_a_canvas(void **state) {
    (void)state;
    static int32_t ids[] = {3, 4, 5, 6, 7};
    tiny t = {.ids = ids, .n_ids = 5};
    mica_error err;
    counts c = {0};
    snprintf(t.path, sizeof(t.path), "%s/../diffusion/diffusion_gemma-q4", root);
    for (int k = 0; k < 2; k++) {
        long before = fault_alloc_live();
        fault_alloc_arm(0);
        assert_int_equal(load_and_generate(&t, k, 1, &c, &err), MICA_OK);
        long n_calls = fault_alloc_calls();
        for (long i = 1; i <= n_calls; i++) {
            fault_alloc_arm(i);
            mica_status st = load_and_generate(&t, k, 1, &c, &err);
            if (st != MICA_E_NOMEM || fault_alloc_live() != before)
                fail_msg("allocation %ld of %ld: status %d, %ld blocks left", i, n_calls, (int)st,
                         fault_alloc_live() - before);
        }
        fault_alloc_arm(0);
        assert_int_equal(fault_alloc_live(), before);
        print_message("a canvas: %ld allocations\n", n_calls);
    }
}

static void no_allocation_in_a_step(void **state) {
    (void)state;
    for (int exact = 0; exact < 2; exact++) {
        int n;
        tiny *t = tiny_load_all(root, "gemma3-nested", &n);
        mica_error err;
        counts c = {0};
        fault_alloc_arm(0);
        assert_int_equal(load_and_generate(t, exact, 2, &c, &err), MICA_OK);
        assert_int_equal(c.n, 16);
        for (int i = 1; i < c.n; i++)
            assert_int_equal(c.at_token[i], c.at_token[0]);
        tiny_free_all(t, n);
    }
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    root = argv[1];
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation),
                                       cmocka_unit_test(of_a_canvas),
                                       cmocka_unit_test(no_allocation_in_a_step)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
