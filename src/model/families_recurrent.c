/* families_recurrent.c: the rows of families with layers that carry a state instead of a cache.
 *
 * As families.c, in alphabetical order; docs/models.md 11.
 */
#include "model/arch.h"

static const moe_rule qwen3_5_moe = {
    .sparse = SPARSE_ALL,
    .scores = ROUTER_SOFTMAX_ALL,
    .normalize = NORMALIZE_ALWAYS,
    .shared_key = "shared_expert_intermediate_size",
    .shared_is_gated = true,
};

static const moe_rule qwen3_next = {
    .sparse = SPARSE_STEP,
    .scores = ROUTER_SOFTMAX_ALL,
    .normalize = NORMALIZE_KEY,
    .normalize_default = true,
    .shared_key = "shared_expert_intermediate_size",
    .shared_is_gated = true,
};

static const arch rows[] = {
    {
        .name = "qwen3_5_moe_text",
        .tier = TIER_GENERIC,
        .block = BLOCK_PRE,
        .norm = NORM_RMS_RAW_PLUS_1,
        .qk_norm = QK_NORM_HEAD,
        .act = ACT_SILU,
        .qkv_bias = BIAS_RULE_ATTENTION_KEY,
        .o_bias = BIAS_RULE_ATTENTION_KEY,
        .tie = TIE_RULE_FALSE,
        .partial_rotary = 0.25,
        .reads = {"attn_output_gate"},
        .rope_theta = 10000.0,
        .windows = WINDOW_RULE_MISTRAL,
        .max_positions = 32768,
        .mixers = MIXERS_DELTA,
        .gates_attention = true,
        .moe = &qwen3_5_moe,
    },
    {
        .name = "qwen3_5_text",
        .tier = TIER_DEDICATED,
        .block = BLOCK_PRE,
        .norm = NORM_RMS_RAW_PLUS_1,
        .qk_norm = QK_NORM_HEAD,
        .act = ACT_SILU,
        .qkv_bias = BIAS_RULE_ATTENTION_KEY,
        .o_bias = BIAS_RULE_ATTENTION_KEY,
        .tie = TIE_RULE_FALSE,
        .partial_rotary = 0.25,
        .reads = {"attn_output_gate"},
        .rope_theta = 10000.0,
        .windows = WINDOW_RULE_MISTRAL,
        .max_positions = 32768,
        .mixers = MIXERS_DELTA,
        .gates_attention = true,
    },
    {
        .name = "qwen3_next",
        .tier = TIER_GENERIC,
        .block = BLOCK_PRE,
        .norm = NORM_RMS_RAW_PLUS_1,
        .qk_norm = QK_NORM_HEAD,
        .act = ACT_SILU,
        .qkv_bias = BIAS_RULE_ATTENTION_KEY,
        .o_bias = BIAS_RULE_ATTENTION_KEY,
        .tie = TIE_RULE_FALSE,
        .partial_rotary = 0.25,
        .reads = {"attn_output_gate"},
        .rope_theta = 10000.0,
        .windows = WINDOW_RULE_MISTRAL,
        .max_positions = 32768,
        .mixers = MIXERS_DELTA_FUSED,
        .gates_attention = true,
        .moe = &qwen3_next,
    },
};

const arch_table mica_archs_recurrent = {rows, sizeof(rows) / sizeof(rows[0])};
