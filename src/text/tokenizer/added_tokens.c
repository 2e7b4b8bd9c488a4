/* added_tokens.c: a sorted table of token texts, searched by narrowing the range that still fits.
 *
 * At a position only the patterns that begin with its byte are looked at, and each further byte
 * halves its way into the part of the table that has it. There is no automaton to build or to hold.
 */
#include "text/tokenizer/added_tokens.h"

#include <stdlib.h>

#include "text/tokenizer/char_class.h"
#include "text/tokenizer/codepoint.h"

void mica_added_tokens_deinit(added_tokens *a) {
    mica_free(a->items);
    mica_free(a->raw.patterns);
    mica_free(a->normalized.patterns);
    mica_text_buffer_deinit(&a->forms);
    *a = (added_tokens){0};
}

mica_status mica_added_tokens_push(added_tokens *a, added_token token, mica_error *err) {
    void *grown = mica_text_grow(a->items, &a->capacity, a->n + 1, sizeof(token));
    if (!grown) return mica_fail(err, MICA_E_NOMEM, "out of memory for added tokens");
    a->items = grown;
    a->items[a->n++] = token;
    return MICA_OK;
}

/* ---- the table ---- */

static int compare(const void *a, const void *b) {
    const added_pattern *x = a, *y = b;
    size_t n = x->n < y->n ? x->n : y->n;
    int order = memcmp(x->text, y->text, n);
    if (order) return order;
    if (x->n != y->n) return x->n < y->n ? -1 : 1;
    return x->token < y->token ? -1 : x->token > y->token;
}

static void index_first(added_matcher *m) {
    size_t i = 0;
    for (unsigned byte = 0; byte < 257; byte++) {
        while (i < m->n && (uint8_t)m->patterns[i].text[0] < byte) {
            i++;
        }
        m->first[byte] = (uint32_t)i;
    }
}

static mica_status push_pattern(added_matcher *m, size_t *capacity, added_pattern pattern,
                                mica_error *err) {
    if (!pattern.n) return MICA_OK; /* matches nothing */
    void *grown = mica_text_grow(m->patterns, capacity, m->n + 1, sizeof(pattern));
    if (!grown) return mica_fail(err, MICA_E_NOMEM, "out of memory for added tokens");
    m->patterns = grown;
    m->patterns[m->n++] = pattern;
    return MICA_OK;
}

/* Appends the normalized form of a text to a->forms and gives where it is. */
static mica_status normalize_form(added_tokens *a, const normalizer *normalizers, const char *text,
                                  size_t n, size_t *begin, size_t *n_form, mica_error *err) {
    step_scratch scratch = {0};
    normalized_text form = {0};
    mica_status st = MICA_OK;
    *begin = a->forms.n;
    if (utf8_valid_prefix(text, n) == n) {
        st = mica_normalize(normalizers, &scratch, text, n, &form, err);
        if (!st) st = mica_text_buffer_append(&a->forms, form.text, form.n, err);
    }
    *n_form = a->forms.n - *begin;
    mica_normalized_text_deinit(&form);
    mica_step_scratch_deinit(&scratch);
    return st;
}

static mica_status collect(added_tokens *a, const vocab *v, const normalizer *normalizers,
                           mica_error *err) {
    size_t raw_capacity = 0, normalized_capacity = 0;
    mica_status st = MICA_OK;
    for (size_t i = 0; i < a->n && !st; i++) {
        added_pattern p = {.token = (uint32_t)i};
        p.text = vocab_text(v, a->items[i].id, &p.n);
        if (!a->items[i].normalized) {
            st = push_pattern(&a->raw, &raw_capacity, p, err);
            continue;
        }
        size_t begin;
        st = normalize_form(a, normalizers, p.text, p.n, &begin, &p.n, err);
        p.text = (const char *)(uintptr_t)begin; /* made a pointer when a->forms stands still */
        if (!st) st = push_pattern(&a->normalized, &normalized_capacity, p, err);
    }
    return st;
}

mica_status mica_added_tokens_finish(added_tokens *a, const vocab *v, const normalizer *normalizers,
                                     mica_error *err) {
    mica_status st = collect(a, v, normalizers, err);
    if (st) return st;
    for (size_t i = 0; i < a->normalized.n; i++) {
        added_pattern *p = &a->normalized.patterns[i];
        p->text = a->forms.data + (uintptr_t)p->text;
    }
    added_matcher *matchers[] = {&a->raw, &a->normalized};
    for (int i = 0; i < 2; i++) {
        added_matcher *m = matchers[i];
        if (m->n) qsort(m->patterns, m->n, sizeof(*m->patterns), compare);
        index_first(m);
    }
    return MICA_OK;
}

/* ---- searching ---- */

static uint8_t byte_at(const added_pattern *p, size_t i) { return (uint8_t)p->text[i]; }

/* The first of patterns[low..high) whose byte `at` is not below `byte`; all are longer than `at`.
 */
static size_t lower_bound(const added_matcher *m, size_t low, size_t high, size_t at,
                          unsigned byte) {
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (byte_at(&m->patterns[middle], at) < byte) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The longest pattern at text[0..n), or NULL. */
static const added_pattern *match_at(const added_matcher *m, const char *text, size_t n) {
    const added_pattern *best = NULL;
    size_t low = m->first[(uint8_t)text[0]], high = m->first[(uint8_t)text[0] + 1];
    for (size_t at = 1; low < high; at++) {
        if (m->patterns[low].n == at) { /* the shortest stands first */
            best = &m->patterns[low];
            while (low < high && m->patterns[low].n == at) {
                low++;
            }
        }
        if (at == n) break;
        unsigned byte = (uint8_t)text[at];
        low = lower_bound(m, low, high, at, byte);
        high = lower_bound(m, low, high, at, byte + 1);
    }
    return best;
}

static bool is_word_before(const char *text, size_t end) {
    if (!end) return false;
    size_t begin = utf8_back(text, end), n;
    bool is_valid;
    n = mica_utf8_step(text + begin, end - begin, &is_valid);
    return is_valid && begin + n == end && mica_char_is_word(utf8_read(text + begin, &n));
}

static bool is_word_after(const char *text, size_t begin, size_t n_text) {
    if (begin == n_text) return false;
    bool is_valid;
    size_t n = mica_utf8_step(text + begin, n_text - begin, &is_valid);
    return is_valid && mica_char_is_word(utf8_read(text + begin, &n));
}

static size_t space_left(const char *text, size_t end, size_t floor) {
    while (end > floor) {
        size_t begin = utf8_back(text, end), n;
        bool is_valid;
        n = mica_utf8_step(text + begin, end - begin, &is_valid);
        if (!is_valid || begin + n != end || begin < floor) break;
        if (!mica_char_is_space(utf8_read(text + begin, &n))) break;
        end = begin;
    }
    return end;
}

static size_t space_right(const char *text, size_t begin, size_t n_text) {
    while (begin < n_text) {
        bool is_valid;
        size_t n = mica_utf8_step(text + begin, n_text - begin, &is_valid);
        if (!is_valid || !mica_char_is_space(utf8_read(text + begin, &n))) break;
        begin += n;
    }
    return begin;
}

static mica_status push_piece(added_piece_list *out, size_t begin, size_t end, int32_t id,
                              mica_error *err) {
    void *grown = mica_text_grow(out->items, &out->capacity, out->n + 1, sizeof(*out->items));
    if (!grown) return mica_fail(err, MICA_E_NOMEM, "out of memory for pieces of text");
    out->items = grown;
    out->items[out->n++] = (added_piece){.begin = begin, .end = end, .id = id};
    return MICA_OK;
}

/* The token at [begin, end) with the space that it takes; *done is where plain text goes on. */
static mica_status put_match(const added_token *token, const char *text, size_t n, size_t begin,
                             size_t end, size_t *done, added_piece_list *out, mica_error *err) {
    mica_status st = MICA_OK;
    if (token->lstrip) begin = space_left(text, begin, *done);
    if (token->rstrip) end = space_right(text, end, n);
    if (*done < begin) st = push_piece(out, *done, begin, -1, err);
    if (!st) st = push_piece(out, begin, end, token->id, err);
    *done = end;
    return st;
}

/* The first part that ends behind `at`; the end of the text where there is none. */
static text_range next_plain(plain_parts *plain, size_t at, size_t n) {
    while (plain->n && plain->items[0].end <= at) {
        plain->items++;
        plain->n--;
    }
    return plain->n ? plain->items[0] : (text_range){n, n};
}

/* The match at `at`, or NULL. *next: where to go on if it is none. A special token that reaches
 * into a plain part is none there, and a shorter one may end before that part. */
static const added_pattern *find_at(const added_tokens *a, const added_matcher *m, const char *text,
                                    size_t n, size_t at, plain_parts *plain, size_t *next) {
    const added_pattern *p = match_at(m, text + at, n - at);
    *next = at + (p ? p->n : 1); /* what does not count is passed over as a whole, too */
    if (!p || !a->items[p->token].special) return p;
    if (plain->all) return NULL;
    text_range part = next_plain(plain, at, n);
    if (at + p->n <= part.begin) return p;
    if (at >= part.begin) {
        if (*next > part.end) *next = part.end;
        return NULL;
    }
    *next = at + 1;
    return match_at(m, text + at, part.begin - at);
}

mica_status mica_added_tokens_split(const added_tokens *a, const added_matcher *m, const char *text,
                                    size_t n, plain_parts plain, added_piece_list *out,
                                    mica_error *err) {
    mica_status st = MICA_OK;
    size_t done = 0, next;
    for (size_t i = 0; i < n && !st && m->n; i = next) {
        unsigned first = (uint8_t)text[i];
        next = i + 1;
        if (m->first[first] == m->first[first + 1]) continue;
        const added_pattern *p = find_at(a, m, text, n, i, &plain, &next);
        if (!p) continue;
        const added_token *token = &a->items[p->token];
        next = i + p->n;
        bool is_inside =
            token->single_word && (is_word_before(text, i) || is_word_after(text, next, n));
        if (!is_inside) st = put_match(token, text, n, i, next, &done, out, err);
    }
    return !st && done < n ? push_piece(out, done, n, -1, err) : st;
}
