/* tiny.c: reading ids.json and logits.npy, and running a checkpoint. */
#include "tiny.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmocka_base.h"

#include "base/file.h"
#include "base/json.h"

static int32_t *read_ids(const json_value *array, int64_t *n) {
    assert_non_null(array);
    *n = (int64_t)array->n;
    int32_t *out = calloc(array->n, sizeof(*out));
    for (size_t i = 0; i < array->n; i++)
        out[i] = (int32_t)mica_json_i64(array->items[i], -1);
    return out;
}

static void read_json(tiny *t) {
    char path[1200];
    mica_error err;
    mica_arena arena;
    json_value *root;
    mica_arena_init(&arena, 0);
    snprintf(path, sizeof(path), "%s/ids.json", t->path);
    if (mica_json_parse_file(&root, path, 1 << 20, false, &arena, &err))
        fail_msg("%s", err.message);
    t->ids = read_ids(mica_json_find(root, "prompt"), &t->n_ids);
    t->greedy = read_ids(mica_json_find(root, "greedy"), &t->n_greedy);
    const json_value *gap = mica_json_find(root, "gap");
    assert_true(gap && (int64_t)gap->n == t->n_greedy);
    t->gap = calloc(gap->n, sizeof(*t->gap));
    for (size_t i = 0; i < gap->n; i++)
        t->gap[i] = mica_json_double(gap->items[i], 0);
    mica_arena_deinit(&arena);
}

/* Version 1 of the format, float32, C order: what numpy.save writes. */
static void read_npy(tiny *t) {
    char path[1200], *data;
    size_t n_bytes;
    mica_error err;
    long long rows = 0, columns = 0;
    snprintf(path, sizeof(path), "%s/logits.npy", t->path);
    if (mica_file_read(&data, &n_bytes, path, (size_t)1 << 26, &err)) fail_msg("%s", err.message);
    assert_true(n_bytes > 10 && !memcmp(data, "\x93NUMPY\x01", 7));
    size_t header = 10 + (size_t)(uint8_t)data[8] + 256 * (size_t)(uint8_t)data[9];
    const char *shape = strstr(data + 10, "'shape': (");
    assert_non_null(strstr(data + 10, "'<f4'"));
    assert_true(shape && sscanf(shape + 10, "%lld, %lld", &rows, &columns) == 2);
    assert_int_equal(rows, t->n_ids);
    size_t n = (size_t)(rows * columns);
    assert_int_equal(n_bytes, header + 4 * n);
    t->n_vocab = columns;
    t->logits = malloc(4 * n);
    memcpy(t->logits, data + header, 4 * n);
    mica_free(data);
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        sum += (double)t->logits[i];
        squares += (double)t->logits[i] * (double)t->logits[i];
    }
    t->std = sqrt(squares / (double)n - sum / (double)n * (sum / (double)n));
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const tiny *)a)->name, ((const tiny *)b)->name);
}

tiny *tiny_load_all(const char *root, const char *filter, int *n) {
    DIR *dir = opendir(root);
    if (!dir) fail_msg("no folder %s", root);
    enum { MOST = 1024 };
    tiny *list = calloc(MOST, sizeof(*list));
    int found = 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        tiny *t = &list[found];
        char ids[1200];
        snprintf(t->name, sizeof(t->name), "%s", entry->d_name);
        snprintf(t->path, sizeof(t->path), "%s/%s", root, t->name);
        snprintf(ids, sizeof(ids), "%s/ids.json", t->path);
        if (t->name[0] == '.' || !mica_path_exists(ids)) continue;
        if (filter && !strstr(t->name, filter)) continue;
        read_json(t);
        read_npy(t);
        char **ggufs = NULL;
        size_t n_ggufs = 0;
        if (!mica_folder_list(&ggufs, &n_ggufs, t->path, "", ".gguf", NULL) && n_ggufs) {
            size_t end = strlen(t->path);
            snprintf(t->path + end, sizeof(t->path) - end, "/%s", ggufs[0]);
        }
        mica_names_free(ggufs, n_ggufs);
        if (++found == MOST) fail_msg("more than %d checkpoints in %s", MOST, root);
    }
    closedir(dir);
    if (!found) fail_msg("no checkpoints in %s", root);
    qsort(list, (size_t)found, sizeof(*list), by_name);
    *n = found;
    return list;
}

void tiny_free_all(tiny *list, int n) {
    for (int i = 0; i < n; i++) {
        free(list[i].ids);
        free(list[i].greedy);
        free(list[i].gap);
        free(list[i].logits);
    }
    free(list);
}

engine_options tiny_exact(bool f32) {
    return (engine_options){
        .exact = true, .has_dtype = f32, .dtype = MICA_F32, .n_threads = 1, .max_logits = 64};
}

engine *tiny_open(const char *path, const engine_options *options) {
    engine *e = NULL;
    mica_error err;
    if (mica_engine_open(&e, path, options, &err)) fail_msg("%s: %s", path, err.message);
    return e;
}

mica_status tiny_keep_row(void *user, int64_t i, const float *logits, mica_error *err) {
    tiny_rows *out = user;
    (void)err;
    assert_int_equal(i, out->next++);
    memcpy(out->rows + i * out->n_vocab, logits, (size_t)out->n_vocab * sizeof(float));
    return MICA_OK;
}

void tiny_logits(engine *e, const int32_t *ids, int64_t n, row_role role, float *out) {
    session *s;
    mica_error err;
    tiny_rows rows = {out, mica_engine_vocab_size(e), 0};
    eval_options options = {
        .role = role, .n_prompt = n, .all_logits = true, .on_logits = tiny_keep_row, .user = &rows};
    if (mica_session_new(&s, e, &err)) fail_msg("%s", err.message);
    if (mica_session_eval(s, ids, n, &options, &err)) fail_msg("%s", err.message);
    assert_int_equal(rows.next, n);
    mica_session_free(s);
}
