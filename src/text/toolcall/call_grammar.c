/* call_grammar.c: the grammar of a request's tools, from the rows of call_writers.c.
 */
#include "text/toolcall/call_grammar.h"

#include <stdio.h>
#include <string.h>

#include "text/grammar/machine.h"
#include "text/grammar/strings_expr.h"
#include "text/toolcall/call_format.h"
#include "text/toolcall/call_writer.h"

typedef struct call_build {
    grammar_build *b;
    const call_writer *w;
    const toolcall_choice *choice;
    call_texts texts;
    args_notations notations;
    schema_compiler schemas; /* one for all tools, so that equal parts are made once */
    mica_error *err;
} call_build;

static mica_status check(const call_build *c, const expr *e) {
    return e ? MICA_OK : mica_build_check(c->b, c->err);
}

/* ---- arguments ---- */

/* {"type": "object"} */
static json_value object_word = {.kind = JSON_KIND_STRING, .n = 6, .string = "object"};
static json_member object_type = {.key = "type", .n_key = 4, .value = &object_word};
static const json_value any_object = {.kind = JSON_KIND_OBJECT, .n = 1, .members = &object_type};
/* {"additionalProperties": false}: a tool that says nothing of its parameters has none. */
static json_value no = {.kind = JSON_KIND_BOOL};
static json_member no_more = {.key = "additionalProperties", .n_key = 20, .value = &no};
static const json_value no_arguments = {.kind = JSON_KIND_OBJECT, .n = 1, .members = &no_more};

static mica_status arguments(call_build *c, const json_value *schema, const expr **out) {
    schema_compiler *s = &c->schemas;
    schema_list list = {0};
    s->root = schema;
    s->site = (schema_site){.notation = &c->notations.args, .types = SCHEMA_ALL};
    if (s->site.notation->reader) s->site.seen = schema;
    bool ok = mica_schema_push(s, &list, schema) && mica_schema_push(s, &list, &any_object);
    if (!ok) return mica_fail(c->err, MICA_E_NOMEM, "out of memory for a schema");
    return mica_schema_place(s, &list, out);
}

/* ---- calls ---- */

static mica_status check_name(const call_build *c, const char *name) {
    for (const char *s = name; *s; s++) {
        if ((unsigned char)*s > ' ' && !strchr("\"\\<>&:[](){}", *s)) continue;
        return mica_fail(c->err, MICA_E_INVALID,
                         "tools: the name \"%.100s\" has a character that calls cannot have", name);
    }
    return MICA_OK;
}

static const char *tool_name(const json_value *tool) {
    const json_value *inner = mica_json_find(tool, "function");
    return mica_json_string(mica_json_find(inner ? inner : tool, "name"), "");
}

/* Which of two a call would be for, nobody could tell. */
static mica_status check_names(const call_build *c, const json_value *tools) {
    for (size_t i = 0; i < tools->n; i++) {
        const char *name = tool_name(tools->items[i]);
        mica_status st = check_name(c, name);
        if (st) return st;
        for (size_t k = 0; k < i; k++) {
            if (strcmp(name, tool_name(tools->items[k])) != 0) continue;
            return mica_fail(c->err, MICA_E_INVALID,
                             "tools: two are named \"%.100s\"; give each a name of its own", name);
        }
    }
    return MICA_OK;
}

/* A tool as a call that comes first, and as a later one. */
typedef struct tool_ways {
    const expr *first, *later;
} tool_ways;

static mica_status make_ways(call_build *c, const expr *args, tool_ways *out) {
    grammar_build *b = c->b;
    call_texts *t = &c->texts;
    const call_writer *w = c->w;
    uint32_t rule;
    const expr *begin = mica_expr_seq3(b, mica_call_text(t, w->begin), mica_expr_text(b, t->name),
                                       mica_call_text(t, w->mid));
    if (!mica_build_rule(b, "call", 4, &rule)) return check(c, NULL);
    b->rules[rule].body = mica_expr_seq3(b, begin, args, mica_call_text(t, w->end));
    if (!b->rules[rule].body) return check(c, NULL);
    const expr *call = mica_expr_rule(b, rule), *head = mica_call_text(t, w->head);
    const expr *before = b->empty;
    for (int i = 0; i < 2 && w->before[i]; i++) {
        before = mica_expr_alt2(b, before, mica_call_text(t, w->before[i]));
    }
    out->first = mica_expr_seq3(b, before, head, call);
    out->later = mica_expr_seq2(b, mica_call_text(t, w->between), call);
    return check(c, out->first && out->later ? call : NULL);
}

/* *out: zeros where the tool is not the one that is wanted. */
static mica_status one_tool(call_build *c, const json_value *tool, tool_ways *out) {
    const char *name = tool_name(tool);
    const json_value *inner = mica_json_find(tool, "function");
    if (inner) tool = inner;
    const json_value *schema = mica_json_find(tool, "parameters");
    if (!schema) schema = mica_json_find(tool, "input_schema");
    if (!schema || schema->kind == JSON_KIND_NULL) schema = &no_arguments;
    *out = (tool_ways){0};
    if (c->choice->name && strcmp(name, c->choice->name) != 0) return MICA_OK;
    const expr *args;
    mica_status st = arguments(c, schema, &args);
    c->texts.name = name;
    return st ? st : make_ways(c, args, out);
}

/* All answers of one row of the table. */
static mica_status answers(call_build *c, const json_value *tools, const expr **out) {
    grammar_build *b = c->b;
    expr_list first = {0}, later = {0};
    mica_status st = check_names(c, tools);
    if (st) return st;
    for (size_t i = 0; i < tools->n; i++) {
        tool_ways ways;
        st = one_tool(c, tools->items[i], &ways);
        if (st) return st;
        if (ways.first &&
            (!mica_expr_push(b, &first, ways.first) || !mica_expr_push(b, &later, ways.later)))
            return check(c, NULL);
    }
    if (!first.n)
        return mica_fail(c->err, MICA_E_INVALID, "tool_choice: there is no tool named \"%.100s\"",
                         c->choice->name ? c->choice->name : "");
    const expr *more = b->empty;
    if (c->choice->is_parallel && !c->w->is_single)
        more = mica_expr_repeat(b, mica_expr_factored(b, later.items, later.n), 0, EXPR_UNBOUNDED);
    *out = mica_expr_seq3(b, mica_expr_factored(b, first.items, first.n), more,
                          mica_call_text(&c->texts, c->w->tail));
    return check(c, *out);
}

static mica_status build_row(grammar_build *b, const call_writer *w, const toolcall_dialect *d,
                             const json_value *tools, const toolcall_choice *choice,
                             const expr **out, mica_error *err) {
    call_build c = {
        .b = b, .w = w, .choice = choice, .texts = {.b = b, .suffix = d->suffix}, .err = err};
    const schema_options options = {.ignores_unknown = !choice->is_strict};
    mica_status st = mica_args_notations_init(&c.notations, &c.texts, w, err);
    if (!st) st = mica_schema_compiler_init(&c.schemas, b, &any_object, &options, err);
    if (!st) st = answers(&c, tools, out);
    mica_schema_compiler_deinit(&c.schemas);
    return st;
}

static mica_status build_all(grammar **out, grammar_build *b, const toolcall_dialect *d,
                             const json_value *tools, const toolcall_choice *choice,
                             mica_error *err) {
    expr_list rows = {0};
    uint32_t root;
    for (size_t i = 0; i < mica_n_call_writers; i++) {
        const call_writer *w = &mica_call_writers[i];
        const expr *e;
        if (strcmp(w->format, d->format->name) != 0) continue;
        mica_status st = build_row(b, w, d, tools, choice, &e, err);
        if (st) return st;
        if (!mica_expr_push(b, &rows, e)) return mica_build_check(b, err);
    }
    if (!mica_build_rule(b, "root", 4, &root)) return mica_build_check(b, err);
    b->rules[root].body = mica_expr_factored(b, rows.items, rows.n);
    if (!b->rules[root].body) return mica_build_check(b, err);
    return mica_grammar_from_build(out, b, root, err);
}

bool mica_toolcall_trigger(const toolcall_dialect *d, char out[TOOLCALL_TRIGGER_BYTES]) {
    for (size_t i = 0; d->format && i < mica_n_call_writers; i++) {
        if (strcmp(mica_call_writers[i].format, d->format->name) != 0) continue;
        const char *text = mica_call_writers[i].trigger, *at = strchr(text, CALL_SUFFIX[0]);
        if (at)
            snprintf(out, TOOLCALL_TRIGGER_BYTES, "%.*s%s%s", (int)(at - text), text, d->suffix,
                     at + 1);
        else
            snprintf(out, TOOLCALL_TRIGGER_BYTES, "%s", text);
        return true;
    }
    return false;
}

mica_status mica_toolcall_grammar(grammar **out, const toolcall_dialect *d,
                                  const toolcall_choice *choice, mica_error *err) {
    char trigger[TOOLCALL_TRIGGER_BYTES];
    if (!mica_toolcall_trigger(d, trigger)) {
        return mica_fail(err, MICA_E_UNSUPPORTED,
                         "tool_choice: calls in the format \"%s\" cannot be forced",
                         mica_toolcall_format_name(d));
    }
    call_tools tools;
    mica_status st = mica_call_tools_parse(&tools, choice->tools, choice->n_tools, err);
    if (st) return st;
    if (!tools.list || !tools.list->n) {
        mica_call_tools_deinit(&tools);
        return mica_fail(err, MICA_E_INVALID,
                         "tool_choice: a call is wanted, but no tools are given");
    }
    grammar_build b;
    st = mica_build_init(&b, err);
    if (!st) st = build_all(out, &b, d, tools.list, choice, err);
    mica_build_deinit(&b);
    mica_call_tools_deinit(&tools);
    return st;
}
