#!/usr/bin/env python3
"""Random regular expressions against Python's re: whole matches as a grammar, and search as the
pattern of a JSON schema. Usage: test_random_regex.py PROBE [N [SEED]]
"""

import json
import re
import signal
import sys

from probe import run_seeds

ATOMS = ["a", "b", "ab", ".", "[ab]", "[^a]", "\\d", "\\w", "\\n", "\\\\", "\"", "[a-c0-3]", "é", "[^\\W]",
         "\\x41", "\\u00e9", "[\\d\"]", "\\.", "[\\]\\-]", "/"]
TEXT = "ab0cAé\"\\.\n-]x/日😀"


def make(rng, depth):
    kind = rng.randint(0, 9 if depth < 4 else 3)
    if kind <= 3:
        return rng.choice(ATOMS)
    if kind <= 5:
        return make(rng, depth + 1) + make(rng, depth + 1)
    if kind == 6:
        return "(?:" + make(rng, depth + 1) + "|" + make(rng, depth + 1) + ")"
    if kind == 7:
        return "(" + make(rng, depth + 1) + ")" + rng.choice(["*", "+", "?", "{2}", "{0,3}", "{1,}", "{2,70}"])
    if kind == 8:
        return rng.choice(ATOMS) + rng.choice(["*", "+", "?", "{3}", "*?", "{60,}"]) \
            if rng.random() < 0.7 else make(rng, depth + 1)
    return "(" + make(rng, depth + 1) + "|)"


def anchored(rng, pattern):
    """Alternatives at the top, each with anchors or not."""
    parts = [pattern] + [make(rng, 3) for _ in range(rng.randint(0, 2))]
    return "|".join(rng.choice(["", "^"]) + p + rng.choice(["", "$"]) for p in parts)


def to_python(pattern):
    """What differs: \\d and \\w know only ASCII, $ is the very end, and . stops at more line ends."""
    return re.sub(r"(?<!\\)\$", r"\\Z", pattern)


def sample(rng, text):
    if rng.random() < 0.5 and text:
        i = rng.randrange(len(text))
        return text[:i] + rng.choice(["", rng.choice(TEXT)]) + text[i + 1:]
    return "".join(rng.choice(TEXT) for _ in range(rng.randint(0, 8)))


class TooSlow(Exception):
    pass


def give_up(signum, frame):
    raise TooSlow


def differs(counts, match, text, accepted):
    """Whether Python's matcher says otherwise; it backtracks, and what takes it seconds has no answer."""
    signal.setitimer(signal.ITIMER_REAL, 2)
    try:
        return accepted != bool(match(text))
    except TooSlow:
        counts["unanswered"] += 1
        return False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def check(probe, rng, seed, counts):
    pattern = make(rng, 0)
    answer = probe.ask(regex=pattern, walks=4, seed=seed, steps=rng.choice([2, 8]))
    if "error" in answer:
        print(f"{pattern!r}: {answer['error']}")
        return 1
    python = re.compile(to_python(pattern), re.ASCII)
    walks = [walk for walk in answer["walks"] if walk is not None]
    texts = [sample(rng, rng.choice(walks) if walks else "") for _ in range(20)]
    got = probe.ask(regex=pattern, texts=texts, check_masks=rng.random() < 0.1)["accepts"]
    n_wrong = 0
    for text, accepted in zip(walks + texts, [True] * len(walks) + got):
        counts["whole"] += 1
        counts["matches"] += accepted
        if differs(counts, python.fullmatch, text, accepted):
            n_wrong += 1
            print(f"{pattern!r}: {text!r}: {accepted}")
    pattern = anchored(rng, pattern)
    python = re.compile(to_python(pattern), re.ASCII)
    texts += walks
    answer = probe.ask(schema={"type": "string", "pattern": pattern},
                       texts=[json.dumps(text, ensure_ascii=False) for text in texts])
    if "error" in answer:
        print(f"pattern {pattern!r}: {answer['error']}")
        return n_wrong + 1
    for text, accepted in zip(texts, answer["accepts"]):
        counts["search"] += 1
        if differs(counts, python.search, text, accepted):
            n_wrong += 1
            print(f"search {pattern!r}: {text!r}: {accepted}")
    return n_wrong


def main():
    counts = {"whole": 0, "matches": 0, "search": 0, "unanswered": 0}
    signal.signal(signal.SIGALRM, give_up)
    _, n_wrong = run_seeds(check, counts)
    if counts["unanswered"] * 1000 > counts["whole"]:
        print("too many texts had no answer")
        return 1
    return 1 if n_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
