/* perplexity.c: negative log-likelihoods of a text's tokens, summed in double. */
#include "eval/perplexity.h"

#include <math.h>

typedef struct scoring {
    const int32_t *ids; /* of the window */
    int64_t n, n_vocab;
    double sum, squares;
    int64_t n_tokens;
    const perplexity_options *options;
    int64_t done, total;
} scoring;

static double log_sum(const float *row, int64_t n) {
    double max = (double)row[0], sum = 0;
    for (int64_t i = 1; i < n; i++)
        if ((double)row[i] > max) max = (double)row[i];
    for (int64_t i = 0; i < n; i++)
        sum += exp((double)row[i] - max);
    return max + log(sum);
}

/* Row i predicts id i + 1; the last row of a window predicts nothing that is known. */
static mica_status on_logits(void *user, int64_t i, const float *logits, mica_error *err) {
    scoring *s = user;
    if (i + 1 >= s->n) return MICA_OK;
    double nll = log_sum(logits, s->n_vocab) - (double)logits[s->ids[i + 1]];
    if (!isfinite(nll))
        return mica_fail(err, MICA_E_INTERNAL, "a logit after token %lld is no finite number",
                         (long long)i);
    s->sum += nll;
    s->squares += nll * nll;
    s->n_tokens++;
    return MICA_OK;
}

static bool on_progress(void *user, int64_t done, int64_t total) {
    const scoring *s = user;
    (void)total;
    return !s->options->on_progress ||
           s->options->on_progress(s->options->user, s->done + done, s->total);
}

static mica_status run_window(engine *e, scoring *s, mica_error *err) {
    session *sequence = NULL;
    const eval_options options = {.role = s->options->role,
                                  .n_prompt = s->n,
                                  .all_logits = true,
                                  .on_logits = on_logits,
                                  .on_progress = on_progress,
                                  .user = s};
    mica_status st = mica_session_new(&sequence, e, err);
    if (!st) st = mica_session_eval(sequence, s->ids, s->n, &options, err);
    mica_session_free(sequence);
    s->done += s->n;
    return st;
}

mica_status mica_perplexity(engine *e, const int32_t *ids, int64_t n, const perplexity_options *o,
                            perplexity_result *out, mica_error *err) {
    int64_t context = mica_engine_max_context(e);
    int64_t window = o->window ? o->window : context < 512 ? context : 512;
    if (n < 2)
        return mica_fail(err, MICA_E_INVALID, "%lld tokens: at least 2 are needed", (long long)n);
    if (window < 2 || window > context)
        return mica_fail(err, MICA_E_LIMIT, "a window of %lld tokens; 2 to %lld are possible",
                         (long long)window, (long long)context);
    scoring s = {.n_vocab = mica_engine_vocab_size(e), .options = o, .total = n};
    mica_status st = MICA_OK;
    for (int64_t i = 0; !st && i + 1 < n; i += window) {
        s.ids = ids + i;
        s.n = n - i < window ? n - i : window;
        st = run_window(e, &s, err);
    }
    if (st) return st;
    double count = (double)s.n_tokens, mean = s.sum / count;
    double variance = s.squares / count - mean * mean;
    *out = (perplexity_result){.n_tokens = s.n_tokens,
                               .mean_nll = mean,
                               .error = sqrt((variance > 0 ? variance : 0) / count),
                               .perplexity = exp(mean)};
    return MICA_OK;
}
