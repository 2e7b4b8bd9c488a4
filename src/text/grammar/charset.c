/* charset.c: ranges of code points and their UTF-8.
 *
 * A range is cut where encodings change length or where a byte before the last would take part of
 * its values; each piece is then a sequence of byte ranges. Pieces with the same beginning share
 * it, so that a state has few ways to go on even for a class of the whole of Unicode.
 */
#include "text/grammar/charset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"

enum { LAST_CODE = 0x10FFFF };

bool mica_chars_add(grammar_build *b, char_set *s, uint32_t lo, uint32_t hi) {
    if (s->n && lo == s->ranges[s->n - 1].hi + 1) {
        s->ranges[s->n - 1].hi = hi;
        return true;
    }
    if (s->n == s->capacity) {
        size_t capacity = s->capacity ? 2 * s->capacity : 8;
        code_range *grown = mica_arena_calloc(&b->arena, capacity, sizeof(*grown));
        if (!grown) {
            b->status = MICA_E_NOMEM;
            return false;
        }
        if (s->n) memcpy(grown, s->ranges, s->n * sizeof(*grown));
        s->ranges = grown;
        s->capacity = capacity;
    }
    s->ranges[s->n++] = (code_range){lo, hi};
    return true;
}

bool mica_chars_add_set(grammar_build *b, char_set *s, const char_set *other) {
    for (size_t i = 0; i < other->n; i++) {
        if (!mica_chars_add(b, s, other->ranges[i].lo, other->ranges[i].hi)) return false;
    }
    return true;
}

static int compare_ranges(const void *a, const void *b) {
    const code_range *x = a, *y = b;
    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

/* Sorted, without overlap. */
static void normalize(char_set *s) {
    if (!s->n) return;
    qsort(s->ranges, s->n, sizeof(*s->ranges), compare_ranges);
    size_t n = 1;
    for (size_t i = 1; i < s->n; i++) {
        code_range *last = &s->ranges[n - 1], r = s->ranges[i];
        if (r.lo > last->hi + 1)
            s->ranges[n++] = r;
        else if (r.hi > last->hi)
            last->hi = r.hi;
    }
    s->n = n;
}

bool mica_chars_negate(grammar_build *b, char_set *s) {
    normalize(s);
    char_set out = {0};
    uint32_t next = 0;
    for (size_t i = 0; i < s->n; i++) {
        if (s->ranges[i].lo > next && !mica_chars_add(b, &out, next, s->ranges[i].lo - 1))
            return false;
        next = s->ranges[i].hi + 1;
    }
    if (next <= LAST_CODE && !mica_chars_add(b, &out, next, LAST_CODE)) return false;
    *s = out;
    return true;
}

/* ---- classes ---- */

bool mica_chars_add_digits(grammar_build *b, char_set *s) { return mica_chars_add(b, s, '0', '9'); }

bool mica_chars_add_word(grammar_build *b, char_set *s) {
    return mica_chars_add(b, s, '0', '9') && mica_chars_add(b, s, 'A', 'Z') &&
           mica_chars_add(b, s, '_', '_') && mica_chars_add(b, s, 'a', 'z');
}

bool mica_chars_add_space(grammar_build *b, char_set *s) {
    static const code_range space[] = {
        {9, 13},          {0x20, 0x20},     {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
        {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
    for (size_t i = 0; i < sizeof(space) / sizeof(space[0]); i++) {
        if (!mica_chars_add(b, s, space[i].lo, space[i].hi)) return false;
    }
    return true;
}

/* utf8proc's categories in their order; a group of one letter is all that begin with it. */
static const struct {
    const char *abbreviation, *name;
} categories[] = {{"Cn", "Unassigned"},
                  {"Lu", "Uppercase_Letter"},
                  {"Ll", "Lowercase_Letter"},
                  {"Lt", "Titlecase_Letter"},
                  {"Lm", "Modifier_Letter"},
                  {"Lo", "Other_Letter"},
                  {"Mn", "Nonspacing_Mark"},
                  {"Mc", "Spacing_Mark"},
                  {"Me", "Enclosing_Mark"},
                  {"Nd", "Decimal_Number"},
                  {"Nl", "Letter_Number"},
                  {"No", "Other_Number"},
                  {"Pc", "Connector_Punctuation"},
                  {"Pd", "Dash_Punctuation"},
                  {"Ps", "Open_Punctuation"},
                  {"Pe", "Close_Punctuation"},
                  {"Pi", "Initial_Punctuation"},
                  {"Pf", "Final_Punctuation"},
                  {"Po", "Other_Punctuation"},
                  {"Sm", "Math_Symbol"},
                  {"Sc", "Currency_Symbol"},
                  {"Sk", "Modifier_Symbol"},
                  {"So", "Other_Symbol"},
                  {"Zs", "Space_Separator"},
                  {"Zl", "Line_Separator"},
                  {"Zp", "Paragraph_Separator"},
                  {"Cc", "Control"},
                  {"Cf", "Format"},
                  {"Cs", "Surrogate"},
                  {"Co", "Private_Use"}};
enum { N_CATEGORIES = sizeof(categories) / sizeof(categories[0]) };

static bool is_name(const char *name, size_t n, const char *wanted) {
    return strlen(wanted) == n && memcmp(name, wanted, n) == 0;
}

/* The categories of a name as bits; 0: not a name. */
static uint32_t find_categories(const char *name, size_t n) {
    static const char *const groups[] = {"Letter", "Mark",      "Number", "Punctuation",
                                         "Symbol", "Separator", "Other"};
    static const char letters[] = "LMNPSZC";
    char letter = n == 1 ? name[0] : '\0';
    for (int g = 0; g < 7; g++) {
        if (is_name(name, n, groups[g])) letter = letters[g];
    }
    uint32_t bits = 0;
    for (uint32_t i = 0; i < N_CATEGORIES; i++) {
        if (is_name(name, n, categories[i].abbreviation) || is_name(name, n, categories[i].name) ||
            letter == categories[i].abbreviation[0])
            bits |= UINT32_C(1) << i;
    }
    return bits;
}

bool mica_chars_add_property(grammar_build *b, char_set *s, const char *name, size_t n,
                             bool *is_known) {
    *is_known = true;
    if (is_name(name, n, "Any")) return mica_chars_add(b, s, 0, LAST_CODE);
    if (is_name(name, n, "ASCII")) return mica_chars_add(b, s, 0, 0x7F);
    const char *equals = memchr(name, '=', n);
    if (equals) {
        size_t n_key = (size_t)(equals - name);
        *is_known = is_name(name, n_key, "gc") || is_name(name, n_key, "General_Category");
        n -= n_key + 1;
        name = equals + 1;
    }
    uint32_t bits = find_categories(name, n);
    if (!bits) *is_known = false;
    for (int32_t c = 0; *is_known && c <= LAST_CODE; c++) {
        if (bits >> utf8proc_category(c) & 1 && !mica_chars_add(b, s, (uint32_t)c, (uint32_t)c))
            return false;
    }
    return true;
}

/* ---- UTF-8 ---- */

typedef struct byte_path {
    uint8_t n;
    uint8_t lo[4], hi[4];
} byte_path;

typedef struct path_list {
    grammar_build *b;
    byte_path *items;
    size_t n, capacity;
    bool has_failed;
} path_list;

static void add_path(path_list *l, uint32_t lo, uint32_t hi) {
    if (l->n == l->capacity) {
        size_t capacity = l->capacity ? 2 * l->capacity : 16;
        byte_path *grown = mica_arena_calloc(&l->b->arena, capacity, sizeof(*grown));
        if (!grown) {
            l->b->status = MICA_E_NOMEM;
            l->has_failed = true;
            return;
        }
        if (l->n) memcpy(grown, l->items, l->n * sizeof(*grown));
        l->items = grown;
        l->capacity = capacity;
    }
    byte_path *p = &l->items[l->n++];
    char from[4], to[4];
    p->n = (uint8_t)mica_utf8_put(from, lo);
    mica_utf8_put(to, hi);
    memcpy(p->lo, from, 4);
    memcpy(p->hi, to, 4);
}

static void add_paths(path_list *l, uint32_t lo, uint32_t hi) {
    static const uint32_t ends[] = {0x7F, 0x7FF, 0xD7FF, 0xDFFF, 0xFFFF};
    for (int i = 0; i < 5; i++) {
        if (lo <= ends[i] && hi > ends[i]) {
            add_paths(l, lo, ends[i]);
            lo = ends[i] + 1;
        }
    }
    if ((lo >= 0xD800 && lo <= 0xDFFF) || l->has_failed) return;
    for (int i = 1; hi >= 0x80 && i < (hi < 0x800 ? 2 : hi < 0x10000 ? 3 : 4); i++) {
        uint32_t low_bits = (UINT32_C(1) << 6 * i) - 1;
        if ((lo & ~low_bits) == (hi & ~low_bits)) continue;
        if (lo & low_bits) {
            add_paths(l, lo, lo | low_bits);
            add_paths(l, (lo | low_bits) + 1, hi);
            return;
        }
        if ((hi & low_bits) != low_bits) {
            add_paths(l, lo, (hi & ~low_bits) - 1);
            add_paths(l, hi & ~low_bits, hi);
            return;
        }
    }
    add_path(l, lo, hi);
}

/* The paths share their first `depth` bytes and are sorted. */
static const expr *join_paths(grammar_build *b, const byte_path *p, size_t n, int depth) {
    expr_list items = {0};
    byte_set last = {0};
    for (size_t i = 0; i < n;) {
        size_t end = i + 1;
        if (depth == 3 || p[i].n == depth + 1) { /* a path has at most 4 bytes */
            byte_set_add(&last, p[i].lo[depth], p[i].hi[depth]);
            i = end;
            continue;
        }
        while (end < n && p[end].n == p[i].n && p[end].lo[depth] == p[i].lo[depth] &&
               p[end].hi[depth] == p[i].hi[depth]) {
            end++;
        }
        const expr *head = mica_expr_range(b, p[i].lo[depth], p[i].hi[depth]);
        const expr *tail = join_paths(b, p + i, end - i, depth + 1);
        if (!mica_expr_push(b, &items, mica_expr_seq2(b, head, tail))) return NULL;
        i = end;
    }
    if (!mica_expr_push(b, &items, mica_expr_set(b, &last))) return NULL;
    return mica_expr_alt(b, items.items, items.n);
}

const expr *mica_chars_expr(grammar_build *b, char_set *s) {
    normalize(s);
    path_list paths = {.b = b};
    for (size_t i = 0; i < s->n; i++) {
        add_paths(&paths, s->ranges[i].lo, s->ranges[i].hi);
    }
    return paths.has_failed ? NULL : join_paths(b, paths.items, paths.n, 0);
}

/* ---- JSON ---- */

static bool has_char(const char_set *s, uint32_t c) {
    for (size_t i = 0; i < s->n; i++) {
        if (c >= s->ranges[i].lo && c <= s->ranges[i].hi) return true;
    }
    return false;
}

/* The shortest escape of a character that must have one. */
static const expr *escape(grammar_build *b, uint32_t c) {
    static const char short_form[32] = {
        ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
    char text[8] = {'\\', (char)c};
    if (c >= 0x20) return mica_expr_bytes(b, text, 2);
    if (short_form[c]) {
        text[1] = short_form[c];
        return mica_expr_bytes(b, text, 2);
    }
    snprintf(text, sizeof(text), "\\u%04x", (unsigned)c);
    return mica_expr_bytes(b, text, 6);
}

const expr *mica_chars_json(grammar_build *b, char_set *s) {
    normalize(s);
    char_set raw = {0};
    expr_list items = {0};
    for (size_t i = 0; i < s->n; i++) {
        uint32_t lo = s->ranges[i].lo, hi = s->ranges[i].hi;
        if (lo < 0x20) lo = 0x20;
        static const uint32_t holes[] = {'"', '\\'};
        for (int k = 0; k < 2; k++) {
            if (lo > holes[k] || hi < holes[k]) continue;
            if (lo < holes[k] && !mica_chars_add(b, &raw, lo, holes[k] - 1)) return NULL;
            lo = holes[k] + 1;
        }
        if (lo <= hi && !mica_chars_add(b, &raw, lo, hi)) return NULL;
    }
    for (uint32_t c = 0; c <= '\\'; c++) {
        if ((c < 0x20 || c == '"' || c == '\\') && has_char(s, c) &&
            !mica_expr_push(b, &items, escape(b, c)))
            return NULL;
    }
    if (!mica_expr_push(b, &items, mica_chars_expr(b, &raw))) return NULL;
    return mica_expr_alt(b, items.items, items.n);
}
