/* arch.h: what one row of the family table says, and the dispatch ladder over the table.
 *
 * A row is data: which blocks, norms and activations a family is made of, and what its config keys
 * mean when they are absent. The readers (config*.c) and the builder (dense.c) switch on these
 * values and never on a family's name.
 */
#ifndef MICA_MODEL_ARCH_H
#define MICA_MODEL_ARCH_H

#include "model/model.h"

typedef enum block_kind {
    BLOCK_PRE,     /* h = x + attn(N1 x);     out = h + mlp(N2 h) */
    BLOCK_SANDWICH /* h = x + N2(attn(N1 x)); out = h + N4(mlp(N3 h)) */
} block_kind;

typedef enum norm_kind {
    NORM_RMS,
    NORM_RMS_PLUS_1 /* the weight is 1 + w; GGUF converters have added the 1 already */
} norm_kind;

typedef enum bias_rule {
    BIAS_RULE_NEVER,
    BIAS_RULE_ALWAYS,
    BIAS_RULE_ATTENTION_KEY, /* attention_bias; in GGUF: if the tensor is there */
    BIAS_RULE_MLP_KEY        /* mlp_bias; likewise */
} bias_rule;

/* Which layers slide when layer_types is absent. */
typedef enum window_rule {
    WINDOW_RULE_MISTRAL,    /* type mistral: every layer; llama: none */
    WINDOW_RULE_MAX_LAYERS, /* i >= max_window_layers when use_sliding_window */
    WINDOW_RULE_PATTERN     /* layer i slides iff (i + 1) % pattern != 0 */
} window_rule;

typedef enum tie_rule {
    TIE_RULE_TRUE,   /* the key; tied when absent */
    TIE_RULE_FALSE,  /* the key; untied when absent */
    TIE_RULE_ALWAYS, /* tied unless the key says false and lm_head is there */
    TIE_RULE_TENSOR  /* tied iff there is no lm_head */
} tie_rule;

typedef enum embed_rule {
    EMBED_PLAIN,
    EMBED_SQRT_HIDDEN,     /* times sqrt(hidden_size), rounded to the activation dtype */
    EMBED_SQRT_HIDDEN_BF16 /* rounded to bf16 first, whatever the dtype (folders only) */
} embed_rule;

/* Which layers have experts; the others have the dense MLP. */
typedef enum sparse_rule {
    SPARSE_ALL,
    SPARSE_STEP,       /* not in mlp_only_layers, and (i + 1) % decoder_sparse_step == 0 */
    SPARSE_AFTER_DENSE /* i >= first_k_dense_replace, and i % moe_layer_freq == 0 */
} sparse_rule;

typedef enum router_rule {
    ROUTER_SOFTMAX_ALL,    /* softmax over all experts, of which k are chosen */
    ROUTER_SOFTMAX_CHOSEN, /* softmax over the k largest logits */
    ROUTER_SIGMOID,        /* sigmoid; with the selection bias added for the choice alone */
} router_rule;

typedef enum normalize_rule { NORMALIZE_NEVER, NORMALIZE_KEY, NORMALIZE_ALWAYS } normalize_rule;

/* Mixture of experts: where its tensors are in a layer, and what its keys mean. */
typedef struct moe_rule {
    const char *block;  /* where all lies in a layer: "mlp" */
    const char *router; /* in the block: "gate" */
    const char *raw[3]; /* gate, up, down of one expert: "gate_proj"; in a stack always that */
    const char *shared; /* the MLP that every token takes, in the block; NULL: none */
    const char *shared_router;  /* its sigmoid gate; NULL: none */
    const char *selection_bias; /* in the block; NULL: none */
    sparse_rule sparse;
    router_rule scores;
    normalize_rule normalize; /* NORMALIZE_KEY: norm_topk_prob */
    bool normalize_default;
    bool wide_router;    /* the router computes in f32 */
    bool has_groups;     /* n_group, topk_group */
    bool has_factor;     /* routed_scaling_factor */
    int group_best;      /* a group's score is the sum of so many */
    bool width_is_plain; /* experts are intermediate_size wide, there is no moe_intermediate_size */
    const char *shared_key; /* the shared width, or with shared_counts how many experts wide */
    bool shared_counts;
} moe_rule;

/* Values of keys that may be absent; 0: the key is required. */
typedef struct arch_defaults {
    int64_t hidden_size, n_layers, intermediate_size, n_heads, n_kv_heads, head_dim, vocab_size;
    double rms_norm_eps;
} arch_defaults;

typedef struct arch {
    const char *name; /* model_type of the text model */
    const char *gguf; /* general.architecture; NULL: none */
    model_tier tier;
    block_kind block;
    norm_kind norm;
    bool qk_norm; /* RMS over head_dim of q and k, before rope */
    glu_act act;
    bias_rule qkv_bias, o_bias, mlp_bias;
    tie_rule tie;
    embed_rule embed;
    bool reads_rope_traditional; /* the config key rope_traditional is honoured */
    bool gguf_traditional;       /* GGUF rows of q and k are stored for interleaved rope */
    bool reads_softcaps;         /* else a softcap in the config is refused */
    float attention_softcap, final_softcap; /* when the keys are absent; 0: none */
    double rope_theta;                      /* when absent */
    double local_rope_theta;                /* of sliding layers when absent; 0: one rope for all */
    double query_scalar;  /* query_pre_attn_scalar when absent; 0: the scale is head_dim^-1/2 */
    int gguf_wide_layers; /* GGUF with so many layers: the scale is (hidden / heads)^-1/2 */
    window_rule windows;
    int32_t window_pattern;                /* when absent */
    int32_t sliding_window;                /* when absent; 0: required where a layer slides */
    int64_t max_positions;                 /* when absent */
    const moe_rule *moe;                   /* NULL: no experts */
    const arch_defaults *defaults;         /* NULL: all keys are required */
    const arch_defaults *wrapper_defaults; /* of the same model inside text_config */
} arch;

extern const arch mica_archs[];
extern const size_t mica_n_archs;

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
/* The rung that takes a configuration: dedicated by type or by shape (MiniCPM5), else generic. */
model_tier mica_dispatch_tier(const arch *a, const model_config *config);
bool mica_dispatch_is_minicpm5(const arch *a, const model_config *config);

#endif
