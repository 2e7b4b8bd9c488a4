/* loaded.h: a model in memory, as the loader (model.c) and the builder (dense.c) share it.
 */
#ifndef MICA_MODEL_LOADED_H
#define MICA_MODEL_LOADED_H

#include "model/config.h"

/* A norm's weight, ready for use: with the 1 of RMS+1 families added. Formed in the tensor's own
 * dtype for checkpoints' arithmetic, and in f32 for graphs whose activations are all f32. */
typedef struct norm_weight {
    const weight_vector *own;
    const weight_vector *wide;
    const weight_vector *bias; /* layer norms; NULL: none */
} norm_weight;

typedef struct linear {
    const weight_matrix *weight;
    const weight_vector *bias; /* NULL: none */
} linear;

/* A router, stacks of experts, and the MLP that every token takes. */
typedef struct moe_layer {
    linear router;
    const weight_vector *selection_bias; /* NULL: none */
    const weight_matrix *gate, *up, *down;
    const weight_matrix *gate_up;                         /* rows in turn, instead of gate and up */
    const weight_vector *gate_bias, *up_bias, *down_bias; /* [n_experts, n_out]; NULL: none */
    linear shared_gate, shared_up, shared_down;           /* no weight: none */
    linear shared_router;
    linear latent_in, latent_out; /* around the experts; no weight: none */
    /* Gemma 4: the router's input is normed, scaled by router_scale and by hidden_size^-1/2; an
     * expert's weight is multiplied by its own scale [n_experts, 1]. */
    const weight_vector *router_scale;
    const weight_matrix *expert_scale;
} moe_layer;

/* A gated-delta layer: projections apart, or qkvz and ba. */
typedef struct delta_layer {
    linear qkv, z, b, a;
    linear qkvz, ba;
    const weight_vector *conv; /* [2 key + val, conv_width] */
    const weight_vector *a_log, *dt_bias, *norm;
    linear out;
} delta_layer;

/* Latent attention: q_a has no weight where q reads the input itself. */
typedef struct mla_layer {
    linear q_a, q, kv_a, o;
    const weight_matrix *k_b, *v_b; /* by head: [n_heads, kv_rank, nope], [n_heads, v, kv_rank] */
    norm_weight q_a_norm, kv_a_norm;
} mla_layer;

/* What a layer of Gemma 3n and 4 has beside a dense_layer. */
typedef struct gemma_layer {
    norm_weight post_mlp_norm, pre_experts_norm, post_experts_norm; /* MLP beside experts */
    linear input_gate, input_projection;
    norm_weight input_norm;
    float scalar;         /* of the layer's output; 0: none */
    float encoder_scalar; /* likewise, where the layer encodes (diffusion.c) */
    linear laurel_left, laurel_right, router, predict, correct;
    norm_weight laurel_norm, router_norm;
    const weight_vector *corrected_scale; /* NULL: none */
} gemma_layer;

typedef struct gemma_weights {
    const weight_matrix *per_layer; /* [vocab, n_layers * P]; NULL: no per-layer inputs */
    /* Ids past per_layer's rows read its row 0: 1 for those [n_vocab, 1], and that row as
     * [n_layers * P, 1]; NULL: there are none. */
    const weight_matrix *past_end, *first_row;
    linear model_projection;
    norm_weight projection_norm;
    linear *widen, *narrow;  /* [n_streams - 1] */
    norm_weight signal_norm; /* of self-conditioning; empty: none */
    linear signal_gate, signal_up, signal_down;
} gemma_weights;

/* A short convolution (in, conv, out) or a state-space layer. */
typedef struct ssm_layer {
    linear in, out;
    const weight_vector *conv, *conv_bias; /* [channels, conv_width]; no bias: NULL */
    const weight_vector *a_log, *d;
    const weight_vector *dt_bias, *norm; /* mamba2; no norm: NULL */
    norm_weight in_scales;               /* of what `in` gives; empty: none */
    linear x, dt;                        /* mamba */
    norm_weight dt_norm, b_norm, c_norm; /* mamba; empty: no weight */
} ssm_layer;

/* N1 to N4 of block_kind; those that a block lacks are empty. */
typedef struct dense_layer {
    norm_weight input_norm, post_attention_norm, pre_mlp_norm, post_mlp_norm;
    norm_weight q_norm, k_norm;
    linear q, k, v, o, gate, up, down;
    const delta_layer *delta;          /* instead of attention; NULL: attention */
    const weight_vector *sinks;        /* [n_heads]; NULL: none */
    const mla_layer *mla;              /* instead of q, k, v, o; NULL: plain attention */
    const gemma_layer *gemma;          /* NULL: another family */
    const ssm_layer *ssm;              /* likewise */
    const moe_layer *moe;              /* instead of gate, up, down; NULL: a dense MLP */
    linear qkv;                        /* QKV_GROUPS, instead of q, k and v */
    float alpha_p, alpha_n, beta, eps; /* of ACT_XIELU, as the operation wants them */
} dense_layer;

typedef struct dense_weights {
    const weight_matrix *embed;
    const weight_matrix *positions;     /* learned; NULL: none */
    norm_weight token_type, embed_norm; /* of encoders: row 0 of the token types; or empty */
    linear head;                        /* the embedding's own matrix when tied */
    norm_weight final_norm;
    const gemma_weights *gemma; /* NULL: another family */
    dense_layer *layers;        /* [n_layers] */
} dense_weights;

/* A rope's constants; table is NULL where periods are an input of the graph. */
typedef struct rope_constants {
    int64_t dims; /* rotated channels of a head */
    float *table; /* periods [dims/2] */
    float position_scale, input_scale;
} rope_constants;

struct model {
    mica_arena arena;
    hf_folder *folder; /* one of the two */
    gguf_file *gguf;
    weight_store *store;
    char *path;
    model_config config;
    config_facts facts;
    model_tier tier;
    uint64_t file_bytes;
    rope_constants rope[2];
    dense_weights weights;
};

/* Takes every tensor of the model from its store, checking shapes. */
mica_status mica_dense_take(model *m, mica_error *err);
/* Appends the model to an empty graph and fills the slots of *out. */
void mica_dense_build(const model *m, const model_build_options *options, model_graph *out);
/* The graph of MODEL_SIGNAL (diffusion.c). */
void mica_diffusion_build_signal(const model *m, model_graph *out);

#endif
