/* schema_container.c: arrays and objects.
 *
 * An object's properties come in the schema's order unless any order is asked for, then others,
 * with names that are none of the schema's. The tail of an object behind its i-th property is a
 * rule, so that optional properties cost one step each and not all their combinations.
 */
#include <string.h>

#include "text/grammar/schema.h"

enum { MAX_PREFIX_ITEMS = 256, MAX_ANY_ORDER = 63 };

static mica_status fail_memory(schema_compiler *c) {
    return mica_fail(c->err, MICA_E_NOMEM, "out of memory for a schema");
}

/* ---- arrays ---- */

/* The schemas that item i must match. */
static mica_status item_place(schema_compiler *c, const schema_list *flat, size_t i,
                              const expr **out) {
    schema_list list = {0};
    for (size_t k = 0; k < flat->n; k++) {
        const json_value *s = flat->items[k], *prefix = mica_json_find(s, "prefixItems");
        const json_value *items = mica_json_find(s, "items");
        if (items && items->kind == JSON_KIND_ARRAY) { /* before draft 2020-12 */
            prefix = items;
            items = mica_json_find(s, "additionalItems");
        }
        if (prefix && prefix->kind != JSON_KIND_ARRAY) { /* for all items, as llama-server has it */
            if (!mica_schema_push(c, &list, prefix)) return fail_memory(c);
            prefix = NULL;
        }
        const json_value *v = prefix && i < prefix->n ? prefix->items[i] : items;
        if (v && !mica_schema_push(c, &list, v)) return fail_memory(c);
    }
    mica_status st = mica_schema_child(c, NULL, 0, &list, out);
    if (!st) *out = mica_schema_item(c, *out);
    return st ? st : mica_schema_check(c, *out);
}

static size_t count_prefix(const schema_list *flat) {
    size_t n = 0;
    for (size_t k = 0; k < flat->n; k++) {
        const json_value *prefix = mica_json_find(flat->items[k], "prefixItems");
        const json_value *items = mica_json_find(flat->items[k], "items");
        if (items && items->kind == JSON_KIND_ARRAY) prefix = items;
        if (prefix && prefix->kind == JSON_KIND_ARRAY && prefix->n > n) n = prefix->n;
    }
    return n;
}

static void find_counts(const schema_list *flat, uint32_t *min, uint32_t *max) {
    *min = 0;
    *max = EXPR_UNBOUNDED;
    for (size_t i = 0; i < flat->n; i++) {
        int64_t lo = mica_json_i64(mica_json_find(flat->items[i], "minItems"), 0);
        int64_t hi = mica_json_i64(mica_json_find(flat->items[i], "maxItems"), EXPR_UNBOUNDED);
        if (lo > *min) *min = lo < EXPR_UNBOUNDED ? (uint32_t)lo : EXPR_UNBOUNDED - 1;
        if (hi < *max) *max = (uint32_t)hi;
    }
}

static uint32_t minus(uint32_t a, uint32_t b) {
    if (a == EXPR_UNBOUNDED) return a;
    return a > b ? a - b : 0;
}

/* All items with what closes the array. */
static mica_status all_items(schema_compiler *c, const schema_list *flat, uint32_t n_prefix,
                             uint32_t min, uint32_t max, const expr **out) {
    const schema_notation *notation = c->site.notation;
    const expr *separator = notation->separator, *rest, *e;
    mica_status st = item_place(c, flat, n_prefix, &rest);
    if (st) return st;
    uint32_t n = n_prefix > 0 ? n_prefix : 1;
    e = mica_expr_repeat(c->b, mica_expr_seq2(c->b, separator, rest), minus(min, n), minus(max, n));
    for (uint32_t i = n; i-- > 0;) {
        const expr *item = rest;
        if (n_prefix && (st = item_place(c, flat, i, &item))) return st;
        e = mica_expr_seq3(c->b, i ? separator : c->b->empty, item, e);
        if (!i) e = mica_expr_seq2(c->b, e, notation->array_close);
        const expr *nothing = i                                    ? c->b->empty
                              : mica_schema_may_be_empty(c, false) ? notation->array_end
                                                                   : c->b->never;
        if (max <= i)
            e = nothing;
        else if (min <= i)
            e = mica_expr_alt2(c->b, e, nothing);
    }
    *out = e;
    return mica_schema_check(c, e);
}

mica_status mica_schema_array(schema_compiler *c, const schema_list *flat, const expr **out) {
    uint32_t min, max;
    size_t n_prefix = count_prefix(flat);
    find_counts(flat, &min, &max);
    if (n_prefix > MAX_PREFIX_ITEMS)
        return mica_fail(c->err, MICA_E_LIMIT, "schema: more than %d prefixItems",
                         MAX_PREFIX_ITEMS);
    if (min > max) {
        *out = c->b->never;
        return MICA_OK;
    }
    const expr *items;
    mica_status st = all_items(c, flat, (uint32_t)n_prefix, min, max, &items);
    if (st) return st;
    *out = mica_expr_seq2(c->b, c->site.notation->array_open, items);
    return mica_schema_check(c, *out);
}

/* ---- properties ---- */

typedef struct object_parts {
    schema_names names;
    uint8_t *is_required;
    const expr **members; /* name, colon, value; NEVER where no value is possible */
    const expr *rest;     /* a member with another name; NEVER: there are none */
    const expr *end;      /* of an object with nothing in it; NEVER: there is none */
} object_parts;

static size_t find_name(const schema_names *names, const char *s, size_t n) {
    size_t i = 0;
    while (i < names->n && (names->items[i].n != n || memcmp(names->items[i].s, s, n) != 0)) {
        i++;
    }
    return i;
}

static mica_status add_name(schema_compiler *c, schema_names *names, const char *s, size_t n) {
    if (find_name(names, s, n) < names->n) return MICA_OK;
    if (names->n == SCHEMA_MAX_NAMES)
        return mica_fail(c->err, MICA_E_LIMIT, "schema: an object of more than %d properties",
                         SCHEMA_MAX_NAMES);
    if (names->n == names->capacity) {
        size_t capacity = 2 * names->capacity + 8;
        void *grown = mica_arena_calloc(&c->b->arena, capacity, sizeof(*names->items));
        if (!grown) return fail_memory(c);
        if (names->n) memcpy(grown, names->items, names->n * sizeof(*names->items));
        names->items = grown;
        names->capacity = capacity;
    }
    names->items[names->n].s = s;
    names->items[names->n++].n = n;
    return MICA_OK;
}

static mica_status collect_names(schema_compiler *c, const schema_list *flat, object_parts *o) {
    mica_status st = MICA_OK;
    for (size_t k = 0; k < flat->n; k++) {
        const json_value *properties = mica_json_find(flat->items[k], "properties");
        for (size_t i = 0; properties && i < properties->n && !st; i++) {
            st = add_name(c, &o->names, properties->members[i].key, properties->members[i].n_key);
        }
    }
    for (size_t k = 0; k < flat->n; k++) {
        const json_value *required = mica_json_find(flat->items[k], "required");
        for (size_t i = 0; required && i < required->n && !st; i++) {
            st = add_name(c, &o->names, required->items[i]->string, required->items[i]->n);
        }
    }
    if (st) return st;
    o->is_required = mica_arena_calloc(&c->b->arena, o->names.n + 1, 1);
    o->members = mica_arena_calloc(&c->b->arena, o->names.n + 1, sizeof(*o->members));
    if (!o->is_required || !o->members) return fail_memory(c);
    for (size_t k = 0; k < flat->n; k++) {
        const json_value *required = mica_json_find(flat->items[k], "required");
        for (size_t i = 0; required && i < required->n; i++) {
            const json_value *name = required->items[i];
            o->is_required[find_name(&o->names, name->string, name->n)] = 1;
        }
    }
    return MICA_OK;
}

static const json_value *find_property(const json_value *schema, const char *s, size_t n) {
    const json_value *properties = mica_json_find(schema, "properties");
    for (size_t i = 0; properties && i < properties->n; i++) {
        const json_member *m = &properties->members[i];
        if (m->n_key == n && memcmp(m->key, s, n) == 0) return m->value;
    }
    return NULL;
}

/* The value of a property; s NULL: of one that no schema names. */
static mica_status value_place(schema_compiler *c, const schema_list *flat, const char *s, size_t n,
                               const expr **out) {
    schema_list list = {0};
    for (size_t k = 0; k < flat->n; k++) {
        const json_value *v = s ? find_property(flat->items[k], s, n) : NULL;
        if (!v) v = mica_json_find(flat->items[k], "additionalProperties");
        if (!v) continue;
        if (v->kind == JSON_KIND_BOOL && !v->boolean) {
            *out = c->b->never;
            return MICA_OK;
        }
        if (!mica_schema_push(c, &list, v)) return fail_memory(c);
    }
    return mica_schema_child(c, s, n, &list, out);
}

/* A property whose name the notation cannot write is left out, if that may be. */
static mica_status check_key(schema_compiler *c, const object_parts *o, size_t i, const expr *key) {
    bool is_refused = o->is_required[i] || !c->options.ignores_unknown;
    if (!key) return mica_schema_check(c, NULL);
    if (key != c->b->never || o->members[i] == c->b->never || !is_refused) return MICA_OK;
    return mica_fail(c->err, MICA_E_UNSUPPORTED,
                     "schema: the name of the property \"%.100s\" cannot be written in the "
                     "model's notation of calls; rename it",
                     o->names.items[i].s);
}

/* Goes to the way number i of writing names that the schema does not list; false: there is none. */
static bool enter_free_key(schema_compiler *c, int i) {
    const schema_notation *n = c->site.notation;
    if (n->names_only || i > 1) return false;
    n = n->key != SCHEMA_KEY_JSON ? n->free_keys[i] : i ? NULL : n;
    if (n) c->site = (schema_site){.notation = n, .types = SCHEMA_ALL};
    return n != NULL;
}

/* Members with names that are none of these. */
static mica_status other_members(schema_compiler *c, const schema_names *names, const expr *value,
                                 const expr **out) {
    schema_site outer = c->site;
    *out = c->b->never;
    for (int i = 0; enter_free_key(c, i); i++) {
        const expr *name;
        mica_status st = mica_schema_other_string(c, names, &name);
        c->site = outer;
        if (st) return st;
        *out = mica_expr_alt2(c->b, *out, mica_schema_member(c, name, value));
    }
    return mica_schema_check(c, *out);
}

static mica_status make_members(schema_compiler *c, const schema_list *flat, object_parts *o) {
    const expr *value;
    for (size_t i = 0; i < o->names.n; i++) {
        const char *s = o->names.items[i].s;
        size_t n = o->names.items[i].n;
        mica_status st = value_place(c, flat, s, n, &value);
        if (st) return st;
        const expr *key = mica_schema_key(c, s, n);
        o->members[i] = value;
        if ((st = check_key(c, o, i, key))) return st;
        o->members[i] = mica_schema_member(c, key, value);
        if (!o->members[i]) return mica_schema_check(c, NULL);
    }
    o->rest = c->b->never;
    mica_status st = value_place(c, flat, NULL, 0, &value);
    if (st || value == c->b->never) return st;
    return other_members(c, &o->names, value, &o->rest);
}

/* ---- the schema's order ---- */

/* tails[i]: what follows when something was written and properties from i on may come. */
static bool make_tails(schema_compiler *c, const object_parts *o, uint32_t *tails) {
    grammar_build *b = c->b;
    const schema_notation *notation = c->site.notation;
    for (size_t i = o->names.n + 1; i-- > 0;) {
        const expr *body;
        if (i == o->names.n) {
            const expr *more = mica_expr_seq2(b, notation->separator, o->rest);
            more = mica_expr_repeat(b, more, 0, EXPR_UNBOUNDED);
            body = mica_expr_seq2(b, more, notation->object_close);
        } else {
            const expr *member = mica_expr_seq2(b, notation->separator, o->members[i]);
            if (!o->is_required[i]) member = mica_expr_optional(b, member);
            body = mica_expr_seq2(b, member, mica_expr_rule(b, tails[i + 1]));
        }
        if (!body || !mica_build_rule(b, "tail", 4, &tails[i])) return false;
        b->rules[tails[i]].body = body;
    }
    return true;
}

static mica_status ordered_members(schema_compiler *c, const object_parts *o, const expr **out) {
    grammar_build *b = c->b;
    expr_list starts = {0};
    uint32_t *tails = mica_arena_calloc(&b->arena, o->names.n + 1, sizeof(*tails));
    if (!tails) return fail_memory(c);
    if (!make_tails(c, o, tails)) return mica_schema_check(c, NULL);
    size_t i = 0;
    for (; i < o->names.n; i++) {
        const expr *tail = mica_expr_rule(b, tails[i + 1]);
        if (!mica_expr_push(b, &starts, mica_expr_seq2(b, o->members[i], tail)))
            return mica_schema_check(c, NULL);
        if (o->is_required[i]) break;
    }
    if (i == o->names.n) { /* nothing is required */
        const expr *other = mica_expr_seq2(b, o->rest, mica_expr_rule(b, tails[i]));
        if (!mica_expr_push(b, &starts, other) || !mica_expr_push(b, &starts, o->end))
            return mica_schema_check(c, NULL);
    }
    *out = mica_expr_alt(b, starts.items, starts.n);
    return mica_schema_check(c, *out);
}

/* ---- any order ---- */

static mica_status unordered_members(schema_compiler *c, const object_parts *o, const expr **out) {
    if (o->names.n > MAX_ANY_ORDER)
        return mica_fail(c->err, MICA_E_LIMIT,
                         "schema: an object of more than %d properties in any order",
                         MAX_ANY_ORDER);
    member_list members = {.separator = c->site.notation->separator};
    const expr **items = mica_arena_calloc(&c->b->arena, o->names.n + 1, sizeof(*items));
    if (!items) return fail_memory(c);
    size_t n = 0;
    for (size_t i = 0; i < o->names.n; i++) {
        if (o->members[i] == c->b->never && !o->is_required[i]) continue;
        if (o->is_required[i]) members.required |= UINT64_C(1) << n;
        items[n++] = o->members[i];
    }
    if (o->rest != c->b->never) members.rest = o->rest;
    const expr *e = mica_expr_members(c->b, items, n, &members);
    *out = mica_expr_seq2(c->b, e, c->site.notation->object_close);
    return mica_schema_check(c, *out);
}

/* ---- maps: objects whose names are not listed ---- */

typedef struct map_rules {
    const json_value *owner; /* the schema that has patternProperties; NULL: none has */
    const json_member *pattern;
    schema_list names; /* of propertyNames */
    int64_t min, max;
    bool has_any;
} map_rules;

static mica_status find_map_rules(schema_compiler *c, const schema_list *flat, map_rules *r) {
    *r = (map_rules){.max = EXPR_UNBOUNDED};
    for (size_t i = 0; i < flat->n; i++) {
        const json_value *s = flat->items[i], *v;
        int64_t min = mica_json_i64(mica_json_find(s, "minProperties"), 0);
        int64_t max = mica_json_i64(mica_json_find(s, "maxProperties"), EXPR_UNBOUNDED);
        if (min > r->min) r->min = min;
        if (max < r->max) r->max = max;
        if ((v = mica_json_find(s, "propertyNames")) && !mica_schema_push(c, &r->names, v))
            return fail_memory(c);
        if (!(v = mica_json_find(s, "patternProperties")) || !v->n) continue;
        if (r->pattern || v->n > 1)
            return mica_fail(c->err, MICA_E_UNSUPPORTED,
                             "schema: more than one pattern in \"patternProperties\" of one object "
                             "is not supported");
        r->owner = s;
        r->pattern = &v->members[0];
    }
    r->has_any = r->min || r->max != EXPR_UNBOUNDED || r->names.n || r->pattern;
    return MICA_OK;
}

/* Whether what the rules say can be kept; says nothing where it holds anyway. */
static mica_status check_map_rules(schema_compiler *c, const object_parts *o, map_rules *r) {
    int64_t n_required = 0;
    for (size_t i = 0; i < o->names.n; i++) {
        n_required += o->is_required[i];
    }
    if (r->min <= n_required) r->min = 0;
    if (o->rest == c->b->never && r->max >= (int64_t)o->names.n && !r->pattern)
        r->max = EXPR_UNBOUNDED;
    r->has_any = r->min || r->max != EXPR_UNBOUNDED || r->names.n || r->pattern;
    const char *name = r->pattern   ? "patternProperties"
                       : r->names.n ? "propertyNames"
                       : r->min     ? "minProperties"
                                    : "maxProperties";
    if (r->has_any && o->names.n)
        return mica_fail(c->err, MICA_E_UNSUPPORTED,
                         "schema: \"%s\" beside named properties is not supported", name);
    /* A name may come twice, which a reader counts once. */
    if (r->min > 1)
        return mica_fail(c->err, MICA_E_UNSUPPORTED,
                         "schema: \"minProperties\" above 1 is not supported");
    if (r->pattern && r->names.n)
        return mica_fail(c->err, MICA_E_UNSUPPORTED,
                         "schema: \"patternProperties\" beside \"propertyNames\" is not supported");
    return MICA_OK;
}

/* Members whose names match the pattern, and others. */
static mica_status pattern_members(schema_compiler *c, const schema_list *flat, const map_rules *r,
                                   const expr *other, const expr **out) {
    schema_list list = {0};
    schema_site outer = c->site;
    const expr *name, *without, *value;
    for (size_t i = 0; i < flat->n; i++) {
        const json_value *s = flat->items[i];
        const json_value *v =
            s == r->owner ? r->pattern->value : mica_json_find(s, "additionalProperties");
        if (v && !mica_schema_push(c, &list, v)) return fail_memory(c);
    }
    mica_status st = mica_schema_child(c, r->pattern->key, r->pattern->n_key, &list, &value);
    *out = c->b->never;
    for (int i = 0; !st && enter_free_key(c, i); i++) {
        st = mica_schema_pattern_names(c, r->pattern->key, r->pattern->n_key, &name, &without);
        c->site = outer;
        if (st) return st;
        const expr *with = mica_schema_member(c, name, value);
        *out = mica_expr_alt2(c->b, *out, with);
        if (other != c->b->never)
            *out = mica_expr_alt2(c->b, *out, mica_schema_member(c, without, other));
    }
    return st ? st : mica_schema_check(c, *out);
}

/* Members whose names are instances of propertyNames. */
static mica_status named_members(schema_compiler *c, const map_rules *r, const expr *value,
                                 const expr **out) {
    static json_value word = {.kind = JSON_KIND_STRING, .n = 6, .string = "string"};
    static json_member member = {.key = "type", .n_key = 4, .value = &word};
    static const json_value string = {.kind = JSON_KIND_OBJECT, .n = 1, .members = &member};
    schema_site outer = c->site;
    schema_list names = r->names;
    if (!mica_schema_push(c, &names, &string)) return fail_memory(c);
    *out = c->b->never;
    for (int i = 0; enter_free_key(c, i); i++) {
        const expr *name;
        mica_status st = mica_schema_place(c, &names, &name);
        c->site = outer;
        if (st) return st;
        *out = mica_expr_alt2(c->b, *out, mica_schema_member(c, name, value));
    }
    return mica_schema_check(c, *out);
}

static mica_status map_members(schema_compiler *c, const schema_list *flat, const object_parts *o,
                               const map_rules *r, const expr **out) {
    grammar_build *b = c->b;
    const schema_notation *notation = c->site.notation;
    const expr *one = NULL, *value;
    mica_status st = value_place(c, flat, NULL, 0, &value);
    if (!st)
        st = r->pattern ? pattern_members(c, flat, r, value, &one)
                        : named_members(c, r, value, &one);
    if (st) return st;
    if (r->min > r->max) {
        *out = b->never;
        return MICA_OK;
    }
    uint32_t max = (uint32_t)r->max;
    const expr *more = mica_expr_seq2(b, notation->separator, one);
    more = mica_expr_repeat(b, more, 0, minus(max, 1));
    const expr *some = max ? mica_expr_seq3(b, one, more, notation->object_close) : b->never;
    *out = r->min ? some : mica_expr_alt2(b, some, o->end);
    return mica_schema_check(c, *out);
}

/* ---- all of it ---- */

static bool wants_free_names(const schema_list *flat) {
    for (size_t i = 0; i < flat->n; i++) {
        const json_value *v = mica_json_find(flat->items[i], "additionalProperties");
        if (mica_json_find(flat->items[i], "patternProperties")) return true;
        if (v && (v->kind != JSON_KIND_BOOL || v->boolean)) return true;
    }
    return false;
}

/* Objects that name no properties may have another spelling. *is_never: none that is read. */
static mica_status enter_map(schema_compiler *c, const schema_list *flat, bool *is_never) {
    const schema_notation *n = c->site.notation;
    *is_never = n->maps && mica_schema_seen_types(c) & SCHEMA_NO_JSON;
    if (n->maps) c->site = (schema_site){.notation = n->maps, .types = SCHEMA_ALL};
    if (!c->site.notation->names_only || c->options.ignores_unknown || !wants_free_names(flat))
        return MICA_OK;
    return mica_fail(c->err, MICA_E_UNSUPPORTED,
                     "schema: \"additionalProperties\" without named properties cannot be written "
                     "in the model's notation of calls");
}

mica_status mica_schema_object(schema_compiler *c, const schema_list *flat, const expr **out) {
    object_parts o = {0};
    map_rules rules;
    bool is_never = false;
    mica_status st = collect_names(c, flat, &o);
    if (!st && !o.names.n) st = enter_map(c, flat, &is_never);
    *out = c->b->never;
    if (st || is_never || (st = make_members(c, flat, &o))) return st;
    if ((st = find_map_rules(c, flat, &rules))) return st;
    if (rules.has_any && (st = check_map_rules(c, &o, &rules))) return st;
    const schema_notation *n = c->site.notation;
    o.end = mica_schema_may_be_empty(c, true) ? n->object_end : c->b->never;
    const expr *members = NULL;
    bool is_free = c->options.any_order || (n->any_order && o.names.n <= MAX_ANY_ORDER);
    if (rules.has_any)
        st = map_members(c, flat, &o, &rules, &members);
    else
        st = is_free ? unordered_members(c, &o, &members) : ordered_members(c, &o, &members);
    if (st) return st;
    *out = mica_expr_seq2(c->b, n->object_open, members);
    return mica_schema_check(c, *out);
}
