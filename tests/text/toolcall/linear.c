/* linear.c: long answers, fed four bytes at a time or at once: four times the text may cost four
 * times the work, and not sixteen.
 *
 * Work is CPU time of this thread, the less of two runs; a bound of 8 separates the two.
 */
#include "cmocka_base.h"

#include <math.h>

#include "answer.h"
#include "thread_time.h"

enum { SMALL = 1 << 16, SHARE = 4, PIECE = 4 };

typedef enum feeding { IN_PIECES, IN_PIECES_STREAMED, AT_ONCE, N_FEEDINGS } feeding;

typedef struct shape {
    const char *format, *head, *unit, *tail;
    size_t n_calls;     /* SIZE_MAX: one for every unit */
    bool numbers_units; /* "%zu" in the unit is its number */
} shape;

static const shape shapes[] = {
    {"hermes", "", "word <b> {x} ", "", 0, false},
    {"hermes", "", " \n", "", 0, false},
    {"hermes", "<think>", "word <b> {x} ", "</think>", 0, false},
    {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"", "a[i] = \\\"}</x>\\\";\\n",
     "\"}}</tool_call>", 1, false},
    {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": [1", ", {\"b\": {}}",
     "]}}</tool_call>", 1, false},
    {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1", ", \"k%zu\": 1",
     "}}</tool_call>", 1, true},
    {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1", ", \\\"k%zu\\\": 1",
     "}\"}</tool_call>", 1, true},
    {"hermes", "<tool_call>{\"arguments\": {\"a\": 1", ", \"k\": {}", "}, \"name\": \"f\"}", 1,
     false},
    {"hermes", "<tool_call>{\"name\": \"f\"", ", \"k\": {}", ", \"arguments\": {}}", 1, false},
    {"hermes", "", "<tool_call>{\"name\": \"f\"}</tool_call>", "", SIZE_MAX, false},
    {"hermes", "", "<tool_call>{\"a\": \"", "", 0, false},
    {"hermes", "<tool_call>", "   ", "{\"name\": \"f\", \"arguments\": {}}", 1, false},
    {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1,", " ", "}}", 1, false},
    {"nemotron", "<TOOLCALL>[{\"name\": \"f\"}", ", {\"name\": \"f\"}", "]</TOOLCALL>", SIZE_MAX,
     false},
    {"kimi-k2",
     "<|tool_calls_section_begin|><|tool_call_begin|>f:0<|tool_call_argument_begin|>{\"a\": 1",
     ", \"k%zu\": {}", "}<|tool_call_end|>", 1, true},
    {"mistral", "[TOOL_CALLS]f[ARGS]{\"a\": 1", ", \"k\": [{}]", "}", 1, false},
    {"deepseek-v3", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": 1",
     ", \"k\": {}", "}<｜tool▁call▁end｜>", 1, false},
    {"harmony", "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\": 1",
     ", \"k\": {}", "}<|call|>", 1, false},
    {"qwen3-coder", "<tool_call>\n<function=f>", "<parameter=k%zu>\nx > 1\n</parameter>\n",
     "</function></tool_call>", 1, true},
    {"qwen3-coder", "<tool_call>\n<function=f>\n<parameter=k>", "<li class=\"a\">x</li>\n",
     "</parameter></function></tool_call>", 1, false},
    {"qwen3-coder", "<tool_call>\n<function=f>\n<parameter=k>", "</parameter>x",
     "</parameter></function></tool_call>", 1, false},
    {"qwen3-coder", "", "<tool_call>\n<function=f>\n<parameter=k>", "", 0, false},
    {"minicpm5", "<function name=\"f\">", "<param name=\"k%zu\">1 &gt; 2</param>", "</function>", 1,
     true},
    {"minicpm5", "<function name=\"f\"><param name=\"k\">", "<b>&gt;</b>", "</param></function>", 1,
     false},
    {"deepseek-dsml", "<｜DSML｜function_calls><｜DSML｜invoke name=\"f\">",
     "<｜DSML｜parameter name=\"k%zu\" string=\"true\">v</｜DSML｜parameter>",
     "</｜DSML｜invoke></｜DSML｜function_calls>", 1, true},
    {"minimax-m2", "<minimax:tool_call><invoke name=\"f\">",
     "<parameter name=\"k%zu\">v</parameter>", "</invoke></minimax:tool_call>", 1, true},
    {"minimax-m3", "]<]minimax[>[<tool_call>]<]minimax[>[<invoke name=\"f\">",
     "]<]minimax[>[<k%zu>v]<]minimax[>[</k%zu>", "]<]minimax[>[</invoke>", 1, true},
    {"minimax-m3", "]<]minimax[>[<tool_call>]<]minimax[>[<invoke name=\"f\">]<]minimax[>[<k>",
     "<b>x</b>", "]<]minimax[>[</k>]<]minimax[>[</invoke>", 1, false},
    {"glm", "<tool_call>f\n", "<arg_key>k%zu</arg_key>\n<arg_value>1</arg_value>\n", "</tool_call>",
     1, true},
    {"glm", "<tool_call>f\n<arg_key>k</arg_key>\n<arg_value>", "<b>x</b>\n",
     "</arg_value></tool_call>", 1, false},
    {"kimi-k3", "<|open|>tools<|sep|><|open|>call tool=\"f\"<|sep|>",
     "<|open|>argument key=\"k%zu\" type=\"string\"<|sep|>v<|close|>argument<|sep|>",
     "<|close|>call<|sep|>", 1, true},
    {"pythonic", "<|tool_call_start|>[f(a=1", ", k%zu=[1, {'a': 2}]", ")]<|tool_call_end|>", 1,
     true},
    {"pythonic", "<|tool_call_start|>[f()", ", f(a={})", "]<|tool_call_end|>", SIZE_MAX, false},
    {"gemma4", "<|tool_call>call:f{a:1", ",k%zu:{b:<|\"|>}<|\"|>}", "}<tool_call|>", 1, true},
    {"functionary-v3.2", "python\n", "print(1 > 2)\n>>> x\n", "", 1, false},
    {"muse", "to=f<|message|><atem:function_calls><atem:invoke name=\"f\">",
     "<atem:parameter name=\"k%zu\">v</atem:parameter>", "</atem:invoke>", 1, true},
};

static void put_unit(bytes *text, const shape *s, size_t i) {
    char unit[256];
    const char *from = s->unit;
    size_t n = 0;
    for (; *from; from++) {
        if (s->numbers_units && strncmp(from, "%zu", 3) == 0) {
            n += (size_t)snprintf(unit + n, sizeof(unit) - n, "%zu", i);
            from += 2;
        } else {
            unit[n++] = *from;
        }
    }
    bytes_append(text, unit, n);
}

/* The time of one answer; its size grows to n. */
static double parse(const shape *s, size_t n, feeding how) {
    toolcall_dialect d = {0};
    toolcall_source source = {.format = s->format, .reasoning = "think"};
    toolcall_options options = {.streams_arguments = how == IN_PIECES_STREAMED};
    bytes text = {0};
    size_t n_units = 0, n_cuts = 0, *cuts = calloc(n / PIECE + 256, sizeof(*cuts));
    assert_int_equal(mica_toolcall_detect(&d, &source, NULL), MICA_OK);
    bytes_append(&text, s->head, strlen(s->head));
    while (text.n < n) {
        put_unit(&text, s, n_units++);
    }
    bytes_append(&text, s->tail, strlen(s->tail));
    for (size_t i = 0; how != AT_ONCE && i < text.n && n_cuts < n / PIECE + 256; i += PIECE) {
        cuts[n_cuts++] = i;
    }
    double begin = thread_seconds();
    answer a = answer_parse(&d, &options, false, text.data, text.n, cuts, n_cuts);
    double time = thread_seconds() - begin;
    bool is_list = s->n_calls == SIZE_MAX, is_first = s->head[0] != '\0';
    if (a.wrong) fail_msg("%s: %s", s->format, a.wrong);
    if (how != IN_PIECES_STREAMED)
        assert_int_equal(a.n_calls, is_list ? n_units + is_first : s->n_calls);
    answer_free(&a);
    free(text.data);
    free(cuts);
    return time;
}

static double less(const shape *s, size_t n, feeding how) {
    double one = parse(s, n, how), other = parse(s, n, how);
    return one < other ? one : other;
}

/* Company on the machine makes a run longer, never shorter: what looks bad is measured again. */
static bool is_linear(const shape *s, feeding how, double *one, double *more) {
    *one = *more = INFINITY;
    for (int round = 0; round < 6; round++) {
        *one = fmin(*one, less(s, SMALL, how));
        *more = fmin(*more, less(s, SHARE * SMALL, how));
        if (*more <= 2 * SHARE * *one || *more <= 0.05) return true;
    }
    return false;
}

static void work_is_linear(void **state) {
    (void)state;
    size_t n_bad = 0;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        for (feeding how = IN_PIECES; how < N_FEEDINGS; how++) {
            double one, more;
            bool is_bad = !is_linear(&shapes[i], how, &one, &more);
            n_bad += is_bad;
            if (is_bad || more > 0.3) {
                print_message("%s, %.40s, feeding %d: %.3f s, and %.3f s for %d times as much%s\n",
                              shapes[i].format, shapes[i].unit, how, one, more, SHARE,
                              is_bad ? ": not linear" : "");
            }
        }
    }
    assert_int_equal(n_bad, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(work_is_linear)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
