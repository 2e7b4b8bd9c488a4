#!/usr/bin/env python3
"""Writes embed/gguf-nomic: nomic-hub by llama.cpp's own converter, but for its vocabulary.

Runs in venv-hf, after make-embed.py; MICA_LLAMA_CPP names llama.cpp's sources (setup-venvs fetches
them). The weights are f16 in both; the reference is Transformers with them.
"""

import importlib
import json
import os
import shutil
import sys
from pathlib import Path

import common

LLAMA = Path(os.environ.get("MICA_LLAMA_CPP", common.work_dir() / "llama.cpp"))
sys.path[:0] = [str(LLAMA), str(LLAMA / "gguf-py")]
sys.argv, rest = sys.argv[:1], sys.argv[1:]  # the converter's modules look at it
import gguf  # noqa: E402
import torch  # noqa: E402
from conversion.bert import NomicBertModel  # noqa: E402
sys.argv += rest

embed = importlib.import_module("make-embed")


class WithVocabulary(NomicBertModel):
    model_arch = NomicBertModel.model_arch

    def set_vocab(self):
        embed.add_vocabulary(self.gguf_writer, self.dir_model)


def main():
    torch.set_num_threads(1)
    root = common.GOLDEN / "embed"
    folder = root / "gguf-nomic"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    # Transformers would fill in the published sizes, for it does not know these keys
    keys = json.loads((root / "nomic-hub" / "config.json").read_text())
    with torch.inference_mode():
        WithVocabulary(root / "nomic-hub", gguf.LlamaFileType.MOSTLY_F16, folder / "model.gguf",
                       eager=True, hparams=keys).write()
    st = embed.open_f32(root / "nomic")
    st.max_seq_length = 512  # what the converter makes of n_positions
    cases, rows = embed.run_cases(st, {}, None)
    embed.store(folder, cases, rows, {"normalized": True})


if __name__ == "__main__":
    main()
