/* cli.h: what the verbs share: opening a model by path or name, progress on stderr, output checks.
 */
#ifndef MICA_CLI_CLI_H
#define MICA_CLI_CLI_H

#include "cli/args.h"
#include "base/file.h"
#include "engine/engine.h"
#include "text/tokenizer.h"

/* Verbs: argv after the verb's name; they return the process's exit code. */
int mica_verb_generate(int argc, char **argv);
int mica_verb_logits(int argc, char **argv);
int mica_verb_embed(int argc, char **argv);
int mica_verb_tokenize(int argc, char **argv);
int mica_verb_detokenize(int argc, char **argv);
int mica_verb_template(int argc, char **argv);
int mica_verb_inspect(int argc, char **argv);
int mica_verb_models(int argc, char **argv);
int mica_verb_plan(int argc, char **argv);
int mica_verb_bench(int argc, char **argv);
int mica_verb_synth(int argc, char **argv);
int mica_verb_pack(int argc, char **argv);
int mica_verb_eval(int argc, char **argv);

/* Options of every verb that computes. */
typedef struct compute_options {
    bool exact;
    const char *dtype;
    int64_t threads;
    int64_t context;
    arg_list levers;
    bool no_pack;
} compute_options;

#define N_COMPUTE_SPECS 6
/* Fills specs[N_COMPUTE_SPECS] with the table that writes to *options. */
void mica_compute_specs(arg_spec *specs, compute_options *options);
/* To engine options; EXIT_USAGE after saying what is wrong. */
int mica_compute_to_engine(const compute_options *options, engine_options *out);

/* MODEL as given: an existing path, else the name of a fetched starter in $MICA_HOME/models or the
 * XDG data folder. mica_free it. MICA_E_NOT_FOUND says where was looked and what to do. */
mica_status mica_cli_find_model(char **out, const char *model_name, mica_error *err);
/* find_model and engine_open with a progress line on a terminal. */
mica_status mica_cli_open_engine(engine **out, char **path, const char *model_name,
                                 engine_options *options, mica_error *err);

/* Where packs of re-ordered weights lie (weights/pack.h): mica/packs in the XDG cache folder; with
 * `make`, it is made. mica_free it. NULL: there is no place for it. */
char *mica_cli_pack_folder(bool make);

/* "1,2,3" (spaces allowed), the value of --option. EXIT_USAGE after saying what is wrong. */
int mica_cli_parse_ids(const char *verb, const char *option, const char *text, token_list *out);

const char *mica_cli_tier_text(model_tier tier);

/* From now on mica_cli_fail also prints {"error": MESSAGE} on stdout: a verb with --json. */
void mica_cli_fail_in_json(void);
/* Prints "mica: message" and returns EXIT_FAILED. */
int mica_cli_fail(const mica_error *err);
/* Flushes stdout; a full disk or closed pipe becomes EXIT_FAILED with a message. */
int mica_cli_finish_output(int rc);

/* A progress line on stderr, only on a terminal and only after half a second. */
typedef struct cli_progress {
    const char *what;
    double start_s, last_s;
    bool shown;
} cli_progress;
void mica_progress_begin(cli_progress *p, const char *what);
void mica_progress_step(cli_progress *p, uint64_t done, uint64_t total);
void mica_progress_end(cli_progress *p);

/* Ctrl-C: the first asks the verb to stop (checked between tokens), a second one ends the process.
 */
void mica_cli_catch_interrupt(void);
bool mica_cli_interrupted(void);

/* Begins a NumPy file of float32 [n_rows, n_columns], which rows put into *out follow; "-" is
 * standard output. Close *out, also after a failure. */
mica_status mica_cli_open_npy(mica_writer *out, const char *path, int64_t n_rows, int64_t n_columns,
                              mica_error *err);

/* All of standard input. mica_free(*out). */
mica_status mica_cli_read_stdin(char **out, size_t *n_out, mica_error *err);

#endif
