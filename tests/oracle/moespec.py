"""The tiny models with experts that make-moe.py writes: sizes, names, and what files differ in.

Each entry: `type` and `config` for Transformers; `router_class`, how the class that chooses experts
ends; `mlx_name`, from a hub name to that of MLX's layout, (stack, expert) for one expert's matrix;
`quant_config` and `hub_config`, what the quantized twin changes in sizes and in the spelling of its
config.json (older files).
"""

import re

BASE = dict(
    hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    intermediate_size=48, vocab_size=64, rms_norm_eps=1e-5, max_position_embeddings=256,
    tie_word_embeddings=False, bos_token_id=1, eos_token_id=2, pad_token_id=0)
WIDE = dict(hidden_size=64, intermediate_size=64)


def stack_names(key, before=r"mlp\.experts", after="mlp.switch_mlp",
                parts=("gate_proj", "up_proj", "down_proj")):
    """A hub name in MLX's layout."""
    m = re.match(rf"(.*){before}\.(\d+)\.({'|'.join(parts)})\.weight$", key)
    if not m:
        return key
    name = ("gate_proj", "up_proj", "down_proj")[parts.index(m[3])]
    return f"{m[1]}{after}.{name}", int(m[2])


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


MODELS = {
    "qwen3_moe": dict(
        type="qwen3_moe", router_class="TopKRouter", mlx_name=stack_names,
        config=dict(BASE, head_dim=16, num_experts=8, num_experts_per_tok=3,
                    moe_intermediate_size=16, norm_topk_prob=True, mlp_only_layers=[0],
                    decoder_sparse_step=1,
                    rope_parameters={"rope_theta": 1e6, "rope_type": "default"}),
        quant_config=dict(WIDE, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=32,
                          mlp_only_layers=[], num_hidden_layers=2),
        hub_config=lambda c: renamed(old_rope(c), num_experts="num_local_experts")),
}
