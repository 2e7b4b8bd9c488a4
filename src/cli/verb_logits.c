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

/* ---- a canvas ---- */

/* Rows of a pass that is followed by another: on them it is conditioned. */
typedef struct pass_rows {
    float *rows;
    size_t n_columns;
} pass_rows;

static mica_status keep_row(void *user, int64_t i, const float *logits, mica_error *err) {
    pass_rows *p = user;
    (void)err;
    memcpy(p->rows + (size_t)i * p->n_columns, logits, p->n_columns * sizeof(float));
    return MICA_OK;
}

/* The first passes over the canvas are kept, the last one goes to the file. */
static mica_status run_passes(session *s, const token_list *canvas, int64_t n_steps, npy_file *npy,
                              mica_error *err) {
    pass_rows pass = {.n_columns = (size_t)npy->n_columns};
    mica_status st = MICA_OK;
    if (n_steps > 1) {
        pass.rows = mica_calloc(canvas->n, pass.n_columns * sizeof(*pass.rows));
        if (!pass.rows) return mica_fail(err, MICA_E_NOMEM, "out of memory for logits");
    }
    for (int64_t i = 1; !st && i <= n_steps; i++) {
        bool is_last = i == n_steps;
        st = mica_session_denoise(s, canvas->ids, (int64_t)canvas->n, i > 1 ? pass.rows : NULL,
                                  is_last ? on_logits : keep_row, is_last ? (void *)npy : &pass,
                                  err);
        if (!st && mica_cli_interrupted()) st = mica_fail(err, MICA_E_CANCELLED, "interrupted");
    }
    mica_free(pass.rows);
    return st;
}

static mica_status write_canvas(engine *e, const token_list *ids, const token_list *canvas,
                                int64_t n_steps, const char *path, mica_error *err) {
    session *s = NULL;
    npy_file npy = {.n_rows = (int64_t)canvas->n, .n_columns = mica_engine_vocab_size(e)};
    const eval_options options = {
        .n_prompt = (int64_t)ids->n, .on_progress = on_progress, .user = &npy};
    mica_status st = mica_session_new(&s, e, err);
    if (st) return st;
    mica_progress_begin(&npy.progress, "logits");
    st = mica_cli_open_npy(&npy.writer, path, npy.n_rows, npy.n_columns, err);
    if (!st) st = mica_session_eval(s, ids->ids, (int64_t)ids->n, &options, err);
    if (!st) st = run_passes(s, canvas, n_steps, &npy, err);
    mica_progress_end(&npy.progress);
    st = mica_writer_close(&npy.writer, st, err);
    mica_session_free(s);
    return st;
}

/* ---- the verb ---- */

typedef struct logits_args {
    compute_options compute;
    const char *ids, *canvas, *output;
    int64_t chunk, steps;
    bool decode;
    token_list id_list, canvas_list;
} logits_args;

static int parse(int argc, char **argv, logits_args *a, const char **words) {
    const arg_spec specs[] = {
        {"ids", 0, ARG_STRING, &a->ids, "1,2,3", "the token ids", 0, 0},
        {"output", 'o', ARG_STRING, &a->output, "FILE",
         "the .npy file to write; - is standard output", 0, 0},
        {"chunk", 0, ARG_INT, &a->chunk, "N",
         "rows a step (default 512); exact results do not change", 1, 65536},
        {"decode", 0, ARG_FLAG, &a->decode, NULL, "run the rows in the decode role", 0, 0},
        {"canvas", 0, ARG_STRING, &a->canvas, "1,2,3",
         "of a diffusion model: the canvas that stands behind the ids", 0, 0},
        {"steps", 0, ARG_INT, &a->steps, "N",
         "passes over the canvas, each conditioned on the one before (1)", 1, 10000},
    };
    arg_spec more[N_COMPUTE_SPECS];
    mica_compute_specs(more, &a->compute);
    const arg_verb verb = {
        .name = "logits",
        .usage = "mica logits MODEL --ids 1,2,3 -o out.npy [options]",
        .about =
            "Writes float32 [n_ids, vocab]: row i is the prediction after id i. Of a diffusion "
            "model\n"
            "[canvas, vocab]: what the last pass predicts for each position of the canvas.",
        .examples = "  mica logits smollm2 --ids 1,2,3 -o out.npy --exact --dtype f32\n"
                    "  mica logits model/ --ids 5,6,7 --chunk 1 -o steps.npy --exact\n"
                    "  mica logits diffusion/ --ids 5,6,7 --canvas 1,2,3,4 --steps 2 -o out.npy\n",
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
    if (a->canvas ? a->decode : a->steps > 0) {
        fprintf(stderr, a->canvas ? "mica logits: --decode does not go with --canvas\n"
                                  : "mica logits: --steps goes with --canvas only\n");
        return EXIT_USAGE;
    }
    return EXIT_OK;
}

static int parse_lists(logits_args *a) {
    int rc = mica_cli_parse_ids("logits", "ids", a->ids, &a->id_list);
    if (!rc && a->canvas) rc = mica_cli_parse_ids("logits", "canvas", a->canvas, &a->canvas_list);
    if (rc) return rc;
    const char *empty = !a->id_list.n ? "ids" : a->canvas && !a->canvas_list.n ? "canvas" : NULL;
    if (!empty) return EXIT_OK;
    fprintf(stderr, "mica logits: --%s is empty\n", empty);
    return EXIT_USAGE;
}

static mica_status run(engine *e, const logits_args *a, mica_error *err) {
    bool is_diffusion = mica_engine_is_diffusion(e);
    if (is_diffusion && !a->canvas)
        return mica_fail(err, MICA_E_INVALID,
                         "a diffusion model predicts the positions of a canvas: give it one with "
                         "--canvas 1,2,3");
    if (!is_diffusion && a->canvas)
        return mica_fail(err, MICA_E_INVALID, "--canvas is for diffusion models; this is %s",
                         mica_model_config(mica_engine_model(e))->model_type);
    if (a->canvas)
        return write_canvas(e, &a->id_list, &a->canvas_list, a->steps ? a->steps : 1, a->output,
                            err);
    return write_logits(e, &a->id_list, a->decode, a->output, err);
}

int mica_verb_logits(int argc, char **argv) {
    logits_args args = {0};
    engine_options options;
    const char *model_name;
    int rc = parse(argc, argv, &args, &model_name);
    if (!rc) rc = mica_compute_to_engine(&args.compute, &options);
    if (!rc) rc = parse_lists(&args);
    if (rc) goto out;
    options.chunk = (int32_t)args.chunk;
    options.max_logits = 64;
    options.canvas = (int32_t)args.canvas_list.n;
    engine *e = NULL;
    char *path = NULL;
    mica_error err;
    mica_cli_catch_interrupt();
    mica_status st = mica_cli_open_engine(&e, &path, model_name, &options, &err);
    if (!st) st = run(e, &args, &err);
    if (mica_cli_interrupted())
        rc = EXIT_INTERRUPTED;
    else if (st)
        rc = mica_cli_fail(&err);
    mica_engine_close(e);
    mica_free(path);
out:
    mica_free(args.id_list.ids);
    mica_free(args.canvas_list.ids);
    return rc;
}
