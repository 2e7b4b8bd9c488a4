/* call_detect.c: which dialect a model speaks, told by texts in its chat template and, where those
 * say nothing, by the same texts among the tokens of its vocabulary.
 */
#include "text/toolcall/call_format.h"
#include "text/toolcall/toolcall.h"

#include <stdio.h>

typedef struct trigger {
    const char *name;
    const char *texts[3]; /* all must be there */
} trigger;

/* The first row that fits counts. */
static const trigger call_triggers[] = {
    {"minimax-m2", {"<minimax:tool_call>"}},
    {"minimax-m3", {"]<]minimax[>["}},
    {"gemma4", {"<|tool_call>", "<tool_call|>"}},
    {"function-gemma", {"<start_function_call>"}},
    {"longcat", {"<longcat_tool_call>"}},
    {"glm", {"<arg_key>"}},
    {"hunyuan", {"<arg_key{"}},
    {"hunyuan", {"<arg_key:"}},
    {"pythonic", {"<|tool_list_start|>"}},
    {"pythonic", {"<|tool_call_start|>"}},
    {"seed-oss", {"<function=", "<seed:tool_call>"}},
    {"qwen3-coder", {"<function=", "<tool_call>"}},
    {"functionary-v3.1", {"<function="}},
    {"minicpm5", {"<function name="}},
    {"kimi-k2", {"<|tool_calls_section_begin|>"}},
    {"kimi-k3", {"<|open|>", "<|sep|>"}},
    {"mistral", {"[TOOL_CALLS]"}},
    {"deepseek-dsml", {"｜DSML｜"}},
    {"deepseek-v3", {"<｜tool▁calls▁begin｜>"}},
    {"harmony", {"<|channel|>", "<|message|>"}},
    {"muse", {"<atem:"}},
    {"solar-open", {"<|tool_call:begin|>"}},
    {"nemotron", {"<TOOLCALL>"}},
    {"granite", {"<|tool_call|>"}},
    {"command", {"<|START_ACTION|>"}},
    {"apertus", {"<|tools_prefix|>"}},
    {"tool-calls", {"<tool_calls>"}},
    {"gigachat", {"<|role_sep|>"}},
    {"functionary-v3.2", {">>>all"}},
    {"functools", {"functools["}},
    {"command-r-plus", {"Action:", "\"tool_name\""}},
    {"hermes", {"<tool_call>"}},
    {"llama3", {"<|python_tag|>"}},
    {"llama3", {"\"parameters\""}},
};

static const trigger reasoning_triggers[] = {
    {"harmony", {"<|channel|>", "<|message|>"}},
    {"muse", {"<atem:"}},
    {"gemma4", {"<|channel>"}},
    {"longcat", {"<longcat_think>"}},
    {"seed-oss", {"<seed:think>"}},
    {"minimax-m3", {"<mm:think>"}},
    {"minimax-m2", {"<minimax:tool_call>", "<think>"}},
    {"hunyuan", {"<think{"}},
    {"hunyuan", {"<think:"}},
    {"magistral", {"[THINK]"}},
    {"command", {"<|START_THINKING|>"}},
    {"apertus", {"<|inner_prefix|>"}},
    {"kimi-k3", {"<|open|>", "<|sep|>"}},
    {"solar-open", {"<|tool_call:begin|>", "<|think|>"}},
    {"apriel", {"[BEGIN FINAL RESPONSE]"}},
    {"kimi-k2", {"<|tool_calls_section_begin|>", "think>"}},
    {"deepseek-dsml", {"｜DSML｜"}},
    {"think", {"<think>"}},
    {"think", {"</think>"}},
};

/* Names that mlx-lm's tool_parser_type and others use for formats of the table. */
static const char *const aliases[][2] = {
    {"minimax_m2", "minimax-m2"},
    {"function_gemma", "function-gemma"},
    {"glm47", "glm"},
    {"laguna", "glm"},
    {"qwen3_coder", "qwen3-coder"},
    {"kimi_k2", "kimi-k2"},
    {"kimi_k3", "kimi-k3"},
    {"json_tools", "hermes"},
    {"muse_spark", "muse"},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static bool contains(const char *s, size_t n, const char *text) {
    call_cursor c = {.s = s, .n = n, .is_end = true};
    size_t begin;
    return mica_call_find(&c, text, &begin) == CALL_OK;
}

static bool is_marker(const char *text) {
    return text[0] == '<' || text[0] == '[' || text[0] == ']';
}

/* Whether all texts of a trigger are there: in the template, or as tokens of the vocabulary. */
static bool fires(const trigger *t, const toolcall_source *source, bool in_vocabulary) {
    for (size_t i = 0; i < COUNT(t->texts) && t->texts[i]; i++) {
        const char *text = t->texts[i];
        if (in_vocabulary) {
            bool is_token =
                is_marker(text) && mica_tokenizer_find(source->vocabulary, text, strlen(text)) >= 0;
            if (!is_token) return false;
        } else if (!contains(source->chat_template, source->n_chat_template, text)) {
            return false;
        }
    }
    return true;
}

static const char *find_trigger(const trigger *rows, size_t n, const toolcall_source *source) {
    for (size_t i = 0; source->chat_template && i < n; i++) {
        if (fires(&rows[i], source, false)) return rows[i].name;
    }
    for (size_t i = 0; source->vocabulary && i < n; i++) {
        if (fires(&rows[i], source, true)) return rows[i].name;
    }
    return "none";
}

static mica_status find_format(toolcall_dialect *out, const char *name, mica_error *err) {
    out->format = NULL;
    for (size_t i = 0; i < COUNT(aliases); i++) {
        if (strcmp(aliases[i][0], name) == 0) name = aliases[i][1];
    }
    for (size_t i = 0; i < mica_n_call_formats; i++) {
        if (strcmp(mica_call_formats[i].name, name) == 0) out->format = &mica_call_formats[i];
    }
    if (out->format || strcmp(name, "none") == 0) return MICA_OK;
    return mica_fail(err, MICA_E_INVALID,
                     "tool calls: \"%s\" is no known format; expected \"none\" or a name like "
                     "\"hermes\", \"qwen3-coder\" or \"llama3\"",
                     name);
}

static mica_status find_reasoning(toolcall_dialect *out, const char *name, mica_error *err) {
    out->reasoning = NULL;
    for (size_t i = 0; i < mica_n_reasoning_formats; i++) {
        const reasoning_format *r = &mica_reasoning_formats[i];
        if (strcmp(r->name, name) == 0) out->reasoning = r;
    }
    if (out->reasoning || strcmp(name, "none") == 0) return MICA_OK;
    return mica_fail(err, MICA_E_INVALID,
                     "reasoning: \"%s\" is no known format; expected \"none\" or a name like "
                     "\"think\" or \"harmony\"",
                     name);
}

mica_status mica_toolcall_detect(toolcall_dialect *out, const toolcall_source *source,
                                 mica_error *err) {
    toolcall_dialect found = {0};
    const char *format = source->format, *reasoning = source->reasoning;
    if (!format) format = find_trigger(call_triggers, COUNT(call_triggers), source);
    if (!reasoning) {
        reasoning = find_trigger(reasoning_triggers, COUNT(reasoning_triggers), source);
    }
    mica_status st = find_format(&found, format, err);
    if (!st) st = find_reasoning(&found, reasoning, err);
    if (!st) *out = found;
    return st;
}

bool mica_toolcall_has_suffix(const toolcall_dialect *d) {
    return d->format && strchr(d->format->openers[0].text, '*') != NULL;
}

void mica_toolcall_find_suffix(toolcall_dialect *d, const char *text, size_t n) {
    call_cursor c = {.s = text, .n = n, .is_end = true};
    size_t begin;
    if (!mica_toolcall_has_suffix(d)) return;
    const char *opener = d->format->openers[0].text, *wild = strchr(opener, '*');
    if (mica_call_find(&c, opener, &begin) != CALL_OK) return;
    size_t n_before = (size_t)(wild - opener), n_suffix = c.pos - begin - (strlen(opener) - 1);
    if (n_suffix >= sizeof(d->suffix)) return;
    memcpy(d->suffix, text + begin + n_before, n_suffix);
    d->suffix[n_suffix] = '\0';
}

const char *mica_toolcall_format_name(const toolcall_dialect *d) {
    return d->format ? d->format->name : "none";
}

const char *mica_toolcall_reasoning_name(const toolcall_dialect *d) {
    return d->reasoning ? d->reasoning->name : "none";
}

bool mica_toolcall_reasoning_markers(const toolcall_dialect *d, const char **open,
                                     const char **close) {
    if (!d->reasoning || strchr(d->reasoning->open, '*')) return false;
    *open = d->reasoning->open;
    *close = d->reasoning->closes[0];
    return true;
}

static bool is_drop(const call_format *f, const char *marker) {
    for (size_t i = 0; f && i < COUNT(f->drops) && f->drops[i]; i++) {
        if (strcmp(f->drops[i], marker) == 0) return true;
    }
    return false;
}

size_t mica_toolcall_reasoning_mark_at(const toolcall_dialect *d, const char *s, size_t n) {
    const reasoning_format *r = d->reasoning;
    size_t n_used = 0;
    if (!r || r->is_header || n == 0) return 0;
    if (mica_call_marker(s, n, r->open, &n_used) == CALL_OK) return n_used;
    for (size_t i = 0; i < COUNT(r->closes) && r->closes[i]; i++) {
        bool ends_message = is_drop(d->format, r->closes[i]); /* as in Solar-Open */
        if (ends_message) continue;
        if (mica_call_marker(s, n, r->closes[i], &n_used) == CALL_OK) return n_used;
    }
    return 0;
}

/* Where the last of a marker ends; 0: nowhere. */
static size_t find_last(const char *s, size_t n, const char *marker) {
    call_cursor c = {.s = s, .n = n, .is_end = true};
    size_t begin, last = 0;
    while (mica_call_find(&c, marker, &begin) == CALL_OK) {
        last = c.pos;
    }
    return last;
}

toolcall_start mica_toolcall_prompt_start(const toolcall_dialect *d, const char *prompt, size_t n) {
    const reasoning_format *r = d->reasoning;
    if (!r) return TOOLCALL_START_CONTENT;
    size_t open = find_last(prompt, n, r->open), close = 0;
    for (size_t i = 0; i < COUNT(r->closes) && r->closes[i]; i++) {
        size_t last = find_last(prompt, n, r->closes[i]);
        if (last > close) close = last;
    }
    return open > close ? TOOLCALL_START_REASONING : TOOLCALL_START_CONTENT;
}
