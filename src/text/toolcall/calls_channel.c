/* calls_channel.c: answers made of messages with headers: gpt-oss (harmony), Muse, Functionary 3.2.
 *
 * An attempt reads a header. It says that content or reasoning follows, or goes on to read the call
 * that the header announces. A header that is none leaves all its bytes to content.
 */
#include "text/toolcall/call_format.h"

enum { MAX_HEADER_BYTES = 512 };

/* The words of a header up to <|message|>. */
typedef struct header {
    bool has_recipient, has_channel, is_analysis;
    bool follows_channel, follows_start; /* the last marker */
} header;

static call_verdict read_word(call_attempt *a, call_text *out) {
    out->n = 0;
    mica_call_skip_space(&a->c);
    return mica_call_read_name(&a->c, out);
}

/* ---- harmony ---- */
static call_verdict read_channel(call_attempt *a, header *h) {
    call_verdict v = read_word(a, &a->value);
    if (v != CALL_OK) return v;
    const char *s = a->value.data;
    h->has_channel = h->follows_channel = true;
    h->is_analysis = call_text_is(s, a->value.n, "analysis");
    bool is_known = h->is_analysis || call_text_is(s, a->value.n, "final") ||
                    call_text_is(s, a->value.n, "commentary");
    return is_known ? CALL_OK : CALL_NOT;
}

/* One part of the header; *is_last: it was <|message|>. */
static call_verdict read_part(call_attempt *a, header *h, bool *is_last) {
    static const char *const markers[] = {"<|message|>", "<|channel|>", "<|constrain|>",
                                          "<|start|>", "to="};
    bool may_be_more = false;
    mica_call_skip_space(&a->c);
    for (int i = 0; i < 5; i++) {
        call_verdict v = mica_call_match(&a->c, markers[i]);
        may_be_more |= v == CALL_MORE;
        if (v != CALL_OK) continue;
        *is_last = i == 0;
        if (i == 1) return read_channel(a, h);
        if (i == 2 || i == 3) return read_word(a, &a->value);
        if (i == 4) h->has_recipient = true;
        return i == 4 ? read_word(a, &a->key) : CALL_OK;
    }
    if (may_be_more) return CALL_MORE;
    return h->follows_channel ? read_word(a, &a->value) : CALL_NOT; /* "commentary json" */
}

static call_verdict read_header(call_attempt *a, header *h) {
    for (bool is_last = false; !is_last;) {
        if (a->c.pos > MAX_HEADER_BYTES) return CALL_NOT;
        call_verdict v = read_part(a, h, &is_last);
        if (v != CALL_OK) return v;
    }
    return CALL_OK;
}

/* a->key is the recipient: "functions.f", or a tool that has no namespace. */
static bool take_recipient(call_attempt *a) {
    static const char space[] = "functions.";
    size_t n = a->key.n > sizeof(space) - 1 ? sizeof(space) - 1 : 0;
    if (n && memcmp(a->key.data, space, n) != 0) n = 0;
    a->name.n = 0;
    mica_call_put(&a->name, a->key.data + n, a->key.n - n);
    return !call_text_is(a->key.data, a->key.n, "assistant");
}

call_verdict mica_call_try_harmony(call_attempt *a) {
    header h = {0};
    call_verdict v = read_header(a, &h);
    if (v != CALL_OK || a->key.failed) return v;
    if (h.has_recipient && take_recipient(a)) return mica_call_read_arguments(a, &mica_call_json);
    a->result = h.is_analysis ? CALL_RESULT_REASONING : CALL_RESULT_CONTENT;
    return CALL_OK;
}

/* ---- Muse ---- */
static const tagged_shape muse_shape = {
    .section = "<atem:function_calls>",
    .call = "<atem:invoke name=",
    .param = "<atem:parameter name=",
    .param_close = "</atem:parameter>",
    .call_close = "</atem:invoke>",
    .section_close = "</atem:function_calls>",
};

static call_verdict read_muse_call(call_attempt *a) {
    call_verdict v = mica_call_match_next(&a->c, muse_shape.section);
    if (v != CALL_OK) return v;
    a->keeps_block = true;
    mica_call_skip_space(&a->c);
    return mica_call_read_tagged(a, &muse_shape);
}

call_verdict mica_call_try_muse(call_attempt *a) {
    header h = {0};
    if (a->opener->text[0] == '<' && a->opener->text[1] == 'a') {
        a->keeps_block = true;
        if (a->opener->flags & CALL_IN_BLOCK) return mica_call_read_tagged(a, &muse_shape);
        return read_muse_call(a);
    }
    call_verdict v = read_header(a, &h);
    if (v != CALL_OK || a->key.failed) return v;
    if (h.has_channel) return CALL_NOT;
    if (!h.has_recipient || call_text_is(a->key.data, a->key.n, "user")) {
        a->result = CALL_RESULT_CONTENT;
    } else if (call_text_is(a->key.data, a->key.n, "self")) {
        a->result = CALL_RESULT_REASONING;
    } else {
        return read_muse_call(a);
    }
    return CALL_OK;
}

/* ---- Functionary 3.2 ---- */
/* Code runs up to the next part, ">>>name" and a line break, or to the end. */
static call_verdict read_code(call_attempt *a) {
    size_t begin = a->c.pos, end;
    for (;;) {
        call_verdict v = mica_call_find(&a->c, ">>>", &end);
        if (v == CALL_NOT && !a->is_cut) end = a->c.pos = a->c.n;
        if (v == CALL_MORE || (v == CALL_NOT && a->is_cut)) return v;
        if (v == CALL_NOT) break;
        call_cursor ahead = a->c;
        if ((v = mica_call_read_name(&ahead, NULL)) == CALL_OK) v = mica_call_match(&ahead, "\n");
        if (v == CALL_MORE) return v;
        if (v == CALL_NOT) continue;
        a->c.pos = end;
        break;
    }
    mica_call_put_code(a, a->c.s + begin, end - begin);
    return CALL_OK;
}

call_verdict mica_call_try_parts(call_attempt *a) {
    call_verdict v = mica_call_match(&a->c, a->opener->text);
    if (v != CALL_OK || (v = mica_call_read_name(&a->c, &a->name)) != CALL_OK) return v;
    if ((v = mica_call_match(&a->c, "\n")) != CALL_OK) return v;
    if (call_text_is(a->name.data, a->name.n, "all")) {
        a->result = CALL_RESULT_CONTENT;
        return CALL_OK;
    }
    v = mica_call_match_next(&a->c, "{");
    if (v == CALL_MORE) return v;
    if (v == CALL_OK) a->c.pos--;
    if (v == CALL_OK) return mica_call_read_arguments(a, &mica_call_json);
    return call_text_is(a->name.data, a->name.n, "python") ? read_code(a) : CALL_NOT;
}
