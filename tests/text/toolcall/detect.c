/* detect.c: which dialect a template or a vocabulary tells of, and how a prompt starts an answer.
 *
 * Usage: detect [TEMPLATE_FILE...]: without files the tests; with files one line for each, "file
 * format reasoning", for templates.py.
 */
#include "cmocka_base.h"

#include <stdio.h>

#include "base/file.h"
#include "text/toolcall/toolcall.h"

static toolcall_dialect detect(const char *chat_template, const tokenizer *vocabulary) {
    toolcall_dialect d = {0};
    toolcall_source source = {.chat_template = chat_template,
                              .n_chat_template = chat_template ? strlen(chat_template) : 0,
                              .vocabulary = vocabulary};
    assert_int_equal(mica_toolcall_detect(&d, &source, NULL), MICA_OK);
    return d;
}

static void check(const char *chat_template, const char *format, const char *reasoning) {
    toolcall_dialect d = detect(chat_template, NULL);
    assert_string_equal(mica_toolcall_format_name(&d), format);
    assert_string_equal(mica_toolcall_reasoning_name(&d), reasoning);
}

static void test_templates(void **state) {
    (void)state;
    check("", "none", "none");
    check("{{ messages[0].content }}", "none", "none");
    check("<tool_call>{{ x }}</tool_call>", "hermes", "none");
    check("<think> <tool_call>", "hermes", "think");
    check("content.split('</think>')", "none", "think");
    check("<tool_call>\\n<function=", "qwen3-coder", "none");
    check("<seed:tool_call> <function= <seed:think>", "seed-oss", "seed-oss");
    check("<function={{ f }}>", "functionary-v3.1", "none");
    check("<tool_call> <arg_key>", "glm", "none");
    check("'<arg_key{}>'.format(S) '<think{}>'", "hunyuan", "hunyuan");
    check("<|tool_call> <tool_call|> <|channel>", "gemma4", "gemma4");
    check("<|tool_call>", "none", "none");
    check("<|channel|> <|message|>", "harmony", "harmony");
    check("<|START_ACTION|> <|START_THINKING|>", "command", "command");
    check("Action: \"tool_name\"", "command-r-plus", "none");
    check("\"parameters\"", "llama3", "none");
    check("<minimax:tool_call> <think>", "minimax-m2", "minimax-m2");
    check("｜DSML｜ <think>", "deepseek-dsml", "deepseek-dsml");
}

static void test_names(void **state) {
    (void)state;
    static const char *const names[][2] = {
        {"qwen3_coder", "qwen3-coder"}, {"json_tools", "hermes"}, {"glm47", "glm"},
        {"pythonic", "pythonic"},       {"none", "none"},         {"gemma4", "gemma4"}};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        toolcall_source source = {
            .format = names[i][0], .chat_template = "<arg_key>", .n_chat_template = 9};
        toolcall_dialect d;
        assert_int_equal(mica_toolcall_detect(&d, &source, NULL), MICA_OK);
        assert_string_equal(mica_toolcall_format_name(&d), names[i][1]);
    }
    toolcall_dialect d = {0};
    mica_error err = {0};
    toolcall_source unknown = {.format = "nonsense"}, unknown_reasoning = {.reasoning = "nonsense"};
    assert_int_equal(mica_toolcall_detect(&d, &unknown, &err), MICA_E_INVALID);
    assert_non_null(strstr(err.message, "nonsense"));
    assert_int_equal(mica_toolcall_detect(&d, &unknown_reasoning, &err), MICA_E_INVALID);
}

static void test_vocabulary(void **state) {
    (void)state;
    static const char json[] =
        "{\"version\":\"1.0\",\"added_tokens\":[{\"id\":2,\"content\":\"<|tool_call_start|>\","
        "\"special\":true},{\"id\":3,\"content\":\"<think>\",\"special\":false}],\"model\":{"
        "\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":[]}}";
    tokenizer *t = NULL;
    assert_int_equal(mica_tokenizer_parse(&t, json, sizeof(json) - 1, NULL, 0, "vocabulary", NULL),
                     MICA_OK);
    toolcall_dialect d = detect("no marker", t);
    assert_string_equal(mica_toolcall_format_name(&d), "pythonic");
    assert_string_equal(mica_toolcall_reasoning_name(&d), "think");
    d = detect("<tool_call>", t); /* the template comes first */
    assert_string_equal(mica_toolcall_format_name(&d), "hermes");
    mica_tokenizer_free(t);
}

static toolcall_start start_of(const char *chat_template, const char *prompt) {
    toolcall_dialect d = detect(chat_template, NULL);
    return mica_toolcall_prompt_start(&d, prompt, strlen(prompt));
}

static void test_prompt_start(void **state) {
    (void)state;
    const char *gpt = "<|channel|> <|message|>";
    assert_int_equal(start_of("<think>", "<|assistant|>\n"), TOOLCALL_START_CONTENT);
    assert_int_equal(start_of("<think>", "assistant\n<think>\n"), TOOLCALL_START_REASONING);
    assert_int_equal(start_of("<think>", "<think>\nI'm"), TOOLCALL_START_REASONING);
    assert_int_equal(start_of("<think>", "<think>\n\n</think>\n\n"), TOOLCALL_START_CONTENT);
    assert_int_equal(start_of("<think>", "<think>a</think>b<think>"), TOOLCALL_START_REASONING);
    assert_int_equal(start_of("no", "<think>"), TOOLCALL_START_CONTENT);
    assert_int_equal(start_of("'<think{}>'", "<think:x>"), TOOLCALL_START_REASONING);
    assert_int_equal(start_of("'<think{}>'", "<think:x></think:x>"), TOOLCALL_START_CONTENT);
    assert_int_equal(start_of(gpt, "<|start|>assistant"), TOOLCALL_START_CONTENT);
    assert_int_equal(start_of(gpt, "<|channel|>analysis<|message|>I'm"), TOOLCALL_START_REASONING);
    assert_int_equal(start_of(gpt, "<|channel|>analysis<|message|>a<|end|><|start|>assistant"
                                   "<|channel|>final<|message|>Hel"),
                     TOOLCALL_START_CONTENT);
}

static void test_markers(void **state) {
    (void)state;
    const char *open = NULL, *close = NULL;
    toolcall_dialect d = detect("<think>", NULL);
    assert_true(mica_toolcall_reasoning_markers(&d, &open, &close));
    assert_string_equal(open, "<think>");
    assert_string_equal(close, "</think>");
    d = detect("none", NULL);
    assert_false(mica_toolcall_reasoning_markers(&d, &open, &close));
}

static int print_files(int n, char **paths) {
    for (int i = 0; i < n; i++) {
        char *data;
        size_t n_bytes;
        mica_error err = {0};
        if (mica_file_read(&data, &n_bytes, paths[i], 16u << 20, &err)) {
            fprintf(stderr, "%s\n", err.message);
            return 1;
        }
        const char *slash = strrchr(paths[i], '/');
        toolcall_dialect d = {0};
        toolcall_source source = {.chat_template = data, .n_chat_template = n_bytes};
        if (mica_toolcall_detect(&d, &source, NULL)) return 1;
        printf("%s %s %s\n", slash ? slash + 1 : paths[i], mica_toolcall_format_name(&d),
               mica_toolcall_reasoning_name(&d));
        mica_free(data);
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1) return print_files(argc - 1, argv + 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_templates),  cmocka_unit_test(test_names),
        cmocka_unit_test(test_vocabulary), cmocka_unit_test(test_prompt_start),
        cmocka_unit_test(test_markers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
