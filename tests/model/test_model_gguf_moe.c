/* test_model_gguf_moe.c: GGUF metadata of families with experts: which row of the table takes a
 * file, and what no key says.
 */
#include "gguf_meta.h"

/* llama4's chunks and boost are in no key; a window of 0 means that every layer sees everything. */
static void test_llama4(void **state) {
    (void)state;
    for (int all = 0; all < 2; all++) {
        reading r;
        meta m = start("llama4", 4);
        add_u32(&m, "expert_count", all ? 128 : 16);
        add_u32(&m, "expert_used_count", 1);
        add_u32(&m, "expert_feed_forward_length", 16);
        if (all) add_u32(&m, "attention.sliding_window", 0);
        const model_config *c = read_ok(&r, &m);
        for (int i = 0; i < 4; i++) {
            assert_int_equal(c->window[i], all || i == 3 ? 0 : -8192);
            assert_int_equal(c->rope_of_layer[i], !all && i == 3 ? MODEL_NO_ROPE : 0);
        }
        assert_int_equal(r.facts.qk_norm, all ? QK_NORM_NONE : QK_NORM_PLAIN);
        assert_true(c->query_boost == 0.1f && c->query_boost_offset == 1 && c->boosts_bare_only);
        assert_int_equal(c->moe.intermediate_size, 16);
        done(&r);
    }
}

/* Rows of the table that share an architecture are told apart by keys; widths of whole heads. */
static void test_shared_architectures(void **state) {
    (void)state;
    static const struct {
        const char *arch, *key;
        uint32_t value;
        const char *row;
    } cases[] = {
        {"llama", "expert_count", 0, "llama"},
        {"llama", "expert_count", 4, "mixtral"},
        {"granitemoe", "expert_count", 4, "granitemoe"},
        {"granitemoe", "expert_shared_feed_forward_length", 8, "granitemoeshared"},
        {"deepseek2", "expert_gating_func", 1, "deepseek_v2"},
        {"deepseek2", "expert_gating_func", 2, "deepseek_v3"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        for (int is_old = 0; is_old < 2; is_old++) {
            reading r;
            meta m = start(cases[i].arch, 2);
            bool has_experts = strcmp(cases[i].key, "expert_count") != 0;
            add_u32(&m, cases[i].key, cases[i].value);
            if (has_experts) add_u32(&m, "expert_count", 4);
            add_u32(&m, "expert_used_count", 2);
            if (!strcmp(cases[i].arch, "deepseek2")) {
                add_u32(&m, "attention.kv_lora_rank", 12);
                add_u32(&m, "rope.dimension_count", 6);
                add_u32(&m, "attention.key_length", is_old ? 16 : 18);
                add_u32(&m, "attention.value_length", is_old ? 10 : 12);
                if (!is_old) add_u32(&m, "attention.key_length_mla", 16);
                if (!is_old) add_u32(&m, "attention.value_length_mla", 10);
            }
            const model_config *c = read_ok(&r, &m);
            assert_string_equal(c->arch, cases[i].row);
            if (c->mla.kv_rank) {
                assert_int_equal(c->mla.nope_dim, 10);
                assert_int_equal(c->mla.v_dim, 10);
                assert_int_equal(c->n_kv_heads, 1); /* the latent */
            }
            done(&r);
        }
}

/* gpt-oss was trained with a ramp that is not cut to whole channels, which no key says. */
static void test_truncation(void **state) {
    (void)state;
    for (int is_oss = 0; is_oss < 2; is_oss++) {
        reading r;
        meta m = start(is_oss ? "gpt-oss" : "qwen3moe", 2);
        add_u32(&m, "expert_count", 4);
        add_u32(&m, "expert_used_count", 2);
        add_text(&m, "rope.scaling.type", "yarn");
        add_f32(&m, "rope.scaling.factor", 32.0f);
        add_u32(&m, "rope.scaling.original_context_length", 4096);
        assert_int_equal(read_ok(&r, &m)->rope[0].truncate, !is_oss);
        done(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama4),
        cmocka_unit_test(test_shared_architectures),
        cmocka_unit_test(test_truncation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
