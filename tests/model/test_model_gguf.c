/* test_model_gguf.c: GGUF metadata to normalized fields, and whole tiny GGUF models made in memory.
 */
#include "cmocka_base.h"

#include "gguf_meta.h"

#include <math.h>

#include "model/loaded.h"

static void test_defaults(void **state) {
    (void)state;
    reading r;
    meta m = start("llama", 3);
    add_u32(&m, "!tokenizer.ggml.eos_token_id", 7);
    add_u32(&m, "!tokenizer.ggml.eot_token_id", 9);
    add_u32(&m, "!tokenizer.ggml.eom_token_id", 7);
    add_u32(&m, "!tokenizer.ggml.bos_token_id", 1);
    const model_config *c = read_ok(&r, &m);
    assert_string_equal(c->arch, "llama");
    assert_int_equal(c->n_layers, 3);
    assert_int_equal(c->head_dim, HEAD_DIM);
    assert_int_equal(c->n_kv_heads, KV_HEADS);
    assert_true(c->rms_norm_eps == 1e-5f);
    assert_true(c->rope[0].theta == 1e4);
    assert_true(c->rope_traditional);
    assert_int_equal(c->n_eos, 2);
    assert_int_equal(c->eos_ids[1], 9);
    assert_int_equal(c->bos_id, 1);
    done(&r);
    m = start("qwen3", 1);
    add_u32(&m, "attention.key_length", 16);
    add_u32(&m, "attention.value_length", 16);
    add_f32(&m, "rope.freq_base", 1e6f);
    c = read_ok(&r, &m);
    assert_false(c->rope_traditional);
    assert_int_equal(c->head_dim, 16);
    assert_true(c->rope[0].theta == 1e6);
    assert_int_equal(c->bos_id, -1);
    done(&r);
}

static void test_arrays(void **state) {
    (void)state;
    static const uint32_t equal[3] = {WIDE, WIDE, WIDE}, mixed[3] = {WIDE, WIDE, 64};
    reading r;
    for (int bad = 0; bad < 2; bad++) {
        meta m = {.arch = "llama"};
        add_text(&m, "!general.architecture", "llama");
        add_u32(&m, "block_count", 3);
        add_u32(&m, "embedding_length", HIDDEN);
        add_array(&m, "feed_forward_length", bad ? mixed : equal, 3);
        add_u32(&m, "attention.head_count", HEADS);
        add_f32(&m, "attention.layer_norm_rms_epsilon", 1e-5f);
        if (bad) {
            expect_bad(&m, MICA_E_UNSUPPORTED, "\"llama.feed_forward_length\" differs");
        } else {
            assert_int_equal(read_ok(&r, &m)->intermediate_size, WIDE);
            assert_int_equal(r.config.n_kv_heads, HEADS);
            done(&r);
        }
    }
}

static void windows_text(const model_config *c, char *out) {
    for (int64_t i = 0; i < c->n_layers; i++)
        out[i] = !c->window[i] ? '.' : c->rope_of_layer[i] ? 'w' : 's';
    out[c->n_layers] = '\0';
}

static void expect_windows(meta *m, const char *expected) {
    reading r;
    char layers[32];
    windows_text(read_ok(&r, m), layers);
    assert_string_equal(layers, expected);
    done(&r);
}

static void test_windows(void **state) {
    (void)state;
    meta m = start("gemma3", 7);
    add_u32(&m, "attention.sliding_window", 512);
    expect_windows(&m, "wwwww.w");
    m = start("gemma3", 7); /* no window: all full, all with the global base */
    expect_windows(&m, ".......");
    m = start("gemma3", 4);
    add_u32(&m, "attention.sliding_window", 512);
    add_u32(&m, "attention.sliding_window_pattern", 2);
    expect_windows(&m, "w.w.");
    static const uint8_t flags[4] = {0, 1, 1, 0};
    m = start("gemma3", 4);
    add_u32(&m, "attention.sliding_window", 512);
    add_flags(&m, "attention.sliding_window_pattern", flags, 4);
    expect_windows(&m, ".ww.");
    m = start("gemma3", 5);
    add_u32(&m, "attention.sliding_window", 512);
    add_flags(&m, "attention.sliding_window_pattern", flags, 4);
    expect_bad(&m, MICA_E_FORMAT, "a flag for each layer");
    m = start("gemma2", 4);
    expect_windows(&m, "s.s.");
    m = start("llama", 2);
    expect_windows(&m, "..");
}

static void test_gemma(void **state) {
    (void)state;
    reading r;
    meta m = start("gemma2", 4);
    const model_config *c = read_ok(&r, &m);
    assert_true(c->attention_softcap == 50.0f && c->final_softcap == 30.0f);
    assert_int_equal(c->window[0], 4096);
    assert_true(r.facts.query_scalar == 0.0); /* head_dim's, whatever HF's key would say */
    done(&r);
    m = start("gemma2", 46); /* the 27B: its scale is (hidden / heads)^-1/2 */
    add_u32(&m, "attention.key_length", 16);
    add_u32(&m, "attention.value_length", 16);
    read_ok(&r, &m);
    assert_true(r.facts.query_scalar == HIDDEN / HEADS);
    done(&r);
    m = start("gemma3", 2);
    add_f32(&m, "rope.freq_base", 1e6f);
    add_text(&m, "rope.scaling.type", "linear");
    add_f32(&m, "rope.scaling.factor", 8.0f);
    c = read_ok(&r, &m);
    assert_int_equal(c->n_ropes, 2);
    assert_true(c->rope[0].theta == 1e6 && c->rope[0].factor == 8.0);
    assert_string_equal(c->rope[0].type, "linear");
    assert_true(c->rope[1].theta == 1e4);
    assert_string_equal(c->rope[1].type, "default");
    done(&r);
    m = start("gemma3", 2);
    add_f32(&m, "rope.freq_base_swa", 2e4f);
    assert_true(read_ok(&r, &m)->rope[1].theta == 2e4);
    done(&r);
}

static void test_yarn_factor(void **state) {
    (void)state;
    reading r;
    meta m = start("qwen2", 1);
    add_text(&m, "rope.scaling.type", "yarn");
    add_f32(&m, "rope.scaling.factor", 4.0f);
    add_f32(&m, "rope.scaling.attn_factor", 0.5f);
    add_u32(&m, "rope.scaling.original_context_length", 64);
    const rope_config *rope = read_ok(&r, &m)->rope;
    assert_int_equal(rope->original_max_positions, 64);
    assert_true(fabs(rope->attention_factor - 0.5 * (0.1 * log(4.0) + 1.0)) < 1e-12);
    done(&r);
}

static void test_bad(void **state) {
    (void)state;
    meta m = {.arch = "rwkv9"};
    add_text(&m, "!general.architecture", "rwkv9");
    expect_bad(&m, MICA_E_UNSUPPORTED,
               "FILE: unsupported general.architecture \"rwkv9\"; targeted");
    m = (meta){.arch = "llama"};
    add_text(&m, "!general.name", "x");
    expect_bad(&m, MICA_E_FORMAT, "no \"general.architecture\"");
    m = (meta){.arch = "llama"};
    add_text(&m, "!general.architecture", "llama");
    expect_bad(&m, MICA_E_FORMAT, "\"llama.block_count\" is missing");
    m = start("llama", 0);
    expect_bad(&m, MICA_E_FORMAT, "\"llama.block_count\" is 0");
    m = start("llama", 257);
    expect_bad(&m, MICA_E_UNSUPPORTED, "256");
    m = start("llama", 1);
    add_u32(&m, "expert_count", 8); /* mixtral's row */
    expect_bad(&m, MICA_E_FORMAT, "\"llama.expert_used_count\" is missing");
    m = start("gemma", 1);
    add_u32(&m, "expert_count", 8);
    expect_bad(&m, MICA_E_UNSUPPORTED, "expert_count");
    m = start("llama4", 4);
    add_u32(&m, "expert_count", 8);
    add_u32(&m, "expert_used_count", 2);
    expect_bad(&m, MICA_E_UNSUPPORTED, "\"llama4.expert_used_count\" is not the only number");
    m = start("qwen2moe", 1);
    add_u32(&m, "expert_count", 8);
    add_u32(&m, "expert_used_count", 2);
    add_u32(&m, "expert_gating_func", 2);
    expect_bad(&m, MICA_E_UNSUPPORTED, "\"qwen2moe.expert_gating_func\" is not softmax");
    m = start("deepseek2", 1);
    add_u32(&m, "expert_count", 8);
    expect_bad(&m, MICA_E_FORMAT, "\"deepseek2.attention.kv_lora_rank\" is missing");
    m = start("qwen2", 1);
    add_f32(&m, "rope.scaling.yarn_ext_factor", 0.5f);
    expect_bad(&m, MICA_E_UNSUPPORTED, "rope.scaling.yarn_ext_factor");
    m = start("mistral3", 1);
    add_f32(&m, "attention.temperature_scale", 0.1f);
    expect_bad(&m, MICA_E_FORMAT, "\"mistral3.rope.scaling.original_context_length\" is missing");
    m = start("apertus", 1);
    expect_bad(&m, MICA_E_FORMAT, "\"xielu.alpha_p\" must have a number for each layer");
    m = start("llama", 1);
    add_u32(&m, "attention.value_length", 16);
    expect_bad(&m, MICA_E_UNSUPPORTED, "attention.value_length");
    m = start("llama", 1);
    add_u32(&m, "rope.dimension_count", 4);
    expect_bad(&m, MICA_E_UNSUPPORTED, "rope.dimension_count");
    m = start("llama", 1);
    add_f32(&m, "final_logit_softcapping", 30.0f);
    expect_bad(&m, MICA_E_UNSUPPORTED, "final_logit_softcapping");
    m = start("llama", 1);
    add_text(&m, "rope.freq_base", "x");
    expect_bad(&m, MICA_E_FORMAT, "must be a finite number");
    m = start("llama", 1);
    add_text(&m, "rope.scaling.type", "longrope");
    expect_bad(&m, MICA_E_FORMAT, "rope_factors_long");
}

/* ---- layers with a state ---- */

/* start() without its heads and widths, with the sizes of a scan. */
static meta start_scan(const char *name, uint32_t n_layers) {
    meta m = {.arch = name};
    add_text(&m, "!general.architecture", name);
    add_u32(&m, "block_count", n_layers);
    add_u32(&m, "embedding_length", HIDDEN);
    add_u32(&m, "attention.head_count", HEADS);
    add_f32(&m, "attention.layer_norm_rms_epsilon", 1e-5f);
    add_u32(&m, "ssm.conv_kernel", 4);
    add_u32(&m, "ssm.inner_size", 64);
    add_u32(&m, "ssm.state_size", 10);
    add_u32(&m, "ssm.time_step_rank", 4);
    return m;
}

static void expect_mixers(reading *r, meta *m, const mixer_kind *kinds, int n) {
    const model_config *c = read_ok(r, m);
    assert_int_equal(c->n_layers, n);
    for (int i = 0; i < n; i++)
        assert_int_equal(c->mixer[i], kinds[i]);
}

static void test_mixers(void **state) {
    (void)state;
    static const uint32_t heads[4] = {0, 2, 0, 0}, widths[4] = {0, 0, 48, 0};
    static const uint8_t flags[3] = {0, 1, 0};
    static const mixer_kind jamba[] = {MIXER_MAMBA, MIXER_ATTENTION, MIXER_MAMBA};
    static const mixer_kind nemotron[] = {MIXER_MAMBA2, MIXER_ATTENTION, MIXER_NONE, MIXER_MAMBA2};
    static const mixer_kind every[] = {MIXER_DELTA, MIXER_ATTENTION, MIXER_DELTA};
    static const mixer_kind listed[] = {MIXER_ATTENTION, MIXER_DELTA, MIXER_ATTENTION};
    reading r;
    meta m = start_scan("jamba", 3);
    add_u32(&m, "feed_forward_length", WIDE);
    add_array(&m, "attention.head_count_kv", heads, 3);
    expect_mixers(&r, &m, jamba, 3);
    assert_int_equal(r.config.n_kv_heads, 2);
    assert_int_equal(r.config.ssm.dt_rank, 4);
    assert_int_equal(r.config.rope_of_layer[1], MODEL_NO_ROPE);
    done(&r);
    m = start_scan("nemotron_h", 4);
    add_array(&m, "attention.head_count_kv", heads, 4);
    add_array(&m, "feed_forward_length", widths, 4);
    add_u32(&m, "rope.dimension_count", 6); /* written, but nothing rotates */
    expect_mixers(&r, &m, nemotron, 4);
    assert_int_equal(r.config.intermediate_size, 48);
    assert_int_equal(r.config.ssm.head_dim, 16);
    assert_true(r.config.ssm.dt_least == 0.001f);
    done(&r);
    for (int k = 0; k < 2;
         k++) { /* by an interval, or by flags; a drafter's layer does not count */
        m = start_scan("qwen35", 4);
        add_u32(&m, "nextn_predict_layers", 1);
        add_u32(&m, "feed_forward_length", WIDE);
        add_u32(&m, "ssm.group_count", 2);
        add_u32(&m, "full_attention_interval", 2);
        if (k) add_flags(&m, "attention.recurrent_layers", flags, 3);
        expect_mixers(&r, &m, k ? listed : every, 3);
        assert_int_equal(r.config.delta.v_dim, 16);
        assert_true(r.config.delta.is_tiled && r.config.gates_attention);
        done(&r);
    }
}

static void test_bad_mixers(void **state) {
    (void)state;
    static const uint32_t mixed[3] = {0, 2, 4};
    meta m = start_scan("jamba", 3);
    add_u32(&m, "feed_forward_length", WIDE);
    add_array(&m, "attention.head_count_kv", mixed, 3);
    expect_bad(&m, MICA_E_UNSUPPORTED, "differs between the layers that have it");
    m = start_scan("jamba", 4);
    add_u32(&m, "feed_forward_length", WIDE);
    add_array(&m, "attention.head_count_kv", mixed, 2);
    expect_bad(&m, MICA_E_FORMAT, "must have a value for each layer");
    m = start_scan("mamba2", 1);
    add_u32(&m, "feed_forward_length", 0);
    add_u32(&m, "ssm.group_count", 3);
    expect_bad(&m, MICA_E_FORMAT, "\"mamba2.ssm.group_count\" does not divide");
    m = start("lfm2", 1);
    expect_bad(&m, MICA_E_FORMAT, "\"lfm2.shortconv.l_cache\" is missing");
}

/* ---- whole models ---- */

typedef struct tensor_list {
    struct {
        char name[64];
        uint64_t dim[2];
        uint32_t n_dims;
    } t[64];
    size_t n;
} tensor_list;

static void add_tensor(tensor_list *l, const char *name, uint64_t n_out, uint64_t n_in) {
    snprintf(l->t[l->n].name, sizeof(l->t[l->n].name), "%s", name);
    l->t[l->n].dim[0] = n_in;
    l->t[l->n].dim[1] = n_out;
    l->t[l->n].n_dims = n_out ? 2 : 1;
    l->n++;
}

static void add_layer_tensors(tensor_list *l, int layer, bool sandwich) {
    static const struct {
        const char *stem;
        uint64_t n_out, n_in;
        bool sandwich;
    } rows[] = {
        {"attn_norm", 0, HIDDEN, false},
        {"ffn_norm", 0, HIDDEN, false},
        {"attn_q", HEADS * HEAD_DIM, HIDDEN, false},
        {"attn_k", KV_HEADS * HEAD_DIM, HIDDEN, false},
        {"attn_v", KV_HEADS * HEAD_DIM, HIDDEN, false},
        {"attn_output", HIDDEN, HEADS * HEAD_DIM, false},
        {"ffn_gate", WIDE, HIDDEN, false},
        {"ffn_up", WIDE, HIDDEN, false},
        {"ffn_down", HIDDEN, WIDE, false},
        {"post_attention_norm", 0, HIDDEN, true},
        {"post_ffw_norm", 0, HIDDEN, true},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char name[64];
        if (rows[i].sandwich && !sandwich) continue;
        snprintf(name, sizeof(name), "blk.%d.%s.weight", layer, rows[i].stem);
        add_tensor(l, name, rows[i].n_out, rows[i].n_in);
    }
}

static tensor_list dense_tensors(bool sandwich) {
    tensor_list l = {0};
    add_tensor(&l, "token_embd.weight", VOCAB, HIDDEN);
    add_tensor(&l, "output_norm.weight", 0, HIDDEN);
    add_layer_tensors(&l, 0, sandwich);
    return l;
}

/* Every tensor f32; element i of each is 1 + i % 7. */
static mica_status load(scratch *s, meta *m, const tensor_list *l, model **out, mica_error *err) {
    bytes b = {0}, data = {0};
    put_gguf_head(&b, 3, l->n, m->n);
    put_raw(&b, m->body.data, m->body.n);
    for (size_t i = 0; i < l->n; i++) {
        pad_to(&data, 32);
        put_info(&b, l->t[i].name, l->t[i].n_dims, l->t[i].dim, GGUF_F32, data.n);
        uint64_t n = l->t[i].dim[0] * (l->t[i].n_dims == 2 ? l->t[i].dim[1] : 1);
        for (uint64_t k = 0; k < n; k++) {
            float x = 1.0f + (float)(k % 7);
            put_raw(&data, &x, 4);
        }
    }
    pad_to(&data, 32);
    pad_to(&b, 32);
    put_raw(&b, data.data, data.n);
    write_scratch(s, "model.gguf", b.data, b.n, 0);
    bytes_free(&b);
    bytes_free(&data);
    bytes_free(&m->body);
    return mica_model_load(out, s->path, NULL, err);
}

static int n_ops(const graph *g, graph_op op) {
    int n = 0;
    for (int32_t i = 0; i < g->n_nodes; i++)
        n += g->nodes[i].op == op;
    return n;
}

static void load_llama(scratch *s, const tensor_list *l, bool biased, const float *period) {
    model *m = NULL;
    mica_error err = {0};
    meta keys = start("llama", 1);
    if (load(s, &keys, l, &m, &err)) fail_msg("%s", err.message);
    const model_config *c = mica_model_config(m);
    assert_int_equal(c->vocab_size, VOCAB);
    assert_true(c->tied);
    assert_int_equal(c->dtype, MICA_F32);
    assert_int_equal(m->weights.layers[0].q.bias != NULL, biased);
    for (int i = 0; period && i < HEAD_DIM / 2; i++)
        assert_true(m->rope[0].table[i] == period[i]);
    model_build_options options = {.cache_dtype = MICA_F32, .n_blocks = 2};
    model_graph mg;
    if (mica_model_build(m, &options, &mg, &err)) fail_msg("%s", err.message);
    for (int32_t i = 0; i < mg.g.n_nodes; i++)
        if (mg.g.nodes[i].op == OP_ROPE) assert_true(mg.g.nodes[i].attr.rope.traditional);
    assert_int_equal(n_ops(&mg.g, OP_ROPE), 2);
    mica_model_graph_deinit(&mg);
    mica_model_close(m);
}

static void test_llama_file(void **state) {
    scratch *s = *state;
    tensor_list l = dense_tensors(false);
    load_llama(s, &l, false, NULL);
    /* rope_freqs hold 1, 2, 3, 4: factors of the periods */
    add_tensor(&l, "rope_freqs.weight", 0, HEAD_DIM / 2);
    float period[HEAD_DIM / 2];
    for (int i = 0; i < HEAD_DIM / 2; i++)
        period[i] = powf(1e4f, (float)(2 * i) / (float)HEAD_DIM) * (float)(i + 1);
    load_llama(s, &l, false, period);
    /* which biases there are is what the tensors say */
    add_tensor(&l, "blk.0.attn_q.bias", 0, HEADS * HEAD_DIM);
    load_llama(s, &l, true, period);
}

static void test_bad_files(void **state) {
    scratch *s = *state;
    model *m = NULL;
    mica_error err = {0};
    tensor_list l = dense_tensors(false);
    l.t[5].name[0] = 'x'; /* one tensor has a name that nothing asks for */
    meta keys = start("llama", 1);
    assert_int_equal(load(s, &keys, &l, &m, &err), MICA_E_NOT_FOUND);
    assert_null(m);
    assert_non_null(strstr(err.message, "model.layers.0.self_attn.k_proj"));
    l = dense_tensors(false);
    add_tensor(&l, "blk.1.attn_norm.weight", 0, HIDDEN);
    keys = start("llama", 1);
    assert_int_equal(load(s, &keys, &l, &m, &err), MICA_E_FORMAT);
    assert_non_null(strstr(err.message, "1 tensors are of no use to this architecture: blk.1."));
    l = dense_tensors(false);
    add_tensor(&l, "rope_freqs.weight", 0, HEAD_DIM);
    keys = start("llama", 1);
    assert_int_equal(load(s, &keys, &l, &m, &err), MICA_E_FORMAT);
    assert_non_null(strstr(err.message, "\"rope_freqs.weight\" has 8 entries; expected 4"));
    l = dense_tensors(false);
    keys = start("llama", 1);
    add_text(&keys, "rope.scaling.type", "spiral");
    assert_int_equal(load(s, &keys, &l, &m, &err), MICA_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "Unsupported RoPE type spiral"));
}

/* The converter has added the 1 of RMS+1, and sqrt(hidden) is not rounded to bf16. */
static void test_gemma_file(void **state) {
    scratch *s = *state;
    model *m = NULL;
    mica_error err = {0};
    tensor_list l = dense_tensors(true);
    add_tensor(&l, "blk.0.attn_q_norm.weight", 0, HEAD_DIM);
    add_tensor(&l, "blk.0.attn_k_norm.weight", 0, HEAD_DIM);
    meta keys = start("gemma3", 1);
    if (load(s, &keys, &l, &m, &err)) fail_msg("%s", err.message);
    const dense_layer *layer = m->weights.layers;
    assert_true(mica_load_f(layer->input_norm.own->data, layer->input_norm.own->dtype, 2) == 3.0f);
    assert_ptr_equal(layer->input_norm.own, layer->input_norm.wide);
    assert_true(m->config.embed_multiplier == sqrtf((float)HIDDEN));
    assert_true(m->config.attention_scale == (float)(1.0 / sqrt((double)HEAD_DIM)));
    mica_model_close(m);
}

static int setup(void **state) {
    scratch *s = calloc(1, sizeof(*s));
    make_scratch(s);
    *state = s;
    return 0;
}

static int teardown(void **state) {
    static const char *const names[] = {"model.gguf"};
    scratch *s = *state;
    remove_scratch(s, names, 1);
    free(s);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_gemma),
        cmocka_unit_test(test_yarn_factor),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_mixers),
        cmocka_unit_test(test_bad_mixers),
        cmocka_unit_test_setup_teardown(test_llama_file, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_files, setup, teardown),
        cmocka_unit_test_setup_teardown(test_gemma_file, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
