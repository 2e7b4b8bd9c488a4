/* regex_class.c: escapes and bracket expressions, rewritten for PCRE2.
 *
 * A bracket expression may hold nested brackets (union) and `&&` (intersection), which PCRE2 lacks:
 * unions are merged, intersections become look-aheads before the first operand.
 */
#include "text/tokenizer/regex_rewrite.h"

#include <stdio.h>

#include "text/tokenizer/codepoint.h"

mica_status mica_regex_refuse(const regex_rewriter *rw, const char *what) {
    return mica_fail(rw->err, MICA_E_UNSUPPORTED,
                     "%s: the regex \"%.*s\" uses %s (at its byte %zu), which is not supported",
                     rw->name, (int)(rw->n < 200 ? rw->n : 200), rw->in, what, rw->pos);
}

mica_status mica_regex_put(regex_rewriter *rw, const char *s) {
    return mica_text_buffer_append(rw->out, s, strlen(s), rw->err);
}

mica_status mica_regex_put_literal(regex_rewriter *rw, uint32_t c) {
    char text[16];
    bool is_plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    if (is_plain) {
        text[0] = (char)c;
        text[1] = '\0';
    } else {
        snprintf(text, sizeof(text), "\\x{%x}", (unsigned)c);
    }
    return mica_regex_put(rw, text);
}

/* ---- escapes ---- */

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    char lower = (char)(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* Up to `max` hexadecimal digits at pos, and past them. */
static size_t read_hex(regex_rewriter *rw, size_t max, uint32_t *out) {
    size_t n = 0;
    *out = 0;
    while (n < max && hex_digit(regex_peek(rw, 0)) >= 0) {
        *out = *out * 16 + (uint32_t)hex_digit(regex_peek(rw, 0));
        rw->pos++;
        n++;
    }
    return n;
}

/* \xHH, \x{H...}, \uHHHH; pos is after the letter. */
static mica_status read_code_point(regex_rewriter *rw, char letter, regex_escape *out) {
    bool has_brace = letter == 'x' && regex_peek(rw, 0) == '{';
    rw->pos += has_brace;
    size_t n = read_hex(rw, has_brace ? 8 : letter == 'x' ? 2 : 4, &out->c);
    if (has_brace && regex_peek(rw, 0) != '}') n = 0;
    if (!n || (letter == 'u' && n != 4)) return mica_regex_refuse(rw, "an incomplete \\x or \\u");
    rw->pos += has_brace;
    if (letter == 'x' && !has_brace && out->c >= 0x80) {
        return mica_regex_refuse(rw, "a raw byte above \\x7F");
    }
    if (out->c > 0x10FFFF || (out->c >= 0xD800 && out->c < 0xE000)) {
        return mica_regex_refuse(rw, "an escape that is no character");
    }
    out->is_literal = true;
    return MICA_OK;
}

static bool has_case(const char *items) {
    return strstr(items, "{Lu}") || strstr(items, "{Ll}") || strstr(items, "{Lt}") ||
           strstr(items, "{Uppercase}") || strstr(items, "{Lowercase}");
}

/* \p{Name}, \p{^Name}, \P{Name}; pos is after the letter. */
static mica_status read_property(regex_rewriter *rw, char letter, regex_escape *out) {
    if (regex_peek(rw, 0) != '{') return mica_regex_refuse(rw, "\\p without braces");
    size_t begin = rw->pos + 1, end = begin;
    while (end < rw->n && rw->in[end] != '}') {
        end++;
    }
    if (end == rw->n) return mica_regex_refuse(rw, "\\p{ without }");
    out->is_negated = letter == 'P';
    if (rw->in[begin] == '^') {
        out->is_negated = !out->is_negated;
        begin++;
    }
    text_buffer items = {.data = out->items, .capacity = sizeof(out->items)};
    if (!mica_regex_property(&items, rw->in + begin, end - begin)) {
        return mica_regex_refuse(rw, "an unknown \\p{...} property");
    }
    out->items[items.n] = '\0';
    if (rw->is_caseless && has_case(out->items)) {
        return mica_regex_refuse(rw, "a property of one case under (?i)");
    }
    out->is_simple = !strstr(out->items + 1, "\\p");
    rw->pos = end + 1;
    return MICA_OK;
}

static void set_items(regex_escape *out, const char *items, bool is_negated) {
    snprintf(out->items, sizeof(out->items), "%s", items);
    out->is_negated = is_negated;
}

mica_status mica_regex_read_escape(regex_rewriter *rw, regex_escape *out) {
    static const char controls[] = "nrtfvae";
    static const char meanings[] = "\n\r\t\f\v\a\x1B";
    *out = (regex_escape){0};
    char c = regex_peek(rw, 1);
    if (!c) return mica_regex_refuse(rw, "a backslash at the end");
    const char *control = strchr(controls, c);
    rw->pos += 2;
    switch (c) {
    case 's':
    case 'S':
        set_items(out, c == 's' ? REGEX_SPACE_ITEMS : "\\p{White_Space}", c == 'S');
        out->is_simple = c == 'S';
        return MICA_OK;
    case 'd':
    case 'D':
        set_items(out, "\\p{Nd}", c == 'D');
        out->is_simple = true;
        return MICA_OK;
    case 'w':
    case 'W':
        set_items(out, REGEX_WORD_ITEMS, c == 'W');
        return MICA_OK;
    case 'h':
    case 'H':
        set_items(out, "0-9A-Fa-f", c == 'H');
        return MICA_OK;
    case 'p':
    case 'P':
        return read_property(rw, c, out);
    case 'x':
    case 'u':
        return read_code_point(rw, c, out);
    default:
        break;
    }
    out->is_literal = true;
    if (control) {
        out->c = (uint32_t)meanings[control - controls];
        return MICA_OK;
    }
    bool is_word = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    if (is_word) {
        rw->pos -= 2;
        return mica_regex_refuse(rw, "an escape without a known equal");
    }
    size_t n;
    out->c = utf8_read(rw->in + rw->pos - 1, &n);
    rw->pos += n - 1;
    return MICA_OK;
}

/* ---- bracket expressions ---- */

/* [:name:] at pos. */
static mica_status put_posix(regex_rewriter *rw) {
    static const char *const names[][2] = {{"alpha", "\\p{Alphabetic}"},
                                           {"digit", "\\p{Nd}"},
                                           {"alnum", "\\p{Alphabetic}\\p{Nd}"},
                                           {"space", REGEX_SPACE_ITEMS},
                                           {"word", REGEX_WORD_ITEMS},
                                           {"upper", "\\p{Uppercase}"},
                                           {"lower", "\\p{Lowercase}"},
                                           {"punct", "\\p{P}\\p{S}"},
                                           {"cntrl", "\\p{Cc}"},
                                           {"xdigit", "0-9A-Fa-f"},
                                           {"blank", "\\p{Zs}\\x{9}"}};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        size_t n = strlen(names[i][0]);
        if (rw->n - rw->pos < n + 4 || memcmp(rw->in + rw->pos + 2, names[i][0], n) != 0) continue;
        if (memcmp(rw->in + rw->pos + 2 + n, ":]", 2) != 0) continue;
        rw->pos += n + 4;
        return mica_regex_put(rw, names[i][1]);
    }
    return mica_regex_refuse(rw, "an unknown [:class:]");
}

static mica_status put_escape_item(regex_rewriter *rw, const regex_escape *e) {
    if (!e->is_negated) return mica_regex_put(rw, e->items);
    if (!e->is_simple) return mica_regex_refuse(rw, "a negated class inside brackets");
    char items[sizeof(e->items)];
    snprintf(items, sizeof(items), "%s", e->items);
    items[1] = 'P';
    return mica_regex_put(rw, items);
}

/* One character or escape of a class at pos. *is_literal: it was a character, now in *c and not yet
 * written; a class is written. */
static mica_status read_item(regex_rewriter *rw, bool *is_literal, uint32_t *c) {
    if (regex_peek(rw, 0) == '\\') {
        if (regex_peek(rw, 1) == 'b') { /* backspace */
            *is_literal = true;
            *c = 8;
            rw->pos += 2;
            return MICA_OK;
        }
        regex_escape e;
        mica_status st = mica_regex_read_escape(rw, &e);
        if (st) return st;
        *is_literal = e.is_literal;
        *c = e.c;
        return e.is_literal ? MICA_OK : put_escape_item(rw, &e);
    }
    size_t n;
    *c = utf8_read(rw->in + rw->pos, &n);
    *is_literal = true;
    rw->pos += n;
    return MICA_OK;
}

/* A character, a range, or an escape. */
static mica_status put_item(regex_rewriter *rw) {
    bool is_literal;
    uint32_t c;
    mica_status st = read_item(rw, &is_literal, &c);
    if (st || !is_literal) return st;
    if ((st = mica_regex_put_literal(rw, c))) return st;
    char after = regex_peek(rw, 1);
    if (regex_peek(rw, 0) != '-' || after == ']' || after == '[' || !after) return MICA_OK;
    size_t mark = rw->out->n;
    rw->pos++;
    if ((st = mica_regex_put(rw, "-"))) return st;
    if ((st = read_item(rw, &is_literal, &c))) return st;
    if (!is_literal) {
        /* "a-\d" is three items: the hyphen has to stand for itself. */
        rw->out->n = mark;
        return mica_regex_refuse(rw, "a range that ends in a class");
    }
    return mica_regex_put_literal(rw, c);
}

/* Items up to the ']' that ends the operand (not read) or to "&&"; nested brackets are merged. */
static mica_status put_items(regex_rewriter *rw) {
    mica_status st;
    size_t depth = 0, n_items = 0;
    for (;; n_items++) {
        char c = regex_peek(rw, 0);
        if (rw->pos >= rw->n) return mica_regex_refuse(rw, "a '[' without ']'");
        if (c == ']' && n_items) {
            if (!depth) return MICA_OK;
            depth--;
            rw->pos++;
        } else if (c == '&' && regex_peek(rw, 1) == '&') {
            if (depth || !n_items) return mica_regex_refuse(rw, "a nested '&&'");
            return MICA_OK;
        } else if (c == '[' && regex_peek(rw, 1) == ':') {
            if ((st = put_posix(rw))) return st;
        } else if (c == '[') {
            if (regex_peek(rw, 1) == '^') return mica_regex_refuse(rw, "a negated nested class");
            depth++;
            rw->pos++;
        } else if ((st = put_item(rw))) {
            return st;
        }
    }
}

/* One operand of "&&", as a bracket expression of its own. */
static mica_status put_operand(regex_rewriter *rw, bool is_negated) {
    mica_status st = mica_regex_put(rw, is_negated ? "[^" : "[");
    if (!st) st = put_items(rw);
    return st ? st : mica_regex_put(rw, "]");
}

static mica_status put_right_operand(regex_rewriter *rw) {
    if (regex_peek(rw, 0) != '[' || regex_peek(rw, 1) != '^') return put_operand(rw, false);
    rw->pos += 2;
    mica_status st = put_operand(rw, true);
    if (st) return st;
    if (regex_peek(rw, 0) != ']') return mica_regex_refuse(rw, "a nested '&&'");
    rw->pos++;
    bool is_end = regex_peek(rw, 0) == ']' || regex_peek(rw, 0) == '&';
    return is_end ? MICA_OK : mica_regex_refuse(rw, "a negated class in a union");
}

/* The operand first[0..n) is at out[begin..]; "&&" is at pos. */
static mica_status put_intersection(regex_rewriter *rw, size_t begin) {
    text_buffer first = {0};
    mica_status st =
        mica_text_buffer_append(&first, rw->out->data + begin, rw->out->n - begin, rw->err);
    rw->out->n = begin;
    if (!st) st = mica_regex_put(rw, "(?:");
    while (!st && regex_peek(rw, 0) == '&' && regex_peek(rw, 1) == '&') {
        rw->pos += 2;
        if (!(st = mica_regex_put(rw, "(?="))) st = put_right_operand(rw);
        if (!st) st = mica_regex_put(rw, ")");
    }
    if (!st) st = mica_text_buffer_append(rw->out, first.data, first.n, rw->err);
    if (!st) st = mica_regex_put(rw, ")");
    mica_text_buffer_deinit(&first);
    return st;
}

mica_status mica_regex_rewrite_class(regex_rewriter *rw) {
    size_t begin = rw->out->n;
    bool is_negated = regex_peek(rw, 1) == '^';
    rw->pos += is_negated ? 2 : 1;
    mica_status st = put_operand(rw, is_negated);
    if (st) return st;
    if (regex_peek(rw, 0) == '&') {
        if (is_negated) return mica_regex_refuse(rw, "'&&' in a negated class");
        if ((st = put_intersection(rw, begin))) return st;
    }
    if (regex_peek(rw, 0) != ']') return mica_regex_refuse(rw, "a '[' without ']'");
    rw->pos++;
    return MICA_OK;
}
