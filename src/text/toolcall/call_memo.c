/* call_memo.c: what an attempt remembers for the next one at the same opener.
 *
 * Attempts read from the opener on, and the same text gives the same places and the same `args` up
 * to them. So an attempt may jump over the members that were whole last time, and over the part of
 * a value that was read, if it arrives at the place where they begin. Arriving anywhere else drops
 * what was remembered, since `args` is written anew then.
 */
#include "text/toolcall/call_format.h"

void mica_call_resume_members(call_attempt *a) {
    call_memo *m = &a->memo;
    a->drops_repeats = true;
    if (m->begin == a->c.pos) {
        a->n_resumed += m->pos - m->begin;
        a->c.pos = m->pos;
        a->args.n = m->n_args;
        return;
    }
    *m = (call_memo){.begin = a->c.pos};
    mica_call_keep_members(a);
}

void mica_call_keep_members(call_attempt *a) {
    a->memo.pos = a->c.pos;
    a->memo.n_args = a->args.n;
}

void mica_call_resume_search(call_attempt *a) {
    call_memo *m = &a->memo;
    if (m->value_begin != a->c.pos) return;
    a->n_resumed += m->value_pos - m->value_begin;
    a->c.pos = m->value_pos;
}

void mica_call_keep_search(call_attempt *a, size_t begin, size_t pos) {
    a->memo.value_begin = begin;
    a->memo.value_pos = pos;
}

call_verdict mica_call_read_json(call_attempt *a, const call_notation *notation) {
    call_memo *m = &a->memo;
    mica_call_skip_space(&a->c);
    if (m->value_begin != a->c.pos) {
        m->state = (call_value_state){0};
        m->value_begin = m->value_pos = a->c.pos;
        m->value_n_args = a->args.n;
        /* What follows writes over the members that stand there. */
        if (!a->drops_repeats) m->begin = 0;
    } else {
        a->n_resumed += m->value_pos - m->value_begin;
        a->c.pos = m->value_pos;
        a->args.n = m->value_n_args;
    }
    call_verdict v = mica_call_value_go_on(&a->c, notation, &m->state, &a->args);
    m->value_pos = a->c.pos;
    m->value_n_args = a->args.n;
    return v;
}
