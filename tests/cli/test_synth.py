"""`mica synth`: what it writes, decoded here from the formats' descriptions, and what it refuses.

The same seed must give the same weights in every form with as many bits, so each tensor of an MLX
folder is held against the blocks of the GGUF files.
"""
import json
import os
import resource
import struct
import subprocess
import sys
import tempfile

from cli import check, check_error, finish, run

exe = sys.argv[1]
ARCHS = ["llama", "qwen3", "qwen3_moe", "gemma3_text"]
STEMS = {"q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "o_proj": "attn_output", "gate": "ffn_gate_inp",
         "gate_proj": "ffn_gate", "up_proj": "ffn_up", "down_proj": "ffn_down", "q_norm": "attn_q_norm",
         "k_norm": "attn_k_norm", "input_layernorm": "attn_norm"}
PLAIN = {"post_attention_layernorm": "ffn_norm"}
SANDWICH = {"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
            "post_feedforward_layernorm": "post_ffw_norm"}


def bf16(raw):
    return [struct.unpack("<f", b"\0\0" + raw[i:i + 2])[0] for i in range(0, len(raw), 2)]


def read_safetensors(path):
    with open(path, "rb") as file:
        n = struct.unpack("<Q", file.read(8))[0]
        head = json.loads(file.read(n))
        data = file.read()
    head.pop("__metadata__")
    check(max(t["data_offsets"][1] for t in head.values()) == len(data), path + ": bytes past the last tensor")
    return {k: (t["dtype"], t["shape"], data[t["data_offsets"][0]:t["data_offsets"][1]]) for k, t in head.items()}


def mlx_rows(tensors, module, spec, n_rows):
    """The first rows of a module as floats."""
    shape, codes = tensors[module + ".weight"][1:]
    scales, biases = (bf16(tensors[module + k][2]) for k in (".scales", ".biases"))
    n_bytes, bits, group = shape[-1] * 4, spec["bits"], spec["group_size"]
    n_in = shape[-1] * 32 // bits
    out = []
    for r in range(n_rows):
        word = int.from_bytes(codes[r * n_bytes:(r + 1) * n_bytes], "little")
        base = r * (n_in // group)
        out.append([scales[base + i // group] * (word >> (bits * i) & ((1 << bits) - 1)) + biases[base + i // group]
                    for i in range(n_in)])
    return out


class Gguf:
    """Enough of a reader for what mica writes."""
    SCALARS = {0: "<B", 4: "<I", 5: "<i", 6: "<f", 7: "<?"}

    def __init__(self, path):
        with open(path, "rb") as file:
            self.raw = file.read()
        self.at = 24
        magic, version, n_tensors, n_entries = struct.unpack("<4sIQQ", self.raw[:24])
        assert magic == b"GGUF" and version == 3
        self.meta = dict(self.entry() for _ in range(n_entries))
        self.tensors = {}
        for _ in range(n_tensors):
            name = self.text()
            dims = [self.take("<Q") for _ in range(self.take("<I"))]
            self.tensors[name] = (self.take("<I"), dims, self.take("<Q"))
        self.base = (self.at + 31) // 32 * 32

    def take(self, form):
        value = struct.unpack_from(form, self.raw, self.at)[0]
        self.at += struct.calcsize(form)
        return value

    def text(self):
        n = self.take("<Q")
        self.at += n
        return self.raw[self.at - n:self.at].decode()

    def value(self, kind):
        return self.text() if kind == 8 else self.take(self.SCALARS[kind])

    def entry(self):
        key, kind = self.text(), self.take("<I")
        if kind != 9:
            return key, self.value(kind)
        element, n = self.take("<I"), self.take("<Q")
        return key, [self.value(element) for _ in range(n)]

    def rows(self, name, n_rows):
        kind, dims, offset = self.tensors[name]
        n_elements, n_bytes, decode = {0: (1, 4, f32), 2: (32, 18, q4_0), 8: (32, 34, q8_0), 12: (256, 144, q4_k)}[kind]
        row_bytes = dims[0] // n_elements * n_bytes
        start = self.base + offset
        check(start % 32 == 0 and start + row_bytes <= len(self.raw), name + ": place")
        rows = [self.raw[start + r * row_bytes:start + (r + 1) * row_bytes] for r in range(n_rows)]
        return [[x for i in range(0, row_bytes, n_bytes) for x in decode(row[i:i + n_bytes])] for row in rows]


def f32(b):
    return struct.unpack("<f", b)


def q4_0(b):
    d = struct.unpack("<e", b[:2])[0]
    return [d * ((x & 15) - 8) for x in b[2:]] + [d * ((x >> 4) - 8) for x in b[2:]]


def q8_0(b):
    return [struct.unpack("<e", b[:2])[0] * x for x in struct.unpack("<32b", b[2:])]


def q4_k(b):
    d, dmin = struct.unpack("<ee", b[:4])
    s, out = b[4:16], []
    for j in range(8):
        if j < 4:
            scale, low = s[j] & 63, s[j + 4] & 63
        else:
            scale, low = s[j + 4] & 15 | s[j - 4] >> 6 << 4, s[j + 4] >> 4 | s[j] >> 6 << 4
        half = b[16 + 32 * (j // 2):48 + 32 * (j // 2)]
        out += [d * scale * (x >> 4 if j % 2 else x & 15) - dmin * low for x in half]
    return out


def gguf_name(module, gemma):
    top = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
    if module in top:
        return top[module] + ".weight"
    layer, rest = module.split(".")[2], module.split(".")[-1]
    stem = {**STEMS, **(SANDWICH if gemma else PLAIN)}[rest] + ("_exps" if ".switch_mlp." in module else "")
    return "blk.%s.%s.weight" % (layer, stem)


def paired(rows, width):
    """Rows of a head as GGUF stores them for llama: element i of the first half, then i of the second."""
    return [rows[width // 2 * (r % 2) + r // 2] for r in range(len(rows))]


def compare(arch, folder, path, label):
    config = json.load(open(os.path.join(folder, "config.json"), encoding="utf-8"))
    tensors = read_safetensors(os.path.join(folder, "model.safetensors"))
    file = Gguf(path)
    gemma = arch.startswith("gemma")
    modules = sorted({k.rsplit(".", 1)[0] for k in tensors})
    check(len(modules) == len(file.tensors), label + ": as many tensors in both")
    for module in modules:
        name = gguf_name(module, gemma)
        if module + ".scales" not in tensors:
            want = [[x + gemma for x in bf16(tensors[module + ".weight"][2])]]
            check(file.rows(name, 1) == want, "%s: %s" % (label, module))
            continue
        spec = config["quantization"].get(module, config["quantization"])
        heads = arch == "llama" and module.rsplit(".", 1)[1] in ("q_proj", "k_proj")
        n = config["head_dim"] if heads else 4
        want = mlx_rows(tensors, module, spec, n)
        got = file.rows(name, n)
        check(got == (paired(want, n) if heads else want), "%s: %s" % (label, module))
        check(abs(sum(map(sum, want))) < 6 * (sum(x * x for r in want for x in r)) ** 0.5, "%s: %s: mean" % (label, module))
    tokens = json.load(open(os.path.join(folder, "tokenizer.json"), encoding="utf-8"))["model"]["vocab"]
    check(sorted(tokens, key=tokens.get) == file.meta["tokenizer.ggml.tokens"], label + ": vocabulary")


def check_forms(root):
    for arch in ARCHS:
        paths = {}
        for form, args in {"4": ["--bits", "4"], "8": ["--bits", "8"], "q4_0": ["--gguf", "q4_0"],
                           "q8_0": ["--gguf", "q8_0"], "q4_k": ["--gguf", "q4_k"]}.items():
            paths[form] = os.path.join(root, "%s-%s%s" % (arch, form, "" if form in "48" else ".gguf"))
            code, out, err = run(exe, "synth", "--arch", arch, "--params", "tiny", *args, paths[form])
            check(code == 0 and not out and not err, "synth %s %s: %s" % (arch, form, err))
        for form in ("q4_0", "q4_k"):
            compare(arch, paths["4"], paths[form], "%s %s" % (arch, form))
        compare(arch, paths["8"], paths["q8_0"], arch + " q8_0")
        paths = {f: p for f, p in paths.items() if f in "48" or run(exe, "inspect", p)[0] == 0 or arch != "qwen3_moe"}
        logits = {f: logits_of(root, p) for f, p in paths.items()}
        if arch != "llama":  # its pairs lie elsewhere, so that sums of a head come in another order
            check(len({logits[f] for f in ("4", "q4_0", "q4_k") if f in logits}) == 1, arch + ": equal logits at 4 bit")
            check(len({logits[f] for f in ("8", "q8_0") if f in logits}) == 1, arch + ": equal logits at 8 bit")
        code, out, err = run(exe, "generate", paths["4"], "--ids", "300,301,302", "--max-tokens", "64", "--ignore-eos", "--json")
        ids = json.loads(out)["ids"] if code == 0 else []
        check(len(ids) == 64 and len(set(ids)) >= 16, "%s: ids that repeat: %s %s" % (arch, ids, err))


def logits_of(root, path):
    out = os.path.join(root, "out.npy")
    code, _, err = run(exe, "logits", path, "--ids", "1,2,300,400,5", "--exact", "--dtype", "f32", "-o", out)
    check(code == 0, "logits of %s: %s" % (path, err))
    with open(out, "rb") as file:
        return file.read()


def check_other_bits(root):
    for bits in ("2", "3", "5", "6"):
        for group in ("32", "128"):
            path = os.path.join(root, "b%s-%s" % (bits, group))
            code, _, err = run(exe, "synth", "--arch", "llama", "--params", "tiny", "--bits", bits, "--group-size", group, path)
            check(code == 0, "%s bits in %s: %s" % (bits, group, err))
            spec = {"bits": int(bits), "group_size": int(group)}
            tensors = read_safetensors(os.path.join(path, "model.safetensors"))
            rows = mlx_rows(tensors, "model.layers.1.mlp.up_proj", spec, 8)
            size = (sum(x * x for r in rows for x in r) / sum(map(len, rows))) ** 0.5
            check(0.7 < size * 256 ** 0.5 < 1.4, "%s bits: entries of size %g" % (bits, size))
            code, out, err = run(exe, "generate", path, "-p", "hello", "--max-tokens", "4", "--ignore-eos")
            check(code == 0 and out, "generate at %s bits: %s" % (bits, err))


def check_seeds(root):
    files = []
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        path = os.path.join(root, name + ".gguf")
        run(exe, "synth", "--arch", "llama", "--params", "tiny", "--gguf", "q4_0", "--seed", seed, path)
        with open(path, "rb") as file:
            files.append(file.read())
    check(files[0] == files[1], "one seed, one file")
    check(files[0] != files[2] and len(files[0]) == len(files[2]), "another seed, other weights")


def check_refusals(root):
    there = os.path.join(root, "there")
    os.mkdir(there)
    tiny = ["synth", "--arch", "llama", "--params", "tiny"]
    check_error(exe, [*tiny, there], 1, "exists already")
    check_error(exe, [*tiny, os.path.join(root, "no", "such", "place")], 1, "No such file")
    check_error(exe, ["synth", "--arch", "llama", "--params", "135m", "--group-size", "128", os.path.join(root, "x")], 1,
                "do not divide")
    big = ["synth", "--arch", "qwen3_moe", "--params", "235b", "--bits", "8", os.path.join(root, "big")]
    disk = os.statvfs(root)
    if disk.f_bavail * disk.f_frsize < 200e9:
        check_error(exe, big, 1, "are needed")
    for args, needle in (([], "--arch"), (["--arch", "llama"], "missing: --params"), (["--arch", "llama", "--params", "9b"], "9b"),
                         ([*tiny[1:]], "PATH"), ([*tiny[1:], "--bits", "7", "x"], "7"), ([*tiny[1:], "--bits", "9", "x"], "not in"),
                         ([*tiny[1:], "--gguf", "q9", "x"], "q9"), ([*tiny[1:], "--gguf", "q8_0", "--bits", "4", "x"], "--bits"),
                         ([*tiny[1:], "--group-size", "48", "x"], "--group-size")):
        check_error(exe, ["synth", *args], 2, needle)
    check(sorted(os.listdir(root)) == ["there"], "refusals leave nothing: %s" % os.listdir(root))


def check_no_room(root):
    """A limit on the size of files stands for a disk that fills up while it is written."""
    def limit():
        import signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))
    for args in ([os.path.join(root, "full")], ["--gguf", "q8_0", os.path.join(root, "full.gguf")]):
        done = subprocess.run([exe, "synth", "--arch", "qwen3", "--params", "tiny", *args], capture_output=True,
                              preexec_fn=limit, timeout=60)
        err = done.stderr.decode()
        check(done.returncode == 1 and "cannot be written" in err and err.count("\n") == 1, "full disk: %d %s" % (done.returncode, err))
        check(not os.listdir(root), "full disk: %s left behind" % os.listdir(root))


for part in (check_forms, check_other_bits, check_seeds, check_refusals, check_no_room):
    with tempfile.TemporaryDirectory(prefix="mica-test-") as temporary:
        part(temporary)
code, out, _ = run(exe, "synth", "--list")
check(code == 0 and all(a.encode() in out for a in ARCHS), "--list")
finish()
