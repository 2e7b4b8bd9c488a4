/* driver_llama.c: llama.cpp behind the requests of driver.h. Usage: driver_llama MODEL THREADS.
 * Built by bench/peers against libllama; no part of mica.
 */
#include <stdlib.h>

#include "driver.h"
#include "llama.h"

enum { MAX_CONTEXT = 4096, CHUNK = 512 };

static void quiet(enum ggml_log_level level, const char *text, void *user) {
    (void)user;
    if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

static int32_t best(const float *logits, int32_t n) {
    int32_t at = 0;
    for (int32_t i = 1; i < n; i++)
        if (logits[i] > logits[at]) at = i;
    return at;
}

static int run(struct llama_context *context, const struct llama_model *model, int32_t n_vocab,
               const driver_request *r) {
    static llama_token ids[MAX_CONTEXT];
    if (r->n_prompt + r->n_decode > MAX_CONTEXT) return 1;
    for (long i = 0; i < r->n_prompt; i++)
        ids[i] = driver_id(i, r->seed, n_vocab);
    llama_memory_clear(llama_get_memory(context), true);
    double begin = driver_now_s();
    for (long i = 0; i < r->n_prompt; i += CHUNK) {
        long n = r->n_prompt - i < CHUNK ? r->n_prompt - i : CHUNK;
        if (llama_decode(context, llama_batch_get_one(ids + i, (int32_t)n))) return 1;
    }
    llama_token id = best(llama_get_logits_ith(context, -1), n_vocab);
    double middle = driver_now_s();
    for (long i = 0; i < r->n_decode; i++) {
        if (llama_decode(context, llama_batch_get_one(&id, 1))) return 1;
        id = best(llama_get_logits_ith(context, -1), n_vocab);
    }
    double end = driver_now_s();
    driver_answer(middle - begin, end - middle, r->n_decode, id, (double)llama_model_size(model));
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    double begin = driver_now_s();
    llama_log_set(quiet, NULL);
    llama_backend_init();
    struct llama_model_params mp = llama_model_default_params();
    struct llama_model *model = llama_model_load_from_file(argv[1], mp);
    if (!model) return 1;
    struct llama_context_params cp = llama_context_default_params();
    cp.n_ctx = MAX_CONTEXT;
    cp.n_batch = cp.n_ubatch = CHUNK;
    cp.n_threads = cp.n_threads_batch = atoi(argv[2]);
    struct llama_context *context = llama_init_from_model(model, cp);
    if (!context) return 1;
    int32_t n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
    driver_ready(driver_now_s() - begin);
    driver_request r;
    int failed = 0;
    while (!failed && driver_next(&r))
        failed = run(context, model, n_vocab, &r);
    llama_free(context);
    llama_model_free(model);
    return failed;
}
