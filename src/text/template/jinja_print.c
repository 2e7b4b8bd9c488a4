/* jinja_print.c: str() and repr() of Python for every value. */
#include <stdio.h>
#include <string.h>

#include "base/decimal.h"
#include "text/template/jinja_string.h"

void mica_j_number_text(jvalue v, char out[32]) {
    if (v.kind == J_FLOAT)
        mica_decimal_format(out, v.number);
    else
        snprintf(out, 32, "%lld", v.kind == J_BOOL ? (long long)v.boolean : (long long)v.integer);
}

/* ---- repr of text ---- */

static bool put_char_repr(jrender *r, jbuffer *to, const jstring *s, size_t at, size_t n,
                          uint32_t c, char quote) {
    char text[16];
    if (c == '\n' || c == '\r' || c == '\t')
        snprintf(text, sizeof(text), "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
    else if (c == '\\' || c == (unsigned char)quote)
        snprintf(text, sizeof(text), "\\%c", (char)c);
    else if (mica_j_is_printable(c))
        return mica_j_put_slice(r, to, s, at, at + n);
    else if (c < 0x100)
        snprintf(text, sizeof(text), "\\x%02x", c);
    else if (c < 0x10000)
        snprintf(text, sizeof(text), "\\u%04x", c);
    else
        snprintf(text, sizeof(text), "\\U%08x", c);
    return mica_j_put(r, to, text, strlen(text), mica_j_origin_at(s, at));
}

static bool put_string_repr(jrender *r, jbuffer *to, const jstring *s) {
    bool has_single = memchr(s->data, '\'', s->n), has_double = memchr(s->data, '"', s->n);
    char quote = has_single && !has_double ? '"' : '\'';
    if (s->is_markup && !mica_j_put_text(r, to, "Markup(")) return false;
    if (!mica_j_put(r, to, &quote, 1, ORIGIN_TEMPLATE)) return false;
    for (size_t i = 0, n; i < s->n; i += n) {
        uint32_t c = mica_j_char_at(s->data, s->n, i, &n);
        if (!put_char_repr(r, to, s, i, n, c, quote)) return false;
    }
    return mica_j_put(r, to, &quote, 1, ORIGIN_TEMPLATE) &&
           (!s->is_markup || mica_j_put_text(r, to, ")"));
}

/* ---- containers ---- */

static bool put_items(jrender *r, jbuffer *to, const jlist *l, const char *begin, const char *end) {
    if (!mica_j_put_text(r, to, begin)) return false;
    for (size_t i = 0; i < l->n; i++)
        if ((i && !mica_j_put_text(r, to, ", ")) || !mica_j_repr(r, to, l->items[i])) return false;
    return mica_j_put_text(r, to, end);
}

static bool put_range(jrender *r, jbuffer *to, const jlist *l) {
    char text[80];
    int n =
        snprintf(text, sizeof(text), "range(%lld, %lld", (long long)l->start, (long long)l->stop);
    if (l->step != 1)
        n += snprintf(text + n, sizeof(text) - (size_t)n, ", %lld", (long long)l->step);
    return mica_j_put(r, to, text, (size_t)n, ORIGIN_TEMPLATE) && mica_j_put_text(r, to, ")");
}

static bool put_list(jrender *r, jbuffer *to, jlist *l) {
    if (!mica_j_force(r, l)) return false;
    switch (l->type) {
    case J_TUPLE:
        return put_items(r, to, l, "(", l->n == 1 ? ",)" : ")");
    case J_RANGE:
        return put_range(r, to, l);
    case J_ITEMS:
        return put_items(r, to, l, "dict_items([", "])");
    case J_KEYS:
        return put_items(r, to, l, "dict_keys([", "])");
    case J_VALUES:
        return put_items(r, to, l, "dict_values([", "])");
    default:
        return put_items(r, to, l, "[", "]");
    }
}

static bool put_dict(jrender *r, jbuffer *to, const jdict *d) {
    if (!mica_j_put_text(r, to, "{")) return false;
    for (size_t i = 0; i < d->n; i++) {
        const jentry *e = &d->entries[i];
        if ((i && !mica_j_put_text(r, to, ", ")) || !mica_j_repr(r, to, e->key) ||
            !mica_j_put_text(r, to, ": ") || !mica_j_repr(r, to, e->value))
            return false;
    }
    return mica_j_put_text(r, to, "}");
}

static bool put_macro(jrender *r, jbuffer *to, const jmacro *m) {
    const jstring *name = m->node->macro.name;
    if (!name) return mica_j_put_text(r, to, "<Macro anonymous>");
    return mica_j_put_text(r, to, "<Macro ") && put_string_repr(r, to, name) &&
           mica_j_put_text(r, to, ">");
}

static bool put_loop(jrender *r, jbuffer *to, jobject *o) {
    jvalue index, length = {.kind = J_MISSING};
    char text[96], a[32], b[32];
    const jstring *name = mica_j_cstring(r, "length");
    if (!name || !mica_j_loop_attribute(r, o, name, &length)) return false;
    index = mica_j_int(o->loop->index0 + 1);
    mica_j_number_text(index, a);
    mica_j_number_text(length, b);
    snprintf(text, sizeof(text), "<LoopContext %s/%s>", a, b);
    return mica_j_put_text(r, to, text);
}

static bool put_object(jrender *r, jbuffer *to, jobject *o) {
    switch (o->type) {
    case J_MACRO:
        return put_macro(r, to, o->macro);
    case J_LOOP:
        return put_loop(r, to, o);
    case J_NAMESPACE:
        return mica_j_put_text(r, to, "<Namespace ") && put_dict(r, to, o->attributes) &&
               mica_j_put_text(r, to, ">");
    case J_FUNCTION:
    case J_METHOD:
        return mica_j_put_text(r, to, "<function ") &&
               mica_j_put_text(r, to, o->function.def->name) && mica_j_put_text(r, to, ">");
    default:
        return mica_j_put_text(r, to, "<") &&
               mica_j_put_text(r, to, mica_j_type_name(mica_j_from_object(o))) &&
               mica_j_put_text(r, to, ">");
    }
}

/* ---- any value ---- */

static bool put_scalar(jrender *r, jbuffer *to, jvalue v) {
    char text[32];
    switch (v.kind) {
    case J_NONE:
        return mica_j_put_text(r, to, "None");
    case J_BOOL:
        return mica_j_put_text(r, to, v.boolean ? "True" : "False");
    case J_INT:
    case J_FLOAT:
        mica_j_number_text(v, text);
        return mica_j_put_text(r, to, text);
    case J_BIGINT:
        return mica_j_put_string(r, to, v.string);
    default:
        return mica_j_put_text(r, to, "Undefined");
    }
}

bool mica_j_repr(jrender *r, jbuffer *to, jvalue v) {
    if (!mica_j_enter(r)) return false;
    bool is_good;
    if (v.kind == J_STRING)
        is_good = put_string_repr(r, to, v.string);
    else if (v.kind == J_LIST)
        is_good = put_list(r, to, v.list);
    else if (v.kind == J_DICT)
        is_good = put_dict(r, to, v.dict);
    else if (v.kind == J_OBJECT)
        is_good = put_object(r, to, v.object);
    else
        is_good = put_scalar(r, to, v);
    mica_j_leave(r);
    return is_good;
}

bool mica_j_print(jrender *r, jbuffer *to, jvalue v) {
    if (v.kind == J_STRING) return mica_j_put_string(r, to, v.string);
    if (v.kind == J_UNDEFINED || v.kind == J_MISSING) return true;
    return mica_j_repr(r, to, v);
}

bool mica_j_to_string(jrender *r, jvalue v, const jstring **out) {
    if (v.kind == J_STRING) {
        *out = v.string;
        return true;
    }
    jbuffer *b = mica_j_buffer_new(r);
    return b && mica_j_print(r, b, v) && mica_j_finish(r, b, false, out);
}
