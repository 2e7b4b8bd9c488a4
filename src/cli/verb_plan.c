/* verb_plan.c: `mica plan`: the compiled tape of a model. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

typedef struct plan_args {
    compute_options compute;
    int64_t rows;
    const char *role;
    bool json;
} plan_args;

static int parse(int argc, char **argv, plan_args *a, const char **words) {
    const arg_spec specs[] = {
        {"rows", 0, ARG_INT, &a->rows, "N", "token rows of the step shown (1)", 1, 65536},
        {"role", 0, ARG_STRING, &a->role, "ROLE", "prompt or decode (decode)", 0, 0},
        {"json", 0, ARG_FLAG, &a->json, NULL, "the tape as JSON", 0, 0},
    };
    arg_spec more[N_COMPUTE_SPECS];
    mica_compute_specs(more, &a->compute);
    const arg_verb verb = {
        .name = "plan",
        .usage = "mica plan MODEL [--rows N] [options]",
        .about =
            "Prints the tape that a step replays: op, name, shape, dtype, kernel, bytes moved and\n"
            "place in the arena; then what the passes did.",
        .examples = "  mica plan smollm2\n"
                    "  mica plan smollm2 --rows 512 --role prompt --lever swiglu=off\n",
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
    if (a->role && strcmp(a->role, "prompt") && strcmp(a->role, "decode")) {
        fprintf(stderr, "mica plan: --role '%s': must be prompt or decode\n", a->role);
        return EXIT_USAGE;
    }
    return EXIT_OK;
}

static mica_status print_plan(const engine *e, const plan_args *a, mica_error *err) {
    bool prompt = a->role ? !strcmp(a->role, "prompt") : a->rows > 1;
    const plan *p = mica_engine_plan(e, prompt ? ROLE_PROMPT : ROLE_DECODE);
    if (a->rows > p->bound[GRAPH_ROWS])
        return mica_fail(err, MICA_E_LIMIT, "--rows %lld: this plan takes at most %lld rows a step",
                         (long long)a->rows, (long long)p->bound[GRAPH_ROWS]);
    const int64_t sym[GRAPH_N_SYMS] = {
        [GRAPH_FIXED] = 1, [GRAPH_ROWS] = a->rows, [GRAPH_LOGITS] = 1, [GRAPH_SEQS] = 1};
    char *text = NULL;
    mica_status st = mica_plan_print(p, sym, a->json, &text, err);
    if (!st) fputs(text, stdout);
    mica_free(text);
    return st;
}

int mica_verb_plan(int argc, char **argv) {
    plan_args args = {.rows = 1};
    engine_options options;
    const char *model_name;
    int rc = parse(argc, argv, &args, &model_name);
    if (!rc) rc = mica_compute_to_engine(&args.compute, &options);
    if (rc) return rc;
    engine *e = NULL;
    char *path = NULL;
    mica_error err;
    mica_status st = mica_cli_open_engine(&e, &path, model_name, &options, &err);
    if (!st) st = print_plan(e, &args, &err);
    mica_engine_close(e);
    mica_free(path);
    return st ? mica_cli_fail(&err) : EXIT_OK;
}
