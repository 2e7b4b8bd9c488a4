#!/usr/bin/env python3
"""Writes the tiny checkpoints with experts of tests/golden/tiny and Transformers' logits for them.

Runs in venv-hf. Every model is made twice: as Transformers saves it (a tensor for each expert where
the hub has that), and quantized in the layout of MLX, stacked, with the routers at 8 bits. All
parameters are random, router biases included. The reference of a quantized folder is Transformers
with the dequantized weights.

A router's choice is discrete, so a prompt is grown token by token and a token is kept only if the
choices of all layers stay the same when the routers' inputs are disturbed by 3 % (NOISE), and
another prompt is tried until those of the greedy continuation stand 0.8 %; results of one
arithmetic can then be compared with those of another.
"""

import argparse
import copy
import json
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

import common
from moespec import MODELS
from tinyspec import seed_of

NOISE, GREEDY_NOISE, N_TRIALS, N_PROMPTS = 0.03, 0.008, 8, 60
torch.set_num_threads(1)


# ---- weights ----

def std_of(name):
    """(mean, std) of a parameter, by the words in its name."""
    last = name.split(".")[-1]
    if "correction_bias" in name or "expert_bias" in name:
        return 0.0, 0.2
    if last == "sinks":
        return 0.0, 1.0
    if "norm" in name and last == "weight":
        return 1.0, 0.2
    if last.endswith("bias"):
        return 0.0, 0.1
    if "embed_tokens" in name:
        return 0.0, 0.5
    if name.endswith(("gate.weight", "router.weight", "wg.weight", "router.layer.weight")):
        return 0.0, 0.5
    return 0.0, 0.3 if ".q_" in name or ".k_" in name else 0.15


def randomize(model, name):
    rng = np.random.default_rng(seed_of(name))
    buffers = [(k, v) for k, v in model.named_buffers() if "bias" in k]
    with torch.no_grad():
        for key, p in list(model.named_parameters()) + buffers:
            mean, std = std_of(key)
            p.copy_(torch.tensor(rng.standard_normal(tuple(p.shape)) * std + mean))


def is_wide(key):
    """Tensors that published files keep in float32."""
    return "correction_bias" in key or "expert_bias" in key


def stored(tensors, dtype):
    return {k: (v.float() if is_wide(k) else v.to(dtype)).contiguous() for k, v in tensors.items()}


# ---- quantization in MLX's layout ----

def quantize_affine(x, bits, group):
    """codes as u32, scales, biases (bf16) of the last dimension; and the values they stand for."""
    x = x.float().numpy()
    g = x.reshape(*x.shape[:-1], -1, group)
    low, high = g.min(-1, keepdims=True), g.max(-1, keepdims=True)
    scale = torch.tensor((high - low) / (2 ** bits - 1)).bfloat16().float().numpy()
    scale[scale == 0] = 1.0
    bias = torch.tensor(low).bfloat16().float().numpy()
    q = np.clip(np.rint((g - bias) / scale), 0, 2 ** bits - 1).astype(np.uint32)
    values = (np.float32(scale) * np.float32(q) + np.float32(bias)).reshape(x.shape)
    per_word = 32 // bits
    words = q.reshape(*x.shape[:-1], -1, per_word)
    shifts = np.arange(per_word, dtype=np.uint32) * np.uint32(bits)
    packed = (words << shifts).sum(-1, dtype=np.uint32)
    flat = x.shape[:-1] + (x.shape[-1] // group,)
    return (torch.tensor(packed.astype(np.int64)).to(torch.uint32),
            torch.tensor(scale.reshape(flat)).bfloat16(),
            torch.tensor(bias.reshape(flat)).bfloat16(), torch.tensor(values))


def is_router(path):
    return path.endswith((".gate", ".router", ".router.layer", ".gate.wg", "shared_expert_gate"))


def quantized_folder(tensors, spec, config):
    """(tensors in MLX's layout, the same dequantized under the hub's names, quantization map)."""
    bits, group = spec.get("quant", (4, 32))
    quant = {"group_size": group, "bits": bits}
    out, plain, stacks = {}, {}, {}
    for key, x in tensors.items():
        target = spec["mlx_name"](key)  # (stack's path, expert), or a plain name
        if isinstance(target, tuple):
            stacks.setdefault(target[0], {})[target[1]] = (key, x)
            continue
        path = target.removesuffix(".weight")
        if x.ndim != 2 or not target.endswith(".weight") or x.shape[-1] % group:
            out[target], plain[key] = x, x.float()
            continue
        b, g = (8, 64) if is_router(path) and x.shape[-1] % 64 == 0 else (bits, group)
        if (b, g) != (bits, group):
            quant[path] = {"group_size": g, "bits": b}
        out[target], out[path + ".scales"], out[path + ".biases"], plain[key] = \
            quantize_affine(x, b, g)
    for path, parts in stacks.items():
        keys = [parts[e][0] for e in sorted(parts)]
        x = torch.stack([parts[e][1] for e in sorted(parts)])
        out[path + ".weight"], out[path + ".scales"], out[path + ".biases"], values = \
            quantize_affine(x, bits, group)
        for key, v in zip(keys, values):
            plain[key] = v
    return out, plain, quant


# ---- running ----

def routers_of(model, spec):
    return [m for m in model.modules() if type(m).__name__.endswith(spec["router_class"])]


def choice_of(output):
    for x in output if isinstance(output, tuple) else (output,):
        if isinstance(x, torch.Tensor) and x.dtype in (torch.int64, torch.int32):
            return x
    raise ValueError("a router without indices")


class Watch:
    """Disturbs the routers' inputs of all but the first sequence and records what they choose."""

    def __init__(self, model, spec, rng):
        self.rng, self.choices, self.on, self.noise = rng, [], False, NOISE
        for router in routers_of(model, spec):
            router.register_forward_pre_hook(self.before)
            router.register_forward_hook(self.after)

    def before(self, module, args):
        if not self.on:
            return None
        x = args[0]
        flat = x.reshape(N_TRIALS + 1, -1, x.shape[-1])
        noise = torch.tensor(self.rng.standard_normal(tuple(flat.shape))) * self.noise
        noise[0] = 0
        return (flat + flat * noise.to(x.dtype)).reshape(x.shape), *args[1:]

    def after(self, module, args, output):
        if self.on:
            self.choices.append(choice_of(output).reshape(N_TRIALS + 1, -1,
                                                          choice_of(output).shape[-1]))

    def is_steady(self, model, ids, n_last, noise):
        """Whether every trial chooses as the first sequence does, at the last positions."""
        self.choices, self.on, self.noise = [], True, noise
        with torch.no_grad():
            model(torch.tensor([ids] * (N_TRIALS + 1)), use_cache=False)
        self.on = False
        if not self.choices:
            raise ValueError("no router was found")
        for c in self.choices:
            last = c[:, -n_last:].sort(-1).values
            if (last != last[0]).any():
                return False
        return True


def grow_prompt(model, watch, rng, vocab, n):
    ids = []
    while len(ids) < n:
        for token in rng.permutation(vocab):
            if watch.is_steady(model, ids + [int(token)], 1, NOISE):
                ids.append(int(token))
                break
        else:
            raise ValueError(f"no token is steady at position {len(ids)}")
    return ids


def run(folder, name, spec, work):
    extra = {"experts_implementation": "eager"} if spec.get("eager_experts", True) else {}
    model = AutoModelForCausalLM.from_pretrained(
        str(folder), dtype=torch.float32, attn_implementation="eager", **extra).eval()
    spec.get("fix", lambda m: None)(model)
    vocab = model.config.get_text_config().vocab_size
    rng = np.random.default_rng(seed_of(name) ^ 0x5EED)
    watch = Watch(model, spec, rng)

    @torch.no_grad()
    def logits(tokens):
        return model(torch.tensor([tokens]), use_cache=False).logits[0].float().numpy()
    for _ in range(N_PROMPTS):
        ids = grow_prompt(model, watch, rng, vocab, common.N_PROMPT)
        result, first = common.run_greedy(logits, ids)
        if watch.is_steady(model, ids + result["greedy"], common.N_GREEDY, GREEDY_NOISE):
            break
    else:
        raise ValueError("no prompt has a steady continuation")
    common.save_run(work / name, "hf", result, first, common.versions("transformers", "torch"))
    return result, first


def new_model(spec, changes):
    config = AutoConfig.for_model(spec["type"], **{**spec["config"], **changes})
    return config, AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()


def hub_tensors(model, folder):
    """What Transformers saves for the hub, and the config it writes."""
    model.save_pretrained(folder)
    tensors = {}
    for file in sorted(Path(folder).glob("*.safetensors")):
        tensors.update(load_file(file))
    return tensors, json.loads((Path(folder) / "config.json").read_text())


def write_folder(folder, tensors, config, meta):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    save_file(tensors, str(folder / "model.safetensors"), meta)


def make(name, spec, args):
    torch.manual_seed(0)
    config, model = new_model(spec, spec.get("quant_config", {}) if name.endswith("-q4") else {})
    randomize(model, name)
    with tempfile.TemporaryDirectory() as temp:
        tensors, saved = hub_tensors(model, temp)
        tensors = spec.get("edit_tensors", lambda t: t)(tensors)
        saved = spec.get("edit_config", lambda c: c)(saved)
        saved.pop("transformers_version", None)
        if not name.endswith("-q4"):
            write_folder(args.out / name, stored(tensors, spec.get("dtype", torch.bfloat16)),
                         {**saved, "dtype": "bfloat16"}, {"format": "pt"})
            result, logits = run(args.out / name, name, spec, args.work)
        else:
            packed, plain, quant = quantized_folder(stored(tensors, torch.bfloat16), spec, saved)
            legacy = spec.get("hub_config", lambda c: c)(copy.deepcopy(saved))
            write_folder(args.out / name, packed,
                         {**legacy, "quantization": quant, "quantization_config": quant},
                         {"format": "mlx"})
            write_folder(Path(temp) / "plain", plain, saved, {"format": "pt"})
            result, logits = run(Path(temp) / "plain", name, spec, args.work)
    (args.out / name / "ids.json").write_text(
        json.dumps({**result, "oracle": common.versions("transformers", "torch")}) + "\n")
    np.save(args.out / name / "logits.npy", logits.astype(np.float32))
    size = sum(f.stat().st_size for f in (args.out / name).iterdir())
    print(f"{name:24s} {size / 1000:7.1f} kB  std {logits.std():.3f}  least gap "
          f"{min(result['gap']):.4f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=common.GOLDEN / "tiny")
    parser.add_argument("--work", type=Path, default=common.work_dir() / "tiny")
    parser.add_argument("names", nargs="*", help="only these folders")
    args = parser.parse_args()
    n_failed = 0
    for base, spec in MODELS.items():
        for name in [base + "-bf16"] + ([base + "-q4"] if spec.get("mlx_name") else []):
            if args.names and name not in args.names and base not in args.names:
                continue
            try:
                make(name, spec, args)
            except Exception as e:  # the other models are made all the same
                n_failed += 1
                print(f"{name}: {type(e).__name__}: {e}", file=sys.stderr)
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
