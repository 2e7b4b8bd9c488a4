/* chat_probe.c: finds out what a template can show, by rendering small conversations with words
 * that occur nowhere else and looking for them.
 *
 * A probe that fails means that the template cannot do it; only want of memory is an error.
 */
#include <string.h>

#include "text/template/chat_impl.h"

/* The probes. Ids have the form that the strictest template asks for. */
#define USER "{\"role\":\"user\",\"content\":\"Quser\"}"
#define CALL(id, name, arguments)                                             \
    "{\"id\":\"" id "\",\"type\":\"function\",\"function\":{\"name\":\"" name \
    "\",\"arguments\":" arguments "}}"
#define RESULT(id, name)                                                                \
    "{\"role\":\"tool\",\"tool_call_id\":\"" id "\",\"name\":\"" name "\",\"content\":" \
    "\"Qresult\"}"
#define CALLS_WITH(content, calls, results) \
    "[" USER ",{\"role\":\"assistant\"," content "\"tool_calls\":[" calls "]}," results "]"
#define CALLS(calls, results) CALLS_WITH("\"content\":\"\",", calls, results)
#define FULL_CALLS(reasoning, arguments)                                \
    CALLS_WITH("\"content\":\"Qtext\",\"" reasoning "\":\"Qthought\",", \
               CALL(ID_A, "Qfirst", arguments), RESULT(ID_A, "Qfirst"))
#define LONE_CALL(content)                       \
    "[" USER ",{\"role\":\"assistant\"," content \
    "\"tool_calls\":[" CALL(ID_A, "Qfirst", OBJECT) "]}]"
#define OBJECT "{\"Qargument\":\"Qvalue\"}"
#define JSON_TEXT "\"{\\\"Qargument\\\":\\\"Qvalue\\\"}\""
#define ID_A "callAAAA1"
#define ID_B "callBBBB2"

static const char tools_json[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"Qtool\",\"description\":\"Qdescription\","
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"Qkey\":{\"type\":\"string\","
    "\"description\":\"Qkey\"}},\"required\":[\"Qkey\"]}}}]";

typedef struct probe {
    const char *messages;
    bool has_tools;
    const char *wanted[3]; /* words that must be in the rendering */
    const char *unwanted;  /* a word that shows a wrong form, or NULL */
    bool is_thinking;      /* with the variables that switch reasoning on */
} probe;

static bool contains(const rendered_text *text, const char *word) {
    return memmem(text->text, text->n, word, strlen(word)) != NULL;
}

static bool fits(const probe *p, const rendered_text *text) {
    for (size_t i = 0; i < 3 && p->wanted[i]; i++)
        if (!contains(text, p->wanted[i])) return false;
    return !p->unwanted || !contains(text, p->unwanted);
}

static mica_status render(const chat_template *t, const chat_variant *v, const probe *p,
                          bool has_tools, rendered_text *out, mica_error *err) {
    static const char thinking[] = "{\"enable_thinking\":true,\"thinking\":true}";
    mica_arena arena;
    json_value *messages, *tools = NULL, *kwargs = NULL;
    mica_arena_init(&arena, 0);
    mica_status st =
        mica_json_parse(&messages, p->messages, strlen(p->messages), "probe", false, &arena, err);
    if (!st && has_tools)
        st = mica_json_parse(&tools, tools_json, sizeof(tools_json) - 1, "probe", false, &arena,
                             err);
    if (!st && p->is_thinking)
        st = mica_json_parse(&kwargs, thinking, sizeof(thinking) - 1, "probe", false, &arena, err);
    chat_request request = {.tools = tools, .kwargs = kwargs, .has_now = true};
    if (!st) st = mica_chat_run(t, v, messages, &request, false, out, err);
    mica_arena_deinit(&arena);
    return st;
}

/* A template for tools may demand some, so what fails is tried with and without them. */
static mica_status run(const chat_template *t, const chat_variant *v, const probe *p, bool *out,
                       mica_error *err) {
    *out = false;
    for (int i = 0; i < 2 && !*out; i++) {
        bool has_tools = p->has_tools || i == 1;
        rendered_text text = {0};
        mica_error why;
        mica_status st = render(t, v, p, has_tools, &text, &why);
        *out = !st && fits(p, &text);
        mica_rendered_text_deinit(&text);
        if (st == MICA_E_NOMEM) return mica_fail(err, st, "%s", why.message);
        if (p->has_tools) break;
    }
    return MICA_OK;
}

static const char user_json[] = "[" USER "]";
static const char typed_json[] =
    "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"Qpart\"}]}]";
static const char system_json[] = "[{\"role\":\"system\",\"content\":\"Qsystem\"}," USER "]";
static const char object_json[] = CALLS(CALL(ID_A, "Qfirst", OBJECT), RESULT(ID_A, "Qfirst"));
static const char text_json[] = CALLS(CALL(ID_A, "Qfirst", JSON_TEXT), RESULT(ID_A, "Qfirst"));
static const char bare_object_json[] =
    CALLS_WITH("", CALL(ID_A, "Qfirst", OBJECT), RESULT(ID_A, "Qfirst"));
static const char bare_text_json[] =
    CALLS_WITH("", CALL(ID_A, "Qfirst", JSON_TEXT), RESULT(ID_A, "Qfirst"));
static const char objects_json[] =
    CALLS(CALL(ID_A, "Qfirst", OBJECT) "," CALL(ID_B, "Qsecond", OBJECT),
          RESULT(ID_A, "Qfirst") "," RESULT(ID_B, "Qsecond"));
static const char texts_json[] =
    CALLS(CALL(ID_A, "Qfirst", JSON_TEXT) "," CALL(ID_B, "Qsecond", JSON_TEXT),
          RESULT(ID_A, "Qfirst") "," RESULT(ID_B, "Qsecond"));
static const char reasoning_json[] =
    "[" USER ",{\"role\":\"assistant\",\"content\":\"Qanswer\",\"reasoning_content\":"
    "\"Qthought\",\"thinking\":\"Qthought\"}]";

/* In the form of arguments that the template takes: object, text. */
static const char *const full_json[][2] = {
    {FULL_CALLS("thinking", OBJECT), FULL_CALLS("thinking", JSON_TEXT)},
    {FULL_CALLS("reasoning_content", OBJECT), FULL_CALLS("reasoning_content", JSON_TEXT)},
};
static const char lone_json[] = LONE_CALL("");
static const char lone_empty_json[] = LONE_CALL("\"content\":\"\",");

/* What a template that shows calls makes of two of them, of a call in a message without content,
 * as clients send it, and of one beside content and reasoning. */
static mica_status probe_calls(const chat_template *t, chat_variant *v, mica_error *err) {
    bool is_object = v->can.object_arguments, is_bare_shown = false, is_shown[2];
    const probe two = {.messages = is_object ? objects_json : texts_json,
                       .wanted = {"Qfirst", "Qsecond", "Qvalue"}};
    const probe bare = {.messages = is_object ? bare_object_json : bare_text_json,
                        .wanted = {"Qfirst", "Qvalue"}};
    mica_status st = run(t, v, &two, &v->can.parallel_calls, err);
    if (!st) st = run(t, v, &bare, &is_bare_shown, err);
    v->wants_content = !is_bare_shown;
    for (int i = 0; i < 2 && !st; i++) {
        const probe full = {.messages = full_json[i][!is_object], .wanted = {"Qfirst", "Qvalue"}};
        st = run(t, v, &full, &is_shown[i], err);
    }
    if (st) return st;
    v->refuses_thinking = !is_shown[0];
    v->refuses_reasoning_content = !is_shown[1];
    return MICA_OK;
}

/* One that does not show calls may fail on their messages all the same. */
static mica_status probe_content(const chat_template *t, chat_variant *v, mica_error *err) {
    const probe lone = {.messages = lone_json}, lone_empty = {.messages = lone_empty_json};
    bool works = false, works_empty = false;
    mica_status st = run(t, v, &lone, &works, err);
    if (!st && !works) st = run(t, v, &lone_empty, &works_empty, err);
    v->wants_content = !works && works_empty;
    return st;
}

mica_status mica_chat_probe(const chat_template *t, chat_variant *v, mica_error *err) {
    chat_capabilities *can = &v->can;
    const struct {
        probe probe;
        bool *out;
    } probes[] = {
        {{.messages = user_json, .wanted = {"Quser"}}, &can->string_content},
        {{.messages = typed_json, .wanted = {"Qpart"}, .unwanted = "'text'"}, &can->typed_content},
        {{.messages = system_json, .wanted = {"Qsystem", "Quser"}}, &can->system_role},
        {{.messages = user_json, .has_tools = true, .wanted = {"Qtool", "Qdescription"}},
         &can->tools},
        {{.messages = object_json, .wanted = {"Qfirst", "Qvalue"}, .unwanted = "{'Qargument'"},
         &can->object_arguments},
        {{.messages = text_json, .wanted = {"Qfirst", "Qvalue"}, .unwanted = "\\\"Qargument\\\""},
         &can->string_arguments},
        {{.messages = reasoning_json, .wanted = {"Qthought"}, .is_thinking = true},
         &can->reasoning},
    };
    for (size_t i = 0; i < sizeof(probes) / sizeof(probes[0]); i++) {
        mica_status st = run(t, v, &probes[i].probe, probes[i].out, err);
        if (st) return st;
    }
    /* Not even a user's text: it wants variables that are not known here. Leave messages alone. */
    if (!can->string_content && !can->typed_content) can->string_content = can->system_role = true;
    can->tool_calls = can->object_arguments || can->string_arguments;
    return can->tool_calls ? probe_calls(t, v, err) : probe_content(t, v, err);
}
