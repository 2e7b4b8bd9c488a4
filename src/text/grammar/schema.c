/* schema.c: places of a schema: flattening, choices and rules. */
#include "text/grammar/schema.h"

#include <stdlib.h>
#include <string.h>

#include "text/grammar/charset.h"
#include "text/grammar/machine.h"
#include "text/grammar/strings_expr.h"

mica_status mica_schema_check(schema_compiler *c, const expr *e) {
    return e ? MICA_OK : mica_build_check(c->b, c->err);
}

static mica_status fail_memory(schema_compiler *c) {
    return mica_fail(c->err, MICA_E_NOMEM, "out of memory for a schema");
}

bool mica_schema_push(schema_compiler *c, schema_list *list, const json_value *v) {
    if (list->n == list->capacity) {
        size_t capacity = 2 * list->capacity + 4;
        const json_value **grown = mica_arena_calloc(&c->b->arena, capacity, sizeof(*grown));
        if (!grown) return false;
        if (list->n) memcpy(grown, list->items, list->n * sizeof(*grown));
        list->items = grown;
        list->capacity = capacity;
    }
    list->items[list->n++] = v;
    return true;
}

/* ---- references ---- */

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    char lower = (char)(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* One step of a pointer ("a~1b%20c"), decoded in place; gives what follows. */
static char *take_step(char *s, size_t *n) {
    char *to = s, *from = s;
    for (; *from && *from != '/'; from++) {
        int high = *from == '%' ? hex_digit(from[1]) : -1;
        int low = high >= 0 ? hex_digit(from[2]) : -1;
        if (low >= 0) {
            *to++ = (char)(high * 16 + low);
            from += 2;
        } else if (from[0] == '~' && (from[1] == '0' || from[1] == '1')) {
            *to++ = *++from == '0' ? '~' : '/';
        } else {
            *to++ = *from;
        }
    }
    *n = (size_t)(to - s);
    return *from ? from + 1 : NULL;
}

static const json_value *find_child(const json_value *v, const char *key, size_t n) {
    for (size_t i = 0; v->kind == JSON_KIND_OBJECT && i < v->n; i++) {
        const json_member *m = &v->members[i];
        if (m->n_key == n && memcmp(m->key, key, n) == 0) return m->value;
    }
    if (v->kind != JSON_KIND_ARRAY || !n || n > 9) return NULL;
    size_t index = 0;
    for (size_t i = 0; i < n; i++) {
        if (key[i] < '0' || key[i] > '9') return NULL;
        index = index * 10 + (size_t)(key[i] - '0');
    }
    return index < v->n ? v->items[index] : NULL;
}

/* The schema in `v` that has the anchor; NULL: none. Other documents inside (with "$id") have
 * anchors of their own. */
static const json_value *find_anchor(const json_value *v, const char *name, int depth) {
    const json_value *found = NULL;
    if (depth > SCHEMA_MAX_DEPTH) return NULL;
    if (v->kind == JSON_KIND_OBJECT) {
        if (depth && mica_json_find(v, "$id")) return NULL;
        if (strcmp(mica_json_string(mica_json_find(v, "$anchor"), ""), name) == 0) return v;
        for (size_t i = 0; i < v->n && !found; i++) {
            bool is_data =
                strcmp(v->members[i].key, "enum") == 0 || strcmp(v->members[i].key, "const") == 0;
            if (!is_data) found = find_anchor(v->members[i].value, name, depth + 1);
        }
    }
    for (size_t i = 0; v->kind == JSON_KIND_ARRAY && i < v->n && !found; i++) {
        found = find_anchor(v->items[i], name, depth + 1);
    }
    return found;
}

static mica_status find_reference(schema_compiler *c, const char *ref, const json_value **out) {
    const json_value *v = c->root;
    const char *id = mica_json_string(mica_json_find(c->root, "$id"), NULL);
    const char *local = ref;
    size_t n_id = id ? strlen(id) : 0;
    if (n_id && strncmp(ref, id, n_id) == 0 && (!ref[n_id] || ref[n_id] == '#')) local = ref + n_id;
    if (*local == '#' && (local[1] == '/' || !local[1])) local++;
    char *path = mica_arena_strndup(&c->b->arena, local, strlen(local)), *next = path;
    if (!path) return fail_memory(c);
    if (*path && *path != '/')
        v = local[0] == '#' && local[1] ? find_anchor(c->root, local + 1, 0) : NULL;
    for (next = *path == '/' ? path + 1 : NULL; v && next;) {
        size_t n;
        char *step = next;
        next = take_step(step, &n);
        v = find_child(v, step, n);
    }
    if (!v || (v->kind != JSON_KIND_OBJECT && v->kind != JSON_KIND_BOOL)) {
        return mica_fail(c->err, MICA_E_INVALID,
                         "schema: \"$ref\": \"%.200s\" leads to no schema; only references into "
                         "the same document (\"#/$defs/name\") are supported",
                         ref);
    }
    *out = v;
    return MICA_OK;
}

/* A schema that is nothing but a reference is what it refers to. */
static mica_status skip_references(schema_compiler *c, const json_value **v) {
    enum { MAX_REFERENCES = 100 };
    for (int i = 0; i < MAX_REFERENCES; i++) {
        const json_value *ref = mica_json_find(*v, "$ref");
        if (!ref || ref->kind != JSON_KIND_STRING) return MICA_OK;
        for (size_t k = 0; k < (*v)->n; k++) {
            const char *key = (*v)->members[k].key;
            if (strcmp(key, "$ref") != 0 && mica_schema_keyword(key) != KEYWORD_ANNOTATION)
                return MICA_OK;
        }
        mica_status st = find_reference(c, ref->string, v);
        if (st) return st;
    }
    return mica_fail(c->err, MICA_E_INVALID,
                     "schema: a \"$ref\" that leads back to itself or through more than %d others",
                     MAX_REFERENCES);
}

/* ---- flattening ---- */

typedef struct flat_place {
    schema_list flat;    /* schemas whose plain keywords hold */
    schema_list choices; /* anyOf and oneOf lists of which one must hold */
    bool is_never;
} flat_place;

static bool has_item(const schema_list *list, const json_value *v) {
    for (size_t i = 0; i < list->n; i++) {
        if (list->items[i] == v) return true;
    }
    return false;
}

static mica_status flatten(schema_compiler *c, flat_place *p, const json_value *v, int depth) {
    if (v->kind == JSON_KIND_BOOL) {
        p->is_never |= !v->boolean;
        return MICA_OK;
    }
    if (v->kind != JSON_KIND_OBJECT)
        return mica_fail(c->err, MICA_E_INVALID, "schema: a schema is an object or a boolean");
    if (has_item(&p->flat, v)) return MICA_OK;
    const json_value *outer = c->at;
    c->at = v;
    if (depth > SCHEMA_MAX_DEPTH || p->flat.n == SCHEMA_MAX_FLAT)
        return mica_fail(c->err, MICA_E_LIMIT, "schema: too many schemas hold at one place");
    mica_status st = mica_schema_check_keywords(c, v);
    if (st) return st;
    if (!mica_schema_push(c, &p->flat, v)) return fail_memory(c);
    const json_value *ref = mica_json_find(v, "$ref"), *all = mica_json_find(v, "allOf");
    const json_value *any = mica_json_find(v, "anyOf"), *one = mica_json_find(v, "oneOf");
    if (ref) {
        const json_value *target;
        if ((st = find_reference(c, ref->string, &target))) return st;
        if ((st = flatten(c, p, target, depth + 1))) return st;
    }
    for (size_t i = 0; all && i < all->n; i++) {
        if ((st = flatten(c, p, all->items[i], depth + 1))) return st;
    }
    if (any && !mica_schema_push(c, &p->choices, any)) return fail_memory(c);
    if (one && !mica_schema_push(c, &p->choices, one)) return fail_memory(c);
    if (p->choices.n > SCHEMA_MAX_CHOICES)
        return mica_fail(c->err, MICA_E_LIMIT, "schema: more than %d anyOf and oneOf at one place",
                         SCHEMA_MAX_CHOICES);
    c->at = outer;
    return MICA_OK;
}

/* Whether a flat schema says anything by itself. */
static bool is_plain(const json_value *v) {
    for (size_t i = 0; i < v->n; i++) {
        keyword_kind kind = mica_schema_keyword(v->members[i].key);
        if (kind == KEYWORD_TYPE || kind == KEYWORD_VALUES || kind == KEYWORD_CONSTRAINT)
            return false;
    }
    return true;
}

static bool are_all_plain(const schema_list *flat) {
    for (size_t i = 0; i < flat->n; i++) {
        if (!is_plain(flat->items[i])) return false;
    }
    return true;
}

/* ---- choices ---- */

/* Only one choice and nothing beside it: each branch is a place of its own. */
static mica_status compile_branches(schema_compiler *c, const json_value *choices,
                                    const expr **out) {
    expr_list items = {0};
    for (size_t i = 0; i < choices->n; i++) {
        schema_list branch = {0};
        const expr *e;
        if (!mica_schema_push(c, &branch, choices->items[i])) return fail_memory(c);
        mica_status st = mica_schema_place(c, &branch, &e);
        if (st) return st;
        if (!mica_expr_push(c->b, &items, e)) return mica_schema_check(c, NULL);
    }
    *out = mica_expr_factored(c->b, items.items, items.n);
    return mica_schema_check(c, *out);
}

/* Multiplies out choices from number `at` on; adds what each way allows to `ways`. */
static mica_status expand(schema_compiler *c, const flat_place *p, size_t at, expr_list *ways) {
    if (p->is_never) return MICA_OK;
    if (at < p->choices.n) {
        const json_value *choices = p->choices.items[at];
        for (size_t i = 0; i < choices->n; i++) {
            flat_place next = {.is_never = p->is_never};
            for (size_t k = 0; k < p->flat.n; k++) {
                if (!mica_schema_push(c, &next.flat, p->flat.items[k])) return fail_memory(c);
            }
            for (size_t k = 0; k < p->choices.n; k++) {
                if (!mica_schema_push(c, &next.choices, p->choices.items[k])) return fail_memory(c);
            }
            const json_value *outer = c->at;
            mica_status st = flatten(c, &next, choices->items[i], 0);
            c->at = st ? c->at : choices->items[i];
            if (st || (st = expand(c, &next, at + 1, ways))) return st;
            c->at = outer;
        }
        return MICA_OK;
    }
    if (ways->n == SCHEMA_MAX_DISJUNCTS) {
        return mica_fail(c->err, MICA_E_LIMIT,
                         "schema: anyOf and oneOf at one place make more than %d combinations",
                         SCHEMA_MAX_DISJUNCTS);
    }
    const expr *e;
    mica_status st = mica_schema_types(c, &p->flat, &e);
    if (st) return st;
    return mica_expr_push(c->b, ways, e) ? MICA_OK : mica_schema_check(c, NULL);
}

static mica_status compile_place(schema_compiler *c, const schema_list *list, const expr **out) {
    flat_place p = {0};
    for (size_t i = 0; i < list->n; i++) {
        mica_status st = flatten(c, &p, list->items[i], 0);
        if (st) return st;
    }
    if (p.choices.n == 1 && !p.is_never && are_all_plain(&p.flat))
        return compile_branches(c, p.choices.items[0], out);
    expr_list ways = {0};
    mica_status st = expand(c, &p, 0, &ways);
    if (st) return st;
    *out = mica_expr_factored(c->b, ways.items, ways.n);
    return mica_schema_check(c, *out);
}

/* ---- places ---- */

static int compare_pointers(const void *a, const void *b) {
    const json_value *const *x = a, *const *y = b;
    return (uintptr_t)*x < (uintptr_t)*y ? -1 : (uintptr_t)*x > (uintptr_t)*y;
}

/* The list in one order, without references, `true` and twins, so that equal places are found. */
static mica_status make_key(schema_compiler *c, const schema_list *list, schema_list *key) {
    for (size_t i = 0; i < list->n; i++) {
        const json_value *v = list->items[i];
        mica_status st = skip_references(c, &v);
        if (st) return st;
        bool says_nothing =
            v->kind == JSON_KIND_BOOL ? v->boolean : v->kind == JSON_KIND_OBJECT && !v->n;
        if (says_nothing || has_item(key, v)) continue;
        if (!mica_schema_push(c, key, v)) return fail_memory(c);
    }
    if (key->n) qsort(key->items, key->n, sizeof(*key->items), compare_pointers);
    return MICA_OK;
}

static bool is_key(const schema_list *a, const schema_list *b) {
    return a->n == b->n && (!a->n || memcmp(a->items, b->items, a->n * sizeof(*a->items)) == 0);
}

static bool is_memo(const schema_memo *m, const schema_list *key, const schema_site *site) {
    return m->site.notation == site->notation && m->site.seen == site->seen &&
           m->site.types == site->types && is_key(&m->key, key);
}

static uint32_t *memo_chain(schema_compiler *c, const schema_list *key) {
    uint64_t h = 0;
    for (size_t i = 0; i < key->n; i++) {
        h = (h ^ (uintptr_t)key->items[i]) * UINT64_C(0x9E3779B97F4A7C15);
    }
    return &c->memo_chains[(h >> 32) % SCHEMA_MEMO_CHAINS];
}

static const schema_memo *find_memo(schema_compiler *c, const schema_list *key) {
    for (uint32_t i = *memo_chain(c, key); i; i = c->memos[i - 1].next) {
        if (is_memo(&c->memos[i - 1], key, &c->site)) return &c->memos[i - 1];
    }
    return NULL;
}

static mica_status add_memo(schema_compiler *c, const schema_list *key, uint32_t *rule) {
    if (c->n_memos == c->memos_capacity) {
        size_t capacity = 2 * c->memos_capacity + 16;
        schema_memo *grown = mica_realloc(c->memos, capacity * sizeof(*grown));
        if (!grown) return fail_memory(c);
        c->memos = grown;
        c->memos_capacity = capacity;
    }
    if (!mica_build_rule(c->b, "schema", 6, rule)) return mica_schema_check(c, NULL);
    uint32_t *chain = memo_chain(c, key);
    c->memos[c->n_memos++] = (schema_memo){*key, c->site, *rule, *chain};
    *chain = (uint32_t)c->n_memos;
    c->b->rules[*rule].schema = c->at;
    return MICA_OK;
}

mica_status mica_schema_place(schema_compiler *c, const schema_list *list, const expr **out) {
    schema_list key = {0};
    const json_value *outer = c->at;
    if (list->n) c->at = list->items[0];
    mica_status st = make_key(c, list, &key);
    if (st) return st;
    if (key.n == 1) c->at = key.items[0];
    const schema_memo *known = find_memo(c, &key);
    if (known) {
        c->at = outer;
        *out = mica_expr_rule(c->b, known->rule);
        return mica_schema_check(c, *out);
    }
    if (++c->depth > SCHEMA_MAX_DEPTH)
        return mica_fail(c->err, MICA_E_LIMIT, "schema: nested too deep");
    uint32_t rule;
    const expr *body;
    if ((st = add_memo(c, &key, &rule)) || (st = compile_place(c, &key, &body))) return st;
    c->depth--;
    c->at = outer;
    c->b->rules[rule].body = body;
    *out = mica_expr_rule(c->b, rule);
    return mica_schema_check(c, *out);
}

/* ---- the compiler ---- */

/* None, one space, or one or two line ends and an indentation: enough for any pretty printer, and
 * no room for a model that never stops to write blanks. */
static const expr *make_space(grammar_build *b) {
    enum { MAX_INDENT = 64 };
    byte_set blank = {0};
    byte_set_add(&blank, ' ', ' ');
    byte_set_add(&blank, '\t', '\t');
    const expr *indent = mica_expr_repeat(b, mica_expr_set(b, &blank), 0, MAX_INDENT);
    const expr *line = mica_expr_alt2(b, mica_expr_text(b, "\n"), mica_expr_text(b, "\r\n"));
    const expr *lines = mica_expr_seq2(b, mica_expr_repeat(b, line, 1, 2), indent);
    const expr *items[] = {mica_expr_text(b, " "), lines, b->empty};
    return mica_expr_alt(b, items, 3);
}

const expr *mica_schema_space(grammar_build *b, bool is_compact) {
    uint32_t rule;
    if (is_compact) return b->empty;
    if (!b->space_rule) {
        const expr *space = make_space(b);
        if (!space || !mica_build_rule(b, "space", 5, &rule)) return NULL;
        b->rules[rule].body = space;
        b->space_rule = rule + 1;
    }
    return mica_expr_rule(b, b->space_rule - 1);
}

mica_status mica_schema_compiler_init(schema_compiler *c, grammar_build *b, const json_value *root,
                                      const schema_options *options, mica_error *err) {
    *c = (schema_compiler){.b = b, .root = root, .err = err};
    if (options) c->options = *options;
    c->site = (schema_site){.notation = &c->json, .types = SCHEMA_ALL};
    bool ok = mica_notation_json(&c->json, b, mica_schema_space(b, c->options.is_compact));
    return mica_schema_check(c, ok ? b->empty : NULL);
}

void mica_schema_compiler_deinit(schema_compiler *c) {
    mica_free(c->memos);
    mica_free(c->texts);
    c->memos = NULL;
    c->texts = NULL;
}

mica_status mica_grammar_compile_schema(grammar **out, const json_value *schema,
                                        const schema_options *options, mica_error *err) {
    grammar_build b;
    schema_compiler c = {0};
    schema_list list = {0};
    const expr *root = NULL;
    uint32_t rule;
    mica_status st = mica_build_init(&b, err);
    if (st || (st = mica_schema_compiler_init(&c, &b, schema, options, err))) goto out;
    if (!mica_build_rule(&b, "root", 4, &rule) || !mica_schema_push(&c, &list, schema)) {
        st = fail_memory(&c);
        goto out;
    }
    if ((st = mica_schema_place(&c, &list, &root))) goto out;
    b.rules[rule].body = root;
    st = mica_grammar_from_build(out, &b, rule, err);
    c.at = b.culprit;
out:
    if (st) mica_schema_say_where(schema, c.at, err);
    mica_schema_compiler_deinit(&c);
    mica_build_deinit(&b);
    return st;
}

mica_status mica_grammar_compile_schema_text(grammar **out, const char *text, size_t n,
                                             const schema_options *options, mica_error *err) {
    mica_arena arena;
    mica_arena_init(&arena, 0);
    json_value *schema;
    mica_status st = mica_json_parse(&schema, text, n, "schema", false, &arena, err);
    if (!st) st = mica_grammar_compile_schema(out, schema, options, err);
    mica_arena_deinit(&arena);
    return st;
}

mica_status mica_grammar_compile_json(grammar **out, const schema_options *options,
                                      mica_error *err) {
    static const char any_object[] = "{\"type\":\"object\"}";
    return mica_grammar_compile_schema_text(out, any_object, sizeof(any_object) - 1, options, err);
}
