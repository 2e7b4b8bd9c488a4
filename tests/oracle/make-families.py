#!/usr/bin/env python3
"""Writes the tiny checkpoints of families.HF as Transformers' save_pretrained lays them out.

Runs in venv-hf, before tiny-hf.py, which stores their logits. Every parameter is random, those
too that a new model starts at 0 or 1.
"""

import argparse
import json
import shutil
from pathlib import Path

import torch
import transformers

import common
import families

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def build(name):
    class_name, changes, dtype = families.HF[name]
    arguments = {k: v for k, v in {**families.BASE, **changes}.items()
                 if v is not None or k in changes or k == "pad_token_id"}
    for key in ("num_key_value_heads", "intermediate_size"):
        if arguments.get(key, 0) is None:
            del arguments[key]
    config = getattr(transformers, class_name)(**arguments)
    for key in ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps"):
        if hasattr(config, key):
            setattr(config, key, families.EPS)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    rng = families.rng_of(name)
    with torch.no_grad():
        for key, p in model.named_parameters():
            start = p.numpy()
            if class_name == "NemotronConfig" and key.endswith("norm.weight"):
                start = start - 1  # the model adds 1 to it
            p.copy_(torch.from_numpy(families.random_like(key, start, rng)))
    return model.to(DTYPES[dtype])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=common.GOLDEN / "tiny")
    parser.add_argument("names", nargs="*", help="only these")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name in args.names or families.HF:
        folder = args.out / name
        shutil.rmtree(folder, ignore_errors=True)
        build(name).save_pretrained(folder)
        (folder / "generation_config.json").unlink(missing_ok=True)
        path = folder / "config.json"
        saved = json.loads(path.read_text())
        for key in families.DERIVED.get(name, ()):
            del saved[key]
        path.write_text(json.dumps(saved, indent=2) + "\n")
        size = sum(f.stat().st_size for f in folder.iterdir())
        print(f"{name:24s} {size / 1000:7.1f} kB", flush=True)


if __name__ == "__main__":
    main()
