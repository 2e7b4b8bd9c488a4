/* slices.c: masks of plain text, taken whole.
 *
 * Inside strings most of the vocabulary is allowed, and its tokens need no walk: where all text of
 * so many characters fits a slice of the vocabulary is the answer; where all text fits but for some
 * characters (a pattern like [^/]+) it is what is left of the slice without the tokens that hold
 * one of them, and only those are tried (holders.h).
 */
#include "text/grammar/machine.h"

#include <string.h>

/* ---- plain text ---- */

/* Well-formed UTF-8 without what JSON strings escape, as a machine: 0 between characters, 1 to 3 so
 * many bytes to come, 4 to 7 after the lead bytes E0, ED, F0 and F4, which narrow the next one. */
enum { PLAIN_E0 = 4, PLAIN_ED, PLAIN_F0, PLAIN_F4, PLAIN_NONE = 255 };

static uint8_t plain_lead(unsigned c) {
    if (c < 0x80) return c < 0x20 || c == '"' || c == '\\' ? PLAIN_NONE : 0;
    if (c < 0xC2 || c > 0xF4) return PLAIN_NONE;
    if (c < 0xE0) return 1;
    if (c == 0xE0) return PLAIN_E0;
    if (c == 0xED) return PLAIN_ED;
    if (c < 0xF0) return 2;
    if (c == 0xF0) return PLAIN_F0;
    return c == 0xF4 ? PLAIN_F4 : 3;
}

static uint8_t plain_next(unsigned state, unsigned c) {
    static const struct {
        uint8_t low, high, to;
    } rules[N_PLAIN_STATES] = {
        [1] = {0x80, 0xBF, 0},        [2] = {0x80, 0xBF, 1},        [3] = {0x80, 0xBF, 2},
        [PLAIN_E0] = {0xA0, 0xBF, 1}, [PLAIN_ED] = {0x80, 0x9F, 1}, [PLAIN_F0] = {0x90, 0xBF, 2},
        [PLAIN_F4] = {0x80, 0x8F, 2}};
    if (!state) return plain_lead(c);
    return c < rules[state].low || c > rules[state].high ? PLAIN_NONE : rules[state].to;
}

void mica_machine_init_edges(grammar_machine *m) {
    for (unsigned s = 0; s < N_PLAIN_STATES; s++) {
        uint64_t seen[256] = {0}; /* of each class: the targets */
        for (unsigned c = 0; c < 256; c++) {
            uint8_t to = plain_next(s, c), class = m->lazy.program->class_of[c];
            if (to == PLAIN_NONE || seen[class] >> to & 1) continue;
            seen[class] |= UINT64_C(1) << to;
            m->edges[s][m->n_edges[s]++] = (plain_edge){class, to};
        }
    }
}

/* A breadth-first search over pairs (state, place in a character): `cover` holds them as
 * state * 8 + place, those of one length in characters after the other; `cover_seen` has a bit for
 * each place of each state. */
typedef struct cover_search {
    grammar_machine *m;
    uint32_t n;                         /* pairs in `cover` */
    uint32_t n_later;                   /* pairs of the next length, stored from the other end */
    uint32_t ends[SLICE_MAX_CHARS + 1]; /* of the pairs of each length */
    bool is_open;                       /* plain text may pop the hole */
    const bool *skips; /* classes of ASCII characters that are left out; NULL: none */
} cover_search;

/* Room for a state; what is new starts unseen. */
static bool grow_cover(grammar_machine *m, uint32_t state) {
    uint32_t capacity = 2 * state + 1024;
    uint8_t *grown = mica_realloc(m->cover_seen, capacity);
    if (!grown) {
        m->lazy.status = MICA_E_NOMEM;
        return false;
    }
    memset(grown + m->cover_capacity, 0, capacity - m->cover_capacity);
    m->cover_seen = grown;
    m->cover_capacity = capacity;
    return true;
}

/* Remembers the pair; false: it was there before, or there is no more room. */
static bool mark_pair(cover_search *c, uint32_t pair) {
    grammar_machine *m = c->m;
    if (pair >> 3 >= m->cover_capacity && !grow_cover(m, pair >> 3)) return false;
    uint8_t bit = (uint8_t)(1 << (pair & 7));
    if (m->cover_seen[pair >> 3] & bit) return false;
    m->cover_seen[pair >> 3] |= bit;
    return true;
}

/* What plain text an edge leads into; it counts how many fit and how many do not. */
typedef struct edge_count {
    bool has_alive, has_dead;
} edge_count;

static bool is_skipped(const cover_search *c, uint32_t place, plain_edge edge) {
    return !place && !edge.to && c->skips && c->skips[edge.class];
}

/* Follows all edges of a pair. False: too many pairs, or some edges fit and some do not. */
static bool follow_pair(cover_search *c, uint32_t pair, edge_count *count) {
    grammar_machine *m = c->m;
    uint32_t state = pair >> 3, place = pair & 7;
    for (uint32_t i = 0; i < m->n_edges[place]; i++) {
        plain_edge edge = m->edges[place][i];
        if (is_skipped(c, place, edge)) continue;
        uint32_t to = lazy_row(&m->lazy, state)[edge.class];
        if (!lazy_is_computed(to)) to = mica_lazy_compute(&m->lazy, state, edge.class);
        bool is_dead = to == STATE_DEAD;
        c->is_open |= (*lazy_flags(&m->lazy, to) & STATE_OPEN) != 0;
        *(is_dead ? &count->has_dead : &count->has_alive) = true;
        if (count->has_dead && count->has_alive) return false;
        if (is_dead) continue;
        uint32_t next = to << 3 | edge.to;
        if (to >= MACHINE_MAX_COVER_STATES || c->n + c->n_later == MACHINE_MAX_COVER) return false;
        if (!mark_pair(c, next)) continue;
        if (edge.to)
            m->cover[c->n++] = next;
        else
            m->cover[MACHINE_MAX_COVER - ++c->n_later] = next;
    }
    return true;
}

enum { MAX_EXACT_PAIRS = 512 };

/* Whether so many characters lead to the pair, and no fewer. */
static bool is_of_length(const cover_search *c, uint32_t pair, uint32_t n_chars) {
    uint32_t i = n_chars ? c->ends[n_chars - 1] : 0;
    while (i < c->ends[n_chars] && c->m->cover[i] != pair)
        i++;
    return i < c->ends[n_chars];
}

/* Whether each pair leads to pairs of the next length only (inside a character, of its own): where
 * one is met again that fewer characters lead to, longer text may fit. */
static bool is_layered(const cover_search *c, uint32_t n_chars) {
    grammar_machine *m = c->m;
    if (c->n > MAX_EXACT_PAIRS) return false;
    for (uint32_t length = 0, i = 0; length < n_chars; length++) {
        for (; i < c->ends[length]; i++) {
            uint32_t state = m->cover[i] >> 3, place = m->cover[i] & 7;
            for (uint32_t k = 0; k < m->n_edges[place]; k++) {
                plain_edge edge = m->edges[place][k];
                if (is_skipped(c, place, edge)) continue;
                uint32_t to = lazy_row(&m->lazy, state)[edge.class];
                if (!is_of_length(c, to << 3 | edge.to, length + !edge.to)) return false;
            }
        }
    }
    return true;
}

/* How many characters of plain text fit, whatever they are. *is_exact: none fits behind those, not
 * even behind the hole. */
static uint32_t search_cover(cover_search *c, bool *is_exact) {
    grammar_machine *m = c->m;
    uint32_t i = 0;
    *is_exact = false;
    for (uint32_t n_chars = 0; n_chars < SLICE_MAX_CHARS; n_chars++) {
        edge_count count = {0};
        for (; i < c->n; i++) {
            if (!follow_pair(c, m->cover[i], &count)) return n_chars;
        }
        c->ends[n_chars] = c->n;
        *is_exact = count.has_dead && !c->is_open && is_layered(c, n_chars);
        if (count.has_dead) return n_chars;
        if (!c->n_later) return SLICE_NO_LIMIT;
        for (; c->n_later > 0; c->n_later--) {
            m->cover[c->n++] = m->cover[MACHINE_MAX_COVER - c->n_later];
        }
    }
    return SLICE_MAX_CHARS;
}

/* The same for a state that is between two rounds of a counted repeat of plain characters, from its
 * bounds alone. */
static bool count_rounds(grammar_machine *m, uint32_t state, uint32_t *n_chars, bool *is_exact) {
    lazy *l = &m->lazy;
    const lazy_state *s = lazy_at(l, state);
    for (uint32_t i = 0; i < s->n; i++) {
        lazy_frame f = l->frames[s->configs[i].stack];
        const program_node *n = &l->program->nodes[f.node];
        if (s->configs[i].stack <= STACK_HOLE || !n->is_plain) continue;
        if (mica_lazy_round(l, f.node, f.count, f.parent) != state) return false;
        *is_exact = f.count < REPEAT_COARSE && n->max != EXPR_UNBOUNDED &&
                    n->max - f.count <= SLICE_MAX_CHARS;
        *n_chars = *is_exact ? (uint32_t)(n->max - f.count) : SLICE_NO_LIMIT;
        if (!*is_exact && f.count < REPEAT_COARSE && n->max != EXPR_UNBOUNDED)
            *n_chars = SLICE_MAX_CHARS;
        return true;
    }
    return false;
}

static uint32_t count_cover(grammar_machine *m, uint32_t state, const bool *skips, bool *is_exact) {
    cover_search c = {.m = m, .skips = skips};
    uint32_t n_rounds;
    *is_exact = false;
    if (!skips && count_rounds(m, state, &n_rounds, is_exact)) return n_rounds;
    if (state >= MACHINE_MAX_COVER_STATES) return 0;
    if (!mark_pair(&c, state << 3)) return 0;
    m->cover[c.n++] = state << 3;
    uint32_t n_chars = search_cover(&c, is_exact);
    for (uint32_t i = 0; i < c.n; i++) {
        m->cover_seen[m->cover[i] >> 3] = 0;
    }
    for (uint32_t i = 1; i <= c.n_later; i++) {
        m->cover_seen[m->cover[MACHINE_MAX_COVER - i] >> 3] = 0;
    }
    return n_chars;
}

/* ---- all text but some characters ---- */

enum { MIN_LOOP_CHARS = 24, N_ASCII = 128 };

/* From a state most characters lead to `target`, and from there back to it. */
typedef struct loop_slice {
    grammar_machine *m;
    uint32_t state, target;
    uint32_t targets[SLICE_MAX_CHARS + 1]; /* behind so many characters: the target, or its later */
    uint32_t from_state[N_ASCII], from_target[N_ASCII]; /* where they lead; DEAD where not plain */
    /* The same for all characters beyond ASCII, STATE_UNKNOWN: not all of them to one state. */
    uint32_t other_from_state, other_from_target;
    bool is_out[N_CHARS]; /* does not lead back to the target */
} loop_slice;

/* Where all characters beyond ASCII lead that begin at a place; *to UNKNOWN at first. False: not to
 * one state. */
static bool follow_other(grammar_machine *m, uint32_t state, uint32_t place, uint32_t *to) {
    for (uint32_t i = 0; i < m->n_edges[place]; i++) {
        plain_edge edge = m->edges[place][i];
        if (!place && !edge.to) continue; /* ASCII */
        uint32_t next = lazy_row(&m->lazy, state)[edge.class];
        if (!lazy_is_computed(next)) next = mica_lazy_compute(&m->lazy, state, edge.class);
        if (next != STATE_DEAD && edge.to) {
            if (!follow_other(m, next, edge.to, to)) return false;
            continue;
        }
        if (*to && *to != next) return false;
        *to = next;
    }
    return true;
}

static uint32_t step_other(grammar_machine *m, uint32_t state) {
    uint32_t to = STATE_UNKNOWN;
    return follow_other(m, state, 0, &to) ? to : STATE_UNKNOWN;
}

static bool is_plain_ascii(unsigned c) { return c >= 0x20 && c < 0x80 && c != '"' && c != '\\'; }

static void step_all(grammar_machine *m, uint32_t state, uint32_t *to) {
    for (unsigned c = 0; c < N_ASCII; c++) {
        to[c] = is_plain_ascii(c) ? lazy_step(&m->lazy, state, (uint8_t)c) : STATE_DEAD;
    }
}

/* The state that most characters lead to, if any has most of them; DEAD: few are alive. */
static uint32_t find_target(const uint32_t *to) {
    uint32_t target = STATE_DEAD;
    int votes = 0, n_alive = 0;
    for (unsigned c = 0; c < N_ASCII; c++) {
        if (to[c] == STATE_DEAD) continue;
        n_alive++;
        if (!votes) target = to[c];
        votes += to[c] == target ? 1 : -1;
    }
    return n_alive < MIN_LOOP_CHARS ? STATE_DEAD : target;
}

/* Whether text that ends here may go on behind the hole: then no token is judged by what follows
 * above it. */
static bool is_open(const grammar_machine *m, uint32_t state) {
    return *lazy_flags(&m->lazy, state) & STATE_OPEN;
}

static bool find_loop(loop_slice *s, grammar_machine *m, uint32_t state) {
    *s = (loop_slice){.m = m, .state = state};
    step_all(m, state, s->from_state);
    s->target = find_target(s->from_state);
    if (s->target == STATE_DEAD || is_open(m, s->target)) return false;
    step_all(m, s->target, s->from_target);
    int n_loops = 0;
    for (uint32_t i = 0; i <= SLICE_MAX_CHARS; i++)
        s->targets[i] = s->target;
    for (unsigned c = 0; c < N_ASCII; c++) {
        s->is_out[c] = is_plain_ascii(c) && s->from_target[c] != s->target;
        n_loops += is_plain_ascii(c) && !s->is_out[c];
    }
    if (n_loops < MIN_LOOP_CHARS) return false;
    s->other_from_state = step_other(m, state);
    s->other_from_target = step_other(m, s->target);
    s->is_out[CHARS_OTHER] = s->other_from_target != s->target;
    /* Tokens with characters beyond ASCII are too many to be tried one by one. */
    if (s->is_out[CHARS_OTHER])
        return s->other_from_target == STATE_DEAD && s->other_from_state == STATE_DEAD;
    return s->other_from_state == s->target || s->other_from_state == STATE_DEAD;
}

/* Whether tokens that hold an `out` character may be allowed. */
static bool is_odd(const loop_slice *s, unsigned c) {
    return c < N_ASCII && s->is_out[c] &&
           (s->from_target[c] != STATE_DEAD || s->from_state[c] != STATE_DEAD);
}

static bool are_odd_few(const loop_slice *s) {
    const grammar_vocab *v = s->m->vocab;
    size_t n = 0;
    for (unsigned c = 0; c < N_ASCII; c++) {
        if (is_odd(s, c)) n += v->n_with[c];
    }
    return n <= holders_max(v->n_ids);
}

/* The masks of all `out` characters, those of a whole kind as one. */
static uint32_t list_out(const loop_slice *s, const uint64_t **masks) {
    bool is_whole[N_CHARS];
    uint32_t n = 0;
    memset(is_whole, true, sizeof(is_whole));
    for (unsigned c = 0; c < N_ASCII; c++) {
        if (is_plain_ascii(c) && !s->is_out[c])
            is_whole[mica_kind_of_char((unsigned char)c)] = false;
    }
    for (unsigned c = 0; c < N_ASCII; c++) {
        int kind = s->is_out[c] ? mica_kind_of_char((unsigned char)c) : 0;
        if (s->is_out[c] && !(kind >= CHARS_OTHER && is_whole[kind]))
            masks[n++] = s->m->vocab->with[c];
    }
    for (int kind = CHARS_LOWER; kind < N_CHARS; kind++) {
        if (is_whole[kind]) masks[n++] = s->m->vocab->with[kind];
    }
    if (s->is_out[CHARS_OTHER]) masks[n++] = s->m->vocab->with[CHARS_OTHER];
    return n;
}

static void fill_loop(const loop_slice *s, const uint64_t *plain, uint64_t *mask) {
    enum { BLOCK = 64 }; /* words that stay at hand while all masks are read */
    const uint64_t *masks[N_CHARS];
    uint32_t n = list_out(s, masks);
    for (size_t from = 0; from < s->m->n_words; from += BLOCK) {
        size_t n_words = s->m->n_words - from < BLOCK ? s->m->n_words - from : BLOCK;
        uint64_t out[BLOCK] = {0};
        for (uint32_t k = 0; k < n; k++) {
            for (size_t w = 0; w < n_words; w++) {
                out[w] |= masks[k][from + w];
            }
        }
        for (size_t w = 0; w < n_words; w++) {
            mask[from + w] = plain[from + w] & ~out[w];
        }
    }
}

/* Whether the node of the first n bytes of a token, where the hole is popped, is one of those that
 * try_prefixes notes: nothing on the way is `out`, and from the target that leads nowhere else. */
static bool is_noted(const loop_slice *s, const holder *h, uint32_t n) {
    size_t n_all;
    const char *bytes = vocab_bytes(s->m->vocab, h->id, &n_all);
    bool is_good = s->targets[1] == s->targets[SLICE_MAX_CHARS] && !is_open(s->m, s->target);
    for (uint32_t i = 0; i < n && is_good; i++) {
        unsigned c = (unsigned char)bytes[i];
        is_good = !s->is_out[c < N_ASCII ? c : CHARS_OTHER];
    }
    return is_good;
}

/* Goes on with a token whose first n_shared bytes led to states[n_shared]; *n_alive: how many of
 * all its bytes lead on. False: the hole is popped inside. */
static bool follow_holder(const loop_slice *s, const holder *h, const char *text, uint32_t *states,
                          uint32_t *n_alive) {
    lazy *l = &s->m->lazy;
    for (uint32_t i = h->n_shared; i < h->n_bytes; i++) {
        *n_alive = i;
        if (i && is_open(s->m, states[i]) && !is_noted(s, h, i)) return false;
        states[i + 1] = lazy_step(l, states[i], (uint8_t)text[i - h->n_shared]);
        if (states[i + 1] == STATE_DEAD) return true;
    }
    *n_alive = h->n_bytes;
    return true;
}

/* Sets the bits of the plain tokens with character c that fit. False: the hole is popped inside. */
static bool try_holders(const loop_slice *s, unsigned c, uint64_t *mask) {
    const token_holders *all = &s->m->vocab->holders;
    const char *text = all->text + all->text_first[c];
    uint32_t states[TRIE_MAX_DEPTH + 1] = {s->state}, n_alive = 0;
    for (uint32_t i = all->first[c]; i < all->first[c + 1]; i++) {
        const holder *h = &all->items[i];
        /* Where the one before died in what they share, so does this one. */
        if (h->n_shared <= n_alive && !follow_holder(s, h, text, states, &n_alive)) return false;
        if (n_alive == h->n_bytes) mask[h->id >> 6] |= UINT64_C(1) << (h->id & 63);
        text += h->n_bytes - h->n_shared;
    }
    return true;
}

/* Plain tokens with a character that leads elsewhere. */
static bool try_odd(const loop_slice *s, uint64_t *mask) {
    for (unsigned c = 0; c < N_ASCII; c++) {
        if (is_odd(s, c) && !try_holders(s, c, mask)) return false;
    }
    return true;
}

/* What a byte behind a prefix of plain text that did not lead to the target means for the tokens
 * that go on with it. */
typedef enum prefix_step {
    PREFIX_KNOWN, /* their bits are right already, or try_odd sets them */
    PREFIX_DEAD,
    PREFIX_ON,   /* they are to be looked at one by one */
    PREFIX_FAULT /* they are none of those that can be told so */
} prefix_step;

static prefix_step step_prefix(const loop_slice *s, unsigned c, uint32_t state, uint32_t n_chars,
                               uint32_t *to) {
    if (c < N_ASCII && (!is_plain_ascii(c) || is_odd(s, c))) return PREFIX_KNOWN;
    *to = lazy_step(&s->m->lazy, state, (uint8_t)c);
    bool is_out = s->is_out[c < N_ASCII ? c : CHARS_OTHER];
    if (is_out) return *to == STATE_DEAD ? PREFIX_KNOWN : PREFIX_FAULT;
    if (*to == STATE_DEAD) return PREFIX_DEAD;
    uint32_t target = s->targets[n_chars < SLICE_MAX_CHARS ? n_chars : SLICE_MAX_CHARS];
    return *to == target ? PREFIX_KNOWN : PREFIX_ON;
}

static void clear_ids(const token_trie *t, uint32_t node, uint64_t *mask) {
    for (uint32_t k = t->ranges[node].first; k < t->ranges[node].end; k++) {
        mask[t->ids[k] >> 6] &= ~(UINT64_C(1) << (t->ids[k] & 63));
    }
}

/* Plain ones; the others are walked. */
static void set_own_ids(const loop_slice *s, uint32_t node, uint64_t *mask) {
    const token_trie *t = &s->m->vocab->all;
    const uint64_t *plain = s->m->vocab->slices[SLICE_NO_LIMIT];
    for (uint32_t k = t->ranges[node].first; k < t->ranges[node].own_end; k++) {
        mask[t->ids[k] >> 6] |= plain[t->ids[k] >> 6] & UINT64_C(1) << (t->ids[k] & 63);
    }
}

/* Tokens that begin with what does not lead to the target, down to where it does; noting where the
 * hole is popped. False: there are too many of them. */
static bool try_prefixes(const loop_slice *s, uint64_t *mask) {
    grammar_machine *m = s->m;
    const token_trie *t = &m->vocab->all;
    const trie_node *root = &t->nodes[0];
    size_t n_left = 4 * holders_max(m->vocab->n_ids);
    uint8_t n_chars[TRIE_MAX_DEPTH + 1] = {0}; /* before each level */
    trie_level *level = m->levels;
    *level = (trie_level){
        .at = root->children, .end = root->children + root->n_children, .state = s->state};
    for (;;) {
        if (level->at == level->end) {
            if (level == m->levels) return true;
            level--;
            continue;
        }
        uint32_t i = level->at++, to;
        const trie_node *n = &t->nodes[i];
        if (level == m->levels && n->byte >= N_ASCII && s->other_from_state == s->target) continue;
        uint8_t *behind = &n_chars[level - m->levels + 1];
        *behind = (uint8_t)(behind[-1] + ((n->byte & 0xC0) != 0x80));
        prefix_step step = step_prefix(s, n->byte, level->state, *behind, &to);
        if (step == PREFIX_FAULT || !n_left--) return false;
        if (step == PREFIX_DEAD) clear_ids(t, i, mask);
        if (step != PREFIX_ON) continue;
        if (n->flags & TRIE_HAS_IDS) set_own_ids(s, i, mask);
        if (n->n_children && is_open(m, to) && !mica_machine_add_root(m, i)) {
            m->lazy.status = MICA_E_NOMEM;
            return false;
        }
        level++;
        *level = (trie_level){.at = n->children, .end = n->children + n->n_children, .state = to};
    }
}

/* Makes t->dense of the tokens of a slice that fit. False: it cannot. */
static bool take_tokens(const loop_slice *s, const uint64_t *slice, token_mask *t) {
    grammar_machine *m = s->m;
    uint64_t *mask = mica_malloc(m->n_words * sizeof(*mask));
    if (!mask) {
        m->lazy.status = MICA_E_NOMEM;
        return false;
    }
    fill_loop(s, slice, mask);
    if (!try_prefixes(s, mask) || !try_odd(s, mask)) {
        mica_free(mask);
        m->n_found_roots = 0;
        return false;
    }
    t->dense = mask;
    m->mask_bytes += m->n_words * sizeof(*mask);
    return true;
}

/* All plain tokens. */
static bool take_loop(grammar_machine *m, uint32_t state, token_mask *t) {
    loop_slice s;
    return m->vocab->has_text && find_loop(&s, m, state) && are_odd_few(&s) &&
           take_tokens(&s, m->vocab->slices[SLICE_NO_LIMIT], t);
}

/* Behind so many characters, of those that most do the same as. */
static void find_targets(loop_slice *s) {
    unsigned c = 0;
    while (c < N_ASCII && (!is_plain_ascii(c) || s->is_out[c] || s->from_state[c] != s->target))
        c++;
    uint32_t at = s->target;
    for (uint32_t i = 1; i <= SLICE_MAX_CHARS; i++) {
        s->targets[i] = at;
        at = c < N_ASCII ? lazy_step(&s->m->lazy, at, (uint8_t)c) : STATE_DEAD;
    }
}

/* Most characters lead to a target, and behind it text without those that are `out` fits, as far as
 * short tokens reach or to a bound: a counted repeat of a pattern, as a table. *n_chars: of the
 * slice; *is_exact: no more fit. */
static bool find_chain(loop_slice *s, grammar_machine *m, uint32_t state, uint32_t *n_chars,
                       bool *is_exact) {
    bool skips[256] = {false};
    *s = (loop_slice){.m = m, .state = state};
    step_all(m, state, s->from_state);
    s->target = find_target(s->from_state);
    if (s->target == STATE_DEAD) return false;
    step_all(m, s->target, s->from_target);
    uint32_t next = find_target(s->from_target);
    s->other_from_state = step_other(m, state);
    if (step_other(m, s->target) != next ||
        (s->other_from_state != s->target && s->other_from_state != STATE_DEAD))
        return false;
    for (unsigned c = 0; c < N_ASCII; c++) {
        s->is_out[c] = is_plain_ascii(c) && s->from_target[c] != next;
        if (!s->is_out[c]) continue;
        s->from_target[c] = s->target; /* later on it may fit, whether it does here or not */
        skips[m->lazy.program->class_of[c]] = true;
    }
    if (!are_odd_few(s)) return false;
    find_targets(s);
    uint32_t n_later = count_cover(m, s->target, skips, is_exact);
    *n_chars = n_later < SLICE_MAX_CHARS ? n_later + 1 : SLICE_MAX_CHARS;
    if (*is_exact) return n_later < SLICE_MAX_CHARS && !is_open(m, s->target);
    return n_later >= SLICE_MAX_CHARS;
}

/* Short plain tokens. */
static bool take_chain(grammar_machine *m, uint32_t state, token_mask *t) {
    loop_slice s;
    uint32_t n_chars;
    bool is_exact;
    if (!m->vocab->has_text || !find_chain(&s, m, state, &n_chars, &is_exact) ||
        !take_tokens(&s, m->vocab->slices[n_chars], t))
        return false;
    t->trie = is_exact ? &m->vocab->not_plain : &m->vocab->not_short;
    return true;
}

/* Whether every plain character leads back to the state. */
static bool is_loop(grammar_machine *m, uint32_t state) {
    for (unsigned c = 0; c < N_ASCII; c++) {
        if (is_plain_ascii(c) && lazy_step(&m->lazy, state, (uint8_t)c) != state) return false;
    }
    return step_other(m, state) == state;
}

/* Whether all plain text leads to one state, whatever it is, and if only most characters lead
 * there, which ones (*start). */
static bool find_start(grammar_machine *m, uint32_t state, text_start *start) {
    loop_slice s;
    if (is_loop(m, state)) return !is_open(m, state);
    if (!find_loop(&s, m, state) || s.target == state || !is_loop(m, s.target)) return false;
    bool all_lead_there = s.other_from_state == s.target;
    for (unsigned c = 0; c < N_ASCII; c++) {
        start->leads_there[c] = is_plain_ascii(c) && s.from_state[c] == s.target;
        all_lead_there = all_lead_there && (start->leads_there[c] || !is_plain_ascii(c));
    }
    if (all_lead_there) return true;
    const token_mask *t;
    mica_error err;
    /* What ends behind the hole would depend on the first character. */
    mica_status st = mica_machine_mask(m, s.target, &t, &err);
    if (st && !m->lazy.status) m->lazy.status = st;
    if (!st && !t->n_roots) start->target = s.target;
    return false;
}

void mica_machine_find_slice(grammar_machine *m, uint32_t state, token_mask *t, text_start *start) {
    const grammar_vocab *v = m->vocab;
    bool is_exact;
    uint32_t n_chars = count_cover(m, state, NULL, &is_exact);
    *start = (text_start){.target = STATE_DEAD};
    t->trie = &v->all;
    if (n_chars < SLICE_MAX_CHARS && !(is_exact && n_chars)) {
        if (take_loop(m, state, t))
            t->trie = &v->not_plain;
        else
            take_chain(m, state, t);
        return;
    }
    t->base = v->slices[n_chars];
    t->trie = n_chars == SLICE_MAX_CHARS && !is_exact ? &v->not_short : &v->not_plain;
    if (n_chars == SLICE_NO_LIMIT && find_start(m, state, start)) t->trie = &v->tails;
}
