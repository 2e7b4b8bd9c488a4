/* jinja_access.c: a.b, a[b], slices, iteration.
 *
 * a.b looks for a method first and an item then, a[b] the other way round. What is not there is
 * undefined, not an error, except in something undefined. Names that begin with _ reach items only.
 */
#include <string.h>

#include "text/template/jinja_string.h"

/* ---- attributes ---- */

static bool new_method(jrender *r, const jbuiltin *def, jvalue self, jvalue *out) {
    jobject *o = mica_j_object_new(r, J_METHOD);
    if (!o) return false;
    o->function.def = def;
    o->function.self = self;
    *out = mica_j_from_object(o);
    return true;
}

static bool macro_attribute(jrender *r, const jmacro *m, const jstring *name, jvalue *out) {
    const jnode *node = m->node;
    if (mica_j_string_is(name, "name")) {
        *out = node->macro.name ? mica_j_text(node->macro.name) : mica_j_none();
        return true;
    }
    if (!mica_j_string_is(name, "arguments")) return true;
    jlist *names = mica_j_list_new(r, J_TUPLE, node->macro.signature.n);
    if (!names) return false;
    for (size_t i = 0; i < node->macro.signature.n; i++)
        if (!mica_j_list_push(r, names, mica_j_text(node->macro.signature.names[i]))) return false;
    *out = mica_j_from_list(names);
    return true;
}

static bool cycler_attribute(const jobject *o, const jstring *name, jvalue *out) {
    if (mica_j_string_is(name, "current")) *out = o->cycler.items->items[o->cycler.at];
    if (mica_j_string_is(name, "items")) *out = mica_j_from_list(o->cycler.items);
    if (mica_j_string_is(name, "pos")) *out = mica_j_int((int64_t)o->cycler.at);
    return true;
}

/* MISSING: no such attribute. */
static bool object_attribute(jrender *r, jobject *o, const jstring *name, jvalue *out) {
    if (o->type == J_MACRO) return macro_attribute(r, o->macro, name, out);
    if (o->type == J_LOOP) return mica_j_loop_attribute(r, o, name, out);
    if (o->type == J_CYCLER) return cycler_attribute(o, name, out);
    if (o->type != J_NAMESPACE) return true;
    jentry *e = mica_j_dict_find_name(o->attributes, name->data, name->n);
    if (e) *out = e->value;
    return true;
}

/* What Python's getattr finds; MISSING: nothing. */
static bool get_attribute(jrender *r, jvalue owner, const jstring *name, jvalue *out) {
    *out = (jvalue){.kind = J_MISSING};
    if (owner.kind == J_UNDEFINED) return mica_j_fail_undefined(r, owner);
    if (name->n && name->data[0] == '_') return true;
    if (owner.kind == J_OBJECT) {
        if (!object_attribute(r, owner.object, name, out)) return false;
        if (out->kind != J_MISSING || owner.object->type == J_NAMESPACE) return true;
    }
    if (owner.kind == J_LIST && owner.list->is_group && owner.list->n == 2) {
        if (mica_j_string_is(name, "grouper")) *out = owner.list->items[0];
        if (mica_j_string_is(name, "list")) *out = owner.list->items[1];
        if (out->kind != J_MISSING) return true;
    }
    const jbuiltin *def = mica_j_find_method(owner, name->data, name->n);
    if (!def) return true;
    bool is_frozen = (owner.kind == J_LIST && owner.list->is_frozen) ||
                     (owner.kind == J_DICT && owner.dict->is_frozen);
    if (def->is_changer && is_frozen)
        return mica_j_undefined(r, name, NULL, "what the context holds cannot be changed", out);
    return new_method(r, def, owner, out);
}

/* What owner[key] finds; MISSING: nothing. */
static bool get_item(jrender *r, jvalue owner, jvalue key, jvalue *out) {
    int64_t index;
    *out = (jvalue){.kind = J_MISSING};
    if (owner.kind == J_UNDEFINED) return mica_j_fail_undefined(r, owner);
    if (owner.kind == J_DICT) {
        jentry *e = NULL;
        if (mica_j_is_hashable(key) && !mica_j_dict_find(r, owner.dict, key, &e)) return false;
        if (e) *out = e->value;
        return true;
    }
    if (!mica_j_as_index(key, &index)) return true;
    if (owner.kind == J_STRING) {
        int64_t n = (int64_t)mica_j_n_chars(owner.string);
        if (index < 0) index += n;
        if (index < 0 || index >= n) return true;
        size_t begin = mica_j_char_offset(owner.string, (size_t)index), n_bytes;
        mica_j_char_at(owner.string->data, owner.string->n, begin, &n_bytes);
        const jstring *s = mica_j_cut(r, owner.string, begin, begin + n_bytes);
        *out = mica_j_text(s);
        return s && mica_j_charge(r, owner.string->n);
    }
    if (owner.kind != J_LIST || owner.list->type >= J_ITEMS || owner.list->type == J_GENERATOR)
        return true;
    if (index < 0) index += (int64_t)owner.list->n;
    if (index >= 0 && index < (int64_t)owner.list->n) *out = owner.list->items[index];
    return true;
}

bool mica_j_attribute(jrender *r, jvalue owner, const jstring *name, jvalue *out) {
    if (!get_attribute(r, owner, name, out)) return false;
    if (out->kind == J_MISSING && !get_item(r, owner, mica_j_text(name), out)) return false;
    if (out->kind != J_MISSING) return true;
    return mica_j_undefined(r, name, mica_j_type_name(owner), NULL, out);
}

bool mica_j_item(jrender *r, jvalue owner, jvalue key, jvalue *out) {
    if (!get_item(r, owner, key, out)) return false;
    if (out->kind == J_MISSING && key.kind == J_STRING && !get_attribute(r, owner, key.string, out))
        return false;
    if (out->kind != J_MISSING) return true;
    const jstring *name = key.kind == J_STRING ? key.string : NULL;
    bool is_scalar = key.kind >= J_NONE && key.kind <= J_FLOAT;
    if (is_scalar && !mica_j_to_string(r, key, &name)) return false;
    return mica_j_undefined(r, name, mica_j_type_name(owner), NULL, out);
}

/* ---- paths ---- */

static bool is_all_digits(const jstring *s, size_t begin, size_t end, int64_t *out) {
    *out = 0;
    for (size_t i = begin; i < end; i++) {
        if (s->data[i] < '0' || s->data[i] > '9' || *out > INT32_MAX) return false;
        *out = 10 * *out + (s->data[i] - '0');
    }
    return end > begin;
}

bool mica_j_path(jrender *r, jvalue owner, jvalue path, jvalue *out) {
    *out = owner;
    if (path.kind == J_MISSING || path.kind == J_NONE) return true;
    if (path.kind != J_STRING) return mica_j_item(r, owner, path, out);
    const jstring *s = path.string;
    for (size_t begin = 0; begin <= s->n;) {
        const char *dot = memchr(s->data + begin, '.', s->n - begin);
        size_t end = dot ? (size_t)(dot - s->data) : s->n;
        int64_t index;
        jvalue key = mica_j_int(0);
        if (is_all_digits(s, begin, end, &index)) {
            key.integer = index;
        } else {
            const jstring *part = mica_j_cut(r, s, begin, end);
            if (!part) return false;
            key = mica_j_text(part);
        }
        if (!mica_j_item(r, *out, key, out)) return false;
        begin = end + 1;
    }
    return true;
}

/* ---- slices ---- */

static bool slice_index(jrender *r, jvalue v, bool *is_given, int64_t *out) {
    *is_given = v.kind != J_MISSING && v.kind != J_NONE;
    if (!*is_given || mica_j_as_index(v, out)) return true;
    return MICA_J_ERROR(r, "a slice takes integers or none, not a value of type %s",
                        mica_j_type_name(v));
}

static int64_t clamp(int64_t v, int64_t n, bool is_backward) {
    int64_t low = is_backward ? -1 : 0, high = is_backward ? n - 1 : n;
    if (v < 0) v = v < -n ? low : v + n;
    return v < low ? low : v > high ? high : v;
}

bool mica_j_slice_bounds(jrender *r, size_t n, jvalue start, jvalue stop, jvalue step,
                         int64_t *first, int64_t *stride, size_t *count) {
    bool has_start, has_stop, has_step;
    int64_t from, until;
    if (!slice_index(r, start, &has_start, &from) || !slice_index(r, stop, &has_stop, &until) ||
        !slice_index(r, step, &has_step, stride))
        return false;
    if (!has_step) *stride = 1;
    if (*stride == 0) return MICA_J_ERROR(r, "the step of a slice is zero");
    bool is_backward = *stride < 0;
    int64_t length = (int64_t)n, begin = is_backward ? length - 1 : 0;
    int64_t end = is_backward ? -1 : length;
    if (has_start) begin = clamp(from, length, is_backward);
    if (has_stop) end = clamp(until, length, is_backward);
    *first = begin;
    uint64_t span = 0, size = is_backward ? 0 - (uint64_t)*stride : (uint64_t)*stride;
    if (is_backward ? begin > end : begin < end)
        span = (uint64_t)(is_backward ? begin - end : end - begin);
    *count = (size_t)((span + size - 1) / size);
    return true;
}

static bool slice_string(jrender *r, const jstring *s, int64_t first, int64_t stride, size_t count,
                         jvalue *out) {
    if (stride == 1) {
        size_t begin = mica_j_char_offset(s, (size_t)first);
        size_t end = mica_j_char_offset(s, (size_t)first + count);
        const jstring *cut = mica_j_cut(r, s, begin, count ? end : begin);
        *out = mica_j_text(cut);
        return cut && mica_j_charge(r, s->n);
    }
    jbuffer *b = mica_j_buffer_new(r);
    size_t n_chars = mica_j_n_chars(s), k = 0;
    size_t *offsets = mica_j_alloc(r, n_chars + 1, sizeof(*offsets));
    if (!b || !offsets) return false;
    for (size_t at = 0; at < s->n; at++)
        if (((unsigned char)s->data[at] & 0xC0) != 0x80) offsets[k++] = at;
    offsets[k] = s->n;
    for (size_t i = 0; i < count; i++) {
        size_t at = (size_t)(first + (int64_t)i * stride);
        if (!mica_j_put_slice(r, b, s, offsets[at], offsets[at + 1])) return false;
    }
    const jstring *result;
    if (!mica_j_finish(r, b, s->is_markup, &result)) return false;
    *out = mica_j_text(result);
    return true;
}

static bool slice_list(jrender *r, const jlist *l, int64_t first, int64_t stride, size_t count,
                       jvalue *out) {
    jlist_type type = l->type == J_GENERATOR ? J_ARRAY : l->type;
    jlist *cut = mica_j_list_new(r, type, count);
    if (!cut) return false;
    for (size_t i = 0; i < count; i++)
        cut->items[i] = l->items[first + (int64_t)i * stride];
    cut->n = count;
    if (type == J_RANGE) {
        cut->step = l->step * stride;
        cut->start = l->start + first * l->step;
        cut->stop = cut->start + (int64_t)count * cut->step;
    }
    *out = mica_j_from_list(cut);
    return mica_j_charge(r, count);
}

bool mica_j_slice(jrender *r, jvalue owner, jvalue start, jvalue stop, jvalue step, jvalue *out) {
    int64_t first, stride;
    size_t n, count;
    if (owner.kind == J_UNDEFINED) return mica_j_fail_undefined(r, owner);
    bool can = owner.kind == J_STRING || (owner.kind == J_LIST && owner.list->type < J_ITEMS);
    if (!can) return MICA_J_ERROR(r, "a value of type %s has no slices", mica_j_type_name(owner));
    if (!mica_j_length(r, owner, &n) ||
        !mica_j_slice_bounds(r, n, start, stop, step, &first, &stride, &count))
        return false;
    return owner.kind == J_STRING ? slice_string(r, owner.string, first, stride, count, out)
                                  : slice_list(r, owner.list, first, stride, count, out);
}

/* ---- iteration ---- */

bool mica_j_force(jrender *r, jlist *l) {
    jpending pending = l->pending;
    if (!pending.fill) return true;
    l->pending.fill = NULL;
    return pending.fill(r, l, pending.state);
}

bool mica_j_is_iterable(jvalue v) {
    return v.kind == J_STRING || v.kind == J_LIST || v.kind == J_DICT || v.kind == J_UNDEFINED ||
           v.kind == J_MISSING;
}

bool mica_j_iter_begin(jrender *r, jiter *it, jvalue over) {
    *it = (jiter){.over = over};
    if (over.kind == J_LIST) return mica_j_force(r, over.list);
    if (mica_j_is_iterable(over)) return true;
    return MICA_J_ERROR(r, "a value of type %s cannot be iterated over", mica_j_type_name(over));
}

static bool next_char(jrender *r, jiter *it, jvalue *out) {
    const jstring *s = it->over.string;
    size_t n;
    mica_j_char_at(s->data, s->n, it->at, &n);
    const jstring *c = mica_j_cut(r, s, it->at, it->at + n);
    if (c) c = mica_j_mark(r, c, false);
    it->at += n;
    *out = mica_j_text(c);
    return c != NULL;
}

bool mica_j_iter_next(jrender *r, jiter *it, jvalue *out, bool *is_done) {
    jvalue over = it->over;
    *is_done = true;
    if (!mica_j_charge(r, 0)) return false;
    if (over.kind == J_LIST) {
        size_t *at = over.list->type == J_GENERATOR ? &over.list->n_taken : &it->at;
        if (*at >= over.list->n) return true;
        *out = over.list->items[(*at)++];
    } else if (over.kind == J_DICT) {
        if (it->at >= over.dict->n) return true;
        *out = over.dict->entries[it->at++].key;
    } else if (over.kind == J_STRING) {
        if (it->at >= over.string->n) return true;
        if (!next_char(r, it, out)) return false;
    } else {
        return true;
    }
    *is_done = false;
    return true;
}

bool mica_j_collect(jrender *r, jvalue over, jlist **out) {
    jiter it;
    jvalue v;
    bool is_done = false;
    jlist *l = mica_j_list_new(r, J_ARRAY, 0);
    if (!l || !mica_j_iter_begin(r, &it, over)) return false;
    for (;;) {
        if (!mica_j_iter_next(r, &it, &v, &is_done)) return false;
        if (is_done) break;
        if (!mica_j_list_push(r, l, v)) return false;
    }
    *out = l;
    return true;
}
