/* test_model_llama4.c: llama4's keys: which layers see chunks, turn, have experts and boost their
 * queries, and what is refused.
 */
#include "cmocka_base.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "model/config.h"

#define KEYS                                                                     \
    "\"model_type\":\"llama4_text\",\"hidden_size\":64,\"num_hidden_layers\":4," \
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":16,"       \
    "\"intermediate_size\":32,\"intermediate_size_mlp\":96,\"vocab_size\":160,"  \
    "\"num_local_experts\":4"

typedef struct reading {
    mica_arena arena;
    model_config config;
    config_facts facts;
    mica_error err;
} reading;

/* The keys and `more`, "" or ",\"key\":value..."; wrapped in a text_config or not. */
static mica_status read_keys(reading *r, const char *more, bool wrapped) {
    char text[1024];
    json_value *config = NULL;
    model_kind kind;
    const arch *a = NULL;
    mica_status st;
    *r = (reading){0};
    mica_arena_init(&r->arena, 0);
    snprintf(text, sizeof(text),
             wrapped ? "{\"model_type\":\"llama4\",\"text_config\":{%s%s%s}}" : "{%s%s%s}", KEYS,
             strstr(more, "per_tok") ? "" : ",\"num_experts_per_tok\":1", more);
    if (mica_json_parse(&config, text, strlen(text), "test", true, &r->arena, &r->err))
        fail_msg("%s in %s", r->err.message, text);
    if ((st = mica_dispatch_kind(&kind, config, "DIR", &r->err))) return st;
    if ((st = mica_dispatch_folder(&a, &kind, "DIR", &r->err))) return st;
    config_source source = {config, NULL, "DIR"};
    return mica_config_read(&source, &kind, a, &r->arena, &r->config, &r->facts, &r->err);
}

/* A letter a layer: c chunks, . all; upper case: with experts; a following ' : without rope. */
static void expect_layers(const char *more, int32_t chunk, const char *expected) {
    for (int wrapped = 0; wrapped < 2; wrapped++) {
        reading r;
        char layers[16] = "";
        size_t n = 0;
        if (read_keys(&r, more, wrapped)) fail_msg("%s in %s", r.err.message, more);
        for (int64_t i = 0; i < r.config.n_layers; i++) {
            bool local = r.config.window[i] != 0, sparse = r.config.moe.is_sparse[i];
            if (local) assert_int_equal(r.config.window[i], -chunk);
            layers[n++] = local ? (sparse ? 'C' : 'c') : (sparse ? 'F' : 'f');
            if (r.config.rope_of_layer[i] == MODEL_NO_ROPE) layers[n++] = '\'';
        }
        layers[n] = '\0';
        assert_string_equal(layers, expected);
        assert_int_equal(r.config.intermediate_size, 96);
        assert_int_equal(r.config.moe.intermediate_size, 32);
        assert_int_equal(r.config.moe.shared_size, 32);
        mica_arena_deinit(&r.arena);
    }
}

static void test_layers(void **state) {
    (void)state;
    expect_layers("", 8192, "CCCF'");
    expect_layers(",\"no_rope_layers\":[]", 8192, "CCCF'"); /* as published */
    expect_layers(",\"no_rope_layers\":[0,1,0,1],\"attention_chunk_size\":7", 7, "F'CF'C");
    expect_layers(",\"no_rope_layer_interval\":2", 8192, "CF'CF'");
    expect_layers(",\"attention_chunk_size\":null", 0, "FFFF'");
    expect_layers(",\"layer_types\":[\"full_attention\",\"chunked_attention\",\"full_attention\","
                  "\"chunked_attention\"]",
                  8192, "FCFC'");
    expect_layers(",\"interleave_moe_layer_step\":2", 8192, "cCcF'");
    expect_layers(",\"interleave_moe_layer_step\":2,\"moe_layers\":[0,3]", 8192, "CccF'");
    expect_layers(",\"moe_layers\":[]", 8192, "cccf'");
}

static void expect_boost(const char *more, float boost, int32_t length) {
    reading r;
    if (read_keys(&r, more, true)) fail_msg("%s in %s", r.err.message, more);
    assert_true(r.config.query_boost == boost);
    assert_int_equal(r.config.query_boost_length, length);
    if (boost != 0.0f) {
        assert_int_equal(r.config.query_boost_offset, 1);
        assert_true(r.config.boosts_bare_only);
    }
    mica_arena_deinit(&r.arena);
}

static void test_boost(void **state) {
    (void)state;
    expect_boost("", 0.1f, 8192);
    expect_boost(",\"attn_temperature_tuning\":4", 0.1f, 8192); /* as published */
    expect_boost(",\"attn_temperature_tuning\":true,\"attn_scale\":0.5,\"floor_scale\":16", 0.5f,
                 16);
    expect_boost(",\"attn_temperature_tuning\":false", 0.0f, 0);
    expect_boost(",\"attn_temperature_tuning\":0", 0.0f, 0);
}

static void expect_bad(const char *more, mica_status status, const char *part) {
    reading r;
    mica_status st = read_keys(&r, more, false);
    if (st != status || !strstr(r.err.message, part))
        fail_msg("expected '%s', found status %d '%s' for %s", part, (int)st,
                 st ? r.err.message : "", more);
    mica_arena_deinit(&r.arena);
}

static void test_rejections(void **state) {
    (void)state;
    expect_bad(",\"num_experts_per_tok\":2", MICA_E_UNSUPPORTED,
               "\"num_experts_per_tok\": 2 is not supported for llama4_text, which chooses 1");
    expect_bad(",\"layer_types\":[\"sliding_attention\",\"x\",\"x\",\"x\"]", MICA_E_UNSUPPORTED,
               "layer_types[0] is \"sliding_attention\"; llama4_text has full_attention and "
               "chunked_attention");
    expect_bad(",\"attention_chunk_size\":0,\"layer_types\":[\"chunked_attention\","
               "\"full_attention\",\"full_attention\",\"full_attention\"]",
               MICA_E_FORMAT,
               "layer_types[0] is chunked_attention, but \"attention_chunk_size\" is missing or 0");
    expect_bad(",\"attention_chunk_size\":-3", MICA_E_FORMAT, "\"attention_chunk_size\" is -3");
    expect_bad(",\"no_rope_layers\":[1,0]", MICA_E_FORMAT, "\"no_rope_layers\" has 2 entries");
    expect_bad(",\"floor_scale\":0", MICA_E_FORMAT, "\"floor_scale\" is 0");
    expect_bad(",\"moe_layers\":3", MICA_E_FORMAT, "\"moe_layers\" must be a list of layers");
    expect_bad(",\"attn_temperature_tuning\":\"yes\"", MICA_E_FORMAT, "attn_temperature_tuning");
    expect_bad(",\"interleave_moe_layer_step\":0", MICA_E_FORMAT, "interleave_moe_layer_step");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_boost),
        cmocka_unit_test(test_rejections),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
