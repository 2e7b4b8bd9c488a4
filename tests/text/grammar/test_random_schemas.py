#!/usr/bin/env python3
"""Random schemas: every text that masks lead to is an instance that jsonschema accepts, and what
jsonschema rejects among mutated texts is rejected. Needs jsonschema (exit 77 without).

Usage: test_random_schemas.py PROBE [N [SEED]]
"""

import json
import sys

from probe import run_seeds

try:
    import jsonschema
except ImportError:
    print("jsonschema is not installed")
    sys.exit(77)

PATTERNS = ["^a+b?$", "[0-9]{2}", "^(foo|bar)", "x$", "^[^ab\"]{2,5}$", "\\\\", "^\\d+-\\w*$", "é|ß"]
FORMATS = ["date", "time", "ipv4", "ipv6", "email", "uuid", "date-time"]
NAMES = ["a", "b", "name", "nam", "q\"t", "é", "", "x y"]


class Maker:
    def __init__(self, rng):
        self.rng = rng
        self.defs = [f"d{i}" for i in range(rng.randint(0, 2))]

    def number_bounds(self, schema, scale):
        r = self.rng
        if r.random() < 0.5:
            schema[r.choice(["minimum", "exclusiveMinimum"])] = self.number(scale)
        if r.random() < 0.5:
            schema[r.choice(["maximum", "exclusiveMaximum"])] = self.number(scale)
        if r.random() < 0.2:
            schema["multipleOf"] = r.choice([1, 2, 3, 7, 10, 0.5, 0.25, 1.5])

    def number(self, scale):
        r = self.rng
        return r.choice([r.randint(-300, 300), r.randint(-9, 9), round(r.uniform(-50, 50), scale)])

    def string(self):
        r = self.rng
        schema = {"type": "string"}
        if r.random() < 0.3:
            schema["pattern"] = r.choice(PATTERNS)
        elif r.random() < 0.3:
            schema["format"] = r.choice(FORMATS)
            return schema
        if r.random() < 0.4:
            schema["minLength"] = r.randint(0, 4)
        if r.random() < 0.4:
            schema["maxLength"] = r.randint(3, 90)
        return schema

    def array(self, depth):
        r = self.rng
        schema = {"type": "array"}
        if r.random() < 0.8:
            schema["items"] = self.schema(depth + 1)
        if r.random() < 0.3:
            schema["prefixItems"] = [self.schema(depth + 1) for _ in range(r.randint(1, 3))]
        if r.random() < 0.5:
            schema["minItems"] = r.randint(0, 3)
        if r.random() < 0.5:
            schema["maxItems"] = r.randint(2, 5)
        return schema

    def object(self, depth):
        r = self.rng
        names = r.sample(NAMES, r.randint(0, 4))
        schema = {"type": "object", "properties": {n: self.schema(depth + 1) for n in names}}
        if r.random() < 0.7:
            schema["required"] = [n for n in names if r.random() < 0.5]
            if r.random() < 0.1:
                schema["required"].append("other")
        if r.random() < 0.7:
            schema["additionalProperties"] = r.choice([False, False, True, self.schema(depth + 1)])
        return schema

    def map(self, depth):
        r = self.rng
        schema = {"type": "object"}
        if r.random() < 0.4:
            schema["patternProperties"] = {r.choice(PATTERNS): self.schema(depth + 1)}
        elif r.random() < 0.4:
            schema["propertyNames"] = self.string()
        if r.random() < 0.6:
            schema["additionalProperties"] = r.choice([False, self.schema(depth + 1)])
        if r.random() < 0.3:
            schema["minProperties"] = 1
        if r.random() < 0.4:
            schema["maxProperties"] = r.randint(1, 3)
        return schema

    def any_of(self, depth):
        r = self.rng
        schema = {"anyOf": [self.schema(depth + 1) for _ in range(r.randint(1, 3))]}
        if r.random() < 0.3:
            beside = self.schema(depth + 1) if r.random() < 0.5 else {"type": ["object", "null"]}
            schema.update(beside if isinstance(beside, dict) else {})
        return schema

    def schema(self, depth):
        r = self.rng
        kind = r.randint(0, 13 if depth < 4 else 6)
        if kind == 0:
            return r.choice([True, {}, {"type": "null"}, {"type": "boolean"}])
        if kind == 1:
            return {"enum": r.sample([1, 2.5, "a", "é\n", None, True, [1, "x"], {"k": []}, "ab"], 3)}
        if kind == 2:
            return {"const": r.choice([0, "const", {"a": 1}, [], -3.25])}
        if kind in (3, 4):
            schema = {"type": r.choice(["integer", "number"])}
            self.number_bounds(schema, 2)
            return schema
        if kind in (5, 6):
            return self.string()
        if kind in (7, 8):
            return self.array(depth)
        if kind in (9, 10):
            return self.object(depth)
        if kind == 13:
            return self.map(depth)
        if kind == 11:
            return self.any_of(depth)
        if self.defs and r.random() < 0.7:
            return {"$ref": "#/$defs/" + r.choice(self.defs)}
        return {"allOf": [self.schema(depth + 1), self.schema(depth + 1)]}

    def document(self):
        schema = self.schema(0)
        if not isinstance(schema, dict):
            schema = {"type": "array", "items": schema}
        if self.defs:
            schema = dict(schema)
            schema["$defs"] = {name: self.schema(1) for name in self.defs}
        return schema


def mutate(rng, text):
    """Small changes that often make an instance invalid."""
    i = rng.randrange(len(text) + 1)
    kind = rng.randint(0, 2)
    if kind == 0:
        return text[:i] + text[i + 1:]
    if kind == 1:
        return text[:i] + rng.choice("0179ab\"{}[],:.- ") + text[i:]
    j = rng.randrange(len(text) + 1)
    return text[: min(i, j)] + text[max(i, j):]


def is_valid(validator, text):
    try:
        value = json.loads(text, parse_constant=lambda name: 1 / 0)
    except (ValueError, ZeroDivisionError, RecursionError):
        return False
    return validator.is_valid(value)


def check(probe, rng, schema, seed, counts):
    options = {"any_order": rng.random() < 0.3, "compact": rng.random() < 0.3}
    if rng.random() < 0.1:
        options["budget"] = 1  # all states and masks are made anew at every step
    answer = probe.ask(schema=schema, walks=6, seed=seed, steps=rng.choice([3, 10, 40]), **options)
    text = json.dumps(schema)
    if "error" in answer:
        counts[answer["code"]] = counts.get(answer["code"], 0) + 1
        if "cannot be satisfied" in answer["error"] or "left recursion" in answer["error"] \
                or "leads back" in answer["error"] or "too large" in answer["error"] \
                or "Propert" in answer["error"] and "not supported" in answer["error"] \
                or "propertyNames" in answer["error"] and "not supported" in answer["error"]:
            return 0
        print(f"refused: {answer['error']}: {text}")
        return 1
    validator = jsonschema.Draft202012Validator(
        schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
    n_wrong = 0
    walks = [walk for walk in answer["walks"] if walk is not None]
    counts["walks"] += len(walks)
    counts["cut"] += len(answer["walks"]) - len(walks)
    for walk in walks:
        if not is_valid(validator, walk):
            n_wrong += 1
            print(f"not an instance: {walk!r} of {text} {options}")
    mutants = [mutate(rng, walk) for walk in walks for _ in range(8)]
    answer = probe.ask(schema=schema, texts=mutants, check_masks=rng.random() < 0.05, **options)
    for mutant, got in zip(mutants, answer["accepts"]):
        counts["mutants"] += 1
        counts["accepted mutants"] += got
        if got and not is_valid(validator, mutant):
            n_wrong += 1
            print(f"accepted, but no instance: {mutant!r} of {text} {options}")
    return n_wrong


def check_seed(probe, rng, seed, counts):
    try:
        return check(probe, rng, Maker(rng).document(), seed, counts)
    except RecursionError:  # a branch that is only a reference to itself
        counts["endless"] = counts.get("endless", 0) + 1
        return 0


def main():
    counts = {"walks": 0, "cut": 0, "mutants": 0, "accepted mutants": 0}
    n, n_wrong = run_seeds(check_seed, counts)
    return 1 if n_wrong or counts["walks"] < n else 0


if __name__ == "__main__":
    sys.exit(main())
