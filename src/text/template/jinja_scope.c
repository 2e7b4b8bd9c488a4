/* jinja_scope.c: binds every name to a slot of a frame, with Jinja's rules of scope.
 *
 * A scope (the template, a loop's body, a macro ...) is first looked through for the names it reads
 * and sets itself, without going into the scopes inside it; each gets a slot and a rule for what it
 * holds when the frame is entered. Then its names are bound and the scopes inside it are done.
 * The rule follows from the first mention: read first, it is the context's; set first, it is unset,
 * or starts as the outer variable of that name; first set under a condition, it may be either.
 * Filters and tests are found here too. One that does not exist is an error now, unless it stands
 * under a condition: then it is one when it is reached.
 */
#include <stdio.h>
#include <string.h>

#include "text/template/jinja_string.h"

enum { UNDER_CONDITION = 1, IN_LOOP = 2 };

/* ---- walking over every name below a node, in the order of the source ---- */

typedef struct name_visitor {
    const char *name;
    bool is_read; /* read before it was ever set */
    bool is_set;
    uint32_t first_set; /* position */
} name_visitor;

static void visit(name_visitor *v, const jnode *node, bool is_target);

static void visit_all(name_visitor *v, jnodes nodes, bool is_target) {
    for (size_t i = 0; i < nodes.n; i++)
        visit(v, nodes.items[i], is_target);
}

static void note(name_visitor *v, const jstring *name, uint32_t pos, bool is_target) {
    if (!name || !mica_j_string_is(name, v->name)) return;
    if (!is_target) {
        v->is_read = v->is_read || !v->is_set;
    } else if (!v->is_set) {
        v->is_set = true;
        v->first_set = pos;
    }
}

static void visit_args(name_visitor *v, const jcall_args *args) {
    visit_all(v, args->items, false);
    visit_all(v, args->keywords, false);
    visit(v, args->spread, false);
    visit(v, args->spread_keywords, false);
}

static void visit_statement(name_visitor *v, const jnode *node) {
    switch (node->kind) {
    case NODE_IF:
        for (size_t i = 0; i < node->branch.n; i++) {
            visit(v, node->branch.clauses[i].test, false);
            visit_all(v, node->branch.clauses[i].body, false);
        }
        return;
    case NODE_FOR:
        visit(v, node->loop.target, true);
        visit(v, node->loop.over, false);
        visit_all(v, node->loop.body, false);
        visit_all(v, node->loop.otherwise, false);
        visit(v, node->loop.test, false);
        return;
    case NODE_SET:
    case NODE_SET_BLOCK:
    case NODE_FILTER_BLOCK:
        visit(v, node->set.target, true);
        visit(v, node->set.value, false);
        visit(v, node->set.filter, false);
        visit_all(v, node->set.body, false);
        return;
    case NODE_MACRO:
    case NODE_CALL_BLOCK:
        visit(v, node->macro.call, false);
        for (size_t i = 0; i < node->macro.signature.n; i++)
            note(v, node->macro.signature.names[i], node->pos, true);
        visit_all(v, node->macro.signature.defaults, false);
        visit_all(v, node->macro.body, false);
        return;
    case NODE_WITH:
    case NODE_GENERATION:
        visit_all(v, node->with.targets, true);
        visit_all(v, node->with.values, false);
        visit_all(v, node->with.body, false);
        return;
    default:
        return;
    }
}

static void visit(name_visitor *v, const jnode *node, bool is_target) {
    if (!node) return;
    switch (node->kind) {
    case NODE_OUTPUT:
    case NODE_TUPLE:
    case NODE_LIST:
    case NODE_DICT:
    case NODE_CONCAT:
        visit_all(v, node->list, is_target);
        return;
    case NODE_NAME:
        note(v, node->name.name, node->pos, is_target);
        return;
    case NODE_UNARY:
    case NODE_BINARY:
    case NODE_AND:
    case NODE_OR:
        visit(v, node->binary.left, false);
        visit(v, node->binary.right, false);
        return;
    case NODE_COMPARE:
        visit_all(v, node->compare.operands, false);
        return;
    case NODE_COND:
        visit(v, node->cond.test, false);
        visit(v, node->cond.yes, false);
        visit(v, node->cond.no, false);
        return;
    case NODE_ATTRIBUTE:
    case NODE_ITEM:
        visit(v, node->access.owner, false);
        visit(v, node->access.key, false);
        return;
    case NODE_SLICE:
        visit(v, node->slice.start, false);
        visit(v, node->slice.stop, false);
        visit(v, node->slice.step, false);
        return;
    case NODE_CALL:
    case NODE_FILTER:
    case NODE_TEST:
        visit(v, node->call.target, false);
        visit_args(v, &node->call.args);
        return;
    default:
        visit_statement(v, node);
    }
}

static bool reads(jnodes body, const char *name) {
    name_visitor v = {.name = name};
    visit_all(&v, body, false);
    return v.is_read;
}

/* ---- the symbols of one scope ---- */

static int find_own(const jscope *s, const jstring *name) {
    for (size_t i = 0; i < s->n; i++)
        if (mica_j_string_equal(s->symbols[i].name, name)) return (int)i;
    return -1;
}

/* The variable as seen from `s`; false: no scope around mentions it. */
static bool find(const jscope *s, const jstring *name, jref *out) {
    for (int depth = 0; s; s = s->parent, depth++) {
        int slot = find_own(s, name);
        if (slot < 0) continue;
        *out = (jref){depth, slot};
        return true;
    }
    return false;
}

static jscope *new_scope(jcompiler *c, jscope *parent) {
    jscope *s = mica_j_compile_alloc(c, 1, sizeof(*s));
    if (s) s->parent = parent;
    return s;
}

static jsymbol *add(jcompiler *c, jscope *s, const jstring *name, jload load) {
    if (s->n == s->capacity) {
        size_t capacity = s->capacity ? 2 * s->capacity : 8;
        jsymbol *grown = mica_j_compile_alloc(c, capacity, sizeof(*grown));
        if (!grown) return NULL;
        if (s->n) memcpy(grown, s->symbols, s->n * sizeof(*grown));
        s->symbols = grown;
        s->capacity = capacity;
    }
    jsymbol *symbol = &s->symbols[s->n++];
    *symbol = (jsymbol){.name = name, .load = load};
    return symbol;
}

static bool read_name(jcompiler *c, jscope *s, const jstring *name) {
    jref ref;
    return find(s, name, &ref) || add(c, s, name, LOAD_CONTEXT) != NULL;
}

static void set_stored(jscope *s, jsymbol *symbol) {
    if (symbol->is_stored) return;
    symbol->is_stored = true;
    symbol->stored_at = ++s->counter;
}

static bool store_name(jcompiler *c, jscope *s, const jstring *name) {
    int slot = find_own(s, name);
    jsymbol *symbol = slot < 0 ? add(c, s, name, LOAD_UNSET) : &s->symbols[slot];
    if (!symbol) return false;
    if (slot < 0 && s->parent && find(s->parent, name, &symbol->outer)) symbol->load = LOAD_ALIAS;
    set_stored(s, symbol);
    return true;
}

static bool declare(jcompiler *c, jscope *s, const jstring *name, int *slot_out) {
    int slot = find_own(s, name);
    jsymbol *symbol = slot < 0 ? add(c, s, name, LOAD_PARAMETER) : &s->symbols[slot];
    if (!symbol) return false;
    symbol->load = LOAD_PARAMETER;
    set_stored(s, symbol);
    if (slot_out) *slot_out = (int)(symbol - s->symbols);
    return true;
}

static bool declare_cstring(jcompiler *c, jscope *s, const char *name, int *slot) {
    jstring *text = mica_j_compile_alloc(c, 1, sizeof(*text));
    if (!text) return false;
    *text = (jstring){.data = name, .n = strlen(name), .n_chars = strlen(name)};
    return declare(c, s, text, slot);
}

/* What was first set under a condition may be unset: it is the outer variable or the context's. */
static void settle_branches(jscope *s, int counter_before) {
    for (size_t i = 0; i < s->n; i++) {
        jsymbol *symbol = &s->symbols[i];
        if (!symbol->is_stored || symbol->stored_at <= counter_before) continue;
        bool has_outer = s->parent && find(s->parent, symbol->name, &symbol->outer);
        symbol->load = has_outer ? LOAD_ALIAS : LOAD_CONTEXT;
    }
}

/* ---- looking through a scope ---- */

static bool look(jcompiler *c, jscope *s, const jnode *node);

static bool look_all(jcompiler *c, jscope *s, jnodes nodes) {
    for (size_t i = 0; i < nodes.n; i++)
        if (!look(c, s, nodes.items[i])) return false;
    return true;
}

static bool look_target(jcompiler *c, jscope *s, const jnode *node, bool is_parameter) {
    if (node->kind == NODE_NAMESPACE_REF) return read_name(c, s, node->name.name);
    if (node->kind == NODE_NAME)
        return is_parameter ? declare(c, s, node->name.name, NULL)
                            : store_name(c, s, node->name.name);
    for (size_t i = 0; i < node->list.n; i++)
        if (!look_target(c, s, node->list.items[i], is_parameter)) return false;
    return true;
}

static bool look_args(jcompiler *c, jscope *s, const jcall_args *args) {
    return look_all(c, s, args->items) && look_all(c, s, args->keywords) &&
           look(c, s, args->spread) && look(c, s, args->spread_keywords);
}

static bool look_if(jcompiler *c, jscope *s, const jnode *node) {
    const jclause *clauses = node->branch.clauses;
    if (!look(c, s, clauses[0].test)) return false;
    int before = s->counter;
    for (size_t i = 0; i < node->branch.n; i++)
        if ((i && !look(c, s, clauses[i].test)) || !look_all(c, s, clauses[i].body)) return false;
    settle_branches(s, before);
    return true;
}

static bool look_statement(jcompiler *c, jscope *s, const jnode *node) {
    switch (node->kind) {
    case NODE_IF:
        return look_if(c, s, node);
    case NODE_FOR:
        return look(c, s, node->loop.over);
    case NODE_SET:
        return look(c, s, node->set.value) && look_target(c, s, node->set.target, false);
    case NODE_SET_BLOCK:
        return look_target(c, s, node->set.target, false);
    case NODE_MACRO:
        return store_name(c, s, node->macro.name);
    case NODE_CALL_BLOCK:
        return look(c, s, node->macro.call);
    case NODE_FILTER_BLOCK:
        return look(c, s, node->set.filter);
    case NODE_WITH:
        return look_all(c, s, node->with.values);
    default:
        return true;
    }
}

static bool look(jcompiler *c, jscope *s, const jnode *node) {
    if (!node) return true;
    switch (node->kind) {
    case NODE_OUTPUT:
    case NODE_TUPLE:
    case NODE_LIST:
    case NODE_DICT:
    case NODE_CONCAT:
        return look_all(c, s, node->list);
    case NODE_NAME:
        return read_name(c, s, node->name.name);
    case NODE_UNARY:
    case NODE_BINARY:
    case NODE_AND:
    case NODE_OR:
        return look(c, s, node->binary.left) && look(c, s, node->binary.right);
    case NODE_COMPARE:
        return look_all(c, s, node->compare.operands);
    case NODE_COND:
        return look(c, s, node->cond.test) && look(c, s, node->cond.yes) &&
               look(c, s, node->cond.no);
    case NODE_ATTRIBUTE:
    case NODE_ITEM:
        return look(c, s, node->access.owner) && look(c, s, node->access.key);
    case NODE_SLICE:
        return look(c, s, node->slice.start) && look(c, s, node->slice.stop) &&
               look(c, s, node->slice.step);
    case NODE_CALL:
    case NODE_FILTER:
    case NODE_TEST:
        return look(c, s, node->call.target) && look_args(c, s, &node->call.args);
    default:
        return look_statement(c, s, node);
    }
}

/* ---- binding ---- */

static bool bind(jcompiler *c, jscope *s, jnode *node, int flags);

static bool bind_all(jcompiler *c, jscope *s, jnodes nodes, int flags) {
    for (size_t i = 0; i < nodes.n; i++)
        if (!bind(c, s, nodes.items[i], flags)) return false;
    return true;
}

static bool bind_args(jcompiler *c, jscope *s, const jcall_args *args, int flags) {
    return bind_all(c, s, args->items, flags) && bind_all(c, s, args->keywords, flags) &&
           bind(c, s, args->spread, flags) && bind(c, s, args->spread_keywords, flags);
}

static bool warn(jcompiler *c, const jnode *node, const char *what) {
    const jstring *name = node->call.name;
    uint32_t line, column;
    char text[400];
    if (c->t->warning) return true;
    mica_j_locate(c->t, node->pos, &line, &column);
    snprintf(text, sizeof(text), "%s:%u:%u: there is no %s '%.*s'; reaching it is an error",
             c->t->name, line, column, what, name->n < 60 ? (int)name->n : 60, name->data);
    c->t->warning = mica_arena_strndup(&c->t->arena, text, strlen(text));
    return true;
}

static bool bind_builtin(jcompiler *c, jnode *node, int flags) {
    const jstring *name = node->call.name;
    bool is_filter = node->kind == NODE_FILTER;
    const char *what = is_filter ? "filter" : "test";
    node->call.def =
        is_filter ? mica_j_find_filter(name->data, name->n) : mica_j_find_test(name->data, name->n);
    if (node->call.def) return true;
    if (flags & UNDER_CONDITION) return warn(c, node, what);
    return mica_j_syntax_error(c, MICA_E_UNSUPPORTED, node->pos, "there is no %s '%.*s'", what,
                               name->n < 60 ? (int)name->n : 60, name->data);
}

static bool refuse_loop_target(jcompiler *c, const jnode *node) {
    name_visitor v = {.name = "loop"};
    visit(&v, node, false);
    return !v.is_set || mica_j_syntax_error(c, MICA_E_FORMAT, v.first_set,
                                            "'loop' cannot be assigned to inside a for");
}

static bool bind_for(jcompiler *c, jscope *s, jnode *node, int flags) {
    jscope *body = node->loop.scope = new_scope(c, s);
    jscope *test = node->loop.test_scope = new_scope(c, s);
    jscope *other = node->loop.else_scope = new_scope(c, s);
    if (!body || !test || !other || !refuse_loop_target(c, node)) return false;
    node->loop.loop_slot = -1;
    bool uses_loop = node->loop.is_recursive || reads(node->loop.body, "loop");
    /* The target comes first, so that its slots are the same in the body and in the test. */
    if (!look_target(c, body, node->loop.target, true) ||
        (uses_loop && !declare_cstring(c, body, "loop", &node->loop.loop_slot)) ||
        !look_all(c, body, node->loop.body))
        return false;
    if (!look_all(c, other, node->loop.otherwise)) return false;
    if (!look_target(c, test, node->loop.target, true) || !look(c, test, node->loop.test))
        return false;
    return bind(c, s, node->loop.over, flags) && bind(c, body, node->loop.target, 0) &&
           bind(c, test, node->loop.test, 0) && bind_all(c, body, node->loop.body, IN_LOOP) &&
           bind_all(c, other, node->loop.otherwise, flags & IN_LOOP);
}

static bool declare_special(jcompiler *c, jscope *s, jnode *node, const char *name, int *slot) {
    const jsignature *g = &node->macro.signature;
    *slot = -1;
    if (!reads(node->macro.body, name)) return true;
    for (size_t i = 0; i < g->n; i++) {
        if (!mica_j_string_is(g->names[i], name)) continue;
        bool needs_default = strcmp(name, "caller") == 0 && i < g->n - g->defaults.n;
        return !needs_default ||
               mica_j_syntax_error(c, MICA_E_FORMAT, node->pos,
                                   "a parameter 'caller' must come last and have a default");
    }
    return declare_cstring(c, s, name, slot);
}

static bool bind_macro(jcompiler *c, jscope *s, jnode *node, int flags) {
    jscope *body = node->macro.scope = new_scope(c, s);
    jsignature *g = &node->macro.signature;
    if (!body) return false;
    g->refs = mica_j_compile_alloc(c, g->n + 1, sizeof(*g->refs));
    if (!g->refs) return false;
    for (size_t i = 0; i < g->n; i++)
        if (!declare(c, body, g->names[i], &g->refs[i].slot)) return false;
    if (!look_all(c, body, g->defaults) || !look_all(c, body, node->macro.body)) return false;
    if (!declare_special(c, body, node, "caller", &g->caller) ||
        !declare_special(c, body, node, "kwargs", &g->keywords) ||
        !declare_special(c, body, node, "varargs", &g->rest))
        return false;
    if (node->kind == NODE_MACRO && !find(s, node->macro.name, &node->macro.ref)) return false;
    return bind(c, s, node->macro.call, flags) && bind_all(c, body, g->defaults, 0) &&
           bind_all(c, body, node->macro.body, 0);
}

static bool bind_capture(jcompiler *c, jscope *s, jnode *node, int flags) {
    jscope *body = node->set.scope = new_scope(c, s);
    if (!body || !look_all(c, body, node->set.body) || !look(c, body, node->set.filter))
        return false;
    return bind(c, s, node->set.target, flags) && bind(c, body, node->set.filter, 0) &&
           bind_all(c, body, node->set.body, flags & IN_LOOP);
}

static bool bind_with(jcompiler *c, jscope *s, jnode *node, int flags) {
    jscope *body = node->with.scope = new_scope(c, s);
    if (!body) return false;
    for (size_t i = 0; i < node->with.targets.n; i++)
        if (!look_target(c, body, node->with.targets.items[i], true)) return false;
    /* A generation block is a macro called at once: a break cannot leave it. */
    int inner = node->kind == NODE_WITH ? flags & IN_LOOP : 0;
    return look_all(c, body, node->with.body) && bind_all(c, s, node->with.values, flags) &&
           bind_all(c, body, node->with.targets, 0) && bind_all(c, body, node->with.body, inner);
}

static bool bind_if(jcompiler *c, jscope *s, jnode *node, int flags) {
    for (size_t i = 0; i < node->branch.n; i++) {
        jclause *clause = &node->branch.clauses[i];
        if (!bind(c, s, clause->test, flags | UNDER_CONDITION) ||
            !bind_all(c, s, clause->body, flags | UNDER_CONDITION))
            return false;
    }
    return true;
}

static bool bind_statement(jcompiler *c, jscope *s, jnode *node, int flags) {
    switch (node->kind) {
    case NODE_IF:
        return bind_if(c, s, node, flags);
    case NODE_FOR:
        return bind_for(c, s, node, flags);
    case NODE_SET:
        return bind(c, s, node->set.value, flags) && bind(c, s, node->set.target, flags);
    case NODE_SET_BLOCK:
    case NODE_FILTER_BLOCK:
        return bind_capture(c, s, node, flags);
    case NODE_MACRO:
    case NODE_CALL_BLOCK:
        return bind_macro(c, s, node, flags);
    case NODE_WITH:
    case NODE_GENERATION:
        return bind_with(c, s, node, flags);
    default: /* break, continue */
        return (flags & IN_LOOP) ||
               mica_j_syntax_error(c, MICA_E_FORMAT, node->pos, "this stands in no loop");
    }
}

static bool bind_name(jcompiler *c, jscope *s, jnode *node) {
    if (find(s, node->name.name, &node->name.ref)) return true;
    return mica_j_syntax_error(c, MICA_E_INTERNAL, node->pos, "a name without a scope");
}

static bool bind(jcompiler *c, jscope *s, jnode *node, int flags) {
    if (!node) return true;
    int soft = flags | UNDER_CONDITION;
    switch (node->kind) {
    case NODE_OUTPUT:
    case NODE_TUPLE:
    case NODE_LIST:
    case NODE_DICT:
    case NODE_CONCAT:
        return bind_all(c, s, node->list, flags);
    case NODE_CONST:
        return true;
    case NODE_NAME:
    case NODE_NAMESPACE_REF:
        return bind_name(c, s, node);
    case NODE_UNARY:
    case NODE_BINARY:
    case NODE_AND:
    case NODE_OR:
        return bind(c, s, node->binary.left, flags) && bind(c, s, node->binary.right, flags);
    case NODE_COMPARE:
        return bind_all(c, s, node->compare.operands, flags);
    case NODE_COND:
        return bind(c, s, node->cond.test, soft) && bind(c, s, node->cond.yes, soft) &&
               bind(c, s, node->cond.no, soft);
    case NODE_ATTRIBUTE:
    case NODE_ITEM:
        return bind(c, s, node->access.owner, flags) && bind(c, s, node->access.key, flags);
    case NODE_SLICE:
        return bind(c, s, node->slice.start, flags) && bind(c, s, node->slice.stop, flags) &&
               bind(c, s, node->slice.step, flags);
    case NODE_CALL:
    case NODE_FILTER:
    case NODE_TEST:
        if (node->kind != NODE_CALL && !bind_builtin(c, node, flags)) return false;
        return bind(c, s, node->call.target, flags) && bind_args(c, s, &node->call.args, flags);
    default:
        return bind_statement(c, s, node, flags);
    }
}

bool mica_j_bind_names(jcompiler *c) {
    jscope *root = c->t->scope = new_scope(c, NULL);
    return root && look_all(c, root, c->t->body) && bind_all(c, root, c->t->body, 0);
}
