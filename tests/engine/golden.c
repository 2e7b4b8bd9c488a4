/* golden.c: every tiny checkpoint against the logits and greedy ids of another implementation.
 *
 * Both sides compute in f32 from the same weights, so they differ by the order of sums alone: no
 * logit may be off by more than 2e-3 of the logits' standard deviation. A greedy id may differ only
 * where the reference's two best logits lie within 0.02, and is reported; what follows it is
 * another text and not compared.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cmocka_base.h"
#include "tiny.h"

static const char *root;

static bool compare_logits(const tiny *t, engine *e) {
    assert_int_equal(mica_engine_vocab_size(e), t->n_vocab);
    size_t n = (size_t)(t->n_ids * t->n_vocab);
    float *logits = malloc(n * sizeof(*logits));
    double worst = 0;
    size_t where = 0;
    tiny_logits(e, t->ids, t->n_ids, ROLE_PROMPT, logits);
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)logits[i] - (double)t->logits[i]) / t->std;
        if (!(d <= worst)) worst = d, where = i;
    }
    free(logits);
    bool good = worst <= 2e-3;
    print_message("%-28s logits off by %.1e of their std (row %zu)%s\n", t->name, worst,
                  where / (size_t)t->n_vocab, good ? "" : "  WRONG");
    return good;
}

static bool compare_greedy(const tiny *t, engine *e) {
    session *s;
    mica_error err;
    generate_options options;
    generate_result r;
    bool good = true;
    mica_generate_defaults(&options);
    options.max_tokens = t->n_greedy;
    options.ignore_eos = true;
    if (mica_session_new(&s, e, &err)) fail_msg("%s", err.message);
    if (mica_generate(s, t->ids, t->n_ids, &options, &r, &err)) fail_msg("%s", err.message);
    assert_int_equal(r.n_ids, t->n_greedy);
    assert_int_equal(r.reason, FINISH_LENGTH);
    for (int64_t i = 0; i < r.n_ids; i++) {
        if (r.ids[i] == t->greedy[i]) continue;
        good = t->gap[i] < 0.02;
        print_message("%-28s id %d is %d, not %d; the reference's gap there is %g%s\n", t->name,
                      (int)i, r.ids[i], t->greedy[i], t->gap[i], good ? " (a fork)" : "  WRONG");
        break;
    }
    mica_generate_result_deinit(&r);
    mica_session_free(s);
    return good;
}

static void all_checkpoints(void **state) {
    (void)state;
    int n, n_wrong = 0;
    tiny *list = tiny_load_all(root, NULL, &n);
    for (int i = 0; i < n; i++) {
        engine_options options = tiny_exact(true);
        engine *e = tiny_open(list[i].path, &options);
        bool good = compare_logits(&list[i], e);
        if (!compare_greedy(&list[i], e) || !good) n_wrong++;
        mica_engine_close(e);
    }
    print_message("%d checkpoints\n", n);
    tiny_free_all(list, n);
    assert_int_equal(n_wrong, 0);
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    root = argv[1];
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_checkpoints)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
