/* call_parser.h: the state of a parse, and the events that come out of it.
 *
 * `in` holds the part of the answer that is not given out yet. Three kinds of bytes stay there: a
 * tail that may become a marker, white space that belongs to markup if a marker follows and to the
 * text if not, and a call that is not complete.
 */
#ifndef MICA_TEXT_CALL_PARSER_H
#define MICA_TEXT_CALL_PARSER_H

#include "text/toolcall/call_format.h"
#include "text/toolcall/toolcall.h"

typedef enum mark_kind {
    MARK_NONE,
    MARK_OPENER,
    MARK_TAIL,
    MARK_DROP,
    MARK_REASONING_OPEN,
    MARK_REASONING_CLOSE
} mark_kind;

typedef struct call_mark {
    mark_kind kind;
    const char *text;
    const call_opener *opener;
    size_t n_token; /* the marker starts with a token of that many bytes, or 0 */
} call_mark;

enum {
    CALL_MAX_MARKERS = 48,
    /* An unclosed call costs a look at all that follows; so many are looked at at the end. */
    CALL_MAX_FAILED = 64
};

typedef enum parse_mode { PARSE_CONTENT, PARSE_REASONING, PARSE_UNKNOWN } parse_mode;

/* A piece that was fed and is a token that some marker starts with. */
typedef struct fed_token {
    size_t begin; /* from the start of the answer */
    size_t n;
} fed_token;

/* Where in JSON the text of an attempt ends, roughly. */
typedef struct call_brackets {
    size_t depth;
    bool is_list; /* the outermost is a square one */
    bool in_string, is_escaped;
} call_brackets;

struct toolcall_parser {
    const call_format *format;
    const reasoning_format *reasoning;
    bool ignores_calls, is_stream, is_by_token;
    call_tools tools;
    call_mark marks[CALL_MAX_MARKERS];
    size_t n_marks;
    bool may_start[256]; /* first bytes of marks */

    call_text in;
    size_t base;  /* bytes of the answer before in.data[0] */
    size_t begin; /* in.data[begin..n) is not given out yet */
    size_t scan;  /* no marker begins before it; begin..scan is white space that is held */
    fed_token *tokens;
    size_t n_tokens, tokens_capacity;

    parse_mode mode;
    bool is_end, is_cut;
    bool at_start;          /* no content yet */
    bool after_call;        /* nothing but white space and tails since a call */
    bool in_block, in_list; /* see CALL_IN_BLOCK, CALL_IN_LIST */
    bool eats_newlines;     /* line breaks are layout until something else comes */
    bool reasoning_done;
    bool has_reasoned; /* since reasoning was opened */

    /* The call that is tried. */
    const call_opener *opener; /* NULL: none */
    size_t opener_at;
    size_t n_seen, next_try; /* text lengths: looked at for brackets, for the next attempt */
    size_t n_read;           /* bytes that all attempts at it read */
    call_brackets brackets;
    size_t barred_at; /* from the start of the answer: an opener that was none, plus 1 */
    bool is_hurried;  /* attempts do not wait for more text that is worth one */
    size_t n_failed;  /* attempts that the end of the answer ended */
    call_attempt attempt;
    bool is_announced;  /* BEGIN was given out */
    size_t n_announced; /* bytes of arguments given out */
    size_t n_calls;

    call_text out; /* texts of events */
    toolcall_event *events;
    size_t n_events, events_capacity;
    bool failed; /* out of memory */
};

/* ---- events (call_events.c) ---- */
/* Appends text to the last event if it is of the same kind, else makes one. */
void mica_call_emit(toolcall_parser *p, toolcall_event_kind kind, const char *s, size_t n);
void mica_call_emit_begin(toolcall_parser *p);
void mica_call_emit_end(toolcall_parser *p, const char *raw, size_t n, bool is_broken);
/* Offsets in `out` become pointers. */
void mica_call_events_settle(toolcall_parser *p);
/* Of members with the same name only the last stays. */
void mica_call_drop_repeats(call_text *args, call_text *scratch);

/* ---- steps (call_steps.c, call_tries.c) ---- */
/* Does what the text allows; false: more text is needed. */
bool mica_call_step(toolcall_parser *p);
void mica_call_start_attempt(toolcall_parser *p, const call_opener *opener, size_t at);
bool mica_call_attempt_step(toolcall_parser *p);
/* Gives out in.data[begin..end) as content or reasoning, or as markup. */
void mica_call_flush_text(toolcall_parser *p, size_t end);
void mica_call_flush_markup(toolcall_parser *p, size_t end);

#endif
