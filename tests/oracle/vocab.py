"""Builds `tokenizers` pipelines from a GGUF vocabulary, by the rules that GGUF names imply.

Transformers' own conversion of a gpt2 vocabulary ignores tokenizer.ggml.pre, so the digit
split of the smollm pre-tokenizer is lost; here it is built explicitly. The SentencePiece kind
becomes rank BPE: merges are all splits of a token into two tokens, best score first, which
gives the same result as merging by score as long as no two tokens share a score and a split.
"""

from gguf import GGUFReader
from tokenizers import AddedToken, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import BPE

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6


def read_vocab(path):
    fields = GGUFReader(path).fields
    return {k.removeprefix("tokenizer.ggml."): f.contents()
            for k, f in fields.items() if k.startswith("tokenizer.ggml.")}


def added_tokens(v):
    """Control and unknown tokens are special, user-defined ones are only split off first."""
    return [AddedToken(text, special=kind != USER_DEFINED, normalized=False)
            for text, kind in zip(v["tokens"], v["token_type"])
            if kind in (UNKNOWN, CONTROL, USER_DEFINED)]


def bos_processor(v, default):
    if not v.get("add_bos_token", default):
        return None
    bos = v["bos_token_id"]
    text = v["tokens"][bos]
    return processors.TemplateProcessing(single=f"{text} $A", pair=f"{text} $A {text} $B",
                                         special_tokens=[(text, bos)])


def byte_level(v):
    pre = v["pre"]
    assert pre in ("smollm", "gpt-2"), f"no rule for pre-tokenizer {pre}"
    merges = [tuple(m.split(" ")) for m in v["merges"]]
    tok = Tokenizer(BPE(vocab={t: i for i, t in enumerate(v["tokens"])}, merges=merges))
    gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tok.pre_tokenizer = gpt2 if pre == "gpt-2" else pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), gpt2])
    tok.decoder = decoders.ByteLevel()
    return tok, bos_processor(v, False)


def merges_by_score(v):
    ids = {t: i for i, t in enumerate(v["tokens"])}
    merges = []
    for i, (text, kind) in enumerate(zip(v["tokens"], v["token_type"])):
        if kind != NORMAL:
            continue
        for cut in range(1, len(text)):
            left, right = text[:cut], text[cut:]
            if left in ids and right in ids:
                merges.append((-v["scores"][i], ids[left], ids[right], left, right))
    merges.sort(key=lambda m: m[:3])
    return [m[3:] for m in merges]


def sentencepiece(v):
    assert not v.get("add_space_prefix", True), "a space prefix is not modelled here"
    tok = Tokenizer(BPE(vocab={t: i for i, t in enumerate(v["tokens"])},
                        merges=merges_by_score(v), byte_fallback=True, fuse_unk=True,
                        unk_token=v["tokens"][v["unknown_token_id"]]))
    tok.normalizer = normalizers.Replace(" ", "\u2581")
    tok.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(),
                                     decoders.Fuse()])
    return tok, bos_processor(v, True)


def tokenizer_of_gguf(path):
    v = read_vocab(path)
    tok, post = byte_level(v) if v["model"] == "gpt2" else sentencepiece(v)
    tok.add_tokens([t for t in added_tokens(v) if not t.special])
    tok.add_special_tokens([t for t in added_tokens(v) if t.special])
    if post is not None:
        tok.post_processor = post
    return tok
