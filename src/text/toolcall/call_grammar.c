/* call_grammar.c: how each format writes calls, as a table, and the grammar of a row.
 *
 * In the texts of the table MARK stands around what is a special token in vocabularies that have
 * it, and ANY_ID for letters and digits that the model chooses.
 */
#include "text/toolcall/call_grammar.h"

#include <string.h>

#include "text/grammar/charset.h"
#include "text/grammar/machine.h"
#include "text/grammar/product.h"
#include "text/grammar/schema.h"
#include "text/grammar/strings_expr.h"
#include "text/toolcall/call_format.h"

#define MARK "\1"
#define ANY_ID "\2"
#define SPECIAL(text) MARK text MARK

typedef enum args_kind {
    ARGS_JSON,  /* an object */
    ARGS_TAGGED /* parameters one by one: strings as bare text, other values as JSON */
} args_kind;

typedef struct call_writer {
    const char *format;
    const char *trigger;
    args_kind args;
    bool is_single;                                        /* the end of a call ends the answer */
    const char *head, *begin, *mid, *end, *between, *tail; /* mid: behind the name */
    /* of tagged parameters; text_open: before a bare text, where that differs */
    const char *open, *text_open, *open_end, *close, *join;
    const char *quote;    /* around texts that are then JSON strings */
    const char *excludes; /* characters that texts cannot have */
} call_writer;

#define OBJECT(close) .mid = "\", \"arguments\": ", .end = "}" close
#define LIST_ITEM \
    .begin = "{\"name\": \"", .mid = "\", \"arguments\": ", .end = "}", .between = ", "

/* clang-format off */
static const call_writer writers[] = {
    {"hermes", "<tool_call>", .begin = SPECIAL("<tool_call>") "\n{\"name\": \"",
     OBJECT("\n" SPECIAL("</tool_call>")), .between = "\n"},
    {"longcat", "<longcat_tool_call>", .begin = SPECIAL("<longcat_tool_call>") "\n{\"name\": \"",
     OBJECT("\n" SPECIAL("</longcat_tool_call>")), .between = "\n"},
    {"nemotron", "<TOOLCALL>", .head = SPECIAL("<TOOLCALL>") "[", LIST_ITEM,
     .tail = "]" SPECIAL("</TOOLCALL>")},
    {"granite", "<|tool_call|>", .head = SPECIAL("<|tool_call|>") "[", LIST_ITEM, .tail = "]"},
    {"command", "<|START_ACTION|>", .head = SPECIAL("<|START_ACTION|>") "[",
     .begin = "{\"tool_call_id\": \"" ANY_ID "\", \"tool_name\": \"",
     .mid = "\", \"parameters\": ", .end = "}", .between = ", ",
     .tail = "]" SPECIAL("<|END_ACTION|>")},
    {"apertus", "<|tools_prefix|>", .head = SPECIAL("<|tools_prefix|>") "[", .begin = "{\"",
     .mid = "\": ", .end = "}", .between = ", ", .tail = "]" SPECIAL("<|tools_suffix|>")},
    {"tool-calls", "<tool_calls>", .head = SPECIAL("<tool_calls>") "[", LIST_ITEM,
     .tail = "]" SPECIAL("</tool_calls>")},
    {"gigachat", "<|function_call|>", .begin = SPECIAL("<|function_call|>") "{\"name\": \"",
     OBJECT(""), .is_single = true},
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
     .mid = ":" ANY_ID SPECIAL("<|tool_call_argument_begin|>"),
     .end = SPECIAL("<|tool_call_end|>"), .tail = SPECIAL("<|tool_calls_section_end|>")},
    {"solar-open", "<|tool_calls|>", .head = SPECIAL("<|tool_calls|>"),
     .begin = SPECIAL("<|tool_call:begin|>") ANY_ID SPECIAL("<|tool_call:name|>"),
     .mid = SPECIAL("<|tool_call:args|>"), .end = SPECIAL("<|tool_call:end|>")},
    {"functionary-v3.1", "<function=", .begin = "<function=", .mid = ">", .end = "</function>"},
    {"functionary-v3.2", ">>>", .begin = ">>>", .mid = "\n", .is_single = true},
    {"harmony", "<|channel|>commentary to=", .is_single = true,
     .begin = SPECIAL("<|channel|>") "commentary to=functions.",
     .mid = " " SPECIAL("<|constrain|>") "json" SPECIAL("<|message|>")},
    {"qwen3-coder", "<tool_call>", ARGS_TAGGED, .begin = SPECIAL("<tool_call>") "\n<function=",
     .mid = ">\n", .end = "</function>\n" SPECIAL("</tool_call>"), .between = "\n",
     .open = "<parameter=", .open_end = ">\n", .close = "\n</parameter>\n"},
    {"seed-oss", "<seed:tool_call>", ARGS_TAGGED,
     .begin = SPECIAL("<seed:tool_call>") "\n<function=", .mid = ">\n",
     .end = "</function>\n" SPECIAL("</seed:tool_call>"), .between = "\n", .open = "<parameter=",
     .open_end = ">", .close = "</parameter>\n"},
    {"minimax-m2", "<minimax:tool_call>", ARGS_TAGGED, .head = SPECIAL("<minimax:tool_call>") "\n",
     .begin = "<invoke name=\"", .mid = "\">\n", .end = "</invoke>\n",
     .tail = SPECIAL("</minimax:tool_call>"), .open = "<parameter name=\"", .open_end = "\">",
     .close = "</parameter>\n"},
    {"minicpm5", "<function name=", ARGS_TAGGED, .begin = "<function name=\"", .mid = "\">",
     .end = "</function>", .open = "<param name=\"", .open_end = "\">", .close = "</param>",
     .excludes = "<&"},
    {"deepseek-dsml", "<｜DSML｜function_calls>", ARGS_TAGGED,
     .head = "<｜DSML｜function_calls>\n", .begin = "<｜DSML｜invoke name=\"", .mid = "\">\n",
     .end = "</｜DSML｜invoke>\n", .tail = "</｜DSML｜function_calls>",
     .open = "<｜DSML｜parameter name=\"", .open_end = "\" string=\"false\">",
     .text_open = "\" string=\"true\">", .close = "</｜DSML｜parameter>\n"},
    {"glm", "<tool_call>", ARGS_TAGGED, .begin = SPECIAL("<tool_call>"), .mid = "\n",
     .end = SPECIAL("</tool_call>"), .between = "\n", .open = SPECIAL("<arg_key>"),
     .open_end = SPECIAL("</arg_key>") "\n" SPECIAL("<arg_value>"),
     .close = SPECIAL("</arg_value>") "\n"},
    {"pythonic", "<|tool_call_start|>", ARGS_TAGGED, .head = SPECIAL("<|tool_call_start|>") "[",
     .mid = "(", .end = ")", .between = ", ", .tail = "]" SPECIAL("<|tool_call_end|>"),
     .open = "", .open_end = "=", .close = "", .join = ", ", .quote = "\""},
};
/* clang-format on */
enum { N_WRITERS = sizeof(writers) / sizeof(writers[0]) };

typedef struct call_build {
    grammar_build *b;
    const call_writer *w;
    const toolcall_choice *choice;
    const expr *text; /* the bare text of a parameter */
    mica_error *err;
} call_build;

static mica_status check(const call_build *c, const expr *e) {
    return e ? MICA_OK : mica_build_check(c->b, c->err);
}

/* ---- texts of the table ---- */

static const expr *any_id(grammar_build *b) {
    byte_set set = {0};
    byte_set_add(&set, '0', '9');
    byte_set_add(&set, 'a', 'z');
    byte_set_add(&set, 'A', 'Z');
    return mica_expr_repeat(b, mica_expr_set(b, &set), 1, 24);
}

static const expr *plain_part(grammar_build *b, const char *s, size_t n) {
    const char *id = memchr(s, ANY_ID[0], n);
    if (!id) return mica_expr_bytes(b, s, n);
    size_t n_before = (size_t)(id - s);
    return mica_expr_seq3(b, mica_expr_bytes(b, s, n_before), any_id(b),
                          mica_expr_bytes(b, id + 1, n - n_before - 1));
}

static const expr *table_text(grammar_build *b, const char *s) {
    const expr *e = b->empty;
    bool is_special = false;
    for (; s && *s; is_special = !is_special) {
        const char *end = strchr(s, MARK[0]);
        size_t n = end ? (size_t)(end - s) : strlen(s);
        e = mica_expr_seq2(b, e, is_special ? mica_expr_token(b, s, n) : plain_part(b, s, n));
        s += n + (end != NULL);
    }
    return e;
}

/* ---- arguments ---- */

/* {"type": "object"} */
static json_value object_word = {.kind = JSON_KIND_STRING, .n = 6, .string = "object"};
static json_member object_type = {.key = "type", .n_key = 4, .value = &object_word};
static const json_value any_object = {.kind = JSON_KIND_OBJECT, .n = 1, .members = &object_type};

static mica_status json_value_expr(call_build *c, const json_value *root, const json_value *schema,
                                   bool is_object, const expr **out) {
    schema_compiler s;
    schema_list list = {0};
    const schema_options options = {.ignores_unknown = !c->choice->is_strict};
    if (!root) root = &any_object;
    mica_status st = mica_schema_compiler_init(&s, c->b, root, &options, c->err);
    bool ok = (!schema || mica_schema_push(&s, &list, schema)) &&
              (!is_object || mica_schema_push(&s, &list, &any_object));
    if (!st && !ok) st = mica_fail(c->err, MICA_E_NOMEM, "out of memory for a schema");
    if (!st) st = mica_schema_place(&s, &list, out);
    mica_schema_compiler_deinit(&s);
    return st;
}

/* Any text in which the mark that ends it does not come. */
static mica_status bare_text(call_build *c, const expr **out) {
    grammar_build *b = c->b;
    char_set all = {0};
    uint32_t rule;
    if ((*out = c->text)) return MICA_OK;
    if (!mica_chars_add(b, &all, 1, 0x10FFFF)) return mica_build_check(b, c->err);
    const expr *any = mica_expr_repeat(b, mica_chars_expr(b, &all), 0, EXPR_UNBOUNDED);
    const expr *ends = b->never;
    char close[64] = "";
    for (const char *s = c->w->close; *s; s++) { /* without line ends around it and MARKs */
        size_t n = strlen(close);
        if (*s != '\n' && *s != MARK[0] && n + 1 < sizeof(close)) close[n] = *s;
    }
    ends = mica_expr_text(b, close);
    for (const char *s = c->w->excludes ? c->w->excludes : ""; *s; s++) {
        ends = mica_expr_alt2(b, ends, mica_expr_bytes(b, s, 1));
    }
    const expr *e, *with = mica_expr_seq3(b, any, ends, any);
    if (!with) return mica_build_check(b, c->err);
    mica_status st = mica_expr_product(&e, b, PRODUCT_WITHOUT, any, with, c->err);
    if (st) return st;
    if (!mica_build_rule(b, "text", 4, &rule)) return mica_build_check(b, c->err);
    b->rules[rule].body = e;
    *out = c->text = mica_expr_rule(b, rule);
    return check(c, *out);
}

/* The strings of an enum or const as they are; NULL: there are none, or other values too. */
static const expr *bare_values(call_build *c, const json_value *schema) {
    const json_value *list = schema ? mica_json_find(schema, "enum") : NULL;
    const json_value *single = schema ? mica_json_find(schema, "const") : NULL;
    expr_list items = {0};
    size_t n = list && list->kind == JSON_KIND_ARRAY ? list->n : single ? 1 : 0;
    for (size_t i = 0; i < n; i++) {
        const json_value *v = list ? list->items[i] : single;
        if (v->kind != JSON_KIND_STRING) return NULL;
        if (!mica_expr_push(c->b, &items, mica_expr_bytes(c->b, v->string, v->n))) return NULL;
    }
    return n ? mica_expr_factored(c->b, items.items, n) : NULL;
}

static bool names_string(const json_value *type) {
    if (type->kind == JSON_KIND_STRING) return strcmp(type->string, "string") == 0;
    for (size_t i = 0; type->kind == JSON_KIND_ARRAY && i < type->n; i++) {
        if (names_string(type->items[i])) return true;
    }
    return false;
}

/* Whether a parameter may be a string, and so is written as text. */
static bool may_be_text(const json_value *schema, int depth) {
    if (schema->kind != JSON_KIND_OBJECT || depth > 8) return true;
    const json_value *type = mica_json_find(schema, "type"), *v;
    if (type) return names_string(type);
    if ((v = mica_json_find(schema, "const"))) return v->kind == JSON_KIND_STRING;
    if ((v = mica_json_find(schema, "enum")) && v->kind == JSON_KIND_ARRAY) {
        for (size_t i = 0; i < v->n; i++) {
            if (v->items[i]->kind == JSON_KIND_STRING) return true;
        }
        return false;
    }
    static const char *const lists[] = {"anyOf", "oneOf", "allOf"};
    for (int k = 0; k < 3; k++) {
        if (!(v = mica_json_find(schema, lists[k])) || v->kind != JSON_KIND_ARRAY) continue;
        for (size_t i = 0; i < v->n; i++) {
            if (may_be_text(v->items[i], depth + 1)) return true;
        }
        return false;
    }
    return !mica_json_find(schema, "$ref") && !mica_json_find(schema, "properties") &&
           !mica_json_find(schema, "items");
}

static mica_status parameter(call_build *c, const json_value *root, const json_member *m,
                             const expr **out) {
    const call_writer *w = c->w;
    grammar_build *b = c->b;
    bool is_text = !w->quote && may_be_text(m->value, 0);
    const expr *value = is_text ? bare_values(c, m->value) : NULL;
    mica_status st = MICA_OK;
    if (is_text && !value)
        st = bare_text(c, &value);
    else if (!is_text)
        st = json_value_expr(c, root, m->value, false, &value);
    if (st) return st;
    const char *open_end = is_text && w->text_open ? w->text_open : w->open_end;
    const expr *open = mica_expr_seq3(
        b, table_text(b, w->open), mica_expr_bytes(b, m->key, m->n_key), table_text(b, open_end));
    *out = mica_expr_seq3(b, open, value, table_text(b, w->close));
    return check(c, *out);
}

static bool is_required(const json_value *schema, const json_member *m) {
    const json_value *list = mica_json_find(schema, "required");
    for (size_t i = 0; list && list->kind == JSON_KIND_ARRAY && i < list->n; i++) {
        const json_value *v = list->items[i];
        if (v->kind == JSON_KIND_STRING && v->n == m->n_key && !memcmp(v->string, m->key, v->n))
            return true;
    }
    return false;
}

/* The parameters in the schema's order. `started`: behind another one, so that `join` comes first.
 */
static mica_status tagged_args(call_build *c, const json_value *schema, const expr **out) {
    grammar_build *b = c->b;
    const json_value *properties = schema ? mica_json_find(schema, "properties") : NULL;
    size_t n = properties && properties->kind == JSON_KIND_OBJECT ? properties->n : 0;
    const expr *join = table_text(b, c->w->join);
    /* From the last one on: what follows behind another one, and what follows at the start. */
    const expr *behind = b->empty, *first = b->empty;
    for (size_t i = n; i-- > 0;) {
        const json_member *m = &properties->members[i];
        const expr *one;
        uint32_t rule;
        mica_status st = parameter(c, schema, m, &one);
        if (st) return st;
        const expr *with = mica_expr_seq2(b, one, behind), *joined = mica_expr_seq2(b, join, with);
        bool must_come = is_required(schema, m);
        first = must_come ? with : mica_expr_alt2(b, with, first);
        behind = must_come ? joined : mica_expr_alt2(b, joined, behind);
        if (!behind || !first || !mica_build_rule(b, "rest", 4, &rule)) return check(c, NULL);
        b->rules[rule].body = behind;
        behind = mica_expr_rule(b, rule);
    }
    *out = first;
    return check(c, first);
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

static mica_status one_call(call_build *c, const json_value *tool, const expr **out) {
    grammar_build *b = c->b;
    const json_value *inner = mica_json_find(tool, "function");
    if (inner) tool = inner;
    const char *name = mica_json_string(mica_json_find(tool, "name"), "");
    const json_value *schema = mica_json_find(tool, "parameters");
    if (!schema) schema = mica_json_find(tool, "input_schema");
    if (schema && schema->kind == JSON_KIND_NULL) schema = NULL;
    *out = b->never;
    if (c->choice->name && strcmp(name, c->choice->name) != 0) return MICA_OK;
    const expr *args;
    mica_status st = check_name(c, name);
    if (!st)
        st = c->w->args == ARGS_JSON ? json_value_expr(c, schema, schema, true, &args)
                                     : tagged_args(c, schema, &args);
    if (st) return st;
    const expr *head = mica_expr_seq3(b, table_text(b, c->w->begin), mica_expr_text(b, name),
                                      table_text(b, c->w->mid));
    *out = mica_expr_seq3(b, head, args, table_text(b, c->w->end));
    return check(c, *out);
}

/* All answers of one row of the table. */
static mica_status answers(call_build *c, const json_value *tools, const expr **out) {
    grammar_build *b = c->b;
    expr_list ways = {0};
    uint32_t rule;
    for (size_t i = 0; i < tools->n; i++) {
        const expr *way;
        mica_status st = one_call(c, tools->items[i], &way);
        if (st) return st;
        if (way != b->never && !mica_expr_push(b, &ways, way)) return check(c, NULL);
    }
    if (!ways.n)
        return mica_fail(c->err, MICA_E_INVALID, "tool_choice: there is no tool named \"%.100s\"",
                         c->choice->name ? c->choice->name : "");
    if (!mica_build_rule(b, "call", 4, &rule)) return check(c, NULL);
    b->rules[rule].body = mica_expr_factored(b, ways.items, ways.n);
    const expr *one = b->rules[rule].body ? mica_expr_rule(b, rule) : NULL;
    const expr *more = b->empty;
    if (c->choice->is_parallel && !c->w->is_single)
        more = mica_expr_repeat(b, mica_expr_seq2(b, table_text(b, c->w->between), one), 0,
                                EXPR_UNBOUNDED);
    const expr *all = mica_expr_seq3(b, table_text(b, c->w->head), one, more);
    *out = mica_expr_seq2(b, all, table_text(b, c->w->tail));
    return check(c, *out);
}

static mica_status build_all(grammar **out, grammar_build *b, const char *format,
                             const json_value *tools, const toolcall_choice *choice,
                             mica_error *err) {
    expr_list rows = {0};
    uint32_t root;
    for (size_t i = 0; i < N_WRITERS; i++) {
        if (strcmp(writers[i].format, format) != 0) continue;
        call_build c = {.b = b, .w = &writers[i], .choice = choice, .err = err};
        const expr *e;
        mica_status st = answers(&c, tools, &e);
        if (st) return st;
        if (!mica_expr_push(b, &rows, e)) return mica_build_check(b, err);
    }
    if (!mica_build_rule(b, "root", 4, &root)) return mica_build_check(b, err);
    b->rules[root].body = mica_expr_factored(b, rows.items, rows.n);
    if (!b->rules[root].body) return mica_build_check(b, err);
    return mica_grammar_from_build(out, b, root, err);
}

const char *mica_toolcall_trigger(const toolcall_dialect *d) {
    for (size_t i = 0; d->format && i < N_WRITERS; i++) {
        if (strcmp(writers[i].format, d->format->name) == 0) return writers[i].trigger;
    }
    return NULL;
}

mica_status mica_toolcall_grammar(grammar **out, const toolcall_dialect *d,
                                  const toolcall_choice *choice, mica_error *err) {
    if (!mica_toolcall_trigger(d)) {
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
    if (!st) st = build_all(out, &b, d->format->name, tools.list, choice, err);
    mica_build_deinit(&b);
    mica_call_tools_deinit(&tools);
    return st;
}
