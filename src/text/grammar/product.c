/* product.c: both operands are run as deterministic machines side by side; each pair of states that
 * comes up is a state of the result. States from which no end can be reached are dropped.
 */
#include "text/grammar/product.h"

#include <string.h>

#include "text/grammar/lazy.h"

/* A table takes 1 KiB a state. */
enum { MAX_PRODUCT_STATES = 20000 };

typedef struct operand {
    program program;
    lazy lazy;
    uint32_t start;
} operand;

static void operand_deinit(operand *o) {
    mica_lazy_deinit(&o->lazy);
    mica_program_deinit(&o->program);
}

/* *is_never: nothing matches; then there is nothing to free. */
static mica_status operand_init(operand *o, const expr *e, bool *is_never, mica_error *err) {
    *o = (operand){0};
    *is_never = e->kind == EXPR_NEVER;
    if (*is_never) return MICA_OK;
    grammar_build b;
    uint32_t root = 0;
    mica_status st = mica_build_init(&b, err);
    if (!st && !mica_build_rule(&b, "text", 4, &root)) st = mica_build_check(&b, err);
    if (!st) {
        b.rules[root].body = e;
        st = mica_program_build(&o->program, &b, root, err);
    }
    mica_build_deinit(&b);
    if (!st) st = mica_lazy_init(&o->lazy, &o->program, err);
    if (!st) {
        o->start = mica_lazy_start(&o->lazy);
        st = mica_lazy_check(&o->lazy, err);
    }
    if (st) operand_deinit(o);
    return st;
}

typedef struct product {
    operand x, y;
    product_kind kind;
    uint32_t *pairs; /* [2 * n]: the states of x and y */
    uint32_t *next;  /* [256 * n] */
    uint32_t n, capacity;
    uint32_t *slots; /* hash of pairs */
    uint32_t n_slots;
    mica_status status;
} product;

static void product_deinit(product *p) {
    operand_deinit(&p->x);
    operand_deinit(&p->y);
    mica_free(p->pairs);
    mica_free(p->next);
    mica_free(p->slots);
}

static uint32_t pair_hash(uint32_t x, uint32_t y) {
    uint64_t h = ((uint64_t)x << 32 | y) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(h >> 32);
}

static bool grow(product *p) {
    uint32_t capacity = p->capacity ? 2 * p->capacity : 64;
    if (capacity > 2 * MAX_PRODUCT_STATES) {
        p->status = MICA_E_LIMIT;
        return false;
    }
    void *pairs = mica_realloc(p->pairs, capacity * 2 * sizeof(*p->pairs));
    if (pairs) p->pairs = pairs;
    void *next = mica_realloc(p->next, capacity * 256 * sizeof(*p->next));
    if (next) p->next = next;
    uint32_t *slots = mica_calloc(2 * (size_t)capacity, sizeof(*slots));
    if (!pairs || !next || !slots) {
        mica_free(slots);
        p->status = MICA_E_NOMEM;
        return false;
    }
    mica_free(p->slots);
    p->slots = slots;
    p->n_slots = 2 * capacity;
    p->capacity = capacity;
    for (uint32_t i = 1; i < p->n; i++) {
        uint32_t at = pair_hash(p->pairs[2 * i], p->pairs[2 * i + 1]) & (p->n_slots - 1);
        while (slots[at]) {
            at = (at + 1) & (p->n_slots - 1);
        }
        slots[at] = i;
    }
    return true;
}

static bool is_dead(const product *p, uint32_t x, uint32_t y) {
    return x == STATE_DEAD || (p->kind == PRODUCT_BOTH && y == STATE_DEAD);
}

static bool accepts(const product *p, uint32_t x, uint32_t y) {
    bool in_x = *lazy_flags(&p->x.lazy, x) & STATE_ACCEPTS;
    bool in_y = *lazy_flags(&p->y.lazy, y) & STATE_ACCEPTS;
    return in_x && in_y == (p->kind == PRODUCT_BOTH);
}

static uint32_t find_pair(product *p, uint32_t x, uint32_t y) {
    if (is_dead(p, x, y)) return 0;
    if (p->n == p->capacity && !grow(p)) return 0;
    uint32_t at = pair_hash(x, y) & (p->n_slots - 1);
    for (uint32_t i; (i = p->slots[at]) != 0; at = (at + 1) & (p->n_slots - 1)) {
        if (p->pairs[2 * i] == x && p->pairs[2 * i + 1] == y) return i;
    }
    p->pairs[2 * p->n] = x;
    p->pairs[2 * p->n + 1] = y;
    p->slots[at] = p->n;
    return p->n++;
}

/* Of each byte the least one that neither machine tells from it. */
static void find_alike(const product *p, uint8_t *alike) {
    const uint8_t *x = p->x.program.class_of, *y = p->y.program.class_of;
    for (unsigned c = 0; c < 256; c++) {
        unsigned k = 0;
        while (x[k] != x[c] || y[k] != y[c]) {
            k++;
        }
        alike[c] = (uint8_t)k;
    }
}

/* All pairs that can be reached; state 1 is the start. */
static void explore(product *p) {
    uint8_t alike[256];
    find_alike(p, alike);
    p->n = 1;
    if (!grow(p)) return;
    find_pair(p, p->x.start, p->y.start);
    for (uint32_t i = 1; i < p->n && !p->status; i++) {
        for (unsigned c = 0; c < 256 && !p->status; c++) {
            if (alike[c] < c) {
                p->next[(size_t)i * 256 + c] = p->next[(size_t)i * 256 + alike[c]];
                continue;
            }
            uint32_t x = lazy_step(&p->x.lazy, p->pairs[2 * i], (uint8_t)c);
            uint32_t y = p->pairs[2 * i + 1];
            if (y != STATE_DEAD) y = lazy_step(&p->y.lazy, y, (uint8_t)c);
            uint32_t to = find_pair(p, x, y);
            p->next[(size_t)i * 256 + c] = to;
        }
        if (!p->status) p->status = p->x.lazy.status ? p->x.lazy.status : p->y.lazy.status;
    }
}

/* Marks states from which the end can be reached, until nothing changes. */
static void mark_useful(const product *p, uint8_t *is_useful) {
    for (bool has_changed = true; has_changed;) {
        has_changed = false;
        for (uint32_t i = p->n; i-- > 1;) {
            for (unsigned c = 0; c < 256 && !is_useful[i]; c++) {
                is_useful[i] = is_useful[p->next[(size_t)i * 256 + c]];
                has_changed |= is_useful[i];
            }
        }
    }
}

static const expr *make_table(const product *p, grammar_build *b) {
    byte_table *t = mica_arena_alloc(&b->arena, sizeof(*t));
    uint32_t *next = mica_arena_calloc(&b->arena, p->n, 256 * sizeof(*next));
    uint8_t *is_accepting = mica_arena_calloc(&b->arena, p->n, 1);
    uint8_t *is_useful = mica_arena_calloc(&b->arena, p->n, 1);
    if (!t || !next || !is_accepting || !is_useful) {
        b->status = MICA_E_NOMEM;
        return NULL;
    }
    for (uint32_t i = 1; i < p->n; i++) {
        is_accepting[i] = is_useful[i] = accepts(p, p->pairs[2 * i], p->pairs[2 * i + 1]);
    }
    mark_useful(p, is_useful);
    if (p->n < 2 || !is_useful[1]) return b->never;
    for (size_t k = 256; k < (size_t)p->n * 256; k++) {
        if (is_useful[k / 256] && is_useful[p->next[k]]) next[k] = p->next[k];
    }
    *t = (byte_table){.n_states = p->n, .next = next, .is_accepting = is_accepting};
    return mica_expr_table(b, t);
}

static mica_status run(const expr **out, product *p, grammar_build *b, mica_error *err) {
    explore(p);
    if (p->status == MICA_E_LIMIT) {
        return mica_fail(err, MICA_E_LIMIT,
                         "constraints on one string or number that must all hold are too large "
                         "together (more than %d states); lower lengths or drop one",
                         MAX_PRODUCT_STATES);
    }
    if (p->status) return mica_fail(err, p->status, "out of memory for a grammar");
    *out = make_table(p, b);
    return *out ? MICA_OK : mica_build_check(b, err);
}

mica_status mica_expr_product(const expr **out, grammar_build *b, product_kind kind, const expr *x,
                              const expr *y, mica_error *err) {
    product p = {.kind = kind};
    bool x_is_never, y_is_never;
    mica_status st = operand_init(&p.x, x, &x_is_never, err);
    if (st) return st;
    st = operand_init(&p.y, y, &y_is_never, err);
    if (!st && (x_is_never || (y_is_never && kind == PRODUCT_BOTH)))
        *out = b->never;
    else if (!st && y_is_never)
        *out = x;
    else if (!st)
        st = run(out, &p, b, err);
    product_deinit(&p);
    return st;
}
