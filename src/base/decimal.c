/* decimal.c: exact conversions between decimal text and floating point.
 *
 * The C library does the hard part. It is handed integers with an exponent ("123e-4") and asked for
 * the %e form, from which only digits and exponent are taken, so that the decimal point of the
 * user's locale never matters.
 */
#include "base/decimal.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The midpoint between two doubles has at most 767 significant digits; one more digit says whether
 * anything follows, and that decides every tie. */
enum { MAX_DIGITS = 768, MAX_EXPONENT = 100000 };

typedef struct decimal {
    char digits[MAX_DIGITS + 1]; /* the value is 0.d1d2d3... times 10^point */
    int n;
    int64_t point;
} decimal;

static void add_digit(decimal *d, char c) {
    if (d->n == 0 && c == '0') return;
    if (d->n < MAX_DIGITS) {
        d->digits[d->n++] = c;
    } else if (c != '0') {
        d->digits[MAX_DIGITS] = '1';
    }
}

/* The exponent "+12" behind an e; far beyond the range of doubles it need not be exact. */
static int64_t parse_exponent(const char *text, size_t n) {
    int64_t value = 0;
    bool is_negative = n && text[0] == '-';
    for (size_t i = n && (text[0] == '-' || text[0] == '+'); i < n; i++) {
        if (value < INT64_C(1) << 56) value = 10 * value + (text[i] - '0');
    }
    return is_negative ? -value : value;
}

static void collect(decimal *d, const char *text, size_t n) {
    d->n = 0;
    d->point = 0;
    d->digits[MAX_DIGITS] = '0';
    bool in_fraction = false;
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        if (c == 'e' || c == 'E') {
            d->point += parse_exponent(text + i + 1, n - i - 1);
            return;
        }
        if (c == '.') {
            in_fraction = true;
        } else if (c >= '0' && c <= '9') {
            bool is_leading_zero = d->n == 0 && c == '0';
            add_digit(d, c);
            if (!in_fraction && !is_leading_zero) d->point++;
            if (in_fraction && is_leading_zero) d->point--;
        }
    }
}

/* Up to 15 digits and powers of ten up to 22 are exact doubles: one correctly rounded operation. */
static bool convert_small(const decimal *d, int64_t exponent, double *out) {
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (d->n > 15 || exponent < -22 || exponent > 22) return false;
    int64_t value = 0;
    for (int i = 0; i < d->n; i++) {
        value = 10 * value + (d->digits[i] - '0');
    }
    *out = exponent < 0 ? (double)value / powers[-exponent] : (double)value * powers[exponent];
    return true;
}

double mica_decimal_parse(const char *text, size_t n) {
    decimal d;
    collect(&d, text, n);
    double magnitude = 0.0;
    if (d.n) {
        int n_digits = d.n + (d.n == MAX_DIGITS);
        int64_t exponent = d.point - n_digits;
        if (exponent > MAX_EXPONENT) exponent = MAX_EXPONENT;
        if (exponent < -MAX_EXPONENT) exponent = -MAX_EXPONENT;
        if (!convert_small(&d, exponent, &magnitude)) {
            char buffer[MAX_DIGITS + 16];
            snprintf(buffer, sizeof(buffer), "%.*se%d", n_digits, d.digits, (int)exponent);
            magnitude = strtod(buffer, NULL);
        }
    }
    return n && text[0] == '-' ? -magnitude : magnitude;
}

/* ---- formatting ---- */

typedef struct short_digits {
    char digits[24];
    int n;
    int point; /* as above */
} short_digits;

static void round_to_digits(short_digits *s, double magnitude, int n_digits) {
    char buffer[64];
    snprintf(buffer, sizeof(buffer), "%.*e", n_digits - 1, magnitude);
    const char *p = buffer;
    s->n = 0;
    for (; *p != 'e'; p++) {
        if (*p >= '0' && *p <= '9') s->digits[s->n++] = *p;
    }
    s->digits[s->n] = '\0';
    s->point = (int)parse_exponent(p + 1, strlen(p + 1)) + 1;
}

/* Adds one to the last digit. */
static void step_up(short_digits *s) {
    int i = s->n - 1;
    while (i > 0 && s->digits[i] == '9') {
        s->digits[i--] = '0';
    }
    if (s->digits[i] == '9') {
        s->digits[i] = '1';
        s->point++;
    } else {
        s->digits[i]++;
    }
}

static bool reads_back(const short_digits *s, double magnitude, bool is_float) {
    char buffer[48];
    snprintf(buffer, sizeof(buffer), "%se%d", s->digits, s->point - s->n);
    return is_float ? (double)strtof(buffer, NULL) == magnitude : strtod(buffer, NULL) == magnitude;
}

/* What rounds to a power of two lies twice as far above it as below: the nearest text of n digits
 * may fail below while the next one above reads back. */
static void find_shortest_power(short_digits *s, double magnitude, bool is_float, int max_digits) {
    for (int n = 1; n <= max_digits; n++) {
        round_to_digits(s, magnitude, n);
        if (reads_back(s, magnitude, is_float)) return;
        step_up(s);
        if (reads_back(s, magnitude, is_float)) return;
    }
}

/* Elsewhere more digits are never farther from the value, so the least number can be bisected. */
static void find_shortest(short_digits *s, double magnitude, bool is_float) {
    int max_digits = is_float ? 9 : 17;
    int exponent;
    if (frexp(magnitude, &exponent) == 0.5) {
        find_shortest_power(s, magnitude, is_float, max_digits);
        return;
    }
    int low = 1, high = max_digits;
    while (low < high) {
        int middle = (low + high) / 2;
        round_to_digits(s, magnitude, middle);
        if (reads_back(s, magnitude, is_float)) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    round_to_digits(s, magnitude, low);
}

static size_t put(char *out, const char *s, size_t n) {
    memcpy(out, s, n);
    return n;
}

static size_t put_zeros(char *out, int n) {
    for (int i = 0; i < n; i++) {
        out[i] = '0';
    }
    return n > 0 ? (size_t)n : 0;
}

static size_t lay_out(char *out, const short_digits *s) {
    size_t n = 0;
    if (s->point <= -4 || s->point > 16) {
        n += put(out, s->digits, 1);
        if (s->n > 1) {
            out[n++] = '.';
            n += put(out + n, s->digits + 1, (size_t)s->n - 1);
        }
        return n + (size_t)snprintf(out + n, 8, "e%+03d", s->point - 1);
    }
    int n_whole = s->point < 0 ? 0 : s->point < s->n ? s->point : s->n;
    n += put(out, s->digits, (size_t)n_whole);
    n += put_zeros(out + n, s->point > 0 ? s->point - n_whole : 1);
    out[n++] = '.';
    n += put_zeros(out + n, s->point < 0 ? -s->point : 0);
    n += put(out + n, s->digits + n_whole, (size_t)(s->n - n_whole));
    if (n_whole == s->n) out[n++] = '0';
    out[n] = '\0';
    return n;
}

static size_t format(char *out, double v, bool is_float) {
    if (isnan(v)) return (size_t)snprintf(out, MICA_DECIMAL_BYTES, "nan");
    size_t n = 0;
    if (signbit(v)) out[n++] = '-';
    double magnitude = fabs(v);
    if (isinf(v) || magnitude == 0.0) {
        return n + (size_t)snprintf(out + n, 8, "%s", isinf(v) ? "inf" : "0.0");
    }
    short_digits s;
    find_shortest(&s, magnitude, is_float);
    return n + lay_out(out + n, &s);
}

size_t mica_decimal_format(char out[MICA_DECIMAL_BYTES], double v) { return format(out, v, false); }

size_t mica_decimal_format_float(char out[MICA_DECIMAL_BYTES], float v) {
    return format(out, (double)v, true);
}
