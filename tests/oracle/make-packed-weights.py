#!/usr/bin/env python3
"""Makes tests/golden/packed_weights: a small folder for each way other tools pack weights.

Runs in venv-hf (torch, transformers, compressed-tensors). Tensors of module m.NAME are packed as
the tool does, expected.NAME holds the float32 weights that the tool's own code (compressed-tensors,
Transformers' fp8) or, for GPTQ, AWQ and ModelOpt, the published layout gives. With --mlx, in
venv-mlx, it checks the AWQ folder against mlx-lm's reader instead and writes nothing.
"""

import json
import sys

import numpy as np
from common import GOLDEN

OUT = GOLDEN / "packed_weights"
N_OUT, N_IN = 32, 256
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]  # nibble i of a word holds output AWQ_ORDER[i]


def check_mlx():
    import mlx.core as mx
    from mlx_lm.utils import _transform_awq_weights

    weights = mx.load(str(OUT / "awq" / "model.safetensors"))
    expected = np.array(weights.pop("expected.zeros"))
    config = json.loads((OUT / "awq" / "config.json").read_text())["quantization_config"]
    made, spec = _transform_awq_weights(weights, config)
    parts = [made[f"m.zeros.{name}"].astype(dtype) for name, dtype in
             (("weight", mx.uint32), ("scales", mx.float32), ("biases", mx.float32))]
    full = np.array(mx.dequantize(*parts, spec["group_size"], spec["bits"]))
    worst = np.abs(full - expected).max() / np.abs(expected).max()
    assert worst < 2e-3, worst
    print(f"mlx-lm reads the AWQ folder the same, to {worst:.1e} (its biases are f16)")


def save(name, tensors, config, beside=None):
    from safetensors.torch import save_file

    folder = OUT / name
    folder.mkdir(parents=True, exist_ok=True)
    save_file({k: v.contiguous() for k, v in tensors.items()}, str(folder / "model.safetensors"))
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    if beside:
        (folder / "hf_quant_config.json").write_text(json.dumps(beside, indent=1) + "\n")


def pack(values, bits, axis, order=None):
    """uint values packed into int32 words along an axis, value order[i] in place i."""
    values = np.moveaxis(values.astype(np.uint32), axis, -1)
    per = 32 // bits
    words = values.reshape(*values.shape[:-1], -1, per)
    out = np.zeros(words.shape[:-1], np.uint32)
    for i in range(per):
        out |= words[..., order[i] if order else i] << np.uint32(bits * i)
    return np.moveaxis(out.view(np.int32), -1, axis)


def affine(rng, bits, group, sym=False, shape=(N_OUT, N_IN)):
    """q [out, in], zero [out, groups], scale f16 [out, groups], w float32."""
    q = rng.integers(0, 1 << bits, shape)
    groups = (shape[0], shape[1] // group)
    zero = np.full(groups, 1 << (bits - 1)) if sym else rng.integers(1, 1 << bits, groups)
    scale = (rng.random(groups) * 0.02 + 0.001).astype(np.float16)
    wide = np.repeat(scale.astype(np.float32), group, 1)
    return q, zero, scale, (q - np.repeat(zero, group, 1)).astype(np.float32) * wide


def gptq(rng):
    import torch

    for name, bits, group, fmt, sym in (("gptq", 4, 64, None, False), ("gptq_v2", 4, 128, "gptq_v2",
                                        False), ("gptq_q8", 8, 32, "gptq", False),
                                       ("gptq_channel", 4, N_IN, "gptq", True)):
        q, zero, scale, w = affine(rng, bits, group, sym)
        stored = zero if fmt == "gptq_v2" else zero - 1
        tensors = {"m.zeros.qweight": pack(q.T, bits, 0), "m.zeros.scales": scale.T,
                   "m.zeros.qzeros": pack(stored.T, bits, 1),
                   "m.zeros.g_idx": (np.arange(N_IN) // group).astype(np.int32),
                   "expected.zeros": w}
        config = {"quant_method": "gptq", "bits": bits, "sym": sym, "desc_act": False,
                  "group_size": -1 if group == N_IN else group}
        if fmt:
            config["checkpoint_format"] = fmt
        save(name, {k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in tensors.items()},
             {"quantization_config": config})


def awq(rng):
    import torch

    q, zero, scale, w = affine(rng, 4, 64)
    tensors = {"m.zeros.qweight": pack(q.T, 4, 1, AWQ_ORDER), "m.zeros.scales": scale.T,
               "m.zeros.qzeros": pack(zero.T, 4, 1, AWQ_ORDER), "expected.zeros": w}
    save("awq", {k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in tensors.items()},
         {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 64,
                                  "zero_point": True, "version": "gemm"}})


def compressed(rng):
    import torch
    from compressed_tensors.compressors import (MXFP4PackedCompressor, NVFP4PackedCompressor,
                                                PackedQuantizationCompressor)
    from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from compressed_tensors.quantization.lifecycle.forward import dequantize

    def wide_fp4(packed, args):
        """What decompress() does, but in float32: it would round its products to bf16."""
        scale = packed["weight_scale"]
        scale = 2.0 ** (scale.float() - 127) if scale.dtype == torch.uint8 else scale.float()
        return dequantize(x_q=unpack_fp4_from_uint8(packed["weight_packed"], N_OUT, N_IN,
                                                    dtype=torch.float32),
                          scale=scale, args=args, dtype=torch.float32,
                          global_scale=packed.get("weight_global_scale"))

    def add(name, fmt, compressor, args, state):
        scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**args))
        packed = compressor.compress(state, scheme)
        full = wide_fp4(packed, scheme.weights) if args["type"] == "float" else \
            compressor.decompress(packed, scheme)["weight"].float()
        weights = {k: v for k, v in scheme.weights.model_dump(mode="json").items()
                   if k in ("num_bits", "type", "symmetric", "strategy", "group_size")}
        save(name, {f"m.{name}.{k}": v for k, v in packed.items()} | {f"expected.{name}": full},
             {"quantization_config": {"quant_method": "compressed-tensors", "format": fmt,
                                      "config_groups": {"group_0": {"targets": ["Linear"],
                                                                    "weights": weights}}}})

    w = torch.from_numpy(rng.standard_normal((N_OUT, N_IN)).astype(np.float32))

    def scales(group, bits):
        return (w.reshape(N_OUT, -1, group).abs().amax(-1) / (2 ** (bits - 1) - 1))

    integer = {"type": "int", "symmetric": True, "strategy": "group"}
    # widened scales: the tool would round its products to 16 bits
    for name, bits, group, extra in (("ct_int4", 4, 32, {}), ("ct_int8", 8, 128, {}),
                                     ("ct_zero", 4, 64, {"symmetric": False}),
                                     ("ct_channel", 4, N_IN, {"strategy": "channel"})):
        s = scales(group, bits).to(torch.bfloat16)
        state = {"weight": w, "weight_scale": s.float()}
        if name == "ct_zero":
            zero = torch.from_numpy(rng.integers(-8, 8, tuple(s.shape)).astype(np.int8))
            state["weight_zero_point"] = zero
        args = integer | {"num_bits": bits, "group_size": group if group < N_IN else None} | extra
        add(name, "pack-quantized", PackedQuantizationCompressor, args, state)
    s = scales(16, 4)
    g = 448.0 * 6.0 / w.abs().max().reshape(1)
    s = (g * w.reshape(N_OUT, -1, 16).abs().amax(-1) / 6.0).to(torch.float8_e4m3fn).float()
    add("ct_nvfp4", "nvfp4-pack-quantized", NVFP4PackedCompressor,
        {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16},
        {"weight": w, "weight_scale": s, "weight_global_scale": g})
    s = 2.0 ** torch.ceil(torch.log2(w.reshape(N_OUT, -1, 32).abs().amax(-1) / 6.0))
    add("ct_mxfp4", "mxfp4-pack-quantized", MXFP4PackedCompressor,
        {"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32},
        {"weight": w, "weight_scale": s})


def modelopt(rng):
    import torch

    values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
    codes = rng.integers(0, 16, (N_OUT, N_IN))
    scale = torch.from_numpy(rng.random((N_OUT, N_IN // 16)).astype(np.float32) * 400)
    scale = scale.to(torch.float8_e4m3fn)
    second = torch.tensor(0.0137, dtype=torch.float32)
    element = np.where(codes & 8, -1, 1).astype(np.float32) * values[codes & 7]
    wide = np.repeat((scale.float() * second).numpy(), 16, 1)
    packed = (codes[:, 0::2] | codes[:, 1::2] << 4).astype(np.uint8)
    tensors = {"m.nvfp4.weight": torch.from_numpy(packed), "m.nvfp4.weight_scale": scale,
               "m.nvfp4.weight_scale_2": second, "m.nvfp4.input_scale": torch.tensor(0.5),
               "expected.nvfp4": torch.from_numpy(element * wide)}
    save("modelopt", tensors, {}, {"producer": {"name": "modelopt"},
                                   "quantization": {"quant_algo": "NVFP4", "group_size": 16}})


def fp8(rng):
    import torch
    from transformers.integrations.finegrained_fp8 import Fp8Dequantize

    dequantize = Fp8Dequantize(None)._dequantize_one
    w = torch.from_numpy(rng.standard_normal((N_OUT, N_IN)).astype(np.float32) * 100)
    w = w.to(torch.float8_e4m3fn)
    for name, rows, cols, suffix in (("fp8_block", 16, 64, "weight_scale_inv"),
                                     ("fp8_row", 1, N_IN, "weight_scale"),
                                     ("fp8_tensor", N_OUT, N_IN, "weight_scale")):
        shape = (N_OUT // rows, N_IN // cols)
        scale = torch.from_numpy(rng.random(shape).astype(np.float32) * 0.01 + 1e-3)
        config = {"quant_method": "fp8", "activation_scheme": "dynamic"}
        if name == "fp8_block":
            config["weight_block_size"] = [rows, cols]
        save(name, {f"m.{name}.weight": w, f"m.{name}.{suffix}": scale,
                    f"expected.{name}": dequantize(w, scale, torch.float32)},
             {"quantization_config": config})
    scale = torch.from_numpy(rng.integers(110, 130, (1, 8)).astype(np.uint8))
    full = dequantize(w, scale.view(torch.float8_e8m0fnu), torch.float32)
    save("fp8_mx", {"m.fp8_mx.weight": w, "m.fp8_mx.weight_scale_inv": scale,
                    "expected.fp8_mx": full},
         {"quantization_config": {"quant_method": "fp8", "scale_fmt": "ue8m0",
                                  "weight_block_size": [32, 32]}})


def main():
    if "--mlx" in sys.argv:
        check_mlx()
        return
    rng = np.random.default_rng(62)
    for make in (gptq, awq, compressed, modelopt, fp8):
        make(rng)


if __name__ == "__main__":
    main()
