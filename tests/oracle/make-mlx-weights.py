"""Makes tests/golden/mlx_weights: one small folder with a matrix in every form that mlx quantizes to.

Usage (needs mlx and numpy): python tests/oracle/make-mlx-weights.py

Module m.NAME holds the packed matrix, expected.NAME the float32 rows that mlx's own dequantizer
gives. It runs in float32 (scales and biases widened first), because in 16 bits it rounds twice.
The file is a config.json and a model.safetensors, read by tests/weights/.
"""

import json

import mlx.core as mx
import numpy as np
from common import GOLDEN

OUT = GOLDEN / "mlx_weights"
N_OUT, N_IN = 3, 256
DTYPES = {"f32": mx.float32, "f16": mx.float16, "bf16": mx.bfloat16}


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(20)
    tensors, overrides = {}, {}

    def add(name, w, expected, scales, biases, spec, shape):
        tensors[f"m.{name}.weight"] = w
        tensors[f"m.{name}.scales"] = scales
        if biases is not None:
            tensors[f"m.{name}.biases"] = biases
        tensors[f"expected.{name}"] = expected.astype(mx.float32).reshape(shape)
        overrides[f"m.{name}"] = spec

    names = list(DTYPES)
    for i, bits in enumerate((2, 3, 4, 5, 6, 8)):
        for j, group in enumerate((32, 64, 128)):
            dtype = names[(i + j) % 3]
            w = mx.array(rng.standard_normal((N_OUT, N_IN)).astype(np.float32)).astype(DTYPES[dtype])
            q, s, b = mx.quantize(w, group_size=group, bits=bits)
            full = mx.dequantize(q, s.astype(mx.float32), b.astype(mx.float32), group, bits)
            add(f"q{bits}_g{group}_{dtype}", q, full, s, b, {"bits": bits, "group_size": group},
                (N_OUT, N_IN))
    for mode, bits, group in (("mxfp4", 4, 32), ("mxfp8", 8, 32), ("nvfp4", 4, 16)):
        w = mx.array((rng.standard_normal((N_OUT, N_IN)) * 3).astype(np.float32))
        q, s = mx.quantize(w, group_size=group, bits=bits, mode=mode)
        full = mx.dequantize(q, s, group_size=group, bits=bits, mode=mode, dtype=mx.float32)
        add(mode, q, full, s, None, {"mode": mode}, (N_OUT, N_IN))
    w = mx.array(rng.standard_normal((2, N_OUT, N_IN)).astype(np.float32))
    q, s, b = mx.quantize(w, group_size=64, bits=4)
    add("experts", q, mx.dequantize(q, s, b, 64, 4), s, b, True, (2 * N_OUT, N_IN))
    mx.save_safetensors(str(OUT / "model.safetensors"), tensors, {"format": "mlx"})
    config = {"quantization": {"group_size": 64, "bits": 4, **overrides}}
    (OUT / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    (OUT / "README.md").write_text(
        f"Made by tests/oracle/make-mlx-weights.py with mlx {mx.__version__} on its CPU build: every\n"
        "quantized form (`m.*`) beside mlx's own dequantized float32 values (`expected.*`).\n")


main()
