/* driver_mica.c: mica behind the requests of driver.h. Usage: driver_mica MODEL THREADS [PACKS]. */
#include <stdlib.h>

#include "base/alloc.h"
#include "driver.h"
#include "engine/engine.h"
#include "text/tokenizer.h"

static int fail(const mica_error *err) {
    fprintf(stderr, "mica: %s\n", err->message);
    return 1;
}

static mica_status run(engine *e, const driver_request *r, mica_error *err) {
    session *s = NULL;
    generate_result result = {0};
    generate_options options;
    mica_generate_defaults(&options);
    options.max_tokens = r->n_decode + 1; /* the first comes with the prompt */
    options.ignore_eos = true;
    int32_t *ids = mica_calloc((size_t)r->n_prompt, sizeof(*ids));
    if (!ids) return mica_fail(err, MICA_E_NOMEM, "out of memory");
    for (long i = 0; i < r->n_prompt; i++)
        ids[i] = driver_id(i, r->seed, mica_engine_vocab_size(e));
    mica_status st = mica_session_new(&s, e, err);
    if (!st) st = mica_generate(s, ids, r->n_prompt, &options, &result, err);
    if (!st)
        driver_answer(result.stats.prefill_s, result.stats.decode_s, r->n_decode,
                      result.ids[result.n_ids - 1], (double)result.stats.bytes_per_token);
    mica_generate_result_deinit(&result);
    mica_session_free(s);
    mica_free(ids);
    return st;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    mica_error err;
    engine *e = NULL;
    const engine_options options = {.n_threads = atoi(argv[2]),
                                    .max_context = 4096,
                                    .pack_folder = argc > 3 ? argv[3] : NULL};
    double begin = driver_now_s();
    tokenizer *t = NULL; /* nothing here needs it, but a start that people see does */
    if (mica_engine_open(&e, argv[1], &options, &err)) return fail(&err);
    mica_status st = mica_tokenizer_open(&t, argv[1], &err);
    if (st && st != MICA_E_NOT_FOUND) return fail(&err); /* converted folders have none */
    mica_tokenizer_free(t);
    driver_ready(driver_now_s() - begin);
    driver_request r;
    st = MICA_OK;
    while (!st && driver_next(&r))
        st = run(e, &r, &err);
    mica_engine_close(e);
    return st ? fail(&err) : 0;
}
