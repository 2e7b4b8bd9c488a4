/* weights.h: the in-memory forms of weights, and the store that turns file tensors into them.
 *
 * A form says how codes, scales and biases are stored; kernels are written for forms and never see
 * a file format (docs/design.md 4). Canonical layout, per expert e and output row o: codes   a
 * little-endian bitstream of n_in codes of `bits` bits, lowest bit first (row_bytes each) scales
 * n_in/group entries of the scale kind; two-level: a bitstream of sub_bits per group biases  as
 * scales (BIAS_GROUP), or a bitstream of sub_bits per group (BIAS_TWO_LEVEL) supers, super_biases
 * n_in/256 halves each (two-level only) MLX tensors are used where they lie in the mapped file or,
 * with `defer`, in panels; GGUF blocks are re-ordered at load, at their own size. No pointer here
 * promises any alignment.
 *
 * Panels: what is re-ordered anyway lies so that 16 outputs can be the lanes of a kernel. Of each
 * stream, 16 rows take the bytes that they would take one after the other, but word by word: word 0
 * of the 16 rows, then word 1 of each. A word is 4 bytes of codes, one scale or bias, one super, or
 * 2 bytes of a bitstream of sub-scales.
 */
#ifndef MICA_WEIGHTS_WEIGHTS_H
#define MICA_WEIGHTS_WEIGHTS_H

#include "base/pool.h"
#include "format/folder.h"
#include "format/gguf.h"

typedef enum weight_kind { WEIGHT_DENSE, WEIGHT_AFFINE, WEIGHT_TABLE } weight_kind;

typedef enum scale_kind {
    SCALE_NONE,
    SCALE_F32,
    SCALE_F16,
    SCALE_BF16,
    SCALE_E8M0,     /* u8 */
    SCALE_E4M3,     /* u8 */
    SCALE_TWO_LEVEL /* f16 super-scale d times (sub - sub_zero) */
} scale_kind;

typedef enum bias_kind {
    BIAS_NONE,
    BIAS_GROUP,     /* stored like the scales */
    BIAS_TWO_LEVEL, /* -(dmin * sub) */
    BIAS_ZERO       /* -(zero * scale): an integer zero point */
} bias_kind;

typedef enum code_table { TABLE_E2M1, TABLE_E4M3, TABLE_IQ4NL } code_table;

#define WEIGHT_SUPER 256 /* elements under one super-scale */

typedef struct weight_form {
    weight_kind kind;
    mica_dtype dtype; /* dense: f32, f16 or bf16 */
    uint8_t bits;     /* 2, 3, 4, 5, 6 or 8 */
    uint16_t group;   /* 16, 32, 64 or 128 */
    scale_kind scale;
    bias_kind bias;
    code_table table;
    uint8_t zero;     /* BIAS_ZERO */
    uint8_t sub_bits; /* two-level: 4, 6 or 8 */
    uint8_t sub_zero; /* two-level: subtracted from the sub-scale code (never from the sub-bias) */
    bool storage_scales; /* scales do not take part in dtype promotion (GGUF) */
} weight_form;

/* w[e, o, i]. All memory belongs to the store. */
typedef struct weight_matrix {
    const char *name; /* canonical module path, e.g. "model.layers.0.mlp.up_proj" */
    weight_form form;
    int64_t n_experts; /* 1 for a plain matrix */
    int64_t n_out, n_in;
    size_t row_bytes;     /* of codes, or of a dense row */
    size_t scale_bytes;   /* bytes of one row of scales (and of biases) */
    const uint8_t *codes; /* or the dense values */
    const uint8_t *scales;
    const uint8_t *biases;
    const uint8_t *supers; /* f16 [n_experts*n_out, n_in/256] */
    const uint8_t *super_biases;
    /* Experts that lie apart: [n_experts] plain matrices of one form, and the pointers above are
     * those of the first; NULL: they lie one behind another. */
    const struct weight_matrix *parts;
    const float *globals; /* [n_experts] factors of e4m3 scales; NULL: none */
    bool panels;
    uint8_t first_lane; /* panels: place of row 0 in its panel */
} weight_matrix;

#define WEIGHT_PANEL 16

/* A dense float vector or small tensor (norms, biases). */
typedef struct weight_vector {
    const char *name;
    mica_dtype dtype;
    int64_t n;
    const void *data;
} weight_vector;

/* Bytes that reading the whole matrix once moves. */
uint64_t mica_weight_bytes(const weight_matrix *m);
/* Expert e as a plain matrix, and rows [first, first + n) of a plain matrix, on the same memory. */
weight_matrix mica_weight_expert(const weight_matrix *m, int64_t e);
weight_matrix mica_weight_slice(const weight_matrix *m, int64_t first, int64_t n);
/* The dtype that takes part in promotion: dense dtype, the scales' dtype, bf16 for fp modes; *has
 * is false when nothing does (storage_scales). */
mica_dtype mica_weight_dtype(const weight_matrix *m, bool *has);
/* "q4 g32 f16 two-level", "bf16": for people. Writes at most n bytes. */
void mica_weight_form_text(const weight_form *form, char *out, size_t n);

/* ---- element access; row = e*n_out + o ---- */
extern const float mica_table_e2m1[16];
extern const float mica_table_iq4nl[16];
extern const float mica_table_e4m3[256];

/* Code at index i of a bitstream of `bits`-bit codes; reads only the bytes that hold it. */
static inline uint32_t mica_bitstream_at(const uint8_t *p, unsigned bits, size_t i) {
    size_t bit = i * bits, byte = bit >> 3;
    unsigned shift = (unsigned)(bit & 7u);
    uint32_t v = (uint32_t)p[byte] >> shift;
    if (shift + bits > 8) v |= (uint32_t)p[byte + 1] << (8 - shift);
    return v & ((1u << bits) - 1u);
}

/* Code i of a row. */
uint32_t mica_weight_code(const weight_matrix *m, int64_t row, int64_t i);
/* Whether rows of such a matrix can lie in panels, and the bytes of a word of its scales. */
bool mica_weight_panels_fit(const weight_form *form, int64_t n_out, int64_t n_in);
/* Rows of row_bytes, one after the other, to panels; n_rows is a multiple of WEIGHT_PANEL. */
void mica_panel_fill(const uint8_t *rows, size_t row_bytes, size_t word, uint64_t n_rows,
                     uint8_t *to);
size_t mica_weight_scale_word(const weight_form *form);
/* A matrix of one row: a copy of row `row` of m at `to`, which has mica_weight_row_total(m) bytes,
 * in canonical order. Plain forms without globals. */
weight_matrix mica_weight_gather(const weight_matrix *m, int64_t row, uint8_t *to);
size_t mica_weight_row_total(const weight_matrix *m);
/* Word i of row `row` (counted from the start of its stream) in panels of 16 * row_bytes. */
static inline const uint8_t *mica_panel_word(const uint8_t *stream, size_t row_bytes, size_t word,
                                             int64_t row, size_t i) {
    size_t panel = (size_t)row / WEIGHT_PANEL, lane = (size_t)row % WEIGHT_PANEL;
    return stream + panel * WEIGHT_PANEL * row_bytes + (i * WEIGHT_PANEL + lane) * word;
}
/* Scale and bias of group g of a row, formed in f32 as docs/numerics.md says. *b is 0 without bias.
 */
void mica_weight_group(const weight_matrix *m, int64_t row, int64_t g, float *s, float *b);
/* Row `row` widened to f32: out[n_in]; w = f32(f32(scale*code) + bias), or scale*table[code]. */
void mica_weight_row(const weight_matrix *m, int64_t row, float *out);

/* ---- the store ---- */
typedef struct weight_store weight_store;

/* Names of a family in a folder, where they differ from the canonical ones. In a pattern N stands
 * for a number, the same on both sides; names go without prefix and without ".weight". */
typedef struct weight_name {
    const char *from, *to; /* "h.N.ln_1" -> "layers.N.input_layernorm"; to NULL: dropped */
} weight_name;
typedef struct weight_naming {
    const char *embed;        /* of the embedding, after the prefix; NULL: embed_tokens */
    const char *head;         /* of the head; NULL: lm_head */
    const weight_name *names; /* after the prefix; ended by {NULL, NULL} */
} weight_naming;

typedef struct weight_options {
    const weight_naming *naming; /* folders; NULL: canonical names */
    /* GGUF blocks are re-ordered by mica_weights_prepare, all at once, instead of when a matrix is
     * taken, and so are MLX matrices, which else are used where they lie; until then their pointers
     * lead nowhere. */
    bool defer;
    /* Called now and then while weights are re-ordered; may be NULL. */
    void (*progress)(void *user, uint64_t done_bytes, uint64_t total_bytes);
    /* Once, if the shapes of quantized tensors contradict config.json; may be NULL. */
    void (*warn)(void *user, const char *message);
    void *user;
} weight_options;

/* Borrow `folder` or `file` (which must outlive the store) and index their tensors under canonical
 * names: GGUF names are translated (docs/numerics.md 3.3; what ffn_norm means depends on the
 * architecture), folders have the prefix of their embedding removed down to "model." / "lm_head"
 * (docs/models.md 4.2) and the tensors dropped that no text model uses (inv_freq buffers, vision
 * and audio towers). Nothing is read yet. */
mica_status mica_weights_open_folder(weight_store **out, hf_folder *folder,
                                     const weight_options *options, mica_error *err);
mica_status mica_weights_open_gguf(weight_store **out, gguf_file *file,
                                   const weight_options *options, mica_error *err);
void mica_weights_close(weight_store *store); /* NULL is fine */

/* The default quantization spec and overrides of an MLX config (docs/models.md 2.6); `config` is
 * the raw config.json. Must come before the first matrix is taken from a folder. A foreign or
 * unknown quant_method is MICA_E_UNSUPPORTED naming it. */
mica_status mica_weights_set_quantization(weight_store *store, const json_value *config,
                                          mica_error *err);

/* Takes the matrix at canonical module path `path` (tensor path.weight with .scales/.biases):
 * checks its shape and marks it as used. n_experts 0: rank 2. n_out or n_in < 0: any. Errors name
 * the tensor, the shape found and the shape expected. Taking it twice gives the same pointer. */
mica_status mica_weights_matrix(weight_store *store, const char *path, int64_t n_experts,
                                int64_t n_out, int64_t n_in, const weight_matrix **out,
                                mica_error *err);
/* Experts that a file holds apart as one matrix: parts[n] are plain matrices (copied) of one shape;
 * other forms than the first one's are an error that names both. */
mica_status mica_weights_join(weight_store *store, const char *name, const weight_matrix *parts,
                              int64_t n, const weight_matrix **out, mica_error *err);
/* A raw stack [n_experts, n_in, n_all] without quantization, turned round: row o of an expert is
 * its column first + o * step. A copy. */
mica_status mica_weights_turned(weight_store *store, const char *path, int64_t n_experts,
                                int64_t n_all, int64_t first, int64_t step, int64_t n_out,
                                int64_t n_in, const weight_matrix **out, mica_error *err);
/* The first n_rows of the n_all rows that each head has in the matrix [n_heads * n_all, n_in] at
 * path, turned round: a stack [n_heads, n_in, n_rows]. A copy, in f32 where the matrix is
 * quantized. */
mica_status mica_weights_turned_heads(weight_store *store, const char *path, const char *name,
                                      int64_t n_heads, int64_t n_all, int64_t n_rows, int64_t n_in,
                                      const weight_matrix **out, mica_error *err);
/* A stack [n_experts, n_out, n_in] as one matrix [n_experts * n_out, n_in] over the same memory. */
mica_status mica_weights_flat_stack(weight_store *store, const char *path, int64_t n_experts,
                                    int64_t n_out, int64_t n_in, const weight_matrix **out,
                                    mica_error *err);
/* mxfp4 as the authors of gpt_oss store it: stem_blocks u8 [n_experts, n_out, n_in/32, 16] and
 * stem_scales u8 [n_experts, n_out, n_in/32]. */
mica_status mica_weights_mxfp4_blocks(weight_store *store, const char *stem, int64_t n_experts,
                                      int64_t n_out, int64_t n_in, const weight_matrix **out,
                                      mica_error *err);
/* Rows [first, first + n) of the matrix at `path`, of n_all rows, as the matrix `name` over the
 * same memory: how a fused tensor is taken. */
mica_status mica_weights_matrix_rows(weight_store *store, const char *path, const char *name,
                                     int64_t n_all, int64_t first, int64_t n, int64_t n_in,
                                     const weight_matrix **out, mica_error *err);
/* Likewise of a matrix that was taken. */
mica_status mica_weights_rows_of(weight_store *store, const weight_matrix *all, const char *name,
                                 int64_t first, int64_t n, const weight_matrix **out,
                                 mica_error *err);
/* The matrix at `path`, stored [n_in, n_out] without quantization, turned round. */
mica_status mica_weights_transposed(weight_store *store, const char *path, int64_t n_out,
                                    int64_t n_in, const weight_matrix **out, mica_error *err);
/* With `defer`: makes this matrix readable before the others: a folder's is used where it lies. */
mica_status mica_weights_ready(weight_store *store, const weight_matrix *m, mica_error *err);
/* With `defer`: makes every matrix taken so far readable, with all threads of the pool: from the
 * pack in `pack_folder` if it has one for this model, else by re-ordering, and leaves a pack there
 * if the weights are many and there is room. NULL: no packs. */
mica_status mica_weights_prepare(weight_store *store, mica_pool *pool, const char *pack_folder,
                                 mica_error *err);
/* Takes the tensor `name` (full name with .weight or .bias) as floats. n < 0: any length. */
mica_status mica_weights_vector(weight_store *store, const char *name, int64_t n,
                                const weight_vector **out, mica_error *err);
bool mica_weights_has(const weight_store *store, const char *name); /* full canonical name */
/* Whether two tensors of a folder hold the same bytes, or both are missing; reads up to the first
 * difference. */
bool mica_weights_same(const weight_store *store, const char *a, const char *b);
/* Rows of path.weight (entries of a vector) or -1; geometry checks before anything is taken. */
int64_t mica_weights_rows(const weight_store *store, const char *path);
/* What path.weight is stored in; false if that is no f32, f16 or bf16. */
bool mica_weights_float_type(const weight_store *store, const char *path, mica_dtype *out);
/* Marks every tensor that starts with `prefix` as deliberately unused. */
void mica_weights_drop(weight_store *store, const char *prefix);
/* MICA_E_FORMAT with the count and the first 12 names if a tensor was neither taken nor dropped. */
mica_status mica_weights_audit(const weight_store *store, mica_error *err);
bool mica_weights_is_gguf(const weight_store *store);

/* Walks the tensors for `inspect`: canonical name (or the file's own when dropped) and file tensor.
 */
size_t mica_weights_count(const weight_store *store);
const file_tensor *mica_weights_at(const weight_store *store, size_t i, const char **canonical);

#endif
