/* test_model_config.c: from config.json and GGUF metadata to normalized fields, as tables of small
 * documents: what each spelling means, which values are refused, and with which words.
 */
#include "cmocka_base.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "model/config.h"

/* The keys that every document needs; a test adds its own before the closing brace. */
#define SIZES                                                                \
    "\"hidden_size\":64,\"num_hidden_layers\":4,\"num_attention_heads\":4,"  \
    "\"num_key_value_heads\":2,\"intermediate_size\":96,\"vocab_size\":160," \
    "\"rms_norm_eps\":1e-5,\"max_position_embeddings\":256"
#define LLAMA "{\"model_type\":\"llama\"," SIZES
#define MISTRAL "{\"model_type\":\"mistral\"," SIZES
#define QWEN2 "{\"model_type\":\"qwen2\"," SIZES
#define QWEN3 "{\"model_type\":\"qwen3\",\"head_dim\":32," SIZES
#define DOTS1                                           \
    "{\"model_type\":\"dots1\",\"n_routed_experts\":8," \
    "\"num_experts_per_tok\":2,\"moe_intermediate_size\":32," SIZES
#define EXAONE4 "{\"model_type\":\"exaone4\"," SIZES
#define GEMMA2 "{\"model_type\":\"gemma2\",\"head_dim\":32," SIZES
#define GEMMA3 "{\"model_type\":\"gemma3_text\",\"head_dim\":32," SIZES

typedef struct reading {
    mica_arena arena;
    model_kind kind;
    model_config config;
    config_facts facts;
    mica_error err;
} reading;

static mica_status read_with(reading *r, const char *text, const char *generation) {
    json_value *config = NULL, *more = NULL;
    const arch *a = NULL;
    mica_status st;
    *r = (reading){0};
    mica_arena_init(&r->arena, 0);
    if (mica_json_parse(&config, text, strlen(text), "test", true, &r->arena, &r->err))
        fail_msg("%s in %s", r->err.message, text);
    if (generation)
        assert_int_equal(mica_json_parse(&more, generation, strlen(generation), "test", true,
                                         &r->arena, &r->err),
                         MICA_OK);
    if ((st = mica_dispatch_kind(&r->kind, config, "DIR", &r->err))) return st;
    if ((st = mica_dispatch_folder(&a, &r->kind, "DIR", &r->err))) return st;
    config_source source = {config, more, "DIR"};
    return mica_config_read(&source, &r->kind, a, &r->arena, &r->config, &r->facts, &r->err);
}

static model_config *read_ok(reading *r, const char *text) {
    if (read_with(r, text, NULL)) fail_msg("%s in %s", r->err.message, text);
    return &r->config;
}

static void done(reading *r) { mica_arena_deinit(&r->arena); }

static void expect_bad(const char *text, mica_status status, const char *part) {
    reading r;
    mica_status st = read_with(&r, text, NULL);
    if (st != status || !strstr(r.err.message, part))
        fail_msg("expected '%s', found status %d '%s' for %s", part, (int)st,
                 st ? r.err.message : "", text);
    done(&r);
}

static void test_sizes(void **state) {
    (void)state;
    reading r;
    model_config *c = read_ok(&r, LLAMA "}");
    assert_string_equal(c->model_type, "llama");
    assert_string_equal(c->arch, "llama");
    assert_int_equal(c->n_layers, 4);
    assert_int_equal(c->hidden_size, 64);
    assert_int_equal(c->intermediate_size, 96);
    assert_int_equal(c->vocab_size, 160);
    assert_int_equal(c->n_heads, 4);
    assert_int_equal(c->n_kv_heads, 2);
    assert_int_equal(c->head_dim, 16);
    assert_int_equal(c->max_positions, 256);
    assert_true(c->rms_norm_eps == 1e-5f);
    assert_int_equal(c->bos_id, -1);
    done(&r);
    c = read_ok(&r, LLAMA ",\"head_dim\":32}");
    assert_int_equal(c->head_dim, 32);
    done(&r);
    c = read_ok(&r, LLAMA ",\"head_dim\":0}"); /* counts as absent */
    assert_int_equal(c->head_dim, 16);
    done(&r);
    c = read_ok(&r, LLAMA ",\"head_dim\":null}");
    assert_int_equal(c->head_dim, 16);
    done(&r);
    c = read_ok(&r, "{\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":1,"
                    "\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":160,"
                    "\"rms_norm_eps\":1e-5}");
    assert_int_equal(c->n_kv_heads, 4); /* as many as there are heads */
    done(&r);
}

static void test_bad_sizes(void **state) {
    (void)state;
    expect_bad("{\"model_type\":\"llama\"}", MICA_E_FORMAT, "has no \"hidden_size\"");
    expect_bad("{\"hidden_size\":64}", MICA_E_FORMAT, "no \"model_type\"");
    expect_bad("{\"model_type\":\"llama\",\"hidden_size\":0}", MICA_E_FORMAT,
               "\"hidden_size\" is 0; expected a whole number from 1");
    expect_bad("{\"model_type\":\"llama\",\"hidden_size\":-4}", MICA_E_FORMAT, "is -4");
    expect_bad("{\"model_type\":\"llama\",\"hidden_size\":64.5}", MICA_E_FORMAT, "no whole number");
    expect_bad("{\"model_type\":\"llama\",\"hidden_size\":\"64\"}", MICA_E_FORMAT,
               "no whole number");
    expect_bad("{\"model_type\":\"llama\",\"hidden_size\":99999999999999}", MICA_E_FORMAT,
               "99999999999999");
    expect_bad("{\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":300,"
               "\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":160,"
               "\"rms_norm_eps\":1e-5}",
               MICA_E_UNSUPPORTED, "num_hidden_layers is 300; at most 256");
    expect_bad(LLAMA ",\"text_config\":3}", MICA_E_FORMAT, "text_config");
    expect_bad(LLAMA ",\"attention_bias\":\"yes\"}", MICA_E_FORMAT, "attention_bias");
    expect_bad("{\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":1,"
               "\"num_attention_heads\":4,\"intermediate_size\":96,\"vocab_size\":160}",
               MICA_E_FORMAT, "has no \"rms_norm_eps\"");
}

static void test_check(void **state) {
    (void)state;
    reading r;
    mica_error err;
    model_config c = *read_ok(&r, LLAMA "}");
    assert_int_equal(mica_config_check(&c, "DIR", &err), MICA_OK);
    c.n_kv_heads = 3;
    assert_int_equal(mica_config_check(&c, "DIR", &err), MICA_E_FORMAT);
    assert_non_null(strstr(err.message, "4 attention heads cannot share 3"));
    c.n_kv_heads = 2;
    c.head_dim = 15;
    assert_int_equal(mica_config_check(&c, "DIR", &err), MICA_E_FORMAT);
    c.head_dim = (int64_t)1 << 23;
    assert_int_equal(mica_config_check(&c, "DIR", &err), MICA_E_FORMAT);
    done(&r);
}

static void test_ties(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool tied, stated;
    } rows[] = {
        {LLAMA "}", true, false},
        {LLAMA ",\"tie_word_embeddings\":false}", false, true},
        {QWEN2 "}", true, false},
        {QWEN3 "}", false, false},
        {QWEN3 ",\"tie_word_embeddings\":true}", true, true},
        {GEMMA2 "}", true, false},
        {"{\"model_type\":\"mistral3\",\"text_config\":" MISTRAL "}}", false, false},
        {"{\"model_type\":\"mistral3\",\"tie_word_embeddings\":true,\"text_config\":" MISTRAL "}}",
         true, true},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        reading r;
        model_config *c = read_ok(&r, rows[i].text);
        if (c->tied != rows[i].tied || r.facts.has_tie != rows[i].stated) fail_msg("row %zu", i);
        done(&r);
    }
}

static void test_rope_spellings(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double theta;
        const char *type;
        double factor;
    } rows[] = {
        {LLAMA "}", 1e4, "default", 1},
        {LLAMA ",\"rope_theta\":5e5}", 5e5, "default", 1},
        {LLAMA ",\"rope_theta\":5e5,\"rope_scaling\":null}", 5e5, "default", 1},
        {LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}}", 1e4, "linear", 2},
        {LLAMA ",\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":2}}", 1e4, "linear", 2},
        {LLAMA ",\"rope_scaling\":{\"type\":\"\",\"rope_type\":\"linear\",\"factor\":2}}", 1e4,
         "linear", 2},
        {LLAMA ",\"rope_scaling\":{\"type\":\"yarn\",\"rope_type\":\"linear\",\"factor\":2}}", 1e4,
         "yarn", 2},
        {LLAMA ",\"rope_scaling\":{\"factor\":2}}", 1e4, "default", 2},
        {LLAMA ",\"rope_parameters\":{\"rope_theta\":5e5,\"rope_type\":\"default\"}}", 5e5,
         "default", 1},
        {LLAMA ",\"rope_parameters\":{\"rope_theta\":5e5,\"rope_type\":\"linear\",\"factor\":4}}",
         5e5, "linear", 4},
        {LLAMA ",\"rope_theta\":3e4,\"rope_parameters\":{\"rope_theta\":5e5}}", 3e4, "default", 1},
        {LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2},"
               "\"rope_parameters\":{\"rope_theta\":5e5,\"rope_type\":\"yarn\",\"factor\":4}}",
         5e5, "linear", 2},
        {LLAMA ",\"rope_parameters\":{\"full_attention\":{\"rope_theta\":5e5,\"rope_type\":"
               "\"linear\",\"factor\":4},\"sliding_attention\":{\"rope_theta\":1e3}}}",
         5e5, "linear", 4},
        {QWEN2 "}", 1e6, "default", 1},
        {QWEN3 ",\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4}}", 1e6, "yarn", 4},
        {GEMMA3 ",\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":8}}", 1e6, "linear", 8},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        reading r;
        const rope_config *rope = &read_ok(&r, rows[i].text)->rope[0];
        if (rope->theta != rows[i].theta || strcmp(rope->type, rows[i].type) != 0 ||
            rope->factor != rows[i].factor)
            fail_msg("row %zu: theta %g, type %s, factor %g", i, rope->theta, rope->type,
                     rope->factor);
        done(&r);
    }
}

/* As in Transformers: beside the dict, else in it, else the model's own length. */
static void test_original_length(reading *r) {
    static const struct {
        const char *text;
        int64_t original;
        double attention_factor;
    } cases[] = {
        {",\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4}}", 256,
         0.1 * 1.3862943611198906 + 1},
        {",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":4,\"low_freq_factor\":1,"
         "\"high_freq_factor\":4}}",
         256, -1},
        {",\"original_max_position_embeddings\":64,\"rope_scaling\":{\"rope_type\":\"yarn\","
         "\"factor\":4,\"original_max_position_embeddings\":32,\"mscale\":0.5}}",
         64, 0.1 * 1.3862943611198906 + 1},
        {",\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4,\"mscale\":0.5,"
         "\"mscale_all_dim\":0.7}}",
         256, -1},
        {",\"rope_scaling\":{\"rope_type\":\"longrope\",\"factor\":4,\"long_factor\":2,"
         "\"short_factor\":1,\"original_max_position_embeddings\":16}}",
         16, 1.224744871391589},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char text[1024];
        snprintf(text, sizeof(text), "%s%s", LLAMA, cases[i].text);
        const rope_config *rope = read_ok(r, text)->rope;
        assert_int_equal(rope->original_max_positions, cases[i].original);
        assert_true(fabs(rope->attention_factor - cases[i].attention_factor) < 1e-12);
        done(r);
    }
}

static void test_rope_fields(void **state) {
    (void)state;
    reading r;
    rope_config *rope =
        read_ok(&r, LLAMA ",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,"
                          "\"low_freq_factor\":2,\"high_freq_factor\":6,"
                          "\"original_max_position_embeddings\":512}}")
            ->rope;
    assert_true(rope->low_freq_factor == 2 && rope->high_freq_factor == 6);
    assert_int_equal(rope->original_max_positions, 512);
    done(&r);
    rope = read_ok(&r, LLAMA ",\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":8,"
                             "\"beta_fast\":16,\"beta_slow\":2,\"mscale\":0.5,"
                             "\"mscale_all_dim\":0.25,\"attention_factor\":1.5,"
                             "\"truncate\":false}}")
               ->rope;
    assert_true(rope->beta_fast == 16 && rope->beta_slow == 2 && rope->mscale == 0.5);
    assert_true(rope->mscale_all_dim == 0.25 && rope->attention_factor == 1.5 && !rope->truncate);
    done(&r);
    model_config *c;
    test_original_length(&r);
    c = read_ok(&r, LLAMA ",\"rope_traditional\":true,\"original_max_position_embeddings\":32,"
                          "\"rope_scaling\":{\"type\":\"longrope\",\"long_factor\":[1,2,3,4,5,6,7,"
                          "8],\"short_factor\":[1,1,1,1,1,1,1,1]}}");
    assert_int_equal(c->rope[0].n_factors, 8);
    assert_int_equal(c->rope[0].original_max_positions, 32);
    assert_true(c->rope[0].long_factor[7] == 8.0f);
    assert_false(c->rope_traditional); /* longrope excludes it */
    done(&r);
    c = read_ok(&r, LLAMA ",\"rope_traditional\":true}");
    assert_true(c->rope_traditional);
    done(&r);
    c = read_ok(&r, QWEN3 ",\"rope_traditional\":true}"); /* a key this family does not have */
    assert_false(c->rope_traditional);
    done(&r);
}

static void test_bad_ropes(void **state) {
    (void)state;
    expect_bad(LLAMA ",\"rope_scaling\":{\"type\":\"linear\"}}", MICA_E_FORMAT,
               "rope type \"linear\" needs a \"factor\"");
    expect_bad(LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":0}}", MICA_E_FORMAT,
               "factor");
    expect_bad(LLAMA ",\"rope_scaling\":3}", MICA_E_FORMAT, "\"rope_scaling\" must be an object");
    expect_bad(LLAMA ",\"rope_parameters\":3}", MICA_E_FORMAT, "rope_parameters");
    expect_bad(LLAMA ",\"rope_parameters\":{\"sliding_attention\":{\"rope_theta\":1e3}}}",
               MICA_E_FORMAT, "no full_attention");
    expect_bad(LLAMA ",\"rope_theta\":0}", MICA_E_FORMAT, "rope_theta");
    expect_bad(LLAMA ",\"rope_theta\":{\"__float__\":\"Infinity\"}}", MICA_E_FORMAT, "rope_theta");
    expect_bad(LLAMA ",\"partial_rotary_factor\":0.5}", MICA_E_UNSUPPORTED,
               "\"partial_rotary_factor\": 0.5 is not supported for llama");
    expect_bad(LLAMA ",\"rope_parameters\":{\"rope_theta\":1e4,\"partial_rotary_factor\":0.5}}",
               MICA_E_UNSUPPORTED, "partial_rotary_factor");
    expect_bad(LLAMA ",\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":1,\"alpha\":1000}}",
               MICA_E_UNSUPPORTED, "\"alpha\": 1000");
    expect_bad(LLAMA ",\"rope_scaling\":{\"type\":\"mrope\",\"mrope_section\":[1,2]}}",
               MICA_E_FORMAT, "mrope_section");
    expect_bad(LLAMA ",\"rope_scaling\":{\"type\":\"longrope\",\"long_factor\":[1,2]}}",
               MICA_E_FORMAT, "short_factor");
    expect_bad(LLAMA ",\"rope_scaling\":{\"type\":\"longrope\",\"long_factor\":[1,2],"
                     "\"short_factor\":[1,2]}}",
               MICA_E_FORMAT, "original_max_position_embeddings");
    expect_bad(LLAMA ",\"rope_scaling\":{\"type\":\"su\",\"long_factor\":[1,0],"
                     "\"short_factor\":[1,2]}}",
               MICA_E_FORMAT, "not above 0");
    expect_bad(GEMMA3 ",\"rope_parameters\":{\"full_attention\":{\"rope_theta\":1e6},"
                      "\"sliding_attention\":{\"rope_theta\":1e3,\"rope_type\":\"linear\","
                      "\"factor\":2}}}",
               MICA_E_UNSUPPORTED, "\"linear\" of sliding layers");
}

/* Windows of the four layers as a string: '.' full, 'o' full without rope, 'w' sliding with a rope
 * of its own, 's' without. */
/* What an absent key means, where families of one kind differ. */
static void test_absent_keys(void **state) {
    (void)state;
#define ROUTED \
    SIZES ",\"num_experts_per_tok\":2,\"moe_intermediate_size\":32,\"n_routed_experts\":8"
#define LATENT                                                                 \
    ROUTED ",\"kv_lora_rank\":16,\"q_lora_rank\":null,\"qk_rope_head_dim\":8," \
           "\"qk_nope_head_dim\":16,\"v_head_dim\":16"
    static const struct {
        const char *text;
        double theta, partial;
        bool normalize;
    } rows[] = {
        {"{\"model_type\":\"glm\"," SIZES "}", 1e4, 0.5, false},
        {"{\"model_type\":\"glm4\",\"rope_theta\":1e4," SIZES "}", 1e4, 0.5, false},
        {"{\"model_type\":\"nemotron\",\"norm_eps\":1e-5," SIZES "}", 1e4, 0.5, false},
        {"{\"model_type\":\"exaone\",\"num_layers\":4,\"layer_norm_epsilon\":1e-5," SIZES "}", 5e5,
         1.0, false},
        {"{\"model_type\":\"deepseek_v3\"," LATENT "}", 1e4, 1.0, true},
        {"{\"model_type\":\"glm4_moe\"," ROUTED "}", 1e4, 0.5, true},
        {"{\"model_type\":\"dots1\"," ROUTED "}", 1e4, 1.0, false},
        {"{\"model_type\":\"qwen3_moe\"," ROUTED "}", 1e6, 1.0, false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        reading r;
        const model_config *c = read_ok(&r, rows[i].text);
        if (c->rope[0].theta != rows[i].theta ||
            c->rope[0].partial_rotary_factor != rows[i].partial ||
            c->moe.normalize != rows[i].normalize)
            fail_msg("row %zu: theta %g, partial %g, normalize %d", i, c->rope[0].theta,
                     c->rope[0].partial_rotary_factor, c->moe.normalize);
        done(&r);
    }
}

static void windows_text(const model_config *c, char *out) {
    for (int64_t i = 0; i < c->n_layers; i++) {
        char full = c->rope_of_layer[i] == MODEL_NO_ROPE ? 'o' : '.';
        out[i] = !c->window[i] ? full : c->rope_of_layer[i] ? 'w' : 's';
    }
    out[c->n_layers] = '\0';
}

static void test_windows(void **state) {
    (void)state;
#define TYPES                                                                           \
    ",\"layer_types\":[\"full_attention\",\"sliding_attention\",\"sliding_attention\"," \
    "\"full_attention\"]"
    static const struct {
        const char *text, *layers;
        int32_t window;
    } rows[] = {
        {LLAMA "}", "....", 0},
        {LLAMA ",\"sliding_window\":8}", "....", 0},
        {LLAMA ",\"sliding_window\":8" TYPES "}", ".ss.", 8},
        {MISTRAL ",\"sliding_window\":8}", "ssss", 8},
        {MISTRAL "}", "ssss", 4096},
        {MISTRAL ",\"sliding_window\":null}", "....", 0},
        {DOTS1 "}", "....", 4096},
        {DOTS1 ",\"max_window_layers\":2}", "..ss", 4096},
        {DOTS1 ",\"max_window_layers\":2,\"sliding_window\":null}", "....", 0},
        {EXAONE4 "}", "ssso", 4096},
        {EXAONE4 ",\"sliding_window\":null}", "....", 0},
        {EXAONE4 ",\"sliding_window\":8,\"sliding_window_pattern\":\"LG\"}", "soso", 8},
        {EXAONE4 ",\"sliding_window\":8,\"sliding_window_pattern\":null}", "....", 0},
        {EXAONE4 ",\"sliding_window\":null,\"sliding_window_pattern\":0}", "....", 0},
        {EXAONE4 ",\"sliding_window\":8,\"sliding_window_pattern\":0" TYPES "}", "osso", 8},
        {QWEN2 ",\"sliding_window\":null,\"use_sliding_window\":true,\"max_window_layers\":0}",
         "....", 0},
        {MISTRAL ",\"sliding_window\":0}", "....", 0},
        {MISTRAL ",\"sliding_window\":8" TYPES "}", ".ss.", 8},
        {QWEN2 ",\"sliding_window\":8}", "....", 0},
        {QWEN2 ",\"sliding_window\":8,\"use_sliding_window\":true,\"max_window_layers\":2}", "..ss",
         8},
        {QWEN2 ",\"sliding_window\":8,\"use_sliding_window\":true}", "....", 0},
        {QWEN3 ",\"sliding_window\":8,\"use_sliding_window\":true,\"max_window_layers\":3}", "...s",
         8},
        {QWEN3 ",\"sliding_window\":8,\"use_sliding_window\":false" TYPES "}", ".ss.", 8},
        {GEMMA2 "}", "s.s.", 4096},
        {GEMMA2 ",\"sliding_window\":8}", "s.s.", 8},
        {GEMMA2 ",\"sliding_window\":8" TYPES "}", ".ss.", 8},
        {GEMMA3 "}", "wwww", 512},
        {GEMMA3 ",\"sliding_window_pattern\":3,\"sliding_window\":8}", "ww.w", 8},
        {GEMMA3 ",\"_sliding_window_pattern\":2}", "w.w.", 512},
        {GEMMA3 ",\"sliding_window_pattern\":3,\"sliding_window\":0}", "....", 0},
        {GEMMA3 ",\"sliding_window_pattern\":1,\"sliding_window\":8" TYPES "}", ".ww.", 8},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        reading r;
        char layers[8];
        const model_config *c = read_ok(&r, rows[i].text);
        windows_text(c, layers);
        if (strcmp(layers, rows[i].layers) != 0) fail_msg("row %zu: layers %s", i, layers);
        for (int k = 0; k < 4; k++)
            if (c->window[k] && c->window[k] != rows[i].window) fail_msg("row %zu", i);
        done(&r);
    }
    expect_bad(LLAMA TYPES "}", MICA_E_FORMAT, "\"sliding_window\" is missing or 0");
    expect_bad(LLAMA ",\"layer_types\":[\"full_attention\"]}", MICA_E_FORMAT,
               "layer_types has 1 entries");
    expect_bad(LLAMA ",\"layer_types\":[\"full_attention\",\"full_attention\",\"full_attention\","
                     "\"chunked_attention\"]}",
               MICA_E_UNSUPPORTED, "layer_types[3] is \"chunked_attention\"");
    expect_bad(LLAMA ",\"layer_types\":[1,2,3,4]}", MICA_E_UNSUPPORTED, "no string");
}

static void test_gemma(void **state) {
    (void)state;
    reading r;
    model_config *c = read_ok(&r, GEMMA2 "}");
    assert_true(c->attention_softcap == 50.0f && c->final_softcap == 30.0f);
    assert_true(r.facts.query_scalar == 144.0);
    done(&r);
    c = read_ok(&r, GEMMA2 ",\"attn_logit_softcapping\":5,\"final_logit_softcapping\":8,"
                           "\"query_pre_attn_scalar\":24}");
    assert_true(c->attention_softcap == 5.0f && c->final_softcap == 8.0f);
    assert_true(r.facts.query_scalar == 24.0);
    done(&r);
    c = read_ok(&r, GEMMA2 ",\"attn_logit_softcapping\":null,\"final_logit_softcapping\":null}");
    assert_true(c->attention_softcap == 0.0f && c->final_softcap == 0.0f);
    done(&r);
    c = read_ok(&r, GEMMA3 "}");
    assert_true(c->attention_softcap == 0.0f && c->final_softcap == 0.0f);
    assert_int_equal(c->n_ropes, 2);
    assert_true(c->rope[0].theta == 1e6 && c->rope[1].theta == 1e4);
    assert_true(r.facts.query_scalar == 256.0);
    done(&r);
    c = read_ok(&r, GEMMA3 ",\"rope_local_base_freq\":1e3}");
    assert_true(c->rope[1].theta == 1e3);
    done(&r);
    c = read_ok(&r, GEMMA3 ",\"rope_parameters\":{\"full_attention\":{\"rope_theta\":2e6,"
                           "\"rope_type\":\"linear\",\"factor\":8},\"sliding_attention\":"
                           "{\"rope_theta\":3e3,\"rope_type\":\"default\"}}}");
    assert_true(c->rope[0].theta == 2e6 && c->rope[1].theta == 3e3);
    assert_string_equal(c->rope[0].type, "linear");
    assert_string_equal(c->rope[1].type, "default");
    done(&r);
}

/* A published wrapper states only what differs from the class's defaults. */
static void test_wrappers(void **state) {
    (void)state;
    reading r;
    model_config *c =
        read_ok(&r, "{\"model_type\":\"gemma3\",\"vocab_size\":262208,\"eos_token_id\":[1,106],"
                    "\"text_config\":{\"hidden_size\":2560,\"intermediate_size\":10240,"
                    "\"num_hidden_layers\":34,\"model_type\":\"gemma3_text\","
                    "\"rope_scaling\":{\"factor\":8.0,\"rope_type\":\"linear\"},"
                    "\"sliding_window\":1024},\"vision_config\":{\"hidden_size\":1152}}");
    assert_string_equal(c->model_type, "gemma3");
    assert_string_equal(c->arch, "gemma3_text");
    assert_int_equal(c->n_heads, 8);
    assert_int_equal(c->n_kv_heads, 4);
    assert_int_equal(c->head_dim, 256);
    assert_int_equal(c->n_layers, 34);
    assert_int_equal(c->window[0], 1024);
    assert_int_equal(c->window[5], 0);
    assert_int_equal(c->n_eos, 2);
    assert_false(r.facts.has_vocab_size);
    done(&r);
    c = read_ok(&r, "{\"model_type\":\"gemma3_text\"}");
    assert_int_equal(c->n_heads, 4);
    assert_int_equal(c->n_kv_heads, 1);
    assert_int_equal(c->hidden_size, 1152);
    assert_int_equal(c->n_layers, 26);
    assert_true(c->rms_norm_eps == 1e-6f);
    done(&r);
    c = read_ok(&r,
                "{\"model_type\":\"mistral3\",\"text_config\":" MISTRAL ",\"sliding_window\":8}}");
    assert_string_equal(c->arch, "mistral");
    assert_int_equal(c->window[3], 8);
    done(&r);
}

static void test_end_tokens(void **state) {
    (void)state;
    reading r;
    assert_int_equal(read_with(&r,
                               "{\"model_type\":\"gemma3\",\"eos_token_id\":1,\"bos_token_id\":2,"
                               "\"text_config\":{\"eos_token_id\":[1,106]}}",
                               "{\"eos_token_id\":[106,50,107]}"),
                     MICA_OK);
    assert_int_equal(r.config.n_eos, 4);
    static const int32_t expected[] = {1, 106, 50, 107};
    assert_memory_equal(r.config.eos_ids, expected, sizeof(expected));
    assert_int_equal(r.config.bos_id, 2);
    done(&r);
    /* id 0 counts; a malformed generation_config does not */
    assert_int_equal(read_with(&r, LLAMA ",\"eos_token_id\":0}", "{\"eos_token_id\":\"x\"}"),
                     MICA_OK);
    assert_int_equal(r.config.n_eos, 1);
    assert_int_equal(r.config.eos_ids[0], 0);
    done(&r);
    expect_bad(LLAMA ",\"eos_token_id\":\"x\"}", MICA_E_FORMAT, "eos_token_id");
}

static void test_refused(void **state) {
    (void)state;
    expect_bad(LLAMA ",\"attn_logit_softcapping\":50}", MICA_E_UNSUPPORTED,
               "\"attn_logit_softcapping\": 50 is not supported for llama");
    expect_bad(QWEN3 ",\"final_logit_softcapping\":30}", MICA_E_UNSUPPORTED,
               "final_logit_softcapping");
    expect_bad(LLAMA ",\"residual_multiplier\":0.22}", MICA_E_UNSUPPORTED, "0.22");
    expect_bad(LLAMA ",\"num_local_experts\":8}", MICA_E_UNSUPPORTED, "\"num_local_experts\": 8");
    expect_bad(LLAMA ",\"use_parallel_residual\":true}", MICA_E_UNSUPPORTED, "true");
    expect_bad(LLAMA ",\"use_qk_norm\":true}", MICA_E_UNSUPPORTED, "use_qk_norm");
    expect_bad(QWEN3 ",\"use_qk_norm\":false}", MICA_E_UNSUPPORTED, "use_qk_norm");
    expect_bad(LLAMA ",\"no_rope_layers\":[1,1,0,1]}", MICA_E_UNSUPPORTED, "no_rope_layers");
    expect_bad(GEMMA3 ",\"use_bidirectional_attention\":true}", MICA_E_UNSUPPORTED,
               "use_bidirectional_attention");
    reading r;
    read_ok(&r, LLAMA ",\"attn_logit_softcapping\":null,\"residual_multiplier\":1.0,"
                      "\"num_local_experts\":0,\"use_qk_norm\":false,\"is_causal\":true,"
                      "\"hidden_act\":\"swish\",\"pretraining_tp\":1}");
    done(&r);
}

/* What the families of families_dense.c need or refuse, each in the words that a user gets. */
static void test_dense_rejections(void **state) {
    (void)state;
#define OF(type) "{\"model_type\":\"" type "\"," SIZES
    expect_bad(OF("ernie4_5") "}", MICA_E_FORMAT, "has no \"rope_theta\", which ernie4_5 needs");
    expect_bad(OF("glm4") "}", MICA_E_FORMAT, "has no \"rope_theta\", which glm4 needs");
    expect_bad(OF("minicpm") "}", MICA_E_FORMAT, "\"dim_model_base\" must be there, and above 0");
    expect_bad(OF("smollm3") ",\"no_rope_layers\":[1,0]}", MICA_E_FORMAT,
               "\"no_rope_layers\" has 2 entries; expected one for each of 4 layers");
    expect_bad(
        OF("phi3") ",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2}}", MICA_E_UNSUPPORTED,
        "rope type \"yarn\" is not supported for phi3, which has: default longrope su linear");
    expect_bad(OF("internlm2") ",\"rope_scaling\":{\"type\":\"llama3\",\"factor\":2}}",
               MICA_E_UNSUPPORTED, "rope type \"llama3\" is not supported for internlm2");
    expect_bad(OF("exaone4") ",\"sliding_window\":8,\"sliding_window_pattern\":\"LXG\"}",
               MICA_E_FORMAT, "is \"LXG\"; expected a number or the letters L and G");
    expect_bad(EXAONE4 ",\"sliding_window\":8,\"sliding_window_pattern\":0}", MICA_E_FORMAT,
               "\"sliding_window_pattern\" is 0, but there is a \"sliding_window\"");
    expect_bad(EXAONE4 ",\"sliding_window\":null,\"sliding_window_pattern\":\"LLLG\"}",
               MICA_E_FORMAT, "\"sliding_window\" is null or 0");
    expect_bad(OF("apertus") "}", MICA_E_FORMAT, "has no \"rope_theta\", which apertus needs");
    expect_bad(OF("olmo2") ",\"clip_qkv\":8}", MICA_E_UNSUPPORTED,
               "\"clip_qkv\": 8 is not supported for olmo2");
    expect_bad(OF("olmo") ",\"clip_qkv\":-1}", MICA_E_FORMAT, "\"clip_qkv\" must be 0 or more");
    expect_bad(OF("starcoder2") ",\"use_parallel_residual\":true}", MICA_E_UNSUPPORTED,
               "\"use_parallel_residual\": true is not supported for starcoder2");
    expect_bad(OF("seed_oss") ",\"partial_rotary_factor\":0.5}", MICA_E_UNSUPPORTED,
               "\"partial_rotary_factor\": 0.5 is not supported for seed_oss");
    expect_bad(OF("granite") ",\"residual_multiplier\":0}", MICA_E_FORMAT,
               "\"residual_multiplier\" must be above 0");
    expect_bad(OF("cohere") ",\"layer_types\":[\"chunked_attention\",\"x\",\"x\",\"x\"]}",
               MICA_E_UNSUPPORTED, "layer_types[0] is \"chunked_attention\"");
    expect_bad(OF("gpt_neox") ",\"layer_norm_eps\":1e-5,\"hidden_act\":\"quick\"}",
               MICA_E_UNSUPPORTED, "\"hidden_act\": \"quick\" is not supported for gpt_neox");
    expect_bad("{\"model_type\":\"gpt2\",\"n_embd\":64}", MICA_E_FORMAT,
               "has no \"n_layer\", which gpt2 needs");
    expect_bad("{\"model_type\":\"gpt2\",\"n_embd\":64,\"n_layer\":1,\"n_head\":4,"
               "\"vocab_size\":160,\"scale_attn_by_inverse_layer_idx\":true}",
               MICA_E_UNSUPPORTED, "\"scale_attn_by_inverse_layer_idx\": true is not supported");
    expect_bad(OF("hunyuan_v1_dense") ",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2,"
                                      "\"alpha\":10}}",
               MICA_E_UNSUPPORTED, "rope type \"yarn\" with alpha 10 is not supported");
    expect_bad(OF("mamba2") "}", MICA_E_FORMAT, "128 heads of 64 channels in 8 groups do not make");
    expect_bad(OF("mamba") ",\"hidden_act\":\"gelu\"}", MICA_E_UNSUPPORTED, "\"gelu\" is not");
    expect_bad(OF("mamba") ",\"time_step_limit\":[2,1]}", MICA_E_FORMAT, "\"time_step_limit\"");
    expect_bad(OF("jamba") ",\"num_experts\":1,\"layer_types\":[\"mamba\",\"moe\",\"a\",\"b\"]}",
               MICA_E_UNSUPPORTED, "layer_types[1] is \"moe\"; jamba has attention and mamba");
    expect_bad(OF("falcon_h1") ",\"mlp_multipliers\":[1]}", MICA_E_FORMAT,
               "\"mlp_multipliers\" must be 2 numbers");
    expect_bad(OF("falcon_h1") ",\"ssm_multipliers\":[1,1,0,1,1]}", MICA_E_FORMAT,
               "\"ssm_multipliers\" must be above 0");
    expect_bad(OF("falcon_h1") ",\"key_multiplier\":-1}", MICA_E_FORMAT,
               "\"key_multiplier\" must be above 0");
    expect_bad(OF("falcon_h1") ",\"mamba_d_ssm\":60}", MICA_E_FORMAT, "do not make 60 channels");
    expect_bad(OF("nemotron_h") "}", MICA_E_FORMAT, "\"hybrid_override_pattern\" must say what");
    expect_bad(OF("nemotron_h") ",\"hybrid_override_pattern\":\"M*X\"}", MICA_E_UNSUPPORTED,
               "hybrid_override_pattern[2] is \"X\"; nemotron_h has mamba (M), attention (*)");
    expect_bad(OF("nemotron_h") ",\"layers_block_type\":[\"mamba\",\"conv\"]}", MICA_E_UNSUPPORTED,
               "layers_block_type[1] is \"conv\"; nemotron_h has mamba (M), attention (*)");
    expect_bad(OF("nemotron_h") ",\"hybrid_override_pattern\":\"ME\"}", MICA_E_FORMAT,
               "has no \"n_routed_experts\", which layer 1 needs");
    expect_bad(OF("nemotron_h") ",\"hybrid_override_pattern\":\"M\",\"mamba_hidden_act\":\"relu\"}",
               MICA_E_UNSUPPORTED, "\"mamba_hidden_act\": \"relu\" is not supported");
    expect_bad(OF("nemotron_h") ",\"hybrid_override_pattern\":\"-\",\"mlp_hidden_act\":\"tanh\"}",
               MICA_E_UNSUPPORTED, "\"mlp_hidden_act\": \"tanh\" is not supported");
    expect_bad(OF("nemotron_h") ",\"hybrid_override_pattern\":\"M\",\"time_step_min\":-1}",
               MICA_E_FORMAT, "\"time_step_min\" must not be negative");
    expect_bad(OF("nemotron_h") ",\"hybrid_override_pattern\":\"M\",\"block_configs\":[]}",
               MICA_E_UNSUPPORTED, "\"block_configs\": [...] is not supported for nemotron_h");
    expect_bad(OF("mixtral") ",\"moe_latent_size\":8}", MICA_E_UNSUPPORTED,
               "\"moe_latent_size\": 8 is not supported for mixtral");
    expect_bad(OF("ministral3") ",\"rope_parameters\":{\"rope_type\":\"linear\",\"factor\":4,"
                                "\"rope_theta\":1e5,\"llama_4_scaling_beta\":0.1}}",
               MICA_E_FORMAT, "\"original_max_position_embeddings\" is missing");
    /* the reference scales without a key, so that silence would be another rope */
    expect_bad(OF("ministral3") ",\"rope_theta\":1e6}", MICA_E_FORMAT,
               "neither \"rope_parameters\" nor \"rope_scaling\", which ministral3 needs");
    expect_bad(OF("apertus") ",\"rope_theta\":1e6,\"rope_scaling\":null}", MICA_E_FORMAT,
               "neither \"rope_parameters\" nor \"rope_scaling\", which apertus needs");
    expect_bad(OF("gpt_oss") "}", MICA_E_FORMAT,
               "neither \"rope_parameters\" nor \"rope_scaling\", which gpt_oss needs");
#undef OF
}

/* One sublayer a layer, whichever way they are spelt. */
static void test_sublayers(void **state) {
    (void)state;
    static const char *const spellings[] = {
        "\"hybrid_override_pattern\":\"M-*E\"",
        "\"layers_block_type\":[\"mamba\",\"mlp\",\"attention\",\"moe\"]",
        "\"layer_types\":[\"linear_attention\",\"mlp\",\"full_attention\",\"moe\"]"};
    static const mixer_kind kinds[] = {MIXER_MAMBA2, MIXER_NONE, MIXER_ATTENTION, MIXER_NONE};
    for (size_t k = 0; k < sizeof(spellings) / sizeof(*spellings); k++) {
        reading r;
        char text[1024];
        snprintf(text, sizeof(text),
                 "{\"model_type\":\"nemotron_h\",\"hidden_size\":64,\"num_hidden_layers\":9,"
                 "\"num_attention_heads\":4,\"vocab_size\":160,\"n_routed_experts\":8,\"num_"
                 "experts_per_tok\":2,"
                 "\"time_step_min\":0.001,\"time_step_limit\":[0,Infinity],%s}",
                 spellings[k]);
        const model_config *c = read_ok(&r, text);
        assert_int_equal(c->n_layers, 4);
        for (int i = 0; i < 4; i++) {
            assert_int_equal(c->mixer[i], kinds[i]);
            assert_int_equal(c->moe.is_sparse[i], i == 3);
        }
        assert_true(c->ssm.dt_least == 0.001f);
        done(&r);
    }
}

/* ---- dispatch ---- */

/* The names of the table's generic or other rows, in alphabetical order. */
static void list_rows(char *out, size_t n, bool generic) {
    out[0] = '\0';
    for (size_t i = 0; i < mica_model_n_archs(); i++) {
        if ((mica_model_arch_tier(i) == TIER_GENERIC) != generic) continue;
        size_t at = strlen(out);
        snprintf(out + at, n - at, "%s%s", at ? ", " : "", mica_model_arch(i));
    }
}

static void test_dispatch(void **state) {
    (void)state;
    char generic[1024], targeted[256], text[2048];
    list_rows(generic, sizeof(generic), true);
    list_rows(targeted, sizeof(targeted), false);
    snprintf(text, sizeof(text),
             "DIR: unsupported model_type \"mamba9\"; targeted: MiniCPM5 (llama of its shape), %s; "
             "generic: %s",
             targeted, generic);
    expect_bad("{\"model_type\":\"mamba9\"}", MICA_E_UNSUPPORTED, text);
    assert_non_null(strstr(generic, "starcoder2"));
    expect_bad("{\"model_type\":\"phi-msft\"}", MICA_E_UNSUPPORTED,
               "unsupported model_type \"phi-msft\" (remaps to \"phixtral\"); targeted: ");
    expect_bad("{\"model_type\":\"gemma4_assistant\"}", MICA_E_UNSUPPORTED,
               "\"gemma4_assistant\" is a draft model; pass it as the drafter of a target model");
    expect_bad("{\"model_type\":\"mistral3\",\"text_config\":{\"model_type\":\"ministral9\"}}",
               MICA_E_UNSUPPORTED, "unsupported model_type \"ministral9\"");
    expect_bad("{\"model_type\":\"qwen2_vl\",\"text_config\":{\"model_type\":\"llama\"}}",
               MICA_E_UNSUPPORTED, "unsupported model_type \"qwen2_vl\"");
    expect_bad("{\"model_type\":3}", MICA_E_FORMAT, "no \"model_type\"");
    reading r;
    assert_string_equal(read_ok(&r, "{\"model_type\":\"iquestcoder\"," SIZES "}")->arch, "llama");
    done(&r);
}

#define MINICPM5(type, layers, tie)                                                       \
    "{\"model_type\":\"" type "\",\"hidden_size\":1536,\"num_hidden_layers\":" layers "," \
    "\"num_attention_heads\":16,\"num_key_value_heads\":2,\"head_dim\":128,"              \
    "\"intermediate_size\":4608,\"vocab_size\":130560,\"rms_norm_eps\":1e-6,"             \
    "\"tie_word_embeddings\":" tie "}"

static void test_tiers(void **state) {
    (void)state;
    static const struct {
        const char *text;
        model_tier tier;
        bool minicpm5;
    } rows[] = {
        {MINICPM5("llama", "24", "false"), TIER_DEDICATED, true},
        {MINICPM5("llama", "24", "true"), TIER_GENERIC, false},
        {MINICPM5("llama", "23", "false"), TIER_GENERIC, false},
        {MINICPM5("mistral", "24", "false"), TIER_GENERIC, false},
        {LLAMA "}", TIER_GENERIC, false},
        {QWEN2 "}", TIER_GENERIC, false},
        {QWEN3 "}", TIER_DEDICATED, false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        reading r;
        const model_config *c = read_ok(&r, rows[i].text);
        if (mica_dispatch_tier(r.facts.arch, c) != rows[i].tier ||
            mica_dispatch_is_minicpm5(r.facts.arch, c) != rows[i].minicpm5)
            fail_msg("row %zu", i);
        done(&r);
    }
    /* its row is llama's: the same table entry, so the same graph */
    reading a, b;
    read_ok(&a, MINICPM5("llama", "24", "false"));
    read_ok(&b, LLAMA "}");
    assert_ptr_equal(a.facts.arch, b.facts.arch);
    done(&a);
    done(&b);
}

static void test_table(void **state) {
    (void)state;
    for (size_t i = 1; i < mica_model_n_archs(); i++)
        assert_true(strcmp(mica_model_arch(i - 1), mica_model_arch(i)) < 0);
}

/* Converted files keep little more than the length of the canvas. */
static void test_diffusion_defaults(void **state) {
    (void)state;
    reading r;
    model_config *c = read_ok(&r, "{\"model_type\":\"diffusion_gemma\"}");
    const layer_shape *l = c->gemma.layers;
    assert_int_equal(c->hidden_size, 2816);
    assert_int_equal(c->n_layers, 30);
    assert_int_equal(c->intermediate_size, 2112);
    assert_int_equal(c->moe.n_experts, 128);
    assert_int_equal(c->moe.n_experts_used, 8);
    assert_int_equal(c->moe.intermediate_size, 704);
    assert_true(c->window[0] == 1024 && c->window[5] == 0 && c->window[29] == 0);
    assert_true(l[0].head_dim == 256 && l[0].n_kv_heads == 8 && !l[0].shares_v);
    assert_true(l[5].head_dim == 512 && l[5].n_kv_heads == 2 && l[5].shares_v);
    assert_string_equal(c->rope[0].type, "proportional");
    assert_true(c->rope[0].theta == 1e6 && c->rope[0].partial_rotary_factor == 0.25);
    assert_true(c->rope[1].theta == 1e4 && c->rope_of_layer[0] == 1 && c->rope_of_layer[5] == 0);
    assert_true(c->final_softcap == 30.0f && c->max_positions == 262144 && c->vocab_size == 262144);
    assert_true(c->bos_id == 2 && c->n_eos == 1 && c->eos_ids[0] == 1);
    const diffusion_config *d = &c->diffusion;
    assert_true(d->canvas_length == 256 && d->max_steps == 48 && d->max_tokens == 0);
    assert_true(d->t_min == 0.4 && d->t_max == 0.8 && d->entropy_bound == 0.1f);
    assert_true(d->stability_threshold == 1 && d->confidence_threshold == 0.005f);
    done(&r);
    /* a text_config without the key has as many heads in full layers as elsewhere */
    c = read_ok(&r, "{\"model_type\":\"diffusion_gemma\",\"canvas_length\":32,"
                    "\"text_config\":{\"num_hidden_layers\":4}}");
    l = c->gemma.layers;
    assert_true(c->window[2] == 1024 && c->window[3] == 0 && l[3].head_dim == 512);
    assert_true(l[3].n_kv_heads == 8 && l[3].shares_v && c->diffusion.canvas_length == 32);
    done(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dense_rejections),
        cmocka_unit_test(test_sublayers),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_bad_sizes),
        cmocka_unit_test(test_check),
        cmocka_unit_test(test_ties),
        cmocka_unit_test(test_rope_spellings),
        cmocka_unit_test(test_rope_fields),
        cmocka_unit_test(test_bad_ropes),
        cmocka_unit_test(test_absent_keys),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_gemma),
        cmocka_unit_test(test_wrappers),
        cmocka_unit_test(test_end_tokens),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_dispatch),
        cmocka_unit_test(test_tiers),
        cmocka_unit_test(test_diffusion_defaults),
        cmocka_unit_test(test_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
