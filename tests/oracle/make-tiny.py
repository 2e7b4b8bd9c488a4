#!/usr/bin/env python3
"""Writes the tiny random checkpoints of tests/golden/tiny and their mlx-lm logits.

Runs in venv-mlx. Each entry of MODELS becomes a folder with config.json and safetensors; the
float tensors come from a numpy generator seeded by the folder's name. mlx-lm then runs every
checkpoint on the CPU in float32: each float tensor, scales and biases too, is widened first,
because mlx's CPU build sums quantized products in the activation type. Results go to
WORK/NAME/mlx.json and mlx.npy; finish-tiny.py decides which oracle is stored.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx.utils import tree_flatten, tree_map

import common
import tinyvocab
from tinyspec import FULL, SLIDE, WIDE, config_of, float_tensors

mx.set_default_device(mx.cpu)

DTYPES = {"f32": mx.float32, "f16": mx.float16, "bf16": mx.bfloat16}
MODE_DEFAULTS = {"affine": (64, 4), "mxfp4": (32, 4), "nvfp4": (16, 4), "mxfp8": (32, 8)}


def model(arch, dtype="bf16", quant=None, shards=1, inv_freq=False, text=False, mlx=None,
          **changes):
    """`mlx` holds config entries for the mlx-lm run only, where it misreads the stored ones."""
    return {"arch": arch, "dtype": dtype, "quant": quant, "shards": shards, "text": text,
            "inv_freq": inv_freq, "mlx": mlx or {}, "config": changes}


def affine(bits, group, **overrides):
    return {"group_size": group, "bits": bits, **overrides}


def mode(name, **overrides):
    group, bits = MODE_DEFAULTS[name]
    return {"group_size": group, "bits": bits, "mode": name, **overrides}


def dense_models():
    theta = {"rope_theta": 5e5}  # mlx-lm's llama does not look into rope_parameters
    tied, untied = {"tie_word_embeddings": True}, {"tie_word_embeddings": False}
    return {
        "llama-bf16": model("llama", inv_freq=True, num_hidden_layers=2, **tied),
        "llama-f16": model("llama", "f16", num_hidden_layers=1, **tied),
        "llama-f32": model("llama", "f32", num_hidden_layers=1, **untied),
        "llama-plain": model("llama", num_hidden_layers=1, rope_scaling=None, head_dim=None,
                             num_key_value_heads=4, rms_norm_eps=1e-2, **untied),
        "llama-sharded": model("llama", shards=2, num_hidden_layers=1, **untied),
        "llama-text": model("llama", text=True, num_hidden_layers=2, vocab_size=tinyvocab.SIZE,
                            eos_token_id=2, bos_token_id=1, **tied),
        "llama-swa": model("swa", head_dim=None),
        "mistral-bf16": model("mistral", num_hidden_layers=1, mlx=theta),
        "mistral-window": model("mistral", num_hidden_layers=2, sliding_window=8,
                                attention_bias=True, mlx={**theta, "attention_bias": False}),
        "qwen2-bf16": model("qwen2", num_hidden_layers=2),
        "qwen2-window": model("qwen2", rope_scaling=None, use_sliding_window=True,
                              sliding_window=8, max_window_layers=1, num_hidden_layers=2,
                              **untied),
        "qwen3-bf16": model("qwen3", num_hidden_layers=2, use_sliding_window=True,
                            sliding_window=8, max_window_layers=1),
        "qwen3-f16": model("qwen3", "f16", num_hidden_layers=1, rms_norm_eps=1e-2, **untied),
        "qwen3-f32": model("qwen3", "f32", num_hidden_layers=1),
        "gemma2-bf16": model("gemma2", num_hidden_layers=2, sliding_window=8),
        "gemma2-nowindow": model("gemma2", num_hidden_layers=2),
        "gemma2-types": model("gemma2", num_hidden_layers=2, sliding_window=8,
                              layer_types=[FULL, SLIDE]),
        "gemma3-bf16": model("gemma3", num_hidden_layers=3),
        "gemma3-f16": model("gemma3", "f16", num_hidden_layers=2, query_pre_attn_scalar=24,
                            sliding_window_pattern=2, rms_norm_eps=1e-3, **untied),
        "gemma3-f32": model("gemma3", "f32", num_hidden_layers=2, query_pre_attn_scalar=24,
                            sliding_window_pattern=2),
        "gemma3-nested": model(
            "gemma3", num_hidden_layers=3, query_pre_attn_scalar=24, rope_theta=None,
            rope_local_base_freq=None, rope_scaling=None, sliding_window_pattern=None,
            layer_types=[SLIDE, FULL, SLIDE],
            rope_parameters={FULL: {"rope_theta": 1e6, "rope_type": "linear", "factor": 2.0},
                             SLIDE: {"rope_theta": 1e3, "rope_type": "default"}}),
    }


def quantized_models():
    out = {}
    for bits in (2, 3, 4, 5, 6, 8):
        for group in (32, 64, 128):
            out[f"llama-q{bits}-g{group}"] = model(
                "llama", quant=affine(bits, group), num_hidden_layers=1,
                tie_word_embeddings=group == 64, **WIDE)
    for arch in ("qwen3", "gemma3"):
        # gemma3 keeps one sliding and one full layer, qwen3 has no windows
        few = {"num_hidden_layers": 2, "sliding_window_pattern": 2} if arch == "gemma3" \
            else {"num_hidden_layers": 1}
        for bits, group, dtype in ((2, 32, "f32"), (3, 64, "bf16"), (4, 32, "bf16"),
                                   (4, 64, "f16"), (5, 128, "f16"), (6, 32, "f32"),
                                   (8, 64, "bf16")):
            out[f"{arch}-q{bits}-g{group}-{dtype}"] = model(
                arch, dtype, affine(bits, group), tie_word_embeddings=bits != 5, **few, **WIDE)
    llama1 = {"num_hidden_layers": 1, **WIDE}
    out.update({
        "llama-q4-g64-f16": model("llama", "f16", affine(4, 64), **llama1),
        "llama-q4-g64-f32": model("llama", "f32", affine(4, 64), **llama1),
        "llama-q4-k256": model("llama", quant=affine(4, 64), num_hidden_layers=1, hidden_size=256,
                               intermediate_size=192, tie_word_embeddings=True),
        "llama-swa-q4": model("swa", quant=affine(4, 32), num_hidden_layers=2,
                              layer_types=[FULL, SLIDE], **WIDE),
        "llama-mxfp4": model("llama", quant=mode("mxfp4"), tie_word_embeddings=True, **llama1),
        "llama-nvfp4": model("llama", quant=mode("nvfp4"), tie_word_embeddings=True, **llama1),
        "llama-mxfp8": model("llama", quant=mode("mxfp8"), **llama1),
        "llama-mixed": model("llama", num_hidden_layers=2, **WIDE, quant=affine(4, 32, **{
            "model.embed_tokens": {"group_size": 64, "bits": 8},
            "model.layers.0.self_attn.v_proj": {"group_size": 128, "bits": 6},
            "model.layers.0.self_attn.o_proj": False,
            "model.layers.0.mlp.down_proj": {"group_size": 32, "bits": 3},
            "model.layers.1.mlp.gate_proj": {"group_size": 32, "bits": 4, "mode": "mxfp4"},
            "model.layers.1.mlp.up_proj": {"group_size": 32, "bits": 2},
            "model.layers.1.self_attn.q_proj": {"group_size": 64, "bits": 5},
            "lm_head": False})),
        # Overrides without mode are affine, whatever the default mode is.
        "llama-mxfp4-mixed": model("llama", num_hidden_layers=2, **WIDE, quant=mode("mxfp4", **{
            "model.embed_tokens": {"group_size": 64, "bits": 8},
            "model.layers.0.self_attn.k_proj": {"bits": 8, "group_size": 64},
            "model.layers.1.mlp.down_proj": {"mode": "nvfp4", "group_size": 16, "bits": 4},
            "lm_head": {"group_size": 32, "bits": 8, "mode": "mxfp8"}})),
        "mistral-q4": model("mistral", quant=affine(4, 64), num_hidden_layers=1,
                            mlx={"rope_theta": 5e5}, **WIDE),
        "qwen2-q4": model("qwen2", quant=affine(4, 64), num_hidden_layers=1, **WIDE),
        "qwen2-q8-f16": model("qwen2", "f16", affine(8, 32), num_hidden_layers=1,
                              tie_word_embeddings=False, **WIDE),
        "qwen3-mxfp4": model("qwen3", quant=mode("mxfp4"), num_hidden_layers=1, **WIDE),
        "gemma2-q4": model("gemma2", quant=affine(4, 64), num_hidden_layers=2, **WIDE),
        "gemma2-q6-f16": model("gemma2", "f16", affine(6, 32), num_hidden_layers=2, **WIDE),
        "gemma3-nvfp4": model("gemma3", quant=mode("nvfp4"), num_hidden_layers=2,
                              sliding_window_pattern=2, **WIDE),
    })
    return out


def quant_of(quant, path):
    """(group_size, bits, mode) of a module, or None when it stays dense."""
    entry = quant.get(path, quant)
    if entry is False:
        return None
    m = entry.get("mode", "affine")
    group, bits = MODE_DEFAULTS[m]
    return entry.get("group_size", group), entry.get("bits", bits), m


def stored_tensors(name, spec, config):
    dtype = DTYPES[spec["dtype"]]
    out = {}
    for key, x in float_tensors(name, config).items():
        x = mx.array(x).astype(dtype)
        path = key.removesuffix(".weight")
        how = quant_of(spec["quant"], path) if spec["quant"] and x.ndim == 2 else None
        if how is None:
            out[key] = x
            continue
        group, bits, m = how
        parts = mx.quantize(x, group_size=group, bits=bits, mode=m)
        out[key], out[path + ".scales"] = parts[0], parts[1]
        if m == "affine":
            out[path + ".biases"] = parts[2]
    if spec["inv_freq"]:
        half = config["head_dim"] // 2
        freq = config["rope_theta"] ** (-np.arange(half, dtype=np.float64) / half)
        for i in range(config["num_hidden_layers"]):
            out[f"model.layers.{i}.self_attn.rotary_emb.inv_freq"] = \
                mx.array(freq.astype(np.float32))
    return out


def write_checkpoint(folder, name, spec):
    config = config_of(spec)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    tensors = stored_tensors(name, spec, config)
    mx.eval(tensors)
    if spec["text"]:
        dump = {"tokenizer.json": tinyvocab.tokenizer_json(),
                "tokenizer_config.json": tinyvocab.tokenizer_config(),
                "generation_config.json": {"bos_token_id": 1, "eos_token_id": 2}}
        for file, value in dump.items():
            (folder / file).write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n")
    meta = {"format": "mlx" if spec["quant"] else "pt"}
    n = spec["shards"]
    if n == 1:
        mx.save_safetensors(str(folder / "model.safetensors"), tensors, meta)
        return
    keys, weight_map = list(tensors), {}
    for i in range(n):
        part = keys[i * len(keys) // n:(i + 1) * len(keys) // n]
        file = f"model-{i + 1:05d}-of-{n:05d}.safetensors"
        mx.save_safetensors(str(folder / file), {k: tensors[k] for k in part}, meta)
        weight_map.update({k: file for k in part})
    index = {"metadata": {"total_size": sum(t.nbytes for t in tensors.values())},
             "weight_map": dict(sorted(weight_map.items()))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")


class WideEmbedding(nn.Module):
    """An embedding whose rows leave in f32: fp modes dequantize to bf16, exactly."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def __call__(self, ids):
        return self.inner(ids).astype(mx.float32)

    def as_linear(self, x):
        return self.inner.as_linear(x)


def load_f32(folder, config):
    from mlx_lm.utils import load_model
    net, _ = load_model(folder, model_config=config)
    net.update(tree_map(
        lambda x: x.astype(mx.float32) if mx.issubdtype(x.dtype, mx.floating) else x,
        net.parameters()))
    net.model.embed_tokens = WideEmbedding(net.model.embed_tokens)
    mx.eval(net.parameters())
    assert all(x.dtype in (mx.float32, mx.uint32, mx.uint8)
               for _, x in tree_flatten(net.parameters()))
    return net


def run_mlx(folder, ids, config):
    net = load_f32(folder, config)

    def logits(tokens):
        z = net(mx.array([tokens]))[0]
        assert z.dtype == mx.float32
        return np.array(z)
    return common.run_greedy(logits, ids)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=common.GOLDEN / "tiny")
    parser.add_argument("--work", type=Path, default=common.work_dir() / "tiny")
    parser.add_argument("names", nargs="*", help="only these folders")
    args = parser.parse_args()
    for name, spec in {**dense_models(), **quantized_models()}.items():
        if args.names and name not in args.names:
            continue
        write_checkpoint(args.out / name, name, spec)
        ids = common.prompt_ids(name, config_of(spec)["vocab_size"])
        try:
            result, logits = run_mlx(args.out / name, ids, spec["mlx"])
        except Exception as e:  # mlx-lm cannot run some rope spellings; other oracles can
            print(f"{name}: mlx-lm: {type(e).__name__}: {e}", file=sys.stderr)
            result, logits = None, None
        common.save_run(args.work / name, "mlx", result, logits,
                        common.versions("mlx", "mlx-lm"))
        size = sum(f.stat().st_size for f in (args.out / name).iterdir())
        print(f"{name:24s} {size / 1000:7.1f} kB", flush=True)


if __name__ == "__main__":
    main()
