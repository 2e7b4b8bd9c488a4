#!/usr/bin/env python3
"""Unpacks the tokenizer files that are not in the tree into the build folder.

usage: unpack-vocabularies.py SOURCE_ROOT STAMP | --list SOURCE_ROOT

They come from $MICA_SHARED/data/tokenizers, else from ../shared beside the source tree. Where
that is absent nothing is unpacked and the tests that need it are left out. --list names the folders.
"""

import gzip
import os
import sys
from pathlib import Path


def archives(source_root):
    shared = Path(os.environ.get("MICA_SHARED") or source_root.parent / "shared")
    return sorted(shared.glob("data/tokenizers/*/*.json.gz"))


def main():
    if sys.argv[1] == "--list":
        print(*sorted({packed.parent.name for packed in archives(Path(sys.argv[2]))}))
        return
    source_root, stamp = Path(sys.argv[1]), Path(sys.argv[2])
    for packed in archives(source_root):
        folder = stamp.parent / "vocabularies" / packed.parent.name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))
    stamp.write_text("unpacked\n")


main()
