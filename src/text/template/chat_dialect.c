/* chat_dialect.c: asks the tables of toolcall with what a model's files say. */
#include "text/template/chat_dialect.h"

#include "text/template/chat_impl.h"

mica_status mica_chat_dialect_find(toolcall_dialect *out, const chat_template *t,
                                   const tokenizer *vocabulary, bool with_tools, mica_error *err) {
    toolcall_source source = {.format = t->tool_parser, .vocabulary = vocabulary};
    const jinja_template *jinja = mica_chat_template_jinja(t, with_tools);
    source.chat_template = mica_template_source(jinja, &source.n_chat_template);
    if (t->is_fallback) source.chat_template = NULL; /* ChatML says nothing of this model */
    mica_status st = mica_toolcall_detect(out, &source, err);
    if (st != MICA_E_INVALID || !source.format) return st;
    source.format = NULL; /* a name that other programs know */
    return mica_toolcall_detect(out, &source, err);
}

const char *mica_chat_dialect_warning(const chat_template *t, const toolcall_dialect *dialect) {
    if (dialect->format || !mica_chat_template_capabilities(t, true)->tools) return NULL;
    return "the chat template shows tools, but the form of this model's calls is not known: calls "
           "stay in the content";
}
