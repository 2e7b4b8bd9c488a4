#!/usr/bin/env python3
"""Writes the tiny checkpoints with recurrent layers of tests/golden/tiny and Transformers' logits.

Runs in venv-hf. Every model is made twice: as the hub has it, and quantized in MLX's layout, where
convolutions are [C, K, 1] and zero-centred norms have had 1 added. The reference of a quantized
folder is Transformers with the dequantized weights. Where a model has experts its prompt is grown
so that no choice is close (make-moe.py).
"""

import copy
import importlib
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM

import common
from tinyspec import seed_of

moe = importlib.import_module("make-moe")
torch.set_num_threads(1)

QWEN = dict(
    vocab_size=64, hidden_size=32, num_hidden_layers=4, num_attention_heads=2,
    num_key_value_heads=1, head_dim=16, intermediate_size=48, rms_norm_eps=0.05,
    linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=8,
    linear_value_head_dim=12, linear_conv_kernel_dim=4, max_position_embeddings=256,
    tie_word_embeddings=False, bos_token_id=1, eos_token_id=2, pad_token_id=0,
    rope_parameters={"rope_type": "default", "rope_theta": 1e5, "partial_rotary_factor": 0.5})
EXPERTS = dict(num_experts=6, num_experts_per_tok=2, moe_intermediate_size=16,
               shared_expert_intermediate_size=24)
WIDE = dict(hidden_size=64, intermediate_size=64, linear_value_head_dim=16, head_dim=32,
            num_hidden_layers=2,
            layer_types=["full_attention", "linear_attention"])
WIDE_EXPERTS = dict(WIDE, moe_intermediate_size=32, shared_expert_intermediate_size=32)


def wrapped(tensors, config, outer):
    """A text model as the hub has it, inside a vision wrapper."""
    names = {k: k.replace("model.", "model.language_model.", 1) if k.startswith("model.") else k
             for k in tensors}
    return ({names[k]: v for k, v in tensors.items()},
            {"model_type": outer, "architectures": ["X"], "text_config": config,
             "tie_word_embeddings": config["tie_word_embeddings"]})


MODELS = {
    "qwen3_5": dict(type="qwen3_5_text", config=QWEN, quant_config=WIDE, wrapper="qwen3_5"),
    "qwen3_5_moe": dict(type="qwen3_5_moe_text", router_class="TopKRouter", wrapper="qwen3_5_moe",
                        config=dict(QWEN, **EXPERTS, num_hidden_layers=2,
                                    layer_types=["linear_attention", "full_attention"]),
                        quant_config=WIDE_EXPERTS),
    "qwen3_next": dict(type="qwen3_next", router_class="TopKRouter",
                       config=dict(QWEN, **EXPERTS, mlp_only_layers=[1], norm_topk_prob=True),
                       quant_config=dict(WIDE_EXPERTS, mlp_only_layers=[])),
}


def std_of(name):
    if name.endswith("A_log"):
        return 0.0, 0.7
    if name.endswith("dt_bias"):
        return 0.0, 0.5
    if "conv1d" in name:
        return 0.0, 0.4
    if "norm" in name and "linear_attn" not in name:
        return 0.0, 0.3  # zero-centred
    return moe.std_of(name)


def randomize(model, name):
    rng = np.random.default_rng(seed_of(name))
    with torch.no_grad():
        for key, p in model.named_parameters():
            mean, std = std_of(key)
            p.copy_(torch.tensor(rng.standard_normal(tuple(p.shape)) * std + mean))


def mlx_name(key):
    """Transformers' stack of gate and up is two stacks in MLX's layout."""
    return key.replace("mlp.experts.down_proj", "mlp.switch_mlp.down_proj.weight")


def mlx_layout(tensors):
    """Plain tensors in MLX's layout: stacks apart, norms with their 1, convolutions turned."""
    out = {}
    for key, x in tensors.items():
        if key.endswith("mlp.experts.gate_up_proj"):
            stem = key.removesuffix("experts.gate_up_proj") + "switch_mlp."
            half = x.shape[1] // 2
            out[stem + "gate_proj.weight"], out[stem + "up_proj.weight"] = x[:, :half], x[:, half:]
        elif "conv1d" in key:
            out[key] = x.transpose(1, 2)
        elif "norm" in key and "linear_attn" not in key:
            out[key] = (x.float() + 1).to(x.dtype)
        else:
            out[mlx_name(key)] = x
    return out


def hub_layout(plain):
    """The values of mlx_layout's tensors under Transformers' names."""
    out = {}
    for key, x in plain.items():
        if ".switch_mlp.gate_proj" in key:
            stem = key.split("switch_mlp")[0]
            up = plain[stem + "switch_mlp.up_proj.weight"]
            out[stem + "experts.gate_up_proj"] = torch.cat([x, up], 1)
        elif ".switch_mlp.down_proj" in key:
            out[key.split("switch_mlp")[0] + "experts.down_proj"] = x
        elif ".switch_mlp." in key:
            continue
        elif "conv1d" in key:
            out[key] = x.transpose(1, 2)
        elif "norm" in key and "linear_attn" not in key:
            out[key] = x.float() - 1
        else:
            out[key] = x
    return out


def quantize(tensors):
    quant, out, plain = {"group_size": 32, "bits": 4}, {}, {}
    for key, x in mlx_layout(tensors).items():
        path = key.removesuffix(".weight")
        if x.ndim < 2 or "conv1d" in key or x.shape[-1] % 32:
            out[key], plain[key] = x, x.float()
            continue
        router = path.endswith((".gate", "shared_expert_gate")) and x.shape[-1] % 64 == 0
        bits, group = (8, 64) if router else (4, 32)
        if router:
            quant[path] = {"group_size": group, "bits": bits}
        flat = x.reshape(-1, x.shape[-1])
        w, s, b, values = moe.quantize_affine(flat, bits, group)
        lead = x.shape[:-1]
        out[key] = w.reshape(*lead, -1)
        out[path + ".scales"], out[path + ".biases"] = s.reshape(*lead, -1), b.reshape(*lead, -1)
        plain[key] = values.reshape(x.shape)
    return out, hub_layout(plain), quant


def run(folder, name, spec, work):
    if "router_class" in spec:
        return moe.run(folder, name, spec, work)
    model = AutoModelForCausalLM.from_pretrained(
        str(folder), dtype=torch.float32, attn_implementation="eager").eval()

    @torch.no_grad()
    def logits(tokens):
        return model(torch.tensor([tokens]), use_cache=False).logits[0].float().numpy()
    n_prompt = spec.get("n_prompt", 80)
    ids = common.prompt_ids(name, model.config.get_text_config().vocab_size, n_prompt)
    result, first = common.run_greedy(logits, ids)
    common.save_run(work / name, "hf", result, first, common.versions("transformers", "torch"))
    return result, first


def make(name, spec, args):
    torch.manual_seed(0)
    is_quantized = name.endswith("-q4")
    config, model = moe.new_model(spec, spec["quant_config"] if is_quantized else {})
    randomize(model, name)
    with tempfile.TemporaryDirectory() as temp:
        tensors, saved = moe.hub_tensors(model, temp)
        saved.pop("transformers_version", None)
        if spec["type"] == "qwen3_5_moe_text":  # has no other MLP, and published files no such key
            saved.pop("intermediate_size")
        tensors = moe.stored(tensors, torch.bfloat16)
        plain, out, extra = tensors, tensors, {"dtype": "bfloat16"}
        if is_quantized:
            out, plain, quant = quantize(tensors)
            extra = {"quantization": quant, "quantization_config": quant}
        moe.write_folder(Path(temp) / "plain", {k: v.contiguous() for k, v in plain.items()},
                         saved, {"format": "pt"})
        legacy = copy.deepcopy(saved)
        if "wrapper" in spec and not is_quantized:
            out, legacy = wrapped(out, legacy, spec["wrapper"])
        moe.write_folder(args.out / name, {k: v.contiguous() for k, v in out.items()},
                         {**legacy, **extra}, {"format": "mlx" if is_quantized else "pt"})
        result, logits = run(Path(temp) / "plain", name, spec, args.work)
    common.store_run(args.out / name, result, logits, common.versions("transformers", "torch"))


if __name__ == "__main__":
    sys.exit(common.make_models(__doc__, MODELS, make))
