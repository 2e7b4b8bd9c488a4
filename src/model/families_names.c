/* families_names.c: families whose files use other words: names of tensors, names of config keys.
 *
 * A pattern's N is a number; a '*' at its end stands for any rest. What is listed with NULL is
 * dropped: masks that some files store, layers for predicting several tokens.
 */
#include "model/families.h"

#include <stddef.h>

static const weight_name phi[] = {
    {"layers.N.self_attn.dense", "layers.N.self_attn.o_proj"},
    {"layers.N.self_attn.q_layernorm", "layers.N.self_attn.q_norm"},
    {"layers.N.self_attn.k_layernorm", "layers.N.self_attn.k_norm"},
    {"layers.N.mlp.fc1", "layers.N.mlp.up_proj"},
    {"layers.N.mlp.fc2", "layers.N.mlp.down_proj"},
    {"final_layernorm", "norm"},
    {NULL, NULL},
};
const weight_naming mica_names_phi = {.names = phi};

static const weight_name starcoder2[] = {
    {"layers.N.mlp.c_fc", "layers.N.mlp.up_proj"},
    {"layers.N.mlp.c_proj", "layers.N.mlp.down_proj"},
    {NULL, NULL},
};
const weight_naming mica_names_starcoder2 = {.names = starcoder2};

static const weight_name stablelm[] = {
    {"layers.N.self_attn.q_layernorm.norms.N", "layers.N.self_attn.q_norm.norms.N"},
    {"layers.N.self_attn.k_layernorm.norms.N", "layers.N.self_attn.k_norm.norms.N"},
    {NULL, NULL},
};
const weight_naming mica_names_stablelm = {.names = stablelm};

/* post_attention_layernorm is what elsewhere is called pre_feedforward_layernorm. */
static const weight_name glm4[] = {
    {"layers.N.post_self_attn_layernorm", "layers.N.post_attention_layernorm"},
    {"layers.N.post_attention_layernorm", "layers.N.pre_feedforward_layernorm"},
    {"layers.N.post_mlp_layernorm", "layers.N.post_feedforward_layernorm"},
    {NULL, NULL},
};
const weight_naming mica_names_glm4 = {.names = glm4};

static const weight_name exaone[] = {
    {"h.N.ln_1", "layers.N.input_layernorm"},
    {"h.N.ln_2", "layers.N.post_attention_layernorm"},
    {"h.N.attn.attention.q_proj", "layers.N.self_attn.q_proj"},
    {"h.N.attn.attention.k_proj", "layers.N.self_attn.k_proj"},
    {"h.N.attn.attention.v_proj", "layers.N.self_attn.v_proj"},
    {"h.N.attn.attention.out_proj", "layers.N.self_attn.o_proj"},
    {"h.N.mlp.c_fc_0", "layers.N.mlp.gate_proj"},
    {"h.N.mlp.c_fc_1", "layers.N.mlp.up_proj"},
    {"h.N.mlp.c_proj", "layers.N.mlp.down_proj"},
    {"ln_f", "norm"},
    {NULL, NULL},
};
const weight_naming mica_names_exaone = {.embed = "wte", .names = exaone};
const arch_keys mica_keys_exaone = {.n_layers = "num_layers", .rms_norm_eps = "layer_norm_epsilon"};

static const weight_name internlm2[] = {
    {"layers.N.attention.wqkv", "layers.N.self_attn.qkv_proj"},
    {"layers.N.attention.wo", "layers.N.self_attn.o_proj"},
    {"layers.N.feed_forward.w1", "layers.N.mlp.gate_proj"},
    {"layers.N.feed_forward.w2", "layers.N.mlp.down_proj"},
    {"layers.N.feed_forward.w3", "layers.N.mlp.up_proj"},
    {"layers.N.attention_norm", "layers.N.input_layernorm"},
    {"layers.N.ffn_norm", "layers.N.post_attention_layernorm"},
    {NULL, NULL},
};
const weight_naming mica_names_internlm2 = {
    .embed = "tok_embeddings", .head = "output", .names = internlm2};

static const weight_name mimo[] = {{"mtp_layers.*", NULL}, {NULL, NULL}};
const weight_naming mica_names_mimo = {.names = mimo};

static const weight_name hunyuan[] = {
    {"layers.N.self_attn.query_layernorm", "layers.N.self_attn.q_norm"},
    {"layers.N.self_attn.key_layernorm", "layers.N.self_attn.k_norm"},
    {NULL, NULL},
};
const weight_naming mica_names_hunyuan = {.names = hunyuan};

static const weight_name apertus[] = {
    {"layers.N.attention_layernorm", "layers.N.input_layernorm"},
    {"layers.N.feedforward_layernorm", "layers.N.post_attention_layernorm"},
    {NULL, NULL},
};
const weight_naming mica_names_apertus = {.names = apertus};

static const weight_name gpt2[] = {
    {"wpe", "embed_positions"},
    {"h.N.ln_1", "layers.N.input_layernorm"},
    {"h.N.ln_2", "layers.N.post_attention_layernorm"},
    {"h.N.attn.c_attn", "layers.N.self_attn.qkv_proj"},
    {"h.N.attn.c_proj", "layers.N.self_attn.o_proj"},
    {"h.N.mlp.c_fc", "layers.N.mlp.up_proj"},
    {"h.N.mlp.c_proj", "layers.N.mlp.down_proj"},
    {"h.N.attn.bias", NULL},
    {"h.N.attn.masked_bias", NULL},
    {"ln_f", "norm"},
    {NULL, NULL},
};
const weight_naming mica_names_gpt2 = {.embed = "wte", .names = gpt2};
const arch_keys mica_keys_gpt2 = {.hidden_size = "n_embd",
                                  .n_layers = "n_layer",
                                  .n_heads = "n_head",
                                  .intermediate_size = "n_inner",
                                  .max_positions = "n_positions",
                                  .rms_norm_eps = "layer_norm_epsilon",
                                  .act = "activation_function"};

static const weight_name gpt_neox[] = {
    {"layers.N.attention.query_key_value", "layers.N.self_attn.qkv_proj"},
    {"layers.N.attention.dense", "layers.N.self_attn.o_proj"},
    {"layers.N.mlp.dense_h_to_4h", "layers.N.mlp.up_proj"},
    {"layers.N.mlp.dense_4h_to_h", "layers.N.mlp.down_proj"},
    {"layers.N.attention.bias", NULL},
    {"layers.N.attention.masked_bias", NULL},
    /* as mlx-lm writes them */
    {"h.N.attention.query_key_value", "layers.N.self_attn.qkv_proj"},
    {"h.N.attention.dense", "layers.N.self_attn.o_proj"},
    {"h.N.mlp.dense_h_to_4h", "layers.N.mlp.up_proj"},
    {"h.N.mlp.dense_4h_to_h", "layers.N.mlp.down_proj"},
    {"h.N.input_layernorm", "layers.N.input_layernorm"},
    {"h.N.post_attention_layernorm", "layers.N.post_attention_layernorm"},
    {"final_layer_norm", "norm"},
    {NULL, NULL},
};
const weight_naming mica_names_gpt_neox = {
    .embed = "embed_in", .head = "embed_out", .names = gpt_neox};
const arch_keys mica_keys_gpt_neox = {.rms_norm_eps = "layer_norm_eps",
                                      .rope_theta = "rotary_emb_base",
                                      .partial_rotary = "rotary_pct",
                                      .act = "hidden_act"};

const arch_keys mica_keys_layer_norm_eps = {.rms_norm_eps = "layer_norm_eps"};
const arch_keys mica_keys_norm_epsilon = {.rms_norm_eps = "norm_epsilon"};
const arch_keys mica_keys_norm_eps = {.rms_norm_eps = "norm_eps"};

static const weight_name lfm2[] = {
    {"layers.N.operator_norm", "layers.N.input_layernorm"},
    {"layers.N.ffn_norm", "layers.N.post_attention_layernorm"},
    {"layers.N.self_attn.out_proj", "layers.N.self_attn.o_proj"},
    {"layers.N.self_attn.q_layernorm", "layers.N.self_attn.q_norm"},
    {"layers.N.self_attn.k_layernorm", "layers.N.self_attn.k_norm"},
    {"layers.N.conv.in_proj", "layers.N.mixer.in_proj"},
    {"layers.N.conv.conv", "layers.N.mixer.conv1d"},
    {"layers.N.conv.out_proj", "layers.N.mixer.out_proj"},
    {"layers.N.feed_forward.w1", "layers.N.mlp.gate_proj"},
    {"layers.N.feed_forward.w2", "layers.N.mlp.down_proj"},
    {"layers.N.feed_forward.w3", "layers.N.mlp.up_proj"},
    /* mlx-lm's names in models with experts */
    {"layers.N.feed_forward.gate_proj", "layers.N.mlp.gate_proj"},
    {"layers.N.feed_forward.down_proj", "layers.N.mlp.down_proj"},
    {"layers.N.feed_forward.up_proj", "layers.N.mlp.up_proj"},
    {"layers.N.feed_forward.gate", "layers.N.mlp.gate"},
    {"layers.N.feed_forward.expert_bias", "layers.N.mlp.gate.e_score_correction_bias"},
    {"layers.N.feed_forward.experts.N.w1", "layers.N.mlp.experts.N.gate_proj"},
    {"layers.N.feed_forward.experts.N.w2", "layers.N.mlp.experts.N.down_proj"},
    {"layers.N.feed_forward.experts.N.w3", "layers.N.mlp.experts.N.up_proj"},
    {"layers.N.feed_forward.experts.gate_up_proj", "layers.N.mlp.experts.gate_up_proj"},
    {"layers.N.feed_forward.experts.down_proj", "layers.N.mlp.experts.down_proj"},
    {"layers.N.feed_forward.switch_mlp.gate_proj", "layers.N.mlp.switch_mlp.gate_proj"},
    {"layers.N.feed_forward.switch_mlp.down_proj", "layers.N.mlp.switch_mlp.down_proj"},
    {"layers.N.feed_forward.switch_mlp.up_proj", "layers.N.mlp.switch_mlp.up_proj"},
    {"embedding_norm", "norm"},
    {NULL, NULL},
};
const weight_naming mica_names_lfm2 = {.names = lfm2};
const arch_keys mica_keys_lfm2 = {
    .intermediate_size = "block_ff_dim", .rms_norm_eps = "norm_eps", .tied = "tie_embedding"};

static const weight_name mamba[] = {
    {"layers.N.norm", "layers.N.input_layernorm"}, {"norm_f", "norm"}, {NULL, NULL}};
const weight_naming mica_names_mamba = {.embed = "embeddings", .names = mamba};
const arch_keys mica_keys_mamba = {.rms_norm_eps = "layer_norm_epsilon"};

static const weight_name granite_hybrid[] = {
    {"layers.N.mamba.in_proj", "layers.N.mixer.in_proj"},
    {"layers.N.mamba.conv1d", "layers.N.mixer.conv1d"},
    {"layers.N.mamba.out_proj", "layers.N.mixer.out_proj"},
    {"layers.N.mamba.A_log", "layers.N.mixer.A_log"},
    {"layers.N.mamba.D", "layers.N.mixer.D"},
    {"layers.N.mamba.dt_bias", "layers.N.mixer.dt_bias"},
    {"layers.N.mamba.norm", "layers.N.mixer.norm"},
    {"layers.N.block_sparse_moe.router.layer", "layers.N.mlp.gate"},
    {"layers.N.block_sparse_moe.input_linear", "layers.N.mlp.experts.gate_up_proj"},
    {"layers.N.block_sparse_moe.output_linear", "layers.N.mlp.experts.down_proj"},
    {"layers.N.block_sparse_moe.switch_mlp.gate_proj", "layers.N.mlp.switch_mlp.gate_proj"},
    {"layers.N.block_sparse_moe.switch_mlp.down_proj", "layers.N.mlp.switch_mlp.down_proj"},
    {"layers.N.block_sparse_moe.switch_mlp.up_proj", "layers.N.mlp.switch_mlp.up_proj"},
    {"layers.N.shared_mlp.input_linear", "layers.N.mlp.shared_expert.gate_up_proj"},
    {"layers.N.shared_mlp.output_linear", "layers.N.mlp.shared_expert.down_proj"},
    /* mlx-lm's names in models without experts */
    {"layers.N.mlp.gate_proj", "layers.N.mlp.shared_expert.gate_proj"},
    {"layers.N.mlp.up_proj", "layers.N.mlp.shared_expert.up_proj"},
    {"layers.N.mlp.down_proj", "layers.N.mlp.shared_expert.down_proj"},
    {NULL, NULL},
};
const weight_naming mica_names_granite_hybrid = {.names = granite_hybrid};

static const weight_name jamba[] = {
    {"layers.N.mamba.in_proj", "layers.N.mixer.in_proj"},
    {"layers.N.mamba.conv1d", "layers.N.mixer.conv1d"},
    {"layers.N.mamba.out_proj", "layers.N.mixer.out_proj"},
    {"layers.N.mamba.A_log", "layers.N.mixer.A_log"},
    {"layers.N.mamba.D", "layers.N.mixer.D"},
    {"layers.N.mamba.x_proj", "layers.N.mixer.x_proj"},
    {"layers.N.mamba.dt_proj", "layers.N.mixer.dt_proj"},
    {"layers.N.mamba.dt_layernorm", "layers.N.mixer.dt_layernorm"},
    {"layers.N.mamba.b_layernorm", "layers.N.mixer.b_layernorm"},
    {"layers.N.mamba.c_layernorm", "layers.N.mixer.c_layernorm"},
    {"layers.N.pre_ff_layernorm", "layers.N.post_attention_layernorm"},
    {"layers.N.feed_forward.gate_proj", "layers.N.mlp.gate_proj"},
    {"layers.N.feed_forward.up_proj", "layers.N.mlp.up_proj"},
    {"layers.N.feed_forward.down_proj", "layers.N.mlp.down_proj"},
    {"layers.N.feed_forward.router", "layers.N.mlp.gate"},
    {"layers.N.feed_forward.experts.N.gate_proj", "layers.N.mlp.experts.N.gate_proj"},
    {"layers.N.feed_forward.experts.N.up_proj", "layers.N.mlp.experts.N.up_proj"},
    {"layers.N.feed_forward.experts.N.down_proj", "layers.N.mlp.experts.N.down_proj"},
    {"layers.N.feed_forward.switch_mlp.gate_proj", "layers.N.mlp.switch_mlp.gate_proj"},
    {"layers.N.feed_forward.switch_mlp.up_proj", "layers.N.mlp.switch_mlp.up_proj"},
    {"layers.N.feed_forward.switch_mlp.down_proj", "layers.N.mlp.switch_mlp.down_proj"},
    {"final_layernorm", "norm"},
    {NULL, NULL},
};
const weight_naming mica_names_jamba = {.names = jamba};

static const weight_name falcon_h1[] = {
    {"layers.N.mamba.in_proj", "layers.N.mixer.in_proj"},
    {"layers.N.mamba.conv1d", "layers.N.mixer.conv1d"},
    {"layers.N.mamba.out_proj", "layers.N.mixer.out_proj"},
    {"layers.N.mamba.A_log", "layers.N.mixer.A_log"},
    {"layers.N.mamba.D", "layers.N.mixer.D"},
    {"layers.N.mamba.dt_bias", "layers.N.mixer.dt_bias"},
    {"layers.N.mamba.norm", "layers.N.mixer.norm"},
    {"layers.N.pre_ff_layernorm", "layers.N.post_attention_layernorm"},
    {"layers.N.feed_forward.gate_proj", "layers.N.mlp.gate_proj"},
    {"layers.N.feed_forward.up_proj", "layers.N.mlp.up_proj"},
    {"layers.N.feed_forward.down_proj", "layers.N.mlp.down_proj"},
    {"final_layernorm", "norm"},
    {NULL, NULL},
};
const weight_naming mica_names_falcon_h1 = {.names = falcon_h1};

/* What a layer is, its tensors' last words tell. */
static const weight_name nemotron_h[] = {
    {"layers.N.norm", "layers.N.input_layernorm"},
    {"layers.N.mixer.q_proj", "layers.N.self_attn.q_proj"},
    {"layers.N.mixer.k_proj", "layers.N.self_attn.k_proj"},
    {"layers.N.mixer.v_proj", "layers.N.self_attn.v_proj"},
    {"layers.N.mixer.o_proj", "layers.N.self_attn.o_proj"},
    {"layers.N.mixer.up_proj", "layers.N.mlp.up_proj"},
    {"layers.N.mixer.down_proj", "layers.N.mlp.down_proj"},
    {"layers.N.mixer.gate", "layers.N.mlp.gate"},
    {"layers.N.mixer.experts.N.up_proj", "layers.N.mlp.experts.N.up_proj"},
    {"layers.N.mixer.experts.N.down_proj", "layers.N.mlp.experts.N.down_proj"},
    {"layers.N.mixer.experts.up_proj", "layers.N.mlp.experts.up_proj"},
    {"layers.N.mixer.experts.down_proj", "layers.N.mlp.experts.down_proj"},
    {"layers.N.mixer.switch_mlp.fc1", "layers.N.mlp.switch_mlp.up_proj"},
    {"layers.N.mixer.switch_mlp.fc2", "layers.N.mlp.switch_mlp.down_proj"},
    {"layers.N.mixer.shared_experts.up_proj", "layers.N.mlp.shared_expert.up_proj"},
    {"layers.N.mixer.shared_experts.down_proj", "layers.N.mlp.shared_expert.down_proj"},
    {"layers.N.mixer.fc1_latent_proj", "layers.N.mlp.fc1_latent_proj"},
    {"layers.N.mixer.fc2_latent_proj", "layers.N.mlp.fc2_latent_proj"},
    {"norm_f", "norm"},
    {NULL, NULL},
};
const weight_naming mica_names_nemotron_h = {.embed = "embeddings", .names = nemotron_h};
const arch_keys mica_keys_nemotron_h = {.rms_norm_eps = "layer_norm_epsilon",
                                        .act = "mlp_hidden_act"};
