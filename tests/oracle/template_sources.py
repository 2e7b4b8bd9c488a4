"""Chat templates that can be had: from PyPI packages, fetched once and kept, and from the shared
tokenizer files.

llama.cpp's source (in the source distribution of llama-cpp-python) holds 70; training and serving
packages carry others, as files, in JSON tables and as strings of Python code."""
import ast
import glob
import gzip
import json
import os
import subprocess
import sys
import tarfile
import zipfile

LLAMA = "llama-cpp-python==0.3.36"
WHEELS = ["axolotl==0.19.0", "mlx-vlm==0.7.10", "sglang==0.5.23", "trl==1.16.0",
          "unsloth==2026.10.9", "xinference==1.17.0", "xinference==4.1.0"]
LARGEST = 5 << 20  # of a file that may be a table of templates


def download(folder, package, *options):
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", folder,
                    *options, package], check=True)


def fetch_llama(folder):
    os.makedirs(folder, exist_ok=True)
    if not glob.glob(os.path.join(folder, "*.tar.gz")):
        download(folder, LLAMA, "--no-binary", "llama-cpp-python")
    return glob.glob(os.path.join(folder, "*.tar.gz"))[0]


def fetch_wheel(folder, package):
    name, version = package.split("==")
    os.makedirs(folder, exist_ok=True)
    pattern = os.path.join(folder, f"{name.replace('-', '_')}-{version}-*.whl")
    if not glob.glob(pattern):
        download(folder, package, "--only-binary", ":all:")
    return glob.glob(pattern)[0]


def is_template(text):
    return "{%" in text and "%}" in text and "message" in text


def in_json(value, path=""):
    if isinstance(value, dict):
        for key, item in value.items():
            name = value.get("model_name", key) if key == "chat_template" else key
            yield from in_json(item, f"{path}.{name}")
    elif isinstance(value, list):
        for item in value:
            yield from in_json(item, path)
    elif isinstance(value, str) and is_template(value):
        yield path, value


def fold(node):
    """The string that a node of constants and pluses stands for, or None."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = fold(node.left), fold(node.right)
        return None if None in parts else parts[0] + parts[1]
    return None


def in_python(node):
    text = fold(node)
    if text is not None:
        if is_template(text):
            yield str(node.lineno), text
        return
    for child in ast.iter_child_nodes(node):
        yield from in_python(child)


def in_file(name, data):
    text = data.decode(errors="replace")
    if name.endswith((".jinja", ".jinja2")):
        return [("", text)] if is_template(text) else []
    if "{%" not in text:
        return []
    try:
        found = in_json(json.loads(text)) if name.endswith(".json") else in_python(ast.parse(text))
        return list(found)
    except (ValueError, SyntaxError):
        return []


def in_wheel(path):
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if info.filename.endswith((".jinja", ".jinja2", ".json", ".py")) and info.file_size < LARGEST:
                for where, text in in_file(info.filename, archive.read(info)):
                    yield f"{info.filename}:{where}".rstrip(":"), text


def in_llama(path):
    with tarfile.open(path) as archive:
        for member in archive:
            if "/models/templates/" in member.name and member.name.endswith(".jinja"):
                yield os.path.basename(member.name), archive.extractfile(member).read().decode()


def in_shared(shared):
    for path in sorted(glob.glob(os.path.join(shared, "data/tokenizers/*/tokenizer_config.json.gz"))):
        with gzip.open(path) as file:
            source = json.load(file).get("chat_template")
        if isinstance(source, str):
            yield path.split("/")[-2], source


def collect(oracle, shared):
    """Name -> template, each text once."""
    named = list(in_llama(fetch_llama(os.path.join(oracle, "llama-cpp-python"))))
    named += in_shared(shared)
    for package in WHEELS:
        named += in_wheel(fetch_wheel(os.path.join(oracle, "templates"), package))
    seen, templates = set(), {}
    for name, text in named:
        if text not in seen:
            seen.add(text)
            templates[name] = text
    return templates
