#!/usr/bin/env python3
"""Writes the tiny DiffusionGemma checkpoints of tests/golden/diffusion, and what Transformers makes of them.

Runs in venv-hf. Every model is made twice: as the hub has it, and quantized in the layout of MLX,
with other bits for some layers. For each there are canvases behind prompts shorter and longer than
the window, with the logits of the first pass and of a second one conditioned on it, and whole
generations: Transformers' own generate with its random numbers replaced by those of mica's stream
(docs/models.md 16.3), and a plain transcription of the second sampler, which Transformers lacks.

Choices are discrete, and conditioning makes differences grow from step to step. So a canvas is kept
only if the routers' choices stand a disturbance, and a generation only if disturbed ones take the
same path.
"""

import importlib
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from transformers import DiffusionGemmaConfig, DiffusionGemmaForBlockDiffusion
from transformers.models.diffusion_gemma import generation_diffusion_gemma as generation

import common
from tinyspec import seed_of

gemma = importlib.import_module("make-gemma")
moe = importlib.import_module("make-moe")
torch.set_num_threads(1)

FULL, SLIDE = "full_attention", "sliding_attention"
CANVAS, PROMPTS, N_TRIALS, NOISE, PATH_NOISE = 8, (5, 13, 40), 8, 0.03, 1e-4
TEXT = dict(
    hidden_size=24, num_attention_heads=4, num_key_value_heads=2, intermediate_size=20,
    vocab_size=48, head_dim=8, global_head_dim=16, num_global_key_value_heads=1, num_experts=4,
    top_k_experts=2, moe_intermediate_size=8, num_hidden_layers=3, sliding_window=8,
    max_position_embeddings=256, layer_types=[SLIDE, SLIDE, FULL], final_logit_softcapping=30.0,
    rms_norm_eps=0.05, bos_token_id=2, eos_token_id=1, pad_token_id=0,
    use_bidirectional_attention="vision")
PACKED = dict(TEXT, hidden_size=32, intermediate_size=32, moe_intermediate_size=32, num_experts=3,
              head_dim=16, num_attention_heads=2, num_key_value_heads=2, global_head_dim=32,
              num_hidden_layers=2, layer_types=[SLIDE, SLIDE])
SCHEDULE = dict(max_denoising_steps=6, t_min=0.4, t_max=0.8, stability_threshold=1,
                confidence_threshold=1.5, entropy_bound=2.0)


def new_model(text):
    config = DiffusionGemmaConfig(text_config=text, vision_config=dict(
        model_type="gemma4_vision", hidden_size=8, intermediate_size=8, num_hidden_layers=1,
        num_attention_heads=1, num_key_value_heads=1, head_dim=8, patch_size=2,
        position_embedding_size=4), canvas_length=CANVAS)
    config._attn_implementation = "eager"
    return DiffusionGemmaForBlockDiffusion(config).eval()


def randomize(model, name):
    rng = np.random.default_rng(seed_of(name))
    buffers = [(k, v) for k, v in model.named_buffers() if "layer_scalar" in k]
    with torch.no_grad():
        for key, p in list(model.named_parameters()) + buffers:
            mean, std = gemma.std_of(key)
            if "vision" in key:
                std = 0.0
            if "embed_tokens" in key:
                std = 0.8  # probabilities far enough from even, so that blocks may settle
            p.copy_(torch.tensor(rng.standard_normal(tuple(p.shape)) * std + mean))


def is_tower(key):
    return "vision" in key


# ---- mica's stream of random numbers: Threefry-2x32 and JAX's sequences of it ----

def threefry(key, c0, c1):
    ks = [np.uint32(key[0]), np.uint32(key[1]),
          np.uint32(key[0] ^ key[1] ^ 0x1BD11BDA)]
    x, y = c0.astype(np.uint32) + ks[0], c1.astype(np.uint32) + ks[1]
    for i in range(5):
        for r in ((13, 15, 26, 6), (17, 29, 16, 24))[i % 2]:
            x = x + y
            y = (y << np.uint32(r) | y >> np.uint32(32 - r)) ^ x
        x = x + ks[(i + 1) % 3]
        y = y + ks[(i + 2) % 3] + np.uint32(i + 1)
    return x, y


def words(key, n):
    half = (n + 1) // 2
    second = np.arange(half, 2 * half)
    second[second >= n] = 0
    x, y = threefry(key, np.arange(half), second)
    return np.concatenate([x, y[:n - half]])


class Stream:
    """Arrays of numbers in [0, 1), each with a key of its own."""

    def __init__(self, seed):
        self.state = (seed >> 32, seed & 0xFFFFFFFF)

    def uniform(self, *shape):
        w = words(self.state, 4).astype(int)
        self.state, key = (int(w[0]), int(w[1])), (int(w[2]), int(w[3]))
        u = words(key, int(np.prod(shape))).astype(np.float32) / np.float32(2 ** 32)
        return torch.tensor(np.minimum(u, np.float32(1 - 2 ** -24)).reshape(shape))

    def tokens(self, n, vocab):
        return torch.clamp((self.uniform(n) * vocab).floor().long(), max=vocab - 1)

    def draw(self, logits):
        """Gumbel-max of each row."""
        return (logits - torch.log(-torch.log(self.uniform(*logits.shape)))).argmax(-1)


# ---- passes over a canvas ----

class Watch(moe.Watch):
    """Disturbs the routers' inputs; the encoder's run with and without the trials' copies."""

    def __init__(self, model, rng):
        super().__init__(model, {"router_class": "TextRouter"}, rng)

    def is_steady(self, model, ids, n_last, noise):
        return self.chooses_alike(lambda: model.model.encoder(
            input_ids=torch.tensor([ids] * (N_TRIALS + 1))), n_last, noise)

    def chooses_alike(self, run, n_last, noise):
        self.choices, self.on, self.noise = [], True, noise
        with torch.no_grad():
            run()
        self.on = False
        alike = [(c[:, -n_last:].sort(-1).values == c[:1, -n_last:].sort(-1).values).all()
                 for c in self.choices]
        if not alike:
            raise ValueError("no router was found")
        return all(alike)


def encode(model, ids, copies=1):
    return model.model.encoder(input_ids=torch.tensor([ids] * copies)).cache


@torch.no_grad()
def passes(model, ids, canvas):
    cache, out, logits = encode(model, ids), [], None
    for _ in range(2):
        logits = model(decoder_input_ids=torch.tensor([canvas]), cache=cache,
                       self_conditioning_logits=logits).logits
        out.append(logits[0].numpy())
    return out


def steady_canvas(model, watch, rng, ids, vocab):
    copies = N_TRIALS + 1
    for _ in range(4000):
        canvas = [int(x) for x in rng.integers(0, vocab, CANVAS)]
        first, _ = passes(model, ids, canvas)
        cache = encode(model, ids, copies)
        logits = torch.tensor(first)[None].repeat(copies, 1, 1)
        if all(watch.chooses_alike(lambda: model(
                decoder_input_ids=torch.tensor([canvas] * copies), cache=cache,
                self_conditioning_logits=z), CANVAS, NOISE) for z in (None, logits)):
            return canvas
    raise ValueError("no canvas is steady")


# ---- whole generations ----

def by_transformers(model, ids, seed, n_tokens, eos, noise):
    """(ids, steps), with the draws of `seed` and logits disturbed by `noise` of their spread."""
    stream, rng, path = Stream(seed), torch.Generator().manual_seed(7), []
    vocab = model.config.text_config.vocab_size
    real = torch.randint, torch.multinomial, generation.LinearTemperatureScheduleLogitsProcessor.__call__

    def scale(self, input_ids, scores, cur_step):
        if noise:
            scores = scores + noise * scores.std() * torch.randn(scores.shape, generator=rng)
        path.append(scores.argmax(-1).tolist())
        return real[2](self, input_ids, scores, cur_step)
    torch.randint = lambda low, high, size, device: stream.tokens(size[-1], vocab)[None]
    torch.multinomial = lambda probs, num_samples: stream.draw(torch.log(probs))[:, None]
    generation.LinearTemperatureScheduleLogitsProcessor.__call__ = scale
    try:
        sampler = generation.EntropyBoundSamplerConfig(entropy_bound=SCHEDULE["entropy_bound"])
        rest = {k: v for k, v in SCHEDULE.items() if k != "entropy_bound"}
        config = generation.DiffusionGemmaGenerationConfig(
            **rest, sampler_config=sampler, max_new_tokens=n_tokens, eos_token_id=eos)
        with torch.no_grad():
            out = model.generate(torch.tensor([ids]), generation_config=config)
    finally:
        torch.randint, torch.multinomial = real[:2]
        generation.LinearTemperatureScheduleLogitsProcessor.__call__ = real[2]
    return out.sequences[0, len(ids):].tolist(), path


def accept(how, logits, drawn, revealed, draft, canvas, renewed):
    """One step's new canvas; revealed and draft change in place."""
    lp = torch.log_softmax(logits, -1)
    if how["sampler"] == "confidence-threshold":
        sure = lp.gather(-1, drawn[:, None])[:, 0].exp()
        ok = ~revealed & (sure >= how["threshold"])
        if not ok.any() and not revealed.all():
            ok[torch.where(revealed, -1.0, sure).argmax()] = True
        draft[ok] = drawn[ok]
        revealed |= ok
        return torch.where(revealed, draft, renewed)
    entropy = -(lp.exp() * lp).sum(-1)
    order = entropy.argsort(stable=True)
    ok = torch.zeros_like(revealed)
    ok[order] = entropy[order].cumsum(0) - entropy[order] <= how["entropy_bound"]
    return torch.where(ok, drawn, renewed)


@torch.no_grad()
def by_hand(model, ids, seed, n_tokens, eos, noise, how):
    """docs/models.md 16.3 line by line, for what Transformers does not have."""
    stream, rng, path, out = Stream(seed), torch.Generator().manual_seed(7), [], []
    vocab, tokens, cache = model.config.text_config.vocab_size, list(ids), encode(model, ids)
    steps = how["max_denoising_steps"]
    confident = how["sampler"] == "confidence-threshold"
    stops = not confident or "stability_threshold" in how["given"]
    while len(out) < n_tokens:
        n = CANVAS
        if how["short"]:
            n = min(how["max_canvas"], max(n_tokens - len(out), how["min_canvas"]))
        if out:
            cache = model.model.encoder(
                input_ids=torch.tensor([best.tolist()]), cache=cache,
                position_ids=torch.arange(len(tokens), len(tokens) + len(best))[None]).cache
            tokens += best.tolist()
        canvas = stream.tokens(n, vocab)
        revealed, draft = torch.zeros(n, dtype=torch.bool), canvas.clone()
        logits, history = None, []
        for t in range(steps, 0, -1):
            logits = model(decoder_input_ids=canvas[None], cache=cache,
                           self_conditioning_logits=None if logits is None else logits[None]
                           ).logits[0]
            if noise:
                logits = logits + noise * logits.std() * torch.randn(logits.shape, generator=rng)
            logits = logits / (how["t_min"] + (how["t_max"] - how["t_min"]) * (t / steps))
            best = logits.argmax(-1)
            path.append(best.tolist())
            if t == 1 and confident:
                break
            hot = how["temperature"]
            drawn = stream.draw(logits / hot) if hot > 0 else best
            canvas = accept(how, logits, drawn, revealed, draft, canvas,
                            stream.tokens(n, vocab))
            if confident and revealed.all():
                break
            lp = torch.log_softmax(logits, -1)
            entropy = -(lp.exp() * lp).sum(-1).mean()
            past, history = history, history + [best.tolist()]
            k = how["stability_threshold"]
            if stops and len(past) >= k and all(p == best.tolist() for p in past[len(past) - k:]) \
                    and entropy < how["confidence_threshold"]:
                break
        out += best.tolist()
        if eos is not None and eos in best.tolist():
            break
    return out, path


def cut(ids, n_tokens, eos):
    """What a user sees: (ids, reason)."""
    ids = ids[:n_tokens]
    return (ids[:ids.index(eos)], "stop") if eos in ids else (ids, "length")


def steady_run(run, name, rng, early, tries=600):
    """(seed, ids, steps) of a generation whose path is the same with noise, without the end token of
    the configuration; `early`: one with a block that ends before its last step."""
    for _ in range(tries):
        seed = int(rng.integers(0, 2 ** 63))
        ids, path = run(seed, 0)
        if 1 in ids or early and len(path) % SCHEDULE["max_denoising_steps"] == 0:
            continue
        if all(run(seed, PATH_NOISE * s)[1] == path for s in (1, -2)):
            return seed, ids, path
    raise ValueError(f"{name}: no generation is steady")


HOW = dict(SCHEDULE, sampler="entropy-bound", threshold=0.5, temperature=1.0, short=False, given=())
BY_HAND = {
    "entropy, greedy": dict(HOW, temperature=0.0),
    "entropy, short canvases": dict(HOW, short=True, min_canvas=3, max_canvas=6),
    "confidence": dict(HOW, sampler="confidence-threshold"),
    "confidence, greedy": dict(HOW, sampler="confidence-threshold", temperature=0.0),
    "confidence, stops": dict(HOW, sampler="confidence-threshold", temperature=0.7,
                              threshold=0.95, given=("stability_threshold",)),
}


def flags(how):
    """The options of `mica generate` for what the folder's generation_config.json does not say."""
    out = ["--temperature", str(how["temperature"]), "--diffusion-sampler", how["sampler"]]
    if how["sampler"] == "confidence-threshold":
        out += ["--threshold", str(how["threshold"])]
    if how["given"]:
        out += ["--stability-threshold", str(how["stability_threshold"]),
                "--confidence-threshold", str(how["confidence_threshold"])]
    if how["short"]:
        out += ["--short-canvas", "--min-canvas", str(how["min_canvas"]),
                "--max-canvas", str(how["max_canvas"])]
    return out


def make_runs(model, name, prompts):
    rng, runs = np.random.default_rng(seed_of(name) ^ 0xD1FF), []

    def add(what, args, ids, run, n_tokens, early):
        seed, out, path = steady_run(lambda s, noise: run(ids, s, n_tokens, None, noise), what, rng,
                                     early)
        cases = [(what, None)]
        if what == "transformers":  # a token of the second block as end token
            eos = next((x for x in out[CANVAS:] if x not in out[:CANVAS] and x > 2), None)
            cases += [("transformers, end token", eos)] if eos is not None else []
        for label, eos in cases:
            out, path = run(ids, seed, n_tokens, eos, 0)
            shown, reason = cut(out, n_tokens, eos)
            runs.append(dict(name=label, args=args, prompt=ids, seed=seed, max_tokens=n_tokens,
                             eos=eos, ids=shown, reason=reason, steps=len(path)))
    for ids in prompts[1:]:
        add("transformers", [], ids, lambda *a: by_transformers(model, *a), 2 * CANVAS + 4,
            early=len(ids) > 20)
    for i, (what, how) in enumerate(BY_HAND.items()):
        add(what, flags(how), prompts[i % len(prompts)],
            lambda *a, how=how: by_hand(model, *a, how), 2 * CANVAS + 1, early=i < 1)
    return runs


# ---- files ----

def quantized(tensors, bits_of):
    """As make-gemma.py's, but the stacks stay whole and bits differ: (tensors, plain, the map)."""
    out, plain, quant = {}, {}, {"group_size": 32, "bits": 4, "mode": "affine"}
    for key, x in tensors.items():
        path = key.removesuffix(".weight")
        is_stack = ".experts." in key
        if x.ndim < 2 or (path == key and not is_stack) or x.shape[-1] % 32:
            out[key], plain[key] = x.contiguous(), x.float()
            continue
        bits = bits_of(path)
        if bits != 4:
            quant[path] = {"group_size": 32, "bits": bits}
        out[path + ".weight"], out[path + ".scales"], out[path + ".biases"], plain[key] = \
            moe.quantize_affine(x, bits, 32)
    return out, plain, quant


def bits_of(path):
    return 8 if "self_attn" in path or ".mlp." in path or "router" in path else 4


def load(folder):
    return DiffusionGemmaForBlockDiffusion.from_pretrained(
        str(folder), dtype=torch.float32, attn_implementation="eager",
        experts_implementation="eager").eval()


def write_generation(folder):
    sampler = {"_cls_name": "EntropyBoundSamplerConfig", "entropy_bound": SCHEDULE["entropy_bound"]}
    rest = {k: v for k, v in SCHEDULE.items() if k != "entropy_bound"}
    (folder / "generation_config.json").write_text(
        json.dumps({**rest, "sampler_config": sampler, "pad_token_id": 0}, indent=2) + "\n")


def make(name, spec, args):
    is_packed = name.endswith("-q4")
    model = new_model(PACKED if is_packed else TEXT)
    randomize(model, name)
    out = args.out / name
    with tempfile.TemporaryDirectory() as temp:
        tensors, saved = moe.hub_tensors(model, temp)
        saved.pop("transformers_version", None)
        tower = {k: v for k, v in tensors.items() if is_tower(k)}
        tensors = {k: v.to(torch.bfloat16).contiguous() for k, v in tensors.items()
                   if not is_tower(k)}
        plain, written = {k: v.float() for k, v in tensors.items()}, {**saved, "dtype": "bfloat16"}
        if is_packed:
            tensors, plain, quant = quantized(tensors, bits_of)
            written.update(quantization=quant, quantization_config=quant)
            written["text_config"]["layer_types"] = [SLIDE, SLIDE]  # the last is full all the same
        moe.write_folder(Path(temp) / "plain", {**plain, **tower}, saved, {"format": "pt"})
        # one tensor of the tower: a text runtime skips it
        tensors["model.encoder.embed_vision.embedding_projection.weight"] = torch.zeros(2, 2)
        moe.write_folder(out, tensors, written, {"format": "mlx" if is_packed else "pt"})
        write_generation(out)
        model = load(Path(temp) / "plain")
    rng = np.random.default_rng(seed_of(name) ^ 0x5EED)
    watch, vocab = Watch(model, rng), TEXT["vocab_size"]
    prompts, canvases, logits = [], [], []
    for n in PROMPTS:
        prompts.append(moe.grow_prompt(model, watch, rng, vocab, n))
        canvases.append(steady_canvas(model, watch, rng, prompts[-1], vocab))
        logits.append(passes(model, prompts[-1], canvases[-1]))
    np.save(out / "logits.npy", np.array(logits, np.float32).reshape(-1, vocab))
    runs = make_runs(model, name, prompts)
    (out / "runs.json").write_text(json.dumps(
        {"prompts": prompts, "canvases": canvases, "runs": runs,
         "oracle": common.versions("transformers", "torch")}) + "\n")
    size = sum(f.stat().st_size for f in out.iterdir())
    print(f"{name:24s} {size / 1000:7.1f} kB  std {np.std(logits):.3f}  "
          f"steps {[r['steps'] for r in runs]} {[r['reason'] for r in runs]}", flush=True)


if __name__ == "__main__":
    if "--out" not in sys.argv:
        sys.argv[1:1] = ["--out", str(common.GOLDEN / "diffusion")]
    sys.exit(common.make_models(__doc__, {"diffusion_gemma": {}}, make))
