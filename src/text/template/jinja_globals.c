/* jinja_globals.c: arguments of built-ins, and the functions that every template sees. */
#include <locale.h>
#include <string.h>
#include <time.h>

#include "text/template/jinja_string.h"

/* ---- arguments ---- */

enum { MAX_PARAMETERS = 8 };

typedef struct parameters {
    const char *names[MAX_PARAMETERS];
    size_t lengths[MAX_PARAMETERS];
    size_t n, n_required;
    bool is_positional;
} parameters;

static void read_spec(parameters *p, const char *spec) {
    bool is_optional = false;
    *p = (parameters){0};
    while (*spec) {
        size_t n = strcspn(spec, " ");
        if (*spec == '/') {
            p->is_positional = true;
        } else if (*spec == '|') {
            is_optional = true;
        } else if (p->n < MAX_PARAMETERS) {
            p->names[p->n] = spec;
            p->lengths[p->n++] = n;
            p->n_required += !is_optional;
        }
        spec += n + (spec[n] == ' ');
    }
}

static int find_parameter(const parameters *p, const jstring *name) {
    for (size_t i = 0; i < p->n; i++)
        if (p->lengths[i] == name->n && memcmp(p->names[i], name->data, name->n) == 0)
            return (int)i;
    return -1;
}

bool mica_j_bind(jrender *r, const jargs *args, const char *spec, jvalue *out) {
    parameters p;
    read_spec(&p, spec);
    if (args->n > p.n)
        return MICA_J_ERROR(r, "%s takes at most %zu arguments, not %zu", args->what, p.n, args->n);
    for (size_t i = 0; i < p.n; i++)
        out[i] = i < args->n ? args->items[i] : (jvalue){.kind = J_MISSING};
    for (size_t i = 0; i < args->n_keywords; i++) {
        const jstring *name = args->keywords[i].name;
        int at = p.is_positional ? -1 : find_parameter(&p, name);
        if (at < 0 || (size_t)at < args->n)
            return MICA_J_ERROR(r, "%s: unexpected keyword '%.*s'", args->what,
                                name->n < 60 ? (int)name->n : 60, name->data);
        out[at] = args->keywords[i].value;
    }
    for (size_t i = 0; i < p.n_required; i++)
        if (out[i].kind == J_MISSING)
            return MICA_J_ERROR(r, "%s: the argument '%.*s' is missing", args->what,
                                (int)p.lengths[i], p.names[i]);
    return true;
}

bool mica_j_arg_int(jrender *r, const jargs *args, jvalue v, int64_t fallback, int64_t *out) {
    *out = fallback;
    if (v.kind == J_MISSING || mica_j_as_index(v, out)) return true;
    if (v.kind == J_UNDEFINED) return mica_j_fail_undefined(r, v);
    return MICA_J_ERROR(r, "%s: expected an integer, found a value of type %s", args->what,
                        mica_j_type_name(v));
}

bool mica_j_arg_text(jrender *r, const jargs *args, jvalue v, const jstring **out) {
    if (v.kind == J_STRING) {
        *out = v.string;
        return true;
    }
    return MICA_J_ERROR(r, "%s: expected a string, found a value of type %s", args->what,
                        mica_j_type_name(v));
}

/* ---- functions ---- */

static bool raise_exception(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    jvalue message;
    const jstring *text;
    (void)self;
    (void)out;
    if (!mica_j_bind(r, args, "message", &message) || !mica_j_to_string(r, message, &text))
        return false;
    return MICA_J_ERROR(r, "the template raised: %.*s", text->n < 300 ? (int)text->n : 300,
                        text->data);
}

/* One conversion of strftime in the C locale; a naive datetime has no zone. */
static bool put_time(jrender *r, jbuffer *to, char conversion, const struct tm *now) {
    char format[] = {'%', conversion, 0}, text[128];
    static const char known[] = "aAbBcCdDeFgGhHIjklmMnpPrRStTuUVwWxXyY%";
    if (conversion == 'z' || conversion == 'Z') return true;
    if (conversion == 'f') return mica_j_put_text(r, to, "000000");
    if (!conversion || !strchr(known, conversion)) return mica_j_put_text(r, to, format);
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c_locale) return mica_j_fail(r, MICA_E_NOMEM, "out of memory");
    size_t n = strftime_l(text, sizeof(text), format, now, c_locale);
    freelocale(c_locale);
    return mica_j_put(r, to, text, n, ORIGIN_TEMPLATE);
}

static bool strftime_now(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    jvalue v;
    const jstring *format = NULL, *text;
    struct tm now;
    jbuffer *b = mica_j_buffer_new(r);
    time_t seconds = r->options->has_now ? (time_t)r->options->now_s : time(NULL);
    (void)self;
    if (!b || !mica_j_bind(r, args, "format", &v) || !mica_j_arg_text(r, args, v, &format))
        return false;
    if (!localtime_r(&seconds, &now)) return MICA_J_ERROR(r, "the time is out of range");
    for (size_t i = 0; i < format->n; i++) {
        bool is_conversion = format->data[i] == '%' && i + 1 < format->n;
        bool is_good = is_conversion ? put_time(r, b, format->data[++i], &now)
                                     : mica_j_put_slice(r, b, format, i, i + 1);
        if (!is_good) return false;
    }
    if (!mica_j_finish(r, b, false, &text)) return false;
    *out = mica_j_text(text);
    return true;
}

static bool new_namespace(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    jobject *o = mica_j_object_new(r, J_NAMESPACE);
    jdict *d = mica_j_dict_new(r);
    (void)self;
    if (!o || !d || !mica_j_dict_fill(r, d, args)) return false;
    for (size_t i = 0; i < d->n; i++) {
        jvalue key = d->entries[i].key;
        if (key.kind == J_STRING && key.string->n && key.string->data[0] == '_')
            return MICA_J_ERROR(r, "a namespace has no attributes that begin with '_'");
    }
    o->attributes = d;
    *out = mica_j_from_object(o);
    return true;
}

static bool fill_range(jrender *r, jlist *l, const jargs *args) {
    enum { MAX_RANGE = 100000 };
    int64_t distance;
    if (l->step == 0) return MICA_J_ERROR(r, "%s: the step is zero", args->what);
    bool is_up = l->step > 0;
    uint64_t n = 0, size = is_up ? (uint64_t)l->step : 0 - (uint64_t)l->step;
    if (is_up ? l->start < l->stop : l->start > l->stop) {
        if (__builtin_sub_overflow(is_up ? l->stop : l->start, is_up ? l->start : l->stop,
                                   &distance))
            distance = INT64_MAX;
        n = ((uint64_t)distance + size - 1) / size;
    }
    if (n > MAX_RANGE)
        return mica_j_fail(r, MICA_E_LIMIT, "%s: more than %d numbers", args->what, MAX_RANGE);
    for (uint64_t i = 0; i < n; i++)
        if (!mica_j_list_push(r, l, mica_j_int(l->start + (int64_t)i * l->step))) return false;
    return mica_j_charge(r, n);
}

static bool range(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    jvalue v[3];
    jlist *l = mica_j_list_new(r, J_RANGE, 0);
    (void)self;
    if (!l || !mica_j_bind(r, args, "/ start | stop step", v)) return false;
    bool is_single = v[1].kind == J_MISSING;
    jvalue start = is_single ? mica_j_int(0) : v[0], stop = is_single ? v[0] : v[1];
    if (!mica_j_arg_int(r, args, start, 0, &l->start) ||
        !mica_j_arg_int(r, args, stop, 0, &l->stop) ||
        !mica_j_arg_int(r, args, v[2], 1, &l->step) || !fill_range(r, l, args))
        return false;
    *out = mica_j_from_list(l);
    return true;
}

static bool new_cycler(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    jobject *o = mica_j_object_new(r, J_CYCLER);
    (void)self;
    if (args->n == 0 || args->n_keywords) return MICA_J_ERROR(r, "cycler needs values");
    jlist *items = mica_j_list_new(r, J_TUPLE, args->n);
    if (!o || !items) return false;
    memcpy(items->items, args->items, args->n * sizeof(jvalue));
    items->n = args->n;
    o->cycler.items = items;
    *out = mica_j_from_object(o);
    return true;
}

static bool new_joiner(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    jvalue v;
    jobject *o = mica_j_object_new(r, J_JOINER);
    (void)self;
    if (!o || !mica_j_bind(r, args, "| sep", &v)) return false;
    o->joiner.separator = mica_j_cstring(r, ", ");
    if (v.kind != J_MISSING && !mica_j_to_string(r, v, &o->joiner.separator)) return false;
    *out = mica_j_from_object(o);
    return o->joiner.separator != NULL;
}

static bool lipsum(jrender *r, jvalue self, const jargs *args, jvalue *out) {
    (void)self;
    (void)args;
    (void)out;
    return mica_j_fail(r, MICA_E_UNSUPPORTED, "lipsum makes random text, which has no place here");
}

static const jbuiltin globals[] = {
    {.name = "raise_exception", .run = raise_exception},
    {.name = "strftime_now", .run = strftime_now},
    {.name = "namespace", .run = new_namespace},
    {.name = "range", .run = range},
    {.name = "cycler", .run = new_cycler},
    {.name = "joiner", .run = new_joiner},
    {.name = "lipsum", .run = lipsum},
};

static bool add_globals(jrender *r, jdict *d) {
    for (size_t i = 0; i < sizeof(globals) / sizeof(globals[0]); i++) {
        jobject *o = mica_j_object_new(r, J_FUNCTION);
        if (!o) return false;
        o->function.def = &globals[i];
        if (!mica_j_dict_set_name(r, d, globals[i].name, mica_j_from_object(o))) return false;
    }
    jobject *o = mica_j_object_new(r, J_DICT_TYPE);
    return o && mica_j_dict_set_name(r, d, "dict", mica_j_from_object(o));
}

/* ---- the context ---- */

static bool is_trusted(const render_options *options, const char *name) {
    for (size_t i = 0; i < options->n_trusted; i++)
        if (strcmp(options->trusted[i], name) == 0) return true;
    return false;
}

static text_origin message_origin(const json_value *message) {
    const char *role = mica_json_string(mica_json_find(message, "role"), "");
    return strcmp(role, "assistant") == 0 ? ORIGIN_ASSISTANT : ORIGIN_DATA;
}

static bool add_messages(jrender *r, const json_value *json, jvalue *out) {
    jlist *l = mica_j_list_new(r, J_ARRAY, json->n);
    if (!l) return false;
    for (size_t i = 0; i < json->n; i++)
        if (!mica_j_from_json(r, json->items[i], message_origin(json->items[i]), &l->items[i]))
            return false;
    l->n = json->n;
    l->is_frozen = true;
    *out = mica_j_from_list(l);
    return true;
}

static bool add_entry(jrender *r, jdict *d, const json_member *m) {
    const char *messages = r->options->messages;
    jvalue value;
    bool are_messages =
        messages && strcmp(m->key, messages) == 0 && m->value->kind == JSON_KIND_ARRAY;
    text_origin origin = is_trusted(r->options, m->key) ? ORIGIN_TEMPLATE : ORIGIN_DATA;
    bool is_good = are_messages ? add_messages(r, m->value, &value)
                                : mica_j_from_json(r, m->value, origin, &value);
    const jstring *name = mica_j_string(r, m->key, m->n_key, ORIGIN_TEMPLATE);
    return is_good && name && mica_j_dict_set(r, d, mica_j_text(name), value);
}

bool mica_j_context(jrender *r, const json_value *context, jdict **out) {
    jdict *d = mica_j_dict_new(r);
    if (!d || !add_globals(r, d)) return false;
    if (context && context->kind != JSON_KIND_OBJECT)
        return MICA_J_ERROR(r, "the context must be an object");
    for (size_t i = 0; context && i < context->n; i++)
        if (!add_entry(r, d, &context->members[i])) return false;
    *out = d;
    return true;
}
