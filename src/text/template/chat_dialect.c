/* chat_dialect.c: asks the tables of toolcall with what a model's files say. */
#include "text/template/chat_dialect.h"

#include "text/template/chat_impl.h"

/* Tags may be put together by the template, so that only a call that it renders shows them. */
static mica_status find_suffix(toolcall_dialect *d, const chat_template *t, mica_error *err) {
    static const char call[] =
        "[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"\","
        "\"tool_calls\":[{\"id\":\"callAAAA1\",\"type\":\"function\",\"function\":{\"name\":"
        "\"f\",\"arguments\":{\"a\":\"b\"}}}]}]";
    mica_arena arena;
    json_value *messages;
    rendered_text text = {0};
    mica_error why;
    if (!mica_toolcall_has_suffix(d)) return MICA_OK;
    mica_arena_init(&arena, 0);
    mica_status st =
        mica_json_parse(&messages, call, sizeof(call) - 1, "probe", false, &arena, err);
    chat_request request = {.messages = st ? NULL : messages, .has_now = true};
    if (!st) {
        st = mica_chat_render(t, &request, &text, &why);
        if (!st) mica_toolcall_find_suffix(d, text.text, text.n);
        mica_rendered_text_deinit(&text);
        st = st == MICA_E_NOMEM ? mica_fail(err, st, "%s", why.message) : MICA_OK;
    }
    mica_arena_deinit(&arena);
    return st;
}

static mica_status find_format(toolcall_dialect *out, const chat_template *t,
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

mica_status mica_chat_dialect_find(toolcall_dialect *out, const chat_template *t,
                                   const tokenizer *vocabulary, bool with_tools, mica_error *err) {
    toolcall_dialect found;
    mica_status st = find_format(&found, t, vocabulary, with_tools, err);
    if (!st) st = find_suffix(&found, t, err);
    if (!st) *out = found;
    return st;
}

const char *mica_chat_dialect_warning(const chat_template *t, const toolcall_dialect *dialect) {
    if (dialect->format || !mica_chat_template_capabilities(t, true)->tools) return NULL;
    return "the chat template shows tools, but the form of this model's calls is not known: calls "
           "stay in the content";
}
