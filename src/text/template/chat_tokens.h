/* chat_tokens.h: token ids of a rendered conversation.
 *
 * Spellings of special tokens are those tokens where the template wrote them, and plain text where
 * a user or a tool did: nobody closes his own turn by typing the marker. In earlier answers of the
 * assistant only the marks of reasoning are tokens, since a user can make a model spell any other.
 */
#ifndef MICA_TEXT_CHAT_TOKENS_H
#define MICA_TEXT_CHAT_TOKENS_H

#include "text/template/template.h"
#include "text/tokenizer.h"
#include "text/toolcall/toolcall.h"

/* Appends to *out. Nothing is added: what begins and ends a conversation is the template's
 * business. `dialect` tells the marks of reasoning; NULL: none. */
mica_status mica_chat_encode(const tokenizer *t, const rendered_text *text,
                             const toolcall_dialect *dialect, token_list *out, mica_error *err);

#endif
