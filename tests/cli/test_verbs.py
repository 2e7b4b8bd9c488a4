"""Each verb on tiny models: what it prints, and that results do not depend on how they were computed."""
import array
import json
import math
import os
import struct
import sys
import tempfile

from cli import check, finish, run

exe, golden = sys.argv[1:3]
TINY = os.path.join(golden, "tiny")


def read_npy(path):
    with open(path, "rb") as file:
        raw = file.read()
    assert raw[:8] == b"\x93NUMPY\x01\x00", raw[:10]
    n = struct.unpack("<H", raw[8:10])[0]
    head = raw[10:10 + n].decode()
    shape = tuple(int(x) for x in head.split("(")[1].split(")")[0].split(",") if x.strip())
    values = array.array("f")
    values.frombytes(raw[10 + n:])
    assert len(values) == math.prod(shape), (len(values), shape)
    return shape, values


def logits(folder, ids, *args, env=None):
    with tempfile.TemporaryDirectory(prefix="mica-test-") as temporary:
        path = os.path.join(temporary, "out.npy")
        code, out, err = run(exe, "logits", folder, "--ids", ",".join(map(str, ids)), "-o", path, *args, env=env)
        check(code == 0 and not out, "logits %s: %s" % (args, err))
        return read_npy(path) if code == 0 else (None, None)


def check_logits(name):
    folder = os.path.join(TINY, name)
    with open(os.path.join(folder, "ids.json"), encoding="utf-8") as file:
        ids = json.load(file)["prompt"]
    shape, want = read_npy(os.path.join(folder, "logits.npy"))
    got_shape, got = logits(folder, ids, "--exact", "--dtype", "f32")
    check(shape == got_shape, "%s: shape %s, expected %s" % (name, got_shape, shape))
    mean = sum(want) / len(want)
    std = math.sqrt(sum((x - mean) ** 2 for x in want) / len(want))
    worst = max(abs(a - b) for a, b in zip(want, got))
    check(worst <= 2e-3 * std, "%s: worst error %.3g of a standard deviation" % (name, worst / std))
    for args in (["--chunk", "1"], ["--chunk", "7"], ["--threads", "1"], ["--threads", "3", "--chunk", "5"], ["--decode"]):
        check(logits(folder, ids, "--exact", "--dtype", "f32", *args)[1] == got, "%s: bits change with %s" % (name, args))
    for mask in ("ref", "avx2"):
        check(logits(folder, ids, "--exact", "--dtype", "f32", env={"MICA_CPU": mask})[1] == got,
              "%s: bits change with MICA_CPU=%s" % (name, mask))


def check_ops(bench, folder):
    """Multiplications and additions of a prompt, counted from the configuration."""
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        c = json.load(file)
    h, d, heads, n = c["hidden_size"], c["head_dim"], c["num_attention_heads"], bench["prompt_tokens"]
    layer = h * d * (2 * heads + 2 * c["num_key_value_heads"]) + 3 * h * c["intermediate_size"]
    want = c["num_hidden_layers"] * (2 * n * layer + 2 * heads * d * n * (n + 1)) + 2 * h * c["vocab_size"]
    check(abs(bench["prompt_gop"] * 1e9 - want) < 1, "operations of a prompt: %s, expected %d" % (bench["prompt_gop"], want))


def check_json():
    folder = os.path.join(TINY, "llama-f32")
    code, out, _ = run(exe, "generate", folder, "--ids", "1,2,3", "--max-tokens", "5", "--ignore-eos", "--json")
    got = json.loads(out) if code == 0 else {}
    check(got.get("prompt_ids") == [1, 2, 3] and len(got.get("ids", [])) == 5, "generate --json: %s" % got)
    check(got.get("finish_reason") == "length" and got.get("text", 0) is None, "generate --json: %s" % got)
    stats = got.get("stats", {})
    check(stats.get("prompt_tokens") == 3 and stats.get("generated_tokens") == 5, stats)
    check(stats.get("bytes_per_token", 0) > 0 and stats.get("peak_rss_bytes", 0) > 0 and stats.get("ttft_s", -1) >= 0, stats)
    code, text, _ = run(exe, "generate", folder, "--ids", "1,2,3", "--max-tokens", "5", "--ignore-eos")
    check(code == 0 and text == (",".join(map(str, got["ids"])) + "\n").encode(), "ids stream: %r" % text)

    seeded = ["generate", folder, "--ids", "1,2,3", "--max-tokens", "8", "--ignore-eos", "--json", "--temperature", "1.5"]
    runs = [json.loads(run(exe, *seeded, "--seed", seed)[1])["ids"] for seed in (1, 1, 2)]
    check(runs[0] == runs[1] != runs[2], "seeds: %s" % runs)
    top1 = json.loads(run(exe, *seeded, "--seed", 9, "--top-k", "1")[1])["ids"]
    greedy = json.loads(run(exe, *seeded[:-2])[1])["ids"]
    check(top1 == greedy, "top-k 1 is greedy")

    for args in (["plan", folder, "--json"], ["plan", folder, "--rows", "7", "--json", "--exact"], ["inspect", folder, "--json", "--tensors"],
                 ["bench", folder, "-p", "16", "-n", "4", "--runs", "2", "--json"]):
        code, out, err = run(exe, *args)
        check(code == 0 and isinstance(json.loads(out), dict), "%s: %s" % (args, err))
    bench = json.loads(out)
    for key in ("prefill", "decode"):
        check(bench[key]["min"] <= bench[key]["median"] <= bench[key]["max"], bench)
    check(bench["read_gbps"] > 0 and bench["bytes_per_token"] > 0 and bench["peak_rss_bytes"] > 0, bench)
    check_ops(bench, folder)
    for rows, threads in ((1, 1), (1, 3), (9, 2)):
        code, out, err = run(exe, "plan", folder, "--stats", "--json", "--rows", rows, "--threads", threads, "-n", "5")
        stats = json.loads(out) if code == 0 else {}
        check(code == 0 and stats["barriers"] == int(stats["barriers"]) and 1 <= stats["barriers"] <= stats["steps"], "plan --stats: %s %s" % (out, err))
        check(0 <= stats["barrier_us"] + stats["alone_us"] <= 1.01 * stats["run_us"], "plan --stats: %s" % out)
    code, out, err = run(exe, "bench", "--limits", "--json", "--threads", "2")
    limits = json.loads(out) if code == 0 else {}
    check(len(limits.get("read_gbps", [])) == 2 and all(x > 0 for x in limits["read_gbps"]), "--limits: %s %s" % (out, err))
    check(all(p["gops"] > 0 and p["one_thread_gops"] > 0 for p in limits["peaks"]), "--limits: %s" % out)

    code, fused, _ = run(exe, "plan", folder)
    code, plain, _ = run(exe, "plan", folder, "--lever", "swiglu=off")
    check(b"glu_matmul" in fused and b"glu_matmul" not in plain, "the lever switches the fused kernel")


def check_longrope():
    """Crossing the original context re-runs the sequence with the long table: every generated token is the
    best one of a whole pass over what came before it."""
    with tempfile.TemporaryDirectory(prefix="mica-test-") as folder:
        base = os.path.abspath(os.path.join(TINY, "llama-f32"))
        os.symlink(os.path.join(base, "model.safetensors"), os.path.join(folder, "model.safetensors"))
        with open(os.path.join(base, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        half = config["head_dim"] // 2
        config["rope_scaling"] = {"rope_type": "longrope", "short_factor": [1.0] * half, "original_max_position_embeddings": 32,
                                  "long_factor": [1.0 + 0.5 * i for i in range(half)]}
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
            json.dump(config, file)
        prompt = [(7 * i * i + 3) % config["vocab_size"] for i in range(29)]
        args = ["--exact", "--dtype", "f32", "--max-tokens", "8", "--ignore-eos", "--json"]
        code, out, err = run(exe, "generate", folder, "--ids", ",".join(map(str, prompt)), *args)
        check(code == 0, err)
        generated = json.loads(out)["ids"]
        for i, token in enumerate(generated):
            (n, width), values = logits(folder, prompt + generated[:i], "--exact", "--dtype", "f32")
            row = values[(n - 1) * width:]
            check(token == max(range(width), key=lambda k: row[k]), "longrope: token %d after %d" % (token, n))


def check_tied_copy():
    """A head that is stored beside the embedding is dropped if it is its copy; else it counts, even where the
    configuration ties (as Transformers has it)."""
    with tempfile.TemporaryDirectory(prefix="mica-test-") as folder:
        base = os.path.abspath(os.path.join(TINY, "llama-plain"))
        data = bytearray(open(os.path.join(base, "model.safetensors"), "rb").read())
        config = json.load(open(os.path.join(base, "config.json"), encoding="utf-8"))

        def rows(tie):
            with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
                json.dump({**config, "tie_word_embeddings": tie}, file)
            with open(os.path.join(folder, "model.safetensors"), "wb") as file:
                file.write(data)
            return logits(folder, [5, 9, 3, 7], "--exact", "--dtype", "f32")

        check(rows(True) == rows(False), "a head of its own")
        n = 8 + int.from_bytes(data[:8], "little")
        header = json.loads(data[8:n])
        (a, b), (c, d) = (header[k]["data_offsets"] for k in ("model.embed_tokens.weight", "lm_head.weight"))
        other = rows(False)
        data[n + c:n + d] = data[n + a:n + b]
        check(rows(True) == rows(False), "a head that is the embedding's copy")
        check(rows(True) != other, "two heads")


for name in ("llama-f32", "llama-q4-g32", "qwen3-q4-g64-f16", "gemma3-q4-g32-bf16", "gemma2-q4"):
    check_logits(name)
check_json()
check_longrope()
check_tied_copy()
finish()
