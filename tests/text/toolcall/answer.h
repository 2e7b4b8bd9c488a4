/* answer.h: an answer put together from the events of a parser, for tests.
 *
 * `raw` is every byte that any event accounts for, in order: it must equal what was fed.
 */
#ifndef MICA_TESTS_ANSWER_H
#define MICA_TESTS_ANSWER_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/toolcall/toolcall.h"

typedef struct bytes {
    char *data; /* NUL-terminated once something was appended */
    size_t n;
    size_t capacity;
} bytes;

typedef struct answer_call {
    bytes name, id, arguments;
    bool has_id, is_broken, is_ended;
} answer_call;

typedef struct answer {
    bytes content, reasoning, raw;
    answer_call *calls;
    size_t n_calls;
    const char *wrong; /* a rule that the events broke, or NULL */
} answer;

static inline void bytes_append(bytes *b, const char *s, size_t n) {
    if (b->n + n + 1 > b->capacity) {
        b->capacity = 2 * (b->n + n + 1);
        b->data = realloc(b->data, b->capacity);
        if (!b->data) abort();
    }
    if (n) memcpy(b->data + b->n, s, n);
    b->n += n;
    b->data[b->n] = '\0';
}

static inline bool bytes_equal(const bytes *a, const bytes *b) {
    return a->n == b->n && (a->n == 0 || memcmp(a->data, b->data, a->n) == 0);
}

static inline void answer_free(answer *a) {
    free(a->content.data);
    free(a->reasoning.data);
    free(a->raw.data);
    for (size_t i = 0; i < a->n_calls; i++) {
        free(a->calls[i].name.data);
        free(a->calls[i].id.data);
        free(a->calls[i].arguments.data);
    }
    free(a->calls);
    memset(a, 0, sizeof(*a));
}

static inline void answer_take_call_event(answer *a, const toolcall_event *e) {
    if (e->kind == TOOLCALL_BEGIN) {
        if (e->index != a->n_calls) a->wrong = "calls are not numbered in order";
        if ((a->n_calls & (a->n_calls - 1)) == 0) { /* a power of two, or 0 */
            a->calls = realloc(a->calls, (2 * a->n_calls + 1) * sizeof(*a->calls));
            if (!a->calls) abort();
        }
        answer_call *c = &a->calls[a->n_calls++];
        memset(c, 0, sizeof(*c));
        bytes_append(&c->name, e->name, e->n_name);
        c->has_id = e->id != NULL;
        if (e->id) bytes_append(&c->id, e->id, e->n_id);
        bytes_append(&c->arguments, "", 0);
        if (e->n_name == 0) a->wrong = "a call has no name";
        return;
    }
    if (e->index + 1 != a->n_calls || a->calls[e->index].is_ended) {
        a->wrong = "an event of a call that is not open";
        return;
    }
    answer_call *c = &a->calls[e->index];
    if (e->kind == TOOLCALL_ARGUMENTS) {
        bytes_append(&c->arguments, e->text, e->n_text);
    } else {
        bytes_append(&a->raw, e->text, e->n_text);
        c->is_broken = e->is_broken;
        c->is_ended = true;
    }
}

static inline void answer_take(answer *a, const toolcall_parser *p) {
    size_t n;
    const toolcall_event *events = mica_toolcall_events(p, &n);
    for (size_t i = 0; i < n; i++) {
        const toolcall_event *e = &events[i];
        bool is_text = e->kind == TOOLCALL_CONTENT || e->kind == TOOLCALL_REASONING ||
                       e->kind == TOOLCALL_MARKUP;
        if (!is_text) {
            answer_take_call_event(a, e);
            continue;
        }
        if (e->n_text == 0) a->wrong = "an empty event";
        if (e->kind == TOOLCALL_CONTENT) bytes_append(&a->content, e->text, e->n_text);
        if (e->kind == TOOLCALL_REASONING) bytes_append(&a->reasoning, e->text, e->n_text);
        bytes_append(&a->raw, e->text, e->n_text);
    }
}

/* Whether arguments are a JSON object that mica itself would accept. */
static inline bool answer_is_object(const bytes *b) {
    json_reader r;
    json_event event = JSON_NULL;
    mica_json_reader_init(&r, b->data, b->n, "arguments");
    bool is_good = b->n && b->data[0] == '{' && !mica_json_skip(&r, NULL) &&
                   !mica_json_next(&r, &event, NULL) && event == JSON_END;
    mica_json_reader_deinit(&r);
    return is_good;
}

/* The rules that hold for every answer. */
static inline void answer_check(answer *a, const char *text, size_t n) {
    if (a->raw.n != n || (n && memcmp(a->raw.data, text, n) != 0)) {
        a->wrong = "the events do not account for every byte";
    }
    for (size_t i = 0; i < a->n_calls; i++) {
        const answer_call *c = &a->calls[i];
        if (!c->is_ended) a->wrong = "a call was not ended";
        if (!c->is_broken && !answer_is_object(&c->arguments)) {
            a->wrong = "arguments are no JSON object";
        }
    }
}

static inline bool answer_equal(const answer *a, const answer *b) {
    if (!bytes_equal(&a->content, &b->content) || !bytes_equal(&a->reasoning, &b->reasoning) ||
        a->n_calls != b->n_calls) {
        return false;
    }
    for (size_t i = 0; i < a->n_calls; i++) {
        const answer_call *c = &a->calls[i], *d = &b->calls[i];
        if (!bytes_equal(&c->name, &d->name) || !bytes_equal(&c->id, &d->id) ||
            !bytes_equal(&c->arguments, &d->arguments) || c->has_id != d->has_id ||
            c->is_broken != d->is_broken) {
            return false;
        }
    }
    return true;
}

/* Parses text[0..n) fed in pieces that end at the given places (ascending). */
static inline answer answer_parse(const toolcall_dialect *d, const toolcall_options *options,
                                  bool is_cut, const char *text, size_t n, const size_t *cuts,
                                  size_t n_cuts) {
    answer a = {0};
    toolcall_parser *p = NULL;
    if (mica_toolcall_open(&p, d, options, NULL)) {
        a.wrong = "the parser did not open";
        return a;
    }
    size_t begin = 0;
    for (size_t i = 0; i <= n_cuts; i++) {
        size_t end = i < n_cuts ? cuts[i] : n;
        char *piece = malloc(end - begin + 1); /* of its own, so that a read beyond it shows */
        if (!piece) abort();
        memcpy(piece, text + begin, end - begin);
        if (mica_toolcall_feed(p, piece, end - begin, NULL)) a.wrong = "feeding failed";
        free(piece);
        answer_take(&a, p);
        begin = end;
    }
    if (mica_toolcall_finish(p, is_cut, NULL)) a.wrong = "finishing failed";
    answer_take(&a, p);
    answer_check(&a, text, n);
    mica_toolcall_free(p);
    return a;
}

static inline void answer_print(const char *what, const answer *a) {
    fprintf(stderr, "  %s: content \"%s\" reasoning \"%s\"%s%s\n", what,
            a->content.n ? a->content.data : "", a->reasoning.n ? a->reasoning.data : "",
            a->wrong ? "; " : "", a->wrong ? a->wrong : "");
    for (size_t i = 0; i < a->n_calls; i++) {
        const answer_call *c = &a->calls[i];
        fprintf(stderr, "    call %s %s%s%s%s\n", c->name.data, c->arguments.data,
                c->has_id ? " id " : "", c->has_id ? c->id.data : "",
                c->is_broken ? " broken" : "");
    }
}

#endif
