/* call_scan.h: reading markup that may not be complete yet.
 *
 * Every reader gives one of three verdicts, and a verdict other than CALL_MORE must hold for every
 * text that continues what was seen: this is what makes the result of a parse independent of how
 * the text was cut into pieces. At the end of the answer CALL_MORE becomes CALL_NOT.
 */
#ifndef MICA_TEXT_CALL_SCAN_H
#define MICA_TEXT_CALL_SCAN_H

#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"

typedef enum call_verdict { CALL_NOT, CALL_OK, CALL_MORE } call_verdict;

typedef struct call_cursor {
    const char *s;
    size_t n;
    size_t pos;
    bool is_end; /* nothing follows s[n - 1] */
} call_cursor;

/* Growing text whose failures stick: `failed` is looked at once, at the end. */
typedef struct call_text {
    char *data;
    size_t n;
    size_t capacity;
    bool failed;
} call_text;

void mica_call_text_deinit(call_text *t);
/* NULL as `t` is fine: the text is dropped. */
void mica_call_put(call_text *t, const char *s, size_t n);
void mica_call_put_cstring(call_text *t, const char *s);
/* As a JSON string with its quotes; invalid UTF-8 becomes U+FFFD. */
void mica_call_put_json_string(call_text *t, const char *s, size_t n);

static inline bool call_is_space(char c) {
    return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}
static inline bool call_is_digit(char c) { return c >= '0' && c <= '9'; }
static inline bool call_is_name_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || call_is_digit(c) || c == '_' ||
           c == '-' || c == '.' || c == ':';
}
static inline call_verdict call_more(const call_cursor *c) {
    return c->is_end ? CALL_NOT : CALL_MORE;
}
static inline bool call_text_is(const char *s, size_t n, const char *text) {
    return strlen(text) == n && memcmp(s, text, n) == 0;
}

/* Whether s[0..n) begins with `marker`, where a '*' stands for a suffix of a tag: up to 32 bytes
 * that are no white space, no angle bracket and no '*' and do not begin with a letter of the tag's
 * name. CALL_MORE: it is a proper prefix of such a text. */
call_verdict mica_call_marker(const char *s, size_t n, const char *marker, size_t *n_used);
/* The same at the cursor, which moves past the marker. */
call_verdict mica_call_match(call_cursor *c, const char *marker);
/* The next place of `marker` from the cursor on; the cursor moves past it. */
call_verdict mica_call_find(call_cursor *c, const char *marker, size_t *begin);
void mica_call_skip_space(call_cursor *c);
/* White space, then the marker. */
call_verdict mica_call_match_next(call_cursor *c, const char *marker);
/* Appends the name of a tool at the cursor: 1 to 256 name characters, and other letters. */
call_verdict mica_call_read_name(call_cursor *c, call_text *out);
/* s[0..n) without white space at both ends. */
void mica_call_trim(const char **s, size_t *n);

/* ---- values ---- */
/* JSON as models write it. Beyond JSON: control characters in strings, unknown escapes, 'strings',
 * True, False, None, a comma before the closing bracket. */
typedef struct call_notation {
    const char *quote; /* one more pair of quotes around raw text, both the same; NULL: none */
    bool bare_keys;    /* keys need no quotes */
    bool tuples;       /* (a, b) is an array */
} call_notation;
extern const call_notation mica_call_json; /* nothing of these */

/* Where the reading of a value stands; zeros: at its first byte. */
enum { CALL_MAX_DEPTH = 64 };
typedef struct call_value_state {
    unsigned char phase, depth;
    char quote; /* of the string that the cursor is in, or 0 */
    char closers[CALL_MAX_DEPTH];
} call_value_state;

/* Reads on. With CALL_MORE the cursor and `out` stand where a later call may go on with the same
 * state, and what was put is a prefix of the final text. */
call_verdict mica_call_value_go_on(call_cursor *c, const call_notation *notation,
                                   call_value_state *state, call_text *out);
/* Appends the value at the cursor as JSON. What is JSON already is copied byte for byte. */
call_verdict mica_call_value(call_cursor *c, const call_notation *notation, call_text *out);
/* A key or other string at the cursor, as a JSON string. */
call_verdict mica_call_string(call_cursor *c, const call_notation *notation, call_text *out);
/* Appends the text that a JSON string (with quotes, well-formed) stands for. */
void mica_call_decode_string(const char *json, size_t n, call_text *out);
/* A number of JSON's grammar. */
bool mica_call_is_number(const char *s, size_t n, bool *is_integer);

#endif
