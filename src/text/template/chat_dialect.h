/* chat_dialect.h: how a model marks calls and reasoning in its answers, found from its own files.
 */
#ifndef MICA_TEXT_CHAT_DIALECT_H
#define MICA_TEXT_CHAT_DIALECT_H

#include "text/template/chat.h"
#include "text/toolcall/toolcall.h"

/* By the name of a parser in tokenizer_config.json ("tool_parser_type") where it is known, else by
 * the template that serves requests with or without tools, else by the vocabulary's tokens (NULL:
 * not looked at). A model whose template shows nothing of the kind has a dialect of nothing. */
mica_status mica_chat_dialect_find(toolcall_dialect *out, const chat_template *t,
                                   const tokenizer *vocabulary, bool with_tools, mica_error *err);
/* What is worth telling when the model is loaded, or NULL: the template shows tools, but how the
 * model calls them is not known. */
const char *mica_chat_dialect_warning(const chat_template *t, const toolcall_dialect *dialect);

#endif
