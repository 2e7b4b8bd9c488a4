"""Shapes and random weights of the tiny models, without any machine-learning library.

ARCH holds what each family adds to BASE. Weights are normal: std 0.05, embeddings 0.5 (so that
softmax and softcaps are not linear), q and k 0.2 (otherwise attention is nearly uniform and
hides its scale, softcap and rope), biases 0.1, norms 1 + 0.2 n, or 0.2 n where the model adds 1.
"""

import zlib

import numpy as np

BASE = {
    "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 64, "rms_norm_eps": 0.02,
    "rope_theta": 10000.0, "max_position_embeddings": 256, "tie_word_embeddings": False,
}
WIDE = {"hidden_size": 128, "intermediate_size": 128}
LLAMA3 = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}
FULL, SLIDE = "full_attention", "sliding_attention"
ARCH = {
    "llama": {"model_type": "llama", "head_dim": 32, "hidden_act": "silu", "rope_scaling": LLAMA3},
    "swa": {"model_type": "llama", "head_dim": 32, "hidden_act": "silu", "sliding_window": 8,
            "num_hidden_layers": 3,
            "layer_types": [FULL, SLIDE, SLIDE], "attention_bias": True, "mlp_bias": True},
    "mistral": {"model_type": "mistral", "head_dim": 32, "hidden_act": "silu", "rope_theta": None,
                "rope_parameters": {"rope_theta": 5e5, "rope_type": "default"},
                "sliding_window": None},
    "qwen2": {"model_type": "qwen2", "hidden_act": "silu", "tie_word_embeddings": True,
              "use_sliding_window": False, "sliding_window": None, "rope_theta": 1e6,
              "rope_scaling": {"type": "yarn", "factor": 2.0,
                               "original_max_position_embeddings": 1344}},
    "qwen3": {"model_type": "qwen3", "head_dim": 32, "hidden_act": "silu",
              "tie_word_embeddings": True, "rope_theta": 1e6},
    "gemma2": {"model_type": "gemma2", "head_dim": 32, "hidden_activation": "gelu_pytorch_tanh",
               "query_pre_attn_scalar": 24, "attn_logit_softcapping": 5.0,
               "final_logit_softcapping": 8.0, "tie_word_embeddings": True},
    "gemma3": {"model_type": "gemma3_text", "head_dim": 32, "num_hidden_layers": 6,
               "hidden_activation": "gelu_pytorch_tanh", "sliding_window": 8,
               "sliding_window_pattern": 3, "rope_theta": 1e6, "rope_local_base_freq": 1e3,
               "rope_scaling": {"rope_type": "linear", "factor": 2.0},
               "tie_word_embeddings": True},
}
CLASSES = {"llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM",
           "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM",
           "gemma2": "Gemma2ForCausalLM", "gemma3_text": "Gemma3ForCausalLM"}


def seed_of(name):
    return zlib.crc32(name.encode())


def config_of(spec):
    config = {**BASE, **ARCH[spec["arch"]], **spec["config"]}
    config = {"architectures": [CLASSES[config["model_type"]]],
              **{k: v for k, v in config.items() if v is not None}}
    config["torch_dtype"] = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}[spec["dtype"]]
    if spec["quant"]:
        config["quantization"] = spec["quant"]
        config["quantization_config"] = spec["quant"]
    return config


def shapes_of(config):
    """Yields (name, shape, kind) in the file's order; kind picks the distribution."""
    h, inter, vocab = (config[k] for k in ("hidden_size", "intermediate_size", "vocab_size"))
    heads, kv = config["num_attention_heads"], config["num_key_value_heads"]
    d = config.get("head_dim", h // heads)
    arch = config["model_type"]
    biased = config.get("attention_bias", False) and arch != "mistral"  # which has none
    qkv_bias = arch == "qwen2" or biased
    sandwich = arch in ("gemma2", "gemma3_text")
    yield "model.embed_tokens.weight", (vocab, h), "embed"
    for i in range(config["num_hidden_layers"]):
        p = f"model.layers.{i}."
        norms = ["input_layernorm", "post_attention_layernorm"]
        norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"] if sandwich else []
        for n in norms:
            yield f"{p}{n}.weight", (h,), "norm"
        for n, rows, cols, bias in (
                ("self_attn.q_proj", heads * d, h, qkv_bias),
                ("self_attn.k_proj", kv * d, h, qkv_bias),
                ("self_attn.v_proj", kv * d, h, qkv_bias),
                ("self_attn.o_proj", h, heads * d, biased),
                ("mlp.gate_proj", inter, h, config.get("mlp_bias", False)),
                ("mlp.up_proj", inter, h, config.get("mlp_bias", False)),
                ("mlp.down_proj", h, inter, config.get("mlp_bias", False))):
            yield f"{p}{n}.weight", (rows, cols), "qk" if n[-6:-5] in "qk" else "linear"
            if bias:
                yield f"{p}{n}.bias", (rows,), "bias"
        if arch in ("qwen3", "gemma3_text"):
            yield f"{p}self_attn.q_norm.weight", (d,), "norm"
            yield f"{p}self_attn.k_norm.weight", (d,), "norm"
    yield "model.norm.weight", (h,), "norm"
    if not config["tie_word_embeddings"]:
        yield "lm_head.weight", (vocab, h), "linear"


def float_tensors(name, config):
    rng = np.random.default_rng(seed_of(name))
    plus_one = config["model_type"].startswith("gemma")
    std = {"embed": 0.5, "linear": 0.05, "qk": 0.2, "bias": 0.1, "norm": 0.2}
    out = {}
    for key, shape, kind in shapes_of(config):
        x = rng.standard_normal(shape) * std[kind]
        if kind == "norm" and not plus_one:
            x = x + 1.0
        out[key] = x.astype(np.float32)
    return out
