#!/usr/bin/env python3
"""Random schemas, answered by a tiny model that samples: what `mica generate` writes to its end is
an instance that jsonschema accepts. Needs jsonschema (exit 77 without).

Usage: test_model_schemas.py MICA MODEL [N [SEED]]
"""

import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from test_random_schemas import Maker, is_valid, jsonschema


def answer(mica, model, schema_path, seed):
    """The text and why it ended; None: the schema is refused."""
    command = [mica, "generate", model, "--raw", "-p", "a", "-t", "1.5", "--seed", str(seed),
               "-m", "200", "--threads", "1", "--json", "--json-schema", schema_path]
    run = subprocess.run(command, capture_output=True, text=True, errors="surrogateescape")
    if run.returncode:
        return None, run.stderr
    result = json.loads(run.stdout)
    return result["text"], result["finish_reason"]


def main():
    mica, model = sys.argv[1:3]
    n = int(sys.argv[3]) if len(sys.argv) > 3 else 200
    first = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    counts = {"whole": 0, "cut": 0, "refused": 0}
    n_wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "schema.json"
        for seed in range(first, first + n):
            schema = Maker(random.Random(seed)).document()
            path.write_text(json.dumps(schema))
            text, reason = answer(mica, model, path, seed)
            if text is None:
                counts["refused"] += 1
                if "schema" not in reason and "grammar" not in reason:
                    n_wrong += 1
                    print(f"seed {seed}: {reason}")
                continue
            if reason == "length":
                counts["cut"] += 1
                continue
            counts["whole"] += 1
            validator = jsonschema.Draft202012Validator(
                schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
            try:
                valid = is_valid(validator, text)
            except RecursionError:
                continue
            if not valid:
                n_wrong += 1
                print(f"seed {seed}: not an instance: {text!r} of {json.dumps(schema)}")
    print(f"seeds {first} to {first + n - 1}:", counts, "wrong:", n_wrong)
    return 1 if n_wrong or counts["whole"] < n // 4 else 0


if __name__ == "__main__":
    sys.exit(main())
