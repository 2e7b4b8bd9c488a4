/* jinja_compare.c: truth, equality, order, membership: Python's rules for the kinds there are. */
#include <math.h>
#include <string.h>

#include "base/decimal.h"
#include "text/template/jinja_string.h"

/* ---- making values ---- */

bool mica_j_undefined(jrender *r, const jstring *name, const char *owner, const char *hint,
                      jvalue *out) {
    jundefined *u = mica_j_alloc(r, 1, sizeof(*u));
    if (!u) return false;
    *u = (jundefined){name, owner, hint};
    *out = (jvalue){.kind = J_UNDEFINED, .undefined = u};
    return true;
}

jlist *mica_j_list_new(jrender *r, jlist_type type, size_t capacity) {
    jlist *l = mica_j_alloc(r, 1, sizeof(*l));
    if (!l) return NULL;
    l->type = type;
    l->capacity = capacity;
    l->items = capacity ? mica_j_alloc(r, capacity, sizeof(jvalue)) : NULL;
    return capacity && !l->items ? NULL : l;
}

bool mica_j_list_push(jrender *r, jlist *l, jvalue v) {
    if (l->n == l->capacity) {
        size_t capacity = l->capacity ? 2 * l->capacity : 4;
        jvalue *grown = mica_j_alloc(r, capacity, sizeof(*grown));
        if (!grown) return false;
        if (l->n) memcpy(grown, l->items, l->n * sizeof(*grown));
        l->items = grown;
        l->capacity = capacity;
    }
    l->items[l->n++] = v;
    return true;
}

jobject *mica_j_object_new(jrender *r, jobject_type type) {
    jobject *o = mica_j_alloc(r, 1, sizeof(*o));
    if (o) o->type = type;
    return o;
}

/* ---- kinds ---- */

const char *mica_j_type_name(jvalue v) {
    static const char *const lists[] = {"list",       "tuple",     "generator",  "range",
                                        "dict_items", "dict_keys", "dict_values"};
    static const char *const objects[] = {"function", "method",    "type",   "macro",
                                          "loop",     "namespace", "cycler", "joiner"};
    static const char *const kinds[] = {"undefined", "undefined", "none", "bool",
                                        "int",       "int",       "float"};
    if (v.kind == J_STRING) return "str";
    if (v.kind == J_LIST) return lists[v.list->type];
    if (v.kind == J_DICT) return "dict";
    return v.kind == J_OBJECT ? objects[v.object->type] : kinds[v.kind];
}

bool mica_j_is_number(jvalue v) { return v.kind == J_BOOL || v.kind == J_INT || v.kind == J_FLOAT; }

double mica_j_as_double(jvalue v) {
    if (v.kind == J_FLOAT) return v.number;
    if (v.kind == J_BIGINT) return mica_decimal_parse(v.string->data, v.string->n);
    return v.kind == J_BOOL ? v.boolean : (double)v.integer;
}

bool mica_j_as_index(jvalue v, int64_t *out) {
    if (v.kind != J_INT && v.kind != J_BOOL) return false;
    *out = v.kind == J_INT ? v.integer : v.boolean;
    return true;
}

bool mica_j_truth(jvalue v) {
    switch (v.kind) {
    case J_BOOL:
        return v.boolean;
    case J_INT:
        return v.integer != 0;
    case J_FLOAT:
        return v.number != 0;
    case J_STRING:
        return v.string->n != 0;
    case J_LIST:
        return v.list->type == J_GENERATOR || v.list->n != 0;
    case J_DICT:
        return v.dict->n != 0;
    case J_BIGINT:
    case J_OBJECT:
        return true;
    default:
        return false;
    }
}

bool mica_j_length(jrender *r, jvalue v, size_t *out) {
    if (v.kind == J_STRING) {
        *out = mica_j_n_chars(v.string);
        return mica_j_charge(r, v.string->n);
    }
    if (v.kind == J_UNDEFINED) {
        *out = 0;
        return true;
    }
    if (v.kind == J_LIST) {
        if (!mica_j_force(r, v.list)) return false;
        *out = v.list->n;
        return true;
    }
    if (v.kind == J_DICT) {
        *out = v.dict->n;
        return true;
    }
    return MICA_J_ERROR(r, "a value of type %s has no length", mica_j_type_name(v));
}

/* ---- numbers ---- */

/* -1, 0, 1; 2: one is not a number (NaN). Exact, also beyond 2^53. */
static int order_int_double(int64_t a, double b) {
    if (isnan(b)) return 2;
    if (b >= 9223372036854775808.0) return -1;
    if (b < -9223372036854775808.0) return 1;
    int64_t whole = (int64_t)b;
    if (a != whole) return a < whole ? -1 : 1;
    double rest = b - (double)whole;
    return rest > 0 ? -1 : rest < 0;
}

static int order_numbers(jvalue a, jvalue b) {
    int64_t x, y;
    bool a_is_int = mica_j_as_index(a, &x), b_is_int = mica_j_as_index(b, &y);
    if (a_is_int && b_is_int) return (x > y) - (x < y);
    if (a_is_int) return order_int_double(x, b.number);
    if (b_is_int) {
        int order = order_int_double(y, a.number);
        return order == 2 ? 2 : -order;
    }
    if (isnan(a.number) || isnan(b.number)) return 2;
    return (a.number > b.number) - (a.number < b.number);
}

/* Both are integers or floats and one is beyond 64 bits. */
static int order_big(jvalue a, jvalue b) {
    const jstring *s = a.kind == J_BIGINT ? a.string : b.string;
    bool is_negative = s->data[0] == '-';
    if (a.kind == J_BIGINT && b.kind == J_BIGINT) {
        bool b_is_negative = b.string->data[0] == '-';
        if (is_negative != b_is_negative) return is_negative ? -1 : 1;
        int order = a.string->n != b.string->n ? (a.string->n > b.string->n ? 1 : -1)
                                               : mica_j_string_order(a.string, b.string);
        order = (order > 0) - (order < 0);
        return is_negative ? -order : order;
    }
    int order = is_negative ? -1 : 1; /* of the big one against any int */
    jvalue other = a.kind == J_BIGINT ? b : a;
    if (other.kind == J_FLOAT) {
        double d = mica_j_as_double(a.kind == J_BIGINT ? a : b);
        if (isnan(other.number)) return 2;
        order = (d > other.number) - (d < other.number);
    }
    return a.kind == J_BIGINT ? order : -order;
}

static bool is_any_number(jvalue v) { return mica_j_is_number(v) || v.kind == J_BIGINT; }

static int order_any_numbers(jvalue a, jvalue b) {
    return a.kind == J_BIGINT || b.kind == J_BIGINT ? order_big(a, b) : order_numbers(a, b);
}

/* ---- equality ---- */

static bool equal_items(jrender *r, const jlist *a, const jlist *b, bool *out) {
    *out = a->n == b->n;
    for (size_t i = 0; *out && i < a->n; i++)
        if (!mica_j_equal(r, a->items[i], b->items[i], out) || !mica_j_charge(r, 0)) return false;
    return true;
}

static bool equal_lists(jrender *r, jlist *a, jlist *b, bool *out) {
    *out = a == b;
    bool is_ordered = a->type == J_ARRAY || a->type == J_TUPLE || a->type == J_RANGE;
    if (*out || a->type != b->type || !is_ordered) return true;
    return equal_items(r, a, b, out);
}

static bool equal_dicts(jrender *r, const jdict *a, const jdict *b, bool *out) {
    *out = a->n == b->n;
    for (size_t i = 0; *out && i < a->n; i++) {
        jentry *other;
        if (!mica_j_dict_find(r, b, a->entries[i].key, &other)) return false;
        *out = other != NULL;
        if (other && !mica_j_equal(r, a->entries[i].value, other->value, out)) return false;
    }
    return true;
}

bool mica_j_equal(jrender *r, jvalue a, jvalue b, bool *out) {
    *out = false;
    if (is_any_number(a) && is_any_number(b)) {
        *out = order_any_numbers(a, b) == 0;
        return true;
    }
    if (a.kind != b.kind) return true;
    if (!mica_j_enter(r)) return false;
    bool is_good = true;
    if (a.kind == J_STRING) {
        *out = mica_j_string_equal(a.string, b.string);
        is_good = mica_j_charge(r, a.string->n == b.string->n ? a.string->n : 0);
    } else if (a.kind == J_LIST) {
        is_good = equal_lists(r, a.list, b.list, out);
    } else if (a.kind == J_DICT) {
        is_good = equal_dicts(r, a.dict, b.dict, out);
    } else {
        *out = a.kind != J_OBJECT || a.object == b.object;
    }
    mica_j_leave(r);
    return is_good;
}

bool mica_j_is_same(jvalue a, jvalue b) {
    if (a.kind != b.kind) return false;
    switch (a.kind) {
    case J_BOOL:
        return a.boolean == b.boolean;
    case J_INT:
        return a.integer == b.integer;
    case J_FLOAT:
        return a.number == b.number;
    case J_STRING:
    case J_BIGINT:
        return a.string == b.string || mica_j_string_equal(a.string, b.string);
    case J_LIST:
        return a.list == b.list;
    case J_DICT:
        return a.dict == b.dict;
    case J_OBJECT:
        return a.object == b.object;
    case J_UNDEFINED:
        return a.undefined == b.undefined;
    default:
        return true;
    }
}

/* ---- order ---- */

static bool less_lists(jrender *r, const jlist *a, const jlist *b, const char *op, bool *out) {
    for (size_t i = 0; i < a->n && i < b->n; i++) {
        bool is_equal;
        if (!mica_j_equal(r, a->items[i], b->items[i], &is_equal) || !mica_j_charge(r, 0))
            return false;
        if (!is_equal) return mica_j_less(r, a->items[i], b->items[i], op, out);
    }
    *out = a->n < b->n;
    return true;
}

bool mica_j_less(jrender *r, jvalue a, jvalue b, const char *op, bool *out) {
    if (is_any_number(a) && is_any_number(b)) {
        *out = order_any_numbers(a, b) == -1;
        return true;
    }
    if (a.kind == J_STRING && b.kind == J_STRING) {
        *out = mica_j_string_order(a.string, b.string) < 0;
        return mica_j_charge(r, a.string->n < b.string->n ? a.string->n : b.string->n);
    }
    bool are_lists = a.kind == J_LIST && b.kind == J_LIST && a.list->type == b.list->type &&
                     (a.list->type == J_ARRAY || a.list->type == J_TUPLE);
    if (are_lists) {
        bool is_good = mica_j_enter(r) && less_lists(r, a.list, b.list, op, out);
        if (is_good) mica_j_leave(r);
        return is_good;
    }
    if (a.kind == J_UNDEFINED) return mica_j_fail_undefined(r, a);
    if (b.kind == J_UNDEFINED) return mica_j_fail_undefined(r, b);
    return MICA_J_ERROR(r, "'%s' does not compare %s with %s", op, mica_j_type_name(a),
                        mica_j_type_name(b));
}

/* ---- membership ---- */

static bool contains_item(jrender *r, jvalue container, jvalue item, bool *out) {
    jiter it;
    jvalue each;
    bool is_done = false;
    *out = false;
    if (!mica_j_iter_begin(r, &it, container)) return false;
    while (!*out) {
        if (!mica_j_iter_next(r, &it, &each, &is_done)) return false;
        if (is_done) return true;
        if (!mica_j_equal(r, each, item, out)) return false;
    }
    return true;
}

bool mica_j_contains(jrender *r, jvalue container, jvalue item, bool *out) {
    if (container.kind == J_STRING) {
        const jstring *s = container.string;
        if (item.kind != J_STRING)
            return MICA_J_ERROR(r,
                                "'in' looks for a string in a string, not for a value of type %s",
                                mica_j_type_name(item));
        *out = mica_j_find(s, 0, s->n, item.string) != SIZE_MAX;
        return mica_j_charge(r, s->n);
    }
    if (container.kind == J_DICT) {
        jentry *found;
        if (!mica_j_dict_find(r, container.dict, item, &found)) return false;
        *out = found != NULL;
        return true;
    }
    if (!mica_j_is_iterable(container))
        return MICA_J_ERROR(r, "'in' needs a string, list or dict on its right, not %s",
                            mica_j_type_name(container));
    return contains_item(r, container, item, out);
}
