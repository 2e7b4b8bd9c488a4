/* lazy.c: closures, and the interning of stacks and states. */
#include "text/grammar/lazy_impl.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_SLOTS = 2048 };

static bool fail(lazy *l, mica_status st) {
    if (!l->status) l->status = st;
    return false;
}

mica_status mica_lazy_check(const lazy *l, mica_error *err) {
    if (l->status == MICA_E_LIMIT) {
        return mica_fail(err, MICA_E_LIMIT,
                         "the grammar is too large or too ambiguous: more than %d ways to go on at "
                         "one place; let what begins alike share its beginning, and avoid rules "
                         "that match the empty text in several ways",
                         LAZY_MAX_WAYS);
    }
    if (l->status) return mica_fail(err, l->status, "out of memory while running a grammar");
    return MICA_OK;
}

static bool grow(lazy *l, void *items, uint32_t *capacity, uint32_t n_needed, size_t item_bytes) {
    if (n_needed <= *capacity) return true;
    uint32_t wanted = *capacity ? 2 * *capacity : 256;
    if (wanted < n_needed) wanted = n_needed;
    void *old;
    memcpy(&old, items, sizeof(old));
    void *grown = mica_realloc(old, wanted * item_bytes);
    if (!grown) return fail(l, MICA_E_NOMEM);
    memcpy(items, &grown, sizeof(grown));
    *capacity = wanted;
    return true;
}

static size_t chunk_bytes(const lazy *l) {
    return sizeof(lazy_chunk) + LAZY_CHUNK * l->n_classes * sizeof(uint32_t);
}

static uint64_t mix(uint64_t h, uint64_t v) {
    h = (h ^ v) * UINT64_C(0x9E3779B97F4A7C15);
    return h ^ h >> 32;
}

static uint64_t config_hash(uint64_t h, lazy_config c) {
    return mix(h, (uint64_t)c.node << 32 | c.stack);
}

/* ---- stacks ---- */

static uint64_t frame_hash(const lazy_frame *f) {
    return mix(mix((uint64_t)f->node << 32 | f->parent, f->count), 1);
}

static bool rehash_frames(lazy *l) {
    uint32_t n_slots = l->n_frame_slots ? 2 * l->n_frame_slots : FIRST_SLOTS;
    uint32_t *slots = mica_calloc(n_slots, sizeof(*slots));
    if (!slots) return fail(l, MICA_E_NOMEM);
    for (uint32_t i = STACK_HOLE + 1; i < l->n_frames; i++) {
        uint32_t at = (uint32_t)frame_hash(&l->frames[i]) & (n_slots - 1);
        while (slots[at]) {
            at = (at + 1) & (n_slots - 1);
        }
        slots[at] = i;
    }
    mica_free(l->frame_slots);
    l->frame_slots = slots;
    l->n_frame_slots = n_slots;
    return true;
}

/* The stack with one more frame. */
uint32_t mica_lazy_push_frame(lazy *l, uint32_t node, uint64_t count, uint32_t parent) {
    if (2 * l->n_frames >= l->n_frame_slots && !rehash_frames(l)) return STACK_BOTTOM;
    lazy_frame f = {node, parent, count, l->frames[parent].depth + 1};
    uint32_t at = (uint32_t)frame_hash(&f) & (l->n_frame_slots - 1);
    for (uint32_t i; (i = l->frame_slots[at]) != 0; at = (at + 1) & (l->n_frame_slots - 1)) {
        const lazy_frame *g = &l->frames[i];
        if (g->node == node && g->parent == parent && g->count == count) return i;
    }
    if (!grow(l, &l->frames, &l->frames_capacity, l->n_frames + 1, sizeof(f))) return STACK_BOTTOM;
    l->frames[l->n_frames] = f;
    l->frame_slots[at] = l->n_frames;
    return l->n_frames++;
}

/* ---- closures ---- */

static bool rehash_seen(lazy *l) {
    uint32_t n_slots = l->n_seen_slots ? 2 * l->n_seen_slots : FIRST_SLOTS;
    uint32_t *seen = mica_calloc(n_slots, sizeof(*seen));
    uint32_t *stamps = mica_calloc(n_slots, sizeof(*stamps));
    if (!seen || !stamps) {
        mica_free(seen);
        mica_free(stamps);
        return fail(l, MICA_E_NOMEM);
    }
    for (uint32_t i = 0; i < l->n_todo; i++) {
        uint32_t at = (uint32_t)config_hash(0, l->todo[i]) & (n_slots - 1);
        while (seen[at]) {
            at = (at + 1) & (n_slots - 1);
        }
        seen[at] = i + 1;
        stamps[at] = 1;
    }
    mica_free(l->seen);
    mica_free(l->seen_stamp);
    l->seen = seen;
    l->seen_stamp = stamps;
    l->n_seen_slots = n_slots;
    l->stamp = 1;
    return true;
}

void mica_lazy_begin(lazy *l) {
    l->n_todo = l->n_found = 0;
    l->found_flags = 0;
    if (++l->stamp == 0) {
        memset(l->seen_stamp, 0, l->n_seen_slots * sizeof(*l->seen_stamp));
        l->stamp = 1;
    }
}

/* Puts a configuration on the work list unless it was there before. */
void mica_lazy_visit(lazy *l, uint32_t node, uint32_t stack) {
    if (l->status || (2 * l->n_todo >= l->n_seen_slots && !rehash_seen(l))) return;
    lazy_config c = {node, stack};
    uint32_t at = (uint32_t)config_hash(0, c) & (l->n_seen_slots - 1);
    for (; l->seen_stamp[at] == l->stamp; at = (at + 1) & (l->n_seen_slots - 1)) {
        lazy_config d = l->todo[l->seen[at] - 1];
        if (d.node == node && d.stack == stack) return;
    }
    if (l->n_todo == LAZY_MAX_WAYS) {
        fail(l, MICA_E_LIMIT);
        return;
    }
    if (!grow(l, &l->todo, &l->todo_capacity, l->n_todo + 1, sizeof(c))) return;
    l->todo[l->n_todo++] = c;
    l->seen[at] = l->n_todo;
    l->seen_stamp[at] = l->stamp;
}

static uint64_t next_count(uint64_t count) {
    if (count >= REPEAT_FEW) return count;
    return count + 1 == REPEAT_FEW ? REPEAT_MANY : count + 1;
}

/* Round `count` of a repeat is done (0: it begins). Without an upper bound counts stop at min, so
 * that long loops come back to the same state. */
void mica_lazy_visit_repeat(lazy *l, uint32_t node, uint64_t count, uint32_t parent) {
    const program_node *n = &l->program->nodes[node];
    bool is_coarse = count >= REPEAT_COARSE;
    if (is_coarse ? count == REPEAT_MANY : count >= n->min) mica_lazy_visit(l, n->b, parent);
    if (is_coarse) {
        mica_lazy_visit(l, n->a, mica_lazy_push_frame(l, node, count, parent));
        return;
    }
    if (n->max == EXPR_UNBOUNDED && count > n->min) count = n->min;
    if (count < n->max) mica_lazy_visit(l, n->a, mica_lazy_push_frame(l, node, count, parent));
}

/* The members in `seen` are there. */
static void visit_members(lazy *l, uint32_t node, uint64_t seen, uint32_t parent) {
    const program_node *n = &l->program->nodes[node];
    const program_members *m = &l->program->members[n->a];
    if ((seen & m->required) == m->required) mica_lazy_visit(l, n->b, parent);
    const uint32_t *entries = l->program->entries + m->first_entry + (seen ? m->n_items : 0);
    for (uint32_t i = 0; i < m->n_items; i++) {
        bool is_rest = m->has_rest && i + 1 == m->n_items;
        uint64_t bit = is_rest ? MEMBERS_REST_BIT : UINT64_C(1) << i;
        if (!is_rest && (seen & bit)) continue;
        mica_lazy_visit(l, entries[i], mica_lazy_push_frame(l, node, seen | bit, parent));
    }
}

void mica_lazy_visit_return(lazy *l, uint32_t stack) {
    if (stack == STACK_BOTTOM) {
        l->found_flags |= STATE_ACCEPTS;
        return;
    }
    if (stack == STACK_HOLE) {
        l->found_flags |= STATE_OPEN;
        return;
    }
    lazy_frame f = l->frames[stack];
    switch (l->program->nodes[f.node].kind) {
    case NODE_REPEAT:
        mica_lazy_visit_repeat(l, f.node, next_count(f.count), f.parent);
        break;
    case NODE_MEMBERS:
        visit_members(l, f.node, f.count, f.parent);
        break;
    default:
        mica_lazy_visit(l, f.node, f.parent);
    }
}

static void expand(lazy *l, lazy_config c) {
    const program_node *n = &l->program->nodes[c.node];
    switch (n->kind) {
    case NODE_SET:
        if (grow(l, &l->found, &l->found_capacity, l->n_found + 1, sizeof(c)))
            l->found[l->n_found++] = c;
        break;
    case NODE_SPLIT:
        mica_lazy_visit(l, n->a, c.stack);
        mica_lazy_visit(l, n->b, c.stack);
        break;
    case NODE_CALL:
        mica_lazy_visit(l, n->a, mica_lazy_push_frame(l, n->b, 0, c.stack));
        break;
    case NODE_JUMP:
        mica_lazy_visit(l, n->a, c.stack);
        break;
    case NODE_RETURN:
        mica_lazy_visit_return(l, c.stack);
        break;
    case NODE_REPEAT:
        mica_lazy_visit_repeat(l, c.node, 0, c.stack);
        break;
    case NODE_MEMBERS:
        visit_members(l, c.node, 0, c.stack);
        break;
    case NODE_FAIL:
        break;
    }
}

static int compare_configs(const void *a, const void *b) {
    const lazy_config *x = a, *y = b;
    if (x->node != y->node) return x->node < y->node ? -1 : 1;
    return x->stack < y->stack ? -1 : x->stack > y->stack;
}

/* Closures tend to come out in falling order. */
static bool turn_around(lazy_config *c, uint32_t n) {
    for (uint32_t i = 1; i < n; i++) {
        if (compare_configs(&c[i - 1], &c[i]) < 0) return false;
    }
    for (uint32_t i = 0; i < n / 2; i++) {
        lazy_config x = c[i];
        c[i] = c[n - 1 - i];
        c[n - 1 - i] = x;
    }
    return true;
}

static void sort_configs(lazy_config *c, uint32_t n) {
    if (n > 8 && turn_around(c, n)) return;
    if (n > 64) {
        qsort(c, n, sizeof(*c), compare_configs);
        return;
    }
    for (uint32_t i = 1; i < n; i++) {
        lazy_config x = c[i];
        uint32_t k = i;
        for (; k > 0 && compare_configs(&c[k - 1], &x) > 0; k--) {
            c[k] = c[k - 1];
        }
        c[k] = x;
    }
}

/* ---- states ---- */

static uint64_t state_hash(const lazy_config *c, uint32_t n, uint8_t flags) {
    uint64_t h = flags;
    for (uint32_t i = 0; i < n; i++) {
        h = config_hash(h, c[i]);
    }
    return mix(h, n);
}

static bool rehash_states(lazy *l) {
    uint32_t n_slots = l->n_state_slots ? 2 * l->n_state_slots : FIRST_SLOTS;
    uint32_t *slots = mica_calloc(n_slots, sizeof(*slots));
    if (!slots) return fail(l, MICA_E_NOMEM);
    for (uint32_t i = STATE_DEAD; i < l->n_states; i++) {
        uint32_t at = lazy_at(l, i)->hash & (n_slots - 1);
        while (slots[at]) {
            at = (at + 1) & (n_slots - 1);
        }
        slots[at] = i;
    }
    mica_free(l->state_slots);
    l->state_slots = slots;
    l->n_state_slots = n_slots;
    return true;
}

static bool add_chunk(lazy *l) {
    if (!grow(l, &l->chunks, &l->chunks_capacity, l->n_chunks + 1, sizeof(*l->chunks)))
        return false;
    lazy_chunk *c = mica_malloc(chunk_bytes(l));
    if (!c) return fail(l, MICA_E_NOMEM);
    l->chunks[l->n_chunks++] = c;
    return true;
}

/* Room for n configurations behind each other. */
static bool reserve_configs(lazy *l, uint32_t n) {
    if (l->n_configs + n <= l->configs_capacity) return true;
    uint32_t capacity = n > LAZY_CONFIG_BLOCK ? n : LAZY_CONFIG_BLOCK;
    size_t n_bytes = sizeof(*l->configs) + capacity * sizeof(lazy_config);
    lazy_configs *block = mica_malloc(n_bytes);
    if (!block) return fail(l, MICA_E_NOMEM);
    block->older = l->configs;
    l->configs = block;
    l->n_configs = 0;
    l->configs_capacity = capacity;
    l->config_bytes += n_bytes;
    return true;
}

static uint32_t add_state(lazy *l, const lazy_config *c, uint32_t n, uint8_t flags, uint32_t hash) {
    if (l->n_states == l->n_chunks * LAZY_CHUNK && !add_chunk(l)) return STATE_DEAD;
    if (!reserve_configs(l, n)) return STATE_DEAD;
    uint32_t id = l->n_states++;
    lazy_config *copy = n ? l->configs->items + l->n_configs : NULL;
    memset(lazy_row(l, id), 0, l->n_classes * sizeof(uint32_t));
    *lazy_flags(l, id) = flags;
    *lazy_at(l, id) = (lazy_state){.configs = copy, .n = n, .hash = hash};
    if (n) memcpy(copy, c, n * sizeof(*c));
    l->n_configs += n;
    return id;
}

/* The state of a sorted set. */
static uint32_t intern(lazy *l, const lazy_config *c, uint32_t n, uint8_t flags) {
    if (!n && !flags) return STATE_DEAD;
    if (l->status || (2 * l->n_states >= l->n_state_slots && !rehash_states(l))) return STATE_DEAD;
    uint32_t hash = (uint32_t)state_hash(c, n, flags), at = hash & (l->n_state_slots - 1);
    for (uint32_t i; (i = l->state_slots[at]) != 0; at = (at + 1) & (l->n_state_slots - 1)) {
        const lazy_state *s = lazy_at(l, i);
        if (s->hash == hash && s->n == n && (*lazy_flags(l, i) & STATE_FLAGS) == flags &&
            (!n || memcmp(s->configs, c, n * sizeof(*c)) == 0))
            return i;
    }
    uint32_t id = add_state(l, c, n, flags, hash);
    if (!l->status) l->state_slots[at] = id;
    return id;
}

uint32_t mica_lazy_finish(lazy *l) {
    for (uint32_t i = 0; i < l->n_todo && !l->status; i++) {
        expand(l, l->todo[i]);
    }
    if (l->status) return STATE_DEAD;
    sort_configs(l->found, l->n_found);
    return intern(l, l->found, l->n_found, l->found_flags);
}

/* Most transitions have one way on, and many of them the same one. */
static uint32_t close_one(lazy *l, lazy_config c) {
    lazy_memo *memo = &l->memos[config_hash(0, c) % N_LAZY_MEMOS];
    if (memo->state && memo->config.node == c.node && memo->config.stack == c.stack)
        return memo->state;
    mica_lazy_begin(l);
    mica_lazy_visit(l, c.node, c.stack);
    uint32_t to = mica_lazy_finish(l);
    if (!l->status) *memo = (lazy_memo){c, to};
    return to;
}

/* On the first step from a state: the classes that lead nowhere, and of those that one
 * configuration takes alone, which one. */
static void begin_row(lazy *l, uint32_t state) {
    const lazy_state s = *lazy_at(l, state);
    const program *p = l->program;
    uint32_t *row = lazy_row(l, state);
    byte_set once = {0}, twice = {0};
    *lazy_flags(l, state) |= STATE_BEGUN;
    for (uint32_t k = 0; k < l->n_classes; k++) {
        row[k] = STATE_DEAD;
    }
    for (uint32_t i = 0; i < s.n; i++) {
        const byte_set *set = &p->sets[p->nodes[s.configs[i].node].a];
        for (unsigned w = 0; w < 4; w++) {
            twice.bits[w] |= once.bits[w] & set->bits[w];
            once.bits[w] |= set->bits[w];
            for (uint64_t bits = set->bits[w]; bits; bits &= bits - 1) {
                row[w * 64 + (unsigned)__builtin_ctzll(bits)] = ROW_ONE_WAY | i;
            }
        }
    }
    for (unsigned w = 0; w < 4; w++) {
        for (uint64_t bits = twice.bits[w]; bits; bits &= bits - 1) {
            row[w * 64 + (unsigned)__builtin_ctzll(bits)] = STATE_UNKNOWN;
        }
    }
}

/* All classes that take the same way. */
static uint32_t compute_one_way(lazy *l, uint32_t state, uint32_t way) {
    lazy_config c = lazy_at(l, state)->configs[way & ~ROW_ONE_WAY];
    uint32_t to = close_one(l, (lazy_config){l->program->nodes[c.node].b, c.stack});
    uint32_t *row = lazy_row(l, state);
    for (uint32_t k = 0; k < l->n_classes && !l->status; k++) {
        if (row[k] == way) row[k] = to;
    }
    return to;
}

uint32_t mica_lazy_compute(lazy *l, uint32_t state, uint32_t class) {
    if (l->status) return STATE_DEAD;
    if (!(*lazy_flags(l, state) & STATE_BEGUN)) begin_row(l, state);
    uint32_t way = lazy_row(l, state)[class];
    if (way == STATE_DEAD) return way;
    if (way & ROW_ONE_WAY) return compute_one_way(l, state, way);
    const lazy_state s = *lazy_at(l, state);
    const program *p = l->program;
    mica_lazy_begin(l);
    for (uint32_t i = 0; i < s.n; i++) {
        const program_node *n = &p->nodes[s.configs[i].node];
        if (byte_set_has(&p->sets[n->a], class)) mica_lazy_visit(l, n->b, s.configs[i].stack);
    }
    uint32_t to = mica_lazy_finish(l);
    if (!l->status) lazy_row(l, state)[class] = to;
    return to;
}

uint32_t mica_lazy_start(lazy *l) {
    mica_lazy_begin(l);
    mica_lazy_visit(l, l->program->start, STACK_BOTTOM);
    return mica_lazy_finish(l);
}

/* ---- all of it ---- */

mica_status mica_lazy_init(lazy *l, const program *p, mica_error *err) {
    *l = (lazy){.program = p, .n_classes = p->n_classes};
    const lazy_frame bottom = {0};
    l->memos = mica_calloc(N_LAZY_MEMOS, sizeof(*l->memos));
    if (!l->memos) fail(l, MICA_E_NOMEM);
    if (l->memos && rehash_seen(l) && rehash_frames(l) && rehash_states(l) &&
        grow(l, &l->frames, &l->frames_capacity, 256, sizeof(bottom))) {
        l->frames[STACK_BOTTOM] = l->frames[STACK_HOLE] = bottom;
        l->n_frames = 2;
        add_state(l, NULL, 0, 0, 0); /* STATE_UNKNOWN */
        add_state(l, NULL, 0, 0, 0); /* STATE_DEAD */
    }
    for (uint32_t c = 0; !l->status && c < l->n_classes; c++) {
        lazy_row(l, STATE_DEAD)[c] = STATE_DEAD;
    }
    mica_status st = mica_lazy_check(l, err);
    if (st) mica_lazy_deinit(l);
    return st;
}

void mica_lazy_deinit(lazy *l) {
    for (uint32_t i = 0; i < l->n_chunks; i++) {
        mica_free(l->chunks[i]);
    }
    mica_free(l->chunks);
    while (l->configs) {
        lazy_configs *older = l->configs->older;
        mica_free(l->configs);
        l->configs = older;
    }
    mica_free(l->frames);
    mica_free(l->state_slots);
    mica_free(l->frame_slots);
    mica_free(l->memos);
    mica_free(l->todo);
    mica_free(l->seen);
    mica_free(l->seen_stamp);
    mica_free(l->found);
    *l = (lazy){0};
}

size_t mica_lazy_bytes(const lazy *l) {
    return l->n_chunks * chunk_bytes(l) + l->config_bytes +
           l->frames_capacity * sizeof(*l->frames) +
           (l->n_state_slots + l->n_frame_slots) * sizeof(uint32_t);
}
