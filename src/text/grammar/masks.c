/* masks.c: which tokens fit a state.
 *
 * The mask of a hollow state is made by one walk over the trie. It holds for every state with the
 * same top of the stack; what ends below that is walked each time, from the nodes where the hole
 * was popped. In a state that takes all plain text of so many characters the walk is over a slice's
 * rest. Where white space may come first, its tokens and the nodes behind them are the
 * vocabulary's.
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
    const lazy_state s = *lazy_at(l, hollow);
    for (uint32_t i = 0; i < s.n; i++) {
        const lazy_frame *f = &l->frames[s.configs[i].stack];
        if (f->parent != STACK_HOLE || f->count != REPEAT_MANY || !p->nodes[f->node].is_plain)
            continue;
        return mica_lazy_above_hole(l, f->node) == hollow;
    }
    return false;
}

/* The same, looked at once for each state. */
static bool is_known_text(grammar_machine *m, uint32_t state) {
    uint8_t flags = *lazy_flags(&m->lazy, state);
    if (flags & STATE_LOOKED_AT) return flags & STATE_TEXT;
    bool is_inside = is_text(m, state);
    *lazy_flags(&m->lazy, state) |= is_inside ? STATE_LOOKED_AT | STATE_TEXT : STATE_LOOKED_AT;
    return is_inside;
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

bool mica_machine_add_root(grammar_machine *m, uint32_t node) {
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

/* Counting needs a state for each round; where no token below node i reaches a bound, one state
 * does for all. */
static uint32_t widen(grammar_machine *m, const token_trie *t, uint32_t i, uint32_t state) {
    if (!(*lazy_flags(&m->lazy, state) & STATE_WIDENED)) mica_lazy_widen(&m->lazy, state);
    const lazy_state *s = lazy_at(&m->lazy, state);
    return s->wide && t->ranges[i].height <= s->wide_near ? s->wide : state;
}

/* Goes down to the children of a node that is reached in `state`. */
static trie_level *enter(grammar_machine *m, trie_level *level, const trie_node *n,
                         uint32_t state) {
    *level =
        (trie_level){n->children, n->children + n->n_children, state, lazy_row(&m->lazy, state)};
    return level;
}

/* The next child that fits and its state; 0: there is none. */
static uint32_t next_child(grammar_machine *m, const token_trie *t, trie_level *level,
                           uint32_t *to) {
    const uint8_t *class_of = m->lazy.program->class_of;
    while (level->at < level->end) {
        uint32_t i = level->at++, class = class_of[t->nodes[i].byte];
        *to = level->row[class];
        if (!lazy_is_computed(*to)) *to = mica_lazy_compute(&m->lazy, level->state, class);
        if (*to != STATE_DEAD) return i;
    }
    return 0;
}

/* What node i, which leads to state *to, adds. *is_whole: nothing below it is left to look at. *to:
 * the state to go on with. */
static bool take_node(grammar_machine *m, const token_trie *t, uint32_t i, uint32_t *to,
                      bool *is_whole) {
    const trie_node *n = &t->nodes[i];
    *is_whole = !n->n_children;
    if (n->n_children) {
        if (*lazy_flags(&m->lazy, *to) & STATE_OPEN && !mica_machine_add_root(m, i)) return false;
        *to = widen(m, t, i, *to);
        *is_whole = n->flags & TRIE_IS_PLAIN && is_known_text(m, *to);
    }
    if (!*is_whole && !(n->flags & TRIE_HAS_IDS)) return true;
    const trie_range *r = &t->ranges[i];
    return add_ids(m, t->ids + r->first, (*is_whole ? r->end : r->own_end) - r->first);
}

/* Collects the tokens from the children `level` on that fit whatever is below the hole, and the
 * nodes where it is popped. */
static void walk_level(grammar_machine *m, const token_trie *t, trie_level *level) {
    for (;;) {
        uint32_t to, i = next_child(m, t, level, &to);
        if (!i) {
            if (level == m->levels) return;
            level--;
            continue;
        }
        bool is_whole;
        if (!take_node(m, t, i, &to, &is_whole)) {
            m->lazy.status = MICA_E_NOMEM;
            return;
        }
        if (!is_whole) level = enter(m, level + 1, &t->nodes[i], to);
    }
}

/* The same for one node, from the state before it. */
static void walk_child(grammar_machine *m, const token_trie *t, uint32_t node, uint32_t state) {
    m->levels[0] = (trie_level){node, node + 1, state, lazy_row(&m->lazy, state)};
    walk_level(m, t, m->levels);
}

/* The same for all below node `root`, from the state behind it. skips: bytes to leave out there;
 * NULL: none. */
static void walk_hollow(grammar_machine *m, const token_trie *t, uint32_t root, uint32_t state,
                        bool (*skips)(uint8_t c)) {
    const trie_node *n = &t->nodes[root];
    if (!skips) {
        walk_level(m, t, enter(m, m->levels, n, state));
        return;
    }
    for (uint32_t i = n->children; i < n->children + n->n_children && !m->lazy.status; i++) {
        if (!skips(t->nodes[i].byte)) walk_child(m, t, i, state);
    }
}

/* Sets the bits of tokens below node `root` that fit from `state` on. */
static void walk_below(grammar_machine *m, const token_trie *t, uint32_t root, uint32_t state,
                       uint64_t *mask) {
    trie_level *level = enter(m, m->levels, &t->nodes[root], state);
    for (;;) {
        uint32_t to, i = next_child(m, t, level, &to);
        if (!i) {
            if (level == m->levels) return;
            level--;
            continue;
        }
        const trie_range *r = &t->ranges[i];
        if (t->nodes[i].flags & TRIE_HAS_IDS)
            set_ids(mask, t->ids + r->first, r->own_end - r->first);
        if (t->nodes[i].n_children) level = enter(m, level + 1, &t->nodes[i], to);
    }
}

/* ---- white space ---- */

static bool is_blank(uint8_t c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

static bool takes_blank(const program *p, uint32_t node) {
    const byte_set *set = &p->sets[p->nodes[node].a];
    return byte_set_has(set, p->class_of[' ']) || byte_set_has(set, p->class_of['\t']) ||
           byte_set_has(set, p->class_of['\n']) || byte_set_has(set, p->class_of['\r']);
}

/* Whether white space may come first, as that of one place between JSON tokens and nothing else:
 * *after is the state behind it. */
static bool is_space(grammar_machine *m, uint32_t hollow, uint32_t *after) {
    lazy *l = &m->lazy;
    const program *p = l->program;
    const lazy_state s = *lazy_at(l, hollow);
    uint32_t stack = STACK_BOTTOM, n = 0;
    if (!m->vocab->has_space || !p->n_space_nodes) return false;
    for (uint32_t i = 0; i < s.n; i++) {
        bool is_first = false;
        for (uint32_t k = 0; k < p->n_space_nodes; k++) {
            is_first |= s.configs[i].node == p->space_nodes[k];
        }
        if (!is_first && takes_blank(p, s.configs[i].node)) return false;
        if (!is_first) continue;
        if (n && s.configs[i].stack != stack) return false;
        stack = s.configs[i].stack;
        n++;
    }
    if (n != p->n_space_nodes || stack <= STACK_HOLE) return false;
    *after = mica_lazy_after(l, stack);
    return !l->status && !(*lazy_flags(l, *after) & STATE_OPEN);
}

/* The walk of such a state: from white space on that of the state behind it. */
static void walk_space(grammar_machine *m, uint32_t hollow, uint32_t after) {
    const token_mask *space = &m->vocab->space;
    const token_trie *t = space->trie;
    if (!add_ids(m, space->ids, space->n_ids)) m->lazy.status = MICA_E_NOMEM;
    walk_hollow(m, t, 0, hollow, is_blank);
    for (uint32_t i = 0; i < space->n_roots && !m->lazy.status; i++) {
        walk_hollow(m, t, space->roots[i], after, NULL);
    }
}

/* ---- text that begins in its own way ---- */

/* A state from which most characters lead to one where all text is allowed (a name that must be
 * none of a list): behind those a token fits as it does there. */
static mica_status walk_start(grammar_machine *m, const text_start *start, uint32_t hollow,
                              mica_error *err) {
    const token_mask *t;
    const grammar_vocab *v = m->vocab;
    mica_status st = mica_machine_mask(m, start->target, &t, err);
    if (st) return st;
    m->n_found_ids = m->n_found_roots = 0;
    for (uint32_t i = 0; i < t->n_ids; i++) {
        size_t n;
        uint8_t c = (uint8_t)*vocab_bytes(v, t->ids[i], &n);
        if (start->leads_there[c] && !add_ids(m, &t->ids[i], 1)) m->lazy.status = MICA_E_NOMEM;
    }
    const trie_node *root = &v->not_plain.nodes[0];
    for (uint32_t i = 0; i < root->n_children && !m->lazy.status; i++) {
        uint32_t child = root->children + i;
        uint8_t c = v->not_plain.nodes[child].byte;
        if (!start->leads_there[c]) walk_child(m, &v->not_plain, child, hollow);
    }
    return mica_lazy_check(&m->lazy, err);
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
    if (!t->base && !t->dense && ids_bytes > dense_bytes) {
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
    bool has_ids = t->ids || (!t->n_ids && t->dense);
    return t->roots && has_ids ? MICA_OK : fail_memory(err);
}

#define MASK_OF_TEXT UINT32_MAX

static bool reserve_mask(grammar_machine *m) {
    if (m->n_masks < m->masks_capacity) return true;
    uint32_t capacity = m->masks_capacity ? 2 * m->masks_capacity : 32;
    void *grown = mica_realloc(m->masks, capacity * sizeof(*m->masks));
    if (!grown) return false;
    m->masks = grown;
    m->masks_capacity = capacity;
    return true;
}

static mica_status make_mask(grammar_machine *m, uint32_t hollow, mica_error *err) {
    if (is_known_text(m, hollow)) {
        lazy_at(&m->lazy, hollow)->mask = MASK_OF_TEXT;
        return MICA_OK;
    }
    token_mask t = {.trie = &m->vocab->all};
    uint32_t after;
    m->n_found_ids = m->n_found_roots = 0;
    mica_status st = MICA_OK;
    if (is_space(m, hollow, &after)) {
        walk_space(m, hollow, after);
    } else {
        text_start start;
        mica_machine_find_slice(m, hollow, &t, &start);
        t.n_all_roots = m->n_found_roots;
        if (start.target != STATE_DEAD)
            st = walk_start(m, &start, hollow, err);
        else
            walk_hollow(m, t.trie, 0, hollow, NULL);
    }
    if (!st) st = mica_lazy_check(&m->lazy, err);
    if (!st && !reserve_mask(m)) st = fail_memory(err);
    if (!st) st = store_found(m, &t, err);
    if (st) {
        mica_token_mask_deinit(&t);
        return st;
    }
    m->masks[m->n_masks++] = t;
    lazy_at(&m->lazy, hollow)->mask = m->n_masks;
    return MICA_OK;
}

mica_status mica_machine_mask(grammar_machine *m, uint32_t hollow, const token_mask **out,
                              mica_error *err) {
    mica_status st = lazy_at(&m->lazy, hollow)->mask ? MICA_OK : make_mask(m, hollow, err);
    if (st) return st;
    uint32_t mask = lazy_at(&m->lazy, hollow)->mask;
    *out = mask == MASK_OF_TEXT ? &m->vocab->text : &m->masks[mask - 1];
    return MICA_OK;
}

/* Follows a token to its end. */
static bool fits(lazy *l, uint32_t state, const char *bytes, size_t n) {
    for (size_t k = 0; k < n && state != STATE_DEAD; k++) {
        state = lazy_step(l, state, (uint8_t)bytes[k]);
    }
    return state != STATE_DEAD;
}

/* Long tokens may reach a bound that the hollow state does not have. */
static void redo_far(grammar_machine *m, uint32_t state, uint64_t *mask) {
    const grammar_vocab *v = m->vocab;
    const lazy_state s = *lazy_at(&m->lazy, state);
    const int32_t *ids = s.max_chars ? v->long_ids : v->far_ids;
    uint32_t n_ids = s.max_chars ? v->n_long_ids : v->n_far_ids;
    for (uint32_t i = 0; i < n_ids; i++) { /* the longest first */
        int32_t id = ids[i];
        uint64_t bit = UINT64_C(1) << (id & 63);
        if (!s.has_few && !(mask[id >> 6] & bit)) continue;
        size_t n;
        const char *bytes = vocab_bytes(v, id, &n);
        if (n <= s.near) break;
        if (fits(&m->lazy, state, bytes, n))
            mask[id >> 6] |= bit;
        else
            mask[id >> 6] &= ~bit;
    }
}

/* What is allowed for its bytes, but not for its characters. */
static void drop_wordy(const grammar_vocab *v, uint32_t max_chars, uint64_t *mask) {
    for (uint32_t i = 0; i < v->n_wordy_ids && v->wordy_chars[i] > max_chars; i++) {
        mask[v->wordy_ids[i] >> 6] &= ~(UINT64_C(1) << (v->wordy_ids[i] & 63));
    }
}

mica_status mica_machine_fill(grammar_machine *m, uint32_t state, uint64_t *mask, mica_error *err) {
    lazy *l = &m->lazy;
    if (!lazy_at(l, state)->hollow) mica_lazy_hollow(l, state);
    mica_status st = mica_lazy_check(l, err);
    const token_mask *t;
    if (st || (st = mica_machine_mask(m, lazy_at(l, state)->hollow, &t, err))) return st;
    const uint64_t *base = t->base ? t->base : t->dense;
    uint32_t max_chars = lazy_at(l, state)->max_chars;
    if (max_chars && max_chars <= SLICE_MAX_CHARS) base = m->vocab->slices[max_chars];
    if (base)
        memcpy(mask, base, m->n_words * sizeof(*mask));
    else
        memset(mask, 0, m->n_words * sizeof(*mask));
    set_ids(mask, t->ids, t->n_ids);
    uint32_t resume = lazy_at(l, state)->resume;
    for (uint32_t i = 0; i < t->n_roots; i++) {
        walk_below(m, i < t->n_all_roots ? &m->vocab->all : t->trie, t->roots[i], resume, mask);
    }
    if (lazy_at(l, state)->near) redo_far(m, state, mask);
    if (max_chars > SLICE_MAX_CHARS) drop_wordy(m->vocab, max_chars, mask);
    return mica_lazy_check(l, err);
}

/* ---- masks that belong to the vocabulary ---- */

/* Makes the mask of a state of a small grammar; what it holds is the vocabulary's then. */
static mica_status take_mask(grammar_machine *m, uint32_t state, token_mask *out, bool *has,
                             mica_error *err) {
    const token_mask *t;
    mica_status st = mica_machine_mask(m, state, &t, err);
    if (st || m->n_masks != 1) return st;
    *out = m->masks[0];
    *has = true;
    m->n_masks = 0;
    return MICA_OK;
}

/* The mask behind the byte `first` of a rule, 0: before it. */
static mica_status make_known(grammar_vocab *v, bool is_space, token_mask *out, bool *has,
                              mica_error *err) {
    static const char schema[] = "{\"type\":\"array\",\"items\":{\"type\":\"string\"}}";
    const schema_options options = {.is_compact = !is_space};
    grammar *g = NULL;
    grammar_machine *m = NULL;
    mica_status st =
        mica_grammar_compile_schema_text(&g, schema, sizeof(schema) - 1, &options, err);
    if (!st) st = mica_grammar_machine_new(&m, g, v, NULL, 0, err);
    if (!st) {
        const program *p = &g->program;
        uint32_t state =
            mica_lazy_above_hole(&m->lazy, is_space ? p->space_start : p->string_start);
        if (!is_space) state = lazy_step(&m->lazy, state, '"');
        st = mica_lazy_check(&m->lazy, err);
        if (!st && state != STATE_DEAD) st = take_mask(m, state, out, has, err);
    }
    mica_grammar_machine_free(m);
    mica_grammar_free(g);
    return st;
}

/* White space that nothing else can follow needs no walk. */
static void drop_blank_roots(const token_trie *t, token_mask *space) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < space->n_roots; i++) {
        const trie_node *node = &t->nodes[space->roots[i]];
        bool has_other = false;
        for (uint32_t k = 0; k < node->n_children; k++) {
            uint8_t c = t->nodes[node->children + k].byte;
            has_other |= c != ' ' && c != '\t' && c != '\n' && c != '\r';
        }
        if (has_other) space->roots[n++] = space->roots[i];
    }
    space->n_roots = n;
}

mica_status mica_vocab_make_known(grammar_vocab *v, mica_error *err) {
    mica_status st = make_known(v, false, &v->text, &v->has_text, err);
    if (!st) st = make_known(v, true, &v->space, &v->has_space, err);
    /* As a list: other ids are added to it. */
    if (!st && v->has_space && v->space.dense) v->has_space = false;
    if (!st && v->has_space) drop_blank_roots(&v->all, &v->space);
    return st;
}
