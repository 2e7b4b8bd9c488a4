/* jinja_eval.c: expressions to values. */
#include <string.h>

#include "text/template/jinja_string.h"

static bool eval_list(jrender *r, jframe *f, const jnode *node, jlist_type type, jvalue *out) {
    jlist *l = mica_j_list_new(r, type, node->list.n);
    if (!l) return false;
    for (size_t i = 0; i < node->list.n; i++)
        if (!mica_j_eval(r, f, node->list.items[i], &l->items[i])) return false;
    l->n = node->list.n;
    *out = mica_j_from_list(l);
    return true;
}

static bool eval_dict(jrender *r, jframe *f, const jnode *node, jvalue *out) {
    jdict *d = mica_j_dict_new(r);
    if (!d) return false;
    for (size_t i = 0; i + 1 < node->list.n; i += 2) {
        jvalue key, value;
        if (!mica_j_eval(r, f, node->list.items[i], &key) ||
            !mica_j_eval(r, f, node->list.items[i + 1], &value))
            return false;
        r->pos = node->list.items[i]->pos;
        if (!mica_j_dict_set(r, d, key, value)) return false;
    }
    *out = mica_j_from_dict(d);
    return true;
}

static bool eval_name(jrender *r, jframe *f, const jnode *node, jvalue *out) {
    for (int i = 0; i < node->name.ref.depth; i++)
        f = f->parent;
    *out = f->slots[node->name.ref.slot];
    return out->kind != J_MISSING || mica_j_undefined(r, node->name.name, NULL, NULL, out);
}

/* a ~ b ~ c: as text, without marks. */
static bool eval_concat(jrender *r, jframe *f, const jnode *node, jvalue *out) {
    const jstring *sum = NULL;
    for (size_t i = 0; i < node->list.n; i++) {
        jvalue part;
        const jstring *s;
        if (!mica_j_eval(r, f, node->list.items[i], &part) || !mica_j_to_string(r, part, &s))
            return false;
        if (!sum)
            sum = mica_j_mark(r, s, false);
        else if (!mica_j_concat(r, sum, s, false, &sum))
            return false;
        if (!sum) return false;
    }
    *out = mica_j_text(sum);
    return true;
}

static bool eval_binary(jrender *r, jframe *f, const jnode *node, jvalue *out) {
    jvalue a, b;
    if (!mica_j_eval(r, f, node->binary.left, &a) || !mica_j_eval(r, f, node->binary.right, &b))
        return false;
    r->pos = node->pos;
    switch (node->op) {
    case '+':
        return mica_j_add(r, a, b, out);
    case '-':
        return mica_j_subtract(r, a, b, out);
    case '*':
        return mica_j_multiply(r, a, b, out);
    case '/':
        return mica_j_divide(r, a, b, out);
    case OP_FLOORDIV:
        return mica_j_floor_divide(r, a, b, out);
    case '%':
        return mica_j_modulo(r, a, b, out);
    default:
        return mica_j_power(r, a, b, out);
    }
}

static bool eval_unary(jrender *r, jframe *f, const jnode *node, jvalue *out) {
    jvalue a;
    if (!mica_j_eval(r, f, node->binary.left, &a)) return false;
    r->pos = node->pos;
    if (node->op != '!') return mica_j_negate(r, a, node->op == '-', out);
    *out = mica_j_bool(!mica_j_truth(a));
    return true;
}

static bool eval_logic(jrender *r, jframe *f, const jnode *node, jvalue *out) {
    if (!mica_j_eval(r, f, node->binary.left, out)) return false;
    bool goes_on = mica_j_truth(*out) == (node->kind == NODE_AND);
    return !goes_on || mica_j_eval(r, f, node->binary.right, out);
}

static bool not_greater(jrender *r, jvalue a, jvalue b, const char *op, bool *out) {
    bool is_number = mica_j_is_number(a) && mica_j_is_number(b); /* NaN is neither */
    if (!is_number) {
        if (!mica_j_less(r, b, a, op, out)) return false;
        *out = !*out;
        return true;
    }
    return mica_j_less(r, a, b, op, out) && (*out || mica_j_equal(r, a, b, out));
}

static bool compare(jrender *r, int op, jvalue a, jvalue b, bool *out) {
    switch (op) {
    case OP_EQ:
    case OP_NE:
        if (!mica_j_equal(r, a, b, out)) return false;
        *out = *out == (op == OP_EQ);
        return true;
    case '<':
        return mica_j_less(r, a, b, "<", out);
    case '>':
        return mica_j_less(r, b, a, ">", out);
    case OP_LE:
        return not_greater(r, a, b, "<=", out);
    case OP_GE:
        return not_greater(r, b, a, ">=", out);
    default:
        if (!mica_j_contains(r, b, a, out)) return false;
        *out = *out == (op == OP_IN);
        return true;
    }
}

static bool eval_compare(jrender *r, jframe *f, const jnode *node, jvalue *out) {
    jvalue left, right;
    bool is_true = true;
    if (!mica_j_eval(r, f, node->compare.operands.items[0], &left)) return false;
    for (size_t i = 1; is_true && i < node->compare.operands.n; i++) {
        if (!mica_j_eval(r, f, node->compare.operands.items[i], &right)) return false;
        r->pos = node->pos;
        if (!compare(r, node->compare.ops[i - 1], left, right, &is_true)) return false;
        left = right;
    }
    *out = mica_j_bool(is_true);
    return true;
}

static bool eval_cond(jrender *r, jframe *f, const jnode *node, jvalue *out) {
    jvalue test;
    if (!mica_j_eval(r, f, node->cond.test, &test)) return false;
    const jnode *chosen = mica_j_truth(test) ? node->cond.yes : node->cond.no;
    if (chosen) return mica_j_eval(r, f, chosen, out);
    return mica_j_undefined(r, NULL, NULL, "the condition is false and there is no else", out);
}

static bool eval_optional(jrender *r, jframe *f, const jnode *node, jvalue *out) {
    *out = (jvalue){.kind = J_MISSING};
    return !node || mica_j_eval(r, f, node, out);
}

static bool eval_item(jrender *r, jframe *f, const jnode *node, jvalue *out) {
    jvalue owner, key, start, stop, step;
    const jnode *k = node->access.key;
    if (!mica_j_eval(r, f, node->access.owner, &owner)) return false;
    if (k->kind != NODE_SLICE) {
        if (!mica_j_eval(r, f, k, &key)) return false;
        r->pos = node->pos;
        return mica_j_item(r, owner, key, out);
    }
    if (!eval_optional(r, f, k->slice.start, &start) ||
        !eval_optional(r, f, k->slice.stop, &stop) || !eval_optional(r, f, k->slice.step, &step))
        return false;
    r->pos = node->pos;
    return mica_j_slice(r, owner, start, stop, step, out);
}

/* ---- calls ---- */

static bool spread_items(jrender *r, jvalue from, jlist *items) {
    jiter it;
    jvalue v;
    bool is_done = false;
    if (!mica_j_iter_begin(r, &it, from)) return false;
    for (;;) {
        if (!mica_j_iter_next(r, &it, &v, &is_done)) return false;
        if (is_done) return true;
        if (!mica_j_list_push(r, items, v)) return false;
    }
}

static bool spread_keywords(jrender *r, jvalue from, const char *what, jargs *out, size_t room) {
    if (from.kind != J_DICT) return MICA_J_ERROR(r, "%s: ** needs a dict", what);
    for (size_t i = 0; i < from.dict->n; i++) {
        jentry e = from.dict->entries[i];
        if (e.key.kind != J_STRING) return MICA_J_ERROR(r, "%s: keywords must be strings", what);
        for (size_t k = 0; k < out->n_keywords; k++)
            if (mica_j_string_equal(out->keywords[k].name, e.key.string))
                return MICA_J_ERROR(r, "%s: a keyword is given twice", what);
        if (out->n_keywords == room) return mica_j_fail(r, MICA_E_INTERNAL, "too many keywords");
        out->keywords[out->n_keywords++] = (jkeyword){e.key.string, e.value};
    }
    return true;
}

bool mica_j_eval_args(jrender *r, jframe *f, const jcall_args *args, const char *what, jargs *out) {
    jlist *items = mica_j_list_new(r, J_TUPLE, args->items.n);
    jvalue spread, keywords;
    if (!items) return false;
    *out = (jargs){.what = what};
    for (size_t i = 0; i < args->items.n; i++)
        if (!mica_j_eval(r, f, args->items.items[i], &items->items[i])) return false;
    items->n = args->items.n;
    size_t n_keywords = args->keywords.n;
    out->keywords = n_keywords ? mica_j_alloc(r, n_keywords, sizeof(jkeyword)) : NULL;
    if (n_keywords && !out->keywords) return false;
    for (size_t i = 0; i < n_keywords; i++) {
        out->keywords[i].name = args->names[i];
        if (!mica_j_eval(r, f, args->keywords.items[i], &out->keywords[i].value)) return false;
    }
    out->n_keywords = n_keywords;
    if (!eval_optional(r, f, args->spread, &spread) ||
        !eval_optional(r, f, args->spread_keywords, &keywords))
        return false;
    if (args->spread && !spread_items(r, spread, items)) return false;
    if (args->spread_keywords) {
        size_t room = n_keywords + (keywords.kind == J_DICT ? keywords.dict->n : 0);
        jkeyword *grown = mica_j_alloc(r, room + 1, sizeof(*grown));
        if (!grown) return false;
        if (n_keywords) memcpy(grown, out->keywords, n_keywords * sizeof(*grown));
        out->keywords = grown;
        if (!spread_keywords(r, keywords, what, out, room)) return false;
    }
    out->items = items->items;
    out->n = items->n;
    return true;
}

static bool eval_call(jrender *r, jframe *f, const jnode *node, jvalue *out) {
    jvalue callee;
    jargs args;
    if (!mica_j_eval(r, f, node->call.target, &callee)) return false;
    if (!mica_j_eval_args(r, f, &node->call.args, "call", &args)) return false;
    r->pos = node->pos;
    return mica_j_call(r, callee, &args, out);
}

static bool missing_builtin(jrender *r, const jnode *node) {
    const jstring *name = node->call.name;
    return mica_j_fail(r, MICA_E_UNSUPPORTED, "there is no %s '%.*s'",
                       node->kind == NODE_FILTER ? "filter" : "test",
                       name->n < 60 ? (int)name->n : 60, name->data);
}

bool mica_j_eval_filters(jrender *r, jframe *f, const jnode *node, jvalue input, jvalue *out) {
    jargs args;
    if (node->call.target) {
        /* In a chain of a block all are filters; the innermost has no target. */
        bool is_chain = node->call.target->kind == NODE_FILTER;
        bool is_good = is_chain ? mica_j_eval_filters(r, f, node->call.target, input, &input)
                                : mica_j_eval(r, f, node->call.target, &input);
        if (!is_good) return false;
    }
    r->pos = node->pos;
    if (!node->call.def) return missing_builtin(r, node);
    if (!mica_j_eval_args(r, f, &node->call.args, node->call.def->name, &args)) return false;
    r->pos = node->pos;
    return mica_j_run_filter(r, node->call.def, input, &args, out);
}

static bool eval_test(jrender *r, jframe *f, const jnode *node, jvalue *out) {
    jvalue input;
    jargs args;
    bool is_true;
    if (!mica_j_eval(r, f, node->call.target, &input)) return false;
    r->pos = node->pos;
    if (!node->call.def) return missing_builtin(r, node);
    if (!mica_j_eval_args(r, f, &node->call.args, node->call.def->name, &args)) return false;
    r->pos = node->pos;
    if (!mica_j_run_test(r, node->call.def, input, &args, &is_true)) return false;
    *out = mica_j_bool(is_true);
    return true;
}

/* ---- any expression ---- */

static bool eval_attribute(jrender *r, jframe *f, const jnode *node, jvalue *out) {
    jvalue owner;
    if (!mica_j_eval(r, f, node->access.owner, &owner)) return false;
    r->pos = node->pos;
    return mica_j_attribute(r, owner, node->access.name, out);
}

static bool eval_any(jrender *r, jframe *f, const jnode *node, jvalue *out) {
    switch (node->kind) {
    case NODE_CONST:
        *out = node->constant;
        return true;
    case NODE_NAME:
        return eval_name(r, f, node, out);
    case NODE_TUPLE:
        return eval_list(r, f, node, J_TUPLE, out);
    case NODE_LIST:
        return eval_list(r, f, node, J_ARRAY, out);
    case NODE_DICT:
        return eval_dict(r, f, node, out);
    case NODE_CONCAT:
        return eval_concat(r, f, node, out);
    case NODE_UNARY:
        return eval_unary(r, f, node, out);
    case NODE_BINARY:
        return eval_binary(r, f, node, out);
    case NODE_AND:
    case NODE_OR:
        return eval_logic(r, f, node, out);
    case NODE_COMPARE:
        return eval_compare(r, f, node, out);
    case NODE_COND:
        return eval_cond(r, f, node, out);
    case NODE_ATTRIBUTE:
        return eval_attribute(r, f, node, out);
    case NODE_ITEM:
        return eval_item(r, f, node, out);
    case NODE_CALL:
        return eval_call(r, f, node, out);
    case NODE_FILTER:
        return mica_j_eval_filters(r, f, node, mica_j_none(), out);
    case NODE_TEST:
        return eval_test(r, f, node, out);
    default:
        return mica_j_fail(r, MICA_E_INTERNAL, "a statement where an expression belongs");
    }
}

bool mica_j_eval(jrender *r, jframe *f, const jnode *node, jvalue *out) {
    r->pos = node->pos;
    if (!mica_j_enter(r)) return false;
    bool is_good = eval_any(r, f, node, out);
    mica_j_leave(r);
    return is_good;
}
