/* masks.c: which tokens fit a state.
 *
 * The mask of a hollow state is made by one walk over the trie. It holds for every state with the
 * same top of the stack; what ends below that is walked each time, from the nodes where the hole
 * was popped. In a state that takes all plain text of so many characters the walk is over a slice's
 * rest.
 */
#include "text/grammar/machine.h"

#include <string.h>

static mica_status fail_memory(mica_error *err) {
    return mica_fail(err, MICA_E_NOMEM, "out of memory for a token mask");
}

void mica_token_mask_deinit(token_mask *t) {
    mica_free(t->dense);
    mica_free(t->ids);
    mica_free(t->roots);
}

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
    uint32_t n;       /* pairs in `cover` */
    uint32_t n_later; /* pairs of the next length, stored from the other end */
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

/* Follows all edges of a pair. False: too many pairs. */
static bool follow_pair(cover_search *c, uint32_t pair, edge_count *count) {
    grammar_machine *m = c->m;
    uint32_t state = pair >> 3, place = pair & 7;
    for (uint32_t i = 0; i < m->n_edges[place]; i++) {
        plain_edge edge = m->edges[place][i];
        size_t at = (size_t)state * m->lazy.n_classes + edge.class;
        uint32_t to = m->lazy.next[at];
        if (!to) to = mica_lazy_compute(&m->lazy, state, edge.class);
        bool is_dead = !m->lazy.states[to].n;
        *(is_dead ? &count->has_dead : &count->has_alive) = true;
        if (is_dead) continue;
        uint32_t next = to << 3 | edge.to;
        if (to >= MACHINE_MAX_COVER_STATES || c->n + c->n_later == MACHINE_MAX_COVER) return false;
        if (!mark_pair(c, next)) continue;
        if (edge.to)
            m->cover[c->n++] = next;
        else
            m->cover[MACHINE_MAX_COVER - ++c->n_later] = next;
    }
    return !(count->has_dead && count->has_alive);
}

/* How many characters of plain text fit, whatever they are. *is_exact: none fits behind those. */
static uint32_t search_cover(cover_search *c, bool *is_exact) {
    grammar_machine *m = c->m;
    uint32_t i = 0;
    *is_exact = false;
    for (uint32_t n_chars = 0; n_chars < SLICE_MAX_CHARS; n_chars++) {
        edge_count count = {0};
        for (; i < c->n; i++) {
            if (!follow_pair(c, m->cover[i], &count)) return n_chars;
        }
        *is_exact = count.has_dead;
        if (*is_exact) return n_chars;
        if (!c->n_later) return SLICE_NO_LIMIT;
        for (; c->n_later > 0; c->n_later--) {
            m->cover[c->n++] = m->cover[MACHINE_MAX_COVER - c->n_later];
        }
    }
    return SLICE_MAX_CHARS;
}

static uint32_t count_cover(grammar_machine *m, uint32_t state, bool *is_exact) {
    cover_search c = {.m = m};
    *is_exact = false;
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

/* The slice that holds in a state, and the trie of the tokens that must be walked. */
static void find_slice(grammar_machine *m, uint32_t state, token_mask *t) {
    const grammar_vocab *v = m->vocab;
    bool is_exact;
    uint32_t n_chars = count_cover(m, state, &is_exact);
    t->trie = &v->all;
    if (n_chars < SLICE_MAX_CHARS && !(is_exact && n_chars)) return;
    t->base = v->slices[n_chars];
    t->trie = n_chars == SLICE_MAX_CHARS && !is_exact ? &v->not_short : &v->not_plain;
}

/* ---- walks ---- */

static void set_ids(uint64_t *mask, const int32_t *ids, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        mask[ids[i] >> 6] |= UINT64_C(1) << (ids[i] & 63);
    }
}

/* Whether a hollow state is the inside of a JSON string without constraints, or of one whose length
 * is far from its bounds: then the mask is known. */
static bool is_text(grammar_machine *m, uint32_t hollow) {
    lazy *l = &m->lazy;
    const program *p = l->program;
    if (!m->vocab->has_text) return false;
    if (!m->text_state) {
        uint32_t start = p->string_start ? mica_lazy_above_hole(l, p->string_start) : STATE_DEAD;
        m->text_state = lazy_step(l, start, '"');
    }
    if (hollow == m->text_state) return true;
    const lazy_state s = l->states[hollow];
    for (uint32_t i = 0; i < s.n; i++) {
        const lazy_frame *f = &l->frames[l->configs[s.first + i].stack];
        if (f->parent != STACK_HOLE || f->count != REPEAT_MANY || !p->nodes[f->node].is_plain)
            continue;
        return mica_lazy_above_hole(l, f->node) == hollow;
    }
    return false;
}

/* The same, looked at once for each state. */
static bool is_known_text(grammar_machine *m, uint32_t state) {
    lazy *l = &m->lazy;
    if (!(l->flags[state] & STATE_LOOKED_AT)) {
        bool is_inside = is_text(m, state);
        l->flags[state] |= is_inside ? STATE_LOOKED_AT | STATE_TEXT : STATE_LOOKED_AT;
    }
    return l->flags[state] & STATE_TEXT;
}

/* Appends to what a walk has found. False: out of memory. */
static bool add_ids(grammar_machine *m, const int32_t *ids, uint32_t n) {
    if (m->n_found_ids + n > m->ids_capacity) {
        uint32_t capacity = 2 * (m->n_found_ids + n) + 1024;
        void *grown = mica_realloc(m->found_ids, capacity * sizeof(*m->found_ids));
        if (!grown) return false;
        m->found_ids = grown;
        m->ids_capacity = capacity;
    }
    memcpy(m->found_ids + m->n_found_ids, ids, n * sizeof(*ids));
    m->n_found_ids += n;
    return true;
}

static bool add_root(grammar_machine *m, uint32_t node) {
    if (m->n_found_roots == m->roots_capacity) {
        uint32_t capacity = 2 * m->roots_capacity + 256;
        void *grown = mica_realloc(m->found_roots, capacity * sizeof(*m->found_roots));
        if (!grown) return false;
        m->found_roots = grown;
        m->roots_capacity = capacity;
    }
    m->found_roots[m->n_found_roots++] = node;
    return true;
}

/* What node i, which leads to state `to`, adds; *next: where the walk goes on. */
static bool take_node(grammar_machine *m, const token_trie *t, uint32_t i, uint32_t to,
                      uint32_t *next) {
    const trie_node *n = &t->nodes[i];
    *next = i + 1;
    if (n->skip > i + 1 && m->lazy.flags[to] & STATE_OPEN && !add_root(m, i)) return false;
    if (n->skip > i + 2 && n->is_plain && is_known_text(m, to)) *next = n->skip;
    if (!n->has_ids && *next == i + 1) return true;
    return add_ids(m, t->ids + t->first[i], t->first[*next] - t->first[i]);
}

/* Collects the tokens that fit whatever is below the hole, and the nodes where it is popped. */
static void walk_hollow(grammar_machine *m, const token_trie *t, uint32_t state) {
    m->n_found_ids = m->n_found_roots = 0;
    m->path[0] = state;
    for (uint32_t i = 1; i < t->n_nodes;) {
        const trie_node *n = &t->nodes[i];
        uint32_t to = lazy_step(&m->lazy, m->path[n->depth - 1], n->byte);
        if (to == STATE_DEAD) {
            i = n->skip;
            continue;
        }
        m->path[n->depth] = to;
        if (!take_node(m, t, i, to, &i)) {
            m->lazy.status = MICA_E_NOMEM;
            return;
        }
    }
}

/* Sets the bits of tokens below node `root` that fit from `state` on. */
static void walk_below(grammar_machine *m, const token_trie *t, uint32_t root, uint32_t state,
                       uint64_t *mask) {
    lazy *l = &m->lazy;
    m->path[t->nodes[root].depth] = state;
    for (uint32_t i = root + 1, end = t->nodes[root].skip; i < end;) {
        const trie_node *n = &t->nodes[i];
        uint32_t to = lazy_step(l, m->path[n->depth - 1], n->byte);
        if (to == STATE_DEAD) {
            i = n->skip;
            continue;
        }
        m->path[n->depth] = to;
        if (n->has_ids) set_ids(mask, t->ids + t->first[i], t->first[i + 1] - t->first[i]);
        i++;
    }
}

/* ---- masks ---- */

static void *copy_items(const void *items, size_t n_bytes) {
    void *copy = mica_malloc(n_bytes);
    if (copy && n_bytes) memcpy(copy, items, n_bytes);
    return copy;
}

/* Many ids take less room as a mask. */
static mica_status store_found(grammar_machine *m, token_mask *t, mica_error *err) {
    size_t ids_bytes = m->n_found_ids * sizeof(*t->ids);
    size_t roots_bytes = m->n_found_roots * sizeof(*t->roots);
    size_t dense_bytes = m->n_words * sizeof(*t->dense);
    if (!t->base && ids_bytes > dense_bytes) {
        t->dense = mica_calloc(m->n_words, sizeof(*t->dense));
        if (t->dense) set_ids(t->dense, m->found_ids, m->n_found_ids);
        m->mask_bytes += dense_bytes;
    } else {
        t->ids = copy_items(m->found_ids, ids_bytes);
        t->n_ids = m->n_found_ids;
        m->mask_bytes += ids_bytes;
    }
    t->roots = copy_items(m->found_roots, roots_bytes);
    t->n_roots = m->n_found_roots;
    m->mask_bytes += roots_bytes + sizeof(*t);
    return t->roots && (t->dense || t->ids) ? MICA_OK : fail_memory(err);
}

#define MASK_OF_TEXT UINT32_MAX

static mica_status make_mask(grammar_machine *m, uint32_t hollow, mica_error *err) {
    if (is_known_text(m, hollow)) {
        m->lazy.states[hollow].mask = MASK_OF_TEXT;
        return MICA_OK;
    }
    if (m->n_masks == m->masks_capacity) {
        uint32_t capacity = m->masks_capacity ? 2 * m->masks_capacity : 32;
        void *grown = mica_realloc(m->masks, capacity * sizeof(*m->masks));
        if (!grown) return fail_memory(err);
        m->masks = grown;
        m->masks_capacity = capacity;
    }
    token_mask t = {0};
    find_slice(m, hollow, &t);
    walk_hollow(m, t.trie, hollow);
    mica_status st = mica_lazy_check(&m->lazy, err);
    if (!st) st = store_found(m, &t, err);
    if (st) {
        mica_token_mask_deinit(&t);
        return st;
    }
    m->masks[m->n_masks++] = t;
    m->lazy.states[hollow].mask = m->n_masks;
    return MICA_OK;
}

mica_status mica_machine_mask(grammar_machine *m, uint32_t hollow, const token_mask **out,
                              mica_error *err) {
    mica_status st = m->lazy.states[hollow].mask ? MICA_OK : make_mask(m, hollow, err);
    if (st) return st;
    uint32_t mask = m->lazy.states[hollow].mask;
    *out = mask == MASK_OF_TEXT ? &m->vocab->text : &m->masks[mask - 1];
    return MICA_OK;
}

/* Long tokens may reach a bound that the hollow state does not have. */
static void redo_far(grammar_machine *m, uint32_t state, uint64_t *mask) {
    lazy *l = &m->lazy;
    const lazy_state s = l->states[state];
    for (uint32_t i = 0; i < m->vocab->n_far_ids; i++) {
        int32_t id = m->vocab->far_ids[i];
        uint64_t bit = UINT64_C(1) << (id & 63);
        size_t n;
        const char *bytes = vocab_bytes(m->vocab, id, &n);
        if (n <= s.near || (!s.has_few && !(mask[id >> 6] & bit))) continue;
        uint32_t to = state;
        for (size_t k = 0; k < n && to != STATE_DEAD; k++) {
            to = lazy_step(l, to, (uint8_t)bytes[k]);
        }
        mask[id >> 6] = to == STATE_DEAD ? mask[id >> 6] & ~bit : mask[id >> 6] | bit;
    }
}

mica_status mica_machine_fill(grammar_machine *m, uint32_t state, uint64_t *mask, mica_error *err) {
    lazy *l = &m->lazy;
    if (!l->states[state].hollow) mica_lazy_hollow(l, state);
    mica_status st = mica_lazy_check(l, err);
    const token_mask *t;
    if (st || (st = mica_machine_mask(m, l->states[state].hollow, &t, err))) return st;
    const uint64_t *base = t->base ? t->base : t->dense;
    if (base)
        memcpy(mask, base, m->n_words * sizeof(*mask));
    else
        memset(mask, 0, m->n_words * sizeof(*mask));
    set_ids(mask, t->ids, t->n_ids);
    uint32_t resume = l->states[state].resume;
    for (uint32_t i = 0; i < t->n_roots; i++) {
        walk_below(m, t->trie, t->roots[i], resume, mask);
    }
    if (l->states[state].near) redo_far(m, state, mask);
    return mica_lazy_check(l, err);
}

/* ---- the text of strings ---- */

/* Takes the mask of the state inside a string from a small grammar. */
mica_status mica_vocab_make_text(grammar_vocab *v, mica_error *err) {
    static const char schema[] = "{\"type\":\"array\",\"items\":{\"type\":\"string\"}}";
    const schema_options options = {.is_compact = true};
    grammar *g = NULL;
    grammar_machine *m = NULL;
    bool is_string = false;
    mica_status st =
        mica_grammar_compile_schema_text(&g, schema, sizeof(schema) - 1, &options, err);
    if (!st) st = mica_grammar_machine_new(&m, g, v, NULL, 0, err);
    if (!st) {
        uint32_t start = mica_lazy_above_hole(&m->lazy, g->program.string_start);
        uint32_t inside = lazy_step(&m->lazy, start, '"');
        is_string = inside != STATE_DEAD;
        const token_mask *t;
        st = mica_machine_mask(m, inside, &t, err);
    }
    if (!st && is_string && m->n_masks == 1) {
        v->text = m->masks[0];
        v->has_text = true;
        m->n_masks = 0; /* its arrays are the vocabulary's now */
    }
    mica_grammar_machine_free(m);
    mica_grammar_free(g);
    return st;
}
