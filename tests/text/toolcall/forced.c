/* forced.c: what a grammar of calls lets a model write is read back by the format's own parser as
 * calls of the tools, with arguments that fit their schemas; and what must not be possible is not.
 */
#include "answer.h"
#include "cmocka_base.h"
#include "text/grammar/machine.h"
#include "text/toolcall/call_grammar.h"

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
};
enum { N_FORMATS = sizeof(formats) / sizeof(formats[0]), MAX_FOUND = 20000 };

static uint64_t seed = 1;

static uint32_t random_below(uint32_t n) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

/* The bytes of text that fit (the mark of special tokens is none); white space where nothing else
 * does. */
static int live_bytes(lazy *l, uint32_t state, uint8_t *out) {
    int n = 0;
    for (unsigned c = '!'; c < 0xFF; c++) {
        if (lazy_step(l, state, (uint8_t)c) != STATE_DEAD) out[n++] = (uint8_t)c;
    }
    bool takes_lines = n > 90 && lazy_step(l, state, '\n') != STATE_DEAD; /* bare text */
    if (takes_lines) out[n++] = '\n';
    for (unsigned c = 1; !n && c <= ' '; c++) {
        if (lazy_step(l, state, (uint8_t)c) != STATE_DEAD) out[n++] = (uint8_t)c;
    }
    return n;
}

/* Appends the shortest text that completes what was written. */
static void complete(lazy *l, uint32_t from, bytes *text) {
    static uint32_t state[MAX_FOUND], parent[MAX_FOUND];
    static char by[MAX_FOUND], path[4096];
    uint32_t n = 1, at = 0;
    state[0] = from;
    for (; !(*lazy_flags(l, state[at]) & STATE_ACCEPTS); at++) {
        if (at >= n) fail_msg("no way to the end from \"%.200s\", %u states", text->data, n);
        uint8_t live[256];
        int n_live = live_bytes(l, state[at], live);
        for (int i = 0; i < n_live; i++) {
            uint32_t to = lazy_step(l, state[at], live[i]), k = 0;
            while (k < n && state[k] != to) {
                k++;
            }
            if (k < n || n == MAX_FOUND) continue;
            state[n] = to;
            parent[n] = at;
            by[n++] = (char)live[i];
        }
    }
    size_t length = 0;
    for (; at && length < sizeof(path); at = parent[at]) {
        path[length++] = by[at];
    }
    while (length > 0) {
        bytes_append(text, &path[--length], 1);
    }
}

static void write_answer(grammar_machine *m, bytes *text) {
    uint32_t state = mica_lazy_start(&m->lazy);
    for (uint32_t n = random_below(120); n > 0; n--) {
        uint8_t live[256];
        int n_live = live_bytes(&m->lazy, state, live);
        if (!n_live) break;
        uint8_t c = live[random_below((uint32_t)n_live)];
        if (random_below(4)) c = live[0];
        if (c >= 0x80 && c < 0xC0) c = live[0];
        bytes_append(text, (const char[]){(char)c}, 1);
        state = lazy_step(&m->lazy, state, c);
    }
    complete(&m->lazy, state, text);
}

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
            const char *trigger = mica_toolcall_trigger(&d);
            for (int k = 0; k < 30; k++) {
                bytes text = {0};
                write_answer(m, &text);
                if (strncmp(text.data, trigger, strlen(trigger)) != 0)
                    fail_msg("%s: \"%s\" does not begin with its trigger", formats[i], text.data);
                read_back(&d, &text, &choice);
                free(text.data);
            }
            mica_grammar_machine_free(m);
            mica_grammar_free(g);
        }
    }
}

static void faults_are_named(void **state) {
    (void)state;
    static const struct {
        const char *format, *tools, *name, *word;
        mica_status status;
    } cases[] = {
        {"none", tools, NULL, "cannot be forced", MICA_E_UNSUPPORTED},
        {"gemma4", tools, NULL, "gemma4", MICA_E_UNSUPPORTED},
        {"hermes", "[]", NULL, "no tools", MICA_E_INVALID},
        {"hermes", tools, "absent", "absent", MICA_E_INVALID},
        {"hermes", "[{\"name\":\"a\\\"b\"}]", NULL, "character", MICA_E_INVALID},
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
        cmocka_unit_test(faults_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
