/* synth_config.c: config.json of a synthetic folder, with the keys of its family.
 */
#include "quant/synth_config.h"

#include <string.h>

typedef struct family_keys {
    const char *arch, *class_name, *activation_key, *activation;
} family_keys;

static const family_keys families[] = {
    {"llama", "LlamaForCausalLM", "hidden_act", "silu"},
    {"qwen3", "Qwen3ForCausalLM", "hidden_act", "silu"},
    {"qwen3_moe", "Qwen3MoeForCausalLM", "hidden_act", "silu"},
    {"gemma3_text", "Gemma3ForCausalLM", "hidden_activation", "gelu_pytorch_tanh"},
};

static const family_keys *keys_of(const char *arch) {
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
        if (!strcmp(families[i].arch, arch)) return &families[i];
    return &families[0];
}

static void put_experts(json_writer *w, const synth_shape *s) {
    mica_json_member_i64(w, "num_experts", s->n_experts);
    mica_json_member_i64(w, "num_experts_per_tok", s->n_experts_used);
    mica_json_member_i64(w, "moe_intermediate_size", s->intermediate_size);
    mica_json_member_i64(w, "decoder_sparse_step", 1);
    mica_json_member_bool(w, "norm_topk_prob", true);
    mica_json_key(w, "mlp_only_layers");
    mica_json_begin_array(w);
    mica_json_end_array(w);
}

static void put_windows(json_writer *w, const synth_shape *s) {
    mica_json_member_i64(w, "sliding_window", s->window);
    mica_json_member_i64(w, "sliding_window_pattern", s->window_pattern);
    mica_json_member_double(w, "rope_local_base_freq", 10000);
    mica_json_member_i64(w, "query_pre_attn_scalar", s->head_dim);
}

static void put_spec(json_writer *w, int64_t group, int64_t bits) {
    mica_json_member_i64(w, "group_size", group);
    mica_json_member_i64(w, "bits", bits);
}

static void put_quantization(json_writer *w, const synth_model *m, const synth_options *options) {
    mica_json_key(w, "quantization");
    mica_json_begin_object(w);
    put_spec(w, options->group, options->bits);
    for (size_t i = 0; i < m->n_tensors; i++) {
        if (!m->tensors[i].is_router) continue;
        mica_json_key(w, m->tensors[i].name);
        mica_json_begin_object(w);
        put_spec(w, SYNTH_ROUTER_GROUP, SYNTH_ROUTER_BITS);
        mica_json_end_object(w);
    }
    mica_json_end_object(w);
}

void mica_synth_fill_config(json_writer *w, const synth_model *m, const synth_options *options) {
    const synth_shape *s = &m->shape;
    const family_keys *keys = keys_of(s->arch);
    mica_json_begin_object(w);
    mica_json_key(w, "architectures");
    mica_json_begin_array(w);
    mica_json_put_cstring(w, keys->class_name);
    mica_json_end_array(w);
    mica_json_member_cstring(w, "model_type", s->arch);
    mica_json_member_cstring(w, "torch_dtype", "bfloat16");
    mica_json_member_i64(w, "num_hidden_layers", s->n_layers);
    mica_json_member_i64(w, "hidden_size", s->hidden_size);
    mica_json_member_i64(w, "intermediate_size", s->intermediate_size);
    mica_json_member_i64(w, "num_attention_heads", s->n_heads);
    mica_json_member_i64(w, "num_key_value_heads", s->n_kv_heads);
    mica_json_member_i64(w, "head_dim", s->head_dim);
    mica_json_member_i64(w, "vocab_size", s->vocab_size);
    mica_json_member_i64(w, "max_position_embeddings", s->max_positions);
    mica_json_member_double(w, "rms_norm_eps", SYNTH_EPS);
    mica_json_member_double(w, "rope_theta", s->rope_theta);
    mica_json_member_bool(w, "tie_word_embeddings", s->tied);
    mica_json_member_bool(w, "attention_bias", false);
    mica_json_member_cstring(w, keys->activation_key, keys->activation);
    mica_json_member_i64(w, "bos_token_id", SYNTH_BOS);
    mica_json_member_i64(w, "eos_token_id", SYNTH_EOS);
    if (s->n_experts) put_experts(w, s);
    if (s->window) put_windows(w, s);
    put_quantization(w, m, options);
    mica_json_end_object(w);
}
