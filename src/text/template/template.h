/* template.h: the Jinja engine: chat templates in the dialect that Transformers renders.
 *
 * A template is compiled once and rendered many times, by many threads at once. A template reaches
 * nothing of the host: it sees its context, a clock that the caller may fix, and the functions of
 * this folder. Steps, depth, memory and output are limited.
 * Text in the output knows where it came from, so that the caller can encode spellings of special
 * tokens as plain text where a user or a tool wrote them.
 */
#ifndef MICA_TEXT_TEMPLATE_H
#define MICA_TEXT_TEMPLATE_H

#include <stdbool.h>

#include "base/json.h"

typedef struct jinja_template jinja_template;

/* `name` is for messages (copied). Unknown statements, filters and tests are errors with line and
 * column: MICA_E_FORMAT for bad syntax, MICA_E_UNSUPPORTED for what this dialect does not have. */
mica_status mica_template_compile(jinja_template **out, const char *source, size_t n_source,
                                  const char *name, mica_error *err);
void mica_template_free(jinja_template *t); /* NULL is fine */
/* A filter or test that does not exist, used under a condition (an error only when reached), as a
 * message; or NULL. */
const char *mica_template_warning(const jinja_template *t);
/* The source after newline normalization. */
const char *mica_template_source(const jinja_template *t, size_t *n);
const char *mica_template_name(const jinja_template *t);

typedef enum text_origin {
    ORIGIN_TEMPLATE, /* the template's own text, and context that the caller vouches for */
    ORIGIN_DATA,     /* users, tools, schemas */
    ORIGIN_ASSISTANT /* earlier assistant messages */
} text_origin;

/* Bytes [begin, end) that did not come from the template. */
typedef struct text_span {
    size_t begin, end;
    text_origin origin;
} text_span;

typedef struct rendered_text {
    char *text; /* NUL-terminated */
    size_t n;
    text_span *spans; /* sorted, disjoint; what they do not cover is the template's */
    size_t n_spans;
    text_span *generations; /* of {% generation %}: what the assistant said, for training */
    size_t n_generations;
} rendered_text;

void mica_rendered_text_deinit(rendered_text *text);

enum { JINJA_MAX_DEPTH = 200, JINJA_MAX_STEPS = 10000000, JINJA_MAX_OUTPUT = 16 << 20 };

typedef struct render_options {
    uint64_t max_steps; /* 0: JINJA_MAX_STEPS */
    bool has_now;
    int64_t now_s; /* seconds since 1970 for strftime_now; used if has_now */
    /* Context entries whose text counts as the template's own ("bos_token"). */
    const char *const *trusted;
    size_t n_trusted;
    /* The entry whose items are messages: text of those with role "assistant" is ORIGIN_ASSISTANT.
     * NULL: none. */
    const char *messages;
} render_options;

/* Renders with the members of the object `context` as variables. options may be NULL. On success
 * *out is the caller's. MICA_E_INVALID: the template raised, or the context does not suit it;
 * MICA_E_LIMIT: too many steps, too deep, too much output. */
mica_status mica_template_render(const jinja_template *t, const json_value *context,
                                 const render_options *options, rendered_text *out,
                                 mica_error *err);

#endif
