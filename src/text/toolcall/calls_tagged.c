/* calls_tagged.c: calls in tags, with a tag for each parameter and bare text in it: MiniMax-M2,
 * Qwen3-Coder and its kin, MiniCPM5, DeepSeek's DSML, Muse.
 *
 * A value may hold anything, also what looks like a closing tag: it ends where a closing tag is
 * followed by what may follow a parameter.
 */
#include "text/toolcall/call_format.h"

#include "base/utf8.h"

enum { MAX_ATTRIBUTE_BYTES = 256 };

/* ---- tags ---- */
/* The value of an attribute: quoted, or up to white space or '>'. */
static call_verdict read_attribute(call_cursor *c, call_text *out) {
    if (c->pos == c->n) return call_more(c);
    char quote = c->s[c->pos] == '"' || c->s[c->pos] == '\'' ? c->s[c->pos] : '\0';
    size_t begin = c->pos + (quote != '\0'), i = begin;
    while (i < c->n && c->s[i] != '\n' && i - begin < MAX_ATTRIBUTE_BYTES) {
        if (quote ? c->s[i] == quote : call_is_space(c->s[i]) || c->s[i] == '>') break;
        if (!quote && (c->s[i] == '"' || c->s[i] == '<')) return CALL_NOT;
        i++;
    }
    if (i == c->n) return call_more(c);
    if (i == begin || (quote && c->s[i] != quote)) return CALL_NOT;
    mica_call_put(out, c->s + begin, i - begin);
    c->pos = i + (quote != '\0');
    return CALL_OK;
}

/* The rest of a tag from its name on. *kind: the first letter of string="true|false", 0 if none. */
static call_verdict read_tag(call_cursor *c, call_text *name, char *kind) {
    *kind = '\0';
    call_verdict v = read_attribute(c, name);
    if (v != CALL_OK) return v;
    if ((v = mica_call_match_next(c, ">")) != CALL_NOT) return v;
    if ((v = mica_call_match(c, "string=\"")) != CALL_OK) return v;
    size_t begin, value = c->pos;
    if ((v = mica_call_find(c, "\"", &begin)) != CALL_OK) return v;
    if (begin > value) *kind = c->s[value];
    return mica_call_match_next(c, ">");
}

/* Which of two markers stands at the cursor; CALL_MORE if more text may tell. *which: 0 or 1. */
static call_verdict match_either(call_cursor *c, const char *one, const char *other, int *which) {
    call_verdict v = mica_call_match(c, one);
    *which = 0;
    if (v == CALL_OK) return v;
    call_verdict w = mica_call_match(c, other);
    *which = 1;
    if (w == CALL_OK) return w;
    return v == CALL_MORE || w == CALL_MORE ? CALL_MORE : CALL_NOT;
}

/* Nothing but the closing tags is missing at the end of the answer. */
static bool is_closed_by_end(const call_attempt *a, call_cursor c) {
    mica_call_skip_space(&c);
    return c.is_end && !a->is_cut && c.pos == c.n;
}

/* ---- the extent of a value ---- */
static call_verdict may_follow(const call_attempt *a, const tagged_shape *shape) {
    call_cursor c = a->c;
    int which;
    mica_call_skip_space(&c);
    call_verdict v = match_either(&c, shape->param, shape->call_close, &which);
    if (v == CALL_OK) return v;
    call_verdict w = shape->section_close ? mica_call_match(&c, shape->section_close) : CALL_NOT;
    if (w == CALL_OK || is_closed_by_end(a, c)) return CALL_OK;
    return v == CALL_MORE || w == CALL_MORE ? CALL_MORE : CALL_NOT;
}

/* The next closing tag that does not stand in a CDATA section. */
static call_verdict find_close(call_cursor *c, const tagged_shape *shape, size_t *end) {
    size_t cdata;
    while (shape->is_xml) {
        call_cursor ahead = *c, inside = *c;
        call_verdict v = mica_call_find(&ahead, shape->param_close, end);
        if (v == CALL_OK) { /* a section that begins behind it does not matter */
            inside.n = *end;
            inside.is_end = true;
        }
        call_verdict w = mica_call_find(&inside, "<![CDATA[", &cdata);
        if (w == CALL_NOT || (v == CALL_OK && w == CALL_OK && *end < cdata)) break;
        if (w == CALL_MORE && (v != CALL_OK || inside.pos < *end)) return CALL_MORE;
        if (w == CALL_MORE) break;
        inside.n = c->n;
        inside.is_end = c->is_end;
        if ((v = mica_call_find(&inside, "]]>", &cdata)) != CALL_OK) return v;
        *c = inside;
    }
    return mica_call_find(c, shape->param_close, end);
}

static call_verdict find_value_end(call_attempt *a, const tagged_shape *shape, size_t *end) {
    size_t begin = a->c.pos;
    if (!shape->is_xml) mica_call_resume_search(a); /* CDATA hides closing tags */
    for (;;) {
        call_verdict v = find_close(&a->c, shape, end);
        if (v == CALL_MORE) mica_call_keep_search(a, begin, a->c.pos);
        if (v != CALL_OK) return v;
        if ((v = may_follow(a, shape)) == CALL_MORE) mica_call_keep_search(a, begin, *end);
        if (v != CALL_NOT) return v;
    }
}

/* ---- values ---- */
static bool is_boxed(const char *s, size_t n) {
    return n > 1 && (s[0] == '\n' || (s[0] == '\r' && s[1] == '\n')) && s[n - 1] == '\n';
}

static void cut_newlines(const char **s, size_t *n) {
    size_t n_head = *n && (*s)[0] == '\n'                          ? 1
                    : *n > 1 && (*s)[0] == '\r' && (*s)[1] == '\n' ? 2
                                                                   : 0;
    *s += n_head;
    *n -= n_head;
    if (*n && (*s)[*n - 1] == '\n') {
        (*n)--;
        if (*n && (*s)[*n - 1] == '\r') (*n)--;
    }
}

/* The bytes of an entity at s[0] == '&', put as text; 0: none. */
static size_t put_entity(const char *s, size_t n, call_text *out) {
    static const char *const names[][2] = {
        {"&lt;", "<"}, {"&gt;", ">"}, {"&amp;", "&"}, {"&quot;", "\""}, {"&apos;", "'"}};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        size_t n_name = strlen(names[i][0]);
        if (n < n_name || memcmp(s, names[i][0], n_name) != 0) continue;
        mica_call_put_cstring(out, names[i][1]);
        return n_name;
    }
    if (n < 4 || s[1] != '#') return 0;
    bool is_hex = s[2] == 'x' || s[2] == 'X';
    uint32_t code = 0;
    size_t i = 2 + is_hex, first = i;
    for (; i < n && i - first < 7; i++) {
        uint32_t letter = (uint32_t)(s[i] | 32);
        bool is_letter = is_hex && letter >= 'a' && letter <= 'f';
        if (!call_is_digit(s[i]) && !is_letter) break;
        code = code * (is_hex ? 16 : 10) + (is_letter ? letter - 'a' + 10 : (uint32_t)(s[i] - '0'));
    }
    bool is_character = code && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
    if (i == first || i == n || s[i] != ';' || !is_character) return 0;
    char text[4];
    mica_call_put(out, text, mica_utf8_put(text, code));
    return i + 1;
}

/* XML text: entities and CDATA sections. */
static void put_xml_text(const char *s, size_t n, call_text *out) {
    call_cursor c = {.s = s, .n = n, .is_end = true};
    while (c.pos < n) {
        size_t end, n_entity;
        if (s[c.pos] == '<' && mica_call_match(&c, "<![CDATA[") == CALL_OK) {
            size_t begin = c.pos;
            if (mica_call_find(&c, "]]>", &end) != CALL_OK) end = n;
            mica_call_put(out, s + begin, end - begin);
        } else if (s[c.pos] == '&' && (n_entity = put_entity(s + c.pos, n - c.pos, out))) {
            c.pos += n_entity;
        } else {
            mica_call_put(out, s + c.pos, 1);
            c.pos++;
        }
    }
}

static void put_value(call_attempt *a, const tagged_shape *shape, const char *s, size_t n,
                      char kind) {
    const json_value *root = mica_call_tools_schema(a->tools, a->name.data, a->name.n);
    const json_value *schema = mica_call_schema_of(root, root, a->key.data, a->key.n);
    if (shape->cuts_newline && (!shape->cuts_pairs || is_boxed(s, n))) cut_newlines(&s, &n);
    if (shape->is_xml) {
        mica_call_trim(&s, &n);
        a->value.n = 0;
        put_xml_text(s, n, &a->value);
        s = a->value.data;
        n = a->value.n;
    }
    if (shape->has_string_tag && kind == 't') {
        mica_call_put_json_string(&a->args, s, n);
    } else if (shape->has_string_tag && kind == 'f') {
        mica_call_put_typed(&a->args, s, n, NULL, NULL, CALL_GUESS_JSON);
    } else {
        mica_call_put_typed(&a->args, s, n, root, schema, shape->guess);
    }
}

/* ---- the call ---- */
static call_verdict read_parameter(call_attempt *a, const tagged_shape *shape) {
    char kind;
    size_t end;
    a->key.n = 0;
    call_verdict v = read_tag(&a->c, &a->key, &kind);
    if (v != CALL_OK) return v;
    size_t begin = a->c.pos;
    if ((v = find_value_end(a, shape, &end)) != CALL_OK) return v;
    if (a->key.failed || a->name.failed) return CALL_OK;
    if (a->args.n > 1) mica_call_put(&a->args, ",", 1);
    mica_call_put_json_string(&a->args, a->key.data, a->key.n);
    mica_call_put(&a->args, ":", 1);
    put_value(a, shape, a->c.s + begin, end - begin, kind);
    return CALL_OK;
}

static call_verdict read_parameters(call_attempt *a, const tagged_shape *shape) {
    call_verdict v;
    a->args.n = 0;
    mica_call_put(&a->args, "{", 1);
    mica_call_resume_members(a);
    for (;;) {
        int which;
        mica_call_skip_space(&a->c);
        v = match_either(&a->c, shape->call_close, shape->param, &which);
        if (v != CALL_OK || which == 0) break;
        if ((v = read_parameter(a, shape)) != CALL_OK) return v;
        mica_call_keep_members(a);
    }
    if (v == CALL_NOT) { /* the tag of the section may do for the call's, and so may the end */
        call_cursor ahead = a->c;
        if (shape->section_close) v = mica_call_match(&ahead, shape->section_close);
        if (v == CALL_NOT && is_closed_by_end(a, a->c)) v = CALL_OK;
    }
    if (v == CALL_OK) mica_call_put(&a->args, "}", 1);
    return v;
}

call_verdict mica_call_read_tagged(call_attempt *a, const tagged_shape *shape) {
    char kind;
    call_verdict v = mica_call_match(&a->c, shape->call);
    if (v != CALL_OK) return v;
    a->name.n = 0;
    if ((v = read_tag(&a->c, &a->name, &kind)) != CALL_OK) return v;
    return read_parameters(a, shape);
}

call_verdict mica_call_try_tagged(call_attempt *a) {
    const tagged_shape *shape = a->opener->shape;
    a->keeps_block = true;
    if (shape->section && strcmp(a->opener->text, shape->section) == 0) {
        call_verdict v = mica_call_match(&a->c, shape->section);
        if (v != CALL_OK) return v;
        mica_call_skip_space(&a->c);
        if (a->c.pos == a->c.n) return call_more(&a->c);
        if (a->c.s[a->c.pos] == '{') return mica_call_read_object(a); /* as Hermes does */
    }
    return mica_call_read_tagged(a, shape);
}
