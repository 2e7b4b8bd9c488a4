/* jinja_loop.c: `for` and the variable `loop`.
 *
 * Items are taken one by one and a filter (`for x in y if ...`) is asked as they come; loop.last
 * and loop.nextitem look one item ahead, loop.length and what is counted from the end look at all
 * that are left, as in Jinja. The else branch runs unless some iteration came to its end:
 * `continue` in the only iteration does not count.
 */
#include <string.h>

#include "text/template/jinja_string.h"

/* ---- items ---- */

/* The value of a target after it was assigned: a tuple for a tuple of names. */
static bool read_target(jrender *r, jframe *f, const jnode *target, jvalue item, jvalue *out) {
    *out = item;
    if (target->kind != NODE_TUPLE) return true;
    jlist *l = mica_j_list_new(r, J_TUPLE, target->list.n), *items;
    if (!l || !mica_j_collect(r, item, &items)) return false;
    for (size_t i = 0; i < target->list.n; i++)
        if (!read_target(r, f, target->list.items[i], items->items[i], &l->items[i])) return false;
    l->n = target->list.n;
    *out = mica_j_from_list(l);
    return true;
}

/* The next item that the filter lets through. */
static bool take(jrender *r, jloop *l, jvalue *out, bool *is_done) {
    const jnode *node = l->node;
    for (;;) {
        jvalue item, test;
        if (!mica_j_iter_next(r, &l->iter, &item, is_done)) return false;
        if (*is_done || !l->test_frame) {
            if (!*is_done) *out = item;
            return true;
        }
        if (!mica_j_frame_enter(r, l->test_frame) ||
            !mica_j_assign(r, l->test_frame, node->loop.target, item) ||
            !mica_j_eval(r, l->test_frame, node->loop.test, &test))
            return false;
        if (mica_j_truth(test)) return read_target(r, l->test_frame, node->loop.target, item, out);
    }
}

/* Looks one item ahead: l->after is it, or MISSING at the end. */
static bool peek(jrender *r, jloop *l) {
    bool is_done;
    if (l->after.kind != J_MISSING) return true;
    if (!take(r, l, &l->after, &is_done)) return false;
    if (is_done) l->after = (jvalue){.kind = J_MISSING};
    return true;
}

static bool next(jrender *r, jloop *l, bool *is_done) {
    jvalue item = l->after;
    *is_done = false;
    if (item.kind == J_MISSING && !take(r, l, &item, is_done)) return false;
    if (*is_done) return true;
    l->after = (jvalue){.kind = J_MISSING};
    l->before = l->current;
    l->current = item;
    l->index0++;
    return true;
}

/* All that is left becomes a list of its own. */
static bool count_rest(jrender *r, jloop *l) {
    jlist *rest = mica_j_list_new(r, J_ARRAY, 0);
    jvalue item;
    bool is_done;
    if (!rest) return false;
    for (;;) {
        if (!take(r, l, &item, &is_done)) return false;
        if (is_done) break;
        if (!mica_j_list_push(r, rest, item)) return false;
    }
    l->length = (int64_t)rest->n + l->index0 + 1 + (l->after.kind != J_MISSING);
    l->iter = (jiter){.over = mica_j_from_list(rest)};
    l->test_frame = NULL;
    return true;
}

static bool count(jrender *r, jloop *l) {
    size_t n;
    if (l->length >= 0) return true;
    if (l->test_frame || mica_j_is_list(l->iter.over, J_GENERATOR)) return count_rest(r, l);
    if (!mica_j_length(r, l->iter.over, &n)) return false;
    l->length = (int64_t)n;
    return true;
}

/* ---- loop.x ---- */

static bool cycle(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    const jloop *l = self.object->loop;
    if (args->n == 0 || args->n_keywords) return MICA_J_ERROR(r, "loop.cycle needs values");
    *out = args->items[l->index0 % (int64_t)args->n];
    return true;
}

static bool changed(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    jloop *l = self.object->loop;
    jlist *now = mica_j_list_new(r, J_TUPLE, args->n);
    bool is_same = false;
    if (!now) return false;
    if (args->n) memcpy(now->items, args->items, args->n * sizeof(jvalue));
    now->n = args->n;
    if (l->last_changed.kind != J_MISSING &&
        !mica_j_equal(r, l->last_changed, mica_j_from_list(now), &is_same))
        return false;
    l->last_changed = mica_j_from_list(now);
    *out = mica_j_bool(!is_same);
    return true;
}

static bool bound_method(jrender *r, jobject *o, const jbuiltin *def, jvalue *out) {
    jobject *method = mica_j_object_new(r, J_METHOD);
    if (!method) return false;
    method->function.def = def;
    method->function.self = mica_j_from_object(o);
    *out = mica_j_from_object(method);
    return true;
}

static bool neighbour(jrender *r, jvalue item, const char *hint, jvalue *out) {
    *out = item;
    return item.kind != J_MISSING || mica_j_undefined(r, NULL, NULL, hint, out);
}

/* Attributes that need to look ahead. */
static bool distant_attribute(jrender *r, jloop *l, const jstring *name, jvalue *out) {
    bool is_last = mica_j_string_is(name, "last");
    if (is_last || mica_j_string_is(name, "nextitem")) {
        if (!peek(r, l)) return false;
        *out = mica_j_bool(l->after.kind == J_MISSING);
        return is_last || neighbour(r, l->after, "there is no next item", out);
    }
    bool is_length = mica_j_string_is(name, "length");
    bool is_index0 = mica_j_string_is(name, "revindex0");
    if (!is_length && !is_index0 && !mica_j_string_is(name, "revindex")) return true;
    if (!count(r, l)) return false;
    *out = mica_j_int(is_length ? l->length : l->length - l->index0 - is_index0);
    return true;
}

bool mica_j_loop_attribute(jrender *r, jobject *o, const jstring *name, jvalue *out) {
    static const jbuiltin cycle_method = {.name = "loop.cycle", .run = cycle};
    static const jbuiltin changed_method = {.name = "loop.changed", .run = changed};
    jloop *l = o->loop;
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {{"index", l->index0 + 1},
                   {"index0", l->index0},
                   {"depth", l->depth0 + 1},
                   {"depth0", l->depth0}};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (mica_j_string_is(name, numbers[i].name)) *out = mica_j_int(numbers[i].value);
    if (mica_j_string_is(name, "first")) *out = mica_j_bool(l->index0 == 0);
    if (mica_j_string_is(name, "previtem")) {
        jvalue before = l->index0 == 0 ? (jvalue){.kind = J_MISSING} : l->before;
        return neighbour(r, before, "there is no previous item", out);
    }
    if (mica_j_string_is(name, "cycle")) return bound_method(r, o, &cycle_method, out);
    if (mica_j_string_is(name, "changed")) return bound_method(r, o, &changed_method, out);
    return out->kind != J_MISSING || distant_attribute(r, l, name, out);
}

/* ---- running ---- */

static jloop *new_loop(jrender *r, const jnode *node, jframe *f, jvalue over, int64_t depth0) {
    jloop *l = mica_j_alloc(r, 1, sizeof(*l));
    if (!l || !mica_j_iter_begin(r, &l->iter, over)) return NULL;
    l->node = node;
    l->closure = f;
    l->index0 = -1;
    l->length = -1;
    l->depth0 = depth0;
    if (!node->loop.test) return l;
    l->test_frame = mica_j_frame_new(r, node->loop.test_scope, f);
    return l->test_frame ? l : NULL;
}

static jframe *new_body_frame(jrender *r, const jnode *node, jframe *f, jloop *l) {
    jframe *body = mica_j_frame_new(r, node->loop.scope, f);
    if (!body || node->loop.loop_slot < 0) return body;
    jobject *o = mica_j_object_new(r, J_LOOP);
    if (!o) return NULL;
    o->loop = l;
    body->slots[node->loop.loop_slot] = mica_j_from_object(o);
    return body;
}

static jflow run_items(jrender *r, const jnode *node, jframe *body, jloop *l, bool *has_run) {
    for (;;) {
        bool is_done;
        r->pos = node->pos;
        if (!next(r, l, &is_done)) return FLOW_FAIL;
        if (is_done) return FLOW_NEXT;
        if (!mica_j_frame_enter(r, body) || !mica_j_assign(r, body, node->loop.target, l->current))
            return FLOW_FAIL;
        jflow flow = mica_j_run(r, body, node->loop.body);
        if (flow == FLOW_FAIL) return flow;
        if (flow == FLOW_BREAK) return FLOW_NEXT;
        if (flow == FLOW_NEXT) *has_run = true;
    }
}

jflow mica_j_run_for(jrender *r, const jnode *node, jframe *f, jvalue over, int64_t depth0) {
    bool has_run = false;
    r->pos = node->loop.over->pos;
    jloop *l = new_loop(r, node, f, over, depth0);
    jframe *body = l ? new_body_frame(r, node, f, l) : NULL;
    if (!body) return FLOW_FAIL;
    jflow flow = run_items(r, node, body, l, &has_run);
    mica_j_frame_clear(body);
    if (flow != FLOW_NEXT || has_run || !node->loop.otherwise.n) return flow;
    jframe *other = mica_j_frame_new(r, node->loop.else_scope, f);
    if (!other || !mica_j_frame_enter(r, other)) return FLOW_FAIL;
    return mica_j_run(r, other, node->loop.otherwise);
}

bool mica_j_call_loop(jrender *r, jloop *l, const jargs *args, jvalue *out) {
    jvalue over;
    const jstring *text;
    if (!mica_j_bind(r, args, "iterable", &over)) return false;
    if (!l->node->loop.is_recursive)
        return MICA_J_ERROR(r, "only a loop marked 'recursive' can be called");
    if (r->call_depth >= JINJA_MAX_DEPTH)
        return mica_j_fail(r, MICA_E_LIMIT, "loops recurse more than %d deep", JINJA_MAX_DEPTH);
    jbuffer *outer = r->out, *b = mica_j_buffer_new(r);
    if (!b) return false;
    r->out = b;
    r->call_depth++;
    jflow flow = mica_j_run_for(r, l->node, l->closure, over, l->depth0 + 1);
    r->call_depth--;
    r->out = outer;
    if (flow == FLOW_FAIL || !mica_j_finish(r, b, false, &text)) return false;
    *out = mica_j_text(text);
    return true;
}
