#!/usr/bin/env python3
"""The grammars and schemas of llama.cpp's tests: cases, not code, read from the source archive of
llama-cpp-python, which pip downloads into FOLDER once (77 MB). Skips itself (77) without it.

Usage: test_llama_cpp.py PROBE FOLDER

Each grammar of its folder must compile and yield texts; each text of its grammar cases gets the
verdict that is written there; each schema compiles or is refused by name, as listed here, takes the
texts that are to pass, and rejects what jsonschema (if installed) says is no instance.
"""

import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path

from probe import Probe

PACKAGE = "llama-cpp-python==0.3.36"

# What a schema may be refused for.
REFUSED = ("\"not\"", "\"if\"", "\"uniqueItems\"", "leads to no schema", "!<token>", "look-ahead")
# A text of the grammars in which a random walk seldom comes to an end.
TEXTS = {"arithmetic": "1+2 = x\n(3*y) = 4\n", "list": "- a\n- b c\n"}


def fetch(folder):
    folder.mkdir(parents=True, exist_ok=True)
    archives = list(folder.glob("llama_cpp_python-*.tar.gz"))
    if not archives:
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                        "--no-binary", "llama-cpp-python", "--dest", folder, PACKAGE],
                       timeout=600)
        archives = list(folder.glob("llama_cpp_python-*.tar.gz"))
    if not archives:
        print(f"{PACKAGE} cannot be downloaded")
        sys.exit(77)
    return tarfile.open(archives[0])


def members(archive):
    found = {}
    for member in archive:
        name = member.name.split("llama.cpp/", 1)[-1]
        if re.fullmatch(r"grammars/\w+\.gbnf|tests/test-(grammar|json-schema)[\w-]*\.cpp", name):
            found[name] = archive.extractfile(member).read().decode()
    return found


TOKEN = re.compile(r'R"(\w*"*)\((.*?)\)\1"|"((?:[^"\\]|\\.)*)"|//[^\n]*|/\*.*?\*/|[{}(),;]|\w+', re.S)
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'", "b": "\b", "f": "\f"}


def unescape(text):
    def one(match):
        code = match.group(1)
        return chr(int(code[1:], 16)) if code[0] in "uUx" else ESCAPES[code]
    return re.sub(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]+|.)", one, text, flags=re.S)


def tokens(source):
    """("text", value) for string literals, joined where they are neighbours; (mark, None)."""
    out = []
    for match in TOKEN.finditer(source):
        if match.group(0).startswith(("//", "/*")):
            continue
        if match.group(0).startswith('R"'):
            out.append(("text", match.group(2)))
        elif match.group(3) is not None:
            text = unescape(match.group(3))
            if out and out[-1][0] == "text":
                text = out.pop()[1] + text
            out.append(("text", text))
        else:
            out.append((match.group(0), None))
    return out


def calls(source, function):
    """The arguments of each call: texts, and lists of them."""
    all_tokens = tokens(source)
    for i, (mark, _) in enumerate(all_tokens):
        if mark != function or all_tokens[i + 1][0] != "(" or all_tokens[i + 2][0] == "const":
            continue
        arguments, depth, k = [], 1, i + 2
        while depth:
            mark, text = all_tokens[k]
            k += 1
            if mark == "text":
                (arguments[-1] if depth == 2 else arguments).append(text)
            elif mark in "({":
                depth += 1
                if depth == 2:
                    arguments.append([])
            elif mark in ")}":
                depth -= 1
            elif mark in ("SUCCESS", "FAILURE"):
                arguments[-1].append(mark)
        yield arguments


def check_grammars(probe, files):
    n_wrong = 0
    for name, text in files.items():
        if not name.endswith(".gbnf"):
            continue
        answer = probe.ask(gbnf=text, walks=5, seed=1, steps=30)
        walks = [walk for walk in answer.get("walks", []) if walk is not None]
        walks += [TEXTS[stem] for stem in TEXTS if name == f"grammars/{stem}.gbnf"]
        accepts = probe.ask(gbnf=text, texts=walks)["accepts"] if walks else []
        print(f"{name}: {answer.get('error') or walks[:1]}")
        n_wrong += "error" in answer or not walks or not all(accepts)
    return n_wrong


def check_case(probe, title, request, passing, failing, is_wrong):
    answer = probe.ask(texts=passing + failing, **request)
    if "error" in answer:
        if any(word in answer["error"] for word in REFUSED):
            return 0
        print(f"{title}: {answer['error']}")
        return 1
    n_wrong = 0
    for i, (text, got) in enumerate(zip(passing + failing, answer["accepts"])):
        if got != (i < len(passing)) and is_wrong(text, got):
            n_wrong += 1
            print(f"{title}: {text!r}: is {i < len(passing)}, got {got}")
    return n_wrong


def validity(schema):
    try:
        import jsonschema
    except ImportError:
        return lambda text, got: not got

    def is_wrong(text, got):
        """Rejected though it must pass; or accepted, but no instance (their bounds are tighter)."""
        if not got:
            return True
        try:
            return not jsonschema.Draft202012Validator(schema).is_valid(json.loads(text))
        except ValueError:
            return True
    return is_wrong


def main():
    files = members(fetch(Path(sys.argv[2])))
    n_wrong = n_grammars = n_schemas = 0
    with Probe(sys.argv[1]) as probe:
        n_wrong += check_grammars(probe, files)
        source = files["tests/test-grammar-integration.cpp"]
        for title, grammar, passing, failing in calls(source, "test_grammar"):
            n_grammars += 1
            n_wrong += check_case(probe, title, {"gbnf": grammar}, passing, failing,
                                  lambda text, got: True)
        for title, schema, passing, failing in calls(source, "test_schema"):
            n_schemas += 1
            schema = json.loads(schema)
            n_wrong += check_case(probe, title, {"schema": schema, "any_order": False}, passing,
                                  failing, validity(schema))
        for case in calls(files["tests/test-json-schema-to-grammar.cpp"], "test"):
            if len(case) == 1 and len(case[0]) == 4 and case[0][0] == "SUCCESS":
                _, title, schema, _ = case[0]
                n_schemas += 1
                answer = probe.ask(schema=json.loads(schema), walks=1, seed=1, steps=10)
                if "error" in answer and not any(word in answer["error"] for word in REFUSED):
                    n_wrong += 1
                    print(f"{title}: {answer['error']}: {schema}")
    print(f"{n_grammars} grammars, {n_schemas} schemas, wrong: {n_wrong}")
    return 1 if n_wrong or n_grammars < 10 or n_schemas < 50 else 0


if __name__ == "__main__":
    sys.exit(main())
