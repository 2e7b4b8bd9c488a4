#!/usr/bin/env python3
"""Writes GGUF files of the families with convolutions, state-space and gated-delta layers, as a
converter would, and Transformers' logits for them.

Runs in venv-hf. Tensor names come from the gguf package's own tables; what a converter does to
values is here: A = -exp(A_log), convolutions squeezed, 1 added to zero-centred norms, multipliers
multiplied into the weights (falcon-h1), qkvz cut (qwen3next), value heads in another order (qwen35),
q and k rows permuted where neighbours rotate, experts stacked. Weights are stored in Q8_0 where rows
allow it. The reference is Transformers with the dequantized weights, everything undone.
"""

import importlib
import json
import re
import shutil
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np
import torch
from gguf.quants import dequantize, quantize

import common

moe = importlib.import_module("make-moe")
recurrent = importlib.import_module("make-recurrent")
ssm = importlib.import_module("make-ssm")
torch.set_num_threads(1)

Q8 = gguf.GGMLQuantizationType.Q8_0
F32 = gguf.GGMLQuantizationType.F32
SMALL = dict(vocab_size=32)
QWEN = dict(recurrent.QWEN | SMALL, linear_value_head_dim=8, num_hidden_layers=2,
            intermediate_size=32, layer_types=["linear_attention", "full_attention"])
EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
               shared_expert_intermediate_size=32)
NEMOTRON = dict(ssm.NEMOTRON, hidden_size=32, head_dim=16, intermediate_size=32, mamba_num_heads=4,
                mamba_head_dim=8, n_groups=2, use_bias=False, mlp_bias=False, time_step_min=0.001)

MODELS = {
    "gguf-mamba": dict(arch="mamba", type="mamba", config=dict(
        ssm.MAMBA | SMALL, num_hidden_layers=1, tie_word_embeddings=False)),
    "gguf-falcon_mamba": dict(arch="mamba", type="falcon_mamba", config=dict(
        ssm.MAMBA | SMALL, num_hidden_layers=1, tie_word_embeddings=False)),
    "gguf-mamba2": dict(arch="mamba2", type="mamba2", config=dict(
        ssm.MAMBA2 | SMALL, num_hidden_layers=1, time_step_limit=[0.0, float("inf")])),
    "gguf-jamba": dict(arch="jamba", type="jamba", router_class="Router", config=dict(
        ssm.JAMBA | SMALL, intermediate_size=32, num_hidden_layers=2, attn_layer_offset=1)),
    "gguf-granitehybrid": dict(
        arch="granitehybrid", type="granitemoehybrid", router_class="TopKRouter", config=dict(
            ssm.GRANITE | SMALL, intermediate_size=32, shared_intermediate_size=32,
            num_local_experts=3, tie_word_embeddings=False)),
    "gguf-granite4-dense": dict(arch="granitehybrid", type="granitemoehybrid", config=dict(
        ssm.GRANITE | SMALL, num_local_experts=0, layer_types=["attention", "mamba"],
        tie_word_embeddings=False, shared_intermediate_size=32)),
    "gguf-lfm2": dict(arch="lfm2", type="lfm2", config=dict(
        ssm.LFM2 | SMALL, full_attn_idxs=[1], block_auto_adjust_ff_dim=False,
        num_hidden_layers=2, intermediate_size=32)),
    "gguf-lfm2moe": dict(arch="lfm2moe", type="lfm2_moe", router_class="TopKRouter", config=dict(
        ssm.LFM2 | SMALL, num_dense_layers=1, num_experts=3, num_experts_per_tok=2,
        num_hidden_layers=2, moe_intermediate_size=32,
        layer_types=["conv", "full_attention"])),
    "gguf-falcon_h1": dict(arch="falcon-h1", type="falcon_h1", config=dict(
        ssm.FALCON, attention_bias=False, mlp_bias=False, mamba_proj_bias=False,
        projectors_bias=False, mamba_norm_before_gate=False, intermediate_size=32, hidden_size=32,
        head_dim=8, mamba_d_ssm=32, mamba_d_head=8, mamba_d_conv=4)),
    "gguf-nemotron_h": dict(arch="nemotron_h", type="nemotron_h", config=dict(
        NEMOTRON, layers_block_type=["full_attention", "linear_attention", "mlp"])),
    "gguf-nemotron_h_moe": dict(
        arch="nemotron_h_moe", type="nemotron_h", router_class="TopkRouter", config=dict(
            NEMOTRON, n_group=1, topk_group=1, moe_latent_size=32, moe_intermediate_size=32,
            moe_shared_expert_intermediate_size=32, n_routed_experts=4,
            layers_block_type=["linear_attention", "moe", "full_attention"])),
    "gguf-qwen3next": dict(arch="qwen3next", type="qwen3_next", router_class="TopKRouter",
                           config=dict(QWEN, **EXPERTS, norm_topk_prob=True)),
    "gguf-qwen35": dict(arch="qwen35", type="qwen3_5_text", config=QWEN),
    "gguf-qwen35moe": dict(arch="qwen35moe", type="qwen3_5_moe_text", router_class="TopKRouter",
                           config=dict(QWEN, **EXPERTS)),
}
QWEN_ARCHS = ("qwen3next", "qwen35", "qwen35moe")


# ---- metadata ----

def layer_kinds(c, arch):
    """A word for each layer: attention, scan or mlp."""
    n = c["num_hidden_layers"] if "num_hidden_layers" in c else len(c["layers_block_type"])
    words = c.get("layers_block_type") or c.get("layer_types")
    if arch == "jamba":
        return ["attention" if i % c["attn_layer_period"] == c["attn_layer_offset"] else "scan"
                for i in range(n)]
    if arch in ("mamba", "mamba2"):
        return ["scan"] * n
    if arch == "falcon-h1":
        return ["attention"] * n
    if words is None:
        return ["attention" if i in c["full_attn_idxs"] else "scan" for i in range(n)]
    return [{"full_attention": "attention", "attention": "attention", "mlp": "mlp", "moe": "mlp"}
            .get(w, "scan") for w in words]


def add_scan(w, c, arch):
    def first(*keys):
        return next(c[k] for k in keys if c.get(k) is not None)
    w.add_ssm_conv_kernel(first("conv_kernel", "mamba_d_conv"))
    w.add_ssm_state_size(first("ssm_state_size", "state_size", "mamba_d_state"))
    heads = c.get("num_heads") or c.get("mamba_n_heads") or c.get("mamba_num_heads")
    if heads:
        dim = first("mamba_d_head", "mamba_head_dim", "head_dim")
        w.add_ssm_inner_size(heads * dim)
        w.add_ssm_time_step_rank(heads)
        w.add_ssm_group_count(first("n_groups", "mamba_n_groups"))
    else:
        w.add_ssm_inner_size(2 * c["hidden_size"])
        w.add_ssm_time_step_rank(first("time_step_rank", "mamba_dt_rank"))
    if arch == "mamba":
        w.add_ssm_dt_b_c_rms(c["model_type"] == "falcon_mamba")


def add_delta(w, c, kinds):
    w.add_ssm_conv_kernel(c["linear_conv_kernel_dim"])
    w.add_ssm_state_size(c["linear_key_head_dim"])
    w.add_ssm_group_count(c["linear_num_key_heads"])
    w.add_ssm_time_step_rank(c["linear_num_value_heads"])
    w.add_ssm_inner_size(c["linear_value_head_dim"] * c["linear_num_value_heads"])
    w.add_full_attention_interval(len(kinds))
    rope = c["rope_parameters"]
    w.add_rope_dimension_count(int(c["head_dim"] * rope["partial_rotary_factor"]))


def add_experts(w, c, arch):
    n = c.get("num_local_experts") or c.get("num_experts") or c.get("n_routed_experts")
    w.add_expert_count(n)
    w.add_expert_used_count(c["num_experts_per_tok"])
    if "moe_intermediate_size" in c:
        w.add_expert_feed_forward_length(c["moe_intermediate_size"])
    shared = c.get("shared_intermediate_size") or c.get("shared_expert_intermediate_size") or \
        c.get("moe_shared_expert_intermediate_size")
    if shared:
        w.add_expert_shared_feed_forward_length(shared)
    if arch == "lfm2moe":
        w.add_leading_dense_block_count(c["num_dense_layers"])
        w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    if arch == "nemotron_h_moe":
        w.add_expert_weights_norm(c["norm_topk_prob"])
        w.add_expert_weights_scale(c["routed_scaling_factor"])
        w.add_expert_group_count(c["n_group"])
        w.add_moe_latent_size(c["moe_latent_size"])


def add_config(w, c, arch):
    kinds = layer_kinds(c, arch)
    heads = c.get("num_attention_heads", 0)
    wide = c.get("block_ff_dim") or c.get("intermediate_size") or 0
    has_experts = bool(c.get("num_local_experts") or c.get("num_experts") or
                       arch == "nemotron_h_moe")
    if arch == "granitehybrid" and not has_experts:
        wide = c["shared_intermediate_size"]
    w.add_vocab_size(c["vocab_size"])
    w.add_context_length(c.get("max_position_embeddings", 256))
    w.add_embedding_length(c["hidden_size"])
    w.add_block_count(len(kinds) + (arch == "qwen35"))
    w.add_head_count(heads)
    if arch.startswith("nemotron_h"):
        wide = c["moe_intermediate_size"] if has_experts else wide
        w.add_feed_forward_length([wide if k == "mlp" else 0 for k in kinds])
    elif arch != "qwen35moe":
        w.add_feed_forward_length(0 if arch.startswith("mamba") else wide)
    kv = c.get("num_key_value_heads", 0)
    if arch in QWEN_ARCHS or arch == "falcon-h1":
        w.add_head_count_kv(kv)
    elif kv:
        w.add_head_count_kv([kv if k == "attention" else 0 for k in kinds])
    if heads:
        d = c.get("head_dim") or c["hidden_size"] // heads
        w.add_key_length(d)
        w.add_value_length(d)
    w.add_layer_norm_rms_eps(next(c[k] for k in ("rms_norm_eps", "norm_eps", "layer_norm_epsilon")
                                  if k in c))
    if c.get("rope_parameters"):
        w.add_rope_freq_base(c["rope_parameters"]["rope_theta"])
    if arch.startswith("lfm2"):
        w.add_shortconv_l_cache(c["conv_L_cache"])
    elif arch in QWEN_ARCHS:
        add_delta(w, c, kinds)
    else:
        add_scan(w, c, arch)
    if arch == "qwen35":  # a layer for drafts, to be dropped
        w.add_nextn_predict_layers(1)
        for name in ("attn_norm", "nextn.enorm"):
            w.add_tensor(f"blk.{len(kinds)}.{name}.weight", np.ones(c["hidden_size"], np.float32))
    if arch.startswith("qwen35"):
        w.add_rope_dimension_sections([2, 1, 1, 0])
    if has_experts:
        add_experts(w, c, arch)
    if arch == "granitehybrid":
        w.add_attention_scale(c["attention_multiplier"])
        w.add_embedding_scale(c["embedding_multiplier"])
        w.add_residual_scale(c["residual_multiplier"])
        w.add_logit_scale(c["logits_scaling"])
        w.add_rope_scaling_finetuned(False)
    if arch.startswith("nemotron_h"):
        w.add_layer_norm_eps(c["layer_norm_epsilon"])


# ---- tensors ----

class Stored:
    """One tensor of the file: its values, and how what the file gives becomes the hub's again."""

    def __init__(self, name, x, undo):
        self.name, self.x, self.undo = name, np.ascontiguousarray(x, np.float32), undo


def permuted_rows(n, heads):
    """Where the converter takes each row of q or k from."""
    return np.arange(n).reshape(heads, 2, n // heads // 2).swapaxes(1, 2).reshape(-1)


def tiled_rows(c, width):
    k, v = c["linear_num_key_heads"], c["linear_num_value_heads"]
    return np.arange(v * width).reshape(k, v // k, width).swapaxes(0, 1).reshape(-1)


def row_order(c, arch, stem):
    """The converter's order of a tensor's rows, or None."""
    last = stem.split(".")[-1]
    if arch == "granitehybrid" and last in ("q_proj", "k_proj"):
        heads = c["num_attention_heads" if last == "q_proj" else "num_key_value_heads"]
        return permuted_rows(heads * c["head_dim"], heads)
    if not arch.startswith("qwen35") or ".linear_attn." not in stem:
        return None
    key = 2 * c["linear_num_key_heads"] * c["linear_key_head_dim"]
    d = c["linear_value_head_dim"]
    if last in ("in_proj_qkv", "conv1d"):
        return np.concatenate([np.arange(key), key + tiled_rows(c, d)])
    return {"in_proj_z": tiled_rows(c, d), "in_proj_b": tiled_rows(c, 1),
            "in_proj_a": tiled_rows(c, 1), "A_log": tiled_rows(c, 1),
            "dt_bias": tiled_rows(c, 1)}.get(last)


def falcon_factor(c, stem):
    """As ssm.falcon_factors, but everything is multiplied in."""
    last = stem.split(".")[-1]
    f = ssm.falcon_factors(c)(stem)
    if last == "k_proj":
        f *= c["key_multiplier"]
    if last == "v_proj":
        f = c["attention_in_multiplier"]
    return f.numpy() if isinstance(f, torch.Tensor) else f


def table_name(names, key, arch):
    key = re.sub(r"^model\.", "backbone.", key) if arch.startswith("nemotron_h") else key
    key = key.replace(".dt_bias", ".dt_proj.bias" if ".linear_attn." in key or
                      not arch.startswith("nemotron_h") else ".dt.bias")
    key = key.replace("e_score_correction_bias", "e_score_correction.bias")
    key = re.sub(r"\.expert_bias$", ".expert_bias.bias", key)
    name = names.get_name(key, try_suffixes=(".weight", ".bias"))
    assert name, f"the gguf package has no name for {key}"
    return name


def one(key, x, c, arch, names):
    """A tensor that stays one."""
    stem = re.sub(r"\.(weight|bias)$", "", key)
    rows = row_order(c, arch, stem)
    columns = tiled_rows(c, c["linear_value_head_dim"]) \
        if arch.startswith("qwen35") and stem.endswith("linear_attn.out_proj") else None
    shape = x.shape
    factor = falcon_factor(c, stem) if arch == "falcon-h1" and x.ndim == 2 else 1.0
    y = x.squeeze() if x.ndim == 3 and "conv" in key else x
    if key.endswith(".A_log"):
        y = -np.exp(y)
    plus = 1.0 if arch in QWEN_ARCHS and "norm" in key and ".linear_attn." not in key else 0.0
    y = (y * factor + plus)
    y = y[rows] if rows is not None else y
    y = y[:, columns] if columns is not None else y
    if y.ndim == 1 and key.endswith((".A_log", ".D")) and arch not in QWEN_ARCHS and \
            arch not in ("mamba", "jamba"):
        y = y.reshape(-1, 1)
    if key.endswith("shared_expert_gate.weight") and arch == "qwen35moe":
        y = y.reshape(-1)  # older converters squeeze
    groups = c.get("n_groups") or c.get("mamba_n_groups")
    if stem.endswith(("mamba.norm", "mixer.norm")):
        y = y.reshape(groups, -1)

    def undo(v):
        v = v.reshape(y.shape)
        if columns is not None:
            v = v[:, np.argsort(columns)]
        if rows is not None:
            v = v[np.argsort(rows)]
        v = (v.reshape(x.squeeze().shape if x.ndim == 3 else x.shape) - plus) / factor
        return {key: (np.log(-v) if key.endswith(".A_log") else v).reshape(shape)}
    return Stored(table_name(names, key, arch), y, undo)


def cut_qkvz(key, x, c, names):
    """qwen3next: rows by key head to rows of q, k and v, and those of z."""
    hk, dk = c["linear_num_key_heads"], c["linear_key_head_dim"]
    wide = c["linear_num_value_heads"] // hk * c["linear_value_head_dim"]
    idx = np.arange(x.shape[0]).reshape(hk, -1)
    q, k, v, z = np.split(idx, np.cumsum([dk, dk, wide]), axis=1)
    order = [np.concatenate([q.reshape(-1), k.reshape(-1), v.reshape(-1)]), z.reshape(-1)]
    block = re.search(r"layers\.(\d+)\.", key)[1]
    whole = np.zeros_like(x)

    def put(rows):
        def undo(values):
            whole[rows] = values
            return {key: whole}
        return undo
    for rows, name in zip(order, ("attn_qkv", "attn_gate")):
        yield Stored(f"blk.{block}.{name}.weight", x[rows], put(rows))


def cut_halves(key, x, base):
    """gate and up of one tensor, the second dimension from the end."""
    n = x.shape[-2] // 2
    whole = np.zeros_like(x)

    def put(part):
        def undo(values):
            whole[..., part, :] = values
            return {key: whole}
        return undo
    for name, part in zip(("gate", "up"), (slice(0, n), slice(n, 2 * n))):
        yield Stored(base.format(name), x[..., part, :], put(part))


def stack(base, parts):
    """Experts that lie apart: [(key, x)] in order."""
    def undo(values):
        return {key: v for (key, _), v in zip(parts, values)}
    return Stored(base, np.stack([x for _, x in parts]), undo)


def stored_tensors(tensors, c, arch, names):
    experts = {}
    for key, t in tensors.items():
        x = t.float().numpy()
        block = re.search(r"layers\.(\d+)\.", key)
        block = block[1] if block else None
        m = re.fullmatch(r".*\.experts\.(\d+)\.(\w+)\.weight", key)
        if m:
            part = {"w1": "gate", "w2": "down", "w3": "up"}.get(m[2], m[2].split("_")[0])
            experts.setdefault(f"blk.{block}.ffn_{part}_exps.weight", {})[int(m[1])] = (key, x)
        elif key.endswith("experts.gate_up_proj") or "block_sparse_moe.input_linear" in key:
            yield from cut_halves(key, x, f"blk.{block}.ffn_{{}}_exps.weight")
        elif "shared_mlp.input_linear" in key:
            tail = "_shexp" if c.get("num_local_experts") else ""
            yield from cut_halves(key, x, f"blk.{block}.ffn_{{}}{tail}.weight")
        elif "shared_mlp.output_linear" in key and not c.get("num_local_experts"):
            yield Stored(f"blk.{block}.ffn_down.weight", x, lambda v, key=key: {key: v})
        elif re.search(r"\.experts\.(up|down)_proj$", key):
            part = key.split(".")[-1].split("_")[0]
            yield Stored(f"blk.{block}.ffn_{part}_exps.weight", x, lambda v, key=key: {key: v})
        elif "in_proj_qkvz" in key:
            yield from cut_qkvz(key, x, c, names)
        else:
            yield one(key, x, c, arch, names)
    for name, parts in experts.items():
        yield stack(name, [parts[e] for e in sorted(parts)])


def is_matrix(s):
    plain = ("norm", "ssm_a", "ssm_d", "conv", "ffn_gate_inp", "exp_probs")
    return s.x.ndim >= 2 and s.x.shape[-1] % 32 == 0 and not any(p in s.name for p in plain)


def write(path, tensors, c, arch):
    kind = next(k for k, v in gguf.MODEL_ARCH_NAMES.items() if v == arch)
    names = gguf.get_tensor_name_map(kind, len(layer_kinds(c, arch)))
    path.parent.mkdir(parents=True, exist_ok=True)
    w = gguf.GGUFWriter(path, arch)
    add_config(w, c, arch)
    plain = {}
    for s in stored_tensors(tensors, c, arch, names):
        quant = Q8 if is_matrix(s) else F32
        data = quantize(s.x, Q8) if quant == Q8 else s.x
        w.add_tensor(s.name, data, raw_dtype=quant)
        values = dequantize(data, Q8) if quant == Q8 else s.x
        plain |= {k: torch.from_numpy(np.array(v, np.float32)) for k, v in s.undo(values).items()}
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return plain


def make(name, spec, args):
    torch.manual_seed(0)
    config, model = moe.new_model(spec, {})
    (recurrent if spec["arch"] in QWEN_ARCHS else ssm).randomize(model, name)
    with tempfile.TemporaryDirectory() as temp:
        tensors, saved = moe.hub_tensors(model, temp)
        saved.pop("transformers_version", None)
        folder = args.out / name
        shutil.rmtree(folder, ignore_errors=True)
        plain = write(folder / "model.gguf", tensors, saved, spec["arch"])
        assert plain.keys() == tensors.keys(), set(tensors) ^ set(plain)
        moe.write_folder(Path(temp) / "plain", {k: plain[k].reshape(tensors[k].shape).contiguous()
                                                for k in tensors}, saved, {"format": "pt"})
        result, logits = recurrent.run(Path(temp) / "plain", name, {**spec, "n_prompt": 48},
                                       args.work)
    common.store_run(folder, result, logits, common.versions("transformers", "torch"))


if __name__ == "__main__":
    sys.exit(common.make_models(__doc__, MODELS, make, lambda base, spec: [base]))
