#!/usr/bin/env python3
"""mica embed against sentence-transformers, both run now, on a corpus: all-MiniLM-L6-v2.

Usage, in venv-hf: compare-embed.py BUILD_DIR [N_TEXTS]
The texts are the lines of tests/golden/tokens/corpus.jsonl and runs of several of them. Fails when
a number is off by more than 2e-3 of the standard deviation in exact f32.
"""

import argparse
import io
import json
import subprocess
import sys

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

import common


def texts_of(n):
    lines = [json.loads(x) for x in (common.GOLDEN / "tokens" / "corpus.jsonl").open()]
    lines = [" ".join(x.split()) for x in lines if isinstance(x, str) and x.strip()]
    joined = [" ".join(lines[i:i + k]) for k in (1, 2, 5) for i in range(0, len(lines), k)]
    return joined[:n]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("n", nargs="?", type=int, default=400)
    args = parser.parse_args()
    torch.set_num_threads(1)
    fetched = subprocess.run([sys.executable, str(common.ROOT / "tools" / "fetch-model"), "minilm"],
                             check=True, stdout=subprocess.PIPE, text=True)
    model = fetched.stdout.strip()
    texts = texts_of(args.n)
    done = subprocess.run([args.build + "/mica", "embed", model, "--truncate", "--exact", "--dtype",
                           "f32", "-o", "-"], input="\n".join(texts).encode() + b"\n",
                          stdout=subprocess.PIPE, check=True)
    ours = np.load(io.BytesIO(done.stdout))
    st = SentenceTransformer(model, device="cpu", model_kwargs={"dtype": torch.float32})
    theirs = st.encode(texts, batch_size=1, show_progress_bar=False)
    off = np.abs(ours - theirs).max(axis=1) / theirs.std()
    print(f"{len(texts)} texts, off by at most {off.max():.1e} of the standard deviation")
    bad = [i for i in range(len(texts)) if not off[i] <= 2e-3]
    for i in bad[:10]:
        print(f"off by {off[i]:.1e}: {texts[i][:100]!r}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
