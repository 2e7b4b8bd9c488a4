/* program.c: nodes from expressions.
 *
 * An expression is emitted with the node that comes after it, so sequences are made from their end.
 * Parts that no text matches get no nodes: from every node that can be reached the end can be
 * reached. A call whose next node is a RETURN becomes a jump, so that right recursion does not grow
 * the stack. Short repeats are written out, long ones count in a frame.
 */
#include "text/grammar/program.h"

#include <string.h>

enum {
    MAX_NODES = 1 << 22,
    /* Repeats of at most so many nodes are written out: a frame costs about as much per step. */
    INLINE_NODES = 48,
    /* Rules of at most so many nodes that use no other rule are written out where they are used. */
    INLINE_RULE_NODES = 24
};

typedef struct emitter {
    program *p;
    grammar_build *b;
    const rule_facts *facts;
    uint32_t *rule_start; /* node + 1; 0: not emitted yet */
    uint32_t *queue;      /* rules to emit */
    uint32_t n_queue;
    uint32_t set_of[256]; /* of one byte: its set + 1 */
    uint32_t *set_slots;  /* hash of the sets: index + 1 */
    uint32_t n_set_slots;
    mica_status status;
} emitter;

enum { NODE_OF_RETURN = 0, NODE_OF_FAIL = 1 };

static uint32_t fail(emitter *e, mica_status st) {
    if (!e->status) e->status = st;
    return NODE_OF_FAIL;
}

static uint32_t add_node(emitter *e, program_node node) {
    program *p = e->p;
    if (p->n_nodes == p->nodes_capacity) {
        uint32_t capacity = p->nodes_capacity ? 2 * p->nodes_capacity : 256;
        if (capacity > MAX_NODES) return fail(e, MICA_E_LIMIT);
        void *grown = mica_realloc(p->nodes, capacity * sizeof(*p->nodes));
        if (!grown) return fail(e, MICA_E_NOMEM);
        p->nodes = grown;
        p->nodes_capacity = capacity;
    }
    p->nodes[p->n_nodes] = node;
    return p->n_nodes++;
}

static uint32_t set_slot(const emitter *e, const byte_set *set) {
    const program *p = e->p;
    uint64_t h = set->bits[0];
    for (int w = 1; w < 4; w++) {
        h = (h ^ h >> 29) * UINT64_C(0x9E3779B97F4A7C15) + set->bits[w];
    }
    h = (h ^ h >> 29) * UINT64_C(0x9E3779B97F4A7C15);
    uint32_t at = (uint32_t)(h >> 32) & (e->n_set_slots - 1);
    while (e->set_slots[at] && memcmp(&p->sets[e->set_slots[at] - 1], set, sizeof(*set)) != 0) {
        at = (at + 1) & (e->n_set_slots - 1);
    }
    return at;
}

static bool grow_sets(emitter *e) {
    program *p = e->p;
    uint32_t capacity = p->sets_capacity ? 2 * p->sets_capacity : 64;
    void *grown = mica_realloc(p->sets, capacity * sizeof(*p->sets));
    if (grown) p->sets = grown;
    uint32_t *slots = mica_calloc(2 * (size_t)capacity, sizeof(*slots));
    if (!grown || !slots) {
        mica_free(slots);
        fail(e, MICA_E_NOMEM);
        return false;
    }
    p->sets_capacity = capacity;
    mica_free(e->set_slots);
    e->set_slots = slots;
    e->n_set_slots = 2 * capacity;
    for (uint32_t i = 0; i < p->n_sets; i++) {
        e->set_slots[set_slot(e, &p->sets[i])] = i + 1;
    }
    return true;
}

static uint32_t add_set(emitter *e, const byte_set *set) {
    program *p = e->p;
    if (p->n_sets == p->sets_capacity && !grow_sets(e)) return NODE_OF_FAIL;
    uint32_t at = set_slot(e, set);
    if (e->set_slots[at]) return e->set_slots[at] - 1;
    p->sets[p->n_sets] = *set;
    e->set_slots[at] = ++p->n_sets;
    return p->n_sets - 1;
}

static uint32_t add_split(emitter *e, uint32_t a, uint32_t b) {
    if (a == NODE_OF_FAIL || a == b) return b;
    if (b == NODE_OF_FAIL) return a;
    return add_node(e, (program_node){.kind = NODE_SPLIT, .a = a, .b = b});
}

static uint32_t add_byte(emitter *e, uint8_t byte, uint32_t next) {
    if (!e->set_of[byte]) {
        byte_set set = {0};
        byte_set_add(&set, byte, byte);
        e->set_of[byte] = add_set(e, &set) + 1;
    }
    return add_node(e, (program_node){.kind = NODE_SET, .a = e->set_of[byte] - 1, .b = next});
}

static uint32_t emit(emitter *e, const expr *x, uint32_t next);

/* ---- repeats ---- */

/* About how many nodes; stops counting above `limit`. */
static uint32_t count_nodes(const expr *x, uint32_t limit) {
    uint32_t n = 1;
    switch (x->kind) {
    case EXPR_BYTES:
        return x->n;
    case EXPR_TABLE:
    case EXPR_MEMBERS:
        return limit + 1;
    case EXPR_REPEAT:
        n = count_nodes(x->items[0], limit);
        return x->max == EXPR_UNBOUNDED || n > limit || x->max > limit / n ? n + 1 : n * x->max;
    default:
        for (uint32_t i = 0; i < x->n && n <= limit; i++) {
            n += count_nodes(x->items[i], limit - n);
        }
        return n;
    }
}

static bool has_rules(const expr *x) {
    if (x->kind == EXPR_RULE || x->kind == EXPR_MEMBERS) return true;
    if (x->kind != EXPR_SEQ && x->kind != EXPR_ALT && x->kind != EXPR_REPEAT) return false;
    for (uint32_t i = 0; i < x->n; i++) {
        if (has_rules(x->items[i])) return true;
    }
    return false;
}

static bool is_inline_rule(const grammar_build *b, uint32_t rule) {
    const expr *body = b->rules[rule].body;
    if (rule + 1 == b->space_rule) return false; /* its states are known, see masks.c */
    return !has_rules(body) && count_nodes(body, INLINE_RULE_NODES) <= INLINE_RULE_NODES;
}

/* Whether the nodes of `x` will call rules. */
static bool calls_rules(const grammar_build *b, const expr *x) {
    if (x->kind == EXPR_RULE) return !is_inline_rule(b, x->rule);
    if (x->kind == EXPR_MEMBERS) return true;
    if (x->kind != EXPR_SEQ && x->kind != EXPR_ALT && x->kind != EXPR_REPEAT) return false;
    for (uint32_t i = 0; i < x->n; i++) {
        if (calls_rules(b, x->items[i])) return true;
    }
    return false;
}

static uint32_t emit_loop(emitter *e, const expr *body, uint32_t next, uint32_t *entry) {
    uint32_t loop = add_node(e, (program_node){.kind = NODE_SPLIT, .b = next});
    uint32_t start = emit(e, body, loop);
    if (e->status) return NODE_OF_FAIL;
    e->p->nodes[loop].a = start;
    *entry = start;
    return loop;
}

/* min copies, then a loop or nested optional copies. */
static uint32_t emit_copies(emitter *e, const expr *x, uint32_t next) {
    const expr *body = x->items[0];
    uint32_t at = next, entry = next, n_left = x->min;
    if (x->max == EXPR_UNBOUNDED) {
        at = emit_loop(e, body, next, &entry);
        if (n_left) {
            at = entry;
            n_left--;
        }
    } else {
        for (uint32_t i = x->min; i < x->max && !e->status; i++) {
            at = add_split(e, emit(e, body, at), next);
        }
    }
    for (; n_left && !e->status; n_left--) {
        at = emit(e, body, at);
    }
    return at;
}

/* Whether the node takes a quote and returns. */
static bool ends_string(const emitter *e, uint32_t node) {
    const program_node *n = &e->p->nodes[node];
    return n->kind == NODE_SET && n->b == NODE_OF_RETURN && e->set_of['"'] == n->a + 1;
}

static uint32_t emit_repeat(emitter *e, const expr *x, uint32_t next) {
    const expr *body = x->items[0];
    if (!mica_expr_is_productive(e->facts, body)) return x->min ? NODE_OF_FAIL : next;
    uint32_t n = x->max == EXPR_UNBOUNDED ? x->min : x->max;
    uint32_t size = count_nodes(body, INLINE_NODES);
    if (n <= 1 || (n <= INLINE_NODES && size * n <= INLINE_NODES)) return emit_copies(e, x, next);
    uint32_t start = emit(e, body, NODE_OF_RETURN);
    return add_node(e, (program_node){.kind = NODE_REPEAT,
                                      .is_text = !calls_rules(e->b, body),
                                      .is_plain = body == e->b->plain_char && ends_string(e, next),
                                      .a = start,
                                      .b = next,
                                      .min = x->min,
                                      .max = x->max});
}

/* ---- rules, tables, members ---- */

static uint32_t emit_rule(emitter *e, uint32_t rule, uint32_t next) {
    if (!e->facts->is_productive[rule]) return NODE_OF_FAIL;
    if (is_inline_rule(e->b, rule)) return emit(e, e->b->rules[rule].body, next);
    if (!e->rule_start[rule]) {
        /* The rule begins with a jump that is set when the rule is emitted. */
        uint32_t start = add_node(e, (program_node){.kind = NODE_JUMP});
        e->rule_start[rule] = start + 1;
        e->queue[e->n_queue++] = rule;
    }
    uint32_t start = e->rule_start[rule] - 1;
    if (next == NODE_OF_RETURN) return start;
    node_kind kind = e->p->nodes[next].kind;
    /* A frame at such a node would be one of its rounds. */
    if (kind == NODE_REPEAT || kind == NODE_MEMBERS)
        next = add_node(e, (program_node){.kind = NODE_JUMP, .a = next});
    return add_node(e, (program_node){.kind = NODE_CALL, .a = start, .b = next});
}

/* The choice of state s: one SET node for each state that it leads to. */
static uint32_t emit_table_state(emitter *e, const byte_table *t, const uint32_t *heads, uint32_t s,
                                 uint32_t next) {
    const uint32_t *row = t->next + (size_t)s * 256;
    uint32_t targets[256], n = 0;
    byte_set sets[256];
    for (unsigned c = 0; c < 256; c++) {
        uint32_t k = 0;
        if (!row[c]) continue;
        while (k < n && targets[k] != row[c]) {
            k++;
        }
        if (k == n) {
            targets[n] = row[c];
            sets[n++] = (byte_set){0};
        }
        byte_set_add(&sets[k], c, c);
    }
    uint32_t at = t->is_accepting[s] ? next : NODE_OF_FAIL;
    for (uint32_t k = 0; k < n && !e->status; k++) {
        program_node node = {.kind = NODE_SET, .a = add_set(e, &sets[k]), .b = heads[targets[k]]};
        at = add_split(e, add_node(e, node), at);
    }
    return at;
}

static uint32_t emit_table(emitter *e, const byte_table *t, uint32_t next) {
    uint32_t *heads = mica_calloc(t->n_states, sizeof(*heads));
    if (!heads) return fail(e, MICA_E_NOMEM);
    for (uint32_t s = 1; s < t->n_states; s++) {
        heads[s] = add_node(e, (program_node){.kind = NODE_JUMP});
    }
    for (uint32_t s = 1; s < t->n_states && !e->status; s++) {
        uint32_t at = emit_table_state(e, t, heads, s, next);
        if (!e->status) e->p->nodes[heads[s]].a = at;
    }
    uint32_t start = heads[1];
    if (e->p->n_table_starts < PROGRAM_MAX_TABLE_STARTS)
        e->p->table_starts[e->p->n_table_starts++] = start;
    mica_free(heads);
    return start;
}

/* Room for the entries of one object; the index of the first. */
static bool reserve_members(emitter *e, uint32_t n_entries) {
    program *p = e->p;
    void *entries = mica_realloc(p->entries, (p->n_entries + n_entries) * sizeof(*p->entries));
    if (entries) p->entries = entries;
    void *members = mica_realloc(p->members, (p->n_members + 1) * sizeof(*p->members));
    if (members) p->members = members;
    if (!entries || !members) fail(e, MICA_E_NOMEM);
    return entries && members;
}

static uint32_t emit_members(emitter *e, const expr *x, uint32_t next) {
    const expr *rest = x->members.rest;
    bool has_rest = rest && mica_expr_is_productive(e->facts, rest);
    uint32_t n = x->n + has_rest;
    uint32_t starts[2 * 64 + 2];
    for (uint32_t i = 0; i < n; i++) {
        starts[i] = emit(e, i < x->n ? x->items[i] : rest, NODE_OF_RETURN);
        starts[n + i] =
            starts[i] == NODE_OF_FAIL ? NODE_OF_FAIL : emit(e, x->members.separator, starts[i]);
    }
    if (!n) return next;
    if (e->status || !reserve_members(e, 2 * n)) return NODE_OF_FAIL;
    program *p = e->p;
    p->members[p->n_members] = (program_members){.first_entry = p->n_entries,
                                                 .n_items = n,
                                                 .required = x->members.required,
                                                 .has_rest = has_rest};
    memcpy(p->entries + p->n_entries, starts, 2 * n * sizeof(*starts));
    p->n_entries += 2 * n;
    return add_node(e, (program_node){.kind = NODE_MEMBERS, .a = p->n_members++, .b = next});
}

/* ---- expressions ---- */

static uint32_t emit_alt(emitter *e, const expr *x, uint32_t next) {
    uint32_t at = NODE_OF_FAIL;
    for (uint32_t i = x->n; i-- > 0 && !e->status;) {
        if (!mica_expr_is_productive(e->facts, x->items[i])) continue;
        at = add_split(e, emit(e, x->items[i], next), at);
    }
    return at;
}

static uint32_t emit(emitter *e, const expr *x, uint32_t next) {
    if (e->status) return NODE_OF_FAIL;
    uint32_t at = next;
    switch (x->kind) {
    case EXPR_EMPTY:
        return next;
    case EXPR_NEVER:
        return NODE_OF_FAIL;
    case EXPR_BYTES:
        for (uint32_t i = x->n; i-- > 0;) {
            at = add_byte(e, (uint8_t)x->bytes[i], at);
        }
        return at;
    case EXPR_SET:
        return add_node(e, (program_node){.kind = NODE_SET, .a = add_set(e, &x->set), .b = next});
    case EXPR_SEQ:
        if (!mica_expr_is_productive(e->facts, x)) return NODE_OF_FAIL;
        for (uint32_t i = x->n; i-- > 0;) {
            at = emit(e, x->items[i], at);
        }
        return at;
    case EXPR_ALT:
        return emit_alt(e, x, next);
    case EXPR_REPEAT:
        return emit_repeat(e, x, next);
    case EXPR_RULE:
        return emit_rule(e, x->rule, next);
    case EXPR_TABLE:
        return emit_table(e, x->table, next);
    case EXPR_MEMBERS:
        return emit_members(e, x, next);
    }
    return NODE_OF_FAIL;
}

/* ---- classes ---- */

/* Splits the classes so that bytes in and out of `set` differ; members[k]: the bytes of class k. */
static void refine_classes(program *p, byte_set *members, const byte_set *set) {
    uint32_t n = p->n_classes;
    for (uint32_t k = 0; k < n && p->n_classes < 256; k++) {
        byte_set in, out;
        uint64_t any_in = 0, any_out = 0;
        for (int w = 0; w < 4; w++) {
            any_in |= in.bits[w] = members[k].bits[w] & set->bits[w];
            any_out |= out.bits[w] = members[k].bits[w] & ~set->bits[w];
        }
        if (!any_in || !any_out) continue;
        members[k] = out;
        members[p->n_classes++] = in;
    }
}

static void make_classes(program *p) {
    byte_set members[256] = {0};
    byte_set_add(&members[0], 0, 255);
    p->n_classes = 1;
    for (uint32_t i = 0; i < p->n_sets && p->n_classes < 256; i++) {
        refine_classes(p, members, &p->sets[i]);
    }
    for (uint32_t k = 0; k < p->n_classes; k++) {
        for (unsigned c = 0; c < 256; c++) {
            if (byte_set_has(&members[k], c)) p->class_of[c] = (uint8_t)k;
        }
    }
    for (unsigned c = 256; c-- > 0;) {
        p->byte_of[p->class_of[c]] = (uint8_t)c;
    }
    for (uint32_t i = 0; i < p->n_sets; i++) {
        byte_set classes = {0};
        for (unsigned k = 0; k < p->n_classes; k++) {
            if (byte_set_has(&p->sets[i], p->byte_of[k])) byte_set_add(&classes, k, k);
        }
        p->sets[i] = classes;
    }
}

/* ---- all of it ---- */

/* Lists the nodes that take the first byte of white space. */
static void find_first(program *p, uint32_t node) {
    const program_node *n = &p->nodes[node];
    if (n->kind == NODE_JUMP || n->kind == NODE_SPLIT) find_first(p, n->a);
    if (n->kind == NODE_SPLIT) find_first(p, n->b);
    if (n->kind == NODE_SET && p->n_space_nodes < 4) p->space_nodes[p->n_space_nodes++] = node;
}

static void emit_all(emitter *e, uint32_t root) {
    add_node(e, (program_node){.kind = NODE_RETURN});
    add_node(e, (program_node){.kind = NODE_FAIL});
    e->p->start = emit_rule(e, root, NODE_OF_RETURN);
    while (e->n_queue && !e->status) {
        uint32_t rule = e->queue[--e->n_queue];
        uint32_t start = emit(e, e->b->rules[rule].body, NODE_OF_RETURN);
        if (!e->status) e->p->nodes[e->rule_start[rule] - 1].a = start;
    }
    uint32_t string_rule = e->b->string_rule;
    if (string_rule && e->rule_start[string_rule - 1])
        e->p->string_start = e->rule_start[string_rule - 1] - 1;
    uint32_t space_rule = e->b->space_rule;
    if (!e->status && space_rule && e->rule_start[space_rule - 1]) {
        e->p->space_start = e->rule_start[space_rule - 1] - 1;
        find_first(e->p, e->p->space_start);
    }
}

mica_status mica_program_build(program *out, grammar_build *b, uint32_t root, mica_error *err) {
    rule_facts facts;
    mica_status st = mica_rules_analyze(&facts, b, root, err);
    if (st) return st;
    program p = {0};
    emitter e = {.p = &p, .b = b, .facts = &facts};
    e.rule_start = mica_calloc(b->n_rules, sizeof(*e.rule_start));
    e.queue = mica_calloc(b->n_rules, sizeof(*e.queue));
    if (e.rule_start && e.queue)
        emit_all(&e, root);
    else
        e.status = MICA_E_NOMEM;
    mica_free(e.rule_start);
    mica_free(e.queue);
    mica_free(e.set_slots);
    mica_rule_facts_deinit(&facts);
    if (e.status) {
        mica_program_deinit(&p);
        if (e.status == MICA_E_NOMEM)
            return mica_fail(err, e.status, "out of memory for a grammar");
        return mica_fail(err, e.status,
                         "the grammar is too large: more than %d nodes; make it smaller",
                         MAX_NODES / 2);
    }
    make_classes(&p);
    *out = p;
    return MICA_OK;
}

void mica_program_deinit(program *p) {
    mica_free(p->nodes);
    mica_free(p->sets);
    mica_free(p->members);
    mica_free(p->entries);
    *p = (program){0};
}
