/* grammar_compile.c: a grammar from what a front end has built, and the smallest front ends:
 * patterns, choices, and answers made of pieces.
 */
#include <stdlib.h>
#include <string.h>

#include "text/grammar/machine.h"
#include "text/grammar/pattern_expr.h"
#include "text/grammar/schema.h"
#include "text/grammar/strings_expr.h"

mica_status mica_grammar_from_build(grammar **out, grammar_build *b, uint32_t root,
                                    mica_error *err) {
    grammar *g = mica_calloc(1, sizeof(*g));
    if (!g) return mica_fail(err, MICA_E_NOMEM, "out of memory for a grammar");
    mica_status st = mica_program_build(&g->program, b, root, err);
    if (!st) st = mica_program_check_ways(&g->program, err);
    if (st) {
        mica_program_deinit(&g->program);
        mica_free(g);
        return st;
    }
    *out = g;
    return MICA_OK;
}

static mica_status from_expr(grammar **out, grammar_build *b, const expr *e, mica_error *err) {
    uint32_t root;
    if (!e || !mica_build_rule(b, "root", 4, &root)) return mica_build_check(b, err);
    b->rules[root].body = e;
    return mica_grammar_from_build(out, b, root, err);
}

mica_status mica_grammar_compile_regex(grammar **out, const char *pattern, size_t n,
                                       mica_error *err) {
    grammar_build b;
    const expr *e = NULL;
    const pattern_options options = {.what = "regex"};
    mica_status st = mica_build_init(&b, err);
    if (!st) st = mica_pattern_expr(&e, &b, pattern, n, &options, err);
    if (!st) st = from_expr(out, &b, e, err);
    mica_build_deinit(&b);
    return st;
}

/* ---- strings ---- */

/* Deeper than this equal beginnings are not shared: expressions are walked recursively. */
enum { MAX_SHARED = 64 };

static int compare_strings(const void *a, const void *b) {
    const byte_string *x = a, *y = b;
    size_t n = x->n < y->n ? x->n : y->n;
    int c = n ? memcmp(x->s, y->s, n) : 0;
    return c ? c : x->n < y->n ? -1 : x->n > y->n;
}

/* Sorted strings with the first `from` bytes off; equal beginnings are shared. */
static const expr *join(grammar_build *b, const byte_string *items, size_t n, size_t from,
                        int depth) {
    expr_list parts = {0};
    for (size_t i = 0; i < n;) {
        size_t end = i + 1, shared = items[i].n;
        while (depth < MAX_SHARED && items[i].n > from && end < n &&
               items[end].s[from] == items[i].s[from]) {
            end++;
        }
        if (end > i + 1) {
            const byte_string *last = &items[end - 1];
            for (shared = from; shared < items[i].n && items[i].s[shared] == last->s[shared];) {
                shared++;
            }
        }
        const expr *e = mica_expr_bytes(b, items[i].s + from, shared - from);
        if (end > i + 1) e = mica_expr_seq2(b, e, join(b, items + i, end - i, shared, depth + 1));
        if (!mica_expr_push(b, &parts, e)) return NULL;
        i = end;
    }
    return mica_expr_alt(b, parts.items, parts.n);
}

const expr *mica_strings_expr(grammar_build *b, byte_string *items, size_t n) {
    qsort(items, n, sizeof(*items), compare_strings);
    return join(b, items, n, 0, 0);
}

mica_status mica_grammar_compile_choices(grammar **out, const char *const *choices,
                                         size_t n_choices, mica_error *err) {
    if (!n_choices) return mica_fail(err, MICA_E_INVALID, "the list of choices is empty");
    grammar_build b;
    mica_status st = mica_build_init(&b, err);
    byte_string *items = mica_calloc(n_choices, sizeof(*items));
    if (!st && !items) st = mica_fail(err, MICA_E_NOMEM, "out of memory for a grammar");
    if (!st) {
        for (size_t i = 0; i < n_choices; i++) {
            items[i] = (byte_string){choices[i], strlen(choices[i])};
        }
        st = from_expr(out, &b, mica_strings_expr(&b, items, n_choices), err);
    }
    mica_free(items);
    mica_build_deinit(&b);
    return st;
}

/* ---- pieces ---- */

static mica_status piece_expr(grammar_build *b, const grammar_piece *piece,
                              const schema_options *options, const expr **out, mica_error *err) {
    if (piece->kind != GRAMMAR_SCHEMA) {
        size_t n = strlen(piece->text);
        *out = piece->kind == GRAMMAR_TEXT ? mica_expr_bytes(b, piece->text, n)
                                           : mica_expr_token(b, piece->text, n);
        return *out ? MICA_OK : mica_build_check(b, err);
    }
    schema_compiler c;
    schema_list list = {0};
    mica_status st = mica_schema_compiler_init(&c, b, piece->schema, options, err);
    if (!st && !mica_schema_push(&c, &list, piece->schema))
        st = mica_fail(err, MICA_E_NOMEM, "out of memory for a schema");
    if (!st) st = mica_schema_place(&c, &list, out);
    if (st) mica_schema_say_where(piece->schema, c.at, err);
    mica_schema_compiler_deinit(&c);
    return st;
}

static mica_status pieces_expr(grammar_build *b, const grammar_pieces *pieces,
                               const schema_options *options, const expr **out, mica_error *err) {
    *out = b->empty;
    for (size_t i = 0; i < pieces->n; i++) {
        const expr *e;
        mica_status st = piece_expr(b, &pieces->items[i], options, &e, err);
        if (st) return st;
        if (!(*out = mica_expr_seq2(b, *out, e))) return mica_build_check(b, err);
    }
    return MICA_OK;
}

/* Where the schema is because of which no answer is possible. */
static void say_where(const grammar_rounds *rounds, const json_value *culprit, mica_error *err) {
    for (size_t i = 0; culprit && i < rounds->n_ways; i++) {
        for (size_t k = 0; k < rounds->ways[i].n; k++) {
            const grammar_piece *piece = &rounds->ways[i].items[k];
            if (piece->kind != GRAMMAR_SCHEMA) continue;
            if (mica_schema_say_where(piece->schema, culprit, err)) return;
        }
    }
}

/* One round, as a rule of its own: it is used twice. */
static mica_status round_expr(grammar_build *b, const grammar_rounds *rounds,
                              const schema_options *options, const expr **out, mica_error *err) {
    expr_list ways = {0};
    uint32_t rule;
    for (size_t i = 0; i < rounds->n_ways; i++) {
        const expr *way;
        mica_status st = pieces_expr(b, &rounds->ways[i], options, &way, err);
        if (st) return st;
        if (!mica_expr_push(b, &ways, way)) return mica_build_check(b, err);
    }
    if (!mica_build_rule(b, "round", 5, &rule)) return mica_build_check(b, err);
    b->rules[rule].body = mica_expr_factored(b, ways.items, ways.n);
    *out = b->rules[rule].body ? mica_expr_rule(b, rule) : NULL;
    return *out ? MICA_OK : mica_build_check(b, err);
}

mica_status mica_grammar_compile_rounds(grammar **out, const grammar_rounds *rounds,
                                        const schema_options *options, mica_error *err) {
    grammar_build b;
    const expr *head, *one, *between, *tail;
    uint32_t max = rounds->max_rounds ? rounds->max_rounds - 1 : EXPR_UNBOUNDED;
    mica_status st = mica_build_init(&b, err);
    if (!st) st = pieces_expr(&b, &rounds->head, options, &head, err);
    if (!st) st = round_expr(&b, rounds, options, &one, err);
    if (!st) st = pieces_expr(&b, &rounds->between, options, &between, err);
    if (!st) st = pieces_expr(&b, &rounds->tail, options, &tail, err);
    if (!st) {
        const expr *more = mica_expr_repeat(&b, mica_expr_seq2(&b, between, one), 0, max);
        const expr *all = mica_expr_seq2(&b, mica_expr_seq3(&b, head, one, more), tail);
        st = from_expr(out, &b, all, err);
        if (st) say_where(rounds, b.culprit, err);
    }
    mica_build_deinit(&b);
    return st;
}
