/* test_weights_packed.c: matrices packed by other tools against what those tools' own code makes of
 * them (tests/golden/packed_weights), and the settings and shapes that must be refused.
 */
#include "golden.h"

#include <math.h>

#include "weights/weights.h"

#define N_OUT 32
#define N_IN 256

typedef struct opened {
    hf_folder *folder;
    weight_store *store;
} opened;

static mica_status open_at(opened *o, const char *path, mica_error *err) {
    mica_status st = mica_folder_open(&o->folder, path, err);
    if (!st) st = mica_folder_open_tensors(o->folder, err);
    if (!st) st = mica_weights_open_folder(&o->store, o->folder, NULL, err);
    if (!st) st = mica_weights_set_quantization(o->store, mica_folder_config(o->folder), err);
    return st;
}

static void close_all(opened *o) {
    mica_weights_close(o->store);
    mica_folder_close(o->folder);
}

/* ---- golden ---- */

typedef struct packed_case {
    const char *folder, *module, *form;
    double bound; /* of an error, relative to the largest weight; 0: none */
} packed_case;

/* f16 biases of 4-bit AWQ and GPTQ are rounded, as mlx-lm rounds them; a global scale of
 * compressed-tensors is inverted once instead of dividing each scale. */
static const packed_case packed_cases[] = {
    {"gptq", "zeros", "q4 g64 f16", 3e-4},
    {"gptq_v2", "zeros", "q4 g128 f16", 3e-4},
    {"gptq_q8", "zeros", "q8 g32 f32", 3e-7},
    {"gptq_channel", "zeros", "q4 g128 f16 zero 8", 0},
    {"awq", "zeros", "q4 g64 f16", 3e-4},
    {"ct_int4", "ct_int4", "q4 g32 f32 zero 8", 0},
    {"ct_int8", "ct_int8", "q8 g128 f32 zero 128", 0},
    {"ct_zero", "ct_zero", "q4 g64 f32", 0},
    {"ct_channel", "ct_channel", "q4 g128 f32 zero 8", 0},
    {"ct_nvfp4", "ct_nvfp4", "e2m1 g16 e4m3", 3e-7},
    {"ct_mxfp4", "ct_mxfp4", "e2m1 g32 e8m0", 0},
    {"modelopt", "nvfp4", "e2m1 g16 e4m3", 0},
    {"fp8_block", "fp8_block", "e4m3 g64 f32", 0},
    {"fp8_row", "fp8_row", "e4m3 g128 f32", 0},
    {"fp8_tensor", "fp8_tensor", "e4m3 g128 f32", 0},
    {"fp8_mx", "fp8_mx", "e4m3 g32 e8m0", 0},
};

static double largest(const float *x, int n) {
    double max = 0;
    for (int i = 0; i < n; i++)
        max = fabs((double)x[i]) > max ? fabs((double)x[i]) : max;
    return max;
}

static void check_case(const packed_case *c) {
    char path[512], form[64], name[64];
    opened o = {0};
    mica_error err = {0};
    const weight_matrix *m = NULL;
    const weight_vector *expected = NULL;
    snprintf(path, sizeof(path), "%s/packed_weights/%s", GOLDEN, c->folder);
    if (open_at(&o, path, &err)) fail_msg("%s", err.message);
    snprintf(name, sizeof(name), "m.%s", c->module);
    assert_int_equal(mica_weights_rows(o.store, name), N_OUT);
    if (mica_weights_matrix(o.store, name, 0, N_OUT, N_IN, &m, &err)) fail_msg("%s", err.message);
    mica_weight_form_text(&m->form, form, sizeof(form));
    assert_string_equal(form, c->form);
    snprintf(name, sizeof(name), "expected.%s", c->module);
    if (mica_weights_vector(o.store, name, N_OUT * N_IN, &expected, &err))
        fail_msg("%s", err.message);
    assert_int_equal(mica_weights_audit(o.store, &err), MICA_OK);
    const float *w = expected->data;
    double bound = c->bound * largest(w, N_OUT * N_IN);
    for (int r = 0; r < N_OUT; r++) {
        float row[N_IN];
        mica_weight_row(m, r, row);
        for (int i = 0; i < N_IN; i++)
            if (!(fabs((double)row[i] - (double)w[r * N_IN + i]) <= bound))
                fail_msg("%s row %d element %d: %.9g, expected %.9g", c->folder, r, i,
                         (double)row[i], (double)w[r * N_IN + i]);
    }
    close_all(&o);
}

static void golden_packed(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof(packed_cases) / sizeof(*packed_cases); i++)
        check_case(&packed_cases[i]);
}

/* ---- what must be refused ---- */

typedef struct refused_case {
    const char *config;  /* quantization_config */
    const char *tensors; /* header of the shard; of 1024 bytes of data */
    mica_status status;
    const char *text; /* a part of the message */
} refused_case;

#define TENSOR(name, dtype, shape, end) \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" end "}"
#define QWEIGHT TENSOR("m.qweight", "I32", "[8,8]", "[0,256]")
#define SCALES TENSOR("m.scales", "F16", "[2,8]", "[256,288]")

static const refused_case refused_cases[] = {
    {"{\"quant_method\":\"bitnet\"}", QWEIGHT, MICA_E_UNSUPPORTED, "quant_method 'bitnet'"},
    {"{\"quant_method\":\"awq\",\"version\":\"gemv\"}", QWEIGHT, MICA_E_UNSUPPORTED,
     "awq version 'gemv'"},
    {"{\"quant_method\":\"awq\",\"bits\":3}", QWEIGHT, MICA_E_UNSUPPORTED, "bits 3"},
    {"{\"quant_method\":\"gptq\",\"bits\":2}", QWEIGHT, MICA_E_UNSUPPORTED, "bits 2"},
    {"{\"quant_method\":\"gptq\",\"checkpoint_format\":\"marlin\"}", QWEIGHT, MICA_E_UNSUPPORTED,
     "'marlin'"},
    {"{\"quant_method\":\"compressed-tensors\",\"format\":\"float-quantized\"}", QWEIGHT,
     MICA_E_UNSUPPORTED, "'float-quantized'"},
    {"{\"quant_method\":\"modelopt\",\"quant_algo\":\"FP8\"}", QWEIGHT, MICA_E_UNSUPPORTED,
     "quant_algo 'FP8'"},
    {"{\"quant_method\":\"fp8\",\"weight_block_size\":[0,128]}", QWEIGHT, MICA_E_FORMAT,
     "weight_block_size"},
    {"{\"quant_method\":\"gptq\",\"bits\":4}", QWEIGHT, MICA_E_NOT_FOUND, "m.scales"},
    {"{\"quant_method\":\"gptq\",\"bits\":4}",
     QWEIGHT "," TENSOR("m.scales", "F16", "[2,9]", "[256,292]"), MICA_E_FORMAT, "m.scales"},
    {"{\"quant_method\":\"gptq\",\"bits\":4}",
     QWEIGHT "," TENSOR("m.scales", "F16", "[3,8]", "[256,304]"), MICA_E_UNSUPPORTED,
     "3 scales for 64 inputs"},
    {"{\"quant_method\":\"gptq\",\"bits\":4}",
     QWEIGHT "," SCALES "," TENSOR("m.qzeros", "I32", "[2,2]", "[288,304]"), MICA_E_FORMAT,
     "m.qzeros"},
    /* no input in its own group */
    {"{\"quant_method\":\"gptq\",\"bits\":4}",
     QWEIGHT "," SCALES "," TENSOR("m.g_idx", "I32", "[64]", "[288,544]"), MICA_E_UNSUPPORTED,
     "activation order"},
    {"{\"quant_method\":\"awq\"}", QWEIGHT "," SCALES, MICA_E_FORMAT, "m.scales"},
    {"{\"quant_method\":\"compressed-tensors\",\"format\":\"pack-quantized\"}",
     TENSOR("m.weight_packed", "I32", "[8,8]", "[0,256]") "," TENSOR("m.weight_scale", "BF16",
                                                                     "[7,2]", "[256,284]"),
     MICA_E_FORMAT, "m.weight_scale"},
    {"{\"quant_method\":\"compressed-tensors\",\"format\":\"nvfp4-pack-quantized\"}",
     TENSOR("m.weight_packed", "U8", "[8,8]", "[0,64]") "," TENSOR("m.weight_scale", "F8_E4M3",
                                                                   "[8,1]", "[64,72]"),
     MICA_E_NOT_FOUND, "weight_global_scale"},
    {"{\"quant_method\":\"fp8\",\"weight_block_size\":[4,32]}",
     TENSOR("m.weight", "F8_E4M3", "[8,64]", "[0,512]") "," TENSOR("m.weight_scale_inv", "F32",
                                                                   "[2,3]", "[512,536]"),
     MICA_E_FORMAT, "weight_block_size"},
};

static void check_refused(const refused_case *c) {
    static const char *const names[] = {"config.json", "model.safetensors"};
    char text[1024];
    scratch folder;
    opened o = {0};
    bytes b = {0};
    mica_error err = {0};
    const weight_matrix *m = NULL;
    make_scratch(&folder);
    snprintf(text, sizeof(text), "{\"quantization_config\":%s}", c->config);
    write_text(&folder, "config.json", text);
    snprintf(text, sizeof(text), "{%s}", c->tensors);
    put_safetensors(&b, text, 1024);
    write_scratch(&folder, "model.safetensors", b.data, b.n, 0);
    mica_status st = open_at(&o, folder.folder, &err);
    if (!st) st = mica_weights_matrix(o.store, "m", 0, -1, -1, &m, &err);
    if (st != c->status || !strstr(err.message, c->text))
        fail_msg("%s: status %d, '%s'; expected %d and '%s'", c->config, (int)st, err.message,
                 (int)c->status, c->text);
    close_all(&o);
    bytes_free(&b);
    remove_scratch(&folder, names, 2);
}

static void refused(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof(refused_cases) / sizeof(*refused_cases); i++)
        check_refused(&refused_cases[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_packed),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests_name("weights_packed", tests, NULL, NULL);
}
