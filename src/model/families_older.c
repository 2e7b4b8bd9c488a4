/* families_older.c: the GPT-2 line, which people still load.
 */
#include "model/families.h"

static const arch_defaults gpt2 = {.rms_norm_eps = 1e-5, .wide_mlp = 4};

static const arch rows[] = {
    {
        .name = "gpt2",
        .gguf = "gpt2",
        .tier = TIER_GENERIC,
        .norm = NORM_LAYER,
        .norm_bias = BIAS_RULE_ALWAYS,
        .is_plain_mlp = true,
        .act = ACT_GELU_TANH,
        .qkv = QKV_ROWS,
        .is_conv1d = true,
        .qkv_bias = BIAS_RULE_ALWAYS,
        .o_bias = BIAS_RULE_ALWAYS,
        .mlp_bias = BIAS_RULE_ALWAYS,
        .tie = TIE_RULE_ALWAYS,
        .no_rope = NO_ROPE_ALL,
        .max_positions = 1024,
        .keys = &mica_keys_gpt2,
        .names = &mica_names_gpt2,
        .defaults = &gpt2,
    },
    {
        .name = "gpt_neox",
        .gguf = "gptneox",
        .tier = TIER_GENERIC,
        .parallel_key = "use_parallel_residual",
        .is_parallel = true,
        .parallel_block = BLOCK_PARALLEL_2,
        .norm = NORM_LAYER,
        .norm_bias = BIAS_RULE_ALWAYS,
        .is_plain_mlp = true,
        .act = ACT_GELU,
        .qkv = QKV_GROUPS,
        .qkv_bias = BIAS_RULE_ATTENTION_KEY,
        .o_bias = BIAS_RULE_ATTENTION_KEY,
        .mlp_bias = BIAS_RULE_ALWAYS,
        .bias_defaults = 1u << BIAS_RULE_ATTENTION_KEY,
        .tie = TIE_RULE_NEVER,
        .partial_rotary = 0.25,
        .rope_theta = 10000.0,
        .max_positions = 2048,
        .reads = {"rotary_pct", "use_parallel_residual"},
        .keys = &mica_keys_gpt_neox,
        .names = &mica_names_gpt_neox,
    },
};

const arch_table mica_archs_older = {rows, sizeof(rows) / sizeof(rows[0])};
