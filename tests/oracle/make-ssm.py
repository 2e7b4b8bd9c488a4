#!/usr/bin/env python3
"""Writes the tiny checkpoints with short convolutions and state-space layers of tests/golden/tiny
and Transformers' logits for them.

Runs in venv-hf. Every model is made twice: as the hub has it, and quantized in MLX's layout, where
convolutions are [C, K, 1] and experts are stacked. The reference of a quantized folder is
Transformers with the dequantized weights, from which the multipliers of falcon_h1 that MLX's files
hold in their weights have been divided again. Where a model has experts its prompt is grown so that
no choice is close (make-moe.py).
"""

import importlib
import re
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

import common
from tinyspec import seed_of

moe = importlib.import_module("make-moe")
recurrent = importlib.import_module("make-recurrent")
torch.set_num_threads(1)

IDS = dict(vocab_size=48, bos_token_id=1, eos_token_id=2, pad_token_id=0)
LFM2 = dict(IDS, hidden_size=32, num_hidden_layers=3, num_attention_heads=2, norm_eps=0.05,
            num_key_value_heads=1, intermediate_size=48, max_position_embeddings=256,
            rope_parameters={"rope_type": "default", "rope_theta": 1e5})
LFM2_WIDE = dict(hidden_size=64, intermediate_size=64, num_hidden_layers=2, conv_L_cache=4,
                 layer_types=["conv", "full_attention"])


def lfm2_moe_name(key):
    m = re.fullmatch(r"(.*feed_forward)\.experts\.(\d+)\.w(\d)\.weight", key)
    part = {"1": "gate_proj", "2": "down_proj", "3": "up_proj"}
    if m:
        return f"{m[1]}.switch_mlp.{part[m[3]]}", int(m[2])
    return re.sub(r"feed_forward\.w(\d)", lambda m: "feed_forward." + part[m[1]], key)


MODELS = {
    "lfm2": dict(
        type="lfm2", config=dict(LFM2, conv_bias=True, intermediate_size=48, block_multiple_of=16,
                                 full_attn_idxs=[1]),
        quant_config=dict(LFM2_WIDE, block_auto_adjust_ff_dim=False, full_attn_idxs=None)),
    "lfm2_moe": dict(
        type="lfm2_moe", router_class="TopKRouter", mlx_name=lfm2_moe_name,
        config=dict(LFM2, num_dense_layers=1, num_experts=4,
                    num_experts_per_tok=2, moe_intermediate_size=12, routed_scaling_factor=1.5,
                    layer_types=["conv", "full_attention", "conv"]),
        quant_config=dict(LFM2_WIDE, moe_intermediate_size=32)),
}

MAMBA2 = dict(IDS, hidden_size=32, num_hidden_layers=2, num_heads=4, head_dim=16, n_groups=2,
              state_size=10, layer_norm_epsilon=0.05, time_step_limit=[0.2, 1.5])
GRANITE = dict(IDS, rms_norm_eps=0.05, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, head_dim=16,
               num_key_value_heads=1, intermediate_size=12, shared_intermediate_size=24,
               num_local_experts=4, num_experts_per_tok=2, mamba_n_heads=4, mamba_d_state=10,
               mamba_n_groups=2, mamba_d_head=16, attention_multiplier=0.2, logits_scaling=4.0,
               embedding_multiplier=3.0, residual_multiplier=0.5, max_position_embeddings=256,
               tie_word_embeddings=True, layer_types=["mamba", "attention"])
MAMBA = dict(IDS, hidden_size=32, num_hidden_layers=2, state_size=10, time_step_rank=3,
             layer_norm_epsilon=0.05)
JAMBA = dict(IDS, rms_norm_eps=0.05, hidden_size=32, num_hidden_layers=3, num_attention_heads=2, num_experts=3,
             num_key_value_heads=1, intermediate_size=16, mamba_d_state=8, mamba_dt_rank=4,
             attn_layer_period=2, attn_layer_offset=0, expert_layer_period=2,
             expert_layer_offset=0, num_experts_per_tok=2, max_position_embeddings=256)


def jamba_name(key):
    m = re.fullmatch(r"(.*feed_forward)\.experts\.(\d+)\.(\w+)\.weight", key)
    return (f"{m[1]}.switch_mlp.{m[3]}", int(m[2])) if m else key


MODELS |= {
    "mamba2": dict(type="mamba2", config=dict(MAMBA2, use_bias=True),
                   quant_config=dict(hidden_size=64, num_heads=8, num_hidden_layers=2, n_groups=1,
                                     tie_word_embeddings=True,
                                     time_step_limit=[0.0, float("inf")])),
    "granitemoehybrid": dict(
        type="granitemoehybrid", router_class="TopKRouter",
        config=dict(GRANITE, position_embedding_type="rope")),
    "granite4-dense": dict(
        type="granitemoehybrid", config=dict(GRANITE, num_local_experts=0),
        quant_config=dict(hidden_size=64, head_dim=32, num_hidden_layers=2, mamba_n_groups=1,
                          shared_intermediate_size=64, mamba_d_head=32,
                          layer_types=["mamba", "attention"])),
    "mamba": dict(type="mamba", config=dict(MAMBA, use_bias=True),
                  quant_config=dict(hidden_size=64, num_hidden_layers=2, time_step_rank="auto",
                                    expand=1)),
    "falcon_mamba": dict(type="falcon_mamba", config=dict(MAMBA, tie_word_embeddings=False, mixer_rms_eps=0.05),
                         quant_config=dict(hidden_size=64, num_hidden_layers=1)),
    "jamba": dict(type="jamba", router_class="Router", mlx_name=jamba_name, config=JAMBA,
                  quant_config=dict(hidden_size=64, intermediate_size=32, num_hidden_layers=2,
                                    expert_layer_offset=1)),
}


FALCON = dict(IDS, rms_norm_eps=0.05, vocab_size=32, hidden_size=24, num_hidden_layers=2, num_attention_heads=4,
              head_dim=10, num_key_value_heads=2, intermediate_size=28, mamba_d_ssm=40,
              mamba_n_heads=4, mamba_d_head=10, mamba_n_groups=2, mamba_d_state=10, mamba_d_conv=3,
              mamba_rms_norm=True, mamba_norm_before_gate=True, attention_bias=True, mlp_bias=True,
              mamba_proj_bias=True, projectors_bias=True, max_position_embeddings=256,
              rope_parameters={"rope_type": "default", "rope_theta": 1e5},
              attention_in_multiplier=1.3, attention_out_multiplier=0.8, key_multiplier=0.6,
              embedding_multiplier=2.5, lm_head_multiplier=0.7, ssm_in_multiplier=1.25,
              ssm_out_multiplier=0.5, mlp_multipliers=[0.9, 0.6],
              ssm_multipliers=[0.7, 0.5, 1.4, 1.2, 0.8])
NEMOTRON = dict(IDS, vocab_size=32, hidden_size=24, num_attention_heads=2, num_key_value_heads=1, head_dim=10,
                intermediate_size=40, ssm_state_size=10, mamba_num_heads=3, mamba_head_dim=12,
                n_groups=3, conv_kernel=4, layer_norm_epsilon=0.05, time_step_min=0.5,
                n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=12,
                moe_shared_expert_intermediate_size=20, routed_scaling_factor=1.5, n_group=3,
                topk_group=2, max_position_embeddings=256, use_bias=True, mlp_bias=True,
                attention_bias=True,  # not used
                layers_block_type=["linear_attention", "moe", "full_attention", "mlp"])


def falcon_factors(c):
    """What mlx-lm multiplies into a tensor: a number, or one for each row."""
    groups = c["mamba_n_groups"] * c["mamba_d_state"]
    sizes = [c["mamba_d_ssm"]] * 2 + [groups] * 2 + [c["mamba_n_heads"]]
    rows = torch.cat([torch.full((n, 1), m) for n, m in zip(sizes, c["ssm_multipliers"])])
    by_name = {"embed_tokens": c["embedding_multiplier"], "lm_head": c["lm_head_multiplier"],
               "q_proj": c["attention_in_multiplier"], "k_proj": c["attention_in_multiplier"],
               "o_proj": c["attention_out_multiplier"], "out_proj": c["ssm_out_multiplier"],
               "gate_proj": c["mlp_multipliers"][0], "down_proj": c["mlp_multipliers"][1],
               "in_proj": c["ssm_in_multiplier"] * rows}
    return lambda key: by_name.get(key.removesuffix(".weight").split(".")[-1], 1.0)


def nemotron_name(key):
    part = {"up_proj": "fc1", "down_proj": "fc2"}
    m = re.fullmatch(r"(.*mixer)\.experts\.(\d+)\.(\w+)\.weight", key)
    return (f"{m[1]}.switch_mlp.{part[m[3]]}", int(m[2])) if m else key


MODELS |= {
    "falcon_h1": dict(
        type="falcon_h1", factors=falcon_factors, config=FALCON,
        quant_config=dict(hidden_size=32, head_dim=16, intermediate_size=32, mamba_d_ssm=64,
                          mamba_d_head=16, num_attention_heads=2, num_key_value_heads=1, mamba_rms_norm=False, attention_bias=False,
                          mlp_bias=False, mamba_proj_bias=False, projectors_bias=False,
                          tie_word_embeddings=True, mamba_d_conv=4, embedding_multiplier=0.3)),
    "nemotron_h": dict(
        type="nemotron_h", router_class="TopkRouter", mlx_name=nemotron_name, config=NEMOTRON,
        dense_router=True,
        quant_config=dict(hidden_size=32, intermediate_size=32, mamba_head_dim=16, head_dim=16,
                          mamba_num_heads=4, n_groups=2, moe_intermediate_size=32, mlp_bias=False,
                          use_bias=False, moe_latent_size=32, n_group=1, topk_group=1,
                          moe_shared_expert_intermediate_size=32, time_step_min=0.001)),
}


def std_of(name):
    if name.endswith("A_log"):
        return 0.0, 0.7
    if name.endswith(("dt_bias", "dt_proj.bias")):
        return 0.0, 0.5
    if name.endswith(".D"):
        return 1.0, 0.3
    if name.endswith(("conv1d.weight", "conv.conv.weight")):
        return 0.0, 0.4
    if "embeddings" in name:
        return 0.0, 0.5
    return moe.std_of(name)


def randomize(model, name):
    rng = np.random.default_rng(seed_of(name))
    buffers = [(k, v) for k, v in model.named_buffers() if "bias" in k]
    with torch.no_grad():
        for key, p in list(model.named_parameters()) + buffers:
            mean, std = std_of(key)
            p.copy_(torch.tensor(rng.standard_normal(tuple(p.shape)) * std + mean))


def quantize(tensors, spec, config):
    """moe.quantized_folder, with convolutions turned and multipliers in the weights."""
    spec = {"mlx_name": lambda key: key, "factors": lambda c: lambda key: 1.0, **spec}
    factor = spec["factors"](config)
    tensors = {k: (x.float() * factor(k)).to(x.dtype) for k, x in tensors.items()}
    packed, plain, quant = moe.quantized_folder(tensors, spec, None)
    plain = {k: x / factor(k) for k, x in plain.items()}
    for key, x in packed.items():
        if key.endswith(("conv1d.weight", "conv.conv.weight")):
            packed[key] = x.transpose(1, 2).contiguous()
    for key in [k for k in packed if ".shared_mlp." in k]:
        stem, last = key.split(".shared_mlp.")[0] + ".mlp.", key.split(".")[-1]
        x = packed.pop(key)
        if ".output_linear." in key:
            packed[f"{stem}down_proj.{last}"] = x
        else:
            packed[f"{stem}gate_proj.{last}"], packed[f"{stem}up_proj.{last}"] = x.chunk(2)
    return packed, plain, quant


def make(name, spec, args):
    torch.manual_seed(0)
    is_quantized = name.endswith("-q4")
    config, model = moe.new_model(spec, spec["quant_config"] if is_quantized else {})
    randomize(model, name)
    with tempfile.TemporaryDirectory() as temp:
        tensors, saved = moe.hub_tensors(model, temp)
        saved.pop("transformers_version", None)
        tensors = moe.stored(tensors, torch.bfloat16)
        plain, out, extra = tensors, tensors, {"dtype": "bfloat16"}
        if is_quantized:
            out, plain, quant = quantize(tensors, spec, saved)
            extra = {"quantization": quant, "quantization_config": quant}
        moe.write_folder(Path(temp) / "plain", {k: v.contiguous() for k, v in plain.items()},
                         saved, {"format": "pt"})
        moe.write_folder(args.out / name, {k: v.contiguous() for k, v in out.items()},
                         {**saved, **extra}, {"format": "mlx" if is_quantized else "pt"})
        result, logits = recurrent.run(Path(temp) / "plain", name, spec, args.work)
    common.store_run(args.out / name, result, logits, common.versions("transformers", "torch"))


def kinds_of(base, spec):
    return [base + "-bf16"] + [base + "-q4"] * ("quant_config" in spec)


if __name__ == "__main__":
    sys.exit(common.make_models(__doc__, MODELS, make, kinds_of))
