/* calls_python.c: calls written as Python, f(a=1, b="x"), and Gemma's braces with quotes of their
 * own, call:f{a:1,b:<|"|>x<|"|>}.
 */
#include "text/toolcall/call_format.h"

static const call_notation python = {.tuples = true};

static call_verdict read_keyword(call_attempt *a, bool is_first) {
    a->key.n = 0;
    call_verdict v = mica_call_read_name(&a->c, &a->key);
    if (v != CALL_OK || (v = mica_call_match_next(&a->c, "=")) != CALL_OK) return v;
    if (!is_first) mica_call_put(&a->args, ",", 1);
    mica_call_put_json_string(&a->args, a->key.data, a->key.n);
    mica_call_put(&a->args, ":", 1);
    return mica_call_read_json(a, &python);
}

call_verdict mica_call_read_python(call_attempt *a) {
    a->name.n = a->args.n = 0;
    call_verdict v = mica_call_read_name(&a->c, &a->name);
    if (v != CALL_OK || (v = mica_call_match(&a->c, "(")) != CALL_OK) return v;
    mica_call_put(&a->args, "{", 1);
    mica_call_resume_members(a);
    for (;;) {
        bool is_first = a->args.n == 1;
        if ((v = mica_call_match_next(&a->c, ")")) != CALL_NOT) break;
        if (!is_first) {
            if ((v = mica_call_match(&a->c, ",")) != CALL_OK) return v;
            if ((v = mica_call_match_next(&a->c, ")")) != CALL_NOT) break;
        }
        if (a->c.pos == a->c.n) return call_more(&a->c);
        if ((v = read_keyword(a, is_first)) != CALL_OK) return v;
        mica_call_keep_members(a);
    }
    mica_call_put(&a->args, "}", 1);
    return v;
}

call_verdict mica_call_try_python(call_attempt *a) {
    call_verdict v = mica_call_match(&a->c, a->opener->text);
    if (v != CALL_OK) return v;
    if (a->opener->text[0]) {
        if ((v = mica_call_match_next(&a->c, "[")) == CALL_MORE) return v;
        a->in_list = v == CALL_OK;
    }
    mica_call_skip_space(&a->c);
    if (a->c.pos == a->c.n) return call_more(&a->c);
    return a->c.s[a->c.pos] == '{' ? mica_call_read_object(a) : mica_call_read_python(a);
}

call_verdict mica_call_try_braced(call_attempt *a) {
    call_verdict v = mica_call_match(&a->c, a->opener->text);
    if (v != CALL_OK || (v = mica_call_match_next(&a->c, "call:")) != CALL_OK) return v;
    a->name.n = 0;
    if ((v = mica_call_read_name(&a->c, &a->name)) != CALL_OK) return v;
    return mica_call_read_arguments(a, a->opener->shape);
}
