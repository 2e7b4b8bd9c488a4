/* forced.c: what a grammar of calls lets a model write is read back by the format's own parser as
 * calls of the tools, with arguments that fit their schemas; and what must not be possible is not.
 */
#include "answer.h"
#include "cmocka_base.h"
#include "text/toolcall/call_grammar.h"
#include "walk.h"

static const char tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"parameters\":{\"type\":"
    "\"object\",\"properties\":{\"city\":{\"type\":\"string\"},\"days\":{\"type\":\"integer\","
    "\"minimum\":1,\"maximum\":14},\"unit\":{\"enum\":[\"c\",\"f\"]}},\"required\":[\"city\","
    "\"unit\"],\"additionalProperties\":false}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"find\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"ids\":{\"type\":\"array\",\"items\":{\"type\":\"integer\"}},\"deep\":{"
    "\"type\":\"boolean\"}},\"required\":[\"ids\"],\"additionalProperties\":false}}},"
    "{\"name\":\"now\",\"parameters\":{\"type\":\"object\",\"properties\":{},"
    "\"additionalProperties\":"
    "false}}]";

static const char *const formats[] = {
    "hermes",           "longcat",          "nemotron",      "granite",     "command",
    "apertus",          "tool-calls",       "gigachat",      "functools",   "command-r-plus",
    "llama3",           "mistral",          "deepseek-v3",   "kimi-k2",     "solar-open",
    "functionary-v3.1", "functionary-v3.2", "harmony",       "qwen3-coder", "seed-oss",
    "minimax-m2",       "minicpm5",         "deepseek-dsml", "glm",         "pythonic",
    "gemma4",           "function-gemma",   "minimax-m3",    "muse",        "kimi-k3",
    "hunyuan",
};
enum { N_FORMATS = sizeof(formats) / sizeof(formats[0]) };

static uint64_t seed = 1;

static void check_arguments(const char *where, const answer_call *c) {
    mica_arena arena;
    json_value *v;
    mica_error err;
    mica_arena_init(&arena, 0);
    if (mica_json_parse(&v, c->arguments.data, c->arguments.n, "arguments", false, &arena, &err))
        fail_msg("%s: %s", where, err.message);
    if (!strcmp(c->name.data, "get_weather")) {
        const char *unit = mica_json_string(mica_json_find(v, "unit"), "");
        int64_t days = mica_json_i64(mica_json_find(v, "days"), 1);
        if (strcmp(unit, "c") && strcmp(unit, "f")) fail_msg("%s: unit %s", where, unit);
        if (days < 1 || days > 14) fail_msg("%s: days", where);
        if (!mica_json_string(mica_json_find(v, "city"), NULL)) fail_msg("%s: city", where);
    } else if (!strcmp(c->name.data, "find")) {
        const json_value *ids = mica_json_find(v, "ids");
        if (!ids || ids->kind != JSON_KIND_ARRAY) fail_msg("%s: ids", where);
    } else if (strcmp(c->name.data, "now") != 0) {
        fail_msg("%s: calls %s", where, c->name.data);
    }
    mica_arena_deinit(&arena);
}

static void read_back(const toolcall_dialect *d, const bytes *text, const toolcall_choice *choice) {
    toolcall_parser *p;
    mica_error err;
    answer a = {0};
    const toolcall_options options = {.tools = tools, .n_tools = sizeof(tools) - 1};
    assert_int_equal(mica_toolcall_open(&p, d, &options, &err), MICA_OK);
    assert_int_equal(mica_toolcall_feed(p, text->data, text->n, &err), MICA_OK);
    answer_take(&a, p);
    assert_int_equal(mica_toolcall_finish(p, false, &err), MICA_OK);
    answer_take(&a, p);
    const char *name = mica_toolcall_format_name(d);
    if (a.wrong || !a.n_calls || (!choice->is_parallel && a.n_calls != 1))
        fail_msg("%s: %zu calls in \"%s\"", name, a.n_calls, text->data);
    if (a.content.n) fail_msg("%s: content \"%s\" in \"%s\"", name, a.content.data, text->data);
    for (size_t i = 0; i < a.n_calls; i++) {
        check_arguments(text->data, &a.calls[i]);
        if (choice->name) assert_string_equal(a.calls[i].name.data, choice->name);
    }
    answer_free(&a);
    mica_toolcall_free(p);
}

static void answers_are_calls(void **state) {
    (void)state;
    for (size_t i = 0; i < N_FORMATS; i++) {
        for (int kind = 0; kind < 3; kind++) {
            toolcall_dialect d;
            grammar *g;
            grammar_machine *m;
            mica_error err;
            const toolcall_source source = {.format = formats[i], .reasoning = "none"};
            const toolcall_choice choice = {.tools = tools,
                                            .n_tools = sizeof(tools) - 1,
                                            .name = kind == 1 ? "get_weather" : NULL,
                                            .is_parallel = kind == 2};
            assert_int_equal(mica_toolcall_detect(&d, &source, &err), MICA_OK);
            if (mica_toolcall_grammar(&g, &d, &choice, &err))
                fail_msg("%s: %s", formats[i], err.message);
            assert_int_equal(mica_grammar_machine_new(&m, g, NULL, NULL, 0, &err), MICA_OK);
            char trigger[TOOLCALL_TRIGGER_BYTES];
            assert_true(mica_toolcall_trigger(&d, trigger));
            for (int k = 0; k < 30; k++) {
                bytes text = {0};
                if (walk_write(m, &seed, 120, &text) != WALK_ENDS)
                    fail_msg("%s: no way to the end from \"%s\"", formats[i], text.data);
                if (!strstr(text.data, trigger))
                    fail_msg("%s: \"%s\" lacks its trigger", formats[i], text.data);
                read_back(&d, &text, &choice);
                free(text.data);
            }
            mica_grammar_machine_free(m);
            mica_grammar_free(g);
        }
    }
}

/* OpenAI: a function without parameters has an empty list of them. */
static void no_parameters_are_no_arguments(void **state) {
    static const char bare[] =
        "[{\"function\":{\"name\":\"ping\"}},{\"name\":\"pong\",\"parameters\":null},"
        "{\"name\":\"other\",\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":"
        "\"integer\"}},\"additionalProperties\":false}}]";
    static const char *const names[] = {"ping", "pong"};
    (void)state;
    for (size_t i = 0; i < 2 * N_FORMATS; i++) {
        toolcall_dialect d;
        grammar *g;
        grammar_machine *m;
        mica_error err;
        const char *format = formats[i / 2], *name = names[i % 2];
        const toolcall_source source = {.format = format, .reasoning = "none"};
        const toolcall_choice choice = {.tools = bare, .n_tools = sizeof(bare) - 1, .name = name};
        const toolcall_options options = {.tools = bare, .n_tools = sizeof(bare) - 1};
        assert_int_equal(mica_toolcall_detect(&d, &source, &err), MICA_OK);
        if (mica_toolcall_grammar(&g, &d, &choice, &err)) fail_msg("%s: %s", format, err.message);
        assert_int_equal(mica_grammar_machine_new(&m, g, NULL, NULL, 0, &err), MICA_OK);
        for (int k = 0; k < 10; k++) {
            bytes text = {0};
            answer a = {0};
            toolcall_parser *p;
            assert_int_equal(walk_write(m, &seed, 60, &text), WALK_ENDS);
            assert_int_equal(mica_toolcall_open(&p, &d, &options, &err), MICA_OK);
            assert_int_equal(mica_toolcall_feed(p, text.data, text.n, &err), MICA_OK);
            answer_take(&a, p);
            assert_int_equal(mica_toolcall_finish(p, false, &err), MICA_OK);
            answer_take(&a, p);
            if (a.n_calls != 1 || strcmp(a.calls[0].name.data, name) != 0 ||
                a.calls[0].arguments.data[strspn(a.calls[0].arguments.data, "{} \t\r\n")])
                fail_msg("%s: \"%s\"", format, text.data);
            answer_free(&a);
            mica_toolcall_free(p);
            free(text.data);
        }
        mica_grammar_machine_free(m);
        mica_grammar_free(g);
    }
}

static void faults_are_named(void **state) {
    (void)state;
    static const struct {
        const char *format, *tools, *name, *word;
        mica_status status;
    } cases[] = {
        {"none", tools, NULL, "cannot be forced", MICA_E_UNSUPPORTED},
        {"hermes", "[]", NULL, "no tools", MICA_E_INVALID},
        {"hermes", tools, "absent", "absent", MICA_E_INVALID},
        {"hermes", "[{\"name\":\"a\\\"b\"}]", NULL, "character", MICA_E_INVALID},
        {"hermes", "[{\"name\":\"\"}]", NULL, "tools[0].name: ", MICA_E_INVALID},
        {"hermes", "[{\"name\":\"f\"},{\"function\":{}}]", "f",
         "tools[1].function.name: ", MICA_E_INVALID},
        {"hermes", "[{\"name\":5}]", NULL, "tools[0].name: ", MICA_E_INVALID},
        {"hermes", "[7]", NULL, "tools[0]: ", MICA_E_INVALID},
        {"glm", "[{\"name\":\"f\"},{\"name\":\"g\"},{\"function\":{\"name\":\"f\"}}]", "g",
         "two are named \"f\"", MICA_E_INVALID},
        {"hermes", "[{\"name\":\"a\",\"parameters\":{\"type\":\"x\"}}]", NULL, "type",
         MICA_E_INVALID},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        toolcall_dialect d;
        grammar *g;
        mica_error err;
        const toolcall_source source = {.format = cases[i].format, .reasoning = "none"};
        const toolcall_choice choice = {
            .tools = cases[i].tools, .n_tools = strlen(cases[i].tools), .name = cases[i].name};
        assert_int_equal(mica_toolcall_detect(&d, &source, &err), MICA_OK);
        mica_status st = mica_toolcall_grammar(&g, &d, &choice, &err);
        if (st != cases[i].status || !strstr(err.message, cases[i].word))
            fail_msg("case %zu: status %d: %s", i, st, st ? err.message : "");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_calls),
        cmocka_unit_test(no_parameters_are_no_arguments),
        cmocka_unit_test(faults_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
