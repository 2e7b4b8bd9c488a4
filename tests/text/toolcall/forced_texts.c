/* forced_texts.c: calls as published chat templates render them fit the grammars of their formats,
 * byte by byte, and are read back; marks that are special tokens are let through as such; every
 * allocation may fail.
 * Usage: forced_texts forced.json
 */
#include "answer.h"
#include "cmocka_base.h"
#include "fault_alloc.h"
#include "text/grammar/machine.h"
#include "text/template/chat_dialect.h"
#include "text/toolcall/call_grammar.h"

static const char *golden_path;

static toolcall_dialect dialect_of(const char *format, const char *suffix) {
    toolcall_dialect d;
    mica_error err;
    const toolcall_source source = {.format = format, .reasoning = "none"};
    if (mica_toolcall_detect(&d, &source, &err)) fail_msg("%s", err.message);
    snprintf(d.suffix, sizeof(d.suffix), "%s", suffix);
    return d;
}

static grammar_machine *open_machine(grammar **g, const toolcall_dialect *d, const char *tools,
                                     const grammar_vocab *v) {
    const toolcall_choice choice = {
        .tools = tools, .n_tools = strlen(tools), .is_parallel = true, .is_strict = true};
    grammar_machine *m;
    mica_error err;
    if (mica_toolcall_grammar(g, d, &choice, &err)) fail_msg("%s", err.message);
    if (mica_grammar_machine_new(&m, *g, v, NULL, 0, &err)) fail_msg("%s", err.message);
    return m;
}

/* ---- rendered calls ---- */

static void read_back(const toolcall_dialect *d, const json_value *text, const char *tools,
                      const json_value *arguments) {
    toolcall_parser *p;
    answer a = {0};
    const toolcall_options options = {.tools = tools, .n_tools = strlen(tools)};
    assert_int_equal(mica_toolcall_open(&p, d, &options, NULL), MICA_OK);
    assert_int_equal(mica_toolcall_feed(p, text->string, text->n, NULL), MICA_OK);
    answer_take(&a, p);
    assert_int_equal(mica_toolcall_finish(p, false, NULL), MICA_OK);
    answer_take(&a, p);
    assert_int_equal(a.n_calls, arguments->n);
    assert_int_equal(a.content.n, 0);
    for (size_t i = 0; i < a.n_calls; i++) { /* compared without white space: none is in strings */
        bytes got = {0}, want = {0};
        const char *s = a.calls[i].arguments.data;
        for (; *s; s++) {
            if (*s != ' ') bytes_append(&got, s, 1);
        }
        for (s = arguments->items[i]->string; *s; s++) {
            if (*s != ' ') bytes_append(&want, s, 1);
        }
        assert_string_equal(got.data, want.data);
        free(got.data);
        free(want.data);
    }
    answer_free(&a);
    mica_toolcall_free(p);
}

static void check_case(const json_value *c, const char *tools, const json_value *arguments) {
    const json_value *text = mica_json_find(c, "text");
    const char *name = mica_json_string(mica_json_find(c, "template"), "");
    toolcall_dialect d = dialect_of(mica_json_string(mica_json_find(c, "format"), ""),
                                    mica_json_string(mica_json_find(c, "suffix"), ""));
    grammar *g;
    char trigger[TOOLCALL_TRIGGER_BYTES];
    grammar_machine *m = open_machine(&g, &d, tools, NULL);
    uint32_t state = mica_lazy_start(&m->lazy);
    assert_true(mica_toolcall_trigger(&d, trigger));
    assert_non_null(strstr(text->string, trigger));
    for (size_t i = 0; i < text->n; i++) {
        state = lazy_step(&m->lazy, state, (uint8_t)text->string[i]);
        if (state == STATE_DEAD)
            fail_msg("%s: byte %zu: \"%.*s\" | \"%.40s\"", name, i, (int)i, text->string,
                     text->string + i);
    }
    if (!(*lazy_flags(&m->lazy, state) & STATE_ACCEPTS)) fail_msg("%s: not complete", name);
    mica_grammar_machine_free(m);
    mica_grammar_free(g);
    read_back(&d, text, tools, arguments);
}

/* FunctionGemma's template is in no package: these are the calls that its publisher's page
 * "FunctionGemma formatting and best practices" shows. */
static void published_examples_fit(void **state) {
    static const char tools[] =
        "[{\"name\":\"get_current_temperature\",\"parameters\":{\"type\":\"object\",\"properties\":"
        "{"
        "\"location\":{\"type\":\"string\"},\"unit\":{\"type\":\"string\",\"enum\":[\"celsius\","
        "\"fahrenheit\"]}},\"required\":[\"location\"]}},"
        "{\"name\":\"get_current_weather\",\"parameters\":{\"type\":\"object\",\"properties\":{"
        "\"location\":{\"type\":\"string\"}},\"required\":[\"location\"]}}]";
    static const char examples[] =
        "[[{\"template\":\"FunctionGemma\",\"format\":\"function-gemma\",\"text\":\"<start_"
        "function_"
        "call>call:get_current_temperature{location:<escape>Paris<escape>,unit:<escape>celsius<"
        "escape>}"
        "<end_function_call>\"},[\"{\\\"location\\\":\\\"Paris\\\",\\\"unit\\\":\\\"celsius\\\"}\"]"
        "],"
        "[{\"template\":\"FunctionGemma\",\"format\":\"function-gemma\",\"text\":\"<start_function_"
        "call>call:get_current_weather{location:<escape>Tokyo, "
        "Japan<escape>}<end_function_call>\"},"
        "[\"{\\\"location\\\":\\\"Tokyo, Japan\\\"}\"]]]";
    (void)state;
    mica_arena arena;
    json_value *list;
    mica_arena_init(&arena, 0);
    assert_int_equal(
        mica_json_parse(&list, examples, sizeof(examples) - 1, "examples", false, &arena, NULL),
        MICA_OK);
    for (size_t i = 0; i < list->n; i++) {
        check_case(list->items[i]->items[0], tools, list->items[i]->items[1]);
    }
    mica_arena_deinit(&arena);
}

static void rendered_calls_fit(void **state) {
    (void)state;
    mica_arena arena;
    json_value *golden;
    mica_error err;
    mica_arena_init(&arena, 0);
    if (mica_json_parse_file(&golden, golden_path, 1 << 20, false, &arena, &err))
        fail_msg("%s", err.message);
    const json_value *cases = mica_json_find(golden, "cases");
    assert_true(cases && cases->n >= 12);
    for (size_t i = 0; i < cases->n; i++) {
        check_case(cases->items[i], mica_json_string(mica_json_find(golden, "tools"), ""),
                   mica_json_find(golden, "arguments"));
    }
    mica_arena_deinit(&arena);
}

/* ---- tokens ---- */

static const char note_tool[] =
    "[{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{\"note\":{\"type\":"
    "\"string\"}},\"required\":[\"note\"],\"additionalProperties\":false}}]";

static bool takes_ids(grammar_machine *m, const tokenizer *t, const char *const *tokens) {
    grammar_matcher *x;
    uint64_t mask[1];
    bool ok = true;
    assert_int_equal(mica_grammar_matcher_new(&x, m, NULL), MICA_OK);
    for (; *tokens && ok; tokens++) {
        int32_t id = mica_tokenizer_find(t, *tokens, strlen(*tokens));
        assert_true(id >= 0 && id < 64);
        assert_int_equal(mica_grammar_mask(x, mask, 1, NULL), MICA_OK);
        assert_int_equal(mica_grammar_accept(x, id, &ok, NULL), MICA_OK);
        assert_int_equal(mask[0] >> id & 1, ok);
    }
    ok = ok && mica_grammar_is_complete(x);
    mica_grammar_matcher_free(x);
    return ok;
}

static void marks_are_tokens(void **state) {
    (void)state;
    static const char json[] =
        "{\"version\":\"1.0\",\"added_tokens\":[{\"id\":0,\"content\":\"<|tool_call>\",\"special\":"
        "true},{\"id\":1,\"content\":\"<tool_call|>\",\"special\":true},{\"id\":2,\"content\":"
        "\"<|\\\"|>\",\"special\":true},{\"id\":3,\"content\":\"<eos>\",\"special\":true}],"
        "\"model\":"
        "{\"type\":\"WordLevel\",\"unk_token\":\"?\",\"vocab\":{\"<|tool_call>\":0,\"<tool_call|>"
        "\":"
        "1,\"<|\\\"|>\":2,\"<eos>\":3,\"call:f{\":4,\"note:\":5,\"hi \\\" {\":6,\"}\":7,\"?\":8,"
        "\"<|\":9}},\"decoder\":{\"type\":\"Fuse\"}}";
    tokenizer *t;
    grammar_vocab *v;
    grammar *g;
    mica_error err;
    if (mica_tokenizer_parse(&t, json, sizeof(json) - 1, NULL, 0, "t", &err))
        fail_msg("%s", err.message);
    if (mica_grammar_vocab_new(&v, t, &err)) fail_msg("%s", err.message);
    toolcall_dialect d = dialect_of("gemma4", "");
    grammar_machine *m = open_machine(&g, &d, note_tool, v);
    static const char quote[] = "<|\"|>", open[] = "<|tool_call>", close[] = "<tool_call|>";
    assert_true(takes_ids(m, t,
                          (const char *const[]){open, "call:f{", "note:", quote, "hi \" {", "<|",
                                                quote, "}", close, NULL}));
    assert_false(takes_ids(
        m, t,
        (const char *const[]){open, "call:f{", "note:", quote, "<eos>", quote, "}", close, NULL}));
    assert_false(takes_ids(m, t, (const char *const[]){open, "call:f{", "}", close, NULL}));
    mica_grammar_machine_free(m);
    mica_grammar_free(g);
    mica_grammar_vocab_free(v);
    mica_tokenizer_free(t);
}

/* Tags whose suffix only a rendered call shows. */
static void suffixes_are_found(void **state) {
    (void)state;
    static const char source[] =
        "{% set s = ':x' %}{% for m in messages %}{{ m.content }}{% if m.tool_calls %}"
        "{{ '<tool_calls{}>'.format(s) }}{% endif %}{% endfor %}{# <arg_key{}> #}";
    chat_template *t;
    toolcall_dialect d;
    mica_error err;
    char trigger[TOOLCALL_TRIGGER_BYTES];
    if (mica_chat_template_from_text(&t, source, sizeof(source) - 1, NULL, "t", &err))
        fail_msg("%s", err.message);
    if (mica_chat_dialect_find(&d, t, NULL, true, &err)) fail_msg("%s", err.message);
    assert_string_equal(mica_toolcall_format_name(&d), "hunyuan");
    assert_true(mica_toolcall_trigger(&d, trigger));
    assert_string_equal(trigger, "<tool_calls:x>");
    mica_chat_template_free(t);
}

/* ---- memory ---- */

static mica_status compile(const toolcall_dialect *d, mica_error *err) {
    static const char tools[] =
        "[{\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":["
        "\"string\",\"integer\"],\"maxLength\":3},\"b\":{\"enum\":[\"x\",\"y\",[1]]},\"c\":{"
        "\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}},\"d\":{\"type\":"
        "\"array\",\"items\":{\"type\":\"boolean\"}}}}}]";
    const toolcall_choice choice = {.tools = tools, .n_tools = sizeof(tools) - 1};
    grammar *g = NULL;
    mica_status st = mica_toolcall_grammar(&g, d, &choice, err);
    mica_grammar_free(g);
    return st;
}

static void allocations_may_fail(void **state) {
    (void)state;
    static const char *const formats[] = {"gemma4", "minimax-m3", "kimi-k3", "qwen3-coder"};
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        toolcall_dialect d = dialect_of(formats[i], "");
        mica_error err;
        fault_alloc_arm(0);
        assert_int_equal(compile(&d, &err), MICA_OK);
        long n_calls = fault_alloc_calls(), n_live = fault_alloc_live();
        for (long n = 1; n <= n_calls; n++) {
            fault_alloc_arm(n);
            mica_status st = compile(&d, &err);
            if (st != MICA_E_NOMEM || fault_alloc_live() != n_live)
                fail_msg("%s: allocation %ld of %ld: status %d", formats[i], n, n_calls, st);
        }
        fault_alloc_arm(0);
    }
}

int main(int argc, char **argv) {
    if (argc < 2) return 1;
    golden_path = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rendered_calls_fit),   cmocka_unit_test(published_examples_fit),
        cmocka_unit_test(marks_are_tokens),     cmocka_unit_test(suffixes_are_found),
        cmocka_unit_test(allocations_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
