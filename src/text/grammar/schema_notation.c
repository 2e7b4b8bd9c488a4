/* schema_notation.c: members, items and keys in the notation of a site, and what its reader sees.
 */
#include "text/grammar/schema_notation.h"

#include <string.h>

#include "text/grammar/charset.h"
#include "text/grammar/product.h"
#include "text/grammar/schema.h"

/* Longer ones are none for the parsers of calls. */
enum { MAX_KEY_BYTES = 120, MAX_ATTRIBUTE_BYTES = 256 };

static const expr *spaced(grammar_build *b, const expr *space, const char *text) {
    return mica_expr_seq3(b, space, mica_expr_text(b, text), space);
}

bool mica_notation_json(schema_notation *out, grammar_build *b, const expr *space) {
    *out = (schema_notation){
        .object_open = mica_expr_seq2(b, mica_expr_text(b, "{"), space),
        .object_close = mica_expr_seq2(b, space, mica_expr_text(b, "}")),
        .object_end = mica_expr_text(b, "}"),
        .array_open = mica_expr_seq2(b, mica_expr_text(b, "["), space),
        .array_close = mica_expr_seq2(b, space, mica_expr_text(b, "]")),
        .array_end = mica_expr_text(b, "]"),
        .separator = spaced(b, space, ","),
        .key_open = b->empty,
        .key_end = spaced(b, space, ":"),
        .item_open = b->empty,
        .item_close = b->empty,
        .value_close = b->empty,
        .quote = mica_expr_text(b, "\""),
    };
    return b->status == MICA_OK;
}

/* ---- what the reader sees ---- */

unsigned mica_schema_seen_types(const schema_compiler *c) {
    const schema_reader *r = c->site.notation->reader;
    return r ? r->types(r->user, c->root, c->site.seen) : SCHEMA_ALL;
}

unsigned mica_schema_site_types(const schema_compiler *c) {
    unsigned seen = mica_schema_seen_types(c);
    if (seen & SCHEMA_ANY_VALUE) return c->site.types;
    if (seen & SCHEMA_NUMBER) seen |= SCHEMA_INTEGER;
    return c->site.types & (seen | SCHEMA_STRING);
}

void mica_schema_enter_container(schema_compiler *c) {
    const schema_notation *n = c->site.notation->containers;
    if (!n) return;
    c->site.notation = n;
    if (!n->reader) c->site.seen = NULL;
}

void mica_schema_enter_child(schema_compiler *c, const char *key, size_t n) {
    const schema_notation *outer = c->site.notation;
    const schema_notation *inner = outer->values ? outer->values : outer;
    const json_value *seen = NULL;
    if (outer->reader && inner->reader)
        seen = outer->reader->child(outer->reader->user, c->root, c->site.seen, key, n);
    c->site = (schema_site){.notation = inner, .seen = seen, .types = SCHEMA_ALL};
}

mica_status mica_schema_child(schema_compiler *c, const char *key, size_t n,
                              const schema_list *list, const expr **out) {
    const schema_notation *notation = c->site.notation;
    schema_site outer = c->site;
    mica_status st = MICA_OK;
    expr_list ways = {0};
    mica_schema_enter_child(c, key, n);
    if (!notation->n_leads) st = mica_schema_place(c, list, out);
    for (size_t i = 0; i < notation->n_leads && !st; i++) {
        const expr *e;
        c->site.types = notation->leads[i].types;
        st = mica_schema_place(c, list, &e);
        if (st) break;
        e = mica_expr_seq2(c->b, notation->leads[i].text, e);
        if (!mica_expr_push(c->b, &ways, e)) st = mica_schema_check(c, NULL);
    }
    c->site = outer;
    if (st || !notation->n_leads) return st;
    *out = mica_expr_alt(c->b, ways.items, ways.n);
    return mica_schema_check(c, *out);
}

/* Bare elements hold nothing where a value without members or items was meant, if the reader
 * expects only one of the two. */
bool mica_schema_may_be_empty(const schema_compiler *c, bool is_object) {
    if (!c->site.notation->is_elements) return true;
    unsigned seen = mica_schema_seen_types(c) & (SCHEMA_OBJECT | SCHEMA_ARRAY);
    return seen == (is_object ? SCHEMA_OBJECT : SCHEMA_ARRAY);
}

/* ---- keys, members, items ---- */

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static bool is_bare_key(const schema_compiler *c, const char *key, size_t n) {
    const schema_notation *notation = c->site.notation;
    if (n == 0 || n > MAX_KEY_BYTES || is_space(key[0]) || is_space(key[n - 1])) return false;
    /* The first element tells an array from an object. */
    if (notation->is_elements && n == 4 && memcmp(key, "item", 4) == 0 &&
        mica_schema_seen_types(c) & SCHEMA_ARRAY)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!key[i] || key[i] == '\n' || strchr(notation->key_excludes, key[i])) return false;
    }
    return true;
}

static const expr *attribute(grammar_build *b, const char *key, size_t n) {
    const expr *e = b->empty;
    size_t n_bytes = n;
    for (size_t i = 0; i < n; i++) {
        n_bytes += key[i] == '&' ? 4 : key[i] == '"' ? 5 : 0;
    }
    if (n == 0 || n_bytes > MAX_ATTRIBUTE_BYTES) return b->never;
    for (size_t i = 0, begin = 0; i <= n; i++) {
        bool is_escaped = i < n && (key[i] == '&' || key[i] == '"');
        if (i < n && !is_escaped) continue;
        const expr *escape =
            is_escaped ? mica_expr_text(b, key[i] == '&' ? "&amp;" : "&quot;") : b->empty;
        e = mica_expr_seq3(b, e, mica_expr_bytes(b, key + begin, i - begin), escape);
        begin = i + 1;
    }
    return e;
}

const expr *mica_schema_key(schema_compiler *c, const char *key, size_t n) {
    const schema_notation *notation = c->site.notation;
    if (notation->key == SCHEMA_KEY_JSON) return mica_schema_literal(c, key, n);
    if (notation->key == SCHEMA_KEY_ATTRIBUTE) return attribute(c->b, key, n);
    if (is_bare_key(c, key, n)) return mica_expr_bytes(c->b, key, n);
    if (!notation->is_raw) return c->b->never;
    return mica_schema_text_quoted(c, mica_schema_text_literal(c, key, n));
}

const expr *mica_schema_member(schema_compiler *c, const expr *key, const expr *value) {
    const schema_notation *n = c->site.notation;
    grammar_build *b = c->b;
    const expr *open = mica_expr_seq3(b, n->key_open, key, n->key_end);
    const expr *e = mica_expr_seq2(b, open, value);
    return n->key_again ? mica_expr_seq3(b, e, key, n->key_again) : e;
}

const expr *mica_schema_item(schema_compiler *c, const expr *value) {
    const schema_notation *n = c->site.notation;
    return mica_expr_seq3(c->b, n->item_open, value, n->item_close);
}

/* ---- what strings cannot hold ---- */

mica_status mica_schema_bar(schema_compiler *c, const expr *e, const expr **out) {
    const char *bar = c->site.notation->bar;
    char_set all = {0};
    *out = e;
    if (!bar) return mica_schema_check(c, e);
    if (!mica_chars_add(c->b, &all, 1, 0x10FFFF)) return mica_schema_check(c, NULL);
    const expr *any = mica_expr_repeat(c->b, mica_chars_expr(c->b, &all), 0, EXPR_UNBOUNDED);
    const expr *with = mica_expr_seq3(c->b, any, mica_expr_text(c->b, bar), any);
    if (!e || !with) return mica_schema_check(c, NULL);
    return mica_expr_product(out, c->b, PRODUCT_WITHOUT, e, with, c->err);
}
