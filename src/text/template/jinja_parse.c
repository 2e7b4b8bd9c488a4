/* jinja_parse.c: tokens to statements. Expressions are in jinja_expr.c.
 *
 * The grammar is Jinja's, with its quirks; statements that this dialect does not have are refused
 * by name. Nesting is limited, so that recursion here and later is.
 */
#include <stdio.h>
#include <string.h>

#include "text/template/jinja_string.h"

static jnodes no_nodes(void) { return (jnodes){0}; }

/* ---- looking at tokens ---- */

const jtoken *mica_j_peek(const jcompiler *c, size_t ahead) {
    size_t at = c->at + ahead;
    return &c->tokens[at < c->n_tokens ? at : c->n_tokens - 1];
}

bool mica_j_at_op(const jcompiler *c, int op) {
    const jtoken *t = mica_j_peek(c, 0);
    return t->type == TOKEN_OPERATOR && t->op == op;
}

static bool is_name(const jtoken *t, const char *name) {
    return t->type == TOKEN_NAME && mica_j_string_is(t->value.string, name);
}

bool mica_j_at_name(const jcompiler *c, const char *name) {
    return is_name(mica_j_peek(c, 0), name);
}

bool mica_j_skip_op(jcompiler *c, int op) {
    bool is_there = mica_j_at_op(c, op);
    c->at += is_there;
    return is_there;
}

bool mica_j_skip_name(jcompiler *c, const char *name) {
    bool is_there = mica_j_at_name(c, name);
    c->at += is_there;
    return is_there;
}

bool mica_j_unexpected(jcompiler *c, const char *expected) {
    const jtoken *t = mica_j_peek(c, 0);
    if (t->type == TOKEN_EOF)
        return mica_j_syntax_error(c, MICA_E_FORMAT, t->pos,
                                   "expected %s, but the template ends here", expected);
    int n = t->end - t->pos < 40 ? (int)(t->end - t->pos) : 40;
    return mica_j_syntax_error(c, MICA_E_FORMAT, t->pos, "expected %s, found '%.*s'", expected, n,
                               c->t->source + t->pos);
}

bool mica_j_expect_op(jcompiler *c, int op) {
    char what[] = {'\'', (char)op, '\'', 0};
    return mica_j_skip_op(c, op) || mica_j_unexpected(c, what);
}

bool mica_j_parse_name(jcompiler *c, const jstring **out, uint32_t *pos) {
    const jtoken *t = mica_j_peek(c, 0);
    if (t->type != TOKEN_NAME) return mica_j_unexpected(c, "a name");
    *out = t->value.string;
    *pos = t->pos;
    c->at++;
    return true;
}

/* ---- nodes ---- */

jnode *mica_j_new_node(jcompiler *c, jnode_kind kind, uint32_t pos) {
    jnode *node = mica_j_compile_alloc(c, 1, sizeof(*node));
    if (node) {
        node->kind = kind;
        node->pos = pos;
    }
    return node;
}

bool mica_j_push_node(jcompiler *c, jnode_stack *s, jnode *node) {
    if (!node) return false;
    if (s->n == s->capacity) {
        size_t capacity = s->capacity ? 2 * s->capacity : 4;
        jnode **grown = mica_j_compile_alloc(c, capacity, sizeof(*grown));
        if (!grown) return false;
        if (s->n) memcpy(grown, s->items, s->n * sizeof(*grown));
        s->items = grown;
        s->capacity = capacity;
    }
    s->items[s->n++] = node;
    return true;
}

jnodes mica_j_nodes_of(const jnode_stack *s) { return (jnodes){s->items, s->n}; }

static bool expect_block_end(jcompiler *c) {
    if (mica_j_peek(c, 0)->type != TOKEN_BLOCK_END) return mica_j_unexpected(c, "'%}'");
    c->at++;
    return true;
}

/* ---- bodies ---- */

static jnode *parse_statement(jcompiler *c);

/* `ends` holds names with a space after each. */
static bool is_end_name(const jtoken *t, const char *ends) {
    if (t->type != TOKEN_NAME) return false;
    for (const char *at = ends; *at; at = strchr(at, ' ') + 1) {
        size_t n = (size_t)(strchr(at, ' ') - at);
        if (t->value.string->n == n && memcmp(t->value.string->data, at, n) == 0) return true;
    }
    return false;
}

/* Text and {{ }} up to the next statement, as one output. */
static jnode *parse_output(jcompiler *c) {
    jnode *node = mica_j_new_node(c, NODE_OUTPUT, mica_j_peek(c, 0)->pos);
    jnode_stack parts = {0};
    for (;;) {
        const jtoken *t = mica_j_peek(c, 0);
        jnode *part = NULL;
        if (t->type == TOKEN_DATA) {
            part = mica_j_new_node(c, NODE_CONST, t->pos);
            if (part) part->constant = t->value;
            c->at++;
        } else if (t->type == TOKEN_PRINT_BEGIN) {
            c->at++;
            part = mica_j_parse_tuple(c, 0);
            if (part && mica_j_peek(c, 0)->type != TOKEN_PRINT_END) {
                mica_j_unexpected(c, "'}}'");
                part = NULL;
            }
            c->at++;
        } else {
            break;
        }
        if (!mica_j_push_node(c, &parts, part)) return NULL;
    }
    if (node) node->list = mica_j_nodes_of(&parts);
    return node;
}

/* Statements up to a tag of one of `ends` (NULL: the end of the template), whose name is the
 * current token afterwards. */
static bool parse_until(jcompiler *c, const char *ends, jnodes *out) {
    jnode_stack body = {0};
    for (;;) {
        const jtoken *t = mica_j_peek(c, 0);
        if (t->type == TOKEN_EOF) {
            char what[80];
            if (!ends) break;
            snprintf(what, sizeof(what), "one of the tags: %s", ends);
            what[strlen(what) - 1] = 0;
            return mica_j_unexpected(c, what);
        }
        jnode *node;
        if (t->type == TOKEN_BLOCK_BEGIN) {
            c->at++;
            if (ends && is_end_name(mica_j_peek(c, 0), ends)) break;
            node = parse_statement(c);
            if (!node || !expect_block_end(c)) return false;
        } else {
            node = parse_output(c);
        }
        if (!mica_j_push_node(c, &body, node)) return false;
    }
    *out = mica_j_nodes_of(&body);
    return true;
}

/* The body of a statement: from behind its tag to one of `ends`. */
static bool parse_body(jcompiler *c, const char *ends, jnodes *out) {
    mica_j_skip_op(c, ':');
    if (!expect_block_end(c)) return false;
    if (c->depth >= JINJA_MAX_DEPTH)
        return mica_j_syntax_error(c, MICA_E_LIMIT, mica_j_peek(c, 0)->pos,
                                   "statements nest more than %d deep", JINJA_MAX_DEPTH);
    c->depth++;
    bool is_good = parse_until(c, ends, out);
    c->depth--;
    return is_good;
}

/* The same for a single end, which is consumed. */
static bool parse_whole_body(jcompiler *c, const char *end, jnodes *out) {
    if (!parse_body(c, end, out)) return false;
    c->at++;
    return true;
}

/* ---- statements ---- */

static bool push_clause(jcompiler *c, jnode *node, jclause clause) {
    size_t n = node->branch.n;
    if ((n & (n + 1)) == 0) { /* 0, 1, 3, 7 ...: full */
        jclause *grown = mica_j_compile_alloc(c, 2 * n + 1, sizeof(*grown));
        if (!grown) return false;
        if (n) memcpy(grown, node->branch.clauses, n * sizeof(*grown));
        node->branch.clauses = grown;
    }
    node->branch.clauses[node->branch.n++] = clause;
    return true;
}

static bool parse_if(jcompiler *c, jnode *node) {
    for (;;) {
        jclause clause = {.test = mica_j_parse_tuple(c, TUPLE_NO_COND)};
        if (!clause.test || !parse_body(c, "elif else endif ", &clause.body)) return false;
        if (!push_clause(c, node, clause)) return false;
        if (mica_j_skip_name(c, "elif")) continue;
        if (mica_j_skip_name(c, "endif")) return true;
        c->at++;
        clause.test = NULL;
        return parse_whole_body(c, "endif ", &clause.body) && push_clause(c, node, clause);
    }
}

static bool parse_for(jcompiler *c, jnode *node) {
    node->loop.target = mica_j_parse_target(c, 0);
    if (!node->loop.target) return false;
    if (!mica_j_skip_name(c, "in")) return mica_j_unexpected(c, "'in'");
    node->loop.over = mica_j_parse_tuple(c, TUPLE_NO_COND);
    if (!node->loop.over) return false;
    if (mica_j_skip_name(c, "if") && !(node->loop.test = mica_j_parse_expression(c))) return false;
    node->loop.is_recursive = mica_j_skip_name(c, "recursive");
    if (!parse_body(c, "endfor else ", &node->loop.body)) return false;
    if (mica_j_skip_name(c, "endfor")) return true;
    c->at++;
    return parse_whole_body(c, "endfor ", &node->loop.otherwise);
}

static bool parse_set(jcompiler *c, jnode *node) {
    node->set.target = mica_j_parse_target(c, TUPLE_NAMESPACE);
    if (!node->set.target) return false;
    if (mica_j_skip_op(c, '=')) {
        node->set.value = mica_j_parse_tuple(c, 0);
        return node->set.value != NULL;
    }
    node->kind = NODE_SET_BLOCK;
    if (mica_j_at_op(c, '|') && !(node->set.filter = mica_j_parse_filters(c, NULL, false)))
        return false;
    return parse_whole_body(c, "endset ", &node->set.body);
}

static bool is_twice(const jstring **names, size_t n, const jstring *name) {
    for (size_t i = 0; i < n; i++)
        if (mica_j_string_equal(names[i], name)) return true;
    return false;
}

static bool push_parameter(jcompiler *c, jsignature *s, const jstring *name) {
    if ((s->n & (s->n + 1)) == 0) {
        const jstring **grown = mica_j_compile_alloc(c, 2 * s->n + 1, sizeof(*grown));
        if (!grown) return false;
        if (s->n) memcpy(grown, s->names, s->n * sizeof(*grown));
        s->names = grown;
    }
    s->names[s->n++] = name;
    return true;
}

static bool is_constant_name(const jstring *name) {
    static const char *const names[] = {"true", "false", "none", "True", "False", "None"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (mica_j_string_is(name, names[i])) return true;
    return false;
}

static bool parse_parameter(jcompiler *c, jsignature *s, jnode_stack *defaults) {
    const jstring *name = NULL;
    uint32_t pos = 0;
    if (!mica_j_parse_name(c, &name, &pos)) return false;
    if (is_constant_name(name) || is_twice(s->names, s->n, name))
        return mica_j_syntax_error(c, MICA_E_FORMAT, pos, "'%.*s' cannot be a parameter here",
                                   name->n < 60 ? (int)name->n : 60, name->data);
    if (!push_parameter(c, s, name)) return false;
    if (mica_j_skip_op(c, '=')) return mica_j_push_node(c, defaults, mica_j_parse_expression(c));
    if (defaults->n)
        return mica_j_syntax_error(c, MICA_E_FORMAT, pos,
                                   "a parameter without a default follows one with a default");
    return true;
}

static bool parse_signature(jcompiler *c, jsignature *s) {
    jnode_stack defaults = {0};
    if (!mica_j_expect_op(c, '(')) return false;
    while (!mica_j_at_op(c, ')')) {
        if (s->n && !mica_j_expect_op(c, ',')) return false;
        if (!parse_parameter(c, s, &defaults)) return false;
    }
    c->at++;
    s->defaults = mica_j_nodes_of(&defaults);
    return true;
}

static bool parse_macro(jcompiler *c, jnode *node) {
    uint32_t pos = 0;
    if (!mica_j_parse_name(c, &node->macro.name, &pos)) return false;
    if (is_constant_name(node->macro.name))
        return mica_j_syntax_error(c, MICA_E_FORMAT, pos, "a macro cannot have this name");
    return parse_signature(c, &node->macro.signature) &&
           parse_whole_body(c, "endmacro ", &node->macro.body);
}

static bool parse_call_block(jcompiler *c, jnode *node) {
    if (mica_j_at_op(c, '(') && !parse_signature(c, &node->macro.signature)) return false;
    node->macro.call = mica_j_parse_expression(c);
    if (!node->macro.call) return false;
    if (node->macro.call->kind != NODE_CALL)
        return mica_j_syntax_error(c, MICA_E_FORMAT, node->pos,
                                   "{%% call %%} needs a call such as f(x)");
    return parse_whole_body(c, "endcall ", &node->macro.body);
}

static bool parse_filter_block(jcompiler *c, jnode *node) {
    node->set.filter = mica_j_parse_filters(c, NULL, true);
    return node->set.filter && parse_whole_body(c, "endfilter ", &node->set.body);
}

static bool parse_with(jcompiler *c, jnode *node) {
    jnode_stack targets = {0}, values = {0};
    while (mica_j_peek(c, 0)->type != TOKEN_BLOCK_END) {
        if (targets.n && !mica_j_expect_op(c, ',')) return false;
        if (!mica_j_push_node(c, &targets, mica_j_parse_target(c, 0))) return false;
        if (!mica_j_expect_op(c, '=')) return false;
        if (!mica_j_push_node(c, &values, mica_j_parse_expression(c))) return false;
    }
    node->with.targets = mica_j_nodes_of(&targets);
    node->with.values = mica_j_nodes_of(&values);
    return parse_whole_body(c, "endwith ", &node->with.body);
}

static bool parse_print(jcompiler *c, jnode *node) {
    jnode_stack parts = {0};
    while (mica_j_peek(c, 0)->type != TOKEN_BLOCK_END) {
        if (parts.n && !mica_j_expect_op(c, ',')) return false;
        if (!mica_j_push_node(c, &parts, mica_j_parse_expression(c))) return false;
    }
    node->list = mica_j_nodes_of(&parts);
    return true;
}

static bool parse_generation(jcompiler *c, jnode *node) {
    return parse_whole_body(c, "endgeneration ", &node->with.body);
}

static bool parse_nothing(jcompiler *c, jnode *node) {
    (void)c;
    (void)node;
    return true;
}

typedef struct statement {
    const char *name;
    jnode_kind kind;
    bool (*parse)(jcompiler *c, jnode *node);
} statement;

static const statement statements[] = {
    {"if", NODE_IF, parse_if},
    {"for", NODE_FOR, parse_for},
    {"set", NODE_SET, parse_set},
    {"macro", NODE_MACRO, parse_macro},
    {"call", NODE_CALL_BLOCK, parse_call_block},
    {"filter", NODE_FILTER_BLOCK, parse_filter_block},
    {"with", NODE_WITH, parse_with},
    {"generation", NODE_GENERATION, parse_generation},
    {"print", NODE_OUTPUT, parse_print},
    {"break", NODE_BREAK, parse_nothing},
    {"continue", NODE_CONTINUE, parse_nothing},
};

static bool refuse_statement(jcompiler *c, const jtoken *t) {
    static const char known[] = "include import from extends block autoescape ";
    const jstring *name = t->value.string;
    bool is_known = is_end_name(t, known);
    return mica_j_syntax_error(c, is_known ? MICA_E_UNSUPPORTED : MICA_E_FORMAT, t->pos,
                               is_known ? "{%% %.*s %%} is not part of chat templates"
                                        : "'%.*s' is no statement, or closes one that is not open",
                               name->n < 60 ? (int)name->n : 60, name->data);
}

/* From the name of the tag up to, not including, its '%}' or that of its end tag. */
static jnode *parse_statement(jcompiler *c) {
    const jtoken *t = mica_j_peek(c, 0);
    if (t->type != TOKEN_NAME) {
        mica_j_unexpected(c, "the name of a statement");
        return NULL;
    }
    c->at++;
    for (size_t i = 0; i < sizeof(statements) / sizeof(statements[0]); i++) {
        if (!is_name(t, statements[i].name)) continue;
        jnode *node = mica_j_new_node(c, statements[i].kind, t->pos);
        return node && statements[i].parse(c, node) ? node : NULL;
    }
    refuse_statement(c, t);
    return NULL;
}

bool mica_j_parse(jcompiler *c) {
    c->t->body = no_nodes();
    return parse_until(c, NULL, &c->t->body);
}
