/* calls_nested.c: MiniMax-M3, whose arguments are nested tags: objects are tags in tags, arrays are
 * <item> tags, leaves are text that the schema types. A token of its own stands before every tag,
 * so that text may hold anything else.
 */
#include "text/toolcall/call_format.h"

#define NS "]<]minimax[>["

enum { MAX_NESTING = 32, MAX_TAG_BYTES = 128 };

typedef struct element {
    char name[MAX_TAG_BYTES]; /* NUL-terminated */
    const json_value *root;
    const json_value *schema;
} element;

static call_verdict read_children(call_attempt *a, const element *parent, int depth);

/* The cursor is past NS and '<'. */
static call_verdict read_tag_name(call_cursor *c, char name[MAX_TAG_BYTES]) {
    size_t n = 0;
    while (c->pos + n < c->n && n + 1 < MAX_TAG_BYTES && !strchr("<>*/\"\n", c->s[c->pos + n])) {
        name[n] = c->s[c->pos + n];
        n++;
    }
    if (c->pos + n == c->n) return call_more(c);
    name[n] = '\0';
    c->pos += n;
    return n && c->s[c->pos] == '>' ? mica_call_match(c, ">") : CALL_NOT;
}

static void closing_tag(char out[MAX_TAG_BYTES + 24], const char *name) {
    size_t n = strlen(name);
    memcpy(out, NS "</", sizeof(NS "</") - 1);
    memcpy(out + sizeof(NS "</") - 1, name, n);
    memcpy(out + sizeof(NS "</") - 1 + n, ">", 2);
}

/* Whether tags stand inside the element: CALL_OK, and the cursor is before the first. */
static call_verdict has_children(const call_attempt *a, const element *e) {
    call_cursor c = a->c;
    bool admits = mica_call_schema_admits(e->root, e->schema, JSON_KIND_OBJECT) ||
                  mica_call_schema_admits(e->root, e->schema, JSON_KIND_ARRAY);
    call_verdict v = mica_call_match_next(&c, NS "<");
    if (v != CALL_OK || !admits) return v == CALL_MORE ? v : CALL_NOT;
    if (c.pos == c.n) return call_more(&c);
    return c.s[c.pos] == '/' ? CALL_NOT : CALL_OK;
}

static void put_leaf(call_attempt *a, const element *e, const char *s, size_t n) {
    bool is_object = mica_call_schema_admits(e->root, e->schema, JSON_KIND_OBJECT);
    bool is_array = mica_call_schema_admits(e->root, e->schema, JSON_KIND_ARRAY);
    if (n == 0 && e->schema && is_object != is_array) {
        mica_call_put_cstring(&a->args, is_object ? "{}" : "[]");
        return;
    }
    mica_call_put_typed(&a->args, s, n, e->root, e->schema, CALL_GUESS_TEXT);
}

/* The cursor is past the opening tag; it ends past the closing one. */
static call_verdict read_element(call_attempt *a, const element *e, int depth) {
    char close[MAX_TAG_BYTES + 24];
    size_t begin = a->c.pos, end;
    call_verdict v = has_children(a, e);
    if (v == CALL_MORE || (v == CALL_OK && depth == MAX_NESTING))
        return v == CALL_OK ? CALL_NOT : v;
    closing_tag(close, e->name);
    if (v == CALL_OK) {
        if ((v = read_children(a, e, depth)) != CALL_OK) return v;
        return mica_call_match_next(&a->c, close);
    }
    if ((v = mica_call_find(&a->c, close, &end)) != CALL_OK) return v;
    put_leaf(a, e, a->c.s + begin, end - begin);
    return CALL_OK;
}

/* Elements up to a closing tag, which stays. */
static call_verdict read_children(call_attempt *a, const element *parent, int depth) {
    bool is_array = false, is_first = true;
    if (depth == 0) mica_call_resume_members(a);
    if (depth == 0 && a->args.n) is_first = false;
    for (;; is_first = false) {
        element child = {.root = parent->root};
        call_verdict v = mica_call_match_next(&a->c, NS "</");
        if (v == CALL_OK) a->c.pos -= sizeof(NS "</") - 1;
        if (v == CALL_OK) break;
        if (v == CALL_MORE || (v = mica_call_match(&a->c, NS "<")) != CALL_OK) return v;
        if ((v = read_tag_name(&a->c, child.name)) != CALL_OK) return v;
        if (is_first) {
            is_array = depth > 0 && strcmp(child.name, "item") == 0 &&
                       mica_call_schema_admits(parent->root, parent->schema, JSON_KIND_ARRAY);
            mica_call_put(&a->args, is_array ? "[" : "{", 1);
        } else {
            mica_call_put(&a->args, ",", 1);
        }
        if (is_array && strcmp(child.name, "item") != 0) return CALL_NOT;
        size_t n_name = strlen(child.name);
        child.schema =
            mica_call_schema_of(parent->root, parent->schema, is_array ? NULL : child.name, n_name);
        if (!is_array) {
            mica_call_put_json_string(&a->args, child.name, n_name);
            mica_call_put(&a->args, ":", 1);
        }
        if ((v = read_element(a, &child, depth + 1)) != CALL_OK) return v;
        if (depth == 0) mica_call_keep_members(a);
    }
    if (a->args.n == 0) mica_call_put(&a->args, "{", 1);
    mica_call_put(&a->args, is_array ? "]" : "}", 1);
    return CALL_OK;
}

call_verdict mica_call_try_nested(call_attempt *a) {
    size_t end;
    call_verdict v;
    a->keeps_block = true;
    if (strcmp(a->opener->text, NS "<tool_call>") == 0 &&
        (v = mica_call_match(&a->c, a->opener->text)) != CALL_OK) {
        return v;
    }
    if ((v = mica_call_match_next(&a->c, NS "<invoke name=\"")) != CALL_OK) return v;
    size_t begin = a->c.pos;
    if ((v = mica_call_find(&a->c, "\">", &end)) != CALL_OK) return v;
    mica_call_put(&a->name, a->c.s + begin, end - begin);
    if (!mica_call_may_begin(a)) return CALL_NOT;
    element invoke = {.name = "invoke"};
    invoke.root = invoke.schema = mica_call_tools_schema(a->tools, a->name.data, a->name.n);
    if ((v = read_children(a, &invoke, 0)) != CALL_OK) return v;
    return mica_call_match(&a->c, NS "</invoke>");
}
