/* model.h: from a model file to a graph.
 *
 * A model is its normalized configuration, its weights and the rung of the dispatch ladder that
 * took it. Building its graph names what the engine must bind at each step.
 */
#ifndef MICA_MODEL_MODEL_H
#define MICA_MODEL_MODEL_H

#include "graph/graph.h"

#define MODEL_MAX_LAYERS 256
#define MODEL_MAX_GROUPS 4
#define MODEL_NO_ROPE 255

typedef enum model_tier { TIER_DEDICATED, TIER_SPECIALIZED, TIER_GENERIC } model_tier;

/* rope_scaling after normalization (docs/models.md 5); periods are made by rope.c. */
typedef struct rope_config {
    char type[24]; /* "default", "linear", "llama3", "yarn", "longrope", "dynamic", ... */
    double theta;
    double factor, low_freq_factor, high_freq_factor;
    double beta_fast, beta_slow, mscale, mscale_all_dim;
    double attention_factor; /* <0: absent */
    double input_scale;      /* of q and k, instead of what the type says; 0: absent */
    double alpha;            /* the base is theta * alpha^(dims / (dims - 2)); 1: theta */
    double partial_rotary_factor;
    int64_t original_max_positions; /* 0: absent */
    int64_t head_dim;               /* of the layers that use it; 0: the model's */
    int64_t max_positions;
    bool truncate;
    const float *long_factor, *short_factor; /* in the model's arena; longrope */
    int64_t n_factors;
    const float *freq_factors; /* GGUF rope_freqs: multiplies the periods; NULL: none */
} rope_config;

/* Mixture of experts (docs/models.md 12). */
typedef struct moe_config {
    int64_t n_experts; /* 0: the model has none */
    int64_t n_experts_used;
    int64_t intermediate_size, shared_size; /* of one expert; of what every token takes, or 0 */
    int64_t latent_size;                    /* of the experts' input and output; 0: hidden_size */
    int64_t n_groups, n_groups_used;        /* 0: the choice is among all */
    bool normalize, drops_selection_bias;
    float factor; /* of the routed sum */
    float sum_least, sum_extra;
    float jitter;               /* sparsemixer */
    float act_alpha, act_limit; /* of the clamped activation */
    int64_t n_draft_layers;     /* layers after the last that only a drafter reads: dropped */
    bool is_sparse[MODEL_MAX_LAYERS];
} moe_config;

/* Gated-delta layers (docs/models.md 11). */
typedef struct delta_config {
    int64_t n_k_heads, n_v_heads, k_dim, v_dim;
    int64_t conv_width;
    bool is_tiled; /* value head h reads key head h % n_k_heads, not h / (n_v_heads / n_k_heads) */
} delta_config;

/* What mamba2 does with its scan's y and the gate z. */
typedef enum gate_order {
    GATE_THEN_NORM, /* norm(y * silu(z)) */
    NORM_THEN_GATE, /* norm(y) * silu(z) */
    GATE_ALONE      /* y * silu(z) */
} gate_order;

/* State-space layers (docs/models.md 15); mamba has heads of one channel and dt_rank. */
typedef struct ssm_config {
    int64_t inner, n_heads, head_dim, n_groups, state_size;
    gate_order gate;
    int64_t conv_width; /* of short convolutions too */
    int64_t dt_rank;
    float dt_least, dt_most;
    float norm_eps; /* of mamba's norms of dt, B and C without weights; 0: none */
    bool in_bias, out_bias, conv_bias; /* of in_proj, out_proj, the convolution */
} ssm_config;

typedef enum mixer_kind {
    MIXER_ATTENTION,
    MIXER_DELTA,
    MIXER_CONV,   /* a gated short convolution */
    MIXER_MAMBA,  /* selective scan by channels */
    MIXER_MAMBA2, /* selective scan by heads */
    MIXER_BOTH,   /* attention and mamba2 side by side */
    MIXER_NONE    /* the layer is an MLP or experts */
} mixer_kind;

/* Multipliers inside the layers of falcon_h1; 0: none. */
typedef struct branch_scales {
    float attention_in, attention_out, key;
    float ssm_in, ssm_out, gate, down;
    float ssm[5];   /* of z, x, B, C and dt in what in_proj gives; all of them, or none */
    bool is_folded; /* the weights hold them, but for key, and attention_in of v */
} branch_scales;

/* Latent attention (docs/models.md 14). */
typedef struct mla_config {
    int64_t kv_rank; /* 0: plain attention */
    int64_t q_rank;  /* 0: q has no latent */
    int64_t rope_dim, nope_dim, v_dim;
} mla_config;

/* Block diffusion (docs/models.md 16): how a block is denoised unless a request says otherwise. */
typedef struct diffusion_config {
    int32_t canvas_length;          /* tokens of a block; 0: the model is autoregressive */
    int64_t max_tokens, max_length; /* 0: not stated */
    int32_t max_steps;
    float entropy_bound;
    double t_min, t_max;
    int32_t stability_threshold;
    float confidence_threshold;
} diffusion_config;

/* What a layer of Gemma 3n, 4 and DiffusionGemma has of its own (docs/models.md 7, 8). */
typedef struct layer_shape {
    int32_t head_dim, n_kv_heads, intermediate_size;
    int32_t kv_layer; /* whose keys and values it reads: its own index, or an earlier layer's */
    bool shares_v;    /* values are the keys before their norm and rope */
    /* Gates of the MLP that are not so many deviations above their mean are cut to 0; -INFINITY:
     * none are. */
    float gate_cut;
} layer_shape;

typedef struct gemma_config {
    layer_shape *layers;                     /* [n_layers]; NULL: all layers are alike */
    int64_t per_layer_size, per_layer_vocab; /* of a layer's own input; 0: none */
    int64_t n_shared;                 /* last layers that read other layers' keys and values */
    int64_t n_streams, active_stream; /* AltUp; 0: one residual stream */
    int64_t laurel_rank;
    bool scales_corrected;
} gemma_config;

typedef struct model_config {
    char model_type[48]; /* as in the file */
    char arch[48];       /* after remapping: the descriptor's name */
    int64_t n_layers, hidden_size, intermediate_size, vocab_size;
    int64_t n_heads, n_kv_heads, head_dim;
    float rms_norm_eps; /* of all norms, of whatever kind */
    int64_t max_positions;
    bool tied; /* lm_head shares embed_tokens */
    /* 0: none */
    float attention_scale, attention_softcap, final_softcap, embed_multiplier;
    float residual_multiplier; /* of what attention and MLP add */
    float head_multiplier;     /* of what goes into lm_head */
    float logit_multiplier;    /* of what comes out */
    float clip_qkv;            /* q, k and v are cut to [-clip, clip] */
    float query_boost; /* q * (1 + boost * ln(1 + floor((pos + offset) / length))) after rope */
    int32_t query_boost_length, query_boost_offset;
    bool boosts_bare_only;                   /* only queries of layers without rope */
    bool learned_positions;                  /* embed_positions, added to the embedding */
    int64_t first_position;                  /* rows of embed_positions before that of position 0 */
    bool is_encoder;                         /* rows see one another both ways; no head */
    int64_t n_token_types;                   /* of encoders */
    int32_t window[MODEL_MAX_LAYERS];        /* 0: full; W: the last W; -C: chunks of C */
    uint8_t rope_of_layer[MODEL_MAX_LAYERS]; /* index into rope, or MODEL_NO_ROPE */
    rope_config rope[2];
    int n_ropes;
    bool rope_traditional;
    moe_config moe;
    uint8_t mixer[MODEL_MAX_LAYERS]; /* mixer_kind */
    delta_config delta;
    ssm_config ssm;
    branch_scales scales;
    bool gates_attention; /* q_proj holds a gate beside each query head */
    mla_config mla;
    gemma_config gemma;
    diffusion_config diffusion;
    int32_t eos_ids[32];
    int n_eos;
    int32_t bos_id;   /* -1: unknown */
    mica_dtype dtype; /* of the activations: the embedding's own (f32 for GGUF) */
} model_config;

/* Whether a layer has keys and values. */
static inline bool mica_config_attends(const model_config *c, int64_t layer) {
    return c->mixer[layer] == MIXER_ATTENTION || c->mixer[layer] == MIXER_BOTH;
}

typedef struct model model;

typedef struct model_options {
    void (*progress)(void *user, uint64_t done, uint64_t total); /* while loading; may be NULL */
    void (*warn)(void *user, const char *message);               /* may be NULL */
    void *user;
    bool defer; /* GGUF weights are not there before mica_model_prepare */
} model_options;

/* Opens a folder or a .gguf file: config, dispatch, weights, audit. */
mica_status mica_model_load(model **out, const char *path, const model_options *options,
                            mica_error *err);
/* After `defer`: makes all weights readable (mica_weights_prepare). */
mica_status mica_model_prepare(model *m, mica_pool *pool, const char *pack_folder, mica_error *err);
void mica_model_close(model *m); /* NULL is fine */
const model_config *mica_model_config(const model *m);
model_tier mica_model_tier(const model *m);
uint64_t mica_model_file_bytes(const model *m);
const weight_store *mica_model_weights(const model *m);
const gguf_file *mica_model_gguf(const model *m);   /* NULL: a folder */
const hf_folder *mica_model_folder(const model *m); /* NULL: a GGUF file */

/* What a graph computes. Of a diffusion model ROWS is the encoder, which only fills the cache. */
typedef enum model_phase {
    MODEL_ROWS,   /* rows of sequences, and the logits of some */
    MODEL_CANVAS, /* the decoder of a diffusion model over a canvas: logits of all its rows */
    MODEL_SIGNAL  /* of the logits of one such pass what conditions the next: [R, hidden_size] */
} model_phase;

typedef struct model_build_options {
    model_phase phase;
    bool force_dtype; /* all activations in `dtype`; else promotion from the tensors */
    mica_dtype dtype;
    mica_dtype cache_dtype; /* of K/V blocks */
    int64_t n_blocks;       /* entries of a block table */
    bool hidden;            /* the output is the last hidden states; encoders have no other */
} model_build_options;

/* Slots of the graph's inputs (docs/design.md 2); -1 where the model has none. */
typedef struct model_graph {
    /* output 0: logits f32-or-T [LOGITS, vocab], of a canvas [R, vocab]; or hidden states [LOGITS,
     * hidden_size]; or a signal [R, hidden_size]; or there is none */
    graph g;
    int32_t tokens, positions, row_seq, span_lo, span_hi, logits_rows;
    int n_groups;
    int32_t windows[MODEL_MAX_GROUPS];
    int32_t block_table[MODEL_MAX_GROUPS], slots[MODEL_MAX_GROUPS];
    int n_caches;
    struct {
        int32_t group;
        kv_layout layout;
    } caches[MODEL_MAX_LAYERS];
    /* Models whose periods depend on the length (dynamic, longrope): f32 [R, D/2] per rope, which
     * the engine fills with mica_model_rope_periods; -1 elsewhere. */
    int32_t rope_periods[2];
    /* Of models with recurrent layers: u64 [S] addresses of each sequence's state before and after
     * the step, i32 [S+1] the rows of each sequence. */
    int32_t states_in, states_out, seq_rows;
    size_t state_bytes; /* of one sequence's state; 0: none */
    /* Of diffusion models: what conditions a canvas, T [R, hidden_size]; logits, f32 [R, vocab]. */
    int32_t signal, previous;
} model_graph;

mica_status mica_model_build(model *m, const model_build_options *options, model_graph *out,
                             mica_error *err);
void mica_model_graph_deinit(model_graph *mg);

/* Periods [head rotary dims / 2] of rope `rope_idx` for a sequence whose prompt has `n_prompt`
 * tokens, at position `pos` (docs/models.md 5). Only for ropes whose slot is not -1. */
void mica_model_rope_periods(const model *m, int rope_idx, int64_t n_prompt, int64_t pos,
                             float *out);
/* True if a sequence that grows from `from` to `to` tokens changes its table of periods for good
 * (longrope, at its original context): keys in the cache were rotated with the other one. */
bool mica_model_rope_switches(const model *m, int64_t from, int64_t to);

/* Periods for a rope config: out[dims/2]; *position_scale and *input_scale as numerics 4.4 says.
 * MICA_E_UNSUPPORTED: "Unsupported RoPE type X". */
mica_status mica_rope_periods(const rope_config *rope, int64_t dims, float *out,
                              float *position_scale, float *input_scale, mica_error *err);

/* ---- for listings ---- */
typedef struct model_rung {
    char type[48]; /* as the file has it */
    char arch[48]; /* the row of the table */
    model_tier tier;
    char why[400]; /* a sentence without its stop */
    size_t n_files, n_tensors;
    uint64_t file_bytes;
} model_rung;
/* Which rung takes a folder or GGUF file; the error of a file that none takes is the answer too.
 * All files of weights are opened and their headers checked; no tensor is read. */
mica_status mica_model_rung(model_rung *out, const char *path, mica_error *err);
/* The i-th type that is another name of a family; false: there are no more. */
bool mica_model_synonym(size_t i, const char **type, const char **target);
size_t mica_model_n_archs(void);
const char *mica_model_arch(size_t i); /* in alphabetical order */
model_tier mica_model_arch_tier(size_t i);
const char *mica_model_arch_gguf(size_t i);     /* its general.architecture; NULL: none */
const char *mica_model_arch_gguf_moe(size_t i); /* another one, of files with experts; or NULL */
bool mica_model_arch_is_encoder(size_t i);      /* it makes embeddings and no text */

#endif
