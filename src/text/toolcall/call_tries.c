/* call_tries.c: attempts to read a call, and what comes of them.
 *
 * An attempt reads from the opener on, but for what the last one remembered (call_memo.c). So that
 * a long call does not cost the square of its length, the next attempt waits until the text has
 * grown by a share of what it will read, or until a bracket comes that may close the call, while
 * all attempts together have read no more than a multiple of the text. When attempts are made
 * changes only when events come, never what they say.
 */
#include "text/toolcall/call_parser.h"

void mica_call_start_attempt(toolcall_parser *p, const call_opener *opener, size_t at) {
    p->opener = opener;
    p->opener_at = at;
    p->n_seen = p->next_try = p->n_read = 0;
    p->brackets = (call_brackets){0};
    p->attempt.memo = (call_memo){0};
    p->is_announced = false;
    p->n_announced = 0;
}

/* Follows brackets and strings; true at a bracket that closes all. Strings in other quotes may
 * mislead it: then the next attempt comes later. */
static bool closes_all(call_brackets *b, char c) {
    if (b->in_string) {
        bool is_end = c == '"' && !b->is_escaped;
        b->is_escaped = c == '\\' && !b->is_escaped;
        b->in_string = !is_end;
        return false;
    }
    if (c == '"') b->in_string = true;
    if (c == '{' || c == '[' || c == '(') {
        if (b->depth++ == 0) b->is_list = c == '[';
    }
    if (c != '}' && c != ']' && c != ')') return false;
    if (b->depth) b->depth--;
    return b->depth == 0 || (b->depth == 1 && b->is_list); /* in a list each item is a call */
}

/* Attempts beyond those that growth allows: what they read is bounded by the text's length. */
static bool may_hurry(const toolcall_parser *p, size_t n) {
    enum { FREE_BYTES = 1 << 16, MAX_READINGS = 64 };
    return p->n_read < FREE_BYTES || p->n_read / MAX_READINGS < n;
}

/* Follows the text up to n, or to the first bracket that may close the call; whether one came. */
static bool follow(toolcall_parser *p, size_t n) {
    bool is_closed = false;
    size_t i = p->n_seen;
    for (; i < n && !is_closed; i++) {
        char c = p->in.data[p->opener_at + i];
        is_closed = p->opener->flags & CALL_TAGS ? c == '>' : closes_all(&p->brackets, c);
    }
    p->n_seen = i;
    return is_closed;
}

static void follow_rest(toolcall_parser *p, size_t n) {
    while (p->n_seen < n) {
        (void)follow(p, n);
    }
}

/* What lies behind the call is not followed: of many calls that come at once each would go through
 * all of the rest. */
static bool is_worth_it(toolcall_parser *p, size_t n) {
    if (p->is_end || p->is_hurried || n >= p->next_try) return true;
    if (follow(p, n) && may_hurry(p, n)) return true;
    follow_rest(p, n);
    return false;
}

static call_verdict make_attempt(toolcall_parser *p, size_t n) {
    call_attempt *a = &p->attempt;
    a->c = (call_cursor){.s = p->in.data + p->opener_at, .n = n, .is_end = p->is_end};
    a->opener = p->opener;
    a->tools = &p->tools;
    a->is_cut = p->is_cut;
    a->in_list = p->in_list;
    a->is_stream = p->is_stream;
    a->result = CALL_RESULT_CALL;
    a->name.n = a->id.n = a->args.n = a->key.n = a->value.n = 0;
    a->is_begun = a->keeps_block = a->may_id_follow = a->drops_repeats = false;
    a->n_resumed = 0;
    call_verdict v = p->opener->attempt(a);
    p->n_read += n - a->n_resumed;
    if (a->name.failed || a->id.failed || a->args.failed || a->key.failed || a->value.failed) {
        p->failed = true;
    }
    if (v == CALL_OK && a->result == CALL_RESULT_CALL && p->ignores_calls) return CALL_NOT;
    return v == CALL_MORE && p->is_end ? CALL_NOT : v;
}

/* Gives out what is new of the arguments. */
static void announce(toolcall_parser *p) {
    const call_text *args = &p->attempt.args;
    if (!p->is_announced) {
        mica_call_flush_markup(p, p->opener_at); /* the white space before it */
        mica_call_emit_begin(p);
        p->is_announced = true;
    }
    if (args->n > p->n_announced) {
        mica_call_emit(p, TOOLCALL_ARGUMENTS, args->data + p->n_announced,
                       args->n - p->n_announced);
        p->n_announced = args->n;
    }
}

/* The call took the text up to the cursor. */
static void end_call(toolcall_parser *p, bool is_broken) {
    size_t n_used = p->attempt.c.pos;
    announce(p);
    mica_call_emit_end(p, p->in.data + p->opener_at, n_used, is_broken);
    p->begin = p->scan = p->opener_at + n_used;
    p->opener = NULL;
    p->after_call = !is_broken;
    p->in_block = !is_broken && p->attempt.keeps_block;
    p->in_list = !is_broken && p->attempt.in_list;
    p->at_start = p->eats_newlines = false;
    if (p->mode == PARSE_REASONING) p->reasoning_done = true;
    p->mode = PARSE_CONTENT;
}

static void take_call(toolcall_parser *p) {
    call_attempt *a = &p->attempt;
    if (a->args.n == 0) mica_call_put_cstring(&a->args, "{}");
    if (a->drops_repeats && !a->args.failed) mica_call_drop_repeats(&a->args, &a->value);
    if (a->args.failed || a->value.failed) p->failed = true;
    if (!p->failed) end_call(p, false);
}

static void take_markup(toolcall_parser *p) {
    call_result result = p->attempt.result;
    mica_call_flush_markup(p, p->opener_at + p->attempt.c.pos);
    p->opener = NULL;
    p->at_start = p->eats_newlines = false;
    p->after_call = result == CALL_RESULT_NOTHING;
    p->in_block = p->after_call && p->attempt.keeps_block;
    p->in_list = p->after_call && p->attempt.in_list;
    p->mode = PARSE_CONTENT;
    if (result != CALL_RESULT_REASONING || !p->reasoning) return;
    p->mode = PARSE_REASONING;
    p->has_reasoned = false;
    p->eats_newlines = true;
}

/* It was no call: the opener is looked at as text. */
static void give_up(toolcall_parser *p) {
    if (p->is_stream && p->attempt.is_begun) {
        end_call(p, true);
        return;
    }
    if (p->is_end) p->n_failed++;
    p->barred_at = p->base + p->opener_at + 1;
    p->scan = p->opener_at;
    p->opener = NULL;
}

bool mica_call_attempt_step(toolcall_parser *p) {
    size_t n = p->in.n - p->opener_at;
    if (!is_worth_it(p, n)) return false;
    call_verdict v = make_attempt(p, n);
    if (p->failed) return false;
    if (v == CALL_MORE) {
        follow_rest(p, n);
        if (p->is_stream && p->attempt.is_begun) announce(p);
        p->next_try = n + 1 + (n - p->attempt.n_resumed) / 32;
        return false;
    }
    if (v == CALL_NOT) {
        give_up(p);
    } else if (p->attempt.result == CALL_RESULT_CALL) {
        take_call(p);
    } else {
        take_markup(p);
    }
    return !p->failed;
}
