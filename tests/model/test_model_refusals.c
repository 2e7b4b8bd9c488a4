/* test_model_refusals.c: configurations that would compute something else than their authors meant,
 * each refused with the words that a user needs: the key, the value, and what would have been
 * taken. Documents of config.json first, then the files of embedding models.
 */
#include "cmocka_base.h"

#include "bytes.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/json.h"
#include "model/config.h"
#include "model/embedding.h"
#include "model/loaded.h"

/* The keys that most documents need; a row adds its own before the closing brace. */
#define SIZES                                                                \
    "\"hidden_size\":64,\"num_hidden_layers\":4,\"num_attention_heads\":4,"  \
    "\"num_key_value_heads\":2,\"intermediate_size\":96,\"vocab_size\":160," \
    "\"rms_norm_eps\":1e-5,\"max_position_embeddings\":256,\"rope_theta\":1e4"
#define OF(type) "{\"model_type\":\"" type "\"," SIZES
#define ROPE(type) ",\"rope_scaling\":{\"rope_type\":\"" type "\",\"factor\":2}}"
#define GEMMA4                                                                  \
    "{\"model_type\":\"gemma4_text\",\"num_hidden_layers\":4,\"layer_types\":[" \
    "\"sliding_attention\",\"full_attention\",\"sliding_attention\",\"full_attention\"]"
#define GEMMA3N "{\"model_type\":\"gemma3n_text\",\"num_hidden_layers\":4"
#define MOE                                         \
    OF("qwen3_moe")                                 \
    ",\"num_experts\":8,\"num_experts_per_tok\":2," \
    "\"moe_intermediate_size\":32"
#define NOMIC                                                                                 \
    "{\"model_type\":\"nomic_bert\",\"n_embd\":64,\"n_layer\":2,\"n_head\":2,\"n_inner\":64," \
    "\"vocab_size\":160"
#define PHIMOE                                                                               \
    OF("phimoe")                                                                             \
    ",\"num_local_experts\":4,\"num_experts_per_tok\":2,\"rope_scaling\":{\"rope_type\":"    \
    "\"longrope\",\"original_max_position_embeddings\":128,\"short_factor\":[1,1,1,1,1,1,1," \
    "1],\"long_factor\":[1,1,1,1,1,1,1,1]"
#define V3                                                                                        \
    OF("deepseek_v3")                                                                             \
    ",\"kv_lora_rank\":16,\"q_lora_rank\":null,\"qk_rope_head_dim\":8,"                           \
    "\"qk_nope_head_dim\":16,\"v_head_dim\":16,\"n_routed_experts\":8,\"num_experts_per_tok\":2," \
    "\"moe_intermediate_size\":32"

typedef struct refusal {
    const char *text;
    mica_status status;
    const char *part; /* of the message */
} refusal;

static const refusal documents[] = {
    /* activations */
    {OF("llama") ",\"hidden_act\":\"gelu\"}", MICA_E_UNSUPPORTED,
     "\"hidden_act\": \"gelu\" is not supported for llama, which has \"silu\""},
    {OF("qwen3") ",\"hidden_act\":\"relu\"}", MICA_E_UNSUPPORTED,
     "\"hidden_act\": \"relu\" is not supported for qwen3, which has \"silu\""},
    {OF("gemma2") ",\"hidden_activation\":\"silu\"}", MICA_E_UNSUPPORTED,
     "\"hidden_activation\": \"silu\" is not supported for gemma2, which has "
     "\"gelu_pytorch_tanh\""},
    {OF("nemotron") ",\"hidden_act\":\"silu\"}", MICA_E_UNSUPPORTED, "which has \"relu2\""},
    {MOE ",\"hidden_act\":\"gelu\"}", MICA_E_UNSUPPORTED, "which has \"silu\""},
    {OF("bert") ",\"hidden_act\":\"quick_gelu\"}", MICA_E_UNSUPPORTED,
     "\"hidden_act\": \"quick_gelu\" is not supported for bert; known are silu, gelu,"},
    {OF("bert") ",\"hidden_act\":\"swiglu\"}", MICA_E_UNSUPPORTED,
     "\"hidden_act\": \"swiglu\" is not supported for bert"},
    {NOMIC ",\"activation_function\":\"geglu\"}", MICA_E_UNSUPPORTED,
     "\"activation_function\": \"geglu\" is not supported for nomic_bert"},
    {NOMIC ",\"moe_every_n_layers\":2}", MICA_E_UNSUPPORTED,
     "\"moe_every_n_layers\" is not supported for nomic_bert unless it is false"},
    {NOMIC ",\"activation_function\":\"gelu\",\"moe_every_n_layers\":2,\"num_experts\":8}",
     MICA_E_UNSUPPORTED,
     "\"num_experts\": 8 is not supported for nomic_bert: it is a nomic-bert-moe"},
    {NOMIC ",\"qkv_proj_bias\":true}", MICA_E_UNSUPPORTED, "\"qkv_proj_bias\" is not supported"},
    {NOMIC ",\"rotary_scaling_factor\":2}", MICA_E_UNSUPPORTED,
     "\"rotary_scaling_factor\" is not supported"},
    {NOMIC ",\"rotary_emb_fraction\":0.5}", MICA_E_UNSUPPORTED,
     "\"partial_rotary_factor\": 0.5 is not supported for nomic_bert"},
    {OF("llama") ",\"hidden_act\":7}", MICA_E_FORMAT, "\"hidden_act\" must be a string"},
    /* numbers that no float holds */
    {OF("granite") ",\"embedding_multiplier\":1e39}", MICA_E_FORMAT,
     "\"embedding_multiplier\" must be a finite number"},
    {OF("lfm2") ",\"layer_types\":[\"conv\",\"conv\",\"conv\",\"conv\"],\"full_attn_idxs\":\"x\"}",
     MICA_E_FORMAT, "\"full_attn_idxs\" must be a list of layers"},
    {OF("llama4_text") ",\"no_rope_layers\":[\"x\"]}", MICA_E_FORMAT, "\"no_rope_layers\""},
    /* ropes */
    {PHIMOE "}}", MICA_E_FORMAT, "\"short_mscale\" of the rope must be there"},
    {PHIMOE ",\"short_mscale\":1.1,\"long_mscale\":1.2}}", MICA_E_UNSUPPORTED,
     "\"long_mscale\" of the rope differs from \"short_mscale\""},
    {OF("phi3") ROPE("yarn"), MICA_E_UNSUPPORTED,
     "rope type \"yarn\" is not supported for phi3, which has: default longrope su linear"},
    {OF("nemotron") ROPE("dynamic"), MICA_E_UNSUPPORTED,
     "rope type \"dynamic\" is not supported for nemotron, which has: default linear"},
    {OF("llama") ",\"rope_scaling\":{\"rope_type\":\"llama3\"}}", MICA_E_FORMAT,
     "rope type \"llama3\" needs a \"factor\""},
    {OF("llama") ",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8}}", MICA_E_FORMAT,
     "\"low_freq_factor\" is missing, which rope type llama3 needs"},
    {OF("llama") ",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,"
                 "\"low_freq_factor\":4,\"high_freq_factor\":4}}",
     MICA_E_FORMAT, "\"high_freq_factor\" of the rope must be above \"low_freq_factor\""},
    {OF("llama") ",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,"
                 "\"low_freq_factor\":0,\"high_freq_factor\":4}}",
     MICA_E_FORMAT, "\"low_freq_factor\" of the rope must be above 0"},
    {OF("llama") ",\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":8,\"beta_slow\":-1}}",
     MICA_E_FORMAT, "\"beta_slow\" of the rope must be above 0"},
    {OF("llama") ",\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":-1}}", MICA_E_FORMAT,
     "\"factor\" of the rope must be above 0"},
    {OF("llama") ",\"rope_scaling\":{\"rope_type\":\"longrope\",\"long_factor\":[1,2],"
                 "\"short_factor\":[1]}}",
     MICA_E_FORMAT, "\"short_factor\" and \"long_factor\" differ in length"},
    {OF("qwen2") ",\"rope_scaling\":{\"type\":\"mrope\",\"mrope_section\":[1]}}", MICA_E_FORMAT,
     "\"mrope_section\" of rope type mrope must have 3 entries"},
    {OF("llama") ",\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":2,\"alpha\":8}}",
     MICA_E_UNSUPPORTED, "rope key \"alpha\": 8 is not supported"},
    {OF("llama") ",\"rope_parameters\":{\"rope_theta\":0.5}}", MICA_E_FORMAT,
     "\"rope_theta\" must be above 1"},
    {OF("llama") ",\"rope_parameters\":{\"sliding_attention\":{\"rope_theta\":1e4}}}",
     MICA_E_FORMAT, "\"rope_parameters\" has no full_attention entry"},
    {OF("gemma3_text") ",\"rope_parameters\":{\"full_attention\":{\"rope_theta\":1e6},"
                       "\"sliding_attention\":{\"rope_type\":\"linear\",\"factor\":2}}}",
     MICA_E_UNSUPPORTED, "rope type \"linear\" of sliding layers is not supported"},
    {OF("llama") ",\"rope_interleaved\":true}", MICA_E_UNSUPPORTED,
     "\"rope_interleaved\": true is not supported for llama"},
    /* attention */
    {OF("qwen2") ",\"is_causal\":false}", MICA_E_UNSUPPORTED,
     "\"is_causal\": false is not supported for qwen2"},
    {OF("llama") ",\"attention_sinks\":4}", MICA_E_UNSUPPORTED, "\"attention_sinks\": 4"},
    {OF("llama") ",\"attention_chunk_size\":8192}", MICA_E_UNSUPPORTED,
     "\"attention_chunk_size\": 8192"},
    {OF("qwen3") ",\"attn_output_gate\":true}", MICA_E_UNSUPPORTED, "\"attn_output_gate\": true"},
    {OF("llama") ",\"use_alibi\":true}", MICA_E_UNSUPPORTED, "\"use_alibi\": true"},
    {OF("gemma3_text") ",\"use_bidirectional_attention\":true}", MICA_E_UNSUPPORTED,
     "\"use_bidirectional_attention\": true is not supported for gemma3_text"},
    {OF("llama") ",\"kv_lora_rank\":512}", MICA_E_UNSUPPORTED, "\"kv_lora_rank\": 512"},
    {OF("llama") ",\"norm_type\":\"layernorm\"}", MICA_E_UNSUPPORTED,
     "\"norm_type\": \"layernorm\" is not supported for llama"},
    /* Gemma 4 and 3n */
    {GEMMA4 ",\"use_bidirectional_attention\":\"all\"}", MICA_E_UNSUPPORTED,
     "\"use_bidirectional_attention\": \"all\" is not supported for gemma4_text"},
    {GEMMA4 ",\"per_layer_config\":{\"9\":{\"head_dim\":64}}}", MICA_E_FORMAT,
     "per_layer_config has \"9\"; expected a layer below 4"},
    {GEMMA4 ",\"per_layer_config\":{\"1\":{\"intermediate_size\":64}}}", MICA_E_UNSUPPORTED,
     "per_layer_config[\"1\"]: \"intermediate_size\" is not supported"},
    {GEMMA4 ",\"per_layer_config\":[]}", MICA_E_FORMAT, "\"per_layer_config\" must be an object"},
    {GEMMA4 ",\"per_layer_config\":{\"1\":{\"head_dim\":64},\"3\":{\"head_dim\":32}}}",
     MICA_E_UNSUPPORTED, "layer 3 has heads of 32 channels, earlier ones of its kind 64"},
    {GEMMA4 ",\"attention_k_eq_v\":true,\"num_global_key_value_heads\":3}", MICA_E_FORMAT,
     "cannot have 8 query and 3 key/value heads"},
    {GEMMA4 ",\"num_kv_shared_layers\":5}", MICA_E_FORMAT,
     "\"num_kv_shared_layers\" is 5; expected a whole number from 0 to 4"},
    {GEMMA4 ",\"enable_moe_block\":true}", MICA_E_FORMAT, "has no \"num_experts\""},
    {GEMMA4 ",\"final_logit_softcapping\":-1}", MICA_E_FORMAT,
     "\"final_logit_softcapping\" must be 0 or more"},
    {GEMMA3N ",\"activation_sparsity_pattern\":[0.5,0.5]}", MICA_E_FORMAT,
     "\"activation_sparsity_pattern\" has 2 entries; expected one for each layer"},
    {GEMMA3N ",\"activation_sparsity_pattern\":1.0}", MICA_E_FORMAT,
     "must hold shares from 0 to below 1"},
    {GEMMA3N ",\"altup_active_idx\":4}", MICA_E_FORMAT,
     "\"altup_active_idx\" is 4; expected a whole number from 0 to 3"},
    {GEMMA3N ",\"intermediate_size\":[64,64,0,64]}", MICA_E_FORMAT, "\"intermediate_size\" has"},
    {GEMMA3N ",\"attention_k_eq_v\":true}", MICA_E_UNSUPPORTED,
     "\"attention_k_eq_v\": true is not supported for gemma3n_text"},
    {OF("gemma3_text") ",\"num_kv_shared_layers\":2}", MICA_E_UNSUPPORTED,
     "\"num_kv_shared_layers\": 2 is not supported for gemma3_text"},
    {OF("gemma3_text") ",\"hidden_size_per_layer_input\":256}", MICA_E_UNSUPPORTED,
     "\"hidden_size_per_layer_input\": 256"},
    /* experts */
    {OF("llama") ",\"num_local_experts\":8}", MICA_E_UNSUPPORTED, "\"num_local_experts\": 8"},
    {MOE ",\"n_group\":2,\"topk_group\":1}", MICA_E_UNSUPPORTED,
     "\"n_group\": 2 is not supported for qwen3_moe"},
    {OF("mixtral") ",\"num_local_experts\":4,\"num_experts_per_tok\":2,"
                   "\"norm_topk_prob\":\"no\"}",
     MICA_E_UNSUPPORTED, "\"norm_topk_prob\": \"no\" is not supported for mixtral"},
    {MOE ",\"scoring_func\":\"sigmoid\"}", MICA_E_UNSUPPORTED,
     "\"scoring_func\": \"sigmoid\" is not supported for qwen3_moe"},
    {OF("qwen3_moe") ",\"num_experts\":8,\"num_experts_per_tok\":9,\"moe_intermediate_size\":32}",
     MICA_E_FORMAT, "\"num_experts_per_tok\" is 9"},
    {V3 ",\"n_group\":3,\"topk_group\":1}", MICA_E_FORMAT,
     "2 of 8 experts cannot be chosen from 1 of 3 groups"},
    {V3 ",\"topk_method\":\"greedy\",\"n_group\":2,\"topk_group\":1}", MICA_E_UNSUPPORTED,
     "\"topk_method\": \"greedy\" is not supported for deepseek_v3"},
    /* encoders */
    {OF("bert") ",\"position_embedding_type\":\"relative_key\"}", MICA_E_UNSUPPORTED,
     "\"position_embedding_type\": \"relative_key\" is not supported for bert; only \"absolute\""},
    {OF("bert") ",\"is_decoder\":true}", MICA_E_UNSUPPORTED,
     "\"is_decoder\": true is not supported for bert, which is run as an encoder"},
    {OF("bert") ",\"add_cross_attention\":true}", MICA_E_UNSUPPORTED,
     "\"add_cross_attention\": true is not supported for bert"},
    {OF("xlm-roberta") ",\"pad_token_id\":255}", MICA_E_FORMAT,
     "\"max_position_embeddings\" leaves no position after \"pad_token_id\" 255"},
    {OF("xlm-roberta") ",\"architectures\":[\"BertModel\"]}", MICA_E_UNSUPPORTED,
     "\"architectures\": \"BertModel\" is no class of \"xlm-roberta\" (those begin with: Roberta "
     "XLMRoberta Camembert)"},
    {OF("bert") ",\"architectures\":[\"DistilBertModel\"]}", MICA_E_UNSUPPORTED,
     "\"DistilBertModel\" is no class of \"bert\""},
    /* wrappers */
    {"{\"model_type\":\"gemma4\",\"text_config\":{\"model_type\":\"llama\"}}", MICA_E_UNSUPPORTED,
     "text_config has model_type \"llama\"; a \"gemma4\" holds a \"gemma4_text\""},
    {"{\"model_type\":\"gemma3n\",\"text_config\":{\"model_type\":\"gemma3n_x\"}}",
     MICA_E_UNSUPPORTED,
     "text_config has model_type \"gemma3n_x\"; a \"gemma3n\" holds a \"gemma3n_text\""},
    {"{\"model_type\":\"diffusion_gemma\",\"text_config\":{\"model_type\":\"gemma4_text\"}}",
     MICA_E_UNSUPPORTED, "a \"diffusion_gemma\" holds a \"diffusion_gemma\""},
    {"{\"model_type\":\"gemma3\",\"text_config\":{\"model_type\":\"gemma2\"}}", MICA_E_UNSUPPORTED,
     "a \"gemma3\" holds a \"gemma3_text\""},
    {"{\"model_type\":\"gemma4\",\"text_config\":{\"model_type\":7}}", MICA_E_FORMAT,
     "\"model_type\""},
    {"{\"model_type\":\"diffusion_gemma\",\"rms_norm_eps\":0}", MICA_E_FORMAT,
     "\"rms_norm_eps\" must be above 0"},
    {OF("llama4_text") ",\"num_local_experts\":2,\"num_experts_per_tok\":1,"
                       "\"scoring_func\":\"softmax\"}",
     MICA_E_UNSUPPORTED, "\"scoring_func\": \"softmax\" is not supported for llama4_text"},
    /* sizes and types */
    {OF("llama") ",\"head_dim\":-2}", MICA_E_FORMAT, "\"head_dim\" is -2"},
    {OF("llama") ",\"tie_word_embeddings\":\"no\"}", MICA_E_FORMAT,
     "\"tie_word_embeddings\" must be true or false"},
    {"{\"model_type\":\"t5\"}", MICA_E_UNSUPPORTED, "unsupported model_type \"t5\""},
};

static void test_documents(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof(documents) / sizeof(*documents); i++) {
        const refusal *d = &documents[i];
        mica_arena arena;
        json_value *config = NULL;
        const arch *a = NULL;
        model_kind kind;
        model_config out;
        config_facts facts;
        mica_error err = {0};
        mica_arena_init(&arena, 0);
        if (mica_json_parse(&config, d->text, strlen(d->text), "test", true, &arena, &err))
            fail_msg("%s in %s", err.message, d->text);
        mica_status st = mica_dispatch_kind(&kind, config, "DIR", &err);
        if (!st) st = mica_dispatch_folder(&a, &kind, "DIR", &err);
        const config_source source = {config, NULL, "DIR"};
        if (!st) st = mica_config_read(&source, &kind, a, &arena, &out, &facts, &err);
        if (st != d->status || !strstr(err.message, d->part))
            fail_msg("expected '%s', found status %d '%s' for %s", d->part, (int)st,
                     st ? err.message : "", d->text);
        mica_arena_deinit(&arena);
    }
}

/* ---- files of embedding models ---- */

/* A name and a text; a folder's has a slash. */
typedef struct side_file {
    const char *name, *text;
} side_file;

#define TRANSFORMER "{\"type\":\"sentence_transformers.models.Transformer\",\"path\":\"\"}"
#define POOLING "{\"type\":\"sentence_transformers.models.Pooling\",\"path\":\"1_Pooling\"}"
#define MODULE(type) "{\"type\":\"sentence_transformers.models." type "\",\"path\":\"2_X\"}"
#define MODULES(list) \
    { "modules.json", "[" list "]" }
#define POOL(text) \
    { "1_Pooling/config.json", text }
#define MEAN POOL("{\"pooling_mode_mean_tokens\":true}")

static const struct {
    side_file files[4];
    mica_status status;
    const char *part; /* of the message; MICA_OK: NULL */
} folders[] = {
    {{MODULES(TRANSFORMER "," POOLING "," MODULE("Dense")), MEAN},
     MICA_E_UNSUPPORTED,
     "unsupported module \"Dense\""},
    {{MODULES("{\"type\":\"sentence_transformers.models.WordEmbeddings\"}," POOLING), MEAN},
     MICA_E_UNSUPPORTED,
     "the first module must be Transformer; found \"WordEmbeddings\""},
    {{MODULES(TRANSFORMER "," MODULE("Normalize"))},
     MICA_E_UNSUPPORTED,
     "the order must be Transformer, one Pooling, then perhaps Normalize; out of place is "
     "\"Normalize\""},
    {{MODULES(TRANSFORMER "," POOLING "," POOLING), MEAN},
     MICA_E_UNSUPPORTED,
     "out of place is \"Pooling\""},
    {{MODULES(TRANSFORMER)}, MICA_E_FORMAT, "expected a list of at least two modules"},
    {{{"modules.json", "{}"}}, MICA_E_FORMAT, "expected a list of at least two modules"},
    {{MODULES(TRANSFORMER "," POOLING)},
     MICA_E_NOT_FOUND,
     "1_Pooling/config.json: modules.json names it, but there is no such file"},
    {{MODULES("{\"type\":\"a.Transformer\",\"path\":\"0_Transformer\"}," POOLING), MEAN},
     MICA_E_UNSUPPORTED,
     "it is in the subfolder \"0_Transformer\""},
    {{MODULES(TRANSFORMER ",{\"type\":\"a.Pooling\",\"path\":\"../x\"}")},
     MICA_E_FORMAT,
     "a path leads out of the folder: \"../x\""},
    {{POOL("{\"pooling_mode_mean_tokens\":true,\"pooling_mode_cls_token\":true}")},
     MICA_E_UNSUPPORTED,
     "several poolings at once"},
    {{MEAN, {"config_sentence_transformers.json", "{\"model_type\":\"SparseEncoder\"}"}},
     MICA_E_UNSUPPORTED,
     "unsupported model_type \"SparseEncoder\""},
    {{MEAN, {"sentence_bert_config.json", "{\"transformer_task\":\"fill-mask\"}"}},
     MICA_E_UNSUPPORTED,
     "unsupported transformer_task \"fill-mask\""},
    {{MEAN,
      {"sentence_bert_config.json",
       "{\"modality_config\":{\"text\":{\"method_output_name\":\"pooler_output\"}}}"}},
     MICA_E_UNSUPPORTED,
     "unsupported method_output_name \"pooler_output\""},
    {{POOL("{\"pooling_mode\":\"median\"}")},
     MICA_E_UNSUPPORTED,
     "unsupported pooling_mode \"median\""},
    {{MEAN, {"sentence_bert_config.json", "{\"do_lower_case\":true}"}},
     MICA_E_UNSUPPORTED,
     "\"do_lower_case\": true is not supported"},
    {{MEAN, {"sentence_bert_config.json", "{\"max_seq_length\":-1}"}},
     MICA_E_FORMAT,
     "\"max_seq_length\" must be a number above 0"},
    {{MEAN, {"sentence_bert_config.json", "{\"max_seq_length\":0}"}},
     MICA_E_FORMAT,
     "\"max_seq_length\" must be a number above 0"},
    {{MEAN, {"sentence_bert_config.json", "{\"do_lower_case\":\"false\"}"}},
     MICA_E_FORMAT,
     "\"do_lower_case\" must be true or false"},
    {{POOL("{}")},
     MICA_E_FORMAT,
     "1_Pooling/config.json: it must be an object that says how to pool"},
    {{POOL("[]")}, MICA_E_FORMAT, "it must be an object that says how to pool"},
    {{POOL("{\"pooling_mode_cls_token\":\"false\"}")},
     MICA_E_FORMAT,
     "\"pooling_mode_cls_token\" must be true or false"},
    {{POOL("{\"pooling_mode\":\"cls\",\"include_prompt\":\"no\"}")},
     MICA_E_FORMAT,
     "\"include_prompt\" must be true or false"},
    {{POOL("{\"pooling_mode\":\"cls\",\"word_embedding_dimension\":65}")},
     MICA_E_FORMAT,
     "\"word_embedding_dimension\" is not 64, the width of the model's hidden states"},
    {{MEAN, {"config_sentence_transformers.json", "{\"truncate_dim\":4}"}},
     MICA_E_UNSUPPORTED,
     "\"truncate_dim\" is not supported"},
    {{MEAN, {"config_sentence_transformers.json", "{\"prompts\":[\"a\"]}"}},
     MICA_E_FORMAT,
     "\"prompts\" must be an object"},
    {{MEAN, {"config_sentence_transformers.json", "{\"prompts\":{\"a\":1}}"}},
     MICA_E_FORMAT,
     "no text for the prompt \"a\""},
    {{MEAN, {"config_sentence_transformers.json", "{\"default_prompt_name\":\"q\"}"}},
     MICA_E_FORMAT,
     "default_prompt_name is no prompt: \"q\""},
    {{MODULES(TRANSFORMER "," POOLING "," MODULE("Normalize")),
      POOL("{\"pooling_mode\":\"cls\",\"include_prompt\":false}"),
      {"config_sentence_transformers.json", "{\"prompts\":{\"q\":\"Q: \"}}"},
      {"sentence_bert_config.json", "{\"max_seq_length\":32}"}},
     MICA_OK,
     NULL},
    {{{NULL, NULL}}, MICA_OK, NULL},
};

static void write_files(scratch *s, const side_file files[4]) {
    static const char *const all[] = {"modules.json", "1_Pooling/config.json",
                                      "sentence_bert_config.json",
                                      "config_sentence_transformers.json"};
    char path[2048];
    for (size_t i = 0; i < 4; i++)
        remove_file(s, all[i]);
    snprintf(path, sizeof(path), "%s/1_Pooling", s->folder);
    mkdir(path, 0700);
    for (size_t i = 0; i < 4 && files[i].name; i++)
        write_text(s, files[i].name, files[i].text);
}

static void test_embedding_files(void **state) {
    (void)state;
    scratch dir = {0}, *s = &dir;
    make_scratch(s);
    char target[2048];
    snprintf(target, sizeof(target), "%s/tiny/llama-plain/model.safetensors", GOLDEN_DIR);
    assert_int_equal(symlink(target, scratch_path(s, "model.safetensors")), 0);
    write_text(s, "config.json",
               "{\"model_type\":\"llama\",\"hidden_size\":64,\"num_attention_heads\":4,"
               "\"num_hidden_layers\":1,\"intermediate_size\":96,\"vocab_size\":160,"
               "\"rms_norm_eps\":0.01,\"max_position_embeddings\":256}");
    for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++) {
        model *m = NULL;
        mica_arena arena;
        embedding_config c;
        mica_error err = {0};
        write_files(s, folders[i].files);
        mica_arena_init(&arena, 0);
        if (mica_model_load(&m, s->folder, NULL, &err)) fail_msg("%s", err.message);
        mica_status st = mica_model_embedding(m, &arena, &c, &err);
        if (st != folders[i].status || (st && !strstr(err.message, folders[i].part)))
            fail_msg("row %zu: expected '%s', found status %d '%s'", i,
                     folders[i].part ? folders[i].part : "no error", (int)st,
                     st ? err.message : "");
        if (!st) {
            bool is_declared = folders[i].files[0].name != NULL;
            assert_int_equal(c.is_declared, is_declared);
            assert_int_equal(c.pooling, is_declared ? POOLING_CLS : POOLING_LAST);
            assert_true(c.normalizes);
            assert_int_equal(c.excludes_prompt, is_declared);
            assert_int_equal(c.max_tokens, is_declared ? 32 : 0);
            assert_int_equal(c.n_prompts, is_declared);
            if (is_declared) assert_string_equal(mica_embedding_prompt(&c, "q"), "Q: ");
            assert_null(mica_embedding_prompt(&c, "x"));
        }
        mica_model_close(m);
        mica_arena_deinit(&arena);
    }
    write_files(s, (side_file[4]){{NULL, NULL}});
    char path[2048];
    snprintf(path, sizeof(path), "%s/1_Pooling", s->folder);
    rmdir(path);
    static const char *const names[] = {"config.json", "model.safetensors"};
    remove_scratch(s, names, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_documents),
        cmocka_unit_test(test_embedding_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
