/* jinja_filters_text.c: filters on text, and conversions to and from it.
 *
 * A filter on text turns its input into text first. The mark of `safe` survives those that Jinja
 * hands to a method of the marked text; `replace` and `join` give plain text.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "text/template/jinja_string.h"
#include "text/template/jinja_text.h"

static bool text_out(const jstring *s, jvalue *out) {
    *out = mica_j_text(s);
    return s != NULL;
}

static bool finish(jrender *r, jbuffer *b, bool is_markup, jvalue *out) {
    const jstring *s;
    if (!mica_j_finish(r, b, is_markup, &s)) return false;
    *out = mica_j_text(s);
    return true;
}

static bool no_arguments(jrender *r, jvalue input, const jargs *args, const jstring **s) {
    return mica_j_bind(r, args, "", NULL) && mica_j_to_string(r, input, s);
}

/* ---- case ---- */

static bool upper(jrender *r, jvalue input, const jargs *args, jvalue *out) {
    const jstring *s;
    return no_arguments(r, input, args, &s) && mica_j_change_case(r, s, CASE_UPPER, &s) &&
           text_out(s, out);
}

static bool lower(jrender *r, jvalue input, const jargs *args, jvalue *out) {
    const jstring *s;
    return no_arguments(r, input, args, &s) && mica_j_change_case(r, s, CASE_LOWER, &s) &&
           text_out(s, out);
}

static bool capitalize(jrender *r, jvalue input, const jargs *args, jvalue *out) {
    const jstring *s;
    return no_arguments(r, input, args, &s) && mica_j_capitalize(r, s, out);
}

static bool is_word_break(uint32_t c) {
    return mica_j_is_space(c) || (c < 0x80 && c && strchr("-({[<", (int)c));
}

/* Unlike the method, only white space and opening brackets end a word. */
static bool title(jrender *r, jvalue input, const jargs *args, jvalue *out) {
    const jstring *s;
    jbuffer *b = mica_j_buffer_new(r);
    if (!b || !no_arguments(r, input, args, &s)) return false;
    for (size_t begin = 0; begin < s->n;) {
        size_t end = begin, n;
        bool is_break = is_word_break(mica_j_char_at(s->data, s->n, begin, &n));
        const jstring *word;
        while (end < s->n && is_word_break(mica_j_char_at(s->data, s->n, end, &n)) == is_break)
            end += n;
        mica_j_char_at(s->data, s->n, begin, &n);
        if (!(word = mica_j_cut(r, s, begin, end))) return false;
        const jstring *rest = mica_j_cut(r, word, n, word->n);
        if (!rest || !mica_j_put_case(r, b, word, 0, n, CASE_UPPER) ||
            !mica_j_put_case(r, b, rest, 0, rest->n, CASE_LOWER))
            return false;
        begin = end;
    }
    return finish(r, b, false, out);
}

/* ---- cutting and joining ---- */

static bool trim(jrender *r, jvalue input, const jargs *args, jvalue *out) {
    jvalue v;
    const jstring *s, *set = NULL;
    if (!mica_j_bind(r, args, "| chars", &v) || !mica_j_to_string(r, input, &s)) return false;
    if (v.kind != J_MISSING && v.kind != J_NONE && !mica_j_arg_text(r, args, v, &set)) return false;
    return mica_j_strip(r, s, set, true, true, out);
}

static bool replace(jrender *r, jvalue input, const jargs *args, jvalue *out) {
    jvalue v[3];
    const jstring *s, *from, *to;
    int64_t count;
    if (!mica_j_bind(r, args, "old new | count", v)) return false;
    if (v[2].kind == J_NONE) v[2].kind = J_MISSING;
    if (!mica_j_to_string(r, input, &s) || !mica_j_to_string(r, v[0], &from) ||
        !mica_j_to_string(r, v[1], &to) || !mica_j_arg_int(r, args, v[2], -1, &count))
        return false;
    jbuffer *b = mica_j_buffer_new(r);
    return b && mica_j_put_replaced(r, b, s, from, to, count) && finish(r, b, false, out);
}

static bool join(jrender *r, jvalue input, const jargs *args, jvalue *out) {
    jvalue v[2], item;
    jlist *l;
    const jstring *between = mica_j_cstring(r, "");
    jbuffer *b = mica_j_buffer_new(r);
    if (!b || !between || !mica_j_bind(r, args, "| d attribute", v) ||
        (v[0].kind != J_MISSING && !mica_j_to_string(r, v[0], &between)) ||
        !mica_j_collect(r, input, &l))
        return false;
    for (size_t i = 0; i < l->n; i++)
        if ((i && !mica_j_put_string(r, b, between)) || !mica_j_path(r, l->items[i], v[1], &item) ||
            !mica_j_print(r, b, item))
            return false;
    return finish(r, b, false, out);
}

/* The lines of s + "\n", each from 0 to the line's end. */
static bool indent_lines(jrender *r, jbuffer *b, const jstring *s, const jstring *by, bool first,
                         bool blank) {
    size_t at = 0, n_lines = 0;
    do {
        size_t end, next;
        mica_j_next_line(s, at, &end, &next);
        bool is_indented = n_lines == 0 ? first : blank || end > at;
        if ((n_lines && !mica_j_put_text(r, b, "\n")) ||
            (is_indented && !mica_j_put_string(r, b, by)) || !mica_j_put_slice(r, b, s, at, end))
            return false;
        /* Jinja adds "\n": what ends with a line end has one more, empty line; but \r becomes one
         * line end with it. */
        if (next == s->n && (end == next || s->data[s->n - 1] == '\r')) break;
        at = next;
        n_lines++;
    } while (at <= s->n);
    return true;
}

static bool indent(jrender *r, jvalue input, const jargs *args, jvalue *out) {
    jvalue v[3];
    int64_t width;
    const jstring *s, *by = NULL;
    jbuffer *b = mica_j_buffer_new(r), *spaces = mica_j_buffer_new(r);
    if (!b || !spaces || !mica_j_bind(r, args, "| width first blank", v)) return false;
    if (input.kind == J_UNDEFINED) return mica_j_fail_undefined(r, input);
    if (!mica_j_arg_text(r, args, input, &s)) return false;
    if (v[0].kind == J_STRING) {
        by = v[0].string;
    } else if (!mica_j_arg_int(r, args, v[0], 4, &width) ||
               !mica_j_put_fill(r, spaces, ' ', width > 0 ? (size_t)width : 0) ||
               !mica_j_finish(r, spaces, false, &by)) {
        return false;
    }
    return indent_lines(r, b, s, by, mica_j_truth(v[1]), mica_j_truth(v[2])) &&
           finish(r, b, s->is_markup, out);
}

static bool truncate_text(jrender *r, const jstring *s, size_t n_chars, bool kills_words,
                          const jstring *end, jvalue *out) {
    static const jstring space = {.data = " ", .n = 1, .n_chars = 1};
    size_t cut = mica_j_char_offset(s, n_chars);
    if (!kills_words) {
        size_t at = mica_j_find_last(s, 0, cut, &space);
        if (at != SIZE_MAX) cut = at;
    }
    const jstring *head = mica_j_cut(r, s, 0, cut);
    return head && mica_j_add(r, mica_j_text(head), mica_j_text(end), out);
}

static bool truncate_(jrender *r, jvalue input, const jargs *args, jvalue *out) {
    jvalue v[4];
    int64_t length, leeway;
    const jstring *s, *end = mica_j_cstring(r, "...");
    if (!end || !mica_j_bind(r, args, "| length killwords end leeway", v)) return false;
    if (v[3].kind == J_NONE) v[3].kind = J_MISSING;
    if (!mica_j_arg_int(r, args, v[0], 255, &length) ||
        (v[2].kind != J_MISSING && !mica_j_arg_text(r, args, v[2], &end)) ||
        !mica_j_arg_int(r, args, v[3], 5, &leeway))
        return false;
    size_t n_chars;
    int64_t n_end = (int64_t)mica_j_n_chars(end);
    if (length < n_end || leeway < 0)
        return MICA_J_ERROR(r, "truncate: the length must not be below that of the end");
    if (!mica_j_length(r, input, &n_chars)) return false;
    *out = input; /* whatever has a length may be short enough */
    if ((int64_t)n_chars - leeway <= length) return true;
    if (!mica_j_arg_text(r, args, input, &s)) return false;
    return truncate_text(r, s, (size_t)(length - n_end), mica_j_truth(v[1]), end, out);
}

static bool center(jrender *r, jvalue input, const jargs *args, jvalue *out) {
    jvalue v;
    int64_t width;
    const jstring *s;
    return mica_j_bind(r, args, "| width", &v) && mica_j_arg_int(r, args, v, 80, &width) &&
           mica_j_to_string(r, input, &s) && mica_j_justify(r, s, width, ' ', JUSTIFY_CENTER, out);
}

static bool wordcount(jrender *r, jvalue input, const jargs *args, jvalue *out) {
    const jstring *s;
    int64_t n_words = 0;
    bool was_word = false;
    if (!no_arguments(r, input, args, &s)) return false;
    for (size_t i = 0, n; i < s->n; i += n) {
        uint32_t c = mica_j_char_at(s->data, s->n, i, &n);
        bool is_word = c == '_' || mica_j_is_alnum(c);
        n_words += is_word && !was_word;
        was_word = is_word;
    }
    *out = mica_j_int(n_words);
    return mica_j_charge(r, s->n);
}

/* ---- marks ---- */

static bool string(jrender *r, jvalue input, const jargs *args, jvalue *out) {
    const jstring *s;
    return no_arguments(r, input, args, &s) && text_out(s, out);
}

static bool safe(jrender *r, jvalue input, const jargs *args, jvalue *out) {
    const jstring *s;
    return no_arguments(r, input, args, &s) && text_out(mica_j_mark(r, s, true), out);
}

static bool escape(jrender *r, jvalue input, const jargs *args, jvalue *out) {
    const jstring *s;
    return no_arguments(r, input, args, &s) && mica_j_escape(r, s, &s) && text_out(s, out);
}

static bool format(jrender *r, jvalue input, const jargs *args, jvalue *out) {
    const jstring *s;
    if (args->n && args->n_keywords)
        return MICA_J_ERROR(r, "format takes positional or keyword arguments, not both");
    if (!mica_j_to_string(r, input, &s)) return false;
    if (args->n_keywords) {
        jdict *d = mica_j_dict_new(r);
        if (!d || !mica_j_dict_fill(r, d, args)) return false;
        return mica_j_format_percent(r, s, mica_j_from_dict(d), out);
    }
    jlist *values = mica_j_list_new(r, J_TUPLE, 0);
    if (!values) return false;
    for (size_t i = 0; i < args->n; i++)
        if (!mica_j_list_push(r, values, args->items[i])) return false;
    return mica_j_format_percent(r, s, mica_j_from_list(values), out);
}

/* ---- numbers out of text ---- */

/* The integer nearest to zero of a float, with all its digits. */
static bool whole_of(jrender *r, double d, jvalue *out) {
    char text[400];
    d = trunc(d);
    if (fabs(d) < 9e18) {
        *out = mica_j_int((int64_t)d);
        return true;
    }
    int n = snprintf(text, sizeof(text), "%.0f", d);
    char *digits = mica_j_alloc(r, (size_t)n + 1, 1);
    if (!digits) return false;
    memcpy(digits, text, (size_t)n);
    const jstring *s = mica_j_string(r, digits, (size_t)n, ORIGIN_TEMPLATE);
    *out = (jvalue){.kind = J_BIGINT, .string = s};
    return s != NULL;
}

static bool int_of_text(jrender *r, const jstring *s, int64_t base, jvalue fallback, jvalue *out) {
    bool is_number;
    double d;
    if (base != 0 && (base < 2 || base > 36)) {
        *out = fallback;
        return true;
    }
    if (!mica_j_read_integer(r, s, (int)base, out, &is_number)) return false;
    if (is_number) return true;
    *out = fallback;
    return !mica_j_read_float(s, &d) || !isfinite(d) || whole_of(r, d, out);
}

static bool int_(jrender *r, jvalue input, const jargs *args, jvalue *out) {
    jvalue v[2];
    int64_t i, base;
    if (!mica_j_bind(r, args, "| default base", v) || !mica_j_arg_int(r, args, v[1], 10, &base))
        return false;
    jvalue fallback = v[0].kind == J_MISSING ? mica_j_int(0) : v[0];
    if (input.kind == J_UNDEFINED) return mica_j_fail_undefined(r, input);
    if (input.kind == J_STRING) return int_of_text(r, input.string, base, fallback, out);
    if (input.kind == J_FLOAT && isinf(input.number))
        return MICA_J_ERROR(r, "int: an infinite number");
    *out = fallback;
    if (input.kind == J_FLOAT && !isnan(input.number)) return whole_of(r, input.number, out);
    if (mica_j_as_index(input, &i)) *out = mica_j_int(i);
    if (input.kind == J_BIGINT) *out = input;
    return true;
}

static bool float_(jrender *r, jvalue input, const jargs *args, jvalue *out) {
    jvalue v;
    double d;
    if (!mica_j_bind(r, args, "| default", &v)) return false;
    if (input.kind == J_UNDEFINED) return mica_j_fail_undefined(r, input);
    *out = v.kind == J_MISSING ? mica_j_float(0) : v;
    if (mica_j_is_number(input)) *out = mica_j_float(mica_j_as_double(input));
    bool is_text = input.kind == J_STRING || input.kind == J_BIGINT;
    if (is_text && mica_j_read_float(input.string, &d)) *out = mica_j_float(d);
    return true;
}

const jbuiltin mica_j_text_filters[] = {
    {.name = "upper", .run = upper},
    {.name = "lower", .run = lower},
    {.name = "capitalize", .run = capitalize},
    {.name = "title", .run = title},
    {.name = "trim", .run = trim},
    {.name = "replace", .run = replace},
    {.name = "join", .run = join},
    {.name = "indent", .run = indent},
    {.name = "truncate", .run = truncate_},
    {.name = "center", .run = center},
    {.name = "wordcount", .run = wordcount},
    {.name = "string", .run = string},
    {.name = "safe", .run = safe},
    {.name = "escape", .run = escape},
    {.name = "e", .run = escape},
    {.name = "format", .run = format},
    {.name = "int", .run = int_},
    {.name = "float", .run = float_},
    {.name = NULL},
};
