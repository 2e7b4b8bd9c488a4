#!/usr/bin/env python3
"""The vocabularies that llama.cpp tests itself with, and its expected ids, through `mica tokenize`.

usage: llama-vocabularies.py MICA FOLDER

They lie in the source archive of llama-cpp-python, which pip downloads into FOLDER once (77 MB).
Each vocabulary has texts (`.inp`) and ids (`.out`), no special tokens parsed or added. Without a
network the test is skipped (exit code 77).
"""

import json
import subprocess
import sys
import tarfile
from pathlib import Path

PACKAGE = "llama-cpp-python==0.3.36"


def fetch(folder):
    folder.mkdir(parents=True, exist_ok=True)
    if not list(folder.glob("*.tar.gz")):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", "-d", str(folder), PACKAGE]
        if subprocess.run(command).returncode:
            print("skipped: the archive could not be downloaded")
            sys.exit(77)
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        for member in archive:
            name = Path(member.name).name
            if name.startswith("ggml-vocab-") and member.isfile():
                (folder / name).write_bytes(archive.extractfile(member).read())


def main():
    mica, folder = sys.argv[1], Path(sys.argv[2])
    if not list(folder.glob("ggml-vocab-*.out")):
        fetch(folder)
    wrong = checked = 0
    for out in sorted(folder.glob("ggml-vocab-*.gguf.out")):
        path = out.with_suffix("")
        name = path.stem.removeprefix("ggml-vocab-")
        texts = Path(f"{path}.inp").read_bytes().decode().split("\n__ggml_vocab_test__\n")
        expected = [[int(i) for i in line.split()] for line in out.read_text().split("\n")]
        lines = "".join(json.dumps(t) + "\n" for t in texts)
        done = subprocess.run([mica, "tokenize", str(path), "--jsonl", "--no-special", "--plain"], input=lines.encode(),
                              stdout=subprocess.PIPE, check=True)
        found = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(found) == len(texts) <= len(expected)
        bad = [t for t, e, f in zip(texts, expected, found) if e != f]
        for text in bad:
            print(f"{name}: {text!r}")
        print(f"{name}: {len(texts)} texts, {len(bad)} differences")
        wrong += len(bad)
        checked += 1
    sys.exit(1 if wrong or checked < 10 else 0)


main()
