/* test_weights_gguf.c: matrices of GGUF files: every block type against the decoder of the gguf
 * package (tests/golden/gguf_blocks), names, shapes and the audit.
 */
#include "golden.h"

#include "weights/repack.h"
#include "weights/weights.h"

typedef struct block_case {
    gguf_type type;
    const char *name;
    const char *form;
} block_case;

static const block_case cases[] = {
    {GGUF_F32, "F32", "f32"},
    {GGUF_F16, "F16", "f16"},
    {GGUF_BF16, "BF16", "bf16"},
    {GGUF_Q4_0, "Q4_0", "q4 g32 f16 zero 8"},
    {GGUF_Q4_1, "Q4_1", "q4 g32 f16"},
    {GGUF_Q5_0, "Q5_0", "q5 g32 f16 zero 16"},
    {GGUF_Q5_1, "Q5_1", "q5 g32 f16"},
    {GGUF_Q8_0, "Q8_0", "q8 g32 f16 zero 128"},
    {GGUF_Q2_K, "Q2_K", "q2 g16 f16 two-level"},
    {GGUF_Q3_K, "Q3_K", "q3 g16 f16 two-level zero 4"},
    {GGUF_Q4_K, "Q4_K", "q4 g32 f16 two-level"},
    {GGUF_Q5_K, "Q5_K", "q5 g32 f16 two-level"},
    {GGUF_Q6_K, "Q6_K", "q6 g16 f16 two-level zero 32"},
    {GGUF_IQ4_NL, "IQ4_NL", "iq4nl g32 f16"},
    {GGUF_IQ4_XS, "IQ4_XS", "iq4nl g32 f16 two-level"},
    {GGUF_MXFP4, "MXFP4", "e2m1 g32 e8m0"},
};
enum { N_CASES = sizeof(cases) / sizeof(*cases) };

static gguf_file *parse(const bytes *b) {
    gguf_file *f = NULL;
    mica_error err = {0};
    if (mica_gguf_parse(&f, b->data, b->n, "test.gguf", &err)) fail_msg("%s", err.message);
    return f;
}

static weight_store *open_store(gguf_file *f, const weight_options *options) {
    weight_store *store = NULL;
    mica_error err = {0};
    if (mica_weights_open_gguf(&store, f, options, &err)) fail_msg("%s", err.message);
    return store;
}

/* The blocks of one golden file as a file of one tensor, [n_experts, n_rows, n_in]. */
static void put_matrix_file(bytes *b, const block_case *c, const bytes *blocks, uint64_t n_experts,
                            uint64_t n_rows, uint64_t n_in) {
    put_gguf_head(b, 3, 1, 0);
    put_info(b, "m.weight", n_experts ? 3 : 2, (uint64_t[]){n_in, n_rows, n_experts},
             (uint32_t)c->type, 0);
    pad_to(b, 32);
    put_raw(b, blocks->data, blocks->n);
}

static void check_rows(const block_case *c, const weight_matrix *m, const float *expected) {
    float *row = malloc((size_t)m->n_in * sizeof(float));
    for (int64_t r = 0; r < m->n_experts * m->n_out; r++) {
        mica_weight_row(m, r, row);
        for (int64_t i = 0; i < m->n_in; i++)
            if (!(row[i] == expected[r * m->n_in + i])) /* bits, but for the sign of a zero */
                fail_msg("%s: row %d element %d: %.9g, expected %.9g", c->name, (int)r, (int)i,
                         (double)row[i], (double)expected[r * m->n_in + i]);
    }
    free(row);
}

static void check_case(const block_case *c, bool experts) {
    bytes blocks = {0}, floats = {0}, b = {0};
    char name[64];
    snprintf(name, sizeof(name), "gguf_blocks/%s.bin", c->name);
    read_golden(&blocks, name);
    snprintf(name, sizeof(name), "gguf_blocks/%s.f32.bin", c->name);
    read_golden(&floats, name);
    gguf_block block = mica_gguf_block((uint32_t)c->type);
    assert_string_equal(block.name, c->name);
    assert_int_equal(blocks.n / block.n_bytes * block.n_elements, floats.n / 4);
    uint64_t n_rows = block.n_elements == 1 ? 4 : 3, n_experts = experts ? n_rows : 0;
    uint64_t n_in = floats.n / 4 / n_rows;
    put_matrix_file(&b, c, &blocks, n_experts, experts ? 1 : n_rows, n_in);
    gguf_file *f = parse(&b);
    weight_store *store = open_store(f, NULL);
    const weight_matrix *m = NULL;
    mica_error err = {0};
    if (mica_weights_matrix(store, "m", (int64_t)n_experts, experts ? 1 : (int64_t)n_rows,
                            (int64_t)n_in, &m, &err))
        fail_msg("%s", err.message);
    check_rows(c, m, (const float *)(const void *)floats.data);
    char text[64];
    bool has = true;
    mica_weight_form_text(&m->form, text, sizeof(text));
    assert_string_equal(text, c->form);
    assert_int_equal(mica_weight_bytes(m), blocks.n); /* not a byte more than in the file */
    mica_weight_dtype(m, &has);
    assert_false(has);
    assert_int_equal(mica_weights_audit(store, NULL), MICA_OK);
    mica_weights_close(store);
    mica_gguf_close(f);
    bytes_free(&blocks);
    bytes_free(&floats);
    bytes_free(&b);
}

static void golden_blocks(void **state) {
    (void)state;
    for (size_t i = 0; i < N_CASES; i++)
        check_case(&cases[i], false);
}

static void golden_experts(void **state) {
    (void)state;
    for (size_t i = 0; i < N_CASES; i++)
        check_case(&cases[i], true);
}

typedef struct name_case {
    const char *arch, *file, *canonical;
} name_case;

static const name_case name_cases[] = {
    {"llama", "token_embd.weight", "model.embed_tokens.weight"},
    {"llama", "output_norm.weight", "model.norm.weight"},
    {"llama", "output.weight", "lm_head.weight"},
    {"llama", "blk.0.attn_norm.weight", "model.layers.0.input_layernorm.weight"},
    {"qwen2", "blk.12.attn_q.bias", "model.layers.12.self_attn.q_proj.bias"},
    {"llama", "blk.3.attn_k.weight", "model.layers.3.self_attn.k_proj.weight"},
    {"llama", "blk.3.attn_v.weight", "model.layers.3.self_attn.v_proj.weight"},
    {"llama", "blk.3.attn_output.weight", "model.layers.3.self_attn.o_proj.weight"},
    {"qwen3", "blk.3.attn_q_norm.weight", "model.layers.3.self_attn.q_norm.weight"},
    {"gemma3", "blk.3.attn_k_norm.weight", "model.layers.3.self_attn.k_norm.weight"},
    {"llama", "blk.3.ffn_gate.weight", "model.layers.3.mlp.gate_proj.weight"},
    {"llama", "blk.3.ffn_up.weight", "model.layers.3.mlp.up_proj.weight"},
    {"llama", "blk.3.ffn_down.weight", "model.layers.3.mlp.down_proj.weight"},
    {"qwen3", "blk.3.ffn_norm.weight", "model.layers.3.post_attention_layernorm.weight"},
    {"gemma2", "blk.3.ffn_norm.weight", "model.layers.3.pre_feedforward_layernorm.weight"},
    {"gemma3", "blk.3.ffn_norm.weight", "model.layers.3.pre_feedforward_layernorm.weight"},
    {"gemma3", "blk.3.post_attention_norm.weight",
     "model.layers.3.post_attention_layernorm.weight"},
    {"gemma3", "blk.3.post_ffw_norm.weight", "model.layers.3.post_feedforward_layernorm.weight"},
    {"qwen3moe", "blk.3.ffn_gate_inp.weight", "model.layers.3.mlp.gate.weight"},
    {"qwen3moe", "blk.3.ffn_down_exps.weight", "model.layers.3.mlp.switch_mlp.down_proj.weight"},
    {"llama", "rope_freqs.weight", "rope_freqs.weight"},
    {"llama", "blk.3.ffn_gate.12.weight", "model.layers.3.mlp.experts.12.gate_proj.weight"},
    {"llama", "blk.3.ffn_norm.1.weight", "blk.3.ffn_norm.1.weight"},
    {"gpt-oss", "blk.3.attn_sinks.weight", "model.layers.3.self_attn.sinks"},
    {"gpt-oss", "blk.3.ffn_gate_exps.bias", "model.layers.3.mlp.switch_mlp.gate_proj.bias"},
    {"deepseek2", "blk.3.attn_k_b.weight", "model.layers.3.self_attn.k_b_proj.weight"},
    {"deepseek2", "blk.3.attn_kv_a_mqa.weight",
     "model.layers.3.self_attn.kv_a_proj_with_mqa.weight"},
    {"gemma3n", "blk.3.ffn_norm.weight", "model.layers.3.pre_feedforward_layernorm.weight"},
    {"gemma3n", "blk.3.laurel_l.weight", "model.layers.3.laurel.linear_left.weight"},
    {"gemma3n", "altup_proj.weight", "model.altup_projections.weight"},
    {"gemma4", "blk.3.layer_output_scale.weight", "model.layers.3.layer_scalar"},
    {"gemma4", "blk.3.ffn_down_exps.scale", "model.layers.3.router.per_expert_scale"},
    {"gemma4", "blk.3.ffn_gate_up_exps.weight", "model.layers.3.mlp.experts.gate_up_proj.weight"},
    {"jamba", "blk.3.ssm_in.weight", "model.layers.3.mixer.in_proj.weight"},
    {"jamba", "blk.3.ssm_dt.bias", "model.layers.3.mixer.dt_proj.bias"},
    {"jamba", "blk.3.ssm_dt_norm.weight", "model.layers.3.mixer.dt_layernorm.weight"},
    {"mamba2", "blk.3.ssm_a", "model.layers.3.mixer.A"},
    {"mamba2", "blk.3.ssm_d", "model.layers.3.mixer.D"},
    {"falcon-h1", "blk.3.ffn_norm", "model.layers.3.post_attention_layernorm.weight"},
    {"lfm2", "token_embd_norm.weight", "model.norm.weight"},
    {"bert", "token_embd_norm.weight", "model.embed_norm.weight"},
    {"lfm2", "blk.3.shortconv.conv.weight", "model.layers.3.mixer.conv1d.weight"},
    {"lfm2moe", "blk.3.exp_probs_b.bias", "model.layers.3.mlp.gate.e_score_correction_bias"},
    {"nemotron_h_moe", "blk.3.ffn_up_shexp.weight",
     "model.layers.3.mlp.shared_expert.up_proj.weight"},
    {"nemotron_h_moe", "blk.3.ffn_latent_up.weight", "model.layers.3.mlp.fc2_latent_proj.weight"},
    {"qwen35", "blk.3.ssm_a", "model.layers.3.linear_attn.A"},
    {"qwen35", "blk.3.ssm_dt.bias", "model.layers.3.linear_attn.dt_bias"},
    {"qwen35", "blk.3.attn_qkv.weight", "model.layers.3.linear_attn.in_proj_qkv.weight"},
    {"qwen3next", "blk.3.ssm_ba.weight", "model.layers.3.linear_attn.in_proj_ba.weight"},
    {"phi2", "blk.3.attn_qkv.weight", "model.layers.3.self_attn.qkv_proj.weight"},
    {"llama", "blk.x.ffn_up.weight", "blk.x.ffn_up.weight"},
    {"llama", "blk.3.unknown.weight", "blk.3.unknown.weight"},
    {"llama", "blk.3..weight", "blk.3..weight"},
    {"llama", "blk.3.weight", "blk.3.weight"},
    {"llama", "output", "output"},
};

static void names(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof(name_cases) / sizeof(*name_cases); i++) {
        const name_case *c = &name_cases[i];
        bytes b = {0};
        const char *canonical = NULL;
        put_gguf_head(&b, 3, 1, 1);
        put_kv_string(&b, "general.architecture", c->arch);
        put_info(&b, c->file, 1, (uint64_t[]){1}, GGUF_F32, 0);
        pad_to(&b, 32);
        put_u32(&b, 0);
        gguf_file *f = parse(&b);
        weight_store *store = open_store(f, NULL);
        assert_int_equal(mica_weights_count(store), 1);
        assert_string_equal(mica_weights_at(store, 0, &canonical)->name, c->file);
        assert_string_equal(canonical, c->canonical);
        assert_true(mica_weights_has(store, c->canonical));
        assert_true(mica_weights_is_gguf(store));
        mica_weights_close(store);
        mica_gguf_close(f);
        bytes_free(&b);
    }
}

/* token_embd [4, 32] Q8_0, output_norm [32] f32, blk.0.attn_q.bias [3] f32, blk.0.odd [1] i32 */
static void put_small_model(bytes *b, const char *extra) {
    put_gguf_head(b, 3, 4, 1);
    put_kv_string(b, "general.architecture", "llama");
    put_info(b, "token_embd.weight", 2, (uint64_t[]){32, 4}, GGUF_Q8_0, 0);
    put_info(b, "output_norm.weight", 1, (uint64_t[]){32}, GGUF_F32, 160);
    put_info(b, "blk.0.attn_q.bias", 1, (uint64_t[]){3}, GGUF_F32, 288);
    put_info(b, extra, 1, (uint64_t[]){1}, GGUF_I32, 320);
    pad_to(b, 32);
    for (int i = 0; i < 324; i++)
        put_u8(b, (uint8_t)(i & 31));
}

/* Takes the embedding as [n_out, n_in] (rank 3 if n_experts) and expects an error. */
static void expect_bad(weight_store *store, const char *path, int64_t n_experts, int64_t n_out,
                       int64_t n_in, mica_status status, const char *part) {
    const weight_matrix *m = NULL;
    mica_error err = {0};
    mica_status st = mica_weights_matrix(store, path, n_experts, n_out, n_in, &m, &err);
    if (st != status || !strstr(err.message, part))
        fail_msg("expected '%s': status %d, message '%s'", part, (int)st, err.message);
    assert_null(m);
}

static void shapes(void **state) {
    (void)state;
    bytes b = {0};
    put_small_model(&b, "blk.0.odd.weight");
    gguf_file *f = parse(&b);
    weight_store *store = open_store(f, NULL);
    const weight_matrix *m = NULL, *again = NULL;
    const char *e = "model.embed_tokens";
    expect_bad(store, e, 0, 5, 32, MICA_E_FORMAT, "shape [4, 32], expected [5, 32]");
    expect_bad(store, e, 0, 4, 31, MICA_E_FORMAT, "expected [4, 31]");
    expect_bad(store, e, 2, 4, 32, MICA_E_FORMAT, "expected [2, 4, 32]");
    expect_bad(store, e, -1, 4, 32, MICA_E_FORMAT, "expected [any, 4, 32]");
    expect_bad(store, "model.norm", 0, -1, 32, MICA_E_FORMAT, "shape [32], expected [any, 32]");
    expect_bad(store, "lm_head", 0, 4, 32, MICA_E_NOT_FOUND, "lm_head: no .weight tensor");
    assert_int_equal(mica_weights_matrix(store, e, 0, -1, -1, &m, NULL), MICA_OK);
    assert_string_equal(m->name, e);
    assert_int_equal(m->n_out, 4);
    assert_int_equal(mica_weights_matrix(store, e, 0, 4, 32, &again, NULL), MICA_OK);
    assert_ptr_equal(m, again);
    again = NULL;
    expect_bad(store, e, 0, 3, 32, MICA_E_FORMAT, "expected [3, 32]");
    assert_int_equal(mica_weights_rows(store, e), 4);
    assert_int_equal(mica_weights_rows(store, "model.norm"), 32);
    assert_int_equal(mica_weights_rows(store, "lm_head"), -1);
    mica_weights_close(store);
    mica_gguf_close(f);
    bytes_free(&b);
}

static void vectors(void **state) {
    (void)state;
    bytes b = {0};
    put_small_model(&b, "blk.0.odd.weight");
    gguf_file *f = parse(&b);
    weight_store *store = open_store(f, NULL);
    const weight_vector *v = NULL, *again = NULL;
    mica_error err = {0};
    assert_int_equal(mica_weights_vector(store, "model.norm.weight", 32, &v, &err), MICA_OK);
    assert_string_equal(v->name, "model.norm.weight");
    assert_int_equal(v->n, 32);
    assert_int_equal(v->dtype, MICA_F32);
    assert_int_equal(((const uint8_t *)v->data)[5], 5);
    assert_int_equal(mica_weights_vector(store, "model.norm.weight", -1, &again, &err), MICA_OK);
    assert_ptr_equal(v, again);
    assert_int_equal(mica_weights_vector(store, "model.norm.weight", 31, &v, &err), MICA_E_FORMAT);
    assert_non_null(strstr(err.message, "shape [32], expected [31]"));
    assert_int_equal(mica_weights_vector(store, "absent.weight", 1, &v, &err), MICA_E_NOT_FOUND);
    assert_non_null(strstr(err.message, "no tensor named absent.weight"));
    assert_int_equal(mica_weights_vector(store, "blk.0.odd.weight", 1, &v, &err),
                     MICA_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "I32"));
    assert_int_equal(mica_weights_vector(store, "model.embed_tokens.weight", -1, &v, &err),
                     MICA_E_UNSUPPORTED);
    mica_weights_close(store);
    mica_gguf_close(f);
    bytes_free(&b);
}

static void audit(void **state) {
    (void)state;
    bytes b = {0};
    put_small_model(&b, "blk.0.odd.weight");
    gguf_file *f = parse(&b);
    weight_store *store = open_store(f, NULL);
    const weight_matrix *m = NULL;
    mica_error err = {0};
    assert_int_equal(mica_weights_audit(store, &err), MICA_E_FORMAT);
    assert_non_null(strstr(err.message, "4 tensors"));
    mica_weights_matrix(store, "model.embed_tokens", 0, -1, -1, &m, NULL);
    mica_weights_drop(store, "model.layers.0.self_attn.");
    mica_weights_drop(store, "blk.");
    assert_int_equal(mica_weights_audit(store, &err), MICA_E_FORMAT);
    assert_non_null(strstr(err.message, "1 tensor"));
    assert_non_null(strstr(err.message, "output_norm.weight"));
    mica_weights_drop(store, "model.norm.");
    assert_int_equal(mica_weights_audit(store, &err), MICA_OK);
    mica_weights_close(store);
    mica_gguf_close(f);
    bytes_free(&b);
}

static void two_names_for_one(void **state) {
    (void)state;
    bytes b = {0};
    weight_store *store = NULL;
    mica_error err = {0};
    put_small_model(&b, "model.norm.weight"); /* what output_norm.weight is called, too */
    gguf_file *f = parse(&b);
    assert_int_equal(mica_weights_open_gguf(&store, f, NULL, &err), MICA_E_FORMAT);
    assert_non_null(strstr(err.message, "two tensors mean 'model.norm.weight'"));
    assert_null(store);
    mica_gguf_close(f);
    bytes_free(&b);
}

static void count_progress(void *user, uint64_t done, uint64_t total) {
    uint64_t *seen = user;
    assert_true(done > seen[0] && done <= total);
    seen[0] = done;
    seen[1] = total;
}

static void progress_and_size(void **state) {
    (void)state;
    enum { N_IN = 4096, N_OUT = 4096 }; /* 9.4 MB of Q4_K: several chunks */
    bytes b = {0};
    uint64_t seen[2] = {0, 0};
    weight_options options = {.progress = count_progress, .user = seen};
    const weight_matrix *m = NULL;
    put_gguf_head(&b, 3, 1, 0);
    put_info(&b, "m.weight", 2, (uint64_t[]){N_IN, N_OUT}, GGUF_Q4_K, 0);
    pad_to(&b, 32);
    size_t n = (size_t)N_IN / 256 * N_OUT * 144, start = b.n;
    put_fill(&b, 0, n);
    for (size_t i = 0; i < n; i++)
        b.data[start + i] = (uint8_t)(i * 2654435761u >> 13);
    gguf_file *f = parse(&b);
    weight_store *store = open_store(f, &options);
    assert_int_equal(mica_weights_matrix(store, "m", 0, N_OUT, N_IN, &m, NULL), MICA_OK);
    assert_int_equal(seen[0], n);
    assert_int_equal(seen[1], n);
    /* A block far inside, decoded here by the rule of the format: element 40 of a block is the high
     * nibble of byte 8 of its codes, in sub-block 1. */
    const uint8_t *block = b.data + start + ((size_t)3000 * 16 + 7) * 144;
    float d = mica_load_f(block, MICA_F16, 0), dmin = mica_load_f(block, MICA_F16, 1);
    float s = d * (float)(block[4 + 1] & 63), low = dmin * (float)(block[4 + 5] & 63);
    float row[N_IN];
    mica_weight_row(m, 3000, row);
    float expected = s * (float)(block[16 + 8] >> 4) + -low, got = row[7 * 256 + 40];
    assert_memory_equal(&expected, &got, 4);
    mica_weights_close(store);
    mica_gguf_close(f);
    bytes_free(&b);
}

/* ---- panels: the rows of every type, laid out again from rows that lie one after the other ----
 */

static void check_panels(gguf_type type, const uint8_t *blocks) {
    enum { ROWS = 32, ROW_BLOCKS = 3 };
    weight_form form;
    repack_plan rows, panels;
    size_t off[REPACK_STREAMS], size[REPACK_STREAMS];
    assert_true(mica_gguf_form(type, &form));
    assert_true(mica_repack_plan(type, ROWS * ROW_BLOCKS, &rows));
    panels = rows;
    panels.row_blocks = ROW_BLOCKS;
    uint8_t *a = calloc(3, rows.n_bytes), *b = a + rows.n_bytes, *c = b + rows.n_bytes;
    uint64_t half = ROWS / 2 * ROW_BLOCKS, block = mica_gguf_block((uint32_t)type).n_bytes;
    mica_repack(type, blocks, 0, ROWS * ROW_BLOCKS, &rows, a);
    mica_repack(type, blocks + half * block, half, half, &panels, b); /* in any order */
    mica_repack(type, blocks, 0, half, &panels, b);
    mica_repack_streams(type, &rows, off, size);
    for (int i = 0; i < REPACK_STREAMS; i++) {
        size_t word = i == 0 ? 4 : i < 3 ? mica_weight_scale_word(&form) : 2;
        if (size[i]) mica_panel_fill(a + off[i], ROW_BLOCKS * size[i], word, ROWS, c + off[i]);
    }
    assert_memory_equal(b, c, rows.n_bytes);
    free(a);
}

static void panels_of_types(void **state) {
    (void)state;
    uint8_t *blocks = malloc(32 * 3 * 512);
    uint32_t x = 1;
    for (size_t i = 0; i < 32 * 3 * 512; i++)
        blocks[i] = (uint8_t)((x = x * 1664525u + 1013904223u) >> 24);
    int n_types = 0;
    for (int type = 0; type <= GGUF_MXFP4; type++) {
        weight_form form;
        if (!mica_gguf_form((gguf_type)type, &form) || form.kind == WEIGHT_DENSE) continue;
        check_panels((gguf_type)type, blocks);
        n_types++;
    }
    assert_int_equal(n_types, 13);
    free(blocks);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_blocks),
        cmocka_unit_test(golden_experts),
        cmocka_unit_test(names),
        cmocka_unit_test(shapes),
        cmocka_unit_test(vectors),
        cmocka_unit_test(audit),
        cmocka_unit_test(two_names_for_one),
        cmocka_unit_test(progress_and_size),
        cmocka_unit_test(panels_of_types),
    };
    return cmocka_run_group_tests_name("weights_gguf", tests, NULL, NULL);
}
