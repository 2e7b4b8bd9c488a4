/* repack.c: takes GGUF blocks apart into streams of codes, scales and biases
 * (docs/numerics.md 3.2).
 *
 * A row is a whole number of blocks, so the streams of a matrix are its blocks' parts in order;
 * only the order of bits changes, never a value or the size. One table row and one small function
 * that spells out the bit layout make a type. Rows may lie in panels (weights.h).
 */
#include "weights/repack.h"

#include <string.h>

#include "base/checked.h"

enum { STREAM_ALIGNMENT = 64 };

/* A block taken apart: one byte per code, per sub-scale and per sub-bias. */
typedef struct block_parts {
    uint8_t q[WEIGHT_SUPER];
    uint8_t sub[WEIGHT_SUPER / 16];
    uint8_t sub_bias[WEIGHT_SUPER / 16];
} block_parts;

typedef struct block_type {
    weight_form form;
    uint8_t q_off; /* byte offset of the low code bits; what else there is, `expand` knows */
    uint8_t d_off; /* of the (super-)scale */
    uint8_t m_off; /* of the (super-)bias, if the form stores one */
    void (*expand)(const uint8_t *block, const uint8_t *qs, block_parts *out);
    /* Bytes whose low nibbles are codes in order and whose high ones are those that follow, where
     * nothing but that is to be done; else 0. Only a shortcut for `expand` and packing. */
    uint8_t nibble_run;
} block_type;

static void expand_nibbles(const uint8_t *block, const uint8_t *qs, block_parts *out) {
    (void)block;
    for (int i = 0; i < 16; i++) {
        out->q[i] = qs[i] & 15;
        out->q[i + 16] = qs[i] >> 4;
    }
}

/* The fifth bits are a u32 just before the nibbles. */
static void expand_q5(const uint8_t *block, const uint8_t *qs, block_parts *out) {
    expand_nibbles(block, qs, out);
    for (int e = 0; e < 32; e++)
        out->q[e] |= (uint8_t)(((qs - 4)[e / 8] >> (e % 8) & 1) << 4);
}

static void expand_q8_0(const uint8_t *block, const uint8_t *qs, block_parts *out) {
    (void)block;
    for (int e = 0; e < 32; e++)
        out->q[e] = qs[e] ^ 0x80;
}

/* 2-bit codes, four to a byte: element e of a half of 128 is in byte e % 32, at bit 2 (e / 32). */
static void expand_crumbs(const uint8_t *qs, uint8_t *q) {
    for (int e = 0; e < 256; e++)
        q[e] = qs[32 * (e / 128) + e % 32] >> (2 * (e % 128 / 32)) & 3;
}

static void expand_q2_k(const uint8_t *block, const uint8_t *qs, block_parts *out) {
    expand_crumbs(qs, out->q);
    for (int j = 0; j < 16; j++) {
        out->sub[j] = block[j] & 15;
        out->sub_bias[j] = block[j] >> 4;
    }
}

static void expand_q3_k(const uint8_t *block, const uint8_t *qs, block_parts *out) {
    const uint8_t *hmask = block, *sc = block + 96;
    expand_crumbs(qs, out->q);
    for (int e = 0; e < 256; e++)
        out->q[e] |= (uint8_t)((hmask[e % 32] >> (e / 32) & 1) << 2);
    for (int j = 0; j < 16; j++) {
        int lo = j < 8 ? sc[j] & 15 : sc[j - 8] >> 4;
        int hi = sc[8 + j % 4] >> (2 * (j / 4)) & 3;
        out->sub[j] = (uint8_t)(lo | hi << 4);
    }
}

/* The nibbles and the twelve bytes of 6-bit scales and minima that Q4_K and Q5_K share. */
static void expand_q4_k(const uint8_t *block, const uint8_t *qs, block_parts *out) {
    const uint8_t *sc = block + 4;
    for (int e = 0; e < 256; e++)
        out->q[e] = qs[32 * (e / 64) + e % 32] >> (4 * (e % 64 / 32)) & 15;
    for (int j = 0; j < 4; j++) {
        out->sub[j] = sc[j] & 63;
        out->sub_bias[j] = sc[j + 4] & 63;
        out->sub[j + 4] = (uint8_t)((sc[j + 8] & 15) | sc[j] >> 6 << 4);
        out->sub_bias[j + 4] = (uint8_t)(sc[j + 8] >> 4 | sc[j + 4] >> 6 << 4);
    }
}

static void expand_q5_k(const uint8_t *block, const uint8_t *qs, block_parts *out) {
    const uint8_t *qh = block + 16;
    expand_q4_k(block, qs, out);
    for (int e = 0; e < 256; e++)
        out->q[e] |= (uint8_t)((qh[e % 32] >> (e / 32) & 1) << 4);
}

static void expand_q6_k(const uint8_t *block, const uint8_t *ql, block_parts *out) {
    const uint8_t *qh = block + 128, *sc = block + 192;
    for (int e = 0; e < 256; e++) {
        int half = e / 128, k = e % 128 / 32, l = e % 32;
        int lo = ql[64 * half + 32 * (k % 2) + l] >> (4 * (k / 2)) & 15;
        int hi = qh[32 * half + l] >> (2 * k) & 3;
        out->q[e] = (uint8_t)(lo | hi << 4);
    }
    for (int j = 0; j < 16; j++)
        out->sub[j] = sc[j] ^ 0x80; /* signed to offset by sub_zero = 128 */
}

static void expand_iq4_xs(const uint8_t *block, const uint8_t *qs, block_parts *out) {
    const uint8_t *sl = block + 4;
    unsigned sh = (unsigned)(block[2] | block[3] << 8);
    for (int i = 0; i < 8; i++) {
        for (int k = 0; k < 16; k++) {
            out->q[32 * i + k] = qs[16 * i + k] & 15;
            out->q[32 * i + k + 16] = qs[16 * i + k] >> 4;
        }
        out->sub[i] = (uint8_t)((sl[i / 2] >> (4 * (i % 2)) & 15) | (sh >> (2 * i) & 3) << 4);
    }
}

#define AFFINE .kind = WEIGHT_AFFINE, .storage_scales = true
#define TABLE .kind = WEIGHT_TABLE, .bits = 4, .group = 32, .storage_scales = true
#define SIMPLE(bits_, bias_, zero_) \
    { AFFINE, .bits = bits_, .group = 32, .scale = SCALE_F16, .bias = bias_, .zero = zero_ }
#define K_MIN(bits_, group_, sub_)                                                                \
    {                                                                                             \
        AFFINE, .bits = bits_, .group = group_, .scale = SCALE_TWO_LEVEL, .bias = BIAS_TWO_LEVEL, \
                .sub_bits = sub_                                                                  \
    }
#define K_ZERO(bits_, zero_, sub_, sub_zero_)                                            \
    {                                                                                    \
        AFFINE, .bits = bits_, .group = 16, .scale = SCALE_TWO_LEVEL, .bias = BIAS_ZERO, \
                .zero = zero_, .sub_bits = sub_, .sub_zero = sub_zero_                   \
    }

/* NULL: no block type. */
static const block_type *find_type(gguf_type type) {
    static const block_type types[] = {
        [GGUF_Q4_0] = {SIMPLE(4, BIAS_ZERO, 8), 2, 0, 0, expand_nibbles, 16},
        [GGUF_Q4_1] = {SIMPLE(4, BIAS_GROUP, 0), 4, 0, 2, expand_nibbles, 16},
        [GGUF_Q5_0] = {SIMPLE(5, BIAS_ZERO, 16), 6, 0, 0, expand_q5, 0},
        [GGUF_Q5_1] = {SIMPLE(5, BIAS_GROUP, 0), 8, 0, 2, expand_q5, 0},
        [GGUF_Q8_0] = {SIMPLE(8, BIAS_ZERO, 128), 2, 0, 0, expand_q8_0, 0},
        [GGUF_Q2_K] = {K_MIN(2, 16, 4), 16, 80, 82, expand_q2_k, 0},
        [GGUF_Q3_K] = {K_ZERO(3, 4, 6, 32), 32, 108, 0, expand_q3_k, 0},
        [GGUF_Q4_K] = {K_MIN(4, 32, 6), 16, 0, 2, expand_q4_k, 32},
        [GGUF_Q5_K] = {K_MIN(5, 32, 6), 48, 0, 2, expand_q5_k, 0},
        [GGUF_Q6_K] = {K_ZERO(6, 32, 8, 128), 0, 208, 0, expand_q6_k, 0},
        [GGUF_IQ4_NL] =
            {{TABLE, .scale = SCALE_F16, .table = TABLE_IQ4NL}, 2, 0, 0, expand_nibbles, 16},
        [GGUF_IQ4_XS] = {{TABLE, .scale = SCALE_TWO_LEVEL, .table = TABLE_IQ4NL, .sub_bits = 6,
                          .sub_zero = 32},
                         8,
                         0,
                         0,
                         expand_iq4_xs,
                         16},
        [GGUF_MXFP4] =
            {{TABLE, .scale = SCALE_E8M0, .table = TABLE_E2M1}, 1, 0, 0, expand_nibbles, 16},
    };
    size_t i = (size_t)type;
    return i < sizeof(types) / sizeof(*types) && types[i].expand ? &types[i] : NULL;
}

bool mica_gguf_form(gguf_type type, weight_form *out) {
    const block_type *t = find_type(type);
    if (t) {
        *out = t->form;
        return true;
    }
    if (type != GGUF_F32 && type != GGUF_F16 && type != GGUF_BF16) return false;
    mica_dtype dtype = type == GGUF_F32 ? MICA_F32 : type == GGUF_F16 ? MICA_F16 : MICA_BF16;
    *out = (weight_form){.kind = WEIGHT_DENSE, .dtype = dtype, .storage_scales = true};
    return true;
}

/* Bytes that one block adds to each stream. */
typedef struct block_bytes {
    size_t codes, scales, biases, supers, super_biases;
} block_bytes;

static block_bytes bytes_of(const weight_form *f, size_t n_elements) {
    size_t n_groups = n_elements / f->group;
    block_bytes b = {.codes = n_elements * f->bits / 8};
    if (f->scale == SCALE_TWO_LEVEL) {
        b.scales = n_groups * f->sub_bits / 8;
        b.supers = 2;
    } else {
        b.scales = n_groups * (f->scale == SCALE_F16 ? 2 : 1);
    }
    if (f->bias == BIAS_GROUP || f->bias == BIAS_TWO_LEVEL) b.biases = b.scales;
    if (f->bias == BIAS_TWO_LEVEL) b.super_biases = 2;
    return b;
}

static bool place(size_t *end, size_t *off, uint64_t n_blocks, size_t block_bytes_) {
    uint64_t n = 0;
    if (!mica_mul_u64(n_blocks, block_bytes_, &n) || n > SIZE_MAX / 8 || *end > SIZE_MAX / 2)
        return false;
    *off = *end;
    *end = mica_align_up(*end + (size_t)n, STREAM_ALIGNMENT);
    return true;
}

bool mica_repack_plan_streams(const size_t unit_bytes[REPACK_STREAMS], uint64_t n,
                              repack_plan *out) {
    repack_plan p = {0};
    size_t *offs[REPACK_STREAMS] = {&p.codes_off, &p.scales_off, &p.biases_off, &p.supers_off,
                                    &p.super_biases_off};
    for (int i = 0; i < REPACK_STREAMS; i++)
        if (!place(&p.n_bytes, offs[i], n, unit_bytes[i])) return false;
    *out = p;
    return true;
}

bool mica_repack_plan(gguf_type type, uint64_t n_blocks, repack_plan *out) {
    const block_type *t = find_type(type);
    if (!t) return false;
    block_bytes b = bytes_of(&t->form, mica_gguf_block((uint32_t)type).n_elements);
    const size_t sizes[] = {b.codes, b.scales, b.biases, b.supers, b.super_biases};
    return mica_repack_plan_streams(sizes, n_blocks, out);
}

void mica_repack_streams(gguf_type type, const repack_plan *plan, size_t off[REPACK_STREAMS],
                         size_t block_bytes_[REPACK_STREAMS]) {
    block_bytes b = bytes_of(&find_type(type)->form, mica_gguf_block((uint32_t)type).n_elements);
    const size_t offs[] = {plan->codes_off, plan->scales_off, plan->biases_off, plan->supers_off,
                           plan->super_biases_off};
    const size_t sizes[] = {b.codes, b.scales, b.biases, b.supers, b.super_biases};
    memcpy(off, offs, sizeof(offs));
    memcpy(block_bytes_, sizes, sizeof(sizes));
}

/* n is a multiple of 8: eight codes fill `bits` bytes. */
static inline void pack_eights(const uint8_t *q, size_t n, unsigned bits, uint8_t *out) {
    for (size_t i = 0; i < n; i += 8, out += bits) {
        uint64_t v = 0;
        for (unsigned k = 0; k < 8; k++)
            v |= (uint64_t)q[i + k] << (bits * k);
        for (unsigned k = 0; k < bits; k++)
            out[k] = (uint8_t)(v >> (8 * k));
    }
}

/* A width known to the compiler halves the time of a load. */
static void pack_bits(const uint8_t *q, size_t n, unsigned bits, uint8_t *out) {
    switch (bits) {
    case 2:
        pack_eights(q, n, 2, out);
        break;
    case 3:
        pack_eights(q, n, 3, out);
        break;
    case 4:
        pack_eights(q, n, 4, out);
        break;
    case 5:
        pack_eights(q, n, 5, out);
        break;
    case 6:
        pack_eights(q, n, 6, out);
        break;
    default:
        memcpy(out, q, n);
        break; /* 8 */
    }
}

/* Every second byte of a word, in order. */
static inline uint32_t even_bytes(uint64_t v) {
    v &= UINT64_C(0x00FF00FF00FF00FF);
    v = (v | v >> 8) & UINT64_C(0x0000FFFF0000FFFF);
    return (uint32_t)(v | v >> 16);
}

/* Runs of `run` bytes: first the low nibbles of all, then the high ones, two codes to a byte. */
static void split_nibbles(const uint8_t *from, size_t n_bytes, size_t run, uint8_t *out) {
    const uint64_t low = UINT64_C(0x0F0F0F0F0F0F0F0F);
    for (size_t i = 0; i < n_bytes; i += run, out += run)
        for (size_t k = 0; k < run; k += 8) {
            uint64_t v;
            memcpy(&v, from + i + k, 8);
            uint64_t a = v & low, b = v >> 4 & low;
            uint32_t lows = even_bytes(a | a >> 4), highs = even_bytes(b | b >> 4);
            memcpy(out + k / 2, &lows, 4);
            memcpy(out + run / 2 + k / 2, &highs, 4);
        }
}

/* What one block adds to each stream. */
typedef struct block_streams {
    uint8_t codes[WEIGHT_SUPER], scales[WEIGHT_SUPER / 16], biases[WEIGHT_SUPER / 16];
    uint8_t supers[2], super_biases[2];
} block_streams;

static void split_two_level(const block_type *t, const block_bytes *b, size_t n_groups,
                            const uint8_t *block, const block_parts *parts, block_streams *out) {
    pack_bits(parts->sub, n_groups, t->form.sub_bits, out->scales);
    memcpy(out->supers, block + t->d_off, b->supers);
    if (t->form.bias != BIAS_TWO_LEVEL) return;
    pack_bits(parts->sub_bias, n_groups, t->form.sub_bits, out->biases);
    memcpy(out->super_biases, block + t->m_off, b->super_biases);
}

static bool is_two_level(const block_type *t) { return t->form.scale == SCALE_TWO_LEVEL; }

/* All that a block does not hold as it is wanted: codes but for nibbles in runs, and sub-scales. */
static void split_block(const block_type *t, const block_bytes *b, size_t n_elements,
                        const uint8_t *block, block_streams *out) {
    block_parts parts;
    if (t->nibble_run && !is_two_level(t)) return;
    t->expand(block, block + t->q_off, &parts);
    if (!t->nibble_run) pack_bits(parts.q, n_elements, t->form.bits, out->codes);
    if (is_two_level(t)) split_two_level(t, b, n_elements / t->form.group, block, &parts, out);
}

/* ---- rows one after the other ---- */

static void repack_rows(const block_type *t, const block_bytes *b, gguf_block size,
                        const uint8_t *blocks, uint64_t first, uint64_t n_blocks,
                        const repack_plan *plan, uint8_t *base) {
    for (uint64_t i = first; i < first + n_blocks; i++, blocks += size.n_bytes) {
        block_streams s;
        split_block(t, b, size.n_elements, blocks, &s);
        if (t->nibble_run)
            split_nibbles(blocks + t->q_off, size.n_elements / 2, t->nibble_run, s.codes);
        memcpy(base + plan->codes_off + i * b->codes, s.codes, b->codes);
        const uint8_t *scales = is_two_level(t) ? s.scales : blocks + t->d_off;
        const uint8_t *biases = is_two_level(t) ? s.biases : blocks + t->m_off;
        memcpy(base + plan->scales_off + i * b->scales, scales, b->scales);
        memcpy(base + plan->biases_off + i * b->biases, biases, b->biases);
        memcpy(base + plan->supers_off + i * b->supers, s.supers, b->supers);
        memcpy(base + plan->super_biases_off + i * b->super_biases, s.super_biases,
               b->super_biases);
    }
}

/* ---- panels: the 16 blocks of a column at once ---- */

/* Codes 0, 1, 2, 3 in the low nibbles of four bytes, as 16 bits. */
static inline uint32_t join_nibbles(uint32_t v) {
    v &= 0x0F0F0F0Fu;
    v = (v | v >> 4) & 0x00FF00FFu;
    return (v | v >> 8) & 0xFFFFu;
}

/* split_nibbles of 16 blocks `stride` bytes apart, word by word; the loops over 16 are vectors. */
static void weave_nibbles(const uint8_t *qs, size_t stride, size_t n_bytes, size_t run,
                          uint8_t *out) {
    for (size_t i = 0; i < n_bytes; i += run, out += run * WEIGHT_PANEL)
        for (size_t k = 0; k < run; k += 8) {
            uint32_t a[WEIGHT_PANEL], b[WEIGHT_PANEL], low[WEIGHT_PANEL], high[WEIGHT_PANEL];
            for (size_t j = 0; j < WEIGHT_PANEL; j++) {
                memcpy(&a[j], qs + j * stride + i + k, 4);
                memcpy(&b[j], qs + j * stride + i + k + 4, 4);
            }
            for (size_t j = 0; j < WEIGHT_PANEL; j++) {
                low[j] = join_nibbles(a[j]) | join_nibbles(b[j]) << 16;
                high[j] = join_nibbles(a[j] >> 4) | join_nibbles(b[j] >> 4) << 16;
            }
            memcpy(out + k / 8 * sizeof(low), low, sizeof(low));
            memcpy(out + (run + k) / 8 * sizeof(high), high, sizeof(high));
        }
}

/* The n bytes that each of 16 rows adds to a stream, from places `stride` bytes apart. */
static inline void weave_words(const uint8_t *from, size_t stride, size_t n, size_t word,
                               uint8_t *out) {
    for (size_t i = 0; i < n; i += word)
        for (size_t j = 0; j < WEIGHT_PANEL; j++, out += word)
            memcpy(out, from + j * stride + i, word);
}

static void weave(const uint8_t *from, size_t stride, size_t n, size_t word, uint8_t *out) {
    if (word == 4)
        weave_words(from, stride, n, 4, out);
    else if (word == 2)
        weave_words(from, stride, n, 2, out);
    else
        weave_words(from, stride, n, 1, out);
}

/* Column `at` of the panel that begins with row `row`. */
static void repack_column(const block_type *t, const block_bytes *b, gguf_block size,
                          const uint8_t *blocks, uint64_t row, uint64_t at, const repack_plan *plan,
                          uint8_t *base) {
    block_streams s[WEIGHT_PANEL];
    const size_t stride = (size_t)plan->row_blocks * size.n_bytes;
    const size_t word = mica_weight_scale_word(&t->form);
    const uint64_t place = row * plan->row_blocks + at * WEIGHT_PANEL; /* in blocks */
    uint8_t *codes = base + plan->codes_off + place * b->codes;
    blocks += at * size.n_bytes;
    for (size_t j = 0; j < WEIGHT_PANEL; j++)
        split_block(t, b, size.n_elements, blocks + j * stride, &s[j]);
    if (t->nibble_run)
        weave_nibbles(blocks + t->q_off, stride, size.n_elements / 2, t->nibble_run, codes);
    else
        weave(s->codes, sizeof(*s), b->codes, 4, codes);
    uint8_t *scales = base + plan->scales_off + place * b->scales;
    uint8_t *biases = base + plan->biases_off + place * b->biases;
    if (is_two_level(t)) {
        weave(s->scales, sizeof(*s), b->scales, 2, scales);
        weave(s->biases, sizeof(*s), b->biases, 2, biases);
    } else {
        weave(blocks + t->d_off, stride, b->scales, word, scales);
        weave(blocks + t->m_off, stride, b->biases, word, biases);
    }
    weave(s->supers, sizeof(*s), b->supers, 2, base + plan->supers_off + place * b->supers);
    weave(s->super_biases, sizeof(*s), b->super_biases, 2,
          base + plan->super_biases_off + place * b->super_biases);
}

void mica_repack(gguf_type type, const uint8_t *blocks, uint64_t first, uint64_t n_blocks,
                 const repack_plan *plan, uint8_t *base) {
    const block_type *t = find_type(type);
    const gguf_block size = mica_gguf_block((uint32_t)type);
    const block_bytes b = bytes_of(&t->form, size.n_elements);
    const uint64_t n = plan->row_blocks;
    if (!n) {
        repack_rows(t, &b, size, blocks, first, n_blocks, plan, base);
        return;
    }
    for (uint64_t row = first / n; row < (first + n_blocks) / n; row += WEIGHT_PANEL) {
        for (uint64_t at = 0; at < n; at++)
            repack_column(t, &b, size, blocks, row, at, plan, base);
        blocks += WEIGHT_PANEL * n * size.n_bytes;
    }
}
