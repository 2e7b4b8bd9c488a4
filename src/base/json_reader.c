/* json_reader.c: the pull reader, strict RFC 8259.
 *
 * A small state machine over the bytes, with one bit of memory a level. A string without escapes is
 * handed out where it lies; one with escapes is decoded into `scratch`, the only allocation, which
 * never grows beyond twice the string as written. After an error the reader stays where it was, so
 * that asking again gives the same error.
 */
#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/decimal.h"
#include "base/utf8.h"

enum reader_state {
    WANT_VALUE,
    WANT_VALUE_OR_END, /* after [ */
    WANT_KEY_OR_END,   /* after { */
    AFTER_VALUE,       /* inside a container */
    DONE
};

void mica_json_reader_init(json_reader *r, const char *data, size_t n_bytes, const char *name) {
    memset(r, 0, sizeof(*r));
    r->data = data;
    r->n_bytes = n_bytes;
    r->name = name;
    r->state = WANT_VALUE;
}

void mica_json_reader_deinit(json_reader *r) {
    mica_free(r->scratch);
    r->scratch = NULL;
    r->scratch_bytes = 0;
}

/* ---- errors ---- */

static mica_status fail_found(const json_reader *r, const char *expected, mica_error *err) {
    char found[32];
    if (r->pos >= r->n_bytes) {
        snprintf(found, sizeof(found), "the end of the text");
    } else {
        unsigned char c = (unsigned char)r->data[r->pos];
        bool is_printable = c >= 0x20 && c < 0x7F;
        snprintf(found, sizeof(found), is_printable ? "'%c'" : "byte 0x%02X", c);
    }
    return mica_fail_at(err, MICA_E_FORMAT, r->pos, "%s: JSON: expected %s, found %s", r->name,
                        expected, found);
}

static mica_status fail_string(const json_reader *r, size_t pos, const char *what,
                               mica_error *err) {
    return mica_fail_at(err, MICA_E_FORMAT, pos, "%s: JSON: %s in a string", r->name, what);
}

/* ---- strings ---- */

/* Whether any of 8 bytes is not printable ASCII or is a quote or a backslash. Subtracting 1 from
 * each byte sets its high bit where it was 0; bytes above a hit may be wrong, but a word without a
 * hit has no borrow. */
static bool has_special(const char *p) {
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint64_t x;
    memcpy(&x, p, 8);
    uint64_t quote = (x ^ ones * '"') - ones;
    uint64_t backslash = (x ^ ones * '\\') - ones;
    uint64_t control = x - ones * 0x20;
    return ((quote | backslash | control | x) & ones * 0x80) != 0;
}

/* Moves *pos over bytes that stand for themselves, to a quote or a backslash. */
static mica_status skip_plain(const json_reader *r, size_t *pos, mica_error *err) {
    size_t i = *pos;
    while (i < r->n_bytes) {
        if (i + 8 <= r->n_bytes && !has_special(r->data + i)) {
            i += 8;
            continue;
        }
        unsigned char c = (unsigned char)r->data[i];
        if (c == '"' || c == '\\') {
            *pos = i;
            return MICA_OK;
        }
        if (c < 0x20) return fail_string(r, i, "a raw control character", err);
        bool is_valid;
        size_t n = mica_utf8_step(r->data + i, r->n_bytes - i, &is_valid);
        if (!is_valid) return fail_string(r, i, "invalid UTF-8", err);
        i += n;
    }
    return fail_string(r, i, "the text ends", err);
}

static mica_status scratch_reserve(json_reader *r, size_t n_bytes, mica_error *err) {
    if (n_bytes <= r->scratch_bytes) return MICA_OK;
    size_t capacity = n_bytes < 128 ? 256 : 2 * n_bytes;
    char *grown = mica_realloc(r->scratch, capacity);
    if (!grown) return mica_fail(err, MICA_E_NOMEM, "%s: out of memory", r->name);
    r->scratch = grown;
    r->scratch_bytes = capacity;
    return MICA_OK;
}

/* Four hexadecimal digits at `pos`; -1 if they are not. */
static int32_t hex4(const json_reader *r, size_t pos) {
    if (pos > r->n_bytes || r->n_bytes - pos < 4) return -1;
    int32_t value = 0;
    for (size_t i = 0; i < 4; i++) {
        char c = r->data[pos + i];
        char lower = (char)(c | 0x20);
        if (c >= '0' && c <= '9') {
            value = value * 16 + (c - '0');
        } else if (lower >= 'a' && lower <= 'f') {
            value = value * 16 + (lower - 'a' + 10);
        } else {
            return -1;
        }
    }
    return value;
}

/* A \u escape at *pos, which is at the backslash; two of them for a surrogate pair. */
static mica_status read_unicode(json_reader *r, size_t *pos, uint32_t *out, mica_error *err) {
    int32_t first = hex4(r, *pos + 2);
    if (first < 0) return fail_string(r, *pos, "a \\u without four hexadecimal digits", err);
    *out = (uint32_t)first;
    *pos += 6;
    if (first < 0xD800 || first > 0xDFFF) return MICA_OK;
    *out = 0xFFFD;
    bool has_next = r->n_bytes - *pos >= 6 && r->data[*pos] == '\\' && r->data[*pos + 1] == 'u';
    int32_t second = has_next ? hex4(r, *pos + 2) : -1;
    if (first < 0xDC00 && second >= 0xDC00 && second <= 0xDFFF) {
        *out = 0x10000 + ((uint32_t)(first - 0xD800) << 10) + (uint32_t)(second - 0xDC00);
        *pos += 6;
    } else {
        r->has_half = true;
    }
    return MICA_OK;
}

static mica_status read_escape(json_reader *r, size_t *pos, uint32_t *out, mica_error *err) {
    static const char names[] = "\"\\/bfnrt";
    static const char meanings[] = "\"\\/\b\f\n\r\t";
    char c = *pos + 1 < r->n_bytes ? r->data[*pos + 1] : '\0';
    if (c == 'u') return read_unicode(r, pos, out, err);
    const char *name = c ? strchr(names, c) : NULL;
    if (!name) return fail_string(r, *pos, "an unknown escape", err);
    *out = (uint32_t)meanings[name - names];
    *pos += 2;
    return MICA_OK;
}

/* From the first escape at `pos` on; what comes before it is at `begin`. */
static mica_status read_escaped(json_reader *r, size_t begin, size_t pos, mica_error *err) {
    mica_status st;
    size_t n = 0, run = begin;
    for (;;) {
        if ((st = scratch_reserve(r, n + (pos - run) + 4, err))) return st;
        memcpy(r->scratch + n, r->data + run, pos - run);
        n += pos - run;
        if (r->data[pos] == '"') break;
        uint32_t c = 0;
        if ((st = read_escape(r, &pos, &c, err))) return st;
        n += mica_utf8_put(r->scratch + n, c);
        run = pos;
        if ((st = skip_plain(r, &pos, err))) return st;
    }
    r->text = r->scratch;
    r->n_text = n;
    r->pos = pos + 1;
    return MICA_OK;
}

/* At the opening quote. */
static mica_status read_string(json_reader *r, mica_error *err) {
    size_t begin = r->pos + 1, pos = begin;
    r->has_half = false;
    mica_status st = skip_plain(r, &pos, err);
    if (st) return st;
    if (r->data[pos] == '\\') return read_escaped(r, begin, pos, err);
    r->text = r->data + begin;
    r->n_text = pos - begin;
    r->pos = pos + 1;
    return MICA_OK;
}

/* ---- numbers and words ---- */

static size_t skip_digits(const json_reader *r, size_t pos) {
    while (pos < r->n_bytes && r->data[pos] >= '0' && r->data[pos] <= '9') {
        pos++;
    }
    return pos;
}

static char byte_at(const json_reader *r, size_t pos) {
    return pos < r->n_bytes ? r->data[pos] : '\0';
}

static mica_status fail_digit(const json_reader *r, size_t pos, mica_error *err) {
    return mica_fail_at(err, MICA_E_FORMAT, pos, "%s: JSON: a number lacks a digit", r->name);
}

static mica_status read_number(json_reader *r, mica_error *err) {
    size_t pos = r->pos, mark;
    if (byte_at(r, pos) == '-') pos++;
    mark = pos;
    pos = byte_at(r, pos) == '0' ? pos + 1 : skip_digits(r, pos);
    if (pos == mark) return fail_digit(r, pos, err);
    if (byte_at(r, pos) == '.') {
        mark = pos + 1;
        pos = skip_digits(r, mark);
        if (pos == mark) return fail_digit(r, pos, err);
    }
    if (byte_at(r, pos) == 'e' || byte_at(r, pos) == 'E') {
        mark = pos + 1;
        if (byte_at(r, mark) == '+' || byte_at(r, mark) == '-') mark++;
        pos = skip_digits(r, mark);
        if (pos == mark) return fail_digit(r, pos, err);
    }
    r->text = r->data + r->pos;
    r->n_text = pos - r->pos;
    r->pos = pos;
    return MICA_OK;
}

/* True and past it if the text goes on with `word`. */
static bool take_word(json_reader *r, const char *word) {
    size_t n = strlen(word);
    if (r->n_bytes - r->pos < n || memcmp(r->data + r->pos, word, n) != 0) return false;
    r->text = r->data + r->pos;
    r->n_text = n;
    r->pos += n;
    return true;
}

/* ---- structure ---- */

static void skip_space(json_reader *r) {
    size_t pos = r->pos;
    while (pos < r->n_bytes) {
        char c = r->data[pos];
        if (c != ' ' && c != '\n' && c != '\r' && c != '\t') break;
        pos++;
    }
    r->pos = pos;
}

static void end_value(json_reader *r) { r->state = r->depth ? AFTER_VALUE : DONE; }

static mica_status begin_container(json_reader *r, bool is_object, mica_error *err) {
    if (r->depth == MICA_JSON_MAX_DEPTH) {
        return mica_fail_at(err, MICA_E_LIMIT, r->pos, "%s: JSON: nested deeper than %d levels",
                            r->name, MICA_JSON_MAX_DEPTH);
    }
    r->stack[r->depth++] = is_object;
    r->state = is_object ? WANT_KEY_OR_END : WANT_VALUE_OR_END;
    r->pos++;
    return MICA_OK;
}

static mica_status end_container(json_reader *r, json_event *event) {
    *event = r->stack[--r->depth] ? JSON_OBJECT_END : JSON_ARRAY_END;
    r->pos++;
    end_value(r);
    return MICA_OK;
}

static mica_status read_key(json_reader *r, const char *expected, json_event *event,
                            mica_error *err) {
    if (byte_at(r, r->pos) != '"') return fail_found(r, expected, err);
    mica_status st = read_string(r, err);
    if (st) return st;
    skip_space(r);
    if (byte_at(r, r->pos) != ':') return fail_found(r, "':'", err);
    r->pos++;
    r->state = WANT_VALUE;
    *event = JSON_KEY;
    return MICA_OK;
}

static bool take_literal(json_reader *r, json_event *event) {
    if (take_word(r, "true")) {
        *event = JSON_TRUE;
    } else if (take_word(r, "false")) {
        *event = JSON_FALSE;
    } else if (take_word(r, "null")) {
        *event = JSON_NULL;
    } else if (r->allow_nonfinite &&
               (take_word(r, "NaN") || take_word(r, "Infinity") || take_word(r, "-Infinity"))) {
        *event = JSON_NUMBER;
    } else {
        return false;
    }
    return true;
}

static mica_status read_value(json_reader *r, const char *expected, json_event *event,
                              mica_error *err) {
    mica_status st = MICA_OK;
    char c = byte_at(r, r->pos);
    if (c == '{' || c == '[') {
        *event = c == '{' ? JSON_OBJECT_BEGIN : JSON_ARRAY_BEGIN;
        return begin_container(r, c == '{', err);
    }
    if (c == '"') {
        *event = JSON_STRING;
        st = read_string(r, err);
    } else if (!take_literal(r, event)) {
        if (c != '-' && (c < '0' || c > '9')) return fail_found(r, expected, err);
        *event = JSON_NUMBER;
        st = read_number(r, err);
    }
    if (!st) end_value(r);
    return st;
}

static mica_status read_after_value(json_reader *r, json_event *event, mica_error *err) {
    bool in_object = r->stack[r->depth - 1];
    char c = byte_at(r, r->pos);
    if (c == (in_object ? '}' : ']')) return end_container(r, event);
    if (c != ',') return fail_found(r, in_object ? "',' or '}'" : "',' or ']'", err);
    r->pos++;
    skip_space(r);
    r->start = r->pos;
    return in_object ? read_key(r, "a key in quotes", event, err)
                     : read_value(r, "a value", event, err);
}

static mica_status read_event(json_reader *r, json_event *event, mica_error *err) {
    switch ((enum reader_state)r->state) {
    case WANT_VALUE:
        return read_value(r, "a value", event, err);
    case WANT_VALUE_OR_END:
        if (byte_at(r, r->pos) == ']') return end_container(r, event);
        return read_value(r, "a value or ']'", event, err);
    case WANT_KEY_OR_END:
        if (byte_at(r, r->pos) == '}') return end_container(r, event);
        return read_key(r, "a key in quotes or '}'", event, err);
    case AFTER_VALUE:
        return read_after_value(r, event, err);
    case DONE:
        break;
    }
    if (r->pos < r->n_bytes) return fail_found(r, "the end of the text", err);
    *event = JSON_END;
    return MICA_OK;
}

mica_status mica_json_next(json_reader *r, json_event *event, mica_error *err) {
    skip_space(r);
    size_t begin = r->start = r->pos;
    mica_status st = read_event(r, event, err);
    if (st) r->pos = begin;
    return st;
}

mica_status mica_json_skip(json_reader *r, mica_error *err) {
    int depth = r->depth;
    do {
        json_event event;
        mica_status st = mica_json_next(r, &event, err);
        if (st) return st;
    } while (r->depth > depth);
    return MICA_OK;
}

/* ---- numbers ---- */

double mica_json_text_double(const json_reader *r) {
    const char *p = r->text;
    bool is_negative = r->n_text && p[0] == '-';
    char first = r->n_text > is_negative ? p[is_negative] : '\0';
    if (first == 'N') return NAN;
    if (first == 'I') return is_negative ? -INFINITY : INFINITY;
    return mica_decimal_parse(p, r->n_text);
}

bool mica_json_text_i64(const json_reader *r, int64_t *out) {
    bool is_negative = r->n_text && r->text[0] == '-';
    int64_t value = 0; /* kept negative: that side reaches one further */
    for (size_t i = is_negative; i < r->n_text; i++) {
        char c = r->text[i];
        if (c < '0' || c > '9') return false;
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_sub_overflow(value, c - '0', &value)) {
            return false;
        }
    }
    if (!is_negative && value == INT64_MIN) return false;
    *out = is_negative ? value : -value;
    return true;
}
