#!/usr/bin/env python3
"""Small pipelines and what the tokenizers library does with them: writes cases.jsonl.

Needs `pip install tokenizers` (made with 0.23.3). The model of most cases has every character of
the texts twice, plain for the first of a piece and with ## for the others, and no merges: the ids
show the normalized text and where it was cut. A line has the parts of a tokenizer.json as JSON
text, the texts (a list, or a list of the first line), and for each text its ids with special
tokens added and parsed, its ids with neither, and the text of the first ids, special tokens kept
and skipped.
"""

import base64
import json
import sys
import unicodedata
from pathlib import Path

from tokenizers import Tokenizer

TEXTS = [
    "", " ", "   ", "Hello world", " Hello  world ", "a\tb\nc\r\nd  e\u00a0f\u3000g", "The-final--countdown",
    "--a--", "-", "abc123def4567", "١٢٣ Ⅷ ² ½ 12", "don't I'LL 'ſ K'S it's", "caf\u00e9 cafe\u0301 n\u0303 \u1e9b\u0323",
    "\u0301lead", "a\u0323\u0301 a\u0301\u0323", "ﬁ Å Ω ① Ａ", "İstanbul ΣΟΣ ǅ ẞ", "한국어 \u1112\u1161\u11ab", "漢字かなカナ、。〆",
    "a_b a·b a‿b x-y", "👩‍👩‍👧 👍🏽 ❤️", "\u0000\u0007\u007f\u0085\u200b\ufeff\ufffd x", "▁a ▁▁b a▁", "«q» “r” $5 + 6 = <7> ^`|~",
    "fooBarBaz HTTPServer XMLHttp", "line one\n\nline two\n  \n x", "  \n", "\n\n\n", "A1b2C3", "1234567 12 1",
    "word\u200cjoin\u200dx \u24b6\u24e9 \u1d43", "\u0378 unassigned \u180e mvs", "0x1F beef BEEF", "tail   ", "Ünïcödé ÉA éa",
]
MARKED = ["<s>a</s>", "a <mask> b", "x<mask>y <mask>", "<mask>", "foo foobar foo_ foo-foo éfoo foo1", "AbC abc ABC xAbCx",
          " <l> y", "a  <l><l>  b", "y <r>  z", "<r> <l>", "<s> <s>", "<b>x <b>", "<|a|><|a|b|>", "<|a|>b|>", "a\u00a0<l>\n<r>\u3000b"]


def characters(texts):
    found = set()
    for t in texts:
        for form in (t, t.lower(), *(unicodedata.normalize(f, t) for f in ("NFC", "NFD", "NFKC", "NFKD"))):
            found.update(form)
            found.update(unicodedata.normalize("NFD", form.lower()))
    found.update("▁ _#XYZxyz?")
    found.update(map(chr, range(0x21, 0x7f)))
    found.update(chr(c) for c in range(0xA1, 0x144) if c != 0xAD)
    return sorted(found)


CHARS = characters(TEXTS + MARKED)
VOCAB = {"<unk>": 0}
for c in CHARS:
    VOCAB[c] = len(VOCAB)
    VOCAB["##" + c] = len(VOCAB)
MODEL = {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": "##",
         "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
         "vocab": VOCAB, "merges": []}


def string(s):
    return {"String": s}


def regex(s):
    return {"Regex": s}


def split(pattern, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


def token(i, content, **flags):
    base = dict(single_word=False, lstrip=False, rstrip=False, normalized=False, special=False)
    return {"id": i, "content": content, **base, **flags}


def replace(pattern, content):
    return {"type": "Replace", "pattern": pattern, "content": content}


def metaspace(**kw):
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True, **kw}


def byte_level(prefix, use_regex):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": use_regex}


SPLIT_REGEXES = [
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"\w+|[^\w\s]+", r"\b", r"\B", r"\bfoo\b|\w+\b", r"\W", r"\d+", r"\D+", r"\h+", r"\H", r"\s", r"\S+", r"[^\S\n]+", r"[\s\d]+",
    r"[[:alpha:]]+", r"[[:alnum:]]+", r"[[:upper:]][[:lower:]]*", r"[[:punct:]]", r"[[:space:]]+", r"[[:word:]]+", r"[[:xdigit:]]{2}",
    r"[[:digit:][:upper:]]+", r"\p{Han}+", r"\p{Hiragana}|\p{Katakana}", r"\p{Letter}+", r"\p{Punct}", r"\p{^L}+", r"\P{L}+", r"[^\P{L}a]+",
    r"[\p{L}&&[^\p{Han}]]+", r"[\w&&[^\d_]]+", r"[a-z&&[aeiou]]", r"[\p{L}&&[^a-f]&&[^x-z]]+", r"[[a-c][x-z]]+", r"[^[a-c]x]+",
    r"\p{N}{2}+", r"\p{N}{1,2}+", r"[a-z]{2,}?", r"a{,2}", r"(?<=a)b|(?<!a)c", r"(?=[A-Z])", r"(?=(\d{3})+(?!\d))", r"(?<=[a-z])(?=[A-Z])",
    r"^", r"$", r"^\s+|\s+$", r"\A.|.\z", r".\Z", r".", r"(?m:.)+", r"a(?i)B|C", r"(?i:foo)", r"x(?i:Y)z", r"(?i)[a-c]+", r"(?>a+)b", r"(?<name>a)|b",
    r"\x41|\u0042|\x{43}", r"[\x41-\x43]", r"\t|\n|\r", r"[\-\]a]+", r"[-a]+", r"[a-]+", r"[]a]+", r"[+--]+", r"\$|\^|\.", r"a++|b*+c|d?+e",
    r"\{|\}|x{|a{b", r"(?#c)a" , r"(a|b)*?-", r"\p{L}\p{M}*", r"\p{Alpha}+|\p{Upper}", r"[\h]+", r"\e|\a|\f|\v",
    r"(?=\w)", r"x*", r"(?:-)*", r"[^(\s|.,!?…。，、।۔،)]+", r"\d{1,3}(?=(?:\d{3})*\b)",
]


def cases():
    for form in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt"):
        yield {"normalizer": {"type": form}}
    # U+11A7 lies before the first trailing consonant and is none.
    texts = ["\ud558\u11a7x", "\u1112\u1161\u11a7\u11ab", "\ud558\u11ab\u11a7", "\u11a7", "\u11a7\u11a7\u0301\u11c2\u11c3"]
    jamo = sorted({c for t in texts for form in ("NFC", "NFD") for c in unicodedata.normalize(form, t)} | set("".join(texts)))
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        yield {"normalizer": {"type": form}, "texts": texts,
               "model": {"type": "BPE", "vocab": {c: i for i, c in enumerate(jamo)}, "merges": [], "unk_token": None}}
    for left, right in ((True, True), (True, False), (False, True)):
        yield {"normalizer": {"type": "Strip", "strip_left": left, "strip_right": right}}
    yield {"normalizer": {"type": "Prepend", "prepend": "_"}}
    yield {"normalizer": replace(string("a"), "xy")}
    yield {"normalizer": replace(regex(r"\s+"), " ")}
    yield {"normalizer": replace(regex(r"x*"), "Z")}
    yield {"normalizer": replace(regex(r"[aeiou]"), "")}
    yield {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"}, {"type": "Lowercase"}]}}
    yield {"normalizer": {"type": "Sequence", "normalizers": []}}
    yield {"normalizer": {"type": "ByteLevel"}}
    for behavior in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
        for invert in (False, True):
            yield {"pre_tokenizer": split(string("-"), behavior, invert)}
            yield {"pre_tokenizer": split(regex(r"[\s-]"), behavior, invert)}
        yield {"pre_tokenizer": split(regex(r"(?=[A-Z])"), behavior)}
    for pattern in SPLIT_REGEXES:
        yield {"pre_tokenizer": split(regex(pattern))}
    for prefix in (False, True):
        for use_regex in (False, True):
            yield {"pre_tokenizer": byte_level(prefix, use_regex), "decoder": byte_level(True, True)}
    yield {"pre_tokenizer": {"type": "Digits", "individual_digits": True}}
    yield {"pre_tokenizer": {"type": "Digits", "individual_digits": False}}
    for behavior in ("Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext"):
        yield {"pre_tokenizer": {"type": "Punctuation", "behavior": behavior}}
    for name in ("Whitespace", "WhitespaceSplit"):
        yield {"pre_tokenizer": {"type": name}}
    yield {"pre_tokenizer": {"type": "CharDelimiterSplit", "delimiter": "-"}}
    yield {"pre_tokenizer": {"type": "FixedLength", "length": 3}}
    for scheme in ("always", "first", "never"):
        for cut in (True, False):
            yield {"pre_tokenizer": metaspace(prepend_scheme=scheme, split=cut), "decoder": metaspace(prepend_scheme=scheme)}
        yield {"normalizer": {"type": "Strip", "strip_left": True, "strip_right": False}, "pre_tokenizer": metaspace(prepend_scheme=scheme)}
        yield {"normalizer": replace(string("-"), ""), "pre_tokenizer": metaspace(prepend_scheme=scheme)}
        yield {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [split(string("a"), "Removed"), metaspace(prepend_scheme=scheme)]},
               "added_tokens": [token(9001, "<s>", special=True)]}
    yield {"pre_tokenizer": metaspace(replacement="_"), "decoder": metaspace(replacement="_")}
    yield {"pre_tokenizer": {"type": "Sequence", "pretokenizers": []}}
    yield {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [split(regex(r"\p{N}{1,3}")), split(regex(r"[一-龥぀-ゟ゠-ヿ]+")),
           {"type": "Digits", "individual_digits": True}, {"type": "Punctuation", "behavior": "Isolated"}, byte_level(False, True)]}}
    # Added tokens: every flag, alone and together.
    for normalizer in (None, {"type": "Lowercase"}, {"type": "Prepend", "prepend": "▁"}):
        for special in (False, True):
            for normalized in (False, True):
                flags = dict(special=special, normalized=normalized)
                yield {"normalizer": normalizer, "added_tokens": [
                    token(9001, "<s>", **flags), token(9002, "</s>", **flags), token(9003, "<mask>", lstrip=True, **flags),
                    token(9004, "foo", single_word=True, **flags), token(9005, "AbC", **flags), token(9006, "<l>", lstrip=True, **flags),
                    token(9007, "<r>", rstrip=True, **flags), token(9008, "<b>", lstrip=True, rstrip=True, **flags),
                    token(9009, "<|a|>", **flags), token(9010, "<|a|b|>", **flags), token(9011, "xA", **flags)]}
    yield {"added_tokens": [token(9001, "<s>", special=True), token(9002, "foo"), token(9003, "foobar", normalized=True), token(9004, "ab", normalized=True)]}
    both = ["foo", "a foo b", "foo  foo bar", "xfoo foo", "foo\n foo1", " foo ", "éfoo  foo_", "foo-foo"]
    for left, right in ((True, False), (False, True), (True, True)):
        for normalized in (False, True):
            yield {"normalizer": {"type": "Lowercase"}, "texts": [*both, *(t.upper() for t in both)], "decoder": {"type": "Fuse"},
                   "added_tokens": [token(9001, "foo", single_word=True, lstrip=left, rstrip=right, normalized=normalized)]}
    # Post-processors.
    added = [token(9001, "<s>", special=True), token(9002, "</s>", special=True)]
    def special_ids(*names):
        return {n: {"id": n, "ids": [len(VOCAB) + k], "tokens": [n]} for k, n in enumerate(names)}
    def template(*items):
        return {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}} if i == "$A" else {"SpecialToken": {"id": i, "type_id": 0}} for i in items],
                "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}], "special_tokens": special_ids("<s>", "</s>")}
    yield {"added_tokens": added, "post_processor": template("<s>", "$A")}
    yield {"added_tokens": added, "post_processor": template("<s>", "$A", "</s>", "</s>")}
    yield {"added_tokens": added, "post_processor": {"type": "Sequence", "processors": [byte_level(True, True), template("</s>", "$A", "</s>")]}}
    many = template("<s>", "$A", "</s>")
    many["special_tokens"]["</s>"] = {"id": "</s>", "ids": [len(VOCAB) + 1, len(VOCAB), len(VOCAB) + 1], "tokens": ["</s>", "<s>", "</s>"]}
    yield {"added_tokens": added, "post_processor": many}
    yield {"added_tokens": added, "post_processor": template("$A", "</s>", "<s>")}
    yield {"added_tokens": added, "post_processor": {"type": "Sequence", "processors": []}}
    pair = {"sep": ["</s>", len(VOCAB) + 1], "cls": ["<s>", len(VOCAB)]}
    yield {"added_tokens": added, "post_processor": {"type": "BertProcessing", **pair}}
    yield {"added_tokens": added, "post_processor": {"type": "RobertaProcessing", "trim_offsets": True, "add_prefix_space": False, **pair}}
    yield {"decoder": {"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 2, "stop": 0}]}}
    yield {"decoder": {"type": "Sequence", "decoders": []}}
    # Decoders; "##" stays in the tokens' texts.
    for d in (replace(string("##"), ""), replace(regex(r"#+"), "_"), {"type": "Fuse"}, {"type": "Strip", "content": "#", "start": 2, "stop": 0},
              {"type": "Strip", "content": "#", "start": 1, "stop": 1}):
        yield {"decoder": d}
        if d["type"] == "Fuse":
            continue
        yield {"decoder": {"type": "Sequence", "decoders": [d, {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}}
    # Models.
    letters = {c: i for i, c in enumerate(["<unk>", *"abcdefgh ", "ab", "bc", "abc", "cd", "abcd", "<0xC3>", "<0xA9>", "<0x21>"])}
    def bpe(merges, vocab=letters, **kw):
        return {**MODEL, "continuing_subword_prefix": None, "vocab": vocab, "merges": merges, **kw}
    texts = ["abcd", "abcabcd", "aabbccdd", "xab", "abxyc", "ééa", "a!b?é", "bcd abc", "aaaaaaa", "zzz"]
    order = [["a b", "b c", "ab c", "c d", "ab cd"], ["b c", "a b", "a bc", "c d", "ab cd"], [["c", "d"], ["a", "b"], ["ab", "cd"], ["b", "c"]]]
    for merges in order + [["a b", "b c", "a b", "ab c"], ["#version: 0.2", "a b"]]:
        yield {"model": bpe(merges), "texts": texts}
        yield {"model": bpe(merges, fuse_unk=True), "texts": texts}
        yield {"model": bpe(merges, unk_token=None), "texts": texts}
    yield {"model": bpe(order[0], byte_fallback=True, unk_token=None), "texts": texts}
    # The mark of a space where no pre-tokenizer cuts at it: unknown itself, a token, in the middle of tokens.
    marked = ["xx▁yy▁▁cd", "x▁", "▁▁x", "ab▁cd▁ab", "▁ab▁▁cd", "a▁b▁c▁d", "b▁▁b", "▁a▁a▁a▁ab", "x▁ab▁x▁▁y"]
    yield {"model": bpe(order[0], fuse_unk=True), "texts": marked}
    with_mark = {**letters, **{t: len(letters) + i for i, t in enumerate(["▁", "▁a", "▁ab", "▁▁", "b▁", "b▁c", "a▁"])}}
    for merges in (["a b", "▁ a", "▁ ab", "▁ ▁"], ["a b", "b ▁", "▁ a", "▁ ▁", "b▁ c"], ["▁ ▁", "a ▁", "a b", "▁ ab"]):
        for fuse in (False, True):
            yield {"model": bpe(merges, with_mark, fuse_unk=fuse), "texts": [*marked, *marked]}
    yield {"model": bpe(["b c"], ignore_merges=True), "texts": texts, "pre_tokenizer": {"type": "WhitespaceSplit"}}
    suffixed = {c: i for i, c in enumerate(["<unk>", *"abcd", "a</w>", "b</w>", "c</w>", "d</w>", "ab</w>", "ab", "abc</w>", "cd</w>"])}
    yield {"model": bpe(["a b</w>", "a b", "ab c</w>", "c d</w>"], suffixed, end_of_word_suffix="</w>"), "texts": texts, "pre_tokenizer": {"type": "WhitespaceSplit"}}
    framed = {c: i for i, c in enumerate(["<unk>", "a", "##a", "##b", "##b</w>", "a</w>", "b</w>", "##c", "ab</w>", "##bc", "abc", "##d</w>", "b"])}
    yield {"model": bpe(["a ##b</w>", "##b ##c", "a ##bc"], framed, continuing_subword_prefix="##", end_of_word_suffix="</w>"), "texts": [*texts, "ab", "abcd abc", "a b"],
           "pre_tokenizer": {"type": "WhitespaceSplit"}}
    hashed = {c: i for i, c in enumerate(["<unk>", *"abcd", "##a", "##b", "##c", "##d", "ab", "##cd", "abcd", "##bc"])}
    yield {"model": bpe(["a ##b", "##c ##d", "ab ##cd", "##b ##c"], hashed, continuing_subword_prefix="##"), "texts": texts, "pre_tokenizer": {"type": "WhitespaceSplit"}}


    yield from other_models()


def charsmap(pairs):
    """A precompiled_charsmap as SentencePiece's files hold it: a XOR double array and the texts."""
    texts, units, tree = b"", {0: 0}, {}
    for key, value in pairs:
        node = tree
        for byte in key.encode():
            node = node.setdefault(byte, {})
        node[None] = len(texts)
        texts += value.encode() + b"\0"
    def place(node):
        base = next(b for b in range(1, 1 << 20) if all((b ^ (c or 0)) not in units for c in (None, *node)))
        units[base] = 1 << 31 | node.get(None, 0)
        for byte in node:
            if byte is not None:
                units[base ^ byte] = None
        for byte, child in node.items():
            if byte is not None:
                units[base ^ byte] = (base ^ byte ^ place(child)) << 10 | (None in child) << 8 | byte
        return base
    units[0] = place(tree) << 10
    table = b"".join(units.get(i, 0).to_bytes(4, "little") for i in range((max(units) | 255) + 1))
    return base64.b64encode(len(table).to_bytes(4, "little") + table + texts).decode()


def other_models():
    """Unigram, WordPiece, WordLevel and the steps that come with them."""
    for clean in (False, True):
        for chinese in (False, True):
            for accents in (None, False, True):
                for lower in (False, True):
                    yield {"normalizer": {"type": "BertNormalizer", "clean_text": clean, "handle_chinese_chars": chinese, "strip_accents": accents, "lowercase": lower},
                           "pre_tokenizer": metaspace(prepend_scheme="first")}
    yield {"pre_tokenizer": {"type": "BertPreTokenizer"}}
    yield {"pre_tokenizer": {"type": "UnicodeScripts"}}
    scripts = ["a,b かなカナー漢字ｱ", "  a", "абв abc αβγ", "\u0301a\u0301", "ا،ب", "x\u0378y \ue000 z", "한국어 ไทย हिन्दी", "1 ²x", "ー", "\u0378\u0378 a", "𐀀𝒜a"]
    yield {"pre_tokenizer": {"type": "UnicodeScripts"}, "texts": scripts}
    maps = [("ﬁ", "fi"), ("①", "1"), ("Ａ", "A"), ("\u00a0", " "), ("\u3000", " "), ("\u0007", ""), ("a\u0301", "á"), ("\r", " "), ("e", "E"), ("e\u0301", "Ë"), ("ァ", "xyz"), ("\u200d", "")]
    for pairs in (maps, maps[:4]):
        precompiled = {"type": "Precompiled", "precompiled_charsmap": charsmap(pairs)}
        texts = [*TEXTS, "\u0007\u0007 a", "\u0007a", "a\u0301\u0302e\u0301\u0301", "\r\n\r", "ァァ①ﬁ", "e\u0301\u0327\u0301\u0301"]
        for scheme in ("always", "first"):
            yield {"normalizer": precompiled, "pre_tokenizer": metaspace(prepend_scheme=scheme), "texts": texts}
        yield {"normalizer": {"type": "Sequence", "normalizers": [precompiled, replace(regex(" {2,}"), " ")]}, "texts": texts}
    # Unigram.
    pieces = [["<unk>", 0.0], ["▁", -2.0], ["▁a", -3.1], ["a", -2.5], ["b", -2.5], ["ab", -4.0], ["▁ab", -4.9], ["abc", -7.2], ["c", -3.0], ["bc", -5.1],
              ["é", -4.0], ["aa", -4.9], ["aaa", -7.4], ["<0xC3>", -9.0], ["<0xA9>", -9.0], ["<0x21>", -9.0], ["d", -3.0], ["cd", -6.0], ["dup", -1.0], ["dup", -2.0], ["", -1.0]]
    texts = ["abc", "a b  ab abcabc", "aaaaaaa", "abxyc", "xy", "é!é?", "x!y", "!", "dup", "<unk>", "a<unk>x", "", " ", "abcd abcabcd", "🙂", "\u00e9\u0301"]
    space = metaspace()
    for fallback in (False, True):
        for pre in (None, space):
            yield {"model": {"type": "Unigram", "unk_id": 0, "vocab": pieces, "byte_fallback": fallback}, "pre_tokenizer": pre, "decoder": space, "texts": texts}
    yield {"model": {"type": "Unigram", "unk_id": 0, "vocab": [[p, 1.5 + s] for p, s in pieces], "byte_fallback": False}, "texts": texts}
    ascii_texts = ["abc", "aab", "cabd", "", "dcba"]
    yield {"model": {"type": "Unigram", "unk_id": None, "vocab": pieces[1:], "byte_fallback": False}, "texts": ascii_texts}
    yield {"model": {"type": "Unigram", "unk_id": 3, "vocab": pieces, "byte_fallback": True}, "pre_tokenizer": space, "texts": texts}
    yield {"model": {"type": "Unigram", "unk_id": 0, "vocab": pieces, "byte_fallback": True}, "pre_tokenizer": space, "texts": ["a<s>b", "<s>", "x<mask> b", "abc</s>ab"],
           "added_tokens": [token(0, "<s>", special=True), token(0, "<mask>", lstrip=True, special=True), token(0, "ab", normalized=True)], "decoder": space}
    # WordPiece and WordLevel.
    words = {c: i for i, c in enumerate(["[UNK]", "[CLS]", "[SEP]", "un", "##aff", "##able", "a", "##a", "##b", "ab", "##bc", "abc", ",", ".", "é", "##é", "n", "##'t", "don", "'", "t", "漢", "not", "do", "s", "##s"])}
    texts = ["unaffable", "unaffablex", "abc ab aba abbc", "a,b. abc.", "éé aé", "漢字漢", "don't do not", "x", "a" * 7, "ab" * 60, "", " ", "a a a", "UNaffable"]
    for prefix in ("##", "", "a"):
        for most in (100, 3):
            yield {"model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": prefix, "max_input_chars_per_word": most, "vocab": words}, "texts": texts,
                   "pre_tokenizer": {"type": "BertPreTokenizer"}, "decoder": {"type": "WordPiece", "prefix": prefix or "##", "cleanup": most == 100}}
    piece = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": words}
    yield {"model": piece, "texts": ["abc [CLS] ab", "[SEP]", "ab"], "pre_tokenizer": {"type": "BertPreTokenizer"}, "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
           "added_tokens": [token(0, "[CLS]", special=True), token(0, "[SEP]", special=True), token(0, "[UNK]", special=True)],
           "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
                              "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
                              "special_tokens": {n: {"id": n, "ids": [words[n]], "tokens": [n]} for n in ("[CLS]", "[SEP]")}},
           "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True}}
    level = {"type": "WordLevel", "unk_token": "[UNK]", "vocab": {**words, "n't": 90, "'m": 91, "'": 92, "not": 93, "|": 94, "<pad>": 95, "t.": 96, "##": 97, "x</w>": 98, "</w>y</w>": 99, "a|": 100}}
    texts = ["a , b . do not n't 'm ' don ' t", "abc", "zzz abc", "a a a ab ab | <pad> a <pad> <pad> a | a||b ' a ' .", "x</w> x</w> </w>y</w> </w>y</w>", "x</w>", "## ##a a## t. , .", "do n't do not , ' ."]
    pre = {"type": "WhitespaceSplit"}
    for d in (None, {"type": "WordPiece", "prefix": "##", "cleanup": True}, {"type": "WordPiece", "prefix": "##", "cleanup": False}, {"type": "BPEDecoder", "suffix": "</w>"}, {"type": "BPEDecoder", "suffix": "a"},
              {"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": True}, {"type": "CTC", "pad_token": "a", "word_delimiter_token": "|", "cleanup": False},
              {"type": "Sequence", "decoders": [replace(string("a"), "b"), {"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": True}]},
              {"type": "Sequence", "decoders": [replace(string("a"), "b"), {"type": "BPEDecoder", "suffix": "</w>"}]}):
        yield {"model": level, "pre_tokenizer": pre, "decoder": d, "texts": texts}
    for model in (level, piece, {"type": "Unigram", "unk_id": 0, "vocab": pieces, "byte_fallback": False}):
        untyped = {k: v for k, v in model.items() if k != "type"}
        yield {"model": untyped, "pre_tokenizer": pre, "texts": ["abc ab zz"]}


def main():
    out = Path(__file__).with_name("cases.jsonl").open("w")
    def put(value):
        out.write(json.dumps(value, ensure_ascii=True, separators=(",", ":")) + "\n")
    put({"model": json.dumps(MODEL, ensure_ascii=False), "TEXTS": TEXTS, "MARKED": MARKED})
    n = 0
    for case in cases():
        parts = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": None,
                 "post_processor": None, "decoder": {"type": "Fuse"}, "model": MODEL}
        texts = case.pop("texts", None) or (MARKED if case.get("added_tokens") else TEXTS)
        parts.update(case)
        for k, entry in enumerate(parts["added_tokens"]):
            entry["id"] = len(parts["model"]["vocab"]) + k
        try:
            tokenizer = Tokenizer.from_str(json.dumps(parts))
        except BaseException as e:
            print("refused by the library:", json.dumps(case)[:200], e, file=sys.stderr)
            continue
        tokenizer.encode_special_tokens = False
        ids = [tokenizer.encode(t).ids for t in texts]
        tokenizer.encode_special_tokens = True
        plain = [tokenizer.encode(t, add_special_tokens=False).ids for t in texts]
        # Without the normalizer: 0.23 prints normalized tokens in their normalized form, which is a
        # regression that is not wanted here.
        decoder = Tokenizer.from_str(json.dumps({**parts, "normalizer": None}))
        line = {k: json.dumps(v, ensure_ascii=False) for k, v in case.items()}
        line["texts"] = "TEXTS" if texts is TEXTS else "MARKED" if texts is MARKED else texts
        line["ids"] = ids
        line["plain"] = "same" if plain == ids else plain
        if "decoder" in case or "added_tokens" in case:
            line["decoded"] = [decoder.decode(i, skip_special_tokens=False) for i in ids]
            line["skipped"] = [decoder.decode(i, skip_special_tokens=True) for i in ids]
        put(line)
        n += 1
    print(n, "cases", file=sys.stderr)


main()
