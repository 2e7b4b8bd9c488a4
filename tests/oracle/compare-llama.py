#!/usr/bin/env python3
"""Compares the stored logits of the tiny GGUF files with llama.cpp's: whether a file that a program of
this folder wrote is what a converter would have written, and is read alike.

Runs in venv-hf. --peers is a folder in which bench/peers has built llama.cpp. The weights are
dequantized first, for llama.cpp would quantize what is multiplied with them; what is left is its f16
steps, so that differences up to BOUND of the logits' standard deviation are expected.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np
from gguf.quants import dequantize

import common

BOUND = 2e-2
LIBS = ("src/libllama.a", "ggml/src/libggml.a", "ggml/src/libggml-cpu.a", "ggml/src/libggml-base.a")
# What llama.cpp cannot load or reads differently, and why.
HEADS = "its heads are always hidden / heads wide"
BIASES = "it has none of these biases"
KNOWN = {
    "gguf-cohere": "it norms q and k in models of 64 layers only",
    "gguf-ernie4_5": BIASES, "gguf-hunyuan": BIASES, "gguf-seed_oss": BIASES,
    "gguf-exaone4": HEADS, "gguf-glm": HEADS, "gguf-nemotron": HEADS, "gguf-olmo2": HEADS,
    "gguf-olmo3": HEADS,
    "gguf-olmoe": "its head is never tied",
    "gguf-phi3-short": "its context of at least 256 takes the long factors",
    "gguf-phimoe": "its norms are RMS with a bias, and experts are weighed by a softmax",
    "gguf-starcoder2": "all its layers are full",
}


def build(peers, temp):
    code = next(peers.glob("llama_cpp_python-*/vendor/llama.cpp"))
    program = Path(temp) / "llama-logits"
    libs = [peers / "llama-build" / lib for lib in LIBS]
    subprocess.run(["gcc", "-O2", "-std=gnu17", f"-I{code}/include", f"-I{code}/ggml/include",
                    Path(__file__).parent / "llama-logits.c", *libs, "-lstdc++", "-lm", "-lpthread",
                    "-ldl", "-o", program], check=True)
    return program


def plain_copy(source, target):
    """The file with float32 weights, and the key that stands for a vocabulary of bare ids."""
    reader = gguf.GGUFReader(source)
    arch = reader.fields["general.architecture"].contents()
    w = gguf.GGUFWriter(target, arch)
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture" or "tokenizer" in name:
            continue
        kind, sub = field.types[0], field.types[-1] if len(field.types) > 1 else None
        w.add_key_value(name, field.contents(), kind, sub_type=sub)
    w.add_tokenizer_model("no_vocab")
    for t in reader.tensors:
        w.add_tensor(t.name, dequantize(t.data, t.tensor_type).astype(np.float32))
    if f"{arch}.vocab_size" not in reader.fields:
        rows = next(t for t in reader.tensors if t.name == "token_embd.weight").shape[1]
        w.add_vocab_size(int(rows))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def distance(folder, program, temp):
    model, out = Path(temp) / "model.gguf", Path(temp) / "logits.bin"
    plain_copy(folder / "model.gguf", model)
    ids = json.loads((folder / "ids.json").read_text())["prompt"]
    run = subprocess.run([program, model, out, *map(str, ids)], capture_output=True, text=True)
    if run.returncode:
        return None, (run.stderr.strip() or f"exit status {run.returncode}").splitlines()[0]
    want = np.load(folder / "logits.npy")
    found = np.fromfile(out, np.float32).reshape(want.shape)
    return float(np.abs(found - want).max() / want.std()), ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=common.GOLDEN / "tiny")
    parser.add_argument("names", nargs="*", help="only these folders")
    args = parser.parse_args()
    n_bad = 0
    with tempfile.TemporaryDirectory() as temp:
        program = build(args.peers.resolve(), temp)
        for folder in sorted(args.out.glob("gguf-*")):
            if args.names and folder.name not in args.names:
                continue
            try:
                found, why = distance(folder, program, temp)
            except Exception as e:
                found, why = None, f"{type(e).__name__}: {e}"
            why = KNOWN.get(folder.name, why)
            bad = (found is None or not found < BOUND) and folder.name not in KNOWN
            n_bad += bad
            print(f"{folder.name:24s} {'-' if found is None else format(found, '.1e'):8s}"
                  f"{' WRONG' if bad else ''} {why}", flush=True)
    return 1 if n_bad else 0


if __name__ == "__main__":
    sys.exit(main())
