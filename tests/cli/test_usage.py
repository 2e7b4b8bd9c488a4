"""Exit codes and messages of wrong usage; help of every verb."""
import json
import sys

from cli import check, check_error, finish, run

exe = sys.argv[1]
VERBS = ["generate", "logits", "embed", "tokenize", "detokenize", "inspect", "plan", "bench", "synth", "pack", "eval"]

check_error(exe, [], 2, "usage")
check_error(exe, ["fly"], 2, "fly")
for verb in VERBS:
    check_error(exe, [verb], 2, "usage")
    check_error(exe, [verb, "m", "--no-such-option"], 2, "--no-such-option")
    for flag in ("--help", "-h"):
        code, out, err = run(exe, verb, flag)
        check(code == 0 and b"Examples:" in out and not err, "%s %s" % (verb, flag))
for args in (["--help"], ["help"], ["--version"], ["-v"], ["version"]):
    code, out, err = run(exe, *args)
    check(code == 0 and out.startswith((b"usage: mica", b"mica ")) and not err, args)
code, out, _ = run(exe, "models", "--help")
check(code == 0 and b"Examples:" in out, "models --help")
code, out, err = run(exe, "models")
check(code == 0 and not err and b"starcoder2           generic      starcoder2\n" in out, "models")
code, out, _ = run(exe, "models", "--json")
rows = {r["model_type"]: r for r in json.loads(out)}
check([t for t in rows if rows[t].get("encoder")] == ["bert", "distilbert", "nomic_bert", "roberta"],
      "encoders")
check(rows["qwen3"]["tier"] == "dedicated" and rows["cohere"]["gguf"] == "command-r" and
      rows["helium"]["gguf"] is None and list(rows) == sorted(rows), "models --json")
check_error(exe, ["models", "no/such/file"], 1, "no/such/file")
MISSING = "no/such/file"
for args in (["models", MISSING], ["inspect", MISSING], ["plan", MISSING], ["bench", MISSING],
             ["tokenize", MISSING, "x"], ["detokenize", MISSING, "--ids", "1"], ["generate", MISSING, "-p", "x"],
             ["embed", MISSING, "-p", "x"], ["eval", "perplexity", MISSING, __file__]):
    code, out, err = run(exe, *args, "--json")
    check(code == 1 and list(json.loads(out)) == ["error"] and
          "mica: " + json.loads(out)["error"] + "\n" == err, (args, "--json", code, out, err))
code, out, _ = run(exe, "--help")
check(all(verb.encode() in out for verb in VERBS), "--help lists every verb")

for args, needle in [
    (["generate", "m"], "-p"),
    (["generate", "m", "-p", "x", "--ids", "1"], "either"),
    (["generate", "m", "-p"], "missing"),
    (["generate", "m", "-p", "x", "--max-tokens", "many"], "many"),
    (["generate", "m", "-p", "x", "--max-tokens=-1"], "not in"),
    (["generate", "m", "-p", "x", "--temperature", "nan"], "nan"),
    (["generate", "m", "-p", "x", "--temperature", "9"], "not in"),
    (["generate", "m", "-p", "x", "--json=yes"], "no value"),
    (["generate", "m", "-p", "x", "--dtype", "f32"], "--exact"),
    (["generate", "m", "-p", "x", "--exact", "--dtype", "f8"], "f8"),
    (["generate", "m", "-p", "x", "--max-tokens", "1e3"], "--max-tokens"),
    (["generate", "m", "-p", "x", "--raw", "--system-prompt", "y"], "--raw"),
    (["generate", "m", "-p", "x", "--lever", "warp=on"], "warp"),
    (["generate", "m", "-p", "x", "--lever", "swiglu"], "swiglu"),
    (["generate", "m", "-p", "x", "--json", "--verbose"], "--verbose"),
    (["generate", "m", "--ids", "1,x"], "x"),
    (["generate", "m", "--ids", "1 2"], "comma"),
    (["generate", "m", "--ids", "-1"], "-1"),
    (["generate", "a", "b", "-p", "x"], "b"),
    (["logits", "m", "--ids", "1"], "-o"),
    (["logits", "m", "--ids", "", "-o", "x"], "empty"),
    (["logits", "m", "--ids", "1", "-o", "x", "--chunk", "0"], "not in"),
    (["embed", "m", "-p", "a", "--ids", "1"], "one of"),
    (["embed", "m", "-p", "a", "--pooling", "median"], "sqrt-mean"),
    (["embed", "m", "-p", "a", "--normalize", "--no-normalize"], "either"),
    (["embed", "m", "-p", "a", "--instruction", "x", "--prompt-name", "y"], "either"),
    (["embed", "m", "--ids", "1", "--truncate"], "taken as they are"),
    (["embed", "m", "-p", "a", "--json", "-o", "-"], "standard output"),
    (["embed", "m", "-p", "a", "--dimensions", "0"], "not in"),
    (["tokenize", "m", "x", "--jsonl"], "--jsonl"),
    (["detokenize", "m"], "--ids"),
    (["plan", "m", "--role", "king"], "king"),
    (["plan", "m", "--threads", "0"], "not in"),
    (["bench", "m", "--runs", "0"], "not in"),
    (["bench", "m", "--limits"], "either"),
    (["plan", "m", "--stats", "-n", "0"], "not in"),
]:
    check_error(exe, args, 2, needle)

check_error(exe, ["inspect", "no-such-model"], 1, "fetch-model", env={"MICA_HOME": "/nonexistent"})
check_error(exe, ["inspect", ""], 1, "empty")
check_error(exe, ["inspect", "no/such/path"], 1, "no such file")
check_error(exe, ["generate", "no/such/path", "-p", "x"], 1, "no such file")
# After -- a word that looks like an option is a word.
check_error(exe, ["inspect", "--", "--json"], 1, "--json", env={"MICA_HOME": "/nonexistent"})
finish()
