/* test_weights_faults.c: each allocation of opening and loading fails in turn; the answer is "out
 * of memory" each time and nothing stays allocated.
 */
#include "golden.h"

#include "base/alloc.h"
#include "weights/weights.h"

/* The linker puts these in front of the allocator (see meson.build). */
void *__real_mica_malloc(size_t n);
void *__real_mica_calloc(size_t count, size_t size);
void *__real_mica_realloc(void *p, size_t n);
void *__real_mica_aligned_alloc(size_t alignment, size_t n);
void __real_mica_free(void *p);
void *__wrap_mica_malloc(size_t n);
void *__wrap_mica_calloc(size_t count, size_t size);
void *__wrap_mica_realloc(void *p, size_t n);
void *__wrap_mica_aligned_alloc(size_t alignment, size_t n);
void __wrap_mica_free(void *p);

static long countdown; /* the allocation after this many fails; negative: none */
static long n_live;

static bool fails(void) { return countdown >= 0 && countdown-- == 0; }

static void *count(void *p) {
    n_live += p != NULL;
    return p;
}

void *__wrap_mica_malloc(size_t n) { return fails() ? NULL : count(__real_mica_malloc(n)); }
void *__wrap_mica_calloc(size_t n, size_t size) {
    return fails() ? NULL : count(__real_mica_calloc(n, size));
}
void *__wrap_mica_aligned_alloc(size_t alignment, size_t n) {
    return fails() ? NULL : count(__real_mica_aligned_alloc(alignment, n));
}
void *__wrap_mica_realloc(void *p, size_t n) {
    if (fails()) return NULL;
    void *q = __real_mica_realloc(p, n);
    if (!p) n_live += q != NULL;
    return q;
}
void __wrap_mica_free(void *p) {
    n_live -= p != NULL;
    __real_mica_free(p);
}

static mica_status take_all(weight_store *store, mica_error *err) {
    for (size_t i = 0; i < mica_weights_count(store); i++) {
        const char *name = NULL;
        const weight_matrix *m = NULL;
        const weight_vector *v = NULL;
        char path[128];
        const file_tensor *t = mica_weights_at(store, i, &name);
        size_t n = strlen(name);
        mica_status st = MICA_OK;
        if (n > 7 && !strcmp(name + n - 7, ".weight")) {
            snprintf(path, sizeof(path), "%.*s", (int)n - 7, name);
            st = mica_weights_matrix(store, path, t->n_dims == 3 ? -1 : 0, -1, -1, &m, err);
        } else if (!strncmp(name, "expected.", 9)) {
            st = mica_weights_vector(store, name, -1, &v, err);
        }
        if (st) return st;
    }
    return mica_weights_audit(store, err);
}

static mica_status load_folder(mica_error *err) {
    hf_folder *folder = NULL;
    weight_store *store = NULL;
    mica_status st = mica_folder_open(&folder, GOLDEN "/mlx_weights", err);
    if (!st) st = mica_folder_open_tensors(folder, err);
    if (!st) st = mica_weights_open_folder(&store, folder, NULL, err);
    if (!st) st = mica_weights_set_quantization(store, mica_folder_config(folder), err);
    if (!st) st = take_all(store, err);
    mica_weights_close(store);
    mica_folder_close(folder);
    return st;
}

static scratch files; /* a sharded folder and a GGUF file */

static mica_status load_sharded(mica_error *err) {
    hf_folder *folder = NULL;
    mica_status st = mica_folder_open(&folder, files.folder, err);
    if (!st) st = mica_folder_open_tensors(folder, err);
    mica_folder_close(folder);
    return st;
}

static mica_status load_gguf(mica_error *err) {
    gguf_file *f = NULL;
    weight_store *store = NULL;
    mica_status st = mica_gguf_open(&f, scratch_path(&files, "m.gguf"), err);
    if (!st) st = mica_weights_open_gguf(&store, f, NULL, err);
    if (!st) st = take_all(store, err);
    mica_weights_close(store);
    mica_gguf_close(f);
    return st;
}

static void fail_each(mica_status (*load)(mica_error *err), long at_least) {
    mica_error err = {0};
    n_live = 0;
    for (long n = 0;; n++) {
        countdown = n;
        mica_status st = load(&err);
        bool has_failed = countdown < 0;
        countdown = -1;
        assert_int_equal(n_live, 0);
        if (!has_failed) {
            if (st) fail_msg("%s", err.message);
            assert_true(n >= at_least);
            return;
        }
        if (st != MICA_E_NOMEM) fail_msg("allocation %ld: status %d: %s", n, (int)st, err.message);
        assert_non_null(strstr(err.message, "out of memory"));
    }
}

static void folder_faults(void **state) {
    (void)state;
    fail_each(load_folder, 20);
}

static void sharded_faults(void **state) {
    (void)state;
    fail_each(load_sharded, 15);
}

static void gguf_faults(void **state) {
    (void)state;
    fail_each(load_gguf, 8);
}

static int setup(void **state) {
    (void)state;
    bytes b = {0};
    make_scratch(&files);
    write_text(&files, "config.json", "{}");
    write_text(&files, "generation_config.json", "{\"a\": 1}");
    write_text(&files, "model.safetensors.index.json",
               "{\"weight_map\":{\"a\":\"x.safetensors\",\"b\":\"y.safetensors\"}}");
    put_safetensors(&b, "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1);
    write_scratch(&files, "x.safetensors", b.data, b.n, 0);
    b.n = 0;
    put_safetensors(&b, "{\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1);
    write_scratch(&files, "y.safetensors", b.data, b.n, 0);
    b.n = 0;
    put_gguf_head(&b, 3, 2, 1);
    put_kv_string(&b, "general.architecture", "llama");
    put_info(&b, "token_embd.weight", 2, (uint64_t[]){32, 2}, GGUF_Q8_0, 0);
    put_info(&b, "output.weight", 2, (uint64_t[]){256, 1}, GGUF_Q6_K, 96);
    pad_to(&b, 32);
    put_fill(&b, 1, 96 + 210);
    write_scratch(&files, "m.gguf", b.data, b.n, 0);
    bytes_free(&b);
    countdown = -1;
    return 0;
}

static int teardown(void **state) {
    (void)state;
    static const char *const names[] = {
        "config.json",   "generation_config.json", "model.safetensors.index.json",
        "x.safetensors", "y.safetensors",          "m.gguf"};
    remove_scratch(&files, names, 6);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folder_faults),
        cmocka_unit_test(sharded_faults),
        cmocka_unit_test(gguf_faults),
    };
    return cmocka_run_group_tests_name("weights_faults", tests, setup, teardown);
}
