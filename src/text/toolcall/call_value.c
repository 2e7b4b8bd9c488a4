/* call_value.c: values as models write them, turned into JSON on the fly.
 *
 * A transducer from left to right: whatever is put stays, so that arguments can be given out while
 * they are read. White space and everything else that JSON allows is copied as it is. It goes in
 * steps, a token or a piece of a string each, and can stop after any of them, so that a long value
 * is read once, however small the pieces are that it comes in.
 */
#include "text/toolcall/call_scan.h"

#include "base/json.h"
#include "base/utf8.h"

const call_notation mica_call_json = {0};

enum { RAW_QUOTE = 1 }; /* in place of a quote: the notation's own */

/* What comes next. */
enum {
    VALUE_BEGIN,
    VALUE_FIRST, /* an item or the closing bracket */
    VALUE_NEXT,  /* a comma or the closing bracket */
    VALUE_COMMA, /* behind a comma that is not put yet */
    VALUE_KEY,
    VALUE_COLON,
    VALUE_DONE
};

typedef struct reader {
    call_cursor *c;
    const call_notation *notation;
    call_value_state *state;
    call_text *out;
} reader;

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

/* The rest of a string, as far as there is text: what was put stays, also with CALL_MORE. */
static call_verdict read_string_rest(const reader *r) {
    const char own[] = {r->state->quote, '\0'};
    bool is_raw = r->state->quote == RAW_QUOTE;
    const char *quote = is_raw ? r->notation->quote : own;
    while (left(r)) {
        const char *s = r->c->s + r->c->pos;
        size_t n_used;
        call_verdict v = *s == quote[0] ? mica_call_match(r->c, quote) : CALL_NOT;
        if (v == CALL_MORE) return v;
        if (v == CALL_OK) {
            mica_call_put(r->out, "\"", 1);
            r->state->quote = '\0';
            return CALL_OK;
        }
        if (*s == '\\' && is_raw) {
            mica_call_put_cstring(r->out, "\\\\");
            n_used = 1;
        } else if (*s == '\\') {
            n_used = left(r) >= 2 ? put_escape(s, left(r), r->out) : 0;
        } else {
            n_used = put_character(s, left(r), r->out);
        }
        if (n_used == 0) break;
        r->c->pos += n_used;
    }
    return call_more(r->c);
}

static call_verdict begin_string(const reader *r) {
    if (left(r) == 0) return call_more(r->c);
    char c = here(r);
    call_verdict v = CALL_OK;
    if (c == '"' || c == '\'') {
        r->c->pos++;
        r->state->quote = c;
    } else {
        v = r->notation->quote ? mica_call_match(r->c, r->notation->quote) : CALL_NOT;
        if (v == CALL_OK) r->state->quote = RAW_QUOTE;
    }
    if (v == CALL_OK) mica_call_put(r->out, "\"", 1);
    return v;
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

static call_verdict end_value(const reader *r) {
    r->state->phase = r->state->depth ? VALUE_NEXT : VALUE_DONE;
    return CALL_OK;
}

static char closing(const reader *r) { return r->state->closers[r->state->depth - 1]; }

static call_verdict open_container(const reader *r, char closer) {
    call_value_state *s = r->state;
    if (s->depth == CALL_MAX_DEPTH) return CALL_NOT;
    s->closers[s->depth++] = closer;
    s->phase = VALUE_FIRST;
    r->c->pos++;
    mica_call_put(r->out, closer == '}' ? "{" : "[", 1);
    return CALL_OK;
}

static call_verdict close_container(const reader *r) {
    mica_call_put(r->out, closing(r) == '}' ? "}" : "]", 1);
    r->c->pos++;
    r->state->depth--;
    return end_value(r);
}

static call_verdict begin_item(const reader *r) {
    r->state->phase = closing(r) == '}' ? VALUE_KEY : VALUE_BEGIN;
    return CALL_OK;
}

/* ---- steps ---- */
static call_verdict step_begin(const reader *r) {
    copy_space(r, r->out);
    if (left(r) == 0) return call_more(r->c);
    char c = here(r);
    call_verdict v;
    if (c == '{') return open_container(r, '}');
    if (c == '[') return open_container(r, ']');
    if (c == '(' && r->notation->tuples) return open_container(r, ')');
    if (c == '-' || call_is_digit(c)) {
        v = read_number(r);
    } else if ((c | 32) >= 'a' && (c | 32) <= 'z') {
        v = read_literal(r);
    } else {
        v = begin_string(r);
    }
    return v == CALL_OK ? end_value(r) : v;
}

static call_verdict step_key(const reader *r) {
    copy_space(r, r->out);
    call_verdict v = begin_string(r);
    if (v == CALL_NOT && r->notation->bare_keys) v = read_bare_key(r);
    r->state->phase = VALUE_COLON;
    return v;
}

static call_verdict step_colon(const reader *r) {
    copy_space(r, r->out);
    if (left(r) == 0) return call_more(r->c);
    if (here(r) != ':') return CALL_NOT;
    r->c->pos++;
    mica_call_put(r->out, ":", 1);
    r->state->phase = VALUE_BEGIN;
    return CALL_OK;
}

/* Before the first item, or behind one. */
static call_verdict step_between(const reader *r, bool is_first) {
    copy_space(r, r->out);
    if (left(r) == 0) return call_more(r->c);
    if (here(r) == closing(r)) return close_container(r);
    if (is_first) return begin_item(r);
    if (here(r) != ',') return CALL_NOT;
    r->c->pos++;
    r->state->phase = VALUE_COMMA;
    return CALL_OK;
}

/* A comma is put when the next item is certain; before a closing bracket it is dropped. */
static call_verdict step_comma(const reader *r) {
    size_t begin = r->c->pos;
    mica_call_skip_space(r->c);
    if (left(r) == 0) return call_more(r->c);
    if (here(r) == closing(r)) return close_container(r);
    mica_call_put(r->out, ",", 1);
    r->c->pos = begin;
    return begin_item(r);
}

static call_verdict step(const reader *r) {
    if (r->state->quote) return read_string_rest(r);
    switch (r->state->phase) {
    case VALUE_BEGIN:
        return step_begin(r);
    case VALUE_KEY:
        return step_key(r);
    case VALUE_COLON:
        return step_colon(r);
    case VALUE_COMMA:
        return step_comma(r);
    default:
        return step_between(r, r->state->phase == VALUE_FIRST);
    }
}

call_verdict mica_call_value_go_on(call_cursor *c, const call_notation *notation,
                                   call_value_state *state, call_text *out) {
    reader r = {c, notation, state, out};
    while (state->phase != VALUE_DONE || state->quote) {
        call_value_state before = *state;
        size_t pos = c->pos, n_out = out ? out->n : 0;
        call_verdict v = step(&r);
        if (v == CALL_MORE && !before.quote) { /* the step is done again with more text */
            *state = before;
            c->pos = pos;
            if (out) out->n = n_out;
        }
        if (v != CALL_OK) return v;
    }
    return CALL_OK;
}

call_verdict mica_call_value(call_cursor *c, const call_notation *notation, call_text *out) {
    call_value_state state = {0};
    mica_call_skip_space(c);
    return mica_call_value_go_on(c, notation, &state, out);
}

call_verdict mica_call_string(call_cursor *c, const call_notation *notation, call_text *out) {
    call_value_state state = {0};
    reader r = {c, notation, &state, out};
    call_verdict v = begin_string(&r);
    return v == CALL_OK ? read_string_rest(&r) : v;
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
