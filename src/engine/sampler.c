/* sampler.c: from a row of logits to a token.
 *
 * Order: logit bias, repetition, presence and frequency penalty, mask; temperature 0 takes the
 * first maximum; else log-probabilities, top_p, min_p, top_k, and one draw at lp/temperature. The
 * draw is Gumbel-max with noise from a counter-based generator keyed by seed and index of the
 * token: it depends on nothing else, neither on earlier draws nor on who shares the step.
 */
#include "engine/sampler.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/rng.h"

/* -log(-log(u)) at the largest u, 1 - 2^-24, is 16.636; with room for rounding. */
#define GUMBEL_MAX 16.7f
#define LEAST_TEMPERATURE 1e-6f
#define FIRST_DEPTH 4.0f /* nats below the best that are ranked first, then twice as many */
#define LAST_DEPTH 64.0f
#define SCANNED_AT_ONCE 1024 /* logits: 4 KiB */
#define LEAST_PENALTY 1e-6f  /* logits divided by less could leave the numbers of a float */

void mica_sampler_defaults(sampler_options *options) {
    *options = (sampler_options){.min_tokens_to_keep = 1, .penalty_window = 20};
}

static mica_status check_range(const char *name, float x, float lo, float hi, mica_error *err) {
    if (x >= lo && x <= hi) return MICA_OK;
    return mica_fail(err, MICA_E_INVALID, "%s is %g; it must lie in [%g, %g]", name, (double)x,
                     (double)lo, (double)hi);
}

static mica_status check_bias(const sampler_options *o, int64_t n_vocab, mica_error *err) {
    for (int32_t i = 0; i < o->n_bias; i++) {
        if (o->bias_ids[i] < 0 || o->bias_ids[i] >= n_vocab)
            return mica_fail(err, MICA_E_INVALID,
                             "logit_bias names token %d; the vocabulary has %lld tokens",
                             o->bias_ids[i], (long long)n_vocab);
        if (!isfinite(o->bias_values[i]))
            return mica_fail(err, MICA_E_INVALID, "logit_bias of token %d is not a finite number",
                             o->bias_ids[i]);
    }
    return MICA_OK;
}

static mica_status check_options(const sampler_options *o, int64_t n_vocab, mica_error *err) {
    mica_status st;
    if ((st = check_range("temperature", o->temperature, 0.0f, 1e6f, err))) return st;
    if (o->temperature > 0 && o->temperature < LEAST_TEMPERATURE)
        return mica_fail(err, MICA_E_INVALID, "temperature is %g; use 0 for greedy or at least %g",
                         (double)o->temperature, (double)LEAST_TEMPERATURE);
    if ((st = check_range("top_p", o->top_p, 0.0f, 1.0f, err))) return st;
    if ((st = check_range("min_p", o->min_p, 0.0f, 1.0f, err))) return st;
    if ((st = check_range("repetition_penalty", o->repetition_penalty, 0.0f, 1e6f, err))) return st;
    if (o->repetition_penalty > 0 && o->repetition_penalty < LEAST_PENALTY)
        return mica_fail(err, MICA_E_INVALID,
                         "repetition_penalty is %g; use 0 or 1 for off, or at least %g",
                         (double)o->repetition_penalty, (double)LEAST_PENALTY);
    if ((st = check_range("presence_penalty", o->presence_penalty, -1e6f, 1e6f, err))) return st;
    if ((st = check_range("frequency_penalty", o->frequency_penalty, -1e6f, 1e6f, err))) return st;
    if (o->min_tokens_to_keep < 1)
        return mica_fail(err, MICA_E_INVALID, "min_tokens_to_keep is %d; it must be at least 1",
                         o->min_tokens_to_keep);
    if (o->top_k < 0)
        return mica_fail(err, MICA_E_INVALID, "top_k is %d; it must be 0 (off) or more", o->top_k);
    if (o->penalty_window < 0)
        return mica_fail(err, MICA_E_INVALID,
                         "the penalty window is %d tokens; it must be 0 (all) or more",
                         o->penalty_window);
    if (o->n_bias < 0)
        return mica_fail(err, MICA_E_INVALID, "logit_bias has %d entries", o->n_bias);
    return check_bias(o, n_vocab, err);
}

static bool has_penalties(const sampler_options *o) {
    return (o->repetition_penalty != 0 && o->repetition_penalty != 1) || o->presence_penalty != 0 ||
           o->frequency_penalty != 0;
}

mica_status mica_sampler_new(sampler **out, const sampler_options *options, int64_t n_vocab,
                             mica_error *err) {
    if (n_vocab <= 0 || n_vocab > INT32_MAX)
        return mica_fail(err, MICA_E_INVALID, "sampler: a vocabulary of %lld tokens",
                         (long long)n_vocab);
    mica_status st = check_options(options, n_vocab, err);
    if (st) return st;
    sampler *s = mica_calloc(1, sizeof(*s));
    if (!s) return mica_fail(err, MICA_E_NOMEM, "sampler: out of memory");
    size_t n = (size_t)n_vocab, n_bias = (size_t)options->n_bias;
    s->options = *options;
    s->n_vocab = n_vocab;
    s->row = mica_calloc(n, sizeof(*s->row));
    s->ranked = mica_calloc(n, sizeof(*s->ranked));
    s->bias_ids = mica_calloc(n_bias, sizeof(*s->bias_ids));
    s->bias_values = mica_calloc(n_bias, sizeof(*s->bias_values));
    bool penalties = has_penalties(options);
    if (penalties) s->counts = mica_calloc(n, sizeof(*s->counts));
    if (!s->row || !s->ranked || !s->bias_ids || !s->bias_values || (penalties && !s->counts)) {
        mica_sampler_free(s);
        return mica_fail(err, MICA_E_NOMEM, "sampler: out of memory for %lld tokens",
                         (long long)n_vocab);
    }
    for (size_t i = 0; i < n_bias; i++) {
        s->bias_ids[i] = options->bias_ids[i];
        s->bias_values[i] = options->bias_values[i];
    }
    s->options.bias_ids = s->bias_ids;
    s->options.bias_values = s->bias_values;
    *out = s;
    return MICA_OK;
}

void mica_sampler_free(sampler *s) {
    if (!s) return;
    mica_free(s->row);
    mica_free(s->ranked);
    mica_free(s->counts);
    mica_free(s->bias_ids);
    mica_free(s->bias_values);
    mica_free(s);
}

static void penalize(sampler *s, int32_t id, uint32_t count) {
    const sampler_options *o = &s->options;
    float x = s->row[id];
    if (o->repetition_penalty > 0)
        x = x < 0 ? x * o->repetition_penalty : x / o->repetition_penalty;
    x -= o->presence_penalty;
    x -= o->frequency_penalty * (float)count;
    s->row[id] = x;
}

/* Counts the ids of the window, then acts once on each. */
static void apply_penalties(sampler *s, const int32_t *history, int64_t n_history) {
    int64_t n = s->options.penalty_window;
    if (!n || n > n_history) n = n_history;
    const int32_t *window = history + (n_history - n);
    for (int64_t i = 0; i < n; i++)
        if (window[i] >= 0 && window[i] < s->n_vocab) s->counts[window[i]]++;
    for (int64_t i = 0; i < n; i++) {
        int32_t id = window[i];
        if (id < 0 || id >= s->n_vocab || !s->counts[id]) continue;
        penalize(s, id, s->counts[id]);
        s->counts[id] = 0;
    }
}

void mica_sampler_set_mask(sampler *s, const uint64_t *mask) { s->mask = mask; }

/* A logit that is not a number stays one, so that it is seen. */
static void apply_mask(sampler *s) {
    for (int64_t i = 0; i < s->n_vocab; i++) {
        if (!(s->mask[i >> 6] >> (i & 63) & 1) && !isnan(s->row[i])) s->row[i] = -INFINITY;
    }
}

/* Integers in the order of the floats that they stand for: -NaN, -infinity, .., infinity, NaN. */
static int32_t key_of(float x) {
    int32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits < 0 ? bits ^ INT32_MAX : bits;
}

static float of_key(int32_t key) {
    float x;
    if (key < 0) key ^= INT32_MAX;
    memcpy(&x, &key, sizeof(x));
    return x;
}

/* The first of the largest; false: not all are below infinity. Maxima of integers are what a
 * compiler makes vectors of, and one row may hold a quarter of a million logits. */
static bool find_best(const float *row, int64_t n, int32_t *best) {
    int32_t highest = INT32_MIN, lowest = INT32_MAX;
    float max = -INFINITY;
    int64_t at = 0;
    for (int64_t begin = 0; begin < n; begin += SCANNED_AT_ONCE) {
        int64_t end = begin + SCANNED_AT_ONCE < n ? begin + SCANNED_AT_ONCE : n;
        int32_t hi = INT32_MIN;
        for (int64_t i = begin; i < end; i++) {
            int32_t key = key_of(row[i]);
            hi = key > hi ? key : hi;
            lowest = key < lowest ? key : lowest;
        }
        highest = hi > highest ? hi : highest;
        if (!(of_key(hi) > max)) continue;
        max = of_key(hi);
        at = begin;
    }
    while (at + 1 < n && row[at] < max)
        at++;
    *best = (int32_t)at;
    return highest < key_of(INFINITY) && lowest >= key_of(-INFINITY);
}

static mica_status find_top(const float *row, int64_t n, int32_t *best, mica_error *err) {
    int32_t top;
    if (!find_best(row, n, &top))
        return mica_fail(err, MICA_E_INTERNAL,
                         "the model gave logits that are not numbers; the file may be damaged");
    if (row[top] == -INFINITY)
        return mica_fail(err, MICA_E_INTERNAL, "every token has been ruled out");
    *best = top;
    return MICA_OK;
}

mica_status mica_sampler_process(sampler *s, const float *logits, const int32_t *history,
                                 int64_t n_history, int32_t *best, mica_error *err) {
    float *row = s->row;
    memcpy(row, logits, (size_t)s->n_vocab * sizeof(*row));
    for (int32_t i = 0; i < s->options.n_bias; i++)
        row[s->bias_ids[i]] += s->bias_values[i];
    if (s->counts) apply_penalties(s, history, n_history);
    if (s->mask) apply_mask(s);
    return find_top(row, s->n_vocab, best, err);
}

/* exp of x <= 0, to 3.1 ulp over all floats in [-87, 0]: 2^k times a polynomial of the rest.
 * Without branches and calls, so that loops over it become vectors; below the least normal number
 * 0, or what is near it. */
static inline float exp_below(float x) {
    const float shift = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    x = x < -87.0f ? -87.0f : x;
    float k = x * 1.44269504f + shift;
    uint32_t bits, y_bits;
    memcpy(&bits, &k, sizeof(bits));
    k -= shift;
    float r = x - k * 0.693359375f + k * 2.12194440e-4f; /* ln 2 in two parts (Cody and Waite) */
    float y = 1.0f +
              r * (1.0f + r * (0.5f + r * (0.166666667f + r * (0.0416664939f +
                                                               r * (0.00833286f + r * 0.00139f)))));
    memcpy(&y_bits, &y, sizeof(y_bits));
    y_bits += bits << 23; /* what the sum has above its integer is shifted out */
    memcpy(&y, &y_bits, sizeof(y));
    return y;
}

double mica_sampler_log_sum(const sampler *s, int32_t best) {
    enum { N = 64, LANES = 8 };
    double part[LANES] = {0}, sum = 0;
    float e[N], max = s->row[best];
    for (int64_t begin = 0; begin < s->n_vocab; begin += N) {
        const float *x = s->row + begin;
        int n = s->n_vocab - begin < N ? (int)(s->n_vocab - begin) : N;
        for (int i = 0; i < n; i++)
            e[i] = exp_below(x[i] - max);
        for (int i = n; i < N; i++)
            e[i] = 0;
        for (int i = 0; i < N; i += LANES)
            for (int k = 0; k < LANES; k++)
                part[k] += (double)e[i + k];
    }
    for (int k = 0; k < LANES; k++)
        sum += part[k];
    return (double)max + log(sum);
}

void mica_sampler_normalize(sampler *s, int32_t best) {
    double log_sum = mica_sampler_log_sum(s, best);
    for (int64_t i = 0; i < s->n_vocab; i++)
        s->row[i] = (float)((double)s->row[i] - log_sum);
}

static bool ranks_before(const float *row, int32_t a, int32_t b) {
    return row[a] > row[b] || (row[a] == row[b] && a < b);
}

/* A heap with the best id at its root. */
static void sift_down(const float *row, int32_t *heap, int64_t n, int64_t i) {
    int32_t id = heap[i];
    for (int64_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && ranks_before(row, heap[child + 1], heap[child])) child++;
        if (!ranks_before(row, heap[child], id)) break;
        heap[i] = heap[child];
    }
    heap[i] = id;
}

/* What the filters leave, as a prefix of the ranking. */
typedef struct ranking {
    float least; /* min_p as a log-probability */
    bool by_mass;
    int64_t most;
    float mass; /* of what is taken */
    int64_t n_taken;
} ranking;

/* Takes ids of a heap of n from the best down until a filter ends the prefix: true. The taken ids
 * are put at the end of `ranked`, the best last. */
static bool take_ranked(sampler *s, ranking *r, int64_t n) {
    const float *row = s->row;
    int32_t *heap = s->ranked;
    for (int64_t i = n / 2; i-- > 0;)
        sift_down(row, heap, n, i);
    while (n > 0) {
        int32_t id = heap[0];
        if (r->n_taken >= r->most) return true;
        if (r->by_mass && r->n_taken && r->mass >= s->options.top_p) return true;
        if (row[id] < r->least && r->n_taken >= s->options.min_tokens_to_keep) return true;
        r->mass += expf(row[id]);
        heap[0] = heap[--n];
        if (n) sift_down(row, heap, n, 0);
        s->ranked[s->n_vocab - ++r->n_taken] = id;
    }
    return false;
}

/* Ids with lo <= row[id] < hi, at the front of `ranked`. */
static int64_t collect(sampler *s, float lo, float hi) {
    int64_t n = 0;
    for (int32_t i = 0; i < s->n_vocab; i++)
        if (s->row[i] >= lo && s->row[i] < hi) s->ranked[n++] = i;
    return n;
}

/* Filters mostly end within a few nats of the best, so only those ids are ranked first: a heap of a
 * whole vocabulary costs more than the rest of sampling. */
int64_t mica_sampler_keep(sampler *s, int32_t best, const int32_t **kept) {
    const sampler_options *o = &s->options;
    bool by_min = o->min_p != 0;
    ranking r = {.most = o->top_k > 0 ? o->top_k : s->n_vocab};
    r.by_mass = o->top_p > 0 && o->top_p < 1;
    r.least = by_min ? s->row[best] + logf(o->min_p) : -INFINITY;
    if (!r.by_mass && !by_min && r.most >= s->n_vocab) {
        *kept = s->ranked;
        return collect(s, -FLT_MAX, INFINITY);
    }
    float hi = INFINITY;
    for (float depth = FIRST_DEPTH; hi > -FLT_MAX; depth *= 2) {
        float lo = depth < LAST_DEPTH ? s->row[best] - depth : -FLT_MAX;
        if (take_ranked(s, &r, collect(s, lo, hi))) break;
        hi = lo;
    }
    *kept = s->ranked + (s->n_vocab - r.n_taken);
    return r.n_taken;
}

int32_t mica_sampler_draw(const sampler *s, const int32_t *kept, int64_t n_kept, uint64_t step) {
    mica_rng_key key = mica_rng_step_key(s->options.seed, step);
    float inverse = 1.0f / s->options.temperature;
    float best = -INFINITY;
    int32_t best_id = kept[0];
    for (int64_t i = 0; i < n_kept; i++) {
        int32_t id = kept[i];
        float score = s->row[id] * inverse;
        if (score + GUMBEL_MAX < best) continue; /* no noise lifts it to the best */
        float u = mica_rng_uniform(key, (size_t)s->n_vocab, (size_t)id);
        score -= logf(-logf(u));
        if (score > best || (score == best && id < best_id)) {
            best = score;
            best_id = id;
        }
    }
    return best_id;
}

mica_status mica_sampler_sample(sampler *s, const float *logits, const int32_t *history,
                                int64_t n_history, uint64_t step, int32_t *id, float *logprob,
                                mica_error *err) {
    const sampler_options *o = &s->options;
    if (o->temperature == 0 && !logprob && !o->n_bias && !s->counts && !s->mask)
        return find_top(logits, s->n_vocab, id, err); /* the row as it is: no copy */
    int32_t best;
    mica_status st = mica_sampler_process(s, logits, history, n_history, &best, err);
    if (st) return st;
    if (o->temperature == 0) {
        if (logprob) *logprob = (float)((double)s->row[best] - mica_sampler_log_sum(s, best));
        *id = best;
        return MICA_OK;
    }
    mica_sampler_normalize(s, best);
    const int32_t *kept;
    int64_t n_kept = mica_sampler_keep(s, best, &kept);
    *id = mica_sampler_draw(s, kept, n_kept, step);
    if (logprob) *logprob = s->row[*id];
    return MICA_OK;
}
