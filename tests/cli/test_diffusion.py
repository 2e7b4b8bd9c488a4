"""Whole generations of diffusion models against those of other implementations with the same random
numbers; canvases at the command line; and what is refused."""
import json
import os
import shutil
import sys
import tempfile

from cli import check, check_error, finish, run

exe, golden = sys.argv[1:3]
NAMES = ("diffusion_gemma-bf16", "diffusion_gemma-q4")
EXACT = ["--exact", "--dtype", "f32"]


def folder_of(name):
    return os.path.join(golden, "diffusion", name)


def stored(name):
    with open(os.path.join(folder_of(name), "runs.json"), encoding="utf-8") as file:
        return json.load(file)


def comma(ids):
    return ",".join(map(str, ids))


class Copy:
    """A model with other files, gone at the end."""

    def __init__(self, name=NAMES[0]):
        self.path = tempfile.mkdtemp(prefix="mica-diffusion-")
        for file in ("config.json", "generation_config.json", "model.safetensors"):
            shutil.copy(os.path.join(folder_of(name), file), self.path)

    def edit(self, file, change):
        path = os.path.join(self.path, file)
        with open(path, encoding="utf-8") as source:
            config = json.load(source)
        change(config)
        with open(path, "w", encoding="utf-8") as target:
            json.dump(config, target)
        return self

    def generation(self, **changes):
        return self.edit("generation_config.json", lambda c: c.update(changes))

    def text(self, **changes):
        return self.edit("config.json", lambda c: c["text_config"].update(changes))

    def outer(self, **changes):
        return self.edit("config.json", lambda c: c.update(changes))

    def generate(self, *args):
        code, out, err = run(exe, "generate", self.path, "--json", *EXACT, *args)
        check(code == 0, "%s: %s" % (args, err))
        return json.loads(out) if code == 0 else {}

    def fails(self, needle):
        check_error(exe, ["generate", self.path, "--ids", "3,4,5", "--max-tokens", "8"], 1, needle)
        self.close()

    def close(self):
        shutil.rmtree(self.path)


def generations(name):
    for case in stored(name)["runs"]:
        model = Copy(name)
        if case["eos"] is not None:
            model.generation(eos_token_id=[case["eos"]])
        more = [] if case["eos"] is not None else ["--ignore-eos"]
        got = model.generate("--ids", comma(case["prompt"]), "--seed", case["seed"], "--max-tokens",
                             case["max_tokens"], *case["args"], *more)
        label = "%s, %s" % (name, case["name"])
        check(got.get("ids") == case["ids"], "%s: ids %s, expected %s" % (label, got.get("ids"), case["ids"]))
        check(got.get("finish_reason") == case["reason"], "%s: %s" % (label, got.get("finish_reason")))
        steps = got.get("stats", {}).get("denoising_steps")
        check(steps == case["steps"], "%s: %s steps, expected %d" % (label, steps, case["steps"]))
        model.close()


def options():
    """Flags over generation_config.json over defaults; streams; seeds."""
    model, ids = Copy(), ["--ids", "3,4,5,6,7", "--ignore-eos"]
    first = model.generate(*ids, "--seed", "5", "--max-tokens", "12")
    check(len(first["ids"]) == 12 and first["stats"]["generated_tokens"] == 12, first)
    check(model.generate(*ids, "--seed", "5", "--max-tokens", "12", "--threads", "3")["ids"] == first["ids"], "threads")
    check(model.generate(*ids, "--seed", "6", "--max-tokens", "12")["ids"] != first["ids"], "seeds")
    flags = ["--denoising-steps", "6", "--t-min", "0.4", "--t-max", "0.8", "--entropy-bound", "2",
             "--stability-threshold", "1", "--confidence-threshold", "1.5"]
    model.edit("generation_config.json", lambda c: c.clear())
    check(model.generate(*ids, "--seed", "5", "--max-tokens", "12", *flags)["ids"] == first["ids"], "flags")
    got = model.generate(*ids, "--max-tokens", "8", "--denoising-steps", "1")
    check(got["stats"]["denoising_steps"] == 1, "one step: %s" % got["stats"])
    check(model.generate(*ids, "--max-tokens", "0")["ids"] == [], "no tokens")
    model.generation(max_new_tokens=3, max_denoising_steps=2)
    check(len(model.generate(*ids)["ids"]) == 3, "max_new_tokens")
    model.generation(max_new_tokens=None, max_length=9)
    check(len(model.generate(*ids)["ids"]) == 4, "max_length")
    code, out, err = run(exe, "generate", model.path, *ids, *EXACT)
    check(code == 0 and out == (comma(model.generate(*ids)["ids"]) + "\n").encode(), "stream: %r %s" % (out, err))
    got = model.generate(*ids, "--max-tokens", "100", "--ctx", "24")
    check(len(got["ids"]) == 16 and got["finish_reason"] == "context", "context: %s" % got)
    # penalties and bias act on the logits: a bias that no schedule outweighs rules the canvas
    check_error(exe, ["generate", model.path, "--ids", "3,4", "--ctx", "9", "--max-tokens", "1"], 1, "canvas of 8")
    model.close()


def refusals():
    path, ids = folder_of(NAMES[0]), ["--ids", "3,4,5"]
    llama = os.path.join(golden, "tiny", "llama-f32")
    for args, needle in (
            (["--top-k", "3"], "top_k"), (["--top-p", "0.5"], "top_p"), (["--min-p", "0.1"], "min_p"),
            (["--t-min", "0.9"], "t_max"), (["--short-canvas", "--max-canvas", "9"], "max_canvas"),
            (["--short-canvas", "--min-canvas", "5", "--max-canvas", "3"], "min_canvas")):
        check_error(exe, ["generate", path, *ids, *args], 1, needle)
    for args, needle in (
            (["--diffusion-sampler", "best"], "entropy-bound or"), (["--threshold", "0.5"], "--threshold"),
            (["--diffusion-sampler", "confidence-threshold", "--entropy-bound", "1"], "--entropy-bound"),
            (["--diffusion-sampler", "confidence-threshold", "--stability-threshold", "1"], "both"),
            (["--min-canvas", "3"], "--short-canvas"), (["--denoising-steps", "0"], "not in")):
        check_error(exe, ["generate", path, *ids, *args], 2, needle)
    check_error(exe, ["generate", llama, *ids, "--denoising-steps", "3"], 1, "llama is none")
    out = ["-o", os.devnull]
    check_error(exe, ["logits", path, *ids, *out], 1, "--canvas")
    check_error(exe, ["logits", llama, *ids, "--canvas", "1", *out], 1, "this is llama")
    check_error(exe, ["logits", path, *ids, "--canvas", "1,48", *out], 1, "0 to 47")
    check_error(exe, ["logits", path, *ids, "--canvas", "1", "--decode", *out], 2, "--decode")
    check_error(exe, ["logits", path, *ids, "--canvas", "", *out], 2, "--canvas is empty")
    check_error(exe, ["logits", path, *ids, "--canvas", "1;2", *out], 2, "--canvas")
    check_error(exe, ["logits", llama, *ids, "--steps", "2", *out], 2, "--steps")


def bad_files():
    Copy().text(use_bidirectional_attention="all").fails('"use_bidirectional_attention": "all"')
    Copy().text(attention_k_eq_v=False).fails("attention_k_eq_v")
    Copy().text(num_kv_shared_layers=2).fails("num_kv_shared_layers")
    Copy().text(hidden_size_per_layer_input=8).fails("hidden_size_per_layer_input")
    Copy().text(hidden_activation="relu6").fails("relu6")
    Copy().text(layer_types=["sliding_attention"] * 2).fails("layer_types")
    Copy().text(num_experts=5).fails("[5")
    Copy().text(per_layer_config={"2": {"sliding_window": 4}}).fails("sliding_window")
    Copy().outer(tie_word_embeddings=False).fails("tie_word_embeddings")
    Copy().outer(canvas_length=0).fails("canvas_length")
    for key, value, needle in (
            ("max_denoising_steps", 0, "at least 1"), ("t_min", -0.1, "t_min"), ("t_max", 0.4, "above t_min"),
            ("stability_threshold", 1.5, "stability_threshold"), ("confidence_threshold", 0, "above 0"),
            ("max_new_tokens", 0, "max_new_tokens"), ("max_denoising_steps", "many", "a number"),
            ("sampler_config", {"_cls_name": "Best"}, "Best"),
            ("sampler_config", {"entropy_bound": 0}, "entropy_bound")):
        Copy().generation(**{key: value}).fails(needle)


for model_name in NAMES:
    generations(model_name)
options()
refusals()
bad_files()
finish()
