/* jinja_filters.c: the table of filters, and those on sequences and numbers.
 *
 * map, select and reject with their forms for attributes, items, unique, batch, slice and reverse
 * are lazy in Jinja: they give a generator, which does its work when it is first looked at.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/decimal.h"
#include "text/template/jinja_string.h"

/* ---- lazy filters ---- */

typedef struct lazy_call {
    jvalue input;
    jargs args;
    bool is_negated, by_attribute;
} lazy_call;

/* A generator that will call `fill` with a lazy_call. */
static bool make_lazy(jrender *r, jvalue input, const jargs *args, lazy_call flags,
                      bool (*fill)(jrender *r, jlist *out, void *state), jvalue *out) {
    jlist *l = mica_j_list_new(r, J_GENERATOR, 0);
    lazy_call *call = mica_j_alloc(r, 1, sizeof(*call));
    if (!l || !call) return false;
    *call = flags;
    call->input = input;
    call->args = *args;
    l->pending = (jpending){fill, call};
    *out = mica_j_from_list(l);
    return true;
}

/* The arguments behind the first `n_used` positional ones. */
static jargs rest_of(const jargs *args, size_t n_used, const char *what) {
    jargs rest = *args;
    rest.items += n_used;
    rest.n -= n_used;
    rest.what = what;
    return rest;
}

static bool find_named(jrender *r, const jargs *args, jvalue name, bool is_filter,
                       const jbuiltin **out) {
    const jstring *s;
    if (name.kind == J_UNDEFINED) return mica_j_fail_undefined(r, name);
    if (!mica_j_arg_text(r, args, name, &s)) return false;
    *out = is_filter ? mica_j_find_filter(s->data, s->n) : mica_j_find_test(s->data, s->n);
    if (*out) return true;
    return mica_j_fail(r, MICA_E_UNSUPPORTED, "%s: there is no %s '%.*s'", args->what,
                       is_filter ? "filter" : "test", s->n < 60 ? (int)s->n : 60, s->data);
}

static const jvalue *find_keyword(const jargs *args, const char *name) {
    for (size_t i = 0; i < args->n_keywords; i++)
        if (mica_j_string_is(args->keywords[i].name, name)) return &args->keywords[i].value;
    return NULL;
}

static bool map_attribute(jrender *r, const lazy_call *call, const jlist *items, jlist *out) {
    const jargs *args = &call->args;
    const jvalue *path = find_keyword(args, "attribute");
    const jvalue *fallback = find_keyword(args, "default");
    if (args->n_keywords != 1 + (size_t)(fallback != NULL))
        return MICA_J_ERROR(r, "map: unexpected keyword besides attribute and default");
    for (size_t i = 0; i < items->n; i++) {
        jvalue v;
        if (!mica_j_path(r, items->items[i], *path, &v)) return false;
        if (v.kind == J_UNDEFINED && fallback && fallback->kind != J_NONE) v = *fallback;
        if (!mica_j_list_push(r, out, v)) return false;
    }
    return true;
}

static bool fill_map(jrender *r, jlist *out, void *state) {
    const lazy_call *call = state;
    const jbuiltin *def = NULL;
    jlist *items;
    if (!mica_j_truth(call->input)) return true;
    bool by_attribute = call->args.n == 0 && find_keyword(&call->args, "attribute");
    if (!by_attribute && call->args.n == 0)
        return MICA_J_ERROR(r, "map: the name of a filter is missing");
    if (!mica_j_collect(r, call->input, &items)) return false;
    if (by_attribute) return map_attribute(r, call, items, out);
    for (size_t i = 0; i < items->n; i++) {
        jvalue v;
        if (!find_named(r, &call->args, call->args.items[0], true, &def)) return false;
        jargs rest = rest_of(&call->args, 1, def->name);
        if (!mica_j_run_filter(r, def, items->items[i], &rest, &v) || !mica_j_list_push(r, out, v))
            return false;
    }
    return true;
}

static bool map(jrender *r, jvalue input, const jargs *args, jvalue *out) {
    return make_lazy(r, input, args, (lazy_call){0}, fill_map, out);
}

/* Whether select keeps the item. */
static bool is_selected(jrender *r, const lazy_call *call, jvalue item, bool *out) {
    const jargs *args = &call->args;
    size_t n_used = call->by_attribute;
    const jbuiltin *def = NULL;
    if (call->by_attribute && !mica_j_path(r, item, args->items[0], &item)) return false;
    if (args->n <= n_used) {
        *out = mica_j_truth(item) != call->is_negated;
        return true;
    }
    if (!find_named(r, args, args->items[n_used], false, &def)) return false;
    jargs rest = rest_of(args, n_used + 1, def->name);
    if (!mica_j_run_test(r, def, item, &rest, out)) return false;
    *out = *out != call->is_negated;
    return true;
}

static bool fill_select(jrender *r, jlist *out, void *state) {
    const lazy_call *call = state;
    jlist *items;
    if (!mica_j_truth(call->input)) return true;
    if (call->by_attribute && call->args.n == 0)
        return MICA_J_ERROR(r, "%s: the name of an attribute is missing", call->args.what);
    if (!mica_j_collect(r, call->input, &items)) return false;
    for (size_t i = 0; i < items->n; i++) {
        bool is_kept;
        if (!is_selected(r, call, items->items[i], &is_kept)) return false;
        if (is_kept && !mica_j_list_push(r, out, items->items[i])) return false;
    }
    return true;
}

static bool select_(jrender *r, jvalue input, const jargs *args, jvalue *out) {
    return make_lazy(r, input, args, (lazy_call){0}, fill_select, out);
}

static bool reject(jrender *r, jvalue input, const jargs *args, jvalue *out) {
    return make_lazy(r, input, args, (lazy_call){.is_negated = true}, fill_select, out);
}

static bool selectattr(jrender *r, jvalue input, const jargs *args, jvalue *out) {
    return make_lazy(r, input, args, (lazy_call){.by_attribute = true}, fill_select, out);
}

static bool rejectattr(jrender *r, jvalue input, const jargs *args, jvalue *out) {
    lazy_call flags = {.is_negated = true, .by_attribute = true};
    return make_lazy(r, input, args, flags, fill_select, out);
}

static bool push_pair(jrender *r, jlist *out, jvalue a, jvalue b) {
    jlist *pair = mica_j_list_new(r, J_TUPLE, 2);
    if (!pair) return false;
    pair->items[0] = a;
    pair->items[1] = b;
    pair->n = 2;
    return mica_j_list_push(r, out, mica_j_from_list(pair));
}

static bool fill_items(jrender *r, jlist *out, void *state) {
    const lazy_call *call = state;
    if (call->input.kind == J_UNDEFINED) return true;
    if (call->input.kind != J_DICT)
        return MICA_J_ERROR(r, "items: expected a dict, found a value of type %s",
                            mica_j_type_name(call->input));
    const jdict *d = call->input.dict;
    for (size_t i = 0; i < d->n; i++)
        if (!push_pair(r, out, d->entries[i].key, d->entries[i].value)) return false;
    return true;
}

static bool items_filter(jrender *r, jvalue input, const jargs *args, jvalue *out) {
    return mica_j_bind(r, args, "", NULL) &&
           make_lazy(r, input, args, (lazy_call){0}, fill_items, out);
}

/* Copies items [begin, end) into a list of their own and adds it, filled up to `size`. */
static bool push_part(jrender *r, jlist *out, const jlist *from, size_t begin, size_t end,
                      size_t size, jvalue filler) {
    jlist *part = mica_j_list_new(r, J_ARRAY, 0);
    if (!part) return false;
    for (size_t i = begin; i < end; i++)
        if (!mica_j_list_push(r, part, from->items[i])) return false;
    bool fills = filler.kind != J_MISSING && filler.kind != J_NONE;
    while (fills && part->n < size)
        if (!mica_j_list_push(r, part, filler) || !mica_j_charge(r, 0)) return false;
    return mica_j_list_push(r, out, mica_j_from_list(part));
}

static bool fill_batch(jrender *r, jlist *out, void *state) {
    const lazy_call *call = state;
    jvalue v[2];
    int64_t size;
    jlist *items;
    if (!mica_j_bind(r, &call->args, "linecount | fill_with", v) ||
        !mica_j_arg_int(r, &call->args, v[0], 0, &size) || !mica_j_collect(r, call->input, &items))
        return false;
    for (size_t begin = 0, end; begin < items->n; begin = end) {
        /* Jinja looks for exactly `size` before it adds, so a size below 1 is never reached but at
         * the start, where it is an empty list. */
        if (size == 0 && begin == 0 && !push_part(r, out, items, 0, 0, 0, mica_j_none()))
            return false;
        end = size > 0 && begin + (size_t)size < items->n ? begin + (size_t)size : items->n;
        if (!push_part(r, out, items, begin, end, size > 0 ? (size_t)size : 0, v[1])) return false;
    }
    return true;
}

static bool batch(jrender *r, jvalue input, const jargs *args, jvalue *out) {
    return make_lazy(r, input, args, (lazy_call){0}, fill_batch, out);
}

static bool fill_slice(jrender *r, jlist *out, void *state) {
    const lazy_call *call = state;
    jvalue v[2];
    int64_t n_slices;
    jlist *items;
    if (!mica_j_bind(r, &call->args, "slices | fill_with", v) ||
        !mica_j_arg_int(r, &call->args, v[0], 0, &n_slices) ||
        !mica_j_collect(r, call->input, &items))
        return false;
    if (n_slices == 0) return MICA_J_ERROR(r, "slice: zero slices");
    if (n_slices < 0) return true;
    size_t n = (size_t)n_slices, size = items->n / n, n_longer = items->n % n, begin = 0;
    for (size_t i = 0; i < n; i++) {
        size_t end = begin + size + (i < n_longer);
        jvalue filler = i < n_longer ? mica_j_none() : v[1];
        if (!push_part(r, out, items, begin, end, size + 1, filler) || !mica_j_charge(r, 0))
            return false;
        begin = end;
    }
    return true;
}

static bool slice(jrender *r, jvalue input, const jargs *args, jvalue *out) {
    return make_lazy(r, input, args, (lazy_call){0}, fill_slice, out);
}

static bool reverse(jrender *r, jvalue input, const jargs *args, jvalue *out) {
    jvalue none = {.kind = J_MISSING};
    jlist *l;
    if (!mica_j_bind(r, args, "", NULL)) return false;
    if (input.kind == J_STRING) return mica_j_slice(r, input, none, none, mica_j_int(-1), out);
    if (!mica_j_collect(r, input, &l)) return false;
    for (size_t i = 0; i < l->n / 2; i++) {
        jvalue v = l->items[i];
        l->items[i] = l->items[l->n - 1 - i];
        l->items[l->n - 1 - i] = v;
    }
    /* Python reverses what is reversible lazily; anything else becomes a list. */
    bool is_reversible = input.kind == J_DICT || input.kind == J_UNDEFINED ||
                         (input.kind == J_LIST && input.list->type != J_GENERATOR);
    if (is_reversible) l->type = J_GENERATOR;
    *out = mica_j_from_list(l);
    return true;
}

/* ---- sequences ---- */

static bool length(jrender *r, jvalue input, const jargs *args, jvalue *out) {
    size_t n;
    if (!mica_j_bind(r, args, "", NULL)) return false;
    if (input.kind == J_OBJECT && input.object->type == J_LOOP) {
        const jstring *name = mica_j_cstring(r, "length");
        out->kind = J_MISSING;
        return name && mica_j_loop_attribute(r, input.object, name, out);
    }
    if (!mica_j_length(r, input, &n)) return false;
    *out = mica_j_int((int64_t)n);
    return true;
}

static bool first(jrender *r, jvalue input, const jargs *args, jvalue *out) {
    jiter it;
    bool is_done;
    if (!mica_j_bind(r, args, "", NULL) || !mica_j_iter_begin(r, &it, input) ||
        !mica_j_iter_next(r, &it, out, &is_done))
        return false;
    return !is_done || mica_j_undefined(r, NULL, NULL, "the sequence was empty", out);
}

static bool last(jrender *r, jvalue input, const jargs *args, jvalue *out) {
    jlist *l;
    if (!mica_j_bind(r, args, "", NULL)) return false;
    if (!mica_j_collect(r, input, &l)) return false;
    if (l->n == 0) return mica_j_undefined(r, NULL, NULL, "the sequence was empty", out);
    *out = l->items[l->n - 1];
    return true;
}

static bool list(jrender *r, jvalue input, const jargs *args, jvalue *out) {
    jlist *l;
    if (!mica_j_bind(r, args, "", NULL) || !mica_j_collect(r, input, &l)) return false;
    *out = mica_j_from_list(l);
    return true;
}

static bool default_(jrender *r, jvalue input, const jargs *args, jvalue *out) {
    jvalue v[2];
    if (!mica_j_bind(r, args, "| default_value boolean", v)) return false;
    bool is_replaced = input.kind == J_UNDEFINED || (mica_j_truth(v[1]) && !mica_j_truth(input));
    *out = is_replaced ? v[0] : input;
    if (out->kind != J_MISSING) return true;
    const jstring *empty = mica_j_cstring(r, "");
    *out = mica_j_text(empty);
    return empty != NULL;
}

/* Attributes only, no items. */
static bool attr(jrender *r, jvalue input, const jargs *args, jvalue *out) {
    jvalue v;
    const jstring *name;
    if (!mica_j_bind(r, args, "name", &v) || !mica_j_arg_text(r, args, v, &name)) return false;
    if (input.kind == J_UNDEFINED) return mica_j_fail_undefined(r, input);
    bool is_item_only = input.kind == J_DICT && !mica_j_find_method(input, name->data, name->n);
    if (is_item_only) return mica_j_undefined(r, name, mica_j_type_name(input), NULL, out);
    return mica_j_attribute(r, input, name, out);
}

/* ---- numbers ---- */

static bool abs_(jrender *r, jvalue input, const jargs *args, jvalue *out) {
    int64_t i;
    if (!mica_j_bind(r, args, "", NULL)) return false;
    if (input.kind == J_UNDEFINED) return mica_j_fail_undefined(r, input);
    if (input.kind == J_FLOAT) {
        *out = mica_j_float(fabs(input.number));
        return true;
    }
    if (input.kind == J_BIGINT) {
        size_t n_sign = input.string->data[0] == '-';
        const jstring *digits = mica_j_cut(r, input.string, n_sign, input.string->n);
        *out = (jvalue){.kind = J_BIGINT, .string = digits};
        return digits != NULL;
    }
    if (!mica_j_as_index(input, &i))
        return MICA_J_ERROR(r, "abs: expected a number, found a value of type %s",
                            mica_j_type_name(input));
    return mica_j_negate(r, mica_j_int(i), i < 0, out);
}

static double round_digits(double v, int64_t digits) {
    char text[400];
    if (!isfinite(v) || digits > 300) return v;
    if (digits < 0) {
        if (digits < -308) return copysign(0, v);
        double unit = pow(10, (double)-digits), q = v / unit, whole = nearbyint(q);
        return whole * unit;
    }
    int n = snprintf(text, sizeof(text), "%.*f", (int)digits, v);
    if (n < 0 || (size_t)n >= sizeof(text)) return v;
    for (int i = 0; i < n; i++) /* whatever the locale's decimal point is */
        if (text[i] != '-' && (text[i] < '0' || text[i] > '9')) text[i] = '.';
    return mica_decimal_parse(text, (size_t)n);
}

/* Integers round to integers: half to even. */
static bool round_integer(jrender *r, int64_t v, int64_t digits, jvalue *out) {
    *out = mica_j_int(v);
    if (digits >= 0) return true;
    if (digits < -18) {
        *out = mica_j_int(0);
        return true;
    }
    int64_t unit = 1;
    for (int64_t i = 0; i > digits; i--)
        unit *= 10;
    int64_t rest = v % unit < 0 ? v % unit + unit : v % unit, low = v - rest, half = unit / 2;
    bool is_up = rest > half || (rest == half && (low / unit) % 2 != 0);
    return mica_j_add(r, mica_j_int(low), mica_j_int(is_up ? unit : 0), out);
}

static bool round_directed(jrender *r, jvalue v, int64_t digits, bool is_ceil, jvalue *out) {
    double scale = pow(10, (double)digits), scaled = mica_j_as_double(v) * scale;
    if (!isfinite(scaled)) return MICA_J_ERROR(r, "round: the number is too large");
    *out = mica_j_float((is_ceil ? ceil(scaled) : floor(scaled)) / scale);
    return true;
}

static bool round_(jrender *r, jvalue input, const jargs *args, jvalue *out) {
    jvalue v[2];
    int64_t digits, i;
    const jstring *method = NULL;
    if (!mica_j_bind(r, args, "| precision method", v) ||
        !mica_j_arg_int(r, args, v[0], 0, &digits) ||
        (v[1].kind != J_MISSING && !mica_j_arg_text(r, args, v[1], &method)))
        return false;
    bool is_ceil = method && mica_j_string_is(method, "ceil");
    bool is_floor = method && mica_j_string_is(method, "floor");
    if (method && !is_ceil && !is_floor && !mica_j_string_is(method, "common"))
        return MICA_J_ERROR(r, "round: the method must be common, ceil or floor");
    if (input.kind == J_UNDEFINED) return mica_j_fail_undefined(r, input);
    if (input.kind == J_BIGINT && digits >= 0 && !is_ceil && !is_floor) {
        *out = input;
        return true;
    }
    if (!mica_j_is_number(input) && input.kind != J_BIGINT)
        return MICA_J_ERROR(r, "round: expected a number, found a value of type %s",
                            mica_j_type_name(input));
    if (is_ceil || is_floor) return round_directed(r, input, digits, is_ceil, out);
    if (mica_j_as_index(input, &i)) return round_integer(r, i, digits, out);
    *out = mica_j_float(round_digits(input.number, digits));
    return true;
}

/* ---- the table ---- */

static const jbuiltin filters[] = {
    {.name = "map", .run = map},
    {.name = "select", .run = select_},
    {.name = "reject", .run = reject},
    {.name = "selectattr", .run = selectattr},
    {.name = "rejectattr", .run = rejectattr},
    {.name = "items", .run = items_filter},
    {.name = "batch", .run = batch},
    {.name = "slice", .run = slice},
    {.name = "reverse", .run = reverse},
    {.name = "length", .run = length},
    {.name = "count", .run = length},
    {.name = "first", .run = first},
    {.name = "last", .run = last},
    {.name = "list", .run = list},
    {.name = "default", .run = default_},
    {.name = "d", .run = default_},
    {.name = "attr", .run = attr},
    {.name = "abs", .run = abs_},
    {.name = "round", .run = round_},
    {.name = NULL},
};

const jbuiltin *mica_j_find_filter(const char *name, size_t n) {
    const jbuiltin *const tables[] = {filters, mica_j_text_filters, mica_j_json_filters,
                                      mica_j_order_filters};
    for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++)
        for (const jbuiltin *def = tables[t]; def->name; def++)
            if (strlen(def->name) == n && memcmp(def->name, name, n) == 0) return def;
    return NULL;
}

bool mica_j_run_filter(jrender *r, const jbuiltin *def, jvalue input, const jargs *args,
                       jvalue *out) {
    bool is_good = mica_j_enter(r) && def->run(r, input, args, out);
    if (is_good) mica_j_leave(r);
    return is_good;
}
