/* verb_plan.c: `mica plan`: the compiled tape of a model. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cli/cli.h"

typedef struct plan_args {
    compute_options compute;
    int64_t rows;
    const char *role;
    bool json, stats;
    int64_t n_tokens;
} plan_args;

static int parse(int argc, char **argv, plan_args *a, const char **words) {
    const arg_spec specs[] = {
        {"rows", 0, ARG_INT, &a->rows, "N", "token rows of the step shown (1)", 1, 65536},
        {"role", 0, ARG_STRING, &a->role, "ROLE", "prompt or decode (decode)", 0, 0},
        {"stats", 0, ARG_FLAG, &a->stats, NULL, "run it: barriers, and the time in them", 0, 0},
        {"tokens", 'n', ARG_INT, &a->n_tokens, "N", "runs that --stats measures (32)", 1, 100000},
        {"json", 0, ARG_FLAG, &a->json, NULL, "as JSON", 0, 0},
    };
    arg_spec more[N_COMPUTE_SPECS];
    mica_compute_specs(more, &a->compute);
    const arg_verb verb = {
        .name = "plan",
        .usage = "mica plan MODEL [--rows N] [options]",
        .about =
            "Prints the tape that a step replays: op, name, shape, dtype, kernel, bytes moved and\n"
            "place in the arena; then what the passes did. --stats runs the tape instead and says "
            "how\n"
            "many barriers a run has and what part of its time threads wait in them.",
        .examples = "  mica plan smollm2\n"
                    "  mica plan smollm2 --stats --threads 2\n"
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

/* ---- --stats ---- */

typedef struct plan_stats {
    int32_t n_steps;
    int n_threads;
    double run_s; /* of one run */
    mica_pool_counts counts;
} plan_stats;

static mica_status ignore_logits(void *user, int64_t row, const float *logits, mica_error *err) {
    (void)user, (void)row, (void)logits, (void)err;
    return MICA_OK;
}

static mica_status run_once(session *s, const int32_t *ids, const plan_args *a, row_role role,
                            mica_error *err) {
    const eval_options options = {.role = role, .n_prompt = a->rows, .on_logits = ignore_logits};
    mica_status st = mica_session_eval(s, ids, a->rows, &options, err);
    if (!st && mica_cli_interrupted()) st = mica_fail(err, MICA_E_CANCELLED, "interrupted");
    return st;
}

/* Decode rows follow one another in one sequence; every prompt begins anew. */
static mica_status run_all(engine *e, session *s, const int32_t *ids, const plan_args *a,
                           row_role role, plan_stats *out, mica_error *err) {
    mica_pool *pool = mica_cpu_pool(mica_engine_backend(e));
    mica_status st = run_once(s, ids, a, role, err); /* warms up */
    double run_s = 0;
    mica_pool_count_anew(pool, true);
    for (int64_t i = 0; !st && i < a->n_tokens; i++) {
        if (role == ROLE_PROMPT) st = mica_session_trim(s, mica_session_length(s), err);
        double begin = mica_now_s();
        if (!st) st = run_once(s, ids, a, role, err);
        run_s += mica_now_s() - begin;
    }
    out->counts = mica_pool_counted(pool);
    out->run_s = run_s / (double)a->n_tokens;
    mica_pool_count_anew(pool, false);
    return st;
}

static void print_stats(const plan_stats *s, const plan_args *a, row_role role) {
    double n = (double)a->n_tokens, per_run = (double)s->counts.n_barriers / n;
    double wait_s = s->counts.wait_s / n / s->n_threads, alone_s = s->counts.alone_s / n;
    double sleeps = (double)s->counts.n_sleeps / n;
    if (a->json) {
        printf("{\"role\":\"%s\",\"rows\":%lld,\"threads\":%d,\"steps\":%d,\"barriers\":%.2f,"
               "\"run_us\":%.2f,\"barrier_us\":%.2f,\"alone_us\":%.2f,\"sleeps\":%.2f}\n",
               role == ROLE_PROMPT ? "prompt" : "decode", (long long)a->rows, s->n_threads,
               s->n_steps, per_run, s->run_s * 1e6, wait_s * 1e6, alone_s * 1e6, sleeps);
        return;
    }
    printf("%lld %s row%s, %d thread%s, mean of %lld runs\n", (long long)a->rows,
           role == ROLE_PROMPT ? "prompt" : "decode", a->rows == 1 ? "" : "s", s->n_threads,
           s->n_threads == 1 ? "" : "s", (long long)a->n_tokens);
    printf("%-34s %10d\n", "steps of the tape", s->n_steps);
    printf("%-34s %10.1f\n", "barriers a run", per_run);
    printf("%-34s %10.1f\n", "time of a run, us", s->run_s * 1e6);
    printf("%-34s %10.1f  (%.1f %%)\n", "waiting in barriers, us a thread", wait_s * 1e6,
           100 * wait_s / s->run_s);
    printf("%-34s %10.1f  (%.1f %%)\n", "small steps that one thread does, us", alone_s * 1e6,
           100 * alone_s / s->run_s);
    printf("%-34s %10.2f\n", "waits that ended in sleep, a run", sleeps);
}

static mica_status show_stats(engine *e, const plan_args *a, mica_error *err) {
    bool prompt = a->role ? !strcmp(a->role, "prompt") : a->rows > 1;
    row_role role = prompt ? ROLE_PROMPT : ROLE_DECODE;
    plan_stats stats = {.n_steps = mica_engine_plan(e, role)->n_steps,
                        .n_threads = mica_cpu_threads(mica_engine_backend(e))};
    int32_t *ids = mica_calloc((size_t)a->rows, sizeof(*ids));
    session *s = NULL;
    mica_status st =
        ids ? mica_session_new(&s, e, err) : mica_fail(err, MICA_E_NOMEM, "out of memory");
    for (int64_t i = 0; !st && i < a->rows; i++)
        ids[i] = (int32_t)((i * 7919 + 11) % mica_engine_vocab_size(e));
    if (!st) st = run_all(e, s, ids, a, role, &stats, err);
    if (!st) print_stats(&stats, a, role);
    mica_session_free(s);
    mica_free(ids);
    return st;
}

int mica_verb_plan(int argc, char **argv) {
    plan_args args = {.rows = 1, .n_tokens = 32};
    engine_options options;
    const char *model_name;
    int rc = parse(argc, argv, &args, &model_name);
    if (!rc) rc = mica_compute_to_engine(&args.compute, &options);
    if (rc) return rc;
    engine *e = NULL;
    char *path = NULL;
    mica_error err;
    mica_cli_catch_interrupt();
    mica_status st = mica_cli_open_engine(&e, &path, model_name, &options, &err);
    if (!st) st = args.stats ? show_stats(e, &args, &err) : print_plan(e, &args, &err);
    mica_engine_close(e);
    mica_free(path);
    return st ? mica_cli_fail(&err) : EXIT_OK;
}
