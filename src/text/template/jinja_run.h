/* jinja_run.h: a render in progress: frames, limits, errors, output; and the evaluator's parts.
 *
 * Every step, and every 64 bytes that are made or scanned, counts against the limit, so that no
 * template runs or grows without bound. Functions return false after filling r->err.
 */
#ifndef MICA_TEXT_JINJA_RUN_H
#define MICA_TEXT_JINJA_RUN_H

#include "text/template/jinja_ast.h"

/* The variables of one scope while it runs. */
typedef struct jframe {
    struct jframe *parent;
    const jscope *scope;
    jvalue *slots;
} jframe;

typedef struct jmacro {
    const jnode *node;
    jframe *closure;
} jmacro;

/* `loop` inside a for. The iterator looks at most one item ahead. */
typedef struct jloop {
    const jnode *node;
    jframe *closure; /* where the for stands: for recursion */
    jiter iter;
    jframe *test_frame; /* of the filter, or NULL */
    int64_t index0;     /* -1 before the first item */
    int64_t length;     /* -1: not known yet */
    int64_t depth0;
    jvalue before, current, after; /* MISSING: none */
    jvalue last_changed;           /* a tuple, or MISSING */
} jloop;

struct jrender {
    const jinja_template *t;
    mica_arena arena;
    mica_error *err;
    mica_status status;
    uint32_t pos; /* of the node at work, for messages */
    uint64_t steps, max_steps;
    int depth;      /* of the evaluator's recursion */
    int call_depth; /* of macros and recursive loops */
    jbuffer *out;   /* where output goes now */
    jbuffer main_out;
    text_span *generations;
    size_t n_generations, generation_capacity;
    jdict *context;
    const render_options *options;
};

bool mica_j_fail(jrender *r, mica_status code, const char *format, ...) MICA_PRINTF(3, 4);
/* MICA_E_INVALID: Python would have raised a TypeError or the like. */
#define MICA_J_ERROR(r, ...) mica_j_fail(r, MICA_E_INVALID, __VA_ARGS__)
/* The error of an operation on an undefined value, which says why it is undefined. */
bool mica_j_fail_undefined(jrender *r, jvalue v);
/* Counts one step and n bytes of work. */
bool mica_j_charge(jrender *r, size_t n_bytes);
/* From the render's arena, zeroed; NULL after an error. */
void *mica_j_alloc(jrender *r, size_t count, size_t size);
bool mica_j_enter(jrender *r); /* one level of recursion; pair with leave */
void mica_j_leave(jrender *r);

/* ---- the evaluator ---- */

typedef enum jflow { FLOW_FAIL, FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE } jflow;

bool mica_j_eval(jrender *r, jframe *f, const jnode *node, jvalue *out);
/* Arguments of a call, filter or test with spreads applied. */
bool mica_j_eval_args(jrender *r, jframe *f, const jcall_args *args, const char *what, jargs *out);
/* A filter chain whose innermost input is `input`. */
bool mica_j_eval_filters(jrender *r, jframe *f, const jnode *node, jvalue input, jvalue *out);
jflow mica_j_run(jrender *r, jframe *f, jnodes body);
bool mica_j_call(jrender *r, jvalue callee, const jargs *args, jvalue *out);
jframe *mica_j_frame_new(jrender *r, const jscope *scope, jframe *parent);
/* Loads the variables of a frame as they are at entry. */
bool mica_j_frame_enter(jrender *r, jframe *f);
void mica_j_frame_clear(jframe *f);
bool mica_j_assign(jrender *r, jframe *f, const jnode *target, jvalue value);
bool mica_j_call_macro(jrender *r, const jmacro *m, const jargs *args, jvalue *out);
/* Runs a for over `over`, writing to r->out. */
jflow mica_j_run_for(jrender *r, const jnode *node, jframe *f, jvalue over, int64_t depth0);
bool mica_j_call_loop(jrender *r, jloop *l, const jargs *args, jvalue *out);
bool mica_j_loop_attribute(jrender *r, jobject *o, const jstring *name, jvalue *out);

/* ---- built-ins ---- */

/* Tables end with a NULL name. */
extern const jbuiltin mica_j_json_filters[], mica_j_order_filters[], mica_j_text_filters[];
extern const jbuiltin mica_j_text_methods[];

const jbuiltin *mica_j_find_filter(const char *name, size_t n);
const jbuiltin *mica_j_find_test(const char *name, size_t n);
const jbuiltin *mica_j_find_method(jvalue owner, const char *name, size_t n);
const jbuiltin *mica_j_find_global(const char *name, size_t n);
bool mica_j_run_filter(jrender *r, const jbuiltin *def, jvalue input, const jargs *args,
                       jvalue *out);
bool mica_j_run_test(jrender *r, const jbuiltin *def, jvalue input, const jargs *args, bool *out);

/* Sorts arguments into slots. `spec` names the parameters: "old new | count": those after the bar
 * are optional and MISSING if absent; a first word "/" forbids keywords. */
bool mica_j_bind(jrender *r, const jargs *args, const char *spec, jvalue *out);
/* Reading a bound argument; `fallback` where it is MISSING. */
bool mica_j_arg_int(jrender *r, const jargs *args, jvalue v, int64_t fallback, int64_t *out);
bool mica_j_arg_text(jrender *r, const jargs *args, jvalue v, const jstring **out);

/* printf-style and str.format */
bool mica_j_format_percent(jrender *r, const jstring *format, jvalue args, jvalue *out);
bool mica_j_format_braces(jrender *r, const jstring *format, const jargs *args, jvalue *out);

/* JSON in and out (jinja_json.c). Values made from json_value are frozen. */
bool mica_j_from_json(jrender *r, const json_value *json, text_origin origin, jvalue *out);
bool mica_j_context(jrender *r, const json_value *context, jdict **out);

/* Sorting and grouping (jinja_order.c). */
typedef struct jsort_item {
    jvalue key, value;
} jsort_item;
bool mica_j_sort(jrender *r, jsort_item *items, size_t n, bool is_reverse);

#endif
