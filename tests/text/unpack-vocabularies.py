#!/usr/bin/env python3
"""Unpacks the tokenizer files that are not in the tree into the build folder.

They come from $MICA_SHARED/data/tokenizers, else from ../shared beside the source tree. Where
that is absent nothing is unpacked and the tests that need it skip themselves.
"""

import gzip
import os
import sys
from pathlib import Path


def main():
    source_root, stamp = Path(sys.argv[1]), Path(sys.argv[2])
    shared = Path(os.environ.get("MICA_SHARED") or source_root.parent / "shared")
    for packed in sorted(shared.glob("data/tokenizers/*/*.json.gz")):
        folder = stamp.parent / "vocabularies" / packed.parent.name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))
    stamp.write_text("unpacked\n")


main()
