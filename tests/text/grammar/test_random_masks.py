#!/usr/bin/env python3
"""Masks are what accepting says, token by token, in random grammars whose rules end on plain text: there slices of the
vocabulary stand for walks, and longer tokens may go on behind the end of a rule.
Usage: test_random_masks.py PROBE [N [SEED]]
"""

import random
import sys

from probe import Probe

CLASSES = ["[0-9a-zA-Z]", "[a-zA-Z]", "[^\"\\\\\\x00-\\x1F]", "[^/\"\\\\\\x00-\\x1F]", "[^-\"\\\\\\x00-\\x1F]", "[^\"]", "[^\\n]",
           "[0-9a-zA-Z_ .-]", "[\\x20-\\x7E]", "[^a-z\"\\\\\\x00-\\x1F]", ".", "[\\x00-\\U0010FFFF]"]
LITERALS = ["\"-x\"", "\"-\"", "\"a\"", "\".\"", "\"\\\"\"", "\"}\"", "\",\"", "\"01-\"", "\"na\"", "\"é\"", "\"\\n\"", "\"}}\""]
REPEATS = ["", "", "+", "*", "?", "{2}", "{1,3}", "{0,40}", "{30,}", "{3,100}"]
TEXTS = ["2024-x", "a2024-01-T12:", "namename\"}}", "ab/abc.com", "the hello\",", "é日-x", "(a2024-x)", "foo-01-bar", "aaa}", "T12:00Z-"]


def item(rng, rules):
    kind = rng.random()
    if kind < 0.55:
        return rng.choice(CLASSES) + rng.choice(REPEATS)
    if kind < 0.8:
        return rng.choice(LITERALS)
    if kind < 0.9:
        return "(" + " | ".join(item(rng, rules) for _ in range(2)) + ")" + rng.choice(["", "", "?"])
    return rng.choice(rules)


def grammar(rng):
    """A few rules that call each other; a rule that calls itself does so behind a bracket, so it stays a rule."""
    rules = ["root", "r", "s"][:rng.randint(2, 3)]
    lines = []
    for name in rules:
        parts = [" ".join(item(rng, rules[1:]) for _ in range(rng.randint(1, 3))) for _ in range(rng.randint(1, 2))]
        parts = [part if name == "root" else "\"%s\" " % rng.choice("<[{") + part for part in parts]
        if name != "root":
            parts += [rng.choice(CLASSES) + rng.choice("+ ").strip(), "\"(\" root \")\""]
        lines.append(name + " ::= " + " | ".join(parts))
    return "\n".join(lines)


def main():
    n = int(sys.argv[2]) if len(sys.argv) > 2 else 150
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    n_texts = n_refused = 0
    probe = Probe(sys.argv[1])
    for seed in range(first, first + n):
        rng = random.Random(seed)
        question = {"gbnf": grammar(rng), "texts": rng.sample(TEXTS, 4), "walks": 2, "steps": 8, "seed": seed}
        try:
            answer = probe.ask(check_masks=True, **question)
        except SystemExit as died:
            if "too ambiguous" not in str(died):
                raise
            n_refused += 1
            probe = Probe(sys.argv[1])
            continue
        n_refused += "error" in answer
        n_texts += len(answer.get("accepts", []))
    print(f"seeds {first} to {first + n - 1}: {n_texts} texts, {n_refused} grammars refused")
    return 1 if n_refused * 10 > n else 0


if __name__ == "__main__":
    sys.exit(main())
