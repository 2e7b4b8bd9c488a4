/* jinja_string.c: building, cutting and searching text that knows where it came from. */
#include "text/template/jinja_string.h"

#include <string.h>

#include "base/utf8.h"

/* ---- building ---- */

jbuffer *mica_j_buffer_new(jrender *r) { return mica_j_alloc(r, 1, sizeof(jbuffer)); }

static bool reserve(jrender *r, jbuffer *b, size_t n) {
    if (n > JINJA_MAX_OUTPUT || b->n > JINJA_MAX_OUTPUT - n)
        return mica_j_fail(r, MICA_E_LIMIT, "the template makes a text of more than %d MiB",
                           JINJA_MAX_OUTPUT >> 20);
    if (n <= b->capacity - b->n) return true;
    size_t capacity = b->capacity ? 2 * b->capacity : 64;
    if (capacity < b->n + n) capacity = b->n + n;
    char *grown = mica_j_alloc(r, capacity, 1);
    if (!grown) return false;
    if (b->n) memcpy(grown, b->data, b->n);
    b->data = grown;
    b->capacity = capacity;
    return true;
}

/* Marks [begin, end) at the end of the buffer. */
static bool add_span(jrender *r, jbuffer *b, size_t begin, size_t end, text_origin origin) {
    if (begin == end || origin == ORIGIN_TEMPLATE) return true;
    text_span *last = b->n_spans ? &b->spans[b->n_spans - 1] : NULL;
    if (last && last->end == begin && last->origin == origin) {
        last->end = end;
        return true;
    }
    if (b->n_spans == b->span_capacity) {
        size_t capacity = b->span_capacity ? 2 * b->span_capacity : 4;
        text_span *grown = mica_j_alloc(r, capacity, sizeof(*grown));
        if (!grown) return false;
        if (b->n_spans) memcpy(grown, b->spans, b->n_spans * sizeof(*grown));
        b->spans = grown;
        b->span_capacity = capacity;
    }
    b->spans[b->n_spans++] = (text_span){begin, end, origin};
    return true;
}

bool mica_j_put(jrender *r, jbuffer *to, const char *text, size_t n, text_origin origin) {
    if (!reserve(r, to, n) || !add_span(r, to, to->n, to->n + n, origin)) return false;
    if (n) memcpy(to->data + to->n, text, n);
    to->n += n;
    return mica_j_charge(r, n);
}

bool mica_j_put_text(jrender *r, jbuffer *to, const char *text) {
    return mica_j_put(r, to, text, strlen(text), ORIGIN_TEMPLATE);
}

bool mica_j_put_slice(jrender *r, jbuffer *to, const jstring *s, size_t begin, size_t end) {
    size_t at = to->n;
    if (!mica_j_put(r, to, s->data + begin, end - begin, ORIGIN_TEMPLATE)) return false;
    for (size_t i = 0; i < s->n_spans && s->spans[i].begin < end; i++) {
        text_span span = s->spans[i];
        size_t from = span.begin > begin ? span.begin : begin;
        size_t until = span.end < end ? span.end : end;
        if (from < until && !add_span(r, to, at + from - begin, at + until - begin, span.origin))
            return false;
    }
    return true;
}

bool mica_j_put_string(jrender *r, jbuffer *to, const jstring *s) {
    return mica_j_put_slice(r, to, s, 0, s->n);
}

bool mica_j_put_char(jrender *r, jbuffer *to, uint32_t c, text_origin origin) {
    char bytes[4];
    return mica_j_put(r, to, bytes, mica_utf8_put(bytes, c), origin);
}

bool mica_j_put_fill(jrender *r, jbuffer *to, uint32_t c, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!mica_j_put_char(r, to, c, ORIGIN_TEMPLATE)) return false;
    return true;
}

bool mica_j_put_escaped(jrender *r, jbuffer *to, const jstring *s) {
    static const char special[] = "&<>'\"";
    static const char *const entities[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    size_t begin = 0;
    for (size_t i = 0; i < s->n; i++) {
        const char *known = s->data[i] ? strchr(special, s->data[i]) : NULL;
        if (!known) continue;
        const char *entity = entities[known - special];
        if (!mica_j_put_slice(r, to, s, begin, i) ||
            !mica_j_put(r, to, entity, strlen(entity), mica_j_origin_at(s, i)))
            return false;
        begin = i + 1;
    }
    return mica_j_put_slice(r, to, s, begin, s->n);
}

/* The first n bytes of the buffer, whose spans are those it has now. */
static const jstring *view(jrender *r, jbuffer *b, bool is_markup) {
    jstring *s = mica_j_alloc(r, 1, sizeof(*s));
    if (s)
        *s = (jstring){.data = b->n ? b->data : "",
                       .n = b->n,
                       .n_chars = J_UNCOUNTED,
                       .spans = b->spans,
                       .n_spans = b->n_spans,
                       .tail = b,
                       .is_markup = is_markup};
    return s;
}

bool mica_j_finish(jrender *r, jbuffer *b, bool is_markup, const jstring **out) {
    *out = view(r, b, is_markup);
    return *out != NULL;
}

/* ---- strings ---- */

const jstring *mica_j_string(jrender *r, const char *text, size_t n, text_origin origin) {
    jstring *s = mica_j_alloc(r, 1, sizeof(*s));
    text_span *span = s && n && origin ? mica_j_alloc(r, 1, sizeof(*span)) : NULL;
    if (!s || (n && origin && !span)) return NULL;
    *s = (jstring){.data = text, .n = n, .n_chars = J_UNCOUNTED};
    if (span) {
        *span = (text_span){0, n, origin};
        s->spans = span;
        s->n_spans = 1;
    }
    return s;
}

const jstring *mica_j_cstring(jrender *r, const char *text) {
    return mica_j_string(r, text, strlen(text), ORIGIN_TEMPLATE);
}

/* The spans of s inside [begin, end), counted from begin. */
static bool cut_spans(jrender *r, const jstring *s, size_t begin, size_t end, jstring *out) {
    size_t first = 0, last;
    while (first < s->n_spans && s->spans[first].end <= begin)
        first++;
    for (last = first; last < s->n_spans && s->spans[last].begin < end;)
        last++;
    if (first == last) return true;
    text_span *spans = mica_j_alloc(r, last - first, sizeof(*spans));
    if (!spans) return false;
    for (size_t i = first; i < last; i++) {
        text_span span = s->spans[i];
        if (span.begin < begin) span.begin = begin;
        if (span.end > end) span.end = end;
        spans[i - first] = (text_span){span.begin - begin, span.end - begin, span.origin};
    }
    out->spans = spans;
    out->n_spans = last - first;
    return true;
}

const jstring *mica_j_cut(jrender *r, const jstring *s, size_t begin, size_t end) {
    if (begin == 0 && end == s->n) return s;
    jstring *cut = mica_j_alloc(r, 1, sizeof(*cut));
    if (!cut) return NULL;
    *cut = (jstring){.data = s->data + begin,
                     .n = end - begin,
                     .n_chars = J_UNCOUNTED,
                     .is_markup = s->is_markup};
    return cut_spans(r, s, begin, end, cut) ? cut : NULL;
}

const jstring *mica_j_mark(jrender *r, const jstring *s, bool is_markup) {
    if (s->is_markup == is_markup) return s;
    jstring *copy = mica_j_alloc(r, 1, sizeof(*copy));
    if (!copy) return NULL;
    *copy = *s;
    copy->is_markup = is_markup;
    return copy;
}

bool mica_j_concat(jrender *r, const jstring *a, const jstring *b, bool is_markup,
                   const jstring **out) {
    jbuffer *to = a->tail;
    /* Only the string that is all of the buffer may grow it: other views end before. */
    bool in_place = to && to->n == a->n && to->data == a->data;
    if (!in_place) {
        to = mica_j_buffer_new(r);
        if (!to || !mica_j_put_string(r, to, a)) return false;
    }
    return mica_j_put_string(r, to, b) && mica_j_finish(r, to, is_markup, out);
}

bool mica_j_escape(jrender *r, const jstring *s, const jstring **out) {
    *out = s;
    if (s->is_markup) return true;
    jbuffer *b = mica_j_buffer_new(r);
    return b && mica_j_put_escaped(r, b, s) && mica_j_finish(r, b, true, out);
}

text_origin mica_j_origin_at(const jstring *s, size_t at) {
    size_t low = 0, high = s->n_spans; /* the first span that ends behind `at` */
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (s->spans[middle].end <= at)
            low = middle + 1;
        else
            high = middle;
    }
    bool is_inside = low < s->n_spans && s->spans[low].begin <= at;
    return is_inside ? s->spans[low].origin : ORIGIN_TEMPLATE;
}

bool mica_j_string_is(const jstring *s, const char *text) {
    return strlen(text) == s->n && memcmp(s->data, text, s->n) == 0;
}

bool mica_j_string_equal(const jstring *a, const jstring *b) {
    return a->n == b->n && (a->data == b->data || memcmp(a->data, b->data, a->n) == 0);
}

int mica_j_string_order(const jstring *a, const jstring *b) {
    /* The order of UTF-8 bytes is the order of code points. */
    int order = memcmp(a->data, b->data, a->n < b->n ? a->n : b->n);
    return order ? order : (a->n > b->n) - (a->n < b->n);
}

/* ---- code points ---- */

size_t mica_j_chars_between(const jstring *s, size_t begin, size_t end) {
    size_t n = 0;
    for (size_t i = begin; i < end; i++)
        n += ((unsigned char)s->data[i] & 0xC0) != 0x80;
    return n;
}

size_t mica_j_n_chars(const jstring *s) {
    /* Strings of a template are shared by renders: only those of a render remember the count. */
    return s->n_chars != J_UNCOUNTED ? s->n_chars : mica_j_chars_between(s, 0, s->n);
}

size_t mica_j_char_offset(const jstring *s, size_t index) {
    if (s->n_chars == s->n) return index < s->n ? index : s->n;
    size_t at = 0;
    for (; at < s->n; at++) {
        if (((unsigned char)s->data[at] & 0xC0) == 0x80) continue;
        if (index-- == 0) return at;
    }
    return at;
}

uint32_t mica_j_char_at(const char *text, size_t n, size_t at, size_t *n_bytes) {
    const unsigned char *p = (const unsigned char *)text + at;
    size_t left = n - at;
    *n_bytes = 1;
    if (p[0] < 0x80 || left < 2) return p[0];
    size_t want = p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
    uint32_t c = p[0] & (0x7F >> want);
    for (size_t i = 1; i < want && i < left; i++)
        c = c << 6 | (p[i] & 0x3F);
    *n_bytes = want <= left ? want : left;
    return c;
}

size_t mica_j_char_before(const char *text, size_t end) {
    size_t at = end - 1;
    while (at > 0 && ((unsigned char)text[at] & 0xC0) == 0x80)
        at--;
    return at;
}

/* ---- searching ---- */

size_t mica_j_find(const jstring *s, size_t begin, size_t end, const jstring *needle) {
    if (needle->n > end - begin) return SIZE_MAX;
    if (needle->n == 0) return begin;
    const char *at = memmem(s->data + begin, end - begin, needle->data, needle->n);
    return at ? (size_t)(at - s->data) : SIZE_MAX;
}

size_t mica_j_find_last(const jstring *s, size_t begin, size_t end, const jstring *needle) {
    if (needle->n > end - begin) return SIZE_MAX;
    for (size_t at = end - needle->n + 1; at-- > begin;)
        if (memcmp(s->data + at, needle->data, needle->n) == 0) return at;
    return SIZE_MAX;
}

static bool is_stripped(const jstring *set, const char *text, size_t n) {
    size_t n_char;
    if (!set) return mica_j_is_space(mica_j_char_at(text, n, 0, &n_char));
    return n && memmem(set->data, set->n, text, n) != NULL;
}

void mica_j_strip_bounds(const jstring *s, const jstring *set, bool is_left, bool is_right,
                         size_t *begin, size_t *end) {
    while (is_left && *begin < *end) {
        size_t n;
        mica_j_char_at(s->data, s->n, *begin, &n);
        if (!is_stripped(set, s->data + *begin, n)) break;
        *begin += n;
    }
    while (is_right && *begin < *end) {
        size_t before = mica_j_char_before(s->data, *end);
        if (!is_stripped(set, s->data + before, *end - before)) break;
        *end = before;
    }
}
