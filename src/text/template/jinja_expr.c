/* jinja_expr.c: tokens to expressions, by recursive descent from the loosest operator down.
 *
 * The order is Jinja's, which is not Python's everywhere: `~` binds tighter than `+`, `**` groups
 * to the left, a sign goes with its operand before filters do.
 */
#include <string.h>

#include "text/template/jinja_string.h"

/* Chains such as a + b + c grow to the left without recursion here, but the evaluator recurses. */
enum { MAX_HEIGHT = 1000 };

static jnode *parse_or(jcompiler *c);
static jnode *parse_unary(jcompiler *c, bool has_filters);

/* Takes the children's heights over; NULL when the tree gets too high. */
static jnode *grow(jcompiler *c, jnode *node, const jnode *a, const jnode *b, const jnode *d) {
    if (!node) return NULL;
    const jnode *children[] = {a, b, d};
    for (int i = 0; i < 3; i++)
        if (children[i] && children[i]->height >= node->height)
            node->height = children[i]->height + 1;
    if (node->height <= MAX_HEIGHT) return node;
    mica_j_syntax_error(c, MICA_E_LIMIT, node->pos, "this expression is too long");
    return NULL;
}

static jnode *grow_all(jcompiler *c, jnode *node, jnodes children) {
    for (size_t i = 0; node && i < children.n; i++)
        node = grow(c, node, children.items[i], NULL, NULL);
    return node;
}

static jnode *new_binary(jcompiler *c, jnode_kind kind, int op, uint32_t pos, jnode *left,
                         jnode *right) {
    jnode *node = left && right ? mica_j_new_node(c, kind, pos) : NULL;
    if (!node) return NULL;
    node->op = op;
    node->binary.left = left;
    node->binary.right = right;
    return grow(c, node, left, right, NULL);
}

static jnode *fail(jcompiler *c, uint32_t pos, const char *what) {
    mica_j_syntax_error(c, MICA_E_FORMAT, pos, "%s", what);
    return NULL;
}

/* ---- operators ---- */

static jnode *parse_cond(jcompiler *c) {
    uint32_t pos = mica_j_peek(c, 0)->pos;
    jnode *yes = parse_or(c);
    while (yes && mica_j_skip_name(c, "if")) {
        jnode *node = mica_j_new_node(c, NODE_COND, pos), *test = parse_or(c), *no = NULL;
        if (!node || !test) return NULL;
        if (mica_j_skip_name(c, "else") && !(no = mica_j_parse_expression(c))) return NULL;
        node->cond.test = test;
        node->cond.yes = yes;
        node->cond.no = no;
        yes = grow(c, node, test, yes, no);
    }
    return yes;
}

/* One level of recursion for every bracket, `not`, sign or `else`. */
jnode *mica_j_parse_expression(jcompiler *c) {
    if (c->depth >= JINJA_MAX_DEPTH) {
        mica_j_syntax_error(c, MICA_E_LIMIT, mica_j_peek(c, 0)->pos,
                            "expressions nest more than %d deep", JINJA_MAX_DEPTH);
        return NULL;
    }
    c->depth++;
    jnode *node = parse_cond(c);
    c->depth--;
    return node;
}

static jnode *parse_concat(jcompiler *c);

static jnode *parse_sum(jcompiler *c) {
    jnode *left = parse_concat(c);
    while (left && (mica_j_at_op(c, '+') || mica_j_at_op(c, '-'))) {
        const jtoken *t = mica_j_peek(c, 0);
        c->at++;
        left = new_binary(c, NODE_BINARY, t->op, t->pos, left, parse_concat(c));
    }
    return left;
}

/* The comparison at the current token, skipped; 0: none. */
static int skip_comparison(jcompiler *c) {
    static const int ops[] = {OP_EQ, OP_NE, '<', OP_LE, '>', OP_GE};
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
        if (mica_j_skip_op(c, ops[i])) return ops[i];
    if (mica_j_skip_name(c, "in")) return OP_IN;
    const jtoken *next = mica_j_peek(c, 1);
    bool is_not_in = mica_j_at_name(c, "not") && next->type == TOKEN_NAME &&
                     mica_j_string_is(next->value.string, "in");
    if (!is_not_in) return 0;
    c->at += 2;
    return OP_NOT_IN;
}

static jnode *parse_compare(jcompiler *c) {
    uint32_t pos = mica_j_peek(c, 0)->pos;
    jnode *first = parse_sum(c);
    jnode_stack operands = {0};
    int *ops = NULL, op;
    size_t n = 0;
    if (!first) return NULL;
    while ((op = skip_comparison(c))) {
        if (n == 0 && !mica_j_push_node(c, &operands, first)) return NULL;
        if ((n & (n + 1)) == 0) {
            int *grown = mica_j_compile_alloc(c, 2 * n + 1, sizeof(*grown));
            if (!grown) return NULL;
            if (n) memcpy(grown, ops, n * sizeof(*grown));
            ops = grown;
        }
        ops[n++] = op;
        if (!mica_j_push_node(c, &operands, parse_sum(c))) return NULL;
    }
    if (n == 0) return first;
    jnode *node = mica_j_new_node(c, NODE_COMPARE, pos);
    if (!node) return NULL;
    node->compare.operands = mica_j_nodes_of(&operands);
    node->compare.ops = ops;
    return grow_all(c, node, node->compare.operands);
}

static jnode *parse_not(jcompiler *c) {
    uint32_t pos = mica_j_peek(c, 0)->pos;
    int n = 0;
    while (mica_j_skip_name(c, "not"))
        n++;
    jnode *node = parse_compare(c);
    for (; node && n > 0; n--) {
        jnode *inner = node;
        node = mica_j_new_node(c, NODE_UNARY, pos);
        if (!node) return NULL;
        node->op = '!';
        node->binary.left = inner;
        node = grow(c, node, inner, NULL, NULL);
    }
    return node;
}

static jnode *parse_and(jcompiler *c) {
    jnode *left = parse_not(c);
    while (left && mica_j_at_name(c, "and")) {
        uint32_t pos = mica_j_peek(c, 0)->pos;
        c->at++;
        left = new_binary(c, NODE_AND, 0, pos, left, parse_not(c));
    }
    return left;
}

static jnode *parse_or(jcompiler *c) {
    jnode *left = parse_and(c);
    while (left && mica_j_at_name(c, "or")) {
        uint32_t pos = mica_j_peek(c, 0)->pos;
        c->at++;
        left = new_binary(c, NODE_OR, 0, pos, left, parse_and(c));
    }
    return left;
}

static jnode *parse_power(jcompiler *c) {
    jnode *left = parse_unary(c, true);
    while (left && mica_j_at_op(c, OP_POW)) {
        uint32_t pos = mica_j_peek(c, 0)->pos;
        c->at++;
        left = new_binary(c, NODE_BINARY, OP_POW, pos, left, parse_unary(c, true));
    }
    return left;
}

static jnode *parse_product(jcompiler *c) {
    jnode *left = parse_power(c);
    while (left && (mica_j_at_op(c, '*') || mica_j_at_op(c, '/') || mica_j_at_op(c, OP_FLOORDIV) ||
                    mica_j_at_op(c, '%'))) {
        const jtoken *t = mica_j_peek(c, 0);
        c->at++;
        left = new_binary(c, NODE_BINARY, t->op, t->pos, left, parse_power(c));
    }
    return left;
}

static jnode *parse_concat(jcompiler *c) {
    uint32_t pos = mica_j_peek(c, 0)->pos;
    jnode *first = parse_product(c);
    if (!first || !mica_j_at_op(c, '~')) return first;
    jnode_stack parts = {0};
    if (!mica_j_push_node(c, &parts, first)) return NULL;
    while (mica_j_skip_op(c, '~'))
        if (!mica_j_push_node(c, &parts, parse_product(c))) return NULL;
    jnode *node = mica_j_new_node(c, NODE_CONCAT, pos);
    if (!node) return NULL;
    node->list = mica_j_nodes_of(&parts);
    return grow_all(c, node, node->list);
}

/* ---- calls ---- */

static bool push_keyword(jcompiler *c, jcall_args *args, jnode_stack *values, uint32_t call_pos) {
    const jtoken *t = mica_j_peek(c, 0);
    size_t n = values->n;
    for (size_t i = 0; i < n; i++)
        if (mica_j_string_equal(args->names[i], t->value.string))
            return mica_j_syntax_error(c, MICA_E_FORMAT, t->pos, "this keyword appears twice");
    (void)call_pos;
    if ((n & (n + 1)) == 0) {
        const jstring **grown = mica_j_compile_alloc(c, 2 * n + 1, sizeof(*grown));
        if (!grown) return false;
        if (n) memcpy(grown, args->names, n * sizeof(*grown));
        args->names = grown;
    }
    args->names[n] = t->value.string;
    c->at += 2;
    return mica_j_push_node(c, values, mica_j_parse_expression(c));
}

/* One argument of a call; the order is: positional, keywords, *spread, **spread (a keyword may
 * follow *spread). */
static bool parse_argument(jcompiler *c, jcall_args *args, jnode_stack *items,
                           jnode_stack *keywords, uint32_t pos) {
    const jtoken *t = mica_j_peek(c, 0), *next = mica_j_peek(c, 1);
    bool is_keyword = t->type == TOKEN_NAME && next->type == TOKEN_OPERATOR && next->op == '=';
    bool is_good = !args->spread_keywords;
    if (mica_j_at_op(c, '*')) is_good = is_good && !args->spread;
    if (!mica_j_at_op(c, '*') && !mica_j_at_op(c, OP_POW) && !is_keyword)
        is_good = is_good && !args->spread && !keywords->n;
    if (!is_good)
        return mica_j_syntax_error(c, MICA_E_FORMAT, pos, "the arguments are in a wrong order");
    if (mica_j_skip_op(c, '*')) return (args->spread = mica_j_parse_expression(c)) != NULL;
    if (mica_j_skip_op(c, OP_POW))
        return (args->spread_keywords = mica_j_parse_expression(c)) != NULL;
    if (is_keyword) return push_keyword(c, args, keywords, pos);
    return mica_j_push_node(c, items, mica_j_parse_expression(c));
}

bool mica_j_parse_call_args(jcompiler *c, jcall_args *args) {
    jnode_stack items = {0}, keywords = {0};
    uint32_t pos = mica_j_peek(c, 0)->pos;
    bool needs_comma = false;
    if (!mica_j_expect_op(c, '(')) return false;
    while (!mica_j_at_op(c, ')')) {
        if (needs_comma && !mica_j_expect_op(c, ',')) return false;
        if (needs_comma && mica_j_at_op(c, ')')) break;
        if (!parse_argument(c, args, &items, &keywords, pos)) return false;
        needs_comma = true;
    }
    c->at++;
    args->items = mica_j_nodes_of(&items);
    args->keywords = mica_j_nodes_of(&keywords);
    return true;
}

static jnode *grow_call(jcompiler *c, jnode *node) {
    const jcall_args *args = &node->call.args;
    node = grow(c, node, node->call.target, args->spread, args->spread_keywords);
    node = grow_all(c, node, args->items);
    return grow_all(c, node, args->keywords);
}

static jnode *parse_call(jcompiler *c, jnode *callee) {
    jnode *node = mica_j_new_node(c, NODE_CALL, mica_j_peek(c, 0)->pos);
    if (!node) return NULL;
    node->call.target = callee;
    return mica_j_parse_call_args(c, &node->call.args) ? grow_call(c, node) : NULL;
}

/* "name" or "name.name" after a bar or `is`. */
static bool parse_dotted(jcompiler *c, const jstring **out, uint32_t *pos) {
    if (!mica_j_parse_name(c, out, pos)) return false;
    while (mica_j_skip_op(c, '.')) {
        const jstring *part;
        uint32_t part_pos;
        if (!mica_j_parse_name(c, &part, &part_pos)) return false;
        jstring *whole = mica_j_compile_alloc(c, 1, sizeof(*whole));
        char *text = mica_j_compile_alloc(c, (*out)->n + part->n + 2, 1);
        if (!whole || !text) return false;
        memcpy(text, (*out)->data, (*out)->n);
        text[(*out)->n] = '.';
        memcpy(text + (*out)->n + 1, part->data, part->n);
        *whole = (jstring){.data = text, .n = (*out)->n + part->n + 1, .n_chars = J_UNCOUNTED};
        *out = whole;
    }
    return true;
}

jnode *mica_j_parse_filters(jcompiler *c, jnode *node, bool is_started) {
    while (is_started || mica_j_skip_op(c, '|')) {
        const jstring *name;
        uint32_t pos;
        is_started = false;
        if (!parse_dotted(c, &name, &pos)) return NULL;
        jnode *filter = mica_j_new_node(c, NODE_FILTER, pos);
        if (!filter) return NULL;
        filter->call.target = node;
        filter->call.name = name;
        if (mica_j_at_op(c, '(') && !mica_j_parse_call_args(c, &filter->call.args)) return NULL;
        node = grow_call(c, filter);
        if (!node) return NULL;
    }
    return node;
}

static jnode *parse_primary(jcompiler *c, int flags);
static jnode *parse_postfix(jcompiler *c, jnode *node);

/* Whether a test's argument without brackets follows: `x is divisibleby 3`. */
static bool at_test_argument(jcompiler *c) {
    const jtoken *t = mica_j_peek(c, 0);
    if (t->type == TOKEN_OPERATOR) return t->op == '[' || t->op == '{';
    if (t->type != TOKEN_NAME) return t->type == TOKEN_STRING || t->type == TOKEN_NUMBER;
    return !mica_j_at_name(c, "else") && !mica_j_at_name(c, "or") && !mica_j_at_name(c, "and");
}

static bool parse_test_args(jcompiler *c, jcall_args *args) {
    if (mica_j_at_op(c, '(')) return mica_j_parse_call_args(c, args);
    if (!at_test_argument(c)) return true;
    if (mica_j_at_name(c, "is"))
        return mica_j_syntax_error(c, MICA_E_FORMAT, mica_j_peek(c, 0)->pos,
                                   "tests cannot be chained: x is a is b");
    jnode_stack items = {0};
    jnode *argument = parse_primary(c, 0);
    if (argument) argument = parse_postfix(c, argument);
    if (!mica_j_push_node(c, &items, argument)) return false;
    args->items = mica_j_nodes_of(&items);
    return true;
}

/* At `is`. */
static jnode *parse_test(jcompiler *c, jnode *operand) {
    uint32_t pos = mica_j_peek(c, 0)->pos, name_pos;
    c->at++;
    bool is_negated = mica_j_skip_name(c, "not");
    jnode *test = mica_j_new_node(c, NODE_TEST, pos);
    if (!test || !parse_dotted(c, &test->call.name, &name_pos)) return NULL;
    test->pos = name_pos;
    test->call.target = operand;
    if (!parse_test_args(c, &test->call.args)) return NULL;
    test = grow_call(c, test);
    if (!test || !is_negated) return test;
    jnode *node = mica_j_new_node(c, NODE_UNARY, pos);
    if (!node) return NULL;
    node->op = '!';
    node->binary.left = test;
    return grow(c, node, test, NULL, NULL);
}

/* ---- what binds tightest ---- */

static bool parse_slice_part(jcompiler *c, jnode **out) {
    if (mica_j_at_op(c, ':') || mica_j_at_op(c, ']') || mica_j_at_op(c, ',')) return true;
    return (*out = mica_j_parse_expression(c)) != NULL;
}

/* An index or a slice. */
static jnode *parse_subscript(jcompiler *c) {
    uint32_t pos = mica_j_peek(c, 0)->pos;
    jnode *start = NULL, *node;
    if (!mica_j_at_op(c, ':')) {
        start = mica_j_parse_expression(c);
        if (!start || !mica_j_at_op(c, ':')) return start;
    }
    c->at++;
    node = mica_j_new_node(c, NODE_SLICE, pos);
    if (!node) return NULL;
    node->slice.start = start;
    if (!parse_slice_part(c, &node->slice.stop)) return NULL;
    if (mica_j_skip_op(c, ':') && !parse_slice_part(c, &node->slice.step)) return NULL;
    return grow(c, node, start, node->slice.stop, node->slice.step);
}

static jnode *tuple_of(jcompiler *c, const jnode_stack *items, uint32_t pos) {
    jnode *node = mica_j_new_node(c, NODE_TUPLE, pos);
    if (!node) return NULL;
    node->list = mica_j_nodes_of(items);
    return grow_all(c, node, node->list);
}

static jnode *new_item(jcompiler *c, jnode *owner, jnode *key, uint32_t pos) {
    jnode *node = key ? mica_j_new_node(c, NODE_ITEM, pos) : NULL;
    if (!node) return NULL;
    node->access.owner = owner;
    node->access.key = key;
    return grow(c, node, owner, key, NULL);
}

static jnode *parse_brackets(jcompiler *c, jnode *owner) {
    uint32_t pos = mica_j_peek(c, 0)->pos;
    jnode_stack keys = {0};
    c->at++;
    while (!mica_j_at_op(c, ']')) {
        if (keys.n && !mica_j_expect_op(c, ',')) return NULL;
        if (!mica_j_push_node(c, &keys, parse_subscript(c))) return NULL;
        if (keys.n > 1 && keys.items[keys.n - 1]->kind == NODE_SLICE)
            return fail(c, pos, "a slice cannot be one of several indices");
    }
    c->at++;
    return new_item(c, owner, keys.n == 1 ? keys.items[0] : tuple_of(c, &keys, pos), pos);
}

static jnode *parse_dot(jcompiler *c, jnode *owner) {
    uint32_t pos = mica_j_peek(c, 0)->pos;
    c->at++;
    const jtoken *t = mica_j_peek(c, 0);
    c->at++;
    if (t->type == TOKEN_NUMBER && t->value.kind == J_INT) {
        jnode *key = mica_j_new_node(c, NODE_CONST, t->pos);
        if (key) key->constant = t->value;
        return new_item(c, owner, key, pos);
    }
    if (t->type != TOKEN_NAME) return fail(c, t->pos, "expected a name or a number after the dot");
    jnode *node = mica_j_new_node(c, NODE_ATTRIBUTE, pos);
    if (!node) return NULL;
    node->access.owner = owner;
    node->access.name = t->value.string;
    return grow(c, node, owner, NULL, NULL);
}

static jnode *parse_postfix(jcompiler *c, jnode *node) {
    while (node) {
        if (mica_j_at_op(c, '.'))
            node = parse_dot(c, node);
        else if (mica_j_at_op(c, '['))
            node = parse_brackets(c, node);
        else if (mica_j_at_op(c, '('))
            node = parse_call(c, node);
        else
            break;
    }
    return node;
}

static jnode *parse_filters_and_tests(jcompiler *c, jnode *node) {
    while (node) {
        if (mica_j_at_op(c, '|'))
            node = mica_j_parse_filters(c, node, false);
        else if (mica_j_at_name(c, "is"))
            node = parse_test(c, node);
        else if (mica_j_at_op(c, '('))
            node = parse_call(c, node);
        else
            break;
    }
    return node;
}

static jnode *parse_sign(jcompiler *c) {
    const jtoken *t = mica_j_peek(c, 0);
    jnode *node = mica_j_new_node(c, NODE_UNARY, t->pos);
    if (c->depth >= JINJA_MAX_DEPTH) return fail(c, t->pos, "too many signs");
    c->depth++;
    c->at++;
    jnode *operand = parse_unary(c, false);
    c->depth--;
    if (!node || !operand) return NULL;
    node->op = t->op;
    node->binary.left = operand;
    return grow(c, node, operand, NULL, NULL);
}

static jnode *parse_unary(jcompiler *c, bool has_filters) {
    bool is_signed = mica_j_at_op(c, '-') || mica_j_at_op(c, '+');
    jnode *node = is_signed ? parse_sign(c) : parse_primary(c, 0);
    if (node) node = parse_postfix(c, node);
    if (node && has_filters) node = parse_filters_and_tests(c, node);
    return node;
}

/* ---- literals and names ---- */

static jnode *parse_list(jcompiler *c, jnode_kind kind, char end) {
    jnode *node = mica_j_new_node(c, kind, mica_j_peek(c, 0)->pos);
    jnode_stack items = {0};
    c->at++;
    while (!mica_j_at_op(c, end)) {
        if (items.n && !mica_j_expect_op(c, ',')) return NULL;
        if (mica_j_at_op(c, end)) break;
        if (!mica_j_push_node(c, &items, mica_j_parse_expression(c))) return NULL;
        if (kind != NODE_DICT) continue;
        if (!mica_j_expect_op(c, ':')) return NULL;
        if (!mica_j_push_node(c, &items, mica_j_parse_expression(c))) return NULL;
    }
    c->at++;
    if (!node) return NULL;
    node->list = mica_j_nodes_of(&items);
    return grow_all(c, node, node->list);
}

static jnode *parse_string(jcompiler *c) {
    const jtoken *t = mica_j_peek(c, 0);
    jnode *node = mica_j_new_node(c, NODE_CONST, t->pos);
    if (!node) return NULL;
    node->constant = t->value;
    for (c->at++; mica_j_peek(c, 0)->type == TOKEN_STRING; c->at++) {
        const jstring *a = node->constant.string, *b = mica_j_peek(c, 0)->value.string;
        jstring *whole = mica_j_compile_alloc(c, 1, sizeof(*whole));
        char *text = mica_j_compile_alloc(c, a->n + b->n + 1, 1);
        if (!whole || !text) return NULL;
        memcpy(text, a->data, a->n);
        memcpy(text + a->n, b->data, b->n);
        *whole = (jstring){.data = text, .n = a->n + b->n, .n_chars = J_UNCOUNTED};
        node->constant = mica_j_text(whole);
    }
    return node;
}

static jnode *parse_named(jcompiler *c, int flags) {
    const jtoken *t = mica_j_peek(c, 0);
    const jstring *name = t->value.string;
    jnode *node = mica_j_new_node(c, NODE_CONST, t->pos);
    if (!node) return NULL;
    c->at++;
    if (mica_j_string_is(name, "true") || mica_j_string_is(name, "True")) {
        node->constant = mica_j_bool(true);
    } else if (mica_j_string_is(name, "false") || mica_j_string_is(name, "False")) {
        node->constant = mica_j_bool(false);
    } else if (mica_j_string_is(name, "none") || mica_j_string_is(name, "None")) {
        node->constant = mica_j_none();
    } else {
        bool is_ref = (flags & TUPLE_NAMESPACE) && mica_j_skip_op(c, '.');
        node->kind = is_ref ? NODE_NAMESPACE_REF : NODE_NAME;
        node->name.name = name;
        uint32_t pos;
        if (is_ref && !mica_j_parse_name(c, &node->name.attribute, &pos)) return NULL;
    }
    return node;
}

static jnode *parse_primary(jcompiler *c, int flags) {
    const jtoken *t = mica_j_peek(c, 0);
    if (t->type == TOKEN_NAME) return parse_named(c, flags);
    if (t->type == TOKEN_STRING) return parse_string(c);
    if (t->type == TOKEN_NUMBER) {
        jnode *node = mica_j_new_node(c, NODE_CONST, t->pos);
        if (node) node->constant = t->value;
        c->at++;
        return node;
    }
    if (mica_j_at_op(c, '[')) return parse_list(c, NODE_LIST, ']');
    if (mica_j_at_op(c, '{')) return parse_list(c, NODE_DICT, '}');
    if (mica_j_skip_op(c, '(')) {
        jnode *node = mica_j_parse_tuple(c, TUPLE_PARENTHESES);
        return node && mica_j_expect_op(c, ')') ? node : NULL;
    }
    mica_j_unexpected(c, "an expression");
    return NULL;
}

/* ---- tuples and targets ---- */

static bool at_tuple_end(jcompiler *c) {
    jtoken_type type = mica_j_peek(c, 0)->type;
    return type == TOKEN_PRINT_END || type == TOKEN_BLOCK_END || mica_j_at_op(c, ')');
}

static jnode *parse_member(jcompiler *c, int flags) {
    if (flags & TUPLE_TARGET) return parse_primary(c, flags);
    if (flags & TUPLE_NO_COND) return parse_or(c);
    return mica_j_parse_expression(c);
}

jnode *mica_j_parse_tuple(jcompiler *c, int flags) {
    uint32_t pos = mica_j_peek(c, 0)->pos;
    jnode_stack items = {0};
    bool is_tuple = false;
    for (;;) {
        if (items.n && !mica_j_expect_op(c, ',')) return NULL;
        if (at_tuple_end(c)) break;
        if (!mica_j_push_node(c, &items, parse_member(c, flags))) return NULL;
        if (!mica_j_at_op(c, ',')) break;
        is_tuple = true;
    }
    if (!is_tuple && items.n) return items.items[0];
    if (!is_tuple && !(flags & TUPLE_PARENTHESES)) {
        mica_j_unexpected(c, "an expression");
        return NULL;
    }
    return tuple_of(c, &items, pos);
}

static bool can_assign(const jnode *node) {
    if (node->kind == NODE_NAME || node->kind == NODE_NAMESPACE_REF) return true;
    if (node->kind != NODE_TUPLE) return false;
    for (size_t i = 0; i < node->list.n; i++)
        if (!can_assign(node->list.items[i])) return false;
    return true;
}

jnode *mica_j_parse_target(jcompiler *c, int flags) {
    jnode *node = mica_j_parse_tuple(c, flags | TUPLE_TARGET);
    if (node && !can_assign(node)) return fail(c, node->pos, "this cannot be assigned to");
    return node;
}
