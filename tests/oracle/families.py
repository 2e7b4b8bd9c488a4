"""The tiny checkpoints of the families beyond the first ones: what Transformers' classes are given.

HF: name -> (configuration class, its arguments on top of BASE, element type). Sizes are as small
as the family allows and vary: query groups and none, head dimensions of 80 and 96 and partial
rotation, biases on and off, tied and untied heads, windows shorter than the 40 ids of a prompt.
MLX: the same for families that Transformers lacks: mlx-lm's argument class of that model type.
QUANT: name -> (bits, group) of the MLX-quantized form, made by mlx-lm from the one above.
"""

import zlib

import numpy as np

FULL, SLIDE = "full_attention", "sliding_attention"
BASE = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 128,
        "pad_token_id": None, "bos_token_id": 1, "eos_token_id": 2}


def rope(theta=10000.0, **more):
    return {"rope_parameters": {"rope_type": "default", "rope_theta": theta, **more}}


# Both ends of the ramp lie inside, near a whole number, so that they show.
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16,
        "beta_fast": 0.49, "beta_slow": 0.00083}
EPS = 0.05  # of all norms: large enough to be seen
LONG = {"rope_type": "longrope", "short_factor": [1.0, 1.1, 1.3, 1.7],
        "long_factor": [1.0, 1.5, 2.5, 4.0]}

HF = {
    "ministral3": ("Ministral3Config", {
        "head_dim": 16, "tie_word_embeddings": True,
        "rope_parameters": {**YARN, "rope_theta": 1e5, "mscale": 1.0, "mscale_all_dim": 1.0,
                            "llama_4_scaling_beta": 0.1}}, "bf16"),
    "gemma": ("GemmaConfig", {"num_key_value_heads": 1, "head_dim": 24, **rope()}, "bf16"),
    "phi": ("PhiConfig", {"num_attention_heads": 2, "num_key_value_heads": 2,
                          **rope(partial_rotary_factor=0.5)}, "bf16"),
    "phi-qknorm": ("PhiConfig", {"qk_layernorm": True,
                                 **rope(partial_rotary_factor=0.5)}, "f32"),
    "phi3-longrope": ("Phi3Config", {"original_max_position_embeddings": 24,
                                     "rope_parameters": {**LONG, "rope_theta": 1e4}}, "bf16"),
    "phi3-short": ("Phi3Config", {"original_max_position_embeddings": 64,
                                  "num_attention_heads": 2, "num_key_value_heads": 2,
                                  "tie_word_embeddings": True, "rope_parameters": {
                                      **LONG, "rope_theta": 1e4,
                                      "partial_rotary_factor": 0.5}}, "bf16"),
    "phi3-window": ("Phi3Config", {"sliding_window": 8, **rope(partial_rotary_factor=0.75)},
                    "f16"),
    "starcoder2": ("Starcoder2Config", {"sliding_window": 8, "use_bias": True, **rope(1e5)},
                   "bf16"),
    "starcoder2-nobias": ("Starcoder2Config", {
        "use_bias": False, "tie_word_embeddings": False, **rope(1e5)},
        "f32"),
    "stablelm": ("StableLmConfig", {"use_qkv_bias": True, "qk_layernorm": True,
                                    "num_attention_heads": 2, "num_key_value_heads": 1,
                                    **rope(partial_rotary_factor=0.25)}, "bf16"),
    "stablelm-parallel": ("StableLmConfig", {"use_parallel_residual": True,
                                             "num_key_value_heads": 4,
                                             **rope(partial_rotary_factor=0.5)}, "f16"),
    "olmo": ("OlmoConfig", {"clip_qkv": 1.0, "num_key_value_heads": 4, **rope()}, "bf16"),
    "olmo2": ("Olmo2Config", {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 80,
                              "mlp_bias": True, **rope(5e5)}, "bf16"),
    "olmo3": ("Olmo3Config", {
        "num_hidden_layers": 2,
        "sliding_window": 8, "layer_types": [SLIDE, FULL], "head_dim": 16,
        "rope_parameters": {FULL: {**YARN, "rope_theta": 5e5, "attention_factor": 1.2},
                            SLIDE: {"rope_type": "default", "rope_theta": 5e5}}}, "bf16"),
    "smollm3": ("SmolLM3Config", {"num_hidden_layers": 2, "no_rope_layers": [1, 0], **rope(2e6)}, "bf16"),
    "smollm3-step": ("SmolLM3Config", {"num_hidden_layers": 4, "num_attention_heads": 2,
                                       "num_key_value_heads": 1, **rope(2e6)}, "bf16"),
    "smollm3-window": ("SmolLM3Config", {
        "num_hidden_layers": 2,
        "no_rope_layer_interval": 2, "use_sliding_window": True, "sliding_window": 8,
        "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": False, **rope(2e6)},
        "f16"),
    "granite": ("GraniteConfig", {
        "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 96,
        "attention_multiplier": 0.2, "embedding_multiplier": 3.0, "residual_multiplier": 0.3,
        "logits_scaling": 4.0, "attention_bias": True, "mlp_bias": True,
        "tie_word_embeddings": True, **rope()}, "bf16"),
    "glm": ("GlmConfig", {"head_dim": 16, "pad_token_id": None,
                          **rope(partial_rotary_factor=0.5)}, "bf16"),
    "glm4": ("Glm4Config", {"head_dim": 16, "attention_bias": True,
                            **rope(partial_rotary_factor=0.5)}, "bf16"),
    "cohere": ("CohereConfig", {"use_qk_norm": True, "logit_scale": 0.25, **rope(8e4)}, "bf16"),
    "cohere-bias": ("CohereConfig", {"attention_bias": True,
                                     "num_key_value_heads": 4, **rope(8e4)}, "f32"),
    "cohere2": ("Cohere2Config", {"num_hidden_layers": 2, "logit_scale": 0.25, "sliding_window": 8,
                                  "layer_types": [SLIDE, FULL], **rope(5e4)}, "bf16"),
    "exaone4": ("Exaone4Config", {"num_hidden_layers": 2, "sliding_window": 8, "sliding_window_pattern": "LG",
                                  "layer_types": [SLIDE, FULL], "head_dim": 16, **rope(1e6)},
                "bf16"),
    "exaone4-full": ("Exaone4Config", {"sliding_window": None,
                                       "layer_types": [FULL], "tie_word_embeddings": True,
                                       **rope(1e6)}, "f32"),
    "helium": ("HeliumConfig", {"head_dim": 8, "attention_bias": True, "mlp_bias": True,
                                **rope(1e5)}, "bf16"),
    "nemotron": ("NemotronConfig", {"num_attention_heads": 2, "num_key_value_heads": 1,
                                    "head_dim": 96, "attention_bias": True, "mlp_bias": True,
                                    **rope(partial_rotary_factor=0.5)}, "f16"),
    "ernie4_5": ("Ernie4_5Config", {"head_dim": 16, "use_bias": True,
                                    "tie_word_embeddings": True, **rope(5e5)}, "bf16"),
    "hunyuan": ("HunYuanDenseV1Config", {
        "head_dim": 16, "attention_bias": True, "rope_parameters": {
            "rope_type": "dynamic", "rope_theta": 1e4, "alpha": 10.0, "factor": 1.0}}, "bf16"),
    "seed_oss": ("SeedOssConfig", {"num_attention_heads": 2, "num_key_value_heads": 1,
                                   "head_dim": 80, "attention_bias": True,
                                   "attention_out_bias": True, "mlp_bias": True,
                                   "attention_dropout": 0.0, "residual_dropout": 0.0,
                                   **rope()}, "bf16"),
    "apertus": ("ApertusConfig", {"attention_bias": False, "mlp_bias": True, "rope_parameters": {
        "rope_type": "llama3", "rope_theta": 1e6, "factor": 4.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 256},
        "max_position_embeddings": 1024}, "bf16"),
    "exaone": ("ExaoneConfig", {"head_dim": 16, "tie_word_embeddings": True, **rope(5e5)}, "bf16"),
    "internlm3": ("InternLM3Config", {"attention_bias": True, "mlp_bias": True, "head_dim": 16,
                                      "rope_parameters": {"rope_type": "linear", "factor": 2.0,
                                                          "rope_theta": 1e4}}, "bf16"),
    "gpt2": ("GPT2Config", {"num_key_value_heads": None, "intermediate_size": None,
                            "attn_pdrop": 0.0, "resid_pdrop": 0.0, "embd_pdrop": 0.0}, "bf16"),
    "gpt_neox": ("GPTNeoXConfig", {"num_attention_heads": 2, "num_key_value_heads": None,
                                   "hidden_act": "gelu",
                                   **rope(partial_rotary_factor=0.25)}, "bf16"),
    "gpt_neox-serial": ("GPTNeoXConfig", {
        "num_key_value_heads": None, "use_parallel_residual": False,
        "hidden_act": "gelu_new", **rope(partial_rotary_factor=1.0)}, "f32"),
}

MLX = {
    "internlm2": ({"model_type": "internlm2", "rms_norm_eps": EPS, "bias": True,
                   "rope_theta": 1e4, "tie_word_embeddings": False}, "bf16"),
    "minicpm": ({"model_type": "minicpm", "rms_norm_eps": EPS, "scale_emb": 4.0,
                 "scale_depth": 1.4, "dim_model_base": 16, "rope_theta": 1e4,
                 "tie_word_embeddings": False}, "bf16"),
    "mimo": ({"model_type": "mimo", "rms_norm_eps": EPS, "rope_theta": 1e4,
              "tie_word_embeddings": False}, "bf16"),
}


# One quantized form of every family: (bits, group).
QUANT = {name: (4, 32) for name in (
    "ministral3", "gemma", "phi", "phi3-short", "starcoder2", "stablelm", "olmo", "olmo2", "olmo3",
    "smollm3", "granite", "glm", "glm4", "cohere", "cohere2", "exaone", "exaone4", "internlm2",
    "internlm3", "helium", "nemotron", "minicpm", "mimo", "ernie4_5", "hunyuan", "seed_oss",
    "apertus", "gpt2", "gpt_neox")}

# What is left out of config.json, so that it is derived from other keys.
DERIVED = {"smollm3-step": ("no_rope_layers", "layer_types"),
           "smollm3-window": ("no_rope_layers", "layer_types")}
PLAIN = ("olmo",)  # mlx-lm's class of that name reads another format


def hub_name(model_type, key):
    """mlx-lm's name of a parameter -> the one in the hub's files."""
    if model_type == "gpt2":
        return key.replace("model.", "transformer.", 1)
    if model_type == "gpt_neox":
        key = key.replace("model.embed_out", "embed_out").replace("model.h.", "model.layers.")
        return key.replace("model.", "gpt_neox.", 1)
    return key


def is_turned(model_type, key):
    """GPT-2's files hold the weights of its four projections as [in, out]."""
    return model_type == "gpt2" and key.endswith(
        ("c_attn.weight", "c_proj.weight", "c_fc.weight"))


def random_like(name, value, rng):
    """A new value for a parameter: norms near 1 or 0 as they start, matrices normal."""
    noise = rng.standard_normal(value.shape)
    last = name.rsplit(".", 2)
    if last[-1] == "bias":
        return 0.15 * noise
    if value.ndim < 2 or "norm" in name:
        return value + 0.2 * noise
    if any(s in name for s in ("embed_tokens", "wte", "embed_in", "tok_embeddings")):
        return 0.5 * noise
    if any(s in name for s in ("q_proj", "k_proj", "qkv", "query_key_value", "c_attn")):
        return 0.3 * noise
    return 0.15 * noise


def rng_of(name):
    return np.random.default_rng(zlib.crc32(name.encode()))
