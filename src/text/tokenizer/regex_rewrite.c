/* regex_rewrite.c: an Oniguruma pattern in, the PCRE2 pattern with the same matches out.
 *
 * One pass from left to right. Constructs that both engines read alike are copied, those listed in
 * docs/text.md are replaced, everything else is refused. `atom` remembers where the last atom begins,
 * because `x{n,m}+` (a greedy repeat of a repeat, not a possessive one) must be wrapped.
 */
#include "text/tokenizer/regex_rewrite.h"

#include <stdio.h>

#include "text/tokenizer/codepoint.h"

static mica_status insert(regex_rewriter *rw, size_t at, const char *s) {
    size_t n = strlen(s);
    mica_status st = mica_text_buffer_reserve(rw->out, n, rw->err);
    if (st) return st;
    memmove(rw->out->data + at + n, rw->out->data + at, rw->out->n - at);
    memcpy(rw->out->data + at, s, n);
    rw->out->n += n;
    return MICA_OK;
}

static void begin_atom(regex_rewriter *rw) {
    rw->atom = rw->out->n;
    rw->last_literal = '\0';
}

/* ---- literals ---- */

/* Under (?i) some pairs of letters fold to one character (ss and U+00DF), which Oniguruma honours
 * and PCRE2 does not. */
static mica_status check_folding(regex_rewriter *rw, uint32_t c) {
    static const char pairs[][3] = {"ss", "st", "ff", "fi", "fl"};
    if (c >= 0x80) return mica_regex_refuse(rw, "a letter beyond ASCII under (?i)");
    char lower = c >= 'A' && c <= 'Z' ? (char)(c + 32) : (char)c;
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        if (rw->last_literal == pairs[i][0] && lower == pairs[i][1]) {
            return mica_regex_refuse(rw, "letters that fold together under (?i)");
        }
    }
    rw->last_literal = lower;
    return MICA_OK;
}

static mica_status put_literal_atom(regex_rewriter *rw, uint32_t c) {
    mica_status st = rw->is_caseless ? check_folding(rw, c) : MICA_OK;
    rw->atom = rw->out->n;
    return st ? st : mica_regex_put_literal(rw, c);
}

static mica_status put_character(regex_rewriter *rw) {
    size_t n;
    uint32_t c = utf8_read(rw->in + rw->pos, &n);
    mica_status st = put_literal_atom(rw, c);
    rw->pos += n;
    return st;
}

/* ---- escapes outside of brackets ---- */

static mica_status put_class_atom(regex_rewriter *rw, const regex_escape *e) {
    char text[sizeof(e->items) + sizeof(REGEX_WORD_MORE) + 8];
    begin_atom(rw);
    bool is_word = strcmp(e->items, REGEX_WORD_ITEMS) == 0;
    snprintf(text, sizeof(text), "%s%s%s]", e->is_negated ? "[^" : "[", e->items,
             is_word ? REGEX_WORD_MORE : "");
    return mica_regex_put(rw, text);
}

static mica_status put_escape(regex_rewriter *rw) {
    static const char word[] = "[" REGEX_WORD_ITEMS REGEX_WORD_MORE "]";
    char text[400], c = regex_peek(rw, 1);
    if (c == 'b' || c == 'B') {
        begin_atom(rw);
        bool is_border = c == 'b';
        snprintf(text, sizeof(text), "(?:(?<=%s)(?%c%s)|(?<!%s)(?%c%s))", word,
                 is_border ? '!' : '=', word, word, is_border ? '=' : '!', word);
        rw->pos += 2;
        return mica_regex_put(rw, text);
    }
    if (c == 'A' || c == 'z' || c == 'Z') {
        begin_atom(rw);
        snprintf(text, sizeof(text), "\\%c", c);
        rw->pos += 2;
        return mica_regex_put(rw, text);
    }
    regex_escape e;
    mica_status st = mica_regex_read_escape(rw, &e);
    if (st) return st;
    return e.is_literal ? put_literal_atom(rw, e.c) : put_class_atom(rw, &e);
}

/* ---- quantifiers ---- */

typedef struct interval {
    size_t n_bytes; /* 0: the brace is a literal */
    size_t low, high;
    bool has_comma, has_high;
} interval;

static size_t read_number(const regex_rewriter *rw, size_t *i) {
    size_t value = 0;
    while (*i < rw->n && rw->in[*i] >= '0' && rw->in[*i] <= '9') {
        if (value < 1000000) value = value * 10 + (size_t)(rw->in[*i] - '0');
        (*i)++;
    }
    return value;
}

static interval read_interval(const regex_rewriter *rw) {
    interval r = {0};
    size_t i = rw->pos + 1, begin = i;
    r.low = read_number(rw, &i);
    bool has_low = i > begin;
    if (i < rw->n && rw->in[i] == ',') {
        r.has_comma = true;
        begin = ++i;
        r.high = read_number(rw, &i);
        r.has_high = i > begin;
    }
    bool is_interval = i < rw->n && rw->in[i] == '}' && (has_low || r.has_high);
    r.n_bytes = is_interval ? i + 1 - rw->pos : 0;
    return r;
}

static mica_status put_interval(regex_rewriter *rw) {
    interval r = read_interval(rw);
    mica_status st;
    char text[64];
    if (!r.n_bytes) return put_character(rw);
    if (rw->atom == REGEX_NO_ATOM) return mica_regex_refuse(rw, "a repeat of nothing");
    if (r.low > 1000 || r.high > 1000) return mica_regex_refuse(rw, "a repeat above 1000");
    if (!r.has_comma) {
        snprintf(text, sizeof(text), "{%zu}", r.low);
    } else if (r.has_high) {
        snprintf(text, sizeof(text), "{%zu,%zu}", r.low, r.high);
    } else {
        snprintf(text, sizeof(text), "{%zu,}", r.low);
    }
    if ((st = mica_regex_put(rw, text))) return st;
    rw->pos += r.n_bytes;
    char c = regex_peek(rw, 0);
    if (c == '?') {
        if (!r.has_comma) return mica_regex_refuse(rw, "'{n}?'");
        if ((st = mica_regex_put(rw, "?"))) return st;
        rw->pos++;
    } else if (c == '+' || c == '*') {
        if ((st = insert(rw, rw->atom, "(?:"))) return st;
        if ((st = mica_regex_put(rw, c == '+' ? ")+" : ")*"))) return st;
        rw->pos++;
    }
    rw->atom = REGEX_NO_ATOM;
    return MICA_OK;
}

static mica_status put_repeat(regex_rewriter *rw) {
    char text[3] = {regex_peek(rw, 0), '\0', '\0'};
    if (rw->atom == REGEX_NO_ATOM) return mica_regex_refuse(rw, "a repeat of nothing");
    char c = regex_peek(rw, 1);
    if (c == '+' || c == '?') text[1] = c;
    rw->pos += text[1] ? 2 : 1;
    rw->atom = REGEX_NO_ATOM;
    rw->last_literal = '\0';
    return mica_regex_put(rw, text);
}

/* ---- groups ---- */

static mica_status open_group(regex_rewriter *rw, const char *text) {
    if (rw->n_groups == REGEX_MAX_GROUPS) return mica_regex_refuse(rw, "too many nested groups");
    rw->groups[rw->n_groups++] = (regex_group){.begin = rw->out->n, .is_caseless = rw->is_caseless};
    rw->atom = REGEX_NO_ATOM;
    rw->last_literal = '\0';
    return mica_regex_put(rw, text);
}

/* "(?flags:" and "(?flags)"; pos is at the first flag. */
static mica_status put_options(regex_rewriter *rw) {
    char text[16] = "(?";
    size_t n = 2;
    bool is_on = true, is_caseless = rw->is_caseless;
    char c;
    while ((c = regex_peek(rw, 0)) == 'i' || c == 'm' || c == '-') {
        if (n > 8 || (c == '-' && !is_on)) return mica_regex_refuse(rw, "these options");
        if (c == '-') is_on = false;
        if (c == 'i') is_caseless = is_on;
        text[n++] = c == 'm' ? 's' : c; /* Oniguruma's m lets the dot match a line end */
        rw->pos++;
    }
    if (n == 2 || (c != ':' && c != ')')) return mica_regex_refuse(rw, "an unknown (?...) group");
    rw->pos++;
    text[n] = ':';
    mica_status st = MICA_OK;
    if (c == ':') {
        st = open_group(rw, text);
    } else {
        /* Holds to the end of the group around it, alternatives included. */
        rw->groups[rw->n_groups - 1].n_inline++;
        rw->atom = REGEX_NO_ATOM;
        st = mica_regex_put(rw, text);
    }
    rw->is_caseless = is_caseless;
    return st;
}

static mica_status put_named_group(regex_rewriter *rw) {
    while (rw->pos < rw->n && rw->in[rw->pos] != '>') {
        rw->pos++;
    }
    if (rw->pos == rw->n) return mica_regex_refuse(rw, "a group name without end");
    rw->pos++;
    return open_group(rw, "(?:");
}

static mica_status skip_comment(regex_rewriter *rw) {
    while (rw->pos < rw->n && rw->in[rw->pos] != ')') {
        rw->pos++;
    }
    if (rw->pos == rw->n) return mica_regex_refuse(rw, "a comment without end");
    rw->pos++;
    return MICA_OK;
}

static mica_status put_group(regex_rewriter *rw) {
    static const char *const kinds[] = {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"};
    if (regex_peek(rw, 1) != '?') {
        rw->pos++;
        return open_group(rw, "(?:"); /* what it captures is never asked for */
    }
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        size_t n = strlen(kinds[i]);
        if (rw->n - rw->pos < n || memcmp(rw->in + rw->pos, kinds[i], n) != 0) continue;
        rw->pos += n;
        return open_group(rw, kinds[i]);
    }
    if (regex_peek(rw, 2) == '<') return put_named_group(rw);
    if (regex_peek(rw, 2) == '#') return skip_comment(rw);
    rw->pos += 2;
    return put_options(rw);
}

static mica_status close_group(regex_rewriter *rw) {
    if (rw->n_groups < 2) return mica_regex_refuse(rw, "a ')' without '('");
    regex_group *group = &rw->groups[--rw->n_groups];
    mica_status st = MICA_OK;
    for (size_t i = 0; i <= group->n_inline && !st; i++) {
        st = mica_regex_put(rw, ")");
    }
    rw->atom = group->begin;
    rw->is_caseless = group->is_caseless;
    rw->last_literal = '\0';
    rw->pos++;
    return st;
}

/* ---- the pass ---- */

static mica_status put_same(regex_rewriter *rw, bool is_atom) {
    char text[2] = {regex_peek(rw, 0), '\0'};
    begin_atom(rw);
    if (!is_atom) rw->atom = REGEX_NO_ATOM;
    rw->pos++;
    return mica_regex_put(rw, text);
}

static mica_status step(regex_rewriter *rw) {
    switch (regex_peek(rw, 0)) {
    case '\\':
        return put_escape(rw);
    case '[':
        begin_atom(rw);
        return mica_regex_rewrite_class(rw);
    case '(':
        return put_group(rw);
    case ')':
        return close_group(rw);
    case '*':
    case '+':
    case '?':
        return put_repeat(rw);
    case '{':
        return put_interval(rw);
    case '.':
        return put_same(rw, true);
    case '|':
    case '^':
    case '$':
        return put_same(rw, false);
    default:
        return put_character(rw);
    }
}

mica_status mica_regex_rewrite(text_buffer *out, const char *pattern, size_t n, const char *name,
                               mica_error *err) {
    regex_rewriter rw = {.in = pattern, .n = n, .name = name, .out = out, .err = err};
    rw.n_groups = 1;
    rw.atom = REGEX_NO_ATOM;
    if (utf8_valid_prefix(pattern, n) != n) return mica_regex_refuse(&rw, "bytes that are no text");
    mica_status st = MICA_OK;
    while (!st && rw.pos < n) {
        st = step(&rw);
    }
    if (st) return st;
    if (rw.n_groups > 1) return mica_regex_refuse(&rw, "a '(' without ')'");
    for (size_t i = 0; i < rw.groups[0].n_inline && !st; i++) {
        st = mica_regex_put(&rw, ")");
    }
    return st;
}
