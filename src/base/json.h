/* json.h: JSON as three layers: a strict pull reader with limits, a small ordered value tree on it,
 * and a writer. The reader never recurses and allocates only to decode a string with escapes; the
 * tree lives in an arena. `Infinity`, `-Infinity` and `NaN` are accepted as numbers where the
 * caller says so.
 */
#ifndef MICA_BASE_JSON_H
#define MICA_BASE_JSON_H

#include <stdbool.h>

#include "base/alloc.h"

#define MICA_JSON_MAX_DEPTH 128

/* ---- pull reader ---- */
typedef enum json_event {
    JSON_OBJECT_BEGIN,
    JSON_OBJECT_END,
    JSON_ARRAY_BEGIN,
    JSON_ARRAY_END,
    JSON_KEY,    /* text, n_text */
    JSON_STRING, /* text, n_text */
    JSON_NUMBER, /* text, n_text: the literal as written */
    JSON_TRUE,
    JSON_FALSE,
    JSON_NULL,
    JSON_END
} json_event;

typedef struct json_reader {
    const char *data;
    size_t n_bytes;
    size_t pos;
    size_t start;     /* where the last event begins; of a key or string, its opening quote */
    const char *text; /* of the last event: into `data`, or into `scratch` if it had escapes */
    size_t n_text;
    bool has_half;    /* the key or string: U+FFFD stands for an escape of half a character */
    const char *name; /* of the source, for messages */
    bool allow_nonfinite;
    /* private */
    char *scratch;
    size_t scratch_bytes;
    int depth;
    uint8_t state;
    uint8_t stack[MICA_JSON_MAX_DEPTH]; /* 1 object, 0 array */
} json_reader;

/* `data` is borrowed; `name` too. Strings are valid UTF-8 after unescaping: a lone surrogate escape
 * becomes U+FFFD, invalid raw UTF-8 is an error. */
void mica_json_reader_init(json_reader *r, const char *data, size_t n_bytes, const char *name);
void mica_json_reader_deinit(json_reader *r);
/* The next event; after the outermost value JSON_END. Errors carry the byte offset. */
mica_status mica_json_next(json_reader *r, json_event *event, mica_error *err);
/* Skips the value that comes next (a container with all its contents). Call it where a value must
 * come: after a key, or at the start. */
mica_status mica_json_skip(json_reader *r, mica_error *err);
/* The number literal of the last JSON_NUMBER event. */
double mica_json_text_double(const json_reader *r);
/* False if the literal is not an integer that fits. */
bool mica_json_text_i64(const json_reader *r, int64_t *out);

/* ---- value tree ---- */
typedef enum json_kind {
    JSON_KIND_NULL,
    JSON_KIND_BOOL,
    JSON_KIND_INT, /* a literal without fraction or exponent that fits int64 */
    JSON_KIND_DOUBLE,
    JSON_KIND_STRING,
    JSON_KIND_ARRAY,
    JSON_KIND_OBJECT
} json_kind;

typedef struct json_value json_value;
typedef struct json_member {
    const char *key; /* NUL-terminated; n_key may be longer if it holds NULs */
    size_t n_key;
    json_value *value;
    bool has_half; /* of the key, as in json_value */
} json_member;

struct json_value {
    json_kind kind;
    bool has_half; /* of a string: a U+FFFD in it stands for an escape of half a character */
    size_t n;      /* bytes of a string, items of an array, members of an object */
    union {
        bool boolean;
        int64_t integer;
        double number;
        const char *string; /* NUL-terminated */
        json_value **items;
        json_member *members; /* in the file's order; duplicate keys are an error */
    };
    const char *literal; /* of a DOUBLE: as it is written; NULL: it was not */
};

/* Parses a whole document (nothing but white space may follow). The tree lives in `arena` and does
 * not point into `data`. allow_nonfinite: see above; an object {"__float__": "Infinity"} becomes
 * that number too. */
mica_status mica_json_parse(json_value **out, const char *data, size_t n_bytes, const char *name,
                            bool allow_nonfinite, mica_arena *arena, mica_error *err);
/* Reads and parses a file of at most max_bytes. */
mica_status mica_json_parse_file(json_value **out, const char *path, size_t max_bytes,
                                 bool allow_nonfinite, mica_arena *arena, mica_error *err);

/* Look-ups; NULL when `object` is NULL, no object, or has no such key. find_set also treats a JSON
 * null as absent. */
const json_value *mica_json_find(const json_value *object, const char *key);
const json_value *mica_json_find_set(const json_value *object, const char *key);
bool mica_json_is_number(const json_value *v); /* int or double; NULL is fine */
/* A literal without fraction and exponent that does not fit int64. */
bool mica_json_is_long_integer(const json_value *v);
double mica_json_double(const json_value *v, double fallback);
int64_t mica_json_i64(const json_value *v, int64_t fallback); /* a double with integral value too */
bool mica_json_bool(const json_value *v, bool fallback);
const char *mica_json_string(const json_value *v, const char *fallback);

/* ---- writer: into a growing buffer ---- */
typedef struct json_writer {
    char *data; /* NUL-terminated; NULL before the first write; freed by deinit */
    size_t n;
    size_t capacity;
    bool failed; /* out of memory or too deep at some point: data is incomplete */
    bool pretty; /* two-space indent */
    uint8_t depth;
    bool first[MICA_JSON_MAX_DEPTH];
    bool after_key;
} json_writer;

void mica_json_writer_init(json_writer *w, bool pretty);
void mica_json_writer_deinit(json_writer *w);
void mica_json_begin_object(json_writer *w);
void mica_json_end_object(json_writer *w);
void mica_json_begin_array(json_writer *w);
void mica_json_end_array(json_writer *w);
void mica_json_key(json_writer *w, const char *key);
void mica_json_put_string(json_writer *w, const char *s, size_t n); /* invalid UTF-8 -> U+FFFD */
void mica_json_put_cstring(json_writer *w, const char *s);          /* NULL writes null */
void mica_json_put_i64(json_writer *w, int64_t v);
void mica_json_put_u64(json_writer *w, uint64_t v);
void mica_json_put_double(json_writer *w,
                          double v);               /* shortest that reads back; non-finite: null */
void mica_json_put_float(json_writer *w, float v); /* shortest that reads back as float */
void mica_json_put_bool(json_writer *w, bool v);
void mica_json_put_null(json_writer *w);
void mica_json_put_literal(json_writer *w,
                           const char *number); /* one that is in no C type, as it is */
/* A key and its value. */
void mica_json_member_cstring(json_writer *w, const char *key, const char *s);
void mica_json_member_i64(json_writer *w, const char *key, int64_t v);
void mica_json_member_u64(json_writer *w, const char *key, uint64_t v);
void mica_json_member_double(json_writer *w, const char *key, double v);
void mica_json_member_bool(json_writer *w, const char *key, bool v);

#endif
