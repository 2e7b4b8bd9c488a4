#!/usr/bin/env python3
"""Random tools in every format of calls: whatever a grammar of calls allows is read back by the
format's own parser as a call of a tool, with arguments that jsonschema accepts. Needs jsonschema
(exit 77 without).

Usage: test_forced_schemas.py FORCED_PROBE [N [SEED]]
"""

import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "grammar"))
from probe import run_seeds  # noqa: E402

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


def mutate(rng, text):
    """Another text in place of a value, or of a part of it."""
    spans = [m.span(1) for m in re.finditer(r"(?=[>|:,\[=\n]([^<>\[\]{},|]*)[<\]},])", text)]
    begin, end = rng.choice(spans) if spans else (0, 0)
    if rng.random() < 0.2:
        begin = rng.randint(begin, end)
    return text[:begin] + rng.choice(TRAPS) + text[end:]


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
    walks = [walk for walk in answer["walks"] if walk]
    counts["cut"] += len(answer["walks"]) - len(walks)
    mutants = [mutate(rng, walk["text"]) for walk in walks for _ in range(20)]
    reads = probe.ask(texts=mutants, **{**request, "walks": 0})["reads"]
    counts["mutants"] += len(mutants)
    counts["accepted mutants"] += len(reads)
    for walk in walks + reads:
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


# Places where a text may be one thing or another, for the traps.
PLACES = [
    {"type": "string"},
    {"type": "string", "minLength": 2, "maxLength": 9},
    {"type": ["string", "integer"], "maximum": 3},
    {"type": ["string", "number"], "minimum": 3},
    {"type": ["string", "null"]},
    {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "boolean"}], "enum": ["5", "TRUE", True]},
    {"type": ["string", "object"], "required": ["b"]},
    {"type": ["string", "array"], "minItems": 2},
    {"type": ["array", "object"], "maxItems": 0},
    {"anyOf": [{"type": "string", "pattern": "^[^5x]*$"}, {"type": "array", "minItems": 1}]},
    {"enum": [t for t in TRAPS if t not in ("5", "null", "{}", "2.0")] + [5, None, {"a": 1}, 2]},
    {"enum": ["5", "null", "TRUE", "[1]", "{}", 7, None, True, [2], {"b": 1}]},
    {"type": "array", "prefixItems": [{"type": "object", "maxProperties": 1}], "items": False},
    {"not_type": 1, "pattern": "^[a-z:,& ]+$"},
    {},
    {"type": "array", "items": {"type": ["string", "null"]}, "maxItems": 1},
    {"type": "object", "properties": {"item": {"type": "string"}, "a": {"type": "integer"}}},
    {"type": ["array", "object"], "properties": {"item": {"type": "integer"}}, "maxItems": 1},
    {"type": "object", "additionalProperties": {"type": "string"}},
]
INSIDE = ["%s]<]minimax[>[<item>{\"a\": \"%s\"}]<]minimax[>[</item>%s",
          "%s]<]minimax[>[<item>%s]<]minimax[>[</item>%s", "%s]<]minimax[>[<a>%s]<]minimax[>[</a>%s",
          "%s{\"a\": %s}%s", "%s[\"%s\"]%s", "%s%s%s"]
# Texts that a string cannot be, for want of a way to write them.
UNWRITABLE = {
    "gemma4": ["<|\"|>"], "function-gemma": ["<escape>"], "minimax-m3": ["]<]minimax[>["],
    "kimi-k3": ["<|close|>argument<|sep|>"], "hunyuan": ["</arg_value:x>"], "muse": [],
    "glm": ["</arg_value:x>"], "deepseek-dsml": [], "minimax-m2": ["</parameter>"],
    "qwen3-coder": ["</parameter>", "null"], "seed-oss": ["</parameter>", "null", "\nx\n"],
}


def check_places(probe, name):
    """Each trap in each place: what is accepted is valid, and plain strings are what they are."""
    def tools_of(schema):
        return [{"function": {"name": "f", "parameters": {
            "type": "object", "properties": {"k": schema}, "required": ["k"],
            "additionalProperties": False}}}]

    n_wrong = 0
    layout = probe.ask(format=name, tools=json.dumps(tools_of({"const": "QQQ"})), walks=1, steps=1)
    begin, end = layout["walks"][0]["text"].split("QQQ")
    for schema in PLACES:
        tools = tools_of(schema)
        texts = [form % (begin, trap, end) for trap in TRAPS for form in INSIDE]
        if name == "kimi-k3":  # says what follows
            texts += [t.replace('"string"', '"%s"' % kind) for t in texts
                      for kind in ("number", "boolean", "null", "object", "array")]
        answer = probe.ask(format=name, tools=json.dumps(tools), texts=texts)
        for read in answer.get("reads", []):
            wrong = fault(tools, read, False)
            if wrong:
                n_wrong += 1
                print("%s: %r %s of %s" % (name, read["text"], wrong, json.dumps(schema)))
        if schema == {"type": "string"} and name in UNWRITABLE:
            n_form = INSIDE.index("%s%s%s")
            not_accepted = [trap for i, trap in enumerate(TRAPS)
                            if answer["accepts"][i * len(INSIDE) + n_form] != -1]
            if not_accepted != [t for t in TRAPS if t in UNWRITABLE[name]]:
                n_wrong += 1
                print("%s: no way to write %r" % (name, not_accepted))
        if len(answer.get("reads", [])) == 0 and schema in PLACES[:5]:
            n_wrong += 1
            print("%s: nothing is accepted of %s: %s" % (name, json.dumps(schema), answer.get("error")))
    return n_wrong


def main():
    counts = {"walks": 0, "cut": 0, "mutants": 0, "accepted mutants": 0}
    n, n_wrong = run_seeds(check, counts, before=lambda probe: sum(check_places(probe, name) for name in FORMATS[3:]))
    return 1 if n_wrong or counts["walks"] < n or counts["cut"] * 10 > counts["walks"] else 0


if __name__ == "__main__":
    sys.exit(main())
