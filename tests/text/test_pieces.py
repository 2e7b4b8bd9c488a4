#!/usr/bin/env python3
"""`--pieces` of tokenize and detokenize, as lines and as JSON; what `--no-special`, `--plain` and `--skip-special` leave out.

usage: test_pieces.py MICA
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

MICA = sys.argv[1]
VOCAB = {"a": 0, "b": 1, "ab": 2, "\u0120": 3, "\u00c3": 4, "\u00a9": 5}
FILE = {"version": "1.0", "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False}, "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": VOCAB, "merges": ["a b"]}}
START = {"added_tokens": [{"id": 6, "content": "<s>", "special": True}],
         "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                            "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [6], "tokens": ["<s>"]}}}}
failures = 0


def check(folder, arguments, expected, stdin=b""):
    global failures
    done = subprocess.run([MICA, arguments[0], folder, *arguments[1:]], input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode or done.stdout.decode() != expected:
        failures += 1
        print(f"{arguments}: code {done.returncode}, {done.stderr.decode()}\n  expected {expected!r}\n  found    {done.stdout.decode()!r}")


with tempfile.TemporaryDirectory() as folder:
    (Path(folder) / "tokenizer.json").write_text(json.dumps(FILE))
    ids, pieces = [2, 3, 1, 4, 5], ["ab", "\u0120", "b", "\u00c3", "\u00a9"]
    both = json.dumps({"ids": ids, "pieces": pieces}, ensure_ascii=False, separators=(",", ":")) + "\n"
    lines = "".join(f"{i}\t{json.dumps(p, ensure_ascii=False)}\n" for i, p in zip(ids, pieces))
    check(folder, ["tokenize", "ab b\u00e9", "--pieces"], lines)
    check(folder, ["tokenize", "ab b\u00e9", "--pieces", "--json"], both)
    check(folder, ["tokenize", "--pieces", "--jsonl"], both + '{"ids":[],"pieces":[]}\n', b'"ab b\\u00e9"\n""\n')
    check(folder, ["tokenize", "--jsonl"], "[2,3,1,4,5]\n[4]\n[]\n", b"[97, 98, 32, 98, 195, 169]\n[195]\n[]\n")
    check(folder, ["tokenize", "ab", "--json"], '{"ids":[2]}\n')
    steps = [(2, "ab", "ab"), (4, "\u00c3", ""), (5, "\u00a9", "\u00e9"), (9, None, ""), (4, "\u00c3", "")]
    rows = [json.dumps({"id": i, "piece": p, "text": t}, ensure_ascii=False, separators=(",", ":")) for i, p, t in steps]
    rows.append('{"text":"\ufffd"}')
    check(folder, ["detokenize", "--ids", "2,4,5,9,4", "--pieces"], "\n".join(rows) + "\n")
    check(folder, ["detokenize", "--ids", "2,4,5,9,4", "--pieces", "--json"], "[" + ",".join(rows) + "]\n")
    check(folder, ["detokenize", "--jsonl", "--pieces"], f"[{rows[0]}]\n[]\n", b"[2]\n[]\n")
with tempfile.TemporaryDirectory() as folder:
    (Path(folder) / "tokenizer.json").write_text(json.dumps({**FILE, **START}))
    # (A text that begins with what would be added gets no second one.)
    for flags, ids in (([], "6,2"), (["--no-special"], "6,2"), (["--plain"], "6,2"), (["--plain", "--no-special"], "2")):
        check(folder, ["tokenize", "<s>ab", *flags], ids + "\n")
        check(folder, ["tokenize", "--jsonl", *flags], f"[{ids}]\n", b'"<s>ab"\n')
    check(folder, ["detokenize", "--ids", "6,2,6"], "<s>ab<s>\n")
    check(folder, ["detokenize", "--ids", "6,2,6", "--skip-special"], "ab\n")
    check(folder, ["detokenize", "--jsonl", "--skip-special"], '"ab"\n', b"[6,2,6]\n")
    check(folder, ["detokenize", "--ids", "6,2", "--skip-special", "--pieces"],
          '{"id":6,"piece":"<s>","text":""}\n{"id":2,"piece":"ab","text":"ab"}\n')
sys.exit(1 if failures else 0)
