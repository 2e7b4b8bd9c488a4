"""mica embed with a real model, all-MiniLM-L6-v2, against the vectors of sentence-transformers."""
import ast
import json
import os
import struct
import subprocess
import sys
import tempfile

from cli import check, finish, run

exe, golden = sys.argv[1:3]
tools = os.path.join(golden, "..", "..", "tools")


def read_npy(data):
    n = 10 + struct.unpack("<H", data[8:10])[0]
    rows, columns = ast.literal_eval(data[10:n].decode())["shape"]
    numbers = struct.unpack("<%df" % (rows * columns), data[n:])
    return [numbers[i * columns:(i + 1) * columns] for i in range(rows)]


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def embed(model, texts, *flags):
    words = [w for text in texts for w in ("-p", text)]
    code, out, err = run(exe, "embed", model, "--truncate", "--json", *flags, *words)
    check(code == 0, "embed %s: %s" % (flags, err))
    data = json.loads(out)["data"]
    return [d["embedding"] for d in data], [d["tokens"] for d in data]


fetched = subprocess.run([sys.executable, os.path.join(tools, "fetch-model"), "minilm"],
                         stdout=subprocess.PIPE, text=True)
if fetched.returncode:
    print("skipped: all-MiniLM-L6-v2 cannot be fetched here")
    sys.exit(77)
model = fetched.stdout.strip()
with open(os.path.join(golden, "starters", "minilm.json"), encoding="utf-8") as file:
    cases = json.load(file)["cases"]
with open(os.path.join(golden, "starters", "minilm.npy"), "rb") as file:
    expected = read_npy(file.read())
texts = [c["text"] for c in cases]
std = (sum(x * x for v in expected for x in v) / sum(map(len, expected))) ** 0.5

exact, tokens = embed(model, texts, "--exact", "--dtype", "f32")
worst = max(abs(x - y) for a, b in zip(exact, expected) for x, y in zip(a, b)) / std
check(tokens == [c["n_ids"] for c in cases], "as many ids: %s" % tokens)
check(len(exact) == len(expected) and worst <= 2e-3, "exact: off by %.1e of the std" % worst)
fast, _ = embed(model, texts)
least = min(dot(a, b) for a, b in zip(fast, expected))
check(least > 0.9995, "fast: least cosine %.6f" % least)
print("exact off by %.1e of the std, fast at a cosine of %.6f or more" % (worst, least))

# The same bits alone as among others, and by name.
for i, text in enumerate(texts):
    check(embed("minilm", [text])[0][0] == fast[i], "alone: %r" % text[:40])
with tempfile.TemporaryDirectory() as temp:
    code, _, err = run(exe, "embed", model, "-p", texts[0], "-o", os.path.join(temp, "out.npy"))
    with open(os.path.join(temp, "out.npy"), "rb") as file:
        again = [struct.unpack("<f", struct.pack("<f", x))[0] for x in fast[0]]
        check(code == 0 and list(read_npy(file.read())[0]) == again, "-o: " + err)

# It means something: a paraphrase is nearer than another subject.
near, far, base = embed(model, ["A kitten rests in the open air.", "Stock prices fell sharply.",
                                "A cat sits outside."])[0]
check(dot(base, near) > dot(base, far) + 0.2, "a paraphrase is nearer")
finish()
