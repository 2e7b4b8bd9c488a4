/* schema_number.c: numbers within bounds, as sets of decimal texts.
 *
 * Bounds become expressions over digits: a number is above a bound if its integer part has more
 * digits, or as many and the first one that differs is larger. Bounded numbers have no exponent.
 * multipleOf is an automaton over remainders. Numbers that must be integers are written without
 * fraction.
 */
#include <string.h>

#include "text/grammar/exact_number.h"
#include "text/grammar/product.h"
#include "text/grammar/schema.h"

enum { MAX_DIGITS = 64, MAX_REMAINDERS = 4096, MAX_FRACTION = 18 };

/* A magnitude: digits before and behind the point, without needless zeros ("0" for none). */
typedef struct decimal {
    char whole[MAX_DIGITS + 8];
    char part[MAX_DIGITS + 8];
    bool is_negative, is_zero;
} decimal;

typedef struct number_bounds {
    const json_value *low, *high; /* NULL: there is none */
    bool low_is_strict, high_is_strict;
    const json_value *multiples[8];
    int n_multiples;
} number_bounds;

/* ---- decimal text ---- */

/* False: it has too many digits. */
static bool to_decimal(decimal *out, const json_value *v) {
    exact_number x;
    mica_exact_number(&x, v);
    memset(out, 0, sizeof(*out));
    int64_t n = (int64_t)x.n_digits;
    if (x.point > MAX_DIGITS || n - x.point > MAX_DIGITS) return false;
    const char *d = x.digits;
    int n_whole = 0, n_part = 0;
    for (int64_t i = x.point < 0 ? x.point : 0; i < x.point || i < n; i++) {
        if (i >= 0 && i < n) d += *d == '.';
        char digit = '0';
        if (i >= 0 && i < n) digit = *d++;
        if (i < x.point)
            out->whole[n_whole++] = digit;
        else
            out->part[n_part++] = digit;
    }
    if (!n_whole) out->whole[0] = '0';
    out->is_negative = x.is_negative;
    out->is_zero = !n;
    return true;
}

/* ---- digits ---- */

static const expr *digit_range(grammar_build *b, int lo, int hi) {
    return lo > hi ? b->never : mica_expr_range(b, (unsigned)('0' + lo), (unsigned)('0' + hi));
}

static const expr *digits(grammar_build *b, uint32_t min, uint32_t max) {
    return mica_expr_repeat(b, digit_range(b, 0, 9), min, max);
}

/* Whole numbers of as many digits as `s` that are above (or below) it, or equal. */
static const expr *same_length(grammar_build *b, const char *s, bool is_above, bool with_equal) {
    size_t n = strlen(s);
    const expr *e = with_equal ? b->empty : b->never;
    for (size_t i = n; i-- > 0;) {
        int d = s[i] - '0', lowest = i == 0 && n > 1 ? 1 : 0;
        const expr *differs = is_above ? digit_range(b, d + 1, 9) : digit_range(b, lowest, d - 1);
        const expr *free = digits(b, (uint32_t)(n - 1 - i), (uint32_t)(n - 1 - i));
        e = mica_expr_alt2(b, mica_expr_seq2(b, digit_range(b, d, d), e),
                           mica_expr_seq2(b, differs, free));
    }
    return e;
}

/* Whole numbers, without leading zeros, above or below `s`, or equal. */
static const expr *whole_beyond(grammar_build *b, const char *s, bool is_above, bool with_equal) {
    uint32_t n = (uint32_t)strlen(s);
    const expr *same = same_length(b, s, is_above, with_equal), *other = b->never;
    if (is_above) {
        other = mica_expr_seq2(b, digit_range(b, 1, 9), digits(b, n, EXPR_UNBOUNDED));
    } else if (n > 1) {
        const expr *longer = mica_expr_seq2(b, digit_range(b, 1, 9), digits(b, 0, n - 2));
        other = mica_expr_alt2(b, longer, digit_range(b, 0, 0));
    }
    return mica_expr_alt2(b, same, other);
}

/* Digits behind the point that are above or below those of `s`, or equal; from place i on. */
static const expr *part_beyond(grammar_build *b, const char *s, bool is_above, bool is_strict) {
    size_t n = strlen(s);
    const expr *any = digits(b, 0, EXPR_UNBOUNDED), *zeros, *e;
    zeros = mica_expr_repeat(b, digit_range(b, 0, 0), 0, EXPR_UNBOUNDED);
    if (is_above)
        e = is_strict ? mica_expr_seq3(b, zeros, digit_range(b, 1, 9), any) : any;
    else
        e = is_strict ? b->never : zeros;
    for (size_t i = n; i-- > 0;) {
        int d = s[i] - '0';
        const expr *differs = is_above ? digit_range(b, d + 1, 9) : digit_range(b, 0, d - 1);
        /* A text that ends here has zeros from here on, and `s` has something above zero. */
        const expr *items[] = {mica_expr_seq2(b, digit_range(b, d, d), e),
                               mica_expr_seq2(b, differs, any), is_above ? b->never : b->empty};
        e = mica_expr_alt(b, items, 3);
    }
    return e;
}

/* "." and at least one digit, of those that `e` allows. */
static mica_status with_point(schema_compiler *c, const expr *e, const expr **out) {
    const expr *some = digits(c->b, 1, EXPR_UNBOUNDED);
    if (!e || !some) return mica_schema_check(c, NULL);
    mica_status st = mica_expr_product(out, c->b, PRODUCT_BOTH, e, some, c->err);
    if (st) return st;
    *out = mica_expr_seq2(c->b, mica_expr_text(c->b, "."), *out);
    return mica_schema_check(c, *out);
}

/* ---- magnitudes ---- */

/* Unsigned decimals beyond `v`. */
static mica_status beyond(schema_compiler *c, const decimal *v, bool is_above, bool is_strict,
                          const expr **out) {
    grammar_build *b = c->b;
    const expr *part;
    mica_status st = with_point(c, part_beyond(b, v->part, is_above, is_strict), &part);
    if (st) return st;
    bool whole_fits = v->part[0] ? !is_above : !is_strict;
    const expr *same = mica_expr_alt2(b, whole_fits ? b->empty : b->never, part);
    const expr *any_part = mica_expr_optional(
        b, mica_expr_seq2(b, mica_expr_text(b, "."), digits(b, 1, EXPR_UNBOUNDED)));
    const expr *other = mica_expr_seq2(b, whole_beyond(b, v->whole, is_above, false), any_part);
    *out = mica_expr_alt2(b, mica_expr_seq2(b, mica_expr_text(b, v->whole), same), other);
    return mica_schema_check(c, *out);
}

static const expr *any_magnitude(grammar_build *b) {
    const expr *whole =
        mica_expr_alt2(b, digit_range(b, 0, 0),
                       mica_expr_seq2(b, digit_range(b, 1, 9), digits(b, 0, EXPR_UNBOUNDED)));
    const expr *part = mica_expr_seq2(b, mica_expr_text(b, "."), digits(b, 1, EXPR_UNBOUNDED));
    return mica_expr_seq2(b, whole, mica_expr_optional(b, part));
}

/* Magnitudes from `low` (NULL: none) to `high`. */
static mica_status between(schema_compiler *c, const decimal *low, bool low_is_strict,
                           const decimal *high, bool high_is_strict, const expr **out) {
    const expr *above = NULL, *below = NULL;
    mica_status st = low ? beyond(c, low, true, low_is_strict, &above) : MICA_OK;
    if (!st && high) st = beyond(c, high, false, high_is_strict, &below);
    if (st) return st;
    if (above && below) return mica_expr_product(out, c->b, PRODUCT_BOTH, above, below, c->err);
    *out = above ? above : below ? below : any_magnitude(c->b);
    return mica_schema_check(c, *out);
}

/* Numbers without exponent within the bounds. */
static mica_status bounded(schema_compiler *c, const number_bounds *n, const expr **out) {
    grammar_build *b = c->b;
    decimal low, high;
    if ((n->low && !to_decimal(&low, n->low)) || (n->high && !to_decimal(&high, n->high)))
        return mica_fail(c->err, MICA_E_UNSUPPORTED,
                         "schema: a bound of a number with more than %d digits before or behind "
                         "the point is not supported",
                         MAX_DIGITS);
    const expr *positive = b->never, *negative = b->never;
    mica_status st = MICA_OK;
    bool low_is_negative = n->low && low.is_negative;
    bool high_is_negative = n->high && high.is_negative;
    if (!high_is_negative)
        st = between(c, n->low && !low_is_negative ? &low : NULL, n->low_is_strict,
                     n->high ? &high : NULL, n->high_is_strict, &positive);
    if (st) return st;
    if (low_is_negative || !n->low) {
        /* Minus zero is a way to write zero; it is left out. */
        static const decimal zero = {.whole = "0", .is_zero = true};
        const decimal *least = high_is_negative ? &high : &zero;
        st = between(c, least, high_is_negative ? n->high_is_strict : true, n->low ? &low : NULL,
                     n->low_is_strict, &negative);
    }
    if (st) return st;
    *out = mica_expr_alt2(b, positive, mica_expr_seq2(b, mica_expr_text(b, "-"), negative));
    return mica_schema_check(c, *out);
}

/* ---- multipleOf ---- */

/* Remainders of value * 10^scale by `m`, while a number is read. States: 1 start, 2 behind "-",
 * 3 behind the zero that begins a number, then for each remainder: whole part; behind the point
 * with 0, 1, ... scale digits. */
typedef struct remainder_table {
    uint32_t m;
    uint32_t scale;
    uint32_t *next;
} remainder_table;

static uint32_t whole_state(uint32_t r) { return 4 + r; }
static uint32_t part_state(const remainder_table *t, uint32_t n_digits, uint32_t r) {
    return 4 + t->m * (1 + n_digits) + r;
}

static void set_edge(const remainder_table *t, uint32_t from, unsigned byte, uint32_t to) {
    t->next[(size_t)from * 256 + byte] = to;
}

static void fill_remainders(const remainder_table *t) {
    set_edge(t, 1, '-', 2);
    set_edge(t, 1, '0', 3);
    set_edge(t, 2, '0', 3);
    for (unsigned d = 1; d < 10; d++) {
        set_edge(t, 1, '0' + d, whole_state(d % t->m));
        set_edge(t, 2, '0' + d, whole_state(d % t->m));
    }
    if (t->scale) set_edge(t, 3, '.', part_state(t, 0, 0));
    for (uint32_t r = 0; r < t->m; r++) {
        if (t->scale) set_edge(t, whole_state(r), '.', part_state(t, 0, r));
        for (unsigned d = 0; d < 10; d++) {
            uint32_t next = (uint32_t)(((uint64_t)r * 10 + d) % t->m);
            set_edge(t, whole_state(r), '0' + d, whole_state(next));
            for (uint32_t k = 0; k < t->scale; k++) {
                set_edge(t, part_state(t, k, r), '0' + d, part_state(t, k + 1, next));
            }
        }
    }
}

/* Whether a number with remainder r and n_digits behind the point is a multiple: the digits that
 * are not written are zeros. */
static bool is_multiple(const remainder_table *t, uint32_t n_digits, uint32_t r) {
    uint64_t v = r;
    for (uint32_t k = n_digits; k < t->scale; k++) {
        v = v * 10 % t->m;
    }
    return v == 0;
}

/* m / 10^scale as a table of all its multiples. */
static mica_status multiples(schema_compiler *c, uint32_t m, uint32_t scale, const expr **out) {
    byte_table *table = mica_arena_alloc(&c->b->arena, sizeof(*table));
    uint32_t n = 4 + m * (2 + scale);
    uint32_t *next = mica_arena_calloc(&c->b->arena, n, 256 * sizeof(*next));
    uint8_t *is_accepting = mica_arena_calloc(&c->b->arena, n, 1);
    if (!table || !next || !is_accepting)
        return mica_fail(c->err, MICA_E_NOMEM, "out of memory for a schema");
    remainder_table t = {m, scale, next};
    fill_remainders(&t);
    is_accepting[3] = 1;
    for (uint32_t r = 0; r < m; r++) {
        is_accepting[whole_state(r)] = is_multiple(&t, 0, r);
        for (uint32_t k = 1; k <= scale; k++) {
            is_accepting[part_state(&t, k, r)] = is_multiple(&t, k, r);
        }
    }
    *table = (byte_table){.n_states = n, .next = next, .is_accepting = is_accepting};
    *out = mica_expr_table(c->b, table);
    if (!*out) return mica_schema_check(c, NULL);
    /* The product drops states from which no multiple can be reached. */
    return mica_expr_product(out, c->b, PRODUCT_BOTH, *out, *out, c->err);
}

static mica_status multiples_of(schema_compiler *c, const json_value *v, bool is_integer,
                                const expr **out) {
    decimal d;
    uint64_t m = 0;
    bool fits = to_decimal(&d, v) && !d.is_negative && !d.is_zero;
    uint32_t scale = fits ? (uint32_t)strlen(d.part) : 0;
    for (const char *s = fits ? d.whole : ""; *s && m < UINT32_MAX; s++) {
        m = m * 10 + (uint64_t)(*s - '0');
    }
    for (const char *s = fits ? d.part : ""; *s && m < UINT32_MAX; s++) {
        m = m * 10 + (uint64_t)(*s - '0');
    }
    /* Integers have no digits behind the point: m and 10^scale lose what they share. */
    for (uint32_t k = 0; is_integer && fits && k < scale; k++) {
        m = m % 10 == 0 ? m / 10 : m % 5 == 0 ? m / 5 : m % 2 == 0 ? m / 2 : m;
    }
    if (is_integer) scale = 0;
    if (!fits || !m || scale > MAX_FRACTION || m * (2 + scale) > MAX_REMAINDERS)
        return mica_fail(c->err, MICA_E_UNSUPPORTED,
                         "schema: \"multipleOf\": %g is not supported; it must be above 0 and its "
                         "digits times its decimal places at most %d",
                         mica_json_double(v, 0), MAX_REMAINDERS);
    return multiples(c, (uint32_t)m, scale, out);
}

/* ---- all together ---- */

/* Of two bounds the one that lets less through stays. */
static void add_low(number_bounds *n, const json_value *v, bool is_strict) {
    int order = n->low ? mica_exact_compare(v, n->low) : 1;
    if (order < 0 || (order == 0 && !is_strict)) return;
    n->low = v;
    n->low_is_strict = is_strict;
}

static void add_high(number_bounds *n, const json_value *v, bool is_strict) {
    int order = n->high ? mica_exact_compare(v, n->high) : -1;
    if (order > 0 || (order == 0 && !is_strict)) return;
    n->high = v;
    n->high_is_strict = is_strict;
}

static mica_status find_bounds(schema_compiler *c, const schema_list *flat, number_bounds *n) {
    *n = (number_bounds){0};
    for (size_t i = 0; i < flat->n; i++) {
        const json_value *s = flat->items[i], *v;
        if ((v = mica_json_find(s, "minimum"))) add_low(n, v, false);
        if ((v = mica_json_find(s, "exclusiveMinimum"))) add_low(n, v, true);
        if ((v = mica_json_find(s, "maximum"))) add_high(n, v, false);
        if ((v = mica_json_find(s, "exclusiveMaximum"))) add_high(n, v, true);
        if (!(v = mica_json_find(s, "multipleOf"))) continue;
        if (n->n_multiples == 8)
            return mica_fail(c->err, MICA_E_LIMIT, "schema: more than 8 multipleOf at one place");
        n->multiples[n->n_multiples++] = v;
    }
    return MICA_OK;
}

static const expr *any_integer(grammar_build *b) {
    const expr *some = mica_expr_seq2(b, digit_range(b, 1, 9), digits(b, 0, EXPR_UNBOUNDED));
    return mica_expr_seq2(b, mica_expr_optional(b, mica_expr_text(b, "-")),
                          mica_expr_alt2(b, digit_range(b, 0, 0), some));
}

static const expr *any_number(grammar_build *b) {
    byte_set e = {0}, sign = {0};
    byte_set_add(&e, 'e', 'e');
    byte_set_add(&e, 'E', 'E');
    byte_set_add(&sign, '+', '+');
    byte_set_add(&sign, '-', '-');
    const expr *exponent =
        mica_expr_seq3(b, mica_expr_set(b, &e), mica_expr_optional(b, mica_expr_set(b, &sign)),
                       digits(b, 1, EXPR_UNBOUNDED));
    return mica_expr_seq3(b, mica_expr_optional(b, mica_expr_text(b, "-")), any_magnitude(b),
                          mica_expr_optional(b, exponent));
}

mica_status mica_schema_number(schema_compiler *c, const schema_list *flat, bool is_integer,
                               const expr **out) {
    number_bounds n;
    mica_status st = find_bounds(c, flat, &n);
    if (st) return st;
    const expr *e = NULL;
    if (n.low || n.high) {
        if (n.low && n.high && mica_exact_compare(n.low, n.high) > 0) {
            *out = c->b->never;
            return MICA_OK;
        }
        if ((st = bounded(c, &n, &e))) return st;
    }
    const expr *integer = any_integer(c->b);
    if (!integer) return mica_schema_check(c, NULL);
    if (e && is_integer) st = mica_expr_product(&e, c->b, PRODUCT_BOTH, e, integer, c->err);
    for (int i = 0; i < n.n_multiples && !st; i++) {
        const expr *m;
        st = multiples_of(c, n.multiples[i], is_integer, &m);
        if (!st && e) st = mica_expr_product(&m, c->b, PRODUCT_BOTH, e, m, c->err);
        if (!st) e = m;
    }
    if (st) return st;
    *out = e ? e : is_integer ? integer : any_number(c->b);
    return mica_schema_check(c, *out);
}
