/* session.c: one sequence: its cache and its token log, and running ids through it in chunks.
 *
 * The log is as long as the cache at every moment: the cache's length is the only count. Ids of a
 * step in flight lie behind the log and join it when the cache commits.
 */
#include "engine/runtime.h"

mica_status mica_session_new(session **out, engine *e, mica_error *err) {
    mica_status st = MICA_OK;
    session *s = mica_calloc(1, sizeof(*s));
    if (!s) return mica_fail(err, MICA_E_NOMEM, "out of memory for a session");
    s->engine = e;
    s->tokens = mica_calloc((size_t)e->max_context, sizeof(*s->tokens));
    s->roles = mica_calloc((size_t)e->max_context, sizeof(*s->roles));
    if (!s->tokens || !s->roles) {
        st = mica_fail(err, MICA_E_NOMEM, "out of memory for a log of %lld tokens",
                       (long long)e->max_context);
        goto out;
    }
    if ((st = mica_kv_seq_new(&s->seq, e->pool, err))) goto out;
    *out = s;
    s = NULL;
out:
    mica_session_free(s);
    return st;
}

void mica_session_free(session *s) {
    if (!s) return;
    mica_kv_seq_free(s->seq);
    mica_free(s->tokens);
    mica_free(s->roles);
    mica_free(s);
}

int64_t mica_session_length(const session *s) { return mica_kv_length(s->seq); }

const int32_t *mica_session_tokens(const session *s, int64_t *n) {
    *n = mica_kv_length(s->seq);
    return s->tokens;
}

row_role mica_session_role(const session *s, int64_t pos) { return (row_role)s->roles[pos]; }

mica_status mica_session_trim(session *s, int64_t n, mica_error *err) {
    return mica_kv_trim(s->seq, n, err);
}

/* Translates rows of a chunk to rows of the whole call. */
typedef struct chunk_user {
    const eval_options *options;
    int64_t done;
} chunk_user;

static mica_status on_chunk_logits(void *user, int part, int64_t row, const float *logits,
                                   mica_error *err) {
    const chunk_user *c = user;
    (void)part;
    return c->options->on_logits(c->options->user, c->done + row, logits, err);
}

static int64_t rows_per_step(const engine *e, const runner *r, const eval_options *options) {
    int64_t n = options->role == ROLE_PROMPT ? e->chunk : r->plan->bound[GRAPH_ROWS];
    if (options->on_logits && options->all_logits && n > r->plan->bound[GRAPH_LOGITS])
        n = r->plan->bound[GRAPH_LOGITS];
    return n;
}

static step_logits logits_wanted(const eval_options *options, bool is_last) {
    if (!options->on_logits) return STEP_NO_LOGITS;
    if (options->all_logits) return STEP_ALL_LOGITS;
    return is_last ? STEP_LAST_LOGITS : STEP_NO_LOGITS;
}

static mica_status check_room(const session *s, int64_t n_ids, mica_error *err) {
    int64_t length = mica_kv_length(s->seq), max = s->engine->max_context;
    if (n_ids <= 0) return mica_fail(err, MICA_E_INVALID, "there are no tokens to run");
    if (n_ids <= max - length) return MICA_OK;
    if (!length)
        return mica_fail(err, MICA_E_LIMIT, "%lld tokens do not fit the context of %lld",
                         (long long)n_ids, (long long)max);
    return mica_fail(err, MICA_E_LIMIT, "%lld tokens after %lld do not fit the context of %lld",
                     (long long)n_ids, (long long)length, (long long)max);
}

/* ids in chunks; every chunk is a transaction of its own. */
static mica_status run_chunks(session *s, const int32_t *ids, int64_t n_ids,
                              const eval_options *options, mica_error *err) {
    engine *e = s->engine;
    int64_t per_step = rows_per_step(e, mica_engine_runner(e, options->role), options);
    chunk_user user = {options, 0};
    while (user.done < n_ids) {
        int64_t n = n_ids - user.done < per_step ? n_ids - user.done : per_step;
        step_part part = {.session = s,
                          .ids = ids + user.done,
                          .n = n,
                          .logits = logits_wanted(options, user.done + n == n_ids)};
        mica_status st = mica_step_run(e, options->role, &part, 1, on_chunk_logits, &user, err);
        if (st) return st;
        user.done += n;
        bool go_on = !options->on_progress || options->on_progress(options->user, user.done, n_ids);
        if (!go_on && user.done < n_ids)
            return mica_fail(err, MICA_E_CANCELLED, "cancelled after %lld of %lld tokens",
                             (long long)user.done, (long long)n_ids);
    }
    return MICA_OK;
}

/* The log once more, each row in its role, into a sequence of its own that replaces the old one
 * only when all went well. */
static mica_status run_log_again(session *s, mica_error *err) {
    kv_seq *old = s->seq, *fresh = NULL;
    int64_t n = mica_kv_length(old), pos = 0;
    mica_status st = mica_kv_seq_new(&fresh, s->engine->pool, err);
    if (st) return st;
    s->seq = fresh;
    while (!st && pos < n) {
        int64_t end = pos + 1;
        while (end < n && s->roles[end] == s->roles[pos])
            end++;
        const eval_options options = {.role = (row_role)s->roles[pos]};
        st = run_chunks(s, s->tokens + pos, end - pos, &options, err);
        pos = end;
    }
    if (st) s->seq = old;
    mica_kv_seq_free(st ? fresh : old);
    return st;
}

static mica_status check_kind(const session *s, const eval_options *options, mica_error *err) {
    if (!options->on_logits || !mica_engine_is_diffusion(s->engine)) return MICA_OK;
    return mica_fail(
        err, MICA_E_UNSUPPORTED,
        "a diffusion model (%s) has no next-token logits: it denoises whole blocks; use "
        "mica generate, or mica logits with --canvas",
        mica_model_config(s->engine->model)->arch);
}

mica_status mica_session_eval(session *s, const int32_t *ids, int64_t n_ids,
                              const eval_options *options, mica_error *err) {
    int64_t length = mica_kv_length(s->seq), before = s->n_prompt;
    mica_status st = check_kind(s, options, err);
    if (st) return st;
    if ((st = check_room(s, n_ids, err))) return st;
    if ((st = mica_step_check_ids(s->engine, ids, n_ids, err))) return st;
    int64_t n_then = length + n_ids > options->n_prompt ? length + n_ids : options->n_prompt;
    int64_t n_now = length > before ? length : before;
    s->n_prompt = options->n_prompt ? options->n_prompt : length + n_ids;
    if (length && mica_model_rope_switches(s->engine->model, n_now, n_then)) {
        s->n_prompt = n_then;
        if ((st = run_log_again(s, err))) {
            s->n_prompt = before;
            return st;
        }
    }
    return run_chunks(s, ids, n_ids, options, err);
}
