/* matmul.h: matmul and the gated pair of matmuls, once for every ISA (see weight_rows.h).
 *
 * Unit: 16 outputs. With at most 4 rows of x the weights are read from their codes straight into
 * the sums; with more, the 16 weight rows are expanded once and multiplied in tiles of rows and
 * outputs. Both give each output the sums of lanes.h, so the number of rows changes no bit.
 */
#ifndef MICA_BACKEND_CPU_VECTOR_MATMUL_H
#define MICA_BACKEND_CPU_VECTOR_MATMUL_H

#include "backend/cpu/experts.h"
#include "backend/cpu/vector/activate.h"
#include "backend/cpu/vector/weight_rows.h"

#define UNIT_OUTS 16
#define FEW_ROWS 4

static inline const char *declines_weight(const kernel_operand *w) {
    if (!w->matrix)
        return is_dense_row(w) ? NULL : "the elements of a weight row do not lie side by side";
    const weight_form *f = &w->matrix->form;
    if (f->kind != WEIGHT_DENSE && f->scale == SCALE_TWO_LEVEL && f->group != 16 && f->group != 32)
        return "two-level scales for groups other than 16 or 32";
    return NULL;
}

static inline const char *declines_matmul(const kernel_call *call) {
    if (!is_dense_row(&call->src[0]) || !is_dense_row(&call->out))
        return "the elements of a row do not lie side by side";
    const char *why = declines_weight(&call->src[1]);
    return why || call->op != OP_GLU_MATMUL ? why : declines_weight(&call->src[2]);
}

static inline int64_t n_units_outs(const kernel_call *call) {
    return (operand_width(&call->out) + UNIT_OUTS - 1) / UNIT_OUTS;
}

/* The scratch of one thread: rows of x, then for each weight its expanded rows, its sums
 * [FEW_ROWS][UNIT_OUTS], a panel and its scales. */
typedef struct matmul_space {
    int n_weights;
    int64_t n_in;
    float *x;
    float *rows[2], *sums[2];
    row_source source[2];
} matmul_space;

static inline size_t scratch_matmul(const kernel_call *call) {
    int n_w = call->op == OP_GLU_MATMUL ? 2 : 1;
    int64_t n_in = operand_width(&call->src[0]), n = FEW_ROWS * padded(n_in);
    for (int i = 0; i < n_w; i++)
        n += row_source_scratch(&call->src[1 + i], n_in) + held_floats(&call->src[1 + i]) +
             UNIT_OUTS * padded(n_in) + FEW_ROWS * UNIT_OUTS;
    return (size_t)n * sizeof(float);
}

static inline void matmul_space_init(matmul_space *s, const kernel_call *call, float *scratch) {
    s->n_weights = call->op == OP_GLU_MATMUL ? 2 : 1;
    s->n_in = operand_width(&call->src[0]);
    s->x = scratch;
    float *next = s->x + FEW_ROWS * padded(s->n_in);
    for (int i = 0; i < s->n_weights; i++) {
        s->rows[i] = next;
        s->sums[i] = s->rows[i] + UNIT_OUTS * padded(s->n_in);
        float *held = s->sums[i] + FEW_ROWS * UNIT_OUTS;
        float *scales = held + held_floats(&call->src[1 + i]);
        row_source_init(&s->source[i], &call->src[1 + i], s->n_in, scales);
        row_source_hold_at(&s->source[i], held);
        next = scales + row_source_scratch(&call->src[1 + i], s->n_in);
    }
}

/* x[i] points at row r + i in f32, padded to whole chunks: the row itself where it is that. Rows
 * past the last repeat it. */
static inline void gather_x(const kernel_call *call, const matmul_space *s, int64_t r, int n,
                            const float **x) {
    const kernel_operand *src = &call->src[0];
    int64_t n_rows = operand_rows(&call->out);
    for (int i = 0; i < n; i++) {
        int64_t row = r + i < n_rows ? r + i : n_rows - 1;
        const void *p = at(src->data, src->dtype, operand_row(src, row));
        if (src->dtype == MICA_F32 && s->n_in % 16 == 0) {
            x[i] = p;
            continue;
        }
        float *wide = s->x + i * padded(s->n_in);
        widen(p, src->dtype, s->n_in, wide);
        x[i] = wide;
    }
}

/* Stores sums [n][UNIT_OUTS] of outputs [o, o + n_outs) to rows [r, r + n). */
static inline void store_sums(const kernel_call *call, const matmul_space *s, int64_t r, int n,
                              int64_t o, int64_t n_outs) {
    const kernel_operand *out = &call->out;
    for (int i = 0; i < n; i++) {
        v16 y = v16_load(s->sums[0] + i * UNIT_OUTS);
        if (s->n_weights == 2) {
            v16 gate = v16_round_to(y, out->dtype);
            v16 up = v16_round_to(v16_load(s->sums[1] + i * UNIT_OUTS), out->dtype);
            y = v16_mul(v16_glu(call->attr->glu.act, gate, out->dtype), up);
        }
        void *p = at_mut(out->data, out->dtype, operand_row(out, r + i) + o);
        if (n_outs == UNIT_OUTS)
            v16_store_as(p, out->dtype, y);
        else
            v16_store_part(p, out->dtype, n_outs, y);
    }
}

static inline void unit_of_few(const kernel_call *call, matmul_space *s, int64_t n_rows,
                               const float *const *x, int64_t o, int64_t n_outs) {
    int n_x = n_rows > 2 ? 4 : (int)n_rows;
    int step = n_x == 1 ? 2 : 1; /* weight rows at a time */
    for (int w = 0; w < s->n_weights; w++)
        for (int64_t j = 0; j < n_outs; j += step) {
            float sums[FEW_ROWS];
            int64_t second = j + 1 < n_outs ? j + 1 : j;
            row_dot(&s->source[w], o + j, o + second, x, n_x, sums);
            s->sums[w][j] = sums[0];
            if (n_x == 1) s->sums[w][second] = sums[second - j];
            for (int i = 1; i < n_x; i++)
                s->sums[w][i * UNIT_OUTS + j] = sums[i];
        }
    store_sums(call, s, 0, (int)n_rows, o, n_outs);
}

/* sums of V16_TILE_ROWS rows of x and V16_TILE_OUTS expanded weight rows. */
static inline void tile(const float *const *x, const float *w, int64_t n, float *sums) {
    v16 acc[V16_TILE_ROWS][V16_TILE_OUTS];
#pragma GCC unroll 4
    for (int i = 0; i < V16_TILE_ROWS; i++)
#pragma GCC unroll 4
        for (int j = 0; j < V16_TILE_OUTS; j++)
            acc[i][j] = v16_zero();
    for (int64_t c = 0; c < n; c += 16) {
        v16 xs[V16_TILE_ROWS];
#pragma GCC unroll 4
        for (int i = 0; i < V16_TILE_ROWS; i++)
            xs[i] = v16_load(x[i] + c);
#pragma GCC unroll 4
        for (int j = 0; j < V16_TILE_OUTS; j++) {
            v16 wj = v16_load(w + j * n + c);
#pragma GCC unroll 4
            for (int i = 0; i < V16_TILE_ROWS; i++)
                acc[i][j] = v16_add(acc[i][j], v16_mul(xs[i], wj));
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < V16_TILE_ROWS; i++)
#pragma GCC unroll 4
        for (int j = 0; j < V16_TILE_OUTS; j++)
            sums[i * UNIT_OUTS + j] = v16_join(acc[i][j]);
}

static inline void unit_of_many(const kernel_call *call, matmul_space *s, int64_t n_rows, int64_t o,
                                int64_t n_outs) {
    int64_t n = padded(s->n_in);
    for (int w = 0; w < s->n_weights; w++)
        for (int64_t j = 0; j < UNIT_OUTS; j++) /* rows past the last repeat it */
            row_expand(&s->source[w], o + (j < n_outs ? j : n_outs - 1), s->rows[w] + j * n);
    for (int64_t r = 0; r < n_rows; r += V16_TILE_ROWS) {
        const float *x[FEW_ROWS];
        int n_here = n_rows - r < V16_TILE_ROWS ? (int)(n_rows - r) : V16_TILE_ROWS;
        gather_x(call, s, r, V16_TILE_ROWS, x);
        for (int w = 0; w < s->n_weights; w++)
            for (int64_t j = 0; j < UNIT_OUTS; j += V16_TILE_OUTS)
                tile(x, s->rows[w] + j * n, n, s->sums[w] + j);
        store_sums(call, s, r, n_here, o, n_outs);
    }
}

static inline void run_matmul(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    int64_t n_rows = operand_rows(&call->out), n_out = operand_width(&call->out);
    matmul_space s;
    if (n_rows == 0) return;
    matmul_space_init(&s, call, scratch);
    const float *x[FEW_ROWS];
    if (n_rows <= FEW_ROWS) gather_x(call, &s, 0, n_rows > 2 ? 4 : (int)n_rows, x);
    for (int64_t u = begin; u < end; u++) {
        int64_t o = u * UNIT_OUTS, n_outs = n_out - o < UNIT_OUTS ? n_out - o : UNIT_OUTS;
        for (int w = 0; w < s.n_weights; w++)
            row_source_hold(&s.source[w], o);
        if (n_rows <= FEW_ROWS)
            unit_of_few(call, &s, n_rows, x, o, n_outs);
        else
            unit_of_many(call, &s, n_rows, o, n_outs);
    }
}

/* ---- the same for experts ---- */

static const expert_kernel matmul_of_experts = {OP_MATMUL, 1, n_units_outs, run_matmul};
static const expert_kernel glu_of_experts = {OP_GLU_MATMUL, 2, n_units_outs, run_matmul};

static inline const expert_kernel *experts_of(const kernel_call *call) {
    return call->op == OP_EXPERT_MATMUL ? &matmul_of_experts : &glu_of_experts;
}

static inline int64_t n_units_experts(const kernel_call *call) {
    return expert_units(call, experts_of(call));
}

static inline size_t scratch_experts(const kernel_call *call) {
    return expert_scratch(call, experts_of(call), scratch_matmul);
}

static inline const char *declines_experts(const kernel_call *call) {
    return expert_declines(call, experts_of(call), declines_matmul);
}

static inline void run_experts(const kernel_call *call, int64_t begin, int64_t end, void *scratch) {
    expert_run(call, experts_of(call), begin, end, scratch);
}

#endif
