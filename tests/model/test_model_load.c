/* test_model_load.c: the tiny checkpoints from disk to graph, and folders that must be refused.
 *
 * A bad folder is a link to the tensors of a good one beside a config of its own, so that the
 * config and the tensors disagree in exactly one way.
 */
#include "cmocka_base.h"

#include "bytes.h"

#include <dirent.h>
#include <math.h>

#include "fault_alloc.h"
#include "model/loaded.h"

/* tests/golden/tiny/llama-plain: one layer, untied, dense bf16. */
#define PLAIN                                                                 \
    "\"hidden_size\":64,\"num_attention_heads\":4,\"num_key_value_heads\":4," \
    "\"rms_norm_eps\":0.01,\"max_position_embeddings\":256"
#define SIZES PLAIN ",\"num_hidden_layers\":1,\"intermediate_size\":96,\"vocab_size\":64"

typedef struct notes {
    int n;
    char last[512];
} notes;

static void note(void *user, const char *message) {
    notes *n = user;
    n->n++;
    snprintf(n->last, sizeof(n->last), "%s", message);
}

enum { PATH_BYTES = 2048 };

static void golden_path(char out[PATH_BYTES], const char *name) {
    snprintf(out, PATH_BYTES, "%s/tiny/%s", GOLDEN_DIR, name);
}

static void load_golden(model **out, const char *name) {
    char path[PATH_BYTES];
    mica_error err;
    golden_path(path, name);
    if (mica_model_load(out, path, NULL, &err)) fail_msg("%s", err.message);
}

/* A folder of tiny/ is a model folder, or holds model.gguf (`file`), or is something else. */
static bool load_if_model(model **out, const char *name, const char *file) {
    char path[PATH_BYTES];
    golden_path(path, file);
    bool is_gguf = access(path, R_OK) == 0;
    if (is_gguf) load_golden(out, file);
    golden_path(path, name);
    strncat(path, "/config.json", sizeof(path) - strlen(path) - 1);
    if (!is_gguf && access(path, R_OK) != 0) return false;
    if (!is_gguf) load_golden(out, name);
    return true;
}

static void build(model *m, model_graph *mg, bool force, mica_dtype dtype) {
    mica_error err;
    model_build_options options = {
        .force_dtype = force, .dtype = dtype, .cache_dtype = MICA_BF16, .n_blocks = 4};
    if (mica_model_build(m, &options, mg, &err)) fail_msg("%s", err.message);
}

static int n_ops(const graph *g, graph_op op) {
    int n = 0;
    for (int32_t i = 0; i < g->n_nodes; i++)
        n += g->nodes[i].op == op;
    return n;
}

/* What every graph promises to those who bind it. */
static void check_graph(const model *m, const model_graph *mg, const char *name) {
    const model_config *c = mica_model_config(m);
    const graph_node *out = &mg->g.nodes[mg->g.outputs[0]];
    if (mg->g.n_outputs != 1 || out->type.n_dims != 2 || out->type.dim[0].sym != GRAPH_LOGITS ||
        out->type.dim[1].n != c->vocab_size)
        fail_msg("%s: the output is not [LOGITS, vocab]", name);
    int n_attention = 0, n_states = 0;
    int64_t n_shared = c->gemma.n_shared;
    for (int64_t i = 0; i < c->n_layers; i++) {
        n_attention += mica_config_attends(c, i);
        n_states += c->mixer[i] != MIXER_ATTENTION && c->mixer[i] != MIXER_NONE;
    }
    if (mg->n_caches != n_attention - n_shared) fail_msg("%s: %d caches", name, mg->n_caches);
    for (int i = 0; i < mg->n_caches; i++) {
        int64_t own = c->gemma.layers ? c->gemma.layers[i].head_dim : c->head_dim;
        int64_t rank = c->mla.kv_rank; /* of the latent, which stands for keys and values */
        int64_t k_dim = rank ? rank + c->mla.rope_dim : own, v_dim = rank ? rank : own;
        if (mg->windows[mg->caches[i].group] != c->window[i] ||
            mg->caches[i].layout.head_dim != k_dim || mg->caches[i].layout.v_head_dim != v_dim ||
            mg->caches[i].layout.v_in_k != (rank > 0))
            fail_msg("%s: cache %d", name, i);
    }
    assert_int_equal(mg->windows[0], c->window[0]);
    assert_int_equal(n_ops(&mg->g, OP_ROPE_ANGLES), c->n_ropes);
    assert_int_equal(n_ops(&mg->g, OP_ATTENTION), n_attention);
    assert_int_equal(mg->state_bytes > 0, n_states > 0);
    assert_int_equal(mg->g.n_inputs, 6 + 2 * mg->n_groups + (mg->state_bytes ? 3 : 0) +
                                         (mg->rope_periods[0] >= 0) + (mg->rope_periods[1] >= 0));
    for (int32_t i = 0; i < mg->g.n_nodes; i++) {
        const graph_node *n = &mg->g.nodes[i];
        bool plain = n->op == OP_VIEW || n->op == OP_ADD;
        if (!n->name && !plain) fail_msg("%s: a %s has no name", name, mica_graph_op_name(n->op));
    }
}

static void test_all(void **state) {
    (void)state;
    char folder[PATH_BYTES];
    golden_path(folder, ".");
    DIR *dir = opendir(folder);
    int n = 0;
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));) {
        model *m = NULL;
        model_graph mg;
        char file[1024];
        snprintf(file, sizeof(file), "%s/model.gguf", e->d_name);
        if (e->d_name[0] == '.' || !load_if_model(&m, e->d_name, file)) continue;
        build(m, &mg, false, MICA_F32);
        check_graph(m, &mg, e->d_name);
        /* promotion gives the embedding's dtype, since these files do not mix */
        assert_int_equal(mg.g.nodes[mg.g.outputs[0]].type.dtype, mica_model_config(m)->dtype);
        mica_model_graph_deinit(&mg);
        build(m, &mg, true, MICA_F32);
        check_graph(m, &mg, e->d_name);
        assert_int_equal(mg.g.nodes[mg.g.outputs[0]].type.dtype, MICA_F32);
        mica_model_graph_deinit(&mg);
        mica_model_close(m);
        n++;
    }
    closedir(dir);
    assert_true(n >= 60);
}

static void test_groups(void **state) {
    (void)state;
    model *m = NULL;
    model_graph mg;
    load_golden(&m, "gemma3-nested"); /* sliding, full, sliding */
    build(m, &mg, false, MICA_F32);
    assert_int_equal(mg.n_groups, 2);
    assert_int_equal(mg.windows[0], 8);
    assert_int_equal(mg.windows[1], 0);
    assert_int_equal(mg.caches[1].group, 1);
    assert_true(m->rope[0].position_scale == 0.5f); /* full layers: linear, factor 2 */
    assert_true(m->rope[1].position_scale == 1.0f);
    assert_true(m->rope[1].table[1] == powf(1e3f, 2.0f / 32.0f));
    mica_model_graph_deinit(&mg);
    mica_model_close(m);
}

/* The 1 of RMS+1 is added in the weight's dtype, or in f32 where all activations are f32. */
static void test_norms(void **state) {
    (void)state;
    model *m = NULL;
    mica_error err;
    const weight_vector *raw;
    const char *name = "model.layers.0.input_layernorm.weight";
    load_golden(&m, "gemma2-bf16");
    if (mica_weights_vector(m->store, name, 64, &raw, &err)) fail_msg("%s", err.message);
    norm_weight w = m->weights.layers[0].input_norm;
    assert_int_equal(raw->dtype, MICA_BF16);
    assert_int_equal(w.own->dtype, MICA_BF16);
    assert_int_equal(w.wide->dtype, MICA_F32);
    int n_rounded = 0;
    for (size_t i = 0; i < 64; i++) {
        float sum = 1.0f + mica_load_f(raw->data, MICA_BF16, i);
        float own = mica_load_f(w.own->data, MICA_BF16, i);
        assert_true(mica_load_f(w.wide->data, MICA_F32, i) == sum);
        assert_true(own == mica_round_to(sum, MICA_BF16));
        n_rounded += own != sum;
    }
    assert_true(n_rounded > 0);
    assert_true(m->config.embed_multiplier == 8.0f);
    assert_true(m->config.attention_scale == (float)(1.0 / sqrt(24.0)));
    mica_model_close(m);
    load_golden(&m, "gemma3-q8-g64-bf16");
    assert_true(m->config.embed_multiplier == 11.3125f); /* of sqrt(128) = 11.3137 */
    mica_model_close(m);
    mica_dtype stored = MICA_BF16;
    load_golden(&m, "gemma3-f32");
    assert_true(mica_weights_float_type(m->store, "model.embed_tokens", &stored));
    assert_int_equal(stored, MICA_F32);
    mica_model_close(m);
    load_golden(&m, "llama-plain");
    w = m->weights.layers[0].input_norm;
    assert_ptr_equal(w.own, w.wide);
    mica_model_close(m);
}

/* ---- folders made of llama-plain's tensors and another config ---- */

static void write_folder(scratch *s, const char *config) {
    char target[PATH_BYTES];
    golden_path(target, "llama-plain/model.safetensors");
    remove_file(s, "model.safetensors");
    assert_int_equal(symlink(target, scratch_path(s, "model.safetensors")), 0);
    write_text(s, "config.json", config);
}

static model *load_ok(scratch *s, const char *config, notes *n) {
    model *m = NULL;
    mica_error err;
    model_options options = {.warn = note, .user = n};
    write_folder(s, config);
    if (mica_model_load(&m, s->folder, &options, &err)) fail_msg("%s", err.message);
    return m;
}

static void expect_bad(scratch *s, const char *config, mica_status status, const char *part) {
    model *m = NULL;
    mica_error err = {0};
    write_folder(s, config);
    mica_status st = mica_model_load(&m, s->folder, NULL, &err);
    if (st != status || !strstr(err.message, part))
        fail_msg("expected '%s', found status %d '%s'", part, (int)st, st ? err.message : "");
    assert_null(m);
}

#define UNTIED "\"tie_word_embeddings\":false,"
#define LLAMA "{\"model_type\":\"llama\"," UNTIED

static void test_plain(void **state) {
    scratch *s = *state;
    notes n = {0};
    model *m = load_ok(s, LLAMA SIZES "}", &n);
    assert_int_equal(n.n, 0);
    assert_false(mica_model_config(m)->tied);
    assert_ptr_not_equal(m->weights.head.weight, m->weights.embed);
    assert_true(mica_model_file_bytes(m) > 0);
    assert_non_null(mica_model_folder(m));
    assert_null(mica_model_gguf(m));
    mica_model_close(m);
    /* a head that llama ties by default, but the file's is another: Transformers does not tie it */
    m = load_ok(s, "{\"model_type\":\"llama\"," SIZES "}", &n);
    assert_false(mica_model_config(m)->tied);
    assert_ptr_not_equal(m->weights.head.weight, m->weights.embed);
    assert_int_equal(n.n, 1);
    assert_non_null(strstr(n.last, "using lm_head"));
    mica_model_close(m);
}

static void test_tensors_win(void **state) {
    scratch *s = *state;
    notes n = {0};
    model *m = load_ok(s,
                       LLAMA PLAIN ",\"num_hidden_layers\":1,\"intermediate_size\":96,"
                                   "\"vocab_size\":50}",
                       &n);
    assert_int_equal(mica_model_config(m)->vocab_size, 64);
    assert_int_equal(n.n, 1);
    assert_non_null(strstr(n.last, "vocab_size is 50, but the embedding has 64 rows"));
    mica_model_close(m);
    /* a stale head_dim gives way to hidden_size / heads when q_proj agrees with that */
    m = load_ok(s, LLAMA SIZES ",\"head_dim\":32}", &n);
    assert_int_equal(mica_model_config(m)->head_dim, 16);
    mica_model_close(m);
}

static void test_bad_tensors(void **state) {
    scratch *s = *state;
    expect_bad(s,
               LLAMA PLAIN ",\"num_hidden_layers\":2,\"intermediate_size\":96,"
                           "\"vocab_size\":64}",
               MICA_E_NOT_FOUND, "model.layers.1.input_layernorm.weight");
    expect_bad(s,
               LLAMA PLAIN ",\"num_hidden_layers\":1,\"intermediate_size\":80,"
                           "\"vocab_size\":64}",
               MICA_E_FORMAT, "mlp.gate_proj");
    expect_bad(s, LLAMA SIZES ",\"attention_bias\":true}", MICA_E_NOT_FOUND,
               "model.layers.0.self_attn.q_proj.bias");
    expect_bad(s, LLAMA SIZES ",\"mlp_bias\":true}", MICA_E_NOT_FOUND, "mlp.gate_proj.bias");
    expect_bad(s, "{\"model_type\":\"qwen2\"," UNTIED SIZES "}", MICA_E_NOT_FOUND,
               "model.layers.0.self_attn.q_proj.bias");
    expect_bad(s, "{\"model_type\":\"qwen3\"," UNTIED SIZES "}", MICA_E_NOT_FOUND,
               "model.layers.0.self_attn.q_norm.weight");
    expect_bad(s,
               LLAMA "\"hidden_size\":64,\"num_attention_heads\":8,\"num_key_value_heads\":4,"
                     "\"head_dim\":16,\"rms_norm_eps\":0.01,\"num_hidden_layers\":1,"
                     "\"intermediate_size\":96,\"vocab_size\":64}",
               MICA_E_FORMAT, "self_attn.k_proj");
    expect_bad(s,
               LLAMA "\"hidden_size\":48,\"num_attention_heads\":2,\"num_key_value_heads\":2,"
                     "\"head_dim\":16,\"rms_norm_eps\":0.01,\"num_hidden_layers\":1,"
                     "\"intermediate_size\":96,\"vocab_size\":64}",
               MICA_E_FORMAT, "self_attn.q_proj.weight has 64 rows; expected 32");
}

/* Tensors that the configuration leaves over: the two layers of one file, described as one. */
static void test_audit(void **state) {
    scratch *s = *state;
    char target[PATH_BYTES];
    model *m = NULL;
    mica_error err;
    golden_path(target, "llama-bf16/model.safetensors");
    write_folder(s, "{}");
    remove_file(s, "model.safetensors");
    assert_int_equal(symlink(target, scratch_path(s, "model.safetensors")), 0);
    write_text(s, "config.json",
               "{\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":1,"
               "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":32,"
               "\"intermediate_size\":96,\"vocab_size\":64,\"rms_norm_eps\":1e-5}");
    mica_status st = mica_model_load(&m, s->folder, NULL, &err);
    if (st != MICA_E_FORMAT || !strstr(err.message, ": 9 tensors") ||
        !strstr(err.message, "model.layers.1."))
        fail_msg("status %d: %s", (int)st, st ? err.message : "");
}

static void test_bad_values(void **state) {
    scratch *s = *state;
    expect_bad(s, LLAMA SIZES ",\"rope_scaling\":{\"type\":\"spiral\",\"factor\":2}}",
               MICA_E_UNSUPPORTED, "Unsupported RoPE type spiral");
    expect_bad(s, LLAMA SIZES ",\"quantization_config\":{\"quant_method\":\"hqq\"}}",
               MICA_E_UNSUPPORTED, "hqq");
    expect_bad(s, "{\"model_type\":\"nonesuch\"}", MICA_E_UNSUPPORTED,
               "unsupported model_type \"nonesuch\"");
    expect_bad(s, "{\"model_type\":", MICA_E_FORMAT, "config.json");
    model *m = NULL;
    mica_error err;
    assert_int_equal(mica_model_load(&m, "/nonexistent/model", NULL, &err), MICA_E_NOT_FOUND);
    assert_non_null(strstr(err.message, "/nonexistent/model"));
}

/* Ropes that depend on the length: the table becomes an input, filled for each row. */
static void test_rope_input(void **state) {
    scratch *s = *state;
    notes n = {0};
    model_graph mg;
    model *m = load_ok(s,
                       LLAMA SIZES ",\"rope_scaling\":{\"type\":\"longrope\","
                                   "\"original_max_position_embeddings\":64,"
                                   "\"long_factor\":[4,4,4,4,4,4,4,4],"
                                   "\"short_factor\":[1,1,1,1,1,1,1,1]}}",
                       &n);
    build(m, &mg, false, MICA_F32);
    assert_true(mg.rope_periods[0] >= 0);
    assert_int_equal(mg.rope_periods[1], -1);
    float periods[8];
    mica_model_rope_periods(m, 0, 10, 3, periods);
    assert_true(periods[0] == 1.0f);
    mica_model_rope_periods(m, 0, 65, 3, periods); /* a long prompt: all rows */
    assert_true(periods[0] == 4.0f);
    mica_model_rope_periods(m, 0, 10, 63, periods);
    assert_true(periods[0] == 1.0f);
    mica_model_rope_periods(m, 0, 10, 64, periods); /* the row that crosses */
    assert_true(periods[0] == 4.0f);
    mica_model_graph_deinit(&mg);
    mica_model_close(m);
    m = load_ok(s, LLAMA SIZES "}", &n);
    build(m, &mg, false, MICA_F32);
    assert_int_equal(mg.rope_periods[0], -1);
    mica_model_graph_deinit(&mg);
    mica_model_close(m);
}

/* Every allocation of loading and building made to fail in turn. */
static void test_out_of_memory(void **state) {
    (void)state;
    char path[PATH_BYTES];
    golden_path(path, "gemma3-f32");
    long live = fault_alloc_live();
    model_build_options options = {.cache_dtype = MICA_F32, .n_blocks = 4};
    for (long fail_at = 1;; fail_at++) {
        model *m = NULL;
        model_graph mg;
        mica_error err = {0};
        fault_alloc_arm(fail_at);
        mica_status st = mica_model_load(&m, path, NULL, &err);
        if (!st) {
            st = mica_model_build(m, &options, &mg, &err);
            if (!st) mica_model_graph_deinit(&mg);
            mica_model_close(m);
        }
        long calls = fault_alloc_calls();
        fault_alloc_arm(0);
        if (fault_alloc_live() != live) fail_msg("allocation %ld: memory is lost", fail_at);
        if (st && st != MICA_E_NOMEM)
            fail_msg("allocation %ld: status %d '%s'", fail_at, (int)st, err.message);
        if (calls < fail_at) {
            assert_int_equal(st, MICA_OK);
            break;
        }
    }
}

static int setup(void **state) {
    scratch *s = calloc(1, sizeof(*s));
    make_scratch(s);
    *state = s;
    return 0;
}

static int teardown(void **state) {
    static const char *const names[] = {"config.json", "model.safetensors"};
    scratch *s = *state;
    remove_scratch(s, names, 2);
    free(s);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_norms),
        cmocka_unit_test_setup_teardown(test_plain, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tensors_win, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_tensors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_audit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_values, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rope_input, setup, teardown),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
