/* chat_impl.h: what the files of the chat layer share. */
#ifndef MICA_TEXT_CHAT_IMPL_H
#define MICA_TEXT_CHAT_IMPL_H

#include "text/template/chat.h"

/* One of a model's templates. */
typedef struct chat_variant {
    const char *name; /* "default", "tool_use" */
    jinja_template *jinja;
    chat_capabilities can;
    bool knows_developer; /* its source mentions the role */
    bool wants_content;   /* a message of calls alone must have content, if an empty one */
    /* Beside content and calls a message cannot have reasoning under this name. */
    bool refuses_thinking, refuses_reasoning_content;
} chat_variant;

enum { MAX_VARIANTS = 2 }; /* "default" and "tool_use" */

struct chat_template {
    mica_arena arena;
    chat_variant variants[MAX_VARIANTS];
    size_t n_variants;
    const json_value *special; /* object: bos_token and the like */
    jinja_template *dump;      /* writes a value as JSON text */
    const char *warning;
    const char *tool_parser; /* "tool_parser_type" of tokenizer_config.json, or NULL */
    bool is_fallback;        /* the model has none */
};

const chat_variant *mica_chat_variant(const chat_template *t, bool with_tools);

/* One rendering with messages that are already in the template's form. */
mica_status mica_chat_run(const chat_template *t, const chat_variant *v, const json_value *messages,
                          const chat_request *request, bool add_generation_prompt,
                          rendered_text *out, mica_error *err);
/* Fills v->can. */
mica_status mica_chat_probe(const chat_template *t, chat_variant *v, mica_error *err);
/* Whether messages have the shape that is expected (chat_check.c). */
mica_status mica_chat_check_messages(const chat_variant *v, const json_value *messages,
                                     mica_error *err);
/* The messages, which were checked, as the template takes them. */
mica_status mica_chat_prepare(const chat_template *t, const chat_variant *v,
                              const json_value *messages, mica_arena *arena, json_value **out,
                              mica_error *err);

/* Building JSON in an arena; NULL: out of memory, also where a part is NULL. */
json_value *mica_chat_json(mica_arena *arena, json_kind kind, size_t capacity);
json_value *mica_chat_text(mica_arena *arena, const char *text, size_t n);
json_value *mica_chat_bool(mica_arena *arena, bool v);
/* Into an object or array with room for it; a key that is there gets the new value. */
bool mica_chat_set(json_value *object, const char *key, json_value *value);
bool mica_chat_push(json_value *array, json_value *value);
const char *mica_chat_role(const json_value *message);

#endif
