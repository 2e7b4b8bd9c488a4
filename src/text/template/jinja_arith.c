/* jinja_arith.c: + - * / // % ** and signs. Integers have 64 bits here: what does not fit is an
 * error, never a wrong number. */
#include <math.h>
#include <string.h>

#include "text/template/jinja_string.h"

static bool fail_types(jrender *r, jvalue a, jvalue b, const char *op) {
    if (a.kind == J_UNDEFINED) return mica_j_fail_undefined(r, a);
    if (b.kind == J_UNDEFINED) return mica_j_fail_undefined(r, b);
    if (a.kind == J_BIGINT || b.kind == J_BIGINT)
        return mica_j_fail(r, MICA_E_LIMIT, "'%s' on an integer of more than 64 bits", op);
    return MICA_J_ERROR(r, "'%s' does not take %s and %s", op, mica_j_type_name(a),
                        mica_j_type_name(b));
}

static bool fail_overflow(jrender *r, const char *op) {
    return mica_j_fail(r, MICA_E_LIMIT, "'%s' gives an integer of more than 64 bits", op);
}

static bool both_numbers(jvalue a, jvalue b) { return mica_j_is_number(a) && mica_j_is_number(b); }

static bool both_integers(jvalue a, jvalue b, int64_t *x, int64_t *y) {
    return mica_j_as_index(a, x) && mica_j_as_index(b, y);
}

/* ---- sums ---- */

static bool add_strings(jrender *r, const jstring *a, const jstring *b, jvalue *out) {
    bool is_markup = a->is_markup || b->is_markup;
    const jstring *sum;
    if (is_markup && (!mica_j_escape(r, a, &a) || !mica_j_escape(r, b, &b))) return false;
    if (!mica_j_concat(r, a, b, is_markup, &sum)) return false;
    *out = mica_j_text(sum);
    return true;
}

static bool add_lists(jrender *r, const jlist *a, const jlist *b, jvalue *out) {
    jlist *sum = mica_j_list_new(r, a->type, a->n + b->n);
    if (!sum) return false;
    if (a->n) memcpy(sum->items, a->items, a->n * sizeof(jvalue));
    if (b->n) memcpy(sum->items + a->n, b->items, b->n * sizeof(jvalue));
    sum->n = a->n + b->n;
    *out = mica_j_from_list(sum);
    return mica_j_charge(r, sum->n);
}

bool mica_j_add(jrender *r, jvalue a, jvalue b, jvalue *out) {
    int64_t x, y, sum;
    if (a.kind == J_STRING && b.kind == J_STRING) return add_strings(r, a.string, b.string, out);
    if (both_integers(a, b, &x, &y)) {
        if (__builtin_add_overflow(x, y, &sum)) return fail_overflow(r, "+");
        *out = mica_j_int(sum);
        return true;
    }
    if (both_numbers(a, b)) {
        *out = mica_j_float(mica_j_as_double(a) + mica_j_as_double(b));
        return true;
    }
    bool are_lists = a.kind == J_LIST && b.kind == J_LIST && a.list->type == b.list->type &&
                     (a.list->type == J_ARRAY || a.list->type == J_TUPLE);
    return are_lists ? add_lists(r, a.list, b.list, out) : fail_types(r, a, b, "+");
}

bool mica_j_subtract(jrender *r, jvalue a, jvalue b, jvalue *out) {
    int64_t x, y, difference;
    if (!both_numbers(a, b)) return fail_types(r, a, b, "-");
    if (!both_integers(a, b, &x, &y)) {
        *out = mica_j_float(mica_j_as_double(a) - mica_j_as_double(b));
        return true;
    }
    if (__builtin_sub_overflow(x, y, &difference)) return fail_overflow(r, "-");
    *out = mica_j_int(difference);
    return true;
}

/* ---- products ---- */

static bool repeat(jrender *r, jvalue what, int64_t n, jvalue *out) {
    if (n < 0) n = 0;
    if (what.kind == J_STRING) {
        jbuffer *b = mica_j_buffer_new(r);
        const jstring *result;
        if (!b) return false;
        for (int64_t i = 0; i < n && what.string->n; i++)
            if (!mica_j_put_string(r, b, what.string)) return false;
        if (!mica_j_finish(r, b, what.string->is_markup, &result)) return false;
        *out = mica_j_text(result);
        return true;
    }
    jlist *l = mica_j_list_new(r, what.list->type, 0);
    if (!l) return false;
    for (int64_t i = 0; i < n && what.list->n; i++)
        for (size_t k = 0; k < what.list->n; k++)
            if (!mica_j_list_push(r, l, what.list->items[k]) || !mica_j_charge(r, 0)) return false;
    *out = mica_j_from_list(l);
    return true;
}

static bool can_repeat(jvalue v) {
    return v.kind == J_STRING || mica_j_is_list(v, J_ARRAY) || mica_j_is_list(v, J_TUPLE);
}

bool mica_j_multiply(jrender *r, jvalue a, jvalue b, jvalue *out) {
    int64_t x, y, product;
    if (both_integers(a, b, &x, &y)) {
        if (__builtin_mul_overflow(x, y, &product)) return fail_overflow(r, "*");
        *out = mica_j_int(product);
        return true;
    }
    if (both_numbers(a, b)) {
        *out = mica_j_float(mica_j_as_double(a) * mica_j_as_double(b));
        return true;
    }
    if (can_repeat(a) && mica_j_as_index(b, &y)) return repeat(r, a, y, out);
    if (can_repeat(b) && mica_j_as_index(a, &x)) return repeat(r, b, x, out);
    return fail_types(r, a, b, "*");
}

static bool fail_zero(jrender *r, const char *op) { return MICA_J_ERROR(r, "'%s' by zero", op); }

bool mica_j_divide(jrender *r, jvalue a, jvalue b, jvalue *out) {
    if (!both_numbers(a, b)) return fail_types(r, a, b, "/");
    if (mica_j_as_double(b) == 0) return fail_zero(r, "/");
    *out = mica_j_float(mica_j_as_double(a) / mica_j_as_double(b));
    return true;
}

/* Python's divmod on floats: the remainder has the divisor's sign. */
static void float_divmod(double a, double b, double *quotient, double *rest) {
    double m = fmod(a, b), q = (a - m) / b;
    if (m != 0 && (b < 0) != (m < 0)) {
        m += b;
        q -= 1;
    } else if (m == 0) {
        m = copysign(0, b);
    }
    double whole = floor(q);
    if (q != 0 && q - whole > 0.5) whole += 1;
    *quotient = q != 0 ? whole : copysign(0, a / b);
    *rest = m;
}

bool mica_j_floor_divide(jrender *r, jvalue a, jvalue b, jvalue *out) {
    int64_t x, y;
    if (!both_numbers(a, b)) return fail_types(r, a, b, "//");
    if (mica_j_as_double(b) == 0) return fail_zero(r, "//");
    if (both_integers(a, b, &x, &y)) {
        if (x == INT64_MIN && y == -1) return fail_overflow(r, "//");
        *out = mica_j_int(x / y - ((x % y != 0) && ((x < 0) != (y < 0))));
        return true;
    }
    double quotient, rest;
    float_divmod(mica_j_as_double(a), mica_j_as_double(b), &quotient, &rest);
    *out = mica_j_float(quotient);
    return true;
}

bool mica_j_modulo(jrender *r, jvalue a, jvalue b, jvalue *out) {
    int64_t x, y;
    if (a.kind == J_STRING) return mica_j_format_percent(r, a.string, b, out);
    if (!both_numbers(a, b)) return fail_types(r, a, b, "%");
    if (mica_j_as_double(b) == 0) return fail_zero(r, "%");
    if (both_integers(a, b, &x, &y)) {
        int64_t m = y == -1 ? 0 : x % y;
        *out = mica_j_int(m != 0 && (m < 0) != (y < 0) ? m + y : m);
        return true;
    }
    double quotient, rest;
    float_divmod(mica_j_as_double(a), mica_j_as_double(b), &quotient, &rest);
    *out = mica_j_float(rest);
    return true;
}

static bool integer_power(jrender *r, int64_t base, int64_t exponent, jvalue *out) {
    int64_t result = 1;
    while (exponent) {
        if ((exponent & 1) && __builtin_mul_overflow(result, base, &result))
            return fail_overflow(r, "**");
        exponent >>= 1;
        if (exponent && __builtin_mul_overflow(base, base, &base)) return fail_overflow(r, "**");
    }
    *out = mica_j_int(result);
    return true;
}

bool mica_j_power(jrender *r, jvalue a, jvalue b, jvalue *out) {
    int64_t x, y;
    if (!both_numbers(a, b)) return fail_types(r, a, b, "**");
    if (both_integers(a, b, &x, &y) && y >= 0) return integer_power(r, x, y, out);
    double base = mica_j_as_double(a), exponent = mica_j_as_double(b);
    if (base == 0 && exponent < 0) return MICA_J_ERROR(r, "zero to a negative power");
    if (base < 0 && exponent != floor(exponent))
        return MICA_J_ERROR(r, "a negative number to a broken power");
    double result = pow(base, exponent);
    if (isinf(result) && !isinf(base) && !isinf(exponent))
        return MICA_J_ERROR(r, "'**' gives a number that is too large");
    *out = mica_j_float(result);
    return true;
}

bool mica_j_negate(jrender *r, jvalue a, bool is_minus, jvalue *out) {
    int64_t x;
    if (a.kind == J_FLOAT) {
        *out = mica_j_float(is_minus ? -a.number : a.number);
        return true;
    }
    if (mica_j_as_index(a, &x)) {
        if (is_minus && x == INT64_MIN) return fail_overflow(r, "-");
        *out = mica_j_int(is_minus ? -x : x);
        return true;
    }
    return fail_types(r, a, a, is_minus ? "unary -" : "unary +");
}
