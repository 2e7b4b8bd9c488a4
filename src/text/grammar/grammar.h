/* grammar.h: constrained output: what a generated text may be, as masks over tokens.
 *
 * A grammar is compiled from a JSON schema, a regular expression, a list of choices or GBNF text
 * and is then immutable. A vocabulary is the trie of a tokenizer's token bytes, made once for a
 * model. A machine joins the two and keeps what it learns while it runs (states, masks); it and all
 * its matchers belong to one thread at a time. A matcher is the state of one generation.
 *
 * No matcher can be led into a dead end: whatever the masks allow can be completed, as far as
 * tokens for the bytes exist. Compile errors: MICA_E_INVALID (with the byte offset where there is a
 * text), MICA_E_UNSUPPORTED (the message names the keyword), MICA_E_LIMIT (too large).
 */
#ifndef MICA_TEXT_GRAMMAR_GRAMMAR_H
#define MICA_TEXT_GRAMMAR_GRAMMAR_H

#include "text/tokenizer.h"

typedef struct grammar grammar;
typedef struct grammar_vocab grammar_vocab;
typedef struct grammar_machine grammar_machine;
typedef struct grammar_matcher grammar_matcher;

typedef struct schema_options {
    bool is_compact;      /* no white space between JSON tokens; else a little (docs/grammar.md) */
    bool ignores_unknown; /* keywords that cannot be enforced are passed over, not refused */
    bool any_order;       /* properties in any order; else in the schema's, as clients expect */
} schema_options;

/* `options` NULL: all false. `schema` is only read during the call. */
mica_status mica_grammar_compile_schema(grammar **out, const json_value *schema,
                                        const schema_options *options, mica_error *err);
/* The same from the text of a schema. */
mica_status mica_grammar_compile_schema_text(grammar **out, const char *text, size_t n,
                                             const schema_options *options, mica_error *err);
/* Plain JSON mode: any JSON object. */
mica_status mica_grammar_compile_json(grammar **out, const schema_options *options,
                                      mica_error *err);
/* The whole text matches the pattern (ECMAScript syntax; ^ and $ at the ends are allowed). */
mica_status mica_grammar_compile_regex(grammar **out, const char *pattern, size_t n,
                                       mica_error *err);
/* Tokens, <name> and <[id]>, are looked up in `vocab`; one that it lacks is an error. NULL: only the
 * notation is checked; machines over a vocabulary refuse such a grammar if it names tokens. */
mica_status mica_grammar_compile_gbnf(grammar **out, const char *text, size_t n,
                                      const grammar_vocab *vocab, mica_error *err);
/* The whole text is one of the choices (at least one). */
mica_status mica_grammar_compile_choices(grammar **out, const char *const *choices,
                                         size_t n_choices, mica_error *err);

/* Answers made of pieces, for forced tool calls: head, then 1 to max_rounds rounds (0: any number)
 * with `between` between them, each round one of `ways`, then tail. */
typedef enum grammar_piece_kind {
    GRAMMAR_TEXT,  /* `text` */
    GRAMMAR_TOKEN, /* the special token that is spelled `text`, or that text */
    GRAMMAR_SCHEMA /* an instance of `schema`, a document of its own */
} grammar_piece_kind;
typedef struct grammar_piece {
    grammar_piece_kind kind;
    const char *text;
    const json_value *schema;
} grammar_piece;
typedef struct grammar_pieces {
    const grammar_piece *items;
    size_t n;
} grammar_pieces;
typedef struct grammar_rounds {
    grammar_pieces head, between, tail;
    const grammar_pieces *ways;
    size_t n_ways;
    uint32_t max_rounds;
} grammar_rounds;
mica_status mica_grammar_compile_rounds(grammar **out, const grammar_rounds *rounds,
                                        const schema_options *options, mica_error *err);

void mica_grammar_free(grammar *g); /* NULL is fine; after its machines */

/* Special tokens are never part of text. */
mica_status mica_grammar_vocab_new(grammar_vocab **out, const tokenizer *t, mica_error *err);
/* From token bytes as they are: tokens[i], lengths[i]; an empty one is never allowed. */
mica_status mica_grammar_vocab_from_bytes(grammar_vocab **out, const char *const *tokens,
                                          const size_t *lengths, size_t n_tokens, mica_error *err);
void mica_grammar_vocab_free(grammar_vocab *v);         /* NULL is fine; after its machines */
size_t mica_grammar_vocab_size(const grammar_vocab *v); /* highest id + 1 */

/* `vocab` NULL: bytes only. Both are borrowed. `end_ids` (copied) are allowed where the text is
 * complete. */
mica_status mica_grammar_machine_new(grammar_machine **out, const grammar *g,
                                     const grammar_vocab *vocab, const int32_t *end_ids,
                                     size_t n_end_ids, mica_error *err);
void mica_grammar_machine_free(grammar_machine *m); /* NULL is fine; after its matchers */

mica_status mica_grammar_matcher_new(grammar_matcher **out, grammar_machine *m, mica_error *err);
/* A second matcher in the same state, with the same history. */
mica_status mica_grammar_matcher_fork(grammar_matcher **out, const grammar_matcher *m,
                                      mica_error *err);
void mica_grammar_matcher_free(grammar_matcher *m); /* NULL is fine */

/* Words of a mask for this many ids. */
#define GRAMMAR_MASK_WORDS(n_ids) (((n_ids) + 63) / 64)

/* Bit id of mask[0..n_words) is set iff the token may come next; ids beyond the vocabulary are not
 * allowed. Once an end token was accepted only end tokens are. */
mica_status mica_grammar_mask(grammar_matcher *m, uint64_t *mask, size_t n_words, mica_error *err);
/* Takes the token. *ok false: it is not allowed, and nothing has changed. */
mica_status mica_grammar_accept(grammar_matcher *m, int32_t id, bool *ok, mica_error *err);
/* Takes bytes, as one step of the history. *ok false: not allowed, nothing has changed. */
mica_status mica_grammar_accept_bytes(grammar_matcher *m, const char *bytes, size_t n, bool *ok,
                                      mica_error *err);
/* Takes back the last n steps; MICA_E_INVALID if there were fewer. */
mica_status mica_grammar_rollback(grammar_matcher *m, size_t n, mica_error *err);
bool mica_grammar_is_complete(const grammar_matcher *m); /* the text so far may end here */
/* Nothing but the end can follow (or the end has come). */
mica_status mica_grammar_must_end(grammar_matcher *m, bool *out, mica_error *err);

/* What one run of a machine has made so far, for tests and benchmarks. */
typedef struct grammar_stats {
    size_t n_states;
    size_t n_masks;
    size_t n_flushes;
    size_t n_bytes;
} grammar_stats;
grammar_stats mica_grammar_machine_stats(const grammar_machine *m);

#endif
