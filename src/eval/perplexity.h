/* perplexity.h: how well a model predicts a text, token by token.
 *
 * The text is cut into windows, each run as a sequence of its own; every token of a window but the
 * first is predicted from those before it.
 */
#ifndef MICA_EVAL_PERPLEXITY_H
#define MICA_EVAL_PERPLEXITY_H

#include "engine/engine.h"

typedef struct perplexity_options {
    int64_t window; /* tokens, at least 2; 0: 512 or the context, if that is less */
    row_role role;
    bool (*on_progress)(void *user, int64_t done, int64_t total); /* false stops; may be NULL */
    void *user;
} perplexity_options;

typedef struct perplexity_result {
    int64_t n_tokens; /* predicted */
    double mean_nll;  /* nats a token */
    double error;     /* standard error of that mean */
    double perplexity;
} perplexity_result;

/* MICA_E_INVALID: fewer than two ids. MICA_E_LIMIT: a window beyond the context. */
mica_status mica_perplexity(engine *e, const int32_t *ids, int64_t n, const perplexity_options *o,
                            perplexity_result *out, mica_error *err);

#endif
