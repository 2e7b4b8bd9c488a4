/* cases_attention.c: random caches, block tables and rows for attention, and softmax in double.
 */
#include <math.h>

#include "backend/cpu/kv_access.h"
#include "check.h"
#include "graph/attention_parts.h"

/* Blocks lie in the pool in random order; entries before the first visible block may be -1. */
static void make_table(check_case *c, int32_t *table, int64_t n_seqs, int64_t n_blocks) {
    int64_t n = n_seqs * n_blocks;
    for (int64_t i = 0; i < n; i++)
        table[i] = (int32_t)i;
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = check_below(&c->rng, i + 1);
        int32_t t = table[i];
        table[i] = table[j];
        table[j] = t;
    }
}

static uint64_t make_layout(check_case *c, kv_layout *l) {
    static const int32_t dims[] = {16, 32, 48, 64, 80, 96, 128, 192, 256, 1, 7, 33};
    int64_t n_kv = check_between(&c->rng, 1, 3);
    *l = (kv_layout){.n_kv_heads = (int32_t)n_kv, .dtype = check_float_dtype(c)};
    l->head_dim = dims[check_below(&c->rng, 12)];
    l->v_head_dim = check_below(&c->rng, 3) ? l->head_dim : dims[check_below(&c->rng, 12)];
    uint64_t size = mica_dtype_bytes(l->dtype) * (uint64_t)n_kv * KV_BLOCK;
    l->k_bytes = size * (uint64_t)l->head_dim;
    l->v_in_k = l->v_head_dim <= l->head_dim && check_below(&c->rng, 4) == 0;
    l->block_bytes = (l->k_bytes + size * (uint64_t)l->v_head_dim + 63) / 64 * 64;
    if (l->v_in_k) l->block_bytes = l->k_bytes;
    return l->block_bytes;
}

static void make_rows(check_case *c, int64_t n_rows, int64_t n_seqs, int64_t n_keys) {
    int32_t *positions = check_operand_i32(c, ATT_POSITIONS, 1, &n_rows);
    int32_t *row_seq = check_operand_i32(c, ATT_ROW_SEQ, 1, &n_rows);
    int32_t *lo = check_operand_i32(c, ATT_SPAN_LO, 1, &n_rows);
    int32_t *hi = check_operand_i32(c, ATT_SPAN_HI, 1, &n_rows);
    for (int64_t r = 0; r < n_rows; r++) {
        positions[r] = (int32_t)check_below(&c->rng, n_keys);
        row_seq[r] = (int32_t)check_below(&c->rng, n_seqs);
        lo[r] = positions[r];
        hi[r] = positions[r] + 1;
        if (check_below(&c->rng, 5)) continue;
        lo[r] = (int32_t)check_between(&c->rng, 0, positions[r]);
        hi[r] = (int32_t)check_between(&c->rng, positions[r] + 1, n_keys);
    }
}

/* Of an element of a row of parts: its part of a head, and what keys that part has. */
static int64_t place_of(const check_case *c, int64_t i) {
    int64_t dv = c->attr.attention.layout.v_head_dim, n = c->call.out.dim[1] / (dv + 2);
    return i < n * dv ? i / dv : (i - n * dv) % n;
}

static key_range part_at(const check_case *c, int64_t row, int64_t place) {
    int64_t n_heads = c->call.src[ATT_Q].dim[1];
    int64_t n_parts = attention_n_parts(n_heads, c->attr.attention.layout.n_kv_heads);
    return part_of_keys(attention_row_of(&c->call, row).keys, place % n_parts, n_parts);
}

/* A part without keys has a maximum and a sum, and no total. */
static bool is_set_part(const check_case *c, int64_t row, int64_t i) {
    key_range keys = part_at(c, row, place_of(c, i));
    int64_t dv = c->attr.attention.layout.v_head_dim;
    return keys.lo < keys.hi || i >= c->call.out.dim[1] / (dv + 2) * dv;
}

static void make_attention(check_case *c) {
    static const int64_t lengths[] = {1, 63, 64, 65, 127, 128, 129, 200, 256, 300, 511, 1500};
    kv_layout l;
    uint64_t block_bytes = make_layout(c, &l);
    bool parts = c->call.op == OP_ATTENTION_PARTS;
    int64_t n_seqs = check_between(&c->rng, 1, 3);
    int64_t n_keys = lengths[check_below(&c->rng, parts ? 12 : 11)];
    int64_t n_blocks = (n_keys + KV_BLOCK - 1) / KV_BLOCK, table[2] = {n_seqs, n_blocks};
    bool many = c->call.op == OP_FLASH_ATTENTION && check_below(&c->rng, 4) == 0;
    int64_t n_rows = check_below(&c->rng, many ? 120 : 6), group = check_between(&c->rng, 1, 4);
    if (parts && check_below(&c->rng, 3) == 0) group = check_between(&c->rng, 5, 20);
    int64_t q[3] = {n_rows, l.n_kv_heads * group, l.head_dim};
    int64_t out[2] = {n_rows, q[1] * l.v_head_dim};
    check_operand(c, ATT_Q, check_float_dtype(c), 3, q);
    size_t n_bytes = (size_t)block_bytes * (size_t)(n_seqs * n_blocks);
    c->call.src[ATT_CACHE].data = check_memory(c, n_bytes);
    check_fill_floats(c, c->call.src[ATT_CACHE].data, l.dtype,
                      (int64_t)(n_bytes / mica_dtype_bytes(l.dtype)));
    make_table(c, check_operand_i32(c, ATT_TABLE, 2, table), n_seqs, n_blocks);
    make_rows(c, n_rows, n_seqs, n_keys);
    c->call.n_src = ATT_SINKS + 1;
    if (check_below(&c->rng, 3) == 0) check_operand(c, ATT_SINKS, check_float_dtype(c), 1, &q[1]);
    if (parts) {
        int64_t n = q[1] * attention_n_parts(q[1], l.n_kv_heads);
        out[1] = attention_parts_length(n, l.v_head_dim);
        c->is_set = is_set_part;
    }
    check_output(c, parts ? MICA_F32 : check_float_dtype(c), 2, out);
    c->attr.attention.layout = l;
    c->attr.attention.scale = (float)(0.1 + 0.5 * fabs(check_uniform(&c->rng)));
    int32_t sign = check_below(&c->rng, 2) ? 1 : -1; /* sliding, or chunks */
    c->attr.attention.window =
        check_below(&c->rng, 2) ? 0 : sign * (int32_t)check_between(&c->rng, 1, 150);
    c->attr.attention.softcap = check_below(&c->rng, 3) ? 0.0f : 5.0f;
}

/* The scores of one head of one row, and how far the kernel's may be off: the dot's roundings
 * (cases_dense.c; one for each channel where a score is one sum), one for the scaled query, and
 * with a softcap the chain's six roundings to T. */
static double scores_in_double(const check_case *c, int64_t row, int64_t head, key_range keys,
                               const int32_t *table, double *s) {
    const kv_layout *l = &c->attr.attention.layout;
    int64_t kv = head / (c->call.src[ATT_Q].dim[1] / l->n_kv_heads);
    double cap = (double)c->attr.attention.softcap, worst = 0;
    bool flash = c->call.op != OP_ATTENTION;
    double unit = check_rounding(flash ? MICA_F32 : c->call.out.dtype, 1.0);
    double n_roundings = (double)l->head_dim;
    if (c->call.op != OP_FLASH_ATTENTION) n_roundings /= 16;
    for (int64_t j = keys.lo; j < keys.hi; j++) {
        const uint8_t *key = kv_key(l, c->call.src[ATT_CACHE].data, table[j / KV_BLOCK], kv, j);
        double sum = 0, size = 0;
        for (int64_t i = 0; i < l->head_dim; i++) {
            double product =
                check_at(&c->call.src[ATT_Q], row * c->call.src[ATT_Q].dim[1] + head, i) *
                (double)mica_load_f(key, l->dtype, (size_t)i) * (double)c->attr.attention.scale;
            sum += product;
            size += fabs(product);
        }
        double off = (n_roundings + 9) * CHECK_U * size + 0x1p-130;
        if (cap > 0) off += 2 * unit * size + 6 * unit * fmin(fabs(sum), cap) + unit * fabs(sum);
        s[j] = cap > 0 ? cap * tanh(sum / cap) : sum;
        if (off > worst) worst = off;
    }
    return worst;
}

/* A probability is off by twice the worst score's error (its own and that of the sum), the
 * rounding of s - max and the exponential's; sums add 128 roundings a tile and 5 a merge. The fused
 * exponential is 0 where it would be below exp(-86). */
#define LEAST_FUSED_EXP 4.5e-38
static void truth_attention(const check_case *c, double *want, double *bound) {
    const kv_layout *l = &c->attr.attention.layout;
    const kernel_operand *q = &c->call.src[ATT_Q], *sinks = &c->call.src[ATT_SINKS];
    int64_t n_heads = q->dim[1], dv = l->v_head_dim;
    double s[1024];
    for (int64_t u = 0; u < q->dim[0] * n_heads; u++) {
        int64_t head = u % n_heads, kv = head / (n_heads / l->n_kv_heads);
        attention_row row = attention_row_of(&c->call, u / n_heads);
        double worst = scores_in_double(c, u / n_heads, head, row.keys, row.table, s);
        double sink = sinks->data ? check_at(sinks, 0, head) : -INFINITY, max = sink, size = 0;
        for (int64_t j = row.keys.lo; j < row.keys.hi; j++)
            max = fmax(max, s[j]);
        double total = exp(sink - max), spread = fabs(max);
        for (int64_t j = row.keys.lo; j < row.keys.hi; j++) {
            spread = fmax(spread, fabs(s[j]));
            total += exp(s[j] - max);
        }
        double tiles = (double)(row.keys.hi - row.keys.lo) / ATTENTION_TILE + 2;
        double rel = 2.1 * worst + (4 * spread + 136 + 10 * tiles) * CHECK_U;
        double least = c->call.op == OP_ATTENTION ? 0 : LEAST_FUSED_EXP / total;
        for (int64_t i = 0; i < dv; i++) {
            double sum = 0, cut = 0;
            size = 0;
            for (int64_t j = row.keys.lo; j < row.keys.hi; j++) {
                const uint8_t *value =
                    kv_value(l, c->call.src[ATT_CACHE].data, row.table[j / KV_BLOCK], kv, j);
                double term =
                    exp(s[j] - max) / total * (double)mica_load_f(value, l->dtype, (size_t)i);
                sum += term;
                size += fabs(term);
                cut += least * fabs((double)mica_load_f(value, l->dtype, (size_t)i));
            }
            want[u * dv + i] = sum;
            bound[u * dv + i] = expm1(fmin(rel, 50)) * size + cut + 0x1p-140;
            bound[u * dv + i] += check_rounding(c->call.out.dtype, fabs(sum) + bound[u * dv + i]);
        }
    }
}

/* What a part of a head of a row is, relative to the maximum that the reference found: bounds as
 * above, without the division. Where scores may be off by so much that any key may be the largest,
 * a probability may be off by one. */
static void truth_part(const check_case *c, int64_t row, int64_t place, double *want,
                       double *bound) {
    const kv_layout *l = &c->attr.attention.layout;
    const kernel_operand *q = &c->call.src[ATT_Q], *sinks = &c->call.src[ATT_SINKS];
    int64_t dv = l->v_head_dim, n = c->call.out.dim[1] / (dv + 2), n_parts = n / q->dim[1];
    int64_t head = place / n_parts, kv = head / (q->dim[1] / l->n_kv_heads);
    key_range keys = part_at(c, row, place);
    const int32_t *table = attention_row_of(&c->call, row).table;
    double *max = want + attention_parts_max(n, dv) + place, s[2048];
    double *sum = want + attention_parts_sum(n, dv) + place;
    double *max_bound = bound + (max - want), *sum_bound = bound + (sum - want);
    bool has_sink = place % n_parts == 0 && sinks->data && keys.lo < keys.hi;
    double sink = has_sink ? check_at(sinks, 0, head) : -INFINITY, spread = fabs(sink);
    *max = sink;
    *sum = *max_bound = *sum_bound = 0;
    if (keys.lo >= keys.hi) return;
    if (!has_sink) spread = 0;
    double worst = scores_in_double(c, row, head, keys, table, s);
    for (int64_t j = keys.lo; j < keys.hi; j++) {
        *max = fmax(*max, s[j]);
        spread = fmax(spread, fabs(s[j]));
    }
    double got = check_at(&c->call.out, row, attention_parts_max(n, dv) + place);
    double tiles = (double)(keys.hi - keys.lo) / ATTENTION_TILE + 2;
    double rel = 2.1 * worst + (4 * spread + 136 + 10 * tiles) * CHECK_U;
    *max_bound = worst + spread * CHECK_U;
    *sum = exp(sink - got);
    for (int64_t j = keys.lo; j < keys.hi; j++)
        *sum += exp(s[j] - got);
    double any = rel > 50;
    *sum_bound = expm1(fmin(rel, 50)) * *sum + any * (double)(keys.hi - keys.lo) + 0x1p-140;
    for (int64_t i = 0; i < dv; i++) {
        double size = 0, total = 0;
        for (int64_t j = keys.lo; j < keys.hi; j++) {
            const uint8_t *value =
                kv_value(l, c->call.src[ATT_CACHE].data, table[j / KV_BLOCK], kv, j);
            double v = (double)mica_load_f(value, l->dtype, (size_t)i), p = exp(s[j] - got);
            total += p * v;
            size += fabs(v) * (any + expm1(fmin(rel, 50)) * p + LEAST_FUSED_EXP);
        }
        want[place * dv + i] = total;
        bound[place * dv + i] = size + 0x1p-140;
    }
}

static void truth_parts(const check_case *c, double *want, double *bound) {
    int64_t width = c->call.out.dim[1], n = width / (c->attr.attention.layout.v_head_dim + 2);
    for (int64_t r = 0; r < c->call.out.dim[0]; r++)
        for (int64_t place = 0; place < n; place++)
            truth_part(c, r, place, want + r * width, bound + r * width);
}

/* Parts as some rows leave them: the first few of each head have keys. */
static void make_join(check_case *c) {
    kv_layout l;
    make_layout(c, &l);
    int64_t n_rows = check_below(&c->rng, 6);
    int64_t n_heads = l.n_kv_heads * check_between(&c->rng, 1, 20), dv = l.v_head_dim;
    int64_t n_parts = attention_n_parts(n_heads, l.n_kv_heads), n = n_heads * n_parts;
    int64_t parts[2] = {n_rows, attention_parts_length(n, dv)}, out[2] = {n_rows, n_heads * dv};
    check_operand(c, 0, MICA_F32, 2, parts);
    for (int64_t r = 0; r < n_rows; r++) {
        float *row = (float *)c->call.src[0].data + operand_row(&c->call.src[0], r);
        int64_t n_used = check_between(&c->rng, 0, n_parts);
        for (int64_t i = 0; i < n; i++) {
            bool used = i % n_parts < n_used;
            row[attention_parts_max(n, dv) + i] =
                used ? (float)(20 * check_uniform(&c->rng)) : -INFINITY;
            row[attention_parts_sum(n, dv) + i] =
                used ? (float)(100 * fabs(check_uniform(&c->rng))) : 0.0f;
        }
    }
    check_output(c, check_float_dtype(c), 2, out);
    c->attr.attention.layout = l;
}

/* Every factor is off by the rounding of its argument (at most 40) and the exponential's; a sum has
 * one rounding a part, the products and the division one each. */
static void truth_join(const check_case *c, double *want, double *bound) {
    int64_t dv = c->attr.attention.layout.v_head_dim, n_heads = c->call.out.dim[1] / dv;
    int64_t n_parts = attention_n_parts(n_heads, c->attr.attention.layout.n_kv_heads);
    int64_t n = n_heads * n_parts;
    for (int64_t u = 0; u < c->call.out.dim[0] * n_heads; u++) {
        int64_t r = u / n_heads, first = u % n_heads * n_parts;
        double largest = -INFINITY, total = 0, rel = (2 * 40 + 10 + 2.0 * 32) * CHECK_U;
        const kernel_operand *parts = &c->call.src[0];
        for (int64_t p = first; p < first + n_parts; p++)
            largest = fmax(largest, check_at(parts, r, attention_parts_max(n, dv) + p));
        for (int64_t p = first; p < first + n_parts; p++)
            total += check_at(parts, r, attention_parts_sum(n, dv) + p) *
                     exp(check_at(parts, r, attention_parts_max(n, dv) + p) - largest);
        for (int64_t i = 0; i < dv; i++) {
            double sum = 0, size = 0;
            for (int64_t p = first; p < first + n_parts; p++) {
                if (check_at(parts, r, attention_parts_sum(n, dv) + p) == 0) continue;
                double term = check_at(parts, r, p * dv + i) *
                              exp(check_at(parts, r, attention_parts_max(n, dv) + p) - largest);
                sum += term;
                size += fabs(term);
            }
            double *w = &want[u * dv + i], *b = &bound[u * dv + i];
            *w = total > 0 ? sum / total : 0;
            *b = total > 0 ? 2 * rel * size / total + 0x1p-126 : 0;
            *b += check_rounding(c->call.out.dtype, fabs(*w) + *b);
        }
    }
}

static void make_kv_write(check_case *c) {
    kv_layout l;
    uint64_t block_bytes = make_layout(c, &l);
    int64_t n_rows = check_below(&c->rng, 8), n_blocks = check_between(&c->rng, 1, 4);
    int64_t k[3] = {n_rows, l.n_kv_heads, l.head_dim}, v[3] = {n_rows, l.n_kv_heads, l.v_head_dim};
    c->effect_bytes = (size_t)block_bytes * (size_t)n_blocks;
    c->effect = check_memory(c, c->effect_bytes);
    for (size_t i = 0; i < c->effect_bytes; i++)
        c->effect[i] = (uint8_t)check_random(&c->rng);
    c->call.src[0].data = c->effect;
    check_operand(c, 1, check_float_dtype(c), 3, k);
    check_operand(c, 2, check_float_dtype(c), 3, v);
    int32_t *slots = check_operand_i32(c, 3, 1, &n_rows);
    for (int64_t r = 0; r < n_rows; r++)
        slots[r] =
            check_below(&c->rng, 6)
                ? (int32_t)(check_below(&c->rng, n_blocks) * KV_BLOCK + (r * 9 + 5) % KV_BLOCK)
                : -1;
    c->attr.cache.layout = l;
}

const check_op check_ops_attention[] = {
    {"attention", OP_ATTENTION, 300, make_attention, truth_attention},
    {"flash_attention", OP_FLASH_ATTENTION, 300, make_attention, truth_attention},
    {"attention_parts", OP_ATTENTION_PARTS, 300, make_attention, truth_parts},
    {"attention_join", OP_ATTENTION_JOIN, 100, make_join, truth_join},
    {"kv_write", OP_KV_WRITE, 60, make_kv_write, NULL},
};
const int check_n_ops_attention = sizeof(check_ops_attention) / sizeof(check_ops_attention[0]);
