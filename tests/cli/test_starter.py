"""A starter model against Transformers: token ids, 64 greedy ids a prompt, peak memory.

A fork from the reference is allowed only where the reference's two best logits are within 0.02; it is
reported. Skipped (77) when the model has not been fetched.
"""
import json
import os
import resource
import signal
import subprocess
import sys
import time

from cli import check, finish, run

exe, golden, name = sys.argv[1:4]
FORK_GAP = 0.02
MEMORY_ALLOWANCE = 64e6


def model_path():
    home = os.environ.get("MICA_HOME")
    data = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return os.path.join(home or os.path.join(data, "mica"), "models", name + ".gguf")


def check_tokens(prompts):
    lines = "".join(json.dumps(p["text"]) + "\n" for p in prompts).encode()
    code, out, err = run(exe, "tokenize", name, "--jsonl", stdin=lines)
    if not check(code == 0, "tokenize: " + err):
        return
    for p, line in zip(prompts, out.splitlines()):
        check(json.loads(line) == p["ids"], "token ids of %r: %s" % (p["name"], line[:200]))


def check_greedy(p):
    code, out, err = run(exe, "generate", name, "--ids", ",".join(map(str, p["ids"])), "--exact", "--dtype",
                         "f32", "--temperature", "0", "--max-tokens", len(p["greedy"]), "--ignore-eos", "--json")
    if not check(code == 0, "%s: %s" % (p["name"], err)):
        return
    got = json.loads(out)
    check(got["prompt_ids"] == p["ids"], p["name"] + ": prompt ids")
    check(len(got["ids"]) == len(p["greedy"]), p["name"] + ": number of ids")
    for i, (mine, theirs) in enumerate(zip(got["ids"], p["greedy"])):
        if mine == theirs:
            continue
        fork = p["gap"][i] < FORK_GAP and mine == p["runner_up"][i]
        print("%s: fork at %d: %d instead of %d, gap %.4f" % (p["name"], i, mine, theirs, p["gap"][i]))
        check(fork, "%s: differs at %d" % (p["name"], i))
        break
    else:
        print("%s: %d ids equal" % (p["name"], len(p["greedy"])))


def check_chat():
    """-p goes through the model's template (smollm2 has one, gemma3-270m has none); markers that the user
    typed stay text."""
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Who are you?"}]
    code, rendered, err = run(exe, "template", name, "-", stdin=json.dumps(messages).encode())
    check(code == 0, err)
    ids = json.loads(run(exe, "tokenize", name, "--no-special", "--json", stdin=rendered)[1])["ids"]
    prompt = ["generate", name, "-m", "0", "--json", "-p"]
    code, out, err = run(exe, *prompt, "Who are you?", "--system-prompt", "Be brief.")
    if name != "smollm2":
        check(code == 0 and "ChatML is used" in err, "a system prompt makes it a conversation: " + err)
        raw = json.loads(run(exe, *prompt, "Hello", "--raw")[1])["prompt_ids"]
        check(json.loads(run(exe, *prompt, "Hello")[1])["prompt_ids"] == raw, "without a template -p is raw")
        return
    check(code == 0 and json.loads(out)["prompt_ids"] == ids, "template ids: %s %s" % (out[:300], err))
    end = json.loads(run(exe, "tokenize", name, "--json", "<|im_end|>")[1])["ids"]
    check(len(end) == 1, "one token: %s" % end)
    plain = json.loads(run(exe, *prompt, "Hello")[1])["prompt_ids"]
    typed = json.loads(run(exe, *prompt, "Hello <|im_end|>")[1])["prompt_ids"]
    check(typed.count(end[0]) == plain.count(end[0]) > 0, "a typed marker is text: %s" % typed)


def check_memory(path):
    """Peak resident memory of a whole run, as the system counts it."""
    for profile in ([], ["--exact"]):
        code = "import subprocess,sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL);" \
               "import resource; print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
        args = [exe, "generate", name, "-p", "Memory is", "--max-tokens", "16", *profile]
        out = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, check=True).stdout
        peak, size = int(out) * 1024, os.path.getsize(path)
        print("peak memory %s: %.1f MB, file %.1f MB" % (profile, peak / 1e6, size / 1e6))
        check(peak <= size + MEMORY_ALLOWANCE, "peak memory %.1f MB over the file's %.1f + 64" % (peak / 1e6, size / 1e6))


def check_interrupt():
    """An interrupt ends a long prompt after the chunk in work. Processor time, not wall time: the whole prompt
    would take more than twenty seconds of it."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    bench = subprocess.Popen([exe, "bench", name, "-p", "8000", "-n", "2"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(2)
    bench.send_signal(signal.SIGINT)
    check(bench.wait() == 130, "bench ends by the interrupt: %d" % bench.returncode)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - spent
    check(spent < 15, "an interrupted bench computed for %.1f s" % spent)


def main():
    path = model_path()
    if not os.path.exists(path):
        print("skipped: %s is not there (tools/fetch-model %s)" % (path, name))
        sys.exit(77)
    with open(os.path.join(golden, "starters", name + ".json"), encoding="utf-8") as file:
        prompts = json.load(file)["prompts"]
    check(len(prompts) >= 8, "at least 8 prompts")
    check_tokens(prompts)
    check_chat()
    for p in prompts:
        check_greedy(p)
    if "san" not in os.path.basename(os.path.dirname(os.path.abspath(exe))):
        check_memory(path)
        check_interrupt()
    finish()


main()
