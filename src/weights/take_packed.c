/* take_packed.c: matrices as other tools pack them: GPTQ, AWQ, compressed-tensors, ModelOpt and
 * block-scaled fp8 (docs/models.md 2.6).
 *
 * Names beside the module's path, with the shapes for N outputs and K inputs:
 *   GPTQ         .qweight [K*bits/32, N], .scales [G, N], .qzeros [G, N*bits/32], .g_idx [K]
 *   AWQ          .qweight [K, N/8],       .scales [G, N], .qzeros [G, N/8]
 *   INT32        .weight_packed [N, K*bits/32], .weight_scale [N, G],
 *                .weight_zero_point [N*bits/32, G]
 *   NVFP4, MXFP4 .weight_packed [N, K/2], .weight_scale [N, G], .weight_global_scale [1]
 *   ModelOpt     .weight [N, K/2],        .weight_scale [N, G], .weight_scale_2 []
 *   FP8          .weight [N, K], .weight_scale_inv or .weight_scale by blocks, by rows or alone
 * Codes that lie as a form wants them are used where they are; the others are re-ordered once. A
 * scale of more elements than a group may have is repeated.
 */
#include <string.h>

#include "weights/store.h"

typedef struct packed {
    weight_store *store;
    const char *path;
    const file_tensor *w, *scales, *zeros; /* zeros: NULL where there are none */
    weight_matrix *m;
    void **memory;
    int64_t n_groups; /* of the file, in a row */
    int64_t repeat;   /* groups of the form under one scale of the file */
    /* Element strides of scales by group and by output, and of words of zeros likewise. */
    int64_t scale_by_group, scale_by_out, zero_by_group, zero_by_word;
    uint8_t *own_codes, *own_scales, *own_biases; /* in *memory; NULL: the file's serve */
} packed;

static const uint8_t awq_shift[8] = {0, 16, 4, 20, 8, 24, 12, 28}; /* of output 8w + i */
static const uint8_t plain_shift4[8] = {0, 4, 8, 12, 16, 20, 24, 28};
static const uint8_t plain_shift8[4] = {0, 8, 16, 24};

static uint32_t word_at(const uint8_t *p, int64_t i) {
    uint32_t w;
    memcpy(&w, p + 4 * i, 4);
    return w;
}

static void put_word(uint8_t *p, int64_t i, uint32_t w) { memcpy(p + 4 * i, &w, 4); }

/* The tensor path + suffix, marked as used; NULL: none. */
static const file_tensor *part(const packed *p, const char *suffix) {
    weight_entry *e = mica_store_find(p->store, p->path, suffix);
    if (!e) return NULL;
    e->is_used = true;
    return e->tensor;
}

static bool has_shape(const file_tensor *t, int64_t rows, int64_t cols) {
    return t->n_dims == 2 && t->dim[0] == (uint64_t)rows && t->dim[1] == (uint64_t)cols;
}

static bool is_words(const file_tensor *t) { return t->dtype == MICA_I32 || t->dtype == MICA_U32; }

static mica_status misfit(const packed *p, const file_tensor *t, const char *what,
                          mica_error *err) {
    return mica_fail(err, MICA_E_FORMAT,
                     "%s: %s (%s) does not fit %s as config.json describes it: %s",
                     mica_store_source(p->store), t->name, mica_dtype_name(t->dtype), p->w->name,
                     what);
}

static mica_status missing(const packed *p, const char *suffix, mica_error *err) {
    return mica_fail(err, MICA_E_NOT_FOUND, "%s: %s has no %s%s beside it",
                     mica_store_source(p->store), p->w->name, p->path, suffix);
}

/* The form's group for scales of `n` elements each; 0: there is none. */
static int64_t group_within(int64_t n) {
    for (int64_t group = 128; group >= 16; group /= 2)
        if (n % group == 0) return group;
    return 0;
}

static mica_status choose_group(packed *p, mica_error *err) {
    int64_t n_in = p->m->n_in, per_scale = p->n_groups > 0 ? n_in / p->n_groups : 0;
    int64_t group = per_scale * p->n_groups == n_in ? group_within(per_scale) : 0;
    if (!group)
        return mica_fail(err, MICA_E_UNSUPPORTED,
                         "%s: %s: %lld scales for %lld inputs; groups must be multiples of 16",
                         mica_store_source(p->store), p->w->name, (long long)p->n_groups,
                         (long long)n_in);
    p->m->form.group = (uint16_t)group;
    p->repeat = per_scale / group;
    return MICA_OK;
}

/* Memory for codes, scales and biases of so many bytes each (0: the file's bytes serve). */
static mica_status allocate(packed *p, size_t codes, size_t scales, size_t biases,
                            mica_error *err) {
    size_t n = codes + scales + biases; /* each is less than a few times the tensors in the file */
    uint8_t *base = n ? mica_aligned_alloc(64, n) : NULL;
    if (n && !base)
        return mica_fail(err, MICA_E_NOMEM, "%s: out of memory: %zu bytes for %s",
                         mica_store_source(p->store), n, p->w->name);
    *p->memory = base;
    if (codes) p->own_codes = base;
    if (scales) p->own_scales = base + codes;
    if (biases) p->own_biases = base + codes + scales;
    return MICA_OK;
}

/* The source pages are not needed any more. */
static void finish_codes(packed *p) {
    const file_tensor *t = p->w;
    if (t->map) mica_map_drop(t->map, (uint64_t)(t->data - t->map->data), t->n_bytes);
    p->store->done_bytes += t->n_bytes;
    const weight_options *o = &p->store->options;
    if (o->progress) o->progress(o->user, p->store->done_bytes, p->store->total_bytes);
}

/* ---- packed integers ---- */

static const uint8_t *shifts_of(const packed *p) {
    if (p->store->quant.packing == PACKING_AWQ) return awq_shift;
    return p->m->form.bits == 4 ? plain_shift4 : plain_shift8;
}

static uint32_t zero_at(const packed *p, int64_t g, int64_t o) {
    int64_t per_word = 32 / p->m->form.bits;
    int64_t at = g * p->zero_by_group + o / per_word * p->zero_by_word;
    uint32_t zero = word_at(p->zeros->data, at) >> shifts_of(p)[o % per_word];
    if (p->store->quant.packing == PACKING_GPTQ) zero++;
    return zero & ((1u << p->m->form.bits) - 1u);
}

/* Do all groups have one zero point? Then the form needs no biases. */
static bool one_zero(const packed *p, uint8_t *zero) {
    *zero = (uint8_t)(1u << (p->m->form.bits - 1));
    if (!p->zeros) return true;
    *zero = (uint8_t)zero_at(p, 0, 0);
    for (int64_t g = 0; g < p->n_groups; g++)
        for (int64_t o = 0; o < p->m->n_out; o++)
            if (zero_at(p, g, o) != *zero) return false;
    return true;
}

/* Scales by output then group, and biases of -zero * scale, both in dtype `to`. */
static void fill_scales(const packed *p, mica_dtype to) {
    mica_dtype t = p->scales->dtype;
    size_t i = 0;
    for (int64_t o = 0; o < p->m->n_out; o++)
        for (int64_t g = 0; g < p->n_groups; g++) {
            size_t at = (size_t)(o * p->scale_by_out + g * p->scale_by_group);
            float s = mica_load_f(p->scales->data, t, at);
            float b = p->own_biases ? -((float)zero_at(p, g, o) * s) : 0.0f;
            for (int64_t k = 0; k < p->repeat; k++, i++) {
                mica_store_f(p->own_scales, to, i, s);
                if (p->own_biases) mica_store_f(p->own_biases, to, i, b);
            }
        }
}

/* Words by input to words by output, in tiles that keep their cache lines. */
static void transpose_words(const packed *p) {
    int64_t n_words = (int64_t)p->w->dim[0], n_out = p->m->n_out, tile = 16;
    for (int64_t first = 0; first < n_out; first += tile) {
        int64_t end = first + tile < n_out ? first + tile : n_out;
        for (int64_t w = 0; w < n_words; w++)
            for (int64_t o = first; o < end; o++)
                put_word(p->own_codes, o * n_words + w, word_at(p->w->data, w * n_out + o));
    }
}

/* Nibbles of eight outputs in one word to bytes of two inputs of one output. */
static void transpose_nibbles(const packed *p) {
    int64_t n_words = p->m->n_out / 8, row_bytes = p->m->n_in / 2, tile = 16;
    for (int64_t first = 0; first < n_words; first += tile) {
        int64_t end = first + tile < n_words ? first + tile : n_words;
        for (int64_t k = 0; k < row_bytes; k++)
            for (int64_t w = first; w < end; w++) {
                uint32_t even = word_at(p->w->data, 2 * k * n_words + w);
                uint32_t odd = word_at(p->w->data, (2 * k + 1) * n_words + w);
                for (int64_t i = 0; i < 8; i++) {
                    uint32_t low = even >> awq_shift[i] & 15u, high = odd >> awq_shift[i] & 15u;
                    p->own_codes[(8 * w + i) * row_bytes + k] = (uint8_t)(low | high << 4);
                }
            }
    }
}

/* Sizes of a .qweight that runs along the inputs (AWQ) or packs them (GPTQ). Files of either kind
 * are called gptq, so the scales' width says which it is. */
static mica_status qweight_geometry(packed *p, mica_error *err) {
    const file_tensor *s = p->scales;
    int64_t per_word = 32 / p->m->form.bits;
    if (s->n_dims != 2) return misfit(p, s, "it is no matrix", err);
    p->n_groups = (int64_t)s->dim[0];
    p->m->n_out = (int64_t)s->dim[1];
    bool along_inputs = p->store->quant.packing == PACKING_AWQ;
    if (!is_words(p->w) || (int64_t)p->w->dim[1] * (along_inputs ? 8 : 1) != p->m->n_out)
        return misfit(p, s, "the numbers of outputs differ", err);
    int64_t rows = (int64_t)p->w->dim[0];
    p->m->n_in = along_inputs ? rows : rows * per_word;
    if (p->m->n_in % 16) return misfit(p, p->w, "the inputs are no multiple of 16", err);
    p->scale_by_group = p->m->n_out;
    p->scale_by_out = 1;
    p->zero_by_group = p->m->n_out / per_word;
    p->zero_by_word = 1;
    if (p->zeros && (!is_words(p->zeros) || p->m->n_out % per_word ||
                     !has_shape(p->zeros, p->n_groups, p->zero_by_group)))
        return misfit(p, p->zeros, "zero points are [groups, packed outputs]", err);
    return MICA_OK;
}

static mica_status int32_geometry(packed *p, mica_error *err) {
    const file_tensor *s = p->scales;
    int64_t per_word = 32 / p->m->form.bits;
    p->m->n_out = (int64_t)p->w->dim[0];
    p->m->n_in = (int64_t)p->w->dim[1] * per_word;
    if (!is_words(p->w)) return misfit(p, p->w, "it holds no 32-bit words", err);
    if (s->n_dims != 2 || (int64_t)s->dim[0] != p->m->n_out || !s->dim[1])
        return misfit(p, s, "scales are [outputs, groups]", err);
    p->n_groups = (int64_t)s->dim[1];
    p->scale_by_group = 1;
    p->scale_by_out = p->n_groups;
    p->zero_by_group = 1;
    p->zero_by_word = p->n_groups;
    int64_t n_words = (p->m->n_out + per_word - 1) / per_word;
    if (p->zeros && (!is_words(p->zeros) || !has_shape(p->zeros, n_words, p->n_groups)))
        return misfit(p, p->zeros, "zero points are [packed outputs, groups]", err);
    return MICA_OK;
}

/* Which group an input belongs to is its place only; a list that says otherwise is refused. */
static mica_status check_order(const packed *p, const file_tensor *g_idx, mica_error *err) {
    if (!g_idx) return MICA_OK;
    bool good =
        g_idx->dtype == MICA_I32 && g_idx->n_dims == 1 && (int64_t)g_idx->dim[0] == p->m->n_in;
    for (int64_t i = 0; good && i < p->m->n_in; i++)
        good = (int64_t)word_at(g_idx->data, i) == i / (p->m->n_in / p->n_groups);
    if (good) return MICA_OK;
    return mica_fail(err, MICA_E_UNSUPPORTED,
                     "%s: %s puts inputs into groups out of order (activation order), which is not "
                     "supported; use a conversion without it, or an MLX or GGUF one",
                     mica_store_source(p->store), g_idx->name);
}

static mica_status fill_integers(packed *p, bool in_place, mica_error *err) {
    weight_matrix *m = p->m;
    mica_dtype t = p->scales->dtype;
    bool has_zero = one_zero(p, &m->form.zero);
    m->form.bias = has_zero ? BIAS_ZERO : BIAS_GROUP;
    if (!has_zero && (t == MICA_BF16 || m->form.bits > 4)) { /* too few bits for zero * scale */
        t = MICA_F32;
        m->form.storage_scales = true;
    }
    m->form.scale = t == MICA_F32 ? SCALE_F32 : t == MICA_F16 ? SCALE_F16 : SCALE_BF16;
    m->row_bytes = (size_t)m->n_in * m->form.bits / 8;
    m->scale_bytes = (size_t)(m->n_in / m->form.group) * mica_dtype_bytes(t);
    size_t n_out = (size_t)m->n_out, scales = n_out * m->scale_bytes;
    bool keeps_scales = in_place && has_zero && p->repeat == 1;
    mica_status st = allocate(p, in_place ? 0 : n_out * m->row_bytes, keeps_scales ? 0 : scales,
                              has_zero ? 0 : scales, err);
    if (st) return st;
    if (!keeps_scales) fill_scales(p, t);
    if (!in_place && p->store->quant.packing == PACKING_AWQ) transpose_nibbles(p);
    if (!in_place && p->store->quant.packing != PACKING_AWQ) transpose_words(p);
    if (!in_place) finish_codes(p);
    m->codes = in_place ? p->w->data : p->own_codes;
    m->scales = keeps_scales ? p->scales->data : p->own_scales;
    m->biases = p->own_biases;
    return MICA_OK;
}

static mica_status take_integers(packed *p, mica_error *err) {
    bool in_place = p->store->quant.packing == PACKING_INT32;
    weight_form *f = &p->m->form;
    *f = (weight_form){.kind = WEIGHT_AFFINE, .bits = (uint8_t)p->store->quant.packed_bits};
    p->scales = part(p, in_place ? ".weight_scale" : ".scales");
    p->zeros = part(p, in_place ? ".weight_zero_point" : ".qzeros");
    const file_tensor *g_idx = part(p, in_place ? ".weight_g_idx" : ".g_idx");
    (void)part(p, ".weight_shape");
    if (!p->scales) return missing(p, in_place ? ".weight_scale" : ".scales", err);
    if (!mica_dtype_is_float(p->scales->dtype))
        return misfit(p, p->scales, "scales are f32, f16 or bf16", err);
    mica_status st = in_place ? int32_geometry(p, err) : qweight_geometry(p, err);
    if (!st) st = choose_group(p, err);
    if (!st) st = check_order(p, g_idx, err);
    return st ? st : fill_integers(p, in_place, err);
}

/* ---- four-bit floats ---- */

static mica_status take_global(packed *p, mica_error *err) {
    bool divides = p->store->quant.packing == PACKING_NVFP4;
    const char *suffix = divides ? ".weight_global_scale" : ".weight_scale_2";
    const file_tensor *t = part(p, suffix);
    (void)part(p, ".input_scale");
    (void)part(p, ".input_global_scale");
    if (!t) return missing(p, suffix, err);
    if (t->dtype != MICA_F32 || t->n_bytes != 4)
        return misfit(p, t, "the global scale is one f32", err);
    float g = mica_load_f(t->data, MICA_F32, 0);
    float *global = mica_arena_alloc(&p->store->arena, sizeof(*global));
    if (!global) return mica_fail(err, MICA_E_NOMEM, "out of memory for %s", t->name);
    *global = divides ? 1.0f / g : g;
    p->m->globals = global;
    return MICA_OK;
}

static mica_status take_floats4(packed *p, mica_error *err) {
    bool is_mx = p->store->quant.packing == PACKING_MXFP4;
    weight_matrix *m = p->m;
    p->scales = part(p, ".weight_scale");
    if (!p->scales) return missing(p, ".weight_scale", err);
    m->form = (weight_form){.kind = WEIGHT_TABLE,
                            .bits = 4,
                            .group = is_mx ? 32 : 16,
                            .scale = is_mx ? SCALE_E8M0 : SCALE_E4M3,
                            .table = TABLE_E2M1};
    m->n_out = (int64_t)p->w->dim[0];
    m->n_in = (int64_t)p->w->dim[1] * 2;
    if (p->w->dtype != MICA_U8) return misfit(p, p->w, "it holds no bytes", err);
    mica_dtype t = p->scales->dtype;
    bool good = t == MICA_U8 || t == (is_mx ? MICA_F8_E8M0 : MICA_F8_E4M3);
    if (!good || m->n_in % m->form.group ||
        !has_shape(p->scales, m->n_out, m->n_in / m->form.group))
        return misfit(p, p->scales, "scales are one byte a group", err);
    m->codes = p->w->data;
    m->row_bytes = (size_t)m->n_in / 2;
    m->scales = p->scales->data;
    m->scale_bytes = (size_t)(m->n_in / m->form.group);
    return is_mx ? MICA_OK : take_global(p, err);
}

/* ---- eight-bit floats ---- */

/* Rows and columns under one scale: the config's block, or what one scale a row or one scale in all
 * comes to. */
static mica_status fp8_block(const packed *p, int64_t *rows, int64_t *cols, mica_error *err) {
    const file_tensor *s = p->scales;
    int64_t n_out = p->m->n_out, n_in = p->m->n_in;
    int64_t n = (int64_t)(s->n_bytes / mica_dtype_bytes(s->dtype));
    *rows = p->store->quant.block_rows;
    *cols = p->store->quant.block_cols;
    if (*rows) {
        int64_t n_rows = (n_out - 1) / *rows + 1, n_cols = (n_in - 1) / *cols + 1;
        if (has_shape(s, n_rows, n_cols)) return MICA_OK;
        return misfit(p, s, "its shape is not that of the weight_block_size", err);
    }
    *cols = n_in;
    *rows = n == 1 ? n_out : 1;
    if (n == 1 || n == n_out) return MICA_OK;
    return misfit(p, s, "without weight_block_size there is one scale a row or one in all", err);
}

/* One scale for each of the form's groups, in f32 or as the byte that it is. */
static void repeat_fp8_scales(const packed *p, int64_t rows, int64_t cols) {
    const weight_matrix *m = p->m;
    int64_t n_groups = m->n_in / m->form.group, per_row = (m->n_in - 1) / cols + 1;
    for (int64_t o = 0; o < m->n_out; o++)
        for (int64_t g = 0; g < n_groups; g++) {
            size_t to = (size_t)(o * n_groups + g);
            size_t from = (size_t)(o / rows * per_row + g * m->form.group / cols);
            if (m->form.scale == SCALE_E8M0)
                p->own_scales[to] = p->scales->data[from];
            else
                mica_store_f(p->own_scales, MICA_F32, to,
                             mica_load_f(p->scales->data, p->scales->dtype, from));
        }
}

static mica_status take_fp8(packed *p, mica_error *err) {
    weight_matrix *m = p->m;
    int64_t rows, cols;
    p->scales = part(p, ".weight_scale_inv");
    if (!p->scales) p->scales = part(p, ".weight_scale");
    (void)part(p, ".input_scale");
    if (!p->scales) return missing(p, ".weight_scale_inv", err);
    m->n_out = (int64_t)p->w->dim[0];
    m->n_in = (int64_t)p->w->dim[1];
    mica_dtype t = p->scales->dtype;
    bool is_byte = t == MICA_U8 || t == MICA_F8_E8M0;
    if (!is_byte && !mica_dtype_is_float(t))
        return misfit(p, p->scales, "scales are floats or e8m0 bytes", err);
    mica_status st = fp8_block(p, &rows, &cols, err);
    if (st) return st;
    int64_t group = group_within(cols);
    if (!group || m->n_in % group)
        return misfit(p, p->scales, "its blocks hold no groups of 16 inputs", err);
    m->form = (weight_form){.kind = WEIGHT_TABLE,
                            .bits = 8,
                            .group = (uint16_t)group,
                            .scale = is_byte ? SCALE_E8M0 : SCALE_F32,
                            .table = TABLE_E4M3,
                            .storage_scales = true};
    m->codes = p->w->data;
    m->row_bytes = (size_t)m->n_in;
    m->scale_bytes = (size_t)(m->n_in / group) * (is_byte ? 1 : 4);
    if ((st = allocate(p, 0, (size_t)m->n_out * m->scale_bytes, 0, err))) return st;
    m->scales = p->own_scales;
    repeat_fp8_scales(p, rows, cols);
    return MICA_OK;
}

/* ---- the way in ---- */

bool mica_store_is_packed(const weight_store *store, const char *path, const weight_entry *entry) {
    const file_tensor *w = entry->tensor;
    switch (store->quant.packing) {
    case PACKING_MLX:
        return false;
    case PACKING_GPTQ:
    case PACKING_GPTQ_V2:
    case PACKING_AWQ:
    case PACKING_INT32:
        return is_words(w);
    case PACKING_NVFP4:
    case PACKING_MODELOPT:
    case PACKING_MXFP4:
        return w->dtype == MICA_U8 && mica_store_find(store, path, ".weight_scale");
    case PACKING_FP8:
        return w->dtype == MICA_F8_E4M3;
    }
    return false;
}

mica_status mica_store_take_packed(weight_store *store, const char *path, weight_entry *entry,
                                   weight_matrix *m, void **memory, mica_error *err) {
    packed p = {.store = store, .path = path, .w = entry->tensor, .m = m, .memory = memory};
    if (p.w->n_dims != 2) return misfit(&p, p.w, "it is no matrix", err);
    switch (store->quant.packing) {
    case PACKING_GPTQ:
    case PACKING_GPTQ_V2:
    case PACKING_AWQ:
    case PACKING_INT32:
        return take_integers(&p, err);
    case PACKING_NVFP4:
    case PACKING_MODELOPT:
    case PACKING_MXFP4:
        return take_floats4(&p, err);
    case PACKING_FP8:
        return take_fp8(&p, err);
    case PACKING_MLX:
        break;
    }
    return mica_fail(err, MICA_E_STATE, "%s: %s is not packed", mica_store_source(store),
                     p.w->name);
}
