#!/usr/bin/env python3
"""Random tools in every format of calls: whatever a grammar of calls allows is read back by the
format's own parser as a call of a tool, with arguments that jsonschema accepts. Needs jsonschema
(exit 77 without).

Usage: test_forced_schemas.py FORCED_PROBE [N [SEED]]
"""

import json
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "grammar"))
from probe import Probe  # noqa: E402

try:
    import jsonschema
except ImportError:
    print("jsonschema is not installed")
    sys.exit(77)
from test_random_schemas import Maker  # noqa: E402

FORMATS = ["hermes", "mistral", "pythonic", "qwen3-coder", "seed-oss", "minimax-m2", "minicpm5",
           "deepseek-dsml", "glm", "gemma4", "function-gemma", "minimax-m3", "muse", "kimi-k3",
           "hunyuan"]
# What a grammar may say no to.
REFUSALS = ["cannot be satisfied", "left recursion", "leads back", "too large", "ropert",
            "propertyNames", "cannot be written", "leads to no schema"]


# Texts that end something, or that a parser takes for something else where the schema admits it.
TRAPS = ["5", "-1.50", "null", "None", "TRUE", " x ", "\nx\n", "[1]", "{}", "", "'a'", "(1)", "1e3",
         "</parameter>", "<|\"|>", "<escape>", "]<]minimax[>[", "<|close|>argument<|sep|>", "a & b",
         "</arg_value:x>", "2.0", "item", "a:b,c"]
KEYS = ["a", "b", "name", "nam", "item", "kéy", "x y", "q\"t", "a:b"]


class ToolMaker(Maker):
    """Schemas as tools have them, and what makes bare text hard to read."""

    def object(self, depth):
        r = self.rng
        schema = super().object(depth)
        keys = r.sample(KEYS[:6] if r.random() < 0.8 else KEYS, len(schema["properties"]))
        names = dict(zip(schema["properties"], keys))
        schema["properties"] = {names[k]: v for k, v in schema["properties"].items()}
        if "required" in schema:
            schema["required"] = [names.get(k, k) for k in schema["required"]]
        return schema

    def schema(self, depth):
        r = self.rng
        if r.random() > 0.3:
            return super().schema(depth)
        kind = r.randint(0, 5)
        types = r.sample(["string", "integer", "number", "boolean", "null", "array", "object"], 2)
        if kind == 0:
            return {"type": types}
        if kind == 1:
            return {"enum": r.sample(TRAPS, 4) + r.sample([1, None, True, [2], {"a": "b"}], 2)}
        if kind == 2:
            return {"type": types, "enum": r.sample(TRAPS, 4) + [1, 2.5, None, True, [], {"a": 1}]}
        if kind == 3:
            return {"anyOf": [self.string(), {"type": types[0], "maximum": 3, "maxItems": 2,
                                              "required": ["b"]}]}
        if kind == 4:
            return {"type": "string", "pattern": r.choice(["^[0-9]+$", "^(null|x)$", "^.?$", "<"])}
        return {"type": "array", "items": {"type": types}, "minItems": r.randint(0, 1)}


def make_tools(rng):
    tools = []
    for i in range(rng.randint(1, 3)):
        maker = ToolMaker(rng)
        schema = maker.object(0)
        if maker.defs:
            schema["$defs"] = {name: maker.schema(1) for name in maker.defs}
        tools.append({"type": "function",
                      "function": {"name": "get_%d" % i, "parameters": schema}})
    return tools


def fault(tools, walk, is_parallel):
    if not walk["ends"]:
        return "has no end"
    if walk["content"]:
        return "leaves content %r" % walk["content"]
    if not walk["calls"] or (not is_parallel and len(walk["calls"]) > 1):
        return "is %d calls" % len(walk["calls"])
    for call in walk["calls"]:
        found = [t["function"] for t in tools if t["function"]["name"] == call["name"]]
        if not found:
            return "calls %r" % call["name"]
        validator = jsonschema.Draft202012Validator(
            found[0]["parameters"],
            format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
        arguments = json.loads(call["arguments"])
        for error in validator.iter_errors(arguments):
            return "gives %s: %s" % (call["arguments"], error.message)
    return None


def check(probe, rng, seed, counts):
    tools = make_tools(rng)
    name = rng.choice(FORMATS)
    request = {"format": name, "tools": json.dumps(tools), "parallel": rng.random() < 0.3,
               "strict": True, "walks": 8, "seed": seed, "steps": rng.choice([2, 60, 300])}
    answer = probe.ask(**request)
    if "error" in answer:
        counts[answer["code"]] = counts.get(answer["code"], 0) + 1
        if any(word in answer["error"] for word in REFUSALS):
            return 0
        print("%s: refused: %s: %s" % (name, answer["error"], json.dumps(tools)))
        return 1
    n_wrong = 0
    for walk in answer["walks"]:
        counts["walks"] += 1
        counts[name] = counts.get(name, 0) + 1
        try:
            wrong = fault(tools, walk, request["parallel"])
        except RecursionError:
            continue
        if wrong:
            n_wrong += 1
            print("seed %d, %s: %r %s of %s" % (seed, name, walk["text"], wrong, json.dumps(tools)))
    return n_wrong


def main():
    n = int(sys.argv[2]) if len(sys.argv) > 2 else 300
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    counts = {"walks": 0}
    n_wrong = 0
    with Probe(sys.argv[1]) as probe:
        for seed in range(first, first + n):
            n_wrong += check(probe, random.Random(seed), seed, counts)
            if n_wrong > 5:
                break
    print(f"seeds {first} to {first + n - 1}:", counts, "wrong:", n_wrong)
    return 1 if n_wrong or counts["walks"] < n else 0


if __name__ == "__main__":
    sys.exit(main())
