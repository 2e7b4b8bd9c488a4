/* constrain.h: --json-schema, --grammar and --regex: a grammar as a filter of generated tokens. */
#ifndef MICA_CLI_CONSTRAIN_H
#define MICA_CLI_CONSTRAIN_H

#include "cli/cli.h"
#include "text/grammar/grammar.h"

typedef struct constraint_args {
    const char *json_schema, *grammar, *regex; /* at most one; files, files and a pattern */
    bool json_object;
} constraint_args;

#define N_CONSTRAINT_SPECS 4
/* Fills specs[N_CONSTRAINT_SPECS] with the table that writes to *args. */
void mica_constraint_specs(arg_spec *specs, constraint_args *args);
/* EXIT_USAGE after saying so when more than one is given. */
int mica_constraint_check(const char *verb, const constraint_args *args);
bool mica_constraint_is_set(const constraint_args *args);

/* Zeros at first; released by deinit. */
typedef struct constraint {
    char *gbnf; /* NULL: another kind */
    size_t n_gbnf;
    grammar *grammar;
    grammar_vocab *vocab;
    grammar_machine *machine;
    grammar_matcher *matcher;
    token_filter filter;
} constraint;

/* Compiles what the arguments name. Cheap, and needs no model: errors come before it is loaded. */
mica_status mica_constraint_compile(constraint *c, const constraint_args *args, mica_error *err);
/* Makes c->filter for a tokenizer and end tokens. */
mica_status mica_constraint_start(constraint *c, const tokenizer *t, const int32_t *end_ids,
                                  size_t n_end_ids, mica_error *err);
void mica_constraint_deinit(constraint *c);

#endif
