/* args.h: command-line options as data: one table a verb, which parses, checks bounds and prints
 * help.
 *
 * Rules: --name value and --name=value; a flag never eats a word; `--` ends the options; what is
 * unknown or out of bounds is a usage error (exit code 2).
 */
#ifndef MICA_CLI_ARGS_H
#define MICA_CLI_ARGS_H

#include <stdbool.h>

#include "base/status.h"

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_INTERRUPTED = 130, ARGS_DONE = -1 };

typedef enum arg_kind {
    ARG_FLAG,   /* bool */
    ARG_STRING, /* const char * */
    ARG_INT,    /* int64_t, within [lo, hi] */
    ARG_U64,    /* uint64_t; a negative number is taken as two's complement */
    ARG_FLOAT,  /* float, within [lo, hi] */
    ARG_LIST    /* arg_list: may be given many times */
} arg_kind;

typedef struct arg_list {
    const char *items[32];
    int n;
} arg_list;

typedef struct arg_spec {
    const char *name;
    char short_name; /* 0: none */
    arg_kind kind;
    void *target;
    const char *value; /* "N", "TEXT": shown in help */
    const char *help;
    double lo, hi; /* ARG_INT, ARG_FLOAT; both 0: no bounds */
} arg_spec;

typedef struct arg_verb {
    const char *name;
    const char *usage;    /* "mica generate MODEL [options]" */
    const char *about;    /* one paragraph */
    const char *examples; /* lines */
    const arg_spec *specs;
    int n_specs;
    const arg_spec *more; /* a second table shared by several verbs; may be NULL */
    int n_more;
    int min_words, max_words;
} arg_verb;

/* Fills the targets and words[] (positional arguments, at most max_words). Returns EXIT_OK to go
 * on; ARGS_DONE when help was printed; EXIT_USAGE after saying what is wrong on stderr. */
int mica_args_parse(const arg_verb *verb, int argc, char **argv, const char **words, int *n_words);
void mica_args_help(const arg_verb *verb);

#endif
