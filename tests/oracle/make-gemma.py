#!/usr/bin/env python3
"""Writes the tiny Gemma 3n and Gemma 4 checkpoints of tests/golden/tiny and Transformers' logits.

Runs in venv-hf. Every model is made twice: as the hub has it, and quantized in the layout of MLX,
with the experts in stacks. All parameters are random, scalars and scales of layers too. The
reference of a quantized folder is Transformers with the dequantized weights. Prompts of models
with a router are grown as in make-moe.py.
"""

import importlib
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM

import common
from gemmaspec import MODELS
from tinyspec import seed_of

moe = importlib.import_module("make-moe")
torch.set_num_threads(1)


def std_of(name):
    """(mean, std) of a parameter, by the words in its name."""
    last = name.split(".")[-1]
    if last == "weight" and "norm" in name:
        return 1.0, 0.2
    if last in ("layer_scalar", "scale", "per_expert_scale", "correct_output_scale"):
        return 1.0, 0.3
    if "embed_tokens" in name:
        return 0.0, 0.3
    if "router.proj" in name or "modality_router" in name:
        return 0.0, 0.5
    if "_coefs" in name:
        return 0.0, 0.3
    return 0.0, 0.3 if ".q_" in name or ".k_" in name else 0.15


def randomize(model, name):
    rng = np.random.default_rng(seed_of(name))
    buffers = [(k, v) for k, v in model.named_buffers() if "layer_scalar" in k]
    with torch.no_grad():
        for key, p in list(model.named_parameters()) + buffers:
            mean, std = std_of(key)
            p.copy_(torch.tensor(rng.standard_normal(tuple(p.shape)) * std + mean))


def wrap(tensors, config, prefix):
    """The text model as part of a vision model, whose tower a text runtime skips."""
    out = {k.replace("model.", prefix, 1): v for k, v in tensors.items()}
    out[prefix.split("language_model")[0] + "embed_vision.embedding_projection.weight"] = \
        torch.zeros(2, 2)
    kind = config["model_type"].removesuffix("_text")
    text = {k: v for k, v in config.items() if k not in ("architectures", "dtype")}
    return out, {"architectures": [], "model_type": kind, "dtype": "bfloat16",
                 "text_config": text, "eos_token_id": [1, 50]}


def split_stacks(tensors):
    """experts.gate_up_proj and down_proj as MLX stores them."""
    out = {}
    for key, x in tensors.items():
        path, _, last = key.rpartition(".")
        if last == "gate_up_proj":
            half = x.shape[1] // 2
            out[path + ".switch_glu.gate_proj.weight"] = x[:, :half]
            out[path + ".switch_glu.up_proj.weight"] = x[:, half:]
        elif path.endswith(".experts") and last == "down_proj":
            out[path + ".switch_glu.down_proj.weight"] = x
        else:
            out[key] = x
    return out


def joined(plain):
    out = {}
    for key, x in plain.items():
        path, _, last = key.rpartition(".switch_glu.")
        if last == "gate_proj.weight":
            up = plain[path + ".switch_glu.up_proj.weight"]
            out[path + ".gate_up_proj"] = torch.cat([x, up], 1)
        elif last == "down_proj.weight":
            out[path + ".down_proj"] = x
        elif not last.startswith("up_proj") or not path:
            out[key] = x
    return out


def quantized(tensors, bits=4, group=32):
    """(tensors in MLX's layout, the same dequantized)."""
    out, plain = {}, {}
    for key, x in split_stacks(tensors).items():
        path = key.removesuffix(".weight")
        if x.ndim < 2 or path == key or x.shape[-1] % group:
            out[key], plain[key] = x.contiguous(), x.float()
            continue
        out[key], out[path + ".scales"], out[path + ".biases"], plain[key] = \
            moe.quantize_affine(x, bits, group)
    return out, joined(plain)


def run(folder, name, spec, work):
    extra = {"experts_implementation": "eager"} if spec.get("moe") else {}
    model = AutoModelForCausalLM.from_pretrained(
        str(folder), dtype=torch.float32, attn_implementation="eager", **extra).eval()
    vocab = model.config.vocab_size

    @torch.no_grad()
    def logits(tokens):
        return model(torch.tensor([tokens]), use_cache=False).logits[0].float().numpy()
    if not spec.get("moe"):
        result, first = common.run_greedy(logits, common.prompt_ids(name, vocab))
    else:
        rng = np.random.default_rng(seed_of(name) ^ 0x5EED)
        watch = moe.Watch(model, {"router_class": "TextRouter"}, rng)
        for _ in range(moe.N_PROMPTS):
            ids = moe.grow_prompt(model, watch, rng, vocab, common.N_PROMPT)
            result, first = common.run_greedy(logits, ids)
            if watch.is_steady(model, ids + result["greedy"], common.N_GREEDY, moe.GREEDY_NOISE):
                break
        else:
            raise ValueError("no prompt has a steady continuation")
    common.save_run(work / name, "hf", result, first, common.versions("transformers", "torch"))
    return result, first


def make(name, spec, args):
    is_packed = name.endswith("-q4")
    config, model = moe.new_model(spec, spec["quant_config"] if is_packed else {})
    randomize(model, name)
    with tempfile.TemporaryDirectory() as temp:
        tensors, saved = moe.hub_tensors(model, temp)
        saved.pop("transformers_version", None)
        tensors = {k: v.to(torch.bfloat16).contiguous() for k, v in tensors.items()}
        plain, quant = {k: v.float() for k, v in tensors.items()}, {}
        if is_packed:
            tensors, plain = quantized(tensors)
            quant = {"quantization": {"group_size": 32, "bits": 4, "mode": "affine"}}
        moe.write_folder(Path(temp) / "plain", plain, saved, {"format": "pt"})
        written = {**saved, "dtype": "bfloat16"}
        if spec.get("wrapped"):
            prefix = "language_model.model." if is_packed else "model.language_model."
            tensors, written = wrap(tensors, saved, prefix)
        moe.write_folder(args.out / name, tensors, {**written, **quant},
                         {"format": "mlx" if is_packed else "pt"})
        result, logits = run(Path(temp) / "plain", name, spec, args.work)
    common.store_run(args.out / name, result, logits, common.versions("transformers", "torch"))


if __name__ == "__main__":
    sys.exit(common.make_models(__doc__, MODELS, make))
