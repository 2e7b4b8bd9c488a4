/* i8_form.h: how a weight form is multiplied by quantized rows (graph/rows_i8.h).
 *
 * Codes are unsigned bytes: those of an affine form, or small integers looked up in a table plus a
 * zero point that makes them positive. A block is 32 elements, or 16 where the weight's group is
 * 16. It has one scale and the exact integer dot of its codes, and either a bias or, for the whole
 * matrix, a zero point that counts as taken from each code.
 */
#ifndef MICA_BACKEND_CPU_I8_FORM_H
#define MICA_BACKEND_CPU_I8_FORM_H

#include "backend/cpu/operand.h"
#include "graph/rows_i8.h"

typedef struct i8_form {
    int bits;
    int block;       /* 16 or 32 */
    int block_shift; /* group = block << block_shift */
    bool has_bias;   /* else there is a zero point, often 0 */
    bool is_table;
    bool is_wide;      /* codes above 127 */
    uint8_t table[16]; /* code -> integer + zero */
    int zero;          /* w = scale * unit * (code - zero) */
    float unit;
} i8_form;

/* 16 outputs as lanes, for a kernel that streams their codes. */
typedef struct i8_lanes {
    int64_t n_in, row_bytes, n_blocks;
    int64_t stride;               /* floats from the scales of a group to those of the next */
    const float *scales, *biases; /* [n_groups][16] */
} i8_lanes;

static inline const char *i8_declines_weight(const kernel_operand *w) {
    if (!w->matrix) return "the weight is not quantized";
    const weight_form *f = &w->matrix->form;
    if (f->kind == WEIGHT_DENSE) return "the weight is dense";
    if (f->kind == WEIGHT_TABLE && f->table == TABLE_E4M3)
        return "an e4m3 code is no small integer";
    if (f->bias == BIAS_ZERO && (f->zero > ROWS_I8_ZERO || (1 << f->bits) - f->zero > ROWS_I8_ZERO))
        return "codes more than 127 above the zero point, or a zero point above 128";
    if (f->kind == WEIGHT_AFFINE && f->bias == BIAS_NONE) return "codes without a zero point";
    if (f->scale == SCALE_TWO_LEVEL && f->group != 16 && f->group != 32)
        return "two-level scales for groups other than 16 or 32";
    return NULL;
}

static inline const char *i8_declines(const kernel_call *call) {
    bool is_pair = call->op == OP_GLU_MATMUL_I8 || call->op == OP_GLU_ROWS_I8;
    const char *why = i8_declines_weight(&call->src[1]);
    return why || !is_pair ? why : i8_declines_weight(&call->src[2]);
}

/* Of products of tiles (lever bf16), which take the same forms. */
static inline int bf16_n_weights(const kernel_call *call) {
    return call->op == OP_GLU_MATMUL_BF16 ? 2 : 1;
}
static inline bool bf16_is_added(const kernel_call *call) {
    return call->op == OP_MATMUL_BF16 && call->n_src > 2;
}

static inline i8_form i8_form_of(const weight_form *f) {
    i8_form r = {.bits = f->bits, .unit = 1.0f};
    r.block = f->group == 16 ? 16 : 32;
    while (r.block << r.block_shift < f->group)
        r.block_shift++;
    r.is_table = f->kind == WEIGHT_TABLE;
    r.has_bias = !r.is_table && f->bias != BIAS_NONE && f->bias != BIAS_ZERO;
    if (f->bias == BIAS_ZERO) r.zero = f->zero;
    r.is_wide = f->bits == 8;
    if (!r.is_table) return r;
    bool e2m1 = f->table == TABLE_E2M1; /* halves: 0, 0.5 ... 6 */
    r.unit = e2m1 ? 0.5f : 1.0f;
    r.zero = e2m1 ? 12 : 127;
    r.is_wide = !e2m1;
    for (int i = 0; i < 16; i++)
        r.table[i] =
            (uint8_t)(e2m1 ? 2.0f * mica_table_e2m1[i] + 12.0f : mica_table_iq4nl[i] + 127.0f);
    return r;
}

/* What a zero point makes of block b of the quantized row x: -zero times the sum of its codes. */
static inline int32_t i8_zero_dot(const i8_form *f, const uint8_t *x, int64_t n, int64_t b) {
    int32_t count;
    x += f->block == 32 ? rows_i8_counts(n) : rows_i8_half_counts(n);
    memcpy(&count, x + 4 * b, 4);
    return count / ROWS_I8_ZERO * f->zero;
}

#endif
