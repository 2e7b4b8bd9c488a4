"""Bad input: one clear line on stderr, exit code 1, no crash. Files are cut at every structural boundary
and edited in every way that a user's disk or a hostile server might."""
import glob
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

from cli import check, check_error, finish, run

exe, golden = sys.argv[1:3]
BASE = os.path.join(golden, "tiny", "llama-f32")
TEXT = os.path.join(golden, "tiny", "llama-text")
IDS = ["--ids", "1,2,3"]


def read_safetensors(path):
    with open(path, "rb") as file:
        raw = file.read()
    n = struct.unpack("<Q", raw[:8])[0]
    return json.loads(raw[8:8 + n]), raw[8 + n:]


def write_safetensors(path, header, data):
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


class Folder:
    """A copy of the tiny model to spoil."""

    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="mica-bad-")
        for name in ("config.json", "model.safetensors"):
            shutil.copy(os.path.join(BASE, name), self.path)
        self.weights = os.path.join(self.path, "model.safetensors")

    def config(self, **changes):
        path = os.path.join(self.path, "config.json")
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
        config.update(changes)
        with open(path, "w", encoding="utf-8") as file:
            json.dump({k: v for k, v in config.items() if v is not Ellipsis}, file)
        return self

    def write(self, name, data):
        with open(os.path.join(self.path, name), "wb") as file:
            file.write(data)
        return self

    def fails(self, needle, *args):
        check_error(exe, ["generate", self.path, *(args or IDS), "--max-tokens", "1"], 1, needle)
        shutil.rmtree(self.path)


def safetensors_bytes():
    with open(os.path.join(BASE, "model.safetensors"), "rb") as file:
        raw = file.read()
    header_end = 8 + struct.unpack("<Q", raw[:8])[0]
    cuts = [0, 1, 7, 8, 9, header_end // 2, header_end - 1, header_end, header_end + 1, len(raw) // 2, len(raw) - 1]
    for cut in cuts:
        Folder().write("model.safetensors", raw[:cut]).fails("model.safetensors")
    for length in (2**64 - 1, 2**63, 2**32, len(raw)):
        Folder().write("model.safetensors", struct.pack("<Q", length) + raw[8:]).fails("model.safetensors")
    Folder().write("model.safetensors", raw[:8] + b"[" + raw[9:]).fails("model.safetensors")


def rungs():
    """`mica models PATH`: which rung and why, and that all files are there and in order."""
    source = os.path.join(golden, "tiny", "llama-sharded")
    shards = sorted(os.path.basename(p) for p in glob.glob(os.path.join(source, "*.safetensors")))
    code, out, _ = run(exe, "models", source)
    check(code == 0 and out.startswith(b"llama, generic: model_type \"llama\": ") and
          b"2 files" in out, "models: %r" % out)
    code, out, _ = run(exe, "models", os.path.join(golden, "tiny", "gemma4-moe-bf16"), "--json")
    row = json.loads(out)
    check(row["tier"] == "specialized" and row["files"] == 1 and row["tensors"] > 20 and
          "another name of" in row["why"], row)
    code, out, _ = run(exe, "models", os.path.join(golden, "tiny", "gguf-llama", "model.gguf"))
    check(code == 0 and b"general.architecture \"llama\"" in out and b"1 file," in out, out)
    for spoil in (lambda p: os.remove(p), lambda p: os.truncate(p, 100)):
        with tempfile.TemporaryDirectory(prefix="mica-bad-") as temp:
            folder = shutil.copytree(source, os.path.join(temp, "m"))
            spoil(os.path.join(folder, shards[1]))
            for args in (["models"], ["models", "--json"], ["inspect"]):
                check_error(exe, [*args, folder], 1, shards[1])
    for verb in ("models", "inspect", "bench"):
        for name in (shards[0], "config.json"):
            check_error(exe, [verb, os.path.join(source, name)], 1, "give the folder, " + source)
    check_error(exe, ["logits", os.path.join(BASE, "model.safetensors"), *IDS, "-o", os.devnull], 1,
                "one file of a model's folder; give the folder, " + BASE)


def safetensors_entries():
    header, data = read_safetensors(os.path.join(BASE, "model.safetensors"))
    name = "model.layers.0.mlp.up_proj.weight"

    def spoil(needle, change):
        folder, edited = Folder(), json.loads(json.dumps(header))
        change(edited)
        write_safetensors(folder.weights, edited, data)
        folder.fails(needle)

    spoil("up_proj", lambda h: h.pop(name))
    spoil("up_proj", lambda h: h[name].update(shape=h[name]["shape"][::-1]))
    spoil(name, lambda h: h[name].update(shape=[2**40, 2**40]))
    spoil(name, lambda h: h[name].update(shape=[-1, 64]))
    spoil(name, lambda h: h[name].update(dtype="F99"))
    spoil(name, lambda h: h[name].update(dtype="I32"))
    spoil(name, lambda h: h[name].update(data_offsets=[0, 2**63]))
    spoil(name, lambda h: h[name].update(data_offsets=[16, 8]))
    spoil(name, lambda h: h[name].update(data_offsets=h["model.norm.weight"]["data_offsets"]))
    spoil(name, lambda h: h[name].pop("dtype"))
    spoil("model.norm.weight", lambda h: h.update({"model.extra.weight": h["model.norm.weight"]}) or h.pop("model.norm.weight"))
    folder = Folder()
    write_safetensors(folder.weights, dict(header, **{"model.spare.weight": {
        "dtype": "F32", "shape": [1], "data_offsets": [len(data), len(data) + 4]}}), data + b"\0" * 4)
    folder.fails("model.spare.weight")


def configs():
    Folder().config(model_type="warp_drive").fails("warp_drive")
    Folder().config(model_type=...).fails("model_type")
    Folder().config(model_type="gemma4_assistant").fails("draft")
    Folder().config(rope_scaling={"rope_type": "spiral", "factor": 2.0}).fails("spiral")
    Folder().config(rope_scaling={"rope_type": "linear"}).fails("factor")
    for key in ("qk_norm", "rope_interleaved", "use_mrope", "parallel_residual", "use_parallel_residual", "use_alibi"):
        Folder().config(**{key: True}).fails(key)
    Folder().config(norm_type="layernorm").fails("norm_type")
    Folder().config(quantization_config={"quant_method": "exotic"}).fails("exotic")
    Folder().config(num_hidden_layers=0).fails("num_hidden_layers")
    Folder().config(num_hidden_layers=10**9).fails("num_hidden_layers")
    Folder().config(num_hidden_layers=2).fails("layers.1")
    Folder().config(hidden_size=...).fails("hidden_size")
    Folder().config(hidden_size=10**18).fails("hidden_size")
    Folder().config(hidden_size="wide").fails("hidden_size")
    Folder().config(num_attention_heads=3).fails("")
    Folder().config(num_key_value_heads=3).fails("")
    Folder().config(layer_types=["full_attention"] * 7).fails("layer_types")
    Folder().config(layer_types=["quantum_attention"]).fails("quantum_attention")
    Folder().write("config.json", b"").fails("config.json")
    Folder().write("config.json", b'{"model_type": ').fails("config.json")
    Folder().write("config.json", b"[" * 100000).fails("config.json")
    Folder().write("config.json", b'{"a":1,"a":2}').fails("config.json")
    folder = Folder()
    os.remove(os.path.join(folder.path, "config.json"))
    folder.fails("config.json")
    folder = Folder()
    os.remove(folder.weights)
    folder.fails("safetensors")
    Folder().write("model.safetensors.index.json", json.dumps(
        {"weight_map": {"model.norm.weight": "absent.safetensors"}}).encode()).fails("absent.safetensors")


def requests():
    Folder().fails("tokenizer", "-p", "hello")
    Folder().fails("160", "--ids", "1,160")
    Folder().fails("empty", "--ids", "")
    Folder().fails("4", "--ids", "1,2,3,4,5,6", "--ctx", "4")
    check_error(exe, ["logits", BASE, *IDS, "-o", "/nonexistent/x.npy"], 1, "/nonexistent")
    for verb, lines in (("tokenize", b'\n[1,256]\n'), ("detokenize", b'\n"x"\n'), ("detokenize", b"\n[1,-1]\n")):
        check_error(exe, [verb, TEXT, "--jsonl"], 1, "line 2", stdin=lines)
    # A run that the context would end is not the run asked for: 17 tokens do not fit, 16 do.
    check_error(exe, ["bench", BASE, "-p", "14", "-n", "4", "--runs", "1", "--ctx", "16"], 1, "context of 16")
    code, _, err = run(exe, "bench", BASE, "-p", "14", "-n", "3", "--runs", "1", "--ctx", "16")
    check(code == 0, err)
    check_error(exe, ["generate", BASE, *IDS], 1, "warp", env={"MICA_CPU": "warp"})
    if os.path.exists("/dev/full"):
        check_error_full()


def output_targets():
    """What -o names is never destroyed: links stay links, pipes get the bytes, errors name the path."""
    with tempfile.TemporaryDirectory(prefix="mica-out-") as folder:
        plain, link, dangling, fifo = (os.path.join(folder, n) for n in ("a.npy", "link", "dangling", "fifo"))
        os.symlink(plain, link)
        os.symlink(os.path.join(folder, "b.npy"), dangling)
        os.mkfifo(fifo)
        for target in (plain, link, dangling, "-"):
            code, out, err = run(exe, "logits", BASE, *IDS, "-o", target)
            check(code == 0, "%s: %s" % (target, err))
        check(out[:6] == b"\x93NUMPY", "standard output gets the bytes")
        with open(plain, "rb") as file:
            check(file.read() == out, "the link's target was written")
        with open(plain, "wb") as file:
            file.write(b"before")
            file.flush()
            subprocess.run([exe, "logits", BASE, *IDS, "-o", "-"], stdout=file)
        with open(plain, "rb") as file:
            check(file.read() == b"before" + out, "standard output goes on where it stands in a file")
        check(os.path.islink(link) and os.path.islink(dangling), "links stay links")
        reader = subprocess.Popen(["cat", fifo], stdout=subprocess.PIPE)
        code, _, err = run(exe, "logits", BASE, *IDS, "-o", fifo)
        check(code == 0 and reader.communicate()[0] == out, "a pipe gets the bytes: " + err)
        check(sorted(os.listdir(folder)) == ["a.npy", "b.npy", "dangling", "fifo", "link"], os.listdir(folder))


def check_error_full():
    with open("/dev/full", "wb") as full:
        done = subprocess.run([exe, "inspect", BASE], stdout=full, stderr=subprocess.PIPE)
    check(done.returncode == 1 and b"output" in done.stderr, "a full disk is an error: %r" % (done,))


def ggufs():
    files = sorted(glob.glob(os.path.join(golden, "**", "*.gguf"), recursive=True), key=os.path.getsize)
    if not files:
        print("no .gguf fixture")
        sys.exit(1)
    with open(files[0], "rb") as file:
        raw = file.read()
    with tempfile.TemporaryDirectory(prefix="mica-bad-") as folder:
        path = os.path.join(folder, "m.gguf")

        def fails(data, needle=""):
            with open(path, "wb") as out:
                out.write(data)
            check_error(exe, ["generate", path, *IDS], 1, needle)

        head = list(range(0, 64, 3)) + list(range(64, min(len(raw), 4096), 157))
        for cut in head + [len(raw) // 2, len(raw) - 1]:
            fails(raw[:cut], "m.gguf")
        fails(b"GGML" + raw[4:], "m.gguf")
        for version in (0, 1, 4, 2**31):
            fails(raw[:4] + struct.pack("<I", version) + raw[8:], "version")
        for count in (2**63, 2**64 - 1, 10**9):
            fails(raw[:8] + struct.pack("<Q", count) + raw[16:], "m.gguf")
            fails(raw[:16] + struct.pack("<Q", count) + raw[24:], "m.gguf")
        fails(raw.replace(b"llama", b"klaxo", 1) if b"llama" in raw else raw[:9], "")
        fails(b"", "")
        fails(os.urandom(5000), "m.gguf")


safetensors_bytes()
safetensors_entries()
configs()
rungs()
requests()
output_targets()
ggufs()
finish()
