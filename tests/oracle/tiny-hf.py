#!/usr/bin/env python3
"""Transformers' float32 logits of the tiny dense checkpoints and tiny GGUF files.

Runs in venv-hf. Transformers is the authority on windows, layer types and rope spellings, so
its results are the stored ones for every checkpoint that it can load; quantized MLX folders
are beyond it. Results go to WORK/NAME/hf.json and hf.npy.
"""

import argparse
import json
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

import common


def load(path):
    where = {"gguf_file": path.name} if path.suffix == ".gguf" else {}
    folder = path.parent if where else path
    return AutoModelForCausalLM.from_pretrained(
        str(folder), dtype=torch.float32, attn_implementation="eager", **where).eval()


def run(path, name):
    model = load(path)

    @torch.no_grad()
    def logits(tokens):
        return model(torch.tensor([tokens]), use_cache=False).logits[0].numpy()
    return common.run_greedy(logits, common.prompt_ids(name, model.config.vocab_size))


def checkpoints(root, work, names):
    """Yields (what to load, folder's name, name of the run)."""
    for folder in sorted(p for p in root.iterdir() if p.is_dir()):
        config = folder / "config.json"
        gguf = folder / "model.gguf"
        if names and folder.name not in names:
            continue
        equivalent = work / folder.name / "equivalent"
        if gguf.exists():
            yield equivalent, folder.name, "hf"
            if folder.name in common.HF_GGUF:
                yield gguf, folder.name, "hf-gguf"
        elif equivalent.is_dir():
            yield equivalent, folder.name, "hf"
        elif config.exists() and "quantization" not in json.loads(config.read_text()):
            yield folder, folder.name, "hf"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=common.GOLDEN / "tiny")
    parser.add_argument("--work", type=Path, default=common.work_dir() / "tiny")
    parser.add_argument("names", nargs="*", help="only these folders")
    args = parser.parse_args()
    for path, name, oracle in checkpoints(args.out, args.work, args.names):
        try:
            result, logits = run(path, name)
            print(f"{name}: {oracle} ran", flush=True)
        except Exception as e:  # an unloadable file is reported; another oracle may still run
            print(f"{name}: {oracle}: {type(e).__name__}: {e}", file=sys.stderr)
            result, logits = None, None
        common.save_run(args.work / name, oracle, result, logits,
                        common.versions("transformers", "torch"))


if __name__ == "__main__":
    main()
