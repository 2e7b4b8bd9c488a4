/* call_format.h: what a format is, as rows of a table, and an attempt to read one call.
 *
 * The parser looks for the openers of its format. Where one stands it makes an attempt, again and
 * again as text comes, until the attempt says that this is a call or that it is none. Marks that
 * only follow calls (tails) and marks that mean nothing (drops) are taken out by the parser itself.
 * So an attempt reads one call and stops where the call is certain, in a list at the end of each
 * item: a broken item harms no other, and no call waits for the end of its section.
 */
#ifndef MICA_TEXT_CALL_FORMAT_H
#define MICA_TEXT_CALL_FORMAT_H

#include "text/toolcall/call_types.h"

/* What an attempt found when it says CALL_OK. */
typedef enum call_result {
    CALL_RESULT_CALL,
    CALL_RESULT_NOTHING,  /* markup that calls nothing */
    CALL_RESULT_CONTENT,  /* a header: content follows */
    CALL_RESULT_REASONING /* a header: reasoning follows */
} call_result;

/* How far the last attempt at the same opener came, so that the next need not read that again. What
 * comes before `begin` is short; from there to `pos` whole members were read into `args`, and in
 * the value at `value_begin` the text up to `value_pos`. Places are offsets from the opener; 0:
 * none. An attempt that resumes must have `args` to itself. */
typedef struct call_memo {
    size_t begin, pos, n_args;
    size_t value_begin, value_pos, value_n_args;
    call_value_state state; /* of a JSON value */
} call_memo;

typedef struct call_attempt {
    call_cursor c; /* the text begins at the opener */
    const struct call_opener *opener;
    const call_tools *tools;
    bool is_cut;    /* with c.is_end: the answer was cut off */
    bool in_list;   /* in, out: between the brackets of a list of calls */
    bool is_stream; /* arguments are given out as they are read: the first ones count */
    /* out */
    call_result result;
    call_text name, id, args; /* args: JSON text; id with n 0: none */
    bool is_begun;      /* the name is certain, and `args` grows at its end only while CALL_MORE */
    bool keeps_block;   /* CALL_IN_BLOCK openers may follow */
    bool may_id_follow; /* the id stands behind the arguments */
    bool drops_repeats; /* `args` is made of members that were read one by one */
    call_memo memo;
    size_t n_resumed;     /* bytes that were not read again */
    call_text key, value; /* scratch */
} call_attempt;

enum {
    CALL_ANYWHERE = 0,
    CALL_AT_START = 1,    /* only white space and reasoning came before */
    CALL_IN_BLOCK = 2,    /* right after a call of a block that was not closed */
    CALL_IN_LIST = 4,     /* right after a call in a list */
    CALL_STRUCTURE = 8,   /* a header of messages: read even when calls are ignored */
    CALL_KNOWN = 16,      /* a call only if such a tool was given */
    CALL_LIST = 32,       /* the opener must be followed by a list */
    CALL_SINGLE_KEY = 64, /* {"name": {arguments}} */
    CALL_LATE_ID = 128,   /* the format puts the id behind the arguments */
    CALL_TAGS = 256       /* the call ends with a tag */
};

typedef struct call_opener {
    const char *text; /* "": whatever comes first */
    call_verdict (*attempt)(call_attempt *a);
    unsigned flags;
    const void *shape; /* the family's own description */
} call_opener;

enum { CALL_MAX_OPENERS = 6, CALL_MAX_MARKS = 10 };

typedef struct call_format {
    const char *name;
    call_opener openers[CALL_MAX_OPENERS];
    const char *tails[CALL_MAX_MARKS]; /* "]", "," and ";" count in a list or block only */
    const char *drops[CALL_MAX_MARKS];
} call_format;

typedef struct reasoning_format {
    const char *name;
    const char *open;
    const char *closes[4];
    bool is_header;        /* the format's own headers open it */
    bool is_interleaved;   /* any pair counts, not only the first thing */
    bool is_ended_by_call; /* the opener of a call closes it */
    const char *drops[CALL_MAX_MARKS];
} reasoning_format;

extern const call_format mica_call_formats[];
extern const size_t mica_n_call_formats;
extern const reasoning_format mica_reasoning_formats[];
extern const size_t mica_n_reasoning_formats;

/* ---- for attempts ---- */
/* At the first member: goes to where the last attempt had read whole members up to. */
void mica_call_resume_members(call_attempt *a);
/* Behind a whole member. */
void mica_call_keep_members(call_attempt *a);
/* At a value: goes to where the last attempt had searched its end up to. */
void mica_call_resume_search(call_attempt *a);
/* The value that began at `begin` does not end before `pos`. */
void mica_call_keep_search(call_attempt *a, size_t begin, size_t pos);
/* The JSON value at the cursor, appended to `args`; resumed. */
call_verdict mica_call_read_json(call_attempt *a, const call_notation *notation);
/* Whether the name of the attempt is one that may be called. */
bool mica_call_may_begin(const call_attempt *a);
/* An object at the cursor (after white space) becomes the arguments. */
call_verdict mica_call_read_arguments(call_attempt *a, const call_notation *notation);
/* The arguments of text that is no JSON: {"code": text}. */
void mica_call_put_code(call_attempt *a, const char *s, size_t n);
/* {"name", "arguments"} in its many spellings, at the cursor after white space. */
call_verdict mica_call_read_object(call_attempt *a);
/* f(a=1, b="x") */
call_verdict mica_call_read_python(call_attempt *a);

/* ---- the families ---- */
call_verdict mica_call_try_json(call_attempt *a);
call_verdict mica_call_try_kimi(call_attempt *a);
call_verdict mica_call_try_mistral(call_attempt *a);
call_verdict mica_call_try_deepseek(call_attempt *a);
call_verdict mica_call_try_solar(call_attempt *a);
call_verdict mica_call_try_function_json(call_attempt *a);
call_verdict mica_call_try_code(call_attempt *a);
call_verdict mica_call_try_python_tag(call_attempt *a);
call_verdict mica_call_try_role_sep(call_attempt *a);
call_verdict mica_call_try_tagged(call_attempt *a);
call_verdict mica_call_try_pairs(call_attempt *a);
call_verdict mica_call_try_nested(call_attempt *a);
call_verdict mica_call_try_xtml(call_attempt *a);
call_verdict mica_call_try_braced(call_attempt *a);
call_verdict mica_call_try_python(call_attempt *a);
call_verdict mica_call_try_harmony(call_attempt *a);
call_verdict mica_call_try_muse(call_attempt *a);
call_verdict mica_call_try_parts(call_attempt *a);

/* ---- shapes ---- */
/* <call name="f"><param name="k">v</param></call>, with the texts up to the '=' of the name. */
typedef struct tagged_shape {
    const char *section; /* before the first call; NULL: none */
    const char *call;    /* "<invoke name=" */
    const char *param;   /* "<parameter name=" */
    const char *param_close;
    const char *call_close;
    const char *section_close; /* may stand for call_close; NULL: none */
    call_guess guess;
    bool cuts_newline;   /* one newline at each end of a value is layout */
    bool cuts_pairs;     /* but only where both are there: the template writes none */
    bool is_xml;         /* entities and CDATA; white space at the ends is layout */
    bool has_string_tag; /* string="true|false" says what the value is */
} tagged_shape;

/* From the tag of the call on. */
call_verdict mica_call_read_tagged(call_attempt *a, const tagged_shape *shape);

/* name, then <k>…</k><v>…</v> pairs */
typedef struct pairs_shape {
    const char *section;  /* may come before `call`; NULL: none */
    const char *call;     /* "<tool_call>" */
    const char *name_end; /* after the name; NULL: nothing */
    const char *call_close;
} pairs_shape;

#endif
