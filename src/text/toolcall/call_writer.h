/* call_writer.h: how each format writes calls, as a table, and the notation of arguments that a row
 * of it stands for.
 */
#ifndef MICA_TEXT_CALL_WRITER_H
#define MICA_TEXT_CALL_WRITER_H

#include "text/grammar/schema.h"
#include "text/toolcall/call_types.h"
#include "text/toolcall/toolcall.h"

/* In the texts of the table. */
#define CALL_MARK "\1"   /* stands around what is a special token in vocabularies that have it */
#define CALL_ID "\2"     /* letters and digits that the model chooses */
#define CALL_NAME "\3"   /* the name of the tool */
#define CALL_SUFFIX "\4" /* what the model's tags end with */
#define CALL_INDEX "\5"  /* a number from 1 on */

typedef enum args_kind {
    ARGS_JSON,     /* an object */
    ARGS_KEYWORDS, /* key=value, values as JSON */
    ARGS_TAGGED,   /* members in tags: strings as bare text, other values as JSON */
    ARGS_NESTED,   /* the same, and members of objects and items of arrays in tags too */
    ARGS_BRACED    /* braces, bare keys, strings between marks */
} args_kind;

typedef enum args_edges {
    EDGES_KEPT,
    EDGES_TRIMMED, /* white space at the ends of a text is lost */
    EDGES_BOXED    /* so is a line end at both ends */
} args_edges;

enum { CALL_MAX_LEADS = 6 };

typedef struct call_writer {
    const char *format;
    const char *trigger;
    args_kind args;
    bool is_single;        /* the end of a call ends the answer */
    const char *before[2]; /* what may come first: a header, the end of an empty part */
    const char *head, *begin, *mid, *end, *between, *tail; /* mid: behind the name */
    /* of members that are no JSON */
    const char *open, *open_end, *close;
    struct {
        unsigned types;
        const char *text; /* between open_end and values of these types; none: nothing */
    } leads[CALL_MAX_LEADS];
    const char *bar;          /* cannot stand in a value */
    const char *excludes;     /* characters that texts cannot have */
    const char *key_excludes; /* and bytes that keys cannot have; NULL: keys are escaped */
    const char *quote;        /* around texts */
    call_guess guess;         /* of the parser, where there are no leads */
    args_edges edges;
    bool python_words; /* True, False and None, as the templates write them */
} call_writer;

extern const call_writer mica_call_writers[];
extern const size_t mica_n_call_writers;

/* The expressions of the table's texts for one model and tool. */
typedef struct call_texts {
    grammar_build *b;
    const char *suffix;
    const char *name; /* of the tool; NULL: none yet */
    struct {
        const char *text;
        const expr *e;
    } known[32]; /* equal expressions let beginnings be shared */
    size_t n_known;
} call_texts;
/* NULL as `s` is the empty text. */
const expr *mica_call_text(call_texts *t, const char *s);

/* The notation of a row's arguments, and those inside it. Not to be moved. */
typedef struct args_notations {
    schema_notation args, value, element, json, key, quoted_key;
    schema_lead leads[CALL_MAX_LEADS];
    schema_reader reader, key_reader;
    const call_writer *writer;
} args_notations;
/* MICA_E_NOMEM only. */
mica_status mica_args_notations_init(args_notations *out, call_texts *t, const call_writer *w,
                                     mica_error *err);

#endif
