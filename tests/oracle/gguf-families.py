#!/usr/bin/env python3
"""Writes GGUF files of the dense families from their tiny checkpoints, as a converter would.

Runs in venv-hf, after make-families.py. Tensor names come from the gguf package's own tables; what
a converter does to values is here: q and k rows permuted for families that rotate neighbours,
1 added to norms stored without it, fused tensors cut or reordered. The weights are stored in Q8_0
where rows allow it; WORK/NAME/equivalent has the dequantized ones for Transformers.
"""

import argparse
import json
import shutil
from pathlib import Path

import gguf
import numpy as np
import torch
from gguf.quants import dequantize, quantize
from safetensors.torch import load_file, save_file

import common
from importlib import import_module

llama3_factors = import_module("make-tiny-gguf").llama3_rule

# name -> (general.architecture, permuted q and k rows)
FILES = {
    "gemma": ("gemma", False), "phi": ("phi2", False), "phi3-short": ("phi3", False),
    "starcoder2": ("starcoder2", False), "stablelm": ("stablelm", False),
    "olmo": ("olmo", True), "olmo2": ("olmo2", False), "olmo3": ("olmo2", False),
    "smollm3-step": ("smollm3", True), "granite": ("granite", True), "glm": ("chatglm", False),
    "glm4": ("glm4", False), "cohere": ("command-r", False), "cohere2": ("cohere2", False),
    "exaone": ("exaone", False), "exaone4": ("exaone4", False), "nemotron": ("nemotron", False),
    "ernie4_5": ("ernie4_5", False), "hunyuan": ("hunyuan-dense", False),
    "seed_oss": ("seed_oss", False), "gpt2": ("gpt2", False), "gpt_neox": ("gptneox", False),
    "apertus": ("apertus", False), "ministral3": ("mistral3", True), "minicpm": ("minicpm", True),
    "internlm2": ("internlm2", True),
}
Q8 = gguf.GGMLQuantizationType.Q8_0
F32 = gguf.GGMLQuantizationType.F32


def permute(x, heads):
    return x.reshape(heads, 2, x.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(x.shape)


def unpermute(x, heads):
    return x.reshape(heads, x.shape[0] // heads // 2, 2, -1).swapaxes(1, 2).reshape(x.shape)


def neox_order(x, heads):
    """[heads, 3, d, ...] -> [3, heads, d, ...]."""
    d = x.shape[0] // heads // 3
    return x.reshape(heads, 3, d, -1).swapaxes(0, 1).reshape(x.shape)


def neox_back(x, heads):
    d = x.shape[0] // heads // 3
    return x.reshape(3, heads, d, -1).swapaxes(0, 1).reshape(x.shape)


def codec(c, arch, key, permuted):
    """(to the GGUF's layout, back) for one tensor."""
    heads, kv = c["num_attention_heads"], c.get("num_key_value_heads") or c["num_attention_heads"]
    same = (lambda x: x, lambda x: x)
    stem = key.rsplit(".", 1)[0]
    if permuted and stem.endswith(("q_proj", "k_proj")):
        n = heads if stem.endswith("q_proj") else kv
        return lambda x: permute(x, n), lambda x: unpermute(x, n)
    if arch == "gptneox" and "query_key_value" in key:
        return lambda x: neox_order(x, heads), lambda x: neox_back(x, heads)
    if arch == "gpt2" and key.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")):
        return lambda x: np.ascontiguousarray(x.T), lambda x: np.ascontiguousarray(x.T)
    if (arch == "gemma" and "norm" in key) or \
            (arch == "nemotron" and "norm" in key and key.endswith("weight")):
        return lambda x: x + 1, lambda x: x - 1
    return same


def cut_groups(x, c):
    """internlm2's wqkv -> q, k and v, rows of q and k permuted; and back."""
    heads, kv = c["num_attention_heads"], c["num_key_value_heads"]
    d = c["hidden_size"] // heads
    g = x.reshape(kv, heads // kv + 2, d, -1)
    q, k, v = (part.reshape(-1, g.shape[-1]) for part in (g[:, :-2], g[:, -2], g[:, -1]))
    return permute(q, heads), permute(k, kv), v


def join_groups(q, k, v, c):
    heads, kv = c["num_attention_heads"], c["num_key_value_heads"]
    d = c["hidden_size"] // heads
    q = unpermute(q, heads).reshape(kv, heads // kv, d, -1)
    k, v = unpermute(k, kv).reshape(kv, 1, d, -1), v.reshape(kv, 1, d, -1)
    return np.concatenate([q, k, v], 1).reshape(-1, q.shape[-1])


def add_config(w, c, arch):
    heads, hidden = c["num_attention_heads"], c["hidden_size"]
    d = c.get("head_dim") or hidden // heads
    rope = c.get("rope_parameters") or {}
    full = rope.get("full_attention", rope)
    w.add_context_length(c["max_position_embeddings"])
    w.add_embedding_length(hidden)
    w.add_block_count(c["num_hidden_layers"])
    w.add_feed_forward_length(c.get("intermediate_size") or 4 * hidden)
    w.add_head_count(heads)
    w.add_head_count_kv(c.get("num_key_value_heads") or heads)
    w.add_key_length(d)
    w.add_value_length(d)
    w.add_vocab_size(c["vocab_size"])
    if "rms_norm_eps" in c:
        w.add_layer_norm_rms_eps(c["rms_norm_eps"])
    else:
        w.add_layer_norm_eps(next((c[k] for k in ("layer_norm_eps", "norm_epsilon", "norm_eps",
                                                   "layer_norm_epsilon") if k in c), 1e-5))
    if full:
        theta = full["rope_theta"]
        if "alpha" in full:
            theta *= full["alpha"] ** (d / (d - 2))
        w.add_rope_freq_base(theta)
        w.add_rope_dimension_count(int(d * full.get("partial_rotary_factor", 1.0)))
        if full.get("rope_type") == "yarn":
            w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
            w.add_rope_scaling_factor(full["factor"])
            w.add_rope_scaling_orig_ctx_len(full["original_max_position_embeddings"])
            w.add_rope_scaling_yarn_beta_fast(full["beta_fast"])
            w.add_rope_scaling_yarn_beta_slow(full["beta_slow"])
            if full.get("attention_factor"):
                usual = 0.1 * np.log(full["factor"]) + 1
                w.add_rope_scaling_attn_factors(full["attention_factor"] / usual)
        if "llama_4_scaling_beta" in full:
            w.add_attn_temperature_scale(full["llama_4_scaling_beta"])
            w.add_rope_scaling_yarn_log_mul(full["mscale_all_dim"])
        if full.get("rope_type") == "llama3":
            w.add_tensor("rope_freqs.weight", llama3_factors({"head_dim": d, **full}))
        if full.get("rope_type") == "longrope":
            if arch != "phi3":  # its converter leaves the type out
                w.add_rope_scaling_type(gguf.RopeScalingType.LONGROPE)
            orig = c["original_max_position_embeddings"]
            w.add_rope_scaling_orig_ctx_len(orig)
            s = c["max_position_embeddings"] / orig
            w.add_rope_scaling_attn_factors(
                1.0 if s <= 1 else float(np.sqrt(1 + np.log(s) / np.log(orig))))
            for kind in ("long", "short"):
                w.add_tensor(f"rope_factors_{kind}.weight",
                             np.array(full[f"{kind}_factor"], np.float32))
    if c.get("sliding_window"):
        w.add_sliding_window(c["sliding_window"])
    types = c.get("layer_types") or []
    if "sliding_attention" in types and arch != "smollm3":
        w.add_sliding_window_pattern([t == "sliding_attention" for t in types])
    if arch == "granite":
        w.add_attention_scale(c["attention_multiplier"])
        w.add_embedding_scale(c["embedding_multiplier"])
        w.add_residual_scale(c["residual_multiplier"])
        w.add_logit_scale(c["logits_scaling"])
    if arch == "minicpm":
        w.add_embedding_scale(c["scale_emb"])
        w.add_residual_scale(c["scale_depth"] / c["num_hidden_layers"] ** 0.5)
        w.add_logit_scale(hidden / c["dim_model_base"])
    if "logit_scale" in c:
        w.add_logit_scale(c["logit_scale"])
    if c.get("clip_qkv"):
        w.add_clamp_kqv(c["clip_qkv"])
    if "use_parallel_residual" in c:
        w.add_parallel_residual(c["use_parallel_residual"])


def write(name, root, work):
    arch, permuted = FILES[name]
    source = root / name
    c = json.loads((source / "config.json").read_text())
    for long, short in (("hidden_size", "n_embd"), ("num_hidden_layers", "n_layer"),
                        ("num_attention_heads", "n_head"), ("intermediate_size", "n_inner"),
                        ("max_position_embeddings", "n_positions")):
        if short in c:
            c[long] = c[short]
    kind = next(k for k, v in gguf.MODEL_ARCH_NAMES.items() if v == arch)
    names = gguf.get_tensor_name_map(kind, c["num_hidden_layers"])
    folder = root / f"gguf-{name}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    w = gguf.GGUFWriter(folder / "model.gguf", arch)
    add_config(w, c, arch)
    equivalent, lists, numbers = {}, {}, {}
    for key, t in load_file(source / "model.safetensors").items():
        x = t.float().numpy()
        if ".norms." in key:  # one tensor for all heads
            base, head = key.rsplit(".weight", 1)[0].rsplit(".norms.", 1)
            lists.setdefault(base, {})[int(head)] = x
            equivalent[key] = x
            continue
        if ".act_fn." in key:  # xIELU: numbers of the metadata
            numbers.setdefault(key.rsplit(".", 1)[1], []).append(float(x.reshape(-1)[0]))
            equivalent[key] = x
            continue
        if ".wqkv." in key:
            stored, matrix = [], x.ndim == 2
            for part, y in zip("qkv", cut_groups(x, c)):
                data = quantize(np.ascontiguousarray(y), Q8) if matrix else y.reshape(-1)
                w.add_tensor(f"blk.{key.split('.')[2]}.attn_{part}.{key.rsplit('.', 1)[1]}", data,
                             raw_dtype=Q8 if matrix else F32)
                stored.append(dequantize(data, Q8) if matrix else data)
            equivalent[key] = join_groups(*stored, c).reshape(x.shape)
            continue
        target = names.get_name(key, try_suffixes=(".weight", ".bias"))
        assert target, f"{name}: the gguf package has no name for {key}"
        to, back = codec(c, arch, key, permuted)
        x = to(x)
        matrix = x.ndim == 2 and x.shape[1] % 32 == 0 and "norm" not in key
        data = quantize(x, Q8) if matrix else x
        w.add_tensor(target, data, raw_dtype=Q8 if matrix else F32)
        equivalent[key] = back(dequantize(data, Q8) if matrix else x)
    for base, parts in lists.items():
        target = names.get_name(base + ".weight", try_suffixes=(".weight",))
        w.add_tensor(target, np.stack([parts[h] for h in sorted(parts)]))
    for part, values in numbers.items():
        getattr(w, f"add_xielu_{part}")(values)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    target = work / folder.name / "equivalent"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    save_file({k: torch.from_numpy(np.ascontiguousarray(v)).reshape(v.shape)
               for k, v in equivalent.items()},
              target / "model.safetensors", {"format": "pt"})
    shutil.copy(source / "config.json", target)
    print(f"{folder.name:24s} {(folder / 'model.gguf').stat().st_size / 1000:7.1f} kB", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=common.GOLDEN / "tiny")
    parser.add_argument("--work", type=Path, default=common.work_dir() / "tiny")
    parser.add_argument("names", nargs="*", help="only these families")
    args = parser.parse_args()
    for name in args.names or FILES:
        try:
            write(name, args.out, args.work)
        except Exception as e:
            print(f"{name}: {type(e).__name__}: {e}")


if __name__ == "__main__":
    main()
