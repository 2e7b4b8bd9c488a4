/* jinja_lexer.c: source text to tokens, with Jinja's rules of white space.
 *
 * Between tags all is data. What a tag takes from the data around it: `-` all white space, and with
 * trim_blocks and lstrip_blocks always on, a statement or comment takes the newline that follows it
 * and the blanks before it on its line. `+` keeps them. Inside brackets an end marker is operators.
 */
#include <stdio.h>
#include <string.h>

#include "base/decimal.h"
#include "base/utf8.h"
#include "text/template/jinja_string.h"

typedef struct lexer {
    jcompiler *c;
    const char *s;
    size_t n, at;
    bool at_line_start; /* the last tag ended with a newline, or this is the start */
    char open[JINJA_MAX_DEPTH];
    int n_open;
} lexer;

static bool fail(lexer *x, size_t pos, const char *what) {
    return mica_j_syntax_error(x->c, MICA_E_FORMAT, (uint32_t)pos, "%s", what);
}

static bool starts(const lexer *x, size_t at, const char *text) {
    size_t n = strlen(text);
    return x->n - at >= n && memcmp(x->s + at, text, n) == 0;
}

static char byte_at(const lexer *x, size_t at) { return at < x->n ? x->s[at] : 0; }

static size_t skip_spaces(const lexer *x, size_t at) {
    while (at < x->n) {
        size_t n;
        if (!mica_j_is_space(mica_j_char_at(x->s, x->n, at, &n))) break;
        at += n;
    }
    return at;
}

/* ---- making tokens ---- */

static jtoken *push(lexer *x, jtoken_type type, size_t pos, size_t end) {
    jcompiler *c = x->c;
    if (c->n_tokens == c->token_capacity) {
        size_t capacity = c->token_capacity ? 2 * c->token_capacity : 256;
        jtoken *grown = mica_j_compile_alloc(c, capacity, sizeof(*grown));
        if (!grown) return NULL;
        if (c->n_tokens) memcpy(grown, c->tokens, c->n_tokens * sizeof(*grown));
        c->tokens = grown;
        c->token_capacity = capacity;
    }
    jtoken *t = &c->tokens[c->n_tokens++];
    *t = (jtoken){.type = type, .pos = (uint32_t)pos, .end = (uint32_t)end};
    return t;
}

static bool push_text(lexer *x, jtoken_type type, size_t pos, size_t end, const char *text,
                      size_t n) {
    jtoken *t = push(x, type, pos, end);
    jstring *s = t ? mica_j_compile_alloc(x->c, 1, sizeof(*s)) : NULL;
    if (!s) return false;
    *s = (jstring){.data = text, .n = n, .n_chars = J_UNCOUNTED};
    t->value = mica_j_text(s);
    return true;
}

/* ---- white space around tags ---- */

/* Where the data [begin, end) before a tag ends once the tag took its share. */
static size_t trim_data(const lexer *x, size_t begin, size_t end, char sign, bool is_print) {
    if (sign == '-') {
        while (end > begin) {
            size_t before = mica_j_char_before(x->s, end), n;
            if (!mica_j_is_space(mica_j_char_at(x->s, x->n, before, &n))) break;
            end = before;
        }
        return end;
    }
    if (sign == '+' || is_print) return end;
    size_t line = end;
    while (line > begin && x->s[line - 1] != '\n')
        line--;
    bool is_line_start = line > begin || x->at_line_start;
    return is_line_start && skip_spaces(x, line) >= end ? line : end;
}

static bool push_data(lexer *x, size_t begin, size_t end) {
    return end == begin || push_text(x, TOKEN_DATA, begin, end, x->s + begin, end - begin);
}

/* The length of an end marker such as "%}" at `at` with its white space, or 0. */
static size_t match_end(const lexer *x, size_t at, const char *marker, bool takes_newline) {
    if (byte_at(x, at) == '-' && starts(x, at + 1, marker)) return skip_spaces(x, at + 3) - at;
    if (takes_newline && byte_at(x, at) == '+' && starts(x, at + 1, marker)) return 3;
    if (!starts(x, at, marker)) return 0;
    return takes_newline && byte_at(x, at + 2) == '\n' ? 3 : 2;
}

static void end_tag(lexer *x, size_t end) {
    x->at = end;
    x->at_line_start = x->s[end - 1] == '\n';
}

/* ---- comments and raw ---- */

static bool lex_comment(lexer *x, size_t begin) {
    for (size_t i = x->at; i < x->n; i++) {
        size_t n = match_end(x, i, "#}", true);
        if (!n) continue;
        end_tag(x, i + n);
        return true;
    }
    return fail(x, begin, "this comment has no end '#}'");
}

/* The end of "{% raw %}" that begins at `at`, or 0. */
static size_t match_raw(const lexer *x, size_t at) {
    at += 2;
    if (byte_at(x, at) == '-' || byte_at(x, at) == '+') at++;
    at = skip_spaces(x, at);
    if (!starts(x, at, "raw")) return 0;
    at = skip_spaces(x, at + 3);
    size_t n = match_end(x, at, "%}", false);
    return n ? at + n : 0;
}

static size_t match_endraw(const lexer *x, size_t at, char *sign) {
    if (!starts(x, at, "{%")) return 0;
    at += 2;
    *sign = byte_at(x, at);
    if (*sign == '-' || *sign == '+') at++;
    at = skip_spaces(x, at);
    if (!starts(x, at, "endraw")) return 0;
    at = skip_spaces(x, at + 6);
    size_t n = match_end(x, at, "%}", true);
    return n ? at + n : 0;
}

static bool lex_raw(lexer *x, size_t begin) {
    for (size_t i = x->at; i < x->n; i++) {
        char sign = 0;
        size_t end = match_endraw(x, i, &sign);
        if (!end) continue;
        /* lstrip looks back to the start of the raw text only; what precedes is another token. */
        x->at_line_start = x->at > 0 && x->s[x->at - 1] == '\n';
        if (!push_data(x, x->at, trim_data(x, x->at, i, sign, false))) return false;
        end_tag(x, end);
        return true;
    }
    return fail(x, begin, "this {% raw %} has no {% endraw %}");
}

/* ---- literals ---- */

static bool is_digit_of(char c, int base) {
    if (base == 16) return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'f');
    return c >= '0' && c < '0' + base;
}

/* The end of digits with single underscores between them; `at` if there is none. */
static size_t skip_digits(const lexer *x, size_t at, int base) {
    size_t end = at;
    while (is_digit_of(byte_at(x, end), base)) {
        end++;
        if (byte_at(x, end) == '_' && is_digit_of(byte_at(x, end + 1), base)) end++;
    }
    return end;
}

static size_t match_float(const lexer *x) {
    if (x->at > 0 && x->s[x->at - 1] == '.') return 0;
    size_t whole = skip_digits(x, x->at, 10), end = whole;
    if (end == x->at) return 0;
    if (byte_at(x, end) == '.' && skip_digits(x, end + 1, 10) > end + 1)
        end = skip_digits(x, end + 1, 10);
    size_t exponent = end;
    if ((byte_at(x, exponent) | 32) == 'e') {
        exponent++;
        if (byte_at(x, exponent) == '+' || byte_at(x, exponent) == '-') exponent++;
        size_t digits = skip_digits(x, exponent, 10);
        if (digits > exponent) end = digits;
    }
    return end > whole ? end : 0;
}

/* The digits of [begin, end) without underscores. */
static char *copy_digits(lexer *x, size_t begin, size_t end, size_t *n) {
    char *digits = mica_j_compile_alloc(x->c, end - begin + 1, 1);
    *n = 0;
    for (size_t i = begin; digits && i < end; i++)
        if (x->s[i] != '_') digits[(*n)++] = x->s[i];
    return digits;
}

static int prefix_base(const lexer *x) {
    if (x->s[x->at] != '0') return 10;
    int base = 10;
    char c = byte_at(x, x->at + 1) | 32;
    if (c == 'b') base = 2;
    if (c == 'o') base = 8;
    if (c == 'x') base = 16;
    size_t digit = x->at + 2 + (byte_at(x, x->at + 2) == '_');
    return is_digit_of(byte_at(x, digit), base) ? base : 10;
}

static bool lex_integer(lexer *x) {
    int base = prefix_base(x);
    size_t begin = x->at + (base == 10 ? 0 : 2), n;
    begin += byte_at(x, begin) == '_';
    size_t end = skip_digits(x, begin, base);
    if (base == 10 && x->s[begin] == '0') { /* 0, 00, 0_0; "007" is two numbers, as in Jinja */
        for (end = begin + 1; byte_at(x, end + (byte_at(x, end) == '_')) == '0'; end++)
            end += byte_at(x, end) == '_';
    }
    char *digits = copy_digits(x, begin, end, &n);
    jtoken *t = digits ? push(x, TOKEN_NUMBER, x->at, end) : NULL;
    if (!t) return false;
    int64_t value = 0;
    bool fits = true;
    for (size_t i = 0; i < n && fits; i++) {
        int digit = digits[i] <= '9' ? digits[i] - '0' : (digits[i] | 32) - 'a' + 10;
        fits = !__builtin_mul_overflow(value, base, &value) &&
               !__builtin_add_overflow(value, digit, &value);
    }
    t->value = mica_j_int(value);
    x->at = end;
    if (fits) return true;
    if (base != 10) return fail(x, t->pos, "an integer of more than 64 bits must be decimal");
    jstring *s = mica_j_compile_alloc(x->c, 1, sizeof(*s));
    if (!s) return false;
    *s = (jstring){.data = digits, .n = n, .n_chars = n};
    t->value = (jvalue){.kind = J_BIGINT, .string = s};
    return true;
}

static bool lex_float(lexer *x, size_t end) {
    size_t n;
    char *digits = copy_digits(x, x->at, end, &n);
    jtoken *t = digits ? push(x, TOKEN_NUMBER, x->at, end) : NULL;
    if (!t) return false;
    t->value = mica_j_float(mica_decimal_parse(digits, n));
    x->at = end;
    return true;
}

/* ---- strings ---- */

static int hex_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_hex(const lexer *x, size_t at, size_t end, int n, uint32_t *out) {
    uint32_t v = 0;
    if (end - at < (size_t)n) return false;
    for (int i = 0; i < n; i++) {
        int digit = hex_value(x->s[at + i]);
        if (digit < 0) return false;
        v = v << 4 | (uint32_t)digit;
    }
    *out = v;
    return v <= 0x10FFFF;
}

/* \xHH, \uHHHH, \UHHHHHHHH at the letter; a surrogate pair is one character, a lone one U+FFFD. */
static bool unescape_hex(lexer *x, size_t *at, size_t end, uint32_t *c) {
    char letter = x->s[*at];
    int n = letter == 'x' ? 2 : letter == 'u' ? 4 : 8;
    if (!read_hex(x, *at + 1, end, n, c))
        return fail(x, *at - 1, "this escape needs 2 (\\x), 4 (\\u) or 8 (\\U) hex digits");
    *at += 1 + (size_t)n;
    if (*c < 0xD800 || *c > 0xDFFF) return true;
    uint32_t low;
    if (*c < 0xDC00 && *at < end && starts(x, *at, "\\u") && read_hex(x, *at + 2, end, 4, &low) &&
        low >= 0xDC00 && low <= 0xDFFF) {
        *c = 0x10000 + ((*c - 0xD800) << 10) + (low - 0xDC00);
        *at += 6;
    } else {
        *c = 0xFFFD;
    }
    return true;
}

/* Python encodes what is not ASCII as an escape before it unescapes, so that a backslash before it
 * swallows the backslash of that escape. */
static size_t spell_escaped(char *out, uint32_t c) {
    char text[16];
    int n = c < 0x100     ? snprintf(text, sizeof(text), "\\x%02x", c)
            : c < 0x10000 ? snprintf(text, sizeof(text), "\\u%04x", c)
                          : snprintf(text, sizeof(text), "\\U%08x", c);
    memcpy(out, text, (size_t)n);
    return (size_t)n;
}

/* One escape; *at is behind the backslash. Writes at most 12 bytes. */
static bool unescape(lexer *x, size_t *at, size_t end, char *out, size_t *n_out) {
    static const char letters[] = "abfnrtv\\'\"", values[] = "\a\b\f\n\r\t\v\\'\"";
    char letter = x->s[*at];
    const char *known = letter ? strchr(letters, letter) : NULL;
    *n_out = 0;
    if (known) {
        out[(*n_out)++] = values[known - letters];
        (*at)++;
    } else if (letter == '\n') {
        (*at)++;
    } else if (letter == 'N') {
        return fail(x, *at - 1, "\\N{...} escapes are not supported");
    } else if (letter == 'x' || letter == 'u' || letter == 'U') {
        uint32_t c = 0;
        if (!unescape_hex(x, at, end, &c)) return false;
        *n_out = mica_utf8_put(out, c);
    } else if (letter >= '0' && letter <= '7') {
        uint32_t c = 0;
        for (int i = 0; i < 3 && *at < end && x->s[*at] >= '0' && x->s[*at] <= '7'; i++)
            c = c << 3 | (uint32_t)(x->s[(*at)++] - '0');
        *n_out = mica_utf8_put(out, c);
    } else if ((unsigned char)letter >= 0x80) {
        size_t n;
        *n_out = spell_escaped(out, mica_j_char_at(x->s, x->n, *at, &n));
        *at += n;
    } else {
        out[0] = '\\';
        *n_out = 1;
    }
    return true;
}

static bool lex_string(lexer *x) {
    size_t begin = x->at + 1, end = begin, n = 0;
    char quote = x->s[x->at];
    while (end < x->n && x->s[end] != quote)
        end += x->s[end] == '\\' ? 2 : 1;
    if (end >= x->n) return fail(x, x->at, "this string has no end");
    /* An escape of 2 bytes never grows but for \ and a character of 2 to 4 bytes: 5 to 10. */
    char *text = mica_j_compile_alloc(x->c, 3 * (end - begin) + 16, 1);
    if (!text) return false;
    for (size_t i = begin; i < end;) {
        if (x->s[i] != '\\') {
            text[n++] = x->s[i++];
            continue;
        }
        size_t n_new;
        i++;
        if (!unescape(x, &i, end, text + n, &n_new)) return false;
        n += n_new;
    }
    size_t pos = x->at;
    x->at = end + 1;
    return push_text(x, TOKEN_STRING, pos, x->at, text, n);
}

/* ---- inside tags ---- */

static bool lex_name(lexer *x) {
    size_t end = x->at, n;
    uint32_t c = mica_j_char_at(x->s, x->n, end, &n);
    if (!mica_j_is_name_char(c, true)) {
        char what[64];
        snprintf(what, sizeof(what), "unexpected character '%.*s'", (int)n, x->s + x->at);
        return fail(x, x->at, what);
    }
    while (end < x->n && mica_j_is_name_char(mica_j_char_at(x->s, x->n, end, &n), false))
        end += n;
    size_t pos = x->at;
    x->at = end;
    return push_text(x, TOKEN_NAME, pos, end, x->s + pos, end - pos);
}

static bool balance(lexer *x, char c) {
    if (c == '(' || c == '[' || c == '{') {
        if (x->n_open == (int)sizeof(x->open)) return fail(x, x->at, "brackets nest too deeply");
        x->open[x->n_open++] = c == '(' ? ')' : c == '[' ? ']' : '}';
        return true;
    }
    if (c != ')' && c != ']' && c != '}') return true;
    if (x->n_open > 0 && x->open[--x->n_open] == c) return true;
    char what[64];
    snprintf(what, sizeof(what), "unexpected '%c'", c);
    return fail(x, x->at, what);
}

static bool lex_operator(lexer *x) {
    static const struct {
        char text[3];
        int op;
    } pairs[] = {{"//", OP_FLOORDIV}, {"**", OP_POW}, {"==", OP_EQ},
                 {"!=", OP_NE},       {">=", OP_GE},  {"<=", OP_LE}};
    int op = x->s[x->at];
    size_t n = 1;
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        if (!starts(x, x->at, pairs[i].text)) continue;
        op = pairs[i].op;
        n = 2;
    }
    if (!balance(x, x->s[x->at])) return false;
    jtoken *t = push(x, TOKEN_OPERATOR, x->at, x->at + n);
    if (!t) return false;
    t->op = op;
    x->at += n;
    return true;
}

static bool lex_one(lexer *x) {
    char c = x->s[x->at];
    size_t end = match_float(x);
    if (end) return lex_float(x, end);
    if (c >= '0' && c <= '9') return lex_integer(x);
    if (c == '"' || c == '\'') return lex_string(x);
    if (c && (strchr("+-/*%~[](){}><=.:|,;", c) || starts(x, x->at, "!="))) return lex_operator(x);
    return lex_name(x);
}

/* The tokens of one tag, up to its end marker. */
static bool lex_tag(lexer *x, bool is_print, size_t begin) {
    jtoken_type type = is_print ? TOKEN_PRINT_END : TOKEN_BLOCK_END;
    x->n_open = 0;
    for (;;) {
        x->at = skip_spaces(x, x->at);
        if (x->at >= x->n)
            return fail(x, begin, is_print ? "this '{{' has no '}}'" : "this '{%' has no '%}'");
        size_t n = x->n_open ? 0 : match_end(x, x->at, is_print ? "}}" : "%}", !is_print);
        if (n) {
            if (!push(x, type, x->at, x->at + n)) return false;
            end_tag(x, x->at + n);
            return true;
        }
        if (!lex_one(x)) return false;
    }
}

/* ---- between tags ---- */

static size_t find_tag(const lexer *x, size_t at) {
    for (; at + 1 < x->n; at++)
        if (x->s[at] == '{' && x->s[at + 1] && strchr("{%#", x->s[at + 1])) return at;
    return x->n;
}

static bool lex_root(lexer *x) {
    size_t tag = find_tag(x, x->at);
    if (tag == x->n) {
        if (!push_data(x, x->at, x->n)) return false;
        x->at = x->n;
        return true;
    }
    char kind = x->s[tag + 1], sign = byte_at(x, tag + 2);
    bool is_print = kind == '{';
    if (!push_data(x, x->at, trim_data(x, x->at, tag, sign, is_print))) return false;
    size_t raw = kind == '%' ? match_raw(x, tag) : 0;
    if (raw) {
        x->at = raw;
        return lex_raw(x, tag);
    }
    x->at = tag + (sign == '-' || sign == '+' ? 3 : 2);
    if (kind == '#') return lex_comment(x, tag);
    return push(x, is_print ? TOKEN_PRINT_BEGIN : TOKEN_BLOCK_BEGIN, tag, x->at) &&
           lex_tag(x, is_print, tag);
}

bool mica_j_lex(jcompiler *c) {
    lexer x = {.c = c, .s = c->t->source, .n = c->t->n_source, .at_line_start = true};
    while (x.at < x.n)
        if (!lex_root(&x)) return false;
    return push(&x, TOKEN_EOF, x.n, x.n) != NULL;
}
