/* diffuse.c: generation by denoising blocks (docs/models.md 16.4).
 *
 * A block begins as random tokens. Each step runs the decoder over it, draws a token for every
 * position, keeps those that are sure enough and renews the others at random; what the block
 * becomes is the best token of every position in the last step. Then it is encoded, and the next
 * one begins.
 *
 * Random numbers come from one stream, in a fixed order: the block's first tokens, then in every
 * step the draws (unless the temperature is 0) and the renewal, whether they are needed or not.
 * Each of these has a key of its own, split off the state as mlx does, so numbers that nobody looks
 * at cost nothing. Rows are worked on by all threads; no result depends on how many there are.
 */
#include "engine/runtime.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/rng.h"
#include "engine/sampler.h"

#define GUMBEL_MAX 16.7f /* see sampler.c */

/* What a step says of one position. */
typedef struct position {
    int32_t best, drawn;
    float entropy;
    float drawn_p;      /* probability of `drawn` */
    float best_logprob; /* of `best` */
    bool is_bad;        /* logits that are no numbers, or none left */
} position;

typedef struct diffusion {
    session *session;
    const generate_options *options;
    diffusion_options how;
    sampler *sampler; /* bias and penalties */
    bool has_processors;
    mica_rng_key stream, draw_key;
    int64_t n;      /* positions of the block */
    float *logits;  /* [n, vocab]: of the last step, divided by its temperature */
    float *buffers; /* [threads, vocab]: rows widened */
    position *at;   /* [n] */
    int32_t *canvas, *draft, *renewed;
    int32_t *history; /* [stability_threshold, n]: best canvases, oldest first */
    int32_t n_history;
    bool *is_revealed, *is_accepted;
    int32_t *order;      /* [n] */
    float temperature;   /* of the schedule */
    bool is_conditioned; /* `logits` are of the step before */
    int64_t emitted, n_steps, n_prefilled;
    double start_s, first_s, last_s, prefill_s;
} diffusion;

void mica_diffusion_defaults(diffusion_options *options, const engine *e) {
    const diffusion_config *c = &mica_model_config(e->model)->diffusion;
    *options = (diffusion_options){.max_steps = c->max_steps,
                                   .t_min = c->t_min,
                                   .t_max = c->t_max,
                                   .threshold = 0.9f,
                                   .entropy_bound = c->entropy_bound,
                                   .stops_early = true,
                                   .stability_threshold = c->stability_threshold,
                                   .confidence_threshold = c->confidence_threshold,
                                   .full_canvas = true,
                                   .min_canvas = c->canvas_length < 64 ? c->canvas_length : 64,
                                   .max_canvas = c->canvas_length};
}

int64_t mica_diffusion_max_tokens(const engine *e, int64_t n_prompt) {
    const diffusion_config *c = &mica_model_config(e->model)->diffusion;
    if (c->max_tokens) return c->max_tokens;
    if (c->max_length) return c->max_length > n_prompt ? c->max_length - n_prompt : 1;
    return 256;
}

/* ---- random numbers ---- */

/* The key of the next array of numbers. */
static mica_rng_key next_key(diffusion *d) {
    mica_rng_key use = mica_rng_split(d->stream, 2, 1);
    d->stream = mica_rng_split(d->stream, 2, 0);
    return use;
}

static void draw_tokens(diffusion *d, int32_t *out) {
    int64_t n_vocab = d->session->engine->vocab_size;
    mica_rng_key key = next_key(d);
    for (int64_t i = 0; i < d->n; i++) {
        float x = mica_rng_uniform(key, (size_t)d->n, (size_t)i) * (float)n_vocab;
        int64_t id = (int64_t)x; /* rounding may reach n_vocab */
        out[i] = (int32_t)(id < n_vocab ? id : n_vocab - 1);
    }
}

/* The first maximum of row / temperature + Gumbel noise. */
static int32_t draw_of_row(const diffusion *d, int64_t i, const float *row, int32_t first) {
    int64_t n_vocab = d->session->engine->vocab_size;
    size_t n_all = (size_t)(d->n * n_vocab), at = (size_t)(i * n_vocab);
    float temperature = d->options->sampler.temperature, best = -INFINITY;
    int32_t best_id = first;
    for (int32_t k = 0; k < n_vocab; k++) {
        float score = row[k] / temperature;
        if (score + GUMBEL_MAX < best || row[k] == -INFINITY) continue;
        score -= logf(-logf(mica_rng_uniform(d->draw_key, n_all, at + (size_t)k)));
        if (score <= best) continue;
        best = score;
        best_id = k;
    }
    return best_id;
}

/* ---- one step's rows ---- */

static void divide_row(const diffusion *d, const float *from, float *row) {
    int64_t n_vocab = d->session->engine->vocab_size;
    for (int64_t k = 0; k < n_vocab; k++)
        row[k] = from[k] / d->temperature;
}

static void measure_row(const diffusion *d, int64_t i, float *row) {
    position *p = &d->at[i];
    int64_t n_vocab = d->session->engine->vocab_size;
    int32_t best = 0;
    bool sane = true;
    for (int32_t k = 0; k < n_vocab; k++) {
        sane &= row[k] < INFINITY; /* false for NaN too */
        if (row[k] > row[best]) best = k;
    }
    *p = (position){.best = best, .drawn = best, .is_bad = !sane || row[best] == -INFINITY};
    if (p->is_bad) return;
    double sum = 0, weighted = 0;
    for (int64_t k = 0; k < n_vocab; k++) {
        double x = (double)(row[k] - row[best]), e = (double)expf((float)x);
        sum += e;
        if (e > 0) weighted += e * x;
    }
    double log_sum = log(sum);
    p->entropy = (float)(log_sum - weighted / sum);
    p->best_logprob = (float)-log_sum;
    if (d->options->sampler.temperature > 0) p->drawn = draw_of_row(d, i, row, best);
    p->drawn_p = expf((float)((double)(row[p->drawn] - row[best]) - log_sum));
}

static void work_on_rows(void *arg, int thread, int n_threads) {
    diffusion *d = arg;
    int64_t n_vocab = d->session->engine->vocab_size;
    const runner *r = &d->session->engine->denoiser.canvas;
    for (int64_t i = thread; i < d->n; i += n_threads) {
        float *row = d->logits + i * n_vocab;
        if (!d->has_processors)
            divide_row(d, mica_runner_row(r, i, d->buffers + thread * n_vocab), row);
        else
            divide_row(d, row, row);
        measure_row(d, i, row);
    }
}

/* Bias and penalties act before the schedule does; the history is what stands before the block. */
static mica_status process_rows(diffusion *d, mica_error *err) {
    engine *e = d->session->engine;
    int32_t best;
    for (int64_t i = 0; i < d->n && d->has_processors; i++) {
        const float *row = mica_runner_row(&e->denoiser.canvas, i, d->buffers);
        mica_status st = mica_sampler_process(d->sampler, row, d->session->tokens,
                                              mica_session_length(d->session), &best, err);
        if (st) return st;
        memcpy(d->logits + i * e->vocab_size, d->sampler->row,
               (size_t)e->vocab_size * sizeof(float));
    }
    return MICA_OK;
}

static mica_status run_step(diffusion *d, int64_t t, mica_error *err) {
    engine *e = d->session->engine;
    mica_status st =
        mica_denoise(d->session, d->canvas, d->n, d->is_conditioned ? d->logits : NULL, err);
    if (st) return st;
    d->n_steps++;
    d->temperature = (float)d->how.t_min +
                     (float)(d->how.t_max - d->how.t_min) * ((float)t / (float)d->how.max_steps);
    if ((st = process_rows(d, err))) return st;
    mica_pool_run(mica_cpu_pool(e->backend), work_on_rows, d);
    d->is_conditioned = true;
    for (int64_t i = 0; i < d->n; i++)
        if (d->at[i].is_bad)
            return mica_fail(err, MICA_E_INTERNAL,
                             "the model gave logits that are not numbers, or every token has been "
                             "ruled out");
    return MICA_OK;
}

/* ---- what is kept ---- */

/* By entropy, then by place. */
static void sort_by_entropy(diffusion *d) {
    for (int64_t i = 0; i < d->n; i++) {
        int64_t k = i;
        for (; k > 0 && d->at[d->order[k - 1]].entropy > d->at[i].entropy; k--)
            d->order[k] = d->order[k - 1];
        d->order[k] = (int32_t)i;
    }
}

/* The positions of least entropy whose entropies, but for the largest, sum up to the bound. */
static void accept_by_entropy(diffusion *d) {
    double sum = 0;
    sort_by_entropy(d);
    for (int64_t k = 0; k < d->n; k++) {
        int32_t i = d->order[k];
        sum += (double)d->at[i].entropy;
        d->is_accepted[i] = (float)sum - d->at[i].entropy <= d->how.entropy_bound;
    }
    for (int64_t i = 0; i < d->n; i++)
        d->canvas[i] = d->is_accepted[i] ? d->at[i].drawn : d->renewed[i];
}

/* Accepted positions stay; in each step there is at least one more. False: all are. */
static bool accept_by_confidence(diffusion *d) {
    int64_t surest = -1, n_accepted = 0, n_hidden = 0;
    for (int64_t i = 0; i < d->n; i++) {
        bool is_hidden = !d->is_revealed[i];
        d->is_accepted[i] = is_hidden && d->at[i].drawn_p >= d->how.threshold;
        n_accepted += d->is_accepted[i];
        n_hidden += is_hidden;
        if (is_hidden && (surest < 0 || d->at[i].drawn_p > d->at[surest].drawn_p)) surest = i;
    }
    if (!n_accepted && n_hidden) d->is_accepted[surest] = true;
    n_hidden = 0;
    for (int64_t i = 0; i < d->n; i++) {
        if (d->is_accepted[i]) d->draft[i] = d->at[i].drawn;
        d->is_revealed[i] |= d->is_accepted[i];
        d->canvas[i] = d->is_revealed[i] ? d->draft[i] : d->renewed[i];
        n_hidden += !d->is_revealed[i];
    }
    return n_hidden > 0;
}

/* The best canvases of the steps before are this one, and the mean entropy is low. */
static bool is_settled(diffusion *d) {
    int32_t most = d->how.stability_threshold;
    bool stable = d->n_history == most;
    double entropy = 0;
    for (int64_t i = 0; i < d->n; i++) {
        entropy += (double)d->at[i].entropy;
        for (int32_t h = 0; h < d->n_history; h++)
            stable &= d->history[h * d->n + i] == d->at[i].best;
    }
    if (most && d->n_history == most) {
        memmove(d->history, d->history + d->n, (size_t)((most - 1) * d->n) * sizeof(*d->history));
        d->n_history--;
    }
    for (int64_t i = 0; i < d->n && most; i++)
        d->history[d->n_history * d->n + i] = d->at[i].best;
    d->n_history += most > 0;
    return stable && (float)(entropy / (double)d->n) < d->how.confidence_threshold;
}

/* ---- blocks ---- */

/* Draws, acceptance, renewal. False: the block is done. */
static bool finish_step(diffusion *d, int64_t t) {
    bool goes_on = true;
    if (t == 1 && d->how.by_confidence) return false;
    draw_tokens(d, d->renewed);
    if (d->how.by_confidence)
        goes_on = accept_by_confidence(d);
    else
        accept_by_entropy(d);
    if (!goes_on) return false;
    return !(d->how.stops_early && is_settled(d)) && t > 1;
}

static void begin_block(diffusion *d) {
    draw_tokens(d, d->canvas);
    memcpy(d->draft, d->canvas, (size_t)d->n * sizeof(*d->draft));
    memset(d->is_revealed, 0, (size_t)d->n * sizeof(*d->is_revealed));
    d->is_conditioned = false;
    d->n_history = 0;
}

/* *is_done: cancelled. */
static mica_status run_block(diffusion *d, bool *is_done, mica_error *err) {
    const generate_options *o = d->options;
    begin_block(d);
    for (int64_t t = d->how.max_steps;; t--) {
        bool draws = o->sampler.temperature > 0 && (t > 1 || !d->how.by_confidence);
        if (draws) d->draw_key = next_key(d);
        mica_status st = run_step(d, t, err);
        if (st) return st;
        if (!finish_step(d, t)) break;
        *is_done =
            o->on_denoised && !o->on_denoised(o->user, d->how.max_steps - t + 1, d->how.max_steps);
        if (*is_done) break;
    }
    d->last_s = mica_now_s();
    return MICA_OK;
}

/* The block's tokens go out. True: the generation ends, and r->reason says why. */
static bool emit_block(diffusion *d, generate_result *r) {
    const generate_options *o = d->options;
    for (int64_t i = 0; i < d->n; i++) {
        int32_t id = d->at[i].best;
        d->emitted++;
        r->reason = FINISH_STOP;
        if (mica_generate_is_end(d->session->engine, o, id)) return true;
        r->ids[r->n_ids++] = id;
        r->reason = FINISH_CANCELLED;
        float logprob = o->logprobs ? d->at[i].best_logprob : NAN;
        if (o->on_token && !o->on_token(o->user, id, logprob)) return true;
        r->reason = FINISH_LENGTH;
        if (d->emitted == o->max_tokens) return true;
    }
    return false;
}

static int64_t canvas_length(const diffusion *d) {
    const diffusion_options *how = &d->how;
    int64_t left = d->options->max_tokens - d->emitted;
    if (how->full_canvas)
        return mica_model_config(d->session->engine->model)->diffusion.canvas_length;
    if (left < how->min_canvas) left = how->min_canvas;
    return left < how->max_canvas ? left : how->max_canvas;
}

/* Every token of the last canvas, those after an end token too: as the reference. */
static mica_status encode_block(diffusion *d, mica_error *err) {
    for (int64_t i = 0; i < d->n; i++)
        d->canvas[i] = d->at[i].best;
    const eval_options eval = {.role = ROLE_PROMPT};
    return mica_session_eval(d->session, d->canvas, d->n, &eval, err);
}

static mica_status run_blocks(diffusion *d, generate_result *r, mica_error *err) {
    session *s = d->session;
    for (bool is_first = true, is_done = false;; is_first = false) {
        int64_t next = canvas_length(d), room = s->engine->max_context - mica_session_length(s);
        r->reason = FINISH_CONTEXT;
        if (!is_first && next + d->n > room) return MICA_OK;
        mica_status st = is_first ? MICA_OK : encode_block(d, err);
        if (st) return st;
        d->n = next;
        if ((st = run_block(d, &is_done, err))) return st;
        if (is_first) d->first_s = d->last_s;
        r->reason = FINISH_CANCELLED;
        if (is_done || emit_block(d, r)) return MICA_OK;
    }
}

/* ---- the whole ---- */

static mica_status check_number(const char *name, double x, double least, double most,
                                mica_error *err) {
    if (x >= least && x <= most) return MICA_OK;
    return mica_fail(err, MICA_E_INVALID, "%s is %g; it must lie in [%g, %g]", name, x, least,
                     most);
}

static mica_status check_how(const diffusion *d, mica_error *err) {
    const diffusion_options *how = &d->how;
    double longest = d->session->engine->max_canvas;
    mica_status st;
    if ((st = check_number("max_denoising_steps", how->max_steps, 1, 1 << 20, err))) return st;
    if ((st = check_number("t_min", how->t_min, 0, 1e9, err))) return st;
    if (!(how->t_max > how->t_min && how->t_max <= 1e9))
        return mica_fail(err, MICA_E_INVALID, "t_max is %g; it must be above t_min, which is %g",
                         how->t_max, how->t_min);
    if ((st = check_number("entropy_bound", (double)how->entropy_bound, 1e-30, 1e9, err)))
        return st;
    if ((st = check_number("threshold", (double)how->threshold, 0, 1, err))) return st;
    if ((st = check_number("stability_threshold", how->stability_threshold, 0, 1 << 20, err)))
        return st;
    if ((st = check_number("confidence_threshold", (double)how->confidence_threshold, 1e-30, 1e9,
                           err)))
        return st;
    if (how->full_canvas) return MICA_OK;
    if ((st = check_number("max_canvas", how->max_canvas, 1, longest, err))) return st;
    return check_number("min_canvas", how->min_canvas, 1, how->max_canvas, err);
}

/* What would change the text, and has no meaning here. */
static mica_status check_request(const diffusion *d, mica_error *err) {
    const sampler_options *s = &d->options->sampler;
    const char *what = NULL;
    if (s->top_p > 0 && s->top_p < 1) what = "top_p";
    if (s->min_p != 0) what = "min_p";
    if (s->top_k > 0) what = "top_k";
    if (d->options->filter) what = "constrained output";
    if (!what) return check_how(d, err);
    return mica_fail(err, MICA_E_UNSUPPORTED,
                     "%s is not supported with a diffusion model, which draws whole blocks", what);
}

static mica_status no_memory(const diffusion *d, mica_error *err) {
    return mica_fail(err, MICA_E_NOMEM, "out of memory for blocks of %d tokens",
                     d->session->engine->max_canvas);
}

static mica_status allocate(diffusion *d, generate_result *r, mica_error *err) {
    const engine *e = d->session->engine;
    size_t n = (size_t)e->max_canvas, n_vocab = (size_t)e->vocab_size;
    int64_t room = e->max_context - mica_session_length(d->session);
    if (room > d->options->max_tokens) room = d->options->max_tokens;
    r->ids = mica_calloc((size_t)room, sizeof(*r->ids));
    d->logits = mica_calloc(n, n_vocab * sizeof(*d->logits));
    d->buffers = mica_calloc((size_t)mica_cpu_threads(e->backend), n_vocab * sizeof(*d->buffers));
    d->at = mica_calloc(n, sizeof(*d->at));
    d->canvas = mica_calloc(4 * n, sizeof(*d->canvas));
    d->is_revealed = mica_calloc(2 * n, sizeof(*d->is_revealed));
    d->history = mica_calloc((size_t)d->how.stability_threshold + 1, n * sizeof(*d->history));
    if (!r->ids || !d->logits || !d->buffers || !d->at || !d->canvas || !d->is_revealed ||
        !d->history)
        return no_memory(d, err);
    d->draft = d->canvas + n;
    d->renewed = d->draft + n;
    d->order = d->renewed + n;
    d->is_accepted = d->is_revealed + n;
    return MICA_OK;
}

static void diffusion_deinit(diffusion *d) {
    mica_sampler_free(d->sampler);
    mica_free(d->logits);
    mica_free(d->buffers);
    mica_free(d->at);
    mica_free(d->canvas);
    mica_free(d->is_revealed);
    mica_free(d->history);
}

static bool on_progress(void *user, int64_t done, int64_t total) {
    const generate_options *o = ((diffusion *)user)->options;
    return !o->on_progress || o->on_progress(o->user, done, total);
}

/* A cancelled prompt is a result, not an error. */
static mica_status run_all(diffusion *d, const int32_t *prompt, int64_t n_prompt,
                           generate_result *r, mica_error *err) {
    session *s = d->session;
    int64_t before = mica_session_length(s);
    const eval_options eval = {.role = ROLE_PROMPT, .on_progress = on_progress, .user = d};
    mica_status st = mica_session_eval(s, prompt, n_prompt, &eval, err);
    d->n_prefilled = mica_session_length(s) - before;
    d->first_s = d->last_s = mica_now_s();
    d->prefill_s = d->last_s - d->start_s;
    if (st == MICA_E_CANCELLED) {
        mica_error_clear(err);
        r->reason = FINISH_CANCELLED;
        return MICA_OK;
    }
    r->reason = FINISH_LENGTH;
    if (st || !d->options->max_tokens) return st;
    return run_blocks(d, r, err);
}

/* Every pass reads all weights, those of the embedding once more for the signal, and the cache. */
static void fill_stats(const diffusion *d, int64_t n_prompt, generate_stats *s) {
    engine *e = d->session->engine;
    double n_passes = (double)d->n_steps, n = (double)d->emitted;
    uint64_t n_bytes = mica_engine_bytes_per_token(e, mica_session_length(d->session));
    s->prompt_tokens = n_prompt;
    s->generated_tokens = d->emitted;
    s->denoising_steps = d->n_steps;
    s->load_s = e->load_s;
    s->ttft_s = d->first_s - d->start_s;
    s->prefill_s = d->prefill_s;
    s->prefill_tps = (double)d->n_prefilled / s->prefill_s;
    s->decode_s = d->last_s - d->start_s - d->prefill_s;
    s->decode_tps = d->emitted ? n / s->decode_s : (double)NAN;
    s->bytes_per_token = d->emitted ? (uint64_t)((double)n_bytes * n_passes / n) : 0;
    s->achieved_gbps = (double)s->bytes_per_token * s->decode_tps / 1e9;
    s->peak_rss_bytes = mica_peak_rss_bytes();
}

static mica_status check_room(const diffusion *d, int64_t n_prompt, mica_error *err) {
    int64_t n_free = d->session->engine->max_context - mica_session_length(d->session);
    int64_t n = canvas_length(d);
    if (!d->options->max_tokens || n_prompt + n <= n_free) return MICA_OK;
    return mica_fail(err, MICA_E_LIMIT,
                     "the prompt of %lld tokens and a canvas of %lld do not fit: %lld of the "
                     "context of %lld are free",
                     (long long)n_prompt, (long long)n, (long long)n_free,
                     (long long)d->session->engine->max_context);
}

mica_status mica_diffuse(session *s, const int32_t *prompt, int64_t n_prompt,
                         const generate_options *options, generate_result *out, mica_error *err) {
    diffusion d = {.session = s, .options = options, .start_s = mica_now_s()};
    generate_result r = {0};
    const sampler_options *o = &options->sampler;
    mica_status st;
    mica_diffusion_defaults(&d.how, s->engine);
    if (options->diffusion) d.how = *options->diffusion;
    if ((st = check_request(&d, err))) return st;
    if ((st = check_room(&d, n_prompt, err))) return st;
    d.stream = mica_rng_key_from_seed(o->seed);
    if ((st = mica_sampler_new(&d.sampler, o, s->engine->vocab_size, err))) goto out;
    d.has_processors = o->n_bias > 0 || d.sampler->counts;
    if ((st = allocate(&d, &r, err))) goto out;
    if ((st = run_all(&d, prompt, n_prompt, &r, err))) goto out;
    fill_stats(&d, n_prompt, &r.stats);
    *out = r;
    r.ids = NULL;
out:
    diffusion_deinit(&d);
    mica_generate_result_deinit(&r);
    return st;
}
