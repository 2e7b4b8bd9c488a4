#!/usr/bin/env python3
"""Random strings through `mica tokenize` and through the tokenizers library: the ids must be equal.

usage: differential.py MICA UNPACKED [COUNT [SEED]]

UNPACKED is the folder of unpacked vocabularies; the starters are used where they are fetched. Needs
the `tokenizers` and `gguf` packages: those of the oracles' environment ($MICA_ORACLE_DIR, else
build/oracle). Without them, or without vocabularies, the test is skipped (exit code 77).
"""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ORACLE = ROOT / "tests" / "oracle"

try:
    from tokenizers import Tokenizer
    sys.path.insert(0, str(ORACLE))
    import vocab as gguf_vocab
except ImportError as missing:
    venv = Path(os.environ.get("MICA_ORACLE_DIR") or ROOT / "build" / "oracle") / "venv-hf" / "bin" / "python"
    if venv.exists() and Path(sys.executable).parent != venv.parent:
        os.execv(venv, [str(venv), *sys.argv])
    print(f"skipped: {missing}; tests/oracle/setup-venvs makes the environment")
    sys.exit(77)

# (0x9FE and other marks from Unicode 11 on have no class in the library's normalizer: left out.)
RANGES = [(0, 0x80)] * 6 + [(0x80, 0x250), (0x300, 0x370), (0x370, 0x600), (0x600, 0x700), (0x900, 0x9FE), (0x1100, 0x1200),
          (0x2000, 0x2070), (0x20A0, 0x20BF), (0x2100, 0x2200), (0x3000, 0x3100), (0x4E00, 0x9FEB), (0xAC00, 0xD7A4),
          (0xFE00, 0xFFFE), (0x1F300, 0x1F650), (0x1D400, 0x1D7CC), (0x20000, 0x2A6D7)]
BITS = ["'s", "'S", "'ſ", "don't", "12", "123", "1234", "e\u0301", "\u0301", "▁", "Ġ", "<0x41>", "é", "ß", "İ", "\u200d", "👩‍👩‍👧"]
SPACES = [" ", "\n", "\t", "\r\n", "\u00a0", "\u3000", "\u0085", "\u180e", "\u2028"]


def random_string(rng, corpus, tokens):
    out = []
    for _ in range(rng.randrange(1, 12)):
        kind = rng.randrange(6)
        if kind == 0:
            low, high = rng.choice(RANGES)
            out += [chr(rng.randrange(low, high)) for _ in range(rng.randrange(1, 12))]
        elif kind == 1:
            text = rng.choice(corpus)
            begin = rng.randrange(len(text) + 1)
            out.append(text[begin:begin + rng.randrange(1, 30)])
        elif kind == 2:
            out.append(rng.choice(SPACES) * rng.randrange(1, 9))
        elif kind == 3:
            out.append("".join(chr(rng.randrange(32, 127)) for _ in range(rng.randrange(1, 15))))
        elif kind == 4:
            out.append(rng.choice(tokens))
        else:
            out.append(rng.choice(BITS))
    return "".join(out)


def compare(mica, name, path, tokenizer, count, rng):
    corpus = [json.loads(line) for line in (ROOT / "tests/golden/tokens/corpus.jsonl").open()]
    tokens = [tokenizer.id_to_token(rng.randrange(tokenizer.get_vocab_size())) or "" for _ in range(400)]
    tokens += [t.content for t in list(tokenizer.get_added_tokens_decoder().values())[:100]]
    wrong = 0
    for plain in (False, True):
        texts = [random_string(rng, corpus, tokens) for _ in range(count)]
        lines = "".join(json.dumps(t) + "\n" for t in texts)
        flags = ["--no-special"] + (["--plain"] if plain else [])
        done = subprocess.run([mica, "tokenize", path, "--jsonl", *flags], input=lines.encode(), stdout=subprocess.PIPE, check=True)
        tokenizer.encode_special_tokens = plain
        for text, line in zip(texts, done.stdout.decode().splitlines(), strict=True):
            expected, found = tokenizer.encode(text, add_special_tokens=False).ids, json.loads(line)
            if expected != found:
                wrong += 1
                if wrong <= 5:
                    print(f"{name}: plain={plain} {text!r}\n  expected {expected}\n  found    {found}")
    print(f"{name}: {2 * count} strings, {wrong} differences")
    return wrong


def main():
    mica, unpacked = sys.argv[1], Path(sys.argv[2])
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 20000
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else int(time.time())
    rng = random.Random(seed)
    print("seed", seed)
    home = Path(os.environ.get("MICA_HOME") or Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "mica")
    found = [(p.parent.name, str(p.parent), lambda p=p: Tokenizer.from_file(str(p))) for p in sorted(unpacked.glob("*/tokenizer.json"))]
    for name in ("smollm2", "gemma3-270m"):
        path = home / "models" / f"{name}.gguf"
        if path.exists():
            found.append((name, str(path), lambda path=path: gguf_vocab.tokenizer_of_gguf(str(path))))
    if not found:
        print("skipped: no vocabulary")
        sys.exit(77)
    sys.exit(1 if sum(compare(mica, name, path, make(), count, rng) for name, path, make in found) else 0)


main()
