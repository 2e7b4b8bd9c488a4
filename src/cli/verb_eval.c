/* verb_eval.c: `mica eval perplexity`: how well a model predicts a text. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "eval/perplexity.h"

enum { MAX_TEXT_BYTES = 1 << 28 };

typedef struct eval_args {
    compute_options compute;
    perplexity_options perplexity;
    const char *model, *text, *role;
    int64_t most;
    bool json;
} eval_args;

static int parse(int argc, char **argv, eval_args *a) {
    const char *words[3];
    int n_words = 0;
    const arg_spec specs[] = {
        {"window", 0, ARG_INT, &a->perplexity.window, "N", "tokens of a sequence (512)", 2, 1e7},
        {"tokens", 'n', ARG_INT, &a->most, "N", "at most so many tokens of the text", 2, 1e9},
        {"role", 0, ARG_STRING, &a->role, "ROLE", "prompt or decode (prompt)", 0, 0},
        {"json", 0, ARG_FLAG, &a->json, NULL, "one JSON object", 0, 0},
    };
    arg_spec more[N_COMPUTE_SPECS];
    mica_compute_specs(more, &a->compute);
    const arg_verb verb = {
        .name = "eval",
        .usage = "mica eval perplexity MODEL FILE [options]",
        .about = "The perplexity of a text file (- is standard input): it is cut into windows, and "
                 "every\n"
                 "token of a window but the first is predicted from those before it.",
        .examples = "  mica eval perplexity smollm2 book.txt\n"
                    "  mica eval perplexity smollm2 book.txt --exact --dtype f32 --json\n",
        .specs = specs,
        .n_specs = sizeof(specs) / sizeof(specs[0]),
        .more = more,
        .n_more = N_COMPUTE_SPECS,
        .min_words = 3,
        .max_words = 3,
    };
    int rc = mica_args_parse(&verb, argc, argv, words, &n_words);
    if (rc) return rc;
    a->model = words[1];
    a->text = words[2];
    if (strcmp(words[0], "perplexity")) {
        fprintf(stderr, "mica eval: '%s': must be perplexity\n", words[0]);
        return EXIT_USAGE;
    }
    if (a->role && strcmp(a->role, "prompt") && strcmp(a->role, "decode")) {
        fprintf(stderr, "mica eval: --role '%s': must be prompt or decode\n", a->role);
        return EXIT_USAGE;
    }
    a->perplexity.role = a->role && !strcmp(a->role, "decode") ? ROLE_DECODE : ROLE_PROMPT;
    return EXIT_OK;
}

static mica_status read_ids(const eval_args *a, const char *path, token_list *out,
                            mica_error *err) {
    char *text = NULL;
    size_t n = 0;
    tokenizer *t = NULL;
    const encode_options options = {.add_special = true};
    mica_status st = strcmp(a->text, "-") ? mica_file_read(&text, &n, a->text, MAX_TEXT_BYTES, err)
                                          : mica_cli_read_stdin(&text, &n, err);
    if (!st) st = mica_tokenizer_open(&t, path, err);
    if (!st) st = mica_tokenizer_encode(t, text, n, options, out, err);
    if (!st && a->most && out->n > (size_t)a->most) out->n = (size_t)a->most;
    mica_tokenizer_free(t);
    mica_free(text);
    return st;
}

static bool on_progress(void *user, int64_t done, int64_t total) {
    mica_progress_step(user, (uint64_t)done, (uint64_t)total);
    return !mica_cli_interrupted();
}

static void print_result(const perplexity_result *r, bool json) {
    if (!json) {
        printf("perplexity %.4f  (%.5f nats a token, standard error %.5f, %lld tokens)\n",
               r->perplexity, r->mean_nll, r->error, (long long)r->n_tokens);
        return;
    }
    json_writer w;
    mica_json_writer_init(&w, false);
    mica_json_begin_object(&w);
    mica_json_member_double(&w, "perplexity", r->perplexity);
    mica_json_member_double(&w, "mean_nll", r->mean_nll);
    mica_json_member_double(&w, "error", r->error);
    mica_json_member_i64(&w, "tokens", r->n_tokens);
    mica_json_end_object(&w);
    if (!w.failed) printf("%s\n", w.data);
    mica_json_writer_deinit(&w);
}

static mica_status evaluate(eval_args *a, engine *e, const char *path, mica_error *err) {
    token_list ids = {0};
    cli_progress progress;
    perplexity_result result;
    mica_status st = read_ids(a, path, &ids, err);
    mica_progress_begin(&progress, "evaluating");
    a->perplexity.on_progress = on_progress;
    a->perplexity.user = &progress;
    if (!st) st = mica_perplexity(e, ids.ids, (int64_t)ids.n, &a->perplexity, &result, err);
    mica_progress_end(&progress);
    if (!st) print_result(&result, a->json);
    mica_free(ids.ids);
    return st;
}

int mica_verb_eval(int argc, char **argv) {
    eval_args args = {0};
    engine_options options;
    int rc = parse(argc, argv, &args);
    if (!rc) rc = mica_compute_to_engine(&args.compute, &options);
    if (rc) return rc;
    options.max_logits = 64;
    engine *e = NULL;
    char *path = NULL;
    mica_error err;
    mica_cli_catch_interrupt();
    mica_status st = mica_cli_open_engine(&e, &path, args.model, &options, &err);
    if (!st) st = evaluate(&args, e, path, &err);
    if (mica_cli_interrupted())
        rc = EXIT_INTERRUPTED;
    else if (st)
        rc = mica_cli_fail(&err);
    mica_engine_close(e);
    mica_free(path);
    return rc;
}
