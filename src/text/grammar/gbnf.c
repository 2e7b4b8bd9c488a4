/* gbnf.c: grammars in GBNF, the notation of llama.cpp.
 *
 *   root ::= "yes" | list{1,3} | <tool_call> [a-z]+    # a comment
 *
 * The rule "root" is the whole text. A rule ends at the end of its line, but goes on inside
 * parentheses, behind "|" and where the next line begins with "|". <name> is the token of that
 * spelling, <[id]> the token of that id; both need a vocabulary that has them.
 */
#include <stdio.h>
#include <string.h>

#include "text/grammar/charset.h"
#include "text/grammar/machine.h"
#include "text/grammar/pattern_expr.h"
#include "text/tokenizer/codepoint.h"
#include "text/tokenizer/text_buffer.h"

typedef struct parser {
    grammar_build *b;
    const grammar_vocab *vocab; /* NULL: not known */
    bool has_tokens;
    const char *s;
    size_t n, pos;
    int depth;
    uint32_t *slots; /* hash of the rules' names: rule + 1 */
    uint32_t n_slots;
    mica_error *err;
} parser;

static mica_status fail(parser *p, size_t at, const char *what) {
    size_t line = 1;
    for (size_t i = 0; i < at && i < p->n; i++) {
        line += p->s[i] == '\n';
    }
    return mica_fail_at(p->err, MICA_E_INVALID, at, "grammar, line %zu: %s", line, what);
}

static mica_status check(parser *p, const expr *e) {
    return e ? MICA_OK : mica_build_check(p->b, p->err);
}

static int peek(const parser *p) { return p->pos < p->n ? (unsigned char)p->s[p->pos] : -1; }

static bool is_newline(int c) { return c == '\n' || c == '\r'; }

static void skip_space(parser *p, bool skips_lines) {
    for (int c; (c = peek(p)) == ' ' || c == '\t' || c == '#' || (skips_lines && is_newline(c));) {
        if (c != '#') {
            p->pos++;
            continue;
        }
        while (peek(p) >= 0 && !is_newline(peek(p))) {
            p->pos++;
        }
    }
}

static bool is_name_char(int c) {
    int lower = c | 0x20;
    return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/* The slot of a name, or the free one where it belongs. */
static uint32_t find_slot(const parser *p, const char *name, size_t n) {
    uint64_t h = 0;
    for (size_t i = 0; i < n; i++) {
        h = (h ^ (unsigned char)name[i]) * UINT64_C(0x9E3779B97F4A7C15);
        h ^= h >> 29;
    }
    uint32_t at = (uint32_t)h & (p->n_slots - 1);
    for (; p->slots[at]; at = (at + 1) & (p->n_slots - 1)) {
        const char *other = p->b->rules[p->slots[at] - 1].name;
        if (strlen(other) == n && memcmp(other, name, n) == 0) break;
    }
    return at;
}

/* Keeps at least half of the slots free. */
static bool grow_slots(parser *p) {
    if (p->n_slots > 2 * p->b->n_rules) return true;
    uint32_t n_slots = p->n_slots ? 2 * p->n_slots : 64;
    uint32_t *slots = mica_calloc(n_slots, sizeof(*slots));
    if (!slots) return false;
    mica_free(p->slots);
    p->slots = slots;
    p->n_slots = n_slots;
    for (uint32_t r = 0; r < p->b->n_rules; r++) {
        const char *name = p->b->rules[r].name;
        p->slots[find_slot(p, name, strlen(name))] = r + 1;
    }
    return true;
}

static mica_status find_rule(parser *p, const char *name, size_t n, uint32_t *rule) {
    if (!grow_slots(p)) return mica_fail(p->err, MICA_E_NOMEM, "out of memory for a grammar");
    uint32_t at = find_slot(p, name, n);
    if (p->slots[at]) {
        *rule = p->slots[at] - 1;
        return MICA_OK;
    }
    if (!mica_build_rule(p->b, name, n, rule)) return check(p, NULL);
    p->slots[at] = *rule + 1;
    return MICA_OK;
}

/* The rule of the name at pos, made if it is new. */
static mica_status parse_name(parser *p, uint32_t *rule) {
    size_t begin = p->pos;
    while (is_name_char(peek(p))) {
        p->pos++;
    }
    size_t n = p->pos - begin;
    if (!n) return fail(p, begin, "a rule name is expected here");
    return find_rule(p, p->s + begin, n, rule);
}

/* ---- characters ---- */

static int hex_digit(int c) {
    if (c >= '0' && c <= '9') return c - '0';
    int lower = c | 0x20;
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

static mica_status parse_hex(parser *p, int n_digits, uint32_t *c) {
    size_t at = p->pos;
    for (*c = 0; n_digits > 0; n_digits--) {
        int digit = hex_digit(peek(p));
        if (digit < 0) return fail(p, at, "an escape lacks hexadecimal digits");
        *c = *c * 16 + (uint32_t)digit;
        p->pos++;
    }
    if (*c > 0x10FFFF || (*c >= 0xD800 && *c <= 0xDFFF))
        return fail(p, at, "an escape that is not a character");
    return MICA_OK;
}

static mica_status parse_char(parser *p, uint32_t *c) {
    size_t n, at = p->pos;
    *c = utf8_read(p->s + p->pos, &n);
    p->pos += n;
    if (*c != '\\') return MICA_OK;
    int kind = peek(p);
    p->pos += kind >= 0;
    switch (kind) {
    case 'x':
        return parse_hex(p, 2, c);
    case 'u':
        return parse_hex(p, 4, c);
    case 'U':
        return parse_hex(p, 8, c);
    case 't':
        *c = '\t';
        return MICA_OK;
    case 'r':
        *c = '\r';
        return MICA_OK;
    case 'n':
        *c = '\n';
        return MICA_OK;
    case '\\':
    case '"':
    case '[':
    case ']':
    case '-':
    case '^':
        *c = (uint32_t)kind;
        return MICA_OK;
    default:
        return fail(p, at, "an escape that does not exist");
    }
}

static mica_status parse_literal(parser *p, const expr **out) {
    size_t begin = p->pos++;
    text_buffer text = {0};
    mica_status st = MICA_OK;
    while (!st && peek(p) != '"') {
        uint32_t c;
        if (p->pos == p->n) {
            st = fail(p, begin, "a literal lacks its closing quote");
        } else if (!(st = parse_char(p, &c)) &&
                   !(st = mica_text_buffer_reserve(&text, 4, p->err))) {
            text_put_char(&text, c);
        }
    }
    p->pos++;
    if (!st) st = check(p, *out = mica_expr_bytes(p->b, text.data, text.n));
    mica_text_buffer_deinit(&text);
    return st;
}

static mica_status parse_class(parser *p, const expr **out) {
    size_t begin = p->pos++;
    char_set set = {0};
    bool is_negated = peek(p) == '^';
    p->pos += is_negated;
    while (peek(p) != ']') {
        uint32_t lo, hi;
        size_t at = p->pos;
        if (p->pos == p->n) return fail(p, begin, "a class lacks its ]");
        mica_status st = parse_char(p, &lo);
        if (st) return st;
        hi = lo;
        if (peek(p) == '-' && p->pos + 1 < p->n && p->s[p->pos + 1] != ']') {
            p->pos++;
            if ((st = parse_char(p, &hi))) return st;
        }
        if (hi < lo) return fail(p, at, "a range that does not rise");
        if (!mica_chars_add(p->b, &set, lo, hi)) return check(p, NULL);
    }
    p->pos++;
    if (is_negated && !mica_chars_negate(p->b, &set)) return check(p, NULL);
    return check(p, *out = mica_chars_expr(p->b, &set));
}

static mica_status parse_any(parser *p, const expr **out) {
    char_set set = {0};
    p->pos++;
    if (!mica_chars_add(p->b, &set, 0, 0x10FFFF)) return check(p, NULL);
    return check(p, *out = mica_chars_expr(p->b, &set));
}

/* ---- tokens ---- */

static bool has_token(const grammar_vocab *v, const char *s, size_t n, bool is_special) {
    char bytes[TRIE_MAX_DEPTH + 1] = {(char)GRAMMAR_SPECIAL_BYTE};
    if (n + is_special > TRIE_MAX_DEPTH) return false;
    memcpy(bytes + is_special, s, n);
    return mica_vocab_has(v, bytes, n + is_special);
}

/* <name>: the token of that spelling, whether it is special or plain text. */
static mica_status named_token(parser *p, size_t begin, size_t n, const expr **out) {
    const char *name = p->s + begin;
    if (!p->vocab) return check(p, *out = mica_expr_token(p->b, name, n));
    if (has_token(p->vocab, name, n, true))
        return check(p, *out = mica_expr_special(p->b, name, n));
    if (has_token(p->vocab, name, n, false)) return check(p, *out = mica_expr_bytes(p->b, name, n));
    char text[200];
    snprintf(text, sizeof(text),
             "this model has no token %.*s; put text in quotes, and name tokens as "
             "`mica tokenize MODEL --pieces` prints them",
             n < 80 ? (int)n : 80, name);
    return fail(p, begin, text);
}

/* <[id]>: the bytes of that token. */
static mica_status numbered_token(parser *p, size_t begin, size_t n, const expr **out) {
    uint64_t id = 0;
    size_t at = begin + 2, end = begin + n - 2;
    for (; at < end && p->s[at] >= '0' && p->s[at] <= '9'; at++) {
        if (id < UINT32_MAX) id = id * 10 + (uint64_t)(p->s[at] - '0');
    }
    if (at < end || n < 5 || p->s[end] != ']') return fail(p, begin, "a token id is <[number]>");
    if (!p->vocab) return check(p, *out = mica_expr_special(p->b, p->s + begin, n));
    size_t n_bytes = 0, n_ids = mica_grammar_vocab_size(p->vocab);
    const char *bytes = id < n_ids ? vocab_bytes(p->vocab, (int32_t)id, &n_bytes) : NULL;
    if (n_bytes && n_bytes <= TRIE_MAX_DEPTH)
        return check(p, *out = mica_expr_bytes(p->b, bytes, n_bytes));
    char text[200];
    int n_shown = n < 40 ? (int)n : 40;
    if (bytes)
        snprintf(text, sizeof(text), "token %.*s has no text that can be generated", n_shown,
                 p->s + begin);
    else
        snprintf(text, sizeof(text), "this model has no token %.*s: its ids are 0 to %zu", n_shown,
                 p->s + begin, n_ids - 1);
    return fail(p, begin, text);
}

static mica_status parse_token(parser *p, const expr **out) {
    size_t begin = p->pos, n = 1;
    while (begin + n < p->n && p->s[begin + n] != '>' && !is_newline(p->s[begin + n])) {
        n++;
    }
    if (begin + n == p->n || p->s[begin + n] != '>') return fail(p, begin, "a token lacks its >");
    p->pos = begin + ++n;
    p->has_tokens = true;
    return p->s[begin + 1] == '[' ? numbered_token(p, begin, n, out)
                                  : named_token(p, begin, n, out);
}

/* ---- rules ---- */

static mica_status parse_alternatives(parser *p, bool is_nested, const expr **out);

static mica_status parse_group(parser *p, const expr **out) {
    size_t begin = p->pos++;
    if (++p->depth > PATTERN_MAX_DEPTH) return fail(p, begin, "nested more than 100 deep");
    skip_space(p, true);
    mica_status st = parse_alternatives(p, true, out);
    p->depth--;
    if (st) return st;
    if (peek(p) != ')') return fail(p, begin, "a group lacks its )");
    p->pos++;
    return MICA_OK;
}

static mica_status parse_count(parser *p, uint32_t *out) {
    uint64_t v = 0;
    size_t begin = p->pos;
    while (peek(p) >= '0' && peek(p) <= '9') {
        v = v * 10 + (uint64_t)(p->s[p->pos++] - '0');
        if (v > PATTERN_MAX_REPEAT) return fail(p, begin, "a repeat above 1000000");
    }
    if (p->pos == begin) return fail(p, begin, "a number is expected here");
    *out = (uint32_t)v;
    return MICA_OK;
}

/* {m}, {m,} or {m,n}. */
static mica_status parse_braces(parser *p, uint32_t *min, uint32_t *max) {
    size_t begin = p->pos++;
    skip_space(p, true);
    *min = 0;
    mica_status st = peek(p) == ',' ? MICA_OK : parse_count(p, min);
    if (st) return st;
    *max = *min;
    skip_space(p, true);
    if (peek(p) == ',') {
        p->pos++;
        *max = EXPR_UNBOUNDED;
        skip_space(p, true);
        if (peek(p) != '}' && (st = parse_count(p, max))) return st;
        skip_space(p, true);
    }
    if (peek(p) != '}' || *min > *max) return fail(p, begin, "a repeat is {m}, {m,} or {m,n}");
    p->pos++;
    return MICA_OK;
}

static mica_status parse_postfix(parser *p, bool is_nested, const expr **e) {
    for (;;) {
        skip_space(p, is_nested);
        int c = peek(p);
        uint32_t min = c == '+', max = c == '?' ? 1 : EXPR_UNBOUNDED;
        if (c == '{') {
            mica_status st = parse_braces(p, &min, &max);
            if (st) return st;
        } else if (c == '*' || c == '+' || c == '?') {
            p->pos++;
        } else {
            return MICA_OK;
        }
        if (!(*e = mica_expr_repeat(p->b, *e, min, max))) return check(p, NULL);
    }
}

/* At a character that begins nothing. */
static mica_status fail_char(parser *p) {
    char text[160];
    int n = (int)utf8_width(p->s[p->pos]);
    if (p->s[p->pos] == '!' && p->pos + 1 < p->n && p->s[p->pos + 1] == '<')
        return fail(p, p->pos,
                    "\"any token but one\", !<token>, is not supported; write what may come, for "
                    "text for example [^<]*");
    snprintf(text, sizeof(text),
             "'%.*s' means nothing here; a rule is made of \"literals\", [classes], (groups), "
             "<tokens>, names, . | * + ? and {m,n}, and ends with its line",
             n, p->s + p->pos);
    return fail(p, p->pos, text);
}

static mica_status parse_element(parser *p, const expr **out) {
    uint32_t rule;
    mica_status st;
    switch (peek(p)) {
    case '"':
        return parse_literal(p, out);
    case '[':
        return parse_class(p, out);
    case '.':
        return parse_any(p, out);
    case '<':
        return parse_token(p, out);
    case '(':
        return parse_group(p, out);
    case '!':
        return fail_char(p);
    default:
        if ((st = parse_name(p, &rule))) return st;
        return check(p, *out = mica_expr_rule(p->b, rule));
    }
}

static bool begins_element(int c) { return (c > 0 && strchr("\"[.<(!", c)) || is_name_char(c); }

static mica_status parse_sequence(parser *p, bool is_nested, const expr **out) {
    expr_list items = {0};
    while (begins_element(peek(p))) {
        const expr *e;
        mica_status st = parse_element(p, &e);
        if (st || (st = parse_postfix(p, is_nested, &e))) return st;
        if (!mica_expr_push(p->b, &items, e)) return check(p, NULL);
    }
    return check(p, *out = mica_expr_seq(p->b, items.items, items.n));
}

/* Goes on to a "|" at the beginning of the next line. */
static bool find_bar(parser *p) {
    size_t at = p->pos;
    skip_space(p, true);
    if (peek(p) == '|') return true;
    p->pos = at;
    return false;
}

static mica_status parse_alternatives(parser *p, bool is_nested, const expr **out) {
    expr_list items = {0};
    for (;;) {
        const expr *e;
        mica_status st = parse_sequence(p, is_nested, &e);
        if (st) return st;
        if (!mica_expr_push(p->b, &items, e)) return check(p, NULL);
        if (!find_bar(p)) break;
        p->pos++;
        skip_space(p, true);
    }
    return check(p, *out = mica_expr_alt(p->b, items.items, items.n));
}

static mica_status parse_rule(parser *p) {
    size_t begin = p->pos;
    uint32_t rule;
    mica_status st = parse_name(p, &rule);
    if (st) return st;
    skip_space(p, false);
    if (p->n - p->pos < 3 || memcmp(p->s + p->pos, "::=", 3) != 0)
        return fail(p, p->pos, "::= is expected behind a rule name");
    p->pos += 3;
    skip_space(p, true);
    if (p->b->rules[rule].body) return fail(p, begin, "a rule that is defined twice");
    const expr *body;
    if ((st = parse_alternatives(p, false, &body))) return st;
    p->b->rules[rule].body = body;
    if (peek(p) >= 0 && !is_newline(peek(p))) return fail_char(p);
    skip_space(p, true);
    return MICA_OK;
}

static mica_status parse_all(parser *p, uint32_t *root) {
    mica_status st = find_rule(p, "root", 4, root);
    if (st) return st;
    size_t n_valid = utf8_valid_prefix(p->s, p->n);
    if (n_valid < p->n) return fail(p, n_valid, "not valid UTF-8");
    skip_space(p, true);
    while (p->pos < p->n) {
        if ((st = parse_rule(p))) return st;
    }
    return p->b->rules[*root].body ? MICA_OK : fail(p, 0, "the rule \"root\" is missing");
}

mica_status mica_grammar_compile_gbnf(grammar **out, const char *text, size_t n,
                                      const grammar_vocab *vocab, mica_error *err) {
    grammar_build b;
    uint32_t root = 0;
    mica_status st = mica_build_init(&b, err);
    parser p = {.b = &b, .vocab = vocab, .s = text, .n = n, .err = err};
    if (!st) st = parse_all(&p, &root);
    if (!st) st = mica_grammar_from_build(out, &b, root, err);
    if (!st) (*out)->wants_vocab = p.has_tokens && !vocab;
    mica_free(p.slots);
    mica_build_deinit(&b);
    return st;
}
