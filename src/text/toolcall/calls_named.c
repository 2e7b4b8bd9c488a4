/* calls_named.c: calls whose name stands before a JSON object of arguments, each behind a marker:
 * Kimi-K2, Mistral, DeepSeek V3 and V3.1, Solar-Open, Functionary 3.1, GigaChat 3, and what Llama 3
 * writes behind its python tag.
 */
#include "text/toolcall/call_format.h"

/* The section's marker may stand before the call's; the opener is either. */
static call_verdict match_section(call_attempt *a, const char *section, const char *call) {
    if (strcmp(a->opener->text, section) == 0) {
        call_verdict v = mica_call_match(&a->c, section);
        if (v != CALL_OK) return v;
    }
    a->keeps_block = true;
    return mica_call_match_next(&a->c, call);
}

static call_verdict read_spaced_name(call_attempt *a, call_text *out) {
    out->n = 0;
    mica_call_skip_space(&a->c);
    return mica_call_read_name(&a->c, out);
}

/* "functions.get_time:0" is the id; the name stands between the first dot and the last colon. */
static void split_kimi_id(call_attempt *a) {
    const char *s = a->id.data;
    size_t begin = 0, end = a->id.n;
    for (size_t i = 0; i < a->id.n; i++) {
        if (s[i] == ':') end = i;
    }
    const char *dot = memchr(s, '.', end);
    if (dot) begin = (size_t)(dot - s) + 1;
    if (begin == end) { /* nothing between them */
        begin = 0;
        end = a->id.n;
    }
    a->name.n = 0;
    mica_call_put(&a->name, s + begin, end - begin);
}

call_verdict mica_call_try_kimi(call_attempt *a) {
    call_verdict v = match_section(a, "<|tool_calls_section_begin|>", "<|tool_call_begin|>");
    if (v != CALL_OK) return v;
    if ((v = read_spaced_name(a, &a->id)) != CALL_OK) return v;
    if ((v = mica_call_match_next(&a->c, "<|tool_call_argument_begin|>")) != CALL_OK) return v;
    if (!a->id.failed) split_kimi_id(a);
    return mica_call_read_arguments(a, &mica_call_json);
}

static call_verdict try_mistral_list(call_attempt *a) {
    call_verdict v = mica_call_match(&a->c, "[");
    if (v == CALL_MORE) return v;
    a->in_list = v == CALL_OK;
    a->keeps_block = a->may_id_follow = true;
    return mica_call_read_object(a);
}

call_verdict mica_call_try_mistral(call_attempt *a) {
    if (a->opener->text[0] == '{') {
        a->keeps_block = a->may_id_follow = true;
        return mica_call_read_object(a);
    }
    call_verdict v = mica_call_match(&a->c, a->opener->text);
    if (v != CALL_OK) return v;
    mica_call_skip_space(&a->c);
    if (a->c.pos == a->c.n) return call_more(&a->c);
    if (strchr("[{", a->c.s[a->c.pos])) return try_mistral_list(a);
    if ((v = read_spaced_name(a, &a->name)) != CALL_OK) return v;
    v = mica_call_match_next(&a->c, "[CALL_ID]");
    if (v == CALL_OK) v = read_spaced_name(a, &a->id);
    if (v == CALL_MORE) return v;
    if (mica_call_match_next(&a->c, "[ARGS]") == CALL_MORE) return CALL_MORE;
    return mica_call_read_arguments(a, &mica_call_json);
}

/* V3.1: name<sep>{json}. V3, R1: type<sep>name, line break, fenced json. */
call_verdict mica_call_try_deepseek(call_attempt *a) {
    call_verdict v = match_section(a, "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>");
    if (v != CALL_OK) return v;
    if ((v = read_spaced_name(a, &a->name)) != CALL_OK) return v;
    if ((v = mica_call_match_next(&a->c, "<｜tool▁sep｜>")) != CALL_OK) return v;
    mica_call_skip_space(&a->c);
    if (a->c.pos == a->c.n) return call_more(&a->c);
    if (a->c.s[a->c.pos] != '{') {
        if ((v = read_spaced_name(a, &a->name)) != CALL_OK) return v;
        v = mica_call_match_next(&a->c, "```");
        if (v == CALL_OK) v = mica_call_match(&a->c, "json");
        if (v == CALL_MORE) return v;
    }
    return mica_call_read_arguments(a, &mica_call_json);
}

call_verdict mica_call_try_solar(call_attempt *a) {
    call_verdict v = match_section(a, "<|tool_calls|>", "<|tool_call:begin|>");
    if (v != CALL_OK) return v;
    v = read_spaced_name(a, &a->id);
    if (v == CALL_MORE) return v;
    if ((v = mica_call_match_next(&a->c, "<|tool_call:name|>")) != CALL_OK) return v;
    if ((v = read_spaced_name(a, &a->name)) != CALL_OK) return v;
    if ((v = mica_call_match_next(&a->c, "<|tool_call:args|>")) != CALL_OK) return v;
    return mica_call_read_arguments(a, &mica_call_json);
}

/* <function=f>{json} */
call_verdict mica_call_try_function_json(call_attempt *a) {
    call_verdict v = mica_call_match(&a->c, a->opener->text);
    if (v != CALL_OK) return v;
    if ((v = read_spaced_name(a, &a->name)) != CALL_OK) return v;
    if ((v = mica_call_match_next(&a->c, ">")) != CALL_OK) return v;
    return mica_call_read_arguments(a, &mica_call_json);
}

/* Code up to the end of the message: a call of `python`. */
call_verdict mica_call_try_code(call_attempt *a) {
    size_t end = 0;
    call_verdict v = mica_call_match(&a->c, a->opener->text);
    if (v != CALL_OK) return v;
    size_t begin = a->c.pos;
    v = mica_call_find(&a->c, "<|eom_id|>", &end);
    if (v == CALL_MORE) return v;
    if (v == CALL_NOT) {
        if (a->is_cut) return CALL_NOT;
        end = a->c.pos = a->c.n;
    }
    mica_call_put_cstring(&a->name, "python");
    mica_call_put_code(a, a->c.s + begin, end - begin);
    return CALL_OK;
}

call_verdict mica_call_try_python_tag(call_attempt *a) {
    static const char suffix[] = ".call";
    size_t n_suffix = sizeof(suffix) - 1;
    call_verdict v = mica_call_match(&a->c, a->opener->text);
    if (v != CALL_OK) return v;
    a->keeps_block = true;
    mica_call_skip_space(&a->c);
    if (a->c.pos == a->c.n) return call_more(&a->c);
    if (a->c.s[a->c.pos] == '{') return mica_call_read_object(a);
    v = mica_call_read_python(a);
    if (v == CALL_OK && a->name.n > n_suffix &&
        memcmp(a->name.data + a->name.n - n_suffix, suffix, n_suffix) == 0) {
        a->name.n -= n_suffix;
    }
    return v;
}

/* A message of the role "function call", whose header may stand after the end of another. */
call_verdict mica_call_try_role_sep(call_attempt *a) {
    call_verdict v = mica_call_match(&a->c, a->opener->text);
    if (v != CALL_OK) return v;
    if (a->opener->text[0] == '<' &&
        (v = mica_call_match_next(&a->c, "function call")) != CALL_OK) {
        return v;
    }
    if ((v = mica_call_match(&a->c, "<|role_sep|>")) != CALL_OK) return v;
    return mica_call_read_object(a);
}
