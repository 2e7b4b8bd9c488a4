/* test_format_folder.c: configs, shards with and without an index, and what can be wrong with them.
 */
#include "bytes.h"

#include "format/folder.h"
#include "format/name_index.h"

#define CONFIG "config.json"
#define GENERATION "generation_config.json"
#define INDEX "model.safetensors.index.json"
#define SHARD_1 "model-00001-of-00002.safetensors"
#define SHARD_2 "model-00002-of-00002.safetensors"

static const char *const all_names[] = {
    CONFIG, GENERATION, INDEX, SHARD_1, SHARD_2, "model.safetensors", "optiq_vision.safetensors"};

static void write_tensors(scratch *s, const char *file, const char *a, const char *b) {
    char header[512];
    bytes data = {0};
    snprintf(header, sizeof(header),
             "{\"%s\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}%s%s%s}", a,
             b ? ",\"" : "", b ? b : "",
             b ? "\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]}" : "");
    put_safetensors(&data, header, 3);
    write_scratch(s, file, data.data, data.n, 0);
    bytes_free(&data);
}

static int setup(void **state) {
    scratch *s = calloc(1, sizeof(*s));
    make_scratch(s);
    write_text(s, CONFIG, "{\"model_type\":\"llama\",\"big\":Infinity}");
    *state = s;
    return 0;
}

static int teardown(void **state) {
    scratch *s = *state;
    remove_scratch(s, all_names, sizeof(all_names) / sizeof(*all_names));
    free(s);
    return 0;
}

static hf_folder *open_config(const scratch *s) {
    hf_folder *folder = NULL;
    mica_error err = {0};
    if (mica_folder_open(&folder, s->folder, &err)) fail_msg("%s", err.message);
    return folder;
}

/* Opens the tensors and expects a failure whose message holds `part`. */
static void expect_bad(const scratch *s, mica_status status, const char *part) {
    hf_folder *folder = open_config(s);
    mica_error err = {0};
    mica_status st = mica_folder_open_tensors(folder, &err);
    if (st != status || !strstr(err.message, part))
        fail_msg("expected '%s': status %d, message '%s'", part, (int)st, err.message);
    assert_int_equal(mica_folder_n_tensors(folder), 0);
    mica_folder_close(folder);
}

static void configs(void **state) {
    scratch *s = *state;
    hf_folder *folder = open_config(s);
    assert_string_equal(mica_folder_path(folder), s->folder);
    assert_string_equal(
        mica_json_string(mica_json_find(mica_folder_config(folder), "model_type"), ""), "llama");
    assert_null(mica_folder_generation_config(folder));
    mica_folder_close(folder);
    write_text(s, GENERATION, "{\"temperature\": 0.5}");
    folder = open_config(s);
    assert_true(
        mica_json_double(mica_json_find(mica_folder_generation_config(folder), "temperature"), 0) ==
        0.5);
    mica_folder_close(folder);
    write_text(s, GENERATION, "{\"temperature\": ");
    folder = open_config(s);
    assert_null(mica_folder_generation_config(folder));
    mica_folder_close(folder);
    mica_folder_close(NULL);
}

static void bad_configs(void **state) {
    scratch *s = *state;
    hf_folder *folder = NULL;
    mica_error err = {0};
    write_text(s, CONFIG, "[1]");
    assert_int_equal(mica_folder_open(&folder, s->folder, &err), MICA_E_FORMAT);
    assert_non_null(strstr(err.message, "must be an object"));
    write_text(s, CONFIG, "{\"a\": 1");
    assert_int_equal(mica_folder_open(&folder, s->folder, &err), MICA_E_FORMAT);
    remove_file(s, CONFIG);
    assert_int_equal(mica_folder_open(&folder, s->folder, &err), MICA_E_NOT_FOUND);
    assert_non_null(strstr(err.message, "no config.json"));
    assert_int_equal(mica_folder_open(&folder, "/nonexistent", &err), MICA_E_NOT_FOUND);
    assert_null(folder);
}

static void without_index(void **state) {
    scratch *s = *state;
    expect_bad(s, MICA_E_NOT_FOUND, "no safetensors found in");
    write_tensors(s, SHARD_2, "c", NULL);
    expect_bad(s, MICA_E_NOT_FOUND, "the file " SHARD_1 ", which belongs to " SHARD_2);
    write_tensors(s, SHARD_1, "a", "b");
    write_tensors(s, "optiq_vision.safetensors", "vision", NULL);
    hf_folder *folder = open_config(s);
    assert_int_equal(mica_folder_open_tensors(folder, NULL), MICA_OK);
    assert_int_equal(mica_folder_n_tensors(folder), 3);
    assert_string_equal(mica_folder_tensor(folder, 0)->name, "a");
    assert_string_equal(mica_folder_tensor(folder, 2)->name, "c");
    assert_ptr_equal(mica_folder_find_tensor(folder, "b"), mica_folder_tensor(folder, 1));
    assert_int_equal(mica_folder_find_tensor(folder, "b")->data[0], 2);
    assert_null(mica_folder_find_tensor(folder, "vision"));
    assert_int_equal(mica_folder_n_unindexed(folder), 0);
    assert_true(mica_folder_file_bytes(folder) > 100);
    assert_int_equal(mica_folder_open_tensors(folder, NULL), MICA_E_STATE);
    assert_int_equal(mica_folder_n_tensors(folder), 3);
    mica_folder_close(folder);
    write_tensors(s, SHARD_2, "b", NULL);
    expect_bad(s, MICA_E_FORMAT, "earlier shard");
    write_text(s, SHARD_2, "short");
    expect_bad(s, MICA_E_FORMAT, SHARD_2);
}

static void with_index(void **state) {
    scratch *s = *state;
    write_tensors(s, SHARD_1, "a", "b");
    write_tensors(s, SHARD_2, "c", "a"); /* a second "a", which the index does not mean */
    write_tensors(s, "model.safetensors", "a", NULL); /* nor this file */
    write_text(s, INDEX,
               "{\"metadata\":{},\"weight_map\":{\"c\":\"" SHARD_2 "\",\"a\":\"" SHARD_1 "\"}}");
    hf_folder *folder = open_config(s);
    assert_int_equal(mica_folder_open_tensors(folder, NULL), MICA_OK);
    assert_int_equal(mica_folder_n_tensors(folder), 2);
    assert_int_equal(mica_folder_n_unindexed(folder), 2);
    assert_int_equal(mica_folder_find_tensor(folder, "a")->n_bytes, 2);
    assert_null(mica_folder_find_tensor(folder, "b"));
    mica_folder_close(folder);
}

static void bad_indexes(void **state) {
    scratch *s = *state;
    write_tensors(s, SHARD_1, "a", "b");
    write_text(s, INDEX, "{\"weight_map\":{\"a\":\"" SHARD_1 "\",\"c\":\"" SHARD_2 "\"}}");
    expect_bad(s, MICA_E_NOT_FOUND, SHARD_2 ", in which the index puts tensor 'c'");
    write_text(s, INDEX, "{\"weight_map\":{\"a\":\"" SHARD_1 "\",\"c\":\"" SHARD_1 "\"}}");
    expect_bad(s, MICA_E_FORMAT, "'c' is not in " SHARD_1);
    write_text(s, INDEX, "{\"weight_map\":{\"a\":\"../" SHARD_1 "\"}}");
    expect_bad(s, MICA_E_FORMAT, "no plain file name");
    write_text(s, INDEX, "{\"weight_map\":{\"a\":\"..\"}}");
    expect_bad(s, MICA_E_FORMAT, "no plain file name");
    write_text(s, INDEX, "{\"weight_map\":{\"a\":1}}");
    expect_bad(s, MICA_E_FORMAT, "no plain file name");
    write_text(s, INDEX, "{\"weight_map\":{}}");
    expect_bad(s, MICA_E_FORMAT, "weight_map");
    write_text(s, INDEX, "{\"metadata\":{}}");
    expect_bad(s, MICA_E_FORMAT, "weight_map");
    write_text(s, INDEX, "{\"weight_map\":{\"a\":\"" SHARD_1 "\",\"a\":\"" SHARD_1 "\"}}");
    expect_bad(s, MICA_E_FORMAT, "");
    write_text(s, INDEX, "nonsense");
    expect_bad(s, MICA_E_FORMAT, INDEX);
}

static void name_index_grows(void **state) {
    (void)state;
    enum { N = 20000 };
    char(*names)[16] = calloc(N, sizeof(*names));
    name_index index = {0};
    bool was_there = true;
    assert_int_equal(mica_name_index_find(&index, "0", 1), MICA_NAME_ABSENT);
    for (size_t i = 0; i < N; i++) {
        snprintf(names[i], sizeof(names[i]), "%zu", i * 7);
        assert_int_equal(
            mica_name_index_add(&index, names[i], strlen(names[i]), i, &was_there, NULL), MICA_OK);
        assert_false(was_there);
    }
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(mica_name_index_find(&index, names[i], strlen(names[i])), i);
        mica_name_index_add(&index, names[i], strlen(names[i]), N, &was_there, NULL);
        assert_true(was_there);
    }
    assert_int_equal(mica_name_index_find(&index, "8", 1), MICA_NAME_ABSENT);
    assert_int_equal(mica_name_index_find(&index, "70", 1), 1); /* the length counts: "7" */
    mica_name_index_deinit(&index);
    free(names);
}

#define FOLDER_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(configs),    FOLDER_TEST(bad_configs), FOLDER_TEST(without_index),
        FOLDER_TEST(with_index), FOLDER_TEST(bad_indexes), cmocka_unit_test(name_index_grows),
    };
    return cmocka_run_group_tests_name("format_folder", tests, NULL, NULL);
}
