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

import copy
import json
import re
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from gguf import MODEL_ARCH_NAMES, GGMLQuantizationType, GGUFWriter, get_tensor_name_map
from gguf.quants import dequantize, quantize
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

import common
from moespec import MODELS, stack_names
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


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def quantize_mxfp4(x):
    """blocks u8 [.., groups, 16] (low nibble first), scales u8, and their values."""
    x = x.float().numpy()
    g = x.reshape(*x.shape[:-1], -1, 32)
    exponent = np.ceil(np.log2(np.abs(g).max(-1, keepdims=True) / 6))
    codes = np.abs(g[..., None] / 2.0 ** exponent[..., None] - E2M1).argmin(-1).astype(np.uint8)
    values = (E2M1[codes] * 2.0 ** exponent).astype(np.float32).reshape(x.shape)
    blocks = codes[..., 0::2] | codes[..., 1::2] << 4
    return (torch.tensor(blocks), torch.tensor((exponent[..., 0] + 127).astype(np.uint8)),
            torch.tensor(values))


def blocks_folder(tensors):
    """Stacks of experts as gpt_oss is published: turned, in mxfp4 blocks."""
    out, plain = {}, {}
    for key, x in tensors.items():
        if not key.endswith(("experts.gate_up_proj", "experts.down_proj")):
            out[key], plain[key] = x, x.float()
            continue
        out[key + "_blocks"], out[key + "_scales"], values = quantize_mxfp4(x.transpose(1, 2))
        plain[key] = values.transpose(1, 2).contiguous()
    return out, plain


def write_gguf(path, tensors, config, arch):
    """The file of a converter: stacks of experts, routers and norms in f32; what it stands for."""
    numbers = {k: v for k, v in MODEL_ARCH_NAMES.items()}
    kind_of = next(k for k, v in numbers.items() if v == arch)
    names = get_tensor_name_map(kind_of, config["num_hidden_layers"])
    path.parent.mkdir(parents=True, exist_ok=True)
    w = GGUFWriter(path, arch)
    d = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    w.add_context_length(config["max_position_embeddings"])
    w.add_embedding_length(config["hidden_size"])
    w.add_block_count(config["num_hidden_layers"])
    w.add_feed_forward_length(config["intermediate_size"])
    w.add_head_count(config["num_attention_heads"])
    w.add_head_count_kv(config["num_key_value_heads"])
    w.add_key_length(d)
    w.add_value_length(d)
    w.add_layer_norm_rms_eps(config["rms_norm_eps"])
    w.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    w.add_vocab_size(config["vocab_size"])
    w.add_expert_count(config.get("num_local_experts") or config["num_experts"])
    w.add_expert_used_count(config["num_experts_per_tok"])
    if "moe_intermediate_size" in config:
        w.add_expert_feed_forward_length(config["moe_intermediate_size"])
    stacks, plain = {}, {}
    for key, x in tensors.items():
        target = stack_names(key, after="mlp.experts")
        if isinstance(target, tuple):
            stacks.setdefault(target[0] + ".weight", []).append((target[1], key, x))
        else:
            stacks[key] = [(None, key, x)]
    turn = 0
    for name, parts in stacks.items():
        parts.sort(key=lambda p: p[0] or 0)
        x = torch.stack([p[2] for p in parts]) if parts[0][0] is not None else parts[0][2]
        x = x.float().numpy()
        kind = GGMLQuantizationType.F32
        if x.ndim >= 2 and not is_router(name.removesuffix(".weight")):
            kind = (GGMLQuantizationType.Q4_0, GGMLQuantizationType.Q8_0)[turn % 2]
            turn += 1
        data = quantize(x, kind) if kind != GGMLQuantizationType.F32 else x
        back = dequantize(data, kind) if kind != GGMLQuantizationType.F32 else x
        w.add_tensor(names.get_name(name, try_suffixes=(".weight",)) , data, raw_dtype=kind)
        for p, value in zip(parts, back if parts[0][0] is not None else [back]):
            plain[p[1]] = torch.tensor(value)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return plain


def unstacked(tensors, path, both, down, turned):
    """The stacks `both` [E, 2I, H] and `down` [E, H, I] of `path`, the last two dimensions turned or
    not, as a matrix for each expert."""
    out = {}
    for key, x in tensors.items():
        stem, _, last = key.partition(path + ".")
        if last not in (both, down):
            out[key] = x
            continue
        for e, w in enumerate(x.transpose(1, 2) if turned else x):
            half = w.shape[0] // 2
            parts = {"down_proj": w} if last == down else {
                "gate_proj": w[:half], "up_proj": w[half:]}
            for name, part in parts.items():
                out[f"{stem}{path}.{e}.{name}.weight"] = part.contiguous()
    return out


def restacked(plain, path, both, down, turned):
    out, stacks = {}, {}
    for key, x in plain.items():
        m = re.match(rf"(.*{re.escape(path)})\.(\d+)\.(\w+)\.weight$", key)
        if m:
            stacks.setdefault(m[1], {}).setdefault(m[3], []).append(x)
        else:
            out[key] = x
    for stem, p in stacks.items():
        pairs = torch.stack([torch.cat(pair) for pair in zip(p["gate_proj"], p["up_proj"])])
        for name, x in ((both, pairs), (down, torch.stack(p["down_proj"]))):
            out[f"{stem}.{name}"] = (x.transpose(1, 2) if turned else x).contiguous()
    return out


def is_router(path):
    return path.endswith((".gate", ".router", ".router.layer", ".gate.wg", "shared_expert_gate"))


def split_kv(tensors, config):
    """kv_b_proj as mlx-lm has it: by head, the keys' half turned round."""
    heads, nope = config["num_attention_heads"], config["qk_nope_head_dim"]
    out = {}
    for key, x in tensors.items():
        stem = key.removesuffix("kv_b_proj.weight")
        if stem == key:
            out[key] = x
            continue
        kv = x.reshape(heads, -1, x.shape[-1])
        out[stem + "embed_q.weight"] = kv[:, :nope].transpose(1, 2).contiguous()
        out[stem + "unembed_out.weight"] = kv[:, nope:].contiguous()
    return out


def joined_kv(plain):
    out = {}
    for key, x in plain.items():
        stem = key.removesuffix("embed_q.weight")
        if stem != key:
            kv = torch.cat([x.transpose(1, 2), plain[stem + "unembed_out.weight"]], 1)
            out[stem + "kv_b_proj.weight"] = kv.reshape(-1, kv.shape[-1]).contiguous()
        elif not key.endswith("unembed_out.weight"):
            out[key] = x
    return out


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
        dense = is_router(path) and spec.get("dense_router", False)
        is_matrix = x.ndim == 2 or (x.ndim == 3 and spec.get("split_kv", False))
        if not is_matrix or not target.endswith(".weight") or x.shape[-1] % group or dense:
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
    return output[0].argmax(-1, keepdim=True)  # scores that are 0 but for the chosen expert


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
    kind = "quant_config" if name.endswith("-q4") else "gguf_config"
    changes = spec.get(kind, {}) if kind[0] == "q" or name.startswith("gguf-") else {}
    config, model = new_model(spec, changes)
    randomize(model, name)
    with tempfile.TemporaryDirectory() as temp:
        tensors, saved = hub_tensors(model, temp)
        tensors = spec.get("edit_tensors", lambda t: t)(tensors)
        saved = spec.get("edit_config", lambda c: c)(saved)
        saved.pop("transformers_version", None)
        if name.endswith("-bf16"):
            write_folder(args.out / name, stored(tensors, spec.get("dtype", torch.bfloat16)),
                         {**saved, "dtype": "bfloat16"}, {"format": "pt"})
            result, logits = run(args.out / name, name, spec, args.work)
        elif name.startswith("gguf-"):
            shutil.rmtree(args.out / name, ignore_errors=True)
            plain = write_gguf(args.out / name / "model.gguf", tensors, saved, spec["gguf"])
            write_folder(Path(temp) / "plain", plain, saved, {"format": "pt"})
            result, logits = run(Path(temp) / "plain", name, spec, args.work)
        elif name.endswith("-mxfp4"):
            packed, plain = blocks_folder(stored(tensors, torch.bfloat16))
            quant = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
            write_folder(args.out / name, packed, {**saved, "quantization_config": quant},
                         {"format": "pt"})
            write_folder(Path(temp) / "plain", plain, saved, {"format": "pt"})
            result, logits = run(Path(temp) / "plain", name, spec, args.work)
        else:
            stacks = spec.get("split_stacks")
            tensors = stored(tensors, torch.bfloat16)
            if spec.get("split_kv"):
                tensors = split_kv(tensors, saved)
            packed, plain, quant = quantized_folder(
                unstacked(tensors, *stacks) if stacks else tensors, spec, saved)
            plain = restacked(plain, *stacks) if stacks else plain
            plain = joined_kv(plain) if spec.get("split_kv") else plain
            legacy = spec.get("hub_config", lambda c: c)(copy.deepcopy(saved))
            write_folder(args.out / name, packed,
                         {**legacy, "quantization": quant, "quantization_config": quant},
                         {"format": "mlx"})
            write_folder(Path(temp) / "plain", plain, saved, {"format": "pt"})
            result, logits = run(Path(temp) / "plain", name, spec, args.work)
    common.store_run(args.out / name, result, logits, common.versions("transformers", "torch"))


def kinds_of(base, spec):
    kinds = ["bf16"] + ["q4"] * ("mlx_name" in spec) + ["mxfp4"] * spec.get("blocks", False)
    return [f"{base}-{kind}" for kind in kinds] + [f"gguf-{base}"] * ("gguf" in spec)


if __name__ == "__main__":
    sys.exit(common.make_models(__doc__, MODELS, make, kinds_of))
