/* call_events.c: the list of events. Texts are gathered in one buffer; while a feed goes on, events
 * hold offsets into it, since it may move.
 */
#include "text/toolcall/call_parser.h"

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

/* ---- duplicates ---- */
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

static bool is_repeated(call_cursor after, const char *key, size_t n_key) {
    size_t begin, key_end;
    while (next_member(&after, &begin, &key_end)) {
        if (key_end - begin == n_key && memcmp(after.s + begin, key, n_key) == 0) return true;
    }
    return false;
}

void mica_call_drop_duplicates(call_text *args, call_text *scratch) {
    enum { MAX_MEMBERS = 256 }; /* beyond it the text stays as it is: the search is quadratic */
    call_cursor c = {.s = args->data, .n = args->n, .pos = 1, .is_end = true};
    size_t begin, key_end, n_members = 0, n_dropped = 0;
    scratch->n = 0;
    mica_call_put(scratch, "{", 1);
    while (next_member(&c, &begin, &key_end)) {
        if (++n_members > MAX_MEMBERS) return;
        if (is_repeated(c, c.s + begin, key_end - begin)) {
            n_dropped++;
            continue;
        }
        if (scratch->n > 1) mica_call_put(scratch, ",", 1);
        mica_call_put(scratch, c.s + begin, c.pos - begin);
    }
    mica_call_put(scratch, "}", 1);
    if (n_dropped == 0) return;
    args->n = 0;
    mica_call_put(args, scratch->data, scratch->n);
}
