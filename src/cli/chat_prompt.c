/* chat_prompt.c: builds the conversation, renders it, encodes it. */
#include "cli/chat_prompt.h"

#include <stdio.h>
#include <string.h>

#include "text/template/chat.h"
#include "text/template/chat_tokens.h"

/* {"role": role, "content": text} at slot `i` of the two that a conversation may have. */
typedef struct one_message {
    json_value object, role, content;
    json_member members[2];
} one_message;

static void message_init(one_message *m, const char *role, const char *text, size_t n) {
    m->role = (json_value){.kind = JSON_KIND_STRING, .n = strlen(role), .string = role};
    m->content = (json_value){.kind = JSON_KIND_STRING, .n = n, .string = text};
    m->members[0] = (json_member){.key = "role", .n_key = 4, .value = &m->role};
    m->members[1] = (json_member){.key = "content", .n_key = 7, .value = &m->content};
    m->object = (json_value){.kind = JSON_KIND_OBJECT, .n = 2, .members = m->members};
}

static mica_status render(const chat_template *t, const char *system_text, const char *text,
                          size_t n_text, rendered_text *out, mica_error *err) {
    one_message messages[2];
    json_value *items[2];
    size_t n = 0;
    if (system_text) message_init(&messages[n++], "system", system_text, strlen(system_text));
    message_init(&messages[n++], "user", text, n_text);
    for (size_t i = 0; i < n; i++)
        items[i] = &messages[i].object;
    const json_value list = {.kind = JSON_KIND_ARRAY, .n = n, .items = items};
    const chat_request request = {.messages = &list, .add_generation_prompt = true};
    return mica_chat_render(t, &request, out, err);
}

/* GGUF templates are stored without the bos token that the vocabulary asks for. */
static mica_status add_bos(const tokenizer *t, token_list *ids, mica_error *err) {
    int32_t bos = mica_tokenizer_bos(t);
    if (bos < 0 || !mica_tokenizer_adds_bos(t) || (ids->n && ids->ids[0] == bos)) return MICA_OK;
    mica_status st = mica_token_list_push(ids, bos, err);
    if (st) return st;
    memmove(ids->ids + 1, ids->ids, (ids->n - 1) * sizeof(*ids->ids));
    ids->ids[0] = bos;
    return MICA_OK;
}

/* A prompt alone is no conversation where the model knows of none. */
static mica_status encode_plain(const tokenizer *t, const char *text, size_t n_text,
                                token_list *out, mica_error *err) {
    const encode_options options = {.add_special = true, .parse_special = true};
    fprintf(stderr, "mica: the model has no chat template; the prompt is continued as it is\n");
    return mica_tokenizer_encode(t, text, n_text, options, out, err);
}

mica_status mica_cli_chat_prompt(const char *path, const tokenizer *t, const char *system_text,
                                 const char *text, size_t n_text, token_list *out,
                                 mica_error *err) {
    chat_template *template = NULL;
    rendered_text rendered = {0};
    mica_status st = mica_chat_template_open(&template, path, NULL, err);
    if (st) return st;
    const char *warning = mica_chat_template_warning(template);
    if (!mica_chat_template_is_own(template) && !system_text) {
        st = encode_plain(t, text, n_text, out, err);
    } else {
        if (warning) fprintf(stderr, "mica: warning: %s\n", warning);
        st = render(template, system_text, text, n_text, &rendered, err);
        if (!st) st = mica_chat_encode(t, &rendered, NULL, out, err);
        if (!st && !mica_path_is_folder(path)) st = add_bos(t, out, err);
    }
    mica_rendered_text_deinit(&rendered);
    mica_chat_template_free(template);
    return st;
}
