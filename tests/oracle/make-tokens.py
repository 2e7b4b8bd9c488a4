#!/usr/bin/env python3
"""Token ids of a corpus of awkward strings, by the `tokenizers` library.

Runs in venv-hf. corpus.jsonl has one JSON string a line. For each vocabulary: NAME.jsonl holds
an array of ids a line (special tokens added by the tokenizer itself), NAME.plain.jsonl the
same without them, NAME.decoded.jsonl the decoded text of NAME.plain.jsonl's ids with special
tokens kept. Vocabularies: the tokenizer.json files of the shared folder (skipped where it is
absent), the two starters rebuilt from their GGUF (vocab.py), and the tiny one in the tree.
"""

import argparse
import gzip
import json
import random
import subprocess
import sys
from pathlib import Path

from tokenizers import Tokenizer

import common
import vocab

SHARED = ("gemma3", "llama2", "llama3_1", "qwen3")
STARTERS = ("smollm2", "gemma3-270m")

SCRIPTS = {
    "latin": "The quick brown fox can't jump over 13 lazy dogs; it's ridiculous.",
    "latin-ext": "Žluťoučký kůň pěl ďábelské ódy. Îți mulțumesc, façade naïve, Ærøskøbing, ẞ ß",
    "greek": "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία.",
    "cyrillic": "Съешь ещё этих мягких французских булок, да выпей чаю.",
    "hebrew": "דג סקרן שט בים מאוכזב ולפתע מצא חברה",
    "arabic": "نص حكيم له سر قاطع وذو شأن عظيم مكتوب على ثوب أخضر ١٢٣٤",
    "devanagari": "ऋषियों को सताने वाले दुष्ट राक्षसों के राजा १२३",
    "bengali": "আমি বাংলায় গান গাই",
    "tamil": "யாதும் ஊரே யாவரும் கேளிர்",
    "thai": "เป็นมนุษย์สุดประเสริฐเลิศคุณค่า",
    "georgian": "ვეპხის ტყაოსანი შოთა რუსთაველი",
    "armenian": "Բել դղյակի ձախ ժամն օֆ ազգությանը",
    "amharic": "ሰማይ አይታረስ ንጉሥ አይከሰስ",
    "han": "視野無限廣，窗外有藍天。汉字简体与繁體",
    "kana": "いろはにほへと ちりぬるを　カタカナ ﾊﾝｶｸ",
    "hangul": "다람쥐 헌 쳇바퀴에 타고파 한글 \u1112\u1161\u11ab",
    "khmer": "ខ្ញុំអាចញ៉ាំកញ្ចក់បាន",
    "mixed": "Hello мир 世界 שלום नमस्ते 🌍!",
}
CODE = [
    "def f(x):\n    return x ** 2  # square\n\n\nclass A(B):\n\tpass\n",
    "for (size_t i = 0; i < n; ++i) { sum += a[i]*b[i]; }",
    "SELECT * FROM t WHERE a >= 10 AND b <> 'it''s';",
    "<div class=\"x\">&nbsp;<br/></div>\n<!-- comment -->",
    "{\"a\": [1, 2.5e-10, null, true], \"b\": {\"c\": \"\\u00e9\\n\"}}",
    "#!/bin/sh\nset -eu\nprintf '%s\\n' \"${x:-$(date +%s)}\" | sed -e 's/^\\s*//'\n",
    "fn main() -> Result<(), Box<dyn Error>> { let v: Vec<_> = (0..10).collect(); Ok(()) }",
    "\\frac{\\partial L}{\\partial w_{ij}} = \\sum_k \\delta_k^{(l)}",
    "https://example.org/a/b?c=d&e=%20f#g user@example.com C:\\Users\\x\\file.txt",
    "x=0x1F; y=0b1010; z=1_000_000; e=6.02e23; v=1.2.3-rc.1+b7",
    "camelCaseAndPascalCase snake_case_name SCREAMING_SNAKE kebab-case-name HTTPServerError2XX",
    "diff --git a/x b/x\n@@ -1,3 +1,4 @@\n-old\n+new\n context\n",
    "if(a&&b||!c){d?e:f;}//x/*y*/[[z]]{{w}}((v))<<<>>>===!==",
]
SPACES = [
    "", " ", "  ", "   ", "    ", " " * 7, " " * 16, " " * 31, " " * 33, "\t", "\t\t", "\n", "\n\n",
    "\n\n\n", "\r", "\r\n", "\r\n\r\n", " \n", "\n ", " \n \n ", "\t\n\t", "a\tb", "a \tb", "a\t b",
    "a\u00a0b", "a\u00a0\u00a0b", "\u00a0", "a\u3000b", "a\u2003b", "a\u2028b\u2029c", "a\u0085b",
    "a\u200bb", "a\ufeffb", "\ufeffstart", "a\u180eb", "a\u1680b", "a\u202fb", "\x0b\x0c",
    " leading", "  two leading", "trailing ", "trailing  ", "a  b   c    d     e",
    "line one\nline two\r\nline three\rline four", "end with newline\n", "\nstart with newline",
    "    indented\n        twice\n\tand a tab", "a\n\n\n\nb", " \t \n \r\n x",
    "word\n  \n  word", "...   !!!   ???", "tab\tsep\tvalues\n1\t2\t3",
]
UNICODE = [
    "👩‍👩‍👧", "👩‍👩‍👧‍👦 family", "👍🏽👍🏿", "🇫🇷🇩🇪🇯🇵", "❤️ ❤ ☕️", "1️⃣2️⃣3️⃣", "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "🤷🏻‍♀️ shrug", "🦄🐙🧿", "e\u0301 é", "n\u0303 ñ", "a\u0308\u0301\u0328", "Z\u0351\u036b\u0343\u036a\u0302\u036b\u033da\u0334l\u0321g\u031bo",
    "\u0301leading mark", "ﬁ ﬂ ﬀ ﬃ", "Å Å Å", "Ω Ω", "½ ¼ ²³¹ ₁₂ Ⅷ ⅷ ①②", "١٢٣ ۱۲۳ १२३ ๑๒๓ 123",
    "ⅠⅡⅢ 〇一二三 ㊀", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝒽𝑒𝓁𝓁𝑜 𝟘𝟙𝟚", "ＦＵＬＬ　ＷＩＤＴＨ １２３", "ǅ ǆ Ǆ ŉ ſ K (Kelvin)", "İstanbul ıI iİ", "ΌΣΟΣ όσος ς",
    "\u202eright to left\u202c", "\u2066isolate\u2069", "a\u00adb soft", "\u200d\u200d", "\u200c",
    "\ufffd", "\ufffd\ufffd", "\U0010ffff", "\ue000\uf8ff", "\U000f0000", "\u0378", "▁", "▁▁", "a▁b", " ▁ ", "Ġ Ċ ĉ", "Ġhello",
    "“curly” ‘quotes’ — dash – en … dots", "«guillemets» „low“ 「かぎ」", "€£¥₹₿ ±×÷≠≤≥ ∑∏∫√∞ →←↔⇒",
    "─│┌┐└┘├┤ █▓▒░", "⠓⠑⠇⠇⠕", "𓀀𓀁𓀂", "🀄🂡", "𐍈 𐌰", "𠜎𠜱𠝹", "한국어\u1100\u1161", "กำ", "क्षि", "ﷺ", "ﷲ",
    "x\u0338 ≠", "\u00df\u1e9e", "\u01c5", "\u0130", "\u212b",
]
NUMBERS = [
    "0", "7", "42", "123", "1234", "12345", "123456", "1234567", "12345678901234567890", "3.14159",
    "1,234,567.89", "-1", "+1", "1e10", "1.5E-7", "2024-02-29T23:59:59Z", "192.168.0.1", "$9.99",
    "50%", "1/2", "1st 2nd 3rd 4th", "x1y2z3", "a1b22c333d4444", "007", "1 2 3", "1  2", "12 345 678",
    "1²", "5'11\"", "v2.0.1", "0xDEADBEEF", "９９９", "1234٥٦٧٨",
]
CONTROLS = [
    "\x00", "a\x00b", "\x01\x02\x03", "\x7f", "\x80\x81", "\x1b[31mred\x1b[0m", "bell\x07", "a\x08b",
    "\x1c\x1d\x1e\x1f", "\x9f", "".join(map(chr, range(32))), "".join(map(chr, range(127, 160))),
    "".join(map(chr, range(32, 127))), "".join(map(chr, range(160, 256))),
    "".join(map(chr, range(256, 384))),
]
SPECIALS = [
    "<|im_start|>user\nHi<|im_end|>\n", "<|im_end|>", "a<|im_end|>b", "<|im_start|> <|im_end|>",
    "<|im_start|", "<|im_startx|>", "< |im_end|>", "<|endoftext|>", "<|endoftext|><|endoftext|>",
    "<|begin_of_text|>Hello<|eot_id|>", "<|eot_id|> after", "<|start_header_id|>system<|end_header_id|>\n\n",
    "<|reserved_special_token_0|>", "<s>", "</s>", "<s>text</s>", " <s> text </s> ", "<unk>", "<pad>",
    "<bos>", "<eos>", "<bos><start_of_turn>user\nhi<end_of_turn>\n", "<start_of_turn>", "<unused0>",
    "<unused99>x", "<0x41>", "<0x0A>", "<0xFF>", "<0xZZ>", "<|vision_start|>", "<tool_call>\n{}\n</tool_call>",
    "<think>hm</think>", "<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>", "[INST] x [/INST]",
    "<<SYS>>\ny\n<</SYS>>", "<h1>title</h1>", "<b>bold</b><i>it</i>", "<code>x</code>", "<table><tr><td>",
    "[multimodal]", "<mask>", "<file_sep>", "<reponame>", "<empty_output>", "<jupyter_start>",
    "<strong>s</strong>", "</think>", "<|box_start|>", "<|python_tag|>",
]
ENGLISH = [
    "don't won't I'll you've they're she'd I'm 'tis", "DON'T WON'T I'LL YOU'VE", "it's'it's", "'s 't 're",
    "rock'n'roll o'clock", "’s curly’s don’t", "'ſ K'S", "Mr. Smith (Ph.D.) paid $5.00—really!",
    "Hello world", "Hello, world!", "hello", " hello", "Hello  World", "HELLO", "hElLo wOrLd",
    "antidisestablishmentarianism", "supercalifragilisticexpialidocious", "a", "A", "!", "!!", "?!?!",
    "...", "....", "-----", "=====", "_____", "*****", "#####", "~~~~", "````", "/////", "\\\\\\\\",
    "a,b;c:d.e!f?g", "(a)[b]{c}<d>", "\"quoted\" 'single' `back`", "e.g. i.e. etc.",
    "One.Two.Three", "well-known state-of-the-art", "and/or", "AT&T", "C++ C# F# .NET node.js",
]
LONG = [
    "a" * 300, "ab" * 200, "abc " * 100, "1" * 250, "0123456789" * 20, " " * 300, "\n" * 120, "\t" * 90,
    "." * 200, "-" * 300, "=" * 130, "é" * 150, "漢" * 150, "🙂" * 80, "\u0301" * 60, "ab\n" * 80,
    "x " * 200, "Ab1!" * 60, "a\u00a0" * 80, "\r\n" * 60, "A" * 257, "the " * 150, "▁" * 60,
]


def random_strings(n):
    """Strings over mixed alphabets, surrogates left out, from a fixed seed."""
    rng = random.Random(20240229)
    pools = ["abcdefghijklmnopqrstuvwxyz    ", "ABCxyz019 .,'\n\t", "éàüßñç ø", "абвгд ежз", "漢字かなカナ 、。",
             "😀👍🏽\u200d\ufe0f❤", "\u0301\u0308\u0327eo ", "<|>[]{}im_start/ s", "١٢٣0123 ²½",
             "\u00a0\u2003\u3000 \t\r\n"]
    out = []
    for _ in range(n):
        pool = "".join(rng.sample(pools, rng.randint(1, 4)))
        out.append("".join(rng.choice(pool) for _ in range(rng.randint(1, 60))))
    for _ in range(n // 2):
        codes = [rng.choice([rng.randrange(0x20, 0x2000), rng.randrange(0x2000, 0xD800),
                             rng.randrange(0xE000, 0x20000)]) for _ in range(rng.randint(1, 12))]
        out.append("".join(map(chr, codes)))
    return out


def corpus():
    parts = [*SCRIPTS.values(), *CODE, *SPACES, *UNICODE, *NUMBERS, *CONTROLS, *SPECIALS, *ENGLISH,
             *LONG, *random_strings(60)]
    return list(dict.fromkeys(parts))


def write_lines(path, rows):
    path.write_text("".join(json.dumps(r, ensure_ascii=True) + "\n" for r in rows))


def write_vocab(out, name, tok, texts):
    tok.no_truncation()
    tok.no_padding()
    write_lines(out / f"{name}.jsonl", [tok.encode(t).ids for t in texts])
    plain = [tok.encode(t, add_special_tokens=False).ids for t in texts]
    write_lines(out / f"{name}.plain.jsonl", plain)
    write_lines(out / f"{name}.decoded.jsonl",
                [tok.decode(ids, skip_special_tokens=False) for ids in plain])
    print(f"{name}: {sum(map(len, plain))} ids", flush=True)


def fetch(name):
    done = subprocess.run([sys.executable, str(common.ROOT / "tools" / "fetch-model"), name],
                          check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=common.GOLDEN / "tokens")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    texts = corpus()
    write_lines(args.out / "corpus.jsonl", texts)
    print(f"{len(texts)} strings")
    tiny = common.GOLDEN / "tiny" / "llama-text" / "tokenizer.json"
    write_vocab(args.out, "tiny", Tokenizer.from_file(str(tiny)), texts)
    shared = common.shared_dir()
    for name in SHARED if shared else ():
        with gzip.open(shared / "data" / "tokenizers" / name / "tokenizer.json.gz", "rt",
                       encoding="utf-8") as f:
            write_vocab(args.out, name, Tokenizer.from_str(f.read()), texts)
    for name in STARTERS:
        write_vocab(args.out, name, vocab.tokenizer_of_gguf(fetch(name)), texts)
    (args.out / "versions.txt").write_text(common.versions("tokenizers", "gguf") + "\n")


if __name__ == "__main__":
    main()
