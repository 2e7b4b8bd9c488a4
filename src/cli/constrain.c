/* constrain.c: from command-line options to a token filter. */
#include "cli/constrain.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"

enum { MAX_GRAMMAR_BYTES = 16 << 20 };

void mica_constraint_specs(arg_spec *specs, constraint_args *args) {
    const arg_spec table[N_CONSTRAINT_SPECS] = {
        {"json-schema", 0, ARG_STRING, &args->json_schema, "FILE",
         "the answer is JSON that the schema in FILE allows", 0, 0},
        {"grammar", 0, ARG_STRING, &args->grammar, "FILE",
         "the answer matches the GBNF grammar in FILE", 0, 0},
        {"regex", 0, ARG_STRING, &args->regex, "R", "the whole answer matches the pattern R", 0, 0},
        {"json-object", 0, ARG_FLAG, &args->json_object, NULL, "the answer is any JSON object", 0,
         0},
    };
    memcpy(specs, table, sizeof(table));
}

static int count_set(const constraint_args *args) {
    return (args->json_schema != NULL) + (args->grammar != NULL) + (args->regex != NULL) +
           args->json_object;
}

bool mica_constraint_is_set(const constraint_args *args) { return count_set(args) > 0; }

int mica_constraint_check(const char *verb, const constraint_args *args) {
    if (count_set(args) <= 1) return EXIT_OK;
    fprintf(stderr,
            "mica %s: give only one of --json-schema, --grammar, --regex and --json-object\n",
            verb);
    return EXIT_USAGE;
}

/* Tokens that a GBNF text names are looked up when the vocabulary is there. */
static mica_status compile_gbnf(constraint *c, mica_error *err) {
    mica_grammar_free(c->grammar);
    c->grammar = NULL;
    return mica_grammar_compile_gbnf(&c->grammar, c->gbnf, c->n_gbnf, c->vocab, err);
}

static mica_status compile_file(constraint *c, const constraint_args *args, mica_error *err) {
    char *text;
    size_t n;
    const char *path = args->json_schema ? args->json_schema : args->grammar;
    mica_status st = mica_file_read(&text, &n, path, MAX_GRAMMAR_BYTES, err);
    if (st) return st;
    if (args->json_schema) {
        st = mica_grammar_compile_schema_text(&c->grammar, text, n, NULL, err);
        mica_free(text);
        return st;
    }
    c->gbnf = text;
    c->n_gbnf = n;
    return compile_gbnf(c, err);
}

mica_status mica_constraint_compile(constraint *c, const constraint_args *args, mica_error *err) {
    if (args->json_object) return mica_grammar_compile_json(&c->grammar, NULL, err);
    if (args->regex)
        return mica_grammar_compile_regex(&c->grammar, args->regex, strlen(args->regex), err);
    return compile_file(c, args, err);
}

/* ---- the filter ---- */

static mica_status filter_mask(void *user, uint64_t *mask, size_t n_words, mica_error *err) {
    constraint *c = user;
    return mica_grammar_mask(c->matcher, mask, n_words, err);
}

static mica_status filter_accept(void *user, int32_t id, bool *is_done, mica_error *err) {
    constraint *c = user;
    bool ok;
    mica_status st = mica_grammar_accept(c->matcher, id, &ok, err);
    if (!st && !ok)
        st = mica_fail(err, MICA_E_INTERNAL, "token %d was sampled against the grammar", id);
    return st ? st : mica_grammar_must_end(c->matcher, is_done, err);
}

mica_status mica_constraint_start(constraint *c, const tokenizer *t, const int32_t *end_ids,
                                  size_t n_end_ids, mica_error *err) {
    mica_status st = mica_grammar_vocab_new(&c->vocab, t, err);
    if (!st && c->gbnf) st = compile_gbnf(c, err);
    if (!st)
        st = mica_grammar_machine_new(&c->machine, c->grammar, c->vocab, end_ids, n_end_ids, err);
    if (!st) st = mica_grammar_matcher_new(&c->matcher, c->machine, err);
    c->filter = (token_filter){.mask = filter_mask, .accept = filter_accept, .user = c};
    return st;
}

void mica_constraint_deinit(constraint *c) {
    mica_grammar_matcher_free(c->matcher);
    mica_grammar_machine_free(c->machine);
    mica_grammar_vocab_free(c->vocab);
    mica_grammar_free(c->grammar);
    mica_free(c->gbnf);
    *c = (constraint){0};
}
