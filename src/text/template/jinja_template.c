/* jinja_template.c: the engine's outside: compiling a source, rendering with a context.
 *
 * The source is normalized first, as Jinja does: line ends become \n, one newline at the end goes;
 * invalid UTF-8 becomes U+FFFD.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/utf8.h"
#include "text/template/jinja_string.h"

enum { MAX_SOURCE = 4 << 20, MAX_ARENA_BYTES = 1 << 30, BYTES_A_STEP = 64 };
/* Levels of the evaluator's recursion: expressions, statements and macros together. A level takes a
 * few hundred bytes of stack. */
enum { MAX_EVAL_DEPTH = 3000 };

/* ---- compiling ---- */

void mica_j_locate(const jinja_template *t, uint32_t pos, uint32_t *line, uint32_t *column) {
    *line = 1;
    *column = 1;
    for (uint32_t i = 0; i < pos && i < t->n_source; i++) {
        if (t->source[i] == '\n') {
            (*line)++;
            *column = 1;
        } else if (((unsigned char)t->source[i] & 0xC0) != 0x80) {
            (*column)++;
        }
    }
}

static mica_status fail_at(const jinja_template *t, mica_error *err, mica_status code, uint32_t pos,
                           const char *format, va_list args) MICA_PRINTF(5, 0);

/* "name:line:column: what" */
static mica_status fail_at(const jinja_template *t, mica_error *err, mica_status code, uint32_t pos,
                           const char *format, va_list args) {
    char what[400];
    uint32_t line, column;
    vsnprintf(what, sizeof(what), format, args);
    mica_j_locate(t, pos, &line, &column);
    return mica_fail(err, code, "%s:%u:%u: %s", t->name, line, column, what);
}

bool mica_j_syntax_error(jcompiler *c, mica_status code, uint32_t pos, const char *format, ...) {
    va_list args;
    va_start(args, format);
    c->status = fail_at(c->t, c->err, code, pos, format, args);
    va_end(args);
    return false;
}

void *mica_j_compile_alloc(jcompiler *c, size_t count, size_t size) {
    void *p = mica_arena_calloc(&c->t->arena, count, size);
    if (!p) c->status = mica_fail(c->err, MICA_E_NOMEM, "%s: out of memory", c->t->name);
    return p;
}

/* Copies the source with \n for every line end, U+FFFD for what is no UTF-8, without the newline
 * at the end. At most three times as long. */
static void normalize(const char *source, size_t n, char *out, size_t *n_out) {
    size_t k = 0;
    for (size_t i = 0; i < n;) {
        bool is_valid;
        size_t step = mica_utf8_step(source + i, n - i, &is_valid);
        if (!is_valid) {
            k += mica_utf8_put(out + k, 0xFFFD);
        } else if (source[i] == '\r') {
            out[k++] = '\n';
            if (i + 1 < n && source[i + 1] == '\n') i++;
        } else {
            memcpy(out + k, source + i, step);
            k += step;
        }
        i += step;
    }
    if (k > 0 && out[k - 1] == '\n') k--;
    out[k] = 0;
    *n_out = k;
}

static mica_status compile(jinja_template *t, const char *source, size_t n_source, const char *name,
                           mica_error *err) {
    jcompiler c = {.t = t, .err = err};
    t->name = mica_arena_strndup(&t->arena, name, strlen(name));
    t->source = t->name ? mica_arena_alloc(&t->arena, 3 * n_source + 1) : NULL;
    if (!t->source) return mica_fail(err, MICA_E_NOMEM, "%s: out of memory", name);
    normalize(source, n_source, t->source, &t->n_source);
    if (!mica_j_lex(&c) || !mica_j_parse(&c) || !mica_j_bind_names(&c)) return c.status;
    return MICA_OK;
}

mica_status mica_template_compile(jinja_template **out, const char *source, size_t n_source,
                                  const char *name, mica_error *err) {
    if (n_source > MAX_SOURCE)
        return mica_fail(err, MICA_E_LIMIT, "%s: a template of %zu bytes; at most %d are read",
                         name, n_source, MAX_SOURCE);
    jinja_template *t = mica_calloc(1, sizeof(*t));
    if (!t) return mica_fail(err, MICA_E_NOMEM, "%s: out of memory", name);
    mica_arena_init(&t->arena, 0);
    mica_status st = compile(t, source, n_source, name, err);
    if (st) {
        mica_template_free(t);
        return st;
    }
    *out = t;
    return MICA_OK;
}

void mica_template_free(jinja_template *t) {
    if (!t) return;
    mica_arena_deinit(&t->arena);
    mica_free(t);
}

const char *mica_template_warning(const jinja_template *t) { return t->warning; }

const char *mica_template_source(const jinja_template *t, size_t *n) {
    *n = t->n_source;
    return t->source;
}

const char *mica_template_name(const jinja_template *t) { return t->name; }

/* ---- the limits and errors of a render ---- */

bool mica_j_fail(jrender *r, mica_status code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    r->status = fail_at(r->t, r->err, code, r->pos, format, args);
    va_end(args);
    return false;
}

bool mica_j_charge(jrender *r, size_t n_bytes) {
    r->steps += 1 + n_bytes / BYTES_A_STEP;
    if (r->steps <= r->max_steps) return true;
    return mica_j_fail(r, MICA_E_LIMIT, "the template takes more than %llu steps",
                       (unsigned long long)r->max_steps);
}

void *mica_j_alloc(jrender *r, size_t count, size_t size) {
    size_t n_bytes;
    bool fits = mica_mul_size(count, size, &n_bytes) && n_bytes <= MAX_ARENA_BYTES &&
                r->arena.used_bytes <= MAX_ARENA_BYTES - n_bytes;
    if (!fits) {
        mica_j_fail(r, MICA_E_LIMIT, "the template needs more than %d MiB of memory",
                    MAX_ARENA_BYTES >> 20);
        return NULL;
    }
    void *p = mica_arena_alloc(&r->arena, n_bytes);
    if (!p) mica_j_fail(r, MICA_E_NOMEM, "out of memory");
    return p;
}

bool mica_j_enter(jrender *r) {
    if (++r->depth <= MAX_EVAL_DEPTH) return mica_j_charge(r, 0);
    return mica_j_fail(r, MICA_E_LIMIT, "the template nests too deeply");
}

void mica_j_leave(jrender *r) { r->depth--; }

bool mica_j_fail_undefined(jrender *r, jvalue v) {
    const jundefined *u = v.undefined;
    if (u && u->hint) return MICA_J_ERROR(r, "%s", u->hint);
    if (!u || !u->name) return MICA_J_ERROR(r, "this value is undefined");
    int n = u->name->n < 100 ? (int)u->name->n : 100;
    if (!u->owner) return MICA_J_ERROR(r, "'%.*s' is undefined", n, u->name->data);
    return MICA_J_ERROR(r, "%s has no attribute or item '%.*s'", u->owner, n, u->name->data);
}

/* ---- rendering ---- */

static mica_status copy_out(const jrender *r, rendered_text *out, mica_error *err) {
    const jbuffer *b = &r->main_out;
    rendered_text copy = {.n = b->n, .n_spans = b->n_spans, .n_generations = r->n_generations};
    copy.text = mica_strndup(b->n ? b->data : "", b->n);
    copy.spans = mica_calloc(b->n_spans + 1, sizeof(text_span));
    copy.generations = mica_calloc(r->n_generations + 1, sizeof(text_span));
    if (!copy.text || !copy.spans || !copy.generations) {
        mica_rendered_text_deinit(&copy);
        return mica_fail(err, MICA_E_NOMEM, "%s: out of memory", r->t->name);
    }
    if (b->n_spans) memcpy(copy.spans, b->spans, b->n_spans * sizeof(text_span));
    if (r->n_generations)
        memcpy(copy.generations, r->generations, r->n_generations * sizeof(text_span));
    *out = copy;
    return MICA_OK;
}

static bool render(jrender *r, const json_value *context) {
    if (!mica_j_context(r, context, &r->context)) return false;
    jframe *root = mica_j_frame_new(r, r->t->scope, NULL);
    return root && mica_j_frame_enter(r, root) && mica_j_run(r, root, r->t->body) != FLOW_FAIL;
}

mica_status mica_template_render(const jinja_template *t, const json_value *context,
                                 const render_options *options, rendered_text *out,
                                 mica_error *err) {
    static const render_options no_options;
    jrender r = {.t = t, .err = err, .options = options ? options : &no_options};
    r.out = &r.main_out;
    r.max_steps = r.options->max_steps ? r.options->max_steps : JINJA_MAX_STEPS;
    mica_arena_init(&r.arena, 0);
    mica_status st = render(&r, context) ? copy_out(&r, out, err) : r.status;
    mica_arena_deinit(&r.arena);
    return st;
}

void mica_rendered_text_deinit(rendered_text *text) {
    mica_free(text->text);
    mica_free(text->spans);
    mica_free(text->generations);
    *text = (rendered_text){0};
}
