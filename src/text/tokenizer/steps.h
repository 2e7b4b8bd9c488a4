/* steps.h: what the parsers of normalizers, pre-tokenizers and decoders share.
 *
 * Each of these is a list of steps in the tokenizer's arena: a "Sequence" of the file is flattened.
 * A type or a value that is not implemented is an error that names it.
 */
#ifndef MICA_TEXT_TOKENIZER_STEPS_H
#define MICA_TEXT_TOKENIZER_STEPS_H

#include "base/json.h"
#include "text/tokenizer/pattern.h"

typedef struct step_loader {
    const char *name; /* of the source, for messages */
    mica_arena *arena;
    regex **regexes; /* the tokenizer's list */
} step_loader;

/* The string at `key`, copied into the arena. Missing: an error, or `fallback` if that is not NULL.
 * `part` is "normalizer", "decoder", ... */
mica_status mica_step_string(const step_loader *l, const json_value *step, const char *part,
                             const char *key, const char *fallback, const char **out, size_t *n_out,
                             mica_error *err);
mica_status mica_step_copy(const step_loader *l, const char *s, size_t n, const char **out,
                           mica_error *err);
/* step.pattern: {"String": ...} or {"Regex": ...}. */
mica_status mica_step_pattern(const step_loader *l, const json_value *step, const char *part,
                              text_pattern *out, mica_error *err);
mica_status mica_step_regex(const step_loader *l, const char *pattern, const regex **out,
                            mica_error *err);
/* A regex whose matches are the stretches of one script, for UnicodeScripts. */
mica_status mica_step_script_regex(const step_loader *l, const regex **out, mica_error *err);
mica_status mica_step_behavior(const step_loader *l, const json_value *step, split_behavior *out,
                               mica_error *err);
mica_status mica_step_refuse(const step_loader *l, const char *part, const char *what,
                             mica_error *err);
mica_status mica_step_no_memory(const step_loader *l, mica_error *err);

/* What calls of these steps need besides their text. */
typedef struct step_scratch {
    regex_scratch regex;
    piece_list matches;
} step_scratch;

void mica_step_scratch_deinit(step_scratch *s);

#endif
