/* chat_render.c: a conversation to the text of a prompt, and the open end of a final assistant
 * message that goes on.
 */
#include <string.h>

#include "text/template/chat_impl.h"
#include "text/template/jinja_string.h"

enum { MAX_SPECIAL = 16 };

const chat_variant *mica_chat_variant(const chat_template *t, bool with_tools) {
    for (size_t i = 0; with_tools && i < t->n_variants; i++)
        if (strcmp(t->variants[i].name, "tool_use") == 0) return &t->variants[i];
    return &t->variants[0];
}

/* ---- one rendering ---- */

static bool has_items(const json_value *v) { return v && v->kind == JSON_KIND_ARRAY && v->n > 0; }

/* The variables: messages, tools, documents, the flag, special tokens, then the caller's own. */
static json_value *make_context(const chat_template *t, const json_value *messages,
                                const chat_request *request, bool add_generation_prompt,
                                mica_arena *arena) {
    const json_value *special = t->special, *kwargs = request->kwargs;
    size_t n = 4 + (special ? special->n : 0) + (kwargs ? kwargs->n : 0);
    json_value *context = mica_chat_json(arena, JSON_KIND_OBJECT, n);
    json_value *none = mica_chat_json(arena, JSON_KIND_NULL, 0);
    bool has_tools = has_items(request->tools);
    bool is_good =
        mica_chat_set(context, "messages", (json_value *)messages) &&
        mica_chat_set(context, "tools", has_tools ? (json_value *)request->tools : none) &&
        mica_chat_set(context, "documents",
                      request->documents ? (json_value *)request->documents : none) &&
        mica_chat_set(context, "add_generation_prompt",
                      mica_chat_bool(arena, add_generation_prompt));
    for (size_t i = 0; is_good && special && i < special->n; i++)
        is_good = mica_chat_set(context, special->members[i].key, special->members[i].value);
    for (size_t i = 0; is_good && kwargs && i < kwargs->n; i++)
        is_good = mica_chat_set(context, kwargs->members[i].key, kwargs->members[i].value);
    return is_good ? context : NULL;
}

static mica_status check_kwargs(const json_value *kwargs, mica_error *err) {
    static const char *const own[] = {"messages", "tools", "add_generation_prompt"};
    if (kwargs && kwargs->kind != JSON_KIND_OBJECT)
        return mica_fail(err, MICA_E_INVALID, "template variables: expected an object");
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (mica_json_find(kwargs, own[i]))
            return mica_fail(err, MICA_E_INVALID,
                             "template variables: '%s' cannot be replaced this way", own[i]);
    return MICA_OK;
}

mica_status mica_chat_run(const chat_template *t, const chat_variant *v, const json_value *messages,
                          const chat_request *request, bool add_generation_prompt,
                          rendered_text *out, mica_error *err) {
    const char *trusted[MAX_SPECIAL];
    mica_arena arena;
    mica_arena_init(&arena, 0);
    render_options options = {.has_now = request->has_now,
                              .now_s = request->now_s,
                              .trusted = trusted,
                              .messages = "messages"};
    for (size_t i = 0; t->special && i < t->special->n && i < MAX_SPECIAL; i++)
        if (!mica_json_find(request->kwargs, t->special->members[i].key))
            trusted[options.n_trusted++] = t->special->members[i].key;
    json_value *context = make_context(t, messages, request, add_generation_prompt, &arena);
    mica_status st = context ? mica_template_render(v->jinja, context, &options, out, err)
                             : mica_fail(err, MICA_E_NOMEM, "chat template: out of memory");
    mica_arena_deinit(&arena);
    return st;
}

/* ---- continuing the final message ---- */

static const char tag[] = "CONTINUE_FINAL_MESSAGE_TAG ";
enum { N_TAG = sizeof(tag) - 1 };

/* The text that goes on: the content, or its last text part. */
static const json_value *final_text(const json_value *message) {
    const json_value *content = mica_json_find(message, "content");
    if (!content || content->kind != JSON_KIND_ARRAY) return content;
    for (size_t i = content->n; i-- > 0;) {
        const json_value *text = mica_json_find(content->items[i], "text");
        if (text) return text;
    }
    return NULL;
}

static mica_status check_final(const json_value *messages, mica_error *err) {
    size_t n = messages->n;
    const json_value *last = n ? messages->items[n - 1] : NULL;
    const json_value *text = last ? final_text(last) : NULL;
    if (!last || strcmp(mica_chat_role(last), "assistant") != 0)
        return mica_fail(err, MICA_E_INVALID,
                         "messages: only a final assistant message can be continued");
    if (has_items(mica_json_find(last, "tool_calls")))
        return mica_fail(err, MICA_E_INVALID,
                         "messages[%zu]: a message with tool_calls cannot be continued", n - 1);
    if (!text || text->kind != JSON_KIND_STRING)
        return mica_fail(err, MICA_E_INVALID, "messages[%zu]: there is no text to continue", n - 1);
    return MICA_OK;
}

/* A copy of `text` with the tag behind it, put in the place of `text` in a copy of the message. */
static json_value *tagged_message(const json_value *message, const json_value *text,
                                  mica_arena *arena) {
    const json_value *content = mica_json_find(message, "content");
    char *joined = mica_arena_alloc(arena, text->n + N_TAG + 1);
    json_value *copy = mica_chat_json(arena, JSON_KIND_OBJECT, message->n);
    if (!joined || !copy) return NULL;
    memcpy(joined, text->string, text->n);
    memcpy(joined + text->n, tag, N_TAG);
    json_value *tagged = mica_chat_text(arena, joined, text->n + N_TAG);
    if (content != text) { /* the list of parts, with the last text replaced */
        json_value *list = mica_chat_json(arena, JSON_KIND_ARRAY, content->n);
        for (size_t i = 0; list && i < content->n; i++) {
            json_value *part = content->items[i];
            if (mica_json_find(part, "text") == text) {
                json_value *other = mica_chat_json(arena, JSON_KIND_OBJECT, part->n);
                for (size_t k = 0; other && k < part->n; k++)
                    mica_chat_set(other, part->members[k].key, part->members[k].value);
                if (!mica_chat_set(other, "text", tagged)) return NULL;
                part = other;
            }
            mica_chat_push(list, part);
        }
        tagged = list;
    }
    for (size_t i = 0; i < message->n; i++)
        mica_chat_set(copy, message->members[i].key, message->members[i].value);
    return mica_chat_set(copy, "content", tagged) ? copy : NULL;
}

static void cut(rendered_text *text, size_t n) {
    text->n = n;
    text->text[n] = 0;
    while (text->n_spans && text->spans[text->n_spans - 1].begin >= n)
        text->n_spans--;
    if (text->n_spans && text->spans[text->n_spans - 1].end > n)
        text->spans[text->n_spans - 1].end = n;
    while (text->n_generations && text->generations[text->n_generations - 1].begin >= n)
        text->n_generations--;
    if (text->n_generations && text->generations[text->n_generations - 1].end > n)
        text->generations[text->n_generations - 1].end = n;
}

/* Cuts the rendering where the tag stands; false: the message's text or the tag was lost. */
static bool cut_at_tag(rendered_text *out, const json_value *text) {
    const jstring all = {.data = out->text, .n = out->n};
    const jstring needle = {.data = tag, .n = N_TAG - 1};
    const jstring own = {.data = text->string, .n = text->n};
    size_t begin = 0, end = own.n, at = mica_j_find_last(&all, 0, all.n, &needle);
    mica_j_strip_bounds(&own, NULL, true, true, &begin, &end);
    const jstring stripped = {.data = own.data + begin, .n = end - begin};
    if (at == SIZE_MAX || mica_j_find(&all, 0, all.n, &stripped) == SIZE_MAX) return false;
    bool is_whole = at + N_TAG <= all.n && all.data[at + N_TAG - 1] == ' ';
    size_t first = 0, last = at;
    /* The template trimmed the tag's space, so it trims the text too. */
    if (!is_whole) mica_j_strip_bounds(&all, NULL, false, true, &first, &last);
    cut(out, last);
    return true;
}

/* The prompt of a new answer, then the text itself. */
static mica_status append_text(rendered_text *out, const json_value *text, mica_error *err) {
    char *grown = mica_realloc(out->text, out->n + text->n + 1);
    if (!grown) return mica_fail(err, MICA_E_NOMEM, "chat template: out of memory");
    out->text = grown;
    memcpy(grown + out->n, text->string, text->n);
    grown[out->n + text->n] = 0;
    text_span *spans = mica_realloc(out->spans, (out->n_spans + 1) * sizeof(*spans));
    if (!spans) return mica_fail(err, MICA_E_NOMEM, "chat template: out of memory");
    out->spans = spans;
    if (text->n) spans[out->n_spans++] = (text_span){out->n, out->n + text->n, ORIGIN_ASSISTANT};
    out->n += text->n;
    return MICA_OK;
}

static mica_status render_continued(const chat_template *t, const chat_variant *v,
                                    json_value *messages, const chat_request *request,
                                    mica_arena *arena, rendered_text *out, mica_error *err) {
    mica_status st = check_final(messages, err);
    if (st) return st;
    json_value *last = messages->items[messages->n - 1];
    const json_value *text = final_text(last);
    json_value *tagged = tagged_message(last, text, arena);
    if (!tagged) return mica_fail(err, MICA_E_NOMEM, "chat template: out of memory");
    messages->items[messages->n - 1] = tagged;
    st = mica_chat_run(t, v, messages, request, false, out, err);
    if (st || cut_at_tag(out, text)) return st;
    mica_rendered_text_deinit(out);
    messages->n--;
    st = mica_chat_run(t, v, messages, request, true, out, err);
    return st ? st : append_text(out, text, err);
}

static mica_status check_list(const json_value *v, const char *name, mica_error *err) {
    if (!v || v->kind == JSON_KIND_ARRAY || v->kind == JSON_KIND_NULL) return MICA_OK;
    return mica_fail(err, MICA_E_INVALID, "%s: expected an array", name);
}

mica_status mica_chat_render(const chat_template *t, const chat_request *request,
                             rendered_text *out, mica_error *err) {
    const chat_variant *v = mica_chat_variant(t, has_items(request->tools));
    rendered_text text = {0};
    json_value *messages;
    mica_arena arena;
    mica_status st = check_kwargs(request->kwargs, err);
    if (!st) st = mica_chat_check_tools(request->tools, err);
    if (!st) st = check_list(request->documents, "documents", err);
    if (st) return st;
    if (request->continue_final && request->add_generation_prompt)
        return mica_fail(err, MICA_E_INVALID,
                         "a final message cannot be continued and a new one begun");
    if ((st = mica_chat_check_messages(v, request->messages, err))) return st;
    mica_arena_init(&arena, 0);
    st = mica_chat_prepare(t, v, request->messages, &arena, &messages, err);
    if (!st && request->continue_final)
        st = render_continued(t, v, messages, request, &arena, &text, err);
    else if (!st)
        st = mica_chat_run(t, v, messages, request, request->add_generation_prompt, &text, err);
    mica_arena_deinit(&arena);
    if (st)
        mica_rendered_text_deinit(&text);
    else
        *out = text;
    return st;
}
