/* graph.h: a small typed graph of tensor operations.
 *
 * A model file appends nodes with the builder functions below and computes nothing. Shapes and
 * dtypes are inferred when a node is added. Dimension 0 may be symbolic (token rows, logits rows,
 * sequences); everything that changes from step to step is an *input*, never a constant. Node order
 * is program order. A builder that fails records the first error in the graph and returns
 * GRAPH_NONE; further builders given GRAPH_NONE do nothing, so a model checks once at the end
 * (mica_graph_check).
 */
#ifndef MICA_GRAPH_GRAPH_H
#define MICA_GRAPH_GRAPH_H

#include "base/alloc.h"
#include "base/dtype.h"
#include "weights/weights.h"

typedef int32_t graph_id;
#define GRAPH_NONE (-1)
#define GRAPH_MAX_DIMS 4
#define GRAPH_MAX_SRC 9

/* What a dimension may depend on. */
typedef enum graph_sym {
    GRAPH_FIXED,  /* value 1 */
    GRAPH_ROWS,   /* token rows of this step */
    GRAPH_LOGITS, /* rows whose logits are wanted */
    GRAPH_SEQS,   /* sequences in this step */
    GRAPH_N_SYMS
} graph_sym;

/* Size = n * value(sym) + add. */
typedef struct graph_dim {
    int64_t n;
    graph_sym sym;
    int64_t add;
} graph_dim;

typedef struct graph_type {
    mica_dtype dtype;
    int n_dims;
    graph_dim dim[GRAPH_MAX_DIMS];
    int64_t stride[GRAPH_MAX_DIMS]; /* in elements; all fixed, since only dim 0 is symbolic */
} graph_type;

typedef enum graph_op {
    /* leaves */
    OP_INPUT,  /* an array bound at run time */
    OP_CONST,  /* a dense tensor that belongs to the weights or to the graph's arena */
    OP_WEIGHT, /* a weight_matrix */
    OP_CACHE,  /* the K/V storage of one layer: base pointer bound at run time */
    OP_VIEW,   /* the same memory under another shape or strides */
    /* dense family */
    OP_EMBED,       /* ids i32 [R], W [V, n] -> [R, n] */
    OP_GATHER_ROWS, /* x [R, n], rows i32 [L] -> [L, n] */
    OP_MATMUL,      /* x [R, n_in], W [n_out, n_in] (weight, const or tensor) -> [R, n_out] */
    OP_ADD,         /* a, b of equal shape, or b [n]: broadcast over rows */
    OP_MUL,         /* likewise */
    OP_SCALE,       /* x * rT(c) */
    OP_RMS_NORM,    /* over the last dimension; x, weight or GRAPH_NONE; added or none */
    OP_LAYER_NORM,  /* x, weight or NONE, bias or NONE; added or none */
    OP_ROPE_ANGLES, /* positions i32 [R], periods f32 [D/2] or [R, D/2] -> f32 [R, D] cos then sin
                     */
    OP_ROPE,        /* x [R, heads, head_dim], angles -> same shape */
    OP_KV_WRITE,    /* cache, k [R, kv, d], v [R, kv, dv], slots i32 [R] -> effect */
    OP_ATTENTION,   /* q [R, heads, d], effect or cache, block_table i32 [S, n], positions, row_seq,
                     * span_lo, span_hi (i32 [R] each), sinks f32 [heads] or NONE -> [R, heads*dv] */
    OP_SILU,
    OP_GELU,      /* erf form */
    OP_GELU_TANH, /* tanh form */
    OP_SIGMOID,
    OP_SOFTPLUS,
    OP_SOFTCAP,        /* c * tanh(x / c) */
    OP_RELU2,          /* max(x, 0)^2 */
    OP_XIELU,          /* x > 0: ap x^2 + beta x; else an (expm1(min(x, eps)) - x) + beta x */
    OP_CLAMP,          /* into [-c, c] */
    OP_POSITION_SCALE, /* x [R, ..], positions i32 [R]: x * (1 + beta ln(1 + floor((p + o) / n))) */
    OP_GAUSS_TOP,      /* x [R, n]: max(0, x - (mean + c * std)) of each row, std over all n */
    OP_MATCH_RMS,      /* x, y [R, n]: x * rms(y) / sqrt(max(mean(x^2), eps)) */
    OP_CAST,
    OP_COPY, /* makes a strided view contiguous */
    /* fused by rewrite rules */
    OP_GLU_MATMUL, /* x, W_gate, W_up -> act(x Wg) * (x Wu) */
    /* mixture of experts */
    OP_SOFTMAX,       /* x [R, n] over n, in f32 */
    OP_TOP_K,         /* scores [R, E] -> i32 [R, k], descending, ties to the lower index */
    OP_TOP_K_WEIGHTS, /* scores [R, E], idx [R, k] -> [R, k]: softmax rule in attr */
    OP_EXPERT_GROUPS, /* idx [R, k] -> i32, rows grouped by expert: expert_groups.h; or [R]: every
                       * row has all experts */
    OP_EXPERT_MATMUL, /* x [R or k*R, n_in], W [E, n_out, n_in], groups -> [k*R, n_out] by pair */
    OP_EXPERT_GLU_MATMUL, /* x, W_gate, W_up, groups -> act(x Wg) * (x Wu): fused by a rule */
    OP_CLAMPED_GLU,       /* gate, up [R, n] -> g sigmoid(alpha g) (u + 1), g and u clamped */
    OP_EXPERT_COMBINE,    /* y [k*R, n], weights [R, k] -> [R, n] */
    /* recurrent layers */
    OP_GATED_DELTA, /* q, k [R, Hk, Dk], v [R, Hv, Dv], decay, beta [R, Hv], state pointers u64 [S]
                     * (in and out: two inputs), seq_rows i32 [S+1]: rows of sequence s are
                     * [seq_rows[s], seq_rows[s+1]), positions i32 [R] -> [R, Hv*Dv] */
    OP_DELTA_DECAY, /* a [R, H], dt_bias [H], a_log [H] -> f32 [R, H]:
                     * exp(-exp(a_log) * softplus(a + dt_bias)) */
    OP_CAUSAL_CONV, /* x [R, C], w [C, K], bias [C] or NONE, state pointers (two inputs), seq_rows
                     * -> [R, C]: each channel's sum over its last K rows */
    OP_SELECTIVE_SCAN, /* x [R, H, P], dt [R, H], a_log [H, N] or [H, 1], B, C [R, G, N], D [H],
                        * state pointers (two inputs), seq_rows -> [R, H*P] */
    OP_SCAN_STEP,      /* dt [R, H], bias [H] or NONE -> f32 [R, H]: softplus(dt + bias), cut */
    /* training */
    OP_MATMUL_T,       /* dy [R, n_out], W [n_out, n_in] -> [R, n_in] */
    OP_OUTER,          /* dy [R, n_out], x [R, n_in] -> [n_out, n_in]: sum over rows */
    OP_SUM_ROWS,       /* x [R, n] -> [n] */
    OP_RMS_NORM_GRAD,  /* x, w or NONE, dy -> dx */
    OP_SILU_GRAD,      /* x, dy -> dx */
    OP_ATTENTION_ROWS, /* q, k, v of this step's rows only, positions, row_seq -> [R, heads*dv] */
    OP_ATTENTION_ROWS_GRAD, /* q, k, v, positions, row_seq, dout -> [R, (heads+kv)*d + kv*dv]
                               dq,dk,dv */
    OP_ROPE_GRAD,           /* dy, angles -> dx: rotation by the negative angle */
    OP_PAD, /* x [.., n] -> [.., before + n + after]: zeros around; slice's adjoint */
    /* made by the levers int8 and int16 (plan/quantize.c); rows as in rows_i8.h. Where an op has
     * "added", that source (of the result's shape, or one row for all) plus the result is the
     * result (lever residual) */
    OP_QUANTIZE_ROWS, /* x [R, n] -> u8 [R, rows_i8_bytes(n, fine)] */
    OP_RMS_NORM_I8,   /* OP_RMS_NORM, OP_LAYER_NORM to such rows (lever norm-rows) */
    OP_LAYER_NORM_I8,
    OP_MATMUL_I8,        /* quantized rows, W [n_out, n_in] -> [R, n_out]; added or none */
    OP_GLU_MATMUL_I8,    /* quantized rows, W_gate, W_up -> act(x Wg) * (x Wu) */
    OP_GLU_ROWS_I8,      /* the same to quantized rows (lever glu-rows) */
    OP_EXPERT_MATMUL_I8, /* the same for experts: quantized rows instead of x */
    OP_EXPERT_GLU_MATMUL_I8,
    OP_TILE_ROWS,   /* x [R, n] -> bf16 [R + 15, n]; x, groups -> [k*R + 15 E, n]: rows_bf16.h */
    OP_MATMUL_BF16, /* such tiles, W -> [R, n_out] (lever bf16); added or none */
    OP_GLU_MATMUL_BF16,    /* likewise, W_gate, W_up */
    OP_EXPERT_MATMUL_BF16, /* the same for experts: their tiles instead of x */
    OP_EXPERT_GLU_MATMUL_BF16,
    OP_FLASH_ATTENTION, /* OP_ATTENTION with other sums (lever flash) */
    OP_ATTENTION_PARTS, /* likewise over parts of the keys (lever parts): operands as OP_ATTENTION
                         * -> f32 [R, attention_parts_length(heads * parts, dv)], attention_parts.h
                         */
    OP_ATTENTION_JOIN,  /* such parts -> [R, heads*dv] */
    GRAPH_N_OPS
} graph_op;

/* How a block of 64 cached positions lies in memory, the same on every backend: for each kv head
 * K[64][head_dim], then for each kv head V[64][v_head_dim]; or there is no V, because values are
 * the first v_head_dim channels of the keys. Block b of a layer starts at base + b * block_bytes.
 */
#define KV_BLOCK 64
typedef struct kv_layout {
    int32_t n_kv_heads;
    int32_t head_dim;
    int32_t v_head_dim;
    mica_dtype dtype;     /* f32, f16, bf16; quantized forms come as further fields */
    uint64_t k_bytes;     /* all K of one block; V starts there */
    uint64_t block_bytes; /* a multiple of 64 */
    bool v_in_k;          /* there is no V */
} kv_layout;
/* Fills the byte counts. False on overflow or non-positive sizes. */
bool mica_kv_layout_init(kv_layout *layout, int64_t n_kv_heads, int64_t head_dim,
                         int64_t v_head_dim, mica_dtype dtype);
/* Gives up the place of V: v_head_dim must not be above head_dim. */
void mica_kv_layout_share(kv_layout *layout);

/* The oldest key that position `pos` sees. A window of 0: all; W > 0: the last W; -C: positions are
 * cut into chunks of C, and each sees its own chunk. */
static inline int64_t mica_oldest_key(int32_t window, int64_t pos) {
    if (window < 0) return pos - pos % -(int64_t)window;
    return window > 0 && pos >= window ? pos - window + 1 : 0;
}

typedef enum glu_act { GLU_SILU, GLU_GELU_TANH, GLU_GELU } glu_act;

/* A choice among the experts of the best groups only: E experts are cut into n_groups, a group's
 * score is the sum of its n_best (at most TOP_K_MAX_BEST) largest scores, and n_used groups are
 * kept. n_groups 0: no groups. */
#define TOP_K_MAX_BEST 8
typedef struct top_k_groups {
    int32_t n_groups, n_used, n_best;
} top_k_groups;

/* What the chosen scores become before they are weights. */
typedef enum top_k_rule {
    TOP_K_SOFTMAX_CHOSEN, /* softmax over the k chosen */
    TOP_K_SOFTMAX_ALL,    /* over all experts, before the choice */
    TOP_K_PLAIN,          /* they are weights already */
    TOP_K_SPARSEMIXER     /* k = 2: each over the experts close to it (docs/models.md 12) */
} top_k_rule;

typedef struct top_k_weighting {
    top_k_rule rule;
    bool normalize;             /* divide by the sum of the k */
    float sum_least, sum_extra; /* which counts as at least this, plus that */
    float factor;
    float jitter; /* sparsemixer */
} top_k_weighting;

/* Parameters of a node, by op. */
typedef union graph_attr {
    struct {
        int32_t slot;
        const char *name;
    } input;
    struct {
        const void *data;
    } constant;
    struct {
        const weight_matrix *matrix;
    } weight;
    struct {
        int32_t layer;
        kv_layout layout;
    } cache;
    struct {
        int64_t offset;
    } view; /* elements from the source's first element (the source may be a view too) */
    struct {
        float c;
    } scale; /* also softcap, clamp */
    struct {
        float alpha_p, alpha_n, beta, eps;
    } xielu;
    struct {
        float beta;
        int32_t offset; /* o */
        int32_t length; /* n, above 0 */
    } position_scale;
    struct {
        float eps;
    } norm;
    struct {
        float position_scale;
    } angles;
    struct {
        int32_t dims;
        bool traditional;
        float input_scale;
    } rope;
    struct {
        float scale;
        float softcap;
        int32_t window;
        kv_layout layout;
        int32_t layer;
    } attention;
    struct {
        glu_act act;
    } glu;
    struct {
        int32_t k;
        top_k_groups groups;
    } top_k;
    top_k_weighting top_k_weights;
    struct {
        float alpha, limit; /* g <= limit, -limit <= u <= limit */
    } clamped_glu;
    struct {
        glu_act act; /* of a fused pair; where .glu has it */
        int32_t n_experts;
        int32_t k;
    } experts;
    struct {
        int32_t chunk;  /* 0: the plain recurrence */
        int64_t offset; /* of the layer's part of a sequence's state, in floats */
    } delta;
    struct {
        int64_t offset; /* likewise */
    } conv;             /* and selective scan */
    struct {
        float least, most;
    } scan_step;
    struct {
        int64_t before;
    } pad;
} graph_attr;

typedef struct graph_node {
    graph_op op;
    graph_type type;
    graph_id src[GRAPH_MAX_SRC];
    int n_src;
    graph_attr attr;
    const char *name; /* of the tensor, for traces: "layers.0.q_proj"; may be NULL */
} graph_node;

typedef struct graph {
    graph_node *nodes;
    int32_t n_nodes;
    int32_t capacity;
    graph_id outputs[8];
    int n_outputs;
    int32_t n_inputs; /* slots given out */
    int32_t n_caches; /* highest cache layer + 1 */
    bool force_dtype; /* every float op gives `dtype` (--dtype, fast profile); else promotion
                         decides */
    mica_dtype dtype;
    mica_arena arena;
    mica_status status; /* of the first failed builder */
    mica_error error;
    char scope[48]; /* prefix of node names, e.g. "layers.3" */
} graph;

void mica_graph_init(graph *g);
void mica_graph_deinit(graph *g);
void mica_graph_force_dtype(graph *g, mica_dtype dtype);
/* The first error of any builder. */
mica_status mica_graph_check(const graph *g, mica_error *err);
void mica_graph_scope(graph *g, const char *format, ...) MICA_PRINTF(2, 3);
/* Names the node in the current scope; returns id. */
graph_id mica_graph_name(graph *g, graph_id id, const char *name);
void mica_graph_output(graph *g, graph_id id);
const char *mica_graph_op_name(graph_op op);
int64_t mica_graph_dim_size(graph_dim dim, const int64_t sym[GRAPH_N_SYMS]);
/* Elements with the given symbol values (of the shape, ignoring strides). */
int64_t mica_graph_type_count(const graph_type *type, const int64_t sym[GRAPH_N_SYMS]);
/* Adds a node as it stands (types already inferred); for passes and autodiff. */
graph_id mica_graph_append(graph *g, const graph_node *node);
/* KV_WRITE and GATED_DELTA: they change memory behind a pointer, so they run even if unused. */
bool mica_graph_op_has_effect(graph_op op);
/* Row-major without gaps. */
bool mica_graph_is_contiguous(const graph_type *type);
/* "bf16 [rows, 576]"; with sym, its numbers. Writes at most n bytes. */
void mica_graph_type_text(const graph_type *type, const int64_t *sym, char *out, size_t n);

/* ---- builders ---- */
graph_dim mica_dim(int64_t n);                    /* fixed */
graph_dim mica_dim_sym(int64_t n, graph_sym sym); /* n * sym */

graph_id mica_graph_input(graph *g, const char *name, mica_dtype dtype, int n_dims,
                          const graph_dim *dims);
/* `data` is borrowed for the graph's life. Contiguous. */
graph_id mica_graph_const(graph *g, const char *name, mica_dtype dtype, int n_dims,
                          const graph_dim *dims, const void *data);
graph_id mica_graph_vector(graph *g, const weight_vector *v); /* NULL -> GRAPH_NONE, no error */
graph_id mica_graph_weight(graph *g, const weight_matrix *m);
graph_id mica_graph_cache(graph *g, int32_t layer, const kv_layout *layout);

/* Same elements, new dims (contiguous source). */
graph_id mica_graph_reshape(graph *g, graph_id x, int n_dims, const graph_dim *dims);
/* [R, n] -> [R, heads, n/heads]; works on views whose last dimension is contiguous. */
graph_id mica_graph_heads(graph *g, graph_id x, int64_t n_heads);
/* [R, h, d] -> [R, h*d]. */
graph_id mica_graph_flat(graph *g, graph_id x);
/* Elements [begin, begin+n) of the last dimension. */
graph_id mica_graph_slice(graph *g, graph_id x, int64_t begin, int64_t n);
/* `before` and `after` zeros around the last dimension. */
graph_id mica_graph_pad(graph *g, graph_id x, int64_t before, int64_t after);
graph_id mica_graph_copy(graph *g, graph_id x);
graph_id mica_graph_cast(graph *g, graph_id x, mica_dtype dtype);

graph_id mica_graph_embed(graph *g, graph_id ids, graph_id weight);
graph_id mica_graph_gather_rows(graph *g, graph_id x, graph_id rows);
graph_id mica_graph_matmul(graph *g, graph_id x, graph_id w);
/* x [R, n_out] times W [n_out, n_in] as it stands: [R, n_in]. */
graph_id mica_graph_matmul_t(graph *g, graph_id x, graph_id w);
graph_id mica_graph_add(graph *g, graph_id a, graph_id b);
graph_id mica_graph_mul(graph *g, graph_id a, graph_id b);
graph_id mica_graph_scale(graph *g, graph_id x, float c);
graph_id mica_graph_rms_norm(graph *g, graph_id x, graph_id weight, float eps);
graph_id mica_graph_layer_norm(graph *g, graph_id x, graph_id weight, graph_id bias, float eps);
graph_id mica_graph_rope_angles(graph *g, graph_id positions, graph_id periods,
                                float position_scale);
/* Rotates the first `dims` channels of each head; input_scale multiplies them first (1: skipped).
 */
graph_id mica_graph_rope(graph *g, graph_id x, graph_id angles, int32_t dims, bool traditional,
                         float input_scale);
/* Where values lie in the keys, k alone is written. */
graph_id mica_graph_kv_write(graph *g, graph_id cache, graph_id k, graph_id v, graph_id slots);

typedef struct attention_inputs {
    graph_id block_table; /* i32 [S, n_blocks]: block number, or -1 where nothing is held */
    graph_id positions;   /* i32 [R] */
    graph_id row_seq;     /* i32 [R] */
    graph_id span_lo; /* i32 [R]: a row also sees keys [span_lo, span_hi): for a causal row both */
    graph_id span_hi; /* are its own position and the next */
} attention_inputs;
/* cache: an OP_CACHE, or the effect of the OP_KV_WRITE that must come first. window: as in
 * mica_oldest_key; softcap 0: none. Visible keys of position p: [min(oldest key, span_lo), max(p+1,
 * span_hi)). */
graph_id mica_graph_attention(graph *g, graph_id q, graph_id cache, const attention_inputs *in,
                              graph_id sinks, float scale, int32_t window, float softcap);
graph_id mica_graph_silu(graph *g, graph_id x);
graph_id mica_graph_gelu(graph *g, graph_id x);
graph_id mica_graph_gelu_tanh(graph *g, graph_id x);
graph_id mica_graph_sigmoid(graph *g, graph_id x);
graph_id mica_graph_softplus(graph *g, graph_id x);
graph_id mica_graph_softcap(graph *g, graph_id x, float c);
graph_id mica_graph_relu2(graph *g, graph_id x);
graph_id mica_graph_xielu(graph *g, graph_id x, float alpha_p, float alpha_n, float beta,
                          float eps);
graph_id mica_graph_clamp(graph *g, graph_id x, float c);
/* What exceeds mean + c * std in each row, 0 elsewhere: the largest share of a normal spread. */
graph_id mica_graph_gauss_top(graph *g, graph_id x, float c);
/* Rows of x at the root mean square of those of y; `least`: x's mean square counts as that much. */
graph_id mica_graph_match_rms(graph *g, graph_id x, graph_id y, float least);
/* Every element of row r times 1 + beta * ln(1 + floor((positions[r] + offset) / length)). */
graph_id mica_graph_position_scale(graph *g, graph_id x, graph_id positions, float beta,
                                   int32_t offset, int32_t length);
graph_id mica_graph_glu_matmul(graph *g, graph_id x, graph_id w_gate, graph_id w_up, glu_act act);

graph_id mica_graph_softmax(graph *g, graph_id x);
/* groups may be NULL. */
graph_id mica_graph_top_k(graph *g, graph_id scores, int32_t k, const top_k_groups *groups);
graph_id mica_graph_top_k_weights(graph *g, graph_id scores, graph_id idx,
                                  const top_k_weighting *weighting);
graph_id mica_graph_expert_groups(graph *g, graph_id idx, int32_t n_experts);
/* Every row of `rows` (i32 [R]) has n_heads pairs, the j-th with expert j: for products by a matrix
 * of each head. */
graph_id mica_graph_head_groups(graph *g, graph_id rows, int32_t n_heads);
graph_id mica_graph_expert_matmul(graph *g, graph_id x, graph_id w, graph_id groups, int32_t k);
/* Elements first, first + step, ... of the last dimension. */
graph_id mica_graph_every(graph *g, graph_id x, int64_t first, int64_t step);
graph_id mica_graph_clamped_glu(graph *g, graph_id gate, graph_id up, float alpha, float limit);
/* b [E, n] by expert, added to y [k*R, n] by pair; idx [R, k]. */
graph_id mica_graph_expert_bias(graph *g, graph_id y, graph_id b, graph_id idx);
graph_id mica_graph_expert_combine(graph *g, graph_id y, graph_id weights);

/* One sequence's state is f32: S [Hv, Dv, Dk]; with chunk > 0 S is that at the last multiple of
 * `chunk` positions, and the rows since then follow it: k [chunk, Hk, Dk], u [chunk, Hv, Dv],
 * decay [chunk, Hv] (u and decay as in docs/models.md 11.3). So a row's arithmetic depends on its
 * position only, never on where a step began, and rows may be split between steps anywhere. */
typedef struct state_inputs {
    graph_id state_in;  /* u64 [S]: addresses of the sequences' states before */
    graph_id state_out; /* u64 [S]: and of those after; may be equal to state_in */
    graph_id seq_rows;  /* i32 [S+1] */
    graph_id positions; /* i32 [R] */
    int64_t offset;     /* of this layer's part in such a state, in floats */
} state_inputs;
graph_id mica_graph_gated_delta(graph *g, graph_id q, graph_id k, graph_id v, graph_id decay,
                                graph_id beta, const state_inputs *in, int32_t chunk);
/* Floats of one state. */
int64_t mica_graph_delta_state(int64_t n_k_heads, int64_t n_v_heads, int64_t k_dim, int64_t v_dim,
                               int32_t chunk);
graph_id mica_graph_delta_decay(graph *g, graph_id a, graph_id dt_bias, graph_id a_log);
/* out[r, c] = sum over j < K of w[c, j] x[r - (K-1) + j, c], plus the bias. Rows before the step
 * are those of the state, f32 [K-1, C], oldest first; positions are not used. */
graph_id mica_graph_causal_conv(graph *g, graph_id x, graph_id weight, graph_id bias,
                                const state_inputs *in);
/* S = exp(-exp(a_log) dt) S + (dt x) B^T; y = S C + D x, by heads; S is the state, f32 [H, P, N];
 * positions are not used. */
graph_id mica_graph_selective_scan(graph *g, graph_id x, graph_id dt, graph_id a_log, graph_id b,
                                   graph_id c, graph_id d, const state_inputs *in);
/* softplus(dt + bias), cut to [least, most]. */
graph_id mica_graph_scan_step(graph *g, graph_id dt, graph_id bias, float least, float most);

graph_id mica_graph_attention_rows(graph *g, graph_id q, graph_id k, graph_id v, graph_id positions,
                                   graph_id row_seq, float scale);

/* ---- autodiff (graph/autodiff.c) ---- */
/* Appends the backward of `loss_grad` (the gradient given for node y, same shape) and writes to
 * grads[i] the node of the gradient for wrt[i] (GRAPH_NONE if y does not depend on it). An op
 * without a backward on the path is MICA_E_UNSUPPORTED naming it. */
mica_status mica_graph_backward(graph *g, graph_id y, graph_id y_grad, const graph_id *wrt,
                                int n_wrt, graph_id *grads, mica_error *err);

#endif
