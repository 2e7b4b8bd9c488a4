/* chat_messages.c: messages as clients send them to messages as a template takes them.
 *
 * Keys whose value is null go; the reasoning of history gets both names under which templates read
 * it; text parts become a string, or a string one part, by what the template takes; so do the
 * arguments of calls; results of tools learn the tool's name; a developer is a system where the
 * template does not know it; system text goes into the first user message where it refuses it.
 */
#include <string.h>

#include "text/template/chat_impl.h"

typedef struct preparer {
    const chat_template *t;
    const chat_variant *v;
    const json_value *messages;
    mica_arena *arena;
    mica_error *err;
    size_t at; /* the message at work */
} preparer;

static mica_status fail_memory(preparer *p) {
    return mica_fail(p->err, MICA_E_NOMEM, "messages[%zu]: out of memory", p->at);
}

static bool is_null(const json_value *v) { return !v || v->kind == JSON_KIND_NULL; }

/* ---- content ---- */

static bool is_text_part(const json_value *part) {
    const char *type = mica_json_string(mica_json_find(part, "type"), "text");
    const json_value *text = mica_json_find(part, "text");
    bool is_text = strcmp(type, "text") == 0 || strcmp(type, "input_text") == 0 ||
                   strcmp(type, "output_text") == 0;
    return is_text && text && text->kind == JSON_KIND_STRING;
}

static mica_status join_parts(preparer *p, const json_value *parts, json_value **out) {
    size_t n = 0;
    for (size_t i = 0; i < parts->n; i++) {
        if (!is_text_part(parts->items[i]))
            return mica_fail(p->err, MICA_E_INVALID,
                             "messages[%zu].content[%zu]: a part of type \"%.40s\"; this model's "
                             "chat template takes text only",
                             p->at, i,
                             mica_json_string(mica_json_find(parts->items[i], "type"), "?"));
        n += mica_json_find(parts->items[i], "text")->n;
    }
    char *joined = mica_arena_alloc(p->arena, n + 1), *end = joined;
    json_value *v = mica_chat_json(p->arena, JSON_KIND_STRING, 0);
    if (!joined || !v) return fail_memory(p);
    for (size_t i = 0; i < parts->n; i++) {
        const json_value *text = mica_json_find(parts->items[i], "text");
        memcpy(end, text->string, text->n);
        end += text->n;
    }
    v->string = joined;
    v->n = n;
    *out = v;
    return MICA_OK;
}

static mica_status wrap_text(preparer *p, json_value *text, json_value **out) {
    json_value *part = mica_chat_json(p->arena, JSON_KIND_OBJECT, 2);
    json_value *list = mica_chat_json(p->arena, JSON_KIND_ARRAY, 1);
    bool is_good = mica_chat_set(part, "type", mica_chat_text(p->arena, "text", 4)) &&
                   mica_chat_set(part, "text", text) && mica_chat_push(list, part);
    *out = list;
    return is_good ? MICA_OK : fail_memory(p);
}

static mica_status prepare_content(preparer *p, json_value *content, json_value **out) {
    const chat_capabilities *can = &p->v->can;
    *out = content;
    if (content->kind == JSON_KIND_ARRAY && !can->typed_content) return join_parts(p, content, out);
    if (content->kind == JSON_KIND_STRING && !can->string_content && can->typed_content)
        return wrap_text(p, content, out);
    return MICA_OK;
}

/* ---- calls ---- */

static mica_status dump_json(preparer *p, json_value *v, json_value **out) {
    json_value *context = mica_chat_json(p->arena, JSON_KIND_OBJECT, 1);
    rendered_text text = {0};
    if (!mica_chat_set(context, "x", v)) return fail_memory(p);
    mica_status st = mica_template_render(p->t->dump, context, NULL, &text, p->err);
    if (!st) {
        *out = mica_chat_text(p->arena, text.text, text.n);
        if (!*out) st = fail_memory(p);
    }
    mica_rendered_text_deinit(&text);
    return st;
}

/* Arguments stay in the form that they came in unless the template takes the other one only. */
static mica_status prepare_arguments(preparer *p, json_value *arguments, json_value **out) {
    const chat_capabilities *can = &p->v->can;
    bool is_text = arguments->kind == JSON_KIND_STRING;
    *out = arguments;
    if (!is_text && can->string_arguments && !can->object_arguments)
        return dump_json(p, arguments, out);
    if (!is_text || !can->object_arguments || can->string_arguments) return MICA_OK;
    mica_error why;
    const char *text = arguments->n ? arguments->string : "{}";
    size_t n = arguments->n ? arguments->n : 2;
    mica_status st = mica_json_parse(out, text, n, "arguments", true, p->arena, &why);
    if (!st) return MICA_OK;
    return mica_fail(p->err, st == MICA_E_NOMEM ? st : MICA_E_INVALID,
                     "messages[%zu].tool_calls: the arguments are no JSON: %s", p->at, why.message);
}

/* A copy of an object without its null members, with room for `more`. */
static json_value *copy_object(preparer *p, const json_value *object, size_t more) {
    json_value *copy = mica_chat_json(p->arena, JSON_KIND_OBJECT, object->n + more);
    for (size_t i = 0; copy && i < object->n; i++)
        if (!is_null(object->members[i].value)) copy->members[copy->n++] = object->members[i];
    return copy;
}

static mica_status prepare_call(preparer *p, const json_value *call, json_value **out) {
    const json_value *function = mica_json_find(call, "function");
    const json_value *owner = function ? function : call;
    const json_value *arguments = mica_json_find_set(owner, "arguments");
    json_value *copy = copy_object(p, call, 1), *inner = copy_object(p, owner, 1);
    if (!copy || !inner) return fail_memory(p);
    if (arguments) {
        json_value *prepared;
        mica_status st = prepare_arguments(p, (json_value *)arguments, &prepared);
        if (st) return st;
        mica_chat_set(inner, "arguments", prepared);
    }
    *out = inner;
    if (!function) return MICA_OK;
    *out = copy;
    return mica_chat_set(copy, "function", inner) ? MICA_OK : fail_memory(p);
}

static mica_status prepare_calls(preparer *p, json_value *message) {
    const json_value *calls = mica_json_find(message, "tool_calls");
    if (!calls) return MICA_OK;
    json_value *prepared = mica_chat_json(p->arena, JSON_KIND_ARRAY, calls->n);
    if (!prepared) return fail_memory(p);
    for (size_t i = 0; i < calls->n; i++) {
        json_value *call = NULL;
        mica_status st = prepare_call(p, calls->items[i], &call);
        if (st) return st;
        mica_chat_push(prepared, call);
    }
    return mica_chat_set(message, "tool_calls", prepared) ? MICA_OK : fail_memory(p);
}

/* The name of the function that an earlier message called by this id; NULL: not found. */
static json_value *find_called(const preparer *p, const char *id) {
    for (size_t m = p->at; m-- > 0;) {
        const json_value *calls = mica_json_find(p->messages->items[m], "tool_calls");
        for (size_t i = 0; calls && calls->kind == JSON_KIND_ARRAY && i < calls->n; i++) {
            const json_value *function = mica_json_find(calls->items[i], "function");
            const char *call_id = mica_json_string(mica_json_find(calls->items[i], "id"), "");
            if (strcmp(call_id, id) == 0) return (json_value *)mica_json_find_set(function, "name");
        }
    }
    return NULL;
}

/* ---- messages ---- */

static bool name_result(const preparer *p, json_value *message) {
    const char *id = mica_json_string(mica_json_find(message, "tool_call_id"), NULL);
    if (strcmp(mica_chat_role(message), "tool") != 0 || !id) return true;
    if (mica_json_find(message, "name")) return true;
    json_value *name = find_called(p, id);
    return !name || mica_chat_set(message, "name", name);
}

static bool has_items(const json_value *v) {
    return v && (v->kind == JSON_KIND_ARRAY || v->kind == JSON_KIND_STRING) && v->n > 0;
}

/* reasoning_content from whichever name it came under, and `thinking` in front; neither is added
 * where the template would refuse the message for it. */
static json_value *alias_reasoning(preparer *p, json_value *message) {
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    json_value *reasoning = NULL;
    for (size_t i = 0; i < 3 && !reasoning; i++)
        reasoning = (json_value *)mica_json_find(message, names[i]);
    if (!reasoning) return message;
    bool is_full = has_items(mica_json_find(message, "content")) &&
                   has_items(mica_json_find(message, "tool_calls"));
    json_value *copy = mica_chat_json(p->arena, JSON_KIND_OBJECT, message->n + 2);
    if (!copy) return NULL;
    if (!(is_full && p->v->refuses_thinking)) mica_chat_set(copy, "thinking", reasoning);
    for (size_t i = 0; i < message->n; i++)
        mica_chat_set(copy, message->members[i].key, message->members[i].value);
    if (!(is_full && p->v->refuses_reasoning_content))
        mica_chat_set(copy, "reasoning_content", reasoning);
    return copy;
}

/* A message of calls alone has no content, or null; where the template fails on that, "". */
static bool add_content(const preparer *p, json_value *message) {
    const json_value *calls = mica_json_find(message, "tool_calls");
    bool is_alone =
        calls && calls->kind == JSON_KIND_ARRAY && calls->n && !mica_json_find(message, "content");
    if (!p->v->wants_content || !is_alone) return true;
    return mica_chat_set(message, "content", mica_chat_text(p->arena, "", 0));
}

static mica_status prepare_message(preparer *p, const json_value *message, json_value **out) {
    mica_status st = MICA_OK;
    json_value *copy = copy_object(p, message, 2);
    if (copy && !add_content(p, copy)) return fail_memory(p);
    if (copy) copy = alias_reasoning(p, copy);
    if (!copy || !name_result(p, copy)) return fail_memory(p);
    bool is_developer = strcmp(mica_chat_role(copy), "developer") == 0;
    if (is_developer && !p->v->knows_developer &&
        !mica_chat_set(copy, "role", mica_chat_text(p->arena, "system", 6)))
        return fail_memory(p);
    json_value *content = (json_value *)mica_json_find(copy, "content");
    if (content) {
        if ((st = prepare_content(p, content, &content))) return st;
        mica_chat_set(copy, "content", content);
    }
    *out = copy;
    return prepare_calls(p, copy);
}

/* ---- system text where the template refuses the role ---- */

static bool is_system(const json_value *message) {
    return strcmp(mica_chat_role(message), "system") == 0;
}

/* "text\n\n" before the message's own text. */
static mica_status prepend(preparer *p, json_value *message, const char *text, size_t n) {
    const json_value *content = mica_json_find(message, "content");
    bool is_text = content && content->kind == JSON_KIND_STRING;
    if (content && !is_text)
        return mica_fail(p->err, MICA_E_INVALID,
                         "messages: the system message cannot be joined to typed content; this "
                         "model's chat template takes no system message");
    size_t n_own = is_text ? content->n : 0;
    char *joined = mica_arena_alloc(p->arena, n + 2 + n_own + 1);
    if (!joined) return fail_memory(p);
    memcpy(joined, text, n);
    memcpy(joined + n, "\n\n", 2);
    if (n_own) memcpy(joined + n + 2, content->string, n_own);
    json_value *v = mica_chat_text(p->arena, joined, n + 2 + n_own);
    return mica_chat_set(message, "content", v) ? MICA_OK : fail_memory(p);
}

/* Each run of system messages is merged into the user message that follows; at the end of the
 * conversation it becomes one. */
static mica_status merge_system(preparer *p, json_value *messages) {
    for (size_t i = messages->n; i-- > 0;) {
        json_value *message = messages->items[i];
        if (!is_system(message)) continue;
        const json_value *content = mica_json_find(message, "content");
        json_value *next = i + 1 < messages->n ? messages->items[i + 1] : NULL;
        if (!next || strcmp(mica_chat_role(next), "user") != 0 || !content) {
            if (!mica_chat_set(message, "role", mica_chat_text(p->arena, "user", 4)))
                return fail_memory(p);
            continue;
        }
        mica_status st = prepend(p, next, mica_json_string(content, ""),
                                 content->kind == JSON_KIND_STRING ? content->n : 0);
        if (st) return st;
        memmove(&messages->items[i], &messages->items[i + 1],
                (messages->n - i - 1) * sizeof(*messages->items));
        messages->n--;
    }
    return MICA_OK;
}

mica_status mica_chat_prepare(const chat_template *t, const chat_variant *v,
                              const json_value *messages, mica_arena *arena, json_value **out,
                              mica_error *err) {
    preparer p = {.t = t, .v = v, .messages = messages, .arena = arena, .err = err};
    json_value *prepared = mica_chat_json(arena, JSON_KIND_ARRAY, messages->n);
    if (!prepared) return fail_memory(&p);
    for (p.at = 0; p.at < messages->n; p.at++) {
        json_value *message = NULL;
        mica_status st = prepare_message(&p, messages->items[p.at], &message);
        if (st) return st;
        mica_chat_push(prepared, message);
    }
    *out = prepared;
    return v->can.system_role ? MICA_OK : merge_system(&p, prepared);
}
