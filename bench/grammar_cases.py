#!/usr/bin/env python3
"""Cases for bench_grammar, and the same cases through llguidance and xgrammar.

    grammar_cases.py write TOKENIZER_JSON CASES      (needs tokenizers)
    grammar_cases.py run llguidance|xgrammar TOKENIZER_JSON CASES

The times are of the mask call alone, as in bench_grammar: CPU time, the least of nine runs for each
token; one matcher for each instance, one compiled grammar for each case.
"""

import json
import random
import sys
import time


def person(extra):
    return {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "age": {"type": "integer", "minimum": 0, "maximum": 150},
            "email": {"type": "string"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "address": {
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"},
                               "zip": {"type": "string"}},
                "required": ["street", "city"],
                "additionalProperties": False,
            },
        },
        "required": ["name", "age"],
        "additionalProperties": extra,
    }


WORDS = ("the quick brown fox jumps over a lazy dog while rain falls on Zürich and München; "
         "price 12.5 (net), see chapter 7: état, naïve, 日本 語 text").split()


def words(rng, n):
    return " ".join(rng.choice(WORDS) for _ in range(n))


def make_person(rng, extra):
    p = {"name": words(rng, 2), "age": rng.randint(0, 150)}
    if rng.random() < 0.7:
        p["email"] = f"{rng.choice('abc')}@example.com"
    if rng.random() < 0.7:
        p["tags"] = [words(rng, 1) for _ in range(rng.randint(0, 5))]
    if rng.random() < 0.7:
        p["address"] = {"street": words(rng, 3), "city": "Bern"}
    if extra and rng.random() < 0.5:
        p["note"] = {"k": [1, 2, words(rng, 4)]}
    return p


def node(rng, depth):
    n = 0 if depth > 5 else rng.randint(0, 3)
    return {"value": rng.randint(-99, 9999), "label": words(rng, 1),
            "children": [node(rng, depth + 1) for _ in range(n)]}


def wide(rng, n):
    return {f"field_{i}": [rng.randint(0, 9), rng.random(), words(rng, 2), rng.random() < 0.5][i % 4]
            for i in range(n) if i % 4 == 0 or rng.random() < 0.6}


TREE = {
    "$defs": {"node": {
        "type": "object",
        "properties": {"value": {"type": "integer"}, "label": {"type": "string"},
                       "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
        "required": ["value", "label", "children"], "additionalProperties": False}},
    "$ref": "#/$defs/node",
}
WIDE = {
    "type": "object",
    "properties": {f"field_{i}": [{"type": "integer"}, {"type": "number"}, {"type": "string"},
                                  {"type": "boolean"}][i % 4] for i in range(60)},
    "required": [f"field_{i}" for i in range(0, 60, 4)],
    "additionalProperties": False,
}
TIGHT = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "pattern": "^[A-Z]{3}-[0-9]{4,8}$"},
        "when": {"type": "string", "format": "date-time"},
        "summary": {"type": "string", "minLength": 1, "maxLength": 120},
        "state": {"enum": ["open", "closed", "in progress", "won't fix", "duplicate"]},
        "scores": {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 100},
                   "minItems": 1, "maxItems": 8},
    },
    "required": ["id", "when", "summary", "state", "scores"],
    "additionalProperties": False,
}
CALL = {
    "anyOf": [{
        "type": "object",
        "properties": {"name": {"const": f"tool_{i}"},
                       "arguments": {"type": "object",
                                     "properties": {"query": {"type": "string"},
                                                    "limit": {"type": "integer"}},
                                     "required": ["query"], "additionalProperties": False}},
        "required": ["name", "arguments"], "additionalProperties": False} for i in range(12)],
}


COUNTRIES = [f"{a}{b} {n}" for n, (a, b) in enumerate(
    (a, b) for a in ("North", "South", "New", "Old", "Upper", "Lower", "San", "Saint")
    for b in ("land", "haven", "ville", "burg", "field", "mark", "stan", "port", "wick", "ford"))]
ENUM = {
    "type": "object",
    "properties": {"country": {"enum": COUNTRIES + [f"code-{i:04d}" for i in range(900)]},
                   "others": {"type": "array", "items": {"enum": COUNTRIES}}},
    "required": ["country", "others"],
    "additionalProperties": False,
}


def deep_schema(depth):
    if not depth:
        return {"type": "array", "items": {"type": ["number", "null"]}}
    return {"type": "object",
            "properties": {"title": {"type": "string"}, f"level_{depth}": deep_schema(depth - 1),
                           "done": {"type": "boolean"}},
            "required": ["title", f"level_{depth}", "done"], "additionalProperties": False}


def deep(rng, depth):
    if not depth:
        return [rng.choice([None, rng.randint(0, 99), round(rng.random(), 3)]) for _ in range(4)]
    return {"title": words(rng, 2), f"level_{depth}": deep(rng, depth - 1), "done": True}


KINDS = ("circle square text image table chart link audio video code quote list divider map form "
         "button").split()
UNION = {"type": "array", "items": {"oneOf": [{
    "type": "object",
    "properties": {"kind": {"const": kind}, f"{kind}_size": {"type": "integer", "minimum": 1},
                   "label": {"type": ["string", "null"]}, "x": {"type": "number"}},
    "required": ["kind", f"{kind}_size", "label"], "additionalProperties": False}
    for kind in KINDS]}}


def union(rng):
    kinds = [rng.choice(KINDS) for _ in range(4)]
    return [{"kind": k, f"{k}_size": rng.randint(1, 500),
             "label": rng.choice([None, words(rng, 2)]), "x": round(rng.uniform(-9, 9), 2)}
            for k in kinds]


VERBS = "get set list find send read open move copy delete".split()
TOOLS = [(f"{verb}_{noun}", noun) for verb in VERBS for noun in ("file", "message")]


def tool_schema(name, noun):
    return {"type": "object",
            "properties": {
                "name": {"const": name},
                "arguments": {
                    "type": "object",
                    "properties": {
                        f"{noun}_id": {"type": "string"}, "limit": {"type": "integer"},
                        "mode": {"enum": ["fast", "full", "dry run"]},
                        "options": {"type": "object", "properties": {"force": {"type": "boolean"}},
                                    "additionalProperties": {"type": "string"}}},
                    "required": [f"{noun}_id", "mode"], "additionalProperties": False}},
            "required": ["name", "arguments"], "additionalProperties": False}


def tool_call(rng):
    name, noun = rng.choice(TOOLS)
    arguments = {f"{noun}_id": words(rng, 2), "mode": rng.choice(["fast", "full", "dry run"])}
    if rng.random() < 0.5:
        arguments["options"] = {"force": True, "tag": words(rng, 1)}
    return {"name": name, "arguments": arguments}


PATTERNS = {
    "type": "object",
    "properties": {
        "version": {"type": "string", "pattern": "^(0|[1-9]\\d*)\\.(0|[1-9]\\d*)\\.(0|[1-9]\\d*)$"},
        "color": {"type": "string", "pattern": "^#([0-9a-f]{3}|[0-9a-f]{6})$"},
        "slug": {"type": "string", "pattern": "^[a-z0-9]+(-[a-z0-9]+)*$"},
        "phone": {"type": "string", "pattern": "^\\+[1-9][0-9]{6,14}$"},
        "path": {"type": "string", "pattern": "^(/[^/\\x00-\\x1f]+)+$"},
        "word": {"type": "string", "pattern": "^\\w+$"},
    },
    "required": ["version", "color", "slug", "phone", "path", "word"],
    "additionalProperties": False,
}


def patterns(rng):
    return {"version": f"{rng.randint(0, 20)}.{rng.randint(0, 9)}.{rng.randint(0, 300)}",
            "color": rng.choice(["#ff00aa", "#09c"]), "slug": "the-quick-brown-fox",
            "phone": f"+{rng.randint(10 ** 8, 10 ** 11)}", "path": "/usr/share/doc/Zürich",
            "word": rng.choice(["hello", "snake_case_word"])}


def anything(rng):
    return rng.choice([lambda: node(rng, 3), lambda: [words(rng, 3), 1.5e-7, None, [], {}],
                       lambda: words(rng, 9), lambda: {"a b": {"c": [True, False]}, "": -12}])()


def tight(rng):
    return {"id": f"ABC-{rng.randint(1000, 99999999)}", "when": "2025-03-0%dT12:30:00Z" % rng.randint(1, 9),
            "summary": words(rng, 12)[:110], "state": rng.choice(TIGHT["properties"]["state"]["enum"]),
            "scores": [rng.randint(1, 100) for _ in range(rng.randint(1, 8))]}


def all_cases():
    rng = random.Random(7)
    some = range(20)
    yield "person", person(False), [make_person(rng, False) for _ in some]
    yield "person-open", person(True), [make_person(rng, True) for _ in some]
    yield "any-object", {"type": "object"}, [node(rng, 2) for _ in some]
    yield "tree", TREE, [node(rng, 2) for _ in some]
    yield "wide", WIDE, [wide(rng, 60) for _ in some]
    yield "tight", TIGHT, [tight(rng) for _ in some]
    yield "call", CALL, [{"name": f"tool_{rng.randint(0, 11)}",
                          "arguments": {"query": words(rng, 8), "limit": 3}} for _ in some]
    yield "enum", ENUM, [{"country": rng.choice(ENUM["properties"]["country"]["enum"]),
                          "others": rng.sample(COUNTRIES, 4)} for _ in some]
    yield "deep", deep_schema(12), [deep(rng, 12) for _ in some]
    yield "union", UNION, [union(rng) for _ in some]
    yield "tools", {"anyOf": [tool_schema(*tool) for tool in TOOLS]}, [tool_call(rng) for _ in some]
    yield "patterns", PATTERNS, [patterns(rng) for _ in some]
    yield "anything", {}, [anything(rng) for _ in some]
    yield "long-text", {"type": "object", "properties": {"text": {"type": "string"}},
                        "required": ["text"], "additionalProperties": False}, \
        [{"text": words(rng, 150) + "\n\"quoted\"\t" + words(rng, 50)} for _ in some]


# Raw text, as calls hold it: a pattern and texts that match it.
REGEXES = {
    "until-tag": ("[^<]*</v>", ['He said "hi", then\nleft; x = y\\z for 12.5 </v>', "état, 日本 語</v>"]),
    "bounded": ("[^<]{0,20}</v>", ["some short text</v>", "</v>"]),
    "or-number": ("(-?[0-9]{1,9}|[^<]*)</v>", ['12 monkeys "x"\n</v>', "-512</v>"]),
    "lines": ("([^\\n]{1,80}\\n)+", ['one line\nand another one, with "quotes"\n']),
    "words": ("(\\w+ ){3,9}\\w+\\.", ["the quick brown fox."]),
    "date": ("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}Z", ["2025-03-09T12:30Z"]),
}


def all_texts():
    for name, schema, values in all_cases():
        yield name, {"schema_text": json.dumps(schema)}, [json.dumps(v, ensure_ascii=False) for v in values]
    for name, (regex, texts) in REGEXES.items():
        yield name, {"regex": regex}, texts


def write(tokenizer_path, path):
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(tokenizer_path)
    with open(path, "w") as out:
        for name, grammar, texts in all_texts():
            tokens = [tokenizer.encode(t, add_special_tokens=False).ids for t in texts]
            out.write(json.dumps({"name": name, **grammar, "tokens": tokens}) + "\n")


class Llguidance:
    def __init__(self, tokenizer_path):
        import llguidance
        import llguidance.numpy
        self.lib = llguidance
        self.tokenizer = llguidance.LLTokenizer(open(tokenizer_path).read())
        self.bits = llguidance.numpy.allocate_token_bitmask(1, self.tokenizer.vocab_size)

    def compile(self, case):
        start = time.process_time()
        if "regex" in case:
            grammar = self.lib.LLMatcher.grammar_from_regex(case["regex"])
        else:
            grammar = self.lib.LLMatcher.grammar_from_json_schema(case["schema_text"])
        matcher = self.lib.LLMatcher(self.tokenizer, grammar)
        self.first = matcher
        return grammar, time.process_time() - start

    def matcher(self, grammar):
        return self.lib.LLMatcher(self.tokenizer, grammar)

    def mask(self, matcher):
        self.lib.numpy.fill_next_token_bitmask(matcher, self.bits, 0)

    def accept(self, matcher, token):
        return matcher.consume_token(token)


class Xgrammar:
    def __init__(self, tokenizer_path):
        import xgrammar
        from tokenizers import Tokenizer
        self.lib = xgrammar
        tokenizer = Tokenizer.from_file(tokenizer_path)
        n = tokenizer.get_vocab_size(with_added_tokens=True)
        vocab = [tokenizer.id_to_token(i) or "" for i in range(n)]
        info = xgrammar.TokenizerInfo(vocab, xgrammar.VocabType.BYTE_LEVEL, vocab_size=n,
                                      stop_token_ids=[n - 1])
        self.info = info
        self.bits = xgrammar.allocate_token_bitmask(1, n)

    def compile(self, case):
        compiler = self.lib.GrammarCompiler(self.info, max_threads=1, cache_enabled=False)
        start = time.process_time()
        if "regex" in case:
            grammar = compiler.compile_regex(case["regex"])
        else:
            grammar = compiler.compile_json_schema(case["schema_text"], any_whitespace=True, strict_mode=False)
        return grammar, time.process_time() - start

    def matcher(self, grammar):
        return self.lib.GrammarMatcher(grammar)

    def mask(self, matcher):
        matcher.fill_next_token_bitmask(self.bits, 0)

    def accept(self, matcher, token):
        return matcher.accept_token(token)


def run(which, tokenizer_path, path):
    engine = {"llguidance": Llguidance, "xgrammar": Xgrammar}[which](tokenizer_path)
    clock = time.thread_time
    for line in open(path):
        case = json.loads(line)
        compile_s, times, n_first = 1e9, None, 0
        for number in range(9):
            if number < 3 or compile_s < 0.05:  # those that take long are not compiled anew
                grammar, seconds = engine.compile(case)
                compile_s = min(compile_s, seconds)
            run_times = []
            for instance, tokens in enumerate(case["tokens"]):
                matcher = engine.matcher(grammar)
                for token in tokens:
                    start = clock()
                    engine.mask(matcher)
                    run_times.append(clock() - start)
                    if not engine.accept(matcher, token):
                        print("refused", case["name"], file=sys.stderr)
                        break
                if instance == 0:
                    n_first = len(run_times)
            times = run_times if times is None else list(map(min, times, run_times))
        print(json.dumps({"name": case["name"], "compile_us": round(compile_s * 1e6, 2),
                          "cold_avg_us": round(sum(times[:n_first]) / n_first * 1e6, 2),
                          "avg_us": round(sum(times) / len(times) * 1e6, 2),
                          "worst_us": round(max(times) * 1e6, 2), "tokens": len(times)}))


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(sys.argv[2], sys.argv[3])
    else:
        run(sys.argv[2], sys.argv[3], sys.argv[4])
