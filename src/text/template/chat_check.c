/* chat_check.c: whether messages and tools have the shape that clients send, before a template sees
 * them: a template passes over what it does not expect, or fails on a line of its own.
 *
 * Only what no template could mean is refused. Keys that are not known stay, and so do parts of a
 * type that the template's source mentions.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "text/template/chat_impl.h"

typedef struct checker {
    const chat_variant *v; /* NULL: no template is at hand */
    mica_error *err;
} checker;

static bool is_null(const json_value *v) { return !v || v->kind == JSON_KIND_NULL; }

static bool is_text(const json_value *v) { return v && v->kind == JSON_KIND_STRING; }

static bool is_list(const json_value *v) { return v && v->kind == JSON_KIND_ARRAY; }

static bool is_object(const json_value *v) { return v && v->kind == JSON_KIND_OBJECT; }

static const char *kind_name(const json_value *v) {
    static const char *const names[] = {
        [JSON_KIND_NULL] = "null",       [JSON_KIND_BOOL] = "a boolean",
        [JSON_KIND_INT] = "a number",    [JSON_KIND_DOUBLE] = "a number",
        [JSON_KIND_STRING] = "a string", [JSON_KIND_ARRAY] = "an array",
        [JSON_KIND_OBJECT] = "an object"};
    if (v && v->kind == JSON_KIND_STRING && !v->n) return "an empty string";
    if (v && v->kind == JSON_KIND_ARRAY && !v->n) return "an empty array";
    return v ? names[v->kind] : "nothing";
}

/* `where` ends in a format: the place, "messages[2].content". */
__attribute__((format(printf, 4, 5))) static mica_status
fail(const checker *c, const json_value *found, const char *expected, const char *where, ...) {
    char place[160];
    va_list args;
    va_start(args, where);
    vsnprintf(place, sizeof(place), where, args);
    va_end(args);
    return mica_fail(c->err, MICA_E_INVALID, "%s: expected %s, found %s", place, expected,
                     kind_name(found));
}

/* ---- tools ---- */

static mica_status check_tool(const checker *c, const json_value *tool, size_t i) {
    if (!is_object(tool))
        return fail(c, tool,
                    "an object like {\"type\": \"function\", \"function\": {\"name\": ..., "
                    "\"parameters\": ...}}",
                    "tools[%zu]", i);
    const json_value *function = mica_json_find(tool, "function");
    const char *inner = function ? ".function" : "";
    if (function && !is_object(function))
        return fail(c, function, "an object with the function's name", "tools[%zu].function", i);
    const json_value *owner = function ? function : tool;
    const json_value *name = mica_json_find(owner, "name");
    if (!is_text(name) || !name->n)
        return fail(c, name, "the function's name as a string", "tools[%zu]%s.name", i, inner);
    const json_value *text = mica_json_find_set(owner, "description");
    if (text && !is_text(text))
        return fail(c, text, "a string", "tools[%zu]%s.description", i, inner);
    static const char *const schemas[] = {"parameters", "input_schema"};
    for (size_t k = 0; k < 2; k++) {
        const json_value *schema = mica_json_find_set(owner, schemas[k]);
        if (schema && !is_object(schema) && schema->kind != JSON_KIND_BOOL)
            return fail(c, schema, "a JSON schema (an object)", "tools[%zu]%s.%s", i, inner,
                        schemas[k]);
    }
    return MICA_OK;
}

mica_status mica_chat_check_tools(const json_value *tools, mica_error *err) {
    const checker c = {.err = err};
    if (is_null(tools)) return MICA_OK;
    if (!is_list(tools)) return fail(&c, tools, "an array of tools", "tools");
    for (size_t i = 0; i < tools->n; i++) {
        mica_status st = check_tool(&c, tools->items[i], i);
        if (st) return st;
    }
    return MICA_OK;
}

/* ---- calls ---- */

static mica_status check_call(const checker *c, const json_value *call, size_t m, size_t i) {
    if (!is_object(call))
        return fail(c, call,
                    "an object like {\"type\": \"function\", \"function\": {\"name\": ..., "
                    "\"arguments\": ...}}",
                    "messages[%zu].tool_calls[%zu]", m, i);
    const json_value *function = mica_json_find(call, "function");
    const char *inner = function ? ".function" : "";
    if (function && !is_object(function))
        return fail(c, function, "an object with name and arguments",
                    "messages[%zu].tool_calls[%zu].function", m, i);
    const json_value *owner = function ? function : call;
    const json_value *name = mica_json_find(owner, "name");
    const json_value *arguments = mica_json_find_set(owner, "arguments");
    if (!is_text(name) || !name->n)
        return fail(c, name, "the function's name as a string",
                    "messages[%zu].tool_calls[%zu]%s.name", m, i, inner);
    if (arguments && !is_object(arguments) && !is_text(arguments))
        return fail(c, arguments, "an object, or its JSON text as a string",
                    "messages[%zu].tool_calls[%zu]%s.arguments", m, i, inner);
    return MICA_OK;
}

static mica_status check_calls(const checker *c, const json_value *message, size_t m) {
    const json_value *calls = mica_json_find_set(message, "tool_calls");
    if (!calls) return MICA_OK;
    if (!is_list(calls)) return fail(c, calls, "an array of calls", "messages[%zu].tool_calls", m);
    for (size_t i = 0; i < calls->n; i++) {
        mica_status st = check_call(c, calls->items[i], m, i);
        if (st) return st;
    }
    return MICA_OK;
}

/* ---- content ---- */

#define PART_TYPES                                                                                 \
    "text", "input_text", "output_text", "refusal", "thinking", "reasoning", "image", "image_url", \
        "input_image", "audio", "audio_url", "input_audio", "video", "video_url", "input_video",   \
        "file", "input_file", "document"

static bool is_known_part(const checker *c, const char *type) {
    static const char *const known[] = {PART_TYPES};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(type, known[i]) == 0) return true;
    size_t n;
    const char *source = mica_template_source(c->v->jinja, &n);
    return *type && memmem(source, n, type, strlen(type));
}

static mica_status check_part(const checker *c, const json_value *part, size_t m, size_t i) {
    if (!is_object(part))
        return fail(c, part, "an object like {\"type\": \"text\", \"text\": ...}",
                    "messages[%zu].content[%zu]", m, i);
    const json_value *type = mica_json_find(part, "type"), *text = mica_json_find(part, "text");
    const char *name = mica_json_string(type, "text");
    if (type && !is_text(type))
        return fail(c, type, "a string like \"text\"", "messages[%zu].content[%zu].type", m, i);
    if (!is_known_part(c, name))
        return mica_fail(c->err, MICA_E_INVALID,
                         "messages[%zu].content[%zu].type: \"%.40s\" is no type of a part; text is "
                         "{\"type\": \"text\", \"text\": ...}",
                         m, i, name);
    size_t n = strlen(name);
    bool wants_text = n >= 4 && strcmp(name + n - 4, "text") == 0;
    if (wants_text && !is_text(text))
        return fail(c, text, "a string", "messages[%zu].content[%zu].text", m, i);
    return MICA_OK;
}

/* Whether an assistant's message says something without content. */
static bool speaks_otherwise(const json_value *message) {
    static const char *const keys[] = {"tool_calls", "reasoning_content", "thinking", "reasoning",
                                       "refusal",    "function_call",     "audio"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (mica_json_find_set(message, keys[i])) return true;
    return false;
}

static mica_status check_content(const checker *c, const json_value *message, size_t m) {
    static const char expected[] = "a string or an array of parts";
    const json_value *content = mica_json_find(message, "content");
    const char *role = mica_chat_role(message);
    bool is_result = strcmp(role, "tool") == 0; /* some templates write out what a tool returned */
    if (is_text(content) || (is_result && is_object(content))) return MICA_OK;
    if (is_null(content) && strcmp(role, "assistant") == 0 && speaks_otherwise(message))
        return MICA_OK;
    if (!is_list(content)) return fail(c, content, expected, "messages[%zu].content", m);
    for (size_t i = 0; i < content->n && !is_result; i++) {
        mica_status st = check_part(c, content->items[i], m, i);
        if (st) return st;
    }
    return MICA_OK;
}

/* ---- messages ---- */

static mica_status check_message(const checker *c, const json_value *message, size_t m) {
    if (!is_object(message))
        return fail(c, message, "an object like {\"role\": \"user\", \"content\": ...}",
                    "messages[%zu]", m);
    const json_value *role = mica_json_find(message, "role");
    if (!is_text(role) || !role->n)
        return fail(c, role, "a string like \"system\", \"user\", \"assistant\" or \"tool\"",
                    "messages[%zu].role", m);
    mica_status st = check_content(c, message, m);
    return st ? st : check_calls(c, message, m);
}

mica_status mica_chat_check_messages(const chat_variant *v, const json_value *messages,
                                     mica_error *err) {
    const checker c = {.v = v, .err = err};
    if (!is_list(messages) || !messages->n)
        return fail(&c, messages, "an array of messages, one at least", "messages");
    for (size_t i = 0; i < messages->n; i++) {
        mica_status st = check_message(&c, messages->items[i], i);
        if (st) return st;
    }
    return MICA_OK;
}
