/* embed.c: texts to vectors.
 *
 * Rows of the last hidden states are pooled as they come out of a step, so that no more than a step
 * of them is ever held. A step takes as many texts as fit; of a decoder the last one may go on in
 * the next step, an encoder's are whole. A row's bits depend on its own text alone, and pooling
 * goes over rows in ascending order, so a vector depends neither on its company nor on the steps.
 */
#include "engine/runtime.h"

#include <math.h>
#include <string.h>

/* One text of a step. */
typedef struct embed_slot {
    session *session;
    const embed_text *text;
    int64_t first; /* rows that earlier steps have done */
    float *sum;    /* [hidden] */
} embed_slot;

typedef struct embed_run {
    engine *e;
    const embed_text *texts;
    const embed_options *options;
    int64_t n_texts, size, n_dims;
    int64_t next;  /* the first text that is in no slot yet */
    int64_t total; /* rows of all texts */
    int64_t done;
    embed_slot *slots; /* [max_seqs]; the first n_open are in use */
    step_part *parts;  /* likewise */
    int n_open;
    float *out;
} embed_run;

const embedding_config *mica_engine_embedding(const engine *e) {
    return e->has_embed_graph ? &e->embedding : NULL;
}

int64_t mica_engine_embedding_size(const engine *e) {
    return mica_model_config(e->model)->hidden_size;
}

int64_t mica_engine_max_embedded(const engine *e) {
    int64_t stated = e->embedding.max_tokens;
    return stated > 0 && stated < e->max_context ? stated : e->max_context;
}

void mica_embed_defaults(const engine *e, embed_options *options) {
    *options =
        (embed_options){.pooling = e->embedding.pooling, .normalize = e->embedding.normalizes};
}

/* ---- pooling ---- */

static mica_status pool_row(void *user, int part, int64_t row, const float *hidden,
                            mica_error *err) {
    const embed_run *r = user;
    const embed_slot *s = &r->slots[part];
    int64_t i = s->first + row, first = s->text->n_prompt;
    pooling_kind kind = r->options->pooling;
    (void)err;
    if (kind == POOLING_LAST) first = i;
    if (i < first || (kind == POOLING_CLS && i > first)) return MICA_OK;
    float weight = kind == POOLING_WEIGHTED ? (float)(i + 1) : 1.0f;
    for (int64_t k = 0; k < r->size; k++) {
        float x = hidden[k];
        if (i == first)
            s->sum[k] = weight * x;
        else if (kind == POOLING_MAX)
            s->sum[k] = x > s->sum[k] ? x : s->sum[k];
        else
            s->sum[k] += weight * x;
    }
    return MICA_OK;
}

/* What a sum is divided by. */
static double divisor(const embed_text *t, pooling_kind kind) {
    double n = (double)t->n_ids, n_left = (double)(t->n_ids - t->n_prompt);
    switch (kind) {
    case POOLING_MEAN:
        return n_left;
    case POOLING_SQRT_MEAN:
        return sqrt(n_left);
    case POOLING_WEIGHTED: /* of the positions n_prompt + 1 to n */
        return n * (n + 1) / 2 - (double)t->n_prompt * ((double)t->n_prompt + 1) / 2;
    default:
        return 1.0;
    }
}

static void finish_vector(const embed_run *r, const embed_slot *s) {
    double by = divisor(s->text, r->options->pooling), squares = 0.0;
    float *out = r->out + (s->text - r->texts) * r->n_dims;
    for (int64_t k = 0; k < r->n_dims; k++) {
        out[k] = (float)((double)s->sum[k] / by);
        squares += (double)out[k] * (double)out[k];
    }
    if (!r->options->normalize) return;
    double length = sqrt(squares);
    if (length < 1e-12) length = 1e-12;
    for (int64_t k = 0; k < r->n_dims; k++)
        out[k] = (float)((double)out[k] / length);
}

/* ---- steps ---- */

static mica_status open_slot(embed_run *r, mica_error *err) {
    embed_slot *s = &r->slots[r->n_open];
    mica_status st = mica_session_new(&s->session, r->e, err);
    if (st) return st;
    s->text = &r->texts[r->next++];
    s->first = 0;
    s->session->n_prompt = s->text->n_ids;
    r->n_open++;
    return MICA_OK;
}

static step_logits rows_wanted(const embed_run *r, const embed_slot *s, int64_t n) {
    if (r->options->pooling != POOLING_LAST) return STEP_ALL_LOGITS;
    return s->first + n == s->text->n_ids ? STEP_LAST_LOGITS : STEP_NO_LOGITS;
}

/* Fills slots and parts: first what goes on from the step before, then new texts. */
static mica_status fill_step(embed_run *r, mica_error *err) {
    bool is_encoder = mica_model_config(r->e->model)->is_encoder;
    int64_t room = r->e->embedder.plan->bound[GRAPH_ROWS];
    for (int i = 0; i < r->e->max_seqs && room > 0; i++) {
        if (i == r->n_open) {
            bool fits = r->next < r->n_texts && !(is_encoder && r->texts[r->next].n_ids > room);
            mica_status st = fits ? open_slot(r, err) : MICA_OK;
            if (st || !fits) return st;
        }
        const embed_slot *s = &r->slots[i];
        int64_t left = s->text->n_ids - s->first, n = left < room ? left : room;
        r->parts[i] = (step_part){.session = s->session,
                                  .ids = s->text->ids + s->first,
                                  .n = n,
                                  .logits = rows_wanted(r, s, n),
                                  .is_open = is_encoder};
        room -= n;
    }
    return MICA_OK;
}

/* Texts that are done leave their slots; one that is not, the last, moves to the front. */
static void close_step(embed_run *r) {
    int n_kept = 0;
    for (int i = 0; i < r->n_open; i++) {
        embed_slot *s = &r->slots[i];
        s->first += r->parts[i].n;
        r->done += r->parts[i].n;
        if (s->first < s->text->n_ids) {
            embed_slot kept = *s;
            *s = r->slots[n_kept];
            r->slots[n_kept++] = kept;
            continue;
        }
        finish_vector(r, s);
        mica_session_free(s->session);
        s->session = NULL;
    }
    r->n_open = n_kept;
}

static mica_status run_steps(embed_run *r, mica_error *err) {
    while (r->next < r->n_texts || r->n_open) {
        mica_status st = fill_step(r, err);
        if (!st) st = mica_step_embed(r->e, r->parts, r->n_open, pool_row, r, err);
        if (st) return st;
        close_step(r);
        const embed_options *o = r->options;
        bool go_on = !o->on_progress || o->on_progress(o->user, r->done, r->total);
        if (!go_on && r->done < r->total)
            return mica_fail(err, MICA_E_CANCELLED, "cancelled after %lld of %lld tokens",
                             (long long)r->done, (long long)r->total);
    }
    return MICA_OK;
}

/* ---- the call ---- */

static mica_status check(embed_run *r, mica_error *err) {
    int64_t most = mica_engine_max_embedded(r->e);
    if (!r->e->has_embed_graph)
        return mica_fail(err, MICA_E_STATE, "the model was not opened to make embeddings");
    if (r->options->n_dims < 0 || r->options->n_dims > r->size)
        return mica_fail(err, MICA_E_INVALID, "%lld dimensions; this model's vectors have %lld",
                         (long long)r->options->n_dims, (long long)r->size);
    for (int64_t i = 0; i < r->n_texts; i++) {
        const embed_text *t = &r->texts[i];
        if (t->n_ids < 1 || t->n_prompt < 0 || t->n_prompt >= t->n_ids)
            return mica_fail(err, MICA_E_INVALID, "text %lld has no token to embed", (long long)i);
        if (t->n_ids > most)
            return mica_fail(err, MICA_E_LIMIT,
                             "text %lld has %lld tokens; this model embeds at most %lld",
                             (long long)i, (long long)t->n_ids, (long long)most);
        mica_status st = mica_step_check_ids(r->e, t->ids, t->n_ids, err);
        if (st) return st;
        r->total += t->n_ids;
    }
    return MICA_OK;
}

mica_status mica_embed(engine *e, const embed_text *texts, int64_t n_texts,
                       const embed_options *options, float *out, mica_error *err) {
    size_t n_slots = (size_t)e->max_seqs;
    embed_run r = {.e = e, .texts = texts, .n_texts = n_texts, .options = options, .out = out};
    r.size = mica_engine_embedding_size(e);
    r.n_dims = options->n_dims > 0 ? options->n_dims : r.size;
    mica_status st = check(&r, err);
    if (st) return st;
    r.slots = mica_calloc(n_slots, sizeof(*r.slots));
    r.parts = mica_calloc(n_slots, sizeof(*r.parts));
    float *sums = mica_calloc(n_slots * (size_t)r.size, sizeof(*sums));
    if (!r.slots || !r.parts || !sums)
        st = mica_fail(err, MICA_E_NOMEM, "out of memory for %zu vectors", n_slots);
    for (size_t i = 0; i < n_slots && !st; i++)
        r.slots[i].sum = sums + i * (size_t)r.size;
    if (!st) st = run_steps(&r, err);
    for (int i = 0; i < r.n_open; i++)
        mica_session_free(r.slots[i].session);
    mica_free(r.slots);
    mica_free(r.parts);
    mica_free(sums);
    return st;
}
