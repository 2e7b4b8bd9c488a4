#!/usr/bin/env python3
"""Small SentencePiece models and what SentencePiece does with them: writes spm/NAME/ and
spm.jsonl.

Needs `pip install sentencepiece` (made with 0.2.3). The models are trained on this tree's own
documents, with the options that change how text is cut; most have no table of replacements, which
alone has 240 KB, and one has a small table of its own. A line of spm.jsonl has the model's name and
[text, ids, decoded text] for each text.
"""

import json
import random
import shutil
import sys
import tempfile
from pathlib import Path

import sentencepiece as spm

HERE = Path(__file__).parent
CORPUS = [HERE.parents[1] / "docs" / "text.md", HERE.parents[1] / "docs" / "numerics.md", HERE.parents[1] / "README.md"]
BASE = dict(vocab_size=220, hard_vocab_limit=False, normalization_rule_name="identity", minloglevel=2, character_coverage=0.98)
RULES = "41\t61\n42\t62\n43\t63\n44\t64\nE9\t65\nFB01\t66 69\n3000\t20\nA0\t20\n65 301\t65\n9\t20\nAD\t\n2026\t2E 2E 2E\n"
MODELS = {
    "bpe": dict(model_type="bpe"),
    "bpe-bytes": dict(model_type="bpe", byte_fallback=True, vocab_size=500, remove_extra_whitespaces=False, user_defined_symbols=["<x>", "the ", "th", "<pad>", "▁▁", "▁▁▁"]),
    "bpe-plain": dict(model_type="bpe", add_dummy_prefix=False, remove_extra_whitespaces=False, control_symbols=["<c>"]),
    "bpe-suffix": dict(model_type="bpe", treat_whitespace_as_suffix=True),
    "unigram": dict(model_type="unigram"),
    "unigram-bytes": dict(model_type="unigram", byte_fallback=True, vocab_size=500, user_defined_symbols=["<x>", "the ", "th", "ere"], unk_surface="?!"),
    "unigram-plain": dict(model_type="unigram", add_dummy_prefix=False, remove_extra_whitespaces=False, pad_id=0, bos_id=-1, eos_id=1, unk_id=2),
    "unigram-suffix": dict(model_type="unigram", treat_whitespace_as_suffix=True, remove_extra_whitespaces=False),
    "unigram-frequent": dict(model_type="unigram", remove_extra_whitespaces=False, user_defined_symbols=["▁▁▁", "e", "in", "▁t", "es"]),
    "unigram-rules": dict(model_type="unigram", rules=True, user_defined_symbols=["<x>", "É", "AB"]),
    "bpe-rules": dict(model_type="bpe", rules=True, user_defined_symbols=["<x>", "É", "AB"]),
}
TEXTS = ["", " ", "   ", "Hello world", " Hello  world ", "the the there th", "a<x>b <x> c", "ABCDE ÉéÉ", "ﬁne …", "日本語 text", "▁a ▁▁b", "\t\n\r\n x", "<unk> <s> </s> <c>",
         "e\u0301E\u0301 \u00ad x\u00a0\u3000y", "   the    end   ", "aaaaaaaaaaaaaaaaaaaaa", "\u0000a", "🙂🙂 🙂", "tokenizer tokens tokenization", "x" * 50]


def texts(rng, source):
    out = list(TEXTS)
    for _ in range(60):
        parts = []
        for _ in range(rng.randrange(1, 8)):
            kind = rng.randrange(4)
            if kind == 0:
                begin = rng.randrange(len(source) - 30)
                parts.append(source[begin:begin + rng.randrange(1, 30)])
            elif kind == 1:
                parts.append(" " * rng.randrange(1, 5))
            elif kind == 2:
                parts.append(rng.choice(["<x>", "the ", "th", "É", "AB", "A", "é", "…", "ﬁ", "日", "🙂", "▁", "\u00a0", "\u00ad"]))
            else:
                parts.append("".join(chr(rng.randrange(32, 127)) for _ in range(rng.randrange(1, 9))))
        out.append("".join(parts))
    return out


def main():
    source = "\n".join(p.read_text() for p in CORPUS if p.exists())
    lines = []
    with tempfile.TemporaryDirectory() as work:
        corpus, rules = Path(work) / "corpus.txt", Path(work) / "rules.tsv"
        corpus.write_text(source)
        rules.write_text(RULES)
        for name, options in MODELS.items():
            options = {**BASE, **options}
            if options.pop("rules", False):
                options["normalization_rule_tsv"] = str(rules)
                options.pop("normalization_rule_name")
            spm.SentencePieceTrainer.train(input=str(corpus), model_prefix=str(Path(work) / name), **options)
            (HERE / "spm" / name).mkdir(parents=True, exist_ok=True)
            shutil.copy(Path(work) / f"{name}.model", HERE / "spm" / name / "tokenizer.model")
            model = spm.SentencePieceProcessor(model_file=str(Path(work) / f"{name}.model"))
            rows = [[t, ids, model.decode(ids)] for t in texts(random.Random(name), source) for ids in [model.encode(t)]]
            lines.append(json.dumps({"name": name, "rows": rows}, separators=(",", ":")))
    (HERE / "spm.jsonl").write_text("\n".join(lines) + "\n")
    print(len(lines), "models", spm.__version__, file=sys.stderr)


main()
