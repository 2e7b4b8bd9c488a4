/* jinja_tests.c: what may stand behind `is`. */
#include <math.h>
#include <string.h>

#include "text/template/jinja_string.h"

static bool answer(bool v, jvalue *out) {
    *out = mica_j_bool(v);
    return true;
}

/* ---- kinds ---- */

static bool defined(jrender *r, jvalue v, const jargs *args, jvalue *out) {
    return mica_j_bind(r, args, "", NULL) && answer(v.kind != J_UNDEFINED, out);
}

static bool undefined(jrender *r, jvalue v, const jargs *args, jvalue *out) {
    return mica_j_bind(r, args, "", NULL) && answer(v.kind == J_UNDEFINED, out);
}

static bool none(jrender *r, jvalue v, const jargs *args, jvalue *out) {
    return mica_j_bind(r, args, "", NULL) && answer(v.kind == J_NONE, out);
}

static bool string(jrender *r, jvalue v, const jargs *args, jvalue *out) {
    return mica_j_bind(r, args, "", NULL) && answer(v.kind == J_STRING, out);
}

static bool mapping(jrender *r, jvalue v, const jargs *args, jvalue *out) {
    return mica_j_bind(r, args, "", NULL) && answer(v.kind == J_DICT, out);
}

static bool iterable(jrender *r, jvalue v, const jargs *args, jvalue *out) {
    bool is_loop = v.kind == J_OBJECT && v.object->type == J_LOOP;
    return mica_j_bind(r, args, "", NULL) && answer(mica_j_is_iterable(v) || is_loop, out);
}

static bool sequence(jrender *r, jvalue v, const jargs *args, jvalue *out) {
    bool has_index = v.kind == J_STRING || v.kind == J_DICT || v.kind == J_UNDEFINED ||
                     (v.kind == J_LIST && v.list->type < J_ITEMS && v.list->type != J_GENERATOR);
    return mica_j_bind(r, args, "", NULL) && answer(has_index, out);
}

static bool number(jrender *r, jvalue v, const jargs *args, jvalue *out) {
    return mica_j_bind(r, args, "", NULL) && answer(mica_j_is_number(v) || v.kind == J_BIGINT, out);
}

static bool integer(jrender *r, jvalue v, const jargs *args, jvalue *out) {
    return mica_j_bind(r, args, "", NULL) && answer(v.kind == J_INT || v.kind == J_BIGINT, out);
}

static bool float_(jrender *r, jvalue v, const jargs *args, jvalue *out) {
    return mica_j_bind(r, args, "", NULL) && answer(v.kind == J_FLOAT, out);
}

static bool boolean(jrender *r, jvalue v, const jargs *args, jvalue *out) {
    return mica_j_bind(r, args, "", NULL) && answer(v.kind == J_BOOL, out);
}

static bool true_(jrender *r, jvalue v, const jargs *args, jvalue *out) {
    return mica_j_bind(r, args, "", NULL) && answer(v.kind == J_BOOL && v.boolean, out);
}

static bool false_(jrender *r, jvalue v, const jargs *args, jvalue *out) {
    return mica_j_bind(r, args, "", NULL) && answer(v.kind == J_BOOL && !v.boolean, out);
}

static bool callable(jrender *r, jvalue v, const jargs *args, jvalue *out) {
    bool can = v.kind == J_UNDEFINED ||
               (v.kind == J_OBJECT && v.object->type != J_NAMESPACE && v.object->type != J_CYCLER);
    return mica_j_bind(r, args, "", NULL) && answer(can, out);
}

static bool escaped(jrender *r, jvalue v, const jargs *args, jvalue *out) {
    bool is_markup = v.kind == J_STRING && v.string->is_markup;
    return mica_j_bind(r, args, "", NULL) && answer(is_markup, out);
}

/* ---- numbers ---- */

/* value % divisor == wanted */
static bool has_rest(jrender *r, jvalue v, jvalue divisor, int64_t wanted, jvalue *out) {
    jvalue rest;
    bool is_equal;
    if (!mica_j_modulo(r, v, divisor, &rest) ||
        !mica_j_equal(r, rest, mica_j_int(wanted), &is_equal))
        return false;
    return answer(is_equal, out);
}

static bool odd(jrender *r, jvalue v, const jargs *args, jvalue *out) {
    return mica_j_bind(r, args, "", NULL) && has_rest(r, v, mica_j_int(2), 1, out);
}

static bool even(jrender *r, jvalue v, const jargs *args, jvalue *out) {
    return mica_j_bind(r, args, "", NULL) && has_rest(r, v, mica_j_int(2), 0, out);
}

static bool divisibleby(jrender *r, jvalue v, const jargs *args, jvalue *out) {
    jvalue divisor;
    return mica_j_bind(r, args, "num", &divisor) && has_rest(r, v, divisor, 0, out);
}

/* ---- comparisons ---- */

static bool eq(jrender *r, jvalue v, const jargs *args, jvalue *out) {
    jvalue other;
    bool is_equal;
    return mica_j_bind(r, args, "/ other", &other) && mica_j_equal(r, v, other, &is_equal) &&
           answer(is_equal, out);
}

static bool ne(jrender *r, jvalue v, const jargs *args, jvalue *out) {
    return eq(r, v, args, out) && answer(!out->boolean, out);
}

static bool lt(jrender *r, jvalue v, const jargs *args, jvalue *out) {
    jvalue other;
    bool is_less;
    return mica_j_bind(r, args, "/ other", &other) && mica_j_less(r, v, other, "<", &is_less) &&
           answer(is_less, out);
}

static bool gt(jrender *r, jvalue v, const jargs *args, jvalue *out) {
    jvalue other;
    bool is_less;
    return mica_j_bind(r, args, "/ other", &other) && mica_j_less(r, other, v, ">", &is_less) &&
           answer(is_less, out);
}

static bool is_nan(jvalue v) { return v.kind == J_FLOAT && isnan(v.number); }

static bool le(jrender *r, jvalue v, const jargs *args, jvalue *out) {
    if (!gt(r, v, args, out)) return false;
    return answer(!out->boolean && !is_nan(v) && !is_nan(args->items[0]), out);
}

static bool ge(jrender *r, jvalue v, const jargs *args, jvalue *out) {
    if (!lt(r, v, args, out)) return false;
    return answer(!out->boolean && !is_nan(v) && !is_nan(args->items[0]), out);
}

static bool in(jrender *r, jvalue v, const jargs *args, jvalue *out) {
    jvalue container;
    bool is_in;
    return mica_j_bind(r, args, "seq", &container) && mica_j_contains(r, container, v, &is_in) &&
           answer(is_in, out);
}

static bool sameas(jrender *r, jvalue v, const jargs *args, jvalue *out) {
    jvalue other;
    return mica_j_bind(r, args, "other", &other) && answer(mica_j_is_same(v, other), out);
}

/* ---- text ---- */

/* str(v).islower() or isupper(): some cased character, none of the other case. */
static bool has_case(jrender *r, jvalue v, bool wants_upper, jvalue *out) {
    const jstring *s;
    bool has_cased = false;
    if (!mica_j_to_string(r, v, &s) || !mica_j_charge(r, s->n)) return false;
    for (size_t i = 0, n; i < s->n; i += n) {
        uint32_t c = mica_j_char_at(s->data, s->n, i, &n);
        bool is_upper = mica_j_is_upper(c), is_lower = mica_j_is_lower(c);
        if (mica_j_is_title(c) || (wants_upper ? is_lower : is_upper)) return answer(false, out);
        has_cased = has_cased || is_upper || is_lower;
    }
    return answer(has_cased, out);
}

static bool lower(jrender *r, jvalue v, const jargs *args, jvalue *out) {
    return mica_j_bind(r, args, "", NULL) && has_case(r, v, false, out);
}

static bool upper(jrender *r, jvalue v, const jargs *args, jvalue *out) {
    return mica_j_bind(r, args, "", NULL) && has_case(r, v, true, out);
}

static bool filter(jrender *r, jvalue v, const jargs *args, jvalue *out) {
    bool is_known = v.kind == J_STRING && mica_j_find_filter(v.string->data, v.string->n);
    return mica_j_bind(r, args, "", NULL) && answer(is_known, out);
}

static bool test(jrender *r, jvalue v, const jargs *args, jvalue *out) {
    bool is_known = v.kind == J_STRING && mica_j_find_test(v.string->data, v.string->n);
    return mica_j_bind(r, args, "", NULL) && answer(is_known, out);
}

/* ---- the table ---- */

static const jbuiltin tests[] = {
    {.name = "defined", .run = defined},
    {.name = "undefined", .run = undefined},
    {.name = "none", .run = none},
    {.name = "string", .run = string},
    {.name = "mapping", .run = mapping},
    {.name = "iterable", .run = iterable},
    {.name = "sequence", .run = sequence},
    {.name = "number", .run = number},
    {.name = "integer", .run = integer},
    {.name = "float", .run = float_},
    {.name = "boolean", .run = boolean},
    {.name = "true", .run = true_},
    {.name = "false", .run = false_},
    {.name = "callable", .run = callable},
    {.name = "escaped", .run = escaped},
    {.name = "odd", .run = odd},
    {.name = "even", .run = even},
    {.name = "divisibleby", .run = divisibleby},
    {.name = "eq", .run = eq},
    {.name = "equalto", .run = eq},
    {.name = "==", .run = eq},
    {.name = "ne", .run = ne},
    {.name = "!=", .run = ne},
    {.name = "lt", .run = lt},
    {.name = "lessthan", .run = lt},
    {.name = "<", .run = lt},
    {.name = "gt", .run = gt},
    {.name = "greaterthan", .run = gt},
    {.name = ">", .run = gt},
    {.name = "le", .run = le},
    {.name = "<=", .run = le},
    {.name = "ge", .run = ge},
    {.name = ">=", .run = ge},
    {.name = "in", .run = in},
    {.name = "sameas", .run = sameas},
    {.name = "lower", .run = lower},
    {.name = "upper", .run = upper},
    {.name = "filter", .run = filter},
    {.name = "test", .run = test},
};

const jbuiltin *mica_j_find_test(const char *name, size_t n) {
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        if (strlen(tests[i].name) == n && memcmp(tests[i].name, name, n) == 0) return &tests[i];
    return NULL;
}

bool mica_j_run_test(jrender *r, const jbuiltin *def, jvalue input, const jargs *args, bool *out) {
    jvalue v;
    if (!mica_j_enter(r) || !def->run(r, input, args, &v)) return false;
    mica_j_leave(r);
    *out = v.boolean;
    return true;
}
