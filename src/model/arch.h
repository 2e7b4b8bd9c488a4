/* arch.h: what one row of the family table says, and the dispatch ladder over the table.
 *
 * A row is data: which blocks, norms and activations a family is made of, and what its config keys
 * mean when they are absent. The readers (config*.c) and the builder (dense.c) switch on these
 * values and never on a family's name.
 */
#ifndef MICA_MODEL_ARCH_H
#define MICA_MODEL_ARCH_H

#include "model/model.h"

/* N1 to N4 are input_layernorm, post_attention_layernorm, pre_feedforward_layernorm and
 * post_feedforward_layernorm; but N3 of PRE and PARALLEL_2 is published as
 * post_attention_layernorm. Attention and MLP come times the residual multiplier, if any. */
typedef enum block_kind {
    BLOCK_PRE,        /* h = x + attn(N1 x);     out = h + mlp(N3 h) */
    BLOCK_SANDWICH,   /* h = x + N2(attn(N1 x)); out = h + N4(mlp(N3 h)) */
    BLOCK_POST,       /* h = x + N2(attn(x));    out = h + N4(mlp(h)) */
    BLOCK_PARALLEL,   /* out = attn(N1 x) + mlp(N1 x) + x */
    BLOCK_PARALLEL_2, /* out = attn(N1 x) + mlp(N3 x) + x */
    BLOCK_SINGLE,     /* out = x + mixer(N1 x): layers without MLP */
    BLOCK_POST_SUM    /* h = N2(x + attn(x)); out = N4(h + mlp(h)) */
} block_kind;

typedef enum norm_kind {
    NORM_RMS,            /* the RMS kinds come first */
    NORM_RMS_RAW_PLUS_1, /* 1 + w in hub files; MLX and GGUF converters have added the 1 */
    NORM_RMS_PLUS_1,     /* the weight is 1 + w; GGUF converters have added the 1 already */
    NORM_LAYER,          /* mean and variance */
    NORM_LAYER_PLUS_1,   /* likewise, with 1 + w */
    NORM_LAYER_PLAIN     /* without weight and bias: no tensors */
} norm_kind;

/* The norm's kind is that of the blocks. */
typedef enum qk_norm_kind {
    QK_NORM_NONE,
    QK_NORM_HEAD,  /* over head_dim, one weight for all heads, before rope */
    QK_NORM_LATE,  /* likewise, after rope */
    QK_NORM_PLAIN, /* over head_dim, after rope, without weights; not in layers without rope */
    QK_NORM_FULL,  /* over the whole projection */
    QK_NORM_HEADS, /* over head_dim, a weight for each head (one tensor [heads, head_dim]) */
    QK_NORM_LIST   /* likewise, a tensor for each head: q_norm.norms.0, ... */
} qk_norm_kind;

typedef enum bias_rule {
    BIAS_RULE_NEVER,
    BIAS_RULE_ALWAYS,
    BIAS_RULE_TENSOR, /* if the tensor is there */
    /* A key of the config; in GGUF: if the tensor is there. */
    BIAS_RULE_ATTENTION_KEY, /* attention_bias */
    BIAS_RULE_MLP_KEY,       /* mlp_bias */
    BIAS_RULE_USE_KEY,       /* use_bias */
    BIAS_RULE_BIAS_KEY,      /* bias */
    BIAS_RULE_QKV_KEY,       /* qkv_bias */
    BIAS_RULE_USE_QKV_KEY,   /* use_qkv_bias */
    BIAS_RULE_OUT_KEY,       /* attention_out_bias */
    BIAS_RULE_N
} bias_rule;

typedef enum mlp_act { ACT_SILU, ACT_GELU_TANH, ACT_GELU, ACT_RELU2, ACT_XIELU } mlp_act;

/* How q, k and v lie in a folder; a GGUF file has either three tensors or QKV_ROWS. */
typedef enum qkv_layout {
    QKV_SPLIT,  /* q_proj, k_proj, v_proj */
    QKV_ROWS,   /* qkv_proj: the rows of q, then of k, then of v */
    QKV_EITHER, /* QKV_ROWS if the tensor is there, else QKV_SPLIT */
    QKV_GROUPS  /* qkv_proj: for each kv head the rows of its queries, of k, of v */
} qkv_layout;

/* Which layers slide when layer_types is absent. */
typedef enum window_rule {
    WINDOW_RULE_NONE,       /* none */
    WINDOW_RULE_MAX_LAYERS, /* i >= max_window_layers when use_sliding_window */
    WINDOW_RULE_LAST,       /* likewise, without that flag */
    WINDOW_RULE_EVEN,       /* even i < max_window_layers when use_sliding_window */
    WINDOW_RULE_USED,       /* every layer when use_sliding_window */
    WINDOW_RULE_PATTERN,    /* layer i slides iff (i + 1) % pattern != 0; or letters "LLLG" */
    WINDOW_RULE_ALL,        /* every layer, if there is a window */
    WINDOW_RULE_NO_ROPE,    /* layers without rope, when use_sliding_window */
    WINDOW_RULE_CHUNKS      /* layers with rope see chunks of attention_chunk_size */
} window_rule;

/* Which layers have no rope. */
typedef enum no_rope_rule {
    NO_ROPE_NEVER,
    NO_ROPE_FULL,   /* layers that do not slide */
    NO_ROPE_GLOBAL, /* likewise, but none in a model without a window */
    NO_ROPE_LIST,   /* no_rope_layers (0: none), else every no_rope_layer_interval-th; so does an
                     * empty list of WINDOW_RULE_CHUNKS */
    NO_ROPE_ALL,    /* positions are learned: embed_positions */
    NO_ROPE_BARE    /* there are no positions */
} no_rope_rule;

typedef enum tie_rule {
    TIE_RULE_TRUE,   /* the key; tied when absent */
    TIE_RULE_FALSE,  /* the key; untied when absent */
    TIE_RULE_ALWAYS, /* tied unless the key says false and lm_head is there */
    TIE_RULE_NEVER,  /* untied unless the key says true and lm_head is absent */
    TIE_RULE_TENSOR  /* tied iff there is no lm_head */
} tie_rule;

typedef enum embed_rule {
    EMBED_PLAIN,
    EMBED_SQRT_HIDDEN,       /* times sqrt(hidden_size), rounded to the activation dtype */
    EMBED_SQRT_HIDDEN_STORED /* rounded to the stored type first (folders only) */
} embed_rule;

/* Which layers have experts; the others have the dense MLP. */
typedef enum sparse_rule {
    SPARSE_ALL,
    SPARSE_STEP,        /* not in mlp_only_layers, and (i + 1) % decoder_sparse_step == 0 */
    SPARSE_AFTER_DENSE, /* i >= first_k_dense_replace, and i % moe_layer_freq == 0 */
    SPARSE_INTERVAL,    /* (i + 1) % moe_layer_interval == 0, from moe_layer_start_index to _end_ */
    SPARSE_NUM_DENSE,   /* i >= num_dense_layers */
    SPARSE_PERIOD,      /* i % expert_layer_period == expert_layer_offset */
    SPARSE_LIST,        /* moe_layers, else (i + 1) % interleave_moe_layer_step == 0 */
    SPARSE_LISTED       /* as the list of layers says (config_ssm.c); there may be no experts */
} sparse_rule;

typedef enum router_rule {
    ROUTER_SOFTMAX_ALL,    /* softmax over all experts, of which k are chosen */
    ROUTER_SOFTMAX_CHOSEN, /* softmax over the k largest logits */
    ROUTER_SIGMOID,        /* sigmoid; with the selection bias added for the choice alone */
    ROUTER_SPARSEMIXER,    /* two experts, each weighed among those close to it */
    ROUTER_INPUT           /* one expert; the sigmoid of its logit scales what goes into it */
} router_rule;

typedef enum bias_presence {
    BIAS_ABSENT,
    BIAS_OPTIONAL,
    BIAS_REQUIRED,
    BIAS_BY_KEY /* use_expert_bias, true when absent */
} bias_presence;

typedef enum normalize_rule { NORMALIZE_NEVER, NORMALIZE_KEY, NORMALIZE_ALWAYS } normalize_rule;

/* Mixture of experts: what its keys mean. Tensors have the same names in all families, after the
 * family's naming: mlp.gate, mlp.experts and so on (moe_take.c). */
typedef struct moe_rule {
    const char *flag; /* the key that switches it, false when absent; NULL: always */
    sparse_rule sparse;
    router_rule scores;
    bias_presence selection_bias; /* added to the scores for the choice alone */
    bool wide_router;             /* the router computes in f32 */
    bool wide_weights;            /* the softmax of the chosen stays in f32 */
    normalize_rule normalize;     /* NORMALIZE_KEY: norm_topk_prob */
    bool normalize_default;
    bool gguf_normalizes;  /* in GGUF, where no key says it */
    const char *least_key; /* the sum that weights are divided by counts as at least this */
    double least;          /* when absent */
    double extra;          /* added to the sum */
    bool has_groups;       /* n_group, topk_group */
    const char *method;    /* topk_method that has groups; another one: error */
    const char *ungrouped; /* topk_method that has none, also when absent; NULL: none */
    int group_best;        /* a group's score is the sum of so many */
    bool has_factor;       /* routed_scaling_factor */
    bool may_lack;         /* with 0 or 1 experts there are none */
    /* When the keys are absent; 0: they are required. */
    int64_t n_experts, n_experts_used;
    bool width_is_plain; /* experts are intermediate_size wide, there is no moe_intermediate_size */
    const char *width_key; /* where another key has it; NULL: moe_intermediate_size */
    int64_t width;         /* when that is absent */
    int64_t only_used;     /* how many experts a row must have; 0: any number */
    /* The MLP that every token takes. */
    const char *shared_key; /* its width, or with shared_counts how many experts wide; NULL: none */
    const char *shared_flag; /* a key that counts what is one MLP all the same; NULL: none */
    bool shared_counts;
    bool shared_is_plain; /* as wide as an expert, without a key */
    bool shared_is_gated; /* times a sigmoid */
    bool shared_is_fused; /* gate and up in one tensor */
    bool is_plain;        /* experts and what every token takes: down(act(up x)) */
    bool has_latent;      /* moe_latent_size: experts work between two projections */
    bool has_bias;        /* of router and experts */
    bool is_clamped;      /* the activation of clamped_glu */
    bool is_turned;       /* raw stacks are [E, H, 2I] and [E, I, H] */
    bool is_interleaved;  /* and gate and up alternate in them */
} moe_rule;

/* Layers without attention. */
typedef enum mixer_rule {
    MIXERS_ATTENTION,   /* there are none */
    MIXERS_DELTA,       /* linear_attention layers: the gated delta rule */
    MIXERS_DELTA_FUSED, /* likewise, its projections interleaved by key head */
    MIXERS_CONV,        /* conv layers: gated short convolutions */
    MIXERS_MAMBA2,      /* every layer; this and what follows: config_ssm.c */
    MIXERS_GRANITE,     /* mamba layers: mamba2 */
    MIXERS_FALCON,      /* mamba2 beside attention in every layer */
    MIXERS_NEMOTRON,    /* one of mamba2, attention, MLP and experts a layer, by letters or words */
    MIXERS_MAMBA,       /* every layer */
    MIXERS_JAMBA        /* mamba, but every attn_layer_period-th layer */
} mixer_rule;

/* Layers that differ in shape and share keys and values (gemma*.c), beside the sandwich block. */
typedef enum gemma_rule {
    GEMMA_NONE,
    GEMMA_3N, /* AltUp streams, Laurel, per-layer inputs */
    GEMMA_4,  /* per-layer inputs if their tensors are there, layer scalars, MLP beside experts */
    GEMMA_DIFFUSION /* Gemma 4 with experts as encoder and decoder (diffusion.c) */
} gemma_rule;

/* Encoders: rows see one another both ways, and there is no head: they make embeddings. Embeddings
 * are the sum of token, token type (0) and position, normed. */
typedef struct encoder_rule {
    /* How its classes' names begin, between spaces: blocks of other types have the same tensors,
     * and only "architectures" shows a wrong type. NULL: any. */
    const char *classes;
    int64_t n_token_types;    /* type_vocab_size when absent; 0: there are no token types */
    bool skips_padding;       /* position 0 is row pad_token_id + 1 of the table */
    const char *with_experts; /* what its relative with experts is called, for a refusal */
} encoder_rule;

/* Multipliers that are keys of the config. */
typedef enum scale_rule {
    SCALES_NONE,
    SCALES_GRANITE, /* embedding_, residual_ and attention_multiplier; logits / logits_scaling */
    SCALES_MINICPM, /* scale_emb; scale_depth / sqrt(n_layers); head of h / (hidden_size /
                     * dim_model_base) */
    SCALES_COHERE,  /* logits * logit_scale */
    SCALES_FALCON   /* embedding_ and lm_head_multiplier, and those of branch_scales */
} scale_rule;

/* Values of keys that may be absent; 0: the key is required. */
typedef struct arch_defaults {
    int64_t hidden_size, n_layers, intermediate_size, n_heads, n_kv_heads, head_dim, vocab_size;
    double rms_norm_eps;
    int64_t wide_mlp; /* intermediate_size is so many times hidden_size when absent; 0: no rule */
} arch_defaults;

/* Names of keys; NULL: the usual one. */
typedef struct arch_keys {
    const char *hidden_size, *n_layers, *n_heads, *intermediate_size, *max_positions;
    const char *rms_norm_eps;
    const char *rope_theta, *partial_rotary; /* read besides the usual ones */
    const char *rotary_dims;                 /* how many channels of a head are rotated */
    const char *act;                         /* the activation, if a key decides it */
    const char *tied;
} arch_keys;

typedef struct arch {
    const char *name; /* model_type of the text model */
    const char *gguf; /* general.architecture; NULL: none */
    /* A metadata key that tells it from another row: it must be there and not 0, or this number;
     * NULL: none. */
    const char *gguf_needs;
    int64_t gguf_needs_value;
    const char *gguf_moe; /* another general.architecture, of files with experts; NULL: none */
    model_tier tier;
    block_kind block;
    const char *parallel_key; /* the flag that makes it parallel_block; NULL: none */
    bool is_parallel;         /* when the flag is absent */
    block_kind parallel_block;
    norm_kind norm;
    bias_rule norm_bias;
    qk_norm_kind qk_norm;
    const char *qk_norm_key; /* the flag that switches it; NULL: always */
    bool has_qk_norm;        /* when the flag is absent */
    bool is_plain_mlp;       /* down(act(up x)), without a gate */
    bool adjusts_mlp;        /* intermediate_size is not what is stated: the tensor tells */
    mlp_act act;
    qkv_layout qkv;
    bool has_gate_up; /* gate_up_proj: the rows of gate, then those of up */
    bool is_conv1d;   /* linear weights may be stored [in, out]: qkv_proj's shape tells */
    bias_rule qkv_bias, o_bias, mlp_bias, head_bias;
    uint32_t bias_defaults; /* bit r: the key of rule r is true when absent */
    tie_rule tie;
    embed_rule embed;
    scale_rule scales;
    double logit_scale; /* SCALES_COHERE, when absent */
    bool reads_clip_qkv;
    bool rope_traditional;       /* interleaved pairs, unless a key says otherwise */
    bool reads_rope_traditional; /* the config key rope_traditional is honoured */
    bool gguf_traditional;       /* GGUF rows of q and k are stored for interleaved rope */
    bool gguf_untruncated;       /* yarn's "truncate" is false, which GGUF does not say */
    bool gguf_tiled;             /* GGUF has value heads in another order: delta_config.is_tiled */
    const char *rope_types;      /* the only types that it has, between spaces; NULL: all */
    int64_t original_positions;  /* of longrope when the key is absent; 0: required */
    double partial_rotary;       /* when absent; 0: the family has no partial rotation */
    no_rope_rule no_rope;
    bool is_local_rope_plain; /* sliding layers have the same theta and no scaling */
    bool reads_rope_alpha;    /* theta * alpha^(d / (d - 2)) */
    bool has_scaled_rope;     /* the reference's rope without a key is scaled: one is required */
    bool reads_query_boost;   /* llama_4_scaling_beta: queries grow with the position */
    bool reads_mscale; /* short_mscale and long_mscale, which must be equal, are the input scale */
    bool tunes_bare_layers;     /* attn_temperature_tuning: those of layers without rope do */
    const char *reads[8];       /* keys that are refused in other families (config_layers.c) */
    const arch_keys *keys;      /* NULL: the usual names */
    const arch_keys *old_keys;  /* of files that have these instead: their hidden_size tells */
    const weight_naming *names; /* tensors of a folder that have other names than the usual */
    bool has_mla;               /* latent attention (mla.c) */
    bool has_sinks;             /* self_attn.sinks: a score for each head without a value */
    bool reads_softcaps;        /* else a softcap in the config is refused */
    float attention_softcap, final_softcap; /* when the keys are absent; 0: none */
    double rope_theta;                      /* when absent; 0: required */
    double local_rope_theta;                /* of sliding layers when absent; 0: one rope for all */
    double query_scalar;  /* query_pre_attn_scalar when absent; 0: the scale is head_dim^-1/2 */
    int gguf_wide_layers; /* GGUF with so many layers: the scale is (hidden / heads)^-1/2 */
    window_rule windows;
    int32_t window_pattern; /* when absent */
    int32_t
        sliding_window; /* or attention_chunk_size, when absent; 0: required where a layer slides */
    int64_t max_positions; /* when absent */
    mixer_rule mixers;
    bool gates_attention; /* sigmoid gates: q_proj has 2 * head_dim rows a head */
    gemma_rule gemma;
    const encoder_rule *encoder;           /* NULL: a decoder */
    const char *embed_end;                 /* ends a text whose embedding is wanted; NULL: none */
    bool clips_f16;                        /* residual sums in f16 saturate */
    const moe_rule *moe;                   /* NULL: no experts */
    const arch_defaults *defaults;         /* NULL: all keys are required */
    const arch_defaults *wrapper_defaults; /* of the same model inside text_config */
} arch;

/* The table is in parts, families*.c. */
typedef struct arch_table {
    const arch *rows;
    size_t n;
} arch_table;
extern const arch_table mica_archs_first, mica_archs_dense, mica_archs_encoder, mica_archs_moe,
    mica_archs_older, mica_archs_recurrent;
size_t mica_n_archs(void);
const arch *mica_arch_at(size_t i); /* of the whole, in alphabetical order */

/* The type that decides: the outer model_type, or text_config's inside a vision wrapper. */
typedef struct model_kind {
    char file_type[48]; /* as in the file */
    char text_type[48]; /* of the text model, before remapping */
    bool wrapped;       /* the text model's keys are in text_config */
} model_kind;

/* `where` is the folder or file, for messages. */
mica_status mica_dispatch_kind(model_kind *out, const json_value *config, const char *where,
                               mica_error *err);
mica_status mica_dispatch_folder(const arch **out, const model_kind *kind, const char *where,
                                 mica_error *err);
mica_status mica_dispatch_gguf(const arch **out, const gguf_file *file, const char *where,
                               mica_error *err);
/* Refuses a file that is only part of a folder. */
mica_status mica_dispatch_file(const char *path, mica_error *err);
/* The rung that takes a configuration: dedicated by type or by shape (MiniCPM5), else generic. */
model_tier mica_dispatch_tier(const arch *a, const model_config *config);
bool mica_dispatch_is_minicpm5(const arch *a, const model_config *config);

#endif
