/* synth_gguf.c: a synthetic GGUF file: metadata, tokenizer, blocks (docs/numerics.md 3.2).
 *
 * Blocks hold the numbers of the MLX folder of the same seed. A row that K-quants cannot hold (no
 * multiple of 256) is stored as Q4_0.
 */
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "format/gguf_writer.h"
#include "quant/synth_parts.h"

enum { BLOCK = 32, SUPER = 256 };

static const char *arch_of(const synth_shape *s) {
    if (!strcmp(s->arch, "gemma3_text")) return "gemma3";
    return strcmp(s->arch, "qwen3_moe") ? s->arch : "qwen3moe";
}

static gguf_type type_of(const synth_tensor *t, synth_form form) {
    if (t->is_vector || t->is_router) return GGUF_F32;
    if (form == SYNTH_Q8_0) return GGUF_Q8_0;
    return form == SYNTH_Q4_K && t->n_in % SUPER == 0 ? GGUF_Q4_K : GGUF_Q4_0;
}

/* ---- head ---- */

typedef struct keyed {
    gguf_writer *w;
    const char *arch;
} keyed;

static void put_size(const keyed *k, const char *key, int64_t v) {
    char name[128];
    snprintf(name, sizeof(name), "%s.%s", k->arch, key);
    mica_gguf_put_u32(k->w, name, (uint32_t)v);
}

static void put_real(const keyed *k, const char *key, double v) {
    char name[128];
    snprintf(name, sizeof(name), "%s.%s", k->arch, key);
    mica_gguf_put_f32(k->w, name, (float)v);
}

static void put_config(gguf_writer *w, const synth_model *m, synth_form form) {
    static const uint32_t file_types[] = {[SYNTH_Q4_0] = 2, [SYNTH_Q8_0] = 7, [SYNTH_Q4_K] = 15};
    const synth_shape *s = &m->shape;
    const keyed k = {w, arch_of(s)};
    mica_gguf_put_text(w, "general.architecture", k.arch);
    mica_gguf_put_text(w, "general.name", "synthetic weights");
    mica_gguf_put_u32(w, "general.file_type", file_types[form]);
    mica_gguf_put_u32(w, "general.quantization_version", 2);
    put_size(&k, "context_length", s->max_positions);
    put_size(&k, "embedding_length", s->hidden_size);
    put_size(&k, "block_count", s->n_layers);
    put_size(&k, "feed_forward_length", s->intermediate_size);
    put_size(&k, "attention.head_count", s->n_heads);
    put_size(&k, "attention.head_count_kv", s->n_kv_heads);
    put_size(&k, "attention.key_length", s->head_dim);
    put_size(&k, "attention.value_length", s->head_dim);
    put_size(&k, "rope.dimension_count", s->head_dim);
    put_size(&k, "vocab_size", s->vocab_size);
    put_real(&k, "rope.freq_base", s->rope_theta);
    put_real(&k, "attention.layer_norm_rms_epsilon", SYNTH_EPS);
    if (s->n_experts) {
        put_size(&k, "expert_count", s->n_experts);
        put_size(&k, "expert_used_count", s->n_experts_used);
        put_size(&k, "expert_feed_forward_length", s->intermediate_size);
    }
    if (s->window) put_size(&k, "attention.sliding_window", s->window);
}

static void put_tokenizer(gguf_writer *w, const synth_model *m) {
    uint64_t n = (uint64_t)m->shape.vocab_size;
    char token[2 * SYNTH_TOKEN_BYTES];
    mica_gguf_put_text(w, "tokenizer.ggml.model", "gpt2");
    mica_gguf_put_text(w, "tokenizer.ggml.pre", "gpt-2");
    mica_gguf_put_array(w, "tokenizer.ggml.tokens", GGUF_VALUE_STRING, n);
    for (int64_t id = 0; id < m->shape.vocab_size; id++)
        mica_gguf_add_text(w, token, mica_synth_token(id, token));
    mica_gguf_put_array(w, "tokenizer.ggml.token_type", GGUF_VALUE_I32, n);
    for (int64_t id = 0; id < m->shape.vocab_size; id++) /* 1: normal, 3: control */
        mica_gguf_add_i32(w, id == SYNTH_BOS || id == SYNTH_EOS ? 3 : 1);
    mica_gguf_put_array(w, "tokenizer.ggml.merges", GGUF_VALUE_STRING, SYNTH_N_MERGES);
    for (int i = 0; i < SYNTH_N_MERGES; i++) {
        size_t length = mica_synth_token(' ', token);
        token[length++] = ' ';
        length += mica_synth_token('a' + i, token + length);
        mica_gguf_add_text(w, token, length);
    }
    mica_gguf_put_u32(w, "tokenizer.ggml.bos_token_id", SYNTH_BOS);
    mica_gguf_put_u32(w, "tokenizer.ggml.eos_token_id", SYNTH_EOS);
    mica_gguf_put_bool(w, "tokenizer.ggml.add_bos_token", false);
}

/* Gives the bytes of its data without padding. */
static uint64_t describe(gguf_writer *w, const synth_tensor *t, synth_form form) {
    char name[80];
    snprintf(name, sizeof(name), "%s.weight", t->gguf_name);
    const uint64_t dim[3] = {(uint64_t)t->n_experts, (uint64_t)t->n_out, (uint64_t)t->n_in};
    int skip = t->is_vector ? 2 : t->n_experts == 0;
    return mica_gguf_put_tensor(w, name, type_of(t, form), 3 - skip, dim + skip);
}

/* ---- blocks ---- */

/* What a block is made from: codes of its elements and the integer scales of its groups of 32. */
typedef struct block_values {
    const uint8_t *q;
    const uint8_t *sub;
    float unit;
} block_values;

static void put_f16(uint8_t *out, float x) { mica_store_f(out, MICA_F16, 0, x); }

static size_t put_q4_0(uint8_t *out, const block_values *v) {
    put_f16(out, v->unit * v->sub[0]);
    for (int i = 0; i < BLOCK / 2; i++)
        out[2 + i] = (uint8_t)(v->q[i] | v->q[i + BLOCK / 2] << 4);
    return 2 + BLOCK / 2;
}

static size_t put_q8_0(uint8_t *out, const block_values *v) {
    put_f16(out, v->unit * v->sub[0]);
    for (int i = 0; i < BLOCK; i++)
        out[2 + i] = v->q[i] ^ 0x80;
    return 2 + BLOCK;
}

/* w = d*sub*q - dmin*min with min = sub and dmin = 8 d: sub-scales and minima are the same. */
static size_t put_q4_k(uint8_t *out, const block_values *v) {
    put_f16(out, v->unit);
    put_f16(out + 2, 8 * v->unit);
    for (int j = 0; j < 4; j++) {
        uint8_t low = v->sub[j], high = v->sub[j + 4];
        out[4 + j] = out[8 + j] = (uint8_t)(low | (high >> 4) << 6);
        out[12 + j] = (uint8_t)((high & 15) | (high & 15) << 4);
    }
    for (int e = 0; e < SUPER / 2; e++) {
        const uint8_t *q = v->q + 64 * (e / 32) + e % 32;
        out[16 + e] = (uint8_t)(q[0] | q[32] << 4);
    }
    return 16 + SUPER / 2;
}

static size_t put_block(uint8_t *out, gguf_type type, const block_values *v) {
    if (type == GGUF_Q4_0) return put_q4_0(out, v);
    return type == GGUF_Q8_0 ? put_q8_0(out, v) : put_q4_k(out, v);
}

/* ---- data ---- */

/* The row of the folder that is row r of a file: pairs of rope lie side by side. */
static int64_t source_row(const synth_tensor *t, int64_t r) {
    if (!t->head_rows) return r;
    int64_t k = r % t->head_rows;
    return r - k + k % 2 * (t->head_rows / 2) + k / 2;
}

static mica_status put_matrix(synth_out *out, const synth_tensor *t, gguf_type type, uint8_t *codes,
                              mica_error *err) {
    int bits = type == GGUF_Q8_0 ? 8 : 4;
    int64_t n_rows = (t->n_experts ? t->n_experts : 1) * t->n_out;
    int64_t n_block = mica_gguf_block((uint32_t)type).n_elements;
    synth_matrix m = mica_synth_matrix(t, bits, out->options->group, out->options->seed);
    mica_status st = MICA_OK;
    for (int64_t r = 0; !st && r < n_rows; r++) {
        int64_t row = source_row(t, r);
        mica_synth_codes(&m, row, codes);
        for (int64_t i = 0; !st && i < t->n_in; i += n_block) {
            uint8_t block[2 + SUPER], sub[SUPER / BLOCK];
            for (int64_t k = 0; k < n_block / BLOCK; k++)
                sub[k] = (uint8_t)mica_synth_scale(&m, row, (i + k * BLOCK) / m.group);
            const block_values v = {codes + i, sub, m.unit};
            st = mica_synth_put(out, block, put_block(block, type, &v), err);
        }
    }
    return st;
}

static mica_status put_router(synth_out *out, const synth_tensor *t, uint8_t *codes,
                              mica_error *err) {
    synth_matrix m =
        mica_synth_matrix(t, SYNTH_ROUTER_BITS, SYNTH_ROUTER_GROUP, out->options->seed);
    mica_status st = MICA_OK;
    for (int64_t r = 0; !st && r < t->n_out; r++) {
        mica_synth_codes(&m, r, codes);
        for (int64_t i = 0; !st && i < t->n_in; i++) {
            float scale = m.unit * (float)mica_synth_scale(&m, r, i / m.group);
            float w = scale * (float)(codes[i] - (1 << (SYNTH_ROUTER_BITS - 1)));
            st = mica_synth_put(out, &w, sizeof(w), err);
        }
    }
    return st;
}

static mica_status put_vector(synth_out *out, const synth_tensor *t, mica_error *err) {
    mica_status st = MICA_OK;
    for (int64_t i = 0; !st && i < t->n_in; i++) {
        float x = mica_synth_element(t, out->options->seed, i) + t->offset;
        st = mica_synth_put(out, &x, sizeof(x), err);
    }
    return st;
}

static mica_status put_tensor(synth_out *out, const synth_tensor *t, uint64_t n_bytes,
                              mica_error *err) {
    static const uint8_t padding[GGUF_WRITER_ALIGNMENT];
    gguf_type type = type_of(t, out->options->form);
    uint8_t *codes = mica_malloc((size_t)t->n_in);
    if (!codes) return mica_fail(err, MICA_E_NOMEM, "out of memory for a row of %s", t->name);
    mica_status st = t->is_vector   ? put_vector(out, t, err)
                     : t->is_router ? put_router(out, t, codes, err)
                                    : put_matrix(out, t, type, codes, err);
    size_t n_over = (size_t)(n_bytes % GGUF_WRITER_ALIGNMENT);
    if (!st && n_over) st = mica_synth_put(out, padding, GGUF_WRITER_ALIGNMENT - n_over, err);
    mica_free(codes);
    return st;
}

static mica_status put_all(synth_out *out, const synth_model *m, const gguf_writer *w,
                           mica_error *err) {
    uint8_t *head = NULL;
    size_t n_head;
    gguf_writer sizes = {0};
    mica_status st = mica_gguf_writer_head(w, &head, &n_head, err);
    if (!st) st = mica_synth_put(out, head, n_head, err);
    for (size_t i = 0; !st && i < m->n_tensors; i++) {
        uint64_t n_bytes = describe(&sizes, &m->tensors[i], out->options->form);
        st = put_tensor(out, &m->tensors[i], n_bytes, err);
    }
    if (!st) st = mica_synth_flush(out, err);
    mica_gguf_writer_deinit(&sizes);
    mica_free(head);
    return st;
}

mica_status mica_synth_write_gguf(const synth_model *m, const synth_options *options,
                                  const char *path, mica_error *err) {
    synth_out out = {.options = options, .writer.fd = -1};
    gguf_writer w = {0};
    put_config(&w, m, options->form);
    put_tokenizer(&w, m);
    for (size_t i = 0; i < m->n_tensors; i++)
        describe(&w, &m->tensors[i], options->form);
    out.total = w.data_bytes;
    mica_status st = mica_synth_check_room(path, out.total, err);
    if (!st) {
        st = mica_writer_open(&out.writer, path, err);
        if (!st) st = put_all(&out, m, &w, err);
        st = mica_writer_close(&out.writer, st, err);
    }
    mica_free(out.buffer);
    mica_gguf_writer_deinit(&w);
    return st;
}
