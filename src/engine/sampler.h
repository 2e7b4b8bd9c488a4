/* sampler.h: the inside of the sampler, for its tests: the stages that mica_sampler_sample runs.
 *
 * Everything is f32. Filters keep a prefix of the ranking (higher log-probability first, lower id
 * first among equals), so that their order does not matter.
 */
#ifndef MICA_ENGINE_SAMPLER_H
#define MICA_ENGINE_SAMPLER_H

#include "engine/engine.h"

struct sampler {
    sampler_options options;
    int32_t *bias_ids; /* own copies */
    float *bias_values;
    int64_t n_vocab;
    float *row;       /* [n_vocab]: processed logits, later log-probabilities */
    int32_t *ranked;  /* [n_vocab]: ids; the kept ones first or, with filters, last */
    uint32_t *counts; /* [n_vocab], all 0 between calls; NULL without penalties */
    const uint64_t *mask; /* of the tokens that are allowed; NULL: all */
};

/* Copies the logits and applies bias, penalties and mask; *best is the first maximum. */
mica_status mica_sampler_process(sampler *s, const float *logits, const int32_t *history,
                                 int64_t n_history, int32_t *best, mica_error *err);
/* log(sum(exp(row))), from the row's maximum. */
double mica_sampler_log_sum(const sampler *s, int32_t best);
/* Turns the processed row into log-probabilities. */
void mica_sampler_normalize(sampler *s, int32_t best);
/* The ids that top_p, min_p and top_k leave; *kept points into the sampler. */
int64_t mica_sampler_keep(sampler *s, int32_t best, const int32_t **kept);
/* The first maximum of lp/temperature + Gumbel noise over the kept ids. */
int32_t mica_sampler_draw(const sampler *s, const int32_t *kept, int64_t n_kept, uint64_t step);

#endif
