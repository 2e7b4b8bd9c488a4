"""The tiny models with experts that make-moe.py writes: sizes, names, and what files differ in.

Each entry: `type` and `config` for Transformers; `router_class`, how the class that chooses experts
ends; `mlx_name`, from a hub name to that of MLX's layout, (stack, expert) for one expert's matrix;
`split_stacks`, where such a matrix is kept;
`quant_config` and `hub_config`, what the quantized twin changes in sizes and in the spelling of its
config.json (older files).
"""

import re

BASE = dict(
    hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    intermediate_size=48, vocab_size=64, rms_norm_eps=0.05, max_position_embeddings=256,
    tie_word_embeddings=False, bos_token_id=1, eos_token_id=2, pad_token_id=0)
WIDE = dict(hidden_size=64, intermediate_size=64)
# Both ends of yarn's ramp lie inside, near a whole number, so that they show: for 8 and for 4 pairs.
YARN = {"rope_type": "yarn", "factor": 4.0, "beta_fast": 0.49, "beta_slow": 0.00083,
        "original_max_position_embeddings": 16}
YARN_4 = {**YARN, "beta_fast": 0.2, "beta_slow": 0.0032}


def stack_names(key, before=r"mlp\.experts", after="mlp.switch_mlp",
                parts=("gate_proj", "up_proj", "down_proj")):
    """A hub name in MLX's layout."""
    m = re.match(rf"(.*){before}\.(\d+)\.({'|'.join(parts)})\.weight$", key)
    if not m:
        return key
    name = ("gate_proj", "up_proj", "down_proj")[parts.index(m[3])]
    return f"{m[1]}{after}.{name}", int(m[2])


def granite_names(key):
    """A hub name of GraniteMoE, its stacks cut as GRANITE_STACKS says, in MLX's layout."""
    return stack_names(key, "block_sparse_moe", "block_sparse_moe.switch_mlp")


def old_rope(config):
    """rope_theta and rope_scaling as files of before Transformers 5 spell them."""
    rope = config.pop("rope_parameters", None) or {}
    config["rope_theta"] = rope.pop("rope_theta", 10000.0)
    if rope.get("rope_type", "default") != "default":
        config["rope_scaling"] = rope
    return config


def renamed(config, **names):
    for new, old in names.items():
        if old in config:
            config[new] = config.pop(old)
    return config


def without(key):
    """What mica must then find out itself."""
    return lambda config: {k: v for k, v in config.items() if k != key}


# Where a family keeps all experts in one tensor: (path, gate and up, down, are they [in, out]).
GRANITE_STACKS = ("block_sparse_moe", "input_linear.weight", "output_linear.weight", False)
LLAMA4_STACKS = ("feed_forward.experts", "gate_up_proj", "down_proj", True)

MODELS = {
    "qwen3_moe": dict(
        type="qwen3_moe", gguf="qwen3moe", router_class="TopKRouter", mlx_name=stack_names,
        config=dict(BASE, head_dim=16, num_experts=8, num_experts_per_tok=3,
                    use_sliding_window=True, sliding_window=8, moe_intermediate_size=16, norm_topk_prob=True, mlp_only_layers=[0],
                    decoder_sparse_step=1,
                    rope_parameters={"rope_theta": 1e6, "rope_type": "default"}),
        quant_config=dict(WIDE, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=32,
                          mlp_only_layers=[], num_hidden_layers=2),
        gguf_config=dict(vocab_size=32, intermediate_size=32, moe_intermediate_size=32,
                         use_sliding_window=False, num_experts=4, num_experts_per_tok=2, mlp_only_layers=[]),
        hub_config=lambda c: renamed(old_rope(c), num_experts="num_local_experts")),
    "mixtral": dict(
        type="mixtral", router_class="TopKRouter",
        mlx_name=lambda k: stack_names(k, r"block_sparse_moe\.experts",
                                       "block_sparse_moe.switch_mlp", ("w1", "w3", "w2")),
        config=dict(BASE, intermediate_size=16, num_local_experts=4, num_experts_per_tok=2,
                    sliding_window=8, num_key_value_heads=1,
                    rope_parameters={"rope_theta": 1e6, "rope_type": "default"}),
        quant_config=dict(WIDE, intermediate_size=32, sliding_window=None),
        hub_config=old_rope),
    "qwen2_moe": dict(
        type="qwen2_moe", edit_config=without("layer_types"), router_class="TopKRouter", mlx_name=stack_names,
        config=dict(BASE, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=16,
                    use_sliding_window=True, sliding_window=8, max_window_layers=1,
                    shared_expert_intermediate_size=24, norm_topk_prob=False),
        quant_config=dict(WIDE, num_experts=3,
                          moe_intermediate_size=32, shared_expert_intermediate_size=32,
                          norm_topk_prob=True, mlp_only_layers=[0]),
        hub_config=lambda c: renamed(old_rope(c), num_experts="num_local_experts")),
    "olmoe": dict(
        type="olmoe", gguf="olmoe", router_class="TopKRouter", mlx_name=stack_names,
        config=dict(BASE, intermediate_size=16, num_experts=6, num_experts_per_tok=2),
        quant_config=dict(WIDE, num_experts=3, intermediate_size=32, tie_word_embeddings=True),
        gguf_config=dict(vocab_size=32, intermediate_size=32, num_experts=4, num_hidden_layers=1),
        hub_config=lambda c: renamed(old_rope(c), num_experts="num_local_experts")),
    "phimoe": dict(
        type="phimoe", router_class="TopKRouter",
        mlx_name=lambda k: stack_names(k, r"block_sparse_moe\.experts",
                                       "block_sparse_moe.switch_mlp", ("w1", "w3", "w2")),
        config=dict(BASE, intermediate_size=16, num_local_experts=4, num_experts_per_tok=2,
                    attention_bias=True, lm_head_bias=True, router_jitter_noise=0.3,
                    # longer than the original length: the short list and its scale all the same
                    rope_parameters={
                        "rope_type": "longrope", "rope_theta": 1e6,
                        "original_max_position_embeddings": 16,
                        "short_factor": [1.0, 1.2, 1.5, 2.0], "long_factor": [1.0, 2.0, 3.0, 4.0],
                        "short_mscale": 1.2, "long_mscale": 1.2}),
        quant_config=dict(WIDE, intermediate_size=32, attention_bias=False, lm_head_bias=False,
                          rope_parameters={"rope_type": "default", "rope_theta": 1e6}),
        hub_config=old_rope),
    "granitemoe": dict(
        type="granitemoe", router_class="TopKRouter", mlx_name=granite_names,
        split_stacks=GRANITE_STACKS,
        quant_config=dict(WIDE, vocab_size=32, intermediate_size=32, num_local_experts=3,
                          num_hidden_layers=1, attention_bias=True, tie_word_embeddings=True),
        hub_config=old_rope,
        config=dict(BASE, intermediate_size=16, num_local_experts=4, num_experts_per_tok=2,
                    attention_multiplier=0.2, embedding_multiplier=3.0, residual_multiplier=0.3,
                    logits_scaling=4.0)),
    "granitemoeshared": dict(
        type="granitemoeshared", router_class="TopKRouter", mlx_name=granite_names,
        split_stacks=GRANITE_STACKS,
        quant_config=dict(WIDE, vocab_size=32, intermediate_size=32, num_local_experts=3,
                          num_hidden_layers=1, shared_intermediate_size=32),
        hub_config=old_rope,
        config=dict(BASE, intermediate_size=16, num_local_experts=4, num_experts_per_tok=2,
                    attention_multiplier=0.2, embedding_multiplier=3.0, residual_multiplier=0.3,
                    logits_scaling=4.0, shared_intermediate_size=24, tie_word_embeddings=True)),
    "glm4_moe": dict(
        type="glm4_moe", router_class="TopkRouter", mlx_name=stack_names,
        config=dict(BASE, head_dim=16, moe_intermediate_size=16, n_routed_experts=8,
                    num_experts_per_tok=2, n_group=4, topk_group=2, first_k_dense_replace=1,
                    n_shared_experts=1, routed_scaling_factor=2.5, norm_topk_prob=True,
                    use_qk_norm=True, attention_bias=True),
        quant_config=dict(WIDE, n_routed_experts=4,
                          moe_intermediate_size=32, n_group=1, topk_group=1,
                          use_qk_norm=False, first_k_dense_replace=0),
        hub_config=old_rope),
    "dots1": dict(
        type="dots1", edit_config=without("layer_types"), router_class="TopkRouter", mlx_name=stack_names,
        config=dict(BASE, head_dim=16, moe_intermediate_size=16, n_routed_experts=6,
                    sliding_window=8, max_window_layers=1,
                    num_experts_per_tok=2, n_group=1, topk_group=1, first_k_dense_replace=1,
                    n_shared_experts=2, routed_scaling_factor=1.5, norm_topk_prob=True),
        quant_config=dict(WIDE, n_routed_experts=3,
                          moe_intermediate_size=32, first_k_dense_replace=0,
                          n_shared_experts=1, norm_topk_prob=False),
        hub_config=old_rope),
    "ernie4_5_moe": dict(
        type="ernie4_5_moe", router_class="TopKRouter", mlx_name=stack_names,
        config=dict(BASE, moe_num_experts=6, moe_k=2, moe_intermediate_size=16,
                    moe_num_shared_experts=2, moe_layer_start_index=1, use_bias=True,
                    num_hidden_layers=3, moe_layer_end_index=1, moe_norm_min=0.6),
        quant_config=dict(WIDE, moe_num_experts=3, num_hidden_layers=2,
                          moe_intermediate_size=32, moe_layer_start_index=0, use_bias=False,
                          moe_num_shared_experts=0),
        hub_config=old_rope),
    "hunyuan_v1_moe": dict(
        type="hunyuan_v1_moe", router_class="Gate", mlx_name=stack_names,
        config=dict(BASE, intermediate_size=16, head_dim=16, num_experts=4, moe_topk=2,
                    attention_bias=True),
        quant_config=dict(WIDE, intermediate_size=32),
        hub_config=old_rope),
    "minimax_m2": dict(
        type="minimax_m2", router_class="TopKRouter",
        mlx_name=lambda k: stack_names(k, r"block_sparse_moe\.experts",
                                       "block_sparse_moe.switch_mlp", ("w1", "w3", "w2")),
        config=dict(BASE, intermediate_size=16, head_dim=16, num_local_experts=6,
                    num_experts_per_tok=2, rotary_dim=8),
        quant_config=dict(WIDE, intermediate_size=32),
        hub_config=lambda c: {**old_rope(c), "rotary_dim": 8}),
    "gpt_oss": dict(
        type="gpt_oss", edit_config=without("layer_types"), router_class="TopKRouter", blocks=True,
        config=dict(BASE, head_dim=16, intermediate_size=32, num_local_experts=4,
                    num_experts_per_tok=2, sliding_window=8,
                    swiglu_limit=0.6, swiglu_alpha=1.3,
                    rope_parameters={**YARN, "rope_theta": 150000.0, "truncate": False})),
    # as Scout: chunks of 12 in all layers but one, experts everywhere; and as Maverick
    "llama4": dict(
        type="llama4_text", router_class="Llama4Router", split_stacks=LLAMA4_STACKS,
        mlx_name=lambda k: stack_names("language_model." + k, r"feed_forward\.experts",
                                       "feed_forward.experts"),
        config=dict(BASE, head_dim=8, intermediate_size=16, intermediate_size_mlp=24, vocab_size=32,
                    hidden_size=16, num_attention_heads=2, num_key_value_heads=1,
                    num_hidden_layers=3, num_local_experts=3, num_experts_per_tok=1,
                    interleave_moe_layer_step=1, attention_chunk_size=12,
                    no_rope_layers=[1, 0, 1], floor_scale=8, attn_scale=0.5,
                    rope_parameters={"rope_theta": 5e5, "rope_type": "llama3", "factor": 8.0,
                                     "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                     "original_max_position_embeddings": 256}),
        quant_config=dict(head_dim=16, intermediate_size=32, intermediate_size_mlp=32,
                          hidden_size=32, num_hidden_layers=4,
                          interleave_moe_layer_step=2, use_qk_norm=False, no_rope_layers=[],
                          attention_bias=True),
        hub_config=lambda c: {"model_type": "llama4", "tie_word_embeddings": False,
                              "text_config": {**old_rope(c), "no_rope_layers": [],
                                              "attn_temperature_tuning": 4}}),
    "deepseek_v2": dict(
        type="deepseek_v2", router_class="TopkRouter", mlx_name=stack_names,
        quant_config=dict(vocab_size=32, num_attention_heads=2, num_key_value_heads=2,
                          kv_lora_rank=32, q_lora_rank=None, qk_rope_head_dim=4,
                          qk_nope_head_dim=28, v_head_dim=16, n_routed_experts=3, n_group=1,
                          topk_group=1, topk_method="greedy", moe_intermediate_size=32,
                          intermediate_size=32, num_hidden_layers=1, first_k_dense_replace=0),
        hub_config=old_rope,
        config=dict(BASE, num_key_value_heads=4, kv_lora_rank=16, q_lora_rank=24,
                    qk_rope_head_dim=8, qk_nope_head_dim=16, v_head_dim=12,
                    n_routed_experts=8, num_experts_per_tok=2, n_group=4, topk_group=1,
                    topk_method="group_limited_greedy", moe_intermediate_size=16,
                    n_shared_experts=1, first_k_dense_replace=1, routed_scaling_factor=1.5)),
    "deepseek_v3": dict(
        type="deepseek_v3", router_class="TopkRouter", mlx_name=stack_names, split_kv=True,
        dense_router=True,
        quant_config=dict(vocab_size=32, num_attention_heads=2, num_key_value_heads=2,
                          kv_lora_rank=32, q_lora_rank=None, qk_rope_head_dim=4,
                          qk_nope_head_dim=32, v_head_dim=16, n_routed_experts=3, n_group=1,
                          topk_group=1, moe_intermediate_size=32, intermediate_size=32,
                          num_hidden_layers=1, first_k_dense_replace=0),
        hub_config=old_rope,
        config=dict(BASE, num_key_value_heads=4, kv_lora_rank=16, q_lora_rank=24,
                    qk_rope_head_dim=8, qk_nope_head_dim=16, v_head_dim=12,
                    n_routed_experts=8, num_experts_per_tok=2, n_group=4, topk_group=2,
                    moe_intermediate_size=16, n_shared_experts=1, first_k_dense_replace=1,
                    routed_scaling_factor=2.5, norm_topk_prob=True,
                    rope_parameters={**YARN_4, "rope_theta": 10000.0, "mscale": 1.0,
                                     "mscale_all_dim": 0.8})),
}
