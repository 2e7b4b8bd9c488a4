"""generate with --json-schema, --grammar and --regex on a tiny model with a tokenizer."""
import json
import os
import re
import sys
import tempfile

from cli import check, finish, run

exe, golden = sys.argv[1:3]
MODEL = os.path.join(golden, "tiny", "llama-text")
SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": 3, "maximum": 500}, "e": {"enum": ["red", "green"]}},
    "required": ["n", "e"], "additionalProperties": False,
}


def generate(*args):
    code, out, err = run(exe, "generate", MODEL, "-p", "a", "--temperature", "1", "-m", "400", *args)
    return code, out.decode("utf-8", "replace"), err


with tempfile.TemporaryDirectory(prefix="mica-test-") as folder:
    schema, grammar, bad = (os.path.join(folder, name) for name in ("s.json", "g.gbnf", "bad.json"))
    with open(schema, "w", encoding="utf-8") as file:
        json.dump(SCHEMA, file)
    with open(grammar, "w", encoding="utf-8") as file:
        file.write('root ::= "yes" | "no" [a-c]{2}\n')
    with open(bad, "w", encoding="utf-8") as file:
        file.write('{"type": "integer", "minimum": 2, "maximum": 1}')
    n_whole = 0
    for seed in range(8):
        code, out, err = generate("--json-schema", schema, "--seed", str(seed), "--json")
        check(code == 0, "schema: %s" % err)
        answer = json.loads(out) if code == 0 else {"finish_reason": ""}
        if answer["finish_reason"] == "stop":  # else so many blanks that the context ended
            n_whole += 1
            got = json.loads(answer["text"])
            check(list(got) == ["n", "e"] and 3 <= got["n"] <= 500 and got["e"] in ("red", "green"),
                  "schema: %r" % answer)
        code, out, err = generate("--regex", "x[0-9]{3,4}!", "--seed", str(seed))
        check(code == 0 and re.fullmatch(r"x[0-9]{3,4}!\n", out), "regex: %r %s" % (out, err))
        code, out, err = generate("--grammar", grammar, "--seed", str(seed))
        check(code == 0 and re.fullmatch("(yes|no[a-c]{2})\n", out), "grammar: %r %s" % (out, err))
    check(n_whole >= 3, "only %d of 8 answers are whole" % n_whole)
    def warns(max_tokens, pattern):
        code, out, err = run(exe, "generate", MODEL, "-p", "a", "-m", str(max_tokens), "--regex", pattern)
        check(code == 0, "cut: %s" % err)
        return "incomplete: --max-tokens ended it" in err

    check(warns(2, "[0-9]{400}"), "a cut answer is not told of")
    check(not warns(2, "[0-9]{0,400}"), "a whole answer is called incomplete")
    check(not warns(400, "[0-9]{2}"), "an answer that ended is called incomplete")
    code, out, err = generate("--json-schema", bad)
    check(code == 1 and not out and "cannot be satisfied" in err, "bad schema: %d %r" % (code, err))
    code, out, err = generate("--regex", "a(b")
    check(code == 1 and "byte 1" in err, "bad regex: %d %r" % (code, err))
    code, out, err = generate("--regex", "a", "--grammar", grammar)
    check(code == 2 and "only one" in err, "two constraints: %d %r" % (code, err))

finish()
