"""mica embed: where texts come from, what comes out, prompts and limits, and what is refused."""
import ast
import json
import os
import struct
import sys
import tempfile
from pathlib import Path

from cli import check, check_error, finish, run

exe, golden = sys.argv[1], Path(sys.argv[2])
EXACT = ["--exact", "--dtype", "f32"]


def read_npy(data):
    n = 10 + struct.unpack("<H", data[8:10])[0]
    rows, columns = ast.literal_eval(data[10:n].decode())["shape"]
    numbers = struct.unpack(f"<{rows * columns}f", data[n:])
    return [numbers[i * columns:(i + 1) * columns] for i in range(rows)]


def load(name):
    """(what to call it by, cases with their stored vectors)"""
    folder = golden / "embed" / name
    cases = json.loads((folder / "embed.json").read_text())["cases"]
    for case, vector in zip(cases, read_npy((folder / "vectors.npy").read_bytes())):
        case["vector"] = vector
    path = folder / "model.gguf"
    return path if path.exists() else folder, cases


def near(a, b):
    return len(a) == len(b) and max(abs(x - y) for x, y in zip(a, b)) < 1e-3


def embed(model, *args, stdin=b""):
    code, out, err = run(exe, "embed", model, *EXACT, *args, stdin=stdin)
    check(code == 0, f"embed {model} {args}: {code} {err}")
    return out


# Every checkpoint, every case that flags can ask for.
for name in sorted(p.name for p in (golden / "embed").iterdir() if p.is_dir()):
    model, cases = load(name)
    for case in cases:
        flags = ["--truncate"]
        if case.get("prompt_name"):
            flags += ["--prompt-name", case["prompt_name"]]
        if case.get("instruction"):
            flags += ["--instruction", case["instruction"]]
        if case.get("pooling"):
            flags += ["--pooling", case["pooling"]]
        result = json.loads(embed(model, "-p", case["text"], "--json", *flags))
        check(result["data"][0]["tokens"] == len(case["ids"]), f"{name} {case['text']!r}: tokens")
        check(near(result["data"][0]["embedding"], case["vector"]), f"{name} {case['text']!r}")

model, cases = load("bert-mean")
plain = [c for c in cases if not (c["prompt_name"] or c["pooling"] or "\n" in c["text"])
         and len(c["ids"]) < 48]
texts = [c["text"] for c in plain]
lines = "".join(t + "\n" for t in texts).encode()
with tempfile.TemporaryDirectory() as temp:
    # Lines of a file or of standard input; NumPy, text and JSON say the same.
    file, npy = Path(temp) / "lines.txt", Path(temp) / "out.npy"
    file.write_bytes(lines.replace(b"\n", b"\r\n"))
    check(embed(model, "--file", file, "-o", npy) == b"", "-o prints nothing")
    stored = read_npy(npy.read_bytes())
    check(len(stored) == len(texts) and all(near(a, c["vector"])
                                            for a, c in zip(stored, plain)), "a file of lines")
    for extra in ([], ["--file", "-"], ["--chunk", "3"], ["--threads", "2"]):
        rows = [[float(x) for x in line.split()]
                for line in embed(model, *extra, stdin=lines).decode().splitlines()]
        check([[struct.unpack("<f", struct.pack("<f", x))[0] for x in r] for r in rows]
              == [list(r) for r in stored], f"lines of numbers {extra}")
    check(read_npy(embed(model, "-o", "-", stdin=lines[:-1])) == stored, "-o -")
    result = json.loads(embed(model, "--json", *(w for t in texts for w in ("-p", t))))
    check([tuple(struct.unpack("<f", struct.pack("<f", x))[0] for x in d["embedding"])
           for d in result["data"]] == stored, "--json")
    check(result["dimensions"] == 32 and result["pooling"] == "mean" and result["normalized"]
          and result["prompt"] is None and [d["index"] for d in result["data"]] ==
          list(range(len(texts))) and result["tokens"] == sum(len(c["ids"]) for c in plain),
          "--json: what was done")
    # Length and unit length.
    short = json.loads(embed(model, "-p", texts[0], "-d", "5", "--json"))["data"][0]["embedding"]
    check(len(short) == 5 and abs(sum(x * x for x in short) - 1) < 1e-5, "--dimensions")
    raw = json.loads(embed(model, "-p", texts[0], "--no-normalize", "--json"))
    length = sum(x * x for x in raw["data"][0]["embedding"]) ** 0.5
    check(not raw["normalized"] and abs(length - 1) > 0.01 and near(
        [x / length for x in raw["data"][0]["embedding"]], stored[0]), "--no-normalize")
    ids = json.loads(embed(model, "--ids", ",".join(map(str, plain[1]["ids"])), "--json"))
    check(near(ids["data"][0]["embedding"], plain[1]["vector"]), "--ids")
    check_error(exe, ["embed", model, "--file", Path(temp) / "none.txt"], 1, "none.txt")
    check_error(exe, ["embed", model, "-p", "a", "-o", Path(temp) / "no" / "x.npy"], 1, "x.npy")

# Prompts: by name, the model's default, none.
apart, cases = load("bert-apart")
with_default = next(c for c in cases if not c["prompt_name"] and not c["pooling"])
result = json.loads(embed(apart, "-p", with_default["text"], "--json"))
check(result["prompt"] == "query: " and near(result["data"][0]["embedding"],
                                             with_default["vector"]), "the default prompt")
result = json.loads(embed(apart, "-p", with_default["text"], "--json", "--prompt-name", ""))
check(result["prompt"] is None, "no prompt")
check_error(exe, ["embed", model, "-p", "a", "--prompt-name", "quest"], 1,
            "no prompt is called 'quest'; there are: document, passage, query")

# Limits.
long_text = "the ship and the rain " * 20
check_error(exe, ["embed", model, "-p", "a", "-p", long_text], 1,
            "text 1 has 102 tokens; this model embeds at most 48")
check(json.loads(embed(model, "-p", long_text, "--truncate", "--json"))["tokens"] == 48,
      "--truncate")
check_error(exe, ["embed", model], 1, "no text", stdin=b"")

# Models of other kinds.
llama = golden / "tiny" / "llama-text"
check_error(exe, ["embed", llama, "-p", "a"], 1, "a llama without modules.json is no embedding")
result = json.loads(embed(llama, "-p", "the rain", "--pooling", "last", "--json"))
check(len(result["data"][0]["embedding"]) == result["dimensions"], "--pooling of any decoder")
check_error(exe, ["generate", model, "--ids", "2,5"], 1, "bert is an encoder")
check_error(exe, ["logits", model, "--ids", "2,5", "-o", os.devnull], 1, "bert is an encoder")
check_error(exe, ["bench", model], 1, "bert is an encoder")
code, out, _ = run(exe, "models", model)
check(code == 0 and out.startswith(b"bert, generic"), "models")
code, out, _ = run(exe, "inspect", model)
check(code == 0 and b"bert" in out, "inspect")
finish()
