/* calls_json.c: calls that are JSON objects with a name in them, alone or in a list, behind a
 * marker of the format: Hermes, LongCat, Nemotron, Granite, Phi, Command, Apertus, Apriel,
 * MiniMax-M1, Firefunction, Llama 3.
 *
 * The spellings of the members are taken from all formats at once: name or tool_name, arguments or
 * parameters, id or tool_call_id, and an object "function" around them.
 */
#include "text/toolcall/call_format.h"

static call_verdict read_members(call_attempt *a, bool is_outer);

bool mica_call_may_begin(const call_attempt *a) {
    if (a->name.n == 0 || memchr(a->name.data, '\n', a->name.n)) return false;
    return !(a->opener->flags & CALL_KNOWN) ||
           mica_call_tools_has(a->tools, a->name.data, a->name.n);
}

/* The answer of a model that was told to call this tool when it wants to call none. */
static bool is_no_call(const call_attempt *a) {
    return call_text_is(a->name.data, a->name.n, "directly-answer") ||
           call_text_is(a->name.data, a->name.n, "directly_answer");
}

/* Whether nothing that comes later can change what a begin of the call says. */
static bool is_certain(const call_attempt *a) {
    return mica_call_may_begin(a) && !is_no_call(a) && (a->id.n || !a->may_id_follow);
}

call_verdict mica_call_read_arguments(call_attempt *a, const call_notation *notation) {
    mica_call_skip_space(&a->c);
    if (a->c.pos == a->c.n) return call_more(&a->c);
    if (a->c.s[a->c.pos] != '{') return CALL_NOT;
    a->args.n = 0;
    if (is_certain(a)) a->is_begun = true;
    return mica_call_read_json(a, notation);
}

void mica_call_put_code(call_attempt *a, const char *s, size_t n) {
    a->args.n = 0;
    mica_call_put_cstring(&a->args, "{\"code\":");
    mica_call_put_json_string(&a->args, s, n);
    mica_call_put(&a->args, "}", 1);
}

/* ---- members ---- */
static bool is_key(const call_attempt *a, const char *one, const char *other) {
    return call_text_is(a->key.data, a->key.n, one) || call_text_is(a->key.data, a->key.n, other);
}

/* The value at the cursor into a->value, as JSON. */
static call_verdict read_value(call_attempt *a) {
    a->value.n = 0;
    return mica_call_value(&a->c, &mica_call_json, &a->value);
}

static call_verdict read_name_member(call_attempt *a) {
    call_verdict v = read_value(a);
    if (v != CALL_OK || (a->is_begun && a->is_stream)) return v; /* what is out stays */
    if (a->value.n == 0 || a->value.data[0] != '"') return CALL_NOT;
    a->name.n = 0;
    mica_call_decode_string(a->value.data, a->value.n, &a->name);
    return CALL_OK;
}

static call_verdict read_id_member(call_attempt *a) {
    call_verdict v = read_value(a);
    if (v != CALL_OK || (a->is_begun && a->is_stream) || a->value.n == 0) return v;
    a->id.n = 0;
    if (a->value.data[0] == '"') {
        mica_call_decode_string(a->value.data, a->value.n, &a->id);
    } else if (call_is_digit(a->value.data[0])) {
        mica_call_put(&a->id, a->value.data, a->value.n);
    }
    return CALL_OK;
}

/* Arguments that are a string hold the object as JSON text. */
static call_verdict unpack_arguments(call_attempt *a) {
    a->key.n = 0;
    mica_call_decode_string(a->value.data, a->value.n, &a->key);
    call_cursor inner = {.s = a->key.data, .n = a->key.n, .is_end = true};
    a->args.n = 0;
    mica_call_skip_space(&inner);
    if (inner.pos == inner.n) {
        mica_call_put_cstring(&a->args, "{}");
        return CALL_OK;
    }
    if (inner.s[inner.pos] != '{') return CALL_NOT;
    call_verdict v = mica_call_value(&inner, &mica_call_json, &a->args);
    mica_call_skip_space(&inner);
    return v == CALL_OK && inner.pos == inner.n ? CALL_OK : CALL_NOT;
}

static call_verdict read_arguments_member(call_attempt *a) {
    mica_call_skip_space(&a->c);
    if (a->c.pos == a->c.n) return call_more(&a->c);
    if (a->is_begun && a->is_stream) return mica_call_value(&a->c, &mica_call_json, NULL);
    if (a->c.s[a->c.pos] == '{') return mica_call_read_arguments(a, &mica_call_json);
    call_verdict v = read_value(a);
    if (v != CALL_OK || a->value.n == 0) return v;
    a->memo = (call_memo){0}; /* `args` is written over */
    if (a->value.data[0] == '"') return unpack_arguments(a);
    if (!call_text_is(a->value.data, a->value.n, "null")) return CALL_NOT;
    a->args.n = 0;
    mica_call_put_cstring(&a->args, "{}");
    return CALL_OK;
}

static call_verdict read_function_member(call_attempt *a, bool is_outer) {
    mica_call_skip_space(&a->c);
    call_verdict v = is_outer ? mica_call_match(&a->c, "{") : CALL_NOT;
    if (v == CALL_MORE) return v;
    return v == CALL_OK ? read_members(a, false) : read_name_member(a);
}

static call_verdict read_member(call_attempt *a, bool is_outer) {
    if (a->opener->flags & CALL_SINGLE_KEY) {
        if (a->name.n) return CALL_NOT;
        mica_call_decode_string(a->key.data, a->key.n, &a->name);
        return mica_call_read_arguments(a, &mica_call_json);
    }
    if (is_key(a, "\"name\"", "\"tool_name\"")) return read_name_member(a);
    if (is_key(a, "\"arguments\"", "\"parameters\"")) return read_arguments_member(a);
    if (is_key(a, "\"id\"", "\"tool_call_id\"")) return read_id_member(a);
    if (is_key(a, "\"function\"", "\"function\"")) return read_function_member(a, is_outer);
    /* An answer in JSON that is no call shows early, so that it need not wait for its end. */
    if ((a->opener->flags & CALL_KNOWN) && !is_key(a, "\"type\"", "\"type\"")) return CALL_NOT;
    return mica_call_value(&a->c, &mica_call_json, NULL);
}

static call_verdict read_separator(call_cursor *c, bool is_first, bool *is_last) {
    call_verdict v = mica_call_match_next(c, "}");
    *is_last = v == CALL_OK;
    if (v != CALL_NOT || is_first) return v == CALL_NOT ? CALL_OK : v;
    if ((v = mica_call_match(c, ",")) != CALL_OK) return v;
    v = mica_call_match_next(c, "}");
    *is_last = v == CALL_OK;
    return v == CALL_NOT ? CALL_OK : v;
}

/* The cursor is past the opening brace. */
static call_verdict read_members(call_attempt *a, bool is_outer) {
    for (bool is_first = true;; is_first = false) {
        bool is_last;
        call_verdict v = read_separator(&a->c, is_first, &is_last);
        if (v != CALL_OK || is_last) return v;
        a->key.n = 0;
        if ((v = mica_call_string(&a->c, &mica_call_json, &a->key)) != CALL_OK) return v;
        if ((v = mica_call_match_next(&a->c, ":")) != CALL_OK) return v;
        if ((v = read_member(a, is_outer)) != CALL_OK) return v;
    }
}

call_verdict mica_call_read_object(call_attempt *a) {
    call_verdict v = mica_call_match_next(&a->c, "{");
    if (v != CALL_OK || (v = read_members(a, true)) != CALL_OK) return v;
    return mica_call_may_begin(a) ? CALL_OK : CALL_NOT;
}

/* ---- behind a marker ---- */
static call_verdict skip_fence(call_cursor *c) {
    call_verdict v = mica_call_match_next(c, "```");
    if (v == CALL_OK) v = mica_call_match(c, "json");
    return v == CALL_MORE ? v : CALL_OK;
}

call_verdict mica_call_try_json(call_attempt *a) {
    call_verdict v;
    a->keeps_block = true;
    a->may_id_follow = a->opener->flags & CALL_LATE_ID;
    if (a->opener->text[0] != '{') {
        if ((v = mica_call_match(&a->c, a->opener->text)) != CALL_OK) return v;
        if ((v = skip_fence(&a->c)) != CALL_OK) return v;
        v = mica_call_match_next(&a->c, "[");
        if (v == CALL_MORE || (v == CALL_NOT && (a->opener->flags & CALL_LIST))) return v;
        a->in_list = v == CALL_OK;
    }
    v = mica_call_read_object(a);
    if (v == CALL_OK && is_no_call(a)) a->result = CALL_RESULT_NOTHING;
    return v;
}
