/* test_weights_folder.c: matrices of safetensors folders: every form that mlx writes against mlx's
 * own dequantizer (tests/golden/mlx_weights), the quantization map, prefixes, and what must be
 * refused.
 */
#include "golden.h"

#include "weights/weights.h"

/* ---- golden ---- */

static const float *floats_of(const weight_store *store, const char *name, int64_t *n) {
    const weight_vector *v = NULL;
    mica_error err = {0};
    if (mica_weights_vector((weight_store *)store, name, -1, &v, &err)) fail_msg("%s", err.message);
    assert_int_equal(v->dtype, MICA_F32);
    *n = v->n;
    return v->data;
}

static void check_module(weight_store *store, const char *module) {
    char path[128], name[128];
    const weight_matrix *m = NULL;
    mica_error err = {0};
    int64_t n = 0;
    snprintf(path, sizeof(path), "m.%s", module);
    snprintf(name, sizeof(name), "expected.%s", module);
    const float *expected = floats_of(store, name, &n);
    bool experts = !strcmp(module, "experts");
    if (mica_weights_matrix(store, path, experts ? 2 : 0, 3, 256, &m, &err))
        fail_msg("%s", err.message);
    assert_int_equal(n, m->n_experts * m->n_out * m->n_in);
    float row[256];
    for (int64_t r = 0; r < m->n_experts * m->n_out; r++) {
        mica_weight_row(m, r, row);
        for (int64_t i = 0; i < 256; i++)
            if (!(row[i] == expected[r * 256 + i]))
                fail_msg("%s row %d element %d: %.9g, expected %.9g", module, (int)r, (int)i,
                         (double)row[i], (double)expected[r * 256 + i]);
    }
    bool has = false;
    mica_dtype dtype = mica_weight_dtype(m, &has);
    assert_true(has);
    if (strstr(module, "_f16")) assert_int_equal(dtype, MICA_F16);
    if (strstr(module, "_bf16")) assert_int_equal(dtype, MICA_BF16);
    if (strstr(module, "_f32")) assert_int_equal(dtype, MICA_F32);
    if (strstr(module, "fp")) assert_int_equal(dtype, MICA_BF16);
}

static void golden_mlx(void **state) {
    (void)state;
    hf_folder *folder = NULL;
    weight_store *store = NULL;
    mica_error err = {0};
    if (mica_folder_open(&folder, GOLDEN "/mlx_weights", &err)) fail_msg("%s", err.message);
    assert_int_equal(mica_folder_open_tensors(folder, &err), MICA_OK);
    assert_int_equal(mica_weights_open_folder(&store, folder, NULL, &err), MICA_OK);
    if (mica_weights_set_quantization(store, mica_folder_config(folder), &err))
        fail_msg("%s", err.message);
    int n_modules = 0;
    for (size_t i = 0; i < mica_folder_n_tensors(folder); i++) {
        const char *name = mica_folder_tensor(folder, i)->name;
        if (strncmp(name, "expected.", 9) != 0) continue;
        check_module(store, name + 9);
        n_modules++;
    }
    assert_int_equal(n_modules, 22);
    assert_int_equal(mica_weights_audit(store, &err), MICA_OK);
    mica_weights_close(store);
    mica_folder_close(folder);
}

/* ---- a folder of one quantized module ---- */

typedef struct folder_case {
    const char *config;  /* the whole config.json */
    const char *tensors; /* header of the shard */
    const char *path;
    int64_t n_in;
    mica_status status;
    const char *text; /* the form, or a part of the message */
    int n_warnings;
} folder_case;

#define TENSOR(name, dtype, shape, a, b) \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #a "," #b "]}"
/* 2 rows of 64 elements at 4 bits, groups of 32 */
#define MODULE(m)                              \
    TENSOR(m ".weight", "U32", "[2,8]", 0, 64) \
    "," TENSOR(m ".scales", "F16", "[2,2]", 64, 72) "," TENSOR(m ".biases", "F16", "[2,2]", 72, 80)
#define FP_MODULE(m, dtype) \
    TENSOR(m ".weight", "U32", "[2,8]", 0, 64) "," TENSOR(m ".scales", dtype, "[2,2]", 64, 68)
#define MAP(inner) "{\"quantization\":{" inner "}}"

static const folder_case folder_cases[] = {
    {MAP("\"bits\":4,\"group_size\":32"), MODULE("m"), "m", 64, MICA_OK, "q4 g32 f16", 0},
    {MAP("\"bits\":4,\"group_size\":32"), MODULE("m"), "m", -1, MICA_OK, "q4 g32 f16", 0},
    {"{\"quantization_config\":{\"bits\":4,\"group_size\":32}}", MODULE("m"), "m", 64, MICA_OK,
     "q4 g32 f16", 0},
    {"{\"text_config\":{\"quantization\":{\"bits\":4,\"group_size\":32}}}", MODULE("m"), "m", 64,
     MICA_OK, "q4 g32 f16", 0},
    /* an entry of the module; it does not inherit: without group_size it means 64 */
    {MAP("\"bits\":8,\"group_size\":128,\"m\":{\"bits\":4,\"group_size\":32}"), MODULE("m"), "m",
     64, MICA_OK, "q4 g32 f16", 0},
    {MAP("\"bits\":8,\"group_size\":32,\"m\":{\"bits\":4}"), MODULE("m"), "m", -1, MICA_E_FORMAT,
     "do not agree with 4 bits in groups of 64", 0},
    {MAP("\"bits\":4,\"group_size\":32,\"m\":true"), MODULE("m"), "m", 64, MICA_OK, "q4 g32 f16",
     0},
    {MAP("\"bits\":4,\"group_size\":32,\"m\":false"), MODULE("m"), "m", 64, MICA_E_FORMAT,
     "no quant spec", 0},
    {MAP("\"bits\":4,\"group_size\":32,\"m\":{}"), MODULE("m"), "m", 64, MICA_E_FORMAT,
     "no quant spec", 0},
    {"{}", MODULE("m"), "m", 64, MICA_E_FORMAT, "no quant spec", 0},
    /* shapes win over a wrong map, with a warning */
    {MAP("\"bits\":8,\"group_size\":32"), MODULE("m"), "m", 64, MICA_OK, "q4 g32 f16", 1},
    /* without n_in, 2 bits in groups of 64 would fit as well */
    {MAP("\"bits\":8,\"group_size\":32"), MODULE("m"), "m", -1, MICA_E_FORMAT, "do not agree", 0},
    {MAP("\"bits\":8,\"group_size\":64"), MODULE("m"), "m", 64, MICA_OK, "q4 g32 f16", 1},
    {MAP("\"bits\":4,\"group_size\":32"), MODULE("m"), "m", 96, MICA_E_FORMAT, "do not agree", 0},
    /* the model's canonical path finds an entry under the file's own name, and the reverse */
    {MAP("\"bits\":8,\"group_size\":32,\"language_model.model.m\":{\"bits\":4,\"group_size\":32}"),
     MODULE("language_model.model.m") "," TENSOR("language_model.model.embed_tokens.weight", "F16",
                                                 "[2,2]", 80, 88),
     "model.m", 64, MICA_OK, "q4 g32 f16", 0},
    {MAP("\"bits\":8,\"group_size\":32,\"model.m\":{\"bits\":4,\"group_size\":32}"),
     MODULE("language_model.model.m") "," TENSOR("language_model.model.embed_tokens.weight", "F16",
                                                 "[2,2]", 80, 88),
     "model.m", 64, MICA_OK, "q4 g32 f16", 0},
    /* fp modes */
    {MAP("\"mode\":\"mxfp4\""), FP_MODULE("m", "U8"), "m", 64, MICA_OK, "e2m1 g32 e8m0", 0},
    {MAP("\"mode\":\"mxfp4\",\"group_size\":32,\"bits\":4"), FP_MODULE("m", "U8"), "m", 64, MICA_OK,
     "e2m1 g32 e8m0", 0},
    {"{\"quantization_config\":{\"quant_method\":\"mxfp4\"}}", FP_MODULE("m", "U8"), "m", 64,
     MICA_OK, "e2m1 g32 e8m0", 0},
    {MAP("\"bits\":4,\"group_size\":32"), FP_MODULE("m", "U8"), "m", 64, MICA_OK, "e2m1 g32 e8m0",
     1},
    {MAP("\"mode\":\"mxfp4\""), FP_MODULE("m", "U8") "," TENSOR("m.biases", "U8", "[2,2]", 68, 72),
     "m", 64, MICA_E_FORMAT, "m.biases", 0},
    {MAP("\"mode\":\"mxfp4\""),
     FP_MODULE("m", "U8") "," TENSOR("m.global_scale", "F32", "[1]", 68, 72), "m", 64,
     MICA_E_FORMAT, "m.global_scale", 0},
    /* maps that must be refused */
    {MAP("\"mode\":\"mystery\""), MODULE("m"), "m", 64, MICA_E_UNSUPPORTED, "'mystery'", 0},
    {MAP("\"bits\":7,\"group_size\":32"), MODULE("m"), "m", 64, MICA_E_UNSUPPORTED, "7 bits", 0},
    {MAP("\"bits\":4,\"group_size\":48"), MODULE("m"), "m", 64, MICA_E_UNSUPPORTED, "48", 0},
    {MAP("\"bits\":\"4\""), MODULE("m"), "m", 64, MICA_E_UNSUPPORTED, "bits", 0},
    {MAP("\"mode\":\"mxfp4\",\"group_size\":64"), MODULE("m"), "m", 64, MICA_E_UNSUPPORTED, "64",
     0},
    {MAP("\"quantize_activations\":true"), MODULE("m"), "m", 64, MICA_E_UNSUPPORTED,
     "quantize_activations", 0},
    {MAP("\"x\":{\"mode\":\"q\"}"), MODULE("m"), "m", 64, MICA_E_UNSUPPORTED, "'q'", 0},
    {"{\"quantize_activations\":true}", MODULE("m"), "m", 64, MICA_E_UNSUPPORTED,
     "quantize_activations", 0},
    {"{\"quantization\":[]}", MODULE("m"), "m", 64, MICA_E_FORMAT, "object", 0},
    /* tensors that do not belong together */
    {MAP("\"bits\":4,\"group_size\":32"), FP_MODULE("m", "I8"), "m", 64, MICA_E_UNSUPPORTED, "i8",
     0},
    {MAP("\"bits\":4,\"group_size\":32"),
     TENSOR("m.weight", "U32", "[2,8]", 0, 64) "," TENSOR("m.scales", "F16", "[2,2]", 64, 72), "m",
     64, MICA_E_NOT_FOUND, "no biases", 0},
    {MAP("\"bits\":4,\"group_size\":32"),
     TENSOR("m.weight", "U32", "[2,8]", 0, 64) "," TENSOR(
         "m.scales", "F16", "[2,2]", 64, 72) "," TENSOR("m.biases", "BF16", "[2,2]", 72, 80),
     "m", 64, MICA_E_FORMAT, "m.biases differs", 0},
    {MAP("\"bits\":4,\"group_size\":32"),
     TENSOR("m.weight", "U32", "[2,8]", 0, 64) "," TENSOR(
         "m.scales", "F16", "[1,4]", 64, 72) "," TENSOR("m.biases", "F16", "[1,4]", 72, 80),
     "m", 64, MICA_E_FORMAT, "as many rows", 0},
    {MAP("\"bits\":4,\"group_size\":32"),
     TENSOR("m.weight", "F32", "[2,8]", 0, 64) "," TENSOR("m.scales", "F16", "[2,2]", 64, 72), "m",
     64, MICA_E_FORMAT, "no packed u32", 0},
    {MAP("\"bits\":4,\"group_size\":32"),
     TENSOR("m.weight", "U32", "[2,8]", 0, 64) "," TENSOR(
         "m.scales", "F16", "[2,0]", 64, 64) "," TENSOR("m.biases", "F16", "[2,0]", 64, 64),
     "m", -1, MICA_E_FORMAT, "do not agree", 0},
    /* dense */
    {"{}", TENSOR("m.weight", "BF16", "[2,8]", 0, 32), "m", 8, MICA_OK, "bf16", 0},
    {"{}", TENSOR("m.weight", "U32", "[2,8]", 0, 64), "m", 8, MICA_E_UNSUPPORTED, "u32", 0},
    {"{}", TENSOR("m.weight", "F32", "[2,8]", 0, 64), "m", 9, MICA_E_FORMAT, "expected [2, 9]", 0},
    {"{}", TENSOR("m.weight", "F32", "[0,8]", 0, 0), "m", 8, MICA_E_FORMAT, "shape [0, 8]", 0},
};

static void count_warning(void *user, const char *message) {
    assert_non_null(strstr(message, "config.json"));
    ++*(int *)user;
}

typedef struct opened {
    scratch s;
    hf_folder *folder;
    weight_store *store;
    int n_warnings;
    weight_options options;
} opened;

static void open_sized(opened *o, const char *config, const char *tensors, size_t n_data,
                       bool defer) {
    mica_error err = {0};
    bytes b = {0};
    char header[1024];
    make_scratch(&o->s);
    write_text(&o->s, "config.json", config);
    snprintf(header, sizeof(header), "{%s}", tensors);
    put_safetensors(&b, header, n_data);
    write_scratch(&o->s, "model.safetensors", b.data, b.n, 0);
    bytes_free(&b);
    o->options = (weight_options){.warn = count_warning, .user = &o->n_warnings, .defer = defer};
    if (mica_folder_open(&o->folder, o->s.folder, &err)) fail_msg("%s", err.message);
    if (mica_folder_open_tensors(o->folder, &err)) fail_msg("%s", err.message);
    if (mica_weights_open_folder(&o->store, o->folder, &o->options, &err))
        fail_msg("%s", err.message);
}

static void open_folder(opened *o, const char *config, const char *tensors) {
    open_sized(o, config, tensors, 128, false);
}

static void close_folder(opened *o) {
    static const char *const names[] = {"config.json", "model.safetensors"};
    mica_weights_close(o->store);
    mica_folder_close(o->folder);
    remove_scratch(&o->s, names, 2);
}

static void run_case(const folder_case *c) {
    opened o = {0};
    mica_error err = {0};
    const weight_matrix *m = NULL;
    char text[64];
    open_folder(&o, c->config, c->tensors);
    mica_status st = mica_weights_set_quantization(o.store, mica_folder_config(o.folder), &err);
    if (!st) st = mica_weights_matrix(o.store, c->path, 0, 2, c->n_in, &m, &err);
    if (st != c->status) fail_msg("%s: status %d: %s", c->config, (int)st, err.message);
    if (st) {
        if (!strstr(err.message, c->text)) fail_msg("%s: %s", c->config, err.message);
    } else {
        mica_weight_form_text(&m->form, text, sizeof(text));
        assert_string_equal(text, c->text);
    }
    assert_int_equal(o.n_warnings, c->n_warnings);
    close_folder(&o);
}

static void quantization_maps(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof(folder_cases) / sizeof(*folder_cases); i++)
        run_case(&folder_cases[i]);
}

/* ---- names ---- */

static void expect_canonical(const char *embedding, const char *file, const char *canonical) {
    opened o = {0};
    char tensors[512];
    snprintf(tensors, sizeof(tensors),
             "\"%s\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[1,5]},"
             "\"%s\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[5,9]}",
             embedding, file);
    open_folder(&o, "{}", tensors);
    assert_true(mica_weights_has(o.store, "model.embed_tokens.weight"));
    assert_int_equal(mica_weights_has(o.store, canonical), *canonical != 0);
    const char *name = NULL;
    assert_int_equal(mica_weights_count(o.store), 2);
    mica_weights_at(o.store, 1, &name);
    assert_string_equal(name, *canonical ? canonical : file);
    close_folder(&o);
}

static void prefixes(void **state) {
    (void)state;
    expect_canonical("model.embed_tokens.weight", "model.norm.weight", "model.norm.weight");
    expect_canonical("model.embed_tokens.weight", "lm_head.weight", "lm_head.weight");
    expect_canonical("language_model.model.embed_tokens.weight", "language_model.model.norm.weight",
                     "model.norm.weight");
    expect_canonical("language_model.model.embed_tokens.weight", "language_model.lm_head.weight",
                     "lm_head.weight");
    expect_canonical("model.language_model.embed_tokens.weight", "model.language_model.norm.weight",
                     "model.norm.weight");
    expect_canonical("embed_tokens.weight", "layers.0.mlp.up_proj.weight",
                     "model.layers.0.mlp.up_proj.weight");
    expect_canonical("embed_tokens.weight", "lm_head.weight", "lm_head.weight");
    /* "" as canonical name: dropped */
    expect_canonical("model.embed_tokens.weight", "model.layers.0.self_attn.rotary_emb.inv_freq",
                     "");
    expect_canonical("model.embed_tokens.weight", "model.layers.0.self_attn.rotary_emb.cos_cached",
                     "");
    expect_canonical("model.embed_tokens.weight", "model.vision_tower.x.weight", "");
    expect_canonical("model.embed_tokens.weight", "vision_tower.x.weight", "");
    expect_canonical("model.embed_tokens.weight", "mtp.layers.0.mlp.up_proj.weight",
                     ""); /* drafts */
    expect_canonical("model.embed_tokens.weight", "model.visual.x.weight", "");
    expect_canonical("model.embed_tokens.weight", "multi_modal_projector.x.weight", "");
}

/* Data may lie anywhere; vectors are handed out aligned, with the file's values. */
static void unaligned_vector(void **state) {
    (void)state;
    opened o = {0};
    const weight_vector *v = NULL;
    open_folder(&o, "{}", TENSOR("v", "F32", "[2]", 3, 11) "," TENSOR("w", "F32", "[2]", 17, 25));
    static const char *const names[] = {"v", "w"};
    for (int i = 0; i < 2; i++) {
        uint8_t first = i ? 17 : 3;
        assert_int_equal(mica_weights_vector(o.store, names[i], 2, &v, NULL), MICA_OK);
        assert_int_equal((uintptr_t)v->data % 4, 0);
        assert_int_equal(((const uint8_t *)v->data)[0], first);
        assert_int_equal(((const uint8_t *)v->data)[7], first + 7);
    }
    close_folder(&o);
}

static void map_comes_first(void **state) {
    (void)state;
    opened o = {0};
    mica_error err = {0};
    const weight_matrix *m = NULL;
    open_folder(&o, "{}", TENSOR("m.weight", "F32", "[2,8]", 0, 64));
    assert_int_equal(mica_weights_matrix(o.store, "m", 0, 2, 8, &m, &err), MICA_OK);
    assert_int_equal(mica_weight_bytes(m), 64);
    assert_int_equal(mica_weights_set_quantization(o.store, mica_folder_config(o.folder), &err),
                     MICA_E_STATE);
    assert_false(mica_weights_is_gguf(o.store));
    close_folder(&o);
}

/* ---- panels: what is made at the start has the rows that lie in the file ---- */

/* 32 rows of 64 elements, in one matrix or two. */
static const char *const panel_tensors[] = {
    TENSOR("m.weight", "U32", "[32,8]", 0, 1024) "," TENSOR("m.scales", "F16", "[32,2]", 1024,
                                                            1152) "," TENSOR("m.biases", "F16",
                                                                             "[32,2]", 1152, 1280),
    TENSOR("m.weight", "U32", "[2,16,8]", 0,
           1024) "," TENSOR("m.scales", "BF16", "[2,16,2]", 1024,
                            1152) "," TENSOR("m.biases", "BF16", "[2,16,2]", 1152, 1280),
    TENSOR("m.weight", "U32", "[32,8]", 0, 1024) "," TENSOR("m.scales", "F32", "[32,2]", 1024,
                                                            1280) "," TENSOR("m.biases", "F32",
                                                                             "[32,2]", 1280, 1536),
    TENSOR("m.weight", "U32", "[32,8]", 0, 1024) "," TENSOR("m.scales", "U8", "[32,2]", 1024, 1088),
};

static const weight_matrix *take_module(opened *o, bool experts) {
    mica_error err = {0};
    const weight_matrix *m = NULL;
    if (mica_weights_set_quantization(o->store, mica_folder_config(o->folder), &err) ||
        mica_weights_matrix(o->store, "m", experts ? 2 : 0, experts ? 16 : 32, 64, &m, &err))
        fail_msg("%s", err.message);
    return m;
}

static void check_same_rows(const weight_matrix *a, const weight_matrix *b) {
    float row_a[64], row_b[64];
    for (int64_t r = 0; r < 32; r++) {
        mica_weight_row(a, r, row_a);
        mica_weight_row(b, r, row_b);
        assert_memory_equal(row_a, row_b, sizeof(row_a));
    }
}

static void panels(void **state) {
    (void)state;
    mica_pool *pool = NULL;
    mica_error err = {0};
    assert_int_equal(mica_pool_new(&pool, 2, &err), MICA_OK);
    for (size_t i = 0; i < sizeof(panel_tensors) / sizeof(*panel_tensors); i++) {
        bool fp = strstr(panel_tensors[i], "U8"), experts = strstr(panel_tensors[i], "[2,");
        const char *config = fp ? MAP("\"bits\":4,\"group_size\":32,\"mode\":\"mxfp4\"")
                                : MAP("\"bits\":4,\"group_size\":32");
        opened plain = {0}, made = {0}, early = {0};
        open_sized(&plain, config, panel_tensors[i], 1536, false);
        open_sized(&made, config, panel_tensors[i], 1536, true);
        open_sized(&early, config, panel_tensors[i], 1536, true);
        const weight_matrix *a = take_module(&plain, experts), *b = take_module(&made, experts);
        const weight_matrix *c = take_module(&early, experts);
        assert_false(a->panels);
        assert_true(b->panels);
        assert_int_equal(mica_weights_prepare(made.store, pool, NULL, &err), MICA_OK);
        check_same_rows(a, b);
        assert_int_equal(mica_weights_ready(early.store, c, &err), MICA_OK);
        check_same_rows(a, c); /* before the others are made, and after */
        assert_int_equal(mica_weights_prepare(early.store, pool, NULL, &err), MICA_OK);
        check_same_rows(a, c);
        close_folder(&plain);
        close_folder(&made);
        close_folder(&early);
    }
    mica_pool_free(pool);
}

/* Rows that are only looked up stay where they lie. */
static void where_panels_are(void **state) {
    (void)state;
    static const char *const embedding =
        TENSOR("model.embed_tokens.weight", "U32", "[32,8]", 0, 1024) "," TENSOR(
            "model.embed_tokens.scales", "F16", "[32,2]", 1024,
            1152) "," TENSOR("model.embed_tokens.biases", "F16", "[32,2]", 1152, 1280);
    for (int i = 0; i < 2; i++) {
        char tensors[900];
        opened o = {0};
        mica_error err = {0};
        const weight_matrix *m = NULL;
        snprintf(tensors, sizeof(tensors), "%s%s", embedding,
                 i ? "," TENSOR("lm_head.weight", "F32", "[2,8]", 1280, 1344) : "");
        open_sized(&o, MAP("\"bits\":4,\"group_size\":32"), tensors, 1344, true);
        assert_int_equal(mica_weights_set_quantization(o.store, mica_folder_config(o.folder), &err),
                         MICA_OK);
        assert_int_equal(mica_weights_matrix(o.store, "model.embed_tokens", 0, 32, 64, &m, &err),
                         MICA_OK);
        assert_int_equal(m->panels, i == 0); /* it is the head, too */
        close_folder(&o);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_mlx),       cmocka_unit_test(quantization_maps),
        cmocka_unit_test(prefixes),         cmocka_unit_test(unaligned_vector),
        cmocka_unit_test(map_comes_first),  cmocka_unit_test(panels),
        cmocka_unit_test(where_panels_are),
    };
    return cmocka_run_group_tests_name("weights_folder", tests, NULL, NULL);
}
