/* json_writer.c: writes JSON into a buffer that grows.
 *
 * Separators come by themselves: a value knows from `first` whether a comma goes before it and from
 * `after_key` that it does not. Out of memory is remembered and everything after it is dropped, so
 * that callers check once, at the end.
 */
#include "base/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/decimal.h"
#include "base/utf8.h"

void mica_json_writer_init(json_writer *w, bool pretty) {
    memset(w, 0, sizeof(*w));
    w->pretty = pretty;
}

void mica_json_writer_deinit(json_writer *w) {
    mica_free(w->data);
    w->data = NULL;
    w->n = w->capacity = 0;
}

static bool reserve(json_writer *w, size_t n_more) {
    size_t need = SIZE_MAX; /* stays if the sum overflows */
    if (w->failed) return false;
    if (mica_add_size(w->n, n_more, &need) && need < w->capacity) return true;
    size_t capacity = w->capacity ? w->capacity : 256;
    while (capacity <= need && capacity <= SIZE_MAX / 2) {
        capacity *= 2;
    }
    char *grown = capacity > need ? mica_realloc(w->data, capacity) : NULL;
    if (!grown) {
        w->failed = true;
        return false;
    }
    w->data = grown;
    w->capacity = capacity;
    return true;
}

static void put(json_writer *w, const char *s, size_t n) {
    if (!reserve(w, n)) return;
    if (n) memcpy(w->data + w->n, s, n);
    w->n += n;
    w->data[w->n] = '\0';
}

static void put_text(json_writer *w, const char *s) { put(w, s, strlen(s)); }

static void new_line(json_writer *w) {
    if (!w->pretty) return;
    put(w, "\n", 1);
    for (int i = 0; i < w->depth; i++) {
        put(w, "  ", 2);
    }
}

/* What goes before a key or an item. */
static void separate(json_writer *w) {
    if (w->after_key) {
        w->after_key = false;
        return;
    }
    if (w->depth == 0) return;
    if (!w->first[w->depth - 1]) put(w, ",", 1);
    w->first[w->depth - 1] = false;
    new_line(w);
}

static void begin(json_writer *w, const char *bracket) {
    separate(w);
    put_text(w, bracket);
    if (w->depth == MICA_JSON_MAX_DEPTH) {
        w->failed = true;
        return;
    }
    w->first[w->depth++] = true;
}

static void end(json_writer *w, const char *bracket) {
    if (w->depth == 0) return;
    bool is_empty = w->first[--w->depth];
    if (!is_empty) new_line(w);
    put_text(w, bracket);
}

void mica_json_begin_object(json_writer *w) { begin(w, "{"); }
void mica_json_end_object(json_writer *w) { end(w, "}"); }
void mica_json_begin_array(json_writer *w) { begin(w, "["); }
void mica_json_end_array(json_writer *w) { end(w, "]"); }

static void put_escape(json_writer *w, unsigned char c) {
    static const char names[32] = {
        ['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't'};
    char text[8] = {'\\', (char)c};
    if (c < 0x20 && names[c]) {
        text[1] = names[c];
    } else if (c < 0x20) {
        snprintf(text, sizeof(text), "\\u%04x", c);
    }
    put_text(w, text);
}

static void put_quoted(json_writer *w, const char *s, size_t n) {
    put(w, "\"", 1);
    size_t run = 0, i = 0;
    while (i < n) {
        unsigned char c = (unsigned char)s[i];
        bool is_valid;
        size_t n_step = mica_utf8_step(s + i, n - i, &is_valid);
        if (is_valid && c >= 0x20 && c != '"' && c != '\\') {
            i += n_step;
            continue;
        }
        put(w, s + run, i - run);
        if (is_valid) {
            put_escape(w, c);
        } else {
            put_text(w, "\xEF\xBF\xBD");
        }
        run = i += n_step;
    }
    put(w, s + run, n - run);
    put(w, "\"", 1);
}

void mica_json_key(json_writer *w, const char *key) {
    separate(w);
    put_quoted(w, key, strlen(key));
    put_text(w, w->pretty ? ": " : ":");
    w->after_key = true;
}

void mica_json_put_string(json_writer *w, const char *s, size_t n) {
    separate(w);
    put_quoted(w, s, n);
}

void mica_json_put_cstring(json_writer *w, const char *s) {
    if (s) {
        mica_json_put_string(w, s, strlen(s));
    } else {
        mica_json_put_null(w);
    }
}

static void put_atom(json_writer *w, const char *text) {
    separate(w);
    put_text(w, text);
}

void mica_json_put_i64(json_writer *w, int64_t v) {
    char text[24];
    snprintf(text, sizeof(text), "%" PRId64, v);
    put_atom(w, text);
}

void mica_json_put_u64(json_writer *w, uint64_t v) {
    char text[24];
    snprintf(text, sizeof(text), "%" PRIu64, v);
    put_atom(w, text);
}

void mica_json_put_double(json_writer *w, double v) {
    char text[MICA_DECIMAL_BYTES] = "null";
    if (isfinite(v)) mica_decimal_format(text, v);
    put_atom(w, text);
}

void mica_json_put_float(json_writer *w, float v) {
    char text[MICA_DECIMAL_BYTES] = "null";
    if (isfinite(v)) mica_decimal_format_float(text, v);
    put_atom(w, text);
}

void mica_json_put_literal(json_writer *w, const char *number) { put_atom(w, number); }

void mica_json_put_bool(json_writer *w, bool v) { put_atom(w, v ? "true" : "false"); }

void mica_json_put_null(json_writer *w) { put_atom(w, "null"); }

void mica_json_member_cstring(json_writer *w, const char *key, const char *s) {
    mica_json_key(w, key);
    mica_json_put_cstring(w, s);
}

void mica_json_member_i64(json_writer *w, const char *key, int64_t v) {
    mica_json_key(w, key);
    mica_json_put_i64(w, v);
}

void mica_json_member_u64(json_writer *w, const char *key, uint64_t v) {
    mica_json_key(w, key);
    mica_json_put_u64(w, v);
}

void mica_json_member_double(json_writer *w, const char *key, double v) {
    mica_json_key(w, key);
    mica_json_put_double(w, v);
}

void mica_json_member_bool(json_writer *w, const char *key, bool v) {
    mica_json_key(w, key);
    mica_json_put_bool(w, v);
}
