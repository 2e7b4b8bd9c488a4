/* generate.c: from a prompt to generated ids.
 *
 * A token is sampled inside the step that computes its logits, before the step is committed: when
 * sampling fails, the step has not happened. The session's log then holds the prompt and all
 * generated ids but the last, which no step has run. Token by token nothing is allocated.
 */
#include "engine/runtime.h"

#include <math.h>

#include "base/clock.h"

typedef struct generation {
    session *session;
    sampler *sampler;
    const generate_options *options;
    int64_t start;       /* positions before the rows of the running eval */
    int64_t n_prefilled; /* rows of the prompt that were run: fewer when it was cancelled */
    uint64_t step;       /* index of the token to be sampled */
    int32_t id;          /* the latest sampled */
    float logprob;
    uint64_t *mask;         /* of the filter; NULL: none */
    double first_s, last_s; /* when the first and the latest token were there */
} generation;

void mica_generate_defaults(generate_options *options) {
    *options = (generate_options){.max_tokens = 256};
    mica_sampler_defaults(&options->sampler);
}

const char *mica_finish_name(finish_reason r) {
    static const char *const names[] = {"stop", "length", "context", "cancelled"};
    return names[r];
}

void mica_generate_result_deinit(generate_result *r) {
    mica_free(r->ids);
    r->ids = NULL;
    r->n_ids = 0;
}

static size_t mask_words(const generation *g) {
    return ((size_t)g->session->engine->vocab_size + 63) / 64;
}

/* Logits of row i of the running eval: its history ends with that row. */
static mica_status on_logits(void *user, int64_t i, const float *logits, mica_error *err) {
    generation *g = user;
    const token_filter *f = g->options->filter;
    size_t n_words = mask_words(g);
    mica_status st = f ? f->mask(f->user, g->mask, n_words, err) : MICA_OK;
    if (st) return st;
    g->logprob = NAN;
    return mica_sampler_sample(g->sampler, logits, g->session->tokens, g->start + i + 1, g->step,
                               &g->id, g->options->logprobs ? &g->logprob : NULL, err);
}

static bool on_progress(void *user, int64_t done, int64_t total) {
    const generate_options *o = ((generation *)user)->options;
    return !o->on_progress || o->on_progress(o->user, done, total);
}

static mica_status run_rows(generation *g, const int32_t *ids, int64_t n, row_role role,
                            mica_error *err) {
    session *s = g->session;
    g->start = mica_session_length(s);
    bool is_prompt = role == ROLE_PROMPT;
    const eval_options eval = {.role = role,
                               .n_prompt = is_prompt ? g->start + n : s->n_prompt,
                               .on_logits = g->options->max_tokens ? on_logits : NULL,
                               .on_progress = is_prompt ? on_progress : NULL,
                               .user = g};
    mica_status st = mica_session_eval(s, ids, n, &eval, err);
    g->last_s = mica_now_s();
    return st;
}

bool mica_generate_is_end(const engine *e, const generate_options *options, int32_t id) {
    const model_config *config = mica_model_config(e->model);
    if (options->ignore_eos) return false;
    for (int i = 0; i < config->n_eos; i++)
        if (config->eos_ids[i] == id) return true;
    for (int32_t i = 0; i < options->n_extra_eos; i++)
        if (options->extra_eos[i] == id) return true;
    return false;
}

static mica_status take(const generation *g, bool *is_done, mica_error *err) {
    const token_filter *f = g->options->filter;
    *is_done = false;
    return f ? f->accept(f->user, g->id, is_done, err) : MICA_OK;
}

/* Tokens from the one that the prompt's last row gave. */
static mica_status run_tokens(generation *g, generate_result *r, mica_error *err) {
    const generate_options *o = g->options;
    session *s = g->session;
    int64_t *n_generated = &r->stats.generated_tokens;
    for (;;) {
        ++*n_generated;
        r->reason = FINISH_STOP;
        if (mica_generate_is_end(s->engine, o, g->id)) return MICA_OK;
        bool is_done;
        mica_status st = take(g, &is_done, err);
        if (st) return st;
        r->ids[r->n_ids++] = g->id;
        r->reason = FINISH_CANCELLED;
        if (o->on_token && !o->on_token(o->user, g->id, g->logprob)) return MICA_OK;
        r->reason = FINISH_STOP;
        if (is_done) return MICA_OK;
        r->reason = FINISH_LENGTH;
        if (*n_generated == o->max_tokens) return MICA_OK;
        r->reason = FINISH_CONTEXT;
        if (mica_session_length(s) == s->engine->max_context) return MICA_OK;
        g->step++;
        if ((st = run_rows(g, &g->id, 1, ROLE_DECODE, err))) return st;
    }
}

static void fill_stats(const generation *g, double start_s, int64_t n_prompt, generate_stats *s) {
    engine *e = g->session->engine;
    int64_t n = s->generated_tokens;
    s->prompt_tokens = n_prompt;
    s->load_s = e->load_s;
    s->ttft_s = s->prefill_s = g->first_s - start_s;
    s->prefill_tps = (double)g->n_prefilled / s->prefill_s;
    s->decode_s = n ? g->last_s - g->first_s : 0;
    s->decode_tps = n > 1 ? (double)(n - 1) / s->decode_s : (double)NAN;
    s->bytes_per_token = mica_engine_bytes_per_token(e, mica_session_length(g->session));
    s->achieved_gbps = (double)s->bytes_per_token * s->decode_tps / 1e9;
    s->peak_rss_bytes = mica_peak_rss_bytes();
}

static mica_status check_request(const session *s, int64_t n_prompt, const generate_options *o,
                                 mica_error *err) {
    int64_t length = mica_session_length(s), max = s->engine->max_context;
    if (n_prompt <= 0)
        return mica_fail(err, MICA_E_INVALID, "the prompt is empty: there is nothing to continue");
    if (o->max_tokens < 0)
        return mica_fail(err, MICA_E_INVALID, "max_tokens is %lld; it must be 0 or more",
                         (long long)o->max_tokens);
    if (n_prompt > max - length)
        return mica_fail(err, MICA_E_LIMIT,
                         "the prompt of %lld tokens does not fit: %lld of the context of %lld are "
                         "free",
                         (long long)n_prompt, (long long)(max - length), (long long)max);
    return MICA_OK;
}

/* The prompt, then the tokens. A cancelled prompt is a result, not an error. */
static mica_status run_all(generation *g, const int32_t *prompt, int64_t n_prompt,
                           generate_result *r, mica_error *err) {
    mica_status st = run_rows(g, prompt, n_prompt, ROLE_PROMPT, err);
    g->first_s = g->last_s;
    g->n_prefilled = mica_session_length(g->session) - g->start;
    if (st == MICA_E_CANCELLED) {
        mica_error_clear(err);
        r->reason = FINISH_CANCELLED;
        return MICA_OK;
    }
    r->reason = FINISH_LENGTH;
    if (st || !g->options->max_tokens) return st;
    return run_tokens(g, r, err);
}

mica_status mica_generate(session *s, const int32_t *prompt, int64_t n_prompt,
                          const generate_options *options, generate_result *out, mica_error *err) {
    double start_s = mica_now_s();
    mica_status st = check_request(s, n_prompt, options, err);
    if (st) return st;
    if (mica_engine_is_diffusion(s->engine))
        return mica_diffuse(s, prompt, n_prompt, options, out, err);
    generate_result r = {0};
    generation g = {.session = s, .options = options};
    int64_t room = s->engine->max_context - mica_session_length(s) - n_prompt + 1;
    if (room > options->max_tokens) room = options->max_tokens;
    r.ids = mica_calloc((size_t)room, sizeof(*r.ids));
    if (!r.ids) {
        st = mica_fail(err, MICA_E_NOMEM, "out of memory for %lld tokens", (long long)room);
        goto out;
    }
    if ((st = mica_sampler_new(&g.sampler, &options->sampler, s->engine->vocab_size, err)))
        goto out;
    if (options->filter) {
        g.mask = mica_calloc(mask_words(&g), sizeof(*g.mask));
        if (!g.mask) {
            st = mica_fail(err, MICA_E_NOMEM, "out of memory for a token mask");
            goto out;
        }
        mica_sampler_set_mask(g.sampler, g.mask);
    }
    if ((st = run_all(&g, prompt, n_prompt, &r, err))) goto out;
    fill_stats(&g, start_s, n_prompt, &r.stats);
    *out = r;
    r.ids = NULL;
out:
    mica_sampler_free(g.sampler);
    mica_free(g.mask);
    mica_generate_result_deinit(&r);
    return st;
}
