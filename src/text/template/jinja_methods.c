/* jinja_methods.c: the methods of dicts, lists and the other values; finding methods.
 *
 * Jinja's sandbox refuses methods that change a list or dict. Here they work on what the template
 * made itself, with Python's results, and never on what the context holds.
 */
#include <string.h>

#include "text/template/jinja_string.h"

/* ---- dict ---- */

static bool view(jrender *r, const jdict *d, jlist_type type, jvalue *out) {
    jlist *l = mica_j_list_new(r, type, d->n);
    if (!l) return false;
    for (size_t i = 0; i < d->n; i++) {
        l->items[i] = type == J_KEYS ? d->entries[i].key : d->entries[i].value;
        if (type != J_ITEMS) continue;
        jlist *pair = mica_j_list_new(r, J_TUPLE, 2);
        if (!pair) return false;
        pair->items[0] = d->entries[i].key;
        pair->items[1] = d->entries[i].value;
        pair->n = 2;
        l->items[i] = mica_j_from_list(pair);
    }
    l->n = d->n;
    *out = mica_j_from_list(l);
    return mica_j_charge(r, d->n);
}

static bool items(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    return mica_j_bind(r, args, "", NULL) && view(r, self.dict, J_ITEMS, out);
}

static bool keys(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    return mica_j_bind(r, args, "", NULL) && view(r, self.dict, J_KEYS, out);
}

static bool values(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    return mica_j_bind(r, args, "", NULL) && view(r, self.dict, J_VALUES, out);
}

static bool get(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    jvalue v[2];
    jentry *e;
    if (!mica_j_bind(r, args, "/ key | default", v) || !mica_j_dict_find(r, self.dict, v[0], &e))
        return false;
    *out = e ? e->value : v[1].kind == J_MISSING ? mica_j_none() : v[1];
    return true;
}

static bool fill(jrender *r, jdict *d, const jdict *from) {
    for (size_t i = 0; i < from->n; i++)
        if (!mica_j_dict_set(r, d, from->entries[i].key, from->entries[i].value)) return false;
    return true;
}

static bool dict_copy(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    jdict *d = mica_j_dict_new(r);
    if (!d || !mica_j_bind(r, args, "", NULL) || !fill(r, d, self.dict)) return false;
    *out = mica_j_from_dict(d);
    return true;
}

static bool fromkeys(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    jvalue v[2];
    jlist *l;
    jdict *d = mica_j_dict_new(r);
    (void)self;
    if (!d || !mica_j_bind(r, args, "/ iterable | value", v) || !mica_j_collect(r, v[0], &l))
        return false;
    if (v[1].kind == J_MISSING) v[1] = mica_j_none();
    for (size_t i = 0; i < l->n; i++)
        if (!mica_j_dict_set(r, d, l->items[i], v[1])) return false;
    *out = mica_j_from_dict(d);
    return true;
}

static bool dict_pop(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    jvalue v[2];
    jentry *e;
    if (!mica_j_bind(r, args, "/ key | default", v) || !mica_j_dict_find(r, self.dict, v[0], &e))
        return false;
    if (!e && v[1].kind == J_MISSING) return MICA_J_ERROR(r, "pop: no such key");
    *out = e ? e->value : v[1];
    return !e || mica_j_dict_remove(r, self.dict, e);
}

static bool popitem(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    jdict *d = self.dict;
    jlist *pair = mica_j_list_new(r, J_TUPLE, 2);
    if (!pair || !mica_j_bind(r, args, "", NULL)) return false;
    if (d->n == 0) return MICA_J_ERROR(r, "popitem: the dict is empty");
    pair->items[0] = d->entries[d->n - 1].key;
    pair->items[1] = d->entries[d->n - 1].value;
    pair->n = 2;
    *out = mica_j_from_list(pair);
    return mica_j_dict_remove(r, d, &d->entries[d->n - 1]);
}

static bool setdefault(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    jvalue v[2];
    jentry *e;
    if (!mica_j_bind(r, args, "/ key | default", v) || !mica_j_dict_find(r, self.dict, v[0], &e))
        return false;
    *out = e ? e->value : v[1].kind == J_MISSING ? mica_j_none() : v[1];
    return e || mica_j_dict_set(r, self.dict, v[0], *out);
}

static bool update(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    *out = mica_j_none();
    return mica_j_dict_fill(r, self.dict, args);
}

static bool dict_clear(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    *out = mica_j_none();
    if (!mica_j_bind(r, args, "", NULL)) return false;
    *self.dict = (jdict){0};
    return true;
}

static const jbuiltin dict_methods[] = {
    {.name = "items", .run = items},
    {.name = "keys", .run = keys},
    {.name = "values", .run = values},
    {.name = "get", .run = get},
    {.name = "copy", .run = dict_copy},
    {.name = "fromkeys", .run = fromkeys},
    {.name = "pop", .run = dict_pop, .is_changer = true},
    {.name = "popitem", .run = popitem, .is_changer = true},
    {.name = "setdefault", .run = setdefault, .is_changer = true},
    {.name = "update", .run = update, .is_changer = true},
    {.name = "clear", .run = dict_clear, .is_changer = true},
    {.name = NULL},
};

/* ---- lists ---- */

static bool list_index(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    jvalue v[3], none = {.kind = J_MISSING};
    int64_t first, stride;
    size_t n;
    if (!mica_j_bind(r, args, "/ value | start stop", v) ||
        !mica_j_slice_bounds(r, self.list->n, v[1], v[2], none, &first, &stride, &n))
        return false;
    for (size_t i = 0; i < n; i++) {
        bool is_equal;
        if (!mica_j_equal(r, self.list->items[(size_t)first + i], v[0], &is_equal) ||
            !mica_j_charge(r, 0))
            return false;
        if (!is_equal) continue;
        *out = mica_j_int(first + (int64_t)i);
        return true;
    }
    return MICA_J_ERROR(r, "index: not in the list");
}

static bool list_count(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    jvalue v;
    int64_t n = 0;
    if (!mica_j_bind(r, args, "/ value", &v)) return false;
    for (size_t i = 0; i < self.list->n; i++) {
        bool is_equal;
        if (!mica_j_equal(r, self.list->items[i], v, &is_equal) || !mica_j_charge(r, 0))
            return false;
        n += is_equal;
    }
    *out = mica_j_int(n);
    return true;
}

static bool list_copy(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    jlist *l;
    if (!mica_j_bind(r, args, "", NULL) || !mica_j_collect(r, self, &l)) return false;
    *out = mica_j_from_list(l);
    return true;
}

static bool append(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    jvalue v;
    *out = mica_j_none();
    return mica_j_bind(r, args, "/ object", &v) && mica_j_list_push(r, self.list, v);
}

static bool extend(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    jvalue v;
    jlist *l;
    *out = mica_j_none();
    if (!mica_j_bind(r, args, "/ iterable", &v) || !mica_j_collect(r, v, &l)) return false;
    for (size_t i = 0; i < l->n; i++)
        if (!mica_j_list_push(r, self.list, l->items[i])) return false;
    return true;
}

static void take_out(jlist *l, size_t at) {
    memmove(&l->items[at], &l->items[at + 1], (l->n - at - 1) * sizeof(jvalue));
    l->n--;
}

static bool insert(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    jvalue v[2];
    int64_t at, n = (int64_t)self.list->n;
    *out = mica_j_none();
    if (!mica_j_bind(r, args, "/ index object", v) || !mica_j_arg_int(r, args, v[0], 0, &at) ||
        !mica_j_list_push(r, self.list, v[1]))
        return false;
    if (at < 0) at = at + n < 0 ? 0 : at + n;
    if (at > n) at = n;
    memmove(&self.list->items[at + 1], &self.list->items[at], (size_t)(n - at) * sizeof(jvalue));
    self.list->items[at] = v[1];
    return mica_j_charge(r, (size_t)(n - at) * sizeof(jvalue));
}

static bool list_pop(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    jvalue v;
    int64_t at, n = (int64_t)self.list->n;
    if (!mica_j_bind(r, args, "/ | index", &v) || !mica_j_arg_int(r, args, v, -1, &at))
        return false;
    if (at < 0) at += n;
    if (at < 0 || at >= n) return MICA_J_ERROR(r, "pop: no such index");
    *out = self.list->items[at];
    take_out(self.list, (size_t)at);
    return mica_j_charge(r, (size_t)(n - at) * sizeof(jvalue));
}

static bool list_remove(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    jvalue at = mica_j_int(0);
    jargs one = *args;
    if (args->n != 1) return MICA_J_ERROR(r, "remove takes one value");
    if (!list_index(r, self, &one, &at)) return false;
    take_out(self.list, (size_t)at.integer);
    *out = mica_j_none();
    return true;
}

static bool list_reverse(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    jlist *l = self.list;
    *out = mica_j_none();
    for (size_t i = 0; i < l->n / 2; i++) {
        jvalue v = l->items[i];
        l->items[i] = l->items[l->n - 1 - i];
        l->items[l->n - 1 - i] = v;
    }
    return mica_j_bind(r, args, "", NULL) && mica_j_charge(r, l->n * sizeof(jvalue));
}

static bool list_sort(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    jvalue v;
    jlist *l = self.list;
    jsort_item *sorted = mica_j_alloc(r, l->n + 1, sizeof(*sorted));
    *out = mica_j_none();
    if (!sorted || !mica_j_bind(r, args, "| reverse", &v)) return false;
    for (size_t i = 0; i < l->n; i++)
        sorted[i] = (jsort_item){l->items[i], l->items[i]};
    if (!mica_j_sort(r, sorted, l->n, mica_j_truth(v))) return false;
    for (size_t i = 0; i < l->n; i++)
        l->items[i] = sorted[i].value;
    return true;
}

static bool list_clear(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    *out = mica_j_none();
    self.list->n = 0;
    return mica_j_bind(r, args, "", NULL);
}

static const jbuiltin tuple_methods[] = {
    {.name = "index", .run = list_index},
    {.name = "count", .run = list_count},
    {.name = NULL},
};

static const jbuiltin list_methods[] = {
    {.name = "index", .run = list_index},
    {.name = "count", .run = list_count},
    {.name = "copy", .run = list_copy},
    {.name = "append", .run = append, .is_changer = true},
    {.name = "extend", .run = extend, .is_changer = true},
    {.name = "insert", .run = insert, .is_changer = true},
    {.name = "pop", .run = list_pop, .is_changer = true},
    {.name = "remove", .run = list_remove, .is_changer = true},
    {.name = "reverse", .run = list_reverse, .is_changer = true},
    {.name = "sort", .run = list_sort, .is_changer = true},
    {.name = "clear", .run = list_clear, .is_changer = true},
    {.name = NULL},
};

/* ---- cyclers, the type dict ---- */

static bool next(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    jobject *o = self.object;
    if (!mica_j_bind(r, args, "", NULL)) return false;
    *out = o->cycler.items->items[o->cycler.at];
    o->cycler.at = (o->cycler.at + 1) % o->cycler.items->n;
    return true;
}

static bool reset(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    *out = mica_j_none();
    self.object->cycler.at = 0;
    return mica_j_bind(r, args, "", NULL);
}

static const jbuiltin cycler_methods[] = {
    {.name = "next", .run = next},
    {.name = "reset", .run = reset},
    {.name = NULL},
};

static const jbuiltin dict_type_methods[] = {
    {.name = "fromkeys", .run = fromkeys},
    {.name = NULL},
};

/* ---- finding ---- */

static const jbuiltin *table_of(jvalue owner) {
    static const jbuiltin none[] = {{.name = NULL}};
    if (owner.kind == J_STRING) return mica_j_text_methods;
    if (owner.kind == J_DICT) return dict_methods;
    if (mica_j_is_list(owner, J_ARRAY)) return list_methods;
    if (mica_j_is_list(owner, J_TUPLE) || mica_j_is_list(owner, J_RANGE)) return tuple_methods;
    if (owner.kind != J_OBJECT) return none;
    if (owner.object->type == J_CYCLER) return cycler_methods;
    return owner.object->type == J_DICT_TYPE ? dict_type_methods : none;
}

const jbuiltin *mica_j_find_method(jvalue owner, const char *name, size_t n) {
    for (const jbuiltin *def = table_of(owner); def->name; def++)
        if (strlen(def->name) == n && memcmp(def->name, name, n) == 0) return def;
    return NULL;
}
