/* stop_strings.c: one Knuth-Morris-Pratt automaton a string; there are few, and text comes slowly.
 */
#include "text/stop_strings.h"

#include <string.h>

#include "base/checked.h"

static void make_fallback(stop_string *s) {
    size_t k = 0;
    s->fallback[0] = 0;
    for (size_t i = 1; i < s->n; i++) {
        while (k && s->bytes[i] != s->bytes[k]) {
            k = s->fallback[k - 1];
        }
        k += s->bytes[i] == s->bytes[k];
        s->fallback[i] = k;
    }
}

static mica_status add_string(stop_matcher *m, const char *bytes, size_t n, mica_error *err) {
    size_t n_bytes;
    if (!n) {
        return mica_fail(err, MICA_E_INVALID, "stop string %zu is empty; leave it out",
                         m->n_strings);
    }
    stop_string *s = &m->strings[m->n_strings++];
    if (mica_mul_size(n, sizeof(*s->fallback), &n_bytes)) s->fallback = mica_malloc(n_bytes);
    s->bytes = mica_strndup(bytes, n);
    s->n = n;
    if (!s->bytes || !s->fallback) {
        return mica_fail(err, MICA_E_NOMEM, "out of memory for stop strings");
    }
    make_fallback(s);
    return MICA_OK;
}

mica_status mica_stop_matcher_init(stop_matcher *m, const char *const *strings,
                                   const size_t *lengths, size_t n_strings, mica_error *err) {
    mica_status st = MICA_OK;
    *m = (stop_matcher){0};
    m->strings = mica_calloc(n_strings, sizeof(*m->strings));
    if (!m->strings) return mica_fail(err, MICA_E_NOMEM, "out of memory for stop strings");
    for (size_t i = 0; i < n_strings && !st; i++) {
        st = add_string(m, strings[i], lengths[i], err);
    }
    if (st) mica_stop_matcher_deinit(m);
    return st;
}

void mica_stop_matcher_deinit(stop_matcher *m) {
    for (size_t i = 0; i < m->n_strings; i++) {
        mica_free((char *)m->strings[i].bytes);
        mica_free(m->strings[i].fallback);
    }
    mica_free(m->strings);
    mica_free(m->text);
    *m = (stop_matcher){0};
}

/* One byte more; whether the string is complete. */
static bool advance(stop_string *s, char byte) {
    while (s->n_matched && s->bytes[s->n_matched] != byte) {
        s->n_matched = s->fallback[s->n_matched - 1];
    }
    s->n_matched += s->bytes[s->n_matched] == byte;
    return s->n_matched == s->n;
}

/* Bytes of the longest string that the byte completes; 0: none. */
static size_t advance_all(stop_matcher *m, char byte) {
    size_t longest = 0;
    for (size_t i = 0; i < m->n_strings; i++) {
        if (!advance(&m->strings[i], byte) || m->strings[i].n <= longest) continue;
        longest = m->strings[i].n;
        m->which = i;
    }
    return longest;
}

static size_t count_held(const stop_matcher *m) {
    size_t n = 0;
    for (size_t i = 0; i < m->n_strings; i++) {
        if (m->strings[i].n_matched > n) n = m->strings[i].n_matched;
    }
    return n;
}

static mica_status reserve(stop_matcher *m, size_t n_more, mica_error *err) {
    size_t n_needed = 0, wanted = m->capacity < 64 ? 64 : m->capacity;
    bool is_fine = mica_add_size(m->n_text + m->n_held, n_more, &n_needed);
    while (is_fine && wanted < n_needed) {
        is_fine = mica_mul_size(wanted, 2, &wanted);
    }
    char *grown = is_fine && (wanted > m->capacity) ? mica_realloc(m->text, wanted) : NULL;
    if (is_fine && wanted == m->capacity) return MICA_OK;
    if (!grown) return mica_fail(err, MICA_E_NOMEM, "out of memory for %zu bytes of text", n_more);
    m->text = grown;
    m->capacity = wanted;
    return MICA_OK;
}

mica_status mica_stop_matcher_push(stop_matcher *m, const char *bytes, size_t n, mica_error *err) {
    mica_status st = reserve(m, n, err);
    if (st) return st;
    memmove(m->text, m->text + m->n_text, m->n_held);
    m->n_text = 0;
    if (m->is_stopped) return MICA_OK;
    size_t n_all = m->n_held;
    for (size_t i = 0; i < n; i++) {
        m->text[n_all++] = bytes[i];
        size_t n_stop = advance_all(m, bytes[i]);
        if (!n_stop) continue;
        m->is_stopped = true;
        m->n_text = n_all - n_stop;
        m->n_held = 0;
        return MICA_OK;
    }
    m->n_held = count_held(m);
    m->n_text = n_all - m->n_held;
    return MICA_OK;
}

void mica_stop_matcher_finish(stop_matcher *m) {
    if (m->n_held) memmove(m->text, m->text + m->n_text, m->n_held);
    m->n_text = m->n_held;
    m->n_held = 0;
}
