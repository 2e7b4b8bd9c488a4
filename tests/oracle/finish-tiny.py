#!/usr/bin/env python3
"""Compares the oracles of the tiny checkpoints and stores the result that counts.

Needs numpy only. Transformers' result is stored where there is one, else mlx-lm's, else the
float64 pass over an equivalent folder (WORK/NAME/equivalent). The float64 forward pass of the
shared folder, where it is available, and the second oracle are cross-checks: their distance is
the root of the mean square of the logits' difference over the standard deviation of the logits.
Writes ids.json and logits.npy beside each checkpoint and agreement.json above them; fails
when a distance is above the bound and the pair is not in KNOWN.
"""

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np

import common

BOUND = 1e-3

# Disagreements that are understood: (folder, oracle) -> reason.
NO_WINDOW = "mlx-lm runs every layer of this family full; windows follow Transformers"
WHOLE_HEAD = "mlx-lm turns the whole head of this family; Transformers the part that the config says"
LONG_FACTORS = "takes the long factors at every length; Transformers the short ones for short prompts"
LAYER_ROPES = "mlx-lm reads no rope_parameters by kind of layer"
EXACT_GELU = "mlx-lm's starcoder2 has no window, GELU without tanh and biases always"
KNOWN = {
    ("gemma2-bf16", "mlx"): NO_WINDOW,
    ("gemma2-types", "mlx"): NO_WINDOW,
    ("qwen2-window", "mlx"): NO_WINDOW,
    ("qwen3-bf16", "mlx"): NO_WINDOW,
    ("mistral-window", "mlx"): NO_WINDOW,
    ("glm", "mlx"): WHOLE_HEAD,
    ("glm-q4", "mlx"): WHOLE_HEAD,
    ("gpt2", "mlx"): "mlx-lm turns the matrices of names without `transformer.` only",
    ("granite", "mlx"): "mlx-lm takes hidden_size / heads for the length of a head, not head_dim",
    ("internlm3", "mlx"): "mlx-lm looks for biases under qkv_bias and bias, not attention_bias",
    ("olmo3", "mlx"): LAYER_ROPES,
    ("olmo3-q4", "mlx"): LAYER_ROPES,
    ("phi-qknorm", "mlx"): "mlx-lm's phi has no norms of q and k",
    ("phi3-short", "mlx"): f"mlx-lm {LONG_FACTORS}",
    ("phi3-short-q4", "mlx"): f"mlx-lm {LONG_FACTORS}",
    ("phi3-short", "f64"): f"the float64 pass {LONG_FACTORS}",
    ("phi3-short-q4", "f64"): f"the float64 pass {LONG_FACTORS}",
    ("gguf-phi3-short", "f64"): f"the float64 pass {LONG_FACTORS}",
    ("phi3-window", "mlx"): NO_WINDOW,
    ("smollm3-window", "mlx"): NO_WINDOW,
    ("starcoder2", "mlx"): EXACT_GELU,
    ("starcoder2-q4", "mlx"): EXACT_GELU,
    ("starcoder2-nobias", "mlx"): EXACT_GELU,
    ("gguf-gemma2", "hf-gguf"): "Transformers' GGUF loader takes default softcaps and scale",
    ("gguf-gemma3", "hf-gguf"): "Transformers' GGUF loader takes the default scale, 256**-0.5",
    ("gguf-llama3", "hf-gguf"): "Transformers' GGUF loader ignores rope_freqs",
    ("llama-swa", "hf"): "Transformers' llama ignores layer_types; mlx-lm's class defines them",
}

# Whose result is stored, where it is not the first that ran.
PREFER = {"llama-swa": "mlx"}


def float64_forward(shared):
    sys.path.insert(0, str(shared / "oracle"))
    import archs5

    def run(folder, ids):
        model = archs5.Model(str(folder))
        return np.asarray(archs5.forward(model, list(ids)))
    return run


def spell_out(config):
    """The float64 pass knows layer_types only: derives them. Nor does it derive head_dim, or know
    the names that Transformers gives EXAONE's keys."""
    config.setdefault("head_dim", config.get("hidden_size", 0) // config.get("num_attention_heads", 1))
    config.setdefault("num_layers", config.get("num_hidden_layers"))
    if config.get("model_type") == "exaone":
        config.setdefault("layer_norm_epsilon", config.get("rms_norm_eps"))
    layers = range(config.get("num_hidden_layers", 0))
    if config.get("model_type") == "smollm3":
        interval, window = config["no_rope_layer_interval"], config["use_sliding_window"]
        ropes = config.setdefault("no_rope_layers", [int((i + 1) % interval != 0) for i in layers])
        config.setdefault("layer_types", [
            "full_attention" if rope or not window else "sliding_attention" for rope in ropes])
    if config.get("use_sliding_window") and "layer_types" not in config:
        config["layer_types"] = [
            "sliding_attention" if i >= config["max_window_layers"] else "full_attention"
            for i in layers]
    return config


def plain_copy(folder, temp):
    """A copy as the float64 pass wants it: layer types spelt out, one file without shards."""
    config = spell_out(json.loads((folder / "config.json").read_text()))
    (temp / "config.json").write_text(json.dumps(config))
    index = folder / "model.safetensors.index.json"
    if not index.exists():
        shutil.copy(folder / "model.safetensors", temp)
        return temp
    header, blobs, off = {}, [], 0
    for file in sorted(set(json.loads(index.read_text())["weight_map"].values())):
        raw = (folder / file).read_bytes()
        n = int.from_bytes(raw[:8], "little")
        for key, t in json.loads(raw[8:8 + n]).items():
            if key == "__metadata__":
                continue
            begin, end = t["data_offsets"]
            header[key] = {**t, "data_offsets": [off, off + end - begin]}
            blobs.append(raw[8 + n + begin:8 + n + end])
            off += end - begin
    text = json.dumps(header).encode()
    head = len(text).to_bytes(8, "little") + text
    (temp / "model.safetensors").write_bytes(head + b"".join(blobs))
    return temp


def distance(a, b):
    return float(np.sqrt(np.mean((a.astype(np.float64) - b) ** 2)) / np.std(b.astype(np.float64)))


def finish(folder, work, forward):
    runs = {o: common.load_run(work, o) for o in ("hf", "mlx", "hf-gguf", "f64")}
    runs = {o: r for o, r in runs.items() if r[0] is not None}
    source = work / "equivalent" if (work / "equivalent").is_dir() else folder
    if "hf" not in runs and "mlx" not in runs:
        config = json.loads((source / "config.json").read_text())
        ids = common.prompt_ids(folder.name, config["vocab_size"])
        result, logits = common.run_greedy(lambda t: forward(source, t), ids)
        runs["f64"] = ({**result, "oracle": "float64 forward pass"}, logits.astype(np.float32))
    main = PREFER.get(folder.name) or next(o for o in ("hf", "mlx", "f64") if o in runs)
    result, logits = runs[main]
    agreement = {o: distance(r[1], logits) for o, r in runs.items() if o != main}
    if forward and main != "f64":
        with tempfile.TemporaryDirectory() as temp:
            copy = plain_copy(source, Path(temp))
            agreement["f64"] = distance(logits, forward(copy, result["prompt"]))
    (folder / "ids.json").write_text(json.dumps(result) + "\n")
    np.save(folder / "logits.npy", logits)
    return {"oracle": result["oracle"], "std": float(np.std(logits)),
            "least_gap": min(result["gap"]),
            **{f"distance_{k}": float(f"{v:.2e}") for k, v in agreement.items()}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=common.GOLDEN / "tiny")
    parser.add_argument("--work", type=Path, default=common.work_dir() / "tiny")
    args = parser.parse_args()
    shared = common.shared_dir()
    forward = float64_forward(shared) if shared else None
    report, bad = {}, []
    for folder in sorted(p for p in args.out.iterdir() if p.is_dir()):
        row = report[folder.name] = finish(folder, args.work / folder.name, forward)
        for key, value in list(row.items()):
            known = KNOWN.get((folder.name, key.removeprefix("distance_")))
            if key.startswith("distance_") and not value < BOUND:
                print(f"{folder.name}: {key} {value:.2e}: {known or 'unexplained'}")
                bad += [] if known else [folder.name]
                if known:
                    row["known"] = known
    lines = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in report.items())
    (args.out / "agreement.json").write_text("{\n" + lines + "\n}\n")
    print(f"{len(report)} checkpoints, {len(bad)} with an unexplained distance above {BOUND}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
