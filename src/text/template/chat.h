/* chat.h: a model's chat template: found among its files, tried out once, rendered per request.
 *
 * What a template can show (tools, a system message, typed content ...) is found by rendering small
 * probes when it is opened; requests are brought into the form that it takes. Immutable once open,
 * for many threads at once.
 */
#ifndef MICA_TEXT_CHAT_H
#define MICA_TEXT_CHAT_H

#include "text/template/template.h"

typedef struct chat_template chat_template;

/* What a template shows in its rendering. */
typedef struct chat_capabilities {
    bool string_content;   /* content as a string */
    bool typed_content;    /* content as a list of parts */
    bool system_role;      /* a system message; else its text goes into the first user message */
    bool tools;            /* definitions of tools */
    bool tool_calls;       /* calls in assistant messages */
    bool parallel_calls;   /* several of them */
    bool object_arguments; /* their arguments as an object */
    bool string_arguments; /* their arguments as JSON text */
    bool reasoning;        /* reasoning_content of the last message */
} chat_capabilities;

/* The template of a folder or .gguf file. `choice` overrides it: the path of a template file, or
 * the name of one of several; NULL: the model's own. A model without one gets ChatML and a warning.
 */
mica_status mica_chat_template_open(chat_template **out, const char *path, const char *choice,
                                    mica_error *err);
/* From a source text; `special` is an object of strings such as bos_token, or NULL. */
mica_status mica_chat_template_from_text(chat_template **out, const char *source, size_t n,
                                         const json_value *special, const char *name,
                                         mica_error *err);
void mica_chat_template_free(chat_template *t); /* NULL is fine */
/* The capabilities with tools (another template may be chosen then) or without. */
const chat_capabilities *mica_chat_template_capabilities(const chat_template *t, bool with_tools);
/* The template that serves requests with or without tools. */
const jinja_template *mica_chat_template_jinja(const chat_template *t, bool with_tools);
/* What is worth telling about it at load, or NULL. */
const char *mica_chat_template_warning(const chat_template *t);

/* False: neither the model's nor given, but ChatML for want of one. */
bool mica_chat_template_is_own(const chat_template *t);

typedef struct chat_request {
    const json_value *messages;  /* array of objects */
    const json_value *tools;     /* array; NULL or empty: none */
    const json_value *documents; /* array; NULL: none */
    const json_value *kwargs;    /* object of further variables, or NULL */
    bool add_generation_prompt;
    bool continue_final; /* the last message is an assistant's and goes on; without the above */
    bool has_now;        /* strftime_now sees now_s, else the clock */
    int64_t now_s;
} chat_request;

/* Renders a conversation. Errors name the message ("messages[2].content: ..."); MICA_E_INVALID also
 * when the template raises. */
mica_status mica_chat_render(const chat_template *t, const chat_request *request,
                             rendered_text *out, mica_error *err);

/* Whether a request's tools have the shape that is expected: a list of functions with names. NULL
 * is fine. */
mica_status mica_chat_check_tools(const json_value *tools, mica_error *err);

#endif
