#!/usr/bin/env python3
"""Random texts through `mica tokenize` and through the tokenizers library, and ids back through `mica detokenize` and
the library: no difference is allowed.

usage: differential.py MICA UNPACKED WORK [SEED]

UNPACKED is the folder of unpacked vocabularies. Each gets $MICA_DIFFERENTIAL_COUNT texts (default 100 000; make
test-full asks for a million), half of them with special tokens as plain text, a tenth of that count of ill-formed
UTF-8, and a fifth of id lists. The library is fetched into WORK. Without network or vocabularies the test is skipped.

Ill-formed bytes have no counterpart in the library, whose text is always well-formed: a byte-level vocabulary is
expected to encode the stretches between them as texts of their own and a run of them as one piece of its model; others
to see what Python's decoder replaces. Decoding: the library replaces each byte of an ill-formed run of byte tokens,
mica each maximal part; lists of ids have no byte tokens unless the vocabulary is byte-level.
"""

import json
import os
import random
import re
import sys
import time
from pathlib import Path

import random_texts

os.environ["TOKENIZERS_PARALLELISM"] = "false"
BAD = re.compile(b"[\\x80-\\xff]+")


def byte_alphabet():
    own = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [b for b in range(256) if b not in own]
    return {**{b: chr(b) for b in own}, **{b: chr(256 + i) for i, b in enumerate(rest)}}


ALPHABET = byte_alphabet()


def stretches(data):
    """(is well-formed, bytes): what is valid UTF-8 and the runs between."""
    marked = data.decode("utf-8", "surrogateescape")
    for part in re.finditer("[\udc80-\udcff]+|[^\udc80-\udcff]+", marked):
        piece = part.group().encode("utf-8", "surrogateescape")
        yield not "\udc80" <= part.group()[0] <= "\udcff", piece


def bytes_ids(tokenizer, is_byte_level, data):
    if not is_byte_level:
        return tokenizer.encode(data.decode("utf-8", "replace"), add_special_tokens=False).ids
    ids = []
    for is_text, piece in stretches(data):
        if is_text:
            ids += tokenizer.encode(piece.decode(), add_special_tokens=False).ids
        else:
            ids += [t.id for t in tokenizer.model.tokenize("".join(ALPHABET[b] for b in piece))]
    return ids


class Vocabulary:
    def __init__(self, name, folder, path, make):
        self.name, self.folder = name, str(folder)
        source = json.loads(Path(path).read_text())
        self.tokenizer = make(json.dumps(source))
        # Without the normalizer: 0.23 prints normalized added tokens in their normalized form.
        self.decoder = make(json.dumps({**source, "normalizer": None}))
        self.is_byte_level = "ByteLevel" in json.dumps(source["decoder"])
        self.n = max(self.tokenizer.get_vocab(with_added_tokens=True).values()) + 1
        self.tokens = [t.content for t in self.tokenizer.get_added_tokens_decoder().values()] * 3
        pieces = [self.tokenizer.id_to_token(i) or "" for i in range(0, self.n, 7)]
        self.tokens += [p.replace("Ġ", " ").replace("Ċ", "\n") for p in pieces] if self.is_byte_level else pieces
        byte = re.compile(r"<0x[0-9A-F]{2}>")
        self.ids = [i for i in range(self.n + 50) if self.is_byte_level or not byte.fullmatch(self.tokenizer.id_to_token(i) or "")]

    def encode(self, mica, texts, plain):
        flags = ["--no-special"] + (["--plain"] if plain else [])
        self.tokenizer.encode_special_tokens = plain
        found = random_texts.lines_of(mica, ["tokenize", self.folder, "--jsonl", *flags], texts)
        expected = [e.ids for e in self.tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
        return random_texts.show_differences(f"{self.name}, plain={plain}", texts, expected, found), found

    def encode_bytes(self, mica, texts):
        self.tokenizer.encode_special_tokens = False
        found = random_texts.lines_of(mica, ["tokenize", self.folder, "--jsonl", "--no-special"], [list(t) for t in texts])
        expected = [bytes_ids(self.tokenizer, self.is_byte_level, t) for t in texts]
        return random_texts.show_differences(f"{self.name}, bytes", texts, expected, found)

    def decode(self, mica, lists, skip):
        found = random_texts.lines_of(mica, ["detokenize", self.folder, "--jsonl", *(["--skip-special"] if skip else [])], lists)
        expected = self.decoder.decode_batch(lists, skip_special_tokens=skip)
        return random_texts.show_differences(f"{self.name}, decode, skip={skip}", lists, expected, found)

    def compare(self, mica, count, rng):
        begin = time.monotonic()
        wrong = n_bytes = n_lists = 0
        for k, texts in enumerate(random_texts.batches(rng, self.tokens, count)):
            bad, found = self.encode(mica, texts, bool(k % 2))
            wrong += bad
            some = [random_texts.cut_bytes(rng, t) for t in texts[-len(texts) // 10:]]
            wrong += self.encode_bytes(mica, some)
            lists = found[6:len(found) // 10] + [rng.choices(self.ids, k=rng.randrange(12)) for _ in range(len(texts) // 10)]
            wrong += self.decode(mica, lists, bool(k % 2))
            n_bytes += len(some)
            n_lists += len(lists)
        print(f"{self.name}: {count} texts, {n_bytes} of any bytes, {n_lists} lists of ids, {wrong} differences, {time.monotonic() - begin:.0f} s", flush=True)
        return wrong


def main():
    mica, unpacked, work = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else int(time.time())
    paths = sorted(unpacked.glob("*/tokenizer.json"))
    if not paths:
        random_texts.skip("no vocabulary")
    random_texts.install(work, "tokenizers==0.23.3")
    from tokenizers import Tokenizer
    print("seed", seed)
    rng = random.Random(seed)
    count = random_texts.count_of(100000)
    sys.exit(1 if sum(Vocabulary(p.parent.name, p.parent, p, Tokenizer.from_str).compare(mica, count, rng) for p in paths) else 0)


if __name__ == "__main__":
    main()
