"""`mica eval perplexity`. With a tiny model: against sums made here from `mica logits`. With a starter's name as third
argument: the fast profile, in both roles, is within 0.5 % of exact on a public-domain text (exit code 77: not fetched)."""
import array
import json
import math
import os
import struct
import sys
import tempfile

from cli import check, check_error, finish, run

exe, golden = sys.argv[1:3]
ALICE = os.path.join(golden, "perplexity", "alice.txt")


def perplexity(model, text, *args):
    code, out, err = run(exe, "eval", "perplexity", model, text, "--json", *args, timeout=1200)
    check(code == 0 and not err, "eval %s: %s" % (args, err))
    return json.loads(out) if code == 0 else {"perplexity": math.nan, "mean_nll": math.nan, "tokens": 0}


def window_nll(model, ids):
    with tempfile.TemporaryDirectory(prefix="mica-test-") as root:
        path = os.path.join(root, "out.npy")
        code, _, err = run(exe, "logits", model, "--ids", ",".join(map(str, ids)), "-o", path, "--exact", "--dtype", "f32")
        check(code == 0, err)
        with open(path, "rb") as file:
            raw = file.read()
    values = array.array("f")
    values.frombytes(raw[10 + struct.unpack("<H", raw[8:10])[0]:])
    n = len(values) // len(ids)
    out = []
    for i, following in enumerate(ids[1:]):
        row = values[i * n:(i + 1) * n]
        most = max(row)
        out.append(most + math.log(sum(math.exp(x - most) for x in row)) - row[following])
    return out


def check_sums():
    model = os.path.join(golden, "tiny", "gguf-llama", "model.gguf")
    code, out, err = run(exe, "tokenize", model, open(ALICE, encoding="utf-8").read()[:400], "--json")
    check(code == 0, err)
    ids = json.loads(out)["ids"][:100]
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as text:
        text.write(open(ALICE, encoding="utf-8").read()[:400])
        text.flush()
        for window in (32, 100, 7):
            nll = [x for i in range(0, len(ids), window) if i + 1 < len(ids) for x in window_nll(model, ids[i:i + window])]
            got = perplexity(model, text.name, "--window", window, "-n", 100, "--exact", "--dtype", "f32")
            want = sum(nll) / len(nll)
            check(got["tokens"] == len(nll) and abs(got["mean_nll"] - want) < 1e-6, "window %d: %s, expected %g" % (window, got, want))
            check(abs(got["perplexity"] - math.exp(want)) < 1e-4 * math.exp(want), got)
        check_error(exe, ["eval", "perplexity", model, text.name, "--window", "100000"], 1, "window")
    check_error(exe, ["eval", "perplexity", model, "/dev/null"], 1, "at least 2")
    check_error(exe, ["eval", "perplexity", model, "/no/such"], 1, "/no/such")
    check_error(exe, ["eval", "taste", "m", "x"], 2, "taste")


def check_starter(name):
    if run(exe, "inspect", name)[0]:
        print("skipped: %s has not been fetched" % name)
        sys.exit(77)
    exact = perplexity(name, ALICE, "--exact", "--dtype", "f32")
    check(exact["tokens"] >= 2000 and 5 < exact["perplexity"] < 60, "exact: %s" % exact)
    for role in ("prompt", "decode"):
        fast = perplexity(name, ALICE, "--role", role)
        off = fast["perplexity"] / exact["perplexity"] - 1
        print("%s, %s rows: exact %.4f, fast %.4f: %+.3f %%" % (name, role, exact["perplexity"], fast["perplexity"], 100 * off))
        check(abs(off) < 0.005, "perplexity of fast %s rows is off by %.3f %%" % (role, 100 * off))


if len(sys.argv) > 3:
    check_starter(sys.argv[3])
else:
    check_sums()
finish()
