/* jinja_text.c: operations on text that filters and methods share. */
#include "text/template/jinja_text.h"

#include <math.h>
#include <string.h>

#include "base/decimal.h"

static bool finish(jrender *r, jbuffer *b, bool is_markup, jvalue *out) {
    const jstring *s;
    if (!mica_j_finish(r, b, is_markup, &s)) return false;
    *out = mica_j_text(s);
    return true;
}

bool mica_j_capitalize(jrender *r, const jstring *s, jvalue *out) {
    jbuffer *b = mica_j_buffer_new(r);
    size_t n = 0;
    if (!b) return false;
    if (s->n) mica_j_char_at(s->data, s->n, 0, &n);
    return mica_j_put_case(r, b, s, 0, n, CASE_TITLE) &&
           mica_j_put_case(r, b, s, n, s->n, CASE_LOWER) && finish(r, b, s->is_markup, out);
}

bool mica_j_strip(jrender *r, const jstring *s, const jstring *set, bool is_left, bool is_right,
                  jvalue *out) {
    size_t begin = 0, end = s->n;
    mica_j_strip_bounds(s, set, is_left, is_right, &begin, &end);
    const jstring *cut = mica_j_cut(r, s, begin, end);
    *out = mica_j_text(cut);
    return cut && mica_j_charge(r, s->n - (end - begin));
}

/* Before each character and at the end. */
static bool put_interleaved(jrender *r, jbuffer *b, const jstring *s, const jstring *to,
                            int64_t count) {
    for (size_t i = 0, n; i <= s->n; i += n) {
        n = 1;
        if (count != 0 && !mica_j_put_string(r, b, to)) return false;
        if (count == 0) return mica_j_put_slice(r, b, s, i, s->n);
        count -= count > 0;
        if (i == s->n) break;
        mica_j_char_at(s->data, s->n, i, &n);
        if (!mica_j_put_slice(r, b, s, i, i + n)) return false;
    }
    return true;
}

bool mica_j_put_replaced(jrender *r, jbuffer *b, const jstring *s, const jstring *from,
                         const jstring *to, int64_t count) {
    size_t at = 0;
    if (from->n == 0) return put_interleaved(r, b, s, to, count);
    while (count != 0) {
        size_t found = mica_j_find(s, at, s->n, from);
        if (found == SIZE_MAX) break;
        if (!mica_j_put_slice(r, b, s, at, found) || !mica_j_put_string(r, b, to)) return false;
        at = found + from->n;
        count -= count > 0;
    }
    return mica_j_put_slice(r, b, s, at, s->n);
}

void mica_j_next_line(const jstring *s, size_t begin, size_t *end, size_t *next) {
    size_t n;
    for (*end = begin; *end < s->n; *end += n) {
        uint32_t c = mica_j_char_at(s->data, s->n, *end, &n);
        if (!mica_j_is_line_end(c)) continue;
        *next = *end + n;
        if (c == '\r' && *next < s->n && s->data[*next] == '\n') (*next)++;
        return;
    }
    *next = s->n;
}

bool mica_j_justify(jrender *r, const jstring *s, int64_t width, uint32_t fill, jjustify side,
                    jvalue *out) {
    int64_t n = (int64_t)mica_j_n_chars(s), pad = width > n ? width - n : 0, left = 0;
    jbuffer *b = mica_j_buffer_new(r);
    if (side == JUSTIFY_RIGHT) left = pad;
    if (side == JUSTIFY_CENTER) left = pad / 2 + (pad & width & 1);
    return b && mica_j_put_fill(r, b, fill, (size_t)left) && mica_j_put_string(r, b, s) &&
           mica_j_put_fill(r, b, fill, (size_t)(pad - left)) && finish(r, b, s->is_markup, out);
}

/* ---- numbers ---- */

static int digit_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'z' ? c - 'a' + 10 : 99;
}

static int base_of_letter(char c) {
    c |= 32;
    return c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 0;
}

/* Skips "0x" and the like; base 0 is told by it. False: "0" and digits in base 0. */
static bool read_prefix(const char *p, const char *end, size_t *n_prefix, int *base) {
    int named = end - p >= 2 && p[0] == '0' ? base_of_letter(p[1]) : 0;
    bool is_prefix = named && (*base == 0 || *base == named);
    *n_prefix = is_prefix ? 2 : 0;
    if (is_prefix && p + 2 < end && p[2] == '_') *n_prefix = 3;
    if (*base != 0) return true;
    *base = is_prefix ? named : 10;
    if (is_prefix || p == end || p[0] != '0') return true;
    for (; p < end; p++)
        if (*p != '0' && *p != '_') return false;
    return true;
}

/* Digits with single underscores between them; *digits gets them alone. */
static bool read_digits(const char *p, const char *end, int base, char *digits, size_t *n) {
    bool was_digit = false;
    *n = 0;
    for (; p < end; p++) {
        if (*p == '_' && was_digit) {
            was_digit = false;
            continue;
        }
        if (digit_value(*p) >= base) return false;
        digits[(*n)++] = *p;
        was_digit = true;
    }
    return was_digit;
}

static bool integer_of_digits(jrender *r, bool is_negative, char *digits, size_t n, int base,
                              jvalue *out) {
    int64_t v = 0;
    bool fits = true;
    for (size_t i = 0; fits && i < n; i++) {
        int digit = is_negative ? -digit_value(digits[i]) : digit_value(digits[i]);
        fits = !__builtin_mul_overflow(v, base, &v) && !__builtin_add_overflow(v, digit, &v);
    }
    *out = mica_j_int(v);
    if (fits) return true;
    if (base != 10) return mica_j_fail(r, MICA_E_LIMIT, "int: an integer of more than 64 bits");
    size_t n_zeros = 0;
    while (digits[n_zeros] == '0')
        n_zeros++;
    char *text = digits + n_zeros;
    if (is_negative) *--text = '-'; /* there is room for it before the digits */
    const jstring *s = mica_j_string(r, text, n - n_zeros + is_negative, ORIGIN_TEMPLATE);
    *out = (jvalue){.kind = J_BIGINT, .string = s};
    return s != NULL;
}

bool mica_j_read_integer(jrender *r, const jstring *s, int base, jvalue *out, bool *is_number) {
    size_t begin = 0, end = s->n, n_prefix, n;
    *is_number = false;
    mica_j_strip_bounds(s, NULL, true, true, &begin, &end);
    bool is_negative = begin < end && s->data[begin] == '-';
    if (is_negative || (begin < end && s->data[begin] == '+')) begin++;
    char *digits = mica_j_alloc(r, end - begin + 2, 1);
    if (!digits) return false;
    if (!read_prefix(s->data + begin, s->data + end, &n_prefix, &base)) return true;
    *is_number = read_digits(s->data + begin + n_prefix, s->data + end, base, digits + 1, &n);
    return !*is_number || integer_of_digits(r, is_negative, digits + 1, n, base, out);
}

static bool is_word(const char *p, size_t n, const char *word) {
    if (strlen(word) != n) return false;
    for (size_t i = 0; i < n; i++)
        if ((p[i] | 32) != word[i]) return false;
    return true;
}

static size_t skip_digits(const char *p, size_t n, size_t at) {
    while (at < n && p[at] >= '0' && p[at] <= '9') {
        at++;
        if (at + 1 < n && p[at] == '_' && p[at + 1] >= '0' && p[at + 1] <= '9') at++;
    }
    return at;
}

/* Whether [0, n) is digits, a point, digits, an exponent, as Python's float takes them. */
static bool is_float(const char *p, size_t n) {
    size_t whole = skip_digits(p, n, 0), at = whole;
    if (at < n && p[at] == '.') at++;
    size_t fraction = skip_digits(p, n, at);
    if (whole == 0 && fraction == at) return false;
    at = fraction;
    if (at == n) return true;
    if ((p[at] | 32) != 'e') return false;
    at++;
    if (at < n && (p[at] == '+' || p[at] == '-')) at++;
    return at < n && skip_digits(p, n, at) == n && p[n - 1] != '_';
}

bool mica_j_read_float(const jstring *s, double *out) {
    size_t begin = 0, end = s->n, k = 0;
    char text[512];
    mica_j_strip_bounds(s, NULL, true, true, &begin, &end);
    bool is_negative = begin < end && s->data[begin] == '-';
    if (is_negative || (begin < end && s->data[begin] == '+')) begin++;
    const char *p = s->data + begin;
    size_t n = end - begin;
    if (is_word(p, n, "inf") || is_word(p, n, "infinity"))
        *out = INFINITY;
    else if (is_word(p, n, "nan"))
        *out = NAN;
    else if (n < sizeof(text) - 2 && is_float(p, n)) {
        if (p[0] == '.') text[k++] = '0';
        for (size_t i = 0; i < n; i++) {
            bool is_bare_point = p[i] == '.' && (i + 1 == n || p[i + 1] < '0' || p[i + 1] > '9');
            if (p[i] != '_' && !is_bare_point) text[k++] = p[i];
        }
        *out = mica_decimal_parse(text, k);
    } else {
        return false;
    }
    if (is_negative) *out = -*out;
    return true;
}
