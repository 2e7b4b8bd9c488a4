#!/usr/bin/env python3
"""The pieces that the pre-tokenizers named in GGUF files make, by Oniguruma: writes pre.jsonl.

Needs `pip install tokenizers` (made with 0.23.3). The patterns are those of the models' own
tokenizer.json files, here in their original spelling. First line: the texts. Then a line per
name: the pieces of each text.
"""

import json
import sys
import unicodedata
from pathlib import Path

from tokenizers import Regex, pre_tokenizers

I = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = I + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = I + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN35 = I + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
U, W = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"


def o200k(number, tail=I + "?", slash="/"):
    return (rf"[^\r\n\p{{L}}\p{{N}}]?{U}*{W}+{tail}|[^\r\n\p{{L}}\p{{N}}]?{U}+{W}*{tail}|{number}"
            rf"| ?[^\s\p{{L}}\p{{N}}]+[\r\n{slash}]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def kimi():
    u, w = (s[:-1] + r"&&[^\p{Han}]]" for s in (U, W))
    return (r"[\p{Han}]+|" + o200k(r"\p{N}{1,3}", slash="").replace(U, u).replace(W, w))


CJK = "[一-龥぀-ゟ゠-ヿ]+"
V3 = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
SPARK = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+"""
BLOOM = r" ?[^(\s|.,!?…。，、।۔،)]+"
CASED = """41–5A 61–7A B5 C0–D6 D8–F6 F8–1BA 1BC–1BF 1C4–293 295–2AF 370–373 376–377 37B–37D 37F 386 388–38A
38C 38E–3A1 3A3–3F5 3F7–481 48A–52F 531–556 10A0–10C5 13A0–13F5 13F8–13FD 1C90–1CBA 1CBD–1CBF
1D00–1D2B 1D6B–1D77 1D79–1D9A 1E00–1F15 1F18–1F1D 1F20–1F45 1F48–1F4D 1F50–1F57 1F59 1F5B 1F5D
1F5F–1F7D 1F80–1FB4 1FB6–1FBC 1FBE 1FC2–1FC4 1FC6–1FCC 1FD0–1FD3 1FD6–1FDB 1FE0–1FEC 1FF2–1FF4
1FF6–1FFC 2102 2107 210A–2113 2115 2119–211D 2124 2126 2128 212A–212D 212F–2134 2139 213C–213F
2145–2149 214E 2183–2184 2C00–2C7B 2C7E–2CE4 2CEB–2CEE 2CF2–2CF3 A640–A66D A680–A69B A722–A76F
A771–A787 A78B–A78E AB70–ABBF FB00–FB06 FB13–FB17 FF21–FF3A FF41–FF5A 10400–1044F 104B0–104D3
104D8–104FB 10C80–10CB2 10CC0–10CF2 118A0–118DF 1E900–1E943"""
CASED = "[" + "".join("-".join(chr(int(x, 16)) for x in r.split("–")) for r in CASED.split()) + "]"
SPACES = "".join(rf"\s{{{2 ** k}}}(?!\S)|" for k in range(9, 1, -1)) + r"\s{1,2}(?!\S)|\s{1}"

PIPELINES = {
    "default": [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"],
    "llama3": [LLAMA3], "llama-bpe": [LLAMA3], "dbrx": [LLAMA3], "glm4": [LLAMA3],
    "qwen2": [QWEN2], "stablelm2": [QWEN2], "qwen35": [QWEN35],
    "laguna": [r"[^\n]+|[\n]+", QWEN2], "ufakzeka": [QWEN2[len(I) + 1:]],
    "seed-coder": [I + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "bailingmoe": [QWEN2.replace(r"\s*[\r\n]+", r"\s*[\r\n]")],
    "exaone-moe": [I + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"],
    "jais-2": [LLAMA3.replace(r"\s+(?!\S)|\s+", SPACES)],
    "tekken": [o200k(r"\p{N}", tail="")], "gpt-4o": [o200k(r"\p{N}{1,3}")],
    "tiny_aya": [r"\d{1,3}(?=(?:\d{3})*\b)", o200k(r"\p{N}{1,3}")], "kimi-k2": [kimi()],
    "youtu": ["[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+", o200k(r"\p{N}")],
    "deepseek-v3": [r"\p{N}{1,3}", CJK, V3], "spark2_5": [r"\p{N}{1,3}", CJK, SPARK, r"\p{N}"],
    "deepseek-llm": [r"[\r\n]", r"\s?" + CASED + "+", r"\s?[!-/:-~！-／：-～‘-‟\u3000-。]+", r"\s+$", "[一-龥\u0800-一가-\ud7ff]+", r"\p{N}+"],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥\u0800-一가-\ud7ff]+", r"\p{N}"],
    "minicpm5": [r"\p{N}{1,3}", LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}+")],
    "gpt-2": [GPT2], "mpt": [GPT2], "smollm": [r"\p{N}", GPT2], "command-r": [r"\p{N}", GPT2],
    "superbpe": [r"\p{N}+", r"(?=(\d{3})+(?!\d))"],
    "falcon": [r"[\p{P}\$\+<=>\^~\|`]+", GPT2, r"[0-9][0-9][0-9]"],
    "bloom": [BLOOM], "viking": [BLOOM, r"\p{N}"],
}

# Other names of the same pieces, and what comes with a name: a bos token, pieces that are tokens left whole.
ALIASES = {
    "llama-bpe": "llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano", "dbrx": "smaug-bpe chatglm-bpe", "glm4": "glm5",
    "qwen2": "deepseek-r1-qwen hunyuan megrez solar-open grok-2 kormo f2llmv2", "bailingmoe": "bailingmoe2 llada-moe",
    "gpt-4o": "llama4 kanana2 talkie minimax-m2 granite-embed-multi-97m", "tiny_aya": "cohere2moe", "deepseek-v3": "hunyuan-dense joyai-llm hy_v4",
    "gpt-2": "phi-2 olmo jais trillion granite-docling gigachat mellum a.x-4.0 exaone4 modern-bert jina-v1-en jina-v2-code roberta-bpe jina-v2-es jina-v2-de",
    "smollm": "starcoder refact codeshell exaone minerva-7b mellum2", "bloom": "poro-chat gpt3-finnish",
}
BOS = "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano tekken".split()
WHOLE = [*BOS, "glm4", "glm5", "granite-embed-multi-97m", "youtu", "minicpm5"]

EXTRA = ["12345678 1,234,567 1234567890123", "日本語テキスト、漢字。한국어 ㄅㄆ ㄱㄴ", "éA Ünï ÀÉ naïve ÉCOLE", "a/b//c/\n/d", "x  \n\n  y   \n z",
         "«a» “b”… — 、。〆", "foo   bar\n\n\n", "k" + " " * 700 + "x", "Ⅷ² ½ ①", "e\u0301a\u0323 \u0301", "a。b，c!d।e۔f،g", "ſ 'ſ K'S don'T we'LL"]


def main():
    corpus = Path(__file__).parents[1] / "golden" / "tokens" / "corpus.jsonl"
    texts = EXTRA + [t for t in map(json.loads, corpus.open()) if t and len(t) < 60][::3]
    # Engines differ in their version of Unicode: leave out what 14.0 does not assign.
    texts = [t for t in texts if not any(unicodedata.category(c) == "Cn" for c in t)]
    assert unicodedata.unidata_version == "14.0.0"
    with Path(__file__).with_name("pre.jsonl").open("w") as out:
        def put(value):
            out.write(json.dumps(value, separators=(",", ":")) + "\n")
        put({"texts": texts})
        for name, patterns in PIPELINES.items():
            steps = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(p), "isolated") for p in patterns])
            names = [name, *ALIASES.get(name, "").split()]
            put({"names": [[n, n in BOS, n in WHOLE] for n in names], "pieces": [[len(s.encode()) for s, _ in steps.pre_tokenize_str(t)] for t in texts]})
    print(len(PIPELINES), "names,", len(texts), "texts", file=sys.stderr)


main()
