/* pattern_expr.c: a parser of ECMAScript's regular expressions (with the u flag, but lenient where
 * that flag only forbids).
 *
 * Anchors may stand where they are at the ends of the whole text whatever is matched before; other
 * assertions, back references and flags are refused by name. A lazy quantifier is the same as a
 * greedy one, since only the set of texts counts.
 */
#include "text/grammar/pattern_expr.h"

#include <string.h>

#include "text/grammar/charset.h"
#include "text/tokenizer/codepoint.h"

typedef struct parser {
    grammar_build *b;
    const char *s;
    size_t n, pos;
    const pattern_options *options;
    const expr *any; /* any text; made when first needed */
    int depth;
    mica_error *err;
} parser;

/* A part of a pattern, and whether it holds the start or the end of the text. */
typedef struct part {
    const expr *e;
    bool is_start, is_end;
} part;

static mica_status fail(parser *p, mica_status code, size_t at, const char *what) {
    return mica_fail_at(p->err, code, at, "%s: %s", p->options->what, what);
}

static mica_status check(parser *p, const expr *e) {
    return e ? MICA_OK : mica_build_check(p->b, p->err);
}

static int peek(const parser *p) { return p->pos < p->n ? (unsigned char)p->s[p->pos] : -1; }

static bool take(parser *p, const char *text) {
    size_t n = strlen(text);
    if (p->n - p->pos < n || memcmp(p->s + p->pos, text, n) != 0) return false;
    p->pos += n;
    return true;
}

static uint32_t take_char(parser *p) {
    size_t n;
    uint32_t c = utf8_read(p->s + p->pos, &n);
    p->pos += n;
    return c;
}

/* ---- escapes ---- */

static int hex_digit(int c) {
    if (c >= '0' && c <= '9') return c - '0';
    int lower = c | 0x20;
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* n_digits hexadecimal digits; false: they are not there. */
static bool take_hex(parser *p, int n_digits, uint32_t *out) {
    uint32_t v = 0;
    for (int i = 0; i < n_digits; i++) {
        int d = p->pos + (size_t)i < p->n ? hex_digit((unsigned char)p->s[p->pos + (size_t)i]) : -1;
        if (d < 0) return false;
        v = v * 16 + (uint32_t)d;
    }
    p->pos += (size_t)n_digits;
    *out = v;
    return true;
}

/* Behind "\u": four digits, perhaps a second surrogate, or {digits}. */
static bool take_unicode(parser *p, uint32_t *out) {
    if (!take(p, "{")) {
        uint32_t low;
        if (!take_hex(p, 4, out)) return false;
        size_t before = p->pos;
        if (*out < 0xD800 || *out > 0xDBFF) return true;
        if (take(p, "\\u") && take_hex(p, 4, &low) && low >= 0xDC00 && low <= 0xDFFF)
            *out = 0x10000 + ((*out - 0xD800) << 10) + (low - 0xDC00);
        else
            p->pos = before;
        return true;
    }
    uint32_t v = 0, digit;
    for (size_t begin = p->pos; !take(p, "}"); v = v * 16 + digit) {
        if (p->pos - begin > 6 || !take_hex(p, 1, &digit)) return false;
    }
    *out = v;
    return v <= 0x10FFFF;
}

static mica_status parse_property(parser *p, size_t at, char_set *set) {
    if (!take(p, "{")) return fail(p, MICA_E_INVALID, at, "\\p needs a {name}");
    const char *name = p->s + p->pos, *end = memchr(name, '}', p->n - p->pos);
    if (!end) return fail(p, MICA_E_INVALID, at, "\\p{ lacks its }");
    bool is_known;
    size_t n = (size_t)(end - name);
    p->pos += n + 1;
    if (!mica_chars_add_property(p->b, set, name, n, &is_known)) return check(p, NULL);
    if (is_known) return MICA_OK;
    return mica_fail_at(p->err, MICA_E_UNSUPPORTED, at,
                        "%s: the Unicode property \"%.*s\" is not supported; only general "
                        "categories are",
                        p->options->what, (int)(n > 60 ? 60 : n), name);
}

/* Behind a backslash: a class escape adds to *set and *is_class is true; else *c is a character. */
static mica_status parse_escape(parser *p, bool in_class, char_set *set, bool *is_class,
                                uint32_t *c) {
    size_t at = p->pos - 1;
    if (p->pos == p->n) return fail(p, MICA_E_INVALID, at, "a backslash at the end");
    *c = take_char(p);
    *is_class = *c < 0x80 && strchr("dDwWsSpP", (int)*c);
    if (*is_class) {
        char_set own = {0};
        mica_status st = MICA_OK;
        char kind = (char)(*c | 0x20);
        bool ok = kind == 'd'   ? mica_chars_add_digits(p->b, &own)
                  : kind == 'w' ? mica_chars_add_word(p->b, &own)
                  : kind == 's' ? mica_chars_add_space(p->b, &own)
                                : !(st = parse_property(p, at, &own));
        if (st) return st;
        if (ok && *c < 'a') ok = mica_chars_negate(p->b, &own);
        return ok && mica_chars_add_set(p->b, set, &own) ? MICA_OK : check(p, NULL);
    }
    static const char from[] = "tnrfv0", to[] = "\t\n\r\f\v";
    const char *simple = *c && *c < 0x80 ? strchr(from, (int)*c) : NULL;
    if (simple && !(*c == '0' && peek(p) >= '0' && peek(p) <= '9')) {
        *c = (uint32_t)to[simple - from];
        return MICA_OK;
    }
    if (in_class && *c == 'b') {
        *c = '\b';
        return MICA_OK;
    }
    if (*c == 'x')
        return take_hex(p, 2, c) ? MICA_OK : fail(p, MICA_E_INVALID, at, "\\x needs two digits");
    if (*c == 'u')
        return take_unicode(p, c) ? MICA_OK
                                  : fail(p, MICA_E_INVALID, at, "\\u needs four digits or {...}");
    if (*c == 'c' && ((peek(p) | 0x20) >= 'a' && (peek(p) | 0x20) <= 'z')) {
        *c = take_char(p) & 31;
        return MICA_OK;
    }
    if (*c == 'b' || *c == 'B')
        return fail(p, MICA_E_UNSUPPORTED, at, "word boundaries (\\b, \\B) are not supported");
    if ((*c >= '0' && *c <= '9') || *c == 'k')
        return fail(p, MICA_E_UNSUPPORTED, at, "back references are not supported");
    if ((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z'))
        return fail(p, MICA_E_INVALID, at, "an escape that does not exist");
    return MICA_OK;
}

/* ---- classes ---- */

/* One item of a class; *c is UINT32_MAX for a class escape, whose characters are added. */
static mica_status parse_class_atom(parser *p, char_set *set, uint32_t *c) {
    if (!take(p, "\\")) {
        *c = take_char(p);
        return MICA_OK;
    }
    bool is_class = false;
    mica_status st = parse_escape(p, true, set, &is_class, c);
    if (is_class) *c = UINT32_MAX;
    return st;
}

/* Behind the opening bracket. */
static mica_status parse_class(parser *p, char_set *set) {
    size_t begin = p->pos - 1;
    bool is_negated = take(p, "^");
    while (!take(p, "]")) {
        if (p->pos == p->n) return fail(p, MICA_E_INVALID, begin, "a class lacks its ]");
        uint32_t lo, hi;
        size_t at = p->pos;
        mica_status st = parse_class_atom(p, set, &lo);
        if (st) return st;
        hi = lo;
        bool is_range = peek(p) == '-' && p->pos + 1 < p->n && p->s[p->pos + 1] != ']';
        if (is_range && lo != UINT32_MAX) {
            p->pos++;
            if ((st = parse_class_atom(p, set, &hi))) return st;
            if (hi == UINT32_MAX || hi < lo)
                return fail(p, MICA_E_INVALID, at, "a range that does not rise");
        }
        if (lo != UINT32_MAX && !mica_chars_add(p->b, set, lo, hi)) return check(p, NULL);
    }
    return is_negated && !mica_chars_negate(p->b, set) ? check(p, NULL) : MICA_OK;
}

static mica_status finish_set(parser *p, char_set *set, const expr **out) {
    *out = p->options->is_json ? mica_chars_json(p->b, set) : mica_chars_expr(p->b, set);
    return check(p, *out);
}

/* ---- the grammar of patterns ---- */

static mica_status parse_branches(parser *p, part *out);

static const expr *any_text(parser *p) {
    char_set all = {0};
    if (p->any) return p->any;
    if (!mica_chars_add(p->b, &all, 0, 0x10FFFF)) return NULL;
    const expr *one =
        p->options->is_json ? mica_chars_json(p->b, &all) : mica_chars_expr(p->b, &all);
    p->any = mica_expr_repeat(p->b, one, 0, EXPR_UNBOUNDED);
    return p->any;
}

/* Behind "(". */
static mica_status parse_group(parser *p, part *out) {
    size_t begin = p->pos - 1;
    if (take(p, "?")) {
        bool is_named = false;
        if (take(p, "P<") || (peek(p) == '<' && p->pos + 1 < p->n && p->s[p->pos + 1] != '=' &&
                              p->s[p->pos + 1] != '!')) {
            const char *end = memchr(p->s + p->pos, '>', p->n - p->pos);
            if (!end) return fail(p, MICA_E_INVALID, begin, "a group name lacks its >");
            p->pos = (size_t)(end - p->s) + 1;
            is_named = true;
        }
        if (!is_named && !take(p, ":"))
            return fail(p, MICA_E_UNSUPPORTED, begin,
                        "look-ahead, look-behind and flags, (?...), are not supported");
    }
    if (++p->depth > PATTERN_MAX_DEPTH)
        return fail(p, MICA_E_LIMIT, begin, "groups are nested more than 100 deep");
    mica_status st = parse_branches(p, out);
    p->depth--;
    if (st) return st;
    return take(p, ")") ? MICA_OK : fail(p, MICA_E_INVALID, begin, "a group lacks its )");
}

static mica_status parse_atom(parser *p, part *out) {
    size_t at = p->pos;
    char_set set = {0};
    mica_status st = MICA_OK;
    uint32_t c = take_char(p);
    *out = (part){0};
    switch (c) {
    case '(':
        return parse_group(p, out);
    case '[':
        st = parse_class(p, &set);
        break;
    case '.':
        if (!mica_chars_add(p->b, &set, '\n', '\n') || !mica_chars_add(p->b, &set, '\r', '\r') ||
            !mica_chars_add(p->b, &set, 0x2028, 0x2029) || !mica_chars_negate(p->b, &set))
            st = check(p, NULL);
        break;
    case '\\': {
        bool is_class = false;
        st = parse_escape(p, false, &set, &is_class, &c);
        if (!st && !is_class && !mica_chars_add(p->b, &set, c, c)) st = check(p, NULL);
        break;
    }
    case '*':
    case '+':
    case '?':
        return fail(p, MICA_E_INVALID, at, "a quantifier without anything to repeat");
    default:
        if (!mica_chars_add(p->b, &set, c, c)) st = check(p, NULL);
    }
    return st ? st : finish_set(p, &set, &out->e);
}

/* Digits, of which what is too large becomes the largest count; false: there are none. */
static bool take_count(parser *p, uint32_t *out) {
    uint64_t v = 0;
    size_t begin = p->pos;
    for (; peek(p) >= '0' && peek(p) <= '9'; p->pos++) {
        v = v * 10 + (uint64_t)(p->s[p->pos] - '0');
        if (v > EXPR_UNBOUNDED - 1) v = EXPR_UNBOUNDED - 1;
    }
    *out = (uint32_t)v;
    return p->pos > begin;
}

/* *found false: what follows is not a quantifier (a brace may be a letter). */
static mica_status parse_quantifier(parser *p, uint32_t *min, uint32_t *max, bool *found) {
    size_t at = p->pos;
    *found = true;
    *min = peek(p) == '+';
    *max = peek(p) == '?' ? 1 : EXPR_UNBOUNDED;
    if (take(p, "*") || take(p, "+") || take(p, "?")) return MICA_OK;
    *found = take(p, "{") && take_count(p, min);
    *max = *min;
    if (*found && take(p, ",") && !take_count(p, max)) *max = EXPR_UNBOUNDED;
    if (!*found || !take(p, "}")) {
        *found = false;
        p->pos = at;
        return MICA_OK;
    }
    if (*min > PATTERN_MAX_REPEAT || (*max != EXPR_UNBOUNDED && *max > PATTERN_MAX_REPEAT))
        return fail(p, MICA_E_LIMIT, at, "a quantifier above 1000000");
    return *min > *max ? fail(p, MICA_E_INVALID, at, "a quantifier with its numbers swapped")
                       : MICA_OK;
}

static mica_status parse_repeated(parser *p, part *out) {
    size_t at = p->pos;
    mica_status st = parse_atom(p, out);
    uint32_t min, max;
    bool found;
    if (st || (st = parse_quantifier(p, &min, &max, &found)) || !found) return st;
    if (peek(p) == '+')
        return fail(p, MICA_E_UNSUPPORTED, p->pos, "possessive quantifiers are not supported");
    take(p, "?");
    if (out->is_start || out->is_end)
        return fail(p, MICA_E_UNSUPPORTED, at, "a repeated anchor is not supported");
    out->e = mica_expr_repeat(p->b, out->e, min, max);
    return check(p, out->e);
}

static mica_status parse_branch(parser *p, part *out) {
    expr_list items = {0};
    bool has_text = false; /* something that is not an anchor came before */
    *out = (part){0};
    while (p->pos < p->n && peek(p) != '|' && peek(p) != ')') {
        size_t at = p->pos;
        part next = {.e = p->b->empty};
        mica_status st = MICA_OK;
        if (take(p, "^"))
            next.is_start = true;
        else if (take(p, "$"))
            next.is_end = true;
        else
            st = parse_repeated(p, &next);
        if (st) return st;
        bool is_text = next.e != p->b->empty;
        if ((next.is_start && has_text) || (out->is_end && is_text))
            return fail(p, MICA_E_UNSUPPORTED, at,
                        "an anchor in the middle of a pattern is not supported");
        out->is_start |= next.is_start;
        out->is_end |= next.is_end;
        has_text |= is_text;
        if (!mica_expr_push(p->b, &items, next.e)) return check(p, NULL);
    }
    out->e = mica_expr_seq(p->b, items.items, items.n);
    return check(p, out->e);
}

/* What a part is if the whole text is searched and its ends are looked at. */
static const expr *widen(parser *p, const part *x, bool at_start, bool at_end) {
    if (!p->options->is_search) return x->e;
    const expr *head = at_start && !x->is_start ? any_text(p) : p->b->empty;
    const expr *tail = at_end && !x->is_end ? any_text(p) : p->b->empty;
    return mica_expr_seq3(p->b, head, x->e, tail);
}

static mica_status parse_branches(parser *p, part *out) {
    part *parts = NULL;
    size_t n = 0, capacity = 0;
    expr_list items = {0};
    mica_status st;
    *out = (part){0};
    do {
        if (n == capacity) {
            part *grown =
                mica_arena_calloc(&p->b->arena, capacity = 2 * capacity + 4, sizeof(*grown));
            if (!grown) return mica_fail(p->err, MICA_E_NOMEM, "out of memory for a pattern");
            if (n) memcpy(grown, parts, n * sizeof(*grown));
            parts = grown;
        }
        if ((st = parse_branch(p, &parts[n]))) return st;
        out->is_start |= parts[n].is_start;
        out->is_end |= parts[n].is_end;
        n++;
    } while (take(p, "|"));
    for (size_t i = 0; i < n; i++) {
        /* Where one branch is anchored the others say that they are not. */
        const expr *e = widen(p, &parts[i], out->is_start, out->is_end);
        if (!mica_expr_push(p->b, &items, e)) return check(p, NULL);
    }
    out->e = mica_expr_alt(p->b, items.items, items.n);
    return check(p, out->e);
}

mica_status mica_pattern_expr(const expr **out, grammar_build *b, const char *pattern, size_t n,
                              const pattern_options *options, mica_error *err) {
    parser p = {.b = b, .s = pattern, .n = n, .options = options, .err = err};
    size_t n_valid = utf8_valid_prefix(pattern, n);
    if (n_valid < n) return fail(&p, MICA_E_INVALID, n_valid, "not valid UTF-8");
    part whole;
    mica_status st = parse_branches(&p, &whole);
    if (st) return st;
    if (p.pos < n) return fail(&p, MICA_E_INVALID, p.pos, "a ) without its (");
    *out = widen(&p, &whole, true, true);
    return check(&p, *out);
}
