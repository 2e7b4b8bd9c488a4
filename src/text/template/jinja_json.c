/* jinja_json.c: JSON to values, and the filters tojson and from_json.
 *
 * tojson writes what Python's json.dumps writes: ", " and ": " between, keys in order, nothing
 * escaped for HTML, only what JSON demands.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "text/template/jinja_string.h"

/* ---- JSON to values ---- */

static bool text_of(jrender *r, const char *text, size_t n, text_origin origin, jvalue *out) {
    const jstring *s = mica_j_string(r, text, n, origin);
    *out = mica_j_text(s);
    return s != NULL;
}

static bool array_of(jrender *r, const json_value *json, text_origin origin, jvalue *out) {
    jlist *l = mica_j_list_new(r, J_ARRAY, json->n);
    if (!l) return false;
    for (size_t i = 0; i < json->n; i++)
        if (!mica_j_from_json(r, json->items[i], origin, &l->items[i])) return false;
    l->n = json->n;
    l->is_frozen = true;
    *out = mica_j_from_list(l);
    return true;
}

static bool object_of(jrender *r, const json_value *json, text_origin origin, jvalue *out) {
    jdict *d = mica_j_dict_new(r);
    if (!d) return false;
    for (size_t i = 0; i < json->n; i++) {
        const json_member *m = &json->members[i];
        jvalue key, value;
        if (!text_of(r, m->key, m->n_key, origin, &key) ||
            !mica_j_from_json(r, m->value, origin, &value) || !mica_j_dict_set(r, d, key, value))
            return false;
    }
    d->is_frozen = true;
    *out = mica_j_from_dict(d);
    return true;
}

static bool number_of(jrender *r, const json_value *json, jvalue *out) {
    *out = mica_j_float(json->number);
    if (!mica_json_is_long_integer(json)) return true;
    const jstring *s = mica_j_cstring(r, json->literal);
    *out = (jvalue){.kind = J_BIGINT, .string = s};
    return s != NULL;
}

bool mica_j_from_json(jrender *r, const json_value *json, text_origin origin, jvalue *out) {
    if (!mica_j_charge(r, 0)) return false;
    switch (json->kind) {
    case JSON_KIND_BOOL:
        *out = mica_j_bool(json->boolean);
        return true;
    case JSON_KIND_INT:
        *out = mica_j_int(json->integer);
        return true;
    case JSON_KIND_DOUBLE:
        return number_of(r, json, out);
    case JSON_KIND_STRING:
        return text_of(r, json->string, json->n, origin, out);
    case JSON_KIND_ARRAY:
        return array_of(r, json, origin, out);
    case JSON_KIND_OBJECT:
        return object_of(r, json, origin, out);
    default:
        *out = mica_j_none();
        return true;
    }
}

static bool from_json(jrender *r, jvalue input, const jargs *args, jvalue *out) {
    const jstring *s;
    json_value *json;
    mica_error err;
    if (!mica_j_bind(r, args, "", NULL) || !mica_j_arg_text(r, args, input, &s) ||
        !mica_j_charge(r, 8 * s->n))
        return false;
    mica_status st = mica_json_parse(&json, s->data, s->n, "from_json", true, &r->arena, &err);
    if (st == MICA_E_NOMEM) return mica_j_fail(r, st, "out of memory");
    if (st) return MICA_J_ERROR(r, "%s", err.message);
    text_origin origin = s->n_spans ? s->spans[0].origin : ORIGIN_TEMPLATE;
    return mica_j_from_json(r, json, origin, out);
}

/* ---- values to JSON ---- */

typedef struct json_style {
    bool ascii, sorted, has_indent;
    const jstring *indent; /* of one level */
    const jstring *item_separator, *key_separator;
} json_style;

static bool put_value(jrender *r, jbuffer *to, const json_style *style, jvalue v, int level);

static bool put_escape(jrender *r, jbuffer *to, uint32_t c, text_origin origin) {
    static const char letters[] = "\"\\\b\f\n\r\t", names[] = "\"\\bfnrt";
    char text[16];
    const char *known = c && c < 0x80 ? strchr(letters, (int)c) : NULL;
    if (known) {
        text[0] = '\\';
        text[1] = names[known - letters];
        return mica_j_put(r, to, text, 2, origin);
    }
    if (c >= 0x10000) {
        c -= 0x10000;
        snprintf(text, sizeof(text), "\\u%04x\\u%04x", 0xD800 + (c >> 10), 0xDC00 + (c & 0x3FF));
    } else {
        snprintf(text, sizeof(text), "\\u%04x", c);
    }
    return mica_j_put(r, to, text, strlen(text), origin);
}

static bool put_text(jrender *r, jbuffer *to, const json_style *style, const jstring *s) {
    size_t begin = 0, n;
    if (!mica_j_put_text(r, to, "\"")) return false;
    for (size_t i = 0; i < s->n; i += n) {
        uint32_t c = mica_j_char_at(s->data, s->n, i, &n);
        if (c >= 0x20 && c != '"' && c != '\\' && (c < 0x7F || !style->ascii)) continue;
        if (!mica_j_put_slice(r, to, s, begin, i) || !put_escape(r, to, c, mica_j_origin_at(s, i)))
            return false;
        begin = i + n;
    }
    return mica_j_put_slice(r, to, s, begin, s->n) && mica_j_put_text(r, to, "\"");
}

static bool put_number(jrender *r, jbuffer *to, jvalue v) {
    char text[32];
    mica_j_number_text(v, text);
    if (v.kind == J_FLOAT && isnan(v.number)) return mica_j_put_text(r, to, "NaN");
    if (v.kind == J_FLOAT && isinf(v.number))
        return mica_j_put_text(r, to, v.number > 0 ? "Infinity" : "-Infinity");
    return mica_j_put_text(r, to, text);
}

static bool put_line(jrender *r, jbuffer *to, const json_style *style, int level) {
    if (!style->has_indent) return true;
    if (!mica_j_put_text(r, to, "\n")) return false;
    for (int i = 0; i < level; i++)
        if (!mica_j_put_string(r, to, style->indent)) return false;
    return true;
}

static bool put_array(jrender *r, jbuffer *to, const json_style *style, const jlist *l, int level) {
    if (l->n == 0) return mica_j_put_text(r, to, "[]");
    if (!mica_j_put_text(r, to, "[")) return false;
    for (size_t i = 0; i < l->n; i++) {
        if ((i && !mica_j_put_string(r, to, style->item_separator)) ||
            !put_line(r, to, style, level + 1) || !put_value(r, to, style, l->items[i], level + 1))
            return false;
    }
    return put_line(r, to, style, level) && mica_j_put_text(r, to, "]");
}

static bool put_key(jrender *r, jbuffer *to, const json_style *style, jvalue key) {
    if (key.kind == J_STRING) return put_text(r, to, style, key.string);
    bool is_scalar = key.kind >= J_NONE && key.kind <= J_FLOAT;
    if (!is_scalar) return MICA_J_ERROR(r, "tojson: a key of type %s", mica_j_type_name(key));
    return mica_j_put_text(r, to, "\"") && put_value(r, to, style, key, 0) &&
           mica_j_put_text(r, to, "\"");
}

static bool sorted_entries(jrender *r, const jdict *d, jsort_item **out) {
    jsort_item *items = mica_j_alloc(r, d->n + 1, sizeof(*items));
    if (!items) return false;
    for (size_t i = 0; i < d->n; i++)
        items[i] = (jsort_item){d->entries[i].key, d->entries[i].value};
    *out = items;
    return mica_j_sort(r, items, d->n, false);
}

static bool put_object(jrender *r, jbuffer *to, const json_style *style, const jdict *d,
                       int level) {
    jsort_item *sorted = NULL;
    if (d->n == 0) return mica_j_put_text(r, to, "{}");
    if (style->sorted && !sorted_entries(r, d, &sorted)) return false;
    if (!mica_j_put_text(r, to, "{")) return false;
    for (size_t i = 0; i < d->n; i++) {
        jvalue key = sorted ? sorted[i].key : d->entries[i].key;
        jvalue value = sorted ? sorted[i].value : d->entries[i].value;
        if ((i && !mica_j_put_string(r, to, style->item_separator)) ||
            !put_line(r, to, style, level + 1) || !put_key(r, to, style, key) ||
            !mica_j_put_string(r, to, style->key_separator) ||
            !put_value(r, to, style, value, level + 1))
            return false;
    }
    return put_line(r, to, style, level) && mica_j_put_text(r, to, "}");
}

static bool put_any(jrender *r, jbuffer *to, const json_style *style, jvalue v, int level) {
    switch (v.kind) {
    case J_NONE:
        return mica_j_put_text(r, to, "null");
    case J_BOOL:
        return mica_j_put_text(r, to, v.boolean ? "true" : "false");
    case J_INT:
    case J_FLOAT:
        return put_number(r, to, v);
    case J_BIGINT:
        return mica_j_put_string(r, to, v.string);
    case J_STRING:
        return put_text(r, to, style, v.string);
    case J_DICT:
        return put_object(r, to, style, v.dict, level);
    default:
        break;
    }
    bool is_list = v.kind == J_LIST && v.list->type <= J_GENERATOR;
    if (is_list) return mica_j_force(r, v.list) && put_array(r, to, style, v.list, level);
    return MICA_J_ERROR(r, "tojson: a value of type %s has no JSON", mica_j_type_name(v));
}

static bool put_value(jrender *r, jbuffer *to, const json_style *style, jvalue v, int level) {
    if (!mica_j_enter(r)) return false;
    bool is_good = put_any(r, to, style, v, level);
    mica_j_leave(r);
    return is_good;
}

/* ---- the filter ---- */

static bool read_indent(jrender *r, const jargs *args, jvalue v, json_style *style) {
    int64_t n;
    style->has_indent = v.kind != J_MISSING && v.kind != J_NONE;
    if (!style->has_indent) return true;
    if (v.kind == J_STRING) {
        style->indent = v.string;
        return true;
    }
    jbuffer *b = mica_j_buffer_new(r);
    return b && mica_j_arg_int(r, args, v, 0, &n) &&
           mica_j_put_fill(r, b, ' ', n > 0 ? (size_t)n : 0) &&
           mica_j_finish(r, b, false, &style->indent);
}

static bool read_separators(jrender *r, const jargs *args, jvalue v, json_style *style) {
    jlist *pair;
    if (v.kind == J_MISSING || v.kind == J_NONE) {
        style->item_separator = mica_j_cstring(r, style->has_indent ? "," : ", ");
        style->key_separator = mica_j_cstring(r, ": ");
        return style->item_separator && style->key_separator;
    }
    if (!mica_j_collect(r, v, &pair)) return false;
    if (pair->n != 2) return MICA_J_ERROR(r, "tojson: separators must be two strings");
    return mica_j_arg_text(r, args, pair->items[0], &style->item_separator) &&
           mica_j_arg_text(r, args, pair->items[1], &style->key_separator);
}

static bool tojson(jrender *r, jvalue input, const jargs *args, jvalue *out) {
    jvalue v[4];
    json_style style = {0};
    const jstring *text;
    jbuffer *b = mica_j_buffer_new(r);
    if (!b || !mica_j_bind(r, args, "| ensure_ascii indent separators sort_keys", v)) return false;
    style.ascii = mica_j_truth(v[0]);
    style.sorted = mica_j_truth(v[3]);
    if (!read_indent(r, args, v[1], &style) || !read_separators(r, args, v[2], &style))
        return false;
    if (!put_value(r, b, &style, input, 0) || !mica_j_finish(r, b, false, &text)) return false;
    *out = mica_j_text(text);
    return true;
}

const jbuiltin mica_j_json_filters[] = {
    {.name = "tojson", .run = tojson},
    {.name = "from_json", .run = from_json},
    {.name = NULL},
};
