#!/usr/bin/env python3
"""Published chat templates as judges of the grammars of calls: a call that a template renders through
Jinja2, as Transformers does it, must be one that the grammar of its tools lets the model write, byte
by byte, from the first byte of the call to its last.

usage: test_forced_templates.py FORCED_PROBE FOLDER [N]
       test_forced_templates.py --golden FOLDER > tests/golden/toolcalls/forced.json

The templates come from where templates.py has them. Without a network or Jinja2 the test is skipped
(exit code 77).
"""

import json
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "grammar"))
from probe import Probe  # noqa: E402
from templates import fetch  # noqa: E402

try:
    import jinja2
    import jinja2.ext
    import jinja2.sandbox
except ImportError:
    print("skipped: jinja2 is not installed")
    sys.exit(77)

# Template, where the text of calls begins in the rendering (the last time), what follows it.
CASES = [
    ("google-gemma-4-31B-it.jinja", "<|turn>model\n", "<|tool_response>"),
    ("google-gemma-4-31B-it-interleaved.jinja", "<|turn>model\n", "<turn|>\n"),
    ("MiniMax-M3.jinja", "</mm:think>", "[e~[\n"),
    ("muse-glimmer.jinja", "<|eot|>", "<|eot|>"),
    ("Kimi-K3.jinja", "<|open|>think<|sep|><|close|>think<|sep|>",
     "<|close|>message<|sep|><|end_of_msg|>"),
    ("tencent-Hy3.jinja", "</think:opensource>", "<｜hy_eos:opensource｜>"),
    ("Qwen3-Coder.jinja", "<|im_start|>assistant\n", "<|im_end|>\n"),
    ("Qwen3.5-4B.jinja", "<|im_start|>assistant\n<think>\n\n</think>\n\n", "<|im_end|>\n"),
    ("ByteDance-Seed-OSS.jinja", "<seed:bos>assistant\n", "<seed:eos>"),
    ("MiniMax-M2.jinja", "]~b]ai\n\n", "[e~[\n"),
    ("GLM-4.6.jinja", "<|assistant|>\n<think></think>\n", ""),
    ("openbmb-MiniCPM5-1B.jinja", "<|im_start|>assistant\n", "<|im_end|>\n"),
    ("deepseek-ai-DeepSeek-V3.2.jinja", "</think>\n\n", "<｜end▁of▁sentence｜>"),
    ("Qwen-Qwen3-0.6B.jinja", "<|im_start|>assistant\n<think>\n\n</think>\n\n", "<|im_end|>\n"),
]

TOOLS = [
    {"type": "function", "function": {"name": "search_flights", "description": "d", "parameters": {
        "type": "object", "properties": {
            "origin": {"type": "string"}, "note": {"type": "string", "maxLength": 40},
            "cabin": {"type": "string", "enum": ["economy", "first", "5"]},
            "adults": {"type": "integer", "minimum": 1}, "price": {"type": "number"},
            "direct": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "legs": {"type": "array", "items": {"type": "object", "properties": {
                "to": {"type": "string"}, "days": {"type": "integer"},
                "seats": {"type": "array", "items": {"type": "number"}}}, "required": ["to"],
                "additionalProperties": False}},
            "contact": {"type": "object", "properties": {
                "Zip": {"type": "string"}, "name": {"type": "string"}, "age": {"type": "integer"}},
                "required": ["name"], "additionalProperties": False}},
        "required": ["origin"], "additionalProperties": False}}},
    {"type": "function", "function": {"name": "get.time", "description": "d", "parameters": {
        "type": "object", "properties": {"zone": {"type": ["string", "null"]}},
        "additionalProperties": False}}},
]
WORDS = ["Berlin", "São Paulo", "a \"b\" c", "it's", "x\ny", "  two  ", "1 < 2 > 0 & so", "名前", "{a: 1}",
         "[x]", "12", "true", "C:\\dir", "<b>bold</b>", "👩‍👩‍👧", "a,b:c", "null and void", "`code`"]


def value(rng, schema):
    kind = schema["type"]
    if isinstance(kind, list):
        kind = rng.choice(kind)
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if kind == "string":
        return rng.choice(WORDS)
    if kind == "integer":
        return rng.randint(1, 10 ** rng.randint(1, 12))
    if kind == "number":
        return rng.choice([rng.randint(-9, 9), round(rng.uniform(-99, 99), 3), 1e-7, 2.5e20])
    if kind == "boolean":
        return rng.random() < 0.5
    if kind == "null":
        return None
    if kind == "array":
        return [value(rng, schema["items"]) for _ in range(rng.randint(0, 3))]
    return {k: value(rng, v) for k, v in schema["properties"].items()
            if k in schema.get("required", []) or rng.random() < 0.6}


def holds(v, test):
    if isinstance(v, dict):
        return any(holds(x, test) for x in v.values())
    return any(holds(x, test) for x in v) if isinstance(v, list) else test(v)


def is_writable(name, arguments):
    """Not what a template renders in a way that its own family does not read back."""
    if name == "MiniMax-M3.jinja":  # leaves null out
        return not holds(arguments, lambda v: v is None)
    if name in ("openbmb-MiniCPM5-1B.jinja", "ByteDance-Seed-OSS.jinja"):  # containers as Python
        if any(isinstance(v, (dict, list)) for v in arguments.values()) or None in arguments.values():
            return False
    if name == "openbmb-MiniCPM5-1B.jinja":  # CDATA; white space at the ends is lost
        return not holds(arguments, lambda v: isinstance(v, str) and (set("<&\n") & set(v) or v.strip() != v))
    return True


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: "2026-01-01"
    return env


def render(template, calls, tools=TOOLS):
    messages = [{"role": "user", "content": "q"},
                {"role": "assistant", "content": "", "tool_calls": [
                    {"id": "functions.%s:%d" % (name, i), "type": "function",
                     "function": {"name": name, "arguments": arguments}}
                    for i, (name, arguments) in enumerate(calls)]}]
    return template.render(messages=messages, tools=tools, add_generation_prompt=False, bos_token="",
                           eos_token="", enable_thinking=False)


def cut(name, text, begin, end):
    """The calls in a rendering; None where it is not as expected."""
    if not text.endswith(end) or begin not in text[: len(text) - len(end)]:
        print("%s: renders something unexpected: %r" % (name, text))
        return None
    text = text[: len(text) - len(end)]
    return text[text.rindex(begin) + len(begin):]


def check(probe, name, source, begin, end, n):
    template = environment().from_string(source)
    request = {"template": source, "tools": json.dumps(TOOLS), "parallel": True, "strict": True}
    rng = random.Random(name)
    texts = []
    while len(texts) < n:
        calls = [(t["function"]["name"], value(rng, t["function"]["parameters"]))
                 for t in rng.choices(TOOLS, k=rng.choice([1, 1, 2, 3]))]
        if not all(is_writable(name, arguments) for _, arguments in calls):
            continue
        text = cut(name, render(template, calls), begin, end)
        if text is None:
            return 1
        texts.append(text)
    answer = probe.ask(texts=texts, **request)
    if "error" in answer:
        print("%s: %s" % (name, answer["error"]))
        return 1
    n_bad = 0
    for text, n_fit in zip(texts, answer["accepts"]):
        if n_fit == -1:
            continue
        n_bad += 1
        raw = text.encode()
        if n_bad <= 3:
            print("%s: stops at byte %d: %r | %r" % (
                name, n_fit, raw[:n_fit].decode(errors="replace"),
                raw[n_fit:].decode(errors="replace")[:80]))
    print("%s: %d calls, %d not accepted" % (name, len(texts), n_bad))
    return n_bad


GOLDEN_TOOLS = [{"type": "function", "function": {"name": "find", "description": "d", "parameters": {
    "type": "object", "properties": {
        "ids": {"type": "array", "items": {"type": "integer"}}, "note": {"type": "string"},
        "who": {"type": "object", "properties": {"ok": {"type": "boolean"}, "tag": {"type": "string"}},
                "additionalProperties": False},
        "x": {"type": "number"}}, "additionalProperties": False}}}]
GOLDEN_CALLS = [
    {"ids": [1, -2], "note": "a \"b\"\n<c>: {1}", "who": {"ok": True, "tag": "é"}, "x": 0.5},
    {"ids": []}]


def write_golden(folder):
    """Two calls as each template renders them, for tests without a network."""
    cases = []
    for name, begin, end in CASES:
        if name in ("openbmb-MiniCPM5-1B.jinja", "ByteDance-Seed-OSS.jinja"):
            continue  # containers as Python
        template = environment().from_string((folder / name).read_text())
        text = render(template, [("find", call) for call in GOLDEN_CALLS], GOLDEN_TOOLS)
        cases.append({"template": name, "text": cut(name, text, begin, end)})
    formats = dict(line.split()[:2] for line in
                   (Path(__file__).parent / "templates.txt").read_text().splitlines())
    for case in cases:
        case["format"] = formats[case["template"]]
        case["suffix"] = ":opensource" if case["format"] == "hunyuan" else ""
    json.dump({"tools": json.dumps(GOLDEN_TOOLS), "arguments": [json.dumps(c, ensure_ascii=False) for c in GOLDEN_CALLS],
               "cases": cases}, sys.stdout, ensure_ascii=False, indent=1)
    print()


def main():
    folder = Path(sys.argv[2])
    if sys.argv[1] == "--golden":
        write_golden(folder)
        return
    n = int(sys.argv[3]) if len(sys.argv) > 3 else 100
    if not list(folder.glob("*.jinja")):
        fetch(folder)
    n_bad = 0
    with Probe(sys.argv[1]) as probe:
        for name, begin, end in CASES:
            n_bad += check(probe, name, (folder / name).read_text(), begin, end, n)
    sys.exit(1 if n_bad else 0)


if __name__ == "__main__":
    main()
