/* toolcall.h: what a model writes, taken apart while it is written: content, reasoning, tool calls.
 *
 * Once per model, mica_toolcall_detect finds the dialect that its template speaks. For each answer
 * a parser is opened, fed with text as it comes and finished; every call gives events, whose texts,
 * put together, do not depend on how the answer was cut into pieces. Nothing is lost: each byte of
 * the answer is in exactly one content, reasoning or markup event or in the raw text of a call, and
 * what is no well-formed call is content.
 */
#ifndef MICA_TEXT_TOOLCALL_H
#define MICA_TEXT_TOOLCALL_H

#include "text/tokenizer.h"

/* ---- dialects ---- */
/* How a model marks calls and reasoning; NULL: not at all. Points into static tables. */
typedef struct toolcall_dialect {
    const struct call_format *format;
    const struct reasoning_format *reasoning;
    char
        suffix[40]; /* what the model's tags end with, as in <tool_call:opensource>; for grammars */
} toolcall_dialect;

/* Where to look. What is zero is not looked at. */
typedef struct toolcall_source {
    const char *format;        /* a name of the table, or of mlx-lm's tool_parser_type; "none" */
    const char *reasoning;     /* a name of the table; "none" */
    const char *chat_template; /* its text */
    size_t n_chat_template;
    const tokenizer *vocabulary; /* where the template names no marker */
} toolcall_source;

/* MICA_E_INVALID: a name that no table holds. Finding nothing is no error. */
mica_status mica_toolcall_detect(toolcall_dialect *out, const toolcall_source *source,
                                 mica_error *err);
/* Whether the tags of calls end with a suffix that the model's template chooses, and taking it from
 * a call that the template has rendered. */
bool mica_toolcall_has_suffix(const toolcall_dialect *d);
void mica_toolcall_find_suffix(toolcall_dialect *d, const char *text, size_t n);
const char *mica_toolcall_format_name(const toolcall_dialect *d);    /* "none" */
const char *mica_toolcall_reasoning_name(const toolcall_dialect *d); /* "none" */
/* The markers of reasoning, for budgets and grammars. False: none, or none that is fixed. */
bool mica_toolcall_reasoning_markers(const toolcall_dialect *d, const char **open,
                                     const char **close);

/* The bytes of a mark of reasoning at s[0], which the assistant's own text may hold; 0: none. What
 * also begins or ends a message is none. */
size_t mica_toolcall_reasoning_mark_at(const toolcall_dialect *d, const char *s, size_t n);

/* ---- parsing ---- */
typedef enum toolcall_start {
    TOOLCALL_START_CONTENT,
    TOOLCALL_START_REASONING, /* the prompt ends inside reasoning */
    TOOLCALL_START_UNKNOWN    /* hold all text until an end marker of reasoning tells, or the end */
} toolcall_start;

/* How an answer to this prompt starts. `prompt` is what follows the last message that is not the
 * assistant's: a marker in a user's words says nothing. */
toolcall_start mica_toolcall_prompt_start(const toolcall_dialect *d, const char *prompt, size_t n);

typedef struct toolcall_options {
    toolcall_start start;
    bool ignores_calls; /* markup of calls is content (the request has no tools) */
    /* Give out arguments of JSON formats while they are written. A call that turns out broken after
     * its name was given out then stays a call with the arguments so far, and the rest is content;
     * without this option it is content as a whole. */
    bool streams_arguments;
    const char *tools; /* JSON array, as in a request, for the types of arguments; NULL: none */
    size_t n_tools;
    /* Each piece that is fed is the text of one token, and a marker that the vocabulary holds as a
     * token counts only as such. NULL: markers are recognized as text. */
    const tokenizer *vocabulary;
} toolcall_options;

typedef enum toolcall_event_kind {
    TOOLCALL_CONTENT,
    TOOLCALL_REASONING,
    TOOLCALL_BEGIN,     /* name, id */
    TOOLCALL_ARGUMENTS, /* more text of the arguments, a JSON object */
    TOOLCALL_END,       /* text: the call as the model wrote it */
    TOOLCALL_MARKUP     /* bytes that are in no other event: markers and the white space at them */
} toolcall_event_kind;

typedef struct toolcall_event {
    toolcall_event_kind kind;
    size_t index; /* of the call, from 0 */
    const char *text;
    size_t n_text;
    const char *name; /* BEGIN only; not NUL-terminated */
    size_t n_name;
    const char *id; /* BEGIN only; NULL when the format carries none */
    size_t n_id;
    bool
        is_broken; /* END only: see streams_arguments; `text` is what the call took of the answer */
} toolcall_event;

typedef struct toolcall_parser toolcall_parser;

mica_status mica_toolcall_open(toolcall_parser **out, const toolcall_dialect *d,
                               const toolcall_options *options, mica_error *err);
void mica_toolcall_free(toolcall_parser *p); /* NULL is fine */
/* More of the answer. UTF-8 is expected; other bytes pass through content unchanged. */
mica_status mica_toolcall_feed(toolcall_parser *p, const char *text, size_t n, mica_error *err);
/* The end of the answer; `is_cut`: a limit ended it, so that nothing may be taken as complete that
 * lacks its end marker. */
mica_status mica_toolcall_finish(toolcall_parser *p, bool is_cut, mica_error *err);
/* The events of the last feed or finish; valid until the next. */
const toolcall_event *mica_toolcall_events(const toolcall_parser *p, size_t *n);

#endif
