#!/usr/bin/env python3
"""Writes GGUF files of tiny models with experts, latent attention or layers that differ.

Runs in venv-hf. The files are those of llama.cpp's own converter, whose source MICA_LLAMA_CPP names
(setup-venvs fetches it), but for a vocabulary, which they have none. Their weights are stored
without loss: in bf16, in mxfp4 blocks, or in Q8_0 after a round through Q8_0; so the reference is
Transformers with the same folder. MICA_LLAMA_LOGITS may name a program that writes llama.cpp's
logits (MODEL OUT id...): their distance is printed then.
"""

import copy
import importlib
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

import common
import gemmaspec
from gemmaspec import FULL, SLIDE
from moespec import MODELS as MOE
from moespec import YARN_4

LLAMA = Path(os.environ.get("MICA_LLAMA_CPP", common.work_dir() / "llama.cpp"))
sys.path[:0] = [str(LLAMA), str(LLAMA / "gguf-py")]
sys.argv, rest = sys.argv[:1], sys.argv[1:]  # the converter's modules look at it
import conversion  # noqa: E402
import gguf  # noqa: E402
from conversion import base  # noqa: E402
sys.argv += rest

moe = importlib.import_module("make-moe")
gemma = importlib.import_module("make-gemma")
torch.set_num_threads(1)

SMALL = dict(vocab_size=32, hidden_size=16, num_attention_heads=2, num_key_value_heads=1,
             intermediate_size=16)
FEW = dict(n_routed_experts=4, n_group=2, topk_group=1)
MLA = dict(FEW, num_key_value_heads=2, kv_lora_rank=12, q_lora_rank=10, qk_rope_head_dim=6,
           qk_nope_head_dim=10, v_head_dim=8, moe_intermediate_size=8)


# of 256 positions that were 128
MSCALE = math.sqrt(1 + math.log(2) / math.log(128))


def with_keys(**keys):
    return lambda c: {**c, **keys}


def louder(name):
    return lambda tensors: {k: 8 * x if name in k else x for k, x in tensors.items()}


def hunyuan_keys(c):
    """As Hunyuan-A13B spells them: a number for each layer."""
    n = c["num_hidden_layers"]
    return {**c, "moe_topk": [c.get("moe_topk", 2)] * n, "num_shared_expert": [1] * n,
            "moe_intermediate_size": [c["intermediate_size"]] * n}


# name -> the model (of moespec or gemmaspec), what its config changes, what the hub's config.json
# has besides, and how weights are stored: "bf16", "mxfp4" or "q8_0".
FILES = {
    "mixtral": dict(of="mixtral", config=dict(sliding_window=None, num_hidden_layers=1)),
    "mixtral-old": dict(of="mixtral", config=dict(sliding_window=None, num_hidden_layers=1,
                                                  num_local_experts=2), variant="apart"),
    # no key has the activation's numbers: some of what goes into it is above 7
    "gpt_oss": dict(of="gpt_oss", store="mxfp4", edit=louder("post_attention_layernorm"),
                    config=dict(num_local_experts=3, head_dim=8, hidden_size=32,
                                intermediate_size=32, swiglu_limit=7.0, swiglu_alpha=1.702)),
    "deepseek_v2": dict(of="deepseek_v2", hub=with_keys(scoring_func="softmax"), config=MLA),
    "deepseek_v2-old": dict(of="deepseek_v2", variant="whole", config=dict(
        MLA, num_hidden_layers=1, q_lora_rank=None, first_k_dense_replace=0, n_group=1,
        topk_group=1, topk_method="greedy")),
    "deepseek_v3": dict(of="deepseek_v3", store="q8_0", hub=with_keys(scoring_func="sigmoid"),
                        config=dict(MLA, qk_nope_head_dim=32, kv_lora_rank=32, v_head_dim=16,
                                    hidden_size=32, moe_intermediate_size=32,
                                    qk_rope_head_dim=8,
                                    rope_parameters={**YARN_4, "rope_theta": 10000.0,
                                                     "mscale": 0.7, "mscale_all_dim": 0.7})),
    "qwen2_moe": dict(of="qwen2_moe", config=dict(num_hidden_layers=1, num_experts=4,
                                                  use_sliding_window=False,
                                                  moe_intermediate_size=8)),
    # without a type of rope, as of every model that this part of the converter knows
    "phimoe": dict(of="phimoe", hub=with_keys(architectures=["PhiMoEForCausalLM"]), config=dict(
        num_hidden_layers=1, router_jitter_noise=0.01, rope_parameters={
            "rope_theta": 1e4, "rope_type": "longrope", "original_max_position_embeddings": 128,
            "short_factor": [1.0, 1.1, 1.3, 1.7], "long_factor": [1.0, 2.0, 3.0, 5.0],
            "short_mscale": MSCALE, "long_mscale": MSCALE})),
    "granitemoe": dict(of="granitemoe", config=dict(num_hidden_layers=1, num_local_experts=3)),
    "granitemoeshared": dict(of="granitemoeshared", config=dict(num_hidden_layers=1,
                                                                num_local_experts=3)),
    "glm4_moe": dict(of="glm4_moe", config=dict(FEW, head_dim=8, moe_intermediate_size=8)),
    "dots1": dict(of="dots1", hub=with_keys(scoring_func="sigmoid"), config=dict(
        sliding_window=None,
        head_dim=8, num_key_value_heads=2, n_routed_experts=4, moe_intermediate_size=8)),
    # the converter takes this part of intermediate_size for the width of the shared MLP
    "ernie4_5_moe": dict(of="ernie4_5_moe", config=dict(
        head_dim=8, intermediate_size=16, moe_num_shared_experts=2, moe_intermediate_size=8,
        num_hidden_layers=2, moe_layer_end_index=-1, moe_norm_min=1e-12, moe_num_experts=4)),
    "hunyuan_v1_moe": dict(of="hunyuan_v1_moe", hub=hunyuan_keys, config=dict(
        num_hidden_layers=1, attention_bias=False,
        rope_parameters={"rope_theta": 10000.0, "rope_type": "default"})),
    "minimax_m2": dict(of="minimax_m2", hub=with_keys(scoring_func="sigmoid", rotary_dim=8),
                       config=dict(num_hidden_layers=1, num_local_experts=4)),
    "llama4": dict(of="llama4", config=dict(num_hidden_layers=4, interleave_moe_layer_step=2,
                                            no_rope_layers=None, attention_chunk_size=8192,
                                            floor_scale=8192, attn_scale=0.1,
                                            num_local_experts=2, intermediate_size=8,
                                            intermediate_size_mlp=16)),
    "gemma3n": dict(of="gemma3n", config=dict(
        altup_num_inputs=4, vocab_size_per_layer_input=32, num_hidden_layers=4,
        activation_sparsity_pattern=[0.9, 0.5, 0.0, 0.0], layer_types=[SLIDE, FULL] * 2)),
    "gemma4-e4b": dict(of="gemma4-e4b", config=dict(
        vocab_size_per_layer_input=32, num_hidden_layers=4, hidden_size_per_layer_input=8,
        layer_types=[SLIDE, FULL] * 2)),
    "gemma4-31b": dict(of="gemma4-31b", config=dict(
        num_hidden_layers=3, layer_types=[SLIDE, SLIDE, FULL], num_key_value_heads=2)),
    "gemma4-moe": dict(of="gemma4-moe", config=dict(
        num_experts=4, num_key_value_heads=2, num_global_key_value_heads=1,
        moe_intermediate_size=8)),
}


def spec_of(name):
    f = FILES[name]
    spec = copy.deepcopy({**MOE, **gemmaspec.MODELS}[f["of"]])
    spec["config"] = {**spec["config"], **SMALL, **f.get("config", {})}
    return spec, f


def round_trip(x):
    return torch.tensor(gguf.dequantize(
        gguf.quantize(np.ascontiguousarray(x.float().numpy()), gguf.GGMLQuantizationType.Q8_0),
        gguf.GGMLQuantizationType.Q8_0))


def round_trips(tensors, c):
    """Every tensor through Q8_0, kv_b in the halves and the layout in which files hold it."""
    out = {}
    for key, x in tensors.items():
        if x.ndim < 2 or x.shape[-1] % 32 or moe.is_router(key.removesuffix(".weight")):
            out[key] = x.float()
        elif "kv_b_proj" in key:
            nope = c["qk_nope_head_dim"]
            kv = x.float().reshape(c["num_attention_heads"], -1, x.shape[-1])
            k = round_trip(kv[:, :nope].transpose(1, 2)).transpose(1, 2)
            out[key] = torch.cat([k, round_trip(kv[:, nope:])], 1).reshape(x.shape).contiguous()
        else:
            out[key] = round_trip(x)
    return out


class NoVocab:
    def set_vocab(self):
        self.gguf_writer.add_tokenizer_model("none")
        self.gguf_writer.add_vocab_size(self.hparams["vocab_size"])


class Whole:
    """Latent attention before it was split: kv_b in one, and the widths of whole heads."""

    def set_gguf_parameters(self):
        heads, c = self.hparams["num_attention_heads"], self.hparams
        super().set_gguf_parameters()
        self.gguf_writer.add_head_count_kv(heads)
        self.gguf_writer.add_key_length(c["qk_nope_head_dim"] + c["qk_rope_head_dim"])
        self.gguf_writer.add_value_length(c["v_head_dim"])
        for key in ("key_length_mla", "value_length_mla"):
            del self.gguf_writer.kv_data[0]["deepseek2.attention." + key]

    def modify_tensors(self, x, name, bid):
        if name.endswith("kv_b_proj.weight"):
            return [(self.map_tensor_name(name), x)]
        return super().modify_tensors(x, name, bid)


class Apart:
    """Experts before they were stacked."""

    def modify_tensors(self, x, name, bid):
        if "block_sparse_moe.experts" not in name:
            yield from super().modify_tensors(x, name, bid)
            return
        _, _, expert, word, _ = name.rsplit(".", 4)
        part = {"w1": "gate", "w2": "down", "w3": "up"}[word]
        yield f"blk.{bid}.ffn_{part}.{expert}.weight", x


def convert(folder, out, f, ftype):
    hparams = base.ModelBase.load_hparams(folder, False)
    arch = base.get_model_architecture(hparams, base.ModelType.TEXT)
    parent = conversion.get_model_class(arch)
    mixins = {"whole": (Whole,), "apart": (Apart,)}.get(f.get("variant"), ())
    cls = type(parent.__name__, (NoVocab, *mixins, parent), {"model_arch": parent.model_arch})
    out.parent.mkdir(parents=True, exist_ok=True)
    with torch.inference_mode():
        cls(folder, ftype, out, eager=True).write()


def compare_llama(folder, f, ids, logits):
    """llama.cpp with the weights in f32, where it does not round activations."""
    program = os.environ.get("MICA_LLAMA_LOGITS")
    if not program:
        return
    path, vocab = folder / "wide.gguf", logits.shape[1]
    convert(folder, path, f, gguf.LlamaFileType.ALL_F32)
    with tempfile.NamedTemporaryFile() as temp:
        done = subprocess.run([program, path, temp.name, *map(str, ids)], capture_output=True)
        if done.returncode:
            print("  llama.cpp:", done.returncode, done.stderr.decode()[-300:])
            return
        theirs = np.fromfile(temp.name, np.float32).reshape(-1, vocab)
        worst = np.abs(theirs - logits).max() / logits.std()
        print(f"  llama.cpp is off by {worst:.1e} of the std")


def make(name, _, args):
    base_name = name.removeprefix("gguf-")
    spec, f = spec_of(base_name)
    is_gemma = f["of"].startswith("gemma")
    _, model = moe.new_model(spec, {})
    (gemma if is_gemma else moe).randomize(model, name)
    with tempfile.TemporaryDirectory() as temp:
        temp = Path(temp)
        tensors, saved = moe.hub_tensors(model, temp / "saved")
        saved = spec.get("edit_config", lambda c: c)(saved)
        tensors = f.get("edit", lambda t: t)(spec.get("edit_tensors", lambda t: t)(tensors))
        tensors = moe.stored(tensors, torch.bfloat16)
        plain, packed, extra = tensors, tensors, {}
        if f.get("store") == "mxfp4":
            packed, plain = moe.blocks_folder(tensors)
            extra = {"quantization_config": {"quant_method": "mxfp4"}}
        elif f.get("store") == "q8_0":
            plain = packed = round_trips(tensors, saved)
        hub = {**f.get("hub", lambda c: c)(copy.deepcopy(saved)), **extra}
        moe.write_folder(temp / "plain", plain, saved, {"format": "pt"})
        moe.write_folder(temp / "hub", packed, hub, {"format": "pt"})
        vocab = {f"t{i}": i for i in range(saved["vocab_size"])}
        (temp / "hub" / "tokenizer.json").write_text(json.dumps(
            {"model": {"vocab": vocab}, "added_tokens": []}))
        folder = args.out / name
        shutil.rmtree(folder, ignore_errors=True)
        kind = "MOSTLY_Q8_0" if f.get("store") == "q8_0" else "MOSTLY_BF16"
        convert(temp / "hub", folder / "model.gguf", f, gguf.LlamaFileType[kind])
        run = gemma.run if is_gemma else moe.run
        result, logits = run(temp / "plain", name, spec, args.work)
        common.store_run(folder, result, logits, common.versions("transformers", "torch"))
        compare_llama(temp / "hub", f, result["prompt"], logits)


if __name__ == "__main__":
    sys.exit(common.make_models(__doc__, FILES, make, lambda base_, spec: ["gguf-" + base_]))
