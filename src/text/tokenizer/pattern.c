/* pattern.c: finding all matches, replacing them, and the five ways to cut a text at them.
 */
#include "text/tokenizer/pattern.h"

#include "text/tokenizer/codepoint.h"

static mica_status find_regex(const text_pattern *pattern, regex_scratch *scratch, const char *text,
                              size_t n, size_t from, text_piece *out, bool *found,
                              mica_error *err) {
    return mica_regex_find(pattern->regex, scratch, text, n, from, out, found, err);
}

static void find_literal(const text_pattern *pattern, const char *text, size_t n, size_t from,
                         text_piece *out, bool *found) {
    const char *at = memmem(text + from, n - from, pattern->literal, pattern->n_literal);
    *found = at != NULL;
    if (!at) return;
    size_t begin = (size_t)(at - text);
    *out = (text_piece){.begin = begin, .end = begin + pattern->n_literal, .is_match = true};
}

static mica_status push_gap(piece_list *out, size_t begin, size_t end, mica_error *err) {
    return mica_piece_push(out, (text_piece){.begin = begin, .end = end}, err);
}

mica_status mica_pattern_find_all(const text_pattern *pattern, regex_scratch *scratch,
                                  const char *text, size_t n, piece_list *out, mica_error *err) {
    mica_status st = MICA_OK;
    size_t from = 0, covered = 0;
    bool has_last = false, found = true;
    if (!n) return push_gap(out, 0, 0, err);
    while (from <= n) {
        text_piece m;
        if (pattern->regex) {
            st = find_regex(pattern, scratch, text, n, from, &m, &found, err);
        } else {
            find_literal(pattern, text, n, from, &m, &found);
        }
        if (st) return st;
        if (!found) break;
        if (m.begin == m.end && has_last && m.end == covered) {
            from += from < n ? utf8_width(text[from]) : 1;
            continue;
        }
        if (covered != m.begin && (st = push_gap(out, covered, m.begin, err))) return st;
        if ((st = mica_piece_push(out, m, err))) return st;
        from = covered = m.end;
        has_last = true;
    }
    return covered < n ? push_gap(out, covered, n, err) : MICA_OK;
}

static mica_status replace_literal(const text_pattern *pattern, const char *content,
                                   size_t n_content, const char *text, size_t n, text_buffer *out,
                                   mica_error *err) {
    mica_status st = MICA_OK;
    text_piece m = {0};
    bool found = n > 0;
    for (size_t from = 0; found && !st; from = m.end) {
        find_literal(pattern, text, n, from, &m, &found);
        if (!found) m.begin = n;
        st = mica_text_buffer_append(out, text + from, m.begin - from, err);
        if (!st && found) st = mica_text_buffer_append(out, content, n_content, err);
        if (!st) st = mica_text_check_growth(out->n, n, err);
    }
    return st;
}

mica_status mica_pattern_replace(const text_pattern *pattern, regex_scratch *scratch,
                                 piece_list *matches, const char *content, size_t n_content,
                                 const char *text, size_t n, text_buffer *out, mica_error *err) {
    if (!pattern->regex) {
        return replace_literal(pattern, content, n_content, text, n, out, err);
    }
    matches->n = 0;
    mica_status st = mica_pattern_find_all(pattern, scratch, text, n, matches, err);
    for (size_t i = 0; i < matches->n && !st; i++) {
        const text_piece *p = &matches->items[i];
        st = p->is_match ? mica_text_buffer_append(out, content, n_content, err)
                         : mica_text_buffer_append(out, text + p->begin, p->end - p->begin, err);
        if (!st) st = mica_text_check_growth(out->n, n, err);
    }
    return st;
}

/* Joins each piece to the one before it where `joins` says so. */
static void join_forward(piece_list *list, bool is_contiguous) {
    size_t n = 0;
    bool was_match = false;
    for (size_t i = 0; i < list->n; i++) {
        text_piece p = list->items[i];
        bool joins = is_contiguous ? p.is_match == was_match : p.is_match && !was_match;
        if (joins && n) {
            list->items[n - 1].end = p.end;
        } else {
            list->items[n++] = p;
        }
        was_match = p.is_match;
    }
    list->n = n;
}

static void join_backward(piece_list *list) {
    size_t top = list->n; /* what is done lies at the end of the array */
    bool was_match = false;
    for (size_t i = list->n; i-- > 0;) {
        text_piece p = list->items[i];
        if (p.is_match && !was_match && top < list->n) {
            list->items[top].begin = p.begin;
        } else {
            list->items[--top] = p;
        }
        was_match = p.is_match;
    }
    memmove(list->items, list->items + top, (list->n - top) * sizeof(*list->items));
    list->n -= top;
}

void mica_split_apply(piece_list *list, split_behavior behavior, bool is_inverted) {
    for (size_t i = 0; is_inverted && i < list->n; i++) {
        list->items[i].is_match = !list->items[i].is_match;
    }
    if (behavior == SPLIT_MERGED_WITH_PREVIOUS) join_forward(list, false);
    if (behavior == SPLIT_CONTIGUOUS) join_forward(list, true);
    if (behavior == SPLIT_MERGED_WITH_NEXT) join_backward(list);
    size_t n = 0;
    for (size_t i = 0; i < list->n; i++) {
        const text_piece *p = &list->items[i];
        bool is_dropped = p->begin == p->end || (behavior == SPLIT_REMOVED && p->is_match);
        if (!is_dropped) list->items[n++] = *p;
    }
    list->n = n;
}
