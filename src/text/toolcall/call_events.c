/* call_events.c: the list of events. Texts are gathered in one buffer; while a feed goes on, events
 * hold offsets into it, since it may move.
 */
#include "text/toolcall/call_parser.h"

#include <stdlib.h>

#include "text/tokenizer/text_buffer.h"

/* An offset stands in the pointer until mica_call_events_settle. */
static const char *as_offset(size_t offset) { return (const char *)(uintptr_t)offset; }

static toolcall_event *add_event(toolcall_parser *p, toolcall_event_kind kind) {
    toolcall_event *grown =
        mica_text_grow(p->events, &p->events_capacity, p->n_events + 1, sizeof(*grown));
    if (!grown) {
        p->failed = true;
        return NULL;
    }
    p->events = grown;
    toolcall_event *e = &grown[p->n_events++];
    *e = (toolcall_event){.kind = kind, .index = p->n_calls, .text = as_offset(p->out.n)};
    return e;
}

void mica_call_emit(toolcall_parser *p, toolcall_event_kind kind, const char *s, size_t n) {
    if (n == 0) return;
    toolcall_event *e = p->n_events ? &p->events[p->n_events - 1] : NULL;
    if (!e || e->kind != kind) e = add_event(p, kind);
    if (!e) return;
    mica_call_put(&p->out, s, n);
    e->n_text += n;
}

void mica_call_emit_begin(toolcall_parser *p) {
    toolcall_event *e = add_event(p, TOOLCALL_BEGIN);
    if (!e) return;
    e->name = as_offset(p->out.n);
    e->n_name = p->attempt.name.n;
    mica_call_put(&p->out, p->attempt.name.data, p->attempt.name.n);
    e->id = as_offset(p->out.n);
    e->n_id = p->attempt.id.n;
    mica_call_put(&p->out, p->attempt.id.data, p->attempt.id.n);
    e->text = as_offset(p->out.n);
}

void mica_call_emit_end(toolcall_parser *p, const char *raw, size_t n, bool is_broken) {
    toolcall_event *e = add_event(p, TOOLCALL_END);
    if (!e) return;
    mica_call_put(&p->out, raw, n);
    e->n_text = n;
    e->is_broken = is_broken;
    p->n_calls++;
}

void mica_call_events_settle(toolcall_parser *p) {
    const char *base = p->out.data ? p->out.data : "";
    for (size_t i = 0; i < p->n_events; i++) {
        toolcall_event *e = &p->events[i];
        e->text = base + (uintptr_t)e->text;
        if (e->kind != TOOLCALL_BEGIN) continue;
        e->name = base + (uintptr_t)e->name;
        e->id = e->n_id ? base + (uintptr_t)e->id : NULL;
    }
}

/* ---- repeated names ---- */
/* The member at the cursor, which is past '{' or behind a member: where it begins, its key and its
 * end. False: no more. */
static bool next_member(call_cursor *c, size_t *begin, size_t *key_end) {
    mica_call_skip_space(c);
    if (c->pos < c->n && c->s[c->pos] == ',') c->pos++;
    mica_call_skip_space(c);
    *begin = c->pos;
    if (mica_call_string(c, &mica_call_json, NULL) != CALL_OK) return false;
    *key_end = c->pos;
    return mica_call_match_next(c, ":") == CALL_OK &&
           mica_call_value(c, &mica_call_json, NULL) == CALL_OK;
}

typedef struct member {
    const char *key; /* with its quotes, in the arguments */
    size_t n_key, n; /* from the key on to the end of the value */
    size_t idx;
    bool is_repeated;
} member;

static int compare_members(const void *one, const void *other) {
    const member *a = one, *b = other;
    size_t n = a->n_key < b->n_key ? a->n_key : b->n_key;
    int order = memcmp(a->key, b->key, n);
    if (order) return order;
    if (a->n_key != b->n_key) return a->n_key < b->n_key ? -1 : 1;
    return a->idx < b->idx ? -1 : 1;
}

static int compare_places(const void *one, const void *other) {
    return ((const member *)one)->idx < ((const member *)other)->idx ? -1 : 1;
}

/* Marks all but the last of each name; false: there was none to mark. */
static bool mark_repeats(member *members, size_t n) {
    bool any = false;
    qsort(members, n, sizeof(*members), compare_members);
    for (size_t i = 1; i < n; i++) {
        member *m = &members[i - 1];
        m->is_repeated = m->n_key == m[1].n_key && memcmp(m->key, m[1].key, m->n_key) == 0;
        any |= m->is_repeated;
    }
    if (any) qsort(members, n, sizeof(*members), compare_places);
    return any;
}

void mica_call_drop_repeats(call_text *args, call_text *scratch) {
    call_cursor c = {.s = args->data, .n = args->n, .pos = 1, .is_end = true};
    member *members = NULL;
    size_t begin, key_end, n = 0, capacity = 0;
    while (!args->failed && next_member(&c, &begin, &key_end)) {
        member *grown = mica_text_grow(members, &capacity, n + 1, sizeof(*grown));
        if (!grown) {
            args->failed = true;
            break;
        }
        members = grown;
        members[n] = (member){args->data + begin, key_end - begin, c.pos - begin, n, false};
        n++;
    }
    if (!args->failed && n > 1 && mark_repeats(members, n)) {
        scratch->n = 0;
        mica_call_put(scratch, "{", 1);
        for (size_t i = 0; i < n; i++) {
            if (members[i].is_repeated) continue;
            if (scratch->n > 1) mica_call_put(scratch, ",", 1);
            mica_call_put(scratch, members[i].key, members[i].n);
        }
        mica_call_put(scratch, "}", 1);
        args->n = 0;
        mica_call_put(args, scratch->data, scratch->n);
    }
    mica_free(members);
}
