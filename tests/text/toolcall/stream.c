/* stream.c: when events come, markers that are tokens, memory faults, and long answers.
 */
#include "cmocka_base.h"

#include "answer.h"
#include "fault_alloc.h"

static toolcall_dialect dialect(const char *format, const char *reasoning) {
    toolcall_dialect d = {0};
    toolcall_source source = {.format = format, .reasoning = reasoning};
    assert_int_equal(mica_toolcall_detect(&d, &source, NULL), MICA_OK);
    return d;
}

static toolcall_parser *open_parser(const char *format, const char *reasoning,
                                    const toolcall_options *options) {
    toolcall_dialect d = dialect(format, reasoning);
    toolcall_parser *p = NULL;
    assert_int_equal(mica_toolcall_open(&p, &d, options, NULL), MICA_OK);
    return p;
}

/* The events of one piece as text: C content, R reasoning, M markup, B begin, A arguments, E end.
 */
static const char *feed(toolcall_parser *p, const char *piece) {
    static char out[512];
    size_t n, used = 0;
    if (piece) {
        assert_int_equal(mica_toolcall_feed(p, piece, strlen(piece), NULL), MICA_OK);
    } else {
        assert_int_equal(mica_toolcall_finish(p, false, NULL), MICA_OK);
    }
    const toolcall_event *events = mica_toolcall_events(p, &n);
    out[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        const toolcall_event *e = &events[i];
        const char *text = e->kind == TOOLCALL_BEGIN ? e->name : e->text;
        size_t n_text = e->kind == TOOLCALL_BEGIN ? e->n_name : e->n_text;
        if (e->kind == TOOLCALL_END) n_text = 0;
        used += (size_t)snprintf(out + used, sizeof(out) - used, "%c(%.*s)", "CRBAEM"[e->kind],
                                 (int)n_text, text);
    }
    return out;
}

/* Nothing waits that need not wait. */
static void test_promptness(void **state) {
    (void)state;
    toolcall_options options = {0};
    toolcall_parser *p = open_parser("hermes", "think", &options);
    assert_string_equal(feed(p, "<thi"), "");
    assert_string_equal(feed(p, "nk>\n"), "M(<think>\n)");
    assert_string_equal(feed(p, "I think "), "R(I think )");
    assert_string_equal(feed(p, "so.\n"), "R(so.)");
    assert_string_equal(feed(p, "So <"), "R(\nSo )");
    assert_string_equal(feed(p, "b>\n</think>"), "R(<b>)M(\n</think>)");
    assert_string_equal(feed(p, "\n\nHi, "), "M(\n\n)C(Hi,)");
    assert_string_equal(feed(p, "you"), "C( you)");
    assert_string_equal(feed(p, " <tool"), "");
    assert_string_equal(feed(p, "s> <tool_call>"), "C( <tools>)");
    assert_string_equal(feed(p, "{\"name\": \"f\", "), "");
    assert_string_equal(feed(p, "\"arguments\": {}"), "");
    assert_string_equal(feed(p, "}"), "M( )B(f)A({})E()"); /* before the closing tag */
    assert_string_equal(feed(p, "</tool_call>\n"), "M(</tool_call>\n)");
    assert_string_equal(feed(p, NULL), "");
    size_t n;
    assert_int_equal(mica_toolcall_feed(p, "x", 1, NULL), MICA_E_STATE);
    assert_int_equal(mica_toolcall_finish(p, false, NULL), MICA_E_STATE);
    (void)mica_toolcall_events(p, &n);
    mica_toolcall_free(p);
    mica_toolcall_free(NULL);
}

static void test_streamed_arguments(void **state) {
    (void)state;
    toolcall_options options = {.streams_arguments = true};
    toolcall_parser *p = open_parser("mistral", "none", &options);
    assert_string_equal(feed(p, "[TOOL_CALLS]f[ARGS]"), "");
    assert_string_equal(feed(p, "{\"a\": [1, 2]"), "B(f)A({\"a\": [1, 2])");
    assert_string_equal(feed(p, ", \"b\": \"a piece that is longer than the least share"),
                        "A(, \"b\": \"a piece that is longer than the least share)");
    assert_string_equal(feed(p, "\"}"), "A(\"})E()");
    mica_toolcall_free(p);
    /* An answer in JSON that is no call is not held to its end. */
    options = (toolcall_options){.tools = "[]", .n_tools = 2};
    p = open_parser("llama3", "none", &options);
    assert_string_equal(feed(p, "{\"ci"), "");
    assert_string_equal(feed(p, "ty\": "), "C({\"city\":)");
    mica_toolcall_free(p);
}

static void test_bad_tools(void **state) {
    (void)state;
    toolcall_dialect d = dialect("hermes", "none");
    toolcall_parser *p = NULL;
    mica_error err = {0};
    toolcall_options options = {.tools = "{}", .n_tools = 2};
    assert_int_equal(mica_toolcall_open(&p, &d, &options, &err), MICA_E_INVALID);
    options = (toolcall_options){.tools = "[1,", .n_tools = 3};
    assert_int_equal(mica_toolcall_open(&p, &d, &options, &err), MICA_E_FORMAT);
    assert_null(p);
}

/* A schema that refers to itself from many places is given up, not followed along every way. */
static void test_tools_that_branch(void **state) {
    (void)state;
    bytes tools = {0};
    const char *head = "[{\"name\": \"f\", \"parameters\": {\"anyOf\": [{\"$ref\": \"#\"}";
    bytes_append(&tools, head, strlen(head));
    for (int i = 0; i < 100; i++) {
        bytes_append(&tools, ", {\"$ref\": \"#\"}", 15);
    }
    bytes_append(&tools, "]}}]", 4);
    toolcall_options options = {.tools = tools.data, .n_tools = tools.n};
    toolcall_parser *p = open_parser("qwen3-coder", "none", &options);
    assert_string_equal(feed(p, "<tool_call><function=f><parameter=a>1</parameter></function>"),
                        "B(f)A({\"a\":\"1\"})E()");
    mica_toolcall_free(p);
    free(tools.data);
}

/* A marker that the vocabulary holds as a token counts only when that token was generated. */
static void test_markers_that_are_tokens(void **state) {
    (void)state;
    static const char json[] =
        "{\"version\":\"1.0\",\"added_tokens\":[{\"id\":2,\"content\":\"<tool_call>\"},{\"id\":3,"
        "\"content\":\"</think>\"}],\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},"
        "\"merges\":[]}}";
    tokenizer *t = NULL;
    assert_int_equal(mica_tokenizer_parse(&t, json, sizeof(json) - 1, NULL, 0, "vocabulary", NULL),
                     MICA_OK);
    toolcall_options options = {.vocabulary = t, .start = TOOLCALL_START_REASONING};
    toolcall_parser *p = open_parser("hermes", "think", &options);
    assert_string_equal(feed(p, "say </th"), "R(say </th)");
    assert_string_equal(feed(p, "ink>."), "R(ink>.)");
    assert_string_equal(feed(p, "</think>"), "M(</think>)");
    assert_string_equal(feed(p, "<tool_"), "C(<tool_)");
    assert_string_equal(feed(p, "call>{\"name\": \"f\"}"), "C(call>{\"name\": \"f\"})");
    assert_string_equal(feed(p, "<tool_call>"), "");
    assert_string_equal(feed(p, "{\"name\": \"f\"}"), "B(f)A({})E()");
    /* No token of its own: text is enough. */
    assert_string_equal(feed(p, "</tool_"), "");
    assert_string_equal(feed(p, "call>"), "M(</tool_call>)");
    mica_toolcall_free(p);
    mica_tokenizer_free(t);
}

/* ---- faults ---- */
static const char long_answer[] =
    "<think>\nhm</think>\nText <tool_call>\n<function=f>\n<parameter=a>\n{'b': [True, "
    "\"\\u00e9\"]}\n"
    "</parameter>\n<parameter=c>\nline\nline\n</parameter>\n</function>\n</tool_call>\nMore "
    "<tool_call>{\"name\": \"g\", \"id\": \"x\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>";
static const char tools[] =
    "[{\"name\":\"f\",\"parameters\":{\"properties\":{\"a\":{\"type\":\"object\"}}}}]";

static mica_status parse_all(bool is_stream, mica_error *err) {
    toolcall_dialect d = {0};
    toolcall_source source = {.format = "qwen3-coder", .reasoning = "think"};
    toolcall_options options = {
        .tools = tools, .n_tools = sizeof(tools) - 1, .streams_arguments = is_stream};
    toolcall_parser *p = NULL;
    mica_status st = mica_toolcall_detect(&d, &source, err);
    if (!st) st = mica_toolcall_open(&p, &d, &options, err);
    for (size_t i = 0; i < sizeof(long_answer) - 1 && !st; i += 5) {
        size_t left = sizeof(long_answer) - 1 - i;
        st = mica_toolcall_feed(p, long_answer + i, left < 5 ? left : 5, err);
    }
    if (!st) st = mica_toolcall_finish(p, false, err);
    mica_toolcall_free(p);
    return st;
}

static void test_faults(void **state) {
    (void)state;
    for (int is_stream = 0; is_stream < 2; is_stream++) {
        fault_alloc_arm(0);
        assert_int_equal(parse_all(is_stream, NULL), MICA_OK);
        long n_calls = fault_alloc_calls(), live = fault_alloc_live();
        assert_true(n_calls > 10);
        for (long n = 1; n <= n_calls; n++) {
            mica_error err = {0};
            fault_alloc_arm(n);
            mica_status st = parse_all(is_stream, &err);
            if (st != MICA_E_NOMEM) fail_msg("allocation %ld: status %d", n, (int)st);
            assert_true(err.message[0]);
            assert_int_equal(fault_alloc_live(), live);
        }
        fault_alloc_arm(0);
    }
}

/* ---- length ---- */
static void check_long(const char *format, const char *head, const char *unit, size_t n_units,
                       const char *tail, size_t n_calls) {
    toolcall_dialect d = dialect(format, "think");
    toolcall_options options = {0};
    bytes text = {0};
    bytes_append(&text, head, strlen(head));
    for (size_t i = 0; i < n_units; i++) {
        bytes_append(&text, unit, strlen(unit));
    }
    bytes_append(&text, tail, strlen(tail));
    size_t n_cuts = text.n / 4, *cuts = calloc(n_cuts + 1, sizeof(*cuts));
    for (size_t i = 0; i < n_cuts; i++) {
        cuts[i] = i * 4;
    }
    answer a = answer_parse(&d, &options, false, text.data, text.n, cuts, n_cuts);
    if (a.wrong) fail_msg("%s: %s", format, a.wrong);
    assert_int_equal(a.n_calls, n_calls);
    answer_free(&a);
    free(text.data);
    free(cuts);
}

/* Hundreds of kilobytes in small pieces: what would be quadratic would run into the time limit. */
static void test_long_answers(void **state) {
    (void)state;
    check_long("hermes", "", "word <b> {x} ", 40000, "", 0);
    check_long("hermes", "<think>", "word <b> {x} ", 40000, "</think>", 0);
    check_long("hermes", "", " \n", 150000, "", 0);
    check_long("hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"",
               "for (i = 0; i < n; i++) { sum += a[i]; }\\n", 5000, "\"}}</tool_call>", 1);
    check_long("qwen3-coder", "<tool_call>\n<function=f>\n<parameter=a>\n",
               "for (i = 0; i < n; i++) { sum += a[i]; }\n", 5000,
               "\n</parameter>\n</function>\n</tool_call>", 1);
    check_long("hermes", "", "<tool_call>{\"a\": \"", 5000, "", 0);
    check_long("hermes", "", "<tool_call>{\"name\": \"f\"}</tool_call>", 5000, "", 5000);
    check_long("hermes", "<tool_call>{\"name\": \"f\", \"arguments\": ", "{\"a\": [", 20000, "", 0);
    check_long("glm", "<tool_call>f\n", "<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n", 1000,
               "</tool_call>", 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_promptness),
        cmocka_unit_test(test_streamed_arguments),
        cmocka_unit_test(test_bad_tools),
        cmocka_unit_test(test_tools_that_branch),
        cmocka_unit_test(test_markers_that_are_tokens),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_long_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
