#!/usr/bin/env python3
"""The vocabularies that llama.cpp tests itself with, through `mica tokenize`: its expected ids, and random texts beside
llama.cpp's own tokenizer. So are the GGUF starters, where they are fetched.

usage: llama-vocabularies.py MICA WORK [SEED]

Vocabularies and sources lie in the source archive of llama-cpp-python, fetched into WORK once (77 MB) and never
committed. 15 of the 19 vocabularies have texts (`.inp`) and ids (`.out`), no special tokens parsed or added. The part
of llama.cpp that cuts text is compiled from the sources (a minute); what it calls beyond that is never reached and
traps. Random texts: $MICA_DIFFERENTIAL_COUNT for each starter (default 50 000), a fiftieth of that, but 5000 at
least, for each other vocabulary. Without a network the test is skipped (exit code 77).

Where llama.cpp only approximates what a model's authors run, the authors' program counts: BERT's vocabularies go
through the tokenizers library (llama.cpp replaces a character by the first of its decomposition alone); texts with
U+3000 are left out for DeepSeek LLM, whose pattern llama.cpp runs on a simplified text, and white space beyond ASCII
for Phi-3, whose special tokens take only ASCII's with them in llama.cpp; and "</s>" for Gemma 3, where it is an HTML tag
that llama.cpp takes for the end. Its regexes recurse, so that long runs of one
letter are left to the other tests.
"""

import os
import random
import re
import struct
import subprocess
import sys
import time
from pathlib import Path

import random_texts

PACKAGE = "llama-cpp-python==0.3.36"
SOURCES = [f"ggml/src/{n}" for n in ("ggml.c", "ggml-alloc.c", "gguf.cpp", "ggml-threading.cpp")]
SOURCES += [f"src/{n}.cpp" for n in ("llama-vocab", "unicode", "unicode-data", "llama-impl", "llama-mmap", "llama-arch", "llama-hparams",
                                     "llama-model-loader")]


def wanted(name):
    base = Path(name).name
    if base.startswith("ggml-vocab-"):
        return base
    inside = name.partition("/vendor/llama.cpp/")[2]
    is_source = re.match(r"(src|include|ggml/src|ggml/include)/[^/]+\.(c|h|cpp)$", inside)
    return f"llama.cpp/{inside}" if is_source else None


def build(work):
    """The oracle."""
    root, program = work / "llama.cpp", work / "llama-oracle"
    if program.exists():
        return program
    (root / "ggml/src/ggml-version.h").write_text('#define GGML_VERSION "0"\n#define GGML_COMMIT "0"\n')
    objects = []
    flags = ["-O2", "-w", "-D_GNU_SOURCE", *(f"-I{root / d}" for d in ("ggml/include", "ggml/src", "include", "src"))]
    for source in [*(root / s for s in SOURCES), Path(__file__).with_name("llama-oracle.cpp")]:
        objects.append(str(work / (source.name + ".o")))
        compiler = ["gcc"] if source.suffix == ".c" else ["g++", "-std=c++17"]
        if not Path(objects[-1]).exists():
            subprocess.run([*compiler, *flags, "-c", "-o", objects[-1], str(source)], check=True)
    link = ["g++", "-o", str(program), *objects, "-lpthread"]
    missing = sorted(set(re.findall(r"undefined reference to .([A-Za-z0-9_]+)", subprocess.run(link, stderr=subprocess.PIPE, text=True).stderr)))
    stubs = work / "stubs.c"
    stubs.write_text("".join(f"void {name}(void) {{ __builtin_trap(); }}\n" for name in missing))
    subprocess.run(["gcc", "-w", "-c", "-o", f"{stubs}.o", str(stubs)], check=True)
    subprocess.run([*link, f"{stubs}.o"], check=True)
    return program


def oracle_ids(program, path, texts, parse_special):
    data = b"".join(struct.pack("II", 2 * parse_special, len(t)) + t for t in (t.encode() for t in texts))
    done = subprocess.run([program, path], input=data, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    out, at = [], 0
    for _ in texts:
        n, = struct.unpack_from("I", done.stdout, at)
        out.append(list(struct.unpack_from(f"{n}i", done.stdout, at + 4)))
        at += 4 + 4 * n
    return out


def compare_expected(mica, path):
    name = path.stem.removeprefix("ggml-vocab-")
    texts = Path(f"{path}.inp").read_bytes().decode().split("\n__ggml_vocab_test__\n")
    expected = [[int(i) for i in line.split()] for line in Path(f"{path}.out").read_text().split("\n")]
    found = random_texts.lines_of(mica, ["tokenize", str(path), "--jsonl", "--no-special", "--plain"], texts)
    assert len(texts) <= len(expected)
    wrong = random_texts.show_differences(name, texts, expected[:len(texts)], found)
    print(f"{name}: {len(texts)} expected answers, {wrong} differences", flush=True)
    return wrong


def pieces(mica, path):
    ids = [[i] for i in range(0, 60000, 7)]
    texts = random_texts.lines_of(mica, ["detokenize", str(path), "--jsonl"], ids)
    return [t for t in texts if t and "\ufffd" not in t]


def bert_of_gguf(mica, path):
    """The tokenizers library's pipeline for a vocabulary of words with U+2581 and of continuations without."""
    from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers
    vocab = {}
    for i, steps in enumerate(random_texts.lines_of(mica, ["detokenize", str(path), "--jsonl", "--pieces"], [[i] for i in range(30522)])):
        piece = steps[0]["piece"]
        is_special = piece.startswith("[") and piece.endswith("]") and len(piece) > 2
        vocab[piece if is_special else piece[1:] if piece[0] == "▁" else "##" + piece] = i
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=10**9))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")])
    return tokenizer


def oracle_of(mica, program, path):
    """A function of texts and parse."""
    if "bert-bge" not in path.name:
        return lambda texts, parse: oracle_ids(program, path, texts, parse)
    tokenizer = bert_of_gguf(mica, path)

    def ids(texts, parse):
        tokenizer.encode_special_tokens = not parse
        return [e.ids for e in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
    return ids


def compare_random(mica, program, path, count, rng):
    begin, wrong, oracle = time.monotonic(), 0, oracle_of(mica, program, path)
    for k, texts in enumerate(random_texts.batches(rng, pieces(mica, path), count, has_runs=False)):
        parse = k % 2 == 0
        if "deepseek-llm" in path.name:
            texts = [t for t in texts if "\u3000" not in t]
        if "gemma3" in path.name:
            texts = [t for t in texts if "</s>" not in t]
        if "phi-3" in path.name:
            texts = [t for t in texts if t.isascii() or not any(c.isspace() and c > "\x7f" for c in t)]
        expected = oracle(texts, parse)
        found = random_texts.lines_of(mica, ["tokenize", str(path), "--jsonl", "--no-special", *([] if parse else ["--plain"])], texts)
        wrong += random_texts.show_differences(f"{path.name}, parse={parse}", texts, expected, found)
    print(f"{path.name}: {count} random texts, {wrong} differences, {time.monotonic() - begin:.0f} s", flush=True)
    return wrong


def main():
    mica, work = sys.argv[1], Path(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else int(time.time())
    random_texts.fetch(work, PACKAGE, wanted, source=True)
    paths = sorted(work.glob("ggml-vocab-*.gguf"))
    with_answers = [p for p in paths if Path(f"{p}.out").exists()]
    assert (len(paths), len(with_answers)) == (19, 15)
    wrong = sum(compare_expected(mica, p) for p in with_answers)
    random_texts.install(work, "tokenizers==0.23.3")
    program, count, rng = build(work), random_texts.count_of(50000), random.Random(seed)
    print("seed", seed)
    home = Path(os.environ.get("MICA_HOME") or Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "mica")
    starters = [p for p in (home / "models" / f"{n}.gguf" for n in ("smollm2", "gemma3-270m")) if p.exists()]
    wrong += sum(compare_random(mica, program, p, max(count // 50, 5000), rng) for p in paths)
    wrong += sum(compare_random(mica, program, p, count, rng) for p in starters)
    sys.exit(1 if wrong else 0)


main()
