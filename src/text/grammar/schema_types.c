/* schema_types.c: what a place allows, type by type, and the values of enum and const. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "text/grammar/exact_number.h"
#include "text/grammar/machine.h"
#include "text/grammar/schema.h"
#include "text/grammar/strings_expr.h"

/* ---- small parts ---- */

const expr *mica_schema_json_string(schema_compiler *c, const char *s, size_t n) {
    json_writer w;
    mica_json_writer_init(&w, false);
    mica_json_put_string(&w, s, n);
    const expr *e = NULL;
    if (w.failed)
        c->b->status = MICA_E_NOMEM;
    else
        e = mica_expr_bytes(c->b, w.data, w.n);
    mica_json_writer_deinit(&w);
    return e;
}

const expr *mica_schema_literal(schema_compiler *c, const char *s, size_t n) {
    const char *bar = c->site.notation->bar;
    const expr *e = mica_schema_json_string(c, s, n);
    return e && bar && memmem(e->bytes, e->n, bar, strlen(bar)) ? c->b->never : e;
}

/* As the schema spells it. */
static const expr *number_value(schema_compiler *c, const json_value *v) {
    char text[MICA_DECIMAL_BYTES];
    if (v->kind == JSON_KIND_DOUBLE && v->literal) return mica_expr_text(c->b, v->literal);
    if (v->kind == JSON_KIND_INT)
        snprintf(text, sizeof(text), "%" PRId64, v->integer);
    else
        mica_decimal_format(text, v->number);
    return mica_expr_text(c->b, text);
}

/* The members or items between the brackets. */
static const expr *inner_values(schema_compiler *c, const json_value *v, int depth) {
    bool is_object = v->kind == JSON_KIND_OBJECT;
    schema_site outer = c->site;
    expr_list items = {0};
    for (size_t i = 0; i < v->n; i++) {
        const json_member *m = is_object ? &v->members[i] : NULL;
        mica_schema_enter_child(c, m ? m->key : NULL, m ? m->n_key : 0);
        const expr *e = mica_schema_value(c, m ? m->value : v->items[i], depth + 1);
        c->site = outer;
        e = m ? mica_schema_member(c, mica_schema_key(c, m->key, m->n_key), e)
              : mica_schema_item(c, e);
        if (i && !mica_expr_push(c->b, &items, c->site.notation->separator)) return NULL;
        if (!mica_expr_push(c->b, &items, e)) return NULL;
    }
    return mica_expr_seq(c->b, items.items, items.n);
}

static const expr *container_value(schema_compiler *c, const json_value *v, int depth) {
    bool is_object = v->kind == JSON_KIND_OBJECT;
    schema_site outer = c->site;
    mica_schema_enter_container(c);
    if (c->site.notation->maps) {
        bool is_read = !(mica_schema_seen_types(c) & SCHEMA_NO_JSON);
        c->site.notation = is_read ? c->site.notation->maps : NULL;
        c->site.seen = NULL;
    }
    const schema_notation *n = c->site.notation;
    const expr *inner = n ? inner_values(c, v, depth) : c->b->never;
    c->site = outer;
    if (!n) return inner;
    if (!v->n)
        return is_object ? mica_expr_seq2(c->b, n->object_open, n->object_end)
                         : mica_expr_seq2(c->b, n->array_open, n->array_end);
    return is_object ? mica_expr_seq3(c->b, n->object_open, inner, n->object_close)
                     : mica_expr_seq3(c->b, n->array_open, inner, n->array_close);
}

/* true, false, null, and what the notation has for them. None is a string where one may come. */
static const expr *literal(schema_compiler *c, json_kind kind, bool v) {
    const schema_notation *n = c->site.notation;
    const expr *e = mica_expr_text(c->b, kind == JSON_KIND_NULL ? "null" : v ? "true" : "false");
    bool is_string = kind == JSON_KIND_NULL && n->reader &&
                     mica_schema_seen_types(c) & (SCHEMA_STRING | SCHEMA_ANY_VALUE);
    if (!n->python_words || is_string) return e;
    const char *other = kind == JSON_KIND_NULL ? "None" : v ? "True" : "False";
    return mica_expr_alt2(c->b, e, mica_expr_text(c->b, other));
}

static const expr *string_value(schema_compiler *c, const char *s, size_t n) {
    if (!c->site.notation->is_raw) return mica_schema_literal(c, s, n);
    return mica_schema_text_quoted(c, mica_schema_text_literal(c, s, n));
}

static const expr *closed(schema_compiler *c, const expr *e) {
    return mica_expr_seq2(c->b, e, c->site.notation->value_close);
}

const expr *mica_schema_value(schema_compiler *c, const json_value *v, int depth) {
    switch (v->kind) {
    case JSON_KIND_NULL:
    case JSON_KIND_BOOL:
        return closed(c, literal(c, v->kind, v->boolean));
    case JSON_KIND_INT:
    case JSON_KIND_DOUBLE:
        return closed(c, number_value(c, v));
    case JSON_KIND_STRING:
        return string_value(c, v->string, v->n);
    case JSON_KIND_ARRAY:
    case JSON_KIND_OBJECT:
        break;
    }
    return closed(c, container_value(c, v, depth));
}

/* ---- types ---- */

static int type_bit(const char *name) {
    static const char *const names[] = {"null",   "boolean", "integer", "number",
                                        "string", "array",   "object"};
    for (int i = 0; i < 7; i++) {
        if (strcmp(name, names[i]) == 0) return 1 << i | (i == 3 ? SCHEMA_INTEGER : 0);
    }
    return 0;
}

/* The types that all "type" keywords allow. */
static mica_status find_types(schema_compiler *c, const schema_list *flat, int *types) {
    *types = SCHEMA_ALL;
    for (size_t i = 0; i < flat->n; i++) {
        const json_value *type = mica_json_find(flat->items[i], "type");
        int allowed = 0;
        if (!type) continue;
        size_t n = type->kind == JSON_KIND_ARRAY ? type->n : 1;
        for (size_t k = 0; k < n; k++) {
            const json_value *name = type->kind == JSON_KIND_ARRAY ? type->items[k] : type;
            int bit = type_bit(mica_json_string(name, ""));
            if (!bit)
                return mica_fail(c->err, MICA_E_INVALID,
                                 "schema: \"type\" must be one or several of null, boolean, "
                                 "integer, number, string, array, object; found \"%.60s\"",
                                 mica_json_string(name, "(not a string)"));
            allowed |= bit;
        }
        *types &= allowed;
    }
    return MICA_OK;
}

static int type_of_value(const json_value *v) {
    switch (v->kind) {
    case JSON_KIND_NULL:
        return SCHEMA_NULL;
    case JSON_KIND_BOOL:
        return SCHEMA_BOOLEAN;
    case JSON_KIND_INT:
    case JSON_KIND_DOUBLE:
        return mica_exact_is_integer(v) ? SCHEMA_INTEGER : SCHEMA_NUMBER;
    case JSON_KIND_STRING:
        return SCHEMA_STRING;
    case JSON_KIND_ARRAY:
        return SCHEMA_ARRAY;
    case JSON_KIND_OBJECT:
        break;
    }
    return SCHEMA_OBJECT;
}

/* ---- enum and const ---- */

enum { MAX_COMPARED = 1 << 26 };

static bool are_equal(const json_value *a, const json_value *b) {
    if (mica_json_is_number(a) && mica_json_is_number(b)) return mica_exact_compare(a, b) == 0;
    if (a->kind != b->kind || a->n != b->n) return false;
    switch (a->kind) {
    case JSON_KIND_BOOL:
        return a->boolean == b->boolean;
    case JSON_KIND_STRING:
        return memcmp(a->string, b->string, a->n) == 0;
    case JSON_KIND_ARRAY:
        for (size_t i = 0; i < a->n; i++) {
            if (!are_equal(a->items[i], b->items[i])) return false;
        }
        return true;
    case JSON_KIND_OBJECT:
        for (size_t i = 0; i < a->n; i++) {
            const json_value *other = mica_json_find(b, a->members[i].key);
            if (!other || !are_equal(a->members[i].value, other)) return false;
        }
        return true;
    default:
        return true;
    }
}

/* Whether the enum and const of one schema allow a value, which is known to be in list `source`. */
static bool has_value(const json_value *schema, const json_value *source, const json_value *v) {
    const json_value *list = mica_json_find(schema, "enum");
    const json_value *single = mica_json_find(schema, "const");
    if (single && !are_equal(single, v)) return false;
    if (list == source) return true;
    for (size_t i = 0; list && i < list->n; i++) {
        if (are_equal(list->items[i], v)) return true;
    }
    return !list;
}

static bool is_in_all(const schema_list *flat, const json_value *source, const json_value *v) {
    for (size_t i = 0; i < flat->n; i++) {
        if (!has_value(flat->items[i], source, v)) return false;
    }
    return true;
}

static bool has_constraints(const schema_list *flat) {
    for (size_t i = 0; i < flat->n; i++) {
        const json_value *v = flat->items[i];
        for (size_t k = 0; k < v->n; k++) {
            if (mica_schema_keyword(v->members[k].key) == KEYWORD_CONSTRAINT) return true;
        }
    }
    return false;
}

static mica_status compile_types(schema_compiler *c, const schema_list *flat, int types,
                                 const expr **out);

/* A grammar for the rest of the keywords, against which values are tried. Any order, no space: a
 * value is tried in the one spelling that mica_schema_value gives without white space. */
static mica_status rest_grammar(schema_compiler *c, const schema_list *flat, int types,
                                grammar **out) {
    if (c->nested == SCHEMA_MAX_NESTED)
        return mica_fail(c->err, MICA_E_UNSUPPORTED,
                         "schema: enum values inside enum values beside other keywords");
    grammar_build b;
    schema_compiler inner = {0};
    schema_options options = c->options;
    const expr *e;
    uint32_t rule = 0;
    options.is_compact = options.any_order = true;
    mica_status st = mica_build_init(&b, c->err);
    if (!st) st = mica_schema_compiler_init(&inner, &b, c->root, &options, c->err);
    inner.nested = c->nested + 1;
    if (!st && !mica_build_rule(&b, "root", 4, &rule)) st = mica_build_check(&b, c->err);
    inner.at = c->at;
    if (!st && !(st = compile_types(&inner, flat, types, &e))) {
        b.rules[rule].body = mica_expr_alt2(&b, e, mica_expr_range(&b, 0xFF, 0xFF));
        st = mica_grammar_from_build(out, &b, rule, c->err);
    }
    c->at = st ? inner.at : c->at;
    mica_schema_compiler_deinit(&inner);
    mica_build_deinit(&b);
    return st;
}

/* Without exponent, as numbers are in schemas with bounds. */
static void write_double(json_writer *w, const json_value *v) {
    char digits[1024];
    if (mica_exact_write(digits, sizeof(digits), v))
        mica_json_put_literal(w, digits);
    else if (v->literal)
        mica_json_put_literal(w, v->literal);
    else
        mica_json_put_double(w, v->number);
}

static void write_value(json_writer *w, const json_value *v) {
    switch (v->kind) {
    case JSON_KIND_NULL:
        mica_json_put_null(w);
        break;
    case JSON_KIND_BOOL:
        mica_json_put_bool(w, v->boolean);
        break;
    case JSON_KIND_INT:
        mica_json_put_i64(w, v->integer);
        break;
    case JSON_KIND_DOUBLE:
        write_double(w, v);
        break;
    case JSON_KIND_STRING:
        mica_json_put_string(w, v->string, v->n);
        break;
    case JSON_KIND_ARRAY:
        mica_json_begin_array(w);
        for (size_t i = 0; i < v->n; i++) {
            write_value(w, v->items[i]);
        }
        mica_json_end_array(w);
        break;
    case JSON_KIND_OBJECT:
        mica_json_begin_object(w);
        for (size_t i = 0; i < v->n; i++) {
            mica_json_key(w, v->members[i].key);
            write_value(w, v->members[i].value);
        }
        mica_json_end_object(w);
        break;
    }
}

static mica_status try_value(schema_compiler *c, grammar_machine *m, const json_value *v,
                             bool *is_valid) {
    grammar_matcher *x;
    json_writer w;
    mica_status st = mica_grammar_matcher_new(&x, m, c->err);
    if (st) return st;
    mica_json_writer_init(&w, false);
    write_value(&w, v);
    if (w.failed)
        st = mica_fail(c->err, MICA_E_NOMEM, "out of memory for a schema");
    else
        st = mica_grammar_accept_bytes(x, w.data, w.n, is_valid, c->err);
    if (!st && *is_valid) *is_valid = mica_grammar_is_complete(x);
    mica_json_writer_deinit(&w);
    mica_grammar_matcher_free(x);
    return st;
}

/* The list that the values come from: the first enum or const. */
static const json_value *find_values(const schema_list *flat, const json_value **single) {
    *single = NULL;
    for (size_t i = 0; i < flat->n; i++) {
        const json_value *list = mica_json_find(flat->items[i], "enum");
        if (list) return list;
        if (!*single) *single = mica_json_find(flat->items[i], "const");
    }
    return NULL;
}

/* Alternatives, with equal beginnings shared where they are plain bytes. */
static const expr *join_values(schema_compiler *c, const expr_list *items) {
    byte_string *strings = mica_arena_calloc(&c->b->arena, items->n + 1, sizeof(*strings));
    const expr **others = mica_arena_calloc(&c->b->arena, items->n + 1, sizeof(*others));
    size_t n_strings = 0, n_others = 0;
    if (!strings || !others) {
        c->b->status = MICA_E_NOMEM;
        return NULL;
    }
    for (size_t i = 0; i < items->n; i++) {
        const expr *e = items->items[i];
        if (e->kind == EXPR_BYTES)
            strings[n_strings++] = (byte_string){e->bytes, e->n};
        else
            others[n_others++] = e;
    }
    others[n_others++] = mica_strings_expr(c->b, strings, n_strings);
    return mica_expr_alt(c->b, others, n_others);
}

/* Each value of one list is looked for in all others. */
static mica_status check_lists(schema_compiler *c, const schema_list *flat,
                               const json_value *list) {
    size_t n_others = 0;
    for (size_t i = 0; i < flat->n; i++) {
        const json_value *other = mica_json_find(flat->items[i], "enum");
        if (other && other != list) n_others += other->n;
    }
    if (!list || !n_others || list->n <= MAX_COMPARED / n_others) return MICA_OK;
    return mica_fail(
        c->err, MICA_E_LIMIT,
        "schema: lists of %zu and %zu values of \"enum\" at one place are too large to "
        "compare; write down what they share",
        list->n, n_others);
}

/* The values that all enum, const and type allow, and the types that they have. */
static mica_status list_values(schema_compiler *c, const schema_list *flat, schema_list *values,
                               int *types) {
    const json_value *single, *list = find_values(flat, &single);
    int allowed;
    mica_status st = find_types(c, flat, &allowed);
    if (!st) st = check_lists(c, flat, list);
    allowed &= (int)mica_schema_site_types(c);
    *types = 0;
    for (size_t i = 0, n = list ? list->n : 1; i < n && !st; i++) {
        const json_value *v = list ? list->items[i] : single;
        if (!(allowed & type_of_value(v)) || !is_in_all(flat, list, v)) continue;
        *types |= type_of_value(v);
        if (!mica_schema_push(c, values, v))
            st = mica_fail(c->err, MICA_E_NOMEM, "out of memory for a schema");
    }
    return st;
}

/* Raw texts are joined without their quotes. */
static mica_status collect_values(schema_compiler *c, const schema_list *values,
                                  grammar_machine *rest, const expr **out) {
    expr_list items = {0}, texts = {0};
    for (size_t i = 0; i < values->n; i++) {
        const json_value *v = values->items[i];
        bool is_valid = true, is_text = c->site.notation->is_raw && v->kind == JSON_KIND_STRING;
        mica_status st = rest ? try_value(c, rest, v, &is_valid) : MICA_OK;
        if (st) return st;
        const expr *e = !is_valid ? c->b->never
                        : is_text ? mica_schema_text_literal(c, v->string, v->n)
                                  : mica_schema_value(c, v, 0);
        if (!mica_expr_push(c->b, is_text ? &texts : &items, e)) return mica_schema_check(c, NULL);
    }
    const expr *text = mica_schema_text_quoted(c, join_values(c, &texts));
    *out = mica_expr_alt2(c->b, join_values(c, &items), text);
    return mica_schema_check(c, *out);
}

static mica_status compile_values(schema_compiler *c, const schema_list *flat, const expr **out) {
    int types;
    grammar *rest = NULL;
    grammar_machine *machine = NULL;
    schema_list values = {0};
    mica_status st = list_values(c, flat, &values, &types);
    if (!st && values.n && has_constraints(flat)) {
        st = rest_grammar(c, flat, types, &rest);
        if (!st) st = mica_grammar_machine_new(&machine, rest, NULL, NULL, 0, c->err);
    }
    if (!st) st = collect_values(c, &values, machine, out);
    mica_grammar_machine_free(machine);
    mica_grammar_free(rest);
    return st;
}

/* ---- all types ---- */

static bool has_values(const schema_list *flat) {
    const json_value *single;
    return find_values(flat, &single) || single;
}

static mica_status container(schema_compiler *c, const schema_list *flat, bool is_object,
                             const expr **out) {
    schema_site outer = c->site;
    mica_schema_enter_container(c);
    mica_status st = is_object ? mica_schema_object(c, flat, out) : mica_schema_array(c, flat, out);
    c->site = outer;
    return st;
}

static mica_status compile_types(schema_compiler *c, const schema_list *flat, int types,
                                 const expr **out) {
    mica_status st = MICA_OK;
    const expr *made[5];
    size_t n = 0;
    if (types & SCHEMA_OBJECT) st = container(c, flat, true, &made[n++]);
    if (!st && types & SCHEMA_ARRAY) st = container(c, flat, false, &made[n++]);
    if (!st && types & (SCHEMA_NUMBER | SCHEMA_INTEGER))
        st = mica_schema_number(c, flat, !(types & SCHEMA_NUMBER), &made[n++]);
    if (st) return st;
    if (types & SCHEMA_BOOLEAN)
        made[n++] = mica_expr_alt2(c->b, literal(c, JSON_KIND_BOOL, true),
                                   literal(c, JSON_KIND_BOOL, false));
    if (types & SCHEMA_NULL) made[n++] = literal(c, JSON_KIND_NULL, false);
    const expr *others = closed(c, mica_expr_alt(c->b, made, n)), *text = c->b->never;
    if (types & SCHEMA_STRING && (st = mica_schema_string(c, flat, &text))) return st;
    *out = mica_expr_alt2(c->b, text, others);
    return mica_schema_check(c, *out);
}

mica_status mica_schema_types(schema_compiler *c, const schema_list *flat, const expr **out) {
    int types;
    if (has_values(flat)) return compile_values(c, flat, out);
    mica_status st = find_types(c, flat, &types);
    types &= (int)mica_schema_site_types(c);
    return st ? st : compile_types(c, flat, types, out);
}
