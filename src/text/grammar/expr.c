/* expr.c: building expressions. Small simplifications happen here, so that front ends need not
 * care: NEVER spreads, EMPTY vanishes, lists of one item are the item.
 */
#include "text/grammar/expr.h"

#include <string.h>

#include "base/checked.h"

/* 2^20 expressions are about 100 MB of schema; nobody means that. */
enum { MAX_EXPRS = 1 << 20 };

static const expr *fail(grammar_build *b, mica_status st) {
    if (!b->status) b->status = st;
    return NULL;
}

static expr *new_expr(grammar_build *b, expr_kind kind) {
    if (b->status) return NULL;
    expr *e = ++b->n_exprs > MAX_EXPRS ? NULL : mica_arena_alloc(&b->arena, sizeof(*e));
    if (!e) {
        fail(b, b->n_exprs > MAX_EXPRS ? MICA_E_LIMIT : MICA_E_NOMEM);
        return NULL;
    }
    e->kind = kind;
    return e;
}

mica_status mica_build_init(grammar_build *b, mica_error *err) {
    *b = (grammar_build){0};
    mica_arena_init(&b->arena, 0);
    b->empty = new_expr(b, EXPR_EMPTY);
    b->never = new_expr(b, EXPR_NEVER);
    return mica_build_check(b, err);
}

void mica_build_deinit(grammar_build *b) {
    mica_free(b->rules);
    mica_arena_deinit(&b->arena);
}

mica_status mica_build_check(const grammar_build *b, mica_error *err) {
    if (b->status == MICA_E_LIMIT) {
        return mica_fail(err, MICA_E_LIMIT,
                         "the grammar is too large: more than %d parts; make it smaller",
                         MAX_EXPRS);
    }
    if (b->status) return mica_fail(err, b->status, "out of memory for a grammar");
    return MICA_OK;
}

const expr *mica_expr_bytes(grammar_build *b, const char *bytes, size_t n) {
    if (!n) return b->empty;
    if (n > UINT32_MAX) return fail(b, MICA_E_LIMIT);
    expr *e = new_expr(b, EXPR_BYTES);
    if (!e) return NULL;
    e->n = (uint32_t)n;
    e->bytes = mica_arena_strndup(&b->arena, bytes, n);
    return e->bytes ? e : fail(b, MICA_E_NOMEM);
}

const expr *mica_expr_text(grammar_build *b, const char *text) {
    return mica_expr_bytes(b, text, strlen(text));
}

const expr *mica_expr_special(grammar_build *b, const char *text, size_t n) {
    const expr *mark = mica_expr_range(b, GRAMMAR_SPECIAL_BYTE, GRAMMAR_SPECIAL_BYTE);
    return mica_expr_seq2(b, mark, mica_expr_bytes(b, text, n));
}

const expr *mica_expr_token(grammar_build *b, const char *text, size_t n) {
    return mica_expr_alt2(b, mica_expr_special(b, text, n), mica_expr_bytes(b, text, n));
}

const expr *mica_expr_set(grammar_build *b, const byte_set *set) {
    static const byte_set none;
    if (memcmp(set, &none, sizeof(none)) == 0) return b->never;
    expr *e = new_expr(b, EXPR_SET);
    if (e) e->set = *set;
    return e;
}

const expr *mica_expr_range(grammar_build *b, unsigned lo, unsigned hi) {
    byte_set set = {0};
    byte_set_add(&set, lo, hi);
    return mica_expr_set(b, &set);
}

/* A list without those of kind `skip`. */
static const expr *new_list(grammar_build *b, expr_kind kind, expr_kind skip,
                            const expr *const *items, size_t n) {
    size_t n_kept = 0;
    const expr *last = NULL;
    for (size_t i = 0; i < n; i++) {
        if (!items[i]) return NULL;
        if (items[i]->kind == skip) continue;
        n_kept++;
        last = items[i];
    }
    if (!n_kept) return skip == EXPR_EMPTY ? b->empty : b->never;
    if (n_kept == 1) return last;
    expr *e = new_expr(b, kind);
    const expr **copy = e ? mica_arena_calloc(&b->arena, n_kept, sizeof(*copy)) : NULL;
    if (!copy) return fail(b, MICA_E_NOMEM);
    for (size_t i = 0; i < n; i++) {
        if (items[i]->kind != skip) copy[e->n++] = items[i];
    }
    e->items = copy;
    return e;
}

const expr *mica_expr_seq(grammar_build *b, const expr *const *items, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (!items[i]) return NULL;
        if (items[i]->kind == EXPR_NEVER) return b->never;
    }
    return new_list(b, EXPR_SEQ, EXPR_EMPTY, items, n);
}

const expr *mica_expr_alt(grammar_build *b, const expr *const *items, size_t n) {
    return new_list(b, EXPR_ALT, EXPR_NEVER, items, n);
}

const expr *mica_expr_seq2(grammar_build *b, const expr *x, const expr *y) {
    const expr *items[] = {x, y};
    return mica_expr_seq(b, items, 2);
}

const expr *mica_expr_seq3(grammar_build *b, const expr *x, const expr *y, const expr *z) {
    const expr *items[] = {x, y, z};
    return mica_expr_seq(b, items, 3);
}

const expr *mica_expr_alt2(grammar_build *b, const expr *x, const expr *y) {
    const expr *items[] = {x, y};
    return mica_expr_alt(b, items, 2);
}

const expr *mica_expr_repeat(grammar_build *b, const expr *body, uint32_t min, uint32_t max) {
    if (!body) return NULL;
    if (min > max) return b->never;
    if (!max || body->kind == EXPR_EMPTY) return b->empty;
    if (body->kind == EXPR_NEVER) return min ? b->never : b->empty;
    if (min == 1 && max == 1) return body;
    expr *e = new_expr(b, EXPR_REPEAT);
    const expr **item = e ? mica_arena_alloc(&b->arena, sizeof(*item)) : NULL;
    if (!item) return fail(b, MICA_E_NOMEM);
    *item = body;
    e->items = item;
    e->n = 1;
    e->min = min;
    e->max = max;
    return e;
}

const expr *mica_expr_optional(grammar_build *b, const expr *body) {
    return mica_expr_repeat(b, body, 0, 1);
}

const expr *mica_expr_rule(grammar_build *b, uint32_t rule) {
    expr *e = new_expr(b, EXPR_RULE);
    if (e) e->rule = rule;
    return e;
}

const expr *mica_expr_table(grammar_build *b, const byte_table *table) {
    expr *e = new_expr(b, EXPR_TABLE);
    if (e) e->table = table;
    return e;
}

const expr *mica_expr_members(grammar_build *b, const expr *const *items, size_t n,
                              const member_list *members) {
    if (n > 64) return fail(b, MICA_E_LIMIT);
    expr *e = new_expr(b, EXPR_MEMBERS);
    const expr **copy = e ? mica_arena_calloc(&b->arena, n, sizeof(*copy)) : NULL;
    if (!copy) return fail(b, MICA_E_NOMEM);
    for (size_t i = 0; i < n; i++) {
        if (!(copy[i] = items[i])) return NULL;
    }
    e->items = copy;
    e->n = (uint32_t)n;
    e->members = *members;
    return e;
}

bool mica_build_rule(grammar_build *b, const char *name, size_t n_name, uint32_t *rule) {
    if (b->n_rules == b->capacity) {
        size_t capacity = b->capacity ? 2 * b->capacity : 16;
        grammar_rule *grown = mica_realloc(b->rules, capacity * sizeof(*grown));
        if (!grown) {
            fail(b, MICA_E_NOMEM);
            return false;
        }
        b->rules = grown;
        b->capacity = capacity;
    }
    const char *copy = mica_arena_strndup(&b->arena, name, n_name);
    if (!copy || b->n_rules == MAX_EXPRS) {
        fail(b, copy ? MICA_E_LIMIT : MICA_E_NOMEM);
        return false;
    }
    b->rules[b->n_rules] = (grammar_rule){.name = copy};
    *rule = b->n_rules++;
    return true;
}

bool mica_expr_push(grammar_build *b, expr_list *list, const expr *e) {
    if (!e) return false;
    if (list->n == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 8;
        const expr **grown = mica_arena_calloc(&b->arena, capacity, sizeof(*grown));
        if (!grown) {
            fail(b, MICA_E_NOMEM);
            return false;
        }
        if (list->n) memcpy(grown, list->items, list->n * sizeof(*grown));
        list->items = grown;
        list->capacity = capacity;
    }
    list->items[list->n++] = e;
    return true;
}
