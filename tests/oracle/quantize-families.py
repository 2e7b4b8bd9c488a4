#!/usr/bin/env python3
"""Writes the MLX-quantized forms of families.py, and the checkpoints that only mlx-lm has.

Runs in venv-mlx, after make-families.py. mlx-lm loads a folder of families.HF, quantizes it as its
converter does and saves it under its own tensor names; WORK/NAME/equivalent gets the dequantized
weights in float32 under the hub's names, which tiny-hf.py runs. mlx-lm's own float32 logits
are kept as a second opinion: tests/golden/README.md says where they differ and why.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx.utils import tree_flatten, tree_map, tree_unflatten
from mlx_lm.utils import _get_classes, load_model, quantize_model, save_model

import common
import families

mx.set_default_device(mx.cpu)
DTYPES = {"f32": mx.float32, "f16": mx.float16, "bf16": mx.bfloat16}


def build(name):
    """A random model of a family that only mlx-lm has, and its config."""
    changes, dtype = families.MLX[name]
    config = {k: v for k, v in {**families.BASE, **changes}.items() if v is not None}
    model_class, args_class = _get_classes(config)
    net = model_class(args_class.from_dict(config))
    rng = families.rng_of(name)
    values = [(k, mx.array(families.random_like(k, np.array(v), rng)).astype(DTYPES[dtype]))
              for k, v in tree_flatten(net.parameters())]
    net.update(tree_unflatten(values))
    return net, config


def save(folder, net, config):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    save_model(folder, net, donate_model=False)
    (folder / "model.safetensors.index.json").unlink(missing_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def read_config(folder):
    return json.loads((folder / "config.json").read_text())


def as_args(config):
    """mlx-lm looks for rope keys at the top level, where older files have them."""
    out = dict(config)
    parameters = out.get("rope_parameters") or {}
    flat = parameters.get("full_attention", parameters)
    if config["model_type"] != "ministral3":
        for key in ("rope_theta", "partial_rotary_factor"):
            if key in flat:
                out.setdefault(key, flat[key])
        if flat.get("rope_type", "default") != "default":
            out.setdefault("rope_scaling", {**flat, "type": flat["rope_type"]})
    if config["model_type"] == "gpt2":
        out.setdefault("n_ctx", out["n_positions"])
    if config["model_type"] == "gpt_neox":
        out.setdefault("rotary_pct", flat.get("partial_rotary_factor", 0.25))
        out.setdefault("rotary_emb_base", flat.get("rope_theta", 10000))
    if config["model_type"] == "exaone":
        out.setdefault("num_layers", out["num_hidden_layers"])
        out.setdefault("layer_norm_epsilon", out["rms_norm_eps"])
    if config["model_type"] == "apertus":
        out.update(mlp_bias=False, post_norm=False, qk_norm=True)
    if config["model_type"] == "exaone4":
        out.setdefault("rope_scaling", None)
    if config["model_type"] == "internlm3":
        out.update(bias=out["mlp_bias"], qkv_bias=out["attention_bias"])
    return out


def load(folder, config):
    """mlx-lm's model; what it does not find in the file (all of gpt2's) is random, but always the same."""
    mx.random.seed(0)
    return load_model(folder, model_config=as_args(config), strict=False)[0]


def widen(net):
    """Every float in f32, the rows of a quantized embedding too."""
    class Wide(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def __call__(self, ids):
            return self.inner(ids).astype(mx.float32)

        def as_linear(self, x):
            return self.inner.as_linear(x)

        @property
        def weight(self):
            return self.inner.weight
    net.update(tree_map(
        lambda x: x.astype(mx.float32) if mx.issubdtype(x.dtype, mx.floating) else x,
        net.parameters()))
    return net


def run(folder, name, config):
    try:
        net = load(folder, config)
        net = widen(net)
        return common.run_greedy(lambda t: np.array(net(mx.array([t]))[0].astype(mx.float32)),
                                 common.prompt_ids(name, config["vocab_size"]))
    except (Exception, SystemExit) as e:
        print(f"{name}: mlx: {type(e).__name__}: {e}", file=sys.stderr)
        return None, None


def write_equivalent(target, source, net):
    """The folder of the dense model with the dequantized weights in place of its own."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    dense = {}
    for key, module in net.named_modules():
        if hasattr(module, "scales"):
            dense[key + ".weight"] = mx.dequantize(
                module.weight, module.scales.astype(mx.float32),
                module.biases.astype(mx.float32), module.group_size, module.bits)
    for key, value in tree_flatten(net.parameters()):
        if not key.endswith((".scales", ".biases")):
            dense.setdefault(key, value)
    kind = read_config(source)["model_type"]
    renamed = {families.hub_name(kind, k): v.T if families.is_turned(kind, k) else v
               for k, v in dense.items()}
    stored = mx.load(str(source / "model.safetensors"))
    missing = set(stored) - set(renamed)
    extra = set(renamed) - set(stored)
    for key in missing:
        print(f"{target.parent.name}: {key} is kept as it was", file=sys.stderr)
    out = {k: mx.contiguous(renamed.get(k, v).reshape(v.shape).astype(mx.float32))
           for k, v in stored.items()}
    if extra:
        print(f"{target.parent.name}: not in the hub's file: {sorted(extra)}", file=sys.stderr)
    mx.save_safetensors(str(target / "model.safetensors"), out, {"format": "pt"})
    shutil.copy(source / "config.json", target)


def quantize_plain(source, folder, equivalent, bits, group):
    """Where mlx-lm has no class for the hub's format: every matrix, under its own name."""
    tensors, dense = {}, {}
    for key, x in mx.load(str(source / "model.safetensors")).items():
        dense[key] = x.astype(mx.float32)
        tensors[key] = x
        if x.ndim != 2 or x.shape[1] % group:
            continue
        path = key.removesuffix(".weight")
        w, scales, biases = mx.quantize(x, group_size=group, bits=bits)
        tensors.update({key: w, path + ".scales": scales, path + ".biases": biases})
        dense[key] = mx.dequantize(w, scales.astype(mx.float32), biases.astype(mx.float32),
                                   group, bits)
    for target, content in ((folder, tensors), (equivalent, dense)):
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        mx.save_safetensors(str(target / "model.safetensors"), content, {"format": "pt"})
        config = read_config(source)
        if target == folder:
            config["quantization"] = {"group_size": group, "bits": bits}
        (target / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def quantize(name, out, work):
    bits, group = families.QUANT[name]
    source, folder = out / name, out / f"{name}-q{bits}"
    config = read_config(source)
    if name in families.PLAIN:
        quantize_plain(source, folder, work / folder.name / "equivalent", bits, group)
        return
    net = load(source, config)
    net, quantized = quantize_model(net, dict(config), group, bits)
    save(folder, net, quantized)
    if name in families.HF:
        write_equivalent(work / folder.name / "equivalent", source, net)
    result, logits = run(folder, folder.name, quantized)
    common.save_run(work / folder.name, "mlx", result, logits, common.versions("mlx-lm", "mlx"))
    print(f"{folder.name}: {sum(f.stat().st_size for f in folder.iterdir()) / 1000:.1f} kB",
          flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=common.GOLDEN / "tiny")
    parser.add_argument("--work", type=Path, default=common.work_dir() / "tiny")
    parser.add_argument("--gguf", action="store_true",
                        help="only run mlx-lm with the weights of GGUF files")
    parser.add_argument("names", nargs="*", help="only these families")
    args = parser.parse_args()
    for name in (args.names or families.MLX) if args.gguf else ():
        folder = args.work / f"gguf-{name}" / "equivalent"
        if folder.is_dir():
            result, logits = run(folder, folder.parent.name, read_config(folder))
            common.save_run(folder.parent, "mlx", result, logits, common.versions("mlx-lm", "mlx"))
    if args.gguf:
        return
    for name in args.names or [*families.HF, *families.MLX]:
        if name in families.MLX:
            save(args.out / name, *build(name))
        config = read_config(args.out / name)
        result, logits = run(args.out / name, name, config)
        common.save_run(args.work / name, "mlx", result, logits,
                        common.versions("mlx-lm", "mlx"))
        if name in families.QUANT:
            quantize(name, args.out, args.work)


if __name__ == "__main__":
    main()
