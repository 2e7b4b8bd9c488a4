#!/usr/bin/env python3
"""Writes the tiny GGUF files of tests/golden/tiny and equivalent Hugging Face folders.

Runs in venv-hf, before tiny-hf.py. The GGUF holds what a converter would write: llama's q and k
rows permuted, 1 added to gemma's norms, quantized blocks. WORK/NAME/equivalent holds config.json
and the dequantized weights in float32 under their Hugging Face names: Transformers runs that
folder (its own GGUF loader drops head_dim and rope_freqs in places) and, as a cross-check, the
GGUF itself.
"""

import argparse
import json
import shutil
from pathlib import Path

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFWriter
from gguf.quants import dequantize, quantize

import common
import tinyspec
import tinyvocab

V = tinyvocab.SIZE
WITH_TEXT = ("gguf-llama", "gguf-gemma2")  # a tokenizer of either kind; the others are smaller
GEMMA_SPECIALS = ["<pad>", "<eos>", "<bos>", "<unk>"]

# arch, block types taken in turn, config on top of tinyspec.
MODELS = {
    "gguf-llama": ("llama", ["Q4_0", "Q8_0"], {"num_hidden_layers": 2, "rope_scaling": None}),
    "gguf-llama3": ("llama", ["F16", "F32"], {"num_hidden_layers": 1,
                                              "tie_word_embeddings": True}),
    "gguf-llama-k": ("llama", ["Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS", "IQ4_NL"],
                     {"num_hidden_layers": 1, "rope_scaling": None, "hidden_size": 256,
                      "head_dim": 64, "intermediate_size": 256, "tie_word_embeddings": True}),
    "gguf-qwen2": ("qwen2", ["Q5_0", "Q5_1"], {"num_hidden_layers": 2, "rope_scaling": None}),
    "gguf-qwen3": ("qwen3", ["Q4_1", "BF16"], {"num_hidden_layers": 2,
                                               "tie_word_embeddings": False}),
    "gguf-gemma2": ("gemma2", ["Q8_0", "Q4_1", "F16"], {"num_hidden_layers": 2,
                                                        "sliding_window": 8,
                                                        "query_pre_attn_scalar": 32}),
    "gguf-gemma3": ("gemma3", ["Q5_0", "Q4_0", "Q8_0"], {
        "num_hidden_layers": 6, "sliding_window_pattern": 6, "query_pre_attn_scalar": 32,
        "rope_local_base_freq": 1e4, "rope_scaling": None}),
}

NAMES = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
         "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
PLAIN_NORMS = {"post_attention_layernorm": "ffn_norm"}
SANDWICH_NORMS = {"post_attention_layernorm": "post_attention_norm",
                  "pre_feedforward_layernorm": "ffn_norm",
                  "post_feedforward_layernorm": "post_ffw_norm"}
TOP = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def gguf_name(name, sandwich):
    stem, suffix = name.rsplit(".", 1)
    if stem in TOP:
        return f"{TOP[stem]}.{suffix}"
    _, _, layer, rest = stem.split(".", 3)
    table = {**NAMES, **(SANDWICH_NORMS if sandwich else PLAIN_NORMS)}
    return f"blk.{layer}.{table[rest]}.{suffix}"


def permute(x, heads):
    """HF row h*D + p*D/2 + i goes to GGUF row h*D + 2i + p."""
    return x.reshape(heads, 2, x.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(x.shape)


def unpermute(x, heads):
    return x.reshape(heads, x.shape[0] // heads // 2, 2, -1).swapaxes(1, 2).reshape(x.shape)


def random_k_blocks(rng, shape, kind):
    """K and IQ blocks with weights of a usual size: uniform codes, scales chosen to centre them.

    The gguf package has no quantizer for these types, so blocks are made up directly.
    """
    n_elements, n_bytes = GGML_QUANT_SIZES[kind]
    raw = rng.integers(0, 256, (shape[0] * shape[1] // n_elements, n_bytes), dtype=np.uint8)
    size = {"Q2_K": 0.012, "Q3_K": 0.0015, "Q4_K": 0.0003, "Q5_K": 0.00015, "Q6_K": 0.00003,
            "IQ4_NL": 0.0007, "IQ4_XS": 0.00004}[kind.name]
    d = (size * rng.uniform(0.7, 1.4, len(raw))).astype(np.float16)

    def put(at, value):
        raw[:, at:at + 2] = value.astype(np.float16).view(np.uint8).reshape(-1, 2)
    if kind.name == "Q2_K":
        low = raw[:, :16] & 15
        raw[:, :16] = low | low << 4
        put(80, d)
        put(82, d * np.float16(1.5))
    elif kind.name in ("Q4_K", "Q5_K"):
        raw[:, 8:12] = raw[:, 4:8]
        raw[:, 12:16] = (raw[:, 12:16] & 15) * 17
        put(0, d)
        put(2, d * np.float16(7.5 if kind.name == "Q4_K" else 15.5))
    else:
        put({"Q3_K": 108, "Q6_K": 208, "IQ4_NL": 0, "IQ4_XS": 0}[kind.name], d)
    return raw.reshape(shape[0], -1)


def encode(rng, x, kind):
    """(stored array, what a decoder gets back)."""
    if kind == GGMLQuantizationType.F32:
        return x, x
    if kind == GGMLQuantizationType.F16:
        return x.astype(np.float16), x.astype(np.float16).astype(np.float32)
    if kind.name.startswith("IQ") or kind.name.endswith("_K"):
        data = random_k_blocks(rng, x.shape, kind)
    else:
        data = quantize(x, kind)
    return data, dequantize(data, kind)


def add_bpe(writer, pre):
    tokens, merges = tinyvocab.vocabulary()
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([3] * len(tinyvocab.SPECIALS) + [1] * (V - len(tinyvocab.SPECIALS)))
    writer.add_token_merges([f"{a} {b}" for a, b in merges])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(False)
    writer.add_chat_template(tinyvocab.CHAT_TEMPLATE)


def sentencepiece_pieces():
    """60 pieces: the letters of the text, then merges of letters, better score first."""
    letters = ["\u2581", *"etaoinshrdlcumwfgypbvk.,;"]
    merged = [(a + b).replace("\u0120", "\u2581") for a, b in tinyvocab.merges(61)]
    out = letters + [t for t in merged if all(c in letters for c in t)]
    return out[:V - 256 - len(GEMMA_SPECIALS)]


def add_spm(writer):
    pieces = sentencepiece_pieces()
    assert len(pieces) == len(set(pieces)) == V - 256 - len(GEMMA_SPECIALS)
    tokens = GEMMA_SPECIALS + [f"<0x{b:02X}>" for b in range(256)] + pieces
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_scores([-1000.0] * 260 + [-float(i) for i in range(len(pieces))])
    writer.add_token_types([3, 3, 3, 2] + [6] * 256 + [1] * len(pieces))
    writer.add_bos_token_id(2)
    writer.add_eos_token_id(1)
    writer.add_unk_token_id(3)
    writer.add_pad_token_id(0)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    writer.add_add_space_prefix(False)


def add_config(writer, config):
    d = config.get("head_dim", config["hidden_size"] // config["num_attention_heads"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(d)
    writer.add_value_length(d)
    writer.add_rope_dimension_count(d)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_vocab_size(config["vocab_size"])
    if config.get("sliding_window"):
        writer.add_sliding_window(config["sliding_window"])
    if config["model_type"] == "gemma2":
        writer.add_attn_logit_softcapping(config["attn_logit_softcapping"])
        writer.add_final_logit_softcapping(config["final_logit_softcapping"])


def llama3_factors(config):
    return llama3_rule({**config, **config["rope_scaling"]})


def llama3_rule(s):
    """rope_freqs: what divides the angle of each pair, by the llama3 rule."""
    d = s["head_dim"]
    wave = 2 * np.pi * s["rope_theta"] ** (2 * np.arange(d // 2) / d)
    context = s["original_max_position_embeddings"]
    low, high = context / s["low_freq_factor"], context / s["high_freq_factor"]
    width = s["high_freq_factor"] - s["low_freq_factor"]
    smooth = (context / wave - s["low_freq_factor"]) / width
    between = 1 / ((1 - smooth) / s["factor"] + smooth)
    return np.where(wave > low, s["factor"], np.where(wave < high, 1.0, between)).astype(np.float32)


def write_equivalent(folder, config, tensors):
    from safetensors.numpy import save_file
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    save_file({k: np.ascontiguousarray(v) for k, v in tensors.items()},
              folder / "model.safetensors", {"format": "pt"})


def write_model(name, out, work):
    arch, kinds, changes = MODELS[name]
    config = tinyspec.config_of({"arch": arch, "dtype": "f32", "quant": None,
                                 "config": {**changes,
                                            "vocab_size": V if name in WITH_TEXT else 64}})
    gemma = arch.startswith("gemma")
    rng = np.random.default_rng(tinyspec.seed_of(name))
    out.mkdir(parents=True, exist_ok=True)
    writer = GGUFWriter(out / "model.gguf", arch)
    add_config(writer, config)
    if name in WITH_TEXT:
        add_spm(writer) if gemma else add_bpe(writer, "smollm")
    equivalent, turn = {}, 0
    for key, x in tinyspec.float_tensors(name, config).items():
        heads = {"q_proj": config["num_attention_heads"],
                 "k_proj": config["num_key_value_heads"]}.get(key.split(".")[-2], 0)
        heads = heads if arch == "llama" else 0
        kind = GGMLQuantizationType.F32
        if x.ndim == 2:
            kind = GGMLQuantizationType[kinds[turn % len(kinds)]]
            turn += 1
        x = x + 1 if gemma and x.ndim == 1 else x
        stored, back = encode(rng, permute(x, heads) if heads else x, kind)
        back = unpermute(back, heads) if heads else back
        equivalent[key] = back - 1 if gemma and x.ndim == 1 else back
        writer.add_tensor(gguf_name(key, gemma), stored, raw_dtype=kind)
    if arch == "llama" and config.get("rope_scaling"):
        writer.add_tensor("rope_freqs.weight", llama3_factors(config))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    write_equivalent(work / "equivalent", config, equivalent)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=common.GOLDEN / "tiny")
    parser.add_argument("--work", type=Path, default=common.work_dir() / "tiny")
    args = parser.parse_args()
    for name in MODELS:
        write_model(name, args.out / name, args.work / name)
        size = (args.out / name / "model.gguf").stat().st_size
        print(f"{name:24s} {size / 1000:7.1f} kB")


if __name__ == "__main__":
    main()
