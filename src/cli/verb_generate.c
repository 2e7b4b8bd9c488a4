/* verb_generate.c: `mica generate`: a prompt continued, streamed to standard output. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/chat_prompt.h"
#include "cli/cli.h"
#include "cli/constrain.h"
#include "cli/denoise_args.h"

typedef struct generate_args {
    compute_options compute;
    generate_options generate;
    constraint_args constraint;
    denoise_args denoise;
    const char *prompt, *ids, *system_text;
    int64_t top_k, penalty_window;
    bool raw, json, verbose;
} generate_args;

/* What one run holds; released by generate_deinit. */
typedef struct generate_run {
    const generate_args *args;
    char *path;
    engine *engine;
    session *session;
    tokenizer *tokenizer; /* NULL: the model has none and the prompt came as ids */
    detokenizer stream;
    token_list prompt;
    char *text; /* of the prompt, when read from standard input */
    constraint constraint;
    generate_result result;
    cli_progress progress;
    diffusion_options diffusion;
    mica_error stream_error;
    mica_status stream_status;
    bool ids_started;
} generate_run;

static int parse(int argc, char **argv, generate_args *a, const char **words) {
    sampler_options *s = &a->generate.sampler;
    a->top_k = s->top_k;
    a->penalty_window = s->penalty_window;
    const arg_spec specs[] = {
        {"prompt", 'p', ARG_STRING, &a->prompt, "TEXT", "the prompt; - reads standard input", 0, 0},
        {"ids", 0, ARG_STRING, &a->ids, "1,2,3", "the prompt as token ids, taken as they are", 0,
         0},
        {"raw", 0, ARG_FLAG, &a->raw, NULL, "the prompt as it is, without the chat template", 0, 0},
        {"system-prompt", 0, ARG_STRING, &a->system_text, "TEXT", "a system message before it", 0,
         0},
        {"max-tokens", 'm', ARG_INT, &a->generate.max_tokens, "N", "tokens to generate (256)", 0,
         1e7},
        {"temperature", 't', ARG_FLOAT, &s->temperature, "X",
         "0 is greedy (0; 1 for diffusion models)", 0, 5},
        {"top-k", 0, ARG_INT, &a->top_k, "N", "keep the N likeliest (0: off)", 0, 1e6},
        {"top-p", 0, ARG_FLOAT, &s->top_p, "X", "keep the likeliest of mass X (0: off)", 0, 1},
        {"min-p", 0, ARG_FLOAT, &s->min_p, "X", "drop what is X times less likely than the best", 0,
         1},
        {"repetition-penalty", 0, ARG_FLOAT, &s->repetition_penalty, "X", "1 or 0: off", 0, 100},
        {"presence-penalty", 0, ARG_FLOAT, &s->presence_penalty, "X", "0: off", -100, 100},
        {"frequency-penalty", 0, ARG_FLOAT, &s->frequency_penalty, "X", "0: off", -100, 100},
        {"repetition-context", 0, ARG_INT, &a->penalty_window, "N",
         "tokens that penalties look back on (20)", 0, 1e9},
        {"seed", 0, ARG_U64, &s->seed, "S", "of the random numbers (0)", 0, 0},
        {"ignore-eos", 0, ARG_FLAG, &a->generate.ignore_eos, NULL, "go on past end tokens", 0, 0},
        {"json", 0, ARG_FLAG, &a->json, NULL, "one JSON object at the end instead of the stream", 0,
         0},
        {"verbose", 0, ARG_FLAG, &a->verbose, NULL,
         "statistics after the text, as mlx_lm prints them", 0, 0},
    };
    arg_spec more[N_CONSTRAINT_SPECS + N_DENOISE_SPECS + N_COMPUTE_SPECS];
    mica_constraint_specs(more, &a->constraint);
    mica_denoise_specs(more + N_CONSTRAINT_SPECS, &a->denoise);
    mica_compute_specs(more + N_CONSTRAINT_SPECS + N_DENOISE_SPECS, &a->compute);
    const arg_verb verb = {
        .name = "generate",
        .usage = "mica generate MODEL -p TEXT | --ids 1,2,3 [options]",
        .about = "Answers a prompt in the model's chat template. --raw continues the prompt as it "
                 "is; so does\n"
                 "a model without a template, unless a system prompt makes it a conversation "
                 "(ChatML then).\n"
                 "Text streams to standard output, progress goes to standard error. MODEL is a "
                 "folder, a .gguf file, or the name of a fetched model.",
        .examples = "  mica generate smollm2 -p 'Name three colours.' --system-prompt 'Be brief.'\n"
                    "  mica generate smollm2 --raw -p 'The capital of France is' --max-tokens 32\n"
                    "  echo 'Once upon a time' | mica generate gemma3-270m -p - --temperature 0.8 "
                    "--seed 7\n"
                    "  mica generate model.gguf --ids 1,2,3 --json --exact --dtype f32\n",
        .specs = specs,
        .n_specs = sizeof(specs) / sizeof(specs[0]),
        .more = more,
        .n_more = N_CONSTRAINT_SPECS + N_DENOISE_SPECS + N_COMPUTE_SPECS,
        .min_words = 1,
        .max_words = 1,
    };
    int n_words;
    int rc = mica_args_parse(&verb, argc, argv, words, &n_words);
    if (rc) return rc;
    s->top_k = (int32_t)a->top_k;
    s->penalty_window = (int32_t)a->penalty_window;
    if (a->json && a->verbose) {
        fprintf(stderr, "mica generate: --json has the statistics that --verbose prints\n");
        return EXIT_USAGE;
    }
    if (!a->prompt == !a->ids) {
        fprintf(stderr, "mica generate: give the prompt with either -p TEXT or --ids 1,2,3\n");
        return EXIT_USAGE;
    }
    if (a->system_text && (a->raw || a->ids)) {
        fprintf(stderr, "mica generate: --system-prompt goes with a chat template, not with %s\n",
                a->ids ? "--ids" : "--raw");
        return EXIT_USAGE;
    }
    rc = mica_denoise_check("generate", &a->denoise);
    return rc ? rc : mica_constraint_check("generate", &a->constraint);
}

/* ---- callbacks ---- */

static bool on_progress(void *user, int64_t done, int64_t total) {
    generate_run *run = user;
    mica_progress_step(&run->progress, (uint64_t)done, (uint64_t)total);
    return !mica_cli_interrupted();
}

static bool on_denoised(void *user, int64_t step, int64_t max_steps) {
    generate_run *run = user;
    run->progress.what = "denoising a block";
    mica_progress_step(&run->progress, (uint64_t)step, (uint64_t)max_steps);
    return !mica_cli_interrupted();
}

/* What the stream released last; fwrite takes no NULL. */
static void print_released(const detokenizer *d) {
    if (d->n_text) fwrite(d->text, 1, d->n_text, stdout);
}

static bool on_token(void *user, int32_t id, float logprob) {
    generate_run *run = user;
    (void)logprob;
    mica_progress_end(&run->progress);
    if (mica_cli_interrupted()) return false;
    if (run->args->json) return true;
    if (!run->tokenizer) {
        printf("%s%d", run->ids_started ? "," : "", id);
        run->ids_started = true;
    } else {
        run->stream_status = mica_detokenizer_push(&run->stream, id, &run->stream_error);
        if (run->stream_status) return false;
        print_released(&run->stream);
    }
    return fflush(stdout) == 0;
}

/* ---- steps ---- */

static mica_status make_prompt(generate_run *run, mica_error *err) {
    const generate_args *a = run->args;
    if (!a->prompt) return MICA_OK; /* ids were parsed already */
    const char *text = a->prompt;
    size_t n = strlen(text);
    if (strcmp(text, "-") == 0) {
        mica_status st = mica_cli_read_stdin(&run->text, &n, err);
        if (st) return st;
        text = run->text;
    }
    if (!a->raw)
        return mica_cli_chat_prompt(run->path, run->tokenizer, a->system_text, text, n,
                                    &run->prompt, err);
    const encode_options options = {.add_special = true, .parse_special = true};
    return mica_tokenizer_encode(run->tokenizer, text, n, options, &run->prompt, err);
}

/* The end tokens of a constrained answer are the model's and the tokenizer's. */
static mica_status start_constraint(generate_run *run, generate_options *options, mica_error *err) {
    if (!mica_constraint_is_set(&run->args->constraint)) return MICA_OK;
    if (!run->tokenizer)
        return mica_fail(err, MICA_E_UNSUPPORTED,
                         "constrained output needs the model's tokenizer, which is not there");
    const model_config *config = mica_model_config(mica_engine_model(run->engine));
    int32_t ends[64];
    size_t n = 0;
    for (int i = 0; i < config->n_eos; i++)
        ends[n++] = config->eos_ids[i];
    for (int32_t i = 0; i < options->n_extra_eos && n < 64; i++)
        ends[n++] = options->extra_eos[i];
    options->filter = &run->constraint.filter;
    return mica_constraint_start(&run->constraint, run->tokenizer, ends, n, err);
}

/* What was not given depends on the model. */
static mica_status fill_defaults(generate_run *run, generate_options *options, mica_error *err) {
    bool is_diffusion = mica_engine_is_diffusion(run->engine);
    if (options->max_tokens < 0)
        options->max_tokens =
            is_diffusion ? mica_diffusion_max_tokens(run->engine, (int64_t)run->prompt.n) : 256;
    if (isnan(options->sampler.temperature)) options->sampler.temperature = is_diffusion ? 1 : 0;
    if (is_diffusion) options->diffusion = &run->diffusion;
    return mica_denoise_apply(&run->args->denoise, run->engine, &run->diffusion, err);
}

/* What a limit cut short is not what the constraint promises. */
static void warn_incomplete(const generate_run *run) {
    finish_reason reason = run->result.reason;
    if (!run->constraint.matcher || mica_grammar_is_complete(run->constraint.matcher)) return;
    if (reason != FINISH_LENGTH && reason != FINISH_CONTEXT) return;
    fprintf(stderr, "mica: warning: the constrained answer is incomplete: %s ended it\n",
            reason == FINISH_LENGTH ? "--max-tokens" : "the end of the context");
}

static mica_status generate(generate_run *run, mica_error *err) {
    generate_options options = run->args->generate;
    size_t n_end = 0;
    if (run->tokenizer) options.extra_eos = mica_tokenizer_end_ids(run->tokenizer, &n_end);
    options.n_extra_eos = (int32_t)n_end;
    mica_status st = fill_defaults(run, &options, err);
    if (!st) st = start_constraint(run, &options, err);
    if (st) return st;
    options.on_token = on_token;
    options.on_progress = on_progress;
    options.on_denoised = on_denoised;
    options.user = run;
    mica_progress_begin(&run->progress, "reading the prompt");
    st = mica_generate(run->session, run->prompt.ids, (int64_t)run->prompt.n, &options,
                       &run->result, err);
    mica_progress_end(&run->progress);
    return st;
}

static mica_status finish_stream(generate_run *run, mica_error *err) {
    if (run->stream_status) {
        *err = run->stream_error;
        return run->stream_status;
    }
    if (run->args->json) return MICA_OK;
    if (run->tokenizer) {
        mica_status st = mica_detokenizer_finish(&run->stream, err);
        if (st) return st;
        print_released(&run->stream);
    }
    putchar('\n');
    return MICA_OK;
}

static void put_ids(json_writer *w, const char *key, const int32_t *ids, size_t n) {
    mica_json_key(w, key);
    mica_json_begin_array(w);
    for (size_t i = 0; i < n; i++)
        mica_json_put_i64(w, ids[i]);
    mica_json_end_array(w);
}

static void put_stats(json_writer *w, const generate_stats *s) {
    mica_json_key(w, "stats");
    mica_json_begin_object(w);
    mica_json_member_u64(w, "prompt_tokens", (uint64_t)s->prompt_tokens);
    mica_json_member_u64(w, "generated_tokens", (uint64_t)s->generated_tokens);
    mica_json_member_double(w, "load_s", s->load_s);
    mica_json_member_double(w, "ttft_s", s->ttft_s);
    mica_json_member_double(w, "prefill_s", s->prefill_s);
    mica_json_member_double(w, "decode_s", s->decode_s);
    mica_json_member_double(w, "prefill_tps", s->prefill_tps);
    mica_json_member_double(w, "decode_tps", s->decode_tps);
    mica_json_member_u64(w, "bytes_per_token", s->bytes_per_token);
    if (s->denoising_steps)
        mica_json_member_u64(w, "denoising_steps", (uint64_t)s->denoising_steps);
    mica_json_member_double(w, "achieved_gbps", s->achieved_gbps);
    mica_json_member_u64(w, "peak_rss_bytes", s->peak_rss_bytes);
    mica_json_end_object(w);
}

static mica_status print_json(generate_run *run, mica_error *err) {
    char *text = NULL;
    size_t n_text = 0;
    const generate_result *r = &run->result;
    if (run->tokenizer) {
        mica_status st = mica_tokenizer_decode(run->tokenizer, r->ids, (size_t)r->n_ids, true,
                                               &text, &n_text, err);
        if (st) return st;
    }
    json_writer w;
    mica_json_writer_init(&w, false);
    mica_json_begin_object(&w);
    mica_json_key(&w, "text");
    if (text)
        mica_json_put_string(&w, text, n_text);
    else
        mica_json_put_null(&w);
    put_ids(&w, "ids", r->ids, (size_t)r->n_ids);
    put_ids(&w, "prompt_ids", run->prompt.ids, run->prompt.n);
    mica_json_member_cstring(&w, "finish_reason", mica_finish_name(r->reason));
    put_stats(&w, &r->stats);
    mica_json_end_object(&w);
    mica_status st =
        w.failed ? mica_fail(err, MICA_E_NOMEM, "out of memory for the JSON output") : MICA_OK;
    if (!st) printf("%s\n", w.data);
    mica_json_writer_deinit(&w);
    mica_free(text);
    return st;
}

/* The lines of mlx_lm, and what they leave out. */
static void print_stats(const generate_result *r) {
    const generate_stats *s = &r->stats;
    printf("==========\nPrompt: %lld tokens, %.3f tokens-per-sec\n", (long long)s->prompt_tokens,
           s->prefill_tps);
    printf("Generation: %lld tokens, ", (long long)s->generated_tokens);
    if (isfinite(s->decode_tps))
        printf("%.3f tokens-per-sec\nMemory traffic: %.1f MB a token, %.2f GB/s\n", s->decode_tps,
               (double)s->bytes_per_token / 1e6, s->achieved_gbps);
    else
        printf("too few to time\n");
    printf("Load: %.3f s, first token after %.3f s, stopped by: %s\n", s->load_s, s->ttft_s,
           mica_finish_name(r->reason));
    printf("Peak memory: %.3f GB\n", (double)s->peak_rss_bytes / 1e9);
}

static mica_status run_all(generate_run *run, const char *model_name, engine_options *options,
                           mica_error *err) {
    mica_status st = MICA_OK;
    if (mica_constraint_is_set(&run->args->constraint))
        st = mica_constraint_compile(&run->constraint, &run->args->constraint, err);
    if (!st) st = mica_cli_open_engine(&run->engine, &run->path, model_name, options, err);
    if (st) return st;
    st = mica_tokenizer_open(&run->tokenizer, run->path, err);
    if (st == MICA_E_NOT_FOUND && run->args->ids) st = MICA_OK; /* ids in, ids out */
    if (st) return st;
    mica_detokenizer_init(&run->stream, run->tokenizer, true);
    if ((st = make_prompt(run, err))) return st;
    if ((st = mica_session_new(&run->session, run->engine, err))) return st;
    if (run->args->verbose) printf("==========\n");
    if ((st = generate(run, err))) return st;
    if ((st = finish_stream(run, err))) return st;
    warn_incomplete(run);
    return run->args->json ? print_json(run, err) : MICA_OK;
}

static void generate_deinit(generate_run *run) {
    mica_generate_result_deinit(&run->result);
    mica_constraint_deinit(&run->constraint);
    mica_detokenizer_deinit(&run->stream);
    mica_session_free(run->session);
    mica_engine_close(run->engine);
    mica_tokenizer_free(run->tokenizer);
    mica_free(run->prompt.ids);
    mica_free(run->text);
    mica_free(run->path);
}

int mica_verb_generate(int argc, char **argv) {
    generate_args args = {0};
    engine_options options;
    const char *model_name;
    mica_generate_defaults(&args.generate);
    args.generate.max_tokens = -1; /* not given: see fill_defaults */
    args.generate.sampler.temperature = NAN;
    mica_denoise_args_init(&args.denoise);
    int rc = parse(argc, argv, &args, &model_name);
    if (!rc) rc = mica_compute_to_engine(&args.compute, &options);
    if (rc) return rc;
    generate_run run = {.args = &args};
    if (args.ids && (rc = mica_cli_parse_ids("generate", "ids", args.ids, &run.prompt))) {
        mica_free(run.prompt.ids);
        return rc;
    }
    mica_cli_catch_interrupt();
    mica_error err;
    mica_status st = run_all(&run, model_name, &options, &err);
    if (mica_cli_interrupted())
        rc = EXIT_INTERRUPTED;
    else if (st)
        rc = mica_cli_fail(&err);
    else if (args.verbose)
        print_stats(&run.result);
    generate_deinit(&run);
    return rc;
}
