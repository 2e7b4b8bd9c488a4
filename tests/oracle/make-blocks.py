#!/usr/bin/env python3
"""Random blocks of every supported GGUF block type and the gguf package's decoding of them.

Runs in venv-hf. TYPE.bin holds the blocks, TYPE.f32.bin their elements as float32 in order,
manifest.json sizes and versions. Codes are uniform bytes; the 16-bit scales, which must be
finite, are normal numbers of both signs, zeros and subnormals.
"""

import argparse
import json
import zlib
from pathlib import Path

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

import common

N_BLOCKS = 12

# Byte offsets of the f16 fields of a block.
F16_AT = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
          "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
          "IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": []}
SPECIAL_F16 = [0x0001, 0x83FF, 0x0000, 0x8000, 0x7BFF, 0x0400]


def blocks_of(name):
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    n_elements, n_bytes = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
    raw = rng.integers(0, 256, (N_BLOCKS, n_bytes), dtype=np.uint8)
    for k, at in enumerate(F16_AT[name]):
        scale = (rng.standard_normal(N_BLOCKS) * 0.1).astype(np.float16).view(np.uint16)
        # Special scales come last, in another order for the second field.
        scale[-len(SPECIAL_F16):] = np.roll(np.array(SPECIAL_F16, np.uint16), k)
        raw[:, at:at + 2] = scale.view(np.uint8).reshape(N_BLOCKS, 2)
    if name == "MXFP4":  # exponents from subnormal scales to large ones; 255 is never written
        raw[:, 0] = [0, 1, 2, 100, 118, 125, 127, 128, 130, 140, 200, 250]
    return n_elements, n_bytes, raw


def plain_of(name):
    """Rows of F32, F16 and BF16: any finite value, subnormals among them."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    if name == "F32":
        bits = rng.integers(0, 1 << 32, 64, dtype=np.uint32)
        x = np.where(np.isfinite(bits.view(np.float32)), bits, 1).astype(np.uint32)
        x[:6] = [0, 0x80000000, 1, 0x807FFFFF, 0x00800000, 0x7F7FFFFF]
        return 1, 4, x.view(np.uint8).reshape(-1, 4)
    bits = rng.integers(0, 1 << 16, 64, dtype=np.uint16)
    exponent = 0x7C00 if name == "F16" else 0x7F80
    bits = np.where((bits & exponent) == exponent, 1, bits).astype(np.uint16)
    bits[:6] = [0, 0x8000, 1, 0x8001, exponent - 1, exponent >> 1]
    return 1, 2, bits.view(np.uint8).reshape(-1, 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=common.GOLDEN / "gguf_blocks")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    types = []
    for name in ["F32", "F16", "BF16", *F16_AT]:
        n_elements, n_bytes, raw = blocks_of(name) if name in F16_AT else plain_of(name)
        kind = GGMLQuantizationType[name]
        data = raw.reshape(1, -1)
        if name in ("F32", "F16"):
            data = data.view(np.float32 if name == "F32" else np.float16)
        with np.errstate(over="ignore"):
            values = dequantize(data, kind).astype(np.float32)
        assert np.isfinite(values).all(), name
        raw.tofile(args.out / f"{name}.bin")
        values.astype("<f4").tofile(args.out / f"{name}.f32.bin")
        types.append({"type": name, "id": int(kind), "block_elements": n_elements,
                      "block_bytes": n_bytes, "n_blocks": len(raw), "n_elements": values.size})
        assert values.size == n_elements * len(raw)
    manifest = {"oracle": common.versions("gguf", "numpy"), "types": types}
    (args.out / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
    print(f"{len(types)} block types")


if __name__ == "__main__":
    main()
