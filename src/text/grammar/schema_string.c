/* schema_string.c: strings: length, pattern, format, and property names that are not others.
 *
 * A string that only has a length may be spelled with any escapes, and a surrogate pair is one
 * character. Under a pattern, a format or a list of names every string has one spelling, the
 * shortest, so that constraints can be joined as automata.
 */
#include <string.h>

#include "text/grammar/charset.h"
#include "text/grammar/pattern_expr.h"
#include "text/grammar/product.h"
#include "text/grammar/schema.h"
#include "text/grammar/strings_expr.h"

static const expr *hex_digits(grammar_build *b, uint32_t n) {
    byte_set set = {0};
    byte_set_add(&set, '0', '9');
    byte_set_add(&set, 'a', 'f');
    byte_set_add(&set, 'A', 'F');
    return mica_expr_repeat(b, mica_expr_set(b, &set), n, n);
}

static const expr *one_of(grammar_build *b, const char *chars) {
    byte_set set = {0};
    for (; *chars; chars++) {
        byte_set_add(&set, (uint8_t)*chars, (uint8_t)*chars);
    }
    return mica_expr_set(b, &set);
}

/* A \u escape that is no surrogate, or a pair. */
static const expr *unicode_escape(grammar_build *b) {
    const expr *d =
        mica_expr_seq3(b, one_of(b, "dD"), mica_expr_range(b, '0', '7'), hex_digits(b, 2));
    const expr *other = mica_expr_seq2(b, one_of(b, "0123456789abcefABCEF"), hex_digits(b, 3));
    const expr *high = mica_expr_seq3(b, one_of(b, "dD"), one_of(b, "89abAB"), hex_digits(b, 2));
    const expr *low = mica_expr_seq3(b, one_of(b, "dD"), one_of(b, "cdefCDEF"), hex_digits(b, 2));
    const expr *pair = mica_expr_seq3(b, high, mica_expr_text(b, "\\u"), low);
    const expr *items[] = {d, other, pair};
    return mica_expr_seq2(b, mica_expr_text(b, "u"), mica_expr_alt(b, items, 3));
}

static bool add_raw(grammar_build *b, char_set *raw) {
    return mica_chars_add(b, raw, 0x20, '"' - 1) && mica_chars_add(b, raw, '"' + 1, '\\' - 1) &&
           mica_chars_add(b, raw, '\\' + 1, 0x10FFFF);
}

/* One character of a string in any spelling. */
const expr *mica_schema_plain_char(schema_compiler *c) {
    grammar_build *b = c->b;
    char_set raw = {0};
    if (b->plain_char) return b->plain_char;
    if (!add_raw(b, &raw)) return NULL;
    const expr *escaped = mica_expr_alt2(b, one_of(b, "\"\\/bfnrt"), unicode_escape(b));
    b->plain_char = mica_expr_alt2(b, mica_chars_expr(b, &raw),
                                   mica_expr_seq2(b, mica_expr_text(b, "\\"), escaped));
    return b->plain_char;
}

/* The rule of all strings without constraints. */
static const expr *shared_string(schema_compiler *c) {
    grammar_build *b = c->b;
    uint32_t rule;
    if (!b->string_rule) {
        const expr *any = mica_expr_repeat(b, mica_schema_plain_char(c), 0, EXPR_UNBOUNDED);
        const expr *body = mica_schema_text_quoted(c, any);
        if (!body || !mica_build_rule(b, "string", 6, &rule)) return NULL;
        b->rules[rule].body = body;
        b->string_rule = rule + 1;
    }
    return mica_expr_rule(b, b->string_rule - 1);
}

static mica_status any_string(schema_compiler *c, const expr **out) {
    if (c->site.notation->is_raw || c->site.notation->bar) return mica_schema_all_texts(c, out);
    *out = shared_string(c);
    return mica_schema_check(c, *out);
}

/* ---- constraints ---- */

void mica_schema_find_lengths(const schema_list *flat, uint32_t *min, uint32_t *max) {
    *min = 0;
    *max = EXPR_UNBOUNDED;
    for (size_t i = 0; i < flat->n; i++) {
        int64_t lo = mica_json_i64(mica_json_find(flat->items[i], "minLength"), 0);
        int64_t hi = mica_json_i64(mica_json_find(flat->items[i], "maxLength"), EXPR_UNBOUNDED);
        if (lo > *min) *min = lo < EXPR_UNBOUNDED ? (uint32_t)lo : EXPR_UNBOUNDED - 1;
        if (hi < *max) *max = (uint32_t)hi;
    }
}

static mica_status pattern_of(schema_compiler *c, const json_value *v, bool is_format, bool is_json,
                              const expr **out) {
    const char *text = v->string;
    size_t n = v->n;
    pattern_options options = {.is_search = !is_format, .is_json = is_json, .what = "pattern"};
    if (is_format) {
        if (!(text = mica_format_pattern(v->string))) {
            *out = NULL;
            if (c->options.ignores_unknown) return MICA_OK;
            return mica_fail(c->err, MICA_E_UNSUPPORTED,
                             "schema: the format \"%.60s\" is not supported; leave it out",
                             v->string);
        }
        n = strlen(text);
    }
    mica_status st = mica_pattern_expr(out, c->b, text, n, &options, c->err);
    if (st != MICA_E_UNSUPPORTED || !c->options.ignores_unknown) return st;
    *out = NULL;
    return MICA_OK;
}

mica_status mica_schema_join_patterns(schema_compiler *c, const schema_list *flat, bool is_json,
                                      const expr **out) {
    *out = NULL;
    for (size_t i = 0; i < 2 * flat->n; i++) {
        bool is_format = i & 1;
        const json_value *v = mica_json_find(flat->items[i / 2], is_format ? "format" : "pattern");
        const expr *e = NULL;
        const json_value *outer = c->at;
        c->at = flat->items[i / 2];
        mica_status st = v ? pattern_of(c, v, is_format, is_json, &e) : MICA_OK;
        if (!st && e && *out) st = mica_expr_product(&e, c->b, PRODUCT_BOTH, *out, e, c->err);
        if (st) return st;
        c->at = outer;
        if (e) *out = e;
    }
    return MICA_OK;
}

/* One character in its shortest spelling. */
static const expr *shortest_char(schema_compiler *c) {
    char_set all = {0};
    return mica_chars_add(c->b, &all, 0, 0x10FFFF) ? mica_chars_json(c->b, &all) : NULL;
}

mica_status mica_schema_string(schema_compiler *c, const schema_list *flat, const expr **out) {
    uint32_t min, max;
    const expr *e;
    if (c->site.notation->is_raw) return mica_schema_text(c, flat, out);
    mica_status st = mica_schema_join_patterns(c, flat, true, &e);
    if (st) return st;
    mica_schema_find_lengths(flat, &min, &max);
    bool has_length = min || max != EXPR_UNBOUNDED;
    if (e && has_length) {
        const expr *length = mica_expr_repeat(c->b, shortest_char(c), min, max);
        if (!length) return mica_schema_check(c, NULL);
        if ((st = mica_expr_product(&e, c->b, PRODUCT_BOTH, e, length, c->err))) return st;
    } else if (has_length) {
        e = mica_expr_repeat(c->b, mica_schema_plain_char(c), min, max);
    }
    if (!e) return any_string(c, out);
    if ((st = mica_schema_bar(c, e, &e))) return st;
    *out = mica_schema_text_quoted(c, e);
    return mica_schema_check(c, *out);
}

/* ---- other names ---- */

/* The inside of the quotes. */
static const expr *name_strings(schema_compiler *c, const schema_names *names) {
    byte_string *items = mica_arena_calloc(&c->b->arena, names->n, sizeof(*items));
    if (!items) {
        c->b->status = MICA_E_NOMEM;
        return NULL;
    }
    for (size_t i = 0; i < names->n; i++) {
        if (c->site.notation->is_raw) {
            items[i] = (byte_string){names->items[i].s, names->items[i].n};
            continue;
        }
        const expr *literal = mica_schema_json_string(c, names->items[i].s, names->items[i].n);
        if (!literal) return NULL;
        items[i] = (byte_string){literal->bytes + 1, literal->n - 2};
    }
    return mica_strings_expr(c->b, items, names->n);
}

/* Any string in its shortest spelling, without quotes. */
static mica_status shortest_strings(schema_compiler *c, const expr **out) {
    if (c->site.notation->is_raw) return mica_schema_any_text(c, out);
    const expr *any = mica_expr_repeat(c->b, shortest_char(c), 0, EXPR_UNBOUNDED);
    return mica_schema_bar(c, any, out);
}

mica_status mica_schema_other_string(schema_compiler *c, const schema_names *names,
                                     const expr **out) {
    if (!names->n) return any_string(c, out);
    const expr *any, *not = name_strings(c, names);
    mica_status st = mica_schema_check(c, not );
    if (!st) st = shortest_strings(c, &any);
    if (!st) st = mica_expr_product(out, c->b, PRODUCT_WITHOUT, any, not, c->err);
    if (st) return st;
    *out = mica_schema_text_quoted(c, *out);
    return mica_schema_check(c, *out);
}

mica_status mica_schema_pattern_names(schema_compiler *c, const char *pattern, size_t n,
                                      const expr **with, const expr **without) {
    const pattern_options options = {
        .is_search = true, .is_json = !c->site.notation->is_raw, .what = "pattern"};
    const expr *found, *any;
    mica_status st = mica_pattern_expr(&found, c->b, pattern, n, &options, c->err);
    if (!st) st = shortest_strings(c, &any);
    if (!st) st = mica_expr_product(without, c->b, PRODUCT_WITHOUT, any, found, c->err);
    *with = found;
    if (!st && (c->site.notation->is_raw || c->site.notation->bar))
        st = mica_expr_product(with, c->b, PRODUCT_BOTH, any, found, c->err);
    if (st) return st;
    *with = mica_schema_text_quoted(c, *with);
    *without = mica_schema_text_quoted(c, *without);
    return mica_schema_check(c, *with && *without ? *with : NULL);
}
