/* call_grammar.h: grammars that make a model write calls, in the notation of its format.
 *
 * For tool_choice "required" or a named tool the grammar is for the whole answer (behind
 * reasoning). For "auto" it is lazy: the answer is free until the trigger stands in it; there a
 * matcher is made and fed with the trigger, and from then on the call is held to the tools'
 * schemas. For "none" no grammar is needed.
 */
#ifndef MICA_TEXT_CALL_GRAMMAR_H
#define MICA_TEXT_CALL_GRAMMAR_H

#include "text/grammar/grammar.h"
#include "text/toolcall/toolcall.h"

typedef struct toolcall_choice {
    const char *tools; /* JSON array, as in a request */
    size_t n_tools;
    const char *name; /* the tool that must be called; NULL: any of them */
    bool is_parallel; /* several calls may come, else one */
    bool is_strict;   /* keywords of schemas that cannot be enforced are errors */
} toolcall_choice;

/* MICA_E_UNSUPPORTED: the dialect has no calls, or none that a grammar can write; MICA_E_INVALID:
 * no tools, no tool of that name, or a schema's fault. The grammar is complete after each call. */
mica_status mica_toolcall_grammar(grammar **out, const toolcall_dialect *d,
                                  const toolcall_choice *choice, mica_error *err);
/* What calls begin with, as a C string; false: the dialect has no grammar. A grammar begins with
 * it, or with what is left of a message's header before it. It begins with the text of a special
 * token where the vocabulary has one. */
enum { TOOLCALL_TRIGGER_BYTES = 96 };
bool mica_toolcall_trigger(const toolcall_dialect *d, char out[TOOLCALL_TRIGGER_BYTES]);

#endif
