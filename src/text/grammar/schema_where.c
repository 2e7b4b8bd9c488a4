/* schema_where.c: which schema of a document an error is about, as a JSON pointer. */
#include <stdio.h>
#include <string.h>

#include "text/grammar/program.h"
#include "text/grammar/schema.h"

enum { MAX_POINTER_BYTES = 240 };

/* Written from its end, since the way to a value is known when it was found. */
typedef struct pointer {
    char text[MAX_POINTER_BYTES];
    size_t begin;
    bool is_cut;
} pointer;

static void put_before(pointer *p, const char *s, size_t n) {
    p->begin -= n;
    memcpy(p->text + p->begin, s, n);
}

/* A pointer that is too long lacks its beginning. */
static void put_step(pointer *p, const char *key, size_t n) {
    if (!p->is_cut && p->begin < 2 * n + 8) {
        put_before(p, "...", 3);
        p->is_cut = true;
    }
    if (p->is_cut) return;
    while (n-- > 0) {
        bool is_escaped = key[n] == '~' || key[n] == '/';
        put_before(p, is_escaped ? key[n] == '~' ? "~0" : "~1" : key + n, is_escaped ? 2 : 1);
    }
    put_before(p, "/", 1);
}

/* False: `at` is not in `v`. */
static bool find_way(pointer *p, const json_value *v, const json_value *at) {
    if (v == at) return true;
    for (size_t i = 0; v->kind == JSON_KIND_OBJECT && i < v->n; i++) {
        if (!find_way(p, v->members[i].value, at)) continue;
        put_step(p, v->members[i].key, v->members[i].n_key);
        return true;
    }
    for (size_t i = 0; v->kind == JSON_KIND_ARRAY && i < v->n; i++) {
        char index[24];
        if (!find_way(p, v->items[i], at)) continue;
        put_step(p, index, (size_t)snprintf(index, sizeof(index), "%zu", i));
        return true;
    }
    return false;
}

bool mica_schema_say_where(const json_value *root, const json_value *at, mica_error *err) {
    static const char prefix[] = "schema: ";
    pointer p = {.begin = MAX_POINTER_BYTES - 1};
    if (!err || err->code == MICA_E_NOMEM || !at || !find_way(&p, root, at)) return false;
    put_before(&p, p.is_cut ? "#/" : "#", p.is_cut ? 2 : 1);
    char message[sizeof(err->message)];
    size_t n_prefix = sizeof(prefix) - 1;
    memcpy(message, err->message, sizeof(message));
    const char *rest = message + (strncmp(message, prefix, n_prefix) == 0 ? n_prefix : 0);
    snprintf(err->message, sizeof(err->message), "schema, at %s: %.700s", p.text + p.begin, rest);
    return true;
}

/* ---- schemas that cannot be satisfied ---- */

enum { MAX_BLAME_RULES = 2000 };

typedef struct search {
    const grammar_build *b;
    const rule_facts *facts;
    const json_value **found; /* of each rule, when it was visited */
    int depth;
} search;

static const json_value *blame(search *s, const expr *e, const json_value *outer);

static const json_value *blame_rule(search *s, uint32_t rule, const json_value *outer) {
    const grammar_rule *r = &s->b->rules[rule];
    const json_value *here = r->schema ? r->schema : outer;
    if (s->found[rule] || s->depth == MAX_BLAME_RULES)
        return s->found[rule] ? s->found[rule] : here;
    s->found[rule] = here;
    s->depth++;
    s->found[rule] = blame(s, r->body, here);
    s->depth--;
    return s->found[rule];
}

/* The innermost schema because of which nothing matches `e`; `outer`: the one that `e` is of. */
static const json_value *blame(search *s, const expr *e, const json_value *outer) {
    if (e->kind == EXPR_RULE) return blame_rule(s, e->rule, outer);
    const json_value *all = NULL;
    for (uint32_t i = 0; i < e->n && e->kind != EXPR_BYTES; i++) {
        if (e->kind == EXPR_MEMBERS && !(e->members.required >> i & 1)) continue;
        if (mica_expr_is_productive(s->facts, e->items[i])) continue;
        const json_value *one = blame(s, e->items[i], outer);
        if (e->kind != EXPR_ALT) return one;
        if (all && all != one) return outer;
        all = one;
    }
    return all ? all : outer;
}

const json_value *mica_rules_blame(grammar_build *b, const rule_facts *f, uint32_t root) {
    search s = {.b = b, .facts = f};
    s.found = mica_arena_calloc(&b->arena, b->n_rules, sizeof(*s.found));
    return s.found ? blame_rule(&s, root, NULL) : NULL;
}
