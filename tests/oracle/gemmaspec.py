"""The tiny Gemma 3n, Gemma 4 and DiffusionGemma models that make-gemma.py writes.

Each entry: `type` and `config` for Transformers; `quant_config`, what the quantized twin changes;
`wrapped`, whether the hub file is that of a vision wrapper, with the text model's keys in
text_config and its tensors under model.language_model.; `moe`, whether a router chooses.
"""

FULL, SLIDE = "full_attention", "sliding_attention"
BASE = dict(
    hidden_size=24, num_attention_heads=4, num_key_value_heads=2, intermediate_size=24,
    vocab_size=64, head_dim=8, rms_norm_eps=0.05, max_position_embeddings=256, sliding_window=8,
    hidden_activation="gelu_pytorch_tanh", bos_token_id=2, eos_token_id=1, pad_token_id=0)
WIDE = dict(hidden_size=32, intermediate_size=32)

MODELS = {
    # as E2B and E4B: per-layer inputs, the last layers read earlier layers' keys and values
    "gemma4-e4b": dict(
        type="gemma4_text", wrapped=True,
        config=dict(BASE, num_hidden_layers=5, num_kv_shared_layers=2, global_head_dim=16,
                    num_attention_heads=2, num_key_value_heads=1, hidden_size_per_layer_input=20,
                    vocab_size=40, vocab_size_per_layer_input=40, use_double_wide_mlp=True,
                    final_logit_softcapping=8.0,
                    layer_types=[SLIDE, SLIDE, FULL, SLIDE, FULL]),
        quant_config=dict(WIDE, hidden_size_per_layer_input=32, num_hidden_layers=4,
                          intermediate_size=32, layer_types=[SLIDE, FULL] * 2)),
    # as 31B: full layers with other heads, whose values are their keys
    "gemma4-31b": dict(
        type="gemma4_text",
        config=dict(BASE, num_hidden_layers=4, global_head_dim=20, num_global_key_value_heads=1,
                    attention_k_eq_v=True, hidden_size_per_layer_input=0,
                    layer_types=[SLIDE, SLIDE, FULL, FULL], max_position_embeddings=512,
                    rope_parameters={SLIDE: {"rope_type": "default", "rope_theta": 1e3},
                                     FULL: {"rope_type": "proportional", "rope_theta": 1e5,
                                            "partial_rotary_factor": 0.5}}),
        quant_config=dict(WIDE, num_hidden_layers=3, global_head_dim=16,
                          layer_types=[SLIDE, SLIDE, FULL])),
    # as 26B-A4B: an MLP and experts side by side
    "gemma4-moe": dict(
        type="gemma4_text", moe=True, wrapped=True,
        config=dict(BASE, num_hidden_layers=2, global_head_dim=16, num_global_key_value_heads=2,
                    num_key_value_heads=4, attention_k_eq_v=True, hidden_size_per_layer_input=0,
                    enable_moe_block=True, num_experts=6, top_k_experts=2,
                    moe_intermediate_size=16, final_logit_softcapping=30.0,
                    layer_types=[SLIDE, FULL]),
        quant_config=dict(WIDE, num_experts=4, moe_intermediate_size=32, intermediate_size=32)),
    "gemma3n": dict(
        type="gemma3n_text", wrapped=True,
        config=dict(BASE, num_hidden_layers=5, num_kv_shared_layers=2,
                    hidden_size_per_layer_input=8, vocab_size_per_layer_input=56,
                    altup_num_inputs=3, altup_active_idx=0, altup_coef_clip=120.0,
                    altup_correct_scale=True, laurel_rank=6, final_logit_softcapping=8.0,
                    activation_sparsity_pattern=[0.9, 0.5, 0.0, 0.0, 0.0],
                    layer_types=[SLIDE, FULL, SLIDE, SLIDE, FULL]),
        quant_config=dict(WIDE, num_hidden_layers=4, intermediate_size=32, altup_num_inputs=2,
                          hidden_size_per_layer_input=32, vocab_size_per_layer_input=64,
                          laurel_rank=32, altup_active_idx=1, altup_correct_scale=False,
                          activation_sparsity_pattern=[0.8, 0.0, 0.0, 0.0],
                          layer_types=[SLIDE, FULL] * 2)),
}
