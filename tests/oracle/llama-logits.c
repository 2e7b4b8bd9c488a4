/* llama-logits.c: the logits of llama.cpp, for compare-llama.py. Usage: MODEL OUT ID ID ...
 *
 * Writes float32 [n_ids, vocab] without a header. The cache is f32. Built against libllama by
 * compare-llama.py; no part of mica.
 */
#include <stdio.h>
#include <stdlib.h>

#include "llama.h"

enum { CONTEXT = 512 };

static void quiet(enum ggml_log_level level, const char *text, void *user) {
    (void)user;
    if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

static struct llama_batch batch_of(char **ids, int n) {
    struct llama_batch b = llama_batch_init(n, 0, 1);
    b.n_tokens = n;
    for (int i = 0; i < n; i++) {
        b.token[i] = atoi(ids[i]);
        b.pos[i] = i;
        b.n_seq_id[i] = 1;
        b.seq_id[i][0] = 0;
        b.logits[i] = 1;
    }
    return b;
}

int main(int argc, char **argv) {
    if (argc < 4 || argc - 3 > CONTEXT) return 2;
    int n = argc - 3;
    llama_log_set(quiet, NULL);
    llama_backend_init();
    struct llama_model *model = llama_model_load_from_file(argv[1], llama_model_default_params());
    if (!model) return 1;
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = params.n_batch = params.n_ubatch = CONTEXT;
    params.n_threads = params.n_threads_batch = 1;
    params.type_k = params.type_v = GGML_TYPE_F32;
    struct llama_context *context = llama_init_from_model(model, params);
    FILE *out = fopen(argv[2], "wb");
    if (!context || !out || llama_decode(context, batch_of(argv + 3, n))) return 1;
    size_t n_vocab = (size_t)llama_vocab_n_tokens(llama_model_get_vocab(model));
    for (int i = 0; i < n; i++)
        if (fwrite(llama_get_logits_ith(context, i), sizeof(float), n_vocab, out) != n_vocab)
            return 1;
    return fclose(out) != 0;
}
