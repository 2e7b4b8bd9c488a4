/* schema_text.c: strings as raw text, which no escape makes fit: what would end them, and what a
 * reader would take for something else, is left out of the texts that can be written. The same for
 * JSON strings inside such text, of which only the end of that text is left out.
 */
#include <string.h>

#include "text/grammar/charset.h"
#include "text/grammar/product.h"
#include "text/grammar/schema.h"

static const expr *any_char(grammar_build *b) {
    char_set all = {0};
    return mica_chars_add(b, &all, 1, 0x10FFFF) ? mica_chars_expr(b, &all) : NULL;
}

static unsigned seen_types(const schema_compiler *c) {
    return c->site.notation->reader ? mica_schema_seen_types(c) : 0;
}

const expr *mica_schema_text_quoted(schema_compiler *c, const expr *e) {
    const schema_notation *n = c->site.notation;
    return mica_expr_seq2(c->b, mica_expr_seq3(c->b, n->quote, e, n->quote), n->value_close);
}

static mica_status make_texts(schema_compiler *c, unsigned types, const expr **out) {
    const schema_reader *r = c->site.notation->reader;
    const expr *one = c->site.notation->is_raw ? any_char(c->b) : mica_schema_plain_char(c);
    const expr *e = mica_expr_repeat(c->b, one, 0, EXPR_UNBOUNDED);
    mica_status st = mica_schema_bar(c, e, &e);
    if (!st && r && r->misread) {
        const expr *misread = r->misread(r->user, c->b, types);
        st = mica_schema_check(c, misread);
        if (!st) st = mica_expr_product(&e, c->b, PRODUCT_WITHOUT, e, misread, c->err);
    }
    *out = e;
    return st;
}

static mica_status find_texts(schema_compiler *c, schema_text_memo *out) {
    unsigned types = seen_types(c);
    for (size_t i = 0; i < c->n_texts; i++) {
        *out = c->texts[i];
        if (out->notation == c->site.notation && out->types == types) return MICA_OK;
    }
    *out = (schema_text_memo){.notation = c->site.notation, .types = types};
    mica_status st = make_texts(c, types, &out->texts);
    if (st) return st;
    if (!mica_build_rule(c->b, "text", 4, &out->rule)) return mica_schema_check(c, NULL);
    c->b->rules[out->rule].body = mica_schema_text_quoted(c, out->texts);
    if (c->n_texts == c->texts_capacity) {
        size_t capacity = 2 * c->texts_capacity + 4;
        schema_text_memo *grown = mica_realloc(c->texts, capacity * sizeof(*grown));
        if (!grown) return mica_fail(c->err, MICA_E_NOMEM, "out of memory for a schema");
        c->texts = grown;
        c->texts_capacity = capacity;
    }
    c->texts[c->n_texts++] = *out;
    return MICA_OK;
}

mica_status mica_schema_any_text(schema_compiler *c, const expr **out) {
    schema_text_memo memo;
    mica_status st = find_texts(c, &memo);
    if (!st) *out = memo.texts;
    return st;
}

mica_status mica_schema_all_texts(schema_compiler *c, const expr **out) {
    schema_text_memo memo;
    mica_status st = find_texts(c, &memo);
    if (st) return st;
    *out = mica_expr_rule(c->b, memo.rule);
    return mica_schema_check(c, *out);
}

mica_status mica_schema_text(schema_compiler *c, const schema_list *flat, const expr **out) {
    uint32_t min, max;
    schema_text_memo memo;
    const expr *patterns;
    mica_status st = mica_schema_join_patterns(c, flat, false, &patterns);
    if (!st) st = find_texts(c, &memo);
    if (st) return st;
    mica_schema_find_lengths(flat, &min, &max);
    bool has_length = min || max != EXPR_UNBOUNDED;
    const expr *e = memo.texts;
    if (!patterns && !has_length) {
        *out = mica_expr_rule(c->b, memo.rule);
        return mica_schema_check(c, *out);
    }
    if (patterns) st = mica_expr_product(&e, c->b, PRODUCT_BOTH, patterns, e, c->err);
    if (!st && has_length) {
        const expr *length = mica_expr_repeat(c->b, any_char(c->b), min, max);
        if (!length) return mica_schema_check(c, NULL);
        st = mica_expr_product(&e, c->b, PRODUCT_BOTH, e, length, c->err);
        if (st == MICA_E_LIMIT && c->options.ignores_unknown) st = MICA_OK; /* without lengths */
    }
    if (st) return st;
    *out = mica_schema_text_quoted(c, e);
    return mica_schema_check(c, *out);
}

const expr *mica_schema_text_literal(schema_compiler *c, const char *s, size_t n) {
    const schema_notation *notation = c->site.notation;
    const schema_reader *r = notation->reader;
    bool fits = !memchr(s, 0, n);
    if (notation->bar) fits = fits && !memmem(s, n, notation->bar, strlen(notation->bar));
    if (r && r->is_misread) fits = fits && !r->is_misread(r->user, s, n, seen_types(c));
    return fits ? mica_expr_bytes(c->b, s, n) : c->b->never;
}
