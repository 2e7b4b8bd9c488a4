"""What the oracle programs share: folders, prompts, greedy runs and how results are kept.

A run of one oracle over one tiny model is two files, WORK/NAME/ORACLE.json (ids, gaps,
versions) and WORK/NAME/ORACLE.npy (logits of the prompt, float32 [n_ids, vocab]).
"""

import argparse
import importlib.metadata
import json
import os
import sys
import zlib
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent.parent
GOLDEN = ROOT / "tests" / "golden"
N_PROMPT = 40
N_GREEDY = 12
# GGUF files that Transformers' own loader runs too; of other families it reads wrong or none.
HF_GGUF = ("gguf-gemma2", "gguf-gemma3", "gguf-llama", "gguf-llama-k", "gguf-llama3", "gguf-qwen2",
           "gguf-qwen3")


def work_dir():
    """Scratch space outside the tree's tracked files; MICA_ORACLE_DIR overrides it."""
    return Path(os.environ.get("MICA_ORACLE_DIR", ROOT / "build" / "oracle"))


def shared_dir():
    """Folder with the shared tokenizers and the float64 forward pass, or None."""
    path = Path(os.environ.get("MICA_SHARED", ROOT.parent / "shared"))
    return path if path.is_dir() else None


def versions(*packages):
    return " ".join(f"{p} {importlib.metadata.version(p)}" for p in packages)


def prompt_ids(name, vocab, n=N_PROMPT):
    rng = np.random.default_rng(zlib.crc32(name.encode()) ^ 0x5EED)
    return [int(x) for x in rng.integers(0, vocab, n)]


def best_two(row):
    order = np.argsort(-row, kind="stable")[:2]
    return int(order[0]), int(order[1]), float(row[order[0]]) - float(row[order[1]])


def run_greedy(logits_of, ids, steps=N_GREEDY):
    """Greedy continuation by whole passes; logits_of(ids) gives [len(ids), vocab]."""
    first = logits_of(ids)
    out = {"prompt": list(ids), "greedy": [], "gap": [], "runner_up": []}
    row, tokens = first[-1], list(ids)
    for _ in range(steps):
        best, second, gap = best_two(row)
        out["greedy"].append(best)
        out["runner_up"].append(second)
        out["gap"].append(round(gap, 6))
        tokens.append(best)
        row = logits_of(tokens)[-1]
    return out, first


def save_run(folder, oracle, result, logits, made_with):
    folder.mkdir(parents=True, exist_ok=True)
    for suffix in (".json", ".npy"):
        (folder / (oracle + suffix)).unlink(missing_ok=True)
    if result is None:
        return
    (folder / (oracle + ".json")).write_text(json.dumps({**result, "oracle": made_with}))
    np.save(folder / (oracle + ".npy"), logits.astype(np.float32))


def load_run(folder, oracle):
    path = folder / (oracle + ".json")
    if not path.exists():
        return None, None
    return json.loads(path.read_text()), np.load(folder / (oracle + ".npy"))


def store_run(folder, result, logits, made_with):
    """The stored form of a run, beside the checkpoint, and a line about it."""
    (folder / "ids.json").write_text(json.dumps({**result, "oracle": made_with}) + "\n")
    np.save(folder / "logits.npy", logits.astype(np.float32))
    size = sum(f.stat().st_size for f in folder.iterdir())
    print(f"{folder.name:24s} {size / 1000:7.1f} kB  std {logits.std():.3f}  least gap "
          f"{min(result['gap']):.4f}", flush=True)


def dense_and_packed(base, spec):
    return [base + "-bf16", base + "-q4"]


def make_models(doc, models, make, kinds_of=dense_and_packed):
    """The main program of what writes tests/golden/tiny: make(name, spec, args) for every folder
    kinds_of(base, spec), or those named; one that fails is reported and the others are made."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--out", type=Path, default=GOLDEN / "tiny")
    parser.add_argument("--work", type=Path, default=work_dir() / "tiny")
    parser.add_argument("names", nargs="*", help="only these folders")
    args = parser.parse_args()
    n_failed = 0
    for base, spec in models.items():
        for name in kinds_of(base, spec):
            if args.names and name not in args.names and base not in args.names:
                continue
            try:
                make(name, spec, args)
            except Exception as e:
                n_failed += 1
                print(f"{name}: {type(e).__name__}: {e}", file=sys.stderr)
    return 1 if n_failed else 0
