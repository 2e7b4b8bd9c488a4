/* verb_logits.c: `mica logits`: next-token logits of given ids as a NumPy file, row by row. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

typedef struct npy_file {
    mica_writer writer;
    int64_t n_rows, n_columns, next;
    cli_progress progress;
} npy_file;

static mica_status on_logits(void *user, int64_t i, const float *logits, mica_error *err) {
    npy_file *npy = user;
    if (i != npy->next++)
        return mica_fail(err, MICA_E_INTERNAL, "logits row %lld came out of order", (long long)i);
    return mica_writer_put(&npy->writer, logits, sizeof(float) * (size_t)npy->n_columns, err);
}

static bool on_progress(void *user, int64_t done, int64_t total) {
    npy_file *npy = user;
    mica_progress_step(&npy->progress, (uint64_t)done, (uint64_t)total);
    return !mica_cli_interrupted();
}

static mica_status write_logits(engine *e, const token_list *ids, bool decode, const char *path,
                                mica_error *err) {
    session *s = NULL;
    npy_file npy = {.n_rows = (int64_t)ids->n, .n_columns = mica_engine_vocab_size(e)};
    mica_status st = mica_session_new(&s, e, err);
    if (st) return st;
    const eval_options options = {.role = decode ? ROLE_DECODE : ROLE_PROMPT,
                                  .n_prompt = (int64_t)ids->n,
                                  .all_logits = true,
                                  .on_logits = on_logits,
                                  .on_progress = on_progress,
                                  .user = &npy};
    mica_progress_begin(&npy.progress, "logits");
    st = mica_cli_open_npy(&npy.writer, path, npy.n_rows, npy.n_columns, err);
    if (!st) st = mica_session_eval(s, ids->ids, (int64_t)ids->n, &options, err);
    mica_progress_end(&npy.progress);
    st = mica_writer_close(&npy.writer, st, err);
    mica_session_free(s);
    return st;
}

typedef struct logits_args {
    compute_options compute;
    const char *ids, *output;
    int64_t chunk;
    bool decode;
} logits_args;

static int parse(int argc, char **argv, logits_args *a, const char **words) {
    const arg_spec specs[] = {
        {"ids", 0, ARG_STRING, &a->ids, "1,2,3", "the token ids", 0, 0},
        {"output", 'o', ARG_STRING, &a->output, "FILE",
         "the .npy file to write; - is standard output", 0, 0},
        {"chunk", 0, ARG_INT, &a->chunk, "N",
         "rows a step (default 512); exact results do not change", 1, 65536},
        {"decode", 0, ARG_FLAG, &a->decode, NULL, "run the rows in the decode role", 0, 0},
    };
    arg_spec more[N_COMPUTE_SPECS];
    mica_compute_specs(more, &a->compute);
    const arg_verb verb = {
        .name = "logits",
        .usage = "mica logits MODEL --ids 1,2,3 -o out.npy [options]",
        .about = "Writes float32 [n_ids, vocab]: row i is the prediction after id i.",
        .examples = "  mica logits smollm2 --ids 1,2,3 -o out.npy --exact --dtype f32\n"
                    "  mica logits model/ --ids 5,6,7 --chunk 1 -o steps.npy --exact\n",
        .specs = specs,
        .n_specs = sizeof(specs) / sizeof(specs[0]),
        .more = more,
        .n_more = N_COMPUTE_SPECS,
        .min_words = 1,
        .max_words = 1,
    };
    int n_words;
    int rc = mica_args_parse(&verb, argc, argv, words, &n_words);
    if (rc) return rc;
    if (!a->ids || !a->output || !*a->output) {
        fprintf(stderr, "mica logits: --ids and -o are both needed\n");
        return EXIT_USAGE;
    }
    return EXIT_OK;
}

int mica_verb_logits(int argc, char **argv) {
    logits_args args = {0};
    engine_options options;
    const char *model_name;
    int rc = parse(argc, argv, &args, &model_name);
    if (!rc) rc = mica_compute_to_engine(&args.compute, &options);
    if (rc) return rc;
    token_list ids = {0};
    rc = mica_cli_parse_ids("logits", args.ids, &ids);
    if (!rc && !ids.n) {
        fprintf(stderr, "mica logits: --ids is empty\n");
        rc = EXIT_USAGE;
    }
    if (rc) {
        mica_free(ids.ids);
        return rc;
    }
    options.chunk = (int32_t)args.chunk;
    options.max_logits = 64;
    engine *e = NULL;
    char *path = NULL;
    mica_error err;
    mica_cli_catch_interrupt();
    mica_status st = mica_cli_open_engine(&e, &path, model_name, &options, &err);
    if (!st) st = write_logits(e, &ids, args.decode, args.output, &err);
    if (mica_cli_interrupted())
        rc = EXIT_INTERRUPTED;
    else if (st)
        rc = mica_cli_fail(&err);
    mica_engine_close(e);
    mica_free(path);
    mica_free(ids.ids);
    return rc;
}
