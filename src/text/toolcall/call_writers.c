/* call_writers.c: how each format writes calls, and the notations that a row stands for.
 *
 * Adding a format is a row here, beside that of call_formats.c. What is written must be read back
 * by the parser as it was meant: where bare text is typed by the tool's schema, the notation's
 * reader asks the parser's own functions what a text would become.
 */
#include <string.h>

#include "text/grammar/charset.h"
#include "text/toolcall/call_writer.h"

#define SPECIAL(text) CALL_MARK text CALL_MARK
#define ANSWER_OBJECT(close) .mid = "\", \"arguments\": ", .end = "}" close
#define LIST_ITEM \
    .begin = "{\"name\": \"", .mid = "\", \"arguments\": ", .end = "}", .between = ", "
#define RECIPIENT "to=" CALL_NAME SPECIAL("<|message|>") /* Muse */
#define SUFFIXED(tag) SPECIAL(tag CALL_SUFFIX ">")       /* Hunyuan */
#define SEP SPECIAL("<|sep|>")                           /* Kimi-K3 */
#define OPEN(name) SPECIAL("<|open|>") name
#define CLOSE(name) SPECIAL("<|close|>") name SEP
#define NS "]<]minimax[>[" /* MiniMax-M3 */
#define TAG(tag) SPECIAL(NS) SPECIAL(tag)
/* What the readers of keys stop at. */
#define BARE_ATTRIBUTE "\"'<> \t\r\f\v"
#define BRACED_KEY ":{}[]()\"',<>="

/* clang-format off */
const call_writer mica_call_writers[] = {
    {"hermes", "<tool_call>", .begin = SPECIAL("<tool_call>") "\n{\"name\": \"",
     ANSWER_OBJECT("\n" SPECIAL("</tool_call>")), .between = "\n"},
    {"longcat", "<longcat_tool_call>", .begin = SPECIAL("<longcat_tool_call>") "\n{\"name\": \"",
     ANSWER_OBJECT("\n" SPECIAL("</longcat_tool_call>")), .between = "\n"},
    {"nemotron", "<TOOLCALL>", .head = SPECIAL("<TOOLCALL>") "[", LIST_ITEM,
     .tail = "]" SPECIAL("</TOOLCALL>")},
    {"granite", "<|tool_call|>", .head = SPECIAL("<|tool_call|>") "[", LIST_ITEM, .tail = "]"},
    {"command", "<|START_ACTION|>", .head = SPECIAL("<|START_ACTION|>") "[",
     .begin = "{\"tool_call_id\": \"" CALL_ID "\", \"tool_name\": \"",
     .mid = "\", \"parameters\": ", .end = "}", .between = ", ",
     .tail = "]" SPECIAL("<|END_ACTION|>")},
    {"apertus", "<|tools_prefix|>", .head = SPECIAL("<|tools_prefix|>") "[", .begin = "{\"",
     .mid = "\": ", .end = "}", .between = ", ", .tail = "]" SPECIAL("<|tools_suffix|>")},
    {"tool-calls", "<tool_calls>", .head = SPECIAL("<tool_calls>") "[", LIST_ITEM,
     .tail = "]" SPECIAL("</tool_calls>")},
    {"gigachat", "<|function_call|>", .begin = SPECIAL("<|function_call|>") "{\"name\": \"",
     ANSWER_OBJECT(""), .is_single = true},
    {"functools", "functools", .head = "functools[", LIST_ITEM, .tail = "]"},
    {"command-r-plus", "Action:", .head = "Action:\n```json\n[", .begin = "{\"tool_name\": \"",
     .mid = "\", \"parameters\": ", .end = "}", .between = ", ", .tail = "]\n```"},
    {"llama3", "{", .begin = "{\"name\": \"", .mid = "\", \"parameters\": ", .end = "}",
     .between = "; "},
    {"mistral", "[TOOL_CALLS]", .begin = SPECIAL("[TOOL_CALLS]"), .mid = SPECIAL("[ARGS]")},
    {"mistral", "[TOOL_CALLS]", .head = SPECIAL("[TOOL_CALLS]") "[", LIST_ITEM, .tail = "]"},
    {"deepseek-v3", "<｜tool▁calls▁begin｜>", .head = SPECIAL("<｜tool▁calls▁begin｜>"),
     .begin = SPECIAL("<｜tool▁call▁begin｜>"), .mid = SPECIAL("<｜tool▁sep｜>"),
     .end = SPECIAL("<｜tool▁call▁end｜>"), .tail = SPECIAL("<｜tool▁calls▁end｜>")},
    {"deepseek-v3", "<｜tool▁calls▁begin｜>", .head = SPECIAL("<｜tool▁calls▁begin｜>"),
     .begin = SPECIAL("<｜tool▁call▁begin｜>") "function" SPECIAL("<｜tool▁sep｜>"),
     .mid = "\n```json\n", .end = "\n```" SPECIAL("<｜tool▁call▁end｜>"), .between = "\n",
     .tail = SPECIAL("<｜tool▁calls▁end｜>")},
    {"kimi-k2", "<|tool_calls_section_begin|>", .head = SPECIAL("<|tool_calls_section_begin|>"),
     .begin = SPECIAL("<|tool_call_begin|>") "functions.",
     .mid = ":" CALL_ID SPECIAL("<|tool_call_argument_begin|>"),
     .end = SPECIAL("<|tool_call_end|>"), .tail = SPECIAL("<|tool_calls_section_end|>")},
    {"solar-open", "<|tool_calls|>", .head = SPECIAL("<|tool_calls|>"),
     .begin = SPECIAL("<|tool_call:begin|>") CALL_ID SPECIAL("<|tool_call:name|>"),
     .mid = SPECIAL("<|tool_call:args|>"), .end = SPECIAL("<|tool_call:end|>")},
    {"functionary-v3.1", "<function=", .begin = "<function=", .mid = ">", .end = "</function>"},
    {"functionary-v3.2", ">>>", .begin = ">>>", .mid = "\n", .is_single = true},
    {"harmony", "<|channel|>commentary to=", .is_single = true,
     .begin = SPECIAL("<|channel|>") "commentary to=functions.",
     .mid = " " SPECIAL("<|constrain|>") "json" SPECIAL("<|message|>"),
     .before = {SPECIAL("<|start|>") "assistant"}},
    {"qwen3-coder", "<tool_call>", ARGS_TAGGED, .begin = SPECIAL("<tool_call>") "\n<function=",
     .mid = ">\n", .end = "</function>\n" SPECIAL("</tool_call>"), .between = "\n",
     .open = "<parameter=", .open_end = ">\n", .close = "\n</parameter>\n",
     .bar = "</parameter>", .key_excludes = BARE_ATTRIBUTE, .guess = CALL_GUESS_TEXT_NULL,
     .python_words = true},
    {"seed-oss", "<seed:tool_call>", ARGS_TAGGED,
     .begin = SPECIAL("<seed:tool_call>") "\n<function=", .mid = ">\n",
     .end = "</function>\n" SPECIAL("</seed:tool_call>"), .between = "\n", .open = "<parameter=",
     .open_end = ">", .close = "</parameter>\n", .bar = "</parameter>",
     .key_excludes = BARE_ATTRIBUTE, .guess = CALL_GUESS_TEXT_NULL, .edges = EDGES_BOXED,
     .python_words = true},
    {"minimax-m2", "<minimax:tool_call>", ARGS_TAGGED, .head = SPECIAL("<minimax:tool_call>") "\n",
     .begin = "<invoke name=\"", .mid = "\">\n", .end = "</invoke>\n",
     .tail = SPECIAL("</minimax:tool_call>"), .open = "<parameter name=\"", .open_end = "\">",
     .close = "</parameter>\n", .bar = "</parameter>", .key_excludes = "\""},
    {"minicpm5", "<function name=", ARGS_TAGGED, .begin = "<function name=\"", .mid = "\">",
     .end = "</function>", .between = "\n", .open = "<param name=\"", .open_end = "\">", .close = "</param>",
     .bar = "</param>", .excludes = "<&", .key_excludes = "\"", .edges = EDGES_TRIMMED,
     .python_words = true},
    {"deepseek-dsml", "<｜DSML｜function_calls>", ARGS_TAGGED,
     .head = "<｜DSML｜function_calls>\n", .begin = "<｜DSML｜invoke name=\"", .mid = "\">\n",
     .end = "</｜DSML｜invoke>\n", .tail = "</｜DSML｜function_calls>",
     .open = "<｜DSML｜parameter name=\"", .open_end = "\" string=\"",
     .leads = {{SCHEMA_STRING, "true\">"}, {SCHEMA_ALL & ~SCHEMA_STRING, "false\">"}},
     .close = "</｜DSML｜parameter>\n", .bar = "</｜DSML｜parameter>", .key_excludes = "\""},
    {"muse", "<atem:function_calls>", ARGS_TAGGED,
     .before = {" " RECIPIENT, SPECIAL("<|start|>") "assistant " RECIPIENT},
     .begin = "<atem:function_calls>\n<atem:invoke name=\"", .mid = "\">\n",
     .end = "</atem:invoke>\n</atem:function_calls>",
     .between = SPECIAL("<|eom|>") SPECIAL("<|start|>") "assistant " RECIPIENT,
     .open = "<atem:parameter name=\"", .open_end = "\">", .close = "</atem:parameter>\n",
     .bar = "</atem:parameter>", .key_excludes = "\""},
    {"glm", "<tool_call>", ARGS_TAGGED, .begin = SPECIAL("<tool_call>"), .mid = "\n",
     .end = SPECIAL("</tool_call>"), .between = "\n", .open = SPECIAL("<arg_key>"),
     .open_end = SPECIAL("</arg_key>") "\n" SPECIAL("<arg_value>"),
     .close = SPECIAL("</arg_value>") "\n", .bar = "</arg_value", .key_excludes = "<",
     .guess = CALL_GUESS_JSON},
    {"hunyuan", "<tool_calls" CALL_SUFFIX ">", ARGS_TAGGED, .head = SUFFIXED("<tool_calls") "\n",
     .begin = SUFFIXED("<tool_call"), .mid = SUFFIXED("<tool_sep") "\n",
     .end = SUFFIXED("</tool_call") "\n", .tail = SUFFIXED("</tool_calls"),
     .open = SUFFIXED("<arg_key"), .open_end = SUFFIXED("</arg_key") "\n" SUFFIXED("<arg_value"),
     .close = SUFFIXED("</arg_value") "\n", .bar = "</arg_value", .key_excludes = "<",
     .guess = CALL_GUESS_JSON},
    {"kimi-k3", "<|open|>tools<|sep|>", ARGS_TAGGED,
     .before = {CLOSE("response"), OPEN("response") SEP CLOSE("response")},
     .head = OPEN("tools") SEP, .begin = OPEN("call") " tool=\"",
     .mid = "\" index=\"" CALL_INDEX "\"" SEP, .end = CLOSE("call"), .tail = CLOSE("tools"),
     .open = OPEN("argument") " key=\"", .open_end = "\" type=\"",
     .leads = {{SCHEMA_STRING, "string\"" SEP}, {SCHEMA_INTEGER | SCHEMA_NUMBER, "number\"" SEP},
               {SCHEMA_BOOLEAN, "boolean\"" SEP}, {SCHEMA_NULL, "null\"" SEP},
               {SCHEMA_OBJECT, "object\"" SEP}, {SCHEMA_ARRAY, "array\"" SEP}},
     .close = CLOSE("argument"), .bar = "<|close|>argument<|sep|>"},
    {"minimax-m3", NS "<tool_call>", ARGS_NESTED, .head = TAG("<tool_call>") "\n",
     .begin = SPECIAL(NS) "<invoke name=\"", .mid = "\">", .end = SPECIAL(NS) "</invoke>\n",
     .tail = TAG("</tool_call>"), .open = SPECIAL(NS) "<", .open_end = ">",
     .close = SPECIAL(NS) "</", .bar = NS, .key_excludes = "<>*/\""},
    {"gemma4", "<|tool_call>", ARGS_BRACED, .begin = SPECIAL("<|tool_call>") "call:",
     .end = SPECIAL("<tool_call|>"), .quote = SPECIAL("<|\"|>"), .bar = "<|\"|>",
     .key_excludes = BRACED_KEY},
    {"function-gemma", "<start_function_call>", ARGS_BRACED,
     .begin = SPECIAL("<start_function_call>") "call:", .end = SPECIAL("<end_function_call>"),
     .quote = SPECIAL("<escape>"), .bar = "<escape>", .key_excludes = BRACED_KEY},
    {"pythonic", "<|tool_call_start|>", ARGS_KEYWORDS, .head = SPECIAL("<|tool_call_start|>") "[",
     .mid = "(", .end = ")", .between = ", ", .tail = "]" SPECIAL("<|tool_call_end|>"),
     .key_excludes = " \t\r\f\v!\"#$%&'()*+,/;<=>?@[\\]^`{|}~"},
};
/* clang-format on */
const size_t mica_n_call_writers = sizeof(mica_call_writers) / sizeof(mica_call_writers[0]);

/* ---- texts of the table ---- */

static const expr *one_of(grammar_build *b, const char *ranges) {
    byte_set set = {0};
    for (; *ranges; ranges += 2) {
        byte_set_add(&set, (uint8_t)ranges[0], (uint8_t)ranges[1]);
    }
    return mica_expr_set(b, &set);
}

static const expr *placeholder(call_texts *t, char c) {
    grammar_build *b = t->b;
    if (c == CALL_ID[0]) return mica_expr_repeat(b, one_of(b, "09azAZ"), 1, 24);
    if (c == CALL_INDEX[0])
        return mica_expr_seq2(b, one_of(b, "19"), mica_expr_repeat(b, one_of(b, "09"), 0, 2));
    return mica_expr_text(b, t->name ? t->name : "");
}

/* A special token whose spelling may hold the suffix. */
static const expr *special(call_texts *t, const char *s, size_t n) {
    char spelling[128];
    const char *at = memchr(s, CALL_SUFFIX[0], n);
    size_t n_before = at ? (size_t)(at - s) : n, n_suffix = at ? strlen(t->suffix) : 0;
    size_t n_after = n - n_before - (at != NULL);
    if (n_before + n_suffix + n_after > sizeof(spelling)) return t->b->never;
    memcpy(spelling, s, n_before);
    if (n_suffix) memcpy(spelling + n_before, t->suffix, n_suffix);
    if (n_after) memcpy(spelling + n_before + n_suffix, at + 1, n_after);
    return mica_expr_token(t->b, spelling, n_before + n_suffix + n_after);
}

static const expr *make_text(call_texts *t, const char *s) {
    grammar_build *b = t->b;
    const expr *e = b->empty;
    while (*s) {
        size_t n = strcspn(s, CALL_MARK CALL_ID CALL_NAME CALL_INDEX);
        const expr *part = mica_expr_bytes(b, s, n);
        if (!n && *s == CALL_MARK[0]) {
            n = strcspn(++s, CALL_MARK);
            part = special(t, s, n++);
        } else if (!n) {
            part = placeholder(t, *s);
            n = 1;
        }
        e = mica_expr_seq2(b, e, part);
        s += n;
    }
    return e;
}

const expr *mica_call_text(call_texts *t, const char *s) {
    enum { N_KNOWN = sizeof(t->known) / sizeof(t->known[0]) };
    if (!s || !*s) return t->b->empty;
    if (strchr(s, CALL_NAME[0])) return make_text(t, s);
    for (size_t i = 0; i < t->n_known; i++) {
        if (t->known[i].text == s) return t->known[i].e;
    }
    const expr *e = make_text(t, s);
    if (t->n_known < N_KNOWN) {
        t->known[t->n_known].text = s;
        t->known[t->n_known++].e = e;
    }
    return e;
}
