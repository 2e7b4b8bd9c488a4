/* call_scan.c: markers, names and white space at a cursor, and growing text. */
#include "text/toolcall/call_scan.h"

#include "base/json.h"
#include "text/tokenizer/text_buffer.h"

enum { MAX_NAME_BYTES = 256, MAX_WILD_BYTES = 32 };

void mica_call_text_deinit(call_text *t) {
    mica_free(t->data);
    *t = (call_text){0};
}

void mica_call_put(call_text *t, const char *s, size_t n) {
    if (!t || t->failed || n == 0) return;
    char *grown = mica_text_grow(t->data, &t->capacity, t->n + n, 1);
    if (!grown) {
        t->failed = true;
        return;
    }
    t->data = grown;
    memcpy(t->data + t->n, s, n);
    t->n += n;
}

void mica_call_put_cstring(call_text *t, const char *s) { mica_call_put(t, s, strlen(s)); }

void mica_call_put_json_string(call_text *t, const char *s, size_t n) {
    json_writer w;
    if (!t) return;
    mica_json_writer_init(&w, false);
    mica_json_put_string(&w, s, n);
    if (w.failed) t->failed = true;
    mica_call_put(t, w.data, w.n);
    mica_json_writer_deinit(&w);
}

static bool is_wild(char c, bool is_first) {
    if (is_first && (call_is_digit(c) || c == '_' || (c | 32) >= 'a')) {
        if ((unsigned char)c < 0x80) return false;
    }
    return !call_is_space(c) && c != '<' && c != '>' && c != '*';
}

call_verdict mica_call_marker(const char *s, size_t n, const char *marker, size_t *n_used) {
    size_t i = 0;
    for (const char *m = marker; *m; m++) {
        if (*m == '*') {
            size_t first = i, stop = n - i > MAX_WILD_BYTES ? i + MAX_WILD_BYTES : n;
            while (i < stop && is_wild(s[i], i == first)) {
                i++;
            }
        } else {
            if (i == n) return CALL_MORE;
            if (s[i++] != *m) return CALL_NOT;
        }
    }
    *n_used = i;
    return CALL_OK;
}

call_verdict mica_call_match(call_cursor *c, const char *marker) {
    size_t n_used = 0;
    call_verdict v = mica_call_marker(c->s + c->pos, c->n - c->pos, marker, &n_used);
    if (v == CALL_MORE) return call_more(c);
    c->pos += n_used;
    return v;
}

call_verdict mica_call_find(call_cursor *c, const char *marker, size_t *begin) {
    while (c->pos < c->n) {
        const char *hit = memchr(c->s + c->pos, marker[0], c->n - c->pos);
        if (!hit) break;
        size_t at = (size_t)(hit - c->s);
        c->pos = at;
        call_verdict v = mica_call_match(c, marker);
        if (v == CALL_OK) *begin = at;
        if (v != CALL_NOT) return v;
        c->pos = at + 1;
    }
    c->pos = c->n;
    return call_more(c);
}

void mica_call_skip_space(call_cursor *c) {
    while (c->pos < c->n && call_is_space(c->s[c->pos])) {
        c->pos++;
    }
}

call_verdict mica_call_match_next(call_cursor *c, const char *marker) {
    mica_call_skip_space(c);
    return mica_call_match(c, marker);
}

call_verdict mica_call_read_name(call_cursor *c, call_text *out) {
    size_t i = c->pos;
    while (i < c->n && (call_is_name_char(c->s[i]) || (unsigned char)c->s[i] >= 0x80)) {
        if (i - c->pos == MAX_NAME_BYTES) return CALL_NOT;
        i++;
    }
    if (i == c->n && !c->is_end) return CALL_MORE;
    if (i == c->pos) return CALL_NOT;
    mica_call_put(out, c->s + c->pos, i - c->pos);
    c->pos = i;
    return CALL_OK;
}

void mica_call_trim(const char **s, size_t *n) {
    while (*n && call_is_space((*s)[0])) {
        (*s)++;
        (*n)--;
    }
    while (*n && call_is_space((*s)[*n - 1])) {
        (*n)--;
    }
}
