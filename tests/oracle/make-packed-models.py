#!/usr/bin/env python3
"""Writes whole tiny llamas whose linear layers other tools have packed, and Transformers' logits.

Runs in venv-hf. The layouts are those of make-packed-weights.py; scales are random, so that a
weight is what its codes say. Embedding and norms are f16 where scales are, else bf16. The reference is Transformers in float32
with the dequantized weights.
"""

import importlib
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

import common
from tinyspec import seed_of

packing = importlib.import_module("make-packed-weights")
moe = importlib.import_module("make-moe")
torch.set_num_threads(1)
GROUP = 32
CONFIG = dict(vocab_size=32, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
              num_key_value_heads=1, intermediate_size=64, max_position_embeddings=256,
              rms_norm_eps=0.05, tie_word_embeddings=True, bos_token_id=1, eos_token_id=2)


def as_tensors(arrays):
    return {k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in arrays.items()}


def integer(rng, shape, bits=4, sym=False):
    """Codes, zeros, scales and weights, of about the size that makes logits differ."""
    q, zero, scale, _ = packing.affine(rng, bits, GROUP, sym, shape)
    wide = np.repeat(scale.astype(np.float32), GROUP, 1)
    return q, zero, scale, (q - np.repeat(zero, GROUP, 1)).astype(np.float32) * wide


def awq(rng, shape):
    q, zero, scale, w = integer(rng, shape)
    return {"qweight": packing.pack(q.T, 4, 1, packing.AWQ_ORDER), "scales": scale.T,
            "qzeros": packing.pack(zero.T, 4, 1, packing.AWQ_ORDER)}, w


def gptq(rng, shape):
    q, zero, scale, w = integer(rng, shape)
    return {"qweight": packing.pack(q.T, 4, 0), "scales": scale.T,
            "qzeros": packing.pack((zero - 1).T, 4, 1),
            "g_idx": (np.arange(shape[1]) // GROUP).astype(np.int32)}, w


def ct_int4(rng, shape):
    q, _, scale, w = integer(rng, shape, sym=True)
    return {"weight_packed": packing.pack(q, 4, 1), "weight_scale": scale,
            "weight_shape": np.array(shape, np.int64)}, w


def nvfp4(rng, shape):
    values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
    codes = rng.integers(0, 16, shape)
    scale = torch.from_numpy(rng.random((shape[0], shape[1] // 16)).astype(np.float32) * 20 + 1)
    scale = scale.to(torch.float8_e4m3fn)
    second = np.float32(0.004)
    element = np.where(codes & 8, -1, 1).astype(np.float32) * values[codes & 7]
    wide = np.repeat((scale.float() * float(second)).numpy(), 16, 1)
    return {"weight": (codes[:, 0::2] | codes[:, 1::2] << 4).astype(np.uint8), "weight_scale": scale,
            "weight_scale_2": np.array(second), "input_scale": np.array(0.5, np.float32)}, \
        element * wide


def fp8(rng, shape):
    w = torch.from_numpy(rng.standard_normal(shape).astype(np.float32) * 100)
    w = w.to(torch.float8_e4m3fn)
    rows, columns = 16, 32
    scale = rng.random((shape[0] // rows, shape[1] // columns)).astype(np.float32) * 2e-3 + 5e-4
    full = w.float().numpy() * np.kron(scale, np.ones((rows, columns), np.float32))
    return {"weight": w, "weight_scale_inv": scale}, full


CT = {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {
    "group_0": {"targets": ["Linear"], "weights": {
        "num_bits": 4, "type": "int", "symmetric": True, "strategy": "group",
        "group_size": GROUP}}}, "ignore": ["lm_head"]}
MODELS = {
    "packed-awq": (awq, {"quant_method": "awq", "bits": 4, "group_size": GROUP,
                         "zero_point": True, "version": "gemm"}),
    "packed-gptq": (gptq, {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "sym": False,
                           "desc_act": False}),
    "packed-int4": (ct_int4, CT),
    "packed-nvfp4": (nvfp4, {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}),
    "packed-fp8": (fp8, {"quant_method": "fp8", "activation_scheme": "dynamic",
                         "weight_block_size": [16, 32]}),
}


def make(name, spec, args):
    pack, quant = spec
    rng = np.random.default_rng(seed_of(name))
    torch.manual_seed(0)
    _, model = moe.new_model({"type": "llama", "config": CONFIG}, {})
    moe.randomize(model, name)
    folder = args.out / name
    with tempfile.TemporaryDirectory() as temp:
        tensors, saved = moe.hub_tensors(model, temp)
        saved.pop("transformers_version", None)
        packed, plain = {}, {}
        for key, x in tensors.items():
            if not key.endswith("_proj.weight"):
                packed[key] = x.to(torch.float16 if pack in (awq, gptq, ct_int4) else torch.bfloat16)
                plain[key] = packed[key].float()
                continue
            parts, full = pack(rng, tuple(x.shape))
            stem = key.removesuffix("weight")
            packed |= {stem + k: v.contiguous() if isinstance(v, torch.Tensor) else
                       as_tensors({k: v})[k] for k, v in parts.items()}
            plain[key] = torch.from_numpy(np.ascontiguousarray(full))
        moe.write_folder(folder, packed, {**saved, "quantization_config": quant}, {"format": "pt"})
        moe.write_folder(Path(temp) / "plain", plain, saved, {"format": "pt"})
        reference = moe.AutoModelForCausalLM.from_pretrained(
            str(Path(temp) / "plain"), dtype=torch.float32, attn_implementation="eager").eval()

        @torch.no_grad()
        def logits_of(tokens):
            return reference(torch.tensor([tokens]), use_cache=False).logits[0].numpy()
        result, logits = common.run_greedy(logits_of, common.prompt_ids(name, 32))
    common.store_run(folder, result, logits, common.versions("transformers", "torch"))


if __name__ == "__main__":
    sys.exit(common.make_models(__doc__, MODELS, make, lambda base, spec: [base]))
