#!/usr/bin/env python3
"""mica's tokenizers beside the tokenizers library in one run, one thread each.

usage: tokenizer.py BENCH_TOKENIZER TEXT_FILE FOLDER... > bench/results/tokenizer.csv

A FOLDER holds a tokenizer.json. Writes, for each, medians and spreads of processor time over
rounds that take turns, as CSV, and a reader's version of it to standard error: loading the file, loading mica's compiled copy of it, encoding the text as a
whole and paragraph by paragraph; the ids must be equal. Needs `pip install tokenizers`.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import tokenizers

ROUNDS = 7


def timed(function):
    begin = time.process_time()
    value = function()
    return time.process_time() - begin, value


def fnv(ids):
    h = 0xCBF29CE484222325
    for i in ids:
        h = (h ^ i) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{h:016x}"


def show(vocabulary, name, theirs, ours, n_bytes=0):
    a, b = statistics.median(theirs), statistics.median(ours)
    rate = f"  {n_bytes / a / 1e6:6.2f} {n_bytes / b / 1e6:6.2f} MB/s" if n_bytes else ""
    print(f"  {name:8} tokenizers {a * 1e3:8.1f} ms ({min(theirs) * 1e3:.1f}-{max(theirs) * 1e3:.1f})  "
          f"mica {b * 1e3:8.2f} ms ({min(ours) * 1e3:.2f}-{max(ours) * 1e3:.2f})  {a / b:6.1f} times{rate}", file=sys.stderr)
    times = [f"{x * 1e3:.2f}" for x in (a, min(theirs), max(theirs), b, min(ours), max(ours))]
    print(",".join([vocabulary, name, str(n_bytes), *times, f"{a / b:.1f}"]), flush=True)


def compare(program, text_path, folder):
    text = Path(text_path).read_text()
    paragraphs = text.split("\n\n")
    theirs = {"load": [], "whole": [], "parts": []}
    ours = {"load": [], "cached": [], "whole": [], "parts": []}
    for _ in range(ROUNDS):
        seconds, t = timed(lambda: tokenizers.Tokenizer.from_file(f"{folder}/tokenizer.json"))
        theirs["load"].append(seconds)
        seconds, ids = timed(lambda: t.encode(text, add_special_tokens=False).ids)
        theirs["whole"].append(seconds)
        seconds, parts = timed(lambda: [t.encode(p, add_special_tokens=False).ids for p in paragraphs])
        theirs["parts"].append(seconds)
        found = json.loads(subprocess.run([program, folder, text_path, "1"], check=True, stdout=subprocess.PIPE).stdout)
        assert found["ids"] == len(ids) and found["hash"] == fnv(ids), f"{folder}: other ids"
        assert found["part_hash"] == fnv(i for p in parts for i in p), f"{folder}: other ids of paragraphs"
        for key in ours:
            ours[key] += found[key]
    n = found["bytes"]
    name = Path(folder).name
    print(f"{name}: {n} bytes, {found['ids']} ids", file=sys.stderr)
    show(name, "load", theirs["load"], ours["load"])
    show(name, "cached", theirs["load"], ours["cached"])
    show(name, "whole", theirs["whole"], ours["whole"], n)
    show(name, "parts", theirs["parts"], ours["parts"], n)


print(f"# tokenizer.py: tokenizers {tokenizers.__version__} and mica, one thread each, processor time in milliseconds, {ROUNDS} rounds that take turns")
print("vocabulary,what,bytes,tokenizers_median,tokenizers_least,tokenizers_most,mica_median,mica_least,mica_most,times")
for path in sys.argv[3:]:
    compare(sys.argv[1], sys.argv[2], path)
