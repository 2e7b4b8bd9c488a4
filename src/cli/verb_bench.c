/* verb_bench.c: `mica bench`: prefill and decode speed over several runs, as a share of what the
 * machine can do, which is measured in the same run. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/rng.h"
#include "cli/bench_limits.h"
#include "cli/cli.h"

enum { MAX_RUNS = 64 };

typedef struct bench_args {
    compute_options compute;
    int64_t n_prompt, n_generate, runs;
    bool json, limits;
} bench_args;

typedef struct bench_result {
    double prefill[MAX_RUNS], decode[MAX_RUNS];
    int n_runs;
    generate_stats last;
    double prompt_ops; /* of one run */
    cpu_limits limits;
} bench_result;

static int parse(int argc, char **argv, bench_args *a, const char **words) {
    const arg_spec specs[] = {
        {"prompt-tokens", 'p', ARG_INT, &a->n_prompt, "N", "prompt tokens (512)", 1, 1e6},
        {"tokens", 'n', ARG_INT, &a->n_generate, "N", "tokens to generate (128)", 2, 1e6},
        {"runs", 0, ARG_INT, &a->runs, "N", "measured runs after one warm-up (5)", 1, MAX_RUNS},
        {"limits", 0, ARG_FLAG, &a->limits, NULL, "measure the machine instead of a model", 0, 0},
        {"json", 0, ARG_FLAG, &a->json, NULL, "one JSON object", 0, 0},
    };
    arg_spec more[N_COMPUTE_SPECS];
    mica_compute_specs(more, &a->compute);
    const arg_verb verb = {
        .name = "bench",
        .usage = "mica bench MODEL [-p 512] [-n 128] [options]\n       mica bench --limits",
        .about =
            "Measures tokens/s of prefill and decode (minimum, median, maximum over the runs), "
            "and\n"
            "what the machine can do in the same run: decoding as a share of the bandwidth of a\n"
            "plain read, prefill as a share of the fastest multiply-add. --limits measures that "
            "alone,\n"
            "for 1 to all threads and every unit that there is.",
        .examples = "  mica bench smollm2 -p 512 -n 128\n"
                    "  mica bench --limits --json\n"
                    "  mica bench smollm2 -p 128 -n 32 --runs 3 --exact --json\n",
        .specs = specs,
        .n_specs = sizeof(specs) / sizeof(specs[0]),
        .more = more,
        .n_more = N_COMPUTE_SPECS,
        .min_words = 0,
        .max_words = 1,
    };
    int n_words = 0;
    int rc = mica_args_parse(&verb, argc, argv, words, &n_words);
    if (rc || n_words == !a->limits) return rc;
    fprintf(stderr, "mica bench: usage: either MODEL or --limits (mica bench --help says more)\n");
    return EXIT_USAGE;
}

/* Reproducible ids all over the vocabulary. */
static void fill_prompt(int32_t *ids, int64_t n, int64_t vocab_size) {
    mica_rng_key key = mica_rng_key_from_seed(1);
    for (int64_t i = 0; i < n; i++)
        ids[i] = (int32_t)(mica_rng_word(key, (size_t)n, (size_t)i) % (uint64_t)vocab_size);
}

static bool on_token(void *user, int32_t id, float logprob) {
    (void)user, (void)id, (void)logprob;
    return !mica_cli_interrupted();
}

static bool on_progress(void *user, int64_t done, int64_t total) {
    (void)user, (void)done, (void)total;
    return !mica_cli_interrupted();
}

static mica_status one_run(engine *e, const bench_args *a, const int32_t *prompt,
                           generate_stats *stats, mica_error *err) {
    session *s = NULL;
    generate_result result = {0};
    generate_options options;
    mica_generate_defaults(&options);
    options.max_tokens = a->n_generate;
    options.ignore_eos = true;
    options.on_token = on_token;
    options.on_progress = on_progress;
    mica_status st = mica_session_new(&s, e, err);
    if (!st) st = mica_generate(s, prompt, a->n_prompt, &options, &result, err);
    if (!st && result.reason == FINISH_CANCELLED)
        st = mica_fail(err, MICA_E_CANCELLED, "interrupted");
    if (!st) *stats = result.stats;
    mica_generate_result_deinit(&result);
    mica_session_free(s);
    return st;
}

/* A run that ends with the context would be another measurement than the one asked for. The last
 * token is never run. */
static mica_status check_room(const engine *e, const bench_args *a, mica_error *err) {
    int64_t context = mica_engine_max_context(e);
    if (a->n_prompt + a->n_generate - 1 <= context) return MICA_OK;
    return mica_fail(err, MICA_E_LIMIT,
                     "%lld prompt tokens and %lld more do not fit the context of %lld; use a "
                     "smaller -p or -n",
                     (long long)a->n_prompt, (long long)a->n_generate, (long long)context);
}

static mica_status measure(engine *e, const bench_args *a, bench_result *r, mica_error *err) {
    mica_status st = check_room(e, a, err);
    if (st) return st;
    int32_t *prompt = mica_calloc((size_t)a->n_prompt, sizeof(*prompt));
    if (!prompt) return mica_fail(err, MICA_E_NOMEM, "out of memory");
    fill_prompt(prompt, a->n_prompt, mica_engine_vocab_size(e));
    cli_progress progress;
    mica_progress_begin(&progress, "measuring");
    for (int64_t i = -1; !st && i < a->runs; i++) { /* run -1 warms up */
        st = one_run(e, a, prompt, &r->last, err);
        if (st || i < 0) continue;
        r->prefill[r->n_runs] = r->last.prefill_tps;
        r->decode[r->n_runs++] = r->last.decode_tps;
        mica_progress_step(&progress, (uint64_t)i + 1, (uint64_t)a->runs);
    }
    r->prompt_ops = mica_engine_prompt_ops(e, a->n_prompt);
    if (!st)
        st = mica_cpu_measure_limits(mica_engine_backend(e), BENCH_READ_BYTES, true, &r->limits,
                                     err);
    mica_progress_end(&progress);
    mica_free(prompt);
    return st;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct spread {
    double min, median, max;
} spread;

static spread spread_of(double *values, int n) {
    qsort(values, (size_t)n, sizeof(*values), by_value);
    return (spread){values[0], n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2,
                    values[n - 1]};
}

static void put_spread(json_writer *w, const char *key, spread s) {
    mica_json_key(w, key);
    mica_json_begin_object(w);
    mica_json_member_double(w, "min", s.min);
    mica_json_member_double(w, "median", s.median);
    mica_json_member_double(w, "max", s.max);
    mica_json_end_object(w);
}

/* What the medians come to beside the limits. */
typedef struct bench_shares {
    double gbps, read_gbps, prefill_gops, peak_gops;
    const char *peak; /* the fastest unit */
} bench_shares;

static bench_shares shares_of(const bench_args *a, const bench_result *r, spread prefill,
                              spread decode) {
    bench_shares s = {.gbps = (double)r->last.bytes_per_token * decode.median / 1e9,
                      .read_gbps = r->limits.read_bps[r->limits.n_threads] / 1e9,
                      .prefill_gops = r->prompt_ops * prefill.median / (double)a->n_prompt / 1e9,
                      .peak = "none"};
    for (int i = 0; i < r->limits.n_peaks; i++) {
        const cpu_peak_rate *peak = &r->limits.peaks[i];
        if (peak->all_ops / 1e9 <= s.peak_gops) continue;
        s.peak_gops = peak->all_ops / 1e9;
        s.peak = peak->peak->name;
    }
    return s;
}

static int print_json(const bench_args *a, const bench_result *r, spread prefill, spread decode) {
    bench_shares s = shares_of(a, r, prefill, decode);
    json_writer w;
    mica_json_writer_init(&w, false);
    mica_json_begin_object(&w);
    put_spread(&w, "prefill", prefill);
    put_spread(&w, "decode", decode);
    mica_json_member_i64(&w, "prompt_tokens", a->n_prompt);
    mica_json_member_i64(&w, "generated_tokens", a->n_generate);
    mica_json_member_i64(&w, "runs", r->n_runs);
    mica_json_member_i64(&w, "threads", r->limits.n_threads);
    mica_json_member_double(&w, "load_s", r->last.load_s);
    mica_json_member_i64(&w, "bytes_per_token", (int64_t)r->last.bytes_per_token);
    mica_json_member_double(&w, "achieved_gbps", s.gbps);
    mica_json_member_double(&w, "read_gbps", s.read_gbps);
    mica_json_member_double(&w, "prompt_gop", r->prompt_ops / 1e9);
    mica_json_member_double(&w, "prefill_gops", s.prefill_gops);
    mica_json_key(&w, "limits");
    mica_bench_put_limits(&w, &r->limits);
    mica_json_member_i64(&w, "peak_rss_bytes", (int64_t)r->last.peak_rss_bytes);
    mica_json_end_object(&w);
    int rc = EXIT_OK;
    if (w.failed) {
        mica_error err;
        mica_fail(&err, MICA_E_NOMEM, "out of memory for the JSON output");
        rc = mica_cli_fail(&err);
    } else {
        printf("%s\n", w.data);
    }
    mica_json_writer_deinit(&w);
    return rc;
}

static int print_table(const bench_args *a, const bench_result *r, spread prefill, spread decode) {
    bench_shares s = shares_of(a, r, prefill, decode);
    printf("%-28s %10s %10s %10s\n", "tokens/s", "min", "median", "max");
    printf("prefill of %-17lld %10.1f %10.1f %10.1f\n", (long long)a->n_prompt, prefill.min,
           prefill.median, prefill.max);
    printf("decode of %-18lld %10.1f %10.1f %10.1f\n", (long long)a->n_generate, decode.min,
           decode.median, decode.max);
    printf("%-28s %10d\n", "threads", r->limits.n_threads);
    printf("%-28s %10.1f\n", "bytes per token, MB", (double)r->last.bytes_per_token / 1e6);
    printf("%-28s %10.2f  (%.0f %% of the plain read's %.2f)\n", "decode, GB/s", s.gbps,
           100 * s.gbps / s.read_gbps, s.read_gbps);
    printf("%-28s %10.1f", "prefill, Gop/s", s.prefill_gops);
    if (s.peak_gops > 0)
        printf("  (%.0f %% of %s's %.1f)", 100 * s.prefill_gops / s.peak_gops, s.peak, s.peak_gops);
    printf("\n");
    for (int i = 0; i < r->limits.n_peaks; i++)
        printf("  %-26s %10.1f\n", r->limits.peaks[i].peak->name, r->limits.peaks[i].all_ops / 1e9);
    printf("%-28s %10.3f\n", "load, s", r->last.load_s);
    printf("%-28s %10.1f\n", "peak memory, MB", (double)r->last.peak_rss_bytes / 1e6);
    return EXIT_OK;
}

int mica_verb_bench(int argc, char **argv) {
    bench_args args = {.n_prompt = 512, .n_generate = 128, .runs = 5};
    engine_options options;
    const char *model_name;
    int rc = parse(argc, argv, &args, &model_name);
    if (!rc) rc = mica_compute_to_engine(&args.compute, &options);
    if (rc) return rc;
    if (args.limits) return mica_bench_limits((int)args.compute.threads, args.json);
    engine *e = NULL;
    char *path = NULL;
    mica_error err;
    bench_result r = {0};
    mica_cli_catch_interrupt();
    mica_status st = mica_cli_open_engine(&e, &path, model_name, &options, &err);
    if (!st) st = measure(e, &args, &r, &err);
    if (mica_cli_interrupted()) {
        rc = EXIT_INTERRUPTED;
    } else if (st) {
        rc = mica_cli_fail(&err);
    } else {
        spread prefill = spread_of(r.prefill, r.n_runs), decode = spread_of(r.decode, r.n_runs);
        rc = (args.json ? print_json : print_table)(&args, &r, prefill, decode);
    }
    mica_engine_close(e);
    mica_free(path);
    return rc;
}
