/* factor.c: alternatives whose equal beginnings are shared.
 *
 * A union of objects ({"kind":"a",...} or {"kind":"b",...}) would be followed along all its
 * branches until their first difference; here what they share is written once. Branches are
 * looked into through rules, but a branch that shares nothing is left as it was.
 */
#include <string.h>

#include "text/grammar/strings_expr.h"

enum { MAX_FACTORED = 512, MAX_FACTOR_DEPTH = 48, MAX_UNROLLED = 64 };

/* An alternative: its first part and what follows. */
typedef struct branch {
    const expr *whole, *head, *rest;
    bool is_taken;
} branch;

static const expr *without_first(grammar_build *b, const expr *seq) {
    return mica_expr_seq(b, seq->items + 1, seq->n - 1);
}

/* Splits off the first part, through sequences and rules. False: out of memory. */
static bool unroll(grammar_build *b, branch *x) {
    x->head = x->whole;
    x->rest = b->empty;
    for (int i = 0; i < MAX_UNROLLED && x->rest; i++) {
        uint32_t rule = x->head->rule;
        bool is_rule = x->head->kind == EXPR_RULE;
        if (is_rule && rule + 1 != b->space_rule && rule + 1 != b->string_rule &&
            b->rules[rule].body) {
            x->head = b->rules[rule].body;
        } else if (x->head->kind == EXPR_SEQ) {
            x->rest = mica_expr_seq2(b, without_first(b, x->head), x->rest);
            x->head = x->head->items[0];
        } else {
            break;
        }
    }
    return x->rest != NULL;
}

static bool share_head(const expr *x, const expr *y) {
    if (x == y) return true;
    if (x->kind != y->kind) return false;
    if (x->kind == EXPR_BYTES) return x->bytes[0] == y->bytes[0];
    if (x->kind == EXPR_RULE) return x->rule == y->rule;
    return x->kind == EXPR_SET && memcmp(&x->set, &y->set, sizeof(x->set)) == 0;
}

static uint32_t common_bytes(const expr *x, const expr *y, uint32_t n) {
    if (y->n < n) n = y->n;
    for (uint32_t i = 0; i < n; i++) {
        if (x->bytes[i] != y->bytes[i]) return i;
    }
    return n;
}

static const expr *factor(grammar_build *b, const expr *const *items, size_t n, int depth);

/* All branches from number `first` on that begin as that one does. */
static const expr *join_group(grammar_build *b, branch *branches, size_t first, size_t n,
                              int depth) {
    const expr *head = branches[first].head;
    expr_list rests = {0};
    uint32_t n_common = head->n;
    size_t n_members = 0;
    for (size_t i = first; i < n; i++) {
        if (branches[i].is_taken || !share_head(head, branches[i].head)) continue;
        n_members++;
        if (head->kind == EXPR_BYTES) n_common = common_bytes(head, branches[i].head, n_common);
    }
    if (n_members == 1) return branches[first].whole;
    for (size_t i = first; i < n; i++) {
        if (branches[i].is_taken || !share_head(head, branches[i].head)) continue;
        const expr *rest = branches[i].rest, *h = branches[i].head;
        branches[i].is_taken = true;
        if (head->kind == EXPR_BYTES)
            rest =
                mica_expr_seq2(b, mica_expr_bytes(b, h->bytes + n_common, h->n - n_common), rest);
        if (!mica_expr_push(b, &rests, rest)) return NULL;
    }
    if (head->kind == EXPR_BYTES) head = mica_expr_bytes(b, head->bytes, n_common);
    return mica_expr_seq2(b, head, factor(b, rests.items, rests.n, depth + 1));
}

static const expr *factor(grammar_build *b, const expr *const *items, size_t n, int depth) {
    expr_list parts = {0};
    if (n < 2 || n > MAX_FACTORED || depth == MAX_FACTOR_DEPTH) return mica_expr_alt(b, items, n);
    branch *branches = mica_arena_calloc(&b->arena, n, sizeof(*branches));
    if (!branches) {
        b->status = MICA_E_NOMEM;
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        branches[i].whole = items[i];
        if (!items[i] || !unroll(b, &branches[i])) return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        if (branches[i].is_taken) continue;
        const expr *e = join_group(b, branches, i, n, depth);
        branches[i].is_taken = true;
        if (!mica_expr_push(b, &parts, e)) return NULL;
    }
    return mica_expr_alt(b, parts.items, parts.n);
}

const expr *mica_expr_factored(grammar_build *b, const expr *const *items, size_t n) {
    return factor(b, items, n, 0);
}
