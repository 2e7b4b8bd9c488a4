/* chat_prompt.h: a prompt as a conversation of one user message, in the model's chat template. */
#ifndef MICA_CLI_CHAT_PROMPT_H
#define MICA_CLI_CHAT_PROMPT_H

#include "text/tokenizer.h"

/* Appends the ids to *out. system NULL: no system message. To a model
 * without a template a text alone is no conversation and is encoded as it is; with a system message
 * it is laid out as ChatML. Both are said on standard error. */
mica_status mica_cli_chat_prompt(const char *path, const tokenizer *t, const char *system_text,
                                 const char *text, size_t n_text, token_list *out, mica_error *err);

#endif
