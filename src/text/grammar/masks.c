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
    } rules[N_PLAIN_STATES] = {[1] = {0x80, 0xBF, 0},        [2] = {0x80, 0xBF, 1},
                               [3] = {0x80, 0xBF, 2},        [PLAIN_E0] = {0xA0, 0xBF, 1},
                               [PLAIN_ED] = {0x80, 0x9F, 1}, [PLAIN_F0] = {0x90, 0xBF, 2},
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

enum { MAX_COVER = 4096 };

/* A breadth-first search over pairs (state, place in a character): `cover` holds them as
 * state * 8 + place, those of one length in characters after the other. */
typedef struct cover_search {
    grammar_machine *m;
    uint32_t n;
    uint32_t n_later; /* pairs at the end of `cover` that belong to the next length */
    uint32_t later[64];
} cover_search;

static bool was_seen(const cover_search *c, uint32_t pair) {
    for (uint32_t i = c->n; i-- > 0;) {
        if (c->m->cover[i] == pair) return true;
    }
    for (uint32_t i = 0; i < c->n_later; i++) {
        if (c->later[i] == pair) return true;
    }
    return false;
}

/* Follows all edges of a pair. False: plain text does not fit, or too many pairs. */
static bool follow_pair(cover_search *c, uint32_t pair) {
    grammar_machine *m = c->m;
    uint32_t state = pair >> 3, place = pair & 7;
    for (uint32_t i = 0; i < m->n_edges[place]; i++) {
        plain_edge edge = m->edges[place][i];
        size_t at = (size_t)state * m->lazy.n_classes + edge.class;
        uint32_t to = m->lazy.next[at];
        if (!to) to = mica_lazy_compute(&m->lazy, state, edge.class);
        if (!m->lazy.states[to].n) return false;
        uint32_t next = to << 3 | edge.to;
        if (was_seen(c, next)) continue;
        if (edge.to ? c->n == MAX_COVER : c->n_later == 64) return false;
        if (edge.to)
            m->cover[c->n++] = next;
        else
            c->later[c->n_later++] = next;
    }
    return true;
}

/* How many characters of plain text fit, whatever they are; SLICE_NO_LIMIT: any number. */
static uint32_t count_cover(grammar_machine *m, uint32_t state) {
    cover_search c = {.m = m, .n = 1};
    uint32_t max_chars = m->vocab->slices[1].max_chars, i = 0;
    m->cover[0] = state << 3;
    for (uint32_t n_chars = 0; n_chars < max_chars; n_chars++) {
        for (; i < c.n; i++) {
            if (!follow_pair(&c, m->cover[i])) return n_chars;
        }
        if (!c.n_later) return SLICE_NO_LIMIT;
        if (c.n + c.n_later > MAX_COVER) return n_chars;
        memcpy(m->cover + c.n, c.later, c.n_later * sizeof(*c.later));
        c.n += c.n_later;
        c.n_later = 0;
    }
    return max_chars;
}

static const vocab_slice *find_slice(grammar_machine *m, uint32_t state) {
    uint32_t n_chars = count_cover(m, state);
    for (int i = 0; i < N_SLICES; i++) {
        if (m->vocab->slices[i].max_chars <= n_chars) return &m->vocab->slices[i];
    }
    return NULL;
}

/* ---- walks ---- */

/* Collects the tokens that fit whatever is below the hole, and the nodes where it is popped. */
static void walk_hollow(grammar_machine *m, const token_trie *t, uint32_t state) {
    lazy *l = &m->lazy;
    uint32_t n_ids = 0, n_roots = 0;
    m->path[0] = state;
    for (uint32_t i = 1; i < t->n_nodes;) {
        const trie_node *n = &t->nodes[i];
        uint32_t to = lazy_step(l, m->path[n->depth - 1], n->byte);
        if (to == STATE_DEAD) {
            i = n->skip;
            continue;
        }
        m->path[n->depth] = to;
        for (uint32_t k = 0; k < n->n_ids; k++) {
            m->found_ids[n_ids++] = t->ids[n->first + k];
        }
        if (l->flags[to] & STATE_OPEN && n->skip > i + 1) m->found_roots[n_roots++] = i;
        i++;
    }
    m->n_found_ids = n_ids;
    m->n_found_roots = n_roots;
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
        for (uint32_t k = 0; k < n->n_ids; k++) {
            int32_t id = t->ids[n->first + k];
            mask[id >> 6] |= UINT64_C(1) << (id & 63);
        }
        i++;
    }
}

/* ---- masks ---- */

static void set_ids(uint64_t *mask, const int32_t *ids, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        mask[ids[i] >> 6] |= UINT64_C(1) << (ids[i] & 63);
    }
}

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
    if (!t->slice && ids_bytes > dense_bytes) {
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

static mica_status make_mask(grammar_machine *m, uint32_t hollow, mica_error *err) {
    if (m->n_masks == m->masks_capacity) {
        uint32_t capacity = m->masks_capacity ? 2 * m->masks_capacity : 32;
        void *grown = mica_realloc(m->masks, capacity * sizeof(*m->masks));
        if (!grown) return fail_memory(err);
        m->masks = grown;
        m->masks_capacity = capacity;
    }
    token_mask t = {.slice = find_slice(m, hollow)};
    walk_hollow(m, t.slice ? &t.slice->rest : &m->vocab->all, hollow);
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

mica_status mica_machine_mask(grammar_machine *m, uint32_t hollow, uint32_t *index,
                              mica_error *err) {
    mica_status st = m->lazy.states[hollow].mask ? MICA_OK : make_mask(m, hollow, err);
    if (!st) *index = m->lazy.states[hollow].mask - 1;
    return st;
}

mica_status mica_machine_fill(grammar_machine *m, uint32_t state, uint64_t *mask,
                              mica_error *err) {
    lazy *l = &m->lazy;
    if (!l->states[state].hollow) mica_lazy_hollow(l, state);
    mica_status st = mica_lazy_check(l, err);
    uint32_t index;
    if (st || (st = mica_machine_mask(m, l->states[state].hollow, &index, err))) return st;
    const token_mask *t = &m->masks[index];
    const uint64_t *base = t->slice ? t->slice->mask : t->dense;
    if (base)
        memcpy(mask, base, m->n_words * sizeof(*mask));
    else
        memset(mask, 0, m->n_words * sizeof(*mask));
    set_ids(mask, t->ids, t->n_ids);
    const token_trie *trie = t->slice ? &t->slice->rest : &m->vocab->all;
    uint32_t resume = l->states[state].resume;
    for (uint32_t i = 0; i < t->n_roots; i++) {
        walk_below(m, trie, t->roots[i], resume, mask);
    }
    return mica_lazy_check(l, err);
}
