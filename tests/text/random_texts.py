"""Random texts for the differential tests, a batch at a time, and the packages that these tests need.

A text is a few fragments in a row; a batch draws from a pool of some ten thousand: words of 16 scripts, code, runs of
white space, emoji with joiners and selectors, combining marks, numbers, control characters, pieces and special tokens
of the vocabulary, spellings that only look like them, and stretches of this tree's own test texts.
"""

import json
import os
import subprocess
import sys
import tarfile
import unicodedata
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Scripts whose blocks have long been complete, so that both sides know all characters: engines differ in their
# version of Unicode. (The tokenizers library's normalizer does not know marks and punctuation from Unicode 11 on, as U+09FD.)
SCRIPTS = [(0x41, 0x7B), (0xC0, 0x250), (0x370, 0x400), (0x400, 0x530), (0x531, 0x58B), (0x5D0, 0x5EB), (0x620, 0x6D4),
           (0x900, 0x980), (0x980, 0x9FD), (0xB82, 0xBD8), (0xE01, 0xE5C), (0x10A0, 0x1100), (0x1200, 0x1380), (0x3041, 0x3100),
           (0x4E00, 0x9FEB), (0xAC00, 0xD7A4)]
OTHERS = [(0x300, 0x370), (0x1100, 0x1200), (0x2000, 0x2070), (0x20A0, 0x20BF), (0x2100, 0x2200), (0x2460, 0x2500), (0xFE00, 0xFFFE),
          (0x1F300, 0x1F650), (0x1D400, 0x1D7CC), (0x20000, 0x2A6D7)]
EMOJI = ["👩‍👩‍👧", "👍🏽", "❤️", "🇩🇪🇫🇷", "🏳️‍🌈", "1️⃣", "👨🏿‍🚀", "☺︎", "🧑‍💻"]
MARKS = ["e\u0301", "\u0301", "a\u0323\u0301", "a\u0301\u0323", "n\u0303", "\u1112\u1161\u11ab", "ก็", "क्ष", "\u0e33", "Å", "Å", "ﬁ", "ẛ̣"]
SPACES = [" ", " ", " ", "\n", "\n", "\t", "\r\n", "\r", "\u00a0", "\u3000", "\u0085", "\u180e", "\u2028", "\u200b", "\ufeff", "\u2003"]
ODD = ["'s", "'S", "'ſ", "don't", "we'LL", "▁", "▁▁", "Ġ", "Ċ", "<0x41>", "<0xE2>", "##ing", "</w>", "[CLS]", "[UNK]", "<unk>", "<s>", "</s>",
       "<|im_end|>", "<|im_end", "|im_end|>", "<|endoftext|>", "<|eot_id|>", "<| eot_id |>", "<bos>", "<eos>", "< bos>", "[INST]", "\ufffd", "ß", "İ",
       "ſ", "K", "Σς", "ǅ", "_", "http://a.b/c?d=e&f", "user@host.org", "0x1F", "3.14e-10", "1,234,567.89", "½²Ⅷ①", "١٢٣٤٥٦"]


def words(rng, n):
    for _ in range(n):
        low, high = rng.choice(SCRIPTS)
        yield "".join(chr(rng.randrange(low, high)) for _ in range(rng.randrange(1, 9)))
        low, high = rng.choice(OTHERS)
        yield "".join(chr(rng.randrange(low, high)) for _ in range(rng.randrange(1, 5)))


def is_shared(c):
    """Whether all engines agree on what a character is; marks and punctuation are known by some in these blocks only."""
    if c < "\u0250":
        return True
    kind = unicodedata.category(c)
    return kind not in ("Cn", "Cs") and (kind[0] not in "MP" or any(low <= ord(c) < high for low, high in SCRIPTS + OTHERS))


def fragments(rng, tokens, n):
    corpus = [json.loads(line) for line in (ROOT / "tests/golden/tokens/corpus.jsonl").open()]
    corpus += [(ROOT / p).read_text() for p in ("tests/text/gguf.c", "docs/text.md", "tests/text/random_texts.py")]
    corpus = [t for t in corpus if t]
    pool = list(words(rng, n))
    for _ in range(n):
        text = rng.choice(corpus)
        begin = rng.randrange(len(text))
        pool.append(text[begin:begin + rng.randrange(1, 40)])
        pool.append("".join(chr(rng.randrange(32, 127)) for _ in range(rng.randrange(1, 12))))
        pool.append(rng.choice(SPACES) * rng.choice([1, 1, 1, 2, 3, 4, 7, 17]))
        pool.append(rng.choice(SPACES))
        pool.append(str(rng.randrange(10 ** rng.randrange(1, 14))))
        pool.append(rng.choice(EMOJI))
        pool.append(rng.choice(MARKS))
        pool.append(rng.choice(ODD))
        pool.append(chr(rng.randrange(0x20)))
        pool.append(rng.choice("abcxyz0 .") * rng.randrange(1, 60))
        pool += [rng.choice(tokens) for _ in range(3)]
    pool = ["".join(c for c in f if is_shared(c)) for f in pool]
    return [f for f in pool if f]


def batches(rng, tokens, count, size=50000, has_runs=True):
    """Lists of texts, `count` in all; the first ones are long runs of one thing, unless the other side cannot do them."""
    done = 0
    while done < count:
        pool = fragments(rng, tokens, 4000)
        n = min(size, count - done)
        texts = ["".join(rng.choices(pool, k=rng.randrange(1, 7))) for _ in range(n)]
        if not done and has_runs:
            texts[:6] = ["a" * 100000, " " * 100000, "\n" * 5000, "ab" * 20000, "日" * 10000, "e\u0301" * 5000][:n]
        yield texts
        done += n


def cut_bytes(rng, text):
    """The text's bytes with some of them changed, dropped or doubled."""
    data = bytearray(text.encode())
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(len(data) + 1)
        data[at:at + rng.randrange(3)] = rng.choice([b"", b"\xff", b"\xc3", b"\xe2\x96", b"\xed\xa0\xbd", b"\xc0\xaf", b"\xf0\x9f\x91", b"\x80"])
    return bytes(data)


# ---- running mica ----

def lines_of(mica, arguments, lines):
    """What a verb with --jsonl answers, a value for each line."""
    stdin = "".join(json.dumps(value) + "\n" for value in lines).encode()
    done = subprocess.run([mica, *arguments], input=stdin, stdout=subprocess.PIPE, check=True)
    found = json.loads(b"[" + b",".join(done.stdout.splitlines()) + b"]")
    assert len(found) == len(lines)
    return found


def show_differences(name, texts, expected, found, most=3):
    bad = [(t, e, f) for t, e, f in zip(texts, expected, found, strict=True) if e != f]
    for text, e, f in bad[:most]:
        print(f"{name}: {text!r:.300}\n  expected {e!r:.300}\n  found    {f!r:.300}")
    return len(bad)


# ---- packages ----

def skip(why):
    print("skipped:", why)
    sys.exit(77)


def install(folder, *requirements):
    """Packages for import, kept in FOLDER."""
    site = Path(folder) / "site"
    stamp = site / ("-".join(requirements).replace("/", "_") + ".stamp")
    if not stamp.exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--root-user-action=ignore", "--upgrade",
                   "--target", str(site), *requirements]
        if subprocess.run(command).returncode:
            skip("packages could not be fetched: " + " ".join(requirements))
        stamp.touch()
    sys.path.insert(0, str(site))


def fetch(folder, requirement, wanted, source=False):
    """Files of a package, without installing it: those that wanted(path) names are laid into FOLDER."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    stamp = folder / f"{requirement}.stamp"
    if stamp.exists():
        return
    if not list(folder.glob("*.whl")) + list(folder.glob("*.tar.gz")):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "-d", str(folder), requirement]
        if subprocess.run(command + (["--no-binary", requirement.partition("==")[0]] if source else [])).returncode:
            skip(f"{requirement} could not be fetched")
    for path in folder.glob("*.whl"):
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if target := wanted(name):
                    lay(folder / target, archive.read(name))
        path.unlink()
    for path in folder.glob("*.tar.gz"):
        with tarfile.open(path) as archive:
            for member in archive:
                if member.isfile() and (target := wanted(member.name)):
                    lay(folder / target, archive.extractfile(member).read())
        path.unlink()
    stamp.touch()


def lay(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def count_of(default):
    """How many texts a vocabulary gets: $MICA_DIFFERENTIAL_COUNT."""
    return int(os.environ.get("MICA_DIFFERENTIAL_COUNT") or default)
