/* jinja_value.h: the values of a template: Python's, as far as templates can see them.
 *
 * Everything that a render makes lives in its arena; nothing is freed before the whole render is.
 * Strings are UTF-8 with a length and know which of their bytes came from whom (spans), so that
 * text of a user can be told from text of the template in the output. Functions that can fail
 * return false after filling the error of the render (jinja_run.h).
 * Names: "j" stands for Jinja; mica_j_ is the prefix of this folder's own functions.
 */
#ifndef MICA_TEXT_JINJA_VALUE_H
#define MICA_TEXT_JINJA_VALUE_H

#include "text/template/template.h"

typedef struct jrender jrender;
typedef struct jstring jstring;
typedef struct jlist jlist;
typedef struct jdict jdict;
typedef struct jobject jobject;
typedef struct jundefined jundefined;

typedef enum jkind {
    J_MISSING, /* no value: a variable before its assignment, an argument that was not given */
    J_UNDEFINED,
    J_NONE,
    J_BOOL,
    J_INT,
    J_BIGINT, /* an integer beyond 64 bits: its digits, which can be printed but not computed with
               */
    J_FLOAT,
    J_STRING,
    J_LIST, /* every sequence: jlist.type says which */
    J_DICT,
    J_OBJECT /* functions, macros, namespaces and the like: jobject.type says which */
} jkind;

typedef struct jvalue {
    jkind kind;
    union {
        bool boolean;
        int64_t integer;
        double number;
        const jstring *string; /* of J_STRING and J_BIGINT */
        jlist *list;
        jdict *dict;
        jobject *object;
        const jundefined *undefined; /* NULL: nothing is known about it */
    };
} jvalue;

/* Why a value is undefined, for messages: `name` was looked up in a value of kind `owner`
 * (J_MISSING: among the variables); or `hint` says it all. */
struct jundefined {
    const jstring *name;
    const char *owner;
    const char *hint;
};

/* ---- strings ---- */

/* Text under construction. Spans are sorted, disjoint and never of ORIGIN_TEMPLATE. */
typedef struct jbuffer {
    char *data;
    size_t n, capacity;
    text_span *spans;
    size_t n_spans, span_capacity;
} jbuffer;

#define J_UNCOUNTED SIZE_MAX

struct jstring {
    const char *data;
    size_t n;               /* bytes */
    size_t n_chars;         /* code points, or J_UNCOUNTED */
    const text_span *spans; /* as in jbuffer; the last may reach beyond n */
    size_t n_spans;
    jbuffer *tail;  /* the buffer this is a prefix of, which may be continued in place; or NULL */
    bool is_markup; /* marked by `safe` or `escape` */
};

/* ---- sequences ---- */

typedef enum jlist_type {
    J_ARRAY,
    J_TUPLE,
    J_GENERATOR, /* what a lazy filter gave: true, without index, empty once iterated */
    J_RANGE,
    J_ITEMS, /* views of a dict */
    J_KEYS,
    J_VALUES
} jlist_type;

/* Work that a generator does when it is first looked at. */
typedef struct jpending {
    bool (*fill)(jrender *r, jlist *out, void *state);
    void *state;
} jpending;

struct jlist {
    jvalue *items;
    size_t n, capacity;
    size_t n_taken; /* of a generator: items already handed out */
    jlist_type type;
    bool is_frozen;            /* of the context: methods may not change it */
    bool is_group;             /* a tuple of groupby, with attributes grouper and list */
    int64_t start, stop, step; /* of a range */
    jpending pending;          /* of a generator; fill NULL: done */
};

/* ---- dicts: insertion order, Python's equality of keys ---- */

typedef struct jentry {
    jvalue key, value;
} jentry;

struct jdict {
    jentry *entries;
    size_t n, capacity;
    uint32_t *index; /* open addressing, entry + 1 or 0; NULL while the dict is small */
    size_t n_index;
    bool is_frozen;
};

/* ---- objects ---- */

typedef struct jargs jargs;
typedef bool (*jfunction)(jrender *r, jvalue self, const jargs *args, jvalue *out);

/* A filter, test, method or global function: one signature for all. */
typedef struct jbuiltin {
    const char *name;
    jfunction run;
    bool is_lazy;    /* a filter that yields a generator */
    bool is_changer; /* a method that changes `self` */
} jbuiltin;

typedef enum jobject_type {
    J_FUNCTION,
    J_METHOD,
    J_DICT_TYPE, /* the global `dict` */
    J_MACRO,
    J_LOOP,
    J_NAMESPACE,
    J_CYCLER,
    J_JOINER
} jobject_type;

struct jobject {
    jobject_type type;
    union {
        struct {
            const jbuiltin *def;
            jvalue self;
        } function; /* and method */
        struct jmacro *macro;
        struct jloop *loop;
        jdict *attributes; /* of a namespace */
        struct {
            jlist *items;
            size_t at;
        } cycler;
        struct {
            const jstring *separator;
            bool is_used;
        } joiner;
    };
};

/* The arguments of a call after * and ** were spread. */
typedef struct jkeyword {
    const jstring *name;
    jvalue value;
} jkeyword;

struct jargs {
    const char *what; /* "filter 'join'": for messages */
    const jvalue *items;
    size_t n;
    jkeyword *keywords;
    size_t n_keywords;
};

/* ---- making values ---- */

static inline jvalue mica_j_bool(bool v) { return (jvalue){.kind = J_BOOL, .boolean = v}; }
static inline jvalue mica_j_int(int64_t v) { return (jvalue){.kind = J_INT, .integer = v}; }
static inline jvalue mica_j_float(double v) { return (jvalue){.kind = J_FLOAT, .number = v}; }
static inline jvalue mica_j_none(void) { return (jvalue){.kind = J_NONE}; }
static inline jvalue mica_j_text(const jstring *s) {
    return (jvalue){.kind = J_STRING, .string = s};
}
static inline jvalue mica_j_from_list(jlist *l) { return (jvalue){.kind = J_LIST, .list = l}; }
static inline jvalue mica_j_from_dict(jdict *d) { return (jvalue){.kind = J_DICT, .dict = d}; }
static inline jvalue mica_j_from_object(jobject *o) {
    return (jvalue){.kind = J_OBJECT, .object = o};
}
static inline bool mica_j_is_list(jvalue v, jlist_type type) {
    return v.kind == J_LIST && v.list->type == type;
}

/* An undefined value; any of the three may be NULL. */
bool mica_j_undefined(jrender *r, const jstring *name, const char *owner, const char *hint,
                      jvalue *out);
jlist *mica_j_list_new(jrender *r, jlist_type type, size_t capacity);
bool mica_j_list_push(jrender *r, jlist *l, jvalue v);
jdict *mica_j_dict_new(jrender *r);
jobject *mica_j_object_new(jrender *r, jobject_type type);

/* ---- dicts (jinja_dict.c) ---- */

/* NULL: not there. An unhashable key is an error for set and false with *found = NULL for find. */
bool mica_j_dict_find(jrender *r, const jdict *d, jvalue key, jentry **found);
jentry *mica_j_dict_find_name(const jdict *d, const char *name, size_t n);
bool mica_j_dict_set(jrender *r, jdict *d, jvalue key, jvalue value);
bool mica_j_dict_set_name(jrender *r, jdict *d, const char *name, jvalue value);
bool mica_j_dict_remove(jrender *r, jdict *d, jentry *entry);
bool mica_j_is_hashable(jvalue v);
/* dict(...) of Python: a mapping or pairs, then keywords. */
bool mica_j_dict_fill(jrender *r, jdict *d, const jargs *args);

/* ---- Python's rules (jinja_compare.c, jinja_print.c, jinja_access.c) ---- */

bool mica_j_truth(jvalue v);
const char *mica_j_type_name(jvalue v); /* "str", "dict", "Undefined" */
bool mica_j_equal(jrender *r, jvalue a, jvalue b, bool *out);
/* a < b; unlike types are an error that names `op`. */
bool mica_j_less(jrender *r, jvalue a, jvalue b, const char *op, bool *out);
bool mica_j_contains(jrender *r, jvalue container, jvalue item, bool *out);
bool mica_j_is_same(jvalue a, jvalue b); /* `is` of Python */
bool mica_j_length(jrender *r, jvalue v, size_t *out);

bool mica_j_print(jrender *r, jbuffer *to, jvalue v); /* str() */
bool mica_j_repr(jrender *r, jbuffer *to, jvalue v);
bool mica_j_to_string(jrender *r, jvalue v, const jstring **out); /* str(), marks kept */
void mica_j_number_text(jvalue v, char out[32]); /* of J_BOOL (as an integer), J_INT, J_FLOAT */

bool mica_j_attribute(jrender *r, jvalue owner, const jstring *name, jvalue *out); /* a.b */
bool mica_j_item(jrender *r, jvalue owner, jvalue key, jvalue *out);               /* a[b] */
bool mica_j_slice(jrender *r, jvalue owner, jvalue start, jvalue stop, jvalue step, jvalue *out);
/* The bounds of slice() in Python for a sequence of n; MISSING or none: not given. */
bool mica_j_slice_bounds(jrender *r, size_t n, jvalue start, jvalue stop, jvalue step,
                         int64_t *first, int64_t *stride, size_t *count);
/* "a.b.0" as attribute= takes it, or an index. */
bool mica_j_path(jrender *r, jvalue owner, jvalue path, jvalue *out);

/* Iteration over anything iterable. */
typedef struct jiter {
    jvalue over;
    size_t at;
} jiter;
bool mica_j_iter_begin(jrender *r, jiter *it, jvalue over);
bool mica_j_iter_next(jrender *r, jiter *it, jvalue *out, bool *is_done);
bool mica_j_is_iterable(jvalue v);
/* All items as a new J_ARRAY. */
bool mica_j_collect(jrender *r, jvalue over, jlist **out);
/* Does the pending work of a generator. */
bool mica_j_force(jrender *r, jlist *l);

/* ---- arithmetic (jinja_arith.c) ---- */

bool mica_j_add(jrender *r, jvalue a, jvalue b, jvalue *out);
bool mica_j_subtract(jrender *r, jvalue a, jvalue b, jvalue *out);
bool mica_j_multiply(jrender *r, jvalue a, jvalue b, jvalue *out);
bool mica_j_divide(jrender *r, jvalue a, jvalue b, jvalue *out);
bool mica_j_floor_divide(jrender *r, jvalue a, jvalue b, jvalue *out);
bool mica_j_modulo(jrender *r, jvalue a, jvalue b, jvalue *out); /* and % on strings */
bool mica_j_power(jrender *r, jvalue a, jvalue b, jvalue *out);
bool mica_j_negate(jrender *r, jvalue a, bool is_minus, jvalue *out); /* -a, +a */
/* As an integer index: bool and int. */
bool mica_j_as_index(jvalue v, int64_t *out);
bool mica_j_is_number(jvalue v); /* bool, int, float; not beyond 64 bits */
double mica_j_as_double(jvalue v);

#endif
