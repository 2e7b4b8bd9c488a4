/* families_encoder.c: BERT and its kin, which make embeddings of texts.
 *
 * Norms come after the sums. Old files call a norm's weight and bias gamma and beta. Poolers and
 * heads for masked words are of no use here and dropped.
 */
#include "model/families.h"

#include <stddef.h>

static const weight_name bert_tensors[] = {
    {"embeddings.position_embeddings", "embed_positions"},
    {"embeddings.token_type_embeddings", "embed_token_types"},
    {"embeddings.position_ids", NULL},
    {"embeddings.token_type_ids", NULL},
    {"embeddings.LayerNorm.gamma", "embed_norm.weight"},
    {"embeddings.LayerNorm.beta", "embed_norm.bias"},
    {"embeddings.LayerNorm", "embed_norm"},
    {"encoder.layer.N.attention.self.query", "layers.N.self_attn.q_proj"},
    {"encoder.layer.N.attention.self.key", "layers.N.self_attn.k_proj"},
    {"encoder.layer.N.attention.self.value", "layers.N.self_attn.v_proj"},
    {"encoder.layer.N.attention.output.dense", "layers.N.self_attn.o_proj"},
    {"encoder.layer.N.attention.output.LayerNorm.gamma",
     "layers.N.post_attention_layernorm.weight"},
    {"encoder.layer.N.attention.output.LayerNorm.beta", "layers.N.post_attention_layernorm.bias"},
    {"encoder.layer.N.attention.output.LayerNorm", "layers.N.post_attention_layernorm"},
    {"encoder.layer.N.intermediate.dense", "layers.N.mlp.up_proj"},
    {"encoder.layer.N.output.dense", "layers.N.mlp.down_proj"},
    {"encoder.layer.N.output.LayerNorm.gamma", "layers.N.post_feedforward_layernorm.weight"},
    {"encoder.layer.N.output.LayerNorm.beta", "layers.N.post_feedforward_layernorm.bias"},
    {"encoder.layer.N.output.LayerNorm", "layers.N.post_feedforward_layernorm"},
    {"pooler.dense", NULL},
    {NULL, NULL},
};
static const weight_naming bert_naming = {.embed = "embeddings.word_embeddings",
                                          .names = bert_tensors};

static const weight_name distilbert_tensors[] = {
    {"embeddings.position_embeddings", "embed_positions"},
    {"embeddings.position_ids", NULL},
    {"embeddings.LayerNorm", "embed_norm"},
    {"transformer.layer.N.attention.q_lin", "layers.N.self_attn.q_proj"},
    {"transformer.layer.N.attention.k_lin", "layers.N.self_attn.k_proj"},
    {"transformer.layer.N.attention.v_lin", "layers.N.self_attn.v_proj"},
    {"transformer.layer.N.attention.out_lin", "layers.N.self_attn.o_proj"},
    {"transformer.layer.N.sa_layer_norm", "layers.N.post_attention_layernorm"},
    {"transformer.layer.N.ffn.lin1", "layers.N.mlp.up_proj"},
    {"transformer.layer.N.ffn.lin2", "layers.N.mlp.down_proj"},
    {"transformer.layer.N.output_layer_norm", "layers.N.post_feedforward_layernorm"},
    {NULL, NULL},
};
static const weight_naming distilbert_naming = {.embed = "embeddings.word_embeddings",
                                                .names = distilbert_tensors};

/* As the authors' code names tensors, and as Transformers does. */
static const weight_name nomic_tensors[] = {
    {"emb_ln", "embed_norm"},
    {"embeddings.LayerNorm", "embed_norm"},
    {"embeddings.token_type_embeddings", "embed_token_types"},
    {"embeddings.position_ids", NULL},
    {"embeddings.token_type_ids", NULL},
    {"encoder.layers.N.attn.Wqkv", "layers.N.self_attn.qkv_proj"},
    {"encoder.layers.N.attn.out_proj", "layers.N.self_attn.o_proj"},
    {"encoder.layers.N.mlp.fc11", "layers.N.mlp.up_proj"},
    {"encoder.layers.N.mlp.fc12", "layers.N.mlp.gate_proj"},
    {"encoder.layers.N.mlp.fc2", "layers.N.mlp.down_proj"},
    {"encoder.layers.N.norm1", "layers.N.post_attention_layernorm"},
    {"encoder.layers.N.norm2", "layers.N.post_feedforward_layernorm"},
    {"layers.N.post_mlp_layernorm", "layers.N.post_feedforward_layernorm"},
    {"pooler.dense", NULL},
    {NULL, NULL},
};
static const weight_naming nomic_naming = {.embed = "embeddings.word_embeddings",
                                           .names = nomic_tensors};

static const arch_keys bert_keys = {.rms_norm_eps = "layer_norm_eps", .act = "hidden_act"};
static const arch_keys distilbert_keys = {.hidden_size = "dim",
                                          .n_layers = "n_layers",
                                          .n_heads = "n_heads",
                                          .intermediate_size = "hidden_dim",
                                          .rms_norm_eps = "layer_norm_eps",
                                          .act = "activation"};

static const arch_keys nomic_old_keys = {.hidden_size = "n_embd",
                                         .n_layers = "n_layer",
                                         .n_heads = "n_head",
                                         .intermediate_size = "n_inner",
                                         .max_positions = "n_positions",
                                         .rms_norm_eps = "layer_norm_epsilon",
                                         .rope_theta = "rotary_emb_base",
                                         .partial_rotary = "rotary_emb_fraction",
                                         .act = "activation_function"};

/* What the configuration classes assume. */
static const arch_defaults bert_sizes = {.hidden_size = 768,
                                         .n_layers = 12,
                                         .intermediate_size = 3072,
                                         .n_heads = 12,
                                         .vocab_size = 30522,
                                         .rms_norm_eps = 1e-12};
static const arch_defaults roberta_sizes = {.hidden_size = 768,
                                            .n_layers = 12,
                                            .intermediate_size = 3072,
                                            .n_heads = 12,
                                            .vocab_size = 50265,
                                            .rms_norm_eps = 1e-12};
static const arch_defaults distilbert_sizes = {.hidden_size = 768,
                                               .n_layers = 6,
                                               .intermediate_size = 3072,
                                               .n_heads = 12,
                                               .vocab_size = 30522,
                                               .rms_norm_eps = 1e-12};

static const arch_defaults nomic_sizes = {.hidden_size = 768,
                                          .n_layers = 12,
                                          .intermediate_size = 3072,
                                          .n_heads = 12,
                                          .vocab_size = 30528,
                                          .rms_norm_eps = 1e-12};

static const encoder_rule bert_rule = {.classes = "Bert", .n_token_types = 2};
static const encoder_rule roberta_rule = {
    .classes = "Roberta XLMRoberta Camembert", .n_token_types = 2, .skips_padding = true};
static const encoder_rule distilbert_rule = {.classes = "DistilBert", .n_token_types = 0};
static const encoder_rule nomic_rule = {
    .classes = "NomicBert", .n_token_types = 2, .with_experts = "nomic-bert-moe"};

static const arch rows[] = {
    {
        .name = "bert",
        .gguf = "bert",
        .tier = TIER_GENERIC,
        .block = BLOCK_POST_SUM,
        .norm = NORM_LAYER,
        .norm_bias = BIAS_RULE_ALWAYS,
        .is_plain_mlp = true,
        .act = ACT_GELU,
        .qkv_bias = BIAS_RULE_ALWAYS,
        .o_bias = BIAS_RULE_ALWAYS,
        .mlp_bias = BIAS_RULE_ALWAYS,
        .tie = TIE_RULE_ALWAYS,
        .no_rope = NO_ROPE_ALL,
        .max_positions = 512,
        .encoder = &bert_rule,
        .keys = &bert_keys,
        .names = &bert_naming,
        .defaults = &bert_sizes,
    },
    {
        .name = "distilbert",
        .tier = TIER_GENERIC,
        .block = BLOCK_POST_SUM,
        .norm = NORM_LAYER,
        .norm_bias = BIAS_RULE_ALWAYS,
        .is_plain_mlp = true,
        .act = ACT_GELU,
        .qkv_bias = BIAS_RULE_ALWAYS,
        .o_bias = BIAS_RULE_ALWAYS,
        .mlp_bias = BIAS_RULE_ALWAYS,
        .tie = TIE_RULE_ALWAYS,
        .no_rope = NO_ROPE_ALL,
        .max_positions = 512,
        .encoder = &distilbert_rule,
        .keys = &distilbert_keys,
        .names = &distilbert_naming,
        .defaults = &distilbert_sizes,
    },
    {
        .name = "nomic_bert",
        .gguf = "nomic-bert",
        .tier = TIER_GENERIC,
        .block = BLOCK_POST_SUM,
        .norm = NORM_LAYER,
        .norm_bias = BIAS_RULE_ALWAYS,
        .act = ACT_SILU,
        .qkv = QKV_EITHER,
        .tie = TIE_RULE_ALWAYS,
        .rope_theta = 1000.0,
        .max_positions = 2048,
        .encoder = &nomic_rule,
        .keys = &bert_keys,
        .old_keys = &nomic_old_keys,
        .names = &nomic_naming,
        .defaults = &nomic_sizes,
    },
    {
        .name = "roberta",
        .tier = TIER_GENERIC,
        .block = BLOCK_POST_SUM,
        .norm = NORM_LAYER,
        .norm_bias = BIAS_RULE_ALWAYS,
        .is_plain_mlp = true,
        .act = ACT_GELU,
        .qkv_bias = BIAS_RULE_ALWAYS,
        .o_bias = BIAS_RULE_ALWAYS,
        .mlp_bias = BIAS_RULE_ALWAYS,
        .tie = TIE_RULE_ALWAYS,
        .no_rope = NO_ROPE_ALL,
        .max_positions = 512,
        .encoder = &roberta_rule,
        .keys = &bert_keys,
        .names = &bert_naming,
        .defaults = &roberta_sizes,
    },
};

const arch_table mica_archs_encoder = {rows, sizeof(rows) / sizeof(rows[0])};
