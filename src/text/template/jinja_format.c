/* jinja_format.c: printf-style formatting ("%s" % x) and str.format ("{}"), as Python does them.
 *
 * Both read a specification (flags, width, precision, type) and share the rest: a number's digits,
 * its sign, and padding.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/decimal.h"
#include "base/utf8.h"
#include "text/template/jinja_string.h"

typedef struct spec {
    uint32_t fill;
    char align; /* < > ^ =; 0: the type's */
    char sign;  /* + - space */
    bool is_alternate, has_comma, has_zero;
    int64_t width, precision; /* precision -1: none */
    char type;
} spec;

enum { MAX_WIDTH = 100000, MAX_DIGITS = 300 };

/* ---- numbers ---- */

/* Text of a number split into what stands before the padding of "=" and what behind. */
typedef struct digits {
    char prefix[8]; /* sign, 0x */
    char text[800];
} digits;

static void fix_point(char *text) {
    for (; *text; text++) /* the locale's decimal point */
        if (!strchr("0123456789+-eEnaifNAIF", *text)) *text = '.';
}

static void put_sign(const spec *s, bool is_negative, char *prefix) {
    prefix[0] = is_negative ? '-' : s->sign == '+' || s->sign == ' ' ? s->sign : 0;
    prefix[1] = 0;
}

static void integer_digits(const spec *s, int64_t v, digits *out) {
    uint64_t size = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    unsigned base = s->type == 'x' || s->type == 'X' ? 16
                    : s->type == 'o'                 ? 8
                    : s->type == 'b'                 ? 2
                                                     : 10;
    const char *letters = s->type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
    char reversed[72];
    size_t n = 0, k = 0;
    do {
        reversed[n++] = letters[size % base];
        size /= base;
    } while (size);
    while (n)
        out->text[k++] = reversed[--n];
    out->text[k] = 0;
    put_sign(s, v < 0, out->prefix);
    if (!s->is_alternate || base == 10) return;
    size_t at = strlen(out->prefix);
    out->prefix[at] = '0';
    out->prefix[at + 1] = s->type;
    out->prefix[at + 2] = 0;
}

static void print_float(char *text, size_t n, const spec *s, int precision, double v) {
    bool is_alternate = s->is_alternate;
    switch (s->type) {
    case 'e':
        snprintf(text, n, is_alternate ? "%#.*e" : "%.*e", precision, v);
        return;
    case 'E':
        snprintf(text, n, is_alternate ? "%#.*E" : "%.*E", precision, v);
        return;
    case 'g':
        snprintf(text, n, is_alternate ? "%#.*g" : "%.*g", precision, v);
        return;
    case 'G':
        snprintf(text, n, is_alternate ? "%#.*G" : "%.*G", precision, v);
        return;
    default:
        snprintf(text, n, is_alternate ? "%#.*f" : "%.*f", precision, v);
    }
}

static void float_digits(const spec *s, double v, digits *out) {
    double size = fabs(v);
    bool is_upper = s->type == 'F' || s->type == 'E' || s->type == 'G';
    int precision = s->precision < 0 ? 6 : (int)s->precision;
    put_sign(s, signbit(v) && !isnan(v), out->prefix);
    if (isnan(v) || isinf(v)) {
        strcpy(out->text, isnan(v) ? (is_upper ? "NAN" : "nan") : (is_upper ? "INF" : "inf"));
        return;
    }
    if (s->type == '%') size *= 100;
    print_float(out->text, sizeof(out->text), s, precision, size);
    fix_point(out->text);
    if (s->type == '%') strcat(out->text, "%");
}

/* format(x, "") of a float with a width or precision, but without a type. */
static void general_digits(const spec *s, double v, digits *out) {
    char repr[MICA_DECIMAL_BYTES];
    if (s->precision >= 0) {
        spec g = *s;
        g.type = 'g';
        g.precision = s->precision ? s->precision : 1;
        float_digits(&g, v, out);
        bool needs_point = isfinite(v) && !strpbrk(out->text, ".e");
        if (needs_point && (int64_t)strlen(out->text) < g.precision) strcat(out->text, ".0");
        return;
    }
    put_sign(s, signbit(v) && !isnan(v), out->prefix);
    mica_decimal_format(repr, fabs(v));
    strcpy(out->text, repr);
}

/* Commas between groups of three digits before the point. */
static void group_digits(digits *d) {
    size_t n = strlen(d->text), n_whole = strspn(d->text, "0123456789");
    size_t n_commas = n_whole ? (n_whole - 1) / 3 : 0;
    if (n + n_commas >= sizeof(d->text)) return;
    memmove(d->text + n_whole + n_commas, d->text + n_whole, n - n_whole + 1);
    for (size_t i = n_whole, k = n_whole + n_commas, in_group = 0; i > 0 && k > i; in_group++) {
        if (in_group && in_group % 3 == 0) d->text[--k] = ',';
        d->text[--k] = d->text[--i];
    }
}

static bool put_padded(jrender *r, jbuffer *to, const spec *s, const char *prefix,
                       const jstring *text, char default_align) {
    char align = s->align ? s->align : default_align;
    int64_t n = (int64_t)(strlen(prefix) + mica_j_n_chars(text));
    size_t pad = s->width > n ? (size_t)(s->width - n) : 0;
    size_t left = align == '>' ? pad : align == '^' ? pad / 2 : 0;
    size_t middle = align == '=' ? pad : 0;
    return mica_j_put_fill(r, to, s->fill, left) && mica_j_put_text(r, to, prefix) &&
           mica_j_put_fill(r, to, s->fill, middle) && mica_j_put_string(r, to, text) &&
           mica_j_put_fill(r, to, s->fill, pad - left - middle);
}

static bool put_digits(jrender *r, jbuffer *to, const spec *s, digits *d) {
    if (s->has_comma) group_digits(d);
    jstring text = {.data = d->text, .n = strlen(d->text), .n_chars = J_UNCOUNTED};
    return put_padded(r, to, s, d->prefix, &text, '>');
}

static bool check_spec(jrender *r, const spec *s) {
    if (s->width > MAX_WIDTH || s->precision > MAX_DIGITS)
        return mica_j_fail(r, MICA_E_LIMIT, "a format with a width or precision that is too large");
    return true;
}

/* Text, cut to the precision. */
static bool put_text(jrender *r, jbuffer *to, const spec *s, const jstring *text, char align) {
    if (s->precision >= 0)
        text = mica_j_cut(r, text, 0, mica_j_char_offset(text, (size_t)s->precision));
    return text && put_padded(r, to, s, "", text, align);
}

/* ---- printf ---- */

typedef struct printf_state {
    const jstring *format;
    size_t at;
    jvalue values;  /* a tuple, a mapping, or one value */
    size_t n_taken; /* of a tuple, or 1 once the single value is used */
    bool by_name;
    bool is_markup;
} printf_state;

static bool next_value(jrender *r, printf_state *p, jvalue *out) {
    bool is_tuple = mica_j_is_list(p->values, J_TUPLE);
    size_t n = is_tuple ? p->values.list->n : 1;
    if (p->n_taken >= n) return MICA_J_ERROR(r, "not enough values for the format");
    *out = is_tuple ? p->values.list->items[p->n_taken] : p->values;
    p->n_taken++;
    return true;
}

static bool read_number(jrender *r, printf_state *p, int64_t *out) {
    const jstring *f = p->format;
    jvalue v;
    if (p->at < f->n && f->data[p->at] == '*') {
        p->at++;
        return next_value(r, p, &v) &&
               (mica_j_as_index(v, out) || MICA_J_ERROR(r, "'*' in a format needs an integer"));
    }
    while (p->at < f->n && f->data[p->at] >= '0' && f->data[p->at] <= '9') {
        *out = 10 * (*out < MAX_WIDTH ? *out : MAX_WIDTH) + (f->data[p->at] - '0');
        p->at++;
    }
    return true;
}

/* "(name)": the value is that of the mapping. */
static bool read_key(jrender *r, printf_state *p, jvalue *out) {
    const jstring *f = p->format;
    size_t begin = ++p->at, open = 1;
    for (; p->at < f->n && open; p->at++)
        open = open + (f->data[p->at] == '(') - (f->data[p->at] == ')');
    if (open) return MICA_J_ERROR(r, "a '(' in a format is not closed");
    if (p->values.kind != J_DICT) return MICA_J_ERROR(r, "a format with names needs a mapping");
    jentry *e = mica_j_dict_find_name(p->values.dict, f->data + begin, p->at - 1 - begin);
    if (!e) return MICA_J_ERROR(r, "a name in a format is not in the mapping");
    *out = e->value;
    p->by_name = true;
    return true;
}

static bool read_conversion(jrender *r, printf_state *p, spec *s, jvalue *named) {
    const jstring *f = p->format;
    *s = (spec){.fill = ' ', .precision = -1};
    if (p->at < f->n && f->data[p->at] == '(' && !read_key(r, p, named)) return false;
    for (; p->at < f->n && f->data[p->at] && strchr("#0- +", f->data[p->at]); p->at++) {
        char flag = f->data[p->at];
        if (flag == '#') s->is_alternate = true;
        if (flag == '0') s->has_zero = true;
        if (flag == '-') s->align = '<';
        if (flag == '+' || (flag == ' ' && s->sign != '+')) s->sign = flag;
    }
    if (!read_number(r, p, &s->width)) return false;
    if (s->width < 0) {
        s->align = '<';
        s->width = -s->width;
    }
    if (p->at < f->n && f->data[p->at] == '.') {
        p->at++;
        s->precision = 0;
        if (!read_number(r, p, &s->precision)) return false;
        if (s->precision < 0) s->precision = 0;
    }
    while (p->at < f->n && f->data[p->at] && strchr("hlL", f->data[p->at]))
        p->at++;
    if (p->at >= f->n) return MICA_J_ERROR(r, "the format ends inside a conversion");
    s->type = f->data[p->at++];
    return check_spec(r, s);
}

static bool put_printf_text(jrender *r, jbuffer *to, const spec *s, jvalue v, bool is_markup) {
    const jstring *text;
    if (s->type == 's') {
        if (!mica_j_to_string(r, v, &text)) return false;
    } else {
        jbuffer *b = mica_j_buffer_new(r);
        if (!b || !mica_j_repr(r, b, v) || !mica_j_finish(r, b, false, &text)) return false;
    }
    if (is_markup && !mica_j_escape(r, text, &text)) return false;
    return put_text(r, to, s, text, '>');
}

static bool put_printf_integer(jrender *r, jbuffer *to, spec *s, jvalue v) {
    int64_t i;
    digits d;
    bool is_decimal = s->type == 'd' || s->type == 'i' || s->type == 'u';
    if (v.kind == J_BIGINT && is_decimal) return put_text(r, to, s, v.string, '>');
    if (is_decimal && v.kind == J_FLOAT && fabs(v.number) < 9e18) {
        i = (int64_t)v.number;
    } else if (!mica_j_as_index(v, &i)) {
        return MICA_J_ERROR(r, "%%%c needs a number, not a value of type %s", s->type,
                            mica_j_type_name(v));
    }
    integer_digits(s, i, &d);
    size_t n = strlen(d.text); /* the precision is the least number of digits */
    if (s->precision > (int64_t)n) {
        size_t zeros = (size_t)s->precision - n;
        memmove(d.text + zeros, d.text, n + 1);
        memset(d.text, '0', zeros);
    }
    return put_digits(r, to, s, &d);
}

static bool put_printf_float(jrender *r, jbuffer *to, const spec *s, jvalue v) {
    digits d;
    if (!mica_j_is_number(v))
        return MICA_J_ERROR(r, "%%%c needs a number, not a value of type %s", s->type,
                            mica_j_type_name(v));
    float_digits(s, mica_j_as_double(v), &d);
    return put_digits(r, to, s, &d);
}

static bool put_printf_char(jrender *r, jbuffer *to, const spec *s, jvalue v) {
    int64_t c;
    char bytes[4];
    jstring text = {.data = bytes, .n_chars = J_UNCOUNTED};
    if (v.kind == J_STRING && mica_j_n_chars(v.string) == 1)
        return put_padded(r, to, s, "", v.string, '>');
    bool is_good = mica_j_as_index(v, &c) && c >= 0 && c <= 0x10FFFF && (c < 0xD800 || c > 0xDFFF);
    if (!is_good) return MICA_J_ERROR(r, "%%c needs one character or its number");
    text.n = mica_utf8_put(bytes, (uint32_t)c);
    return put_padded(r, to, s, "", &text, '>');
}

static bool put_conversion(jrender *r, jbuffer *to, printf_state *p) {
    spec s;
    jvalue v = {.kind = J_MISSING};
    if (!read_conversion(r, p, &s, &v)) return false;
    if (s.type == '%') return mica_j_put_text(r, to, "%");
    if (v.kind == J_MISSING && !next_value(r, p, &v)) return false;
    if (v.kind == J_UNDEFINED && s.type != 's' && s.type != 'r') return mica_j_fail_undefined(r, v);
    if (s.type == 's' || s.type == 'r' || s.type == 'a')
        return put_printf_text(r, to, &s, v, p->is_markup);
    if (s.has_zero && s.align != '<') {
        s.fill = '0';
        s.align = '=';
    }
    if (strchr("diuxXo", s.type)) return put_printf_integer(r, to, &s, v);
    if (strchr("fFeEgG", s.type)) return put_printf_float(r, to, &s, v);
    if (s.type == 'c') return put_printf_char(r, to, &s, v);
    return MICA_J_ERROR(r, "'%c' is no conversion of a format", s.type);
}

bool mica_j_format_percent(jrender *r, const jstring *format, jvalue values, jvalue *out) {
    printf_state p = {.format = format, .values = values, .is_markup = format->is_markup};
    jbuffer *b = mica_j_buffer_new(r);
    const jstring *s;
    if (!b) return false;
    while (p.at < format->n) {
        const char *percent = memchr(format->data + p.at, '%', format->n - p.at);
        size_t end = percent ? (size_t)(percent - format->data) : format->n;
        if (!mica_j_put_slice(r, b, format, p.at, end)) return false;
        p.at = end + 1;
        if (percent && !put_conversion(r, b, &p)) return false;
    }
    /* What has items may be left unused, but for a tuple; any other value must be used. */
    bool is_tuple = mica_j_is_list(values, J_TUPLE);
    bool may_stay = values.kind == J_DICT || values.kind == J_UNDEFINED ||
                    mica_j_is_list(values, J_ARRAY) || mica_j_is_list(values, J_RANGE);
    size_t n = is_tuple ? values.list->n : 1;
    if (p.n_taken < n && !may_stay && !p.by_name)
        return MICA_J_ERROR(r, "not all values were used by the format");
    if (!mica_j_finish(r, b, format->is_markup, &s)) return false;
    *out = mica_j_text(s);
    return true;
}

/* ---- str.format ---- */

typedef struct braces_state {
    const jstring *format;
    const jargs *args;
    int64_t n_auto; /* next automatic number; -1: numbers are given */
    bool is_markup;
} braces_state;

static bool is_digits(const char *p, size_t n, int64_t *out) {
    *out = 0;
    for (size_t i = 0; i < n; i++) {
        if (p[i] < '0' || p[i] > '9' || *out > MAX_WIDTH) return false;
        *out = 10 * *out + (p[i] - '0');
    }
    return n > 0;
}

/* The argument that "0" or "name" means, or the next one. */
static bool find_argument(jrender *r, braces_state *b, const char *p, size_t n, bool is_auto,
                          jvalue *out) {
    int64_t index;
    bool is_number = is_digits(p, n, &index);
    if (is_auto || is_number) {
        if (is_auto ? b->n_auto < 0 : b->n_auto > 0)
            return MICA_J_ERROR(r, "a format mixes {} and {0}");
        if (is_auto) index = b->n_auto++;
        if (is_number) b->n_auto = -1;
        if ((uint64_t)index >= b->args->n)
            return MICA_J_ERROR(r, "the format has no value %lld", (long long)index);
        *out = b->args->items[index];
        return true;
    }
    for (size_t i = 0; i < b->args->n_keywords; i++) {
        const jkeyword *k = &b->args->keywords[i];
        if (k->name->n != n || memcmp(k->name->data, p, n) != 0) continue;
        *out = k->value;
        return true;
    }
    return MICA_J_ERROR(r, "the format has no value '%.*s'", n < 60 ? (int)n : 60, p);
}

/* ".name" and "[key]" behind the argument. */
static bool follow_path(jrender *r, const char *p, size_t n, jvalue *v) {
    for (size_t at = 0; at < n;) {
        bool is_item = p[at] == '[';
        size_t begin = at + 1, end = begin;
        while (end < n && (is_item ? p[end] != ']' : p[end] != '.' && p[end] != '['))
            end++;
        if (end == begin || (!is_item && p[at] != '.') || (is_item && end == n))
            return MICA_J_ERROR(r, "a field of a format is malformed");
        int64_t index;
        const jstring *name = mica_j_string(r, p + begin, end - begin, ORIGIN_TEMPLATE);
        if (!name) return false;
        jvalue key = mica_j_text(name);
        if (is_item && is_digits(p + begin, end - begin, &index)) key = mica_j_int(index);
        if (!(is_item ? mica_j_item(r, *v, key, v) : mica_j_attribute(r, *v, name, v)))
            return false;
        at = end + is_item;
    }
    return true;
}

static bool read_spec(jrender *r, const jstring *text, spec *s) {
    size_t at = 0, n = 0, n_second = 0;
    *s = (spec){.fill = ' ', .precision = -1};
    const char *p = text->data;
    uint32_t first = text->n ? mica_j_char_at(p, text->n, 0, &n) : 0;
    bool has_fill = n < text->n && strchr("<>=^", p[n]) && p[n];
    n_second = has_fill ? n : 0;
    if (has_fill) s->fill = first;
    if (n_second < text->n && p[n_second] && strchr("<>=^", p[n_second])) {
        s->align = p[n_second];
        at = n_second + 1;
    }
    if (at < text->n && p[at] && strchr("+- ", p[at])) s->sign = p[at++];
    if (at < text->n && p[at] == '#') s->is_alternate = at++ < text->n;
    if (at < text->n && p[at] == '0') {
        if (!s->align) {
            s->fill = '0';
            s->align = '=';
            s->has_zero = true;
        }
        at++;
    }
    for (; at < text->n && p[at] >= '0' && p[at] <= '9'; at++)
        s->width = 10 * (s->width < MAX_WIDTH ? s->width : MAX_WIDTH) + (p[at] - '0');
    if (at < text->n && p[at] == ',') s->has_comma = at++ < text->n;
    if (at < text->n && p[at] == '.') {
        s->precision = 0;
        for (at++; at < text->n && p[at] >= '0' && p[at] <= '9'; at++)
            s->precision =
                10 * (s->precision < MAX_WIDTH ? s->precision : MAX_WIDTH) + (p[at] - '0');
    }
    if (at < text->n) s->type = p[at++];
    if (at < text->n) return MICA_J_ERROR(r, "a format specification is malformed");
    return check_spec(r, s);
}

static bool put_by_spec(jrender *r, jbuffer *to, const jstring *spec_text, jvalue v) {
    spec s;
    digits d;
    int64_t i;
    if (spec_text->n == 0) return mica_j_print(r, to, v);
    if (!read_spec(r, spec_text, &s)) return false;
    bool is_integer = mica_j_as_index(v, &i) && (v.kind == J_INT || s.type);
    if (v.kind == J_STRING && (!s.type || s.type == 's')) {
        if (s.align == '=' && !s.has_zero) return MICA_J_ERROR(r, "'=' in a format is for numbers");
        if (s.align == '=') s.align = '<';
        return put_text(r, to, &s, v.string, '<');
    }
    if (is_integer && (!s.type || strchr("dxXobn", s.type))) {
        integer_digits(&s, i, &d);
        return put_digits(r, to, &s, &d);
    }
    if (mica_j_is_number(v) && s.type && strchr("fFeEgG%", s.type)) {
        float_digits(&s, mica_j_as_double(v), &d);
        return put_digits(r, to, &s, &d);
    }
    if (v.kind == J_FLOAT && !s.type) {
        general_digits(&s, v.number, &d);
        return put_digits(r, to, &s, &d);
    }
    return MICA_J_ERROR(r, "a value of type %s does not take this format", mica_j_type_name(v));
}

static bool format_into(jrender *r, jbuffer *to, braces_state *b, const jstring *format, int depth);

/* "argument path !conversion :spec" between the braces. */
static bool put_field(jrender *r, jbuffer *to, braces_state *b, const jstring *field, int depth) {
    const char *p = field->data;
    size_t n_name = 0, n_argument = 0;
    jvalue v;
    const jstring *spec_text = mica_j_cstring(r, ""), *text;
    for (bool in_item = false; n_name < field->n; n_name++) {
        in_item = p[n_name] == '[' || (in_item && p[n_name] != ']');
        if (!in_item && (p[n_name] == '!' || p[n_name] == ':')) break;
    }
    while (n_argument < n_name && p[n_argument] != '.' && p[n_argument] != '[')
        n_argument++;
    if (!spec_text || !find_argument(r, b, p, n_argument, n_name == 0, &v) ||
        !follow_path(r, p + n_argument, n_name - n_argument, &v))
        return false;
    size_t at = n_name;
    char conversion = at + 1 < field->n && p[at] == '!' ? p[at + 1] : 0;
    if (conversion) at += 2;
    if (at < field->n && p[at] != ':') return MICA_J_ERROR(r, "a field of a format is malformed");
    jbuffer *spec_buffer = mica_j_buffer_new(r), *value = mica_j_buffer_new(r);
    if (!spec_buffer || !value) return false;
    if (at < field->n) {
        const jstring *inner = mica_j_cut(r, field, at + 1, field->n);
        if (!inner || !format_into(r, spec_buffer, b, inner, depth + 1) ||
            !mica_j_finish(r, spec_buffer, false, &spec_text))
            return false;
    }
    if (conversion) {
        jbuffer *converted = mica_j_buffer_new(r);
        bool is_good = converted && (conversion == 's' ? mica_j_print(r, converted, v)
                                                       : mica_j_repr(r, converted, v));
        if (!is_good || !mica_j_finish(r, converted, false, &text)) return false;
        v = mica_j_text(text);
    }
    bool is_marked = v.kind == J_STRING && v.string->is_markup;
    if (!put_by_spec(r, value, spec_text, v) || !mica_j_finish(r, value, is_marked, &text))
        return false;
    if (b->is_markup && depth == 0 && !mica_j_escape(r, text, &text)) return false;
    return mica_j_put_string(r, to, text);
}

static bool format_into(jrender *r, jbuffer *to, braces_state *b, const jstring *f, int depth) {
    if (depth > 1) return MICA_J_ERROR(r, "fields of a format nest too deeply");
    for (size_t i = 0; i < f->n; i++) {
        char c = f->data[i];
        bool is_double = i + 1 < f->n && f->data[i + 1] == c;
        if (c != '{' && c != '}') {
            if (!mica_j_put_slice(r, to, f, i, i + 1)) return false;
            continue;
        }
        if (is_double && depth == 0) {
            if (!mica_j_put_slice(r, to, f, i, i + 1)) return false;
            i++;
            continue;
        }
        if (c == '}') return MICA_J_ERROR(r, "a single '}' in a format");
        size_t end = i + 1, open = 1;
        for (; end < f->n && open; end++)
            open = open + (f->data[end] == '{') - (f->data[end] == '}');
        if (open) return MICA_J_ERROR(r, "a '{' in a format is not closed");
        const jstring *field = mica_j_cut(r, f, i + 1, end - 1);
        if (!field || !put_field(r, to, b, field, depth)) return false;
        i = end - 1;
    }
    return true;
}

bool mica_j_format_braces(jrender *r, const jstring *format, const jargs *args, jvalue *out) {
    braces_state b = {.format = format, .args = args, .is_markup = format->is_markup};
    jbuffer *to = mica_j_buffer_new(r);
    const jstring *s;
    if (!to || !format_into(r, to, &b, format, 0) || !mica_j_finish(r, to, format->is_markup, &s))
        return false;
    *out = mica_j_text(s);
    return true;
}
