/* forms.c: every weight form, and random matrices of each.
 */
#include <math.h>

#include "check.h"

static const uint8_t all_bits[] = {2, 3, 4, 5, 6, 8};
static const uint16_t all_groups[] = {16, 32, 64, 128};

/* The plain affine forms come as bits x group x scale kind x bias kind. */
#define N_PLAIN (6 * 4 * 3 * 3)

static const weight_form others[] = {
    {.kind = WEIGHT_DENSE, .dtype = MICA_F32},
    {.kind = WEIGHT_DENSE, .dtype = MICA_BF16},
    {.kind = WEIGHT_DENSE, .dtype = MICA_F16},
    {.kind = WEIGHT_AFFINE,
     .bits = 2,
     .group = 16,
     .scale = SCALE_TWO_LEVEL,
     .bias = BIAS_TWO_LEVEL,
     .sub_bits = 4},
    {.kind = WEIGHT_AFFINE,
     .bits = 3,
     .group = 16,
     .scale = SCALE_TWO_LEVEL,
     .bias = BIAS_ZERO,
     .zero = 4,
     .sub_bits = 6,
     .sub_zero = 32},
    {.kind = WEIGHT_AFFINE,
     .bits = 4,
     .group = 32,
     .scale = SCALE_TWO_LEVEL,
     .bias = BIAS_TWO_LEVEL,
     .sub_bits = 6},
    {.kind = WEIGHT_AFFINE,
     .bits = 5,
     .group = 32,
     .scale = SCALE_TWO_LEVEL,
     .bias = BIAS_TWO_LEVEL,
     .sub_bits = 6},
    {.kind = WEIGHT_AFFINE,
     .bits = 6,
     .group = 16,
     .scale = SCALE_TWO_LEVEL,
     .bias = BIAS_ZERO,
     .zero = 32,
     .sub_bits = 8,
     .sub_zero = 128},
    {.kind = WEIGHT_TABLE, .bits = 4, .group = 32, .scale = SCALE_E8M0, .table = TABLE_E2M1},
    {.kind = WEIGHT_TABLE, .bits = 4, .group = 16, .scale = SCALE_E4M3, .table = TABLE_E2M1},
    {.kind = WEIGHT_TABLE, .bits = 8, .group = 32, .scale = SCALE_E8M0, .table = TABLE_E4M3},
    {.kind = WEIGHT_TABLE, .bits = 8, .group = 128, .scale = SCALE_F32, .table = TABLE_E4M3},
    {.kind = WEIGHT_AFFINE,
     .bits = 4,
     .group = 128,
     .scale = SCALE_BF16,
     .bias = BIAS_ZERO,
     .zero = 8},
    {.kind = WEIGHT_AFFINE,
     .bits = 8,
     .group = 64,
     .scale = SCALE_F32,
     .bias = BIAS_ZERO,
     .zero = 128},
    {.kind = WEIGHT_TABLE, .bits = 4, .group = 32, .scale = SCALE_F16, .table = TABLE_IQ4NL},
    {.kind = WEIGHT_TABLE,
     .bits = 4,
     .group = 32,
     .scale = SCALE_TWO_LEVEL,
     .table = TABLE_IQ4NL,
     .sub_bits = 6,
     .sub_zero = 32},
};
#define N_OTHERS (int)(sizeof(others) / sizeof(others[0]))

int check_form_count(void) { return N_PLAIN * 3 / 2; }

/* Every third form is one of the others, so that these few come often. */
void check_form_at(int i, weight_form *form) {
    static const scale_kind scales[] = {SCALE_F32, SCALE_F16, SCALE_BF16};
    static const bias_kind biases[] = {BIAS_GROUP, BIAS_ZERO, BIAS_NONE};
    if (i % 3 == 0) {
        *form = others[i / 3 % N_OTHERS];
        return;
    }
    int plain = i - i / 3 - 1;
    *form = (weight_form){.kind = WEIGHT_AFFINE};
    form->bits = all_bits[plain % 6];
    form->group = all_groups[plain / 6 % 4];
    form->scale = scales[plain / 24 % 3];
    form->bias = biases[plain / 72];
    form->zero = (uint8_t)(1u << (form->bits - 1));
}

double check_weight_at(const kernel_operand *w, int64_t row, int64_t i, double *size) {
    if (!w->matrix || w->matrix->form.kind == WEIGHT_DENSE) {
        double v = w->matrix ? mica_load_f(w->matrix->codes + (size_t)row * w->matrix->row_bytes,
                                           w->matrix->form.dtype, (size_t)i)
                             : check_at(w, row, i);
        *size = fabs(v);
        return v;
    }
    const weight_matrix *m = w->matrix;
    static const float *const tables[] = {mica_table_e2m1, mica_table_e4m3, mica_table_iq4nl};
    uint32_t code = mica_weight_code(m, row, i);
    float s, b;
    mica_weight_group(m, row, i / m->form.group, &s, &b);
    double product =
        (double)s * (m->form.kind == WEIGHT_TABLE ? (double)tables[m->form.table][code] : code);
    *size = fabs(product) + fabs((double)b);
    return product + (double)b;
}

int64_t check_form_unit(const weight_form *form) {
    if (form->kind == WEIGHT_DENSE) return 1;
    return form->scale == SCALE_TWO_LEVEL ? WEIGHT_SUPER : form->group;
}

static void fill_bytes(check_case *c, uint8_t *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)check_random(&c->rng);
}

/* Scales whose decoded values are finite (unless specials are wanted) and of ordinary size. */
static uint8_t *scale_bytes(check_case *c, scale_kind kind, int64_t n, size_t n_bytes) {
    uint8_t *p = check_memory(c, n_bytes);
    if (kind == SCALE_F32 || kind == SCALE_F16 || kind == SCALE_BF16) {
        mica_dtype t = kind == SCALE_F32 ? MICA_F32 : kind == SCALE_F16 ? MICA_F16 : MICA_BF16;
        for (int64_t i = 0; i < n; i++) {
            double v = check_below(&c->rng, 30) ? check_uniform(&c->rng) : 1e-7;
            mica_store_f(p, t, (size_t)i, (float)v);
        }
        return p;
    }
    fill_bytes(c, p, n_bytes);
    if (kind == SCALE_TWO_LEVEL) return p;
    for (size_t i = 0; i < n_bytes; i++) {
        if (kind == SCALE_E8M0) p[i] = (uint8_t)(p[i] % 16 == 0 ? 0 : 112 + p[i] % 32);
        if (kind == SCALE_E4M3 && (p[i] & 0x7F) == 0x7F) p[i] = 0x38;
    }
    return p;
}

static size_t scale_row_bytes(const weight_form *f, int64_t n_groups) {
    switch (f->scale) {
    case SCALE_F32:
        return 4 * (size_t)n_groups;
    case SCALE_F16:
    case SCALE_BF16:
        return 2 * (size_t)n_groups;
    case SCALE_TWO_LEVEL:
        return (size_t)n_groups * f->sub_bits / 8;
    default:
        return (size_t)n_groups;
    }
}

/* Half of the matrices with e4m3 scales have a factor for each expert. */
static void make_globals(check_case *c, weight_matrix *m, int64_t n_rows) {
    if (m->form.scale != SCALE_E4M3 || check_below(&c->rng, 2)) return;
    int64_t n = n_rows / m->n_out;
    uint8_t *globals = check_memory(c, 4 * (size_t)n);
    for (int64_t e = 0; e < n; e++)
        mica_store_f(globals, MICA_F32, (size_t)e, (float)check_uniform(&c->rng));
    m->globals = (const float *)(const void *)globals;
}

static void make_quantized(check_case *c, weight_matrix *m, int64_t n_rows) {
    const weight_form *f = &m->form;
    int64_t n_groups = m->n_in / f->group;
    m->row_bytes = (size_t)m->n_in * f->bits / 8;
    m->scale_bytes = scale_row_bytes(f, n_groups);
    size_t n_codes = m->row_bytes * (size_t)n_rows, n_scales = m->scale_bytes * (size_t)n_rows;
    uint8_t *codes = check_memory(c, n_codes);
    fill_bytes(c, codes, n_codes);
    for (size_t i = 0; i < n_codes && f->table == TABLE_E4M3; i++)
        if ((codes[i] & 0x7F) == 0x7F) codes[i] = 0x01;
    m->codes = codes;
    m->scales = scale_bytes(c, f->scale, n_groups * n_rows, n_scales);
    if (f->bias == BIAS_GROUP || f->bias == BIAS_TWO_LEVEL)
        m->biases = scale_bytes(c, f->scale, n_groups * n_rows, n_scales);
    make_globals(c, m, n_rows);
    if (f->scale != SCALE_TWO_LEVEL) return;
    int64_t n_supers = m->n_in / WEIGHT_SUPER * n_rows;
    m->supers = scale_bytes(c, SCALE_F16, n_supers, 2 * (size_t)n_supers);
    if (f->bias == BIAS_TWO_LEVEL)
        m->super_biases = scale_bytes(c, SCALE_F16, n_supers, 2 * (size_t)n_supers);
}

/* Rows of a stream, behind `lane` rows of something else, in panels. */
static const uint8_t *panels_of(check_case *c, const uint8_t *rows, size_t row_bytes, size_t word,
                                int64_t n_rows, int64_t lane) {
    if (!rows) return NULL;
    int64_t n_all = (lane + n_rows + WEIGHT_PANEL - 1) / WEIGHT_PANEL * WEIGHT_PANEL;
    uint8_t *to = check_memory(c, (size_t)n_all * row_bytes);
    memset(to, 0x35, (size_t)n_all * row_bytes);
    for (int64_t r = 0; r < n_rows; r++)
        for (size_t k = 0; k < row_bytes; k++) {
            size_t panel = (size_t)(lane + r) / WEIGHT_PANEL * WEIGHT_PANEL * row_bytes;
            size_t place = k / word * WEIGHT_PANEL + (size_t)(lane + r) % WEIGHT_PANEL;
            to[panel + place * word + k % word] = rows[(size_t)r * row_bytes + k];
        }
    return to;
}

/* Half of the matrices lie in panels, one in six from the middle of one on. They hold the same
 * numbers, so this draws nothing from the case's own numbers. */
static void lay_in_panels(check_case *c, weight_matrix *m, int slot, int64_t n_rows) {
    static const size_t words[] = {[SCALE_F32] = 4,  [SCALE_F16] = 2,  [SCALE_BF16] = 2,
                                   [SCALE_E8M0] = 1, [SCALE_E4M3] = 1, [SCALE_TWO_LEVEL] = 2};
    check_rng rng = {c->rng.state + (uint64_t)slot};
    int64_t way = c->panels == CHECK_PANELS ? 1 : check_below(&rng, 6);
    if (c->panels == CHECK_ROWS || way > 2 || m->n_in % 32 || m->globals) return;
    int64_t lane = way ? 0 : check_below(&rng, 16);
    size_t word = words[m->form.scale], supers = 2 * (size_t)(m->n_in / WEIGHT_SUPER);
    m->panels = true;
    m->first_lane = (uint8_t)lane;
    m->codes = panels_of(c, m->codes, m->row_bytes, 4, n_rows, lane);
    m->scales = panels_of(c, m->scales, m->scale_bytes, word, n_rows, lane);
    m->biases = panels_of(c, m->biases, m->scale_bytes, word, n_rows, lane);
    m->supers = panels_of(c, m->supers, supers, 2, n_rows, lane);
    m->super_biases = panels_of(c, m->super_biases, supers, 2, n_rows, lane);
}

void check_weight(check_case *c, int i, int slot, int64_t n_experts, int64_t n_out, int64_t *n_in) {
    kernel_operand *o = &c->call.src[i];
    weight_matrix *m = &c->matrix[slot];
    bool plain = n_experts == 0;
    int64_t experts = plain ? 1 : n_experts;
    memset(m, 0, sizeof(*m));
    check_form_at((c->index + 7 * slot) % check_form_count(), &m->form);
    int64_t unit = check_form_unit(&m->form);
    if (slot == 0)
        *n_in = (*n_in + unit - 1) / unit * unit;
    else if (*n_in % unit)
        m->form = c->matrix[0].form;
    int64_t dims[3] = {experts, n_out, *n_in};
    if (m->form.kind == WEIGHT_DENSE && check_below(&c->rng, 3) == 0) {
        check_operand(c, i, m->form.dtype, plain ? 2 : 3, plain ? dims + 1 : dims);
        return;
    }
    m->n_experts = experts;
    m->n_out = n_out;
    m->n_in = *n_in;
    if (m->form.kind == WEIGHT_DENSE) {
        m->row_bytes = (size_t)*n_in * mica_dtype_bytes(m->form.dtype);
        uint8_t *p = check_memory(c, m->row_bytes * (size_t)(experts * n_out));
        check_fill_floats(c, p, m->form.dtype, *n_in * experts * n_out);
        m->codes = p;
    } else {
        make_quantized(c, m, experts * n_out);
        lay_in_panels(c, m, slot, experts * n_out);
    }
    o->matrix = m;
    o->n_dims = plain ? 2 : 3;
    for (int d = 0; d < o->n_dims; d++)
        o->dim[d] = dims[plain ? d + 1 : d];
    if (c->call.n_src <= i) c->call.n_src = i + 1;
}
