/* exact_number.c: numbers as they are written: reading, comparing, writing out. */
#include "text/grammar/exact_number.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Exponents beyond are as good as this one: no finite number has so many digits. */
enum { MAX_EXPONENT = 1 << 30 };

static int64_t read_exponent(const char *s) {
    bool is_small = *s == '-';
    int64_t v = 0;
    for (s += *s == '-' || *s == '+'; *s && v < MAX_EXPONENT; s++) {
        v = v * 10 + (*s - '0');
    }
    return is_small ? -v : v;
}

static const char *text_of(exact_number *out, const json_value *v) {
    if (v->kind == JSON_KIND_DOUBLE && v->literal) return v->literal;
    if (v->kind == JSON_KIND_INT)
        snprintf(out->text, sizeof(out->text), "%" PRId64, v->integer);
    else
        mica_decimal_format(out->text, v->number);
    return out->text;
}

void mica_exact_number(exact_number *out, const json_value *v) {
    *out = (exact_number){0};
    const char *s = text_of(out, v);
    bool is_negative = *s == '-', has_point = false;
    size_t n_seen = 0; /* digits from the first that is not 0 on */
    s += is_negative;
    for (; *s && *s != 'e' && *s != 'E'; s++) {
        if (*s == '.') {
            has_point = true;
            continue;
        }
        if (*s != '0' && !out->digits) out->digits = s;
        n_seen += out->digits != NULL;
        if (*s != '0') out->n_digits = n_seen;
        out->point += !has_point ? n_seen > 0 : -(n_seen == 0);
    }
    if (*s) out->point += read_exponent(s + 1);
    out->is_negative = is_negative && out->n_digits;
    if (!out->n_digits) out->point = 0;
}

static int compare_digits(const exact_number *x, const exact_number *y) {
    const char *a = x->digits, *b = y->digits;
    size_t n = x->n_digits < y->n_digits ? x->n_digits : y->n_digits;
    for (size_t i = 0; i < n; i++, a++, b++) {
        a += *a == '.';
        b += *b == '.';
        if (*a != *b) return *a < *b ? -1 : 1;
    }
    return x->n_digits < y->n_digits ? -1 : x->n_digits > y->n_digits;
}

int mica_exact_compare(const json_value *a, const json_value *b) {
    double da = mica_json_double(a, 0), db = mica_json_double(b, 0);
    if (da != db) return da < db ? -1 : 1; /* rounding keeps the order */
    if (a->kind == JSON_KIND_INT && b->kind == JSON_KIND_INT)
        return a->integer < b->integer ? -1 : a->integer > b->integer;
    exact_number x, y;
    mica_exact_number(&x, a);
    mica_exact_number(&y, b);
    int sign_x = x.n_digits ? x.is_negative ? -1 : 1 : 0;
    int sign_y = y.n_digits ? y.is_negative ? -1 : 1 : 0;
    if (sign_x != sign_y || !sign_x) return sign_x < sign_y ? -1 : sign_x > sign_y;
    if (x.point != y.point) return (x.point < y.point ? -1 : 1) * sign_x;
    return compare_digits(&x, &y) * sign_x;
}

bool mica_exact_is_integer(const json_value *v) {
    exact_number x;
    if (v->kind == JSON_KIND_INT) return true;
    mica_exact_number(&x, v);
    return x.point >= (int64_t)x.n_digits;
}

bool mica_exact_write(char *out, size_t capacity, const json_value *v) {
    exact_number x;
    mica_exact_number(&x, v);
    int64_t n = (int64_t)x.n_digits, limit = (int64_t)capacity - 4;
    if (n > limit || x.point > limit || x.point < -limit || n - x.point > limit) return false;
    const char *d = x.digits;
    if (x.is_negative) *out++ = '-';
    if (x.point <= 0) *out++ = '0';
    for (int64_t at = x.point < 0 ? x.point : 0; at < x.point || at < n; at++) {
        if (at == x.point) *out++ = '.';
        if (at < 0 || at >= n) {
            *out++ = '0';
            continue;
        }
        d += *d == '.';
        *out++ = *d++;
    }
    *out = '\0';
    return true;
}
