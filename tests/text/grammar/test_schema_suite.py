#!/usr/bin/env python3
"""The JSON Schema Test Suite (draft 2020-12) against the schema compiler.

Usage: test_schema_suite.py PROBE [FOLDER | --fetch FOLDER]. FOLDER is the suite's tests/draft2020-12,
or $MICA_SCHEMA_SUITE; with --fetch pip downloads the source package of jsonschema, which holds the
suite, into FOLDER. Without the suite the test skips itself (exit 77). A schema that is refused must be refused for a keyword that is on the list below;
every instance of an accepted schema gets the suite's verdict, but for the cases named in KNOWN.
"""

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

from probe import Probe

PACKAGE = "jsonschema==4.26.0"

# Valid instances that are never generated, since an equal value is spelled in another way: integers
# without fraction, values of enum and const as they are written in the schema.
OTHER_SPELLINGS = {
    "a float with zero fractional part is an integer",
    "float zero is valid",
    "float one is valid",
    "integer zero is valid",
    "integer one is valid",
    "integer -2 is valid",
    "float -2.0 is valid",
    "float is valid",
    "[0.0] is valid",
    "[1.0] is valid",
    "same object with different property order is valid",
}
# oneOf is compiled as anyOf: an instance of two branches is accepted.
TWO_BRANCHES = {
    "both oneOf valid",
    "any value is invalid",
    "both oneOf valid (complex)",
    "both valid - invalid",
}
# Files for keywords of which none is supported, or that need other documents.
SKIPPED_FILES = {
    "dynamicRef", "refRemote", "vocabulary", "id", "unknownKeyword", "content",
    "infinite-loop-detection", "format",
}
WORDS_OF_REFUSAL = (
    "is not supported", "look-ahead", "leads to no schema", "word boundaries",
    "cannot be satisfied", "leads back to itself", "begins with itself",
)


def check_group(probe, name, group, counts):
    texts = [json.dumps(test["data"], ensure_ascii=False) for test in group["tests"]]
    answer = probe.ask(schema=group["schema"], texts=texts, any_order=True)
    where = f"{name}: {group['description']}"
    if "error" in answer:
        counts["refused"] += 1
        error = answer["error"]
        if not any(word in error for word in WORDS_OF_REFUSAL):
            print(f"{where}: refused with {error}")
            return 1
        if "cannot be satisfied" in error and any(test["valid"] for test in group["tests"]):
            print(f"{where}: not satisfiable, but the suite has a valid instance")
            return 1
        return 0
    n_wrong = 0
    for test, text, got in zip(group["tests"], texts, answer["accepts"]):
        counts["cases"] += 1
        if got == test["valid"]:
            continue
        known = OTHER_SPELLINGS if test["valid"] else TWO_BRANCHES if name == "oneOf" else ()
        if test["description"] in known:
            counts["known"] += 1
            continue
        n_wrong += 1
        print(f"{where}: {test['description']}: {text}: is {test['valid']}, got {got}; "
              f"schema {json.dumps(group['schema'])[:300]}")
    return n_wrong


def check_format(probe, name, group, counts):
    """A format's pattern may be narrower than the format, never wider."""
    tests = [test for test in group["tests"] if isinstance(test["data"], str)]
    texts = [json.dumps(test["data"], ensure_ascii=False) for test in tests]
    answer = probe.ask(schema=group["schema"], texts=texts)
    if "error" in answer:
        return 0
    n_wrong = 0
    for test, text, got in zip(tests, texts, answer["accepts"]):
        counts["formats"] += 1
        counts["narrower"] += test["valid"] and not got
        if got and not test["valid"]:
            n_wrong += 1
            print(f"format {name}: accepts {text}: {test['description']}")
    return n_wrong


def fetch(folder):
    """The suite from the source package."""
    folder.mkdir(parents=True, exist_ok=True)
    if not list(folder.glob("jsonschema-*.tar.gz")):
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                        "--no-binary", "jsonschema", "--dest", folder, PACKAGE],
                       timeout=300)
    for path in folder.glob("jsonschema-*.tar.gz"):
        with tarfile.open(path) as archive:
            for member in archive:
                inside = member.name.partition("/json/tests/draft2020-12/")[2]
                if not inside.endswith(".json"):
                    continue
                target = folder / "draft2020-12" / inside
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.extractfile(member).read())
    return folder / "draft2020-12"


def main():
    if sys.argv[2:3] == ["--fetch"]:
        folder = fetch(Path(sys.argv[3]))
    else:
        folder = Path(sys.argv[2] if len(sys.argv) > 2 else os.environ.get("MICA_SCHEMA_SUITE", ""))
    if not (folder / "type.json").exists():
        print("the JSON Schema Test Suite is not there")
        return 77
    counts = {"cases": 0, "refused": 0, "known": 0, "formats": 0, "narrower": 0}
    n_wrong = 0
    with Probe(sys.argv[1]) as probe:
        for path in sorted(folder.glob("*.json")):
            if path.stem in SKIPPED_FILES:
                continue
            for group in json.loads(path.read_text()):
                n_wrong += check_group(probe, path.stem, group, counts)
        for path in sorted((folder / "optional" / "format").glob("*.json")):
            for group in json.loads(path.read_text()):
                n_wrong += check_format(probe, path.stem, group, counts)
    print(counts, "wrong:", n_wrong)
    return 1 if n_wrong or counts["cases"] < 300 else 0


if __name__ == "__main__":
    sys.exit(main())
