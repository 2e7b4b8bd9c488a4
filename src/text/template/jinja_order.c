/* jinja_order.c: filters that order or group: sort, unique, groupby, min, max, dictsort, sum. */
#include <string.h>

#include "text/template/jinja_string.h"

/* ---- a stable merge sort whose comparison may fail ---- */

/* Merges [low, middle) and [middle, high) of `from` into `to`. */
static bool merge(jrender *r, const jsort_item *from, jsort_item *to, size_t low, size_t middle,
                  size_t high, bool is_reverse) {
    size_t a = low, b = middle;
    for (size_t k = low; k < high; k++) {
        bool takes_right = a >= middle;
        if (a < middle && b < high) {
            /* Equal items keep their order, also in reverse. */
            jvalue x = from[a].key, y = from[b].key;
            bool is_good = is_reverse ? mica_j_less(r, x, y, "<", &takes_right)
                                      : mica_j_less(r, y, x, "<", &takes_right);
            if (!is_good || !mica_j_charge(r, 0)) return false;
        }
        to[k] = takes_right ? from[b++] : from[a++];
    }
    return true;
}

bool mica_j_sort(jrender *r, jsort_item *items, size_t n, bool is_reverse) {
    jsort_item *spare = mica_j_alloc(r, n + 1, sizeof(*spare)), *from = items, *to = spare;
    if (!spare) return false;
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t low = 0; low < n; low += 2 * width) {
            size_t middle = low + width < n ? low + width : n;
            size_t high = middle + width < n ? middle + width : n;
            if (!merge(r, from, to, low, middle, high, is_reverse)) return false;
        }
        jsort_item *swap = from;
        from = to;
        to = swap;
    }
    if (from != items) memcpy(items, from, n * sizeof(*items));
    return true;
}

/* ---- keys ---- */

/* Lower case unless case counts. */
static bool fold(jrender *r, jvalue v, bool case_sensitive, jvalue *out) {
    const jstring *lower;
    *out = v;
    if (v.kind != J_STRING || case_sensitive) return true;
    if (!mica_j_change_case(r, v.string, CASE_LOWER, &lower)) return false;
    *out = mica_j_text(lower);
    return true;
}

static bool key_of(jrender *r, jvalue item, jvalue path, bool case_sensitive, jvalue *out) {
    return mica_j_path(r, item, path, out) && fold(r, *out, case_sensitive, out);
}

/* Of sort: a list of keys, also of one: equal keys are not compared further. "a,b" makes two. */
static bool keys_of(jrender *r, jvalue item, jvalue paths, bool case_sensitive, jvalue *out) {
    const jstring *s = paths.kind == J_STRING ? paths.string : NULL;
    jlist *keys = mica_j_list_new(r, J_ARRAY, 1);
    jvalue single;
    if (!keys) return false;
    *out = mica_j_from_list(keys);
    if (!s || !memchr(s->data, ',', s->n))
        return key_of(r, item, paths, case_sensitive, &single) && mica_j_list_push(r, keys, single);
    for (size_t begin = 0; begin <= s->n;) {
        const char *comma = memchr(s->data + begin, ',', s->n - begin);
        size_t end = comma ? (size_t)(comma - s->data) : s->n;
        const jstring *path = mica_j_cut(r, s, begin, end);
        jvalue key;
        if (!path || !key_of(r, item, mica_j_text(path), case_sensitive, &key) ||
            !mica_j_list_push(r, keys, key))
            return false;
        begin = end + 1;
    }
    return true;
}

static bool collect_keyed(jrender *r, jvalue input, jvalue paths, bool case_sensitive,
                          jsort_item **out, size_t *n) {
    jlist *l;
    if (!mica_j_collect(r, input, &l)) return false;
    jsort_item *items = mica_j_alloc(r, l->n + 1, sizeof(*items));
    if (!items) return false;
    for (size_t i = 0; i < l->n; i++) {
        items[i].value = l->items[i];
        if (!keys_of(r, l->items[i], paths, case_sensitive, &items[i].key)) return false;
    }
    *out = items;
    *n = l->n;
    return true;
}

static bool list_of_values(jrender *r, const jsort_item *items, size_t n, jvalue *out) {
    jlist *l = mica_j_list_new(r, J_ARRAY, n);
    if (!l) return false;
    for (size_t i = 0; i < n; i++)
        l->items[i] = items[i].value;
    l->n = n;
    *out = mica_j_from_list(l);
    return true;
}

/* ---- filters ---- */

static bool sort(jrender *r, jvalue input, const jargs *args, jvalue *out) {
    jvalue v[3];
    jsort_item *items;
    size_t n;
    return mica_j_bind(r, args, "| reverse case_sensitive attribute", v) &&
           collect_keyed(r, input, v[2], mica_j_truth(v[1]), &items, &n) &&
           mica_j_sort(r, items, n, mica_j_truth(v[0])) && list_of_values(r, items, n, out);
}

static bool fill_unique(jrender *r, jlist *out, void *state) {
    jvalue *v = state; /* input, case_sensitive, attribute */
    jdict *seen = mica_j_dict_new(r);
    jlist *l;
    if (!seen || !mica_j_collect(r, v[0], &l)) return false;
    for (size_t i = 0; i < l->n; i++) {
        jvalue key;
        jentry *e;
        if (!key_of(r, l->items[i], v[2], mica_j_truth(v[1]), &key) ||
            !mica_j_dict_find(r, seen, key, &e))
            return false;
        if (e) continue;
        if (!mica_j_dict_set(r, seen, key, mica_j_none()) || !mica_j_list_push(r, out, l->items[i]))
            return false;
    }
    return true;
}

static bool unique(jrender *r, jvalue input, const jargs *args, jvalue *out) {
    jvalue *v = mica_j_alloc(r, 3, sizeof(*v));
    jlist *l = mica_j_list_new(r, J_GENERATOR, 0);
    if (!v || !l || !mica_j_bind(r, args, "| case_sensitive attribute", v + 1)) return false;
    v[0] = input;
    l->pending = (jpending){fill_unique, v};
    *out = mica_j_from_list(l);
    return true;
}

static bool extreme(jrender *r, jvalue input, const jargs *args, bool is_max, jvalue *out) {
    jvalue v[2];
    jlist *l;
    jvalue best_key = {.kind = J_MISSING};
    if (!mica_j_bind(r, args, "| case_sensitive attribute", v) || !mica_j_collect(r, input, &l))
        return false;
    for (size_t i = 0; i < l->n; i++) {
        jvalue key;
        bool is_better = i == 0;
        if (!key_of(r, l->items[i], v[1], mica_j_truth(v[0]), &key)) return false;
        if (i && !mica_j_less(r, is_max ? best_key : key, is_max ? key : best_key,
                              is_max ? ">" : "<", &is_better))
            return false;
        if (!is_better) continue;
        best_key = key;
        *out = l->items[i];
    }
    return l->n > 0 || mica_j_undefined(r, NULL, NULL, "the sequence was empty", out);
}

static bool min_filter(jrender *r, jvalue input, const jargs *args, jvalue *out) {
    return extreme(r, input, args, false, out);
}

static bool max_filter(jrender *r, jvalue input, const jargs *args, jvalue *out) {
    return extreme(r, input, args, true, out);
}

static bool sum(jrender *r, jvalue input, const jargs *args, jvalue *out) {
    jvalue v[2];
    jlist *l;
    if (!mica_j_bind(r, args, "| attribute start", v) || !mica_j_collect(r, input, &l))
        return false;
    *out = v[1].kind == J_MISSING ? mica_j_int(0) : v[1];
    if (out->kind == J_STRING) return MICA_J_ERROR(r, "sum does not add strings; use join");
    for (size_t i = 0; i < l->n; i++) {
        jvalue item;
        if (!mica_j_path(r, l->items[i], v[0], &item) || !mica_j_add(r, *out, item, out))
            return false;
    }
    return true;
}

static bool dict_items(jrender *r, const jdict *d, jsort_item **out) {
    jsort_item *items = mica_j_alloc(r, d->n + 1, sizeof(*items));
    if (!items) return false;
    for (size_t i = 0; i < d->n; i++) {
        jlist *pair = mica_j_list_new(r, J_TUPLE, 2);
        if (!pair) return false;
        pair->items[0] = d->entries[i].key;
        pair->items[1] = d->entries[i].value;
        pair->n = 2;
        items[i].value = mica_j_from_list(pair);
    }
    *out = items;
    return true;
}

static bool dictsort(jrender *r, jvalue input, const jargs *args, jvalue *out) {
    jvalue v[3];
    jsort_item *items;
    if (!mica_j_bind(r, args, "| case_sensitive by reverse", v)) return false;
    bool by_value = v[1].kind == J_STRING && mica_j_string_is(v[1].string, "value");
    bool by_key = v[1].kind == J_STRING && mica_j_string_is(v[1].string, "key");
    if (!by_value && !by_key && v[1].kind != J_MISSING)
        return MICA_J_ERROR(r, "dictsort: 'by' must be 'key' or 'value'");
    if (input.kind == J_UNDEFINED) return mica_j_fail_undefined(r, input);
    if (input.kind != J_DICT)
        return MICA_J_ERROR(r, "dictsort: expected a dict, found a value of type %s",
                            mica_j_type_name(input));
    if (!dict_items(r, input.dict, &items)) return false;
    for (size_t i = 0; i < input.dict->n; i++)
        if (!fold(r, items[i].value.list->items[by_value], mica_j_truth(v[0]), &items[i].key))
            return false;
    return mica_j_sort(r, items, input.dict->n, mica_j_truth(v[2])) &&
           list_of_values(r, items, input.dict->n, out);
}

/* ---- groupby ---- */

static bool group_key(jrender *r, jvalue item, const jvalue *v, bool case_sensitive, jvalue *out) {
    if (!mica_j_path(r, item, v[0], out)) return false;
    if (out->kind == J_UNDEFINED && v[1].kind != J_MISSING && v[1].kind != J_NONE) *out = v[1];
    return fold(r, *out, case_sensitive, out);
}

static bool push_group(jrender *r, jlist *groups, const jvalue *v, const jsort_item *items,
                       size_t n) {
    jlist *group = mica_j_list_new(r, J_TUPLE, 2);
    if (!group || !list_of_values(r, items, n, &group->items[1])) return false;
    /* The group bears its first item's key as it is written. */
    if (!group_key(r, items[0].value, v, true, &group->items[0])) return false;
    group->n = 2;
    group->is_group = true;
    return mica_j_list_push(r, groups, mica_j_from_list(group));
}

static bool groupby(jrender *r, jvalue input, const jargs *args, jvalue *out) {
    jvalue v[3];
    jsort_item *items;
    size_t n, begin = 0;
    jvalue no_path = {.kind = J_MISSING};
    jlist *groups = mica_j_list_new(r, J_ARRAY, 0);
    if (!groups || !mica_j_bind(r, args, "attribute | default case_sensitive", v) ||
        !collect_keyed(r, input, no_path, true, &items, &n))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!group_key(r, items[i].value, v, mica_j_truth(v[2]), &items[i].key)) return false;
    if (!mica_j_sort(r, items, n, false)) return false;
    for (size_t i = 1; i <= n; i++) {
        bool is_same = false;
        if (i < n && !mica_j_equal(r, items[begin].key, items[i].key, &is_same)) return false;
        if (is_same) continue;
        if (!push_group(r, groups, v, items + begin, i - begin)) return false;
        begin = i;
    }
    *out = mica_j_from_list(groups);
    return true;
}

const jbuiltin mica_j_order_filters[] = {
    {.name = "sort", .run = sort},       {.name = "unique", .run = unique},
    {.name = "min", .run = min_filter},  {.name = "max", .run = max_filter},
    {.name = "sum", .run = sum},         {.name = "dictsort", .run = dictsort},
    {.name = "groupby", .run = groupby}, {.name = NULL},
};
