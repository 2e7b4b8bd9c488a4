/* jinja_methods_text.c: the methods of str.
 *
 * On text marked by `safe` the results are marked, and what joins it is escaped, as markupsafe
 * does; tests and searches look at the bare text.
 */
#include <string.h>

#include "text/template/jinja_text.h"

static bool text_out(const jstring *s, jvalue *out) {
    *out = mica_j_text(s);
    return s != NULL;
}

static bool finish(jrender *r, jbuffer *b, bool is_markup, jvalue *out) {
    const jstring *s;
    return mica_j_finish(r, b, is_markup, &s) && text_out(s, out);
}

static bool answer(bool v, jvalue *out) {
    *out = mica_j_bool(v);
    return true;
}

/* A string argument; escaped if self is marked. */
static bool joining_text(jrender *r, jvalue self, const jargs *args, jvalue v,
                         const jstring **out) {
    if (!mica_j_arg_text(r, args, v, out)) return false;
    return !self.string->is_markup || mica_j_escape(r, *out, out);
}

/* ---- case ---- */

static bool upper(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    const jstring *s;
    return mica_j_bind(r, args, "", NULL) && mica_j_change_case(r, self.string, CASE_UPPER, &s) &&
           text_out(s, out);
}

static bool lower(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    const jstring *s;
    return mica_j_bind(r, args, "", NULL) && mica_j_change_case(r, self.string, CASE_LOWER, &s) &&
           text_out(s, out);
}

static bool capitalize(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    return mica_j_bind(r, args, "", NULL) && mica_j_capitalize(r, self.string, out);
}

/* A letter that follows a cased one is lower, any other is a title's. */
static bool title(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    const jstring *s = self.string;
    jbuffer *b = mica_j_buffer_new(r);
    bool was_cased = false;
    if (!b || !mica_j_bind(r, args, "", NULL)) return false;
    for (size_t i = 0, n; i < s->n; i += n) {
        uint32_t c = mica_j_char_at(s->data, s->n, i, &n);
        if (!mica_j_put_case(r, b, s, i, i + n, was_cased ? CASE_LOWER : CASE_TITLE)) return false;
        was_cased = mica_j_is_cased(c);
    }
    return finish(r, b, s->is_markup, out);
}

static bool swapcase(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    const jstring *s = self.string;
    jbuffer *b = mica_j_buffer_new(r);
    if (!b || !mica_j_bind(r, args, "", NULL)) return false;
    for (size_t i = 0, n; i < s->n; i += n) {
        uint32_t c = mica_j_char_at(s->data, s->n, i, &n);
        bool is_good = mica_j_is_upper(c)   ? mica_j_put_case(r, b, s, i, i + n, CASE_LOWER)
                       : mica_j_is_lower(c) ? mica_j_put_case(r, b, s, i, i + n, CASE_UPPER)
                                            : mica_j_put_slice(r, b, s, i, i + n);
        if (!is_good) return false;
    }
    return finish(r, b, s->is_markup, out);
}

/* ---- what it consists of ---- */

static bool all_are(jrender *r, jvalue self, const jargs *args, bool (*is)(uint32_t c),
                    jvalue *out) {
    const jstring *s = self.string;
    if (!mica_j_bind(r, args, "", NULL) || !mica_j_charge(r, s->n)) return false;
    for (size_t i = 0, n; i < s->n; i += n)
        if (!is(mica_j_char_at(s->data, s->n, i, &n))) return answer(false, out);
    return answer(s->n > 0, out);
}

static bool isalpha_(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    return all_are(r, self, args, mica_j_is_alpha, out);
}

static bool isdigit_(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    return all_are(r, self, args, mica_j_is_digit, out);
}

static bool isdecimal(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    return all_are(r, self, args, mica_j_is_decimal, out);
}

static bool isalnum_(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    return all_are(r, self, args, mica_j_is_alnum, out);
}

static bool isspace_(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    return all_are(r, self, args, mica_j_is_space, out);
}

static bool isascii_(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    const jstring *s = self.string;
    if (!mica_j_bind(r, args, "", NULL) || !mica_j_charge(r, s->n)) return false;
    for (size_t i = 0; i < s->n; i++)
        if ((unsigned char)s->data[i] >= 0x80) return answer(false, out);
    return answer(true, out);
}

static bool run_test(jrender *r, const char *name, jvalue self, const jargs *args, jvalue *out) {
    bool v;
    return mica_j_run_test(r, mica_j_find_test(name, strlen(name)), self, args, &v) &&
           answer(v, out);
}

static bool isupper_(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    return run_test(r, "upper", self, args, out);
}

static bool islower_(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    return run_test(r, "lower", self, args, out);
}

/* Capitals only at the beginnings of words, and nowhere else. */
static bool istitle(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    const jstring *s = self.string;
    bool was_cased = false, has_cased = false;
    if (!mica_j_bind(r, args, "", NULL) || !mica_j_charge(r, s->n)) return false;
    for (size_t i = 0, n; i < s->n; i += n) {
        uint32_t c = mica_j_char_at(s->data, s->n, i, &n);
        bool is_capital = mica_j_is_upper(c) || mica_j_is_title(c), is_small = mica_j_is_lower(c);
        if ((is_capital && was_cased) || (is_small && !was_cased)) return answer(false, out);
        was_cased = is_capital || is_small;
        has_cased = has_cased || was_cased;
    }
    return answer(has_cased, out);
}

/* ---- cutting ---- */

static bool strip_sides(jrender *r, jvalue self, const jargs *args, bool is_left, bool is_right,
                        jvalue *out) {
    jvalue v;
    const jstring *set = NULL;
    if (!mica_j_bind(r, args, "/ | chars", &v)) return false;
    if (v.kind != J_MISSING && v.kind != J_NONE && !mica_j_arg_text(r, args, v, &set)) return false;
    return mica_j_strip(r, self.string, set, is_left, is_right, out);
}

static bool strip(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    return strip_sides(r, self, args, true, true, out);
}

static bool lstrip(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    return strip_sides(r, self, args, true, false, out);
}

static bool rstrip(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    return strip_sides(r, self, args, false, true, out);
}

static bool starts_with(const jstring *s, size_t begin, size_t end, const jstring *prefix) {
    return end >= begin && end - begin >= prefix->n &&
           memcmp(s->data + begin, prefix->data, prefix->n) == 0;
}

static bool removeprefix(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    jvalue v;
    const jstring *s = self.string, *prefix;
    if (!mica_j_bind(r, args, "/ prefix", &v) || !mica_j_arg_text(r, args, v, &prefix))
        return false;
    size_t begin = starts_with(s, 0, s->n, prefix) ? prefix->n : 0;
    return text_out(mica_j_cut(r, s, begin, s->n), out);
}

static bool removesuffix(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    jvalue v;
    const jstring *s = self.string, *suffix;
    if (!mica_j_bind(r, args, "/ suffix", &v) || !mica_j_arg_text(r, args, v, &suffix))
        return false;
    bool is_there = s->n >= suffix->n && starts_with(s, s->n - suffix->n, s->n, suffix);
    return text_out(mica_j_cut(r, s, 0, is_there ? s->n - suffix->n : s->n), out);
}

static bool push_cut(jrender *r, jlist *l, const jstring *s, size_t begin, size_t end) {
    const jstring *cut = mica_j_cut(r, s, begin, end);
    return cut && mica_j_list_push(r, l, mica_j_text(cut));
}

/* Between runs of white space; at most `max` cuts. */
static bool split_spaces(jrender *r, jlist *l, const jstring *s, int64_t max) {
    size_t begin = 0, end = s->n, n;
    mica_j_strip_bounds(s, NULL, true, false, &begin, &end);
    while (begin < s->n) {
        size_t at = begin;
        if (max == 0) return push_cut(r, l, s, begin, s->n);
        while (at < s->n && !mica_j_is_space(mica_j_char_at(s->data, s->n, at, &n)))
            at += n;
        if (!push_cut(r, l, s, begin, at)) return false;
        begin = at;
        end = s->n;
        mica_j_strip_bounds(s, NULL, true, false, &begin, &end);
        max -= max > 0;
    }
    return true;
}

/* The same from the right; the list is in reverse. */
static bool rsplit_spaces(jrender *r, jlist *l, const jstring *s, int64_t max) {
    size_t begin = 0, end = s->n, n;
    mica_j_strip_bounds(s, NULL, false, true, &begin, &end);
    while (end > 0) {
        size_t at = end;
        if (max == 0) return push_cut(r, l, s, 0, end);
        while (at > 0) {
            size_t before = mica_j_char_before(s->data, at);
            if (mica_j_is_space(mica_j_char_at(s->data, s->n, before, &n))) break;
            at = before;
        }
        if (!push_cut(r, l, s, at, end)) return false;
        begin = 0;
        end = at;
        mica_j_strip_bounds(s, NULL, false, true, &begin, &end);
        max -= max > 0;
    }
    return true;
}

static bool split_at(jrender *r, jlist *l, const jstring *s, const jstring *by, int64_t max) {
    size_t begin = 0, found;
    while (max != 0 && (found = mica_j_find(s, begin, s->n, by)) != SIZE_MAX) {
        if (!push_cut(r, l, s, begin, found) || !mica_j_charge(r, 0)) return false;
        begin = found + by->n;
        max -= max > 0;
    }
    return push_cut(r, l, s, begin, s->n);
}

static bool rsplit_at(jrender *r, jlist *l, const jstring *s, const jstring *by, int64_t max) {
    size_t end = s->n, found;
    while (max != 0 && (found = mica_j_find_last(s, 0, end, by)) != SIZE_MAX) {
        if (!push_cut(r, l, s, found + by->n, end) || !mica_j_charge(r, end - found)) return false;
        end = found;
        max -= max > 0;
    }
    return push_cut(r, l, s, 0, end);
}

static void reverse(jlist *l) {
    for (size_t i = 0; i < l->n / 2; i++) {
        jvalue v = l->items[i];
        l->items[i] = l->items[l->n - 1 - i];
        l->items[l->n - 1 - i] = v;
    }
}

static bool split_any(jrender *r, jvalue self, const jargs *args, bool from_right, jvalue *out) {
    jvalue v[2];
    int64_t max;
    const jstring *s = self.string, *by = NULL;
    jlist *l = mica_j_list_new(r, J_ARRAY, 0);
    if (!l || !mica_j_bind(r, args, "| sep maxsplit", v) ||
        !mica_j_arg_int(r, args, v[1], -1, &max) || !mica_j_charge(r, s->n))
        return false;
    if (v[0].kind != J_MISSING && v[0].kind != J_NONE && !mica_j_arg_text(r, args, v[0], &by))
        return false;
    if (by && by->n == 0) return MICA_J_ERROR(r, "%s: the separator is empty", args->what);
    bool is_good = from_right ? (by ? rsplit_at(r, l, s, by, max) : rsplit_spaces(r, l, s, max))
                              : (by ? split_at(r, l, s, by, max) : split_spaces(r, l, s, max));
    if (from_right) reverse(l);
    *out = mica_j_from_list(l);
    return is_good;
}

static bool split(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    return split_any(r, self, args, false, out);
}

static bool rsplit(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    return split_any(r, self, args, true, out);
}

static bool splitlines(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    jvalue v;
    const jstring *s = self.string;
    jlist *l = mica_j_list_new(r, J_ARRAY, 0);
    if (!l || !mica_j_bind(r, args, "| keepends", &v)) return false;
    for (size_t at = 0, end, next; at < s->n; at = next) {
        mica_j_next_line(s, at, &end, &next);
        if (!push_cut(r, l, s, at, mica_j_truth(v) ? next : end)) return false;
    }
    *out = mica_j_from_list(l);
    return mica_j_charge(r, s->n);
}

static bool partition_at(jrender *r, jvalue self, const jargs *args, bool from_right, jvalue *out) {
    jvalue v;
    const jstring *s = self.string, *by;
    jlist *l = mica_j_list_new(r, J_TUPLE, 0);
    if (!l || !mica_j_bind(r, args, "/ sep", &v) || !mica_j_arg_text(r, args, v, &by)) return false;
    if (by->n == 0) return MICA_J_ERROR(r, "%s: the separator is empty", args->what);
    size_t at = from_right ? mica_j_find_last(s, 0, s->n, by) : mica_j_find(s, 0, s->n, by);
    size_t begin = at, end = at + by->n;
    if (at == SIZE_MAX) begin = end = from_right ? 0 : s->n;
    *out = mica_j_from_list(l);
    return push_cut(r, l, s, 0, begin) && push_cut(r, l, s, begin, end) &&
           push_cut(r, l, s, end, s->n) && mica_j_charge(r, s->n);
}

static bool partition(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    return partition_at(r, self, args, false, out);
}

static bool rpartition(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    return partition_at(r, self, args, true, out);
}

/* ---- searching ---- */

/* The bytes [begin, end) that start and end (in characters) name; false in *is_valid if start lies
 * behind the end of the text. */
static bool read_range(jrender *r, const jstring *s, const jvalue *v, size_t *begin, size_t *end,
                       bool *is_valid) {
    jvalue none = {.kind = J_MISSING};
    int64_t first, stride, start;
    size_t count, n = mica_j_n_chars(s);
    if (!mica_j_slice_bounds(r, n, v[0], v[1], none, &first, &stride, &count)) return false;
    *is_valid = !mica_j_as_index(v[0], &start) || start <= (int64_t)n;
    *begin = mica_j_char_offset(s, (size_t)first);
    *end = mica_j_char_offset(s, (size_t)first + count);
    return true;
}

/* Whether an empty range was asked for whose start lies behind its end. */
static bool is_crossed(const jvalue *v, size_t n_chars) {
    int64_t start, end, n = (int64_t)n_chars;
    if (!mica_j_as_index(v[0], &start) || !mica_j_as_index(v[1], &end)) return false;
    start = start < 0 ? (start + n < 0 ? 0 : start + n) : start;
    end = end < 0 ? (end + n < 0 ? 0 : end + n) : end > n ? n : end;
    return start > end;
}

static bool find_any(jrender *r, jvalue self, const jargs *args, bool from_right, bool must,
                     jvalue *out) {
    jvalue v[3];
    const jstring *s = self.string, *needle;
    size_t begin, end, at = SIZE_MAX;
    bool is_valid;
    if (!mica_j_bind(r, args, "/ sub | start end", v) || !mica_j_arg_text(r, args, v[0], &needle) ||
        !read_range(r, s, v + 1, &begin, &end, &is_valid) || !mica_j_charge(r, s->n))
        return false;
    if (is_valid && !is_crossed(v + 1, mica_j_n_chars(s)))
        at = from_right ? mica_j_find_last(s, begin, end, needle)
                        : mica_j_find(s, begin, end, needle);
    if (at == SIZE_MAX && must) return MICA_J_ERROR(r, "%s: not found", args->what);
    *out = mica_j_int(at == SIZE_MAX ? -1 : (int64_t)mica_j_chars_between(s, 0, at));
    return true;
}

static bool find(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    return find_any(r, self, args, false, false, out);
}

static bool rfind(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    return find_any(r, self, args, true, false, out);
}

static bool index_(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    return find_any(r, self, args, false, true, out);
}

static bool rindex_(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    return find_any(r, self, args, true, true, out);
}

static bool count(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    jvalue v[3];
    const jstring *s = self.string, *needle;
    size_t begin, end;
    int64_t n = 0;
    bool is_valid;
    if (!mica_j_bind(r, args, "/ sub | start end", v) || !mica_j_arg_text(r, args, v[0], &needle) ||
        !read_range(r, s, v + 1, &begin, &end, &is_valid) || !mica_j_charge(r, s->n))
        return false;
    is_valid = is_valid && !is_crossed(v + 1, mica_j_n_chars(s));
    if (is_valid && needle->n == 0) n = (int64_t)mica_j_chars_between(s, begin, end) + 1;
    while (is_valid && needle->n && (begin = mica_j_find(s, begin, end, needle)) != SIZE_MAX) {
        n++;
        begin += needle->n;
    }
    *out = mica_j_int(n);
    return true;
}

/* startswith and endswith: one string, or a tuple of which one must fit. */
static bool has_affix(jrender *r, jvalue self, const jargs *args, bool at_end, jvalue *out) {
    jvalue v[3], *options = v;
    const jstring *s = self.string, *affix;
    size_t begin, end, n = 1;
    bool is_valid, is_there = false;
    if (!mica_j_bind(r, args, "/ affix | start end", v) ||
        !read_range(r, s, v + 1, &begin, &end, &is_valid) || !mica_j_charge(r, s->n))
        return false;
    is_valid = is_valid && !is_crossed(v + 1, mica_j_n_chars(s));
    if (mica_j_is_list(v[0], J_TUPLE)) {
        options = v[0].list->items;
        n = v[0].list->n;
    }
    for (size_t i = 0; i < n; i++) {
        if (!mica_j_arg_text(r, args, options[i], &affix) || !mica_j_charge(r, affix->n))
            return false;
        bool fits = is_valid && end - begin >= affix->n;
        size_t at = at_end ? end - affix->n : begin;
        is_there = is_there || (fits && starts_with(s, at, end, affix));
    }
    return answer(is_there, out);
}

static bool startswith(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    return has_affix(r, self, args, false, out);
}

static bool endswith(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    return has_affix(r, self, args, true, out);
}

/* ---- building ---- */

static bool replace(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    jvalue v[3];
    int64_t n;
    const jstring *from, *to;
    jbuffer *b = mica_j_buffer_new(r);
    return b && mica_j_bind(r, args, "/ old new | count", v) &&
           mica_j_arg_text(r, args, v[0], &from) && joining_text(r, self, args, v[1], &to) &&
           mica_j_arg_int(r, args, v[2], -1, &n) &&
           mica_j_put_replaced(r, b, self.string, from, to, n) &&
           finish(r, b, self.string->is_markup, out);
}

static bool join(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    jvalue v;
    jlist *l;
    const jstring *part;
    jbuffer *b = mica_j_buffer_new(r);
    bool is_markup = self.string->is_markup;
    if (!b || !mica_j_bind(r, args, "/ iterable", &v) || !mica_j_collect(r, v, &l)) return false;
    for (size_t i = 0; i < l->n; i++) {
        /* Marked text joins anything, as text. */
        bool is_good = is_markup ? mica_j_to_string(r, l->items[i], &part)
                                 : mica_j_arg_text(r, args, l->items[i], &part);
        if (!is_good || (is_markup && !mica_j_escape(r, part, &part)) ||
            (i && !mica_j_put_string(r, b, self.string)) || !mica_j_put_string(r, b, part))
            return false;
    }
    return finish(r, b, is_markup, out);
}

static bool justify(jrender *r, jvalue self, const jargs *args, jjustify side, jvalue *out) {
    jvalue v[2];
    int64_t width;
    uint32_t fill = ' ';
    const jstring *text;
    if (!mica_j_bind(r, args, "/ width | fillchar", v) || !mica_j_arg_int(r, args, v[0], 0, &width))
        return false;
    if (v[1].kind != J_MISSING) {
        size_t n = 0;
        if (!mica_j_arg_text(r, args, v[1], &text)) return false;
        if (text->n) fill = mica_j_char_at(text->data, text->n, 0, &n);
        if (n == 0 || n != text->n)
            return MICA_J_ERROR(r, "%s: the fill must be one character", args->what);
    }
    return mica_j_justify(r, self.string, width, fill, side, out);
}

static bool ljust(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    return justify(r, self, args, JUSTIFY_LEFT, out);
}

static bool rjust(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    return justify(r, self, args, JUSTIFY_RIGHT, out);
}

static bool center(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    return justify(r, self, args, JUSTIFY_CENTER, out);
}

static bool zfill(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    jvalue v;
    int64_t width;
    const jstring *s = self.string;
    jbuffer *b = mica_j_buffer_new(r);
    if (!b || !mica_j_bind(r, args, "/ width", &v) || !mica_j_arg_int(r, args, v, 0, &width))
        return false;
    int64_t n = (int64_t)mica_j_n_chars(s);
    size_t sign = s->n && (s->data[0] == '+' || s->data[0] == '-');
    return mica_j_put_slice(r, b, s, 0, sign) &&
           mica_j_put_fill(r, b, '0', width > n ? (size_t)(width - n) : 0) &&
           mica_j_put_slice(r, b, s, sign, s->n) && finish(r, b, s->is_markup, out);
}

static bool format(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    return mica_j_format_braces(r, self.string, args, out);
}

const jbuiltin mica_j_text_methods[] = {
    {.name = "upper", .run = upper},
    {.name = "lower", .run = lower},
    {.name = "capitalize", .run = capitalize},
    {.name = "title", .run = title},
    {.name = "swapcase", .run = swapcase},
    {.name = "isalpha", .run = isalpha_},
    {.name = "isdigit", .run = isdigit_},
    {.name = "isdecimal", .run = isdecimal},
    {.name = "isalnum", .run = isalnum_},
    {.name = "isspace", .run = isspace_},
    {.name = "isascii", .run = isascii_},
    {.name = "isupper", .run = isupper_},
    {.name = "islower", .run = islower_},
    {.name = "istitle", .run = istitle},
    {.name = "strip", .run = strip},
    {.name = "lstrip", .run = lstrip},
    {.name = "rstrip", .run = rstrip},
    {.name = "removeprefix", .run = removeprefix},
    {.name = "removesuffix", .run = removesuffix},
    {.name = "split", .run = split},
    {.name = "rsplit", .run = rsplit},
    {.name = "splitlines", .run = splitlines},
    {.name = "partition", .run = partition},
    {.name = "rpartition", .run = rpartition},
    {.name = "find", .run = find},
    {.name = "rfind", .run = rfind},
    {.name = "index", .run = index_},
    {.name = "rindex", .run = rindex_},
    {.name = "count", .run = count},
    {.name = "startswith", .run = startswith},
    {.name = "endswith", .run = endswith},
    {.name = "replace", .run = replace},
    {.name = "join", .run = join},
    {.name = "ljust", .run = ljust},
    {.name = "rjust", .run = rjust},
    {.name = "center", .run = center},
    {.name = "zfill", .run = zfill},
    {.name = "format", .run = format},
    {.name = NULL},
};
