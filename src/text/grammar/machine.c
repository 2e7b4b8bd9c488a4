/* machine.c: machines, matchers and their history. */
#include "text/grammar/machine.h"

#include <string.h>

/* States and masks beyond this are thrown away but for what matchers still need. */
enum { BUDGET_BYTES = 128 << 20, MAX_HISTORY = 1 << 26 };

static mica_status fail_memory(mica_error *err) {
    return mica_fail(err, MICA_E_NOMEM, "out of memory for constrained output");
}

void mica_grammar_free(grammar *g) {
    if (!g) return;
    mica_program_deinit(&g->program);
    mica_free(g);
}

/* ---- machines ---- */

static void free_masks(grammar_machine *m) {
    for (uint32_t i = 0; i < m->n_masks; i++) {
        mica_token_mask_deinit(&m->masks[i]);
    }
    m->n_masks = 0;
    m->mask_bytes = 0;
}

void mica_grammar_machine_free(grammar_machine *m) {
    if (!m) return;
    free_masks(m);
    mica_free(m->masks);
    mica_lazy_deinit(&m->lazy);
    mica_free(m->end_ids);
    mica_free(m->found_ids);
    mica_free(m->found_roots);
    mica_free(m->cover);
    mica_free(m->cover_seen);
    mica_free(m);
}

static mica_status check_end_ids(const int32_t *ids, size_t n, mica_error *err) {
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0)
            return mica_fail(err, MICA_E_INVALID, "end token id %d is negative", ids[i]);
    }
    return MICA_OK;
}

static mica_status init_machine(grammar_machine *m, const int32_t *end_ids, mica_error *err) {
    const grammar_vocab *v = m->vocab;
    m->n_words = v ? GRAMMAR_MASK_WORDS(v->n_ids) : 0;
    m->end_ids = mica_calloc(m->n_end_ids + 1, sizeof(*m->end_ids));
    m->cover = mica_calloc(MACHINE_MAX_COVER, sizeof(*m->cover));
    if (!m->end_ids || !m->cover) return fail_memory(err);
    if (m->n_end_ids) memcpy(m->end_ids, end_ids, m->n_end_ids * sizeof(*end_ids));
    mica_status st = mica_lazy_init(&m->lazy, &m->grammar->program, err);
    if (!st) mica_machine_init_edges(m);
    return st;
}

/* The masks at the beginning of patterns and of other names are the costly ones: they are made
 * along with the machine, so that no token waits for them. */
static mica_status prepare(grammar_machine *m, mica_error *err) {
    const program *p = &m->grammar->program;
    for (uint32_t i = 0; i < p->n_table_starts; i++) {
        uint32_t state = mica_lazy_above_hole(&m->lazy, p->table_starts[i]);
        const token_mask *t;
        mica_status st = mica_lazy_check(&m->lazy, err);
        if (!st && lazy_at(&m->lazy, state)->n) st = mica_machine_mask(m, state, &t, err);
        if (st) return st;
    }
    return MICA_OK;
}

mica_status mica_grammar_machine_new(grammar_machine **out, const grammar *g,
                                     const grammar_vocab *vocab, const int32_t *end_ids,
                                     size_t n_end_ids, mica_error *err) {
    mica_status st = check_end_ids(end_ids, n_end_ids, err);
    if (st) return st;
    if (vocab && g->wants_vocab)
        return mica_fail(err, MICA_E_INVALID,
                         "a grammar that names tokens was compiled without the vocabulary");
    grammar_machine *m = mica_calloc(1, sizeof(*m));
    if (!m) return fail_memory(err);
    m->grammar = g;
    m->vocab = vocab;
    m->n_end_ids = n_end_ids;
    m->budget_bytes = BUDGET_BYTES;
    st = init_machine(m, end_ids, err);
    if (!st && vocab) st = prepare(m, err);
    if (st) {
        mica_grammar_machine_free(m);
        return st;
    }
    *out = m;
    return MICA_OK;
}

grammar_stats mica_grammar_machine_stats(const grammar_machine *m) {
    return (grammar_stats){.n_states = m->lazy.n_states,
                           .n_masks = m->n_masks,
                           .n_flushes = m->n_flushes,
                           .n_bytes = mica_lazy_bytes(&m->lazy) + m->mask_bytes};
}

/* Moves every state of every history; on failure nothing has changed. */
static mica_status import_all(grammar_machine *m, lazy *fresh, uint32_t *stacks, uint32_t *states) {
    for (grammar_matcher *x = m->matchers; x; x = x->next) {
        for (size_t i = 0; i < x->n_history; i++) {
            uint32_t s = x->history[i];
            if (!states[s]) states[s] = mica_lazy_import(fresh, &m->lazy, s, stacks);
        }
    }
    return fresh->status;
}

mica_status mica_machine_trim(grammar_machine *m, mica_error *err) {
    if (mica_lazy_bytes(&m->lazy) + m->mask_bytes < m->budget_bytes) return MICA_OK;
    lazy fresh;
    mica_status st = mica_lazy_init(&fresh, m->lazy.program, err);
    if (st) return st;
    uint32_t *stacks = mica_calloc(m->lazy.n_frames, sizeof(*stacks));
    uint32_t *states = mica_calloc(m->lazy.n_states, sizeof(*states));
    if (!stacks || !states || import_all(m, &fresh, stacks, states)) {
        mica_free(stacks);
        mica_free(states);
        mica_lazy_deinit(&fresh);
        return fail_memory(err);
    }
    for (grammar_matcher *x = m->matchers; x; x = x->next) {
        for (size_t i = 0; i < x->n_history; i++) {
            x->history[i] = states[x->history[i]];
        }
    }
    mica_free(stacks);
    mica_free(states);
    mica_lazy_deinit(&m->lazy);
    m->lazy = fresh;
    m->text_state = STATE_UNKNOWN;
    free_masks(m);
    m->n_flushes++;
    return MICA_OK;
}

/* ---- matchers ---- */

static void link_matcher(grammar_matcher *x, grammar_machine *m) {
    x->machine = m;
    x->next = m->matchers;
    x->link = &m->matchers;
    if (x->next) x->next->link = &x->next;
    m->matchers = x;
}

static mica_status push_history(grammar_matcher *x, uint32_t state, mica_error *err) {
    if (x->n_history == MAX_HISTORY)
        return mica_fail(err, MICA_E_LIMIT, "constrained output of more than %d steps",
                         MAX_HISTORY);
    if (x->n_history == x->capacity) {
        size_t capacity = x->capacity ? 2 * x->capacity : 256;
        void *grown = mica_realloc(x->history, capacity * sizeof(*x->history));
        if (!grown) return fail_memory(err);
        x->history = grown;
        x->capacity = capacity;
    }
    x->history[x->n_history++] = state;
    return MICA_OK;
}

static uint32_t state_of(const grammar_matcher *x) { return x->history[x->n_history - 1]; }

mica_status mica_grammar_matcher_new(grammar_matcher **out, grammar_machine *m, mica_error *err) {
    grammar_matcher *x = mica_calloc(1, sizeof(*x));
    if (!x) return fail_memory(err);
    uint32_t start = mica_lazy_start(&m->lazy);
    mica_status st = mica_lazy_check(&m->lazy, err);
    if (!st) st = push_history(x, start, err);
    if (st) {
        mica_free(x->history);
        mica_free(x);
        return st;
    }
    link_matcher(x, m);
    *out = x;
    return MICA_OK;
}

mica_status mica_grammar_matcher_fork(grammar_matcher **out, const grammar_matcher *m,
                                      mica_error *err) {
    grammar_matcher *x = mica_calloc(1, sizeof(*x));
    uint32_t *history = mica_malloc(m->capacity * sizeof(*history));
    if (!x || !history) {
        mica_free(x);
        mica_free(history);
        return fail_memory(err);
    }
    memcpy(history, m->history, m->n_history * sizeof(*history));
    x->history = history;
    x->n_history = m->n_history;
    x->capacity = m->capacity;
    link_matcher(x, m->machine);
    *out = x;
    return MICA_OK;
}

void mica_grammar_matcher_free(grammar_matcher *m) {
    if (!m) return;
    *m->link = m->next;
    if (m->next) m->next->link = m->link;
    mica_free(m->history);
    mica_free(m);
}

bool mica_grammar_is_complete(const grammar_matcher *m) {
    uint32_t s = state_of(m);
    return s == STATE_DEAD || *lazy_flags(&m->machine->lazy, s) & STATE_ACCEPTS;
}

mica_status mica_grammar_must_end(grammar_matcher *m, bool *out, mica_error *err) {
    (void)err;
    *out = !lazy_at(&m->machine->lazy, state_of(m))->n;
    return MICA_OK;
}

mica_status mica_grammar_mask(grammar_matcher *m, uint64_t *mask, size_t n_words, mica_error *err) {
    grammar_machine *x = m->machine;
    if (n_words < x->n_words) {
        return mica_fail(err, MICA_E_INVALID,
                         "a token mask of %zu words is too short for a vocabulary of %zu", n_words,
                         x->n_words);
    }
    mica_status st = mica_machine_trim(x, err);
    if (st) return st;
    memset(mask + x->n_words, 0, (n_words - x->n_words) * sizeof(*mask));
    if (state_of(m) == STATE_DEAD || !x->vocab)
        memset(mask, 0, x->n_words * sizeof(*mask));
    else
        st = mica_machine_fill(x, state_of(m), mask, err);
    if (st || !mica_grammar_is_complete(m)) return st;
    for (size_t i = 0; i < x->n_end_ids; i++) {
        size_t word = (size_t)x->end_ids[i] >> 6;
        if (word < n_words) mask[word] |= UINT64_C(1) << (x->end_ids[i] & 63);
    }
    return MICA_OK;
}

mica_status mica_grammar_accept_bytes(grammar_matcher *m, const char *bytes, size_t n, bool *ok,
                                      mica_error *err) {
    mica_status st = mica_machine_trim(m->machine, err);
    if (st) return st;
    lazy *l = &m->machine->lazy;
    uint32_t s = state_of(m);
    for (size_t i = 0; i < n && s != STATE_DEAD; i++) {
        s = lazy_step(l, s, (uint8_t)bytes[i]);
    }
    if ((st = mica_lazy_check(l, err))) return st;
    *ok = s != STATE_DEAD || (!n && state_of(m) == STATE_DEAD);
    return *ok ? push_history(m, s, err) : MICA_OK;
}

static bool is_end_id(const grammar_machine *x, int32_t id) {
    for (size_t i = 0; i < x->n_end_ids; i++) {
        if (x->end_ids[i] == id) return true;
    }
    return false;
}

mica_status mica_grammar_accept(grammar_matcher *m, int32_t id, bool *ok, mica_error *err) {
    const grammar_vocab *v = m->machine->vocab;
    if (is_end_id(m->machine, id)) {
        *ok = mica_grammar_is_complete(m);
        return *ok ? push_history(m, STATE_DEAD, err) : MICA_OK;
    }
    size_t n = 0;
    const char *bytes = NULL;
    if (v && id >= 0 && (size_t)id < v->n_ids) bytes = vocab_bytes(v, id, &n);
    *ok = false;
    return n ? mica_grammar_accept_bytes(m, bytes, n, ok, err) : MICA_OK;
}

mica_status mica_grammar_rollback(grammar_matcher *m, size_t n, mica_error *err) {
    if (n >= m->n_history) {
        return mica_fail(err, MICA_E_INVALID, "cannot take back %zu steps: there were %zu", n,
                         m->n_history - 1);
    }
    m->n_history -= n;
    return MICA_OK;
}
