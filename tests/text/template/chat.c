/* chat.c: where a model's template is found, what it can do, how messages are brought into its
 * form, and the open end of a message that goes on.
 */
#include "cmocka_base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "text/template/chat.h"
#include "text/template/chat_dialect.h"

static const char special[] = "{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\"}";
static mica_arena arena;

static json_value *parse(const char *text) {
    json_value *v = NULL;
    mica_error err;
    if (mica_json_parse(&v, text, strlen(text), "test", true, &arena, &err)) {
        printf("%s\n", err.message);
        fail();
    }
    return v;
}

static int begin(void **state) {
    (void)state;
    mica_arena_init(&arena, 0);
    return 0;
}

static int end(void **state) {
    (void)state;
    mica_arena_deinit(&arena);
    return 0;
}

static chat_template *from_text(const char *source) {
    chat_template *t = NULL;
    mica_error err;
    if (mica_chat_template_from_text(&t, source, strlen(source), parse(special), "t", &err)) {
        printf("%s\n", err.message);
        fail();
    }
    return t;
}

static void gives(const chat_template *t, chat_request request, const char *messages,
                  const char *wanted) {
    rendered_text out = {0};
    mica_error err = {0};
    request.messages = parse(messages);
    mica_status st = mica_chat_render(t, &request, &out, &err);
    if (st || strcmp(out.text, wanted) != 0)
        printf("%s\n  wanted %s\n  found  %s\n", messages, wanted, st ? err.message : out.text);
    assert_int_equal(st, MICA_OK);
    assert_string_equal(out.text, wanted);
    mica_rendered_text_deinit(&out);
}

static void refuses(const chat_template *t, chat_request request, const char *messages,
                    const char *message) {
    rendered_text out = {0};
    mica_error err = {0};
    request.messages = parse(messages);
    assert_int_equal(mica_chat_render(t, &request, &out, &err), MICA_E_INVALID);
    if (!strstr(err.message, message)) printf("%s\n", err.message);
    assert_non_null(strstr(err.message, message));
}

/* ---- where templates are ---- */

static char folder[] = "/tmp/mica-chat-XXXXXX";

static void put(const char *name, const char *text) {
    char path[300];
    mica_error err;
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    assert_int_equal(mica_file_write(path, text, strlen(text), &err), MICA_OK);
}

static void drop(const char *name) {
    char path[300];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    assert_int_equal(remove(path), 0);
}

static void found(const char *choice, const char *wanted, const char *with_tools) {
    chat_template *t = NULL;
    mica_error err = {0};
    mica_status st = mica_chat_template_open(&t, folder, choice, &err);
    if (st) printf("%s\n", err.message);
    assert_int_equal(st, MICA_OK);
    chat_request request = {0};
    gives(t, request, "[{\"role\": \"user\", \"content\": \"x\"}]", wanted);
    request.tools = parse("[{\"name\": \"f\"}]");
    gives(t, request, "[{\"role\": \"user\", \"content\": \"x\"}]", with_tools);
    mica_chat_template_free(t);
}

static void not_found(const char *choice, const char *message) {
    chat_template *t = NULL;
    mica_error err = {0};
    assert_int_not_equal(mica_chat_template_open(&t, folder, choice, &err), MICA_OK);
    if (!strstr(err.message, message)) printf("%s\n", err.message);
    assert_non_null(strstr(err.message, message));
}

static void files_have_an_order(void **state) {
    char path[300];
    (void)state;
    assert_non_null(mkdtemp(folder));
    found(NULL, "<|im_start|>user\nx<|im_end|>\n", "<|im_start|>user\nx<|im_end|>\n");
    put("tokenizer_config.json", "{\"bos_token\": {\"content\": \"<b>\"}, \"eos_token\": null,"
                                 " \"chat_template\": \"config {{ bos_token }}{{ eos_token }}\"}");
    found(NULL, "config <b>", "config <b>");
    put("special_tokens_map.json", "{\"eos_token\": \"<e>\", \"bos_token\": \"no\"}");
    found(NULL, "config <b><e>", "config <b><e>");
    put("chat_template.json", "{\"chat_template\": \"legacy\"}");
    found(NULL, "legacy", "legacy");
    put("chat_template.jinja", "jinja\n");
    found(NULL, "jinja", "jinja");
    snprintf(path, sizeof(path), "%s/additional_chat_templates", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    put("additional_chat_templates/tool_use.jinja", "tools");
    put("additional_chat_templates/rag.jinja", "rag");
    found(NULL, "jinja", "tools");
    found("rag", "rag", "rag");
    snprintf(path, sizeof(path), "%s/mine", folder);
    put("mine", "mine {{ bos_token }}");
    found(path, "mine <b>", "mine <b>");
    not_found("nosuch", "no chat template 'nosuch', and no file of that name (there are: default,");
    put("chat_template.jinja", "{% frob %}");
    not_found(NULL, "chat template default:1:4: 'frob'");
    drop("additional_chat_templates/tool_use.jinja");
    drop("additional_chat_templates/rag.jinja");
    drop("additional_chat_templates");
    drop("chat_template.jinja");
    drop("chat_template.json");
    put("tokenizer_config.json",
        "{\"chat_template\": [{\"name\": \"default\", \"template\": \"one\"}, {\"name\": "
        "\"tool_use\", \"template\": \"two\"}, {\"name\": \"rag\", \"template\": \"three\"}]}");
    found(NULL, "one", "two");
    found("rag", "three", "three");
    put("tokenizer_config.json", "{\"chat_template\": [{\"name\": \"a\", \"template\": \"one\"}, "
                                 "{\"name\": \"b\", \"template\": \"two\"}]}");
    not_found(NULL, "several chat templates and none is \"default\"");
    put("tokenizer_config.json", "{\"chat_template\": 5}");
    not_found(NULL, "no string or list");
    drop("tokenizer_config.json");
    drop("special_tokens_map.json");
    drop("mine");
    assert_int_equal(rmdir(folder), 0);
}

/* ---- what templates can do ---- */

#define PLAIN                                                          \
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}" \
    "{% if add_generation_prompt %}<assistant>{% endif %}"
#define NO_SYSTEM \
    "{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}" PLAIN
#define PARTS                                                                                    \
    "{% for m in messages %}<{{ m.role }}>{% if m.content is string %}{{ m.content }}{% else %}" \
    "{% for p in m.content %}[{{ p.text if p.type == 'text' else p.type }}]{% endfor %}"         \
    "{% endif %}{% endfor %}"
#define PARTS_ONLY \
    "{% for m in messages %}{% for p in m.content %}[{{ p['text'] }}]{% endfor %}{% endfor %}"
#define WITH_CALLS(arguments)                                                                     \
    "{% for m in messages %}<{{ m.role }}>{{ m.name }}{{ m.content }}{% for c in m.tool_calls %}" \
    "{{ c.function.name ~ '(' ~ " arguments " ~ ')' }}{% endfor %}{% endfor %}"

static const chat_capabilities *can(const chat_template *t) {
    return mica_chat_template_capabilities(t, false);
}

static void capabilities_are_found(void **state) {
    (void)state;
    chat_template *t = from_text(PLAIN);
    assert_true(can(t)->string_content && can(t)->system_role);
    assert_false(can(t)->typed_content || can(t)->tools || can(t)->tool_calls);
    mica_chat_template_free(t);
    t = from_text(NO_SYSTEM);
    assert_false(can(t)->system_role);
    mica_chat_template_free(t);
    t = from_text(PARTS);
    assert_true(can(t)->string_content && can(t)->typed_content);
    mica_chat_template_free(t);
    t = from_text(PARTS_ONLY);
    assert_true(!can(t)->string_content && can(t)->typed_content);
    mica_chat_template_free(t);
    t = from_text(WITH_CALLS("c.function.arguments|tojson"));
    assert_true(can(t)->object_arguments && !can(t)->string_arguments && can(t)->parallel_calls);
    mica_chat_template_free(t);
    t = from_text(WITH_CALLS("('' + c.function.arguments)"));
    assert_true(!can(t)->object_arguments && can(t)->string_arguments);
    mica_chat_template_free(t);
    t = from_text("{{ tools|tojson }}" PLAIN "{{ messages[-1].reasoning_content }}");
    assert_true(can(t)->tools && can(t)->reasoning && !can(t)->tool_calls);
    mica_chat_template_free(t);
}

static void messages_take_the_form_of_the_template(void **state) {
    static const char typed[] =
        "[{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": "
        "\"a\"}, {\"type\": \"text\", \"text\": \"b\"}]}]";
    const chat_request request = {0};
    (void)state;
    chat_template *t = from_text(PLAIN);
    gives(t, request, typed, "<user>ab");
    gives(t, request, "[{\"role\": \"developer\", \"content\": \"d\"}]", "<system>d");
    gives(t, request, "[{\"role\": \"user\", \"content\": \"\", \"x\": null}]", "<user>");
    refuses(t, request, "[{\"role\": \"user\", \"content\": [{\"type\": \"image\"}]}]",
            "messages[0].content[0]: a part of type \"image\"");
    refuses(t, request, "[5]", "messages[0]: expected an object");
    refuses(t, request, "{}", "messages: expected an array");
    mica_chat_template_free(t);
    t = from_text(PLAIN "{# developer #}");
    gives(t, request, "[{\"role\": \"developer\", \"content\": \"d\"}]", "<developer>d");
    mica_chat_template_free(t);
    t = from_text(PARTS);
    gives(t, request, typed, "<user>[a][b]");
    gives(t, request, "[{\"role\": \"user\", \"content\": [{\"type\": \"image\"}]}]",
          "<user>[image]");
    mica_chat_template_free(t);
    t = from_text(PARTS_ONLY);
    gives(t, request, "[{\"role\": \"user\", \"content\": \"abc\"}]", "[abc]");
    mica_chat_template_free(t);
    t = from_text(NO_SYSTEM);
    gives(t, request,
          "[{\"role\": \"system\", \"content\": \"S\"}, {\"role\": \"user\", "
          "\"content\": \"U\"}]",
          "<user>S\n\nU");
    gives(t, request, "[{\"role\": \"system\", \"content\": \"S\"}]", "<user>S");
    gives(t, request,
          "[{\"role\": \"system\", \"content\": \"S\"}, {\"role\": \"system\", "
          "\"content\": \"T\"}, {\"role\": \"user\", \"content\": \"U\"}]",
          "<user>S\n\nT\n\nU");
    mica_chat_template_free(t);
    t = from_text("{{ messages[0].thinking }}|{{ messages[0].reasoning_content }}");
    gives(t, request, "[{\"role\": \"assistant\", \"reasoning\": \"r\"}]", "r|r");
    gives(t, request, "[{\"role\": \"assistant\", \"reasoning_content\": \"r\"}]", "r|r");
    mica_chat_template_free(t);
}

static void arguments_take_the_form_of_the_template(void **state) {
    static const char as_object[] =
        "[{\"role\": \"assistant\", \"tool_calls\": [{\"id\": \"1\", \"function\": {\"name\": "
        "\"f\", "
        "\"arguments\": {\"a\":[1,12345678901234567890]}}}]}, {\"role\": \"tool\", "
        "\"tool_call_id\": \"1\", \"content\": \"R\"}]";
    static const char as_text[] = "[{\"role\": \"assistant\", \"tool_calls\": [{\"id\": \"1\", "
                                  "\"function\": {\"name\": \"f\", "
                                  "\"arguments\": \"{\\\"a\\\":[1,12345678901234567890]}\"}}]}]";
    static const char broken[] =
        "[{\"role\": \"user\", \"content\": \"\"}, {\"role\": \"assistant\", \"tool_calls\": "
        "[{\"function\": {\"name\": \"f\", \"arguments\": \"{oops\"}}]}]";
    static const char empty[] = "[{\"role\": \"assistant\", \"tool_calls\": "
                                "[{\"function\": {\"name\": \"f\", \"arguments\": \"\"}}]}]";
    const chat_request request = {0};
    (void)state;
    chat_template *t = from_text(WITH_CALLS("c.function.arguments|tojson"));
    gives(t, request, as_object, "<assistant>f({\"a\": [1, 12345678901234567890]})<tool>fR");
    gives(t, request, as_text, "<assistant>f({\"a\": [1, 12345678901234567890]})");
    gives(t, request, empty, "<assistant>f({})");
    refuses(t, request, broken, "messages[1].tool_calls: the arguments are no JSON");
    mica_chat_template_free(t);
    t = from_text(WITH_CALLS("('' + c.function.arguments)"));
    gives(t, request, as_object, "<assistant>f({\"a\": [1, 12345678901234567890]})<tool>fR");
    gives(t, request, as_text, "<assistant>f({\"a\":[1,12345678901234567890]})");
    mica_chat_template_free(t);
}

/* Clients send null, or nothing, beside calls; some templates add to it all the same. */
static void calls_need_no_content(void **state) {
    static const char bare[] =
        "[{\"role\": \"assistant\", \"content\": null, \"reasoning\": \"R\", "
        "\"tool_calls\": [{\"id\": \"1\", \"function\": {\"name\": \"f\", "
        "\"arguments\": {}}}]}]";
    const chat_request request = {0};
    (void)state;
    chat_template *t = from_text(WITH_CALLS("c.function.arguments|tojson + m.content"));
    gives(t, request, bare, "<assistant>f({})");
    mica_chat_template_free(t);
    t = from_text(WITH_CALLS("c.function.arguments|tojson ~ (m.content is defined)"));
    gives(t, request, bare, "<assistant>f({}False)");
    mica_chat_template_free(t);
    t = from_text("{% for m in messages %}{{ m['role'] + m['content'] }};{% endfor %}");
    gives(t, request, bare, "assistant;");
    mica_chat_template_free(t);
    t = from_text("{% for m in messages %}{{ m.content is defined }}{% endfor %}");
    gives(t, request, bare, "False");
    mica_chat_template_free(t);
}

/* A name that the client did not send is no reason for a template to raise. */
static void other_names_do_no_harm(void **state) {
    static const char full[] =
        "[{\"role\": \"assistant\", \"content\": \"C\", \"reasoning_content\": \"R\", "
        "\"tool_calls\": [{\"id\": \"1\", \"function\": {\"name\": \"f\", \"arguments\": {}}}]}]";
    static const char thinking[] =
        "[{\"role\": \"assistant\", \"content\": \"C\", \"thinking\": \"R\", "
        "\"tool_calls\": [{\"id\": \"1\", \"function\": {\"name\": \"f\", \"arguments\": {}}}]}]";
    static const char no_text[] =
        "[{\"role\": \"assistant\", \"content\": \"\", \"reasoning_content\": \"R\", "
        "\"tool_calls\": [{\"id\": \"1\", \"function\": {\"name\": \"f\", \"arguments\": {}}}]}]";
    static const char no_call[] =
        "[{\"role\": \"assistant\", \"content\": \"C\", \"reasoning_content\": \"R\"}]";
    const chat_request request = {0};
    (void)state;
    chat_template *t = from_text(
        "{% for m in messages %}{% if m.tool_calls and m.content and m.thinking %}"
        "{{ raise_exception('both') }}{% endif %}({{ m.thinking }}){% endfor %}" WITH_CALLS(
            "c.function.arguments|tojson"));
    gives(t, request, full, "()<assistant>Cf({})");
    gives(t, request, no_text, "(R)<assistant>f({})");
    gives(t, request, no_call, "(R)<assistant>C");
    refuses(t, request, thinking, "both");
    mica_chat_template_free(t);
    t = from_text(
        "{% for m in messages %}{% if m.tool_calls and m.content and "
        "m.reasoning_content %}{{ raise_exception('both') }}{% endif %}"
        "({{ m.reasoning_content }}){% endfor %}" WITH_CALLS("c.function.arguments|tojson"));
    gives(t, request, thinking, "()<assistant>Cf({})");
    refuses(t, request, full, "both");
    mica_chat_template_free(t);
    t = from_text("{% for m in messages %}({{ m.thinking }}{{ m.reasoning_content }}){% endfor "
                  "%}" WITH_CALLS("c.function.arguments|tojson"));
    gives(t, request, full, "(RR)<assistant>Cf({})");
    mica_chat_template_free(t);
}

static void the_context_is_whole(void **state) {
    (void)state;
    chat_template *t = from_text("{{ bos_token }}{{ eos_token }}{{ unk_token is defined }}"
                                 "{{ tools is none }}{{ documents is none }}"
                                 "{{ add_generation_prompt }}{{ x }}");
    chat_request request = {.add_generation_prompt = true};
    static const char messages[] = "[{\"role\": \"user\", \"content\": \"x\"}]";
    gives(t, request, messages, "<s></s>FalseTrueTrueTrue");
    request.tools = parse("[]");
    request.kwargs = parse("{\"x\": [1], \"bos_token\": \"B\"}");
    gives(t, request, messages, "B</s>FalseTrueTrueTrue[1]");
    request.tools = parse("[{\"name\": \"f\"}]");
    request.documents = parse("[{}]");
    gives(t, request, messages, "B</s>FalseFalseFalseTrue[1]");
    request.kwargs = parse("{\"messages\": 1}");
    refuses(t, request, messages, "'messages' cannot be replaced");
    mica_chat_template_free(t);
    t = from_text("{{ raise_exception('roles must alternate') }}");
    request.kwargs = NULL;
    refuses(t, request, messages, "the template raised: roles must alternate");
    mica_chat_template_free(t);
}

/* ---- what is refused before a template sees it ---- */

#define USER(CONTENT) "[{\"role\": \"user\", \"content\": " CONTENT "}]"
#define CALLS(LIST) "[{\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": " LIST "}]"

static void shapes_are_checked(void **state) {
    static const struct {
        const char *messages, *tools, *word;
    } cases[] = {
        {"[]", NULL, "messages: expected an array of messages, one at least, found an empty array"},
        {"[{\"content\": \"a\"}]", NULL, "messages[0].role: expected a string"},
        {"[{\"role\": 5, \"content\": \"a\"}]", NULL, "found a number"},
        {"[{\"role\": \"\", \"content\": \"a\"}]", NULL, "found an empty string"},
        {USER("5"), NULL, "messages[0].content: expected a string or an array of parts, found a n"},
        {USER("null"), NULL, "messages[0].content: "},
        {USER("{\"type\": \"text\"}"), NULL, "messages[0].content: "},
        {USER("[\"a\"]"), NULL, "messages[0].content[0]: "},
        {USER("[{\"type\": \"text\", \"text\": \"a\"}, {\"type\": \"foo\"}]"), NULL,
         "messages[0].content[1].type: \"foo\""},
        {USER("[{\"type\": 1}]"), NULL, "messages[0].content[0].type: expected a string"},
        {USER("[{\"type\": \"text\", \"text\": 1}]"), NULL, "messages[0].content[0].text: "},
        {"[{\"role\": \"user\"}]", NULL, "found nothing"},
        {"[{\"role\": \"assistant\", \"content\": null}]", NULL, "messages[0].content: "},
        {CALLS("5"), NULL, "messages[0].tool_calls: expected an array of calls"},
        {CALLS("[\"f\"]"), NULL, "messages[0].tool_calls[0]: expected an object"},
        {CALLS("[{\"function\": 1}]"), NULL, "messages[0].tool_calls[0].function: "},
        {CALLS("[{\"function\": {\"name\": 1}}]"), NULL, "tool_calls[0].function.name: "},
        {CALLS("[{\"name\": \"f\"}, {\"name\": \"f\", \"arguments\": [1]}]"), NULL,
         "messages[0].tool_calls[1].arguments: "},
        {USER("\"a\""), "{}", "tools: expected an array of tools, found an object"},
        {USER("\"a\""), "[1]", "tools[0]: expected an object"},
        {USER("\"a\""), "[{\"name\": \"f\"}, {\"type\": \"function\"}]", "tools[1].name: "},
        {USER("\"a\""), "[{\"function\": {\"name\": \"f\", \"parameters\": []}}]",
         "tools[0].function.parameters: "},
        {USER("\"a\""), "[{\"name\": \"f\", \"description\": 1}]", "tools[0].description: "},
    };
    (void)state;
    chat_template *t = from_text(PARTS "{{ tools }}");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const chat_request request = {.tools = cases[i].tools ? parse(cases[i].tools) : NULL};
        refuses(t, request, cases[i].messages, cases[i].word);
    }
    mica_chat_template_free(t);
    t = from_text(PARTS "{# foo #}"); /* it knows of such parts */
    const chat_request request = {0};
    gives(t, request, USER("[{\"type\": \"text\", \"text\": \"a\"}, {\"type\": \"foo\"}]"),
          "<user>[a][foo]");
    mica_chat_template_free(t);
}

/* ---- continuing ---- */

static void final_messages_continue(void **state) {
    const chat_request request = {.continue_final = true};
    (void)state;
    chat_template *t =
        from_text("{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}"
                  "{% if add_generation_prompt %}<assistant>{% endif %}");
    gives(t, request,
          "[{\"role\": \"user\", \"content\": \"u\"}, {\"role\": \"assistant\", "
          "\"content\": \"abc \"}]",
          "<user>u</><assistant>abc ");
    refuses(t, request, "[{\"role\": \"user\", \"content\": \"u\"}]",
            "only a final assistant message");
    refuses(t, request, "[]", "one at least, found an empty array");
    refuses(t, request,
            "[{\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [{\"function\":"
            " {\"name\": \"f\"}}]}]",
            "messages[0]: a message with tool_calls");
    refuses(t, request, "[{\"role\": \"assistant\", \"reasoning\": \"r\"}]", "no text to continue");
    chat_request both = {.continue_final = true, .add_generation_prompt = true};
    refuses(t, both, "[]", "cannot be continued and a new one begun");
    mica_chat_template_free(t);
    t = from_text("{% for m in messages %}<{{ m.role }}>{{ m.content|trim }}</>{% endfor %}");
    gives(t, request, "[{\"role\": \"assistant\", \"content\": \" abc \\n\"}]", "<assistant>abc");
    mica_chat_template_free(t);
    t = from_text(PARTS "</>");
    gives(t, request,
          "[{\"role\": \"assistant\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}, "
          "{\"type\": \"text\", \"text\": \"b\"}]}]",
          "<assistant>[a][b");
    mica_chat_template_free(t);
    /* The text is lost: a new answer is begun with it. */
    t = from_text(
        "{% for m in messages %}<{{ m.role }}>{{ m.content.split('@')[0] }}</>{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}");
    gives(t, request,
          "[{\"role\": \"user\", \"content\": \"u\"}, {\"role\": \"assistant\", "
          "\"content\": \"a@b\"}]",
          "<user>u</><assistant>a@b");
    mica_chat_template_free(t);
}

static void continued_text_has_its_origin(void **state) {
    chat_request request = {.continue_final = true};
    rendered_text out = {0};
    (void)state;
    chat_template *t = from_text("{% for m in messages %}<>{{ m.content }}</>{% endfor %}");
    request.messages = parse("[{\"role\": \"user\", \"content\": \"u\"}, {\"role\": \"assistant\", "
                             "\"content\": \"abc\"}]");
    assert_int_equal(mica_chat_render(t, &request, &out, NULL), MICA_OK);
    assert_string_equal(out.text, "<>u</><>abc");
    assert_int_equal(out.n_spans, 2);
    assert_int_equal(out.spans[0].origin, ORIGIN_DATA);
    assert_int_equal(out.spans[1].begin, 8);
    assert_int_equal(out.spans[1].end, 11);
    assert_int_equal(out.spans[1].origin, ORIGIN_ASSISTANT);
    mica_rendered_text_deinit(&out);
    mica_chat_template_free(t);
}

static void speaks(const char *calls, const char *reasoning, bool with_tools, bool warns) {
    chat_template *t = NULL;
    toolcall_dialect d = {0};
    mica_error err = {0};
    if (mica_chat_template_open(&t, folder, NULL, &err)) fail_msg("%s", err.message);
    assert_int_equal(mica_chat_dialect_find(&d, t, NULL, with_tools, &err), MICA_OK);
    assert_string_equal(mica_toolcall_format_name(&d), calls);
    assert_string_equal(mica_toolcall_reasoning_name(&d), reasoning);
    assert_int_equal(mica_chat_dialect_warning(t, &d) != NULL, warns);
    mica_chat_template_free(t);
}

static void answers_have_a_dialect(void **state) {
    (void)state;
    strcpy(folder, "/tmp/mica-chat-XXXXXX");
    assert_non_null(mkdtemp(folder));
    speaks("none", "none", true, false);
    put("tokenizer_config.json", "{\"chat_template\": \"{{ tools|tojson if tools }}"
                                 "{{ messages[0].content }}\"}");
    speaks("none", "none", true, true);
    put("tokenizer_config.json", "{\"tool_parser_type\": \"glm47\", \"chat_template\": \"{{ "
                                 "tools|tojson if tools }}<think><tool_call>\"}");
    speaks("glm", "think", true, false);
    put("tokenizer_config.json", "{\"tool_parser_type\": \"of-another-time\", \"chat_template\": "
                                 "\"{{ tools|tojson if tools }}<think><tool_call>\"}");
    speaks("hermes", "think", true, false);
    put("tokenizer_config.json",
        "{\"chat_template\": [{\"name\": \"default\", \"template\": \"x\"}, {\"name\": "
        "\"tool_use\", \"template\": \"[TOOL_CALLS]\"}]}");
    speaks("none", "none", false, false);
    speaks("mistral", "none", true, false);
    drop("tokenizer_config.json");
    assert_int_equal(rmdir(folder), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_have_an_order),
        cmocka_unit_test(answers_have_a_dialect),
        cmocka_unit_test(capabilities_are_found),
        cmocka_unit_test(messages_take_the_form_of_the_template),
        cmocka_unit_test(arguments_take_the_form_of_the_template),
        cmocka_unit_test(calls_need_no_content),
        cmocka_unit_test(other_names_do_no_harm),
        cmocka_unit_test(the_context_is_whole),
        cmocka_unit_test(shapes_are_checked),
        cmocka_unit_test(final_messages_continue),
        cmocka_unit_test(continued_text_has_its_origin),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
