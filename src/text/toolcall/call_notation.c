/* call_notation.c: the notations of arguments, and what the parser makes of bare text in them.
 *
 * A text that the parser would take for a number, a literal or a container where the schema admits
 * one is no way to write a string. The languages here say so for the grammar of all strings, the
 * parser's own functions for the strings of enum and const.
 */
#include <string.h>

#include "text/grammar/charset.h"
#include "text/toolcall/call_writer.h"

/* ---- what the parser sees ---- */

static unsigned seen_types(const void *user, const json_value *root, const json_value *seen) {
    const call_writer *w = user;
    unsigned types = mica_call_schema_types(root, seen, w->guess);
    if (w->args != ARGS_NESTED) return types;
    /* Where the schema says nothing, tags inside are read all the same. */
    if (types & SCHEMA_ANY_VALUE || !seen) types |= SCHEMA_OBJECT | SCHEMA_ARRAY;
    return seen ? types : types | SCHEMA_NO_JSON;
}

static const json_value *seen_child(const void *user, const json_value *root,
                                    const json_value *seen, const char *key, size_t n) {
    (void)user;
    return mica_call_schema_of(root, seen, key, n);
}

/* Bare tags with nothing inside are the container that the schema admits. */
static bool is_empty_container(const call_writer *w, unsigned types) {
    unsigned containers = types & (SCHEMA_OBJECT | SCHEMA_ARRAY);
    return w->args == ARGS_NESTED && containers &&
           containers != (unsigned)(SCHEMA_OBJECT | SCHEMA_ARRAY);
}

static bool has_lost_edges(args_edges edges, const char *s, size_t n) {
    if (n == 0 || edges == EDGES_KEPT) return false;
    if (edges == EDGES_TRIMMED) return call_is_space(s[0]) || call_is_space(s[n - 1]);
    return s[n - 1] == '\n' && n > 1 && (s[0] == '\n' || (s[0] == '\r' && s[1] == '\n'));
}

static bool is_misread(const void *user, const char *s, size_t n, unsigned types) {
    const call_writer *w = user;
    for (size_t i = 0; w->excludes && i < n; i++) {
        if (strchr(w->excludes, s[i])) return true;
    }
    if (n == 0 && is_empty_container(w, types)) return true;
    return has_lost_edges(w->edges, s, n) || mica_call_is_other_value(s, n, types);
}

/* ---- the same as languages ---- */

static const expr *set_of(grammar_build *b, const char *chars) {
    byte_set set = {0};
    for (; *chars; chars++) {
        byte_set_add(&set, (uint8_t)*chars, (uint8_t)*chars);
    }
    return mica_expr_set(b, &set);
}

static const expr *any_text(grammar_build *b) {
    char_set all = {0};
    if (!mica_chars_add(b, &all, 1, 0x10FFFF)) return NULL;
    return mica_expr_repeat(b, mica_chars_expr(b, &all), 0, EXPR_UNBOUNDED);
}

static const expr *word(grammar_build *b, const char *lower) {
    const expr *e = b->empty;
    for (; *lower; lower++) {
        e = mica_expr_seq2(b, e, set_of(b, (const char[]){*lower, (char)(*lower - 32), '\0'}));
    }
    return e;
}

static const expr *digits(grammar_build *b, uint32_t min) {
    return mica_expr_repeat(b, mica_expr_range(b, '0', '9'), min, EXPR_UNBOUNDED);
}

/* As mica_call_is_number has them; an integer may have a fraction of zeros. */
static const expr *number(grammar_build *b, bool is_integer) {
    const expr *some = mica_expr_seq2(b, mica_expr_range(b, '1', '9'), digits(b, 0));
    const expr *whole = mica_expr_seq2(b, mica_expr_optional(b, mica_expr_text(b, "-")),
                                       mica_expr_alt2(b, mica_expr_text(b, "0"), some));
    const expr *zeros = mica_expr_repeat(b, mica_expr_text(b, "0"), 1, EXPR_UNBOUNDED);
    const expr *part = mica_expr_seq2(b, mica_expr_text(b, "."), is_integer ? zeros : digits(b, 1));
    const expr *e = mica_expr_seq2(b, whole, mica_expr_optional(b, part));
    if (is_integer) return e;
    const expr *exponent =
        mica_expr_seq3(b, set_of(b, "eE"), mica_expr_optional(b, set_of(b, "+-")), digits(b, 1));
    return mica_expr_seq2(b, e, mica_expr_optional(b, exponent));
}

/* Texts, but for white space around them, that are values of these types. */
static const expr *values(grammar_build *b, unsigned types) {
    bool is_any = types & SCHEMA_ANY_VALUE;
    const expr *any = any_text(b), *items[8];
    size_t n = 0;
    if (types & SCHEMA_NULL || is_any) items[n++] = word(b, "null");
    if (is_any || !(types & SCHEMA_STRING)) items[n++] = word(b, "none");
    if (types & SCHEMA_BOOLEAN || is_any)
        items[n++] = mica_expr_alt2(b, word(b, "true"), word(b, "false"));
    if (types & SCHEMA_NUMBER || is_any)
        items[n++] = number(b, false);
    else if (types & SCHEMA_INTEGER)
        items[n++] = number(b, true);
    if (types & SCHEMA_OBJECT || is_any)
        items[n++] = mica_expr_seq2(b, mica_expr_text(b, "{"), any);
    if (types & SCHEMA_ARRAY || is_any) items[n++] = mica_expr_seq2(b, set_of(b, "[("), any);
    if (is_any) items[n++] = mica_expr_seq2(b, set_of(b, "\"'"), any);
    return mica_expr_alt(b, items, n);
}

static const expr *lost_edges(grammar_build *b, args_edges edges) {
    const expr *any = any_text(b), *space = set_of(b, " \t\n\v\f\r");
    if (edges == EDGES_KEPT) return b->never;
    if (edges == EDGES_TRIMMED)
        return mica_expr_alt2(b, mica_expr_seq2(b, space, any), mica_expr_seq2(b, any, space));
    const expr *end = mica_expr_text(b, "\n");
    const expr *begin = mica_expr_seq2(b, mica_expr_optional(b, mica_expr_text(b, "\r")), end);
    return mica_expr_seq3(b, begin, any, end);
}

static const expr *misread(const void *user, grammar_build *b, unsigned types) {
    const call_writer *w = user;
    const expr *space = mica_expr_repeat(b, set_of(b, " \t\n\v\f\r"), 0, EXPR_UNBOUNDED);
    const expr *any = any_text(b);
    const expr *items[] = {
        mica_expr_seq3(b, space, values(b, types), space),
        lost_edges(b, w->edges),
        is_empty_container(w, types) ? b->empty : b->never,
        mica_expr_seq3(b, any, set_of(b, w->excludes ? w->excludes : ""), any),
    };
    return mica_expr_alt(b, items, sizeof(items) / sizeof(items[0]));
}

/* ---- keys that the schema does not name ---- */

static unsigned no_types(const void *user, const json_value *root, const json_value *seen) {
    (void)user, (void)root, (void)seen;
    return SCHEMA_STRING;
}

static bool is_no_key(const void *user, const char *s, size_t n, unsigned types) {
    const call_writer *w = user;
    (void)types;
    for (size_t i = 0; i < n; i++) {
        if (strchr(w->key_excludes, s[i]) || call_is_space(s[i])) return true;
    }
    return n == 0;
}

static const expr *no_keys(const void *user, grammar_build *b, unsigned types) {
    const call_writer *w = user;
    const expr *any = any_text(b);
    (void)types;
    const expr *bad = mica_expr_alt2(b, set_of(b, w->key_excludes), set_of(b, " \t\n\v\f\r"));
    return mica_expr_alt2(b, b->empty, mica_expr_seq3(b, any, bad, any));
}

/* ---- notations ---- */

/* Members in tags, or as keywords. */
static schema_notation members(call_texts *t, const call_writer *w) {
    const expr *empty = t->b->empty;
    return (schema_notation){
        .object_open = empty,
        .object_close = empty,
        .object_end = empty,
        .array_open = empty,
        .array_close = empty,
        .array_end = empty,
        .separator = empty,
        .key_open = mica_call_text(t, w->open),
        .key_end = mica_call_text(t, w->open_end),
        .item_open = empty,
        .item_close = empty,
        .value_close = empty,
        .key = w->key_excludes ? SCHEMA_KEY_BARE : SCHEMA_KEY_ATTRIBUTE,
        .key_excludes = w->key_excludes,
        .names_only = true,
        .quote = empty,
    };
}

static void init_tagged(args_notations *out, call_texts *t, const call_writer *w) {
    const schema_reader *reader = w->leads[0].types ? NULL : &out->reader;
    out->reader = (schema_reader){w, seen_types, seen_child, misread, is_misread};
    out->args = members(t, w);
    out->args.reader = reader;
    out->args.values = &out->value;
    out->args.leads = out->leads;
    for (int i = 0; i < CALL_MAX_LEADS && w->leads[i].types; i++) {
        out->leads[out->args.n_leads++] =
            (schema_lead){w->leads[i].types, mica_call_text(t, w->leads[i].text)};
    }
    out->json.bar = w->bar;
    out->value = out->json;
    out->value.is_raw = true;
    out->value.quote = t->b->empty;
    out->value.value_close = mica_call_text(t, w->close);
    out->value.reader = reader;
    out->value.containers = &out->json;
    out->value.python_words = w->python_words;
}

static void init_nested(args_notations *out, call_texts *t, const call_writer *w) {
    grammar_build *b = t->b;
    init_tagged(out, t, w);
    out->args.key_again = mica_call_text(t, w->open_end);
    out->element = out->args;
    out->element.is_elements = true;
    out->element.item_open =
        mica_expr_seq3(b, out->args.key_open, mica_expr_text(b, "item"), out->args.key_end);
    out->element.item_close = mica_expr_seq2(b, mica_expr_text(b, "item"), out->args.key_again);
    out->element.maps = &out->json;
    out->value.containers = &out->element;
}

static void init_braced(args_notations *out, call_texts *t, const call_writer *w) {
    grammar_build *b = t->b;
    schema_notation *n = &out->args;
    mica_notation_json(n, b, b->empty);
    n->key = SCHEMA_KEY_BARE;
    n->key_excludes = w->key_excludes;
    n->any_order = true;
    n->is_raw = true;
    n->quote = mica_call_text(t, w->quote);
    n->bar = w->bar;
    n->python_words = true; /* the template itself writes None */
    out->quoted_key = *n;
    out->key = *n;
    out->key.quote = b->empty;
    out->key.reader = &out->key_reader;
    out->key_reader = (schema_reader){w, no_types, NULL, no_keys, is_no_key};
    n->free_keys[0] = &out->key;
    n->free_keys[1] = &out->quoted_key;
}

mica_status mica_args_notations_init(args_notations *out, call_texts *t, const call_writer *w,
                                     mica_error *err) {
    *out = (args_notations){.writer = w};
    mica_notation_json(&out->json, t->b, mica_schema_space(t->b, false));
    if (w->args == ARGS_JSON) out->args = out->json;
    if (w->args == ARGS_TAGGED) init_tagged(out, t, w);
    if (w->args == ARGS_NESTED) init_nested(out, t, w);
    if (w->args == ARGS_BRACED) init_braced(out, t, w);
    if (w->args == ARGS_KEYWORDS) {
        out->args = members(t, w);
        out->args.separator = mica_expr_text(t->b, ", ");
        out->args.key_end = mica_expr_text(t->b, "=");
        out->args.values = &out->json;
    }
    return mica_build_check(t->b, err);
}
