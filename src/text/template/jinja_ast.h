/* jinja_ast.h: a compiled template: tokens, syntax tree, scopes.
 *
 * Source text -> tokens (jinja_lexer.c) -> tree (jinja_parse.c, jinja_expr.c) -> names bound to
 * slots (jinja_scope.c). All of it lives in the template's arena and never changes afterwards.
 */
#ifndef MICA_TEXT_JINJA_AST_H
#define MICA_TEXT_JINJA_AST_H

#include "text/template/jinja_value.h"

/* ---- tokens ---- */

typedef enum jtoken_type {
    TOKEN_DATA,
    TOKEN_PRINT_BEGIN, /* {{ */
    TOKEN_PRINT_END,
    TOKEN_BLOCK_BEGIN, /* {% */
    TOKEN_BLOCK_END,
    TOKEN_NAME,
    TOKEN_STRING,
    TOKEN_NUMBER, /* integer or float */
    TOKEN_OPERATOR,
    TOKEN_EOF
} jtoken_type;

/* One character stands for itself; these are the others. */
enum { OP_FLOORDIV = 256, OP_POW, OP_EQ, OP_NE, OP_GE, OP_LE, OP_IN, OP_NOT_IN };

typedef struct jtoken {
    jtoken_type type;
    int op;
    uint32_t pos; /* byte offset into the source */
    uint32_t end;
    jvalue value; /* text of data and strings (J_STRING), the number, the name */
} jtoken;

/* ---- tree ---- */

typedef enum jnode_kind {
    /* statements */
    NODE_OUTPUT,
    NODE_IF,
    NODE_FOR,
    NODE_SET,
    NODE_SET_BLOCK,
    NODE_MACRO,
    NODE_CALL_BLOCK,
    NODE_FILTER_BLOCK,
    NODE_WITH,
    NODE_GENERATION,
    NODE_BREAK,
    NODE_CONTINUE,
    /* expressions */
    NODE_CONST,
    NODE_NAME,
    NODE_NAMESPACE_REF, /* ns.attr as a target */
    NODE_TUPLE,
    NODE_LIST,
    NODE_DICT,   /* list: key, value, key, value ... */
    NODE_CONCAT, /* a ~ b ~ c */
    NODE_UNARY,  /* op: '-', '+', '!' (not) */
    NODE_BINARY, /* op */
    NODE_AND,
    NODE_OR,
    NODE_COMPARE,
    NODE_COND,
    NODE_ATTRIBUTE,
    NODE_ITEM,
    NODE_SLICE,
    NODE_CALL,
    NODE_FILTER,
    NODE_TEST
} jnode_kind;

typedef struct jnode jnode;
typedef struct jscope jscope;

typedef struct jnodes {
    jnode **items;
    size_t n;
} jnodes;

/* Where a variable lies: `depth` frames up, in `slot`. */
typedef struct jref {
    int depth, slot;
} jref;

typedef struct jcall_args {
    jnodes items;
    const jstring **names; /* of keywords */
    jnodes keywords;
    jnode *spread;          /* *args or NULL */
    jnode *spread_keywords; /* **kwargs or NULL */
} jcall_args;

/* `if` and `elif` have a test, `else` has none. */
typedef struct jclause {
    jnode *test;
    jnodes body;
} jclause;

typedef struct jsignature {
    const jstring **names;
    jref *refs; /* in the macro's frame */
    size_t n;
    jnodes defaults;            /* of the last defaults.n parameters */
    int caller, keywords, rest; /* slots of caller, kwargs, varargs if the body uses them, or -1 */
} jsignature;

struct jnode {
    jnode_kind kind;
    int op;
    uint32_t pos;
    int height; /* of the tree below: bounds the evaluator's recursion */
    union {
        jvalue constant;
        struct {
            const jstring *name;
            const jstring *attribute; /* of NODE_NAMESPACE_REF */
            jref ref;
        } name;
        jnodes list; /* OUTPUT, TUPLE, LIST, DICT, CONCAT */
        struct {
            jnode *left, *right; /* UNARY: left */
        } binary;
        struct {
            jnodes operands; /* one more than ops */
            int *ops;
        } compare;
        struct {
            jnode *test, *yes, *no; /* no may be NULL */
        } cond;
        struct {
            jnode *owner;
            const jstring *name; /* ATTRIBUTE */
            jnode *key;          /* ITEM: any expression, or a SLICE */
        } access;
        struct {
            jnode *start, *stop, *step; /* each may be NULL */
        } slice;
        struct {
            jnode *target; /* the callee, or what is filtered or tested; NULL: a block's text */
            const jstring *name;
            const jbuiltin *def; /* of a filter or test; NULL: there is none of that name */
            jcall_args args;
        } call;
        struct {
            jclause *clauses;
            size_t n;
        } branch;
        struct {
            jnode *target, *over, *test; /* test may be NULL */
            jnodes body, otherwise;
            bool is_recursive;
            jscope *scope, *test_scope, *else_scope;
            int loop_slot; /* -1: the body does not use `loop` */
        } loop;
        struct {
            jnode *target, *value; /* SET */
            jnode *filter;         /* SET_BLOCK, FILTER_BLOCK: a chain that ends in target NULL */
            jnodes body;
            jscope *scope;
        } set;
        struct {
            const jstring *name; /* NULL: the body of a call block */
            jref ref;
            jsignature signature;
            jnodes body;
            jscope *scope;
            jnode *call; /* CALL_BLOCK */
        } macro;
        struct {
            jnodes targets, values;
            jnodes body;
            jscope *scope;
        } with; /* and GENERATION */
    };
};

/* ---- scopes ---- */

typedef enum jload {
    LOAD_PARAMETER, /* set by whoever enters the frame */
    LOAD_CONTEXT,   /* the context's or a global */
    LOAD_ALIAS,     /* starts as the outer variable of that name */
    LOAD_UNSET
} jload;

typedef struct jsymbol {
    const jstring *name;
    jload load;
    jref outer; /* LOAD_ALIAS: as seen from the frame's parent */
    bool is_stored;
    int stored_at; /* the scope's counter when it was first stored */
} jsymbol;

struct jscope {
    jscope *parent;
    jsymbol *symbols; /* one slot each */
    size_t n, capacity;
    int counter;
};

/* ---- the template ---- */

struct jinja_template {
    mica_arena arena;
    char *name;
    char *source; /* normalized newlines, valid UTF-8 */
    size_t n_source;
    jnodes body;
    jscope *scope;
    char *warning;
};

/* State of a compilation, shared by its stages. */
typedef struct jcompiler {
    jinja_template *t;
    jtoken *tokens;
    size_t n_tokens, token_capacity;
    size_t at; /* the parser's current token */
    int depth;
    mica_error *err;
    mica_status status;
} jcompiler;

/* False after writing "name:line:column: ..." */
bool mica_j_syntax_error(jcompiler *c, mica_status code, uint32_t pos, const char *format, ...)
    MICA_PRINTF(4, 5);
void *mica_j_compile_alloc(jcompiler *c, size_t count, size_t size);
void mica_j_locate(const jinja_template *t, uint32_t pos, uint32_t *line, uint32_t *column);

bool mica_j_lex(jcompiler *c);
bool mica_j_parse(jcompiler *c);
bool mica_j_bind_names(jcompiler *c);

/* Between the two halves of the parser. */
typedef struct jnode_stack {
    jnode **items;
    size_t n, capacity;
} jnode_stack;
bool mica_j_push_node(jcompiler *c, jnode_stack *s, jnode *node);
jnodes mica_j_nodes_of(const jnode_stack *s);
jnode *mica_j_new_node(jcompiler *c, jnode_kind kind, uint32_t pos);

enum { TUPLE_NO_COND = 1, TUPLE_PARENTHESES = 2, TUPLE_TARGET = 4, TUPLE_NAMESPACE = 8 };
/* Expressions; NULL after an error. */
jnode *mica_j_parse_expression(jcompiler *c);
jnode *mica_j_parse_tuple(jcompiler *c, int flags);
jnode *mica_j_parse_filters(jcompiler *c, jnode *node, bool is_started);
bool mica_j_parse_call_args(jcompiler *c, jcall_args *args);
/* A target of an assignment: a name, ns.attr if flagged, a tuple of them. */
jnode *mica_j_parse_target(jcompiler *c, int flags);
bool mica_j_parse_name(jcompiler *c, const jstring **out, uint32_t *pos);

/* Looking at tokens. */
const jtoken *mica_j_peek(const jcompiler *c, size_t ahead);
bool mica_j_at_op(const jcompiler *c, int op);
bool mica_j_at_name(const jcompiler *c, const char *name);
bool mica_j_skip_op(jcompiler *c, int op);
bool mica_j_skip_name(jcompiler *c, const char *name);
bool mica_j_expect_op(jcompiler *c, int op);
/* "expected X, found Y" at the current token. */
bool mica_j_unexpected(jcompiler *c, const char *expected);

#endif
