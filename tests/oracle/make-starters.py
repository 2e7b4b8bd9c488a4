#!/usr/bin/env python3
"""Greedy continuations of the starter models by Transformers, in float32.

Runs in venv-hf. For each prompt: text, ids (by vocab.py, with the tokens that the tokenizer
itself adds), 64 greedy ids without stopping at an end token, for every step the gap between
the two best logits and the runner-up, and the best logits of the last prompt position. The
steps run with Transformers' cache and are then checked by one pass over the whole sequence.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

import common
import vocab

N_NEW = 64
N_TOP = 20

LONG_TEXT = " ".join(
    f"On day {day} the keeper of the {place} wrote down what the {thing} had done: it rose at "
    f"{hour}, turned {side} twice, and left {count} marks on the {stone} before the wind fell."
    for day, place, thing, hour, side, count, stone in (
        (i + 1, p, t, h, s, i * 7 % 13, st) for i, (p, t, h, s, st) in enumerate(zip(
            ["harbour", "mill", "northern tower", "orchard", "quarry", "old bridge"] * 4,
            ["tide", "heron", "great wheel", "fog", "lantern", "river", "clock", "mare"] * 3,
            ["dawn", "noon", "six", "half past nine"] * 6,
            ["left", "right", "eastward"] * 8,
            ["slate", "granite", "sand", "chalk", "brick"] * 5))))

PROMPTS = {
    "fact": "The capital of France is",
    "prose": "It was late in the autumn when the last ship left the harbour, and nobody on the "
             "quay could say",
    "code-c": "#include <stdio.h>\n\nint main(void) {\n    for (int i = 0; i < 10; i++) {\n"
              "        printf(\"%d\\n\", i * i);\n    }\n    return",
    "code-py": "def fibonacci(n):\n    \"\"\"Return the n-th Fibonacci number.\"\"\"\n"
               "    if n < 2:\n        return n\n",
    "digits": "The numbers 1, 2, 4, 8, 16, 32, 64, 128, 256, 1024, 65536 and 3.14159265 are",
    "french": "La bibliothèque de la ville est ouverte tous les jours, sauf le dimanche. Les "
              "élèves y",
    "cyrillic-greek": "Москва - столица России. Αθήνα είναι η πρωτεύουσα της",
    "cjk": "東京は日本の首都です。人口は約1400万人で、",
    "arabic-hindi": "القاهرة هي عاصمة مصر. नई दिल्ली भारत की",
    "emoji-space": "Menu:\n\n\t- soup \U0001F372   4.50\n\t- tea \u2615\ufe0f    2.00\n\n\tTotal =",
    "json": "{\"name\": \"Ada\", \"born\": 1815, \"tags\": [\"math\", \"engine\"], \"friend\": {",
    "long": LONG_TEXT,
}
CHAT = ("<|im_start|>system\nYou are a helpful AI assistant.<|im_end|>\n<|im_start|>user\nName "
        "three colours and one animal.<|im_end|>\n<|im_start|>assistant\n")
STARTERS = {"smollm2": {**PROMPTS, "chat": CHAT}, "gemma3-270m": PROMPTS}


def fetch(name):
    done = subprocess.run([sys.executable, str(common.ROOT / "tools" / "fetch-model"), name],
                          check=True, stdout=subprocess.PIPE, text=True)
    return Path(done.stdout.strip())


def load(path):
    return AutoModelForCausalLM.from_pretrained(
        str(path.parent), gguf_file=path.name, dtype=torch.float32,
        attn_implementation="eager").eval()


@torch.no_grad()
def continue_greedily(model, ids):
    out = model(torch.tensor([ids]), use_cache=True)
    last = out.logits[0, -1]
    result = {"greedy": [], "gap": [], "runner_up": []}
    row = last
    for _ in range(N_NEW):
        best, second, gap = common.best_two(row.numpy())
        result["greedy"].append(best)
        result["gap"].append(round(gap, 5))
        result["runner_up"].append(second)
        out = model(torch.tensor([[best]]), past_key_values=out.past_key_values, use_cache=True)
        row = out.logits[0, -1]
    return result, last


@torch.no_grad()
def check_in_one_pass(model, ids, result):
    """The cached steps against one pass without a cache; returns the largest gap that moved."""
    rows = model(torch.tensor([ids + result["greedy"][:-1]]), use_cache=False).logits[0]
    worst = 0.0
    for i, best in enumerate(result["greedy"]):
        row = rows[len(ids) - 1 + i]
        if int(row.argmax()) != best and result["gap"][i] > 1e-3:
            raise SystemExit(f"step {i}: cached and whole pass disagree, gap {result['gap'][i]}")
        gap = float(row[best] - row[result["runner_up"][i]])
        worst = max(worst, abs(gap - result["gap"][i]))
    return worst


def summary(row):
    top = torch.topk(row, N_TOP)
    return {"top_ids": top.indices.tolist(),
            "top_logits": [round(x, 5) for x in top.values.tolist()],
            "mean": round(float(row.mean()), 6), "std": round(float(row.std()), 6),
            "min": round(float(row.min()), 5),
            "logsumexp": round(float(torch.logsumexp(row.double(), 0)), 6)}


def run_starter(name, only):
    path = fetch(name)
    tok = vocab.tokenizer_of_gguf(path)
    model = load(path)
    prompts = []
    for key, text in STARTERS[name].items():
        if only and key not in only:
            continue
        ids = tok.encode(text).ids
        result, last = continue_greedily(model, ids)
        moved = check_in_one_pass(model, ids, result)
        print(f"{name} {key:16s} {len(ids):4d} ids, least gap {min(result['gap']):.4f}, cache "
              f"moves a gap by {moved:.1e}: {tok.decode(result['greedy'])[:50]!r}", flush=True)
        prompts.append({"name": key, "text": text, "ids": ids, **result,
                        "last_logits": summary(last)})
    return {"model": name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "oracle": common.versions("transformers", "torch", "gguf", "tokenizers"),
            "dtype": "float32", "prompts": prompts}


def dump(result):
    """One prompt a line: a changed prompt is one changed line."""
    head = {k: v for k, v in result.items() if k != "prompts"}
    lines = ",\n".join(json.dumps(p, ensure_ascii=False) for p in result["prompts"])
    return json.dumps(head)[:-1] + ", \"prompts\": [\n" + lines + "\n]}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=common.GOLDEN / "starters")
    parser.add_argument("--only", nargs="*", help="only these prompts (for a quick look)")
    parser.add_argument("names", nargs="*", default=list(STARTERS))
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(os.cpu_count() or 1)
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.names:
        (args.out / f"{name}.json").write_text(dump(run_starter(name, args.only)))


if __name__ == "__main__":
    main()
