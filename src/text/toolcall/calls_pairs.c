/* calls_pairs.c: calls with a tag for each key and each value (GLM-4.5 and later, Hunyuan Hy3,
 * Ling, Spark, Laguna), and Kimi-K3's tags of three tokens with attributes.
 *
 * A value ends at a closing tag that is followed by the next key or the end of the call.
 */
#include "text/toolcall/call_format.h"

enum { MAX_KEY_BYTES = 256 };

static void put_separator_and_key(call_attempt *a) {
    if (a->args.n > 1) mica_call_put(&a->args, ",", 1);
    mica_call_put_json_string(&a->args, a->key.data, a->key.n);
    mica_call_put(&a->args, ":", 1);
}

static bool is_closed_by_end(const call_attempt *a, call_cursor c) {
    mica_call_skip_space(&c);
    return c.is_end && !a->is_cut && c.pos == c.n;
}

/* The next `close` that `next` or `end` follows, white space between them. */
static call_verdict find_followed(call_attempt *a, const char *close, const char *next,
                                  const char *end, size_t *at) {
    size_t begin = a->c.pos;
    mica_call_resume_search(a);
    for (;;) {
        call_verdict v = mica_call_find(&a->c, close, at);
        if (v == CALL_MORE) mica_call_keep_search(a, begin, a->c.pos);
        if (v != CALL_OK) return v;
        call_cursor ahead = a->c;
        v = mica_call_match_next(&ahead, next);
        call_verdict w = v == CALL_OK ? v : mica_call_match(&ahead, end);
        if (w == CALL_OK || is_closed_by_end(a, a->c)) return CALL_OK;
        if (v == CALL_MORE || w == CALL_MORE) {
            mica_call_keep_search(a, begin, *at);
            return CALL_MORE;
        }
    }
}

/* ---- keys and values ---- */
static call_verdict read_pair(call_attempt *a, const pairs_shape *shape) {
    size_t begin = a->c.pos, end;
    call_verdict v = mica_call_find(&a->c, "</arg_key*>", &end);
    if (v != CALL_OK) return v;
    const char *key = a->c.s + begin;
    size_t n_key = end - begin;
    mica_call_trim(&key, &n_key);
    if (n_key == 0 || n_key > MAX_KEY_BYTES) return CALL_NOT;
    a->key.n = 0;
    mica_call_put(&a->key, key, n_key);
    if ((v = mica_call_match_next(&a->c, "<arg_value*>")) != CALL_OK) return v;
    begin = a->c.pos;
    v = find_followed(a, "</arg_value*>", "<arg_key*>", shape->call_close, &end);
    if (v != CALL_OK || a->key.failed || a->name.failed) return v;
    const json_value *root = mica_call_tools_schema(a->tools, a->name.data, a->name.n);
    put_separator_and_key(a);
    mica_call_put_typed(&a->args, a->c.s + begin, end - begin, root,
                        mica_call_schema_of(root, root, a->key.data, a->key.n), CALL_GUESS_JSON);
    return CALL_OK;
}

static call_verdict read_pairs(call_attempt *a, const pairs_shape *shape) {
    mica_call_put(&a->args, "{", 1);
    mica_call_resume_members(a);
    for (;;) {
        call_verdict v = mica_call_match_next(&a->c, shape->call_close);
        call_verdict w = v == CALL_OK ? CALL_NOT : mica_call_match(&a->c, "<arg_key*>");
        if (w == CALL_OK) {
            if ((v = read_pair(a, shape)) != CALL_OK) return v;
            mica_call_keep_members(a);
            continue;
        }
        if (v == CALL_NOT && w == CALL_NOT && is_closed_by_end(a, a->c)) v = CALL_OK;
        if (v == CALL_OK) mica_call_put(&a->args, "}", 1);
        return v == CALL_OK || w == CALL_NOT ? v : w;
    }
}

call_verdict mica_call_try_pairs(call_attempt *a) {
    const pairs_shape *shape = a->opener->shape;
    call_verdict v = mica_call_match(&a->c, a->opener->text);
    if (v != CALL_OK) return v;
    a->keeps_block = true;
    if (shape->section && strcmp(a->opener->text, shape->section) == 0) {
        if ((v = mica_call_match_next(&a->c, shape->call)) != CALL_OK) return v;
    }
    mica_call_skip_space(&a->c);
    if (a->c.pos == a->c.n) return call_more(&a->c);
    if (a->c.s[a->c.pos] == '{') return mica_call_read_object(a); /* as Hermes does */
    if ((v = mica_call_read_name(&a->c, &a->name)) != CALL_OK) return v;
    if (shape->name_end && (v = mica_call_match_next(&a->c, shape->name_end)) != CALL_OK) return v;
    return read_pairs(a, shape);
}

/* ---- Kimi-K3 ---- */
/* The value of key="..." (with the space before it), where only &amp; and &quot; are escapes. */
static call_verdict read_attribute(call_cursor *c, const char *key, call_text *out) {
    size_t end;
    call_verdict v = mica_call_match_next(c, key);
    if (v != CALL_OK) return v;
    size_t i = c->pos;
    if ((v = mica_call_find(c, "\"", &end)) != CALL_OK) return v;
    if (end - i > MAX_KEY_BYTES) return CALL_NOT;
    out->n = 0;
    while (i < end) {
        bool is_amp = end - i >= 5 && memcmp(c->s + i, "&amp;", 5) == 0;
        bool is_quot = end - i >= 6 && memcmp(c->s + i, "&quot;", 6) == 0;
        mica_call_put(out, is_quot ? "\"" : c->s + i, 1);
        i += is_amp ? 5 : is_quot ? 6 : 1;
    }
    return CALL_OK;
}

static call_verdict read_xtml_argument(call_attempt *a) {
    size_t end;
    call_verdict v = read_attribute(&a->c, "key=\"", &a->key);
    if (v != CALL_OK || (v = read_attribute(&a->c, "type=\"", &a->value)) != CALL_OK) return v;
    if ((v = mica_call_match_next(&a->c, "<|sep|>")) != CALL_OK) return v;
    size_t begin = a->c.pos;
    v = find_followed(a, "<|close|>argument<|sep|>", "<|open|>argument", "<|close|>call<|sep|>",
                      &end);
    if (v != CALL_OK) return v;
    const char *s = a->c.s + begin;
    put_separator_and_key(a);
    if (a->value.n == 6 && memcmp(a->value.data, "string", 6) == 0) {
        mica_call_put_json_string(&a->args, s, end - begin);
    } else {
        mica_call_put_typed(&a->args, s, end - begin, NULL, NULL, CALL_GUESS_JSON);
    }
    return CALL_OK;
}

/* All arguments as one object instead. */
static call_verdict read_xtml_json(call_attempt *a) {
    call_verdict v = read_attribute(&a->c, "type=\"", &a->value);
    if (v == CALL_MORE) return v;
    if ((v = mica_call_match_next(&a->c, "<|sep|>")) != CALL_OK) return v;
    a->args.n = 0;
    mica_call_skip_space(&a->c);
    if (a->c.pos == a->c.n) return call_more(&a->c);
    if (a->c.s[a->c.pos] != '{') return CALL_NOT;
    if ((v = mica_call_read_json(a, &mica_call_json)) != CALL_OK) return v;
    if ((v = mica_call_match_next(&a->c, "<|close|>json<|sep|>")) != CALL_OK) return v;
    return mica_call_match_next(&a->c, "<|close|>call<|sep|>");
}

static call_verdict read_xtml_arguments(call_attempt *a) {
    mica_call_put(&a->args, "{", 1);
    mica_call_resume_members(a);
    for (;;) {
        call_verdict v = mica_call_match_next(&a->c, "<|close|>call<|sep|>");
        if (v == CALL_NOT && is_closed_by_end(a, a->c)) v = CALL_OK;
        if (v == CALL_OK) mica_call_put(&a->args, "}", 1);
        if (v != CALL_NOT) return v;
        if ((v = mica_call_match(&a->c, "<|open|>")) != CALL_OK) return v;
        v = a->args.n == 1 ? mica_call_match(&a->c, "json") : CALL_NOT;
        if (v == CALL_OK) return read_xtml_json(a);
        if (v == CALL_MORE || (v = mica_call_match(&a->c, "argument")) != CALL_OK) return v;
        if ((v = read_xtml_argument(a)) != CALL_OK) return v;
        mica_call_keep_members(a);
    }
}

call_verdict mica_call_try_xtml(call_attempt *a) {
    static const char section[] = "<|open|>tools<|sep|>";
    call_verdict v;
    a->keeps_block = true;
    if (strcmp(a->opener->text, section) == 0 && (v = mica_call_match(&a->c, section)) != CALL_OK) {
        return v;
    }
    if ((v = mica_call_match_next(&a->c, "<|open|>call")) != CALL_OK) return v;
    if ((v = read_attribute(&a->c, "tool=\"", &a->name)) != CALL_OK) return v;
    v = read_attribute(&a->c, "index=\"", &a->value);
    if (v == CALL_MORE) return v;
    if ((v = mica_call_match_next(&a->c, "<|sep|>")) != CALL_OK) return v;
    if (a->name.n == 0) return CALL_NOT;
    return read_xtml_arguments(a);
}
