/* call_value.c: values as models write them, turned into JSON on the fly.
 *
 * A transducer from left to right: whatever is put stays, so that arguments can be given out while
 * they are read. White space and everything else that JSON allows is copied as it is.
 */
#include "text/toolcall/call_scan.h"

#include "base/json.h"
#include "base/utf8.h"

enum { MAX_DEPTH = 64 };

const call_notation mica_call_json = {0};

typedef struct reader {
    call_cursor *c;
    const call_notation *notation;
    call_text *out;
} reader;

static call_verdict read_value(const reader *r, int depth);

static size_t left(const reader *r) { return r->c->n - r->c->pos; }
static char here(const reader *r) { return r->c->s[r->c->pos]; }

/* Copies white space to `out`. */
static void copy_space(const reader *r, call_text *out) {
    size_t begin = r->c->pos;
    mica_call_skip_space(r->c);
    for (size_t i = begin; i < r->c->pos; i++) {
        char c = r->c->s[i] == '\f' || r->c->s[i] == '\v' ? ' ' : r->c->s[i];
        mica_call_put(out, &c, 1);
    }
}

/* ---- strings ---- */
static size_t count_hex(const char *s, size_t n) {
    size_t i = 0;
    while (i < n && ((s[i] >= '0' && s[i] <= '9') || ((s[i] | 32) >= 'a' && (s[i] | 32) <= 'f'))) {
        i++;
    }
    return i;
}

/* s[0] is a backslash, n >= 2. The bytes taken; 0: the escape may go on behind s[n - 1]. */
static size_t put_escape(const char *s, size_t n, call_text *out) {
    char e = s[1];
    size_t n_want = e == 'u' ? 4 : e == 'x' ? 2 : 0;
    if (n_want) {
        size_t n_seen = n - 2 < n_want ? n - 2 : n_want, n_hex = count_hex(s + 2, n_seen);
        if (n_hex == n_want) {
            mica_call_put_cstring(out, e == 'u' ? "\\u" : "\\u00");
            mica_call_put(out, s + 2, n_want);
            return 2 + n_want;
        }
        if (n_hex == n_seen && n_seen < n_want) return 0;
    } else if (strchr("\"\\/bfnrt", e) && e) {
        mica_call_put(out, s, 2);
        return 2;
    } else if (e == '\'') {
        mica_call_put(out, "'", 1);
        return 2;
    }
    mica_call_put_cstring(out, "\\\\"); /* no escape at all: the backslash is meant */
    return 1;
}

static void put_control(char c, call_text *out) {
    static const char hex[] = "0123456789abcdef";
    static const char letters[] = "btn\0fr"; /* 8 to 13 */
    if (c >= 8 && c <= 13 && letters[c - 8]) {
        char text[2] = {'\\', letters[c - 8]};
        mica_call_put(out, text, 2);
        return;
    }
    char text[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
    mica_call_put(out, text, 6);
}

/* One character of a string that has no meaning of its own; the bytes taken, 0: it may go on. */
static size_t put_character(const char *s, size_t n, call_text *out) {
    bool valid;
    if ((unsigned char)s[0] < 0x80) {
        if ((unsigned char)s[0] < 0x20) {
            put_control(s[0], out);
        } else {
            if (s[0] == '"') mica_call_put(out, "\\", 1);
            mica_call_put(out, s, 1);
        }
        return 1;
    }
    size_t n_used = mica_utf8_step(s, n, &valid);
    if (!valid && n_used == n) return 0;
    if (valid) {
        mica_call_put(out, s, n_used);
    } else {
        mica_call_put_cstring(out, "\xEF\xBF\xBD");
    }
    return n_used;
}

static call_verdict read_quoted(const reader *r, char quote) {
    mica_call_put(r->out, "\"", 1);
    r->c->pos++;
    while (r->c->pos < r->c->n) {
        const char *s = r->c->s + r->c->pos;
        size_t n_used;
        if (*s == quote) {
            mica_call_put(r->out, "\"", 1);
            r->c->pos++;
            return CALL_OK;
        }
        if (*s == '\\') {
            n_used = left(r) >= 2 ? put_escape(s, left(r), r->out) : 0;
        } else {
            n_used = put_character(s, left(r), r->out);
        }
        if (n_used == 0) break;
        r->c->pos += n_used;
    }
    return call_more(r->c);
}

/* Raw text between two of the notation's own quotes; the cursor is past the first. */
static call_verdict read_raw_string(const reader *r) {
    const char *quote = r->notation->quote;
    mica_call_put(r->out, "\"", 1);
    while (r->c->pos < r->c->n) {
        call_verdict v = here(r) == quote[0] ? mica_call_match(r->c, quote) : CALL_NOT;
        if (v == CALL_MORE) return v;
        if (v == CALL_OK) {
            mica_call_put(r->out, "\"", 1);
            return CALL_OK;
        }
        size_t n_used = 1;
        if (here(r) == '\\') {
            mica_call_put_cstring(r->out, "\\\\");
        } else {
            n_used = put_character(r->c->s + r->c->pos, left(r), r->out);
        }
        if (n_used == 0) break;
        r->c->pos += n_used;
    }
    return call_more(r->c);
}

static call_verdict read_string(const reader *r) {
    if (left(r) == 0) return call_more(r->c);
    if (here(r) == '"' || here(r) == '\'') return read_quoted(r, here(r));
    if (!r->notation->quote) return CALL_NOT;
    call_verdict v = mica_call_match(r->c, r->notation->quote);
    return v == CALL_OK ? read_raw_string(r) : v;
}

/* ---- scalars ---- */
static size_t count_digits(const char *s, size_t n) {
    size_t i = 0;
    while (i < n && call_is_digit(s[i])) {
        i++;
    }
    return i;
}

bool mica_call_is_number(const char *s, size_t n, bool *is_integer) {
    size_t i = n && s[0] == '-', n_digits = count_digits(s + i, n - i);
    *is_integer = false;
    if (n_digits == 0 || (n_digits > 1 && s[i] == '0')) return false;
    i += n_digits;
    *is_integer = i == n;
    if (i < n && s[i] == '.') {
        n_digits = count_digits(s + i + 1, n - i - 1);
        if (n_digits == 0) return false;
        i += 1 + n_digits;
    }
    if (i < n && (s[i] | 32) == 'e') {
        i++;
        if (i < n && (s[i] == '+' || s[i] == '-')) i++;
        n_digits = count_digits(s + i, n - i);
        if (n_digits == 0) return false;
        i += n_digits;
    }
    return i == n;
}

static call_verdict read_number(const reader *r) {
    const char *s = r->c->s + r->c->pos;
    size_t n = 0;
    bool is_integer;
    while (n < left(r) && (call_is_digit(s[n]) || strchr("+-.eE", s[n])) && s[n]) {
        n++;
    }
    if (n == left(r) && !r->c->is_end) return CALL_MORE;
    if (!mica_call_is_number(s, n, &is_integer)) return CALL_NOT;
    mica_call_put(r->out, s, n);
    r->c->pos += n;
    return CALL_OK;
}

static call_verdict read_literal(const reader *r) {
    static const char *const words[][2] = {{"true", "true"}, {"false", "false"}, {"null", "null"},
                                           {"True", "true"}, {"False", "false"}, {"None", "null"}};
    const char *s = r->c->s + r->c->pos;
    size_t n = 0;
    while (n < left(r) && n < 6 && (call_is_name_char(s[n]) && s[n] != ':')) {
        n++;
    }
    if (n == left(r) && !r->c->is_end) return CALL_MORE;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (!call_text_is(s, n, words[i][0])) continue;
        mica_call_put_cstring(r->out, words[i][1]);
        r->c->pos += n;
        return CALL_OK;
    }
    return CALL_NOT;
}

/* ---- containers ---- */
static call_verdict read_bare_key(const reader *r) {
    const char *s = r->c->s + r->c->pos;
    size_t n = 0;
    while (n < left(r) && !strchr(":{}[]()\"',<>=", s[n]) && s[n] != '\n' && s[n]) {
        n++;
    }
    if (n == left(r)) return call_more(r->c);
    r->c->pos += n;
    mica_call_trim(&s, &n);
    if (n == 0) return CALL_NOT;
    mica_call_put_json_string(r->out, s, n);
    return CALL_OK;
}

static call_verdict read_key(const reader *r) {
    call_verdict v = read_string(r);
    if (v == CALL_NOT && r->notation->bare_keys) v = read_bare_key(r);
    if (v != CALL_OK) return v;
    copy_space(r, r->out);
    if (left(r) == 0) return call_more(r->c);
    if (here(r) != ':') return CALL_NOT;
    r->c->pos++;
    mica_call_put(r->out, ":", 1);
    copy_space(r, r->out);
    return CALL_OK;
}

/* Between two items, or before the first. *is_last: the closing bracket was taken. A comma is put
 * when the next item is certain. */
static call_verdict read_separator(const reader *r, char closing, bool is_first, bool *is_last) {
    size_t comma = 0;
    copy_space(r, r->out);
    if (left(r) && here(r) == ',' && !is_first) {
        comma = 1;
        r->c->pos++;
    }
    size_t begin = r->c->pos;
    mica_call_skip_space(r->c);
    if (left(r) == 0) return call_more(r->c);
    *is_last = here(r) == closing;
    if (*is_last) {
        r->c->pos++;
        mica_call_put(r->out, closing == '}' ? "}" : "]", 1);
        return CALL_OK;
    }
    if (!is_first && !comma) return CALL_NOT;
    if (comma) mica_call_put(r->out, ",", 1);
    r->c->pos = begin;
    copy_space(r, r->out);
    return CALL_OK;
}

static call_verdict read_container(const reader *r, char closing, int depth) {
    bool is_last = false;
    if (depth == MAX_DEPTH) return CALL_NOT;
    mica_call_put(r->out, closing == '}' ? "{" : "[", 1);
    r->c->pos++;
    for (bool is_first = true;; is_first = false) {
        call_verdict v = read_separator(r, closing, is_first, &is_last);
        if (v != CALL_OK || is_last) return v;
        if (closing == '}' && (v = read_key(r)) != CALL_OK) return v;
        if ((v = read_value(r, depth + 1)) != CALL_OK) return v;
    }
}

static call_verdict read_value(const reader *r, int depth) {
    if (left(r) == 0) return call_more(r->c);
    char c = here(r);
    if (c == '{') return read_container(r, '}', depth);
    if (c == '[') return read_container(r, ']', depth);
    if (c == '(' && r->notation->tuples) return read_container(r, ')', depth);
    if (c == '-' || call_is_digit(c)) return read_number(r);
    if ((c | 32) >= 'a' && (c | 32) <= 'z') return read_literal(r);
    return read_string(r);
}

call_verdict mica_call_value(call_cursor *c, const call_notation *notation, call_text *out) {
    reader r = {c, notation, out};
    mica_call_skip_space(c);
    return read_value(&r, 0);
}

call_verdict mica_call_string(call_cursor *c, const call_notation *notation, call_text *out) {
    reader r = {c, notation, out};
    return read_string(&r);
}

void mica_call_decode_string(const char *json, size_t n, call_text *out) {
    json_reader r;
    json_event event;
    mica_json_reader_init(&r, json, n, "string");
    mica_status st = mica_json_next(&r, &event, NULL);
    if (!st && event == JSON_STRING) mica_call_put(out, r.text, r.n_text);
    if (st == MICA_E_NOMEM) out->failed = true;
    mica_json_reader_deinit(&r);
}
