/* normalize_unicode.c: NFC, NFD, NFKC and NFKD with utf8proc's tables.
 *
 * utf8proc decomposes one character and composes a whole text in linear time; the canonical
 * ordering in between is ours, by counting, because utf8proc's own swaps neighbours and is
 * quadratic in the length of a run of marks.
 */
#include "text/tokenizer/normalize.h"

#include <string.h>
#include <utf8proc.h>

#include "text/tokenizer/codepoint.h"

typedef struct code_points {
    utf8proc_int32_t *items;
    size_t n;
    size_t capacity;
} code_points;

static mica_status fail_memory(mica_error *err) {
    return mica_fail(err, MICA_E_NOMEM, "out of memory for normalizing text");
}

static mica_status reserve(code_points *c, size_t n_more, mica_error *err) {
    void *grown = mica_text_grow(c->items, &c->capacity, c->n + n_more, sizeof(*c->items));
    if (!grown) return fail_memory(err);
    c->items = grown;
    return MICA_OK;
}

/* The longest decomposition (U+FDFA) has 18 characters. */
static mica_status decompose(code_points *c, const char *text, size_t n, utf8proc_option_t options,
                             mica_error *err) {
    for (size_t i = 0, width; i < n; i += width) {
        mica_status st = reserve(c, 32, err);
        if (st) return st;
        utf8proc_int32_t ch = (utf8proc_int32_t)utf8_read(text + i, &width);
        int boundclass = 0;
        utf8proc_ssize_t n_new =
            utf8proc_decompose_char(ch, c->items + c->n, 32, options, &boundclass);
        if (n_new < 0 || n_new > 32) {
            return mica_fail(err, MICA_E_INTERNAL, "U+%04X has no decomposition", (unsigned)ch);
        }
        c->n += (size_t)n_new;
    }
    return MICA_OK;
}

static unsigned combining_class(utf8proc_int32_t c) {
    if (c < 0x300) return 0;
    return (unsigned)utf8proc_get_property(c)->combining_class & 0xFF;
}

/* Sorts a run of marks by class, keeping the order within a class. */
static mica_status sort_run(utf8proc_int32_t *run, size_t n, code_points *copy, mica_error *err) {
    size_t place[257] = {0};
    copy->n = 0;
    mica_status st = reserve(copy, n, err);
    if (st) return st;
    for (size_t i = 0; i < n; i++) {
        copy->items[i] = run[i];
        place[combining_class(run[i]) + 1]++;
    }
    for (size_t k = 1; k < 257; k++) {
        place[k] += place[k - 1];
    }
    for (size_t i = 0; i < n; i++) {
        run[place[combining_class(copy->items[i])]++] = copy->items[i];
    }
    return MICA_OK;
}

static mica_status order(code_points *c, mica_error *err) {
    code_points copy = {0};
    mica_status st = MICA_OK;
    for (size_t i = 0; i < c->n && !st;) {
        size_t begin = i;
        bool is_sorted = true;
        for (unsigned k, last = 0; i < c->n && (k = combining_class(c->items[i])) != 0; i++) {
            is_sorted = is_sorted && k >= last;
            last = k;
        }
        if (!is_sorted) st = sort_run(c->items + begin, i - begin, &copy, err);
        if (i == begin) i++;
    }
    mica_free(copy.items);
    return st;
}

/* Composes what is decomposed and ordered, in pieces around U+11A7: it is the place before the
 * first trailing consonant of a Hangul syllable and stands for none, but utf8proc 2.8 joins it to
 * the syllable before, and so loses it. Nothing composes with it, and no mark moves past it. */
static void compose(code_points *c, utf8proc_option_t options) {
    size_t n_out = 0;
    for (size_t begin = 0, end; begin < c->n; begin = end) {
        for (end = begin + 1; end < c->n && c->items[begin] != 0x11A7 && c->items[end] != 0x11A7;)
            end++;
        utf8proc_ssize_t n =
            utf8proc_normalize_utf32(c->items + begin, (utf8proc_ssize_t)(end - begin), options);
        if (n < 0) n = 0;
        memmove(c->items + n_out, c->items + begin, (size_t)n * sizeof(*c->items));
        n_out += (size_t)n;
    }
    c->n = n_out;
}

/* All forms leave characters below this alone. */
static uint32_t first_affected(normalizer_kind form) {
    if (form == NORMALIZE_NFC) return 0x300;
    return form == NORMALIZE_NFD ? 0xC0 : 0xA0;
}

static bool is_unaffected(normalizer_kind form, const char *text, size_t n) {
    uint32_t limit = first_affected(form);
    for (size_t i = 0, width; i < n; i += width) {
        if (utf8_read(text + i, &width) >= limit) return false;
    }
    return true;
}

mica_status mica_normalize_unicode(normalizer_kind form, const char *text, size_t n,
                                   text_buffer *out, mica_error *err) {
    if (is_unaffected(form, text, n)) return mica_text_buffer_append(out, text, n, err);
    bool is_compat = form == NORMALIZE_NFKC || form == NORMALIZE_NFKD;
    bool is_composed = form == NORMALIZE_NFC || form == NORMALIZE_NFKC;
    int options = UTF8PROC_STABLE | (is_compat ? UTF8PROC_COMPAT : 0);
    code_points c = {0};
    mica_status st = decompose(&c, text, n, (utf8proc_option_t)(options | UTF8PROC_DECOMPOSE), err);
    if (!st) st = order(&c, err);
    if (!st && is_composed) compose(&c, (utf8proc_option_t)(options | UTF8PROC_COMPOSE));
    if (!st) st = mica_text_buffer_reserve(out, 4 * c.n, err);
    for (size_t i = 0; i < c.n && !st; i++) {
        text_put_char(out, (uint32_t)c.items[i]);
    }
    mica_free(c.items);
    return st;
}
