/* jinja_exec.c: statements: output, branches, assignments, captures, macros. Loops are in
 * jinja_loop.c. */
#include <string.h>

#include "text/template/jinja_string.h"

/* ---- frames ---- */

jframe *mica_j_frame_new(jrender *r, const jscope *scope, jframe *parent) {
    jframe *f = mica_j_alloc(r, 1, sizeof(*f));
    jvalue *slots = f ? mica_j_alloc(r, scope->n + 1, sizeof(*slots)) : NULL;
    if (!slots) return NULL;
    *f = (jframe){parent, scope, slots};
    return f;
}

static jvalue read_ref(jframe *f, jref ref) {
    for (int i = 0; i < ref.depth; i++)
        f = f->parent;
    return f->slots[ref.slot];
}

bool mica_j_frame_enter(jrender *r, jframe *f) {
    for (size_t i = 0; i < f->scope->n; i++) {
        const jsymbol *s = &f->scope->symbols[i];
        if (s->load == LOAD_PARAMETER) continue;
        f->slots[i] = (jvalue){.kind = J_MISSING};
        if (s->load == LOAD_ALIAS) f->slots[i] = read_ref(f->parent, s->outer);
        if (s->load != LOAD_CONTEXT) continue;
        const jentry *e = mica_j_dict_find_name(r->context, s->name->data, s->name->n);
        if (e) f->slots[i] = e->value;
    }
    return mica_j_charge(r, 0);
}

void mica_j_frame_clear(jframe *f) {
    for (size_t i = 0; i < f->scope->n; i++)
        f->slots[i] = (jvalue){.kind = J_MISSING};
}

/* A frame that is entered at once. */
static jframe *enter_new(jrender *r, const jscope *scope, jframe *parent) {
    jframe *f = mica_j_frame_new(r, scope, parent);
    return f && mica_j_frame_enter(r, f) ? f : NULL;
}

/* ---- assignment ---- */

static bool set_namespace(jrender *r, jframe *f, const jnode *target, jvalue value) {
    jvalue owner = read_ref(f, target->name.ref);
    const jstring *name = target->name.attribute;
    bool is_namespace = owner.kind == J_OBJECT && owner.object->type == J_NAMESPACE;
    r->pos = target->pos;
    if (!is_namespace)
        return MICA_J_ERROR(r, "'%.*s' is no namespace: its attributes cannot be set",
                            target->name.name->n < 60 ? (int)target->name.name->n : 60,
                            target->name.name->data);
    if (name->data[0] == '_')
        return MICA_J_ERROR(r, "a namespace has no attributes that begin with '_'");
    return mica_j_dict_set(r, owner.object->attributes, mica_j_text(name), value);
}

static bool unpack(jrender *r, jframe *f, const jnode *target, jvalue value) {
    jlist *items;
    r->pos = target->pos;
    if (!mica_j_collect(r, value, &items)) return false;
    if (items->n != target->list.n)
        return MICA_J_ERROR(r, "%zu values for %zu names", items->n, target->list.n);
    for (size_t i = 0; i < items->n; i++)
        if (!mica_j_assign(r, f, target->list.items[i], items->items[i])) return false;
    return true;
}

bool mica_j_assign(jrender *r, jframe *f, const jnode *target, jvalue value) {
    if (target->kind == NODE_TUPLE) return unpack(r, f, target, value);
    if (target->kind == NODE_NAMESPACE_REF) return set_namespace(r, f, target, value);
    for (int i = 0; i < target->name.ref.depth; i++)
        f = f->parent;
    f->slots[target->name.ref.slot] = value;
    return true;
}

/* ---- captures ---- */

/* Runs a body and gives what it wrote. */
static jflow capture(jrender *r, jframe *f, jnodes body, const jstring **out) {
    jbuffer *outer = r->out, *b = mica_j_buffer_new(r);
    if (!b) return FLOW_FAIL;
    r->out = b;
    jflow flow = mica_j_run(r, f, body);
    r->out = outer;
    return flow == FLOW_NEXT && !mica_j_finish(r, b, false, out) ? FLOW_FAIL : flow;
}

/* The text of a set or filter block, filtered. */
static jflow capture_filtered(jrender *r, jframe *f, const jnode *node, jvalue *out) {
    const jstring *text = NULL;
    jframe *inner = enter_new(r, node->set.scope, f);
    jflow flow = inner ? capture(r, inner, node->set.body, &text) : FLOW_FAIL;
    if (flow != FLOW_NEXT) return flow;
    *out = mica_j_text(text);
    if (node->set.filter && !mica_j_eval_filters(r, inner, node->set.filter, *out, out))
        return FLOW_FAIL;
    return FLOW_NEXT;
}

static jflow run_set_block(jrender *r, jframe *f, const jnode *node) {
    jvalue value;
    jflow flow = capture_filtered(r, f, node, &value);
    if (flow != FLOW_NEXT) return flow;
    return mica_j_assign(r, f, node->set.target, value) ? FLOW_NEXT : FLOW_FAIL;
}

static jflow run_filter_block(jrender *r, jframe *f, const jnode *node) {
    jvalue value;
    jflow flow = capture_filtered(r, f, node, &value);
    if (flow != FLOW_NEXT) return flow;
    return mica_j_print(r, r->out, value) ? FLOW_NEXT : FLOW_FAIL;
}

/* ---- macros ---- */

static bool new_macro(jrender *r, const jnode *node, jframe *closure, jvalue *out) {
    jobject *o = mica_j_object_new(r, J_MACRO);
    jmacro *m = o ? mica_j_alloc(r, 1, sizeof(*m)) : NULL;
    if (!m) return false;
    *m = (jmacro){node, closure};
    o->macro = m;
    *out = mica_j_from_object(o);
    return true;
}

static const char *macro_name(const jmacro *m, char text[64]) {
    const jstring *name = m->node->macro.name;
    size_t n = name ? (name->n < 60 ? name->n : 60) : 6;
    memcpy(text, name ? name->data : "caller", n);
    text[n] = 0;
    return text;
}

/* Takes the keyword out of the list. */
static bool take_keyword(jargs *args, const jstring *name, jvalue *out) {
    for (size_t i = 0; i < args->n_keywords; i++) {
        if (!mica_j_string_equal(args->keywords[i].name, name)) continue;
        *out = args->keywords[i].value;
        args->n_keywords--;
        memmove(&args->keywords[i], &args->keywords[i + 1],
                (args->n_keywords - i) * sizeof(jkeyword));
        return true;
    }
    return false;
}

/* Parameters from the arguments; what keywords are left stays in args. */
static void fill_parameters(const jsignature *g, jframe *f, jargs *args) {
    for (size_t i = 0; i < g->n; i++) {
        jvalue v = {.kind = J_MISSING};
        if (i < args->n)
            v = args->items[i];
        else
            take_keyword(args, g->names[i], &v);
        f->slots[g->refs[i].slot] = v;
    }
}

static bool fill_defaults(jrender *r, const jsignature *g, jframe *f) {
    size_t first = g->n - g->defaults.n;
    for (size_t i = 0; i < g->n; i++) {
        jvalue *slot = &f->slots[g->refs[i].slot];
        if (slot->kind != J_MISSING) continue;
        bool is_good = i < first ? mica_j_undefined(r, g->names[i], NULL, NULL, slot)
                                 : mica_j_eval(r, f, g->defaults.items[i - first], slot);
        if (!is_good) return false;
    }
    return true;
}

static bool fill_caller(jrender *r, const jsignature *g, jframe *f, jargs *args) {
    if (g->caller < 0) return true;
    jstring name = {.data = "caller", .n = 6, .n_chars = 6};
    jvalue *slot = &f->slots[g->caller];
    *slot = mica_j_none();
    take_keyword(args, &name, slot);
    return slot->kind != J_NONE ||
           mica_j_undefined(r, NULL, NULL, "the macro was not called by a call block", slot);
}

static bool fill_rest(jrender *r, const jmacro *m, jframe *f, const jargs *args) {
    const jsignature *g = &m->node->macro.signature;
    char name[64];
    size_t n_rest = args->n > g->n ? args->n - g->n : 0;
    if (g->rest < 0 && n_rest)
        return MICA_J_ERROR(r, "macro '%s' takes at most %zu arguments, not %zu",
                            macro_name(m, name), g->n, args->n);
    if (g->keywords < 0 && args->n_keywords) {
        const jstring *keyword = args->keywords[0].name;
        return MICA_J_ERROR(r, "macro '%s' takes no keyword '%.*s'", macro_name(m, name),
                            keyword->n < 60 ? (int)keyword->n : 60, keyword->data);
    }
    jlist *rest = mica_j_list_new(r, J_TUPLE, n_rest);
    jdict *keywords = mica_j_dict_new(r);
    if (!rest || !keywords) return false;
    for (size_t i = 0; i < n_rest; i++)
        if (!mica_j_list_push(r, rest, args->items[g->n + i])) return false;
    for (size_t i = 0; i < args->n_keywords; i++)
        if (!mica_j_dict_set(r, keywords, mica_j_text(args->keywords[i].name),
                             args->keywords[i].value))
            return false;
    if (g->rest >= 0) f->slots[g->rest] = mica_j_from_list(rest);
    if (g->keywords >= 0) f->slots[g->keywords] = mica_j_from_dict(keywords);
    return true;
}

bool mica_j_call_macro(jrender *r, const jmacro *m, const jargs *args, jvalue *out) {
    const jsignature *g = &m->node->macro.signature;
    jargs left = *args;
    const jstring *text = NULL;
    if (r->call_depth >= JINJA_MAX_DEPTH)
        return mica_j_fail(r, MICA_E_LIMIT, "macros call each other more than %d deep",
                           JINJA_MAX_DEPTH);
    jframe *f = mica_j_frame_new(r, m->node->macro.scope, m->closure);
    if (!f) return false;
    fill_parameters(g, f, &left);
    if (!fill_caller(r, g, f, &left) || !fill_rest(r, m, f, &left)) return false;
    if (!mica_j_frame_enter(r, f) || !fill_defaults(r, g, f)) return false;
    r->call_depth++;
    jflow flow = capture(r, f, m->node->macro.body, &text);
    r->call_depth--;
    *out = mica_j_text(text);
    return flow != FLOW_FAIL;
}

static bool run_call_block(jrender *r, jframe *f, const jnode *node) {
    const jnode *call = node->macro.call;
    jvalue caller, callee, result;
    jargs args;
    if (!new_macro(r, node, f, &caller) || !mica_j_eval(r, f, call->call.target, &callee) ||
        !mica_j_eval_args(r, f, &call->call.args, "call", &args))
        return false;
    jkeyword *keywords = mica_j_alloc(r, args.n_keywords + 1, sizeof(*keywords));
    const jstring *name = mica_j_cstring(r, "caller");
    if (!keywords || !name) return false;
    if (args.n_keywords) memcpy(keywords, args.keywords, args.n_keywords * sizeof(*keywords));
    keywords[args.n_keywords++] = (jkeyword){name, caller};
    args.keywords = keywords;
    r->pos = call->pos;
    return mica_j_call(r, callee, &args, &result) && mica_j_print(r, r->out, result);
}

/* ---- calls of any value ---- */

static bool call_joiner(jrender *r, jobject *o, const jargs *args, jvalue *out) {
    if (!mica_j_bind(r, args, "/", NULL)) return false;
    const jstring *text = o->joiner.is_used ? o->joiner.separator : mica_j_cstring(r, "");
    o->joiner.is_used = true;
    *out = mica_j_text(text);
    return text != NULL;
}

bool mica_j_call(jrender *r, jvalue callee, const jargs *args, jvalue *out) {
    if (callee.kind == J_UNDEFINED) return mica_j_fail_undefined(r, callee);
    jobject *o = callee.kind == J_OBJECT ? callee.object : NULL;
    if (o && (o->type == J_FUNCTION || o->type == J_METHOD)) {
        jargs named = *args;
        named.what = o->function.def->name;
        return o->function.def->run(r, o->function.self, &named, out);
    }
    if (o && o->type == J_MACRO) return mica_j_call_macro(r, o->macro, args, out);
    if (o && o->type == J_LOOP) return mica_j_call_loop(r, o->loop, args, out);
    if (o && o->type == J_JOINER) return call_joiner(r, o, args, out);
    if (o && o->type == J_DICT_TYPE) {
        jdict *d = mica_j_dict_new(r);
        if (!d || !mica_j_dict_fill(r, d, args)) return false;
        *out = mica_j_from_dict(d);
        return true;
    }
    return MICA_J_ERROR(r, "a value of type %s cannot be called", mica_j_type_name(callee));
}

/* ---- statements ---- */

static bool run_output(jrender *r, jframe *f, const jnode *node) {
    for (size_t i = 0; i < node->list.n; i++) {
        jvalue v;
        if (!mica_j_eval(r, f, node->list.items[i], &v) || !mica_j_print(r, r->out, v))
            return false;
    }
    return true;
}

static jflow run_if(jrender *r, jframe *f, const jnode *node) {
    for (size_t i = 0; i < node->branch.n; i++) {
        const jclause *clause = &node->branch.clauses[i];
        jvalue test = mica_j_bool(true);
        if (clause->test && !mica_j_eval(r, f, clause->test, &test)) return FLOW_FAIL;
        if (mica_j_truth(test)) return mica_j_run(r, f, clause->body);
    }
    return FLOW_NEXT;
}

static bool run_set(jrender *r, jframe *f, const jnode *node) {
    jvalue value;
    return mica_j_eval(r, f, node->set.value, &value) &&
           mica_j_assign(r, f, node->set.target, value);
}

static bool run_macro(jrender *r, jframe *f, const jnode *node) {
    jvalue macro;
    if (!new_macro(r, node, f, &macro)) return false;
    for (int i = 0; i < node->macro.ref.depth; i++)
        f = f->parent;
    f->slots[node->macro.ref.slot] = macro;
    return true;
}

static jflow run_with(jrender *r, jframe *f, const jnode *node) {
    jframe *inner = enter_new(r, node->with.scope, f);
    if (!inner) return FLOW_FAIL;
    for (size_t i = 0; i < node->with.targets.n; i++) {
        jvalue value;
        if (!mica_j_eval(r, f, node->with.values.items[i], &value) ||
            !mica_j_assign(r, inner, node->with.targets.items[i], value))
            return FLOW_FAIL;
    }
    jflow flow = mica_j_run(r, inner, node->with.body);
    mica_j_frame_clear(inner);
    return flow;
}

static bool push_generation(jrender *r, size_t begin, size_t end) {
    if (r->n_generations == r->generation_capacity) {
        size_t capacity = r->generation_capacity ? 2 * r->generation_capacity : 8;
        text_span *grown = mica_j_alloc(r, capacity, sizeof(*grown));
        if (!grown) return false;
        if (r->n_generations) memcpy(grown, r->generations, r->n_generations * sizeof(*grown));
        r->generations = grown;
        r->generation_capacity = capacity;
    }
    r->generations[r->n_generations++] = (text_span){begin, end, ORIGIN_ASSISTANT};
    return true;
}

static jflow run_generation(jrender *r, jframe *f, const jnode *node) {
    size_t begin = r->out->n;
    jflow flow = run_with(r, f, node);
    bool is_marked = flow == FLOW_NEXT && r->out == &r->main_out;
    return is_marked && !push_generation(r, begin, r->out->n) ? FLOW_FAIL : flow;
}

static jflow run_for(jrender *r, jframe *f, const jnode *node) {
    jvalue over;
    if (!mica_j_eval(r, f, node->loop.over, &over)) return FLOW_FAIL;
    return mica_j_run_for(r, node, f, over, 0);
}

static jflow flow_of(bool is_good) { return is_good ? FLOW_NEXT : FLOW_FAIL; }

static jflow run_one(jrender *r, jframe *f, const jnode *node) {
    r->pos = node->pos;
    switch (node->kind) {
    case NODE_OUTPUT:
        return flow_of(run_output(r, f, node));
    case NODE_IF:
        return run_if(r, f, node);
    case NODE_FOR:
        return run_for(r, f, node);
    case NODE_SET:
        return flow_of(run_set(r, f, node));
    case NODE_SET_BLOCK:
        return run_set_block(r, f, node);
    case NODE_MACRO:
        return flow_of(run_macro(r, f, node));
    case NODE_CALL_BLOCK:
        return flow_of(run_call_block(r, f, node));
    case NODE_FILTER_BLOCK:
        return run_filter_block(r, f, node);
    case NODE_WITH:
        return run_with(r, f, node);
    case NODE_GENERATION:
        return run_generation(r, f, node);
    case NODE_BREAK:
        return FLOW_BREAK;
    case NODE_CONTINUE:
        return FLOW_CONTINUE;
    default:
        return flow_of(mica_j_fail(r, MICA_E_INTERNAL, "an expression where a statement belongs"));
    }
}

jflow mica_j_run(jrender *r, jframe *f, jnodes body) {
    jflow flow = FLOW_NEXT;
    if (!mica_j_enter(r)) return FLOW_FAIL;
    for (size_t i = 0; flow == FLOW_NEXT && i < body.n; i++)
        flow = mica_j_charge(r, 0) ? run_one(r, f, body.items[i]) : FLOW_FAIL;
    mica_j_leave(r);
    return flow;
}
