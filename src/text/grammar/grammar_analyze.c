/* grammar_analyze.c: what must be known of the rules before nodes are made.
 *
 * Three facts come from fixpoints over the rules: which match the empty text, which match anything
 * at all, and which are free of left recursion. Rules are visited from the last to the first and
 * back, since front ends make most rules before or after those they use. A repeat whose body
 * matches the empty text is rewritten to one whose body does not, so that each round of a repeat
 * consumes a byte.
 */
#include "text/grammar/program.h"

#include <string.h>

typedef bool (*expr_test)(const rule_facts *f, const expr *e);

bool mica_expr_is_nullable(const rule_facts *f, const expr *e) {
    switch (e->kind) {
    case EXPR_EMPTY:
        return true;
    case EXPR_SEQ:
        for (uint32_t i = 0; i < e->n; i++) {
            if (!mica_expr_is_nullable(f, e->items[i])) return false;
        }
        return true;
    case EXPR_ALT:
        for (uint32_t i = 0; i < e->n; i++) {
            if (mica_expr_is_nullable(f, e->items[i])) return true;
        }
        return false;
    case EXPR_REPEAT:
        return !e->min || mica_expr_is_nullable(f, e->items[0]);
    case EXPR_RULE:
        return e->rule < f->n && f->is_nullable[e->rule];
    case EXPR_TABLE:
        return e->table->is_accepting[1];
    case EXPR_MEMBERS:
        return !e->members.required;
    case EXPR_NEVER:
    case EXPR_BYTES:
    case EXPR_SET:
        break;
    }
    return false;
}

static bool members_are_productive(const rule_facts *f, const expr *e) {
    for (uint32_t i = 0; i < e->n; i++) {
        bool is_required = e->members.required >> i & 1;
        if (is_required && !mica_expr_is_productive(f, e->items[i])) return false;
    }
    return true;
}

bool mica_expr_is_productive(const rule_facts *f, const expr *e) {
    switch (e->kind) {
    case EXPR_NEVER:
        return false;
    case EXPR_SEQ:
        for (uint32_t i = 0; i < e->n; i++) {
            if (!mica_expr_is_productive(f, e->items[i])) return false;
        }
        return true;
    case EXPR_ALT:
        for (uint32_t i = 0; i < e->n; i++) {
            if (mica_expr_is_productive(f, e->items[i])) return true;
        }
        return false;
    case EXPR_REPEAT:
        return !e->min || mica_expr_is_productive(f, e->items[0]);
    case EXPR_RULE:
        return f->is_productive[e->rule];
    case EXPR_MEMBERS:
        return members_are_productive(f, e);
    case EXPR_EMPTY:
    case EXPR_BYTES:
    case EXPR_SET:
    case EXPR_TABLE:
        break;
    }
    return true;
}

/* The rule to visit as number i: rounds go up and down in turn. */
static uint32_t turn(const grammar_build *b, uint32_t i, unsigned n_rounds) {
    return n_rounds & 1 ? i : b->n_rules - 1 - i;
}

static void find_fixpoint(const grammar_build *b, const rule_facts *f, uint8_t *facts,
                          expr_test test) {
    unsigned n_rounds = 0;
    for (bool has_changed = true; has_changed; n_rounds++) {
        has_changed = false;
        for (uint32_t i = 0; i < b->n_rules; i++) {
            uint32_t r = turn(b, i, n_rounds);
            if (!facts[r] && test(f, b->rules[r].body)) facts[r] = has_changed = true;
        }
    }
}

/* ---- repeats whose body may be empty ---- */

typedef struct rewriter {
    grammar_build *b;
    const rule_facts *facts;
    uint32_t *nonempty; /* of each rule: the rule without the empty text + 1; 0: not made yet */
} rewriter;

static const expr *without_empty(rewriter *w, const expr *e);

/* One alternative for each item that may be the first one that is not empty. */
static const expr *seq_without_empty(rewriter *w, const expr *e) {
    expr_list alternatives = {0};
    for (uint32_t i = 0; i < e->n; i++) {
        const expr *rest = mica_expr_seq(w->b, e->items + i + 1, e->n - i - 1);
        const expr *head = without_empty(w, e->items[i]);
        if (!mica_expr_push(w->b, &alternatives, mica_expr_seq2(w->b, head, rest))) return NULL;
    }
    return mica_expr_alt(w->b, alternatives.items, alternatives.n);
}

static const expr *rule_without_empty(rewriter *w, uint32_t rule) {
    if (!w->nonempty[rule]) {
        uint32_t made;
        const char *name = w->b->rules[rule].name;
        if (!mica_build_rule(w->b, name, strlen(name), &made)) return NULL;
        w->nonempty[rule] = made + 1;
        w->b->rules[made].body = without_empty(w, w->b->rules[rule].body);
    }
    return mica_expr_rule(w->b, w->nonempty[rule] - 1);
}

/* Tables and members stand inside quotes and braces and so are never whole bodies of repeats. */
static const expr *without_empty(rewriter *w, const expr *e) {
    if (!e || !mica_expr_is_nullable(w->facts, e)) return e;
    expr_list items = {0};
    switch (e->kind) {
    case EXPR_EMPTY:
        return w->b->never;
    case EXPR_SEQ:
        return seq_without_empty(w, e);
    case EXPR_ALT:
        for (uint32_t i = 0; i < e->n; i++) {
            if (!mica_expr_push(w->b, &items, without_empty(w, e->items[i]))) return NULL;
        }
        return mica_expr_alt(w->b, items.items, items.n);
    case EXPR_REPEAT:
        return mica_expr_repeat(w->b, without_empty(w, e->items[0]), 1, e->max);
    case EXPR_RULE:
        return rule_without_empty(w, e->rule);
    default:
        return e;
    }
}

static const expr *fix_repeats(rewriter *w, const expr *e) {
    if (!e || (e->kind != EXPR_SEQ && e->kind != EXPR_ALT && e->kind != EXPR_REPEAT)) return e;
    expr_list items = {0};
    bool has_changed = false;
    for (uint32_t i = 0; i < e->n; i++) {
        const expr *fixed = fix_repeats(w, e->items[i]);
        if (!mica_expr_push(w->b, &items, fixed)) return NULL;
        has_changed |= fixed != e->items[i];
    }
    if (e->kind == EXPR_REPEAT && e->max > 1 && mica_expr_is_nullable(w->facts, items.items[0])) {
        return mica_expr_repeat(w->b, without_empty(w, items.items[0]), 0, e->max);
    }
    if (!has_changed) return e;
    if (e->kind == EXPR_SEQ) return mica_expr_seq(w->b, items.items, items.n);
    if (e->kind == EXPR_ALT) return mica_expr_alt(w->b, items.items, items.n);
    return mica_expr_repeat(w->b, items.items[0], e->min, e->max);
}

static mica_status fix_all_repeats(grammar_build *b, const rule_facts *f, mica_error *err) {
    uint32_t n = b->n_rules;
    rewriter w = {b, f, mica_calloc(n, sizeof(*w.nonempty))};
    if (!w.nonempty) return mica_fail(err, MICA_E_NOMEM, "out of memory for a grammar");
    for (uint32_t r = 0; r < n; r++) {
        const expr *fixed = fix_repeats(&w, b->rules[r].body);
        if (fixed) b->rules[r].body = fixed;
    }
    mica_free(w.nonempty);
    return mica_build_check(b, err);
}

/* ---- left recursion ---- */

/* Whether all rules that can stand at the left end of `e` are already known to be free of left
 * recursion; else *culprit is one that is not. */
static bool is_left_free(const rule_facts *f, const uint8_t *is_free, const expr *e,
                         uint32_t *culprit) {
    if (e->kind == EXPR_RULE) {
        *culprit = e->rule;
        return is_free[e->rule];
    }
    if (e->kind == EXPR_SEQ) {
        for (uint32_t i = 0; i < e->n; i++) {
            if (!is_left_free(f, is_free, e->items[i], culprit)) return false;
            if (!mica_expr_is_nullable(f, e->items[i])) return true;
        }
        return true;
    }
    if (e->kind != EXPR_ALT && e->kind != EXPR_REPEAT && e->kind != EXPR_MEMBERS) return true;
    for (uint32_t i = 0; i < e->n; i++) {
        if (!is_left_free(f, is_free, e->items[i], culprit)) return false;
    }
    return e->kind != EXPR_MEMBERS || !e->members.rest ||
           is_left_free(f, is_free, e->members.rest, culprit);
}

/* Follows culprits from a rule that is not free until one comes twice: that one is in a circle. */
static uint32_t find_circle(const grammar_build *b, const rule_facts *f, const uint8_t *is_free,
                            uint32_t rule) {
    for (uint32_t i = 0; i < b->n_rules; i++) {
        is_left_free(f, is_free, b->rules[rule].body, &rule);
    }
    return rule;
}

static mica_status check_left_recursion(const grammar_build *b, const rule_facts *f,
                                        mica_error *err) {
    uint8_t *is_free = mica_calloc(b->n_rules, 1);
    if (!is_free) return mica_fail(err, MICA_E_NOMEM, "out of memory for a grammar");
    uint32_t culprit = 0;
    unsigned n_rounds = 0;
    for (bool has_changed = true; has_changed; n_rounds++) {
        has_changed = false;
        for (uint32_t i = 0; i < b->n_rules; i++) {
            uint32_t r = turn(b, i, n_rounds);
            if (!is_free[r] && is_left_free(f, is_free, b->rules[r].body, &culprit))
                is_free[r] = has_changed = true;
        }
    }
    mica_status st = MICA_OK;
    for (uint32_t r = 0; r < b->n_rules && !st; r++) {
        if (is_free[r]) continue;
        st = mica_fail(err, MICA_E_INVALID,
                       "grammar: rule \"%s\" begins with itself (left recursion); put the "
                       "recursive part last or use * and +",
                       b->rules[find_circle(b, f, is_free, r)].name);
    }
    mica_free(is_free);
    return st;
}

/* ---- all of it ---- */

void mica_rule_facts_deinit(rule_facts *f) {
    mica_free(f->is_nullable);
    mica_free(f->is_productive);
    *f = (rule_facts){0};
}

static mica_status new_facts(rule_facts *f, uint32_t n, mica_error *err) {
    f->n = n;
    f->is_nullable = mica_calloc(n, 1);
    f->is_productive = mica_calloc(n, 1);
    if (f->is_nullable && f->is_productive) return MICA_OK;
    mica_rule_facts_deinit(f);
    return mica_fail(err, MICA_E_NOMEM, "out of memory for a grammar");
}

mica_status mica_rules_analyze(rule_facts *out, grammar_build *b, uint32_t root, mica_error *err) {
    mica_status st = mica_build_check(b, err);
    for (uint32_t r = 0; r < b->n_rules && !st; r++) {
        if (b->rules[r].body) continue;
        st = mica_fail(err, MICA_E_INVALID, "grammar: rule \"%s\" is used but not defined",
                       b->rules[r].name);
    }
    rule_facts f = {0};
    if (st || (st = new_facts(&f, b->n_rules, err))) return st;
    find_fixpoint(b, &f, f.is_nullable, mica_expr_is_nullable);
    st = fix_all_repeats(b, &f, err);
    mica_rule_facts_deinit(&f);
    if (st || (st = new_facts(&f, b->n_rules, err))) return st;
    find_fixpoint(b, &f, f.is_nullable, mica_expr_is_nullable);
    find_fixpoint(b, &f, f.is_productive, mica_expr_is_productive);
    st = check_left_recursion(b, &f, err);
    if (!st && !f.is_productive[root]) {
        b->culprit = mica_rules_blame(b, &f, root);
        st = mica_fail(err, MICA_E_INVALID,
                       "the grammar cannot be satisfied: no text matches it; look for constraints "
                       "that contradict each other");
    }
    if (st) {
        mica_rule_facts_deinit(&f);
        return st;
    }
    *out = f;
    return MICA_OK;
}
