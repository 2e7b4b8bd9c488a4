/* print.c: the tape for people (an aligned table) or for scripts (JSON).
 *
 * Cells are formatted twice: once to find the widths of the columns, once to write them.
 */
#include "plan/work.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"

enum { COL_STEP, COL_OP, COL_NAME, COL_OUT, COL_KERNEL, COL_WEIGHT, COL_BYTES, COL_AT, N_COLS };
enum { MAX_CELL = 96 };

static const char *const headings[N_COLS] = {"step",   "op",     "name",  "out",
                                             "kernel", "weight", "bytes", "at"};
static bool is_number(int col) { return col == COL_STEP || col == COL_BYTES || col == COL_AT; }

typedef char row_cells[N_COLS][MAX_CELL];

/* ---- a growing string ---- */
typedef struct text {
    char *data;
    size_t n, capacity;
    bool failed;
} text;

static void append(text *t, const char *s, size_t n) {
    if (t->failed) return;
    if (n >= t->capacity - t->n) {
        size_t capacity = 2 * (t->n + n) + 256;
        char *data = mica_realloc(t->data, capacity);
        if (!data) {
            t->failed = true;
            return;
        }
        t->data = data;
        t->capacity = capacity;
    }
    memcpy(t->data + t->n, s, n);
    t->n += n;
    t->data[t->n] = '\0';
}

static void MICA_PRINTF(2, 3) appendf(text *t, const char *format, ...) {
    char line[512];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (n > 0) append(t, line, (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1);
}

/* ---- cells ---- */

static void put(char *cell, const char *s) { snprintf(cell, MAX_CELL, "%s", s ? s : ""); }

/* The forms of all weights of a step, "a + b" where they differ. */
static void weight_text(const plan_step *step, char *out, size_t n) {
    out[0] = '\0';
    char last[64] = "";
    for (int i = 0; i < step->n_src; i++) {
        if (step->src[i].space != PLAN_WEIGHT) continue;
        char form[64];
        mica_weight_form_text(&step->src[i].matrix->form, form, sizeof(form));
        if (strcmp(form, last) == 0) continue;
        size_t used = strlen(out);
        snprintf(out + used, n - used, "%s%s", used ? " + " : "", form);
        memcpy(last, form, sizeof(last));
    }
}

static void fill_row(const plan *p, int32_t s, const int64_t *sym, row_cells cells) {
    const plan_step *step = &p->steps[s];
    snprintf(cells[COL_STEP], MAX_CELL, "%" PRId32, s);
    put(cells[COL_OP], mica_graph_op_name(step->op));
    put(cells[COL_NAME], step->name);
    mica_graph_type_text(&step->out.type, sym, cells[COL_OUT], MAX_CELL);
    put(cells[COL_KERNEL], step->kernel_name);
    weight_text(step, cells[COL_WEIGHT], MAX_CELL);
    snprintf(cells[COL_BYTES], MAX_CELL, "%" PRIu64, mica_plan_step_bytes(step, sym));
    cells[COL_AT][0] = '\0';
    if (step->out.space == PLAN_ARENA) {
        snprintf(cells[COL_AT], MAX_CELL, "%" PRIu64, step->out.offset);
    }
}

static void write_row(text *t, row_cells cells, const int *width) {
    for (int c = 0; c < N_COLS; c++) {
        int w = is_number(c) ? width[c] : -width[c];
        if (c == N_COLS - 1) w = is_number(c) ? width[c] : 0;
        appendf(t, "%s%*s", c ? "  " : "", w, cells[c]);
    }
    append(t, "\n", 1);
}

static void print_table(const plan *p, const int64_t *sym, text *t) {
    row_cells cells;
    int width[N_COLS];
    for (int c = 0; c < N_COLS; c++)
        width[c] = (int)strlen(headings[c]);
    for (int32_t s = 0; s < p->n_steps; s++) {
        fill_row(p, s, sym, cells);
        for (int c = 0; c < N_COLS; c++) {
            int n = (int)strlen(cells[c]);
            if (n > width[c]) width[c] = n;
        }
    }
    for (int c = 0; c < N_COLS; c++)
        put(cells[c], headings[c]);
    write_row(t, cells, width);
    for (int32_t s = 0; s < p->n_steps; s++) {
        fill_row(p, s, sym, cells);
        write_row(t, cells, width);
    }
    append(t, "\n", 1);
    append(t, p->passes, strlen(p->passes));
    appendf(t, "bytes: %" PRIu64 " a run, %" PRIu64 " of weights, %" PRIu64 " of arena\n",
            mica_plan_bytes(p, sym), mica_plan_weight_bytes(p), p->arena_bytes);
}

/* ---- JSON ---- */

static void json_type(json_writer *w, const graph_type *type, const int64_t *sym) {
    mica_json_member_cstring(w, "dtype", type->n_dims ? mica_dtype_name(type->dtype) : NULL);
    mica_json_key(w, "shape");
    mica_json_begin_array(w);
    for (int i = 0; i < type->n_dims; i++) {
        mica_json_put_i64(w, mica_graph_dim_size(type->dim[i], sym));
    }
    mica_json_end_array(w);
}

static void json_operand(json_writer *w, const plan *p, const plan_operand *o, const int64_t *sym) {
    static const char *const spaces[] = {"none", "arena", "input", "const", "weight", "cache"};
    mica_json_begin_object(w);
    mica_json_member_cstring(w, "in", spaces[o->space]);
    if (o->space != PLAN_NONE && o->space != PLAN_CACHE) json_type(w, &o->type, sym);
    if (o->space == PLAN_ARENA || o->space == PLAN_INPUT) {
        mica_json_member_u64(w, "offset", o->offset);
    }
    if (o->space == PLAN_INPUT) {
        mica_json_member_cstring(w, "name", p->inputs[o->slot].name);
    }
    if (o->space == PLAN_CACHE) {
        mica_json_member_i64(w, "layer", o->slot);
    }
    if (o->space == PLAN_WEIGHT) {
        char form[64];
        mica_weight_form_text(&o->matrix->form, form, sizeof(form));
        mica_json_member_cstring(w, "name", o->matrix->name);
        mica_json_member_cstring(w, "form", form);
    }
    mica_json_end_object(w);
}

static void json_step(json_writer *w, const plan *p, int32_t s, const int64_t *sym) {
    const plan_step *step = &p->steps[s];
    mica_json_begin_object(w);
    mica_json_member_i64(w, "step", s);
    mica_json_member_cstring(w, "op", mica_graph_op_name(step->op));
    mica_json_member_cstring(w, "name", step->name);
    mica_json_member_cstring(w, "kernel", step->kernel_name);
    mica_json_member_u64(w, "bytes", mica_plan_step_bytes(step, sym));
    mica_json_key(w, "out");
    json_operand(w, p, &step->out, sym);
    mica_json_key(w, "src");
    mica_json_begin_array(w);
    for (int i = 0; i < step->n_src; i++)
        json_operand(w, p, &step->src[i], sym);
    mica_json_end_array(w);
    mica_json_end_object(w);
}

static void json_passes(json_writer *w, const char *passes) {
    mica_json_begin_array(w);
    while (*passes) {
        size_t n = strcspn(passes, "\n");
        mica_json_put_string(w, passes, n);
        passes += n + (passes[n] == '\n');
    }
    mica_json_end_array(w);
}

static void print_json(const plan *p, const int64_t *sym, text *t) {
    json_writer w;
    mica_json_writer_init(&w, true);
    mica_json_begin_object(&w);
    mica_json_member_cstring(&w, "target", p->target->name);
    mica_json_member_u64(&w, "bytes", mica_plan_bytes(p, sym));
    mica_json_member_u64(&w, "weight_bytes", mica_plan_weight_bytes(p));
    mica_json_member_u64(&w, "arena_bytes", p->arena_bytes);
    mica_json_key(&w, "passes");
    json_passes(&w, p->passes);
    mica_json_key(&w, "steps");
    mica_json_begin_array(&w);
    for (int32_t s = 0; s < p->n_steps; s++)
        json_step(&w, p, s, sym);
    mica_json_end_array(&w);
    mica_json_end_object(&w);
    if (w.failed) t->failed = true;
    if (!w.failed) append(t, w.data, w.n);
    append(t, "\n", 1);
    mica_json_writer_deinit(&w);
}

mica_status mica_plan_print(const plan *p, const int64_t sym[GRAPH_N_SYMS], bool json, char **out,
                            mica_error *err) {
    text t = {.data = *out};
    t.n = *out ? strlen(*out) : 0;
    t.capacity = *out ? t.n + 1 : 0;
    if (json) print_json(p, sym, &t);
    if (!json) print_table(p, sym, &t);
    *out = t.data; /* also when it failed: it is still the caller's */
    return t.failed ? mica_fail(err, MICA_E_NOMEM, "plan: out of memory while printing") : MICA_OK;
}
